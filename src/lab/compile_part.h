// SPDX-License-Identifier: Apache-2.0
// What the parts of compile.c ask of each other.
#ifndef LAB_COMPILE_PART_H
#define LAB_COMPILE_PART_H

#include "ir/hlo_attributes.h"
#include "lab/compile.h"
#include "models/builtin.h"
#include "record/tree.h"

// Reads the workload as a program, and makes every case compile it as it is. ERR_INPUT, ERR_USAGE.
int compile_program_open(struct compile *c, struct error *err);
// The program of a case from the f32 module of its workload, or (compile_job.modules) from one that is ready: under its
// policy, its part of a pipeline, divided by its layout. `shape` says how to build the workload with another batch, for
// pipelines; NULL: it cannot be built so. ERR_USAGE.
int compile_case_model(struct compile *c, struct compile_case *k, struct module *plain, const struct model_shape *shape,
                       struct error *err);
// Compiles one case in a worker of its own and keeps everything that came out. An error here is one of ours.
int compile_case_run(const struct compile *c, struct compile_case *k, size_t number, struct error *err);
// Where the devices of the target lie, from what the plugin says of them.
int compile_case_places(struct compile_case *k, const struct worker_device *devices, size_t n, struct error *err);
// The name of the collective that an instruction is, or that its fusion holds; *of is the instruction itself. NULL:
// none.
const char *compile_collective_of(const struct hlo_instruction *in, const struct hlo_instruction **of);
// What hosts pass between slices while the program runs: a name as above, NULL for other instructions.
const char *compile_between_slices(const struct hlo_instruction *in, const struct hlo_attributes *a);
// Groups, array and strategy of a collective.
int compile_collective_describe(struct compile_case *k, struct compile_op *op, const struct hlo_instruction *of,
                                struct arena *scratch, struct error *err);
// Its wire time: floor_s, or wire_reason.
int compile_collective_price(struct compile_case *k, struct compile_op *op, struct error *err);
// The buffers of a dump: the largest, with their owners.
int compile_case_buffers(struct compile_case *k, const char *folder, struct error *err);
// The schedule from the optimised program, with what the dump of the final code says; `folder` NULL: there is none.
int compile_case_schedule(struct compile_case *k, const struct worker_executable *e, const char *folder,
                          struct error *err);
// The words for how an operation's products are made, and how often they pass through the matrix units.
int compile_case_arithmetic(struct compile_case *k, struct compile_op *op, struct error *err);
// What emulated types cost: the case's emulations. Compiles what is not known of earlier cases.
int compile_case_emulations(const struct compile *c, struct compile_case *k, struct error *err);
// Floors, groups, totals and the prediction.
int compile_case_floors(const struct compile *c, struct compile_case *k, struct error *err);

#endif
