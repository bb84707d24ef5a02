// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/width.h"

#define MAX_TICKS  64
#define CHAR_WIDTH 6.6 // of class "label": 12 units high

// Blue and orange stay apart for every kind of colour vision; green and violet are used only beside a text.
const char *svg_style(void)
{
    return ":root{--a:#0b6aa8;--b:#c2570c;--c:#0a7f5f;--d:#8a4f9e;--ink:#1b1f24;--soft:#59636e;--grid:#e3e6ea;"
           "--axis:#9aa4ae;--paper:#fff}\n"
           "@media (prefers-color-scheme:dark){:root{--a:#5db4ee;--b:#f59a57;--c:#3fc79f;--d:#c79adb;--ink:#e6e9ed;"
           "--soft:#9aa5b1;--grid:#2b323a;--axis:#66717d;--paper:#14181d}}\n"
           "@media print{:root{--a:#0b6aa8;--b:#c2570c;--c:#0a7f5f;--d:#8a4f9e;--ink:#000;--soft:#444;--grid:#ddd;"
           "--axis:#888;--paper:#fff}}\n"
           "svg text{fill:var(--ink);font-size:12px}\n"
           "svg .label{font-size:12px}\n"
           "svg .strong{font-weight:650}\n"
           "svg .small{font-size:11px}\n"
           "svg .soft{fill:var(--soft)}\n"
           "svg .tick{font-size:11px;fill:var(--soft)}\n"
           "svg .halo{paint-order:stroke;stroke:var(--paper);stroke-width:3.5px;stroke-linejoin:round}\n"
           "svg .grid{stroke:var(--grid);stroke-width:1}\n"
           "svg .minor{stroke:var(--grid);stroke-width:.5}\n"
           "svg .axis{stroke:var(--axis);stroke-width:1}\n"
           "svg .roof{stroke:var(--ink);stroke-width:1.8;stroke-linecap:round}\n"
           "svg .lead{stroke:var(--soft);stroke-width:.8}\n"
           "svg .bound{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:5 3}\n"
           "svg .median{stroke:var(--ink);stroke-width:2.2}\n"
           "svg .interval{stroke:var(--ink);stroke-width:5;opacity:.45}\n"
           "svg .fa{fill:var(--a)}svg .fb{fill:var(--b)}svg .fc{fill:var(--c)}svg .fd{fill:var(--d)}"
           "svg .fn{fill:var(--axis)}\n"
           "svg .oa{fill:var(--paper);stroke:var(--a);stroke-width:1.8}"
           "svg .ob{fill:var(--paper);stroke:var(--b);stroke-width:1.8}\n"
           "svg .pa{fill:var(--a);opacity:.2}svg .pb{fill:var(--b);opacity:.2}\n"
           "svg .da,svg .db{fill:none;stroke-width:4.4;stroke-linecap:round;opacity:.55}"
           "svg .da{stroke:var(--a)}svg .db{stroke:var(--b)}\n"
           "svg .la{stroke:var(--a);stroke-width:1.6}svg .lb{stroke:var(--b);stroke-width:1.6}"
           "svg .lc{stroke:var(--c);stroke-width:1.6}svg .ld{stroke:var(--d);stroke-width:1.6}\n";
}

static void text_escaped(struct str *out, const char *text)
{
    str_add_html(out, text, strlen(text));
}

// Hundredths are finer than any screen; no exponent and no locale can come out.
static void number(struct svg *s, const char *name, double v)
{
    char text[64];
    snprintf(text, sizeof text, "%.2f", v);
    char *dot = strchr(text, '.');
    if (dot) {
        char *end = text + strlen(text);
        while (end[-1] == '0')
            *--end = '\0';
        if (end[-1] == '.')
            *--end = '\0';
    }
    str_addf(s->out, " %s=\"%s\"", name, strcmp(text, "-0") == 0 ? "0" : text);
}

// Are all coordinates drawable? Beyond 1e6 units is as wrong as NaN.
static bool sane(struct svg *s, const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(v[i]) < 1e6)) {
            s->broken++;
            return false;
        }
    }
    return true;
}

void svg_begin(struct svg *s, struct str *out, double width, double height, const char *title, const char *about)
{
    *s = (struct svg){out, width, height, 0};
    str_addf(out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" preserveAspectRatio=\"xMinYMin meet\"><title>", width,
             height);
    text_escaped(out, title);
    str_add(out, "</title><desc>");
    text_escaped(out, about);
    str_add(out, "</desc>\n");
}

void svg_end(struct svg *s)
{
    str_add(s->out, "</svg>\n");
}

