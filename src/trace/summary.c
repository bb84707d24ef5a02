// SPDX-License-Identifier: Apache-2.0
#include "trace/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/stats.h"
#include "trace/ops_view.h"

// ---- What is in it

static int count_file(struct trace_summary *s, struct trace_file *f)
{
    for (size_t i = 0; i < f->space.n_planes; i++) {
        struct xplane *p = &f->space.planes[i];
        s->n_lines += p->n_lines;
        for (size_t k = 0; k < p->n_lines; k++) {
            const struct xline *l = &p->lines[k];
            struct pb_reader r = pb_reader(l->events.data, l->walked ? 0 : l->events.size);
            struct pb_field field;
            s->events += l->n_events;
            while (pb_next(&r, &field))
                s->events += pb_is(&field, 4, PB_BYTES);
        }
    }
    s->n_planes += f->space.n_planes;
    return 0;
}

static int count_guarded(struct trace_summary *s, struct trace_file *f, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    int rc = count_file(s, f);
    file_guard_end(&g);
    return rc;
}

// A device with one line has been walked over for its operations; one without a clock of its own for its steps.
static bool is_known(struct trace_summary_device *d, const struct trace_ops *o)
{
    struct tally_ids ids;
    tally_ids(&ids, d->device->plane, NULL);
    if (d->device->kind == TRACE_HOST || !ids.device_offset)
        return true;
    for (size_t i = 0; i < o->n_lines && d->device->n_lines == 1; i++) {
        const struct trace_ops_line *l = &o->lines[i];
        if (l->device->plane != d->device->plane)
            continue;
        d->busy = (struct busy){l->first_ps, l->last_ps, l->union_ps, l->events};
        return true;
    }
    return false;
}

static int find_guarded(struct trace_summary_device *d, const struct trace_ops *o, int64_t origin_ns, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &d->device->file->map))
        return file_guard_error(&g, err);
    int rc = is_known(d, o) ? 0 : trace_device_busy(d->device, origin_ns, CLOCK_OF_DEVICE, &d->busy, err);
    file_guard_end(&g);
    return rc;
}

static int find_busy(struct trace *t, struct trace_summary *s, struct error *err)
{
    const struct trace_devices *all = &s->steps.modules.devices;
    double busy = 0, span = 0;
    int rc = 0;
    s->devices = arena_new(&s->steps.modules.arena, struct trace_summary_device, all->n, err);
    if (!s->devices)
        return ERR_MEMORY;
    s->n_devices = all->n;
    for (size_t i = 0; i < all->n && !rc; i++) {
        struct trace_summary_device *d = &s->devices[i];
        d->device = &all->items[i];
        d->busy = s->steps.of_device[i].busy; // a host's, without its markers
        rc = find_guarded(d, &s->ops, trace_origin_ns(t), err);
        double here = (double)d->busy.last_ps - (double)d->busy.first_ps;
        d->duty = d->busy.spans && here > 0 ? (double)d->busy.busy_ps / here : NAN;
        if (d->busy.spans) {
            busy += (double)d->busy.busy_ps;
            span += here;
        }
    }
    s->duty = span > 0 ? busy / span : NAN;
    return rc;
}

// ---- Warnings

static int warn(struct trace_summary *s, const char *text, struct error *err)
{
    struct arena *a = &s->steps.modules.arena;
    const char **more =
        text ? arena_grow(a, s->warnings, &s->cap_warnings, s->n_warnings + 1, sizeof *more, err) : NULL;
    if (!more)
        return ERR_MEMORY;
    s->warnings = more;
    s->warnings[s->n_warnings++] = text;
    return 0;
}

static int warn_texts(struct trace_summary *s, const struct trace_file *f, const struct slice *texts, size_t n,
                      const char *kind, struct error *err)
{
    struct arena *a = &s->steps.modules.arena;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        size_t size = texts[i].size < 1000 ? texts[i].size : 1000;
        rc = warn(
            s,
            arena_printf(a, err, "%s: %s of the capture: %.*s", f->host, kind, (int)size, (const char *)texts[i].data),
            err);
    }
    return rc;
}

