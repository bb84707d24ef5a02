// SPDX-License-Identifier: Apache-2.0
#include "trace/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

#define MAX_RUNS 10000 // of one second

static void make_safe(char *name)
{
    for (char *c = name; *c; c++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *c))
            *c = '_';
    }
}

void trace_host_name(char out[TRACE_HOST_MAX])
{
    memset(out, 0, TRACE_HOST_MAX);
    gethostname(out, TRACE_HOST_MAX - 1);
    make_safe(out);
    if (!out[0] || out[0] == '.')
        snprintf(out, TRACE_HOST_MAX, "host");
}

static void run_name(char *out, size_t n, int64_t epoch_ns)
{
    time_t seconds = (time_t)(epoch_ns / 1000000000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(out, n, "%Y_%m_%d_%H_%M_%S", &utc);
}

void trace_run_path(char out[TRACE_PATH_MAX], int64_t epoch_ns, const char *label)
{
    char host[TRACE_HOST_MAX], name[64], safe[128] = "";
    trace_host_name(host);
    run_name(name, sizeof name, epoch_ns);
    if (label)
        snprintf(safe, sizeof safe, "_%s", label);
    make_safe(safe);
    snprintf(out, TRACE_PATH_MAX, "plugins/profile/%s%s/%s.xplane.pb", name, safe, host);
}

// A folder and all above it; *made is false when it was there.
static int make_folders(const char *path, bool *made, struct error *err)
{
    struct str part;
    int rc = 0;
    *made = false;
    str_init(&part);
    str_add(&part, path);
    for (size_t i = 1; i <= part.length && part.text && !rc; i++) {
        char c = part.text[i];
        if (c != '/' && c)
            continue;
        part.text[i] = '\0';
        *made = mkdir(part.text, 0777) == 0;
        if (!*made && errno != EEXIST)
            rc = error_set(err, ERR_IO, part.text, "the folder cannot be made: %s", strerror(errno));
        part.text[i] = c;
    }
    if (!rc)
        rc = str_check(&part, err);
    str_release(&part);
    return rc;
}

// The folder of a new run; only who makes it has it.
static int make_run(const char *dir, int64_t epoch_ns, struct str *path, struct error *err)
{
    char name[64];
    run_name(name, sizeof name, epoch_ns);
    for (int i = 1; i < MAX_RUNS; i++) {
        bool made = false;
        str_clear(path);
        str_addf(path, "%s/plugins/profile/%s", dir, name);
        if (i > 1)
            str_addf(path, "_%02d", i);
        int rc = str_check(path, err);
        if (!rc)
            rc = make_folders(str_text(path), &made, err);
        if (rc || made)
            return rc;
    }
    return error_set(err, ERR_IO, dir, "holds too many runs of this second");
}

int trace_run_write(const char *dir, int64_t epoch_ns, const struct str *space, struct str *path, struct error *err)
{
    char host[TRACE_HOST_MAX];
    int rc = make_run(dir, epoch_ns, path, err);
    if (rc)
        return rc;
    trace_host_name(host);
    str_addf(path, "/%s.xplane.pb", host);
    rc = str_check(path, err);
    return rc ? rc : file_write(str_text(path), str_text(space), space->length, err);
}
