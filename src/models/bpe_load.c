// SPDX-License-Identifier: Apache-2.0
// tokenizer.json, or vocab.json and merges.txt with the added tokens of tokenizer_config.json or added_tokens.json. The
// large parts are read where they lie (base/json_scan.h), the small ones as trees.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_scan.h"
#include "models/bpe_part.h"

#define MAX_FILE  (UINT32_C(1) << 30) // bytes
#define MAX_ADDED 4096                // tokens; text is searched for those of one first byte one by one

static const char pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// ---- bytes as characters: printable ones of Latin-1 are themselves, the others are U+0100 and on, in order

static bool is_itself(uint32_t byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

// The byte that a character stands for, or -1.
static int byte_of(uint32_t c)
{
    if (c < 256)
        return is_itself(c) ? (int)c : -1;
    uint32_t at = 256;
    for (uint32_t byte = 0; byte < 256; byte++) {
        if (!is_itself(byte) && at++ == c)
            return (int)byte;
    }
    return -1;
}

// Texts on their way to bytes.
struct reader {
    struct bpe *b;
    const char *name; // of the file
    const uint8_t *begin;
    int16_t byte_of[324];
    struct str scratch; // of a text with escapes
    struct str bytes;   // of the last two tokens that were read
    size_t pooled, pool_cap, token_cap;
    size_t line; // of merges.txt; else the number of the merge
    uint32_t n_merges;
};

// The offset in the file, for messages.
static int fail(const struct reader *r, const uint8_t *at, struct error *err, const char *what)
{
    return error_set(err, ERR_INPUT, r->name, "at byte %zu: %s", (size_t)(at - r->begin), what);
}

static int damage(const struct reader *r, const struct json_scan *s, struct error *err)
{
    return fail(r, s->damaged, err, s->damage);
}

// Appends the bytes of a token's text to r->bytes; false where a character stands for no byte.
static bool add_bytes(struct reader *r, struct slice text)
{
    for (size_t at = 0; at < text.size;) {
        uint32_t c = UINT32_MAX;
        size_t n = utf8_decode((const char *)text.data + at, text.size - at, &c);
        if (!n || c >= sizeof r->byte_of / sizeof *r->byte_of || r->byte_of[c] < 0)
            return false;
        str_add_char(&r->bytes, (char)r->byte_of[c]);
        at += n;
    }
    return true;
}

// ---- tokens

static int pool_add(struct reader *r, struct bpe_token *t, const void *bytes, size_t n, struct error *err)
{
    uint8_t *pool = arena_grow(&r->b->arena, r->b->pool, &r->pool_cap, r->pooled + n, 1, err);
    if (!pool)
        return ERR_MEMORY;
    memcpy(pool + r->pooled, bytes, n);
    t->at = (uint32_t)r->pooled;
    t->length = (uint32_t)n;
    r->b->pool = pool;
    r->pooled += n;
    return 0;
}

// Room for tokens up to the id.
static int reach(struct reader *r, size_t id, struct error *err)
{
    struct bpe *b = r->b;
    if (id < b->n_ids)
        return 0;
    struct bpe_token *t = arena_grow(&b->arena, b->tokens, &r->token_cap, id + 1, sizeof *t, err);
    if (!t)
        return ERR_MEMORY;
    b->tokens = t;
    b->n_ids = id + 1;
    return 0;
}

struct entry {
    struct slice text; // in the file, as it stands there
    bool escaped, wide;
    uint32_t id;
};

static int read_entry(struct reader *r, struct json_scan *s, const struct scan_value *key, struct entry *e,
                      struct error *err)
{
    struct scan_value v;
    bool negative = false;
    uint64_t id = 0;
    if (!scan_value(s, &v))
        return damage(r, s, err);
    if (v.kind != SCAN_NUMBER || !scan_integer(v.text, &negative, &id) || negative)
        return fail(r, v.text.data, err, "the number of a token is expected");
    if (id >= INT32_MAX)
        return fail(r, v.text.data, err, "the number of a token is beyond 32 bits");
    *e = (struct entry){key->text, key->escaped, key->wide, (uint32_t)id};
    return 0;
}

// The vocabulary: {"text": id, ...}. Ids may have gaps, but not many: memory goes by the largest.
static int list_vocabulary(struct reader *r, struct slice object, struct entry **out, size_t *n, struct error *err)
{
    struct json_scan s = json_scan(object.data, object.size);
    struct scan_value v, key;
    size_t cap = 0, largest = 0;
    *out = NULL;
    *n = 0;
    (void)scan_value(&s, &v);
    for (bool first = true; scan_member(&s, &key, first); first = false) {
        if (*n == cap) {
            cap = cap ? 2 * cap : 1024;
            struct entry *more = realloc(*out, cap * sizeof *more);
            if (!more)
                return error_set(err, ERR_MEMORY, r->name, "no memory for a vocabulary of %zu tokens", cap);
            *out = more;
        }
        int rc = read_entry(r, &s, &key, &(*out)[*n], err);
        if (rc)
            return rc;
        largest = (*out)[*n].id > largest ? (*out)[*n].id : largest;
        ++*n;
    }
    if (s.damage)
        return damage(r, &s, err);
    if (largest > 4 * *n + 65536)
        return error_set(err, ERR_INPUT, r->name, "a vocabulary of %zu tokens has one of number %zu", *n, largest);
    return 0;
}

static int put_entry(struct reader *r, const struct entry *e, struct error *err)
{
    struct bpe *b = r->b;
    struct scan_value v = {.kind = SCAN_TEXT, .escaped = e->escaped, .wide = e->wide, .text = e->text};
    bool bad = false;
    str_clear(&r->bytes);
    if (!add_bytes(r, scan_text(&v, &r->scratch, &bad)) || bad)
        return fail(r, e->text.data, err,
                    "a token has a character that stands for no byte: is this a byte-level vocabulary?");
    if (r->bytes.length == 0)
        return fail(r, e->text.data, err, "a token is empty");
    struct bpe_token *t = &b->tokens[e->id];
    if (t->length)
        return fail(r, e->text.data, err, "the number of a token was that of another one");
    int rc = pool_add(r, t, str_text(&r->bytes), r->bytes.length, err);
    if (rc)
        return rc;
    if (t->length > b->longest)
        b->longest = t->length;
    if (bpe_find(b, b->pool + t->at, t->length) >= 0)
        return fail(r, e->text.data, err, "a token is there twice");
    uint32_t hash = bpe_hash(b, b->pool + t->at, t->length);
    size_t i = hash & b->word_mask;
    while (b->words[i].id)
        i = (i + 1) & b->word_mask;
    b->words[i] = (struct bpe_word){hash, e->id + 1};
    b->n_tokens++;
    return 0;
}

static int read_vocabulary(struct reader *r, struct slice object, struct error *err)
{
    struct bpe *b = r->b;
    struct entry *list;
    size_t n, slots = 1024;
    int rc = list_vocabulary(r, object, &list, &n, err);
    while (slots < 2 * n)
        slots *= 2;
    b->word_mask = slots - 1;
    if (!rc && !(b->words = arena_new(&b->arena, struct bpe_word, slots, err)))
        rc = ERR_MEMORY;
    for (size_t i = 0; !rc && i < n; i++)
        rc = reach(r, list[i].id, err);
    for (size_t i = 0; !rc && i < n; i++)
        rc = put_entry(r, &list[i], err);
    free(list);
    for (uint32_t byte = 0; !rc && byte < 256; byte++) {
        uint8_t one = (uint8_t)byte;
        int32_t id = bpe_find(b, &one, 1);
        if (id < 0)
            return error_set(err, ERR_INPUT, r->name, "the vocabulary of %zu tokens has none for the byte 0x%02X", n,
                             byte);
        b->byte_id[byte] = (uint32_t)id;
    }
    return rc;
}

// ---- merges

static int make_merge_table(struct reader *r, size_t n, struct error *err)
{
    size_t slots = 1024;
    while (slots < n + n / 2)
        slots *= 2;
    r->b->merge_mask = slots - 1;
    r->b->merges = arena_new(&r->b->arena, struct bpe_merge, slots, err);
    return r->b->merges ? 0 : ERR_MEMORY;
}

static int put_merge(struct reader *r, struct slice left, struct slice right, struct error *err)
{
    struct bpe *b = r->b;
    str_clear(&r->bytes);
    bool good = add_bytes(r, left);
    size_t cut = r->bytes.length;
    good = good && add_bytes(r, right);
    const uint8_t *bytes = (const uint8_t *)str_text(&r->bytes);
    int32_t a = bpe_find(b, bytes, cut), c = bpe_find(b, bytes + cut, r->bytes.length - cut);
    int32_t made = bpe_find(b, bytes, r->bytes.length);
    if (!good || a < 0 || c < 0 || made < 0)
        return error_set(err, ERR_INPUT, r->name, "merge %zu, \"%.*s %.*s\": %s", r->line, (int)left.size,
                         (const char *)left.data, (int)right.size, (const char *)right.data,
                         !good || a < 0 || c < 0 ? "its parts are no tokens of the vocabulary"
                                                 : "what it makes is no token of the vocabulary");
    struct bpe_merge *m = bpe_merge_slot(b, (uint32_t)a, (uint32_t)c);
    if (m->rank)
        return error_set(err, ERR_INPUT, r->name, "merge %zu is there twice", r->line);
    *m = (struct bpe_merge){(uint32_t)a, (uint32_t)c, ++r->n_merges, (uint32_t)made};
    b->n_merges++;
    return 0;
}

// "left right"
static int put_merge_line(struct reader *r, struct slice line, struct error *err)
{
    const uint8_t *space = line.size ? memchr(line.data, ' ', line.size) : NULL;
    if (!space)
        return error_set(err, ERR_INPUT, r->name, "merge %zu is not two tokens with a space between them", r->line);
    size_t left = (size_t)(space - line.data);
    return put_merge(r, (struct slice){line.data, left}, (struct slice){space + 1, line.size - left - 1}, err);
}

// ["left right", ...] or [["left", "right"], ...]
static int read_merges(struct reader *r, struct slice array, struct error *err)
{
    struct json_scan s = json_scan(array.data, array.size);
    struct scan_value v;
    bool bad = false;
    struct str second;
    str_init(&second);
    // A merge takes at least eight bytes of the file, `"a b",` being shorter than any that is written.
    int rc = make_merge_table(r, array.size / 6, err);
    (void)scan_value(&s, &v);
    for (bool first = true; !rc && scan_element(&s, first); first = false) {
        r->line++;
        if (!scan_value(&s, &v))
            break;
        if (v.kind == SCAN_TEXT) {
            rc = put_merge_line(r, scan_text(&v, &r->scratch, &bad), err);
            continue;
        }
        struct scan_value pair[2] = {{.kind = SCAN_NONE}};
        size_t n = 0;
        for (bool begin = true; v.kind == SCAN_ARRAY && scan_element(&s, begin); begin = false) {
            struct scan_value part;
            if (!scan_whole(&s, &part))
                break;
            if (n < 2)
                pair[n] = part;
            n++;
        }
        if (s.damage)
            break;
        if (n != 2 || pair[0].kind != SCAN_TEXT || pair[1].kind != SCAN_TEXT)
            rc = error_set(err, ERR_INPUT, r->name, "merge %zu is not two tokens", r->line);
        else
            rc = put_merge(r, scan_text(&pair[0], &r->scratch, &bad), scan_text(&pair[1], &second, &bad), err);
    }
    str_release(&second);
    return rc ? rc : s.damage ? damage(r, &s, err) : 0;
}

// merges.txt: a merge a line, after a line that begins with "#version".
static int read_merge_lines(struct reader *r, struct slice text, struct error *err)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    int rc = make_merge_table(r, lines, err);
    for (size_t at = 0; !rc && at < text.size;) {
        const uint8_t *line = text.data + at, *end = memchr(line, '\n', text.size - at);
        struct slice s = {line, end ? (size_t)(end - line) : text.size - at};
        at += s.size + 1;
        s.size -= s.size && s.data[s.size - 1] == '\r';
        r->line++;
        if (!slice_starts_with(s, "#version"))
            rc = put_merge_line(r, s, err);
    }
    return rc;
}

