// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/idmap.h"
#include "ir/hlo.h"

#define MAX_NESTING 64

struct reading {
    struct hlo_module *m;
    const char *name;
    struct arena *arena;
    struct idmap computations;
    struct idmap schedules; // of computations, by their ids
    int primitive;          // the last one that was met, and its type
    enum dtype dtype;
    struct slice *sequences;
    size_t n_sequences, cap_sequences;
    struct error *err;
};

// The name of an instruction that is only half read.
static struct slice name_of(const struct hlo_instruction *in)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(in->message.data, in->message.size);
    while (!in->name.size && pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES) && f.body.size)
            return f.body;
    }
    return in->name;
}

// "computation 'main.3', instruction 'dot.1'" of what is being read, in error messages.
static int refuse(const struct reading *r, const struct hlo_computation *c, const struct hlo_instruction *in,
                  const char *what)
{
    char where[200];
    int n = 0;
    if (c)
        n = snprintf(where, sizeof where, "computation '%.*s'", (int)(c->name.size < 60 ? c->name.size : 60),
                     (const char *)c->name.data);
    if (c && in) {
        struct slice own = name_of(in);
        n += snprintf(where + n, sizeof where - (size_t)n, ", instruction '%.*s'", (int)(own.size < 60 ? own.size : 60),
                      (const char *)own.data);
    }
    return error_set(r->err, ERR_INPUT, r->name, "is no HLO module that can be read: %s%s%s", n ? where : "",
                     n ? ": " : "", what);
}

static int end(const struct reading *r, const struct pb_reader *p, const struct hlo_computation *c,
               const struct hlo_instruction *in)
{
    return p->damage ? refuse(r, c, in, p->damage) : 0;
}

// NOLINTBEGIN(bugprone-sizeof-expression): of lists of pointers, too
#define PUSH(r, array, n, cap)                                                                                         \
    ((n) < (cap) || ((array) = arena_grow((r)->arena, (array), &(cap), (n) + 1, sizeof *(array), (r)->err))            \
         ? &(array)[(n)++]                                                                                             \
         : NULL)

// Room for the numbers of a packed field before any is there: exactly theirs, since most lists are short and there are
// as many as instructions.
#define ROOM(r, array, cap, field)                                                                                     \
    ((cap) || (field)->wire != PB_BYTES || ((array) = room((r), (field), &(cap), sizeof *(array))))
// NOLINTEND(bugprone-sizeof-expression)

static void *room(struct reading *r, const struct pb_field *f, size_t *cap, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < f->body.size; i++)
        n += f->body.data[i] < 0x80;
    *cap = n;
    return arena_alloc(r->arena, n, size, r->err);
}

// Calls `each` for the numbers of a repeated integer field, packed or not.
static inline __attribute__((always_inline)) int numbers(struct reading *r, const struct pb_field *f,
                                                         int (*each)(struct reading *, void *, int64_t), void *context)
{
    if (f->wire == PB_VARINT)
        return each(r, context, (int64_t)f->value);
    if (f->wire != PB_BYTES)
        return 0;
    const uint8_t *at = f->body.data, *stop = at + f->body.size;
    while (at < stop) {
        uint64_t v;
        at = pb_get_varint(at, stop, &v);
        if (!at)
            return refuse(r, NULL, NULL, "a list of numbers does not end");
        int rc = each(r, context, (int64_t)v);
        if (rc)
            return rc;
    }
    return 0;
}

// ---- Shapes

struct dims {
    struct hlo_shape *shape;
    size_t cap;
};

static int add_dim(struct reading *r, void *context, int64_t v)
{
    struct dims *d = context;
    if (v < 0 || d->shape->rank >= 1 << 16)
        return refuse(r, NULL, NULL, "a shape has a negative dimension or too many");
    size_t n = (size_t)d->shape->rank;
    int64_t *at = PUSH(r, d->shape->dims, n, d->cap);
    if (!at)
        return ERR_MEMORY;
    *at = v;
    d->shape->rank++;
    return 0;
}

struct dynamic {
    bool *at;
    size_t n, cap;
    bool any;
};

