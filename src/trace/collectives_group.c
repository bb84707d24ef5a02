// SPDX-License-Identifier: Apache-2.0
#include "trace/collectives_group.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define MAX_DEVICES 65536

// ---- The device assignment

static int read_row(struct hlo_numbers *all, struct slice row, struct arena *arena, struct error *err)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(row.data, row.size);
    while (pb_next(&r, &f)) {
        const uint8_t *at, *end = hlo_packed(&f, &at);
        uint64_t v = f.wire == PB_VARINT ? f.value : 0;
        bool single = f.wire == PB_VARINT;
        while (f.number == 1 && all->n <= MAX_DEVICES && (single || (at < end && (at = pb_get_varint(at, end, &v))))) {
            int64_t *more = arena_grow(arena, all->at, &all->cap, all->n + 1, sizeof *more, err);
            if (!more)
                return ERR_MEMORY;
            all->at = more;
            more[all->n++] = (int64_t)v;
            single = false;
        }
    }
    return 0;
}

// DeviceAssignmentProto: 1 replicas, 2 partitions, 3 of each partition the devices of its replicas.
static int read_assignment(struct trace_assignment *out, struct slice message, struct arena *arena, struct error *err)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    struct hlo_numbers all = {0};
    int64_t replicas = 0, partitions = 0;
    int rc = 0;
    *out = (struct trace_assignment){0};
    while (!rc && pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_VARINT))
            replicas = (int64_t)f.value;
        else if (pb_is(&f, 2, PB_VARINT))
            partitions = (int64_t)f.value;
        else if (pb_is(&f, 3, PB_BYTES))
            rc = read_row(&all, f.body, arena, err);
    }
    if (!rc && replicas > 0 && partitions > 0 && replicas <= MAX_DEVICES && partitions <= MAX_DEVICES &&
        (uint64_t)(replicas * partitions) == all.n && all.n <= MAX_DEVICES)
        *out = (struct trace_assignment){replicas, partitions, all.at};
    return rc;
}

// ---- What the numbers of an operation mean

enum mode { OF_REPLICAS, OF_PARTITIONS, OF_REPLICAS_WITH_PARTITIONS, OF_BOTH };

static enum mode mode_of(const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    bool may_be_global = slice_starts_with(in->opcode, "all-reduce") || slice_starts_with(in->opcode, "all-gather") ||
                         slice_starts_with(in->opcode, "reduce-scatter");
    if (a->channel <= 0)
        return OF_REPLICAS;
    if (!may_be_global)
        return OF_PARTITIONS;
    return a->use_global_device_ids ? OF_BOTH : OF_REPLICAS_WITH_PARTITIONS;
}

