// SPDX-License-Identifier: Apache-2.0
// The precision document on a terminal, in Markdown, and as CSV.
#include <string.h>

#include "report/page.h"
#include "report/precision.h"
#include "report/precision_tables.h"

static int print(const struct page *p, struct table *t, enum table_format format, struct error *err)
{
    int rc = t->row_count || t->error.code ? table_print(t, p->out, format, p->width, p->color, err) : 0;
    table_release(t);
    return rc;
}

static int cases(const struct page *p, const json_t *suite, const char *section, enum table_format format,
                 struct error *err)
{
    struct table t;
    table_init(&t);
    precision_show_cases(&t, suite, section, format == TABLE_TEXT ? 0 : SHOW_POLICY | SHOW_SNR | SHOW_TEXTS);
    return print(p, &t, format, err);
}

static int filled(const struct page *p, void (*fill)(struct table *, const json_t *), const json_t *o,
                  enum table_format format, struct error *err)
{
    struct table t;
    table_init(&t);
    fill(&t, o);
    return print(p, &t, format, err);
}

// ---- terminal

// What a case has to say in words stands under the table: a column has no room for it.
static void text_facts(const struct page *p, const json_t *suite, const char *section)
{
    for (size_t i = 0; i < doc_count(suite, "cases"); i++) {
        const json_t *c = doc_item(suite, "cases", i);
        struct str words, lead;
        str_init(&words);
        str_init(&lead);
        if (precision_show_belongs(c, section))
            precision_show_texts(&words, c);
        if (words.length) {
            precision_show_title(&lead, c);
            str_addf(&lead, ": %s", str_text(&words));
            page_paragraph(p, PAGE_DIM, "", str_text(&lead));
        }
        p->out->failed |= words.failed || lead.failed;
        str_release(&words);
        str_release(&lead);
    }
}

static int text_sections(const struct page *p, const json_t *suite, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < precision_show_sections(suite) && !rc; i++) {
        const char *section = precision_show_section(suite, i), *against = precision_show_against(suite, section);
        struct str s;
        str_init(&s);
        str_addf(&s, "%s%s%s", section, against ? ": errors against " : "", against ? against : "");
        str_add_char(p->out, '\n');
        page_paragraph(p, PAGE_BOLD, "", str_text(&s));
        str_release(&s);
        rc = cases(p, suite, section, TABLE_TEXT, err);
        text_facts(p, suite, section);
    }
    return rc;
}

static int text_tables(const struct page *p, const json_t *suite, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < doc_count(suite, "tables") && !rc; i++) {
        const json_t *t = doc_item(suite, "tables", i);
        if (doc_count(t, "rows") > 40) { // a trajectory: the figure shows it
            struct str s;
            str_init(&s);
            str_addf(&s, "%s: %zu rows, in the report of the record", doc_text(t, "title", ""), doc_count(t, "rows"));
            str_add_char(p->out, '\n');
            page_paragraph(p, PAGE_DIM, "", str_text(&s));
            str_release(&s);
            continue;
        }
        str_add_char(p->out, '\n');
        page_paragraph(p, PAGE_BOLD, "", doc_text(t, "title", ""));
        rc = filled(p, precision_show_table, t, TABLE_TEXT, err);
    }
    return rc;
}

static int text_suite(const struct page *p, const json_t *suite, struct error *err)
{
    struct str s;
    str_init(&s);
    str_addf(&s, "%s: %s", doc_text(suite, "name", ""), doc_text(suite, "help", ""));
    page_paragraph(p, PAGE_BOLD, "", str_text(&s));
    int rc = text_sections(p, suite, err);
    if (!rc)
        rc = text_tables(p, suite, err);
    if (doc_count(suite, "notes"))
        str_add_char(p->out, '\n');
    for (size_t i = 0; i < doc_count(suite, "notes"); i++)
        page_paragraph(p, NULL, "- ", doc_item_text(suite, "notes", i));
    str_clear(&s);
    precision_show_verdict(&s, suite);
    if (!rc && s.length) {
        str_add_char(p->out, '\n');
        rc = filled(p, precision_show_checks, suite, TABLE_TEXT, err);
        page_paragraph(p, precision_show_failed(suite) ? PAGE_BOLD PAGE_BAD : PAGE_GOOD, "", str_text(&s));
    }
    str_release(&s);
    return rc;
}

static void device_line(struct str *s, const json_t *result)
{
    const char *kind = doc_text(result, "device.kind", NULL);
    if (!kind)
        str_add(s, "nothing ran on a device");
    else
        str_addf(s, "on %s, compiled without excess precision", kind);
}

