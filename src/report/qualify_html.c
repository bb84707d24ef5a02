// SPDX-License-Identifier: Apache-2.0
// The qualify document as a page.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/html.h"
#include "report/qualify.h"
#include "report/qualify_charts.h"
#include "report/qualify_decision.h"
#include "report/qualify_tables.h"
#include "report/qualify_why.h"
#include "report/stale.h"
#include "report/svg.h"

static int table(struct str *out, void (*fill)(struct table *, const json_t *), const json_t *o, struct error *err)
{
    struct table t;
    table_init(&t);
    fill(&t, o);
    int rc = t.row_count || t.error.code ? table_print(&t, out, TABLE_HTML, 0, false, err) : 0;
    if (!rc && !t.row_count)
        html_paragraph(out, "dim", "nothing of this kind in the document");
    table_release(&t);
    return rc;
}

// `what` and `name` (cut to a decent length; may be "") together say what the number is.
static void tile(struct str *out, const char *value, const char *what, const char *name, const char *rest, char origin)
{
    struct str s;
    str_init(&s);
    str_add(&s, what);
    svg_fit(&s, name, 160);
    str_add(&s, rest);
    str_add(out, "<div class=\"tile\"><b>");
    html_text(out, value);
    str_add(out, "</b><span>");
    html_text(out, str_text(&s));
    str_addf(out, " <i class=\"tag\">%c</i></span></div>\n", origin);
    out->failed |= s.failed;
    str_release(&s);
}

// The numbers people ask for first, of the chosen policy.
static void tiles(struct str *out, const json_t *result)
{
    const json_t *policy = NULL, *first = qualify_policy(result, 0);
    for (size_t i = 0; i < qualify_policies(result); i++)
        if (qualify_chosen(result, qualify_policy(result, i)))
            policy = qualify_policy(result, i);
    if (!policy)
        return;
    char text[FORMAT_MAX], what[FORMAT_MAX * 4];
    struct quantity stored = qualify_stored(policy), base = qualify_stored(first), q;
    str_add(out, "<div class=\"tiles\">\n");
    if (isfinite(stored.value)) {
        format_quantity(text, stored);
        bool compared = isfinite(base.value) && base.value > 0 && policy != first;
        if (compared)
            snprintf(what, sizeof what, "stored, %.0f %% of ", 100 * stored.value / base.value);
        else
            snprintf(what, sizeof what, "stored");
        tile(out, text, what, compared ? qualify_policy_name(first) : "", "", (char)stored.origin);
    }
    q = doc_quantity(policy, "errors.rel_l2");
    if (isfinite(q.value)) {
        format_exponent(text, q.value, 3);
        tile(out, text, "relative L2 against f64", "", "", (char)q.origin);
    }
    q = doc_quantity(policy, "errors.cosine_min");
    if (isfinite(q.value)) {
        format_share(text, q.value);
        tile(out, text, "lowest cosine", "", "", (char)q.origin);
    }
    q = doc_quantity(policy, "task.top1");
    if (isfinite(q.value)) {
        format_share(text, q.value);
        tile(out, text, "top-1 agreement", "", "", (char)q.origin);
    }
    q = doc_quantity(policy, "measured.p50_ms");
    if (isfinite(q.value)) {
        format_quantity(text, q);
        tile(out, text, "median per batch", "", "", (char)q.origin);
    }
    q = doc_quantity(policy, "paired.ratio");
    if (isfinite(q.value)) {
        char low[FORMAT_MAX], high[FORMAT_MAX];
        format_number(text, q.value, 3);
        format_number(low, doc_number(policy, "paired.low.value"), 3);
        format_number(high, doc_number(policy, "paired.high.value"), 3);
        snprintf(what, sizeof what, " (%s to %s)", low, high);
        tile(out, text, "time over that of ", doc_text(policy, "paired.against", "?"), what, (char)q.origin);
    }
    str_add(out, "</div>\n");
}

static void unmet_list(struct str *out, const json_t *result)
{
    bool any = false;
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *policy = qualify_policy(result, i);
        size_t n = doc_count(policy, "unmet");
        if (!n && !qualify_failed(policy))
            continue;
        str_add(out, any ? "" : "<h3>Not met by</h3>\n<ul>\n");
        any = true;
        str_add(out, "<li><b>");
        html_text(out, qualify_policy_name(policy));
        str_add(out, "</b>: ");
        if (!n) {
            struct str s;
            str_init(&s);
            qualify_failure(&s, policy);
            html_text(out, str_text(&s));
            str_release(&s);
        }
        for (size_t k = 0; k < n; k++) {
            str_add(out, k ? ", " : "");
            html_text(out, doc_item_text(policy, "unmet", k));
        }
        str_add(out, "</li>\n");
    }
    str_add(out, any ? "</ul>\n" : "");
}

