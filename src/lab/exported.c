// SPDX-License-Identifier: Apache-2.0
#include "lab/exported.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo_import.h"
#include "lab/exported_names.h"
#include "num/convert.h"

#define MAX_INPUT_BYTES ((size_t)16 << 30)

// ---- random arguments

// xorshift64*: any stream will do, it only has to be the same for the same seed.
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

static void random_integers(enum dtype type, const char *name, uint64_t *state, size_t n, uint8_t *dst)
{
    size_t size = (size_t)dtype_bits(type) / 8;
    bool mask = strcmp(name, "attention_mask") == 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = next_random(state) >> 16;
        if (size == 1 && type != DT_PRED)
            v = (uint64_t)((int64_t)(v % 255) - 127);
        else if (type == DT_S32)
            v = mask ? 1 : 1000 + v % 20000;
        else
            v = v & 1;
        memcpy(dst + i * size, &v, size); // the low bytes
    }
}

int random_argument(const struct shape *s, const char *name, uint64_t seed, void *dst, struct error *err)
{
    size_t n = (size_t)shape_elements(s);
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 0x853c49e6748fea9bull;
    if (!dtype_is_float(s->dtype) && dtype_info(s->dtype)->kind != DTK_COMPLEX && dtype_bits(s->dtype) >= 8) {
        random_integers(s->dtype, name, &state, n, dst);
        return 0;
    }
    float *values = malloc((n ? n : 1) * sizeof *values);
    if (!values)
        return error_set(err, ERR_MEMORY, name, "no memory for %zu values", n);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(next_random(&state) >> 40) * 0x1p-23f - 1;
    int rc = convert_elements(s->dtype, dst, DT_F32, values, n, err);
    free(values);
    return rc;
}

// ---- messages

static const char *shape_text(struct arena *a, enum dtype t, int rank, const int64_t *dims, struct error *err)
{
    struct str s;
    struct shape shape = shape_of(t, rank, dims);
    str_init(&s);
    shape_print(&s, &shape);
    const char *text = arena_strdup(a, str_text(&s), err);
    str_release(&s);
    return text ? text : "";
}

static const char *argument_text(struct arena *a, const struct argument *g, struct error *err)
{
    return shape_text(a, g->shape.dtype, g->shape.rank, g->shape.dims, err);
}

// ---- weights

static int open_weights(const struct exported_options *o, struct checkpoint *c, bool *opened, struct arena *arena,
                        struct names *names, struct error *err)
{
    int rc = checkpoint_open(c, o->weights, err);
    if (rc)
        return rc;
    *opened = true;
    const char **list = (const char **)arena_alloc(arena, c->count, sizeof(void *), err);
    if (!list)
        return ERR_MEMORY;
    for (size_t i = 0; i < c->count; i++)
        list[i] = c->tensors[i].name;
    return names_open(names, list, c->count, o->weights, "tensor", arena, err);
}

// A float of fewer bits than the parameter holds every value of, exactly.
static bool widens(enum dtype from, enum dtype to)
{
    return from == to || ((from == DT_BF16 || from == DT_F16) && (to == DT_F32 || to == DT_F64)) ||
           (from == DT_F32 && to == DT_F64);
}

static int wrong_kind(const struct exported *e, int i, const char *what, const char *from, const char *got,
                      const char *hint, struct arena *arena, struct error *err)
{
    const struct argument *g = &e->arguments[i];
    return error_set(err, ERR_INPUT, from, "the %s is %s, but argument %d '%s' is %s%s", what, got, i, g->name,
                     argument_text(arena, g, err), hint);
}

static bool is_transposed(const struct shape *s, int rank, const int64_t *dims)
{
    return rank == 2 && s->rank == 2 && dims[0] == s->dims[1] && dims[1] == s->dims[0] && dims[0] != dims[1];
}

