// SPDX-License-Identifier: Apache-2.0
// What a device's arithmetic really is: one fingerprint for each kind of product, read from products whose results tell
// it, put together as a software model, and confirmed by replaying that model against random products.
#ifndef LAB_PROBE_H
#define LAB_PROBE_H

#include "base/progress.h"
#include "lab/probe_tree.h"

// What was read of one float path at one shape. Every field that could not be read says so by its "unknown" value.
struct probe_fingerprint {
    // operands
    const char *operand; // "f32", "bf16", "tf32"...: what a product is formed from; NULL: no candidate explains it
    enum dot_rounding operand_rounding;
    int passes;                  // 1, or of a split operand 3, 6, 9
    bool last_nearest, guard;    // of a split
    int operand_flush;           // 1: subnormal operands count as zero, 0: kept, -1: unknown
    bool stochastic;             // the same product gave different results
    size_t rivals;               // other candidates that explain every operand probe as well
    const char *rival;           // the name of one of them
    size_t explained, operands;  // operand probes the candidate explains, of all
    int kept_sparse, kept_dense; // last t with (1 + 2^-t) 1 == itself; the same for 2 - 2^-t
    double worst_loss;           // largest relative error of random x times 1

    // products and sums
    enum probe_fusion { FUSION_UNKNOWN, FUSION_UNSEEN, FUSION_FMA, FUSION_SEPARATE, FUSION_BLOCK } fusion;
    int bits_near, bits_far, bits_block; // fraction bits that survive beside 1: next to it, across the widest step, and
                                         // inside one block that is added at once; -1: unknown
    bool wide_block;                     // bits_block is the most that could be asked
    bool high_first;                     // of two products, the later one is rounded alone
    const char *accumulator;             // "f32", "bf16", "f16", "e8m13", "f64"; NULL: unknown
    const char *inner;                   // of sums inside a block, where it is wider; NULL: the same
    int bits_inner;               // fraction bits that survive where 1 is taken away at the next step; -1: unknown
    int rounding;                 // enum dot_rounding, or -1
    int sum_flush, product_flush; // results below the smallest normal number: 1 zero, 0 kept, -1 unknown, -2 out
                                  // of reach of products of this type
    struct probe_tree tree;
    int stagnates; // the sum of that many ones and more stays; 0: not up to what was asked

    // ends of the range
    uint32_t invalid_bits, payload_bits; // f32: of infinity times 0, and of a NaN 7fe10000 times 1
    bool payload_kept;
    double overflow; // 2^127 + 2^127 - 2^127 or the like of the type: infinite, or the number

    // result
    const char *output;  // what the sum is rounded to; NULL: the accumulator's format
    int output_rounding; // enum dot_rounding, or -1

    // confirmation
    size_t replayed, same;
    size_t evidence, evidence_same; // vectors of the probes themselves, and how many the model gives
    const char *unexplained;        // the probe of the first that it does not give; NULL: none
    double worst_ulps;              // of those that differ, in units of the last place of the result's type
    const char *replay_model;       // the model that reproduces most: "as inferred", or a known device's
    bool repeats_same, rows_same;
    size_t alone, alone_same; // results compared with those of the same rows in a larger batch, and how many are equal
};
const char *probe_fusion_name(enum probe_fusion f); // "fused multiply-add", "products rounded before they are added"...

// ---- known devices

struct probe_known {
    const char *key;    // "h100-bf16"
    const char *device; // "NVIDIA H100, B200"
    const char *path;   // the path it answers
    struct dot_model model;
    bool order_known; // the model's order is the device's; else sums are taken first to last for want of a description
    const char *source;
};
const struct probe_known *probe_known_at(size_t i); // NULL past the end
const struct probe_known *probe_known_find(const char *key);
// What a fingerprint of the known device k would say of dots of n, taken from its model alone.
int probe_fingerprint_of(struct probe_fingerprint *out, const struct probe_known *k, size_t n, struct arena *a,
                         struct error *err);
// Compares: appends what differs, as phrases parted by "; " ("sums nearest even, not toward zero"), and returns how
// many aspects do, operands counted four times. What either side does not know is left out.
int probe_fingerprint_differences(const struct probe_fingerprint *found, const struct probe_fingerprint *known,
                                  struct str *out);
// The known devices of the operand type of `path`, at most `room` of them, without `same` and `tried`. ERR_MEMORY.
// probe_match_order: for qsort, those that differ in fewest aspects first, then those that reproduce more.
struct probe_match {
    const struct probe_known *known;
    int differs;             // as probe_fingerprint_differences counts
    const char *differences; // in the arena
    size_t same, tried; // random dots that the device's model reproduces; none are tried where its order is unknown
};
int probe_match_order(const void *x, const void *y);
enum { PROBE_MOST_MATCHES = 16 };
int probe_matches(struct probe_match *out, size_t room, size_t *n, const struct probe_fingerprint *found,
                  const struct probe_path *path, size_t k, struct arena *a, struct error *err);

// ---- one float path

struct probe_float {
    struct probe_fingerprint print;
    struct probe_batch evidence; // every vector with its result
    struct dot_model model;      // that the fingerprint means; names and arrays live in the arena
    const double *results;       // of the random dots, `print.replayed` of them: the same dots at every m
    struct probe_match *matches; // nearest first
    size_t n_matches;
};
// Asks everything about t. `wide` (may be NULL): the same path at a larger k, for stagnation. Errors are those of the
// target.
int probe_float_run(struct probe_float *out, struct probe_target *t, struct probe_target *wide, struct arena *a,
                    struct error *err);
// The fingerprint in words, a phrase for each aspect.
void probe_say_operand(struct str *out, const struct probe_fingerprint *f, const struct probe_path *path);
void probe_say_sum(struct str *out, const struct probe_fingerprint *f);
void probe_say_order(struct str *out, const struct probe_fingerprint *f);
void probe_say_denormals(struct str *out, const struct probe_fingerprint *f);
void probe_say_specials(struct str *out, const struct probe_fingerprint *f, const struct probe_path *path);
void probe_say_result(struct str *out, const struct probe_fingerprint *f, const struct probe_path *path);

#endif
