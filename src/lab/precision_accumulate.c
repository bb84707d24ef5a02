// SPDX-License-Identifier: Apache-2.0
// How a sum is accumulated: one product under several policies, on inputs of jax.random, and the same product with
// every step of the accumulation rounded, in software. A published JAX run of the three policies is recorded below;
// what it calls bf16 accumulation is the f32 sum rounded once.
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "ir/builder.h"
#include "lab/precision.h"
#include "num/convert.h"
#include "num/dotmodel.h"
#include "num/quantize.h"
#include "num/random.h"

enum {
    ROWS = 64, // of the recorded run
    CONTRACTED = 256,
    COLUMNS = 64,
    MODEL_STEPS = 1 << 26, // rows * contracted * columns: some seconds per model
    NAME = 96,
};
#define WEIGHT_SCALE 0.25f

#define F32_PRODUCT "f32 product"
#define F64         "f64"
#define POLICY_BF16 "bf16 operands, f32 sums"
#define POLICY_ONCE "bf16 operands, bf16 result"
#define POLICY_INT8 "int8 weights per column, f32 sums"

// One product of random normals and everything that is computed of it.
struct problem {
    struct precision *p;
    uint64_t seed;
    char input[32]; // "seed 0"
    size_t m, k, n;
    float *x, *w;
    struct precision_array x_f32, w_f32, x_bf16, w_bf16;
    const double *exact, *product; // f64, and the f32 product of the device
    const double *sums;            // bf16 operands, f32 sums, of the device
    struct precision_case *policies[3], *models[8];
    size_t n_models;
};

// ---- inputs

static int normals(struct precision *p, struct random_jax_key key, size_t n, float scale, float **out,
                   struct error *err)
{
    struct random_jax stream = {key, RANDOM_JAX_PARTITIONABLE, n};
    *out = precision_alloc(p, n, sizeof **out, err);
    int rc = *out ? random_jax_normal_f32(&stream, 0, *out, n, err) : ERR_MEMORY;
    for (size_t i = 0; i < n && !rc; i++)
        (*out)[i] *= scale;
    return rc;
}

static void add_inputs(struct problem *q)
{
    char name[NAME], source[NAME];
    snprintf(name, sizeof name, "x, %s", q->input);
    snprintf(source, sizeof source, "jax.random normal of the first half of the split key of seed %llu",
             (unsigned long long)q->seed);
    precision_add_input(q->p, name, DT_F32, 2, q->x_f32.dims, q->x, source);
    snprintf(name, sizeof name, "w, %s", q->input);
    snprintf(source, sizeof source, "the second half, times %.2f", (double)WEIGHT_SCALE);
    precision_add_input(q->p, name, DT_F32, 2, q->w_f32.dims, q->w, source);
}

static int make_inputs(struct problem *q, struct error *err)
{
    struct random_jax_key halves[2];
    // Without jax_enable_x64 JAX keeps the low 32 bits of a seed.
    random_jax_split(random_jax_key(q->seed & 0xffffffffu), RANDOM_JAX_PARTITIONABLE, halves, 2);
    int rc = normals(q->p, halves[0], q->m * q->k, 1, &q->x, err);
    if (!rc)
        rc = normals(q->p, halves[1], q->k * q->n, WEIGHT_SCALE, &q->w, err);
    if (rc)
        return rc;
    q->x_f32 = precision_matrix("x", DT_F32, q->m, q->k, q->x);
    q->w_f32 = precision_matrix("w", DT_F32, q->k, q->n, q->w);
    add_inputs(q);
    rc = precision_convert(q->p, &q->x_f32, DT_BF16, &q->x_bf16, err);
    return rc ? rc : precision_convert(q->p, &q->w_f32, DT_BF16, &q->w_bf16, err);
}

// ---- products on the device

static const double *array_doubles(struct precision *p, const struct precision_array *a, struct error *err)
{
    return precision_doubles(p, a->type, a->data, precision_elements(a), err);
}

