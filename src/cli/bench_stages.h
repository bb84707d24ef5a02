// SPDX-License-Identifier: Apache-2.0
// `assay bench --stages`: an image pipeline stage by stage.
#ifndef CLI_BENCH_STAGES_H
#define CLI_BENCH_STAGES_H

#include "cli/command.h"

// Whether the options ask for it; ERR_USAGE for options that go with the one form of the command and not the other.
int bench_stages_asked(const struct cli *cli, bool *asked, struct error *err);
int bench_stages_run(struct cli *cli, struct error *err);
// --compare of two records.
int bench_stages_compare(struct cli *cli, struct error *err);

#endif
