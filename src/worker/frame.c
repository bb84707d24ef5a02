// SPDX-License-Identifier: Apache-2.0
#include "worker/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"

#define REPLY_BIT      0x8000u
#define FLAG_BODY_FD   1u
#define FUTURE_WRITE   0x0010 // F_SEAL_FUTURE_WRITE, since Linux 5.1
#define CONTROL_BYTES  CMSG_SPACE(sizeof(int) * (FRAME_MAX_FDS + 1))
#define POPULATE_WRITE 23 // MADV_POPULATE_WRITE, since Linux 5.14
#define POPULATE_GRAIN ((size_t)4 << 20)
#define FIXED_SEALS    (F_SEAL_SHRINK | F_SEAL_GROW)
#define PROTOCOL_AFTER 4 // offset of the protocol number, the same in every protocol

static void put(uint8_t *at, const void *v, size_t n)
{
    memcpy(at, v, n);
}

void frame_print(const struct frame_header *h, uint8_t out[FRAME_HEADER_BYTES])
{
    uint32_t magic = FRAME_MAGIC, flags = h->body_in_fd ? FLAG_BODY_FD : 0, zero = 0;
    uint16_t protocol = FRAME_PROTOCOL, type = (uint16_t)(h->type | (h->reply ? REPLY_BIT : 0));
    put(out, &magic, 4);
    put(out + PROTOCOL_AFTER, &protocol, 2);
    put(out + 6, &type, 2);
    put(out + 8, &h->request, 4);
    put(out + 12, &h->n_fds, 4);
    put(out + 16, &h->body_bytes, 8);
    put(out + 24, &flags, 4);
    put(out + 28, &zero, 4);
}

bool frame_parse(const void *packet, size_t n, struct frame_header *out, unsigned *other_protocol)
{
    memset(out, 0, sizeof *out);
    if (other_protocol)
        *other_protocol = 0;
    struct cursor c;
    cursor_init(&c, packet, n);
    uint32_t magic = cursor_u32(&c), word = cursor_u32(&c);
    unsigned protocol = word & 0xffffu, type = word >> 16;
    if (c.failed || magic != FRAME_MAGIC)
        return false;
    if (protocol != FRAME_PROTOCOL) {
        if (other_protocol)
            *other_protocol = protocol;
        return false;
    }
    out->reply = type & REPLY_BIT;
    out->type = (uint16_t)(type & ~REPLY_BIT);
    out->request = cursor_u32(&c);
    out->n_fds = cursor_u32(&c);
    out->body_bytes = cursor_u64(&c);
    uint32_t flags = cursor_u32(&c), reserved = cursor_u32(&c);
    out->body_in_fd = flags & FLAG_BODY_FD;
    bool known = out->type >= FRAME_HELLO && out->type < FRAME_TYPES;
    bool sized = out->body_in_fd ? n == FRAME_HEADER_BYTES && out->body_bytes && out->body_bytes <= FRAME_MAX_BODY
                                 : out->body_bytes == n - FRAME_HEADER_BYTES && out->body_bytes <= FRAME_MAX_INLINE;
    return !c.failed && known && sized && !(flags & ~FLAG_BODY_FD) && !reserved && out->n_fds <= FRAME_MAX_FDS;
}

int frame_memfd(const char *name, const void *bytes, size_t n, struct error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set(err, ERR_MEMORY, name, "no shared memory: %s", strerror(errno));
    struct error write_err = {0};
    bool ok;
    if (bytes) {
        // Not F_SEAL_WRITE: before Linux 6.7 it forbids shared mappings for reading too.
        ok = fd_write_all(fd, bytes, n, name, &write_err) == 0 &&
             (fcntl(fd, F_ADD_SEALS, FIXED_SEALS | FUTURE_WRITE) == 0 || fcntl(fd, F_ADD_SEALS, FIXED_SEALS) == 0);
    } else {
        // Space is taken now: later, in a mapping, the lack of it would be a SIGBUS.
        ok = n <= INT64_MAX && (n == 0 || posix_fallocate(fd, 0, (off_t)n) == 0) &&
             fcntl(fd, F_ADD_SEALS, FIXED_SEALS) == 0;
    }
    if (ok)
        return fd;
    close(fd);
    return error_set(err, ERR_MEMORY, name, "no %zu bytes of shared memory", n);
}

struct populating {
    uint8_t *data;
    atomic_bool failed;
};

static void populate(void *context, size_t from, size_t to)
{
    struct populating *p = context;
    if (madvise(p->data + from, to - from, POPULATE_WRITE) != 0)
        atomic_store(&p->failed, true);
}

