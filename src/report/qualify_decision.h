// SPDX-License-Identifier: Apache-2.0
// The decision report of a qualify document, part by part. A document of an older version has none.
#ifndef REPORT_QUALIFY_DECISION_H
#define REPORT_QUALIFY_DECISION_H

#include "base/json.h"
#include "base/str.h"
#include "report/page.h"
#include "report/table.h"

size_t qualify_parts(const json_t *result);
const json_t *qualify_part(const json_t *result, size_t i);
void qualify_part_title(struct str *out, const json_t *result, size_t i); // "3. Precision policy", raw text
void qualify_table_part(struct table *t, const json_t *part);
// All of it on a terminal: commands only where something is not known.
void qualify_parts_text(const struct page *p, const json_t *result);

#endif
