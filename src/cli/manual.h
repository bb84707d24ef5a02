// SPDX-License-Identifier: Apache-2.0
// The manual, made from the command table: as text for a terminal, and as man pages.
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "cli/command.h"

// The page of one command, and of the program (all commands, environment, exit codes), as text of cli->width columns.
void manual_command(const struct cli *cli, const struct command *c, struct str *out);
void manual_program(const struct cli *cli, const struct command *const *commands, struct str *out);
// The commands of a group ("trace"), as text; false, and nothing is written, when no command belongs to it.
bool manual_group(const struct cli *cli, const struct command *const *commands, const char *group, struct str *out);
// The same as pages for man(7): assay-NAME.1 and assay.1.
void manual_command_roff(const struct command *c, struct str *out);
void manual_program_roff(const struct command *const *commands, struct str *out);
// The few lines that `assay` alone prints.
void manual_usage(const struct command *const *commands, struct str *out);

#endif
