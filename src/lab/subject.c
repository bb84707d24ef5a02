// SPDX-License-Identifier: Apache-2.0
#include "lab/subject.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ir/bind.h"
#include "ir/retype.h"
#include "num/convert.h"

// ---- weights

// A weight from the checkpoint, noting what storing it did.
static int upload_weight(struct subject *s, const struct checkpoint *c, int i, struct error *err)
{
    const struct parameter *p = &s->module.parameters[i];
    struct subject_tensor *tensor = &s->tensors[s->n_tensors];
    int rc = device_module_weight(s->worker, &s->module, c, i, s->args, &s->weights, &tensor->stats, err);
    if (!rc && tensor->stats.elements) {
        tensor->name = p->name;
        tensor->group = s->module.instructions[p->instruction].group;
        s->n_tensors++;
    }
    return rc;
}

static int count_inputs(const struct module *m)
{
    int n = 0;
    for (int i = 0; i < m->n_parameters; i++)
        n += m->parameters[i].role == ROLE_INPUT;
    return n;
}

static void note_input(struct subject *s, const struct workload *w, int i)
{
    const char *name = s->module.parameters[i].name;
    // A program's inputs may have any name. What a calibration adds comes first.
    if (w->program && i == 0 && count_inputs(&s->module) > count_inputs(&w->program->module))
        s->input_thresholds = i;
    else if (w->program)
        s->inputs[s->n_inputs++] = i;
    else
        *(strcmp(name, "attention_mask") == 0 ? &s->input_mask
          : strcmp(name, "thresholds") == 0   ? &s->input_thresholds
                                              : &s->input_ids) = i;
}

static int upload_weights(struct subject *s, const struct workload *w, struct error *err)
{
    const struct checkpoint *c = w->open_checkpoint ? &w->checkpoint : NULL;
    uint64_t start = clock_ns();
    s->inputs = arena_new(&s->arena, int, s->n_args, err);
    if (!s->inputs)
        return ERR_MEMORY;
    for (int i = 0; i < s->module.n_parameters; i++)
        s->args[i] = -1;
    for (int i = 0; i < s->module.n_parameters; i++) {
        const struct parameter *p = &s->module.parameters[i];
        int rc = 0;
        if (p->role == ROLE_INPUT)
            note_input(s, w, i);
        else if (!c)
            rc = device_module_random(s->worker, &s->module, i, w->program->seed, s->args, &s->weights, err);
        else if (s->args[i] < 0) // scales come with their codes
            rc = upload_weight(s, c, i, err);
        if (rc)
            return rc;
    }
    s->weights.ns = clock_ns() - start;
    return 0;
}

// What is the same with and without weights: arrays, worker, program. The module is in s->module.
static int start(struct subject *s, const struct worker_options *worker, struct error *err)
{
    s->n_args = (size_t)s->module.n_parameters;
    s->args = arena_new(&s->arena, int, s->n_args, err);
    s->tensors = arena_new(&s->arena, struct subject_tensor, s->n_args, err);
    if (!s->args || !s->tensors)
        return ERR_MEMORY;
    struct worker_options options = *worker;
    options.label = s->label;
    int rc = worker_start(&s->worker, &options, err);
    if (!rc && s->policy)
        rc = policy_check(s->policy, worker_info(s->worker)->platform_name, err);
    if (!rc)
        rc = device_module_compile(s->worker, &s->arena, &s->module, s->label, true, &s->kernels, &s->text, &s->source,
                                   &s->program, err);
    if (rc)
        return rc;
    s->compiled = true;
    s->results = arena_new(&s->arena, int, s->program.n_outputs, err);
    return s->results ? 0 : ERR_MEMORY;
}

static void init(struct subject *s, const char *label, const struct policy *policy)
{
    memset(s, 0, sizeof *s);
    arena_init(&s->arena);
    str_init(&s->text);
    s->label = label;
    s->policy = policy;
    module_init(&s->module, &s->arena, label);
}

// Static scales that nobody made would be NaN.
static int check_calibrated(const struct policy *p, struct error *err)
{
    if (!p || !p->a_static || p->ranges)
        return 0;
    return error_set(
        err, ERR_USAGE, p->name,
        "has static activation scales, which are made from texts: assay qualify --calibrate FILE does that; "
        "here take one with dynamic scales (w8a8)");
}