static int all_of(struct hlo_numbers *one, int64_t n, struct arena *arena, struct error *err)
{
    *one = (struct hlo_numbers){arena_new(arena, int64_t, n, err), (size_t)n, (size_t)n};
    for (int64_t i = 0; one->at && i < n; i++)
        one->at[i] = i;
    return one->at ? 0 : ERR_MEMORY;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static size_t place(const int64_t *ids, size_t n, int64_t id)
{
    const int64_t *at = bsearch(&id, ids, n, sizeof id, by_number);
    return at ? (size_t)(at - ids) : 0;
}

static size_t find_root(size_t *parent, size_t i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

// Of pairs: what hangs together waits together.
static int pairs_list(const struct hlo_attributes *a, struct arena *arena, struct hlo_numbers **lists, size_t *n,
                      struct error *err)
{
    size_t all = 2 * a->n_source_target, ids = 0;
    int64_t *id = arena_new(arena, int64_t, all, err), *members = arena_new(arena, int64_t, all, err);
    size_t *parent = arena_new(arena, size_t, all, err), *list = arena_new(arena, size_t, all, err);
    *lists = arena_new(arena, struct hlo_numbers, all, err);
    if (!id || !members || !parent || !list || !*lists)
        return ERR_MEMORY;
    for (size_t i = 0; i < all; i++)
        id[i] = i % 2 ? a->source_target[i / 2].target : a->source_target[i / 2].source;
    qsort(id, all, sizeof *id, by_number);
    for (size_t i = 0; i < all; i++) {
        if (!ids || id[ids - 1] != id[i])
            id[ids++] = id[i];
    }
    for (size_t i = 0; i < ids; i++)
        parent[i] = i;
    for (size_t i = 0; i < a->n_source_target; i++) {
        size_t x = find_root(parent, place(id, ids, a->source_target[i].source));
        size_t y = find_root(parent, place(id, ids, a->source_target[i].target));
        parent[x > y ? x : y] = x > y ? y : x;
    }
    // Roots are the smallest of their lists, so lists come in the order of these.
    for (size_t i = 0; i < ids; i++) {
        size_t root = find_root(parent, i);
        if (root == i)
            list[i] = (*n)++;
        (*lists)[list[root]].n++;
    }
    size_t at = 0;
    for (size_t i = 0; i < *n; i++) {
        (*lists)[i].at = members + at;
        at += (*lists)[i].n;
        (*lists)[i].cap = 0; // filled so far
    }
    for (size_t i = 0; i < ids; i++) {
        struct hlo_numbers *l = &(*lists)[list[find_root(parent, i)]];
        l->at[l->cap++] = id[i];
    }
    return 0;
}

// How many numbers the groups have when they are written out.
static int64_t written_out(const struct hlo_attributes *a)
{
    int64_t n = 0;
    if (a->groups.form == HLO_GROUPS_IOTA)
        return multiply_saturated(a->groups.count, a->groups.size);
    if (a->groups.form == HLO_GROUPS_MESH) {
        n = 1;
        for (size_t i = 0; i < a->groups.n_axes; i++)
            n = multiply_saturated(n, a->groups.axes[i].size);
        return n;
    }
    for (size_t i = 0; i < a->groups.n_lists; i++)
        n = add_saturated(n, (int64_t)a->groups.lists[i].n);
    return n + 2 * (int64_t)a->n_source_target;
}

static int logical_groups(const struct hlo_attributes *a, enum mode mode, const struct trace_assignment *as,
                          struct arena *arena, struct hlo_numbers **lists, size_t *n, struct error *err)
{
    struct error bad = {0};
    *n = 0;
    if (a->n_source_target)
        return pairs_list(a, arena, lists, n, err);
    int rc = hlo_groups_list(&a->groups, arena, lists, n, &bad);
    if (rc == ERR_INPUT) // groups that make no sense are as if not said
        *n = 0;
    if (rc)
        return rc == ERR_INPUT ? 0 : error_set(err, rc, NULL, "%s", bad.message);
    if (*n || !as->replicas)
        return 0;
    int64_t all = mode == OF_PARTITIONS ? as->partitions
                  : mode == OF_BOTH     ? as->replicas * as->partitions
                                        : as->replicas;
    *lists = arena_new(arena, struct hlo_numbers, 1, err);
    *n = 1;
    return *lists ? all_of(*lists, all, arena, err) : ERR_MEMORY;
}

// ---- From these to devices

struct expanding {
    const struct trace_assignment *as;
    enum mode mode;
    struct hlo_numbers *out;
    size_t n;
    int64_t *at;
    bool wrong;
};

static void add_device(struct expanding *x, int64_t replica, int64_t partition)
{
    const struct trace_assignment *as = x->as;
    struct hlo_numbers *l = &x->out[x->n - 1];
    x->wrong |= replica < 0 || replica >= as->replicas || partition < 0 || partition >= as->partitions;
    if (!x->wrong)
        l->at[l->n++] = as->devices[partition * as->replicas + replica];
}

static void begin_group(struct expanding *x)
{
    const struct hlo_numbers *last = x->n ? &x->out[x->n - 1] : NULL;
    x->out[x->n++] = (struct hlo_numbers){last ? last->at + last->n : x->at, 0, 0};
}

// One group, for replica or partition `of` where there is one such group for each.
static void expand_group(struct expanding *x, const struct hlo_numbers *l, int64_t of)
{
    int64_t partitions = x->as->partitions;
    begin_group(x);
    for (size_t i = 0; i < l->n && !x->wrong; i++) {
        int64_t id = l->at[i];
        if (x->mode == OF_REPLICAS)
            add_device(x, id, of);
        else if (x->mode == OF_PARTITIONS)
            add_device(x, of, id);
        else if (x->mode == OF_BOTH)
            add_device(x, id < 0 ? -1 : id / partitions, id % partitions);
        for (int64_t p = 0; p < partitions && x->mode == OF_REPLICAS_WITH_PARTITIONS && !x->wrong; p++)
            add_device(x, id, p);
    }
}

static int expand(struct expanding *x, const struct hlo_numbers *lists, size_t n, struct arena *arena,
                  struct error *err)
{
    const struct trace_assignment *as = x->as;
    int64_t times = x->mode == OF_REPLICAS ? as->partitions : x->mode == OF_PARTITIONS ? as->replicas : 1;
    int64_t wide = x->mode == OF_REPLICAS_WITH_PARTITIONS ? as->partitions : 1, all = 0;
    for (size_t i = 0; i < n; i++)
        all = add_saturated(all, (int64_t)lists[i].n);
    all = multiply_saturated(all, multiply_saturated(times, wide));
    x->wrong = all > MAX_DEVICES || multiply_saturated((int64_t)n, times) > MAX_DEVICES;
    if (x->wrong)
        return 0;
    x->at = arena_new(arena, int64_t, all, err);
    x->out = arena_new(arena, struct hlo_numbers, (int64_t)n * times, err);
    if (!x->at || !x->out)
        return ERR_MEMORY;
    for (int64_t of = 0; of < times && !x->wrong; of++) {
        for (size_t i = 0; i < n && !x->wrong; i++)
            expand_group(x, &lists[i], of);
    }
    return 0;
}

// ---- Sets

void trace_group_sets_init(struct trace_group_sets *s, struct arena *arena, size_t budget)
{
    *s = (struct trace_group_sets){.arena = arena, .budget = budget > MAX_DEVICES ? budget : MAX_DEVICES};
    idmap_init(&s->by_text);
    idmap_init(&s->by_groups);
}

void trace_group_sets_release(struct trace_group_sets *s)
{
    idmap_release(&s->by_text);
    idmap_release(&s->by_groups);
}

static uint64_t add_hash(uint64_t h, uint64_t word)
{
    return mix64(h ^ word);
}

static uint64_t hash_bytes(uint64_t h, struct slice s)
{
    h = add_hash(h, s.size);
    for (size_t i = 0; i < s.size; i++)
        h = (h ^ s.data[i]) * 0x100000001b3;
    return mix64(h);
}

// Of all that the groups follow from, as it lies in the file: groups in all forms, pairs.
static uint64_t hash_text(uint64_t h, const struct hlo_instruction *in, enum mode mode)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(in->message.data, in->message.size);
    h = add_hash(h, (uint64_t)mode);
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 49, PB_BYTES) || pb_is(&f, 52, PB_BYTES) || pb_is(&f, 87, PB_BYTES) || pb_is(&f, 92, PB_BYTES) ||
            pb_is(&f, 93, PB_BYTES))
            h = hash_bytes(add_hash(h, f.number), f.body);
    }
    return h;
}

