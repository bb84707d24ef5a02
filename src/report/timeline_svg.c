// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include <string.h>

#include "report/timeline_html.h"

#define WIDTH    1200.0
#define LEFT     200.0
#define RIGHT    (WIDTH - 16)
#define ROW      16.0
#define HEAD     24.0
#define MAX_ROWS 240

struct drawing {
    struct svg svg;
    const struct timeline *l;
    struct axis axis;
    double unit_ps, y;
    size_t rows, left_out;
};

static const char *unit_name(int64_t length_ps, double *unit_ps)
{
    const char *const names[] = {"ps", "ns", "\xc2\xb5s", "ms", "s"};
    size_t i = 0;
    *unit_ps = 1;
    for (; i < 4 && (double)length_ps >= 10 * *unit_ps * 1000; i++)
        *unit_ps *= 1000;
    return names[i];
}

static struct slice short_name(const struct timeline_plane *p, const struct timeline_record *r)
{
    if (!r->name)
        return (struct slice){(const uint8_t *)"", 0};
    const struct xmeta *m = &p->plane->event_table.rows[r->name - 1];
    return m->display_name.size ? m->display_name : m->name;
}

// One colour for all that differs only in its number, as fusion.1 and fusion.2.
static const char *class_of(struct slice name, const struct timeline_record *r, bool busy)
{
    static const char *const classes[] = {"fa weak", "fb weak", "fc weak", "fd weak"};
    uint32_t h = 2166136261U;
    size_t n = name.size;
    while (n && (name.data[n - 1] == '.' || (name.data[n - 1] >= '0' && name.data[n - 1] <= '9')))
        n--;
    for (size_t i = 0; i < n; i++)
        h = (h ^ name.data[i]) * 16777619U;
    return busy ? "fa" : r->count > 1 ? "fn" : classes[h >> 16 & 3];
}

static void add_text(struct str *out, struct slice s, double width)
{
    struct str text;
    str_init(&text);
    str_add_n(&text, s.data, s.size < 400 ? s.size : 400);
    svg_fit(out, str_text(&text), width);
    str_release(&text);
}

static void draw_record(struct drawing *d, const struct timeline_plane *p, const struct timeline_record *r, bool busy)
{
    int64_t from = r->start_ps - d->l->from_ps, to = from + r->duration_ps, length = d->l->to_ps - d->l->from_ps;
    double x = axis_at(&d->axis, (double)(from > 0 ? from : 0) / d->unit_ps);
    double end = axis_at(&d->axis, (double)(to < length ? to : length) / d->unit_ps);
    struct slice name = short_name(p, r);
    double width = end - x > 0.4 ? end - x : 0.4;
    svg_rect(&d->svg, x, d->y, width, ROW - 2, class_of(name, r, busy));
    if (width < 30 || busy)
        return;
    struct str text;
    str_init(&text);
    if (r->count > 1)
        str_addf(&text, "%u \xc3\x97 ", r->count);
    add_text(&text, name, width - 6);
    svg_text(&d->svg, x + 3, d->y + ROW - 5, SVG_START, "small", str_text(&text));
    str_release(&text);
}

static void draw_line(struct drawing *d, const struct timeline_plane *p, const struct timeline_line *line)
{
    struct str name;
    str_init(&name);
    if (line->line)
        add_text(&name, line->line->display_name.size ? line->line->display_name : line->line->name, LEFT - 20);
    else
        str_add(&name, "busy");
    svg_text(&d->svg, 8, d->y + ROW - 5, SVG_START, "small", str_text(&name));
    str_release(&name);
    for (size_t r = 0; r < line->n_rows; r++) {
        if (d->rows >= MAX_ROWS) {
            d->left_out += line->n_rows - r;
            break;
        }
        d->rows++;
        for (size_t i = 0; i < line->rows[r].n; i++)
            draw_record(d, p, &line->rows[r].records[i], !line->line);
        d->y += ROW;
    }
    d->y += 4;
}

static bool is_drawn(const struct timeline_line *line)
{
    return line->n_rows && line->rows[0].n;
}

// Height of what will be drawn.
static double measure(const struct timeline *l)
{
    double y = HEAD;
    size_t rows = 0;
    for (size_t i = 0; i < l->n_planes; i++) {
        y += HEAD;
        for (size_t k = 0; k < l->planes[i].n_lines; k++) {
            size_t n = is_drawn(&l->planes[i].lines[k]) ? l->planes[i].lines[k].n_rows : 0;
            size_t room = MAX_ROWS - rows;
            n = n < room ? n : room;
            y += n ? (double)n * ROW + 4 : 0;
            rows += n;
        }
    }
    return y;
}

static void draw_plane(struct drawing *d, const struct timeline_plane *p)
{
    struct str name;
    bool any = false;
    for (size_t k = 0; k < p->n_lines; k++)
        any |= is_drawn(&p->lines[k]);
    if (!any)
        return;
    if (d->rows < MAX_ROWS) {
        str_init(&name);
        add_text(&name, p->plane->name, WIDTH - 20);
        svg_text(&d->svg, 8, d->y + 16, SVG_START, "strong", str_text(&name));
        str_release(&name);
        d->y += HEAD;
    }
    for (size_t pass = 0; pass < 2; pass++) { // busy time first
        for (size_t k = 0; k < p->n_lines; k++) {
            const struct timeline_line *line = &p->lines[k];
            if (!is_drawn(line) || (pass == 0) != (line->line == NULL))
                continue;
            if (d->rows < MAX_ROWS)
                draw_line(d, p, line);
            else
                d->left_out += line->n_rows;
        }
    }
}

static int draw_guarded(struct drawing *d, const struct timeline_plane *p, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &p->file->map))
        return file_guard_error(&g, err);
    draw_plane(d, p);
    file_guard_end(&g);
    return 0;
}

int timeline_svg(struct str *out, const struct timeline *l, const char *title, size_t *left_out, struct error *err)
{
    struct drawing d = {.l = l, .y = HEAD};
    int64_t length = l->to_ps - l->from_ps;
    const char *unit = unit_name(length, &d.unit_ps);
    double bottom = measure(l) + 6, height = bottom + 44;
    struct str axis_title;
    int rc = 0;
    str_init(&axis_title);
    d.axis = (struct axis){0, length > 0 ? (double)length / d.unit_ps : 1, LEFT, RIGHT, false};
    str_addf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
             "<style>%ssvg{font-family:system-ui,\"DejaVu Sans\",sans-serif}svg .weak{opacity:.5}</style>\n"
             "<rect width=\"%.0f\" height=\"%.0f\" style=\"fill:var(--paper)\"/>\n",
             WIDTH, height, WIDTH, height, svg_style(), WIDTH, height);
    svg_begin(&d.svg, out, WIDTH, height, title, "Events of a profile by process and line, over time");
    svg_text(&d.svg, 8, 17, SVG_START, "soft", title);
    str_addf(&axis_title, "%s from %.12g s after the profile's beginning", unit, (double)l->from_ps * 1e-12);
    svg_axis_x(&d.svg, &d.axis, HEAD, bottom, TICK_PLAIN, str_text(&axis_title));
    for (size_t i = 0; i < l->n_planes && !rc; i++)
        rc = draw_guarded(&d, &l->planes[i], err);
    svg_end(&d.svg);
    str_add(out, "</svg>\n");
    str_release(&axis_title);
    *left_out = d.left_out;
    return rc ? rc : str_check(out, err);
}
