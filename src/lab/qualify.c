// SPDX-License-Identifier: Apache-2.0
#include "lab/qualify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/stats.h"
#include "chips/local.h"
#include "lab/capture.h"
#include "lab/qualify_why.h"

#define REQUESTS           9 // whole requests timed per policy
#define INSTRUMENT_BATCHES 4 // batches that go through the instrumented program
#define SAME_TOLERANCE     0.01
#define CONFIDENCE         0.95

static int parse_policies(struct qualify *q, struct error *err)
{
    const struct qualify_options *o = q->options;
    if (o->n_policies == 0 || o->n_policies > QUALIFY_MAX_POLICIES)
        return error_set(err, ERR_USAGE, "--policy", "give from 1 to %d policies (%s)", QUALIFY_MAX_POLICIES,
                         policy_presets());
    q->policies = arena_new(&q->arena, struct qualify_policy, o->n_policies, err);
    if (!q->policies)
        return ERR_MEMORY;
    for (size_t i = 0; i < o->n_policies; i++) {
        int rc = policy_parse(&q->policies[i].policy, o->policies[i], err);
        if (rc)
            return rc;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(q->policies[k].policy.name, q->policies[i].policy.name) == 0)
                return error_set(err, ERR_USAGE, "--policy", "'%s' is given twice", q->policies[i].policy.name);
        }
        q->n_policies++;
    }
    return 0;
}

// Static scales need texts to be made from, and such texts are for nothing else.
static int check_calibration(struct qualify *q, struct error *err)
{
    const char *file = q->options->calibrate;
    bool exported = program_is(q->options->workload.directory);
    for (size_t i = 0; i < q->n_policies; i++) {
        if (!q->policies[i].policy.a_static)
            continue;
        q->calibrates = true;
        if (!file)
            return error_set(err, ERR_USAGE, q->policies[i].policy.name,
                             "has static activation scales: give the %s that they are made from with --calibrate "
                             "FILE (others than those of %s), or take the dynamic w8a8",
                             exported ? "cases" : "texts", exported ? "--inputs" : "--text");
    }
    if (file && !q->calibrates)
        return error_set(err, ERR_USAGE, "--calibrate",
                         "is of no use: no policy has static activation scales (w8a8-static, a=int8/tensor:static)");
    return 0;
}

static int find_chips(struct qualify *q, struct error *err)
{
    const struct qualify_options *o = q->options;
    if (o->n_chips > QUALIFY_MAX_CHIPS)
        return error_set(err, ERR_USAGE, "--chip", "give at most %d chips", QUALIFY_MAX_CHIPS);
    for (size_t i = 0; i < o->n_chips; i++) {
        int rc = chip_get(&q->arena, o->chips[i], q->host.model, NULL, &q->chips[i], err);
        if (rc)
            return rc;
        for (size_t k = 0; k < i; k++) { // floors are named by chip
            if (strcmp(q->chips[k]->name, q->chips[i]->name) == 0)
                return error_set(err, ERR_USAGE, "--chip", "%s is given twice", q->chips[i]->name);
        }
        q->n_chips++;
    }
    if (!o->calibration)
        return 0;
    if (q->n_chips == QUALIFY_MAX_CHIPS)
        return error_set(err, ERR_USAGE, "--chip", "give at most %d chips", QUALIFY_MAX_CHIPS - 1);
    return chips_local_calibrated(&q->arena, o->calibration, &q->chips[q->n_chips++], err);
}

// Applies every policy once without running it, so that what cannot be built is said before anything starts.
static int price_policies(struct qualify *q, struct error *err)
{
    for (size_t i = 0; i < q->n_policies; i++) {
        struct qualify_policy *p = &q->policies[i];
        struct module m;
        module_init(&m, &q->arena, p->policy.name);
        int rc = module_apply_policy(&q->module, &p->policy, false, &m, err);
        if (!rc)
            rc = cost_groups(&m, &q->arena, &p->rows, &p->n_rows, &p->total, err);
        if (rc)
            return rc;
        module_weight_bytes(&m, &p->weight_bytes, &p->scale_bytes);
        p->predicted = arena_new(&q->arena, struct floor, q->n_chips, err);
        if (!p->predicted)
            return ERR_MEMORY;
        for (size_t c = 0; c < q->n_chips && !rc; c++)
            rc = roofline_total(p->rows, p->n_rows, q->chips[c], &q->arena, &p->predicted[c], err);
        if (rc)
            return rc;
    }
    return 0;
}

