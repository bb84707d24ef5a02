// SPDX-License-Identifier: Apache-2.0
#include "lab/products.h"

#include <stdlib.h>
#include <string.h>

#include "ir/hlo_attributes.h"

static bool holds(struct slice s, const char *text)
{
    return s.size && memmem(s.data, s.size, text, strlen(text)) != NULL;
}

static enum dtype type_of(const struct hlo_shape *s)
{
    return s->kind == HLO_ARRAY ? s->dtype : DT_INVALID;
}

static enum dtype operand_type(const struct hlo_instruction *in, size_t k)
{
    return k < in->n_operands ? type_of(&in->operands[k]->shape) : DT_INVALID;
}

// How many products an instruction is: a dot and a convolution are one, and so is a call of a library whose name says
// that it is one; attention is two, of scores and of values.
static int product_of(const struct hlo_module *m, const struct hlo_instruction *in, struct arena *arena,
                      struct products *p, int *times, struct error *err)
{
    struct hlo_attributes a;
    *p = (struct products){operand_type(in, 0), operand_type(in, 1), type_of(&in->shape), 1};
    *times = hlo_is(in, "dot") || hlo_is(in, "convolution");
    if (!hlo_is(in, "custom-call"))
        return 0;
    int rc = hlo_attributes_read(&a, m, in, arena, err);
    if (rc)
        return rc;
    struct slice target = a.custom_call_target;
    if (holds(target, "assay.attention"))
        *times = 2;
    else
        *times = holds(target, "gemm") || holds(target, "matmul") || holds(target, "dot") || holds(target, "product") ||
                 holds(target, "conv");
    if (holds(target, "assay.product") && holds(a.backend_config, "quantise = 1 ")) // and then multiplies codes
        p->lhs = p->rhs;
    if (holds(target, "assay.product") && holds(a.backend_config, "packed = 1 ")) // two codes to a byte
        p->rhs = DT_S4;
    return 0;
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
    int found = 0;
    arena_init(&arena);
    int rc = hlo_read(&m, bytes, n, "the optimised program", &arena, &ignored);
    for (size_t c = 0; !rc && c < m.n_computations; c++) {
        for (size_t i = 0; i < m.computations[c].n_instructions && !rc; i++) {
            const struct hlo_instruction *in = &m.computations[c].instructions[i];
            struct products p;
            int times = 0;
            rc = product_of(&m, in, &arena, &p, &times, &ignored);
            for (int k = 0; k < times && !rc; k++)
                add_product(out, &found, p);
        }
    }
    arena_release(&arena);
    qsort(out, (size_t)found, sizeof *out, by_count);
    return rc ? -1 : found;
}
