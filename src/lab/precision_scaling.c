// SPDX-License-Identifier: Apache-2.0
// The suite `scaling`: what low precision does to training, and the usual cures. Gradients that are too small for f16
// and a scale of the loss that saves them; a step whose gradient overflows and is skipped; clipping before and after
// the scale is taken out; small updates that weights without a master copy lose; weights of few codes, rounded after
// training and trained straight through the rounding.
#include "lab/precision_scaling.h"

#include <stdio.h>
#include <string.h>

#include "num/quantize.h"

enum {
    STEPS = 300,
    LEAST_STEPS = 200, // that the claims are about
    MOST_STEPS = 10000,
    TAIL = 20, // losses whose mean is told where single ones jump
    ROWS = 60, // of a table of losses
    DEFAULT_SEED = 17,
    GRADIENTS = 4, // f32, bf16, f16, f16 scaled
};
#define CLIP (0.05 / SCALING_PARTS)

enum run {
    F64,
    F32,
    BF16,
    F16,
    F16_SCALED,
    F16_ADAPTED,
    F16_UNCHECKED,
    F32_CLIPPED,
    F16_CLIPPED,
    F16_CLIPPED_SCALED,
    F16_ALONE,
    BF16_ALONE,
    INT4_THROUGH,
    INT2_THROUGH,
    INT2_CAST,
    RUNS
};

#define LOSS_SCALING "loss scaling"
#define CLIPPING     "clipping at a norm of 0.05"
#define MASTER       "without a master copy"
#define QUANTISED    "weights of few codes"

static const struct experiment {
    struct scaling_policy policy;
    const char *section;
} experiments[RUNS] = {
    [F64] = {{.name = "f64", .type = DT_F64, .weights = DT_F64, .scale = 1}, LOSS_SCALING},
    [F32] = {{.name = "f32", .type = DT_F32, .weights = DT_F32, .scale = 1}, LOSS_SCALING},
    [BF16] = {{.name = "bf16", .type = DT_BF16, .weights = DT_F32, .scale = 1}, LOSS_SCALING},
    [F16] = {{.name = "f16, not scaled", .type = DT_F16, .weights = DT_F32, .scale = 1}, LOSS_SCALING},
    [F16_SCALED] = {{.name = "f16, scale 2^20", .type = DT_F16, .weights = DT_F32, .scale = 0x1p20}, LOSS_SCALING},
    [F16_ADAPTED] = {{.name = "f16, scale adapted", .type = DT_F16, .weights = DT_F32, .scale = 0x1p32, .adapt = true},
                     LOSS_SCALING},
    [F16_UNCHECKED] = {{.name = "f16, scale 2^34, applied unseen",
                        .type = DT_F16,
                        .weights = DT_F32,
                        .scale = 0x1p34,
                        .apply_all = true},
                       LOSS_SCALING},
    [F32_CLIPPED] = {{.name = "f32, clipped", .type = DT_F32, .weights = DT_F32, .scale = 1, .clip = CLIP}, CLIPPING},
    [F16_CLIPPED] =
        {{.name = "f16, clipped without the scale", .type = DT_F16, .weights = DT_F32, .scale = 0x1p20, .clip = CLIP},
         CLIPPING},
    [F16_CLIPPED_SCALED] = {{.name = "f16, clipped with the scale",
                             .type = DT_F16,
                             .weights = DT_F32,
                             .scale = 0x1p20,
                             .clip = CLIP,
                             .clip_scaled = true},
                            CLIPPING},
    [F16_ALONE] = {{.name = "f16 weights", .type = DT_F16, .weights = DT_F16, .scale = 0x1p20}, MASTER},
    [BF16_ALONE] = {{.name = "bf16 weights", .type = DT_BF16, .weights = DT_BF16, .scale = 1}, MASTER},
    [INT4_THROUGH] = {{.name = "int4, straight through",
                       .type = DT_F32,
                       .weights = DT_F32,
                       .scale = 1,
                       .quantisation = SCALING_STRAIGHT_THROUGH,
                       .qmax = 7},
                      QUANTISED},
    [INT2_THROUGH] = {{.name = "int2, straight through",
                       .type = DT_F32,
                       .weights = DT_F32,
                       .scale = 1,
                       .quantisation = SCALING_STRAIGHT_THROUGH,
                       .qmax = 1},
                      QUANTISED},
    [INT2_CAST] = {{.name = "int2, every step cast",
                    .type = DT_F32,
                    .weights = DT_F32,
                    .scale = 1,
                    .quantisation = SCALING_CAST_ALONE,
                    .qmax = 1},
                   QUANTISED},
};

