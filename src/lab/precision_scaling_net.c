// SPDX-License-Identifier: Apache-2.0
// The programs and the loop around them. Weights stay on the device from step to step; the host sees a few numbers of
// each step and decides whether it is applied and what the next scale is.
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "ir/builder.h"
#include "ir/retype.h"
#include "lab/precision_scaling.h"
#include "num/convert.h"
#include "num/random.h"

#define LEARNING_RATE ((double)SCALING_PARTS)

// ---- data

static int make_data(struct precision *p, uint64_t seed, struct scaling_data *out, struct error *err)
{
    enum { X = SCALING_BATCH * SCALING_INPUTS, ALL = X + 2 * SCALING_WEIGHTS };
    double *r = precision_alloc(p, ALL, sizeof *r, err);
    double *hidden = precision_alloc(p, (size_t)SCALING_BATCH * SCALING_HIDDEN, sizeof *hidden, err);
    double *x = precision_alloc(p, X, sizeof *x, err);
    out->x = precision_alloc(p, X, sizeof *out->x, err);
    out->t = precision_alloc(p, (size_t)SCALING_BATCH * SCALING_OUTPUTS, sizeof *out->t, err);
    out->w = precision_alloc(p, SCALING_WEIGHTS, sizeof *out->w, err);
    if (!r || !hidden || !x || !out->x || !out->t || !out->w)
        return ERR_MEMORY;
    struct random_numpy rng;
    random_numpy_seed(&rng, seed);
    random_numpy_standard_normal(&rng, r, ALL);
    for (size_t i = 0; i < X; i++) {
        out->x[i] = (float)r[i];
        x[i] = (double)out->x[i];
    }
    double *teacher1 = r + X, *teacher2 = teacher1 + SCALING_W1, *w1 = teacher2 + SCALING_W2, *w2 = w1 + SCALING_W1;
    for (size_t i = 0; i < SCALING_W1; i++) {
        teacher1[i] /= sqrt(SCALING_INPUTS);
        out->w[i] = (float)(w1[i] / sqrt(SCALING_INPUTS));
    }
    for (size_t i = 0; i < SCALING_W2; i++) {
        teacher2[i] /= sqrt(SCALING_HIDDEN);
        out->w[SCALING_W1 + i] = (float)(w2[i] / sqrt(SCALING_HIDDEN));
    }
    const double *z = precision_product_f64(p, x, teacher1, SCALING_BATCH, SCALING_INPUTS, SCALING_HIDDEN, err);
    if (!z)
        return ERR_MEMORY;
    for (size_t i = 0; i < (size_t)SCALING_BATCH * SCALING_HIDDEN; i++)
        hidden[i] = fmax(z[i], 0);
    const double *t = precision_product_f64(p, hidden, teacher2, SCALING_BATCH, SCALING_HIDDEN, SCALING_OUTPUTS, err);
    if (!t)
        return ERR_MEMORY;
    for (size_t i = 0; i < (size_t)SCALING_BATCH * SCALING_OUTPUTS; i++)
        out->t[i] = (float)t[i];
    return 0;
}

// ---- pieces of programs

static enum dtype sum_type(const struct scaling_policy *policy)
{
    return policy->type == DT_F64 ? DT_F64 : DT_F32;
}

static int broadcast_scalar(struct builder *b, int scalar, struct shape like)
{
    like.dtype = builder_shape(b, scalar)->dtype;
    return build_broadcast(b, scalar, like, NULL);
}

static int scaled_by(struct builder *b, int x, int scalar)
{
    return build_binary(b, OP_MULTIPLY, x, broadcast_scalar(b, scalar, *builder_shape(b, x)));
}

// The sum over all elements of a matrix.
static int sum_all(struct builder *b, int x)
{
    return build_reduce(b, OP_ADD, x, (int[]){0, 1}, 2);
}

static int nonzero(struct builder *b, int x)
{
    return build_compare(b, CMP_NE, x, build_splat(b, *builder_shape(b, x), 0));
}

static int both(struct builder *b, int x, int y)
{
    return build_binary(b, OP_AND, x, y);
}

