// SPDX-License-Identifier: Apache-2.0
// Puts a policy into a module by writing it again: weights become stored values or codes with scales, operands of
// products are converted or quantised, activations that are handed on are rounded, arithmetic gets its domain's type.
#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "ir/policy_pass.h"

static enum dtype compute_type(const struct pass *s, enum domain d)
{
    return d == DOMAIN_NORM ? s->policy->norm : s->policy->red;
}

static void enter(struct pass *s, const struct instruction *in)
{
    rewrite_place(&s->w, in);
}

// ---- instrumentation

// Of the group at hand: the first key of its sums; -1 where nothing is summed.
static int sums_here(const struct pass *s)
{
    for (int i = 0; i < s->n_groups; i++) {
        if (strcmp(s->groups[i], s->w.b.group) == 0)
            return i * SUMS_OF_GROUP;
    }
    return -1;
}

void pass_count(struct pass *s, int kind, int predicate)
{
    int dims[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7}, at = sums_here(s);
    int n = build_reduce(&s->w.b, OP_ADD, build_convert(&s->w.b, predicate, DT_S32), dims,
                         builder_shape(&s->w.b, predicate)->rank);
    if (at >= 0)
        rewrite_add(&s->w, at + kind, OP_ADD, n);
}

void pass_count_activation(struct pass *s, int activation, int clipped)
{
    rewrite_add(&s->w, PASS_MAX_GROUPS * SUMS_OF_GROUP + activation, OP_ADD, clipped);
}

// x became y (a narrower float, or integer codes): what was lost.
static void count_narrowing(struct pass *s, int x, int y)
{
    struct builder *b = &s->w.b;
    if (!s->instrument)
        return;
    int checked = dtype_is_float(builder_shape(b, y)->dtype) ? y : x;
    pass_count(s, 1, build_unary(b, OP_NOT, build_unary(b, OP_IS_FINITE, checked)));
    int zero_x = build_splat(b, *builder_shape(b, x), 0), zero_y = build_splat(b, *builder_shape(b, y), 0);
    pass_count(s, 2, build_binary(b, OP_AND, build_compare(b, CMP_NE, x, zero_x), build_compare(b, CMP_EQ, y, zero_y)));
}

void pass_track_scales(struct pass *s, int scales)
{
    struct builder *b = &s->w.b;
    int dims[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7}, rank = builder_shape(b, scales)->rank, at = sums_here(s);
    if (!s->instrument || at < 0)
        return;
    rewrite_add(&s->w, at + SUM_SCALE_MIN, OP_MINIMUM, build_reduce(b, OP_MINIMUM, scales, dims, rank));
    rewrite_add(&s->w, at + SUM_SCALE_MAX, OP_MAXIMUM, build_reduce(b, OP_MAXIMUM, scales, dims, rank));
}

// The same conversion made before in this scope, or -1: what it lost is counted once.
static int converted_before(const struct pass *s, int x, enum dtype to)
{
    const struct module *m = s->w.b.module;
    for (int i = m->n_instructions - 1; i > x && strcmp(m->instructions[i].scope, s->w.b.scope) == 0; i--) {
        const struct instruction *in = &m->instructions[i];
        if (in->op == OP_CONVERT && in->operands[0] == x && in->shape.dtype == to && in->region == s->w.b.region)
            return i;
    }
    return -1;
}

int pass_narrow(struct pass *s, int x, enum dtype to)
{
    enum dtype from = builder_shape(&s->w.b, x)->dtype;
    if (from == to || !dtype_is_float(from) || dtype_bits(to) > dtype_bits(from))
        return build_convert(&s->w.b, x, to);
    int y = converted_before(s, x, to);
    if (y < 0) {
        y = build_convert(&s->w.b, x, to);
        count_narrowing(s, x, y);
    }
    return y;
}

