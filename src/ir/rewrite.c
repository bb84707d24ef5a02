// SPDX-License-Identifier: Apache-2.0
#include "ir/rewrite.h"

#include <string.h>

int rewrite_init(struct rewrite *w, const struct module *from, struct module *to, struct error *err)
{
    *w = (struct rewrite){.from = from};
    size_t n = (size_t)from->n_instructions, n_regions = (size_t)from->n_regions;
    w->map = arena_new(to->arena, int, n, err);
    w->regions = arena_new(to->arena, int, n_regions, err);
    if (!w->map || !w->regions)
        return ERR_MEMORY;
    memset(w->map, -1, n * sizeof *w->map);
    memset(w->regions, -1, n_regions * sizeof *w->regions);
    builder_init(&w->b, to);
    builder_reserve(&w->b, n + n / 2); // what a policy adds, most often
    return 0;
}

int rewrite_init_once(struct rewrite *w, const struct module *from, struct module *to, struct error *err)
{
    for (int i = 0; i < from->n_parameters; i++) {
        if (from->parameters[i].binding.part != BIND_VALUES)
            return error_set(err, ERR_INTERNAL, from->parameters[i].name,
                             "is quantised: it has a policy already, and passes come once");
    }
    return rewrite_init(w, from, to, err);
}

int rewrite_finish(struct rewrite *w, struct error *err)
{
    for (int i = 0; i < w->from->n_results; i++)
        build_result(&w->b, w->from->result_names[i], w->map[w->from->results[i]]);
    return builder_finish(&w->b, err);
}

int rewrite_region(struct rewrite *w, int old)
{
    int at = w->b.region;
    if (old <= 0)
        return w->base;
    if (w->regions[old] < 0) {
        w->b.region = rewrite_region(w, w->from->regions[old].parent);
        w->regions[old] = builder_region(&w->b);
        w->b.region = at;
    }
    return w->regions[old] < 0 ? 0 : w->regions[old];
}

void rewrite_place(struct rewrite *w, const struct instruction *in)
{
    builder_place(&w->b, in);
    w->b.region = rewrite_region(w, in->region);
}

static void look_up(const struct rewrite *w, const int *old, int n, int *values)
{
    for (int i = 0; i < n && i < OP_MAX_OPERANDS; i++)
        values[i] = w->map[old[i]];
}

int rewrite_copy(struct rewrite *w, const struct instruction *in)
{
    int operands[OP_MAX_OPERANDS] = {0}, results[OP_MAX_OPERANDS] = {0};
    struct instruction copy = *in;
    rewrite_place(w, in);
    look_up(w, in->operands, in->n_operands, operands);
    switch (in->op) {
    case OP_PARAMETER: {
        const struct parameter *p = &w->from->parameters[in->parameter];
        return build_parameter(&w->b, p->role, p->name, in->shape, &p->binding);
    }
    case OP_REGION_PARAMETER:
        return build_region_parameter(&w->b, w->b.region, in->shape);
    case OP_ELEMENT:
        return build_element(&w->b, operands[0], (int)in->axis);
    default:
        break;
    }
    for (int i = 0; i < in->n_regions; i++) {
        const struct region *r = &w->from->regions[in->regions[i]];
        look_up(w, r->results, r->n_results, results);
        rewrite_results(w, in->regions[i], results, r->n_results);
    }
    if (in->n_regions)
        return rewrite_owner(w, in, operands);
    copy.operands = operands;
    return builder_append(&w->b, &copy);
}

void rewrite_results(struct rewrite *w, int region, const int *values, int n)
{
    builder_region_results(&w->b, rewrite_region(w, region), values, n); // one without instructions is begun here
}

// ---- Sums

static struct rewrite_sum *find_sum(const struct rewrite *w, int key, int region)
{
    for (int i = w->n_sums - 1; i >= 0; i--) {
        if (w->sums[i].key == key && w->sums[i].region == region)
            return &w->sums[i];
    }
    return NULL;
}

void rewrite_add(struct rewrite *w, int key, enum opcode reducer, int value)
{
    struct rewrite_sum *sum = find_sum(w, key, w->b.region);
    if (sum) {
        sum->value = build_binary(&w->b, reducer, sum->value, value);
        return;
    }
    struct rewrite_sum *list =
        arena_grow(w->b.module->arena, w->sums, &w->cap_sums, (size_t)w->n_sums + 1, sizeof *list, &w->b.error);
    if (!list || value < 0)
        return;
    w->sums = list;
    w->sums[w->n_sums++] = (struct rewrite_sum){key, w->b.region, value, reducer};
}

