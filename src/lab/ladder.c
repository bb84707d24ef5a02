// SPDX-License-Identifier: Apache-2.0
#include "lab/ladder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/inject.h"
#include "ir/retype.h"
#include "lab/ladder_part.h"
#include "lab/stage.h"
#include "num/convert.h"

static const struct ladder_model *const models[] = {&ladder_flux2, &ladder_bert, &ladder_decoder};
enum { MODELS = sizeof models / sizeof models[0] };

const char *ladder_verdict_name(enum ladder_verdict v)
{
    static const char *const names[] = {"pass", "warn", "FAIL"};
    return names[v];
}

const char *ladder_band_name(enum ladder_band b)
{
    static const char *const names[] = {"f64", "f32", "bf16"};
    return names[b];
}

// ---- scores

static enum ladder_verdict verdict_of(const struct ladder *l, const struct ladder_rung *rung,
                                      const struct ladder_score *s)
{
    if (s->exact)
        return LADDER_PASS;
    if (s->nonfinite || rung->exact)
        return LADDER_FAIL;
    if (l->band == LADDER_BF16)
        return s->snr_db >= rung->db ? LADDER_PASS : s->snr_db >= rung->db - LADDER_WARN_DB ? LADDER_WARN : LADDER_FAIL;
    double bound = rung->relative * (l->band == LADDER_F64 ? LADDER_F64_SHARE : 1);
    return s->relative <= bound ? LADDER_PASS : s->relative <= bound * LADDER_WARN_FACTOR ? LADDER_WARN : LADDER_FAIL;
}

static void score(const struct ladder *l, const struct ladder_rung *rung, const double *want, const double *got,
                  size_t n, struct ladder_score *s)
{
    double low = INFINITY, high = -INFINITY, largest = 0, signal = 0, noise = 0;
    size_t finite = 0;
    *s = (struct ladder_score){.known = true, .exact = true};
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(want[i]) || !isfinite(got[i])) {
            bool same = want[i] == got[i] || (isnan(want[i]) && isnan(got[i]));
            s->nonfinite += !same;
            s->exact = s->exact && same;
            continue;
        }
        double off = got[i] - want[i];
        finite++;
        low = fmin(low, want[i]);
        high = fmax(high, want[i]);
        largest = fmax(largest, fabs(want[i]));
        s->max_abs = fmax(s->max_abs, fabs(off));
        signal += want[i] * want[i];
        noise += off * off;
        s->exact = s->exact && off == 0;
    }
    double range = high - low, rms = sqrt(noise / (double)finite);
    s->relative = s->max_abs == 0 ? 0 : s->max_abs / largest;
    s->snr_db = 10 * log10(signal / noise);
    s->psnr_db = 20 * log10(range / rms);
    if (noise == 0)
        s->snr_db = s->psnr_db = INFINITY;
    s->verdict = verdict_of(l, rung, s);
}

static const struct ladder_model *model_of(const struct ladder *l)
{
    for (size_t i = 0; i < MODELS; i++) {
        if (strcmp(models[i]->name, l->reference.model) == 0)
            return models[i];
    }
    return NULL;
}

static const struct ladder_rung *rung_of(const struct ladder *l, const char *program, const char *name)
{
    const struct ladder_model *m = model_of(l);
    for (const struct ladder_place *p = m->places; p->program; p++) {
        if (strcmp(p->program, program) == 0 && strncmp(name, p->prefix, strlen(p->prefix)) == 0) {
            for (int i = 0; i < l->n_rungs; i++) {
                if (l->rungs[i].number == p->rung)
                    return &l->rungs[i];
            }
        }
    }
    return &l->rungs[l->n_rungs - 1];
}

static int key_of(struct ladder *l, const char *program, const char *name, struct ladder_key **out, struct error *err)
{
    const struct ladder_rung *rung = rung_of(l, program, name);
    program = ladder_case_program(&l->reference, program, err);
    if (!program)
        return ERR_MEMORY;
    for (size_t i = 0; i < l->n_keys; i++) {
        if (strcmp(l->keys[i].program, program) == 0 && strcmp(l->keys[i].name, name) == 0) {
            *out = &l->keys[i];
            return 0;
        }
    }
    void *grown = arena_grow(&l->arena, l->keys, &l->cap_keys, l->n_keys + 1, sizeof *l->keys, err);
    if (!grown)
        return ERR_MEMORY;
    l->keys = grown;
    struct ladder_key *k = &l->keys[l->n_keys++];
    *k = (struct ladder_key){.program = program, .name = arena_strdup(&l->arena, name, err), .rung = rung};
    *out = k;
    return k->name ? 0 : ERR_MEMORY;
}

