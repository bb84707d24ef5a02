// SPDX-License-Identifier: Apache-2.0
// The probe as a document, and its evidence: every vector with its result, in hexadecimal so that no bit is lost.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "lab/probe_run.h"

static const char *const status_names[] = {"done", "refused", "died"};
static const char *const answer_names[] = {"yes", "no", "cannot tell"};

// A number as its hexadecimal digits; what is no number by its f32 bits.
static void hex(struct jw *w, double v)
{
    char text[48];
    if (isnan(v))
        snprintf(text, sizeof text, "nan:%08x", dot_f32_bits(v));
    else
        snprintf(text, sizeof text, "%a", v);
    jw_string(w, text);
}

static void flag(struct jw *w, const char *key, int v)
{
    if (v < 0)
        jw_kv_null(w, key);
    else
        jw_kv_bool(w, key, v != 0);
}

static void count_or_null(struct jw *w, const char *key, int v)
{
    if (v < 0)
        jw_kv_null(w, key);
    else
        jw_kv_int(w, key, v);
}

static void bits(struct jw *w, const char *key, uint32_t v)
{
    char text[16];
    snprintf(text, sizeof text, "%08x", v);
    jw_kv_string(w, key, text);
}

static void fingerprint(struct jw *w, const struct probe_fingerprint *f)
{
    static const char *const fusions[] = {"unknown", "unseen", "fma", "separate", "block"};
    jw_object(w);
    jw_kv_string(w, "operand", f->operand);
    jw_kv_string(w, "operand_rounding", f->operand ? dot_rounding_name(f->operand_rounding) : NULL);
    jw_kv_int(w, "passes", f->passes);
    flag(w, "subnormal_operands_are_zero", f->operand_flush);
    jw_kv_bool(w, "stochastic", f->stochastic);
    jw_kv_uint(w, "operand_probes", f->operands);
    jw_kv_uint(w, "operand_probes_explained", f->explained);
    jw_kv_uint(w, "rivals", f->rivals);
    jw_kv_int(w, "kept_sparse", f->kept_sparse);
    jw_kv_int(w, "kept_dense", f->kept_dense);
    jw_kv_double(w, "worst_loss", f->worst_loss);
    jw_kv_string(w, "fusion", fusions[f->fusion]);
    jw_kv_string(w, "accumulator", f->accumulator);
    jw_kv_string(w, "rounding", f->rounding < 0 ? NULL : dot_rounding_name((enum dot_rounding)f->rounding));
    jw_kv_string(w, "inner", f->inner);
    count_or_null(w, "bits_near", f->bits_near);
    count_or_null(w, "bits_inner", f->bits_inner);
    count_or_null(w, "bits_far", f->bits_far);
    count_or_null(w, "bits_block", f->bits_block);
    jw_kv_string(w, "order", probe_shape_name(f->tree.shape));
    jw_kv_int(w, "block", f->tree.block);
    jw_kv_int(w, "vector", f->tree.width);
    flag(w, "subnormal_sums_are_zero", f->sum_flush);
    flag(w, "subnormal_products_are_zero", f->product_flush);
    count_or_null(w, "stagnates", f->stagnates ? f->stagnates : -1);
    bits(w, "nan_bits", f->payload_bits);
    bits(w, "invalid_bits", f->invalid_bits);
    jw_key(w, "overflow_on_the_way");
    hex(w, f->overflow);
    jw_kv_string(w, "output", f->output);
    jw_kv_string(w, "output_rounding",
                 f->output_rounding < 0 || !f->output ? NULL
                                                      : dot_rounding_name((enum dot_rounding)f->output_rounding));
    jw_object_end(w);
}

static void matches(struct jw *w, const struct probe_float *p)
{
    enum { SHOWN = 3 };
    jw_array(w);
    for (size_t i = 0; i < p->n_matches && i < SHOWN; i++) {
        const struct probe_match *m = &p->matches[i];
        jw_object(w);
        jw_kv_string(w, "key", m->known->key);
        jw_kv_string(w, "device", m->known->device);
        jw_kv_string(w, "source", m->known->source);
        jw_kv_int(w, "differs", m->differs);
        jw_kv_string(w, "differences", m->differences);
        jw_kv_uint(w, "tried", m->tried);
        jw_kv_uint(w, "same", m->same);
        jw_object_end(w);
    }
    jw_array_end(w);
}

