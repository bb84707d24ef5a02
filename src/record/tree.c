// SPDX-License-Identifier: Apache-2.0
#include "record/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { MAX_DEPTH = 32 };

bool tree_sync_folder(int fd)
{
    // What file systems say that cannot sync a folder.
    return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
}

int tree_make_folders(char *path, struct error *err)
{
    for (char *p = path;; p++) {
        if ((*p != '/' && *p) || p == path)
            continue;
        char held = *p;
        *p = '\0';
        int made = mkdir(path, 0777), why = errno;
        if (made == 0) {
            char *slash = strrchr(path, '/');
            if (slash)
                *slash = '\0';
            int fd = open(!slash ? "." : *path ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (slash)
                *slash = '/';
            if (fd >= 0) {
                tree_sync_folder(fd);
                close(fd);
            }
        } else if (why != EEXIST) {
            error_set(err, ERR_IO, path, "cannot be made: %s", strerror(why));
        }
        *p = held;
        if (made != 0 && why != EEXIST)
            return ERR_IO;
        if (!*p)
            return 0;
    }
}

int tree_check_name(const char *name, struct error *err)
{
    size_t n = strlen(name);
    bool bad = n == 0 || n > 255;
    for (size_t at = 0, k; at <= n && !bad; at += k + 1) {
        const char *part = name + at;
        k = strcspn(part, "/");
        bad = k == 0 || (k == 1 && part[0] == '.') || (k == 2 && part[0] == '.' && part[1] == '.');
    }
    for (size_t i = 0; i < n && !bad; i++)
        bad = (unsigned char)name[i] < 0x20 || name[i] == 0x7f;
    return bad ? error_set(err, ERR_INTERNAL, name, "is not a name for a file of a record") : 0;
}

int tree_open_parent(int fd, const char *name, const char **leaf, struct error *err)
{
    int at = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    const char *part = name;
    for (const char *slash; at >= 0 && (slash = strchr(part, '/')) != NULL; part = slash + 1) {
        char folder[256];
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - part), part);
        int below = -1;
        if (mkdirat(at, folder, 0777) == 0 || errno == EEXIST)
            below = openat(at, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int why = errno;
        close(at);
        errno = why;
        at = below;
    }
    if (at < 0)
        return error_set(err, ERR_IO, name, "its folder cannot be made: %s", strerror(errno)), -1;
    *leaf = part;
    return at;
}

int tree_write_new(int parent_fd, const char *leaf, const void *bytes, size_t n, const char *where, struct error *err)
{
    int fd = openat(parent_fd, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set(err, errno == EEXIST ? ERR_INTERNAL : ERR_IO, where, "cannot be created: %s", strerror(errno));
    int rc = fd_write_all(fd, bytes, n, where, err);
    if (close(fd) != 0 && !rc)
        rc = error_set(err, ERR_IO, where, "cannot be closed: %s", strerror(errno));
    if (rc)
        unlinkat(parent_fd, leaf, 0);
    return rc;
}

static DIR *list(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own >= 0 ? fdopendir(own) : NULL;
    if (!d && own >= 0)
        close(own);
    return d;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int sync_failed(const char *where, const char *name, struct error *err)
{
    return error_set(err, ERR_IO, where, "%s cannot be synced: %s", name, strerror(errno));
}

static int sync_below(int fd, int depth, const char *where, struct error *err)
{
    DIR *d = list(fd);
    if (!d || depth > MAX_DEPTH) {
        if (d)
            closedir(d);
        return error_set(err, ERR_IO, where, depth > MAX_DEPTH ? "is nested too deep" : "cannot be listed");
    }
    int rc = 0;
    for (struct dirent *e; !rc && (e = readdir(d)) != NULL;) {
        struct stat st;
        if (is_dots(e->d_name) || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bool folder = S_ISDIR(st.st_mode);
        if (!folder && !S_ISREG(st.st_mode))
            continue;
        int below = openat(fd, e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (below >= 0 && folder)
            rc = sync_below(below, depth + 1, where, err);
        else if (below < 0 || fsync(below) != 0)
            rc = sync_failed(where, e->d_name, err);
        if (below >= 0)
            close(below);
    }
    closedir(d);
    if (!rc && !tree_sync_folder(fd))
        rc = sync_failed(where, "a folder", err);
    return rc;
}

int tree_sync(int fd, const char *where, struct error *err)
{
    return sync_below(fd, 0, where, err);
}

static void empty_below(int fd, int depth)
{
    DIR *d = depth <= MAX_DEPTH ? list(fd) : NULL;
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (is_dots(e->d_name) || unlinkat(fd, e->d_name, 0) == 0)
            continue;
        int below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0)
            continue;
        empty_below(below, depth + 1);
        close(below);
        unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    closedir(d);
}

void tree_empty(int fd)
{
    empty_below(fd, 0);
}

int tree_rename_new(int folder_fd, const char *from, const char *to)
{
    if (renameat2(folder_fd, from, folder_fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    // EPERM: what a sandbox answers that does not know the call.
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP && errno != EPERM)
        return -1;
    struct stat st;
    if (fstatat(folder_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    int rc = renameat(folder_fd, from, folder_fd, to);
    if (rc != 0 && (errno == ENOTEMPTY || errno == ENOTDIR))
        errno = EEXIST;
    return rc;
}

int tree_temporary_new(struct tree_temporary *t, const char *what, struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    t->fd = -1;
    int n = snprintf(t->path, sizeof t->path, "%s/assay-%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", what);
    if (n >= (int)sizeof t->path - 16) // what is put into it has a path, too
        return error_set(err, ERR_USAGE, "TMPDIR", "the path is too long");
    if (!mkdtemp(t->path))
        return error_set(err, ERR_IO, t->path, "a temporary folder cannot be made: %s; TMPDIR names another place",
                         strerror(errno));
    t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->fd >= 0)
        return 0;
    int rc = error_set(err, ERR_IO, t->path, "a temporary folder cannot be opened: %s", strerror(errno));
    rmdir(t->path);
    return rc;
}

void tree_temporary_release(struct tree_temporary *t)
{
    if (t->fd < 0)
        return;
    tree_empty(t->fd);
    close(t->fd);
    rmdir(t->path);
    t->fd = -1;
}
