// SPDX-License-Identifier: Apache-2.0
#include "api/qualify_record.h"

#include "api/evidence.h"
#include "report/qualify.h"

static void config(const void *q, struct jw *w)
{
    qualify_config(q, w);
}

static int result(const void *q, struct jw *w, struct error *err)
{
    return qualify_json(q, w, err);
}

// Why each policy failed, and how its worker ended.
static void failures(const void *q, struct jw *w)
{
    qualify_failures(q, w);
}

int qualify_record(struct qualify *q, struct record *record, struct str *document, struct error *err)
{
    const struct evidence evidence = {.command = "qualify",
                                      .of = q,
                                      .config = config,
                                      .result = result,
                                      .failures = failures,
                                      .markdown = report_qualify_markdown,
                                      .html = report_qualify_html};
    struct error absent = {0};
    int found = qualify_find_device(q, &absent);
    int rc = evidence_config(&evidence, record, err);
    if (!rc && found)
        rc = error_set(err, found, absent.where, "%s", absent.message);
    if (!rc)
        rc = qualify_run(q, record, err);
    if (!rc)
        rc = evidence_commit(&evidence, record, document, err);
    if (rc)
        evidence_fail(&evidence, record, err);
    return rc;
}
