// SPDX-License-Identifier: Apache-2.0
#include "ir/region.h"

#include <string.h>

#define BAD(...) error_set(err, ERR_INTERNAL, op_info(in->op)->name, __VA_ARGS__)

bool module_sees(const struct module *m, int region, int value)
{
    if (value < 0 || value >= m->n_instructions || op_info(m->instructions[value].op)->class == OPC_MANY)
        return false;
    int home = m->instructions[value].region;
    while (region > home && region < m->n_regions) // a region comes behind the one it lies in
        region = m->regions[region].parent;
    return region == home;
}

int module_n_results(const struct module *m, const struct instruction *in)
{
    switch (in->op) {
    case OP_WHILE:
    case OP_SORT:
        return in->n_operands;
    case OP_REDUCE_MANY:
        return in->n_operands / 2;
    case OP_CASE:
        return in->n_regions > 0 ? m->regions[in->regions[0]].n_results : 0;
    case OP_TOP_K:
    case OP_RNG_BITS:
        return 2;
    default:
        return 0;
    }
}

bool module_result_shape(const struct module *m, const struct instruction *in, int k, struct shape *out)
{
    if (k < 0 || k >= module_n_results(m, in))
        return false;
    *out = in->shape;
    switch (in->op) {
    case OP_WHILE:
    case OP_SORT:
        *out = m->instructions[in->operands[k]].shape;
        break;
    case OP_REDUCE_MANY:
        out->dtype = m->instructions[in->operands[k]].shape.dtype;
        break;
    case OP_CASE:
        *out = m->instructions[m->regions[in->regions[0]].results[k]].shape;
        break;
    case OP_TOP_K:
        out->dtype = k ? DT_S32 : out->dtype;
        break;
    default: // OP_RNG_BITS
        *out = k ? in->shape : m->instructions[in->operands[0]].shape;
    }
    return true;
}

// ---- Checks

// The values a region takes and returns are of these shapes.
static bool takes(const struct module *m, const struct region *r, const struct shape *shapes, int n)
{
    if (r->n_parameters != n)
        return false;
    for (int i = 0; i < n; i++) {
        if (!shape_equal(&m->instructions[r->parameters[i]].shape, &shapes[i]))
            return false;
    }
    return true;
}

static bool returns(const struct module *m, const struct region *r, const struct shape *shapes, int n)
{
    if (r->n_results != n)
        return false;
    for (int i = 0; i < n; i++) {
        if (!shape_equal(&m->instructions[r->results[i]].shape, &shapes[i]))
            return false;
    }
    return true;
}

static const struct shape pred = {.dtype = DT_PRED};

static int check_while(const struct module *m, const struct instruction *in, const struct shape *s, struct error *err)
{
    if (in->n_regions != 2 || in->trips < -1)
        return BAD("has %d regions, not a condition and a body", in->n_regions);
    const struct region *condition = &m->regions[in->regions[0]], *body = &m->regions[in->regions[1]];
    if (!takes(m, condition, s, in->n_operands) || !takes(m, body, s, in->n_operands))
        return BAD("its regions do not take its state");
    if (!returns(m, condition, &pred, 1) || !returns(m, body, s, in->n_operands))
        return BAD("its condition does not give a pred, or its body not the state");
    return 0;
}

static int check_case(const struct module *m, const struct instruction *in, const struct shape *s, struct error *err)
{
    struct shape first[OP_MAX_OPERANDS] = {{0}};
    if (in->n_regions < 1 || (s[0].dtype == DT_PRED && in->n_regions != 2))
        return BAD("has %d branches", in->n_regions);
    int n = module_n_results(m, in);
    if (n < 1 || n > OP_MAX_OPERANDS)
        return BAD("its branches give %d results", n);
    for (int k = 0; k < n; k++)
        module_result_shape(m, in, k, &first[k]);
    for (int i = 0; i < in->n_regions; i++) {
        const struct region *r = &m->regions[in->regions[i]];
        if (r->n_parameters || !returns(m, r, first, n))
            return BAD("branch %d takes something, or gives other results than the first", i);
    }
    return shape_equal(&in->shape, &first[0]) ? 0 : BAD("has not the shape of its first result");
}

// Two scalars of each operand's type: beside each other for a sort, all of one side first for a reduction.
static int check_scalars(const struct module *m, const struct instruction *in, const struct shape *s, struct error *err)
{
    struct shape scalars[2 * OP_MAX_OPERANDS] = {{0}};
    bool sort = in->op == OP_SORT;
    int n = sort ? in->n_operands : in->n_operands / 2;
    if (in->n_regions != 1)
        return BAD("has %d regions", in->n_regions);
    const struct region *r = &m->regions[in->regions[0]];
    for (int k = 0; k < n; k++) {
        scalars[sort ? 2 * k : k] = scalars[sort ? 2 * k + 1 : n + k] = (struct shape){.dtype = s[k].dtype};
    }
    if (!takes(m, r, scalars, 2 * n) || !(sort ? returns(m, r, &pred, 1) : returns(m, r, scalars, n)))
        return BAD("its region does not take two scalars of each operand and give what it should");
    return 0;
}

