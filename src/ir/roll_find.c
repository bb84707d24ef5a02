// SPDX-License-Identifier: Apache-2.0
// Which layers of a module repeat.
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ir/roll_part.h"

// The characters in front of the number in "layer.3.qkv", and the number; -1 for a scope that is no layer's.
static int name_of(const char *scope, int *number)
{
    const char *dot = strchr(scope, '.');
    int n = 0;
    if (!dot || dot[1] < '0' || dot[1] > '9')
        return -1;
    for (const char *at = dot + 1; *at >= '0' && *at <= '9'; at++) {
        if (n > INT_MAX / 10 - 1)
            return -1;
        n = n * 10 + (*at - '0');
    }
    *number = n;
    return (int)(dot + 1 - scope);
}

static bool same_name(const char *a, const char *b, int n)
{
    return n < 0 || strncmp(a, b, (size_t)n) == 0;
}

const char *roll_rest(const char *scope, int name)
{
    return scope + name + strspn(scope + name, "0123456789");
}

static void divide(struct roll_find *f)
{
    const char *scope = "";
    for (int i = 0; i < f->m->n_instructions; i++) {
        const struct instruction *in = &f->m->instructions[i];
        int number = 0, name = name_of(in->scope, &number);
        struct roll_layer *last = f->n_layers ? &f->layers[f->n_layers - 1] : NULL;
        if (!last || last->name != name || last->number != number || !same_name(scope, in->scope, name)) {
            last = &f->layers[f->n_layers++];
            *last = (struct roll_layer){.first = i, .number = number, .name = name, .repeats = name >= 0};
            scope = in->scope;
        }
        last->end = i + 1;
        f->layer_of[i] = f->n_layers - 1;
        // Weights are stacked; another argument that is one layer's alone is not.
        if (in->region || in->n_regions || in->op == OP_ELEMENT ||
            (in->op == OP_PARAMETER && f->m->parameters[in->parameter].role != ROLE_WEIGHT))
            last->repeats = false;
    }
}

static void use(struct roll_find *f, int value, int layer)
{
    struct roll_layer *of = &f->layers[f->layer_of[value]];
    if (f->layer_of[value] == layer)
        return;
    if (f->m->instructions[value].op == OP_PARAMETER)
        of->repeats = false; // it would be stacked for some and not for others
    (f->layer_of[value] + 1 == layer ? f->used_next : f->used_far)[value] = 1;
}

int roll_find_init(struct roll_find *f, const struct module *m, struct arena *arena, struct error *err)
{
    size_t n = (size_t)m->n_instructions;
    *f = (struct roll_find){.m = m};
    f->layers = arena_new(arena, struct roll_layer, n, err);
    f->layer_of = arena_new(arena, int, n, err);
    f->used_next = arena_new(arena, uint8_t, n, err);
    f->used_far = arena_new(arena, uint8_t, n, err);
    if (!f->layers || !f->layer_of || !f->used_next || !f->used_far)
        return ERR_MEMORY;
    memset(f->used_next, 0, n);
    memset(f->used_far, 0, n);
    divide(f);
    for (int i = 0; i < m->n_instructions; i++) {
        for (int k = 0; k < m->instructions[i].n_operands; k++)
            use(f, m->instructions[i].operands[k], f->layer_of[i]);
    }
    for (int r = 0; r < m->n_regions; r++) {
        for (int k = 0; k < m->regions[r].n_results; k++)
            use(f, m->regions[r].results[k], -2);
    }
    for (int r = 0; r < m->n_results; r++)
        use(f, m->results[r], -2);
    return 0;
}

static bool same_integers(const int64_t *a, const int64_t *b)
{
    return memcmp(a, b, SHAPE_MAX_RANK * sizeof *a) == 0;
}

