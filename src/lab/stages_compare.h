// SPDX-License-Identifier: Apache-2.0
// Two runs of timed stages on the same inputs, head to head.
#ifndef LAB_STAGES_COMPARE_H
#define LAB_STAGES_COMPARE_H

#include "base/json.h"
#include "io/checkpoint.h"
#include "lab/klein.h"

// One side: a document of assay.bench.stages/1, and what its stages made.
struct stages_side {
    const char *name; // for people: of a record or a device
    json_t *document;
    struct checkpoint outputs; // one f32 tensor for each stage
    bool has_outputs;
};

// From a record: report.json and outputs.safetensors in `dir`. ERR_INPUT for one of another command. Release in any
// case.
int stages_side_open(struct stages_side *s, const char *dir, struct error *err);
void stages_side_release(struct stages_side *s);

// Whether the samples of both were taken in turns, and if not why not.
struct stages_order {
    bool in_turns;
    char why[256];
};
// What can be done for two devices, by what each needs: not in turns where both are loaded from one memory that does
// not hold them at once, or are of one kind whose devices a process takes for itself.
struct stages_order stages_order_of(const struct klein_need needs[2], const char *const devices[2]);

// The result of assay.bench.compare/1, an object: for each product, request and module that both have the times, how
// many times faster b is, that by the ratio of what plain products let expect, and how far the outputs are apart. In
// turns the speed-up is that of the samples of each round, with its interval and a verdict.
// ERR_INPUT names the first input that differs: model, weights, prompt, size, steps, seed. Policies may differ.
int stages_compare_json(const struct stages_side *a, const struct stages_side *b, const struct stages_order *order,
                        struct jw *w, struct error *err);

#endif
