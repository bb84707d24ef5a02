// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_WRAP_H
#define CLI_WRAP_H

#include "base/str.h"

// Appends the words of `text` in lines of at most `width` columns, each after `indent` spaces, and a newline. `column`
// is where the line that has been begun stands (0: none), so that text can follow a title. A word that is longer than a
// line is not cut. Single spaces part words.
void wrap_text(struct str *out, const char *text, int indent, int column, int width);

#endif
