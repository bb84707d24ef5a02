// SPDX-License-Identifier: Apache-2.0
// One table, printed as terminal text, Markdown, CSV or HTML. Cells are raw text: each format escapes what it shows.
//
//     struct table t;
//     table_init(&t);
//     table_column(&t, "policy", NULL, TABLE_LEFT, 0);
//     table_column(&t, "p50", "ms", TABLE_RIGHT, 1);
//     table_row(&t);
//     table_cell(&t, name);
//     table_number(&t, p50_ms, "12.3");
//     rc = table_print(&t, out, TABLE_TEXT, width, color, &err);
//     table_release(&t);
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/quantity.h"
#include "base/str.h"

enum table_format { TABLE_TEXT, TABLE_MARKDOWN, TABLE_CSV, TABLE_HTML };
enum table_align { TABLE_LEFT, TABLE_RIGHT };
enum table_style { TABLE_PLAIN, TABLE_STRONG, TABLE_DIM, TABLE_GOOD, TABLE_BAD, TABLE_WARN };

struct table_column {
    char *title, *unit; // unit may be NULL
    char origin;        // 'S', 'D' or 'M' when all numbers of the column are of one origin, else 0
    enum table_align align;
    int rank; // 0 is always shown; when the width is short the highest rank goes first
};

struct table_cell {
    char *text;   // what people read
    char *hint;   // HTML: shown when the pointer rests on the cell; may be NULL
    double value; // exact number for CSV; NAN when the text is the value
    bool is_number;
    enum table_style style;
    int note, span; // footnote number or 0; columns covered (1, or more for a message that runs on)
};

struct table {
    struct arena arena;
    struct table_column *columns;
    struct table_cell *cells; // rows * column_count in row order
    char **notes;             // footnotes, numbered from 1
    size_t column_count, column_cap, cell_count, cell_cap, row_count, note_count, note_cap;
    struct error error; // first failure; table_print returns it
};

void table_init(struct table *t);
void table_release(struct table *t);

// Columns come before rows. All strings are copied.
void table_column(struct table *t, const char *title, const char *unit, enum table_align align, int rank);
// The origin of the numbers in the column added last; the header shows it as [M].
void table_origin(struct table *t, char origin);
// Starts a row. Cells that are not given are empty; a cell too many is a mistake that table_print reports.
void table_row(struct table *t);
void table_cell(struct table *t, const char *text);
void table_cellf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// A number: `shown` for people (NULL: three significant digits), the exact value in CSV. NaN is as table_null without a
// reason.
void table_number(struct table *t, double value, const char *shown);
void table_count(struct table *t, double value); // a whole number with its thousands apart
// A value with its unit chosen by itself ("1.23 ms") and its origin and source as hint, or the dash with q.source as
// footnote. CSV has the value in q.unit.
void table_quantity(struct table *t, struct quantity q);
// The dash, with the reason as a footnote (NULL: none).
void table_null(struct table *t, const char *reason);
// Text that runs over all the columns left of the row ("failed: ...").
void table_span(struct table *t, const char *text);
// Changes the cell added last.
void table_style(struct table *t, enum table_style style);
void table_note(struct table *t, const char *note);
void table_hint(struct table *t, const char *hint);

// Appends the table to `out`. Text: `width` columns (0: as wide as it gets); columns that do not fit are dropped, least
// important first, and named under the table; then text is cut with an ellipsis, numbers never while a text column is
// left to cut. No line has trailing spaces. `color` adds bold and colours (TABLE_TEXT only).
// Markdown and HTML list the footnotes after the table; CSV (RFC 4180) has one header line, exact numbers, an empty
// field for a null, and an apostrophe before a text that a spreadsheet would take for a formula.
int table_print(const struct table *t, struct str *out, enum table_format format, size_t width, bool color,
                struct error *err);

// "text", "md", "csv", "html"; false when the name is none of them.
bool table_format_parse(const char *name, enum table_format *out);

#endif
