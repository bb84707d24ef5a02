// SPDX-License-Identifier: Apache-2.0
// Files above 4 GiB: fields whose length takes more than 32 bits, and what lies behind them. The files are sparse.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pbwire.h"
#include "made_trace.h"
#include "test.h"
#include "trace/convert.h"

#define HOLE (((uint64_t)1 << 32) + 12345) // bytes of zeros

// Messages are written from the outside: a hole makes all that is around it longer.
struct parts {
    struct str before, after; // of the hole
};

static void put_field(struct str *s, uint32_t number, uint64_t size)
{
    pb_put_tag(s, number, PB_BYTES);
    pb_put_varint(s, size);
}

static void put_event(struct str *s, int64_t offset_ps)
{
    size_t at = pb_begin(s, 4);
    pb_put_int(s, 1, 1);
    pb_put_int(s, 2, offset_ps);
    pb_put_int(s, 3, 10);
    pb_end(s, at);
}

// A line with an event, a field of 4 GiB that no reader knows, and another event.
static void make_line(struct parts *p)
{
    put_event(&p->before, 1000);
    put_field(&p->before, 15, HOLE);
    put_event(&p->after, 2000);
}

static uint64_t length(const struct parts *p)
{
    return p->before.length + HOLE + p->after.length;
}

// `inner` as field `number` of a message that goes on with `more`.
static void wrap(struct parts *p, uint32_t number, const struct str *more)
{
    struct str head;
    str_init(&head);
    put_field(&head, number, length(p));
    str_add_n(&head, str_text(&p->before), p->before.length);
    str_release(&p->before);
    p->before = head;
    str_add_n(&p->after, str_text(more), more->length);
}

static bool write_parts(const char *path, const struct parts *p, size_t cut)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && pwrite(fd, p->before.text, p->before.length, 0) == (ssize_t)p->before.length &&
              pwrite(fd, p->after.text, p->after.length - cut, (off_t)(p->before.length + HOLE)) ==
                  (ssize_t)(p->after.length - cut);
    return fd >= 0 && close(fd) == 0 && ok;
}

static void make(struct parts *p)
{
    struct str rows, plane;
    str_init(&p->before);
    str_init(&p->after);
    str_init(&rows);
    str_init(&plane);
    make_line(p);
    made_row(&rows, 4, 1, "op");
    wrap(p, 3, &rows);
    size_t second = pb_begin(&plane, 1);
    pb_put_string(&plane, 2, "/host:CPU");
    size_t line = pb_begin(&plane, 3);
    put_event(&plane, 3000);
    pb_end(&plane, line);
    pb_end(&plane, second);
    wrap(p, 1, &plane);
    str_release(&rows);
    str_release(&plane);
}

static void read_events(const char *path, int64_t *offsets, size_t n, struct xdamage *damage)
{
    struct trace t;
    struct error e = {0};
    size_t k = 0;
    REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
    *damage = t.files[0].space.damage;
    for (size_t i = 0; i < t.files[0].space.n_planes; i++) {
        struct xplane *p = &t.files[0].space.planes[i];
        for (size_t l = 0; l < p->n_lines; l++) {
            struct xevents walk = xline_events(&p->lines[l]);
            struct xevent event;
            while (xevent_next(&walk, &event) && k < n)
                offsets[k++] = event.offset_ps;
            xevents_damage(&t.files[0].space, &walk, damage);
        }
    }
    CHECK_INT(k, n);
    trace_close(&t);
}

TEST(trace_large_file)
{
    struct parts p;
    struct xdamage damage;
    struct trace t;
    struct error e = {0};
    struct sink sink = {.fd = -1};
    struct trace_converted done;
    int64_t offsets[3] = {0};
    char path[512], out[512];
    const char *const paths[] = {path};
    snprintf(path, sizeof path, "%s/large.xplane.pb", test_dir());
    snprintf(out, sizeof out, "%s/large.csv", test_dir());
    make(&p);
    REQUIRE(write_parts(path, &p, 0));
    read_events(path, offsets, 3, &damage);
    CHECK_INT(offsets[0], 1000);
    CHECK_INT(offsets[1], 2000);
    CHECK_INT(offsets[2], 3000);
    CHECK(!damage.what);

    struct str csv;
    str_init(&csv);
    REQUIRE_OK(trace_open(&t, paths, 1, &e), &e);
    REQUIRE_OK(sink_open(&sink, out, false, false, &e), &e);
    REQUIRE_OK(trace_convert(&t, NULL, TRACE_CSV, &sink, &done, &e), &e);
    REQUIRE_OK(sink_commit(&sink, &e), &e);
    REQUIRE_OK(file_read(&csv, out, 4096, &e), &e);
    CHECK(strstr(str_text(&csv), "\"op\",1000,10,1,"));
    CHECK(strstr(str_text(&csv), "\"op\",2000,10,1,"));
    CHECK(strstr(str_text(&csv), "\"1\",3000,10,1,"));
    sink_abort(&sink);
    trace_close(&t);
    str_release(&csv);

    // Cut in the last event: what is wrong lies behind 4 GiB, and everything before is there.
    REQUIRE(write_parts(path, &p, 1));
    read_events(path, offsets, 3, &damage);
    CHECK(damage.what != NULL);
    CHECK(damage.offset > HOLE);
    str_release(&p.before);
    str_release(&p.after);
}
