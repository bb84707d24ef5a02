// SPDX-License-Identifier: Apache-2.0
// Perfetto's protobuf. Field numbers: google/perfetto, protos/perfetto/trace (trace_packet.proto, clock_snapshot.proto,
// trace_packet_defaults.proto, track_event/track_event.proto, track_descriptor.proto, debug_annotation.proto,
// interned_data.proto). Perfetto counts nanoseconds: where an event begins or ends between two, its picoseconds are
// beside it, in "start_ps" and "duration_ps".
//
// What keeps the file small: every stream of a plane is a sequence of packets with texts of its own, which are written
// once and referred to by number. A text's number follows from its place in the plane's tables, so threads need not
// agree on it. A line's first track is what its packets are about unless they say otherwise, and their times are
// differences to the packet before, by a clock that is set to zero where a line begins. A packet that is earlier than
// the one before has its own time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pbwire.h"
#include "trace/convert_form.h"

enum { PACKET = 1 }; // of Trace
enum {
    CLOCK_SNAPSHOT = 6,
    TIMESTAMP = 8,
    SEQUENCE_ID = 10,
    TRACK_EVENT = 11,
    INTERNED_DATA = 12,
    SEQUENCE_FLAGS = 13,
    CLOCK_ID = 58,
    DEFAULTS = 59,
    DESCRIPTOR = 60
};
enum { STATE_CLEARED = 1, STATE_NEEDED = 2 };
enum { SNAPSHOT_CLOCK = 1, SNAPSHOT_CLOCK_ID = 1, SNAPSHOT_TIME = 2, SNAPSHOT_INCREMENTAL = 3 };
enum { DEFAULT_EVENT = 11, DEFAULT_CLOCK_ID = 58 };
enum { BOOT_CLOCK = 6, LINE_CLOCK = 64 }; // numbers from 64 on belong to a sequence
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
enum { START_IID = 1, DURATION_IID, LONG_NAME_IID, FIXED_NAMES }; // names of annotations of our own

#define PROCESS_UUID ((uint64_t)1 << 40) // + pid: tracks have their own ids as uuids
#define SAMPLE       64                  // events of a line that are looked at for the names they use
#define ROOM         128                 // for a packet's head and what an event has beside its arguments

// Of a plane, for all threads. Texts are numbered: first those of the table of statistics, then those that rows of the
// table of events have of their own, `row_texts` being the number before a row's first one: its long name.
struct tables {
    struct stat_row {
        uint32_t name; // its number as the name of an annotation
        bool flow;     // events with it may begin or end a flow
    } * stats;         // by the row of the table of statistics
    uint64_t *row_texts;
    // Only used in the order of the file.
    bool begun, *names_written, *texts_written;
};

struct row_args {
    const uint8_t *bytes; // annotations as they stand in each event; NULL: not yet made
    size_t size;
};

// Rows of the table of statistics that were used since `before` was called.
struct used {
    uint32_t *rows;
    bool *is;
    size_t n;
};

struct perfetto {
    const struct form_plane *plane;
    uint32_t pid; // whose the following are; 0: none
    struct arena arena;
    struct row_args *rows;
    struct used names, texts;
    struct stream {
        uint8_t head[16]; // sequence and flags, in every packet
        size_t n_head;
        int64_t latest_ns;
    } streams[FORM_STREAMS];
    struct str text;
};

// ---- Wire format

static inline uint8_t *number(uint8_t *at, uint32_t field, uint64_t v)
{
    return pb_varint_at(pb_varint_at(at, field << 3 | PB_VARINT), v);
}

// The same of a number whose length is anybody's guess: without a branch for each of its bytes. Behind `at` is room for
// ten.
static inline uint8_t *any_number(uint8_t *at, uint32_t field, uint64_t v)
{
    at = pb_varint_at(at, field << 3 | PB_VARINT);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (v >> 56 == 0) {
        size_t n = pb_varint_size(v);
        v = (v & 0x000000000fffffff) | (v & 0x00fffffff0000000) << 4;
        v = (v & 0x00003fff00003fff) | (v & 0x0fffc0000fffc000) << 2;
        v = (v & 0x007f007f007f007f) | (v & 0x3f803f803f803f80) << 1;
        v |= 0x8080808080808080 & (((uint64_t)1 << 8 * (n - 1)) - 1);
        memcpy(at, &v, 8);
        return at + n;
    }
#endif
    return pb_varint_at(at, v);
}

