// SPDX-License-Identifier: Apache-2.0
// Attributes that few instructions have.
#include <inttypes.h>
#include <string.h>

#include "ir/hlo_text.h"
#include "ir/hlo_text_part.h"

bool hlo_number_field(struct slice message, uint32_t number, int64_t *value)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    *value = 0;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, number, PB_VARINT))
            *value = (int64_t)f.value;
    }
    return *value != 0;
}

struct slice hlo_body_field(struct slice message, uint32_t number)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    struct slice body = {NULL, 0};
    while (pb_next(&r, &f)) {
        if (pb_is(&f, number, PB_BYTES))
            body = f.body;
    }
    return body;
}

void hlo_put_field(struct str *out, struct slice message, uint32_t number)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    bool any = false;
    while (pb_next(&r, &f)) {
        const uint8_t *at, *end = hlo_packed(&f, &at);
        uint64_t v = f.wire == PB_VARINT ? f.value : 0;
        if (f.number != number)
            continue;
        if (f.wire == PB_VARINT) {
            str_addf(out, "%s%" PRId64, any ? "," : "", (int64_t)v);
            any = true;
        }
        for (; at < end && (at = pb_get_varint(at, end, &v)); any = true)
            str_addf(out, "%s%" PRId64, any ? "," : "", (int64_t)v);
    }
}

// ---- Shapes

static int read_and_put(struct str *out, struct slice message, struct arena *arena, struct error *err)
{
    struct hlo_shape s;
    int rc = hlo_read_shape(&s, message, arena, err);
    if (!rc)
        hlo_text_shape(out, &s, true);
    return rc;
}

void hlo_put_shape_message(struct str *out, struct slice message)
{
    struct arena arena;
    struct error bad = {0};
    arena_init(&arena);
    out->failed |= read_and_put(out, message, &arena, &bad) == ERR_MEMORY;
    arena_release(&arena);
}

void hlo_put_layouts(struct str *out, const struct hlo_attributes *a)
{
    if (!a->constrain_layout)
        return;
    str_add(out, ", operand_layout_constraints={");
    for (size_t i = 0; i < a->n_layouts; i++) {
        str_add(out, i ? ", " : "");
        hlo_put_shape_message(out, a->layouts[i]);
    }
    str_add_char(out, '}');
}

void hlo_put_custom_literal(struct str *out, const struct hlo_attributes *a)
{
    struct arena arena;
    struct error bad = {0};
    struct hlo_shape s;
    if (!a->literal.size)
        return;
    arena_init(&arena);
    int rc = hlo_read_shape(&s, hlo_body_field(a->literal, 1), &arena, &bad);
    if (!rc) {
        str_add(out, ", literal=");
        hlo_text_shape(out, &s, true);
        str_add_char(out, ' ');
        hlo_put_literal(out, &s, a->literal);
    }
    out->failed |= rc == ERR_MEMORY;
    arena_release(&arena);
}

// ---- Of parameters and custom calls

void hlo_put_replication(struct str *out, const struct hlo_instruction *in)
{
    struct slice leaves = hlo_body_field(hlo_body_field(in->message, 61), 1);
    for (size_t i = 0; i < leaves.size; i++)
        str_addf(out, "%s%s", i ? "," : ", parameter_replication={", leaves.data[i] ? "true" : "false");
    str_add(out, leaves.size ? "}" : "");
}

void hlo_put_output_aliases(struct str *out, const struct hlo_attributes *a)
{
    for (size_t i = 0; i < a->n_aliases; i++) {
        int64_t operand;
        hlo_number_field(a->aliases[i], 2, &operand);
        str_add(out, i ? ", {" : ", output_to_operand_aliasing={{");
        hlo_put_field(out, a->aliases[i], 1);
        str_addf(out, "}: (%" PRId64 ", {", operand);
        hlo_put_field(out, a->aliases[i], 3);
        str_add(out, "})");
    }
    str_add(out, a->n_aliases ? "}" : "");
}

// What the message calls the entry is what the text calls the exit.
void hlo_put_domain(struct str *out, const struct hlo_instruction *in)
{
    str_add(out, ", domain={kind=\"sharding\", entry=");
    hlo_put_sharding(out, hlo_body_field(in->message, 55));
    str_add(out, ", exit=");
    hlo_put_sharding(out, hlo_body_field(in->message, 54));
    str_add_char(out, '}');
}

