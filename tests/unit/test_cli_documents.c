// SPDX-License-Identifier: Apache-2.0
// What commands print under --json follows docs/schemas.
#include <stdlib.h>

#include "cli/output.h"
#include "cli_test.h"
#include "schema.h"
#include "test.h"

TEST(cli_documents_follow_their_schemas)
{
    struct cli cli;
    struct error e = {0};
    setenv("XDG_CACHE_HOME", test_dir(), 1);
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("chips"), &e), &e);
    CHECK_SCHEMA("assay.chips.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("chips", "v5e", "local"), &e), &e);
    CHECK_SCHEMA("assay.chips.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("help", "chips"), &e), &e);
    CHECK_SCHEMA("assay.help.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("completion", "zsh"), &e), &e);
    CHECK_SCHEMA("assay.completion.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
    // An error is a document, too.
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("chips", "v99\x1b\""), &e), ERR_USAGE);
    cli_show_error(&cli, &e);
    CHECK_SCHEMA("assay.error.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strchr(str_text(&cli.out), '\x1b') == NULL);
    cli_test_release(&cli);
}

TEST(cli_documents_devices_plugin)
{
    struct cli cli;
    struct error e = {0};
    char faulty[1024];
    const char *build = getenv("BUILD");
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("devices"), &e), &e);
    CHECK_SCHEMA("assay.devices.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strstr(str_text(&cli.out), "\"stablehlo_current_version") == NULL); // attributes are one text
    cli_test_release(&cli);
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("devices", "--device", "cpu"), &e), &e);
    CHECK_SCHEMA("assay.devices.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strstr(str_text(&cli.out), "\"kind\": \"cpu\"") != NULL);
    cli_test_release(&cli);
    // What was asked for and is not there is an error.
    setenv("ASSAY_PLUGIN_PATH", test_dir(), 1);
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("devices", "--device", "gpu"), &e), ERR_DEVICE);
    CHECK(strstr(e.message, test_dir()) != NULL);
    cli_test_release(&cli);
    snprintf(faulty, sizeof faulty, "%s/faulty_empty.so", build ? build : "build");
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("devices", "--plugin", faulty), &e), ERR_DEVICE);
    cli_test_release(&cli);
}
