// SPDX-License-Identifier: Apache-2.0
// Instructions of HLO with computations that are more than one operation, and with several results.
#include <string.h>

#include "ir/hlo_cost.h"
#include "ir/hlo_import_part.h"

static int leaf(const struct value *v, size_t k)
{
    return v->many ? v->many[k] : v->one;
}

static size_t count(const struct value *v)
{
    return v->many ? v->n : 1;
}

static bool is_top_k(const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    return hlo_is(in, "topk") || (hlo_is(in, "custom-call") && slice_is(a->custom_call_target, "TopK"));
}

bool import_is_many(const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    static const char *const always[] = {"while", "conditional", "sort", "rng-bit-generator", "map"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (hlo_is(in, always[i]))
            return true;
    }
    bool reduces = hlo_is(in, "reduce") && in->n_called == 1;
    return is_top_k(in, a) || (reduces && (in->n_operands != 2 || import_reducer(in->called[0]) == OP_COUNT));
}

// All results of an instruction as the elements of a tuple; one that gives no tuple gives one value.
static int take_results(struct importing *s, const struct hlo_instruction *in, int many, size_t n, struct value *out)
{
    int rc = import_check(s, in), *list = arena_new(&s->scratch, int, n, s->err);
    for (size_t k = 0; k < n && !rc && list; k++)
        list[k] = build_element(&s->b, many, (int)k);
    if (!rc && !list)
        return ERR_MEMORY;
    bool tuple = in->shape.kind == HLO_TUPLE;
    if (!rc && !tuple && n != 1)
        return import_refuse(s, in, "it gives several values and is no tuple");
    *out = tuple ? (struct value){-1, list, n} : (struct value){rc ? -1 : list[0], NULL, 0};
    return rc ? rc : import_check(s, in);
}

// Imports a computation as what a region does, and keeps those of its results that `kept` names (NULL: all).
static int fill_region(struct importing *s, const struct hlo_instruction *in, const struct hlo_computation *c,
                       int region, const struct value *arguments, size_t n_arguments, const bool *kept, size_t n,
                       int depth)
{
    struct value result;
    int results[OP_MAX_OPERANDS], at = s->b.region, n_results = 0;
    if (depth >= IMPORT_MAX_CALLS)
        return import_refuse(s, in, "loops and calls are nested deeper than 64");
    s->b.region = region;
    int rc = import_computation(s, c, arguments, n_arguments, depth + 1, &result);
    s->b.region = at;
    if (!rc && (count(&result) > OP_MAX_OPERANDS || (kept && count(&result) != n)))
        rc = import_refuse(s, in, "a computation returns another number of values than it should, or more than 512");
    for (size_t k = 0; k < count(&result) && !rc; k++) {
        if (!kept || kept[k])
            results[n_results++] = leaf(&result, k);
    }
    if (!rc)
        builder_region_results(&s->b, region, results, n_results);
    return rc ? rc : import_check(s, in);
}

// ---- Loops

// Whether the body returns element k of its state as it came: then it is no state, but a value that the body uses.
static bool is_fixed(const struct hlo_computation *body, size_t k)
{
    const struct hlo_instruction *root = body->root;
    if (!hlo_is(root, "tuple") || k >= root->n_operands)
        return false;
    const struct hlo_instruction *x = root->operands[k];
    return hlo_is(x, "get-tuple-element") && x->n_operands == 1 && hlo_is(x->operands[0], "parameter") &&
           x->tuple_index >= 0 && (uint64_t)x->tuple_index == k;
}

struct loop {
    int *body, *condition; // what stands for each element of the state in the two
    bool *moves;
    int state[OP_MAX_OPERANDS]; // of those that move
    int n_state;
};

