// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "ir/hlo_cost.h"
#include "ir/hlo_import.h"
#include "lab/price.h"
#include "models/program.h"

enum { MAX_ROWS = 1000 };

// The row of a name; the last one is for all that come when there are too many.
static struct cost_row *row_of(struct price *p, const char *name)
{
    for (int i = 0; i < p->n_rows; i++) {
        if (strcmp(p->rows[i].group, name) == 0)
            return &p->rows[i];
    }
    if (p->n_rows == MAX_ROWS)
        return &p->rows[MAX_ROWS - 1];
    p->rows[p->n_rows] = (struct cost_row){.group = p->n_rows == MAX_ROWS - 1 ? "(others)" : name};
    return &p->rows[p->n_rows++];
}

static bool is_weight(const struct program *program, const struct hlo_instruction *in)
{
    return hlo_is(in, "parameter") && in->parameter >= program->first_weight && in->parameter <= program->last_weight;
}

// Instructions of the entry by where they come from, each with all that it calls.
static int price_as_it_is(struct price *p, const struct program *program, bool by_scope, struct error *err)
{
    const struct hlo_computation *entry = program->hlo.entry;
    struct hlo_costs costs;
    const char *unknown = NULL;
    struct model_part *part = &p->request.parts[0];
    p->request = (struct model_request){.n_parts = 1, .fixed = true, .unit = "run", .batch = 1};
    *part = (struct model_part){.name = "program", .call = "run", .calls = 1};
    module_init(&part->module, &p->arena, "program");
    p->parts[0].part = part;
    p->rows = arena_new(&p->arena, struct cost_row, MAX_ROWS, err);
    int rc = p->rows ? hlo_costs_init(&costs, &program->hlo, &p->arena, err) : ERR_MEMORY;
    for (size_t i = 0; i < entry->n_instructions && !rc; i++) {
        const struct hlo_instruction *in = &entry->instructions[i];
        struct hlo_cost cost;
        const char *name;
        rc = hlo_cost_instruction(&costs, in, &cost, err);
        if (!rc && is_weight(program, in))
            p->weight_bytes += hlo_shape_bytes(&in->shape);
        if (rc || (!cost.bytes && !cost.element_flop && !cost.transcendentals && !hlo_cost_product_flop(&cost) &&
                   !cost.flop_reason && !cost.bytes_reason))
            continue;
        rc = hlo_scope(in, &p->arena, &name, err);
        if (!rc && !by_scope)
            rc = hlo_scope_group(name, &p->arena, &name, err);
        if (rc)
            continue;
        struct cost c = {.element_flop = cost.element_flop,
                         .transcendentals = cost.transcendentals,
                         .bytes = cost.bytes,
                         .bytes_merged = cost.bytes,
                         .bytes_unfused = cost.bytes};
        memcpy(c.product_flop, cost.product_flop, sizeof c.product_flop);
        cost_add(&row_of(p, name)->cost, &c);
        cost_add(&p->total, &c);
        unknown = unknown ? unknown : cost.flop_reason ? cost.flop_reason : cost.bytes_reason;
    }
    p->parts[0].total = p->total;
    p->parts[0].n_rows = p->n_rows;
    p->parts[0].weight_bytes = p->weight_bytes;
    if (!rc && unknown) {
        p->note = arena_printf(&p->arena, err, "%s Numbers are lower bounds: %s.", p->note, unknown);
        rc = p->note ? 0 : ERR_MEMORY;
    }
    return rc;
}

// A program for several devices, before it is divided among them, computes as if there were one.
static int note_devices(struct price *p, const struct program *program, struct error *err)
{
    int64_t n = program->parsed.n_devices;
    if (n < 2)
        return 0;
    p->note = arena_printf(&p->arena, err, "%s%sFor %lld devices: numbers are those of %s.", p->note ? p->note : "",
                           p->note ? " " : "", (long long)n,
                           hlo_is_optimised(&program->hlo) ? "one of them" : "all of them together");
    return p->note ? 0 : ERR_MEMORY;
}

int price_program(struct price *p, const struct price_options *o, bool *done, struct error *err)
{
    struct program program;
    struct error why = {0};
    *done = false;
    int rc = program_open(&program, o->workload, o->shape.weight_args, o->lenient, &p->arena, err);
    if (rc)
        return rc;
    p->program = program.file;
    rc = model_request_program(&program, &o->shape, &p->arena, &p->request, &why);
    if (!rc && !program.parsed.n_left_out)
        return note_devices(p, &program, err);
    if (rc && (rc != ERR_INPUT || o->policy || o->what_if))
        return error_set(err, rc, why.where, "%s", why.message);
    *done = true;
    p->note = hlo_is_optimised(&program.hlo)
                  ? "An optimised program, priced as it is: bytes are those of its instructions, fused as they are."
                  : arena_printf(&p->arena, err, "Priced as it is, each instruction by itself%s%s.",
                                 rc ? ", since " : "", rc ? why.message : "");
    if (p->note && program.parsed.n_left_out)
        p->note = arena_printf(&p->arena, err, "%s Left out: %zu, the first in line %zu: %s.", p->note,
                               program.parsed.n_left_out, program.parsed.notes[0].line, program.parsed.notes[0].what);
    rc = p->note ? price_as_it_is(p, &program, o->by_scope, err) : ERR_MEMORY;
    return rc ? rc : note_devices(p, &program, err);
}
