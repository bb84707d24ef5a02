// SPDX-License-Identifier: Apache-2.0
// The reference: the same graph in f64.
#ifndef IR_RETYPE_H
#define IR_RETYPE_H

#include "ir/rewrite.h"

// The reference: the same graph in which every floating-point value is f64. Parameters keep their stored type and are
// converted where they enter; constants are exact doubles and symbols take f64's values; integers, predicates and bit
// operations stay; a convert marked FLAG_MODEL_ROUNDING rounds as it did (through its type and back). Results are f64.
// ERR_INTERNAL for a module that was already narrowed by a policy (it has quantised weights).
int module_retype_f64(const struct module *from, struct module *to, struct error *err);

#endif
