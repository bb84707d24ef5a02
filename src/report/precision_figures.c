// SPDX-License-Identifier: Apache-2.0
#include "report/precision_figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/doc.h"
#include "report/format.h"
#include "report/svg.h"

#define WIDTH      PRECISION_FIGURE_WIDTH
#define MARGIN     14.0
#define HEADING    22.0 // the panel's title
#define LEGEND     20.0
#define BELOW      46.0 // axis labels and title
#define GAP        22.0 // between panels
#define BAR        13.0
#define PAD        9.0  // between categories
#define VALUES     74.0 // room for the numbers right of the bars
#define DODGE      6.0  // between the marks of a row
#define CHAR       6.6  // width of a letter of class "label"
#define MAX_LABELS 290.0
#define PLOT       230.0 // height of a panel of lines
#define MAX_POINTS 2000  // of one line; a longer one is thinned out

enum { MAX_SERIES = 8, MAX_ROWS = 64, MAX_PANELS = 8 };

enum kind { BARS, STACKED, POINTS, LINES };

struct panel {
    const json_t *suite, *json;
    enum kind kind;
    size_t n_series, n_rows;
    double top, labels; // of the drawing; room for the row labels
    bool log;           // the axis of the values
    double low, high;   // of the values
    double x_low, x_high;
};

static const char *const fills[4] = {"fa", "fb", "fc", "fd"};
static const char *const strokes[4] = {"la", "lb", "lc", "ld"};
static const enum svg_shape shapes[4] = {SVG_CIRCLE, SVG_DIAMOND, SVG_SQUARE, SVG_TRIANGLE};

// ---- values

static const json_t *named(const json_t *suite, const char *list, const char *name)
{
    for (size_t i = 0; i < doc_count(suite, list); i++) {
        if (strcmp(doc_text(doc_item(suite, list, i), "name", ""), name) == 0)
            return doc_item(suite, list, i);
    }
    return NULL;
}

static double measure_value(const json_t *c, const char *rest)
{
    const char *slash = strrchr(rest, '/');
    if (!slash)
        return NAN;
    for (size_t i = 0; i < doc_count(c, "measures"); i++) {
        const json_t *m = doc_item(c, "measures", i);
        const char *against = doc_text(m, "against", "");
        if (strlen(against) == (size_t)(slash - rest) && strncmp(against, rest, (size_t)(slash - rest)) == 0)
            return doc_quantity(m, slash + 1).value;
    }
    return NAN;
}

double precision_figure_value(const json_t *suite, const char *case_name, const char *quantity)
{
    const json_t *c = named(suite, "cases", case_name);
    if (!c)
        return NAN;
    if (strncmp(quantity, "measures/", 9) == 0)
        return measure_value(c, quantity + 9);
    if (strcmp(quantity, "stored/codes") == 0)
        return doc_quantity(c, "stored.codes").value;
    if (strcmp(quantity, "stored/scales") == 0)
        return doc_quantity(c, "stored.scales").value;
    if (strcmp(quantity, "clipped") == 0)
        return doc_number(c, "clipped");
    if (strncmp(quantity, "facts/", 6) == 0)
        return doc_quantity(json_object_get(doc_at(c, "facts"), quantity + 6), "").value;
    return NAN;
}

static const json_t *series_of(const struct panel *p, size_t s)
{
    return doc_item(p->json, "series", s);
}

static double value_at(const struct panel *p, size_t s, size_t row)
{
    const json_t *series = series_of(p, s);
    const json_t *name = doc_item(series, "cases", row);
    if (!json_is_string(name))
        return NAN;
    return precision_figure_value(p->suite, json_string_value(name), doc_text(series, "quantity", ""));
}

static size_t column_index(const json_t *table, const char *name)
{
    size_t n = doc_count(table, "columns");
    for (size_t i = 0; i < n; i++) {
        if (strcmp(doc_text(doc_item(table, "columns", i), "name", ""), name) == 0)
            return i;
    }
    return n;
}

struct line {
    const json_t *table;
    size_t x, y, rows, step; // columns; rows drawn are 0, step, 2 step...
};

