// SPDX-License-Identifier: Apache-2.0
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

extern const struct test_case *const __start_test_cases[];
extern const struct test_case *const __stop_test_cases[];

enum { SKIPPED = 77 }; // exit status of a test whose means are not here

static int failures;
static bool skipped;
static char directory[128];

void test_skip(const char *reason)
{
    if (!skipped)
        printf("  skipped: %s\n", reason);
    skipped = true;
}

bool test_check(bool ok, const char *file, int line, const char *text)
{
    if (!ok) {
        failures++;
        printf("  %s:%d: does not hold: %s\n", file, line, text);
    }
    return ok;
}

bool test_check_int(long long got, long long want, const char *file, int line, const char *text)
{
    if (got != want) {
        failures++;
        printf("  %s:%d: %s is %lld, not %lld\n", file, line, text, got, want);
    }
    return got == want;
}

bool test_check_str(const char *got, const char *want, const char *file, int line, const char *text)
{
    bool ok = got && want && strcmp(got, want) == 0;
    if (!ok) {
        failures++;
        printf("  %s:%d: %s is\n    \"%s\", not\n    \"%s\"\n", file, line, text, got ? got : "(null)",
               want ? want : "(null)");
    }
    return ok;
}

bool test_check_near(double got, double want, double tolerance, const char *file, int line, const char *text)
{
    bool ok = fabs(got - want) <= tolerance;
    if (!ok) {
        failures++;
        printf("  %s:%d: %s is %.17g, not %.17g (tolerance %g)\n", file, line, text, got, want, tolerance);
    }
    return ok;
}

void test_fail_error(const char *file, int line, const char *text, const char *where, const char *message)
{
    failures++;
    printf("  %s:%d: %s failed: %s%s%s\n", file, line, text, where, *where ? ": " : "", message);
}

const char *test_dir(void)
{
    if (!directory[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(directory, sizeof directory, "%.80s/assay-test-XXXXXX", tmp ? tmp : "/tmp");
        if (!mkdtemp(directory)) {
            perror(directory);
            exit(2);
        }
    }
    return directory;
}

const char *test_below(const char *name)
{
    static char path[4][1024];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_dir(), name);
    return path[turn];
}

const char *test_top(void)
{
    const char *top = getenv("TOP");
    return top ? top : ".";
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0, left_out = 0;
    unsigned limit = getenv("TEST_TIMEOUT") ? (unsigned)strtoul(getenv("TEST_TIMEOUT"), NULL, 10) : 120;
    const char *exclude = getenv("TEST_EXCLUDE");
    for (const struct test_case *const *t = __start_test_cases; t < __stop_test_cases; t++) {
        bool wanted = argc < 2;
        for (int i = 1; i < argc; i++)
            wanted |= strstr((*t)->name, argv[i]) != NULL;
        if (!wanted || (exclude && strstr((*t)->name, exclude)))
            continue;
        fflush(stdout);
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return 2;
        }
        if (pid == 0) {
            alarm(limit);
            (*t)->run();
            if (directory[0])
                nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
            fflush(stdout);
            exit(failures ? 1 : skipped ? SKIPPED : 0); // runs the leak checker, where there is one
        }
        int status;
        waitpid(pid, &status, 0);
        bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (WIFSIGNALED(status))
            printf("  died of signal %d%s\n", WTERMSIG(status), WTERMSIG(status) == SIGALRM ? " (too slow)" : "");
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
            printf("skip %s\n", (*t)->name);
            left_out++;
            continue;
        }
        printf("%s %s\n", ok ? "ok" : "FAIL", (*t)->name);
        ok ? passed++ : failed++;
    }
    if (left_out)
        printf("%d skipped: what they need is not here, as said above each\n", left_out);
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