static int bind_weight(struct exported *e, int i, const struct checkpoint *c, size_t tensor, struct arena *arena,
                       struct error *err)
{
    struct argument *g = &e->arguments[i];
    struct parameter *p = e->module.n_parameters ? &e->module.parameters[i] : NULL;
    const struct tensor_view *v = &c->tensors[tensor];
    struct shape own = shape_of(v->dtype, v->rank, v->dims);
    const char *got = v->blocks ? tensor_type_name(v) : shape_text(arena, v->dtype, v->rank, v->dims, err);
    if (v->blocks || !shape_same_dims(&own, &g->shape))
        return wrong_kind(e, i, "tensor", v->name, got,
                          v->blocks                                    ? "; blocks cannot be given to a program"
                          : is_transposed(&g->shape, v->rank, v->dims) ? ": transpose it, or export the program with it"
                                                                       : "",
                          arena, err);
    if (!widens(v->dtype, g->shape.dtype))
        return wrong_kind(e, i, "tensor", v->name, got, ": save it in the argument's type", arena, err);
    g->source = ARGUMENT_TENSOR;
    g->from = arena_strdup(arena, v->name, err);
    if (!g->from)
        return ERR_MEMORY;
    if (!dtype_is_float(g->shape.dtype) &&
        !e->names_only) { // policies leave integers alone: an input that is always the same
        void *data = arena_alloc(arena, v->bytes, 1, err);
        g->data = data;
        g->role = ROLE_INPUT;
        return data ? checkpoint_read(c, v, data, err) : ERR_MEMORY;
    }
    g->role = ROLE_WEIGHT;
    e->has_weights = true;
    if (!p)
        return 0;
    p->role = ROLE_WEIGHT;
    p->binding = (struct binding){
        .n_sources = 1, .sources = {g->from}, .store = g->shape.dtype, .part = BIND_VALUES, .grain = GRAIN_TENSOR};
    return 0;
}

static int give_weights(struct exported *e, const struct exported_options *o, const struct checkpoint *c,
                        struct names *names, struct arena *arena, struct error *err)
{
    int64_t position = 0;
    int bound = 0;
    for (int i = 0; i < e->n_arguments; i++) {
        struct argument *g = &e->arguments[i];
        size_t tensor;
        if (o->weight_args && g->role != ROLE_WEIGHT)
            continue;
        int rc = names_find(names, g->name, position++, i, &tensor, err);
        if (!rc && tensor == NAMES_NONE && !o->weight_args)
            continue;
        if (!rc && tensor == NAMES_NONE)
            rc = names_missing(names, g->name, i, argument_text(arena, g, err), err);
        if (!rc)
            rc = bind_weight(e, i, c, tensor, arena, err);
        if (rc)
            return rc;
        bound++;
    }
    if (!bound)
        return error_set(err, ERR_INPUT, o->weights,
                         "none of its %zu tensors is named like an argument of the program ('%s', ...): name them so, "
                         "or call them 0, 1, ... and say --weight-args N..M",
                         c->count, e->n_arguments ? e->arguments[0].name : "");
    e->n_unused = names_unused(names, NULL);
    return 0;
}

// ---- inputs

// Whether the argument's type can hold what the array has; of integers their values decide.
static int check_input(const struct exported *e, int i, const struct npz_array *a, struct arena *arena,
                       struct error *err)
{
    enum dtype to = e->arguments[i].shape.dtype, from = a->dtype;
    bool integers = dtype_is_integer(from) && dtype_is_integer(to) && dtype_bits(to) >= 8;
    if (widens(from, to) || integers)
        return 0;
    return wrong_kind(e, i, "array", a->name, shape_text(arena, from, a->rank, a->dims, err),
                      ": save it in that type, as with .astype", arena, err);
}

// Converts what the file holds to the argument's type, where that loses nothing.
static int convert_input(const struct exported *e, int i, const struct npz_array *a, const void *raw, void *out,
                         struct arena *arena, struct error *err)
{
    const struct argument *g = &e->arguments[i];
    enum dtype to = g->shape.dtype, from = a->dtype;
    bool integers = dtype_is_integer(from) && dtype_is_integer(to);
    int rc = check_input(e, i, a, arena, err);
    if (!rc)
        rc = convert_elements(to, out, from, raw, a->elements, err);
    if (rc || !integers || from == to)
        return rc;
    void *back = malloc(a->bytes ? a->bytes : 1);
    if (!back)
        return error_set(err, ERR_MEMORY, a->name, "no memory for %zu bytes", a->bytes);
    rc = convert_elements(from, back, to, out, a->elements, err);
    if (!rc && a->bytes && memcmp(back, raw, a->bytes) != 0)
        rc = wrong_kind(e, i, "array", a->name, shape_text(arena, from, a->rank, a->dims, err),
                        ", which does not hold all its values", arena, err);
    free(back);
    return rc;
}