// ---- added tokens

static int flag(const json_t *o, const char *key, const struct reader *r, bool absent, bool *out, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (v && !json_is_boolean(v))
        return error_set(err, ERR_INPUT, r->name, "\"%s\" of an added token is not true or false", key);
    *out = v ? json_is_true(v) : absent;
    return 0;
}

static int put_added(struct reader *r, const char *text, size_t n, uint64_t id, bool special, struct error *err)
{
    struct bpe *b = r->b;
    if (n == 0)
        return error_set(err, ERR_INPUT, r->name, "an added token is empty");
    if (b->n_added == MAX_ADDED)
        return error_set(err, ERR_INPUT, r->name, "there are more than %d added tokens", MAX_ADDED);
    if (!b->added && !(b->added = arena_new(&b->arena, uint32_t, MAX_ADDED, err)))
        return ERR_MEMORY;
    if (id > 4 * b->n_tokens + 65536)
        return error_set(err, ERR_INPUT, r->name, "the added token \"%s\" has the number %llu in a vocabulary of %zu",
                         text, (unsigned long long)id, b->n_tokens);
    int rc = reach(r, (size_t)id, err);
    if (rc)
        return rc;
    struct bpe_token *t = &b->tokens[id];
    // It may stand in the vocabulary as well.
    if (t->length && (t->added || t->length != n || memcmp(b->pool + t->at, text, n) != 0))
        return error_set(err, ERR_INPUT, r->name,
                         "the added token \"%s\" has the number %llu, which is that of another one", text,
                         (unsigned long long)id);
    if (!t->length) {
        rc = pool_add(r, t, text, n, err);
        b->n_tokens++;
    }
    t->added = true;
    t->special = special;
    b->added[b->n_added++] = (uint32_t)id;
    return rc;
}

