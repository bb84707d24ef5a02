// SPDX-License-Identifier: Apache-2.0
// Perfetto's protobuf. Field numbers: google/perfetto, protos/perfetto/trace (trace_packet.proto,
// track_event/track_event.proto, track_descriptor.proto, debug_annotation.proto, interned_data.proto). Names are
// written once and referred to by number. Perfetto counts nanoseconds: where an event begins or ends between two, its
// picoseconds are beside it, in "start_ps" and "duration_ps".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "base/pbwire.h"
#include "trace/convert_form.h"

enum { PACKET = 1 }; // of Trace
enum { TIMESTAMP = 8, SEQUENCE_ID = 10, TRACK_EVENT = 11, INTERNED_DATA = 12, SEQUENCE_FLAGS = 13, DESCRIPTOR = 60 };
enum { STATE_CLEARED = 1, STATE_NEEDED = 2 };
enum {
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_DOUBLE = 44,
    EVENT_FLOW = 47,
    EVENT_FLOW_END = 48
};
enum { SLICE_BEGIN = 1, SLICE_END, INSTANT, COUNTER };
enum {
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_UINT = 3,
    ANNOTATION_INT = 4,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_TEXT = 6,
    ANNOTATION_TEXT_IID = 17
};
enum { INTERNED_EVENT_NAME = 2, INTERNED_ANNOTATION_NAME = 3, INTERNED_TEXT = 29 };
enum {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    TRACK_ORDERING = 11,
    TRACK_RANK = 12
};

#define PROCESS_UUID ((uint64_t)1 << 40) // + pid: tracks have their own ids as uuids
#define LONGEST      16384               // bytes of a text that an event has of its own

struct row_args {
    uint32_t name_iid; // 0: not yet made
    uint32_t size;
    const uint8_t *args; // annotations, as they stand in each event
};

struct perfetto {
    struct arena arena; // of the plane
    struct row_args *rows;
    uint32_t *stat_names, *stat_texts; // iids of the plane's table of statistics, as names and as texts; 0: none yet
    uint32_t n_names, n_annotations, n_texts;
    uint32_t start_iid, duration_iid; // "start_ps", "duration_ps"
    struct idmap derived;             // names of derived slices: a hash to the iid
    struct str interned, event, args;
};

// ---- Wire format, into the sink's room

static inline uint8_t *number(uint8_t *at, uint32_t field, uint64_t v)
{
    return pb_varint_at(pb_varint_at(at, field << 3 | PB_VARINT), v);
}

// A packet of one event: `fixed` bytes written by the caller into small[], then `args`.
static void put_event(struct form *f, int64_t ps, const uint8_t *small, size_t n_small, const void *args, size_t n_args,
                      const void *more, size_t n_more)
{
    size_t event = n_small + n_args + n_more;
    uint64_t ns = (uint64_t)ps / 1000;
    // timestamp, sequence id 1 and flags have one byte of tag each.
    size_t packet = 1 + pb_varint_size(ns) + 2 + 2 + 1 + pb_varint_size(event) + event;
    uint8_t *at = sink_room(f->out, 64);
    at = pb_varint_at(pb_varint_at(at, PACKET << 3 | PB_BYTES), packet);
    at = number(at, TIMESTAMP, ns);
    at = number(at, SEQUENCE_ID, 1);
    at = number(at, SEQUENCE_FLAGS, STATE_NEEDED);
    at = pb_varint_at(pb_varint_at(at, TRACK_EVENT << 3 | PB_BYTES), event);
    sink_end(f->out, at);
    if (event <= SINK_ROOM) {
        at = sink_room(f->out, event);
        memcpy(at, small, n_small);
        if (n_args)
            memcpy(at + n_small, args, n_args);
        if (n_more)
            memcpy(at + n_small + n_args, more, n_more);
        sink_end(f->out, at + event);
        return;
    }
    sink_put(f->out, small, n_small);
    sink_put(f->out, args, n_args);
    sink_put(f->out, more, n_more);
}

static void put_packet(struct form *f, const struct str *body)
{
    uint8_t *at = sink_room(f->out, 16);
    sink_end(f->out, pb_varint_at(pb_varint_at(at, PACKET << 3 | PB_BYTES), body->length));
    sink_put(f->out, str_text(body), body->length);
}

// ---- Interned texts

