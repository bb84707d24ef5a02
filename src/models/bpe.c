// SPDX-License-Identifier: Apache-2.0
#include "models/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "models/bpe_part.h"
#include "models/unicode_tables.h"

int32_t bpe_find(const struct bpe *b, const uint8_t *bytes, size_t n)
{
    if (n == 0 || n > b->longest)
        return -1;
    uint32_t hash = bpe_hash(b, bytes, n);
    for (size_t i = hash & b->word_mask;; i = (i + 1) & b->word_mask) {
        const struct bpe_word *w = &b->words[i];
        if (!w->id)
            return -1;
        const struct bpe_token *t = &b->tokens[w->id - 1];
        if (w->hash == hash && t->length == n && memcmp(b->pool + t->at, bytes, n) == 0)
            return (int32_t)(w->id - 1);
    }
}

struct bpe_merge *bpe_merge_slot(const struct bpe *b, uint32_t left, uint32_t right)
{
    uint64_t hash = mix64(((uint64_t)left << 32 | right) ^ b->secret);
    for (size_t i = hash & b->merge_mask;; i = (i + 1) & b->merge_mask) {
        struct bpe_merge *m = &b->merges[i];
        if (!m->rank || (m->left == left && m->right == right))
            return m;
    }
}

void bpe_release(struct bpe *b)
{
    arena_release(&b->arena);
    memset(b, 0, sizeof *b);
}

struct slice bpe_bytes(const struct bpe *b, int32_t id, bool *special)
{
    *special = false;
    if (id < 0 || (size_t)id >= b->n_ids || !b->tokens[id].length)
        return (struct slice){0};
    *special = b->tokens[id].special;
    return (struct slice){b->pool + b->tokens[id].at, b->tokens[id].length};
}

// ---- one text on its way to ids

struct encoding {
    const struct bpe *b;
    int32_t *ids;
    size_t max_ids;
    struct bpe_info info;
    bool failed; // no memory for a long word
};

static inline void put_id(struct encoding *e, uint32_t id)
{
    if (e->info.n_ids < e->max_ids)
        e->ids[e->info.n_ids++] = (int32_t)id;
    e->info.n_full++;
}

// ---- merging. Ranks here are those of the table, 0 where a pair cannot be merged.

#define SHORT 64 // bytes of a word that is merged by looking for the lowest rank each time

// What the pair is merged at: its rank less 1, so that "cannot" is the largest.
static inline uint32_t rank_of(const struct bpe *b, uint32_t left, uint32_t right, uint32_t *made)
{
    const struct bpe_merge *m = bpe_merge_slot(b, left, right);
    *made = m->id;
    return m->rank - 1;
}

// Symbols of n bytes, at most SHORT, merged as far as they go; how many are left.
static size_t merge_short(const struct bpe *b, const uint8_t *bytes, size_t n, uint32_t *symbol)
{
    uint32_t rank[SHORT], made[SHORT];
    for (size_t i = 0; i < n; i++)
        symbol[i] = b->byte_id[bytes[i]];
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = rank_of(b, symbol[i], symbol[i + 1], &made[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            best = rank[i] < rank[best] ? i : best;
        if (rank[best] == UINT32_MAX)
            break;
        symbol[best] = made[best];
        n--;
        for (size_t i = best + 1; i < n; i++)
            symbol[i] = symbol[i + 1];
        for (size_t i = best; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            made[i] = made[i + 1];
        }
        if (best > 0)
            rank[best - 1] = rank_of(b, symbol[best - 1], symbol[best], &made[best - 1]);
        if (best + 1 < n)
            rank[best] = rank_of(b, symbol[best], symbol[best + 1], &made[best]);
    }
    return n;
}

// A heap of what could be merged: rank above, place below, so that its order is that of merging.
struct heap {
    uint64_t *entry;
    size_t n;
};

static void sink_down(struct heap *h, size_t i)
{
    uint64_t moved = h->entry[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->n)
            break;
        child += child + 1 < h->n && h->entry[child + 1] < h->entry[child];
        if (h->entry[child] >= moved)
            break;
        h->entry[i] = h->entry[child];
        i = child;
    }
    h->entry[i] = moved;
}

static void push(struct heap *h, uint32_t rank, size_t place)
{
    if (rank == UINT32_MAX)
        return;
    uint64_t moved = (uint64_t)rank << 32 | place;
    size_t i = h->n++;
    for (; i && h->entry[(i - 1) / 2] > moved; i = (i - 1) / 2)
        h->entry[i] = h->entry[(i - 1) / 2];
    h->entry[i] = moved;
}

static uint64_t pop(struct heap *h)
{
    uint64_t top = h->entry[0];
    h->entry[0] = h->entry[--h->n];
    if (h->n)
        sink_down(h, 0);
    return top;
}

#define NOWHERE UINT32_MAX // before the first and behind the last; a symbol that was merged into another

struct chain {
    uint32_t symbol, before, behind;
};