static uint64_t sequence(const struct form_plane *p, unsigned stream)
{
    return (uint64_t)(p->pid - 1) * FORM_STREAMS + stream + 1;
}

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

static size_t begin_packet(struct str *out, uint64_t sequence_id, unsigned flags)
{
    size_t at = pb_begin(out, PACKET);
    pb_put_uint(out, SEQUENCE_ID, sequence_id);
    pb_put_uint(out, SEQUENCE_FLAGS, flags);
    return at;
}

static void put_interned(struct str *out, uint32_t field, uint64_t iid, struct slice text)
{
    size_t entry = pb_begin(out, field);
    pb_put_uint(out, 1, iid);
    put_text(out, 2, text);
    pb_end(out, entry);
}

static struct slice literal(const char *text)
{
    return (struct slice){(const uint8_t *)text, strlen(text)};
}

// ---- A plane's tables

// Its name and its value, whatever that is; false where it has none of them.
static inline bool read_stat(struct slice message, int64_t *id, struct pb_field *value)
{
    struct pb_reader r = pb_reader(message.data, message.size);
    struct pb_field v;
    *id = 0;
    value->number = 0;
    while (pb_next(&r, &v)) {
        if (pb_is(&v, 1, PB_VARINT))
            *id = (int64_t)v.value;
        else
            *value = v;
    }
    return value->number != 0;
}

// Numbers names in the order in which they are met, as small numbers are shorter.
static void meet(struct tables *t, const struct xtable *stats, int64_t id, uint32_t *n)
{
    const struct xmeta *row = xtable_find(stats, id);
    if (row && !t->stats[row - stats->rows].name)
        t->stats[row - stats->rows].name = FIXED_NAMES + (*n)++;
}

static void meet_events(struct tables *t, const struct xplane *p, uint32_t *n)
{
    for (size_t i = 0; i < p->n_lines; i++) {
        struct xline line = p->lines[i]; // a copy: walking completes it
        struct xevents walk = xline_events(&line);
        struct xevent e;
        for (int k = 0; k < SAMPLE && xevent_next(&walk, &e); k++) {
            struct pb_reader r = pb_reader(e.stats.data, e.stats.size);
            struct pb_field s, value;
            int64_t id;
            while (pb_next(&r, &s)) {
                if (pb_is(&s, 4, PB_BYTES) && read_stat(s.body, &id, &value))
                    meet(t, &p->stat_table, id, n);
            }
        }
    }
}

static void meet_rows(struct tables *t, const struct xplane *p, uint32_t *n)
{
    uint64_t texts = p->stat_table.n_rows;
    for (size_t i = 0; i < p->event_table.n_rows; i++) {
        struct slice message = p->event_table.rows[i].message;
        struct pb_reader r = pb_reader(message.data, message.size);
        struct pb_field s, value;
        int64_t id;
        t->row_texts[i] = texts++; // the long name
        while (pb_next(&r, &s)) {
            if (!pb_is(&s, 5, PB_BYTES) || !read_stat(s.body, &id, &value))
                continue;
            meet(t, &p->stat_table, id, n);
            texts += pb_is(&value, 5, PB_BYTES);
        }
    }
}

