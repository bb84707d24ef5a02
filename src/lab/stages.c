// SPDX-License-Identifier: Apache-2.0
#include "lab/stages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "chips/local.h"
#include "lab/stages_part.h"
#include "num/convert.h"
#include "num/random.h"

static const char *const kinds[STAGES_KINDS] = {"cold", "staged", "resident", "calib", "text", "dit", "vae"};

const char *stages_kind_name(enum stages_kind k)
{
    return kinds[k];
}

int stages_parse(const char *list, bool wanted[STAGES_KINDS], struct error *err)
{
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        int k = 0;
        while (k < STAGES_KINDS && (strlen(kinds[k]) != n || strncmp(kinds[k], at, n) != 0))
            k++;
        if (k == STAGES_KINDS)
            return error_set(err, ERR_USAGE, "--stages",
                             "'%.*s' is no stage: cold, staged, resident (how it is served), calib (products), text, "
                             "dit, vae (modules)",
                             n > 40 ? 40 : (int)n, at);
        wanted[k] = true;
        at += n;
        if (!*at)
            return 0;
    }
}

static const char *model_of(const char *workload)
{
    return strncmp(workload, "builtin:", 8) == 0 ? workload + 8 : workload;
}

bool stages_has(const char *workload)
{
    const struct flux2_config *c = flux2_builtin(model_of(workload));
    return c || flux2_is_folder(workload);
}

static bool same_size(const struct flux2_config *a, const struct flux2_config *b)
{
    return a->dit.double_blocks == b->dit.double_blocks && a->dit.single_blocks == b->dit.single_blocks &&
           a->dit.heads == b->dit.heads && a->text.hidden == b->text.hidden && a->guided == b->guided;
}

// Weights in files must be of the model that was named.
static int check_model(const struct flux2_config *named, const char *path, struct error *err)
{
    struct klein_weights_options o = {.weights = path};
    struct klein_weights w;
    int rc = klein_weights_open(&w, &o, err);
    if (!rc && !klein_weights_are_random(&w) && !same_size(&w.config, named)) {
        const char *is = NULL;
        for (int i = 0; flux2_name(i); i++) {
            if (same_size(flux2_builtin(flux2_name(i)), &w.config))
                is = flux2_name(i);
        }
        rc = error_set(err, ERR_USAGE, "--weights", "%s holds %s, not %s", path, is ? is : "a model of another size",
                       named->name);
    }
    klein_weights_close(&w);
    return rc;
}

int stages_weights(const char *workload, const char *given, struct arena *a, const char **out, struct error *err)
{
    const struct flux2_config *c = flux2_builtin(model_of(workload));
    *out = given;
    if (!c && given)
        return error_set(err, ERR_USAGE, "--weights", "%s has its own", workload);
    if (!c) {
        *out = workload;
        return 0;
    }
    if (given && strncmp(given, "tiny:", 5) == 0)
        return 0;
    if (given && strncmp(given, "random:", 7) != 0)
        return check_model(c, given, err);
    const char *of = given ? strchr(given + 7, ':') : NULL;
    if (of)
        return strcmp(of + 1, c->name) == 0
                   ? 0
                   : error_set(err, ERR_USAGE, "--weights", "'%s' is of another model than %s", given, c->name);
    *out = arena_printf(a, err, "%s:%s", given ? given : "random:1", c->name);
    return *out ? 0 : ERR_MEMORY;
}

// ---- samples

bool stages_f32_is_bf16(double f32_flop_per_s, double f32_error, double bf16_flop_per_s, double bf16_error)
{
    return f32_error * 10 >= bf16_error && f32_flop_per_s * 2 > bf16_flop_per_s;
}

static int run_once(void *context, double *ns, struct error *err)
{
    const struct stages_program *p = context;
    return worker_time(p->worker, p->executable->id, p->args, p->n_args, 1, ns, err);
}

// The same as a run that leaves spans, which timed ones do not.
static int run_for_trace(void *context, double *ns, struct error *err)
{
    const struct stages_program *p = context;
    size_t n = p->executable->n_devices * p->executable->n_outputs;
    int *outputs = malloc((n + 1) * sizeof *outputs);
    uint64_t took = 0;
    int rc = outputs ? worker_execute(p->worker, p->executable->id, p->args, p->n_args, outputs, n, &took, err)
                     : error_set(err, ERR_MEMORY, NULL, "no memory for %zu outputs", n);
    *ns = (double)took;
    for (size_t i = 0; i < n && !rc; i++)
        rc = worker_free(p->worker, outputs[i], err);
    free(outputs);
    return rc;
}

