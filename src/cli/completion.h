// SPDX-License-Identifier: Apache-2.0
// Completion scripts for shells, made from the command table.
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "cli/command.h"

void completion_bash(const struct command *const *commands, struct str *out);
void completion_zsh(const struct command *const *commands, struct str *out);

#endif
