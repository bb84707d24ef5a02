// SPDX-License-Identifier: Apache-2.0
#include "trace/diff_steps.h"

#include <math.h>
#include <stdlib.h>

#include "trace/steps_view.h"

const char *diff_measure_name(enum diff_measure m)
{
    static const char *const names[] = {"duration", "busy", "idle", "collective", "host", "input"};
    return names[m];
}

double diff_step_change_ps(const struct diff_step *s)
{
    return s->in_a && s->in_b ? (double)s->b_ps[DIFF_DURATION] - (double)s->a_ps[DIFF_DURATION] : NAN;
}

// ---- Steps of both sides, one after the other

struct entry {
    struct diff_step step; // of one side
    int64_t start_ps;
    size_t again; // so many of its number on its device came before it
};

static int by_index(const struct diff_step *x, const struct diff_step *y)
{
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int by_side(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = by_index(&x->step, &y->step);
    if (!c)
        c = (int)x->step.in_b - (int)y->step.in_b;
    return c ? c : (x->start_ps > y->start_ps) - (x->start_ps < y->start_ps);
}

static int by_number(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = by_index(&x->step, &y->step);
    if (!c)
        c = (x->again > y->again) - (x->again < y->again);
    return c ? c : (int)x->step.in_b - (int)y->step.in_b;
}

static bool any_complete(const struct trace_steps *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->items[i].complete)
            return true;
    }
    return false;
}

static void measures(const struct trace_step *s, int64_t *out)
{
    out[DIFF_DURATION] = s->duration_ps;
    out[DIFF_BUSY] = s->busy_ps;
    out[DIFF_IDLE] = s->idle_ps;
    out[DIFF_COLLECTIVE] = s->collective_ps;
    out[DIFF_HOST] = s->host_ps;
    out[DIFF_INPUT] = s->input_ps;
}

// Devices are few: each is looked for among those that are known.
static int find_device(struct diff_steps *d, const struct trace *t, const struct trace_device *device, size_t *out,
                       struct arena *arena, struct error *err)
{
    size_t file = (size_t)(device->file - t->files);
    for (*out = 0; *out < d->n_devices; ++*out) {
        if (d->devices[*out].file == file && slice_equal(d->devices[*out].name, device->name))
            return 0;
    }
    d->devices[d->n_devices++] = (struct diff_device){.file = file, .name = device->name};
    return slice_copy(arena, &d->devices[*out].name, err);
}

static int add_steps(struct diff_steps *d, const struct trace *t, const struct trace_steps *s, bool second,
                     struct entry *entries, size_t *n, struct arena *arena, struct error *err)
{
    bool complete = any_complete(s);
    size_t known = SIZE_MAX, device = 0;
    int rc = 0;
    for (size_t i = 0; i < s->n && !rc; i++) {
        const struct trace_step *step = &s->items[i];
        if (step->complete < complete)
            continue;
        if (step->device != known)
            rc = find_device(d, t, &s->modules.devices.items[step->device], &device, arena, err);
        known = step->device;
        struct entry e = {{.device = device, .index = step->index, .in_a = !second, .in_b = second}, step->start_ps, 0};
        measures(step, second ? e.step.b_ps : e.step.a_ps);
        entries[(*n)++] = e;
        for (int m = 0; m < DIFF_MEASURES && !rc; m++) {
            struct diff_side one = diff_side_of(second ? e.step.b_ps[m] : e.step.a_ps[m]);
            diff_side_add(second ? &d->devices[device].b[m] : &d->devices[device].a[m], &one);
        }
    }
    return rc;
}

// ---- Pairs

