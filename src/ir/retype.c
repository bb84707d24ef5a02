// SPDX-License-Identifier: Apache-2.0
#include "ir/retype.h"

static int retype_one(struct rewrite *w, const struct instruction *in)
{
    struct builder *b = &w->b;
    bool is_float = dtype_is_float(in->shape.dtype);
    if (in->op == OP_PARAMETER) {
        int x = rewrite_copy(w, in);
        return is_float ? build_convert(b, x, DT_F64) : x;
    }
    if (in->op == OP_CONVERT && is_float) {
        rewrite_place(w, in);
        int x = w->map[in->operands[0]];
        if (in->flags & FLAG_MODEL_ROUNDING)
            x = build_convert(b, x, in->shape.dtype);
        return build_convert(b, x, DT_F64);
    }
    if (in->op == OP_BITCAST_CONVERT) { // the bits are those of the stored type
        rewrite_place(w, in);
        int x = build_convert(b, w->map[in->operands[0]], w->from->instructions[in->operands[0]].shape.dtype);
        struct instruction copy = *in;
        copy.operands = &x;
        x = builder_append(b, &copy);
        return is_float ? build_convert(b, x, DT_F64) : x;
    }
    struct instruction wide = *in;
    if (is_float)
        wide.shape.dtype = DT_F64;
    return rewrite_copy(w, &wide);
}

int module_retype_f64(const struct module *from, struct module *to, struct error *err)
{
    struct rewrite w;
    int rc = rewrite_init_once(&w, from, to, err);
    if (rc)
        return rc;
    for (int i = 0; i < from->n_instructions; i++)
        w.map[i] = retype_one(&w, &from->instructions[i]);
    return rewrite_finish(&w, err);
}
