// SPDX-License-Identifier: Apache-2.0
// The document of timed stages (schema assay.bench.stages/1) for people: what plain products reach, requests as they
// are served, modules beside their floors, and how the whole is made of them.
#ifndef REPORT_STAGES_H
#define REPORT_STAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

int report_stages_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err);
int report_stages_markdown(struct str *out, const json_t *doc, struct error *err);
int report_stages_html(struct str *out, const json_t *doc, const char *sha256, struct error *err);
// Every sample.
int report_stages_csv(struct str *out, const json_t *doc, struct error *err);

// The document of two of them head to head (schema assay.bench.compare/1).
int report_stages_compare_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err);
int report_stages_compare_markdown(struct str *out, const json_t *doc, struct error *err);
int report_stages_compare_html(struct str *out, const json_t *doc, const char *sha256, struct error *err);
int report_stages_compare_csv(struct str *out, const json_t *doc, struct error *err);

#endif