struct suite {
    struct precision *p;
    struct scaling_lab lab;
    size_t steps;
    struct scaling_run runs[RUNS];
    double rounded[2];           // loss of the f32 run's weights, rounded to int4 and to int2 after training
    double errors[2][GRADIENTS]; // rel L2 of gradients, at the first weights and where the f32 run ended
};

static double last_loss(const struct scaling_run *r)
{
    return r->loss[r->steps];
}

static double tail_loss(const struct scaling_run *r)
{
    size_t n = r->steps + 1 < TAIL ? r->steps + 1 : TAIL;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += r->loss[r->steps - i];
    return sum / (double)n;
}

static double flushed_share(const struct scaling_run *r)
{
    double n = 0;
    for (int i = 0; i < SCALING_TENSORS; i++)
        n += (double)r->flushed[i];
    return n / SCALING_GRADIENTS / (double)r->steps;
}

static double lost_share(const struct scaling_run *r)
{
    return r->updates ? (double)r->lost_updates / (double)r->updates : 0;
}

// ---- cases

static void fact(struct suite *s, struct precision_case *c, const char *name, double v, const char *source)
{
    precision_number(s->p, c, name, quantity_make(v, "1", ORIGIN_MEASURED, source));
}

static struct precision_case *loss_case(struct suite *s, const char *section, const char *name, double loss)
{
    struct precision_case *c = precision_case(s->p, section, name, NULL);
    precision_on_device(s->p, c);
    c->op = c->a = "f32";
    c->acc = "f32";
    fact(s, c, "loss, last", isfinite(loss) ? loss : (double)NAN,
         isfinite(loss) ? "the loss after the last step, undivided"
                        : "the last weights are not finite: there is no loss");
    return c;
}

static void run_case(struct suite *s, enum run which)
{
    const struct scaling_policy *policy = &experiments[which].policy;
    const struct scaling_run *r = &s->runs[which];
    struct precision_case *c = loss_case(s, experiments[which].section, policy->name, last_loss(r));
    c->w = policy->quantisation == SCALING_CAST_ALONE ? (policy->qmax == 1 ? "int2" : "int4")
                                                      : dtype_name(policy->weights);
    c->op = policy->quantisation == SCALING_STRAIGHT_THROUGH ? (policy->qmax == 1 ? "int2" : "int4")
                                                             : dtype_name(policy->type);
    c->a = dtype_name(policy->type);
    c->acc = policy->type == DT_F64 ? "f64" : "f32";
    if (policy->quantisation)
        fact(s, c, "mean of the last 20", tail_loss(r), "the mean of the last 20 losses");
    fact(s, c, "gradients to 0", flushed_share(r),
         "share of the stored gradients, over all steps, that are not 0 in the type of the sums");
    fact(s, c, "updates lost", lost_share(r), "share of the updates other than 0 that left their weight as it was");
    fact(s, c, "steps skipped", (double)r->skipped, "steps with a gradient that is not finite");
    fact(s, c, "last scale", r->scale[r->steps], "the scale of the loss after the last step");
}

// ---- weights of few codes

// w as codes times scales, per column; scales: one per column.
static int round_matrix(struct precision *p, enum dtype type, const float *w, const int64_t dims[2], float *out,
                        float *scales, struct error *err)
{
    struct quant_spec spec = {.type = type, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1};
    struct quant_stats stats;
    int8_t *codes = precision_alloc(p, (size_t)(dims[0] * dims[1]), 1, err);
    int rc = codes ? quantize(&spec, dims, 2, w, codes, scales, NULL, &stats, "weights", err) : ERR_MEMORY;
    return rc ? rc : dequantize(&spec, dims, 2, codes, scales, NULL, out, "weights", err);
}

struct rounded {
    float *w, *scales[2];
};

static int round_weights(struct precision *p, enum dtype type, const float *w, struct rounded *out, struct error *err)
{
    static const int64_t dims[2][2] = {{SCALING_INPUTS, SCALING_HIDDEN}, {SCALING_HIDDEN, SCALING_OUTPUTS}};
    out->w = precision_alloc(p, SCALING_WEIGHTS, sizeof *out->w, err);
    out->scales[0] = precision_alloc(p, SCALING_HIDDEN, sizeof *out->scales[0], err);
    out->scales[1] = precision_alloc(p, SCALING_OUTPUTS, sizeof *out->scales[1], err);
    if (!out->w || !out->scales[0] || !out->scales[1])
        return ERR_MEMORY;
    int rc = round_matrix(p, type, w, dims[0], out->w, out->scales[0], err);
    return rc ? rc : round_matrix(p, type, w + SCALING_W1, dims[1], out->w + SCALING_W1, out->scales[1], err);
}

