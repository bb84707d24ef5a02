// SPDX-License-Identifier: Apache-2.0
// Shape inference: the rules of the StableHLO specification for the operations of op.h.
#include <inttypes.h>

#include "ir/module.h"

#define BAD(...) error_set(err, ERR_INTERNAL, op_info(in->op)->name, __VA_ARGS__)

static unsigned type_class(enum dtype t)
{
    return t == DT_PRED ? TYPES_PRED : dtype_is_float(t) ? TYPES_FLOAT : dtype_is_integer(t) ? TYPES_INT : 0;
}

static int infer_elementwise(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    if (!(type_class(s[0].dtype) & op_info(in->op)->types))
        return BAD("does not take %s", dtype_name(s[0].dtype));
    if (in->n_operands == 2 && !shape_equal(&s[0], &s[1]))
        return BAD("its operands have different shapes");
    *out = s[0];
    if (in->op == OP_IS_FINITE)
        out->dtype = DT_PRED;
    return 0;
}

static int infer_select_clamp(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    bool select = in->op == OP_SELECT;
    if (select && s[0].dtype != DT_PRED)
        return BAD("its condition is %s, not pred", dtype_name(s[0].dtype));
    if (!shape_equal(&s[1], &s[2]) || !(select ? shape_same_dims(&s[0], &s[1]) : shape_equal(&s[0], &s[1])))
        return BAD("its operands have different shapes");
    *out = s[1];
    return 0;
}

static int infer_given(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    *out = in->shape;
    if (in->op == OP_CONVERT || in->op == OP_BITCAST_CONVERT) {
        if (!shape_same_dims(&s[0], out))
            return BAD("cannot change the dimensions");
        if (in->op == OP_BITCAST_CONVERT && dtype_bits(s[0].dtype) != dtype_bits(out->dtype))
            return BAD("%s and %s differ in width", dtype_name(s[0].dtype), dtype_name(out->dtype));
    } else if (in->op == OP_RESHAPE) {
        if (s[0].dtype != out->dtype || shape_elements(&s[0]) != shape_elements(out))
            return BAD("%" PRId64 " elements do not become %" PRId64, shape_elements(&s[0]), shape_elements(out));
    } else if (in->op == OP_IOTA && (in->axis < 0 || in->axis >= out->rank)) {
        return BAD("has no dimension %" PRId64, in->axis);
    }
    return 0;
}

static int infer_broadcast(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    *out = in->shape;
    if (s[0].dtype != out->dtype || in->n_a != s[0].rank)
        return BAD("maps %d dimensions of an operand of rank %d", in->n_a, s[0].rank);
    for (int i = 0; i < in->n_a; i++) {
        if (in->a[i] < 0 || in->a[i] >= out->rank || (i && in->a[i] <= in->a[i - 1]))
            return BAD("dimension %d maps to %" PRId64, i, in->a[i]);
        if (s[0].dims[i] != 1 && s[0].dims[i] != out->dims[in->a[i]])
            return BAD("extent %" PRId64 " does not broadcast to %" PRId64, s[0].dims[i], out->dims[in->a[i]]);
    }
    return 0;
}

static int infer_transpose(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    unsigned seen = 0;
    *out = s[0];
    if (in->n_a != s[0].rank)
        return BAD("permutes %d of %d dimensions", in->n_a, s[0].rank);
    for (int i = 0; i < in->n_a; i++) {
        if (in->a[i] < 0 || in->a[i] >= s[0].rank || seen & 1u << in->a[i])
            return BAD("is not a permutation");
        seen |= 1u << in->a[i];
        out->dims[i] = s[0].dims[in->a[i]];
    }
    return 0;
}

static int infer_slice(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    *out = s[0];
    for (int i = 0; i < s[0].rank; i++) {
        if (in->a[i] < 0 || in->b[i] < in->a[i] || in->b[i] > s[0].dims[i] || in->c[i] < 1)
            return BAD("[%" PRId64 ":%" PRId64 ":%" PRId64 "] is outside extent %" PRId64, in->a[i], in->b[i], in->c[i],
                       s[0].dims[i]);
        out->dims[i] = (in->b[i] - in->a[i] + in->c[i] - 1) / in->c[i];
    }
    return 0;
}

static int infer_concatenate(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    *out = s[0];
    if (in->axis < 0 || in->axis >= s[0].rank)
        return BAD("has no dimension %" PRId64, in->axis);
    for (int k = 1; k < in->n_operands; k++) {
        struct shape same = s[k];
        same.dims[in->axis] = s[0].dims[in->axis];
        if (!shape_equal(&same, &s[0]))
            return BAD("operand %d does not fit beside the first", k);
        out->dims[in->axis] += s[k].dims[in->axis];
    }
    return 0;
}

static int infer_pad(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    *out = s[0];
    if (s[1].rank != 0 || s[1].dtype != s[0].dtype)
        return BAD("its padding value is not a scalar of the same type");
    for (int i = 0; i < s[0].rank; i++) {
        int64_t inner = s[0].dims[i] > 0 ? (s[0].dims[i] - 1) * in->c[i] : 0;
        out->dims[i] = in->a[i] + s[0].dims[i] + inner + in->b[i];
        if (in->c[i] < 0 || out->dims[i] < 0)
            return BAD("dimension %d becomes negative", i);
    }
    return 0;
}

