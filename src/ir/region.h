// SPDX-License-Identifier: Apache-2.0
// Regions of a module: which values an instruction sees, what instructions with several results give.
#ifndef IR_REGION_H
#define IR_REGION_H

#include "ir/module.h"

// Regions lie in each other at most this deep.
#define REGION_MAX_DEPTH 64

// Whether instructions of the region can use the value as an operand: it belongs to the region or one around it, and is
// no instruction with several results.
bool module_sees(const struct module *m, int region, int value);
// How many results an instruction of OPC_MANY has (a case none until its branches return something), and the shape of
// each; false when there is no such result.
int module_n_results(const struct module *m, const struct instruction *in);
bool module_result_shape(const struct module *m, const struct instruction *in, int k, struct shape *out);
// Everything about one instruction that is or will be at `index`: operands, shape, regions. ERR_INTERNAL and ERR_INPUT
// as op_infer; `shape` is what the instruction gives.
int module_check(const struct module *m, const struct instruction *in, int index, struct shape *shape,
                 struct error *err);
// Every region belongs to one instruction. ERR_INTERNAL.
int module_check_regions(const struct module *m, struct error *err);
// Whether the region runs on scalars inside one operation (sort, reduce): what it does is not traffic.
bool module_is_scalar_region(const struct module *m, int region);

#endif
