// SPDX-License-Identifier: Apache-2.0
#include "ir/buffers.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/str.h"

const char *buffer_kind_name(enum buffer_kind kind)
{
    static const char *const names[BUFFER_KINDS] = {"argument", "output", "temporary", "constant", "other"};
    return names[kind];
}

// What follows `mark` in the line, or nothing.
static struct slice after(struct slice line, const char *mark)
{
    size_t n = strlen(mark);
    const uint8_t *at = line.size ? memmem(line.data, line.size, mark, n) : NULL;
    return at ? (struct slice){at + n, line.size - (size_t)(at + n - line.data)} : (struct slice){0};
}

static bool has(struct slice line, const char *mark)
{
    return after(line, mark).data != NULL;
}

// The number at the beginning; -1 for none, or one beyond int64.
static int64_t number(struct slice s)
{
    int64_t v = 0;
    size_t i = 0;
    for (; i < s.size && isdigit(s.data[i]); i++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.data[i] - '0', &v))
            return -1;
    }
    return i ? v : -1;
}

static enum buffer_kind kind_of(struct slice line)
{
    if (has(line, ", parameter "))
        return BUFFER_ARGUMENT;
    if (has(line, ", constant"))
        return BUFFER_CONSTANT;
    if (has(line, "maybe-live-out") || has(line, ", output shape"))
        return BUFFER_OUTPUT;
    return has(line, "temp") ? BUFFER_TEMPORARY : BUFFER_OTHER;
}

static void read_allocation(struct buffers *b, struct slice line)
{
    int64_t bytes = number(after(line, "size ")), space = number(after(line, "color "));
    if (bytes < 0)
        return;
    b->allocations[b->n_allocations++] = (struct buffer_allocation){.bytes = bytes,
                                                                    .space = space < 0 ? 0 : space,
                                                                    .parameter = number(after(line, ", parameter ")),
                                                                    .kind = kind_of(line)};
}

// " value: <12 copy-start{0} @1> (size=33554432,offset=0): bf16[4096,4096]{...}"
static void read_value(struct buffers *b, struct slice line)
{
    struct slice name = after(line, "value: <"), shape = after(line, "): ");
    const uint8_t *space = name.size ? memchr(name.data, ' ', name.size) : NULL;
    if (!space || !b->n_allocations)
        return;
    name = (struct slice){space + 1, name.size - (size_t)(space + 1 - name.data)};
    const uint8_t *stop = name.size ? memmem(name.data, name.size, " @", 2) : NULL;
    int64_t bytes = number(after(line, "(size="));
    if (!stop || bytes < 0)
        return;
    name.size = (size_t)(stop - name.data);
    b->values[b->n_values++] = (struct buffer_value){name, shape, bytes, b->n_allocations - 1};
}

int buffers_read(struct buffers *b, struct slice text, struct arena *arena, struct error *err)
{
    *b = (struct buffers){0};
    const uint8_t *end = text.size ? text.data + text.size : NULL;
    size_t lines = 1;
    for (const uint8_t *at = text.data; at < end; at++)
        lines += *at == '\n';
    b->allocations = arena_new(arena, struct buffer_allocation, lines, err);
    b->values = arena_new(arena, struct buffer_value, lines, err);
    if (!b->allocations || !b->values)
        return ERR_MEMORY;
    for (const uint8_t *line = text.data; line < end;) {
        const uint8_t *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        struct slice s = {line, (size_t)(stop - line)};
        if (slice_starts_with(s, "allocation "))
            read_allocation(b, s);
        else if (slice_starts_with(s, " value: <"))
            read_value(b, s);
        line = stop + 1;
    }
    return 0;
}

int64_t buffers_bytes(const struct buffers *b, int64_t space, enum buffer_kind kind)
{
    int64_t sum = 0;
    for (size_t i = 0; i < b->n_allocations; i++) {
        const struct buffer_allocation *a = &b->allocations[i];
        if (a->space == space && a->kind == kind && __builtin_add_overflow(sum, a->bytes, &sum))
            return INT64_MAX;
    }
    return sum;
}

struct slice buffer_value_instruction(const struct buffer_value *v)
{
    const uint8_t *brace = v->name.size ? memchr(v->name.data, '{', v->name.size) : NULL;
    return (struct slice){v->name.data, brace ? (size_t)(brace - v->name.data) : v->name.size};
}

// "(96.00G)" at the beginning of s, without the brackets.
static bool bracketed(struct slice s, struct slice *out)
{
    const uint8_t *open = s.size ? memchr(s.data, '(', s.size) : NULL;
    const uint8_t *close = open ? memchr(open, ')', s.size - (size_t)(open - s.data)) : NULL;
    if (!close || close - open < 2)
        return false;
    *out = (struct slice){open + 1, (size_t)(close - open - 1)};
    return true;
}

bool out_of_memory_read(struct out_of_memory *out, struct slice message)
{
    *out = (struct out_of_memory){0};
    struct slice what = after(message, "Ran out of memory "), needed = after(what, "required"),
                 available = after(needed, "exceeds available ");
    const uint8_t *space = available.size ? memchr(available.data, ' ', available.size) : NULL;
    if (!space || !bracketed(needed, &out->needed) || !bracketed(available, &out->available))
        return false;
    out->memory = (struct slice){available.data, (size_t)(space - available.data)};
    return true;
}

double out_of_memory_bytes(struct slice figure)
{
    char text[32];
    double v, scale = 1;
    if (!figure.size || figure.size >= sizeof text)
        return NAN;
    memcpy(text, figure.data, figure.size);
    text[figure.size] = '\0';
    const char *units = "KMGT", *unit = strchr(units, text[figure.size - 1]);
    if (unit) {
        text[figure.size - 1] = '\0';
        scale = ldexp(1, 10 * (int)(unit - units + 1));
    }
    return parse_double(text, &v) && v >= 0 ? v * scale : NAN;
}
