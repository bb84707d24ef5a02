// SPDX-License-Identifier: Apache-2.0
// What an f32 product is formed from. Matrix units multiply bf16: one product of rounded operands ("default" on a TPU),
// three of operands split in two ("high"), or enough for all of f32 ("highest").
#ifndef IR_PRECISION_H
#define IR_PRECISION_H

#include "base/json.h"
#include "ir/builder.h"

enum matmul_precision { MATMUL_HIGHEST /* as modules are built */, MATMUL_HIGH, MATMUL_DEFAULT };
// "highest", "high", "default". False for another name.
bool matmul_precision_parse(enum matmul_precision *out, const char *name);
const char *matmul_precision_name(enum matmul_precision p);
// "matmul_precision": {"asked": NAME, "emulated": BOOL} of a document.
void matmul_precision_json(struct jw *w, enum matmul_precision p, bool emulated);

// `to` is `from` with all products and convolutions of f32 by f32 asked for in this precision. With `emulate` they are
// made so by arithmetic, for a device whose products of f32 are f32 whatever is asked: x = hi + lo, hi = bf16(x), lo =
// bf16(x - hi), and hi hi' (default), or hi hi' + hi lo' + lo hi' (high), summed in f32; highest stays as it is.
int module_matmul_precision(const struct module *from, enum matmul_precision p, bool emulate, struct module *to,
                            struct error *err);

#endif
