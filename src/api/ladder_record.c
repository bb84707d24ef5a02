// SPDX-License-Identifier: Apache-2.0
#include "api/ladder_record.h"

#include "api/evidence.h"
#include "lab/ladder_json.h"
#include "report/ladder.h"

struct climbing {
    const struct ladder *ladder;
    const struct ladder_options *options;
};

static void config(const void *of, struct jw *w)
{
    const struct climbing *c = of;
    ladder_config(c->options, w);
}

static int result(const void *of, struct jw *w, struct error *err)
{
    const struct climbing *c = of;
    (void)err;
    jw_object(w);
    ladder_json(c->ladder, w);
    jw_object_end(w);
    return 0;
}

static void failures(const void *of, struct jw *w)
{
    const struct climbing *c = of;
    jw_object(w);
    jw_kv_uint(w, "keys_scored", c->ladder->n_keys);
    jw_object_end(w);
}

int ladder_record(struct ladder *l, const struct ladder_options *o, const struct progress *progress,
                  struct record *record, struct str *document, struct error *err)
{
    const struct climbing of = {l, o};
    const struct evidence evidence = {.command = "ladder",
                                      .of = &of,
                                      .config = config,
                                      .result = result,
                                      .failures = failures,
                                      .markdown = report_ladder_markdown,
                                      .html = report_ladder_html};
    int rc = evidence_config(&evidence, record, err);
    if (!rc)
        rc = ladder_run(l, o, progress, err);
    if (!rc)
        rc = evidence_commit(&evidence, record, document, err);
    if (rc)
        evidence_fail(&evidence, record, err);
    return rc;
}
