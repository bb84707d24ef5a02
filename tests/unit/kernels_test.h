// SPDX-License-Identifier: Apache-2.0
// For tests of kernels: a module as XLA runs it, with calls of kernels, and in f64.
#ifndef TESTS_UNIT_KERNELS_TEST_H
#define TESTS_UNIT_KERNELS_TEST_H

#include "ir_test.h"
#include "kernels/choose.h"

// A plugin in this process with kernels registered. False (and the test is skipped) where oneDNN is not here.
bool kernels_rig_open(struct rig *r);

struct kernels_run {
    struct kernels_chosen chosen;
    enum dtype type;                   // of the result
    int64_t n;                         // its elements
    void *plain, *kernels;             // result 0, in its type
    double *plain64, *kernels64, *f64; // as doubles, and of the f64 run
    double flop[2], element_flop[2];   // of both, as ir/cost counts them: of products, and element by element
    int adds_left;                     // sums of two values that are no part of a call
};
// Runs a module of one result three times on the same arguments (NULL: drawn by `seed`: floats from a normal
// distribution, codes over their whole range, f32 parameters named "scale..." from 0.5 to 1.5). Calls are put in
// however small they are. Where weights are codes there is no run in f64: `f64` is then what the plain program gives.
// Release in any case.
bool kernels_run(struct rig *r, const struct module *m, const void *const *args, int seed, struct kernels_run *out);
void kernels_run_release(struct kernels_run *k);
// ||kernels - f64|| / ||f64||, and the same for plain.
double kernels_off(const struct kernels_run *k);
double kernels_plain_off(const struct kernels_run *k);

// One module in an arena of its own, and its three runs.
struct kernels_trial {
    struct arena arena;
    struct module m; // for the caller to build
    struct kernels_run k;
};
void kernels_trial_begin(struct kernels_trial *t, const char *name);
// Tells how far off its runs are, of which `bound` was asked, unless `ok`; releases all of it.
void kernels_trial_end(struct kernels_trial *t, const char *what, bool ok, double bound);

// Finishes what the builder made and puts a policy on it, into m.
void kernels_apply(struct builder *b, const char *policy, struct module *m);
// Runs the trial's module on values drawn by `seed`: one call of `kind`, as close to f64 as `bound` and as XLA's own.
// Ends the trial.
void kernels_agree(struct rig *r, struct kernels_trial *t, const char *what, enum kernel_kind kind, int seed,
                   double bound);
// Calls one(r, i, name) for i below n under every instruction set that is here, with a rig of its own.
void kernels_each_isa(size_t n, void (*one)(struct rig *r, size_t i, const char *isa));

#endif