static int add_dynamic(struct reading *r, void *context, int64_t v)
{
    struct dynamic *d = context;
    bool *at = PUSH(r, d->at, d->n, d->cap);
    if (!at)
        return ERR_MEMORY;
    *at = v != 0;
    d->any |= v != 0;
    return 0;
}

// One for each dimension, whatever the message has.
static int fit_dynamic(struct reading *r, struct hlo_shape *s, const struct dynamic *d)
{
    s->dynamic = d->any;
    if (!d->any || !s->rank)
        return 0;
    s->dynamic_dims = arena_new(r->arena, bool, (size_t)s->rank, r->err);
    for (size_t i = 0; s->dynamic_dims && i < (size_t)s->rank && i < d->n; i++)
        s->dynamic_dims[i] = d->at[i];
    return s->dynamic_dims ? 0 : ERR_MEMORY;
}

static int read_shape(struct reading *r, struct hlo_shape *s, struct slice body, int depth)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    struct dims dims = {.shape = s};
    struct dynamic dynamic = {0};
    size_t cap = 0;
    int rc = 0;
    *s = (struct hlo_shape){0};
    if (depth > MAX_NESTING)
        return refuse(r, NULL, NULL, "a shape is nested too deep");
    while (!rc && pb_next(&p, &f)) {
        if (pb_is(&f, 2, PB_VARINT)) {
            s->primitive = (int)f.value;
        } else if (f.number == 3) {
            rc = ROOM(r, s->dims, dims.cap, &f) ? numbers(r, &f, add_dim, &dims) : ERR_MEMORY;
        } else if (pb_is(&f, 4, PB_BYTES)) {
            struct hlo_shape *element = PUSH(r, s->elements, s->n_elements, cap);
            rc = element ? read_shape(r, element, f.body, depth + 1) : ERR_MEMORY;
        } else if (pb_is(&f, 5, PB_BYTES)) {
            s->layout = f.body;
        } else if (f.number == 6) {
            rc = numbers(r, &f, add_dynamic, &dynamic);
        }
    }
    enum { TUPLE = 13, OPAQUE = 14, TOKEN = 17, BUFFER = 34 }; // xla.PrimitiveType
    s->kind = s->primitive == TUPLE    ? HLO_TUPLE
              : s->primitive == OPAQUE ? HLO_OPAQUE
              : s->primitive == TOKEN  ? HLO_TOKEN
              : s->primitive == BUFFER ? HLO_BUFFER
                                       : HLO_ARRAY;
    if (s->primitive != r->primitive) {
        r->primitive = s->primitive;
        r->dtype = dtype_from_xla(s->primitive);
    }
    s->dtype = s->kind == HLO_ARRAY ? r->dtype : DT_INVALID;
    if (!rc)
        rc = fit_dynamic(r, s, &dynamic);
    return rc ? rc : end(r, &p, NULL, NULL);
}

int hlo_read_shape(struct hlo_shape *s, struct slice message, struct arena *arena, struct error *err)
{
    struct reading r = {.name = "a shape", .arena = arena, .err = err};
    return read_shape(&r, s, message, 0);
}

// ---- Instructions

static void read_metadata(struct hlo_metadata *m, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    while (pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES))
            m->op_type = f.body;
        else if (pb_is(&f, 2, PB_BYTES))
            m->op_name = f.body;
        else if (pb_is(&f, 3, PB_BYTES))
            m->source_file = f.body;
        else if (pb_is(&f, 4, PB_VARINT))
            m->source_line = (int64_t)f.value;
        else if (pb_is(&f, 15, PB_VARINT))
            m->frame = (int64_t)f.value;
    }
}

// Which instruction has which id. Where they have ids one after the other, as XLA gives them, none is looked up.
struct instruction_ids {
    struct idmap map; // empty as long as `in_a_row`
    bool in_a_row;
};

static bool find_instruction(const struct hlo_computation *c, const struct instruction_ids *ids, int64_t id,
                             uint32_t *at)
{
    if (!ids->in_a_row)
        return idmap_get(&ids->map, id, at);
    uint64_t distance = (uint64_t)id - (uint64_t)c->instructions[0].id;
    *at = (uint32_t)distance;
    return distance < c->n_instructions;
}