static int make_tables(struct form_plane *p, struct error *err)
{
    size_t stats = p->plane->stat_table.n_rows;
    struct tables *t = p->tables = arena_new(&p->arena, struct tables, 1, err);
    uint32_t n = 0;
    if (!t)
        return ERR_MEMORY;
    t->stats = arena_new(&p->arena, struct stat_row, stats, err);
    t->names_written = arena_new(&p->arena, bool, stats, err);
    t->texts_written = arena_new(&p->arena, bool, stats, err);
    t->row_texts = arena_new(&p->arena, uint64_t, p->plane->event_table.n_rows, err);
    if (!t->stats || !t->names_written || !t->texts_written || !t->row_texts)
        return ERR_MEMORY;
    meet_events(t, p->plane, &n);
    meet_rows(t, p->plane, &n);
    for (size_t i = 0; i < stats; i++) {
        if (!t->stats[i].name)
            t->stats[i].name = FIXED_NAMES + n++;
        t->stats[i].flow = flow_is_of(&p->flows, p->plane->stat_table.rows[i].id);
    }
    return 0;
}

// ---- Annotations

static inline void use(struct used *u, size_t row)
{
    if (u->is[row])
        return;
    u->is[row] = true;
    u->rows[u->n++] = (uint32_t)row;
}

// A text of the event's own.
static void add_text(struct str *out, uint32_t name, struct slice text)
{
    size_t entry = pb_begin(out, EVENT_ANNOTATION);
    pb_put_uint(out, ANNOTATION_NAME_IID, name);
    put_text(out, ANNOTATION_TEXT, text);
    pb_end(out, entry);
}

// One statistic. A text is a reference: to that of the table of statistics which it is, or, of a row, to text_iid.
static inline void add_stat(struct perfetto *p, struct str *out, int64_t id, const struct pb_field *value,
                            uint64_t text_iid)
{
    const struct xtable *stats = &p->plane->plane->stat_table;
    const struct tables *t = p->plane->tables;
    const struct xmeta *row = xtable_find(stats, id), *text = NULL;
    if (!row || pb_is(value, 6, PB_BYTES)) // a program, for example: bytes are nothing to show
        return;
    size_t which = (size_t)(row - stats->rows);
    if (pb_is(value, 7, PB_VARINT) && !(text = xtable_find(stats, (int64_t)value->value)))
        return;
    if (pb_is(value, 5, PB_BYTES) && !text_iid) {
        use(&p->names, which);
        add_text(out, t->stats[which].name, value->body);
        return;
    }
    uint8_t *entry = (uint8_t *)str_room(out, 48), *at = entry;
    if (!entry)
        return;
    *at++ = EVENT_ANNOTATION << 3 | PB_BYTES;
    at = number(at + 1, ANNOTATION_NAME_IID, t->stats[which].name);
    if (pb_is(value, 2, PB_FIXED64)) {
        *at++ = ANNOTATION_DOUBLE << 3 | PB_FIXED64;
        memcpy(at, &value->value, 8);
        at += 8;
    } else if (pb_is(value, 3, PB_VARINT)) {
        at = number(at, ANNOTATION_UINT, value->value);
    } else if (pb_is(value, 4, PB_VARINT)) {
        at = number(at, ANNOTATION_INT, value->value);
    } else if (pb_is(value, 7, PB_VARINT)) {
        use(&p->texts, (size_t)(text - stats->rows));
        at = number(at, ANNOTATION_TEXT_IID, (uint64_t)(text - stats->rows) + 1);
    } else if (pb_is(value, 5, PB_BYTES)) {
        at = number(at, ANNOTATION_TEXT_IID, text_iid);
    } else {
        return;
    }
    use(&p->names, which);
    entry[1] = (uint8_t)(at - entry - 2); // less than 128
    str_use(out, (char *)at);
}

// The value of a statistic of an event, of 1 to 8 bytes, with what stands behind it zero. Before it lie at least seven
// others: the tags and lengths of event and statistic, the id and the value's tag.
static inline uint64_t value_bytes(const uint8_t *at, size_t n)
{
    uint64_t last8;
    memcpy(&last8, at + n - 8, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return last8 >> (64 - 8 * n);
#else
    return __builtin_bswap64(last8 << (64 - 8 * n)) >> (64 - 8 * n);
#endif
}

static inline void put_bytes(uint8_t *to, uint64_t bytes)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    memcpy(to, &bytes, 8);
}

