// SPDX-License-Identifier: Apache-2.0
#include "lab/ranges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/sha256.h"

enum { STEPS = 16, PASSES = 3 };

// ---- texts

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static int add_texts(struct split *split, enum split_role role, const struct workload *w, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < w->n_texts && !rc; i++) {
        char name[300];
        const char *text = w->texts[i];
        size_t n = w->text_lengths[i];
        while (n && is_space(text[n - 1]))
            n--;
        for (; n && is_space(*text); n--)
            text++;
        snprintf(name, sizeof name, "%.250s:%zu", w->text_path, w->text_lines[i]);
        rc = split_add(split, role, name, text, n, err);
    }
    return rc;
}

static int add_cases(struct ranges *r, const struct workload *evaluated, struct error *err)
{
    int rc = exported_split(evaluated->program, &r->split, SPLIT_HELD_OUT, err);
    return rc ? rc : exported_split(r->workload.program, &r->split, SPLIT_CALIBRATE, err);
}

// Of the file with cases, which stands in the place of the one with texts.
static int note_file(struct workload *w, const char *path, struct error *err)
{
    struct file_map m;
    int rc = file_map_open(&m, path, err);
    if (rc)
        return rc;
    w->text_path = arena_strdup(&w->arena, path, err);
    w->text_bytes = m.size;
    rc = w->text_path ? sha256_map(&m, w->text_sha256, err) : ERR_MEMORY;
    file_map_close(&m);
    return rc;
}

static int open_cases(struct ranges *r, const struct workload *evaluated, const char *path, struct error *err)
{
    const struct exported_options *e = &evaluated->program->options;
    struct workload_options o = {.directory = evaluated->directory,
                                 .weights = e->weights,
                                 .weight_args = e->weight_args,
                                 .inputs = path,
                                 .seed = e->seed};
    int rc = workload_open(&r->workload, &o, err);
    if (rc)
        return rc;
    r->open = true;
    split_init(&r->split);
    rc = note_file(&r->workload, path, err);
    if (!rc)
        rc = add_cases(r, evaluated, err);
    if (rc)
        ranges_close(r);
    return rc;
}

int ranges_open(struct ranges *r, const struct workload *evaluated, const char *path, struct error *err)
{
    memset(r, 0, sizeof *r);
    if (evaluated->program)
        return open_cases(r, evaluated, path, err);
    if (strcmp(path, "-") == 0 && strcmp(evaluated->text_path, "-") == 0)
        return error_set(err, ERR_USAGE, "--calibrate", "standard input holds the texts of --text already");
    struct workload_options o = {
        .directory = evaluated->directory, .text_path = path, .batch = evaluated->batch, .seq = evaluated->seq};
    int rc = workload_open(&r->workload, &o, err);
    if (rc)
        return rc;
    r->open = true;
    split_init(&r->split);
    rc = add_texts(&r->split, SPLIT_HELD_OUT, evaluated, err);
    if (!rc)
        rc = add_texts(&r->split, SPLIT_CALIBRATE, &r->workload, err);
    if (rc)
        ranges_close(r);
    return rc;
}

void ranges_close(struct ranges *r)
{
    if (r->open) {
        workload_close(&r->workload);
        split_release(&r->split);
    }
    r->open = false;
}

// ---- runs

// Result 0 of the program for every batch, given to `add`.
static int run_batches(struct ranges *r, struct subject *s, const char *stage, void *raw,
                       void (*add)(struct ranges *r, const void *raw, void *to), void *to,
                       const struct progress *progress, struct error *err)
{
    int rc = 0;
    for (size_t b = 0; b < r->workload.n_batches && !rc; b++) {
        progress_report(progress, stage, b, r->workload.n_batches);
        rc = interrupt_check("calibrating", err);
        if (!rc)
            rc = subject_set_real_batch(s, &r->workload, b, err);
        if (!rc)
            rc = subject_run(s, raw, NULL, err);
        if (!rc)
            add(r, raw, to);
    }
    return rc;
}

