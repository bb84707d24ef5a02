// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "ir/hlo_import_part.h"
#include "ir/hlo_literal.h"
#include "num/convert.h"

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
            // Integers of 64 bits beyond 2^53 would change on their way through doubles.
            if (info->kind == DTK_SIGNED) {
                int64_t v = (int64_t)(bits << spare) >> spare;
                if (v != INT64_MIN && (v > INT64_C(1) << 53 || v < -(INT64_C(1) << 53)))
                    return false;
                out[k++] = (double)v;
            } else if (info->kind != DTK_FLOAT) {
                uint64_t v = bits << spare >> spare;
                if (v > UINT64_C(1) << 53)
                    return false;
                out[k++] = (double)v;
            } else if (convert_elements(DT_F64, &out[k++], h->dtype, &bits, 1, NULL))
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

int import_constant(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                    struct shape shape, int *out)
{
    size_t n = (size_t)hlo_shape_elements(&in->shape); // of a map's scalar 1, whatever it becomes
    if (dtype_info(shape.dtype)->kind == DTK_COMPLEX)
        return import_refuse(s, in, "constants of its type are not kept exactly");
    double *values = NULL;
    if (n <= 2 * a->literal.size) { // a byte holds two elements at most
        values = arena_new(&s->scratch, double, n, s->err);
        if (!values)
            return ERR_MEMORY;
    }
    if (!values || !read_elements(&in->shape, a->literal, values, n) || !is_row_major(&in->shape))
        return import_refuse(s, in,
                             "the file leaves out its values (take the .hlo.pb of the dump), or they are integers "
                             "beyond 2^53");
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
                   {"reduce", OP_REDUCE},
                   {"atan2", OP_ATAN2},
                   {"cbrt", OP_CBRT},
                   {"convolution", OP_CONVOLUTION},
                   {"count-leading-zeros", OP_COUNT_LEADING_ZEROS},
                   {"reduce-precision", OP_REDUCE_PRECISION},
                   {"reduce-window", OP_REDUCE_WINDOW},
                   {"round-nearest-afz", OP_ROUND_NEAREST_AFZ},
                   {"scatter", OP_SCATTER},
                   {"select-and-scatter", OP_SELECT_SCATTER},
                   {"tan", OP_TAN}};

enum opcode import_opcode(struct slice opcode)
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

static enum dot_precision import_precision(const struct hlo_attributes *a)
{
    enum dot_precision p = PRECISION_DEFAULT;
    for (size_t i = 0; i < a->precision.n; i++) {
        if (a->precision.at[i] > (int64_t)p && a->precision.at[i] <= PRECISION_HIGHEST)
            p = (enum dot_precision)a->precision.at[i];
    }
    return p;
}

static bool import_dot(struct instruction *to, const struct hlo_attributes *a)
{
    const struct hlo_dot *d = &a->dot;
    to->dot.n_batch = (int)d->lhs_batch.n;
    to->dot.n_contract = (int)d->lhs_contracting.n;
    to->dot.precision = import_precision(a);
    return !a->algorithm && d->lhs_batch.n == d->rhs_batch.n && d->lhs_contracting.n == d->rhs_contracting.n &&
           !d->lhs_ragged.n && copy_ints(to->dot.lhs_batch, &d->lhs_batch) &&
           copy_ints(to->dot.rhs_batch, &d->rhs_batch) && copy_ints(to->dot.lhs_contract, &d->lhs_contracting) &&
           copy_ints(to->dot.rhs_contract, &d->rhs_contracting);
}

