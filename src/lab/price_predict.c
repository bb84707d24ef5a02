// SPDX-License-Identifier: Apache-2.0
// Three predictions of a whole request on every target.
#include <math.h>
#include <string.h>

#include "lab/price.h"

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

// One prediction, of n programs from `compiled` on, beside what was published of it.
static int predict_some(struct price *p, size_t t, const struct floor *f, const struct predict_compiled *compiled,
                        const double *times, size_t n, const char *part, struct prediction *out, struct error *err)
{
    const struct measurement *m = price_published(p, p->predict[t].chip, part);
    const char *where = "nothing runs here: `assay bench` and `assay qualify` measure";
    if (m)
        where = arena_printf(&p->arena, err, "%s: %s", m->from.cite, m->printed);
    if (!where)
        return ERR_MEMORY;
    return predict_make(&p->predict[t], f->time, compiled, times, n, m ? m->value * 1e6 : NAN, where, &p->arena, out,
                        err);
}

// Everything stays: weights and code of all programs, and arguments, results and temporaries of one at a time.
static void add_resident(struct price_prediction *k, const struct predict_compiled *compiled, size_t n)
{
    double stays = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        double own = compiled[i].weight_bytes + compiled[i].code_bytes, rest = compiled[i].needed_bytes - own;
        stays += own;
        most = isnan(rest) || rest > most ? rest : most;
    }
    k->resident_bytes = stays + most;
    k->usable_bytes = compiled[0].usable_bytes;
}

static int predict_parts(struct price *p, size_t t, const struct predict_compiled *compiled, const double *times,
                         struct price_prediction *k, struct error *err)
{
    size_t n = (size_t)p->request.n_parts;
    k->parts = arena_new(&p->arena, struct prediction, n, err);
    if (!k->parts)
        return ERR_MEMORY;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct price_part *part = &p->parts[i];
        struct floor f;
        rc = roofline_total(&p->rows[part->first_row], part->n_rows, p->predict[t].chip, &p->arena, &f, err);
        if (!rc)
            rc = predict_some(p, t, &f, &compiled[i], &times[i], 1, part->part->name, &k->parts[i], err);
    }
    add_resident(k, compiled, n);
    return rc;
}

int price_predict(struct price *p, const struct progress *progress, struct error *err)
{
    struct module *modules[MODEL_MAX_PARTS];
    const char *names[MODEL_MAX_PARTS];
    double times[MODEL_MAX_PARTS];
    size_t n = p->options.n_targets, parts = (size_t)p->request.n_parts;
    bool ready = has_modules(p);
    if (!n)
        return 0;
    for (size_t i = 0; i < parts; i++) {
        modules[i] = &p->parts[i].module;
        names[i] = p->request.parts[i].name;
        times[i] = (double)p->request.parts[i].calls;
    }
    size_t each = ready ? parts : 1;
    struct predict_job job = {.workload = p->workload,
                              .targets = p->predict,
                              .n_targets = n,
                              .programs = ready ? modules : NULL,
                              .names = ready ? names : NULL,
                              .n_programs = ready ? parts : 0,
                              .plugin = p->options.plugin,
                              .progress = progress};
    struct predict_compiled *compiled = arena_new(&p->arena, struct predict_compiled, n * each, err);
    struct price_prediction *out = arena_new(&p->arena, struct price_prediction, n, err);
    if (!compiled || !out)
        return ERR_MEMORY;
    int rc = predict_compile(&job, compiled, &p->arena, err);
    for (size_t t = 0; t < n && !rc; t++) {
        const struct predict_compiled *own = &compiled[t * each];
        struct floor f;
        out[t] = (struct price_prediction){.parts = NULL};
        rc = roofline_total(p->rows, p->n_rows, p->predict[t].chip, &p->arena, &f, err);
        if (!rc)
            rc = predict_some(p, t, &f, own, times, each, NULL, &out[t].whole, err);
        if (!rc && ready)
            rc = predict_parts(p, t, own, times, &out[t], err);
    }
    p->predictions = rc ? NULL : out;
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