static int keep_id(struct reading *r, const struct hlo_computation *c, struct instruction_ids *ids, bool *again)
{
    size_t n = c->n_instructions;
    int64_t id = c->instructions[n].id;
    int rc = 0;
    *again = false;
    if (ids->in_a_row && (uint64_t)id == (uint64_t)c->instructions[0].id + n)
        return 0;
    for (size_t i = 0; ids->in_a_row && i < n && !rc; i++)
        rc = idmap_put(&ids->map, c->instructions[i].id, (uint32_t)i, again, r->err);
    ids->in_a_row = false;
    return rc ? rc : idmap_put(&ids->map, id, (uint32_t)n, again, r->err);
}

struct references {
    const struct instruction_ids *instructions;
    struct hlo_computation *computation;
    struct hlo_instruction *in;
    size_t cap_operands, cap_called, cap_control;
};

static int add_operand(struct reading *r, void *context, int64_t id)
{
    struct references *refs = context;
    struct hlo_instruction *in = refs->in;
    uint32_t at;
    if (!find_instruction(refs->computation, refs->instructions, id, &at))
        return refuse(r, refs->computation, in, "an operand is not there, or comes later");
    struct hlo_instruction **to = PUSH(r, in->operands, in->n_operands, refs->cap_operands);
    if (!to)
        return ERR_MEMORY;
    *to = &refs->computation->instructions[at];
    return 0;
}

static int add_called(struct reading *r, void *context, int64_t id)
{
    struct references *refs = context;
    struct hlo_instruction *in = refs->in;
    uint32_t at;
    if (!idmap_get(&r->computations, id, &at))
        return refuse(r, refs->computation, in, "a computation that it calls is not there, or comes later");
    struct hlo_computation **to = PUSH(r, in->called, in->n_called, refs->cap_called);
    if (!to)
        return ERR_MEMORY;
    *to = &r->m->computations[at];
    return 0;
}

// One that is not there cannot be waited for.
static int add_control(struct reading *r, void *context, int64_t id)
{
    struct references *refs = context;
    struct hlo_instruction *in = refs->in;
    uint32_t at;
    if (!find_instruction(refs->computation, refs->instructions, id, &at))
        return 0;
    struct hlo_instruction **to = PUSH(r, in->control, in->n_control, refs->cap_control);
    if (!to)
        return ERR_MEMORY;
    *to = &refs->computation->instructions[at];
    return 0;
}

static int read_instruction(struct reading *r, struct hlo_computation *c, const struct instruction_ids *instructions,
                            struct hlo_instruction *in, struct slice body)
{
    struct references refs = {.instructions = instructions, .computation = c, .in = in};
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    int rc = 0;
    in->message = body; // the rest is zero, as the arena gives it
    while (!rc && pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES))
            in->name = in->name.size ? in->name : f.body;
        else if (pb_is(&f, 2, PB_BYTES))
            in->opcode = f.body;
        else if (pb_is(&f, 3, PB_BYTES))
            rc = read_shape(r, &in->shape, f.body, 0);
        else if (pb_is(&f, 7, PB_BYTES))
            read_metadata(&in->metadata, f.body);
        else if (pb_is(&f, 9, PB_VARINT))
            in->parameter = (int64_t)f.value;
        else if (pb_is(&f, 13, PB_VARINT))
            in->tuple_index = (int64_t)f.value;
        else if (pb_is(&f, 35, PB_VARINT))
            in->id = (int64_t)f.value;
        else if (f.number == 36)
            rc = ROOM(r, in->operands, refs.cap_operands, &f) ? numbers(r, &f, add_operand, &refs) : ERR_MEMORY;
        else if (f.number == 37)
            rc = numbers(r, &f, add_control, &refs);
        else if (f.number == 38)
            rc = ROOM(r, in->called, refs.cap_called, &f) ? numbers(r, &f, add_called, &refs) : ERR_MEMORY;
    }
    return rc ? rc : end(r, &p, c, in);
}

