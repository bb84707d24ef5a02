// SPDX-License-Identifier: Apache-2.0
// From an HLO module as it was exported, before any optimisation, to the module that policies rewrite. What the
// operation table lacks is refused by name: such a program is priced as it is (hlo_cost.h).
#ifndef IR_HLO_IMPORT_H
#define IR_HLO_IMPORT_H

#include "ir/hlo.h"
#include "ir/module.h"

struct hlo_import_options {
    const char *name;                  // of the file, for messages
    int64_t first_weight, last_weight; // arguments that are weights, from 0; last below first: none
};

// Calls are written out, loops and branches become regions; what a loop's body returns as it came is no state but a
// value that the body uses, so weights stay parameters. A parameter is named as its op_name says ("params['w']"), else
// as the instruction; a weight's binding names the tensor in the same way. Scopes are the paths of op_name without the
// function ("jit(f)") and the operation at its end; a group is a scope whose numbers are left out. Values that go into
// products and come out of them are handed on (FLAG_STORE). ERR_INPUT names the instruction: an operation that is not
// in the table, a constant whose values the text left out, more than 2^20 instructions; ERR_USAGE for weights that are
// not arguments.
int hlo_import(const struct hlo_module *m, const struct hlo_import_options *o, struct module *out, struct error *err);

// Whether a compiler has been through it: it is scheduled, or has fusions. Such a module is not imported.
bool hlo_is_optimised(const struct hlo_module *m);

// What an argument is called: its op_name ("params['w']"), else its instruction. In the arena; NULL without memory.
const char *hlo_argument_name(const struct hlo_instruction *in, struct arena *arena, struct error *err);

// "layers_0/mlp" of "jit(f)/layers_0/mlp/dot_general"; "main" where nothing is left.
int hlo_scope(const struct hlo_instruction *in, struct arena *arena, const char **scope, struct error *err);
// "layers_*/mlp" of "layers_0/mlp".
int hlo_scope_group(const char *scope, struct arena *arena, const char **group, struct error *err);

#endif
