// SPDX-License-Identifier: Apache-2.0
// Field numbers of an instruction's attributes: xla/service/hlo.proto, PrecisionConfig of xla/xla_data.proto.
#include "lab/precision_lowered.h"

#include <string.h>

#include "ir/hlo.h"
#include "lab/precision.h"
#include "lab/products.h"

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

// A bytes field of the instruction; empty when there is none.
static struct slice field(const struct hlo_instruction *in, uint32_t number)
{
    struct pb_reader r = pb_reader(in->message.data, in->message.size);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, number, PB_BYTES))
            return f.body;
    }
    return (struct slice){(const uint8_t *)"", 0};
}

enum { MAX_OPERANDS = 8 };

// Repeated enums: packed, or one each.
static size_t operand_precisions(const struct pb_field *f, uint64_t *out, size_t n)
{
    if (f->wire == PB_VARINT) {
        if (n < MAX_OPERANDS)
            out[n++] = f->value;
        return n;
    }
    const uint8_t *at = f->body.data, *end = at + f->body.size;
    while (at && at < end && n < MAX_OPERANDS) {
        at = pb_get_varint(at, end, &out[n]);
        n += at != NULL;
    }
    return n;
}

static void print_precision(struct str *out, struct slice config)
{
    static const char *const names[] = {"default", "high", "highest"};
    uint64_t values[MAX_OPERANDS] = {0}, algorithm = 0, any = 0;
    struct pb_reader r = pb_reader(config.data, config.size);
    struct pb_field f = {0};
    size_t n = 0;
    while (pb_next(&r, &f)) {
        if (f.number == 1 && (f.wire == PB_VARINT || f.wire == PB_BYTES))
            n = operand_precisions(&f, values, n);
        else if (pb_is(&f, 2, PB_VARINT))
            algorithm = f.value;
    }
    for (size_t i = 0; i < n; i++)
        any |= values[i];
    for (size_t i = 0; i < n && any; i++)
        str_addf(out, "%s%s", i ? "," : " operand_precision={", values[i] <= 2 ? names[values[i]] : "other");
    str_add(out, any ? "}" : "");
    if (algorithm)
        str_addf(out, " algorithm=%llu", (unsigned long long)algorithm);
}

static void print_instruction(struct str *out, const struct hlo_instruction *in)
{
    struct slice target = field(in, 28); // custom_call_target
    print_shape(out, &in->shape);
    str_add_char(out, ' ');
    str_add_n(out, in->opcode.data, in->opcode.size);
    if (target.size) {
        str_add_char(out, ' ');
        str_add_n(out, target.data, target.size);
    }
    str_add_char(out, '(');
    for (size_t i = 0; i < in->n_operands; i++) {
        str_add(out, i ? ", " : "");
        print_shape(out, &in->operands[i]->shape);
    }
    str_add_char(out, ')');
    print_precision(out, field(in, 51)); // precision_config
}

static const char *describe(struct arena *a, const struct hlo_instruction *in, struct error *err)
{
    struct str text;
    str_init(&text);
    print_instruction(&text, in);
    const char *kept = str_check(&text, err) ? NULL : arena_strdup(a, str_text(&text), err);
    str_release(&text);
    return kept;
}

int precision_lowered_products(struct arena *a, const char *bytes, size_t n, const char **products, size_t *n_products,
                               struct error *err)
{
    struct hlo_module m;
    struct error why = {0};
    struct slice module = products_module(bytes, n);
    *n_products = 0;
    if (hlo_read(&m, module.data, module.size, "the optimised program", a, &why))
        return why.code == ERR_MEMORY ? error_set(err, why.code, why.where, "%s", why.message) : 0;
    for (size_t c = 0; c < m.n_computations; c++) {
        const struct hlo_computation *computation = &m.computations[c];
        for (size_t i = 0; i < computation->n_instructions && *n_products < PRECISION_PRODUCTS; i++) {
            if (!wanted(&computation->instructions[i]))
                continue;
            products[*n_products] = describe(a, &computation->instructions[i], err);
            if (!products[*n_products])
                return ERR_MEMORY;
            ++*n_products;
        }
    }
    return 0;
}
