// SPDX-License-Identifier: Apache-2.0
// Numbers: PJRT_Buffer_Type of pjrt_c_api.h (API 0.114), PrimitiveType of xla_data.proto.
#include "num/dtype.h"

#include <string.h>

#include "base/bytes.h"

static const struct dtype_info table[DT_COUNT] = {
    [DT_INVALID] = {"invalid", "invalid", NULL, DTK_NONE, 0, 0, 0},
    [DT_PRED] = {"pred", "i1", "BOOL", DTK_PRED, 8, 1, 1},
    [DT_S2] = {"s2", "i2", NULL, DTK_SIGNED, 2, 24, 26},
    [DT_S4] = {"s4", "i4", "I4", DTK_SIGNED, 4, 21, 21},
    [DT_S8] = {"s8", "i8", "I8", DTK_SIGNED, 8, 2, 2},
    [DT_S16] = {"s16", "i16", "I16", DTK_SIGNED, 16, 3, 3},
    [DT_S32] = {"s32", "i32", "I32", DTK_SIGNED, 32, 4, 4},
    [DT_S64] = {"s64", "i64", "I64", DTK_SIGNED, 64, 5, 5},
    [DT_U2] = {"u2", "ui2", NULL, DTK_UNSIGNED, 2, 25, 27},
    [DT_U4] = {"u4", "ui4", "U4", DTK_UNSIGNED, 4, 22, 22},
    [DT_U8] = {"u8", "ui8", "U8", DTK_UNSIGNED, 8, 6, 6},
    [DT_U16] = {"u16", "ui16", "U16", DTK_UNSIGNED, 16, 7, 7},
    [DT_U32] = {"u32", "ui32", "U32", DTK_UNSIGNED, 32, 8, 8},
    [DT_U64] = {"u64", "ui64", "U64", DTK_UNSIGNED, 64, 9, 9},
    [DT_F4E2M1FN] = {"f4e2m1fn", "f4E2M1FN", "F4", DTK_FLOAT, 4, 29, 32},
    [DT_F6E2M3FN] = {"f6e2m3fn", "f6E2M3FN", "F6_E2M3", DTK_FLOAT, 6, 32, 36},
    [DT_F6E3M2FN] = {"f6e3m2fn", "f6E3M2FN", "F6_E3M2", DTK_FLOAT, 6, 33, 35},
    [DT_F8E3M4] = {"f8e3m4", "f8E3M4", NULL, DTK_FLOAT, 8, 27, 29},
    [DT_F8E4M3] = {"f8e4m3", "f8E4M3", NULL, DTK_FLOAT, 8, 26, 28},
    [DT_F8E4M3FN] = {"f8e4m3fn", "f8E4M3FN", "F8_E4M3", DTK_FLOAT, 8, 17, 20},
    [DT_F8E4M3FNUZ] = {"f8e4m3fnuz", "f8E4M3FNUZ", "F8_E4M3FNUZ", DTK_FLOAT, 8, 20, 25},
    [DT_F8E4M3B11FNUZ] = {"f8e4m3b11fnuz", "f8E4M3B11FNUZ", NULL, DTK_FLOAT, 8, 18, 23},
    [DT_F8E5M2] = {"f8e5m2", "f8E5M2", "F8_E5M2", DTK_FLOAT, 8, 16, 19},
    [DT_F8E5M2FNUZ] = {"f8e5m2fnuz", "f8E5M2FNUZ", "F8_E5M2FNUZ", DTK_FLOAT, 8, 19, 24},
    [DT_F8E8M0FNU] = {"f8e8m0fnu", "f8E8M0FNU", "F8_E8M0", DTK_FLOAT, 8, 28, 33},
    [DT_F16] = {"f16", "f16", "F16", DTK_FLOAT, 16, 10, 10},
    [DT_BF16] = {"bf16", "bf16", "BF16", DTK_FLOAT, 16, 13, 16},
    [DT_F32] = {"f32", "f32", "F32", DTK_FLOAT, 32, 11, 11},
    [DT_F64] = {"f64", "f64", "F64", DTK_FLOAT, 64, 12, 12},
    [DT_C64] = {"c64", "complex<f32>", "C64", DTK_COMPLEX, 64, 14, 15},
    [DT_C128] = {"c128", "complex<f64>", NULL, DTK_COMPLEX, 128, 15, 18},
};

const struct dtype_info *dtype_info(enum dtype t)
{
    return (unsigned)t < DT_COUNT ? &table[t] : &table[DT_INVALID];
}

bool dtype_is_float(enum dtype t)
{
    return dtype_info(t)->kind == DTK_FLOAT;
}

bool dtype_is_integer(enum dtype t)
{
    enum dtype_kind k = dtype_info(t)->kind;
    return k == DTK_SIGNED || k == DTK_UNSIGNED;
}

enum dtype dtype_from_name(const char *name)
{
    for (int t = 1; t < DT_COUNT; t++) {
        if (strcmp(table[t].name, name) == 0)
            return (enum dtype)t;
    }
    return DT_INVALID;
}

enum dtype dtype_from_safetensors(const char *name, size_t length)
{
    for (int t = 1; t < DT_COUNT; t++) {
        const char *s = table[t].safetensors;
        if (s && strlen(s) == length && memcmp(s, name, length) == 0)
            return (enum dtype)t;
    }
    return DT_INVALID;
}

enum dtype dtype_from_pjrt(int type)
{
    for (int t = 1; t < DT_COUNT; t++) {
        if (table[t].pjrt == type)
            return (enum dtype)t;
    }
    return DT_INVALID;
}

enum dtype dtype_from_xla(int type)
{
    for (int t = 1; t < DT_COUNT && type; t++) {
        if (table[t].xla == type)
            return (enum dtype)t;
    }
    return DT_INVALID;
}

bool dtype_bytes(enum dtype t, size_t n, size_t *out)
{
    size_t bits;
    if (!size_mul(n, (size_t)dtype_bits(t), &bits) || bits > SIZE_MAX - 7)
        return false;
    *out = (bits + 7) / 8;
    return true;
}
