// SPDX-License-Identifier: Apache-2.0
// A worker whose plugin is missing, is none, or misbehaves.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "worker_test.h"

// Starting with these options fails with ERR_DEVICE or the code; gives the failure where there must be one.
static void check_refused(const struct worker_options *o, int code, const char *text, enum worker_failure_kind kind,
                          int value, bool is_failure)
{
    struct worker *w;
    struct error err = {0};
    CHECK_INT(worker_start(&w, o, &err), code);
    CHECK_INT(err.code, code);
    if (!strstr(err.message, text) && !strstr(err.where, text))
        test_fail_error(__FILE__, __LINE__, text, err.where, err.message);
    CHECK_INT(w && worker_failure(w), is_failure);
    if (w && worker_failure(w)) {
        CHECK_INT(worker_failure(w)->kind, kind);
        CHECK_INT(worker_failure(w)->value, value);
        CHECK(strstr(worker_failure(w)->doing, "loading the plugin") != NULL);
        // Every later call says the same.
        struct error again = {0};
        CHECK_INT(worker_free(w, 0, &again), code);
        CHECK_STR(again.message, err.message);
    }
    worker_stop(w);
    CHECK(worker_test_no_child_left());
}

TEST(worker_plugin_missing_or_none)
{
    struct worker_options o = {.plugin_path = "/nowhere/plugin.so"};
    check_refused(&o, ERR_DEVICE, "/nowhere/plugin.so", 0, 0, false);
    o.plugin_path = test_dir();
    check_refused(&o, ERR_DEVICE, "regular file", 0, 0, false);
    char text[256];
    snprintf(text, sizeof text, "%s/text.so", test_dir());
    struct error err = {0};
    REQUIRE_OK(file_write(text, "not a library\n", 14, &err), &err);
    o.plugin_path = text;
    check_refused(&o, ERR_DEVICE, "text.so", 0, 0, false);
    o.plugin_path = pjrt_test_beside("faulty_empty.so");
    check_refused(&o, ERR_DEVICE, "GetPjrtApi", 0, 0, false);
    o.plugin_path = pjrt_test_beside("faulty_plugin.so");
    setenv("ASSAY_FAULT", "wrong-major", 1);
    check_refused(&o, ERR_DEVICE, "major", 0, 0, false);
}

TEST(worker_plugin_search)
{
    struct str path;
    str_init(&path);
    struct error err = {0};
    CHECK_ERROR(worker_find_plugin("abacus:0", &path, &err), ERR_DEVICE, "--plugin", &err);
    // A directory without it, then a file: the file. Neither is asked where a file is named for another kind.
    char list[1024];
    const char *built = pjrt_test_beside("faulty_plugin.so");
    snprintf(list, sizeof list, "%s:/nowhere/libtpu.so:%s", test_dir(), built);
    setenv("ASSAY_PLUGIN_PATH", list, 1);
    REQUIRE_OK(worker_find_plugin("cpu:3", &path, &err), &err);
    CHECK(strstr(str_text(&path), "faulty_plugin.so") != NULL);
    str_clear(&path);
    snprintf(list, sizeof list, "%s/libtpu.so", test_dir());
    REQUIRE_OK(file_write(list, "x", 1, &err), &err);
    setenv("ASSAY_PLUGIN_PATH", test_dir(), 1);
    REQUIRE_OK(worker_find_plugin("tpu", &path, &err), &err);
    CHECK(strstr(str_text(&path), "/libtpu.so") != NULL);
    str_clear(&path);
    // Nothing of the kind there: found further on, or all the places are listed.
    int rc = worker_find_plugin("gpu", &path, &err);
    if (rc == 0)
        CHECK(file_exists(str_text(&path)));
    else
        CHECK_ERROR(rc, ERR_DEVICE, "xla_cuda_plugin.so", &err);
    str_release(&path);
}

TEST(worker_plugin_device_that_is_not_there)
{
    struct worker_options o = {.device = "cpu:7", .cpu_device_count = 2};
    check_refused(&o, ERR_DEVICE, "cpu:0 (cpu), cpu:1 (cpu)", 0, 0, false);
    struct str cpu;
    str_init(&cpu);
    struct error err = {0};
    REQUIRE_OK(worker_find_plugin("cpu", &cpu, &err), &err);
    o = (struct worker_options){.device = "tpu", .plugin_path = cpu.text};
    check_refused(&o, ERR_DEVICE, "cpu:0 (cpu)", 0, 0, false);
    o.device = "gpu:0";
    check_refused(&o, ERR_DEVICE, "cpu:0 (cpu)", 0, 0, false);
    o.device = "cpu:x";
    check_refused(&o, ERR_DEVICE, "cpu:x", 0, 0, false);
    str_release(&cpu);
}

