// SPDX-License-Identifier: Apache-2.0
// One way of storing a matrix, tried on it: what it takes, and what comes back.
#ifndef LAB_STORAGE_H
#define LAB_STORAGE_H

#include "lab/quantize_policy.h"
#include "num/format.h"

struct storage {
    const char *text;            // as given; borrowed
    const struct format *format; // a cast without scales; NULL: by `policy`
    struct quantize_policy policy;
    bool has_activations; // the policy also says how the other operand of a product is stored (a=)
};

// `text` is what quantize_policy_parse reads ("w8a16", "mxfp4", "w=int4/group:32,a=bf16"), the value of w= alone
// ("int4/group:32"), or a number format without scales: "f8e5m2/cast", and those that have no other use by name alone
// ("tf32", "f6e2m3fn"). ERR_USAGE lists what is known.
int storage_parse(struct storage *s, const char *text, struct error *err);
// How the policy stores activations: its a= field, or what its preset stands for. Only with has_activations. "row" is
// taken as "channel": a scale for each row of the activations.
int storage_parse_activations(const struct storage *s, struct storage *out, char text[64], struct error *err);
// The rule in one sentence, appended.
void storage_describe(const struct storage *s, struct str *out);
// One name per line: what a shell completes.
void storage_words(struct str *out);

struct storage_result {
    size_t code_bytes, scale_bytes; // packed row by row; zero points count as scales
    size_t clipped;                 // beyond the largest code, element or number of the format
    size_t flushed;                 // not 0, and 0 afterwards
    size_t nonfinite;               // values that were NaN or infinite
};

// Stores x [rows, columns], and reads it back as f32 (what its codes mean, rounded once). ERR_INPUT names the first
// value that is not finite where the way has no place for it; ERR_USAGE when it does not fit the shape.
int storage_apply(const struct storage *s, size_t rows, size_t columns, const float *x, float *back,
                  struct storage_result *out, const char *name, struct error *err);

#endif
