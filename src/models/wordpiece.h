// SPDX-License-Identifier: Apache-2.0
// The WordPiece tokenizer of BERT models: text to vocabulary indices, equal to the "fast" tokenizer of transformers
// (the one sentence-transformers uses). In order: special tokens are cut out of the raw text; control characters are
// removed and white space becomes a space; CJK ideographs are set apart; text is decomposed (NFD) and marks are
// dropped; every character is put in lower case; words end at white space and every punctuation character is a word of
// its own; a word is cut greedily into the longest pieces of the vocabulary, pieces after the first written "##piece".
//
// It differs from the older pure Python tokenizer where that one differs from the fast one: marks go before the change
// of case (I with dot above gives i), case is per character (no final sigma), special tokens are found in raw text only
// when written exactly, CJK extension E begins at U+2B920, and categories are those of Unicode 8.0 (unicode_tables.h).
#ifndef MODELS_WORDPIECE_H
#define MODELS_WORDPIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum wordpiece_special {
    WORDPIECE_PAD,
    WORDPIECE_UNK,
    WORDPIECE_CLS,
    WORDPIECE_SEP,
    WORDPIECE_MASK,
    WORDPIECE_SPECIALS
};

struct wordpiece_config {
    bool clean_text;                      // remove control characters, U+FFFD and invalid UTF-8; unify white space
    bool tokenize_chinese_chars;          // set CJK ideographs apart
    bool strip_accents;                   // decompose and drop marks (null in a configuration: as do_lower_case)
    bool do_lower_case;                   // per character, no final sigma
    uint32_t max_chars_per_word;          // longer words become the unknown token; 1..WORDPIECE_MAX_CHARS
    size_t model_max_length;              // tokens with [CLS] and [SEP]; 0 where the configuration names none
    char special[WORDPIECE_SPECIALS][64]; // "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"; "" is allowed for MASK only
};
#define WORDPIECE_MAX_CHARS 256

// BERT uncased: everything on, 100 characters, the names above.
void wordpiece_config_default(struct wordpiece_config *c);
// The defaults overlaid with a tokenizer_config.json; ERR_INPUT when the file asks for another kind of tokenizer.
int wordpiece_config_read(struct wordpiece_config *c, const char *path, struct error *err);
// The same from n bytes of memory; `name` is for messages.
int wordpiece_config_parse(struct wordpiece_config *c, const char *text, size_t n, const char *name, struct error *err);

struct wordpiece_slot;
struct wordpiece {
    struct wordpiece_config config;
    int32_t special_id[WORDPIECE_SPECIALS]; // -1 for a mask token that is not there
    size_t n_vocab;                         // ids are 0..n_vocab-1: the line in the vocabulary, from 0

    // private
    struct arena arena;
    const char *text;      // the vocabulary, a zero after every piece
    const uint32_t *start; // [n_vocab + 1] where pieces begin in it
    struct wordpiece_slot *table;
    size_t table_mask;
    size_t max_piece_bytes[2]; // of first and of following pieces, without ##
    uint8_t special_bytes[WORDPIECE_SPECIALS];
    uint8_t byte_class[256]; // what a byte of text leads to
    uint8_t byte_lower[128];
};

// Reads a vocabulary (one piece a line) from a file or from memory, and keeps its own copy. `name` is for messages.
// ERR_INPUT names the line: empty, repeated, not UTF-8, ending in CR LF; also an empty file, one of 2 GiB or more, a
// special token that is missing. After an error nothing has to be released.
int wordpiece_open(struct wordpiece *w, const char *vocab_path, const struct wordpiece_config *config,
                   struct error *err);
int wordpiece_load(struct wordpiece *w, const void *vocab, size_t n, const char *name,
                   const struct wordpiece_config *config, struct error *err);
void wordpiece_release(struct wordpiece *w);

// The piece with an index, as it stands in the vocabulary ("##ing"), with its length; NULL outside 0..n_vocab-1.
const char *wordpiece_piece(const struct wordpiece *w, int32_t id, size_t *length);

struct wordpiece_info {
    size_t n_ids;        // written, with [CLS] and [SEP]
    size_t n_full;       // what it would have been without the limit
    size_t n_words;      // words, punctuation and special tokens of the whole text
    size_t n_unknown;    // of these, unknown
    size_t most_pieces;  // most pieces that one word was cut into (a rare word has 4 or more)
    size_t invalid_utf8; // ill-formed sequences in the text (counted as Python's errors="replace" does); ignored
    bool truncated;      // n_full > n_ids
};

// Encodes n bytes as [CLS] pieces [SEP] into ids[0..max_ids). A longer text keeps its beginning. ERR_USAGE when max_ids
// < 2. Any bytes are accepted as text. `info` may be NULL. Thread safe on one wordpiece; allocates nothing.
int wordpiece_encode(const struct wordpiece *w, const char *text, size_t n, int32_t *ids, size_t max_ids,
                     struct wordpiece_info *info, struct error *err);

// Encodes `batch` texts into ids[batch][seq], padded with [PAD]; mask[batch][seq] is 1 on tokens and 0 on padding.
// `type_ids` (all 0: one segment) and `infos` (one per text) may be NULL. lengths may be NULL for C strings.
int wordpiece_encode_batch(const struct wordpiece *w, const char *const *texts, const size_t *lengths, size_t batch,
                           size_t seq, int32_t *ids, int32_t *mask, int32_t *type_ids, struct wordpiece_info *infos,
                           struct error *err);

#endif
