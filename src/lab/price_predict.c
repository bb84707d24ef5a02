// SPDX-License-Identifier: Apache-2.0
// Three predictions of a whole request on every target.
#include <math.h>
#include <string.h>

#include "lab/price.h"
#include "lab/price_layout.h"
#include "lab/resident.h"

// A program that is priced as it is has no module of its own: the compiler takes its file.
static bool has_modules(const struct price *p)
{
    for (int i = 0; i < p->request.n_parts; i++) {
        if (!p->parts[i].module.n_instructions)
            return false;
    }
    return true;
}

const struct measurement *price_published(const struct price *p, const struct chip *chip, const char *part)
{
    const struct model_request *r = &p->request;
    const struct measurement *m;
    for (size_t i = 0; (m = accuracy_measurement(i)) != NULL; i++) {
        bool whole = !part && !m->part, same = part && m->part && strcmp(part, m->part) == 0;
        if (m->kind == ACCURACY_STAGE && m->unit == ACCURACY_SECONDS && (whole || same) &&
            strcmp(m->workload, p->workload) == 0 && strcmp(m->chip, chip->name) == 0 && r->batch == 1 &&
            m->height == r->height && m->width == r->width && m->steps == r->steps)
            return m;
    }
    return NULL;
}

// What devices send each other is known of parts that have heads; dp and fsdp send no activations.
static bool sends_unknown(const struct price *p, const char *layout, int64_t chips)
{
    struct layout l;
    struct error ignored = {0};
    bool known = false;
    for (int i = 0; i < p->request.n_parts; i++)
        known |= p->request.parts[i].traffic.heads > 0;
    if (known || layout_parse(&l, layout, chips, &ignored))
        return false;
    return l.ways[LAYOUT_TP] * layout_sequence_ways(&l) * l.ways[LAYOUT_PP] > 1;
}

// The sheet's floor of one target under one layout, us, and how much of it is sending. Layouts are of whole requests.
static int sheet_of(struct price *p, size_t t, const char *layout, const char *part, struct quantity *floor,
                    double *sent_us, struct error *err)
{
    const struct chip_target *target = &p->predict[t].target;
    const char *none = NULL;
    struct error why = {0};
    *sent_us = 0;
    if (!layout || target->chips < 2)
        return 0;
    struct layouts *l = arena_new(&p->arena, struct layouts, 1, err);
    if (!l)
        return ERR_MEMORY;
    if (part)
        none = "layouts are priced for whole requests";
    else if (sends_unknown(p, layout, target->chips))
        none = "what devices send of this workload is known for models alone; the compiler's figures have it";
    else if (price_layouts(p, target, &layout, 1, l, &why)) {
        none = arena_strdup(&p->arena, why.message, err);
        if (!none)
            return ERR_MEMORY;
    } else {
        none = l->rows[0].reason; // of two ways to gather weights the faster
    }
    *sent_us = none ? 0 : l->rows[0].topology_s * 1e6;
    *floor = quantity_make(none ? (double)NAN : l->rows[0].serial_s * 1e6, "us", ORIGIN_DERIVED,
                           none ? none
                                : "the longer of arithmetic and memory on each chip, and then what is sent, by the "
                                  "links of the slice");
    return 0;
}

// What is predicted: a target, under a layout (NULL: one device's program).
struct subject {
    size_t target;
    const char *layout;
};

// One prediction, of n programs from `compiled` on, beside what was published of it.
static int predict_some(struct price *p, struct subject s, const struct floor *f,
                        const struct predict_compiled *compiled, const double *times, size_t n, const char *part,
                        struct prediction *out, struct error *err)
{
    const struct predict_target *t = &p->predict[s.target];
    const struct measurement *m = s.layout ? NULL : price_published(p, t->chip, part);
    struct quantity floor = f->time;
    double sent_us;
    int rc = sheet_of(p, s.target, s.layout, part, &floor, &sent_us, err);
    const char *where = "nothing runs here: `assay bench` and `assay qualify` measure";
    if (m)
        where = arena_printf(&p->arena, err, "%s: %s", m->from.cite, m->printed);
    if (rc || !where)
        return rc ? rc : ERR_MEMORY;
    return predict_make(t, s.layout, floor, sent_us, compiled, times, n, m ? m->value * 1e6 : NAN, where, &p->arena,
                        out, err);
}