int report_precision_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err)
{
    const json_t *result = precision_show_result(doc, err);
    if (!result)
        return ERR_INPUT;
    struct page p = {out, width, color};
    struct str s;
    int rc = 0;
    str_init(&s);
    device_line(&s, result);
    for (size_t i = 0; i < doc_count(result, "suites") && !rc; i++) {
        str_add(out, i ? "\n" : "");
        rc = text_suite(&p, doc_item(result, "suites", i), err);
    }
    str_add_char(out, '\n');
    page_paragraph(&p, PAGE_DIM, "", str_text(&s));
    if (doc_text(doc, "record", NULL))
        page_paragraph(&p, NULL, "record, with figures and programs: ", doc_text(doc, "record", ""));
    str_release(&s);
    return rc ? rc : str_check(out, err);
}

// ---- Markdown

static void markdown(struct str *out, const char *before, const char *text, const char *after)
{
    str_add(out, before);
    str_add_markdown(out, text, strlen(text));
    str_add(out, after);
}

static int markdown_suite(const struct page *p, const json_t *suite, struct error *err)
{
    struct str s;
    int rc = 0;
    str_init(&s);
    markdown(p->out, "\n## ", doc_text(suite, "name", ""), ": ");
    markdown(p->out, "", doc_text(suite, "help", ""), "\n");
    precision_show_verdict(&s, suite);
    if (s.length)
        markdown(p->out, "\n**", str_text(&s), "**\n");
    str_release(&s);
    for (size_t i = 0; i < precision_show_sections(suite) && !rc; i++) {
        const char *section = precision_show_section(suite, i), *against = precision_show_against(suite, section);
        markdown(p->out, "\n### ", section, "\n\n");
        if (against)
            markdown(p->out, "Errors against ", against, ".\n\n");
        rc = cases(p, suite, section, TABLE_MARKDOWN, err);
    }
    for (size_t i = 0; i < doc_count(suite, "tables") && !rc; i++) {
        markdown(p->out, "\n### ", doc_text(doc_item(suite, "tables", i), "title", ""), "\n\n");
        rc = filled(p, precision_show_table, doc_item(suite, "tables", i), TABLE_MARKDOWN, err);
    }
    for (size_t i = 0; i < doc_count(suite, "figures"); i++) {
        const json_t *f = doc_item(suite, "figures", i);
        markdown(p->out, "\n### ", doc_text(f, "title", ""), "\n\n");
        markdown(p->out, "", doc_text(f, "caption", ""), "\n\n");
        markdown(p->out, "![", doc_text(f, "title", ""), "](figures/");
        markdown(p->out, "", doc_text(suite, "name", ""), "-");
        markdown(p->out, "", doc_text(f, "name", ""), ".svg)\n");
    }
    str_add(p->out, doc_count(suite, "notes") ? "\n### Notes\n\n" : "");
    for (size_t i = 0; i < doc_count(suite, "notes"); i++)
        markdown(p->out, "- ", doc_item_text(suite, "notes", i), "\n");
    static const struct {
        const char *title, *list;
        void (*fill)(struct table *, const json_t *);
    } parts[] = {{"Checks", "checks", precision_show_checks},
                 {"Inputs", "inputs", precision_show_inputs},
                 {"Programs", "programs", precision_show_programs}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++) {
        if (!doc_count(suite, parts[i].list))
            continue;
        markdown(p->out, "\n### ", parts[i].title, "\n\n");
        rc = filled(p, parts[i].fill, suite, TABLE_MARKDOWN, err);
    }
    return rc;
}

int report_precision_markdown(struct str *out, const json_t *doc, struct error *err)
{
    const json_t *result = precision_show_result(doc, err);
    if (!result)
        return ERR_INPUT;
    struct page p = {out, 0, false};
    struct str s;
    int rc = 0;
    str_init(&s);
    str_add(out, "# assay precision\n\n");
    device_line(&s, result);
    markdown(out, "", str_text(&s), ".\n");
    str_release(&s);
    for (size_t i = 0; i < doc_count(result, "suites") && !rc; i++)
        rc = markdown_suite(&p, doc_item(result, "suites", i), err);
    str_add(out, "\n## Provenance\n\n");
    rc = rc ? rc : filled(&p, precision_show_facts, doc, TABLE_MARKDOWN, err);
    return rc ? rc : str_check(out, err);
}

int report_precision_csv(struct str *out, const json_t *doc, struct error *err)
{
    const json_t *result = precision_show_result(doc, err);
    if (!result)
        return ERR_INPUT;
    struct table t;
    table_init(&t);
    precision_show_flat(&t, result);
    int rc = table_print(&t, out, TABLE_CSV, 0, false, err); // with its header, whatever follows
    table_release(&t);
    return rc;
}
