// SPDX-License-Identifier: Apache-2.0
// What a model's numbers are stored and multiplied in when it is deployed: one small product whose every figure can be
// followed by hand, under the policies that runtimes offer. A published run of it is recorded below; errors are against
// the f32 product of the same inputs, as there, and against f64 beside it.
#include "lab/precision_deployment.h"

#include <math.h>
#include <stdio.h>

#include "ir/builder.h"
#include "num/affine.h"
#include "num/convert.h"
#include "num/quantize.h"

enum {
    ROWS = DEPLOYMENT_ROWS,
    INPUTS = DEPLOYMENT_INPUTS,
    OUTPUTS = DEPLOYMENT_OUTPUTS,
    RESULTS = ROWS * OUTPUTS,
};

#define F32_PRODUCT "f32 product"
#define F64         "f64"
#define SECTION     "policies"

const float deployment_x[ROWS * INPUTS] = {0.3f, -1.2f, 2.1f, 1.1f, 0.2f, -0.8f};
const float deployment_w[INPUTS * OUTPUTS] = {0.11f, -1.8f, 0.7f, 0.2f, -0.3f, 2.4f};

// An operand as it is stored, and what it stands for: codes times the scale of their column where there are scales.
struct operand {
    struct precision_array array;
    const float *scales; // per column; NULL: none
    const double *meant; // in f64
    size_t clipped;
    double code_bytes, scale_bytes;
};

struct deployment {
    struct precision *p;
    struct operand x_f32, w_f32;
    const double *exact, *product; // f64; the f32 product of the device
    struct precision_case *cases[16];
    size_t n_cases;
};

// ---- operands

static int plain(struct deployment *d, const char *name, const float *values, size_t rows, size_t columns,
                 enum dtype type, struct operand *out, struct error *err)
{
    size_t n = rows * columns;
    void *data = precision_alloc(d->p, n, (size_t)dtype_bits(type) / 8, err);
    *out = (struct operand){.array = precision_matrix(name, type, rows, columns, data),
                            .code_bytes = (double)n * dtype_bits(type) / 8};
    int rc = data ? convert_elements(type, data, DT_F32, values, n, err) : ERR_MEMORY;
    if (rc)
        return rc;
    out->meant = precision_doubles(d->p, type, data, n, err);
    return out->meant ? 0 : ERR_MEMORY;
}

// Codes with a scale per column, or one scale for all.
static int quantised(struct deployment *d, const char *name, const float *values, size_t rows, size_t columns,
                     enum dtype type, bool per_column, struct operand *out, struct quant_spec *spec, struct error *err)
{
    size_t n = rows * columns;
    *spec = (struct quant_spec){
        .type = type, .granularity = per_column ? QUANT_PER_CHANNEL : QUANT_PER_TENSOR, .channel_axis = 1};
    int64_t dims[2] = {(int64_t)rows, (int64_t)columns};
    uint8_t *codes = precision_alloc(d->p, n, 1, err);
    float *scales = precision_alloc(d->p, columns, sizeof *scales, err);
    double *meant = precision_alloc(d->p, n, sizeof *meant, err);
    float *back = precision_alloc(d->p, n, sizeof *back, err);
    struct quant_layout l;
    struct quant_stats stats;
    if (!codes || !scales || !meant || !back)
        return ERR_MEMORY;
    int rc = quant_layout(spec, dims, 2, name, &l, err);
    if (!rc)
        rc = quantize(spec, dims, 2, values, codes, scales, NULL, &stats, name, err);
    if (!rc)
        rc = dequantize(spec, dims, 2, codes, scales, NULL, back, name, err);
    if (rc)
        return rc;
    for (size_t j = 1; j < columns && !per_column; j++)
        scales[j] = scales[0];
    for (size_t i = 0; i < n; i++)
        meant[i] = (double)back[i];
    *out = (struct operand){.array = precision_matrix(name, type, rows, columns, codes),
                            .scales = scales,
                            .meant = meant,
                            .clipped = stats.clipped,
                            .code_bytes = (double)l.code_bytes,
                            .scale_bytes = (double)l.stored_scale_bytes};
    return 0;
}

// ---- products on the device

