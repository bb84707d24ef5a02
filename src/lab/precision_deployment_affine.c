// SPDX-License-Identifier: Apache-2.0
// What policies are made of, one example each, with the figures of a published run.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/builder.h"
#include "lab/precision_deployment.h"
#include "num/affine.h"
#include "num/calibrate.h"
#include "num/quantize.h"

enum { INPUTS = 3, OUTPUTS = 2 };

#define EXACT "every value is a short binary fraction"

// ---- the affine product: codes [-3, 1, 5] at scale 1/4 and zero point -3 are 0, 1, 2

static const int8_t affine_x[INPUTS] = {-3, 1, 5}, affine_w[INPUTS * OUTPUTS] = {2, -1, -1, 2, 1, 1};
static const double x_scale = 0.25, w_scales[OUTPUTS] = {0.5, 0.25}, bias[OUTPUTS] = {0.125, -0.0625};
enum { X_ZERO = -3, Y_ZERO = -8, OTHER_ZERO = 17 };

struct affine {
    int32_t x[INPUTS], w[INPUTS * OUTPUTS];
    int64_t bias[OUTPUTS];
    int32_t acc[OUTPUTS];
    double y[OUTPUTS];         // of the accumulators
    double no_zero[OUTPUTS];   // the zero point of x left out
    double real_bias[OUTPUTS]; // the bias added in units of the output
    int32_t codes[OUTPUTS];    // on the grid of scale 1/16
    double restored[OUTPUTS];  //
    double narrow[OUTPUTS];    // on the grid of scale 1/256, which ends at 135/256
    bool clipped[OUTPUTS], saturated[OUTPUTS];
};

static struct affine_product product_of(const struct affine *a, const int32_t *x, int32_t zero, const int64_t *b)
{
    return (struct affine_product){
        .rows = 1, .inputs = INPUTS, .outputs = OUTPUTS, .x = x, .x_zero = zero, .w = a->w, .bias = b};
}

static int real_values(const struct affine *a, const int32_t *x, int32_t zero, const int64_t *b, double *y,
                       struct error *err)
{
    int32_t acc[OUTPUTS];
    struct affine_product p = product_of(a, x, zero, b);
    int rc = affine_dot(&p, acc, "affine", err);
    for (size_t j = 0; j < OUTPUTS && !rc; j++)
        y[j] = acc[j] * x_scale * w_scales[j];
    return rc;
}

static int on_grids(struct affine *a, struct error *err)
{
    struct affine_grid wide, narrow;
    int32_t codes[OUTPUTS];
    int rc = affine_grid_init(&wide, DT_S8, 0.0625, Y_ZERO, "y", err);
    if (!rc)
        rc = affine_grid_init(&narrow, DT_S8, 1.0 / 256, Y_ZERO, "y", err);
    if (!rc)
        rc = affine_requantise(AFFINE_F64, a->acc, 1, OUTPUTS, x_scale, w_scales, &wide, a->codes, a->restored,
                               a->clipped, "y", err);
    if (!rc)
        rc = affine_requantise(AFFINE_F64, a->acc, 1, OUTPUTS, x_scale, w_scales, &narrow, codes, a->narrow,
                               a->saturated, "y", err);
    return rc;
}

static int compute(struct affine *a, struct error *err)
{
    int rc = affine_widen(DT_S8, affine_x, INPUTS, a->x, err);
    if (!rc)
        rc = affine_widen(DT_S8, affine_w, INPUTS * OUTPUTS, a->w, err);
    if (!rc)
        rc = affine_bias(bias, OUTPUTS, x_scale, w_scales, a->bias, NULL, "bias", err);
    struct affine_product p = product_of(a, a->x, X_ZERO, a->bias);
    if (!rc)
        rc = affine_dot(&p, a->acc, "affine", err);
    if (!rc)
        rc = real_values(a, a->x, X_ZERO, a->bias, a->y, err);
    if (!rc)
        rc = real_values(a, a->x, 0, a->bias, a->no_zero, err);
    const int64_t unscaled[OUTPUTS] = {(int64_t)rint(bias[0]), (int64_t)rint(bias[1])};
    if (!rc)
        rc = real_values(a, a->x, X_ZERO, unscaled, a->real_bias, err);
    return rc ? rc : on_grids(a, err);
}

