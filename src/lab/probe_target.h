// SPDX-License-Identifier: Apache-2.0
// Something that multiplies two matrices, asked one dot product at a time: a path of a device, or a software model in
// its place. What the probes share.
#ifndef LAB_PROBE_TARGET_H
#define LAB_PROBE_TARGET_H

#include "base/arena.h"
#include "num/dotmodel.h"
#include "worker/worker.h"

// A kind of product: what its operands are stored in, what it is asked to give, and how precisely.
struct probe_path {
    const char *key;  // "f32:highest"
    const char *name; // "f32 at HIGHEST"
    enum dtype lhs, rhs, out;
    const char *precision; // "DEFAULT", "HIGH", "HIGHEST"
    const char *algorithm; // inside #stablehlo.dot_algorithm<...>; NULL: none
    const char *asked;     // the format that the algorithm forms products from, in so many passes; NULL: none
    int passes;
};
// The paths in the order in which they are probed; NULL past the end. probe_path_find: by key, or NULL.
const struct probe_path *probe_path_at(size_t i);
const struct probe_path *probe_path_find(const char *key);

// c [m, n] = a [m, k] by b [k, n], row-major, elements as doubles (the operands are numbers of the path's types; a NaN
// keeps its f32 payload). `diagonal`: only c[i, i] is looked at. An error that leaves `refused` set is the answer of
// the device (it does not take the program, or died of it); else the probe ends.
struct probe_target {
    const struct probe_path *path;
    size_t m, k, n;
    void *context;
    int (*multiply)(struct probe_target *t, const double *a, const double *b, double *c, bool diagonal,
                    struct error *err);
    size_t runs; // products asked for so far
    size_t dots; // random dots to confirm with; 0: REPLAY_DOTS of probe_replay.h
};

// ---- a software model

struct probe_simulated {
    const struct dot_model *model;   // of float paths
    enum dot_integer integer;        // of integer paths
    const struct dot_model *vectors; // for m = 1, where the device takes another way; NULL: the same
};
void probe_target_simulate(struct probe_target *t, const struct probe_path *path, size_t m, size_t k, size_t n,
                           struct probe_simulated *s);

// ---- a device

// Programs are compiled once for each path and shape. A worker that dies is started again for the next path.
struct probe_device {
    struct worker_options options;
    struct worker *worker;
    struct probe_program *programs; // a list
    struct arena arena;
    bool refused;          // the last error was the device's answer
    const char *optimized; // of the last program compiled, in the arena; NULL where the plugin does not hand it over
    size_t optimized_length;
};
// Starts the worker. Close it in any case.
int probe_device_open(struct probe_device *d, const struct worker_options *options, struct error *err);
void probe_device_close(struct probe_device *d);
// Compiles; ERR_DEVICE with d->refused when the device does not take the program.
int probe_target_device(struct probe_target *t, const struct probe_path *path, size_t m, size_t k, size_t n,
                        struct probe_device *d, struct error *err);
// The program's text, StableHLO.
int probe_program_text(struct str *out, const struct probe_path *path, size_t m, size_t k, size_t n, struct error *err);

// A profile of a few more runs of the target's program on zeros, as a run of the record: TIME_LABEL. *name: its file
// there, in `a`.
struct record;
struct progress;
int probe_device_capture(struct probe_target *t, const char *label, struct record *record,
                         const struct progress *progress, struct arena *a, const char **name, struct error *err);
// Compiles and runs a program of three vectors of 16 elements of `in` once; y: its result, 16 of `out`. `excess`:
// as XLA does unasked, with excess precision allowed and, on the CPU, with maxima that may lose a NaN. d->refused as
// above.
int probe_device_elements(struct probe_device *d, const char *name, const struct str *text, enum dtype in,
                          double (*x)[16], enum dtype out, double *y, bool excess, struct error *err);

// ---- dots

// A batch of dot products of length k: each is zero but for its terms. Results in the order of adding.
struct probe_term {
    size_t at;
    double a, b;
};
struct probe_vector {
    const char *probe, *variant; // what it belongs to; borrowed
    size_t n_terms;
    struct probe_term terms[8];
    bool fill; // every other element is fill_a times fill_b
    double fill_a, fill_b;
    double out;
};
struct probe_batch {
    struct arena *arena;
    size_t count, capacity;
    struct probe_vector *vectors;
    int failed; // the first error code of adding
};
void probe_batch_init(struct probe_batch *b, struct arena *a);
// A new vector without terms; its index is b->count - 1. NULL when there is no memory (b->failed is set).
struct probe_vector *probe_batch_add(struct probe_batch *b, const char *probe, const char *variant);
void probe_vector_term(struct probe_vector *v, size_t at, double a, double b);
// Runs those from `first` on: vector i in row i of the left and column i of the right operand, as many at a time as the
// shape has rows; at m = 1 those whose left operands fit in one row together, each in another column.
int probe_batch_run(struct probe_batch *b, size_t first, struct probe_target *t, struct error *err);

#endif
