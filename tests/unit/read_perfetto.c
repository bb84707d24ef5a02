// SPDX-License-Identifier: Apache-2.0
#include "read_perfetto.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/pbread.h"

struct texts {
    struct text {
        uint64_t iid;
        struct slice text;
    } * items;
    size_t n;
};

struct sequence {
    uint64_t id;
    bool valid;
    struct texts names, annotations, values;
    uint64_t track, clock, now_ns; // defaults, and the time of its clock
};

struct track {
    uint64_t uuid, parent;
    struct slice name;
    size_t depth;
};

struct slice_at {
    uint64_t track, begin_ns, end_ns;
    size_t depth;
    bool open;
    char *text; // up to the start, and from the arguments on
    char *args;
    bool exact;
    int64_t start_ps, duration_ps;
};

struct reading {
    struct sequence *sequences;
    struct track *tracks;
    struct slice_at *slices;
    size_t n_sequences, n_tracks, n_slices;
    const char *why;
};

static void *grow(void *array, size_t n, size_t size)
{
    void *more = (n & (n - 1)) == 0 ? realloc(array, (n ? 2 * n : 1) * size) : array;
    if (!more)
        abort();
    return more;
}

static bool wrong(struct reading *r, const char *why)
{
    r->why = r->why ? r->why : why;
    return false;
}

static struct pb_reader inside(const struct pb_field *f)
{
    return pb_reader(f->body.data, f->body.size);
}

// The last field of that number.
static bool field(struct slice message, uint32_t number, struct pb_field *out)
{
    struct pb_reader r = pb_reader(message.data, message.size);
    struct pb_field f;
    bool any = false;
    while (pb_next(&r, &f)) {
        if (f.number == number) {
            *out = f;
            any = true;
        }
    }
    return any;
}

static uint64_t value(struct slice message, uint32_t number, uint64_t otherwise)
{
    struct pb_field f;
    return field(message, number, &f) ? f.value : otherwise;
}

static struct slice body(struct slice message, uint32_t number)
{
    struct pb_field f;
    return field(message, number, &f) ? f.body : (struct slice){0};
}

static struct sequence *sequence(struct reading *r, uint64_t id)
{
    for (size_t i = 0; i < r->n_sequences; i++) {
        if (r->sequences[i].id == id)
            return &r->sequences[i];
    }
    r->sequences = grow(r->sequences, r->n_sequences, sizeof *r->sequences);
    r->sequences[r->n_sequences] = (struct sequence){.id = id};
    return &r->sequences[r->n_sequences++];
}

static bool find_text(const struct texts *t, uint64_t iid, struct slice *out)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->items[i].iid == iid) {
            *out = t->items[i].text;
            return true;
        }
    }
    return false;
}

static void intern(struct reading *r, struct sequence *s, struct slice data)
{
    struct pb_reader in = pb_reader(data.data, data.size);
    struct pb_field f;
    while (pb_next(&in, &f)) {
        struct texts *t = f.number == 2 ? &s->names : f.number == 3 ? &s->annotations : &s->values;
        struct text e = {value(f.body, 1, 0), body(f.body, 2)};
        struct slice taken;
        size_t bad;
        if (find_text(t, e.iid, &taken) || !e.iid)
            wrong(r, "a number is given twice");
        if (!utf8_valid((const char *)e.text.data, e.text.size, &bad))
            wrong(r, "a text is not UTF-8");
        t->items = grow(t->items, t->n, sizeof *t->items);
        t->items[t->n++] = e;
    }
}

static struct track *track(struct reading *r, uint64_t uuid)
{
    for (size_t i = 0; i < r->n_tracks; i++) {
        if (r->tracks[i].uuid == uuid)
            return &r->tracks[i];
    }
    return NULL;
}

static void describe(struct reading *r, struct slice d)
{
    struct slice process = body(d, 3);
    r->tracks = grow(r->tracks, r->n_tracks, sizeof *r->tracks);
    r->tracks[r->n_tracks++] = (struct track){
        .uuid = value(d, 1, 0), .parent = value(d, 5, 0), .name = process.size ? body(process, 6) : body(d, 2)};
}

static void set_clock(struct reading *r, struct sequence *s, struct slice snapshot)
{
    struct pb_reader in = pb_reader(snapshot.data, snapshot.size);
    struct pb_field f;
    bool boot = false;
    while (pb_next(&in, &f)) {
        uint64_t id = value(f.body, 1, 0), at = value(f.body, 2, 0);
        boot |= id == 6 && at == 0;
        if (id >= 64 && value(f.body, 3, 0) != 1)
            wrong(r, "the sequence's clock does not count differences");
        if (id >= 64)
            s->now_ns = at;
    }
    if (!boot)
        wrong(r, "the sequence's clock is not tied to the trace's");
}

