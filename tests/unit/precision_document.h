// SPDX-License-Identifier: Apache-2.0
// A document of the precision lab with one of everything, filled without a device.
#ifndef TESTS_UNIT_PRECISION_DOCUMENT_H
#define TESTS_UNIT_PRECISION_DOCUMENT_H

#include "lab/precision.h"

// `name` stands wherever a suite may put a text: make it hostile. Ends in false when something could not be made. Call
// precision_close in any case.
bool precision_document_fill(struct precision *p, const struct precision_options *o, const char *name);
// The whole document with its envelope, as text.
bool precision_document_text(const struct precision *p, struct str *out);

#endif
