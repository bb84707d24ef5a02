// SPDX-License-Identifier: Apache-2.0
#include "worker/mapping.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

// More than the kernel's usual limit of mappings for a process.
#define MAX_MAPPINGS 65536

// The handler reads these from another thread: an entry counts while `bytes` is not 0, which is set last.
struct mapping {
    _Atomic uintptr_t start;
    _Atomic size_t bytes;
    _Atomic(char *) name;
    int next_free; // 1 + the number of the next free entry, 0 at the end
};
static struct mapping mappings[MAX_MAPPINGS];
static int used, first_free; // first_free: 1 + number, or 0

static void say(const char *text)
{
    ssize_t k = write(STDERR_FILENO, text, strlen(text));
    (void)k;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0; i < MAX_MAPPINGS; i++) {
        size_t bytes = atomic_load(&mappings[i].bytes);
        uintptr_t start = atomic_load(&mappings[i].start);
        if (bytes && at >= start && at - start < bytes) {
            say(atomic_load(&mappings[i].name));
            say(": the file was cut short, or cannot be read, while it was in use\n");
            _exit(WORKER_EXIT_FILE);
        }
    }
    signal(sig, SIG_DFL); // not ours: die of it as usual
    raise(sig);
}

void mapping_watch(void)
{
    struct sigaction sa = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGBUS, &sa, NULL);
}

static int ends_before(const char *name, size_t at, size_t offset, size_t bytes, struct error *err)
{
    return error_set(err, ERR_INPUT, name, "ends at byte %zu, before the tensor does (%zu bytes from %zu)", at, bytes,
                     offset);
}

// The part must lie in a regular file.
static int check_part(int fd, size_t offset, size_t bytes, const char *name, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return error_set(err, ERR_INPUT, name, "is not a regular file");
    size_t end;
    if (!size_add(offset, bytes, &end) || end > (size_t)st.st_size)
        return ends_before(name, (size_t)st.st_size, offset, bytes, err);
    return 0;
}

// Enters what is mapped at `start` into the table, or unmaps it.
static int enter(uint8_t *start, size_t bytes, const char *name, struct error *err)
{
    int i = first_free ? first_free - 1 : used;
    char *copy = i < MAX_MAPPINGS ? strdup(name) : NULL;
    if (!copy) {
        if (bytes)
            munmap(start, bytes);
        return i < MAX_MAPPINGS ? error_set(err, ERR_MEMORY, name, "no memory")
                                : error_set(err, ERR_MEMORY, name, "more than %d tensors are mapped", MAX_MAPPINGS);
    }
    struct mapping *m = &mappings[i];
    if (first_free)
        first_free = m->next_free;
    else
        used++;
    atomic_store(&m->name, copy);
    atomic_store(&m->start, (uintptr_t)start);
    atomic_store(&m->bytes, bytes);
    return i;
}

int mapping_open(int fd, size_t offset, size_t bytes, const char *name, const void **data, struct error *err)
{
    *data = NULL;
    int rc = check_part(fd, offset, bytes, name, err);
    if (rc)
        return rc;
    if (!bytes)
        return enter(NULL, 0, name, err);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = offset % page;
    uint8_t *start = mmap(NULL, before + bytes, PROT_READ, MAP_SHARED, fd, (off_t)(offset - before));
    if (start == MAP_FAILED)
        return error_set(err, errno == ENOMEM ? ERR_MEMORY : ERR_INPUT, name, "cannot be mapped: %s", strerror(errno));
    *data = start + before;
    return enter(start, before + bytes, name, err);
}

// ---- copies

struct copying {
    int fd;
    const struct worker_part *parts;
    size_t n;
    const char *name;
    uint8_t *to;
    pthread_mutex_t lock; // of what follows
    struct error *err;
    int rc;
};

static void give_up(struct copying *c, const struct worker_part *p, size_t at, ssize_t got)
{
    int reason = errno;
    pthread_mutex_lock(&c->lock);
    if (!c->rc)
        c->rc = got ? error_set(c->err, ERR_INPUT, c->name, "cannot be read: %s", strerror(reason))
                    : ends_before(c->name, at, p->offset, p->bytes, c->err);
    pthread_mutex_unlock(&c->lock);
}

// Bytes [from, to) of the part, which begins at byte `start` of the copy.
static bool copy_part(struct copying *c, const struct worker_part *p, size_t start, size_t from, size_t to)
{
    while (from < to) {
        ssize_t k = pread(c->fd, c->to + start + from, to - from, (off_t)(p->offset + from));
        if (k > 0) {
            from += (size_t)k;
        } else if (k == 0 || errno != EINTR) {
            give_up(c, p, p->offset + from, k);
            return false;
        }
    }
    return true;
}

// Bytes [from, to) of the copy.
static void copy_range(void *context, size_t from, size_t to)
{
    struct copying *c = context;
    size_t start = 0;
    bool ok = true;
    for (size_t i = 0; i < c->n && ok && start < to; i++) {
        size_t end = start + c->parts[i].bytes;
        if (end > from)
            ok = copy_part(c, &c->parts[i], start, from > start ? from - start : 0, (end < to ? end : to) - start);
        start = end;
    }
}

// Memory that begins where a large page does, if it is large enough for one: the kernel need not choose it so.
static uint8_t *new_memory(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), spare = bytes < MAPPING_LARGE ? 0 : MAPPING_LARGE, whole, room;
    if (!size_add(bytes, page - 1, &whole) || !size_add(whole, spare, &room))
        return NULL;
    whole -= whole % page;
    room = whole + spare;
    uint8_t *start = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    if (spare) {
        size_t before = -(uintptr_t)start % MAPPING_LARGE;
        if (before)
            munmap(start, before);
        start += before;
        if (before < spare)
            munmap(start + whole, spare - before);
        madvise(start, whole, MADV_HUGEPAGE); // fewer page faults, where the machine offers it
    }
    return start;
}

int mapping_copy(int fd, const struct worker_part *parts, size_t n, size_t bytes, const char *name,
                 struct threads *threads, const void **data, struct error *err)
{
    size_t sum = 0;
    int rc = 0;
    *data = NULL;
    for (size_t i = 0; i < n && !rc; i++) {
        rc = check_part(fd, parts[i].offset, parts[i].bytes, name, err);
        if (!rc && !size_add(sum, parts[i].bytes, &sum))
            sum = 0;
    }
    if (!rc && (!bytes || sum != bytes))
        rc = error_set(err, ERR_USAGE, name, "its parts have %zu bytes together, not %zu", sum, bytes);
    if (rc)
        return rc;
    uint8_t *start = new_memory(bytes);
    if (!start)
        return error_set(err, ERR_MEMORY, name, "no memory for %zu bytes", bytes);
    struct copying c = {.fd = fd, .parts = parts, .n = n, .name = name, .to = start, .err = err};
    pthread_mutex_init(&c.lock, NULL);
    // A large page at a time: no two threads then wait for the same one to be cleared.
    threads_for(threads, bytes, MAPPING_LARGE, copy_range, &c);
    pthread_mutex_destroy(&c.lock);
    if (c.rc) {
        munmap(start, bytes);
        return c.rc;
    }
    *data = start;
    return enter(start, bytes, name, err);
}

void mapping_close(int mapping)
{
    struct mapping *m = &mappings[mapping];
    size_t bytes = atomic_exchange(&m->bytes, 0);
    if (bytes)
        munmap((void *)atomic_load(&m->start), bytes);
    free(atomic_load(&m->name));
    m->next_free = first_free;
    first_free = mapping + 1;
}