static int open_calibration(struct qualify *q, struct error *err)
{
    int rc = q->calibrates ? ranges_open(&q->ranges, &q->workload, q->options->calibrate, err) : 0;
    if (rc)
        return rc;
    q->n_activations = module_activations(&q->module, NULL, 0);
    q->activations = arena_new(&q->arena, struct activation, q->n_activations, err);
    if (!q->activations)
        return ERR_MEMORY;
    module_activations(&q->module, q->activations, q->n_activations);
    return 0;
}

// Texts are ranked, so there must be enough of them, and not too many.
static int check_texts(const struct qualify *q, struct error *err)
{
    size_t n = q->workload.n_texts;
    const char *path = q->options->workload.text_path;
    if (q->workload.program)
        return qualify_check_program(q, err);
    if (n < 3)
        return error_set(err, ERR_INPUT, path, "holds %zu text%s; a ranking needs at least 3", n, n == 1 ? "" : "s");
    if (n > QUALIFY_MAX_TEXTS)
        return error_set(err, ERR_INPUT, path, "holds %zu texts; at most %d are ranked: give a sample", n,
                         QUALIFY_MAX_TEXTS);
    return 0;
}

static int open_all(struct qualify *q, struct error *err)
{
    const struct qualify_options *o = q->options;
    host_read(&q->host, "/");
    int rc = threads_new(&q->threads, (size_t)(o->worker.threads > 0 ? o->worker.threads : 0), err);
    if (!rc)
        rc = parse_policies(q, err);
    if (!rc)
        rc = check_calibration(q, err);
    if (!rc)
        rc = find_chips(q, err);
    if (!rc)
        rc = predict_targets(o->targets, o->n_targets, o->layout != NULL, q->host.model, q->targets, &q->arena, err);
    q->n_targets = rc ? 0 : o->n_targets;
    if (!rc && o->require) {
        rc = require_parse(&q->require, o->require, qualify_metrics, &q->arena, err);
        q->has_require = true;
    }
    if (!rc && !o->workload.text_path && !program_is(o->workload.directory))
        rc = error_set(err, ERR_USAGE, "--text", "is needed: a file with one text per line");
    if (rc)
        return rc;
    rc = workload_open(&q->workload, &o->workload, err);
    if (rc)
        return rc;
    q->open = true;
    rc = check_texts(q, err);
    module_init(&q->module, &q->arena, q->workload.name);
    if (!rc)
        rc = workload_module(&q->workload, &q->module, err);
    if (rc)
        return rc;
    q->n_groups = module_groups(&q->module, q->groups, QUALIFY_MAX_GROUPS);
    rc = open_calibration(q, err);
    if (!rc)
        rc = qualify_list_files(q, err);
    return rc ? rc : price_policies(q, err);
}

int qualify_open(struct qualify *q, const struct qualify_options *o, const struct progress *progress, struct error *err)
{
    memset(q, 0, sizeof *q);
    arena_init(&q->arena);
    q->options = o;
    q->progress = progress;
    q->chosen = -1;
    int rc = open_all(q, err);
    if (rc)
        qualify_close(q);
    return rc;
}

void qualify_close(struct qualify *q)
{
    for (size_t i = 0; i < q->n_policies; i++) {
        if (q->policies[i].opened)
            subject_close(&q->policies[i].subject);
    }
    ranges_close(&q->ranges);
    if (q->open)
        workload_close(&q->workload);
    threads_free(q->threads);
    arena_release(&q->arena);
    memset(q, 0, sizeof *q);
}

