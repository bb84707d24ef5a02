// SPDX-License-Identifier: Apache-2.0
// Numbers for the programs of several files. A TPU's programs are numbered by what is in them; those of GPUs and CPUs
// are counted, so that unrelated runs have the same number for different programs. Where that is so, the later file's
// get other numbers.
#ifndef TRACE_MERGE_PROGRAMS_H
#define TRACE_MERGE_PROGRAMS_H

#include "trace/ops_hlo.h"

struct merge_program {
    size_t file;
    uint64_t id, becomes;
    struct slice name;  // of its module, a copy; empty: nothing says it
    struct slice proto; // in the file
    uint64_t hash;      // of the proto
    size_t owner;       // the first file with the same program
};

struct merge_programs {
    struct merge_program *items; // by id, then by file
    size_t n, cap;
    size_t renumbered;
};

// Looks at all files. Two programs of one number are the same unless their modules' names differ, or the HLO of both is
// there and differs in more than the places of source code. Memory is the trace's. ERR_MEMORY; ERR_INPUT when a file
// shrinks meanwhile.
int merge_programs_find(struct merge_programs *m, struct trace *t, struct error *err);
// NULL: the file has no such program.
const struct merge_program *merge_programs_at(const struct merge_programs *m, size_t file, uint64_t id);

#endif
