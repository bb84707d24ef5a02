// SPDX-License-Identifier: Apache-2.0
#include "report/width.h"

#include <stdbool.h>

#include "base/str.h"

struct range {
    uint32_t first, last;
};

// Blocks, not single characters: the tables of Unicode are finer, but a table's edge moves only where a name uses a
// character that terminals themselves disagree about.
static const struct range zero[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd},   {0x05bf, 0x05bf},   {0x05c1, 0x05c2},   {0x05c4, 0x05c5},
    {0x0610, 0x061a}, {0x064b, 0x065f}, {0x0670, 0x0670},   {0x06d6, 0x06dc},   {0x06df, 0x06e4},   {0x06e7, 0x06e8},
    {0x06ea, 0x06ed}, {0x0711, 0x0711}, {0x0730, 0x074a},   {0x07a6, 0x07b0},   {0x0816, 0x082d},   {0x0900, 0x0902},
    {0x093a, 0x093a}, {0x093c, 0x093c}, {0x0941, 0x0948},   {0x094d, 0x094d},   {0x0951, 0x0957},   {0x0962, 0x0963},
    {0x0981, 0x0981}, {0x09bc, 0x09bc}, {0x09cd, 0x09cd},   {0x0e31, 0x0e31},   {0x0e34, 0x0e3a},   {0x0e47, 0x0e4e},
    {0x0eb1, 0x0eb1}, {0x0eb4, 0x0ebc}, {0x1160, 0x11ff},   {0x1ab0, 0x1aff},   {0x1dc0, 0x1dff},   {0x200b, 0x200f},
    {0x202a, 0x202e}, {0x2060, 0x206f}, {0x20d0, 0x20f0},   {0x302a, 0x302d},   {0x3099, 0x309a},   {0xfe00, 0xfe0f},
    {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0x1d167, 0x1d169}, {0x1f3fb, 0x1f3ff}, {0xe0000, 0xe01ef},
};

static const struct range wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x25fd, 0x25fe},
    {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26aa, 0x26ab},   {0x2705, 0x2705},   {0x274c, 0x274c},
    {0x2753, 0x2755},   {0x2795, 0x2797},   {0x2b1b, 0x2b1c},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
    {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18cff},
    {0x1b000, 0x1b2ff}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff},
    {0x20000, 0x3fffd},
};

static bool in_ranges(const struct range *r, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c > r[mid].last)
            low = mid + 1;
        else if (c < r[mid].first)
            high = mid;
        else
            return true;
    }
    return false;
}

int code_point_width(uint32_t c)
{
    if (c < 0x300)
        return 1;
    if (in_ranges(zero, sizeof zero / sizeof *zero, c))
        return 0;
    return in_ranges(wide, sizeof wide / sizeof *wide, c) ? 2 : 1;
}

size_t text_prefix(const char *s, size_t n, size_t columns)
{
    size_t at = 0, used = 0;
    while (at < n) {
        uint32_t c = '?';
        size_t k = utf8_decode(s + at, n - at, &c);
        size_t w = (size_t)code_point_width(c);
        if (used + w > columns)
            break;
        used += w;
        at += k ? k : 1;
    }
    return at;
}

size_t text_width(const char *s, size_t n)
{
    size_t used = 0;
    for (size_t at = 0; at < n;) {
        uint32_t c = '?';
        size_t k = utf8_decode(s + at, n - at, &c);
        used += (size_t)code_point_width(c);
        at += k ? k : 1;
    }
    return used;
}

size_t text_line(const char *s, size_t n, size_t columns, size_t *next)
{
    size_t fits = text_prefix(s, n, columns), end = fits;
    if (fits == n) {
        *next = n;
        return n;
    }
    if (fits == 0) { // a wide character in a single column: progress all the same
        uint32_t c;
        size_t k = utf8_decode(s, n, &c);
        end = k ? k : 1;
    } else if (s[fits] != ' ') {
        while (end > 0 && s[end - 1] != ' ')
            end--;
        if (end == 0)
            end = fits;
    }
    *next = end;
    while (*next < n && s[*next] == ' ')
        (*next)++;
    while (end > 0 && s[end - 1] == ' ')
        end--;
    return end;
}
