// SPDX-License-Identifier: Apache-2.0
// A table on a terminal: find column widths that fit, then print row by row, cells of several lines side by side.
#include <string.h>

#include "report/table_print.h"
#include "report/width.h"

#define GAP         2
#define NARROW_TEXT 12 // a text column is wrapped down to this before any column is dropped
#define NARROWEST   4
#define CELL_LINES  4 // a cell is cut after so many lines; a span after SPAN_LINES
#define SPAN_LINES  8
#define SPAN_ROOM   24
#define ELLIPSIS    "\xe2\x80\xa6"
#define RULE        "\xe2\x94\x80"

struct column_layout {
    const char *head; // title, unit and origin
    size_t width, least, rank;
    bool shown, text;
};

struct layout {
    struct arena arena;
    const struct table *table;
    struct column_layout *columns;
    const char **cells; // as shown, with the footnote mark
    size_t width;
    bool color;
};

static const char *keep(struct layout *l, struct str *s, struct error *err)
{
    if (str_check(s, err))
        return "";
    while (s->length && s->text[s->length - 1] == ' ')
        s->text[--s->length] = '\0';
    const char *text = arena_strdup(&l->arena, str_text(s), err);
    return text ? text : "";
}

static size_t longest_word(const char *s)
{
    size_t best = 0;
    while (*s) {
        size_t n = strcspn(s, " "), w = text_width(s, n);
        best = w > best ? w : best;
        s += n + strspn(s + n, " ");
    }
    return best;
}

// Escapes everything once and finds the natural width of each column.
static int measure(struct layout *l, struct error *err)
{
    const struct table *t = l->table;
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < t->column_count; i++) {
        struct column_layout *c = &l->columns[i];
        const struct table_column *from = &t->columns[i];
        str_clear(&s);
        str_add_terminal(&s, from->title, strlen(from->title));
        if (from->unit && *from->unit) {
            str_add_char(&s, ' ');
            str_add_terminal(&s, from->unit, strlen(from->unit));
        }
        if (from->origin)
            str_addf(&s, " [%c]", from->origin);
        c->head = keep(l, &s, err);
        c->text = from->align == TABLE_LEFT;
        c->rank = (size_t)from->rank;
        for (size_t r = 0; r < t->row_count; r++) {
            size_t k = r * t->column_count + i;
            if (k >= t->cell_count)
                break;
            str_clear(&s);
            str_add_terminal(&s, t->cells[k].text, strlen(t->cells[k].text));
            if (t->cells[k].note)
                table_add_mark(&s, t->cells[k].note);
            l->cells[k] = keep(l, &s, err);
            size_t w = text_width(l->cells[k], strlen(l->cells[k]));
            if (t->cells[k].span <= 1 && w > c->width)
                c->width = w;
            c->shown |= w > 0;
        }
        size_t word = longest_word(c->head);
        c->least = word > c->width ? word : c->width; // head wrapped, numbers whole
        if (c->text && c->least > NARROW_TEXT)
            c->least = word > NARROW_TEXT ? word : NARROW_TEXT;
        size_t head = text_width(c->head, strlen(c->head));
        c->width = head > c->width ? head : c->width;
        c->shown |= head > 0; // a column of marks without a title is left out where nothing is marked
    }
    str_release(&s);
    return err && err->code ? err->code : 0;
}

static size_t total(const struct layout *l, bool least)
{
    size_t sum = 0, n = 0;
    for (size_t i = 0; i < l->table->column_count; i++) {
        if (l->columns[i].shown) {
            sum += least ? l->columns[i].least : l->columns[i].width;
            n++;
        }
    }
    return sum + (n ? (n - 1) * GAP : 0);
}

// Takes one column of width from the widest column that can still give, first from headings over numbers, then from
// text; false when none can.
static bool squeeze(struct layout *l)
{
    struct column_layout *best = NULL;
    for (int text = 0; text < 2 && !best; text++) {
        for (size_t i = 0; i < l->table->column_count; i++) {
            struct column_layout *c = &l->columns[i];
            if (c->shown && c->text == (text == 1) && c->width > c->least && (!best || c->width > best->width))
                best = c;
        }
    }
    if (best)
        best->width--;
    return best != NULL;
}

