// SPDX-License-Identifier: Apache-2.0
#include "ir/inject.h"

#include "ir/rewrite.h"

// The value that a result is but for its shape: what the instructions behind it use.
static int root_of(const struct module *m, int x)
{
    while (m->instructions[x].op == OP_RESHAPE)
        x = m->instructions[x].operands[0];
    return x;
}

// The input that stands for result r from here on.
static int injected(struct builder *b, const struct module *from, int r)
{
    const char *name = arena_printf(b->module->arena, &b->error, INJECT_PREFIX "%s", from->result_names[r]);
    const struct shape shape = from->instructions[from->results[r]].shape;
    int x = build_parameter(b, ROLE_INPUT, name ? name : "", shape, NULL);
    // Where a policy stores the value, it stores the one in its place, too.
    return from->instructions[root_of(from, from->results[r])].flags & FLAG_STORE ? builder_store(b, x) : x;
}

int module_inject(const struct module *from, const bool *cut, struct module *to, struct error *err)
{
    struct rewrite w;
    int rc = rewrite_init(&w, from, to, err);
    int *made = rc ? NULL : arena_new(to->arena, int, from->n_instructions, err);
    if (!made)
        return rc ? rc : ERR_MEMORY;
    for (int i = 0; i < from->n_instructions; i++) {
        w.map[i] = made[i] = rewrite_copy(&w, &from->instructions[i]);
        bool replaced = false;
        for (int r = 0; r < from->n_results && !replaced; r++) {
            if (from->results[r] != i || !cut[r])
                continue;
            int root = root_of(from, i);
            w.map[i] = injected(&w.b, from, r);
            if (root != i)
                w.map[root] = build_reshape(&w.b, w.map[i], from->instructions[root].shape.rank,
                                            from->instructions[root].shape.dims);
            replaced = true;
        }
    }
    for (int r = 0; r < from->n_results; r++)
        build_result(&w.b, from->result_names[r], made[from->results[r]]);
    return builder_finish(&w.b, err);
}

// Marks what instruction i needs: its operands, and all that is in its regions with what these return.
static void mark_needs(const struct module *m, int i, bool *needed)
{
    const struct instruction *in = &m->instructions[i];
    for (int k = 0; k < in->n_operands; k++)
        needed[in->operands[k]] = true;
    for (int r = 0; r < in->n_regions; r++) {
        for (int k = 0; k < i; k++)
            needed[k] = needed[k] || m->instructions[k].region == in->regions[r];
    }
}

int module_keep(const struct module *from, const bool *keep, struct module *to, struct error *err)
{
    struct rewrite w;
    int rc = rewrite_init(&w, from, to, err);
    bool *needed = rc ? NULL : arena_new(to->arena, bool, from->n_instructions, err);
    if (!needed)
        return rc ? rc : ERR_MEMORY;
    for (int r = 0; r < from->n_results; r++)
        needed[from->results[r]] = needed[from->results[r]] || keep[r];
    for (int i = from->n_instructions - 1; i >= 0; i--) {
        if (needed[i])
            mark_needs(from, i, needed);
    }
    for (int i = 0; i < from->n_instructions; i++) {
        if (needed[i])
            w.map[i] = rewrite_copy(&w, &from->instructions[i]);
    }
    for (int r = 0; r < from->n_results; r++) {
        if (keep[r])
            build_result(&w.b, from->result_names[r], w.map[from->results[r]]);
    }
    return builder_finish(&w.b, err);
}