// The f32 run's last weights. NULL with err set.
static const float *trained(struct suite *s, struct error *err)
{
    float *out = precision_alloc(s->p, SCALING_WEIGHTS, sizeof *out, err);
    for (size_t i = 0; i < SCALING_WEIGHTS && out; i++)
        out[i] = (float)s->runs[F32].w[i];
    return out;
}

static int post_training(struct suite *s, struct error *err)
{
    static const enum dtype types[2] = {DT_S4, DT_S2};
    static const char *const names[2] = {"int4, rounded after training", "int2, rounded after training"};
    const float *w = trained(s, err);
    int rc = w ? 0 : ERR_MEMORY;
    for (int i = 0; i < 2 && !rc; i++) {
        struct rounded r;
        struct scaling_gradient g;
        rc = round_weights(s->p, types[i], w, &r, err);
        if (!rc)
            rc = scaling_gradient(&s->lab, r.w, &experiments[F32].policy, false, &g, err);
        if (rc)
            return rc;
        s->rounded[i] = g.loss;
        loss_case(s, QUANTISED, names[i], g.loss)->w = i ? "int2" : "int4";
    }
    return rc;
}

// ---- gradients

static int gradients_at(struct suite *s, int place, const float *w, struct error *err)
{
    static const enum run runs[GRADIENTS] = {F32, BF16, F16, F16_SCALED};
    static const char *const sections[] = {"gradient of the first step", "gradient where the f32 run ended"};
    static const char *const tensors[SCALING_TENSORS] = {"of y to 0", "of h to 0", "of w to 0"};
    static const double sizes[SCALING_TENSORS] = {SCALING_BATCH * SCALING_OUTPUTS, SCALING_BATCH * SCALING_HIDDEN,
                                                  SCALING_WEIGHTS};
    struct scaling_gradient reference, g;
    int rc = scaling_gradient(&s->lab, w, &experiments[F32].policy, true, &reference, err);
    for (int i = 0; i < GRADIENTS && !rc; i++) {
        const struct scaling_policy *policy = &experiments[runs[i]].policy;
        char name[96];
        rc = scaling_gradient(&s->lab, w, policy, false, &g, err);
        if (rc)
            return rc;
        snprintf(name, sizeof name, "%s, %s", sections[place], policy->name);
        struct precision_case *c = precision_case(s->p, sections[place], name, NULL);
        c->label = policy->name;
        c->w = "f32";
        c->a = c->op = dtype_name(policy->type);
        c->acc = "f32";
        precision_on_device(s->p, c);
        s->errors[place][i] = precision_measure(s->p, c, "f64", reference.values, g.values, SCALING_WEIGHTS)->rel_l2;
        for (int k = 0; k < SCALING_TENSORS; k++)
            fact(s, c, tensors[k], (double)g.flushed[k] / sizes[k],
                 "share of these gradients that are not 0 in the type of the sums and 0 when stored");
    }
    return rc;
}

static int gradients(struct suite *s, struct error *err)
{
    const float *end = trained(s, err);
    int rc = end ? gradients_at(s, 0, s->lab.data.w, err) : ERR_MEMORY;
    return rc ? rc : gradients_at(s, 1, end, err);
}

// ---- tables and figures

static void add_table(struct suite *s, const char *name, const char *title, const char *series, const enum run *runs,
                      size_t n)
{
    struct precision_table *t = precision_table(s->p, name, title);
    size_t every = s->steps / ROWS + 1;
    precision_column(s->p, t, "step", "1", ORIGIN_DERIVED, "count");
    for (size_t i = 0; i < n; i++)
        precision_column(s->p, t, experiments[runs[i]].policy.name, "1", ORIGIN_MEASURED, series);
    for (size_t at = 0; at <= s->steps; at++) {
        if (at % every && at != s->steps)
            continue;
        precision_cell_number(s->p, t, (double)at);
        for (size_t i = 0; i < n; i++) {
            const struct scaling_run *r = &s->runs[runs[i]];
            const double *values = series[0] == 'l' ? r->loss : series[0] == 's' ? r->scale : r->zeroed;
            double v = values[at];
            precision_cell_number(s->p, t, isfinite(v) ? v : (double)NAN);
        }
    }
}

