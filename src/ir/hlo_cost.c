// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_cost.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/hlo_cost_part.h"

// What a fused computation reads of a parameter: all of it, or so many bytes of it.
struct hlo_reads {
    double *bytes; // by parameter number
    size_t n;
};

struct pricing {
    const struct hlo_costs *c;
    const struct hlo_instruction *in;
    struct arena *scratch;
    struct hlo_cost *out;
    struct error *err;
};

static double clamp(double v)
{
    return v < DBL_MAX ? v : DBL_MAX;
}

double hlo_cost_product_flop(const struct hlo_cost *c)
{
    double v = 0;
    for (int i = 0; i < DT_COUNT; i++)
        v += c->product_flop[i];
    return clamp(v);
}

double hlo_cost_flop(const struct hlo_cost *c)
{
    return c->flop_reason ? NAN : clamp(hlo_cost_product_flop(c) + c->element_flop);
}

double hlo_cost_bytes(const struct hlo_cost *c)
{
    return c->bytes_reason ? NAN : c->bytes;
}

void hlo_cost_add(struct hlo_cost *to, const struct hlo_cost *c, double times)
{
    for (int i = 0; i < DT_COUNT; i++)
        to->product_flop[i] = clamp(to->product_flop[i] + clamp(times * c->product_flop[i]));
    to->element_flop = clamp(to->element_flop + clamp(times * c->element_flop));
    to->transcendentals = clamp(to->transcendentals + clamp(times * c->transcendentals));
    to->bytes = clamp(to->bytes + clamp(times * c->bytes));
    if (!to->flop_reason)
        to->flop_reason = c->flop_reason;
    if (!to->bytes_reason)
        to->bytes_reason = c->bytes_reason;
}

static const struct hlo_cost *computation(const struct pricing *p, size_t called)
{
    static const struct hlo_cost none = {.flop_reason = "a computation that it should call is not there",
                                         .bytes_reason = "a computation that it should call is not there"};
    return called < p->in->n_called ? &p->c->computations[p->in->called[called] - p->c->m->computations] : &none;
}

// The arithmetic of a computation applied to elements: its bytes are registers.
static void apply(const struct pricing *p, size_t called, double times)
{
    struct hlo_cost body = *computation(p, called);
    body.bytes = 0;
    body.bytes_reason = NULL;
    hlo_cost_add(p->out, &body, times > 0 ? times : 0);
}

static double elements(const struct hlo_shape *s)
{
    return (double)hlo_shape_elements(s);
}

static double bytes_of(const struct hlo_shape *s)
{
    return (double)hlo_shape_bytes(s);
}

static double operand_bytes(const struct hlo_instruction *in, size_t from)
{
    double v = 0;
    for (size_t i = from; i < in->n_operands; i++)
        v += bytes_of(&in->operands[i]->shape);
    return v;
}

static const struct hlo_shape *operand(const struct hlo_instruction *in, size_t i)
{
    static const struct hlo_shape none = {.kind = HLO_TOKEN};
    return i < in->n_operands ? &in->operands[i]->shape : &none;
}

const struct hlo_shape *hlo_first_array(const struct hlo_shape *s)
{
    while (s->kind == HLO_TUPLE && s->n_elements)
        s = &s->elements[0];
    return s;
}

static int attributes(const struct pricing *p, struct hlo_attributes *a)
{
    return hlo_attributes_read(a, p->c->m, p->in, p->scratch, p->err);
}

static void product(struct hlo_cost *out, enum dtype type, double flop, const char *reason)
{
    if (isnan(flop))
        out->flop_reason = reason;
    else
        out->product_flop[type] = clamp(out->product_flop[type] + flop);
}

// ---- Arithmetic by opcode

static int price_dot(struct pricing *p)
{
    struct hlo_attributes a;
    int rc = attributes(p, &a);
    if (!rc)
        product(p->out, operand(p->in, 0)->dtype,
                a.has_dot ? hlo_dot_flop(&a.dot, operand(p->in, 0), &p->in->shape) : NAN,
                "a product whose dimension numbers do not fit");
    return rc;
}

