// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_text.h"

#include <inttypes.h>
#include <string.h>

#include "ir/hlo_text_part.h"

// input_output_alias={ {0}: (1, {}, may-alias) }: which parameters a result may lie in.
static void put_aliases(struct str *out, struct slice body)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(body.data, body.size);
    bool any = false;
    while (pb_next(&r, &f)) {
        int64_t parameter, kind;
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        hlo_number_field(f.body, 2, &parameter);
        hlo_number_field(f.body, 4, &kind);
        str_add(out, any ? ", {" : ", input_output_alias={ {");
        hlo_put_field(out, f.body, 1);
        str_addf(out, "}: (%" PRId64 ", {", parameter);
        hlo_put_field(out, f.body, 3);
        str_add(out, kind == 2 ? "}, must-alias)" : "}, may-alias)");
        any = true;
    }
    str_add(out, any ? " }" : "");
}

// buffer_donor={ (0, {}) }: whose memory any result may lie in.
static void put_donors(struct str *out, struct slice body)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(body.data, body.size);
    bool any = false;
    while (pb_next(&r, &f)) {
        int64_t parameter;
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        hlo_number_field(f.body, 1, &parameter);
        str_addf(out, "%s(%" PRId64 ", {", any ? ", " : ", buffer_donor={ ", parameter);
        hlo_put_field(out, f.body, 2);
        str_add(out, "})");
        any = true;
    }
    str_add(out, any ? " }" : "");
}

// The signature with layouts, of the module's own ProgramShape where it has one.
static int put_signature(struct str *out, const struct hlo_module *m, struct slice shape, struct error *err)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(shape.data, shape.size);
    struct slice result = hlo_body_field(shape, 2);
    size_t n = 0;
    int rc = 0;
    str_add(out, ", entry_computation_layout={(");
    while (result.data && pb_next(&r, &f)) {
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        hlo_put_comma(out, n++);
        hlo_put_shape_message(out, f.body);
    }
    if (!result.data)
        rc = hlo_put_parameters(out, m->entry, false, err);
    str_add(out, ")->");
    if (result.data)
        hlo_put_shape_message(out, result);
    else
        hlo_text_shape(out, &m->entry->root->shape, true);
    str_add_char(out, '}');
    return rc;
}

// Of how many replicas and partitions the module was compiled for, its device assignment says.
static void put_copies(struct str *out, struct slice assignment)
{
    int64_t replicas, partitions;
    hlo_number_field(assignment, 1, &replicas);
    hlo_number_field(assignment, 2, &partitions);
    if (replicas > 1)
        str_addf(out, ", replica_count=%" PRId64, replicas);
    if (partitions > 1)
        str_addf(out, ", num_partitions=%" PRId64, partitions);
}

static int put_frontend(struct str *out, struct slice body, struct error *err)
{
    struct arena arena;
    struct pb_field f;
    struct pb_reader r = pb_reader(body.data, body.size);
    struct hlo_text_pair *pairs = NULL, *more = NULL;
    size_t n = 0, cap = 0;
    bool ok = true;
    arena_init(&arena);
    while (ok && pb_next(&r, &f)) {
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        more = arena_grow(&arena, pairs, &cap, n + 1, sizeof *more, err);
        ok = more != NULL;
        pairs = ok ? more : pairs;
        if (ok)
            pairs[n++] = (struct hlo_text_pair){hlo_body_field(f.body, 1), hlo_body_field(f.body, 2)};
    }
    if (ok)
        hlo_put_frontend(out, pairs, n);
    arena_release(&arena);
    return ok ? 0 : ERR_MEMORY;
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

// Computations that only an asynchronous operation calls, and that are one operation, stand in it.
static int find_hidden(const struct hlo_module *m, bool *hidden)
{
    for (size_t i = 0; i < m->n_computations; i++) {
        const struct hlo_computation *c = &m->computations[i];
        for (size_t k = 0; k < c->n_instructions; k++) {
            const struct hlo_instruction *in = &c->instructions[k];
            if (hlo_is(in, "async-start") && in->n_called && !hidden[in->called[0] - m->computations])
                hidden[in->called[0] - m->computations] = hlo_is_single(in->called[0]);
        }
    }
    return 0;
}

static int put_computations(struct str *out, const struct hlo_module *m, struct error *err)
{
    struct arena arena;
    arena_init(&arena);
    bool *hidden = arena_new(&arena, bool, m->n_computations, err);
    int rc = hidden ? find_hidden(m, hidden) : ERR_MEMORY;
    for (size_t i = 0; i < m->n_computations && !rc; i++) {
        if (hidden[i])
            continue;
        rc = hlo_text_computation(out, m, &m->computations[i], err);
        str_add_char(out, '\n');
    }
    arena_release(&arena);
    return rc;
}

int hlo_text_module(struct str *out, const struct hlo_module *m, struct error *err)
{
    struct slice frames = hlo_body_field(m->message, 17);
    str_add(out, "HloModule ");
    hlo_put_name(out, m->name);
    str_add(out, m->is_scheduled ? ", is_scheduled=true" : "");
    put_aliases(out, hlo_body_field(m->message, 8));
    put_donors(out, hlo_body_field(m->message, 18));
    int rc = put_signature(out, m, hlo_body_field(m->message, 4), err);
    put_copies(out, m->device_assignment);
    if (!rc)
        rc = put_frontend(out, hlo_body_field(m->message, 19), err);
    str_add_char(out, '\n');
    if (frames.size)
        put_frames(out, frames);
    str_add_char(out, '\n');
    if (!rc)
        rc = put_computations(out, m, err);
    return rc ? rc : str_check(out, err);
}
