// SPDX-License-Identifier: Apache-2.0
#include "api/precision_record.h"

#include <stdio.h>

#include "base/sha256.h"
#include "report/precision.h"

static int write_config(const struct precision *p, struct record *record, struct error *err)
{
    struct jw w;
    struct str config;
    str_init(&config);
    jw_init(&w, &config, false);
    jw_object(&w);
    record_provenance(&w, record);
    precision_config(p, &w);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = record_config(record, config.text, config.length, err);
    str_release(&config);
    return rc;
}

static int write_document(const struct precision *p, const struct record *record, struct str *document,
                          struct error *err)
{
    struct jw w;
    struct str result;
    str_init(&result);
    jw_init(&w, &result, false);
    int rc = precision_json(p, &w, err);
    if (!rc)
        rc = jw_finish(&w, err);
    if (!rc)
        rc = record_envelope(document, "precision", record_path(record), str_text(&result), NULL, err);
    str_release(&result);
    return rc;
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

// Everything that people look at is drawn from the document, read back from its bytes.
static int write_pages(struct record *record, const struct str *document, struct error *err)
{
    char sha256[65];
    struct str page;
    json_t *doc = json_parse(document->text, document->length, "report.json", err);
    if (!doc)
        return ERR_INTERNAL;
    str_init(&page);
    int rc = sha256_bytes(document->text, document->length, sha256, err);
    if (!rc)
        rc = report_precision_markdown(&page, doc, err);
    if (!rc)
        rc = record_write(record, "report.md", page.text, page.length, err);
    str_clear(&page);
    if (!rc)
        rc = report_precision_html(&page, doc, sha256, err);
    if (!rc)
        rc = record_write(record, "report.html", page.text, page.length, err);
    if (!rc)
        rc = write_figures(record, doc, sha256, err);
    str_release(&page);
    json_decref(doc);
    return rc;
}

// What is left of a run that failed: why, and how the worker ended.
static void keep_failed(const struct precision *p, struct record *record, const struct error *why)
{
    struct error ignored = {0}; // the first error is the one to tell
    struct str details;
    struct jw w;
    str_init(&details);
    jw_init(&w, &details, false);
    precision_failures(p, &w);
    bool known = jw_finish(&w, &ignored) == 0;
    record_fail(record, why, known ? str_text(&details) : NULL, &ignored);
    str_release(&details);
}

int precision_record(struct precision *p, struct record *record, struct str *document, struct error *err)
{
    int rc = write_config(p, record, err);
    if (!rc)
        rc = precision_run(p, record, err);
    if (!rc)
        rc = write_document(p, record, document, err);
    if (!rc)
        rc = write_pages(record, document, err);
    if (!rc)
        rc = record_commit(record, document->text, document->length, err);
    if (rc)
        keep_failed(p, record, err);
    return rc;
}
