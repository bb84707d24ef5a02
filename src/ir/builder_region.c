// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"
#include "ir/region.h"

static bool valid(struct builder *b, int region)
{
    if (!b->error.code && (region <= 0 || region >= b->module->n_regions))
        error_set(&b->error, ERR_INTERNAL, "region", "region %d does not exist", region);
    return !b->error.code;
}

int builder_region(struct builder *b)
{
    struct module *m = b->module;
    int n = m->n_regions ? m->n_regions : 1, depth = 0;
    if (b->error.code)
        return -1;
    for (int r = b->region; r > 0; r = m->regions[r].parent)
        depth++;
    if (depth >= REGION_MAX_DEPTH) {
        error_set(&b->error, ERR_INPUT, "region", "loops lie in each other more than %d deep", REGION_MAX_DEPTH);
        return -1;
    }
    struct region *list = arena_grow(m->arena, m->regions, &m->cap_regions, (size_t)n + 1, sizeof *list, &b->error);
    if (!list)
        return -1;
    m->regions = list;
    if (!m->n_regions)
        list[0] = (struct region){.parent = -1, .owner = -1};
    list[n] = (struct region){.parent = b->region, .owner = -1, .first = m->n_instructions};
    m->n_regions = n + 1;
    return n;
}

int build_region_parameter(struct builder *b, int region, struct shape shape)
{
    struct module *m = b->module;
    if (!valid(b, region))
        return -1;
    int at = b->region, n = m->regions[region].n_parameters;
    b->region = region;
    int x = builder_append(b, &(struct instruction){.op = OP_REGION_PARAMETER, .shape = shape, .axis = n});
    b->region = at;
    struct region *r = &m->regions[region];
    int *list =
        x < 0 ? NULL : arena_grow(m->arena, r->parameters, &r->cap_parameters, (size_t)n + 1, sizeof *list, &b->error);
    if (!list)
        return -1;
    r->parameters = list;
    r->parameters[r->n_parameters++] = x;
    return x;
}

void builder_region_results(struct builder *b, int region, const int *values, int n)
{
    if (!valid(b, region))
        return;
    struct region *r = &b->module->regions[region];
    r->results = arena_new(b->module->arena, int, n, &b->error);
    for (int i = 0; i < n && r->results; i++)
        r->results[i] = values[i];
    r->n_results = r->results ? n : 0;
}

int build_many(struct builder *b, const struct instruction *in, const int *operands, int n, const int *regions,
               int n_regions)
{
    struct instruction copy = *in;
    copy.operands = (int *)operands;
    copy.n_operands = n;
    copy.regions = (int *)regions;
    copy.n_regions = n_regions;
    for (int i = 0; i < n_regions; i++) {
        if (!valid(b, regions[i]))
            return -1;
    }
    int x = builder_append(b, &copy);
    for (int i = 0; i < n_regions && x >= 0; i++)
        b->module->regions[regions[i]].owner = x;
    return x;
}

int build_element(struct builder *b, int many, int k)
{
    struct instruction in = {.op = OP_ELEMENT, .axis = k, .operands = &many, .n_operands = 1};
    if (many < 0 || !module_result_shape(b->module, &b->module->instructions[many], k, &in.shape)) {
        error_set(&b->error, ERR_INTERNAL, "element", "has no result %d", k); // what failed before stays
        return -1;
    }
    return builder_append(b, &in);
}

int build_while(struct builder *b, const int *state, int n, int condition, int body, int64_t trips)
{
    return build_many(b, &(struct instruction){.op = OP_WHILE, .trips = trips}, state, n,
                      (const int[2]){condition, body}, 2);
}