static const double *device_dot(struct precision *p, const char *name, const struct precision_array *x,
                                const struct precision_array *w, enum dtype result, struct error *err)
{
    struct precision_array y;
    return precision_execute_dot(p, name, x, w, result, PRECISION_HIGHEST, 0, &y, NULL, err)
               ? NULL
               : array_doubles(p, &y, err);
}

// y = x (codes * scales): the weights are made f32 again on the device. n_scales is 1 or the number of columns.
static const double *dequantised_dot(struct precision *p, const char *name, const struct precision_array *x,
                                     const struct precision_array *codes, const float *scales, size_t n_scales,
                                     struct error *err)
{
    struct module m;
    struct builder b;
    int64_t columns = codes->dims[1];
    struct shape wide = SHAPE(DT_F32, codes->dims[0], columns);
    module_init(&m, &p->arena, "dequantised");
    builder_init(&b, &m);
    builder_scope(&b, "product", "product");
    int px = build_parameter(&b, ROLE_INPUT, "x", shape_of(DT_F32, 2, x->dims), NULL);
    int pw = build_parameter(&b, ROLE_INPUT, "codes", shape_of(DT_S8, 2, codes->dims), NULL);
    int ps = build_parameter(&b, ROLE_INPUT, "scales", SHAPE(DT_F32, (int64_t)n_scales), NULL);
    int s = n_scales == 1 ? build_broadcast(&b, build_reshape(&b, ps, 0, NULL), wide, NULL)
                          : build_broadcast(&b, ps, wide, (int[]){1});
    int w = build_binary(&b, OP_MULTIPLY, build_convert(&b, pw, DT_F32), s);
    int dot = build_dot(&b, px, w, 0, NULL, NULL, 1, (int[]){1}, (int[]){0}, DT_F32);
    if (dot >= 0)
        m.instructions[dot].dot.precision = PRECISION_HIGHEST;
    build_result(&b, "y", dot);
    struct precision_array args[3] = {
        *x, *codes, {.name = "scales", .type = DT_F32, .rank = 1, .dims = {(int64_t)n_scales}, .data = scales}};
    struct precision_execution e = {.name = name, .module = &m, .args = args, .n_args = 3};
    if (builder_finish(&b, err) || precision_execute(p, &e, err))
        return NULL;
    return array_doubles(p, &e.outputs[0], err);
}

struct codes {
    struct precision_array array;
    float *scales;
    size_t n_scales;
    struct quant_stats stats;
};

static int make_codes(struct precision *p, const struct precision_array *w, bool per_column, struct codes *out,
                      struct error *err)
{
    struct quant_spec spec = {
        .type = DT_S8, .granularity = per_column ? QUANT_PER_CHANNEL : QUANT_PER_TENSOR, .channel_axis = 1};
    int8_t *codes = precision_alloc(p, precision_elements(w), 1, err);
    out->n_scales = per_column ? (size_t)w->dims[1] : 1;
    out->scales = precision_alloc(p, out->n_scales, sizeof *out->scales, err);
    if (!codes || !out->scales)
        return ERR_MEMORY;
    out->array = *w;
    out->array.name = "codes";
    out->array.type = DT_S8;
    out->array.data = codes;
    return quantize(&spec, w->dims, 2, w->data, codes, out->scales, NULL, &out->stats, "w", err);
}

// ---- cases

static void program_name(char out[NAME], const struct problem *q, const char *what)
{
    snprintf(out, NAME, "seed-%llu-%s", (unsigned long long)q->seed, what);
}

static struct precision_case *add_case(struct problem *q, const char *section, const char *label, const double *result)
{
    char name[NAME * 2], heading[NAME];
    snprintf(name, sizeof name, "%s, %s, %s", section, label, q->input);
    snprintf(heading, sizeof heading, "%s, %s", section, q->input);
    struct precision_case *c = precision_case(q->p, heading, name, NULL);
    c->label = label;
    c->w = c->a = c->op = "bf16";
    c->acc = "f32";
    precision_measure(q->p, c, F32_PRODUCT, q->product, result, q->m * q->n);
    precision_measure(q->p, c, F64, q->exact, result, q->m * q->n);
    return c;
}