// A statistic as nearly all are: an id of one byte, then an integer or a double, and nothing else. Its annotation has
// the same bytes behind other tags.
static inline bool add_plain(struct perfetto *p, struct str *out, struct slice message, struct flow *flow)
{
    const uint8_t *at = message.data;
    const struct xtable *stats = &p->plane->plane->stat_table;
    const struct tables *t = p->plane->tables;
    if (message.size < 4 || message.size > 11 || at[0] != (1 << 3 | PB_VARINT) || at[1] >= 0x80)
        return false;
    uint8_t tag = at[2];
    size_t n = message.size - 3;
    uint64_t bytes = value_bytes(at + 3, n), value;
    bool integer = tag == (3 << 3 | PB_VARINT) || tag == (4 << 3 | PB_VARINT);
    // An integer's last byte alone has no eighth bit.
    if (integer ? (~bytes & (0x8080808080808080 >> (64 - 8 * n))) != (uint64_t)0x80 << (8 * n - 8)
                : tag != (2 << 3 | PB_FIXED64) || n != 8)
        return false;
    const struct xmeta *row = xtable_find(stats, at[1]);
    if (!row)
        return true;
    uint8_t *entry = (uint8_t *)str_room(out, 48), *to = entry;
    if (!entry)
        return true;
    size_t which = (size_t)(row - stats->rows);
    *to++ = EVENT_ANNOTATION << 3 | PB_BYTES;
    to = number(to + 1, ANNOTATION_NAME_IID, t->stats[which].name);
    *to++ = integer ? tag : ANNOTATION_DOUBLE << 3 | PB_FIXED64; // integers have the same
    put_bytes(to, bytes);
    to += n;
    entry[1] = (uint8_t)(to - entry - 2);
    str_use(out, (char *)to);
    use(&p->names, which);
    if (t->stats[which].flow && integer && pb_get_varint(at + 3, at + message.size, &value))
        flow_see(flow, &p->plane->flows, at[1], value);
    return true;
}

static void add_stats(struct perfetto *p, struct str *out, struct slice bytes, struct flow *flow)
{
    struct pb_reader r = pb_reader(bytes.data, bytes.size);
    struct pb_field s, value;
    int64_t id;
    for (;;) {
        const uint8_t *at = r.at;
        if (r.end - at > 2 && at[0] == (4 << 3 | PB_BYTES) && at[1] < 0x80 && r.end - at - 2 >= at[1]) {
            s.body = (struct slice){at + 2, at[1]};
            r.at = at + 2 + at[1];
        } else if (!pb_next(&r, &s)) {
            break;
        } else if (!pb_is(&s, 4, PB_BYTES)) {
            continue;
        }
        if (add_plain(p, out, s.body, flow) || !read_stat(s.body, &id, &value))
            continue;
        add_stat(p, out, id, &value, 0);
        if (value.wire == PB_VARINT)
            flow_see(flow, &p->plane->flows, id, value.value);
    }
}

// What all events of a row say.
static int make_row(struct perfetto *p, const struct xmeta *row, struct row_args *args, struct error *err)
{
    const struct tables *t = p->plane->tables;
    uint64_t iid = t->row_texts[row - p->plane->plane->event_table.rows] + 1;
    struct pb_reader r = pb_reader(row->message.data, row->message.size);
    struct pb_field s, value;
    int64_t id;
    str_clear(&p->text);
    if (row->display_name.size && row->name.size) {
        size_t entry = pb_begin(&p->text, EVENT_ANNOTATION);
        pb_put_uint(&p->text, ANNOTATION_NAME_IID, LONG_NAME_IID);
        pb_put_uint(&p->text, ANNOTATION_TEXT_IID, iid);
        pb_end(&p->text, entry);
    }
    while (pb_next(&r, &s)) {
        if (!pb_is(&s, 5, PB_BYTES) || !read_stat(s.body, &id, &value))
            continue;
        iid += pb_is(&value, 5, PB_BYTES);
        add_stat(p, &p->text, id, &value, iid);
    }
    args->size = p->text.length;
    args->bytes = (const uint8_t *)arena_strndup(&p->arena, str_text(&p->text), p->text.length, err);
    return args->bytes ? str_check(&p->text, err) : ERR_MEMORY;
}