typedef void say_fn(struct str *out, const struct probe_row *row);
static void say_operand(struct str *out, const struct probe_row *row)
{
    probe_say_operand(out, &row->flt.print, row->path);
}
static void say_sum(struct str *out, const struct probe_row *row)
{
    probe_say_sum(out, &row->flt.print);
}
static void say_order(struct str *out, const struct probe_row *row)
{
    probe_say_order(out, &row->flt.print);
}
static void say_denormals(struct str *out, const struct probe_row *row)
{
    probe_say_denormals(out, &row->flt.print);
}
static void say_specials(struct str *out, const struct probe_row *row)
{
    probe_say_specials(out, &row->flt.print, row->path);
}
static void say_result(struct str *out, const struct probe_row *row)
{
    probe_say_result(out, &row->flt.print, row->path);
}
static void say_stable(struct str *out, const struct probe_row *row)
{
    const struct probe_fingerprint *f = &row->flt.print;
    str_add(out, f->repeats_same ? "the same again" : "another result the second time");
    str_add(out, f->rows_same ? ", in any row" : ", and a row's result depends on its place");
    if (f->alone == f->alone_same && f->alone)
        str_add(out, "; a row alone gives what it gives among others");
    else if (f->alone)
        str_addf(out, "; a row alone gives %zu of %zu results as it does among others", f->alone_same, f->alone);
}

static int words(struct jw *w, const char *key, say_fn *say, const struct probe_row *row, struct error *err)
{
    struct str s;
    str_init(&s);
    say(&s, row);
    jw_kv_string(w, key, str_text(&s));
    int rc = str_check(&s, err);
    str_release(&s);
    return rc;
}

static int confirmation(struct jw *w, const struct probe_row *row, struct error *err)
{
    const struct probe_fingerprint *f = &row->flt.print;
    size_t same = row->is_float ? f->same : row->integer.same,
           tried = row->is_float ? f->replayed : row->integer.replayed;
    char source[96];
    snprintf(source, sizeof source, "%zu random dots of %zu, bit for bit", tried, row->k);
    quantity_json_kv(w, "reproduced",
                     quantity_make(tried ? (double)same / (double)tried : NAN, "1", ORIGIN_MEASURED, source));
    jw_kv_uint(w, "dots", tried);
    jw_kv_uint(w, "same", same);
    jw_kv_string(w, "model", row->is_float ? f->replay_model : NULL);
    if (row->is_float)
        jw_kv_double(w, "worst_ulps", f->worst_ulps);
    else
        jw_kv_null(w, "worst_ulps");
    jw_kv_uint(w, "probes", row->is_float ? f->evidence : row->integer.evidence.count);
    jw_kv_uint(w, "probes_same",
               row->is_float            ? f->evidence_same
               : row->integer.explained ? row->integer.evidence.count
                                        : 0);
    jw_kv_string(w, "unexplained", row->is_float ? f->unexplained : NULL);
    return str_check(w->out, err);
}

static int tree(struct jw *w, const struct probe_row *row, bool wanted, struct error *err)
{
    struct str s;
    str_init(&s);
    bool there = wanted && row->status == PROBE_DONE && row->is_float && row->flt.print.tree.tree.nodes > 0;
    if (there)
        probe_tree_print(&s, &row->flt.print.tree);
    jw_kv_string(w, "tree", there ? str_text(&s) : NULL);
    int rc = str_check(&s, err);
    str_release(&s);
    return rc;
}

