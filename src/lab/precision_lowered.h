// SPDX-License-Identifier: Apache-2.0
// What a compiler made of the products of a program: the contractions of an optimised HLO module.
#ifndef LAB_PRECISION_LOWERED_H
#define LAB_PRECISION_LOWERED_H

#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

// Reads an HloModuleProto, alone or in an HloProto or HloModuleProtoWithConfig (ir/hlo.h), and describes its dot,
// convolution and custom-call instructions, at most PRECISION_PRODUCTS of them: "f32[64,64] dot(bf16[64,256],
// bf16[256,64])", followed by "operand_precision={highest,highest}" where it is not the default and by "algorithm=N"
// where one is set. Bytes that are no such module give no products: the plugin's format is its own. ERR_MEMORY only.
int precision_lowered_products(struct arena *a, const char *bytes, size_t n, const char **products, size_t *n_products,
                               struct error *err);

#endif
