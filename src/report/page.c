// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <string.h>

#include "report/html.h"
#include "report/stale.h"
#include "report/width.h"

void page_paragraph(const struct page *p, const char *code, const char *lead, const char *text)
{
    struct str s;
    str_init(&s);
    str_add(&s, lead);
    str_add_terminal(&s, text, strlen(text));
    const char *at = str_text(&s);
    size_t left = strlen(at), indent = 0, next;
    while (left) {
        size_t n = text_line(at, left, p->width ? p->width - indent : left, &next);
        for (size_t i = 0; i < indent && n; i++)
            str_add_char(p->out, ' ');
        str_add(p->out, p->color && code ? code : "");
        str_add_n(p->out, at, n);
        str_add(p->out, p->color && code ? "\x1b[0m\n" : "\n");
        at += next;
        left -= next;
        indent = p->width == 0 || p->width > 20 ? strspn(lead, " ") + 2 : 0;
    }
    p->out->failed |= s.failed;
    str_release(&s);
}

int page_table(const struct page *p, page_fill *fill, const json_t *of, enum table_format format, struct error *err)
{
    struct table t;
    table_init(&t);
    fill(&t, of);
    int rc = table_print(&t, p->out, format, p->width, p->color, err);
    table_release(&t);
    return rc;
}

void page_title(struct str *out, enum table_format format, int level, const char *text)
{
    if (format == TABLE_HTML) {
        str_addf(out, "<h%d>", level);
        html_text(out, text);
        str_addf(out, "</h%d>\n", level);
    } else {
        str_addf(out, "\n%.*s ", level, "######");
        str_add_markdown(out, text, strlen(text));
        str_add(out, "\n\n");
    }
}

void page_sentence(struct str *out, enum table_format format, const char *class, const char *text)
{
    if (format == TABLE_HTML) {
        html_paragraph(out, class, text);
    } else {
        str_add_markdown(out, text, strlen(text));
        str_add(out, "\n\n");
    }
}

int page_markdown(struct str *out, const struct page_report *r, const json_t *doc, struct error *err)
{
    const json_t *result = r->result_of(doc, err);
    if (!result)
        return ERR_INPUT;
    str_addf(out, "# %s\n\n", r->title);
    int rc = r->body(out, result, TABLE_MARKDOWN, err);
    return rc ? rc : str_check(out, err);
}

int page_html(struct str *out, const struct page_report *r, const json_t *doc, const char *sha256, struct error *err)
{
    const json_t *result = r->result_of(doc, err);
    if (!result)
        return ERR_INPUT;
    html_begin(out, r->title);
    str_addf(out, "<h1>%s</h1>\n", r->title);
    int rc = r->body(out, result, TABLE_HTML, err);
    if (sha256)
        str_addf(out, "<p class=\"about\">" REPORT_STALE_MARK "%.64s</p>\n", sha256);
    html_end(out);
    return rc ? rc : str_check(out, err);
}