static void add_output(struct precision *p, const struct affine *a, size_t j, struct precision_case **out)
{
    char name[32];
    snprintf(name, sizeof name, "output %zu", j);
    struct precision_case *c = precision_case(p, "an affine product", name, NULL);
    c->w = c->a = c->op = c->out = "int8";
    c->acc = "int32";
    c->clipped = a->clipped[j];
    const struct {
        const char *name, *source;
        double value;
    } facts[] = {
        {"accumulator", "sum (x - x_zero) w + bias / (x_scale w_scale), in int32", a->acc[j]},
        {"output", "accumulator * x_scale * w_scale", a->y[j]},
        {"output code", "rint(output / y_scale) + y_zero, y_scale = 1/16", a->codes[j]},
        {"restored", "y_scale (code - y_zero)", a->restored[j]},
        {"without zero point", "sum x w + bias / (x_scale w_scale), rescaled", a->no_zero[j]},
        {"bias not rescaled", "sum (x - x_zero) w + rint(bias), rescaled", a->real_bias[j]},
        {"on the narrow grid", "y_scale = 1/256: the last code is 127, 135/256", a->narrow[j]},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        precision_number(p, c, facts[i].name, quantity_make(facts[i].value, "1", ORIGIN_DERIVED, facts[i].source));
    *out = c;
}

static void check_affine(struct precision *p, const struct affine *a)
{
    const struct {
        const char *name, *shows;
        const double *got;
        double want[OUTPUTS];
    } rows[] = {
        {"affine: output", "accumulators times their unit", a->y, {0.625, 0.9375}},
        {"affine: restored", "the output grid holds both exactly", a->restored, {0.625, 0.9375}},
        {"affine: without zero point", "codes taken for values", a->no_zero, {-0.125, 0.5625}},
        {"affine: narrow grid", "both end at its last code", a->narrow, {0.52734375, 0.52734375}},
    };
    static const int32_t accumulators[OUTPUTS] = {5, 15}, codes[OUTPUTS] = {2, 7};
    for (size_t j = 0; j < OUTPUTS; j++) {
        char name[64];
        snprintf(name, sizeof name, "affine: accumulator %zu", j);
        precision_check_count(p, name, "centred products and the bias in accumulator units", accumulators[j],
                              a->acc[j]);
        snprintf(name, sizeof name, "affine: code %zu", j);
        precision_check_count(p, name, "on the output grid", codes[j], a->codes[j]);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            snprintf(name, sizeof name, "%s %zu", rows[i].name, j);
            precision_check_number(p, name, rows[i].shows, rows[i].want[j], rows[i].got[j], 0, EXACT);
        }
    }
    // x is 0, 1, 2; the weights are [1, -1/4], [-1/2, 1/2], [1/2, 1/4].
    double direct = 0 * 1 + 1 * -0.5 + 2 * 0.5 + 0.125;
    precision_check_number(p, "affine: product of values", "the same, without any code", direct, a->y[0], 0, EXACT);
    bool clipped = a->clipped[0] || a->clipped[1], saturated = a->saturated[0] && a->saturated[1];
    precision_check(p, "affine: clipping", "counted on the narrow grid alone", !clipped && saturated, "0 and 2",
                    !clipped && saturated ? "0 and 2" : "other counts");
}

// Every rule of requantisation gives these codes: the multipliers are powers of two.
static int check_rules(struct precision *p, const struct affine *a, struct error *err)
{
    struct affine_grid y;
    int rc = affine_grid_init(&y, DT_S8, 0.0625, Y_ZERO, "y", err);
    for (int rule = AFFINE_F64; rule <= AFFINE_SINGLE_ROUNDING && !rc; rule++) {
        int32_t codes[OUTPUTS];
        rc = affine_requantise((enum affine_rule)rule, a->acc, 1, OUTPUTS, x_scale, w_scales, &y, codes, NULL, NULL,
                               "y", err);
        if (rc)
            break;
        char name[64], got[32];
        snprintf(name, sizeof name, "affine: codes by %s", affine_rule_name((enum affine_rule)rule));
        snprintf(got, sizeof got, "%d, %d", (int)codes[0], (int)codes[1]);
        precision_check_text(p, name, "multipliers that are powers of two round alike", "2, 7", got);
    }
    return rc;
}

