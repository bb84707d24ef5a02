// SPDX-License-Identifier: Apache-2.0
#include "trace/heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "ir/hlo_text.h"
#include "trace/ops_hlo.h"

const char *trace_heap_kind_name(enum trace_heap_kind kind)
{
    static const char *const names[] = {"temporary", "parameter", "result", "constant"};
    return names[kind];
}

// ---- Reading

struct buffer {
    int64_t id, bytes, space, instruction;
    struct slice instruction_name; // of older files, which have no ids
    struct slice shape_index;      // packed varints
    size_t allocation;             // 1 + its place in the list; 0: none
    size_t shared;                 // the buffer whose place it uses: itself, mostly
    int64_t users;                 // of that place; 0: it is not alive
};

struct allocation {
    int64_t index, bytes, space;
    bool thread_local, parameter, result, constant;
    struct slice message;
    size_t simulation; // 1 + the trace that fills it; 0: it is there throughout
};

struct simulation {
    struct slice message;
    int64_t allocation;
    size_t steps;
};

struct assignment {
    struct arena *arena;
    struct buffer *buffers; // by id
    struct allocation *allocations;
    struct simulation *simulations;
    size_t n_buffers, cap_buffers, n_allocations, cap_allocations, n_simulations, cap_simulations;
    const char *damage;
};

static struct pb_reader open_slice(struct slice s)
{
    return pb_reader(s.data, s.size);
}

static void note(struct assignment *a, const struct pb_reader *r)
{
    if (r->damage && !a->damage)
        a->damage = r->damage;
}

static void read_place(struct assignment *a, struct buffer *b, struct slice message)
{
    struct pb_reader r = open_slice(message);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 2, PB_BYTES))
            b->instruction_name = f.body;
        else if (pb_is(&f, 3, PB_BYTES))
            b->shape_index = f.body;
        else if (pb_is(&f, 4, PB_VARINT))
            b->instruction = (int64_t)f.value;
    }
    note(a, &r);
}

static int read_buffer(struct assignment *a, struct slice message, struct error *err)
{
    struct buffer *more = arena_grow(a->arena, a->buffers, &a->cap_buffers, a->n_buffers + 1, sizeof *more, err);
    if (!more)
        return ERR_MEMORY;
    a->buffers = more;
    struct buffer *b = &more[a->n_buffers++];
    *b = (struct buffer){.instruction = -1};
    struct pb_reader r = open_slice(message);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_VARINT))
            b->id = (int64_t)f.value;
        else if (pb_is(&f, 2, PB_VARINT))
            b->bytes = (int64_t)f.value;
        else if (pb_is(&f, 3, PB_BYTES))
            read_place(a, b, f.body);
        else if (pb_is(&f, 4, PB_VARINT))
            b->space = (int64_t)f.value;
    }
    b->bytes = b->bytes < 0 ? 0 : b->bytes;
    note(a, &r);
    return 0;
}

static int read_allocation(struct assignment *a, struct slice message, struct error *err)
{
    struct allocation *more =
        arena_grow(a->arena, a->allocations, &a->cap_allocations, a->n_allocations + 1, sizeof *more, err);
    if (!more)
        return ERR_MEMORY;
    a->allocations = more;
    struct allocation *b = &more[a->n_allocations++];
    *b = (struct allocation){.message = message};
    struct pb_reader r = open_slice(message);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (f.wire != PB_VARINT)
            continue;
        int64_t v = (int64_t)f.value;
        switch (f.number) {
        case 1:
            b->index = v;
            break;
        case 2:
            b->bytes = v;
            break;
        case 3:
            b->thread_local = v;
            break;
        case 5:
            b->parameter = v;
            break;
        case 7:
            b->result = v;
            break;
        case 8:
            b->space = v;
            break;
        case 12:
            b->constant = v;
            break;
        default:
            break;
        }
    }
    b->bytes = b->bytes < 0 ? 0 : b->bytes;
    note(a, &r);
    return 0;
}

static int read_simulation(struct assignment *a, struct slice message, struct error *err)
{
    struct simulation *more =
        arena_grow(a->arena, a->simulations, &a->cap_simulations, a->n_simulations + 1, sizeof *more, err);
    if (!more)
        return ERR_MEMORY;
    a->simulations = more;
    struct simulation *s = &more[a->n_simulations++];
    *s = (struct simulation){.message = message};
    struct pb_reader r = open_slice(message);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 3, PB_VARINT))
            s->allocation = (int64_t)f.value;
        s->steps += pb_is(&f, 1, PB_BYTES);
    }
    note(a, &r);
    return 0;
}

