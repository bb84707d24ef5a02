// SPDX-License-Identifier: Apache-2.0
#include "report/table_print.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

void table_add_mark(struct str *out, int note)
{
    static const char *const digit[] = {"\xe2\x81\xb0", "\xc2\xb9",     "\xc2\xb2",     "\xc2\xb3",     "\xe2\x81\xb4",
                                        "\xe2\x81\xb5", "\xe2\x81\xb6", "\xe2\x81\xb7", "\xe2\x81\xb8", "\xe2\x81\xb9"};
    if (note >= 10)
        table_add_mark(out, note / 10);
    str_add(out, digit[note % 10]);
}

// NULL while no cell was ever given: then no row has one.
static const struct table_cell *row_cells(const struct table *t, size_t row)
{
    return t->cells ? t->cells + row * t->column_count : NULL;
}

// The last row may have been left short.
static size_t row_length(const struct table *t, size_t row)
{
    size_t left = t->cell_count - row * t->column_count;
    return left < t->column_count ? left : t->column_count;
}

static void markdown_title(const struct table_column *c, struct str *out)
{
    str_add_markdown(out, c->title, strlen(c->title));
    if (c->unit && *c->unit) {
        str_add(out, " (");
        str_add_markdown(out, c->unit, strlen(c->unit));
        str_add_char(out, ')');
    }
    if (c->origin)
        str_addf(out, " \\[%c\\]", c->origin);
}

void table_print_markdown(const struct table *t, struct str *out)
{
    str_add_char(out, '|');
    for (size_t i = 0; i < t->column_count; i++) {
        str_add_char(out, ' ');
        markdown_title(&t->columns[i], out);
        str_add(out, " |");
    }
    str_add(out, "\n|");
    for (size_t i = 0; i < t->column_count; i++)
        str_add(out, t->columns[i].align == TABLE_RIGHT ? " ---: |" : " --- |");
    str_add_char(out, '\n');
    for (size_t r = 0; r < t->row_count; r++) {
        const struct table_cell *c = row_cells(t, r);
        size_t n = row_length(t, r);
        str_add_char(out, '|');
        for (size_t i = 0; i < t->column_count; i++) {
            if (i < n && *c[i].text) {
                bool strong = c[i].style == TABLE_STRONG;
                str_add(out, strong ? " **" : " ");
                str_add_markdown(out, c[i].text, strlen(c[i].text));
                str_add(out, strong ? "**" : "");
                if (c[i].note)
                    table_add_mark(out, c[i].note);
            }
            str_add(out, " |");
        }
        str_add_char(out, '\n');
    }
    for (size_t i = 0; i < t->note_count; i++) {
        str_add(out, i ? "  \n" : "\n");
        table_add_mark(out, (int)i + 1);
        str_add_char(out, ' ');
        str_add_markdown(out, t->notes[i], strlen(t->notes[i]));
    }
    if (t->note_count)
        str_add_char(out, '\n');
}

void table_csv_field(struct str *out, const char *text, size_t n, bool number)
{
    struct str s;
    str_init(&s);
    str_add_terminal(&s, text, n);
    const char *p = str_text(&s);
    bool formula = !number && *p && strchr("=+-@", *p);
    if (!formula && !strpbrk(p, ",\"'\n\r ")) {
        str_add(out, p);
    } else {
        str_add(out, formula ? "\"'" : "\"");
        for (; *p; p++) {
            if (*p == '"')
                str_add_char(out, '"');
            str_add_char(out, *p);
        }
        str_add_char(out, '"');
    }
    out->failed |= s.failed;
    str_release(&s);
}

void table_print_csv(const struct table *t, struct str *out)
{
    struct str title;
    str_init(&title);
    for (size_t i = 0; i < t->column_count; i++) {
        const struct table_column *c = &t->columns[i];
        str_clear(&title);
        str_add(&title, c->title);
        if (c->unit && *c->unit)
            str_addf(&title, " (%s)", c->unit);
        str_add(out, i ? "," : "");
        table_csv_field(out, str_text(&title), title.length, false);
    }
    out->failed |= title.failed;
    str_release(&title);
    str_add(out, "\r\n");
    for (size_t r = 0; r < t->row_count; r++) {
        const struct table_cell *c = row_cells(t, r);
        size_t n = row_length(t, r);
        for (size_t i = 0; i < t->column_count; i++) {
            str_add(out, i ? "," : "");
            if (i >= n)
                continue;
            if (!c[i].is_number) {
                table_csv_field(out, c[i].text, strlen(c[i].text), false);
            } else if (isfinite(c[i].value)) {
                char number[32];
                json_number(number, c[i].value);
                table_csv_field(out, number, strlen(number), true);
            }
        }
        str_add(out, "\r\n");
    }
}

