// SPDX-License-Identifier: Apache-2.0
// Shape inference: the rules of the StableHLO specification for the operations of op.h.
#include <inttypes.h>
#include <math.h>

#include "ir/infer_part.h"

unsigned infer_type_class(enum dtype t)
{
    switch (dtype_info(t)->kind) {
    case DTK_PRED:
        return TYPES_PRED;
    case DTK_SIGNED:
        return TYPES_SIGNED;
    case DTK_UNSIGNED:
        return TYPES_UNSIGNED;
    case DTK_FLOAT:
        return TYPES_FLOAT;
    default:
        return 0;
    }
}

static int infer_elementwise(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    if (!(infer_type_class(s[0].dtype) & op_info(in->op)->types))
        return BAD("does not take %s", dtype_name(s[0].dtype));
    if (in->n_operands == 2 && !shape_equal(&s[0], &s[1]))
        return BAD("its operands have different shapes");
    *out = s[0];
    if (in->op == OP_IS_FINITE)
        out->dtype = DT_PRED;
    if (in->op == OP_REDUCE_PRECISION && (in->a[0] < 1 || in->a[0] > 11 || in->a[1] < 0 || in->a[1] > 52))
        return BAD("cannot keep %" PRId64 " bits of exponent and %" PRId64 " of mantissa", in->a[0], in->a[1]);
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

// Whether print.c can write the value so that it reads back: an integer in the range of an integer type, 0 or 1, or any
// double that is rounded to a float type of 16 bits or more.
static bool value_fits(enum dtype t, double v)
{
    int bits = dtype_bits(t);
    switch (dtype_info(t)->kind) {
    case DTK_PRED:
        return v == 0 || v == 1;
    case DTK_SIGNED:
        return v >= -ldexp(1, bits - 1) && v < ldexp(1, bits - 1) && v == trunc(v);
    case DTK_UNSIGNED:
        return v >= 0 && v < ldexp(1, bits) && v == trunc(v);
    default:
        return true;
    }
}

static int check_constant(const struct instruction *in, struct error *err)
{
    enum dtype t = in->shape.dtype;
    if (!infer_type_class(t) || (dtype_is_float(t) && dtype_bits(t) < 16))
        return BAD("of %s cannot be written", dtype_name(t));
    int64_t n = in->constant == CONST_DENSE ? shape_elements(&in->shape) : in->constant == CONST_SPLAT ? 1 : 0;
    if ((unsigned)in->constant > CONST_DENSE || (in->constant == CONST_DENSE && !in->dense))
        return BAD("has no value");
    if (n == 0 && t == DT_PRED && in->constant != CONST_DENSE)
        return BAD("of pred has no such symbol");
    for (int64_t i = 0; i < n; i++) {
        double v = in->constant == CONST_DENSE ? in->dense[i] : in->splat;
        if (!value_fits(t, v))
            return BAD("%g is no value of %s", v, dtype_name(t));
    }
    return 0;
}

// Bits of one width to the same, or to a wider or narrower type with a last dimension that holds the parts of one.
static int check_bitcast(const struct instruction *in, const struct shape *x, const struct shape *y, struct error *err)
{
    int from = dtype_bits(x->dtype), to = dtype_bits(y->dtype);
    struct shape wide = from > to ? *x : *y, narrow = from > to ? *y : *x;
    if (from != to &&
        (narrow.rank != wide.rank + 1 || narrow.dims[wide.rank] * dtype_bits(narrow.dtype) != dtype_bits(wide.dtype)))
        return BAD("%s and %s differ in width", dtype_name(x->dtype), dtype_name(y->dtype));
    narrow.rank = wide.rank;
    return shape_same_dims(&wide, &narrow) ? 0 : BAD("cannot change the dimensions");
}

static int infer_given(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    int rc = shape_check(&in->shape, op_info(in->op)->name, err);
    if (rc)
        return rc;
    *out = in->shape;
    if (in->op == OP_CONSTANT)
        return check_constant(in, err);
    if (in->op == OP_BITCAST_CONVERT)
        return check_bitcast(in, s, out, err);
    if (in->op == OP_CONVERT) {
        if (!shape_same_dims(&s[0], out))
            return BAD("cannot change the dimensions");
    } else if (in->op == OP_RESHAPE) {
        if (s[0].dtype != out->dtype)
            return BAD("cannot change %s to %s", dtype_name(s[0].dtype), dtype_name(out->dtype));
        if (shape_elements(&s[0]) != shape_elements(out))
            return BAD("%" PRId64 " elements do not become %" PRId64, shape_elements(&s[0]), shape_elements(out));
    } else if (in->op == OP_IOTA) {
        if (!(infer_type_class(out->dtype) & (TYPES_INT | TYPES_FLOAT)))
            return BAD("does not count in %s", dtype_name(out->dtype));
        if (in->axis < 0 || in->axis >= out->rank)
            return BAD("has no dimension %" PRId64, in->axis);
    }
    return 0;
}

static int infer_broadcast(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    int rc = shape_check(&in->shape, op_info(in->op)->name, err);
    if (rc)
        return rc;
    *out = in->shape;
    if (s[0].dtype != out->dtype)
        return BAD("cannot change %s to %s", dtype_name(s[0].dtype), dtype_name(out->dtype));
    if (in->n_a != s[0].rank)
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
    if (in->n_a != s[0].rank)
        return BAD("cuts %d of %d dimensions", in->n_a, s[0].rank);
    for (int i = 0; i < s[0].rank; i++) {
        if (in->a[i] < 0 || in->b[i] < in->a[i] || in->b[i] > s[0].dims[i] || in->c[i] < 1)
            return BAD("[%" PRId64 ":%" PRId64 ":%" PRId64 "] is outside extent %" PRId64, in->a[i], in->b[i], in->c[i],
                       s[0].dims[i]);
        int64_t span = in->b[i] - in->a[i];
        out->dims[i] = span / in->c[i] + (span % in->c[i] != 0);
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
        if (__builtin_add_overflow(out->dims[in->axis], s[k].dims[in->axis], &out->dims[in->axis]))
            return BAD("becomes longer than can be counted");
    }
    return 0;
}

static int infer_pad(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    *out = s[0];
    if (s[1].rank != 0 || s[1].dtype != s[0].dtype)
        return BAD("its padding value is not a scalar of the same type");
    if (in->n_a != s[0].rank)
        return BAD("pads %d of %d dimensions", in->n_a, s[0].rank);
    for (int i = 0; i < s[0].rank; i++) {
        int64_t n = s[0].dims[i];
        if (in->c[i] < 0)
            return BAD("puts %" PRId64 " values between two of dimension %d", in->c[i], i);
        if (__builtin_mul_overflow(n > 0 ? n - 1 : 0, in->c[i], &out->dims[i]) ||
            __builtin_add_overflow(out->dims[i], n, &out->dims[i]) ||
            __builtin_add_overflow(out->dims[i], in->a[i], &out->dims[i]) ||
            __builtin_add_overflow(out->dims[i], in->b[i], &out->dims[i]) || out->dims[i] < 0)
            return BAD("dimension %d becomes negative or longer than can be counted", i);
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
        if (s[i].dtype != s[first].dtype)
            return BAD("its starts are of different types");
    }
    if (!update && in->n_a != s[0].rank)
        return BAD("has sizes for %d of %d dimensions", in->n_a, s[0].rank);
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
    if (s[0].dims[0] == 0)
        return BAD("there are no rows to take");
    *out = shape_of(s[0].dtype, s[1].rank, s[1].dims);
    for (int i = 1; i < s[0].rank; i++)
        out->dims[out->rank++] = s[0].dims[i];
    return 0;
}

static int infer_dot(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    unsigned used[2] = {0, 0};
    *out = (struct shape){.dtype = in->shape.dtype};
    if (in->dot.n_batch < 0 || in->dot.n_batch > SHAPE_MAX_RANK || in->dot.n_contract < 0 ||
        in->dot.n_contract > SHAPE_MAX_RANK)
        return BAD("has %d batch and %d contracted dimensions", in->dot.n_batch, in->dot.n_contract);
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
    // Integers of two types: activations are u8 or s16 where weights are s8.
    bool whole = dtype_is_integer(s[0].dtype) && dtype_is_integer(s[1].dtype);
    if (s[0].dtype != s[1].dtype && !whole)
        return BAD("multiplies %s by %s", dtype_name(s[0].dtype), dtype_name(s[1].dtype));
    unsigned in_class = infer_type_class(s[0].dtype), out_class = infer_type_class(out->dtype);
    if ((unsigned)in->dot.precision > PRECISION_HIGHEST)
        return BAD("precision %d is not known", (int)in->dot.precision);
    bool integers = in_class & TYPES_INT && out_class & TYPES_INT;
    if (!in_class || (in_class != out_class && !integers))
        return BAD("%s operands cannot give a %s result", dtype_name(s[0].dtype), dtype_name(out->dtype));
    return 0;
}

int infer_dimensions(const struct instruction *in, const struct shape *x, unsigned *set, struct error *err)
{
    if (in->n_a < 0 || in->n_a > x->rank)
        return BAD("names %d dimensions of %d", in->n_a, x->rank);
    for (int i = 0; i < in->n_a; i++) {
        if (in->a[i] < 0 || in->a[i] >= x->rank || *set & 1u << in->a[i])
            return BAD("dimension %" PRId64 " is out of range or repeated", in->a[i]);
        *set |= 1u << in->a[i];
    }
    return 0;
}

bool infer_op_reduces(enum opcode op)
{
    return op == OP_ADD || op == OP_MULTIPLY || op == OP_MAXIMUM || op == OP_MINIMUM || op == OP_AND || op == OP_OR ||
           op == OP_XOR;
}

static int infer_reduce(const struct instruction *in, const struct shape *s, struct shape *out, struct error *err)
{
    unsigned gone = 0;
    if (s[1].rank != 0 || s[1].dtype != s[0].dtype)
        return BAD("its initial value is not a scalar of the same type");
    const struct op_info *reducer = op_info(in->reducer);
    if (!infer_op_reduces(in->reducer) || !(infer_type_class(s[0].dtype) & reducer->types))
        return BAD("cannot reduce %s by %s", dtype_name(s[0].dtype), reducer->name);
    if (infer_dimensions(in, &s[0], &gone, err))
        return err ? err->code : ERR_INTERNAL;
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
        if ((unsigned)in->compare > CMP_LT || in->axis < 0 || in->axis > (dtype_is_float(s[0].dtype) ? 1 : 0))
            return BAD("direction %d is not known", (int)in->compare);
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
    case OPC_ELEMENT:
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
    case OPC_KERNEL:
        *out = in->shape;
        if (!in->kernel || !in->kernel->target || !in->kernel->attributes)
            return BAD("has no target");
        return 0;
    case OPC_REVERSE:
        *out = s[0];
        return infer_dimensions(in, &s[0], &(unsigned){0}, err);
    case OPC_DYNAMIC_SLICE:
    case OPC_DYNAMIC_UPDATE_SLICE:
        return infer_dynamic(in, s, out, err);
    case OPC_GATHER:
        return infer_gather(in, s, out, err);
    case OPC_DOT:
        return infer_dot(in, s, out, err);
    case OPC_CONVOLUTION:
        return infer_convolution(in, s, out, err);
    case OPC_REDUCE:
        return infer_reduce(in, s, out, err);
    case OPC_INDEXED:
        return infer_indexed(in, s, out, err);
    case OPC_WINDOW:
        return infer_window(in, s, out, err);
    case OPC_MANY:
        return infer_many(in, s, out, err);
    }
    return BAD("is not known");
}
