// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_text.h"

#include <ctype.h>
#include <inttypes.h>
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
            str_add(out, i ? ", " : "");
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
        str_addf(out, "%s%" PRId64, i ? "," : "", s->dims[i]);
    str_add_char(out, ']');
    if (layout && s->layout.size && says_something(s))
        put_layout(out, s);
    if (s->kind == HLO_BUFFER)
        str_add_char(out, ')');
}

// ---- Metadata and what the back end keeps

static void put_metadata(struct str *out, const struct hlo_instruction *in)
{
    static const struct {
        uint32_t number;
        const char *key;
    } known[] = {{1, "op_type"},          {2, "op_name"},        {3, "source_file"},        {4, "source_line"},
                 {17, "source_end_line"}, {18, "source_column"}, {19, "source_end_column"}, {15, "stack_frame_id"}};
    struct pb_field f, value[sizeof known / sizeof *known] = {0};
    struct pb_reader r = pb_reader(in->message.data, in->message.size);
    struct slice body = {0};
    bool any = false;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 7, PB_BYTES))
            body = f.body;
    }
    r = pb_reader(body.data, body.size);
    while (pb_next(&r, &f)) {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            if (known[i].number == f.number)
                value[i] = f;
        }
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        bool text = value[i].wire == PB_BYTES && value[i].body.size;
        if (!text && !(value[i].number && value[i].wire == PB_VARINT && value[i].value))
            continue;
        str_addf(out, "%s%s=", any ? " " : ", metadata={", known[i].key);
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

static void put_frontend(struct str *out, const struct hlo_attributes *a)
{
    for (size_t i = 0; i < a->n_frontend; i++) {
        struct slice v = a->frontend[i].value;
        str_add(out, i ? "," : ", frontend_attributes={");
        hlo_put_name(out, a->frontend[i].key);
        str_add_char(out, '=');
        if (v.size >= 2 && v.data[0] == '{' && v.data[v.size - 1] == '}' && printable(v))
            str_add_n(out, v.data, v.size);
        else
            hlo_put_quoted(out, v);
    }
    if (a->n_frontend)
        str_add_char(out, '}');
}

// ---- Instructions, computations, modules

int hlo_text_instruction(struct str *out, const struct hlo_module *m, const struct hlo_computation *c,
                         const struct hlo_instruction *in, struct error *err)
{
    struct hlo_attributes a;
    struct arena arena;
    arena_init(&arena);
    int rc = hlo_attributes_read(&a, m, in, &arena, err);
    if (!rc) {
        str_add(out, in == c->root ? "ROOT %" : "%");
        hlo_put_name(out, in->name);
        str_add(out, " = ");
        hlo_text_shape(out, &in->shape, true);
        str_add_char(out, ' ');
        hlo_put_name(out, in->opcode);
        str_add_char(out, '(');
        if (hlo_is(in, "parameter"))
            str_addf(out, "%" PRId64, in->parameter);
        else if (hlo_is(in, "constant"))
            hlo_put_literal(out, &in->shape, a.literal);
        for (size_t i = 0; i < in->n_operands; i++) {
            str_add(out, i ? ", %" : "%");
            hlo_put_name(out, in->operands[i]->name);
        }
        str_add_char(out, ')');
        hlo_put_attributes(out, in, &a);
        hlo_put_sharding(out, a.sharding);
        put_frontend(out, &a);
        put_metadata(out, in);
        put_backend_config(out, a.backend_config);
        rc = str_check(out, err);
    }
    arena_release(&arena);
    return rc;
}

// "a: f32[2], b: f32[]", or the shapes alone with their layouts: the parameters by number, a number that repeats once.
static int put_parameters(struct str *out, const struct hlo_computation *c, bool names, struct error *err)
{
    struct arena arena;
    arena_init(&arena);
    const struct hlo_instruction **by_number =
        (const struct hlo_instruction **)arena_alloc(&arena, c->n_instructions, sizeof(void *), err);
    bool any = false;
    for (size_t i = 0; by_number && i < c->n_instructions; i++) {
        const struct hlo_instruction *in = &c->instructions[i];
        if (hlo_is(in, "parameter") && in->parameter >= 0 && (uint64_t)in->parameter < c->n_instructions)
            by_number[in->parameter] = in;
    }
    for (size_t i = 0; by_number && i < c->n_instructions; i++) {
        if (!by_number[i])
            continue;
        str_add(out, any ? ", " : "");
        if (names) {
            hlo_put_name(out, by_number[i]->name);
            str_add(out, ": ");
        }
        hlo_text_shape(out, &by_number[i]->shape, !names);
        any = true;
    }
    arena_release(&arena);
    return by_number ? 0 : ERR_MEMORY;
}