static int price_convolution(struct pricing *p)
{
    struct hlo_attributes a;
    int rc = attributes(p, &a);
    if (!rc)
        product(p->out, operand(p->in, 0)->dtype,
                hlo_convolution_flop(&a, operand(p->in, 0), operand(p->in, 1), &p->in->shape),
                "a convolution whose dimension numbers do not fit");
    return rc;
}

static int price_reduce(struct pricing *p)
{
    apply(p, 0, elements(operand(p->in, 0)) - elements(hlo_first_array(&p->in->shape)));
    return 0;
}

static int price_map(struct pricing *p)
{
    apply(p, 0, elements(hlo_first_array(&p->in->shape)));
    return 0;
}

static int price_scan(struct pricing *p)
{
    apply(p, 0, elements(operand(p->in, 0)));
    return 0;
}

static double window_elements(const struct hlo_attributes *a)
{
    double n = 1;
    for (size_t i = 0; i < a->n_window; i++)
        n *= a->window[i].size > 0 ? (double)a->window[i].size : 0;
    return n;
}

// A reduction that is broadcast back to its whole extent is written as a window twice as long with padding on both
// sides: it takes one reduction and not one for each element. XLA counts it so.
static double broadcast_reduction(const struct hlo_attributes *a, const struct hlo_shape *out)
{
    size_t wide = 0, padded = 0, at = 0;
    for (size_t i = 0; i < a->n_window; i++) {
        wide += a->window[i].size != 1;
        padded += a->window[i].pad_low || a->window[i].pad_high;
        at = a->window[i].size != 1 ? i : at;
    }
    if (wide != 1 || padded != 1 || at >= (size_t)out->rank)
        return NAN;
    const struct hlo_window *w = &a->window[at];
    if (w->pad_low < 1 || w->pad_low != w->pad_high || w->pad_low != out->dims[at] - 1 ||
        w->size - 1 != w->pad_low + w->pad_high)
        return NAN;
    double extent = (double)out->dims[at];
    return floor(elements(out) / extent) + extent - 1;
}

static int price_reduce_window(struct pricing *p)
{
    struct hlo_attributes a;
    int rc = attributes(p, &a);
    if (rc)
        return rc;
    double count = p->in->shape.kind == HLO_ARRAY ? broadcast_reduction(&a, &p->in->shape) : NAN;
    if (isnan(count))
        count = (window_elements(&a) - 1) * elements(hlo_first_array(&p->in->shape));
    apply(p, 0, count);
    return 0;
}

static int price_select_and_scatter(struct pricing *p)
{
    struct hlo_attributes a;
    double source = elements(operand(p->in, 1));
    int rc = attributes(p, &a);
    if (!rc) {
        apply(p, 0, source * (window_elements(&a) - 1));
        apply(p, 1, source);
    }
    return rc;
}

static int price_scatter(struct pricing *p)
{
    size_t n = p->in->n_operands / 2; // operands, the indices, updates
    apply(p, 0, elements(operand(p->in, n + 1)));
    p->out->bytes = bytes_of(operand(p->in, n));
    for (size_t i = n + 1; i < p->in->n_operands; i++)
        p->out->bytes += 3 * bytes_of(operand(p->in, i));
    return 0;
}

static int price_sort(struct pricing *p)
{
    double n = elements(operand(p->in, 0));
    p->out->element_flop = n > 1 ? n * ceil(log2(n)) : 0;
    return 0;
}

static int price_fft(struct pricing *p)
{
    struct hlo_attributes a;
    double logs = 1;
    int rc = attributes(p, &a);
    for (size_t i = 0; !rc && i < a.fft_length.n; i++)
        logs *= a.fft_length.at[i] > 0 ? floor(log2((double)a.fft_length.at[i])) : 0;
    p->out->element_flop = clamp(8 * logs * elements(hlo_first_array(operand(p->in, 0))));
    return rc;
}

static double last_extent(const struct hlo_shape *s)
{
    return s->kind == HLO_ARRAY && s->rank ? (double)s->dims[s->rank - 1] : 1;
}

