// SPDX-License-Identifier: Apache-2.0
// XSpace, the file format of XLA's profiler (*.xplane.pb): a space has planes (a device, a host), a plane has lines (a
// stream, a thread) and two tables that say once what its events and statistics are called, a line has events.
// Message and field numbers: openxla/xla, third_party/tsl/tsl/profiler/protobuf/xplane.proto.
//
// Opening reads what is small (planes, tables, heads of lines) and keeps places for what is large: events are decoded
// where they lie, when somebody walks over a line. Everything points into the file's bytes, which must stay.
//
//     struct xevents walk = xline_events(line);
//     struct xevent e;
//     while (xevent_next(&walk, &e)) ...
//     xevents_damage(space, &walk, &damage); // what was met on the way
#ifndef TRACE_XSPACE_H
#define TRACE_XSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/pbread.h"

// Where a file cannot be read any further. What lies before is used, and so is what lies after where the frames around
// the damage say where that is.
struct xdamage {
    const char *what;  // NULL: none. A static text
    const char *where; // "planes.lines.events": the field that has it
    uint64_t offset;   // of that field's first byte in the (unpacked) file
    size_t count;      // places found so far; the others are those of the smallest offset
};

// A row of one of a plane's tables. Unset texts are empty.
struct xmeta {
    int64_t id;
    struct slice name;
    struct slice display_name; // of events only
    struct slice message;      // the whole XEventMetadata or XStatMetadata, for its other fields
};

// Ids may be any 64-bit number; where they are few and close together, as they nearly always are, they index an array.
struct xtable {
    struct xmeta *rows; // in the order of the file; of an id that is there twice the last counts
    size_t n_rows, cap_rows;
    uint32_t *slots; // `direct`: row + 1 or 0, by id - first; else the rows in the order of their ids
    size_t n_slots;
    int64_t first;
    bool direct;
};

struct xline {
    int64_t id;
    struct slice name;
    int64_t timestamp_ns; // of offset 0
    struct slice events;  // the line's bytes from its first event on; empty without events
    // Writers put these behind the events: they are there once somebody has walked over the line.
    int64_t duration_ps, display_id;
    struct slice display_name;
    uint64_t n_events; // as far as damage allows; known once somebody has walked to the end
    bool walked, told; // to the end; what is damaged on it has been reported
};

struct xplane {
    int64_t id;
    struct slice name;
    struct xline *lines;
    size_t n_lines, cap_lines;
    struct xtable event_table, stat_table;
    struct slice *stats; // XStat messages of the plane itself
    size_t n_stats, cap_stats;
};

struct xspace {
    struct slice bytes;
    struct xplane *planes;
    size_t n_planes, cap_planes;
    struct slice *hosts, *errors, *warnings; // hostnames; what the profiler itself had to say
    size_t n_hosts, cap_hosts, n_errors, cap_errors, n_warnings, cap_warnings;
    struct xdamage damage;
};

// Reads the frame. Memory comes from `arena`, a small multiple of the bytes of tables and heads. Damage is no error:
// see space->damage. ERR_INPUT when the bytes are not an XSpace at all (nothing that is a plane before the damage),
// with `name`, the file's, in the message.
int xspace_read(struct xspace *space, const void *bytes, size_t size, const char *name, struct arena *arena,
                struct error *err);
// The first plane of that name, NULL when there is none.
const struct xplane *xspace_plane(const struct xspace *space, const char *name);