TEST(worker_plugin_program_that_is_no_worker)
{
    struct worker_options o = {.worker_path = "/nowhere/assay-worker"};
    check_refused(&o, ERR_DEVICE, "/nowhere/assay-worker", 0, 0, false);
    o.worker_path = "/bin/true";
    check_refused(&o, ERR_DEVICE, "exit code 0", WORKER_EXIT, 0, true);
    o.worker_path = "/bin/ls";                                     // complains about its argument
    check_refused(&o, ERR_DEVICE, "--help", WORKER_EXIT, 2, true); // its last line
    char text[256];
    snprintf(text, sizeof text, "%s/not-executable", test_dir());
    struct error err = {0};
    REQUIRE_OK(file_write(text, "#!/bin/true\n", 12, &err), &err);
    chmod(text, 0644);
    o.worker_path = text;
    check_refused(&o, ERR_DEVICE, "cannot be started", 0, 0, false);
}

TEST(worker_plugin_fails_while_loading)
{
    struct worker_options o = {.plugin_path = pjrt_test_beside("faulty_plugin.so"), .label = "w8a8"};
    setenv("ASSAY_FAULT", "abort-create", 1);
    check_refused(&o, ERR_DEVICE, "the worker (w8a8) died of signal 6 (SIGABRT) while loading the plugin",
                  WORKER_SIGNAL, SIGABRT, true);
    check_refused(&o, ERR_DEVICE, "no client today", WORKER_SIGNAL, SIGABRT, true);
    setenv("ASSAY_FAULT", "hang-create", 1);
    o.load_timeout_s = 1;
    check_refused(&o, ERR_DEVICE, "time limit of 1 s", WORKER_TIMEOUT, 0, true);
}

TEST(worker_plugin_flags)
{
    struct worker_options o = {0};
    setenv("XLA_FLAGS", "--xla_dump_to=/tmp --xla_no_such_flag_at_all=1", 1);
    check_refused(&o, ERR_USAGE, "--xla_no_such_flag_at_all", 0, 0, false);
    setenv("XLA_FLAGS", "/nowhere/flags", 1);
    check_refused(&o, ERR_USAGE, "XLA_FLAGS", 0, 0, false);
    setenv("XLA_FLAGS", "--xla_dump_t=1", 1); // part of a name
    check_refused(&o, ERR_USAGE, "--xla_dump_t", 0, 0, false);
    // A string of the plugin that is no flag's name: only the plugin finds out, and ends the process.
    setenv("XLA_FLAGS", "--malloc=1", 1);
    check_refused(&o, ERR_DEVICE, "XLA_FLAGS holds", WORKER_EXIT, 1, true);
    // A complaint that is followed by 15 kB of usage.
    setenv("XLA_FLAGS", "--xla_backend_optimization_level=x", 1);
    check_refused(&o, ERR_DEVICE, "Flag parsing failed", WORKER_EXIT, 1, true);
    setenv("XLA_FLAGS", "--xla_backend_optimization_level=1", 1);
    worker_stop(worker_test_start(NULL, NULL));
}

static const struct compile_fault {
    const char *fault, *text;
    enum worker_failure_kind kind;
    int value;
} compile_faults[] = {
    {"abort-compile", "compiling add; it said: faulty plugin: Check failed: compiler is well", WORKER_SIGNAL, SIGABRT},
    {"exit-compile", "exit code 7 while compiling add", WORKER_EXIT, 7},
    {"hang-compile", "time limit of 1 s while compiling add", WORKER_TIMEOUT, 0},
};