// Three flat runs, or three seconds of them: what is timed here takes from milliseconds to minutes.
static struct measure_warmup_policy warmup_of(const struct stages_options *o)
{
    struct measure_warmup_policy p = measure_warmup_default();
    p.window = 3;
    p.max_ns = 3e9;
    p.max_runs = o->warmup >= 0 ? (size_t)o->warmup : 50;
    return p;
}

// The samples themselves, in rounds with those of another device where there is one.
static int take(struct stages *s, struct stages_series *to, int64_t samples, stages_call *call, void *context,
                const char *what, const struct progress *progress, struct error *err)
{
    struct turn *turn = s->options->turn;
    bool paired;
    int rc = turn_meet(turn, (size_t)samples, true, &paired, err);
    for (int64_t i = 0; i < samples && !rc; i++) {
        if (paired)
            rc = turn_begin(turn, err);
        if (rc)
            return rc;
        progress_report(progress, what, (size_t)i, (size_t)samples);
        rc = interrupt_check(what, err);
        if (!rc)
            rc = call(context, &to->ns[to->n], err);
        to->n += !rc;
        if (paired)
            turn_end(turn);
    }
    if (paired && !rc)
        turn_leave(turn);
    return rc;
}

static int sample(struct stages *s, struct stages_series *to, int64_t samples, bool warms, stages_call *call,
                  void *context, const char *what, const struct progress *progress, struct error *err)
{
    double ns;
    int rc = interrupt_check(what, err);
    progress_report(progress, what, 0, (size_t)samples);
    if (!rc)
        rc = call(context, &to->first_ns, err);
    if (!rc)
        progress_report(progress, what, 0, (size_t)samples);
    measure_warmup_init(&to->warmup, warmup_of(s->options));
    while (warms && !rc && to->warmup.runs < to->warmup.policy.max_runs && to->warmup.state == WARMUP_COLD) {
        rc = interrupt_check(what, err);
        if (!rc)
            rc = call(context, &ns, err);
        if (!rc)
            measure_warmup_add(&to->warmup, ns);
    }
    to->ns = rc ? NULL : arena_new(&s->arena, double, (size_t)samples, err);
    if (!rc && !to->ns)
        return ERR_MEMORY;
    if (!rc)
        rc = take(s, to, samples, call, context, what, progress, err);
    if (!rc)
        rc = measure_summarize(&to->ms, to->ns, to->n, 0.95, NULL, err);
    measure_summary_scale(&to->ms, 1e-6);
    return rc;
}

int stages_time(struct stages *s, struct stages_series *to, const struct stages_program *p, const char *what,
                const struct progress *progress, struct error *err)
{
    void *context = (void *)(uintptr_t)p;
    int rc = sample(s, to, s->options->samples, true, run_once, context, what, progress, err);
    if (!rc && s->options->trace)
        rc = stages_traced(s, to, p->worker, p, run_for_trace, context, what, progress, err);
    return rc;
}

int stages_sample(struct stages *s, struct stages_series *to, int64_t samples, bool warms, stages_call *call,
                  void *context, const char *what, const struct progress *progress, struct error *err)
{
    int rc = sample(s, to, samples, warms, call, context, what, progress, err);
    if (!rc && s->options->trace)
        rc = stages_traced(s, to, s->klein.worker, NULL, call, context, what, progress, err);
    return rc;
}

// ---- inputs and outputs

int stages_random(uint64_t seed, const struct shape *shape, void **out, struct error *err)
{
    size_t n = (size_t)shape_elements(shape);
    struct random_numpy r;
    float *wide = malloc(n * sizeof *wide + 1);
    *out = malloc((size_t)shape_bytes(shape) + 1);
    int rc = wide && *out ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for %zu numbers", n);
    if (!rc) {
        random_numpy_seed(&r, seed);
        random_numpy_standard_normal_f32(&r, wide, n);
        rc = convert_elements(shape->dtype, *out, DT_F32, wide, n, err);
    }
    free(wide);
    if (rc) {
        free(*out);
        *out = NULL;
    }
    return rc;
}

