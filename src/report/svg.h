// SPDX-License-Identifier: Apache-2.0
// Drawing SVG that stands inside an HTML page: shapes carry class names, colours come from the page's style sheet
// (svg_style), so that one drawing serves light, dark and paper. Every text is escaped. A coordinate that is not finite
// is a mistake of the caller: the shape is left out and `broken` counts it.
#ifndef REPORT_SVG_H
#define REPORT_SVG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct svg {
    struct str *out;
    double width, height; // user units; about one CSS pixel when the page is wide
    size_t broken;
};

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };
enum svg_shape { SVG_CIRCLE, SVG_DIAMOND, SVG_SQUARE, SVG_TRIANGLE };

// The rules for all classes used by svg_* and the charts: colours as custom properties with a dark variant.
const char *svg_style(void);

// `title` is the accessible name, `about` a sentence for those who cannot see the drawing.
void svg_begin(struct svg *s, struct str *out, double width, double height, const char *title, const char *about);
void svg_end(struct svg *s);
void svg_line(struct svg *s, double x1, double y1, double x2, double y2, const char *class);
void svg_rect(struct svg *s, double x, double y, double w, double h, const char *class);
void svg_text(struct svg *s, double x, double y, enum svg_anchor anchor, const char *class, const char *text);
// Turned by `degrees` around (x, y).
void svg_text_turned(struct svg *s, double x, double y, double degrees, enum svg_anchor anchor, const char *class,
                     const char *text);
// A mark of radius r; `tip` (may be NULL) is shown when the pointer rests on it.
void svg_mark(struct svg *s, enum svg_shape shape, double x, double y, double r, const char *class, const char *tip);
// Round dots of one class in a single path: cheap for thousands.
void svg_dots_begin(struct svg *s, const char *class);
void svg_dot(struct svg *s, double x, double y);
void svg_dots_end(struct svg *s);
// The text cut to about `width` user units at the size of class "label", with an ellipsis.
void svg_fit(struct str *out, const char *text, double width);

// A scale from values to user units.
struct axis {
    double low, high; // values; low < high, and low > 0 when log
    double from, to;  // user units; from > to for an axis that goes up
    bool log;
};
// Rounds the range outwards to whole ticks. Values that are not finite (or not positive on a log axis) must be left out
// by the caller; an empty or degenerate range is widened.
struct axis axis_linear(double low, double high, double from, double to);
struct axis axis_log(double low, double high, double from, double to);
// Position of a value, clamped to the axis; NAN stays NAN.
double axis_at(const struct axis *a, double value);
// Tick values, at most `max`; minor[i] (may be NULL) says that the tick is drawn without a label.
size_t axis_ticks(const struct axis *a, double *ticks, bool *minor, size_t max);

enum tick_style { TICK_PLAIN, TICK_POWER, TICK_SI }; // "250", "10⁻³", "2 G"
// Ticks, labels and grid lines from `top` to `bottom`; the title under the axis.
void svg_axis_x(struct svg *s, const struct axis *a, double top, double bottom, enum tick_style style,
                const char *title);
// Labels left of `left`, grid lines to `right`; the title stands above the axis.
void svg_axis_y(struct svg *s, const struct axis *a, double left, double right, enum tick_style style,
                const char *title);

#endif