int rewrite_sum(const struct rewrite *w, int key)
{
    const struct rewrite_sum *sum = find_sum(w, key, 0);
    return sum ? sum->value : -1;
}

static struct region *region_at(struct rewrite *w, int region)
{
    return &w->b.module->regions[region];
}

static void return_more(struct rewrite *w, int region, int value)
{
    int results[OP_MAX_OPERANDS] = {0};
    struct region *r = region_at(w, region);
    int n = r->n_results;
    if (n >= OP_MAX_OPERANDS || value < 0) {
        error_set(&w->b.error, ERR_INPUT, "loop", "hands on more than %d values", OP_MAX_OPERANDS);
        return;
    }
    memcpy(results, r->results, (size_t)n * sizeof *results);
    results[n] = value;
    builder_region_results(&w->b, region, results, n + 1);
}

// A loop takes one more value along, which starts neutral. Returns the new operand.
static int carry(struct rewrite *w, const struct rewrite_sum *sum, int condition, int body)
{
    struct builder *b = &w->b;
    int at = b->region;
    struct shape shape = *builder_shape(b, sum->value);
    int start = build_neutral(b, sum->reducer, shape);
    build_region_parameter(b, condition, shape);
    int before = build_region_parameter(b, body, shape);
    b->region = body;
    return_more(w, body, build_binary(b, sum->reducer, before, sum->value));
    b->region = at;
    return start;
}

// Every branch gives one more value.
static void give(struct rewrite *w, const struct rewrite_sum *sum, const int *regions, int n)
{
    struct builder *b = &w->b;
    int at = b->region;
    struct shape shape = *builder_shape(b, sum->value);
    for (int i = 0; i < n; i++) {
        const struct rewrite_sum *own = find_sum(w, sum->key, regions[i]);
        b->region = regions[i];
        return_more(w, regions[i], own ? own->value : build_neutral(b, sum->reducer, shape));
    }
    b->region = at;
}

static bool is_among(int region, const int *regions, int n)
{
    for (int i = 0; i < n; i++) {
        if (regions[i] == region)
            return true;
    }
    return false;
}

// The sums that leave the regions: at most `max` of them, one per key.
static int leaving(const struct rewrite *w, const int *regions, int n, struct rewrite_sum *out, int max)
{
    int found = 0;
    for (int i = 0; i < w->n_sums; i++) {
        bool again = false;
        for (int k = 0; k < found; k++)
            again |= out[k].key == w->sums[i].key;
        if (!again && found < max && is_among(w->sums[i].region, regions, n))
            out[found++] = w->sums[i];
    }
    return found;
}

static void forget(struct rewrite *w, const int *regions, int n)
{
    int kept = 0;
    for (int i = 0; i < w->n_sums; i++) {
        if (!is_among(w->sums[i].region, regions, n))
            w->sums[kept++] = w->sums[i];
    }
    w->n_sums = kept;
}

int rewrite_owner(struct rewrite *w, const struct instruction *in, const int *operands)
{
    struct rewrite_sum sums[OP_MAX_OPERANDS];
    int all[OP_MAX_OPERANDS] = {0}, regions[OP_MAX_OPERANDS] = {0}, n = in->n_operands, n_sums = 0;
    struct builder *b = &w->b;
    bool loop = in->op == OP_WHILE, branches = in->op == OP_CASE;
    rewrite_place(w, in);
    if (in->n_regions > OP_MAX_OPERANDS)
        error_set(&b->error, ERR_INPUT, op_info(in->op)->name, "has %d regions", in->n_regions);
    if (b->error.code)
        return -1;
    for (int i = 0; i < in->n_regions; i++)
        regions[i] = w->regions[in->regions[i]];
    memcpy(all, operands, (size_t)n * sizeof *all);
    // Of a loop only what its body sums: the condition returns nothing but whether to go on.
    if (loop || branches)
        n_sums = leaving(w, loop ? regions + 1 : regions, loop ? 1 : in->n_regions, sums, OP_MAX_OPERANDS - n);
    for (int i = 0; i < n_sums && !b->error.code; i++) {
        if (loop)
            all[n++] = carry(w, &sums[i], regions[0], regions[1]);
        else
            give(w, &sums[i], regions, in->n_regions);
    }
    forget(w, regions, in->n_regions);
    int made = build_many(b, in, all, n, regions, in->n_regions);
    for (int i = 0, first = made < 0 ? 0 : b->module->regions[regions[in->n_regions - 1]].n_results - n_sums;
         i < n_sums && made >= 0; i++)
        rewrite_add(w, sums[i].key, sums[i].reducer, build_element(b, made, first + i));
    return made;
}
