// SPDX-License-Identifier: Apache-2.0
// Requests about buffers, execution and the worker itself.
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/span.h"
#include "worker/host_limits.h"
#include "worker/mapping.h"
#include "worker/server_state.h"

static_assert(WORKER_MAX_RANK == ARRAY_MAX_RANK, "both sides hold the same shapes");

#define ZERO_COPY_ALIGN 64 // bytes, as the CPU client wants

int server_upload(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_upload m = {0};
    msg_upload(&r->in, &m);
    int rc = server_read_done(r, err);
    if (rc)
        return rc;
    struct array_type type = {.dtype = m.shape.dtype, .rank = m.shape.rank};
    memcpy(type.dims, m.shape.dims, sizeof type.dims);
    size_t wanted;
    if (!array_type_bytes(&type, &wanted) || wanted != m.bytes) {
        struct str text;
        str_init(&text);
        array_type_print(&text, &type);
        rc = error_set(err, ERR_USAGE, m.name, "%zu bytes are given for %s", m.bytes, str_text(&text));
        str_release(&text);
        return rc;
    }
    if (m.position < 0 || (size_t)m.position >= s->n_order)
        return error_set(err, ERR_USAGE, m.name, "there is no device at position %d of %zu", m.position, s->n_order);

    // The CPU reads memory where it lies, if that is aligned: the file's own, else a copy of ours. Any other device
    // copies, and so does the CPU for what it packs; then the file is given back at once. What lies in parts is joined
    // before anything else.
    bool in_place = strcmp(client_info(s->client)->platform_name, "cpu") == 0 && m.bytes && dtype_bits(type.dtype) >= 8;
    bool aligned = !m.n_parts && m.offset % ZERO_COPY_ALIGN == 0;
    const struct worker_part whole = {m.offset, m.bytes};
    int fd = r->frame->fds[0];
    const void *data = NULL;
    struct buffer *b = NULL;
    bool copied = m.n_parts || (in_place && !aligned);
    uint64_t start = clock_ns();
    // Kept for the next tensor: a thread that has just begun often waits for the processor that began it.
    if (copied && m.bytes > MAPPING_LARGE && !s->threads)
        s->threads = threads_try();
    int mapping = copied ? mapping_copy(fd, m.n_parts ? m.parts : &whole, m.n_parts ? m.n_parts : 1, m.bytes, m.name,
                                        s->threads, &data, err)
                         : mapping_open(fd, m.offset, m.bytes, m.name, &data, err);
    if (mapping < 0)
        return mapping;
    rc = buffer_from_host(&b, s->client, s->order[m.position], data, &type, in_place ? HOST_ZERO_COPY : HOST_COPY, err);
    if (!rc)
        rc = buffer_await(b, err);
    uint64_t ns = clock_ns() - start;
    if (rc)
        buffer_free(b);
    if (rc || !in_place) {
        mapping_close(mapping);
        mapping = -1;
    }
    int id = rc ? rc : server_add_buffer(s, b, mapping, err);
    if (id < 0) {
        if (!rc)
            buffer_free(b);
        if (mapping >= 0)
            mapping_close(mapping);
        return id;
    }
    size_t device_bytes = 0;
    struct error not_offered = {0};
    buffer_device_bytes(b, &device_bytes, &not_offered);
    struct msg_upload_reply out = {
        .id = id, .result = {.ns = ns, .device_bytes = device_bytes, .zero_copy = aligned && buffer_is_aliased(b)}};
    msg_upload_reply(&r->out, &out);
    return 0;
}

// The launch of a program with arguments by id.
static int launch_of(struct server *s, const struct msg_execute *m, struct program *p, struct launch **out,
                     struct error *err)
{
    size_t n_devices = program_info(p)->device_count;
    if (m->n_args % n_devices)
        return error_set(err, ERR_USAGE, NULL, "%zu arguments are given for %zu devices", m->n_args, n_devices);
    struct buffer **args = arena_new(&s->arena, struct buffer *, m->n_args, err);
    if (!args)
        return err->code;
    for (size_t i = 0; i < m->n_args; i++) {
        const struct server_buffer *b = server_buffer(s, m->args[i], err);
        if (!b) {
            error_context(err, "argument %zu", i);
            return err->code;
        }
        args[i] = b->buffer;
    }
    return launch_new(out, p, args, m->n_args / n_devices, err);
}

// Reads an EXECUTE or TIME request and prepares its launch.
static int begin_execute(struct server *s, struct server_request *r, struct msg_execute *m, struct program **p,
                         struct launch **launch, struct error *err)
{
    msg_execute(&r->in, m);
    int rc = server_read_done(r, err);
    if (rc)
        return rc;
    *p = server_program(s, m->executable, err);
    return *p ? launch_of(s, m, *p, launch, err) : err->code;
}

int server_execute(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_execute m = {0};
    struct program *p;
    struct launch *launch = NULL;
    int rc = begin_execute(s, r, &m, &p, &launch, err);
    if (rc)
        return rc;
    const struct program_info *info = program_info(p);
    size_t n = info->device_count * info->output_count, kept = 0;
    struct msg_execute_reply out = {.n_outputs = n};
    struct buffer **outputs = arena_new(&s->arena, struct buffer *, n, err);
    out.outputs = arena_new(&s->arena, int, n, err);
    rc = outputs && out.outputs ? 0 : err->code;
    bool ran = false;
    if (!rc) {
        struct span_open span = span_begin(span_register("run the program"));
        span.of = m.executable;
        uint64_t start = clock_ns();
        rc = launch_run(launch, outputs, err);
        out.ns = clock_ns() - start;
        span_end(span);
        ran = !rc;
    }
    while (!rc && kept < n) {
        int id = server_add_buffer(s, outputs[kept], -1, err);
        if (id < 0)
            rc = id;
        else
            out.outputs[kept++] = id;
    }
    launch_free(launch);
    if (!rc)
        msg_execute_reply(&r->out, &out);
    if (rc && ran) {
        for (size_t i = 0; i < n; i++) {
            buffer_free(outputs[i]);
            if (i < kept)
                s->buffers[out.outputs[i]].buffer = NULL;
        }
    }
    return rc;
}

