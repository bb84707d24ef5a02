// SPDX-License-Identifier: Apache-2.0
// What people read of `assay compile`, on a terminal and as Markdown.
#ifndef CLI_COMPILE_PRINT_H
#define CLI_COMPILE_PRINT_H

#include "cli/command.h"
#include "lab/compile.h"

// One program in full, of a request each of its programs and what they take together, of several targets, policies or
// flags a table.
int compile_print(struct cli *cli, const struct compile *c, struct error *err);

#endif