static void decision(struct str *out, const json_t *result)
{
    struct str s;
    str_init(&s);
    const char *require = doc_text(result, "decision.require", NULL);
    bool chosen = doc_text(result, "decision.chosen", NULL) != NULL;
    str_addf(out, "<div class=\"decision %s\">\n<h2>", !require ? "none" : chosen ? "yes" : "no");
    qualify_headline(&s, result);
    html_text(out, str_text(&s));
    str_add(out, "</h2>\n");
    if (require) {
        str_add(out, "<p>Required before anything was measured: <code>");
        html_text(out, require);
        str_add(out, "</code></p>\n");
    }
    html_paragraph(out, "reason", doc_text(result, "decision.reason", ""));
    tiles(out, result);
    if (require)
        unmet_list(out, result);
    if (doc_count(result, "decision.advice")) {
        str_add(out, "<h3>What to try</h3>\n<ul>\n");
        for (size_t i = 0; i < doc_count(result, "decision.advice"); i++) {
            str_add(out, "<li>");
            html_text(out, doc_item_text(result, "decision.advice", i));
            str_add(out, "</li>\n");
        }
        str_add(out, "</ul>\n");
    }
    str_add(out, "</div>\n");
    out->failed |= s.failed;
    str_release(&s);
}

static void head(struct str *out, const json_t *result)
{
    struct str s;
    char text[FORMAT_MAX];
    str_init(&s);
    str_addf(&s, "assay qualify: %s", doc_text(result, "workload.name", "(no name)"));
    html_begin(out, str_text(&s));
    str_add(out, "<p class=\"kicker\">assay qualify</p>\n<h1>");
    html_text(out, doc_text(result, "workload.name", "(no name)"));
    str_add(out, " on ");
    html_text(out, doc_text(result, "device.kind", "?"));
    str_add(out, "</h1>\n");
    str_clear(&s);
    str_add(&s, doc_text(result, "workload.kind", "?"));
    format_count(text, doc_number(result, "workload.parameters"));
    str_addf(&s, " \xc2\xb7 %s parameters", text);
    format_count(text, doc_number(result, "workload.texts"));
    str_addf(&s, " \xc2\xb7 %s texts", text);
    str_addf(&s, " \xc2\xb7 batch %.0f \xc3\x97 %.0f tokens", doc_number(result, "workload.batch"),
             doc_number(result, "workload.seq"));
    str_addf(&s, " \xc2\xb7 %s", doc_text(result, "host.cpu.model", "host not known"));
    str_addf(&s, " \xc2\xb7 PJRT %s", doc_text(result, "device.plugin.api_version", "?"));
    html_paragraph(out, "about", str_text(&s));
    for (size_t i = 0; i < doc_count(result, "host.warnings"); i++) {
        str_clear(&s);
        str_addf(&s, "\xe2\x9a\xa0 %s", doc_item_text(result, "host.warnings", i));
        html_paragraph(out, "warn", str_text(&s));
    }
    out->failed |= s.failed;
    str_release(&s);
}

static void chart(struct str *out, const json_t *result, bool (*draw)(struct str *, const json_t *), const char *class,
                  const char *title, const char *legend)
{
    struct str svg;
    str_init(&svg);
    if (draw(&svg, result)) {
        html_figure(out, class, title, legend);
        str_add(out, str_text(&svg));
        html_figure_end(out);
    }
    out->failed |= svg.failed;
    str_release(&svg);
}

#define LEGEND_MEETS "<i class=\"key ka\"></i>meets the requirement<i class=\"key kb\"></i>does not"

// The subsets' names are from the document, so this legend is made, not constant.
static void agreement(struct str *out, const json_t *result)
{
    static const char *const shapes[QUALIFY_SUBSET_SHAPES] = {"\xe2\x97\x87", "\xe2\x96\xa1", "\xe2\x96\xb3"};
    const json_t *policy = NULL;
    for (size_t i = 0; i < qualify_policies(result) && !policy; i++)
        if (doc_count(qualify_policy(result, i), "subsets"))
            policy = qualify_policy(result, i);
    struct str legend;
    str_init(&legend);
    str_add(&legend, "\xe2\x97\x8f all texts");
    for (size_t k = 0; k < QUALIFY_SUBSET_SHAPES && k < doc_count(policy, "subsets"); k++) {
        str_addf(&legend, " \xc2\xa0 %s ", shapes[k]);
        html_text(&legend, doc_text(doc_item(policy, "subsets", k), "name", ""));
    }
    chart(out, result, qualify_chart_agreement, "half", "Top-1 agreement, and where decisions are harder",
          str_text(&legend));
    out->failed |= legend.failed;
    str_release(&legend);
}