static int check_regions_of(const struct module *m, const struct instruction *in, int index, const struct shape *s,
                            struct error *err)
{
    for (int i = 0; i < in->n_regions; i++) {
        int r = in->regions ? in->regions[i] : -1;
        if (r <= 0 || r >= m->n_regions || m->regions[r].parent != in->region ||
            (m->regions[r].owner >= 0 && m->regions[r].owner != index))
            return BAD("region %d belongs to another", r);
        for (int k = 0; k < m->regions[r].n_results; k++) {
            if (m->regions[r].results[k] >= index || !module_sees(m, r, m->regions[r].results[k]))
                return BAD("a region returns value %d, which it does not see", m->regions[r].results[k]);
        }
    }
    switch (in->op) {
    case OP_WHILE:
        return check_while(m, in, s, err);
    case OP_CASE:
        return check_case(m, in, s, err);
    case OP_SORT:
    case OP_REDUCE_MANY:
        return check_scalars(m, in, s, err);
    default:
        return in->n_regions ? BAD("has a region") : 0;
    }
}

// What a value is that a region takes, or that stands for one of several results.
static int check_name(const struct module *m, const struct instruction *in, int index, struct error *err)
{
    struct shape shape;
    if (in->op == OP_ELEMENT) {
        const struct instruction *many = &m->instructions[in->operands[0]];
        if (in->axis < 0 || in->axis > OP_MAX_OPERANDS || !module_result_shape(m, many, (int)in->axis, &shape) ||
            !shape_equal(&shape, &in->shape))
            return BAD("is not result %lld of what it names", (long long)in->axis);
        return 0;
    }
    const struct region *r = in->region > 0 && in->region < m->n_regions ? &m->regions[in->region] : NULL;
    if (!r || in->axis < 0 || in->axis > r->n_parameters ||
        (in->axis < r->n_parameters && r->parameters[in->axis] != index) ||
        (in->axis == r->n_parameters && index != m->n_instructions))
        return BAD("is not parameter %lld of its region", (long long)in->axis);
    return 0;
}

int module_check(const struct module *m, const struct instruction *in, int index, struct shape *shape,
                 struct error *err)
{
    struct shape shapes[OP_MAX_OPERANDS];
    if (in->n_operands < 0 || in->n_operands > OP_MAX_OPERANDS || in->region < 0 ||
        (in->region && in->region >= m->n_regions))
        return BAD("instruction %d is malformed", index);
    // Those that inference may look at where too few are given; all of them would be 36 KB for each instruction.
    memset(shapes, 0, (size_t)(in->n_operands > 4 ? in->n_operands : 4) * sizeof *shapes);
    for (int k = 0; k < in->n_operands; k++) {
        int x = in->operands[k];
        if (x < 0 || x >= index || x >= m->n_instructions)
            return BAD("instruction %d uses value %d, which does not come before it", index, x);
        bool many = op_info(m->instructions[x].op)->class == OPC_MANY;
        if (in->op == OP_ELEMENT ? !many || m->instructions[x].region != in->region : !module_sees(m, in->region, x))
            return BAD("instruction %d uses value %d, which is not there where it is", index, x);
        shapes[k] = m->instructions[x].shape;
    }
    int rc = op_infer(in, shapes, shape, err);
    if (!rc && (in->op == OP_ELEMENT || in->op == OP_REGION_PARAMETER))
        rc = check_name(m, in, index, err);
    return rc ? rc : check_regions_of(m, in, index, shapes, err);
}

int module_check_regions(const struct module *m, struct error *err)
{
    for (int r = 1; r < m->n_regions; r++) {
        const struct region *x = &m->regions[r];
        bool owned = x->parent >= 0 && x->parent < r && x->owner >= 0 && x->owner < m->n_instructions;
        const struct instruction *in = owned ? &m->instructions[x->owner] : NULL;
        bool named = false;
        for (int i = 0; in && i < in->n_regions; i++)
            named |= in->regions[i] == r;
        if (!named)
            return error_set(err, ERR_INTERNAL, "region", "region %d belongs to no instruction", r);
    }
    for (int i = 0; i < m->n_instructions; i++) {
        int r = m->instructions[i].region;
        if (r && (i < m->regions[r].first || i >= m->regions[r].owner))
            return error_set(err, ERR_INTERNAL, "region", "instruction %d lies outside its region %d", i, r);
    }
    return 0;
}

bool module_is_scalar_region(const struct module *m, int region)
{
    for (; region > 0; region = m->regions[region].parent) {
        int owner = m->regions[region].owner;
        if (owner >= 0 && (m->instructions[owner].op == OP_SORT || m->instructions[owner].op == OP_REDUCE_MANY))
            return true;
    }
    return false;
}
