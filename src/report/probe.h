// SPDX-License-Identifier: Apache-2.0
// The document of a probe (schema assay.probe/1) for people. Rows whose findings are the same in every word stand
// together.
#ifndef REPORT_PROBE_H
#define REPORT_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

int report_probe_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err);
int report_probe_markdown(struct str *out, const json_t *doc, struct error *err);
int report_probe_html(struct str *out, const json_t *doc, const char *sha256, struct error *err);

#endif
