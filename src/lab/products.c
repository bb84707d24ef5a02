// SPDX-License-Identifier: Apache-2.0
#include "lab/products.h"

#include <stdlib.h>
#include <string.h>

#include "ir/hlo.h"

struct slice products_module(const void *bytes, size_t n)
{
    struct slice all = {bytes, n}, module = all;
    struct pb_reader r = pb_reader(bytes, n);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (f.number > 2)
            return all;
        if (pb_is(&f, 1, PB_BYTES))
            module = f.body;
    }
    return module;
}

static bool holds(struct slice s, const char *text)
{
    return s.size && memmem(s.data, s.size, text, strlen(text)) != NULL;
}

// custom_call_target of a call of a library.
static struct slice call_target(const struct hlo_instruction *in)
{
    struct pb_reader r = pb_reader(in->message.data, in->message.size);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 28, PB_BYTES))
            return f.body;
    }
    return (struct slice){(const uint8_t *)"", 0};
}

static bool is_product(const struct hlo_instruction *in)
{
    if (hlo_is(in, "dot") || hlo_is(in, "convolution"))
        return true;
    struct slice target = hlo_is(in, "custom-call") ? call_target(in) : (struct slice){NULL, 0};
    return holds(target, "gemm") || holds(target, "matmul") || holds(target, "dot") || holds(target, "conv");
}

static enum dtype type_of(const struct hlo_shape *s)
{
    return s->kind == HLO_ARRAY ? s->dtype : DT_INVALID;
}

static enum dtype operand_type(const struct hlo_instruction *in, size_t k)
{
    return k < in->n_operands ? type_of(&in->operands[k]->shape) : DT_INVALID;
}

static void add_product(struct products *out, int *n, struct products p)
{
    int i = 0;
    while (i < *n && (out[i].lhs != p.lhs || out[i].rhs != p.rhs || out[i].result != p.result))
        i++;
    if (i == *n && i < PRODUCTS_MAX)
        out[(*n)++] = p;
    else if (i < *n)
        out[i].count++;
}

static int by_count(const void *a, const void *b)
{
    return ((const struct products *)b)->count - ((const struct products *)a)->count;
}

int products_of_hlo(const void *bytes, size_t n, struct products out[PRODUCTS_MAX])
{
    struct hlo_module m;
    struct arena arena;
    struct error ignored = {0};
    struct slice module = products_module(bytes, n);
    int found = 0;
    arena_init(&arena);
    bool known = hlo_read(&m, module.data, module.size, "the optimised program", &arena, &ignored) == 0;
    for (size_t c = 0; known && c < m.n_computations; c++) {
        for (size_t i = 0; i < m.computations[c].n_instructions; i++) {
            const struct hlo_instruction *in = &m.computations[c].instructions[i];
            if (is_product(in))
                add_product(out, &found,
                            (struct products){operand_type(in, 0), operand_type(in, 1), type_of(&in->shape), 1});
        }
    }
    arena_release(&arena);
    qsort(out, (size_t)found, sizeof *out, by_count);
    return known ? found : -1;
}
