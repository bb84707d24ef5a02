// SPDX-License-Identifier: Apache-2.0
// How a workload is laid out over devices: the ways each kind of parallelism has, whose product is all devices.
#ifndef PLAN_LAYOUT_H
#define PLAN_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum layout_axis {
    LAYOUT_DP,      // data parallel: the batch is divided, weights are copies
    LAYOUT_FSDP,    // the batch and every weight, gradient and optimizer state are divided (ZeRO stage 3)
    LAYOUT_TP,      // tensor parallel: heads and ffn columns are divided, activations are summed (Megatron)
    LAYOUT_ULYSSES, // the sequence is divided; around attention an all-to-all divides heads instead
    LAYOUT_RING,    // the sequence is divided; keys and values go round (ring attention)
    LAYOUT_PP,      // pipeline: layers are divided
    LAYOUT_EP,      // expert parallel: experts are divided; for everything else a part of the batch, as fsdp's is
    LAYOUT_AXES,
};

struct layout {
    int64_t ways[LAYOUT_AXES]; // 1: not used
    bool sp;                   // Megatron's sequence parallelism: what tp leaves whole is divided along the sequence
    int zero;                  // stage 1 or 2: what dp's copies divide among them; 0: nothing
    int64_t microbatches;      // of a pipeline; 0: not said
};

const char *layout_axis_name(enum layout_axis axis); // "dp", "ulysses"

// Terms joined by ',' or '+': "dp=2,fsdp=4,tp=8,sp,pp=2". An axis without a number ("fsdp", "tp+sp", "dp=2,tp") takes
// the devices that the others leave. Further terms are sp, zero=1, zero=2 and mb=N (microbatches of the pipeline).
// `devices` is how many there are; 0 when that is not known: then every axis needs a number. ERR_USAGE, with the cure,
// when the product is another one, for terms that come twice or contradict each other, and for numbers below 1.
int layout_parse(struct layout *l, const char *text, int64_t devices, struct error *err);
// One device: every axis 1.
struct layout layout_single(void);
// In the syntax that is parsed, axes of 1 left out; "single" when nothing is left.
void layout_spell(const struct layout *l, struct str *out);
int64_t layout_devices(const struct layout *l); // the product of all ways

// Ways that divide the batch (dp, fsdp, ep), and those that divide the sequence (ulysses, ring).
int64_t layout_batch_ways(const struct layout *l);
int64_t layout_sequence_ways(const struct layout *l);

// Layouts over all devices of a target, for a ranking: "dp", "fsdp", "tp", "tp+sp", "ulysses", "ring", "ep". NULL past
// the last.
const char *layout_preset(int i);
// The same, a name per line: what a shell completes.
void layout_words(struct str *out);

// What a model and a job allow. 0: not known, so not checked.
struct layout_limits {
    int64_t layers, heads, kv_heads, ffn; // ffn: of a dense layer
    int64_t experts, expert_ffn;
    bool dense;         // the model has no experts at all
    int64_t batch, seq; // of the whole job: sequences, and tokens in one
};
// ERR_USAGE, naming the numbers and ways that do divide them, when the layout cannot be: 8 heads over 16 ways, experts
// that are not there, more stages than layers, a batch of 4 over 8 ways. Layers that do not divide evenly over stages
// are fine: the largest stage counts.
int layout_check(const struct layout *l, const struct layout_limits *limits, struct error *err);

#endif