// The row of an id, or NULL.
static inline const struct xmeta *xtable_find(const struct xtable *t, int64_t id)
{
    if (t->direct) {
        uint64_t slot = (uint64_t)id - (uint64_t)t->first;
        return slot < t->n_slots && t->slots[slot] ? &t->rows[t->slots[slot] - 1] : NULL;
    }
    size_t low = 0, high = t->n_slots;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->rows[t->slots[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->n_slots && t->rows[t->slots[low]].id == id ? &t->rows[t->slots[low]] : NULL;
}

struct xevent {
    int64_t metadata_id;
    int64_t offset_ps, duration_ps;
    int64_t occurrences; // of an aggregated event, which has no offset; 0 for all others
    struct slice stats;  // the event's bytes from its first statistic on: xstat_next
};

struct xevents {
    struct pb_reader body;
    struct xline *line;
    uint64_t n;         // events so far
    const char *damage; // of an event; the line's own is in `body`
    const uint8_t *damaged;
};

// A walk completes the line, so only one thread at a time may walk over it; others walk over copies of it.
static inline struct xevents xline_events(struct xline *l)
{
    return (struct xevents){.body = pb_reader(l->events.data, l->events.size), .line = l};
}
// What stands behind events; the head, by which lines are chosen, stays as it is whoever has walked.
void xline_tail(struct xline *l, const struct pb_field *f);

// What nearly every field of an event is: one of its numbers, or a statistic of less than 128 bytes. NULL: something
// else, at which nothing was read.
static inline const uint8_t *xevent_field(const uint8_t *at, const uint8_t *end, struct xevent *e)
{
    uint64_t v;
    uint8_t tag = *at;
    if (tag == (4 << 3 | PB_BYTES)) {
        if (end - at < 2 || at[1] >= 0x80 || end - at - 2 < at[1])
            return NULL;
        if (!e->stats.size)
            e->stats = (struct slice){at, (size_t)(end - at)};
        return at + 2 + at[1];
    }
    if (tag != (1 << 3 | PB_VARINT) && tag != (2 << 3 | PB_VARINT) && tag != (3 << 3 | PB_VARINT))
        return NULL;
    at = pb_get_varint(at + 1, end, &v);
    if (at)
        *(tag == (1 << 3 | PB_VARINT)   ? &e->metadata_id
          : tag == (2 << 3 | PB_VARINT) ? &e->offset_ps
                                        : &e->duration_ps) = (int64_t)v;
    return at;
}

// A number of an event, if that comes next. `end` is that of the line, not of the event: behind most events others
// follow, so that eight bytes can be read at once. What reaches out of the event is seen by the caller; NULL where
// nothing ends.
static inline const uint8_t *xevent_number(const uint8_t *at, const uint8_t *end, uint32_t field, int64_t *out)
{
    uint64_t v;
    if (at < end && *at == (field << 3 | PB_VARINT)) {
        at = pb_get_varint(at + 1, end, &v);
        *out = (int64_t)v;
    }
    return at;
}

// An event as XLA writes it: its numbers, then statistics of less than 128 bytes each, and nothing else. False for any
// other, also for a damaged one.
static inline bool xevent_read_plain(const uint8_t *at, const uint8_t *stop, const uint8_t *end, struct xevent *e)
{
    int64_t id = 0, offset = 0, duration = 0;
    if (!(at = xevent_number(at, end, 1, &id)) || !(at = xevent_number(at, end, 2, &offset)) ||
        !(at = xevent_number(at, end, 3, &duration)) || at > stop)
        return false;
    const uint8_t *stats = at;
    while (stop - at >= 2 && at[0] == (4 << 3 | PB_BYTES) && at[1] < 0x80)
        at += 2 + at[1];
    if (at != stop)
        return false;
    *e = (struct xevent){
        .metadata_id = id, .offset_ps = offset, .duration_ps = duration, .stats = {stats, (size_t)(stop - stats)}};
    return true;
}

// The next event of the line; false at the end.
static inline bool xevent_next(struct xevents *w, struct xevent *e)
{
    struct pb_field f;
    for (;;) {
        const uint8_t *at = w->body.at, *end = w->body.end;
        if (end - at >= 2 && at[0] == (4 << 3 | PB_BYTES) && at[1] < 0x80 && end - at - 2 >= at[1]) {
            f.body = (struct slice){at + 2, at[1]};
            w->body.at = at + 2 + at[1];
            break;
        }
        if (!pb_next(&w->body, &f)) {
            w->line->n_events = w->n;
            w->line->walked = true;
            return false;
        }
        if (pb_is(&f, 4, PB_BYTES))
            break;
        xline_tail(w->line, &f);
    }
    struct pb_reader r = pb_reader(f.body.data, f.body.size);
    w->n++;
    if (xevent_read_plain(r.at, r.end, w->body.end, e))
        return true;
    *e = (struct xevent){.stats = {r.end, 0}};
    while (r.at < r.end) {
        const uint8_t *begin = r.at, *next = xevent_field(begin, r.end, e);
        if (next)
            r.at = next;
        else if (!pb_next(&r, &f))
            break;
        else if (pb_is(&f, 1, PB_VARINT))
            e->metadata_id = (int64_t)f.value;
        else if (pb_is(&f, 2, PB_VARINT))
            e->offset_ps = (int64_t)f.value;
        else if (pb_is(&f, 3, PB_VARINT))
            e->duration_ps = (int64_t)f.value;
        else if (pb_is(&f, 5, PB_VARINT))
            e->occurrences = (int64_t)f.value;
        else if (pb_is(&f, 4, PB_BYTES) && !e->stats.size)
            e->stats = (struct slice){begin, (size_t)(r.end - begin)};
    }
    if (r.damage && !w->damage) {
        w->damage = r.damage;
        w->damaged = r.damaged;
    }
    return true;
}

enum xstat_kind { XSTAT_NONE, XSTAT_DOUBLE, XSTAT_UINT, XSTAT_INT, XSTAT_TEXT, XSTAT_BYTES };

struct xstat {
    int64_t metadata_id;
    enum xstat_kind kind;
    union {
        double number;
        uint64_t unsigned_number;
        int64_t integer;
        struct slice bytes; // XSTAT_TEXT, XSTAT_BYTES
    };
};

// Adds one damage to another.
void xdamage_add(struct xdamage *d, const struct xdamage *more);
// Adds to `d` what a walk has found damaged, unless another one that went to the end of the line has told it.
void xevents_damage(const struct xspace *space, const struct xevents *walk, struct xdamage *d);

// One XStat message. A reference (field 7) is the name of a row of the plane's stat_table, and comes out as a text; one
// that leads nowhere is XSTAT_NONE. With several values the last counts.
void xstat_read(struct xstat *s, const struct xplane *plane, struct slice message);

// The statistics of an event, of a row of an event table (its `message`, field 5) and of a plane.
struct xstats {
    struct pb_reader r;
    uint32_t field;
    const struct xplane *plane;
};
static inline struct xstats xevent_stats(const struct xplane *p, const struct xevent *e)
{
    return (struct xstats){.r = pb_reader(e->stats.data, e->stats.size), .field = 4, .plane = p};
}
static inline struct xstats xmeta_stats(const struct xplane *p, const struct xmeta *m)
{
    return (struct xstats){.r = pb_reader(m->message.data, m->message.size), .field = 5, .plane = p};
}
bool xstat_next(struct xstats *w, struct xstat *s);

#endif
