// SPDX-License-Identifier: Apache-2.0
// The forms of a table, one function each; table_print chooses.
#ifndef REPORT_TABLE_PRINT_H
#define REPORT_TABLE_PRINT_H

#include "report/table.h"

int table_print_text(const struct table *t, struct str *out, size_t width, bool color, struct error *err);
void table_print_markdown(const struct table *t, struct str *out);
void table_print_csv(const struct table *t, struct str *out);
void table_print_html(const struct table *t, struct str *out);

// One CSV field of n bytes: quoted unless it is plain, control characters as a terminal would be shown them, and an
// apostrophe before a text (not a number) that a spreadsheet would take for a formula.
void table_csv_field(struct str *out, const char *text, size_t n, bool number);

// The footnote mark in superscript digits.
void table_add_mark(struct str *out, int note);

#endif