// The texts of a row, before the first event that has them.
static void put_row_texts(const struct form_plane *p, const struct xmeta *row, struct str *out)
{
    const struct xtable *rows = &p->plane->event_table;
    const struct tables *t = p->tables;
    size_t packet = begin_packet(out, sequence(p, 0), STATE_NEEDED), data = pb_begin(out, INTERNED_DATA);
    if (row) {
        uint64_t which = (uint64_t)(row - rows->rows), iid = t->row_texts[which] + 1;
        struct pb_reader r = pb_reader(row->message.data, row->message.size);
        struct pb_field s, value;
        int64_t id;
        put_interned(out, INTERNED_EVENT_NAME, which + 1, row->display_name.size ? row->display_name : row->name);
        if (row->display_name.size && row->name.size)
            put_interned(out, INTERNED_TEXT, iid, row->name);
        while (pb_next(&r, &s)) {
            if (pb_is(&s, 5, PB_BYTES) && read_stat(s.body, &id, &value) && pb_is(&value, 5, PB_BYTES))
                put_interned(out, INTERNED_TEXT, ++iid, value.body);
        }
    } else {
        put_interned(out, INTERNED_EVENT_NAME, rows->n_rows + 1, literal(""));
    }
    pb_end(out, data);
    pb_end(out, packet);
}

static void put_derived_name(const struct form_op *op, struct str *out)
{
    size_t packet = begin_packet(out, sequence(op->track->plane, op->track->stream), STATE_NEEDED);
    size_t data = pb_begin(out, INTERNED_DATA);
    put_interned(out, INTERNED_EVENT_NAME, op->derived, op->text);
    pb_end(out, data);
    pb_end(out, packet);
}

static void add_used(struct str *out, struct used *u, bool *written, uint32_t field, const struct stat_row *names,
                     const struct xtable *stats)
{
    for (size_t i = 0; i < u->n; i++) {
        size_t row = u->rows[i];
        u->is[row] = false;
        if (!written[row])
            put_interned(out, field, names ? names[row].name : row + 1, stats->rows[row].name);
        written[row] = true;
    }
    u->n = 0;
}

static void put_plane(const struct form_plane *t, struct str *out)
{
    for (unsigned i = 0; i < FORM_STREAMS; i++) {
        size_t packet = begin_packet(out, sequence(t, i), STATE_CLEARED | STATE_NEEDED);
        if (!i) {
            size_t data = pb_begin(out, INTERNED_DATA);
            put_interned(out, INTERNED_ANNOTATION_NAME, START_IID, literal("start_ps"));
            put_interned(out, INTERNED_ANNOTATION_NAME, DURATION_IID, literal("duration_ps"));
            put_interned(out, INTERNED_ANNOTATION_NAME, LONG_NAME_IID, literal("long_name"));
            pb_end(out, data);
        }
        pb_end(out, packet);
    }
    size_t packet = pb_begin(out, PACKET), track = pb_begin(out, DESCRIPTOR);
    pb_put_uint(out, TRACK_UUID, PROCESS_UUID + t->pid);
    size_t process = pb_begin(out, TRACK_PROCESS);
    pb_put_uint(out, 1, t->pid);
    put_text(out, 6, t->name);
    pb_end(out, process);
    pb_put_uint(out, TRACK_ORDERING, 3); // as their ranks say
    pb_end(out, track);
    pb_end(out, packet);
}

static int before(void *state, struct str *out, struct error *err)
{
    struct perfetto *p = state;
    struct tables *t = p->plane->tables;
    const struct xtable *stats = &p->plane->plane->stat_table;
    if (!t->begun)
        put_plane(p->plane, out);
    t->begun = true;
    str_clear(&p->text);
    add_used(&p->text, &p->names, t->names_written, INTERNED_ANNOTATION_NAME, t->stats, stats);
    add_used(&p->text, &p->texts, t->texts_written, INTERNED_TEXT, NULL, stats);
    if (p->text.length) {
        size_t packet = begin_packet(out, sequence(p->plane, 0), STATE_NEEDED);
        pb_put_bytes(out, INTERNED_DATA, str_text(&p->text), p->text.length);
        pb_end(out, packet);
    }
    return str_check(&p->text, err);
}

