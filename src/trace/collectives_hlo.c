// SPDX-License-Identifier: Apache-2.0
#include "trace/collectives_hlo.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "trace/ops_hlo.h"

// A kernel of a library has the kind in its name.
static const char *kind_of_kernel(struct slice name)
{
    static const struct {
        const char *word, *kind;
    } words[] = {{"AllReduce", "all-reduce"},         {"AllGather", "all-gather"},
                 {"ReduceScatter", "reduce-scatter"}, {"Broadcast", "collective-broadcast"},
                 {"AllToAll", "all-to-all"},          {"SendRecv", "send-recv"}};
    if (!name.size || !memmem(name.data, name.size, "nccl", 4))
        return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (memmem(name.data, name.size, words[i].word, strlen(words[i].word)))
            return words[i].kind;
    }
    return NULL;
}

enum collective_part collective_of_name(struct slice name, const char **kind)
{
    static const struct {
        const char *name, *kind;
    } kinds[] = {{"all-reduce-scatter", "reduce-scatter"},
                 {"all-reduce", "all-reduce"},
                 {"all-gather", "all-gather"},
                 {"reduce-scatter", "reduce-scatter"},
                 {"all-to-all", "all-to-all"},
                 {"ragged-all-to-all", "ragged-all-to-all"},
                 {"collective-permute", "collective-permute"},
                 {"collective-broadcast", "collective-broadcast"},
                 {"send", "send"},
                 {"recv", "recv"},
                 {"copy", "copy"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!slice_starts_with(name, kinds[i].name))
            continue;
        size_t n = strlen(kinds[i].name);
        struct slice rest = {name.data + n, name.size - n};
        enum collective_part part = slice_starts_with(rest, "-start")  ? COLLECTIVE_START
                                    : slice_starts_with(rest, "-done") ? COLLECTIVE_DONE
                                                                       : COLLECTIVE_WHOLE;
        *kind = kinds[i].kind;
        if (part == COLLECTIVE_WHOLE && rest.size && rest.data[0] != '.' && rest.data[0] != '-')
            continue; // "copy_fusion", "sendto"
        if (strcmp(*kind, "send") == 0 || strcmp(*kind, "recv") == 0)
            part = part == COLLECTIVE_WHOLE ? COLLECTIVE_START : part; // they have an end of their own
        if (strcmp(*kind, "copy") == 0 && part == COLLECTIVE_WHOLE)
            break;
        return part;
    }
    *kind = kind_of_kernel(name);
    return *kind ? COLLECTIVE_WHOLE : COLLECTIVE_NONE;
}

// ---- HLO

static int by_name(const void *a, const void *b)
{
    const struct collective_facts *x = a, *y = b;
    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    return slice_compare(x->name, y->name);
}

const struct collective_facts *collective_facts_find(const struct collective_facts *facts, size_t n, uint64_t program,
                                                     struct slice name)
{
    struct collective_facts key = {.program = program, .name = name};
    return n ? bsearch(&key, facts, n, sizeof key, by_name) : NULL;
}

// The collective that an instruction is, or that it starts or ends for another one ("async-start").
static enum collective_part part_of(const struct hlo_instruction *in, const struct hlo_instruction **of,
                                    const char **kind)
{
    const struct hlo_instruction *wrapped = in->n_called ? in->called[0]->root : NULL;
    *of = in;
    if (hlo_is(in, "async-start") && wrapped) {
        *of = wrapped;
        return collective_of_name(wrapped->opcode, kind) ? COLLECTIVE_START : COLLECTIVE_NONE;
    }
    if (hlo_is(in, "async-done") && in->n_operands) {
        const struct hlo_instruction *start = in->operands[0];
        while (hlo_is(start, "async-update") && start->n_operands)
            start = start->operands[0];
        return part_of(start, of, kind) == COLLECTIVE_START ? COLLECTIVE_DONE : COLLECTIVE_NONE;
    }
    return collective_of_name(in->opcode, kind);
}

