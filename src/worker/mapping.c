// SPDX-License-Identifier: Apache-2.0
#include "worker/mapping.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
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

int mapping_copy(int fd, size_t offset, size_t bytes, const char *name, const void **data, struct error *err)
{
    *data = NULL;
    int rc = check_part(fd, offset, bytes, name, err);
    if (rc)
        return rc;
    uint8_t *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return error_set(err, ERR_MEMORY, name, "no memory for %zu bytes", bytes);
    madvise(start, bytes, MADV_HUGEPAGE); // fewer page faults, where the machine offers it
    size_t done = 0;
    while (done < bytes && !rc) {
        ssize_t k = pread(fd, start + done, bytes - done, (off_t)(offset + done));
        if (k > 0)
            done += (size_t)k;
        else if (k == 0)
            rc = ends_before(name, offset + done, offset, bytes, err);
        else if (errno != EINTR)
            rc = error_set(err, ERR_INPUT, name, "cannot be read: %s", strerror(errno));
    }
    if (rc) {
        munmap(start, bytes);
        return rc;
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
