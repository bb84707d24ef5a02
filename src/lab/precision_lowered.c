// SPDX-License-Identifier: Apache-2.0
#include "lab/precision_lowered.h"

#include <string.h>

#include "ir/hlo_attributes.h"
#include "lab/precision.h"

static bool wanted(const struct hlo_instruction *in)
{
    return hlo_is(in, "dot") || hlo_is(in, "convolution") || hlo_is(in, "custom-call");
}

static void print_shape(struct str *out, const struct hlo_shape *s)
{
    if (s->kind != HLO_ARRAY) {
        str_add(out, "tuple[]");
        return;
    }
    str_addf(out, "%s[", dtype_name(s->dtype));
    for (int i = 0; i < s->rank; i++)
        str_addf(out, "%s%lld", i ? "," : "", (long long)s->dims[i]);
    str_add_char(out, ']');
}

static void print_precision(struct str *out, const struct hlo_attributes *a)
{
    static const char *const names[] = {"default", "high", "highest"};
    bool any = false;
    for (size_t i = 0; i < a->precision.n; i++)
        any |= a->precision.at[i] != 0;
    for (size_t i = 0; i < a->precision.n && any; i++) {
        int64_t v = a->precision.at[i];
        str_addf(out, "%s%s", i ? "," : " operand_precision={", v >= 0 && v <= 2 ? names[v] : "other");
    }
    str_add(out, any ? "}" : "");
    if (a->algorithm)
        str_addf(out, " algorithm=%lld", (long long)a->algorithm);
}

static void print_instruction(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    print_shape(out, &in->shape);
    str_add_char(out, ' ');
    str_add_n(out, in->opcode.data, in->opcode.size);
    if (a->custom_call_target.size) {
        str_add_char(out, ' ');
        str_add_n(out, a->custom_call_target.data, a->custom_call_target.size);
    }
    str_add_char(out, '(');
    for (size_t i = 0; i < in->n_operands; i++) {
        str_add(out, i ? ", " : "");
        print_shape(out, &in->operands[i]->shape);
    }
    str_add_char(out, ')');
    print_precision(out, a);
}

static const char *describe(struct arena *a, const struct hlo_module *m, const struct hlo_instruction *in,
                            struct error *err)
{
    struct hlo_attributes attributes;
    struct str text;
    if (hlo_attributes_read(&attributes, m, in, a, err))
        return NULL;
    str_init(&text);
    print_instruction(&text, in, &attributes);
    const char *kept = str_check(&text, err) ? NULL : arena_strdup(a, str_text(&text), err);
    str_release(&text);
    return kept;
}

int precision_lowered_products(struct arena *a, const char *bytes, size_t n, const char **products, size_t *n_products,
                               struct error *err)
{
    struct hlo_module m;
    struct error why = {0};
    *n_products = 0;
    if (hlo_read(&m, bytes, n, "the optimised program", a, &why))
        return why.code == ERR_MEMORY ? error_set(err, why.code, why.where, "%s", why.message) : 0;
    for (size_t c = 0; c < m.n_computations; c++) {
        const struct hlo_computation *computation = &m.computations[c];
        for (size_t i = 0; i < computation->n_instructions && *n_products < PRECISION_PRODUCTS; i++) {
            if (!wanted(&computation->instructions[i]))
                continue;
            products[*n_products] = describe(a, &m, &computation->instructions[i], err);
            if (!products[*n_products])
                return ERR_MEMORY;
            ++*n_products;
        }
    }
    return 0;
}