void svg_line(struct svg *s, double x1, double y1, double x2, double y2, const char *class)
{
    if (!sane(s, (double[]){x1, y1, x2, y2}, 4))
        return;
    str_addf(s->out, "<line class=\"%s\"", class);
    number(s, "x1", x1);
    number(s, "y1", y1);
    number(s, "x2", x2);
    number(s, "y2", y2);
    str_add(s->out, "/>\n");
}

void svg_rect(struct svg *s, double x, double y, double w, double h, const char *class)
{
    if (!sane(s, (double[]){x, y, w, h}, 4) || w < 0 || h < 0)
        return;
    str_addf(s->out, "<rect class=\"%s\"", class);
    number(s, "x", x);
    number(s, "y", y);
    number(s, "width", w);
    number(s, "height", h);
    str_add(s->out, "/>\n");
}

void svg_text_turned(struct svg *s, double x, double y, double degrees, enum svg_anchor anchor, const char *class,
                     const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    if (!sane(s, (double[]){x, y, degrees}, 3))
        return;
    str_addf(s->out, "<text class=\"%s\" text-anchor=\"%s\"", class, anchors[anchor]);
    number(s, "x", x);
    number(s, "y", y);
    if (degrees != 0)
        str_addf(s->out, " transform=\"rotate(%.2f %.2f %.2f)\"", degrees, x, y);
    str_add_char(s->out, '>');
    text_escaped(s->out, text);
    str_add(s->out, "</text>\n");
}

void svg_text(struct svg *s, double x, double y, enum svg_anchor anchor, const char *class, const char *text)
{
    svg_text_turned(s, x, y, 0, anchor, class, text);
}

void svg_mark(struct svg *s, enum svg_shape shape, double x, double y, double r, const char *class, const char *tip)
{
    if (!sane(s, (double[]){x, y, r}, 3))
        return;
    if (shape == SVG_CIRCLE) {
        str_addf(s->out, "<circle class=\"%s\"", class);
        number(s, "cx", x);
        number(s, "cy", y);
        number(s, "r", r);
    } else {
        static const double corners[][4][2] = {
            [SVG_DIAMOND] = {{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}},
            [SVG_SQUARE] = {{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}},
            [SVG_TRIANGLE] = {{0, -1.2}, {1.1, 0.8}, {-1.1, 0.8}, {0, -1.2}},
        };
        str_addf(s->out, "<polygon class=\"%s\" points=\"", class);
        for (int i = 0; i < 4; i++)
            str_addf(s->out, "%s%.2f,%.2f", i ? " " : "", x + r * corners[shape][i][0], y + r * corners[shape][i][1]);
        str_add_char(s->out, '"');
    }
    if (!tip) {
        str_add(s->out, "/>\n");
        return;
    }
    str_add(s->out, "><title>");
    text_escaped(s->out, tip);
    str_addf(s->out, "</title></%s>\n", shape == SVG_CIRCLE ? "circle" : "polygon");
}

void svg_dots_begin(struct svg *s, const char *class)
{
    str_addf(s->out, "<path class=\"%s\" d=\"", class);
}

void svg_dot(struct svg *s, double x, double y)
{
    if (sane(s, (double[]){x, y}, 2))
        str_addf(s->out, "M%.1f %.1fh0", x, y);
}

void svg_dots_end(struct svg *s)
{
    str_add(s->out, "\"/>\n");
}

void svg_fit(struct str *out, const char *text, double width)
{
    size_t n = strlen(text), columns = width > CHAR_WIDTH ? (size_t)(width / CHAR_WIDTH) : 1;
    if (text_width(text, n) <= columns) {
        str_add(out, text);
        return;
    }
    str_add_n(out, text, text_prefix(text, n, columns - 1));
    str_add(out, "\xe2\x80\xa6");
}

// 1, 2 or 5 times a power of ten, near a fifth of the span.
static double nice_step(double span)
{
    double raw = span / 5, power = pow(10, floor(log10(raw))), f = raw / power;
    return power * (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10);
}

struct axis axis_linear(double low, double high, double from, double to)
{
    if (!isfinite(low) || !isfinite(high)) {
        low = 0;
        high = 1;
    }
    if (!(high > low)) {
        double half = low != 0 ? fabs(low) * 0.1 : 1;
        low -= half;
        high = low + 2 * half;
    }
    double step = nice_step(high - low);
    return (struct axis){floor(low / step) * step, ceil(high / step) * step, from, to, false};
}

struct axis axis_log(double low, double high, double from, double to)
{
    if (!(low > 0) || !(high >= low) || !isfinite(high)) {
        low = 1;
        high = 10;
    }
    double a = floor(log10(low) + 1e-9), b = ceil(log10(high) - 1e-9);
    if (b <= a)
        b = a + 1;
    return (struct axis){pow(10, a), pow(10, b), from, to, true};
}

