// SPDX-License-Identifier: Apache-2.0
// Why policies that store less are no faster: one paragraph for each such policy, its reasons and what to compare.
// Nothing at all where there is no such policy.
#ifndef REPORT_QUALIFY_WHY_H
#define REPORT_QUALIFY_WHY_H

#include "base/json.h"
#include "base/str.h"
#include "report/page.h"

bool qualify_why_any(const json_t *result);
void qualify_why_text(const struct page *p, const json_t *result);
void qualify_why_markdown(struct str *out, const json_t *result);
void qualify_why_html(struct str *out, const json_t *result);

#endif
