// SPDX-License-Identifier: Apache-2.0
// Frames and their bodies, as either side of a worker's channel would read them. What reads as a message must be
// written again as the same bytes.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/frame.h"
#include "worker/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static union {
    struct msg_status status;
    struct msg_hello hello;
    struct msg_hello_reply hello_reply;
    struct msg_compile compile;
    struct msg_compile_reply compile_reply;
    struct msg_id id;
    struct msg_upload upload;
    struct msg_upload_reply upload_reply;
    struct msg_execute execute;
    struct msg_execute_reply execute_reply;
    struct msg_time_reply time_reply;
    struct msg_download download;
    struct worker_memory memory;
    struct msg_spans_reply spans;
    struct msg_profile_start_reply profile_start;
    struct msg_profile profile;
    struct msg_topology topology;
    struct msg_topology_reply topology_reply;
    struct msg_compile_for_reply compile_for_reply;
} message;

static void body(struct wire *w, enum frame_type type, bool reply)
{
    switch ((int)type) {
    case FRAME_HELLO:
        reply ? msg_hello_reply(w, &message.hello_reply) : msg_hello(w, &message.hello);
        break;
    case FRAME_COMPILE:
        reply ? msg_compile_reply(w, &message.compile_reply) : msg_compile(w, &message.compile);
        break;
    case FRAME_UPLOAD:
        reply ? msg_upload_reply(w, &message.upload_reply) : msg_upload(w, &message.upload);
        break;
    case FRAME_EXECUTE:
        reply ? msg_execute_reply(w, &message.execute_reply) : msg_execute(w, &message.execute);
        break;
    case FRAME_TIME:
        reply ? msg_time_reply(w, &message.time_reply) : msg_execute(w, &message.execute);
        break;
    case FRAME_DOWNLOAD:
        if (!reply)
            msg_download(w, &message.download);
        break;
    case FRAME_UNLOAD:
    case FRAME_FREE:
        if (!reply)
            msg_id(w, &message.id);
        break;
    case FRAME_MEMORY:
        if (reply)
            msg_memory_reply(w, &message.memory);
        break;
    case FRAME_SPANS:
        if (reply)
            msg_spans_reply(w, &message.spans);
        break;
    case FRAME_PROFILE_START:
        if (reply)
            msg_profile_start_reply(w, &message.profile_start);
        break;
    case FRAME_PROFILE_COLLECT:
        if (reply)
            msg_profile(w, &message.profile);
        break;
    case FRAME_TOPOLOGY:
        reply ? msg_topology_reply(w, &message.topology_reply) : msg_topology(w, &message.topology);
        break;
    case FRAME_COMPILE_FOR:
        reply ? msg_compile_for_reply(w, &message.compile_for_reply) : msg_compile(w, &message.compile);
        break;
    }
}

// Reads n bytes as a message, alone or with the status of a reply before it, and writes them again.
static void check(const uint8_t *bytes, size_t n, enum frame_type type, bool reply)
{
    struct arena arena;
    arena_init(&arena);
    struct wire w;
    struct msg_status status = {0};
    memset(&message, 0, sizeof message);
    wire_read(&w, bytes, n, &arena);
    if (reply)
        msg_status(&w, &status);
    bool with_body = !reply || (!w.failed && status.code == 0);
    if (with_body)
        body(&w, type, reply);
    if (wire_done(&w)) {
        struct str out;
        str_init(&out);
        wire_write(&w, &out);
        if (reply)
            msg_status(&w, &status);
        if (with_body)
            body(&w, type, reply);
        if (!wire_done(&w) || out.length != n || (n && memcmp(out.text, bytes, n) != 0))
            abort();
        str_release(&out);
    }
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_header h;
    if (!frame_parse(data, size, &h, NULL))
        return 0;
    uint8_t again[FRAME_HEADER_BYTES];
    frame_print(&h, again);
    if (memcmp(again, data, sizeof again) != 0)
        abort();
    if (!h.body_in_fd)
        check(data + FRAME_HEADER_BYTES, (size_t)h.body_bytes, (enum frame_type)h.type, h.reply);
    return 0;
}