int trace_group_sets_begin(struct trace_group_sets *s, const struct hlo_module *m, struct arena *scratch,
                           struct error *err)
{
    s->hash = hash_bytes(process_secret(), m->device_assignment);
    return read_assignment(&s->assignment, m->device_assignment, scratch, err);
}

static uint64_t hash_groups(const struct hlo_numbers *groups, size_t n, bool assigned)
{
    uint64_t h = add_hash(process_secret(), assigned);
    for (size_t i = 0; i < n; i++) {
        h = add_hash(h, groups[i].n);
        for (size_t k = 0; k < groups[i].n; k++)
            h = add_hash(h, (uint64_t)groups[i].at[k]);
    }
    return h;
}

static int by_device(const void *a, const void *b)
{
    const struct trace_group_place *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

static int copy_groups(struct trace_group_set *to, const struct hlo_numbers *groups, size_t n, struct arena *arena,
                       struct error *err)
{
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += groups[i].n;
    int64_t *at = arena_new(arena, int64_t, all, err);
    to->groups = arena_new(arena, struct hlo_numbers, n, err);
    to->places = arena_new(arena, struct trace_group_place, all, err);
    if (!at || !to->groups || !to->places)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (groups[i].n)
            memcpy(at, groups[i].at, groups[i].n * sizeof *at);
        to->groups[i] = (struct hlo_numbers){at, groups[i].n, 0};
        to->largest = groups[i].n > to->largest ? groups[i].n : to->largest;
        for (size_t k = 0; k < groups[i].n; k++)
            to->places[to->n_places++] = (struct trace_group_place){at[k], i};
        at += groups[i].n;
    }
    to->n_groups = n;
    if (all)
        qsort(to->places, all, sizeof *to->places, by_device);
    return 0;
}