static int price_triangular_solve(struct pricing *p)
{
    p->out->element_flop = 2 * last_extent(operand(p->in, 0)) * elements(operand(p->in, 1));
    p->out->bytes = bytes_of(&p->in->shape) + bytes_of(operand(p->in, 0)) / 2 + bytes_of(operand(p->in, 1));
    return 0;
}

static int price_cholesky(struct pricing *p)
{
    p->out->element_flop = floor(last_extent(operand(p->in, 0)) * elements(operand(p->in, 0)) / 3);
    p->out->bytes = bytes_of(operand(p->in, 0));
    return 0;
}

static int price_all_reduce(struct pricing *p)
{
    p->out->element_flop = elements(&p->in->shape);
    return 0;
}

static int price_random(struct pricing *p)
{
    p->out->transcendentals = elements(&p->in->shape);
    return 0;
}

// ---- What is moved

static int price_slice(struct pricing *p)
{
    p->out->bytes = 2 * bytes_of(&p->in->shape) + operand_bytes(p->in, 1);
    return 0;
}

static int price_update(struct pricing *p)
{
    p->out->bytes = 2 * bytes_of(operand(p->in, 1)) + operand_bytes(p->in, 2);
    return 0;
}

static int price_infeed(struct pricing *p)
{
    p->out->bytes = bytes_of(&p->in->shape);
    return 0;
}

static int price_outfeed(struct pricing *p)
{
    p->out->bytes = operand_bytes(p->in, 0);
    return 0;
}

// The result of a start holds the operands and the result: only the latter is written.
static int price_start(struct pricing *p)
{
    const struct hlo_shape *s = &p->in->shape;
    if (s->kind == HLO_TUPLE && s->n_elements >= 2)
        s = &s->elements[hlo_is(p->in, "copy-start") ? 0 : 1];
    p->out->bytes = operand_bytes(p->in, 0) + bytes_of(s);
    return 0;
}

// Extents of 1 do not matter to where things lie.
static size_t order(const struct hlo_shape *s, const struct hlo_numbers *permutation, int64_t *out, size_t max)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(s->layout.data, s->layout.size);
    size_t n = 0;
    while (pb_next(&r, &f)) {
        const uint8_t *at, *end = hlo_packed(&f, &at);
        uint64_t v;
        while (f.number == 1 && f.wire == PB_BYTES && at < end && (at = pb_get_varint(at, end, &v))) {
            if (v >= (uint64_t)s->rank || n == max)
                return 0;
            if (s->dims[v] != 1)
                out[n++] = permutation ? permutation->at[v] : (int64_t)v;
        }
    }
    return n;
}

static int price_transpose(struct pricing *p)
{
    struct hlo_attributes a;
    int64_t from[16], to[16];
    const struct hlo_shape *in = operand(p->in, 0), *out = &p->in->shape;
    int rc = attributes(p, &a);
    if (rc || a.dimensions.n != (size_t)out->rank || in->kind != HLO_ARRAY)
        return rc;
    size_t n = order(in, NULL, from, 16), k = order(out, &a.dimensions, to, 16);
    if (n && n == k && memcmp(from, to, n * sizeof *from) == 0)
        p->out->bytes = 0;
    return 0;
}

// ---- Calls

static int price_call(struct pricing *p)
{
    *p->out = *computation(p, 0);
    return 0;
}

static int price_conditional(struct pricing *p)
{
    *p->out = *computation(p, 0);
    for (size_t i = 1; i < p->in->n_called; i++) {
        const struct hlo_cost *c = computation(p, i);
        for (int t = 0; t < DT_COUNT; t++)
            p->out->product_flop[t] = fmax(p->out->product_flop[t], c->product_flop[t]);
        p->out->element_flop = fmax(p->out->element_flop, c->element_flop);
        p->out->transcendentals = fmax(p->out->transcendentals, c->transcendentals);
        p->out->bytes = fmax(p->out->bytes, c->bytes);
        p->out->flop_reason = p->out->flop_reason ? p->out->flop_reason : c->flop_reason;
        p->out->bytes_reason = p->out->bytes_reason ? p->out->bytes_reason : c->bytes_reason;
    }
    return 0;
}

