// SPDX-License-Identifier: Apache-2.0
// Codes of 4 and 2 bits in bytes: the lowest index in the lowest bits.
#include "base/bytes.h"
#include "num/quantize.h"
#include "num/quantize_kernels.h"

// Around the packed axis: everything before it, its length, everything after it.
struct packed_view {
    size_t outer, length, inner;
    unsigned bits, per_byte;
    bool is_signed;
};

static int view(enum dtype type, const int64_t *dims, int rank, int axis, struct packed_view *v, struct error *err)
{
    size_t elements;
    v->bits = (unsigned)dtype_bits(type);
    if (!dtype_is_integer(type) || v->bits > 4)
        return error_set(err, ERR_USAGE, NULL, "%s is not packed (s4, u4, s2, u2 are)", dtype_name(type));
    if (rank < 0 || rank > QUANT_MAX_RANK || !size_product(dims, rank, &elements))
        return error_set(err, ERR_USAGE, NULL, "the shape to pack is of a rank above %d, negative or too large",
                         QUANT_MAX_RANK);
    if (axis < 0 || axis >= rank)
        return error_set(err, ERR_USAGE, NULL, "packing along axis %d of a tensor of rank %d", axis, rank);
    if (!elements)
        return error_set(err, ERR_USAGE, NULL, "is empty: there is nothing to pack");
    v->per_byte = 8 / v->bits;
    v->is_signed = dtype_info(type)->kind == DTK_SIGNED;
    v->length = (size_t)dims[axis];
    size_product(dims, axis, &v->outer);
    size_product(dims + axis + 1, rank - axis - 1, &v->inner);
    return 0;
}

int quant_packed_bytes(enum dtype type, const int64_t *dims, int rank, int axis, size_t *out, struct error *err)
{
    struct packed_view v = {0};
    int rc = view(type, dims, rank, axis, &v, err);
    if (!rc)
        *out = v.outer * ((v.length - 1) / v.per_byte + 1) * v.inner;
    return rc;
}

int quant_pack(enum dtype type, const int64_t *dims, int rank, int axis, const void *codes, uint8_t *packed,
               struct error *err)
{
    struct packed_view v = {0};
    int rc = view(type, dims, rank, axis, &v, err);
    if (rc)
        return rc;
    if (v.inner == 1 && v.bits == 4) {
        for (size_t o = 0; o < v.outer; o++)
            quant_kernels()->pack4((const uint8_t *)codes + o * v.length, v.length, packed + o * ((v.length + 1) / 2));
        return 0;
    }
    unsigned mask = (1u << v.bits) - 1;
    for (size_t o = 0; o < v.outer; o++) {
        for (size_t k = 0; k < v.length; k += v.per_byte, packed += v.inner) {
            const uint8_t *from = (const uint8_t *)codes + (o * v.length + k) * v.inner;
            size_t here = v.length - k < v.per_byte ? v.length - k : v.per_byte;
            for (size_t i = 0; i < v.inner; i++) {
                unsigned byte = 0;
                for (size_t p = 0; p < here; p++)
                    byte |= (from[p * v.inner + i] & mask) << (p * v.bits);
                packed[i] = (uint8_t)byte;
            }
        }
    }
    return 0;
}

int quant_unpack(enum dtype type, const int64_t *dims, int rank, int axis, const uint8_t *packed, void *codes,
                 struct error *err)
{
    struct packed_view v = {0};
    int rc = view(type, dims, rank, axis, &v, err);
    if (rc)
        return rc;
    if (v.inner == 1 && v.bits == 4) {
        for (size_t o = 0; o < v.outer; o++)
            quant_kernels()->unpack4(packed + o * ((v.length + 1) / 2), v.length, v.is_signed,
                                     (uint8_t *)codes + o * v.length);
        return 0;
    }
    unsigned mask = (1u << v.bits) - 1, sign = v.is_signed ? 1u << (v.bits - 1) : 0;
    for (size_t o = 0; o < v.outer; o++) {
        for (size_t k = 0; k < v.length; k += v.per_byte, packed += v.inner) {
            uint8_t *to = (uint8_t *)codes + (o * v.length + k) * v.inner;
            size_t here = v.length - k < v.per_byte ? v.length - k : v.per_byte;
            for (size_t i = 0; i < v.inner; i++) {
                for (size_t p = 0; p < here; p++)
                    to[p * v.inner + i] = (uint8_t)((((unsigned)packed[i] >> (p * v.bits) & mask) ^ sign) - sign);
            }
        }
    }
    return 0;
}