// The description of the device outlives the worker that gave it.
static int copy_device(struct qualify *q, const struct worker_info *from, struct error *err)
{
    struct worker_info *to = arena_new(&q->arena, struct worker_info, 1, err);
    struct worker_device *list = arena_new(&q->arena, struct worker_device, from->n_devices, err);
    if (!to || !list)
        return ERR_MEMORY;
    *to = *from;
    to->devices = list;
    const char **texts[] = {&to->plugin_path, &to->extensions, &to->platform_name, &to->platform_version,
                            &to->attributes};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = arena_strdup(&q->arena, *texts[i] ? *texts[i] : "", err);
        if (!*texts[i])
            return ERR_MEMORY;
    }
    for (size_t i = 0; i < from->n_devices; i++) {
        list[i] = from->devices[i];
        list[i].kind = arena_strdup(&q->arena, from->devices[i].kind, err);
        list[i].attributes = arena_strdup(&q->arena, from->devices[i].attributes, err);
        if (!list[i].kind || !list[i].attributes)
            return ERR_MEMORY;
    }
    q->device = to;
    return 0;
}

static void keep_failure(struct qualify *q, const struct worker *w)
{
    const struct worker_failure *f = w ? worker_failure(w) : NULL;
    if (!f)
        return;
    q->failure = *f;
    q->has_failure = true;
}

int qualify_find_device(struct qualify *q, struct error *err)
{
    struct worker *w;
    struct worker_options o = q->options->worker;
    o.label = "device";
    o.kernels = false;
    int rc = worker_start(&w, &o, err);
    if (!rc)
        rc = copy_device(q, worker_info(w), err);
    keep_failure(q, w);
    worker_stop(w);
    return rc;
}

static int run_reference(struct qualify *q, struct error *err)
{
    struct subject s;
    struct subject_options o = {.worker = q->options->worker, .module = &q->module, .label = "f64 reference"};
    o.worker.kernels = false; // it is in f64
    const char *device = o.worker.device;
    if (device && strcmp(device, "cpu") != 0) { // f64 runs on the CPU, whatever the policies run on
        o.worker.device = "cpu";
        o.worker.plugin_path = NULL;
    }
    uint64_t start = clock_ns();
    progress_report(q->progress, "f64 reference", 0, 1);
    q->reference = arena_new(&q->arena, double, workload_values(&q->workload), err);
    if (!q->reference)
        return ERR_MEMORY;
    int rc = subject_open(&s, &q->workload, &o, err);
    if (!rc)
        rc = subject_run_all(&s, &q->workload, q->reference, err);
    keep_failure(q, s.worker);
    subject_close(&s);
    if (rc)
        error_context(err, "the f64 reference");
    q->reference_ns = clock_ns() - start;
    return rc;
}

// A step of one policy failed: keep what is known of it and let the others go on. Interrupts and our own mistakes end
// all.
static int policy_failed(struct qualify_policy *p, struct error *why, struct error *err)
{
    if (why->code == ERR_INTERRUPTED || why->code == ERR_INTERNAL)
        return error_set(err, why->code, why->where, "%s", why->message);
    p->ok = false;
    p->error = *why;
    const struct worker_failure *f = p->subject.worker ? worker_failure(p->subject.worker) : NULL;
    if (f) {
        p->failure = *f;
        p->has_failure = true;
    }
    subject_close(&p->subject);
    p->opened = false;
    return 0;
}

// Gives the policies with static scales their ranges. They fail alone where that fails.
static int calibrate(struct qualify *q, struct error *err)
{
    struct policy *policies[QUALIFY_MAX_POLICIES];
    struct error why = {0};
    if (!q->calibrates)
        return 0;
    for (size_t i = 0; i < q->n_policies; i++)
        policies[i] = &q->policies[i].policy;
    int rc = ranges_measure(&q->ranges, &q->module, &q->options->worker, policies, q->n_policies, q->progress,
                            &q->arena, &why);
    if (!rc)
        return 0;
    error_context(&why, "calibrating");
    for (size_t i = 0; i < q->n_policies && rc; i++) {
        if (!q->policies[i].policy.a_static)
            continue;
        int failed = policy_failed(&q->policies[i], &why, err);
        if (failed)
            return failed;
    }
    return 0;
}