static int put_added_object(struct reader *r, const json_t *o, int64_t id, struct error *err)
{
    static const char *const matching[] = {"lstrip", "rstrip", "single_word", "normalized"};
    const json_t *content = json_object_get(o, "content");
    bool special = false, on = false;
    if (!json_is_string(content) || id < 0)
        return error_set(err, ERR_INPUT, r->name, "an added token has no \"%s\"", id < 0 ? "id" : "content");
    for (size_t i = 0; i < sizeof matching / sizeof *matching; i++) {
        int rc = flag(o, matching[i], r, false, &on, err);
        if (rc)
            return rc;
        if (on)
            return error_set(err, ERR_INPUT, r->name,
                             "the added token \"%s\" is matched with %s, which is not supported",
                             json_string_value(content), matching[i]);
    }
    int rc = flag(o, "special", r, false, &special, err);
    return rc ? rc : put_added(r, json_string_value(content), json_string_length(content), (uint64_t)id, special, err);
}

// The list of a tokenizer.json, the object of a tokenizer_config.json by id, or that of an added_tokens.json by text.
static int read_added(struct reader *r, const json_t *added, struct error *err)
{
    int rc = 0;
    size_t i;
    json_t *value;
    const char *key;
    json_array_foreach(added, i, value)
    {
        const json_t *id = json_object_get(value, "id");
        rc = rc ? rc : put_added_object(r, value, json_is_integer(id) ? json_integer_value(id) : -1, err);
    }
    const json_t *by_id = json_object_get(added, "added_tokens_decoder");
    json_object_foreach((json_t *)by_id, key, value)
    {
        int64_t id;
        rc = rc ? rc : put_added_object(r, value, parse_i64(key, &id) ? id : -1, err);
    }
    // added_tokens.json does not say which are special; such a file was written for those that are.
    bool by_text = json_is_object(added) && !by_id && !json_object_get(added, "tokenizer_class");
    json_object_foreach(by_text ? (json_t *)added : NULL, key, value)
    {
        if (rc == 0 && (!json_is_integer(value) || json_integer_value(value) < 0))
            rc = error_set(err, ERR_INPUT, r->name, "the added token \"%s\" has no number", key);
        rc = rc ? rc : put_added(r, key, strlen(key), (uint64_t)json_integer_value(value), true, err);
    }
    return rc;
}

