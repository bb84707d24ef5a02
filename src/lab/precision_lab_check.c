// SPDX-License-Identifier: Apache-2.0
// What the suite `lab` proves on the way: that the errors it shows come from the operands and not from what was done
// with them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/sha256.h"
#include "lab/precision_lab.h"
#include "num/quantize.h"

#define NAME 128

static double *absolute(struct precision *p, const double *v, size_t n, struct error *err)
{
    double *out = precision_alloc(p, n, sizeof *out, err);
    for (size_t i = 0; i < n && out; i++)
        out[i] = fabs(v[i]);
    return out;
}

// A sum of k products in f32, in any order, is within k units of 2^-24 of the sum of their magnitudes; twice that and
// some more lets in products made of six bf16 passes. A bf16 rounding of an operand is far outside.
static int64_t beyond_rounding(const struct lab_shape *s, const double *reference, const double *magnitudes,
                               const double *result)
{
    int64_t beyond = 0;
    for (size_t i = 0; i < s->m * s->n; i++)
        beyond += !(fabs(result[i] - reference[i]) <= (double)(s->k + 8) * 0x1p-23 * magnitudes[i]);
    return beyond;
}

static int check_f32(struct lab_problem *q, const struct lab_input *in)
{
    char name[NAME];
    if (!in->results[LAB_FP32])
        return 0;
    snprintf(name, sizeof name, "%s%s-fp32: arithmetic", q->prefix, in->name);
    precision_check_count(q->p, name, "elements farther from f64 than f32 sums can be", 0,
                          beyond_rounding(&q->shape, in->reference, in->magnitudes, in->results[LAB_FP32]));
    return 0;
}

static int check_bf16(struct lab_problem *q, const struct lab_input *in, struct error *err)
{
    char name[NAME];
    const struct lab_shape *s = &q->shape;
    const struct lab_operands *o = &in->operands[LAB_BF16];
    if (!in->results[LAB_BF16])
        return 0;
    const double *x = precision_doubles(q->p, DT_BF16, o->x.data, s->m * s->k, err);
    const double *w = x ? precision_doubles(q->p, DT_BF16, o->w.data, s->k * s->n, err) : NULL;
    const double *ax = w ? absolute(q->p, x, s->m * s->k, err) : NULL;
    const double *aw = ax ? absolute(q->p, w, s->k * s->n, err) : NULL;
    const double *reference = aw ? precision_product_f64(q->p, x, w, s->m, s->k, s->n, err) : NULL;
    const double *magnitudes = reference ? precision_product_f64(q->p, ax, aw, s->m, s->k, s->n, err) : NULL;
    if (!magnitudes)
        return ERR_MEMORY;
    snprintf(name, sizeof name, "%s%s-bf16: arithmetic on the rounded operands", q->prefix, in->name);
    precision_check_count(q->p, name, "elements farther from the f64 product of these operands than f32 sums can be", 0,
                          beyond_rounding(s, reference, magnitudes, in->results[LAB_BF16]));
    return 0;
}

// The sums of part `part` of row i in 64 bits.
static void exact_sums(const struct lab_shape *s, const struct lab_operands *o, size_t i, size_t part, int64_t *sums)
{
    const int8_t *x = o->x.data, *w = o->w.data;
    size_t end = (part + 1) * LAB_CHUNK < s->k ? (part + 1) * LAB_CHUNK : s->k;
    memset(sums, 0, s->n * sizeof *sums);
    for (size_t l = part * LAB_CHUNK; l < end; l++) {
        for (size_t j = 0; j < s->n; j++)
            sums[j] += x[i * s->k + l] * w[l * s->n + j];
    }
}

struct integer_result {
    int64_t wrong_sums, wrong_results;
};

// Each part's sum must be the integer itself. The result is their sum in f32 times two scales: a rounding for each
// conversion, addition and product.
static int compare_integers(struct lab_problem *q, const struct lab_input *in, const int32_t *const *sums,
                            struct integer_result *out, struct error *err)
{
    const struct lab_shape *s = &q->shape;
    const struct lab_operands *o = &in->operands[LAB_INT8];
    const size_t parts = lab_chunks(s->k);
    int64_t *exact = precision_alloc(q->p, parts * s->n, sizeof *exact, err);
    *out = (struct integer_result){0};
    if (!exact)
        return ERR_MEMORY;
    for (size_t i = 0; i < s->m; i++) {
        int rc = interrupt_check("checking integer sums", err);
        if (rc)
            return rc;
        for (size_t part = 0; part < parts; part++)
            exact_sums(s, o, i, part, exact + part * s->n);
        for (size_t j = 0; j < s->n; j++) {
            double total = 0, magnitude = 0;
            for (size_t part = 0; part < parts; part++) {
                int64_t sum = exact[part * s->n + j];
                out->wrong_sums += sums[part][i * s->n + j] != sum;
                total += (double)sum;
                magnitude += fabs((double)sum);
            }
            double scale = (double)o->x_scales[i] * (double)o->w_scales[j];
            double bound = (double)(2 * parts + 2) * 0x1p-24 * magnitude * scale;
            out->wrong_results += !(fabs(in->results[LAB_INT8][i * s->n + j] - total * scale) <= bound);
        }
    }
    return 0;
}