// ---- Of any

static double double_field(struct slice message, uint32_t number)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    double v = 0;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, number, PB_FIXED64))
            memcpy(&v, &f.value, sizeof v);
    }
    return v;
}

void hlo_put_statistics(struct str *out, const struct hlo_instruction *in)
{
    struct slice body = hlo_body_field(in->message, 82);
    struct pb_field f;
    struct pb_reader r = pb_reader(body.data, body.size);
    int64_t shown;
    bool any = false;
    hlo_number_field(body, 1, &shown);
    while (pb_next(&r, &f)) {
        if (!pb_is(&f, 2, PB_BYTES))
            continue;
        if (!any)
            str_addf(out, ", statistics={visualizing_index=%" PRId64, shown);
        any = true;
        str_add_char(out, ',');
        hlo_put_name(out, hlo_body_field(f.body, 1));
        str_add_char(out, '=');
        hlo_put_double(out, double_field(f.body, 2));
    }
    str_add(out, any ? "}" : "");
}

void hlo_put_accuracy(struct str *out, const struct hlo_instruction *in)
{
    struct slice body = hlo_body_field(in->message, 91), tolerance = hlo_body_field(body, 2);
    int64_t v;
    if (tolerance.data) {
        str_add(out, ", result_accuracy={tolerance={atol=");
        hlo_put_double(out, double_field(tolerance, 1));
        str_add(out, ",rtol=");
        hlo_put_double(out, double_field(tolerance, 2));
        hlo_number_field(tolerance, 3, &v);
        str_addf(out, ",ulps=%" PRId64 "}}", v);
    } else if (hlo_number_field(body, 1, &v)) {
        str_add(out, ", result_accuracy={mode=highest}");
    }
}

struct index {
    int64_t at[8];
    size_t n;
};

static bool index_is(struct slice element, const struct index *x)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(element.data, element.size);
    size_t n = 0;
    bool same = true;
    while (pb_next(&r, &f)) {
        const uint8_t *at, *end = hlo_packed(&f, &at);
        uint64_t v = f.value;
        if (f.number == 1 && f.wire == PB_VARINT) {
            same = same && n < x->n && (int64_t)v == x->at[n];
            n++;
        }
        for (; f.number == 1 && at < end && (at = pb_get_varint(at, end, &v)); n++)
            same = same && n < x->n && (int64_t)v == x->at[n];
    }
    return same && n == x->n;
}

// Elements come in the order of the shape's leaves: *rest is what has not been written.
static void put_leaves(struct str *out, const struct hlo_shape *s, struct index *x, struct pb_reader *rest)
{
    struct pb_field f;
    struct pb_reader before = *rest;
    if (s->kind == HLO_TUPLE) {
        str_add_char(out, '(');
        for (size_t i = 0; i < s->n_elements && x->n < sizeof x->at / sizeof *x->at; i++) {
            str_add(out, i ? ", " : "");
            x->at[x->n++] = (int64_t)i;
            put_leaves(out, &s->elements[i], x, rest);
            x->n--;
        }
        str_add_char(out, ')');
        return;
    }
    str_add_char(out, '{');
    if (pb_next(rest, &f) && pb_is(&f, 1, PB_BYTES) && index_is(f.body, x)) {
        struct slice array = hlo_body_field(f.body, 2), name = hlo_body_field(array, 1);
        if (array.data) {
            hlo_put_quoted(out, name);
            str_add(out, hlo_body_field(array, 2).size ? " {" : "");
            hlo_put_field(out, array, 2);
            str_add(out, hlo_body_field(array, 2).size ? "}" : "");
        }
    } else {
        *rest = before;
    }
    str_add_char(out, '}');
}

void hlo_put_origin(struct str *out, const struct hlo_instruction *in)
{
    struct slice body = hlo_body_field(in->message, 88);
    struct pb_reader rest = pb_reader(body.data, body.size);
    struct index x = {0};
    if (!body.size)
        return;
    str_add(out, ", origin={");
    put_leaves(out, &in->shape, &x, &rest);
    str_add_char(out, '}');
}
