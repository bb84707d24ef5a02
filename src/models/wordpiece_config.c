// SPDX-License-Identifier: Apache-2.0
// tokenizer_config.json, and the vocabulary file.
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "models/wordpiece.h"

static const char *const special_key[WORDPIECE_SPECIALS] = {"pad_token", "unk_token", "cls_token", "sep_token",
                                                            "mask_token"};

void wordpiece_config_default(struct wordpiece_config *c)
{
    *c = (struct wordpiece_config){
        .clean_text = true,
        .tokenize_chinese_chars = true,
        .strip_accents = true,
        .do_lower_case = true,
        .max_chars_per_word = 100,
        .special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"},
    };
}

// A member that is true or false; `absent` when it is not there or null.
static int get_bool(const json_t *o, const char *key, const char *where, bool absent, bool *out, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (v && !json_is_null(v) && !json_is_boolean(v))
        return error_set(err, ERR_INPUT, where, "\"%s\" is not true or false", key);
    *out = json_is_boolean(v) ? json_is_true(v) : absent;
    return 0;
}

// A token is a string, or an object with its content and how it is matched.
static int get_token(const json_t *v, const char *key, const char *where, const char **out, struct error *err)
{
    static const char *const matching[] = {"lstrip", "rstrip", "single_word"};
    const json_t *content = json_is_object(v) ? json_object_get(v, "content") : v;
    if (!json_is_string(content))
        return error_set(err, ERR_INPUT, where, "\"%s\" is not a string", key);
    for (size_t i = 0; json_is_object(v) && i < sizeof matching / sizeof *matching; i++) {
        bool on = false;
        int rc = get_bool(v, matching[i], where, false, &on, err);
        if (rc)
            return rc;
        if (on)
            return error_set(err, ERR_INPUT, where, "\"%s\" is matched with %s, which is not supported", key,
                             matching[i]);
    }
    *out = json_string_value(content);
    return 0;
}

static int read_specials(struct wordpiece_config *c, const json_t *o, const char *where, struct error *err)
{
    for (int i = 0; i < WORDPIECE_SPECIALS; i++) {
        const json_t *v = json_object_get(o, special_key[i]);
        const char *token = "";
        if (!v)
            continue;
        if (!json_is_null(v) || i != WORDPIECE_MASK) {
            int rc = get_token(v, special_key[i], where, &token, err);
            if (rc)
                return rc;
        }
        size_t n = strlen(token);
        if (n >= sizeof c->special[i])
            return error_set(err, ERR_INPUT, where, "\"%s\" has %zu bytes; at most %zu can be read", special_key[i], n,
                             sizeof c->special[i] - 1);
        memcpy(c->special[i], token, n + 1);
    }
    // Other tokens that would be cut out of the text as well.
    const char *id;
    json_t *added;
    json_object_foreach(json_object_get(o, "added_tokens_decoder"), id, added)
    {
        const char *token;
        bool known = false;
        int rc = get_token(added, "added_tokens_decoder", where, &token, err);
        if (rc)
            return rc;
        for (int i = 0; i < WORDPIECE_SPECIALS; i++)
            known |= strcmp(token, c->special[i]) == 0;
        if (!known)
            return error_set(err, ERR_INPUT, where, "the added token \"%s\" is not supported: only %s, %s, %s, %s, %s",
                             token, special_key[0], special_key[1], special_key[2], special_key[3], special_key[4]);
    }
    return 0;
}

static int read_object(struct wordpiece_config *c, const json_t *o, const char *where, struct error *err)
{
    if (!json_is_object(o))
        return error_set(err, ERR_INPUT, where, "is not a JSON object");
    const json_t *class = json_object_get(o, "tokenizer_class");
    const char *name = json_is_string(class) ? json_string_value(class) : NULL;
    if (name && strcmp(name, "BertTokenizer") != 0 && strcmp(name, "BertTokenizerFast") != 0)
        return error_set(err, ERR_INPUT, where,
                         "the tokenizer is a \"%s\"; BertTokenizer and BertTokenizerFast are supported", name);
    int rc;
    if ((rc = get_bool(o, "clean_text", where, true, &c->clean_text, err)) ||
        (rc = get_bool(o, "do_lower_case", where, true, &c->do_lower_case, err)) ||
        (rc = get_bool(o, "tokenize_chinese_chars", where, true, &c->tokenize_chinese_chars, err)) ||
        (rc = get_bool(o, "strip_accents", where, c->do_lower_case, &c->strip_accents, err)))
        return rc;
    // A length "without limit" is written as 1e30.
    double length = 0;
    if ((rc = json_get_double_or(o, "model_max_length", where, 0, &length, err)))
        return rc;
    if (length < 0 || (length > 0 && length < 2))
        return error_set(err, ERR_INPUT, where, "\"model_max_length\" is %g; a text takes at least 2 tokens", length);
    c->model_max_length = length <= INT32_MAX ? (size_t)length : 0;
    return read_specials(c, o, where, err);
}

int wordpiece_config_parse(struct wordpiece_config *c, const char *text, size_t n, const char *name, struct error *err)
{
    wordpiece_config_default(c);
    json_t *o = json_parse(text, n, name, err);
    int rc = o ? read_object(c, o, name, err) : ERR_INPUT;
    json_decref(o);
    return rc;
}

int wordpiece_config_read(struct wordpiece_config *c, const char *path, struct error *err)
{
    struct str text;
    str_init(&text);
    int rc = file_read(&text, path, 16u << 20, err);
    if (!rc)
        rc = wordpiece_config_parse(c, str_text(&text), text.length, path, err);
    str_release(&text);
    return rc;
}

int wordpiece_open(struct wordpiece *w, const char *vocab_path, const struct wordpiece_config *config,
                   struct error *err)
{
    memset(w, 0, sizeof *w);
    struct file_map map;
    int rc = file_map_open(&map, vocab_path, err);
    if (rc)
        return rc;
    if (map.size > INT32_MAX) {
        rc = error_set(err, ERR_INPUT, vocab_path, "the vocabulary has %zu bytes; less than 2 GiB can be read",
                       map.size);
        file_map_close(&map);
        return rc;
    }
    // Only the copy touches the file, so a file that shrinks meanwhile leaves nothing half done.
    struct arena arena;
    arena_init(&arena);
    char *copy = arena_alloc(&arena, map.size ? map.size : 1, 1, err);
    struct file_guard guard;
    if (!copy) {
        rc = ERR_MEMORY;
    } else if (FILE_GUARD(&guard, &map)) {
        rc = file_guard_error(&guard, err);
    } else {
        if (map.size)
            memcpy(copy, map.data, map.size);
        file_guard_end(&guard);
        rc = wordpiece_load(w, copy, map.size, vocab_path, config, err);
    }
    arena_release(&arena);
    file_map_close(&map);
    return rc;
}