int ladder_value(struct ladder *l, const char *program, const char *name, bool chained, const double *values, size_t n,
                 struct error *err)
{
    const struct shape shape = SHAPE(DT_F64, (int64_t)n);
    struct ladder_key *key;
    void *want;
    if (!ladder_tap(&l->reference, program, name))
        return 0;
    int rc = ladder_tap_read(&l->reference, program, name, &shape, &want, err);
    if (!rc)
        rc = key_of(l, program, name, &key, err);
    if (!rc) {
        key->elements = n;
        score(l, key->rung, want, values, n, chained ? &key->chained : &key->injected);
    }
    free(want);
    return rc;
}

int ladder_host_value(struct ladder *l, const char *program, const char *name, enum dtype type, const void *values,
                      size_t n, struct error *err)
{
    double *wide = malloc((n + 1) * sizeof *wide);
    int rc = wide ? convert_elements(DT_F64, wide, type, values, n, err)
                  : error_set(err, ERR_MEMORY, program, "no memory for %zu values", n);
    if (!rc)
        rc = ladder_value(l, program, name, false, wide, n, err);
    free(wide);
    return rc;
}

int ladder_rope(struct ladder *l, const char *program, const float *cosine, const float *sine, size_t n,
                struct error *err)
{
    int rc = ladder_host_value(l, program, "rope_cos", DT_F32, cosine, n, err);
    return rc ? rc : ladder_host_value(l, program, "rope_sin", DT_F32, sine, n, err);
}

// ---- programs

static int rewritten(const struct ladder *l, const struct module *f32, struct module *to, struct error *err)
{
    struct module policy;
    if (l->wide)
        return module_retype_f64(f32, to, err);
    module_init(&policy, to->arena, f32->name);
    int rc = module_apply_policy(f32, &l->policy, false, &policy, err);
    return rc ? rc : module_matmul_precision(&policy, l->options->precision, l->emulated, to, err);
}

static int set_inputs(struct ladder *l, struct stage *s, const char *program, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < s->module->n_parameters && !rc; i++) {
        const struct parameter *p = &s->module->parameters[i];
        bool injected = strncmp(p->name, INJECT_PREFIX, strlen(INJECT_PREFIX)) == 0;
        void *bytes = NULL;
        if (p->role != ROLE_INPUT)
            continue;
        rc = ladder_tap_read(&l->reference, program, p->name + (injected ? strlen(INJECT_PREFIX) : 0),
                             stage_input_shape(s, i), &bytes, err);
        if (!rc)
            rc = stage_upload(s, p->name, bytes, err);
        free(bytes);
    }
    return rc;
}

// Which runs of the ladder a run of a program stands for.
enum standing { INJECTED = 1, CHAINED = 2 };

static int take_result(struct ladder *l, struct stage *s, const char *program, int i, int buffer, int standing,
                       struct error *err)
{
    const struct shape *shape = stage_result(s, i);
    size_t n = (size_t)shape_elements(shape);
    void *raw = malloc((size_t)shape_bytes(shape) + 1);
    double *values = malloc((n + 1) * sizeof *values);
    int rc = raw && values ? stage_download(s, i, buffer, raw, err)
                           : error_set(err, ERR_MEMORY, program, "no memory for %zu values", n);
    if (!rc)
        rc = convert_elements(DT_F64, values, shape->dtype, raw, n, err);
    for (int chained = 0; chained < 2 && !rc; chained++) {
        if (standing & (chained ? CHAINED : INJECTED))
            rc = ladder_value(l, program, s->module->result_names[i], chained, values, n, err);
    }
    free(raw);
    free(values);
    return rc;
}