static int find_warnings(const struct trace *t, struct trace_summary *s, struct error *err)
{
    struct arena *a = &s->steps.modules.arena;
    size_t silent = 0, out_of_range = 0;
    int rc = 0;
    for (size_t i = 0; i < t->n_files && !rc; i++) {
        const struct xspace *x = &t->files[i].space;
        rc = warn_texts(s, &t->files[i], x->errors, x->n_errors, "error", err);
        if (!rc)
            rc = warn_texts(s, &t->files[i], x->warnings, x->n_warnings, "warning", err);
        if (!rc && x->damage.what)
            rc = warn(s,
                      arena_printf(a, err, "%s: damaged at offset %" PRIu64 " (%s): %s", t->files[i].path,
                                   x->damage.offset, x->damage.where, x->damage.what),
                      err);
    }
    for (size_t i = 0; i < s->n_devices; i++)
        silent += !s->devices[i].busy.spans;
    for (size_t i = 0; i < s->ops.n_lines; i++)
        out_of_range += s->ops.lines[i].out_of_range;
    if (!rc && silent == s->n_devices)
        rc = warn(
            s,
            "no device ran anything in this profile, which does not mean that devices did nothing: the capture was "
            "too long, or the device's tracer was off or did not fit the runtime",
            err);
    else if (!rc && silent)
        rc = warn(s, arena_printf(a, err, "%zu of %zu devices ran nothing", silent, s->n_devices), err);
    if (!rc && out_of_range)
        rc = warn(s,
                  arena_printf(a, err, "%zu event%s impossible times and %s left out", out_of_range,
                               out_of_range == 1 ? " has" : "s have", out_of_range == 1 ? "is" : "are"),
                  err);
    if (!rc && s->steps.n && s->steps.rule >= RULE_PROGRAM)
        rc = warn(s, "no event marks a step: steps are inferred from programs", err);
    return rc;
}

// ---- What to try next

static int advise(struct trace_summary *s, struct trace_advice row, struct error *err)
{
    struct arena *a = &s->steps.modules.arena;
    struct trace_advice *more =
        row.evidence ? arena_grow(a, s->advice, &s->cap_advice, s->n_advice + 1, sizeof *more, err) : NULL;
    if (!more)
        return ERR_MEMORY;
    s->advice = more;
    s->advice[s->n_advice++] = row;
    return 0;
}

// Shares from which a row is worth an experiment.
#define IDLE_SHARE       0.1
#define TIME_SHARE       0.3
#define COLLECTIVE_SHARE 0.1

struct shares {
    double idle, host, input; // of the devices' spans
    double collective;        // of their busy time
    double compute, memory;   // of self time: operations bound by them
    double again;             // of self time: computed again
};

static void find_shares(const struct trace_summary *s, struct shares *h)
{
    double span = 0, busy = 0;
    memset(h, 0, sizeof *h);
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct trace_idle *d = &s->steps.of_device[i];
        if (!d->busy.spans)
            continue;
        span += (double)d->busy.last_ps - (double)d->busy.first_ps;
        busy += (double)d->busy.busy_ps;
        h->collective += (double)d->collective_ps;
        for (int place = PLACE_INSIDE; place <= PLACE_BETWEEN; place++) {
            for (int fill = 0; fill < FILLS; fill++) {
                double ps = (double)d->idle_ps[place][fill];
                h->idle += ps;
                h->input += fill == FILL_INPUT ? ps : 0;
                h->host += fill != FILL_INPUT && fill != FILL_NOTHING ? ps : 0;
            }
        }
    }
    h->idle = span > 0 ? h->idle / span : 0;
    h->input = span > 0 ? h->input / span : 0;
    h->host = span > 0 ? h->host / span : 0;
    h->collective = busy > 0 ? h->collective / busy : 0;
    for (size_t i = 0; i < s->ops.n_rows; i++) {
        const struct trace_op *op = &s->ops.rows[i];
        struct trace_ops_rates r;
        trace_ops_rate(&s->ops, op, &r);
        if (isnan(r.share))
            continue;
        if (r.bound && strcmp(r.bound, "compute") == 0)
            h->compute += r.share;
        else if (r.bound || slice_contains(op->category, "copy") || slice_contains(op->name, "copyBuffer") ||
                 slice_contains(op->name, "Memcpy"))
            h->memory += r.share;
        if (slice_contains(op->name, ".remat") || slice_contains(op->scope, "rematted_computation"))
            h->again += r.share;
    }
}

