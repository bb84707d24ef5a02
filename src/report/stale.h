// SPDX-License-Identifier: Apache-2.0
// Is what was drawn still what the record says? Pages and pictures of a record carry the hash of the report.json that
// they were drawn from.
#ifndef REPORT_STALE_H
#define REPORT_STALE_H

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

// Stands before the 64 digits, in a visible text of the page or picture.
#define REPORT_STALE_MARK "drawn from report.json, sha256 "

// Looks at report.html and figures/*.svg of the record `dir`. Appends to `out`, one per line, the names of those whose
// mark is not `sha256`, or whose mark is missing from a picture; *n is their number. What is not there is not stale.
// ERR_INPUT when one cannot be read.
int report_stale(struct str *out, size_t *n, const char *dir, const char *sha256, struct error *err);

#endif
