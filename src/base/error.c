// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <stdio.h>
#include <string.h>

int error_setv(struct error *err, int code, const char *where, const char *fmt, va_list ap)
{
    if (!err || err->code)
        return code;
    err->code = code;
    snprintf(err->where, sizeof err->where, "%s", where ? where : "");
    vsnprintf(err->message, sizeof err->message, fmt, ap);
    return code;
}

int(error_set)(struct error *err, int code, const char *where, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    error_setv(err, code, where, fmt, ap);
    va_end(ap);
    return code;
}

void error_context(struct error *err, const char *fmt, ...)
{
    if (!err || !err->code)
        return;
    char old[sizeof err->message];
    memcpy(old, err->message, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->message - 1)
        snprintf(err->message + n, sizeof err->message - (size_t)n, ": %.*s", (int)(sizeof old - (size_t)n - 3), old);
}

void error_clear(struct error *err)
{
    if (err)
        memset(err, 0, sizeof *err);
}

int error_exit_code(int code)
{
    switch (code) {
    case 0:
        return 0;
    case ERR_USAGE:
        return 2;
    case ERR_INPUT:
    case ERR_IO:
        return 3;
    case ERR_DEVICE:
    case ERR_MEMORY:
        return 4;
    case ERR_INTERRUPTED:
        return 130;
    default:
        return 5;
    }
}

const char *error_code_name(int code)
{
    switch (code) {
    case ERR_USAGE:
        return "usage";
    case ERR_INPUT:
        return "bad-input";
    case ERR_DEVICE:
        return "device";
    case ERR_MEMORY:
        return "out-of-memory";
    case ERR_IO:
        return "write-failed";
    case ERR_INTERRUPTED:
        return "interrupted";
    default:
        return "internal";
    }
}
