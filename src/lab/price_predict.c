// SPDX-License-Identifier: Apache-2.0
// Three predictions of a whole request on every target.
#include <math.h>

#include "lab/price.h"

// A program that is priced as it is has no module of its own: the compiler takes its file.
static bool has_modules(const struct price *p)
{
    for (int i = 0; i < p->request.n_parts; i++) {
        if (!p->parts[i].module.n_instructions)
            return false;
    }
    return true;
}

int price_predict(struct price *p, const struct progress *progress, struct error *err)
{
    struct module *modules[MODEL_MAX_PARTS];
    const char *names[MODEL_MAX_PARTS];
    double times[MODEL_MAX_PARTS];
    size_t n = p->options.n_targets, parts = (size_t)p->request.n_parts;
    bool ready = has_modules(p);
    if (!n)
        return 0;
    for (size_t i = 0; i < parts; i++) {
        modules[i] = &p->parts[i].module;
        names[i] = p->request.parts[i].name;
        times[i] = (double)p->request.parts[i].calls;
    }
    struct predict_job job = {.workload = p->workload,
                              .targets = p->predict,
                              .n_targets = n,
                              .programs = ready ? modules : NULL,
                              .names = ready ? names : NULL,
                              .n_programs = ready ? parts : 0,
                              .progress = progress};
    struct predict_compiled *compiled = arena_new(&p->arena, struct predict_compiled, n * parts, err);
    struct prediction *out = arena_new(&p->arena, struct prediction, n, err);
    if (!compiled || !out)
        return ERR_MEMORY;
    int rc = predict_compile(&job, compiled, &p->arena, err);
    for (size_t t = 0; t < n && !rc; t++) {
        struct floor f;
        rc = roofline_total(p->rows, p->n_rows, p->predict[t].chip, &p->arena, &f, err);
        if (!rc)
            rc = predict_make(&p->predict[t], f.time, &compiled[t * (ready ? parts : 1)], times, ready ? parts : 1,
                              (double)NAN, "nothing runs here: `assay bench` and `assay qualify` measure", &p->arena,
                              &out[t], err);
    }
    p->predictions = rc ? NULL : out;
    return rc;
}
