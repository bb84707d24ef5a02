// SPDX-License-Identifier: Apache-2.0
#include "report/qualify_charts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "report/format.h"
#include "report/qualify_tables.h"
#include "report/svg.h"

#define WIDTH      560.0
#define LABELS     112.0 // room for policy names at the left
#define ROW        30.0
#define TOP        14.0
#define BELOW      44.0 // axis labels and title
#define MAX_ROWS   32   // policies in a chart; tables have all
#define MAX_NUMBER 99

enum verdict { MEETS, FAILS, UNKNOWN };

static enum verdict verdict_of(const json_t *policy)
{
    const json_t *meets = doc_at(policy, "meets");
    return !json_is_boolean(meets) ? UNKNOWN : json_is_true(meets) ? MEETS : FAILS;
}

// Blue meets the requirement (or nothing was required), orange does not.
static bool orange(const json_t *policy)
{
    return verdict_of(policy) == FAILS;
}

static size_t rows_of(const json_t *result)
{
    size_t n = qualify_policies(result);
    return n < MAX_ROWS ? n : MAX_ROWS;
}

static double row_y(size_t i)
{
    return TOP + ROW * ((double)i + 0.5);
}

// Names at the left with a thin line to read along, the chosen one strong; a failed policy says so in its row.
static void row_labels(struct svg *s, const json_t *result, const struct axis *x)
{
    struct str text;
    str_init(&text);
    for (size_t i = 0; i < rows_of(result); i++) {
        const json_t *policy = qualify_policy(result, i);
        bool chosen = qualify_chosen(result, policy);
        svg_line(s, x->from, row_y(i), x->to, row_y(i), "minor");
        str_clear(&text);
        if (chosen)
            str_add(&text, "\xe2\x97\x8f "); // a filled circle: strong type alone is easily missed
        svg_fit(&text, qualify_policy_name(policy), LABELS - 22);
        svg_text(s, LABELS - 10, row_y(i) + 4, SVG_END, chosen ? "label strong" : "label", str_text(&text));
        if (qualify_failed(policy))
            svg_text(s, LABELS + 8, row_y(i) + 4, SVG_START, "small soft", "failed");
    }
    s->out->failed |= text.failed;
    str_release(&text);
}

struct range {
    double low, high;
};

static void widen(struct range *r, double v, bool positive)
{
    if (!isfinite(v) || (positive && v <= 0))
        return;
    r->low = v < r->low ? v : r->low;
    r->high = v > r->high ? v : r->high;
}

static bool empty(const struct range *r)
{
    return !(r->low <= r->high);
}

static const struct range nothing = {INFINITY, -INFINITY};

static double cosine_gap(const json_t *policy)
{
    return 1 - doc_quantity(policy, "errors.cosine_min").value;
}

static void bound_line(struct svg *s, const struct axis *x, double bound, double bottom, const char *name)
{
    if (!(bound > 0) || bound < x->low || bound > x->high)
        return;
    char text[FORMAT_MAX * 2], number[FORMAT_MAX];
    format_number(number, bound, 2);
    snprintf(text, sizeof text, "%s %s", name, number);
    double at = axis_at(x, bound);
    svg_line(s, at, TOP - 4, at, bottom, "bound");
    bool right = at > WIDTH - 110;
    svg_text(s, at + (right ? -4 : 4), TOP + 2, right ? SVG_END : SVG_START, "small soft halo", text);
}

// One value of a row on a log axis; zero stands at the left edge in words.
static void error_mark(struct svg *s, const struct axis *x, double y, double v, enum svg_shape shape, const char *class,
                       const char *name)
{
    char tip[FORMAT_MAX * 2], number[FORMAT_MAX];
    if (!isfinite(v))
        return;
    format_exponent(number, v, 3);
    snprintf(tip, sizeof tip, "%s %s", name, number);
    if (v > 0)
        svg_mark(s, shape, axis_at(x, v), y, 5, class, tip);
    else
        svg_text(s, x->from + 6, y + 4, SVG_START, "small soft", "no difference");
}