enum opcode import_reducer(const struct hlo_computation *c)
{
    const struct hlo_instruction *root = c->root;
    enum opcode op = import_opcode(root->opcode);
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

// Of gather and scatter.
static bool copy_indexing(struct indexing *to, const struct hlo_gather *g, const struct hlo_attributes *a)
{
    to->n_offset = (int)g->offset.n;
    to->n_collapsed = (int)g->collapsed.n;
    to->n_start = (int)g->start_map.n;
    to->n_batching = (int)g->operand_batching.n;
    to->vector = g->index_vector >= 0 && g->index_vector <= SHAPE_MAX_RANK ? (int)g->index_vector : -1;
    to->sorted = a->indices_are_sorted;
    to->unique = a->unique_indices;
    return copy_ints(to->offset, &g->offset) && copy_ints(to->collapsed, &g->collapsed) &&
           copy_ints(to->start, &g->start_map) && copy_ints(to->operand_batching, &g->operand_batching) &&
           copy_ints(to->indices_batching, &g->indices_batching) && g->indices_batching.n == g->operand_batching.n;
}

static int import_gather(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                         int *operands, int *out)
{
    const struct shape *indices = builder_shape(&s->b, operands[1]);
    if (is_row_gather(in, a)) {
        if (a->gather.index_vector < indices->rank)
            operands[1] = build_reshape(&s->b, operands[1], indices->rank - 1, indices->dims);
        *out = build_gather(&s->b, operands[0], operands[1]);
        return 0;
    }
    struct indexing g = {0};
    struct instruction to = {.op = OP_GATHER_WINDOWS, .operands = operands, .n_operands = 2, .indexing = &g};
    if (!a->has_gather || !copy_indexing(&g, &a->gather, a) || !copy_dims(to.a, &to.n_a, &a->gather_slice_sizes))
        return import_refuse(s, in, "its dimension numbers are not complete");
    *out = builder_append(&s->b, &to);
    return 0;
}

// What a scatter does with an update: replaces what is there (OP_PARAMETER), or joins it.
static enum opcode scatter_reducer(const struct hlo_computation *c)
{
    bool replaces = hlo_is(c->root, "parameter") && c->root->parameter == 1;
    return replaces ? OP_PARAMETER : import_reducer(c);
}

static int import_scatter(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                          int *operands, int *out)
{
    struct indexing g = {0};
    struct instruction to = {.op = OP_SCATTER, .operands = operands, .n_operands = 3, .indexing = &g};
    to.reducer = in->n_called == 1 ? scatter_reducer(in->called[0]) : OP_COUNT;
    if (to.reducer == OP_COUNT)
        return import_refuse(s, in, "it joins updates by more than one operation");
    if (!a->has_scatter || !copy_indexing(&g, &a->scatter, a))
        return import_refuse(s, in, "its dimension numbers are not complete");
    *out = builder_append(&s->b, &to);
    return 0;
}

static int import_window(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                         const struct instruction *given, int *out)
{
    static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    struct window_extent window[SHAPE_MAX_RANK];
    struct instruction to = *given;
    bool select = to.op == OP_SELECT_SCATTER;
    const struct hlo_shape *x = &in->operands[0]->shape;
    if (in->n_called != (select ? 2 : 1) || a->n_window != (size_t)x->rank || x->rank > SHAPE_MAX_RANK)
        return import_refuse(s, in, "its window is not that of its operand");
    for (int i = 0; i < x->rank; i++) {
        const struct hlo_window *w = &a->window[i];
        window[i] =
            (struct window_extent){w->size, w->stride, w->pad_low, w->pad_high, w->window_dilation, w->base_dilation};
        if (select && (w->window_dilation != 1 || w->base_dilation != 1))
            return import_refuse(s, in, "its window is dilated");
    }
    to.window = window;
    to.reducer = import_reducer(in->called[select]);
    if (to.reducer == OP_COUNT)
        return import_refuse(s, in, "it reduces by more than one operation");
    if (select) {
        const struct hlo_instruction *root = in->called[0]->root;
        struct hlo_attributes compare;
        int rc = hlo_attributes_read(&compare, s->m, root, &s->scratch, s->err);
        if (rc)
            return rc;
        int d = 0;
        while (d < 6 && !slice_is(compare.comparison_direction, directions[d]))
            d++;
        if (d == 6 || root->n_operands != 2 || !hlo_is(root->operands[0], "parameter") ||
            root->operands[0]->parameter != 0 || !hlo_is(root->operands[1], "parameter") ||
            root->operands[1]->parameter != 1)
            return import_refuse(s, in, "it selects by more than a comparison");
        to.compare = (enum compare_direction)d;
    }
    *out = builder_append(&s->b, &to);
    return 0;
}

static bool copy_place(int *to, int64_t first, int64_t second, const struct hlo_numbers *spatial)
{
    if (spatial->n > SHAPE_MAX_RANK - 2 || first < 0 || second < 0 || first >= SHAPE_MAX_RANK ||
        second >= SHAPE_MAX_RANK)
        return false;
    to[0] = (int)first;
    to[1] = (int)second;
    return copy_ints(to + 2, spatial);
}

static int import_convolution(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                              const struct instruction *given, int *out)
{
    const struct hlo_convolution *d = &a->convolution;
    struct convolution c = {.batch_groups = a->batch_groups};
    struct instruction to = *given;
    int n = in->shape.rank - 2;
    if (!a->has_convolution || n < 1 || a->n_window != (size_t)n || d->input_spatial.n != (size_t)n ||
        d->kernel_spatial.n != (size_t)n || d->output_spatial.n != (size_t)n ||
        !copy_place(c.input, d->input_batch, d->input_feature, &d->input_spatial) ||
        !copy_place(c.kernel, d->kernel_output_feature, d->kernel_input_feature, &d->kernel_spatial) ||
        !copy_place(c.output, d->output_batch, d->output_feature, &d->output_spatial))
        return import_refuse(s, in, "its dimension numbers are not complete");
    to.n_a = n;
    to.axis = a->feature_groups;
    to.dot.precision = import_precision(a);
    to.convolution = &c;
    for (int i = 0; i < n; i++) {
        const struct hlo_window *w = &a->window[i];
        to.a[i] = w->stride;
        to.b[i] = w->pad_low;
        to.c[i] = w->pad_high;
        c.window_dilation[i] = w->window_dilation;
        c.base_dilation[i] = w->base_dilation;
        c.reversed[i] = w->reversed;
    }
    *out = builder_append(&s->b, &to);
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
                to->axis = slice_is(a->comparison_type, "TOTALORDER") && dtype_is_float(in->operands[0]->shape.dtype);
                return true;
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
        to->reducer = in->n_called == 1 ? import_reducer(in->called[0]) : OP_COUNT;
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
    case OP_REDUCE_PRECISION:
        to->a[0] = a->exponent_bits;
        to->a[1] = a->mantissa_bits;
        return true;
    case OP_DOT:
        return a->has_dot && import_dot(to, a);
    default:
        return true;
    }
}

