// SPDX-License-Identifier: Apache-2.0
// The small FLUX.2 of the tests as files: the weights of tiny:SEED in diffusers' layout, or as the single files of
// Black Forest Labs.
#ifndef TESTS_UNIT_TINY_FLUX2_H
#define TESTS_UNIT_TINY_FLUX2_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum tiny_flux2_part { TINY_FLUX2_TEXT, TINY_FLUX2_DIT, TINY_FLUX2_VAE };

struct tiny_flux2_options {
    uint64_t seed;
    bool nine;                 // in the proportions of klein-9B: a text encoder as wide as the transformer, a head
    bool base;                 // a folder of a base model
    bool kept;                 // a folder of one that keeps keys and values of references
    bool bfl;                  // transformer.safetensors, ae.safetensors, text_encoder/; else a folder
    bool unaligned;            // tensors begin at odd multiples of 8
    enum tiny_flux2_part part; // that is changed
    const char *drop;          // NULL, or a tensor that is left out
    const char *extra;         // NULL, or one that is too many
    const char *fp8;           // NULL, or one that is stored as fp8
    const char *huge;          // NULL, or one whose values are the largest of bf16
    const char *nan;           // NULL, or one whose values are no numbers
    int64_t text_hidden;       // 0, or what text_encoder/config.json says
    int64_t vocabulary;        // 0, or how many tokens the text encoder knows
};

// Makes DIR (whose parent exists) and what is in it.
int tiny_flux2_write(const char *dir, const struct tiny_flux2_options *o, struct error *err);

#endif
