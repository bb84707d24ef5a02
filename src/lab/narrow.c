// SPDX-License-Identifier: Apache-2.0
#include "lab/narrow.h"

#include <limits.h>
#include <string.h>

#include "ir/hlo_cost.h"
#include "ir/hlo_text.h"

// Where a value comes from: of weights alone, of constants alone, or of anything else.
enum flow { FLOW_OTHER, FLOW_CONSTANT, FLOW_WEIGHT };
struct source {
    enum flow flow;
    double elements;            // stored elements of the largest weight it is made of
    const struct source *parts; // of a tuple: of each element; NULL: not known
    size_t n_parts;
};

static const struct source other = {FLOW_OTHER, 0, NULL, 0};

enum {
    MOST_DEPTH = 32,      // of calls inside calls
    MOST_VISITS = 4000000 // of instructions: a program that calls one computation from everywhere is left unread
};
#define MOST_RUNS 1e15 // of a loop in a loop: more are as good as these

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
    double runs; // how often the code at hand runs in a call
    struct error *err;
};

// What one instruction does with weights and activations, its called computations included.
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
    struct source out = {FLOW_CONSTANT, 0, NULL, 0};
    for (size_t k = 0; k < in->n_operands; k++) {
        const struct source *s = &values[in->operands[k] - c->instructions];
        if (s->flow == FLOW_OTHER)
            return other;
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

// ---- Instructions of a computation

// Of a tuple, for each of its elements.
static int make_parts(struct reader *r, const struct hlo_computation *c, const struct hlo_instruction *in,
                      const struct source *values, struct source *out)
{
    struct source *parts = arena_new(&r->scratch, struct source, in->n_operands + 1, r->err);
    if (!parts)
        return ERR_MEMORY;
    for (size_t k = 0; k < in->n_operands; k++)
        parts[k] = values[in->operands[k] - c->instructions];
    *out = join(values, in, c);
    out->parts = parts;
    out->n_parts = in->n_operands;
    return 0;
}

// What is cut out of a weight: a matrix of a stack by number, or by each run of a loop, so that all of it comes by. A
// row that is looked up is neither.
static struct source cut_out(const struct reader *r, const struct hlo_instruction *in, const struct source *values,
                             const struct hlo_computation *c)
{
    struct source from = values[in->operands[0] - c->instructions];
    double elements = (double)hlo_shape_elements(&in->shape);
    bool by_number = hlo_is(in, "slice") && in->operands[0]->shape.rank > 2;
    bool by_loop = hlo_is(in, "dynamic-slice") && r->runs > 1 && elements * r->runs >= from.elements;
    if (from.flow != FLOW_WEIGHT || !(by_number || by_loop))
        return join(values, in, c);
    from.elements = elements < from.elements ? elements : from.elements;
    return from;
}

// Where the result of an instruction that calls nothing comes from.
static int plain_source(struct reader *r, const struct hlo_computation *c, const struct hlo_instruction *in,
                        const struct source *values, struct source *out)
{
    const struct source *first = in->n_operands ? &values[in->operands[0] - c->instructions] : &other;
    if (hlo_is(in, "tuple"))
        return make_parts(r, c, in, values, out);
    if (ends_flow(in))
        *out = other;
    else if (hlo_is(in, "get-tuple-element"))
        *out = in->tuple_index >= 0 && (size_t)in->tuple_index < first->n_parts ? first->parts[in->tuple_index] : other;
    else if (in->n_operands && (hlo_is(in, "slice") || hlo_is(in, "dynamic-slice")))
        *out = cut_out(r, in, values, c);
    else
        *out = join(values, in, c);
    return 0;
}

static struct source argument_of(const struct hlo_instruction *in, const struct source *arguments, size_t n)
{
    return in->parameter >= 0 && (size_t)in->parameter < n ? arguments[in->parameter] : other;
}

static bool calls_one(const struct hlo_instruction *in)
{
    return in->n_called == 1 && (hlo_is(in, "fusion") || hlo_is(in, "call"));
}

static int visit(struct reader *r, const struct hlo_computation *c, int depth)
{
    r->visits += c->n_instructions;
    if (depth > MOST_DEPTH || r->visits > MOST_VISITS)
        return error_set(r->err, ERR_INPUT, "the optimised program", "calls too much from too many places");
    return 0;
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
    *out = callee->root ? inside[callee->root - callee->instructions] : other;
    return rc;
}

// Fills in `values`, one for each instruction of the computation, and adds up what is found.
static int follow(struct reader *r, const struct hlo_computation *c, const struct source *arguments, size_t n,
                  int depth, struct source *values, struct found *f)
{
    int rc = visit(r, c, depth);
    for (size_t i = 0; i < c->n_instructions && !rc; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        if (hlo_is(in, "parameter"))
            values[i] = argument_of(in, arguments, n);
        else if (calls_one(in))
            rc = follow_call(r, c, in, values, depth, &values[i], f);
        else
            rc = plain_source(r, c, in, values, &values[i]);
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
    w->largest[at].runs = r->runs;
    if (at == 0)
        w->type = array_type(&in->shape);
    w->largest[at].instruction = copy(r, in->name);
    w->largest[at].scope = copy(r, in->metadata.op_name);
    w->largest[at].shape = rc ? NULL : arena_strdup(r->arena, str_text(&shape), r->err);
    str_release(&shape);
    return w->largest[at].instruction && w->largest[at].scope && w->largest[at].shape ? 0 : ERR_MEMORY;
}

static void add_count(const struct reader *r, struct narrow_work *w, int count)
{
    double sum = w->count + count * r->runs;
    w->count = sum < INT_MAX ? (int)sum : INT_MAX;
}

// Adds an instruction with `elements` of this kind in it.
static int add(struct reader *r, struct narrow_work *w, const struct hlo_instruction *in, int count, double elements)
{
    struct hlo_cost cost = {.bytes = 0};
    int rc = hlo_cost_instruction(&r->costs, in, &cost, r->err);
    double written = hlo_cost_written_bytes(in);
    add_count(r, w, count);
    w->elements += r->runs * elements;
    w->element_flop += r->runs * cost.element_flop;
    w->written_bytes += r->runs * written;
    w->read_bytes += r->runs * (cost.bytes > written ? cost.bytes - written : 0);
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
static int add_scales(struct reader *r, const struct hlo_computation *c, const struct hlo_instruction *in,
                      bool *counted)
{
    int rc = 0;
    for (size_t k = 0; k < in->n_operands && !rc; k++) {
        const struct hlo_instruction *from = in->operands[k];
        size_t i = (size_t)(from - c->instructions);
        if (counted[i] || !finds_maximum(from, 0))
            continue;
        counted[i] = true;
        rc = add(r, &r->out->scales, from, 1, (double)hlo_shape_elements(&from->shape));
    }
    return rc;
}

static int sort_out(struct reader *r, const struct hlo_computation *c, const struct hlo_instruction *in,
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
        add_count(r, &o->inner, f->widened);
        o->inner.elements += r->runs * f->widened_inside;
        rc = keep_largest(r, &o->inner, in, hlo_cost_written_bytes(in));
    }
    if (!rc && f->quantised) {
        rc = add(r, &o->quantised, in, f->quantised, f->quantised_elements);
        rc = rc ? rc : add_scales(r, c, in, counted);
    }
    return rc;
}

// Weights are matrices; biases and scales of channels go with them as constants do.
static struct source argument(const struct reader *r, const struct hlo_instruction *in)
{
    if (in->parameter < 0 || (size_t)in->parameter >= r->n_parameters || !r->weights[in->parameter])
        return other;
    return in->shape.rank < 2 ? (struct source){FLOW_CONSTANT, 0, NULL, 0}
                              : (struct source){FLOW_WEIGHT, (double)hlo_shape_elements(&in->shape), NULL, 0};
}

static int read_code(struct reader *r, const struct hlo_computation *c, const struct source *arguments, size_t n,
                     int depth);

// Element k of a loop's state stays what it was: the body returns it as it came.
static bool stays(const struct hlo_computation *body, size_t k)
{
    const struct hlo_instruction *root = body->root;
    if (!root || !hlo_is(root, "tuple") || k >= root->n_operands)
        return false;
    const struct hlo_instruction *in = root->operands[k];
    return hlo_is(in, "get-tuple-element") && in->tuple_index == (int64_t)k && in->n_operands == 1 &&
           hlo_is(in->operands[0], "parameter");
}

// Reads a loop's body, whose weights are those of its state that stay, as often as it runs.
static int read_loop(struct reader *r, const struct hlo_computation *c, const struct hlo_instruction *in,
                     const struct source *values, int depth, struct source *out)
{
    const struct hlo_computation *body = in->n_called == 2 ? in->called[0] : NULL;
    const struct source *state = in->n_operands ? &values[in->operands[0] - c->instructions] : &other;
    struct source *parts = arena_new(&r->scratch, struct source, state->n_parts + 1, r->err);
    int64_t trips = -1;
    double before = r->runs;
    *out = other;
    int rc = parts ? hlo_trip_count(r->m, in, &r->scratch, &trips, r->err) : ERR_MEMORY;
    if (rc || !body)
        return rc;
    for (size_t k = 0; k < state->n_parts; k++)
        parts[k] = stays(body, k) ? state->parts[k] : other;
    *out = (struct source){FLOW_OTHER, 0, parts, state->n_parts};
    r->out->loops_unknown |= trips < 0;
    r->runs *= trips < 0 ? 1 : (double)trips;
    r->runs = r->runs < MOST_RUNS ? r->runs : MOST_RUNS;
    if (trips != 0)
        rc = read_code(r, body, out, 1, depth + 1);
    r->runs = before;
    return rc;
}

// The entry, or the body of a loop: what each instruction does, what it calls included.
static int read_code(struct reader *r, const struct hlo_computation *c, const struct source *arguments, size_t n,
                     int depth)
{
    struct source *values = arena_new(&r->scratch, struct source, c->n_instructions + 1, r->err);
    bool *counted = arena_new(&r->scratch, bool, c->n_instructions + 1, r->err);
    int rc = values && counted ? visit(r, c, depth) : ERR_MEMORY;
    for (size_t i = 0; i < c->n_instructions && !rc; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        struct found f = {.widened = 0};
        if (hlo_is(in, "parameter")) {
            values[i] = arguments ? argument_of(in, arguments, n) : argument(r, in);
            continue;
        }
        if (hlo_is(in, "while")) {
            rc = read_loop(r, c, in, values, depth, &values[i]);
            continue;
        }
        rc = calls_one(in) ? follow_call(r, c, in, values, depth, &values[i], &f)
                           : plain_source(r, c, in, values, &values[i]);
        if (!rc)
            look(r, in, &values[i], &f);
        if (!rc)
            rc = sort_out(r, c, in, &values[i], &f, counted);
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
                       .runs = 1,
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
        rc = read_code(&r, m.entry, NULL, 0, 0);
    }
    arena_release(&r.scratch);
    return rc;
}
