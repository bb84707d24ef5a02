// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/hlo_import_part.h"

enum { MAX_INSTRUCTIONS = 1 << 20 };

#define NAME(in)   (int)((in)->name.size < 80 ? (in)->name.size : 80), (const char *)(in)->name.data
#define OPCODE(in) (int)((in)->opcode.size < 40 ? (in)->opcode.size : 40), (const char *)(in)->opcode.data

int import_refuse(struct importing *s, const struct hlo_instruction *in, const char *why)
{
    return error_set(s->err, ERR_INPUT, s->o->name, "instruction '%.*s' (%.*s) cannot be rewritten: %s", NAME(in),
                     OPCODE(in), why);
}

int import_check(struct importing *s, const struct hlo_instruction *in)
{
    return s->b.error.code ? import_refuse(s, in, s->b.error.message) : 0;
}

bool hlo_is_optimised(const struct hlo_module *m)
{
    bool fused = m->is_scheduled;
    for (size_t i = 0; i < m->n_computations && !fused; i++)
        fused = m->computations[i].is_fusion;
    return fused;
}

// ---- Scopes

int hlo_scope(const struct hlo_instruction *in, struct arena *arena, const char **scope, struct error *err)
{
    struct slice name = in->metadata.op_name;
    *scope = "main";
    if (!name.size)
        return 0;
    // Of operations that became one ("jit(f)/a/reshape;jit(f)/b/dot_general") the first counts.
    const uint8_t *second = memchr(name.data, ';', name.size);
    const uint8_t *at = name.data, *last = second ? second : at + name.size;
    while (last > at && last[-1] != '/')
        last--;
    if (last == at)
        return 0;
    last--; // the slash before the operation
    // Functions that were traced: "jit(f)/", "pjit(g)/".
    for (;;) {
        const uint8_t *slash = memchr(at, '/', (size_t)(last - at)), *stop = slash ? slash : last;
        bool function = stop > at && stop[-1] == ')' && memchr(at, '(', (size_t)(stop - at));
        if (!function || at == last)
            break;
        at = slash ? slash + 1 : last;
    }
    if (at == last)
        return 0;
    *scope = arena_strndup(arena, (const char *)at, (size_t)(last - at), err);
    return *scope ? 0 : ERR_MEMORY;
}

int hlo_scope_group(const char *scope, struct arena *arena, const char **group, struct error *err)
{
    char *to = arena_strdup(arena, scope, err);
    *group = to;
    if (!to)
        return ERR_MEMORY;
    for (const char *at = scope; *at;) {
        if (!isdigit((unsigned char)*at)) {
            *to++ = *at++;
            continue;
        }
        *to++ = '*';
        while (isdigit((unsigned char)*at))
            at++;
    }
    *to = '\0';
    return 0;
}

static int enter(struct importing *s, const struct hlo_instruction *in)
{
    const char *scope, *group;
    int rc = hlo_scope(in, &s->scratch, &scope, s->err);
    if (!rc)
        rc = hlo_scope_group(scope, &s->scratch, &group, s->err);
    if (!rc)
        builder_scope(&s->b, group, "%s", scope);
    return rc;
}

// ---- Shapes

int import_shape(struct importing *s, const struct hlo_instruction *in, const struct hlo_shape *h, struct shape *out)
{
    if (h->kind != HLO_ARRAY || h->dtype == DT_INVALID)
        return import_refuse(s, in, "its type is no array of numbers");
    if (h->dynamic)
        return import_refuse(s, in, "its shape is dynamic");
    if (h->rank > SHAPE_MAX_RANK)
        return import_refuse(s, in, "it has more than 8 dimensions");
    if (s->spread && h->rank)
        return import_refuse(s, in, "inside a map only scalars are understood");
    *out = s->spread ? shape_with_dtype(*s->spread, h->dtype) : shape_of(h->dtype, h->rank, h->dims);
    return shape_check(out, s->o->name, s->err);
}

// ---- Parameters, calls, tuples

const char *hlo_argument_name(const struct hlo_instruction *in, struct arena *arena, struct error *err)
{
    struct slice name = in->metadata.op_name.size ? in->metadata.op_name : in->name;
    return arena_strndup(arena, (const char *)name.data, name.size, err);
}

