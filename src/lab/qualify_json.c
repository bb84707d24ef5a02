// SPDX-License-Identifier: Apache-2.0
// The documents of qualify: what will be done (config.json) and what came out (assay.qualify/1).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/qualify.h"
#include "lab/qualify_why.h"

// ---- helpers: a quantity under a key

static void measured(struct jw *w, const char *key, double value, const char *unit, const char *source)
{
    quantity_json_kv(w, key, quantity_make(value, unit, ORIGIN_MEASURED, source));
}

// The same; where there is no number, the source is why.
static void measured_or(struct jw *w, const char *key, double value, const char *unit, const char *source,
                        const char *why_not)
{
    measured(w, key, value, unit, isfinite(value) ? source : why_not);
}

// Bytes that a compiler or device reports; negative stands for "not offered".
static void offered(struct jw *w, const char *key, int64_t bytes, enum origin origin, const char *source)
{
    bool known = bytes >= 0;
    quantity_json_kv(w, key,
                     quantity_make(known ? (double)bytes : NAN, "B", known ? origin : ORIGIN_MEASURED,
                                   known ? source : "the plugin does not offer it"));
}

static const char *device_label(const struct qualify *q)
{
    return q->device->devices[q->device->device].kind;
}

// ---- workload, device

static void write_files(const struct qualify *q, struct jw *w)
{
    jw_array(w);
    for (size_t i = 0; i < q->n_files; i++) {
        jw_object(w);
        jw_kv_string(w, "path", q->files[i].path);
        jw_kv_uint(w, "bytes", q->files[i].bytes);
        jw_kv_string(w, "sha256", q->files[i].sha256);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_texts(const struct workload *l, struct jw *w)
{
    jw_kv_int(w, "batch", l->batch);
    jw_kv_int(w, "seq", l->seq);
    jw_kv_uint(w, "texts", l->n_texts);
    jw_kv_uint(w, "blank_lines", l->n_blank);
    jw_kv_uint(w, "tokens", l->n_tokens);
    jw_kv_uint(w, "truncated_texts", l->n_truncated);
    jw_key(w, "text_file");
    jw_object(w);
    jw_kv_string(w, "path", l->text_path);
    jw_kv_uint(w, "bytes", l->text_bytes);
    jw_kv_string(w, "sha256", l->text_sha256);
    jw_object_end(w);
}

static void write_workload(const struct qualify *q, struct jw *w)
{
    const struct workload *l = &q->workload;
    jw_object(w);
    jw_kv_string(w, "name", l->name);
    jw_kv_string(w, "kind", l->program ? "exported program" : "bert sentence embedding");
    jw_kv_int(w, "parameters", bert_parameters(&q->module));
    int64_t weights, scales;
    module_weight_bytes(&q->module, &weights, &scales);
    quantity_json_kv(w, "weight_bytes",
                     quantity_make((double)weights, "B", ORIGIN_DERIVED, "elements of the tensors used, in f32"));
    jw_kv_string(w, "sha256", q->checkpoint_sha256[0] ? q->checkpoint_sha256 : NULL);
    if (l->program)
        qualify_program_json(q, w);
    else
        write_texts(l, w);
    jw_key(w, "files");
    write_files(q, w);
}

static void write_load(const struct qualify *q, struct jw *w)
{
    const struct qualify_policy *p = NULL;
    for (size_t i = 0; i < q->n_policies && !p; i++)
        p = q->policies[i].ok ? &q->policies[i] : NULL;
    jw_key(w, "load");
    if (!p) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "policy", p->policy.name);
    jw_kv_int(w, "zero_copy_bytes", p->subject.weights.zero_copy_bytes);
    jw_kv_int(w, "copied_bytes", p->subject.weights.copied_bytes);
    jw_object_end(w);
}

static void write_extensions(struct jw *w, const char *list)
{
    jw_array(w);
    while (*list) { // "5 FFI, 4 Layouts"
        size_t n = strcspn(list, ",");
        jw_string_n(w, list, n);
        list += n;
        list += strspn(list, ", ");
    }
    jw_array_end(w);
}

static void write_device(const struct qualify *q, struct jw *w)
{
    const struct worker_info *d = q->device;
    char version[32];
    int processes = 1;
    snprintf(version, sizeof version, "%d.%d", d->api_major, d->api_minor);
    jw_object(w);
    jw_kv_string(w, "requested", q->options->worker.device ? q->options->worker.device : "cpu");
    jw_kv_string(w, "platform", d->platform_name);
    jw_kv_string(w, "platform_version", d->platform_version);
    jw_kv_string(w, "kind", device_label(q));
    jw_kv_int(w, "id", d->devices[d->device].id);
    jw_key(w, "plugin");
    jw_object(w);
    jw_kv_string(w, "path", d->plugin_path);
    jw_kv_string(w, "sha256", d->plugin_sha256);
    jw_kv_string(w, "api_version", version);
    jw_key(w, "extensions");
    write_extensions(w, d->extensions);
    jw_kv_string(w, "attributes", d->attributes);
    jw_object_end(w);
    jw_key(w, "devices");
    jw_array(w);
    for (size_t i = 0; i < d->n_devices; i++) {
        jw_object(w);
        jw_kv_int(w, "id", d->devices[i].id);
        jw_kv_string(w, "kind", d->devices[i].kind);
        jw_kv_int(w, "process_index", d->devices[i].process_index);
        jw_kv_bool(w, "local", d->devices[i].local);
        jw_kv_string(w, "attributes", d->devices[i].attributes);
        jw_object_end(w);
        if (d->devices[i].process_index >= processes)
            processes = d->devices[i].process_index + 1;
    }
    jw_array_end(w);
    jw_kv_int(w, "process_count", processes);
    jw_kv_bool(w, "allow_excess_precision", false);
    jw_object_end(w);
}

// ---- modules and chips

static int write_modules(const struct qualify *q, const struct qualify_policy *p, struct jw *w, struct error *err)
{
    struct arena scratch;
    int rc = 0;
    arena_init(&scratch);
    jw_array(w);
    for (int i = 0; i < p->n_rows && !rc; i++) {
        const struct cost *c = &p->rows[i].cost;
        jw_object(w);
        jw_kv_string(w, "name", p->rows[i].group);
        cost_json(c, w);
        jw_key(w, "floors");
        jw_object(w);
        for (size_t k = 0; k < q->n_chips && !rc; k++) {
            struct floor f;
            rc = roofline_floor(c, q->chips[k], &scratch, &f, err);
            jw_key(w, q->chips[k]->name);
            jw_object(w);
            floor_json(&f, w);
            jw_object_end(w);
        }
        jw_object_end(w);
        jw_object_end(w);
    }
    jw_array_end(w);
    arena_release(&scratch);
    return rc;
}

static void write_chips(const struct qualify *q, struct jw *w)
{
    jw_object(w);
    for (size_t k = 0; k < q->n_chips; k++) {
        const struct chip *chip = q->chips[k];
        jw_key(w, chip->name);
        jw_object(w);
        chip_peaks_json(chip, w);
        jw_object_end(w);
    }
    jw_object_end(w);
}

// ---- one policy

static void write_worker_failure(const struct worker_failure *f, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "kind", worker_failure_kind_name(f->kind));
    jw_kv_int(w, "value", f->value);
    jw_kv_string(w, "doing", f->doing);
    jw_kv_string(w, "stderr_tail", f->stderr_tail);
    jw_object_end(w);
}

