// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hugepages.h"
#include "base/idmap.h"
#include "ir/hlo_parse_part.h"

enum { MAX_DEVICES = 65536 };

// ---- References

uint32_t hlo_computation_id(struct hlo_parser *p, struct slice name)
{
    struct hlo_parsing *s = hlo_parsing_of(p);
    struct hlo_name *slot = hlo_names_put(p, &p->computations, name, hlo_names_hash(&p->computations, name));
    if (!slot)
        return 0;
    if (slot->value)
        return slot->value;
    struct hlo_entry *more = arena_grow(p->arena, s->entries, &s->cap_entries, s->n_entries + 1, sizeof *more, p->err);
    if (!more) {
        p->rc = ERR_MEMORY;
        return 0;
    }
    s->entries = more;
    s->entries[s->n_entries++] = (struct hlo_entry){.name = name, .mentioned = p->at};
    slot->value = (uint32_t)s->n_entries;
    return slot->value;
}

bool hlo_instruction_id(struct hlo_parser *p, struct slice name, uint32_t *id)
{
    *id = hlo_names_get(&p->instructions, name);
    return *id != 0;
}

// ---- Computations

// "(p: f32[2], q: (s32[], f32[3])) -> f32[2]" says nothing that the instructions do not.
static bool skip_signature(struct hlo_parser *p)
{
    size_t depth = 0;
    if (hlo_peek(p) == '(') {
        do {
            int c = *p->at++;
            depth += c == '(';
            depth -= c == ')';
        } while (depth && p->at < p->end);
        if (depth)
            return hlo_fail(p, "a bracket is not closed");
    }
    if (hlo_take(p, '-'))
        return hlo_expect(p, '>') && hlo_skip_shape(p);
    return true;
}

static bool parse_trailer(struct hlo_parser *p, struct hlo_entry *e)
{
    while (hlo_take(p, ',')) {
        struct slice key = hlo_word(p), value;
        if (!key.size || !hlo_expect(p, '='))
            return hlo_fail(p, "expected an attribute of the computation");
        bool thread = slice_is(key, "execution_thread");
        if (!(thread ? hlo_parse_quoted(p, &value) : hlo_skip_value(p, &value)))
            return false;
        if (thread)
            e->thread = value;
    }
    return true;
}

static bool parse_computation(struct hlo_parsing *s)
{
    struct hlo_parser *p = &s->p;
    struct slice name;
    const uint8_t *from = p->at;
    bool entry = slice_is(hlo_word(p), "ENTRY");
    if (!entry)
        p->at = from;
    if (!hlo_parse_name(p, &name))
        return hlo_fail(p, "expected a computation");
    s->current = hlo_computation_id(p, name);
    if (!s->current)
        return false;
    struct hlo_entry *e = &s->entries[s->current - 1];
    if (e->defined)
        return hlo_fail(p, "computation '%.*s' is there twice", SHOWN(name));
    if (entry && s->entry)
        return hlo_fail(p, "the module has two entries");
    e->defined = true;
    if (entry)
        s->entry = s->current;
    if (!skip_signature(p) || !hlo_expect(p, '{'))
        return false;
    hlo_names_next_round(&p->instructions);
    e->at = s->bodies.length;
    e->first = s->next_id;
    while (hlo_peek(p) != '}') {
        if (p->at >= p->end)
            return hlo_fail(p, "computation '%.*s' does not end", SHOWN(name));
        if (!hlo_parse_instruction(s))
            return false;
    }
    p->at++;
    e = &s->entries[s->current - 1];
    if (!e->n)
        return hlo_fail(p, "computation '%.*s' has no instruction", SHOWN(name));
    if (!e->root)
        e->root = e->first + e->n - 1;
    e->size = s->bodies.length - e->at;
    e->place = ++s->n_ended;
    return parse_trailer(p, e);
}

// ---- The module's head

static bool parse_host_shape(struct hlo_parser *p, uint32_t field)
{
    size_t message = pb_begin(p->out, field);
    if (!hlo_expect(p, '{') || !hlo_expect(p, '('))
        return false;
    if (!hlo_take(p, ')')) {
        do {
            if (!hlo_parse_shape(p, 1))
                return false;
        } while (hlo_take(p, ','));
        if (!hlo_expect(p, ')'))
            return false;
    }
    if (!hlo_expect(p, '-') || !hlo_expect(p, '>') || !hlo_parse_shape(p, 2))
        return false;
    pb_end(p->out, message);
    hlo_parsing_of(p)->has_layout = true;
    return hlo_expect(p, '}');
}

