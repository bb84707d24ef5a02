// SPDX-License-Identifier: Apache-2.0
#include "ir/shape.h"

#include <inttypes.h>

bool shape_same_dims(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i])
            return false;
    }
    return true;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    return a->dtype == b->dtype && shape_same_dims(a, b);
}

int64_t shape_elements(const struct shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dims[i];
    return n;
}

int64_t shape_bytes(const struct shape *s)
{
    int64_t bits = shape_elements(s) * dtype_bits(s->dtype);
    return bits / 8 + (bits % 8 != 0);
}

int shape_check(const struct shape *s, const char *where, struct error *err)
{
    if (s->dtype <= DT_INVALID || s->dtype >= DT_COUNT)
        return error_set(err, ERR_INPUT, where, "has no element type");
    if (s->rank < 0 || s->rank > SHAPE_MAX_RANK)
        return error_set(err, ERR_INPUT, where, "rank %d is not in 0..%d", s->rank, SHAPE_MAX_RANK);
    int64_t bits = dtype_bits(s->dtype);
    for (int i = 0; i < s->rank; i++) {
        if (s->dims[i] < 0)
            return error_set(err, ERR_INPUT, where, "extent %d is negative (%" PRId64 ")", i, s->dims[i]);
        if (__builtin_mul_overflow(bits, s->dims[i] ? s->dims[i] : 1, &bits))
            return error_set(err, ERR_INPUT, where, "the shape has more bytes than can be counted");
    }
    return 0;
}

void shape_print_mlir(struct str *out, const struct shape *s)
{
    str_add(out, "tensor<");
    for (int i = 0; i < s->rank; i++)
        str_addf(out, "%" PRId64 "x", s->dims[i]);
    str_addf(out, "%s>", dtype_info(s->dtype)->mlir);
}

void shape_print(struct str *out, const struct shape *s)
{
    str_addf(out, "%s[", dtype_name(s->dtype));
    for (int i = 0; i < s->rank; i++)
        str_addf(out, "%s%" PRId64, i ? "," : "", s->dims[i]);
    str_add_char(out, ']');
}
