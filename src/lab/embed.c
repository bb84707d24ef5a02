// SPDX-License-Identifier: Apache-2.0
#include "lab/embed.h"

#include <string.h>

#include "num/convert.h"

static int run_batches(struct embed *e, struct subject *s, const struct progress *progress, struct error *err)
{
    const struct workload *w = &e->workload;
    const struct shape *shape = &s->module.instructions[s->module.results[0]].shape;
    size_t bytes = (size_t)shape_bytes(shape), batch = (size_t)w->batch;
    e->dimensions = (size_t)shape->dims[1];
    e->rows = arena_new(&e->arena, float, w->n_texts * e->dimensions, err);
    void *raw = arena_alloc(&e->arena, bytes, 1, err);
    if (!e->rows || !raw)
        return ERR_MEMORY;
    for (size_t b = 0; b < w->n_batches; b++) {
        size_t first = b * batch, n = w->n_texts - first < batch ? w->n_texts - first : batch;
        progress_report(progress, "embed", first, w->n_texts);
        int rc = subject_set_batch(s, w, b, err);
        if (!rc)
            rc = subject_run(s, raw, NULL, err);
        if (!rc) // the rows past the last text are padding
            rc = convert_elements(DT_F32, e->rows + first * e->dimensions, shape->dtype, raw, n * e->dimensions, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int open_and_run(struct embed *e, const struct embed_options *o, const struct progress *progress,
                        struct error *err)
{
    const struct workload *w = &e->workload;
    struct bert_build how = {.batch = w->batch, .seq = w->seq, .first_layer = -1};
    struct module module;
    struct subject subject;
    module_init(&module, &e->arena, w->name);
    int rc = bert_module(&w->bert, &how, &module, err);
    if (rc)
        return rc;
    struct subject_options s = {.worker = o->worker, .module = &module, .policy = &e->policy, .label = e->policy.name};
    progress_report(progress, "load and compile", 0, 0);
    rc = subject_open(&subject, w, &s, err);
    if (!rc) {
        const struct worker_info *info = worker_info(subject.worker);
        e->device = arena_strdup(&e->arena, info->devices[info->device].kind, err);
        rc = e->device ? run_batches(e, &subject, progress, err) : ERR_MEMORY;
    }
    if (!rc && o->trace) {
        progress_report(progress, "trace", 0, 0);
        rc = capture_subject(o->trace, &subject, err);
    }
    subject_close(&subject);
    return rc;
}

int embed_run(struct embed *e, const struct embed_options *o, const struct progress *progress, struct error *err)
{
    memset(e, 0, sizeof *e);
    arena_init(&e->arena);
    if (!o->workload.text_path && !o->workload.n_texts)
        return error_set(err, ERR_USAGE, "texts", "none are given; name them after the model, or a file with --text");
    int rc = policy_parse(&e->policy, o->policy, err);
    if (!rc)
        rc = workload_open(&e->workload, &o->workload, err);
    e->opened = !rc;
    return rc ? rc : open_and_run(e, o, progress, err);
}

void embed_release(struct embed *e)
{
    if (e->opened)
        workload_close(&e->workload);
    arena_release(&e->arena);
    e->opened = false;
}