// *index: of the set with these groups, an old one or a new one.
static int intern(struct trace_group_sets *s, const struct hlo_numbers *groups, size_t n, bool assigned,
                  uint32_t *index, struct error *err)
{
    uint64_t h = hash_groups(groups, n, assigned);
    bool again;
    if (idmap_get(&s->by_groups, (int64_t)h, index))
        return 0;
    struct trace_group_set *set = arena_new(s->arena, struct trace_group_set, 1, err);
    struct trace_group_set **more = set ? arena_grow(s->arena, s->items, &s->cap, s->n + 1, sizeof(void *), err) : NULL;
    if (!more)
        return ERR_MEMORY;
    s->items = more;
    *set = (struct trace_group_set){.index = s->n, .assigned = assigned};
    *index = (uint32_t)s->n;
    more[s->n++] = set;
    int rc = copy_groups(set, groups, n, s->arena, err);
    return rc ? rc : idmap_put(&s->by_groups, (int64_t)h, *index, &again, err);
}

#define NO_SET (UINT32_MAX - 1)

// How many numbers the groups can become: each stands for a device, or for one in each partition or replica.
static int64_t expanded(const struct trace_assignment *as, const struct hlo_attributes *a)
{
    int64_t n = written_out(a), all = as->replicas ? as->replicas * as->partitions : 1;
    return n > all ? multiply_saturated(n, all) : all;
}

static int make_set(struct trace_group_sets *s, const struct hlo_attributes *a, enum mode mode, struct arena *scratch,
                    uint32_t *index, struct error *err)
{
    const struct trace_assignment *as = &s->assignment;
    struct hlo_numbers *lists = NULL;
    size_t n = 0;
    int64_t cost = expanded(as, a);
    *index = NO_SET;
    cost = cost > MAX_DEVICES ? MAX_DEVICES : cost;
    if (written_out(a) > MAX_DEVICES || (uint64_t)cost > s->budget)
        return 0;
    s->budget -= (size_t)cost;
    int rc = logical_groups(a, mode, as, scratch, &lists, &n, err);
    if (rc || !n)
        return rc;
    struct expanding x = {.as = as, .mode = mode};
    if (!as->replicas)
        return intern(s, lists, n, false, index, err);
    rc = expand(&x, lists, n, scratch, err);
    return rc || x.wrong ? rc : intern(s, x.out, x.n, true, index, err);
}

int trace_group_sets_find(struct trace_group_sets *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                          struct arena *scratch, const struct trace_group_set **out, struct error *err)
{
    enum mode mode = mode_of(in, a);
    uint64_t h = hash_text(s->hash, in, mode);
    uint32_t index;
    bool again;
    int rc = 0;
    *out = NULL;
    if (!idmap_get(&s->by_text, (int64_t)h, &index)) {
        rc = make_set(s, a, mode, scratch, &index, err);
        if (!rc)
            rc = idmap_put(&s->by_text, (int64_t)h, index, &again, err);
    }
    if (!rc && index != NO_SET)
        *out = s->items[index];
    return rc;
}

int64_t trace_group_of(const struct trace_group_set *s, int64_t device)
{
    size_t low = 0, high = s->n_places;
    while (low < high) {
        size_t at = (low + high) / 2;
        if (s->places[at].device < device)
            low = at + 1;
        else
            high = at;
    }
    return low < s->n_places && s->places[low].device == device ? (int64_t)s->places[low].group : -1;
}

