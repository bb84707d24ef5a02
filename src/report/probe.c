// SPDX-License-Identifier: Apache-2.0
#include "report/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/doc.h"
#include "report/format.h"
#include "report/html.h"
#include "report/page.h"
#include "report/table.h"
#include "report/width.h"

static const struct {
    const char *key, *title;
} aspects[] = {{"operands", "operands"}, {"sums", "sums"},     {"order", "order"},    {"subnormals", "subnormals"},
               {"specials", "specials"}, {"result", "result"}, {"stable", "repeated"}};
enum {
    ASPECTS = sizeof aspects / sizeof aspects[0],
    SHARED = ASPECTS - 1,
    MOST_ROWS = 128
}; // `stable` is each row's own

static const json_t *result_of(const json_t *doc, struct error *err)
{
    const json_t *result = doc_at(doc, "result");
    if (!json_is_object(result) || !json_is_array(doc_at(result, "rows"))) {
        error_set(err, ERR_INPUT, "result.rows", "is not there: this is no probe's document");
        return NULL;
    }
    return result;
}

static size_t n_rows(const json_t *result)
{
    size_t n = doc_count(result, "rows");
    return n < MOST_ROWS ? n : MOST_ROWS;
}

static const json_t *row_at(const json_t *result, size_t i)
{
    return doc_item(result, "rows", i);
}

// ---- groups

// Two rows say the same of the same type: then the later one is told in the heading of the first.
static bool same_words(const json_t *x, const json_t *y)
{
    char path[64];
    const char *a = doc_text(x, "path", ""), *b = doc_text(y, "path", "");
    size_t n = strcspn(a, ":");
    if (strcmp(a, b) == 0 && strcmp(doc_text(x, "status", ""), "refused") == 0 &&
        strcmp(doc_text(y, "status", ""), "refused") == 0)
        return true; // messages name the shape
    bool same = strcspn(b, ":") == n && strncmp(a, b, n) == 0 &&
                strcmp(doc_text(x, "status", ""), doc_text(y, "status", "")) == 0 &&
                strcmp(doc_text(x, "verdict", ""), doc_text(y, "verdict", "")) == 0;
    for (size_t i = 0; i < SHARED && same; i++) {
        snprintf(path, sizeof path, "words.%s", aspects[i].key);
        same = strcmp(doc_text(x, path, ""), doc_text(y, path, "")) == 0;
    }
    return same;
}

static bool told_before(const json_t *result, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (same_words(row_at(result, k), row_at(result, i)))
            return true;
    }
    return false;
}

static void add_shape(struct str *out, const json_t *row)
{
    str_addf(out, "%.0fx%.0fx%.0f", doc_number(row, "m"), doc_number(row, "k"), doc_number(row, "n"));
}

// "f32 at DEFAULT (128x256x128, 1x256x128), f32 at HIGH (128x256x128)": row i and those that say the same.
static void heading(struct str *out, const json_t *result, size_t i)
{
    const char *last = NULL;
    for (size_t k = i; k < n_rows(result); k++) {
        const json_t *row = row_at(result, k);
        const char *name = doc_text(row, "name", "?");
        if (k != i && !same_words(row_at(result, i), row))
            continue;
        bool again = last && strcmp(last, name) == 0;
        if (again)
            str_add(out, ", ");
        else
            str_addf(out, "%s%s (", last ? "), " : "", name);
        add_shape(out, row);
        last = name;
    }
    str_add(out, last ? ")" : "");
}

// Whether results depend on time and place: of row i, or of the last of those that say the same, which was also asked
// row by row.
static const char *stability(const json_t *result, size_t i)
{
    const char *text = "";
    for (size_t k = i; k < n_rows(result); k++) {
        if (k == i || same_words(row_at(result, i), row_at(result, k))) {
            const char *other = doc_text(row_at(result, k), "words.stable", "");
            text = strlen(other) > strlen(text) ? other : text;
        }
    }
    return text;
}