int server_time(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_execute m = {0};
    struct program *p;
    struct launch *launch = NULL;
    int rc = begin_execute(s, r, &m, &p, &launch, err);
    if (rc)
        return rc;
    struct msg_time_reply out = {.n = (size_t)m.runs};
    out.ns = arena_new(&s->arena, uint64_t, out.n, err);
    rc = out.ns ? launch_time(launch, out.n, out.ns, NULL, err) : err->code;
    launch_free(launch);
    if (!rc)
        msg_time_reply(&r->out, &out);
    return rc;
}

int server_download(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_download m = {0};
    msg_download(&r->in, &m);
    int rc = server_read_done(r, err);
    struct server_buffer *b = rc ? NULL : server_buffer(s, m.buffer, err);
    if (!b)
        return err->code;
    int fd = r->frame->fds[0];
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) != 0 || (size_t)st.st_size != m.bytes)
        return error_set(err, ERR_INTERNAL, NULL, "the memory for a download is not of its size, or not sealed");
    void *dst = NULL;
    if (m.bytes) {
        dst = mmap(NULL, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (dst == MAP_FAILED)
            return error_set(err, ERR_MEMORY, NULL, "no memory to map %zu bytes", m.bytes);
    }
    rc = buffer_to_host(b->buffer, dst, m.bytes, err);
    if (dst)
        munmap(dst, m.bytes);
    return rc;
}

int server_free(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_id m = {0};
    msg_id(&r->in, &m);
    int rc = server_read_done(r, err);
    struct server_buffer *b = rc ? NULL : server_buffer(s, m.id, err);
    if (!b)
        return err->code;
    buffer_free(b->buffer);
    b->buffer = NULL;
    if (b->mapping >= 0)
        mapping_close(b->mapping);
    return 0;
}

int server_memory(struct server *s, struct server_request *r, struct error *err)
{
    struct device_memory d;
    struct worker_memory out = {.peak_resettable = s->peak_resettable};
    int rc = server_read_done(r, err);
    if (!rc)
        rc = client_device_memory(s->client, s->order[0], &d, &out.has_device_stats, err);
    if (rc)
        return rc;
    host_limits_memory(&out.rss_bytes, &out.peak_rss_bytes);
    out.bytes_in_use = d.bytes_in_use;
    out.peak_bytes_in_use = d.peak_bytes_in_use;
    out.bytes_limit = d.bytes_limit;
    out.bytes_reserved = d.bytes_reserved;
    out.largest_free_block_bytes = d.largest_free_block_bytes;
    out.num_allocs = d.allocation_count;
    msg_memory_reply(&r->out, &out);
    return 0;
}

int server_reset_peak(struct server *s, struct server_request *r, struct error *err)
{
    (void)s;
    int rc = server_read_done(r, err);
    if (!rc && !host_limits_reset_peak())
        rc = error_set(err, ERR_DEVICE, NULL,
                       "the kernel does not let the peak of memory be reset (/proc/self/clear_refs)");
    return rc;
}

int server_spans(struct server *s, struct server_request *r, struct error *err)
{
    int rc = server_read_done(r, err);
    if (rc)
        return rc;
    // As many as one ring holds at a time: most spans are the serving thread's.
    struct span *recorded = arena_new(&s->arena, struct span, SPAN_RING_SLOTS, err);
    struct msg_spans_reply out = {.spans = arena_new(&s->arena, struct worker_span, SPAN_RING_SLOTS, err)};
    if (!recorded || !out.spans)
        return err->code;
    out.n = span_drain(recorded, SPAN_RING_SLOTS, &out.dropped);
    for (size_t i = 0; i < out.n; i++) {
        struct worker_span *to = &out.spans[i];
        *to = (struct worker_span){.start_ns = recorded[i].start_ns,
                                   .end_ns = recorded[i].end_ns,
                                   .tid = recorded[i].tid,
                                   .of = recorded[i].of};
        snprintf(to->name, sizeof to->name, "%s", span_name(recorded[i].name));
    }
    msg_spans_reply(&r->out, &out);
    return 0;
}

int server_profile_start(struct server *s, struct server_request *r, struct error *err)
{
    int rc = server_read_done(r, err);
    if (!rc && s->profiler)
        rc = error_set(err, ERR_INTERNAL, NULL, "a profile is being made already");
    struct msg_profile_start_reply out = {.offered = profiler_offered(s->plugin)};
    if (!rc && out.offered)
        rc = profiler_start(&s->profiler, s->plugin, err);
    if (!rc)
        msg_profile_start_reply(&r->out, &out);
    return rc;
}

int server_profile_collect(struct server *s, struct server_request *r, struct error *err)
{
    struct str space;
    int rc = server_read_done(r, err);
    if (!rc && !s->profiler)
        rc = error_set(err, ERR_USAGE, NULL, "no profile is being made");
    if (rc)
        return rc;
    str_init(&space);
    rc = profiler_collect(s->profiler, &space, err);
    profiler_free(s->profiler);
    s->profiler = NULL;
    struct msg_profile out = {.space = str_text(&space), .bytes = space.length};
    if (!rc)
        msg_profile(&r->out, &out);
    str_release(&space);
    return rc;
}
