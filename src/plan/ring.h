// SPDX-License-Identifier: Apache-2.0
// Ring attention: tokens divided over devices, and keys and values going round.
#ifndef PLAN_RING_H
#define PLAN_RING_H

#include "ir/module.h"

enum { RING_MOST = 32 }; // ways: each is a step of the program

// `out` is `m` with every softmax(q k^T) v of two batch dimensions (sequences, heads) in `ways` blocks of tokens: a
// block of queries meets its own keys first and then, a step after the other, those of the next block, with a running
// maximum and sum (Liu et al. 2023, arXiv 2310.01889; Milakov and Gimelshein 2018). Blocks are a dimension of their
// own, the second of all of these products; keys move by turning it, which a partitioner makes a permute when it is
// divided. `out` was initialised; everything is in its arena. ERR_USAGE: no such attention, more ways than RING_MOST,
// tokens or keys that they do not divide, scores that are masked in a way that cannot be cut into blocks.
int ring_attention(const struct module *m, int64_t ways, struct module *out, struct error *err);

#endif