// Perfetto's texts are UTF-8.
static void put_text(struct str *out, uint32_t field, struct slice s)
{
    size_t bad;
    if (utf8_valid((const char *)s.data, s.size, &bad)) {
        pb_put_bytes(out, field, s.data, s.size);
        return;
    }
    size_t at = pb_begin(out, field);
    for (size_t i = 0; i < s.size;) {
        uint32_t code;
        size_t k = utf8_decode((const char *)s.data + i, s.size - i, &code);
        if (k)
            str_add_n(out, s.data + i, k);
        else
            str_add(out, "\xef\xbf\xbd"); // U+FFFD
        i += k ? k : 1;
    }
    pb_end(out, at);
}

static uint32_t intern(struct perfetto *p, uint32_t field, uint32_t *count, struct slice s)
{
    size_t entry = pb_begin(&p->interned, field);
    pb_put_uint(&p->interned, 1, ++*count);
    put_text(&p->interned, 2, s);
    pb_end(&p->interned, entry);
    return *count;
}

// Texts must be known before the event that refers to them.
static int put_interned(struct form *f, struct error *err)
{
    struct perfetto *p = f->state;
    if (!p->interned.length)
        return 0;
    str_clear(&p->event);
    pb_put_uint(&p->event, SEQUENCE_ID, 1);
    pb_put_uint(&p->event, SEQUENCE_FLAGS, STATE_NEEDED);
    pb_put_bytes(&p->event, INTERNED_DATA, str_text(&p->interned), p->interned.length);
    int rc = str_check(&p->interned, err);
    if (!rc)
        rc = str_check(&p->event, err);
    put_packet(f, &p->event);
    str_clear(&p->interned);
    return rc;
}

// ---- Annotations

static uint32_t stat_name(struct perfetto *p, const struct xplane *plane, int64_t id)
{
    const struct xmeta *row = xtable_find(&plane->stat_table, id);
    uint32_t *iid = row ? &p->stat_names[row - plane->stat_table.rows] : NULL;
    if (iid && !*iid)
        *iid = intern(p, INTERNED_ANNOTATION_NAME, &p->n_annotations, row->name);
    return iid ? *iid : 0;
}

// One statistic where it lies: a reference stays one.
static void add_stat(struct perfetto *p, const struct xplane *plane, struct slice message, struct str *out)
{
    struct pb_reader r = pb_reader(message.data, message.size);
    struct pb_field v, value = {0};
    int64_t id = 0;
    while (pb_next(&r, &v)) {
        if (pb_is(&v, 1, PB_VARINT))
            id = (int64_t)v.value;
        else
            value = v;
    }
    uint32_t name = stat_name(p, plane, id);
    if (!name || !value.number || pb_is(&value, 6, PB_BYTES)) // a program, for example: bytes are nothing to show
        return;
    uint8_t small[48], *at = pb_varint_at(pb_varint_at(small, ANNOTATION_NAME_IID << 3), name);
    if (pb_is(&value, 2, PB_FIXED64)) {
        *at++ = ANNOTATION_DOUBLE << 3 | PB_FIXED64;
        memcpy(at, &value.value, 8);
        at += 8;
    } else if (pb_is(&value, 3, PB_VARINT)) {
        at = number(at, ANNOTATION_UINT, value.value);
    } else if (pb_is(&value, 4, PB_VARINT)) {
        at = number(at, ANNOTATION_INT, value.value);
    } else if (pb_is(&value, 7, PB_VARINT)) {
        const struct xmeta *row = xtable_find(&plane->stat_table, (int64_t)value.value);
        if (!row)
            return;
        uint32_t *iid = &p->stat_texts[row - plane->stat_table.rows];
        if (!*iid)
            *iid = intern(p, INTERNED_TEXT, &p->n_texts, row->name);
        at = number(at, ANNOTATION_TEXT_IID, *iid);
    } else if (!pb_is(&value, 5, PB_BYTES)) {
        return;
    }
    if (value.number != 5) {
        uint8_t head[8];
        uint8_t *end = pb_varint_at(pb_varint_at(head, EVENT_ANNOTATION << 3 | PB_BYTES), (uint64_t)(at - small));
        str_add_n(out, head, (size_t)(end - head));
        str_add_n(out, small, (size_t)(at - small));
        return;
    }
    size_t entry = pb_begin(out, EVENT_ANNOTATION);
    pb_put_uint(out, ANNOTATION_NAME_IID, name);
    put_text(out, ANNOTATION_TEXT, value.body);
    pb_end(out, entry);
}

