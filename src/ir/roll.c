// SPDX-License-Identifier: Apache-2.0
#include "ir/roll.h"

#include <string.h>

#include "ir/rewrite.h"
#include "ir/roll_part.h"

struct roll {
    struct rewrite w;
    struct roll_find f;
    struct roll_row row;
    int *carried; // places within a layer whose values a run of the body hands to the next, or behind the loop
    int n_carried;
    int *stacks; // by place: the stack of a layer's weight
    int *now;    // by place: what the run at hand makes
    int *before; // by place: what the run before made
};

static const struct instruction *at_place(const struct roll *r, int layer, int place)
{
    return &r->w.from->instructions[r->f.layers[layer].first + place];
}

// ---- What goes round

static void choose_carried(struct roll *r)
{
    const struct roll_layer *first = &r->f.layers[r->row.first], *last = &r->f.layers[r->row.first + r->row.n - 1];
    r->n_carried = 0;
    for (int i = 0; i < first->end - first->first; i++) {
        if (r->row.start[i] >= 0 || r->f.used_next[last->first + i] || r->f.used_far[last->first + i])
            r->carried[r->n_carried++] = i;
    }
}

// ---- Stacks of weights

static struct shape stacked_shape(const struct shape *s, int n)
{
    struct shape out = {.dtype = s->dtype, .rank = s->rank + 1, .dims = {n}};
    memcpy(out.dims + 1, s->dims, (size_t)s->rank * sizeof *s->dims);
    return out;
}

static int stack(struct roll *r, int place)
{
    struct builder *b = &r->w.b;
    const struct module *m = r->w.from;
    const struct instruction *in = at_place(r, r->row.first, place);
    const struct parameter *p = &m->parameters[in->parameter];
    struct binding bind = p->binding, *layers = arena_new(b->module->arena, struct binding, r->row.n, &b->error);
    if (in->shape.rank == SHAPE_MAX_RANK)
        error_set(&b->error, ERR_INTERNAL, p->name, "has too many dimensions to be stacked");
    if (b->error.code)
        return -1;
    for (int k = 0; k < r->row.n; k++)
        layers[k] = m->parameters[at_place(r, r->row.first + k, place)->parameter].binding;
    bind.n_layers = r->row.n;
    bind.layers = layers;
    return build_parameter(b, ROLE_WEIGHT, p->name, stacked_shape(&in->shape, r->row.n), &bind);
}

// A layer's own weight, of the run that is counted.
static int unstack(struct roll *r, int stack, int counter, const struct shape *s)
{
    struct builder *b = &r->w.b;
    int starts[SHAPE_MAX_RANK] = {counter};
    int64_t sizes[SHAPE_MAX_RANK] = {1};
    for (int d = 0; d < s->rank; d++) {
        starts[d + 1] = build_splat(b, SHAPE(DT_S32), 0);
        sizes[d + 1] = s->dims[d];
    }
    return build_reshape(b, build_dynamic_slice(b, stack, starts, sizes), s->rank, s->dims);
}

// ---- The loop

// "layer.3.qkv" of layers 3 to 11 is "layer.3-11.qkv".
static void place_in_row(struct roll *r, const struct instruction *in)
{
    struct builder *b = &r->w.b;
    const struct roll_layer *first = &r->f.layers[r->row.first];
    struct instruction like = *in;
    like.scope = arena_printf(b->module->arena, &b->error, "%.*s%d-%d%s", first->name, in->scope, first->number,
                              first->number + r->row.n - 1, roll_rest(in->scope, first->name));
    if (like.scope)
        builder_place(b, &like);
}

static int operand(struct roll *r, int of, int k)
{
    // The second layer tells what is handed on from what was there before.
    const struct roll_layer *first = &r->f.layers[r->row.first], *second = first + 1;
    int value = r->w.from->instructions[second->first + of].operands[k];
    if (value >= second->first)
        return r->now[value - second->first];
    return value >= first->first ? r->before[value - first->first] : r->w.map[value];
}

static void run_layer(struct roll *r, int counter)
{
    struct builder *b = &r->w.b;
    const struct roll_layer *first = &r->f.layers[r->row.first];
    for (int i = 0; i < first->end - first->first; i++) {
        const struct instruction *in = at_place(r, r->row.first, i);
        int operands[OP_MAX_OPERANDS] = {0};
        struct instruction copy = *in;
        place_in_row(r, in);
        if (in->op == OP_PARAMETER) {
            r->now[i] = unstack(r, r->stacks[i], counter, &in->shape);
            continue;
        }
        for (int k = 0; k < in->n_operands; k++)
            operands[k] = operand(r, i, k);
        copy.operands = operands;
        r->now[i] = builder_append(b, &copy);
    }
}

