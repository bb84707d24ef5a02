// SPDX-License-Identifier: Apache-2.0
// Field numbers: xla/service/hlo.proto and xla/xla_data.proto.
#include "lab/precision_lowered.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "lab/precision.h"

// ---- one field of a message at a time; a damaged one ends it

struct field {
    uint32_t number;
    int wire;
    uint64_t value;      // varints
    struct cursor bytes; // length-delimited ones
};

static uint64_t varint(struct cursor *c)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const uint8_t *byte = cursor_take(c, 1);
        if (!byte)
            return 0;
        v |= (uint64_t)(*byte & 127) << shift;
        if (*byte < 128)
            return v;
    }
    c->failed = true;
    return 0;
}

static bool next_field(struct cursor *c, struct field *f)
{
    if (cursor_left(c) == 0)
        return false;
    uint64_t tag = varint(c), n = 0;
    *f = (struct field){.number = (uint32_t)(tag >> 3), .wire = (int)(tag & 7)};
    switch (f->wire) {
    case 0:
        f->value = varint(c);
        break;
    case 1:
        n = 8;
        break;
    case 2:
        n = varint(c);
        break;
    case 5:
        n = 4;
        break;
    default:
        c->failed = true;
    }
    const uint8_t *data = n > SIZE_MAX ? NULL : cursor_take(c, (size_t)n);
    if (data)
        cursor_init(&f->bytes, data, (size_t)n);
    return !c->failed;
}

// Repeated integers: packed, or one each.
static size_t integers(struct field *f, int64_t *out, size_t n, size_t max)
{
    if (f->wire == 0) {
        if (n < max)
            out[n++] = (int64_t)f->value;
        return n;
    }
    while (cursor_left(&f->bytes) && n < max)
        out[n++] = (int64_t)varint(&f->bytes);
    return n;
}

// ---- instructions

enum { MAX_OPERANDS = 8 };

struct hlo {
    int64_t id;
    struct cursor opcode, target, shape, precision;
    int64_t operands[MAX_OPERANDS];
    size_t n_operands;
};

static bool is(const struct cursor *c, const char *text)
{
    return c->size == strlen(text) && memcmp(c->data, text, c->size) == 0;
}

static void read_instruction(struct cursor c, struct hlo *out)
{
    struct field f;
    memset(out, 0, sizeof *out);
    out->id = -1;
    out->opcode = out->target = out->shape = out->precision = (struct cursor){.data = (const uint8_t *)""};
    while (next_field(&c, &f)) {
        if (f.number == 2)
            out->opcode = f.bytes;
        else if (f.number == 3)
            out->shape = f.bytes;
        else if (f.number == 28)
            out->target = f.bytes;
        else if (f.number == 35)
            out->id = (int64_t)f.value;
        else if (f.number == 36)
            out->n_operands = integers(&f, out->operands, out->n_operands, MAX_OPERANDS);
        else if (f.number == 51)
            out->precision = f.bytes;
    }
}

static bool wanted(const struct hlo *in)
{
    return is(&in->opcode, "dot") || is(&in->opcode, "convolution") || is(&in->opcode, "custom-call");
}

static enum dtype element_type(uint64_t primitive)
{
    for (int t = 1; t < DT_COUNT; t++) {
        if ((uint64_t)dtype_info((enum dtype)t)->xla == primitive)
            return (enum dtype)t;
    }
    return DT_INVALID;
}

static void print_shape(struct str *out, struct cursor shape)
{
    struct field f;
    int64_t dims[WORKER_MAX_RANK] = {0};
    size_t n = 0;
    enum dtype type = DT_INVALID;
    while (next_field(&shape, &f)) {
        if (f.number == 2)
            type = element_type(f.value);
        else if (f.number == 3)
            n = integers(&f, dims, n, WORKER_MAX_RANK);
    }
    str_addf(out, "%s[", type == DT_INVALID ? "tuple" : dtype_name(type));
    for (size_t i = 0; i < n; i++)
        str_addf(out, "%s%lld", i ? "," : "", (long long)dims[i]);
    str_add_char(out, ']');
}

