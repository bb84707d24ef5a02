// SPDX-License-Identifier: Apache-2.0
#include "lab/price_layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/policy.h"
#include "plan/layout.h"

// A kind of layout over all chips. FSDP comes twice: weights may be gathered once a request, or at every call.
struct kind {
    const char *name;
    enum layout_axis axis;
    bool sp, once;
};

static const struct kind kinds[] = {
    {"dp", LAYOUT_DP, false, false},
    {"fsdp, gathered once", LAYOUT_FSDP, false, true},
    {"fsdp, every call", LAYOUT_FSDP, false, false},
    {"tp", LAYOUT_TP, false, false},
    {"tp+sp", LAYOUT_TP, true, false},
    {"ulysses", LAYOUT_ULYSSES, false, false},
    {"ring", LAYOUT_RING, false, false},
    {"ep", LAYOUT_EP, false, false},
};

static double activation_bytes(const struct price *p)
{
    struct policy policy;
    struct error ignored = {0};
    if (!p->policy || policy_parse(&policy, p->policy, &ignored))
        return 4;
    return dtype_bits(policy.between) / 8.0;
}

// How a layout divides a request: what of it a group of each way has.
struct share {
    struct layout layout;
    bool once;       // weights are gathered once a request
    double requests; // of the batch's ways, those that have something to do
    double sequence, tensors, stages;
};

static struct share share_of(const struct price *p, const struct layout *l, bool once)
{
    double ways = (double)layout_batch_ways(l);
    return (struct share){.layout = *l,
                          .once = once,
                          .requests = fmin(ways, (double)p->request.batch),
                          .sequence = (double)layout_sequence_ways(l),
                          .tensors = (double)l->ways[LAYOUT_TP],
                          .stages = (double)l->ways[LAYOUT_PP]};
}

// What the chips of one way send of a part, once or at every call; what is NULL where nothing is sent, or known.
static struct layout_part sent_by(const struct price *p, const struct share *s, const struct mesh_way *w, int i)
{
    const struct price_part *part = &p->parts[i];
    const struct model_traffic *t = &part->part->traffic;
    const struct network *n = &w->network;
    double size = activation_bytes(p) / (s->requests * s->sequence * s->stages);
    double blocks = (t->attentions ? (double)t->attentions : 1) / s->stages;
    struct layout_part out = {.times = (double)part->part->calls};
    if (w->axis == LAYOUT_FSDP) {
        double weights = ((double)part->weight_bytes + (double)part->scale_bytes) / (s->tensors * s->stages);
        out.times = s->once ? 1 : out.times;
        out.what = "all-gather of weights";
        out.comms = collective_cost(n, COLLECTIVE_ALL_GATHER, weights, blocks);
    } else if (w->axis == LAYOUT_TP && t->heads) {
        out.what = s->layout.sp ? "reduce-scatter and all-gather behind each sum" : "all-reduce behind each sum";
        out.comms = collective_cost(n, COLLECTIVE_ALL_REDUCE, t->reduced * size, (double)t->reductions / s->stages);
    } else if (w->axis == LAYOUT_ULYSSES && t->heads) {
        out.what = "all-to-all of queries, keys, values and outputs";
        // of the whole sequence, whose ways these are
        out.comms =
            collective_cost(n, COLLECTIVE_ALL_TO_ALL, t->attention * size * (double)w->ways / s->tensors, 4 * blocks);
    } else if (w->axis == LAYOUT_RING && t->heads) {
        out.what = "keys and values go round";
        out.comms =
            collective_cost(n, COLLECTIVE_PERMUTE, t->keys_values * size * (double)w->ways / s->tensors, blocks);
    } else if (w->axis == LAYOUT_PP && t->reductions) {
        out.what = "activations to the next stage";
        double stream = t->reduced / (double)t->reductions * size * s->stages / (s->layout.sp ? s->tensors : 1);
        out.comms = collective_hand_over(n, stream, 1);
    }
    return out;
}

static const char *why_not(struct price *p, const struct layout *l, struct error *err)
{
    struct error e = {0};
    for (int i = 0; i < p->request.n_parts; i++) {
        const struct model_traffic *t = &p->request.parts[i].traffic;
        struct layout_limits limits = {
            .heads = t->heads, .kv_heads = t->kv_heads, .dense = true, .layers = t->attentions};
        if (t->heads && layout_check(l, &limits, &e))
            return arena_printf(&p->arena, err, "%s: %s", p->request.parts[i].name, e.message);
    }
    return NULL;
}

