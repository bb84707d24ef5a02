// SPDX-License-Identifier: Apache-2.0
// The command line, read by the command table.
#ifndef CLI_PARSE_H
#define CLI_PARSE_H

#include "cli/command.h"

// Options every command takes, before it or after it.
extern const struct option global_options[];

// Fills cli->command, operands, values, json, quiet, no_color, help and version from argv[1..argc). Everything lives in
// cli->arena; argv's strings are borrowed. `commands` is ended by NULL.
// With --help or --version, missing operands are no error. Without a command, cli->command stays NULL.
// ERR_USAGE names the option or operand, and the nearest one that exists.
int cli_parse(struct cli *cli, const struct command *const *commands, int argc, char **argv, struct error *err);

// The command of that name, or NULL. A name of two words may be given with a space.
const struct command *command_find(const struct command *const *commands, const char *name);
// ERR_USAGE for a name that is no command: suggests the nearest.
int command_unknown(const struct command *const *commands, const char *name, struct error *err);
// True when some command is called "NAME ...".
bool command_is_group(const struct command *const *commands, const char *name);

// How an option is shown: "-o, --out FILE", "--kernels on|off".
void option_synopsis(struct str *out, const struct option *o);
// Whether `value` is one of the space-separated words.
bool option_is_choice(const char *choices, const char *value);

#endif