// Both count what they will hold first, so that pointers to elements stay.
static size_t count_fields(struct slice body, uint32_t number)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    size_t n = 0;
    while (pb_next(&p, &f))
        n += pb_is(&f, number, PB_BYTES);
    return n;
}

static int read_instructions(struct reading *r, struct hlo_computation *c, struct slice body,
                             struct instruction_ids *ids)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    while (pb_next(&p, &f)) {
        if (!pb_is(&f, 2, PB_BYTES))
            continue;
        struct hlo_instruction *in = &c->instructions[c->n_instructions];
        bool again;
        int rc = read_instruction(r, c, ids, in, f.body);
        if (!rc)
            rc = keep_id(r, c, ids, &again);
        if (rc)
            return rc;
        if (again)
            return refuse(r, c, in, "its id is that of another instruction");
        c->n_instructions++;
    }
    return end(r, &p, c, NULL);
}

// ---- The schedule

static int add_sequence(struct reading *r, struct slice entry)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(entry.data, entry.size);
    int64_t computation = 0;
    struct slice *s = PUSH(r, r->sequences, r->n_sequences, r->cap_sequences);
    bool again;
    if (!s)
        return ERR_MEMORY;
    *s = (struct slice){NULL, 0};
    while (pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_VARINT))
            computation = (int64_t)f.value;
        else if (pb_is(&f, 2, PB_BYTES))
            *s = f.body;
    }
    return idmap_put(&r->schedules, computation, (uint32_t)(r->n_sequences - 1), &again, r->err);
}

static int read_schedule(struct reading *r, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    int rc = 0;
    r->m->is_scheduled = true;
    while (!rc && pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES) && r->n_sequences < UINT32_MAX / 4)
            rc = add_sequence(r, f.body);
    }
    return rc;
}

struct sequence {
    const struct instruction_ids *instructions;
    struct hlo_computation *c;
    bool *seen;
    size_t n;
    bool wrong;
};

static int add_scheduled(struct reading *r, void *context, int64_t id)
{
    struct sequence *s = context;
    uint32_t at;
    (void)r;
    s->wrong |= !find_instruction(s->c, s->instructions, id, &at) || s->seen[at] || s->n == s->c->n_instructions;
    if (s->wrong)
        return 0;
    s->seen[at] = true;
    s->c->schedule[s->n++] = &s->c->instructions[at];
    return 0;
}

// A schedule that is not one of all instructions is as if there were none.
static int schedule(struct reading *r, struct hlo_computation *c, const struct instruction_ids *ids)
{
    uint32_t at;
    if (!r->m->is_scheduled || !idmap_get(&r->schedules, c->id, &at))
        return 0;
    struct sequence s = {.instructions = ids, .c = c, .seen = arena_new(r->arena, bool, c->n_instructions, r->err)};
    c->schedule = arena_alloc(r->arena, c->n_instructions, sizeof(void *), r->err);
    if (!s.seen || !c->schedule)
        return ERR_MEMORY;
    struct pb_field f;
    struct pb_reader p = pb_reader(r->sequences[at].data, r->sequences[at].size);
    int rc = 0;
    while (!rc && pb_next(&p, &f)) {
        if (f.number == 1)
            rc = numbers(r, &f, add_scheduled, &s);
    }
    if (s.wrong || s.n != c->n_instructions || p.damage) {
        c->schedule = NULL;
        r->m->is_scheduled = false;
    }
    return rc;
}

