// SPDX-License-Identifier: Apache-2.0
#include "models/unicode_tables.h"

// Hangul syllables: The Unicode Standard, section 3.12, conjoining jamo behavior.
static size_t hangul_decompose(uint32_t syllable, uint32_t out[4])
{
    const uint32_t vowels = 21, trails = 28;
    out[0] = 0x1100 + syllable / (vowels * trails);
    out[1] = 0x1161 + syllable % (vowels * trails) / trails;
    out[2] = 0x11A7 + syllable % trails;
    return syllable % trails ? 3 : 2;
}

size_t unicode_decompose(uint32_t code_point, uint32_t out[4])
{
    if (code_point >= 0xAC00 && code_point <= 0xD7A3)
        return hangul_decompose(code_point - 0xAC00, out);
    out[0] = code_point;
    if (!(unicode_lookup(code_point)->flags & UNICODE_DECOMPOSES))
        return 1;
    size_t low = 0, high = unicode_n_decompositions - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (unicode_decompositions[middle].code_point < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    const struct unicode_decomposition *d = &unicode_decompositions[low];
    for (size_t i = 0; i < d->length; i++)
        out[i] = unicode_decomposition_pool[d->at + i];
    return d->length;
}
