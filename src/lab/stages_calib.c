// SPDX-License-Identifier: Apache-2.0
// What plain products and a copy reach on the device, with operands as arguments: constants would be folded on the
// host.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chips/local.h"
#include "lab/stages_part.h"
#include "models/builtin.h"
#include "num/convert.h"

static const struct stages_product products[STAGES_PRODUCTS] = {
    {.name = "bf16", .type = DT_BF16, .counts = CHIP_BF16, .precision = MATMUL_DEFAULT},
    {.name = "f32 default", .type = DT_F32, .counts = CHIP_F32, .precision = MATMUL_DEFAULT},
    {.name = "f32 highest", .type = DT_F32, .counts = CHIP_F32, .precision = MATMUL_HIGHEST},
    {.name = "int8", .type = DT_S8, .counts = CHIP_INT8, .precision = MATMUL_DEFAULT},
    {.name = "f8e4m3fn", .type = DT_F8E4M3FN, .counts = CHIP_FP8, .precision = MATMUL_DEFAULT},
};

// Scored elements lie on a lattice over the result.
static void place_of(size_t i, int64_t n, int64_t *row, int64_t *column)
{
    uint64_t place = i * 0x9e3779b97f4a7c15u;
    *row = (int64_t)((place >> 40) % (uint64_t)n);
    *column = (int64_t)((place >> 12) % (uint64_t)n);
}

// The error of scored elements against sums in f64 of the f32 operands.
static double score(const float *x, const float *w, const float *y, int64_t n, size_t count)
{
    double error = 0, exact = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t row, column;
        place_of(i, n, &row, &column);
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += (double)x[row * n + k] * (double)w[k * n + column];
        double off = (double)y[row * n + column] - sum;
        error += off * off;
        exact += sum * sum;
    }
    return sqrt(error / exact);
}

// How many scored elements of a product of integers, which the operands hold, are not what int64 gives.
static size_t count_wrong(const float *x, const float *w, const int32_t *y, int64_t n, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t row, column, sum = 0;
        place_of(i, n, &row, &column);
        for (int64_t k = 0; k < n; k++)
            sum += (int64_t)x[row * n + k] * (int64_t)w[k * n + column];
        wrong += y[row * n + column] != sum;
    }
    return wrong;
}

// Normal numbers as int8 has them after a scaling to a quarter of its range: few are cut off.
static float *integers(const float *x, int64_t n)
{
    float *to = malloc((size_t)(n * n) * sizeof *to);
    for (int64_t i = 0; to && i < n * n; i++) {
        float v = nearbyintf(32 * x[i]);
        to[i] = v > 127 ? 127 : v < -127 ? -127 : v;
    }
    return to;
}

static int upload(struct stage *s, const char *name, enum dtype type, const float *values, int64_t n, struct error *err)
{
    void *bytes = malloc((size_t)(n * n) * sizeof(float));
    int rc = bytes ? convert_elements(type, bytes, DT_F32, values, (size_t)(n * n), err)
                   : error_set(err, ERR_MEMORY, NULL, "no memory for an operand");
    if (!rc)
        rc = stage_upload(s, name, bytes, err);
    free(bytes);
    return rc;
}

static int score_product(struct stages *s, struct stages_product *p, struct stage *g, const float *const x[2],
                         struct error *err)
{
    int output = -1, rc = stage_run(g, &output, err);
    void *y = malloc((size_t)shape_bytes(stage_result(g, 0)));
    if (!rc && !y)
        rc = error_set(err, ERR_MEMORY, NULL, "no memory for a product");
    if (!rc)
        rc = stage_download(g, 0, output, y, err);
    if (!rc && p->type == DT_S8)
        p->wrong = count_wrong(x[0], x[1], y, s->calib.size, s->calib.scored);
    else if (!rc)
        p->error = score(x[0], x[1], y, s->calib.size, s->calib.scored);
    free(y);
    return rc ? rc : worker_free(g->worker, output, err);
}

static int open_product(struct stages *s, const struct stages_product *p, struct module *m, struct error *err)
{
    struct module *plain = arena_new(&s->arena, struct module, 1, err);
    int64_t n = s->calib.size;
    bool fixed;
    const char *name = arena_printf(&s->arena, err, "builtin:gemm:%lldx%lldx%lld:%s", (long long)n, (long long)n,
                                    (long long)n, dtype_name(p->type));
    if (!plain || !name)
        return ERR_MEMORY;
    module_init(plain, &s->arena, "product");
    module_init(m, &s->arena, "product");
    int rc = model_module(name, &(struct model_shape){0}, plain, &fixed, err);
    return rc ? rc : module_matmul_precision(plain, p->precision, false, m, err);
}

// Why a product is not tried: XLA widens f8 on a CPU, and on a device without a rate of it, too.
static const char *why_not(const struct stages *s, const struct stages_product *p)
{
    if (p->type != DT_F8E4M3FN)
        return NULL;
    if (s->chip_is_local)
        return "a CPU multiplies no f8: the compiler widens it";
    struct quantity rate = s->chip ? chip_rate(s->chip, p->counts, CHIP_PER_DEVICE) : quantity_make(0, "", 'S', NULL);
    return isnan(rate.value) ? rate.source : NULL;
}

