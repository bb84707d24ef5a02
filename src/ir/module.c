// SPDX-License-Identifier: Apache-2.0
#include "ir/module.h"

#include <string.h>

#include "ir/region.h"

void module_init(struct module *m, struct arena *arena, const char *name)
{
    memset(m, 0, sizeof *m);
    m->arena = arena;
    m->name = name;
}

static int verify_instruction(const struct module *m, int i, struct error *err)
{
    const struct instruction *in = &m->instructions[i];
    struct shape want;
    const char *name = (unsigned)in->op < OP_COUNT ? op_info(in->op)->name : "?";
    if ((unsigned)in->op >= OP_COUNT || !in->scope || !in->group || (in->n_operands && !in->operands) ||
        (unsigned)in->domain > DOMAIN_SOFTMAX)
        return error_set(err, ERR_INTERNAL, name, "instruction %d is malformed", i);
    if (module_check(m, in, i, &want, err))
        return err ? err->code : ERR_INTERNAL;
    if (!shape_equal(&want, &in->shape))
        return error_set(err, ERR_INTERNAL, name, "instruction %d has another shape than its operands give", i);
    if (in->op == OP_PARAMETER && (in->parameter < 0 || in->parameter >= m->n_parameters || in->region ||
                                   m->parameters[in->parameter].instruction != i))
        return error_set(err, ERR_INTERNAL, name, "instruction %d and its parameter do not name each other", i);
    return shape_check(&in->shape, name, err);
}

static int verify_binding(const struct binding *b, enum dtype type, const char *name, struct error *err)
{
    if (b->n_sources < 1 || b->n_sources > BIND_MAX_SOURCES)
        return error_set(err, ERR_INTERNAL, name, "a weight has a binding and an input has none");
    for (int k = 0; k < b->n_sources; k++) {
        if (!b->sources[k])
            return error_set(err, ERR_INTERNAL, name, "source %d has no name", k);
    }
    if (b->store != type || (unsigned)b->part > BIND_SCALES || (unsigned)b->grain > GRAIN_GROUP)
        return error_set(err, ERR_INTERNAL, name, "its binding does not fit the parameter's type");
    return 0;
}

static int verify_parameter(const struct module *m, int i, struct error *err)
{
    const struct parameter *p = &m->parameters[i];
    const struct binding *b = &p->binding;
    if (!p->name || (unsigned)p->role > ROLE_STATE)
        return error_set(err, ERR_INTERNAL, "parameter", "parameter %d is malformed", i);
    if (p->instruction < 0 || p->instruction >= m->n_instructions ||
        m->instructions[p->instruction].op != OP_PARAMETER || m->instructions[p->instruction].parameter != i)
        return error_set(err, ERR_INTERNAL, p->name, "parameter %d has no instruction", i);
    if (p->role != ROLE_WEIGHT)
        return b->n_sources ? error_set(err, ERR_INTERNAL, p->name, "a weight has a binding and an input has none") : 0;
    const struct shape *shape = &m->instructions[p->instruction].shape;
    if (b->n_layers < 0 || (b->n_layers && (!b->layers || !shape->rank || shape->dims[0] != b->n_layers)))
        return error_set(err, ERR_INTERNAL, p->name, "is no stack of %d weights", b->n_layers);
    int rc = verify_binding(b, shape->dtype, p->name, err);
    for (int k = 0; k < b->n_layers && !rc; k++)
        rc = b->layers[k].n_layers ? error_set(err, ERR_INTERNAL, p->name, "is a stack of stacks")
                                   : verify_binding(&b->layers[k], shape->dtype, p->name, err);
    return rc;
}

int module_verify(const struct module *m, struct error *err)
{
    for (int i = 0; i < m->n_instructions; i++) {
        if (verify_instruction(m, i, err))
            return err ? err->code : ERR_INTERNAL;
    }
    if (module_check_regions(m, err))
        return err ? err->code : ERR_INTERNAL;
    for (int i = 0; i < m->n_parameters; i++) {
        if (verify_parameter(m, i, err))
            return err ? err->code : ERR_INTERNAL;
    }
    if (m->n_results <= 0)
        return error_set(err, ERR_INTERNAL, m->name, "the module returns nothing");
    for (int i = 0; i < m->n_results; i++) {
        if (m->results[i] < 0 || m->results[i] >= m->n_instructions || !m->result_names[i] ||
            !module_sees(m, 0, m->results[i]))
            return error_set(err, ERR_INTERNAL, m->name, "result %d does not exist", i);
    }
    return 0;
}

void module_weight_bytes(const struct module *m, int64_t *weights, int64_t *scales)
{
    *weights = *scales = 0;
    for (int i = 0; i < m->n_parameters; i++) {
        const struct parameter *p = &m->parameters[i];
        if (p->role == ROLE_WEIGHT)
            *(p->binding.part == BIND_SCALES ? scales : weights) += shape_bytes(&m->instructions[p->instruction].shape);
    }
}
