// SPDX-License-Identifier: Apache-2.0
// A timeline as one page that needs nothing else: script and style are in it, and its content policy lets it load
// nothing; and a window of one as a drawing.
#ifndef REPORT_TIMELINE_HTML_H
#define REPORT_TIMELINE_HTML_H

#include "base/str.h"
#include "trace/timeline_encode.h"

// timeline.css and timeline.js of this folder, as they are.
extern const char timeline_style[], timeline_script[];

int timeline_html(struct str *out, const struct timeline_encoded *e, const char *title, struct error *err);
// The window, its beginning zero. *left_out: rows that are beyond the drawing's 240.
int timeline_svg(struct str *out, const struct timeline *l, const char *title, size_t *left_out, struct error *err);

#endif