static int run_product(struct stages *s, struct worker *w, struct stages_product *p, const float *const x[2],
                       const struct progress *progress, struct error *err)
{
    struct module m;
    struct stage g = {.worker = w};
    int64_t n = s->calib.size;
    bool paired;
    p->absent = why_not(s, p);
    if (p->absent) // the other device of a comparison may have units for it
        return turn_meet(s->options->turn, 0, false, &paired, err);
    int rc = open_product(s, p, &m, err);
    if (!rc)
        rc = stage_compile(&g, w, p->name, &m, s->options->trace, err);
    if (!rc)
        rc = upload(&g, "x", p->type, x[0], n, err);
    if (!rc)
        rc = upload(&g, "w", p->type, x[1], n, err);
    struct stages_program program = {w, &g.program, g.args, g.n_args};
    if (!rc)
        rc = stages_time(s, &p->time, &program, p->name, progress, err);
    if (!rc)
        rc = score_product(s, p, &g, x, err);
    p->compile_ns = g.program.compile_ns;
    p->flop_per_s = 2 * (double)n * (double)n * (double)n / (p->time.ms.p50 / 1e3);
    stage_release(&g);
    return rc;
}

static int run_copy(struct stages *s, struct worker *w, const struct progress *progress, struct error *err)
{
    struct stages_calib *c = &s->calib;
    struct module m;
    struct stage g = {.worker = w};
    struct shape shape = SHAPE(DT_F32, 2 * c->size * c->size);
    bool fixed;
    void *bytes = calloc(1, (size_t)shape_bytes(&shape));
    const char *name = arena_printf(&s->arena, err, "builtin:copy:%lld", (long long)shape.dims[0]);
    int rc = bytes && name ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for a copy");
    module_init(&m, &s->arena, "copy");
    if (!rc)
        rc = model_module(name, &(struct model_shape){0}, &m, &fixed, err);
    if (!rc)
        rc = stage_compile(&g, w, "copy", &m, s->options->trace, err);
    if (!rc)
        rc = stage_upload(&g, "x", bytes, err);
    struct stages_program program = {w, &g.program, g.args, g.n_args};
    if (!rc)
        rc = stages_time(s, &c->copy, &program, "copy", progress, err);
    c->copy_compile_ns = g.program.compile_ns;
    c->copy_bytes = 2 * (double)shape_bytes(&shape);
    c->copy_bytes_per_s = c->copy_bytes / (c->copy.ms.p50 / 1e3);
    stage_release(&g);
    free(bytes);
    return rc;
}

static struct chip_measured measured(double rate, const struct stages_series *t)
{
    return (struct chip_measured){.value = rate, .spread = rate * t->ms.mad / t->ms.p50, .samples = (int)t->n};
}

// The device as a chip, by what was measured.
static int make_chip(struct stages *s, struct error *err)
{
    struct chip_local l = {.threads = s->options->klein.worker.threads ? s->options->klein.worker.threads
                                                                       : (int)s->host.affinity,
                           .memory_bytes = (double)s->host.memory_bytes};
    time_t now = time(NULL);
    struct tm utc;
    strftime(l.date, sizeof l.date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    snprintf(l.cpu_model, sizeof l.cpu_model, "%s", s->device);
    snprintf(l.plugin_sha256, sizeof l.plugin_sha256, "%s", s->plugin_sha256);
    for (int t = 0; t < CHIP_TYPES; t++)
        l.rate[t] = (struct chip_measured){.value = NAN, .spread = NAN};
    for (int i = 0; i < s->calib.n_products; i++) // the last of f32 is the one that is f32
        if (!s->calib.products[i].absent)
            l.rate[s->calib.products[i].counts] = measured(s->calib.products[i].flop_per_s, &s->calib.products[i].time);
    l.copy = measured(s->calib.copy_bytes_per_s, &s->calib.copy);
    return chips_local_chip(&s->arena, &l, &s->calibrated, err);
}

int stages_run_calib(struct stages *s, const struct progress *progress, struct error *err)
{
    struct stages_calib *c = &s->calib;
    struct worker *w = NULL;
    void *x[4] = {NULL}; // the same as integers behind them
    c->size = s->options->calib_size;
    c->scored = STAGES_SCORED;
    struct shape shape = SHAPE(DT_F32, c->size, c->size);
    int rc = worker_start(&w, &s->options->klein.worker, err);
    for (int i = 0; i < 2 && !rc; i++)
        rc = stages_random(s->options->seed + (uint64_t)i, &shape, &x[i], err);
    for (int i = 0; i < 2 && !rc; i++) {
        x[2 + i] = integers(x[i], c->size);
        rc = x[2 + i] ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for an operand");
    }
    for (int i = 0; i < STAGES_PRODUCTS && !rc; i++) {
        c->products[i] = products[i];
        c->n_products++;
        int first = products[i].type == DT_S8 ? 2 : 0;
        rc = run_product(s, w, &c->products[i], (const float *const[]){x[first], x[first + 1]}, progress, err);
        c->products[i].implausible =
            products[i].type == DT_F32 && stages_f32_is_bf16(c->products[i].flop_per_s, c->products[i].error,
                                                             c->products[0].flop_per_s, c->products[0].error);
    }
    if (!rc)
        rc = run_copy(s, w, progress, err);
    worker_stop(w);
    for (int i = 0; i < 4; i++)
        free(x[i]);
    return rc ? rc : make_chip(s, err);
}
