// SPDX-License-Identifier: Apache-2.0
// What the frames say: one structure and one codec for each request and each reply. docs/worker-protocol.md lists them
// in order. Read texts and arrays belong to the frame's body and the reader's arena.
#ifndef WORKER_MESSAGE_H
#define WORKER_MESSAGE_H

#include <stdint.h>

#include "worker/frame.h"
#include "worker/wire.h"
#include "worker/worker.h"

#define MESSAGE_MAX_IDS   (WORKER_MAX_ARGS * 64) // buffers of one execution, all devices
#define MESSAGE_MAX_RUNS  10000000               // of one timing call
#define MESSAGE_MAX_SPAN  1000000
#define MESSAGE_MAX_COSTS 65536 // properties of a cost analysis

// Every reply begins with it. Nothing follows it when `code` is not 0.
struct msg_status {
    int code; // enum error_code, or 0
    const char *where, *message;
};

struct msg_hello {
    const char *version; // of the program: must be the worker's own
    const char *plugin_path, *device;
    int cpu_device_count, threads;
    bool compile_only;
    const char *onednn; // the library for our kernels; NULL: no kernels
};
struct msg_hello_reply {
    const char *version;
    int api_major, api_minor;
    const char *extensions, *platform_name, *platform_version, *attributes;
    struct worker_device *devices;
    size_t n_devices, device;
    uint64_t client_create_ns;
    const char *kernels, *no_kernels; // what they compute with, or NULL and why there are none
};

struct msg_compile {
    const void *text;
    size_t length;
    const char *format;
    int num_replicas, num_partitions;
    bool allow_excess_precision, want_optimized, shardy;
    struct worker_override *overrides;
    size_t n_overrides;
    struct worker_shape *args;
    size_t n_args;
};
struct msg_compile_reply {
    int id;
    uint64_t compile_ns;
    struct worker_memory_plan memory;
    const char *fingerprint;
    const void *optimized;
    size_t optimized_length;
    const char *optimized_format;
    size_t n_devices;
    struct worker_shape *outputs;
    size_t n_outputs;
};

struct msg_topology {
    const char *name;
    struct worker_topology_option *options;
    size_t n_options;
};
struct msg_topology_reply {
    const char *platform_name, *platform_version, *attributes;
    struct worker_device *devices;
    size_t n_devices;
};

// COMPILE_FOR: the request is that of COMPILE.
struct msg_cost {
    const char *name;
    double value;
};
struct msg_compile_for_reply {
    struct msg_compile_reply program;
    uint64_t cpu_ns, peak_rss_bytes;
    int64_t serialized_bytes;
    struct msg_cost *costs;
    size_t n_costs;
};

// UNLOAD and FREE: an id. Their replies, and those of DOWNLOAD, RESET_PEAK and QUIT, are the status alone, as the
// requests MEMORY, RESET_PEAK, SPANS, QUIT and those of profiles are empty.
struct msg_id {
    int id;
};

// One descriptor: the file.
struct msg_upload {
    size_t offset, bytes;
    struct worker_part *parts;
    size_t n_parts;
    struct worker_shape shape;
    const char *name;
    int position;
};
struct msg_upload_reply {
    int id;
    struct worker_upload_result result;
};

// EXECUTE and TIME; runs is 0 for EXECUTE.
struct msg_execute {
    int executable;
    int *args;
    size_t n_args;
    uint64_t runs;
};
struct msg_execute_reply {
    uint64_t ns;
    int *outputs;
    size_t n_outputs;
};
struct msg_time_reply {
    uint64_t *ns;
    size_t n;
};

// One descriptor: a memfd of `bytes` bytes that the worker fills.
struct msg_download {
    int buffer;
    size_t bytes;
};

struct msg_spans_reply {
    struct worker_span *spans;
    size_t n;
    uint64_t dropped;
};

struct msg_profile_start_reply {
    bool offered;
};
struct msg_profile {
    const void *space;
    size_t bytes;
};

void msg_status(struct wire *w, struct msg_status *m);
void msg_hello(struct wire *w, struct msg_hello *m);
void msg_hello_reply(struct wire *w, struct msg_hello_reply *m);
void msg_compile(struct wire *w, struct msg_compile *m);
void msg_compile_reply(struct wire *w, struct msg_compile_reply *m);
void msg_topology(struct wire *w, struct msg_topology *m);
void msg_topology_reply(struct wire *w, struct msg_topology_reply *m);
void msg_compile_for_reply(struct wire *w, struct msg_compile_for_reply *m);
void msg_id(struct wire *w, struct msg_id *m);
void msg_upload(struct wire *w, struct msg_upload *m);
void msg_upload_reply(struct wire *w, struct msg_upload_reply *m);
void msg_execute(struct wire *w, struct msg_execute *m);
void msg_execute_reply(struct wire *w, struct msg_execute_reply *m);
void msg_time_reply(struct wire *w, struct msg_time_reply *m);
void msg_download(struct wire *w, struct msg_download *m);
void msg_memory_reply(struct wire *w, struct worker_memory *m);
void msg_spans_reply(struct wire *w, struct msg_spans_reply *m);
void msg_profile_start_reply(struct wire *w, struct msg_profile_start_reply *m);
void msg_profile(struct wire *w, struct msg_profile *m);

#endif
