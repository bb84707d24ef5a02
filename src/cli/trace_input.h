// SPDX-License-Identifier: Apache-2.0
// What all commands about profiles share: how they are named, and what becomes of damage.
#ifndef CLI_TRACE_INPUT_H
#define CLI_TRACE_INPUT_H

#include "cli/command.h"
#include "trace/session.h"

#define TRACE_INPUT_TEXT                                                                                               \
    "PATH is a profile (*.xplane.pb, also packed by gzip), several of them, or a directory: one with profiles in it, " \
    "or one with runs below plugins/profile, of which the newest is taken. A damaged file is used as far as it goes; " \
    "the place is named and the exit code is 3."

// Opens the operands, and says which run was taken where there was a choice. Close it even after an error.
int trace_input(struct cli *cli, struct trace *t, struct error *err);
// ERR_INPUT naming the first damaged file and the place in it; 0 when all are whole.
int trace_damage(const struct trace *t, struct error *err);

#endif
