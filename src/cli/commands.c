// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

#define ADDRESS(name) &command_##name,
const struct command *const commands[] = {COMMANDS(ADDRESS) NULL};