// "{0-3,8}": three in a row and more are a range.
static void put_group(struct str *out, const struct hlo_numbers *g)
{
    str_add_char(out, '{');
    for (size_t i = 0, k; i < g->n; i = k) {
        for (k = i + 1; k < g->n && g->at[k] > INT64_MIN && g->at[k] - 1 == g->at[k - 1]; k++)
            ;
        k = k - i < 3 ? i + 1 : k;
        str_addf(out, "%s%" PRId64, i ? "," : "", g->at[i]);
        if (k - i > 1)
            str_addf(out, "-%" PRId64, g->at[k - 1]);
    }
    str_add_char(out, '}');
}

void trace_group_text(struct str *out, const struct trace_group_set *s, size_t max)
{
    struct str one;
    size_t used = 0;
    str_init(&one);
    for (size_t i = 0; i < s->n_groups; i++) {
        str_clear(&one);
        put_group(&one, &s->groups[i]);
        used += one.length + (i > 0);
        if (used > max) {
            str_addf(out, "%s%zu more", i ? " and " : "", s->n_groups - i);
            break;
        }
        str_addf(out, "%s%s", i ? " " : "", str_text(&one));
    }
    out->failed |= one.failed;
    str_release(&one);
}

// ---- Devices of the profile

// CoreDetails: 6 is the number of the core among those of all hosts.
static bool number_of_plane(const struct xplane *p, int64_t *number)
{
    for (size_t i = 0; i < p->n_stats; i++) {
        struct xstat s;
        struct pb_field f;
        xstat_read(&s, p, p->stats[i]);
        const struct xmeta *row = xtable_find(&p->stat_table, s.metadata_id);
        if (!row || !slice_is(row->name, "core_details") || (s.kind != XSTAT_BYTES && s.kind != XSTAT_TEXT))
            continue;
        struct pb_reader r = pb_reader(s.bytes.data, s.bytes.size);
        *number = 0;
        while (pb_next(&r, &f)) {
            if (pb_is(&f, 6, PB_VARINT))
                *number = (int64_t)f.value;
        }
        return true;
    }
    return false;
}

static bool number_guarded(const struct trace_device *d, int64_t *number)
{
    struct file_guard g;
    struct error ignored = {0};
    if (FILE_GUARD(&g, &d->file->map)) {
        file_guard_error(&g, &ignored); // whoever walks over the events says so
        return false;
    }
    bool said = number_of_plane(d->plane, number);
    file_guard_end(&g);
    return said;
}

static bool number_planes(const struct trace_devices *d, int64_t *numbers, int64_t *sorted)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++) {
        numbers[i] = -1;
        if (d->items[i].kind == TRACE_SPARSE_CORE)
            continue;
        if (d->items[i].kind != TRACE_TPU || !number_guarded(&d->items[i], &numbers[i]))
            return false;
        sorted[n++] = numbers[i];
    }
    if (n)
        qsort(sorted, n, sizeof *sorted, by_number);
    for (size_t i = 1; i < n; i++) {
        if (sorted[i] == sorted[i - 1]) // hosts that know nothing of each other
            return false;
    }
    return true;
}

// Hosts in turn, and within one the number in the device's name.
static void number_on(const struct trace_devices *d, int64_t *numbers)
{
    int64_t base = 0, next = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct trace_device *device = &d->items[i];
        if (i && device->file != d->items[i - 1].file)
            base = next;
        numbers[i] = device->kind == TRACE_SPARSE_CORE ? -1 : base + (device->ordinal > 0 ? device->ordinal : 0);
        next = numbers[i] >= next ? numbers[i] + 1 : next;
    }
}

int trace_device_numbers(const struct trace_devices *d, struct arena *arena, int64_t **numbers, struct error *err)
{
    int64_t *sorted = arena_new(arena, int64_t, d->n, err);
    *numbers = arena_new(arena, int64_t, d->n, err);
    if (!sorted || !*numbers)
        return ERR_MEMORY;
    if (!number_planes(d, *numbers, sorted))
        number_on(d, *numbers);
    return 0;
}
