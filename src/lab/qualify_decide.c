// SPDX-License-Identifier: Apache-2.0
// Subsets of the texts, errors of each policy against f64, and which policy to ship.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "lab/qualify.h"

#define LOW_MARGIN_SHARE 0.1 // the tenth of the queries whose nearest text is hardest to tell from the second
#define RARE_PIECES      4
#define LONG_TOKENS      48
#define RELATIVE_FLOOR   1e-3 // of single elements: |error| / max(|reference|, this)

const char *const qualify_subset_names[QUALIFY_SUBSETS] = {"low-margin decisions", "rare words", "long texts"};

const char *const qualify_metrics[] = {"rel_l2",      "max_abs",      "snr_db",     "cosine_min",     "top1",
                                       "top10",       "spearman",     "p50_ms",     "p90_ms",         "min_ms",
                                       "items_per_s", "weight_bytes", "compile_ms", "peak_rss_bytes", NULL};

const char *qualify_subset_rule(const struct qualify *q, int subset, char out[160])
{
    if (subset == 0 && isnan(q->margin_limit))
        snprintf(out, 160, "no embedding of f64 is finite: no margin is known");
    else if (subset == 0)
        snprintf(out, 160, "f64 cosine of the nearest text exceeds the second's by at most %.4g (the lowest tenth)",
                 q->margin_limit);
    else if (subset == 1)
        snprintf(out, 160, "a word of at least %d pieces", RARE_PIECES);
    else
        snprintf(out, 160, "more than %d tokens", LONG_TOKENS);
    return out;
}

int qualify_subsets(struct qualify *q, struct error *err)
{
    size_t n = q->workload.n_texts, columns = (size_t)q->workload.bert.config.hidden_size;
    double *margins = arena_new(&q->arena, double, n, err), *scratch = arena_new(&q->arena, double, n, err);
    double *finite = arena_new(&q->arena, double, n, err);
    for (int s = 0; s < QUALIFY_SUBSETS; s++)
        q->masks[s] = arena_new(&q->arena, uint8_t, n, err);
    if (!margins || !scratch || !finite || !q->masks[0] || !q->masks[1] || !q->masks[2])
        return ERR_MEMORY;
    int rc = retrieval_margins(q->reference, n, columns, margins, err);
    if (rc)
        return rc;
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(margins[i]))
            finite[known++] = margins[i];
    }
    q->margin_limit = known ? stats_quantile(finite, known, LOW_MARGIN_SHARE, scratch) : (double)NAN;
    for (size_t i = 0; i < n; i++) {
        q->masks[0][i] = margins[i] <= q->margin_limit;
        q->masks[1][i] = q->workload.facts[i].most_pieces >= RARE_PIECES;
        q->masks[2][i] = q->workload.facts[i].tokens > LONG_TOKENS;
        for (int s = 0; s < QUALIFY_SUBSETS; s++)
            q->subset_texts[s] += q->masks[s][i];
    }
    return 0;
}

// Lowest cosine of the texts of a subset.
static int subset_cosine(const struct qualify *q, const struct qualify_policy *p, int subset, double *out,
                         struct error *err)
{
    size_t columns = (size_t)q->workload.bert.config.hidden_size;
    struct measures m;
    int rc = 0;
    measures_begin(&m, columns, RELATIVE_FLOOR);
    for (size_t i = 0; i < q->workload.n_texts && !rc; i++) {
        if (q->masks[subset][i])
            rc = measures_add(&m, q->reference + i * columns, DT_F64, p->result + i * columns, 1, err);
    }
    measures_finish(&m);
    *out = m.cosine_min;
    return rc;
}

int qualify_judge(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    size_t n = q->workload.n_texts, columns = (size_t)q->workload.bert.config.hidden_size;
    struct retrieval all[1 + QUALIFY_SUBSETS];
    if (q->workload.program)
        return qualify_judge_program(q, p, err);
    measures_begin(&p->errors, columns, RELATIVE_FLOOR);
    int rc = measures_add(&p->errors, q->reference, DT_F64, p->result, n, err);
    measures_finish(&p->errors);
    if (!rc)
        rc = retrieval_measure(q->reference, p->result, n, columns, (const uint8_t *const *)q->masks, QUALIFY_SUBSETS,
                               q->threads, all, err);
    if (rc)
        return rc;
    p->task = all[0];
    for (int s = 0; s < QUALIFY_SUBSETS && !rc; s++) {
        p->subsets[s] = all[1 + s];
        rc = subset_cosine(q, p, s, &p->subset_cosine_min[s], err);
    }
    return rc;
}

