// SPDX-License-Identifier: Apache-2.0
// Normalisation form C: The Unicode Standard, section 3.11 (canonical ordering, canonical composition) and 3.12
// (Hangul).
#include <stdlib.h>
#include <string.h>

#include "models/unicode_tables.h"

enum { LEAD = 0x1100, VOWEL = 0x1161, TRAIL = 0x11A7, SYLLABLE = 0xAC00, VOWELS = 21, TRAILS = 28, LEADS = 19 };

static uint32_t compose_hangul(uint32_t first, uint32_t second)
{
    if (first >= LEAD && first < LEAD + LEADS && second >= VOWEL && second < VOWEL + VOWELS)
        return SYLLABLE + ((first - LEAD) * VOWELS + (second - VOWEL)) * TRAILS;
    if (first >= SYLLABLE && first < SYLLABLE + LEADS * VOWELS * TRAILS && (first - SYLLABLE) % TRAILS == 0 &&
        second > TRAIL && second < TRAIL + TRAILS)
        return first + (second - TRAIL);
    return 0;
}

// What two code points compose to (NFC), Hangul included; 0 where they do not.
static uint32_t compose_pair(uint32_t first, uint32_t second)
{
    if (!(unicode_lookup(second)->flags & UNICODE_MOVES))
        return 0;
    uint32_t hangul = compose_hangul(first, second);
    if (hangul)
        return hangul;
    const uint64_t want = (uint64_t)first << 32 | second;
    size_t low = 0, high = unicode_n_compositions;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct unicode_composition *c = &unicode_compositions[middle];
        uint64_t have = (uint64_t)c->first << 32 | c->second;
        if (have == want)
            return c->composed;
        if (have < want)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

bool unicode_is_plain(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        if (!((uint8_t)text[at] & 0x80)) {
            at++;
            continue;
        }
        uint32_t c;
        size_t length = utf8_decode(text + at, n - at, &c);
        if (!length || unicode_lookup(c)->flags & UNICODE_MOVES)
            return false;
        at += length;
    }
    return true;
}

// ---- a stretch of text that is decomposed, ordered and composed

struct stretch {
    uint32_t *chars, *sorted; // `sorted` is scratch behind `chars`
    size_t n, cap;
    bool failed;
};

// Twice the room, at least for a decomposition.
static void grow(struct stretch *s)
{
    size_t cap = s->cap ? 2 * s->cap : 64;
    uint32_t *chars = malloc(2 * cap * sizeof *chars); // both arrays
    if (!chars) {
        s->failed = true;
        return;
    }
    if (s->n)
        memcpy(chars, s->chars, s->n * sizeof *chars);
    free(s->chars);
    s->chars = chars;
    s->sorted = chars + cap;
    s->cap = cap;
}

static void add_decomposed(struct stretch *s, uint32_t c)
{
    if (s->cap - s->n < 4)
        grow(s);
    if (!s->failed)
        s->n += unicode_decompose(c, s->chars + s->n);
}

static inline uint8_t class_of(uint32_t c)
{
    return unicode_lookup(c)->combining_class;
}

// A run of combining characters, by class and otherwise as they stand.
static void order_run(struct stretch *s, size_t begin, size_t end)
{
    uint32_t *c = s->chars;
    if (end - begin <= 32) {
        for (size_t i = begin + 1; i < end; i++) {
            uint32_t moved = c[i];
            size_t to = i;
            for (; to > begin && class_of(c[to - 1]) > class_of(moved); to--)
                c[to] = c[to - 1];
            c[to] = moved;
        }
        return;
    }
    size_t place[257] = {0};
    for (size_t i = begin; i < end; i++)
        place[class_of(c[i]) + 1]++;
    for (size_t k = 1; k < 257; k++)
        place[k] += place[k - 1];
    for (size_t i = begin; i < end; i++)
        s->sorted[place[class_of(c[i])]++] = c[i];
    for (size_t i = begin; i < end; i++)
        c[i] = s->sorted[i - begin];
}

static void order(struct stretch *s)
{
    for (size_t i = 0; i < s->n; i++) {
        size_t begin = i;
        while (i < s->n && class_of(s->chars[i]))
            i++;
        if (i - begin > 1)
            order_run(s, begin, i);
    }
}

static void compose(struct stretch *s)
{
    size_t n = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < s->n; i++) {
        uint32_t c = s->chars[i];
        uint8_t class = class_of(c);
        if (starter != SIZE_MAX) {
            // Blocked by what stands between them, unless that is of a lower class.
            bool blocked = n - 1 > starter && class_of(s->chars[n - 1]) >= class;
            uint32_t composed = blocked ? 0 : compose_pair(s->chars[starter], c);
            if (composed) {
                s->chars[starter] = composed;
                continue;
            }
        }
        if (class == 0)
            starter = n;
        s->chars[n++] = c;
    }
    s->n = n;
}

void unicode_nfc(const char *text, size_t n, struct str *out, size_t *invalid)
{
    struct stretch s = {0};
    size_t copied = 0, before = 0; // `before`: the character that stands directly before `at`; `at` where there is none
    for (size_t at = 0; at < n;) {
        uint32_t c = 0;
        size_t length = utf8_decode(text + at, n - at, &c);
        if (!length) {
            str_add_n(out, text + copied, at - copied);
            str_add(out, "\xEF\xBF\xBD");
            ++*invalid;
            copied = before = at += utf8_ill_formed(text + at, n - at);
            continue;
        }
        if (!(unicode_lookup(c)->flags & UNICODE_MOVES)) {
            before = at;
            at += length;
            continue;
        }
        str_add_n(out, text + copied, before - copied);
        s.n = 0;
        for (; before < n; before += length) {
            length = utf8_decode(text + before, n - before, &c);
            if (!length || (before >= at && !(unicode_lookup(c)->flags & UNICODE_MOVES)))
                break;
            add_decomposed(&s, c);
        }
        copied = at = before;
        order(&s);
        compose(&s);
        for (size_t i = 0; i < s.n; i++) {
            char utf8[4];
            str_add_n(out, utf8, utf8_encode(s.chars[i], utf8));
        }
    }
    str_add_n(out, text + copied, n - copied);
    out->failed |= s.failed;
    free(s.chars);
}
