// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo_parse_part.h"

static bool add_edge(struct hlo_parsing *s, uint32_t from, uint32_t to)
{
    struct hlo_edge *e = PUSH(&s->p, s->edges, s->n_edges, s->cap_edges);
    if (e)
        *e = (struct hlo_edge){from, to};
    return e != NULL;
}

// ---- Opcodes

static int compare_names(const void *key, const void *row)
{
    const struct slice *name = key;
    const char *text = *(const char *const *)row;
    return slice_compare(*name, (struct slice){(const uint8_t *)text, strlen(text)});
}

static const char *find_opcode(struct slice name)
{
    // clang-format off
    static const char *const names[] = { // sorted
        "abs", "acos", "acosh", "add", "add-dependency", "after-all", "all-gather", "all-gather-done",
        "all-gather-start", "all-reduce", "all-reduce-done", "all-reduce-start", "all-to-all", "and", "asin", "asinh",
        "async-done", "async-start", "async-update", "atan2", "atanh", "batch-norm-grad", "batch-norm-inference",
        "batch-norm-training", "bitcast", "bitcast-convert", "broadcast", "call", "cbrt", "ceil", "cholesky", "clamp",
        "collective-broadcast", "collective-permute", "collective-permute-done", "collective-permute-start",
        "compare", "complex", "concatenate", "conditional", "constant", "convert", "convolution", "copy", "copy-done",
        "copy-start", "cosh", "cosine", "count-leading-zeros", "custom-call", "divide", "domain", "dot",
        "dynamic-reshape", "dynamic-slice", "dynamic-update-slice", "erf", "exponential", "exponential-minus-one",
        "fft", "floor", "fusion", "gather", "get-dimension-size", "get-tuple-element", "imag", "infeed", "iota",
        "is-finite", "log", "log-plus-one", "logistic", "map", "maximum", "minimum", "mulhi", "multiply", "negate",
        "not", "opt-barrier", "or", "outfeed", "pad", "parameter", "partition-id", "popcnt", "power",
        "ragged-all-to-all", "ragged-dot", "real", "recv", "recv-done", "reduce", "reduce-precision",
        "reduce-scatter", "reduce-window", "remainder", "replica-id", "reshape", "reverse", "rng",
        "rng-bit-generator", "rng-get-and-update-state", "round-nearest-afz", "round-nearest-even", "rsqrt",
        "scaled-dot", "scan", "scatter", "select", "select-and-scatter", "send", "send-done", "set-dimension-size",
        "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sinh", "slice", "sort",
        "sqrt", "stochastic-convert", "subtract", "tan", "tanh", "topk", "transpose", "triangular-solve", "tuple",
        "while", "xor",
    };
    // clang-format on
    const char *const *at = bsearch(&name, names, sizeof names / sizeof *names, sizeof *names, compare_names);
    return at ? *at : NULL;
}

static bool known_opcode(struct hlo_parser *p, struct slice name)
{
    if (!name.size)
        return false;
    size_t at =
        (name.data[0] + 7U * name.data[name.size - 1] + 3 * name.size) % (sizeof p->opcodes / sizeof *p->opcodes);
    if (!p->opcodes[at] || !slice_is(name, p->opcodes[at])) {
        const char *known = find_opcode(name);
        p->opcodes[at] = known ? known : p->opcodes[at];
        return known != NULL;
    }
    return true;
}

// "slice-start" is short for an async-start of a computation that has the slice alone: the opcode of that, and which
// of the three it is. False for opcodes that stand for themselves.
static bool is_short(struct hlo_parser *p, struct slice opcode, struct slice *inner, const char **outer)
{
    static const char *const ends[] = {"-start", "-update", "-done"};
    static const char *const outers[] = {"async-start", "async-update", "async-done"};
    for (size_t i = 0; i < 3; i++) {
        if (!slice_ends_with(opcode, ends[i]))
            continue;
        *inner = (struct slice){opcode.data, opcode.size - strlen(ends[i])};
        *outer = outers[i];
        return known_opcode(p, *inner);
    }
    return false;
}

// ---- Instructions

