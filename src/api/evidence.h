// SPDX-License-Identifier: Apache-2.0
// What every command that leaves a record writes into it, in whose order: config.json before anything runs, then the
// document and the pages drawn from it; or, when it failed, failure.json.
#ifndef API_EVIDENCE_H
#define API_EVIDENCE_H

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "record/record.h"

// An experiment as a record sees it; `of` is handed to each function.
struct evidence {
    const char *command; // "qualify"
    const void *of;
    void (*config)(const void *of, struct jw *w);                   // members of an open object
    int (*result)(const void *of, struct jw *w, struct error *err); // the result object of the document
    void (*failures)(const void *of, struct jw *w);                 // the details of failure.json, one object
    int (*markdown)(struct str *out, const json_t *doc, struct error *err);
    int (*html)(struct str *out, const json_t *doc, const char *sha256, struct error *err);
    // Other files drawn from the document; NULL: none.
    int (*more)(struct record *record, const json_t *doc, const char *sha256, struct error *err);
};

// config.json: where the run took place, and what was asked.
int evidence_config(const struct evidence *e, struct record *record, struct error *err);
// After the run: the document (appended to `document`), report.md, report.html and `more`, and the commit.
int evidence_commit(const struct evidence *e, struct record *record, struct str *document, struct error *err);
// Closes the record as failed, with why and the experiment's own account of it.
void evidence_fail(const struct evidence *e, struct record *record, const struct error *why);

#endif