// The operand in f32: converted, and multiplied by the scales of its columns.
static int f32_operand(struct builder *b, const struct operand *o, const char *scales_name,
                       struct precision_array *args, size_t *n)
{
    struct shape wide = shape_of(DT_F32, 2, o->array.dims);
    int v = build_parameter(b, ROLE_INPUT, o->array.name, shape_of(o->array.type, 2, o->array.dims), NULL);
    args[(*n)++] = o->array;
    v = build_convert(b, v, DT_F32);
    if (!o->scales)
        return v;
    int64_t columns = o->array.dims[1];
    int s = build_parameter(b, ROLE_INPUT, scales_name, SHAPE(DT_F32, columns), NULL);
    args[(*n)++] =
        (struct precision_array){.name = scales_name, .type = DT_F32, .rank = 1, .dims = {columns}, .data = o->scales};
    return build_binary(b, OP_MULTIPLY, v, build_broadcast(b, s, wide, (int[]){1}));
}

static int f32_dot(struct builder *b, int x, int w)
{
    int dot = build_dot(b, x, w, 0, NULL, NULL, 1, (int[]){1}, (int[]){0}, DT_F32);
    if (dot >= 0)
        b->module->instructions[dot].dot.precision = PRECISION_HIGHEST;
    return dot;
}

// Both operands made f32 on the device, one f32 product. *y is NULL after an error.
static int f32_product(struct deployment *d, const char *name, const struct operand *x, const struct operand *w,
                       const double **y, struct error *err)
{
    struct module m;
    struct builder b;
    struct precision_array args[4];
    size_t n = 0;
    module_init(&m, &d->p->arena, "policy");
    builder_init(&b, &m);
    builder_scope(&b, "product", "product");
    int px = f32_operand(&b, x, "x_scales", args, &n), pw = f32_operand(&b, w, "w_scales", args, &n);
    build_result(&b, "y", f32_dot(&b, px, pw));
    struct precision_execution e = {.name = name, .module = &m, .args = args, .n_args = n};
    int rc = builder_finish(&b, err);
    if (!rc)
        rc = precision_execute(d->p, &e, err);
    *y = rc ? NULL : precision_doubles(d->p, DT_F32, e.outputs[0].data, RESULTS, err);
    return rc || *y ? rc : ERR_MEMORY;
}

// ---- cases

static struct precision_case *add_case(struct deployment *d, const char *label, const struct operand *x,
                                       const struct operand *w)
{
    struct precision_case *c = precision_case(d->p, SECTION, label, NULL);
    c->a = dtype_name(x->array.type);
    c->w = dtype_name(w->array.type);
    c->op = c->acc = c->out = "f32";
    c->code_bytes = w->code_bytes;
    c->scale_bytes = w->scale_bytes;
    precision_on_device(d->p, c);
    d->cases[d->n_cases++] = c;
    return c;
}

// What can be said of the error without the product: the operands' own errors, and f32 arithmetic. sum |x'||w'| (n + 1)
// 2^-24 bounds the roundings of n products and sums; the reference has as many.
static double bound_of(const struct deployment *d, const struct operand *x, const struct operand *w, size_t at)
{
    double bound = 0, size = 0;
    for (size_t i = 0; i < INPUTS; i++) {
        size_t a = at / OUTPUTS * INPUTS + i, b = i * OUTPUTS + at % OUTPUTS;
        bound += fabs(x->meant[a] - d->x_f32.meant[a]) * fabs(w->meant[b]);
        bound += fabs(d->x_f32.meant[a]) * fabs(w->meant[b] - d->w_f32.meant[b]);
        size += fabs(x->meant[a] * w->meant[b]) + fabs(d->x_f32.meant[a] * d->w_f32.meant[b]);
    }
    return bound + size * (INPUTS + 1) * 0x1p-24;
}

