// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "trace/chrome_work.h"

#define RANGE_PS  ((int64_t)1 << 62) // times are within this of the base
#define NEAR_PS   ((int64_t)1 << 61) // and where they are within this of 0, that is the base
#define MOST_ARGS ((size_t)1 << 31)  // bytes of one event's statistics

static const uint8_t *skip_mark(const uint8_t *at, const uint8_t *end)
{
    return end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0 ? at + 3 : at;
}

bool chrome_recognise(const void *bytes, size_t size)
{
    const uint8_t *at = (const uint8_t *)bytes, *end = size ? at + size : at;
    struct json_scan s = json_scan(skip_mark(at, end), (size_t)(end - skip_mark(at, end)));
    if (scan_ended(&s) || (*s.at != '{' && *s.at != '['))
        return false;
    // A line break also begins a plane of an XSpace, and the bracket may be its length: then no key follows.
    bool object = *s.at++ == '{';
    if (scan_ended(&s))
        return true;
    return object ? *s.at == '"' || *s.at == '}' : *s.at == '{' || *s.at == ']';
}

// ---- One event

struct raw {
    struct scan_value ph, id, ts, bp, cat, pid, tid, dur, id2, name, args, scope, bind_id, flow_in, flow_out;
    const uint8_t *at;
};

// In the order of their lengths.
static const struct field {
    const char *key;
    size_t size, offset;
} fields[] = {
#define FIELD(name)                                                                                                    \
    {                                                                                                                  \
#name, sizeof #name - 1, offsetof(struct raw, name)                                                            \
    }
    FIELD(ph),  FIELD(id),   FIELD(ts),   FIELD(bp),    FIELD(cat),     FIELD(pid),     FIELD(tid),      FIELD(dur),
    FIELD(id2), FIELD(name), FIELD(args), FIELD(scope), FIELD(bind_id), FIELD(flow_in), FIELD(flow_out),
#undef FIELD
};

static bool read_raw(struct json_scan *s, struct raw *raw, bool *any)
{
    struct scan_value key, v;
    *any = false;
    for (bool first = true; scan_member(s, &key, first); first = false) {
        if (!scan_whole(s, &v))
            return false;
        *any = true;
        for (size_t i = 0; i < sizeof fields / sizeof *fields && fields[i].size <= key.text.size; i++) {
            if (fields[i].size == key.text.size && memcmp(fields[i].key, key.text.data, fields[i].size) == 0) {
                memcpy((char *)raw + fields[i].offset, &v, sizeof v);
                break;
            }
        }
    }
    return !s->damage;
}

static bool is_set(const struct scan_value *v)
{
    return v->kind != SCAN_NONE && v->kind != SCAN_NULL;
}

static struct slice text_of(struct chrome_work *w, const struct scan_value *v, int scratch, const char *where)
{
    return is_set(v) ? chrome_text(w, v, scratch, where) : (struct slice){(const uint8_t *)"", 0};
}

// Microseconds, also as a text.
static bool picoseconds(const struct scan_value *v, __int128 *ps)
{
    return (v->kind == SCAN_NUMBER || v->kind == SCAN_TEXT) && scan_decimal(v->text, 6, ps);
}

static bool place(struct chrome_work *w, const struct raw *raw, int64_t *ps)
{
    __int128 at;
    if (!picoseconds(&raw->ts, &at)) {
        chrome_damage(w, "traceEvents.ts", is_set(&raw->ts) ? "is no time" : "is missing", raw->at);
        return false;
    }
    if (!w->based) {
        w->based = true;
        if (at > NEAR_PS || at < -NEAR_PS)
            w->base_ps = at - at % 1000000;
    }
    at -= w->base_ps;
    if (at >= RANGE_PS || at <= -RANGE_PS) {
        chrome_damage(w, "traceEvents.ts", "is more than 53 days from the first event", raw->ts.text.data);
        return false;
    }
    *ps = (int64_t)at;
    return true;
}

