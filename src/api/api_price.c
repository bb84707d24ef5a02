// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"
#include "lab/price.h"
#include "record/record.h"

static int result(void *of, struct jw *w, struct error *err)
{
    return price_json(of, w, err);
}

// The bounds of the command's options; 0 is a default.
static int check_shape(struct api_call *call, const struct assay_price_options *o)
{
    const struct {
        const char *name;
        int64_t value, most;
    } sizes[] = {{"height", o->height, 65536},
                 {"width", o->width, 65536},
                 {"steps", o->steps, 65536},
                 {"tokens", o->tokens, 1048576}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 0 || sizes[i].value > sizes[i].most)
            return error_set(&call->err, ERR_USAGE, sizes[i].name, "must be from 1 to %lld, not %lld",
                             (long long)sizes[i].most, (long long)sizes[i].value);
    }
    return 0;
}

static int price(struct api_call *call, const char *workload, const struct assay_price_options *o, char **json)
{
    struct price_options options = {.workload = workload,
                                    .policy = o->policy,
                                    .chips = o->chips,
                                    .n_chips = o->chip_count,
                                    .layouts = o->layouts,
                                    .n_layouts = o->layout_count,
                                    .calibration = o->calibration,
                                    .targets = o->targets,
                                    .n_targets = o->target_count,
                                    .what_if = o->what_if,
                                    .by_scope = o->by_scope,
                                    .lenient = o->lenient,
                                    .weights = o->weights,
                                    .inputs = o->inputs,
                                    .shape = {.batch = o->batch,
                                              .seq = o->seq,
                                              .height = o->height,
                                              .width = o->width,
                                              .steps = o->steps,
                                              .tokens = o->tokens,
                                              .weight_args = o->weight_args}};
    struct price p;
    int rc = price_open(&p, &options, &call->err);
    if (!rc)
        rc = price_predict(&p, NULL, &call->err);
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
        rc = api_need_list(&call, o->layouts, o->layout_count, "layouts");
    if (!rc)
        rc = api_need_list(&call, o->targets, o->target_count, "targets");
    if (!rc)
        rc = check_shape(&call, o);
    if (!rc)
        rc = price(&call, workload, o, json);
    return api_end(&call, rc, error);
}