// ---- Events

// A packet of an event that is being written. Its two lengths are put in when they are known; until then they have one
// byte each, or two when it is expected to be long.
struct packet {
    size_t place;
    unsigned length_bytes;
    unsigned event; // from its place to the event's length
};

static inline uint8_t *put_time(uint8_t *at, struct stream *s, int64_t ns)
{
    if (ns < s->latest_ns)
        return number(any_number(at, TIMESTAMP, (uint64_t)ns), CLOCK_ID, BOOT_CLOCK);
    at = any_number(at, TIMESTAMP, (uint64_t)(ns - s->latest_ns));
    s->latest_ns = ns;
    return at;
}

// Begins the packet of an event that will have about `most` bytes. Gives the place where these go.
static inline uint8_t *begin_event(struct perfetto *p, struct str *out, const struct form_op *op, unsigned type,
                                   size_t most, struct packet *k)
{
    const struct form_track *track = op->track;
    struct stream *s = &p->streams[track->stream];
    uint8_t *at = (uint8_t *)str_room(out, ROOM), *packet = at;
    if (!at)
        return NULL;
    k->place = out->length;
    k->length_bytes = most < 128 - 32 ? 1 : 2; // beside the event a packet has about 16 bytes
    *at = PACKET << 3 | PB_BYTES;
    at += 1 + k->length_bytes;
    memcpy(at, s->head, sizeof s->head);
    at += s->n_head;
    at = put_time(at, s, op->ps / 1000);
    *at++ = TRACK_EVENT << 3 | PB_BYTES;
    k->event = (unsigned)(at - packet);
    at = number(at + k->length_bytes, EVENT_TYPE, type);
    return track->first ? at : number(at, EVENT_TRACK, track->id);
}

static inline void put_length(uint8_t *at, unsigned bytes, size_t length)
{
    at[0] = (uint8_t)(length | (bytes > 1 ? 0x80 : 0));
    if (bytes > 1)
        at[1] = (uint8_t)(length >> 7); // also when it is 0: a number may be longer than it must
}

static void end_long_event(struct str *out, const struct packet *k, size_t event)
{
    uint8_t *room = (uint8_t *)str_room(out, 32), head[64], *at = head;
    if (!room)
        return;
    uint8_t *packet = (uint8_t *)out->text + k->place;
    size_t between = k->event - 1 - k->length_bytes; // sequence, time and the event's tag
    at = pb_varint_at(at, PACKET << 3 | PB_BYTES);
    at = pb_varint_at(at, between + pb_varint_size(event) + event);
    memcpy(at, packet + 1 + k->length_bytes, between);
    at = pb_varint_at(at + between, event);
    memmove(packet + (at - head), packet + k->event + k->length_bytes, event);
    memcpy(packet, head, (size_t)(at - head));
    str_use(out, (char *)packet + (at - head) + event);
}

// The event's bytes end where `out` does.
static inline void end_event(struct str *out, const struct packet *k)
{
    if (out->failed)
        return;
    uint8_t *packet = (uint8_t *)out->text + k->place;
    size_t size = out->length - k->place - 1 - k->length_bytes;
    size_t event = out->length - k->place - k->event - k->length_bytes;
    if (size >> 7 * k->length_bytes) {
        end_long_event(out, k, event);
        return;
    }
    put_length(packet + 1, k->length_bytes, size);
    put_length(packet + k->event, k->length_bytes, event);
}

static inline uint8_t *exact(uint8_t *at, uint32_t name, int64_t ps)
{
    uint8_t *entry = at;
    *at = EVENT_ANNOTATION << 3 | PB_BYTES;
    at = any_number(number(at + 2, ANNOTATION_NAME_IID, name), ANNOTATION_INT, (uint64_t)ps);
    entry[1] = (uint8_t)(at - entry - 2);
    return at;
}