// Parameters keep their place at the front of the program, in the order of the original.
static int pass_parameter(struct pass *s, int i, struct error *err)
{
    const struct instruction *in = &s->w.from->instructions[i];
    const struct parameter *p = &s->w.from->parameters[in->parameter];
    enter(s, in);
    if (p->role == ROLE_WEIGHT && dtype_is_float(in->shape.dtype))
        return pass_weight(s, i, err);
    s->w.map[i] = rewrite_copy(&s->w, in);
    if (p->role == ROLE_INPUT && strcmp(p->name, "attention_mask") == 0)
        s->mask = s->w.map[i];
    if (in->flags & FLAG_STORE && dtype_is_float(in->shape.dtype)) // another program's activation, handed over wide
        s->w.map[i] = builder_store(&s->w.b, pass_narrow(s, s->w.map[i], s->policy->between));
    return 0;
}

// ---- products

int pass_dot(struct pass *s, const struct instruction *in, int x, int y, enum dtype result)
{
    struct builder *b = &s->w.b;
    // Values rounded to f16 and multiplied in f32: the products are exact, as those of f16 are.
    bool widen = s->policy->emulate && builder_shape(b, x)->dtype == DT_F16;
    if (widen) {
        x = build_convert(b, x, DT_F32);
        y = build_convert(b, y, DT_F32);
    }
    int sums = build_dot(b, x, y, in->dot.n_batch, in->dot.lhs_batch, in->dot.rhs_batch, in->dot.n_contract,
                         in->dot.lhs_contract, in->dot.rhs_contract, widen ? DT_F32 : result);
    return widen ? pass_narrow(s, sums, result) : sums;
}

enum dtype pass_float_sums(const struct pass *s)
{
    return s->policy->acc == DT_S32 ? DT_F32 : s->policy->acc;
}

// Products of activations, and with weights whose codes cannot be multiplied as they lie.
static int pass_inner_product(struct pass *s, const struct instruction *in)
{
    enum dtype op = s->policy->op_inner;
    int x = pass_narrow(s, pass_operand(s, in->operands[0]), op);
    int y = pass_narrow(s, pass_operand(s, in->operands[1]), op);
    return pass_dot(s, in, x, y, pass_float_sums(s));
}

// Multiplies wide floats, as products of activations do: codes have scales per row, and a kernel's rows are no rows of
// a product.
static int pass_convolution(struct pass *s, const struct instruction *in)
{
    enum dtype op = s->policy->op_inner;
    int x = pass_narrow(s, pass_operand(s, in->operands[0]), op);
    int kernel = pass_narrow(s, pass_operand(s, in->operands[1]), op);
    struct instruction copy = *in;
    copy.operands = (int[2]){x, kernel};
    copy.shape.dtype = pass_float_sums(s);
    copy.dot.precision = PRECISION_HIGHEST;
    copy.flags &= ~(unsigned)FLAG_STORE;
    return builder_append(&s->w.b, &copy);
}

// ---- everything else

static bool moves_data(enum op_class c)
{
    return c == OPC_BROADCAST || c == OPC_RESHAPE || c == OPC_TRANSPOSE || c == OPC_SLICE || c == OPC_CONCATENATE ||
           c == OPC_PAD || c == OPC_REVERSE || c == OPC_DYNAMIC_SLICE || c == OPC_DYNAMIC_UPDATE_SLICE ||
           c == OPC_GATHER;
}

// Arithmetic is done in the domain's type; what only moves data keeps the type of what it moves, unless it joins values
// of different types.
static enum dtype type_of_plain(const struct pass *s, const struct instruction *in, const int *operands)
{
    enum dtype type = compute_type(s, in->domain);
    if (in->n_operands < 1 || !moves_data(op_info(in->op)->class))
        return type;
    enum dtype first = builder_shape(&s->w.b, operands[0])->dtype;
    for (int k = 1; in->op == OP_CONCATENATE && k < in->n_operands; k++) {
        if (builder_shape(&s->w.b, operands[k])->dtype != first)
            return type;
    }
    return first;
}

// The bits are those of the type that the program has.
static int pass_bits(struct pass *s, const struct instruction *in)
{
    struct instruction copy = *in;
    int x =
        build_convert(&s->w.b, pass_operand(s, in->operands[0]), s->w.from->instructions[in->operands[0]].shape.dtype);
    copy.operands = &x;
    copy.flags &= ~(unsigned)FLAG_STORE;
    x = builder_append(&s->w.b, &copy);
    return dtype_is_float(in->shape.dtype) ? build_convert(&s->w.b, x, compute_type(s, in->domain)) : x;
}