static int thread_of(struct chrome_work *w, const struct raw *raw, uint32_t plane, uint32_t *line, struct error *err)
{
    struct slice tid = text_of(w, &raw->tid, SCRATCH_OTHER, "traceEvents.tid");
    return chrome_thread(w, plane, tid.size ? tid : (struct slice){(const uint8_t *)"0", 1}, line, err);
}

static int plane_of(struct chrome_work *w, const struct raw *raw, uint32_t *plane, struct error *err)
{
    struct slice pid = text_of(w, &raw->pid, SCRATCH_OTHER, "traceEvents.pid");
    return chrome_plane(w, pid.size ? pid : (struct slice){(const uint8_t *)"0", 1}, plane, err);
}

static int push(struct chrome_work *w, const struct chrome_event *e, struct error *err)
{
    if (!chrome_grow((void **)&w->events, &w->cap_events, w->n_events, sizeof *w->events, err))
        return ERR_MEMORY;
    int64_t end = e->kind == CHROME_WHOLE ? e->start_ps + (e->duration_ps > 0 ? e->duration_ps : 0) : e->start_ps;
    w->least_ps = e->start_ps < w->least_ps ? e->start_ps : w->least_ps;
    w->last_ps = end > w->last_ps ? end : w->last_ps;
    w->lines[e->line].spans |= e->kind != CHROME_WHOLE;
    w->events[w->n_events++] = *e;
    return 0;
}

// The arguments, category and name of an event. Statistics go behind those of all others.
static int describe(struct chrome_work *w, const struct raw *raw, uint32_t plane, struct chrome_event *e,
                    struct error *err)
{
    struct chrome_wanted wanted[] = {{.key = "long_name"}};
    size_t before = w->stats.length;
    int rc = chrome_args(w, plane, 4, &raw->args, wanted, 1, &e->joined, err);
    struct slice name = text_of(w, &raw->name, SCRATCH_NAME, "traceEvents.name"), none = {NULL, 0};
    e->row = CHROME_NONE;
    if (!rc && (name.size || e->kind != CHROME_END)) {
        bool both = wanted[0].value.kind == SCAN_TEXT && name.size;
        rc = both ? chrome_operation(w, plane,
                                     chrome_text(w, &wanted[0].value, SCRATCH_OTHER, "traceEvents.args.long_name"),
                                     name, before, &e->row, err)
                  : chrome_row(w, plane, 0, name, none, &e->row, err);
    }
    struct slice category = text_of(w, &raw->cat, SCRATCH_OTHER, "traceEvents.cat");
    if (!rc && category.size && e->kind != CHROME_END)
        rc = chrome_stat_text(w, plane, "cat", category, err);
    e->stats = before;
    if (w->stats.length - before > MOST_ARGS) {
        chrome_damage(w, "traceEvents.args", "are more than 2 GiB", raw->at);
        w->stats.length = before;
    }
    e->n_stats = (uint32_t)(w->stats.length - before);
    return rc;
}

// ---- Kinds of events

static uint64_t flow_value(bool in, bool out, uint64_t id)
{
    return (unsigned)in | (unsigned)out << 1 | id << 2; // as XLA has it: two bits of direction, 56 of the id
}

static int add_bound_flow(struct chrome_work *w, const struct raw *raw, uint32_t plane, struct chrome_event *e,
                          struct error *err)
{
    bool in = raw->flow_in.kind == SCAN_TRUE, out = raw->flow_out.kind == SCAN_TRUE;
    struct slice id = text_of(w, &raw->bind_id, SCRATCH_ID, "traceEvents.bind_id");
    uint64_t number;
    if (!id.size || (!in && !out) || e->joined)
        return 0;
    int rc = chrome_flow_id(w, (struct slice){NULL, 0}, id, &number, err);
    size_t before = w->stats.length;
    if (!rc)
        rc = chrome_stat_number(w, plane, "flow", flow_value(in, out, number), err);
    e->n_stats += (uint32_t)(w->stats.length - before);
    e->joined = true;
    return rc;
}