static void choose_emulation(struct qualify *q)
{
    for (size_t i = 0; i < q->n_policies && q->options->emulate; i++) {
        struct qualify_policy *p = &q->policies[i];
        p->emulation = policy_emulation(&p->policy, q->device->platform_name);
        p->policy.emulate = p->emulation != NULL;
    }
}

// A compiler's refusal of products that could be emulated says so.
static void advise_emulation(const struct qualify *q, const struct qualify_policy *p, struct error *err)
{
    if (err->code != ERR_DEVICE || p->emulation || !policy_emulation(&p->policy, q->device->platform_name))
        return;
    size_t n = strlen(err->message);
    snprintf(err->message + n, sizeof err->message - n,
             "; the device may lack products of %s: --emulate makes them of types that it has",
             dtype_name(p->policy.op));
}

// What the compiler made of the products: a record for people, so that a program that cannot be read is no failure.
static int find_products(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    const struct worker_executable *e = &p->subject.program;
    p->products = arena_new(&q->arena, struct products, PRODUCTS_MAX, err);
    if (!p->products)
        return ERR_MEMORY;
    p->n_products = e->optimized ? products_of_hlo(e->optimized, e->optimized_length, p->products) : -1;
    return 0;
}

static int evaluate(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    struct subject_options o = {
        .worker = q->options->worker, .module = &q->module, .policy = &p->policy, .label = p->policy.name};
    p->opened = true;
    int rc = subject_open(&p->subject, &q->workload, &o, err);
    if (rc && err)
        advise_emulation(q, p, err);
    if (!rc)
        rc = subject_run_all(&p->subject, &q->workload, p->result, err);
    if (!rc)
        rc = find_products(q, p, err);
    return rc ? rc : qualify_judge(q, p, err);
}

static int save_programs(const struct qualify *q, const struct qualify_policy *p, struct record *record,
                         struct error *err)
{
    char name[160], safe[64];
    if (!record)
        return 0;
    snprintf(safe, sizeof safe, "%.40s", p->policy.name);
    if (strchr(safe, '=')) // spelled out: long names may begin alike
        snprintf(safe, sizeof safe, "%zu-%.40s", (size_t)(p - q->policies) + 1, p->policy.name);
    for (char *c = safe; *c; c++) { // such a name holds '/'
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789=,-", *c))
            *c = '_';
    }
    const struct subject *s = &p->subject;
    snprintf(name, sizeof name, "programs/%s.mlir", safe);
    int rc = record_write(record, name, str_text(&s->text), s->text.length, err);
    if (!rc && s->program.optimized) {
        snprintf(name, sizeof name, "programs/%s.optimized.hlo.pb", safe);
        rc = record_write(record, name, s->program.optimized, s->program.optimized_length, err);
    }
    return rc;
}

// ---- time

static int warm_up(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    struct measure_warmup_policy policy = measure_warmup_default();
    double ns;
    if (q->options->warmup >= 0)
        policy.max_runs = (size_t)q->options->warmup;
    measure_warmup_init(&p->warmup, policy);
    while (p->warmup.runs < policy.max_runs && p->warmup.state == WARMUP_COLD) {
        int rc = worker_time(p->subject.worker, p->subject.program.id, p->subject.args, p->subject.n_args, 1, &ns, err);
        if (!rc)
            rc = interrupt_check("warming up", err);
        if (rc)
            return rc;
        measure_warmup_add(&p->warmup, ns);
    }
    return 0;
}

// One turn: a run that brings the policy's weights and code back into the caches, then the sample.
static int take_sample(struct qualify_policy *p, struct error *err)
{
    double ns[2];
    int rc = worker_time(p->subject.worker, p->subject.program.id, p->subject.args, p->subject.n_args, 2, ns, err);
    if (!rc)
        p->samples_ns[p->n_samples++] = ns[1];
    return rc;
}