static int pass_plain(struct pass *s, const struct instruction *in)
{
    struct instruction copy = *in;
    int operands[OP_MAX_OPERANDS];
    for (int k = 0; k < in->n_operands; k++)
        operands[k] = pass_operand(s, in->operands[k]);
    enum dtype type = type_of_plain(s, in, operands);
    for (int k = 0; k < in->n_operands; k++) {
        if (dtype_is_float(builder_shape(&s->w.b, operands[k])->dtype))
            operands[k] = pass_narrow(s, operands[k], type);
    }
    copy.operands = operands;
    copy.flags &= ~(unsigned)FLAG_STORE;
    if (dtype_is_float(in->shape.dtype) && !(in->op == OP_CONVERT && in->flags & FLAG_MODEL_ROUNDING))
        copy.shape.dtype = type;
    return builder_append(&s->w.b, &copy);
}

// ---- loops, branches, comparators

// The type of a float that the owner of a region takes in or gives out. What loops and branches hand on are
// activations; scalars (losses, counters) and what is sorted or reduced are arithmetic.
static enum dtype handed_on(const struct pass *s, const struct instruction *owner, const struct shape *shape)
{
    bool activation = (owner->op == OP_WHILE || owner->op == OP_CASE) && shape->rank > 0;
    if (!dtype_is_float(shape->dtype))
        return shape->dtype;
    return activation ? s->policy->between : compute_type(s, owner->domain);
}

static int hand_on(struct pass *s, const struct instruction *owner, int old)
{
    return pass_narrow(s, pass_operand(s, old), handed_on(s, owner, &s->w.from->instructions[old].shape));
}

static int pass_region_parameter(struct pass *s, const struct instruction *in)
{
    const struct instruction *owner = &s->w.from->instructions[s->w.from->regions[in->region].owner];
    return build_region_parameter(&s->w.b, s->w.b.region, shape_with_dtype(in->shape, handed_on(s, owner, &in->shape)));
}

static int pass_owner(struct pass *s, const struct instruction *in)
{
    int values[OP_MAX_OPERANDS];
    struct instruction copy = *in;
    for (int i = 0; i < in->n_regions; i++) {
        const struct region *r = &s->w.from->regions[in->regions[i]];
        for (int k = 0; k < r->n_results; k++) {
            s->w.b.region = rewrite_region(&s->w, in->regions[i]);
            values[k] = hand_on(s, in, r->results[k]);
        }
        rewrite_results(&s->w, in->regions[i], values, r->n_results);
    }
    enter(s, in);
    for (int k = 0; k < in->n_operands; k++)
        values[k] = hand_on(s, in, in->operands[k]);
    copy.shape.dtype = handed_on(s, in, &in->shape);
    return rewrite_owner(&s->w, &copy, values);
}

static int pass_instruction(struct pass *s, int i)
{
    const struct instruction *in = &s->w.from->instructions[i];
    struct linear l;
    int x;
    enter(s, in);
    if (in->n_regions)
        return pass_owner(s, in);
    if (in->op == OP_REGION_PARAMETER)
        return pass_region_parameter(s, in);
    if (in->op == OP_ELEMENT)
        return rewrite_copy(&s->w, in);
    if (pass_is_coded(s, i)) {
        pass_view(s, i);
        return -1;
    }
    if (in->op == OP_DOT && dtype_is_float(in->shape.dtype))
        x = views_linear(&s->views, in, &l) ? pass_linear(s, in, &l) : pass_inner_product(s, in);
    else if (in->op == OP_BITCAST_CONVERT)
        x = pass_bits(s, in);
    else if (in->op == OP_CONVOLUTION)
        x = pass_convolution(s, in);
    else if (in->op == OP_GATHER && s->views.of[in->operands[0]])
        x = pass_lookup(s, in);
    else
        x = pass_plain(s, in);
    if (in->flags & FLAG_STORE && dtype_is_float(in->shape.dtype) && !s->views.of[i]) // a weight is no activation
        x = builder_store(&s->w.b, pass_narrow(s, x, s->policy->between));
    return x;
}