static int add_event(struct chrome_work *w, const struct raw *raw, enum chrome_kind kind, struct error *err)
{
    struct chrome_event e = {.kind = (uint8_t)kind, .end = CHROME_NONE, .duration_ps = raw->at - w->file.data};
    uint32_t plane;
    __int128 duration = 0;
    if (!place(w, raw, &e.start_ps))
        return 0;
    if (kind == CHROME_WHOLE) {
        bool timed = raw->ph.text.data[0] == 'X' && is_set(&raw->dur);
        if (timed && (!picoseconds(&raw->dur, &duration) || duration < 0 || duration > RANGE_PS)) {
            chrome_damage(w, "traceEvents.dur", "is no length of time", raw->dur.text.data);
            return 0;
        }
        e.duration_ps = (int64_t)duration;
    }
    int rc = plane_of(w, raw, &plane, err);
    if (!rc)
        rc = thread_of(w, raw, plane, &e.line, err);
    if (!rc && w->lines[e.line].hidden)
        return 0;
    if (!rc)
        rc = describe(w, raw, plane, &e, err);
    if (!rc)
        rc = add_bound_flow(w, raw, plane, &e, err);
    return rc ? rc : push(w, &e, err);
}

// id, or one of the two in id2.
static struct slice id_of(struct chrome_work *w, const struct raw *raw)
{
    struct json_scan s = json_scan(raw->id2.text.data, raw->id2.text.size);
    struct scan_value key, v;
    if (raw->id2.kind == SCAN_OBJECT && scan_value(&s, &v)) {
        for (bool first = true; scan_member(&s, &key, first) && scan_whole(&s, &v); first = false) {
            if (scan_is(&key, "local") || scan_is(&key, "global"))
                return text_of(w, &v, SCRATCH_ID, "traceEvents.id2");
        }
    }
    return text_of(w, &raw->id, SCRATCH_ID, "traceEvents.id");
}

// `by_name`: events of the older kind, whose ids count for each name anew.
static int add_async(struct chrome_work *w, const struct raw *raw, enum chrome_kind kind, bool by_name,
                     struct error *err)
{
    struct chrome_event e = {.kind = (uint8_t)kind, .end = CHROME_NONE};
    uint32_t plane;
    if (!place(w, raw, &e.start_ps))
        return 0;
    e.duration_ps = kind == CHROME_WHOLE ? 0 : raw->at - w->file.data;
    int rc = plane_of(w, raw, &plane, err);
    if (!rc)
        rc = describe(w, raw, plane, &e, err);
    if (rc)
        return rc;
    struct slice category = text_of(w, &raw->cat, SCRATCH_OTHER, "traceEvents.cat"), id = id_of(w, raw);
    size_t before = w->stats.length;
    if (id.size && kind != CHROME_END)
        rc = chrome_stat_text(w, plane, "id", id, err);
    e.n_stats += (uint32_t)(w->stats.length - before);
    if (by_name) {
        struct str *both = &w->scratch[SCRATCH_WHOLE];
        struct slice name = text_of(w, &raw->name, SCRATCH_NAME, "traceEvents.name");
        str_clear(both);
        str_add_n(both, name.data, name.size);
        str_add_char(both, '\0');
        str_add_n(both, id.data, id.size);
        rc = rc ? rc : str_check(both, err);
        id = (struct slice){(const uint8_t *)str_text(both), both->length};
    }
    if (!rc)
        rc = chrome_async(w, plane, category, id, &e.line, err);
    return rc ? rc : push(w, &e, err);
}

// The last ": " in it, SIZE_MAX when there is none.
static size_t last_colon(struct slice s)
{
    for (size_t i = s.size; i-- > 1;) {
        if (s.data[i - 1] == ':' && s.data[i] == ' ')
            return i - 1;
    }
    return SIZE_MAX;
}

