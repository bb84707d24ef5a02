// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/quantity.h"
#include "lab/quantize_file.h"

#define REL_L2_SOURCE "||x' - x|| / ||x||, x as f32, sums in f64"
#define ZERO_SOURCE   "every value is zero, or none was quantised"

static void write_errors(const struct quantize_stats *s, struct jw *w)
{
    double rel = quantize_rel_l2(s), snr = quantize_snr_db(s);
    quantity_json_derived(w, "rel_l2", rel, "1", isnan(rel) ? ZERO_SOURCE : REL_L2_SOURCE);
    quantity_json_derived(w, "snr", snr, "dB",
                          isnan(snr)   ? ZERO_SOURCE
                          : isinf(snr) ? "infinite: there is no error"
                                       : "10 log10(||x||^2 / ||x' - x||^2)");
}

static void write_counts(const struct quantize_stats *s, struct jw *w)
{
    jw_kv_uint(w, "elements", s->elements);
    jw_kv_uint(w, "not_finite", s->nonfinite);
    jw_kv_uint(w, "nan", s->nan);
    jw_kv_uint(w, "beyond_f32", s->beyond_f32);
    jw_kv_uint(w, "clipped", s->clipped);
    jw_kv_uint(w, "flushed", s->flushed);
    jw_kv_uint(w, "overflowed", s->overflowed);
    jw_kv_uint(w, "scales_raised", s->scales_raised);
    jw_kv_uint(w, "scales_lowered", s->scales_lowered);
}

static void write_stats(const struct quantize_stats *s, struct jw *w)
{
    write_counts(s, w);
    jw_kv_double(w, "rel_l2", quantize_rel_l2(s));
    jw_kv_double(w, "snr_db", quantize_snr_db(s));
    jw_kv_double(w, "max_abs_error", s->max_abs_error);
    jw_kv_double(w, "amax", s->amax);
    jw_kv_double(w, "outlier_ratio", quantize_outlier_ratio(s));
    jw_key(w, "worst_row");
    if (isnan(s->worst_row_rel_l2)) {
        jw_null(w);
    } else {
        jw_object(w);
        jw_kv_uint(w, "row", s->worst_row);
        jw_kv_double(w, "rel_l2", s->worst_row_rel_l2);
        jw_object_end(w);
    }
    jw_kv_double(w, "scale_min", s->scale_min);
    jw_kv_double(w, "scale_max", s->scale_max);
    jw_kv_double(w, "bound_in_scales", s->bound_in_scales);
    jw_kv_double(w, "max_error_in_scales", s->max_error_in_scales);
    jw_key(w, "bound_holds");
    if (isnan(s->bound_in_scales))
        jw_null(w);
    else
        jw_bool(w, s->bound_holds);
}

static void write_tensor(const struct quantize_tensor *t, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "name", t->view->name);
    jw_key(w, "shape");
    jw_array(w);
    for (int d = 0; d < t->view->rank; d++)
        jw_int(w, t->view->dims[d]);
    jw_array_end(w);
    jw_kv_string(w, "action", quantize_action_name(t->action));
    jw_kv_string(w, "reason", t->reason);
    jw_kv_string(w, "from", t->from);
    jw_kv_string(w, "to", t->to);
    jw_kv_uint(w, "bytes_before", t->bytes_before);
    jw_kv_uint(w, "bytes_after", t->bytes_after);
    jw_kv_string(w, "codes", t->codes);
    jw_kv_string(w, "scales", t->scales);
    jw_kv_string(w, "zero_points", t->zeros);
    jw_kv_string(w, "global_scale", t->tensor_scale);
    jw_key(w, "stats");
    if (t->action == QUANTIZE_DONE) {
        jw_object(w);
        jw_kv_uint(w, "rows", t->rows);
        jw_kv_uint(w, "columns", t->columns);
        write_stats(&t->stats, w);
        jw_object_end(w);
    } else {
        jw_null(w);
    }
    jw_object_end(w);
}

static void write_policy(const struct quantize_file *q, struct jw *w)
{
    struct str text;
    str_init(&text);
    quantize_policy_spell(&q->policy, &text);
    jw_kv_string(w, "policy", q->policy.text);
    jw_kv_string(w, "fields", str_text(&text));
    str_clear(&text);
    quantize_policy_describe(&q->policy, &text);
    jw_kv_string(w, "rule", str_text(&text));
    str_release(&text);
}

void quantize_file_json(const struct quantize_file *q, const struct quantize_options *o, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "in", q->in);
    jw_kv_string(w, "out", q->out);
    write_policy(q, w);
    jw_key(w, "source");
    jw_array(w);
    for (size_t i = 0; i < q->source_count; i++) {
        jw_object(w);
        jw_kv_string(w, "path", q->checkpoint.files[i].path);
        jw_kv_uint(w, "bytes", q->sources[i].bytes);
        jw_kv_string(w, "sha256", q->sources[i].sha256);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_key(w, "skip");
    jw_array(w);
    for (size_t i = 0; i < o->n_skip; i++) {
        jw_object(w);
        jw_kv_string(w, "pattern", o->skip[i]);
        jw_kv_uint(w, "tensors", q->skip_matches[i]);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_kv_string(w, "trace", o->trace);
    quantity_json_derived(w, "file_bytes", (double)q->file_bytes, "B", "of the file written, header and all");
    quantity_json_derived(w, "bytes_before", (double)q->bytes_before, "B", "data of all tensors in the source");
    quantity_json_derived(w, "bytes_after", (double)q->bytes_after, "B",
                          "codes, scales, zero points and what was kept");
    jw_kv_uint(w, "quantised", q->quantised);
    jw_kv_uint(w, "kept", q->count - q->quantised);
    jw_key(w, "total");
    jw_object(w);
    write_counts(&q->total, w);
    write_errors(&q->total, w);
    jw_object_end(w);
    jw_key(w, "activations");
    if (q->calibration)
        quantize_calibration_json(q->calibration, w);
    else
        jw_null(w);
    jw_key(w, "tensors");
    jw_array(w);
    for (size_t i = 0; i < q->count; i++)
        write_tensor(&q->tensors[i], w);
    jw_array_end(w);
    jw_object_end(w);
}
