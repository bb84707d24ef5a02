// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/sha256.h"
#include "record/name.h"
#include "record/record.h"
#include "schema.h"
#include "test.h"

static const char config[] = "{\"schema\": \"assay.record.config/1\", \"seed\": 7}\n";
static const char report[] = "{\"schema\": \"assay.bench/1\", \"result\": {}}\n";
static char *const arguments[] = {(char[]){"assay"}, (char[]){"bench"}, (char[]){"a\"b\xff"}, NULL};

static const char *in_dir(char out[1024], const char *name)
{
    snprintf(out, 1024, "%s/%s", test_dir(), name);
    return out;
}

static bool text_is(const char *dir, const char *name, const char *want)
{
    char path[2048];
    struct str s;
    str_init(&s);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    bool same = file_read(&s, path, 1 << 20, NULL) == 0 && strcmp(str_text(&s), want) == 0;
    str_release(&s);
    return same;
}

static bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static int read_back(const char *dir, struct error *err)
{
    struct arena a;
    struct record_contents c;
    arena_init(&a);
    int rc = record_read(&c, dir, &a, err);
    if (rc == 0)
        CHECK(strcmp(c.config, config) == 0 && c.report_bytes == sizeof report - 1 && strcmp(c.report, report) == 0);
    arena_release(&a);
    return rc;
}

TEST(record_appears_when_it_is_complete)
{
    struct error e = {0};
    struct record r;
    char dir[1024], place[1200];
    in_dir(dir, "new/deep/run///");
    REQUIRE_OK(record_open(&r, dir, "bench", 3, arguments, &e), &e);
    in_dir(dir, "new/deep/run");
    CHECK_STR(record_path(&r), dir);
    CHECK(!there(dir) && dir_exists(r.building));
    REQUIRE_OK(record_config(&r, config, sizeof config - 1, &e), &e);
    REQUIRE_OK(record_write(&r, "samples/bf16.json", "[1]", 3, &e), &e);
    REQUIRE_OK(record_write(&r, "samples/empty", "", 0, &e), &e);
    REQUIRE_OK(record_place(&r, "trace/by/worker", place, sizeof place, &e), &e);
    CHECK(strstr(place, ".partial-") != NULL);
    REQUIRE_OK(file_write(place, "trace", 5, &e), &e);
    CHECK_INT(read_back(r.building, &e), ERR_INPUT);
    CHECK(strstr(e.message, "never finished") != NULL);
    error_clear(&e);
    CHECK_INT(read_back(dir, &e), ERR_INPUT); // names the one that lies beside it
    CHECK(strstr(e.message, ".partial-") != NULL);
    error_clear(&e);
    REQUIRE_OK(record_commit(&r, report, sizeof report - 1, &e), &e);
    CHECK_STR(r.building, dir);
    CHECK(text_is(dir, "config.json", config) && text_is(dir, "report.json", report));
    CHECK(text_is(dir, "samples/bf16.json", "[1]") && text_is(dir, "samples/empty", ""));
    CHECK(text_is(dir, "trace/by/worker", "trace"));
    REQUIRE_OK(read_back(dir, &e), &e);
    in_dir(dir, "new/deep/run/");
    REQUIRE_OK(read_back(dir, &e), &e);
    // Closed: nothing can be added, and failing it does nothing.
    CHECK_INT(record_write(&r, "late", "x", 1, &e), ERR_INTERNAL);
    REQUIRE_OK(record_fail(&r, &e, NULL, NULL), &e);
    record_abandon(&r);
    error_clear(&e);
    REQUIRE_OK(read_back(dir, &e), &e);
}

