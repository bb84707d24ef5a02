// SPDX-License-Identifier: Apache-2.0
// Weights under a policy: what is stored of them, what becomes of codes on the way to a product, and products.
#include <inttypes.h>
#include <string.h>

#include "ir/policy_pass.h"

bool pass_weights_are_codes(const struct pass *s)
{
    return policy_has_scales(s->policy->w);
}

bool pass_is_coded(const struct pass *s, int old)
{
    return pass_weights_are_codes(s) && s->views.of[old];
}

// ---- Parameters

static int parameter(struct pass *s, const struct parameter *p, struct shape shape, enum bind_part part,
                     const struct arrangement *as)
{
    struct binding bind = p->binding;
    bind.part = part;
    bind.store = shape.dtype;
    bind.code = s->policy->w;
    bind.grain = s->policy->w_grain;
    bind.group = s->policy->w_group;
    bind.packed = part == BIND_CODES && s->policy->w == DT_S4;
    bind.as = *as;
    return build_parameter(&s->w.b, ROLE_WEIGHT, p->name, shape, &bind);
}

// How the codes of a weight lie; rank 0 where they lie as the weight does.
static void arrange(const struct weight_axes *axes, int rank, struct arrangement *out)
{
    static const enum axis_class order[] = {AXIS_STACK, AXIS_OUTPUT, AXIS_CONTRACTED};
    int n = 0;
    *out = (struct arrangement){.rank = rank};
    for (int k = 0; k < 3; k++) {
        for (int d = 0; d < rank; d++) {
            if (axes->class[d] != order[k])
                continue;
            out->n_stack += k == 0;
            out->n_rows += k == 1;
            out->axes[n++] = (uint8_t)d;
        }
    }
    if (rank == 2 && out->n_rows == 1 && out->axes[0] == 0)
        *out = (struct arrangement){0};
}

static int coded_weight(struct pass *s, int old, struct error *err)
{
    const struct instruction *in = &s->w.from->instructions[old];
    const struct parameter *p = &s->w.from->parameters[in->parameter];
    const struct weight_view *view = s->views.of[old];
    const struct policy *y = s->policy;
    const struct view_factor *stack[SHAPE_MAX_RANK];
    struct arrangement as;
    int n = views_factors(&s->views, view, AXIS_STACK, stack);
    int64_t rows = views_extent(&s->views, view, AXIS_OUTPUT), columns = views_extent(&s->views, view, AXIS_CONTRACTED);
    arrange(s->views.axes[old], in->shape.rank, &as);
    struct shape codes = {.dtype = y->w, .rank = n + 2}, scales = {.dtype = DT_F32, .rank = n};
    for (int i = 0; i < n; i++)
        codes.dims[i] = scales.dims[i] = stack[i]->size;
    codes.dims[n] = rows;
    codes.dims[n + 1] = columns;
    if (y->w_grain != GRAIN_TENSOR)
        scales.dims[scales.rank++] = rows;
    if (y->w_grain == GRAIN_GROUP) {
        if (columns % y->w_group)
            return error_set(err, ERR_USAGE, p->name,
                             "its %" PRId64 " contracted elements are not a multiple of the group of %" PRId64, columns,
                             y->w_group);
        scales.dims[scales.rank++] = columns / y->w_group;
    }
    if (y->w == DT_S4) {
        if (columns % 2)
            return error_set(err, ERR_USAGE, p->name,
                             "its %" PRId64 " contracted elements cannot be packed two to a byte", columns);
        codes.dtype = DT_U8;
        codes.dims[n + 1] = columns / 2;
    }
    s->codes[old] = parameter(s, p, codes, BIND_CODES, &as);
    s->scales[old] = parameter(s, p, scales, BIND_SCALES, &as);
    return 0;
}

// Kernels of convolutions: stored like weights, or as wide floats where weights are codes.
static enum dtype kernel_type(const struct pass *s)
{
    return pass_weights_are_codes(s) ? s->policy->op_inner : s->policy->w;
}