static int open_program(struct subject *s, const struct ranges *r, const struct module *f32, int steps,
                        const struct worker_options *worker, struct arena *a, struct error *err)
{
    struct module m;
    memset(s, 0, sizeof *s);
    module_init(&m, a, "calibration");
    int rc = module_calibration(f32, steps, &m, err);
    return rc ? rc : subject_open_bound(s, &r->workload, &m, "calibration", worker, err);
}

static void add_extremes(struct ranges *r, const void *raw, void *to)
{
    const float *pair = raw;
    (void)to;
    for (int i = 0; i < r->n; i++, pair += 2) { // NaN stays, and so is seen
        struct activation_range *e = &r->extremes[i];
        e->low = isnan(pair[0]) || pair[0] < e->low ? pair[0] : e->low;
        e->high = isnan(pair[1]) || pair[1] > e->high ? pair[1] : e->high;
    }
}

static int measure_extremes(struct ranges *r, const struct module *f32, const struct worker_options *worker,
                            const struct progress *progress, struct arena *a, struct error *err)
{
    struct subject s;
    size_t bytes = (size_t)r->n * 2 * sizeof(float);
    void *raw = arena_alloc(a, bytes, 1, err);
    int rc = raw ? open_program(&s, r, f32, 0, worker, a, err) : ERR_MEMORY;
    if (!raw)
        return rc;
    if (!rc)
        rc = run_batches(r, &s, "calibrate", raw, add_extremes, NULL, progress, err);
    if (!rc && r->trace)
        rc = capture_subject(r->trace, &s, err);
    subject_close(&s);
    for (int i = 0; i < r->n && !rc; i++) {
        if (!isfinite(r->extremes[i].low) || !isfinite(r->extremes[i].high))
            rc = error_set(err, ERR_INPUT, r->activations[i].scope,
                           "its activations on %s are not finite: no scale holds them", r->workload.text_path);
    }
    return rc;
}

// ---- the share of the magnitudes

// Where the end of a range is looked for: more than the allowed number of values are beyond `inside`, not more beyond
// `outside`.
struct bracket {
    double inside, outside;
};

struct search {
    struct bracket (*side)[2]; // of each activation: above and below; symmetric: both the same
    float *thresholds;         // [n, 2, STEPS]
    int64_t *beyond;           // the same
};

static void add_beyond(struct ranges *r, const void *raw, void *to)
{
    const int32_t *counts = raw;
    int64_t *beyond = to;
    for (size_t i = 0; i < (size_t)r->n * 2 * STEPS; i++)
        beyond[i] += counts[i];
}

static double threshold(const struct bracket *b, int k)
{
    return b->inside + (b->outside - b->inside) * (k + 1) / (STEPS + 1);
}

static void narrow_bracket(struct bracket *b, const int64_t *beyond, const int64_t *and_beyond, double allowed)
{
    struct bracket old = *b;
    int k = 0;
    while (k < STEPS && (double)(beyond[k] + (and_beyond ? and_beyond[k] : 0)) > allowed)
        k++;
    b->outside = k < STEPS ? threshold(&old, k) : old.outside;
    b->inside = k ? threshold(&old, k - 1) : old.inside;
}

static int one_pass(struct ranges *r, struct subject *s, struct search *at, const struct policy *p, void *raw,
                    const struct progress *progress, struct error *err)
{
    size_t cells = (size_t)r->n * 2 * STEPS;
    bool affine = policy_is_affine(p);
    double outside = (100 - p->a_percentile) / 100; // at either end when affine
    for (int i = 0; i < r->n; i++)
        for (int side = 0; side < 2; side++)
            for (int k = 0; k < STEPS; k++)
                at->thresholds[(i * 2 + side) * STEPS + k] = (float)threshold(&at->side[i][side], k);
    memset(at->beyond, 0, cells * sizeof *at->beyond);
    int rc = subject_set_thresholds(s, at->thresholds, err);
    if (!rc)
        rc = run_batches(r, s, "calibrate a percentile", raw, add_beyond, at->beyond, progress, err);
    for (int i = 0; i < r->n && !rc; i++) {
        const int64_t *above = at->beyond + (size_t)i * 2 * STEPS, *below = above + STEPS;
        double allowed = outside * (double)r->elements[i];
        narrow_bracket(&at->side[i][0], above, affine ? NULL : below, allowed);
        if (affine)
            narrow_bracket(&at->side[i][1], below, NULL, allowed);
        else
            at->side[i][1] = at->side[i][0];
    }
    return rc;
}