static bool find_line(const struct panel *p, size_t s, struct line *out)
{
    const json_t *series = series_of(p, s);
    const json_t *table = named(p->suite, "tables", doc_text(series, "table", ""));
    size_t n = doc_count(table, "columns");
    *out = (struct line){.table = table};
    out->x = column_index(table, doc_text(series, "x", ""));
    out->y = column_index(table, doc_text(series, "y", ""));
    out->rows = doc_count(table, "rows");
    out->step = out->rows / MAX_POINTS + 1;
    return out->x < n && out->y < n;
}

static double cell(const struct line *line, size_t row, size_t column)
{
    const json_t *v = json_array_get(doc_item(line->table, "rows", row), column);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

// ---- ranges

static void widen(double *low, double *high, double v, bool log)
{
    if (!isfinite(v) || (log && v <= 0) || fabs(v) > 1e300)
        return;
    *low = fmin(*low, v);
    *high = fmax(*high, v);
}

static void range_of_lines(struct panel *p)
{
    bool x_log = strcmp(doc_text(p->json, "x.scale", ""), "log") == 0;
    for (size_t s = 0; s < p->n_series; s++) {
        struct line line;
        if (!find_line(p, s, &line))
            continue;
        for (size_t i = 0; i < line.rows; i += line.step) {
            widen(&p->x_low, &p->x_high, cell(&line, i, line.x), x_log);
            widen(&p->low, &p->high, cell(&line, i, line.y), p->log);
        }
    }
}

static void range_of_rows(struct panel *p)
{
    for (size_t row = 0; row < p->n_rows; row++) {
        double sum = 0;
        for (size_t s = 0; s < p->n_series; s++) {
            double v = value_at(p, s, row);
            sum += isfinite(v) ? v : 0;
            widen(&p->low, &p->high, v, p->log);
        }
        if (p->kind == STACKED)
            widen(&p->low, &p->high, sum, p->log);
    }
    if (!p->log && p->kind != POINTS)
        widen(&p->low, &p->high, 0, false);
    if (p->log) // so that the smallest has a bar, too
        p->low *= 0.7;
}

static bool read_panel(struct panel *p, const json_t *suite, const json_t *json)
{
    static const char *const kinds[] = {"bars", "stacked", "points", "lines"};
    const char *kind = doc_text(json, "kind", "");
    *p = (struct panel){
        .suite = suite, .json = json, .low = INFINITY, .high = -INFINITY, .x_low = INFINITY, .x_high = -INFINITY};
    size_t k = 0;
    while (k < 4 && strcmp(kind, kinds[k]) != 0)
        k++;
    if (k == 4)
        return false;
    p->kind = (enum kind)k;
    p->log = strcmp(doc_text(json, "y.scale", ""), "log") == 0 && p->kind != STACKED;
    p->n_series = doc_count(json, "series");
    p->n_series = p->n_series < MAX_SERIES ? p->n_series : MAX_SERIES;
    p->n_rows = doc_count(json, "categories");
    p->n_rows = p->n_rows < MAX_ROWS ? p->n_rows : MAX_ROWS;
    if (p->kind == LINES)
        range_of_lines(p);
    else
        range_of_rows(p);
    return p->low <= p->high && (p->kind != LINES || p->x_low <= p->x_high);
}

// ---- layout

static double row_height(const struct panel *p)
{
    if (p->kind == BARS)
        return BAR * (double)p->n_series + PAD;
    return fmax(2 * BAR + PAD / 2, p->kind == POINTS ? DODGE * (double)p->n_series + PAD : 0);
}

static size_t legend_lines(const struct panel *p)
{
    double x = MARGIN;
    size_t lines = 1;
    for (size_t s = 0; s < p->n_series; s++) {
        double w = 34 + CHAR * (double)strlen(doc_text(series_of(p, s), "name", ""));
        if (x + w > WIDTH - MARGIN && x > MARGIN) {
            x = MARGIN;
            lines++;
        }
        x += w;
    }
    return lines;
}

static double plot_height(const struct panel *p)
{
    return p->kind == LINES ? PLOT : row_height(p) * (double)p->n_rows + PAD;
}

static double panel_height(const struct panel *p)
{
    double extra = p->kind == LINES ? 18 : 0; // the title of the upright axis stands above it
    return HEADING + LEGEND * (double)legend_lines(p) + extra + plot_height(p) + BELOW;
}

// "relative L2 [dB]"
static void axis_title(struct str *out, const json_t *panel, const char *axis, const char *more)
{
    const json_t *a = doc_at(panel, axis);
    const char *unit = doc_text(a, "unit", "1");
    str_clear(out);
    str_add(out, doc_text(a, "title", ""));
    if (*unit && strcmp(unit, "1") != 0)
        str_addf(out, " [%s]", unit);
    str_add(out, more);
}

// ---- drawing

static void draw_legend(struct svg *s, const struct panel *p, double y)
{
    double x = MARGIN;
    for (size_t i = 0; i < p->n_series; i++) {
        const char *name = doc_text(series_of(p, i), "name", "");
        double w = 34 + CHAR * (double)strlen(name);
        if (x + w > WIDTH - MARGIN && x > MARGIN) {
            x = MARGIN;
            y += LEGEND;
        }
        if (p->kind == LINES)
            svg_line(s, x, y + 6, x + 16, y + 6, strokes[i % 4]);
        else if (p->kind == POINTS)
            svg_mark(s, shapes[i % 4], x + 7, y + 6, 5, fills[i % 4], NULL);
        else
            svg_rect(s, x, y, 13, 12, fills[i % 4]);
        svg_text(s, x + 21, y + 10, SVG_START, "small", name);
        x += w;
    }
}

static void draw_value(struct svg *s, double x, double y, double v, const char *unit)
{
    char text[FORMAT_MAX];
    if (strcmp(unit, "B") == 0 && v < 1e8)
        format_count(text, v);
    else if (strcmp(unit, "B") == 0)
        format_bytes(text, v);
    else
        format_number(text, v, 3);
    svg_text(s, x, y, SVG_START, "small halo", text);
}

static void draw_row(struct svg *s, const struct panel *p, const struct axis *x, size_t row, double y)
{
    const char *unit = doc_text(p->json, "y.unit", "1");
    double middle = y + row_height(p) / 2, foot = x->log ? x->from : axis_at(x, 0), sum = 0;
    bool any = false;
    for (size_t i = 0; i < p->n_series; i++) {
        double v = value_at(p, i, row), at = axis_at(x, v), top = y + PAD / 2 + BAR * (double)i;
        char tip[FORMAT_MAX * 3], number[FORMAT_MAX];
        if (!isfinite(v) || fabs(v) > 1e300)
            continue;
        any = true;
        if (p->kind == BARS) {
            svg_rect(s, fmin(at, foot), top, fabs(at - foot), BAR - 2, fills[i % 4]);
            draw_value(s, fmax(at, foot) + 5, top + BAR - 4, v, unit);
        } else if (p->kind == STACKED) {
            double from = axis_at(x, sum), to = axis_at(x, sum + v);
            svg_rect(s, fmin(from, to), middle - BAR / 2 - 2, fabs(to - from), BAR + 4, fills[i % 4]);
            sum += v;
        } else if (x->log && v <= 0) {
            svg_text(s, x->from + 6, middle + 4, SVG_START, "small soft", "0");
        } else {
            format_number(number, v, 4);
            snprintf(tip, sizeof tip, "%.80s %s", doc_text(series_of(p, i), "name", ""), number);
            // Side by side upright, so that equal values do not hide each other.
            double aside = ((double)i - ((double)p->n_series - 1) / 2) * DODGE;
            svg_mark(s, shapes[i % 4], at, middle + aside, 5, fills[i % 4], tip);
        }
    }
    if (p->kind == STACKED && any)
        draw_value(s, axis_at(x, sum) + 6, middle + 4, sum, unit);
    if (!any)
        svg_text(s, x->from + 6, middle + 4, SVG_START, "small soft", "no result");
}

static void draw_rows(struct svg *s, struct panel *p, double y)
{
    double right = WIDTH - (p->kind == POINTS ? 2 * MARGIN : VALUES), bottom = y + plot_height(p), most = 8;
    struct str text;
    str_init(&text);
    for (size_t i = 0; i < p->n_rows; i++)
        most = fmax(most, (double)strlen(doc_item_text(p->json, "categories", i)));
    p->labels = MARGIN + fmin(most * CHAR + 10, MAX_LABELS);
    struct axis x =
        p->log ? axis_log(p->low, p->high, p->labels, right) : axis_linear(p->low, p->high, p->labels, right);
    axis_title(&text, p->json, "y", p->log ? ", log axis" : "");
    svg_axis_x(s, &x, y, bottom, p->log ? TICK_POWER : p->high >= 1e7 ? TICK_SI : TICK_PLAIN, str_text(&text));
    for (size_t i = 0; i < p->n_rows; i++) {
        double top = y + PAD / 2 + row_height(p) * (double)i;
        str_clear(&text);
        svg_fit(&text, doc_item_text(p->json, "categories", i), p->labels - MARGIN - 10);
        svg_text(s, p->labels - 10, top + row_height(p) / 2 + 4, SVG_END, "label", str_text(&text));
        if (p->kind == POINTS)
            svg_line(s, x.from, top + row_height(p) / 2, x.to, top + row_height(p) / 2, "minor");
        draw_row(s, p, &x, i, top);
    }
    s->out->failed |= text.failed;
    str_release(&text);
}

static void draw_line(struct svg *s, const struct panel *p, size_t i, const struct axis *x, const struct axis *y)
{
    struct line line;
    double px = NAN, py = NAN;
    if (!find_line(p, i, &line))
        return;
    for (size_t row = 0; row < line.rows; row += line.step) {
        double vx = cell(&line, row, line.x), vy = cell(&line, row, line.y);
        bool drawn = isfinite(vx) && isfinite(vy) && !(y->log && vy <= 0) && !(x->log && vx <= 0);
        double ax = drawn ? axis_at(x, vx) : (double)NAN, ay = drawn ? axis_at(y, vy) : (double)NAN;
        if (drawn && isfinite(px))
            svg_line(s, px, py, ax, ay, strokes[i % 4]);
        if (drawn && line.rows <= 24)
            svg_mark(s, shapes[i % 4], ax, ay, 3, fills[i % 4], NULL);
        px = ax;
        py = ay;
    }
}

static void draw_lines(struct svg *s, struct panel *p, double y)
{
    const double left = MARGIN + 58, right = WIDTH - 2 * MARGIN, top = y + 18, bottom = top + PLOT;
    bool x_log = strcmp(doc_text(p->json, "x.scale", ""), "log") == 0;
    struct str text;
    str_init(&text);
    struct axis ax = x_log ? axis_log(p->x_low, p->x_high, left, right) : axis_linear(p->x_low, p->x_high, left, right);
    struct axis ay = p->log ? axis_log(p->low, p->high, bottom, top) : axis_linear(p->low, p->high, bottom, top);
    axis_title(&text, p->json, "x", x_log ? ", log axis" : "");
    svg_axis_x(s, &ax, top, bottom, x_log ? TICK_POWER : TICK_PLAIN, str_text(&text));
    axis_title(&text, p->json, "y", p->log ? ", log axis" : "");
    svg_axis_y(s, &ay, left, right, p->log ? TICK_POWER : TICK_PLAIN, str_text(&text));
    for (size_t i = 0; i < p->n_series; i++)
        draw_line(s, p, i, &ax, &ay);
    s->out->failed |= text.failed;
    str_release(&text);
}

static void draw_panel(struct svg *s, struct panel *p)
{
    double y = p->top;
    svg_text(s, MARGIN, y + 14, SVG_START, "label strong", doc_text(p->json, "title", ""));
    draw_legend(s, p, y + HEADING + 2);
    y += HEADING + LEGEND * (double)legend_lines(p);
    if (p->kind == LINES)
        draw_lines(s, p, y);
    else
        draw_rows(s, p, y);
}

double precision_figure_draw(struct str *out, const json_t *suite, const json_t *figure)
{
    struct panel panels[MAX_PANELS];
    struct svg s;
    size_t n = 0;
    double height = 4;
    for (size_t i = 0; i < doc_count(figure, "panels") && n < MAX_PANELS; i++) {
        struct panel *p = &panels[n];
        if (!read_panel(p, suite, doc_item(figure, "panels", i)))
            continue;
        p->top = height;
        height += panel_height(p) + GAP;
        n++;
    }
    if (!n)
        return 0;
    svg_begin(&s, out, WIDTH, height - GAP + 4, doc_text(figure, "title", ""), doc_text(figure, "caption", ""));
    for (size_t i = 0; i < n; i++)
        draw_panel(&s, &panels[i]);
    svg_end(&s);
    return height - GAP + 4;
}
