// SPDX-License-Identifier: Apache-2.0
// trace_make IN OUT TIMES [SEED]   a large profile from a small one: every line's events TIMES times over, each
// repetition later than the last by the length of the whole and a random gap, and stretched by up to a hundredth, so
// that no number comes twice while events keep nesting as they did. Tables are copied once, as a real profile has them.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pbread.h"
#include "trace/session.h"

static uint64_t state;

// [0, 1), xorshift
static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

struct repetition {
    double stretch;
    int64_t later_ps;
};

static int64_t moved(const struct repetition *r, int64_t ps)
{
    return r->later_ps + (int64_t)((double)ps * r->stretch);
}

// A statistic of the device's clock moves with the event; all others stay.
static void put_stat(struct str *out, struct slice stat, const struct repetition *r, int64_t offset, int64_t duration)
{
    struct pb_reader in = pb_reader(stat.data, stat.size);
    struct pb_field id, value;
    bool pair = pb_next(&in, &id) && pb_is(&id, 1, PB_VARINT) && pb_next(&in, &value) && value.wire == PB_VARINT;
    int64_t which = pair ? (int64_t)id.value : 0;
    if (!pair || !which || (which != offset && which != duration)) {
        pb_put_bytes(out, 4, stat.data, stat.size);
        return;
    }
    int64_t v = (int64_t)value.value;
    size_t at = pb_begin(out, 4);
    pb_put_int(out, 1, which);
    pb_put_uint(out, value.number, (uint64_t)(which == offset ? moved(r, v) : (int64_t)((double)v * r->stretch)));
    pb_end(out, at);
}

static void put_event(struct str *out, const struct xevent *e, const struct repetition *r, int64_t offset,
                      int64_t duration)
{
    size_t at = pb_begin(out, 4);
    pb_put_int(out, 1, e->metadata_id);
    pb_put_int(out, 2, moved(r, e->offset_ps));
    if (e->duration_ps)
        pb_put_int(out, 3, (int64_t)((double)e->duration_ps * r->stretch));
    struct pb_reader in = pb_reader(e->stats.data, e->stats.size);
    struct pb_field f;
    while (pb_next(&in, &f)) {
        if (pb_is(&f, 4, PB_BYTES))
            put_stat(out, f.body, r, offset, duration);
    }
    pb_end(out, at);
}

static int64_t stat_named(const struct xplane *p, const char *name)
{
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        if (slice_is(p->stat_table.rows[i].name, name))
            return p->stat_table.rows[i].id;
    }
    return 0;
}

static void put_line(struct str *out, const struct xplane *p, struct xline *l, const struct repetition *r, size_t times)
{
    int64_t offset = stat_named(p, "device_offset_ps"), duration = stat_named(p, "device_duration_ps");
    pb_put_int(out, 1, l->id);
    pb_put_bytes(out, 2, l->name.data, l->name.size);
    pb_put_int(out, 3, l->timestamp_ns);
    for (size_t k = 0; k < times; k++) {
        struct xevents walk = xline_events(l);
        struct xevent e;
        while (xevent_next(&walk, &e))
            put_event(out, &e, &r[k], offset, duration);
    }
    if (l->display_id)
        pb_put_int(out, 10, l->display_id);
    if (l->display_name.size)
        pb_put_bytes(out, 11, l->display_name.data, l->display_name.size);
}

// The latest end of any event, from its line's timestamp on.
static int64_t length_ps(const struct xspace *space)
{
    int64_t last = 0;
    for (size_t i = 0; i < space->n_planes; i++) {
        for (size_t k = 0; k < space->planes[i].n_lines; k++) {
            struct xevents walk = xline_events(&space->planes[i].lines[k]);
            struct xevent e;
            while (xevent_next(&walk, &e)) {
                int64_t end = e.offset_ps + e.duration_ps;
                last = end > last ? end : last;
            }
        }
    }
    return last;
}

static void put_varint(FILE *out, uint64_t v)
{
    for (; v > 127; v >>= 7)
        fputc((int)(v & 127) | 128, out);
    fputc((int)v, out);
}

static int put_field(FILE *out, uint32_t number, const struct str *body)
{
    put_varint(out, number << 3 | PB_BYTES);
    put_varint(out, body->length);
    return body->failed || fwrite(str_text(body), 1, body->length, out) != body->length;
}

static int put_plane(FILE *out, const struct xplane *p, struct slice whole, const struct repetition *r, size_t times)
{
    struct str plane, line;
    struct pb_reader in = pb_reader(whole.data, whole.size);
    struct pb_field f;
    size_t n = 0;
    str_init(&plane);
    plane.max_bytes = (size_t)1 << 36;
    while (pb_next(&in, &f)) {
        if (f.wire == PB_VARINT)
            pb_put_uint(&plane, f.number, f.value);
        else if (f.wire == PB_BYTES && f.number != 3)
            pb_put_bytes(&plane, f.number, f.body.data, f.body.size);
        if (!pb_is(&f, 3, PB_BYTES))
            continue;
        str_init(&line);
        line.max_bytes = (size_t)1 << 36;
        put_line(&line, p, &p->lines[n++], r, times);
        pb_put_bytes(&plane, 3, str_text(&line), line.length);
        plane.failed |= line.failed;
        str_release(&line);
    }
    int rc = put_field(out, 1, &plane);
    str_release(&plane);
    return rc;
}

static int make(const struct trace *t, FILE *out, size_t times)
{
    const struct xspace *space = &t->files[0].space;
    struct repetition *r = calloc(times, sizeof *r);
    struct pb_reader in = pb_reader(space->bytes.data, space->bytes.size);
    struct pb_field f;
    int rc = !r;
    size_t n = 0;
    int64_t length = length_ps(space), later = 0;
    for (size_t k = 0; k < times && !rc; k++) {
        r[k] = (struct repetition){1 + (k ? 0.01 * (2 * uniform() - 1) : 0), later};
        later += length + length / 50 + (int64_t)(1e6 * uniform());
    }
    while (!rc && pb_next(&in, &f)) {
        if (pb_is(&f, 1, PB_BYTES)) {
            rc = put_plane(out, &space->planes[n++], f.body, r, times);
        } else if (f.wire == PB_BYTES) {
            struct str s;
            str_init(&s);
            str_add_n(&s, f.body.data, f.body.size);
            rc = put_field(out, f.number, &s);
            str_release(&s);
        }
    }
    free(r);
    return rc;
}

int main(int argc, char **argv)
{
    struct trace t;
    struct error err = {0};
    if (argc < 4) {
        fprintf(stderr, "trace_make IN OUT TIMES [SEED]\n");
        return 2;
    }
    const char *paths[] = {argv[1]};
    state = 0x9e3779b97f4a7c15 ^ (argc > 4 ? strtoull(argv[4], NULL, 10) : 1);
    if (trace_open(&t, paths, 1, &err)) {
        fprintf(stderr, "trace_make: %s: %s\n", err.where, err.message);
        return 3;
    }
    FILE *out = fopen(argv[2], "wb");
    int rc = !out || make(&t, out, (size_t)strtoull(argv[3], NULL, 10));
    rc |= !out || fclose(out) != 0;
    trace_close(&t);
    if (rc)
        fprintf(stderr, "trace_make: %s could not be written\n", argv[2]);
    return rc;
}