static int add_counter(struct chrome_work *w, const struct raw *raw, struct error *err)
{
    struct chrome_wanted wanted[] = {{.key = "value"}};
    struct chrome_event e = {.kind = CHROME_WHOLE, .end = CHROME_NONE, .stats = w->stats.length};
    struct slice name, id, none = {NULL, 0}, stat = {(const uint8_t *)"value", 5};
    uint32_t plane;
    if (!place(w, raw, &e.start_ps))
        return 0;
    int rc = plane_of(w, raw, &plane, err);
    if (!rc)
        rc = chrome_counters(w, plane, &e.line, err);
    if (!rc)
        rc = chrome_args(w, plane, 4, &raw->args, wanted, 1, &e.joined, err);
    if (rc)
        return rc;
    name = text_of(w, &raw->name, SCRATCH_NAME, "traceEvents.name");
    id = id_of(w, raw);
    if (id.size) {
        struct str *both = &w->scratch[SCRATCH_WHOLE];
        str_clear(both);
        str_add_n(both, name.data, name.size);
        str_addf(both, "[%.*s]", id.size < 4096 ? (int)id.size : 4096, (const char *)id.data);
        name = (struct slice){(const uint8_t *)str_text(both), both->length};
    }
    // A profile's counter has a name and a statistic, which its converters write as "NAME: STATISTIC".
    size_t colon = w->stats.length == e.stats ? last_colon(name) : SIZE_MAX;
    if (is_set(&wanted[0].value) && colon != SIZE_MAX && colon + 2 < name.size) {
        stat = (struct slice){name.data + colon + 2, name.size - colon - 2};
        name.size = colon;
    }
    rc = chrome_row(w, plane, 0, name, none, &e.row, err);
    if (!rc && is_set(&wanted[0].value))
        rc = chrome_stat(w, plane, 4, stat, &wanted[0].value, &e.joined, err);
    e.n_stats = (uint32_t)(w->stats.length - e.stats);
    return rc ? rc : push(w, &e, err);
}

static int add_flow(struct chrome_work *w, const struct raw *raw, char ph, struct error *err)
{
    struct chrome_flow f = {.next = ph == 'f' && !scan_is(&raw->bp, "e")};
    uint32_t plane;
    uint64_t number = 0;
    if (!place(w, raw, &f.ps))
        return 0;
    int rc = plane_of(w, raw, &plane, err);
    if (!rc)
        rc = thread_of(w, raw, plane, &f.line, err);
    if (!rc)
        rc = chrome_flow_id(w, text_of(w, &raw->cat, SCRATCH_OTHER, "traceEvents.cat"), id_of(w, raw), &number, err);
    if (!rc && !chrome_grow((void **)&w->flows, &w->cap_flows, w->n_flows, sizeof *w->flows, err))
        rc = ERR_MEMORY;
    if (rc)
        return rc;
    f.value = flow_value(ph != 's', ph != 'f', number);
    w->flows[w->n_flows++] = f;
    return 0;
}

static void take_integer(const struct scan_value *v, int64_t *out)
{
    bool negative;
    uint64_t magnitude;
    if ((v->kind == SCAN_NUMBER || v->kind == SCAN_TEXT) && scan_integer(v->text, &negative, &magnitude) &&
        magnitude <= INT64_MAX)
        *out = negative ? -(int64_t)magnitude : (int64_t)magnitude;
}

static int take_name(struct chrome_work *w, const struct scan_value *v, struct slice *name, struct error *err)
{
    if (v->kind != SCAN_TEXT)
        return 0;
    *name = chrome_text(w, v, SCRATCH_NAME, "traceEvents.args.name");
    return chrome_keep(w, name, err);
}

// What a process is called. Whatever else is said of it are statistics of the plane.
static int name_process(struct chrome_work *w, const struct raw *raw, struct error *err)
{
    struct chrome_wanted wanted[] = {
        {.key = "name"}, {.key = "plane_id"}, {.key = "sort_index"}, {.key = "profile_start_time"}, {.key = "host"}};
    uint32_t plane;
    bool joined = false;
    int rc = plane_of(w, raw, &plane, err);
    size_t before = w->stats.length;
    if (!rc)
        rc = chrome_args(w, plane, 6, &raw->args, wanted, 5, &joined, err);
    if (rc)
        return rc;
    struct chrome_plane *p = &w->planes[plane];
    if (w->stats.length > before && w->stats.length - before <= MOST_ARGS) {
        p->stats = before;
        p->n_stats = (uint32_t)(w->stats.length - before);
    }
    take_integer(&wanted[1].value, &p->id);
    take_integer(&wanted[2].value, &p->order);
    take_integer(&wanted[3].value, &w->captured_ns);
    rc = take_name(w, &wanted[4].value, &w->host, err);
    if (rc)
        return rc;
    return take_name(w, &wanted[0].value, &p->name, err);
}