static bool parse_count(struct hlo_parser *p, int64_t *out)
{
    bool ok = hlo_parse_integer(p, out);
    if (ok && *out >= 1 && *out <= MAX_DEVICES && p->parsed->n_replicas * p->parsed->n_devices <= MAX_DEVICES)
        return true;
    *out = 1;
    return hlo_fail(p, "more than %d devices, or none", MAX_DEVICES);
}

static bool parse_head_attribute(struct hlo_parsing *s, struct slice key)
{
    struct hlo_parser *p = &s->p;
    struct slice value;
    if (slice_is(key, "is_scheduled")) {
        s->scheduled = slice_is(hlo_word(p), "true");
        return true;
    }
    if (slice_is(key, "entry_computation_layout"))
        return parse_host_shape(p, 4);
    if (slice_is(key, "input_output_alias"))
        return hlo_parse_aliases(p, 8);
    if (slice_is(key, "buffer_donor"))
        return hlo_parse_donors(p, 18);
    if (slice_is(key, "frontend_attributes"))
        return hlo_parse_frontend(p, 19);
    if (slice_is(key, "num_partitions"))
        return parse_count(p, &p->parsed->n_devices);
    if (slice_is(key, "replica_count"))
        return parse_count(p, &p->parsed->n_replicas);
    return hlo_skip_value(p, &value); // of the compiler's configuration
}

static bool parse_head(struct hlo_parsing *s)
{
    struct hlo_parser *p = &s->p;
    struct slice name;
    p->out = &s->head;
    if (!slice_is(hlo_word(p), "HloModule"))
        return hlo_fail(p, "HLO text begins with 'HloModule NAME'");
    if (!hlo_parse_name(p, &name))
        return false;
    pb_put_bytes(p->out, 1, name.data, name.size);
    while (hlo_take(p, ',')) {
        struct slice key = hlo_word(p);
        size_t length = p->out->length;
        if (!key.size || !hlo_expect(p, '='))
            return hlo_fail(p, "expected an attribute of the module");
        const uint8_t *value = p->at;
        if (parse_head_attribute(s, key))
            continue;
        struct slice skipped;
        if (!hlo_leave_out(p, "attribute '%.*s' of the module: %.100s", SHOWN(key), p->what))
            return false;
        p->out->length = length;
        p->at = value;
        if (!hlo_skip_value(p, &skipped))
            return false;
    }
    return true;
}

// ---- Tables of stack frames

// "{file_name_id=1 function_name_id=2 line=3 ...}"
static bool parse_record(struct hlo_parser *p, uint32_t field)
{
    static const struct {
        const char *key;
        uint32_t number;
    } known[] = {{"file_name_id", 1}, {"function_name_id", 2}, {"line", 3},           {"column", 4}, {"end_line", 5},
                 {"end_column", 6},   {"file_location_id", 1}, {"parent_frame_id", 2}};
    int64_t v;
    size_t message = pb_begin(p->out, field);
    if (!hlo_expect(p, '{'))
        return false;
    while (hlo_peek(p) != '}') {
        struct slice key = hlo_word(p);
        size_t i = 0;
        while (i < sizeof known / sizeof *known && !slice_is(key, known[i].key))
            i++;
        if (!key.size || !hlo_expect(p, '=') || !hlo_parse_integer(p, &v))
            return hlo_fail(p, "expected a number of a stack frame");
        // Counted from zero in the message, and from one here: a frame without a parent has 1.
        if (i == 7 && v > 0)
            v--;
        if (i < sizeof known / sizeof *known)
            hlo_put_number(p, known[i].number, v);
    }
    pb_end(p->out, message);
    return hlo_expect(p, '}');
}

static bool parse_table(struct hlo_parser *p, uint32_t field)
{
    while (hlo_peek(p) >= '0' && hlo_peek(p) <= '9') {
        struct slice text;
        int64_t number;
        if (!hlo_parse_integer(p, &number))
            return false;
        if (field > 2) {
            if (!parse_record(p, field))
                return false;
        } else {
            if (!hlo_parse_quoted(p, &text))
                return false;
            hlo_put_text(p, field, text);
        }
    }
    return true;
}