static void match(struct diff_steps *d, struct entry *entries, size_t n)
{
    if (n)
        qsort(entries, n, sizeof *entries, by_side);
    for (size_t i = 1; i < n; i++) {
        const struct diff_step *last = &entries[i - 1].step, *step = &entries[i].step;
        bool same = last->device == step->device && last->index == step->index && last->in_b == step->in_b;
        entries[i].again = same ? entries[i - 1].again + 1 : 0;
    }
    if (n)
        qsort(entries, n, sizeof *entries, by_number);
    for (size_t i = 0; i < n; i++) {
        struct diff_step *into = d->n_steps ? &d->steps[d->n_steps - 1] : NULL;
        const struct diff_step *step = &entries[i].step;
        bool second = i && step->in_b && into && !into->in_b && into->device == step->device &&
                      into->index == step->index && entries[i - 1].again == entries[i].again;
        if (!second) {
            d->steps[d->n_steps++] = *step;
            continue;
        }
        into->in_b = true;
        for (int m = 0; m < DIFF_MEASURES; m++)
            into->b_ps[m] = step->b_ps[m];
        struct diff_side one = diff_side_of(into->b_ps[DIFF_DURATION] - into->a_ps[DIFF_DURATION]);
        diff_side_add(&d->devices[step->device].matched, &one);
        d->n_matched++;
    }
    for (size_t i = 0; i < d->n_steps; i++) {
        d->only_a += !d->steps[i].in_b;
        d->only_b += !d->steps[i].in_a;
    }
}

static int by_change(const void *a, const void *b)
{
    const struct diff_step *x = a, *y = b;
    double p = fabs(diff_step_change_ps(x)), q = fabs(diff_step_change_ps(y));
    if (isnan(p) != isnan(q))
        return isnan(p) ? 1 : -1;
    return !isnan(p) && p != q ? (p < q ? 1 : -1) : by_index(x, y);
}

// ---- In all

// Devices take their steps together, so what is uncertain of one is of all: widths add up, not their squares.
static void judge(struct diff_steps *d, double tolerance)
{
    double before = 0, change = 0, half = 0, matched_before = 0, matched_change = 0, matched_half = 0;
    for (size_t i = 0; i < d->n_devices; i++) {
        const struct diff_device *x = &d->devices[i];
        const struct diff_side *a = &x->a[DIFF_DURATION], *b = &x->b[DIFF_DURATION];
        if (!a->count || !b->count)
            continue;
        struct diff_interval r = diff_means(a, b);
        before += (double)a->sum_ps;
        change += (double)a->count * (diff_mean(b) - diff_mean(a));
        half += (double)a->count * (r.high - r.low) / 2;
        if (!x->matched.count)
            continue;
        r = diff_mean_range(&x->matched);
        matched_change += (double)x->matched.sum_ps;
        matched_half += (double)x->matched.count * (r.high - r.low) / 2;
    }
    for (size_t i = 0; i < d->n_steps; i++)
        matched_before += d->steps[i].in_a && d->steps[i].in_b ? (double)d->steps[i].a_ps[DIFF_DURATION] : 0;
    bool any = before > 0, pairs = matched_before > 0;
    d->slower = any ? change / before : NAN;
    d->range = (struct diff_interval){any ? (change - half) / before : NAN, any ? (change + half) / before : NAN};
    d->matched_slower = pairs ? matched_change / matched_before : NAN;
    d->matched_range = (struct diff_interval){pairs ? (matched_change - matched_half) / matched_before : NAN,
                                              pairs ? (matched_change + matched_half) / matched_before : NAN};
    d->verdict = d->comparable ? diff_judge(&d->range, tolerance) : TRACE_DIFF_UNCLEAR;
}

static int source_of(struct diff_steps_source *out, const struct trace_steps *s, struct arena *arena, struct error *err)
{
    *out = (struct diff_steps_source){s->rule, s->program};
    return slice_copy(arena, &out->program, err);
}

static bool same_source(const struct diff_steps_source *a, const struct diff_steps_source *b)
{
    if (a->rule == RULE_NONE || b->rule == RULE_NONE)
        return false;
    if (a->rule >= RULE_PROGRAM && b->rule >= RULE_PROGRAM)
        return slice_equal(a->program, b->program);
    return a->rule == b->rule;
}