static int not_finite(struct builder *b, int x)
{
    return build_unary(b, OP_NOT, build_unary(b, OP_IS_FINITE, x));
}

static int product(struct builder *b, int x, int y, int x_contract, int y_contract, enum dtype result)
{
    int dot = build_dot(b, x, y, 0, NULL, NULL, 1, &x_contract, &y_contract, result);
    if (dot >= 0)
        b->module->instructions[dot].dot.precision = PRECISION_HIGHEST;
    return dot;
}

// amax / qmax of each column of a matrix; 1 where a column is all 0.
static int column_scales(struct builder *b, int w, int qmax)
{
    int amax = build_reduce(b, OP_MAXIMUM, build_unary(b, OP_ABS, w), (int[]){0}, 1);
    struct shape s = *builder_shape(b, amax);
    int scale = build_binary(b, OP_DIVIDE, amax, broadcast_scalar(b, qmax, s));
    return build_select(b, build_compare(b, CMP_EQ, amax, build_splat(b, s, 0)), build_splat(b, s, 1), scale);
}

// codes * scales; scales: one per column.
static int fake_quantise(struct builder *b, int w, int scales, int qmax)
{
    struct shape s = *builder_shape(b, w);
    int wide = build_broadcast(b, scales, s, (int[]){1}), largest = broadcast_scalar(b, qmax, s);
    int code = build_unary(b, OP_ROUND_NEAREST_EVEN, build_binary(b, OP_DIVIDE, w, wide));
    code = build_clamp(b, build_unary(b, OP_NEGATE, largest), code, largest);
    return build_binary(b, OP_MULTIPLY, code, wide);
}

// ---- the program of a step: x, t, w, control (, scales of codes) -> w, statistics, gradient of w
//
// Both weights lie in one vector, w1 first: what is done to them is done once. That matters: XLA compiles every
// reduction of its own for a tenth of a second.

enum { CONTROL_SCALE, CONTROL_UNSCALE, CONTROL_CLIP_SCALED, CONTROL_CLIP, CONTROL_QMAX, CONTROLS };
enum {
    STAT_LOSS,
    STAT_NORM,
    STAT_FLUSHED,
    STAT_BAD = STAT_FLUSHED + SCALING_TENSORS, // gradients that are not finite
    STAT_UPDATES,
    STAT_LOST,
    STAT_CHANGED,
    STAT_BAD_WEIGHTS,
    STATS
};
enum { OUT_W, OUT_STATS, OUT_G, OUTS };

struct step {
    struct builder *b;
    const struct scaling_policy *policy;
    enum dtype sum;
    int x, t, w, scales[2];         // parameters
    int control[CONTROLS];          // scalars
    int exact, g;                   // the gradient of w in the type of the sums, and as it is stored
    int loss, flushed_y, flushed_h; // scalars
};

static void parameters(struct step *s)
{
    struct builder *b = s->b;
    s->x = build_parameter(b, ROLE_INPUT, "x", SHAPE(DT_F32, SCALING_BATCH, SCALING_INPUTS), NULL);
    s->t = build_parameter(b, ROLE_INPUT, "t", SHAPE(DT_F32, SCALING_BATCH, SCALING_OUTPUTS), NULL);
    s->w = build_parameter(b, ROLE_STATE, "w", SHAPE(s->policy->weights, SCALING_WEIGHTS), NULL);
    int control = build_parameter(b, ROLE_INPUT, "control", SHAPE(s->sum, CONTROLS), NULL);
    for (int i = 0; i < CONTROLS; i++)
        s->control[i] = build_reshape(b, build_slice_axis(b, control, 0, i, i + 1), 0, NULL);
    if (s->policy->quantisation == SCALING_CAST_ALONE) {
        s->scales[0] = build_parameter(b, ROLE_INPUT, "scales1", SHAPE(s->sum, SCALING_HIDDEN), NULL);
        s->scales[1] = build_parameter(b, ROLE_INPUT, "scales2", SHAPE(s->sum, SCALING_OUTPUTS), NULL);
    }
}

