// SPDX-License-Identifier: Apache-2.0
// What the tokenizers have to know of a character. The tables are made by scripts/gen-unicode. Categories are those of
// Unicode 8.0, normalisation is that of 9.0 and lower case that of 17.0: what the reference tokenizer was built on.
#ifndef MODELS_UNICODE_TABLES_H
#define MODELS_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

#define UNICODE_CODE_POINTS 0x110000u
#define UNICODE_BLOCK       128u

enum unicode_flag {
    UNICODE_SPACE = 1,       // White_Space
    UNICODE_CONTROL = 2,     // Cc, Cf and Co without tab, line feed and carriage return
    UNICODE_MARK = 4,        // Mn
    UNICODE_PUNCT = 8,       // P* and all ASCII punctuation ($+<=>^`|~ too)
    UNICODE_IDEOGRAPH = 16,  // the CJK ranges that BERT sets apart
    UNICODE_DECOMPOSES = 32, // has a canonical decomposition in the table (Hangul syllables are not in it)
};

struct unicode_record {
    uint8_t flags;
    uint8_t combining_class;
    int32_t lower_delta; // lower case minus the code point; U+0130 has a second character, U+0307, that is not here
};

struct unicode_decomposition {
    uint32_t code_point;
    uint16_t at; // into unicode_decomposition_pool
    uint8_t length;
};

extern const struct unicode_record unicode_records[];
extern const uint8_t unicode_stage1[UNICODE_CODE_POINTS / UNICODE_BLOCK];
extern const uint8_t unicode_stage2[][UNICODE_BLOCK];
extern const size_t unicode_n_decompositions;
extern const struct unicode_decomposition unicode_decompositions[]; // by rising code point
extern const uint32_t unicode_decomposition_pool[];

// The record of a code point up to U+10FFFF.
static inline const struct unicode_record *unicode_lookup(uint32_t code_point)
{
    return &unicode_records[unicode_stage2[unicode_stage1[code_point / UNICODE_BLOCK]][code_point % UNICODE_BLOCK]];
}

// The full canonical decomposition (NFD) of one code point into out[4]; its length, 1 where there is none.
size_t unicode_decompose(uint32_t code_point, uint32_t out[4]);

#endif