static void fit(struct layout *l)
{
    size_t n = l->table->column_count;
    while (l->width && total(l, true) > l->width) {
        struct column_layout *drop = NULL;
        for (size_t i = 0; i < n; i++) {
            struct column_layout *c = &l->columns[i];
            if (c->shown && c->rank > 0 && (!drop || c->rank >= drop->rank))
                drop = c;
        }
        if (!drop)
            break;
        drop->shown = false;
    }
    if (l->width && total(l, true) > l->width)
        for (size_t i = 0; i < n; i++)
            if (l->columns[i].text && l->columns[i].least > NARROWEST)
                l->columns[i].least = NARROWEST;
    while (l->width && total(l, false) > l->width && squeeze(l))
        ;
}

static const char *style_code(enum table_style style)
{
    switch (style) {
    case TABLE_STRONG:
        return "\x1b[1m";
    case TABLE_DIM:
        return "\x1b[2m";
    case TABLE_GOOD:
        return "\x1b[32m";
    case TABLE_BAD:
        return "\x1b[31m";
    case TABLE_WARN:
        return "\x1b[33m";
    case TABLE_PLAIN:
        break;
    }
    return NULL;
}

// One cell on its way through the lines of its row.
struct piece {
    const char *text; // what is left
    size_t start, width, lines_left;
    bool right;
    const char *code;
};

// One line of a row. Never writes past l->width, whatever the pieces say.
static void print_line(const struct layout *l, struct str *out, struct piece *pieces, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        struct piece *p = &pieces[i];
        size_t left = strlen(p->text), next = left, bytes;
        if (!left || (l->width && p->start >= l->width))
            continue;
        size_t width = l->width && p->start + p->width > l->width ? l->width - p->start : p->width;
        bool last = p->lines_left <= 1, cut = false;
        bytes = text_line(p->text, left, width, &next);
        if (last && next < left) {
            bytes = text_prefix(p->text, left, width - 1);
            next = left;
            cut = true;
        }
        if (text_width(p->text, bytes) > width) { // a wide character where one column is left
            bytes = 0;
            cut = true;
        }
        while (bytes && p->text[bytes - 1] == ' ')
            bytes--;
        size_t w = text_width(p->text, bytes) + (cut ? 1 : 0);
        size_t from = p->start + (p->right && w < width ? width - w : 0);
        for (; at < from; at++)
            str_add_char(out, ' ');
        if (p->code)
            str_add(out, p->code);
        str_add_n(out, p->text, bytes);
        str_add(out, cut ? ELLIPSIS : "");
        if (p->code)
            str_add(out, "\x1b[0m");
        at += w;
        p->text += next;
        p->lines_left--;
    }
    str_add_char(out, '\n');
}

static void print_pieces(const struct layout *l, struct str *out, struct piece *pieces, size_t n)
{
    for (bool more = true; more;) {
        print_line(l, out, pieces, n);
        more = false;
        for (size_t i = 0; i < n; i++)
            more |= *pieces[i].text != '\0' && (!l->width || pieces[i].start < l->width);
    }
}

static void print_head(const struct layout *l, struct str *out, struct piece *pieces)
{
    size_t n = 0, start = 0;
    for (size_t i = 0; i < l->table->column_count; i++) {
        const struct column_layout *c = &l->columns[i];
        if (!c->shown)
            continue;
        pieces[n++] = (struct piece){c->head, start, c->width, 8, !c->text, l->color ? "\x1b[1m" : NULL};
        start += c->width + GAP;
    }
    print_pieces(l, out, pieces, n);
    size_t at = 0;
    start = 0;
    str_add(out, l->color ? "\x1b[2m" : "");
    for (size_t i = 0; i < l->table->column_count; i++) {
        const struct column_layout *c = &l->columns[i];
        if (!c->shown)
            continue;
        for (; at < start && (!l->width || start < l->width); at++)
            str_add_char(out, ' ');
        for (; at < start + c->width && (!l->width || at < l->width); at++)
            str_add(out, RULE);
        start += c->width + GAP;
    }
    str_add(out, l->color ? "\x1b[0m\n" : "\n");
}