static int give_input(struct exported *e, int i, const struct npz *z, size_t which, struct arena *arena,
                      struct error *err)
{
    struct argument *g = &e->arguments[i];
    const struct npz_array *a = &z->arrays[which];
    struct shape one = shape_of(a->dtype, a->rank, a->dims), each = shape_of(a->dtype, 0, NULL);
    if (a->rank > 0)
        each = shape_of(a->dtype, a->rank - 1, a->dims + 1);
    g->per_case = !shape_same_dims(&one, &g->shape) && a->rank > 0 && shape_same_dims(&each, &g->shape);
    if (!g->per_case && !shape_same_dims(&one, &g->shape))
        return wrong_kind(e, i, "array", a->name, shape_text(arena, a->dtype, a->rank, a->dims, err),
                          " (one dimension more, in front, would be cases)", arena, err);
    if (g->per_case && (a->dims[0] < 1 || a->dims[0] > EXPORTED_MAX_CASES))
        return error_set(err, ERR_INPUT, a->name, "has %" PRId64 " cases; from 1 to %d can be run", a->dims[0],
                         EXPORTED_MAX_CASES);
    if (g->per_case && e->n_cases && e->n_cases != (size_t)a->dims[0])
        return error_set(err, ERR_INPUT, a->name, "has %" PRId64 " cases, but another array has %zu", a->dims[0],
                         e->n_cases);
    if (g->per_case)
        e->n_cases = (size_t)a->dims[0];
    g->source = ARGUMENT_ARRAY;
    g->from = arena_strdup(arena, a->name, err);
    if (!g->from)
        return ERR_MEMORY;
    if (e->names_only)
        return check_input(e, i, a, arena, err);
    size_t bytes;
    if (!dtype_bytes(g->shape.dtype, a->elements, &bytes) || bytes > MAX_INPUT_BYTES)
        return error_set(err, ERR_INPUT, a->name, "is larger than 16 GiB");
    void *out = arena_alloc(arena, bytes, 1, err), *raw = malloc(a->bytes ? a->bytes : 1);
    int rc = out && raw ? 0 : error_set(err, ERR_MEMORY, a->name, "no memory for %zu bytes", a->bytes);
    if (!rc)
        rc = npz_read(z, a, raw, err);
    if (!rc)
        rc = convert_input(e, i, a, raw, out, arena, err);
    free(raw);
    g->data = out;
    return rc;
}

static bool is_open(const struct argument *g)
{
    return g->role == ROLE_INPUT && g->source == ARGUMENT_RANDOM;
}

// What is missing may be a weight, where nobody said which are.
static int missing_input(const struct exported *e, int i, const struct names *names, struct arena *arena,
                         struct error *err)
{
    struct error missing = {0};
    int rc = names_missing(names, e->arguments[i].name, i, argument_text(arena, &e->arguments[i], err), &missing);
    bool weights = false;
    for (int k = 0; k < e->n_arguments; k++)
        weights |= e->arguments[k].role == ROLE_WEIGHT;
    return error_set(err, rc, missing.where, "%s%s", missing.message,
                     weights ? "" : "; if it is a weight, --weights or --weight-args says so");
}

static int give_arrays(struct exported *e, const struct npz *z, const char *path, struct arena *arena,
                       struct error *err)
{
    const char **list = (const char **)arena_alloc(arena, z->count, sizeof(void *), err);
    struct names names;
    int64_t position = 0, wanted = 0;
    if (!list)
        return ERR_MEMORY;
    for (size_t i = 0; i < z->count; i++)
        list[i] = z->arrays[i].name;
    int rc = names_open(&names, list, z->count, path, "array", arena, err);
    for (int i = 0; i < e->n_arguments; i++)
        wanted += is_open(&e->arguments[i]);
    if (!rc && (size_t)wanted < z->count)
        rc = error_set(err, ERR_INPUT, path,
                       "holds %zu arrays, but the program has %" PRId64 " input%s that %s not a weight (JAX leaves out "
                       "arguments that a function does not use)",
                       z->count, wanted, wanted == 1 ? "" : "s", wanted == 1 ? "is" : "are");
    for (int i = 0; i < e->n_arguments && !rc; i++) {
        size_t which = 0;
        if (!is_open(&e->arguments[i]))
            continue;
        // A single array without a name is the only input.
        if (z->count != 1 || *list[0] || wanted != 1)
            rc = names_find(&names, e->arguments[i].name, position++, i, &which, err);
        if (!rc && which == NAMES_NONE)
            rc = missing_input(e, i, &names, arena, err);
        if (!rc)
            rc = give_input(e, i, z, which, arena, err);
    }
    return rc;
}