// The two matrices in a vector.
static void split(struct builder *b, int vector, int out[2])
{
    out[0] =
        build_reshape(b, build_slice_axis(b, vector, 0, 0, SCALING_W1), 2, (int64_t[]){SCALING_INPUTS, SCALING_HIDDEN});
    out[1] = build_reshape(b, build_slice_axis(b, vector, 0, SCALING_W1, SCALING_WEIGHTS), 2,
                           (int64_t[]){SCALING_HIDDEN, SCALING_OUTPUTS});
}

static int join(struct builder *b, int w1, int w2)
{
    const int parts[2] = {build_reshape(b, w1, 1, (int64_t[]){SCALING_W1}),
                          build_reshape(b, w2, 1, (int64_t[]){SCALING_W2})};
    return build_concatenate(b, parts, 2, 0);
}

// Where storing a sum made it 0, as a pred.
static int flushed(struct builder *b, int sum, int stored)
{
    return both(b, nonzero(b, sum), build_unary(b, OP_NOT, nonzero(b, stored)));
}

static int store_gradient(struct step *s, int sum, int *count)
{
    int stored = build_convert(s->b, sum, s->policy->type);
    *count = sum_all(s->b, build_convert(s->b, flushed(s->b, sum, stored), s->sum));
    return stored;
}

static void forward_and_backward(struct step *s)
{
    struct builder *b = s->b;
    enum dtype t = s->policy->type;
    const double n = SCALING_BATCH * SCALING_OUTPUTS;
    int w[2];
    builder_scope(b, "forward", "forward");
    split(b, s->w, w);
    for (int i = 0; i < 2; i++) {
        if (s->policy->quantisation == SCALING_STRAIGHT_THROUGH)
            w[i] = fake_quantise(b, w[i], column_scales(b, w[i], s->control[CONTROL_QMAX]), s->control[CONTROL_QMAX]);
        w[i] = build_convert(b, w[i], t);
    }
    int x = build_convert(b, s->x, t);
    int z = build_convert(b, product(b, x, w[0], 1, 0, s->sum), t);
    int zeros = build_splat(b, *builder_shape(b, z), 0);
    int h = build_binary(b, OP_MAXIMUM, z, zeros);
    int y = build_convert(b, product(b, h, w[1], 1, 0, s->sum), t);
    int residual = build_binary(b, OP_SUBTRACT, build_convert(b, y, s->sum), build_convert(b, s->t, s->sum));
    int squares = sum_all(b, build_binary(b, OP_MULTIPLY, residual, residual));
    s->loss = build_binary_scalar(b, OP_MULTIPLY, squares, 1 / n);
    builder_scope(b, "backward", "backward");
    // The scale of the loss enters where its gradient begins.
    int factor = build_binary_scalar(b, OP_MULTIPLY, s->control[CONTROL_SCALE], 2 / n / SCALING_PARTS);
    int dy = store_gradient(s, scaled_by(b, residual, factor), &s->flushed_y);
    int dh = store_gradient(s, product(b, dy, w[1], 1, 1, s->sum), &s->flushed_h);
    int dz = build_select(b, build_compare(b, CMP_GT, z, zeros), dh, zeros);
    s->exact = join(b, product(b, x, dz, 0, 0, s->sum), product(b, h, dy, 0, 0, s->sum));
    s->g = build_convert(b, s->exact, t);
}

// min(most / norm, 1), and what that leaves of the norm.
static int clip(struct step *s, int most, int *norm)
{
    int share = build_binary(s->b, OP_DIVIDE, most, *norm);
    share = build_binary(s->b, OP_MINIMUM, share, build_splat(s->b, SHAPE(s->sum), 1));
    *norm = build_binary(s->b, OP_MULTIPLY, *norm, share);
    return share;
}

// The weights that follow, and the updates.
static int next_weights(struct step *s, int g, int factor, int *move)
{
    struct builder *b = s->b;
    *move = build_binary_scalar(b, OP_MULTIPLY, scaled_by(b, g, factor), LEARNING_RATE);
    int next = build_binary(b, OP_SUBTRACT, build_convert(b, s->w, s->sum), *move);
    if (s->policy->quantisation == SCALING_CAST_ALONE) {
        int w[2];
        split(b, next, w);
        for (int i = 0; i < 2; i++)
            w[i] = fake_quantise(b, w[i], s->scales[i], s->control[CONTROL_QMAX]);
        next = join(b, w[0], w[1]);
    }
    return build_convert(b, next, s->policy->weights);
}