TEST(worker_plugin_fails_while_compiling)
{
    for (size_t i = 0; i < sizeof compile_faults / sizeof *compile_faults; i++) {
        const struct compile_fault *c = &compile_faults[i];
        setenv("ASSAY_FAULT", c->fault, 1);
        struct worker_options o = {.plugin_path = pjrt_test_beside("faulty_plugin.so"), .compile_timeout_s = 1};
        struct worker *w;
        struct error err = {0};
        REQUIRE_OK(worker_start(&w, &o, &err), &err);
        CHECK(!worker_failure(w));
        CHECK_INT(worker_test_compile_add(w, &err), -1);
        CHECK_INT(err.code, ERR_DEVICE);
        if (!strstr(err.message, c->text))
            test_fail_error(__FILE__, __LINE__, c->text, err.where, err.message);
        const struct worker_failure *f = worker_failure(w);
        REQUIRE(f);
        CHECK_INT(f->kind, c->kind);
        CHECK_INT(f->value, c->value);
        CHECK_STR(f->doing, "compiling add");
        struct error again = {0};
        CHECK_INT(worker_test_compile_add(w, &again), -1);
        CHECK_STR(again.message, err.message);
        CHECK(worker_info(w)->api_minor > 0); // still there
        worker_stop(w);
        CHECK(worker_test_no_child_left());
    }
}

TEST(worker_plugin_refusals_leave_it_alive)
{
    struct worker *w = worker_test_start(pjrt_test_beside("faulty_plugin.so"), "oom-compile");
    REQUIRE(w);
    struct error err = {0};
    CHECK_INT(worker_test_compile_add(w, &err), -1);
    CHECK_INT(err.code, ERR_DEVICE);
    CHECK(strstr(err.message, "out of memory") != NULL);
    CHECK(!worker_failure(w));
    worker_stop(w);
    w = worker_test_start(pjrt_test_beside("faulty_plugin.so"), "error-compile");
    REQUIRE(w);
    error_clear(&err);
    CHECK_INT(worker_test_compile_add(w, &err), -1);
    CHECK(strstr(err.message, "xxxxxxxx") != NULL);
    CHECK(!worker_failure(w));
    worker_stop(w);
}

TEST(worker_plugin_fails_while_running)
{
    static const struct {
        const char *fault, *text;
        int sig; // 0: stays alive
    } faults[] = {{"crash-execute", "SIGSEGV", SIGSEGV},
                  {"kill-execute", "memory ran out", SIGKILL},
                  {"error-execute", "the device fell over", 0},
                  {"error-await", "the event went wrong", 0}};
    // A sanitizer in the worker would turn the signal into an exit.
    char sanitizer[512];
    snprintf(sanitizer, sizeof sanitizer, "%.400s:handle_segv=0", getenv("ASAN_OPTIONS") ? getenv("ASAN_OPTIONS") : "");
    setenv("ASAN_OPTIONS", sanitizer, 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct worker *w = worker_test_start(pjrt_test_beside("faulty_plugin.so"), faults[i].fault);
        REQUIRE(w);
        struct error err = {0};
        int program = worker_test_compile_add(w, &err), output;
        REQUIRE(program >= 0);
        // Where every wait fails the upload is the first to say so.
        float x[4] = {1, 2, 3, 4};
        struct worker_tensor t = {.shape = {DT_F32, 1, {4}}, .name = "x"};
        int id;
        int rc = worker_upload_bytes(w, x, sizeof x, &t, &id, NULL, &err);
        if (!rc)
            rc = worker_execute(w, program, &id, 1, &output, 1, NULL, &err);
        CHECK_INT(rc, ERR_DEVICE);
        if (!strstr(err.message, faults[i].text))
            test_fail_error(__FILE__, __LINE__, faults[i].text, err.where, err.message);
        CHECK_INT(worker_failure(w) != NULL, faults[i].sig != 0);
        if (worker_failure(w)) {
            CHECK_INT(worker_failure(w)->kind, WORKER_SIGNAL);
            CHECK_INT(worker_failure(w)->value, faults[i].sig);
        }
        worker_stop(w);
    }
}

// Killed from outside between two calls.
TEST(worker_plugin_killed_between_calls)
{
    struct worker *w = worker_test_start(NULL, NULL);
    REQUIRE(w);
    kill(worker_info(w)->pid, SIGKILL);
    struct worker_memory m;
    struct error err = {0};
    CHECK_ERROR(worker_memory(w, &m, &err), ERR_DEVICE, "SIGKILL", &err);
    CHECK(worker_failure(w) && worker_failure(w)->value == SIGKILL);
    worker_stop(w);
    CHECK(worker_test_no_child_left());
}
