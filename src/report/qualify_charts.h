// SPDX-License-Identifier: Apache-2.0
// The charts of a qualify document as inline SVG. Each appends one <svg>, or nothing when there is nothing to draw;
// false then.
#ifndef REPORT_QUALIFY_CHARTS_H
#define REPORT_QUALIFY_CHARTS_H

#include <stdbool.h>

#include "base/json.h"
#include "base/str.h"

// Relative L2 and 1 - lowest cosine per policy on a log axis, with the required bounds where --require names them.
bool qualify_chart_errors(struct str *out, const json_t *result);
// Stored bytes per policy, codes and scales stacked.
bool qualify_chart_bytes(struct str *out, const json_t *result);
// Every sample of every policy, quartile box, median with its interval.
bool qualify_chart_latency(struct str *out, const json_t *result);
// Top-1 agreement over all texts and over the first subsets (diamond, square, triangle), as many as there are shapes.
enum { QUALIFY_SUBSET_SHAPES = 3 };
bool qualify_chart_agreement(struct str *out, const json_t *result);
// Error against time: what a policy pays for what it gains.
bool qualify_chart_tradeoff(struct str *out, const json_t *result);
// Roofs of one chip by type, the first policy's modules numbered in their order, and what was measured if the chip is
// the device that ran.
bool qualify_chart_roofline(struct str *out, const json_t *result, const char *chip);

#endif