// The zero point moved by 20 and the codes with it: the same values, so the same accumulators. Codes that are all the
// zero point are the value 0: the bias alone.
static int check_origin(struct precision *p, const struct affine *a, struct error *err)
{
    int32_t moved[INPUTS], zeros[INPUTS], acc[OUTPUTS];
    double alone[OUTPUTS];
    bool inside = true;
    for (size_t i = 0; i < INPUTS; i++) {
        moved[i] = a->x[i] + OTHER_ZERO - X_ZERO;
        zeros[i] = OTHER_ZERO;
        inside &= moved[i] >= INT8_MIN && moved[i] <= INT8_MAX;
    }
    struct affine_product q = product_of(a, moved, OTHER_ZERO, a->bias);
    int rc = affine_dot(&q, acc, "affine", err);
    if (!rc)
        rc = real_values(a, zeros, OTHER_ZERO, a->bias, alone, err);
    if (rc)
        return rc;
    bool same = inside && acc[0] == a->acc[0] && acc[1] == a->acc[1];
    precision_check(p, "code origin: accumulators", "a zero point of 17 in place of -3, codes moved by 20", same,
                    "equal", same ? "equal" : "different");
    for (size_t j = 0; j < OUTPUTS; j++) {
        char name[64];
        snprintf(name, sizeof name, "code origin: zero input, output %zu", j);
        precision_check_number(p, name, "codes of real zeros give the bias alone", bias[j], alone[j], 0, EXACT);
    }
    return 0;
}

// The accumulators of the device: codes widened to s32 before the zero point is taken off.
static int run_on_device(struct precision *p, const struct affine *a, struct error *err)
{
    struct module m;
    struct builder b;
    int32_t bias32[OUTPUTS] = {(int32_t)a->bias[0], (int32_t)a->bias[1]};
    module_init(&m, &p->arena, "affine");
    builder_init(&b, &m);
    builder_scope(&b, "product", "product");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_S8, 1, INPUTS), NULL);
    int w = build_parameter(&b, ROLE_INPUT, "w", SHAPE(DT_S8, INPUTS, OUTPUTS), NULL);
    int zero = build_parameter(&b, ROLE_INPUT, "x_zero", SHAPE(DT_S32, 1, INPUTS), NULL);
    int offset = build_parameter(&b, ROLE_INPUT, "bias", SHAPE(DT_S32, 1, OUTPUTS), NULL);
    int centred = build_binary(&b, OP_SUBTRACT, build_convert(&b, x, DT_S32), zero);
    int acc = build_dot(&b, centred, build_convert(&b, w, DT_S32), 0, NULL, NULL, 1, (int[]){1}, (int[]){0}, DT_S32);
    build_result(&b, "accumulators", build_binary(&b, OP_ADD, acc, offset));
    static const int32_t x_zeros[INPUTS] = {X_ZERO, X_ZERO, X_ZERO};
    struct precision_array args[4] = {
        precision_matrix("x", DT_S8, 1, INPUTS, affine_x),
        precision_matrix("w", DT_S8, INPUTS, OUTPUTS, affine_w),
        precision_matrix("x_zero", DT_S32, 1, INPUTS, x_zeros),
        precision_matrix("bias", DT_S32, 1, OUTPUTS, bias32),
    };
    struct precision_execution e = {.name = "affine", .module = &m, .args = args, .n_args = 4};
    struct error own = {0};
    int rc = builder_finish(&b, err);
    if (rc)
        return rc;
    rc = precision_execute(p, &e, &own);
    if (rc == ERR_DEVICE && !precision_lost(p)) {
        precision_note(p, "the device refused the affine product in int32: %s", own.message);
        return 0;
    }
    if (rc)
        return error_set(err, rc, own.where, "%s", own.message);
    const int32_t *got = e.outputs[0].data;
    for (size_t j = 0; j < OUTPUTS; j++) {
        char name[64];
        snprintf(name, sizeof name, "affine: accumulator %zu of the device", j);
        precision_check_count(p, name, "in int32, the zero point taken off after widening", a->acc[j], got[j]);
    }
    return 0;
}