static void charts(struct str *out, const json_t *result)
{
    str_add(out, "<div class=\"figures\">\n");
    chart(out, result, qualify_chart_errors, "half", "Error",
          LEGEND_MEETS "<i class=\"key ks\"></i>relative L2<i class=\"key kh kd\"></i>1 \xe2\x88\x92 lowest cosine");
    chart(out, result, qualify_chart_bytes, "half", "Stored bytes",
          "<i class=\"key ka\"></i>weights<i class=\"key kb\"></i>scales");
    chart(out, result, qualify_chart_latency, "full", "Latency: every sample",
          LEGEND_MEETS " \xc2\xb7 box: quartiles \xc2\xb7 upright: median \xc2\xb7 thick: its interval");
    chart(out, result, qualify_chart_tradeoff, "half", "Error against time",
          LEGEND_MEETS " \xc2\xb7 area: stored bytes");
    agreement(out, result);
    str_add(out, "</div>\n");
}

static void rooflines(struct str *out, const json_t *result)
{
    const char *chips[QUALIFY_MAX_CHIPS];
    size_t n = qualify_chips(result, chips), drawn = 0;
    struct str all, svg, title;
    str_init(&all);
    str_init(&svg);
    str_init(&title);
    for (size_t i = 0; i < n; i++) {
        str_clear(&svg);
        str_clear(&title);
        if (!qualify_chart_roofline(&svg, result, chips[i]))
            continue;
        str_addf(&title, "Roofline of %s", chips[i]);
        html_figure(&all, "half", str_text(&title),
                    "<i class=\"key ka\"></i>compute-bound<i class=\"key kb\"></i>memory-bound, each at its floor"
                    "<i class=\"key kc kd\"></i>measured, whole policy");
        str_add(&all, str_text(&svg));
        html_figure_end(&all);
        drawn++;
    }
    if (drawn) {
        str_add(out, "<ol class=\"modules\">\n");
        for (size_t i = 0; i < doc_count(result, "modules"); i++) {
            str_add(out, "<li>");
            html_text(out, doc_text(doc_item(result, "modules", i), "name", ""));
            str_add(out, "</li>\n");
        }
        str_add(out, "</ol>\n<div class=\"figures\">\n");
        str_add(out, str_text(&all));
        str_add(out, "</div>\n");
    }
    out->failed |= all.failed || svg.failed || title.failed;
    str_release(&all);
    str_release(&svg);
    str_release(&title);
}

static void failures(struct str *out, const json_t *result)
{
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *policy = qualify_policy(result, i);
        const char *tail = doc_text(policy, "failure.stderr_tail", "");
        if (!qualify_failed(policy) || !*tail)
            continue;
        str_add(out, "<p class=\"about\">Last words of ");
        html_text(out, qualify_policy_name(policy));
        str_add(out, ":</p>\n<pre>");
        html_text(out, tail);
        str_add(out, "</pre>\n");
    }
}

static void specs(struct str *out, const json_t *result)
{
    table(out, qualify_table_specs, result, NULL);
}

static void parts(struct str *out, const json_t *result)
{
    struct str title;
    str_init(&title);
    for (size_t i = 0; i < qualify_parts(result); i++) {
        str_clear(&title);
        qualify_part_title(&title, result, i);
        str_add(out, "<h3>");
        html_text(out, str_text(&title));
        str_add(out, "</h3>\n");
        table(out, qualify_table_part, qualify_part(result, i), NULL);
    }
    if (!qualify_parts(result))
        html_paragraph(out, "dim", "This document is of a version that had none.");
    out->failed |= title.failed;
    str_release(&title);
}

static void targets(struct str *out, const json_t *result)
{
    if (qualify_has_targets(result))
        table(out, qualify_table_targets, result, NULL);
    else
        html_paragraph(out, "dim", "--target asks the compilers of TPUs; this run did not.");
}

static void why(struct str *out, const json_t *result)
{
    if (qualify_why_any(result))
        qualify_why_html(out, result);
    else
        html_paragraph(out, "dim", "Every policy that stores less than another is faster than it, or did not run.");
}

