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
    double sequence, tensors, stages, experts;
    double groups;       // of chips that have all experts among them, and something to do
    double microbatches; // of each pipeline; 1 without one
};

static struct share share_of(const struct price *p, const struct layout *l, bool once)
{
    double ways = (double)layout_batch_ways(l), experts = (double)l->ways[LAYOUT_EP], batch = (double)p->request.batch;
    struct share s = {.layout = *l,
                      .once = once,
                      .requests = fmin(ways, batch),
                      .sequence = (double)layout_sequence_ways(l),
                      .tensors = (double)l->ways[LAYOUT_TP],
                      .stages = (double)l->ways[LAYOUT_PP],
                      .experts = experts,
                      .groups = fmin(ways / experts, batch),
                      .microbatches = 1};
    if (s.stages > 1) // as many as are said, else one for each sequence, as `assay compile` cuts the batch
        s.microbatches = l->microbatches ? (double)l->microbatches : fmax(1, batch / s.requests);
    return s;
}

// Stages work in turns, in each of which every stage has one microbatch; the last one begins when the others have had
// theirs.
static double turns(const struct share *s)
{
    return s->microbatches + s->stages - 1;
}

// What a stage hands to the next: in each turn but the last, a microbatch's share.
static struct collective_cost hand_over(const struct network *n, const struct share *s, double bytes)
{
    struct collective_cost c = collective_hand_over(n, bytes / s->microbatches, 1);
    c.bytes *= s->microbatches;
    c.ports_s *= turns(s) - 1;
    c.topology_s *= turns(s) - 1;
    return c;
}

// The same of what the chips of a stage send each other, in each turn.
static struct collective_cost in_turns(const struct network *n, const struct share *s, enum collective op, double bytes,
                                       double count)
{
    struct collective_cost c = collective_cost(n, op, bytes / s->microbatches, count);
    c.bytes *= s->microbatches;
    c.ports_s *= turns(s);
    c.topology_s *= turns(s);
    return c;
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
        double experts = t->experts.n ? (double)p->expert_bytes * (1 - 1 / s->experts) : 0; // that ep's ways divide
        double weights = ((double)part->weight_bytes + (double)part->scale_bytes - experts) / (s->tensors * s->stages);
        out.times = s->once ? 1 : out.times;
        out.what = "all-gather of weights";
        out.comms = collective_cost(n, COLLECTIVE_ALL_GATHER, weights, blocks);
    } else if (w->axis == LAYOUT_TP && t->heads) {
        out.what = s->layout.sp ? "reduce-scatter and all-gather behind each sum" : "all-reduce behind each sum";
        out.comms = in_turns(n, s, COLLECTIVE_ALL_REDUCE, t->reduced * size, (double)t->reductions / s->stages);
    } else if (w->axis == LAYOUT_ULYSSES && t->heads) {
        out.what = "all-to-all of queries, keys, values and outputs";
        // of the whole sequence, whose ways these are
        out.comms =
            in_turns(n, s, COLLECTIVE_ALL_TO_ALL, t->attention * size * (double)w->ways / s->tensors, 4 * blocks);
    } else if (w->axis == LAYOUT_RING && t->heads) {
        out.what = "keys and values go round";
        out.comms = in_turns(n, s, COLLECTIVE_PERMUTE, t->keys_values * size * (double)w->ways / s->tensors, blocks);
    } else if (w->axis == LAYOUT_EP && t->experts.n) {
        out.what = "all-to-all of tokens to their experts, and back";
        // of the group's tokens, whichever of its chips have some
        double all = 2 * t->routed * activation_bytes(p) / (s->groups * s->sequence * s->stages);
        out.comms = in_turns(n, s, COLLECTIVE_ALL_TO_ALL, all, 2 * (double)t->routed_layers / s->stages);
    } else if (w->axis == LAYOUT_PP && t->reductions) {
        out.what = "activations to the next stage";
        double stream = t->reduced / (double)t->reductions * size * s->stages / (s->layout.sp ? s->tensors : 1);
        out.comms = hand_over(n, s, stream);
    }
    return out;
}

// Why the batch cannot come in so many microbatches; NULL: it can.
static const char *why_not_cut(struct price *p, const struct layout *l, struct error *err)
{
    int64_t each = p->request.batch / layout_batch_ways(l);
    each = each < 1 ? 1 : each;
    if (!l->microbatches || each % l->microbatches == 0)
        return NULL;
    return arena_printf(&p->arena, err,
                        "mb=%" PRId64 " does not divide the %" PRId64 " of the batch that each pipeline gets; --batch "
                        "%" PRId64 " would do",
                        l->microbatches, each, l->microbatches * layout_batch_ways(l));
}

static const char *why_not(struct price *p, const struct layout *l, struct error *err)
{
    struct error e = {0};
    for (int i = 0; i < p->request.n_parts; i++) {
        const struct model_traffic *t = &p->request.parts[i].traffic;
        struct layout_limits limits = {.heads = t->heads,
                                       .kv_heads = t->kv_heads,
                                       .dense = !t->experts.n,
                                       .experts = t->experts.n,
                                       .layers = t->attentions};
        if (t->heads && layout_check(l, &limits, &e))
            return arena_printf(&p->arena, err, "%s: %s", p->request.parts[i].name, e.message);
    }
    return why_not_cut(p, l, err);
}

// Of a part and of its routed experts alone: arithmetic on one device, bytes of weights, and others.
struct work {
    double math_us, weights, rest;
};

