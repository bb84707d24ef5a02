// SPDX-License-Identifier: Apache-2.0
#include "plan/stages.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/rewrite.h"
#include "plan/attention_product.h"

struct cutter {
    const struct module *m;
    int *layers; // the first instruction of each
    int64_t n_layers;
    bool *input; // values that follow from inputs alone
    bool *needed, *handed_in, *handed_out;
};

// "layer.3" of "layer.3.attention.scores": up to the first number.
static size_t layer_name(const char *scope)
{
    size_t n = strcspn(scope, "0123456789");
    while (scope[n] && isdigit((unsigned char)scope[n]))
        n++;
    return n;
}

static int find_layers(struct cutter *c, struct error *err)
{
    struct attention_product p;
    c->layers = arena_new(c->m->arena, int, (size_t)c->m->n_instructions, err);
    if (!c->layers)
        return ERR_MEMORY;
    for (int i = 0; i < c->m->n_instructions; i++) {
        const struct instruction *in = &c->m->instructions[i];
        if (!attention_product(c->m, in, &p) || !p.scores)
            continue;
        size_t n = layer_name(in->scope);
        int first = i;
        for (int k = i; k > 0; k--) {
            const char *scope = c->m->instructions[k].scope;
            if (strncmp(scope, in->scope, n) == 0 && !isdigit((unsigned char)scope[n]))
                first = k;
        }
        if (!c->n_layers || c->layers[c->n_layers - 1] < first)
            c->layers[c->n_layers++] = first;
    }
    return 0;
}

static bool from_inputs(const struct cutter *c, int i)
{
    const struct instruction *in = &c->m->instructions[i];
    bool all = in->op != OP_PARAMETER || c->m->parameters[in->parameter].role == ROLE_INPUT;
    for (int o = 0; o < in->n_operands; o++)
        all &= c->input[in->operands[o]];
    return all;
}

static bool is_result(const struct module *m, int value)
{
    for (int i = 0; i < m->n_results; i++) {
        if (m->results[i] == value)
            return true;
    }
    return false;
}

// Values that are made before `at` and used from there on.
static void find_handed(const struct cutter *c, int at, bool *handed)
{
    for (int i = at; i < c->m->n_instructions; i++) {
        const struct instruction *in = &c->m->instructions[i];
        for (int o = 0; o < in->n_operands; o++) {
            int x = in->operands[o];
            handed[x] |= x < at && !c->input[x] && c->m->instructions[x].op != OP_PARAMETER;
        }
    }
}

// What the stage from `from` up to `to` runs.
static void find_needed(struct cutter *c, int from, int to)
{
    for (int i = c->m->n_instructions - 1; i >= 0; i--) {
        const struct instruction *in = &c->m->instructions[i];
        c->needed[i] |= c->handed_out[i] || (i >= from && i < to && is_result(c->m, i));
        if (!c->needed[i] || c->handed_in[i])
            continue;
        for (int o = 0; o < in->n_operands; o++)
            c->needed[in->operands[o]] = true;
    }
}

static int hand(struct rewrite *w, int value)
{
    char name[32];
    snprintf(name, sizeof name, "handed.%d", value);
    rewrite_place(w, &w->from->instructions[value]);
    return build_parameter(&w->b, ROLE_INPUT, name, w->from->instructions[value].shape, NULL);
}

static int write_stage(struct cutter *c, int from, int to, struct module *out, struct stage *info, struct error *err)
{
    struct rewrite w;
    int rc = rewrite_init(&w, c->m, out, err);
    for (int i = 0; i < c->m->n_instructions && !rc; i++) {
        if (c->handed_in[i] && c->needed[i])
            w.map[i] = hand(&w, i);
        else if (c->needed[i])
            w.map[i] = rewrite_copy(&w, &c->m->instructions[i]);
    }
    for (int i = 0; i < c->m->n_instructions && !rc; i++) {
        char name[32];
        if (!c->handed_out[i])
            continue;
        snprintf(name, sizeof name, "handed.%d", i);
        build_result(&w.b, name, w.map[i]);
        info->handed_bytes += (double)shape_bytes(&c->m->instructions[i].shape);
    }
    for (int i = 0; i < c->m->n_results && !rc; i++) {
        int value = c->m->results[i];
        if (value >= from && value < to && !c->handed_out[value])
            build_result(&w.b, c->m->result_names[i], w.map[value]);
    }
    return rc ? rc : builder_finish(&w.b, err);
}

int stage_module(const struct module *m, int64_t stages, int64_t number, struct module *out, struct stage *info,
                 struct error *err)
{
    struct cutter c = {.m = m};
    size_t n = (size_t)m->n_instructions;
    *info = (struct stage){.handed_bytes = 0};
    bool *flags = arena_new(out->arena, bool, 4 * n, err);
    int rc = flags ? find_layers(&c, err) : ERR_MEMORY;
    if (rc)
        return rc;
    if (m->n_regions > 1 || stages > c.n_layers)
        return error_set(err, ERR_USAGE, "--layout",
                         "pp=%" PRId64 " is more stages than the model has layers, %" PRId64, stages,
                         m->n_regions > 1 ? 1 : c.n_layers);
    c.input = flags;
    c.needed = flags + n;
    c.handed_in = flags + 2 * n;
    c.handed_out = flags + 3 * n;
    for (int i = 0; i < m->n_instructions; i++)
        c.input[i] = from_inputs(&c, i);
    int64_t least = c.n_layers / stages, more = c.n_layers % stages; // the first `more` stages have one more
    info->first_layer = number * least + (number < more ? number : more);
    info->last_layer = info->first_layer + least + (number < more) - 1;
    int from = number ? c.layers[info->first_layer] : 0,
        to = number + 1 < stages ? c.layers[info->last_layer + 1] : m->n_instructions;
    if (number)
        find_handed(&c, from, c.handed_in);
    if (number + 1 < stages)
        find_handed(&c, to, c.handed_out);
    find_needed(&c, from, to);
    return write_stage(&c, from, to, out, info, err);
}
