// SPDX-License-Identifier: Apache-2.0
#include "api/evidence.h"

#include "base/sha256.h"

int evidence_config(const struct evidence *e, struct record *record, struct error *err)
{
    struct jw w;
    struct str config;
    str_init(&config);
    jw_init(&w, &config, false);
    jw_object(&w);
    record_provenance(&w, record);
    e->config(e->of, &w);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = record_config(record, config.text, config.length, err);
    str_release(&config);
    return rc;
}

static int write_document(const struct evidence *e, const struct record *record, struct str *document,
                          struct error *err)
{
    struct jw w;
    struct str result;
    str_init(&result);
    jw_init(&w, &result, false);
    int rc = e->result(e->of, &w, err);
    if (!rc)
        rc = jw_finish(&w, err);
    if (!rc)
        rc = record_envelope(document, e->command, record_path(record), str_text(&result), NULL, err);
    str_release(&result);
    return rc;
}

// Everything that people look at is drawn from the document, read back from its bytes.
static int write_pages(const struct evidence *e, struct record *record, const struct str *document, struct error *err)
{
    char sha256[65];
    struct str page;
    json_t *doc = json_parse(document->text, document->length, "report.json", err);
    if (!doc)
        return ERR_INTERNAL;
    str_init(&page);
    int rc = sha256_bytes(document->text, document->length, sha256, err);
    if (!rc)
        rc = e->markdown(&page, doc, err);
    if (!rc)
        rc = record_write(record, "report.md", page.text, page.length, err);
    str_clear(&page);
    if (!rc)
        rc = e->html(&page, doc, sha256, err);
    if (!rc)
        rc = record_write(record, "report.html", page.text, page.length, err);
    if (!rc && e->more)
        rc = e->more(record, doc, sha256, err);
    str_release(&page);
    json_decref(doc);
    return rc;
}

int evidence_commit(const struct evidence *e, struct record *record, struct str *document, struct error *err)
{
    int rc = write_document(e, record, document, err);
    if (!rc)
        rc = write_pages(e, record, document, err);
    return rc ? rc : record_commit(record, document->text, document->length, err);
}

void evidence_fail(const struct evidence *e, struct record *record, const struct error *why)
{
    struct error ignored = {0}; // the first error is the one to tell
    struct str details;
    struct jw w;
    str_init(&details);
    jw_init(&w, &details, false);
    e->failures(e->of, &w);
    bool known = jw_finish(&w, &ignored) == 0;
    record_fail(record, why, known ? str_text(&details) : NULL, &ignored);
    str_release(&details);
}