double qualify_metric(const struct qualify *q, const struct qualify_policy *p, const char *metric)
{
    const struct {
        const char *name;
        double value;
    } values[] = {
        {"rel_l2", p->errors.rel_l2},
        {"max_abs", p->errors.max_abs},
        {"snr_db", p->errors.snr_db},
        {"cosine_min", p->errors.cosine_min},
        {"top1", p->task.top1},
        {"top10", p->task.top10},
        {"spearman", p->task.spearman},
        {"p50_ms", p->time.p50},
        {"p90_ms", p->time.p90},
        {"min_ms", p->time.min},
        {"items_per_s", (double)q->workload.batch / (p->time.p50 / 1e3)},
        {"weight_bytes", (double)(p->weight_bytes + p->scale_bytes)},
        {"compile_ms", (double)p->subject.program.compile_ns / 1e6},
        {"peak_rss_bytes", (double)p->memory.peak_rss_bytes},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (strcmp(values[i].name, metric) == 0)
            return p->ok ? values[i].value : NAN;
    }
    return NAN;
}

// What is not finite is no answer, whatever is or is not demanded.
static void check_policy(struct qualify *q, struct qualify_policy *p)
{
    const struct measures *m = &p->errors;
    p->meets = p->ok;
    p->n_unmet = 0;
    if (!p->ok) {
        snprintf(p->unmet[p->n_unmet++], sizeof p->unmet[0], "it could not be run");
        return;
    }
    if (m->nonfinite_reference || m->nonfinite_result) {
        p->meets = false;
        snprintf(p->unmet[p->n_unmet++], sizeof p->unmet[0], "%zu of %zu elements of %s are not finite",
                 m->nonfinite_reference ? m->nonfinite_reference : m->nonfinite_result, m->elements,
                 m->nonfinite_reference ? "the f64 reference"
                 : q->workload.program  ? "its outputs"
                                        : "its embeddings");
    }
    for (int i = 0; i < q->require.n; i++) {
        double value = qualify_metric(q, p, q->require.clauses[i].metric);
        if (!require_holds(&q->require, i, value, p->unmet[p->n_unmet])) {
            p->meets = false;
            p->n_unmet++;
        }
    }
}

static int64_t stored(const struct qualify_policy *p)
{
    return p->weight_bytes + p->scale_bytes;
}

// Cheapest: least device time per item, since that is what is paid for; among those that the paired samples cannot tell
// from the fastest (the same within 1 %, or 1 lies in the interval of the ratio), fewest stored bytes.
static int choose(struct qualify *q, struct error *err)
{
    int fastest = -1, best = -1;
    for (size_t i = 0; i < q->n_policies; i++) {
        const struct qualify_policy *p = &q->policies[i];
        if (p->meets && (fastest < 0 || p->time.p50 < q->policies[fastest].time.p50))
            fastest = (int)i;
    }
    best = fastest;
    for (size_t i = 0; i < q->n_policies && fastest >= 0; i++) {
        const struct qualify_policy *p = &q->policies[i], *f = &q->policies[fastest];
        struct measure_comparison c;
        if (!p->meets || p->n_samples != f->n_samples)
            continue;
        int rc = measure_compare(&c, f->samples_ns, p->samples_ns, p->n_samples, 0.01, 0.95, err);
        if (rc)
            return rc;
        bool tie = c.verdict == VERDICT_SAME || (c.low <= 1 && c.high >= 1);
        if (tie && stored(p) < stored(&q->policies[best]))
            best = (int)i;
    }
    q->chosen = best;
    return 0;
}

// The weight tensor that lost most in a policy; NULL when none lost anything.
static const struct subject_tensor *worst_tensor(const struct qualify_policy *p)
{
    const struct subject_tensor *worst = NULL;
    for (size_t i = 0; i < p->subject.n_tensors; i++) {
        const struct subject_tensor *t = &p->subject.tensors[i];
        if (t->stats.rel_l2 > (worst ? worst->stats.rel_l2 : 0))
            worst = t;
    }
    return worst;
}