static void add_instrument_results(struct pass *s)
{
    struct builder *b = &s->w.b;
    int counts[PASS_MAX_GROUPS], scales[PASS_MAX_GROUPS];
    builder_scope(b, "instrument", "instrument");
    b->region = 0;
    struct shape int_scalar = {.dtype = DT_S32}, float_scalar = {.dtype = DT_F32};
    for (int i = 0; i < s->n_groups; i++) {
        int cells[SUMS_OF_GROUP], *pair = cells + SUM_SCALE_MIN;
        for (int k = 0; k < SUMS_OF_GROUP; k++) {
            int x = rewrite_sum(&s->w, i * SUMS_OF_GROUP + k);
            if (x < 0)
                x = k < SUM_SCALE_MIN ? build_splat(b, int_scalar, 0) : build_symbol(b, float_scalar, CONST_INFINITY);
            if (k == SUM_SCALE_MAX && rewrite_sum(&s->w, i * SUMS_OF_GROUP + k) < 0)
                x = build_unary(b, OP_NEGATE, x);
            cells[k] = build_reshape(b, x, 2, (int64_t[]){1, 1});
        }
        counts[i] = build_concatenate(b, cells, 3, 1);
        scales[i] = build_concatenate(b, pair, 2, 1);
    }
    build_result(b, "counts", build_concatenate(b, counts, s->n_groups, 0));
    build_result(b, "scales", build_concatenate(b, scales, s->n_groups, 0));
    int clipped = pass_clipped(s);
    if (clipped >= 0)
        build_result(b, "activations", clipped);
}

static int keep_types(struct pass *s, struct error *err)
{
    const struct module *from = s->w.from;
    for (int i = 0; i < from->n_instructions; i++)
        s->w.map[i] = rewrite_copy(&s->w, &from->instructions[i]);
    for (int i = 0; i < from->n_results; i++)
        build_result(&s->w.b, from->result_names[i], s->w.map[from->results[i]]);
    if (s->instrument && s->n_groups > 0) // which counts nothing
        add_instrument_results(s);
    return builder_finish(&s->w.b, err);
}

int module_apply_policy(const struct module *from, const struct policy *p, bool instrument, struct module *to,
                        struct error *err)
{
    struct pass s = {.policy = p, .instrument = instrument, .mask = -1};
    size_t n = (size_t)from->n_instructions;
    int rc = rewrite_init_once(&s.w, from, to, err);
    if (rc)
        return rc;
    s.n_groups = module_groups(from, s.groups, PASS_MAX_GROUPS);
    if (module_keeps_types(from, p))
        return keep_types(&s, err);
    rc = views_find(&s.views, from, to->arena, err);
    if (rc)
        return rc;
    s.codes = arena_new(to->arena, int, n, err);
    s.scales = arena_new(to->arena, int, n, err);
    if (!s.codes || !s.scales)
        return ERR_MEMORY;
    memset(s.codes, -1, n * sizeof *s.codes);
    memset(s.scales, -1, n * sizeof *s.scales);
    s.max_activations = policy_has_scales(p->a) ? module_activations(from, NULL, 0) : 0;
    for (int i = 0; i < from->n_instructions; i++) {
        if (from->instructions[i].op != OP_PARAMETER)
            s.w.map[i] = pass_instruction(&s, i);
        else if (pass_parameter(&s, i, err))
            return err ? err->code : ERR_USAGE;
    }
    for (int i = 0; i < from->n_results; i++) {
        enter(&s, &from->instructions[from->results[i]]);
        int x = pass_operand(&s, from->results[i]);
        if (dtype_is_float(builder_shape(&s.w.b, x)->dtype))
            x = pass_narrow(&s, x, p->out);
        build_result(&s.w.b, from->result_names[i], x);
    }
    if (instrument && s.n_groups > 0)
        add_instrument_results(&s);
    return builder_finish(&s.w.b, err);
}