// ---- opening

static int list_arguments(struct exported *e, struct arena *arena, struct error *err)
{
    const struct module *m = &e->module;
    e->n_arguments = m->n_parameters;
    e->arguments = arena_new(arena, struct argument, m->n_parameters, err);
    if (!e->arguments)
        return ERR_MEMORY;
    for (int i = 0; i < m->n_parameters; i++)
        e->arguments[i] = (struct argument){.name = m->parameters[i].name,
                                            .shape = m->instructions[m->parameters[i].instruction].shape,
                                            .role = m->parameters[i].role,
                                            .source = ARGUMENT_RANDOM};
    for (int i = 0; i < m->n_results; i++)
        e->values += (size_t)shape_elements(&m->instructions[m->results[i]].shape);
    return 0;
}

// Those of a program that there is no module of. What is no array of numbers is an argument of no type.
static int list_hlo_arguments(struct exported *e, struct arena *arena, struct error *err)
{
    const struct program *p = &e->program;
    const struct hlo_computation *c = p->hlo.entry;
    size_t n = 0;
    for (size_t i = 0; i < c->n_instructions; i++)
        n += hlo_is(&c->instructions[i], "parameter");
    if (n > INT_MAX || p->last_weight >= (int64_t)n)
        return error_set(err, ERR_USAGE, "--weight-args", "the program has %zu arguments, counted from 0", n);
    e->n_arguments = (int)n;
    e->arguments = arena_new(arena, struct argument, n, err);
    if (!e->arguments)
        return ERR_MEMORY;
    for (size_t i = 0; i < c->n_instructions; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        struct argument *g;
        if (!hlo_is(in, "parameter"))
            continue;
        if (in->parameter < 0 || in->parameter >= (int64_t)n || e->arguments[in->parameter].name)
            return error_set(err, ERR_INPUT, p->file.path, "an argument's number is missing or given twice");
        g = &e->arguments[in->parameter];
        g->name = hlo_argument_name(in, arena, err);
        if (!g->name)
            return ERR_MEMORY;
        if (in->shape.kind == HLO_ARRAY && in->shape.rank <= SHAPE_MAX_RANK)
            g->shape = shape_of(in->shape.dtype, in->shape.rank, in->shape.dims);
        g->role = in->parameter >= p->first_weight && in->parameter <= p->last_weight ? ROLE_WEIGHT : ROLE_INPUT;
        g->source = ARGUMENT_RANDOM;
    }
    return 0;
}

// Weights and inputs to arguments that are listed.
static int give(struct exported *e, const struct exported_options *o, struct checkpoint *checkpoint, bool *opened,
                struct arena *arena, struct error *err)
{
    struct names names;
    struct npz z;
    int rc = 0;
    if (o->weights)
        rc = open_weights(o, checkpoint, opened, arena, &names, err);
    if (!rc && o->weights)
        rc = give_weights(e, o, checkpoint, &names, arena, err);
    if (!rc && o->inputs) {
        rc = npz_open(&z, o->inputs, err);
        if (!rc) {
            rc = give_arrays(e, &z, o->inputs, arena, err);
            npz_close(&z);
        }
    }
    e->n_cases = e->n_cases ? e->n_cases : 1;
    return rc;
}

static int open_program(struct exported *e, const struct exported_options *o, struct arena *arena, struct error *err)
{
    memset(e, 0, sizeof *e);
    e->seed = o->seed;
    e->inputs_path = o->inputs;
    e->options = *o;
    module_init(&e->module, arena, o->path);
    return program_open(&e->program, o->path, o->weight_args, o->lenient, arena, err);
}

