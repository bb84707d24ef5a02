// SPDX-License-Identifier: Apache-2.0
// A model's program for one case: precision, policy, stage, layout.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/policy.h"
#include "lab/compile_part.h"
#include "plan/divide.h"
#include "plan/mesh.h"

// The same product asks for as many passes as its precision says.
static int set_precision(struct module *m, const char *name, struct error *err)
{
    static const char *const names[] = {"default", "high", "highest"};
    int p = 0;
    while (p < 3 && strcmp(names[p], name) != 0)
        p++;
    if (p == 3)
        return error_set(err, ERR_USAGE, "--precision", "'%s' is not default, high or highest", name);
    for (int i = 0; i < m->n_instructions; i++) {
        if (m->instructions[i].op == OP_DOT)
            m->instructions[i].dot.precision = (enum dot_precision)p;
    }
    return 0;
}

// Sequences in the first input.
static int64_t batch_of(const struct module *m)
{
    for (int i = 0; i < m->n_parameters; i++) {
        const struct shape *s = &m->instructions[m->parameters[i].instruction].shape;
        if (m->parameters[i].role == ROLE_INPUT && s->rank)
            return s->dims[0];
    }
    return 1;
}

// The workload for one microbatch of a pipeline: as many as are said, else one sequence for each way of the batch.
static int microbatch(struct compile *c, struct compile_case *k, const struct layout *l,
                      const struct model_shape *shape, struct module **plain, struct error *err)
{
    int64_t batch = batch_of(*plain), by = layout_batch_ways(l);
    struct layout_limits limits = {.dense = true, .batch = batch};
    int rc = layout_check(l, &limits, err);
    if (rc)
        return rc;
    k->stage.microbatches = l->microbatches ? l->microbatches : batch / by;
    k->stage.sequences = batch / k->stage.microbatches;
    if (k->stage.microbatches == 1)
        return 0;
    struct model_shape one = shape ? *shape : (struct model_shape){0};
    struct model_request *r = arena_new(&k->arena, struct model_request, 1, err);
    if (!r)
        return ERR_MEMORY;
    one.batch = k->stage.sequences;
    rc = model_request(c->options.workload, &one, &k->arena, r, err);
    if (!rc) // of the same workload the same parts
        *plain = &r->parts[k->part ? k->part - c->request.parts : 0].module;
    return rc;
}

// What stands between the stages, and between slices; over these only some ways go. A stage that lies in one slice is
// compiled for that.
static int place(struct compile_case *k, const struct layout *l, struct error *err)
{
    struct network n;
    struct mesh mesh;
    struct error unknown = {0};
    int slices = k->target.slices;
    if (slices > 1 && layout_devices(l) == 1)
        return error_set(err, ERR_USAGE, "--target",
                         "%d slices are for a program that is divided: give --layout, as in dp=%d,tp", slices, slices);
    if (slices == 1 && k->stage.of == 1)
        return 0;
    k->stage.handed_s = NAN;
    if (network_of(&k->target, &n, slices > 1 ? err : &unknown))
        return slices > 1 ? ERR_INPUT : 0;
    int rc = mesh_of(&n, l, &mesh, err);
    // One device's share of what is handed on: of the batch, of the tokens.
    double share = (double)(layout_batch_ways(l) * layout_sequence_ways(l) * (l->sp ? l->ways[LAYOUT_TP] : 1));
    for (int i = 0; i < mesh.n && !rc; i++) {
        if (mesh.ways[i].axis != LAYOUT_PP)
            continue;
        k->stage.handed_s =
            collective_hand_over(&mesh.ways[i].network, k->stage.cut.handed_bytes / share, 1).topology_s;
        if (mesh.ways[i].network.slices > 1) {
            k->target.slices = 1;
            k->target.chips /= slices;
            k->target.devices /= slices;
            k->target.hosts /= slices;
        }
    }
    return rc;
}

static int print(struct compile_case *k, const struct layout *l, struct error *err)
{
    struct divided divided;
    struct layout own = *l; // of this stage
    own.ways[LAYOUT_PP] = 1;
    own.microbatches = 0;
    int rc = divide_module(k->module, &own, k->target.slices, &k->arena, &divided, err);
    struct str text;
    str_init(&text);
    if (!rc) {
        k->module = divided.module;
        rc = module_print_divided(k->module, &divided.division, &text, err);
    }
    if (!rc) {
        k->text_bytes = text.length;
        k->text = arena_strndup(&k->arena, text.text, text.length, err);
        rc = k->text ? 0 : ERR_MEMORY;
    }
    k->format = "mlir";
    k->partitions = (int)layout_devices(&own);
    str_release(&text);
    return rc;
}

// Layers as loops, of one device's program that is no stage: what divides a program looks at layers one by one. A model
// of one program runs with layers written out (lab/subject.h), so it is compiled so unless loops are asked for.
static int roll(struct compile *c, struct compile_case *k, const struct layout *l, struct module **m, struct error *err)
{
    enum layers_form form = c->options.layers;
    if (form == LAYERS_AUTO && !k->part && !c->options.modules)
        form = LAYERS_WRITTEN;
    struct module *own = arena_new(&k->arena, struct module, 1, err);
    if (!own)
        return ERR_MEMORY;
    if (layout_devices(l) > 1 || k->stage.of > 1)
        return c->options.layers == LAYERS_LOOP
                   ? error_set(err, ERR_USAGE, "--layers",
                               "loop is for one device's program: layouts divide layers that are written out")
                   : 0;
    *own = **m; // which other cases have, too
    *m = own;
    return layers_apply(form, k->target.chip->is_tpu ? "tpu" : "gpu", own, &k->rolled, err);
}

int compile_case_model(struct compile *c, struct compile_case *k, struct module *plain, const struct model_shape *shape,
                       struct error *err)
{
    struct module *new = arena_new(&k->arena, struct module, 2, err), *m = &new[0], *stage = &new[1];
    struct policy policy;
    struct layout layout = layout_single();
    int rc = new ? 0 : ERR_MEMORY;
    if (!rc && c->options.layout)
        rc = layout_parse(&layout, c->options.layout, k->target.devices, err);
    if (!rc && k->stage.of > 1)
        rc = microbatch(c, k, &layout, shape, &plain, err);
    if (rc)
        return rc;
    if (k->policy && !c->options.modules) {
        module_init(m, &k->arena, c->options.workload);
        rc = policy_parse(&policy, k->policy, err);
        if (!rc)
            rc = module_apply_policy(plain, &policy, false, m, err);
    } else {
        m = plain;
    }
    if (!rc && c->options.precision)
        rc = set_precision(m, c->options.precision, err);
    if (!rc && k->stage.of > 1) {
        module_init(stage, &k->arena, c->options.workload);
        rc = stage_module(m, k->stage.of, k->stage.number, stage, &k->stage.cut, err);
        m = stage;
    }
    if (!rc)
        rc = roll(c, k, &layout, &m, err);
    k->module = m;
    if (!rc)
        rc = place(k, &layout, err);
    return rc ? rc : print(k, &layout, err);
}