static struct precision_case *device_case(struct problem *q, const char *label, const double *result)
{
    struct precision_case *c = add_case(q, "policies", label, result);
    precision_on_device(q->p, c);
    return c;
}

// The recorded run prints the bytes of the int8 weights in every row.
static void printed_bytes(struct problem *q, struct precision_case *c)
{
    if (q->m != ROWS || q->k != CONTRACTED || q->n != COLUMNS)
        return;
    precision_number(q->p, c, "codes, recorded",
                     quantity_make(16384, "B", ORIGIN_SHEET, "the recorded run, which prints it in every row"));
    precision_number(q->p, c, "scales, recorded",
                     quantity_make(256, "B", ORIGIN_SHEET, "the recorded run, which prints it in every row"));
}

static int reference(struct problem *q, struct error *err)
{
    char name[NAME];
    const double *x = array_doubles(q->p, &q->x_f32, err), *w = array_doubles(q->p, &q->w_f32, err);
    if (!x || !w)
        return ERR_MEMORY;
    q->exact = precision_product_f64(q->p, x, w, q->m, q->k, q->n, err);
    program_name(name, q, "f32");
    q->product = q->exact ? device_dot(q->p, name, &q->x_f32, &q->w_f32, DT_F32, err) : NULL;
    if (!q->product)
        return err->code;
    struct precision_case *c = device_case(q, "f32, highest precision", q->product);
    c->w = c->a = c->op = c->out = "f32";
    c->code_bytes = 4.0 * (double)(q->k * q->n);
    c->scale_bytes = 0;
    return 0;
}

// How many elements of the bf16 result are the f32 sum rounded once: what tells rounding from accumulation.
static size_t rounded_once(const struct problem *q, const double *result)
{
    size_t same = 0;
    for (size_t i = 0; i < q->m * q->n; i++)
        same += (double)f32_from_bf16(bf16_from_f32((float)q->sums[i])) == result[i];
    return same;
}

static int bf16_policies(struct problem *q, struct error *err)
{
    char name[NAME];
    program_name(name, q, "bf16-f32");
    q->sums = device_dot(q->p, name, &q->x_bf16, &q->w_bf16, DT_F32, err);
    program_name(name, q, "bf16-bf16");
    const double *once = q->sums ? device_dot(q->p, name, &q->x_bf16, &q->w_bf16, DT_BF16, err) : NULL;
    if (!once)
        return err->code;
    const double *results[2] = {q->sums, once};
    for (int i = 0; i < 2; i++) {
        struct precision_case *c = device_case(q, i ? POLICY_ONCE : POLICY_BF16, results[i]);
        c->code_bytes = 2.0 * (double)(q->k * q->n);
        c->scale_bytes = 0;
        c->out = i ? "bf16" : "f32";
        c->acc = i ? "bf16 requested" : "f32";
        printed_bytes(q, c);
        q->policies[i] = c;
    }
    precision_text(q->p, q->policies[1], "what the device does", "%zu of %zu elements are its f32 sum rounded once",
                   rounded_once(q, once), q->m * q->n);
    return 0;
}

static int int8_policy(struct problem *q, struct error *err)
{
    char name[NAME];
    struct codes codes;
    int rc = make_codes(q->p, &q->w_f32, true, &codes, err);
    if (rc)
        return rc;
    program_name(name, q, "int8");
    const double *y = dequantised_dot(q->p, name, &q->x_f32, &codes.array, codes.scales, codes.n_scales, err);
    if (!y)
        return err->code;
    struct precision_case *c = device_case(q, POLICY_INT8, y);
    c->w = "int8/channel";
    c->a = c->op = c->out = "f32";
    c->code_bytes = (double)(q->k * q->n);
    c->scale_bytes = 4.0 * (double)codes.n_scales;
    c->clipped = (int64_t)codes.stats.clipped;
    printed_bytes(q, c);
    q->policies[2] = c;
    return 0;
}

// ---- accumulation in software

