// SPDX-License-Identifier: Apache-2.0
// What the files of the import share: hlo_import.c walks computations, hlo_import_operation.c makes operations of one
// value, hlo_import_region.c those with regions or several results.
#ifndef IR_HLO_IMPORT_PART_H
#define IR_HLO_IMPORT_PART_H

#include "ir/builder.h"
#include "ir/hlo_attributes.h"
#include "ir/hlo_import.h"

// What an instruction became: one value, or several for a tuple.
struct value {
    int one;
    const int *many;
    size_t n;
};

struct importing {
    const struct hlo_module *m;
    const struct hlo_import_options *o;
    struct builder b;
    struct arena scratch;
    struct error *err;
    size_t n_arguments, n_visited;
    const struct shape *spread; // inside a map: what its scalars become; NULL elsewhere
};

enum { IMPORT_MAX_CALLS = 64 };

// ERR_INPUT: which instruction, and why not.
int import_refuse(struct importing *s, const struct hlo_instruction *in, const char *why);
// The same where the builder has failed; 0 where it has not.
int import_check(struct importing *s, const struct hlo_instruction *in);
int import_shape(struct importing *s, const struct hlo_instruction *in, const struct hlo_shape *h, struct shape *out);
int import_computation(struct importing *s, const struct hlo_computation *c, const struct value *arguments,
                       size_t n_arguments, int depth, struct value *out);

// The opcode of the table that computes the same; OP_COUNT for none.
enum opcode import_opcode(struct slice opcode);
// The operation that a computation of two numbers applies to them, in either order where that is the same; OP_COUNT for
// another.
enum opcode import_reducer(const struct hlo_computation *c);
int import_constant(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                    struct shape shape, int *out);
int import_operation(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                     const struct shape *shape, int *operands, int *out);

// Whether import_many makes it: a loop, a conditional, a sort, a reduction by more than one operation...
bool import_is_many(const struct hlo_instruction *in, const struct hlo_attributes *a);
int import_many(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                const struct value *operands, int depth, struct value *out);

#endif