// "NVIDIA A100, bf16: 2 aspects differ: ...", or that everything agrees. Empty where nothing was compared.
static void nearest(struct str *out, const json_t *row)
{
    const json_t *m = doc_item(row, "nearest", 0);
    if (!json_is_object(m))
        return;
    double differs = doc_number(m, "differs"), tried = doc_number(m, "tried"), same = doc_number(m, "same");
    str_add(out, doc_text(m, "device", "?"));
    if (differs == 0)
        str_add(out, ": nothing that is known of it differs");
    else
        str_addf(out, ": %s", doc_text(m, "differences", ""));
    if (tried > 0)
        str_addf(out, "; its model gives %.0f of %.0f random dots", same, tried);
    else
        str_add(out, "; the order of its sums is not published");
}

static void confirmed(struct str *out, const json_t *row)
{
    double dots = doc_number(row, "confirmation.dots"), same = doc_number(row, "confirmation.same");
    double worst = doc_number(row, "confirmation.worst_ulps");
    const char *model = doc_text(row, "confirmation.model", NULL);
    if (!(dots > 0))
        return;
    str_addf(out, "%.0f of %.0f random dots", same, dots);
    if (model)
        str_addf(out, " by the model %s", model);
    double probes = doc_number(row, "confirmation.probes"), given = doc_number(row, "confirmation.probes_same");
    str_addf(out, ", and %.0f of %.0f probes", given, probes);
    if (given < probes)
        str_addf(out, " (not: %s)", doc_text(row, "confirmation.unexplained", "?"));
    if (same < dots && isfinite(worst))
        str_addf(out, "; the other dots are off by up to %.3g units in the last place", worst);
}

static void device_line(struct str *out, const json_t *result)
{
    const char *simulated = doc_text(result, "device.simulated", NULL);
    if (simulated) {
        str_addf(out, "the software model %s in place of a device", simulated);
        return;
    }
    str_addf(out, "%s: %s", doc_text(result, "device.requested", "?"), doc_text(result, "device.kind", "?"));
    str_addf(out, ", PJRT %.0f.%.0f", doc_number(result, "device.api_major"), doc_number(result, "device.api_minor"));
}

// ---- text

// A label of our own and a wrapped text beside it.
static void labelled(const struct page *p, const char *label, const char *text)
{
    enum { LABEL = 13, NARROW = 40 };
    struct str s;
    char lead[64];
    if (!*text)
        return;
    if (p->width && p->width < NARROW) {
        snprintf(lead, sizeof lead, "  %s: ", label);
        page_paragraph(p, NULL, lead, text);
        return;
    }
    str_init(&s);
    str_add_terminal(&s, text, strlen(text));
    const char *at = str_text(&s);
    size_t left = strlen(at), next, room = p->width ? p->width - LABEL : left;
    for (bool first = true; left; first = false) {
        size_t n = text_line(at, left, room, &next);
        str_addf(p->out, "%s  %-*s%s", p->color ? PAGE_DIM : "", LABEL - 2, first ? label : "",
                 p->color ? "\x1b[0m" : "");
        str_add_n(p->out, at, n);
        str_add_char(p->out, '\n');
        at += next;
        left -= next;
    }
    p->out->failed |= s.failed;
    str_release(&s);
}

static void claim_line(struct str *s, const json_t *result)
{
    const char *answer = doc_text(result, "claim.answer", "?");
    bool yes = strcmp(answer, "yes") == 0, no = strcmp(answer, "no") == 0;
    str_addf(s, "%s %s: %s", doc_text(result, "claim.path", "?"),
             yes  ? "holds"
             : no ? "does not hold"
                  : "cannot be told",
             doc_text(result, "claim.why", ""));
}

