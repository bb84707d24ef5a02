// SPDX-License-Identifier: Apache-2.0
#include "lab/ladder_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"

#define WITHIN_DB 2.0

void ladder_config(const struct ladder_options *o, struct jw *w)
{
    jw_kv_string(w, "workload", o->workload);
    jw_kv_string(w, "reference", o->reference);
    jw_kv_string(w, "policy", o->policy);
    jw_kv_string(w, "matmul_precision", matmul_precision_name(o->precision));
}

static void write_score(struct jw *w, const char *key, const struct ladder_score *s)
{
    jw_key(w, key);
    if (!s->known) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "verdict", ladder_verdict_name(s->verdict));
    jw_kv_bool(w, "exact", s->exact);
    jw_kv_double(w, "max_abs", s->max_abs);
    jw_kv_double(w, "relative", s->relative);
    jw_kv_double(w, "snr_db", s->snr_db);
    jw_kv_double(w, "psnr_db", s->psnr_db);
    jw_kv_uint(w, "nonfinite", s->nonfinite);
    jw_object_end(w);
}

static void write_count(struct jw *w, const struct ladder_count *c)
{
    jw_kv_uint(w, "keys", c->keys);
    jw_kv_uint(w, "exact", c->exact);
    jw_kv_uint(w, "pass", c->pass);
    jw_kv_uint(w, "warn", c->warn);
    jw_kv_uint(w, "fail", c->fail);
}

static void write_rungs(const struct ladder *l, struct jw *w)
{
    jw_key(w, "rungs");
    jw_array(w);
    for (int i = 0; i < l->n_rungs; i++) {
        const struct ladder_rung *r = &l->rungs[i];
        struct ladder_count c = ladder_count(l, r);
        jw_object(w);
        jw_kv_int(w, "number", r->number);
        jw_kv_string(w, "title", r->title);
        jw_key(w, "bound");
        jw_object(w);
        jw_kv_bool(w, "exact", r->exact);
        if (!r->exact && l->band == LADDER_BF16)
            jw_kv_double(w, "snr_db", r->db);
        else if (!r->exact)
            jw_kv_double(w, "relative", r->relative * (l->band == LADDER_F64 ? LADDER_F64_SHARE : 1));
        jw_object_end(w);
        write_count(w, &c);
        jw_key(w, "worst");
        if (c.worst) {
            jw_object(w);
            jw_kv_string(w, "program", c.worst->program);
            jw_kv_string(w, "name", c.worst->name);
            jw_object_end(w);
        } else {
            jw_null(w);
        }
        jw_object_end(w);
    }
    jw_array_end(w);
}

void ladder_json(const struct ladder *l, struct jw *w)
{
    const struct ladder_reference *r = &l->reference;
    struct ladder_count all = ladder_count(l, NULL);
    jw_kv_string(w, "workload", l->workload);
    jw_kv_string(w, "policy", l->policy_name);
    jw_kv_string(w, "device", l->device);
    jw_key(w, "reference");
    jw_object(w);
    jw_kv_string(w, "directory", r->directory);
    jw_kv_string(w, "model", r->model);
    jw_kv_string(w, "type", dtype_name(r->type));
    jw_kv_string(w, "made_by", r->made_by);
    jw_object_end(w);
    jw_kv_string(w, "band", ladder_band_name(l->band));
    matmul_precision_json(w, l->options->precision, l->emulated);
    write_count(w, &all);
    write_rungs(l, w);
    jw_key(w, "keys_compared");
    jw_array(w);
    for (size_t i = 0; i < l->n_keys; i++) {
        const struct ladder_key *k = &l->keys[i];
        jw_object(w);
        jw_kv_string(w, "program", k->program);
        jw_kv_string(w, "name", k->name);
        jw_kv_int(w, "rung", k->rung->number);
        jw_kv_uint(w, "elements", k->elements);
        write_score(w, "injected", &k->injected);
        write_score(w, "chained", &k->chained);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_key(w, "missing");
    jw_array(w);
    for (size_t i = 0; i < l->n_missing; i++)
        jw_string(w, l->missing[i]);
    jw_array_end(w);
}

// ---- two of them

static const json_t *keys_of(const json_t *doc, const char *name, struct error *err)
{
    const json_t *keys = json_object_get(json_object_get(doc, "result"), "keys_compared");
    if (!json_is_array(keys))
        error_set(err, ERR_INPUT, name, "is no ladder's document: it has no result.keys_compared");
    return json_is_array(keys) ? keys : NULL;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static const json_t *same_key(const json_t *keys, const json_t *like)
{
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const json_t *k = json_array_get(keys, i);
        if (strcmp(text_of(k, "name"), text_of(like, "name")) == 0 &&
            strcmp(text_of(k, "program"), text_of(like, "program")) == 0)
            return k;
    }
    return NULL;
}

static double snr_of(const json_t *key, const char *run)
{
    const json_t *v = json_object_get(json_object_get(key, run), "snr_db");
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static bool passes(const json_t *key, const char *run)
{
    const char *v = text_of(json_object_get(key, run), "verdict");
    return strcmp(v, "pass") == 0 || !*v;
}

struct movement {
    double *db, *scratch;
    size_t n, within, worse;
};

static void compare_run(const json_t *a, const json_t *b, const char *run, struct movement *m, struct jw *w)
{
    jw_key(w, run);
    jw_object(w);
    jw_key(w, "keys");
    jw_array(w);
    m->n = m->within = m->worse = 0;
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *x = json_array_get(a, i), *y = same_key(b, x);
        double from = snr_of(x, run), to = snr_of(y, run);
        if (!isfinite(from) || !isfinite(to))
            continue;
        bool worse = passes(x, run) && !passes(y, run);
        m->db[m->n++] = to - from;
        m->within += fabs(to - from) <= WITHIN_DB;
        m->worse += worse;
        jw_object(w);
        jw_kv_string(w, "program", text_of(x, "program"));
        jw_kv_string(w, "name", text_of(x, "name"));
        jw_kv_double(w, "from_db", from);
        jw_kv_double(w, "to_db", to);
        jw_kv_double(w, "moved_db", to - from);
        jw_kv_bool(w, "newly_warned", worse);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_kv_uint(w, "compared", m->n);
    jw_kv_double(w, "median_db", m->n ? stats_median(m->db, m->n, m->scratch) : (double)NAN);
    jw_kv_uint(w, "within_2_db", m->within);
    jw_kv_uint(w, "newly_warned", m->worse);
    jw_object_end(w);
}

int ladder_compare_json(const json_t *a, const json_t *b, const char *const names[2], struct jw *w, struct error *err)
{
    const json_t *x = keys_of(a, names[0], err), *y = x ? keys_of(b, names[1], err) : NULL;
    if (!x || !y)
        return ERR_INPUT;
    size_t room = json_array_size(x) + 1;
    struct movement m = {.db = malloc(2 * room * sizeof(double))};
    m.scratch = m.db + room;
    if (!m.db)
        return error_set(err, ERR_MEMORY, names[0], "no memory for %zu keys", json_array_size(x));
    jw_key(w, "compared");
    jw_array(w);
    jw_string(w, names[0]);
    jw_string(w, names[1]);
    jw_array_end(w);
    compare_run(x, y, "injected", &m, w);
    compare_run(x, y, "chained", &m, w);
    free(m.db);
    return 0;
}