int pass_weight(struct pass *s, int old, struct error *err)
{
    const struct instruction *in = &s->w.from->instructions[old];
    const struct weight_axes *axes = s->views.axes[old];
    if (pass_is_coded(s, old))
        return coded_weight(s, old, err);
    enum weight_kind kind = axes ? axes->kind : WEIGHT_VECTOR;
    enum dtype store = kind == WEIGHT_MATRIX   ? s->policy->w
                       : kind == WEIGHT_VECTOR ? s->policy->vectors
                                               : kernel_type(s);
    s->w.map[old] = parameter(s, &s->w.from->parameters[in->parameter], shape_with_dtype(in->shape, store), BIND_VALUES,
                              &(struct arrangement){0});
    return 0;
}

// ---- Codes as values

// Two codes in every byte of the last dimension, low nibble first, to s8.
static int unpack(struct pass *s, int packed)
{
    struct builder *b = &s->w.b;
    int x = build_bitcast_convert(b, packed, DT_S8);
    struct shape one = *builder_shape(b, x), flat = one;
    int four = build_splat(b, one, 4), rank = one.rank;
    one.dims[one.rank++] = 1;
    int low = build_binary(b, OP_SHIFT_RIGHT_ARITHMETIC, build_binary(b, OP_SHIFT_LEFT, x, four), four);
    int high = build_binary(b, OP_SHIFT_RIGHT_ARITHMETIC, x, four);
    int both[2] = {build_reshape(b, low, one.rank, one.dims), build_reshape(b, high, one.rank, one.dims)};
    flat.dims[rank - 1] *= 2;
    return build_reshape(b, build_concatenate(b, both, 2, rank), rank, flat.dims);
}

static int as_s8(struct pass *s, int codes)
{
    return builder_shape(&s->w.b, codes)->dtype == DT_U8 ? unpack(s, codes) : codes;
}

// codes [..., row] times scales ([...] or [..., row/group]) in f32.
static int dequantise(struct pass *s, int codes, int scales)
{
    struct builder *b = &s->w.b;
    int x = build_convert(b, as_s8(s, codes), DT_F32);
    struct shape full = *builder_shape(b, x);
    if (s->policy->w_grain != GRAIN_GROUP)
        return build_binary(b, OP_MULTIPLY, x, build_broadcast_leading(b, scales, x));
    struct shape split = full;
    split.dims[split.rank - 1] = full.dims[full.rank - 1] / s->policy->w_group;
    split.dims[split.rank++] = s->policy->w_group;
    x = build_reshape(b, x, split.rank, split.dims);
    x = build_binary(b, OP_MULTIPLY, x, build_broadcast_leading(b, scales, x));
    return build_reshape(b, x, full.rank, full.dims);
}

static int reshape_to(struct builder *b, int x, int rank, const int64_t *dims)
{
    const struct shape *s = builder_shape(b, x);
    bool same = s->rank == rank;
    for (int d = 0; d < rank && same; d++)
        same = s->dims[d] == dims[d];
    return same ? x : build_reshape(b, x, rank, dims);
}

static int transpose_to(struct builder *b, int x, const int *order)
{
    bool same = true;
    for (int d = 0; d < builder_shape(b, x)->rank; d++)
        same &= order[d] == d;
    return same ? x : build_transpose(b, x, order);
}