int deployment_affine(struct precision *p, struct precision_case *cases[OUTPUTS], struct error *err)
{
    struct affine a;
    int rc = compute(&a, err);
    if (rc)
        return rc;
    static const char source[] = "codes chosen so that every value is exact";
    precision_add_input(p, "affine x", DT_S8, 2, (const int64_t[]){1, INPUTS}, affine_x, source);
    precision_add_input(p, "affine w", DT_S8, 2, (const int64_t[]){INPUTS, OUTPUTS}, affine_w, source);
    for (size_t j = 0; j < OUTPUTS; j++)
        add_output(p, &a, j, &cases[j]);
    check_affine(p, &a);
    rc = check_rules(p, &a, err);
    if (!rc)
        rc = check_origin(p, &a, err);
    return rc ? rc : run_on_device(p, &a, err);
}

// ---- calibration, and an input that is larger than what it has seen

static int remember(struct split *s, enum split_role role, const char *name, const float *x, size_t n,
                    struct error *err)
{
    return split_add(s, role, name, x, n * sizeof *x, err);
}

// That the two batches have nothing in common, and that one batch on both sides would be refused.
static int check_split(struct precision *p, const float *seen, size_t n_seen, const float *unseen, size_t n_unseen,
                       struct error *err)
{
    struct split s;
    struct error overlap = {0};
    split_init(&s);
    int rc = remember(&s, SPLIT_CALIBRATE, "101 values from -1 to 1", seen, n_seen, err);
    if (!rc)
        rc = remember(&s, SPLIT_HELD_OUT, "the shifted input", unseen, n_unseen, err);
    if (!rc) {
        bool refused = remember(&s, SPLIT_HELD_OUT, "the same 101 values", seen, n_seen, &overlap) == ERR_INPUT;
        precision_check(p, "calibration: split", "what calibrates cannot be what is scored", refused, "refused",
                        refused ? "refused" : "accepted");
    }
    split_release(&s);
    return rc;
}

static int calibrate(const struct quant_spec *spec, const float *seen, size_t n, struct calibration_result *r,
                     struct error *err)
{
    struct calibration *c = calibration_new(spec, "activations", err);
    int rc = c ? calibration_add(c, seen, n, err) : err->code;
    if (!rc)
        rc = calibration_finish(c, r, err);
    calibration_free(c);
    return rc;
}

static void calibration_table(struct precision *p, const float *x, const int8_t *codes, const float *back)
{
    static const char *const columns[][2] = {
        {"input", "given"},
        {"code", "clip(rint(x / scale), -127, 127)"},
        {"restored", "code * scale, in f32"},
        {"error", "restored - input"},
    };
    struct precision_table *t = precision_table(
        p, "calibration", "An input beyond the calibrated range: 101 values from -1 to 1 calibrated it");
    for (size_t i = 0; i < 4; i++)
        precision_column(p, t, columns[i][0], "1", ORIGIN_DERIVED, columns[i][1]);
    for (size_t i = 0; i < 3; i++) {
        precision_cell_number(p, t, (double)x[i]);
        precision_cell_number(p, t, codes[i]);
        precision_cell_number(p, t, (double)back[i]);
        precision_cell_number(p, t, (double)back[i] - (double)x[i]);
    }
}