static void add_stats(struct perfetto *p, const struct xplane *plane, struct slice bytes, uint32_t field,
                      struct str *out)
{
    struct pb_reader r = pb_reader(bytes.data, bytes.size);
    struct pb_field s;
    while (pb_next(&r, &s)) {
        if (pb_is(&s, field, PB_BYTES))
            add_stat(p, plane, s.body, out);
    }
}

static int make_row(struct perfetto *p, const struct xplane *plane, const struct xmeta *row, struct row_args *out,
                    struct error *err)
{
    bool both = row->display_name.size && row->name.size;
    str_clear(&p->args);
    out->name_iid = intern(p, INTERNED_EVENT_NAME, &p->n_names, row->display_name.size ? row->display_name : row->name);
    if (both) {
        uint32_t name = intern(p, INTERNED_ANNOTATION_NAME, &p->n_annotations,
                               (struct slice){(const uint8_t *)"long_name", strlen("long_name")});
        size_t entry = pb_begin(&p->args, EVENT_ANNOTATION);
        pb_put_uint(&p->args, ANNOTATION_NAME_IID, name);
        pb_put_uint(&p->args, ANNOTATION_TEXT_IID, intern(p, INTERNED_TEXT, &p->n_texts, row->name));
        pb_end(&p->args, entry);
    }
    add_stats(p, plane, row->message, 5, &p->args);
    out->size = (uint32_t)p->args.length;
    out->args = (const uint8_t *)arena_strndup(&p->arena, str_text(&p->args), p->args.length, err);
    return out->args ? str_check(&p->args, err) : ERR_MEMORY;
}

// ---- The form

static int plane(struct form *f, const struct form_plane *t, struct error *err)
{
    struct perfetto *p = f->state;
    size_t stats = t->plane->stat_table.n_rows;
    arena_release(&p->arena);
    p->rows = arena_new(&p->arena, struct row_args, t->plane->event_table.n_rows, err);
    p->stat_names = arena_new(&p->arena, uint32_t, stats, err);
    p->stat_texts = arena_new(&p->arena, uint32_t, stats, err);
    if (!p->rows || !p->stat_names || !p->stat_texts)
        return ERR_MEMORY;
    str_clear(&p->event);
    size_t track = pb_begin(&p->event, DESCRIPTOR);
    pb_put_uint(&p->event, TRACK_UUID, PROCESS_UUID + t->pid);
    size_t process = pb_begin(&p->event, TRACK_PROCESS);
    pb_put_uint(&p->event, 1, t->pid);
    put_text(&p->event, 6, t->name);
    pb_end(&p->event, process);
    pb_put_uint(&p->event, TRACK_ORDERING, 3); // as their ranks say
    pb_end(&p->event, track);
    put_packet(f, &p->event);
    return str_check(&p->event, err);
}

static int track(struct form *f, const struct form_track *t, struct error *err)
{
    struct perfetto *p = f->state;
    str_clear(&p->event);
    size_t at = pb_begin(&p->event, DESCRIPTOR);
    pb_put_uint(&p->event, TRACK_UUID, t->id);
    put_text(&p->event, TRACK_NAME, t->name);
    pb_put_uint(&p->event, TRACK_PARENT, PROCESS_UUID + t->plane->pid);
    if (t->counter)
        pb_put_bytes(&p->event, TRACK_COUNTER, "", 0);
    pb_put_uint(&p->event, TRACK_RANK, t->order);
    pb_end(&p->event, at);
    put_packet(f, &p->event);
    return str_check(&p->event, err);
}

// Names of derived slices are few, and not in a table: their hash stands for them.
static int derived_name(struct perfetto *p, struct slice name, uint32_t *iid, struct error *err)
{
    uint64_t h = p->derived.secret;
    bool again;
    for (size_t i = 0; i < name.size; i++)
        h = mix64(h ^ name.data[i]);
    if (idmap_get(&p->derived, (int64_t)h, iid))
        return 0;
    *iid = intern(p, INTERNED_EVENT_NAME, &p->n_names, name);
    return idmap_put(&p->derived, (int64_t)h, *iid, &again, err);
}