static void add_resident(const struct price *p, struct price_prediction *k, const struct predict_compiled *compiled,
                         size_t n)
{
    struct resident_program programs[MODEL_MAX_PARTS];
    for (size_t i = 0; i < n; i++)
        programs[i] =
            (struct resident_program){compiled[i].weight_bytes, compiled[i].code_bytes, compiled[i].needed_bytes};
    k->resident_bytes = resident_bytes(programs, n, p->request.one_model);
    k->usable_bytes = compiled[0].usable_bytes;
}

static int predict_parts(struct price *p, struct subject s, const struct predict_compiled *compiled,
                         const double *times, struct price_prediction *k, struct error *err)
{
    size_t n = (size_t)p->request.n_parts;
    k->parts = arena_new(&p->arena, struct prediction, n, err);
    if (!k->parts)
        return ERR_MEMORY;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct price_part *part = &p->parts[i];
        struct floor f;
        rc = roofline_total(&p->rows[part->first_row], part->n_rows, p->predict[s.target].chip, &p->arena, &f, err);
        if (!rc)
            rc = predict_some(p, s, &f, &compiled[i], &times[i], 1, part->part->name, &k->parts[i], err);
    }
    add_resident(p, k, compiled, n);
    return rc;
}

static int predict_layout(struct price *p, const struct predict_job *job, const double *times,
                          struct price_prediction *out, size_t apart, struct error *err)
{
    size_t each = job->n_programs ? job->n_programs : 1;
    struct predict_compiled *compiled = arena_new(&p->arena, struct predict_compiled, job->n_targets * each, err);
    int rc = compiled ? predict_compile(job, compiled, &p->arena, err) : ERR_MEMORY;
    for (size_t t = 0; t < job->n_targets && !rc; t++) {
        const struct predict_compiled *own = &compiled[t * each];
        struct price_prediction *k = &out[t * apart];
        struct subject s = {t, job->layout};
        struct floor f;
        *k = (struct price_prediction){.parts = NULL};
        rc = roofline_total(p->rows, p->n_rows, p->predict[t].chip, &p->arena, &f, err);
        if (!rc)
            rc = predict_some(p, s, &f, own, times, each, NULL, &k->whole, err);
        if (!rc && job->n_programs)
            rc = predict_parts(p, s, own, times, k, err);
    }
    return rc;
}

int price_predict(struct price *p, const struct progress *progress, struct error *err)
{
    struct module *modules[MODEL_MAX_PARTS];
    const char *names[MODEL_MAX_PARTS];
    double times[MODEL_MAX_PARTS];
    size_t n = p->options.n_targets, parts = (size_t)p->request.n_parts, layouts = p->n_layouts ? p->n_layouts : 1;
    bool ready = has_modules(p);
    if (!n)
        return 0;
    for (size_t i = 0; i < parts; i++) {
        modules[i] = &p->parts[i].module;
        names[i] = p->request.parts[i].name;
        times[i] = (double)p->request.parts[i].calls;
    }
    struct predict_job job = {.workload = p->workload,
                              .layers = p->request.n_parts > 1 ? LAYERS_AUTO : LAYERS_WRITTEN, // as compile has them
                              .targets = p->predict,
                              .n_targets = n,
                              .programs = ready ? modules : NULL,
                              .names = ready ? names : NULL,
                              .n_programs = ready ? parts : 0,
                              .plugin = p->options.plugin,
                              .progress = progress};
    struct price_prediction *out = arena_new(&p->arena, struct price_prediction, n * layouts, err);
    int rc = out ? 0 : ERR_MEMORY;
    for (size_t l = 0; l < layouts && !rc; l++) {
        job.layout = p->n_layouts ? p->layouts[l] : NULL;
        rc = predict_layout(p, &job, times, &out[l], layouts, err);
    }
    p->predictions = rc ? NULL : out;
    p->n_predictions = rc ? 0 : n * layouts;
    return rc;
}

void price_prediction_json(const struct price *p, const struct price_prediction *k, struct jw *w)
{
    bool known = k->parts && !isnan(k->resident_bytes);
    jw_object(w);
    predict_json(&k->whole, w);
    quantity_json_derived(w, "resident", known ? k->resident_bytes : NAN, "B",
                          known ? "weights and code of all programs, and the rest of the one that needs most"
                                : "the compiler's plan of every program is needed");
    quantity_json_derived(w, "usable", known ? k->usable_bytes : NAN, "B", "what a device of this chip can give");
    jw_key(w, "parts");
    jw_array(w);
    for (int i = 0; i < p->request.n_parts && k->parts; i++) {
        jw_object(w);
        jw_kv_string(w, "name", p->request.parts[i].name);
        jw_kv_int(w, "calls", p->request.parts[i].calls);
        predict_json(&k->parts[i], w);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}