static void print_row(const struct layout *l, struct str *out, size_t row, struct piece *pieces)
{
    const struct table *t = l->table;
    size_t n = 0, start = 0, first = row * t->column_count;
    const struct table_cell *span = NULL;
    const char *span_text = "";
    for (size_t i = 0; i < t->column_count && first + i < t->cell_count; i++) {
        const struct table_cell *cell = &t->cells[first + i];
        const struct column_layout *c = &l->columns[i];
        if (cell->span > 1) {
            span = cell;
            span_text = l->cells[first + i];
            break;
        }
        if (!c->shown)
            continue;
        const char *code = l->color ? style_code(cell->style) : NULL;
        pieces[n++] = (struct piece){l->cells[first + i], start, c->width, CELL_LINES, !c->text, code};
        start += c->width + GAP;
    }
    if (span) { // as far as the terminal goes, or on lines of its own
        struct piece p = {span_text,  start, strlen(span_text),
                          SPAN_LINES, false, l->color ? style_code(span->style) : NULL};
        if (l->width && l->width < start + SPAN_ROOM) {
            print_pieces(l, out, pieces, n);
            p.start = l->width > GAP ? GAP : 0;
            n = 0;
        }
        if (l->width)
            p.width = l->width - p.start;
        pieces[n++] = p;
    }
    print_pieces(l, out, pieces, n);
}

// Whether a cell that is shown has the footnote's mark: those of columns that were left out stay away, too.
static bool is_referred_to(const struct layout *l, int note)
{
    const struct table *t = l->table;
    for (size_t i = 0; i < t->cell_count; i++) {
        if (t->cells[i].note == note && (t->cells[i].span > 1 || l->columns[i % t->column_count].shown))
            return true;
    }
    return false;
}

static void print_below(const struct layout *l, struct str *out)
{
    const struct table *t = l->table;
    struct str s;
    str_init(&s);
    size_t dropped = 0;
    for (size_t i = 0; i < t->column_count; i++)
        if (!l->columns[i].shown && *l->columns[i].head)
            str_addf(&s, "%s%s", dropped++ ? ", " : "not shown at this width: ", l->columns[i].head);
    size_t most = l->width ? l->width : (size_t)-1;
    const char *dim = l->color ? "\x1b[2m" : NULL;
    if (dropped)
        print_pieces(l, out, &(struct piece){str_text(&s), 0, most, 99, false, dim}, 1);
    for (size_t i = 0; i < t->note_count; i++) {
        if (!is_referred_to(l, (int)i + 1))
            continue;
        str_clear(&s);
        table_add_mark(&s, (int)i + 1);
        str_add_char(&s, ' ');
        str_add_terminal(&s, t->notes[i], strlen(t->notes[i]));
        print_pieces(l, out, &(struct piece){str_text(&s), 0, most, 99, false, dim}, 1);
    }
    out->failed |= s.failed;
    str_release(&s);
}

int table_print_text(const struct table *t, struct str *out, size_t width, bool color, struct error *err)
{
    struct error local = {0};
    struct layout l = {.table = t, .width = width, .color = color};
    arena_init(&l.arena);
    l.columns = arena_new(&l.arena, struct column_layout, t->column_count, &local);
    l.cells = arena_new(&l.arena, const char *, t->cell_count, &local);
    struct piece *pieces = arena_new(&l.arena, struct piece, t->column_count + 1, &local);
    if (pieces && l.columns && l.cells && measure(&l, &local) == 0) {
        fit(&l);
        print_head(&l, out, pieces);
        for (size_t r = 0; r < t->row_count; r++)
            print_row(&l, out, r, pieces);
        print_below(&l, out);
    }
    arena_release(&l.arena);
    return local.code ? error_set(err, local.code, local.where, "%s", local.message) : 0;
}