// Whether everything that a policy misses is one of these metrics.
static bool misses_only(const struct qualify_policy *p, const char *const *metrics)
{
    bool only = p->n_unmet > 0;
    for (int i = 0; i < p->n_unmet; i++) {
        bool found = false;
        for (const char *const *m = metrics; *m; m++)
            found = found || (strncmp(p->unmet[i], *m, strlen(*m)) == 0 && p->unmet[i][strlen(*m)] == ' ');
        only = only && found;
    }
    return only;
}

static bool all_f32(const struct policy *y)
{
    return y->w == DT_F32 && y->a == DT_F32 && y->op == DT_F32 && y->acc == DT_F32 && y->red == DT_F32 &&
           y->norm == DT_F32 && y->out == DT_F32;
}

// A group that divides the rows of every weight; 0 when none of the usual ones does.
static int usual_group(const struct qualify *q)
{
    int64_t unit = module_contracted_unit(&q->module);
    for (int group = 64; group >= 16; group /= 2) {
        if (unit % group == 0)
            return group;
    }
    return 0;
}

// What would make the numbers better.
static const char *more_precise(struct qualify *q, const struct qualify_policy *p, struct error *err)
{
    const struct policy *y = &p->policy;
    struct arena *a = &q->arena;
    bool integers = y->w == DT_S8 || y->w == DT_S4, scaled = policy_has_scales(y->op);
    const char *w = dtype_name(y->w), *op = dtype_name(y->a);
    int group = usual_group(q);
    bool half = y->w == DT_F16 || y->a == DT_F16 || y->op == DT_F16 || y->acc == DT_F16 || y->out == DT_F16;
    if (p->errors.nonfinite_result && half)
        return arena_printf(a, err, "%s: numbers beyond the range of f16: --policy bf16 reaches as far as f32",
                            y->name);
    if (p->errors.nonfinite_result)
        return arena_printf(a, err, "%s: numbers beyond the range of f32: check the weights", y->name);
    if (integers && y->w_grain == GRAIN_GROUP && y->w_group > 16 && y->w_group % 2 == 0)
        return arena_printf(a, err, "%s: finer groups: --policy w=%s/group:%lld,a=%s", y->name, dtype_name(y->w),
                            (long long)(y->w_group / 2), dtype_name(y->a));
    if (y->w == DT_S4)
        return arena_printf(a, err, "%s: more bits: --policy w8a16", y->name);
    if (scaled && (y->a_static || y->a_grain == GRAIN_TENSOR))
        return arena_printf(a, err, "%s: a scale for every row, made in every call: --policy w=%s/channel,a=%s/row",
                            y->name, w, op);
    if (scaled && y->w_grain == GRAIN_TENSOR)
        return arena_printf(a, err, "%s: a scale for every channel: --policy w=%s/channel,a=%s/row", y->name, w, op);
    if (scaled && dtype_is_float(y->op))
        return arena_printf(a, err, "%s: wider activations keep the stored bytes: --policy w=%s/channel,a=bf16",
                            y->name, w);
    if (scaled)
        return arena_printf(a, err, "%s: floating activations keep the stored bytes: --policy w8a16", y->name);
    if (integers && y->w_grain != GRAIN_GROUP && group)
        return arena_printf(a, err, "%s: groups in place of channels: --policy w=%s/group:%d,a=%s", y->name,
                            dtype_name(y->w), group, dtype_name(y->a));
    if (!all_f32(y))
        return arena_printf(a, err, "%s: a wider float format: --policy f32", y->name);
    return arena_printf(a, err, "%s: the requirement asks for more than arithmetic in f32 gives", y->name);
}

static const char *nonfinite_advice(struct qualify *q, struct error *err)
{
    char found[320] = "";
    if (q->workload.program && exported_find_nonfinite(q->workload.program, &q->workload.checkpoint, found, err))
        return NULL;
    return found[0] ? arena_printf(&q->arena, err, "%s, so that f64 gives no finite result: check it", found)
                    : arena_strdup(&q->arena,
                                   q->workload.program ? "the program itself gives no finite f64 result on these inputs"
                                                       : "the weights give no finite f64 result: check the checkpoint",
                                   err);
}

