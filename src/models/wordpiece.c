// SPDX-License-Identifier: Apache-2.0
#include "models/wordpiece.h"

#include <string.h>

#include "base/str.h"
#include "models/unicode_tables.h"

// What a byte of text leads to. A byte that a special token begins with carries SPECIAL_FIRST besides.
enum byte_class { BYTE_WORD, BYTE_SPACE, BYTE_PUNCT, BYTE_DROP, BYTE_MULTI, BYTE_SPECIAL_FIRST = 8 };

struct wordpiece_slot {
    uint32_t hash;
    uint32_t line; // id + 1; 0: free
};

enum { FIRST, FOLLOWING }; // a piece at the beginning of a word, or after another piece

// 64-bit FNV-1a, one byte at a time, so that the hashes of all prefixes come for the price of one.
static const uint64_t hash_seed[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};

static inline uint64_t hash_step(uint64_t h, char byte)
{
    return (h ^ (uint8_t)byte) * 0x100000001b3u;
}

static inline uint32_t hash_final(uint64_t h)
{
    return (uint32_t)((h ^ h >> 29) * 0x9e3779b97f4a7c15u >> 32);
}

const char *wordpiece_piece(const struct wordpiece *w, int32_t id, size_t *length)
{
    if (id < 0 || (size_t)id >= w->n_vocab)
        return NULL;
    *length = w->start[id + 1] - w->start[id] - 1;
    return w->text + w->start[id];
}

static inline bool is_following(const char *piece, size_t n)
{
    return n >= 2 && piece[0] == '#' && piece[1] == '#';
}

// The slot that holds n bytes as a piece of that kind, or the free slot where they belong.
static inline struct wordpiece_slot *find_slot(const struct wordpiece *w, int kind, uint32_t hash, const char *bytes,
                                               size_t n)
{
    for (size_t i = hash & w->table_mask;; i = (i + 1) & w->table_mask) {
        struct wordpiece_slot *s = &w->table[i];
        if (!s->line)
            return s;
        if (s->hash != hash)
            continue;
        const char *piece = w->text + w->start[s->line - 1];
        size_t length = w->start[s->line] - w->start[s->line - 1] - 1;
        size_t skip = kind == FOLLOWING ? 2 : 0;
        if (length == n + skip && is_following(piece, length) == (kind == FOLLOWING) &&
            memcmp(piece + skip, bytes, n) == 0)
            return s;
    }
}

// The index of n bytes as a piece of that kind, or -1.
static int32_t find_piece(const struct wordpiece *w, int kind, const char *bytes, size_t n)
{
    uint64_t h = hash_seed[kind];
    for (size_t i = 0; i < n; i++)
        h = hash_step(h, bytes[i]);
    return (int32_t)find_slot(w, kind, hash_final(h), bytes, n)->line - 1;
}

// Splits the copied text into lines. The ends of lines become zeros.
static int split_lines(struct wordpiece *w, char *text, size_t n, const char *name, struct error *err)
{
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    lines += text[n - 1] != '\n';
    uint32_t *start = arena_new(&w->arena, uint32_t, lines + 1, err);
    if (!start)
        return ERR_MEMORY;
    size_t at = 0;
    for (size_t line = 0; line < lines; line++) {
        char *end = memchr(text + at, '\n', n - at);
        size_t length = (size_t)((end ? end : text + n) - (text + at)), bad;
        if (length == 0)
            return error_set(err, ERR_INPUT, name, "line %zu of the vocabulary is empty", line + 1);
        if (text[at + length - 1] == '\r')
            return error_set(err, ERR_INPUT, name,
                             "line %zu of the vocabulary ends in CR LF; convert the file to plain line feeds",
                             line + 1);
        if (!utf8_valid(text + at, length, &bad))
            return error_set(err, ERR_INPUT, name, "line %zu of the vocabulary is not UTF-8 at its byte %zu", line + 1,
                             bad + 1);
        start[line] = (uint32_t)at;
        text[at + length] = 0;
        at += length + 1;
    }
    start[lines] = (uint32_t)at;
    w->text = text;
    w->start = start;
    w->n_vocab = lines;
    return 0;
}

