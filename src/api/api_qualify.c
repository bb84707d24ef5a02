// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/qualify_record.h"

static int recorded(struct api_call *call, struct qualify *q, const char *run_dir, struct assay_qualification *out)
{
    struct api_record kept;
    int rc = api_record_open(call, &kept, run_dir, "qualify");
    if (rc)
        return rc;
    rc = qualify_record(q, &kept.record, &kept.document, &call->err);
    rc = api_record_take(call, &kept, rc, &out->json, &out->record);
    if (!rc)
        out->refused = q->chosen < 0;
    return rc;
}

static int qualify(struct api_call *call, const char *workload, const struct assay_qualify_options *o,
                   struct assay_qualification *out)
{
    static const char *const f32[] = {"f32"};
    struct qualify_options options = {
        .workload = {.directory = workload,
                     .text_path = o->text_path,
                     .batch = o->batch || program_is(workload) ? o->batch : 32,
                     .seq = o->seq,
                     .weights = o->weights,
                     .inputs = o->inputs,
                     .weight_args = o->weight_args,
                     .seed = o->seed},
        .policies = o->policy_count ? o->policies : f32,
        .n_policies = o->policy_count ? o->policy_count : 1,
        .chips = o->chips,
        .n_chips = o->chip_count,
        .targets = o->targets,
        .n_targets = o->target_count,
        .calibration = o->calibration,
        .require = o->require,
        .samples = o->samples ? o->samples : 30,
        .warmup = o->warmup == 0    ? -1
                  : o->warmup == -1 ? 0
                                    : o->warmup,
        .seed = o->seed,
        .calibrate = o->calibrate_path,
        .emulate = o->emulate,
    };
    struct progress progress = api_progress(&o->progress);
    struct qualify q;
    if (options.samples < 1 || options.samples > 1000000)
        return error_set(&call->err, ERR_USAGE, "samples", "must be from 1 to 1000000, not %lld",
                         (long long)options.samples);
    if (o->warmup < -1 || o->warmup > 1000000)
        return error_set(&call->err, ERR_USAGE, "warmup", "must be from -1 to 1000000, not %lld", (long long)o->warmup);
    int rc = api_device(call, &o->device, &options.worker);
    if (!rc)
        rc = qualify_open(&q, &options, &progress, &call->err);
    if (rc)
        return rc;
    rc = recorded(call, &q, o->run_dir, out);
    qualify_close(&q);
    return rc;
}

int assay_qualify(const char *workload, const struct assay_qualify_options *options, struct assay_qualification *out,
                  struct assay_error *error)
{
    static const struct assay_qualify_options defaults;
    const struct assay_qualify_options *o = options ? options : &defaults;
    struct api_call call;
    api_begin(&call);
    int rc = api_need(&call, workload, "workload");
    if (!rc && !program_is(workload))
        rc = api_need(&call, o->text_path, "text_path");
    if (!rc)
        rc = api_need_list(&call, o->policies, o->policy_count, "policies");
    if (!rc)
        rc = api_need_list(&call, o->chips, o->chip_count, "chips");
    if (!rc)
        rc = api_need_list(&call, o->targets, o->target_count, "targets");
    if (!rc)
        rc = qualify(&call, workload, o, out);
    return api_end(&call, rc, error);
}