int exported_open(struct exported *e, const struct exported_options *o, struct checkpoint *checkpoint, bool *opened,
                  struct arena *arena, struct error *err)
{
    *opened = false;
    int rc = open_program(e, o, arena, err);
    if (!rc)
        rc = program_module(&e->program, &e->module, err);
    if (!rc)
        rc = list_arguments(e, arena, err);
    return rc ? rc : give(e, o, checkpoint, opened, arena, err);
}

int exported_roles(struct exported *e, const struct exported_options *o, struct arena *arena, bool *rewritable,
                   struct error *why, struct error *err)
{
    struct checkpoint checkpoint;
    bool opened = false;
    int rc = open_program(e, o, arena, err);
    if (rc)
        return rc;
    e->names_only = true;
    rc = program_module(&e->program, &e->module, why);
    *rewritable = !rc;
    if (rc && rc != ERR_INPUT)
        return error_set(err, rc, why->where, "%s", why->message);
    if (rc)
        module_init(&e->module, arena, o->path);
    rc = *rewritable ? list_arguments(e, arena, err) : list_hlo_arguments(e, arena, err);
    if (!rc)
        rc = give(e, o, &checkpoint, &opened, arena, err);
    if (opened)
        checkpoint_close(&checkpoint);
    return rc;
}

int exported_argument(const struct exported *e, int i, size_t which, void *dst, struct error *err)
{
    const struct argument *g = &e->arguments[i];
    size_t bytes = (size_t)shape_bytes(&g->shape);
    if (!g->data)
        return random_argument(&g->shape, g->name, e->seed + (uint64_t)i, dst, err);
    if (bytes)
        memcpy(dst, (const uint8_t *)g->data + (g->per_case ? which * bytes : 0), bytes);
    return 0;
}

int exported_split(const struct exported *e, struct split *split, enum split_role role, struct error *err)
{
    size_t all = 0;
    int rc = 0;
    for (int i = 0; i < e->n_arguments; i++)
        all += e->arguments[i].role == ROLE_INPUT ? (size_t)shape_bytes(&e->arguments[i].shape) : 0;
    uint8_t *bytes = malloc(all ? all : 1);
    if (!bytes)
        return error_set(err, ERR_MEMORY, "a case", "no memory for %zu bytes", all);
    for (size_t k = 0; k < e->n_cases && !rc; k++) {
        char name[300];
        size_t at = 0;
        for (int i = 0; i < e->n_arguments && !rc; i++) {
            if (e->arguments[i].role != ROLE_INPUT)
                continue;
            rc = exported_argument(e, i, k, bytes + at, err);
            at += (size_t)shape_bytes(&e->arguments[i].shape);
        }
        snprintf(name, sizeof name, "%.250s, case %zu", e->inputs_path ? e->inputs_path : "random inputs", k);
        if (!rc)
            rc = split_add(split, role, name, bytes, all, err);
    }
    free(bytes);
    return rc;
}

// ---- what cannot be done with it

// Whether a value depends on argument i through what only moves or compares it, up to an index.
static bool is_index(const struct module *m, int parameter, struct arena *scratch)
{
    bool *reached = arena_new(scratch, bool, m->n_instructions, NULL);
    if (!reached)
        return false;
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        reached[i] = in->op == OP_PARAMETER && in->parameter == parameter;
        for (int k = 0; k < in->n_operands; k++) {
            bool from = reached[in->operands[k]];
            bool index = (in->op == OP_GATHER && k == 1) || (in->op == OP_DYNAMIC_SLICE && k >= 1) ||
                         (in->op == OP_DYNAMIC_UPDATE_SLICE && k >= 2);
            if (from && index)
                return true;
            reached[i] |= from && dtype_is_integer(in->shape.dtype);
        }
    }
    return false;
}

int exported_check_random(const struct exported *e, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < e->n_arguments && !rc; i++) {
        const struct argument *g = &e->arguments[i];
        struct arena scratch;
        if (!is_open(g) || !dtype_is_integer(g->shape.dtype))
            continue;
        arena_init(&scratch);
        rc = error_set(err, ERR_USAGE, "--inputs",
                       "is needed: argument %d '%s' is %s%s, of which random ones would mean nothing; floats alone are "
                       "made up",
                       i, g->name, argument_text(&scratch, g, err),
                       is_index(&e->module, i, &scratch) ? ", an index" : ", integers");
        arena_release(&scratch);
    }
    return rc;
}

