// SPDX-License-Identifier: Apache-2.0
// The roofline of one chip (Williams, Waterman, Patterson 2009): attainable rate = min(peak, intensity * bandwidth).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/qualify_charts.h"
#include "report/qualify_tables.h"
#include "report/svg.h"
#include "report/width.h"

#define WIDTH     560.0
#define HEIGHT    380.0
#define LEFT      56.0
#define RIGHT     128.0 // room for the roofs' names
#define TOP       30.0
#define BOTTOM    336.0
#define MAX_ROOFS 12
#define MAX_DOTS  64

struct roof {
    char label[96]; // the types that share it, and the rate
    double peak;
    const char *unit; // FLOP/s, or OP/s for integers
};

struct dot {
    double intensity, rate;
    int number; // 1.. for a module, 0 for a measured policy
    const json_t *from;
    bool memory_bound;
};

struct roofline {
    struct svg svg;
    double bandwidth;
    struct roof roofs[MAX_ROOFS];
    size_t roof_count;
    struct dot dots[MAX_DOTS];
    size_t dot_count;
    struct axis x, y;
};

// Types with the same rate share a line.
static void read_roofs(struct roofline *r, const json_t *chip)
{
    json_t *peaks = (json_t *)doc_at(chip, "peaks");
    for (void *i = json_object_iter(peaks); i; i = json_object_iter_next(peaks, i)) {
        struct quantity q = doc_quantity(json_object_iter_value(i), "");
        double peak = quantity_base(q);
        const char *type = json_object_iter_key(i);
        if (!(peak > 0) || !isfinite(peak))
            continue;
        size_t k = 0;
        while (k < r->roof_count && r->roofs[k].peak != peak)
            k++;
        if (k == MAX_ROOFS)
            continue;
        struct roof *roof = &r->roofs[k];
        size_t used = k < r->roof_count ? strlen(roof->label) : 0;
        snprintf(roof->label + used, sizeof roof->label - used, "%s%.*s", used ? ", " : "",
                 (int)text_prefix(type, strlen(type), 16), type);
        roof->peak = peak;
        roof->unit = strstr(q.unit, "FLOP") ? "FLOP/s" : "OP/s";
        r->roof_count += k == r->roof_count;
    }
    for (size_t i = 1; i < r->roof_count; i++) // lowest first
        for (size_t k = i; k > 0 && r->roofs[k].peak < r->roofs[k - 1].peak; k--) {
            struct roof swap = r->roofs[k];
            r->roofs[k] = r->roofs[k - 1];
            r->roofs[k - 1] = swap;
        }
}

static void add_dot(struct roofline *r, struct dot d)
{
    bool drawable = d.intensity > 0 && d.rate > 0 && isfinite(d.intensity) && isfinite(d.rate);
    if (drawable && r->dot_count < MAX_DOTS)
        r->dots[r->dot_count++] = d;
}

// Modules at the rate their floor stands for, and whole policies at the rate that was measured.
static void read_dots(struct roofline *r, const json_t *result, const char *chip)
{
    size_t n = doc_count(result, "modules");
    for (size_t i = 0; i < n && i < MAX_DOTS; i++) {
        const json_t *m = doc_item(result, "modules", i), *floor = qualify_member(m, "floors", chip);
        double flop = quantity_base(doc_quantity(m, "flop")), t = quantity_base(doc_quantity(floor, "time"));
        add_dot(r, (struct dot){flop / quantity_base(doc_quantity(m, "bytes")), flop / t, (int)i + 1, m,
                                strcmp(doc_text(floor, "bound", ""), "memory") == 0});
    }
    for (size_t p = 0; p < qualify_policies(result); p++) {
        const json_t *policy = qualify_policy(result, p);
        const json_t *over = doc_at(qualify_member(policy, "predicted", chip), "over_measured");
        if (!isfinite(doc_number(over, "value")))
            continue;
        double flop = 0, bytes = 0;
        for (size_t i = 0; i < doc_count(policy, "modules"); i++) {
            flop += quantity_base(doc_quantity(doc_item(policy, "modules", i), "flop"));
            bytes += quantity_base(doc_quantity(doc_item(policy, "modules", i), "bytes"));
        }
        double t = quantity_base(doc_quantity(policy, "measured.p50_ms"));
        add_dot(r, (struct dot){flop / bytes, flop / t, 0, policy, false});
    }
}

