// SPDX-License-Identifier: Apache-2.0
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "record/name.h"
#include "record/tree.h"

// The last part of DIR.
static const char *leaf_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Fills r->path: the given directory without slashes at its end, or the default.
static int name_record(struct record *r, const char *dir, struct error *err)
{
    if (!dir) {
        struct tm t;
        char stamp[32];
        time_t now = (time_t)r->started;
        gmtime_r(&now, &t);
        strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &t);
        snprintf(r->path, sizeof r->path, "runs/%s-%s-%ld", r->command, stamp, (long)getpid());
        for (char *c = r->path; *c; c++)
            *c = *c == ' ' ? '-' : *c; // "trace capture"
        return 0;
    }
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    if (n == 0 || n >= sizeof r->path)
        return error_set(err, ERR_USAGE, dir,
                         n ? "the run directory's name is too long" : "the run directory has no name");
    memcpy(r->path, dir, n);
    r->path[n] = '\0';
    const char *leaf = leaf_of(r->path);
    if (strcmp(leaf, ".") == 0 || strcmp(leaf, "..") == 0)
        return error_set(err, ERR_USAGE, dir, "names no directory of its own");
    if (name_kind(leaf) != NAME_RECORD)
        return error_set(err, ERR_USAGE, dir, "a name that ends like this is how unfinished records are called");
    return 0;
}

// Makes or renames to PATH.WORD-PID, or PATH.WORD-PID-2, -3, ... where that is there already (the same PID comes again,
// in a container each time). `make` does it for one leaf name and gives errno.
static int claim(struct record *r, const char *word, int (*make)(struct record *, const char *))
{
    for (int i = 1; i < 1000; i++) {
        char name[sizeof r->building];
        int n = snprintf(name, sizeof name, "%s.%s-%ld", r->path, word, (long)getpid());
        if (i > 1 && n > 0 && (size_t)n < sizeof name)
            snprintf(name + n, sizeof name - (size_t)n, "-%d", i);
        int why = make(r, leaf_of(name));
        if (why == EEXIST)
            continue;
        if (why == 0)
            memcpy(r->building, name, sizeof name);
        return why;
    }
    return EEXIST;
}

static int make_folder(struct record *r, const char *leaf)
{
    if (mkdirat(r->parent_fd, leaf, 0777) != 0)
        return errno;
    r->fd = openat(r->parent_fd, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return r->fd < 0 ? errno : 0;
}

static int rename_to(struct record *r, const char *leaf)
{
    return tree_rename_new(r->parent_fd, leaf_of(r->building), leaf) == 0 ? 0 : errno;
}

static void shut(struct record *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->parent_fd >= 0)
        close(r->parent_fd);
    r->fd = r->parent_fd = -1;
}

static int exists_already(const struct record *r, struct error *err)
{
    return error_set(err, ERR_USAGE, r->path, "exists already; a record needs a directory of its own that does not");
}

int record_open(struct record *r, const char *dir, const char *command, int argc, char *const *argv, struct error *err)
{
    memset(r, 0, sizeof *r);
    r->fd = r->parent_fd = -1;
    r->argc = argc;
    r->argv = argv;
    r->started = (int64_t)time(NULL);
    snprintf(r->command, sizeof r->command, "%s", command);
    int rc = name_record(r, dir, err);
    if (rc)
        return rc;
    char parent[sizeof r->path];
    memcpy(parent, r->path, sizeof parent);
    size_t above = (size_t)(leaf_of(r->path) - r->path);
    struct stat st;
    // Looked at before any folder is made, so that a mistake leaves nothing behind.
    if (lstat(r->path, &st) == 0)
        return exists_already(r, err);
    parent[above] = '\0';
    if (above && (rc = tree_make_folders(parent, err)) != 0)
        return rc;
    r->parent_fd = open(above ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->parent_fd < 0)
        return error_set(err, ERR_IO, r->path, "its folder cannot be opened: %s", strerror(errno));
    int why = claim(r, "partial", make_folder);
    if (why) {
        shut(r);
        return error_set(err, ERR_IO, r->path, "cannot be made: %s", strerror(why));
    }
    return 0;
}

static int closed(const struct record *r, struct error *err)
{
    return error_set(err, ERR_INTERNAL, r->path, "the record is closed");
}

static int write_member(struct record *r, const char *name, const void *bytes, size_t n, struct error *err)
{
    char where[1300];
    const char *leaf;
    if (r->fd < 0)
        return closed(r, err);
    int parent = tree_open_parent(r->fd, name, &leaf, err);
    if (parent < 0)
        return ERR_IO;
    snprintf(where, sizeof where, "%s/%s", r->building, name);
    int rc = tree_write_new(parent, leaf, bytes, n, where, err);
    close(parent);
    return rc;
}

