// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo_text_part.h"

void hlo_put_name(struct str *out, struct slice name)
{
    for (size_t i = 0; i < name.size; i++) {
        int c = name.data[i];
        str_add_char(out, isalnum(c) || c == '_' || c == '.' || c == '-' ? (char)c : '_');
    }
    if (!name.size)
        str_add_char(out, '_');
}

void hlo_put_quoted(struct str *out, struct slice text)
{
    str_add_char(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        int c = text.data[i];
        if (c == '\n')
            str_add(out, "\\n");
        else if (c == '"' || c == '\\' || c == '\'')
            str_addf(out, "\\%c", c);
        else if (c >= 32 && c < 127)
            str_add_char(out, (char)c);
        else
            str_addf(out, "\\%03o", (unsigned)c);
    }
    str_add_char(out, '"');
}

void hlo_put_comma(struct str *out, size_t i)
{
    str_add(out, i ? ", " : "");
    if (i && i % HLO_INDEX_EVERY == 0)
        str_addf(out, "/*index=%zu*/", i);
}

void hlo_put_numbers(struct str *out, const char *key, const struct hlo_numbers *n)
{
    if (key)
        str_addf(out, ", %s=", key);
    str_add_char(out, '{');
    for (size_t i = 0; i < n->n; i++)
        str_addf(out, "%s%" PRId64, i ? "," : "", n->at[i]);
    str_add_char(out, '}');
}

// ---- Shapes

static void numbers_of(struct str *out, const struct pb_field *f, bool *any)
{
    const uint8_t *at, *end = hlo_packed(f, &at);
    uint64_t v = f->wire == PB_VARINT ? f->value : 0;
    if (f->wire == PB_VARINT)
        str_addf(out, "%s%" PRId64, *any ? "," : "", (int64_t)v);
    for (; at < end && (at = pb_get_varint(at, end, &v)); *any = true) {
        if ((int64_t)v == INT64_MIN) // several dimensions of the shape in one of the tile
            str_addf(out, "%s*", *any ? "," : "");
        else
            str_addf(out, "%s%" PRId64, *any ? "," : "", (int64_t)v);
    }
    *any |= f->wire == PB_VARINT;
}

static void put_layout(struct str *out, const struct hlo_shape *s)
{
    struct pb_field f, g;
    struct pb_reader r = pb_reader(s->layout.data, s->layout.size);
    struct str rest;
    int64_t bits = 0, space = 0, tail = 1;
    bool any = false, tiled = false;
    str_init(&rest);
    str_add_char(out, '{');
    while (pb_next(&r, &f)) {
        if (f.number == 1) {
            numbers_of(out, &f, &any);
        } else if (pb_is(&f, 6, PB_BYTES)) {
            struct pb_reader tile = pb_reader(f.body.data, f.body.size);
            bool some = false;
            str_add(&rest, tiled ? "(" : "T(");
            tiled = true;
            while (pb_next(&tile, &g)) {
                if (g.number == 1)
                    numbers_of(&rest, &g, &some);
            }
            str_add_char(&rest, ')');
        } else if (pb_is(&f, 7, PB_VARINT)) {
            bits = (int64_t)f.value;
        } else if (pb_is(&f, 8, PB_VARINT)) {
            space = (int64_t)f.value;
        } else if (pb_is(&f, 16, PB_VARINT)) {
            tail = (int64_t)f.value;
        }
    }
    if (tail > 1)
        str_addf(&rest, "L(%" PRId64 ")", tail);
    if (bits)
        str_addf(&rest, "E(%" PRId64 ")", bits);
    if (space)
        str_addf(&rest, "S(%" PRId64 ")", space);
    if (rest.length)
        str_addf(out, ":%s", str_text(&rest));
    str_add_char(out, '}');
    out->failed |= rest.failed;
    str_release(&rest);
}

// Whether there is something to say of a scalar's layout.
static bool says_something(const struct hlo_shape *s)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(s->layout.data, s->layout.size);
    bool more = s->rank > 0;
    while (pb_next(&r, &f))
        more |= f.number == 6 || ((pb_is(&f, 7, PB_VARINT) || pb_is(&f, 8, PB_VARINT)) && f.value);
    return more;
}

void hlo_text_shape(struct str *out, const struct hlo_shape *s, bool layout)
{
    switch (s->kind) {
    case HLO_TUPLE:
        str_add_char(out, '(');
        for (size_t i = 0; i < s->n_elements; i++) {
            hlo_put_comma(out, i);
            hlo_text_shape(out, &s->elements[i], layout);
        }
        str_add_char(out, ')');
        return;
    case HLO_TOKEN:
        str_add(out, "token[]");
        return;
    case HLO_OPAQUE:
        str_add(out, "opaque[]");
        return;
    case HLO_BUFFER:
        str_add(out, "b(");
        break;
    case HLO_ARRAY:
        break;
    }
    enum { S1 = 30, U1 = 31 }; // xla.PrimitiveType that we have no type for
    str_add(out, s->dtype != DT_INVALID ? dtype_name(s->dtype)
                 : s->primitive == S1   ? "s1"
                 : s->primitive == U1   ? "u1"
                                        : "invalid");
    str_add_char(out, '[');
    for (int i = 0; i < s->rank; i++)
        str_addf(out, "%s%s%" PRId64, i ? "," : "", s->dynamic_dims && s->dynamic_dims[i] ? "<=" : "", s->dims[i]);
    str_add_char(out, ']');
    if (layout && s->layout.size && says_something(s))
        put_layout(out, s);
    if (s->kind == HLO_BUFFER)
        str_add_char(out, ')');
}