static void write_failure(const struct qualify_policy *p, struct jw *w)
{
    char message[sizeof p->error.where + sizeof p->error.message + 2];
    bool place = !p->has_failure && p->error.where[0];
    snprintf(message, sizeof message, "%s%s%s", place ? p->error.where : "", place ? ": " : "", p->error.message);
    jw_object(w);
    jw_kv_string(w, "kind",
                 p->has_failure ? worker_failure_kind_name(p->failure.kind) : error_code_name(p->error.code));
    if (p->has_failure)
        jw_kv_int(w, "value", p->failure.value);
    else
        jw_kv_null(w, "value");
    jw_kv_string(w, "doing", p->has_failure ? p->failure.doing : p->error.where);
    jw_kv_string(w, "stderr_tail", p->has_failure ? p->failure.stderr_tail : "");
    jw_kv_string(w, "message", message);
    jw_object_end(w);
}

static void write_memory(const struct qualify_policy *p, struct jw *w)
{
    static const char compiler[] = "the compiler's account of the program";
    const struct worker_memory_plan *m = &p->subject.program.memory;
    jw_key(w, "memory");
    jw_object(w);
    offered(w, "arguments", m->arguments, ORIGIN_DERIVED, compiler);
    offered(w, "outputs", m->outputs, ORIGIN_DERIVED, compiler);
    offered(w, "temporaries", m->temporaries, ORIGIN_DERIVED, compiler);
    offered(w, "aliases", m->aliases, ORIGIN_DERIVED, compiler);
    offered(w, "code", m->code, ORIGIN_DERIVED, compiler);
    offered(w, "device_peak", p->memory.has_device_stats ? p->memory.peak_bytes_in_use : -1, ORIGIN_MEASURED,
            "the device's allocator");
    jw_object_end(w);
}

