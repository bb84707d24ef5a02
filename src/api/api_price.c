// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"
#include "lab/price.h"
#include "record/record.h"

static int result(void *of, struct jw *w, struct error *err)
{
    return price_json(of, w, err);
}

static int price(struct api_call *call, const char *workload, const struct assay_price_options *o, char **json)
{
    struct price_options options = {.workload = workload,
                                    .policy = o->policy,
                                    .chips = o->chips,
                                    .n_chips = o->chip_count,
                                    .shape = {.batch = o->batch, .seq = o->seq}};
    struct price p;
    int rc = price_open(&p, &options, &call->err);
    if (!rc)
        rc = api_document(call, "price", result, &p, json);
    price_close(&p);
    return rc;
}

int assay_price(const char *workload, const struct assay_price_options *options, char **json, struct assay_error *error)
{
    static const struct assay_price_options defaults;
    const struct assay_price_options *o = options ? options : &defaults;
    struct api_call call;
    api_begin(&call);
    int rc = api_need(&call, workload, "workload");
    if (!rc)
        rc = api_need_list(&call, o->chips, o->chip_count, "chips");
    if (!rc)
        rc = price(&call, workload, o, json);
    return api_end(&call, rc, error);
}