static void text_row(const struct page *p, const json_t *result, size_t i)
{
    const json_t *row = row_at(result, i);
    bool done = strcmp(doc_text(row, "status", ""), "done") == 0;
    char path[64];
    struct str s;
    str_init(&s);
    str_add_char(p->out, '\n');
    heading(&s, result, i);
    page_paragraph(p, PAGE_BOLD, "", str_text(&s));
    labelled(p, done ? "in short" : "no answer", doc_text(row, "verdict", ""));
    for (size_t k = 0; k < ASPECTS; k++) {
        snprintf(path, sizeof path, "words.%s", aspects[k].key);
        labelled(p, aspects[k].title, k == SHARED ? stability(result, i) : doc_text(row, path, ""));
    }
    if (doc_text(row, "confirmation.model", NULL)) {
        str_clear(&s);
        confirmed(&s, row);
        labelled(p, "confirmed", str_text(&s));
    }
    str_clear(&s);
    nearest(&s, row);
    labelled(p, "nearest", str_text(&s));
    labelled(p, "tree", doc_text(row, "tree", ""));
    p->out->failed |= s.failed;
    str_release(&s);
}

static void fill_elements(struct table *t, const json_t *result)
{
    table_column(t, "elements", NULL, TABLE_LEFT, 0);
    table_column(t, "answer", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < doc_count(result, "elements"); i++) {
        const json_t *e = doc_item(result, "elements", i);
        table_row(t);
        table_cell(t, doc_text(e, "question", "?"));
        if (doc_text(e, "refused", NULL))
            table_cellf(t, "refused: %s", doc_text(e, "refused", ""));
        else
            table_cell(t, doc_text(e, "answer", ""));
    }
}

int report_probe_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err)
{
    const json_t *result = result_of(doc, err);
    if (!result)
        return ERR_INPUT;
    struct page p = {out, width, color};
    struct str s;
    str_init(&s);
    device_line(&s, result);
    page_paragraph(&p, PAGE_BOLD, "", str_text(&s));
    if (json_is_object(doc_at(result, "claim"))) {
        str_clear(&s);
        claim_line(&s, result);
        bool yes = strcmp(doc_text(result, "claim.answer", ""), "yes") == 0;
        page_paragraph(&p, yes ? PAGE_GOOD : PAGE_BAD, "", str_text(&s));
    }
    for (size_t i = 0; i < n_rows(result); i++) {
        if (!told_before(result, i))
            text_row(&p, result, i);
    }
    if (doc_count(result, "elements")) {
        str_add_char(out, '\n');
        page_paragraph(&p, PAGE_BOLD, "", "single elements");
    }
    for (size_t i = 0; i < doc_count(result, "elements"); i++) {
        const json_t *e = doc_item(result, "elements", i);
        const char *refused = doc_text(e, "refused", NULL);
        str_clear(&s);
        str_addf(&s, "%s: %s%s", doc_text(e, "question", "?"), refused ? "refused: " : "",
                 refused ? refused : doc_text(e, "answer", ""));
        page_paragraph(&p, NULL, "  ", str_text(&s));
    }
    int rc = str_check(&s, err);
    str_release(&s);
    return rc ? rc : str_check(out, err);
}

// ---- tables, for Markdown and HTML

static void fill_summary(struct table *t, const json_t *result)
{
    table_column(t, "path", NULL, TABLE_LEFT, 0);
    table_column(t, "finding", NULL, TABLE_LEFT, 0);
    table_column(t, "reproduced", NULL, TABLE_RIGHT, 0);
    table_origin(t, 'M');
    for (size_t i = 0; i < n_rows(result); i++) {
        const json_t *row = row_at(result, i);
        struct str s;
        str_init(&s);
        str_addf(&s, "%s, ", doc_text(row, "name", "?"));
        add_shape(&s, row);
        table_row(t);
        table_cell(t, str_text(&s));
        table_cell(t, doc_text(row, "verdict", ""));
        if (strcmp(doc_text(row, "status", ""), "done") != 0)
            table_style(t, TABLE_WARN);
        double dots = doc_number(row, "confirmation.dots"), same = doc_number(row, "confirmation.same");
        if (dots > 0)
            table_cellf(t, "%.0f / %.0f", same, dots);
        else
            table_null(t, NULL);
        str_release(&s);
    }
}

