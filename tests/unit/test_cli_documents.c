// SPDX-License-Identifier: Apache-2.0
// What commands print under --json follows docs/schemas.
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/output.h"
#include "cli_test.h"
#include "schema.h"
#include "test.h"
#include "worker_test.h"

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
    // Where a plugin is there all the same, beside the program (make gpu), it is the plugin that says what is missing.
    CHECK(strstr(e.message, test_dir()) != NULL || access("third_party/pjrt-gpu", F_OK) == 0);
    cli_test_release(&cli);
    snprintf(faulty, sizeof faulty, "%s/faulty_empty.so", build ? build : "build");
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("devices", "--plugin", faulty), &e), ERR_DEVICE);
    cli_test_release(&cli);
}

TEST(cli_documents_compile_plugin)
{
    struct cli cli;
    struct error e = {0};
    const char *libtpu = worker_test_libtpu();
    if (!libtpu)
        return;
    setenv("TMPDIR", test_dir(), 1);
    REQUIRE_OK(
        cli_test_run(&cli, CLI_WORDS("compile", "gemm:128x128x128:bf16", "--target", "v6e", "--plugin", libtpu), &e),
        &e);
    CHECK_SCHEMA("assay.compile.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
    // Several programs, of which one is refused before it is compiled.
    REQUIRE_OK(cli_test_run(&cli,
                            CLI_WORDS("compile", "builtin:flux2-tiny", "--target", "v6e:2x2", "--plugin", libtpu,
                                      "--program", "text", "--program", "vae", "--layout", "tp=4", "--no-evidence"),
                            &e),
               &e);
    CHECK_SCHEMA("assay.compile.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strstr(str_text(&cli.out), "\"part\"") && strstr(str_text(&cli.out), "the compiler's plan of every program"));
    cli_test_release(&cli);
    // Refused is a row with its reason, and the exit code of a device.
    CHECK_INT(cli_test_run(&cli,
                           CLI_WORDS("compile", "gemm:128x128x128:bf16", "--target", "v6e", "--plugin", libtpu,
                                     "--flag", "nonesuch=1"),
                           &e),
              ERR_DEVICE);
    CHECK_SCHEMA("assay.compile.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strstr(str_text(&cli.out), "No such compile option") != NULL);
    cli_test_release(&cli);
}

TEST(cli_documents_trace_ops)
{
    struct cli cli;
    struct error e = {0};
    char whole[1024], cut[1024];
    struct str bytes;
    str_init(&bytes);
    snprintf(whole, sizeof whole, "%s/tests/fixtures/traces/gpu-mi300x-jax-gemm.xplane.pb", test_top());
    snprintf(cut, sizeof cut, "%s/cut.xplane.pb", test_dir());
    REQUIRE_OK(file_read(&bytes, whole, 1 << 20, &e), &e);
    REQUIRE_OK(file_write(cut, str_text(&bytes), bytes.length - 20000, &e), &e);
    str_release(&bytes);
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("trace", "ops", whole), &e), &e);
    CHECK_SCHEMA("assay.trace.ops.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
    // What can be read of it, and the error, in one document.
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("trace", "ops", cut), &e), ERR_INPUT);
    CHECK_SCHEMA("assay.trace.ops.1.json", str_text(&cli.out), cli.out.length);
    CHECK(strstr(str_text(&cli.out), "\"places\"") && strstr(str_text(&cli.out), "\"bad-input\""));
    cli_test_release(&cli);
}

TEST(cli_documents_trace_memory)
{
    static const char *const names[] = {"gpu-mi300x-jax-conv.xplane.pb.gz", "cpu-small.xplane.pb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct cli cli;
        struct error e = {0};
        char path[1024];
        snprintf(path, sizeof path, "%s/tests/fixtures/traces/%s", test_top(), names[i]);
        REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("trace", "memory", path), &e), &e);
        CHECK_SCHEMA("assay.trace.memory.1.json", str_text(&cli.out), cli.out.length);
        cli_test_release(&cli);
    }
}

TEST(cli_documents_trace_collectives)
{
    struct cli cli;
    struct error e = {0};
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/fixtures/traces/tpu-v6e-4chip-inference.xplane.pb.gz", test_top());
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("trace", "collectives", "--copies", path), &e), &e);
    CHECK_SCHEMA("assay.trace.collectives.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
}

TEST(cli_documents_trace_source)
{
    struct cli cli;
    struct error e = {0};
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/fixtures/traces/gpu-mi300x-jax-gemm.xplane.pb", test_top());
    REQUIRE_OK(cli_test_run(&cli, CLI_WORDS("trace", "source", path), &e), &e);
    CHECK_SCHEMA("assay.trace.source.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
}