static int check_int8(struct lab_problem *q, const struct lab_input *in, struct error *err)
{
    char name[NAME];
    const int32_t *sums[LAB_MAX_CHUNKS];
    struct integer_result r;
    const char *const shows = "sums that differ from 64-bit integer arithmetic on the host";
    if (!in->results[LAB_INT8])
        return 0;
    snprintf(name, sizeof name, "%s%s-int8-sums", q->prefix, in->name);
    int rc = lab_accumulators(q->p, name, &in->operands[LAB_INT8], sums, err);
    if (rc == ERR_DEVICE && !precision_lost(q->p)) {
        precision_check(q->p, name, shows, false, "int32 sums", err->message);
        error_clear(err);
        return 0;
    }
    if (!rc)
        rc = compare_integers(q, in, sums, &r, err);
    if (rc)
        return rc;
    precision_check_count(q->p, name, shows, 0, r.wrong_sums);
    snprintf(name, sizeof name, "%s%s-int8: rescaling", q->prefix, in->name);
    precision_check_count(q->p, name, "elements farther from their sum times both scales than rounding can be", 0,
                          r.wrong_results);
    return 0;
}

static void check_bytes(struct lab_problem *q)
{
    static const double bytes[LAB_POLICIES] = {4, 2, 1};
    const struct lab_shape *s = &q->shape;
    for (int policy = 0; policy < LAB_POLICIES; policy++) {
        char name[NAME];
        double scales = policy == LAB_INT8 ? 4.0 * (double)(s->m + s->n) : 0;
        const struct lab_operands *o = &q->inputs[0].operands[policy];
        snprintf(name, sizeof name, "%s%s: stored bytes", q->prefix, lab_policy_name((enum lab_policy)policy));
        precision_check_count(q->p, name, "both operands, with an f32 scale per row and column",
                              (int64_t)(bytes[policy] * (double)(s->m * s->k + s->k * s->n) + scales),
                              (int64_t)(o->code_bytes + o->scale_bytes));
    }
}

int lab_check_problem(struct lab_problem *q, struct error *err)
{
    int rc = 0;
    check_bytes(q);
    for (int i = 0; i < 2 && !rc; i++) {
        rc = check_f32(q, &q->inputs[i]);
        if (!rc)
            rc = check_bf16(q, &q->inputs[i], err);
        if (!rc)
            rc = check_int8(q, &q->inputs[i], err);
    }
    return rc;
}

// ---- the published run

static void check_hash(struct lab_problem *q, const struct lab_input *in, const char *expected)
{
    size_t xs = q->shape.m * q->shape.k * sizeof(float), ws = q->shape.k * q->shape.n * sizeof(float);
    char *both = precision_alloc(q->p, xs + ws, 1, &q->p->error), hex[65], name[NAME];
    if (!both)
        return;
    memcpy(both, in->x, xs);
    memcpy(both + xs, q->w, ws);
    snprintf(name, sizeof name, "%s: sha256 of x and w", in->name);
    if (sha256_bytes(both, xs + ws, hex, &q->p->error))
        return;
    hex[strlen(expected)] = '\0';
    precision_check_text(q->p, name, "the inputs are those of the published run", expected, hex);
}

void lab_check_published(struct lab_problem *q)
{
    static const char *const hashes[2] = {"2a60a6fffbe58b36", "5eddbc8a013fe228"};
    static const struct {
        enum lab_policy policy;
        int input;
        double rel_l2;
    } errors[] = {{LAB_BF16, 0, 0.0023}, {LAB_BF16, 1, 0.0023}, {LAB_INT8, 0, 0.0091}, {LAB_INT8, 1, 0.0245}};
    static const int64_t bytes[LAB_POLICIES] = {65536, 32768, 16896};
    const struct lab_shape published = {LAB_BATCH, LAB_FEATURES, LAB_OUTPUTS};
    if (q->seed != LAB_SEED || memcmp(&q->shape, &published, sizeof published) != 0)
        return;
    for (int i = 0; i < 2; i++)
        check_hash(q, &q->inputs[i], hashes[i]);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        const struct precision_case *c = q->inputs[errors[i].input].cases[errors[i].policy];
        if (!c->failure)
            precision_check_number(q->p, c->name, "the published relative L2 error", errors[i].rel_l2,
                                   c->measures[0].rel_l2, 5e-5, "half of the last digit published");
    }
    for (int policy = 0; policy < LAB_POLICIES; policy++) {
        char name[NAME];
        const struct lab_operands *o = &q->inputs[0].operands[policy];
        snprintf(name, sizeof name, "%s: published bytes", lab_policy_name((enum lab_policy)policy));
        precision_check_count(q->p, name, "the published bytes of both operands", bytes[policy],
                              (int64_t)(o->code_bytes + o->scale_bytes));
    }
    precision_check_count(q->p, "int8: published bytes of scales", "64 rows and 64 columns in f32", 512,
                          (int64_t)q->inputs[0].operands[LAB_INT8].scale_bytes);
}

