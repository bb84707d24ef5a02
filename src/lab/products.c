// SPDX-License-Identifier: Apache-2.0
#include "lab/products.h"

#include <stdlib.h>
#include <string.h>

#include "ir/hlo_attributes.h"

static bool holds(struct slice s, const char *text)
{
    return s.size && memmem(s.data, s.size, text, strlen(text)) != NULL;
}

// `*is`: a dot, a convolution, or a call of a library whose name says that it is one.
static int is_product(const struct hlo_module *m, const struct hlo_instruction *in, struct arena *arena, bool *is,
                      struct error *err)
{
    struct hlo_attributes a;
    *is = hlo_is(in, "dot") || hlo_is(in, "convolution");
    if (!hlo_is(in, "custom-call"))
        return 0;
    int rc = hlo_attributes_read(&a, m, in, arena, err);
    struct slice target = a.custom_call_target;
    *is = !rc && (holds(target, "gemm") || holds(target, "matmul") || holds(target, "dot") ||
                  holds(target, "product") || holds(target, "assay.attention") || holds(target, "conv"));
    return rc;
}

// Scores and values.
static bool both_of_attention(const struct hlo_module *m, const struct hlo_instruction *in, struct arena *arena)
{
    struct hlo_attributes a;
    struct error ignored = {0};
    return hlo_attributes_read(&a, m, in, arena, &ignored) == 0 && holds(a.custom_call_target, "assay.attention");
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
    int found = 0;
    arena_init(&arena);
    int rc = hlo_read(&m, bytes, n, "the optimised program", &arena, &ignored);
    for (size_t c = 0; !rc && c < m.n_computations; c++) {
        for (size_t i = 0; i < m.computations[c].n_instructions && !rc; i++) {
            const struct hlo_instruction *in = &m.computations[c].instructions[i];
            bool is = false;
            rc = is_product(&m, in, &arena, &is, &ignored);
            struct products p = {operand_type(in, 0), operand_type(in, 1), type_of(&in->shape), 1};
            if (is)
                add_product(out, &found, p);
            if (is && hlo_is(in, "custom-call") && both_of_attention(&m, in, &arena))
                add_product(out, &found, p);
        }
    }
    arena_release(&arena);
    qsort(out, (size_t)found, sizeof *out, by_count);
    return rc ? -1 : found;
}