static bool parse_tables(struct hlo_parser *p)
{
    static const char *const names[] = {"FileNames", "FunctionNames", "FileLocations", "StackFrames"};
    size_t begin = pb_begin(p->out, 17), empty = p->out->length;
    for (;;) {
        const uint8_t *from = (hlo_peek(p), p->at);
        struct slice word = hlo_word(p);
        uint32_t i = 0;
        while (i < 4 && !slice_is(word, names[i]))
            i++;
        if (i == 4) {
            p->at = from;
            break;
        }
        if (!parse_table(p, i + 1))
            return false;
    }
    pb_end(p->out, begin);
    if (p->out->length == empty)    // nothing but its length
        p->out->length = begin - 2; // a tag of two bytes
    return true;
}

// ---- The message

static void put_stub(struct hlo_parsing *s, struct hlo_entry *e)
{
    struct hlo_parser *p = &s->p;
    p->out = &s->wrapped;
    e->wrapped = e->defined = true;
    e->at = s->wrapped.length;
    e->first = e->root = s->next_wrapped_id;
    e->n = 1;
    size_t instruction = pb_begin(p->out, 2);
    hlo_put_begin(p, e->name, HLO_NOT_UNDERSTOOD, s->next_wrapped_id++);
    pb_put_bytes(p->out, 3, "\x10\x0e", 2);
    pb_end(p->out, instruction);
    e->size = s->wrapped.length - e->at;
    e->place = ++s->n_ended;
}

static bool find_all(struct hlo_parsing *s)
{
    struct hlo_parser *p = &s->p;
    for (size_t i = 0; i < s->n_entries; i++) {
        struct hlo_entry *e = &s->entries[i];
        if (e->defined)
            continue;
        p->at = e->mentioned;
        if (!p->lenient)
            return hlo_fail(p, "computation '%.*s' is not in the module", SHOWN(e->name));
        if (!hlo_leave_out(p, "computation '%.*s' is not in the module", SHOWN(e->name)))
            return false;
        put_stub(s, e);
    }
    return true;
}

// Callees before callers. The order of the text has that already unless something calls what comes later.
static bool order_computations(struct hlo_parsing *s, uint32_t *order)
{
    struct hlo_parser *p = &s->p;
    size_t n = s->n_entries, n_done = 0;
    bool sorted = true;
    for (size_t i = 0; i < s->n_edges; i++)
        sorted &= s->entries[s->edges[i].to - 1].place < s->entries[s->edges[i].from - 1].place;
    for (size_t i = 0; i < n; i++)
        order[s->entries[i].place - 1] = (uint32_t)i + 1;
    if (sorted)
        return true;
    // A walk without recursion: callees of each by their callers, and a stack.
    uint32_t *first = arena_new(p->arena, uint32_t, n + 2, p->err),
             *to = arena_new(p->arena, uint32_t, s->n_edges, p->err);
    uint32_t *stack = arena_new(p->arena, uint32_t, n, p->err), *at = arena_new(p->arena, uint32_t, n + 1, p->err);
    uint8_t *state = arena_new(p->arena, uint8_t, n + 1, p->err); // 1: on the stack, 2: done
    uint32_t *roots = arena_new(p->arena, uint32_t, n, p->err);
    if (!first || !to || !stack || !at || !state || !roots) {
        p->rc = ERR_MEMORY;
        return false;
    }
    memcpy(roots, order, n * sizeof *roots);
    for (size_t i = 0; i < s->n_edges; i++)
        first[s->edges[i].from + 1]++;
    for (size_t i = 1; i < n + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < s->n_edges; i++)
        to[first[s->edges[i].from] + at[s->edges[i].from]++] = s->edges[i].to;
    memset(at, 0, (n + 1) * sizeof *at);
    for (size_t k = 0; k < n; k++) {
        size_t depth = 0;
        if (!state[roots[k]]) {
            stack[depth++] = roots[k];
            state[roots[k]] = 1;
        }
        while (depth) {
            uint32_t c = stack[depth - 1];
            if (first[c] + at[c] == first[c + 1]) {
                state[c] = 2;
                order[n_done++] = c;
                depth--;
                continue;
            }
            uint32_t callee = to[first[c] + at[c]++];
            if (state[callee] == 1) {
                p->at = s->entries[callee - 1].mentioned;
                return hlo_fail(p, "computation '%.*s' calls itself, by way of '%.*s'",
                                SHOWN(s->entries[callee - 1].name), SHOWN(s->entries[c - 1].name));
            }
            if (!state[callee]) {
                state[callee] = 1;
                stack[depth++] = callee;
            }
        }
    }
    return true;
}