int exported_check_policies(const struct exported *e, struct error *err)
{
    const struct module *m = &e->module;
    bool any = false;
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        enum dtype t = in->shape.dtype;
        any |= (in->op == OP_DOT || in->op == OP_CONVOLUTION) && dtype_is_float(t);
        any |= in->op == OP_PARAMETER && m->parameters[in->parameter].role == ROLE_WEIGHT && dtype_is_float(t);
    }
    if (!module_takes_policies(m))
        return module_check_policies(m, e->program.file.path, err);
    if (!any)
        return error_set(err, ERR_INPUT, e->program.file.path,
                         "has neither a product of floats nor a weight: there is nothing that a policy would change");
    return 0;
}

int exported_check_codes(const struct exported *e, const struct policy *p, struct error *err)
{
    bool weights = false;
    for (int i = 0; i < e->n_arguments; i++)
        weights |= e->arguments[i].role == ROLE_WEIGHT;
    if (!policy_has_scales(p->w) || module_contracted_unit(&e->module))
        return 0;
    return error_set(err, ERR_USAGE, p->name, "stores weight matrices as %s with scales, but %s has none: %s",
                     dtype_name(p->w), e->program.file.path,
                     weights ? "its weights are vectors, or kernels of convolutions"
                             : "say which arguments are weights (--weights FILE.safetensors, --weight-args N..M)");
}

// Of n values of a float type; doubles hold all of them.
static int count_nonfinite(enum dtype type, const void *values, size_t n, size_t *bad, struct error *err)
{
    enum { AT_ONCE = 512 };
    double wide[AT_ONCE];
    int rc = 0;
    *bad = 0;
    for (size_t at = 0; at < n && !rc; at += AT_ONCE) {
        size_t m = n - at < AT_ONCE ? n - at : AT_ONCE;
        rc = convert_elements(DT_F64, wide, type, (const uint8_t *)values + at * (size_t)dtype_bits(type) / 8, m, err);
        for (size_t i = 0; i < m && !rc; i++)
            *bad += isfinite(wide[i]) ? 0 : 1;
    }
    return rc;
}

int exported_find_nonfinite(const struct exported *e, const struct checkpoint *checkpoint, char out[320],
                            struct error *err)
{
    out[0] = '\0';
    for (int i = 0; i < e->n_arguments && !out[0]; i++) {
        const struct argument *g = &e->arguments[i];
        size_t n = (size_t)shape_elements(&g->shape), bad = 0;
        enum dtype type = g->shape.dtype;
        if (g->source == ARGUMENT_RANDOM || !dtype_is_float(type) || dtype_bits(type) < 16)
            continue;
        n *= g->data && g->per_case ? e->n_cases : 1;
        void *values = g->data ? NULL : malloc((n ? n : 1) * (size_t)dtype_bits(type) / 8);
        if (!g->data && !values)
            return error_set(err, ERR_MEMORY, g->name, "no memory for %zu values", n);
        int rc = values ? checkpoint_read_as(checkpoint, checkpoint_find(checkpoint, g->from), type, values, err) : 0;
        if (!rc)
            rc = count_nonfinite(type, values ? values : g->data, n, &bad, err);
        free(values);
        if (rc)
            return rc;
        if (bad)
            snprintf(out, 320, "%s %d '%.100s' (\"%.100s\") holds %zu value%s that %s not finite",
                     g->data ? "input" : "weight", i, g->name, g->from, bad, bad == 1 ? "" : "s",
                     bad == 1 ? "is" : "are");
    }
    return 0;
}

int64_t exported_mask_rows(const struct exported *e, size_t cases)
{
    int64_t rows = 0;
    for (int i = 0; i < e->n_arguments; i++) {
        const struct argument *g = &e->arguments[i];
        size_t n = (size_t)shape_elements(&g->shape), size = n ? (size_t)shape_bytes(&g->shape) / n : 0;
        static const uint8_t zero[16];
        if (strcmp(g->name, "attention_mask") != 0 || size > sizeof zero)
            continue;
        for (size_t k = 0; k < cases * n; k++) // random floats are as good as never 0
            rows += !g->data || memcmp((const uint8_t *)g->data + (g->per_case ? k : k % n) * size, zero, size) != 0;
    }
    return rows;
}
