// SPDX-License-Identifier: Apache-2.0
// What the files of the ladder share: ladder.c compares programs, one file for each kind of model says which.
#ifndef LAB_LADDER_PART_H
#define LAB_LADDER_PART_H

#include "lab/ladder.h"
#include "models/decoder.h"

// Runs what of an f32 module makes values that the reference has, on its inputs of `program`: once cut at every such
// value and once whole, and scores them. The module's arena is grown.
int ladder_program(struct ladder *l, const char *program, const struct module *module, const struct checkpoint *weights,
                   const struct progress *progress, struct error *err);
// Scores a value that no program makes: n elements in f64. `chained`: made from our own values before it.
int ladder_value(struct ladder *l, const char *program, const char *name, bool chained, const double *values, size_t n,
                 struct error *err);
// The same of n elements of another type.
int ladder_host_value(struct ladder *l, const char *program, const char *name, enum dtype type, const void *values,
                      size_t n, struct error *err);
// Rotary tables of n values each, "rope_cos" and "rope_sin"; and those of a decoder's positions from 0 on.
int ladder_rope(struct ladder *l, const char *program, const float *cosine, const float *sine, size_t n,
                struct error *err);
int ladder_decoder_rope(struct ladder *l, const char *program, const struct decoder_config *c, int64_t seq,
                        struct error *err);
// The rungs of a kind of model, and the one that a key belongs to.
struct ladder_place {
    const char *program, *prefix; // of the name
    int rung;
};
struct ladder_model {
    const char *name; // in a reference.json
    const struct ladder_rung *rungs;
    int n_rungs;
    const struct ladder_place *places; // the first that fits counts; ended by a NULL program
    const char *const *programs;       // that a reference may have values of; ended by NULL
    // The case at hand.
    int (*run)(struct ladder *l, const struct progress *progress, struct error *err);
};
extern const struct ladder_model ladder_flux2, ladder_bert, ladder_decoder;

#endif
