// SPDX-License-Identifier: Apache-2.0
// How weights are stored, as a policy says it in words: a preset ("w4a16"), a block format ("mxfp4"), or fields of
// which w= counts here, "w=int4/group:32/affine/scale:f16". docs/quantize.md has the grammar.
#ifndef LAB_QUANTIZE_POLICY_H
#define LAB_QUANTIZE_POLICY_H

#include "base/error.h"
#include "base/str.h"
#include "num/block.h"
#include "num/quantize.h"

enum quantize_form {
    QUANTIZE_NARROW, // to a float type, without scales
    QUANTIZE_CODES,  // codes with scales, by `spec`
    QUANTIZE_BLOCKS, // a block format
};

struct quantize_policy {
    char text[256]; // as given
    enum quantize_form form;
    enum dtype to;          // NARROW
    struct quant_spec spec; // CODES. A tensor is seen as rows x columns: channel_axis 0, group_axis 1
    const struct block_format *block;
    struct block_cast cast;
    char others[256]; // the fields besides w=, as given: how a program is meant to use the weights
};

// ERR_USAGE names the part that is wrong and lists what is known. Whether a spec fits a tensor is checked when the
// tensor is known.
int quantize_policy_parse(struct quantize_policy *p, const char *text, struct error *err);
// w= and everything that differs from its type's default, in the syntax that quantize_policy_parse reads, then the
// other fields.
void quantize_policy_spell(const struct quantize_policy *p, struct str *out);
// The rule in one sentence, for reports and metadata.
void quantize_policy_describe(const struct quantize_policy *p, struct str *out);
// One preset or block format per line: what a shell completes.
void quantize_policy_words(struct str *out);

#endif