bool qualify_chart_errors(struct str *out, const json_t *result)
{
    struct range r = nothing;
    size_t n = rows_of(result);
    for (size_t i = 0; i < n; i++) {
        widen(&r, doc_quantity(qualify_policy(result, i), "errors.rel_l2").value, true);
        widen(&r, cosine_gap(qualify_policy(result, i)), true);
    }
    if (empty(&r))
        return false;
    double required_l2 = qualify_required(result, "rel_l2"), required_cosine = qualify_required(result, "cosine_min");
    widen(&r, required_l2, true);
    widen(&r, 1 - required_cosine, true);
    struct svg s;
    double bottom = TOP + ROW * (double)n;
    svg_begin(&s, out, WIDTH, bottom + BELOW, "Error by policy",
              "For each policy the relative L2 error and one minus the lowest cosine, on a log axis; the numbers are "
              "in the table.");
    struct axis x = axis_log(r.low, r.high, LABELS, WIDTH - 16);
    svg_axis_x(&s, &x, TOP, bottom, TICK_POWER, "against f64, log axis: left is better");
    row_labels(&s, result, &x);
    bound_line(&s, &x, required_l2, bottom, "rel L2 \xe2\x89\xa4");
    bound_line(&s, &x, 1 - required_cosine, bottom, "1 \xe2\x88\x92 cosine \xe2\x89\xa4");
    for (size_t i = 0; i < n; i++) {
        const json_t *policy = qualify_policy(result, i);
        bool o = orange(policy);
        error_mark(&s, &x, row_y(i), cosine_gap(policy), SVG_DIAMOND, o ? "ob" : "oa", "1 - lowest cosine");
        error_mark(&s, &x, row_y(i), doc_quantity(policy, "errors.rel_l2").value, SVG_CIRCLE, o ? "fb" : "fa",
                   "relative L2");
    }
    svg_end(&s);
    return true;
}

bool qualify_chart_bytes(struct str *out, const json_t *result)
{
    struct range r = nothing;
    size_t n = rows_of(result);
    for (size_t i = 0; i < n; i++)
        widen(&r, qualify_stored(qualify_policy(result, i)).value, true);
    if (empty(&r))
        return false;
    struct svg s;
    double bottom = TOP + ROW * (double)n;
    svg_begin(&s, out, WIDTH, bottom + BELOW, "Stored bytes by policy",
              "Bars of the weight bytes with the bytes of scales after them; the numbers are in the table.");
    struct scale scale = scale_pick(&r.high, 1, "B");
    struct axis x = axis_linear(0, r.high * scale.factor, LABELS, WIDTH - 92);
    char unit[FORMAT_MAX], title[FORMAT_MAX * 2];
    scale_name(unit, scale);
    snprintf(title, sizeof title, "%s of weights and scales", unit);
    svg_axis_x(&s, &x, TOP, bottom, TICK_PLAIN, title);
    row_labels(&s, result, &x);
    for (size_t i = 0; i < n; i++) {
        const json_t *policy = qualify_policy(result, i);
        struct quantity stored = qualify_stored(policy);
        double weights = doc_quantity(policy, "weight_bytes").value;
        if (!isfinite(stored.value) || stored.value < 0 || !isfinite(weights) || qualify_failed(policy))
            continue;
        double a = axis_at(&x, weights * scale.factor), b = axis_at(&x, stored.value * scale.factor);
        svg_rect(&s, x.from, row_y(i) - 8, a - x.from, 16, qualify_chosen(result, policy) ? "fa" : "fa weak");
        svg_rect(&s, a, row_y(i) - 8, b > a ? b - a : 0, 16, "fb");
        char text[FORMAT_MAX], label[FORMAT_MAX * 2];
        format_bytes(text, stored.value);
        snprintf(label, sizeof label, "%s \xc2\xb7 %.0f %%", text, 100 * stored.value / r.high);
        svg_text(&s, b + 6, row_y(i) + 4, SVG_START, "small", label);
    }
    svg_end(&s);
    return true;
}

static const enum svg_shape subset_shapes[QUALIFY_SUBSET_SHAPES] = {SVG_DIAMOND, SVG_SQUARE, SVG_TRIANGLE};

