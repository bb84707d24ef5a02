// SPDX-License-Identifier: Apache-2.0
// Makes the bytes of a weight parameter from a checkpoint, as its binding says.
#ifndef IR_BIND_H
#define IR_BIND_H

#include "io/checkpoint.h"
#include "ir/module.h"
#include "num/quantize.h"

// Checks that every weight's sources exist with the element counts and shapes the module expects (ERR_INPUT names the
// tensor, what it is and what it should be).
int bind_check(const struct module *m, const struct checkpoint *c, struct error *err);

// Where the parameter's bytes lie in a file as they are: sources of the same type, one right behind the other. False
// when they have to be made.
struct bind_place {
    size_t file, offset, bytes;
    const char *name; // of the first source
};
bool bind_find(const struct module *m, const struct checkpoint *c, int parameter, struct bind_place *out);
// The same where they lie apart, all in one file: `parts` has room for bind_n_sources places.
int bind_n_sources(const struct module *m, int parameter); // a stack's are those of all its weights
bool bind_parts(const struct module *m, const struct checkpoint *c, int parameter, struct bind_place *parts);

// Writes the parameter's bytes (shape_bytes of its shape) into dst, after the checks of bind_check. `stats`, when not
// NULL, says what quantising or narrowing f32 did (elements 0 when nothing was); nothing is said of stacks. Source
// pages are given back.
int bind_make(const struct module *m, const struct checkpoint *c, int parameter, void *dst, struct quant_stats *stats,
              struct error *err);

// The parameter that holds the scales of the codes in parameter i (the one behind it); -1 when i holds no codes.
int bind_scales_of(const struct module *m, int i);
// Codes and scales of parameter i and of bind_scales_of(m, i) at once: the weights are read and quantised only once.
int bind_make_coded(const struct module *m, const struct checkpoint *c, int i, void *codes, void *scales,
                    struct quant_stats *stats, struct error *err);

#endif