static int calibration(struct precision *p, struct error *err)
{
    static const float unseen[3] = {0.2f, 0.9f, 4};
    static const double recorded[3] = {0.19685039, 0.8976378, 1};
    static const struct quant_spec spec = {.type = DT_S8, .channel_axis = -1};
    const int64_t dims[1] = {3};
    float seen[101], back[3];
    int8_t codes[3];
    struct calibration_result r;
    struct quant_stats stats;
    for (int i = 0; i < 101; i++)
        seen[i] = i < 100 ? (float)(-1 + i * 0.02) : 1;
    precision_add_input(p, "calibration", DT_F32, 1, (const int64_t[]){101}, seen, "101 values from -1 to 1, evenly");
    precision_add_input(p, "shifted input", DT_F32, 1, dims, unseen, "two values inside of that range, one beyond");
    int rc = calibrate(&spec, seen, 101, &r, err);
    if (!rc)
        rc = quantize_codes(&spec, dims, 1, unseen, &r.scale, NULL, codes, &stats, "shifted input", err);
    if (!rc)
        rc = dequantize(&spec, dims, 1, codes, &r.scale, NULL, back, "shifted input", err);
    struct calibration_clipping clipping = {0};
    if (!rc)
        rc = calibration_clip(&spec, r.scale, r.zero, unseen, 3, &clipping, "shifted input", err);
    if (!rc)
        rc = check_split(p, seen, 101, unseen, 3, err);
    if (rc)
        return rc;
    calibration_table(p, unseen, codes, back);
    precision_check_count(p, "calibration: clipped", "one of three unseen values", 1, (int64_t)stats.clipped);
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "calibration: restored %zu", i);
        precision_check_number(p, name, "as recorded; 4 comes back as 1", recorded[i], (double)back[i], 5e-8,
                               "half of the last digit recorded, an f32");
    }
    precision_check_number(p, "calibration: largest error", "of the value that was clipped", 3, stats.max_abs_error,
                           1e-6, "127 times the f32 nearest to 1/127");
    precision_check(p, "calibration: half a scale", "bounds the error of every value that was not clipped",
                    stats.bound_holds, "holds", stats.bound_holds ? "holds" : "does not hold");
    struct precision_case *c = precision_case(p, "calibration", "the shifted input", NULL);
    c->a = "int8/tensor, static";
    c->clipped = (int64_t)clipping.clipped;
    precision_number(p, c, "scale",
                     quantity_make((double)r.scale, "1", ORIGIN_DERIVED, "amax / 127 of what calibrated"));
    precision_number(p, c, "beyond the last code",
                     quantity_make(clipping.beyond, "1", ORIGIN_DERIVED, "largest distance of a clipped value"));
    precision_text(p, c, "calibrated on", "%zu values of 1 batch, which is not among what is scored", r.values);
    return 0;
}

// ---- one scale for outputs of different size

static int spread_case(struct precision *p, bool per_channel, double recorded, double tolerance, struct error *err)
{
    static const float w[6] = {0.01f, 10, -0.02f, -5, 0.03f, 2};
    const int64_t dims[2] = {3, 2};
    const struct quant_spec spec = {
        .type = DT_S8, .granularity = per_channel ? QUANT_PER_CHANNEL : QUANT_PER_TENSOR, .channel_axis = 1};
    int8_t codes[6];
    float scales[2], back[6];
    struct quant_stats stats;
    if (!per_channel)
        precision_add_input(p, "small and large outputs", DT_F32, 2, dims, w,
                            "weights of two outputs, 300 times apart");
    int rc = quantize(&spec, dims, 2, w, codes, scales, NULL, &stats, "w", err);
    if (!rc)
        rc = dequantize(&spec, dims, 2, codes, scales, NULL, back, "w", err);
    if (rc)
        return rc;
    double small = 0, large = 0;
    int zeros = 0;
    for (size_t i = 0; i < 6; i += 2) {
        small = fmax(small, (double)fabsf(back[i] - w[i]));
        large = fmax(large, (double)fabsf(back[i + 1] - w[i + 1]));
        zeros += codes[i] == 0;
    }
    struct precision_case *c =
        precision_case(p, "outputs of different size", per_channel ? "a scale for each" : "one scale for both", NULL);
    c->w = per_channel ? "int8/channel" : "int8/tensor";
    c->clipped = (int64_t)stats.clipped;
    c->code_bytes = 6;
    c->scale_bytes = per_channel ? 8 : 4;
    static const char source[] = "max |w' - w|, in f32";
    precision_number(p, c, "small output", quantity_make(small, "1", ORIGIN_DERIVED, source));
    precision_number(p, c, "large output", quantity_make(large, "1", ORIGIN_DERIVED, source));
    precision_check_number(p, c->name, "the recorded largest error of the small output", recorded, small, tolerance,
                           "half of the last digit recorded");
    precision_check_count(p, per_channel ? "a scale for each: codes of 0" : "one scale for both: codes of 0",
                          "of the three weights of the small output", per_channel ? 0 : 3, zeros);
    return 0;
}

