// SPDX-License-Identifier: Apache-2.0
// The result object of assay.precision/1 (docs/schemas/assay.precision.1.json).
#include <stdio.h>
#include <string.h>

#include "lab/precision.h"
#include "lab/precision_tensor.h"

static void kv_quantity(struct jw *w, const char *key, double v, const char *unit, enum origin origin,
                        const char *source)
{
    quantity_json_kv(w, key, quantity_make(v, unit, origin, source));
}

static void write_inputs(const struct precision_document *d, struct jw *w)
{
    jw_key(w, "inputs");
    jw_array(w);
    for (size_t i = 0; i < d->n_inputs; i++) {
        const struct precision_input *in = &d->inputs[i];
        jw_object(w);
        jw_kv_string(w, "name", in->name);
        jw_kv_string(w, "type", in->type);
        jw_key(w, "shape");
        jw_array(w);
        for (int k = 0; k < in->rank; k++)
            jw_int(w, in->dims[k]);
        jw_array_end(w);
        jw_kv_string(w, "sha256", in->sha256);
        jw_kv_string(w, "source", in->source);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// ---- cases

static void write_measure(const struct precision_case *c, const struct precision_measure *m, struct jw *w)
{
    char source[320];
    snprintf(source, sizeof source, "%.200s, against %.80s", c->source, m->against);
    const char *relative = isnan(m->rel_l2) && !m->nonfinite ? "undefined: the reference is zero" : source;
    jw_object(w);
    jw_kv_string(w, "against", m->against);
    kv_quantity(w, "max_abs", m->max_abs, "1", c->origin, source);
    kv_quantity(w, "mean_abs", m->mean_abs, "1", c->origin, source);
    kv_quantity(w, "rel_l2", m->rel_l2, "1", c->origin, relative);
    kv_quantity(w, "snr_db", m->snr_db, "dB", c->origin, isinf(m->snr_db) ? "no error: infinite" : relative);
    jw_kv_uint(w, "nonfinite", m->nonfinite);
    jw_object_end(w);
}

static void write_policy(const struct precision_case *c, struct jw *w)
{
    jw_key(w, "policy");
    jw_object(w);
    jw_kv_string(w, "w", c->w);
    jw_kv_string(w, "a", c->a);
    jw_kv_string(w, "op", c->op);
    jw_kv_string(w, "acc", c->acc);
    jw_kv_string(w, "out", c->out);
    jw_object_end(w);
}

static void write_stored(const struct precision_case *c, struct jw *w)
{
    jw_key(w, "stored");
    if (isnan(c->code_bytes)) {
        jw_null(w);
        return;
    }
    jw_object(w);
    kv_quantity(w, "codes", c->code_bytes, "B", ORIGIN_DERIVED, "stored values or codes");
    kv_quantity(w, "scales", isnan(c->scale_bytes) ? 0 : c->scale_bytes, "B", ORIGIN_DERIVED, "stored scales");
    jw_object_end(w);
}

static void write_case(const struct precision_case *c, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "section", c->section);
    jw_kv_string(w, "name", c->name);
    jw_kv_string(w, "label", c->label ? c->label : c->name);
    jw_kv_string(w, "input", c->input);
    write_policy(c, w);
    jw_key(w, "measures");
    jw_array(w);
    for (size_t i = 0; i < c->n_measures; i++)
        write_measure(c, &c->measures[i], w);
    jw_array_end(w);
    write_stored(c, w);
    if (c->clipped < 0)
        jw_kv_null(w, "clipped");
    else
        jw_kv_int(w, "clipped", c->clipped);
    jw_key(w, "facts");
    jw_object(w);
    for (size_t i = 0; i < c->n_facts; i++) {
        if (c->facts[i].text)
            jw_kv_string(w, c->facts[i].name, c->facts[i].text);
        else
            quantity_json_kv(w, c->facts[i].name, c->facts[i].number);
    }
    jw_object_end(w);
    jw_kv_string(w, "failure", c->failure);
    jw_object_end(w);
}

static void write_cases(const struct precision_document *d, struct jw *w)
{
    jw_key(w, "cases");
    jw_array(w);
    for (size_t i = 0; i < d->n_cases; i++)
        write_case(d->cases[i], w);
    jw_array_end(w);
}

static void write_checks(const struct precision_document *d, struct jw *w)
{
    jw_key(w, "checks");
    jw_array(w);
    for (size_t i = 0; i < d->n_checks; i++) {
        const struct precision_check *c = &d->checks[i];
        jw_object(w);
        jw_kv_string(w, "name", c->name);
        jw_kv_string(w, "shows", c->shows);
        jw_kv_string(w, "expected", c->expected);
        jw_kv_string(w, "got", c->got);
        jw_kv_double(w, "tolerance", c->tolerance);
        jw_kv_string(w, "why", c->why);
        jw_kv_bool(w, "ok", c->ok);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// ---- figures

static void write_texts(struct jw *w, const char *key, const char *const *texts, size_t n)
{
    jw_key(w, key);
    jw_array(w);
    for (size_t i = 0; i < n; i++)
        jw_string(w, texts[i]);
    jw_array_end(w);
}

static void write_series(const struct precision_series *s, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "name", s->name);
    if (s->table) {
        jw_kv_string(w, "table", s->table);
        jw_kv_string(w, "x", s->x);
        jw_kv_string(w, "y", s->y);
    } else {
        jw_kv_string(w, "quantity", s->quantity);
        write_texts(w, "cases", s->cases, s->n_cases);
    }
    jw_object_end(w);
}

static void write_axis(struct jw *w, const char *key, const char *title, const char *unit, bool log)
{
    jw_key(w, key);
    jw_object(w);
    jw_kv_string(w, "title", title);
    jw_kv_string(w, "unit", unit);
    jw_kv_string(w, "scale", log ? "log" : "linear");
    jw_object_end(w);
}

static void write_panel(const struct precision_panel *p, struct jw *w)
{
    static const char *const kinds[] = {
        [PANEL_BARS] = "bars", [PANEL_STACKED] = "stacked", [PANEL_POINTS] = "points", [PANEL_LINES] = "lines"};
    jw_object(w);
    jw_kv_string(w, "kind", kinds[p->kind]);
    jw_kv_string(w, "title", p->title);
    write_axis(w, "x", p->x_title, p->x_unit, p->x_log);
    write_axis(w, "y", p->y_title, p->y_unit, p->y_log);
    write_texts(w, "categories", p->categories, p->n_categories);
    jw_key(w, "series");
    jw_array(w);
    for (size_t i = 0; i < p->n_series; i++)
        write_series(&p->series[i], w);
    jw_array_end(w);
    jw_object_end(w);
}

static void write_figures(const struct precision_document *d, struct jw *w)
{
    jw_key(w, "figures");
    jw_array(w);
    for (size_t i = 0; i < d->n_figures; i++) {
        const struct precision_figure *f = d->figures[i];
        jw_object(w);
        jw_kv_string(w, "name", f->name);
        jw_kv_string(w, "title", f->title);
        jw_kv_string(w, "caption", f->caption);
        jw_key(w, "panels");
        jw_array(w);
        for (size_t k = 0; k < f->n_panels; k++)
            write_panel(f->panels[k], w);
        jw_array_end(w);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// ---- tables

static void write_cells(const struct precision_table *t, struct jw *w)
{
    jw_key(w, "rows");
    jw_array(w);
    for (size_t i = 0; t->n_columns && i + t->n_columns <= t->n_cells; i += t->n_columns) {
        jw_array(w);
        for (size_t k = 0; k < t->n_columns; k++) {
            const struct precision_cell *cell = &t->cells[i + k];
            if (cell->text)
                jw_string(w, cell->text);
            else
                jw_double(w, cell->number);
        }
        jw_array_end(w);
    }
    jw_array_end(w);
}

static void write_tables(const struct precision_document *d, struct jw *w)
{
    jw_key(w, "tables");
    jw_array(w);
    for (size_t i = 0; i < d->n_tables; i++) {
        const struct precision_table *t = d->tables[i];
        jw_object(w);
        jw_kv_string(w, "name", t->name);
        jw_kv_string(w, "title", t->title);
        jw_key(w, "columns");
        jw_array(w);
        for (size_t k = 0; k < t->n_columns; k++) {
            const struct precision_column *c = &t->columns[k];
            char origin[2] = {(char)c->origin, 0};
            jw_object(w);
            jw_kv_string(w, "name", c->name);
            jw_kv_string(w, "unit", c->unit);
            jw_kv_string(w, "origin", c->unit ? origin : NULL);
            jw_kv_string(w, "source", c->unit ? c->source : NULL);
            jw_object_end(w);
        }
        jw_array_end(w);
        write_cells(t, w);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// ---- programs

static void write_memory(const struct worker_memory_plan *m, struct jw *w)
{
    const struct {
        const char *key;
        int64_t bytes;
    } parts[] = {{"code", m->code},       {"arguments", m->arguments},     {"outputs", m->outputs},
                 {"aliases", m->aliases}, {"temporaries", m->temporaries}, {"peak", m->peak},
                 {"total", m->total}};
    jw_key(w, "memory");
    jw_object(w);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        kv_quantity(w, parts[i].key, parts[i].bytes < 0 ? NAN : (double)parts[i].bytes, "B", ORIGIN_MEASURED,
                    parts[i].bytes < 0 ? "the compiler does not say" : "the compiler's own count");
    jw_object_end(w);
}

static int write_time(const struct precision_program *p, const char *device, struct jw *w, struct error *err)
{
    struct measure_summary time;
    jw_key(w, "time");
    if (!p->n_samples) {
        jw_null(w);
        return 0;
    }
    int rc = measure_summarize(&time, p->samples_ns, p->n_samples, 0.95, NULL, err);
    if (rc)
        return rc;
    measure_summary_scale(&time, 1e-3);
    jw_object(w);
    jw_key(w, "summary");
    measure_summary_json(w, &time, "us", device);
    quantity_json_samples(w, "samples", p->samples_ns, p->n_samples, "ns", device);
    jw_key(w, "warmup");
    measure_warmup_json(w, &p->warmup, device);
    jw_object_end(w);
    return 0;
}

static int write_programs(const struct precision_document *d, const char *device, struct jw *w, struct error *err)
{
    int rc = 0;
    jw_key(w, "programs");
    jw_array(w);
    for (size_t i = 0; i < d->n_programs && !rc; i++) {
        const struct precision_program *p = d->programs[i];
        jw_object(w);
        jw_kv_string(w, "name", p->name);
        jw_kv_string(w, "lowered", p->lowered);
        jw_kv_string(w, "lowered_sha256", p->lowered_sha256);
        jw_kv_string(w, "optimized", p->optimized);
        jw_kv_string(w, "optimized_sha256", p->optimized_sha256);
        write_texts(w, "products", p->products, p->n_products);
        kv_quantity(w, "compile_ms", p->compile_ns ? (double)p->compile_ns / 1e6 : NAN, "ms", ORIGIN_MEASURED,
                    p->compile_ns ? device : "it did not compile");
        write_memory(&p->memory, w);
        rc = write_time(p, device, w, err);
        jw_kv_string(w, "trace", p->trace);
        jw_object_end(w);
    }
    jw_array_end(w);
    return rc;
}

static int write_document(const struct precision_document *d, const char *device, struct jw *w, struct error *err)
{
    jw_object(w);
    jw_kv_string(w, "name", d->name);
    jw_kv_string(w, "help", d->help);
    write_inputs(d, w);
    write_cases(d, w);
    write_checks(d, w);
    write_texts(w, "notes", d->notes, d->n_notes);
    write_figures(d, w);
    write_tables(d, w);
    int rc = write_programs(d, device, w, err);
    kv_quantity(w, "wall_s", d->wall_s, "s", ORIGIN_MEASURED, "the whole suite, on this host");
    jw_object_end(w);
    return rc;
}

static void write_device(const struct precision *p, struct jw *w)
{
    jw_key(w, "device");
    const struct worker_info *d = p->worker ? worker_info(p->worker) : NULL;
    if (!d) {
        jw_null(w);
        return;
    }
    char version[32];
    snprintf(version, sizeof version, "%d.%d", d->api_major, d->api_minor);
    jw_object(w);
    jw_kv_string(w, "requested", p->options->worker.device ? p->options->worker.device : "cpu");
    jw_kv_string(w, "kind", d->devices[d->device].kind);
    jw_kv_string(w, "platform", d->platform_name);
    jw_kv_string(w, "platform_version", d->platform_version);
    jw_kv_string(w, "plugin", d->plugin_path);
    jw_kv_string(w, "plugin_sha256", d->plugin_sha256);
    jw_kv_string(w, "pjrt_api", version);
    jw_object_end(w);
}

int precision_json(const struct precision *p, struct jw *w, struct error *err)
{
    const struct worker_info *d = p->worker ? worker_info(p->worker) : NULL;
    const char *device = d ? d->devices[d->device].kind : "no device";
    int rc = 0;
    jw_object(w);
    write_device(p, w);
    jw_kv_bool(w, "excess_precision", false);
    jw_key(w, "suites");
    jw_array(w);
    for (size_t i = 0; i < p->n_documents && !rc; i++)
        rc = write_document(p->documents[i], device, w, err);
    jw_array_end(w);
    jw_kv_bool(w, "ok", !precision_failed(p));
    jw_key(w, "host");
    host_json(w, &p->host);
    kv_quantity(w, "wall_s", p->wall_s, "s", ORIGIN_MEASURED, "this host");
    jw_object_end(w);
    return rc;
}

static void write_policies(const struct precision_options *o, struct jw *w)
{
    jw_key(w, "policies");
    jw_array(w);
    for (size_t i = 0; i < o->n_policies; i++)
        jw_string(w, o->policies[i]);
    jw_array_end(w);
}

void precision_config(const struct precision *p, struct jw *w)
{
    const struct precision_options *o = p->options;
    jw_key(w, "suites");
    jw_array(w);
    for (size_t i = 0; i < o->n_suites; i++)
        jw_string(w, o->suites[i]);
    jw_array_end(w);
    jw_key(w, "tensor");
    if (p->tensor)
        precision_tensor_config(p->tensor, w);
    else
        jw_null(w);
    write_policies(o, w);
    jw_kv_string(w, "device", o->worker.device ? o->worker.device : "cpu");
    jw_kv_string(w, "plugin", o->worker.plugin_path);
    jw_kv_int(w, "threads", o->worker.threads);
    if (o->seed_given)
        jw_kv_uint(w, "seed", o->seed);
    else
        jw_kv_null(w, "seed"); // each suite takes its own, and its inputs say which
    jw_kv_int(w, "batch", o->batch);
    jw_kv_int(w, "features", o->features);
    jw_kv_int(w, "outputs", o->outputs);
    jw_kv_int(w, "steps", o->steps);
    jw_kv_bool(w, "trace", o->trace);
}

void precision_failures(const struct precision *p, struct jw *w)
{
    const struct worker_failure *f = p->worker ? worker_failure(p->worker) : NULL;
    jw_object(w);
    jw_kv_string(w, "suite", p->document ? p->document->name : NULL);
    jw_key(w, "worker");
    if (!f) {
        jw_null(w);
    } else {
        jw_object(w);
        jw_kv_string(w, "kind", worker_failure_kind_name(f->kind));
        jw_kv_int(w, "value", f->value);
        jw_kv_double(w, "seconds", f->seconds);
        jw_kv_string(w, "doing", f->doing);
        jw_kv_string(w, "stderr", f->stderr_tail);
        jw_object_end(w);
    }
    jw_object_end(w);
}