int subject_open(struct subject *s, const struct workload *w, const struct subject_options *o, struct error *err)
{
    init(s, o->label, o->policy);
    int rc = check_calibrated(o->policy, err);
    if (rc)
        return rc;
    rc = o->policy ? module_apply_policy(o->module, o->policy, false, &s->module, err)
                   : module_retype_f64(o->module, &s->module, err);
    if (!rc && w->open_checkpoint)
        rc = bind_check(&s->module, &w->checkpoint, err);
    if (!rc)
        rc = start(s, &o->worker, err);
    return rc ? rc : upload_weights(s, w, err);
}

int subject_open_bound(struct subject *s, const struct workload *w, const struct module *module, const char *label,
                       const struct worker_options *worker, struct error *err)
{
    init(s, label, NULL);
    s->module = *module;
    int rc = w->open_checkpoint ? bind_check(&s->module, &w->checkpoint, err) : 0;
    if (!rc)
        rc = start(s, worker, err);
    return rc ? rc : upload_weights(s, w, err);
}

int subject_open_module(struct subject *s, const struct module *module, const struct policy *policy, const char *label,
                        const struct worker_options *worker, struct error *err)
{
    init(s, label, policy);
    int rc = check_calibrated(policy, err);
    if (!rc && policy)
        rc = module_apply_policy(module, policy, false, &s->module, err);
    else if (!rc)
        s->module = *module;
    return rc ? rc : start(s, worker, err);
}

void subject_close(struct subject *s)
{
    worker_stop(s->worker);
    if (s->compiled)
        worker_executable_release(&s->program);
    str_release(&s->text);
    arena_release(&s->arena);
    s->worker = NULL;
    s->compiled = false;
    s->results = s->args = NULL; // what lay in the arena
    s->tensors = NULL;
    s->n_args = s->n_tensors = 0;
}

static int set_input(struct subject *s, int parameter, const void *data, struct error *err)
{
    if (s->args[parameter] >= 0) {
        int rc = worker_free(s->worker, s->args[parameter], err);
        s->args[parameter] = -1;
        if (rc)
            return rc;
    }
    return device_module_upload(s->worker, &s->module, parameter, data, s->args, NULL, err);
}

static int set_inputs(struct subject *s, const int32_t *ids, const int32_t *mask, struct error *err)
{
    uint64_t start = clock_ns();
    int rc = set_input(s, s->input_ids, ids, err);
    if (!rc)
        rc = set_input(s, s->input_mask, mask, err);
    s->input_upload_ns = clock_ns() - start;
    return rc;
}

// Inputs keep their order under every policy.
static int set_case(struct subject *s, const struct exported *e, size_t which, struct error *err)
{
    uint64_t ns = 0;
    size_t k = 0;
    int rc = 0;
    for (int i = 0; i < e->n_arguments && !rc; i++) {
        size_t bytes = (size_t)shape_bytes(&e->arguments[i].shape);
        if (e->module.parameters[i].role != ROLE_INPUT)
            continue;
        void *data = malloc(bytes ? bytes : 1);
        rc = data ? exported_argument(e, i, which, data, err)
                  : error_set(err, ERR_MEMORY, e->arguments[i].name, "no memory for %zu bytes", bytes);
        uint64_t start = clock_ns();
        if (!rc)
            rc = set_input(s, s->inputs[k++], data, err);
        ns += clock_ns() - start;
        free(data);
    }
    s->input_upload_ns = ns;
    return rc;
}

int subject_set_batch(struct subject *s, const struct workload *w, size_t batch, struct error *err)
{
    if (w->program)
        return set_case(s, w->program, batch, err);
    size_t at = batch * (size_t)(w->batch * w->seq);
    return set_inputs(s, w->ids + at, w->mask + at, err);
}

int subject_set_real_batch(struct subject *s, const struct workload *w, size_t batch, struct error *err)
{
    size_t rows = (size_t)w->batch, seq = (size_t)w->seq, first = batch * rows;
    size_t real = w->n_texts - first < rows ? w->n_texts - first : rows;
    if (w->program || real == rows)
        return subject_set_batch(s, w, batch, err);
    int32_t *mask = calloc(rows * seq, sizeof *mask);
    if (!mask)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a batch");
    memcpy(mask, w->mask + first * seq, real * seq * sizeof *mask);
    int rc = set_inputs(s, w->ids + first * seq, mask, err);
    free(mask);
    return rc;
}