static int price_while(struct pricing *p)
{
    int64_t n;
    int rc = hlo_trip_count(p->c->m, p->in, p->scratch, &n, p->err);
    if (rc)
        return rc;
    p->out->bytes = 0;
    hlo_cost_add(p->out, computation(p, 0), n < 0 ? 1 : (double)n);
    hlo_cost_add(p->out, computation(p, 1), n < 0 ? 1 : (double)n + 1);
    if (n < 0)
        p->out->flop_reason = p->out->bytes_reason = "a loop that runs as often as its data say";
    return 0;
}

static int price_custom_call(struct pricing *p)
{
    struct hlo_attributes a;
    int rc = attributes(p, &a);
    p->out->bytes = 0;
    if (!rc)
        hlo_custom_call_cost(p->in, &a, p->out);
    return rc;
}

// ---- Fusions

// Through what only renames.
static const struct hlo_instruction *behind(const struct hlo_instruction *in)
{
    for (int hops = 0; hops < 64 && in->n_operands == 1 && (hlo_is(in, "bitcast") || hlo_is(in, "bitcast-convert"));
         hops++)
        in = in->operands[0];
    return in;
}

static bool is_update(const struct hlo_instruction *in)
{
    return hlo_is(in, "dynamic-update-slice") && in->n_operands >= 2;
}

// What a fusion writes for one of its results: of an update in place, the update.
static double written(const struct hlo_instruction *root)
{
    const struct hlo_instruction *in = behind(root);
    return bytes_of(is_update(in) ? &in->operands[1]->shape : &root->shape);
}

// Values of one computation, walked over backwards.
struct values {
    const struct hlo_costs *costs;
    const struct hlo_computation *c;
    double *reads;  // of each, as far as its users have been seen
    bool *in_place; // an update of what the computation returns
};

static void mark_updates(struct values *v)
{
    const struct hlo_instruction *root = behind(v->c->root);
    v->in_place[root - v->c->instructions] = is_update(root);
    for (size_t i = 0; hlo_is(root, "tuple") && i < root->n_operands; i++) {
        const struct hlo_instruction *in = behind(root->operands[i]);
        v->in_place[in - v->c->instructions] = is_update(in);
    }
}

static bool is_rename(const struct hlo_instruction *in)
{
    return in->n_operands == 1 && (hlo_is(in, "bitcast") || hlo_is(in, "bitcast-convert") || hlo_is(in, "copy"));
}

// Whether it hands its operand on as it is: inside a fusion also a copy, of which no more is made than is used, and a
// fusion of copies (libtpu puts a stack of codes into other tiles so, in front of the slice that it takes).
static bool hands_on(const struct hlo_instruction *in)
{
    if (hlo_is(in, "get-tuple-element") || is_rename(in))
        return true;
    if (!hlo_is(in, "fusion") || !in->n_called || in->n_operands != 1)
        return false;
    in = in->called[0]->root;
    for (int hops = 0; hops < 64 && is_rename(in); hops++)
        in = in->operands[0];
    return hlo_is(in, "parameter");
}

// What the user reads of its operand k.
static double user_reads(const struct values *v, const struct hlo_instruction *user, size_t k)
{
    size_t at = (size_t)(user - v->c->instructions);
    if (hands_on(user))
        return v->reads[at];
    if (k == 0 && (hlo_is(user, "slice") || hlo_is(user, "dynamic-slice") || hlo_is(user, "gather")))
        return bytes_of(&user->shape);
    if (k == 0 && v->in_place[at])
        return 0;
    if (hlo_is(user, "fusion") && user->n_called) {
        const struct hlo_reads *inner = &v->costs->reads[user->called[0] - v->costs->m->computations];
        return k < inner->n ? inner->bytes[k] : 0;
    }
    return bytes_of(&user->operands[k]->shape);
}