static bool same_number(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static bool same_constant(const struct instruction *a, const struct instruction *b)
{
    if (a->constant != b->constant || !same_number(a->splat, b->splat))
        return false;
    return a->op != OP_CONSTANT || a->constant != CONST_DENSE ||
           memcmp(a->dense, b->dense, (size_t)shape_elements(&a->shape) * sizeof *a->dense) == 0;
}

// Of weights that are stacked: all but the sources.
static bool same_binding(const struct binding *a, const struct binding *b)
{
    return !a->n_layers && !b->n_layers && a->n_sources == b->n_sources && a->store == b->store && a->part == b->part &&
           a->code == b->code && a->grain == b->grain && a->group == b->group && a->packed == b->packed &&
           a->as.rank == b->as.rank && a->as.n_stack == b->as.n_stack && a->as.n_rows == b->as.n_rows &&
           memcmp(a->as.axes, b->as.axes, sizeof a->as.axes) == 0;
}

// Instructions that differ in their operands, weights and layer at most. Those with windows, convolutions, indexing
// and kernels are not looked into: no layer that repeats has one when layers are rolled up.
static bool same_instruction(const struct module *m, const struct instruction *a, const struct instruction *b, int name)
{
    if (a->window || b->window || a->convolution || b->convolution || a->indexing || b->indexing || a->kernel ||
        b->kernel)
        return false;
    return a->op == b->op && shape_equal(&a->shape, &b->shape) && a->n_operands == b->n_operands &&
           strcmp(roll_rest(a->scope, name), roll_rest(b->scope, name)) == 0 && strcmp(a->group, b->group) == 0 &&
           a->domain == b->domain && a->flags == b->flags && same_integers(a->a, b->a) && same_integers(a->b, b->b) &&
           same_integers(a->c, b->c) && a->n_a == b->n_a && a->axis == b->axis && a->reducer == b->reducer &&
           a->compare == b->compare && memcmp(&a->dot, &b->dot, sizeof a->dot) == 0 && same_constant(a, b) &&
           (a->op != OP_PARAMETER ||
            same_binding(&m->parameters[a->parameter].binding, &m->parameters[b->parameter].binding));
}

// How an instruction of layer `at` of the row uses a value, where one of the layer before it, in the same place, used
// `before`: both of their own layers, both from before the row, or handed on by the layer before.
static bool same_use(const struct roll_find *f, struct roll_row *row, int at, int before, int value)
{
    const struct roll_layer *own = &f->layers[at], *last = own - 1;
    if (value >= own->first)
        return before >= last->first && value - own->first == before - last->first;
    if (value < f->layers[row->first].first)
        return value == before;
    if (value < last->first || before >= last->first)
        return false;
    int place = value - last->first;
    if (at > row->first + 1) // the second handed it on, too
        return before >= last[-1].first && before - last[-1].first == place;
    if (row->start[place] < 0)
        row->start[place] = before;
    return row->start[place] == before &&
           shape_equal(&f->m->instructions[before].shape, &f->m->instructions[value].shape);
}

// Whether the layer does what the one before it did.
static bool follows(const struct roll_find *f, struct roll_row *row, int at)
{
    const struct roll_layer *own = &f->layers[at], *last = own - 1;
    if (!own->repeats || own->name != last->name || own->number != last->number + 1 ||
        own->end - own->first != last->end - last->first ||
        !same_name(f->m->instructions[own->first].scope, f->m->instructions[last->first].scope, own->name))
        return false;
    for (int i = 0; i < own->end - own->first; i++) {
        const struct instruction *a = &f->m->instructions[last->first + i], *b = &f->m->instructions[own->first + i];
        if (!same_instruction(f->m, a, b, own->name))
            return false;
        for (int k = 0; k < b->n_operands; k++) {
            if (!same_use(f, row, at, a->operands[k], b->operands[k]))
                return false;
        }
    }
    return true;
}

// Whether all that is used of the layer is used by the next one.
static bool hands_on(const struct roll_find *f, const struct roll_layer *l)
{
    for (int i = l->first; i < l->end; i++) {
        if (f->used_far[i])
            return false;
    }
    return true;
}

void roll_find_row(const struct roll_find *f, int layer, struct roll_row *row)
{
    const struct roll_layer *first = &f->layers[layer];
    *row = (struct roll_row){.first = layer, .n = 1, .start = row->start};
    for (int i = 0; i < first->end - first->first; i++)
        row->start[i] = -1;
    if (!first->repeats)
        return;
    while (layer + row->n < f->n_layers && hands_on(f, &f->layers[layer + row->n - 1]) &&
           follows(f, row, layer + row->n))
        row->n++;
}
