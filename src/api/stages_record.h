// SPDX-License-Identifier: Apache-2.0
// Timed stages and the evidence they leave.
#ifndef API_STAGES_RECORD_H
#define API_STAGES_RECORD_H

#include "lab/stages.h"
#include "lab/stages_compare.h"
#include "record/record.h"

// Runs the stages into an open record: config.json, report.json, report.md, report.html. Appends the document to
// `document`. On an error the record is closed as failed. Release the stages in any case.
int stages_record(struct stages *s, const struct stages_options *o, const struct progress *progress,
                  struct record *record, struct str *document, struct error *err);

// A device to compare, by what people call it.
struct stages_device {
    const char *name, *device;
    int threads; // 0: as the options say
};
// What is wrong with either before anything runs, as stages_check, and whether they can run in turns.
int stages_compare_check(const struct stages_options *o, const struct stages_device devices[2],
                         struct stages_order *order, struct error *err);
// Runs the stages on both and sets them head to head. In turns both are loaded, and samples are taken in rounds A B,
// B A, ...; otherwise b runs behind a. The record holds a/ and b/, each with stages.json (its document) and
// outputs.safetensors.
int stages_compare_record(const struct stages_options *o, const struct stages_device devices[2],
                          const struct stages_order *order, const struct progress *progress, struct record *record,
                          struct str *document, struct error *err);

#endif
