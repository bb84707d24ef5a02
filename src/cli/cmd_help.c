// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"
#include "cli/manual.h"
#include "cli/parse.h"

static int run(struct cli *cli, struct error *err)
{
    bool man = cli_flag(cli, "man");
    struct str text;
    str_init(&text);
    int rc = 0;
    if (cli->n_operands == 0) {
        if (man)
            manual_program_roff(commands, &text);
        else
            manual_program(cli, commands, &text);
    } else {
        const char *name = cli->operands[0];
        if (cli->n_operands == 2)
            name = arena_printf(&cli->arena, err, "%s %s", cli->operands[0], cli->operands[1]);
        const struct command *c = name ? command_find(commands, name) : NULL;
        if (!name)
            rc = ERR_MEMORY;
        else if (!c && !man && manual_group(cli, commands, name, &text))
            ;
        else if (!c)
            rc = command_unknown(commands, name, err);
        else if (man)
            manual_command_roff(c, &text);
        else
            manual_command(cli, c, &text);
    }
    if (!rc)
        rc = cli_text_result(cli, "help", &text, err);
    str_release(&text);
    return rc;
}

const struct command command_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .max_operands = 2,
    .operand_complete = COMPLETE_COMMAND,
    .summary = "the manual page of a command, or of the program",
    .description =
        (const char *const[]){
            "Prints the manual page of COMMAND, which `assay COMMAND --help` does too; without COMMAND that of the "
            "program, which lists all commands, the exit codes and the environment.",
            "The page, the man page and the completion of the shells are made from the same table as the parser, so "
            "they "
            "say what the program does.",
            NULL},
    .options =
        (const struct option[]){{.name = "man", .help = "print the page as a man page, for man(1) or mandoc(1)"}, {0}},
    .examples = (const struct example[]){{"assay help chips", "how to read the specification table"},
                                         {"assay help --man chips | man -l -", "the same in the pager of man(1)"},
                                         {0}},
    .run = run,
};
