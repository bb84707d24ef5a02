// SPDX-License-Identifier: Apache-2.0
// How often a loop runs.
#include <string.h>

#include "ir/hlo_cost.h"

// A value of a computation, and the fusion whose computation that is: its parameters are the fusion's operands.
struct place {
    const struct hlo_instruction *in;
    const struct hlo_instruction *fusion; // NULL: none
};

// Through copies, conversions of integers that hold the same number, and into one level of fusions.
static struct place follow(struct place p)
{
    for (int hops = 0; hops < 64; hops++) {
        const struct hlo_instruction *in = p.in;
        if (in->n_operands == 1 && (hlo_is(in, "copy") || hlo_is(in, "bitcast") || hlo_is(in, "reshape"))) {
            p.in = in->operands[0];
        } else if (hlo_is(in, "fusion") && in->n_called && !p.fusion) {
            p = (struct place){in->called[0]->root, in};
        } else if (hlo_is(in, "parameter") && p.fusion && in->parameter >= 0 &&
                   (uint64_t)in->parameter < p.fusion->n_operands) {
            p = (struct place){p.fusion->operands[in->parameter], NULL};
        } else {
            return p;
        }
    }
    return p;
}

static bool constant(struct place p, int64_t *out)
{
    return hlo_literal_integer(follow(p).in, out);
}

// Whether the value is element *index of the loop's state; which one comes out the first time.
static bool is_state(struct place p, int64_t *index)
{
    const struct hlo_instruction *in = follow(p).in;
    if (!hlo_is(in, "get-tuple-element") || in->n_operands != 1 || !hlo_is(in->operands[0], "parameter"))
        return false;
    if (*index < 0)
        *index = in->tuple_index;
    return *index == in->tuple_index;
}

enum compare { LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, DIFFERENT, NO_COMPARE };

static enum compare direction(struct slice s)
{
    static const char names[][3] = {"LT", "LE", "GT", "GE", "NE"};
    for (int i = 0; i < NO_COMPARE; i++) {
        if (s.size == 2 && memcmp(s.data, names[i], 2) == 0)
            return (enum compare)i;
    }
    return NO_COMPARE;
}

// The counter's element of the state, how it is compared, and with what.
static int read_condition(const struct hlo_module *m, const struct hlo_computation *c, struct arena *scratch,
                          int64_t *index, enum compare *compare, int64_t *bound, struct error *err)
{
    static const enum compare turned[] = {GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, DIFFERENT, NO_COMPARE};
    struct place root = follow((struct place){c->root, NULL});
    struct hlo_attributes a;
    *compare = NO_COMPARE;
    if (!hlo_is(root.in, "compare") || root.in->n_operands != 2)
        return 0;
    int rc = hlo_attributes_read(&a, m, root.in, scratch, err);
    if (rc)
        return rc;
    struct place x = {root.in->operands[0], root.fusion}, y = {root.in->operands[1], root.fusion};
    if (is_state(x, index) && constant(y, bound))
        *compare = direction(a.comparison_direction);
    else if (constant(x, bound) && is_state(y, index))
        *compare = turned[direction(a.comparison_direction)];
    return 0;
}

static bool read_step(const struct hlo_computation *body, int64_t index, int64_t *step)
{
    const struct hlo_instruction *root = body->root;
    if (!hlo_is(root, "tuple") || index < 0 || (uint64_t)index >= root->n_operands)
        return false;
    struct place next = follow((struct place){root->operands[index], NULL});
    bool add = hlo_is(next.in, "add"), subtract = hlo_is(next.in, "subtract");
    if ((!add && !subtract) || next.in->n_operands != 2)
        return false;
    struct place x = {next.in->operands[0], next.fusion}, y = {next.in->operands[1], next.fusion};
    if (subtract && is_state(x, &index) && constant(y, step) && *step != INT64_MIN) {
        *step = -*step;
        return true;
    }
    return add && ((is_state(x, &index) && constant(y, step)) || (is_state(y, &index) && constant(x, step)));
}

static bool read_start(const struct hlo_instruction *loop, int64_t index, int64_t *start)
{
    const struct hlo_instruction *state = loop->n_operands ? loop->operands[0] : loop;
    if (!hlo_is(state, "tuple") || index < 0 || (uint64_t)index >= state->n_operands)
        return false;
    return constant((struct place){state->operands[index], NULL}, start);
}

// -1: it does not end, or wraps around first.
static int64_t trips(int64_t start, int64_t step, enum compare compare, int64_t bound)
{
    int64_t span;
    if (compare == GREATER || compare == GREATER_EQUAL) { // upside down
        if (start == INT64_MIN || step == INT64_MIN || bound == INT64_MIN)
            return -1;
        return trips(-start, -step, compare == GREATER ? LESS : LESS_EQUAL, -bound);
    }
    if (__builtin_sub_overflow(bound, start, &span))
        return -1;
    if (compare == DIFFERENT)
        return step && span % step == 0 && span / step >= 0 ? span / step : -1;
    if (compare == LESS_EQUAL && __builtin_add_overflow(span, 1, &span))
        return -1;
    if (span <= 0)
        return 0;
    return step > 0 ? (span - 1) / step + 1 : -1;
}

int hlo_trip_count(const struct hlo_module *m, const struct hlo_instruction *loop, struct arena *scratch, int64_t *out,
                   struct error *err)
{
    struct hlo_attributes a;
    int64_t index = -1, bound = 0, step = 0, start = 0;
    enum compare compare = NO_COMPARE;
    *out = -1;
    int rc = hlo_attributes_read(&a, m, loop, scratch, err);
    if (rc || hlo_known_trip_count(a.backend_config, out) || loop->n_called != 2)
        return rc;
    *out = -1;
    rc = read_condition(m, loop->called[1], scratch, &index, &compare, &bound, err);
    if (!rc && compare != NO_COMPARE && read_step(loop->called[0], index, &step) && read_start(loop, index, &start))
        *out = trips(start, step, compare, bound);
    return rc;
}