// ---- the pipeline

int stages_open(struct stages *s, enum klein_serving serving, bool lazy, const struct progress *progress,
                struct error *err)
{
    struct klein *k = &s->klein;
    struct klein_options o = s->options->klein;
    if (s->opened && k->serving == serving)
        return 0;
    stages_close(s);
    o.serving = serving;
    o.traced = s->options->trace;
    o.lazy = lazy;
    s->opened = true;
    int rc = klein_open(k, &o, progress, err);
    if (rc)
        return rc;
    const struct worker_info *i = worker_info(k->worker);
    s->kernels_with = i->kernels ? arena_strdup(&s->arena, i->kernels, err) : NULL;
    s->kernels_absent = i->no_kernels ? arena_strdup(&s->arena, i->no_kernels, err) : NULL;
    if (serving != KLEIN_COLD && !lazy)
        stages_see_kernels(s);
    return (i->kernels && !s->kernels_with) || (i->no_kernels && !s->kernels_absent) ? ERR_MEMORY : 0;
}

void stages_see_kernels(struct stages *s)
{
    if (!s->kernels_known)
        s->kernels = s->klein.kernels;
    s->kernels_known = true;
}

void stages_close(struct stages *s)
{
    if (s->opened)
        klein_close(&s->klein);
    s->opened = false;
}

// Which chip the device is, from a worker that does nothing else.
static int identify(struct stages *s, struct error *err)
{
    struct worker_options o = s->options->klein.worker;
    struct worker *w = NULL;
    const struct chip *local = NULL;
    o.kernels = false;
    host_read(&s->host, "/");
    int rc = worker_start(&w, &o, err);
    if (rc) {
        worker_stop(w);
        return rc;
    }
    const struct worker_info *i = worker_info(w);
    const char *kind = i->devices[i->device].kind;
    snprintf(s->device, sizeof s->device, "%s", kind);
    snprintf(s->plugin_sha256, sizeof s->plugin_sha256, "%s", i->plugin_sha256);
    s->chip = chip_by_device_kind(kind);
    if (strcmp(i->platform_name, "cpu") == 0) {
        rc = chip_get(&s->arena, "local", s->host.model, s->plugin_sha256, &local, err);
        s->chip = rc ? NULL : local;
        s->chip_is_local = true;
        if (!rc && !isnan(local->rate[CHIP_F32].value))
            s->calibrated = local;
    }
    worker_stop(w);
    return rc;
}

static int read_model(struct stages *s, struct error *err)
{
    const struct stages_options *o = s->options;
    struct klein_weights w;
    int rc = klein_weights_open(&w, &o->klein.weights, err);
    if (rc) {
        klein_weights_close(&w);
        return rc;
    }
    const struct flux2_config *c = &w.config;
    size_t tokens = (size_t)(o->klein.text_tokens ? o->klein.text_tokens : c->text_tokens);
    struct str cut;
    str_init(&cut);
    s->model = arena_strdup(&s->arena, w.name, err);
    s->source = w.source;
    s->random = klein_weights_are_random(&w);
    s->height = o->klein.height;
    s->width = o->klein.width;
    s->batch = o->klein.batch ? o->klein.batch : 1;
    s->steps = o->klein.steps ? o->klein.steps : c->steps;
    s->text_tokens = (int64_t)tokens;
    s->guidance = c->guided ? (isnan(o->klein.guidance) ? 4 : o->klein.guidance) : NAN;
    s->ids = arena_new(&s->arena, int32_t, 2 * tokens, err); // the prompt's, and the empty one's
    s->mask = arena_new(&s->arena, int32_t, 2 * tokens, err);
    rc = s->model && s->ids && s->mask ? 0 : ERR_MEMORY;
    if (!rc)
        rc = image_prompt_encode(w.tokenizer, c, o->prompt, s->ids, s->mask, &s->prompt, &cut, err);
    for (int i = 0; i < FLUX2_COMPONENTS && !rc; i++) {
        size_t bytes;
        rc = klein_weights_bytes(&w, (enum flux2_component)i, &bytes, err);
        s->weight_bytes += rc ? 0 : (int64_t)bytes;
    }
    struct policy p;
    if (!rc)
        rc = policy_parse(&p, o->klein.policy, err);
    if (!rc)
        snprintf(s->policy, sizeof s->policy, "%s", p.name);
    str_release(&cut);
    klein_weights_close(&w);
    return rc;
}