static bool parse_operands(struct hlo_parsing *s)
{
    struct hlo_parser *p = &s->p;
    s->n_operands = 0;
    if (hlo_take(p, ')'))
        return true;
    do {
        struct slice name;
        uint32_t id;
        const uint8_t *from = p->at;
        int c = hlo_peek(p);
        if (c == '(' && !hlo_skip_shape(p))
            return false;
        if (c != '%' && c != '(') { // a name without its '%', or the shape before it
            (void)hlo_word(p);
            bool shape = p->at < p->end && *p->at == '[';
            p->at = from;
            if (shape && !hlo_skip_shape(p))
                return false;
        }
        if (!hlo_parse_name(p, &name))
            return false;
        if (!hlo_instruction_id(p, name, &id))
            return hlo_fail(p, "operand '%.*s' is not there, or comes later", SHOWN(name));
        uint32_t *o = PUSH(p, s->operands, s->n_operands, s->cap_operands);
        if (!o)
            return false;
        *o = id;
    } while (hlo_take(p, ','));
    return hlo_expect(p, ')');
}

static void put_ids(struct str *out, uint32_t field, const uint32_t *ids, size_t n)
{
    if (!n)
        return;
    size_t list = pb_begin(out, field);
    for (size_t i = 0; i < n; i++)
        pb_put_varint(out, ids[i]);
    pb_end(out, list);
}

static bool put_called(struct hlo_parsing *s, uint32_t from)
{
    struct hlo_parser *p = &s->p;
    uint32_t all[2] = {p->pending.first, p->pending.second};
    bool fuses = slice_is(p->pending.opcode, "fusion"), ok = true;
    for (size_t i = 0; i < 2 && ok; i++) {
        if (all[i])
            pb_put_uint(p->out, 38, all[i]);
        ok = !all[i] || add_edge(s, from, all[i]);
    }
    put_ids(p->out, 38, p->called, p->n_called);
    for (size_t i = 0; i < p->n_called && ok; i++) {
        ok = add_edge(s, from, p->called[i]);
        s->entries[p->called[i] - 1].fused |= fuses;
    }
    return ok;
}

// What ShapeProto was written last, from `at` on with its tag: its body.
static struct slice written(const struct str *out, size_t at)
{
    struct pb_field f = {0};
    struct pb_reader r = pb_reader(out->text + at, out->length - at);
    return pb_next(&r, &f) ? f.body : (struct slice){NULL, 0};
}

static bool keep_parameter(struct hlo_parsing *s, int64_t number, struct slice shape)
{
    struct hlo_parser *p = &s->p;
    if (number < 0 || (uint64_t)number > s->p.parsed->message.size) // the size of the text, until the message is made
        return hlo_fail(p, "a parameter's number is out of range");
    if (s->current != s->entry)
        return true;
    size_t need = (size_t)number + 1;
    struct hlo_entry_parameter *more =
        arena_grow(p->arena, s->parameters, &s->cap_parameters, need, sizeof *more, p->err);
    if (!more || (!s->has_layout && slice_copy(p->arena, &shape, p->err))) {
        p->rc = ERR_MEMORY;
        return false;
    }
    s->parameters = more;
    for (; s->n_parameters < need; s->n_parameters++)
        s->parameters[s->n_parameters] = (struct hlo_entry_parameter){{NULL, 0}, {NULL, 0}};
    s->parameters[number].name = p->instruction;
    s->parameters[number].shape = shape;
    return true;
}

// What stands between the parentheses.
static bool parse_arguments(struct hlo_parsing *s, struct slice opcode)
{
    struct hlo_parser *p = &s->p;
    int64_t number;
    if (!hlo_expect(p, '('))
        return false;
    s->n_operands = 0;
    if (slice_is(opcode, "parameter")) {
        if (!hlo_parse_integer(p, &number) || !keep_parameter(s, number, written(p->out, s->shape_at)))
            return false;
        hlo_put_number(p, 9, number);
        return hlo_expect(p, ')');
    }
    if (slice_is(opcode, "constant"))
        return hlo_parse_literal(p, written(p->out, s->shape_at)) && hlo_expect(p, ')');
    return parse_operands(s);
}

void hlo_put_begin(struct hlo_parser *p, struct slice name, const char *opcode, uint32_t id)
{
    pb_put_bytes(p->out, 1, name.data, name.size);
    pb_put_string(p->out, 2, opcode);
    pb_put_uint(p->out, 35, id);
}

