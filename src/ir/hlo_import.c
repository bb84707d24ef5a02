// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_import.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "ir/builder.h"
#include "ir/hlo_attributes.h"
#include "ir/hlo_literal.h"
#include "num/convert.h"

enum { MAX_INSTRUCTIONS = 1 << 20, MAX_CALLS = 64, MAX_OPERANDS = 64 };

// What an instruction became: one value, or several for a tuple.
struct value {
    int one;
    const int *many;
    size_t n;
};

struct importing {
    const struct hlo_module *m;
    const struct hlo_import_options *o;
    struct builder b;
    struct arena scratch;
    struct error *err;
    size_t n_arguments, n_visited;
};

#define NAME(in)   (int)((in)->name.size < 80 ? (in)->name.size : 80), (const char *)(in)->name.data
#define OPCODE(in) (int)((in)->opcode.size < 40 ? (in)->opcode.size : 40), (const char *)(in)->opcode.data

static int refuse(struct importing *s, const struct hlo_instruction *in, const char *why)
{
    return error_set(s->err, ERR_INPUT, s->o->name, "instruction '%.*s' (%.*s) cannot be rewritten: %s", NAME(in),
                     OPCODE(in), why);
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

// ---- Shapes and constants

static int shape_of_hlo(struct importing *s, const struct hlo_instruction *in, struct shape *out)
{
    const struct hlo_shape *h = &in->shape;
    if (h->kind != HLO_ARRAY || h->dtype == DT_INVALID)
        return refuse(s, in, "its type is no array of numbers");
    if (h->dynamic)
        return refuse(s, in, "its shape is dynamic");
    if (h->rank > SHAPE_MAX_RANK)
        return refuse(s, in, "it has more than 8 dimensions");
    *out = shape_of(h->dtype, h->rank, h->dims);
    return shape_check(out, s->o->name, s->err);
}

// The elements as doubles, in row-major order; false where the message does not have them so.
static bool read_elements(const struct hlo_shape *h, struct slice literal, double *out, size_t n)
{
    const struct hlo_storage *storage = hlo_storage_of(h->dtype);
    const struct dtype_info *info = dtype_info(h->dtype);
    struct pb_field f;
    struct pb_reader r = pb_reader(literal.data, literal.size);
    size_t k = 0, size = (size_t)(info->bits + 7) / 8;
    while (storage && pb_next(&r, &f)) {
        const uint8_t *at, *end = hlo_packed(&f, &at);
        uint64_t bits = f.value;
        if (f.number != storage->number)
            continue;
        if (f.wire != PB_BYTES)
            return false;
        while (at < end && k < n) {
            bits = 0;
            if (storage->how == HLO_VARINTS) {
                at = pb_get_varint(at, end, &bits);
                if (!at)
                    return false;
            } else {
                if ((size_t)(end - at) < size)
                    return false;
                memcpy(&bits, at, size);
                at += size;
            }
            unsigned spare = 64 - (unsigned)info->bits;
            if (info->kind == DTK_SIGNED)
                out[k++] = (double)((int64_t)(bits << spare) >> spare);
            else if (info->kind != DTK_FLOAT)
                out[k++] = (double)(bits << spare >> spare);
            else if (convert_elements(DT_F64, &out[k++], h->dtype, &bits, 1, NULL))
                return false;
        }
    }
    return k == n;
}

static bool is_row_major(const struct hlo_shape *h)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(h->layout.data, h->layout.size);
    while (pb_next(&r, &f)) {
        const uint8_t *at, *end = hlo_packed(&f, &at);
        uint64_t d, want = (uint64_t)h->rank;
        while (f.number == 1 && at && at < end && (at = pb_get_varint(at, end, &d))) {
            if (d != --want)
                return false;
        }
    }
    return true;
}