static void add_args(struct reading *r, const struct sequence *s, struct slice event, struct slice_at *out,
                     struct str *text)
{
    struct pb_reader in = pb_reader(event.data, event.size);
    struct pb_field f, v;
    bool start = false, duration = false;
    while (pb_next(&in, &f)) {
        struct slice name = {0}, of = {0};
        if (f.number != 4)
            continue;
        if (!find_text(&s->annotations, value(f.body, 1, 0), &name))
            wrong(r, "an argument's name is not known");
        struct pb_reader a = inside(&f);
        while (pb_next(&a, &v) && v.number == 1)
            ;
        if (slice_is(name, "start_ps") || slice_is(name, "duration_ps")) {
            *(slice_is(name, "start_ps") ? &out->start_ps : &out->duration_ps) = (int64_t)v.value;
            start |= slice_is(name, "start_ps");
            duration |= slice_is(name, "duration_ps");
            continue;
        }
        str_addf(text, "%s%.*s=", text->length ? "," : "", (int)name.size, (const char *)name.data);
        if (v.number == 3)
            str_addf(text, "%" PRIu64, v.value);
        else if (v.number == 4)
            str_addf(text, "%" PRId64, (int64_t)v.value);
        else if (v.number == 5)
            str_addf(text, "%.17g", pb_double(&v));
        else if (v.number == 6)
            str_add_n(text, v.body.data, v.body.size);
        else if (v.number == 17 && find_text(&s->values, v.value, &of))
            str_add_n(text, of.data, of.size);
        else
            wrong(r, "an argument's value is not known");
    }
    if (start != duration)
        wrong(r, "one of the exact times is missing");
    out->exact = start;
}

static void add_event(struct reading *r, struct sequence *s, struct slice event, uint64_t ns)
{
    struct track *t = track(r, value(event, 11, s->track)), *process = t ? track(r, t->parent) : NULL;
    uint64_t type = value(event, 9, 0);
    struct slice name = {0};
    struct str text, args;
    if (!process) {
        wrong(r, "an event's track is not known");
        return;
    }
    if (type == 2) {
        for (size_t i = r->n_slices; i-- > 0;) {
            struct slice_at *e = &r->slices[i];
            if (e->open && e->track == t->uuid && e->depth == t->depth) {
                e->open = false;
                e->end_ns = ns;
                t->depth--;
                return;
            }
        }
        wrong(r, "nothing ends here");
        return;
    }
    struct slice_at e = {.track = t->uuid, .begin_ns = ns, .end_ns = ns, .open = type == 1};
    str_init(&text);
    str_init(&args);
    if (type == 4) {
        struct pb_field v = {0};
        (void)field(event, 44, &v);
        str_addf(&text, "%.*s|%.*s|%.17g", (int)process->name.size, (const char *)process->name.data, (int)t->name.size,
                 (const char *)t->name.data, pb_double(&v));
    } else {
        if (!find_text(&s->names, value(event, 10, 0), &name))
            wrong(r, "an event's name is not known");
        str_addf(&text, "%.*s|%.*s|%.*s", (int)process->name.size, (const char *)process->name.data, (int)t->name.size,
                 (const char *)t->name.data, (int)name.size, (const char *)name.data);
        add_args(r, s, event, &e, &args);
    }
    e.depth = e.open ? ++t->depth : 0;
    e.text = text.text;
    e.args = args.text;
    r->slices = grow(r->slices, r->n_slices, sizeof *r->slices);
    r->slices[r->n_slices++] = e;
}

static void read_packet(struct reading *r, struct slice p)
{
    struct pb_field f;
    uint64_t flags = value(p, 13, 0);
    struct sequence *s = sequence(r, value(p, 10, 0));
    if (flags & 1)
        *s = (struct sequence){.id = s->id, .valid = true};
    if (flags & 2 && !s->valid)
        wrong(r, "a sequence has no state");
    if (field(p, 59, &f)) {
        s->clock = value(f.body, 58, 6);
        s->track = value(body(f.body, 11), 11, 0);
    }
    if (field(p, 12, &f))
        intern(r, s, f.body);
    if (field(p, 6, &f))
        set_clock(r, s, f.body);
    if (field(p, 60, &f))
        describe(r, f.body);
    if (field(p, 11, &f)) {
        uint64_t time = value(p, 8, 0), clock = value(p, 58, s->clock);
        if (clock >= 64)
            time = s->now_ns += time;
        add_event(r, s, f.body, time);
    }
}

static void release(struct reading *r)
{
    for (size_t i = 0; i < r->n_sequences; i++) {
        free(r->sequences[i].names.items);
        free(r->sequences[i].annotations.items);
        free(r->sequences[i].values.items);
    }
    for (size_t i = 0; i < r->n_slices; i++) {
        free(r->slices[i].text);
        free(r->slices[i].args);
    }
    free(r->sequences);
    free(r->tracks);
    free(r->slices);
}

bool read_perfetto(struct slice file, struct str *lines, const char **why)
{
    struct reading r = {0};
    struct pb_reader in = pb_reader(file.data, file.size);
    struct pb_field f;
    while (pb_next(&in, &f))
        read_packet(&r, f.body);
    if (in.damage)
        wrong(&r, in.damage);
    for (size_t i = 0; i < r.n_slices; i++) {
        struct slice_at *e = &r.slices[i];
        if (e->open)
            wrong(&r, "a slice does not end");
        if (e->exact && (e->start_ps / 1000 != (int64_t)e->begin_ns ||
                         (e->duration_ps && (e->start_ps + e->duration_ps) / 1000 != (int64_t)e->end_ns)))
            wrong(&r, "the exact times are others");
        str_addf(lines, "%s|%" PRId64 "|%" PRId64 "|%s\n", e->text,
                 e->exact ? e->start_ps : (int64_t)e->begin_ns * 1000,
                 e->exact ? e->duration_ps : (int64_t)(e->end_ns - e->begin_ns) * 1000, e->args ? e->args : "");
    }
    *why = r.why;
    release(&r);
    return !*why;
}