static int build_table(struct wordpiece *w, const char *name, struct error *err)
{
    size_t slots = 16;
    while (slots < 2 * w->n_vocab)
        slots *= 2;
    w->table_mask = slots - 1;
    w->table = arena_new(&w->arena, struct wordpiece_slot, slots, err);
    if (!w->table)
        return ERR_MEMORY;
    for (size_t id = 0; id < w->n_vocab; id++) {
        size_t n;
        const char *piece = wordpiece_piece(w, (int32_t)id, &n);
        int kind = is_following(piece, n) ? FOLLOWING : FIRST;
        const char *bytes = kind == FOLLOWING ? piece + 2 : piece;
        n -= (size_t)(bytes - piece);
        uint64_t h = hash_seed[kind];
        for (size_t i = 0; i < n; i++)
            h = hash_step(h, bytes[i]);
        struct wordpiece_slot *s = find_slot(w, kind, hash_final(h), bytes, n);
        if (s->line)
            return error_set(err, ERR_INPUT, name, "line %zu of the vocabulary repeats line %u", id + 1, s->line);
        s->hash = hash_final(h);
        s->line = (uint32_t)id + 1;
        if (n > w->max_piece_bytes[kind])
            w->max_piece_bytes[kind] = n;
    }
    return 0;
}

static int find_specials(struct wordpiece *w, const char *name, struct error *err)
{
    static const char *const role[WORDPIECE_SPECIALS] = {"padding", "unknown", "class", "separator", "mask"};
    for (int i = 0; i < WORDPIECE_SPECIALS; i++) {
        const char *token = w->config.special[i];
        size_t n = strnlen(token, sizeof w->config.special[i]);
        if (n == sizeof w->config.special[i])
            return error_set(err, ERR_USAGE, name, "the name of the %s token is not a string", role[i]);
        w->special_bytes[i] = (uint8_t)n;
        w->special_id[i] = -1;
        if (n == 0 && i == WORDPIECE_MASK)
            continue;
        int kind = is_following(token, n) ? FOLLOWING : FIRST;
        size_t skip = kind == FOLLOWING ? 2 : 0;
        w->special_id[i] = n ? find_piece(w, kind, token + skip, n - skip) : -1;
        if (w->special_id[i] < 0) {
            bool mark = w->n_vocab && strncmp(w->text, "\xEF\xBB\xBF", 3) == 0;
            return error_set(err, ERR_INPUT, name, "the vocabulary of %zu lines has no %s token \"%s\"%s", w->n_vocab,
                             role[i], token,
                             mark ? "; the file begins with a byte order mark, remove it"
                                  : "; is it the vocab.txt of a BERT model?");
        }
    }
    return 0;
}

static void classify_bytes(struct wordpiece *w)
{
    for (unsigned b = 0; b < 256; b++) {
        if (b >= 128) {
            w->byte_class[b] = BYTE_MULTI;
            continue;
        }
        const struct unicode_record *r = unicode_lookup(b);
        w->byte_lower[b] = (uint8_t)((int32_t)b + (w->config.do_lower_case ? r->lower_delta : 0));
        w->byte_class[b] = w->config.clean_text && r->flags & UNICODE_CONTROL ? BYTE_DROP
                           : r->flags & UNICODE_SPACE                         ? BYTE_SPACE
                           : r->flags & UNICODE_PUNCT                         ? BYTE_PUNCT
                                                                              : BYTE_WORD;
    }
    for (int i = 0; i < WORDPIECE_SPECIALS; i++) {
        if (w->special_bytes[i])
            w->byte_class[(uint8_t)w->config.special[i][0]] |= BYTE_SPECIAL_FIRST;
    }
}

int wordpiece_load(struct wordpiece *w, const void *vocab, size_t n, const char *name,
                   const struct wordpiece_config *config, struct error *err)
{
    memset(w, 0, sizeof *w);
    w->config = *config;
    if (config->max_chars_per_word < 1 || config->max_chars_per_word > WORDPIECE_MAX_CHARS)
        return error_set(err, ERR_USAGE, name, "words of at most %u characters are asked for; 1 to %d can be had",
                         config->max_chars_per_word, WORDPIECE_MAX_CHARS);
    if (n == 0)
        return error_set(err, ERR_INPUT, name, "the vocabulary is empty");
    if (n > INT32_MAX)
        return error_set(err, ERR_INPUT, name, "the vocabulary has %zu bytes; less than 2 GiB can be read", n);
    arena_init(&w->arena);
    char *text = arena_strndup(&w->arena, vocab, n, err);
    int rc = text ? split_lines(w, text, n, name, err) : ERR_MEMORY;
    if (!rc)
        rc = build_table(w, name, err);
    if (!rc)
        rc = find_specials(w, name, err);
    if (rc)
        wordpiece_release(w);
    else
        classify_bytes(w);
    return rc;
}

void wordpiece_release(struct wordpiece *w)
{
    arena_release(&w->arena);
    memset(w, 0, sizeof *w);
}

// One text on its way to ids.
struct encoding {
    const struct wordpiece *w;
    int32_t *ids;
    size_t max_ids; // without the separator at the end
    struct wordpiece_info info;