double axis_at(const struct axis *a, double value)
{
    if (isnan(value))
        return NAN;
    double t = a->log ? (log10(fmax(value, a->low)) - log10(a->low)) / (log10(a->high) - log10(a->low))
                      : (value - a->low) / (a->high - a->low);
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return a->from + t * (a->to - a->from);
}

size_t axis_ticks(const struct axis *a, double *ticks, bool *minor, size_t max)
{
    size_t n = 0;
    if (!a->log) {
        double step = nice_step(a->high - a->low);
        double first = ceil(a->low / step - 1e-9) + 0.0; // + 0.0: no tick is called "-0"
        while (n < max && (first + (double)n) * step <= a->high + step * 1e-9) {
            if (minor)
                minor[n] = false;
            ticks[n] = (first + (double)n) * step;
            n++;
        }
        return n;
    }
    int first = (int)lround(log10(a->low)), last = (int)lround(log10(a->high));
    int decades = last - first, every = (decades + 7) / 8;
    for (int d = first; d <= last; d++) {
        for (int m = 1; m <= 9 && n < max; m++) {
            double v = m * pow(10, d);
            if (v > a->high * (1 + 1e-9) || (m > 1 && decades > 2))
                break;
            if (minor)
                minor[n] = m > 1 ? decades > 1 || (m != 2 && m != 5) : (d - first) % every != 0;
            ticks[n++] = v;
        }
    }
    return n;
}

static void superscript(struct str *out, int v)
{
    static const char *const digit[] = {"\xe2\x81\xb0", "\xc2\xb9",     "\xc2\xb2",     "\xc2\xb3",     "\xe2\x81\xb4",
                                        "\xe2\x81\xb5", "\xe2\x81\xb6", "\xe2\x81\xb7", "\xe2\x81\xb8", "\xe2\x81\xb9"};
    if (v < 0) {
        str_add(out, "\xe2\x81\xbb");
        v = -v;
    }
    if (v >= 10)
        superscript(out, v / 10);
    str_add(out, digit[v % 10]);
}

static void tick_label(struct str *out, double v, enum tick_style style)
{
    char text[FORMAT_MAX];
    double decade = v > 0 ? log10(v) : 0.5;
    if (style == TICK_POWER && fabs(decade - round(decade)) < 1e-9) {
        int d = (int)lround(decade);
        if (d == 0) {
            str_add_char(out, '1');
        } else {
            str_add(out, "10");
            superscript(out, d);
        }
    } else if (style == TICK_SI && fabs(v) >= 1000) {
        static const char prefixes[] = " kMGTPE";
        int p = (int)floor(log10(fabs(v)) / 3 + 1e-9);
        p = p > 6 ? 6 : p;
        str_addf(out, "%.3g\xe2\x80\xaf%c", v / pow(1000, p), prefixes[p]);
    } else if (style == TICK_PLAIN && fabs(v) >= 10000) {
        format_count(text, v);
        str_add(out, text);
    } else {
        str_addf(out, "%.3g", v);
    }
}

void svg_axis_x(struct svg *s, const struct axis *a, double top, double bottom, enum tick_style style,
                const char *title)
{
    double ticks[MAX_TICKS];
    bool minor[MAX_TICKS];
    size_t n = axis_ticks(a, ticks, minor, MAX_TICKS);
    struct str text;
    str_init(&text);
    for (size_t i = 0; i < n; i++) {
        double x = axis_at(a, ticks[i]);
        svg_line(s, x, top, x, bottom, minor[i] ? "minor" : "grid");
        if (minor[i])
            continue;
        str_clear(&text);
        tick_label(&text, ticks[i], style);
        svg_text(s, x, bottom + 15, SVG_MIDDLE, "tick", str_text(&text));
    }
    str_release(&text);
    svg_line(s, a->from, bottom, a->to, bottom, "axis");
    svg_text(s, (a->from + a->to) / 2, bottom + 32, SVG_MIDDLE, "small soft", title);
}

void svg_axis_y(struct svg *s, const struct axis *a, double left, double right, enum tick_style style,
                const char *title)
{
    double ticks[MAX_TICKS];
    bool minor[MAX_TICKS];
    size_t n = axis_ticks(a, ticks, minor, MAX_TICKS);
    struct str text;
    str_init(&text);
    for (size_t i = 0; i < n; i++) {
        double y = axis_at(a, ticks[i]);
        svg_line(s, left, y, right, y, minor[i] ? "minor" : "grid");
        if (minor[i])
            continue;
        str_clear(&text);
        tick_label(&text, ticks[i], style);
        svg_text(s, left - 6, y + 4, SVG_END, "tick", str_text(&text));
    }
    str_release(&text);
    svg_line(s, left, a->from, left, a->to, "axis");
    svg_text(s, left - 6, fmin(a->from, a->to) - 10, SVG_START, "small soft", title);
}