// Sums over the weights: of n vectors, preds or numbers. out: scalars.
static void sum_rows(struct step *s, const int *vectors, int n, int *out)
{
    struct builder *b = s->b;
    int rows[8];
    for (int i = 0; i < n; i++)
        rows[i] = build_reshape(b, build_convert(b, vectors[i], s->sum), 2, (int64_t[]){1, SCALING_WEIGHTS});
    int sums = build_reduce(b, OP_ADD, build_concatenate(b, rows, n, 0), (int[]){1}, 1);
    for (int i = 0; i < n; i++)
        out[i] = build_reshape(b, build_slice_axis(b, sums, 0, i, i + 1), 0, NULL);
}

static int step_module(struct module *m, struct arena *arena, const struct scaling_policy *policy, struct error *err)
{
    struct builder b;
    struct step s = {.b = &b, .policy = policy, .sum = sum_type(policy)};
    module_init(m, arena, "step");
    builder_init(&b, m);
    builder_scope(&b, "step", "step");
    parameters(&s);
    forward_and_backward(&s);
    builder_scope(&b, "update", "update");
    int g = build_convert(&b, s.g, s.sum), square, norm, move, counts[6];
    sum_rows(&s, (int[]){build_binary(&b, OP_MULTIPLY, g, g)}, 1, &square);
    norm = build_unary(&b, OP_SQRT, square);
    // Clip, take the scale out, clip: one of the bounds is infinite.
    int factor = clip(&s, s.control[CONTROL_CLIP_SCALED], &norm);
    factor = build_binary(&b, OP_MULTIPLY, factor, s.control[CONTROL_UNSCALE]);
    norm = build_binary(&b, OP_MULTIPLY, norm, s.control[CONTROL_UNSCALE]);
    factor = build_binary(&b, OP_MULTIPLY, factor, clip(&s, s.control[CONTROL_CLIP], &norm));
    int next = next_weights(&s, g, factor, &move);
    int moves = nonzero(&b, move), same = build_compare(&b, CMP_EQ, next, s.w);
    const int vectors[6] = {flushed(&b, s.exact, s.g), not_finite(&b, s.g),           moves,
                            both(&b, moves, same),     build_unary(&b, OP_NOT, same), not_finite(&b, next)};
    sum_rows(&s, vectors, 6, counts);
    int rows[STATS] = {s.loss, norm, s.flushed_y, s.flushed_h};
    memcpy(rows + STAT_FLUSHED + 2, counts, sizeof counts);
    for (int i = 0; i < STATS; i++)
        rows[i] = build_reshape(&b, rows[i], 1, (int64_t[]){1});
    build_result(&b, "w", next);
    build_result(&b, "stats", build_concatenate(&b, rows, STATS, 0));
    build_result(&b, "g", s.g);
    return builder_finish(&b, err);
}

// ---- programs, compiled once

int scaling_init(struct scaling_lab *lab, struct precision *p, uint64_t seed, struct error *err)
{
    memset(lab, 0, sizeof *lab);
    lab->p = p;
    return make_data(p, seed, &lab->data, err);
}

void scaling_release(struct scaling_lab *lab)
{
    struct error ignored = {0};
    for (size_t i = 0; i < lab->n_programs; i++) {
        worker_unload(lab->p->worker, lab->programs[i].executable.id, &ignored);
        worker_executable_release(&lab->programs[i].executable);
    }
    lab->n_programs = 0;
}

// Everything of a policy that the program depends on.
static void program_name(char *out, size_t capacity, const struct scaling_policy *policy, bool reference)
{
    static const char *const casts[] = {"", ", straight through", ", every step cast"};
    snprintf(out, capacity, "%s, %s weights%s%s", dtype_name(policy->type), dtype_name(policy->weights),
             casts[policy->quantisation], reference ? ", retyped to f64" : "");
}

