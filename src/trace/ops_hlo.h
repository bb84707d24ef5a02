// SPDX-License-Identifier: Apache-2.0
// What the HLO of a profile's programs says of their operations.
#ifndef TRACE_OPS_HLO_H
#define TRACE_OPS_HLO_H

#include "ir/hlo.h"
#include "trace/ops.h"

// The HloProto of one program in a profile.
struct trace_program {
    struct trace_file *file;
    uint64_t id;        // 0: not said
    struct slice name;  // "jit_f", a copy
    struct slice proto; // in the file
};

// "jit_f(123)": its name and its number. False when it is not of that form; then *name is all of it.
bool trace_program_split(struct slice entry, struct slice *name, uint64_t *id);
// What an entry of the plane /host:metadata says of a program: id, name and HLO (empty where it has none), all in the
// file. `file` is the caller's.
void trace_program_entry(const struct xplane *p, const struct xmeta *row, struct trace_program *out);
// All programs of a profile with HLO, by id, equal ids by name; in `arena`, but for the protos, which are the files'.
// The id is that in the parentheses of the entry's name, else its program_id, else the entry's own: some writers have
// the latter two wrong.
int trace_programs(const struct trace *t, struct arena *arena, struct trace_program **programs, size_t *n,
                   struct error *err);
// Reads the program's HLO and calls `visit` with it; module, its bytes and `scratch` are gone afterwards. HLO that
// cannot be read is no error: then nothing is called and `unreadable` says why. What visit returns is returned.
typedef int trace_program_visit(void *context, const struct hlo_module *m, struct arena *scratch, struct error *err);
int trace_program_read(const struct trace_program *p, trace_program_visit *visit, void *context,
                       struct error *unreadable, struct error *err);
// Fills in what rows lack: category, scope, source, FLOP and bytes of their executions. A row's program is that of its
// id (and its module's name, where it has one), else the only one of that name.
int trace_ops_hlo(const struct trace *t, struct trace_ops *o, struct error *err);

#endif