static int import_parameter(struct importing *s, const struct hlo_instruction *in, struct shape shape, int *out)
{
    bool weight = in->parameter >= s->o->first_weight && in->parameter <= s->o->last_weight;
    const char *text = hlo_argument_name(in, s->b.module->arena, s->err);
    if (!text)
        return ERR_MEMORY;
    *out = weight ? build_weight(&s->b, text, shape) : build_parameter(&s->b, ROLE_INPUT, text, shape, NULL);
    return 0;
}

static int import_call(struct importing *s, const struct hlo_instruction *in, const struct value *operands, int depth,
                       struct value *out)
{
    if (in->n_called != 1)
        return import_refuse(s, in, "it calls no computation");
    if (depth >= IMPORT_MAX_CALLS)
        return import_refuse(s, in, "calls are nested deeper than 64");
    return import_computation(s, in->called[0], operands, in->n_operands, depth + 1, out);
}

static int import_tuple(struct importing *s, const struct hlo_instruction *in, const struct value *operands,
                        struct value *out)
{
    int *many = arena_new(&s->scratch, int, in->n_operands, s->err);
    if (!many)
        return ERR_MEMORY;
    for (size_t i = 0; i < in->n_operands; i++) {
        if (operands[i].many)
            return import_refuse(s, in, "a tuple of tuples");
        many[i] = operands[i].one;
    }
    *out = (struct value){-1, many, in->n_operands};
    return 0;
}

// What only names or annotates another value.
static bool is_name(const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    bool annotates = hlo_is(in, "custom-call") && (slice_is(a->custom_call_target, "Sharding") ||
                                                   slice_is(a->custom_call_target, "annotate_device_placement"));
    return in->n_operands == 1 && (hlo_is(in, "copy") || hlo_is(in, "opt-barrier") || annotates);
}

// Why an operation that the table lacks cannot be in it.
static const char *why_not(const struct hlo_instruction *in)
{
    static const struct {
        const char *opcode, *why;
    } reasons[] = {{"rng", "it draws other numbers in every run, so that no two results can be compared"},
                   {"infeed", "it reads from outside the program"},
                   {"outfeed", "it writes to outside the program"},
                   {"all-reduce", "it belongs to a program of several devices: export the one of a single device"},
                   {"all-gather", "it belongs to a program of several devices: export the one of a single device"},
                   {"all-to-all", "it belongs to a program of several devices: export the one of a single device"},
                   {"fft", "complex numbers have no precision policy"},
                   {"custom-call", "nobody here knows what the function that it calls computes"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (hlo_is(in, reasons[i].opcode))
            return reasons[i].why;
    }
    return "the operation is not in the table";
}

// An operation that gives one value.
static int import_single(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                         const struct value *operands, int *out)
{
    struct shape shape = {0};
    int values[OP_MAX_OPERANDS] = {0};
    if (import_opcode(in->opcode) == OP_COUNT && !hlo_is(in, "constant"))
        return import_refuse(s, in, why_not(in));
    int rc = import_shape(s, in, &in->shape, &shape);
    if (!rc && in->n_operands > OP_MAX_OPERANDS)
        rc = import_refuse(s, in, "it has more than 512 operands");
    for (size_t i = 0; i < in->n_operands && !rc; i++) {
        if (operands[i].many)
            rc = import_refuse(s, in, "it takes a tuple");
        values[i] = operands[i].one;
    }
    if (!rc)
        rc = enter(s, in);
    if (rc)
        return rc;
    rc = hlo_is(in, "constant") ? import_constant(s, in, a, shape, out)
                                : import_operation(s, in, a, &shape, values, out);
    if (!rc)
        rc = import_check(s, in);
    if (!rc && !shape_equal(builder_shape(&s->b, *out), &shape))
        rc = import_refuse(s, in, "the operation of the table gives another shape");
    return rc;
}

static int import_instruction(struct importing *s, const struct hlo_instruction *in, const struct value *operands,
                              int depth, struct value *out)
{
    struct hlo_attributes a;
    *out = (struct value){-1, NULL, 0};
    int rc = hlo_attributes_read(&a, s->m, in, &s->scratch, s->err);
    if (rc)
        return rc;
    if (hlo_is(in, "tuple"))
        return import_tuple(s, in, operands, out);
    if (hlo_is(in, "call"))
        return import_call(s, in, operands, depth, out);
    if (is_name(in, &a)) {
        *out = operands[0];
        return 0;
    }
    if (hlo_is(in, "get-tuple-element")) {
        if (in->n_operands != 1 || !operands[0].many || (uint64_t)in->tuple_index >= operands[0].n)
            return import_refuse(s, in, "it takes an element of no tuple");
        out->one = operands[0].many[in->tuple_index];
        return 0;
    }
    if (import_is_many(in, &a)) {
        rc = enter(s, in);
        return rc ? rc : import_many(s, in, &a, operands, depth, out);
    }
    return import_single(s, in, &a, operands, &out->one);
}

int import_computation(struct importing *s, const struct hlo_computation *c, const struct value *arguments,
                       size_t n_arguments, int depth, struct value *out)
{
    struct value *values = arena_new(&s->scratch, struct value, c->n_instructions, s->err), *operands;
    int rc = values ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < c->n_instructions && !rc; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        if (++s->n_visited > MAX_INSTRUCTIONS)
            return import_refuse(s, in, "with all calls written out there are more than 2^20 instructions");
        if (hlo_is(in, "parameter")) {
            if (in->parameter < 0 || (uint64_t)in->parameter >= n_arguments)
                return import_refuse(s, in, "the call gives no such argument");
            values[i] = arguments[in->parameter];
            continue;
        }
        operands = arena_new(&s->scratch, struct value, in->n_operands, s->err);
        if (!operands)
            return ERR_MEMORY;
        for (size_t k = 0; k < in->n_operands; k++)
            operands[k] = values[in->operands[k] - c->instructions];
        rc = import_instruction(s, in, operands, depth, &values[i]);
    }
    if (!rc)
        *out = values[c->root - c->instructions];
    return rc;
}