// In n log n: an entry of the heap is stale when its place is gone or another pair stands there. Entries are at most
// n - 1 at first, and each merge takes one and adds two.
static void put_long_word(struct encoding *e, const uint8_t *bytes, size_t n)
{
    const struct bpe *b = e->b;
    struct chain *c = malloc(n * sizeof *c);
    struct heap h = {.entry = malloc(2 * n * sizeof *h.entry)};
    uint32_t made;
    e->failed |= !c || !h.entry;
    for (size_t i = 0; !e->failed && i < n; i++) {
        c[i] = (struct chain){b->byte_id[bytes[i]], (uint32_t)i - 1, i + 1 < n ? (uint32_t)i + 1 : NOWHERE};
        if (i > 0)
            push(&h, rank_of(b, c[i - 1].symbol, c[i].symbol, &made), i - 1);
    }
    while (!e->failed && h.n) {
        uint64_t top = pop(&h);
        uint32_t at = (uint32_t)top, behind = c[at].behind;
        if (c[at].symbol == NOWHERE || behind == NOWHERE ||
            rank_of(b, c[at].symbol, c[behind].symbol, &made) != top >> 32)
            continue;
        c[at].symbol = made;
        c[behind].symbol = NOWHERE;
        c[at].behind = c[behind].behind;
        if (c[at].behind != NOWHERE) {
            c[c[at].behind].before = at;
            push(&h, rank_of(b, made, c[c[at].behind].symbol, &made), at);
        }
        if (c[at].before != NOWHERE)
            push(&h, rank_of(b, c[c[at].before].symbol, c[at].symbol, &made), c[at].before);
    }
    for (size_t i = 0; !e->failed && i < n; i++) {
        if (c[i].symbol != NOWHERE)
            put_id(e, c[i].symbol);
    }
    free(c);
    free(h.entry);
}

enum { UNKNOWN, WHOLE, PARTS };

static void put_word(struct encoding *e, const uint8_t *bytes, size_t n)
{
    const struct bpe *b = e->b;
    e->info.n_words++;
    if (n == 1) {
        put_id(e, b->byte_id[bytes[0]]);
        return;
    }
    // Nearly every word of the vocabulary is what its bytes are merged to. Which are is found out as they come: any
    // thread finds the same.
    int32_t id = bpe_find(b, bytes, n);
    uint8_t state = id < 0 ? PARTS : __atomic_load_n(&b->whole[id], __ATOMIC_RELAXED);
    if (state == WHOLE) {
        put_id(e, (uint32_t)id);
        return;
    }
    if (n > SHORT) {
        put_long_word(e, bytes, n);
        return;
    }
    uint32_t symbol[SHORT];
    size_t left = merge_short(b, bytes, n, symbol);
    if (state == UNKNOWN)
        __atomic_store_n(&b->whole[id], left == 1 && symbol[0] == (uint32_t)id ? WHOLE : PARTS, __ATOMIC_RELAXED);
    for (size_t i = 0; i < left; i++)
        put_id(e, symbol[i]);
}

// ---- words. Text is valid UTF-8 here.

enum class { OTHER, LETTER, NUMBER, SPACE, NEWLINE, CLASSES };

static const uint8_t ascii_class[128] = {
    ['\t'] = SPACE, ['\n'] = NEWLINE,       ['\v'] = SPACE,         ['\f'] = SPACE,         ['\r'] = NEWLINE,
    [' '] = SPACE,  ['0' ... '9'] = NUMBER, ['A' ... 'Z'] = LETTER, ['a' ... 'z'] = LETTER,
};

// The class of the character at s and its length.
static inline enum class class_at(const uint8_t *s, size_t n, size_t *length) {
    if (s[0] < 0x80){ *length = 1; return (enum class)ascii_class[s[0]];}
uint32_t c = 0xFFFD;
size_t got = utf8_decode((const char *)s, n, &c);
*length = got ? got : 1;
unsigned flags = unicode_lookup(c)->flags;
return flags & UNICODE_LETTER ? LETTER : flags & UNICODE_NUMBER ? NUMBER : flags & UNICODE_SPACE ? SPACE : OTHER;
}

// Where a run of that class, or of those two, ends.
static inline size_t run_end(const uint8_t *s, size_t n, size_t at, enum class a, enum class b)
{
    size_t length;
    while (at < n) {
        enum class c = class_at(s + at, n - at, &length);
        if (c != a && c != b)
            break;
        at += length;
    }
    return at;
}

// 's 't 're 've 'm 'll 'd in any case; the long s (U+017F) is a case of s. The length, 0 for none.
static size_t contraction(const uint8_t *s, size_t n)
{
    uint8_t one = n > 1 ? s[1] | 0x20 : 0, two = n > 2 ? s[2] | 0x20 : 0;
    if (one == 's' || one == 't' || one == 'm' || one == 'd')
        return 2;
    if ((one == 'r' && two == 'e') || (one == 'v' && two == 'e') || (one == 'l' && two == 'l'))
        return 3;
    return n > 2 && s[1] == 0xC5 && s[2] == 0xBF ? 3 : 0;
}