// Stages wait for each other: of m microbatches each has its part of m + stages - 1 steps.
static double bubble(const struct price *p, const struct share *s)
{
    double own = fmax(1, (double)p->request.batch / s->requests);
    double m = s->layout.microbatches ? (double)s->layout.microbatches : own;
    return (m + s->stages - 1) / m;
}

// Arithmetic and memory of a request on each of the chips that work on it, divided evenly. Weights are read whole, but
// where they are divided for good.
static int divide(struct price *p, const struct chip *chip, const struct share *s, struct layout_price *out,
                  struct error *err)
{
    struct whole_floor f;
    int rc = roofline_whole(p->rows, p->n_rows, chip, &p->arena, &f, err);
    if (rc)
        return rc;
    if (isnan(f.time[WHOLE_MATH].value) && !out->reason)
        out->reason = f.time[WHOLE_MATH].source;
    double working = s->requests * s->sequence * s->tensors * s->stages, idle = bubble(p, s);
    double weights = p->total.weight_bytes / (s->tensors * s->stages);
    double rest = fmax(p->total.bytes_merged - p->total.weight_bytes, 0) / working;
    out->chips = working;
    out->weight_bytes = ((double)p->weight_bytes + (double)p->scale_bytes) /
                        (s->tensors * s->stages * (double)s->layout.ways[LAYOUT_FSDP]);
    out->math_s =
        f.time[WHOLE_MATH].value * 1e-6 * idle / (working * chip->devices_per_chip); // floors are of one device
    out->memory_s = (weights + rest) * idle / chip_bandwidth(chip, CHIP_PER_CHIP).value;
    return 0;
}

static void add_sent(struct layout_price *out, int part, struct layout_way *way, const struct layout_part *sent)
{
    struct layout_part *to = &out->parts[part];
    way->bytes += sent->times * sent->comms.bytes;
    way->ports_s += sent->times * sent->comms.ports_s;
    way->topology_s += sent->times * sent->comms.topology_s;
    if (!sent->what)
        return;
    if (!to->what) {
        *to = *sent;
        return;
    }
    // Several ways: each time is a call, of which what is sent once has its share.
    double share = sent->times / fmax(sent->times, to->times), own = to->times / fmax(sent->times, to->times);
    to->what = "more than one kind: see the ways";
    to->comms.bytes = to->comms.bytes * own + sent->comms.bytes * share;
    to->comms.ports_s = to->comms.ports_s * own + sent->comms.ports_s * share;
    to->comms.topology_s = to->comms.topology_s * own + sent->comms.topology_s * share;
    to->times = fmax(sent->times, to->times);
}

static int price_layout(struct price *p, const struct layouts *l, const char *name, const struct layout *layout,
                        bool once, struct layout_price *out, struct error *err)
{
    struct mesh mesh;
    struct share s = share_of(p, layout, once);
    *out = (struct layout_price){.name = name, .reason = why_not(p, layout, err)};
    int used = 0;
    for (int a = 0; a < LAYOUT_AXES; a++)
        used += layout->ways[a] > 1;
    int rc = divide(p, l->target.chip, &s, out, err);
    if (!rc && used == 1) { // one kind has every link
        mesh = (struct mesh){.n = 1, .ways[0] = {.network = l->network, .place = "all links"}};
        for (int a = 0; a < LAYOUT_AXES; a++) {
            if (layout->ways[a] > 1)
                mesh.ways[0].axis = (enum layout_axis)a, mesh.ways[0].ways = layout->ways[a];
        }
    } else if (!rc) {
        rc = mesh_of(&l->network, layout, &mesh, err);
    }
    for (int k = 0; !rc && k < mesh.n; k++) {
        struct layout_way *way = &out->ways[out->n_ways++];
        *way = (struct layout_way){.axis = mesh.ways[k].axis, .ways = mesh.ways[k].ways};
        way->place = arena_strdup(&p->arena, mesh.ways[k].place, err);
        for (int i = 0; i < p->request.n_parts && way->place; i++) {
            struct layout_part sent = sent_by(p, &s, &mesh.ways[k], i);
            out->parts[i].times = out->parts[i].times > 0 ? out->parts[i].times : sent.times;
            add_sent(out, i, way, &sent);
        }
        out->bytes += way->bytes;
        out->ports_s += way->ports_s;
        out->topology_s += way->topology_s; // one after the other: each way waits for what the other brought
        rc = way->place ? 0 : ERR_MEMORY;
    }
    out->overlapped_s = fmax(fmax(out->math_s, out->memory_s), out->topology_s);
    out->serial_s = fmax(out->math_s, out->memory_s) + out->topology_s;
    return rc;
}