static const struct section {
    const char *id, *title, *about;
    void (*fill)(struct table *, const json_t *);
    void (*before)(struct str *, const json_t *), (*after)(struct str *, const json_t *);
} sections[] = {
    {"report", "Decision report",
     "What a decision needs, in six parts, for the policy that was chosen, else the first that ran. What is not known "
     "says so, "
     "with what would find out.",
     NULL, parts, NULL},
    {"policies", "Policies",
     "Errors are against the same graph in f64; time is per batch, measured in interleaved rounds.",
     qualify_table_policies, NULL, failures},
    {"charts", "At a glance", NULL, NULL, charts, NULL},
    {"errors", "Errors and the task",
     "Relative L2, largest difference and signal to noise over all elements; the lowest cosine over all texts; how far "
     "the ranking of texts by similarity agrees with f64.",
     qualify_table_errors, NULL, NULL},
    {"outputs", "Outputs",
     "Every output of the program by itself. Same: rows along the last dimension whose largest element is where f64 "
     "has "
     "it; of integers and truth values, elements that are equal.",
     qualify_table_outputs, NULL, NULL},
    {"subsets", "Subsets", "The same measures where decisions are harder.", qualify_table_subsets, NULL, NULL},
    {"time", "Time",
     "Compilation, weight upload and the first call stand apart from the warmed samples. The interval of the median is "
     "exact (binomial); the p50 ratio is the median over paired rounds, below 1 is faster.",
     qualify_table_time, NULL, NULL},
    {"why", "Why narrower is not faster",
     "Policies that store less than another and are no faster than it: what their optimised programs, those that ran, "
     "do "
     "besides their products, and the comparison that would show it, with one thing changed.",
     NULL, why, NULL},
    {"request", "The whole request", "Beside the program's own time, what a caller waits for.", qualify_table_request,
     NULL, NULL},
    {"modules", "Modules and floors",
     "The least time a chip could need: the larger of FLOP over peak and bytes over bandwidth, for the policy that was "
     "chosen, else "
     "the first. c: bound by compute, m: by memory.",
     qualify_table_modules, NULL, rooflines},
    {"predictions", "Predictions",
     "Sum of the modules' floors per policy. Predicted over measured says how much of the device's "
     "roof was reached. c: bound by compute, m: by memory.",
     qualify_table_predictions, NULL, NULL},
    {"targets", "Three predictions",
     "Of one batch on one device: by the sheet (the sum of the modules' floors); by the compiler, ahead of time and "
     "without the "
     "device (what its code takes at least, and that over an efficiency that was measured, within its band); by what "
     "was "
     "measured on such a chip.",
     NULL, targets, NULL},
    {"chips", "Rates of the chips", NULL, qualify_table_chips, NULL, NULL},
    {"memory", "Memory",
     "Arguments to code are the compiler's own account; the process peak is the resident set of the worker.",
     qualify_table_memory, NULL, NULL},
    {"parts", "What each policy is", NULL, qualify_table_parts, specs, NULL},
    {"activations", "Quantised activations",
     "Values beyond the codes on the texts that are judged, padding left out. Static scales are from the texts of the "
     "calibration, none of which is among these; dynamic ones are made in every call.",
     qualify_table_activations, NULL, NULL},
    {"products", "Which products ran",
     "The types that the optimised program multiplies, products inside attention included. A compiler widens operands "
     "that its device has no products of.",
     qualify_table_products, NULL, NULL},
    {"inside", "What went wrong inside",
     "Per policy and module: values clipped, not finite or flushed to zero, the range of scales over the batches, and "
     "the weight channel that lost most.",
     qualify_table_diagnostics, NULL, NULL},
    {"arguments", "Arguments", NULL, qualify_table_arguments, NULL, NULL},
    {"files", "Files", NULL, qualify_table_files, NULL, NULL},
};

int report_qualify_html(struct str *out, const json_t *doc, const char *sha256, struct error *err)
{
    const json_t *result = qualify_result(doc, err);
    if (!result)
        return ERR_INPUT;
    size_t n = sizeof sections / sizeof *sections;
    head(out, result);
    decision(out, result);
    str_add(out, "<nav>");
    for (size_t i = 0; i < n; i++) {
        if (!qualify_table_applies(sections[i].fill, result))
            continue;
        str_addf(out, "<a href=\"#%s\">%s</a>", sections[i].id, sections[i].title);
    }
    str_add(out, "<a href=\"#provenance\">Provenance</a></nav>\n");
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct section *s = &sections[i];
        if (!qualify_table_applies(s->fill, result))
            continue;
        html_section(out, s->id, s->title, s->about);
        if (s->before)
            s->before(out, result);
        if (s->fill)
            rc = table(out, s->fill, result, err);
        if (s->after)
            s->after(out, result);
        html_section_end(out);
    }
    html_section(out, "provenance", "Provenance", NULL);
    rc = rc ? rc : table(out, qualify_table_facts, doc, err);
    html_section_end(out);
    str_add(out, "<footer>Every number carries its origin: <i class=\"tag\">S</i> from a sheet, <i class=\"tag\">D</i> "
                 "derived by a formula, <i class=\"tag\">M</i> measured on the device named above; rest the pointer on "
                 "a number for its source. All samples are in the record.");
    if (sha256)
        str_addf(out, " Page and charts: " REPORT_STALE_MARK "%.64s.", sha256);
    str_add(out, "</footer>\n");
    html_end(out);
    return rc ? rc : str_check(out, err);
}