int frame_memfd_map(const char *name, size_t n, struct threads *threads, void **data, struct error *err)
{
    struct populating p = {0};
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool ok = fd >= 0 && n <= INT64_MAX && ftruncate(fd, (off_t)n) == 0 && fcntl(fd, F_ADD_SEALS, FIXED_SEALS) == 0;
    *data = NULL;
    if (ok && n) {
        p.data = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ok = p.data != MAP_FAILED;
    }
    if (ok && n) {
        threads_for(threads, n, POPULATE_GRAIN, populate, &p);
        ok = !p.failed || posix_fallocate(fd, 0, (off_t)n) == 0; // the older way: one thread, and mapped when written
        if (!ok)
            munmap(p.data, n);
    }
    if (ok) {
        *data = p.data;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return error_set(err, ERR_MEMORY, name, "no %zu bytes of shared memory", n);
}

int frame_send(int socket, const struct frame_header *header, const void *body, size_t body_bytes, const int *fds,
               struct error *err)
{
    struct frame_header h = *header;
    h.body_bytes = body_bytes;
    h.body_in_fd = body_bytes > FRAME_MAX_INLINE;
    if (body_bytes > FRAME_MAX_BODY || h.n_fds > FRAME_MAX_FDS)
        return error_set(err, ERR_USAGE, NULL, "a message of %zu bytes is larger than the %u a worker takes",
                         body_bytes, FRAME_MAX_BODY);
    int all[FRAME_MAX_FDS + 1], n_all = 0;
    for (uint32_t i = 0; i < h.n_fds; i++)
        all[n_all++] = fds[i];
    int body_fd = -1;
    if (h.body_in_fd) {
        body_fd = frame_memfd("assay-message", body, body_bytes, err);
        if (body_fd < 0)
            return body_fd;
        all[n_all++] = body_fd;
    }
    uint8_t head[FRAME_HEADER_BYTES];
    frame_print(&h, head);
    struct iovec parts[2] = {{head, sizeof head}, {(void *)(uintptr_t)body, h.body_in_fd ? 0 : body_bytes}};
    union {
        struct cmsghdr align;
        char bytes[CONTROL_BYTES];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    if (n_all) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_all);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_all);
        memcpy(CMSG_DATA(c), all, sizeof(int) * (size_t)n_all);
    }
    ssize_t k;
    do
        k = sendmsg(socket, &m, MSG_NOSIGNAL);
    while (k < 0 && errno == EINTR);
    int failed = errno;
    if (body_fd >= 0)
        close(body_fd);
    if (k < 0)
        return error_set(err, ERR_DEVICE, NULL, "the other side cannot be reached: %s", strerror(failed));
    return 0; // a packet is sent whole or not at all
}

// Maps the body that came in a descriptor: only one that its sender cannot cut short any more.
static bool map_body(struct frame *f, int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) != 0 || (uint64_t)st.st_size != f->header.body_bytes)
        return false;
    f->body_bytes = (size_t)f->header.body_bytes;
    void *p = mmap(NULL, f->body_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return false;
    f->body = f->mapped = p;
    return true;
}

int frame_receive(int socket, struct frame *f, struct error *err)
{
    f->mapped = NULL;
    for (uint32_t i = 0; i < FRAME_MAX_FDS; i++)
        f->fds[i] = -1;
    struct iovec part = {f->packet, sizeof f->packet};
    union {
        struct cmsghdr align;
        char bytes[CONTROL_BYTES];
    } control;
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t k;
    do
        k = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
    while (k < 0 && errno == EINTR);
    if (k < 0 && errno != ECONNRESET)
        return error_set(err, ERR_DEVICE, NULL, "nothing can be received: %s", strerror(errno));
    if (k <= 0)
        return 0;
    int fds[FRAME_MAX_FDS + 1];
    uint32_t n_fds = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n_fds < FRAME_MAX_FDS + 1)
                fds[n_fds++] = fd;
            else
                close(fd);
        }
    }
    unsigned other = 0;
    bool ok = frame_parse(f->packet, (size_t)k, &f->header, &other) && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
              n_fds == f->header.n_fds + (f->header.body_in_fd ? 1u : 0u);
    if (ok && f->header.body_in_fd && n_fds) {
        ok = map_body(f, fds[--n_fds]);
        close(fds[n_fds]);
    } else if (ok) {
        f->body = f->packet + FRAME_HEADER_BYTES;
        f->body_bytes = (size_t)f->header.body_bytes;
    }
    if (ok) {
        memcpy(f->fds, fds, sizeof(int) * n_fds);
        return 1;
    }
    while (n_fds)
        close(fds[--n_fds]);
    if (other)
        return error_set(err, ERR_DEVICE, NULL,
                         "the program and its worker are of different versions (protocol %d and %u): install both anew",
                         FRAME_PROTOCOL, other);
    return error_set(err, ERR_DEVICE, NULL, "a frame is damaged");
}

void frame_release(struct frame *f)
{
    for (uint32_t i = 0; i < FRAME_MAX_FDS; i++) {
        if (f->fds[i] >= 0)
            close(f->fds[i]);
        f->fds[i] = -1;
    }
    if (f->mapped)
        munmap(f->mapped, f->body_bytes);
    f->mapped = NULL;
}