static int by_id(const void *x, const void *y)
{
    int64_t a = ((const struct buffer *)x)->id, b = ((const struct buffer *)y)->id;
    return (a > b) - (a < b);
}

static int by_index(const void *x, const void *y)
{
    int64_t a = ((const struct allocation *)x)->index, b = ((const struct allocation *)y)->index;
    return (a > b) - (a < b);
}

static int read_assignment(struct assignment *a, struct slice message, struct error *err)
{
    struct pb_reader r = open_slice(message);
    struct pb_field f;
    int rc = 0;
    while (!rc && pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_BYTES))
            rc = read_buffer(a, f.body, err);
        else if (pb_is(&f, 3, PB_BYTES))
            rc = read_allocation(a, f.body, err);
        else if (pb_is(&f, 4, PB_BYTES))
            rc = read_simulation(a, f.body, err);
    }
    note(a, &r);
    if (a->n_buffers)
        qsort(a->buffers, a->n_buffers, sizeof *a->buffers, by_id);
    if (a->n_allocations)
        qsort(a->allocations, a->n_allocations, sizeof *a->allocations, by_index);
    return rc;
}

static struct buffer *find_buffer(const struct assignment *a, int64_t id)
{
    struct buffer key = {.id = id};
    return a->n_buffers ? bsearch(&key, a->buffers, a->n_buffers, sizeof key, by_id) : NULL;
}

// The next buffer that is assigned to an allocation, whose message is read; NULL for one that is not there. False at
// the end.
static bool next_assigned(const struct assignment *a, struct pb_reader *r, struct buffer **out)
{
    struct pb_field f, g;
    while (pb_next(r, &f)) {
        if (!pb_is(&f, 9, PB_BYTES))
            continue;
        struct pb_reader inner = open_slice(f.body);
        int64_t id = 0;
        while (pb_next(&inner, &g)) {
            if (pb_is(&g, 1, PB_VARINT))
                id = (int64_t)g.value;
        }
        *out = find_buffer(a, id);
        return true;
    }
    return false;
}

static void place_buffers(struct assignment *a)
{
    for (size_t i = 0; i < a->n_allocations; i++) {
        struct pb_reader r = open_slice(a->allocations[i].message);
        struct buffer *b;
        while (next_assigned(a, &r, &b)) {
            if (b)
                b->allocation = i + 1;
        }
    }
}

// ---- Which allocation a simulation fills

struct step {
    int64_t kind, buffer, shared;
    struct slice instruction;
};

static struct step read_step(struct slice message)
{
    struct step s = {0};
    struct pb_reader r = open_slice(message);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 1, PB_VARINT))
            s.kind = (int64_t)f.value;
        else if (pb_is(&f, 2, PB_VARINT))
            s.buffer = (int64_t)f.value;
        else if (pb_is(&f, 4, PB_BYTES))
            s.instruction = f.body;
        else if (pb_is(&f, 5, PB_VARINT))
            s.shared = (int64_t)f.value;
    }
    return s;
}

// That of the first buffer that comes; one without steps fills none. The number that stands with a simulation is the
// one that the allocation had when it was made: the CPU's back end numbers allocations anew afterwards.
static struct allocation *filled_by(const struct assignment *a, const struct simulation *s)
{
    struct pb_reader r = open_slice(s->message);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        const struct buffer *b = find_buffer(a, read_step(f.body).buffer);
        if (b && b->allocation)
            return &a->allocations[b->allocation - 1];
    }
    struct allocation key = {.index = s->allocation};
    return s->steps && a->n_allocations ? bsearch(&key, a->allocations, a->n_allocations, sizeof key, by_index) : NULL;
}

// Of several simulations in one allocation the longest counts.
static void join_simulations(struct assignment *a)
{
    place_buffers(a);
    for (size_t i = 0; i < a->n_simulations; i++) {
        struct allocation *to = filled_by(a, &a->simulations[i]);
        if (to && (!to->simulation || a->simulations[to->simulation - 1].steps < a->simulations[i].steps))
            to->simulation = i + 1;
    }
}

// ---- Replay

// What is in use after the step; -1: it names a buffer that is not there, and changes nothing.
static int64_t take_step(struct assignment *a, const struct step *s, int64_t in_use)
{
    enum { ALLOC, FREE, SHARE };
    struct buffer *b = find_buffer(a, s->buffer);
    if (!b)
        return -1;
    if (s->kind == ALLOC) {
        b->shared = (size_t)(b - a->buffers);
    } else if (s->kind == SHARE) {
        const struct buffer *with = find_buffer(a, s->shared);
        if (!with)
            return -1;
        b->shared = with->shared;
    }
    struct buffer *place = &a->buffers[b->shared];
    if (s->kind == FREE) {
        if (place->users > 0 && --place->users == 0)
            return in_use - place->bytes;
        return in_use;
    }
    return place->users++ ? in_use : add_saturated(in_use, place->bytes);
}

