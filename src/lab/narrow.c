// SPDX-License-Identifier: Apache-2.0
#include "lab/narrow.h"

#include <string.h>

#include "ir/hlo_cost.h"
#include "ir/hlo_text.h"

// Where a value comes from: of weights alone, of constants alone, or of anything else.
enum flow { FLOW_OTHER, FLOW_CONSTANT, FLOW_WEIGHT };
struct source {
    enum flow flow;
    double elements; // stored elements of the largest weight it is made of
};

enum {
    MOST_DEPTH = 32,       // of calls inside calls
    MOST_VISITS = 20000000 // of instructions: a program that calls one computation from everywhere is left unread
};

struct reader {
    struct narrow *out;
    const struct hlo_module *m;
    struct hlo_costs costs;
    const bool *weights;
    size_t n_parameters;
    enum dtype quantised;
    struct arena *arena; // the caller's, for names
    struct arena scratch;
    size_t visits;
    struct error *err;
};

// What one instruction of the entry does with weights and activations, its called computations included.
struct found {
    double widened_inside; // elements of whole weights that are converted to a wider type
    int widened;
    int unpacked; // shifts of weights: codes of less than a byte taken apart
    int quantised;
    double quantised_elements;
};

// ---- Where values come from

static bool is_any(const struct hlo_instruction *in, const char *const *opcodes)
{
    for (; *opcodes; opcodes++) {
        if (hlo_is(in, *opcodes))
            return true;
    }
    return false;
}

// What is made of weights alone by these is no weight any more.
static bool ends_flow(const struct hlo_instruction *in)
{
    static const char *const list[] = {"dot",
                                       "convolution",
                                       "custom-call",
                                       "reduce",
                                       "reduce-window",
                                       "while",
                                       "conditional",
                                       "sort",
                                       "scatter",
                                       "rng",
                                       "infeed",
                                       "recv",
                                       "all-reduce",
                                       "all-to-all",
                                       "all-gather",
                                       "reduce-scatter",
                                       "collective-permute",
                                       "rng-bit-generator",
                                       "partition-id",
                                       "replica-id",
                                       NULL};
    return is_any(in, list);
}

static struct source join(const struct source *values, const struct hlo_instruction *in,
                          const struct hlo_computation *c)
{
    struct source out = {FLOW_CONSTANT, 0};
    for (size_t k = 0; k < in->n_operands; k++) {
        const struct source *s = &values[in->operands[k] - c->instructions];
        if (s->flow == FLOW_OTHER)
            return (struct source){FLOW_OTHER, 0};
        if (s->flow == FLOW_WEIGHT) {
            out.flow = FLOW_WEIGHT;
            out.elements = s->elements > out.elements ? s->elements : out.elements;
        }
    }
    return out;
}

static enum dtype array_type(const struct hlo_shape *s)
{
    return s->kind == HLO_ARRAY ? s->dtype : DT_INVALID;
}

static bool is_wide_float(enum dtype t)
{
    return t != DT_INVALID && dtype_is_float(t) && dtype_info(t)->bits > 8;
}

// A whole weight, as many elements as are stored of it: not a row that is looked up.
static bool is_whole(const struct hlo_instruction *in, const struct source *s)
{
    return s->flow == FLOW_WEIGHT && (double)hlo_shape_elements(&in->shape) >= s->elements && s->elements > 1;
}

static void look(const struct reader *r, const struct hlo_instruction *in, const struct source *self, struct found *f)
{
    double elements = (double)hlo_shape_elements(&in->shape);
    if (hlo_is(in, "shift-right-logical") || hlo_is(in, "shift-right-arithmetic"))
        f->unpacked += is_whole(in, self);
    if (!hlo_is(in, "convert") || in->n_operands != 1)
        return;
    enum dtype from = array_type(&in->operands[0]->shape), to = array_type(&in->shape);
    if (from == DT_INVALID || to == DT_INVALID)
        return;
    if (is_whole(in, self) && dtype_info(to)->bits > dtype_info(from)->bits) {
        f->widened++;
        f->widened_inside += elements;
    }
    // Codes of a table that were looked up, widened and are narrowed again lose nothing: no arithmetic is before that.
    static const char *const moves[] = {"convert",   "parameter", "gather",    "bitcast", "copy",          "reshape",
                                        "transpose", "reverse",   "broadcast", "slice",   "dynamic-slice", NULL};
    if (self->flow == FLOW_OTHER && r->quantised != DT_INVALID && to == r->quantised && is_wide_float(from) &&
        !is_any(in->operands[0], moves)) {
        f->quantised++;
        f->quantised_elements += elements;
    }
}

