// SPDX-License-Identifier: Apache-2.0
// Paragraphs and headings of a report on a terminal.
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

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

#endif