// Every policy runs once per round, in an order in which each follows each equally often.
static int measure_rounds(struct qualify *q, struct error *err)
{
    uint32_t live[QUALIFY_MAX_POLICIES] = {0};
    size_t n = 0, rounds = (size_t)q->options->samples;
    for (size_t i = 0; i < q->n_policies; i++) {
        if (q->policies[i].ok)
            live[n++] = (uint32_t)i;
    }
    uint32_t *order = arena_new(&q->arena, uint32_t, n * rounds, err);
    int rc = order ? measure_schedule(order, n, rounds, q->options->seed, err) : ERR_MEMORY;
    for (size_t k = 0; k < n * rounds && !rc; k++) {
        struct qualify_policy *p = &q->policies[live[order[k]]];
        struct error why = {0};
        progress_report(q->progress, "measure", k, n * rounds);
        rc = interrupt_check("measuring", err);
        if (!rc && p->ok && take_sample(p, &why))
            rc = policy_failed(p, &why, err);
    }
    return rc;
}

static int summarize(struct qualify *q, struct qualify_policy *p, const struct qualify_policy *first, struct error *err)
{
    int rc = measure_summarize(&p->time, p->samples_ns, p->n_samples, CONFIDENCE, NULL, err);
    measure_summary_scale(&p->time, 1e-6);
    if (!rc && first && first != p && first->n_samples == p->n_samples) {
        rc = measure_compare(&p->paired, first->samples_ns, p->samples_ns, p->n_samples, SAME_TOLERANCE, CONFIDENCE,
                             err);
        p->has_paired = !rc;
    }
    (void)q;
    return rc;
}

static int request_median(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    double v[5][REQUESTS], scratch[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        struct request_times t;
        int rc = subject_request(&p->subject, &q->workload, &t, err);
        if (rc)
            return rc;
        v[0][i] = t.encode_ms;
        v[1][i] = t.upload_ms;
        v[2][i] = t.run_ms;
        v[3][i] = t.download_ms;
        v[4][i] = t.total_ms;
    }
    p->request = (struct request_times){
        stats_median(v[0], REQUESTS, scratch), stats_median(v[1], REQUESTS, scratch),
        stats_median(v[2], REQUESTS, scratch), stats_median(v[3], REQUESTS, scratch),
        stats_median(v[4], REQUESTS, scratch),
    };
    return 0;
}

static int after_measuring(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    int rc = worker_memory(p->subject.worker, &p->memory, err);
    if (!rc)
        rc = request_median(q, p, err);
    // A static scale is judged by every text.
    size_t batches = p->policy.a_static ? q->workload.n_batches : INSTRUMENT_BATCHES;
    struct subject_counts counts = {p->counts, p->scales, (size_t)q->n_groups, p->clipped, (size_t)p->n_activations};
    if (!rc)
        rc = subject_instrument(&p->subject, &q->workload, &q->module, batches, &counts, err);
    size_t texts = batches * (size_t)q->workload.batch;
    p->instrumented_texts = texts < q->workload.n_texts ? texts : q->workload.n_texts;
    return rc;
}

static int trace(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    // Two spellings may be one file name.
    const char *label = arena_printf(&q->arena, err, "%zu_%s", (size_t)(p - q->policies) + 1, p->policy.name);
    const struct capture_steps steps = capture_steps_of(&p->subject, label);
    return label ? capture_into(q->record, &steps, q->progress, &q->arena, &p->trace, err) : ERR_MEMORY;
}

static int save_samples(const struct qualify *q, struct record *record, struct error *err)
{
    struct str text;
    str_init(&text);
    str_add(&text, "policy,round,ns\n");
    for (size_t i = 0; i < q->n_policies; i++) {
        for (size_t k = 0; k < q->policies[i].n_samples; k++)
            str_addf(&text, "\"%s\",%zu,%.0f\n", q->policies[i].policy.name, k, q->policies[i].samples_ns[k]);
    }
    int rc = str_check(&text, err);
    if (!rc)
        rc = record_write(record, "samples/time.csv", text.text, text.length, err);
    str_release(&text);
    return rc;
}