static int build(struct module *out, struct arena *arena, const struct scaling_policy *policy, bool reference,
                 struct error *err)
{
    struct module m;
    if (!reference)
        return step_module(out, arena, policy, err);
    int rc = step_module(&m, arena, policy, err);
    module_init(out, arena, "step");
    return rc ? rc : module_retype_f64(&m, out, err);
}

// The arguments of a program are its parameters.
static int load(struct scaling_lab *lab, const struct scaling_policy *policy, bool reference,
                const struct worker_executable **out, struct error *err)
{
    char name[96];
    struct module m = {0};
    struct precision_array args[8] = {0};
    program_name(name, sizeof name, policy, reference);
    for (size_t i = 0; i < lab->n_programs; i++) {
        *out = &lab->programs[i].executable;
        if (strcmp(lab->programs[i].name, name) == 0)
            return 0;
    }
    if (lab->n_programs == SCALING_MAX_PROGRAMS)
        return error_set(err, ERR_INTERNAL, name, "more than %d programs", SCALING_MAX_PROGRAMS);
    int rc = build(&m, &lab->p->arena, policy, reference, err);
    for (int i = 0; !rc && i < m.n_parameters && i < 8; i++) {
        const struct shape *s = &m.instructions[m.parameters[i].instruction].shape;
        args[i] = (struct precision_array){.name = m.parameters[i].name, .type = s->dtype, .rank = s->rank};
        memcpy(args[i].dims, s->dims, (size_t)s->rank * sizeof *s->dims);
    }
    struct precision_execution e = {.name = name, .module = &m, .args = args, .n_args = (size_t)m.n_parameters};
    struct scaling_program *program = &lab->programs[lab->n_programs];
    if (!rc)
        rc = precision_load(lab->p, &e, &program->executable, err);
    if (rc)
        return rc;
    program->name = e.program->name;
    lab->n_programs++;
    *out = &program->executable;
    return 0;
}

// ---- the loop

enum { NONE = -1, X = 0, T, W, CONTROL, SCALES1, SCALES2, BUFFERS };

struct loop {
    struct scaling_lab *lab;
    struct worker *worker;
    const struct scaling_policy *policy;
    struct scaling_run *run;
    const struct worker_executable *step;
    enum dtype stats;     // type of the statistics
    int buffers[BUFFERS]; // NONE: no such buffer
    double scale;
    int good; // steps in a row
};

static void drop(struct loop *l, int *buffer)
{
    struct error ignored = {0};
    if (*buffer != NONE)
        worker_free(l->worker, *buffer, &ignored);
    *buffer = NONE;
}

static void drop_all(struct loop *l, int *buffers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        drop(l, &buffers[i]);
}

static int put(struct loop *l, int which, const struct precision_array *a, struct error *err)
{
    struct worker_tensor t = {.fd = -1, .shape = {.dtype = a->type, .rank = a->rank}, .name = a->name};
    memcpy(t.shape.dims, a->dims, sizeof t.shape.dims);
    drop(l, &l->buffers[which]);
    return worker_upload_bytes(l->worker, a->data, precision_bytes(a), &t, &l->buffers[which], NULL, err);
}

static int put_scale(struct loop *l, double scale, struct error *err)
{
    const struct scaling_policy *policy = l->policy;
    const double wide[CONTROLS] = {
        [CONTROL_SCALE] = scale,
        [CONTROL_UNSCALE] = 1 / scale,
        [CONTROL_CLIP_SCALED] = policy->clip > 0 && policy->clip_scaled ? policy->clip : INFINITY,
        [CONTROL_CLIP] = policy->clip > 0 && !policy->clip_scaled ? policy->clip : INFINITY,
        [CONTROL_QMAX] = policy->qmax,
    };
    float narrow[CONTROLS];
    for (int i = 0; i < CONTROLS; i++)
        narrow[i] = (float)wide[i];
    enum dtype t = sum_type(policy);
    struct precision_array a = {
        .name = "control", .type = t, .rank = 1, .dims = {CONTROLS}, .data = t == DT_F64 ? (const void *)wide : narrow};
    l->scale = scale;
    return put(l, CONTROL, &a, err);
}

