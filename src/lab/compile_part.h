// SPDX-License-Identifier: Apache-2.0
// What the parts of compile.c ask of each other.
#ifndef LAB_COMPILE_PART_H
#define LAB_COMPILE_PART_H

#include "lab/compile.h"
#include "record/tree.h"

// Reads the workload as a program, and makes every case compile it as it is. ERR_INPUT, ERR_USAGE.
int compile_program_open(struct compile *c, struct error *err);
// Compiles one case in a worker of its own and keeps everything that came out. An error here is one of ours.
int compile_case_run(const struct compile *c, struct compile_case *k, size_t number, struct error *err);
// The buffers of a dump: the largest, with their owners.
int compile_case_buffers(struct compile_case *k, const char *folder, struct error *err);
// The schedule from the optimised program, with what the dump of the final code says; `folder` NULL: there is none.
int compile_case_schedule(struct compile_case *k, const struct worker_executable *e, const char *folder,
                          struct error *err);
// The words for how an operation's products are made, and how often they pass through the matrix units.
int compile_case_arithmetic(struct compile_case *k, struct compile_op *op, struct error *err);
// Floors, groups, totals and the prediction.
int compile_case_floors(const struct compile *c, struct compile_case *k, struct error *err);

#endif
