// SPDX-License-Identifier: Apache-2.0
#include "models/taps.h"

#include <stdarg.h>
#include <stdio.h>

int tap(struct builder *b, enum taps wanted, enum taps depth, int x, const char *fmt, ...)
{
    char name[64];
    va_list args;
    if (wanted < depth)
        return x;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    return build_result(b, name, x);
}
