// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_same.h"

#include "base/pbread.h"

// Fields of HloInstructionProto that are maps, or hold one: frontend_attributes.
enum { FRONTEND_ATTRIBUTES = 68 };

// Whether every field of one message is in the other as often. Messages are small: a handful of attributes.
static bool same_shuffled(struct slice a, struct slice b)
{
    size_t n[2] = {0, 0};
    struct pb_field f, g;
    struct pb_reader outer = pb_reader(a.data, a.size);
    while (pb_next(&outer, &f)) {
        size_t in_a = 0, in_b = 0;
        struct pb_reader r = pb_reader(a.data, a.size), s = pb_reader(b.data, b.size);
        while (pb_next(&r, &g))
            in_a += g.number == f.number && g.wire == f.wire && g.value == f.value && slice_equal(g.body, f.body);
        while (pb_next(&s, &g))
            in_b += g.number == f.number && g.wire == f.wire && g.value == f.value && slice_equal(g.body, f.body);
        if (in_a != in_b)
            return false;
        n[0]++;
    }
    struct pb_reader other = pb_reader(b.data, b.size);
    while (pb_next(&other, &g))
        n[1]++;
    return n[0] == n[1] && !outer.damage && !other.damage;
}

static bool same_field(const struct pb_field *f, const struct pb_field *g)
{
    if (f->number != g->number || f->wire != g->wire)
        return false;
    if (f->wire != PB_BYTES)
        return f->value == g->value;
    if (slice_equal(f->body, g->body))
        return true;
    return f->number == FRONTEND_ATTRIBUTES && f->body.size == g->body.size && same_shuffled(f->body, g->body);
}

static bool same_instruction(const struct hlo_instruction *a, const struct hlo_instruction *b)
{
    if (slice_equal(a->message, b->message))
        return true;
    if (a->message.size != b->message.size)
        return false;
    struct pb_reader r = pb_reader(a->message.data, a->message.size);
    struct pb_reader s = pb_reader(b->message.data, b->message.size);
    struct pb_field f, g;
    while (pb_next(&r, &f)) {
        if (!pb_next(&s, &g) || !same_field(&f, &g))
            return false;
    }
    return !pb_next(&s, &g) && !r.damage && !s.damage;
}

static bool same_computation(const struct hlo_computation *a, const struct hlo_computation *b)
{
    if (a->id != b->id || !slice_equal(a->name, b->name) || a->n_instructions != b->n_instructions ||
        !slice_equal(a->thread, b->thread) || !a->root != !b->root || (a->root && a->root->id != b->root->id) ||
        !a->schedule != !b->schedule)
        return false;
    for (size_t i = 0; i < a->n_instructions; i++) {
        if (!same_instruction(&a->instructions[i], &b->instructions[i]))
            return false;
        if (a->schedule && a->schedule[i]->id != b->schedule[i]->id)
            return false;
    }
    return true;
}

bool hlo_same(const struct hlo_module *a, const struct hlo_module *b)
{
    if (!slice_equal(a->name, b->name) || a->n_computations != b->n_computations || !a->entry != !b->entry ||
        (a->entry && a->entry->id != b->entry->id))
        return false;
    for (size_t i = 0; i < a->n_computations; i++) {
        if (!same_computation(&a->computations[i], &b->computations[i]))
            return false;
    }
    return true;
}