int diff_steps_make(struct diff_steps *d, const struct trace *ta, const struct trace_steps *a, const struct trace *tb,
                    const struct trace_steps *b, double tolerance, struct arena *arena, struct error *err)
{
    struct arena scratch;
    size_t n = 0;
    *d = (struct diff_steps){0};
    arena_init(&scratch);
    struct entry *entries = arena_new(&scratch, struct entry, a->n + b->n, err);
    d->devices = arena_new(arena, struct diff_device, a->modules.devices.n + b->modules.devices.n, err);
    d->steps = arena_new(arena, struct diff_step, a->n + b->n, err);
    int rc = entries && d->devices && d->steps ? 0 : ERR_MEMORY;
    if (!rc)
        rc = source_of(&d->a, a, arena, err);
    if (!rc)
        rc = source_of(&d->b, b, arena, err);
    if (!rc)
        rc = add_steps(d, ta, a, false, entries, &n, arena, err);
    if (!rc)
        rc = add_steps(d, tb, b, true, entries, &n, arena, err);
    if (!rc) {
        d->comparable = same_source(&d->a, &d->b);
        match(d, entries, n);
        judge(d, tolerance);
        if (d->n_steps)
            qsort(d->steps, d->n_steps, sizeof *d->steps, by_change);
    }
    arena_release(&scratch);
    return rc;
}

// ---- JSON

static void source_json(struct jw *w, const char *key, const struct diff_steps_source *s)
{
    jw_key(w, key);
    jw_object(w);
    jw_kv_string(w, "rule", trace_rule_text(s->rule));
    trace_text_json(w, "program", s->program);
    jw_object_end(w);
}

static void device_json(struct jw *w, const struct diff_device *x)
{
    struct diff_interval matched = diff_mean_range(&x->matched);
    jw_object(w);
    trace_text_json(w, "device", x->name);
    jw_kv_uint(w, "file", x->file);
    for (int m = 0; m < DIFF_MEASURES; m++) {
        struct diff_interval r = diff_means(&x->a[m], &x->b[m]);
        jw_key(w, diff_measure_name((enum diff_measure)m));
        jw_object(w);
        diff_side_json(w, "a", &x->a[m], true);
        diff_side_json(w, "b", &x->b[m], true);
        jw_kv_double(w, "mean_change_ps", diff_mean(&x->b[m]) - diff_mean(&x->a[m]));
        diff_interval_json(w, "mean_change_range_ps", &r);
        jw_object_end(w);
    }
    jw_kv_uint(w, "matched", x->matched.count);
    jw_kv_double(w, "matched_change_ps", diff_mean(&x->matched));
    diff_interval_json(w, "matched_change_range_ps", &matched);
    jw_object_end(w);
}

static void measures_json(struct jw *w, const char *key, bool there, const int64_t *ps)
{
    jw_key(w, key);
    if (!there) {
        jw_null(w);
        return;
    }
    jw_object(w);
    for (int m = 0; m < DIFF_MEASURES; m++) {
        char name[32];
        snprintf(name, sizeof name, "%s_ps", diff_measure_name((enum diff_measure)m));
        jw_kv_int(w, name, ps[m]);
    }
    jw_object_end(w);
}

void diff_steps_json(const struct diff_steps *d, size_t top, struct jw *w)
{
    jw_object(w);
    source_json(w, "a", &d->a);
    source_json(w, "b", &d->b);
    jw_kv_bool(w, "comparable", d->comparable);
    jw_kv_string(w, "verdict", diff_verdict_name(d->verdict));
    jw_kv_double(w, "slower", d->slower);
    diff_interval_json(w, "slower_range", &d->range);
    jw_kv_double(w, "matched_slower", d->matched_slower);
    diff_interval_json(w, "matched_slower_range", &d->matched_range);
    jw_kv_uint(w, "matched", d->n_matched);
    jw_kv_uint(w, "only_a", d->only_a);
    jw_kv_uint(w, "only_b", d->only_b);
    jw_key(w, "devices");
    jw_array(w);
    for (size_t i = 0; i < d->n_devices; i++)
        device_json(w, &d->devices[i]);
    jw_array_end(w);
    jw_key(w, "steps");
    jw_array(w);
    for (size_t i = 0; i < d->n_steps && (!top || i < top); i++) {
        const struct diff_step *s = &d->steps[i];
        jw_object(w);
        trace_text_json(w, "device", d->devices[s->device].name);
        jw_kv_uint(w, "file", d->devices[s->device].file);
        jw_kv_int(w, "index", s->index);
        measures_json(w, "a", s->in_a, s->a_ps);
        measures_json(w, "b", s->in_b, s->b_ps);
        if (s->in_a && s->in_b)
            jw_kv_int(w, "change_ps", s->b_ps[DIFF_DURATION] - s->a_ps[DIFF_DURATION]);
        else
            jw_kv_double(w, "change_ps", NAN);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}