int subject_set_thresholds(struct subject *s, const float *data, struct error *err)
{
    return set_input(s, s->input_thresholds, data, err);
}

static const struct shape *result_shape(const struct subject *s, size_t i)
{
    return &s->module.instructions[s->module.results[i]].shape;
}

// Of all results of one run.
static size_t result_bytes(const struct subject *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < (size_t)s->module.n_results; i++)
        bytes += (size_t)shape_bytes(result_shape(s, i));
    return bytes;
}

int subject_run(struct subject *s, void *out, uint64_t *run_ns, struct error *err)
{
    uint64_t ns;
    uint8_t *at = out;
    int rc = worker_execute(s->worker, s->program.id, s->args, s->n_args, s->results, s->program.n_outputs, &ns, err);
    if (rc)
        return rc;
    uint64_t start = clock_ns();
    for (size_t i = 0; i < s->program.n_outputs && i < (size_t)s->module.n_results && !rc; i++) {
        size_t bytes = (size_t)shape_bytes(result_shape(s, i));
        rc = worker_download(s->worker, s->results[i], at, bytes, err);
        at += bytes;
    }
    s->download_ns = clock_ns() - start;
    for (size_t i = 0; i < s->program.n_outputs && !rc; i++)
        rc = worker_free(s->worker, s->results[i], err);
    if (run_ns)
        *run_ns = ns;
    return rc;
}

// What one run gave, as doubles. Of the last batch of a model only the rows of texts are kept.
static int keep_results(const struct subject *s, const struct workload *w, size_t batch, const uint8_t *raw,
                        double *out, struct error *err)
{
    size_t first = batch * (size_t)w->batch, left = w->n_texts - first;
    size_t per_text = workload_values(w) / w->n_texts;
    size_t rows = left < (size_t)w->batch ? left : (size_t)w->batch;
    out += first * per_text;
    for (size_t i = 0; i < (size_t)s->module.n_results; i++) {
        const struct shape *shape = result_shape(s, i);
        size_t n = w->program ? (size_t)shape_elements(shape) : rows * per_text;
        int rc = convert_elements(DT_F64, out, shape->dtype, raw, n, err);
        if (rc)
            return rc;
        raw += shape_bytes(shape);
        out += n;
    }
    return 0;
}

int subject_run_all(struct subject *s, const struct workload *w, double *out, struct error *err)
{
    uint8_t *raw = arena_alloc(&s->arena, result_bytes(s), 1, err);
    if (!raw)
        return ERR_MEMORY;
    for (size_t b = 0; b < w->n_batches; b++) {
        uint64_t ns;
        int rc = subject_set_batch(s, w, b, err);
        if (!rc)
            rc = subject_run(s, raw, &ns, err);
        if (!rc && b == 0)
            s->first_ns = ns;
        if (!rc)
            rc = keep_results(s, w, b, raw, out, err);
        if (rc)
            return rc;
    }
    return 0;
}

// ---- kernels

void subject_kernels_json(const struct subject *s, struct jw *w)
{
    device_module_kernels_json(w, s->worker, &s->kernels);
}

void subject_kernels_text(const struct subject *s, struct str *out)
{
    const struct worker_info *i = worker_info(s->worker);
    size_t before = out->length;
    for (int k = 0; k < KERNEL_KINDS; k++) {
        if (s->kernels.count[k])
            str_addf(out, "%s%d %s", out->length > before ? ", " : "", s->kernels.count[k],
                     kernel_name((enum kernel_kind)k));
    }
    if (i->no_kernels)
        str_addf(out, "none (%s)", i->no_kernels);
    else if (i->kernels)
        str_addf(out, out->length > before ? " (%s)" : "none of use here (%s)", i->kernels);
}

// ---- instrumented run

