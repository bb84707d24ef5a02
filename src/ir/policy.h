// SPDX-License-Identifier: Apache-2.0
// A precision policy: which format every part of a model is stored, multiplied, accumulated and reduced in; and the
// pass that puts it into a module.
#ifndef IR_POLICY_H
#define IR_POLICY_H

#include "base/json.h"
#include "ir/builder.h"

struct policy {
    char name[64];
    // w=: storage of weight matrices (f32, bf16, f16, or s8/s4 with a granularity). Vectors (biases, norm scales) are
    // stored in `vectors`: w itself when that is a float type, else f32.
    enum dtype w, vectors;
    enum granularity w_grain;
    int64_t w_group;
    // a=: activations handed from one part of the model to the next. s8 means: quantised per row, at run time, where
    // they enter a product with a weight, and handed on in `between`.
    enum dtype a, between;
    enum dtype op;       // op=: operands of products with weights (bf16, f16, f32, s8)
    enum dtype op_inner; // operands of products of activations (attention): op when that is a float type, else bf16
    enum dtype acc;      // acc=: accumulation and result of products
    enum dtype red;      // red=: reductions, softmax and other elementwise arithmetic
    enum dtype norm;     // norm=: normalisation arithmetic
    enum dtype out;      // out=: the result
    // Parts that an inference workload without a cache does not have. DT_INVALID: not asked for.
    enum dtype kv, grad, master, opt;
};

// A preset ("f32", "bf16", "f16", "w8a16", "w8a8", "w4a16"; "fp8" is known and refused) or a spelled-out policy
// ("w=int4/group:128,a=bf16,op=bf16,acc=f32,out=bf16"; fields left out follow from w and a). ERR_USAGE lists the
// presets and fields. `int8` and `int4` are accepted for s8 and s4.
int policy_parse(struct policy *p, const char *text, struct error *err);
// All fields spelled out, in the syntax policy_parse reads.
void policy_spell(const struct policy *p, struct str *out);
// The names of the presets that can be lowered, comma separated.
const char *policy_presets(void);
// One preset per line: what a shell completes.
void policy_words(struct str *out);
// [{"part": "weights", "type": "s8", "detail": "..."}...]: every part, 'not applicable' where the workload has none.
void policy_parts_json(const struct policy *p, struct jw *w);

// What a policy cannot do on a device is refused here, with the reason: ERR_DEVICE. `platform` is PJRT's ("cpu",
// "tpu").
int policy_check(const struct policy *p, const char *platform, struct error *err);

// Applies the policy to a module built in f32: weight bindings, operand conversions, scales, roundings at the marked
// activations. `to` keeps nothing of `from`.
//
// With `instrument` the module returns two more results, a row per group in the order of module_groups. "counts"
// s32[groups,3] counts values at every place where the policy narrows (to another float type, or to codes): clipped
// (|rint(x / scale)| beyond the largest code), not finite (after narrowing to a float; before quantising), and flushed
// (nonzero before, zero after). "scales" f32[groups,2] is the smallest and the largest activation scale; a row of zeros
// has scale 1; groups that quantise nothing have inf, -inf.
int module_apply_policy(const struct module *from, const struct policy *p, bool instrument, struct module *to,
                        struct error *err);

// The distinct groups of a module in order of first use (at most `max`); returns how many there are.
int module_groups(const struct module *m, const char **groups, int max);

#endif
