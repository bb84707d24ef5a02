// SPDX-License-Identifier: Apache-2.0
// The forms of a table, one function each; table_print chooses.
#ifndef REPORT_TABLE_PRINT_H
#define REPORT_TABLE_PRINT_H

#include "report/table.h"

int table_print_text(const struct table *t, struct str *out, size_t width, bool color, struct error *err);
void table_print_markdown(const struct table *t, struct str *out);
void table_print_csv(const struct table *t, struct str *out);
void table_print_html(const struct table *t, struct str *out);

// The footnote mark in superscript digits.
void table_add_mark(struct str *out, int note);

#endif
