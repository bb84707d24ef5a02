// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "ir/hlo_cost.h"
#include "ir/hlo_import.h"
#include "lab/exported.h"
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

static bool is_weight(const struct exported *e, const struct hlo_instruction *in)
{
    return hlo_is(in, "parameter") && e->arguments[in->parameter].role == ROLE_WEIGHT;
}

// Instructions of the entry by where they come from, each with all that it calls.
static int price_as_it_is(struct price *p, const struct exported *e, bool by_scope, struct error *err)
{
    const struct hlo_computation *entry = e->program.hlo.entry;
    struct hlo_costs costs;
    const char *unknown = NULL;
    p->parts[0].part = &p->request.parts[0];
    p->rows = arena_new(&p->arena, struct cost_row, MAX_ROWS, err);
    int rc = p->rows ? hlo_costs_init(&costs, &e->program.hlo, &p->arena, err) : ERR_MEMORY;
    for (size_t i = 0; i < entry->n_instructions && !rc; i++) {
        const struct hlo_instruction *in = &entry->instructions[i];
        struct hlo_cost cost;
        const char *name;
        rc = hlo_cost_instruction(&costs, in, &cost, err);
        if (!rc && is_weight(e, in))
            p->weight_bytes += hlo_shape_bytes(&in->shape);
        if (rc || (cost.bytes == 0 && cost.element_flop == 0 && cost.transcendentals == 0 &&
                   hlo_cost_product_flop(&cost) == 0 && !cost.flop_reason && !cost.bytes_reason))
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
                         .bytes_unfused = cost.bytes,
                         .weight_bytes = NAN}; // an instruction may read a part of one, or through a tuple
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

// By the instructions' own shapes, which may have any extents where there is no module.
static void count_arguments(struct price *p, const struct exported *e)
{
    const struct hlo_computation *entry = e->program.hlo.entry;
    struct price_arguments *a = &p->arguments;
    *a = (struct price_arguments){.n_unused = e->n_unused, .n_cases = e->n_cases};
    for (size_t i = 0; i < entry->n_instructions; i++) {
        const struct hlo_instruction *in = &entry->instructions[i];
        if (!hlo_is(in, "parameter"))
            continue;
        a->n_weights += is_weight(e, in);
        a->n_inputs += !is_weight(e, in);
        a->input_bytes += is_weight(e, in) ? 0 : (double)hlo_shape_bytes(&in->shape);
    }
}

int price_program(struct price *p, const struct price_options *o, bool *done, struct error *err)
{
    struct exported e;
    struct error why = {0};
    bool rewritable = false;
    *done = false;
    int rc = exported_roles(&e,
                            &(struct exported_options){.path = o->workload,
                                                       .weights = o->weights,
                                                       .inputs = o->inputs,
                                                       .weight_args = o->shape.weight_args,
                                                       .lenient = o->lenient},
                            &p->arena, &rewritable, &why, err);
    if (!rc)
        rc = model_request_imported(o->workload, rewritable ? &e.module : NULL, &o->shape, &p->arena, &p->request, err);
    if (rc)
        return rc;
    p->program = e.program.file;
    count_arguments(p, &e);
    if (rewritable && !e.program.parsed.n_left_out)
        return note_devices(p, &e.program, err);
    if (o->what_if)
        return error_set(err, ERR_INPUT, o->workload,
                         "%s: it is priced as it is, and --what-if needs the whole program as it was exported",
                         rewritable ? "parts of it were left out" : why.message);
    if (!rewritable && o->policy)
        return error_set(err, ERR_INPUT, why.where, "%s", why.message);
    *done = true;
    p->note = hlo_is_optimised(&e.program.hlo)
                  ? "An optimised program, priced as it is: bytes are those of its instructions, fused as they are."
                  : arena_printf(&p->arena, err, "Priced as it is, each instruction by itself%s%s.",
                                 rewritable ? "" : ", since ", rewritable ? "" : why.message);
    if (p->note && e.program.parsed.n_left_out)
        p->note =
            arena_printf(&p->arena, err, "%s Left out: %zu, the first in line %zu: %s.", p->note,
                         e.program.parsed.n_left_out, e.program.parsed.notes[0].line, e.program.parsed.notes[0].what);
    rc = p->note ? price_as_it_is(p, &e, o->by_scope, err) : ERR_MEMORY;
    return rc ? rc : note_devices(p, &e.program, err);
}