static int find_advice(struct trace_summary *s, struct error *err)
{
    struct arena *a = &s->steps.modules.arena;
    struct shares h;
    int rc = 0;
    find_shares(s, &h);
    if (h.idle >= IDLE_SHARE)
        rc = advise(s,
                    (struct trace_advice){
                        "devices wait between operations",
                        arena_printf(a, err,
                                     "idle for %.1f %% of their time: hosts moved or made input for %.1f %%, "
                                     "did other work for %.1f %%",
                                     100 * h.idle, 100 * h.input, 100 * h.host),
                        "input or dispatch does not keep up",
                        "run the same steps on batches that already lie on the device, and time the loader by "
                        "itself"},
                    err);
    if (!rc && s->steps.compiling_ps > 0)
        rc = advise(
            s,
            (struct trace_advice){"programs are compiled while steps run",
                                  arena_printf(a, err, "%.3g ms of compilation between the first step and the last",
                                               (double)s->steps.compiling_ps / 1e9),
                                  "shapes, static arguments or functions change from step to step",
                                  "hold one of them fixed at a time, and see in the log of compilations which one "
                                  "ends them"},
            err);
    if (!rc && h.compute >= TIME_SHARE)
        rc = advise(
            s,
            (struct trace_advice){"much time in operations that need more FLOP than bytes",
                                  arena_printf(a, err, "%.1f %% of the self time is bound by compute", 100 * h.compute),
                                  "arithmetic is the limit there",
                                  "run a precision that the device computes faster, and check the quality beside it"},
            err);
    if (!rc && h.memory >= TIME_SHARE)
        rc = advise(s,
                    (struct trace_advice){
                        "much time goes to moving data",
                        arena_printf(a, err, "%.1f %% of the self time is in copies or in operations bound by memory",
                                     100 * h.memory),
                        "memory traffic or launches are the limit",
                        "change the batch size alone, within what latency and memory allow"},
                    err);
    double skew = s->steps.skew_p50_ps / s->steps.p50_ps;
    bool apart = skew >= 0.05;
    if (!rc && (h.collective >= COLLECTIVE_SHARE || apart))
        rc = advise(s,
                    (struct trace_advice){
                        h.collective >= COLLECTIVE_SHARE ? "long collectives" : "devices start the same step apart",
                        arena_printf(a, err,
                                     "collectives are %.1f %% of the busy time; devices start a step "
                                     "within %.1f %% of its length",
                                     100 * h.collective, isnan(skew) ? 0 : 100 * skew),
                        "communication takes long, or one device or host comes late",
                        "look at the profiles of all hosts, at the topology and at when data arrives; "
                        "then change one axis of the mesh"},
                    err);
    if (!rc && h.again > 0)
        rc = advise(s,
                    (struct trace_advice){
                        "values are computed again to save memory",
                        arena_printf(a, err, "%.1f %% of the self time", 100 * h.again), "memory is bought with work",
                        "compare peak memory and time of a step with and without it, at the same shape"},
                    err);
    return rc;
}

int trace_summary(struct trace *t, struct threads *threads, struct trace_summary *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    int rc = trace_steps(t, NULL, threads, &out->ops, &out->steps, err);
    for (size_t i = 0; i < t->n_files && !rc; i++)
        rc = count_guarded(out, &t->files[i], err);
    if (!rc)
        rc = find_busy(t, out, err);
    if (!rc)
        rc = find_warnings(t, out, err);
    return rc ? rc : find_advice(out, err);
}

void trace_summary_release(struct trace_summary *s)
{
    trace_ops_release(&s->ops);
    trace_steps_release(&s->steps);
    memset(s, 0, sizeof *s);
}

void trace_summary_against(const struct trace_summary *s, struct trace_against *a)
{
    double busy = 0;
    for (size_t i = 0; i < s->steps.n; i++)
        busy += (double)s->steps.items[i].busy_ps;
    a->busy_share = s->steps.n ? busy / (double)s->steps.n / a->latency_ps : NAN;
    a->inflation = s->steps.p50_ps / a->latency_ps;
}
