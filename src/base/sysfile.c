// SPDX-License-Identifier: Apache-2.0
#include "base/sysfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

static bool readv_text(const char *root, char *out, size_t capacity, const char *fmt, va_list ap)
{
    char path[4352];
    out[0] = '\0';
    int n = snprintf(path, sizeof path, "%s", strcmp(root, "/") == 0 ? "" : root);
    if (n < 0 || (size_t)n >= sizeof path)
        return false;
    int m = vsnprintf(path + n, sizeof path - (size_t)n, fmt, ap);
    if (m < 0 || (size_t)m >= sizeof path - (size_t)n)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t length = 0;
    ssize_t k;
    while (length < capacity - 1 && (k = read(fd, out + length, capacity - 1 - length)) != 0) {
        if (k > 0)
            length += (size_t)k;
        else if (errno != EINTR)
            break;
    }
    close(fd);
    while (length && is_space(out[length - 1]))
        length--;
    out[length] = '\0';
    return length > 0;
}

bool sysfile_read(const char *root, char *out, size_t capacity, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool ok = readv_text(root, out, capacity, fmt, ap);
    va_end(ap);
    return ok;
}

int64_t sysfile_int(const char *root, const char *fmt, ...)
{
    char text[32];
    int64_t v;
    va_list ap;
    va_start(ap, fmt);
    bool ok = readv_text(root, text, sizeof text, fmt, ap);
    va_end(ap);
    return ok && parse_i64(text, &v) ? v : -1;
}

void sysfile_append(const char *root, struct str *out, const char *path)
{
    struct str full;
    str_init(&full);
    str_addf(&full, "%s%s", strcmp(root, "/") == 0 ? "" : root, path);
    file_read(out, str_text(&full), 16 << 20, NULL);
    str_release(&full);
}

bool sysfile_field(const char *text, const char *key, char *out, size_t capacity)
{
    size_t key_length = strlen(key);
    out[0] = '\0';
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        if (strncmp(line, key, key_length) != 0)
            continue;
        const char *p = line + key_length;
        while (*p == ' ' || *p == '\t')
            p++;
        if (*p++ != ':')
            continue;
        while (*p == ' ' || *p == '\t')
            p++;
        size_t n = strcspn(p, "\n");
        while (n && is_space(p[n - 1]))
            n--;
        if (n >= capacity)
            n = capacity - 1;
        memcpy(out, p, n);
        out[n] = '\0';
        return n > 0;
    }
    return false;
}

// Reads one number of at most nine digits.
static bool number(const char **p, int64_t *out)
{
    int64_t v = 0;
    int digits = 0;
    for (; **p >= '0' && **p <= '9' && digits < 9; (*p)++, digits++)
        v = v * 10 + (**p - '0');
    *out = v;
    return digits > 0;
}

// The next range of the list.
static bool range(const char **p, int64_t *low, int64_t *high)
{
    if (!number(p, low))
        return false;
    *high = *low;
    if (**p == '-') {
        ++*p;
        if (!number(p, high) || *high < *low)
            return false;
    }
    if (**p != ',' && **p != '\0')
        return false;
    *p += **p == ',';
    return true;
}

bool cpulist_has(const char *list, int64_t cpu)
{
    int64_t low, high;
    while (range(&list, &low, &high)) {
        if (cpu >= low && cpu <= high)
            return true;
    }
    return false;
}

int64_t cpulist_count(const char *list)
{
    int64_t low, high, n = 0;
    while (range(&list, &low, &high))
        n += high - low + 1;
    return n;
}

int64_t cpulist_next(const char *list, int64_t after)
{
    int64_t low, high;
    while (range(&list, &low, &high)) {
        if (after < high)
            return after < low ? low : after + 1;
    }
    return -1;
}
