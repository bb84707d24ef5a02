// SPDX-License-Identifier: Apache-2.0
// The precision document as a page, and its figures as files of their own.
#include <stdio.h>
#include <string.h>

#include "report/html.h"
#include "report/precision.h"
#include "report/precision_figures.h"
#include "report/precision_tables.h"
#include "report/stale.h"
#include "report/svg.h"
#include "report/width.h"

static int print(struct str *out, struct table *t, struct error *err)
{
    int rc = t->row_count || t->error.code ? table_print(t, out, TABLE_HTML, 0, false, err) : 0;
    table_release(t);
    return rc;
}

static int filled(struct str *out, void (*fill)(struct table *, const json_t *), const json_t *o, struct error *err)
{
    struct table t;
    table_init(&t);
    fill(&t, o);
    return print(out, &t, err);
}

static void heading(struct str *out, const char *text)
{
    str_add(out, "<h3>");
    html_text(out, text);
    str_add(out, "</h3>\n");
}

static void figures(struct str *out, const json_t *suite)
{
    str_add(out, "<div class=\"figures\">\n");
    for (size_t i = 0; i < doc_count(suite, "figures"); i++) {
        const json_t *f = doc_item(suite, "figures", i);
        struct str svg;
        str_init(&svg);
        if (precision_figure_draw(&svg, suite, f) > 0) {
            html_figure(out, "half", doc_text(f, "title", ""), "");
            str_add(out, str_text(&svg));
            html_paragraph(out, "about", doc_text(f, "caption", ""));
            html_figure_end(out);
        }
        out->failed |= svg.failed;
        str_release(&svg);
    }
    str_add(out, "</div>\n");
}

static void texts(struct str *out, const json_t *suite, const char *section)
{
    for (size_t i = 0; i < doc_count(suite, "cases"); i++) {
        const json_t *c = doc_item(suite, "cases", i);
        struct str words, title;
        str_init(&words);
        str_init(&title);
        precision_show_title(&title, c);
        if (precision_show_belongs(c, section))
            precision_show_texts(&words, c);
        if (words.length) {
            str_add(out, "<p class=\"about\"><b>");
            html_text(out, str_text(&title));
            str_add(out, "</b>: ");
            html_text(out, str_text(&words));
            str_add(out, "</p>\n");
        }
        out->failed |= words.failed || title.failed;
        str_release(&words);
        str_release(&title);
    }
}

static int sections(struct str *out, const json_t *suite, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < precision_show_sections(suite) && !rc; i++) {
        const char *section = precision_show_section(suite, i), *against = precision_show_against(suite, section);
        struct table t;
        heading(out, section);
        if (against) {
            str_add(out, "<p class=\"about\">Errors against ");
            html_text(out, against);
            str_add(out, ".</p>\n");
        }
        table_init(&t);
        precision_show_cases(&t, suite, section, SHOW_POLICY);
        str_add(out, "<div class=\"cases\">\n");
        rc = print(out, &t, err);
        str_add(out, "</div>\n");
        texts(out, suite, section);
    }
    return rc;
}

static int details(struct str *out, const json_t *suite, struct error *err)
{
    static const struct {
        const char *title, *list;
        void (*fill)(struct table *, const json_t *);
    } parts[] = {{"Checks", "checks", precision_show_checks},
                 {"Inputs", "inputs", precision_show_inputs},
                 {"Programs", "programs", precision_show_programs}};
    int rc = 0;
    for (size_t i = 0; i < doc_count(suite, "tables") && !rc; i++) {
        heading(out, doc_text(doc_item(suite, "tables", i), "title", ""));
        rc = filled(out, precision_show_table, doc_item(suite, "tables", i), err);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++) {
        if (!doc_count(suite, parts[i].list))
            continue;
        heading(out, parts[i].title);
        rc = filled(out, parts[i].fill, suite, err);
    }
    return rc;
}

static int suite_section(struct str *out, const json_t *suite, size_t index, struct error *err)
{
    char id[32];
    size_t failed = precision_show_failed(suite);
    struct str s;
    snprintf(id, sizeof id, "suite-%zu", index + 1);
    html_section(out, id, doc_text(suite, "name", ""), doc_text(suite, "help", ""));
    str_init(&s);
    precision_show_verdict(&s, suite);
    if (s.length)
        html_paragraph(out, failed ? "bad strong" : "good strong", str_text(&s));
    str_release(&s);
    for (size_t i = 0; i < doc_count(suite, "notes"); i++)
        html_paragraph(out, "note", doc_item_text(suite, "notes", i));
    figures(out, suite);
    int rc = sections(out, suite, err);
    if (!rc)
        rc = details(out, suite, err);
    html_section_end(out);
    return rc;
}