static int follow(struct reader *r, const struct hlo_computation *c, const struct source *arguments, size_t n,
                  int depth, struct source *values, struct found *f);

// The result of a call: what its computation returns, given where its arguments come from.
static int follow_call(struct reader *r, const struct hlo_computation *c, const struct hlo_instruction *in,
                       const struct source *values, int depth, struct source *out, struct found *f)
{
    const struct hlo_computation *callee = in->called[0];
    struct source *arguments = arena_new(&r->scratch, struct source, in->n_operands + 1, r->err);
    struct source *inside = arena_new(&r->scratch, struct source, callee->n_instructions + 1, r->err);
    if (!arguments || !inside)
        return ERR_MEMORY;
    for (size_t k = 0; k < in->n_operands; k++)
        arguments[k] = values[in->operands[k] - c->instructions];
    int rc = follow(r, callee, arguments, in->n_operands, depth + 1, inside, f);
    *out = callee->root ? inside[callee->root - callee->instructions] : (struct source){FLOW_OTHER, 0};
    return rc;
}

// Fills in `values`, one for each instruction of the computation, and adds up what is found.
static int follow(struct reader *r, const struct hlo_computation *c, const struct source *arguments, size_t n,
                  int depth, struct source *values, struct found *f)
{
    int rc = 0;
    r->visits += c->n_instructions;
    if (depth > MOST_DEPTH || r->visits > MOST_VISITS)
        return error_set(r->err, ERR_INPUT, "the optimised program", "calls too much from too many places");
    for (size_t i = 0; i < c->n_instructions && !rc; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        bool calls = in->n_called == 1 && (hlo_is(in, "fusion") || hlo_is(in, "call"));
        if (hlo_is(in, "parameter"))
            values[i] = in->parameter >= 0 && (size_t)in->parameter < n ? arguments[in->parameter]
                                                                        : (struct source){FLOW_OTHER, 0};
        else if (calls)
            rc = follow_call(r, c, in, values, depth, &values[i], f);
        else if (ends_flow(in))
            values[i] = (struct source){FLOW_OTHER, 0};
        else
            values[i] = join(values, in, c);
        if (!rc)
            look(r, in, &values[i], f);
    }
    return rc;
}

// ---- Adding up

static const char *copy(struct reader *r, struct slice s)
{
    return arena_strndup(r->arena, s.data ? (const char *)s.data : "", s.size, r->err);
}

// Puts an instruction among the largest, where it belongs to them.
static int keep_largest(struct reader *r, struct narrow_work *w, const struct hlo_instruction *in, double bytes)
{
    int at = w->n_largest < NARROW_NAMES ? w->n_largest : NARROW_NAMES;
    while (at > 0 && bytes > w->largest[at - 1].bytes)
        at--;
    if (at == NARROW_NAMES)
        return 0;
    if (w->n_largest < NARROW_NAMES)
        w->n_largest++;
    memmove(&w->largest[at + 1], &w->largest[at], (size_t)(w->n_largest - 1 - at) * sizeof w->largest[0]);
    struct str shape;
    str_init(&shape);
    hlo_text_shape(&shape, &in->shape, false);
    int rc = str_check(&shape, r->err);
    w->largest[at].bytes = bytes;
    if (at == 0)
        w->type = array_type(&in->shape);
    w->largest[at].instruction = copy(r, in->name);
    w->largest[at].scope = copy(r, in->metadata.op_name);
    w->largest[at].shape = rc ? NULL : arena_strdup(r->arena, str_text(&shape), r->err);
    str_release(&shape);
    return w->largest[at].instruction && w->largest[at].scope && w->largest[at].shape ? 0 : ERR_MEMORY;
}

// Adds an instruction of the entry with `elements` of this kind in it.
static int add(struct reader *r, struct narrow_work *w, const struct hlo_instruction *in, int count, double elements)
{
    struct hlo_cost cost = {.bytes = 0};
    int rc = hlo_cost_instruction(&r->costs, in, &cost, r->err);
    double written = hlo_cost_written_bytes(in);
    w->count += count;
    w->elements += elements;
    w->element_flop += cost.element_flop;
    w->written_bytes += written;
    w->read_bytes += cost.bytes > written ? cost.bytes - written : 0;
    return rc ? rc : keep_largest(r, w, in, written);
}

static bool finds_maximum(const struct hlo_instruction *in, int depth)
{
    if (hlo_is(in, "reduce") && in->n_called == 1 && in->called[0]->root)
        return hlo_is(in->called[0]->root, "maximum");
    bool found = false;
    bool calls = hlo_is(in, "fusion") || hlo_is(in, "call");
    for (size_t c = 0; c < in->n_called && calls && depth < MOST_DEPTH && !found; c++) {
        for (size_t i = 0; i < in->called[c]->n_instructions && !found; i++)
            found = finds_maximum(&in->called[c]->instructions[i], depth + 1);
    }
    return found;
}