int import_operation(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                     const struct shape *shape, int *operands, int *out)
{
    struct instruction to = {.op = import_opcode(in->opcode), .shape = *shape, .operands = operands};
    to.n_operands = (int)in->n_operands;
    const struct op_info *info = op_info(to.op);
    if (to.n_operands < info->min_operands || to.n_operands > info->max_operands)
        return import_refuse(s, in, "it has another number of operands than the operation takes");
    bool product = to.op == OP_DOT || to.op == OP_CONVOLUTION;
    for (int i = 0; i < 2 && product; i++) { // activations that are handed on
        const struct instruction *x = &s->b.module->instructions[operands[i]];
        if (x->op != OP_PARAMETER && x->op != OP_CONSTANT && dtype_is_float(x->shape.dtype))
            builder_store(&s->b, operands[i]);
    }
    to.flags = product && dtype_is_float(shape->dtype) ? FLAG_STORE : 0;
    switch (to.op) {
    case OP_GATHER:
        return import_gather(s, in, a, operands, out);
    case OP_SCATTER:
        return import_scatter(s, in, a, operands, out);
    case OP_REDUCE_WINDOW:
    case OP_SELECT_SCATTER:
        return import_window(s, in, a, &to, out);
    case OP_CONVOLUTION:
        return import_convolution(s, in, a, &to, out);
    default:
        break;
    }
    if (!set_attributes(&to, in, a))
        return import_refuse(s, in, "it does what the operation of the table does not");
    for (int i = 0; i < to.n_operands && (to.op == OP_CLAMP || to.op == OP_SELECT); i++)
        operands[i] = like(s, operands[i], shape);
    *out = builder_append(&s->b, &to);
    return 0;
}