static int measure_percentile(struct ranges *r, const struct module *f32, const struct worker_options *worker,
                              struct policy *p, const struct progress *progress, struct arena *a, struct error *err)
{
    struct subject s;
    struct search at = {.side = arena_alloc(a, (size_t)r->n, sizeof *at.side, err),
                        .thresholds = arena_new(a, float, (size_t)r->n * 2 * STEPS, err),
                        .beyond = arena_new(a, int64_t, (size_t)r->n * 2 * STEPS, err)};
    void *raw = arena_new(a, int32_t, (size_t)r->n * 2 * STEPS, err);
    struct activation_range *found = arena_new(a, struct activation_range, r->n, err);
    if (!at.side || !at.thresholds || !at.beyond || !raw || !found)
        return ERR_MEMORY;
    for (int i = 0; i < r->n; i++) {
        double high = (double)r->extremes[i].high, low = -(double)r->extremes[i].low;
        double most = fmax(high, low);
        at.side[i][0].outside = policy_is_affine(p) ? high : most;
        at.side[i][1].outside = policy_is_affine(p) ? low : most;
    }
    int rc = open_program(&s, r, f32, STEPS, worker, a, err);
    for (int pass = 0; pass < PASSES && !rc; pass++)
        rc = one_pass(r, &s, &at, p, raw, progress, err);
    subject_close(&s);
    for (int i = 0; i < r->n && !rc; i++)
        found[i] = (struct activation_range){-(float)at.side[i][1].outside, (float)at.side[i][0].outside};
    p->ranges = found;
    p->n_ranges = r->n;
    return rc;
}

static int count_elements(struct ranges *r, const struct module *f32, struct arena *a, struct error *err)
{
    const struct workload *w = &r->workload;
    r->n = module_activations(f32, NULL, 0);
    r->activations = arena_new(a, struct activation, r->n, err);
    r->extremes = arena_new(a, struct activation_range, r->n, err);
    r->elements = arena_new(a, int64_t, r->n, err);
    if (!r->activations || !r->extremes || !r->elements)
        return ERR_MEMORY;
    module_activations(f32, r->activations, r->n);
    for (int i = 0; i < r->n; i++) {
        const struct activation *x = &r->activations[i];
        int64_t tokens = w->program ? exported_mask_rows(w->program, w->program->n_cases) : (int64_t)w->n_tokens;
        int64_t rows = x->masked ? tokens : x->rows * (int64_t)w->n_batches;
        r->elements[i] = rows * x->columns;
    }
    return 0;
}

// The ranges that an earlier policy asked for in the same way.
static bool reuse(struct policy *const *policies, size_t i)
{
    struct policy *p = policies[i];
    for (size_t k = 0; k < i; k++) {
        const struct policy *other = policies[k];
        if (!other->ranges || other->a_percentile != p->a_percentile || policy_is_affine(other) != policy_is_affine(p))
            continue;
        p->ranges = other->ranges;
        p->n_ranges = other->n_ranges;
        return true;
    }
    return false;
}

int ranges_measure(struct ranges *r, const struct module *f32, const struct worker_options *worker,
                   struct policy *const *policies, size_t n_policies, const struct progress *progress, struct arena *a,
                   struct error *err)
{
    uint64_t start = clock_ns();
    int rc = count_elements(r, f32, a, err);
    if (!rc)
        rc = measure_extremes(r, f32, worker, progress, a, err);
    for (size_t i = 0; i < n_policies && !rc; i++) {
        struct policy *p = policies[i];
        if (!p->a_static || reuse(policies, i))
            continue;
        if (p->a_percentile < 100) {
            rc = measure_percentile(r, f32, worker, p, progress, a, err);
            continue;
        }
        p->ranges = r->extremes;
        p->n_ranges = r->n;
    }
    r->ns = clock_ns() - start;
    return rc;
}