static uint8_t *exact(uint8_t *at, uint32_t name, int64_t ps)
{
    *at++ = EVENT_ANNOTATION << 3 | PB_BYTES;
    at = pb_varint_at(at, 2 + pb_varint_size(name) + pb_varint_size((uint64_t)ps));
    return number(number(at, ANNOTATION_NAME_IID, name), ANNOTATION_INT, (uint64_t)ps);
}

static uint8_t *flow_id(uint8_t *at, const struct form_event *e)
{
    at = pb_varint_at(at, (e->flow == FLOW_IN ? EVENT_FLOW_END : EVENT_FLOW) << 3 | PB_FIXED64);
    memcpy(at, &e->flow_id, 8);
    return at + 8;
}

static int begin(struct form *f, const struct form_event *e, struct error *err)
{
    struct perfetto *p = f->state;
    struct row_args *row = e->row ? &p->rows[e->row - e->plane->event_table.rows] : NULL;
    uint32_t name = 0;
    uint8_t small[128], *at = small;
    int rc = 0;
    if (row && !row->name_iid)
        rc = make_row(p, e->plane, e->row, row, err);
    if (row)
        name = row->name_iid;
    else if (!rc)
        rc = derived_name(p, e->name, &name, err);
    str_clear(&p->args);
    if (e->raw && e->raw->stats.size)
        add_stats(p, e->plane, e->raw->stats, 4, &p->args);
    if (!rc)
        rc = put_interned(f, err);
    if (rc)
        return rc;
    at = number(at, EVENT_TYPE, e->duration_ps ? SLICE_BEGIN : INSTANT);
    at = number(at, EVENT_NAME_IID, name);
    at = number(at, EVENT_TRACK, e->track->id);
    if (e->flow)
        at = flow_id(at, e);
    if (e->raw && (e->start_ps % 1000 || e->duration_ps % 1000)) {
        at = exact(at, p->start_iid, e->start_ps);
        at = exact(at, p->duration_iid, e->duration_ps);
    }
    put_event(f, e->start_ps, small, (size_t)(at - small), row ? row->args : NULL, row ? row->size : 0,
              str_text(&p->args), p->args.length);
    return str_check(&p->args, err);
}

static void end(struct form *f, const struct form_track *t, int64_t ps)
{
    uint8_t small[32], *at = number(small, EVENT_TYPE, SLICE_END);
    at = number(at, EVENT_TRACK, t->id);
    put_event(f, ps, small, (size_t)(at - small), NULL, 0, NULL, 0);
}

static void count(struct form *f, const struct form_track *t, int64_t ps, double value)
{
    uint8_t small[48], *at = number(small, EVENT_TYPE, COUNTER);
    at = number(at, EVENT_TRACK, t->id);
    at = pb_varint_at(at, EVENT_DOUBLE << 3 | PB_FIXED64);
    memcpy(at, &value, 8);
    put_event(f, ps, small, (size_t)(at + 8 - small), NULL, 0, NULL, 0);
}

static void finish(struct form *f)
{
    (void)f;
}

static void release(struct form *f)
{
    struct perfetto *p = f->state;
    if (!p)
        return;
    arena_release(&p->arena);
    idmap_release(&p->derived);
    str_release(&p->interned);
    str_release(&p->event);
    str_release(&p->args);
    free(p);
}

int form_perfetto(struct form *f, struct error *err)
{
    struct perfetto *p = calloc(1, sizeof *p);
    *f = (struct form){.state = p,
                       .out = f->out,
                       .lanes = true,
                       .plane = plane,
                       .track = track,
                       .begin = begin,
                       .end = end,
                       .count = count,
                       .finish = finish,
                       .release = release};
    if (!p)
        return error_set(err, ERR_MEMORY, NULL, "no memory to convert a profile");
    arena_init(&p->arena);
    idmap_init(&p->derived);
    str_init(&p->interned);
    str_init(&p->event);
    str_init(&p->args);
    pb_put_uint(&p->event, SEQUENCE_ID, 1);
    pb_put_uint(&p->event, SEQUENCE_FLAGS, STATE_CLEARED | STATE_NEEDED);
    put_packet(f, &p->event);
    p->start_iid =
        intern(p, INTERNED_ANNOTATION_NAME, &p->n_annotations, (struct slice){(const uint8_t *)"start_ps", 8});
    p->duration_iid =
        intern(p, INTERNED_ANNOTATION_NAME, &p->n_annotations, (struct slice){(const uint8_t *)"duration_ps", 11});
    return 0;
}