// ---- storage

static int storage(struct precision *p, struct error *err)
{
    const int64_t dims[2] = {DEPLOYMENT_INPUTS, DEPLOYMENT_OUTPUTS};
    const struct quant_spec spec = {.type = DT_S4, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1};
    struct quant_layout l;
    int8_t codes[6], unpacked[6];
    uint8_t packed[6];
    float scales[2];
    struct quant_stats stats;
    size_t packed_bytes = 0;
    int rc = quant_layout(&spec, dims, 2, "w", &l, err);
    if (!rc)
        rc = quantize(&spec, dims, 2, deployment_w, codes, scales, NULL, &stats, "w", err);
    if (!rc)
        rc = quant_packed_bytes(DT_S4, dims, 2, 1, &packed_bytes, err);
    if (!rc)
        rc = quant_pack(DT_S4, dims, 2, 1, codes, packed, err);
    if (!rc)
        rc = quant_unpack(DT_S4, dims, 2, 1, packed, unpacked, err);
    if (rc)
        return rc;
    bool same = memcmp(codes, unpacked, sizeof codes) == 0;
    precision_check(p, "storage: packed codes", "two to a byte, the first in the low half, and back", same, "equal",
                    same ? "equal" : "different");
    const struct {
        const char *name, *w;
        double codes, scales, total;
    } rows[] = {
        {"f32 weights", "f32", sizeof deployment_w, 0, 24},
        {"4-bit codes in bytes", "int4/channel", sizeof codes, (double)l.stored_scale_bytes, 14},
        {"4-bit codes, packed", "int4/channel", (double)packed_bytes, (double)l.stored_scale_bytes, 11},
    };
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        struct precision_case *c = precision_case(p, "storage of the weights", rows[i].name, NULL);
        c->w = rows[i].w;
        c->code_bytes = rows[i].codes;
        c->scale_bytes = rows[i].scales;
        snprintf(name, sizeof name, "storage: %s", rows[i].name);
        precision_check_count(p, name, "bytes of codes and scales", (int64_t)rows[i].total,
                              (int64_t)(rows[i].codes + rows[i].scales));
    }
    precision_note(p,
                   "4-bit codes that lie in bytes save nothing over 8-bit ones; biases, alignment and workspace are in "
                   "none of these counts");
    return 0;
}

// ---- codes there and back, a bound that is attained, an output of zeros

static int there_and_back(struct precision *p, double x, double scale, int zero, int code, double restored,
                          double tolerance, struct error *err)
{
    struct affine_grid g;
    int32_t got;
    double back;
    char name[64], shows[96];
    int rc = affine_grid_init(&g, DT_S8, scale, zero, "example", err);
    if (rc)
        return rc;
    affine_to_grid(&g, &x, 1, &got, &back, NULL);
    snprintf(name, sizeof name, "grid: %g at scale %g", x, scale);
    snprintf(shows, sizeof shows, "rint(%g / %g) + %d", x, scale, zero);
    precision_check_count(p, name, shows, code, got);
    snprintf(name, sizeof name, "grid: %g at scale %g, back", x, scale);
    precision_check_number(p, name, "scale * (code - zero point)", restored, back, tolerance,
                           tolerance > 0 ? "0.1 and 0.3 are no binary fractions" : EXACT);
    return 0;
}