static const struct accumulation {
    const char *label, *acc;
    enum dot_order order;
    int block;
    bool separate; // products are rounded to bf16 before they are added
} accumulations[] = {
    {"blocks of 128 in f32, carried in bf16", "bf16 per 128", DOT_BLOCKED, 128, false},
    {"blocks of 32 in f32, carried in bf16", "bf16 per 32", DOT_BLOCKED, 32, false},
    {"blocks of 8 in f32, carried in bf16", "bf16 per 8", DOT_BLOCKED, 8, false},
    {"bf16 pairwise, products rounded", "bf16 pairwise", DOT_PAIRWISE, 0, true},
    {"bf16 at every step, exact products", "bf16", DOT_SEQUENTIAL, 0, false},
    {"bf16 at every step, products rounded", "bf16", DOT_SEQUENTIAL, 0, true},
};
enum { ACCUMULATIONS = sizeof accumulations / sizeof *accumulations };

static int model(struct problem *q, const struct accumulation *a, const double *x, const double *w, struct error *err)
{
    const struct dot_format *bf16 = dot_format("bf16");
    struct dot_model m = {.name = a->label,
                          .operand = bf16,
                          .accumulator = bf16,
                          .order = a->order,
                          .block = a->block,
                          .separate = a->separate,
                          .inner = dot_format("f32")};
    double *y = precision_alloc(q->p, q->m * q->n, sizeof *y, err);
    int rc = y ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < q->m && !rc; i++) {
        progress_report(q->p->progress, a->label, i, q->m);
        rc = interrupt_check("modelling accumulation", err);
        for (size_t j = 0; j < q->n && !rc; j++)
            rc = dot_model_run(&m, x + i * q->k, 1, w + j, q->n, q->k, &y[i * q->n + j], err);
    }
    if (rc)
        return rc;
    struct precision_case *c = add_case(q, "accumulation in bf16", a->label, y);
    c->source = "a model of the arithmetic, bit for bit";
    c->acc = a->acc;
    c->out = "bf16";
    q->models[q->n_models++] = c;
    return 0;
}

// One rounding at the end stands first in the list, to be compared with.
static int models(struct problem *q, struct error *err)
{
    const double *x = array_doubles(q->p, &q->x_bf16, err), *w = array_doubles(q->p, &q->w_bf16, err);
    double *once = precision_alloc(q->p, q->m * q->n, sizeof *once, err);
    if (!x || !w || !once)
        return ERR_MEMORY;
    for (size_t i = 0; i < q->m * q->n; i++)
        once[i] = (double)f32_from_bf16(bf16_from_f32((float)q->sums[i]));
    struct precision_case *c = add_case(q, "accumulation in bf16", "f32 sums, rounded to bf16 once", once);
    c->source = "the device's f32 sums, rounded on the host";
    c->out = "bf16";
    q->models[q->n_models++] = c;
    int rc = 0;
    for (int i = 0; i < ACCUMULATIONS && !rc; i++)
        rc = model(q, &accumulations[i], x, w, err);
    return rc;
}

// ---- a column of zeros

static int zero_column(struct problem *q, struct error *err)
{
    const size_t column = q->n / 2;
    struct precision *p = q->p;
    struct codes codes;
    float *w = precision_alloc(p, q->k * q->n, sizeof *w, err);
    if (!w)
        return ERR_MEMORY;
    memcpy(w, q->w, q->k * q->n * sizeof *w);
    for (size_t i = 0; i < q->k; i++)
        w[i * q->n + column] = 0;
    struct precision_array weights = precision_matrix("w", DT_F32, q->k, q->n, w);
    int rc = make_codes(p, &weights, true, &codes, err);
    if (rc)
        return rc;
    const double *y = dequantised_dot(p, "zero-column", &q->x_f32, &codes.array, codes.scales, codes.n_scales, err);
    if (!y)
        return err->code;
    const int8_t *code = codes.array.data;
    int64_t nonzero_codes = 0, nonzero = 0, broken = 0;
    for (size_t i = 0; i < q->k; i++)
        nonzero_codes += code[i * q->n + column] != 0;
    for (size_t i = 0; i < q->m * q->n; i++) {
        nonzero += i % q->n == column && y[i] != 0;
        broken += !isfinite(y[i]);
    }
    precision_check_number(p, "zero column: scale", "a column of zeros has scale 1, so that nothing divides by zero", 1,
                           (double)codes.scales[column], 0, "exact");
    precision_check_count(p, "zero column: codes", "and its codes are all zero", 0, nonzero_codes);
    precision_check_count(p, "zero column: outputs", "and its outputs are exact zeros", 0, nonzero);
    precision_check_count(p, "zero column: not finite", "and nothing anywhere is infinite or NaN", 0, broken);
    return 0;
}