static int allocate(struct qualify *q, struct qualify_policy *p, struct error *err)
{
    size_t groups = (size_t)q->n_groups;
    p->result = arena_new(&q->arena, double, workload_values(&q->workload), err);
    p->samples_ns = arena_new(&q->arena, double, q->options->samples, err);
    p->counts = arena_new(&q->arena, int64_t, groups * 3, err);
    p->scales = arena_new(&q->arena, double, groups * 2, err);
    p->n_activations = policy_has_scales(p->policy.a) ? q->n_activations : 0;
    p->clipped = arena_new(&q->arena, int64_t, p->n_activations, err);
    return p->result && p->samples_ns && p->counts && p->scales && p->clipped ? 0 : ERR_MEMORY;
}

typedef int policy_step(struct qualify *q, struct qualify_policy *p, struct error *err);

// One step of every policy that is still alive.
static int each(struct qualify *q, const char *stage, policy_step *step, struct error *err)
{
    for (size_t i = 0; i < q->n_policies; i++) {
        struct qualify_policy *p = &q->policies[i];
        struct error why = {0};
        char text[128];
        if (!p->ok)
            continue;
        snprintf(text, sizeof text, "%s %s", stage, p->policy.name);
        progress_report(q->progress, text, i, q->n_policies);
        int rc = interrupt_check(text, err);
        if (!rc && step(q, p, &why))
            rc = policy_failed(p, &why, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int count_alive(const struct qualify *q, struct error *err)
{
    for (size_t i = 0; i < q->n_policies; i++) {
        if (q->policies[i].ok)
            return 0;
    }
    const struct qualify_policy *p = &q->policies[0];
    return error_set(err, p->error.code, p->error.where, "no policy could be run; the first, %s, failed: %s",
                     p->policy.name, p->error.message);
}

int qualify_run(struct qualify *q, struct record *record, struct error *err)
{
    uint64_t start = clock_ns();
    int rc = q->device ? 0 : qualify_find_device(q, err);
    if (!rc)
        rc = run_reference(q, err);
    if (!rc && !q->workload.program)
        rc = qualify_subsets(q, err);
    for (size_t i = 0; i < q->n_policies && !rc; i++) {
        q->policies[i].ok = true;
        rc = allocate(q, &q->policies[i], err);
    }
    if (!rc)
        choose_emulation(q);
    if (!rc)
        rc = calibrate(q, err);
    if (!rc)
        rc = each(q, "run", evaluate, err);
    for (size_t i = 0; i < q->n_policies && !rc; i++) {
        if (q->policies[i].ok)
            rc = save_programs(q, &q->policies[i], record, err);
    }
    if (!rc)
        rc = count_alive(q, err);
    if (!rc)
        rc = each(q, "warm up", warm_up, err);
    if (!rc)
        rc = measure_rounds(q, err);
    if (!rc)
        rc = each(q, "inspect", after_measuring, err);
    q->record = record;
    if (!rc && record && q->options->trace)
        rc = each(q, "trace", trace, err);
    if (!rc)
        rc = qualify_check_files(q, err);
    if (!rc)
        rc = count_alive(q, err);
    const struct qualify_policy *first = NULL;
    for (size_t i = 0; i < q->n_policies && !rc; i++) {
        if (!q->policies[i].ok)
            continue;
        first = first ? first : &q->policies[i];
        rc = summarize(q, &q->policies[i], first, err);
    }
    if (!rc)
        rc = qualify_explain(q, err);
    if (!rc)
        rc = qualify_predict(q, err);
    if (!rc)
        rc = qualify_decide(q, err);
    if (!rc)
        rc = qualify_report(q, err);
    if (!rc && record)
        rc = save_samples(q, record, err);
    if (!rc && record)
        rc = qualify_save_texts(q, record, err);
    q->wall_s = (double)(clock_ns() - start) / 1e9;
    return rc;
}
