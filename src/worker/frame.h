// SPDX-License-Identifier: Apache-2.0
// Frames between the program and its worker, over a SOCK_SEQPACKET socketpair: one packet is one frame. A body too
// large for a packet travels in a sealed memfd. The layout is in docs/worker-protocol.md.
#ifndef WORKER_FRAME_H
#define WORKER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"

#define FRAME_MAGIC        0x4b575341u // "ASWK"
#define FRAME_PROTOCOL     1
#define FRAME_HEADER_BYTES 32
#define FRAME_MAX_INLINE   32768 // body bytes in the packet
#define FRAME_MAX_BODY     (1u << 30)
#define FRAME_MAX_FDS      2

enum frame_type {
    FRAME_HELLO = 1,
    FRAME_COMPILE,
    FRAME_UNLOAD,
    FRAME_UPLOAD,
    FRAME_EXECUTE,
    FRAME_TIME,
    FRAME_DOWNLOAD,
    FRAME_FREE,
    FRAME_MEMORY,
    FRAME_RESET_PEAK,
    FRAME_SPANS,
    FRAME_QUIT,
    FRAME_PROFILE_START,
    FRAME_PROFILE_COLLECT,
    FRAME_TOPOLOGY,
    FRAME_COMPILE_FOR,
    FRAME_TYPES // one past the last
};

struct frame_header {
    uint16_t type; // enum frame_type
    bool reply;
    uint32_t request; // the reply repeats it
    uint32_t n_fds;   // descriptors attached for the message itself
    bool body_in_fd;  // one more descriptor, the last, holds the body
    uint64_t body_bytes;
};

// The header of a packet of n bytes; what follows it is the body unless body_in_fd. False for anything that is not a
// frame of this protocol; *other_protocol (may be NULL) is then the protocol number of a frame of another one, else 0.
bool frame_parse(const void *packet, size_t n, struct frame_header *out, unsigned *other_protocol);
void frame_print(const struct frame_header *h, uint8_t out[FRAME_HEADER_BYTES]);

// A received frame. `body` is in `packet`, or mapped.
struct frame {
    struct frame_header header;
    const uint8_t *body;
    size_t body_bytes;
    int fds[FRAME_MAX_FDS]; // header.n_fds of them; closed by frame_release unless taken (set to -1)
    void *mapped;
    uint8_t packet[FRAME_HEADER_BYTES + FRAME_MAX_INLINE];
};

// Sends one frame; `fds` stay the caller's. 0, ERR_DEVICE when the other side is gone, ERR_MEMORY. Never raises
// SIGPIPE.
int frame_send(int socket, const struct frame_header *header, const void *body, size_t body_bytes, const int *fds,
               struct error *err);
// Waits for one frame. 1: received; 0: the other side has closed; ERR_DEVICE: not a frame of ours (nothing to release).
int frame_receive(int socket, struct frame *f, struct error *err);
void frame_release(struct frame *f);

// A memfd of n bytes that can neither shrink nor grow, and cannot be written when `bytes` fills it; with bytes NULL it
// is zero and stays writable. The descriptor, or ERR_MEMORY.
int frame_memfd(const char *name, const void *bytes, size_t n, struct error *err);
// The second kind, mapped at *data (NULL when n is 0), every page there and mapped: by all threads (NULL: the
// caller's), since a kernel clears such pages one after the other, and gigabytes take it seconds.
int frame_memfd_map(const char *name, size_t n, struct threads *threads, void **data, struct error *err);

#endif
