// SPDX-License-Identifier: Apache-2.0
// From a result document to what people read, whichever command wrote it.
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

enum report_format { REPORT_TEXT, REPORT_MARKDOWN, REPORT_HTML, REPORT_CSV };

// "text", "md", "html", "csv"; false when the name is none of them.
bool report_format_parse(const char *name, enum report_format *out);

// Appends the report of `doc` (envelope included), chosen by its schema. `sha256` is the hash of the document's bytes,
// which a page with figures carries (NULL: not known). `width` (0: no limit) and `color` count for REPORT_TEXT only.
// ERR_INPUT for a schema that has no report, naming those that have; ERR_USAGE for a form that the report does not
// have.
int report_render(struct str *out, const json_t *doc, const char *sha256, enum report_format format, size_t width,
                  bool color, struct error *err);

#endif
