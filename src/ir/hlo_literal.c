// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_literal.h"

#include <stddef.h>

const struct hlo_storage *hlo_storage_of(enum dtype type)
{
    static const struct hlo_storage storage[DT_COUNT] = {
        [DT_PRED] = {2, HLO_VARINTS, 0},      [DT_S2] = {26, HLO_BYTES, 0},
        [DT_S4] = {21, HLO_BYTES, 0},         [DT_S8] = {15, HLO_BYTES, 0},
        [DT_S16] = {17, HLO_BYTES, 0},        [DT_S32] = {4, HLO_VARINTS, 0},
        [DT_S64] = {5, HLO_VARINTS, 0},       [DT_U2] = {27, HLO_BYTES, 0},
        [DT_U4] = {22, HLO_BYTES, 0},         [DT_U8] = {3, HLO_BYTES, 0},
        [DT_U16] = {16, HLO_BYTES, 0},        [DT_U32] = {6, HLO_VARINTS, 0},
        [DT_U64] = {7, HLO_VARINTS, 0},       [DT_F32] = {8, HLO_FIXED32, 0},
        [DT_F64] = {9, HLO_FIXED64, 0},       [DT_F16] = {11, HLO_BYTES, 5},
        [DT_BF16] = {13, HLO_BYTES, 4},       [DT_F8E5M2] = {19, HLO_BYTES, 2},
        [DT_F8E4M3FN] = {20, HLO_BYTES, 3},   [DT_F8E4M3] = {28, HLO_BYTES, 3},
        [DT_F8E3M4] = {29, HLO_BYTES, 3},     [DT_F8E4M3FNUZ] = {25, HLO_BYTES, 3},
        [DT_F8E5M2FNUZ] = {24, HLO_BYTES, 2}, [DT_F8E4M3B11FNUZ] = {23, HLO_BYTES, 3},
        [DT_F8E8M0FNU] = {33, HLO_BYTES, 2},  [DT_C64] = {12, HLO_FIXED64, 0},
        [DT_C128] = {18, HLO_FIXED64, 0},     [DT_F4E2M1FN] = {32, HLO_BYTES, 2},
    };
    return type > DT_INVALID && type < DT_COUNT && storage[type].number ? &storage[type] : NULL;
}

const char *const hlo_dot_algorithms[HLO_DOT_ALGORITHMS] = {"unset",
                                                            "dot_any_f8_any_f8_f32",
                                                            "dot_any_f8_any_f8_f32_fast_accum",
                                                            "dot_f16_f16_f16",
                                                            "dot_f16_f16_f32",
                                                            "dot_bf16_bf16_bf16",
                                                            "dot_bf16_bf16_f32",
                                                            "dot_bf16_bf16_f32_x3",
                                                            "dot_bf16_bf16_f32_x6",
                                                            "dot_tf32_tf32_f32",
                                                            "dot_tf32_tf32_f32_x3",
                                                            "dot_f32_f32_f32",
                                                            "dot_f64_f64_f64",
                                                            "dot_bf16_bf16_f32_x9"};
