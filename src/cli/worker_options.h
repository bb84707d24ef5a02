// SPDX-License-Identifier: Apache-2.0
// The worker that a command's options ask for.
#ifndef CLI_WORKER_OPTIONS_H
#define CLI_WORKER_OPTIONS_H

#include "cli/command.h"
#include "worker/worker.h"

// --device, --plugin, --threads and --timeout, which holds for loading, compiling and running alike. The command has
// all four (options.h).
struct worker_options cli_worker_options(const struct cli *cli);
// The same for a pipeline of large programs: half an hour to compile and an hour to run, unless --timeout says other.
struct worker_options cli_pipeline_worker(const struct cli *cli);
// Whether --kernels is on, for a command that takes it once.
bool cli_wants_kernels(const struct cli *cli);

#endif
