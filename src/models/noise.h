// SPDX-License-Identifier: Apache-2.0
// The noise that a diffusion model starts from, drawn as its references draw it, so that a seed gives the same picture.
#ifndef MODELS_NOISE_H
#define MODELS_NOISE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum noise_kind {
    NOISE_TORCH,           // torch.randn on the CPU in f32, by torch's plain code
    NOISE_TORCH_BF16,      // the same in bf16, as torch 2.15 makes it: the f32 numbers, rounded
    NOISE_TORCH_AVX2,      // in f32 by its vector code: what torch gives on x86-64 CPUs of today, bit for bit
    NOISE_TORCH_AVX2_BF16, // the same in bf16, as torch 2.15 makes it
    NOISE_TORCH1_BF16,     // in bf16, as torch 1.13 made it: another stream
    NOISE_JAX,             // jax.random.normal(key(seed)) in f32 (partitionable threefry)
    NOISE_KINDS
};

// "torch", "torch-bf16", "torch-avx2", "torch-avx2-bf16", "torch1-bf16", "jax"
const char *noise_name(enum noise_kind k);
// By name; ERR_USAGE lists the names there are. `where` is the option that asked, for the message.
int noise_from_name(const char *name, const char *where, enum noise_kind *out, struct error *err);

// Normal numbers of the shape [batch, channels, rows, columns], drawn in that order by one generator, as a tensor of
// this shape is drawn; out is [batch, rows * columns, channels]: tokens, row by row. For FLUX.2, whose packed latent
// has 128 channels (channel 4 c + 2 y + x is channel c at (y, x) of a token's 2 by 2), rows = height / 16 and columns =
// width / 16. The values of the bf16 kinds are of bf16. ERR_MEMORY; ERR_USAGE for a shape of nothing or of 2^40 numbers
// and more.
int noise_tokens(enum noise_kind kind, uint64_t seed, size_t batch, size_t channels, size_t rows, size_t columns,
                 float *out, struct error *err);

#endif
