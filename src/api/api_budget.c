// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"
#include "plan/budget.h"
#include "record/record.h"

static int result(void *of, struct jw *w, struct error *err)
{
    return budget_json(of, w, err);
}

static int budget(struct api_call *call, const char *workload, const struct assay_budget_options *o, char **json)
{
    struct budget_options options = {
        .workload = workload,
        .params = o->params,
        .cache = o->cache,
        .policy = o->policy,
        .targets = o->chips,
        .n_targets = o->chip_count,
        .layouts = o->layouts,
        .n_layouts = o->layout_count,
        .batch = o->batch,
        .seq = o->seq,
        .train = o->train,
        .remat = o->remat,
        .naive_attention = o->naive_attention,
        .page = o->page,
        .prefill = o->prefill,
        .reserve_bytes = o->reserve_bytes,
        .utilization = o->utilization,
        .unpacked = o->unpacked,
        .weights_only = o->weights_only,
        .height = o->height,
        .width = o->width,
    };
    struct budget b;
    int rc = budget_open(&b, &options, &call->err);
    if (!rc)
        rc = api_document(call, "budget", result, &b, json);
    budget_close(&b);
    return rc;
}

int assay_budget(const char *workload, const struct assay_budget_options *options, char **json,
                 struct assay_error *error)
{
    static const struct assay_budget_options defaults;
    const struct assay_budget_options *o = options ? options : &defaults;
    struct api_call call;
    api_begin(&call);
    int rc = api_need_list(&call, o->chips, o->chip_count, "chips");
    if (!rc)
        rc = api_need_list(&call, o->layouts, o->layout_count, "layouts");
    if (!rc)
        rc = budget(&call, workload, o, json);
    return api_end(&call, rc, error);
}