// ---- one column ten times the others

struct outlier {
    struct precision *p;
    struct precision_array x, w;
    const double *product, *exact;
    size_t m, k, n;
};

// Mean of |y - product| over all columns but the first.
static double mean_of_others(const struct outlier *o, const double *y)
{
    double sum = 0;
    for (size_t i = 0; i < o->m * o->n; i++)
        sum += i % o->n ? fabs(y[i] - o->product[i]) : 0;
    return sum / (double)(o->m * (o->n - 1));
}

static struct precision_case *outlier_case(struct outlier *o, bool per_column, struct error *err)
{
    struct codes codes;
    if (make_codes(o->p, &o->w, per_column, &codes, err))
        return NULL;
    const double *y = dequantised_dot(o->p, per_column ? "outlier-per-column" : "outlier-per-tensor", &o->x,
                                      &codes.array, codes.scales, codes.n_scales, err);
    if (!y)
        return NULL;
    struct precision_case *c =
        precision_case(o->p, "one column ten times the others",
                       per_column ? "outlier column, a scale per column" : "outlier column, one scale", NULL);
    c->label = per_column ? "int8, a scale per column" : "int8, one scale for the tensor";
    c->w = per_column ? "int8/channel" : "int8/tensor";
    c->a = c->op = c->acc = c->out = "f32";
    c->code_bytes = (double)(o->k * o->n);
    c->scale_bytes = 4.0 * (double)codes.n_scales;
    c->clipped = (int64_t)codes.stats.clipped;
    precision_on_device(o->p, c);
    precision_measure(o->p, c, F32_PRODUCT, o->product, y, o->m * o->n);
    precision_measure(o->p, c, F64, o->exact, y, o->m * o->n);
    precision_number(o->p, c, "mean, other columns",
                     quantity_make(mean_of_others(o, y), "1", ORIGIN_MEASURED,
                                   "mean |error| against the f32 product over all columns but the large one"));
    return c;
}

static int outlier_inputs(struct outlier *o, struct error *err)
{
    float *x, *w;
    int rc = normals(o->p, random_jax_key(9), o->k * o->n, 0.2f, &w, err);
    if (!rc)
        rc = normals(o->p, random_jax_key(10), o->m * o->k, 1, &x, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < o->k; i++)
        w[i * o->n] *= 10;
    o->x = precision_matrix("x", DT_F32, o->m, o->k, x);
    o->w = precision_matrix("w", DT_F32, o->k, o->n, w);
    precision_add_input(o->p, "x, outlier column", DT_F32, 2, o->x.dims, x, "jax.random normal of key 10");
    precision_add_input(o->p, "w, outlier column", DT_F32, 2, o->w.dims, w,
                        "jax.random normal of key 9, times 0.2; column 0 times 10");
    return 0;
}