// The body of "((f32[8], f32[2]), f32[4], s32[])": parameters of the shapes of the inner tuple; the shape of the result
// stays at hand.
static bool parse_wrapped_shapes(struct hlo_parser *p, uint32_t field)
{
    struct hlo_parsing *s = hlo_parsing_of(p);
    uint32_t n = 0;
    (void)field;
    if (!hlo_take(p, '(') || hlo_peek(p) != '(')
        return hlo_fail(p, "the start of an asynchronous operation has a tuple of its operands and its result");
    p->at++;
    if (!hlo_take(p, ')')) {
        do {
            size_t instruction = pb_begin(p->out, 2);
            char name[24];
            int length = snprintf(name, sizeof name, "param_%u", n);
            hlo_put_begin(p, (struct slice){(const uint8_t *)name, (size_t)length}, "parameter", s->next_wrapped_id++);
            if (!hlo_parse_shape(p, 3))
                return false;
            hlo_put_number(p, 9, n++);
            pb_end(p->out, instruction);
        } while (hlo_take(p, ','));
        if (!hlo_expect(p, ')'))
            return false;
    }
    s->n_operands = n;
    return hlo_expect(p, ',');
}

static bool parse_shape_behind(struct hlo_parser *p, uint32_t field)
{
    struct slice first;
    p->at++; // (
    return hlo_skip_value(p, &first) && hlo_expect(p, ',') && hlo_parse_shape(p, field);
}

// The computation that a short form stands for, from the attributes of the instruction: they are the inner operation's.
// Its id, or 0.
static uint32_t put_wrapped(struct hlo_parsing *s, struct slice shape, struct slice inner, const struct str *attributes)
{
    struct hlo_parser *p = &s->p;
    struct str *out = p->out;
    size_t n = s->n_operands, begin = s->wrapped.length;
    struct hlo_entry *e = PUSH(p, s->entries, s->n_entries, s->cap_entries);
    if (!e)
        return 0;
    uint32_t id = (uint32_t)s->n_entries, first = s->next_wrapped_id;
    *e = (struct hlo_entry){
        .name = {(const uint8_t *)"async_wrapped", 13}, .defined = true, .wrapped = true, .at = begin};
    p->out = &s->wrapped;
    bool ok = hlo_parse_within(p, shape, parse_wrapped_shapes, 0);
    ok = ok && (s->n_operands == n || hlo_fail(p, "%zu operands, but a tuple of %zu", n, s->n_operands));
    if (ok) {
        uint32_t root = s->next_wrapped_id++;
        size_t instruction = pb_begin(p->out, 2), list;
        pb_put_bytes(p->out, 1, inner.data, inner.size);
        pb_put_bytes(p->out, 2, inner.data, inner.size);
        pb_put_uint(p->out, 35, root);
        ok = hlo_parse_within(p, shape, parse_shape_behind, 3);
        list = n ? pb_begin(p->out, 36) : 0;
        for (size_t i = 0; i < n; i++)
            pb_put_varint(p->out, first + i);
        if (n)
            pb_end(p->out, list);
        str_add_n(p->out, attributes->text, attributes->length);
        ok = ok && put_called(s, id);
        pb_end(p->out, instruction);
        e = &s->entries[id - 1];
        e->first = first;
        e->n = s->next_wrapped_id - first;
        e->root = root;
        e->size = s->wrapped.length - begin;
        e->place = ++s->n_ended;
    }
    if (!ok) { // nobody knows of it yet
        s->wrapped.length = begin;
        s->n_entries--;
    }
    p->out = out;
    s->n_operands = n;
    return ok ? id : 0;
}

// Behind the parentheses of a short form.
static bool parse_short(struct hlo_parsing *s, struct slice shape, struct slice inner, bool start)
{
    struct hlo_parser *p = &s->p;
    struct str attributes, *out = p->out;
    str_init(&attributes);
    p->out = &attributes;
    p->pending.opcode = inner;
    bool ok = hlo_parse_attributes(p) && hlo_put_pending(p);
    p->out = out;
    uint32_t id = ok && start ? put_wrapped(s, shape, inner, &attributes) : 0;
    out->failed |= attributes.failed;
    str_release(&attributes);
    p->n_called = p->pending.first = p->pending.second = 0;
    if (!ok || (start && !id))
        return false;
    if (start) {
        pb_put_uint(p->out, 38, id);
        ok = add_edge(s, s->current, id);
    }
    return ok;
}

