// SPDX-License-Identifier: Apache-2.0
// A reference directory: reference.json says what was run, taps.safetensors holds inputs and values by name, as
// PROGRAM/NAME, or CASE/PROGRAM/NAME where it has several cases. docs/ladder.md describes both.
#ifndef LAB_LADDER_REFERENCE_H
#define LAB_LADDER_REFERENCE_H

#include "io/checkpoint.h"
#include "ir/shape.h"

enum { LADDER_MAX_REFERENCES = 10 };

// One run of the model.
struct ladder_case {
    const char *name;                             // NULL: the only one
    const char *sampler;                          // of a pipeline; NULL
    int64_t height, width, steps, text_tokens;    // of a pipeline; 0
    int64_t seed;                                 // of its noise; -1: not said
    double guidance;                              // 1 and less: none
    int64_t references[LADDER_MAX_REFERENCES][2]; // height and width in pixels
    int n_references;
    const char **prompts; // that its rows of ids are of
    size_t n_prompts;
};

struct ladder_reference {
    struct arena arena;
    const char *directory;
    const char *model;   // "flux2", "bert", "decoder"
    const char *weights; // that it was run with where they have a name ("tiny:1"); NULL
    const char *made_by; // NULL: not said
    enum dtype type;     // that it was computed in: f32, bf16, f64
    struct ladder_case *cases;
    size_t n_cases;               // at least 1
    const struct ladder_case *at; // whose taps are looked for
    struct checkpoint taps;
    bool open;
};

int ladder_reference_open(struct ladder_reference *r, const char *directory, struct error *err);
// reference.json alone, into what arena_init made an arena of; `where` stands for its path.
int ladder_reference_parse(struct ladder_reference *r, const char *text, size_t n, const char *where,
                           struct error *err);
void ladder_reference_close(struct ladder_reference *r);

// "PROGRAM", or "CASE/PROGRAM".
const char *ladder_case_program(struct ladder_reference *r, const char *program, struct error *err);
// A value of the case at hand; NULL when there is none.
const struct tensor_view *ladder_tap(const struct ladder_reference *r, const char *program, const char *name);
// Whether the case at hand has any value of the program.
bool ladder_has_program(const struct ladder_reference *r, const char *program);
// A value as what a program takes: elements of shape->dtype, which the caller frees. ERR_INPUT when it is not there, or
// has another number of elements.
int ladder_tap_read(const struct ladder_reference *r, const char *program, const char *name, const struct shape *shape,
                    void **out, struct error *err);

#endif