static int outlier_column(struct precision *p, struct error *err)
{
    struct outlier o = {.p = p, .m = 32, .k = 128, .n = 32};
    int rc = outlier_inputs(&o, err);
    if (rc)
        return rc;
    const double *x = array_doubles(p, &o.x, err), *w = array_doubles(p, &o.w, err);
    if (!x || !w)
        return ERR_MEMORY;
    o.exact = precision_product_f64(p, x, w, o.m, o.k, o.n, err);
    o.product = o.exact ? device_dot(p, "outlier-f32", &o.x, &o.w, DT_F32, err) : NULL;
    struct precision_case *fine = o.product ? outlier_case(&o, true, err) : NULL;
    struct precision_case *coarse = fine ? outlier_case(&o, false, err) : NULL;
    if (!coarse)
        return err->code;
    static const char why[] = "half of the last digit recorded, and the order of f32 sums";
    precision_check_number(p, "outlier column: per column, mean", "the recorded mean error with a scale per column",
                           0.01389, fine->measures[0].mean_abs, 6e-6, why);
    precision_check_number(p, "outlier column: per tensor, mean", "the recorded mean error with one scale", 0.0979,
                           coarse->measures[0].mean_abs, 6e-6, why);
    struct precision_panel *panel =
        precision_panel(p,
                        precision_figure(p, "outlier-column", "One large column under one scale, and under its own",
                                         "Errors against the f32 product. One scale for the tensor is set by the large "
                                         "column: the others are left with few codes."),
                        PANEL_BARS, "int8 weights, dequantised to f32");
    precision_axis_y(p, panel, "absolute error", "1", false);
    precision_category(p, panel, fine->label);
    precision_category(p, panel, coarse->label);
    const char *cases[2] = {fine->name, coarse->name};
    precision_series(p, panel, "max", "measures/" F32_PRODUCT "/max_abs", cases, 2);
    precision_series(p, panel, "mean", "measures/" F32_PRODUCT "/mean_abs", cases, 2);
    precision_series(p, panel, "mean, other columns", "facts/mean, other columns", cases, 2);
    return 0;
}

// ---- recorded figures, pictures, notes

static const struct recorded {
    uint64_t seed;
    double max[3], mean[3]; // of the policies; NAN where the recorded run prints none
    double ratio;
} recorded[] = {
    {0, {0.03718, 0.05545, 0.12516}, {0.00756, 0.00912, 0.02322}, 1.49},
    {42, {NAN, NAN, NAN}, {0.0075, 0.00902, 0.02182}, NAN},
};

static void check_recorded(struct problem *q)
{
    static const char why[] = "half of the last digit recorded, and the order of f32 sums";
    if (q->m != ROWS || q->k != CONTRACTED || q->n != COLUMNS)
        return;
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        const struct recorded *r = &recorded[i];
        if (r->seed != q->seed)
            continue;
        for (int k = 0; k < 3; k++) {
            char name[NAME * 2];
            const struct precision_measure *m = &q->policies[k]->measures[0];
            snprintf(name, sizeof name, "%s: %s, max", q->input, q->policies[k]->label);
            if (!isnan(r->max[k]))
                precision_check_number(q->p, name, "the recorded largest error", r->max[k], m->max_abs, 6e-6, why);
            snprintf(name, sizeof name, "%s: %s, mean", q->input, q->policies[k]->label);
            precision_check_number(q->p, name, "the recorded mean error", r->mean[k], m->mean_abs, 6e-6, why);
        }
        if (!isnan(r->ratio))
            precision_check_number(q->p, "seed 0: ratio of the largest errors",
                                   "rounding the result to bf16 over keeping it in f32, as recorded", r->ratio,
                                   q->policies[1]->measures[0].max_abs / q->policies[0]->measures[0].max_abs, 5e-3,
                                   "half of the last digit recorded");
        precision_check_count(q->p, q->seed ? "seed 42: code bytes" : "seed 0: code bytes", "one byte for each weight",
                              16384, (int64_t)q->policies[2]->code_bytes);
        precision_check_count(q->p, q->seed ? "seed 42: scale bytes" : "seed 0: scale bytes", "one f32 for each column",
                              256, (int64_t)q->policies[2]->scale_bytes);
    }
}

static void bars(struct precision *p, struct precision_figure *f, const char *title,
                 struct precision_case *const *cases, size_t n)
{
    const char *names[8];
    struct precision_panel *panel = precision_panel(p, f, PANEL_BARS, title);
    precision_axis_y(p, panel, "absolute error against the f32 product", "1", false);
    for (size_t i = 0; i < n; i++) {
        names[i] = cases[i]->name;
        precision_category(p, panel, cases[i]->label);
    }
    precision_series(p, panel, "max", "measures/" F32_PRODUCT "/max_abs", names, n);
    precision_series(p, panel, "mean", "measures/" F32_PRODUCT "/mean_abs", names, n);
}

