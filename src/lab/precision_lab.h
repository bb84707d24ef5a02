// SPDX-License-Identifier: Apache-2.0
// The inside of the suite `lab`: one product under three operand policies, and what its checks need to see of it.
#ifndef LAB_PRECISION_LAB_H
#define LAB_PRECISION_LAB_H

#include "lab/precision.h"

enum lab_policy { LAB_FP32, LAB_BF16, LAB_INT8, LAB_POLICIES };

enum {
    LAB_SEED = 17, // of the published run, as are the extents
    LAB_BATCH = 64,
    LAB_FEATURES = 128,
    LAB_OUTPUTS = 64,
    LAB_CODE = 127,                                // largest code of a symmetric int8 operand
    LAB_CHUNK = INT32_MAX / (LAB_CODE * LAB_CODE), // 133144: products of such codes that an int32 can sum
    LAB_MAX_CHUNKS = PRECISION_OUTPUTS,            // a longer contraction is cut; its sums are added in f32
    LAB_MAX_ELEMENTS = 1 << 27,                    // of a matrix: 1 GiB as f64
};

#define LAB_MAX_PRODUCTS (1LL << 33) // m k n: the f64 references of 2048 x 2048 by 2048 x 2048

struct lab_shape {
    size_t m, k, n; // x[m,k] w[k,n]
};

// How many parts the contraction has whose int32 sums cannot overflow.
static inline size_t lab_chunks(size_t k)
{
    return (k + LAB_CHUNK - 1) / LAB_CHUNK;
}

// What is given to a program.
struct lab_operands {
    struct precision_array x, w;
    float *x_scales, *w_scales; // m and n of them; NULL but for int8
    double code_bytes, scale_bytes;
    int64_t clipped; // -1 but for int8
};

struct lab_input {
    const char *name; // "balanced", "outlier"
    float *x;
    const double *reference;  // f64 product of the f32 values
    const double *magnitudes; // sum |x||w|, what bounds of rounding scale with
    struct lab_operands operands[LAB_POLICIES];
    struct precision_case *cases[LAB_POLICIES];
    const double *results[LAB_POLICIES]; // m n; NULL where the case failed
};

struct lab_problem {
    struct precision *p;
    struct lab_shape shape;
    uint64_t seed;
    const char *prefix;  // of names: "", "1x127x65-"
    const char *section; // heading of its cases
    size_t samples;      // timed runs of each program
    float *w;
    struct lab_input inputs[2];
};

const char *lab_policy_name(enum lab_policy policy); // "fp32", "bf16", "int8"
// Draws w and both x, of q's shape and seed.
int lab_draw(struct lab_problem *q, struct error *err);
// Their f64 products, and what bounds of rounding scale with.
int lab_references(struct lab_problem *q, struct error *err);
// Makes the operands of a policy from f32 matrices.
int lab_operands(struct precision *p, const struct lab_shape *s, const float *x, const float *w, enum lab_policy policy,
                 struct lab_operands *out, struct error *err);
// Runs the product and gives its f32 result as doubles, and the program. int8: the int32 sums times both
// scales.
int lab_execute(struct precision *p, const char *name, enum lab_policy policy, const struct lab_operands *o,
                size_t samples, const double **y, const struct precision_program **program, struct error *err);
// The int32 sums themselves, part by part: sums[i] has m n.
int lab_accumulators(struct precision *p, const char *name, const struct lab_operands *o,
                     const int32_t *sums[LAB_MAX_CHUNKS], struct error *err);
// Label, policy, bytes and request of a case.
void lab_describe(struct precision *p, struct precision_case *c, enum lab_policy policy, const struct lab_operands *o);
// The products that the optimised program has, and whether they take operands of this type.
void lab_say_lowered(struct precision *p, struct precision_case *c, enum dtype operands,
                     const struct precision_program *program);
// A failure of the device that leaves the worker alive is the case's own: 0 then.
int lab_case_failed(struct precision *p, struct precision_case *c, struct error *err);

// ---- precision_lab_check.c

// What must hold of any run: arithmetic on the operands as they were rounded, exact integer sums, stored bytes.
int lab_check_problem(struct lab_problem *q, struct error *err);
// The figures of the published run, where this is it.
void lab_check_published(struct lab_problem *q);
// Inputs of zeros, the row 0 1 -2, and the longest sum that fits.
int lab_check_edges(struct precision *p, struct error *err);

#endif
