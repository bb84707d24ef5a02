// SPDX-License-Identifier: Apache-2.0
// The element types the program knows, and their names in the places where they are written down.
#ifndef NUM_DTYPE_H
#define NUM_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

// Order is ours; the XLA PrimitiveType and PJRT_Buffer_Type numbers are in the table's columns.
enum dtype {
    DT_INVALID,
    DT_PRED,
    DT_S2,
    DT_S4,
    DT_S8,
    DT_S16,
    DT_S32,
    DT_S64,
    DT_U2,
    DT_U4,
    DT_U8,
    DT_U16,
    DT_U32,
    DT_U64,
    DT_F4E2M1FN,
    DT_F6E2M3FN,
    DT_F6E3M2FN,
    DT_F8E3M4,
    DT_F8E4M3,
    DT_F8E4M3FN,
    DT_F8E4M3FNUZ,
    DT_F8E4M3B11FNUZ,
    DT_F8E5M2,
    DT_F8E5M2FNUZ,
    DT_F8E8M0FNU,
    DT_F16,
    DT_BF16,
    DT_F32,
    DT_F64,
    DT_C64,
    DT_C128,
    DT_COUNT
};

enum dtype_kind { DTK_NONE, DTK_PRED, DTK_SIGNED, DTK_UNSIGNED, DTK_FLOAT, DTK_COMPLEX };

struct dtype_info {
    const char *name;        // ours, as in policies and reports: "f32", "s8"
    const char *mlir;        // StableHLO element type: "f32", "i8", "ui8"
    const char *safetensors; // "F32", "I8"; NULL where that format has no such type
    enum dtype_kind kind;
    int bits; // of one element, packed
    int pjrt; // PJRT_Buffer_Type
    int xla;  // xla.PrimitiveType in HLO protos; 0 where there is none
};

// Never NULL: DT_INVALID's row for a value out of range.
const struct dtype_info *dtype_info(enum dtype t);
static inline const char *dtype_name(enum dtype t)
{
    return dtype_info(t)->name;
}
static inline int dtype_bits(enum dtype t)
{
    return dtype_info(t)->bits;
}
bool dtype_is_float(enum dtype t);
bool dtype_is_integer(enum dtype t); // signed or unsigned, not pred
// Inverse of each name column; DT_INVALID when unknown.
enum dtype dtype_from_name(const char *name);
enum dtype dtype_from_safetensors(const char *name, size_t length);
enum dtype dtype_from_pjrt(int type);
enum dtype dtype_from_xla(int type);
// Bytes of n packed elements, rounded up; false on overflow.
bool dtype_bytes(enum dtype t, size_t n, size_t *out);

#endif