static void write_task(struct jw *w, const struct retrieval *r)
{
    static const char none[] = "there is no such text";
    measured_or(w, "top1", r->top1, "1", "share of queries whose nearest text is that of f64", none);
    measured_or(w, "top10", r->top10, "1", "mean share of the ten nearest texts that f64 has too", none);
    measured_or(w, "spearman", r->spearman, "1", "mean rank correlation with f64 of all texts by similarity", none);
}

// What the numbers of a program are: each is that of the worst output.
static void write_program_errors(const struct qualify_policy *p, struct jw *w)
{
    char broken[96];
    const struct measures *m = &p->errors;
    bool finite = !m->nonfinite_reference && !m->nonfinite_result;
    snprintf(broken, sizeof broken, "%zu of %zu elements of %s are not finite",
             m->nonfinite_reference ? m->nonfinite_reference : m->nonfinite_result, m->elements,
             m->nonfinite_reference ? "the f64 reference" : "the result");
    const char *why = finite ? "an output is zero in f64" : broken;
    jw_key(w, "errors");
    jw_object(w);
    measured_or(w, "rel_l2", m->rel_l2, "1", "||x - x64|| / ||x64|| of the output where it is largest", why);
    measured_or(w, "max_abs", m->max_abs, "1", "largest |x - x64| of all outputs", why);
    measured_or(w, "snr_db", m->snr_db, "dB", "20 log10(||x64|| / ||x - x64||) of the output where it is lowest",
                finite && isinf(m->snr_db) ? "infinite: there is no error" : why);
    measured_or(w, "cosine_min", m->cosine_min, "1", "lowest cosine with f64 of a row (last dimension) of any output",
                why);
    measured_or(w, "max_relative", m->max_rel, "1", "largest |x - x64| / max(|x64|, 0.001)", why);
    jw_kv_uint(w, "non_finite", m->nonfinite_result);
    jw_object_end(w);
    jw_key(w, "task");
    jw_object(w);
    measured_or(w, "top1", p->task.top1, "1",
                "share of rows whose largest element is where f64 has it, or of equal integers, where it is lowest",
                "no output has rows");
    measured_or(w, "top10", NAN, "1", "", "a program has no ranking");
    measured_or(w, "spearman", NAN, "1", "", "a program has no ranking");
    jw_object_end(w);
    jw_key(w, "subsets");
    jw_array(w);
    jw_array_end(w);
}

