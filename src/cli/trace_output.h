// SPDX-License-Identifier: Apache-2.0
// Where commands without a record leave a profile, and what they say of it.
#ifndef CLI_TRACE_OUTPUT_H
#define CLI_TRACE_OUTPUT_H

#include "cli/command.h"
#include "lab/capture.h"

// `--trace` of a command without a record.
// clang-format off
#define OPTION_TRACE_DIR(what)                                                                                         \
    {.name = "trace", .kind = OPTION_FLAG,                                                                             \
     .help = "make a profile of " what ", below TPU_TRACE_DIR, or else ./tpu-xprof-trace"}
// clang-format on

// The directory that the environment's TPU_TRACE_DIR names, else ./tpu-xprof-trace.
const char *trace_directory(void);
// Writes the profile as a run of its own there and says where, on stderr. *path: its file's, in the command's arena.
int trace_output(struct cli *cli, const struct capture *c, const char **path, struct error *err);

#endif
