// SPDX-License-Identifier: Apache-2.0
// Programs that somebody exported: what cannot be asked of them, the errors of their outputs, and what the document
// says.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/qualify.h"

#define RELATIVE_FLOOR 1e-3 // of single elements, as for embeddings

// ---- what is refused

static int check_metrics(const struct qualify *q, struct error *err)
{
    for (int i = 0; i < q->require.n && q->has_require; i++) {
        const char *metric = q->require.clauses[i].metric;
        if (strcmp(metric, "top10") == 0 || strcmp(metric, "spearman") == 0)
            return error_set(err, ERR_USAGE, "--require",
                             "%s is of rankings of texts; a program has rel_l2, max_abs, snr_db, cosine_min and top1 "
                             "(rows whose largest element is where f64 has it), and what is measured of time and bytes",
                             metric);
    }
    return 0;
}

int qualify_check_program(const struct qualify *q, struct error *err)
{
    const struct exported *e = q->workload.program;
    bool weights = false;
    for (int i = 0; i < e->n_arguments; i++)
        weights |= e->arguments[i].role == ROLE_WEIGHT;
    int rc = check_metrics(q, err);
    if (!rc)
        rc = exported_check_policies(e, err);
    for (size_t i = 0; i < q->n_policies && !rc; i++)
        rc = exported_check_codes(e, &q->policies[i].policy, err);
    if (!rc && weights && !e->has_weights)
        rc = error_set(
            err, ERR_USAGE, "--weights",
            "is needed: --weight-args says which arguments are weights, and what a policy does to random ones "
            "says nothing of yours");
    return rc ? rc : exported_check_random(e, err);
}

// ---- errors of the outputs

static size_t columns_of(const struct shape *s)
{
    int64_t last = s->rank ? s->dims[s->rank - 1] : 1;
    return (size_t)(last > 1 ? last : shape_elements(s));
}

static size_t largest(const double *row, size_t n)
{
    size_t at = 0;
    for (size_t i = 1; i < n; i++) {
        if (row[i] > row[at] || isnan(row[at]))
            at = i;
    }
    return at;
}

static int add_output(struct qualify_output *o, const struct shape *s, const double *reference, const double *result,
                      struct error *err)
{
    size_t n = (size_t)shape_elements(s), columns = columns_of(s);
    if (!dtype_is_float(s->dtype)) {
        o->rows += n;
        for (size_t i = 0; i < n; i++)
            o->same += reference[i] == result[i];
        return 0;
    }
    if (!n)
        return 0;
    int rc = measures_add(&o->errors, reference, DT_F64, result, n / columns, err);
    for (size_t i = 0; i < n && !rc && s->rank > 1 && columns < n; i += columns) {
        o->rows++;
        o->same += largest(reference + i, columns) == largest(result + i, columns);
    }
    return rc;
}

// The worst of the outputs, each by itself: a small output must not hide behind a large one.
static void add_worst(struct measures *all, const struct measures *m)
{
    all->elements += m->elements;
    all->nonfinite_reference += m->nonfinite_reference;
    all->nonfinite_result += m->nonfinite_result;
    if (m->reference2 == 0 && m->error2 == 0 && !m->nonfinite_reference && !m->nonfinite_result)
        return; // zero as it should be: it has no relative error
    // NaN is worse than any number.
    all->rel_l2 = isnan(m->rel_l2) || m->rel_l2 > all->rel_l2 ? m->rel_l2 : all->rel_l2;
    all->max_abs = isnan(m->max_abs) || m->max_abs > all->max_abs ? m->max_abs : all->max_abs;
    all->max_rel = isnan(m->max_rel) || m->max_rel > all->max_rel ? m->max_rel : all->max_rel;
    all->snr_db = isnan(m->snr_db) || m->snr_db < all->snr_db ? m->snr_db : all->snr_db;
    all->cosine_min = isnan(m->cosine_min) || m->cosine_min < all->cosine_min ? m->cosine_min : all->cosine_min;
}

int qualify_judge_program(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    const struct exported *e = q->workload.program;
    const struct module *m = &e->module;
    p->outputs = arena_new(&q->arena, struct qualify_output, m->n_results, err);
    if (!p->outputs)
        return ERR_MEMORY;
    p->errors = (struct measures){.snr_db = INFINITY, .cosine_min = 1, .floor = RELATIVE_FLOOR};
    p->task = (struct retrieval){.top1 = NAN, .top10 = NAN, .spearman = NAN};
    size_t at = 0;
    for (int i = 0; i < m->n_results; i++) {
        struct qualify_output *o = &p->outputs[i];
        const struct shape *s = &m->instructions[m->results[i]].shape;
        int rc = 0;
        measures_begin(&o->errors, columns_of(s), RELATIVE_FLOOR);
        for (size_t k = 0; k < e->n_cases && !rc; k++)
            rc = add_output(o, s, q->reference + k * e->values + at, p->result + k * e->values + at, err);
        if (rc)
            return rc;
        measures_finish(&o->errors);
        at += (size_t)shape_elements(s);
        if (o->errors.elements)
            add_worst(&p->errors, &o->errors);
        double same = o->rows ? (double)o->same / (double)o->rows : (double)NAN;
        if (o->rows && !(p->task.top1 <= same))
            p->task.top1 = same;
    }
    return 0;
}

