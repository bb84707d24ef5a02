// SPDX-License-Identifier: Apache-2.0
#include "ir/llo.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// ---- Bundles

// A bundle's line begins with its address in the body: "     0   :  {", "0x1a2f LB: > {".
static bool is_bundle(const uint8_t *line, const uint8_t *end)
{
    while (line < end && *line == ' ')
        line++;
    const uint8_t *digits = line;
    if (end - line > 2 && line[0] == '0' && line[1] == 'x')
        digits = line += 2;
    while (line < end && isxdigit(*line))
        line++;
    if (line == digits)
        return false;
    const uint8_t *colon = memchr(line, ':', (size_t)(end - line) < 16 ? (size_t)(end - line) : 16);
    return colon && memchr(colon, '{', (size_t)(end - colon) < 16 ? (size_t)(end - colon) : 16);
}

static struct llo_matrix *matrix_of(struct llo_bundles *b, const char format[LLO_FORMAT], const char unit[LLO_FORMAT])
{
    for (int i = 0; i < b->n_matrix; i++) {
        if (strcmp(b->matrix[i].format, format) == 0 && strcmp(b->matrix[i].unit, unit) == 0)
            return &b->matrix[i];
    }
    if (b->n_matrix == LLO_MAX_FORMATS)
        return NULL;
    struct llo_matrix *m = &b->matrix[b->n_matrix++];
    memcpy(m->format, format, LLO_FORMAT);
    memcpy(m->unit, unit, LLO_FORMAT);
    return m;
}

// One part of a mnemonic that names an operand format: s8, u4, bf16, f32, f8e4m3fn, and byte.
static bool is_format(const char *part, size_t n)
{
    if (n == 4 && memcmp(part, "byte", 4) == 0)
        return true;
    if (n > 1 && part[0] == 'b') {
        part++;
        n--;
    }
    return n > 1 && n < 11 && strchr("fsu", part[0]) && isdigit((unsigned char)part[1]);
}

// "vmatmul.mubr.bf16.gmra.mxu0" at `at`: which of the two it is, and the formats among its parts: of the registers,
// then, where the unit multiplies another, of the unit. The first half of a wide operand (vmatprep) belongs to the
// instruction that follows it.
static void count(struct llo_bundles *b, const uint8_t *at, const uint8_t *end)
{
    const char *text = (const char *)at;
    size_t n = (size_t)(end - at), length = 0;
    while (length < n && length < 80 && (isalnum(at[length]) || at[length] == '.'))
        length++;
    bool multiply = length > 7 && memcmp(text, "vmatmul", 7) == 0;
    bool push = !multiply && length > 8 && memcmp(text, "vmatpush", 8) == 0;
    if (!multiply && !push)
        return;
    char format[LLO_FORMAT] = "f32", unit[LLO_FORMAT] = "f32"; // pushes of 32 bits have no format in their name
    bool named = false;
    for (size_t from = 0; from < length;) {
        size_t to = from;
        while (to < length && text[to] != '.')
            to++;
        if (is_format(text + from, to - from)) {
            memcpy(unit, text + from, to - from);
            unit[to - from] = '\0';
            if (!named)
                memcpy(format, unit, LLO_FORMAT);
            named = true;
        }
        from = to + 1;
    }
    struct llo_matrix *m = matrix_of(b, format, unit);
    if (!m)
        b->unknown++;
    else if (multiply)
        m->multiplies++;
    else
        m->pushes++;
}

void llo_bundles_read(struct llo_bundles *out, struct slice text)
{
    *out = (struct llo_bundles){0};
    const uint8_t *end = text.size ? text.data + text.size : NULL;
    for (const uint8_t *line = text.data; line < end;) {
        const uint8_t *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        out->bundles += is_bundle(line, stop);
        line = stop + 1;
    }
    // Before each instruction stands what it writes: "%51504 = vmatmul...". Comments have no such thing.
    static const char mark[] = "= vmat";
    for (const uint8_t *at = text.data; at < end && (at = memmem(at, (size_t)(end - at), mark, 6)); at += 6)
        count(out, at + 2, end);
}

int llo_rows(const char *format)
{
    static const struct {
        const char *format;
        int rows;
    } known[] = {{"f32", 8}, {"bf16", 16}, {"s8", 32}, {"u8", 32}, {"byte", 32}, {"s4", 64}, {"u4", 64}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].format, format) == 0)
            return known[i].rows;
    }
    return strncmp(format, "f8", 2) == 0 ? 32 : 0;
}

// ---- Shared bodies

static int by_operation(const void *a, const void *b)
{
    return slice_compare(((const struct llo_body *)a)->operation, ((const struct llo_body *)b)->operation);
}

static struct slice trimmed(const uint8_t *from, const uint8_t *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\r'))
        to--;
    return (struct slice){from, (size_t)(to - from)};
}

int llo_bodies_read(struct llo_body **out, size_t *n, struct slice text, struct arena *arena, struct error *err)
{
    const uint8_t *end = text.size ? text.data + text.size : NULL;
    size_t lines = 0;
    for (const uint8_t *at = text.data; at < end; at++)
        lines += *at == '\n';
    *n = 0;
    *out = arena_new(arena, struct llo_body, lines + 1, err);
    if (!*out)
        return ERR_MEMORY;
    struct slice body = {0};
    bool list = false;
    for (const uint8_t *line = text.data; line < end;) {
        const uint8_t *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        struct slice s = trimmed(line, stop);
        if (slice_starts_with(s, "key:")) {
            body = (struct slice){s.data + 4, s.size - 4};
            list = false;
        } else if (slice_starts_with(s, "equivalent_hlos[")) {
            list = true;
        } else if (list && s.size && (*line == ' ' || *line == '\t')) {
            (*out)[(*n)++] = (struct llo_body){s, body};
        }
        line = stop + 1;
    }
    qsort(*out, *n, sizeof **out, by_operation);
    return 0;
}

struct slice llo_body_of(const struct llo_body *bodies, size_t n, struct slice operation)
{
    struct llo_body key = {operation, {0}};
    const struct llo_body *found = n ? bsearch(&key, bodies, n, sizeof *bodies, by_operation) : NULL;
    return found ? found->body : operation;
}
