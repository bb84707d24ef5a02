// SPDX-License-Identifier: Apache-2.0
// How many terminal columns a text takes.
#ifndef REPORT_WIDTH_H
#define REPORT_WIDTH_H

#include <stddef.h>
#include <stdint.h>

// 0 for combining marks and other characters that take no place, 2 for wide East Asian ones and emoji, else 1.
int code_point_width(uint32_t c);
// Columns of n bytes of UTF-8; a byte that is not UTF-8 counts as one.
size_t text_width(const char *s, size_t n);
// Bytes of the longest prefix of s[0..n) that takes at most `columns`, never splitting a character from its marks.
size_t text_prefix(const char *s, size_t n, size_t columns);

// The next line of a text wrapped at spaces to `columns` (a longer word is split): returns its bytes without the space
// it ends in, and sets *next to where the following line starts. 0 only at the end of the text.
size_t text_line(const char *s, size_t n, size_t columns, size_t *next);

#endif
