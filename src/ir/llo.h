// SPDX-License-Identifier: Apache-2.0
// What a TPU program became in the end: bundles of instructions that are issued together, one per cycle, as libtpu
// dumps them ("final bundles", a text file for each body of code). The matrix instructions among them say in which
// format products really run, which the optimised HLO does not.
#ifndef IR_LLO_H
#define IR_LLO_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

enum { LLO_MAX_FORMATS = 12, LLO_FORMAT = 12 };

// Matrix instructions of one operand format in one format of the unit.
struct llo_matrix {
    char format[LLO_FORMAT]; // "bf16", "s8", "f8e4m3fn", "f32" (also where the mnemonic has none)
    // What the unit multiplies: the last format of the mnemonic, "bf16" in vmatmul.mubr.f8e5m2.bf16. It is `format`
    // where there is one alone.
    char unit[LLO_FORMAT];
    // Rows of the left operand through the unit (vmatmul), and pushes of the right one into it (vmatpush).
    uint64_t multiplies, pushes;
};

struct llo_bundles {
    uint64_t bundles;
    struct llo_matrix matrix[LLO_MAX_FORMATS];
    int n_matrix;
    uint64_t unknown; // matrix instructions of formats beyond LLO_MAX_FORMATS
};

// Counts a body as it stands: loops inside are not multiplied. Any text is taken; what is no bundle counts nothing.
void llo_bundles_read(struct llo_bundles *out, struct slice text);

// How many rows of the left operand one vmatmul of this format takes: a register of 8 sublanes holds 8 rows of 32 bits,
// 16 of 16, 32 of 8. 0 for a format that is not known.
int llo_rows(const char *format);

// Operations whose code is the same share one body: which body (its name as in the file's name) an operation uses.
struct llo_body {
    struct slice operation, body;
};
// Reads the deduplication map, sorted by operation; slices point into the text. Lines that are not understood are
// passed over. ERR_MEMORY.
int llo_bodies_read(struct llo_body **out, size_t *n, struct slice text, struct arena *arena, struct error *err);
// The body of an operation; the operation's own name where the map has none.
struct slice llo_body_of(const struct llo_body *bodies, size_t n, struct slice operation);

#endif