// By first byte, then the longest first. Insertion: there are few.
static int sort_added(struct reader *r, struct error *err)
{
    struct bpe *b = r->b;
    for (size_t i = 1; i < b->n_added; i++) {
        uint32_t id = b->added[i];
        const struct bpe_token *t = &b->tokens[id];
        size_t to = i;
        for (; to > 0; to--) {
            const struct bpe_token *other = &b->tokens[b->added[to - 1]];
            int first = (int)b->pool[other->at] - (int)b->pool[t->at];
            if (first < 0 || (first == 0 && other->length > t->length))
                break;
            if (first == 0 && other->length == t->length &&
                memcmp(b->pool + other->at, b->pool + t->at, t->length) == 0)
                return error_set(err, ERR_INPUT, r->name, "an added token is there twice, as %u and as %u",
                                 b->added[to - 1], id);
            b->added[to] = b->added[to - 1];
        }
        b->added[to] = id;
    }
    for (uint32_t byte = 0, at = 0; byte <= 256; byte++) {
        b->added_from[byte] = at;
        while (byte < 256 && at < b->n_added && b->pool[b->tokens[b->added[at]].at] == byte)
            at++;
    }
    return 0;
}

// ---- the kind of tokenizer

// Refuses a member that says something else than it may: absent, null, or `want` (NULL: nothing else).
static int only(const json_t *o, const char *key, const char *want, const struct reader *r, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    const char *said = json_is_string(v) ? json_string_value(v) : NULL;
    if (!v || json_is_null(v) || json_is_false(v) || (said && strcmp(said, want ? want : "") == 0))
        return 0;
    return error_set(err, ERR_INPUT, r->name, "\"%s\" is %s%s%s, which is not supported%s%s", key, said ? "\"" : "",
                     said ? said : "set", said ? "\"" : "", want ? "; it has to be " : "", want ? want : "");
}