static void write_errors(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    char rule[160], broken[96];
    const struct measures *m = &p->errors;
    bool finite = !m->nonfinite_reference && !m->nonfinite_result;
    const char *zero = "every embedding of f64 is zero", *none = "there is no element";
    snprintf(broken, sizeof broken, "%zu of %zu elements of %s are not finite",
             m->nonfinite_reference ? m->nonfinite_reference : m->nonfinite_result, m->elements,
             m->nonfinite_reference ? "the f64 reference" : "the result");
    jw_key(w, "errors");
    jw_object(w);
    measured_or(w, "rel_l2", m->rel_l2, "1", "||x - x64|| / ||x64|| over all texts", finite ? zero : broken);
    measured_or(w, "max_abs", m->max_abs, "1", "largest |x - x64|", finite ? none : broken);
    measured_or(w, "snr_db", m->snr_db, "dB", "20 log10(||x64|| / ||x - x64||)",
                !finite            ? broken
                : isinf(m->snr_db) ? "infinite: there is no error"
                                   : zero);
    measured_or(w, "cosine_min", m->cosine_min, "1", "lowest cosine of a text's embedding with f64's",
                finite ? zero : broken);
    measured_or(w, "max_relative", m->max_rel, "1", "largest |x - x64| / max(|x64|, 0.001)", finite ? none : broken);
    jw_kv_uint(w, "non_finite", m->nonfinite_result);
    jw_object_end(w);
    jw_key(w, "task");
    jw_object(w);
    write_task(w, &p->task);
    jw_object_end(w);
    jw_key(w, "subsets");
    jw_array(w);
    for (int s = 0; s < QUALIFY_SUBSETS; s++) {
        jw_object(w);
        jw_kv_string(w, "name", qualify_subset_names[s]);
        jw_kv_string(w, "rule", qualify_subset_rule(q, s, rule));
        jw_kv_uint(w, "texts", q->subset_texts[s]);
        write_task(w, &p->subsets[s]);
        measured_or(w, "cosine_min", p->subset_cosine_min[s], "1", "lowest cosine with f64 in the subset",
                    q->subset_texts[s] == 0 ? "there is no such text"
                    : finite                ? zero
                                            : broken);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// Per module: what the activations lost in the instrumented run, what the weights lost when they were stored, and the
// channel that lost most.
static void write_diagnostics(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    jw_key(w, "diagnostics");
    jw_array(w);
    for (int g = 0; g < q->n_groups; g++) {
        const struct subject_tensor *worst = NULL;
        int64_t clipped = p->counts[3 * g], bad = p->counts[3 * g + 1], flushed = p->counts[3 * g + 2];
        double low = p->scales[2 * g], high = p->scales[2 * g + 1], weight_low = INFINITY, weight_high = -INFINITY;
        for (size_t i = 0; i < p->subject.n_tensors; i++) {
            const struct subject_tensor *t = &p->subject.tensors[i];
            if (strcmp(t->group, q->groups[g]) != 0)
                continue;
            clipped += (int64_t)t->stats.clipped;
            bad += (int64_t)(t->stats.nonfinite + t->stats.overflowed);
            flushed += (int64_t)t->stats.flushed;
            weight_low = fmin(weight_low, t->stats.scale_min);
            weight_high = fmax(weight_high, t->stats.scale_max);
            if (!worst || t->stats.worst_channel_rel_l2 > worst->stats.worst_channel_rel_l2)
                worst = t;
        }
        jw_object(w);
        jw_kv_string(w, "module", q->groups[g]);
        jw_kv_int(w, "clipped", clipped);
        jw_kv_int(w, "non_finite", bad);
        jw_kv_int(w, "flushed_to_zero", flushed);
        jw_kv_double(w, "scale_min", low);
        jw_kv_double(w, "scale_max", high);
        jw_kv_double(w, "weight_scale_min", weight_low);
        jw_kv_double(w, "weight_scale_max", weight_high);
        jw_key(w, "worst_channel");
        if (worst) {
            jw_object(w);
            jw_kv_string(w, "tensor", worst->name);
            jw_kv_uint(w, "channel", worst->stats.worst_channel);
            jw_kv_double(w, "rel_l2", worst->stats.worst_channel_rel_l2);
            jw_object_end(w);
        } else {
            jw_null(w);
        }
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_kv_uint(w, "diagnosed_texts", p->instrumented_texts);
}

// What was measured ran on the machine that this chip stands for.
static bool is_this_machine(const struct qualify *q, const struct chip *chip)
{
    bool named = strcmp(chip->name, "local") == 0 || strcmp(chip->name, "calibrated") == 0;
    return named && strcmp(q->device->platform_name, "cpu") == 0;
}

static void write_predicted(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    jw_key(w, "predicted");
    jw_object(w);
    for (size_t k = 0; k < q->n_chips; k++) {
        const struct floor *f = &p->predicted[k];
        bool local = is_this_machine(q, q->chips[k]);
        double ratio = local && p->ok ? f->time.value / (p->time.p50 * 1e3) : NAN;
        jw_key(w, q->chips[k]->name);
        jw_object(w);
        floor_json(f, w);
        quantity_json_derived(w, "over_measured", ratio, "1",
                              isnan(ratio) ? "nothing was measured on this chip" : "predicted floor / measured p50");
        jw_object_end(w);
    }
    jw_object_end(w);
}

static void write_request(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    bool program = q->workload.program != NULL;
    const char *source =
        program ? "median of 9 whole calls with the first case" : "median of 9 whole requests for the first batch";
    const struct request_times *t = &p->request;
    jw_key(w, "request");
    jw_object(w);
    measured(w, "tokenize_ms", program ? (double)NAN : t->encode_ms, "ms", program ? "a program takes arrays" : source);
    measured(w, "upload_ms", t->upload_ms, "ms", source);
    measured(w, "run_ms", t->run_ms, "ms", source);
    measured(w, "download_ms", t->download_ms, "ms", source);
    measured(w, "total_ms", t->total_ms, "ms", source);
    jw_object_end(w);
}

static int write_measured(const struct qualify *q, const struct qualify_policy *p, struct jw *w, struct error *err)
{
    const char *device = device_label(q);
    const struct measure_summary *s = &p->time;
    double *ms = malloc((p->n_samples ? p->n_samples : 1) * sizeof *ms);
    if (!ms)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu samples", p->n_samples);
    for (size_t i = 0; i < p->n_samples; i++)
        ms[i] = p->samples_ns[i] / 1e6;
    jw_key(w, "measured");
    jw_object(w);
    measured(w, "compile_ms", (double)p->subject.program.compile_ns / 1e6, "ms", device);
    measured(w, "first_ms", (double)p->subject.first_ns / 1e6, "ms", device);
    measured(w, "upload_ms", (double)p->subject.weights.ns / 1e6, "ms", "making and uploading the weights");
    measured(w, "p50_ms", s->p50, "ms", device);
    measured(w, "p90_ms", s->p90, "ms", device);
    measured(w, "min_ms", s->min, "ms", device);
    measured_or(w, "mad_ms", s->mad, "ms", "median absolute deviation times 1.4826", "one sample has no spread");
    measured_or(w, "ci_low_ms", s->p50_low, "ms", "exact binomial interval of the median, 95 %", "one sample has none");
    measured_or(w, "ci_high_ms", s->p50_high, "ms", "exact binomial interval of the median, 95 %",
                "one sample has none");
    quantity_json_samples(w, "samples_ms", ms, p->n_samples, "ms", device);
    free(ms);
    jw_kv_uint(w, "outliers", s->outliers);
    jw_kv_uint(w, "warmup_runs", p->warmup.runs);
    jw_kv_string(w, "trace", p->trace);
    jw_kv_string(w, "warmup_state",
                 p->warmup.state == WARMUP_FLAT     ? "flat"
                 : p->warmup.state == WARMUP_CAPPED ? "capped"
                                                    : "cold");
    measured(w, "items_per_s", (double)q->workload.batch / (s->p50 / 1e3), "1/s",
             q->workload.program ? "runs: 1 / p50" : "batch / p50");
    measured(w, "peak_rss_bytes", (double)p->memory.peak_rss_bytes, "B", "of the worker process");
    subject_kernels_json(&p->subject, w);
    write_request(q, p, w);
    jw_object_end(w);
    return 0;
}

static void write_paired(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    static const char source[] = "median of the ratios of the rounds, exact binomial interval";
    jw_key(w, "paired");
    if (!p->has_paired) {
        jw_null(w);
        return;
    }
    const struct qualify_policy *first = q->policies;
    while (!first->ok)
        first++;
    jw_object(w);
    jw_kv_string(w, "against", first->policy.name);
    measured(w, "ratio", p->paired.ratio, "1", source);
    measured_or(w, "low", p->paired.low, "1", source, "one pair has no interval");
    measured_or(w, "high", p->paired.high, "1", source, "one pair has no interval");
    jw_kv_uint(w, "pairs", p->paired.pairs);
    jw_kv_string(w, "verdict", measure_verdict_name(p->paired.verdict));
    jw_object_end(w);
}

static int write_policy(const struct qualify *q, const struct qualify_policy *p, struct jw *w, struct error *err)
{
    struct str spec;
    int rc = 0;
    str_init(&spec);
    policy_spell(&p->policy, &spec);
    jw_object(w);
    jw_kv_string(w, "policy", p->policy.name);
    jw_kv_string(w, "spec", str_text(&spec));
    str_release(&spec);
    jw_kv_string(w, "status", p->ok ? "ok" : "failed");
    jw_key(w, "failure");
    if (p->ok)
        jw_null(w);
    else
        write_failure(p, w);
    jw_key(w, "parts");
    policy_parts_json(&p->policy, module_keeps_types(&q->module, &p->policy), w);
    quantity_json_derived(w, "weight_bytes", (double)p->weight_bytes, "B", "values and codes as they are stored");
    quantity_json_derived(w, "scale_bytes", (double)p->scale_bytes, "B", "scales, f32");
    jw_key(w, "modules");
    rc = write_modules(q, p, w, err);
    write_predicted(q, p, w);
    qualify_predictions_json(q, p, w);
    if (p->ok && !rc) {
        offered(w, "device_weight_bytes", p->subject.weights.device_bytes, ORIGIN_MEASURED, "what the device holds");
        write_memory(p, w);
        if (q->workload.program)
            write_program_errors(p, w);
        else
            write_errors(q, p, w);
        qualify_outputs_json(q, p, w);
        write_diagnostics(q, p, w);
        qualify_activations_json(q, p, w);
        qualify_products_json(p, w);
        rc = write_measured(q, p, w, err);
        write_paired(q, p, w);
        qualify_why_json(q, p, w);
    }
    jw_key(w, "meets");
    if (q->has_require)
        jw_bool(w, p->meets);
    else
        jw_null(w);
    jw_key(w, "unmet");
    jw_array(w);
    for (int i = 0; i < p->n_unmet; i++)
        jw_string(w, p->unmet[i]);
    jw_array_end(w);
    jw_object_end(w);
    return rc;
}

static void write_decision(const struct qualify *q, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "require", q->has_require ? q->require.text : NULL);
    jw_key(w, "met_by");
    jw_array(w);
    for (size_t i = 0; i < q->n_policies && q->has_require; i++) {
        if (q->policies[i].meets)
            jw_string(w, q->policies[i].policy.name);
    }
    jw_array_end(w);
    jw_kv_string(w, "chosen", q->chosen >= 0 ? q->policies[q->chosen].policy.name : NULL);
    jw_kv_string(w, "reason", q->reason);
    jw_key(w, "advice");
    jw_array(w);
    for (int i = 0; i < q->n_advice; i++)
        jw_string(w, q->advice[i]);
    jw_array_end(w);
    jw_object_end(w);
}

int qualify_json(const struct qualify *q, struct jw *w, struct error *err)
{
    jw_object(w);
    jw_key(w, "workload");
    int rc = 0;
    write_workload(q, w);
    write_load(q, w);
    jw_object_end(w);
    rc = qualify_calibration_json(q, w, err);
    jw_key(w, "device");
    write_device(q, w);
    jw_key(w, "host");
    host_json(w, &q->host);
    jw_key(w, "chips");
    write_chips(q, w);
    const struct qualify_policy *shown = &q->policies[q->chosen >= 0 ? q->chosen : 0];
    jw_kv_string(w, "modules_policy", shown->policy.name);
    jw_key(w, "modules");
    if (!rc)
        rc = write_modules(q, shown, w, err);
    jw_key(w, "policies");
    jw_array(w);
    for (size_t i = 0; i < q->n_policies && !rc; i++)
        rc = write_policy(q, &q->policies[i], w, err);
    jw_array_end(w);
    jw_key(w, "decision");
    write_decision(q, w);
    qualify_report_json(q, w);
    measured(w, "reference_s", (double)q->reference_ns / 1e9, "s",
             "the f64 reference: start, compile and all texts or cases");
    measured(w, "wall_s", q->wall_s, "s", "clock of the run, from the reference to the decision");
    jw_object_end(w);
    return rc;
}

void qualify_config(const struct qualify *q, struct jw *w)
{
    const struct qualify_options *o = q->options;
    struct str spec;
    jw_key(w, "workload");
    write_workload(q, w);
    jw_object_end(w);
    qualify_calibration_json(q, w, NULL); // what is left unwritten for want of memory fails the document
    jw_kv_string(w, "require", o->require);
    jw_kv_bool(w, "emulate", o->emulate);
    jw_kv_bool(w, "kernels", o->worker.kernels);
    jw_kv_bool(w, "trace", o->trace);
    jw_kv_string(w, "device", o->worker.device ? o->worker.device : "cpu");
    jw_key(w, "chips");
    jw_array(w);
    for (size_t i = 0; i < o->n_chips; i++)
        jw_string(w, o->chips[i]);
    jw_array_end(w);
    jw_kv_string(w, "measured_rates", o->calibration);
    jw_key(w, "targets");
    jw_array(w);
    for (size_t i = 0; i < o->n_targets; i++)
        jw_string(w, o->targets[i]);
    jw_array_end(w);
    jw_key(w, "policies");
    jw_array(w);
    str_init(&spec);
    for (size_t i = 0; i < q->n_policies; i++) {
        str_clear(&spec);
        policy_spell(&q->policies[i].policy, &spec);
        jw_object(w);
        jw_kv_string(w, "policy", q->policies[i].policy.name);
        jw_kv_string(w, "spec", str_text(&spec));
        jw_object_end(w);
    }
    str_release(&spec);
    jw_array_end(w);
    jw_kv_int(w, "samples", o->samples);
    jw_kv_int(w, "warmup", o->warmup);
    jw_kv_uint(w, "seed", o->seed);
    jw_kv_int(w, "threads", o->worker.threads);
    jw_kv_bool(w, "allow_excess_precision", false);
    jw_kv_string(w, "reference", "the same graph in f64 on the CPU");
    jw_key(w, "device_found");
    if (q->device)
        write_device(q, w);
    else
        jw_null(w);
}

void qualify_failures(const struct qualify *q, struct jw *w)
{
    jw_object(w);
    jw_key(w, "worker");
    if (q->has_failure)
        write_worker_failure(&q->failure, w);
    else
        jw_null(w);
    jw_key(w, "policies");
    jw_array(w);
    for (size_t i = 0; i < q->n_policies; i++) {
        const struct qualify_policy *p = &q->policies[i];
        if (p->ok || !p->error.code)
            continue;
        jw_object(w);
        jw_kv_string(w, "policy", p->policy.name);
        jw_key(w, "failure");
        write_failure(p, w);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}