TEST(record_needs_a_new_directory)
{
    struct record r;
    char dir[1024], other[1200];
    static const char *const kinds[] = {"full", "empty", "file", "dangling"};
    mkdir(in_dir(dir, "full"), 0777);
    mkdir(in_dir(dir, "full/x"), 0777);
    mkdir(in_dir(dir, "empty"), 0777);
    struct error e = {0};
    REQUIRE_OK(file_write(in_dir(dir, "file"), "x", 1, &e), &e);
    REQUIRE(symlink("nowhere", in_dir(dir, "dangling")) == 0);
    for (size_t i = 0; i < 4; i++) {
        error_clear(&e);
        in_dir(dir, kinds[i]);
        CHECK_INT(record_open(&r, dir, "bench", 0, NULL, &e), ERR_USAGE);
        CHECK_STR(e.where, dir);
        CHECK(strstr(e.message, "exists already") != NULL);
        record_abandon(&r); // closed: touches nothing
        CHECK(there(dir));
    }
    static const char *const bad[] = {"", "/", ".", "..", "x/.."};
    for (size_t i = 0; i < 5; i++) {
        error_clear(&e);
        CHECK(record_open(&r, bad[i], "bench", 0, NULL, &e) != 0);
        CHECK(r.fd < 0 && r.parent_fd < 0);
    }
    error_clear(&e);
    CHECK_INT(record_open(&r, in_dir(dir, "x.partial-1"), "bench", 0, NULL, &e), ERR_USAGE);
    error_clear(&e);
    CHECK_INT(record_open(&r, in_dir(dir, "file/below"), "bench", 0, NULL, &e), ERR_IO);
    // One that appears while the command runs stays as it is, even when it is empty.
    error_clear(&e);
    in_dir(dir, "late");
    REQUIRE_OK(record_open(&r, dir, "bench", 0, NULL, &e), &e);
    REQUIRE_OK(record_config(&r, config, sizeof config - 1, &e), &e);
    REQUIRE(mkdir(dir, 0777) == 0);
    CHECK_INT(record_commit(&r, report, sizeof report - 1, &e), ERR_USAGE);
    struct error second = {0};
    REQUIRE_OK(record_fail(&r, &e, NULL, &second), &second);
    snprintf(other, sizeof other, "%s/report.json", dir);
    CHECK(!there(other) && rmdir(dir) == 0);
    snprintf(other, sizeof other, "%s/report.json", r.building);
    CHECK(strstr(r.building, ".failed-") && !there(other));
}

TEST(record_names_cannot_leave_it)
{
    struct error e = {0};
    struct record r;
    char dir[1024], place[1200], longest[300];
    REQUIRE_OK(record_open(&r, in_dir(dir, "run"), "bench", 0, NULL, &e), &e);
    memset(longest, 'a', sizeof longest);
    longest[256] = '\0';
    const char *bad[] = {"",   "/etc/x", "../x",  "a/../x", "a/..",        ".",           "./a",         "a//b",
                         "a/", "a\nb",   "a\x7f", longest,  "config.json", "report.json", "failure.json"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error_clear(&e);
        if (!CHECK(record_write(&r, bad[i], "x", 1, &e) == ERR_INTERNAL))
            printf("  %s\n", bad[i]);
        CHECK_INT(record_place(&r, bad[i], place, sizeof place, &e), ERR_INTERNAL);
    }
    error_clear(&e);
    // A link that somebody put there is not followed out of the record, and nothing is written twice.
    snprintf(place, sizeof place, "%s/link", r.building);
    REQUIRE(symlink(test_dir(), place) == 0);
    CHECK_INT(record_write(&r, "link/x", "x", 1, &e), ERR_IO);
    CHECK(!there(in_dir(dir, "x")));
    error_clear(&e);
    REQUIRE_OK(record_write(&r, "..a/b..", "1", 1, &e), &e);
    CHECK_INT(record_write(&r, "..a/b..", "2", 1, &e), ERR_INTERNAL);
    CHECK(text_is(r.building, "..a/b..", "1"));
    error_clear(&e);
    CHECK_INT(record_config(&r, "[1]", 3, &e), ERR_INTERNAL);
    error_clear(&e);
    CHECK_INT(record_commit(&r, report, sizeof report - 1, &e), ERR_INTERNAL); // nothing without config.json
    record_abandon(&r);
    CHECK(!there(r.building) && there(in_dir(dir, ""))); // removes the link, not what it leads to
}

TEST(record_default_name_is_by_command_and_time)
{
    struct error e = {0};
    struct record r;
    REQUIRE(chdir(test_dir()) == 0);
    REQUIRE_OK(record_open(&r, NULL, "trace capture", 0, NULL, &e), &e);
    char want[128], time[32], pid[32];
    record_time(time, r.started); // 2026-01-31T12:00:00Z
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    snprintf(want, sizeof want, "runs/trace-capture-%.4s%.2s%.2s-%.2s%.2s%.2s-%s", time, time + 5, time + 8, time + 11,
             time + 14, time + 17, pid);
    CHECK_STR(record_path(&r), want);
    CHECK(dir_exists("runs"));
    record_abandon(&r);
    CHECK(dir_exists("runs") && !there(r.building));
}

