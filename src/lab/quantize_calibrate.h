// SPDX-License-Identifier: Apache-2.0
// Static scales of activations for a quantised file: a model that can be run is given texts, and the ranges that its
// activations took on are kept with the weights.
#ifndef LAB_QUANTIZE_CALIBRATE_H
#define LAB_QUANTIZE_CALIBRATE_H

#include "lab/quantize_policy.h"
#include "lab/ranges.h"

struct quantize_calibrate_options {
    const char *texts;  // file with a text on each line; NULL: nothing is calibrated
    int64_t batch, seq; // 0: as of struct workload_options
    struct worker_options worker;
    struct capture *trace; // as of struct ranges
};

// An activation that enters a product with a weight.
struct quantize_activation {
    const char *name, *module;
    float low, high, scale;
    int zero;
};

struct quantize_calibration {
    const char *path;
    size_t bytes;
    char sha256[65];
    size_t texts, tokens, truncated;
    int64_t batch, seq;
    const char *policy; // fields as the model runs them
    enum dtype type;
    double percentile;
    struct quantize_activation *activations;
    size_t count;
};

// `directory` holds a model that qualify could run. ERR_USAGE when the policy has no static scales; ERR_INPUT and
// ERR_DEVICE as of ranges_open and ranges_measure. Everything lives in the arena.
int quantize_calibrate(struct quantize_calibration *c, const char *directory, const struct quantize_policy *policy,
                       const struct quantize_calibrate_options *o, const struct progress *progress, struct arena *a,
                       struct error *err);
// {"text_file": ..., "list": [{"name", "module", "low", "high", "scale", "zero_point"}]...}
void quantize_calibration_json(const struct quantize_calibration *c, struct jw *w);

#endif