static int64_t bytes_of(const struct hlo_instruction *in)
{
    int64_t operands = 0, results;
    for (size_t i = 0; i < in->n_operands; i++) {
        int64_t b = hlo_shape_bytes(&in->operands[i]->shape);
        operands = __builtin_add_overflow(operands, b, &operands) ? INT64_MAX : operands;
    }
    // A start's value has its operands in it as well; that of an all-reduce only the results.
    bool pair = in->shape.kind == HLO_TUPLE && in->shape.n_elements >= 2 &&
                (hlo_is(in, "all-gather-start") || hlo_is(in, "collective-permute-start") || hlo_is(in, "copy-start"));
    results = hlo_shape_bytes(pair ? &in->shape.elements[1] : &in->shape);
    return operands > results ? operands : results;
}

struct collecting {
    struct arena *arena;
    struct trace_group_sets *sets;
    struct collective_facts *facts;
    size_t n, cap;
    struct error *err;
};

static int read_groups(struct collecting *c, struct collective_facts *f, const struct hlo_module *m,
                       const struct hlo_instruction *of, struct arena *scratch)
{
    struct hlo_attributes a;
    int rc = hlo_attributes_read(&a, m, of, scratch, c->err);
    if (!rc)
        rc = trace_group_sets_find(c->sets, of, &a, scratch, &f->set, c->err);
    if (rc)
        return rc;
    f->groups = f->set ? (int64_t)f->set->n_groups : a.groups.count;
    f->group_size = f->set ? (int64_t)f->set->largest : a.groups.size;
    return 0;
}

static int add(struct collecting *c, const struct hlo_module *m, const struct hlo_instruction *in, uint64_t program,
               struct arena *scratch)
{
    const struct hlo_instruction *of;
    const char *kind;
    enum collective_part part = part_of(in, &of, &kind);
    if (!part)
        return 0;
    struct collective_facts *more = arena_grow(c->arena, c->facts, &c->cap, c->n + 1, sizeof *more, c->err);
    if (!more)
        return ERR_MEMORY;
    c->facts = more;
    struct collective_facts *f = &more[c->n++];
    *f = (struct collective_facts){
        .program = program, .name = in->name, .kind = kind, .part = part, .bytes = bytes_of(of)};
    if (part == COLLECTIVE_DONE && in->n_operands)
        f->start = in->operands[0]->name;
    int rc = slice_copy(c->arena, &f->name, c->err);
    if (!rc)
        rc = slice_copy(c->arena, &f->start, c->err);
    bool alone =
        part == COLLECTIVE_DONE || strcmp(kind, "copy") == 0 || strcmp(kind, "send") == 0 ||
        strcmp(kind, "recv") == 0; // the start has the groups; a channel's two ends are operations of their own
    return rc || alone ? rc : read_groups(c, f, m, of, scratch);
}

struct reading {
    struct collecting *c;
    uint64_t program;
};

static int read_program(void *context, const struct hlo_module *m, struct arena *scratch, struct error *err)
{
    const struct reading *r = context;
    int rc = trace_group_sets_begin(r->c->sets, m, scratch, err);
    for (size_t i = 0; !rc && i < m->n_computations; i++) {
        for (size_t k = 0; !rc && k < m->computations[i].n_instructions; k++)
            rc = add(r->c, m, &m->computations[i].instructions[k], r->program, scratch);
    }
    return rc;
}

int collective_facts(const struct trace *t, struct arena *arena, struct trace_group_sets *sets,
                     struct collective_facts **out, size_t *n, struct error *err)
{
    struct collecting c = {.arena = arena, .sets = sets, .err = err};
    struct trace_program *programs;
    size_t n_programs;
    int rc = trace_programs(t, arena, &programs, &n_programs, err);
    for (size_t i = 0; i < n_programs && !rc; i++) {
        struct reading r = {&c, programs[i].id};
        struct error unreadable; // trace ops says so
        if (!i || programs[i].id != programs[i - 1].id)
            rc = trace_program_read(&programs[i], read_program, &r, &unreadable, err);
    }
    if (c.n)
        qsort(c.facts, c.n, sizeof *c.facts, by_name);
    *out = c.facts;
    *n = c.n;
    return rc;
}
