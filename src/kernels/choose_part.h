// SPDX-License-Identifier: Apache-2.0
// What the files of the pass share: choose.c walks the module, the others recognise what a kernel does.
#ifndef KERNELS_CHOOSE_PART_H
#define KERNELS_CHOOSE_PART_H

#include "base/str.h"
#include "kernels/choose.h"

#define CHOICE_MAX_OPERANDS 8

// A call that takes an instruction's place.
struct choice {
    enum kernel_kind kind;
    int operands[CHOICE_MAX_OPERANDS];
    int n_operands;
    struct shape shapes[CHOICE_MAX_OPERANDS]; // as the kernel takes them; other than the operand's: reshaped
    char attributes[256];
};

struct chooser {
    const struct module *m;
    int *uses;               // of each value, results included
    struct choice **choices; // of each instruction, NULL: it stays
    struct arena *arena;
    double least_flop;
};

static inline const struct instruction *chooser_at(const struct chooser *c, int i)
{
    return &c->m->instructions[i];
}

// The operand of instruction i when it is of that kind, else -1; with `only`, when nothing else uses it.
int chooser_from(const struct chooser *c, int i, enum opcode op, int operand, bool only);

// What i was before it was widened from bf16, else i. Not through a rounding: that is part of the value.
int chooser_narrow(const struct chooser *c, int i);
// The left operand of binary operation i when its right one is a constant of one value (*value), else -1.
int chooser_with_scalar(const struct chooser *c, int i, enum opcode op, double *value);

// The vector behind i when that is a vector spread along its first dimensions (leading) or its last one, in f32, also
// one of bf16 that was widened afterwards; else -1.
int chooser_spread(const struct chooser *c, int i, bool leading);
// The vector [n], or of [batch, tokens, n] also [batch, n], that is spread over tokens as i; else -1.
int chooser_over_tokens(const struct chooser *c, int i);
// Appends value x to the call's operands.
void chooser_operand(const struct chooser *c, struct choice *out, int x);

// The same for a vector, which the kernel takes in f32.
void chooser_vector(const struct chooser *c, struct choice *out, int x);

// Weights [n, k] of a product in bf16 that are codes: s8, or packed two to a byte, u8 [n, k/2]; times a scale per group
// of columns of each row, rounded to bf16.
struct coded {
    int codes, scales; // f32 [n, groups]; -1: none
    bool packed;
};
bool choose_codes(const struct chooser *c, int w, struct coded *out);
// Appends both to the call's operands.
void choose_codes_operands(const struct chooser *c, const struct coded *w, struct choice *out);

// Each looks at instruction i as the last one of what its kernel does, and fills *out and returns true when it is.
bool choose_product(const struct chooser *c, int i, struct choice *out);
bool choose_convolution(const struct chooser *c, int i, struct choice *out);
bool choose_attention(const struct chooser *c, int i, struct choice *out);
bool choose_group_norm(const struct chooser *c, int i, struct choice *out);
bool choose_swiglu(const struct chooser *c, int i, struct choice *out);
bool choose_rotary(const struct chooser *c, int i, struct choice *out);
bool choose_layer_norm(const struct chooser *c, int i, struct choice *out);

#endif
