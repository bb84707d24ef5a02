// SPDX-License-Identifier: Apache-2.0
#include "report/qualify_why.h"

#include <math.h>
#include <string.h>

#include "report/doc.h"
#include "report/format.h"
#include "report/html.h"
#include "report/qualify_tables.h"

static const json_t *why_of(const json_t *result, size_t i)
{
    const json_t *why = doc_at(qualify_policy(result, i), "why_not_faster");
    return json_is_object(why) ? why : NULL;
}

bool qualify_why_any(const json_t *result)
{
    for (size_t i = 0; i < qualify_policies(result); i++) {
        if (why_of(result, i))
            return true;
    }
    return false;
}

static void add_figure(struct str *s, const json_t *why, const char *path)
{
    char text[FORMAT_MAX];
    format_quantity(text, doc_quantity(why, path));
    str_add(s, text);
}

// "w8a16 stores 22.9 MB where bf16 stores 45.1 MB, and takes 1.2 times as long (1.11 to 1.31)".
static void headline(struct str *s, const json_t *result, size_t i)
{
    const json_t *why = why_of(result, i);
    const char *against = doc_text(why, "against", "?");
    char text[FORMAT_MAX];
    str_addf(s, "%s stores ", qualify_policy_name(qualify_policy(result, i)));
    add_figure(s, why, "stored");
    str_addf(s, " where %s stores ", against);
    add_figure(s, why, "stored_against");
    format_number(text, doc_number(why, "ratio.value"), 3);
    str_addf(s, ", and takes %s times as long", text);
    if (isfinite(doc_number(why, "low.value"))) {
        format_number(text, doc_number(why, "low.value"), 3);
        str_addf(s, " (%s to ", text);
        format_number(text, doc_number(why, "high.value"), 3);
        str_addf(s, "%s)", text);
    }
    if (isfinite(doc_number(why, "moved.value"))) {
        str_add(s, "; its program moves ");
        add_figure(s, why, "moved");
        str_addf(s, " a call, that of %s ", against);
        add_figure(s, why, "moved_against");
    }
    if (json_is_true(doc_at(why, "loops_unknown")))
        str_add(s, ", where a loop that does not say how often it runs counts once");
    const char *unread = doc_text(why, "unread", NULL);
    if (unread)
        str_addf(s, ". Why is not known: %s; --trace shows what takes the time", unread);
    else if (!doc_count(why, "reasons"))
        str_add(s, ". Nothing in the program explains it: --trace shows what takes the time");
}

// "in clamp_convert_fusion.20 (layer.0.mlp.down) 12 times, ..."; nothing where no instruction is named.
static void places(struct str *s, const json_t *reason)
{
    size_t n = doc_count(reason, "where");
    double shown = 0;
    for (size_t k = 0; k < n; k++) {
        const json_t *where = doc_item(reason, "where", k);
        const char *scope = doc_text(where, "scope", "");
        str_addf(s, "%s%s", k ? ", " : "in ", doc_text(where, "instruction", "?"));
        if (*scope)
            str_addf(s, " (%s)", scope);
        double runs = doc_number(where, "runs.value");
        shown += runs > 1 ? runs : 1;
        if (runs > 1)
            str_addf(s, " %.0f times", runs);
    }
    if (doc_number(reason, "figures.weights.value") > shown ||
        doc_number(reason, "figures.activations.value") > shown ||
        doc_number(reason, "figures.conversions.value") > shown)
        str_add(s, " and others");
}

void qualify_why_text(const struct page *p, const json_t *result)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *why = why_of(result, i);
        if (!why)
            continue;
        str_clear(&s);
        headline(&s, result, i);
        page_paragraph(p, PAGE_BOLD, "why: ", str_text(&s));
        for (size_t k = 0; k < doc_count(why, "reasons"); k++) {
            const json_t *reason = doc_item(why, "reasons", k);
            page_paragraph(p, NULL, "  - ", doc_text(reason, "text", ""));
            str_clear(&s);
            places(&s, reason);
            if (s.length)
                page_paragraph(p, PAGE_DIM, "    ", str_text(&s));
            page_paragraph(p, PAGE_DIM, "    compare, changing ", doc_text(reason, "changes", ""));
            page_paragraph(p, NULL, "      ", doc_text(reason, "command", ""));
        }
    }
    p->out->failed |= s.failed;
    str_release(&s);
}

static void markdown(struct str *out, const char *text)
{
    str_add_markdown(out, text, strlen(text));
}

void qualify_why_markdown(struct str *out, const json_t *result)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *why = why_of(result, i);
        if (!why)
            continue;
        str_clear(&s);
        headline(&s, result, i);
        markdown(out, str_text(&s));
        str_add(out, ".\n\n");
        for (size_t k = 0; k < doc_count(why, "reasons"); k++) {
            const json_t *reason = doc_item(why, "reasons", k);
            str_add(out, "- **");
            markdown(out, doc_text(reason, "kind", ""));
            str_add(out, "**: ");
            markdown(out, doc_text(reason, "text", ""));
            str_clear(&s);
            places(&s, reason);
            if (s.length) {
                str_add(out, "; ");
                markdown(out, str_text(&s));
            }
            str_add(out, ".  \n  To compare, change ");
            markdown(out, doc_text(reason, "changes", ""));
            str_add(out, ":  \n  ");
            markdown(out, doc_text(reason, "command", ""));
            str_add(out, "\n");
        }
        str_add(out, "\n");
    }
    out->failed |= s.failed;
    str_release(&s);
}

void qualify_why_html(struct str *out, const json_t *result)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < qualify_policies(result); i++) {
        const json_t *why = why_of(result, i);
        if (!why)
            continue;
        str_clear(&s);
        headline(&s, result, i);
        str_add(&s, ".");
        html_paragraph(out, "strong", str_text(&s));
        str_add(out, "<ul class=\"why\">\n");
        for (size_t k = 0; k < doc_count(why, "reasons"); k++) {
            const json_t *reason = doc_item(why, "reasons", k);
            str_add(out, "<li><b>");
            html_text(out, doc_text(reason, "kind", ""));
            str_add(out, "</b>");
            html_paragraph(out, "what", doc_text(reason, "text", ""));
            str_clear(&s);
            places(&s, reason);
            if (s.length)
                html_paragraph(out, "dim", str_text(&s));
            str_add(out, "<p>To compare, change ");
            html_text(out, doc_text(reason, "changes", ""));
            str_add(out, ": <code>");
            html_text(out, doc_text(reason, "command", ""));
            str_add(out, "</code></p></li>\n");
        }
        str_add(out, "</ul>\n");
    }
    out->failed |= s.failed;
    str_release(&s);
}