static int begin_region(struct roll *r, struct shape counter)
{
    struct builder *b = &r->w.b;
    int region = builder_region(b);
    b->region = region;
    int first = build_region_parameter(b, region, counter);
    for (int i = 0; i < r->n_carried; i++) {
        const struct instruction *in = at_place(r, r->row.first, r->carried[i]);
        r->before[r->carried[i]] = build_region_parameter(b, region, in->shape);
    }
    return first;
}

static void add_condition(struct roll *r, int *region)
{
    struct builder *b = &r->w.b;
    struct shape s = SHAPE(DT_S32);
    int counter = begin_region(r, s);
    *region = b->region;
    int more = build_compare(b, CMP_LT, counter, build_splat(b, s, r->row.n));
    builder_region_results(b, *region, &more, 1);
    b->region = r->w.base;
}

static void add_body(struct roll *r, int *region)
{
    struct builder *b = &r->w.b;
    int results[OP_MAX_OPERANDS], counter = begin_region(r, SHAPE(DT_S32));
    *region = b->region;
    run_layer(r, counter);
    results[0] = build_binary_scalar(b, OP_ADD, counter, 1);
    for (int i = 0; i < r->n_carried; i++)
        results[i + 1] = r->now[r->carried[i]];
    builder_region_results(b, *region, results, r->n_carried + 1);
    b->region = r->w.base;
}

// What the last layer made is what the loop gives.
static void take_results(struct roll *r, int loop)
{
    const struct roll_layer *last = &r->f.layers[r->row.first + r->row.n - 1];
    for (int i = 0; i < r->n_carried; i++) {
        int value = last->first + r->carried[i];
        if (r->f.used_next[value] || r->f.used_far[value])
            r->w.map[value] = build_element(&r->w.b, loop, i + 1);
    }
}

static void add_loop(struct roll *r)
{
    struct builder *b = &r->w.b;
    const struct roll_layer *first = &r->f.layers[r->row.first];
    int n = first->end - first->first, condition, body, state[OP_MAX_OPERANDS];
    choose_carried(r);
    if (r->n_carried + 1 > OP_MAX_OPERANDS) {
        error_set(&b->error, ERR_INTERNAL, "loop", "hands on more than %d values", OP_MAX_OPERANDS);
        return;
    }
    for (int i = 0; i < n; i++) {
        place_in_row(r, at_place(r, r->row.first, i));
        if (at_place(r, r->row.first, i)->op == OP_PARAMETER)
            r->stacks[i] = stack(r, i);
    }
    state[0] = build_splat(b, SHAPE(DT_S32), 0);
    for (int i = 0; i < r->n_carried; i++) { // what is not handed on but only wanted behind the loop begins as anything
        int start = r->row.start[r->carried[i]];
        state[i + 1] = start < 0 ? build_splat(b, at_place(r, r->row.first, r->carried[i])->shape, 0) : r->w.map[start];
    }
    add_condition(r, &condition);
    add_body(r, &body);
    take_results(r, build_while(b, state, r->n_carried + 1, condition, body, r->row.n));
}

static int begin(struct roll *r, const struct module *from, struct module *to, struct error *err)
{
    size_t n = (size_t)from->n_instructions;
    memset(r, 0, sizeof *r);
    int rc = rewrite_init(&r->w, from, to, err);
    if (!rc)
        rc = roll_find_init(&r->f, from, to->arena, err);
    int *room = rc ? NULL : arena_new(to->arena, int, 5 * n, err);
    if (!room)
        return rc ? rc : ERR_MEMORY;
    r->row.start = room;
    r->stacks = room + n;
    r->now = room + 2 * n;
    r->before = room + 3 * n;
    r->carried = room + 4 * n;
    return 0;
}

int module_roll(const struct module *from, int least, struct module *to, struct rolled *out, struct error *err)
{
    struct roll r;
    *out = (struct rolled){0};
    int rc = begin(&r, from, to, err);
    for (int layer = 0; layer < r.f.n_layers && !rc;) {
        const struct roll_layer *l = &r.f.layers[layer];
        roll_find_row(&r.f, layer, &r.row);
        if (r.row.n >= least && r.row.n > 1) {
            add_loop(&r);
            out->loops++;
            out->layers += r.row.n;
            layer += r.row.n;
            continue;
        }
        for (int i = l->first; i < l->end; i++)
            r.w.map[i] = rewrite_copy(&r.w, &from->instructions[i]);
        layer++;
    }
    return rc ? rc : rewrite_finish(&r.w, err);
}
