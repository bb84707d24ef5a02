// SPDX-License-Identifier: Apache-2.0
#include "ir/retype.h"

int rewrite_copy(struct builder *b, const struct module *from, const struct instruction *in, const int *map)
{
    int operands[64];
    builder_place(b, in);
    if (in->op == OP_PARAMETER) {
        const struct parameter *p = &from->parameters[in->parameter];
        return build_parameter(b, p->role, p->name, in->shape, &p->binding);
    }
    struct instruction copy = *in;
    for (int i = 0; i < in->n_operands; i++)
        operands[i] = map[in->operands[i]];
    copy.operands = operands;
    return builder_append(b, &copy);
}

static int retype_one(struct builder *b, const struct module *from, const struct instruction *in, const int *map)
{
    bool is_float = dtype_is_float(in->shape.dtype);
    if (in->op == OP_PARAMETER) {
        int x = rewrite_copy(b, from, in, map);
        return is_float ? build_convert(b, x, DT_F64) : x;
    }
    if (in->op == OP_CONVERT && is_float) {
        builder_place(b, in);
        int x = map[in->operands[0]];
        if (in->flags & FLAG_MODEL_ROUNDING)
            x = build_convert(b, x, in->shape.dtype);
        return build_convert(b, x, DT_F64);
    }
    if (in->op == OP_BITCAST_CONVERT) { // the bits are those of the stored type
        builder_place(b, in);
        int x = build_convert(b, map[in->operands[0]], from->instructions[in->operands[0]].shape.dtype);
        x = build_bitcast_convert(b, x, in->shape.dtype);
        return is_float ? build_convert(b, x, DT_F64) : x;
    }
    struct instruction wide = *in;
    if (is_float)
        wide.shape.dtype = DT_F64;
    return rewrite_copy(b, from, &wide, map);
}

int module_retype_f64(const struct module *from, struct module *to, struct error *err)
{
    struct builder b;
    int *map = arena_new(to->arena, int, from->n_instructions, err);
    if (!map)
        return ERR_MEMORY;
    for (int i = 0; i < from->n_parameters; i++) {
        if (from->parameters[i].binding.part != BIND_VALUES)
            return error_set(err, ERR_INTERNAL, from->parameters[i].name, "is quantised: the reference is made before");
    }
    builder_init(&b, to);
    for (int i = 0; i < from->n_instructions; i++)
        map[i] = retype_one(&b, from, &from->instructions[i], map);
    for (int i = 0; i < from->n_results; i++)
        build_result(&b, from->result_names[i], map[from->results[i]]);
    return builder_finish(&b, err);
}