static void head(struct str *out, const json_t *result)
{
    html_begin(out, "assay precision");
    str_add(out, "<p class=\"kicker\">assay precision</p>\n<h1>");
    for (size_t i = 0; i < doc_count(result, "suites"); i++) {
        str_add(out, i ? ", " : "");
        html_text(out, doc_text(doc_item(result, "suites", i), "name", ""));
    }
    if (doc_text(result, "device.kind", NULL)) {
        str_add(out, " on ");
        html_text(out, doc_text(result, "device.kind", ""));
    }
    str_add(out, "</h1>\n");
}

int report_precision_html(struct str *out, const json_t *doc, const char *sha256, struct error *err)
{
    const json_t *result = precision_show_result(doc, err);
    if (!result)
        return ERR_INPUT;
    int rc = 0;
    head(out, result);
    str_add(out, "<nav>");
    for (size_t i = 0; i < doc_count(result, "suites"); i++) {
        str_addf(out, "<a href=\"#suite-%zu\">", i + 1);
        html_text(out, doc_text(doc_item(result, "suites", i), "name", ""));
        str_add(out, "</a>");
    }
    str_add(out, "<a href=\"#provenance\">Provenance</a></nav>\n");
    for (size_t i = 0; i < doc_count(result, "suites") && !rc; i++)
        rc = suite_section(out, doc_item(result, "suites", i), i, err);
    html_section(out, "provenance", "Provenance", NULL);
    rc = rc ? rc : filled(out, precision_show_facts, doc, err);
    html_section_end(out);
    str_add(out, "<footer>Rest the pointer on a number for its origin: <i class=\"tag\">D</i> derived by a formula, <i "
                 "class=\"tag\">M</i> from the device named above.");
    if (sha256)
        str_addf(out, " Page and figures: " REPORT_STALE_MARK "%.64s.", sha256);
    str_add(out, "</footer>\n");
    html_end(out);
    return rc ? rc : str_check(out, err);
}

// ---- figures as files

size_t report_precision_figures(const json_t *doc)
{
    size_t n = 0;
    for (size_t i = 0; i < doc_count(doc, "result.suites"); i++)
        n += doc_count(doc_item(doc, "result.suites", i), "figures");
    return n;
}

#define LINE_HEIGHT  15.0
#define LINE_COLUMNS 112 // of the caption, at the size of class "small"

// The caption in lines under the picture; returns the height they take.
static double caption(struct svg *s, const char *text, double y)
{
    size_t left = strlen(text), next;
    double top = y;
    while (left) {
        size_t n = text_line(text, left, LINE_COLUMNS, &next);
        struct str line;
        str_init(&line);
        str_add_n(&line, text, n);
        svg_text(s, 14, y + LINE_HEIGHT, SVG_START, "small soft", str_text(&line));
        str_release(&line);
        y += LINE_HEIGHT;
        text += next;
        left -= next;
    }
    return y - top;
}

static void write_file(struct str *out, const char *picture, double height, const json_t *figure, const char *sha256)
{
    struct str words, mark;
    str_init(&words);
    str_init(&mark);
    struct svg s = {&words, PRECISION_FIGURE_WIDTH, height, 0};
    double below = caption(&s, doc_text(figure, "caption", ""), height + 4);
    if (sha256) {
        str_addf(&mark, REPORT_STALE_MARK "%.64s", sha256);
        svg_text(&s, 14, height + below + 4 + LINE_HEIGHT, SVG_START, "small soft", str_text(&mark));
    }
    double total = height + below + LINE_HEIGHT + 16;
    str_addf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
             "<style>\n%ssvg{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",\"DejaVu Sans\","
             "sans-serif}\n.paper{fill:var(--paper)}\n</style>\n"
             "<rect class=\"paper\" width=\"%.0f\" height=\"%.0f\"/>\n",
             PRECISION_FIGURE_WIDTH, total, PRECISION_FIGURE_WIDTH, total, svg_style(), PRECISION_FIGURE_WIDTH, total);
    str_add(out, picture);
    str_add(out, str_text(&words));
    str_add(out, "</svg>\n");
    out->failed |= words.failed || mark.failed;
    str_release(&words);
    str_release(&mark);
}

int report_precision_figure(struct str *out, char name[64], const json_t *doc, size_t index, const char *sha256,
                            struct error *err)
{
    for (size_t i = 0; i < doc_count(doc, "result.suites"); i++) {
        const json_t *suite = doc_item(doc, "result.suites", i);
        size_t n = doc_count(suite, "figures");
        if (index >= n) {
            index -= n;
            continue;
        }
        const json_t *figure = doc_item(suite, "figures", index);
        struct str picture;
        str_init(&picture);
        double height = precision_figure_draw(&picture, suite, figure);
        snprintf(name, 64, "%.28s-%.28s", doc_text(suite, "name", ""), doc_text(figure, "name", ""));
        if (height > 0)
            write_file(out, str_text(&picture), height, figure, sha256);
        out->failed |= picture.failed;
        str_release(&picture);
        return str_check(out, err);
    }
    return error_set(err, ERR_INTERNAL, "figure", "there is no such figure");
}
