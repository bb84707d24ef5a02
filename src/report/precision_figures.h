// SPDX-License-Identifier: Apache-2.0
// The figures of a precision document. A figure holds no numbers of its own: it names quantities of cases and columns
// of tables of its suite, so what is drawn is what the document says.
#ifndef REPORT_PRECISION_FIGURES_H
#define REPORT_PRECISION_FIGURES_H

#include "base/json.h"
#include "base/str.h"

#define PRECISION_FIGURE_WIDTH 720.0

// Appends one <svg> of PRECISION_FIGURE_WIDTH with all panels of the figure and returns its height; 0, and nothing
// appended, when there is nothing to draw.
double precision_figure_draw(struct str *out, const json_t *suite, const json_t *figure);
// The number a series refers to ("measures/f64/rel_l2", "stored/codes", "clipped", "facts/NAME"); NAN when there is
// none.
double precision_figure_value(const json_t *suite, const char *case_name, const char *quantity);

#endif