    // The word that is being collected. Beyond max_chars_per_word characters only their number matters.
    size_t n_bytes, n_chars;
    // The combining characters at its end that are not in combining class 0: where they begin and their classes.
    size_t n_combining;
    uint16_t combining_at[WORDPIECE_MAX_CHARS];
    uint8_t combining_class[WORDPIECE_MAX_CHARS];
    char bytes[4 * WORDPIECE_MAX_CHARS];
};

static inline void put_id(struct encoding *e, int32_t id)
{
    if (e->info.n_ids < e->max_ids)
        e->ids[e->info.n_ids++] = id;
    e->info.n_full++;
}

static inline bool is_boundary(const char *bytes, size_t n, size_t at)
{
    return at == n || ((uint8_t)bytes[at] & 0xC0) != 0x80;
}

// Cuts a word into the longest pieces from the left; returns how many, or 0 when that does not come out.
static size_t cut_word(const struct wordpiece *w, const char *bytes, size_t n, int32_t *pieces)
{
    uint64_t prefix[4 * WORDPIECE_MAX_CHARS];
    size_t n_pieces = 0;
    for (size_t at = 0; at < n;) {
        int kind = at ? FOLLOWING : FIRST;
        size_t left = n - at, longest = w->max_piece_bytes[kind] < left ? w->max_piece_bytes[kind] : left;
        uint64_t h = hash_seed[kind];
        for (size_t i = 0; i < longest; i++)
            prefix[i] = h = hash_step(h, bytes[at + i]);
        size_t length = longest;
        uint32_t line = 0;
        for (; length; length--) {
            if (!is_boundary(bytes, n, at + length))
                continue;
            line = find_slot(w, kind, hash_final(prefix[length - 1]), bytes + at, length)->line;
            if (line)
                break;
        }
        if (!line)
            return 0;
        pieces[n_pieces++] = (int32_t)(line - 1);
        at += length;
    }
    return n_pieces;
}

static void end_word(struct encoding *e)
{
    if (!e->n_chars)
        return;
    int32_t pieces[WORDPIECE_MAX_CHARS];
    size_t n = 0;
    if (e->n_chars <= e->w->config.max_chars_per_word)
        n = cut_word(e->w, e->bytes, e->n_bytes, pieces);
    if (n == 0) {
        pieces[n++] = e->w->special_id[WORDPIECE_UNK];
        e->info.n_unknown++;
    }
    for (size_t i = 0; i < n; i++)
        put_id(e, pieces[i]);
    if (n > e->info.most_pieces)
        e->info.most_pieces = n;
    e->info.n_words++;
    e->n_bytes = e->n_chars = e->n_combining = 0;
}

// Adds a character to the word. One with a combining class goes before those at the end that have a higher class:
// canonical ordering, done while inserting.
static void add_char(struct encoding *e, uint32_t c, uint8_t combining_class)
{
    if (e->n_chars >= e->w->config.max_chars_per_word) {
        e->n_chars++;
        return;
    }
    char utf8[4];
    size_t n = utf8_encode(c, utf8), at = e->n_bytes;
    if (!combining_class) {
        e->n_combining = 0;
    } else {
        size_t i = e->n_combining++;
        for (; i > 0 && e->combining_class[i - 1] > combining_class; i--) {
            at = e->combining_at[i - 1];
            e->combining_at[i] = (uint16_t)(at + n);
            e->combining_class[i] = e->combining_class[i - 1];
        }
        e->combining_at[i] = (uint16_t)at;
        e->combining_class[i] = combining_class;
        memmove(e->bytes + at + n, e->bytes + at, e->n_bytes - at);
    }
    memcpy(e->bytes + at, utf8, n);
    e->n_bytes += n;
    e->n_chars++;
}

// A character after clean-up and decomposition.
static void put_char(struct encoding *e, uint32_t c)
{
    const struct wordpiece_config *config = &e->w->config;
    const struct unicode_record *r = unicode_lookup(c);
    if (config->strip_accents && r->flags & UNICODE_MARK) {
        // A mark of class 0 stood between what it follows and what comes: no ordering across it.
        if (!r->combining_class)
            e->n_combining = 0;
        return;
    }
    if (r->flags & UNICODE_SPACE) {
        end_word(e);
        return;
    }
    uint32_t lower = config->do_lower_case ? (uint32_t)((int32_t)c + r->lower_delta) : c;
    if (r->flags & UNICODE_PUNCT) {
        end_word(e);
        add_char(e, lower, 0);
        end_word(e);
        return;
    }
    // Without decomposition there is no ordering either.
    add_char(e, lower, config->strip_accents ? r->combining_class : 0);
    if (c == 0x130 && config->do_lower_case)
        add_char(e, 0x307, 0);
}

