// SPDX-License-Identifier: Apache-2.0
// The decision report: six parts, each with what it needs. What is not known is said to be, with what would find out.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "lab/qualify.h"
#include "lab/qualify_why.h"

static const char *const part_names[QUALIFY_PARTS] = {"Workload", "Hardware",       "Precision policy",
                                                      "Evidence", "Interpretation", "Scope"};

struct writer {
    struct qualify *q;
    const struct qualify_policy *p; // that was chosen; else the first that ran
    int part;
    struct error *err;
    int rc;
};

static void add(struct writer *w, const char *item, const char *says, const char *find_out)
{
    struct qualify_part *part = &w->q->report[w->part];
    if (!w->rc && part->n == QUALIFY_ITEMS)
        w->rc = error_set(w->err, ERR_INTERNAL, part_names[w->part], "has more items than there is room for");
    if (w->rc)
        return;
    part->items[part->n++] = (struct qualify_item){item, says, find_out};
}

static const char *text(struct writer *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static const char *text(struct writer *w, const char *fmt, ...)
{
    struct str s;
    va_list ap;
    str_init(&s);
    va_start(ap, fmt);
    str_addv(&s, fmt, ap);
    va_end(ap);
    const char *out = str_check(&s, w->err) ? NULL : arena_strdup(&w->q->arena, str_text(&s), w->err);
    str_release(&s);
    if (!out)
        w->rc = ERR_MEMORY;
    return out;
}

// This run again, with something else.
static const char *again(struct writer *w, const char *more)
{
    const char *const names[] = {w->p->policy.name};
    const char *out = qualify_command(w->q, names, 1, more, w->err);
    if (!out)
        w->rc = ERR_MEMORY;
    return out;
}

// The clauses of the requirement that name one of these metrics, joined by "and"; NULL: none does.
static const char *required(struct writer *w, const char *const *metrics)
{
    static const char *const operators[] = {"<=", ">=", "<", ">", "=="};
    struct str s;
    str_init(&s);
    for (int i = 0; w->q->has_require && i < w->q->require.n; i++) {
        const struct require_clause *c = &w->q->require.clauses[i];
        for (const char *const *m = metrics; *m; m++) {
            if (strcmp(*m, c->metric) == 0)
                str_addf(&s, "%s%s %s %g", s.length ? " and " : "", c->metric, operators[c->op], c->limit);
        }
    }
    const char *out = s.length ? text(w, "%s", str_text(&s)) : NULL;
    str_release(&s);
    return out;
}

// ---- 1

static void lengths(struct writer *w)
{
    const struct workload *l = &w->q->workload;
    double *tokens = arena_new(&w->q->arena, double, l->n_texts, w->err);
    double *scratch = arena_new(&w->q->arena, double, l->n_texts, w->err);
    if (!tokens || !scratch) {
        w->rc = ERR_MEMORY;
        return;
    }
    for (size_t i = 0; i < l->n_texts; i++)
        tokens[i] = (double)l->facts[i].tokens;
    double padded = (double)l->n_texts * (double)l->seq;
    add(w, "sequence lengths",
        text(w,
             "%.0f to %.0f tokens, half of them up to %.0f, nine tenths up to %.0f; padded to %lld, so that %.0f %% of "
             "the "
             "positions are padding; %zu text%s cut",
             stats_quantile(tokens, l->n_texts, 0, scratch), stats_quantile(tokens, l->n_texts, 1, scratch),
             stats_quantile(tokens, l->n_texts, 0.5, scratch), stats_quantile(tokens, l->n_texts, 0.9, scratch),
             (long long)l->seq, 100 * (1 - (double)l->n_tokens / padded), l->n_truncated,
             l->n_truncated == 1 ? " was" : "s were"),
        NULL);
}

static void text_workload(struct writer *w)
{
    const struct workload *l = &w->q->workload;
    add(w, "modality", "text", NULL);
    add(w, "objective", "sentence embeddings: each text is a query over all others, ranked by cosine", NULL);
    add(w, "batches",
        text(w, "%zu text%s in %zu run%s of %lld, the last of which holds %zu", l->n_texts, l->n_texts == 1 ? "" : "s",
             l->n_batches, l->n_batches == 1 ? "" : "s", (long long)l->batch,
             l->n_texts - (l->n_batches - 1) * (size_t)l->batch),
        NULL);
    add(w, "how requests arrive", NULL, again(w, text(w, "--batch %lld", (long long)(l->batch > 1 ? 1 : 32))));
    lengths(w);
    add(w, "training or serving", "serving: one forward pass, without gradients, optimizer or cache", NULL);
}

static void workload(struct writer *w)
{
    static const char *const quality[] = {"rel_l2", "max_abs", "snr_db",   "cosine_min",
                                          "top1",   "top10",   "spearman", NULL};
    static const char *const time[] = {"p50_ms", "p90_ms", "min_ms", "items_per_s", NULL};
    const struct workload *l = &w->q->workload;
    if (l->program) {
        add(w, "modality", NULL, "an exported program does not say what its arguments are");
        add(w, "objective", "every output of the program, against the same graph in f64", NULL);
        add(w, "batches", text(w, "%zu case%s, each a run of the program", l->n_batches, l->n_batches == 1 ? "" : "s"),
            NULL);
        add(w, "how requests arrive", NULL, "more cases in the archive of --inputs");
        add(w, "sequence lengths", "as the program's shapes have them", NULL);
        add(w, "training or serving", "one run of the program; whether it trains is in what it computes", NULL);
    } else {
        text_workload(w);
    }
    const char *metric = required(w, quality), *target = required(w, time);
    const char *measures = l->program
                               ? "agreement with f64 (relative L2, cosine); no limit was declared"
                               : "agreement with f64 (relative L2, cosine, top-1, top-10, Spearman); no limit was "
                                 "declared";
    add(w, "quality metric", metric ? metric : measures,
        metric
            ? NULL
            : again(w, l->program ? "--require 'cosine_min>=0.999'" : "--require 'cosine_min>=0.999 and top1>=0.99'"));
    add(w, "latency target", target, target ? NULL : again(w, "--require 'p50_ms<=20'"));
}
// ---- 2

// What of each policy's program our own kernels run.
static void kernels(struct writer *w)
{
    struct str all, one;
    if (strcmp(w->q->device->platform_name, "cpu") != 0)
        return;
    str_init(&all);
    str_init(&one);
    for (size_t i = 0; i < w->q->n_policies; i++) {
        const struct qualify_policy *p = &w->q->policies[i];
        if (!p->ok)
            continue;
        str_clear(&one);
        subject_kernels_text(&p->subject, &one);
        str_addf(&all, "%s%s: %s", all.length ? "; " : "", p->policy.name,
                 one.length ? str_text(&one) : "none: not asked for");
    }
    add(w, "own kernels", text(w, "%s", str_text(&all)), NULL);
    if (all.failed || one.failed)
        w->rc = ERR_MEMORY;
    str_release(&all);
    str_release(&one);
}

static void hardware(struct writer *w)
{
    const struct worker_info *d = w->q->device;
    const struct worker_device *own = &d->devices[d->device];
    bool cpu = strcmp(d->platform_name, "cpu") == 0;
    const struct host_facts *h = &w->q->host;
    const struct chip *chip = NULL;
    struct error unknown = {0};
    int processes = 1;
    if (!cpu)
        chip_find(own->kind, &chip, &unknown);
    for (size_t i = 0; i < d->n_devices; i++)
        processes = d->devices[i].process_index >= processes ? d->devices[i].process_index + 1 : processes;
    add(w, "generation",
        cpu ? text(w, h->cores > 0 ? "%s (%s), %lld core%s" : "%s (%s)", h->model, h->architecture, (long long)h->cores,
                   h->cores == 1 ? "" : "s")
        : chip ? text(w, "%s: %s", chip->name, own->kind)
               : own->kind,
        NULL);
    if (cpu)
        add(w, "physical chips",
            text(w, h->sockets > 0 ? "none but the CPU: sockets %lld" : "none but the CPU", (long long)h->sockets),
            NULL);
    else
        add(w, "physical chips",
            chip ? text(w, "%zu, of %d device%s each",
                        (d->n_devices + (size_t)chip->devices_per_chip - 1) / (size_t)chip->devices_per_chip,
                        chip->devices_per_chip, chip->devices_per_chip == 1 ? "" : "s")
                 : NULL,
            chip ? NULL : "assay devices");
    add(w, "hosts", text(w, "%d", processes), NULL);
    add(w, "devices (as JAX counts them)",
        text(w, "%zu, of which one was used: %s:%d", d->n_devices, d->platform_name, own->id), NULL);
    if (cpu)
        add(w, "topology", "one host, nothing between devices", NULL);
    else
        add(w, "topology", own->attributes[0] ? own->attributes : NULL, own->attributes[0] ? NULL : "assay devices");
    add(w, "backend that ran", text(w, "%s %s, %s", d->platform_name, d->platform_version, d->plugin_path), NULL);
    kernels(w);
    add(w, "versions",
        text(w, "assay %s, PJRT %d.%d, plugin of SHA-256 %.16s...; %s", ASSAY_VERSION, d->api_major, d->api_minor,
             d->plugin_sha256, d->attributes[0] ? d->attributes : "the plugin tells no more"),
        NULL);
}

// ---- 3

static const char *grain(const struct writer *w, enum dtype type, enum granularity g, int64_t group, char out[64])
{
    (void)w;
    if (!policy_has_scales(type))
        snprintf(out, 64, "no scales");
    else if (g == GRAIN_GROUP)
        snprintf(out, 64, "a scale for every %lld values of a row", (long long)group);
    else
        snprintf(out, 64, g == GRAIN_CHANNEL ? "a scale for every row" : "one scale for each tensor");
    return out;
}

static void precision(struct writer *w)
{
    const struct policy *y = &w->p->policy;
    char weights[64], activations[64];
    bool scaled = policy_has_scales(y->a);
    grain(w, y->w, y->w_grain, y->w_group, weights);
    grain(w, y->a, y->a_grain, 0, activations);
    add(w, "policy", text(w, "%s%s", y->name, w->q->chosen >= 0 ? ", the one that was chosen" : ", the first that ran"),
        NULL);
    add(w, "weights", text(w, "%s, %s; biases and norms %s", dtype_name(y->w), weights, dtype_name(y->vectors)), NULL);
    add(w, "activations",
        scaled ? text(w, "%s where they enter products, %s, %s; %s between", dtype_name(y->a), activations,
                      y->a_static ? "static" : "made in every call", dtype_name(y->between))
               : dtype_name(y->a),
        NULL);
    add(w, "operands", text(w, "%s; inside attention %s", dtype_name(y->op), dtype_name(y->op_inner)), NULL);
    add(w, "accumulators", dtype_name(y->acc), NULL);
    add(w, "reductions", text(w, "%s; normalisation %s", dtype_name(y->red), dtype_name(y->norm)), NULL);
    add(w, "gradients", "not applicable: nothing is trained", NULL);
    add(w, "optimizer state", "not applicable: nothing is trained", NULL);
    add(w, "cache", "not applicable: every text is one forward pass", NULL);
    add(w, "scale granularity", text(w, "weights: %s; activations: %s", weights, activations), NULL);
    if (y->a_static)
        add(w, "calibration split",
            text(w, "%zu %s of %s, none of which is among those that are judged (texts.json has their hashes)",
                 w->q->ranges.workload.n_texts, w->q->workload.program ? "cases" : "texts",
                 w->q->ranges.workload.text_path),
            NULL);
    else
        add(w, "calibration split",
            scaled ? "none: scales are made from the values of each call" : "none: no activation has a scale", NULL);
    if (w->p->n_products > 0)
        add(w, "multiplied as",
            text(w, "%s by %s, most of %d kind%s of product in the optimised program",
                 dtype_name(w->p->products[0].lhs), dtype_name(w->p->products[0].rhs), w->p->n_products,
                 w->p->n_products == 1 ? "" : "s"),
            NULL);
    else
        add(w, "multiplied as", NULL, "assay probe --dtype-claim");
}

// ---- 4

static const struct qualify_file *file_named(const struct qualify *q, const char *name)
{
    for (size_t i = 0; i < q->n_files; i++) {
        size_t n = strlen(q->files[i].path), k = strlen(name);
        if (n >= k && strcmp(q->files[i].path + n - k, name) == 0)
            return &q->files[i];
    }
    return NULL;
}

static void evidence(struct writer *w)
{
    const struct qualify *q = w->q;
    const struct qualify_policy *p = w->p;
    const struct qualify_file *config = file_named(q, "config.json");
    const struct worker_memory_plan *plan = &p->subject.program.memory;
    add(w, "configuration",
        config ? text(w, "%s, SHA-256 %s", config->path, config->sha256) : "config.json of the record", NULL);
    add(w, "source",
        text(w, "weights of SHA-256 %s; the program's own hash is in config.json of the record", q->checkpoint_sha256),
        NULL);
    if (q->workload.program)
        add(w, "input", "the files of inputs, with their hashes, are in table Files", NULL);
    else
        add(w, "input", text(w, "%s, SHA-256 %s", q->workload.text_path, q->workload.text_sha256), NULL);
    add(w, "numerical error",
        isfinite(p->errors.rel_l2) && isfinite(p->errors.cosine_min)
            ? text(w, "relative L2 %.3g, lowest cosine %.7g, against the same graph in f64", p->errors.rel_l2,
                   p->errors.cosine_min)
            : "no figure: values are not finite, or those of the same graph in f64 are all zero",
        NULL);
    if (q->workload.program)
        add(w, "held-out task quality", NULL, "the task's own evaluation of the program's outputs");
    else
        add(w, "held-out task quality",
            text(w, "top-1 %.4g, top-10 %.4g, Spearman %.4g against f64 on %zu text%s%s", p->task.top1, p->task.top10,
                 p->task.spearman, q->workload.n_texts, q->workload.n_texts == 1 ? "" : "s",
                 q->calibrates ? ", none of which calibrated" : ""),
            NULL);
    add(w, "quality against labels", NULL,
        q->workload.program ? "the task's own evaluation under this policy"
                            : text(w, "assay quantize %s OUT --policy %s, and the task's own evaluation on OUT",
                                   q->options->workload.directory, p->policy.name));
    add(w, "synchronised timing",
        text(w,
             "p50 %.4g ms (95 %%: %.4g to %.4g), %zu sample%s after %zu warm-up run%s, each waited for; all are in the "
             "record",
             p->time.p50, p->time.p50_low, p->time.p50_high, p->n_samples, p->n_samples == 1 ? "" : "s", p->warmup.runs,
             p->warmup.runs == 1 ? "" : "s"),
        p->n_samples < 30 ? again(w, "--samples 30") : NULL);
    add(w, "memory",
        plan->temporaries >= 0
            ? text(w, "peak of the process %.4g MB; the compiler plans %.4g MB of arguments, %.4g MB of temporaries",
                   (double)p->memory.peak_rss_bytes / 1e6, (double)plan->arguments / 1e6,
                   (double)plan->temporaries / 1e6)
            : text(w, "peak of the process %.4g MB; the plugin does not say what it plans",
                   (double)p->memory.peak_rss_bytes / 1e6),
        NULL);
    add(w, "trace", p->trace ? text(w, "%s, in the record", p->trace) : NULL, p->trace ? NULL : again(w, "--trace"));
}

// ---- 5

static void hypothesis(struct writer *w)
{
    const struct chip *chip;
    const char *reason;
    struct floor f;
    for (size_t i = 0; i < w->q->n_policies; i++) {
        const struct qualify_why *y = w->q->policies[i].why;
        if (!y || !y->n)
            continue;
        add(w, "bottleneck hypothesis",
            text(w, "of %s against %s: %s. To be tested by changing %s", w->q->policies[i].policy.name,
                 w->q->policies[y->against].policy.name, y->reasons[0].text, y->reasons[0].changes),
            y->reasons[0].command);
        return;
    }
    w->rc = w->rc ? w->rc : qualify_device_chip(w->q, &chip, &reason, w->err);
    if (!w->rc && chip)
        w->rc = roofline_total(w->p->rows, w->p->n_rows, chip, &w->q->arena, &f, w->err);
    if (w->rc)
        return;
    if (!chip || isnan(f.time.value)) {
        add(w, "bottleneck hypothesis", NULL, "assay bench --calibrate, and this run again");
        return;
    }
    add(w, "bottleneck hypothesis",
        text(w, "bound by %s: the floor by this device's rates is %.4g ms, %.0f %% of what was measured",
             bound_name(f.bound), f.time.value / 1e3, f.time.value / (w->p->time.p50 * 1e3) * 100),
        w->q->workload.program ? "the program exported with another batch"
                               : again(w, text(w, "--batch %lld", (long long)w->q->workload.batch * 4)));
}

static void interpretation(struct writer *w)
{
    const struct qualify *q = w->q;
    const struct qualify_policy *p = w->p;
    if (p->has_paired)
        add(w, "what the times show",
            text(w, "%s takes %.3g of the time of the first policy (%.3g to %.3g, %zu pair%s): %s", p->policy.name,
                 p->paired.ratio, p->paired.low, p->paired.high, p->paired.pairs, p->paired.pairs == 1 ? "" : "s",
                 measure_verdict_name(p->paired.verdict)),
            p->paired.verdict == VERDICT_AMBIGUOUS ? again(w, "--samples 100") : NULL);
    else
        add(w, "what the times show", q->n_policies > 1 ? "it is what the others are measured against" : NULL,
            q->n_policies > 1 ? NULL : again(w, "--policy f32"));
    hypothesis(w);
    add(w, "what changed",
        q->n_policies > 1 ? "the policy alone: the same texts, batches and device, in interleaved rounds"
                          : "nothing: one policy ran",
        NULL);
    if (!q->has_require)
        add(w, "whether the target is met", NULL, again(w, "--require 'cosine_min>=0.999 and p50_ms<=20'"));
    else
        add(w, "whether the target is met", q->reason, NULL);
}

// ---- 6

static void scope(struct writer *w)
{
    const struct qualify *q = w->q;
    const struct worker_info *d = q->device;
    bool cpu = strcmp(d->platform_name, "cpu") == 0;
    int failed = 0;
    add(w, "devices", d->n_devices > 1 ? "one of those that are there; nothing is divided" : "one; nothing is divided",
        "assay price MODEL --chip v6e:2x4 ranks layouts");
    add(w, "model or microbenchmark",
        text(w, "the whole model, and whole requests: %.4g ms with tokenising and copies", w->p->request.total_ms),
        NULL);
    add(w, "CPU or TPU",
        cpu ? "CPU: figures of other chips are predictions"
            : text(w, "%s: what is said of others is predicted", d->platform_name),
        cpu ? "the same with --device tpu" : NULL);
    for (size_t i = 0; i < q->n_policies; i++)
        failed += !q->policies[i].ok;
    if (failed)
        add(w, "left to do: policies that failed", text(w, "%d; the report has the cause of each", failed), NULL);
    for (size_t i = 0; i < q->host.n_warnings && i < 3; i++)
        add(w, "left to do: the machine", q->host.warnings[i], NULL);
    if (q->workload.n_truncated)
        add(w, "left to do: long texts", text(w, "%zu were cut", q->workload.n_truncated), NULL);
    add(w, "left to do",
        "quality against labels on the target device, requests as they arrive, load from several callers", NULL);
}

int qualify_report(struct qualify *q, struct error *err)
{
    static void (*const parts[QUALIFY_PARTS])(struct writer *) = {workload, hardware,       precision,
                                                                  evidence, interpretation, scope};
    struct writer w = {.q = q, .err = err};
    for (size_t i = 0; i < q->n_policies && !w.p; i++)
        w.p = q->policies[i].ok ? &q->policies[i] : NULL;
    if (q->chosen >= 0)
        w.p = &q->policies[q->chosen];
    if (!w.p)
        return error_set(err, ERR_INTERNAL, "report", "no policy ran");
    for (w.part = 0; w.part < QUALIFY_PARTS && !w.rc; w.part++) {
        q->report[w.part].n = 0;
        parts[w.part](&w);
    }
    return w.rc;
}

void qualify_report_json(const struct qualify *q, struct jw *w)
{
    jw_key(w, "decision_report");
    jw_array(w);
    for (int i = 0; i < QUALIFY_PARTS; i++) {
        jw_object(w);
        jw_kv_string(w, "part", part_names[i]);
        jw_key(w, "items");
        jw_array(w);
        for (int k = 0; k < q->report[i].n; k++) {
            const struct qualify_item *item = &q->report[i].items[k];
            jw_object(w);
            jw_kv_string(w, "item", item->item);
            jw_kv_string(w, "says", item->says);
            jw_kv_string(w, "find_out", item->find_out);
            jw_object_end(w);
        }
        jw_array_end(w);
        jw_object_end(w);
    }
    jw_array_end(w);
}