static void html(struct str *out, const char *text)
{
    str_add_html(out, text, strlen(text));
}

static const char *const style_class[] = {
    [TABLE_PLAIN] = "",    [TABLE_STRONG] = "strong", [TABLE_DIM] = "dim",
    [TABLE_GOOD] = "good", [TABLE_BAD] = "bad",       [TABLE_WARN] = "warn",
};

// A word so long (a hash, a path) that it may be broken anywhere.
static bool has_long_word(const char *s)
{
    while (*s) {
        size_t n = strcspn(s, " ");
        if (n > 30)
            return true;
        s += n + strspn(s + n, " ");
    }
    return false;
}

static void html_cell(const struct table_column *column, const struct table_cell *c, struct str *out)
{
    bool right = column->align == TABLE_RIGHT && c->span <= 1;
    str_add(out, "<td");
    bool is_long = has_long_word(c->text);
    const char *classes[] = {right ? "r" : "", is_long ? "long" : "", style_class[c->style]}, *before = " class=\"";
    for (int i = 0; i < 3; i++) {
        if (*classes[i]) {
            str_addf(out, "%s%s", before, classes[i]);
            before = " ";
        }
    }
    str_add(out, before[1] ? "" : "\"");
    if (c->span > 1)
        str_addf(out, " colspan=\"%d\"", c->span);
    if (c->hint) {
        str_add(out, " title=\"");
        html(out, c->hint);
        str_add_char(out, '"');
    }
    str_add_char(out, '>');
    html(out, c->text);
    if (c->note)
        str_addf(out, "<sup>%d</sup>", c->note);
    str_add(out, "</td>");
}

void table_print_html(const struct table *t, struct str *out)
{
    str_add(out, "<div class=\"scroll\"><table>\n<thead><tr>");
    for (size_t i = 0; i < t->column_count; i++) {
        const struct table_column *c = &t->columns[i];
        str_addf(out, "<th scope=\"col\"%s>", c->align == TABLE_RIGHT ? " class=\"r\"" : "");
        html(out, c->title);
        if (c->unit && *c->unit) {
            str_add(out, " <span class=\"unit\">");
            html(out, c->unit);
            str_add(out, "</span>");
        }
        if (c->origin)
            str_addf(out, " <span class=\"tag tag-%c\">%c</span>", c->origin, c->origin);
        str_add(out, "</th>");
    }
    str_add(out, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < t->row_count; r++) {
        const struct table_cell *c = row_cells(t, r);
        size_t n = row_length(t, r), covered = 0;
        str_add(out, "<tr>");
        for (size_t i = 0; i < t->column_count; i++) {
            if (covered > i)
                continue;
            if (i < n) {
                html_cell(&t->columns[i], &c[i], out);
                covered = i + (size_t)(c[i].span > 1 ? c[i].span : 1);
            } else {
                str_add(out, "<td></td>");
            }
        }
        str_add(out, "</tr>\n");
    }
    str_add(out, "</tbody></table></div>\n");
    if (!t->note_count)
        return;
    str_add(out, "<ol class=\"notes\">");
    for (size_t i = 0; i < t->note_count; i++) {
        str_add(out, "<li>");
        html(out, t->notes[i]);
        str_add(out, "</li>");
    }
    str_add(out, "</ol>\n");
}

int table_print(const struct table *t, struct str *out, enum table_format format, size_t width, bool color,
                struct error *err)
{
    if (t->error.code)
        return error_set(err, t->error.code, t->error.where, "%s", t->error.message);
    int rc = 0;
    switch (format) {
    case TABLE_TEXT:
        rc = table_print_text(t, out, width, color, err);
        break;
    case TABLE_MARKDOWN:
        table_print_markdown(t, out);
        break;
    case TABLE_CSV:
        table_print_csv(t, out);
        break;
    case TABLE_HTML:
        table_print_html(t, out);
        break;
    }
    return rc ? rc : str_check(out, err);
}
