// SPDX-License-Identifier: Apache-2.0
// Training a network of two layers with low precision, for the suite `scaling`: what is shared between the programs,
// the loop around them and the experiments.
//
//     h = max(x w1, 0)     y = h w2     loss = mean((y - t)^2)
//
// The backward pass is written by hand, as instructions of the same module. The loss is divided by SCALING_PARTS, as
// when a batch is one of so many that are averaged: gradients are that small, and the learning rate is that much
// larger.
#ifndef LAB_PRECISION_SCALING_H
#define LAB_PRECISION_SCALING_H

#include "lab/precision.h"

enum {
    SCALING_BATCH = 128,
    SCALING_INPUTS = 32,
    SCALING_HIDDEN = 64,
    SCALING_OUTPUTS = 16,
    SCALING_W1 = SCALING_INPUTS * SCALING_HIDDEN,
    SCALING_W2 = SCALING_HIDDEN * SCALING_OUTPUTS,
    SCALING_WEIGHTS = SCALING_W1 + SCALING_W2,
    SCALING_PARTS = 8192,
    SCALING_GROWTH = 20, // steps in a row without overflow after which a scale that adapts is doubled
    SCALING_TENSORS = 3, // gradients that are stored: of y, of h, of w
    // Values of those three.
    SCALING_GRADIENTS = SCALING_BATCH * (SCALING_OUTPUTS + SCALING_HIDDEN) + SCALING_WEIGHTS,
};

// numpy.random.default_rng(seed): x, the two weights of a network that makes the targets, and the first weights of the
// one that is trained. Weights are divided by the square root of their rows. In the run's arena.
struct scaling_data {
    float *x, *t, *w; // w: SCALING_WEIGHTS, both matrices, w1 first
};

enum { SCALING_MAX_PROGRAMS = 32 };

struct scaling_program {
    const char *name;
    struct worker_executable executable;
};

// A run of the suite: its data, and the programs that are compiled, by name.
struct scaling_lab {
    struct precision *p;
    struct scaling_data data;
    struct scaling_program programs[SCALING_MAX_PROGRAMS];
    size_t n_programs;
};

int scaling_init(struct scaling_lab *lab, struct precision *p, uint64_t seed, struct error *err);
void scaling_release(struct scaling_lab *lab);

enum scaling_quantisation {
    SCALING_EXACT_WEIGHTS,
    // The forward pass sees codes times scales (amax / qmax per column), the backward pass hands the gradient of those
    // to the weights themselves: straight through.
    SCALING_STRAIGHT_THROUGH,
    // The weights are what codes times scales give, and every step's result is cast to that again; scales stay.
    SCALING_CAST_ALONE,
};

struct scaling_policy {
    const char *name;
    enum dtype type;    // of activations and gradients; sums are f32 (f64 for f64)
    enum dtype weights; // that are kept: f32 is a master copy
    double scale;       // of the loss, at first
    bool adapt;         // halve the scale when a gradient is not finite, double it after SCALING_GROWTH good steps
    bool apply_all;     // apply gradients that are not finite, too
    double clip;        // largest norm of all gradients together; 0: none
    bool clip_scaled;   // clip before the loss scale is taken out: wrong
    enum scaling_quantisation quantisation;
    int qmax; // of the codes
};

// One training run. Arrays are in the run's arena; index `steps` is the state after the last one.
struct scaling_run {
    size_t steps;
    double *loss;   // steps + 1, undivided
    double *scale;  // steps + 1
    double *zeroed; // steps + 1: share of gradients that are not 0 in the sum's type and 0 when stored
    int64_t flushed[SCALING_TENSORS]; // gradients that became 0, over all steps
    int64_t skipped, grown;
    int64_t updates, lost_updates; // nonzero; and those that changed nothing
    int64_t changed;               // weights that a step changed
    int64_t bad_weights;           // of the last state: not finite
    double largest_norm;           // of a gradient that was applied, after clipping, without the scale, times PARTS
    double *w;                     // the last weights
};

// Trains from the weights `start`. scales: of the columns of both, for SCALING_CAST_ALONE; else two NULL.
int scaling_train(struct scaling_lab *lab, const float *start, const float *const scales[2],
                  const struct scaling_policy *policy, size_t steps, struct scaling_run *out, struct error *err);

// One evaluation of the gradient program at weights in f32, apart from any run.
struct scaling_gradient {
    const double *values; // SCALING_WEIGHTS; without the scale, times PARTS
    double loss;
    int64_t flushed[SCALING_TENSORS], bad;
};
// `reference`: of the module retyped to f64.
int scaling_gradient(struct scaling_lab *lab, const float *weights, const struct scaling_policy *policy, bool reference,
                     struct scaling_gradient *out, struct error *err);

#endif
