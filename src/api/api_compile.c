// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"
#include "lab/compile.h"

static int result(void *of, struct jw *w, struct error *err)
{
    (void)err;
    compile_json(of, w);
    return 0;
}

static int compile(struct api_call *call, const char *workload, const struct assay_compile_options *o, char **json)
{
    struct compile_job job = {.workload = workload,
                              .shape = {.batch = o->batch,
                                        .seq = o->seq,
                                        .height = o->height,
                                        .width = o->width,
                                        .steps = o->steps,
                                        .tokens = o->tokens},
                              .programs = o->programs,
                              .n_programs = o->program_count,
                              .targets = o->targets,
                              .n_targets = o->target_count,
                              .policies = o->policies,
                              .n_policies = o->policy_count,
                              .flags = o->flags,
                              .n_flags = o->flag_count,
                              .layout = o->layout,
                              .precision = o->precision,
                              .no_evidence = o->no_evidence,
                              .emulations = true,
                              .hash_plugin = true,
                              .plugin = o->plugin,
                              .timeout_s = o->timeout_s,
                              .efficiency = o->efficiency,
                              .jobs = o->jobs};
    struct compile c;
    int rc = compile_open(&c, &job, &call->err);
    if (!rc)
        rc = compile_run(&c, &call->err);
    if (!rc)
        rc = api_document(call, "compile", result, &c, json);
    compile_close(&c);
    return rc;
}

static int check(struct api_call *call, const char *workload, const struct assay_compile_options *o)
{
    int rc = api_need(call, workload, "workload");
    if (!rc && (!o || !o->target_count))
        rc = error_set(&call->err, ERR_USAGE, "targets", "say what to compile for: v6e:2x4, tpu7x, h100");
    if (!rc)
        rc = api_need_list(call, o->targets, o->target_count, "targets");
    if (!rc)
        rc = api_need_list(call, o->policies, o->policy_count, "policies");
    if (!rc)
        rc = api_need_list(call, o->flags, o->flag_count, "flags");
    if (!rc)
        rc = api_need_list(call, o->programs, o->program_count, "programs");
    if (!rc && (!(o->efficiency >= 0 && o->efficiency <= 1) || !(o->timeout_s >= 0) || o->jobs < 0 || o->batch < 0 ||
                o->seq < 0 || o->height < 0 || o->width < 0 || o->steps < 0 || o->tokens < 0))
        rc = error_set(&call->err, ERR_USAGE, "options",
                       "efficiency is from 0 to 1, the other numbers are not negative");
    return rc;
}

int assay_compile(const char *workload, const struct assay_compile_options *options, char **json,
                  struct assay_error *error)
{
    struct api_call call;
    api_begin(&call);
    int rc = check(&call, workload, options);
    if (!rc)
        rc = compile(&call, workload, options, json);
    return api_end(&call, rc, error);
}