static void fill_row(struct table *t, const json_t *row)
{
    char path[64];
    struct str s;
    str_init(&s);
    table_column(t, "aspect", NULL, TABLE_LEFT, 0);
    table_column(t, "finding", NULL, TABLE_LEFT, 0);
    for (size_t k = 0; k < ASPECTS; k++) {
        snprintf(path, sizeof path, "words.%s", aspects[k].key);
        if (!*doc_text(row, path, ""))
            continue;
        table_row(t);
        table_cell(t, aspects[k].title);
        table_cell(t, doc_text(row, path, ""));
    }
    confirmed(&s, row);
    table_row(t);
    table_cell(t, "confirmed");
    table_cell(t, str_text(&s));
    for (size_t i = 0; i < doc_count(row, "nearest"); i++) {
        const json_t *m = doc_item(row, "nearest", i);
        table_row(t);
        table_cell(t, i ? "" : "known devices");
        table_cellf(t, "%s: %s%s (%s)", doc_text(m, "device", "?"),
                    doc_number(m, "differs") == 0 ? "nothing that is known of it differs"
                                                  : doc_text(m, "differences", ""),
                    "", doc_text(m, "source", "?"));
    }
    if (*doc_text(row, "tree", "")) {
        table_row(t);
        table_cell(t, "tree");
        table_cell(t, doc_text(row, "tree", ""));
    }
    str_release(&s);
}

static int body(struct str *out, const json_t *result, enum table_format format, struct error *err)
{
    struct str s;
    str_init(&s);
    device_line(&s, result);
    page_sentence(out, format, "about", str_text(&s));
    if (json_is_object(doc_at(result, "claim"))) {
        str_clear(&s);
        claim_line(&s, result);
        bool yes = strcmp(doc_text(result, "claim.answer", ""), "yes") == 0;
        if (format == TABLE_HTML)
            str_addf(out, "<div class=\"decision%s\">\n", yes ? "" : " no");
        page_title(out, format, 2, str_text(&s));
        if (format == TABLE_HTML)
            str_add(out, "</div>\n");
    }
    page_sentence(
        out, format, "about",
        "Every finding is read from products whose results tell it, put together as a software model, and that "
        "model compared with random products of the device, bit for bit.");
    int rc = page_table(&(struct page){.out = out}, fill_summary, result, format, err);
    for (size_t i = 0; i < n_rows(result) && !rc; i++) {
        const json_t *row = row_at(result, i);
        if (told_before(result, i) || !json_is_object(doc_at(row, "fingerprint")))
            continue;
        str_clear(&s);
        heading(&s, result, i);
        str_add(out, format == TABLE_HTML ? "<section>\n" : "");
        page_title(out, format, 2, str_text(&s));
        page_sentence(out, format, "", doc_text(row, "verdict", ""));
        rc = page_table(&(struct page){.out = out}, fill_row, row, format, err);
        str_add(out, format == TABLE_HTML ? "</section>\n" : "");
    }
    if (!rc && doc_count(result, "elements")) {
        str_add(out, format == TABLE_HTML ? "<section>\n" : "");
        page_title(out, format, 2, "Single elements");
        rc = page_table(&(struct page){.out = out}, fill_elements, result, format, err);
        str_add(out, format == TABLE_HTML ? "</section>\n" : "");
    }
    rc = rc ? rc : str_check(&s, err);
    str_release(&s);
    return rc;
}

int report_probe_markdown(struct str *out, const json_t *doc, struct error *err)
{
    const json_t *result = result_of(doc, err);
    if (!result)
        return ERR_INPUT;
    str_add(out, "# assay probe\n\n");
    int rc = body(out, result, TABLE_MARKDOWN, err);
    return rc ? rc : str_check(out, err);
}

// There is no figure to go stale, so the page carries no hash.
int report_probe_html(struct str *out, const json_t *doc, const char *sha256, struct error *err)
{
    (void)sha256;
    const json_t *result = result_of(doc, err);
    if (!result)
        return ERR_INPUT;
    html_begin(out, "assay probe");
    html_paragraph(out, "kicker", "assay probe");
    str_add(out, "<h1>What the arithmetic really is</h1>\n");
    int rc = body(out, result, TABLE_HTML, err);
    html_end(out);
    return rc ? rc : str_check(out, err);
}