// Behind "NAME = ".
static bool parse_rest(struct hlo_parsing *s, uint32_t id)
{
    struct hlo_parser *p = &s->p;
    struct slice inner, opcode, shape;
    const char *outer = NULL;
    pb_put_bytes(p->out, 1, p->instruction.data, p->instruction.size);
    pb_put_uint(p->out, 35, id);
    s->shape_at = p->out->length;
    s->shape_size = 0;
    (void)hlo_peek(p);
    shape.data = p->at;
    if (!hlo_parse_shape(p, 3))
        return false;
    shape.size = (size_t)(p->at - shape.data);
    s->shape_size = p->out->length - s->shape_at;
    opcode = hlo_word(p);
    bool known = known_opcode(p, opcode), is_short_form = !known && is_short(p, opcode, &inner, &outer);
    if (!opcode.size)
        return hlo_fail(p, "expected an opcode");
    if (!known && !is_short_form) {
        p->at = opcode.data;
        return hlo_fail(p, "opcode '%.*s' is not known", SHOWN(opcode));
    }
    p->pending.opcode = opcode;
    p->pending.is_short = is_short_form;
    if (is_short_form)
        pb_put_string(p->out, 2, outer);
    else
        pb_put_bytes(p->out, 2, opcode.data, opcode.size);
    if (!parse_arguments(s, opcode))
        return false;
    if (is_short_form) {
        if (!parse_short(s, shape, inner, strcmp(outer, "async-start") == 0))
            return false;
    } else if (!hlo_parse_attributes(p) || !hlo_put_pending(p) || !put_called(s, s->current)) {
        return false;
    }
    put_ids(p->out, 36, s->operands, s->n_operands);
    return !p->pending.metadata.size || hlo_parse_within(p, p->pending.metadata, hlo_parse_metadata, 7);
}

// One that was not understood: what is known of it stays, and the text goes on with the next line.
static bool leave_out(struct hlo_parsing *s, size_t begin, uint32_t id)
{
    struct hlo_parser *p = &s->p;
    if (!hlo_leave_out(p, "%s", p->what))
        return false;
    hlo_skip_line(p);
    struct slice shape = {(const uint8_t *)"\x10\x0e", 2}; // opaque
    if (s->shape_size)
        shape = written(p->out, s->shape_at);
    if (slice_copy(p->arena, &shape, p->err)) {
        p->rc = ERR_MEMORY;
        return false;
    }
    p->out->length = begin;
    hlo_put_begin(p, p->instruction, HLO_NOT_UNDERSTOOD, id);
    pb_put_bytes(p->out, 3, shape.data, shape.size);
    return true;
}

bool hlo_parse_instruction(struct hlo_parsing *s)
{
    struct hlo_parser *p = &s->p;
    struct slice name = {NULL, 0};
    const uint8_t *from = p->at;
    size_t n_edges = s->n_edges;
    memset(&p->pending, 0, offsetof(struct hlo_pending, list));
    p->n_called = 0;
    p->instruction = name;
    bool root = slice_is(hlo_word(p), "ROOT");
    if (!root || hlo_peek(p) == '=') {
        p->at = from;
        root = false;
    }
    if (!hlo_parse_name(p, &name) || !hlo_expect(p, '=')) {
        // Without a name there is nothing that others could refer to.
        if (!hlo_leave_out(p, "%s", p->what))
            return false;
        hlo_skip_line(p);
        return true;
    }
    p->instruction = name;
    // Its place in the table is asked for now, and written to when it has come.
    uint64_t hash = hlo_names_hash(&p->instructions, name);
    uint32_t id = s->next_id++;
    from = p->at;
    size_t message = pb_begin(p->out, 2), begin = p->out->length;
    bool ok = parse_rest(s, id);
    struct hlo_name *slot = hlo_names_put(p, &p->instructions, name, hash);
    if (!slot)
        return false;
    if (slot->value) {
        p->what[0] = '\0';
        p->at = from;
        return hlo_fail(p, "the computation has another instruction of that name");
    }
    if (!ok) {
        s->n_edges = n_edges;
        if (!leave_out(s, begin, id))
            return false;
    }
    pb_end(p->out, message);
    slot->value = id;
    struct hlo_entry *e = &s->entries[s->current - 1];
    if (root && e->root)
        return hlo_fail(p, "the computation has two roots");
    if (root)
        e->root = id;
    e->n++;
    p->instruction = (struct slice){NULL, 0};
    return true;
}