// Users come later, so one pass backwards has seen all of a value's before the value. No more than the whole is read.
static int find_reads(const struct hlo_costs *costs, const struct hlo_computation *c, struct arena *scratch,
                      struct error *err)
{
    struct hlo_reads *out = &costs->reads[c - costs->m->computations];
    struct values v = {costs, c, arena_new(scratch, double, c->n_instructions, err),
                       arena_new(scratch, bool, c->n_instructions, err)};
    size_t n = 0;
    for (size_t i = 0; i < c->n_instructions; i++)
        n += hlo_is(&c->instructions[i], "parameter");
    out->bytes = arena_new(costs->arena, double, n, err);
    if (!v.reads || !v.in_place || !out->bytes)
        return ERR_MEMORY;
    out->n = n;
    mark_updates(&v);
    for (size_t i = c->n_instructions; i-- > 0;) {
        const struct hlo_instruction *in = &c->instructions[i];
        double all = bytes_of(&in->shape);
        v.reads[i] = in != c->root && v.reads[i] < all ? v.reads[i] : all;
        if (hlo_is(in, "parameter") && in->parameter >= 0 && (uint64_t)in->parameter < n)
            out->bytes[in->parameter] = v.reads[i];
        for (size_t k = 0; k < in->n_operands; k++)
            v.reads[in->operands[k] - c->instructions] += user_reads(&v, in, k);
    }
    return 0;
}

double hlo_cost_read_bytes(const struct hlo_costs *c, const struct hlo_instruction *in, size_t k)
{
    if (k >= in->n_operands)
        return 0;
    if (k == 0 && (hlo_is(in, "slice") || hlo_is(in, "dynamic-slice") || hlo_is(in, "gather")))
        return bytes_of(&in->shape);
    if (k == 0 && is_update(in))
        return 0;
    if (!hlo_is(in, "fusion") || !in->n_called)
        return bytes_of(&in->operands[k]->shape);
    const struct hlo_reads *reads = &c->reads[in->called[0] - c->m->computations];
    return k < reads->n ? reads->bytes[k] : 0;
}

double hlo_cost_written_bytes(const struct hlo_instruction *in)
{
    const struct hlo_instruction *root = hlo_is(in, "fusion") && in->n_called ? in->called[0]->root : in;
    if (!hlo_is(root, "tuple"))
        return written(root);
    double v = 0;
    for (size_t i = 0; i < root->n_operands; i++)
        v += written(root->operands[i]);
    return v;
}

static int price_fusion(struct pricing *p)
{
    *p->out = *computation(p, 0);
    p->out->bytes = 0;
    p->out->bytes_reason = NULL;
    if (!p->in->n_called)
        return 0;
    const struct hlo_computation *c = p->in->called[0];
    const struct hlo_reads *reads = &p->c->reads[c - p->c->m->computations];
    p->out->bytes += hlo_cost_written_bytes(p->in);
    for (size_t i = 0; i < reads->n; i++)
        p->out->bytes += reads->bytes[i];
    for (size_t i = 0; i < c->n_instructions; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        if (hlo_is(in, "constant") && hlo_shape_elements(&in->shape) > 1)
            p->out->bytes += bytes_of(&in->shape);
    }
    p->out->bytes = clamp(p->out->bytes);
    return 0;
}

// ---- All opcodes

static int price_nothing(struct pricing *p)
{
    p->out->bytes = 0;
    return 0;
}

static int price_move(struct pricing *p)
{
    (void)p; // operands and result
    return 0;
}

static int price_element(struct pricing *p)
{
    p->out->element_flop = elements(&p->in->shape);
    return 0;
}

struct rule {
    const char *opcode;
    int (*price)(struct pricing *);
    bool elementwise;
};