TEST(record_failed_says_why)
{
    struct error e = {0}, why = {0};
    struct record r;
    char dir[1024], path[1200];
    error_set(&why, ERR_DEVICE, "plugin \x1b[31m.so", "the worker died of SIGABRT while compiling \"bf16\"");
    in_dir(dir, "run");
    char first[sizeof r.building];
    for (int i = 0; i < 2; i++) { // the second one finds the names of the first taken
        REQUIRE_OK(record_open(&r, dir, "bench", 0, NULL, &e), &e);
        REQUIRE_OK(record_config(&r, config, sizeof config - 1, &e), &e);
        REQUIRE_OK(record_write(&r, "samples", "[]", 2, &e), &e);
        REQUIRE_OK(record_fail(&r, &why, i ? NULL : "{\"exit\": {\"signal\": 6}}", &e), &e);
        CHECK(!there(dir));
        if (i == 0)
            memcpy(first, r.building, sizeof first);
    }
    CHECK(strcmp(first, r.building) != 0);
    for (int i = 0; i < 2; i++) {
        const char *failed = i ? r.building : first;
        struct str s;
        str_init(&s);
        snprintf(path, sizeof path, "%s/failure.json", failed);
        REQUIRE_OK(file_read(&s, path, 1 << 20, &e), &e);
        CHECK_SCHEMA("assay.failure.1.json", s.text, s.length);
        CHECK(strstr(s.text, "SIGABRT while compiling \\\"bf16\\\"") != NULL);
        CHECK(text_is(failed, "samples", "[]"));
        str_release(&s);
        CHECK_INT(read_back(failed, &e), ERR_INPUT);
        CHECK(strstr(e.message, "SIGABRT") && strstr(e.message, "error code device"));
        error_clear(&e);
    }
    CHECK_INT(read_back(dir, &e), ERR_INPUT);
    CHECK(strstr(e.message, ".failed-") && strstr(e.message, "SIGABRT"));
    error_clear(&e);
    REQUIRE(rename(first, dir) == 0); // another name makes it no record
    CHECK_INT(read_back(dir, &e), ERR_INPUT);
    CHECK(strstr(e.message, "this run failed") != NULL);
}

TEST(record_interrupted_is_failed)
{
    struct error e = {0}, second = {0};
    struct record r;
    char dir[1024], path[1200];
    interrupt_install();
    REQUIRE_OK(record_open(&r, in_dir(dir, "run"), "bench", 0, NULL, &e), &e);
    REQUIRE_OK(record_config(&r, config, sizeof config - 1, &e), &e);
    raise(SIGINT);
    CHECK_INT(record_commit(&r, report, sizeof report - 1, &e), ERR_INTERRUPTED);
    CHECK(!there(dir));
    REQUIRE_OK(record_fail(&r, &e, NULL, &second), &second);
    struct str s;
    str_init(&s);
    snprintf(path, sizeof path, "%s/failure.json", r.building);
    REQUIRE_OK(file_read(&s, path, 1 << 20, &second), &second);
    CHECK_SCHEMA("assay.failure.1.json", s.text, s.length);
    CHECK(strstr(s.text, "\"signal\": \"SIGINT\"") && strstr(s.text, "\"code\": \"interrupted\""));
    str_release(&s);
}