static int run_stage(struct ladder *l, const char *program, struct module *m, const struct checkpoint *weights,
                     int standing, struct error *err)
{
    struct stage s;
    int *outputs = arena_new(m->arena, int, m->n_results, err);
    if (!outputs)
        return ERR_MEMORY;
    int rc = stage_compile(&s, l->worker, program, m, false, err);
    if (!rc)
        rc = stage_load(&s, weights, err);
    if (!rc)
        rc = set_inputs(l, &s, program, err);
    if (!rc)
        rc = stage_run(&s, outputs, err);
    for (int i = 0; i < m->n_results && !rc; i++) {
        rc = take_result(l, &s, program, i, outputs[i], standing, err);
        if (!rc)
            rc = worker_free(l->worker, outputs[i], err);
    }
    stage_release(&s);
    return rc;
}

// Notes what no case of the reference has, once. name: NULL for all of a program.
static int note_missing(struct ladder *l, const char *program, const char *name, struct error *err)
{
    struct ladder_reference *r = &l->reference;
    const struct ladder_case *at = r->at;
    bool found = false;
    for (size_t i = 0; i < r->n_cases && !found; i++) {
        r->at = &r->cases[i];
        found = name ? ladder_tap(r, program, name) != NULL : ladder_has_program(r, program);
    }
    r->at = at;
    if (found)
        return 0;
    const char *full = arena_printf(&l->arena, err, "%s/%s", program, name ? name : "*");
    for (size_t i = 0; full && i < l->n_missing; i++)
        found = found || strcmp(l->missing[i], full) == 0;
    if (found || !full)
        return full ? 0 : ERR_MEMORY;
    void *grown = arena_grow(&l->arena, l->missing, &l->cap_missing, l->n_missing + 1, sizeof *l->missing, err);
    if (!grown)
        return ERR_MEMORY;
    l->missing = grown;
    l->missing[l->n_missing++] = full;
    return 0;
}

// The part of a module that makes what the reference has, as it is and cut.
struct cuts {
    struct module whole, cut;
    bool any;  // there is something to compare
    bool same; // nothing that the reference has is used on the way to anything else
};

static int make_cuts(struct ladder *l, const char *program, const struct module *module, struct cuts *c,
                     struct error *err)
{
    struct arena *arena = module->arena;
    struct module loose;
    bool *have = arena_new(arena, bool, module->n_results + 1, err),
         *all = arena_new(arena, bool, module->n_results + 1, err);
    int rc = have && all ? 0 : ERR_MEMORY;
    for (int i = 0; i < module->n_results && !rc; i++) {
        have[i] = ladder_tap(&l->reference, program, module->result_names[i]) != NULL;
        all[i] = true;
        c->any = c->any || have[i];
        if (!have[i])
            rc = note_missing(l, program, module->result_names[i], err);
    }
    module_init(&c->whole, arena, program);
    module_init(&c->cut, arena, program);
    module_init(&loose, arena, program);
    if (!c->any)
        return rc;
    if (!rc)
        rc = module_keep(module, have, &c->whole, err);
    if (!rc)
        rc = module_inject(&c->whole, all, &loose, err);
    if (!rc)
        rc = module_keep(&loose, all, &c->cut, err);
    c->same = true;
    for (int i = 0; !rc && i < c->cut.n_parameters; i++)
        c->same = c->same && strncmp(c->cut.parameters[i].name, INJECT_PREFIX, strlen(INJECT_PREFIX)) != 0;
    return rc;
}

int ladder_program(struct ladder *l, const char *program, const struct module *module, const struct checkpoint *weights,
                   const struct progress *progress, struct error *err)
{
    struct cuts c = {.any = false};
    int rc = make_cuts(l, program, module, &c, err);
    for (int chained = 0; chained < (c.same ? 1 : 2) && !rc && c.any; chained++) {
        struct module run;
        progress_report(progress, program, (size_t)chained, 2);
        module_init(&run, module->arena, program);
        rc = rewritten(l, chained ? &c.whole : &c.cut, &run, err);
        if (!rc)
            rc = run_stage(l, program, &run, weights, c.same ? INJECTED | CHAINED : chained ? CHAINED : INJECTED, err);
    }
    return rc;
}

// ---- all of it