// ---- Metadata and what the back end keeps

void hlo_put_metadata(struct str *out, const char *head, struct slice body)
{
    static const struct {
        uint32_t number;
        const char *key;
    } known[] = {{1, "op_type"},
                 {2, "op_name"},
                 {3, "source_file"},
                 {4, "source_line"},
                 {17, "source_end_line"},
                 {18, "source_column"},
                 {19, "source_end_column"},
                 {15, "stack_frame_id"},
                 {12, "deduplicated_name"},
                 {16, "scheduling_name"}};
    struct pb_field f, value[sizeof known / sizeof *known] = {0};
    struct pb_reader r = pb_reader(body.data, body.size);
    bool any = false;
    while (pb_next(&r, &f)) {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            if (known[i].number == f.number)
                value[i] = f;
        }
    }
    // XLA leaves out what says neither where the operation comes from nor what it is called.
    bool says = value[7].value != 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        says |= (i < 3 || i == 9) && value[i].wire == PB_BYTES && value[i].body.size;
    for (size_t i = 0; i < sizeof known / sizeof *known && says; i++) {
        bool text = value[i].wire == PB_BYTES && value[i].body.size;
        if (!text && !(value[i].number && value[i].wire == PB_VARINT && value[i].value))
            continue;
        if (!any)
            str_addf(out, "%s{", head);
        str_addf(out, "%s%s=", any ? " " : "", known[i].key);
        if (text)
            hlo_put_quoted(out, value[i].body);
        else
            str_addf(out, "%" PRId64, (int64_t)value[i].value);
        any = true;
    }
    if (any)
        str_add_char(out, '}');
}

static bool printable(struct slice s)
{
    for (size_t i = 0; i < s.size; i++) {
        if (s.data[i] < 32 || s.data[i] > 126)
            return false;
    }
    return true;
}

// JSON objects stand as they are.
static void put_backend_config(struct str *out, struct slice config)
{
    if (!config.size)
        return;
    str_add(out, ", backend_config=");
    if (config.data[0] == '{' && config.data[config.size - 1] == '}' && printable(config))
        str_add_n(out, config.data, config.size);
    else
        hlo_put_quoted(out, config);
}

static int by_key(const void *a, const void *b)
{
    return slice_compare(((const struct hlo_text_pair *)a)->key, ((const struct hlo_text_pair *)b)->key);
}

void hlo_put_frontend(struct str *out, struct hlo_text_pair *pairs, size_t n)
{
    if (n)
        qsort(pairs, n, sizeof *pairs, by_key);
    for (size_t i = 0; i < n; i++) {
        struct slice v = pairs[i].value;
        str_add(out, i ? "," : ", frontend_attributes={");
        hlo_put_name(out, pairs[i].key);
        str_add_char(out, '=');
        if (v.size >= 2 && v.data[0] == '{' && v.data[v.size - 1] == '}' && printable(v))
            str_add_n(out, v.data, v.size);
        else
            hlo_put_quoted(out, v);
    }
    str_add(out, n ? "}" : "");
}

// ---- Instructions

// What an asynchronous operation does, where that is one operation on its operands: then XLA writes "add-start" for
// "async-start", and leaves the computation out. NULL: it is none, or does more.
static const struct hlo_instruction *wrapped(const struct hlo_instruction *in)
{
    while ((hlo_is(in, "async-update") || hlo_is(in, "async-done")) && in->n_operands)
        in = in->operands[0];
    if (!hlo_is(in, "async-start") || !in->n_called || !hlo_is_single(in->called[0]))
        return NULL;
    return in->called[0]->root;
}

bool hlo_is_single(const struct hlo_computation *c)
{
    for (size_t i = 0; i < c->n_instructions; i++) {
        if (&c->instructions[i] != c->root && !hlo_is(&c->instructions[i], "parameter"))
            return false;
    }
    return true;
}

static void put_operands(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    str_add_char(out, '(');
    if (hlo_is(in, "parameter"))
        str_addf(out, "%" PRId64, in->parameter);
    else if (hlo_is(in, "constant"))
        hlo_put_literal(out, &in->shape, a->literal);
    for (size_t i = 0; i < in->n_operands; i++) {
        hlo_put_comma(out, i);
        str_add_char(out, '%');
        hlo_put_name(out, in->operands[i]->name);
    }
    str_add_char(out, ')');
}

