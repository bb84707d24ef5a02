// SPDX-License-Identifier: Apache-2.0
// What the devices of a divided program send each other: who takes part, how much, over which links, and how long.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compile_part.h"
#include "plan/collective.h"

// ---- What it is

static const char *collective_name(const struct hlo_instruction *in)
{
    static const char *const names[] = {"all-reduce",         "all-gather",           "reduce-scatter",   "all-to-all",
                                        "collective-permute", "collective-broadcast", "ragged-all-to-all"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (slice_starts_with(in->opcode, names[i]) && !slice_ends_with(in->opcode, "-done"))
            return names[i];
    }
    return NULL;
}

const char *compile_collective_of(const struct hlo_instruction *in, const struct hlo_instruction **of)
{
    const char *name = collective_name(in);
    bool holds = hlo_is(in, "fusion") || slice_starts_with(in->opcode, "async-");
    *of = in;
    for (size_t c = 0; c < in->n_called && !name && holds; c++) {
        for (size_t i = 0; i < in->called[c]->n_instructions && !name; i++) {
            *of = &in->called[c]->instructions[i];
            name = collective_name(*of);
            // The optimiser fuses the sum and the slice of what each device keeps into one.
            if (name && strcmp(name, "all-reduce") == 0 && hlo_is(in->called[c]->root, "dynamic-slice"))
                name = "reduce-scatter";
        }
    }
    return name;
}

static struct slice frontend(const struct hlo_attributes *a, const char *key)
{
    for (size_t i = 0; i < a->n_frontend; i++) {
        if (slice_is(a->frontend[i].key, key))
            return a->frontend[i].value;
    }
    return (struct slice){0};
}

const char *compile_between_slices(const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    static const struct {
        const char *type, *name;
    } kinds[] = {{"ALL_REDUCE", "all-reduce"},
                 {"ALL_GATHER", "all-gather"},
                 {"REDUCE_SCATTER", "reduce-scatter"},
                 {"ALL_TO_ALL", "all-to-all"}};
    struct slice type = frontend(a, "_xla_megascale_transfer_type");
    (void)in;
    if (!slice_is(frontend(a, "_xla_host_transfer_handler_name"), "xla_megascale_runtime"))
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (slice_is(type, kinds[i].type))
            return kinds[i].name;
    }
    return "collective-permute";
}

// ---- Where the devices lie

// The number behind "key=" in what the plugin says of a device; -1: none.
static int number_behind(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? (int)strtol(at + strlen(key), NULL, 10) : -1;
}

int compile_case_places(struct compile_case *k, const struct worker_device *devices, size_t n, struct error *err)
{
    k->places = arena_new(&k->arena, struct compile_place, n, err);
    if (!k->places)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(devices[i].attributes, "coords=[");
        struct compile_place *p = &k->places[i];
        if (!at) {
            k->places = NULL;
            return 0;
        }
        char *end = (char *)(uintptr_t)(at + sizeof "coords=[" - 1);
        for (int d = 0; d < 3 && (d == 0 || *end == ','); d++)
            p->coordinates[d] = (int)strtol(end + (d > 0), &end, 10);
        int slice = number_behind(devices[i].attributes, "slice_index=");
        p->slice = slice > 0 ? slice : 0;
    }
    return 0;
}

static bool is_known(const struct compile_case *k, int64_t device)
{
    return k->places && device >= 0 && (size_t)device < k->n_devices;
}