// Codes multiplied out, in the form of the view: a dimension for each factor, in their order, then those of the view.
static int multiply_out(struct pass *s, int old)
{
    static const enum axis_class order[] = {AXIS_STACK, AXIS_OUTPUT, AXIS_CONTRACTED};
    struct builder *b = &s->w.b;
    const struct weight_view *w = s->views.of[old];
    const struct shape *shape = &s->w.from->instructions[old].shape;
    const struct view_factor *all[3 * SHAPE_MAX_RANK];
    int64_t sizes[SHAPE_MAX_RANK], single[SHAPE_MAX_RANK];
    int n = 0, turned[SHAPE_MAX_RANK] = {0}, dims[SHAPE_MAX_RANK], n_dims = 0, k = 0;
    for (int i = 0; i < 3; i++)
        n += views_factors(&s->views, w, order[i], all + n);
    for (int i = 0; i < n; i++)
        sizes[i] = all[i]->size;
    for (int i = 0; i < w->n; i++) {
        for (int at = 0; at < n; at++) {
            if (all[at] == &w->factors[i])
                turned[k++] = at;
        }
    }
    int x = transpose_to(b, reshape_to(b, dequantise(s, s->codes[old], s->scales[old]), n, sizes), turned);
    for (int d = 0; d < shape->rank; d++) { // those that are no copies
        bool copies = false;
        for (int i = 0; i < w->n; i++)
            copies |= w->factors[i].dim == d && w->factors[i].axis < 0;
        if (!copies) {
            single[n_dims] = shape->dims[d];
            dims[n_dims++] = d;
        }
    }
    x = reshape_to(b, x, n_dims, single);
    return n_dims == shape->rank ? x : build_broadcast(b, x, shape_with_dtype(*shape, DT_F32), dims);
}

int pass_operand(struct pass *s, int old)
{
    return s->codes[old] < 0 ? s->w.map[old] : multiply_out(s, old);
}

int pass_lookup(struct pass *s, const struct instruction *in)
{
    struct builder *b = &s->w.b;
    int table = in->operands[0], rows = s->w.map[in->operands[1]];
    const struct weight_view *w = s->views.of[table];
    bool plain = s->codes[table] >= 0 && w->n == 2 && w->factors[0].dim == 0 && w->factors[1].dim == 1 &&
                 views_class(&s->views, w, &w->factors[0]) == AXIS_OUTPUT &&
                 views_class(&s->views, w, &w->factors[1]) == AXIS_CONTRACTED;
    if (!plain)
        return build_gather(b, pass_operand(s, table), rows);
    int scales = s->scales[table];
    if (builder_shape(b, scales)->rank)
        scales = build_gather(b, scales, rows);
    return dequantise(s, build_gather(b, s->codes[table], rows), scales);
}

// ---- Views

// What a slice takes of codes or scales: along matrices, and along the channels where x has them.
static int cut(struct pass *s, const struct instruction *in, int x)
{
    struct builder *b = &s->w.b;
    const struct weight_view *w = s->views.of[in->operands[0]];
    const struct view_factor *stack[SHAPE_MAX_RANK];
    int n = views_factors(&s->views, w, AXIS_STACK, stack);
    int starts[SHAPE_MAX_RANK] = {0};
    int64_t from[SHAPE_MAX_RANK], to[SHAPE_MAX_RANK], step[SHAPE_MAX_RANK], sizes[SHAPE_MAX_RANK];
    struct shape shape = *builder_shape(b, x);
    bool dynamic = in->op == OP_DYNAMIC_SLICE, any = false;
    int old_start = dynamic ? in->operands[1] : 0;
    struct shape index = {.dtype = s->w.from->instructions[old_start].shape.dtype};
    for (int d = 0; d < shape.rank; d++) {
        from[d] = 0;
        to[d] = sizes[d] = shape.dims[d];
        step[d] = 1;
        starts[d] = -1;
    }
    for (int i = 0; i < w->n; i++) {
        const struct view_factor *f = &w->factors[i];
        int d = f->axis >= 0 && views_class(&s->views, w, f) == AXIS_OUTPUT ? n : -1;
        for (int k = 0; k < n; k++)
            d = stack[k] == f ? k : d;
        bool whole = s->w.from->instructions[in->operands[0]].shape.dims[f->dim] == in->shape.dims[f->dim];
        if (d < 0 || d >= shape.rank || whole)
            continue;
        any = true;
        sizes[d] = in->shape.dims[f->dim];
        if (dynamic) {
            starts[d] = s->w.map[in->operands[1 + f->dim]];
        } else {
            from[d] = in->a[f->dim];
            to[d] = in->b[f->dim];
            step[d] = in->c[f->dim];
        }
    }
    if (!any)
        return x;
    for (int d = 0; d < shape.rank && dynamic; d++)
        starts[d] = starts[d] < 0 ? build_splat(b, index, 0) : starts[d];
    return dynamic ? build_dynamic_slice(b, x, starts, sizes) : build_slice(b, x, from, to, step);
}

