// SPDX-License-Identifier: Apache-2.0
// Commands that leave a record: the record's life around the experiment, and the document shown as it was asked for.
#ifndef CLI_RECORDED_H
#define CLI_RECORDED_H

#include "cli/command.h"
#include "record/record.h"

// Runs the experiment `of` into an open record and appends the document to `document`. On an error it has closed the
// record as failed.
typedef int cli_fill(void *of, struct record *record, struct str *document, struct error *err);

// Opens the record that --run-dir names, fills it, and shows the document: itself under --json or in the form "json",
// else rendered by its schema in the form `format` ("text", "md", "html", "csv"). Sets cli->record. After a failure a
// note names what was left.
int cli_recorded(struct cli *cli, const char *command, cli_fill *fill, void *of, const char *format, struct error *err);

// Shows a document as --json or the form says: itself, or rendered by its schema.
int cli_show(struct cli *cli, const struct str *document, const char *format, struct error *err);

#endif