static int read_computation(struct reading *r, struct hlo_computation *c, struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    int64_t root = 0;
    bool has_root = false;
    *c = (struct hlo_computation){0};
    while (pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES))
            c->name = f.body;
        else if (pb_is(&f, 5, PB_VARINT))
            c->id = (int64_t)f.value;
        else if (pb_is(&f, 7, PB_VARINT))
            c->is_fusion = f.value != 0;
        else if (pb_is(&f, 8, PB_BYTES))
            c->thread = f.body;
        else if (pb_is(&f, 6, PB_VARINT)) {
            root = (int64_t)f.value;
            has_root = true;
        }
    }
    size_t n = count_fields(body, 2);
    c->instructions = arena_new(r->arena, struct hlo_instruction, n, r->err);
    if (!c->instructions)
        return ERR_MEMORY;
    struct instruction_ids ids = {.in_a_row = true};
    uint32_t at;
    idmap_init(&ids.map);
    int rc = n < UINT32_MAX / 4 ? read_instructions(r, c, body, &ids) : refuse(r, c, NULL, "it is too long");
    if (!rc && !c->n_instructions)
        rc = refuse(r, c, NULL, "it has no instruction");
    if (!rc && has_root && !find_instruction(c, &ids, root, &at))
        rc = refuse(r, c, NULL, "its root is not there");
    if (!rc)
        c->root = &c->instructions[has_root ? at : c->n_instructions - 1];
    if (!rc)
        rc = schedule(r, c, &ids);
    idmap_release(&ids.map);
    return rc;
}

// ---- Stack frames

struct location {
    int64_t file, function, line, column;
};

struct locations {
    struct slice *files, *functions;
    size_t n_files, cap_files, n_functions, cap_functions;
    struct location *at;
    size_t n, cap;
};

static int64_t number_of(struct slice body, uint32_t field)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    int64_t v = 0;
    while (pb_next(&p, &f)) {
        if (pb_is(&f, field, PB_VARINT))
            v = (int64_t)f.value;
    }
    return v;
}

static struct slice pick(const struct slice *array, size_t n, int64_t number)
{
    return number >= 1 && (uint64_t)number <= n ? array[number - 1] : (struct slice){NULL, 0};
}

static int read_frames(struct reading *r, struct slice body)
{
    struct locations l = {0};
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    size_t cap = 0;
    // Tables come before what refers to them: their field numbers are smaller.
    while (pb_next(&p, &f)) {
        if (f.wire != PB_BYTES)
            continue;
        if (f.number == 1 || f.number == 2) {
            struct slice *s = f.number == 1 ? PUSH(r, l.files, l.n_files, l.cap_files)
                                            : PUSH(r, l.functions, l.n_functions, l.cap_functions);
            if (!s)
                return ERR_MEMORY;
            *s = f.body;
        } else if (f.number == 3) {
            struct location *at = PUSH(r, l.at, l.n, l.cap);
            if (!at)
                return ERR_MEMORY;
            *at = (struct location){number_of(f.body, 1), number_of(f.body, 2), number_of(f.body, 3),
                                    number_of(f.body, 4)};
        } else if (f.number == 4) {
            struct hlo_frame *frame = PUSH(r, r->m->frames, r->m->n_frames, cap);
            if (!frame)
                return ERR_MEMORY;
            int64_t at = number_of(f.body, 1);
            *frame = (struct hlo_frame){.parent = number_of(f.body, 2)};
            if (at >= 1 && (uint64_t)at <= l.n) {
                frame->file = pick(l.files, l.n_files, l.at[at - 1].file);
                frame->function = pick(l.functions, l.n_functions, l.at[at - 1].function);
                frame->line = l.at[at - 1].line;
                frame->column = l.at[at - 1].column;
            }
        }
    }
    return end(r, &p, NULL, NULL);
}

// ---- The module

static int read_computations(struct reading *r, struct slice body)
{
    struct hlo_module *m = r->m;
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    size_t n = count_fields(body, 3);
    m->computations = arena_new(r->arena, struct hlo_computation, n, r->err);
    if (!m->computations)
        return ERR_MEMORY;
    while (pb_next(&p, &f)) {
        if (!pb_is(&f, 3, PB_BYTES))
            continue;
        struct hlo_computation *c = &m->computations[m->n_computations];
        bool again;
        int rc = read_computation(r, c, f.body);
        if (!rc)
            rc = idmap_put(&r->computations, c->id, (uint32_t)m->n_computations, &again, r->err);
        if (rc)
            return rc;
        if (again)
            return refuse(r, c, NULL, "its id is that of another computation");
        m->n_computations++;
    }
    return 0;
}