static int import_constant(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                           struct shape shape, int *out)
{
    size_t n = (size_t)shape_elements(&shape);
    double *values = arena_new(&s->scratch, double, n, s->err);
    if (!values)
        return ERR_MEMORY;
    if (dtype_info(shape.dtype)->kind == DTK_COMPLEX || shape.dtype == DT_S64 || shape.dtype == DT_U64) {
        // 64-bit integers beyond 2^53 would change on their way through doubles.
        if (shape.rank || !dtype_is_integer(shape.dtype))
            return refuse(s, in, "constants of its type are not kept exactly");
    }
    if (!read_elements(&in->shape, a->literal, values, n) || !is_row_major(&in->shape))
        return refuse(s, in, "the file leaves out its values (take the .hlo.pb of the dump)");
    bool same = n > 0;
    for (size_t i = 1; i < n && same; i++)
        same = f64_bits(values[i]) == f64_bits(values[0]);
    *out = same ? build_splat(&s->b, shape, values[0]) : build_dense(&s->b, shape, values);
    return 0;
}

// ---- Operations

static const struct {
    const char *hlo;
    enum opcode op;
} elementwise[] = {{"abs", OP_ABS},
                   {"ceil", OP_CEIL},
                   {"cosine", OP_COSINE},
                   {"erf", OP_ERF},
                   {"exponential", OP_EXP},
                   {"exponential-minus-one", OP_EXPM1},
                   {"floor", OP_FLOOR},
                   {"is-finite", OP_IS_FINITE},
                   {"log", OP_LOG},
                   {"log-plus-one", OP_LOG1P},
                   {"logistic", OP_LOGISTIC},
                   {"negate", OP_NEGATE},
                   {"not", OP_NOT},
                   {"popcnt", OP_POPCNT},
                   {"round-nearest-even", OP_ROUND_NEAREST_EVEN},
                   {"rsqrt", OP_RSQRT},
                   {"sign", OP_SIGN},
                   {"sine", OP_SINE},
                   {"sqrt", OP_SQRT},
                   {"tanh", OP_TANH},
                   {"add", OP_ADD},
                   {"and", OP_AND},
                   {"divide", OP_DIVIDE},
                   {"maximum", OP_MAXIMUM},
                   {"minimum", OP_MINIMUM},
                   {"multiply", OP_MULTIPLY},
                   {"or", OP_OR},
                   {"power", OP_POWER},
                   {"remainder", OP_REMAINDER},
                   {"shift-left", OP_SHIFT_LEFT},
                   {"shift-right-arithmetic", OP_SHIFT_RIGHT_ARITHMETIC},
                   {"shift-right-logical", OP_SHIFT_RIGHT_LOGICAL},
                   {"subtract", OP_SUBTRACT},
                   {"xor", OP_XOR},
                   {"select", OP_SELECT},
                   {"clamp", OP_CLAMP},
                   {"reshape", OP_RESHAPE},
                   {"convert", OP_CONVERT},
                   {"bitcast-convert", OP_BITCAST_CONVERT},
                   {"compare", OP_COMPARE},
                   {"broadcast", OP_BROADCAST},
                   {"transpose", OP_TRANSPOSE},
                   {"iota", OP_IOTA},
                   {"slice", OP_SLICE},
                   {"concatenate", OP_CONCATENATE},
                   {"pad", OP_PAD},
                   {"reverse", OP_REVERSE},
                   {"dynamic-slice", OP_DYNAMIC_SLICE},
                   {"dynamic-update-slice", OP_DYNAMIC_UPDATE_SLICE},
                   {"gather", OP_GATHER},
                   {"dot", OP_DOT},
                   {"reduce", OP_REDUCE}};

static enum opcode find_op(struct slice opcode)
{
    for (size_t i = 0; i < sizeof elementwise / sizeof *elementwise; i++) {
        if (slice_is(opcode, elementwise[i].hlo))
            return elementwise[i].op;
    }
    return OP_COUNT;
}

