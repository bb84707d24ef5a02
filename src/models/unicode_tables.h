// SPDX-License-Identifier: Apache-2.0
// What the tokenizers have to know of a character. The tables are made by scripts/gen-unicode. Categories are those of
// Unicode 8.0 (letters and numbers: 16.0), normalisation is that of 9.0 and lower case that of 17.0: what the reference
// tokenizers were built on.
#ifndef MODELS_UNICODE_TABLES_H
#define MODELS_UNICODE_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define UNICODE_CODE_POINTS 0x110000u
#define UNICODE_BLOCK       128u

enum unicode_flag {
    UNICODE_SPACE = 1,       // White_Space
    UNICODE_CONTROL = 2,     // Cc, Cf and Co without tab, line feed and carriage return
    UNICODE_MARK = 4,        // Mn
    UNICODE_PUNCT = 8,       // P* and all ASCII punctuation ($+<=>^`|~ too)
    UNICODE_IDEOGRAPH = 16,  // the CJK ranges that BERT sets apart
    UNICODE_DECOMPOSES = 32, // has a canonical decomposition in the table (Hangul syllables are not in it)
    UNICODE_LETTER = 64,     // L*
    UNICODE_NUMBER = 128,    // N*
    UNICODE_MOVES = 256,     // may change under NFC, or change what is before it: text without any is in NFC
};

struct unicode_record {
    uint16_t flags;
    uint8_t combining_class;
    int32_t lower_delta; // lower case minus the code point; U+0130 has a second character, U+0307, that is not here
};

struct unicode_decomposition {
    uint32_t code_point;
    uint16_t at; // into unicode_decomposition_pool
    uint8_t length;
};

struct unicode_composition {
    uint32_t first, second, composed;
};

extern const struct unicode_record unicode_records[];
extern const uint8_t unicode_stage1[UNICODE_CODE_POINTS / UNICODE_BLOCK];
extern const uint8_t unicode_stage2[][UNICODE_BLOCK];
extern const size_t unicode_n_decompositions;
extern const struct unicode_decomposition unicode_decompositions[]; // by rising code point
extern const uint32_t unicode_decomposition_pool[];
extern const size_t unicode_n_compositions;
extern const struct unicode_composition unicode_compositions[]; // by rising first, then second

// The record of a code point up to U+10FFFF.
static inline const struct unicode_record *unicode_lookup(uint32_t code_point)
{
    return &unicode_records[unicode_stage2[unicode_stage1[code_point / UNICODE_BLOCK]][code_point % UNICODE_BLOCK]];
}

// The full canonical decomposition (NFD) of one code point into out[4]; its length, 1 where there is none.
size_t unicode_decompose(uint32_t code_point, uint32_t out[4]);

// Appends text in NFC to `out`. Ill-formed sequences become U+FFFD (one per maximal subpart, as decoders do), and their
// number is added to *invalid. The text may be any bytes; time is n log n at worst. Failures are in out->failed.
void unicode_nfc(const char *text, size_t n, struct str *out, size_t *invalid);
// Whether text is valid UTF-8 and has no character that NFC could change: then it is in NFC (the reverse need not
// hold).
bool unicode_is_plain(const char *text, size_t n);

#endif