static int add_advice(struct qualify *q, const struct qualify_policy *p, struct error *err)
{
    static const char *const time_metrics[] = {"p50_ms", "p90_ms", "min_ms", "items_per_s", NULL};
    static const char *const cost_metrics[] = {"p50_ms",       "p90_ms",     "min_ms",         "items_per_s",
                                               "weight_bytes", "compile_ms", "peak_rss_bytes", NULL};
    const char *name = p->policy.name, *text;
    bool cost_only = misses_only(p, cost_metrics);
    if (p->meets || !p->ok || (p->errors.nonfinite_reference && q->n_advice))
        return 0;
    if (p->errors.nonfinite_reference)
        text = nonfinite_advice(q, err);
    else if (misses_only(p, time_metrics))
        text = arena_printf(&q->arena, err, "%s: accurate enough but too slow; try %s, or another device", name,
                            q->workload.program ? "the program in smaller shapes" : "a smaller --batch or --seq");
    else if (cost_only)
        text = arena_printf(&q->arena, err,
                            "%s: accurate enough but too large; --policy w8a16 and --policy w4a16 store less", name);
    else
        text = more_precise(q, p, err);
    if (!text)
        return ERR_MEMORY;
    if (q->n_advice < QUALIFY_ADVICE)
        q->advice[q->n_advice++] = text;
    const struct subject_tensor *worst = worst_tensor(p);
    bool coded = policy_has_scales(p->policy.w);
    bool finite = !p->errors.nonfinite_reference && !p->errors.nonfinite_result;
    if (!coded || !worst || cost_only || !finite || q->n_advice == QUALIFY_ADVICE)
        return 0;
    text = arena_printf(&q->arena, err,
                        "%s: the weight that loses most is %s (relative L2 %.3g): a floating policy for that layer "
                        "helps first",
                        name, worst->name, worst->stats.rel_l2);
    q->advice[q->n_advice++] = text;
    return text ? 0 : ERR_MEMORY;
}

static int explain(struct qualify *q, struct error *err)
{
    struct str s;
    str_init(&s);
    if (q->chosen >= 0) {
        const struct qualify_policy *p = &q->policies[q->chosen];
        str_addf(&s,
                 "%s %s; of those that the paired samples cannot tell from the fastest it stores least (p50 %.4g ms a "
                 "%s, %.4g MB)",
                 p->policy.name, q->has_require ? "meets the requirement" : "ran", p->time.p50,
                 q->workload.program ? "run" : "batch", (double)stored(p) / 1e6);
    } else {
        str_add(&s, q->has_require ? "no policy meets the requirement" : "no policy gives finite results");
    }
    int rc = str_check(&s, err);
    if (!rc)
        q->reason = arena_strdup(&q->arena, str_text(&s), err);
    str_release(&s);
    return rc ? rc : q->reason ? 0 : ERR_MEMORY;
}

// A floor above the measurement cannot be: then the calibration is wrong for this run, and it is said.
static void doubt_calibration(struct qualify *q)
{
    for (size_t k = 0; k < q->n_chips; k++) {
        for (size_t i = 0; i < q->n_policies; i++) {
            const struct qualify_policy *p = &q->policies[i];
            if (strcmp(q->chips[k]->name, "local") != 0 || !p->ok ||
                !(p->predicted[k].time.value > p->time.p50 * 1e3) || q->host.n_warnings == HOST_WARNINGS)
                continue;
            snprintf(q->host.warnings[q->host.n_warnings++], sizeof q->host.warnings[0],
                     "the floor of %.40s on `local` is longer than what was measured: the products of its calibration "
                     "ran slower; run `assay bench --calibrate` on an idle machine",
                     p->policy.name);
            return;
        }
    }
}

int qualify_decide(struct qualify *q, struct error *err)
{
    for (size_t i = 0; i < q->n_policies; i++)
        check_policy(q, &q->policies[i]);
    doubt_calibration(q);
    int rc = choose(q, err);
    for (size_t i = 0; i < q->n_policies && !rc && q->chosen < 0; i++)
        rc = add_advice(q, &q->policies[i], err);
    return rc ? rc : explain(q, err);
}