static void pictures(struct precision *p, struct problem *problems, size_t n)
{
    struct precision_figure *f =
        precision_figure(p, "policies", "Three policies for one product",
                         "Largest and mean error. What is often called bf16 accumulation, a bf16 result of a product, "
                         "is one final rounding of the f32 sum here; the next figure has real accumulation in bf16.");
    for (size_t i = 0; i < n; i++)
        bars(p, f, problems[i].input, problems[i].policies, 3);
    f = precision_figure(p, "accumulation", "What accumulating in bf16 would do",
                         "bf16 operands throughout. The first row rounds the finished f32 sum; the last two round "
                         "after every addition, first to last.");
    for (size_t i = 0; i < n; i++)
        bars(p, f, problems[i].input, problems[i].models, problems[i].n_models);
}

static void notes(struct precision *p, const struct problem *q)
{
    double once = q->models[0]->measures[0].mean_abs, every = q->models[q->n_models - 1]->measures[0].mean_abs;
    double sums = q->policies[0]->measures[0].mean_abs;
    precision_note(
        p,
        "a bf16 result is no bf16 accumulation: rounding the f32 sum once costs %.2f times the mean error of "
        "keeping it, rounding after every addition %.1f times (%s, %zu terms). A ratio near the first is "
        "output rounding, whatever it is called",
        once / sums, every / sums, q->input, q->k);
    precision_note(p, "the recorded figures are errors against the f32 product, which is rounded itself; the columns "
                      "against f64 stand beside them");
    precision_note(p, "codes and scales are the bytes of each policy's own weights. The recorded run prints 16384 and "
                      "256 in every row, which is true of int8 alone");
    precision_note(p, "int8 weights are dequantised to f32 before the product: this shows an error, not the speed or "
                      "the traffic of an int8 kernel");
}

static int run_problem(struct problem *q, struct error *err)
{
    int rc = make_inputs(q, err);
    if (!rc)
        rc = reference(q, err);
    if (!rc)
        rc = bf16_policies(q, err);
    if (!rc)
        rc = int8_policy(q, err);
    if (!rc)
        rc = models(q, err);
    if (!rc)
        check_recorded(q);
    return rc;
}

static void sizes(const struct precision_options *o, size_t *m, size_t *k, size_t *n)
{
    *m = o->batch ? (size_t)o->batch : ROWS;
    *k = o->features ? (size_t)o->features : CONTRACTED;
    *n = o->outputs ? (size_t)o->outputs : COLUMNS;
}

static int check(const struct precision_options *o, struct error *err)
{
    size_t m, k, n;
    sizes(o, &m, &k, &n);
    if (m * k * n > MODEL_STEPS)
        return error_set(err, ERR_USAGE, "accumulate",
                         "%zux%zu by %zux%zu is too much to round at every step: batch x features x outputs may be at "
                         "most %d",
                         m, k, k, n, MODEL_STEPS);
    return 0;
}

static int run(struct precision *p, struct error *err)
{
    const struct precision_options *o = p->options;
    struct problem problems[2] = {{.seed = o->seed_given ? o->seed : 0}, {.seed = 42}};
    size_t n = o->seed_given ? 1 : 2;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct problem *q = &problems[i];
        q->p = p;
        sizes(o, &q->m, &q->k, &q->n);
        snprintf(q->input, sizeof q->input, "seed %llu", (unsigned long long)q->seed);
        rc = run_problem(q, err);
    }
    if (!rc) {
        pictures(p, problems, n);
        rc = outlier_column(p, err);
    }
    if (!rc)
        rc = zero_column(&problems[0], err);
    if (!rc)
        notes(p, &problems[0]);
    return rc;
}

const struct precision_suite precision_suite_accumulate = {
    .name = "accumulate",
    .help = "how a sum is accumulated, and int8 scales per column and per tensor",
    .uses = PRECISION_USES_SEED | PRECISION_USES_SHAPE | PRECISION_TRACES_EACH,
    .check = check,
    .run = run,
};
