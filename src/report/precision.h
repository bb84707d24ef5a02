// SPDX-License-Identifier: Apache-2.0
// A precision document (docs/schemas/assay.precision.1.json, envelope included) as people read it. Any JSON may come
// in: what is missing or of another type is shown as missing. ERR_INPUT only when it is not a precision document at
// all.
//
// `sha256` is the hash of the document's bytes, report.json's. Pages and pictures carry it, so that one that was drawn
// from another document is seen (report_stale). NULL: not known, and then not shown.
#ifndef REPORT_PRECISION_H
#define REPORT_PRECISION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

// No line is longer than `width` (0: no limit).
int report_precision_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err);
// Everything the document holds, as tables.
int report_precision_markdown(struct str *out, const json_t *doc, struct error *err);
// The same with the figures, as one page that needs nothing else.
int report_precision_html(struct str *out, const json_t *doc, const char *sha256, struct error *err);
// One row per case and reference.
int report_precision_csv(struct str *out, const json_t *doc, struct error *err);

// The figures of all suites, as SVG files of their own. name[64] gets "SUITE-FIGURE"; nothing is appended when the
// document has no numbers for it.
size_t report_precision_figures(const json_t *doc);
int report_precision_figure(struct str *out, char name[64], const json_t *doc, size_t index, const char *sha256,
                            struct error *err);

#endif