static int prepare_loop(struct importing *s, const struct hlo_instruction *in, const struct value *state,
                        const int regions[2], struct loop *l)
{
    size_t n = count(state);
    l->body = arena_new(&s->scratch, int, n, s->err);
    l->condition = arena_new(&s->scratch, int, n, s->err);
    l->moves = arena_new(&s->scratch, bool, n, s->err);
    if (!l->body || !l->condition || !l->moves)
        return ERR_MEMORY;
    for (size_t k = 0; k < n; k++) {
        int x = leaf(state, k);
        l->moves[k] = !is_fixed(in->called[0], k);
        l->condition[k] = l->body[k] = x;
        if (!l->moves[k])
            continue;
        if (l->n_state >= OP_MAX_OPERANDS)
            return import_refuse(s, in, "it hands on more than 512 values");
        struct shape shape = *builder_shape(&s->b, x);
        l->condition[k] = build_region_parameter(&s->b, regions[0], shape);
        l->body[k] = build_region_parameter(&s->b, regions[1], shape);
        l->state[l->n_state++] = x;
    }
    return l->n_state ? import_check(s, in) : import_refuse(s, in, "nothing changes in it");
}

static struct value as_given(const struct value *like, const int *values)
{
    return like->many ? (struct value){-1, values, like->n} : (struct value){values[0], NULL, 0};
}

static int import_while(struct importing *s, const struct hlo_instruction *in, const struct value *state, int depth,
                        struct value *out)
{
    struct loop l = {.n_state = 0};
    int64_t trips;
    if (in->n_called != 2 || in->n_operands != 1)
        return import_refuse(s, in, "it has no body and no condition");
    int regions[2] = {builder_region(&s->b), builder_region(&s->b)};
    int rc = import_check(s, in);
    if (!rc)
        rc = prepare_loop(s, in, state, regions, &l);
    if (rc)
        return rc;
    struct value condition = as_given(state, l.condition), body = as_given(state, l.body);
    rc = fill_region(s, in, in->called[1], regions[0], &condition, 1, NULL, 1, depth);
    if (!rc)
        rc = fill_region(s, in, in->called[0], regions[1], &body, 1, l.moves, count(state), depth);
    if (!rc)
        rc = hlo_trip_count(s->m, in, &s->scratch, &trips, s->err);
    if (rc)
        return rc;
    int many = build_while(&s->b, l.state, l.n_state, regions[0], regions[1], trips < 0 ? -1 : trips);
    int *results = l.body, at = 0;
    for (size_t k = 0; k < count(state); k++)
        results[k] = l.moves[k] ? build_element(&s->b, many, at++) : leaf(state, k);
    *out = as_given(state, results);
    return import_check(s, in);
}

// ---- Conditionals

static int import_conditional(struct importing *s, const struct hlo_instruction *in, const struct value *operands,
                              int depth, struct value *out)
{
    int regions[OP_MAX_OPERANDS], n = (int)in->n_called, choice = operands[0].one;
    if (n < 1 || n > OP_MAX_OPERANDS || in->n_operands != in->n_called + 1 || operands[0].many)
        return import_refuse(s, in, "its branches and what they take do not fit");
    for (int i = 0; i < n; i++) {
        regions[i] = builder_region(&s->b);
        int rc = import_check(s, in);
        if (!rc)
            rc = fill_region(s, in, in->called[i], regions[i], &operands[i + 1], 1, NULL, 0, depth);
        if (rc)
            return rc;
    }
    const struct region *first = &s->b.module->regions[regions[0]];
    if (first->n_results < 1)
        return import_refuse(s, in, "it gives nothing");
    struct instruction to = {.op = OP_CASE, .shape = *builder_shape(&s->b, first->results[0])};
    size_t n_results = (size_t)first->n_results;
    return take_results(s, in, build_many(&s->b, &to, &choice, 1, regions, n), n_results, out);
}

// ---- Comparators and reductions

// A region of two scalars of each operand: beside each other, or all of one side first.
static int scalar_region(struct importing *s, const struct hlo_instruction *in, const int *values, size_t n, bool pairs,
                         int depth, int *region)
{
    struct value *arguments = arena_new(&s->scratch, struct value, 2 * n, s->err);
    if (!arguments)
        return ERR_MEMORY;
    if (in->n_called != 1 || s->spread)
        return import_refuse(s, in, "its computation is missing");
    *region = builder_region(&s->b);
    for (size_t k = 0; k < 2 * n; k++) {
        const struct shape *of = builder_shape(&s->b, values[pairs ? k / 2 : k % n]);
        arguments[k] =
            (struct value){build_region_parameter(&s->b, *region, (struct shape){.dtype = of->dtype}), NULL, 0};
    }
    int rc = import_check(s, in);
    return rc ? rc : fill_region(s, in, in->called[0], *region, arguments, 2 * n, NULL, 0, depth);
}

