// SPDX-License-Identifier: Apache-2.0
#include "ir/precision.h"

#include <string.h>

#include "ir/rewrite.h"

static const char *const names[] = {"highest", "high", "default"};

bool matmul_precision_parse(enum matmul_precision *out, const char *name)
{
    for (int i = MATMUL_HIGHEST; i <= MATMUL_DEFAULT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum matmul_precision)i;
            return true;
        }
    }
    return false;
}

const char *matmul_precision_name(enum matmul_precision p)
{
    return names[p];
}

void matmul_precision_json(struct jw *w, enum matmul_precision p, bool emulated)
{
    jw_key(w, "matmul_precision");
    jw_object(w);
    jw_kv_string(w, "asked", matmul_precision_name(p));
    jw_kv_bool(w, "emulated", emulated);
    jw_object_end(w);
}

static bool is_f32_product(const struct module *m, const struct instruction *in)
{
    return (in->op == OP_DOT || in->op == OP_CONVOLUTION) && in->shape.dtype == DT_F32 &&
           m->instructions[in->operands[0]].shape.dtype == DT_F32 &&
           m->instructions[in->operands[1]].shape.dtype == DT_F32;
}

static int product(struct builder *b, const struct instruction *in, int x, int y)
{
    struct instruction copy = *in;
    int operands[2] = {x, y};
    copy.operands = operands;
    copy.flags = 0;
    return x < 0 || y < 0 ? -1 : builder_append(b, &copy);
}

// What is left of x when it is rounded to bf16, itself in bf16.
static int rest(struct builder *b, int x, int high)
{
    return build_convert(b, build_binary(b, OP_SUBTRACT, x, build_convert(b, high, DT_F32)), DT_BF16);
}

static int emulated(struct rewrite *w, const struct instruction *in, enum matmul_precision p)
{
    struct builder *b = &w->b;
    int x = w->map[in->operands[0]], y = w->map[in->operands[1]];
    rewrite_place(w, in);
    int x_high = build_convert(b, x, DT_BF16), y_high = build_convert(b, y, DT_BF16);
    int sum = product(b, in, x_high, y_high);
    if (p == MATMUL_HIGH) {
        int small = product(b, in, x_high, rest(b, y, y_high));
        small = build_binary(b, OP_ADD, small, product(b, in, rest(b, x, x_high), y_high));
        sum = build_binary(b, OP_ADD, sum, small);
    }
    return in->flags & FLAG_STORE ? builder_store(b, sum) : sum;
}

int module_matmul_precision(const struct module *from, enum matmul_precision p, bool emulate, struct module *to,
                            struct error *err)
{
    static const enum dot_precision asked[] = {PRECISION_HIGHEST, PRECISION_HIGH, PRECISION_DEFAULT};
    struct rewrite w;
    int rc = rewrite_init(&w, from, to, err);
    if (rc)
        return rc;
    for (int i = 0; i < from->n_instructions; i++) {
        const struct instruction *in = &from->instructions[i];
        struct instruction copy = *in;
        bool changed = is_f32_product(from, in);
        if (changed)
            copy.dot.precision = asked[p];
        w.map[i] = changed && emulate && p != MATMUL_HIGHEST ? emulated(&w, in, p) : rewrite_copy(&w, &copy);
    }
    return rewrite_finish(&w, err);
}
