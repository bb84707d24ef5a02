// SPDX-License-Identifier: Apache-2.0
#include "lab/capture_workload.h"

#include <string.h>

#include "base/interrupt.h"
#include "base/stats.h"

enum { SIDE = 256, ONE_BF16 = 0x3f80 };

static const char feedback_text[] =
    "module @feedback {\n"
    "  func.func public @main(%a: tensor<256x256xbf16>, %b: tensor<256x256xbf16>) -> tensor<256x256xbf16> {\n"
    "    %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<256x256xbf16>, "
    "tensor<256x256xbf16>) -> tensor<256x256xbf16>\n"
    "    %s = stablehlo.constant dense<3.906250e-03> : tensor<256x256xbf16>\n"
    "    %d = stablehlo.multiply %c, %s : tensor<256x256xbf16>\n"
    "    return %d : tensor<256x256xbf16>\n"
    "  }\n"
    "}\n";

// What is traced, whichever it is.
struct subject_of {
    struct bench_subject bench;
    struct worker_executable program;
    struct worker_program source;
    struct worker_shape shapes[2];
    int feedback_args[2];
    bool feedback, opened;
    struct capture_steps steps;
};

static int open_feedback(struct subject_of *s, const struct capture_workload_options *o, struct error *err)
{
    static uint16_t ones[SIDE * SIDE];
    s->shapes[0] = s->shapes[1] = (struct worker_shape){.dtype = DT_BF16, .rank = 2, .dims = {SIDE, SIDE}};
    s->source = (struct worker_program){.text = feedback_text,
                                        .length = sizeof feedback_text - 1,
                                        .format = "mlir",
                                        .name = CAPTURE_FEEDBACK,
                                        .want_optimized = true,
                                        .n_args = 2,
                                        .args = s->shapes};
    s->feedback = true;
    int rc = worker_start(&s->steps.worker, &o->bench.worker, err);
    if (!rc)
        rc = worker_compile(s->steps.worker, &s->source, &s->program, err);
    if (rc)
        return rc;
    s->opened = true;
    for (size_t i = 0; i < SIDE * SIDE; i++)
        ones[i] = ONE_BF16;
    for (int i = 0; i < 2 && !rc; i++) {
        struct worker_tensor t = {.fd = -1, .shape = s->shapes[0], .name = "ones"};
        rc = worker_upload_bytes(s->steps.worker, ones, sizeof ones, &t, &s->feedback_args[i], NULL, err);
    }
    s->steps.program = &s->program;
    s->steps.source = &s->source;
    s->steps.args = s->feedback_args;
    s->steps.n_args = 2;
    s->steps.name = CAPTURE_FEEDBACK;
    s->steps.feed_back = true;
    return rc;
}

static int open_subject(struct subject_of *s, const struct capture_workload_options *o, struct error *err)
{
    if (strcmp(o->workload, CAPTURE_FEEDBACK) == 0)
        return open_feedback(s, o, err);
    int rc = bench_open(&s->bench, o->workload, o->policy, &o->bench, err);
    if (rc)
        return rc;
    s->opened = true;
    s->steps = capture_steps_of(&s->bench.subject, s->bench.policy ? s->bench.policy : o->workload);
    return 0;
}

static void close_subject(struct subject_of *s)
{
    if (s->feedback) {
        worker_stop(s->steps.worker);
        if (s->opened)
            worker_executable_release(&s->program);
    } else if (s->opened) {
        bench_close(&s->bench);
    }
}

static int run_once(const struct subject_of *s, double *ns, struct error *err)
{
    int rc = worker_time(s->steps.worker, s->steps.program->id, s->steps.args, s->steps.n_args, 1, ns, err);
    return rc ? rc : interrupt_check("warming up", err);
}