static void print_precision(struct str *out, struct cursor precision)
{
    static const char *const names[] = {"default", "high", "highest"};
    struct field f;
    int64_t values[MAX_OPERANDS] = {0}, algorithm = 0, any = 0;
    size_t n = 0;
    while (next_field(&precision, &f)) {
        if (f.number == 1)
            n = integers(&f, values, n, MAX_OPERANDS);
        else if (f.number == 2)
            algorithm = (int64_t)f.value;
    }
    for (size_t i = 0; i < n; i++)
        any |= values[i];
    for (size_t i = 0; i < n && any; i++)
        str_addf(out, "%s%s", i ? "," : " operand_precision={",
                 values[i] >= 0 && values[i] <= 2 ? names[values[i]] : "other");
    if (any)
        str_add_char(out, '}');
    if (algorithm)
        str_addf(out, " algorithm=%lld", (long long)algorithm);
}

// The shape of the instruction `id` of the same computation.
static struct cursor shape_of_id(struct cursor computation, int64_t id)
{
    struct field f;
    struct hlo in;
    while (next_field(&computation, &f)) {
        if (f.number != 2 || f.wire != 2)
            continue;
        read_instruction(f.bytes, &in);
        if (in.id == id)
            return in.shape;
    }
    return (struct cursor){.data = (const uint8_t *)""};
}

static void print_instruction(struct str *out, const struct hlo *in, struct cursor computation)
{
    print_shape(out, in->shape);
    str_add_char(out, ' ');
    str_add_n(out, in->opcode.data, in->opcode.size);
    if (in->target.size) {
        str_add_char(out, ' ');
        str_add_n(out, in->target.data, in->target.size);
    }
    for (size_t i = 0; i < in->n_operands; i++) {
        str_add(out, i ? ", " : "(");
        print_shape(out, shape_of_id(computation, in->operands[i]));
    }
    str_add(out, in->n_operands ? ")" : "()");
    print_precision(out, in->precision);
}

static int read_computation(struct arena *a, struct cursor computation, const char **products, size_t *n,
                            struct error *err)
{
    struct cursor c = computation;
    struct field f;
    struct hlo in;
    while (next_field(&c, &f) && *n < PRECISION_PRODUCTS) {
        if (f.number != 2 || f.wire != 2)
            continue;
        read_instruction(f.bytes, &in);
        if (!wanted(&in))
            continue;
        struct str text;
        str_init(&text);
        print_instruction(&text, &in, computation);
        const char *kept = arena_strdup(a, str_text(&text), err);
        str_release(&text);
        if (!kept)
            return ERR_MEMORY;
        products[(*n)++] = kept;
    }
    return 0;
}

static int read_module(struct arena *a, struct cursor c, const char **products, size_t *n, struct error *err)
{
    struct field f;
    int rc = 0;
    while (!rc && next_field(&c, &f)) {
        if (f.number == 3 && f.wire == 2) // HloModuleProto.computations
            rc = read_computation(a, f.bytes, products, n, err);
    }
    return rc;
}

int precision_lowered_products(struct arena *a, const char *bytes, size_t n, const char **products, size_t *n_products,
                               struct error *err)
{
    struct cursor c;
    struct field f;
    *n_products = 0;
    cursor_init(&c, bytes, n);
    // HloModuleProtoWithConfig.hlo_module is a message in field 1, where HloModuleProto has its name.
    int rc = read_module(a, c, products, n_products, err);
    if (rc || *n_products)
        return rc;
    cursor_init(&c, bytes, n);
    while (!rc && next_field(&c, &f)) {
        if (f.number == 1 && f.wire == 2)
            rc = read_module(a, f.bytes, products, n_products, err);
    }
    return rc;
}