// ---- edges

// x is zero throughout, and so is the first column of w.
static int check_zero(struct precision *p, enum lab_policy policy, struct error *err)
{
    const struct lab_shape s = {4, 8, 3};
    static const float x[4 * 8];
    float w[8 * 3];
    static const double zero[4 * 3];
    char name[NAME];
    struct lab_operands o;
    const double *y;
    const struct precision_program *program;
    for (int i = 0; i < 24; i++)
        w[i] = i % 3 ? (float)(i - 11) / 4 : 0;
    int rc = lab_operands(p, &s, x, w, policy, &o, err);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "zero-%s", lab_policy_name(policy));
    struct precision_case *c = precision_case(p, "inputs of zeros", name, "zeros");
    lab_describe(p, c, policy, &o);
    rc = lab_execute(p, name, policy, &o, 0, &y, &program, err);
    if (rc)
        return lab_case_failed(p, c, err);
    precision_on_device(p, c);
    lab_say_lowered(p, c, o.x.type, program);
    const struct precision_measure *m = precision_measure(p, c, "f64", zero, y, 12);
    int64_t nonzero = 0, wrong_scales = 0;
    for (int i = 0; i < 12; i++)
        nonzero += y[i] != 0;
    for (int i = 0; i < 4 && o.x_scales; i++)
        wrong_scales += o.x_scales[i] != 1;
    wrong_scales += o.w_scales && o.w_scales[0] != 1;
    precision_check_count(p, name, "zeros give zeros", 0, nonzero);
    snprintf(name, sizeof name, "zero-%s: relative error", lab_policy_name(policy));
    precision_check_text(p, name, "a relative error against zero is no number", "none",
                         isnan(m->rel_l2) ? "none" : "a number");
    snprintf(name, sizeof name, "zero-%s: scales", lab_policy_name(policy));
    if (o.x_scales)
        precision_check_count(p, name, "rows and columns of zeros have the scale 1", 0, wrong_scales);
    return 0;
}

static int check_row(struct precision *p, struct error *err)
{
    static const float x[3] = {0, 1, -2};
    const struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 0};
    int8_t codes[3];
    float scale, back[3];
    struct quant_stats stats;
    int rc = quantize(&spec, (int64_t[]){1, 3}, 2, x, codes, &scale, NULL, &stats, "0 1 -2", err);
    if (!rc)
        rc = dequantize(&spec, (int64_t[]){1, 3}, 2, codes, &scale, NULL, back, "0 1 -2", err);
    if (rc)
        return rc;
    precision_check_count(p, "row 0 1 -2: code", "one is 63.5 scales of 2/127, a tie, and goes to the even code", 64,
                          codes[1]);
    precision_check_number(p, "row 0 1 -2: back", "what the code of one stands for", 1.0079, (double)back[1], 5e-5,
                           "half of the last digit published");
    return 0;
}

static int check_longest_sum(struct precision *p, struct error *err)
{
    const char *const name = "longest-sum", *const shows = "the longest sum of the largest codes that an int32 holds";
    int8_t *codes = precision_alloc(p, LAB_CHUNK, 1, err);
    const int32_t *sums[LAB_MAX_CHUNKS];
    if (!codes)
        return ERR_MEMORY;
    memset(codes, LAB_CODE, LAB_CHUNK);
    struct lab_operands o = {.x = precision_matrix("x", DT_S8, 1, LAB_CHUNK, codes),
                             .w = precision_matrix("w", DT_S8, LAB_CHUNK, 1, codes)};
    int rc = lab_accumulators(p, name, &o, sums, err);
    if (rc == ERR_DEVICE && !precision_lost(p)) {
        precision_check(p, name, shows, false, "an int32 sum", err->message);
        error_clear(err);
        return 0;
    }
    if (!rc)
        precision_check_count(p, name, shows, (int64_t)LAB_CHUNK * LAB_CODE * LAB_CODE, sums[0][0]);
    return rc;
}

int lab_check_edges(struct precision *p, struct error *err)
{
    int rc = check_row(p, err);
    for (int policy = 0; policy < LAB_POLICIES && !rc; policy++)
        rc = check_zero(p, (enum lab_policy)policy, err);
    return rc ? rc : check_longest_sum(p, err);
}