TEST(record_reader_refuses_what_is_none)
{
    struct error e = {0};
    char dir[1024], path[1200];
    CHECK_INT(read_back(in_dir(dir, "absent"), &e), ERR_INPUT);
    CHECK_STR(e.message, "there is no such record");
    error_clear(&e);
    REQUIRE_OK(file_write(in_dir(dir, "file"), "x", 1, &e), &e);
    CHECK_INT(read_back(dir, &e), ERR_INPUT);
    CHECK(strstr(e.message, "is a directory") != NULL);
    error_clear(&e);
    CHECK_INT(read_back("", &e), ERR_INPUT);
    static const struct {
        const char *config, *report, *says;
    } cases[] = {
        {NULL, NULL, "holds no config.json"},
        {config, NULL, "holds no report.json"},
        {config, "", ""},
        {config, "{\"schema\": \"assay.bench/1\"", ""},
        {config, "[]", "names no schema"},
        {config, "{}", "names no schema"},
        {"{\"schema\": \"assay.record.config/2\"}", report, "this version reads assay.record.config/1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        snprintf(name, sizeof name, "case%zu", i);
        mkdir(in_dir(dir, name), 0777);
        const char *const texts[] = {cases[i].config, cases[i].report};
        for (int k = 0; k < 2; k++) {
            error_clear(&e);
            snprintf(path, sizeof path, "%s/%s", dir, k ? "report.json" : "config.json");
            if (texts[k])
                REQUIRE_OK(file_write(path, texts[k], strlen(texts[k]), &e), &e);
        }
        CHECK_INT(read_back(dir, &e), ERR_INPUT);
        if (!CHECK(strstr(e.message, cases[i].says) != NULL))
            printf("  %s\n", e.message);
    }
    // A pipe in place of a document would make the reader wait for ever.
    error_clear(&e);
    mkdir(in_dir(dir, "pipe"), 0777);
    snprintf(path, sizeof path, "%s/config.json", dir);
    REQUIRE(mkfifo(path, 0666) == 0);
    snprintf(path, sizeof path, "%s/report.json", dir);
    REQUIRE_OK(file_write(path, report, sizeof report - 1, &e), &e);
    CHECK_INT(read_back(dir, &e), ERR_INPUT);
    CHECK(strstr(e.message, "not a regular file") != NULL);
}

TEST(record_provenance_follows_its_schema)
{
    struct error e = {0};
    struct record r;
    char dir[1024], path[1024];
    setenv("XLA_FLAGS", "--xla_a=1", 1);
    setenv("TPU_CHIPS", "4", 1);
    setenv("OMP_NUM_THREADS", "2", 1);
    setenv("ASSAY_X", "", 1);
    setenv("XLA_FLAGS_NOT", "1", 1);
    setenv("HF_TOKEN", "secret", 1);
    REQUIRE_OK(record_open(&r, in_dir(dir, "run"), "bench", 3, arguments, &e), &e);
    REQUIRE_OK(file_write(in_dir(path, "abc"), "abc", 3, &e), &e);
    struct str s;
    struct jw w;
    str_init(&s);
    jw_init(&w, &s, false);
    jw_object(&w);
    record_provenance(&w, &r);
    jw_key(&w, "files");
    jw_array(&w);
    REQUIRE_OK(record_file_entry(&w, path, &e), &e);
    CHECK_INT(record_file_entry(&w, dir, &e), ERR_INPUT); // missing: nothing is written
    jw_array_end(&w);
    jw_object_end(&w);
    error_clear(&e);
    REQUIRE_OK(jw_finish(&w, &e), &e);
    CHECK_SCHEMA("assay.record.config.1.json", s.text, s.length);
    REQUIRE_OK(record_config(&r, s.text, s.length, &e), &e);
    json_t *root = json_parse(s.text, s.length, "config", &e);
    REQUIRE(root);
    const json_t *environment = json_object_get(root, "environment");
    CHECK_STR(json_string_value(json_object_get(environment, "XLA_FLAGS")), "--xla_a=1");
    CHECK_STR(json_string_value(json_object_get(environment, "TPU_CHIPS")), "4");
    CHECK_STR(json_string_value(json_object_get(environment, "OMP_NUM_THREADS")), "2");
    CHECK_STR(json_string_value(json_object_get(environment, "ASSAY_X")), "");
    CHECK(!json_object_get(environment, "HF_TOKEN") && !json_object_get(environment, "XLA_FLAGS_NOT"));
    CHECK_STR(json_string_value(json_array_get(json_object_get(root, "argv"), 2)), "a\"b\xef\xbf\xbd");
    const json_t *file = json_array_get(json_object_get(root, "files"), 0);
    CHECK_INT(json_integer_value(json_object_get(file, "bytes")), 3);
    CHECK_STR(json_string_value(json_object_get(file, "sha256")), // FIPS 180-2, appendix B.1
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const json_t *program = json_object_get(root, "program");
    CHECK(strlen(json_string_value(json_object_get(program, "compiler"))) > 0);
    CHECK_INT(strlen(json_string_value(json_object_get(program, "sha256"))), 64);
    CHECK(strstr(json_string_value(json_object_get(program, "flags")), "-O") != NULL);
    json_decref(root);
    str_release(&s);
    record_abandon(&r);
    char time[32];
    CHECK_STR(record_time(time, 951827696), "2000-02-29T12:34:56Z"); // date -u -d @951827696
}

// From here on renameat2 fails with `code` in this process.
static bool forbid_renameat2(int code)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(record_without_renameat2_still_replaces_nothing)
{
    struct error e = {0};
    struct record r;
    char dir[1024];
    if (!forbid_renameat2(EINVAL))
        return; // this machine cannot pretend
    CHECK(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "b", 1) == -1 && errno == EINVAL);
    in_dir(dir, "run");
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(record_open(&r, dir, "bench", 0, NULL, &e), &e);
        REQUIRE_OK(record_config(&r, config, sizeof config - 1, &e), &e);
        if (i < 2) {
            REQUIRE(i ? mkdir(dir, 0777) == 0 : file_write(dir, "mine", 4, &e) == 0);
            CHECK_INT(record_commit(&r, report, sizeof report - 1, &e), ERR_USAGE);
            error_clear(&e);
            REQUIRE_OK(record_fail(&r, &e, NULL, &e), &e);
            CHECK((i ? rmdir : unlink)(dir) == 0); // as it was: an empty directory, a file
        } else {
            REQUIRE_OK(record_commit(&r, report, sizeof report - 1, &e), &e);
            REQUIRE_OK(read_back(dir, &e), &e);
        }
    }
}