static int row_json(struct jw *w, const struct probe_row *row, const struct probe_options *o, struct error *err)
{
    static const struct {
        const char *key;
        say_fn *say;
    } aspects[] = {{"operands", say_operand},     {"sums", say_sum},          {"order", say_order},
                   {"subnormals", say_denormals}, {"specials", say_specials}, {"result", say_result},
                   {"stable", say_stable}};
    jw_object(w);
    jw_kv_string(w, "path", row->path->key);
    jw_kv_string(w, "name", row->path->name);
    jw_kv_uint(w, "m", row->m);
    jw_kv_uint(w, "k", row->k);
    jw_kv_uint(w, "n", row->n);
    jw_kv_string(w, "status", status_names[row->status]);
    jw_kv_string(w, "reason", row->reason);
    jw_kv_uint(w, "products", row->runs);
    jw_kv_string(w, "trace", row->trace);
    int rc = words(w, "verdict", probe_say_verdict, row, err);
    bool is_float = row->status == PROBE_DONE && row->is_float;
    jw_key(w, "words");
    jw_object(w);
    for (size_t i = 0; i < sizeof aspects / sizeof aspects[0] && is_float && !rc; i++)
        rc = words(w, aspects[i].key, aspects[i].say, row, err);
    jw_object_end(w);
    jw_key(w, "fingerprint");
    if (is_float)
        fingerprint(w, &row->flt.print);
    else
        jw_null(w);
    jw_key(w, "nearest");
    if (is_float)
        matches(w, &row->flt);
    else
        jw_null(w);
    jw_key(w, "confirmation");
    if (row->status == PROBE_DONE) {
        jw_object(w);
        rc = rc ? rc : confirmation(w, row, err);
        jw_object_end(w);
    } else {
        jw_null(w);
    }
    if (!rc)
        rc = tree(w, row, o->tree, err);
    jw_object_end(w);
    return rc;
}

static void cell_json(struct jw *w, const struct probe_cell *c)
{
    jw_object(w);
    jw_kv_string(w, "key", c->key);
    jw_kv_string(w, "question", c->question);
    jw_kv_string(w, "answer", c->answer);
    jw_kv_string(w, "refused", c->refused);
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        jw_key(w, names[i]);
        jw_array(w);
        for (size_t k = 0; k < c->n; k++)
            hex(w, c->x[i][k]);
        jw_array_end(w);
    }
    jw_key(w, "results");
    jw_array(w);
    for (size_t k = 0; k < c->n && !c->refused; k++)
        hex(w, c->y[k]);
    jw_array_end(w);
    jw_object_end(w);
}

void probe_config(struct jw *w, const struct probe_options *o)
{
    char shape[64];
    snprintf(shape, sizeof shape, "%zux%zux%zu", o->m, o->k, o->n);
    jw_kv_string(w, "device", o->worker.device);
    jw_kv_string(w, "plugin", o->worker.plugin_path);
    jw_kv_string(w, "simulate", o->simulate ? o->simulate->key : NULL);
    jw_kv_string(w, "dtype_claim", o->claim);
    jw_kv_string(w, "shape", shape);
    jw_key(w, "paths");
    jw_array(w);
    for (size_t i = 0; i < o->n_paths; i++)
        jw_string(w, o->paths[i]);
    jw_array_end(w);
    jw_kv_int(w, "threads", o->worker.threads);
    jw_kv_bool(w, "trace", o->trace);
}