// Sorted by opcode.
static const struct rule rules[] = {
    {"abs", price_element, true},
    {"acos", price_random, true},
    {"acosh", price_random, true},
    {"add", price_element, true},
    {"add-dependency", price_nothing, false},
    {"after-all", price_nothing, false},
    {"all-gather", price_move, false},
    {"all-gather-done", price_nothing, false},
    {"all-gather-start", price_start, false},
    {"all-reduce", price_all_reduce, false},
    {"all-reduce-done", price_nothing, false},
    {"all-reduce-start", price_all_reduce, false},
    {"all-to-all", price_move, false},
    {"and", price_element, true},
    {"asin", price_random, true},
    {"asinh", price_random, true},
    {"async-done", price_nothing, false},
    {"async-start", price_call, false},
    {"async-update", price_nothing, false},
    {"atan2", price_random, true},
    {"atanh", price_random, true},
    {"batch-norm-grad", price_move, false},
    {"batch-norm-inference", price_move, false},
    {"batch-norm-training", price_move, false},
    {"bitcast", price_nothing, false},
    {"bitcast-convert", price_nothing, true},
    {"broadcast", price_move, false},
    {"call", price_call, false},
    {"cbrt", price_random, true},
    {"ceil", price_element, true},
    {"cholesky", price_cholesky, false},
    {"clamp", price_element, true},
    {"collective-broadcast", price_move, false},
    {"collective-permute", price_move, false},
    {"collective-permute-done", price_nothing, false},
    {"collective-permute-start", price_start, false},
    {"compare", price_element, true},
    {"complex", price_element, true},
    {"concatenate", price_move, false},
    {"conditional", price_conditional, false},
    {"constant", price_nothing, true},
    {"convert", price_element, true},
    {"convolution", price_convolution, false},
    {"copy", price_move, false},
    {"copy-done", price_nothing, false},
    {"copy-start", price_start, false},
    {"cosh", price_random, true},
    {"cosine", price_random, true},
    {"count-leading-zeros", price_element, true},
    {"custom-call", price_custom_call, false},
    {"divide", price_element, true},
    {"domain", price_nothing, false},
    {"dot", price_dot, false},
    {"dynamic-reshape", price_move, false},
    {"dynamic-slice", price_slice, false},
    {"dynamic-update-slice", price_update, false},
    {"erf", price_random, true},
    {"exponential", price_random, true},
    {"exponential-minus-one", price_random, true},
    {"fft", price_fft, false},
    {"floor", price_element, true},
    {"fusion", price_fusion, false},
    {"gather", price_slice, false},
    {"get-dimension-size", price_nothing, false},
    {"get-tuple-element", price_nothing, false},
    {"imag", price_element, true},
    {"infeed", price_infeed, false},
    {"iota", price_move, false},
    {"is-finite", price_element, true},
    {"log", price_random, true},
    {"log-plus-one", price_random, true},
    {"logistic", price_random, true},
    {"map", price_map, false},
    {"maximum", price_element, true},
    {"minimum", price_element, true},
    {"multiply", price_element, true},
    {"negate", price_element, true},
    {"not", price_element, true},
    {"opt-barrier", price_nothing, false},
    {"or", price_element, true},
    {"outfeed", price_outfeed, false},
    {"pad", price_move, false},
    {"parameter", price_nothing, false},
    {"partition-id", price_nothing, false},
    {"popcnt", price_element, true},
    {"power", price_random, true},
    {"ragged-all-to-all", price_move, false},
    {"ragged-dot", price_dot, false},
    {"real", price_element, true},
    {"recv", price_infeed, false},
    {"recv-done", price_nothing, false},
    {"reduce", price_reduce, false},
    {"reduce-precision", price_element, true},
    {"reduce-scatter", price_move, false},
    {"reduce-window", price_reduce_window, false},
    {"remainder", price_element, true},
    {"replica-id", price_nothing, false},
    {"reshape", price_move, false},
    {"reverse", price_move, false},
    {"rng", price_random, false},
    {"rng-bit-generator", price_random, false},
    {"rng-get-and-update-state", price_move, false},
    {"round-nearest-afz", price_element, true},
    {"round-nearest-even", price_element, true},
    {"rsqrt", price_random, true},
    {"scaled-dot", price_dot, false},
    {"scan", price_scan, false},
    {"scatter", price_scatter, false},
    {"select", price_element, true},
    {"select-and-scatter", price_select_and_scatter, false},
    {"send", price_outfeed, false},
    {"send-done", price_nothing, false},
    {"set-dimension-size", price_nothing, false},
    {"shift-left", price_element, true},
    {"shift-right-arithmetic", price_element, true},
    {"shift-right-logical", price_element, true},
    {"sign", price_element, true},
    {"sine", price_random, true},
    {"sinh", price_random, true},
    {"slice", price_slice, false},
    {"sort", price_sort, false},
    {"sqrt", price_random, true},
    {"stochastic-convert", price_element, true},
    {"subtract", price_element, true},
    {"tan", price_random, true},
    {"tanh", price_random, true},
    {"topk", price_move, false},
    {"transpose", price_transpose, false},
    {"triangular-solve", price_triangular_solve, false},
    {"tuple", price_nothing, false},
    {"while", price_while, false},
    {"xor", price_element, true},
};