static int set_policy(struct ladder *l, struct error *err)
{
    const struct ladder_options *o = l->options;
    l->policy_name = o->policy ? o->policy : dtype_name(l->reference.type);
    l->wide = strcmp(l->policy_name, "f64") == 0;
    int rc = l->wide ? 0 : policy_parse(&l->policy, l->policy_name, err);
    if (!rc && !l->wide && l->policy.a_static)
        rc = error_set(err, ERR_USAGE, l->policy.name, "has static scales, which have to be calibrated; take w8a8");
    if (!rc && l->wide && o->precision != MATMUL_HIGHEST)
        rc = error_set(err, ERR_USAGE, "--matmul-precision", "is of f32 products; under f64 there are none");
    bool f32 = !l->wide && l->policy.w == DT_F32 && l->policy.between == DT_F32 && l->policy.op == DT_F32;
    l->band = l->wide && l->reference.type == DT_F64             ? LADDER_F64
              : (l->wide || f32) && l->reference.type != DT_BF16 ? LADDER_F32
                                                                 : LADDER_BF16;
    return rc;
}

static int start(struct ladder *l, struct error *err)
{
    struct worker_options w = l->options->worker;
    w.label = l->policy_name;
    w.skip_hash = true;
    int rc = worker_start(&l->worker, &w, err);
    if (rc)
        return rc;
    const struct worker_info *info = worker_info(l->worker);
    if (!l->wide)
        rc = policy_check(&l->policy, info->platform_name, err);
    l->device = info->devices[info->device].kind;
    // XLA's CPU multiplies f32 as f32 whatever is asked.
    l->emulated = l->options->precision != MATMUL_HIGHEST && strcmp(info->platform_name, "cpu") == 0;
    return rc;
}

int ladder_run(struct ladder *l, const struct ladder_options *o, const struct progress *progress, struct error *err)
{
    memset(l, 0, sizeof *l);
    arena_init(&l->arena);
    l->options = o;
    int rc = ladder_reference_open(&l->reference, o->reference, err);
    if (rc)
        return rc;
    const struct ladder_model *m = model_of(l);
    if (!m)
        return error_set(err, ERR_INPUT, o->reference, "is of a model \"%.40s\"; ladders know flux2, bert and decoder",
                         l->reference.model);
    l->rungs = m->rungs;
    l->n_rungs = m->n_rungs;
    l->workload = o->workload ? o->workload : l->reference.weights;
    if (!l->workload || !*l->workload)
        return error_set(err, ERR_USAGE, o->reference, "does not say which weights it was run with: name the WORKLOAD");
    rc = set_policy(l, err);
    if (!rc)
        rc = start(l, err);
    for (const char *const *p = m->programs; *p && !rc; p++)
        rc = note_missing(l, *p, NULL, err);
    for (size_t i = 0; i < l->reference.n_cases && !rc; i++) {
        l->reference.at = &l->reference.cases[i];
        rc = m->run(l, progress, err);
    }
    return rc;
}

void ladder_release(struct ladder *l)
{
    worker_stop(l->worker);
    ladder_reference_close(&l->reference);
    arena_release(&l->arena);
    memset(l, 0, sizeof *l);
}

// ---- what came of it

// The worse of its two runs.
static enum ladder_verdict worse(const struct ladder_key *k)
{
    enum ladder_verdict a = k->injected.known ? k->injected.verdict : LADDER_PASS;
    enum ladder_verdict b = k->chained.known ? k->chained.verdict : LADDER_PASS;
    return a > b ? a : b;
}

// How far a key is from its bound: less is worse.
static double margin(const struct ladder *l, const struct ladder_key *k)
{
    const struct ladder_score *s = k->injected.known ? &k->injected : &k->chained;
    return l->band == LADDER_BF16 ? s->snr_db - k->rung->db : -s->relative / k->rung->relative;
}

struct ladder_count ladder_count(const struct ladder *l, const struct ladder_rung *rung)
{
    struct ladder_count c = {0};
    for (size_t i = 0; i < l->n_keys; i++) {
        const struct ladder_key *k = &l->keys[i];
        enum ladder_verdict v = worse(k);
        if (rung && k->rung != rung)
            continue;
        c.keys++;
        c.exact += (!k->injected.known || k->injected.exact) && (!k->chained.known || k->chained.exact);
        c.pass += v == LADDER_PASS;
        c.warn += v == LADDER_WARN;
        c.fail += v == LADDER_FAIL;
        if (!c.worst || worse(c.worst) < v || (worse(c.worst) == v && margin(l, k) < margin(l, c.worst)))
            c.worst = k;
    }
    return c;
}
