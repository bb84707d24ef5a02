// SPDX-License-Identifier: Apache-2.0
// What the worker holds between requests, and its handlers: one for each request, in server_load.c and server_run.c.
// A handler reads the request from `in`, and writes the reply (without the status) to `out`.
#ifndef WORKER_SERVER_STATE_H
#define WORKER_SERVER_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "pjrt/pjrt.h"
#include "worker/frame.h"
#include "worker/message.h"

struct server_buffer {
    struct buffer *buffer; // NULL: freed
    int mapping;           // of the file the device reads in place, or -1
};

struct server {
    int socket;
    bool leaving;
    struct plugin *plugin;
    struct client *client;     // NULL: this worker only compiles
    struct topology *topology; // what COMPILE_FOR compiles for; NULL: none yet
    // Addressable devices by position: the one used, then the others in order.
    size_t *order;
    size_t n_order;
    // By id. Ids are never given twice, so a stale one is noticed.
    struct program **programs;
    size_t n_programs, cap_programs;
    struct server_buffer *buffers;
    size_t n_buffers, cap_buffers;
    struct threads *threads; // that copy weights; NULL before there was anything for more than one
    bool peak_resettable;
    struct profiler *profiler; // that runs; NULL
    struct arena arena;        // of the request at hand
};

struct server_request {
    struct frame *frame;
    struct wire in, out;
};

typedef int server_fn(struct server *s, struct server_request *r, struct error *err);
server_fn server_hello, server_compile, server_unload, server_topology, server_compile_for;
server_fn server_upload, server_execute, server_time, server_download, server_free, server_memory, server_reset_peak,
    server_spans, server_quit, server_profile_start, server_profile_collect;
void server_release(struct server *s);

// "name=value name=value", in the arena of the request.
const char *server_attributes_text(struct server *s, const struct attributes *a, struct error *err);
// The devices as they go over the wire, in the arena of the request; NULL with `err` set. ERR_DEVICE for too many.
struct worker_device *server_devices(struct server *s, const struct device_info *devices, size_t n, struct error *err);
// Fills the options from the message; arrays are in the arena. Devices are left to the plugin.
int server_compile_options(struct server *s, const struct msg_compile *m, struct compile_options *o, struct error *err);
// Everything the caller wants to know of a program that compiled; `optimized` and `format` are the caller's to keep.
int server_describe_program(struct server *s, struct program *p, bool want_optimized, struct msg_compile_reply *out,
                            struct str *optimized, char format[32], struct error *err);
// Takes the program over and gives its id; a negative code (then it is still the caller's) without memory.
int server_add_program(struct server *s, struct program *p, struct error *err);
// ERR_INTERNAL unless the request was read whole.
int server_read_done(const struct server_request *r, struct error *err);
// The program or buffer of an id; NULL with ERR_USAGE set.
struct program *server_program(const struct server *s, int id, struct error *err);
struct server_buffer *server_buffer(const struct server *s, int id, struct error *err);
// Takes the buffer over and gives its id, or a negative code (then it is still the caller's).
int server_add_buffer(struct server *s, struct buffer *b, int mapping, struct error *err);
// Makes room for one more in *array of *cap elements, *n used.
int server_grow(void **array, size_t n, size_t *cap, size_t size, struct error *err);

#endif
