// SPDX-License-Identifier: Apache-2.0
#include "trace/ops_view.h"
#include "trace/steps_view.h"
#include "trace/summary.h"

static void idle_json(struct jw *w, const struct trace_idle *d)
{
    jw_key(w, "idle");
    jw_array(w);
    for (int place = 0; place < PLACES; place++) {
        for (int fill = 0; fill < FILLS; fill++) {
            if (!d->idle_ps[place][fill])
                continue;
            jw_object(w);
            jw_kv_string(w, "place", trace_place_name((enum trace_place)place));
            jw_kv_string(w, "filled_by", trace_fill_name((enum trace_fill)fill));
            jw_kv_int(w, "ps", d->idle_ps[place][fill]);
            jw_object_end(w);
        }
    }
    jw_array_end(w);
}

static void device_json(struct jw *w, const struct trace_summary *s, size_t i)
{
    const struct trace_summary_device *d = &s->devices[i];
    jw_object(w);
    trace_text_json(w, "name", d->device->name);
    jw_kv_string(w, "host", d->device->file->host);
    jw_kv_string(w, "kind", trace_device_kind_name(d->device->kind));
    jw_kv_string(w, "model", d->device->model);
    jw_kv_int(w, "busy_ps", d->busy.busy_ps);
    jw_kv_int(w, "span_ps", d->busy.spans ? d->busy.last_ps - d->busy.first_ps : 0);
    quantity_json_kv(w, "duty",
                     quantity_make(d->duty, "1", ORIGIN_DERIVED,
                                   d->busy.spans ? "busy over the time from the first operation to the end of the last"
                                                 : "it ran nothing"));
    jw_kv_uint(w, "events", d->busy.spans);
    jw_kv_uint(w, "steps", s->steps.of_device[i].n_steps);
    idle_json(w, &s->steps.of_device[i]);
    jw_object_end(w);
}

static void threads_json(struct jw *w, const struct trace_steps *s)
{
    jw_key(w, "threads");
    jw_array(w);
    for (size_t i = 0; i < s->n_threads; i++) {
        const struct trace_thread *t = &s->threads[i];
        jw_object(w);
        trace_text_json(w, "name", t->name);
        jw_kv_string(w, "host", t->file->host);
        jw_kv_uint(w, "events", t->busy.spans);
        jw_kv_int(w, "busy_ps", t->busy.busy_ps);
        jw_kv_int(w, "span_ps", t->busy.spans ? t->busy.last_ps - t->busy.first_ps : 0);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void ops_json(struct jw *w, const struct trace_ops *o)
{
    jw_key(w, "top_ops");
    jw_array(w);
    for (size_t i = 0; i < o->n_rows && i < 5; i++) {
        struct trace_ops_rates r;
        trace_ops_rate(o, &o->rows[i], &r);
        jw_object(w);
        trace_text_json(w, "name", o->rows[i].name);
        trace_text_json(w, "category", o->rows[i].category);
        jw_kv_uint(w, "occurrences", o->rows[i].occurrences);
        jw_kv_int(w, "self_ps", o->rows[i].self_ps);
        quantity_json_kv(w, "share", quantity_make(r.share, "1", ORIGIN_DERIVED, "self time over that of all rows"));
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void damage_json(struct jw *w, const struct trace *t)
{
    const struct xdamage *d = NULL;
    for (size_t i = 0; i < t->n_files && !d; i++)
        d = t->files[i].space.damage.what ? &t->files[i].space.damage : NULL;
    jw_key(w, "damage");
    if (!d) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_uint(w, "offset", d->offset);
    jw_kv_string(w, "field", d->where);
    jw_kv_string(w, "message", d->what);
    jw_object_end(w);
}

static void against_json(struct jw *w, const struct trace_against *a)
{
    jw_key(w, "against");
    if (!a) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "record", a->record);
    jw_kv_string(w, "figure", a->what);
    quantity_json_kv(
        w, "untraced_latency",
        quantity_make(a->latency_ps * 1e-9, "ms", ORIGIN_MEASURED, "median of the record, without a tracer"));
    quantity_json_kv(w, "busy_share",
                     quantity_make(a->busy_share, "1", ORIGIN_DERIVED,
                                   "mean busy time of a device in a step over the untraced latency"));
    quantity_json_kv(w, "inflation",
                     quantity_make(a->inflation, "1", ORIGIN_DERIVED,
                                   "median of traced steps, start to start, over the untraced latency"));
    jw_object_end(w);
}

int trace_summary_json(const struct trace *t, const struct trace_summary *s, const struct trace_against *a,
                       struct jw *w, struct error *err)
{
    (void)err;
    jw_object(w);
    jw_kv_uint(w, "planes", s->n_planes);
    jw_kv_uint(w, "lines", s->n_lines);
    jw_kv_uint(w, "events", s->events);
    jw_key(w, "devices");
    jw_array(w);
    for (size_t i = 0; i < s->n_devices; i++)
        device_json(w, s, i);
    jw_array_end(w);
    quantity_json_kv(
        w, "duty", quantity_make(s->duty, "1", ORIGIN_DERIVED, "busy times over spans, of devices that ran anything"));
    threads_json(w, &s->steps);
    trace_steps_members(&s->steps, false, w);
    ops_json(w, &s->ops);
    jw_key(w, "warnings");
    jw_array(w);
    for (size_t i = 0; i < s->n_warnings; i++)
        jw_string(w, s->warnings[i]);
    jw_array_end(w);
    jw_key(w, "next");
    jw_array(w);
    for (size_t i = 0; i < s->n_advice; i++) {
        jw_object(w);
        jw_kv_string(w, "observed", s->advice[i].observed);
        jw_kv_string(w, "evidence", s->advice[i].evidence);
        jw_kv_string(w, "hypothesis", s->advice[i].hypothesis);
        jw_kv_string(w, "comparison", s->advice[i].next);
        jw_object_end(w);
    }
    jw_array_end(w);
    against_json(w, a);
    damage_json(w, t);
    trace_files_json(t, w);
    jw_object_end(w);
    return 0;
}
