// SPDX-License-Identifier: Apache-2.0
// The cases of tests/fixtures/ir/ops.json as the builder takes them.
#ifndef TESTS_UNIT_IR_CASES_H
#define TESTS_UNIT_IR_CASES_H

#include "ir_test.h"

// A field of a case, "" when it is not there.
const char *ir_case_text(const json_t *c, const char *key);
// The operation of that name; OP_COUNT when there is none.
enum opcode ir_case_opcode(const char *name);
// The value that the case's operation gives on operands x; `want` is the shape of its result.
int ir_case_build(struct builder *b, const struct ir_fixture *f, const json_t *c, const int *x, int n,
                  struct shape want);

// Operations that ops.json has no case of: they run in the programs of test_ir_hlo_import_plugin.c, against JAX.
bool ir_case_in_programs(enum opcode op);

#endif
