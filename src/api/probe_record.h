// SPDX-License-Identifier: Apache-2.0
// A probe and the evidence it leaves.
#ifndef API_PROBE_RECORD_H
#define API_PROBE_RECORD_H

#include "lab/probe_run.h"

// Runs the probe into an open record: config.json, evidence/ with every vector and its result, programs/, report.json,
// report.md, report.html. Appends the document to `document`. On an error the record is closed as failed. Release the
// run in any case.
int probe_record(struct probe_run *r, const struct probe_options *o, const struct progress *progress,
                 struct record *record, struct str *document, struct error *err);

#endif