void probe_failures(struct jw *w, const struct probe_run *r)
{
    jw_object(w);
    jw_key(w, "rows");
    jw_array(w);
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct probe_row *row = &r->rows[i];
        jw_object(w);
        jw_kv_string(w, "path", row->path->key);
        jw_kv_uint(w, "m", row->m);
        jw_kv_uint(w, "products", row->runs);
        jw_kv_string(w, "reason", row->reason);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

int probe_json(struct jw *w, const struct probe_run *r, const struct probe_options *o, struct error *err)
{
    int rc = 0;
    jw_object(w);
    jw_key(w, "device");
    jw_object(w);
    jw_kv_string(w, "requested", r->simulated ? NULL : o->worker.device);
    jw_kv_string(w, "kind", r->kind);
    jw_kv_string(w, "platform", r->platform);
    jw_kv_string(w, "plugin", r->plugin);
    jw_kv_string(w, "plugin_sha256", r->plugin_sha256);
    jw_kv_int(w, "api_major", r->api_major);
    jw_kv_int(w, "api_minor", r->api_minor);
    jw_kv_string(w, "simulated", r->simulated ? o->simulate->key : NULL);
    jw_object_end(w);
    jw_key(w, "rows");
    jw_array(w);
    for (size_t i = 0; i < r->n_rows && !rc; i++)
        rc = row_json(w, &r->rows[i], o, err);
    jw_array_end(w);
    jw_key(w, "elements");
    jw_array(w);
    for (size_t i = 0; i < r->n_cells; i++)
        cell_json(w, &r->cells[i]);
    jw_array_end(w);
    jw_key(w, "claim");
    if (o->claim) {
        jw_object(w);
        jw_kv_string(w, "path", o->claim);
        jw_kv_string(w, "answer", answer_names[r->claim.answer]);
        jw_kv_string(w, "why", r->claim.why);
        jw_object_end(w);
    } else {
        jw_null(w);
    }
    jw_object_end(w);
    return rc;
}

// ---- evidence

static void vector_json(struct jw *w, const struct probe_vector *v)
{
    jw_object(w);
    jw_kv_string(w, "probe", v->probe);
    jw_kv_string(w, "variant", v->variant);
    if (v->fill) {
        jw_key(w, "everywhere_else");
        jw_array(w);
        hex(w, v->fill_a);
        hex(w, v->fill_b);
        jw_array_end(w);
    }
    jw_key(w, "terms"); // place, left, right
    jw_array(w);
    for (size_t i = 0; i < v->n_terms; i++) {
        jw_array(w);
        jw_uint(w, v->terms[i].at);
        hex(w, v->terms[i].a);
        hex(w, v->terms[i].b);
        jw_array_end(w);
    }
    jw_array_end(w);
    jw_key(w, "result");
    hex(w, v->out);
    jw_object_end(w);
}

static void file_name(char *out, size_t n, const char *folder, const struct probe_row *row, const char *end)
{
    snprintf(out, n, "%s/%s-%zux%zux%zu.%s", folder, row->path->key, row->m, row->k, row->n, end);
    for (char *p = out; *p; p++)
        *p = *p == ':' ? '-' : *p;
}

static int write_row(const struct probe_row *row, struct record *record, struct error *err)
{
    const struct probe_batch *b = row->is_float ? &row->flt.evidence : &row->integer.evidence;
    struct str text;
    struct jw w;
    char name[128];
    str_init(&text);
    jw_init(&w, &text, true);
    jw_object(&w);
    jw_kv_string(&w, "path", row->path->key);
    jw_kv_uint(&w, "m", row->m);
    jw_kv_uint(&w, "k", row->k);
    jw_kv_uint(&w, "n", row->n);
    jw_key(&w, "smallest_subtrees"); // of product 0 and 1, 2, ...: the first row of the summation tree
    jw_array(&w);
    const struct probe_tree *t = &row->flt.print.tree;
    for (int i = 0; row->is_float && t->row && i < t->tree.leaves - 1; i++)
        jw_int(&w, t->row[i]);
    jw_array_end(&w);
    jw_key(&w, "vectors");
    jw_array(&w);
    for (size_t i = 0; i < b->count; i++)
        vector_json(&w, &b->vectors[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    file_name(name, sizeof name, "evidence", row, "json");
    if (!rc)
        rc = record_write(record, name, text.text, text.length, err);
    str_release(&text);
    return rc;
}

static int write_program(const struct probe_row *row, struct record *record, struct error *err)
{
    struct str text;
    char name[128];
    str_init(&text);
    int rc = probe_program_text(&text, row->path, row->m, row->k, row->n, err);
    file_name(name, sizeof name, "programs", row, "mlir");
    if (!rc)
        rc = record_write(record, name, text.text, text.length, err);
    str_release(&text);
    file_name(name, sizeof name, "programs", row, "optimized.hlo.pb");
    if (!rc && row->optimized)
        rc = record_write(record, name, row->optimized, row->optimized_length, err);
    return rc;
}

int probe_write_evidence(const struct probe_run *r, struct record *record, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < r->n_rows && !rc; i++) {
        if (r->rows[i].status == PROBE_DONE)
            rc = write_row(&r->rows[i], record, err);
        if (!rc && !r->simulated)
            rc = write_program(&r->rows[i], record, err);
    }
    return rc;
}