// The text says only how many there are: they are taken in their order, partitions of a replica one after the other.
static void put_devices(struct hlo_parsing *s)
{
    struct str *out = &s->head;
    int64_t replicas = s->p.parsed->n_replicas, partitions = s->p.parsed->n_devices;
    if (replicas == 1 && partitions == 1)
        return;
    size_t message = pb_begin(out, 15);
    pb_put_int(out, 1, replicas);
    pb_put_int(out, 2, partitions);
    for (int64_t i = 0; i < partitions; i++) {
        size_t devices = pb_begin(out, 3), list = pb_begin(out, 1);
        for (int64_t k = 0; k < replicas; k++)
            pb_put_varint(out, (uint64_t)(k * partitions + i));
        pb_end(out, list);
        pb_end(out, devices);
    }
    pb_end(out, message);
}

static void put_schedule(struct hlo_parsing *s)
{
    struct str *out = &s->head;
    size_t schedule = pb_begin(out, 7);
    for (size_t i = 0; i < s->n_entries; i++) {
        const struct hlo_entry *e = &s->entries[i];
        if (e->fused)
            continue;
        size_t pair = pb_begin(out, 1);
        pb_put_uint(out, 1, i + 1);
        size_t sequence = pb_begin(out, 2), list = pb_begin(out, 1);
        for (uint32_t k = 0; k < e->n; k++)
            pb_put_varint(out, e->first + k);
        pb_end(out, list);
        pb_end(out, sequence);
        pb_end(out, pair);
    }
    pb_end(out, schedule);
}

// The names of the parameters; and where the head does not say what the program takes and gives, their shapes and the
// root's. A reader puts this together with what the head said in the same field.
static void put_program_shape(struct hlo_parsing *s)
{
    struct str *out = &s->head;
    const struct hlo_entry *e = &s->entries[s->entry - 1];
    struct pb_field f = {0}, g = {0};
    struct pb_reader r = pb_reader(s->bodies.text + e->at, e->size);
    size_t shape = pb_begin(out, 4);
    for (size_t i = 0; i < s->n_parameters; i++) {
        const struct hlo_entry_parameter *x = &s->parameters[i];
        if (!s->has_layout)
            pb_put_bytes(out, 1, x->shape.data, x->shape.size);
        pb_put_bytes(out, 3, x->name.data, x->name.size);
    }
    while (!s->has_layout && pb_next(&r, &f) && f.wire == PB_BYTES) {
        struct pb_reader in = pb_reader(f.body.data, f.body.size);
        struct slice own = {NULL, 0};
        uint64_t id = 0;
        while (pb_next(&in, &g)) {
            if (pb_is(&g, 3, PB_BYTES))
                own = g.body;
            else if (pb_is(&g, 35, PB_VARINT))
                id = g.value;
        }
        if (id == e->root)
            pb_put_bytes(out, 2, own.data, own.size);
    }
    pb_end(out, shape);
}

// All of it, in the arena.
static bool assemble(struct hlo_parsing *s)
{
    struct hlo_parser *p = &s->p;
    struct str *head = &s->head;
    uint32_t *order = arena_new(p->arena, uint32_t, s->n_entries, p->err);
    if (!order) {
        p->rc = ERR_MEMORY;
        return false;
    }
    if (!find_all(s) || !order_computations(s, order))
        return false;
    if (!s->entry) // as old texts of one computation have it
        s->entry = order[s->n_entries - 1];
    put_program_shape(s);
    pb_put_bytes(head, 2, s->entries[s->entry - 1].name.data, s->entries[s->entry - 1].name.size);
    pb_put_uint(head, 6, s->entry);
    put_devices(s);
    if (s->scheduled)
        put_schedule(s);
    if (head->failed || s->bodies.failed || s->wrapped.failed) {
        p->rc = error_set(p->err, ERR_MEMORY, p->name, "no memory for a module of %zu bytes", p->parsed->message.size);
        return false;
    }
    size_t total = head->length + s->bodies.length + s->wrapped.length;
    for (size_t i = 0; i < s->n_entries; i++)
        total += s->entries[i].name.size + s->entries[i].thread.size + 64; // numbers and lengths
    uint8_t *message = arena_alloc(p->arena, total, 1, p->err), *to = message;
    if (!message) {
        p->rc = ERR_MEMORY;
        return false;
    }
    memcpy(to, head->text, head->length);
    to += head->length;
    for (size_t i = 0; i < s->n_entries; i++) {
        const struct hlo_entry *e = &s->entries[order[i] - 1];
        const struct str *from = e->wrapped ? &s->wrapped : &s->bodies;
        str_clear(head);
        pb_put_bytes(head, 1, e->name.data, e->name.size);
        pb_put_uint(head, 5, order[i]);
        pb_put_uint(head, 6, e->root);
        if (e->fused)
            pb_put_bool(head, 7, true);
        if (e->thread.size)
            pb_put_bytes(head, 8, e->thread.data, e->thread.size);
        size_t n = head->length;
        pb_put_tag(head, 3, PB_BYTES); // what comes first, behind what it tells the length of
        pb_put_varint(head, n + e->size);
        memcpy(to, head->text + n, head->length - n);
        to += head->length - n;
        memcpy(to, head->text, n);
        to += n;
        memcpy(to, from->text + e->at, e->size);
        to += e->size;
    }
    p->parsed->message = (struct slice){message, (size_t)(to - message)};
    return true;
}

