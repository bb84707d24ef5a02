// SPDX-License-Identifier: Apache-2.0
// The decision report of a qualify document: six parts.
#include "report/qualify_decision.h"

#include <string.h>

#include "report/doc.h"

size_t qualify_parts(const json_t *result)
{
    return doc_count(result, "decision_report");
}

const json_t *qualify_part(const json_t *result, size_t i)
{
    return doc_item(result, "decision_report", i);
}

void qualify_part_title(struct str *out, const json_t *result, size_t i)
{
    str_addf(out, "%zu. %s", i + 1, doc_text(qualify_part(result, i), "part", "(no name)"));
}

void qualify_table_part(struct table *t, const json_t *part)
{
    table_column(t, "what it needs", NULL, TABLE_LEFT, 0);
    table_column(t, "what is known", NULL, TABLE_LEFT, 0);
    bool more = false;
    for (size_t i = 0; i < doc_count(part, "items"); i++)
        more |= doc_text(doc_item(part, "items", i), "find_out", NULL) != NULL;
    if (more)
        table_column(t, "what would tell, or tell more", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < doc_count(part, "items"); i++) {
        const json_t *item = doc_item(part, "items", i);
        const char *says = doc_text(item, "says", NULL);
        table_row(t);
        table_cell(t, doc_text(item, "item", ""));
        table_cell(t, says ? says : "not known");
        if (!says)
            table_style(t, TABLE_BAD);
        if (more)
            table_cell(t, doc_text(item, "find_out", ""));
    }
}

void qualify_parts_text(const struct page *p, const json_t *result)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < qualify_parts(result); i++) {
        const json_t *part = qualify_part(result, i);
        str_clear(&s);
        qualify_part_title(&s, result, i);
        page_paragraph(p, PAGE_BOLD, "", str_text(&s));
        for (size_t k = 0; k < doc_count(part, "items"); k++) {
            const json_t *item = doc_item(part, "items", k);
            const char *says = doc_text(item, "says", NULL), *find_out = doc_text(item, "find_out", NULL);
            str_clear(&s);
            str_addf(&s, "%s: %s", doc_text(item, "item", ""), says ? says : "not known");
            if (!says && find_out)
                str_addf(&s, "; to find out: %s", find_out);
            page_paragraph(p, says ? NULL : PAGE_WARN, "   ", str_text(&s));
        }
    }
    p->out->failed |= s.failed;
    str_release(&s);
}