static void forget(struct assignment *a)
{
    for (size_t i = 0; i < a->n_buffers; i++) {
        a->buffers[i].users = 0;
        a->buffers[i].shared = i;
    }
}

// Replays a simulation up to a step, from nothing. With points: notes what is in use after every instruction.
static size_t replay(struct assignment *a, const struct simulation *s, size_t steps, struct trace_heap *h)
{
    struct pb_reader r = open_slice(s->message);
    struct pb_field f;
    int64_t in_use = 0, most = 0;
    size_t at = 0, peak = 0;
    forget(a);
    while (at < steps && pb_next(&r, &f)) {
        if (!pb_is(&f, 1, PB_BYTES))
            continue;
        struct step step = read_step(f.body);
        int64_t after = take_step(a, &step, in_use);
        at++;
        if (h)
            h->unknown += after < 0;
        in_use = after < 0 ? in_use : after;
        if (in_use > most) {
            most = in_use;
            peak = at;
            if (h)
                h->at = step.instruction;
        }
        if (!h)
            continue;
        const struct trace_heap_point *last = h->n_points ? &h->points[h->n_points - 1] : NULL;
        bool same = last && last->instruction.size == step.instruction.size &&
                    (!step.instruction.size ||
                     memcmp(last->instruction.data, step.instruction.data, step.instruction.size) == 0);
        h->n_points += !same;
        h->points[h->n_points - 1] = (struct trace_heap_point){step.instruction, add_saturated(h->fixed_bytes, in_use)};
    }
    if (h)
        h->peak_bytes = add_saturated(h->fixed_bytes, most);
    return peak;
}

// ---- Buffers and their instructions

struct naming {
    const struct hlo_module *module;
    const struct hlo_instruction **by_id, **by_name;
    size_t n;
    struct arena *arena; // of the result
};

static int instruction_by_id(const void *x, const void *y)
{
    int64_t a = (*(const struct hlo_instruction *const *)x)->id, b = (*(const struct hlo_instruction *const *)y)->id;
    return (a > b) - (a < b);
}

static int instruction_by_name(const void *x, const void *y)
{
    return slice_compare((*(const struct hlo_instruction *const *)x)->name,
                         (*(const struct hlo_instruction *const *)y)->name);
}

static int index_instructions(struct naming *x, struct arena *scratch, struct error *err)
{
    const struct hlo_module *m = x->module;
    size_t n = 0;
    for (size_t i = 0; i < m->n_computations; i++)
        n += m->computations[i].n_instructions;
    x->by_id = arena_alloc(scratch, n, sizeof(void *), err);
    x->by_name = arena_alloc(scratch, n, sizeof(void *), err);
    if (!x->by_id || !x->by_name)
        return ERR_MEMORY;
    for (size_t i = 0; i < m->n_computations; i++) {
        for (size_t k = 0; k < m->computations[i].n_instructions; k++) {
            x->by_id[x->n] = &m->computations[i].instructions[k];
            x->by_name[x->n++] = &m->computations[i].instructions[k];
        }
    }
    if (x->n) {
        qsort(x->by_id, x->n, sizeof(void *), instruction_by_id);
        qsort(x->by_name, x->n, sizeof(void *), instruction_by_name);
    }
    return 0;
}

// An id is the instruction's own, or its place in its computation below the computation's id: the files' ids are of one
// kind throughout.
static const struct hlo_instruction *instruction_of(const struct naming *x, const struct buffer *b)
{
    struct hlo_instruction in = {.id = b->instruction, .name = b->instruction_name};
    const struct hlo_instruction *key = &in, *const *found = NULL;
    if (x->n && b->instruction >= 0)
        found = bsearch(&key, x->by_id, x->n, sizeof(void *), instruction_by_id);
    if (x->n && !found && b->instruction_name.size)
        found = bsearch(&key, x->by_name, x->n, sizeof(void *), instruction_by_name);
    return found ? *found : NULL;
}

static const struct hlo_shape *shape_of(const struct hlo_instruction *in, struct slice index)
{
    const struct hlo_shape *s = &in->shape;
    const uint8_t *at = index.data, *end = index.size ? at + index.size : at;
    uint64_t v;
    while (at && at < end && (at = pb_get_varint(at, end, &v))) {
        if (s->kind != HLO_TUPLE || v >= s->n_elements)
            return NULL;
        s = &s->elements[v];
    }
    return s;
}