// Matrices that a reshape of the weight counts anew.
static int restack(struct pass *s, int old, int before, int x)
{
    const struct view_factor *stack[SHAPE_MAX_RANK];
    const struct shape *shape = builder_shape(&s->w.b, x);
    int64_t dims[2 * SHAPE_MAX_RANK];
    int n = views_factors(&s->views, s->views.of[old], AXIS_STACK, stack), rank = n;
    for (int i = 0; i < n; i++)
        dims[i] = stack[i]->size;
    for (int d = before; d < shape->rank; d++)
        dims[rank++] = shape->dims[d];
    return reshape_to(&s->w.b, x, rank, dims);
}

void pass_view(struct pass *s, int old)
{
    const struct instruction *in = &s->w.from->instructions[old];
    const struct view_factor *stack[SHAPE_MAX_RANK];
    int x = in->operands[0], *values[2] = {s->codes, s->scales};
    int before = views_factors(&s->views, s->views.of[x], AXIS_STACK, stack);
    for (int i = 0; i < 2; i++) {
        int *v = values[i];
        v[old] = in->op == OP_SLICE || in->op == OP_DYNAMIC_SLICE ? cut(s, in, v[x])
                 : in->op == OP_GATHER  ? build_gather(&s->w.b, v[x], s->w.map[in->operands[1]])
                 : in->op == OP_RESHAPE ? restack(s, old, before, v[x])
                                        : v[x];
    }
}

// ---- Products

// Codes or scales with one dimension for each of the product's stacked batch dimensions, in the weight's order.
static int stack_of_product(struct pass *s, const struct linear *l, int x)
{
    const struct view_factor *stack[SHAPE_MAX_RANK];
    const struct shape *shape = builder_shape(&s->w.b, x);
    int64_t dims[SHAPE_MAX_RANK];
    int n = views_factors(&s->views, s->views.of[l->w], AXIS_STACK, stack), rank = 0;
    for (int d = 0; d < shape->rank; d++) {
        bool used = d >= n;
        for (int k = 0; k < l->n_stack; k++)
            used |= l->stack[k] == d;
        if (used)
            dims[rank++] = shape->dims[d];
    }
    return reshape_to(&s->w.b, x, rank, dims);
}

// Dimension numbers of x, arranged, by [stack..., output, contracted].
static struct instruction dimension_numbers(const struct pass *s, const struct linear *l, const struct instruction *in,
                                            int x)
{
    struct instruction dot = *in;
    dot.dot.n_batch = l->n_stack;
    dot.dot.n_contract = 1;
    dot.dot.lhs_contract[0] = builder_shape(&s->w.b, x)->rank - 1;
    dot.dot.rhs_contract[0] = l->n_stack + !l->folded;
    for (int k = 0; k < l->n_stack; k++) {
        dot.dot.lhs_batch[k] = k;
        dot.dot.rhs_batch[k] = 0;
        for (int j = 0; j < l->n_stack; j++)
            dot.dot.rhs_batch[k] += l->stack[j] < l->stack[k];
    }
    return dot;
}

// The scales' stack in the order in which the product has it.
static int scales_of_product(struct pass *s, const struct linear *l, const struct instruction *dot, int scales)
{
    int order[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int k = 0; k < l->n_stack; k++)
        order[k] = dot->dot.rhs_batch[k];
    return transpose_to(&s->w.b, scales, order);
}