static void add_bound(struct deployment *d, struct precision_case *c, const struct operand *x, const struct operand *w,
                      const double *result)
{
    double largest = 0;
    bool holds = true;
    for (size_t i = 0; i < RESULTS; i++) {
        double bound = bound_of(d, x, w, i);
        holds &= fabs(result[i] - d->product[i]) <= bound;
        largest = fmax(largest, bound);
    }
    char name[96];
    precision_number(d->p, c, "bound",
                     quantity_make(largest, "1", ORIGIN_DERIVED,
                                   "largest sum |x' - x||w'| + |x||w' - w|, and the roundings of f32 arithmetic"));
    snprintf(name, sizeof name, "%s: bound", c->name);
    precision_check(d->p, name, "no error is above the sum of what its operands lost", holds, "holds",
                    holds ? "holds" : "does not hold");
}

// Measures and bound; result NULL: the device refused, which the case says.
static void finish_case(struct deployment *d, struct precision_case *c, const struct operand *x,
                        const struct operand *w, const double *result, const struct error *refused)
{
    if (!result) {
        precision_fail(d->p, c, "%s", refused->message);
        return;
    }
    precision_measure(d->p, c, F32_PRODUCT, d->product, result, RESULTS);
    precision_measure(d->p, c, F64, d->exact, result, RESULTS);
    add_bound(d, c, x, w, result);
}

// A program that the device refuses is that case's failure; a device that is gone ends the run.
static int tolerate(const struct deployment *d, int rc, const struct error *own, struct error *err)
{
    if (!rc || (rc == ERR_DEVICE && !precision_lost(d->p)))
        return 0;
    return error_set(err, rc, own->where, "%s", own->message);
}

static void check_recorded(struct deployment *d, const struct precision_case *c, double recorded)
{
    if (!c->failure)
        precision_check_number(d->p, c->name, "the recorded largest error", recorded, c->measures[0].max_abs, 1e-6,
                               "two units in the last place of the largest output: devices add in different orders");
}

static int run_policy(struct deployment *d, const char *label, const char *program, const struct operand *x,
                      const struct operand *w, struct precision_case **out, struct error *err)
{
    struct error own = {0};
    const double *y;
    int rc = tolerate(d, f32_product(d, program, x, w, &y, &own), &own, err);
    if (rc)
        return rc;
    struct precision_case *c = add_case(d, label, x, w);
    finish_case(d, c, x, w, y, &own);
    *out = c;
    return 0;
}

// ---- the policies

static int reference(struct deployment *d, struct error *err)
{
    int rc = plain(d, "x", deployment_x, ROWS, INPUTS, DT_F32, &d->x_f32, err);
    if (!rc)
        rc = plain(d, "w", deployment_w, INPUTS, OUTPUTS, DT_F32, &d->w_f32, err);
    if (rc)
        return rc;
    static const char source[] = "chosen so that every figure can be followed by hand";
    precision_add_input(d->p, "x", DT_F32, 2, d->x_f32.array.dims, deployment_x, source);
    precision_add_input(d->p, "w", DT_F32, 2, d->w_f32.array.dims, deployment_w, source);
    d->exact = precision_product_f64(d->p, d->x_f32.meant, d->w_f32.meant, ROWS, INPUTS, OUTPUTS, err);
    rc = d->exact ? f32_product(d, "f32", &d->x_f32, &d->w_f32, &d->product, err) : ERR_MEMORY;
    if (rc)
        return rc;
    precision_check_number(d->p, "top left output", "0.3 * 0.11 - 1.2 * 0.7 - 2.1 * 0.3, of the f32 product", -1.437,
                           d->product[0], 1e-6, "f32 holds neither the inputs nor the sum exactly");
    return 0;
}

static int f64_policy(struct deployment *d, struct error *err)
{
    struct error own = {0};
    struct precision_array x = precision_matrix("x", DT_F64, ROWS, INPUTS, d->x_f32.meant),
                           w = precision_matrix("w", DT_F64, INPUTS, OUTPUTS, d->w_f32.meant), y;
    int rc = precision_execute_dot(d->p, "f64", &x, &w, DT_F64, PRECISION_HIGHEST, 0, &y, NULL, &own);
    const double *result = rc ? NULL : y.data;
    rc = tolerate(d, rc, &own, err);
    if (rc)
        return rc;
    struct precision_case *c = add_case(d, "FP64", &d->x_f32, &d->w_f32);
    c->w = c->a = c->op = c->acc = c->out = "f64";
    c->code_bytes *= 2;
    finish_case(d, c, &d->x_f32, &d->w_f32, result, &own);
    return 0;
}