static int describe(const struct naming *x, const struct buffer *b, struct trace_heap_buffer *out, struct error *err)
{
    const struct hlo_instruction *in = instruction_of(x, b);
    out->instruction = in ? in->name : b->instruction_name;
    out->scope = in ? in->metadata.op_name : (struct slice){0};
    const struct hlo_shape *s = in ? shape_of(in, b->shape_index) : NULL;
    struct str text;
    str_init(&text);
    if (s)
        hlo_text_shape(&text, s, false);
    int rc = str_check(&text, err);
    out->shape = (struct slice){(const uint8_t *)str_text(&text), text.length};
    struct slice *texts[] = {&out->instruction, &out->scope, &out->shape};
    for (size_t i = 0; i < 3 && !rc; i++)
        rc = slice_copy(x->arena, texts[i], err);
    str_release(&text);
    return rc;
}

// The largest buffer of an allocation stands for it: the others lie in the same place at other times.
static const struct buffer *first_assigned(const struct assignment *a, const struct allocation *of)
{
    struct pb_reader r = open_slice(of->message);
    const struct buffer *found = NULL;
    struct buffer *b;
    while (next_assigned(a, &r, &b)) {
        if (b && (!found || b->bytes > found->bytes))
            found = b;
    }
    return found;
}

static int by_bytes(const void *x, const void *y)
{
    const struct trace_heap_buffer *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    int c = slice_compare(a->instruction, b->instruction);
    return c ? c : slice_compare(a->shape, b->shape);
}

// ---- One memory space

static enum trace_heap_kind kind_of(const struct allocation *b)
{
    return b->parameter  ? TRACE_HEAP_PARAMETER
           : b->constant ? TRACE_HEAP_CONSTANT
           : b->result   ? TRACE_HEAP_RESULT
                         : TRACE_HEAP_TEMPORARY;
}

// The allocation that is replayed: the largest of those with a simulation. All others count in full.
static const struct allocation *pool_of(const struct assignment *a, int64_t space)
{
    const struct allocation *found = NULL;
    for (size_t i = 0; i < a->n_allocations; i++) {
        const struct allocation *b = &a->allocations[i];
        if (b->space == space && b->simulation && !b->thread_local && (!found || b->bytes > found->bytes))
            found = b;
    }
    return found;
}

static int list_fixed(struct assignment *a, const struct naming *x, const struct allocation *pool, struct trace_heap *h,
                      struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < a->n_allocations && !rc; i++) {
        const struct allocation *b = &a->allocations[i];
        if (b->space != h->space || b->thread_local || b == pool || !b->bytes)
            continue;
        const struct buffer *of = first_assigned(a, b);
        struct buffer none = {.instruction = -1};
        struct trace_heap_buffer *to = &h->live[h->n_live++];
        *to = (struct trace_heap_buffer){.kind = kind_of(b), .bytes = b->bytes};
        h->fixed_bytes = add_saturated(h->fixed_bytes, b->bytes);
        rc = describe(x, of ? of : &none, to, err);
    }
    return rc;
}

static int list_alive(struct assignment *a, const struct naming *x, struct trace_heap *h, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < a->n_buffers && !rc; i++) {
        const struct buffer *b = &a->buffers[i];
        if (!b->users || !b->bytes)
            continue;
        struct trace_heap_buffer *to = &h->live[h->n_live++];
        *to = (struct trace_heap_buffer){.kind = TRACE_HEAP_TEMPORARY, .bytes = b->bytes};
        rc = describe(x, b, to, err);
    }
    return rc;
}