// The same where it has to be there.
static int exactly(const json_t *o, const char *of, const char *key, const char *want, const struct reader *r,
                   struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_string(v) || strcmp(json_string_value(v), want) != 0)
        return error_set(err, ERR_INPUT, r->name, "the \"%s\" of the %s is \"%s\"; \"%s\" is supported: that of Qwen2",
                         key, of, json_is_string(v) ? json_string_value(v) : "", want);
    return 0;
}

static int check_pre_tokenizer(const json_t *o, const struct reader *r, struct error *err)
{
    const json_t *steps = json_object_get(o, "pretokenizers");
    const json_t *split = json_array_get(steps, 0), *bytes = json_array_get(steps, 1);
    int rc;
    if ((rc = exactly(o, "pre_tokenizer", "type", "Sequence", r, err)) ||
        (rc = exactly(split, "first pre_tokenizer", "type", "Split", r, err)) ||
        (rc = exactly(json_object_get(split, "pattern"), "first pre_tokenizer", "Regex", pattern, r, err)) ||
        (rc = exactly(split, "first pre_tokenizer", "behavior", "Isolated", r, err)) ||
        (rc = only(split, "invert", NULL, r, err)) ||
        (rc = exactly(bytes, "second pre_tokenizer", "type", "ByteLevel", r, err)) ||
        (rc = only(bytes, "add_prefix_space", NULL, r, err)))
        return rc;
    if (json_array_size(steps) != 2 || !json_is_false(json_object_get(bytes, "use_regex")))
        return error_set(err, ERR_INPUT, r->name, "the pre_tokenizer does more than Qwen2's, which is not supported");
    return 0;
}

static int check_model(const json_t *o, const struct reader *r, struct error *err)
{
    static const char *const others[] = {
        "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"};
    int rc = only(o, "type", "BPE", r, err);
    for (size_t i = 0; !rc && i < sizeof others / sizeof *others; i++)
        rc = only(o, others[i], NULL, r, err);
    return rc;
}

static int check_kind(const json_t *o, const struct reader *r, struct error *err)
{
    const json_t *post = json_object_get(o, "post_processor");
    int rc;
    if ((rc = exactly(json_object_get(o, "normalizer"), "normalizer", "type", "NFC", r, err)) ||
        (rc = check_pre_tokenizer(json_object_get(o, "pre_tokenizer"), r, err)) ||
        (rc = exactly(json_object_get(o, "decoder"), "decoder", "type", "ByteLevel", r, err)) ||
        (rc = check_model(json_object_get(o, "model"), r, err)))
        return rc;
    return !post || json_is_null(post) ? 0 : exactly(post, "post_processor", "type", "ByteLevel", r, err);
}

// ---- files