static int rounded_policies(struct deployment *d, struct error *err)
{
    static const struct {
        const char *label, *program;
        enum dtype type;
    } rows[] = {
        {"FP32", "f32-again", DT_F32},         {"FP16", "f16", DT_F16},           {"BF16", "bf16", DT_BF16},
        {"FP8 E4M3", "f8e4m3fn", DT_F8E4M3FN}, {"FP8 E5M2", "f8e5m2", DT_F8E5M2},
    };
    static const double recorded[] = {NAN, 0.0010547637939453125, 0.006171703338623047, NAN, NAN};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct operand x, w;
        struct precision_case *c;
        int rc = plain(d, "x", deployment_x, ROWS, INPUTS, rows[i].type, &x, err);
        if (!rc)
            rc = plain(d, "w", deployment_w, INPUTS, OUTPUTS, rows[i].type, &w, err);
        if (!rc)
            rc = run_policy(d, rows[i].label, rows[i].program, &x, &w, &c, err);
        if (rc)
            return rc;
        if (!isnan(recorded[i]))
            check_recorded(d, c, recorded[i]);
        else if (rows[i].type == DT_F32 && !c->failure)
            precision_check_number(d->p, c->name, "the reference is this product", 0, c->measures[0].max_abs, 0,
                                   "the same program twice");
    }
    return 0;
}

