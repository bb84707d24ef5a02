// SPDX-License-Identifier: Apache-2.0
// Timed stages and the evidence they leave.
#ifndef API_STAGES_RECORD_H
#define API_STAGES_RECORD_H

#include "lab/stages.h"
#include "record/record.h"

// Runs the stages into an open record: config.json, report.json, report.md, report.html. Appends the document to
// `document`. On an error the record is closed as failed. Release the stages in any case.
int stages_record(struct stages *s, const struct stages_options *o, const struct progress *progress,
                  struct record *record, struct str *document, struct error *err);

#endif