static void add_flow(struct str *out, const struct flow *flow)
{
    uint8_t *at = (uint8_t *)str_room(out, 16);
    if (!at)
        return;
    uint32_t field = flow->way == FLOW_IN ? EVENT_FLOW_END : EVENT_FLOW;
    at = pb_varint_at(at, field << 3 | PB_FIXED64);
    memcpy(at, &flow->id, 8);
    str_use(out, (char *)at + 8);
}

static int begin(struct perfetto *p, const struct form_op *op, struct str *out, struct error *err)
{
    const struct xtable *rows = &p->plane->plane->event_table;
    struct row_args *args = op->row ? &p->rows[op->row - rows->rows] : NULL;
    struct flow flow = {0};
    struct packet packet;
    int rc = args && !args->bytes ? make_row(p, op->row, args, err) : 0;
    if (rc)
        return rc;
    if (op->fresh && op->derived)
        put_derived_name(op, out);
    else if (op->fresh)
        put_row_texts(p->plane, op->row, out);
    // Without its statistics an event takes about 30 bytes; they take a little more than in the profile.
    size_t most = 30 + (args ? args->size : 0) + (op->derived ? 0 : op->text.size + op->text.size / 8);
    uint8_t *at = begin_event(p, out, op, op->duration_ps ? SLICE_BEGIN : INSTANT, most, &packet);
    if (!at)
        return str_check(out, err);
    at = number(at, EVENT_NAME_IID,
                op->derived ? op->derived
                : op->row   ? (uint64_t)(op->row - rows->rows) + 1
                            : rows->n_rows + 1);
    if (!op->derived && (op->ps % 1000 || op->duration_ps % 1000)) {
        at = exact(at, START_IID, op->ps);
        at = exact(at, DURATION_IID, op->duration_ps);
    }
    str_use(out, (char *)at);
    if (args)
        str_add_n(out, args->bytes, args->size);
    if (!op->derived && op->text.size)
        add_stats(p, out, op->text, &flow);
    flow_end(&flow, &p->plane->flows);
    if (flow.way)
        add_flow(out, &flow);
    end_event(out, &packet);
    return 0;
}

// Half of all packets, of which little but the time is not known beforehand: about 16 bytes, never 128.
static void end(struct perfetto *p, const struct form_op *op, struct str *out)
{
    struct stream *s = &p->streams[op->track->stream];
    uint8_t *packet = (uint8_t *)str_room(out, ROOM), *event, *at;
    if (!packet)
        return;
    packet[0] = PACKET << 3 | PB_BYTES;
    memcpy(packet + 2, s->head, sizeof s->head);
    event = put_time(packet + 2 + s->n_head, s, op->ps / 1000);
    event[0] = TRACK_EVENT << 3 | PB_BYTES;
    event[2] = EVENT_TYPE << 3 | PB_VARINT;
    event[3] = SLICE_END;
    at = op->track->first ? event + 4 : number(event + 4, EVENT_TRACK, op->track->id);
    event[1] = (uint8_t)(at - event - 2);
    packet[1] = (uint8_t)(at - packet - 2);
    str_use(out, (char *)at);
}

static void count(struct perfetto *p, const struct form_op *op, struct str *out)
{
    struct packet packet;
    uint8_t *at = begin_event(p, out, op, COUNTER, 12, &packet);
    if (!at)
        return;
    at = pb_varint_at(at, EVENT_DOUBLE << 3 | PB_FIXED64);
    memcpy(at, &op->value, 8);
    str_use(out, (char *)at + 8);
    end_event(out, &packet);
}

// ---- Tracks

static void put_clock(struct str *out, unsigned id, bool incremental)
{
    size_t clock = pb_begin(out, SNAPSHOT_CLOCK);
    pb_put_uint(out, SNAPSHOT_CLOCK_ID, id);
    pb_put_uint(out, SNAPSHOT_TIME, 0);
    if (incremental)
        pb_put_bool(out, SNAPSHOT_INCREMENTAL, true);
    pb_end(out, clock);
}