static int read_module(struct reading *r, struct slice body)
{
    struct hlo_module *m = r->m;
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    int64_t entry = 0;
    bool has_entry = false;
    size_t cap = 0;
    int rc = 0;
    m->message = body;
    while (!rc && pb_next(&p, &f)) {
        if (pb_is(&f, 1, PB_BYTES)) {
            m->name = f.body;
        } else if (pb_is(&f, 5, PB_VARINT)) {
            m->id = (int64_t)f.value;
        } else if (pb_is(&f, 6, PB_VARINT)) {
            entry = (int64_t)f.value;
            has_entry = true;
        } else if (pb_is(&f, 7, PB_BYTES)) {
            rc = read_schedule(r, f.body);
        } else if (pb_is(&f, 15, PB_BYTES)) {
            m->device_assignment = f.body;
        } else if (pb_is(&f, 17, PB_BYTES)) {
            rc = read_frames(r, f.body);
        } else if (pb_is(&f, 22, PB_BYTES)) {
            struct slice *s = PUSH(r, m->payloads, m->n_payloads, cap);
            rc = s ? 0 : ERR_MEMORY;
            if (s)
                *s = f.body;
        }
    }
    if (!rc)
        rc = end(r, &p, NULL, NULL);
    if (!rc)
        rc = read_computations(r, body);
    if (!rc && !m->n_computations)
        rc = refuse(r, NULL, NULL, "it has no computation");
    uint32_t at = (uint32_t)m->n_computations - 1;
    if (!rc && has_entry && !idmap_get(&r->computations, entry, &at))
        rc = refuse(r, NULL, NULL, "its entry computation is not there");
    if (!rc)
        m->entry = &m->computations[at];
    return rc;
}

// What holds a module in its field 1, where a module has its name: an HloProto (3: buffer assignment) and an
// HloModuleProtoWithConfig (2: configuration). A module has more than either: computations in 3 and its ids above.
static bool is_module(struct slice body)
{
    struct pb_field f;
    struct pb_reader p = pb_reader(body.data, body.size);
    bool two = false, three = false;
    while (pb_next(&p, &f)) {
        if (f.number > 3)
            return true;
        two |= f.number == 2;
        three |= f.number == 3;
    }
    return two && three;
}

int hlo_read(struct hlo_module *m, const void *bytes, size_t size, const char *name, struct arena *arena,
             struct error *err)
{
    struct slice body = {(const uint8_t *)bytes, size};
    struct reading r = {.m = m, .name = name, .arena = arena, .err = err};
    *m = (struct hlo_module){0};
    if (!is_module(body)) {
        struct pb_field f;
        struct pb_reader p = pb_reader(bytes, size);
        body.size = 0;
        while (pb_next(&p, &f)) {
            if (pb_is(&f, 1, PB_BYTES))
                body = f.body;
            else if (pb_is(&f, 3, PB_BYTES))
                m->buffer_assignment = f.body;
        }
        if (p.damage)
            return refuse(&r, NULL, NULL, p.damage);
    }
    idmap_init(&r.computations);
    idmap_init(&r.schedules);
    int rc = read_module(&r, body);
    idmap_release(&r.computations);
    idmap_release(&r.schedules);
    return rc;
}

bool hlo_is(const struct hlo_instruction *in, const char *opcode)
{
    return slice_is(in->opcode, opcode);
}

// ---- Sizes

int64_t hlo_shape_elements(const struct hlo_shape *s)
{
    int64_t n = s->kind == HLO_ARRAY;
    for (int i = 0; i < s->rank && s->kind == HLO_ARRAY; i++)
        n = s->dims[i] ? multiply_saturated(n, s->dims[i]) : 0;
    for (size_t i = 0; i < s->n_elements; i++)
        n = add_saturated(n, hlo_shape_elements(&s->elements[i]));
    return n;
}

int64_t hlo_shape_bytes(const struct hlo_shape *s)
{
    int64_t n = 0;
    if (s->kind == HLO_ARRAY) {
        int64_t bits = multiply_saturated(hlo_shape_elements(s), dtype_bits(s->dtype));
        n = bits == INT64_MAX ? bits : (bits + 7) / 8;
    }
    for (size_t i = 0; i < s->n_elements; i++)
        n = add_saturated(n, hlo_shape_bytes(&s->elements[i]));
    return n;
}
