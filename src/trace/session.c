// SPDX-License-Identifier: Apache-2.0
#include "trace/session.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"

// ---- What a directory holds

struct names {
    const char **items;
    size_t n, cap;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Profiles; and what the profilers of some programs write beside them or in their place.
static const char *const endings[] = {".xplane.pb", ".xplane.pb.gz", NULL};
static const char *const json_endings[] = {".trace.json", ".trace.json.gz", NULL};

// Where one of the endings begins in a name; NULL when it has none of them.
static const char *find_ending(const char *name, const char *const *of)
{
    for (; *of; of++) {
        if (str_ends_with(name, *of))
            return name + strlen(name) - strlen(*of);
    }
    return NULL;
}

// The paths in `directory` of files with one of the endings (NULL: of directories), sorted. A directory that is not
// there has none.
static int list(struct arena *arena, const char *directory, const char *const *of, struct names *out, struct error *err)
{
    bool directories = !of;
    DIR *d = opendir(directory);
    int rc = 0;
    *out = (struct names){0};
    if (!d)
        return 0;
    const struct dirent *entry;
    while (!rc && (entry = readdir(d))) {
        if (entry->d_name[0] == '.' || (of && !find_ending(entry->d_name, of)))
            continue;
        const char *path = arena_printf(arena, err, "%s/%s", directory, entry->d_name);
        struct stat st;
        if (path && (stat(path, &st) || (directories ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))))
            continue;
        const char **more = path ? arena_grow(arena, out->items, &out->cap, out->n + 1, sizeof *more, err) : NULL;
        rc = more ? 0 : ERR_MEMORY;
        if (more) {
            out->items = more;
            out->items[out->n++] = path;
        }
    }
    closedir(d);
    if (!rc && out->n)
        qsort(out->items, out->n, sizeof *out->items, by_name);
    return rc;
}

static int list_profiles(struct arena *arena, const char *directory, struct names *out, struct error *err)
{
    int rc = list(arena, directory, endings, out, err);
    return rc || out->n ? rc : list(arena, directory, json_endings, out, err);
}

// The newest directory below `parent` that holds profiles.
static int newest_run(struct trace *t, const char *parent, struct names *out, struct error *err)
{
    struct names runs;
    int rc = list(&t->arena, parent, NULL, &runs, err);
    for (size_t i = runs.n; i-- > 0 && !rc;) {
        struct names files;
        rc = list_profiles(&t->arena, runs.items[i], &files, err);
        if (rc || !files.n)
            continue;
        if (out->n) {
            t->n_other_runs++;
        } else {
            *out = files;
            t->run = runs.items[i];
        }
    }
    return rc;
}

static int search(struct trace *t, const char *directory, struct names *out, struct error *err)
{
    static const char *const below[] = {"/plugins/profile", "/trace/plugins/profile", ""};
    int rc = list_profiles(&t->arena, directory, out, err);
    if (!rc && out->n)
        t->run = directory;
    for (size_t i = 0; i < sizeof below / sizeof *below && !rc && !out->n; i++) {
        const char *parent = arena_printf(&t->arena, err, "%s%s", directory, below[i]);
        rc = parent ? newest_run(t, parent, out, err) : ERR_MEMORY;
    }
    if (!rc && !out->n)
        rc = error_set(
            err, ERR_INPUT, directory,
            "holds no profile: no *.xplane.pb or *.trace.json in it, and none in a run below plugins/profile");
    return rc;
}

// ---- Files

static const char *host_name(struct trace *t, const struct trace_file *f, struct error *err)
{
    if (f->space.n_hosts && f->space.hosts[0].size)
        return arena_strndup(&t->arena, (const char *)f->space.hosts[0].data, f->space.hosts[0].size, err);
    const char *base = strrchr(f->path, '/');
    base = base ? base + 1 : f->path;
    static const char *const plain[] = {".json", ".json.gz", NULL};
    const char *end = strstr(base, ".xplane.pb");
    end = end ? end : find_ending(base, json_endings);
    end = end ? end : find_ending(base, plain);
    return arena_strndup(&t->arena, base, end ? (size_t)(end - base) : strlen(base), err);
}

static int read_bytes(struct trace *t, struct trace_file *f, const void *bytes, size_t size, struct error *err)
{
    if (!chrome_recognise(bytes, size))
        return xspace_read(&f->space, bytes, size, f->path, &t->arena, err);
    int rc = chrome_read(&f->chrome, bytes, size, f->path, err);
    if (!rc)
        rc = xspace_read(&f->space, str_text(&f->chrome.space), f->chrome.space.length, f->path, &t->arena, err);
    if (!rc)
        xdamage_add(&f->space.damage, &f->chrome.damage);
    return rc;
}

static int read_file(struct trace *t, struct trace_file *f, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    bool packed = gunzip_recognise(f->map.data, f->map.size);
    int rc = packed ? 0 : read_bytes(t, f, f->map.data, f->map.size, err);
    file_guard_end(&g);
    if (packed)
        rc = gunzip(&f->unpacked, &f->map, err);
    if (packed && !rc)
        rc = read_bytes(t, f, f->unpacked.data, f->unpacked.size, err);
    return rc;
}

static int add_file(struct trace *t, const char *path, struct error *err)
{
    struct trace_file *files = arena_grow(&t->arena, t->files, &t->cap_files, t->n_files + 1, sizeof *files, err);
    if (!files)
        return ERR_MEMORY;
    t->files = files;
    struct trace_file *f = &files[t->n_files];
    memset(f, 0, sizeof *f);
    f->path = arena_strdup(&t->arena, path, err);
    int rc = f->path ? file_map_open(&f->map, path, err) : ERR_MEMORY;
    if (rc)
        return rc;
    t->n_files++;
    rc = read_file(t, f, err);
    if (rc)
        return rc;
    if (f->unpacked.damage) {
        struct xdamage *d = &f->space.damage;
        d->what = f->unpacked.damage;
        d->where = "the file";
        d->offset = f->unpacked.damaged;
        d->count++;
    }
    f->host = host_name(t, f, err);
    return f->host ? 0 : ERR_MEMORY;
}

int trace_open(struct trace *t, const char *const *paths, size_t n, struct error *err)
{
    memset(t, 0, sizeof *t);
    arena_init(&t->arena);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct names found = {.items = (const char **)(uintptr_t)&paths[i], .n = 1};
        struct stat st;
        if (stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode))
            rc = search(t, paths[i], &found, err);
        for (size_t k = 0; k < found.n && !rc; k++)
            rc = add_file(t, found.items[k], err);
    }
    return rc;
}

void trace_close(struct trace *t)
{
    for (size_t i = 0; i < t->n_files; i++) {
        chrome_release(&t->files[i].chrome);
        gunzip_release(&t->files[i].unpacked);
        file_map_close(&t->files[i].map);
    }
    arena_release(&t->arena);
    memset(t, 0, sizeof *t);
}

int64_t trace_origin_ns(const struct trace *t)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < t->n_files; i++) {
        for (size_t k = 0; k < t->files[i].space.n_planes; k++) {
            const struct xplane *p = &t->files[i].space.planes[k];
            for (size_t j = 0; j < p->n_lines; j++) {
                if (p->lines[j].events.size && p->lines[j].timestamp_ns < least)
                    least = p->lines[j].timestamp_ns;
            }
        }
    }
    return least > 1000000000000000 && least < INT64_MAX ? least : 0; // 11 days
}