static bool copy_dims(int64_t *to, int *n_to, const struct hlo_numbers *from)
{
    if (from->n > SHAPE_MAX_RANK)
        return false;
    for (size_t i = 0; i < from->n; i++)
        to[i] = from->at[i];
    *n_to = (int)from->n;
    return true;
}

static bool copy_ints(int *to, const struct hlo_numbers *from)
{
    for (size_t i = 0; i < from->n && from->n <= SHAPE_MAX_RANK; i++)
        to[i] = (int)from->at[i];
    return from->n <= SHAPE_MAX_RANK;
}

static bool import_dot(struct instruction *to, const struct hlo_attributes *a)
{
    const struct hlo_dot *d = &a->dot;
    to->dot.n_batch = (int)d->lhs_batch.n;
    to->dot.n_contract = (int)d->lhs_contracting.n;
    to->dot.precision = PRECISION_DEFAULT;
    for (size_t i = 0; i < a->precision.n; i++) {
        if (a->precision.at[i] > (int64_t)to->dot.precision && a->precision.at[i] <= PRECISION_HIGHEST)
            to->dot.precision = (enum dot_precision)a->precision.at[i];
    }
    return !a->algorithm && d->lhs_batch.n == d->rhs_batch.n && d->lhs_contracting.n == d->rhs_contracting.n &&
           !d->lhs_ragged.n && copy_ints(to->dot.lhs_batch, &d->lhs_batch) &&
           copy_ints(to->dot.rhs_batch, &d->rhs_batch) && copy_ints(to->dot.lhs_contract, &d->lhs_contracting) &&
           copy_ints(to->dot.rhs_contract, &d->rhs_contracting);
}

// The operation that a computation of two numbers applies to them, in either order where that is the same.
static enum opcode reducer_of(const struct hlo_computation *c)
{
    const struct hlo_instruction *root = c->root;
    enum opcode op = find_op(root->opcode);
    bool known =
        op == OP_ADD || op == OP_MULTIPLY || op == OP_MAXIMUM || op == OP_MINIMUM || op == OP_AND || op == OP_OR;
    return known && c->n_instructions == 3 && root->n_operands == 2 && hlo_is(root->operands[0], "parameter") &&
                   hlo_is(root->operands[1], "parameter") && root->operands[0] != root->operands[1]
               ? op
               : OP_COUNT;
}

// Rows along dimension 0, as embeddings are looked up: the only gather of the table.
static bool is_row_gather(const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    const struct hlo_gather *g = &a->gather;
    const struct hlo_shape *table = &in->operands[0]->shape, *indices = &in->operands[1]->shape;
    int64_t index_rank = indices->rank - (g->index_vector < indices->rank);
    bool ok = g->collapsed.n == 1 && g->collapsed.at[0] == 0 && g->start_map.n == 1 && g->start_map.at[0] == 0 &&
              !g->operand_batching.n && a->gather_slice_sizes.n == (size_t)table->rank && table->rank > 0 &&
              g->offset.n == (size_t)table->rank - 1 && g->index_vector >= indices->rank - 1;
    ok = ok && (g->index_vector == indices->rank || indices->dims[indices->rank - 1] == 1);
    for (size_t i = 0; i < g->offset.n && ok; i++)
        ok = g->offset.at[i] == index_rank + (int64_t)i && a->gather_slice_sizes.at[i + 1] == table->dims[i + 1];
    return ok && a->gather_slice_sizes.at[0] == 1;
}

static int like(struct importing *s, int x, const struct shape *shape)
{
    const struct shape *own = builder_shape(&s->b, x);
    return own->rank == 0 && shape->rank ? build_broadcast(&s->b, x, shape_with_dtype(*shape, own->dtype), (int[]){0})
                                         : x;
}

static int import_gather(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                         int *operands, int *out)
{
    if (!is_row_gather(in, a))
        return refuse(s, in, "it takes something else than rows of a table");
    const struct shape *indices = builder_shape(&s->b, operands[1]);
    if (a->gather.index_vector < indices->rank)
        operands[1] = build_reshape(&s->b, operands[1], indices->rank - 1, indices->dims);
    *out = build_gather(&s->b, operands[0], operands[1]);
    return 0;
}