int hlo_text_computation(struct str *out, const struct hlo_module *m, const struct hlo_computation *c,
                         struct error *err)
{
    str_add(out, c == m->entry ? "ENTRY %" : "%");
    hlo_put_name(out, c->name);
    str_add(out, " (");
    int rc = put_parameters(out, c, true, err);
    str_add(out, ") -> ");
    hlo_text_shape(out, &c->root->shape, false);
    str_add(out, " {\n");
    for (size_t i = 0; i < c->n_instructions && !rc; i++) {
        str_add(out, "  ");
        rc = hlo_text_instruction(out, m, c, &c->instructions[i], err);
        str_add_char(out, '\n');
    }
    str_add(out, "}\n");
    return rc ? rc : str_check(out, err);
}

static void put_index(struct str *out, const struct pb_field *f, uint32_t number)
{
    bool any = false;
    if (f->number == number)
        numbers_of(out, f, &any);
}

// input_output_alias={ {0}: (1, {}, may-alias) }: which parameters a result may lie in.
static void put_aliases(struct str *out, struct slice body)
{
    struct pb_field f, g;
    struct pb_reader r = pb_reader(body.data, body.size);
    bool any = false;
    while (pb_next(&r, &f)) {
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        int64_t parameter = 0, kind = 0;
        struct pb_reader entry = pb_reader(f.body.data, f.body.size);
        str_add(out, any ? ", {" : ", input_output_alias={ {");
        any = true;
        while (pb_next(&entry, &g)) {
            put_index(out, &g, 1);
            parameter = pb_is(&g, 2, PB_VARINT) ? (int64_t)g.value : parameter;
            kind = pb_is(&g, 4, PB_VARINT) ? (int64_t)g.value : kind;
        }
        str_addf(out, "}: (%" PRId64 ", {", parameter);
        entry = pb_reader(f.body.data, f.body.size);
        while (pb_next(&entry, &g))
            put_index(out, &g, 3);
        str_add(out, kind == 2 ? "}, must-alias)" : "}, may-alias)");
    }
    if (any)
        str_add(out, " }");
}

// Texts of field `number` of a StackFrameIndexProto.
static void put_texts(struct str *out, const char *title, struct slice body, uint32_t number)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(body.data, body.size);
    size_t n = 0;
    str_addf(out, "\n%s\n", title);
    while (pb_next(&r, &f)) {
        if (!pb_is(&f, number, PB_BYTES))
            continue;
        str_addf(out, "%zu ", ++n);
        hlo_put_quoted(out, f.body);
        str_add_char(out, '\n');
    }
}

static void put_records(struct str *out, const char *title, struct slice body, uint32_t number, const char *const *keys)
{
    struct pb_field f, g;
    struct pb_reader r = pb_reader(body.data, body.size);
    size_t n = 0;
    str_addf(out, "\n%s\n", title);
    while (pb_next(&r, &f)) {
        if (!pb_is(&f, number, PB_BYTES))
            continue;
        int64_t values[8] = {0};
        struct pb_reader record = pb_reader(f.body.data, f.body.size);
        while (pb_next(&record, &g)) {
            if (g.wire == PB_VARINT && g.number <= 8)
                values[g.number - 1] = (int64_t)g.value;
        }
        str_addf(out, "%zu {", ++n);
        for (size_t i = 0; keys[i]; i++) {
            // Written from one, as everything here, but counted from zero: no parent is 1.
            bool parent = strcmp(keys[i], "parent_frame_id") == 0;
            // Order of the text, numbers of the message: line, end_line, column, end_column are 3, 5, 4, 6.
            size_t at = i == 3 ? 4 : i == 4 ? 3 : i;
            int64_t v = values[at];
            str_addf(out, "%s%s=%" PRId64, i ? " " : "", keys[i], parent && v < INT64_MAX ? v + 1 : v);
        }
        str_add(out, "}\n");
    }
}

static void put_frames(struct str *out, struct slice body)
{
    static const char *const location[] = {"file_name_id", "function_name_id", "line", "end_line",
                                           "column",       "end_column",       NULL};
    static const char *const frame[] = {"file_location_id", "parent_frame_id", NULL};
    put_texts(out, "FileNames", body, 1);
    put_texts(out, "FunctionNames", body, 2);
    put_records(out, "FileLocations", body, 3, location);
    put_records(out, "StackFrames", body, 4, frame);
    str_add_char(out, '\n');
}

int hlo_text_module(struct str *out, const struct hlo_module *m, struct error *err)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(m->message.data, m->message.size);
    struct slice aliases = {0}, frames = {0};
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 8, PB_BYTES))
            aliases = f.body;
        else if (pb_is(&f, 17, PB_BYTES))
            frames = f.body;
    }
    str_add(out, "HloModule ");
    hlo_put_name(out, m->name);
    put_aliases(out, aliases);
    str_add(out, ", entry_computation_layout={(");
    int rc = put_parameters(out, m->entry, false, err);
    str_add(out, ")->");
    hlo_text_shape(out, &m->entry->root->shape, true);
    str_add(out, "}\n");
    if (frames.size)
        put_frames(out, frames);
    for (size_t i = 0; i < m->n_computations && !rc; i++) {
        str_add_char(out, '\n');
        rc = hlo_text_computation(out, m, &m->computations[i], err);
    }
    return rc ? rc : str_check(out, err);
}