// ---- documents

static void write_shape(struct jw *w, const struct shape *s)
{
    struct str text;
    str_init(&text);
    shape_print(&text, s);
    jw_kv_string(w, "shape", str_text(&text));
    str_release(&text);
}

static void write_arguments(const struct exported *e, struct jw *w)
{
    static const char *const sources[] = {
        [ARGUMENT_TENSOR] = "tensor", [ARGUMENT_ARRAY] = "array", [ARGUMENT_RANDOM] = "random"};
    jw_key(w, "arguments");
    jw_array(w);
    for (int i = 0; i < e->n_arguments; i++) {
        const struct argument *g = &e->arguments[i];
        jw_object(w);
        jw_kv_int(w, "index", i);
        jw_kv_string(w, "name", g->name);
        write_shape(w, &g->shape);
        jw_kv_string(w, "role", g->role == ROLE_WEIGHT ? "weight" : "input");
        jw_kv_string(w, "source", sources[g->source]);
        jw_kv_string(w, "from", g->from);
        jw_object_end(w);
    }
    jw_array_end(w);
}

void qualify_program_json(const struct qualify *q, struct jw *w)
{
    const struct exported *e = q->workload.program;
    jw_kv_uint(w, "cases", e->n_cases);
    jw_key(w, "program");
    jw_object(w);
    program_file_json("file", &e->program.file, w);
    write_arguments(e, w);
    jw_kv_uint(w, "unused_tensors", e->n_unused);
    jw_kv_string(w, "inputs", e->inputs_path);
    if (!e->inputs_path) {
        jw_kv_string(w, "random_inputs", "floats uniform in [-1, 1) from the seed and the index of the argument");
        jw_kv_uint(w, "seed", e->seed);
    }
    jw_object_end(w);
}

static void measured(struct jw *w, const char *key, double value, const char *unit, const char *source)
{
    quantity_json_kv(w, key, quantity_make(value, unit, ORIGIN_MEASURED, source));
}

static void write_output(const struct qualify_output *o, const char *name, const struct shape *s, struct jw *w)
{
    const struct measures *m = &o->errors;
    char broken[96];
    bool floats = dtype_is_float(s->dtype), finite = !m->nonfinite_reference && !m->nonfinite_result;
    snprintf(broken, sizeof broken, "%zu of %zu elements of %s are not finite",
             m->nonfinite_reference ? m->nonfinite_reference : m->nonfinite_result, m->elements,
             m->nonfinite_reference ? "the f64 reference" : "the result");
    const char *why = !floats ? "it is not of floats" : !m->elements ? "it has no element" : !finite ? broken : NULL;
    const char *zero = why ? why : "it is zero in f64";
    jw_object(w);
    jw_kv_string(w, "name", name);
    write_shape(w, s);
    measured(w, "rel_l2", m->elements ? m->rel_l2 : NAN, "1", isfinite(m->rel_l2) ? "||x - x64|| / ||x64||" : zero);
    measured(w, "max_abs", m->elements ? m->max_abs : NAN, "1", why ? why : "largest |x - x64|");
    measured(w, "snr_db", m->elements ? m->snr_db : NAN, "dB",
             why                ? why
             : isinf(m->snr_db) ? "infinite: there is no error"
                                : "20 log10(||x64|| / ||x - x64||)");
    measured(w, "cosine_min", m->elements ? m->cosine_min : NAN, "1",
             isfinite(m->cosine_min) ? "lowest cosine of a row with f64's" : zero);
    measured(w, "same", o->rows ? (double)o->same / (double)o->rows : (double)NAN, "1",
             !o->rows ? "it has no rows to compare"
             : floats ? "share of rows whose largest element is where f64 has it"
                      : "share of elements that are equal");
    jw_kv_uint(w, "non_finite", m->nonfinite_result);
    jw_object_end(w);
}

void qualify_outputs_json(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    jw_key(w, "outputs");
    if (!q->workload.program) {
        jw_null(w);
        return;
    }
    const struct module *m = &q->workload.program->module;
    jw_array(w);
    for (int i = 0; i < m->n_results; i++)
        write_output(&p->outputs[i], m->result_names[i], &m->instructions[m->results[i]].shape, w);
    jw_array_end(w);
}
