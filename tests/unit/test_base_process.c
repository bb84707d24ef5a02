// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "test.h"

#define SH(script) ((const char *const[]){"/bin/sh", "-c", script, NULL})
// Long enough for anything here on a loaded machine; nothing waits for it but what hangs.
#define LIMIT_S 60

static int open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static bool no_child_left(void)
{
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

static struct process_exit run(const char *script, struct str *out, char *tail, size_t tail_size)
{
    struct error err = {0};
    struct process_exit e = {PROCESS_TIMED_OUT, -1};
    struct process_options o = {.argv = SH(script)};
    CHECK_INT(process_run(&o, LIMIT_S, out, 1 << 20, &e, tail, tail_size, &err), 0);
    return e;
}

TEST(base_process_exit_codes_and_signals)
{
    struct process_exit e = run("exit 0", NULL, NULL, 0);
    CHECK(e.how == PROCESS_EXITED && e.value == 0);
    e = run("exit 37", NULL, NULL, 0);
    CHECK(e.how == PROCESS_EXITED && e.value == 37);
    e = run("kill -ABRT $$", NULL, NULL, 0);
    CHECK(e.how == PROCESS_SIGNALED && e.value == SIGABRT);
    struct str s;
    str_init(&s);
    process_exit_describe(&e, &s);
    CHECK_STR(str_text(&s), "signal 6 (SIGABRT)");
    str_release(&s);
    CHECK(no_child_left());
}

TEST(base_process_missing_program)
{
    struct error err = {0};
    struct process p;
    const char *const argv[] = {"/nowhere/prog ram", NULL};
    struct process_options o = {.argv = argv};
    CHECK_INT(process_start(&p, &o, &err), ERR_INPUT);
    CHECK_STR(err.where, "/nowhere/prog ram");
    CHECK(strstr(err.message, "No such file") != NULL);
    error_clear(&err);
    const char *const by_name[] = {"no-such-program-anywhere", NULL};
    o.argv = by_name;
    CHECK_INT(process_start(&p, &o, &err), ERR_INPUT);
    CHECK(strstr(err.message, "PATH") != NULL);
    error_clear(&err);
    const char *const directory[] = {"/tmp", NULL};
    o.argv = directory;
    CHECK_INT(process_start(&p, &o, &err), ERR_INPUT);
    CHECK(strstr(err.message, "denied") != NULL);
    CHECK(no_child_left());
}

TEST(base_process_arguments_arrive_as_they_are)
{
    const char *const argv[] = {"printf", "[%s]", "a b", "'$HOME'", "\"\\", "", "*", "x\ny", NULL};
    struct process_options o = {.argv = argv}; // by name: found in PATH
    struct error err = {0};
    struct str out;
    str_init(&out);
    struct process_exit e;
    REQUIRE_OK(process_run(&o, LIMIT_S, &out, 4096, &e, NULL, 0, &err), &err);
    CHECK_STR(str_text(&out), "[a b]['$HOME'][\"\\][][*][x\ny]");
    str_release(&out);
}

TEST(base_process_environment)
{
    setenv("ASSAY_TEST_KEPT", "kept", 1);
    setenv("ASSAY_TEST_GONE", "gone", 1);
    setenv("ASSAY_TEST_CHANGED", "old", 1);
    const char *const env[] = {"ASSAY_TEST_GONE", "ASSAY_TEST_CHANGED=new", "ASSAY_TEST_ADDED=a b", NULL};
    struct process_options o = {
        .argv = SH("echo \"$ASSAY_TEST_KEPT,${ASSAY_TEST_GONE-unset},$ASSAY_TEST_CHANGED,$ASSAY_TEST_ADDED\""),
        .env = env};
    struct error err = {0};
    struct str out;
    str_init(&out);
    struct process_exit e;
    REQUIRE_OK(process_run(&o, LIMIT_S, &out, 4096, &e, NULL, 0, &err), &err);
    CHECK_STR(str_text(&out), "kept,unset,new,a b\n");
    str_release(&out);
}

TEST(base_process_time_limit_kills_the_group)
{
    // The shell's own child would keep the pipe open for ten minutes.
    struct process_options o = {.argv = SH("echo started >&2; sleep 600 & echo $! ; wait"), .own_group = true};
    struct error err = {0};
    struct str out;
    str_init(&out);
    struct process_exit e;
    char tail[64];
    REQUIRE_OK(process_run(&o, 0.3, &out, 4096, &e, tail, sizeof tail, &err), &err);
    CHECK_INT(e.how, PROCESS_TIMED_OUT);
    uint64_t pid = 0;
    if (out.length) // it may not have come so far in the time
        out.text[out.length - 1] = 0;
    if (parse_u64(str_text(&out), &pid)) {
        CHECK_STR(tail, "started");
        // Killed; whoever adopted it may still have to reap it.
        int rc = 0;
        for (int i = 0; i < 500 && rc == 0; i++) {
            rc = kill((pid_t)pid, 0);
            char stat_path[64], stat[256] = "";
            snprintf(stat_path, sizeof stat_path, "/proc/%d/stat", (int)pid);
            FILE *f = fopen(stat_path, "r");
            if (f) {
                char *got = fgets(stat, sizeof stat, f);
                fclose(f);
                if (got && strstr(stat, ") Z"))
                    rc = -1;
            }
            usleep(10000);
        }
        CHECK(rc != 0);
    }
    str_release(&out);
    CHECK(no_child_left());
}

TEST(base_process_big_stderr_keeps_the_last_lines)
{
    // 1.2 MB: far more than a pipe holds; whoever does not read it hangs.
    char tail[256];
    struct process_exit e =
        run("i=0; while [ $i -lt 20000 ]; do echo \"line $i of quite some length, to fill the pipe up\" >&2; "
            "i=$((i+1)); done; echo last >&2; exit 3",
            NULL, tail, sizeof tail);
    CHECK(e.how == PROCESS_EXITED && e.value == 3);
    CHECK(strncmp(tail, "line 199", 8) == 0); // begins with a whole line
    CHECK(strlen(tail) > 100 && strcmp(tail + strlen(tail) - 5, "\nlast") == 0);
}

TEST(base_process_stdout_limit)
{
    struct process_options o = {.argv = SH("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")};
    struct error err = {0};
    struct str out;
    str_init(&out);
    struct process_exit e;
    CHECK_INT(process_run(&o, LIMIT_S, &out, 10000, &e, NULL, 0, &err), ERR_INPUT);
    CHECK(strstr(err.message, "10000 bytes") != NULL);
    CHECK(out.length <= 10000);
    str_release(&out);
    CHECK(no_child_left());
}

TEST(base_process_standard_streams_closed_here)
{
    // Pipes and the null device then get the numbers 0, 1 and 2 here; the program must still see its own.
    int saved = fcntl(1, F_DUPFD_CLOEXEC, 50);
    fflush(stdout);
    close(0);
    close(1);
    close(2);
    struct error err = {0};
    struct str out;
    str_init(&out);
    struct process_exit e = {0};
    char tail[64] = "";
    struct process_options o = {.argv = SH("read x && echo got; echo out; echo err >&2; exit 5")};
    int rc = process_run(&o, LIMIT_S, &out, 4096, &e, tail, sizeof tail, &err);
    struct process_options inherit = {
        .argv = SH("echo lost; exit 6"), .in = PROCESS_INHERIT, .out = PROCESS_INHERIT, .err = PROCESS_INHERIT};
    struct process_exit e2 = {0};
    int rc2 = process_run(&inherit, LIMIT_S, NULL, 0, &e2, NULL, 0, &err);
    dup2(saved, 1);
    dup2(saved, 2);
    close(saved);
    CHECK_INT(rc, 0);
    CHECK_INT(rc2, 0);
    CHECK_INT(e.value, 5);
    CHECK_INT(e2.value, 6);
    CHECK_STR(str_text(&out), "out\n"); // stdin is empty
    CHECK_STR(tail, "err");
    str_release(&out);
}

TEST(base_process_descriptors_handed_over)
{
    int a = memfd_create("a", 0), b = memfd_create("b", 0); // without close-on-exec, on purpose
    REQUIRE(a >= 0 && b >= 0);
    CHECK_INT(write(a, "first\n", 6), 6);
    CHECK_INT(write(b, "second\n", 7), 7);
    lseek(a, 0, SEEK_SET);
    lseek(b, 0, SEEK_SET);
    // Crossed: what becomes 3 may lie at 4 here and the other way round.
    int fds[2] = {b, a};
    struct process_options o = {
        .argv = SH("read x <&3; read y <&4; echo \"$x $y\"; ls /proc/self/fd"), .fds = fds, .n_fds = 2};
    struct error err = {0};
    struct str out;
    str_init(&out);
    struct process_exit e;
    REQUIRE_OK(process_run(&o, LIMIT_S, &out, 4096, &e, NULL, 0, &err), &err);
    // 0 1 2, the two, and the directory that ls reads
    CHECK_STR(str_text(&out), "second first\n0\n1\n2\n3\n4\n5\n");
    str_release(&out);
    close(a);
    close(b);
}

TEST(base_process_interrupted)
{
    interrupt_install();
    struct process_options o = {.argv = SH("kill -INT $PPID; sleep 600"), .own_group = true};
    struct error err = {0};
    struct process_exit e;
    CHECK_INT(process_run(&o, INFINITY, NULL, 0, &e, NULL, 0, &err), ERR_INTERRUPTED);
    CHECK_INT(e.how, PROCESS_INTERRUPTED);
    CHECK(no_child_left());
}

TEST(base_process_signals_are_standard_in_the_program)
{
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct process_exit e = run("kill -PIPE $$; exit 1", NULL, NULL, 0);
    CHECK(e.how == PROCESS_SIGNALED && e.value == SIGPIPE);
    e = run("kill -TERM $$; exit 1", NULL, NULL, 0);
    CHECK(e.how == PROCESS_SIGNALED && e.value == SIGTERM);
}

TEST(base_process_dies_with_its_parent)
{
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t middle = fork();
    if (middle == 0) {
        close(ends[0]);
        struct process p;
        struct error err = {0};
        struct process_options o = {
            .argv = SH("echo up >&3; exec sleep 600"), .fds = &ends[1], .n_fds = 1, .die_with_parent = true};
        process_start(&p, &o, &err);
        pause();
    }
    close(ends[1]);
    char text[8];
    CHECK_INT(read(ends[0], text, 3), 3);
    kill(middle, SIGKILL);
    waitpid(middle, NULL, 0);
    // The program holds the only other end: the end of file comes when it is gone.
    CHECK_INT(read(ends[0], text, 1), 0);
    close(ends[0]);
}

TEST(base_process_leaves_no_descriptor)
{
    run("exit 0", NULL, NULL, 0);
    int before = open_fds();
    for (int i = 0; i < 30; i++) {
        struct str out;
        str_init(&out);
        char tail[16];
        run("echo out; echo err >&2", &out, tail, sizeof tail);
        str_release(&out);
        struct process p;
        struct error err = {0};
        struct process_options bad = {
            .argv = (const char *const[]){"/nowhere", NULL}, .out = PROCESS_PIPE, .err = PROCESS_PIPE};
        process_start(&p, &bad, &err);
        struct process_options sleeper = {.argv = (const char *const[]){"/bin/sleep", "600", NULL},
                                          .err = PROCESS_PIPE};
        error_clear(&err);
        REQUIRE_OK(process_start(&p, &sleeper, &err), &err);
        CHECK(!process_wait(&p, 0));
        process_release(&p); // kills
    }
    CHECK_INT(open_fds(), before);
    CHECK(no_child_left());
}
