// SPDX-License-Identifier: Apache-2.0
// Cutting a module at its own results, so that each part can be compared by itself: what goes into a part is what
// somebody else has for it, not what the part before made of it. And leaving out what is not asked for.
#ifndef IR_INJECT_H
#define IR_INJECT_H

#include "ir/builder.h"

// How the inputs are called that take the place of results.
#define INJECT_PREFIX "injected."

// `to` is `from` with an input INJECT_PREFIX NAME, of the result's shape, wherever result NAME is used by what comes
// after it, for every result i with cut[i]. The results are the same ones. Inputs of what no result needs any more
// stay.
int module_inject(const struct module *from, const bool *cut, struct module *to, struct error *err);

// `to` is the part of `from` that the results i with keep[i] need, with no other results and no other parameters.
int module_keep(const struct module *from, const bool *keep, struct module *to, struct error *err);

#endif