int record_config(struct record *r, const char *json, size_t n, struct error *err)
{
    json_t *root = json_parse(json, n, "config.json", err);
    bool object = json_is_object(root);
    json_decref(root);
    if (!object)
        return error_set(err, ERR_INTERNAL, "config.json", "is not a JSON object");
    int rc = write_member(r, "config.json", json, n, err);
    r->has_config |= rc == 0;
    return rc;
}

static int check_free_name(const char *name, struct error *err)
{
    int rc = tree_check_name(name, err);
    if (!rc &&
        (strcmp(name, "config.json") == 0 || strcmp(name, "report.json") == 0 || strcmp(name, "failure.json") == 0))
        rc = error_set(err, ERR_INTERNAL, name, "is written by the record itself");
    return rc;
}

int record_write(struct record *r, const char *name, const void *bytes, size_t n, struct error *err)
{
    int rc = check_free_name(name, err);
    return rc ? rc : write_member(r, name, bytes, n, err);
}

int record_place(struct record *r, const char *name, char *out, size_t capacity, struct error *err)
{
    const char *leaf;
    int rc = check_free_name(name, err);
    if (rc)
        return rc;
    if (r->fd < 0)
        return closed(r, err);
    int parent = tree_open_parent(r->fd, name, &leaf, err);
    if (parent < 0)
        return ERR_IO;
    close(parent);
    int length = snprintf(out, capacity, "%s/%s", r->building, name);
    return length >= 0 && (size_t)length < capacity ? 0 : error_set(err, ERR_INTERNAL, name, "the path is too long");
}

const char *record_path(const struct record *r)
{
    return r->path;
}

int record_commit(struct record *r, const void *report, size_t n, struct error *err)
{
    if (r->fd < 0)
        return closed(r, err);
    if (!r->has_config)
        return error_set(err, ERR_INTERNAL, r->path, "a record without config.json cannot be complete");
    int rc = interrupt_check("the record was being completed", err);
    if (!rc)
        rc = write_member(r, "report.json", report, n, err);
    if (!rc)
        rc = tree_sync(r->fd, r->building, err);
    if (rc)
        return rc;
    int why = rename_to(r, leaf_of(r->path));
    if (why == EEXIST)
        return error_set(err, ERR_USAGE, r->path, "has appeared while the command ran; the record stays unfinished");
    if (why)
        return error_set(err, ERR_IO, r->path, "cannot be renamed into place: %s", strerror(why));
    memcpy(r->building, r->path, sizeof r->path);
    if (!tree_sync_folder(r->parent_fd))
        rc = error_set(err, ERR_IO, r->path, "is in place, but its folder cannot be synced: %s", strerror(errno));
    shut(r);
    return rc;
}

int record_fail(struct record *r, const struct error *why, const char *details, struct error *err)
{
    if (r->fd < 0)
        return 0;
    struct str text;
    struct jw w;
    str_init(&text);
    jw_init(&w, &text, false);
    jw_object(&w);
    jw_kv_string(&w, "schema", "assay.failure/1");
    jw_kv_string(&w, "assay", ASSAY_VERSION);
    jw_kv_string(&w, "command", r->command);
    char now[32];
    jw_kv_string(&w, "time", record_time(now, (int64_t)time(NULL)));
    jw_key(&w, "error");
    record_error_json(&w, why);
    jw_kv_string(&w, "signal", why->code == ERR_INTERRUPTED ? interrupt_signal() : NULL);
    jw_key(&w, "details");
    if (details)
        jw_raw(&w, details);
    else
        jw_null(&w);
    jw_object_end(&w);
    unlinkat(r->fd, "report.json", 0);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = write_member(r, "failure.json", text.text, text.length, err);
    str_release(&text);
    if (!rc)
        rc = tree_sync(r->fd, r->building, err);
    // Renamed even when the disk is full: its name then says that it failed, if not why.
    int failed = claim(r, "failed", rename_to);
    if (failed && !rc)
        rc = error_set(err, ERR_IO, r->building, "cannot be renamed: %s", strerror(failed));
    tree_sync_folder(r->parent_fd);
    shut(r);
    return rc;
}

void record_abandon(struct record *r)
{
    if (r->fd < 0)
        return;
    tree_empty(r->fd);
    unlinkat(r->parent_fd, leaf_of(r->building), AT_REMOVEDIR);
    shut(r);
}
