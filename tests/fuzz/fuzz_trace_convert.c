// SPDX-License-Identifier: Apache-2.0
// A profile, converted to every form and merged with a twin whose programs are others of the same numbers: nothing may
// be read outside of it, and a merged profile can be read.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/convert.h"
#include "trace/merge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Into memory: what is larger than a buffer is not looked at.
static void open_sink(struct sink *s)
{
    *s = (struct sink){.fd = open("/dev/null", O_WRONLY | O_CLOEXEC), .buffer = malloc(SINK_BUFFER)};
    if (s->fd < 0 || !s->buffer)
        abort();
    str_init(&s->path);
    str_init(&s->temporary);
    str_add(&s->path, "/dev/null");
}

static void close_sink(struct sink *s)
{
    close(s->fd);
    s->fd = -1;
    sink_abort(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_file files[2] = {{.path = "a", .host = "a"}, {.path = "b", .host = "b"}};
    struct trace t = {.files = files, .n_files = 2};
    struct trace_converted converted;
    struct trace_merged merged;
    struct sink sink;
    static struct threads *two;
    struct error e = {0};
    arena_init(&t.arena);
    int rc = two ? 0 : threads_new(&two, 2, &e);
    uint8_t *twin = malloc(size ? size : 1);
    if (!twin)
        abort();
    for (size_t i = 0; i < size; i++)
        twin[i] = data[i] == 'f' ? 'g' : data[i];
    for (int i = 0; i < 2 && !rc; i++)
        rc = xspace_read(&files[i].space, i ? twin : data, size, "fuzz", &t.arena, &e);
    for (int form = TRACE_CHROME; form <= TRACE_CSV && !rc; form++) {
        open_sink(&sink);
        rc = trace_convert(&t, size % 2 ? two : NULL, (enum trace_form)form, &sink, &converted, &e);
        close_sink(&sink);
    }
    if (!rc) {
        struct xspace again;
        struct error bad = {0};
        open_sink(&sink);
        rc = trace_merge(&t, &sink, &merged, &e);
        if (!rc && !sink.written && merged.planes &&
            xspace_read(&again, sink.buffer, sink.used, "merged", &t.arena, &bad))
            abort();
        close_sink(&sink);
    }
    if (rc && (!e.code || !e.message[0]))
        abort();
    arena_release(&t.arena);
    free(twin);
    return 0;
}
