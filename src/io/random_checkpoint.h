// SPDX-License-Identifier: Apache-2.0
// A checkpoint of random weights in memory, for benchmarks and tests of models whose weights are not there. Made fast:
// every value is four operations on a counter, so that 14 GB take seconds, and any part can be made by itself.
#ifndef IO_RANDOM_CHECKPOINT_H
#define IO_RANDOM_CHECKPOINT_H

#include "io/checkpoint.h"

struct random_tensor {
    const char *name;
    int rank;
    int64_t dims[CHECKPOINT_MAX_RANK];
};

// Opens `c` with bf16 tensors in a memfd, each at a multiple of 64 bytes and right behind the one before where that is
// so. Value i of a tensor is bf16(middle + reach u), u = (h + 0.5) / 32768 - 1 in f32, where h is 16 bits, number i % 4
// from below, of word i / 4 of the stream; word w is SplitMix64's output for state key + (w + 1) 0x9e3779b97f4a7c15,
// and key is its output for state seed + FNV-1a(name). Matrices and kernels have middle 0 and reach
// sqrt(3 / fan_in) (variance 1 / fan_in, fan_in = elements / rows); of vectors, "running_var" 1 and 0.5,
// "running_mean" 0 and 0.35, "bias" 0 and 0.17, all others (scales of norms) 1 and 0.17. What initial values would
// hide (norms of 1, biases of 0) shows.
int random_checkpoint(struct checkpoint *c, const struct random_tensor *tensors, size_t n, uint64_t seed,
                      struct error *err);
// The memory it takes.
int random_checkpoint_bytes(const struct random_tensor *tensors, size_t n, size_t *bytes, struct error *err);

#endif