static void choose_axes(struct roofline *r)
{
    double top = 0, low_x = INFINITY, high_x = 0, low_y = INFINITY;
    for (size_t i = 0; i < r->roof_count; i++)
        top = fmax(top, r->roofs[i].peak);
    for (size_t i = 0; i < r->dot_count; i++) {
        low_x = fmin(low_x, r->dots[i].intensity);
        high_x = fmax(high_x, r->dots[i].intensity);
        low_y = fmin(low_y, r->dots[i].rate);
        top = fmax(top, r->dots[i].rate);
    }
    double ridge = top / r->bandwidth;
    low_x = fmin(low_x, ridge / 10);
    high_x = fmax(high_x, ridge * 3);
    low_y = fmin(low_y, low_x * r->bandwidth);
    r->x = axis_log(low_x, high_x, LEFT, WIDTH - RIGHT);
    r->y = axis_log(low_y, top, BOTTOM, TOP);
}

static void draw_roofs(struct roofline *r)
{
    char number[FORMAT_MAX];
    struct str text;
    str_init(&text);
    double highest = r->roofs[r->roof_count - 1].peak;
    // The slope enters the picture at the left edge or at the bottom, whichever it meets first.
    double start = fmax(r->x.low, r->y.low / r->bandwidth), end = fmin(r->x.high, highest / r->bandwidth);
    double x1 = axis_at(&r->x, start), y1 = axis_at(&r->y, start * r->bandwidth);
    double x2 = axis_at(&r->x, end), y2 = axis_at(&r->y, end * r->bandwidth);
    svg_line(&r->svg, x1, y1, x2, y2, "roof");
    format_si(number, r->bandwidth, "B/s");
    double angle = atan2(y2 - y1, x2 - x1) * 180 / 3.14159265358979323846;
    double mx = x1 + (x2 - x1) * 0.3, my = y1 + (y2 - y1) * 0.3;
    svg_text_turned(&r->svg, mx - 6, my - 8, angle, SVG_MIDDLE, "small soft halo", number);
    double last = INFINITY;
    for (size_t i = 0; i < r->roof_count; i++) {
        double y = axis_at(&r->y, r->roofs[i].peak), x = axis_at(&r->x, r->roofs[i].peak / r->bandwidth);
        svg_line(&r->svg, x, y, r->x.to, y, "roof");
        format_si(number, r->roofs[i].peak, r->roofs[i].unit);
        str_clear(&text);
        str_addf(&text, "%s ", r->roofs[i].label);
        str_add(&text, number);
        double at = last - y < 13 ? last - 13 : y;
        svg_text(&r->svg, r->x.to + 6, at + 4, SVG_START, "small", str_text(&text));
        last = at;
    }
    str_release(&text);
}

struct label {
    double x, y;
};

static bool taken(const struct label *labels, size_t n, double x, double y)
{
    for (size_t i = 0; i < n; i++)
        if (fabs(labels[i].x - x) < 16 && fabs(labels[i].y - y) < 16)
            return true;
    return false;
}

// Numbered discs under their dot, moved further down where they would cover each other, with a line to the dot.
static void draw_modules(struct roofline *r)
{
    struct label labels[MAX_DOTS];
    struct str tip;
    size_t n = 0;
    str_init(&tip);
    for (size_t i = 0; i < r->dot_count; i++) {
        const struct dot *d = &r->dots[i];
        if (!d->number)
            continue;
        double x = axis_at(&r->x, d->intensity), y = axis_at(&r->y, d->rate), at = y + 20;
        while (taken(labels, n, x, at) && at < BOTTOM - 24)
            at += 16;
        labels[n++] = (struct label){x, at};
        char number[16], rate[FORMAT_MAX];
        snprintf(number, sizeof number, "%d", d->number);
        format_si(rate, d->rate, "FLOP/s");
        str_clear(&tip);
        str_addf(&tip, "%s: ", doc_text(d->from, "name", ""));
        str_addf(&tip, "%.3g FLOP/B, at most %s", d->intensity, rate);
        svg_line(&r->svg, x, y, x, at - 7.5, "lead");
        svg_mark(&r->svg, SVG_CIRCLE, x, y, 4, d->memory_bound ? "fb" : "fa", str_text(&tip));
        svg_mark(&r->svg, SVG_CIRCLE, x, at, 7.5, d->memory_bound ? "ob" : "oa", str_text(&tip));
        svg_text(&r->svg, x, at + 3.5, SVG_MIDDLE, "number", number);
    }
    str_release(&tip);
}

