// SPDX-License-Identifier: Apache-2.0
#include "trace/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/idmap.h"

void tally_ids(struct tally_ids *ids, const struct xplane *p, const char *stat)
{
    const struct {
        const char *name;
        int64_t *id;
    } wanted[] = {{"hlo_op", &ids->hlo_op},
                  {"program_id", &ids->program},
                  {"device_offset_ps", &ids->device_offset},
                  {"device_duration_ps", &ids->device_duration},
                  {"flops", &ids->flop},
                  {"bytes_accessed", &ids->bytes}};
    memset(ids, 0, sizeof *ids);
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
            if (slice_is(p->stat_table.rows[i].name, wanted[k].name))
                *wanted[k].id = p->stat_table.rows[i].id;
        }
        if (stat && slice_is(p->stat_table.rows[i].name, stat))
            ids->value = p->stat_table.rows[i].id;
    }
}

// ---- Entries, found by a hash that nobody outside can foresee

static uint64_t hash(const struct tally *t, const struct tally_key *k)
{
    uint64_t h = mix64(mix64(mix64(t->secret ^ (uint64_t)k->metadata_id) ^ k->hlo) ^ k->program);
    return k->value ? mix64(h ^ k->value) : h; // the innermost loop, mostly without
}

static bool same(const struct tally_key *a, const struct tally_key *b)
{
    return a->metadata_id == b->metadata_id && a->hlo == b->hlo && a->program == b->program && a->value == b->value;
}

static int grow(struct tally *t, struct error *err)
{
    size_t n_slots = t->n_slots ? 2 * t->n_slots : 256, cap = n_slots / 2;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    struct tally_entry *entries = slots ? realloc(t->entries, cap * sizeof *entries) : NULL;
    if (!entries) {
        free(slots);
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu operations", cap);
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    t->entries = entries;
    t->cap = cap;
    for (size_t i = 0; i < t->n; i++) {
        size_t at = hash(t, &entries[i].key) & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)i + 1;
    }
    return 0;
}

static int find(struct tally *t, const struct tally_key *key, const struct xevent *e, uint32_t *out, struct error *err)
{
    if (t->n == t->cap) {
        int rc = t->n < UINT32_MAX / 4 ? grow(t, err) : error_set(err, ERR_MEMORY, NULL, "too many operations");
        if (rc)
            return rc;
    }
    size_t at = hash(t, key) & (t->n_slots - 1);
    for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
        if (same(&t->entries[t->slots[at] - 1].key, key)) {
            *out = t->slots[at] - 1;
            return 0;
        }
    }
    *out = (uint32_t)t->n;
    t->entries[t->n++] = (struct tally_entry){.key = *key, .first = *e};
    t->slots[at] = (uint32_t)t->n;
    return 0;
}

// ---- Events

struct seen {
    int64_t start_ps, end_ps;
    uint32_t entry;
};

// Events of a device's own clock come a little out of order: so many are looked at before the first of them is placed.
// A line that needs more is sorted as a whole.
#define WINDOW 64

struct walk {
    struct tally *t;
    const struct trace_device *device;
    const struct tally_ids *ids;
    struct xevents events;
    int64_t base_ps; // the line's timestamp from the origin
    struct nest nest;
    struct seen window[WINDOW]; // a ring, in order
    size_t first, n_window;
    struct seen *kept; // all events, when the line is not in order
    size_t n_kept, cap_kept;
};

static void closed(void *context, uint32_t entry, int64_t self_ps, int64_t total_ps)
{
    struct tally_entry *e = &((struct tally *)context)->entries[entry];
    e->occurrences++;
    e->self_ps = add_saturated(e->self_ps, self_ps);
    e->self_squares += (double)self_ps * (double)self_ps;
    e->total_ps = add_saturated(e->total_ps, total_ps);
}

// FNV-1a; texts are only hashed where a writer did not refer to its table.
static uint64_t text_hash(const struct tally *t, struct slice s)
{
    uint64_t h = t->secret ^ 0xcbf29ce484222325;
    for (size_t i = 0; i < s.size; i++)
        h = (h ^ s.data[i]) * 0x100000001b3;
    return h | 1;
}

