// SPDX-License-Identifier: Apache-2.0
// A ladder and the evidence it leaves.
#ifndef API_LADDER_RECORD_H
#define API_LADDER_RECORD_H

#include "lab/ladder.h"
#include "record/record.h"

// Runs the ladder into an open record: config.json, report.json, report.md, report.html. Appends the document to
// `document`. On an error the record is closed as failed. Release the ladder in any case.
int ladder_record(struct ladder *l, const struct ladder_options *o, const struct progress *progress,
                  struct record *record, struct str *document, struct error *err);

#endif