static bool parse_module(struct hlo_parsing *s)
{
    struct hlo_parser *p = &s->p;
    if (!parse_head(s) || !parse_tables(p))
        return false;
    // A message is rarely longer than its text; what is not written to takes no memory.
    size_t size = (size_t)(p->end - p->begin);
    char *bodies = str_grow(&s->bodies, size);
    if (bodies)
        want_huge_pages(bodies, size);
    p->out = &s->bodies;
    while (hlo_peek(p) || p->at < p->end) {
        if (!parse_computation(s))
            return false;
    }
    if (!s->n_ended)
        return hlo_fail(p, "it has no computation");
    return assemble(s);
}

// ---- The outside

static int report(struct hlo_parsing *s)
{
    struct hlo_parser *p = &s->p;
    if (p->rc)
        return p->rc;
    char where[320];
    snprintf(where, sizeof where, "%.290s, line %zu", p->name, hlo_line_of(p, p->where ? p->where : p->at));
    if (p->instruction.size)
        return error_set(p->err, ERR_INPUT, where, "instruction '%.*s': %s", SHOWN(p->instruction), p->what);
    return error_set(p->err, ERR_INPUT, where, "%s", p->what);
}

int hlo_parse(struct hlo_parsed *out, const void *text, size_t size, const char *name, bool lenient,
              struct arena *arena, struct error *err)
{
    const uint8_t *begin = text;
    struct hlo_parsing s = {.p = {.begin = begin,
                                  .at = begin,
                                  .end = begin + size,
                                  .lenient = lenient,
                                  .arena = arena,
                                  .err = err,
                                  .parsed = out,
                                  .name = name,
                                  .counted = begin,
                                  .line = 1},
                            .next_id = 1,
                            .next_wrapped_id = 1 << 30};
    struct hlo_parser *p = &s.p;
    *out = (struct hlo_parsed){.n_replicas = 1, .n_devices = 1, .message = {begin, size}};
    if (size >= UINT32_MAX)
        return error_set(err, ERR_INPUT, name, "is longer than 4 GiB");
    p->instructions.secret = p->computations.secret = process_secret();
    s.head.max_bytes = s.bodies.max_bytes = s.wrapped.max_bytes = (size_t)1 << 34;
    bool ok = parse_module(&s);
    int rc = ok ? 0 : report(&s);
    str_release(&s.head);
    str_release(&s.bodies);
    str_release(&s.wrapped);
    hlo_names_release(&p->instructions);
    hlo_names_release(&p->computations);
    free(p->values);
    if (rc)
        out->message = (struct slice){NULL, 0};
    return rc;
}

bool hlo_is_text(const void *bytes, size_t size)
{
    struct hlo_parser p = {.begin = bytes, .at = bytes, .end = (const uint8_t *)bytes + size};
    return slice_is(hlo_word(&p), "HloModule");
}

int hlo_read_any(struct hlo_module *m, const void *bytes, size_t size, const char *name, bool lenient,
                 struct hlo_parsed *parsed, struct arena *arena, struct error *err)
{
    struct hlo_parsed own = {0};
    struct hlo_parsed *r = parsed ? parsed : &own;
    if (hlo_is_text(bytes, size)) {
        int rc = hlo_parse(r, bytes, size, name, lenient, arena, err);
        return rc ? rc : hlo_read(m, r->message.data, r->message.size, name, arena, err);
    }
    *r = (struct hlo_parsed){.message = {bytes, size}, .n_replicas = 1, .n_devices = 1};
    return hlo_read(m, bytes, size, name, arena, err);
}
