// SPDX-License-Identifier: Apache-2.0
// What the weights of a model take: as a checkpoint stores them, as a policy would, or as the configuration says; in
// all, and on the fullest device of a layout.
#ifndef PLAN_WEIGHTS_H
#define PLAN_WEIGHTS_H

#include "io/checkpoint.h"
#include "ir/policy.h"
#include "models/arch.h"
#include "plan/layout.h"

enum { WEIGHT_OUTSIDE_FIRST = -1, WEIGHT_OUTSIDE_LAST = -2, WEIGHT_BY_WHERE = -3 };

struct weight {
    const char *name; // of a file: escape it where it is shown
    enum arch_part part;
    enum arch_split split;
    int64_t layer;         // index, or one of WEIGHT_*
    enum arch_where where; // of WEIGHT_BY_WHERE
    int64_t rows, cols;    // cols 0: a vector
    int64_t each;          // copies in one layer
    double elements;       // parameters of one copy; 0 for what only belongs to others (scales, indices, buffers)
    double bytes;          // of one copy's values or codes
    double scale_bytes;    // of its scales and zero points
    const char *type;      // "bf16", "s4", "Q4_K", "s4 in s32"
};

struct weights {
    struct weight *list;
    size_t n, cap;
    double parameters, bytes, scale_bytes; // of the whole model, once
    double trained;                        // parameters that training changes: of image models the denoiser's, else all
    double packed_elements;                // of codes below 8 bits that are packed; 0: there are none
    double unpacked_bytes;                 // what is more when these take a byte each
    bool stored;                           // bytes are a file's own; else they follow from shapes
    const char *how;                       // one sentence: where types and bytes come from
    const char *note;                      // NULL: nothing
};

// What tensors of one part, of one type, or of one part in one type take.
struct weight_total {
    const char *part, *type; // NULL: of any
    double elements, bytes, scale_bytes;
};

// As the configuration says: "dtype", "quantization_config"; bf16 where it says nothing.
int weights_from_arch(struct weights *w, const struct arch *a, struct arena *arena, struct error *err);
// As the files store them. `a` may be NULL: then nothing is known about layers and splits. Packed containers (GPTQ,
// AWQ, compressed-tensors, MLX: int32; bitsandbytes, MXFP4: bytes) count as the codes inside.
int weights_from_checkpoint(struct weights *w, const struct checkpoint *c, const struct arch *a, struct arena *arena,
                            struct error *err);
// Adds those of another file: one of several that a model lies in.
int weights_add_checkpoint(struct weights *w, const struct checkpoint *c, const struct arch *a, struct arena *arena,
                           struct error *err);
// The same weights as a policy stores them: matrices in w=, vectors wide.
int weights_under_policy(struct weights *w, const struct weights *from, const struct arch *a, const struct policy *p,
                         struct arena *arena, struct error *err);
// Codes below 8 bits take a byte each: int4 held in int8 arrays.
void weights_unpack(struct weights *w);

// Totals by part, by type, or (both) by part and type; at most `max`, those of most bytes first. Returns how many.
size_t weights_totals(const struct weights *w, const struct arch *a, bool by_part, bool by_type,
                      struct weight_total *out, size_t max);

// On the fullest device, before fsdp and zero divide.
struct weights_local {
    double elements;       // parameters that training changes
    double bytes;          // with scales
    double largest_layer;  // parameters of one layer
    double layer_bytes;    // of that layer
    double small_elements; // of tensors below 4096 parameters, which 8-bit optimizers leave alone
    double factored;       // sum of rows and columns of matrices, and all elements of vectors (Adafactor)
    int64_t first, last;   // layers of that device's stage
};
void weights_on_device(const struct weights *w, const struct arch *a, const struct layout *l,
                       struct weights_local *out);

#endif
