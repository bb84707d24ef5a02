// SPDX-License-Identifier: Apache-2.0
// A qualify document (docs/schemas/assay.qualify.1.json, envelope included) as people read it. Any JSON may come in:
// what is missing or of another type is shown as missing. ERR_INPUT only when it is not a qualify document at all.
#ifndef REPORT_QUALIFY_H
#define REPORT_QUALIFY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

// The first screen: workload, device, policies, modules with their floors, decision. No line is longer than `width`
// (0: no limit).
int report_qualify_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err);
// Everything the document holds, as tables.
int report_qualify_markdown(struct str *out, const json_t *doc, struct error *err);
// The same and charts, as one page that needs nothing else: no script, no network. `sha256` is the hash of the
// document's bytes, which the page carries (report_stale); NULL: not known.
int report_qualify_html(struct str *out, const json_t *doc, const char *sha256, struct error *err);

#endif
