// SPDX-License-Identifier: Apache-2.0
#include "api/precision_record.h"

#include <stdio.h>

#include "api/evidence.h"
#include "report/precision.h"

static void config(const void *p, struct jw *w)
{
    precision_config(p, w);
}

static int result(const void *p, struct jw *w, struct error *err)
{
    return precision_json(p, w, err);
}

static void failures(const void *p, struct jw *w)
{
    precision_failures(p, w);
}

static int write_figures(struct record *record, const json_t *doc, const char *sha256, struct error *err)
{
    struct str picture;
    int rc = 0;
    str_init(&picture);
    for (size_t i = 0; i < report_precision_figures(doc) && !rc; i++) {
        char name[64], path[96];
        str_clear(&picture);
        rc = report_precision_figure(&picture, name, doc, i, sha256, err);
        snprintf(path, sizeof path, "figures/%s.svg", name);
        if (!rc && picture.length)
            rc = record_write(record, path, picture.text, picture.length, err);
    }
    str_release(&picture);
    return rc;
}

int precision_record(struct precision *p, struct record *record, struct str *document, struct error *err)
{
    const struct evidence evidence = {.command = "precision",
                                      .of = p,
                                      .config = config,
                                      .result = result,
                                      .failures = failures,
                                      .markdown = report_precision_markdown,
                                      .html = report_precision_html,
                                      .more = write_figures};
    int rc = evidence_config(&evidence, record, err);
    if (!rc)
        rc = precision_run(p, record, err);
    if (!rc)
        rc = evidence_commit(&evidence, record, document, err);
    if (rc)
        evidence_fail(&evidence, record, err);
    return rc;
}