static void add_panel(struct suite *s, struct precision_figure *f, const char *title, const char *table,
                      const char *quantity, const enum run *runs, size_t n)
{
    struct precision_panel *panel = precision_panel(s->p, f, PANEL_LINES, title);
    precision_axis_x(s->p, panel, "step", "1", false);
    precision_axis_y(s->p, panel, quantity, "1", true);
    for (size_t i = 0; i < n; i++)
        precision_line(s->p, panel, experiments[runs[i]].policy.name, table, "step", experiments[runs[i]].policy.name);
}

static void pictures(struct suite *s)
{
    static const enum run scaling[] = {F32, BF16, F16, F16_SCALED, F16_ADAPTED}, adapted[] = {F16_ADAPTED},
                          clipping[] = {F32_CLIPPED, F16_CLIPPED, F16_CLIPPED_SCALED},
                          master[] = {F32, BF16, BF16_ALONE, F16_SCALED, F16_ALONE},
                          codes[] = {F32, INT4_THROUGH, INT2_THROUGH, INT2_CAST};
    add_table(s, "loss", "the loss, step by step", "loss", scaling, 5);
    add_table(s, "zeroed", "share of gradients that are stored as 0", "zeroed: share of gradients", scaling, 5);
    add_table(s, "scale", "the scale of the loss where it adapts", "scale of the loss", adapted, 1);
    add_table(s, "loss-clipped", "the loss under clipping", "loss", clipping, 3);
    add_table(s, "loss-master", "the loss with and without a master copy of the weights", "loss", master, 5);
    add_table(s, "loss-codes", "the loss with weights of few codes", "loss", codes, 4);
    struct precision_figure *f = precision_figure(
        s->p, "loss-scaling", "Gradients in f16, with and without a scale of the loss",
        "Without a scale, ever more gradients are smaller than f16 can hold, and training stops. bf16 has "
        "the exponents of f32 "
        "and needs none. The scale that adapts doubles until a gradient overflows; that step is "
        "skipped, and it is halved.");
    add_panel(s, f, "loss", "loss", "loss", (const enum run[]){F32, BF16, F16, F16_ADAPTED}, 4);
    add_panel(s, f, "scale that adapts", "scale", "scale of the loss", adapted, 1);
    f = precision_figure(
        s->p, "master-weights", "Weights kept in f32, and in the type of the product",
        "An update smaller than half the distance to the next bf16 number leaves the weight as it was.");
    add_panel(s, f, "loss", "loss-master", "loss", (const enum run[]){F32, BF16, BF16_ALONE, F16_ALONE}, 4);
    f = precision_figure(
        s->p, "clipping", "Clipping before and after the scale is taken out",
        "A gradient that is clipped while it is 2^20 times too large is 2^20 times too small afterwards.");
    add_panel(s, f, "loss", "loss-clipped", "loss", clipping, 3);
    f = precision_figure(
        s->p, "few-codes", "Training weights that have few codes",
        "Rounding has no slope, so no step gets past a cast. Straight through it, the weights in f32 move, "
        "and the codes with them.");
    add_panel(s, f, "loss", "loss-codes", "loss", codes, 4);
}

// ---- claims

// got >= least, or got <= most.
static void at_least(struct suite *s, const char *name, const char *shows, double least, double got)
{
    char a[48], b[48];
    snprintf(a, sizeof a, "at least %g", least);
    snprintf(b, sizeof b, "%.4g", got);
    precision_check(s->p, name, shows, got >= least, a, b);
}

static void at_most(struct suite *s, const char *name, const char *shows, double most, double got)
{
    char a[48], b[48];
    snprintf(a, sizeof a, "at most %g", most);
    snprintf(b, sizeof b, "%.4g", got);
    precision_check(s->p, name, shows, got <= most, a, b);
}