static void add_raw(struct str *out, const struct scan_value *v)
{
    size_t quotes = v->kind == SCAN_TEXT;
    str_add_n(out, v->text.data - quotes, v->text.size + 2 * quotes);
}

struct parts {
    struct scan_value vocabulary, merges;
    struct str rest; // the document without these two
};

// Copies an object to p->rest, member by member, except for the large parts of the model.
static int take_apart(const struct reader *r, struct json_scan *s, bool model, struct parts *p, struct error *err)
{
    struct scan_value key, v;
    str_add(&p->rest, "{");
    for (bool first = true; scan_member(s, &key, first); first = false) {
        struct scan_value *large = !model                    ? NULL
                                   : scan_is(&key, "vocab")  ? &p->vocabulary
                                   : scan_is(&key, "merges") ? &p->merges
                                                             : NULL;
        if (large && large->kind != SCAN_NONE)
            return fail(r, key.text.data, err, "this part of the model is there twice");
        str_add(&p->rest, first ? "" : ",");
        add_raw(&p->rest, &key);
        str_add(&p->rest, ":");
        struct json_scan ahead = *s;
        if (!model && scan_is(&key, "model") && scan_value(&ahead, &v) && v.kind == SCAN_OBJECT) {
            *s = ahead;
            int rc = take_apart(r, s, true, p, err);
            if (rc)
                return rc;
            continue;
        }
        if (!scan_whole(s, &v))
            break;
        if (large) {
            *large = v;
            str_add(&p->rest, "null");
        } else {
            add_raw(&p->rest, &v);
        }
    }
    str_add(&p->rest, "}");
    return s->damage ? damage(r, s, err) : 0;
}

static int read_document(struct reader *r, const void *json, size_t n, struct parts *p, json_t **out, struct error *err)
{
    struct json_scan s = json_scan(json, n);
    struct scan_value v;
    if (!scan_value(&s, &v))
        return damage(r, &s, err);
    if (v.kind != SCAN_OBJECT)
        return error_set(err, ERR_INPUT, r->name, "is not a JSON object");
    int rc = take_apart(r, &s, false, p, err);
    if (!rc && !scan_ended(&s))
        rc = fail(r, s.at, err, "something follows the end of the JSON");
    rc = rc ? rc : str_check(&p->rest, err);
    *out = rc ? NULL : json_parse(str_text(&p->rest), p->rest.length, r->name, err);
    if (rc || !*out)
        return rc ? rc : ERR_INPUT;
    if (p->vocabulary.kind != SCAN_OBJECT || p->merges.kind != SCAN_ARRAY)
        return error_set(err, ERR_INPUT, r->name,
                         "it has no \"model\" with \"vocab\" and \"merges\": is it the tokenizer.json of a BPE model?");
    return 0;
}

static void reader_init(struct reader *r, struct bpe *b)
{
    *r = (struct reader){.b = b};
    memset(b, 0, sizeof *b);
    arena_init(&b->arena);
    b->secret = process_secret();
    for (uint32_t c = 0; c < sizeof r->byte_of / sizeof *r->byte_of; c++)
        r->byte_of[c] = (int16_t)byte_of(c);
}

static void reader_file(struct reader *r, const char *name, const void *begin)
{
    r->name = name;
    r->begin = (const uint8_t *)begin;
    r->line = 0;
}

// What is left when everything was read, or after an error.
static int reader_end(struct reader *r, int rc, struct error *err)
{
    struct bpe *b = r->b;
    if (!rc)
        rc = sort_added(r, err);
    if (!rc && !(b->whole = arena_new(&b->arena, uint8_t, b->n_ids, err)))
        rc = ERR_MEMORY;
    if (!rc && (r->scratch.failed || r->bytes.failed))
        rc = error_set(err, ERR_MEMORY, r->name, "no memory for the vocabulary");
    str_release(&r->scratch);
    str_release(&r->bytes);
    if (rc)
        bpe_release(b);
    return rc;
}