static bool set_attributes(struct instruction *to, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    switch (to->op) {
    case OP_COMPARE:
        for (int i = 0; i < 6; i++) {
            if (slice_is(a->comparison_direction, directions[i])) {
                to->compare = (enum compare_direction)i;
                return !slice_is(a->comparison_type, "TOTALORDER");
            }
        }
        return false;
    case OP_IOTA:
    case OP_CONCATENATE:
        to->axis = a->dimensions.n ? a->dimensions.at[0] : 0;
        return true;
    case OP_BROADCAST:
    case OP_TRANSPOSE:
    case OP_REVERSE:
        return copy_dims(to->a, &to->n_a, &a->dimensions);
    case OP_REDUCE:
        to->reducer = in->n_called == 1 ? reducer_of(in->called[0]) : OP_COUNT;
        return to->reducer != OP_COUNT && in->n_operands == 2 && copy_dims(to->a, &to->n_a, &a->dimensions);
    case OP_SLICE:
        for (size_t i = 0; i < a->n_slices && i < SHAPE_MAX_RANK; i++) {
            to->a[i] = a->slices[i].start;
            to->b[i] = a->slices[i].limit;
            to->c[i] = a->slices[i].stride;
        }
        to->n_a = (int)a->n_slices;
        return a->n_slices == (size_t)in->shape.rank;
    case OP_PAD:
        for (size_t i = 0; i < a->n_padding && i < SHAPE_MAX_RANK; i++) {
            to->a[i] = a->padding[i].low;
            to->b[i] = a->padding[i].high;
            to->c[i] = a->padding[i].interior;
        }
        to->n_a = (int)a->n_padding;
        return a->n_padding == (size_t)in->shape.rank;
    case OP_DYNAMIC_SLICE:
        return copy_dims(to->a, &to->n_a, &a->dynamic_slice_sizes);
    case OP_DOT:
        return a->has_dot && import_dot(to, a);
    case OP_BITCAST_CONVERT:
        return in->n_operands == 1 && dtype_bits(in->operands[0]->shape.dtype) == dtype_bits(in->shape.dtype);
    default:
        return true;
    }
}

static int import_operation(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                            const struct shape *shape, int *operands, int *out)
{
    struct instruction to = {.op = find_op(in->opcode), .shape = *shape, .operands = operands};
    to.n_operands = (int)in->n_operands;
    const struct op_info *info = op_info(to.op);
    if (to.n_operands < info->min_operands || to.n_operands > info->max_operands)
        return refuse(s, in, "it has another number of operands than the operation takes");
    if (to.op == OP_GATHER)
        return import_gather(s, in, a, operands, out);
    if (!set_attributes(&to, in, a))
        return refuse(s, in, "it does what the operation of the table does not");
    for (int i = 0; i < to.n_operands && (to.op == OP_CLAMP || to.op == OP_SELECT); i++)
        operands[i] = like(s, operands[i], shape);
    if (to.op == OP_DOT) {
        for (int i = 0; i < 2; i++) {
            const struct instruction *x = &s->b.module->instructions[operands[i]];
            if (x->op != OP_PARAMETER && x->op != OP_CONSTANT && dtype_is_float(x->shape.dtype))
                builder_store(&s->b, operands[i]);
        }
        to.flags = dtype_is_float(shape->dtype) ? FLAG_STORE : 0;
    }
    *out = builder_append(&s->b, &to);
    return 0;
}

// ---- Parameters, calls, tuples

