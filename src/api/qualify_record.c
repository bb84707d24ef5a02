// SPDX-License-Identifier: Apache-2.0
#include "api/qualify_record.h"

#include "report/qualify.h"

static int write_config(const struct qualify *q, struct record *record, struct error *err)
{
    struct jw w;
    struct str config;
    str_init(&config);
    jw_init(&w, &config, false);
    jw_object(&w);
    record_provenance(&w, record);
    qualify_config(q, &w);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = record_config(record, config.text, config.length, err);
    str_release(&config);
    return rc;
}

static int write_document(const struct qualify *q, const struct record *record, struct str *document, struct error *err)
{
    struct jw w;
    struct str result;
    str_init(&result);
    jw_init(&w, &result, false);
    int rc = qualify_json(q, &w, err);
    if (!rc)
        rc = jw_finish(&w, err);
    if (!rc)
        rc = record_envelope(document, "qualify", record_path(record), str_text(&result), NULL, err);
    str_release(&result);
    return rc;
}

static int write_pages(struct record *record, const struct str *document, struct error *err)
{
    struct str page;
    json_t *doc = json_parse(document->text, document->length, "report.json", err);
    if (!doc)
        return ERR_INTERNAL;
    str_init(&page);
    int rc = report_qualify_markdown(&page, doc, err);
    if (!rc)
        rc = record_write(record, "report.md", page.text, page.length, err);
    str_clear(&page);
    if (!rc)
        rc = report_qualify_html(&page, doc, err);
    if (!rc)
        rc = record_write(record, "report.html", page.text, page.length, err);
    str_release(&page);
    json_decref(doc);
    return rc;
}

// What is left of a run that failed: why, and how each worker ended.
static void keep_failed(const struct qualify *q, struct record *record, const struct error *why)
{
    struct error ignored = {0}; // the first error is the one to tell
    struct str details;
    struct jw w;
    str_init(&details);
    jw_init(&w, &details, false);
    qualify_failures(q, &w);
    bool known = jw_finish(&w, &ignored) == 0;
    record_fail(record, why, known ? str_text(&details) : NULL, &ignored);
    str_release(&details);
}

static int run(struct qualify *q, struct record *record, struct str *document, struct error *err)
{
    struct error absent = {0};
    int found = qualify_find_device(q, &absent);
    int rc = write_config(q, record, err);
    if (!rc && found)
        rc = error_set(err, found, absent.where, "%s", absent.message);
    if (!rc)
        rc = qualify_run(q, record, err);
    if (!rc)
        rc = write_document(q, record, document, err);
    if (!rc)
        rc = write_pages(record, document, err);
    return rc ? rc : record_commit(record, document->text, document->length, err);
}

int qualify_record(struct qualify *q, struct record *record, struct str *document, struct error *err)
{
    int rc = run(q, record, document, err);
    if (rc)
        keep_failed(q, record, err);
    return rc;
}