static int warm_up(struct capture_workload *w, const struct subject_of *s, const struct capture_workload_options *o,
                   struct error *err)
{
    struct measure_warmup_policy policy = measure_warmup_default();
    struct measure_warmup state;
    double first = (double)s->bench.subject.first_ns; // bench_open has run it
    int rc = s->feedback ? run_once(s, &first, err) : 0;
    w->warmup_ms = ((double)s->steps.program->compile_ns + first) / 1e6;
    if (o->bench.warmup >= 0)
        policy.max_runs = (size_t)o->bench.warmup;
    measure_warmup_init(&state, policy);
    while (state.runs < policy.max_runs && state.state == WARMUP_COLD && !rc) {
        double ns;
        rc = run_once(s, &ns, err);
        if (!rc)
            measure_warmup_add(&state, ns);
    }
    w->warm_runs = state.runs;
    return rc;
}

static int median_ms(struct capture_workload *w, const double *ns, size_t n, double *ms, struct error *err)
{
    double *scratch = arena_new(&w->arena, double, n, err);
    if (scratch)
        *ms = stats_median(ns, n, scratch) / 1e6;
    return scratch ? 0 : ERR_MEMORY;
}

static int measure_steady(struct capture_workload *w, const struct subject_of *s, size_t steps, struct error *err)
{
    w->steady_ns = arena_new(&w->arena, double, steps, err);
    int rc = w->steady_ns ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < steps && !rc; i++)
        rc = run_once(s, &w->steady_ns[i], err);
    return rc ? rc : median_ms(w, w->steady_ns, steps, &w->steady_ms, err);
}

// Ones times ones, scaled, are ones: anything else was not computed, or ran over.
static int check_feedback(const struct str *result, struct error *err)
{
    for (size_t i = 0; i + 1 < result->length; i += 2) {
        uint16_t v;
        memcpy(&v, result->text + i, sizeof v);
        if (v != ONE_BF16)
            return error_set(err, ERR_DEVICE, CAPTURE_FEEDBACK,
                             "element %zu of the result has the bits 0x%04x, not those of 1 (0x%04x)", i / 2, v,
                             ONE_BF16);
    }
    return result->length == SIDE * SIDE * 2
               ? 0
               : error_set(err, ERR_DEVICE, CAPTURE_FEEDBACK, "the result has %zu bytes", result->length);
}

static int work(struct capture_workload *w, struct subject_of *s, const struct capture_workload_options *o,
                const struct progress *progress, struct error *err)
{
    progress_report(progress, "start", 0, 3);
    int rc = open_subject(s, o, err);
    if (rc)
        return rc;
    const struct worker_info *info = worker_info(s->steps.worker);
    w->device = arena_strdup(&w->arena, info->devices[info->device].kind, err);
    w->plugin = arena_strdup(&w->arena, info->plugin_path, err);
    rc = w->device && w->plugin ? 0 : ERR_MEMORY;
    progress_report(progress, "warm up", 1, 3);
    if (!rc)
        rc = warm_up(w, s, o, err);
    if (!rc)
        rc = measure_steady(w, s, o->steps, err);
    progress_report(progress, "trace", 2, 3);
    s->steps.steps = o->steps;
    s->steps.whole = true;
    if (!rc)
        rc = capture_run(&w->capture, &s->steps, err);
    if (!rc)
        rc = median_ms(w, w->capture.step_ns, o->steps, &w->traced_ms, err);
    if (!rc && s->feedback)
        rc = check_feedback(&w->capture.result, err);
    return rc;
}

int capture_workload(struct capture_workload *w, const struct capture_workload_options *o,
                     const struct progress *progress, struct error *err)
{
    struct subject_of s = {0};
    memset(w, 0, sizeof *w);
    arena_init(&w->arena);
    str_init(&w->capture.space);
    str_init(&w->capture.result);
    arena_init(&w->capture.arena);
    int rc = work(w, &s, o, progress, err);
    close_subject(&s);
    return rc;
}

void capture_workload_release(struct capture_workload *w)
{
    capture_release(&w->capture);
    arena_release(&w->arena);
}
