// SPDX-License-Identifier: Apache-2.0
#include "api/stages_record.h"

#include "api/evidence.h"
#include "report/stages.h"

struct timing {
    const struct stages *stages;
    const struct stages_options *options;
};

static void config(const void *of, struct jw *w)
{
    const struct timing *t = of;
    stages_config(t->options, w);
}

static int result(const void *of, struct jw *w, struct error *err)
{
    const struct timing *t = of;
    return stages_json(t->stages, w, err);
}

static void failures(const void *of, struct jw *w)
{
    const struct timing *t = of;
    int done = t->stages->calib.n_products ? 1 : 0;
    for (int i = 0; i < STAGES_SERVINGS; i++)
        done += t->stages->serving[i].done;
    for (int i = 0; i < STAGES_MODULES; i++)
        done += t->stages->modules[i].done;
    jw_object(w);
    jw_kv_int(w, "timed", done);
    jw_object_end(w);
}

int stages_record(struct stages *s, const struct stages_options *o, const struct progress *progress,
                  struct record *record, struct str *document, struct error *err)
{
    const struct timing of = {s, o};
    const struct evidence evidence = {.command = "bench stages",
                                      .of = &of,
                                      .config = config,
                                      .result = result,
                                      .failures = failures,
                                      .markdown = report_stages_markdown,
                                      .html = report_stages_html};
    int rc = evidence_config(&evidence, record, err);
    if (!rc)
        rc = stages_run(s, o, progress, err);
    if (!rc)
        rc = evidence_commit(&evidence, record, document, err);
    if (rc)
        evidence_fail(&evidence, record, err);
    return rc;
}
