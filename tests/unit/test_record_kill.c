// SPDX-License-Identifier: Apache-2.0
// A record whose writer is killed is absent or complete, at whatever moment it happens.
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "record/record.h"
#include "test.h"

static const char config[] = "{\"schema\": \"assay.record.config/1\"}";
static const char *const names[] = {"a", "samples/b", "samples/deep/c"};
enum { FILES = 3, BYTES = 20000 };

static void pattern(char *out, int file)
{
    for (int i = 0; i < BYTES; i++)
        out[i] = (char)('a' + (i * 7 + file) % 26);
}

// The report: a document of its own size, so that a short one shows.
static void make_report(char *out)
{
    memset(out, ' ', BYTES);
    static const char start[] = "{\"schema\": \"assay.bench/1\"";
    memcpy(out, start, sizeof start - 1);
    out[BYTES - 1] = '}';
}

// Exit status 0 when the record was written.
static int write_record(const char *dir)
{
    struct record r;
    struct error e = {0};
    static char bytes[BYTES];
    int rc = record_open(&r, dir, "bench", 0, NULL, &e);
    if (!rc)
        rc = record_config(&r, config, sizeof config - 1, &e);
    for (int i = 0; i < FILES && !rc; i++) {
        pattern(bytes, i);
        rc = record_write(&r, names[i], bytes, BYTES, &e);
    }
    make_report(bytes);
    if (!rc)
        rc = record_commit(&r, bytes, BYTES, &e);
    return rc ? 1 : 0;
}

static bool file_is(const char *dir, const char *name, const char *want)
{
    char path[1200];
    struct file_map m;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (file_map_open(&m, path, NULL) != 0)
        return false;
    bool same = m.size == BYTES && memcmp(m.data, want, BYTES) == 0;
    file_map_close(&m);
    return same;
}

// 1: complete, 0: absent, -1: what must not be.
static int state(const char *dir)
{
    struct arena a;
    struct record_contents c;
    struct stat st;
    static char want[BYTES];
    arena_init(&a);
    bool readable = record_read(&c, dir, &a, NULL) == 0;
    arena_release(&a);
    if (lstat(dir, &st) != 0)
        return readable ? -1 : 0;
    make_report(want);
    bool whole = readable && file_is(dir, "report.json", want);
    for (int i = 0; i < FILES; i++) {
        pattern(want, i);
        whole = whole && file_is(dir, names[i], want);
    }
    return whole ? 1 : -1;
}

// After a kill: what is left under the partial name must not read as a record.
static void check_partial(const char *dir, pid_t pid)
{
    char partial[1100];
    struct arena a;
    struct record_contents c;
    struct error e = {0};
    snprintf(partial, sizeof partial, "%s.partial-%ld", dir, (long)pid);
    arena_init(&a);
    CHECK_INT(record_read(&c, partial, &a, &e), ERR_INPUT);
    arena_release(&a);
}

TEST(record_killed_at_random_moments)
{
    char dir[512];
    uint64_t x = 88172645463325252u, whole_ns = 0;
    int complete = 0, absent = 0;
    for (int i = 0; i < 100; i++) {
        int go[2];
        snprintf(dir, sizeof dir, "%s/%d", test_dir(), i);
        REQUIRE(pipe(go) == 0);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            char c;
            _exit(read(go[0], &c, 1) == 1 ? write_record(dir) : 1);
        }
        uint64_t start = clock_ns();
        // The first runs to its end, which says how long that takes; the second does not begin.
        if (i != 1)
            CHECK(write(go[1], "x", 1) == 1);
        if (i > 0) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17; // xorshift64
            uint64_t ns = i == 1 ? 0 : x % (whole_ns + whole_ns / 4 + 1);
            struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
            nanosleep(&pause, NULL);
            kill(pid, SIGKILL);
        }
        REQUIRE(waitpid(pid, NULL, 0) == pid);
        if (i == 0)
            whole_ns = clock_ns() - start;
        close(go[0]);
        close(go[1]);
        int s = state(dir);
        CHECK(s >= 0);
        complete += s == 1;
        absent += s == 0;
        if (s == 0 && i > 1)
            check_partial(dir, pid);
        if (i < 2)
            CHECK_INT(s, i == 0);
    }
    CHECK_INT(complete + absent, 100);
}

// The same at every system call, on its way in and on its way out: nothing is left to chance.
TEST(record_killed_at_every_system_call)
{
    char dir[512];
    int complete = 0, absent = 0;
    for (int stops = 0;; stops++) {
        REQUIRE(stops < 5000);
        snprintf(dir, sizeof dir, "%s/%d", test_dir(), stops);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
                _exit(77);
            raise(SIGSTOP);
            _exit(write_record(dir));
        }
        int status = 0;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            return; // tracing is not allowed here; the test above remains
        for (int k = 0; k < stops && WIFSTOPPED(status); k++) {
            if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid)
                break;
        }
        bool ended = WIFEXITED(status);
        if (!ended) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
        }
        int s = state(dir);
        CHECK(s >= 0);
        complete += s == 1;
        absent += s == 0;
        if (s == 0)
            check_partial(dir, pid);
        CHECK(s == 0 || complete > 0);
        if (ended) {
            CHECK_INT(WEXITSTATUS(status), 0);
            CHECK_INT(s, 1);
            break;
        }
    }
    // Killed between the rename and its end the record is complete, before it there is none.
    CHECK(complete > 1 && absent > 50);
}
