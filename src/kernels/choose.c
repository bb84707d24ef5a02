// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "ir/cost.h"
#include "ir/rewrite.h"
#include "kernels/choose_part.h"

int chooser_from(const struct chooser *c, int i, enum opcode op, int operand, bool only)
{
    if (i < 0)
        return -1;
    const struct instruction *in = chooser_at(c, i);
    int x = in->op == op && operand < in->n_operands ? in->operands[operand] : -1;
    return x >= 0 && (!only || c->uses[x] == 1) ? x : -1;
}

int chooser_narrow(const struct chooser *c, int i)
{
    int x = chooser_from(c, i, OP_CONVERT, 0, false);
    return x >= 0 && chooser_at(c, x)->shape.dtype == DT_BF16 && chooser_at(c, i)->shape.dtype == DT_F32 ? x : i;
}

int chooser_with_scalar(const struct chooser *c, int i, enum opcode op, double *value)
{
    int x = chooser_from(c, i, op, 0, false), by = chooser_from(c, i, op, 1, false);
    if (by < 0 || chooser_at(c, by)->op != OP_CONSTANT || chooser_at(c, by)->constant != CONST_SPLAT)
        return -1;
    *value = chooser_at(c, by)->splat;
    return x;
}

int chooser_spread(const struct chooser *c, int i, bool leading)
{
    if (chooser_at(c, i)->shape.dtype != DT_F32)
        return -1;
    int narrow = chooser_from(c, i, OP_CONVERT, 0, false);
    const struct instruction *in = chooser_at(c, narrow < 0 ? i : narrow);
    if (in->op != OP_BROADCAST || (in->shape.dtype != DT_F32 && in->shape.dtype != DT_BF16))
        return -1;
    const struct shape *v = &chooser_at(c, in->operands[0])->shape;
    if (v->rank != (leading ? in->shape.rank - 1 : 1) || v->rank < 1)
        return -1;
    for (int d = 0; d < v->rank; d++) {
        int to = leading ? d : in->shape.rank - 1;
        if (in->a[d] != to || v->dims[d] != in->shape.dims[to])
            return -1;
    }
    return in->operands[0];
}

int chooser_over_tokens(const struct chooser *c, int i)
{
    int narrow = chooser_narrow(c, i), x = chooser_from(c, narrow, OP_BROADCAST, 0, false);
    const struct instruction *in = x < 0 ? NULL : chooser_at(c, narrow);
    int last = in ? in->shape.rank - 1 : 0;
    bool one = in && in->n_a == 1 && in->a[0] == last;
    bool each = in && last == 2 && in->n_a == 2 && in->a[0] == 0 && in->a[1] == last;
    if (!one && !each)
        return -1;
    const struct shape *s = &chooser_at(c, x)->shape;
    bool fits = s->dims[s->rank - 1] == in->shape.dims[last] && (one || s->dims[0] == in->shape.dims[0]);
    return fits && (s->dtype == DT_F32 || s->dtype == DT_BF16) ? x : -1;
}

void chooser_vector(const struct chooser *c, struct choice *out, int x)
{
    chooser_operand(c, out, x);
    out->shapes[out->n_operands - 1].dtype = DT_F32;
}

void chooser_operand(const struct chooser *c, struct choice *out, int x)
{
    out->shapes[out->n_operands] = chooser_at(c, x)->shape;
    out->operands[out->n_operands++] = x;
}

static int count_uses(struct chooser *c, struct error *err)
{
    const struct module *m = c->m;
    c->uses = arena_new(c->arena, int, m->n_instructions, err);
    c->choices = arena_new(c->arena, struct choice *, m->n_instructions, err);
    if (!c->uses || !c->choices)
        return ERR_MEMORY;
    for (int i = 0; i < m->n_instructions; i++) {
        for (int k = 0; k < m->instructions[i].n_operands; k++)
            c->uses[m->instructions[i].operands[k]]++;
    }
    for (int i = 0; i < m->n_results; i++)
        c->uses[m->results[i]]++;
    for (int r = 1; r < m->n_regions; r++) {
        for (int k = 0; k < m->regions[r].n_results; k++)
            c->uses[m->regions[r].results[k]]++;
    }
    return 0;
}

static int find_choices(struct chooser *c, struct error *err)
{
    static bool (*const kinds[])(const struct chooser *, int, struct choice *) = {
        choose_product, choose_convolution, choose_attention, choose_group_norm,
        choose_swiglu,  choose_rotary,      choose_layer_norm};
    for (int i = 0; i < c->m->n_instructions; i++) {
        struct choice found = {0};
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !c->choices[i]; k++) {
            if (!kinds[k](c, i, &found))
                continue;
            struct choice *call = arena_new(c->arena, struct choice, 1, err);
            if (!call)
                return ERR_MEMORY;
            *call = found;
            c->choices[i] = call;
        }
    }
    return 0;
}

