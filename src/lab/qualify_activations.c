// SPDX-License-Identifier: Apache-2.0
// What qualify says of quantised activations: how their scales were made, what was clipped, which products ran.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/qualify.h"

// Values that one activation had on the texts that were looked at, padding left out.
static int64_t values_of(const struct qualify *q, const struct qualify_policy *p, int i)
{
    const struct activation *a = &q->activations[i];
    int64_t rows = 0;
    if (!a->masked)
        rows = a->rows * (int64_t)((p->instrumented_texts + (size_t)q->workload.batch - 1) / (size_t)q->workload.batch);
    if (a->masked && q->workload.program)
        rows = exported_mask_rows(q->workload.program, p->instrumented_texts);
    for (size_t t = 0; t < p->instrumented_texts && a->masked && !q->workload.program; t++) {
        size_t tokens = q->workload.facts[t].tokens, most = (size_t)q->workload.seq;
        rows += (int64_t)(tokens < most ? tokens : most);
    }
    return rows * a->columns;
}

static void write_range(const struct policy *p, int i, struct jw *w)
{
    if (!p->a_static || i >= p->n_ranges)
        return;
    float scale;
    int zero;
    policy_static_scale(p, p->ranges[i], &scale, &zero);
    jw_kv_double(w, "low", (double)p->ranges[i].low);
    jw_kv_double(w, "high", (double)p->ranges[i].high);
    jw_kv_double(w, "scale", (double)scale);
    jw_kv_int(w, "zero_point", zero);
}

void qualify_activations_json(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    jw_key(w, "activations");
    if (!p->n_activations) {
        jw_null(w);
        return;
    }
    int64_t clipped = 0, values = 0;
    jw_object(w);
    jw_kv_string(w, "scales", p->policy.a_static ? "static" : "dynamic");
    jw_key(w, "percentile");
    if (p->policy.a_static)
        jw_double(w, p->policy.a_percentile);
    else
        jw_null(w);
    jw_key(w, "list");
    jw_array(w);
    for (int i = 0; i < p->n_activations; i++) {
        int64_t n = values_of(q, p, i);
        clipped += p->clipped[i];
        values += n;
        jw_object(w);
        jw_kv_string(w, "name", q->activations[i].scope);
        jw_kv_string(w, "module", q->activations[i].group);
        jw_kv_int(w, "values", n);
        jw_kv_int(w, "clipped", p->clipped[i]);
        write_range(&p->policy, i, w);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_kv_int(w, "values", values);
    jw_kv_int(w, "clipped", clipped);
    quantity_json_kv(w, "clip_rate",
                     quantity_make(values ? (double)clipped / (double)values : NAN, "1", ORIGIN_MEASURED,
                                   !values               ? "there is no value"
                                   : q->workload.program ? "values beyond the codes / values, of the cases that were "
                                                           "looked at"
                                                         : "values beyond the codes / values, of the texts of --text "
                                                           "that were looked at, padding left out"));
    jw_kv_uint(w, "texts", p->instrumented_texts);
    jw_object_end(w);
}

static const char *known(enum dtype t)
{
    return t == DT_INVALID ? "?" : dtype_name(t);
}

// Whether some product takes operands of the type asked for; true when it is not known.
static bool ran_as_asked(const struct qualify_policy *p)
{
    bool found = p->n_products < 0;
    for (int i = 0; i < p->n_products && !found; i++)
        found = p->products[i].lhs == p->policy.op;
    return found;
}

void qualify_products_json(const struct qualify_policy *p, struct jw *w)
{
    const char *op = dtype_name(p->policy.op);
    char note[256] = "";
    if (p->emulation)
        snprintf(note, sizeof note, "emulated: %s", p->emulation);
    else if (!ran_as_asked(p))
        snprintf(note, sizeof note,
                 "no product of %s operands is left in the optimised program: the compiler widened "
                 "them, so this is not the time of a device that has them",
                 op);
    jw_kv_bool(w, "emulated", p->emulation != NULL);
    jw_key(w, "products");
    jw_object(w);
    jw_kv_string(w, "asked", op);
    jw_key(w, "ran");
    if (p->n_products < 0) {
        jw_null(w);
    } else {
        jw_array(w);
        for (int i = 0; i < p->n_products; i++) {
            jw_object(w);
            jw_kv_string(w, "lhs", known(p->products[i].lhs));
            jw_kv_string(w, "rhs", known(p->products[i].rhs));
            jw_kv_string(w, "result", known(p->products[i].result));
            jw_kv_int(w, "count", p->products[i].count);
            jw_object_end(w);
        }
        jw_array_end(w);
    }
    jw_kv_string(w, "note", note);
    jw_object_end(w);
}

int qualify_calibration_json(const struct qualify *q, struct jw *w, struct error *err)
{
    const struct ranges *r = &q->ranges;
    const struct workload *l = &r->workload;
    jw_key(w, "calibration");
    if (!r->open) {
        jw_null(w);
        return 0;
    }
    jw_object(w);
    jw_key(w, "text_file");
    jw_object(w);
    jw_kv_string(w, "path", l->text_path);
    jw_kv_uint(w, "bytes", l->text_bytes);
    jw_kv_string(w, "sha256", l->text_sha256);
    jw_object_end(w);
    jw_kv_uint(w, "texts", l->n_texts);
    jw_kv_uint(w, "tokens", l->n_tokens);
    jw_kv_uint(w, "truncated_texts", l->n_truncated);
    jw_kv_string(w, "arithmetic",
                 l->program ? "the program as it is, on the device"
                            : "the model in f32 on the device, padding left out");
    jw_key(w, "split");
    int rc = split_json(&r->split, false, w, err);
    jw_object_end(w);
    return rc;
}
