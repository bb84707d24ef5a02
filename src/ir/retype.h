// SPDX-License-Identifier: Apache-2.0
// Rewriting a module: the same graph again with some of it changed.
#ifndef IR_RETYPE_H
#define IR_RETYPE_H

#include "ir/builder.h"

// The reference: the same graph in which every floating-point value is f64. Parameters keep their stored type and are
// converted where they enter; constants are exact doubles and symbols take f64's values; integers, predicates and bit
// operations stay; a convert marked FLAG_MODEL_ROUNDING rounds as it did (through its type and back). Results are f64.
// ERR_INTERNAL for a module that was already narrowed by a policy (it has quantised weights).
int module_retype_f64(const struct module *from, struct module *to, struct error *err);

// Appends a copy of `in` whose operands are looked up in `map` (old index -> new value). Scope, group, domain and flags
// are kept. For OP_PARAMETER the parameter is appended too.
int rewrite_copy(struct builder *b, const struct module *from, const struct instruction *in, const int *map);

#endif