// From the fastest down, so that labels can only be pushed one way.
static size_t measured_order(const struct roofline *r, size_t order[MAX_DOTS])
{
    size_t n = 0;
    for (size_t i = 0; i < r->dot_count; i++) {
        if (r->dots[i].number)
            continue;
        size_t k = n++;
        for (; k > 0 && r->dots[order[k - 1]].rate < r->dots[i].rate; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return n;
}

// A diamond per policy, its name at the right end of the plot where no module is, apart from the others', with a line
// to it; at the left when the diamonds themselves stand at the right.
static void draw_measured(struct roofline *r)
{
    size_t order[MAX_DOTS], n = measured_order(r, order);
    struct str text;
    str_init(&text);
    double last = -INFINITY, first = INFINITY, end = 0;
    for (size_t i = 0; i < n; i++) {
        first = fmin(first, axis_at(&r->x, r->dots[order[i]].intensity));
        end = fmax(end, axis_at(&r->x, r->dots[order[i]].intensity));
    }
    bool right = end < r->x.to - 60;
    double column = right ? r->x.to - 44 : first - 16;
    for (size_t i = 0; i < n; i++) {
        const struct dot *d = &r->dots[order[i]];
        double x = axis_at(&r->x, d->intensity), y = axis_at(&r->y, d->rate), at = fmax(y, last + 13);
        last = at;
        str_clear(&text);
        svg_fit(&text, qualify_policy_name(d->from), 46);
        svg_line(&r->svg, column, at, x, y, "lead");
        svg_text(&r->svg, column + (right ? 3 : -3), at + 4, right ? SVG_START : SVG_END, "small halo",
                 str_text(&text));
        char rate[FORMAT_MAX];
        format_si(rate, d->rate, "OP/s");
        str_clear(&text);
        str_addf(&text, "%s: ", qualify_policy_name(d->from));
        str_addf(&text, "measured %s", rate);
        svg_mark(&r->svg, SVG_DIAMOND, x, y, 4.5, "fc", str_text(&text));
    }
    str_release(&text);
}

bool qualify_chart_roofline(struct str *out, const json_t *result, const char *chip)
{
    const json_t *rates = qualify_member(result, "chips", chip);
    struct roofline r = {.bandwidth = quantity_base(doc_quantity(rates, "bandwidth"))};
    if (!(r.bandwidth > 0) || !isfinite(r.bandwidth))
        return false;
    read_roofs(&r, rates);
    read_dots(&r, result, chip);
    if (!r.roof_count || !r.dot_count)
        return false;
    choose_axes(&r);
    struct str title;
    str_init(&title);
    str_addf(&title, "Roofline of %s", chip);
    svg_begin(
        &r.svg, out, WIDTH, HEIGHT, str_text(&title),
        "Attainable rate against arithmetic intensity, both on log axes: a slope for the memory bandwidth, a flat "
        "roof for each type, numbered modules; the numbers are in the table.");
    str_release(&title);
    svg_axis_x(&r.svg, &r.x, TOP, BOTTOM, TICK_SI, "arithmetic intensity, FLOP/B");
    svg_axis_y(&r.svg, &r.y, LEFT, WIDTH - RIGHT, TICK_SI, "FLOP/s or OP/s");
    draw_roofs(&r);
    draw_measured(&r);
    draw_modules(&r);
    svg_end(&r.svg);
    return true;
}
