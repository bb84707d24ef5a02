// SPDX-License-Identifier: Apache-2.0
// StableHLO translated by the plugin, and what is left behind when that fails: nothing.
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "ir/hlo.h"
#include "worker_test.h"

static const char add_text[] = "module @add {\n"
                               "  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "    %y = stablehlo.add %x, %x : tensor<4xf32>\n"
                               "    return %y : tensor<4xf32>\n"
                               "  }\n"
                               "}\n";

static bool is_empty(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n == 2;
}

// Translates with the temporary folder in the test's own, with the faulty plugin where a fault is named.
static int lower(const char *text, const char *fault, double timeout_s, struct str *hlo, struct worker_lowering *why,
                 struct error *err)
{
    char tmp[512];
    snprintf(tmp, sizeof tmp, "%s", test_dir());
    setenv("TMPDIR", tmp, 1);
    setenv("ASSAY_FAULT", fault ? fault : "", 1);
    struct worker_options o = {.plugin_path = fault ? pjrt_test_beside("faulty_plugin.so") : pjrt_test_plugin(false),
                               .skip_hash = true,
                               .compile_timeout_s = timeout_s};
    struct worker_program p = {.text = text, .length = strlen(text), .format = "mlir", .name = "add.mlir"};
    int fds = worker_test_open_fds();
    str_init(hlo);
    int rc = worker_lower(&o, &p, hlo, why, err);
    CHECK_INT(worker_test_open_fds(), fds);
    CHECK(worker_test_no_child_left());
    CHECK(is_empty(tmp));
    return rc;
}

TEST(worker_plugin_lower_gives_the_module_before_optimisation)
{
    struct str hlo;
    struct worker_lowering why;
    struct error err = {0};
    struct arena arena;
    struct hlo_module m;
    arena_init(&arena);
    REQUIRE_OK(lower(add_text, NULL, 0, &hlo, &why, &err), &err);
    REQUIRE_OK(hlo_read(&m, hlo.text, hlo.length, "add", &arena, &err), &err);
    CHECK(slice_is(m.name, "add"));
    CHECK(!m.is_scheduled);
    CHECK_INT(m.entry->n_instructions, 2);
    CHECK(hlo_is(m.entry->root, "add"));
    arena_release(&arena);
    str_release(&hlo);
}

TEST(worker_plugin_lower_says_who_failed)
{
    struct str hlo;
    struct worker_lowering why;
    struct error err = {0};
    // A text that is none is refused by a plugin that goes on living; the compiler's own failures are told from that.
    CHECK_ERROR(lower("modul @x {}", NULL, 0, &hlo, &why, &err), ERR_DEVICE, "-:1:1: error", &err);
    CHECK(why.refused && !why.died);
    str_release(&hlo);
    CHECK_ERROR(lower(add_text, "abort-compile", 0, &hlo, &why, &err), ERR_DEVICE, "SIGABRT", &err);
    CHECK(!why.refused && why.died);
    str_release(&hlo);
    CHECK_ERROR(lower(add_text, "hang-compile", 1, &hlo, &why, &err), ERR_DEVICE, "time limit of 1 s", &err);
    CHECK(!why.refused && why.died);
    str_release(&hlo);
    CHECK_ERROR(lower(add_text, "no-dump", 0, &hlo, &why, &err), ERR_DEVICE, "did not write down", &err);
    str_release(&hlo);
    struct worker_options nowhere = {.plugin_path = "/nowhere/plugin.so"};
    struct worker_program p = {.text = add_text, .length = sizeof add_text - 1, .format = "mlir"};
    CHECK_ERROR(worker_lower(&nowhere, &p, &hlo, &why, &err), ERR_DEVICE, "/nowhere/plugin.so", &err);
    CHECK(!why.refused && !why.died);
    setenv("TMPDIR", "/nowhere", 1);
    CHECK_ERROR(worker_lower(&nowhere, &p, &hlo, &why, &err), ERR_IO, "TMPDIR", &err);
}

TEST(worker_plugin_lower_leaves_nothing_when_interrupted)
{
    struct str hlo;
    struct worker_lowering why;
    struct error err = {0};
    interrupt_install();
    pid_t child = fork(); // sends the signal when the compiler hangs
    REQUIRE(child >= 0);
    if (child == 0) {
        usleep(300000);
        kill(getppid(), SIGTERM);
        _exit(0);
    }
    char tmp[512];
    snprintf(tmp, sizeof tmp, "%s", test_dir());
    setenv("TMPDIR", tmp, 1);
    setenv("ASSAY_FAULT", "hang-compile", 1);
    struct worker_options o = {.plugin_path = pjrt_test_beside("faulty_plugin.so"), .skip_hash = true};
    struct worker_program p = {.text = add_text, .length = sizeof add_text - 1, .format = "mlir", .name = "add"};
    str_init(&hlo);
    CHECK_ERROR(worker_lower(&o, &p, &hlo, &why, &err), ERR_INTERRUPTED, "SIGTERM while compiling", &err);
    CHECK(!why.refused && !why.died);
    CHECK(is_empty(tmp));
    str_release(&hlo);
}