static void claims_scaling(struct suite *s)
{
    const struct scaling_run *r = s->runs;
    double f32 = last_loss(&r[F32]);
    at_most(s, "f32 follows f64", "the relative difference of the last losses: f32 is precise enough to compare with",
            1e-3, fabs(f32 / last_loss(&r[F64]) - 1));
    at_least(s, "f16: gradients lost", "the share of gradients that f16 stores as 0 without a scale", 0.1,
             flushed_share(&r[F16]));
    at_least(s, "f16: training stops", "its last loss, as a multiple of f32's", 2, last_loss(&r[F16]) / f32);
    at_most(s, "f16 scaled: gradients lost", "with a scale hardly any gradient is lost", 1e-3,
            flushed_share(&r[F16_SCALED]));
    at_most(s, "f16 scaled: loss", "and the last loss differs little from f32's, relative to it", 0.05,
            fabs(last_loss(&r[F16_SCALED]) / f32 - 1));
    precision_check_count(s->p, "bf16: gradients lost", "bf16 loses none without a scale", 0,
                          (int64_t)(flushed_share(&r[BF16]) * SCALING_GRADIENTS * (double)s->steps + 0.5));
    at_most(s, "bf16: loss", "and its last loss differs little from f32's", 0.05, fabs(last_loss(&r[BF16]) / f32 - 1));
    at_least(s, "gradient, f16: error", "of the first step, relative, against f64", 0.05, s->errors[0][2]);
    at_most(s, "gradient, f16 scaled: error", "and with a scale", 2e-3, s->errors[0][3]);
}

static void claims_adapting(struct suite *s)
{
    const struct scaling_run *r = &s->runs[F16_ADAPTED];
    at_least(s, "adapted: steps skipped", "the scale grows until a gradient overflows; such a step is skipped", 1,
             (double)r->skipped);
    precision_check_number(s->p, "adapted: last scale", "2^32, doubled and halved as often as counted",
                           ldexp(0x1p32, (int)(r->grown - r->skipped)), r->scale[r->steps], 0, "powers of two");
    precision_check_count(s->p, "adapted: weights that are not finite", "no overflow reaches the weights", 0,
                          r->bad_weights);
    at_most(s, "adapted: loss", "the last loss differs little from f32's: by the steps that were skipped", 0.1,
            fabs(last_loss(r) / last_loss(&s->runs[F32]) - 1));
    at_least(s, "unseen: weights that are not finite", "a gradient that overflowed and is applied ruins the weights", 1,
             (double)s->runs[F16_UNCHECKED].bad_weights);
}

static void claims_clipping(struct suite *s)
{
    const struct scaling_run *r = s->runs;
    // f16 rounds each gradient to 11 bits, f32 sums squares of 3072 numbers.
    precision_check_number(s->p, "clipped: largest norm", "of an applied gradient, clipped without the scale", 0.05,
                           r[F16_CLIPPED].largest_norm, 1e-6, "f32 arithmetic");
    at_most(s, "clipped: loss", "the last loss differs little from f32's under the same clipping", 0.05,
            fabs(last_loss(&r[F16_CLIPPED]) / last_loss(&r[F32_CLIPPED]) - 1));
    precision_check_number(s->p, "clipped with the scale: largest norm",
                           "clipping first and unscaling then divides the bound by the scale, 2^20", 0.05 / 0x1p20,
                           r[F16_CLIPPED_SCALED].largest_norm, 1e-6 / 0x1p20, "f32 arithmetic");
    at_least(s, "clipped with the scale: loss",
             "and hardly anything is learned: the share of the first loss that is left", 0.9,
             last_loss(&r[F16_CLIPPED_SCALED]) / r[F16_CLIPPED_SCALED].loss[0]);
}

static void claims_master(struct suite *s)
{
    const struct scaling_run *r = s->runs;
    at_least(s, "bf16 weights: updates lost", "the share of updates that weights in bf16 do not take", 0.4,
             lost_share(&r[BF16_ALONE]));
    at_least(s, "bf16 weights: loss", "the last loss, as a multiple of that with a master copy", 1.3,
             last_loss(&r[BF16_ALONE]) / last_loss(&r[BF16]));
    at_least(s, "f16 weights: updates lost", "f16 has three bits more and loses fewer, but loses them", 0.02,
             lost_share(&r[F16_ALONE]));
    at_most(s, "bf16 with a master copy: updates lost", "a master copy in f32 takes nearly every update", 0.01,
            lost_share(&r[BF16]));
}

static void claims_codes(struct suite *s)
{
    const struct scaling_run *through = &s->runs[INT2_THROUGH], *cast = &s->runs[INT2_CAST];
    at_least(
        s, "int2: rounded after training",
        "the loss of weights rounded after training, as a multiple of that of weights trained straight through the "
        "rounding (mean of the last 20)",
        1.5, s->rounded[1] / tail_loss(through));
    at_least(s, "int2, every step cast: updates lost",
             "the share of updates that a cast takes back: hardly any is half a code", 0.999, lost_share(cast));
    at_least(s, "int2, every step cast: loss", "so nearly all of the first loss is left", 0.5,
             last_loss(cast) / cast->loss[0]);
    at_most(s, "int2, straight through: updates lost", "the weights behind the codes take nearly every update", 0.01,
            lost_share(through));
}

