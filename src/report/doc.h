// SPDX-License-Identifier: Apache-2.0
// Reading a result document for showing it. A document may come from a file, so every accessor takes any JSON (or NULL)
// and answers "not there" instead of failing. Texts are borrowed from the document and not escaped.
#ifndef REPORT_DOC_H
#define REPORT_DOC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/quantity.h"

// Follows keys separated by dots ("measured.request"); NULL when a step is missing or not an object.
const json_t *doc_at(const json_t *o, const char *path);
// The string at a path, or `absent`.
const char *doc_text(const json_t *o, const char *path, const char *absent);
// The number at a path, or NAN.
double doc_number(const json_t *o, const char *path);
// The quantity at a path. Where there is none: NAN with the source NULL.
struct quantity doc_quantity(const json_t *o, const char *path);
// Elements of the array at a path, 0 when it is none.
size_t doc_count(const json_t *o, const char *path);
const json_t *doc_item(const json_t *o, const char *path, size_t index);
const char *doc_item_text(const json_t *o, const char *path, size_t index);
// The finite samples of the array quantity at a path, in order; *out lives in the arena. Returns their number.
size_t doc_samples(const json_t *o, const char *path, struct arena *a, const double **out);
// Is `value` among the strings of the array at a path?
bool doc_has(const json_t *o, const char *path, const char *value);

// The first measured median of a time in a result: of its first subject, policy or case. False when it has none.
bool doc_median(const json_t *o, struct quantity *out);

#endif
