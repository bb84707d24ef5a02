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

// What one part sends under a kind, once or at every call.
static struct layout_part part_of(const struct price *p, const struct kind *k, int i, const struct network *n)
{
    const struct price_part *part = &p->parts[i];
    const struct model_traffic *t = &part->part->traffic;
    double size = activation_bytes(p), blocks = t->attentions ? (double)t->attentions : 1;
    struct layout_part out = {.times = k->once ? 1 : (double)part->part->calls};
    if (k->axis == LAYOUT_FSDP) {
        out.what = "all-gather of weights";
        double weights = (double)part->weight_bytes + (double)part->scale_bytes;
        out.comms = collective_cost(n, COLLECTIVE_ALL_GATHER, weights, blocks);
    } else if (k->axis == LAYOUT_TP && t->heads) {
        out.what = k->sp ? "reduce-scatter and all-gather behind each sum" : "all-reduce behind each sum";
        out.comms = collective_cost(n, COLLECTIVE_ALL_REDUCE, t->reduced * size, (double)t->reductions);
    } else if (k->axis == LAYOUT_ULYSSES && t->heads) {
        out.what = "all-to-all of queries, keys, values and outputs";
        out.comms = collective_cost(n, COLLECTIVE_ALL_TO_ALL, t->attention * size, 4 * blocks);
    } else if (k->axis == LAYOUT_RING && t->heads) {
        out.what = "keys and values go round";
        out.comms = collective_cost(n, COLLECTIVE_PERMUTE, t->keys_values * size, blocks);
    }
    return out;
}

static const char *why_not(struct price *p, const struct kind *k, int64_t ways, struct error *err)
{
    struct layout l = layout_single();
    struct error e = {0};
    l.ways[k->axis] = ways;
    l.sp = k->sp;
    for (int i = 0; i < p->request.n_parts; i++) {
        const struct model_traffic *t = &p->request.parts[i].traffic;
        struct layout_limits limits = {.heads = t->heads, .kv_heads = t->kv_heads, .dense = true};
        if (t->heads && layout_check(&l, &limits, &e))
            return arena_printf(&p->arena, err, "%s: %s", p->request.parts[i].name, e.message);
    }
    return NULL;
}

// Chips that have a share of the request: where requests are divided, no more than there are in the batch.
static double working_chips(const struct price *p, const struct kind *k, double ways)
{
    bool requests = k->axis == LAYOUT_DP || k->axis == LAYOUT_FSDP;
    return requests ? fmin(ways, (double)p->request.batch) : ways;
}

// Arithmetic and memory of a request on each of the chips that work on it, divided evenly. Weights are read whole, but
// where they are divided for good.
static int divide(struct price *p, const struct chip *chip, double ways, const struct kind *k, struct layout_price *out,
                  struct error *err)
{
    struct whole_floor f;
    int rc = roofline_whole(p->rows, p->n_rows, chip, &p->arena, &f, err);
    if (rc)
        return rc;
    if (isnan(f.time[WHOLE_MATH].value) && !out->reason)
        out->reason = f.time[WHOLE_MATH].source;
    double working = working_chips(p, k, ways);
    double weights = k->axis == LAYOUT_TP ? p->total.weight_bytes / ways : p->total.weight_bytes;
    double rest = fmax(p->total.bytes_merged - p->total.weight_bytes, 0) / working;
    out->chips = working;
    out->math_s = f.time[WHOLE_MATH].value * 1e-6 / (working * chip->devices_per_chip); // floors are of one device
    out->memory_s = (weights + rest) / chip_bandwidth(chip, CHIP_PER_CHIP).value;
    return 0;
}

static int price_kind(struct price *p, const struct layouts *l, const struct kind *k, struct layout_price *out,
                      struct error *err)
{
    int64_t ways = (int64_t)l->network.chips * l->network.slices;
    *out = (struct layout_price){.name = k->name, .reason = why_not(p, k, ways, err)};
    int rc = divide(p, l->target.chip, (double)ways, k, out, err);
    for (int i = 0; i < p->request.n_parts && !rc; i++) {
        out->parts[i] = part_of(p, k, i, &l->network);
        const struct layout_part *part = &out->parts[i];
        out->bytes += part->times * part->comms.bytes;
        out->ports_s += part->times * part->comms.ports_s;
        out->topology_s += part->times * part->comms.topology_s;
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

static bool is_asked(const struct kind *k, const struct layout *asked, int n)
{
    for (int i = 0; i < n; i++) {
        if (asked[i].ways[k->axis] > 1 && asked[i].sp == k->sp)
            return true;
    }
    return n == 0;
}

// Kinds only: how two share a slice's links is another question.
static int parse_layouts(const char *const *texts, size_t n, int64_t ways, struct layout *out, struct error *err)
{
    if (n > PRICE_MAX_LAYOUTS)
        return error_set(err, ERR_USAGE, "--layout", "give at most %d layouts", PRICE_MAX_LAYOUTS);
    for (size_t i = 0; i < n; i++) {
        int rc = layout_parse(&out[i], texts[i], ways, err), used = 0;
        for (int a = 0; a < LAYOUT_AXES; a++)
            used += out[i].ways[a] > 1;
        if (!rc && (used != 1 || out[i].ways[LAYOUT_PP] > 1))
            rc = error_set(err, ERR_USAGE, "--layout",
                           "%s: prices are of one kind over all %" PRId64 " chips (dp, fsdp, tp, tp+sp, ulysses, ring, "
                           "ep); `assay budget` says what mixed layouts hold",
                           texts[i], ways);
        if (rc)
            return rc;
    }
    return 0;
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
        if (is_asked(&kinds[i], asked, (int)n_texts))
            rc = price_kind(p, out, &kinds[i], &out->rows[out->n++], err);
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
