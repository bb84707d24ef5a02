// SPDX-License-Identifier: Apache-2.0
// Embeddings of texts, as a model gives them under one policy on one device.
#ifndef LAB_EMBED_H
#define LAB_EMBED_H

#include "base/progress.h"
#include "lab/capture.h"
#include "lab/subject.h"

struct embed_options {
    struct workload_options workload; // its texts may come from a file or from memory
    struct worker_options worker;
    const char *policy;    // a preset or spelled out
    struct capture *trace; // NULL: no profile; else one is made after the last text, of all that the worker did and of
                           // a few more runs of the last batch. Release it in any case
};

struct embed {
    struct arena arena;
    struct workload workload; // texts, their lengths and facts
    struct policy policy;
    const char *device; // kind of the device it ran on
    size_t dimensions;
    float *rows; // [workload.n_texts][dimensions], in the order of the texts
    bool opened;
};

// Runs every text through the model, in batches of one shape. ERR_USAGE when there are no texts; ERR_INPUT for files;
// ERR_DEVICE. Call embed_release in any case.
int embed_run(struct embed *e, const struct embed_options *o, const struct progress *progress, struct error *err);
void embed_release(struct embed *e);

#endif
