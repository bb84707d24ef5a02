// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "api/api.h"
#include "lab/quantize_file.h"

struct made {
    const struct quantize_file *q;
    const struct quantize_options *o;
};

static int result(void *of, struct jw *w, struct error *err)
{
    const struct made *made = of;
    (void)err;
    quantize_file_json(made->q, made->o, w);
    return 0;
}

static int quantise(struct api_call *call, const char *in, const char *out, const char *policy,
                    const struct assay_quantize_options *o, char **json)
{
    struct quantize_options options = {.in = in,
                                       .out = out,
                                       .policy = policy,
                                       .skip = o->skip,
                                       .n_skip = o->skip_count,
                                       .threads = (size_t)o->threads,
                                       .calibrate = {.texts = o->calibrate, .batch = o->batch, .seq = o->seq}};
    struct progress progress = api_progress(&o->progress);
    struct quantize_file q;
    if (o->threads < 0 || o->threads > 4096)
        return error_set(&call->err, ERR_USAGE, "threads", "must be from 1 to 4096, not %d", o->threads);
    if (!quantize_nonfinite_from_name(o->nan ? o->nan : "error", &options.nonfinite))
        return error_set(&call->err, ERR_USAGE, "nan", "\"%s\" is not one of: error saturate keep", o->nan);
    int rc = api_device(call, &o->device, &options.calibrate.worker);
    options.calibrate.worker.kernels = false; // scales are of the plugin's own activations
    if (rc)
        return rc;
    rc = quantize_file(&q, &options, &progress, &call->err);
    if (!rc)
        rc = api_document(call, "quantize", result, &(struct made){&q, &options}, json);
    quantize_file_release(&q);
    return rc;
}

int assay_quantize(const char *in, const char *out, const char *policy, const struct assay_quantize_options *options,
                   char **json, struct assay_error *error)
{
    static const struct assay_quantize_options defaults;
    const struct assay_quantize_options *o = options ? options : &defaults;
    struct api_call call;
    api_begin(&call);
    int rc = api_need(&call, in, "in");
    if (!rc)
        rc = api_need(&call, out, "out");
    if (!rc)
        rc = api_need(&call, policy, "policy");
    if (!rc)
        rc = api_need_list(&call, o->skip, o->skip_count, "skip");
    if (!rc)
        rc = quantise(&call, in, out, policy, o, json);
    return api_end(&call, rc, error);
}