static void notes(struct suite *s)
{
    const struct scaling_run *r = s->runs;
    precision_note(s->p,
                   "two layers, %d-%d-%d, a batch of %d, gradient descent; the loss is divided by %d, as when so many "
                   "batches are averaged, and the learning rate is %d: in exact arithmetic, that is a rate of 1",
                   SCALING_INPUTS, SCALING_HIDDEN, SCALING_OUTPUTS, SCALING_BATCH, SCALING_PARTS, SCALING_PARTS);
    precision_note(s->p,
                   "sums of products and norms are f32 under every policy; activations and gradients are stored in "
                   "the type that the policy names");
    precision_note(s->p,
                   "int4: rounding after training gives a loss of %.4g, training straight through %.4g. Where rounding "
                   "costs little, plain gradient descent through it need not pay: its weights keep crossing the "
                   "points where codes change",
                   s->rounded[0], tail_loss(&r[INT4_THROUGH]));
    if (s->steps < LEAST_STEPS)
        precision_note(s->p,
                       "%zu steps are too few for the claims of this suite, which are about %d and more: none is "
                       "checked",
                       s->steps, LEAST_STEPS);
}

// ---- the suite

static void add_inputs(struct suite *s, uint64_t seed)
{
    const struct scaling_data *d = &s->lab.data;
    char source[96];
    snprintf(source, sizeof source, "numpy.random.default_rng(%llu), standard normals", (unsigned long long)seed);
    precision_add_input(s->p, "x", DT_F32, 2, (int64_t[]){SCALING_BATCH, SCALING_INPUTS}, d->x, source);
    precision_add_input(s->p, "t", DT_F32, 2, (int64_t[]){SCALING_BATCH, SCALING_OUTPUTS}, d->t,
                        "what another network of the same shape, of the normals that follow, makes of x");
    precision_add_input(s->p, "w", DT_F32, 1, (int64_t[]){SCALING_WEIGHTS}, d->w,
                        "both weights: the normals that follow, over the square root of the rows");
}

static int train(struct suite *s, enum run which, struct error *err)
{
    const struct scaling_policy *policy = &experiments[which].policy;
    const float *const none[2] = {NULL, NULL};
    if (policy->quantisation != SCALING_CAST_ALONE)
        return scaling_train(&s->lab, s->lab.data.w, none, policy, s->steps, &s->runs[which], err);
    struct rounded r;
    int rc = round_weights(s->p, DT_S2, s->lab.data.w, &r, err);
    const float *const scales[2] = {r.scales[0], r.scales[1]};
    return rc ? rc : scaling_train(&s->lab, r.w, scales, policy, s->steps, &s->runs[which], err);
}

static int experiment(struct suite *s, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < RUNS && !rc; i++) {
        rc = train(s, (enum run)i, err);
        if (!rc)
            run_case(s, (enum run)i);
    }
    if (!rc)
        rc = post_training(s, err);
    if (!rc)
        rc = gradients(s, err);
    if (rc)
        return rc;
    pictures(s);
    notes(s);
    if (s->steps < LEAST_STEPS)
        return 0;
    claims_scaling(s);
    claims_adapting(s);
    claims_clipping(s);
    claims_master(s);
    claims_codes(s);
    return 0;
}

static int run(struct precision *p, struct error *err)
{
    const struct precision_options *o = p->options;
    uint64_t seed = o->seed_given ? o->seed : DEFAULT_SEED;
    struct suite *s = precision_alloc(p, 1, sizeof *s, err);
    if (!s)
        return ERR_MEMORY;
    s->p = p;
    s->steps = o->steps ? (size_t)o->steps : STEPS;
    int rc = scaling_init(&s->lab, p, seed, err);
    if (!rc) {
        add_inputs(s, seed);
        rc = experiment(s, err);
    }
    scaling_release(&s->lab);
    return rc;
}

static int check(const struct precision_options *o, struct error *err)
{
    if (o->steps > MOST_STEPS)
        return error_set(err, ERR_USAGE, "--steps", "the suite scaling trains for at most %d steps", MOST_STEPS);
    return 0;
}

const struct precision_suite precision_suite_scaling = {
    .name = "scaling",
    .help = "training in low precision: loss scaling, master weights, fake quantisation",
    .uses = PRECISION_USES_SEED | PRECISION_USES_STEPS,
    .check = check,
    .run = run,
};