static const struct rule *find_rule(const struct hlo_instruction *in)
{
    size_t low = 0, high = sizeof rules / sizeof *rules;
    while (low < high) {
        size_t at = (low + high) / 2, n = strlen(rules[at].opcode);
        size_t common = n < in->opcode.size ? n : in->opcode.size;
        int c = common ? memcmp(rules[at].opcode, in->opcode.data, common) : 0;
        if (c == 0 && n == in->opcode.size)
            return &rules[at];
        if (c < 0 || (c == 0 && n < in->opcode.size))
            low = at + 1;
        else
            high = at;
    }
    return NULL;
}

static int price(const struct hlo_costs *c, const struct hlo_instruction *in, struct arena *scratch,
                 struct hlo_cost *out, struct error *err)
{
    struct pricing p = {.c = c, .in = in, .scratch = scratch, .out = out, .err = err};
    const struct rule *rule = find_rule(in);
    *out = (struct hlo_cost){.bytes = clamp(bytes_of(&in->shape) + operand_bytes(in, 0))};
    if (!rule) {
        out->flop_reason = "an operation that is not known";
        return 0;
    }
    return rule->price(&p);
}

int hlo_cost_instruction(const struct hlo_costs *c, const struct hlo_instruction *in, struct hlo_cost *out,
                         struct error *err)
{
    struct arena scratch;
    arena_init(&scratch);
    int rc = price(c, in, &scratch, out, err);
    arena_release(&scratch);
    return rc;
}

static int price_computation(struct hlo_costs *c, size_t at, struct arena *scratch, struct error *err)
{
    const struct hlo_computation *k = &c->m->computations[at];
    int rc = find_reads(c, k, scratch, err);
    for (size_t i = 0; i < k->n_instructions && !rc; i++) {
        struct hlo_cost one;
        rc = price(c, &k->instructions[i], scratch, &one, err);
        if (!rc)
            hlo_cost_add(&c->computations[at], &one, 1);
    }
    return rc;
}

int hlo_costs_init(struct hlo_costs *c, const struct hlo_module *m, struct arena *arena, struct error *err)
{
    *c = (struct hlo_costs){.m = m, .arena = arena};
    c->computations = arena_new(arena, struct hlo_cost, m->n_computations, err);
    c->reads = arena_new(arena, struct hlo_reads, m->n_computations, err);
    int rc = c->computations && c->reads ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < m->n_computations && !rc; i++) {
        struct arena scratch;
        arena_init(&scratch);
        rc = price_computation(c, i, &scratch, err);
        arena_release(&scratch);
    }
    return rc;
}

static bool same_text(struct slice s, const char *text)
{
    return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0;
}

struct slice hlo_category(const struct hlo_instruction *in)
{
    static const struct {
        const char *kind, *name;
    } kinds[] = {{"kLoop", "loop fusion"},
                 {"kInput", "input fusion"},
                 {"kOutput", "output fusion"},
                 {"kCustom", "custom fusion"}};
    const struct rule *rule = find_rule(in);
    const char *name = NULL;
    if (hlo_is(in, "fusion")) {
        struct pb_field f;
        struct pb_reader r = pb_reader(in->message.data, in->message.size);
        while (pb_next(&r, &f)) {
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds && pb_is(&f, 11, PB_BYTES); i++)
                name = same_text(f.body, kinds[i].kind) ? kinds[i].name : name;
        }
    } else if (hlo_is(in, "transpose") || hlo_is(in, "copy") || hlo_is(in, "reshape") ||
               hlo_is(in, "dynamic-reshape")) {
        name = "data formatting";
    } else if (rule && rule->elementwise) {
        name = "non-fusion elementwise";
    }
    return name ? (struct slice){(const uint8_t *)name, strlen(name)} : in->opcode;
}