static int name_thread(struct chrome_work *w, const struct raw *raw, struct error *err)
{
    struct chrome_wanted wanted[] = {
        {.key = "name"}, {.key = "line"}, {.key = "line_id"}, {.key = "derived"}, {.key = "sort_index"}};
    uint32_t plane, line;
    bool joined = false;
    size_t before = w->stats.length;
    int rc = plane_of(w, raw, &plane, err);
    if (!rc)
        rc = thread_of(w, raw, plane, &line, err);
    if (!rc)
        rc = chrome_args(w, plane, 4, &raw->args, wanted, 5, &joined, err);
    w->stats.length = before; // a line has no statistics
    if (rc)
        return rc;
    struct chrome_line *l = &w->lines[line];
    take_integer(&wanted[2].value, &l->id);
    take_integer(&wanted[4].value, &l->order);
    l->hidden |= wanted[3].value.kind == SCAN_TRUE;
    rc = take_name(w, is_set(&wanted[1].value) ? &wanted[1].value : &wanted[0].value, &l->name, err);
    return rc || !is_set(&wanted[2].value) ? rc : chrome_track(w, line, l->name, wanted[2].value.text, err);
}

static int add_metadata(struct chrome_work *w, const struct raw *raw, struct error *err)
{
    if (scan_is(&raw->name, "process_name") || scan_is(&raw->name, "process_sort_index") ||
        scan_is(&raw->name, "process_labels"))
        return name_process(w, raw, err);
    if (scan_is(&raw->name, "thread_name") || scan_is(&raw->name, "thread_sort_index"))
        return name_thread(w, raw, err);
    w->out->left_out++;
    return 0;
}

static int add(struct chrome_work *w, const struct raw *raw, struct error *err)
{
    if (raw->ph.kind != SCAN_TEXT || raw->ph.text.size != 1) {
        chrome_damage(w, "traceEvents.ph", is_set(&raw->ph) ? "is no kind of event" : "is missing", raw->at);
        return 0;
    }
    char ph = (char)raw->ph.text.data[0];
    switch (ph) {
    case 'X':
    case 'i':
    case 'I':
    case 'R':
    case 'P':
        return add_event(w, raw, CHROME_WHOLE, err);
    case 'B':
        return add_event(w, raw, CHROME_BEGIN, err);
    case 'E':
        return add_event(w, raw, CHROME_END, err);
    case 'b':
    case 'S':
        return add_async(w, raw, CHROME_BEGIN, ph == 'S', err);
    case 'e':
    case 'F':
        return add_async(w, raw, CHROME_END, ph == 'F', err);
    case 'n':
    case 'T':
    case 'p':
        return add_async(w, raw, CHROME_WHOLE, ph != 'n', err);
    case 'C':
        return add_counter(w, raw, err);
    case 's':
    case 't':
    case 'f':
        return add_flow(w, raw, ph, err);
    case 'M':
        return add_metadata(w, raw, err);
    default:
        w->out->left_out++;
        return 0;
    }
}

// ---- The file

// Whether the list may end here: that of the form without an object around it needs no closing bracket.
static bool open_end(const struct json_scan *s)
{
    struct json_scan rest = *s;
    if (!scan_ended(&rest) && *rest.at == ',')
        rest.at++;
    return scan_ended(&rest);
}

static int read_events(struct chrome_work *w, struct json_scan *s, bool bare, struct error *err)
{
    int rc = 0;
    size_t n = 0;
    for (bool first = true; !rc; first = false, n++) {
        if (bare && open_end(s)) {
            s->at = s->end;
            break;
        }
        if (!scan_element(s, first))
            break;
        struct raw raw = {.at = s->at};
        struct scan_value v;
        bool any;
        if (!scan_value(s, &v))
            break;
        if (v.kind != SCAN_OBJECT) {
            chrome_damage(w, "traceEvents", "an event is no object", v.text.data);
            if (v.kind == SCAN_ARRAY) {
                s->at--;
                (void)scan_whole(s, &v);
            }
            continue;
        }
        raw.at = v.text.data;
        if (!read_raw(s, &raw, &any))
            break;
        if (any)
            rc = add(w, &raw, err);
        if (!rc && n % 65536 == 65535)
            rc = interrupt_check("reading a trace", err);
    }
    return rc;
}