static int attained_bound(struct precision *p, struct error *err)
{
    static const float w[3] = {-0.1f, 0.1f, -0.1f}, x[3] = {2, -1, 0.5f}, one = 1;
    static const int8_t zeros[3] = {0, 0, 0};
    static const struct quant_spec spec = {.type = DT_S8, .channel_axis = 1};
    struct quant_output o;
    int rc = quant_output_bound(&spec, (const int64_t[]){3, 1}, 0, w, zeros, &one, NULL, x, 1, &o, NULL, NULL, NULL,
                                "w", err);
    if (rc)
        return rc;
    static const char why[] = "0.1 is no binary fraction, and weights are f32";
    precision_check_number(p, "bound: error", "input [2, -1, 0.5], weight errors [0.1, -0.1, 0.1]", 0.35, o.max_error,
                           1e-8, why);
    precision_check_number(p, "bound: sum |x||dW|", "is attained when no term cancels", o.max_error, o.max_bound, 0,
                           "the same three terms");
    return 0;
}

static int zero_output(struct precision *p, struct error *err)
{
    float w[9] = {0}, back[9], scales[3];
    int8_t codes[9];
    const int64_t dims[2] = {3, 3};
    const struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1};
    struct quant_stats stats;
    for (size_t i = 0; i < 6; i++)
        w[i / 2 * 3 + i % 2] = deployment_w[i];
    int rc = quantize(&spec, dims, 2, w, codes, scales, NULL, &stats, "w", err);
    if (!rc)
        rc = dequantize(&spec, dims, 2, codes, scales, NULL, back, "w", err);
    if (rc)
        return rc;
    bool zero = true;
    for (size_t i = 2; i < 9; i += 3)
        zero &= codes[i] == 0 && back[i] == 0;
    precision_check(p, "an output of zeros", "has scale 1 and codes 0, and comes back as zeros", zero && scales[2] == 1,
                    "scale 1, zeros", zero && scales[2] == 1 ? "scale 1, zeros" : "something else");
    return 0;
}

// ---- families of rounding

static int tie_code(float x, int32_t zero, enum quant_zero_order order, enum quant_rounding rounding)
{
    const struct quant_spec spec = {.type = DT_S8,
                                    .channel_axis = -1,
                                    .mapping = QUANT_AFFINE,
                                    .range = QUANT_FULL,
                                    .zero_order = order,
                                    .rounding = rounding};
    const float one = 1;
    int8_t code = 0;
    struct quant_stats stats;
    quantize_codes(&spec, (const int64_t[]){1}, 1, &x, &one, &zero, &code, &stats, "tie", NULL);
    return code;
}

static void tie_table(struct precision *p)
{
    static const struct {
        float x;
        int zero;
    } rows[] = {{0.5f, -3}, {2.5f, -3}, {-0.5f, 0}};
    static const char *const columns[][2] = {
        {"x / scale", "given"},
        {"zero point", "given"},
        {"half even, then zero point", "ONNX Runtime, torch"},
        {"zero point, then half even", "StableHLO, qwix"},
        {"half away, then zero point", "LiteRT"},
    };
    struct precision_table *t = precision_table(p, "ties", "One value, three codes: what a policy has to name");
    for (size_t i = 0; i < 5; i++)
        precision_column(p, t, columns[i][0], "1", ORIGIN_DERIVED, columns[i][1]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        precision_cell_number(p, t, (double)rows[i].x);
        precision_cell_number(p, t, rows[i].zero);
        precision_cell_number(p, t, tie_code(rows[i].x, rows[i].zero, QUANT_ZERO_AFTER_ROUNDING, QUANT_HALF_EVEN));
        precision_cell_number(p, t, tie_code(rows[i].x, rows[i].zero, QUANT_ZERO_BEFORE_ROUNDING, QUANT_HALF_EVEN));
        precision_cell_number(p, t, tie_code(rows[i].x, rows[i].zero, QUANT_ZERO_AFTER_ROUNDING, QUANT_HALF_AWAY));
    }
}

