// SPDX-License-Identifier: Apache-2.0
// The tables of a precision document, the same for terminal, Markdown and HTML.
#ifndef REPORT_PRECISION_TABLES_H
#define REPORT_PRECISION_TABLES_H

#include "base/str.h"
#include "report/doc.h"
#include "report/table.h"

// result, or NULL with ERR_INPUT when doc is not a precision document.
const json_t *precision_show_result(const json_t *doc, struct error *err);

// Sections of the cases of a suite, in order of first use: the number of them, and the name of one.
size_t precision_show_sections(const json_t *suite);
const char *precision_show_section(const json_t *suite, size_t i);
// "against f64": what all cases of a section are compared with when there is one such reference, else NULL.
const char *precision_show_against(const json_t *suite, const char *section);
// Number of the suite's checks that do not hold.
size_t precision_show_failed(const json_t *suite);
// The same in words: "all 20 checks hold"; nothing when there is none.
void precision_show_verdict(struct str *out, const json_t *suite);

bool precision_show_belongs(const json_t *c, const char *section);
// What the case is called outside its table: label and input.
void precision_show_title(struct str *out, const json_t *c);
// The facts of a case that are texts, appended: "requested: highest; lowered: ...".
void precision_show_texts(struct str *out, const json_t *c);

// Each fills an initialised table. One that has no row to show stays without rows.
// What the cases have columns for besides errors, numbers and bytes: what does not fit a screen. The signal-to-noise
// ratio is also there when there is one reference alone.
enum { SHOW_POLICY = 1, SHOW_SNR = 2, SHOW_TEXTS = 4 };
void precision_show_cases(struct table *t, const json_t *suite, const char *section, unsigned wanted);
void precision_show_checks(struct table *t, const json_t *suite);
void precision_show_inputs(struct table *t, const json_t *suite);
void precision_show_programs(struct table *t, const json_t *suite);
// One of the suite's own tables.
void precision_show_table(struct table *t, const json_t *table);
void precision_show_facts(struct table *t, const json_t *doc);
// One row per case and reference of all suites, for CSV.
void precision_show_flat(struct table *t, const json_t *result);

#endif
