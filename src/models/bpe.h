// SPDX-License-Identifier: Apache-2.0
// The byte-level BPE tokenizer of the Qwen2 and Qwen3 models: text to vocabulary indices and back, equal to the "fast"
// tokenizer of transformers. In order: added tokens ("<|im_end|>") are cut out of the raw text, the longest first; what
// lies between is normalised (NFC) and cut in words by the pattern
//     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// ; in a word the bytes are symbols, and of all neighbours that can be merged those of the lowest rank are, the
// leftmost first, until none can. There is no unknown token: every byte is in the vocabulary.
#ifndef MODELS_BPE_H
#define MODELS_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"

struct bpe_token;
struct bpe_word;
struct bpe_merge;
struct bpe {
    size_t n_ids;    // ids are below this; some may be unused
    size_t n_tokens; // ids that are used, added tokens included
    size_t n_merges;
    size_t n_added;

    // private
    struct arena arena;
    struct bpe_token *tokens; // [n_ids]
    uint8_t *pool;            // the bytes of all tokens
    uint8_t *whole;           // [n_ids] whether merging a token's bytes gives the token: not known yet, yes, no
    uint32_t *added;          // ids of added tokens: by first byte, then the longest first
    uint32_t added_from[257]; // where those of a first byte begin
    struct bpe_word *words;   // hash table of the vocabulary by bytes
    struct bpe_merge *merges; // hash table by pair
    size_t word_mask, merge_mask;
    size_t longest; // token of the vocabulary, in bytes
    uint64_t secret;
    uint32_t byte_id[256];
};

// Whether the path is a file, or a folder with tokenizer.json or vocab.json.
bool bpe_is_there(const char *path);
// From a tokenizer.json, or from a folder that has one, or vocab.json and merges.txt (then added tokens come from
// tokenizer_config.json or added_tokens.json). ERR_INPUT names the file and what in it is wrong or of another kind of
// tokenizer: another pattern, another normalisation, a byte without a token, a merge whose parts are no tokens. After
// an error nothing has to be released.
int bpe_open(struct bpe *b, const char *path, struct error *err);
// A tokenizer.json in memory; `name` is for messages.
int bpe_load(struct bpe *b, const void *json, size_t n, const char *name, struct error *err);
// vocab.json, merges.txt and tokenizer_config.json or added_tokens.json (NULL: none) in memory.
struct bpe_files {
    struct slice vocab, merges, added;
    const char *vocab_name, *merges_name, *added_name; // for messages
};
int bpe_load_files(struct bpe *b, const struct bpe_files *files, struct error *err);
void bpe_release(struct bpe *b);

// The bytes of a token, which need not be whole characters, and whether it is an added token that is special ("not
// text"); an empty slice for an id that is not used.
struct slice bpe_bytes(const struct bpe *b, int32_t id, bool *special);
// The id of an added token by its text; -1 when there is none.
int32_t bpe_added_id(const struct bpe *b, const char *text);

struct bpe_info {
    size_t n_ids;        // written
    size_t n_full;       // what it would have been without the limit
    size_t n_words;      // pieces the pattern made, and added tokens
    size_t invalid_utf8; // ill-formed sequences in the text (as Python's errors="replace" counts); each is U+FFFD
    bool truncated;      // n_full > n_ids
};

// Encodes n bytes into ids[0..max_ids). A longer text keeps its beginning. Any bytes are accepted. `info` may be NULL.
// Thread safe on one bpe. ERR_MEMORY.
int bpe_encode(const struct bpe *b, const char *text, size_t n, int32_t *ids, size_t max_ids, struct bpe_info *info,
               struct error *err);
// The text of n ids, appended. Ids that are not used give nothing, as in transformers; with skip_special neither do
// special tokens. What is not UTF-8 then becomes U+FFFD, as there (bpe_bytes gives the bytes themselves).
int bpe_decode(const struct bpe *b, const int32_t *ids, size_t n, bool skip_special, struct str *out,
               struct error *err);

#endif