static int by_value(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

// How many different values, all as far from the next; 0: they are not.
static int evenly(int *v, size_t n, int *apart)
{
    qsort(v, n, sizeof *v, by_value);
    int count = 1, first = 0;
    for (size_t i = 1; i < n; i++) {
        int step = v[i] - v[i - 1];
        if (!step)
            continue;
        if (first && step != first)
            return 0;
        first = step;
        count++;
    }
    *apart = first > *apart ? first : *apart;
    return count;
}

// The box that the chips of a group fill, if they do, in one slice.
static int take_box(const struct compile_case *k, struct compile_op *op, const struct hlo_numbers *group,
                    struct arena *scratch, struct error *err)
{
    int *v = arena_new(scratch, int, group->n, err), extent[3];
    int64_t chips = k->target.chip->devices_per_chip > 0 ? k->target.chip->devices_per_chip : 1, box = 1;
    if (!v)
        return ERR_MEMORY;
    for (size_t i = 0; i < group->n; i++) {
        if (!is_known(k, group->at[i]) || k->places[group->at[i]].slice != k->places[group->at[0]].slice)
            return 0;
    }
    op->apart = 1;
    for (int d = 0; d < 3; d++) {
        for (size_t i = 0; i < group->n; i++)
            v[i] = k->places[group->at[i]].coordinates[d];
        extent[d] = evenly(v, group->n, &op->apart);
        box *= extent[d];
    }
    if (box == ((int64_t)group->n + chips - 1) / chips)
        memcpy(op->box, extent, sizeof op->box);
    return 0;
}

// One step along an axis from a to b, the shorter way round where it wraps.
static int step_towards(int a, int b, int extent, bool wraps)
{
    int forward = b - a;
    if (wraps && forward > extent / 2)
        forward -= extent;
    if (wraps && -forward > extent / 2)
        forward += extent;
    return (forward > 0) - (forward < 0);
}

// The ways of a permute, axis by axis: the longest, and how many use the link that most do.
static int take_ways(struct compile_case *k, struct compile_op *op, const struct hlo_pair *pairs, size_t n,
                     struct arena *scratch, struct error *err)
{
    const struct chip_target *t = &k->target;
    int extent[3] = {1, 1, 1};
    for (int d = 0; d < t->dims; d++)
        extent[d] = t->shape[d];
    size_t chips = (size_t)extent[0] * (size_t)extent[1] * (size_t)extent[2];
    int *load = arena_new(scratch, int, chips * 6 * (size_t)t->slices, err), most = 0, longest = 0;
    if (!load)
        return ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (!is_known(k, pairs[i].source) || !is_known(k, pairs[i].target))
            return 0;
        struct compile_place at = k->places[pairs[i].source], to = k->places[pairs[i].target];
        int hops = 0;
        if (at.slice != to.slice)
            return 0;
        for (int d = 0; d < 3; d++) {
            bool wraps = d < t->dims && chip_target_wraps(t, d);
            for (int s; (s = step_towards(at.coordinates[d], to.coordinates[d], extent[d], wraps)) != 0; hops++) {
                size_t chip = (((size_t)at.slice * (size_t)extent[2] + (size_t)at.coordinates[2]) * (size_t)extent[1] +
                               (size_t)at.coordinates[1]) *
                                  (size_t)extent[0] +
                              (size_t)at.coordinates[0];
                if (chip >= chips * (size_t)t->slices)
                    return 0;
                int *link = &load[chip * 6 + (size_t)(2 * d + (s > 0))];
                most = ++*link > most ? *link : most;
                at.coordinates[d] = (at.coordinates[d] + s + extent[d]) % extent[d];
            }
        }
        longest = hops > longest ? hops : longest;
    }
    op->hops = longest;
    op->contention = most;
    return 0;
}

// ---- What it says

static const struct hlo_shape *first_array(const struct hlo_shape *s)
{
    while (s->kind == HLO_TUPLE && s->n_elements)
        s = &s->elements[0];
    return s;
}

static double operand_bytes(const struct hlo_instruction *of)
{
    double bytes = 0;
    for (size_t i = 0; i < of->n_operands; i++)
        bytes += (double)hlo_shape_bytes(&of->operands[i]->shape);
    return bytes;
}

static int describe_between(struct compile_case *k, struct compile_op *op, const struct hlo_instruction *of,
                            struct error *err)
{
    op->group_size = k->target.slices;
    op->groups = arena_printf(&k->arena, err, "%d slices", k->target.slices);
    op->wire_bytes = (double)hlo_shape_bytes(first_array(&of->shape));
    op->strategy = "by the hosts, over the network between slices";
    return op->groups ? 0 : ERR_MEMORY;
}