static int add_counts(struct subject *s, const int *results, struct subject_counts *out, struct error *err)
{
    size_t groups = out->groups, n = (size_t)s->module.n_results, more = n + 2 + (out->n_activations > 0);
    int32_t *c = arena_new(&s->arena, int32_t, groups * 3, err);
    float *f = arena_new(&s->arena, float, groups * 2, err);
    int32_t *a = arena_new(&s->arena, int32_t, out->n_activations, err);
    if (!c || !f || !a)
        return ERR_MEMORY;
    int rc = worker_download(s->worker, results[n], c, groups * 3 * sizeof *c, err);
    if (!rc)
        rc = worker_download(s->worker, results[n + 1], f, groups * 2 * sizeof *f, err);
    if (!rc && out->n_activations)
        rc = worker_download(s->worker, results[n + 2], a, out->n_activations * sizeof *a, err);
    for (size_t i = 0; i < groups * 3 && !rc; i++)
        out->counts[i] += c[i];
    for (size_t i = 0; i < out->n_activations && !rc; i++)
        out->clipped[i] += a[i];
    for (size_t g = 0; g < groups && !rc; g++) {
        out->scales[2 * g] = fmin(out->scales[2 * g], f[2 * g]);
        out->scales[2 * g + 1] = fmax(out->scales[2 * g + 1], f[2 * g + 1]);
    }
    for (size_t i = 0; i < more && !rc; i++)
        rc = worker_free(s->worker, results[i], err);
    return rc;
}

int subject_instrument(struct subject *s, const struct workload *w, const struct module *module, size_t max_batches,
                       struct subject_counts *out, struct error *err)
{
    struct module m;
    struct str text;
    struct worker_program source;
    struct worker_executable program;
    module_init(&m, &s->arena, s->label);
    int rc = module_apply_policy(module, s->policy, true, &m, err);
    if (rc)
        return rc;
    int *results = arena_new(&s->arena, int, m.n_results, err);
    if (!results)
        return ERR_MEMORY;
    memset(out->counts, 0, out->groups * 3 * sizeof *out->counts);
    if (out->n_activations)
        memset(out->clipped, 0, out->n_activations * sizeof *out->clipped);
    for (size_t g = 0; g < out->groups; g++) {
        out->scales[2 * g] = INFINITY;
        out->scales[2 * g + 1] = -INFINITY;
    }
    str_init(&text);
    rc = device_module_compile(s->worker, &s->arena, &m, s->label, false, &(struct kernels_chosen){0}, &text, &source,
                               &program, err);
    str_release(&text);
    if (rc)
        return rc;
    s->instrument_compile_ns = program.compile_ns;
    for (size_t b = 0; b < w->n_batches && b < max_batches && !rc; b++) {
        rc = subject_set_real_batch(s, w, b, err);
        if (!rc)
            rc = worker_execute(s->worker, program.id, s->args, s->n_args, results, (size_t)m.n_results, NULL, err);
        if (!rc)
            rc = add_counts(s, results, out, err);
    }
    int unload = worker_unload(s->worker, program.id, rc ? NULL : err);
    worker_executable_release(&program);
    return rc ? rc : unload;
}

// The inputs of the first batch, encoded where they are texts; *encoded_ns says how long that took.
static int set_request(struct subject *s, const struct workload *w, uint64_t *encoded_ns, struct error *err)
{
    size_t n = (size_t)(w->batch * w->seq);
    *encoded_ns = 0;
    if (w->program)
        return set_case(s, w->program, 0, err);
    int32_t *ids = malloc(n * sizeof *ids), *mask = malloc(n * sizeof *mask);
    int rc = ids && mask ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for a batch");
    uint64_t start = clock_ns();
    if (!rc)
        rc = workload_encode(w, 0, ids, mask, err);
    *encoded_ns = clock_ns() - start;
    if (!rc)
        rc = set_inputs(s, ids, mask, err);
    free(ids);
    free(mask);
    return rc;
}

int subject_request(struct subject *s, const struct workload *w, struct request_times *out, struct error *err)
{
    size_t bytes = result_bytes(s);
    void *result = malloc(bytes ? bytes : 1);
    int rc = result ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for a batch");
    uint64_t start = clock_ns(), encoded_ns = 0, run_ns = 0;
    if (!rc)
        rc = set_request(s, w, &encoded_ns, err);
    if (!rc)
        rc = subject_run(s, result, &run_ns, err);
    uint64_t end = clock_ns();
    free(result);
    *out = (struct request_times){
        .encode_ms = (double)encoded_ns / 1e6,
        .upload_ms = (double)s->input_upload_ns / 1e6,
        .run_ms = (double)run_ns / 1e6,
        .download_ms = (double)s->download_ns / 1e6,
        .total_ms = (double)(end - start) / 1e6,
    };
    return rc;
}