static int import_sort(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                       const int *values, int depth, struct value *out)
{
    int region, n = (int)in->n_operands;
    struct instruction to = {.op = OP_SORT, .axis = a->dimensions.n ? a->dimensions.at[0] : 0, .a = {a->is_stable}};
    int rc = scalar_region(s, in, values, in->n_operands, true, depth, &region);
    return rc ? rc : take_results(s, in, build_many(&s->b, &to, values, n, &region, 1), in->n_operands, out);
}

static int import_reduce(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                         const int *values, int depth, struct value *out)
{
    int region;
    struct instruction to = {.op = OP_REDUCE_MANY, .n_a = (int)a->dimensions.n};
    if (in->n_operands % 2 || !in->n_operands || a->dimensions.n > SHAPE_MAX_RANK)
        return import_refuse(s, in, "it needs an initial value for each operand");
    for (size_t i = 0; i < a->dimensions.n; i++)
        to.a[i] = a->dimensions.at[i];
    int rc = scalar_region(s, in, values, in->n_operands / 2, false, depth, &region);
    return rc ? rc
              : take_results(s, in, build_many(&s->b, &to, values, (int)in->n_operands, &region, 1), in->n_operands / 2,
                             out);
}

// ---- The rest

// What the computation does to scalars, done to arrays.
static int import_map(struct importing *s, const struct hlo_instruction *in, const struct value *operands, int depth,
                      struct value *out)
{
    struct shape shape;
    if (in->n_called != 1 || depth >= IMPORT_MAX_CALLS || s->spread)
        return import_refuse(s, in, "its computation is missing, or lies in another map");
    int rc = import_shape(s, in, &in->shape, &shape);
    if (rc)
        return rc;
    s->spread = &shape;
    rc = import_computation(s, in->called[0], operands, in->n_operands, depth + 1, out);
    s->spread = NULL;
    return rc;
}

static int import_top_k(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                        const int *values, struct value *out)
{
    struct instruction to = {.op = OP_TOP_K};
    const struct hlo_shape *first = in->shape.n_elements == 2 ? &in->shape.elements[0] : NULL;
    if (in->n_operands != 1 || !first || first->rank < 1 || (hlo_is(in, "topk") && !a->largest))
        return import_refuse(s, in, "it takes something else than the largest values and where they stand");
    to.a[0] = first->dims[first->rank - 1];
    return take_results(s, in, build_many(&s->b, &to, values, 1, NULL, 0), 2, out);
}

static int import_random(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                         const int *values, struct value *out)
{
    struct instruction to = {.op = OP_RNG_BITS, .a = {a->rng_algorithm}};
    if (in->n_operands != 1 || in->shape.n_elements != 2)
        return import_refuse(s, in, "it does not give a state and bits");
    int rc = import_shape(s, in, &in->shape.elements[1], &to.shape);
    return rc ? rc : take_results(s, in, build_many(&s->b, &to, values, 1, NULL, 0), 2, out);
}

int import_many(struct importing *s, const struct hlo_instruction *in, const struct hlo_attributes *a,
                const struct value *operands, int depth, struct value *out)
{
    int values[OP_MAX_OPERANDS];
    if (!in->n_operands || in->n_operands > OP_MAX_OPERANDS)
        return import_refuse(s, in, "it has no operands, or more than 512");
    if (hlo_is(in, "while"))
        return import_while(s, in, operands, depth, out);
    if (hlo_is(in, "conditional"))
        return import_conditional(s, in, operands, depth, out);
    for (size_t i = 0; i < in->n_operands; i++) {
        if (operands[i].many)
            return import_refuse(s, in, "it takes a tuple");
        values[i] = operands[i].one;
    }
    if (hlo_is(in, "map"))
        return import_map(s, in, operands, depth, out);
    if (hlo_is(in, "sort"))
        return import_sort(s, in, a, values, depth, out);
    if (hlo_is(in, "reduce"))
        return import_reduce(s, in, a, values, depth, out);
    return is_top_k(in, a) ? import_top_k(s, in, a, values, out) : import_random(s, in, a, values, out);
}
