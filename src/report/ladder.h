// SPDX-License-Identifier: Apache-2.0
// The document of a ladder (schema assay.ladder/1) for people: a line for every rung, and every key that does not pass;
// or what moved between two ladders.
#ifndef REPORT_LADDER_H
#define REPORT_LADDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

int report_ladder_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err);
int report_ladder_markdown(struct str *out, const json_t *doc, struct error *err);
int report_ladder_html(struct str *out, const json_t *doc, const char *sha256, struct error *err);
// Every key.
int report_ladder_csv(struct str *out, const json_t *doc, struct error *err);

#endif