bool qualify_chart_agreement(struct str *out, const json_t *result)
{
    struct range r = nothing;
    size_t n = rows_of(result);
    for (size_t i = 0; i < n; i++) {
        const json_t *policy = qualify_policy(result, i);
        widen(&r, doc_quantity(policy, "task.top1").value, false);
        for (size_t k = 0; k < QUALIFY_SUBSET_SHAPES; k++)
            widen(&r, doc_quantity(doc_item(policy, "subsets", k), "top1").value, false);
    }
    if (empty(&r))
        return false;
    struct svg s;
    double bottom = TOP + ROW * (double)n, required = qualify_required(result, "top1");
    widen(&r, required, false);
    svg_begin(
        &s, out, WIDTH, bottom + BELOW, "Top-1 agreement by policy and subset",
        "For each policy the share of texts whose nearest neighbour is the same as in f64, over all texts and over "
        "each subset; the numbers are in the tables.");
    struct axis x = axis_linear(r.low, fmax(r.high, 1), LABELS, WIDTH - 16);
    svg_axis_x(&s, &x, TOP, bottom, TICK_PLAIN, "share of texts with the same nearest neighbour: right is better");
    row_labels(&s, result, &x);
    bound_line(&s, &x, required, bottom, "all \xe2\x89\xa5");
    for (size_t i = 0; i < n; i++) {
        const json_t *policy = qualify_policy(result, i);
        bool o = orange(policy);
        char tip[FORMAT_MAX * 2], number[FORMAT_MAX];
        for (size_t k = 0; k < QUALIFY_SUBSET_SHAPES; k++) {
            double v = doc_quantity(doc_item(policy, "subsets", k), "top1").value;
            format_share(number, v);
            if (isfinite(v))
                svg_mark(&s, subset_shapes[k], axis_at(&x, v), row_y(i), 4.5, o ? "ob" : "oa", number);
        }
        double all = doc_quantity(policy, "task.top1").value;
        format_share(number, all);
        snprintf(tip, sizeof tip, "all texts %s", number);
        if (isfinite(all))
            svg_mark(&s, SVG_CIRCLE, axis_at(&x, all), row_y(i), 5, o ? "fb" : "fa", tip);
    }
    svg_end(&s);
    return true;
}

// Spreads the dots of a row up and down: the golden ratio never lines them up, and the picture is the same every time.
static double jitter(size_t i)
{
    double t = (double)i * 0.6180339887498949;
    return (t - floor(t) - 0.5) * 13;
}

bool qualify_chart_latency(struct str *out, const json_t *result)
{
    struct arena a;
    arena_init(&a);
    struct range r = nothing;
    size_t n = rows_of(result), counts[MAX_ROWS];
    const double *samples[MAX_ROWS];
    for (size_t i = 0; i < n; i++) {
        counts[i] = doc_samples(qualify_policy(result, i), "measured.samples_ms", &a, &samples[i]);
        for (size_t k = 0; k < counts[i]; k++)
            widen(&r, samples[i][k], true);
    }
    if (empty(&r)) {
        arena_release(&a);
        return false;
    }
    const double width = 2 * WIDTH + 24, right = width - 92;
    struct svg s;
    double bottom = TOP + ROW * (double)n;
    svg_begin(&s, out, width, bottom + BELOW, "Latency of every sample",
              "For each policy a strip of all samples, a box from the first to the third quartile, and the median with "
              "its confidence interval; the numbers are in the table.");
    bool log = r.high > 20 * r.low, zero = r.low < 0.3 * r.high;
    struct scale scale = scale_pick((double[]){r.low, r.high}, 2, "ms");
    char title[FORMAT_MAX * 3];
    snprintf(title, sizeof title, "%s per batch%s", scale.prefix[0] ? scale.prefix : "ms",
             log    ? ", log axis"
             : zero ? ""
                    : "; the axis does not start at zero");
    double f = scale.factor, low = r.low * f, high = r.high * f;
    struct axis x = log ? axis_log(low, high, LABELS, right) : axis_linear(zero ? 0 : low, high, LABELS, right);
    svg_axis_x(&s, &x, TOP, bottom, TICK_PLAIN, title);
    row_labels(&s, result, &x);
    for (size_t i = 0; i < n; i++) {
        const json_t *policy = qualify_policy(result, i);
        double *scratch = arena_new(&a, double, counts[i] + 1, NULL), y = row_y(i);
        if (!counts[i] || !scratch)
            continue;
        bool o = orange(policy);
        double q1 = axis_at(&x, f * stats_quantile(samples[i], counts[i], 0.25, scratch));
        double q3 = axis_at(&x, f * stats_quantile(samples[i], counts[i], 0.75, scratch));
        svg_rect(&s, q1, y - 10, q3 - q1, 20, o ? "pb" : "pa");
        svg_dots_begin(&s, o ? "db" : "da");
        for (size_t k = 0; k < counts[i]; k++)
            svg_dot(&s, axis_at(&x, f * samples[i][k]), y + jitter(k));
        svg_dots_end(&s);
        struct quantity p50 = doc_quantity(policy, "measured.p50_ms");
        double from = doc_quantity(policy, "measured.ci_low_ms").value * f;
        double to = doc_quantity(policy, "measured.ci_high_ms").value * f, mid = axis_at(&x, p50.value * f);
        if (isfinite(from) && isfinite(to))
            svg_line(&s, axis_at(&x, from), y, axis_at(&x, to), y, "interval");
        if (isfinite(mid)) {
            svg_line(&s, mid, y - 12, mid, y + 12, "median");
            char text[FORMAT_MAX];
            format_quantity(text, p50);
            svg_text(&s, right + 10, y + 4, SVG_START, "small", text);
        }
    }
    svg_end(&s);
    arena_release(&a);
    return true;
}

