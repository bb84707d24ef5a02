// SPDX-License-Identifier: Apache-2.0
#include "lab/exported_names.h"

#include <string.h>

#include "base/str.h"
#include "base/suggest.h"

enum { MAX_PARTS = 64, LISTED = 8 };

struct part {
    const char *at;
    size_t n;
};

// Splits a name; its last MAX_PARTS parts. Returns how many there are.
static size_t split(const char *name, bool underscores, struct part parts[MAX_PARTS])
{
    const char *separators = underscores ? "[](){}<>'\"./:, _" : "[](){}<>'\"./:, ";
    size_t n = 0;
    for (const char *at = name; *at;) {
        at += strspn(at, separators);
        size_t length = strcspn(at, separators);
        if (length && n == MAX_PARTS)
            memmove(parts, parts + 1, --n * sizeof *parts);
        if (length)
            parts[n++] = (struct part){at, length};
        at += length;
    }
    return n;
}

static bool is_number(const char *s)
{
    uint64_t v;
    return parse_u64(s, &v);
}

static const char *position_of(const char *name)
{
    return strncmp(name, "arr_", 4) == 0 ? name + 4 : name;
}

int names_open(struct names *names, const char *const *list, size_t n, const char *file, const char *kind,
               struct arena *arena, struct error *err)
{
    *names = (struct names){.list = list, .n = n, .file = file, .kind = kind, .by_position = n > 0, .arena = arena};
    names->taken = (const char **)arena_alloc(arena, n, sizeof(void *), err);
    for (size_t i = 0; i < n; i++)
        names->by_position = names->by_position && is_number(position_of(list[i]));
    return names->taken ? 0 : ERR_MEMORY;
}

// How many parts `name` has, all of them the last of the argument's; 0 where it is not so.
static size_t agreeing(const char *name, bool underscores, const struct part *argument, size_t n)
{
    struct part parts[MAX_PARTS];
    size_t k = split(name, underscores, parts);
    if (k > n)
        return 0;
    for (size_t i = 0; i < k; i++) {
        const struct part *a = &argument[n - k + i], *b = &parts[i];
        if (a->n != b->n || memcmp(a->at, b->at, a->n) != 0)
            return 0;
    }
    return k;
}

static int best_of(const struct names *names, bool underscores, const struct part *argument, size_t n, const char *text,
                   size_t *out, struct error *err)
{
    size_t most = 0, second = NAMES_NONE;
    *out = NAMES_NONE;
    for (size_t i = 0; i < names->n; i++) {
        size_t k = agreeing(names->list[i], underscores, argument, n);
        if (!k || k < most)
            continue;
        second = k == most ? *out : NAMES_NONE;
        most = k;
        *out = i;
    }
    if (second == NAMES_NONE)
        return 0;
    return error_set(err, ERR_INPUT, names->file, "the %ss \"%s\" and \"%s\" are both named like argument '%s'",
                     names->kind, names->list[second], names->list[*out], text);
}

static int by_name(const struct names *names, const char *argument, size_t *out, struct error *err)
{
    struct part parts[MAX_PARTS];
    int rc = 0;
    *out = NAMES_NONE;
    for (int underscores = 0; underscores < 2 && !rc && *out == NAMES_NONE; underscores++) {
        size_t n = split(argument, underscores, parts);
        rc = best_of(names, underscores, parts, n, argument, out, err);
        if (rc || *out != NAMES_NONE || n < 2)
            continue;
        const struct part *last = &parts[n - 1]; // "w.1"
        bool number = last->at > argument && last->at[-1] == '.' && last->at[last->n] == '\0' &&
                      strspn(last->at, "0123456789") == last->n;
        if (number)
            rc = best_of(names, underscores, parts, n - 1, argument, out, err);
    }
    return rc;
}

int names_find(struct names *names, const char *argument, int64_t position, int index, size_t *out, struct error *err)
{
    int rc = 0;
    *out = NAMES_NONE;
    if (!names->by_position)
        rc = by_name(names, argument, out, err);
    for (size_t i = 0; i < names->n && names->by_position; i++) {
        uint64_t k;
        if (parse_u64(position_of(names->list[i]), &k) && k == (uint64_t)position)
            *out = i;
    }
    if (rc || *out == NAMES_NONE)
        return rc;
    if (names->taken[*out])
        return error_set(err, ERR_INPUT, names->file,
                         "the %s \"%s\" is named like both '%s' and argument %d '%s'; give each one of its own",
                         names->kind, names->list[*out], names->taken[*out], index, argument);
    names->taken[*out] = argument;
    return 0;
}

int names_missing(const struct names *names, const char *argument, int index, const char *shape, struct error *err)
{
    struct str s;
    struct suggest near = {.wanted = argument};
    struct part parts[MAX_PARTS];
    size_t n = split(argument, false, parts);
    str_init(&s);
    for (size_t i = 0; i < names->n; i++)
        suggest_offer(&near, names->list[i]);
    if (!near.best && n > 1) { // without the argument's own name
        near.wanted = parts[1].at;
        for (size_t i = 0; i < names->n; i++)
            suggest_offer(&near, names->list[i]);
    }
    for (size_t i = 0; i < names->n && i < LISTED; i++)
        str_addf(&s, "%s\"%.60s\"", i ? ", " : "", names->list[i]);
    if (names->n > LISTED)
        str_addf(&s, " and %zu more", names->n - LISTED);
    int rc = error_set(err, ERR_INPUT, names->file, "has no %s for argument %d '%s' (%s)%s%s%s; there %s %s%s",
                       names->kind, index, argument, shape, near.best ? "; the nearest is \"" : "",
                       near.best ? near.best : "", near.best ? "\"" : "", names->n == 1 ? "is" : "are",
                       names->n ? str_text(&s) : "none", names->by_position ? ", which are taken by position" : "");
    str_release(&s);
    return rc;
}

size_t names_unused(const struct names *names, const char **first)
{
    size_t n = 0;
    for (size_t i = 0; i < names->n; i++) {
        if (!names->taken[i] && !n && first)
            *first = names->list[i];
        n += !names->taken[i];
    }
    return n;
}
