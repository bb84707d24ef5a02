// SPDX-License-Identifier: Apache-2.0
#include "record/name.h"

#include <stdbool.h>
#include <string.h>

enum name_kind name_kind(const char *leaf)
{
    const char *dot = strrchr(leaf, '.');
    if (!dot || dot == leaf)
        return NAME_RECORD;
    enum name_kind kind = strncmp(dot, ".partial-", 9) == 0  ? NAME_PARTIAL
                          : strncmp(dot, ".failed-", 8) == 0 ? NAME_FAILED
                                                             : NAME_RECORD;
    const char *digits = strchr(dot, '-');
    bool number = digits && digits[1] != '\0' && strspn(digits, "-0123456789") == strlen(digits);
    return number ? kind : NAME_RECORD;
}
