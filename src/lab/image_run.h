// SPDX-License-Identifier: Apache-2.0
// From a prompt to PNG files: tokens, noise, references, the pipeline, levels, and what is said about it.
#ifndef LAB_IMAGE_RUN_H
#define LAB_IMAGE_RUN_H

#include "base/json.h"
#include "lab/klein.h"
#include "models/noise.h"
#include "models/prompt.h"

struct image_options {
    struct klein_options klein; // the sizes of references are taken from their files
    const char *prompt;         // UTF-8
    uint64_t seed;
    enum noise_kind noise;
    const char *const *references; // PNG or JPEG files
    size_t n_references;
    const char *output; // OUT.png; a batch writes OUT-1.png, OUT-2.png, ...
};

struct image_run {
    struct arena arena;
    const struct image_options *options;
    struct klein_options pipeline; // with the references' sizes
    bool random;                   // the weights are
    int64_t max_tokens;            // of a prompt
    struct klein klein;
    bool opened;
    uint64_t start_ns;
    struct prompt_info prompt;
    struct str cut;        // of the prompt, where it was too long
    const char *tokenizer; // folder; NULL: every byte is a token (random weights come without one)
    int32_t *ids, *mask;   // [2][tokens]: the prompt, and the empty one
    float *pixels[KLEIN_MAX_REFERENCES];
    int64_t sizes[KLEIN_MAX_REFERENCES][2]; // of the references in their files: height, width
    const char *paths[KLEIN_MAX_BATCH];     // written
    double total_s;                         // from the options to the files
    uint64_t peak_bytes;                    // resident in the worker, at most; 0: not known
};

// Looks at all that can be wrong before programs are compiled and weights loaded: where the files will lie, the names
// and shapes of the weights, the prompt, the references. `o` must live as long as the run. ERR_USAGE, ERR_INPUT,
// ERR_IO. image_run_release may be called in any case.
int image_run_open(struct image_run *r, const struct image_options *o, struct error *err);
// Draws. Files appear whole or not at all. ERR_USAGE, ERR_INPUT, ERR_MEMORY, ERR_DEVICE, ERR_IO, ERR_INTERRUPTED.
int image_run_draw(struct image_run *r, const struct progress *progress, struct error *err);
void image_run_release(struct image_run *r);
// The result of a document of assay.image/1.
int image_run_json(void *run, struct jw *w, struct error *err);
// "random:1", or NULL for weights that come from files.
const char *image_run_random(const struct image_run *r);

#endif
