// SPDX-License-Identifier: Apache-2.0
#include "cli/wrap.h"

#include <string.h>

#include "report/width.h"

void wrap_text(struct str *out, const char *text, int indent, int column, int width)
{
    bool empty = column <= indent;
    if (empty) {
        str_addf(out, "%*s", indent - column, "");
        column = indent;
    }
    while (*text) {
        size_t bytes = strcspn(text, " ");
        int n = (int)text_width(text, bytes);
        if (n && !empty && column + 1 + n > width) {
            str_addf(out, "\n%*s", indent, "");
            column = indent;
            empty = true;
        }
        if (n) {
            if (!empty)
                str_add_char(out, ' ');
            str_add_n(out, text, bytes);
            column += n + !empty;
            empty = false;
        }
        text += bytes + (text[bytes] == ' ');
    }
    str_add_char(out, '\n');
}