// n f32 values as `t`, in the arena.
static const void *as_type(struct precision *p, enum dtype t, const float *values, size_t n, struct error *err)
{
    void *out = precision_alloc(p, n, (size_t)dtype_bits(t) / 8, err);
    return out && convert_elements(t, out, DT_F32, values, n, err) == 0 ? out : NULL;
}

// Uploads what the program starts from, and the scales of codes where there are some.
static int upload(struct loop *l, const float *start, const float *const scales[2], struct error *err)
{
    struct precision *p = l->lab->p;
    const struct scaling_data *d = &l->lab->data;
    enum dtype weights = l->policy->weights;
    const void *w = as_type(p, weights, start, SCALING_WEIGHTS, err);
    if (!w)
        return err->code;
    const struct precision_array data[BUFFERS] = {
        [X] = precision_matrix("x", DT_F32, SCALING_BATCH, SCALING_INPUTS, d->x),
        [T] = precision_matrix("t", DT_F32, SCALING_BATCH, SCALING_OUTPUTS, d->t),
        [W] = {.name = "w", .type = weights, .rank = 1, .dims = {SCALING_WEIGHTS}, .data = w},
        [SCALES1] = {.name = "scales1", .type = DT_F32, .rank = 1, .dims = {SCALING_HIDDEN}, .data = scales[0]},
        [SCALES2] = {.name = "scales2", .type = DT_F32, .rank = 1, .dims = {SCALING_OUTPUTS}, .data = scales[1]},
    };
    int rc = put_scale(l, l->policy->scale, err);
    for (int i = 0; i < BUFFERS && !rc; i++) {
        if (data[i].data)
            rc = put(l, i, &data[i], err);
    }
    return rc;
}

static int open_loop(struct loop *l, struct scaling_lab *lab, const struct scaling_policy *policy, bool reference,
                     const float *start, const float *const scales[2], struct error *err)
{
    *l = (struct loop){.lab = lab, .policy = policy, .stats = reference ? DT_F64 : sum_type(policy)};
    for (int i = 0; i < BUFFERS; i++)
        l->buffers[i] = NONE;
    int rc = load(lab, policy, reference, &l->step, err);
    l->worker = lab->p->worker;
    return rc ? rc : upload(l, start, scales, err);
}

// One run of the program; its outputs are to be dropped.
static int execute(struct loop *l, int outputs[OUTS], double stats[STATS], struct error *err)
{
    float narrow[STATS];
    bool wide = l->stats == DT_F64;
    size_t n_args = l->policy->quantisation == SCALING_CAST_ALONE ? BUFFERS : SCALES1;
    for (int i = 0; i < OUTS; i++)
        outputs[i] = NONE;
    int rc = worker_execute(l->worker, l->step->id, l->buffers, n_args, outputs, OUTS, NULL, err);
    if (!rc)
        rc = worker_download(l->worker, outputs[OUT_STATS], wide ? (void *)stats : narrow,
                             wide ? STATS * sizeof *stats : sizeof narrow, err);
    for (int i = 0; i < STATS && !rc && !wide; i++)
        stats[i] = (double)narrow[i];
    return rc;
}

static void note(struct scaling_run *run, size_t at, double scale, const double stats[STATS])
{
    run->loss[at] = stats[STAT_LOSS];
    run->scale[at] = scale;
    for (int i = 0; i < SCALING_TENSORS; i++)
        run->zeroed[at] += stats[STAT_FLUSHED + i] / SCALING_GRADIENTS;
}

// The weights that the program made become those of the next step.
static void apply(struct loop *l, int outputs[OUTS], const double stats[STATS])
{
    struct scaling_run *run = l->run;
    drop(l, &l->buffers[W]);
    l->buffers[W] = outputs[OUT_W];
    outputs[OUT_W] = NONE;
    run->largest_norm = fmax(run->largest_norm, stats[STAT_NORM] * SCALING_PARTS);
    run->updates += (int64_t)stats[STAT_UPDATES];
    run->lost_updates += (int64_t)stats[STAT_LOST];
    run->changed += (int64_t)stats[STAT_CHANGED];
    run->bad_weights = (int64_t)stats[STAT_BAD_WEIGHTS];
}