// From here on the stream's packets are about this track, and their times count from zero.
static void put_defaults(const struct form_track *t, struct str *out)
{
    size_t packet = begin_packet(out, sequence(t->plane, t->stream), STATE_NEEDED);
    size_t at = pb_begin(out, CLOCK_SNAPSHOT);
    put_clock(out, LINE_CLOCK, true);
    put_clock(out, BOOT_CLOCK, false);
    pb_end(out, at);
    at = pb_begin(out, DEFAULTS);
    size_t event = pb_begin(out, DEFAULT_EVENT);
    pb_put_uint(out, EVENT_TRACK, t->id);
    pb_end(out, event);
    pb_put_uint(out, DEFAULT_CLOCK_ID, LINE_CLOCK);
    pb_end(out, at);
    pb_end(out, packet);
}

static void put_track(struct perfetto *p, const struct form_track *t, struct str *out)
{
    size_t packet = pb_begin(out, PACKET), at = pb_begin(out, DESCRIPTOR);
    pb_put_uint(out, TRACK_UUID, t->id);
    put_text(out, TRACK_NAME, t->name);
    pb_put_uint(out, TRACK_PARENT, PROCESS_UUID + t->plane->pid);
    if (t->counter)
        pb_put_bytes(out, TRACK_COUNTER, "", 0);
    pb_put_uint(out, TRACK_RANK, t->order);
    pb_end(out, at);
    pb_end(out, packet);
    if (!t->first)
        return;
    put_defaults(t, out);
    p->streams[t->stream].latest_ns = 0;
}

// ---- The form

static int op(void *state, const struct form_op *o, struct str *out, struct error *err)
{
    struct perfetto *p = state;
    switch (o->what) {
    case FORM_PLANE: // `before` does it
        break;
    case FORM_TRACK:
        put_track(p, o->track, out);
        break;
    case FORM_BEGIN:
        return begin(p, o, out, err);
    case FORM_END:
        end(p, o, out);
        break;
    case FORM_COUNT:
        count(p, o, out);
        break;
    }
    return 0;
}

static int chunk(void *state, const struct form_chunk *k, struct error *err)
{
    struct perfetto *p = state;
    size_t stats = k->plane->plane->stat_table.n_rows;
    p->plane = k->plane;
    for (unsigned i = 0; i < FORM_STREAMS; i++) {
        struct stream *s = &p->streams[i];
        uint8_t *at = number(s->head, SEQUENCE_ID, sequence(p->plane, i));
        s->n_head = (size_t)(number(at, SEQUENCE_FLAGS, STATE_NEEDED) - s->head);
        s->latest_ns = k->latest_ps[i] / 1000;
    }
    if (p->pid == k->plane->pid)
        return 0;
    arena_release(&p->arena);
    p->pid = k->plane->pid;
    p->rows = arena_new(&p->arena, struct row_args, k->plane->plane->event_table.n_rows, err);
    p->names =
        (struct used){.rows = arena_new(&p->arena, uint32_t, stats, err), .is = arena_new(&p->arena, bool, stats, err)};
    p->texts =
        (struct used){.rows = arena_new(&p->arena, uint32_t, stats, err), .is = arena_new(&p->arena, bool, stats, err)};
    return p->rows && p->names.rows && p->names.is && p->texts.rows && p->texts.is ? 0 : ERR_MEMORY;
}

static void release(void *state)
{
    struct perfetto *p = state;
    arena_release(&p->arena);
    str_release(&p->text);
}

const struct form *form_perfetto(void)
{
    static const struct form form = {.lanes = true,
                                     .ends = true,
                                     .counters = true,
                                     .head = "",
                                     .tail = "",
                                     .state_bytes = sizeof(struct perfetto),
                                     .plane = make_tables,
                                     .release = release,
                                     .chunk = chunk,
                                     .op = op,
                                     .before = before};
    return &form;
}