int bpe_load(struct bpe *b, const void *json, size_t n, const char *name, struct error *err)
{
    struct reader r;
    struct parts p = {.rest = {0}};
    json_t *o = NULL;
    reader_init(&r, b);
    reader_file(&r, name, json);
    int rc = read_document(&r, json, n, &p, &o, err);
    if (!rc && !(rc = check_kind(o, &r, err)) && !(rc = read_vocabulary(&r, p.vocabulary.text, err)) &&
        !(rc = read_merges(&r, p.merges.text, err)))
        rc = read_added(&r, json_object_get(o, "added_tokens"), err);
    json_decref(o);
    str_release(&p.rest);
    return reader_end(&r, rc, err);
}

static int read_added_file(struct reader *r, struct slice text, struct error *err)
{
    if (!text.size)
        return 0;
    json_t *o = json_parse((const char *)text.data, text.size, r->name, err);
    int rc = o ? read_added(r, o, err) : ERR_INPUT;
    json_decref(o);
    return rc;
}

int bpe_load_files(struct bpe *b, const struct bpe_files *files, struct error *err)
{
    struct reader r;
    struct json_scan s = json_scan(files->vocab.data, files->vocab.size);
    struct scan_value v;
    int rc = 0;
    reader_init(&r, b);
    reader_file(&r, files->vocab_name, files->vocab.data);
    if (!scan_whole(&s, &v))
        rc = damage(&r, &s, err);
    else if (v.kind != SCAN_OBJECT || !scan_ended(&s))
        rc = error_set(err, ERR_INPUT, r.name, "is not a JSON object");
    rc = rc ? rc : read_vocabulary(&r, v.text, err);
    reader_file(&r, files->merges_name, files->merges.data);
    rc = rc ? rc : read_merge_lines(&r, files->merges, err);
    reader_file(&r, files->added_name, files->added.data);
    rc = rc ? rc : read_added_file(&r, files->added, err);
    return reader_end(&r, rc, err);
}

// The file, read; *found is false when there is none and it need not be there.
static int read_file(struct str *out, const char *folder, const char *name, char path[1024], bool *found,
                     struct error *err)
{
    str_init(out);
    if (snprintf(path, 1024, "%s/%s", folder, name) >= 1024)
        return error_set(err, ERR_INPUT, folder, "the path is too long");
    if (found && !(*found = file_exists(path)))
        return 0;
    return file_read(out, path, MAX_FILE, err);
}

static int open_files(struct bpe *b, const char *folder, struct error *err)
{
    char path[3][1024];
    struct str text[3] = {{0}};
    bool found = false;
    int rc = read_file(&text[0], folder, "vocab.json", path[0], NULL, err);
    rc = rc ? rc : read_file(&text[1], folder, "merges.txt", path[1], NULL, err);
    rc = rc ? rc : read_file(&text[2], folder, "tokenizer_config.json", path[2], &found, err);
    if (!rc && !found)
        rc = read_file(&text[2], folder, "added_tokens.json", path[2], &found, err);
    struct slice s[3];
    for (int i = 0; i < 3; i++)
        s[i] = (struct slice){(const uint8_t *)text[i].text, text[i].length};
    struct bpe_files files = {s[0], s[1], s[2], path[0], path[1], path[2]};
    rc = rc ? rc : bpe_load_files(b, &files, err);
    for (int i = 0; i < 3; i++)
        str_release(&text[i]);
    return rc;
}

bool bpe_is_there(const char *path)
{
    static const char *const names[] = {"tokenizer.json", "vocab.json"};
    char inside[1024];
    bool found = !dir_exists(path) && file_exists(path);
    for (int i = 0; i < 2 && !found; i++)
        found = snprintf(inside, sizeof inside, "%s/%s", path, names[i]) < (int)sizeof inside && file_exists(inside);
    return found;
}

int bpe_open(struct bpe *b, const char *path, struct error *err)
{
    char inside[1024];
    memset(b, 0, sizeof *b);
    if (dir_exists(path)) {
        if (snprintf(inside, sizeof inside, "%s/tokenizer.json", path) >= (int)sizeof inside)
            return error_set(err, ERR_INPUT, path, "the path is too long");
        if (!file_exists(inside))
            return open_files(b, path, err);
        path = inside;
    }
    struct str text;
    str_init(&text);
    int rc = file_read(&text, path, MAX_FILE, err);
    rc = rc ? rc : bpe_load(b, str_text(&text), text.length, path, err);
    str_release(&text);
    return rc;
}
