// SPDX-License-Identifier: Apache-2.0
// Two runs of timed stages on the same inputs, head to head.
#ifndef LAB_STAGES_COMPARE_H
#define LAB_STAGES_COMPARE_H

#include "base/json.h"
#include "io/checkpoint.h"

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

// The result of assay.bench.compare/1, an object: for each product, request and module that both have the times, how
// many times faster b is, that by the ratio of what plain products let expect, and how far the outputs are apart.
// ERR_INPUT names the first input that differs: model, weights, prompt, size, steps, seed. Policies may differ.
int stages_compare_json(const struct stages_side *a, const struct stages_side *b, struct jw *w, struct error *err);

#endif
