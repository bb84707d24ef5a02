// SPDX-License-Identifier: Apache-2.0
#include "lab/products.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

// ---- protocol buffers, as far as they are needed here

struct field {
    uint32_t number;
    bool is_bytes;
    uint64_t value; // of a varint
    const uint8_t *bytes;
    size_t n;
};

static uint64_t take_varint(struct cursor *c)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const uint8_t *byte = cursor_take(c, 1);
        if (!byte)
            return 0;
        v |= (uint64_t)(*byte & 0x7f) << shift;
        if (!(*byte & 0x80))
            return v;
    }
    c->failed = true;
    return 0;
}

// The next field; false at the end or when the bytes are no message (then c->failed).
static bool take_field(struct cursor *c, struct field *f)
{
    if (!cursor_left(c))
        return false;
    uint64_t tag = take_varint(c);
    memset(f, 0, sizeof *f);
    f->number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case 0:
        f->value = take_varint(c);
        break;
    case 1:
        cursor_take(c, 8);
        break;
    case 2: {
        uint64_t n = take_varint(c);
        f->is_bytes = true;
        f->n = n > SIZE_MAX ? SIZE_MAX : (size_t)n;
        f->bytes = cursor_take(c, f->n);
        break;
    }
    case 5:
        cursor_take(c, 4);
        break;
    default:
        c->failed = true;
    }
    return !c->failed;
}

static struct cursor inside(const struct field *f)
{
    struct cursor c;
    cursor_init(&c, f->bytes, f->n);
    return c;
}

// ---- HLO

struct hlo_instruction {
    uint64_t id, operands[2];
    int n_operands;
    enum dtype type;
    bool is_product;
};

static enum dtype type_of_xla(uint64_t number)
{
    for (int t = 0; t < DT_COUNT && number; t++) {
        if ((uint64_t)dtype_info((enum dtype)t)->xla == number)
            return (enum dtype)t;
    }
    return DT_INVALID;
}

static bool holds(const struct field *f, const char *text)
{
    return memmem(f->bytes, f->n, text, strlen(text)) != NULL;
}

static bool equals(const struct field *f, const char *text)
{
    return f->n == strlen(text) && memcmp(f->bytes, text, f->n) == 0;
}

static void add_operand(struct hlo_instruction *in, uint64_t id)
{
    if (in->n_operands < 2)
        in->operands[in->n_operands] = id;
    in->n_operands++;
}

static bool read_instruction(const struct field *message, struct hlo_instruction *in)
{
    struct cursor c = inside(message);
    struct field f;
    memset(in, 0, sizeof *in);
    while (take_field(&c, &f)) {
        struct cursor sub = inside(&f);
        struct field member;
        switch (f.number) {
        case 2: // opcode
            in->is_product |= f.is_bytes && (equals(&f, "dot") || equals(&f, "convolution"));
            break;
        case 3: // shape: element_type 2
            while (f.is_bytes && take_field(&sub, &member)) {
                if (member.number == 2 && !member.is_bytes)
                    in->type = type_of_xla(member.value);
            }
            break;
        case 28: // custom_call_target
            in->is_product |=
                f.is_bytes && (holds(&f, "gemm") || holds(&f, "matmul") || holds(&f, "dot") || holds(&f, "conv"));
            break;
        case 35:
            in->id = f.value;
            break;
        case 36: // operand_ids, packed or not
            if (!f.is_bytes)
                add_operand(in, f.value);
            while (f.is_bytes && cursor_left(&sub))
                add_operand(in, take_varint(&sub));
            break;
        default:
            break;
        }
    }
    return !c.failed;
}

static enum dtype operand_type(const struct hlo_instruction *all, size_t n, const struct hlo_instruction *in, int k)
{
    for (size_t i = 0; i < n && k < in->n_operands; i++) {
        if (all[i].id == in->operands[k])
            return all[i].type;
    }
    return DT_INVALID;
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

// One computation: its instructions refer to each other only.
static bool read_computation(const struct field *message, struct products *out, int *n_out)
{
    struct cursor c = inside(message);
    struct field f;
    size_t n = 0;
    while (take_field(&c, &f))
        n += f.number == 2 && f.is_bytes;
    struct hlo_instruction *all = calloc(n + 1, sizeof *all);
    bool ok = all && !c.failed;
    c = inside(message);
    for (size_t i = 0; ok && take_field(&c, &f);) {
        if (f.number == 2 && f.is_bytes)
            ok = read_instruction(&f, &all[i++]);
    }
    for (size_t i = 0; i < n && ok; i++) {
        const struct hlo_instruction *in = &all[i];
        if (in->is_product)
            add_product(out, n_out,
                        (struct products){operand_type(all, n, in, 0), operand_type(all, n, in, 1), in->type, 1});
    }
    free(all);
    return ok;
}

static int by_count(const void *a, const void *b)
{
    return ((const struct products *)b)->count - ((const struct products *)a)->count;
}

int products_of_hlo(const void *hlo, size_t n, struct products out[PRODUCTS_MAX])
{
    struct cursor c;
    struct field f;
    int found = 0;
    bool module = false;
    cursor_init(&c, hlo, n);
    while (take_field(&c, &f)) {
        if (f.number != 1 || !f.is_bytes) // hlo_module
            continue;
        struct cursor sub = inside(&f);
        struct field member;
        module = true;
        while (take_field(&sub, &member)) {
            if (member.number == 3 && member.is_bytes && !read_computation(&member, out, &found))
                return -1;
        }
        c.failed |= sub.failed;
    }
    if (c.failed || !module)
        return -1;
    qsort(out, (size_t)found, sizeof *out, by_count);
    return found;
}
