// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/bytes.h"
#include "lab/embed.h"

static int hand_out(struct api_call *call, const struct embed *e, struct assay_embeddings *out)
{
    size_t bytes;
    bool fits = size_mul(e->workload.n_texts, e->dimensions, &bytes) && size_mul(bytes, sizeof(float), &bytes);
    float *values = fits ? malloc(bytes ? bytes : 1) : NULL;
    if (!values)
        return error_set(&call->err, ERR_MEMORY, NULL, "no memory for %zu embeddings", e->workload.n_texts);
    memcpy(values, e->rows, bytes);
    *out = (struct assay_embeddings){
        .rows = e->workload.n_texts, .columns = e->dimensions, .values = values, .truncated = e->workload.n_truncated};
    return 0;
}

static int embed(struct api_call *call, const char *directory, const char *const *texts, size_t count,
                 const struct assay_embed_options *o, struct assay_embeddings *out)
{
    struct embed_options options = {
        .workload = {.directory = directory, .texts = texts, .n_texts = count, .batch = o->batch, .seq = o->seq},
        .policy = o->policy ? o->policy : "f32",
    };
    struct progress progress = api_progress(&o->progress);
    struct embed e;
    int rc = api_device(call, &o->device, &options.worker);
    if (rc)
        return rc;
    rc = embed_run(&e, &options, &progress, &call->err);
    if (!rc)
        rc = hand_out(call, &e, out);
    embed_release(&e);
    return rc;
}

int assay_embed(const char *directory, const char *const *texts, size_t count,
                const struct assay_embed_options *options, struct assay_embeddings *out, struct assay_error *error)
{
    static const struct assay_embed_options defaults;
    struct api_call call;
    api_begin(&call);
    int rc = api_need(&call, directory, "directory");
    if (!rc)
        rc = api_need_list(&call, texts, count, "texts");
    if (!rc)
        rc = embed(&call, directory, texts, count, options ? options : &defaults, out);
    return api_end(&call, rc, error);
}
