// SPDX-License-Identifier: Apache-2.0
// The HLO of an event that names its operation and its program, as text, where the profile has the program.
#ifndef TRACE_TIMELINE_HLO_H
#define TRACE_TIMELINE_HLO_H

#include "base/str.h"
#include "trace/session.h"

struct timeline_hlo;

// ERR_MEMORY, or ERR_INPUT when a file shrinks meanwhile.
int timeline_hlo_new(struct timeline_hlo **out, const struct trace *t, struct error *err);
void timeline_hlo_free(struct timeline_hlo *h); // NULL is fine
// Appends one line of HLO to `out`; nothing where the program or the operation is not known. The caller guards the
// file. ERR_MEMORY.
int timeline_hlo_text(struct timeline_hlo *h, const struct trace_file *file, uint64_t program, struct slice module,
                      struct slice operation, struct str *out, struct error *err);

#endif