// What stands behind the attributes of the opcode.
static void put_common(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    if (a->sharding.data) {
        str_add(out, ", sharding=");
        hlo_put_sharding(out, a->sharding);
    }
    hlo_put_frontend(out, a->frontend, a->n_frontend);
    for (size_t i = 0; i < in->n_control; i++) {
        str_add(out, i ? ", %" : ", control-predecessors={%");
        hlo_put_name(out, in->control[i]->name);
    }
    str_add(out, in->n_control ? "}" : "");
    hlo_put_statistics(out, in);
}

static int put_wrapped(struct str *out, const struct hlo_module *m, const struct hlo_instruction *of,
                       struct arena *arena, struct error *err)
{
    struct hlo_attributes a;
    int rc = hlo_attributes_read(&a, m, of, arena, err);
    if (rc)
        return rc;
    hlo_put_attributes(out, of, &a);
    put_common(out, of, &a);
    return 0;
}

static int put_instruction(struct str *out, const struct hlo_module *m, const struct hlo_computation *c,
                           const struct hlo_instruction *in, struct arena *arena, struct error *err)
{
    struct hlo_attributes a;
    const struct hlo_instruction *of = wrapped(in);
    bool start = hlo_is(in, "async-start");
    int rc = hlo_attributes_read(&a, m, in, arena, err);
    if (rc)
        return rc;
    str_add(out, in == c->root ? "ROOT %" : "%");
    hlo_put_name(out, in->name);
    str_add(out, " = ");
    hlo_text_shape(out, &in->shape, true);
    str_add_char(out, ' ');
    hlo_put_name(out, of ? of->opcode : in->opcode);
    if (of)
        hlo_put_name(out, (struct slice){in->opcode.data + 5, in->opcode.size - 5}); // behind "async"
    put_operands(out, in, &a);
    if (start && a.async_thread.size && !slice_is(a.async_thread, "main")) {
        str_add(out, ", async_execution_thread=");
        hlo_put_quoted(out, a.async_thread);
    }
    if (of && start)
        rc = put_wrapped(out, m, of, arena, err);
    else
        hlo_put_attributes(out, in, &a);
    put_common(out, in, &a);
    hlo_put_accuracy(out, in);
    hlo_put_origin(out, in);
    hlo_put_metadata(out, ", metadata=", hlo_body_field(in->message, 7));
    put_backend_config(out, a.backend_config);
    return rc ? rc : str_check(out, err);
}

int hlo_text_instruction(struct str *out, const struct hlo_module *m, const struct hlo_computation *c,
                         const struct hlo_instruction *in, struct error *err)
{
    struct arena arena;
    arena_init(&arena);
    int rc = put_instruction(out, m, c, in, &arena, err);
    arena_release(&arena);
    return rc;
}

// ---- Computations

int hlo_put_parameters(struct str *out, const struct hlo_computation *c, bool names, struct error *err)
{
    struct arena arena;
    arena_init(&arena);
    const struct hlo_instruction **by_number =
        (const struct hlo_instruction **)arena_alloc(&arena, c->n_instructions, sizeof(void *), err);
    size_t n = 0;
    for (size_t i = 0; by_number && i < c->n_instructions; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        if (hlo_is(in, "parameter") && in->parameter >= 0 && (uint64_t)in->parameter < c->n_instructions)
            by_number[in->parameter] = in;
    }
    for (size_t i = 0; by_number && i < c->n_instructions; i++) {
        if (!by_number[i])
            continue;
        if (names)
            str_add(out, n++ ? ", " : "");
        else
            hlo_put_comma(out, n++);
        if (names) {
            hlo_put_name(out, by_number[i]->name);
            str_add(out, ": ");
        }
        hlo_text_shape(out, &by_number[i]->shape, !names);
    }
    arena_release(&arena);
    return by_number ? 0 : ERR_MEMORY;
}

int hlo_text_computation(struct str *out, const struct hlo_module *m, const struct hlo_computation *c,
                         struct error *err)
{
    bool scheduled = m->is_scheduled && c->schedule;
    str_add(out, c == m->entry ? "ENTRY %" : "%");
    hlo_put_name(out, c->name);
    str_add(out, " (");
    int rc = hlo_put_parameters(out, c, true, err);
    str_add(out, ") -> ");
    hlo_text_shape(out, &c->root->shape, false);
    str_add(out, " {\n");
    for (size_t i = 0; i < c->n_instructions && !rc; i++) {
        str_add(out, "  ");
        rc = hlo_text_instruction(out, m, c, scheduled ? c->schedule[i] : &c->instructions[i], err);
        str_add_char(out, '\n');
    }
    str_add_char(out, '}');
    if (c->thread.size && !slice_is(c->thread, "main")) {
        str_add(out, ", execution_thread=");
        hlo_put_quoted(out, c->thread);
    }
    str_add_char(out, '\n');
    return rc ? rc : str_check(out, err);
}
