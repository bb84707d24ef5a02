// SPDX-License-Identifier: Apache-2.0
// What training keeps beside the weights: gradients, master weights and optimizer state by recipe, and activations.
//
//     adam-18    2 weight + 4 gradient + 4 master + 8 moments = 18 B a parameter
//     adam-16    the gradient in 2: 16 B
//     adam-8bit  moments in a byte each with an f32 maximum per 256, f32 in tensors below 4096 parameters
//                (bitsandbytes, optim/optimizer.py)
//     adafactor  the second moment as f32 rows and columns of each matrix, and no first moment
//     sgd        no state; sgd-momentum: 4 B
#ifndef PLAN_TRAINING_H
#define PLAN_TRAINING_H

#include "ir/policy.h"
#include "plan/weights.h"

enum optimizer { OPTIMIZER_ADAM, OPTIMIZER_ADAM_8BIT, OPTIMIZER_ADAFACTOR, OPTIMIZER_SGD, OPTIMIZER_MOMENTUM };

struct recipe {
    const char *name;
    enum optimizer optimizer;
    enum dtype weight, grad, master, moment; // DT_INVALID: there is none
};

// ERR_USAGE lists what there is.
int recipe_find(const char *name, struct recipe *out, struct error *err);
const char *recipe_name(size_t i); // NULL past the last
void recipe_words(struct str *out);
// The policy's fields w=, grad=, master= and opt= in place of the recipe's own.
void recipe_under_policy(struct recipe *r, const struct policy *p);
// Bytes of optimizer state of the parameters of one device, before zero and fsdp divide.
double recipe_state_bytes(const struct recipe *r, const struct weights_local *w);
// "2 weight + 4 gradient + 4 master + 8 moments = 18 B", appended.
void recipe_formula(const struct recipe *r, struct str *out);

enum remat {
    REMAT_NONE,      // everything that the backward pass reads is kept
    REMAT_SELECTIVE, // all but what attention makes from queries and keys
    REMAT_FULL,      // the input of every layer alone
};

struct activation_options {
    double batch, seq; // on this device: sequences of one microbatch, tokens of one sequence
    enum remat remat;
    bool flash; // scores are never whole
    double item_bytes;
};

// Bytes that one layer (dense or with experts) keeps of one microbatch for the backward pass. For an encoder of
// Korthikanti et al. (arXiv 2205.05198: as many heads of keys as of queries, ffn of 4 hidden, dropout) these are its
// s b h (34 + 5 a s / h), under tp s b h (10 + 24 / t + 5 a s / (h t)), with sp everything over t.
double activation_layer_bytes(const struct arch *a, bool experts, const struct activation_options *o,
                              const struct layout *l);
// What a decoder's layer keeps beside that to attend to what an encoder saw, `seen` tokens of each sequence on this
// device: what enters its norm and what that hands on, queries and the attention's result of every token; keys and
// values of every token that was seen.
double activation_cross_bytes(const struct arch *a, const struct activation_options *o, double seen,
                              const struct layout *l);
// Bytes that a block of an image transformer keeps for each token of `images` on this device: with D features and M
// columns of the ffn 13 D + 4 M values (single stream), or 16 D + 4 M (text and image in streams of their own; 17 D
// where there are several images: then each stream's share of the attention's result is a copy), and the norms'
// statistics. Below 32 bits the norms of queries and keys run in f32: 12 D (8 D) bytes more. Measured with PyTorch
// (tests/oracle/saved.py). Rematerialised it keeps its input alone.
double activation_block_bytes(const struct arch *a, bool two_streams, double images, enum remat remat,
                              double item_bytes);
// The same of what stands around the blocks, for all tokens of the images: what enters the embedders, the last block's
// result, what enters and leaves the last norm; and, once for all images, the tables of positions.
double activation_around_bytes(const struct arch *a, double images, double image_tokens, double item_bytes);
// Bytes of the scores of one layer while they exist: a head pair of every two tokens, f32 when served.
double activation_scores_bytes(const struct arch *a, double batch, double queries, double keys, double item_bytes,
                               const struct layout *l);
// Bytes a token needs in one layer while it runs and nothing is kept: residual, norm, queries, keys, values, ffn.
double activation_token_bytes(const struct arch *a, double item_bytes, const struct layout *l);

#endif