struct facts {
    struct tally_key key;
    int64_t start_ps, duration_ps;
    double flop, bytes;
    bool has_cost, on_device;
};

static uint64_t value_hash(const struct tally *t, const struct pb_field *v)
{
    return v->wire == PB_BYTES ? text_hash(t, v->body) : mix64(t->secret ^ v->value ^ (uint64_t)v->number << 60) | 1;
}

// The values of the statistics that matter, read here and not through xstat_read: this is the innermost loop.
static void read_stats(const struct walk *w, const struct xevent *e, struct facts *f)
{
    const struct tally_ids *ids = w->ids;
    struct pb_reader stats = pb_reader(e->stats.data, e->stats.size);
    struct pb_field s;
    int64_t device_start = 0, device_duration = 0;
    int device = 0;
    while (pb_next(&stats, &s)) {
        if (!pb_is(&s, 4, PB_BYTES))
            continue;
        struct pb_reader r = pb_reader(s.body.data, s.body.size);
        struct pb_field id, v;
        if (!pb_next(&r, &id) || !pb_is(&id, 1, PB_VARINT) || !pb_next(&r, &v))
            continue;
        int64_t which = (int64_t)id.value;
        bool number = v.wire == PB_VARINT && (v.number == 3 || v.number == 4);
        if (which == 0)
            continue;
        if (which == ids->value)
            f->key.value = value_hash(w->t, &v);
        if (which == ids->device_offset && number) {
            device_start = (int64_t)v.value;
            device |= 1;
        } else if (which == ids->device_duration && number) {
            device_duration = (int64_t)v.value;
            device |= 2;
        } else if (which == ids->hlo_op && w->device->kind != TRACE_TPU) {
            if (pb_is(&v, 7, PB_VARINT))
                f->key.hlo = v.value;
            else if (pb_is(&v, 5, PB_BYTES))
                f->key.hlo = text_hash(w->t, v.body);
        } else if (which == ids->program && number) {
            f->key.program = v.value;
        } else if ((which == ids->flop || which == ids->bytes) && number) {
            *(which == ids->flop ? &f->flop : &f->bytes) = (double)(int64_t)v.value;
            f->has_cost = true;
        }
    }
    // An event without a length has no device_duration: zero is what writers leave out.
    if (device & 1) {
        f->on_device = true;
        f->start_ps = device_start;
        f->duration_ps = device & 2 ? device_duration : 0;
    }
}

static int by_start(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    if (x->start_ps != y->start_ps)
        return x->start_ps < y->start_ps ? -1 : 1;
    return (x->end_ps < y->end_ps) - (x->end_ps > y->end_ps);
}

static int place(struct walk *w, const struct seen *s, struct error *err)
{
    int rc = 0;
    if (!nest_add(&w->nest, s->start_ps, s->end_ps, s->entry, &rc, err))
        w->t->sorted = false;
    return rc;
}

static struct seen *in_window(struct walk *w, size_t i)
{
    return &w->window[(w->first + i) % WINDOW];
}

// Places the first event of the window when that is full.
static int through_window(struct walk *w, struct seen s, struct error *err)
{
    int rc = 0;
    if (w->n_window == WINDOW) {
        rc = place(w, in_window(w, 0), err);
        w->first++;
        w->n_window--;
    }
    size_t at = w->n_window++;
    for (; at > 0 && by_start(&s, in_window(w, at - 1)) < 0; at--)
        *in_window(w, at) = *in_window(w, at - 1);
    *in_window(w, at) = s;
    return rc;
}

static int empty_window(struct walk *w, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < w->n_window && !rc && w->t->sorted; i++)
        rc = place(w, in_window(w, i), err);
    w->n_window = 0;
    return rc;
}