static int infer_dynamic(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    bool update = in->op == OP_DYNAMIC_UPDATE_SLICE;
    int first = update ? 2 : 1;
    if (in->n_operands != first + s[0].rank)
        return BAD("needs one start per dimension");
    for (int i = first; i < in->n_operands; i++) {
        if (s[i].rank != 0 || !dtype_is_integer(s[i].dtype))
            return BAD("start %d is not an integer scalar", i - first);
    }
    *out = s[0];
    if (update && (s[1].rank != s[0].rank || s[1].dtype != s[0].dtype))
        return BAD("the update does not have the operand's type and rank");
    for (int i = 0; i < s[0].rank; i++) {
        int64_t size = update ? s[1].dims[i] : in->a[i];
        if (size < 0 || size > s[0].dims[i])
            return BAD("size %" PRId64 " is larger than extent %" PRId64, size, s[0].dims[i]);
        if (!update)
            out->dims[i] = size;
    }
    return 0;
}

static int infer_gather(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    if (s[0].rank < 1 || !dtype_is_integer(s[1].dtype) || s[1].rank + s[0].rank - 1 > SHAPE_MAX_RANK)
        return BAD("takes rows of a tensor by integer indices");
    *out = shape_of(s[0].dtype, s[1].rank, s[1].dims);
    for (int i = 1; i < s[0].rank; i++)
        out->dims[out->rank++] = s[0].dims[i];
    return 0;
}

static int infer_dot(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    unsigned used[2] = {0, 0};
    *out = (struct shape){.dtype = in->shape.dtype};
    for (int k = 0; k < in->dot.n_batch + in->dot.n_contract; k++) {
        bool batch = k < in->dot.n_batch;
        int j = batch ? k : k - in->dot.n_batch;
        int l = batch ? in->dot.lhs_batch[j] : in->dot.lhs_contract[j];
        int r = batch ? in->dot.rhs_batch[j] : in->dot.rhs_contract[j];
        if (l < 0 || l >= s[0].rank || r < 0 || r >= s[1].rank || used[0] & 1u << l || used[1] & 1u << r)
            return BAD("its dimension numbers are out of range or repeated");
        if (s[0].dims[l] != s[1].dims[r])
            return BAD("contracts or batches extent %" PRId64 " with %" PRId64, s[0].dims[l], s[1].dims[r]);
        used[0] |= 1u << l;
        used[1] |= 1u << r;
        if (batch)
            out->dims[out->rank++] = s[0].dims[l];
    }
    int free_dims = s[0].rank + s[1].rank - 2 * (in->dot.n_batch + in->dot.n_contract);
    if (out->rank + free_dims > SHAPE_MAX_RANK)
        return BAD("its result has more than %d dimensions", SHAPE_MAX_RANK);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < s[side].rank; i++) {
            if (!(used[side] & 1u << i))
                out->dims[out->rank++] = s[side].dims[i];
        }
    }
    if (s[0].dtype != s[1].dtype)
        return BAD("multiplies %s by %s", dtype_name(s[0].dtype), dtype_name(s[1].dtype));
    if (type_class(s[0].dtype) != type_class(out->dtype))
        return BAD("%s operands cannot give a %s result", dtype_name(s[0].dtype), dtype_name(out->dtype));
    return 0;
}

static int infer_reduce(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    unsigned gone = 0;
    if (s[1].rank != 0 || s[1].dtype != s[0].dtype)
        return BAD("its initial value is not a scalar of the same type");
    const struct op_info *reducer = op_info(in->reducer);
    if (reducer->class != OPC_BINARY || !(type_class(s[0].dtype) & reducer->types))
        return BAD("cannot reduce %s by %s", dtype_name(s[0].dtype), reducer->name);
    for (int i = 0; i < in->n_a; i++) {
        if (in->a[i] < 0 || in->a[i] >= s[0].rank || gone & 1u << in->a[i])
            return BAD("has no dimension %" PRId64, in->a[i]);
        gone |= 1u << in->a[i];
    }
    *out = (struct shape){.dtype = s[0].dtype};
    for (int i = 0; i < s[0].rank; i++) {
        if (!(gone & 1u << i))
            out->dims[out->rank++] = s[0].dims[i];
    }
    return 0;
}

int op_infer(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    const struct op_info *info = op_info(in->op);
    if (in->n_operands < info->min_operands || in->n_operands > info->max_operands)
        return BAD("has %d operands", in->n_operands);
    switch (info->class) {
    case OPC_UNARY:
    case OPC_BINARY:
        return infer_elementwise(in, s, out, err);
    case OPC_COMPARE:
        if (!shape_equal(&s[0], &s[1]))
            return BAD("its operands have different shapes");
        *out = shape_with_dtype(s[0], DT_PRED);
        return 0;
    case OPC_SELECT:
    case OPC_CLAMP:
        return infer_select_clamp(in, s, out, err);
    case OPC_PARAMETER:
    case OPC_CONSTANT:
    case OPC_IOTA:
    case OPC_CONVERT:
    case OPC_BITCAST:
    case OPC_RESHAPE:
        return infer_given(in, s, out, err);
    case OPC_BROADCAST:
        return infer_broadcast(in, s, out, err);
    case OPC_TRANSPOSE:
        return infer_transpose(in, s, out, err);
    case OPC_SLICE:
        return infer_slice(in, s, out, err);
    case OPC_CONCATENATE:
        return infer_concatenate(in, s, out, err);
    case OPC_PAD:
        return infer_pad(in, s, out, err);
    case OPC_REVERSE:
        for (int i = 0; i < in->n_a; i++) {
            if (in->a[i] < 0 || in->a[i] >= s[0].rank)
                return BAD("has no dimension %" PRId64, in->a[i]);
        }
        *out = s[0];
        return 0;
    case OPC_DYNAMIC_SLICE:
    case OPC_DYNAMIC_UPDATE_SLICE:
        return infer_dynamic(in, s, out, err);
    case OPC_GATHER:
        return infer_gather(in, s, out, err);
    case OPC_DOT:
        return infer_dot(in, s, out, err);
    case OPC_REDUCE:
        return infer_reduce(in, s, out, err);
    }
    return BAD("is not known");
}