static int work_of(struct price *p, const struct cost_row *rows, int n, const struct chip *chip, struct work *out,
                   const char **reason, struct error *err)
{
    struct whole_floor f;
    *out = (struct work){0};
    int rc = n ? roofline_whole(rows, n, chip, &p->arena, &f, err) : 0;
    if (rc || !n)
        return rc;
    out->math_us = f.time[WHOLE_MATH].value;
    if (isnan(out->math_us) && !*reason)
        *reason = f.time[WHOLE_MATH].source;
    for (int i = 0; i < n; i++) {
        out->weights += rows[i].cost.weight_bytes;
        out->rest += rows[i].cost.bytes_merged - rows[i].cost.weight_bytes;
    }
    out->rest = fmax(out->rest, 0);
    return 0;
}

static bool is_expert_row(const struct price *p, int i)
{
    const char *name = p->rows[i].group, *dot = strrchr(name, '.');
    return strcmp(dot ? dot + 1 : name, EXPERTS_GROUP) == 0; // "layer.3.experts" of rows by scope
}

// Rows of routed experts, copied.
static struct cost_row *expert_rows(struct price *p, const struct price_part *part, int *n, struct error *err)
{
    struct cost_row *rows = arena_new(&p->arena, struct cost_row, part->n_rows, err);
    *n = 0;
    for (int i = part->first_row; rows && i < part->first_row + part->n_rows; i++) {
        if (is_expert_row(p, i))
            rows[(*n)++] = p->rows[i];
    }
    return rows;
}

// Arithmetic and memory of a part on each of the chips that work on it, divided evenly, but for layers that stages do
// not share evenly: then the fullest one counts. Weights are read whole, but where they are divided for good, and by
// each microbatch.
static int divide_part(struct price *p, const struct price_part *part, const struct chip *chip, const struct share *s,
                       struct layout_price *out, struct error *err)
{
    struct work all, experts;
    int n, rc = 0;
    struct cost_row *rows = expert_rows(p, part, &n, err);
    if (!rows)
        return ERR_MEMORY;
    rc = work_of(p, &p->rows[part->first_row], part->n_rows, chip, &all, &out->reason, err);
    if (!rc)
        rc = work_of(p, rows, n, chip, &experts, &out->reason, err);
    if (rc)
        return rc;
    double layers = (double)part->part->traffic.attentions, stages = layers > 0 ? s->stages : 1; // else on one stage
    double fullest = layers > 0 ? ceil(layers / stages) / layers : 1;                            // of the layers
    double passes = layers > 0 ? turns(s) : s->microbatches;
    double ways = s->sequence * s->tensors, within = s->groups * s->experts;
    double math = (all.math_us - experts.math_us) / s->requests + experts.math_us / within;
    const struct model_traffic *t = &part->part->traffic;
    double read = experts.weights / s->experts; // fewer tokens at once choose fewer experts
    if (t->experts.n)
        read *= experts_touched(&t->experts, t->tokens / (s->groups * s->sequence * s->microbatches)) /
                experts_touched(&t->experts, t->tokens);
    double weights = all.weights - experts.weights + read;
    double rest = fmax(all.rest - experts.rest, 0) / s->requests + experts.rest / within;
    out->math_s += math * 1e-6 * fullest * passes / s->microbatches / (ways * chip->devices_per_chip);
    out->memory_s += (weights / s->tensors + rest / (ways * s->microbatches)) * fullest * passes /
                     chip_bandwidth(chip, CHIP_PER_CHIP).value;
    return 0;
}

static int divide(struct price *p, const struct chip *chip, const struct share *s, struct layout_price *out,
                  struct error *err)
{
    double dense = (double)p->weight_bytes + (double)p->scale_bytes - (double)p->expert_bytes;
    int rc = 0;
    for (int i = 0; i < p->request.n_parts && !rc; i++)
        rc = divide_part(p, &p->parts[i], chip, s, out, err);
    out->chips = fmax(s->requests, s->layout.ways[LAYOUT_EP] > 1 ? s->groups * s->experts : 0) * s->sequence *
                 s->tensors * s->stages;
    out->weight_bytes =
        (dense + (double)p->expert_bytes / s->experts) / (s->tensors * s->stages * (double)s->layout.ways[LAYOUT_FSDP]);
    return rc;
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

static bool uses(const struct layout_price *row, enum layout_axis axis)
{
    for (int i = 0; i < row->n_ways; i++) {
        if (row->ways[i].axis == axis)
            return true;
    }
    return false;
}

const char *layouts_note(struct price *p, const struct layouts *l, int i, struct error *err)
{
    static const char pipeline[] = " pp: stages work in turns, microbatches + stages - 1 of them, each as long as the "
                                   "fullest stage, and each reads its weights anew; a batch comes in mb= "
                                   "microbatches, one sequence each when not given.",
                      experts[] = " ep: experts are divided, the batch for everything else; experts are used evenly.";
    bool klein = price_note(p) != NULL && strcmp(l->target.chip->name, "v6e") == 0 && l->target.chips == 8;
    bool piped = false, expert = false;
    for (int k = 0; k < l->n; k++) {
        piped |= uses(&l->rows[k], LAYOUT_PP);
        expert |= uses(&l->rows[k], LAYOUT_EP) && !l->rows[k].reason;
    }
    switch (i) {
    case 0:
        return arena_printf(
            &p->arena, err,
            "Arithmetic, memory and what is sent are of a whole request (batch %" PRId64
            "), all its calls; what is sent each time stands in the second table. dp and fsdp divide the "
            "batch: chips beyond it idle. The others divide every call. Divided evenly, which is a bound.%s%s",
            p->request.batch, piped ? pipeline : "", expert ? experts : "");
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