static int requantisation_table(struct precision *p, struct error *err)
{
    static const struct {
        int32_t acc;
        double m;
    } rows[] = {{-199949, 0.0043485981308411213}, {-199957, 0.0234375}, {-199999, 0.5}};
    struct precision_table *t =
        precision_table(p, "requantisation", "An accumulator times a multiplier, by the rules of integer runtimes");
    precision_column(p, t, "accumulator", "1", ORIGIN_DERIVED, "given");
    precision_column(p, t, "multiplier", "1", ORIGIN_DERIVED, "x_scale * w_scale / y_scale");
    for (int rule = AFFINE_F64; rule <= AFFINE_SINGLE_ROUNDING; rule++)
        precision_column(p, t, affine_rule_name((enum affine_rule)rule), "1", ORIGIN_DERIVED, "num/affine");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        precision_cell_number(p, t, rows[i].acc);
        precision_cell_number(p, t, rows[i].m);
        for (int rule = AFFINE_F64; rule <= AFFINE_SINGLE_ROUNDING; rule++) {
            int32_t code;
            int rc = affine_rescale((enum affine_rule)rule, rows[i].acc, rows[i].m, &code, "requantisation", err);
            if (rc)
                return rc;
            precision_cell_number(p, t, code);
        }
    }
    return 0;
}

// ---- what is refused

static void check_refused(struct precision *p, const char *name, bool refused, const struct error *e)
{
    precision_check(p, name, "is refused with its reason", refused, "refused", refused ? "refused" : e->message);
}

static void refusals(struct precision *p)
{
    static const double scales[] = {0, -1, INFINITY, NAN}, zeros[] = {0.5, -129, 128, NAN};
    char name[64];
    for (size_t i = 0; i < 4; i++) {
        struct affine_grid g;
        struct error e = {0};
        snprintf(name, sizeof name, "refused: scale %g", scales[i]);
        check_refused(p, name, affine_grid_init(&g, DT_S8, scales[i], 0, "y", &e) == ERR_INPUT, &e);
        e = (struct error){0};
        snprintf(name, sizeof name, "refused: zero point %g", zeros[i]);
        check_refused(p, name, affine_grid_init(&g, DT_S8, 1, zeros[i], "y", &e) == ERR_INPUT, &e);
    }
}

// Sums that no int32 holds: one product more than always fits.
static int overflow(struct precision *p, struct error *err)
{
    size_t n = affine_safe_inputs(127, 127);
    int32_t *codes = precision_alloc(p, n + 1, sizeof *codes, err), acc;
    if (!codes)
        return ERR_MEMORY;
    for (size_t i = 0; i <= n; i++)
        codes[i] = 127;
    struct affine_product q = {.rows = 1, .inputs = n, .outputs = 1, .x = codes, .w = codes};
    struct error e = {0};
    precision_check_count(p, "int32: products of 127 and 127", "that always fit an accumulator", 133144, (int64_t)n);
    int rc = affine_dot(&q, &acc, "sum", err);
    if (rc)
        return rc;
    q.inputs = n + 1;
    check_refused(p, "refused: one product more", affine_dot(&q, &acc, "sum", &e) == ERR_INPUT, &e);
    return 0;
}

int deployment_examples(struct precision *p, struct error *err)
{
    int rc = calibration(p, err);
    if (!rc)
        rc = spread_case(p, false, 0.03, 5e-9, err);
    if (!rc)
        rc = spread_case(p, true, 7.874053e-05, 5e-12, err);
    if (!rc)
        rc = storage(p, err);
    if (!rc)
        rc = there_and_back(p, 1, 0.5, 3, 5, 1, 0, err);
    if (!rc)
        rc = there_and_back(p, 0.26, 0.1, 0, 3, 0.3, 1e-15, err);
    if (!rc)
        rc = attained_bound(p, err);
    if (!rc)
        rc = zero_output(p, err);
    tie_table(p);
    if (!rc)
        rc = requantisation_table(p, err);
    refusals(p);
    return rc ? rc : overflow(p, err);
}
