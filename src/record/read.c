// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "record/name.h"
#include "record/record.h"

// The whole of DIR/NAME, in the arena.
static int read_member(const char **text, size_t *bytes, const char *dir, const char *name, struct arena *a,
                       struct error *err)
{
    char path[1200];
    struct file_map m;
    *text = NULL;
    *bytes = 0;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return error_set(err, ERR_INPUT, dir, "the path is too long");
    int rc = file_map_open(&m, path, err);
    if (rc)
        return rc;
    char *copy = m.size < SIZE_MAX ? arena_alloc(a, m.size + 1, 1, err) : NULL;
    struct file_guard g;
    if (!copy) {
        rc = ERR_MEMORY;
    } else if (FILE_GUARD(&g, &m)) {
        rc = file_guard_error(&g, err);
    } else {
        if (m.size)
            memcpy(copy, m.data, m.size);
        file_guard_end(&g);
        *text = copy;
        *bytes = m.size;
    }
    file_map_close(&m);
    return rc;
}

static bool has_member(const char *dir, const char *name)
{
    char path[1200];
    struct stat st;
    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path && lstat(path, &st) == 0;
}

// "this run failed", with the reason from failure.json where that can be read.
static int tell_failure(const char *dir, struct arena *a, struct error *err)
{
    const char *text, *message, *code;
    size_t n;
    json_t *root = NULL;
    if (read_member(&text, &n, dir, "failure.json", a, NULL) == 0)
        root = json_parse(text, n, "failure.json", NULL);
    const json_t *e = json_object_get(root, "error");
    code = json_string_value(json_object_get(e, "code"));
    message = json_string_value(json_object_get(e, "message"));
    int rc = error_set(err, ERR_INPUT, dir, "this run failed%s%s%s%s", message ? ": " : "", message ? message : "",
                       code ? ", error code " : "", code ? code : "");
    json_decref(root);
    return rc;
}

// There is no DIR: is there an unfinished or a failed one beside it?
static int tell_absent(const char *dir, struct arena *a, struct error *err)
{
    char beside[1024] = "", parent[1024];
    const char *slash = strrchr(dir, '/'), *leaf = slash ? slash + 1 : dir;
    snprintf(parent, sizeof parent, "%.*s", slash == dir ? 1 : slash ? (int)(slash - dir) : 1, slash ? dir : ".");
    DIR *d = opendir(parent);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        size_t n = strlen(leaf);
        if (strncmp(e->d_name, leaf, n) == 0 && e->d_name[n] == '.' && name_kind(e->d_name) != NAME_RECORD &&
            strcmp(strrchr(e->d_name, '.'), e->d_name + n) == 0 && strcmp(e->d_name, beside) > 0)
            snprintf(beside, sizeof beside, "%.*s%s", (int)(leaf - dir), dir, e->d_name);
    }
    if (d)
        closedir(d);
    if (!beside[0])
        return error_set(err, ERR_INPUT, dir, "there is no such record");
    if (name_kind(beside) == NAME_PARTIAL)
        return error_set(err, ERR_INPUT, dir, "there is no such record, only one that was never finished: %s", beside);
    struct error why = {0};
    tell_failure(beside, a, &why);
    return error_set(err, ERR_INPUT, dir, "there is no such record; %s: %s", beside, why.message);
}

// Is it an object whose "schema" is `want`, or, when that is NULL, any?
static int check_document(const char *text, size_t n, const char *dir, const char *name, const char *want,
                          struct error *err)
{
    char where[1200];
    snprintf(where, sizeof where, "%s/%s", dir, name);
    json_t *root = json_parse(text, n, where, err);
    if (!root)
        return ERR_INPUT;
    const char *schema = json_string_value(json_object_get(root, "schema"));
    int rc = 0;
    if (!schema)
        rc = error_set(err, ERR_INPUT, where, "names no schema: not written by assay");
    else if (want && strcmp(schema, want) != 0)
        rc = error_set(err, ERR_INPUT, where, "has schema %s where this version reads %s", schema, want);
    json_decref(root);
    return rc;
}

int record_read(struct record_contents *out, const char *dir, struct arena *a, struct error *err)
{
    char path[1024];
    struct stat st;
    memset(out, 0, sizeof *out);
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    if (n == 0 || n >= sizeof path)
        return error_set(err, ERR_INPUT, dir, "is not the name of a record");
    memcpy(path, dir, n);
    path[n] = '\0';
    if (stat(path, &st) != 0)
        return errno == ENOENT ? tell_absent(path, a, err)
                               : error_set(err, ERR_INPUT, path, "cannot be looked at: %s", strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERR_INPUT, path, "is not a record: a record is a directory");
    const char *slash = strrchr(path, '/');
    enum name_kind kind = name_kind(slash ? slash + 1 : path);
    if (kind == NAME_FAILED || has_member(path, "failure.json"))
        return tell_failure(path, a, err);
    if (kind == NAME_PARTIAL)
        return error_set(err, ERR_INPUT, path,
                         "this record was never finished: its command was killed, or is still running");
    static const char *const members[] = {"config.json", "report.json"};
    for (size_t i = 0; i < 2; i++) {
        if (!has_member(path, members[i]))
            return error_set(err, ERR_INPUT, path, "holds no %s: not a complete record", members[i]);
    }
    int rc = read_member(&out->config, &out->config_bytes, path, "config.json", a, err);
    if (!rc)
        rc = read_member(&out->report, &out->report_bytes, path, "report.json", a, err);
    if (!rc)
        rc = check_document(out->config, out->config_bytes, path, "config.json", "assay.record.config/1", err);
    if (!rc)
        rc = check_document(out->report, out->report_bytes, path, "report.json", NULL, err);
    return rc;
}
