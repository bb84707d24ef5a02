// SPDX-License-Identifier: Apache-2.0
// Paragraphs, headings and tables of a report: on a terminal, in Markdown and in HTML.
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/str.h"
#include "report/table.h"

#define PAGE_BOLD "\x1b[1m"
#define PAGE_DIM  "\x1b[2m"
#define PAGE_GOOD "\x1b[32m"
#define PAGE_BAD  "\x1b[31m"
#define PAGE_WARN "\x1b[33m"

struct page {
    struct str *out;
    size_t width; // columns; 0: no limit
    bool color;
};

// A paragraph of raw text: escaped, wrapped, following lines indented by two more. `lead` (our own words) stands before
// it; `code` (PAGE_BOLD, may be NULL) is used only with colour.
void page_paragraph(const struct page *p, const char *code, const char *lead, const char *text);

// A table that `fill` makes of a part of the document, as wide as the page (TABLE_TEXT).
typedef void page_fill(struct table *t, const json_t *of);
int page_table(const struct page *p, page_fill *fill, const json_t *of, enum table_format format, struct error *err);

// A heading and a sentence of raw text, in TABLE_MARKDOWN or TABLE_HTML; `class` is the HTML's.
void page_title(struct str *out, enum table_format format, int level, const char *text);
void page_sentence(struct str *out, enum table_format format, const char *class, const char *text);

// A report as a whole: the part of a document that it shows, NULL with an error where that is of something else, and
// what stands under the title.
struct page_report {
    const char *title;
    const json_t *(*result_of)(const json_t *doc, struct error *err);
    int (*body)(struct str *out, const json_t *result, enum table_format format, struct error *err);
};
// The document as Markdown, appended; ERR_INPUT where it is not of that report.
int page_markdown(struct str *out, const struct page_report *r, const json_t *doc, struct error *err);
// The same as a self-contained page; at its end, with a hash, what it was drawn from (report/stale.h).
int page_html(struct str *out, const struct page_report *r, const json_t *doc, const char *sha256, struct error *err);

#endif