static int by_floor(const void *a, const void *b)
{
    const struct layout_price *x = a, *y = b;
    if (!x->reason != !y->reason)
        return x->reason ? 1 : -1;
    return (x->serial_s > y->serial_s) - (x->serial_s < y->serial_s);
}

// Whether it is this one kind, over all chips.
static bool kind_of(const struct layout *l, const struct kind *k)
{
    int used = 0;
    for (int a = 0; a < LAYOUT_AXES; a++)
        used += l->ways[a] > 1;
    return used == 1 && l->ways[k->axis] > 1 && l->sp == k->sp;
}

static bool is_asked(const struct kind *k, const struct layout *asked, int n)
{
    for (int i = 0; i < n; i++) {
        if (kind_of(&asked[i], k))
            return true;
    }
    return n == 0;
}

static bool is_mixed(const struct layout *l)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kind_of(l, &kinds[i]))
            return false;
    }
    return true;
}

static int parse_layouts(const char *const *texts, size_t n, int64_t ways, struct layout *out, struct error *err)
{
    if (n > PRICE_MAX_LAYOUTS)
        return error_set(err, ERR_USAGE, "--layout", "give at most %d layouts", PRICE_MAX_LAYOUTS);
    for (size_t i = 0; i < n; i++) {
        int rc = layout_parse(&out[i], texts[i], ways, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int price_mixed(struct price *p, const struct layout *l, struct layouts *out, struct error *err)
{
    struct str name;
    str_init(&name);
    layout_spell(l, &name);
    const char *copy = arena_strdup(&p->arena, str_text(&name), err);
    str_release(&name);
    return copy ? price_layout(p, out, copy, l, false, &out->rows[out->n++], err) : ERR_MEMORY;
}

int price_layouts(struct price *p, const struct chip_target *target, const char *const *texts, size_t n_texts,
                  struct layouts *out, struct error *err)
{
    struct layout asked[PRICE_MAX_LAYOUTS];
    memset(out, 0, sizeof *out);
    out->target = *target;
    int rc = parse_layouts(texts, n_texts, target->chips, asked, err);
    if (!rc)
        rc = network_of(target, &out->network, err);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !rc; i++) {
        struct layout l = layout_single();
        l.ways[kinds[i].axis] = target->chips;
        l.sp = kinds[i].sp;
        if (is_asked(&kinds[i], asked, (int)n_texts))
            rc = price_layout(p, out, kinds[i].name, &l, kinds[i].once, &out->rows[out->n++], err);
    }
    for (size_t i = 0; i < n_texts && !rc; i++) {
        if (!is_mixed(&asked[i]))
            continue;
        if (out->n == PRICE_MAX_LAYOUTS)
            rc = error_set(err, ERR_USAGE, "--layout", "give at most %d layouts", PRICE_MAX_LAYOUTS);
        else
            rc = price_mixed(p, &asked[i], out, err);
    }
    if (!rc)
        qsort(out->rows, (size_t)out->n, sizeof out->rows[0], by_floor);
    return rc;
}

static const char *topology_note(struct price *p, const struct layouts *l, struct error *err)
{
    const struct network *n = &l->network;
    if (!n->axes)
        return "Every chip sends through one switch.";
    return arena_printf(&p->arena, err,
                        "\"Ports\" is what %d links of %.3g GB/s each way could carry at once, on a torus that wraps "
                        "on every axis. This slice has chips with %d link%s in use, and %d across its narrowest cut: "
                        "\"links\" is by these.",
                        n->ports, n->link / 1e9, n->fewest_links, n->fewest_links == 1 ? "" : "s", n->cut_links);
}

const char *layouts_note(struct price *p, const struct layouts *l, int i, struct error *err)
{
    bool klein = price_note(p) != NULL && strcmp(l->target.chip->name, "v6e") == 0 && l->target.chips == 8;
    switch (i) {
    case 0:
        return arena_printf(
            &p->arena, err,
            "Arithmetic, memory and what is sent are of a whole request (batch %" PRId64
            "), all its calls; what is sent each time stands in the second table. dp and fsdp divide the "
            "batch: chips beyond it idle. The others divide every call. Divided evenly, which is a bound.",
            p->request.batch);
    case 1:
        return topology_note(p, l, err);
    case 2:
        return "In turn: the longer of arithmetic and memory, and then what is sent. Overlapped: the "
               "longest "
               "of the three. Memory is in both, on one chip and on many.";
    case 3:
        return "All of these are lower bounds on time. A time that was measured, on whatever machine, is an upper "
               "bound "
               "on what is possible.";
    case 4:
        return klein
                   ? "Published for eight v6e chips at 400 GB/s (four ports): 6.78 GB and 16.96 ms for FSDP of the "
                     "transformer once, 0.26 ms for Ulysses and 1.45 ms for tensor parallelism. The last two are of "
                     "one "
                     "step, beside arithmetic of four; a slice of 2x4 does not wrap; and tensor parallelism was given "
                     "35 sums where a double block needs two and a single block one: 30, or 1.24 ms."
                   : NULL;
    default:
        return NULL;
    }
}

static void comms_json(const struct layout_part *part, const char *name, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "part", name);
    jw_kv_string(w, "what", part->what);
    jw_kv_double(w, "times", part->times);
    quantity_json_derived(w, "bytes", part->comms.bytes, "B", "into each chip, each time");
    quantity_json_derived(w, "ports", part->comms.ports_s * 1e6, "us",
                          "these bytes through all ports of a chip, each time");
    quantity_json_derived(w, "links", part->comms.topology_s * 1e6, "us", "by the links of this slice, each time");
    jw_object_end(w);
}

static void row_json(const struct price *p, const struct layout_price *row, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "layout", row->name);
    jw_kv_string(w, "reason", row->reason);
    jw_key(w, "parts");
    jw_array(w);
    for (int i = 0; i < p->request.n_parts; i++)
        comms_json(&row->parts[i], p->request.parts[i].name, w);
    jw_array_end(w);
    jw_key(w, "ways");
    jw_array(w);
    for (int i = 0; i < row->n_ways; i++) {
        const struct layout_way *way = &row->ways[i];
        jw_object(w);
        jw_kv_string(w, "axis", layout_axis_name(way->axis));
        jw_kv_int(w, "ways", way->ways);
        jw_kv_string(w, "place", way->place);
        quantity_json_derived(w, "bytes", way->bytes, "B", "sent in a request, into each chip");
        quantity_json_derived(w, "ports", way->ports_s * 1e6, "us", "these bytes through all ports of a chip");
        quantity_json_derived(w, "links", way->topology_s * 1e6, "us", "by the links that this way takes");
        jw_object_end(w);
    }
    jw_array_end(w);
    quantity_json_derived(w, "weights", row->weight_bytes, "B", "weights and scales on each chip");
    jw_kv_double(w, "working_chips", row->chips);
    quantity_json_derived(w, "math", row->math_s * 1e6, "us", "arithmetic of a request / chips at work");
    quantity_json_derived(w, "memory", row->memory_s * 1e6, "us", "merged bytes of a request on each chip / bandwidth");
    quantity_json_derived(w, "bytes", row->bytes, "B", "sent in a request, into each chip");
    quantity_json_derived(w, "ports", row->ports_s * 1e6, "us", "these bytes through all ports of a chip");
    quantity_json_derived(w, "links", row->topology_s * 1e6, "us", "by the links of this slice");
    quantity_json_derived(w, "overlapped", row->overlapped_s * 1e6, "us", "max(math, memory, links)");
    quantity_json_derived(w, "serial", row->serial_s * 1e6, "us", "max(math, memory) + links");
    jw_object_end(w);
}

void layouts_json(struct price *p, const struct layouts *l, struct jw *w, struct error *err)
{
    struct str name;
    str_init(&name);
    chip_target_spell(&l->target, &name);
    jw_object(w);
    jw_kv_string(w, "target", str_text(&name));
    jw_kv_int(w, "chips", l->target.chips);
    jw_kv_int(w, "slices", l->network.slices);
    jw_kv_int(w, "links", l->network.fewest_links);
    jw_kv_int(w, "cut_links", l->network.cut_links);
    jw_key(w, "rows");
    jw_array(w);
    for (int i = 0; i < l->n; i++)
        row_json(p, &l->rows[i], w);
    jw_array_end(w);
    jw_key(w, "notes");
    jw_array(w);
    for (int i = 0; layouts_note(p, l, i, err); i++)
        jw_string(w, layouts_note(p, l, i, err));
    jw_array_end(w);
    jw_object_end(w);
    str_release(&name);
}