// Fills a record until a write fails, then tries to complete and to fail it.
static void fill(const char *dir)
{
    struct error e = {0}, first = {0};
    struct record r;
    static char block[1 << 14];
    REQUIRE_OK(record_open(&r, dir, "bench", 0, NULL, &e), &e);
    REQUIRE_OK(record_config(&r, config, sizeof config - 1, &e), &e);
    for (int i = 0; i < 1000 && !first.code; i++) {
        char name[32];
        snprintf(name, sizeof name, "samples/%d", i);
        record_write(&r, name, block, sizeof block - (i == 3), &first);
    }
    CHECK_INT(first.code, ERR_IO);
    CHECK(strstr(first.where, "samples/") != NULL);
    CHECK_INT(record_commit(&r, block, sizeof block, &e), ERR_IO);
    CHECK(!there(dir));
    record_fail(&r, &first, NULL, NULL); // may or may not find room for the reason
    CHECK(!there(dir) && strstr(r.building, ".failed-") != NULL);
    char path[1200];
    snprintf(path, sizeof path, "%s/report.json", r.building);
    CHECK(!there(path));
    error_clear(&e);
    CHECK_INT(read_back(r.building, &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(read_back(dir, &e), ERR_INPUT);
}

TEST(record_over_the_file_size_limit_is_not_complete)
{
    char dir[1024];
    in_dir(dir, "run");
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {.rlim_cur = (1 << 14) - 1, .rlim_max = RLIM_INFINITY};
    fflush(stdout);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    fill(dir);
    limit.rlim_cur = RLIM_INFINITY; // what is printed may go to a longer file
    setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(record_on_a_full_disk_is_not_complete)
{
    char disk[1024], dir[1100];
    mkdir(in_dir(disk, "disk"), 0777);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", disk, "tmpfs", 0, "size=128k") != 0)
        return; // needs to be root; the test by file size covers the same code
    snprintf(dir, sizeof dir, "%s/run", disk);
    fill(dir);
    CHECK(umount(disk) == 0);
}

TEST(record_names_of_the_unfinished)
{
    CHECK_INT(name_kind("run"), NAME_RECORD);
    CHECK_INT(name_kind("run.partial-12"), NAME_PARTIAL);
    CHECK_INT(name_kind("run.failed-12-2"), NAME_FAILED);
    CHECK_INT(name_kind("run.failed-12x"), NAME_RECORD);
    CHECK_INT(name_kind("run.failed-"), NAME_RECORD);
    CHECK_INT(name_kind("run.failed"), NAME_RECORD);
    CHECK_INT(name_kind("v1.0"), NAME_RECORD);
}