// x, arranged, by codes: [stack..., copies..., rows..., channels].
static int coded_product(struct pass *s, const struct instruction *in, const struct linear *l, int x)
{
    struct builder *b = &s->w.b;
    const struct policy *p = s->policy;
    const struct instruction dot = dimension_numbers(s, l, in, x);
    int codes = stack_of_product(s, l, s->codes[l->w]), scales = stack_of_product(s, l, s->scales[l->w]);
    bool quantised = policy_has_scales(p->op), fixed = l->folded && quantised && p->a_static;
    if (p->w_grain == GRAIN_GROUP || fixed) {
        // A static range is one of x, and no scale is known for x with the weight's scales in it.
        enum dtype op = fixed ? p->op_inner : p->op;
        s->n_activations += fixed;
        int w = pass_narrow(s, dequantise(s, codes, scales), op);
        return pass_dot(s, &dot, pass_narrow(s, x, op), w, pass_float_sums(s));
    }
    scales = scales_of_product(s, l, &dot, scales);
    if (l->folded && builder_shape(b, scales)->rank > l->n_stack) {
        x = build_convert(b, x, DT_F32);
        x = build_binary(b, OP_MULTIPLY, x, pass_spread_channels(b, scales, l->n_stack, x));
        scales = -1;
    }
    if (quantised)
        return pass_quantised_linear(s, &dot, x, l->in_place && scales >= 0, codes, scales);
    int sums = pass_dot(s, &dot, pass_narrow(s, x, p->op), build_convert(b, as_s8(s, codes), p->op), p->acc);
    if (scales < 0)
        return sums;
    return build_binary(b, OP_MULTIPLY, sums,
                        pass_spread_channels(b, pass_narrow(s, scales, p->acc), l->n_stack, sums));
}

// Whether the channels of the weight's free dimensions are in the order in which codes have them.
static bool channels_lie_so(const struct pass *s, const struct linear *l)
{
    const struct weight_view *w = s->views.of[l->w];
    const struct view_factor *last = NULL;
    for (int i = 0; i < w->n; i++) {
        const struct view_factor *f = &w->factors[i];
        bool is_free = false;
        for (int k = 0; k < l->n_free; k++)
            is_free |= l->free_dims[k] == f->dim;
        if (!is_free || f->size == 1)
            continue;
        if (last && (last->axis > f->axis || (last->axis == f->axis && last->inner < f->inner)))
            return false;
        last = f;
    }
    return true;
}

// The result of the product as the program has it, from [stack..., copies..., rows..., channels].
static int put_in_place(struct pass *s, const struct instruction *in, const struct linear *l, int y)
{
    struct builder *b = &s->w.b;
    const struct weight_view *w = s->views.of[l->w];
    const struct view_factor *made[SHAPE_MAX_RANK];
    struct shape shape = *builder_shape(b, y);
    int rows = shape.rank - 1, order[SHAPE_MAX_RANK] = {0}, n = 0, batch = l->n_stack + l->n_copies;
    int n_made = views_factors(&s->views, w, l->folded ? AXIS_CONTRACTED : AXIS_OUTPUT, made);
    bool split = !channels_lie_so(s, l);
    if (split) {
        shape.rank = rows + n_made;
        for (int i = 0; i < n_made; i++)
            shape.dims[rows + i] = made[i]->size;
        y = build_reshape(b, y, shape.rank, shape.dims);
    }
    for (int k = 0; k < batch; k++)
        order[l->batch_order[k]] = k;
    for (int part = 0; part < 2; part++) {
        if ((part == 0) == l->weight_first) {
            for (int i = 0; i < w->n && split; i++) {
                for (int at = 0; at < n_made; at++) {
                    if (made[at] == &w->factors[i])
                        order[batch + n++] = rows + at;
                }
            }
            if (!split)
                order[batch + n++] = rows;
        } else {
            for (int d = batch; d < rows; d++)
                order[batch + n++] = d;
        }
    }
    return reshape_to(b, transpose_to(b, y, order), in->shape.rank, in->shape.dims);
}

int pass_linear(struct pass *s, const struct instruction *in, const struct linear *l)
{
    enum dtype op = s->policy->op;
    int x = pass_operand(s, l->x);
    if (pass_is_coded(s, l->w))
        return put_in_place(s, in, l, coded_product(s, in, l, pass_arrange(&s->w.b, l, x)));
    x = pass_narrow(s, x, op);
    int w = pass_narrow(s, s->w.map[l->w], op);
    return pass_dot(s, in, l->weight_first ? w : x, l->weight_first ? x : w, s->policy->acc);
}
