// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t modified_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

int file_map_open(struct file_map *m, const char *path, struct error *err)
{
    memset(m, 0, sizeof *m);
    m->fd = -1;
    if (strlen(path) >= sizeof m->path)
        return error_set(err, ERR_INPUT, path, "the path is longer than %zu bytes", sizeof m->path - 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(err, ERR_INPUT, path, "cannot be opened: %s", strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return error_set(err, ERR_INPUT, path, "is not a regular file");
    }
    m->size = (size_t)st.st_size;
    m->modified_ns = modified_ns(&st);
    if (m->size) {
        void *p = mmap(NULL, m->size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            int e = errno;
            close(fd);
            return error_set(err, ERR_INPUT, path, "cannot be mapped: %s", strerror(e));
        }
        m->data = p;
    }
    m->fd = fd;
    memcpy(m->path, path, strlen(path) + 1);
    return 0;
}

int file_map_adopt(struct file_map *m, int fd, size_t bytes, const char *name, struct error *err)
{
    memset(m, 0, sizeof *m);
    void *p = bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    if (p == MAP_FAILED) {
        int e = errno;
        close(fd);
        m->fd = -1;
        return error_set(err, ERR_MEMORY, name, "cannot be mapped: %s", strerror(e));
    }
    m->data = p;
    m->size = bytes;
    m->fd = fd;
    snprintf(m->path, sizeof m->path, "%s", name);
    return 0;
}

int file_map_unchanged(const struct file_map *m, struct error *err)
{
    struct stat st;
    if (fstat(m->fd, &st) == 0 && (size_t)st.st_size == m->size && modified_ns(&st) == m->modified_ns)
        return 0;
    return error_set(err, ERR_INPUT, m->path, "was changed while it was in use");
}

void file_map_close(struct file_map *m)
{
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->size);
    if (m->fd >= 0)
        close(m->fd);
    memset(m, 0, sizeof *m);
    m->fd = -1;
}

void file_map_forget(const struct file_map *m, size_t offset, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t from = (offset + page - 1) / page * page;
    size_t to = (offset + size) / page * page;
    if (m->data && from < to && to <= m->size)
        madvise((void *)(uintptr_t)(m->data + from), to - from, MADV_DONTNEED);
}

static _Thread_local struct file_guard *innermost;
static struct sigaction previous; // of a program that uses the library; it gets what is not ours

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    const uint8_t *at = info->si_addr;
    for (struct file_guard *g = innermost; g; g = g->outer) {
        if (at >= g->map->data && at < g->map->data + g->map->size) {
            innermost = g;
            siglongjmp(g->jump, 1);
        }
    }
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(sig, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(sig);
    else {
        signal(sig, SIG_DFL); // die of it as usual
        raise(sig);
    }
}

static void install(void)
{
    struct sigaction sa = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGBUS, &sa, &previous);
}

void file_guard_begin(struct file_guard *g, const struct file_map *map)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    g->map = map;
    g->outer = innermost;
    innermost = g;
}

void file_guard_end(struct file_guard *g)
{
    innermost = g->outer;
}

int file_guard_error(struct file_guard *g, struct error *err)
{
    file_guard_end(g);
    return error_set(err, ERR_INPUT, g->map->path, "became shorter than %zu bytes while it was being read",
                     g->map->size);
}

int fd_read_all(struct str *out, int fd, size_t max_bytes, const char *where, struct error *err)
{
    char chunk[65536];
    size_t total = 0;
    for (;;) {
        ssize_t k = read(fd, chunk, sizeof chunk);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_set(err, ERR_INPUT, where, "cannot be read: %s", strerror(errno));
        if (k == 0)
            return str_check(out, err);
        total += (size_t)k;
        if (total > max_bytes)
            return error_set(err, ERR_INPUT, where, "is larger than %zu bytes", max_bytes);
        str_add_n(out, chunk, (size_t)k);
    }
}

int file_read(struct str *out, const char *path, size_t max_bytes, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe is refused, not waited for
    if (fd < 0)
        return error_set(err, ERR_INPUT, path, "cannot be opened: %s", strerror(errno));
    struct stat st;
    int rc = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? 0 : ERR_INPUT;
    if (rc)
        error_set(err, rc, path, "is not a regular file");
    else
        rc = fd_read_all(out, fd, max_bytes, path, err);
    close(fd);
    return rc;
}

int file_read_stream(struct str *out, const char *path, size_t max_bytes, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, ERR_INPUT, path, "cannot be opened: %s", strerror(errno));
    int rc = fd_read_all(out, fd, max_bytes, path, err);
    close(fd);
    return rc;
}

int fd_write_all(int fd, const void *bytes, size_t n, const char *where, struct error *err)
{
    const char *p = bytes;
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_set(err, ERR_IO, where, "cannot be written: %s", strerror(errno));
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

// The file beside `path` that becomes it; its descriptor.
static int create_temporary(const char *path, char temporary[1100], struct error *err)
{
    if (snprintf(temporary, 1100, "%s.tmp-%ld", path, (long)getpid()) >= 1100)
        return error_set(err, ERR_IO, path, "the path is too long");
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd < 0 ? error_set(err, ERR_IO, path, "cannot be created: %s", strerror(errno)) : fd;
}

int file_can_be_written(const char *path, struct error *err)
{
    char temporary[1100];
    int fd = create_temporary(path, temporary, err);
    if (fd < 0)
        return fd;
    close(fd);
    unlink(temporary);
    return 0;
}

int file_write(const char *path, const void *bytes, size_t n, struct error *err)
{
    char temporary[1100];
    int fd = create_temporary(path, temporary, err);
    if (fd < 0)
        return fd;
    int rc = fd_write_all(fd, bytes, n, path, err);
    if (!rc && fsync(fd) != 0)
        rc = error_set(err, ERR_IO, path, "cannot be synced: %s", strerror(errno));
    if (close(fd) != 0 && !rc)
        rc = error_set(err, ERR_IO, path, "cannot be closed: %s", strerror(errno));
    if (!rc && rename(temporary, path) != 0)
        rc = error_set(err, ERR_IO, path, "cannot be renamed into place: %s", strerror(errno));
    if (rc)
        unlink(temporary);
    return rc;
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool dir_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