static int read_object(struct chrome_work *w, struct json_scan *s, bool *found, struct error *err)
{
    struct scan_value key, v;
    int rc = 0;
    for (bool first = true; !rc && scan_member(s, &key, first); first = false) {
        if (!scan_is(&key, "traceEvents")) {
            if (!scan_whole(s, &v))
                break;
            if (scan_is(&key, "baseTimeNanoseconds")) // PyTorch's
                take_integer(&v, &w->captured_ns);
            continue;
        }
        if (!scan_value(s, &v))
            break;
        if (v.kind != SCAN_ARRAY)
            return error_set(err, ERR_INPUT, w->name, "is no trace: its traceEvents are no list");
        *found = true;
        rc = read_events(w, s, false, err);
    }
    return rc;
}

static int read_file(struct chrome_work *w, struct error *err)
{
    const uint8_t *end = w->file.size ? w->file.data + w->file.size : w->file.data;
    const uint8_t *begin = skip_mark(w->file.data, end);
    struct json_scan s = json_scan(begin, (size_t)(end - begin));
    struct scan_value v;
    bool found = true;
    int rc = 0;
    if (scan_value(&s, &v)) {
        found = v.kind == SCAN_ARRAY;
        if (v.kind == SCAN_OBJECT)
            rc = read_object(w, &s, &found, err);
        else if (found)
            rc = read_events(w, &s, true, err);
    }
    if (!rc && !s.damage && !scan_ended(&s)) {
        s.damage = "something follows the end of the JSON";
        s.damaged = s.at;
    }
    if (s.damage) {
        w->cut = true;
        chrome_damage(w, found ? "traceEvents" : "the file", s.damage, s.damaged);
    }
    if (!rc && !found && !s.damage)
        rc = error_set(err, ERR_INPUT, w->name, "is JSON, but no trace of Chrome's: it has no traceEvents");
    return rc;
}

int chrome_read(struct chrome_trace *c, const void *bytes, size_t size, const char *name, struct error *err)
{
    *c = (struct chrome_trace){.work = calloc(1, sizeof *c->work)};
    struct chrome_work *w = c->work;
    if (!w)
        return error_set(err, ERR_MEMORY, name, "no memory to read a trace");
    w->out = c;
    w->name = name;
    w->file = (struct slice){(const uint8_t *)bytes, size};
    arena_init(&w->arena);
    timeline_texts_init(&w->texts);
    str_init(&c->space);
    w->stats.max_bytes = c->space.max_bytes = SIZE_MAX / 4;
    int rc = read_file(w, err);
    if (!rc && w->n_events)
        rc = chrome_write(w, err);
    if (!rc && !c->events) {
        const struct xdamage *d = &c->damage;
        rc = d->what ? error_set(err, ERR_INPUT, name, "holds no event that can be read: at offset %" PRIu64 " (%s) %s",
                                 d->offset, d->where, d->what)
                     : error_set(err, ERR_INPUT, name, "is a trace without events");
    }
    struct str space = c->space;
    if (rc)
        return rc;
    str_init(&c->space);
    chrome_release(c);
    c->space = space;
    return 0;
}

void chrome_release(struct chrome_trace *c)
{
    struct chrome_work *w = c->work;
    if (w) {
        timeline_texts_release(&w->texts);
        arena_release(&w->arena);
        free(w->events);
        free(w->flows);
        free(w->rows);
        free(w->planes);
        free(w->lines);
        free(w->order);
        free(w->stack);
        free(w->arrows);
        str_release(&w->stats);
        for (int i = 0; i < CHROME_SCRATCHES; i++)
            str_release(&w->scratch[i]);
        free(w);
    }
    c->work = NULL;
    str_release(&c->space);
}