static int keep(struct walk *w, struct seen s, struct error *err)
{
    if (w->n_kept == w->cap_kept) {
        size_t cap = w->cap_kept ? 2 * w->cap_kept : 1024;
        struct seen *more = realloc(w->kept, cap * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory to sort a line of more than %zu events", w->n_kept);
        w->kept = more;
        w->cap_kept = cap;
    }
    w->kept[w->n_kept++] = s;
    return 0;
}

static int add_event(struct walk *w, const struct xevent *e, struct error *err)
{
    struct tally *t = w->t;
    struct facts f = {.key = {.metadata_id = e->metadata_id}, .duration_ps = e->duration_ps};
    if (__builtin_add_overflow(w->base_ps, e->offset_ps, &f.start_ps))
        f.start_ps = INT64_MAX;
    read_stats(w, e, &f);
    if (f.start_ps < -TALLY_RANGE_PS || f.start_ps > TALLY_RANGE_PS || f.duration_ps < 0 ||
        f.duration_ps > TALLY_RANGE_PS - f.start_ps) {
        t->out_of_range++;
        return 0;
    }
    int64_t end_ps = f.start_ps + f.duration_ps;
    uint32_t entry = 0;
    int rc = find(t, &f.key, e, &entry, err);
    if (rc)
        return rc;
    if (f.has_cost) {
        t->entries[entry].has_cost = true;
        t->entries[entry].flop += f.flop;
        t->entries[entry].bytes += f.bytes;
    }
    t->first_ps = !t->events || f.start_ps < t->first_ps ? f.start_ps : t->first_ps;
    t->last_ps = !t->events || end_ps > t->last_ps ? end_ps : t->last_ps;
    t->device_clock |= f.on_device;
    t->events++;
    struct seen s = {f.start_ps, end_ps, entry};
    return t->sorted ? through_window(w, s, err) : keep(w, s, err);
}

static int nest_kept(struct walk *w, struct error *err)
{
    int rc = 0;
    qsort(w->kept, w->n_kept, sizeof *w->kept, by_start);
    for (size_t i = 0; i < w->n_kept && !rc; i++)
        nest_add(&w->nest, w->kept[i].start_ps, w->kept[i].end_ps, w->kept[i].entry, &rc, err);
    return rc;
}

static void forget(struct tally *t, bool sorted)
{
    uint64_t secret = t->secret;
    tally_release(t);
    t->secret = secret;
    t->sorted = sorted;
}

static int walk_events(struct walk *w, struct xline *l, struct error *err)
{
    struct xevent e;
    int rc = 0;
    bool sorted = w->t->sorted;
    w->events = xline_events(l);
    while (!rc && w->t->sorted == sorted && xevent_next(&w->events, &e)) {
        if (!e.occurrences) // an aggregate has no place in time
            rc = add_event(w, &e, err);
    }
    return rc;
}

int tally_line(struct tally *t, const struct trace_device *d, struct xline *l, const struct tally_ids *ids,
               int64_t origin_ns, struct xdamage *damage, struct error *err)
{
    memset(t, 0, sizeof *t);
    t->secret = process_secret();
    t->sorted = true;
    struct walk w = {.t = t, .device = d, .ids = ids};
    if (__builtin_sub_overflow(l->timestamp_ns, origin_ns, &w.base_ps) ||
        __builtin_mul_overflow(w.base_ps, (int64_t)1000, &w.base_ps))
        w.base_ps = INT64_MAX; // then only events on the device's own clock can be placed
    nest_init(&w.nest, closed, t);
    int rc = walk_events(&w, l, err);
    if (!rc)
        rc = empty_window(&w, err);
    if (!rc && !t->sorted) { // once more, keeping all
        nest_release(&w.nest);
        forget(t, false);
        nest_init(&w.nest, closed, t);
        rc = walk_events(&w, l, err);
        if (!rc)
            rc = nest_kept(&w, err);
    }
    xevents_damage(&d->file->space, &w.events, damage);
    nest_finish(&w.nest);
    t->union_ps = w.nest.union_ps;
    t->overlaps = w.nest.overlaps;
    nest_release(&w.nest);
    free(w.kept);
    return rc;
}

void tally_release(struct tally *t)
{
    free(t->entries);
    free(t->slots);
    memset(t, 0, sizeof *t);
}