// What follows from a gradient that is finite, or not, for the scale.
static int adapt(struct loop *l, bool good, struct error *err)
{
    l->good = good ? l->good + 1 : 0;
    if (!good)
        return put_scale(l, l->scale / 2, err);
    if (l->good < SCALING_GROWTH)
        return 0;
    l->good = 0;
    l->run->grown++;
    return put_scale(l, l->scale * 2, err);
}

// The host decides whether a step counts, and the next scale. The state after the last step is evaluated, not changed.
static int one_step(struct loop *l, size_t at, struct error *err)
{
    struct scaling_run *run = l->run;
    double stats[STATS];
    int outputs[OUTS];
    int rc = execute(l, outputs, stats, err);
    if (!rc)
        note(run, at, l->scale, stats);
    if (!rc && at < run->steps) {
        bool good = stats[STAT_BAD] == 0;
        for (int i = 0; i < SCALING_TENSORS; i++)
            run->flushed[i] += (int64_t)stats[STAT_FLUSHED + i];
        if (good || l->policy->apply_all)
            apply(l, outputs, stats);
        else
            run->skipped++;
        if (l->policy->adapt)
            rc = adapt(l, good, err);
    }
    drop_all(l, outputs, OUTS);
    return rc;
}

// A vector of the weights' size, as doubles in the arena. NULL with err set.
static double *download(struct loop *l, int buffer, enum dtype t, struct error *err)
{
    size_t bytes = SCALING_WEIGHTS * (size_t)dtype_bits(t) / 8;
    void *stored = precision_alloc(l->lab->p, bytes, 1, err);
    double *out = precision_alloc(l->lab->p, SCALING_WEIGHTS, sizeof *out, err);
    if (!stored || !out || worker_download(l->worker, buffer, stored, bytes, err) ||
        convert_elements(DT_F64, out, t, stored, SCALING_WEIGHTS, err))
        return NULL;
    return out;
}

int scaling_train(struct scaling_lab *lab, const float *start, const float *const scales[2],
                  const struct scaling_policy *policy, size_t steps, struct scaling_run *out, struct error *err)
{
    *out = (struct scaling_run){.steps = steps};
    double **series[] = {&out->loss, &out->scale, &out->zeroed};
    for (int i = 0; i < 3; i++) {
        *series[i] = precision_alloc(lab->p, steps + 1, sizeof **series[i], err);
        if (!*series[i])
            return ERR_MEMORY;
    }
    struct loop l;
    int rc = open_loop(&l, lab, policy, false, start, scales, err);
    l.run = out;
    for (size_t at = 0; at <= steps && !rc; at++) {
        progress_report(lab->p->progress, policy->name, at, steps);
        rc = interrupt_check("training", err);
        if (!rc)
            rc = one_step(&l, at, err);
    }
    if (!rc && !(out->w = download(&l, l.buffers[W], policy->weights, err)))
        rc = err->code;
    drop_all(&l, l.buffers, BUFFERS);
    return rc;
}

int scaling_gradient(struct scaling_lab *lab, const float *weights, const struct scaling_policy *policy, bool reference,
                     struct scaling_gradient *out, struct error *err)
{
    static const float *const no_scales[2] = {NULL, NULL};
    struct loop l;
    double stats[STATS], *g = NULL;
    int outputs[OUTS] = {NONE, NONE, NONE};
    int rc = open_loop(&l, lab, policy, reference, weights, no_scales, err);
    if (!rc)
        rc = execute(&l, outputs, stats, err);
    if (!rc && !(g = download(&l, outputs[OUT_G], reference ? DT_F64 : policy->type, err)))
        rc = err->code;
    drop_all(&l, outputs, OUTS);
    drop_all(&l, l.buffers, BUFFERS);
    if (rc)
        return rc;
    for (size_t i = 0; i < SCALING_WEIGHTS; i++)
        g[i] *= SCALING_PARTS / policy->scale;
    *out = (struct scaling_gradient){.values = g, .loss = stats[STAT_LOSS], .bad = (int64_t)stats[STAT_BAD]};
    for (int i = 0; i < SCALING_TENSORS; i++)
        out->flushed[i] = (int64_t)stats[STAT_FLUSHED + i];
    return 0;
}
