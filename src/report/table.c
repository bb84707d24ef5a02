// SPDX-License-Identifier: Apache-2.0
#include "report/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"

void table_init(struct table *t)
{
    memset(t, 0, sizeof *t);
    arena_init(&t->arena);
}

void table_release(struct table *t)
{
    arena_release(&t->arena);
    memset(t, 0, sizeof *t);
}

static char *copy(struct table *t, const char *s)
{
    return s ? arena_strdup(&t->arena, s, &t->error) : NULL;
}

void table_column(struct table *t, const char *title, const char *unit, enum table_align align, int rank)
{
    if (t->row_count) {
        error_set(&t->error, ERR_INTERNAL, "table", "the column \"%s\" comes after the first row", title);
        return;
    }
    struct table_column *c =
        arena_grow(&t->arena, t->columns, &t->column_cap, t->column_count + 1, sizeof *c, &t->error);
    if (!c)
        return;
    t->columns = c;
    c += t->column_count;
    *c = (struct table_column){copy(t, title), copy(t, unit), 0, align, rank};
    if (t->error.code == 0)
        t->column_count++;
}

void table_origin(struct table *t, char origin)
{
    if (t->column_count)
        t->columns[t->column_count - 1].origin = origin;
}

// Columns of the current row that are taken.
static size_t taken(const struct table *t)
{
    size_t n = 0, first = (t->row_count - 1) * t->column_count;
    for (size_t i = first; i < t->cell_count; i++)
        n += (size_t)t->cells[i].span;
    return n;
}

static struct table_cell *add_cell(struct table *t, const char *text)
{
    struct table_cell *c = arena_grow(&t->arena, t->cells, &t->cell_cap, t->cell_count + 1, sizeof *c, &t->error);
    if (!c)
        return NULL;
    t->cells = c;
    c += t->cell_count;
    *c = (struct table_cell){.text = copy(t, text), .value = NAN, .span = 1};
    if (t->error.code)
        return NULL;
    t->cell_count++;
    return c;
}

// A cell of its own in the current row, or NULL when the row is full.
static struct table_cell *next_cell(struct table *t, const char *text)
{
    if (t->error.code)
        return NULL;
    if (!t->row_count || taken(t) >= t->column_count) {
        error_set(&t->error, ERR_INTERNAL, "table", "the cell \"%.40s\" is one too many for its row", text);
        return NULL;
    }
    return add_cell(t, text);
}

// Every row has column_count cells in the array: those under a span, and those not given, are empty.
static void fill_row(struct table *t)
{
    while (t->row_count && t->error.code == 0 && t->cell_count < t->row_count * t->column_count) {
        struct table_cell *c = add_cell(t, "");
        if (c)
            c->span = 0;
    }
}

void table_row(struct table *t)
{
    if (!t->column_count)
        error_set(&t->error, ERR_INTERNAL, "table", "a row in a table without columns");
    fill_row(t);
    if (t->error.code == 0)
        t->row_count++;
}

void table_cell(struct table *t, const char *text)
{
    next_cell(t, text ? text : "");
}

void table_cellf(struct table *t, const char *fmt, ...)
{
    struct str s;
    str_init(&s);
    va_list ap;
    va_start(ap, fmt);
    str_addv(&s, fmt, ap);
    va_end(ap);
    str_check(&s, &t->error);
    table_cell(t, str_text(&s));
    str_release(&s);
}

void table_number(struct table *t, double value, const char *shown)
{
    char text[FORMAT_MAX];
    if (!shown || !isfinite(value))
        format_number(text, value, 3);
    struct table_cell *c = next_cell(t, shown && isfinite(value) ? shown : text);
    if (c) {
        c->value = value;
        c->is_number = true;
    }
}

void table_count(struct table *t, double value)
{
    char text[FORMAT_MAX];
    format_count(text, value);
    table_number(t, value, text);
}

// The footnote's number; the same text is one footnote.
static int note_number(struct table *t, const char *text)
{
    for (size_t i = 0; i < t->note_count; i++)
        if (strcmp(t->notes[i], text) == 0)
            return (int)i + 1;
    char **notes = arena_grow(&t->arena, t->notes, &t->note_cap, t->note_count + 1, sizeof *notes, &t->error);
    if (!notes)
        return 0;
    t->notes = notes;
    char *own = copy(t, text);
    if (!own)
        return 0;
    notes[t->note_count++] = own;
    return (int)t->note_count;
}

void table_note(struct table *t, const char *note)
{
    if (t->cell_count && note && *note && t->error.code == 0)
        t->cells[t->cell_count - 1].note = note_number(t, note);
}

void table_hint(struct table *t, const char *hint)
{
    if (t->cell_count && hint && *hint && t->error.code == 0)
        t->cells[t->cell_count - 1].hint = copy(t, hint);
}

void table_null(struct table *t, const char *reason)
{
    table_number(t, NAN, NULL);
    table_note(t, reason);
}

void table_quantity(struct table *t, struct quantity q)
{
    if (!isfinite(q.value)) {
        table_null(t, q.source);
        return;
    }
    char text[FORMAT_MAX];
    format_quantity(text, q);
    table_number(t, q.value, text);
    if (q.source && t->error.code == 0)
        table_hint(t, arena_printf(&t->arena, &t->error, "[%c] %s", (char)q.origin, q.source));
}

void table_span(struct table *t, const char *text)
{
    struct table_cell *c = next_cell(t, text ? text : "");
    if (!c)
        return;
    c->span = 0;
    c->span = (int)(t->column_count - taken(t));
}

void table_style(struct table *t, enum table_style style)
{
    if (t->cell_count)
        t->cells[t->cell_count - 1].style = style;
}

static const char *const format_names[] = {
    [TABLE_TEXT] = "text", [TABLE_MARKDOWN] = "md", [TABLE_CSV] = "csv", [TABLE_HTML] = "html"};

bool table_format_parse(const char *name, enum table_format *out)
{
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, format_names[i]) == 0) {
            *out = (enum table_format)i;
            return true;
        }
    }
    return false;
}
