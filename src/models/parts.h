// SPDX-License-Identifier: Apache-2.0
// What models are put together from: the same sums in the same order wherever they occur.
#ifndef MODELS_PARTS_H
#define MODELS_PARTS_H

#include "ir/builder.h"

// x [..., in] by the weight `tensor` [out, in] of a checkpoint: [..., out]. No bias.
int part_linear(struct builder *b, int x, const char *tensor, int64_t out);
// The same with n (at most 4) weights stacked: one product of n * out columns in place of n. Names are a prefix, one of
// `suffixes` each, and ".weight".
int part_stacked_linear(struct builder *b, int x, const char *prefix, const char *const *suffixes, const int64_t *outs,
                        int n);
// x + the vector `bias` over the last dimension.
int part_add_bias(struct builder *b, int x, int bias);
int part_softmax(struct builder *b, int x); // over the last dimension
int part_silu(struct builder *b, int x);
int part_gelu_tanh(struct builder *b, int x); // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
// silu of the first half of the last dimension times the second half.
int part_swiglu(struct builder *b, int x);
// x / sqrt(mean x^2 + eps) times the vector `weight`, over the last dimension.
int part_rms_norm(struct builder *b, int x, int weight, double eps);
// (x - mean) / sqrt(variance + eps) over the last dimension, the variance that of the population.
int part_layer_norm(struct builder *b, int x, double eps);
// Over groups of channels, x [batch, height, width, channels]; gamma and beta [channels].
int part_group_norm(struct builder *b, int x, int64_t groups, int gamma, int beta, double eps);
// Rotary positions: x [batch, tokens, heads, dim], tables [tokens, dim / 2]. A feature pairs with the one half of dim
// away, or with its neighbour.
int part_rotate_half(struct builder *b, int x, int cosine, int sine);
int part_rotate_pairs(struct builder *b, int x, int cosine, int sine);
// softmax(q k^T / sqrt(dim)) v. q [batch, tokens, heads, dim], k [batch, keys, kv heads, dim] and v [batch, keys,
// kv heads, value], where kv heads divides heads; visible pred [batch, tokens, keys] or -1. Result [batch, tokens,
// heads * value].
int part_attention(struct builder *b, int q, int k, int v, int visible);
// s32: how many values are infinite or no numbers.
int part_nonfinite(struct builder *b, int x);
// The tables' entries for one pair of features: cosine and sine of position * theta^(-2 pair / dim), in double.
void part_rope_angle(double position, int64_t pair, int64_t dim, double theta, float *cosine, float *sine);

#endif
