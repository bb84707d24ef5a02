// SPDX-License-Identifier: Apache-2.0
// The frame of a report page: one file, no script, nothing loaded from elsewhere (its content policy forbids it), light
// and dark by the reader's setting, fit for paper.
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include "base/str.h"
#include "report/table.h"

// <!DOCTYPE ...> to the opened <main>. `title` is raw text.
void html_begin(struct str *out, const char *title);
void html_end(struct str *out);
// Raw text, escaped.
void html_text(struct str *out, const char *text);
// <p class="...">raw text</p>
void html_paragraph(struct str *out, const char *class, const char *text);
// Opens a <section> with a heading; `about` is a sentence under it, or NULL. Both are ours, or raw text all the same.
void html_section(struct str *out, const char *id, const char *title, const char *about);
void html_section_end(struct str *out);
// Opens a <figure> with its title on top; `legend` is HTML of our own.
void html_figure(struct str *out, const char *class, const char *title, const char *legend);
void html_figure_end(struct str *out);

#endif
