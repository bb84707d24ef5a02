// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/precision_record.h"

static int recorded(struct api_call *call, struct precision *p, const char *run_dir, struct assay_precision_result *out)
{
    struct api_record kept;
    int rc = api_record_open(call, &kept, run_dir, "precision");
    if (rc)
        return rc;
    rc = precision_record(p, &kept.record, &kept.document, &call->err);
    rc = api_record_take(call, &kept, rc, &out->json, &out->record);
    if (!rc)
        out->failed = precision_failed(p);
    return rc;
}

static int in_range(struct api_call *call, const char *name, int64_t value, int64_t most)
{
    return value >= 0 && value <= most ? 0
                                       : error_set(&call->err, ERR_USAGE, name, "must be from 1 to %lld, not %lld",
                                                   (long long)most, (long long)value);
}

static int precision(struct api_call *call, const struct assay_precision_options *o, struct assay_precision_result *out)
{
    struct precision_options options = {
        .suites = o->suites,
        .n_suites = o->suite_count,
        .tensor = o->tensor,
        .policies = o->policies,
        .n_policies = o->policy_count,
        .seed = o->seeded ? o->seed : 0,
        .seed_given = o->seeded,
        .batch = o->batch,
        .features = o->features,
        .outputs = o->outputs,
        .steps = o->steps,
        .trace = o->trace,
    };
    struct progress progress = api_progress(&o->progress);
    struct precision p;
    // As the program's options.
    int rc = in_range(call, "batch", o->batch, 65536);
    if (!rc)
        rc = in_range(call, "features", o->features, 1 << 20);
    if (!rc)
        rc = in_range(call, "outputs", o->outputs, 65536);
    if (!rc)
        rc = in_range(call, "steps", o->steps, 1000000);
    if (!rc)
        rc = api_device(call, &o->device, &options.worker);
    options.worker.kernels = false; // what is looked at are the products of the plugin
    if (!rc)
        rc = precision_open(&p, &options, &progress, &call->err);
    if (rc)
        return rc;
    rc = recorded(call, &p, o->run_dir, out);
    precision_close(&p);
    return rc;
}

int assay_precision(const struct assay_precision_options *options, struct assay_precision_result *out,
                    struct assay_error *error)
{
    static const struct assay_precision_options defaults;
    const struct assay_precision_options *o = options ? options : &defaults;
    struct api_call call;
    api_begin(&call);
    int rc = api_need_list(&call, o->suites, o->suite_count, "suites");
    if (!rc)
        rc = api_need_list(&call, o->policies, o->policy_count, "policies");
    if (!rc)
        rc = precision(&call, o, out);
    return api_end(&call, rc, error);
}