static void use_region(const struct module *m, int region, bool *used)
{
    const struct region *r = &m->regions[region];
    for (int k = 0; k < r->n_results; k++)
        used[r->results[k]] = true;
    for (int k = 0; k < r->n_parameters; k++) // what an owner gives is taken, used or not
        used[r->parameters[k]] = true;
}

// What is used when the calls are in: a mark per instruction.
static bool *find_used(const struct chooser *c, struct error *err)
{
    const struct module *m = c->m;
    bool *used = arena_new(c->arena, bool, m->n_instructions, err);
    for (int i = 0; used && i < m->n_results; i++)
        used[m->results[i]] = true;
    for (int i = m->n_instructions - 1; used && i >= 0; i--) {
        const struct choice *call = c->choices[i];
        int n = call ? call->n_operands : m->instructions[i].n_operands;
        for (int k = 0; k < n && used[i]; k++)
            used[call ? call->operands[k] : m->instructions[i].operands[k]] = true;
        for (int r = 0; r < m->instructions[i].n_regions && used[i]; r++)
            use_region(m, m->instructions[i].regions[r], used);
    }
    return used;
}

// Adds to `cost` what instruction i and those before it cost that only it needs. `seen` are those that are in the
// program, and those that were added before.
static void add_region(const struct chooser *c, int i, bool *seen, struct cost *cost)
{
    const struct instruction *in = chooser_at(c, i);
    struct cost one;
    seen[i] = true;
    cost_instruction(c->m, i, &one);
    cost_add(cost, &one);
    for (int k = 0; k < in->n_operands; k++) {
        if (!seen[in->operands[k]])
            add_region(c, in->operands[k], seen, cost);
    }
}

static int as_taken(struct builder *b, int x, const struct shape *s)
{
    x = x < 0 ? x : build_convert(b, x, s->dtype);
    return x < 0 || shape_same_dims(builder_shape(b, x), s) ? x : build_reshape(b, x, s->rank, s->dims);
}

static int append_call(struct chooser *c, struct rewrite *w, int i, bool *seen)
{
    struct builder *b = &w->b;
    const struct choice *call = c->choices[i];
    const struct instruction *in = chooser_at(c, i);
    struct cost cost = {0};
    int operands[CHOICE_MAX_OPERANDS];
    add_region(c, i, seen, &cost);
    struct kernel_call k = {.target = kernel_target(call->kind),
                            .attributes = call->attributes,
                            .product_type = DT_F32,
                            .element_flop = cost.element_flop,
                            .transcendentals = cost.transcendentals};
    for (int t = 0; t < DT_COUNT; t++) {
        if (cost.product_flop[t] > k.product_flop) // a call has products of one type
            k.product_type = (enum dtype)t, k.product_flop = cost.product_flop[t];
    }
    rewrite_place(w, in);
    for (int o = 0; o < call->n_operands; o++)
        operands[o] = as_taken(b, w->map[call->operands[o]], &call->shapes[o]);
    struct instruction out = {
        .op = OP_KERNEL, .shape = in->shape, .operands = operands, .n_operands = call->n_operands, .kernel = &k};
    return builder_append(b, &out);
}

int kernels_choose(const struct module *from, double least_flop, struct module *to, struct kernels_chosen *chosen,
                   struct error *err)
{
    struct chooser c = {.m = from, .arena = to->arena, .least_flop = least_flop};
    struct rewrite w;
    memset(chosen, 0, sizeof *chosen);
    int rc = count_uses(&c, err);
    if (!rc)
        rc = find_choices(&c, err);
    bool *used = rc ? NULL : find_used(&c, err), *seen = arena_new(to->arena, bool, from->n_instructions, err);
    if (!used || !seen || rewrite_init(&w, from, to, err))
        return rc ? rc : ERR_MEMORY;
    memcpy(seen, used, (size_t)from->n_instructions * sizeof *seen);
    for (int i = 0; i < from->n_instructions; i++) {
        if (used[i] && c.choices[i]) {
            chosen->count[c.choices[i]->kind]++;
            w.map[i] = append_call(&c, &w, i, seen);
        } else if (used[i] || from->instructions[i].op == OP_PARAMETER) {
            w.map[i] = rewrite_copy(&w, &from->instructions[i]);
        }
    }
    return rewrite_finish(&w, err);
}