static int import_parameter(struct importing *s, const struct hlo_instruction *in, struct shape shape, int *out)
{
    bool weight = in->parameter >= s->o->first_weight && in->parameter <= s->o->last_weight;
    struct slice name = in->metadata.op_name.size ? in->metadata.op_name : in->name;
    const char *text = arena_strndup(s->b.module->arena, (const char *)name.data, name.size, s->err);
    if (!text)
        return ERR_MEMORY;
    *out = weight ? build_weight(&s->b, text, shape) : build_parameter(&s->b, ROLE_INPUT, text, shape, NULL);
    return 0;
}

static int import_computation(struct importing *s, const struct hlo_computation *c, const struct value *arguments,
                              size_t n_arguments, int depth, struct value *out);

static int import_call(struct importing *s, const struct hlo_instruction *in, const struct value *operands, int depth,
                       struct value *out)
{
    if (in->n_called != 1)
        return refuse(s, in, "it calls no computation");
    if (depth >= MAX_CALLS)
        return refuse(s, in, "calls are nested deeper than 64");
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
            return refuse(s, in, "a tuple of tuples");
        many[i] = operands[i].one;
    }
    *out = (struct value){-1, many, in->n_operands};
    return 0;
}

// What only names or annotates another value.
static bool is_name(const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    return in->n_operands == 1 && (hlo_is(in, "copy") || hlo_is(in, "opt-barrier") ||
                                   (hlo_is(in, "custom-call") && slice_is(a->custom_call_target, "Sharding")));
}

static int import_instruction(struct importing *s, const struct hlo_instruction *in, const struct value *operands,
                              int depth, struct value *out)
{
    struct hlo_attributes a;
    struct shape shape;
    int values[MAX_OPERANDS] = {0};
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
            return refuse(s, in, "it takes an element of no tuple");
        out->one = operands[0].many[in->tuple_index];
        return 0;
    }
    if (find_op(in->opcode) == OP_COUNT && !hlo_is(in, "constant"))
        return refuse(s, in, "the operation is not in the table");
    rc = shape_of_hlo(s, in, &shape);
    if (!rc && in->n_operands > MAX_OPERANDS)
        rc = refuse(s, in, "it has more than 64 operands");
    for (size_t i = 0; i < in->n_operands && !rc; i++) {
        if (operands[i].many)
            rc = refuse(s, in, "it takes a tuple");
        values[i] = operands[i].one;
    }
    if (!rc)
        rc = enter(s, in);
    if (rc)
        return rc;
    if (hlo_is(in, "constant"))
        rc = import_constant(s, in, &a, shape, &out->one);
    else
        rc = import_operation(s, in, &a, &shape, values, &out->one);
    if (!rc && s->b.error.code)
        rc = refuse(s, in, s->b.error.message);
    if (!rc && !shape_equal(builder_shape(&s->b, out->one), &shape))
        rc = refuse(s, in, "the operation of the table gives another shape");
    return rc;
}

static int import_computation(struct importing *s, const struct hlo_computation *c, const struct value *arguments,
                              size_t n_arguments, int depth, struct value *out)
{
    struct value *values = arena_new(&s->scratch, struct value, c->n_instructions, s->err), *operands;
    int rc = values ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < c->n_instructions && !rc; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        if (++s->n_visited > MAX_INSTRUCTIONS)
            return refuse(s, in, "with all calls written out there are more than 2^20 instructions");
        if (hlo_is(in, "parameter")) {
            if (in->parameter < 0 || (uint64_t)in->parameter >= n_arguments)
                return refuse(s, in, "the call gives no such argument");
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
            return refuse(s, in, "its number is missing or given twice");
        by_number[in->parameter] = in;
    }
    for (size_t i = 0; i < n; i++) {
        struct shape shape;
        (*out)[i] = (struct value){-1, NULL, 0};
        int rc = shape_of_hlo(s, by_number[i], &shape);
        if (!rc)
            rc = enter(s, by_number[i]);
        if (!rc)
            rc = import_parameter(s, by_number[i], shape, &(*out)[i].one);
        if (!rc && s->b.error.code)
            rc = refuse(s, by_number[i], s->b.error.message);
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
