// SPDX-License-Identifier: Apache-2.0
#include "cli_test.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/parse.h"

int cli_test_run(struct cli *cli, const char *const *words, struct error *err)
{
    memset(cli, 0, sizeof *cli);
    error_clear(err);
    int argc = 2;
    while (words[argc - 2])
        argc++;
    char **argv = arena_new(&cli->arena, char *, argc + 1, err);
    if (!argv)
        return ERR_MEMORY;
    argv[0] = arena_strdup(&cli->arena, "assay", err);
    argv[1] = arena_strdup(&cli->arena, "--json", err);
    for (int i = 2; i < argc; i++)
        argv[i] = arena_strdup(&cli->arena, words[i - 2], err);
    cli->argc = argc;
    cli->argv = argv;
    int rc = cli_parse(cli, commands, argc, argv, err);
    return rc ? rc : cli->command->run(cli, err);
}

void cli_test_release(struct cli *cli)
{
    str_release(&cli->out);
    arena_release(&cli->arena);
}