static bool wants_modules(const struct stages_options *o)
{
    return o->wanted[STAGES_TEXT] || o->wanted[STAGES_DIT] || o->wanted[STAGES_VAE];
}

static bool wants_pipeline(const struct stages_options *o)
{
    return wants_modules(o) || o->wanted[STAGES_COLD] || o->wanted[STAGES_STAGED] || o->wanted[STAGES_RESIDENT];
}

static void begin(struct stages *s, const struct stages_options *o)
{
    memset(s, 0, sizeof *s);
    arena_init(&s->arena);
    s->options = o;
}

int stages_check(const struct stages_options *o, struct klein_need *need, struct error *err)
{
    bool any = false;
    for (int i = 0; i < STAGES_KINDS; i++)
        any = any || o->wanted[i];
    if (!any)
        return error_set(err, ERR_USAGE, "--stages", "names no stage");
    if (o->samples < 2)
        return error_set(err, ERR_USAGE, "--samples", "must be at least 2 with --stages: one sample has no spread");
    struct stages s;
    begin(&s, o);
    int rc = read_model(&s, err); // sizes, names and shapes of weights, the prompt, the policy
    struct klein_options k = o->klein;
    k.serving = o->wanted[STAGES_RESIDENT] ? KLEIN_RESIDENT : KLEIN_STAGED;
    if (need)
        *need = (struct klein_need){.bytes = 0, .free = -1, .on_host = true};
    if (!rc && wants_pipeline(o))
        rc = klein_check(&k, need, err);
    stages_release(&s);
    return rc;
}

int stages_run(struct stages *s, const struct stages_options *o, struct record *record, const struct progress *progress,
               struct error *err)
{
    begin(s, o);
    s->record = record;
    int rc = read_model(s, err);
    if (!rc)
        rc = identify(s, err);
    if (!rc && o->wanted[STAGES_CALIB])
        rc = stages_run_calib(s, progress, err);
    for (int i = STAGES_COLD; i <= STAGES_RESIDENT && !rc; i++) {
        if (o->wanted[i])
            rc = stages_run_serving(s, (enum stages_kind)i, progress, err);
    }
    if (!rc && (o->wanted[STAGES_COLD] || o->wanted[STAGES_STAGED] || o->wanted[STAGES_RESIDENT]))
        rc = stages_read_disk(s, err);
    if (!rc && wants_modules(o))
        rc = stages_run_modules(s, progress, err);
    stages_close(s);
    return rc;
}

void stages_release(struct stages *s)
{
    stages_close(s);
    arena_release(&s->arena);
}

// ---- what follows from the times

struct quantity stages_mfu(const struct whole_floor *floor, double measured_ms, bool sheet)
{
    struct quantity math = floor->time[WHOLE_MATH];
    double share = math.value / (measured_ms * 1e3);
    if (isnan(math.value))
        return quantity_make(NAN, "1", ORIGIN_DERIVED, math.source);
    if (sheet && share > 1)
        return quantity_make(NAN, "1", ORIGIN_DERIVED,
                             "above 1: the time is not of finished work, or the sheet is of another device, type or "
                             "sparsity");
    return quantity_make(share, "1", ORIGIN_DERIVED, "arithmetic at the peak / p50");
}

struct stages_sums stages_sums_of(const struct stages *s)
{
    static const enum stages_module_kind of[] = {STAGES_M_TEXT, STAGES_M_PREPARE, STAGES_M_STEPWISE, STAGES_M_VAE};
    const struct stages_serving *r = &s->serving[STAGES_RESIDENT];
    struct stages_sums sums = {.modules = 0, .request = NAN, .outside = NAN};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const struct stages_module *m = &s->modules[of[i]];
        sums.modules += m->done ? m->time.ms.p50 * m->calls : NAN;
    }
    if (r->done) {
        sums.request = r->request.ms.p50;
        sums.outside = r->outside_p50_ms;
    }
    sums.difference = sums.request - sums.modules;
    sums.in_turn = sums.difference - sums.outside;
    return sums;
}
