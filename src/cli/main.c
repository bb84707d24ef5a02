// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/manual.h"
#include "cli/output.h"
#include "cli/parse.h"

// The answer and the errors go to their streams; the exit code follows.
static int finish(struct cli *cli, int rc, struct error *err)
{
    cli_progress_clear(cli);
    if (rc < 0) {
        if (!err->code)
            error_set(err, rc, NULL, "failed without saying why");
        cli_show_error(cli, err);
    }
    int code = rc < 0 ? error_exit_code(rc) : rc;
    struct error written = {0};
    if (cli_write_out(cli, &written) != 0) {
        cli->json = false; // stdout is gone: say it on stderr
        cli_show_error(cli, &written);
        code = code ? code : error_exit_code(written.code);
    }
    if (cli->record)
        cli_note(cli, "%s", cli->record);
    return code;
}

// --version and --help.
static int show_text(struct cli *cli, struct error *err)
{
    struct str text;
    str_init(&text);
    if (cli->version)
        str_add(&text, "assay " ASSAY_VERSION "\n");
    else if (cli->command)
        manual_command(cli, cli->command, &text);
    else
        manual_program(cli, commands, &text);
    int rc = cli_text_result(cli, cli->version ? "version" : "help", &text, err);
    str_release(&text);
    return rc;
}

static int run(struct cli *cli, int argc, char **argv, struct error *err)
{
    cli->argc = argc;
    cli->argv = argv;
    int rc = cli_parse(cli, commands, argc, argv, err);
    if (rc) {
        // The word may come after the mistake; the caller still wants a document.
        for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
            cli->json |= strcmp(argv[i], "--json") == 0;
    }
    cli_output_init(cli);
    if (rc)
        return rc;
    if (cli->version || cli->help)
        return show_text(cli, err);
    if (!cli->command) {
        struct str usage;
        str_init(&usage);
        manual_usage(commands, &usage);
        if (!cli->json)
            fputs(str_text(&usage), stderr);
        str_release(&usage);
        return error_set(err, ERR_USAGE, NULL, "no command given; `assay help` lists them");
    }
    return cli->command->run(cli, err);
}

int main(int argc, char **argv)
{
    cli_guard_streams();
    signal(SIGPIPE, SIG_IGN); // a worker that died is an error to report, not our end
    signal(SIGXFSZ, SIG_IGN); // a file that may not grow is a full disk
    interrupt_install();
    struct cli cli = {0};
    struct error err = {0};
    arena_init(&cli.arena);
    str_init(&cli.out);
    int code = finish(&cli, run(&cli, argc, argv, &err), &err);
    str_release(&cli.out);
    arena_release(&cli.arena);
    return code;
}
