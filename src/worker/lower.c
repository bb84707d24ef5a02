// SPDX-License-Identifier: Apache-2.0
// StableHLO into HLO, by the plugin's own translation. PJRT has no call for it: a compiler that is asked to dump writes
// the module down before it begins its work, and that is all that is wanted of it.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/file.h"
#include "record/tree.h"
#include "worker/client.h"

#define ENDING    ".before_optimizations.hlo.pb"
#define MAX_BYTES ((size_t)4 << 30)

struct dump {
    struct tree_temporary folder;
    int events; // of files that were written to the end; -1: none are told
    char name[NAME_MAX + 1];
};

// Whether the module has been written.
static bool take_events(void *context)
{
    struct dump *d = context;
    _Alignas(struct inotify_event) char room[4096];
    ssize_t n;
    while (!d->name[0] && (n = read(d->events, room, sizeof room)) > 0) {
        const struct inotify_event *e;
        for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof *e + e->len)) {
            e = (const struct inotify_event *)(const void *)(room + at);
            if (e->len && !d->name[0] && str_ends_with(e->name, ENDING))
                snprintf(d->name, sizeof d->name, "%s", e->name);
        }
    }
    return d->name[0] != '\0';
}

// Where events are not to be had: what is there when the compiler has ended.
static void look(struct dump *d)
{
    int fd = openat(d->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e && !d->name[0]; e = readdir(dir)) {
        if (str_ends_with(e->d_name, ENDING))
            snprintf(d->name, sizeof d->name, "%s", e->d_name);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

static int compile(struct worker *w, const struct worker_program *p, struct dump *d, struct error *err)
{
    struct worker_override dumps[] = {{"xla_dump_to", d->folder.path}, {"xla_dump_hlo_as_proto", "true"}};
    struct worker_program dumping = *p;
    dumping.overrides = dumps;
    dumping.n_overrides = sizeof dumps / sizeof *dumps;
    struct call c;
    struct call_watch watch = {.fd = d->events, .enough = take_events, .context = d};
    int rc = call_compile(&c, w, FRAME_COMPILE, &dumping, d->events >= 0 ? &watch : NULL, err);
    call_release(&c);
    return rc;
}

int worker_lower(const struct worker_options *o, const struct worker_program *p, struct str *hlo,
                 struct worker_lowering *why, struct error *err)
{
    struct dump d = {.events = -1};
    struct worker *w = NULL;
    struct error failed = {0};
    int rc = tree_temporary_new(&d.folder, "lower", err);
    if (rc)
        return rc;
    d.events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (d.events >= 0 && inotify_add_watch(d.events, d.folder.path, IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
        close(d.events);
        d.events = -1;
    }
    rc = worker_start(&w, o, &failed);
    bool started = !rc;
    if (!rc)
        rc = compile(w, p, &d, &failed);
    if (why)
        *why = (struct worker_lowering){.refused = started && rc == ERR_DEVICE && !worker_failure(w),
                                        .died = started && worker_failure(w)};
    bool stopped = rc == ERR_INTERRUPTED && failed.code;
    if (d.events >= 0 && !d.name[0])
        take_events(&d);
    else if (d.events < 0)
        look(&d);
    // What the compiler made of the module afterwards does not matter: it may have refused it, or died of it.
    if (d.name[0] && !stopped) {
        char path[sizeof d.folder.path + sizeof d.name + 1];
        snprintf(path, sizeof path, "%s/%s", d.folder.path, d.name);
        hlo->max_bytes = MAX_BYTES;
        rc = file_read(hlo, path, MAX_BYTES, err);
    } else if (rc) {
        rc = error_set(err, rc, failed.where, "%s", failed.message);
    } else {
        rc = error_set(err, ERR_DEVICE, p->name, "the plugin %s compiled it, but did not write down what it had read",
                       worker_info(w)->plugin_path);
    }
    worker_stop(w);
    if (d.events >= 0)
        close(d.events);
    tree_temporary_release(&d.folder);
    return rc;
}