// FP8 as it is deployed: with a scale for the activations and one for each output, so that the largest values use the
// end of the format.
static int scaled_fp8(struct deployment *d, struct error *err)
{
    static const struct {
        const char *label, *program, *w, *a;
        enum dtype type;
    } rows[] = {
        {"FP8 E4M3, scaled", "f8e4m3fn-scaled", "f8e4m3fn/channel", "f8e4m3fn/tensor", DT_F8E4M3FN},
        {"FP8 E5M2, scaled", "f8e5m2-scaled", "f8e5m2/channel", "f8e5m2/tensor", DT_F8E5M2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct operand x, w;
        struct quant_spec spec;
        struct precision_case *c;
        int rc = quantised(d, "x", deployment_x, ROWS, INPUTS, rows[i].type, false, &x, &spec, err);
        if (!rc)
            rc = quantised(d, "w", deployment_w, INPUTS, OUTPUTS, rows[i].type, true, &w, &spec, err);
        if (!rc)
            rc = run_policy(d, rows[i].label, rows[i].program, &x, &w, &c, err);
        if (rc)
            return rc;
        c->w = rows[i].w;
        c->a = rows[i].a;
        c->clipped = (int64_t)(x.clipped + w.clipped);
    }
    return 0;
}

// The bound that needs no weights: half a scale for each, times |x|.
static int half_scale_bound(struct deployment *d, struct precision_case *c, const struct quant_spec *spec,
                            const struct operand *w, struct error *err)
{
    char name[96];
    struct quant_output bound;
    int rc = quant_output_bound(spec, w->array.dims, 0, deployment_w, w->array.data, w->scales, NULL, deployment_x,
                                ROWS, &bound, NULL, NULL, NULL, "w", err);
    if (rc)
        return rc;
    precision_number(d->p, c, "half-scale bound",
                     quantity_make(bound.max_half_step_bound, "1", ORIGIN_DERIVED, "largest sum |x| scale / 2"));
    snprintf(name, sizeof name, "%s: half-scale bound", c->name);
    precision_check(d->p, name, "without clipping a weight is off by half a scale, an output by sum |x| scale / 2",
                    bound.holds && bound.half_step_holds && w->clipped == 0, "holds",
                    bound.half_step_holds ? "holds" : "does not hold");
    return 0;
}

static int weight_only(struct deployment *d, struct error *err)
{
    static const struct {
        const char *label, *program, *w;
        enum dtype type;
        double recorded;
    } rows[] = {
        {"W8A32", "w8a32", "int8/channel", DT_S8, 0.008031368255615234},
        {"W4A32", "w4a32", "int4/channel", DT_S4, 0.14571428298950195},
    };
    for (size_t i = 0; i < 2; i++) {
        struct operand w;
        struct quant_spec spec;
        struct precision_case *c;
        int rc = quantised(d, "w", deployment_w, INPUTS, OUTPUTS, rows[i].type, true, &w, &spec, err);
        if (!rc)
            rc = run_policy(d, rows[i].label, rows[i].program, &d->x_f32, &w, &c, err);
        if (rc)
            return rc;
        c->w = rows[i].w;
        c->clipped = (int64_t)w.clipped;
        check_recorded(d, c, rows[i].recorded);
        rc = half_scale_bound(d, c, &spec, &w, err);
        if (rc)
            return rc;
    }
    return 0;
}

// Codes times codes in int32 on the device, then ((float)acc * x_scale) * w_scale. *acc: RESULTS int32 of the device.
static int integer_product(struct deployment *d, const struct operand *x, const struct operand *w,
                           const double **values, const int32_t **acc, struct error *err)
{
    struct module m;
    struct builder b;
    module_init(&m, &d->p->arena, "policy");
    builder_init(&b, &m);
    builder_scope(&b, "product", "product");
    int px = build_parameter(&b, ROLE_INPUT, "x", shape_of(DT_S8, 2, x->array.dims), NULL);
    int pw = build_parameter(&b, ROLE_INPUT, "w", shape_of(DT_S8, 2, w->array.dims), NULL);
    int xs = build_parameter(&b, ROLE_INPUT, "x_scale", SHAPE(DT_F32, 1), NULL);
    int ws = build_parameter(&b, ROLE_INPUT, "w_scales", SHAPE(DT_F32, OUTPUTS), NULL);
    struct shape wide = SHAPE(DT_F32, ROWS, OUTPUTS);
    int sum = build_dot(&b, px, pw, 0, NULL, NULL, 1, (int[]){1}, (int[]){0}, DT_S32);
    int y = build_binary(&b, OP_MULTIPLY, build_convert(&b, sum, DT_F32),
                         build_broadcast(&b, build_reshape(&b, xs, 0, NULL), wide, NULL));
    y = build_binary(&b, OP_MULTIPLY, y, build_broadcast(&b, ws, wide, (int[]){1}));
    build_result(&b, "y", y);
    build_result(&b, "accumulators", sum);
    struct precision_array args[4] = {
        x->array,
        w->array,
        {.name = "x_scale", .type = DT_F32, .rank = 1, .dims = {1}, .data = x->scales},
        {.name = "w_scales", .type = DT_F32, .rank = 1, .dims = {OUTPUTS}, .data = w->scales},
    };
    struct precision_execution e = {.name = "w8a8", .module = &m, .args = args, .n_args = 4};
    int rc = builder_finish(&b, err);
    if (!rc)
        rc = precision_execute(d->p, &e, err);
    *acc = rc ? NULL : e.outputs[1].data;
    *values = rc ? NULL : precision_doubles(d->p, DT_F32, e.outputs[0].data, RESULTS, err);
    return rc || *values ? rc : ERR_MEMORY;
}

static int check_accumulators(struct deployment *d, const struct operand *x, const struct operand *w,
                              const int32_t *acc, struct error *err)
{
    int32_t qx[ROWS * INPUTS], qw[INPUTS * OUTPUTS], want[RESULTS];
    int rc = affine_widen(DT_S8, x->array.data, ROWS * INPUTS, qx, err);
    if (!rc)
        rc = affine_widen(DT_S8, w->array.data, INPUTS * OUTPUTS, qw, err);
    struct affine_product product = {.rows = ROWS, .inputs = INPUTS, .outputs = OUTPUTS, .x = qx, .w = qw};
    if (!rc)
        rc = affine_dot(&product, want, "w8a8", err);
    if (rc)
        return rc;
    bool same = true;
    for (size_t i = 0; i < RESULTS; i++)
        same &= acc[i] == want[i];
    precision_check(d->p, "W8A8: accumulators", "int32 sums of the device are those taken in 64 bits on the host", same,
                    "equal", same ? "equal" : "different");
    return 0;
}

static int w8a8(struct deployment *d, struct error *err)
{
    struct operand x, w;
    struct quant_spec spec;
    struct error own = {0};
    const int32_t *acc = NULL;
    int rc = quantised(d, "x", deployment_x, ROWS, INPUTS, DT_S8, false, &x, &spec, err);
    if (!rc)
        rc = quantised(d, "w", deployment_w, INPUTS, OUTPUTS, DT_S8, true, &w, &spec, err);
    if (rc)
        return rc;
    const double *y;
    rc = tolerate(d, integer_product(d, &x, &w, &y, &acc, &own), &own, err);
    if (rc)
        return rc;
    struct precision_case *c = add_case(d, "W8A8", &x, &w);
    c->w = "int8/channel";
    c->a = "int8/tensor";
    c->op = "int8";
    c->acc = "int32";
    c->clipped = (int64_t)(x.clipped + w.clipped);
    finish_case(d, c, &x, &w, y, &own);
    if (!y)
        return 0;
    check_recorded(d, c, 0.00742650032043457);
    return check_accumulators(d, &x, &w, acc, err);
}

// ---- picture and notes

static void picture(struct deployment *d, struct precision_case *const affine[OUTPUTS])
{
    struct precision *p = d->p;
    struct precision_figure *f = precision_figure(
        p, "policies", "What a policy costs, and what a mistake costs",
        "Above: the largest error of each policy against the f32 product of the same inputs, on a logarithmic scale; "
        "FP32 "
        "is 0 and has no bar. Below: another product whose values its grids hold exactly. Without the zero point of "
        "the "
        "input each output is off by a constant of its own; on a grid that is too narrow both end at its last value.");
    struct precision_panel *panel = precision_panel(p, f, PANEL_BARS, "Policies");
    precision_axis_y(p, panel, "largest absolute error against the f32 product", "1", true);
    const char *names[16];
    for (size_t i = 0; i < d->n_cases; i++) {
        names[i] = d->cases[i]->failure ? NULL : d->cases[i]->name;
        precision_category(p, panel, d->cases[i]->name);
    }
    precision_series(p, panel, "max", "measures/" F32_PRODUCT "/max_abs", names, d->n_cases);
    panel = precision_panel(p, f, PANEL_BARS, "An affine product");
    precision_axis_y(p, panel, "output", "1", false);
    for (size_t j = 0; j < OUTPUTS; j++) {
        names[j] = affine[j]->name;
        precision_category(p, panel, affine[j]->name);
    }
    precision_series(p, panel, "right", "facts/output", names, OUTPUTS);
    precision_series(p, panel, "zero point left out", "facts/without zero point", names, OUTPUTS);
    precision_series(p, panel, "output grid too narrow", "facts/on the narrow grid", names, OUTPUTS);
}

static void notes(struct precision *p)
{
    precision_note(p,
                   "operands are stored in the policy's type, made f32 on the device and multiplied in f32, W8A8 "
                   "apart, which multiplies codes in int32: this shows what representing a value costs, not the speed "
                   "of a low-precision kernel, nor that the device has one");
    precision_note(p, "the errors are those of six inputs and six weights: formats can be told apart by them, models "
                      "cannot be judged");
    precision_note(p,
                   "FP8 without scales rounds the values as they are; scaled FP8 moves the largest value of the "
                   "activations, and of each output's weights, to the end of the format, which spends its fine codes "
                   "elsewhere: on values of about 1 it may help or not");
}

static int run(struct precision *p, struct error *err)
{
    struct deployment d = {.p = p};
    struct precision_case *affine[OUTPUTS];
    int rc = reference(&d, err);
    if (!rc)
        rc = f64_policy(&d, err);
    if (!rc)
        rc = rounded_policies(&d, err);
    if (!rc)
        rc = scaled_fp8(&d, err);
    if (!rc)
        rc = weight_only(&d, err);
    if (!rc)
        rc = w8a8(&d, err);
    if (!rc)
        rc = deployment_affine(p, affine, err);
    if (!rc)
        rc = deployment_examples(p, err);
    if (rc)
        return rc;
    picture(&d, affine);
    notes(p);
    return 0;
}

const struct precision_suite precision_suite_deployment = {
    .name = "deployment",
    .help = "float formats, weight-only and integer policies, calibration, zero points and output grids",
    .uses = PRECISION_TRACES_EACH,
    .run = run,
};
