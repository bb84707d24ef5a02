// SPDX-License-Identifier: Apache-2.0
// A precision policy: which format every part of a model is stored, multiplied, accumulated and reduced in; and the
// pass that puts it into a module.
#ifndef IR_POLICY_H
#define IR_POLICY_H

#include "base/json.h"
#include "ir/builder.h"

// The smallest and the largest value that an activation took on in a calibration; both 0 when there was none.
struct activation_range {
    float low, high;
};

struct policy {
    char name[64];
    // w=: storage of weight matrices (f32, bf16, f16, or codes with scales: s8, s4, f8e4m3fn, f8e5m2). Vectors (biases,
    // norm scales) are stored in `vectors`: w itself when that is a wide float type, else f32.
    enum dtype w, vectors;
    enum granularity w_grain;
    int64_t w_group;
    // a=: activations handed from one part of the model to the next. A type with scales (s8, u8, s16, f8e4m3fn, f8e5m2)
    // means: quantised where they enter a product with a weight, and handed on in `between`. a_grain is CHANNEL for a
    // scale per row and TENSOR for one in all. Scales are dynamic, made from the values of the call, or static: made
    // from `ranges`, one per activation in the order of module_activations. Who calibrates sets them; without them
    // static scales are NaN, and so is what comes out.
    enum dtype a, between;
    enum granularity a_grain;
    bool a_static;
    double a_percentile; // static: the share of the magnitudes, in percent, that the range holds; 100: all
    const struct activation_range *ranges;
    int n_ranges;
    enum dtype op; // op=: operands of products with weights (bf16, f16, f32, or the type of the quantised activations)
    enum dtype op_inner; // operands of products of activations (attention): op when that is a wide float, else bf16
    // Products with weights are made in types that most devices have, with the same values: f8 operands as bf16, u8
    // shifted to s8, s16 as two s8 halves, f16 as f32. Not part of the policy's text.
    bool emulate;
    enum dtype acc;  // acc=: accumulation and result of products
    enum dtype red;  // red=: reductions, softmax and other elementwise arithmetic
    enum dtype norm; // norm=: normalisation arithmetic
    enum dtype out;  // out=: the result
    // Parts that an inference workload without a cache does not have. DT_INVALID: not asked for.
    enum dtype kv, grad, master, opt;
};

// A preset ("f32", "bf16", "f16", "w8a16", "w8a8", "w8a8-static", "w4a16", "fp8") or a spelled-out policy
// ("w=int4/group:128,a=bf16,op=bf16,acc=f32,out=bf16"; fields left out follow from w and a), or a preset and the fields
// that it leaves out ("w8a16,kv=int8,opt=int8"). ERR_USAGE lists the
// presets and fields. `int8`, `uint8`, `int16` and `int4` are accepted for s8, u8, s16 and s4, `fp8` for f8e4m3fn.
// Activations: a=TYPE[/row|/tensor[:static[:pPERCENT]]]. Weights: w=TYPE[/tensor|/channel|/group:N].
int policy_parse(struct policy *p, const char *text, struct error *err);
// All fields spelled out, in the syntax policy_parse reads.
void policy_spell(const struct policy *p, struct str *out);
// The names of the presets that can be lowered, comma separated.
const char *policy_presets(void);
// One preset per line: what a shell completes.
void policy_words(struct str *out);
// [{"part": "weights", "type": "s8", "detail": "..."}...]: every part, 'not applicable' where the workload has none.
// `kept`: the policy leaves the program as it is (module_keeps_types).
void policy_parts_json(const struct policy *p, bool kept, struct jw *w);

// Whether values of the type are codes that mean something only together with a scale: integers and 8-bit floats.
bool policy_has_scales(enum dtype t);
// The largest code of a type with scales in magnitude, which scales are made for: 127, 7, 255, 32767, 448, 57344.
double policy_code_max(enum dtype t);
// Whether activations are quantised to an unsigned type, with a zero point.
static inline bool policy_is_affine(const struct policy *p)
{
    return p->a == DT_U8;
}
// Scale and zero point of a static activation, as the lowered program holds them.
void policy_static_scale(const struct policy *p, struct activation_range r, float *scale, int *zero);

// What a policy cannot do on a device is refused here, with the reason: ERR_DEVICE. `platform` is PJRT's ("cpu",
// "tpu").
int policy_check(const struct policy *p, const char *platform, struct error *err);
// How emulation makes the policy's products with weights, in words for a report; NULL where there is nothing to
// emulate: these are products that every device has (f16 is emulated on a TPU only).
const char *policy_emulation(const struct policy *p, const char *platform);

// Whether all floats of a module are of 16 bits and more, so that policies can be applied to it.
bool module_takes_policies(const struct module *m);
// ERR_INPUT for a module that does not take policies: names what is narrow (a product before all else), and what to do.
// `where` is the file.
int module_check_policies(const struct module *m, const char *where, struct error *err);
// The type that a program is in: that of most elements of its weights or, where it has none, of the left operands of
// its products. DT_INVALID: it has neither.
enum dtype module_own_type(const struct module *m);
// Whether the policy leaves a module as it is: the preset bf16 or f16 on a program that is in that type.
bool module_keeps_types(const struct module *m, const struct policy *p);

// Applies the policy to a module: weight bindings, operand conversions, scales, roundings at the marked activations.
// Floats of the module may be of any type of 16 bits and more: what type an operation or a conversion has in it counts
// for nothing, except where module_keeps_types. Inputs keep their type. `to` keeps nothing of `from`.
//
// With `instrument` the module returns two more results, a row per group in the order of module_groups. "counts"
// s32[groups,3] counts values at every place where the policy narrows (to another float type, or to codes): clipped
// (|rint(x / scale)| beyond the largest code), not finite (after narrowing to a float; before quantising), and flushed
// (nonzero before, zero after). "scales" f32[groups,2] is the smallest and the largest activation scale; a row of zeros
// has scale 1; groups that quantise nothing have inf, -inf. Where activations are quantised there is one more:
// "activations" s32[activations], the values clipped of each, in the order of module_activations, padding left out.
int module_apply_policy(const struct module *from, const struct policy *p, bool instrument, struct module *to,
                        struct error *err);

// An activation that enters a product with a weight, where a policy may quantise it.
struct activation {
    int instruction; // the product
    const char *scope, *group;
    int64_t rows, columns; // of which `columns` are contracted
    bool masked;           // rows are tokens, of which the input "attention_mask" says which are padding
};
// The activations of a module before its policy, in the order in which they are used: how many there are. `out` gets at
// most `max` of them and may be NULL when max is 0.
int module_activations(const struct module *m, struct activation *out, int max);

// The module with the range of every activation, in float, as its only result: "ranges" f32[activations,2], smallest
// and largest value (padding counts as 0, which every range holds). With `steps` > 0 there is an input "thresholds"
// f32[activations,2,steps] and the result is "beyond" s32[activations,2,steps]: how many values are above thresholds
// [i,0,k], and how many are below minus thresholds [i,1,k].
int module_calibration(const struct module *from, int steps, struct module *to, struct error *err);

// The greatest common divisor of the contracted elements of all weights that are matrices, or stacks of them: groups
// that divide it fit all of them. 0: there is no such weight to make codes of.
int64_t module_contracted_unit(const struct module *m);

// The distinct groups of a module in order of first use (at most `max`); returns how many there are.
int module_groups(const struct module *m, const char **groups, int max);

#endif