int compile_collective_describe(struct compile_case *k, struct compile_op *op, const struct hlo_instruction *of,
                                struct arena *scratch, struct error *err)
{
    struct hlo_attributes a;
    struct hlo_numbers *lists;
    size_t n;
    struct error bad = {0};
    if (op->between)
        return describe_between(k, op, of, err);
    int rc = hlo_attributes_read(&a, &k->hlo, of, scratch, err);
    if (rc)
        return rc;
    // The whole array: what a gather makes, what the others take.
    bool gather = strcmp(op->collective, "all-gather") == 0;
    op->wire_bytes = gather ? (double)hlo_shape_bytes(first_array(&of->shape)) : operand_bytes(of);
    if (a.n_source_target) {
        op->group_size = (int64_t)a.n_source_target;
        op->groups = arena_printf(&k->arena, err, "%zu pairs", a.n_source_target);
        return op->groups ? take_ways(k, op, a.source_target, a.n_source_target, scratch, err) : ERR_MEMORY;
    }
    if (hlo_groups_list(&a.groups, scratch, &lists, &n, &bad))
        n = 0;
    op->group_size = n ? (int64_t)lists[0].n : a.groups.size > 0 ? a.groups.size : k->partitions;
    op->groups = arena_printf(&k->arena, err, "%zu of %lld", n ? n : 1, (long long)op->group_size);
    rc = op->groups ? 0 : ERR_MEMORY;
    return rc || !n ? rc : take_box(k, op, &lists[0], scratch, err);
}

// ---- How long it takes

static bool is_collective(const struct compile_op *op, const char *name)
{
    return strcmp(op->collective, name) == 0;
}

static enum collective kind_of(const struct compile_op *op)
{
    return is_collective(op, "all-reduce")       ? COLLECTIVE_ALL_REDUCE
           : is_collective(op, "all-gather")     ? COLLECTIVE_ALL_GATHER
           : is_collective(op, "reduce-scatter") ? COLLECTIVE_REDUCE_SCATTER
           : is_collective(op, "all-to-all")     ? COLLECTIVE_ALL_TO_ALL
                                                 : COLLECTIVE_PERMUTE;
}

// The links of a group: its box where it is one, else those of the whole slice.
static void narrow(const struct compile_op *op, struct network *n, int chips)
{
    n->chips = chips;
    n->slices = 1;
    if (!op->box[0] || !n->axes)
        return;
    for (int d = 0; d < n->axes; d++) {
        n->wraps[d] = n->wraps[d] && op->box[d] * op->apart >= n->extent[d];
        n->extent[d] = op->box[d];
    }
    n->link /= op->apart; // what lies between shares the links
    network_count_links(n);
}

// Each chip of a slice exchanges with its like in the others, all at once through the hosts.
static void price_between(struct compile_op *op, const struct network *slice)
{
    struct network n = {.chips = 1, .ports = slice->ports, .link = slice->link, .slices = slice->slices};
    n.dcn = slice->dcn / slice->chips;
    network_count_links(&n);
    if (isnan(n.dcn))
        op->wire_reason = "how fast hosts reach the network between slices is not known for this chip";
    else if (kind_of(op) == COLLECTIVE_PERMUTE)
        op->floor_s = op->wire_bytes / n.dcn;
    else
        op->floor_s = collective_cost(&n, kind_of(op), op->wire_bytes, 1).topology_s;
}

int compile_collective_price(struct compile_case *k, struct compile_op *op, struct error *err)
{
    enum { HOP_NS = 1000 };
    struct network n;
    struct error unknown = {0};
    int per_chip = k->target.chip->devices_per_chip;
    if (!k->target.chip->is_tpu) {
        op->wire_reason = "no time is predicted for GPUs";
        return 0;
    }
    if (network_of(&k->target, &n, &unknown)) {
        op->wire_reason = arena_strdup(&k->arena, unknown.message, err);
        return op->wire_reason ? 0 : ERR_MEMORY;
    }
    if (op->between) {
        price_between(op, &n);
        return 0;
    }
    int chips = (int)((op->group_size + per_chip - 1) / per_chip);
    if (kind_of(op) == COLLECTIVE_PERMUTE) { // handed on once
        double wire = op->wire_bytes * fmax(op->contention, 1) / n.link, hops = fmax(op->hops, 1) * HOP_NS * 1e-9;
        op->floor_s = fmax(wire, hops);
        return 0;
    }
    narrow(op, &n, chips);
    if (chips < 2)
        op->wire_reason = "the devices of one chip exchange without a link";
    else // of an all-to-all the array of one device is known: all of them are exchanged
        op->floor_s =
            collective_cost(&n, kind_of(op), op->wire_bytes * (kind_of(op) == COLLECTIVE_ALL_TO_ALL ? chips : 1), 1)
                .topology_s;
    return 0;
}
