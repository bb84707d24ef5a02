// SPDX-License-Identifier: Apache-2.0
// A qualification as it is kept: the program and the library both run it through this.
#ifndef API_QUALIFY_RECORD_H
#define API_QUALIFY_RECORD_H

#include "lab/qualify.h"

// Writes config.json, runs, writes report.md and report.html, and commits the record with the document of
// assay.qualify/1, which is appended to `document`: everything shown is what the record holds. On an error the record
// is closed as failed; record->building then names the place.
int qualify_record(struct qualify *q, struct record *record, struct str *document, struct error *err);

#endif
