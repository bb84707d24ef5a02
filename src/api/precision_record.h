// SPDX-License-Identifier: Apache-2.0
// A run of the precision lab as it is kept: the program and the library both run it through this.
#ifndef API_PRECISION_RECORD_H
#define API_PRECISION_RECORD_H

#include "lab/precision.h"

// Writes config.json, runs, writes report.md, report.html and figures/*.svg, and commits the record with the document
// of assay.precision/1, which is appended to `document`. On an error the record is closed as failed; record->building
// then names the place.
int precision_record(struct precision *p, struct record *record, struct str *document, struct error *err);

#endif
