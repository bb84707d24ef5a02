// SPDX-License-Identifier: Apache-2.0
// A program that somebody exported, as a workload: an HLO module in a file, as message or as text.
#ifndef MODELS_PROGRAM_H
#define MODELS_PROGRAM_H

#include "ir/hlo_parse.h"
#include "ir/module.h"

// True for a regular file whose name ends in .hlo.pb, .hlo, .pb or .txt: what XLA's dumps are called.
bool program_is(const char *workload);

struct program {
    const char *path;
    struct hlo_module hlo;
    struct hlo_parsed parsed;
    int64_t first_weight, last_weight; // arguments that are weights; last below first: none
};

// Reads the file into the arena. `weight_args` is "N..M" or "N", or NULL: no argument is a weight. ERR_INPUT,
// ERR_USAGE.
int program_open(struct program *p, const char *path, const char *weight_args, bool lenient, struct arena *arena,
                 struct error *err);
// The module that policies rewrite (hlo_import.h).
int program_module(const struct program *p, struct module *m, struct error *err);
// Whether every float of the module is f32, as policies expect it.
bool program_is_f32(const struct module *m);

#endif