// What a quantisation takes its scale from: operands that are maxima. Each is counted once.
static int add_scales(struct reader *r, const struct hlo_computation *entry, const struct hlo_instruction *in,
                      bool *counted)
{
    int rc = 0;
    for (size_t k = 0; k < in->n_operands && !rc; k++) {
        const struct hlo_instruction *from = in->operands[k];
        size_t i = (size_t)(from - entry->instructions);
        if (counted[i] || !finds_maximum(from, 0))
            continue;
        counted[i] = true;
        rc = add(r, &r->out->scales, from, 1, (double)hlo_shape_elements(&from->shape));
    }
    return rc;
}

static int sort_out(struct reader *r, const struct hlo_computation *entry, const struct hlo_instruction *in,
                    const struct source *self, const struct found *f, bool *counted)
{
    struct narrow *o = r->out;
    static const char *const moves[] = {"copy", "transpose", "fusion", NULL};
    double elements = (double)hlo_shape_elements(&in->shape);
    bool whole = is_whole(in, self) && in->shape.kind == HLO_ARRAY;
    int rc = 0;
    if (whole && (f->widened || f->unpacked))
        rc = add(r, &o->widened, in, 1, elements);
    else if (whole && is_any(in, moves))
        rc = add(r, &o->copied, in, 1, elements);
    else if (f->widened) {
        o->inner.count += f->widened;
        o->inner.elements += f->widened_inside;
        rc = keep_largest(r, &o->inner, in, hlo_cost_written_bytes(in));
    }
    if (!rc && f->quantised) {
        rc = add(r, &o->quantised, in, f->quantised, f->quantised_elements);
        rc = rc ? rc : add_scales(r, entry, in, counted);
    }
    return rc;
}

// Weights are matrices; biases and scales of channels go with them as constants do.
static struct source argument(const struct reader *r, const struct hlo_instruction *in)
{
    if (in->parameter < 0 || (size_t)in->parameter >= r->n_parameters || !r->weights[in->parameter])
        return (struct source){FLOW_OTHER, 0};
    return in->shape.rank < 2 ? (struct source){FLOW_CONSTANT, 0}
                              : (struct source){FLOW_WEIGHT, (double)hlo_shape_elements(&in->shape)};
}

static int read_entry(struct reader *r)
{
    const struct hlo_computation *entry = r->m->entry;
    size_t n = entry->n_instructions;
    struct source *values = arena_new(&r->scratch, struct source, n + 1, r->err);
    bool *counted = arena_new(&r->scratch, bool, n + 1, r->err);
    int rc = values && counted ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct hlo_instruction *in = &entry->instructions[i];
        struct found f = {.widened = 0};
        bool calls = in->n_called == 1 && (hlo_is(in, "fusion") || hlo_is(in, "call"));
        r->out->loops |= hlo_is(in, "while");
        if (hlo_is(in, "parameter")) {
            values[i] = argument(r, in);
            continue;
        }
        if (calls)
            rc = follow_call(r, entry, in, values, 0, &values[i], &f);
        else
            values[i] = ends_flow(in) ? (struct source){FLOW_OTHER, 0} : join(values, in, entry);
        if (!rc)
            look(r, in, &values[i], &f);
        if (!rc)
            rc = sort_out(r, entry, in, &values[i], &f, counted);
    }
    return rc;
}

int narrow_read(struct narrow *out, const void *hlo, size_t n, const bool *weights, size_t n_parameters,
                enum dtype quantised, struct arena *arena, struct error *err)
{
    struct hlo_module m;
    struct reader r = {.out = out,
                       .m = &m,
                       .weights = weights,
                       .n_parameters = n_parameters,
                       .quantised = quantised,
                       .arena = arena,
                       .err = err};
    memset(out, 0, sizeof *out);
    out->widened.type = out->inner.type = out->copied.type = out->quantised.type = out->scales.type = DT_INVALID;
    arena_init(&r.scratch);
    int rc = hlo_read(&m, hlo, n, "the optimised program", &r.scratch, err);
    if (!rc)
        rc = hlo_costs_init(&r.costs, &m, &r.scratch, err);
    if (!rc) {
        const struct hlo_cost *all = hlo_cost_module(&r.costs);
        memcpy(out->product_flop, all->product_flop, sizeof out->product_flop);
        out->bytes = all->bytes;
        rc = read_entry(&r);
    }
    arena_release(&r.scratch);
    return rc;
}
