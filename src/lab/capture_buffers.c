// SPDX-License-Identifier: Apache-2.0
#include "lab/capture_buffers.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "ir/hlo_same.h"
#include "record/tree.h"
#include "trace/heap.h"

#define MAX_DUMP_BYTES ((size_t)1 << 30)

static void give_reason(struct capture_buffers *b, const struct error *why)
{
    if (why->where[0])
        snprintf(b->reason, sizeof b->reason, "%.200s: %.300s", why->where, why->message);
    else
        snprintf(b->reason, sizeof b->reason, "%.500s", why->message);
}

static bool must_end(int rc)
{
    return rc == ERR_MEMORY || rc == ERR_INTERRUPTED;
}

// ---- The dump

// An assignment counts when it can be replayed.
static int keep(struct capture_buffers *b, const struct hlo_module *m, struct error *err)
{
    struct trace_heaps heaps = {.n_heaps = 0};
    arena_init(&heaps.arena);
    int rc = trace_heaps_add(&heaps, m, m->name, 1, err);
    if (!rc && heaps.damage)
        snprintf(b->reason, sizeof b->reason, "the assignment that the compiler wrote is damaged: %.200s",
                 heaps.damage);
    else if (!rc)
        str_add_n(&b->assignment, (const char *)m->buffer_assignment.data, m->buffer_assignment.size);
    trace_heaps_release(&heaps);
    return rc ? rc : str_check(&b->assignment, err);
}

// Whether a file of the dump is the program with its assignment. What cannot be read is none of it: a dump holds much
// else.
static int try_file(struct capture_buffers *b, const char *path, const struct hlo_module *ran, struct arena *scratch,
                    struct error *err)
{
    struct error unreadable = {0};
    struct hlo_module m;
    struct str bytes;
    str_init(&bytes);
    int rc = file_read(&bytes, path, MAX_DUMP_BYTES, &unreadable);
    if (!rc)
        rc = hlo_read(&m, str_text(&bytes), bytes.length, path, scratch, &unreadable);
    if (rc == ERR_MEMORY)
        error_set(err, rc, path, "%s", unreadable.message);
    else if (rc)
        rc = 0;
    else if (m.buffer_assignment.size && !hlo_same(&m, ran))
        snprintf(b->reason, sizeof b->reason, "what the compiler wrote is not the program that ran");
    else if (m.buffer_assignment.size)
        rc = keep(b, &m, err);
    str_release(&bytes);
    return rc;
}

static int search(struct capture_buffers *b, const char *folder, const struct hlo_module *ran, struct error *err)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    int rc = 0;
    snprintf(b->reason, sizeof b->reason, "the compiler wrote none");
    while (d && !rc && !b->assignment.length && (e = readdir(d))) {
        static const char ending[] = ".pb";
        size_t n = strlen(e->d_name), k = sizeof ending - 1;
        char path[1024];
        struct arena scratch;
        if (n < k || strcmp(e->d_name + n - k, ending) != 0 ||
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path)
            continue;
        arena_init(&scratch);
        rc = try_file(b, path, ran, &scratch, err);
        arena_release(&scratch);
    }
    if (d)
        closedir(d);
    if (b->assignment.length)
        b->reason[0] = '\0';
    return rc;
}

// ---- The second compilation

static int compile(struct worker *w, const struct worker_program *source, const char *folder, struct arena *a,
                   struct error *err)
{
    struct worker_program p = *source;
    struct worker_executable e;
    struct worker_override *all = arena_new(a, struct worker_override, source->n_overrides + 2, err);
    if (!all)
        return ERR_MEMORY;
    if (source->n_overrides)
        memcpy(all, source->overrides, source->n_overrides * sizeof *all);
    all[p.n_overrides++] = (struct worker_override){"xla_dump_to", folder};
    all[p.n_overrides++] = (struct worker_override){"xla_dump_hlo_as_proto", "true"};
    p.overrides = all;
    p.want_optimized = false;
    int rc = worker_compile(w, &p, &e, err);
    if (rc)
        return rc;
    rc = worker_unload(w, e.id, err);
    worker_executable_release(&e);
    return rc;
}

static int dump_and_search(struct capture_buffers *b, struct worker *w, const struct worker_program *source,
                           const char *folder, const struct hlo_module *ran, struct arena *a, struct error *err)
{
    struct error failed = {0};
    int rc = compile(w, source, folder, a, &failed);
    if (!rc)
        return search(b, folder, ran, err);
    if (must_end(rc))
        return error_set(err, rc, failed.where, "%s", failed.message);
    give_reason(b, &failed);
    return 0;
}

int capture_buffers(struct capture_buffers *b, struct worker *w, const struct worker_program *source,
                    struct slice optimized, struct error *err)
{
    struct hlo_module ran;
    struct error failed = {0};
    struct arena a;
    struct tree_temporary folder = {.fd = -1};
    *b = (struct capture_buffers){.reason = ""};
    str_init(&b->assignment);
    if (!optimized.size) {
        snprintf(b->reason, sizeof b->reason, "the plugin does not hand the optimised program over");
        return 0;
    }
    arena_init(&a);
    int rc = hlo_read(&ran, optimized.data, optimized.size, "the optimised program", &a, &failed);
    if (!rc)
        rc = tree_temporary_new(&folder, "dump", &failed);
    if (rc == ERR_MEMORY) {
        error_set(err, rc, failed.where, "%s", failed.message);
    } else if (rc) {
        give_reason(b, &failed);
        rc = 0;
    } else {
        rc = dump_and_search(b, w, source, folder.path, &ran, &a, err);
    }
    tree_temporary_release(&folder);
    arena_release(&a);
    return rc;
}

void capture_buffers_release(struct capture_buffers *b)
{
    str_release(&b->assignment);
}