// The parameters by number, whatever order the instructions have: arguments are given by position.
static int import_arguments(struct importing *s, struct value **out)
{
    const struct hlo_computation *c = s->m->entry;
    size_t n = 0;
    for (size_t i = 0; i < c->n_instructions; i++)
        n += hlo_is(&c->instructions[i], "parameter");
    s->n_arguments = n;
    if (s->o->last_weight >= s->o->first_weight && (s->o->first_weight < 0 || s->o->last_weight >= (int64_t)n))
        return error_set(s->err, ERR_USAGE, "--weight-args", "the program has %zu arguments, counted from 0", n);
    const struct hlo_instruction **by_number =
        (const struct hlo_instruction **)arena_alloc(&s->scratch, n, sizeof(void *), s->err);
    *out = arena_new(&s->scratch, struct value, n, s->err);
    if (!by_number || !*out)
        return ERR_MEMORY;
    for (size_t i = 0; i < c->n_instructions; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        if (!hlo_is(in, "parameter"))
            continue;
        if (in->parameter < 0 || (uint64_t)in->parameter >= n || by_number[in->parameter])
            return import_refuse(s, in, "its number is missing or given twice");
        by_number[in->parameter] = in;
    }
    for (size_t i = 0; i < n; i++) {
        struct shape shape;
        (*out)[i] = (struct value){-1, NULL, 0};
        int rc = import_shape(s, by_number[i], &by_number[i]->shape, &shape);
        if (!rc)
            rc = enter(s, by_number[i]);
        if (!rc)
            rc = import_parameter(s, by_number[i], shape, &(*out)[i].one);
        if (!rc)
            rc = import_check(s, by_number[i]);
        if (rc)
            return rc;
    }
    return 0;
}

int hlo_import(const struct hlo_module *m, const struct hlo_import_options *o, struct module *out, struct error *err)
{
    struct importing s = {.m = m, .o = o, .err = err};
    struct value result, *arguments = NULL;
    arena_init(&s.scratch);
    builder_init(&s.b, out);
    int rc = hlo_is_optimised(m) ? error_set(err, ERR_INPUT, o->name,
                                             "is an optimised program; policies rewrite what was exported "
                                             "(*.before_optimizations)")
                                 : import_arguments(&s, &arguments);
    if (!rc)
        rc = import_computation(&s, m->entry, arguments, s.n_arguments, 0, &result);
    if (!rc && result.many) {
        for (size_t i = 0; i < result.n; i++) {
            char name[32];
            snprintf(name, sizeof name, "result.%zu", i);
            build_result(&s.b, name, result.many[i]);
        }
    } else if (!rc) {
        build_result(&s.b, "result", result.one);
    }
    if (!rc)
        rc = builder_finish(&s.b, err);
    arena_release(&s.scratch);
    return rc;
}