// ---- Labels that do not cover each other: each is moved up or down until its box is free.
struct boxes {
    double x[MAX_NUMBER], y[MAX_NUMBER], w[MAX_NUMBER];
    size_t n;
};

static bool overlaps(const struct boxes *b, double x, double y, double w)
{
    for (size_t i = 0; i < b->n; i++)
        if (x < b->x[i] + b->w[i] && b->x[i] < x + w && fabs(y - b->y[i]) < 13)
            return true;
    return false;
}

// The nearest free height for a box of width w at x, within low..high, tried in turn above and below.
static double free_height(struct boxes *b, double x, double y, double w, double low, double high)
{
    double found = y;
    for (int i = 0; i < 40; i++) {
        int steps = (i + 1) / 2;
        double t = y + steps * (i % 2 ? -7.0 : 7.0);
        if (t >= low && t <= high && !overlaps(b, x, t, w)) {
            found = t;
            break;
        }
    }
    if (b->n < MAX_NUMBER) {
        b->x[b->n] = x;
        b->y[b->n] = found;
        b->w[b->n++] = w;
    }
    return found;
}

bool qualify_chart_tradeoff(struct str *out, const json_t *result)
{
    struct range time = nothing, error = nothing;
    size_t n = rows_of(result), drawn = 0;
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *policy = qualify_policy(result, i);
        double t = doc_quantity(policy, "measured.p50_ms").value, e = doc_quantity(policy, "errors.rel_l2").value;
        if (!(t > 0) || !(e > 0) || qualify_failed(policy))
            continue;
        widen(&time, t, true);
        widen(&error, e, true);
        most = fmax(most, qualify_stored(policy).value);
        drawn++;
    }
    if (drawn < 2)
        return false;
    const double height = TOP + ROW * (double)(n > 6 ? n : 6) + BELOW, bottom = height - BELOW, left = 52;
    struct svg s;
    svg_begin(&s, out, WIDTH, height, "Error against time",
              "Each policy as a disc at its median time and relative L2 error; the area is its stored bytes.");
    struct scale scale = scale_pick((double[]){time.low, time.high}, 2, "ms");
    bool zero = time.low < 0.3 * time.high;
    double f = scale.factor;
    struct axis x = axis_linear(zero ? 0 : time.low * f, time.high * f, left, WIDTH - 60);
    struct axis y = axis_log(error.low, error.high, bottom, TOP + 10);
    char title[FORMAT_MAX * 2];
    snprintf(title, sizeof title, "p50 in %s: left is faster%s", scale.prefix[0] ? scale.prefix : "ms",
             zero ? "" : "; does not start at zero");
    svg_axis_x(&s, &x, TOP + 10, bottom, TICK_PLAIN, title);
    svg_axis_y(&s, &y, left, WIDTH - 60, TICK_POWER, "rel L2: lower is better");
    struct boxes boxes = {.n = 0};
    struct str text;
    str_init(&text);
    for (size_t i = 0; i < n; i++) {
        const json_t *policy = qualify_policy(result, i);
        struct quantity t = doc_quantity(policy, "measured.p50_ms"), stored = qualify_stored(policy);
        double e = doc_quantity(policy, "errors.rel_l2").value;
        if (!(t.value > 0) || !(e > 0) || qualify_failed(policy))
            continue;
        double px = axis_at(&x, t.value * f), py = axis_at(&y, e);
        double radius = stored.value > 0 && most > 0 ? 4 + 10 * sqrt(stored.value / most) : 5;
        char tip[FORMAT_MAX * 3], a[FORMAT_MAX], b[FORMAT_MAX];
        format_quantity(a, t);
        format_bytes(b, stored.value);
        snprintf(tip, sizeof tip, "%s, rel L2 %.2e, %s", a, e, b);
        svg_mark(&s, SVG_CIRCLE, px, py, radius, orange(policy) ? "disc fb" : "disc fa", tip);
        str_clear(&text);
        svg_fit(&text, qualify_policy_name(policy), 90);
        double ly = free_height(&boxes, px + radius + 4, py + 4, 7 * (double)strlen(str_text(&text)), TOP, bottom);
        svg_text(&s, px + radius + 4, ly, SVG_START,
                 qualify_chosen(result, policy) ? "label strong halo" : "label halo", str_text(&text));
    }
    str_release(&text);
    svg_end(&s);
    return true;
}