// A character as it stands in the text.
static void put_raw_char(struct encoding *e, uint32_t c)
{
    const struct wordpiece_config *config = &e->w->config;
    unsigned flags = unicode_lookup(c)->flags;
    if (config->clean_text && (flags & UNICODE_CONTROL || c == 0xFFFD))
        return;
    bool apart = config->tokenize_chinese_chars && flags & UNICODE_IDEOGRAPH;
    if (apart)
        end_word(e);
    if (config->strip_accents) {
        uint32_t part[4];
        size_t n = unicode_decompose(c, part);
        for (size_t i = 0; i < n; i++)
            put_char(e, part[i]);
    } else {
        put_char(e, c);
    }
    if (apart)
        end_word(e);
}

// The longest special token that the text at s begins with; its length, 0 for none.
static size_t match_special(const struct wordpiece *w, const char *s, size_t n, int32_t *id)
{
    size_t longest = 0;
    for (int i = 0; i < WORDPIECE_SPECIALS; i++) {
        size_t length = w->special_bytes[i];
        if (length > longest && length <= n && memcmp(s, w->config.special[i], length) == 0) {
            longest = length;
            *id = w->special_id[i];
        }
    }
    return longest;
}

static void put_text(struct encoding *e, const char *text, size_t n)
{
    const struct wordpiece *w = e->w;
    const size_t max_chars = w->config.max_chars_per_word;
    for (size_t at = 0; at < n;) {
        uint8_t byte = (uint8_t)text[at];
        unsigned class = w->byte_class[byte];
        if (class & BYTE_SPECIAL_FIRST) {
            int32_t id;
            size_t length = match_special(w, text + at, n - at, &id);
            if (length) {
                end_word(e);
                put_id(e, id);
                e->info.n_words++;
                at += length;
                continue;
            }
            class &= ~(unsigned)BYTE_SPECIAL_FIRST;
        }
        if (class == BYTE_MULTI) {
            uint32_t c;
            size_t length = utf8_decode(text + at, n - at, &c);
            if (!length) {
                length = utf8_ill_formed(text + at, n - at);
                c = 0xFFFD;
                e->info.invalid_utf8++;
            }
            put_raw_char(e, c);
            at += length;
            continue;
        }
        at++;
        if (class == BYTE_DROP)
            continue;
        if (class != BYTE_WORD)
            end_word(e);
        if (class == BYTE_SPACE)
            continue;
        if (e->n_chars < max_chars)
            e->bytes[e->n_bytes++] = (char)w->byte_lower[byte];
        e->n_chars++;
        e->n_combining = 0;
        if (class == BYTE_PUNCT)
            end_word(e);
    }
    end_word(e);
}

int wordpiece_encode(const struct wordpiece *w, const char *text, size_t n, int32_t *ids, size_t max_ids,
                     struct wordpiece_info *info, struct error *err)
{
    if (max_ids < 2)
        return error_set(err, ERR_USAGE, NULL,
                         "a text takes at least 2 tokens ([CLS] and [SEP]), there is room for %zu", max_ids);
    struct encoding e;
    memset(&e, 0, offsetof(struct encoding, combining_at));
    e.w = w;
    e.ids = ids;
    e.max_ids = max_ids - 1;
    put_id(&e, w->special_id[WORDPIECE_CLS]);
    put_text(&e, text, n);
    e.max_ids = max_ids;
    put_id(&e, w->special_id[WORDPIECE_SEP]);
    e.info.truncated = e.info.n_full > e.info.n_ids;
    if (info)
        *info = e.info;
    return 0;
}

int wordpiece_encode_batch(const struct wordpiece *w, const char *const *texts, const size_t *lengths, size_t batch,
                           size_t seq, int32_t *ids, int32_t *mask, int32_t *type_ids, struct wordpiece_info *infos,
                           struct error *err)
{
    for (size_t b = 0; b < batch; b++) {
        struct wordpiece_info info = {0};
        size_t row = b * seq;
        int rc = wordpiece_encode(w, texts[b], lengths ? lengths[b] : strlen(texts[b]), ids + row, seq, &info, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < seq; i++)
            mask[row + i] = i < info.n_ids;
        for (size_t i = info.n_ids; i < seq; i++)
            ids[row + i] = w->special_id[WORDPIECE_PAD];
        if (type_ids)
            memset(type_ids + row, 0, seq * sizeof *type_ids);
        if (infos)
            infos[b] = info;
    }
    return 0;
}
