// SPDX-License-Identifier: Apache-2.0
// What commands print under --json follows docs/schemas.
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "schema.h"
#include "test.h"

// Runs a command in this process; its document is in cli->out.
static int run(struct cli *cli, char *const *words, struct error *err)
{
    char *argv[16] = {(char[]){"assay"}, (char[]){"--json"}};
    int argc = 2;
    for (; words[argc - 2]; argc++)
        argv[argc] = words[argc - 2];
    memset(cli, 0, sizeof *cli);
    error_clear(err);
    int rc = cli_parse(cli, commands, argc, argv, err);
    return rc ? rc : cli->command->run(cli, err);
}

#define WORDS(...) ((char *const[]){__VA_ARGS__, NULL})

static void release(struct cli *cli)
{
    str_release(&cli->out);
    arena_release(&cli->arena);
}

TEST(cli_documents_follow_their_schemas)
{
    struct cli cli;
    struct error e = {0};
    setenv("XDG_CACHE_HOME", test_dir(), 1);
    char chips[] = "chips", v5e[] = "v5e", local[] = "local", help[] = "help", completion[] = "completion",
         zsh[] = "zsh";
    REQUIRE_OK(run(&cli, WORDS(chips), &e), &e);
    CHECK_SCHEMA("assay.chips.1.json", str_text(&cli.out), cli.out.length);
    release(&cli);
    REQUIRE_OK(run(&cli, WORDS(chips, v5e, local), &e), &e);
    CHECK_SCHEMA("assay.chips.1.json", str_text(&cli.out), cli.out.length);
    release(&cli);
    REQUIRE_OK(run(&cli, WORDS(help, chips), &e), &e);
    CHECK_SCHEMA("assay.help.1.json", str_text(&cli.out), cli.out.length);
    release(&cli);
    REQUIRE_OK(run(&cli, WORDS(completion, zsh), &e), &e);
    CHECK_SCHEMA("assay.completion.1.json", str_text(&cli.out), cli.out.length);
    release(&cli);
    // An error is a document, too.
    char unknown[] = "v99\x1b\"";
    CHECK_INT(run(&cli, WORDS(chips, unknown), &e), ERR_USAGE);
    cli_show_error(&cli, &e);
    CHECK_SCHEMA("assay.error.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strchr(str_text(&cli.out), '\x1b') == NULL);
    release(&cli);
}

TEST(cli_documents_devices_plugin)
{
    struct cli cli;
    struct error e = {0};
    char devices[] = "devices", device[] = "--device", gpu[] = "gpu", cpu[] = "cpu", plugin[] = "--plugin";
    char faulty[1024];
    const char *build = getenv("BUILD");
    REQUIRE_OK(run(&cli, WORDS(devices), &e), &e);
    CHECK_SCHEMA("assay.devices.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strstr(str_text(&cli.out), "\"stablehlo_current_version") == NULL); // attributes are one text
    release(&cli);
    REQUIRE_OK(run(&cli, WORDS(devices, device, cpu), &e), &e);
    CHECK_SCHEMA("assay.devices.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strstr(str_text(&cli.out), "\"kind\": \"cpu\"") != NULL);
    release(&cli);
    // What was asked for and is not there is an error.
    setenv("ASSAY_PLUGIN_PATH", test_dir(), 1);
    CHECK_INT(run(&cli, WORDS(devices, device, gpu), &e), ERR_DEVICE);
    CHECK(strstr(e.message, test_dir()) != NULL);
    release(&cli);
    snprintf(faulty, sizeof faulty, "%s/faulty_empty.so", build ? build : "build");
    CHECK_INT(run(&cli, WORDS(devices, plugin, faulty), &e), ERR_DEVICE);
    release(&cli);
}