// The length of the word that text begins with when it begins with white space that no letter or symbol takes along.
static size_t space_word(const uint8_t *s, size_t n)
{
    size_t at = 0, length, last = 0, newline = 0;
    while (at < n) {
        enum class c = class_at(s + at, n - at, &length);
        if (c != SPACE && c != NEWLINE)
            break;
        last = at;
        at += length;
        newline = c == NEWLINE ? at : newline;
    }
    if (newline)
        return newline;
    return at == n || last == 0 ? at : last; // the last one belongs to what follows
}

// The length of the word that text begins with: the alternatives of the pattern, in order. n > 0.
static size_t word_length(const uint8_t *s, size_t n)
{
    size_t first, second = 0, length;
    if (s[0] == '\'' && (length = contraction(s, n)))
        return length;
    enum class a = class_at(s, n, &first);
    if (a == LETTER)
        return run_end(s, n, first, LETTER, LETTER);
    if (a == NUMBER)
        return first;
    enum class b = first < n ? class_at(s + first, n - first, &second) : NEWLINE;
    if (a != NEWLINE && b == LETTER)
        return run_end(s, n, first + second, LETTER, LETTER);
    if (a == OTHER || (s[0] == ' ' && b == OTHER))
        return run_end(s, n, run_end(s, n, first, OTHER, OTHER), NEWLINE, NEWLINE);
    return space_word(s, n);
}

// A stretch of text without added tokens.
static void put_text(struct encoding *e, const char *text, size_t n, struct str *scratch)
{
    const uint8_t *s = (const uint8_t *)text;
    if (!unicode_is_plain(text, n)) {
        str_clear(scratch);
        unicode_nfc(text, n, scratch, &e->info.invalid_utf8);
        e->failed |= scratch->failed;
        s = (const uint8_t *)str_text(scratch);
        n = scratch->length;
    }
    for (size_t at = 0; at < n && !e->failed;) {
        size_t length = word_length(s + at, n - at);
        put_word(e, s + at, length);
        at += length;
    }
}

// The longest added token that the text begins with, or -1.
static int32_t match_added(const struct bpe *b, const uint8_t *s, size_t n)
{
    for (uint32_t i = b->added_from[s[0]]; i < b->added_from[s[0] + 1]; i++) {
        const struct bpe_token *t = &b->tokens[b->added[i]];
        if (t->length <= n && memcmp(b->pool + t->at, s, t->length) == 0)
            return (int32_t)b->added[i];
    }
    return -1;
}

int32_t bpe_added_id(const struct bpe *b, const char *text)
{
    size_t n = strlen(text);
    int32_t id = n ? match_added(b, (const uint8_t *)text, n) : -1;
    return id >= 0 && b->tokens[id].length == n ? id : -1;
}

int bpe_encode(const struct bpe *b, const char *text, size_t n, int32_t *ids, size_t max_ids, struct bpe_info *info,
               struct error *err)
{
    if (n > INT32_MAX / 2)
        return error_set(err, ERR_USAGE, NULL,
                         "a text of %zu bytes is too long to be encoded at once: 1 GiB is the most", n);
    struct encoding e = {.b = b, .ids = ids, .max_ids = max_ids};
    struct str scratch;
    str_init(&scratch);
    scratch.max_bytes = (size_t)1 << 33; // normal forms of a text are at most a few times as long
    size_t from = 0;
    for (size_t at = 0; at < n && !e.failed;) {
        uint8_t first = (uint8_t)text[at];
        int32_t id =
            b->added_from[first] < b->added_from[first + 1] ? match_added(b, (const uint8_t *)text + at, n - at) : -1;
        if (id < 0) {
            at++;
            continue;
        }
        put_text(&e, text + from, at - from, &scratch);
        put_id(&e, (uint32_t)id);
        e.info.n_words++;
        from = at += b->tokens[id].length;
    }
    put_text(&e, text + from, n - from, &scratch);
    str_release(&scratch);
    e.info.truncated = e.info.n_full > e.info.n_ids;
    if (info)
        *info = e.info;
    return e.failed ? error_set(err, ERR_MEMORY, NULL, "no memory to encode a text of %zu bytes", n) : 0;
}

int bpe_decode(const struct bpe *b, const int32_t *ids, size_t n, bool skip_special, struct str *out, struct error *err)
{
    struct str bytes;
    str_init(&bytes);
    for (size_t i = 0; i < n; i++) {
        bool special;
        struct slice s = bpe_bytes(b, ids[i], &special);
        if (!(special && skip_special))
            str_add_n(&bytes, s.data, s.size);
    }
    const char *text = str_text(&bytes);
    for (size_t at = 0, good = 0; at <= bytes.length;) {
        uint32_t c;
        size_t length = at < bytes.length ? utf8_decode(text + at, bytes.length - at, &c) : 0;
        if (length) {
            at += length;
            continue;
        }
        str_add_n(out, text + good, at - good);
        if (at == bytes.length)
            break;
        str_add(out, "\xEF\xBF\xBD");
        good = at += utf8_ill_formed(text + at, bytes.length - at);
    }
    out->failed |= bytes.failed;
    str_release(&bytes);
    return str_check(out, err);
}