static int make_heap(struct trace_heaps *out, struct assignment *a, const struct naming *x, struct trace_heap *h,
                     struct error *err)
{
    const struct allocation *pool = pool_of(a, h->space);
    const struct simulation *s = pool ? &a->simulations[pool->simulation - 1] : NULL;
    h->live = arena_new(a->arena, struct trace_heap_buffer, a->n_allocations + a->n_buffers, err);
    h->points = arena_new(a->arena, struct trace_heap_point, s ? s->steps : 0, err);
    if (!h->live || !h->points)
        return ERR_MEMORY;
    int rc = list_fixed(a, x, pool, h, err);
    h->peak_bytes = h->fixed_bytes;
    h->pool_bytes = pool ? pool->bytes : 0;
    if (s && !rc) {
        (void)replay(a, s, replay(a, s, s->steps, h), NULL);
        rc = list_alive(a, x, h, err);
    }
    if (h->n_live)
        qsort(h->live, h->n_live, sizeof *h->live, by_bytes);
    struct trace_heap_buffer *live = arena_new(&out->arena, struct trace_heap_buffer, h->n_live, err);
    struct trace_heap_point *points = arena_new(&out->arena, struct trace_heap_point, h->n_points, err);
    if (rc || !live || !points)
        return rc ? rc : ERR_MEMORY;
    if (h->n_live)
        memcpy(live, h->live, h->n_live * sizeof *live);
    for (size_t i = 0; i < h->n_points && !rc; i++) {
        points[i] = h->points[i];
        rc = slice_copy(&out->arena, &points[i].instruction, err);
    }
    h->live = live;
    h->points = points;
    return rc ? rc : slice_copy(&out->arena, &h->at, err);
}

static int by_space(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static int make_heaps(struct trace_heaps *out, struct assignment *a, const struct naming *x, struct slice program,
                      uint64_t id, struct error *err)
{
    int64_t *spaces = arena_new(a->arena, int64_t, a->n_allocations, err);
    size_t n = 0;
    if (!spaces)
        return ERR_MEMORY;
    for (size_t i = 0; i < a->n_allocations; i++) {
        if (!a->allocations[i].thread_local)
            spaces[n++] = a->allocations[i].space;
    }
    if (n)
        qsort(spaces, n, sizeof *spaces, by_space);
    int rc = slice_copy(&out->arena, &program, err);
    for (size_t i = 0, made = 0; i < n && !rc; i++) {
        if (i && spaces[i] == spaces[i - 1])
            continue;
        if (made++ == 64) { // every space costs a pass; no chip has a tenth of so many
            a->damage = "has more than 64 memory spaces";
            break;
        }
        struct trace_heap *more =
            arena_grow(&out->arena, out->heaps, &out->cap_heaps, out->n_heaps + 1, sizeof *more, err);
        if (!more)
            return ERR_MEMORY;
        out->heaps = more;
        more[out->n_heaps] = (struct trace_heap){.program = program, .program_id = id, .space = spaces[i]};
        rc = make_heap(out, a, x, &more[out->n_heaps], err);
        out->n_heaps += more[out->n_heaps].peak_bytes > 0; // a space that nothing lies in is none
    }
    return rc;
}

int trace_heaps_add(struct trace_heaps *out, const struct hlo_module *m, struct slice program, uint64_t program_id,
                    struct error *err)
{
    struct arena scratch;
    arena_init(&scratch);
    struct assignment a = {.arena = &scratch};
    struct naming x = {.module = m, .arena = &out->arena};
    int rc = read_assignment(&a, m->buffer_assignment, err);
    join_simulations(&a);
    if (!rc)
        rc = index_instructions(&x, &scratch, err);
    if (!rc)
        rc = make_heaps(out, &a, &x, program, program_id, err);
    if (a.damage && !out->damage)
        out->damage = a.damage;
    arena_release(&scratch);
    return rc;
}

// ---- A profile's programs

struct adding {
    struct trace_heaps *out;
    const struct trace_program *program;
};

static int add_heaps(void *context, const struct hlo_module *m, struct arena *scratch, struct error *err)
{
    const struct adding *a = context;
    (void)scratch;
    return m->buffer_assignment.size ? trace_heaps_add(a->out, m, a->program->name, a->program->id, err) : 0;
}

static int add_program(struct trace_heaps *out, const struct trace_program *p, struct error *err)
{
    struct adding a = {out, p};
    struct error bad;
    int rc = trace_program_read(p, add_heaps, &a, &bad, err);
    if (rc || !bad.code || out->damage)
        return rc;
    out->damage = arena_strdup(&out->arena, bad.message, err);
    return out->damage ? 0 : ERR_MEMORY;
}

int trace_heaps(const struct trace *t, struct trace_heaps *out, struct error *err)
{
    struct arena arena;
    struct trace_program *programs;
    size_t n;
    memset(out, 0, sizeof *out);
    arena_init(&out->arena);
    arena_init(&arena);
    int rc = trace_programs(t, &arena, &programs, &n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        if (i && programs[i].id == programs[i - 1].id && slice_compare(programs[i].name, programs[i - 1].name) == 0)
            continue;
        out->programs++;
        rc = add_program(out, &programs[i], err);
    }
    arena_release(&arena);
    return rc;
}

void trace_heaps_release(struct trace_heaps *h)
{
    arena_release(&h->arena);
    memset(h, 0, sizeof *h);
}
