// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cli/commands.h"
#include "cli/completion.h"

static void shells(struct str *out)
{
    str_add(out, "bash\nzsh\n");
}

static int run(struct cli *cli, struct error *err)
{
    const char *shell = cli->operands[0];
    struct str text;
    str_init(&text);
    int rc = 0;
    if (strcmp(shell, "bash") == 0)
        completion_bash(commands, &text);
    else if (strcmp(shell, "zsh") == 0)
        completion_zsh(commands, &text);
    else
        rc = error_set(err, ERR_USAGE, "completion", "there is none for \"%s\"; there is bash, zsh", shell);
    if (!rc)
        rc = cli_text_result(cli, "completion", &text, err);
    str_release(&text);
    return rc;
}

const struct command command_completion = {
    .name = "completion",
    .operands = "bash|zsh",
    .min_operands = 1,
    .max_operands = 1,
    .operand_words = shells,
    .summary = "the script that completes commands and options in a shell",
    .description = (const char *const[]){"Prints the completion script for bash or zsh. It completes commands, "
                                         "options, the values of options that have "
                                         "a known list (chips, policies, formats) and files.",
                                         NULL},
    .examples = (const struct example[]){{"source <(assay completion bash)", "for this shell; put it into ~/.bashrc"},
                                         {"assay completion zsh > ~/.zfunc/_assay",
                                          "for zsh, where ~/.zfunc is in fpath and compinit runs afterwards"},
                                         {0}},
    .run = run,
};
