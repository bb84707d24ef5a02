// SPDX-License-Identifier: Apache-2.0
// HLO text against the message of the same program: dumps of XLA (tests/oracle/hlo_programs.py), the modules of
// tests/oracle/hlo_cost.py, and texts of earlier years.
#include "ir/hlo_parse.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "hlo_case.h"
#include "ir/hlo_cost.h"
#include "ir/hlo_text.h"
#include "test.h"

static void read_program(struct str *bytes, const char *file)
{
    char path[400];
    struct error e = {0};
    str_init(bytes);
    snprintf(path, sizeof path, "%s/tests/fixtures/ir/programs/%s", test_top(), file);
    REQUIRE_OK(file_read(bytes, path, 1 << 24, &e), &e);
}

static const struct hlo_computation *find_computation(const struct hlo_module *m, struct slice name)
{
    for (size_t i = 0; i < m->n_computations; i++) {
        if (slice_equal(m->computations[i].name, name))
            return &m->computations[i];
    }
    return NULL;
}

static const struct hlo_instruction *find_instruction(const struct hlo_computation *c, struct slice name)
{
    for (size_t i = 0; i < c->n_instructions; i++) {
        if (slice_equal(c->instructions[i].name, name))
            return &c->instructions[i];
    }
    return NULL;
}

// The values of a constant, its shape aside.
static bool same_values(struct slice a, struct slice b)
{
    struct pb_field f = {0}, g = {0};
    struct pb_reader r = pb_reader(a.data, a.size), s = pb_reader(b.data, b.size);
    bool more, other;
    do {
        while ((more = pb_next(&r, &f)) && f.number == 1)
            ;
        while ((other = pb_next(&s, &g)) && g.number == 1)
            ;
        if (more && other &&
            (f.number != g.number || f.wire != PB_BYTES || g.wire != PB_BYTES || !slice_equal(f.body, g.body)))
            return false;
    } while (more && other);
    return more == other;
}

static void same_instruction(const struct hlo_module *m, const struct hlo_computation *c,
                             const struct hlo_instruction *a, const struct hlo_module *n,
                             const struct hlo_computation *d, const struct hlo_instruction *b, bool values,
                             struct arena *arena)
{
    struct str mine, theirs;
    struct hlo_attributes x, y;
    struct error e = {0};
    str_init(&mine);
    str_init(&theirs);
    REQUIRE_OK(hlo_text_instruction(&theirs, m, c, a, &e), &e);
    REQUIRE_OK(hlo_text_instruction(&mine, n, d, b, &e), &e);
    CHECK_STR(str_text(&mine), str_text(&theirs));
    REQUIRE_OK(hlo_attributes_read(&x, m, a, arena, &e), &e);
    REQUIRE_OK(hlo_attributes_read(&y, n, b, arena, &e), &e);
    CHECK_INT(y.control.n, x.control.n);
    CHECK_INT(y.n_layouts, x.n_layouts);
    CHECK_INT(y.n_aliases, x.n_aliases);
    CHECK(slice_equal(y.async_thread, x.async_thread));
    CHECK_INT(b->n_called, a->n_called);
    for (size_t i = 0; i < a->n_called && i < b->n_called; i++)
        CHECK(slice_equal(a->called[i]->name, b->called[i]->name));
    CHECK_INT(b->parameter, a->parameter);
    if (values)
        CHECK(same_values(x.literal, y.literal));
    str_release(&mine);
    str_release(&theirs);
}

static void same_cost(const struct hlo_module *a, const struct hlo_module *b, struct arena *arena)
{
    struct hlo_costs x, y;
    struct error e = {0};
    REQUIRE_OK(hlo_costs_init(&x, a, arena, &e), &e);
    REQUIRE_OK(hlo_costs_init(&y, b, arena, &e), &e);
    const struct hlo_cost *c = hlo_cost_module(&x), *d = hlo_cost_module(&y);
    CHECK_NEAR(hlo_cost_product_flop(d), hlo_cost_product_flop(c), 0);
    CHECK_NEAR(d->element_flop, c->element_flop, 0);
    CHECK_NEAR(d->transcendentals, c->transcendentals, 0);
    CHECK_NEAR(d->bytes, c->bytes, 0);
    CHECK(!d->flop_reason == !c->flop_reason && !d->bytes_reason == !c->bytes_reason);
}

// `whole`: every computation of one is in the other.
static void same_module(const struct hlo_module *a, const struct hlo_module *b, bool values, struct arena *arena)
{
    CHECK_INT(b->n_computations, a->n_computations);
    CHECK(slice_equal(a->name, b->name));
    CHECK(slice_equal(a->entry->name, b->entry->name));
    CHECK_INT(b->n_frames, a->n_frames);
    for (size_t i = 0; i < a->n_frames && i < b->n_frames; i++) {
        const struct hlo_frame *f = &a->frames[i], *g = &b->frames[i];
        CHECK(slice_equal(f->file, g->file) && slice_equal(f->function, g->function) && f->line == g->line &&
              f->column == g->column && f->parent == g->parent);
    }
    for (size_t i = 0; i < a->n_computations; i++) {
        const struct hlo_computation *c = &a->computations[i], *d = find_computation(b, c->name);
        REQUIRE(d);
        CHECK_INT(d->n_instructions, c->n_instructions);
        CHECK_INT(d->is_fusion, c->is_fusion);
        CHECK(slice_equal(c->root->name, d->root->name));
        for (size_t k = 0; k < c->n_instructions; k++) {
            const struct hlo_instruction *in = find_instruction(d, c->instructions[k].name);
            REQUIRE(in);
            same_instruction(a, c, &c->instructions[k], b, d, in, values, arena);
        }
    }
    same_cost(a, b, arena);
}

static void compare_files(const char *message, const char *text, bool values)
{
    struct arena arena;
    struct str bytes, chars;
    struct hlo_module a, b;
    struct hlo_parsed parsed;
    struct error e = {0};
    arena_init(&arena);
    read_program(&bytes, message);
    read_program(&chars, text);
    REQUIRE_OK(hlo_read_any(&a, bytes.text, bytes.length, message, false, NULL, &arena, &e), &e);
    REQUIRE_OK(hlo_read_any(&b, chars.text, chars.length, text, false, &parsed, &arena, &e), &e);
    CHECK_INT(parsed.n_left_out, 0);
    CHECK_INT(parsed.n_devices, strstr(text, "sharded") ? 8 : 1);
    same_module(&a, &b, values, &arena);
    str_release(&bytes);
    str_release(&chars);
    arena_release(&arena);
}

TEST(ir_hlo_parse_dumps)
{
    static const char *const programs[] = {"mlp", "train", "odds", "encoder", "sharded"};
    static const char *const stages[] = {"before_optimizations", "after_optimizations"};
    for (size_t i = 0; i < 2 * sizeof programs / sizeof *programs; i++) {
        char message[80], text[80];
        snprintf(message, sizeof message, "%s.%s.hlo.pb", programs[i / 2], stages[i % 2]);
        snprintf(text, sizeof text, "%s.%s.txt", programs[i / 2], stages[i % 2]);
        compare_files(message, text, false);
    }
}

// With the shapes of operands and without '%', all constants written out.
TEST(ir_hlo_parse_old_form)
{
    compare_files("mlp.old.hlo.pb", "mlp.old.txt", true);
    compare_files("odds.old.hlo.pb", "odds.old.txt", true);
}

// ---- The modules of the cost fixture, in XLA's text

TEST(ir_hlo_parse_texts_of_xla)
{
    json_t *fixture = fixture_json("ir/hlo_cost.json");
    const char *name;
    json_t *row;
    size_t n = 0;
    json_object_foreach(json_object_get(fixture, "cases"), name, row)
    {
        struct arena arena;
        struct hlo_module a, b;
        struct str text;
        struct error e = {0};
        if (strcmp(name, "async") == 0) // the text leaves out the computation that the operation wraps
            continue;
        arena_init(&arena);
        str_init(&text);
        REQUIRE(hlo_case(row, &a, &arena, &e));
        str_addf(&text, "HloModule %.*s\n\n%s\n\n%s", (int)a.name.size, (const char *)a.name.data,
                 json_string_value(json_object_get(row, "frames")), json_string_value(json_object_get(row, "text")));
        REQUIRE_OK(hlo_read_any(&b, text.text, text.length, name, false, NULL, &arena, &e), &e);
        same_module(&a, &b, false, &arena);
        str_release(&text);
        arena_release(&arena);
        n++;
    }
    CHECK(n > 100);
    json_decref(fixture);
}

// What is printed reads back, prints the same and costs the same.
static void check_fixed_point(const struct hlo_module *m, struct arena *arena)
{
    struct hlo_module again;
    struct str first, second;
    struct error e = {0};
    str_init(&first);
    str_init(&second);
    REQUIRE_OK(hlo_text_module(&first, m, &e), &e);
    REQUIRE_OK(hlo_read_any(&again, first.text, first.length, "printed", false, NULL, arena, &e), &e);
    same_cost(m, &again, arena);
    REQUIRE_OK(hlo_text_module(&second, &again, &e), &e);
    CHECK_STR(str_text(&second), str_text(&first));
    str_release(&first);
    str_release(&second);
}

TEST(ir_hlo_parse_print_parse)
{
    static const char *const files[] = {"mlp.after_optimizations.hlo.pb", "train.before_optimizations.hlo.pb",
                                        "train.after_optimizations.hlo.pb", "odds.after_optimizations.hlo.pb",
                                        "sharded.after_optimizations.hlo.pb"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct arena arena;
        struct str bytes;
        struct hlo_module m;
        struct error e = {0};
        arena_init(&arena);
        read_program(&bytes, files[i]);
        REQUIRE_OK(hlo_read(&m, bytes.text, bytes.length, files[i], &arena, &e), &e);
        check_fixed_point(&m, &arena);
        str_release(&bytes);
        arena_release(&arena);
    }
}

// ---- Short texts

struct text {
    struct arena arena;
    struct hlo_module m;
    struct hlo_parsed parsed;
    struct error e;
    int rc;
};

static void parse(struct text *t, const char *text, bool lenient)
{
    memset(t, 0, sizeof *t);
    arena_init(&t->arena);
    t->rc = hlo_read_any(&t->m, text, strlen(text), "a.hlo.txt", lenient, &t->parsed, &t->arena, &t->e);
}

static void refuses(const char *text, const char *where, const char *what)
{
    struct text t;
    parse(&t, text, false);
    CHECK_INT(t.rc, ERR_INPUT);
    CHECK_STR(t.e.where, where);
    if (!strstr(t.e.message, what))
        CHECK_STR(t.e.message, what);
    arena_release(&t.arena);
}

#define ENTRY(body) "HloModule m\n\nENTRY e {\n  p = f32[4,4]{1,0} parameter(0)\n" body "\n}\n"

TEST(ir_hlo_parse_names_what_is_wrong)
{
    refuses("HloModul m", "a.hlo.txt", "is no HLO module"); // no text of a module: taken for a message
    refuses("HloModule", "a.hlo.txt, line 1", "expected a name");
    refuses("HloModule m\n", "a.hlo.txt, line 2", "no computation");
    refuses(ENTRY("  ROOT r = f32[4,4] frobnicate(p)"), "a.hlo.txt, line 5",
            "instruction 'r': opcode 'frobnicate' is not known");
    refuses(ENTRY("  ROOT r = f32[4,4] negate(q)"), "a.hlo.txt, line 5", "operand 'q' is not there, or comes later");
    refuses(ENTRY("  ROOT r = f33[4,4] negate(p)"), "a.hlo.txt, line 5", "'f33' is no element type");
    refuses(ENTRY("  ROOT r = f32[4,?] negate(p)"), "a.hlo.txt, line 5", "a dimension without a bound");
    refuses(ENTRY("  ROOT r = f32[-1] negate(p)"), "a.hlo.txt, line 5", "a dimension is negative");
    refuses(ENTRY("  ROOT r = f32[99999999999999999999] negate(p)"), "a.hlo.txt, line 5", "does not fit in 64 bits");
    refuses(ENTRY("  ROOT r = f32[4,4] negate(p), nonesuch={1,2}"), "a.hlo.txt, line 5",
            "attribute 'nonesuch' is not known");
    refuses(ENTRY("  ROOT r = f32[4,4] negate(p), dimensions={1,x}"), "a.hlo.txt, line 5",
            "attribute 'dimensions': expected a number");
    refuses(ENTRY("  p = f32[4,4] negate(p)"), "a.hlo.txt, line 5", "another instruction of that name");
    refuses(ENTRY("  p = f32[4,4] frobnicate(p)"), "a.hlo.txt, line 5", "another instruction of that name");
    refuses(ENTRY("  ROOT a = f32[4,4] negate(p)\n  ROOT b = f32[4,4] negate(p)"), "a.hlo.txt, line 7", "two roots");
    refuses(ENTRY("  ROOT r = f32[4,4] call(p), to_apply=f"), "a.hlo.txt, line 5",
            "computation 'f' is not in the module");
    refuses(ENTRY("  ROOT r = f32[4,4] call(p), to_apply=e"), "a.hlo.txt, line 3", "computation 'e' calls itself");
    refuses(ENTRY("  ROOT r = f32[2] constant({1, 2, 3})"), "a.hlo.txt, line 5", "more elements than");
    refuses(ENTRY("  ROOT r = f32[3] constant({1, 2})"), "a.hlo.txt, line 5",
            "2 elements, but the constant's shape has 3");
    refuses(ENTRY("  ROOT r = s8[] constant(128)"), "a.hlo.txt, line 5", "does not fit in s8");
    refuses(ENTRY("  ROOT r = f32[2]{1} constant({1, 2})"), "a.hlo.txt, line 5", "a layout that does not fit");
    refuses("HloModule m\nENTRY e {\n  p = f32[] parameter(0)\n", "a.hlo.txt, line 4", "does not end");
    refuses("HloModule m\nENTRY e {\n}\n", "a.hlo.txt, line 3", "has no instruction");
    refuses("HloModule m\ne {\n p = f32[] parameter(0) }\ne {\n p = f32[] parameter(0) }\n", "a.hlo.txt, line 4",
            "is there twice");
    refuses("HloModule m\nf { ROOT p = f32[] parameter(0), metadata={op_name=\"x }\n", "a.hlo.txt, line 2",
            "does not end");
}

TEST(ir_hlo_parse_refuses_recursion)
{
    struct str text;
    str_init(&text);
    refuses("HloModule m\na {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=b }\nb {\n p = f32[] "
            "parameter(0)\n ROOT r = f32[] call(p), to_apply=a }\n",
            "a.hlo.txt, line 2", "computation 'a' calls itself, by way of 'b'");
    // Nesting has an end, however deep the text goes.
    str_add(&text, "HloModule m\nENTRY e {\n p = ");
    for (int i = 0; i < 100000; i++)
        str_add_char(&text, '(');
    refuses(text.text, "a.hlo.txt, line 3", "nested too deep");
    str_clear(&text);
    str_add(&text, "HloModule m\nENTRY e {\n p = f32[] parameter(0), sharding=");
    for (int i = 0; i < 100000; i++)
        str_add_char(&text, '{');
    refuses(text.text, "a.hlo.txt, line 3", "nested too deep");
    str_release(&text);
}

// Computations may come in any order, and a chain of them may be long.
TEST(ir_hlo_parse_orders_computations)
{
    struct text t;
    struct str text;
    const int n = 20000;
    str_init(&text);
    str_add(&text, "HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n ROOT r = f32[2] call(p), to_apply=c0\n}\n");
    for (int i = 0; i < n; i++)
        str_addf(&text,
                 "c%d {\n p = f32[2] parameter(0)\n a = f32[2] add(p, p)\n ROOT r = f32[2] call(a), to_apply=c%d\n}\n",
                 i, i + 1);
    str_addf(&text, "c%d {\n p = f32[2] parameter(0)\n ROOT r = f32[2] add(p, p)\n}\n", n);
    parse(&t, text.text, false);
    REQUIRE_OK(t.rc, &t.e);
    CHECK(slice_is(t.m.entry->name, "e"));
    struct hlo_costs costs;
    REQUIRE_OK(hlo_costs_init(&costs, &t.m, &t.arena, &t.e), &t.e);
    CHECK_NEAR(hlo_cost_flop(hlo_cost_module(&costs)), 2.0 * (n + 1), 0);
    arena_release(&t.arena);
    str_release(&text);
}

// Told to go on, the parser keeps what it understands and says what it does not.
TEST(ir_hlo_parse_goes_on)
{
    struct text t;
    struct hlo_costs costs;
    parse(&t,
          ENTRY("  a = f32[4,4] frobnicate(p), strength=11\n"
                "  b = f32[4,4] add(a, p), nonesuch={x, \"}\"}, metadata={op_name=\"kept\"}\n"
                "  ROOT c = f32[4,4] call(b), to_apply=missing"),
          true);
    REQUIRE_OK(t.rc, &t.e);
    CHECK_INT(t.parsed.n_left_out, 3);
    REQUIRE(t.parsed.n_notes == 3);
    CHECK_INT(t.parsed.notes[0].line, 5);
    CHECK_STR(t.parsed.notes[0].what, "instruction 'a': opcode 'frobnicate' is not known");
    CHECK_INT(t.parsed.notes[1].line, 6);
    CHECK_STR(t.parsed.notes[1].what, "instruction 'b': attribute 'nonesuch' is not known");
    CHECK_STR(t.parsed.notes[2].what, "computation 'missing' is not in the module");
    const struct hlo_computation *e = t.m.entry;
    REQUIRE(e->n_instructions == 4);
    CHECK(hlo_is(&e->instructions[1], "not-understood") && e->instructions[1].shape.rank == 2);
    CHECK(slice_is(e->instructions[2].metadata.op_name, "kept") && e->instructions[2].n_operands == 2);
    // What is not understood has no known cost, and the rest is a lower bound.
    REQUIRE_OK(hlo_costs_init(&costs, &t.m, &t.arena, &t.e), &t.e);
    CHECK(hlo_cost_module(&costs)->flop_reason != NULL);
    CHECK_NEAR(hlo_cost_module(&costs)->element_flop, 16, 0);
    arena_release(&t.arena);
}

// What is wrong in the metadata costs the metadata alone.
TEST(ir_hlo_parse_leaves_out_metadata)
{
    struct text t;
    parse(&t, ENTRY("  ROOT a = f32[4,4] negate(p), metadata={op_name=\"x\" source_line=y}, backend_config={\"k\":1}"),
          true);
    REQUIRE_OK(t.rc, &t.e);
    CHECK_INT(t.parsed.n_left_out, 1);
    const struct hlo_instruction *a = t.m.entry->root;
    CHECK(hlo_is(a, "negate") && a->n_operands == 1 && !a->metadata.op_name.size);
    arena_release(&t.arena);
}

// Names of every length that differ in one byte, wherever that is; asked for at once and when much has come since.
TEST(ir_hlo_parse_tells_names_apart)
{
    enum { LONGEST = 70, ROUNDS = 4 };
    struct str text;
    struct text t;
    size_t n = 1;
    str_init(&text);
    str_add(&text, "HloModule m\nENTRY e {\n %p = f32[2] parameter(0)\n");
    for (int round = 0; round < ROUNDS; round++) {
        for (int length = 1; length <= LONGEST; length++) {
            for (int at = 0; at < length; at++) {
                char name[LONGEST + 1], shape[16];
                memset(name, 'a', (size_t)length);
                name[at] = 'b';
                name[length] = '\0';
                snprintf(shape, sizeof shape, "f32[%zu]", n);
                if (round == 0)
                    str_addf(&text, " %%%s = %s iota(), iota_dimension=0\n", name, shape);
                else
                    str_addf(&text, " %%n%d.%zu = f32[2] negate(%%%s)\n", round, n, name);
                n++;
            }
        }
    }
    str_add(&text, "}\n");
    parse(&t, text.text, false);
    REQUIRE_OK(t.rc, &t.e);
    const struct hlo_instruction *in = t.m.entry->instructions;
    size_t each = (n - 1) / ROUNDS;
    REQUIRE(t.m.entry->n_instructions == n);
    for (size_t i = each + 1; i < n; i++)
        CHECK(in[i].n_operands == 1 && in[i].operands[0] == &in[(i - 1) % each + 1]);
    arena_release(&t.arena);
    str_release(&text);
}

// Loops whose bodies run more often than any number can count end at the largest number.
TEST(ir_hlo_parse_absurd_numbers)
{
    struct text t;
    struct hlo_costs costs;
    parse(&t,
          "HloModule m\n"
          "body {\n p = f32[9223372036854775807,9223372036854775807] parameter(0)\n"
          " ROOT r = f32[9223372036854775807,9223372036854775807] add(p, p) }\n"
          "cond {\n p = f32[9223372036854775807,9223372036854775807] parameter(0)\n ROOT r = pred[] constant(true) }\n"
          "ENTRY e {\n p = f32[9223372036854775807,9223372036854775807] parameter(0)\n"
          " ROOT r = f32[9223372036854775807,9223372036854775807] while(p), condition=cond, body=body, "
          "backend_config={\"known_trip_count\":{\"n\":\"9223372036854775807\"}} }\n",
          false);
    REQUIRE_OK(t.rc, &t.e);
    REQUIRE_OK(hlo_costs_init(&costs, &t.m, &t.arena, &t.e), &t.e);
    const struct hlo_cost *c = hlo_cost_module(&costs);
    CHECK(isfinite(c->bytes) && c->bytes > 1e30 && isfinite(c->element_flop) && c->element_flop > 1e30);
    arena_release(&t.arena);
}

// The short form of an asynchronous operation has the cost of what it wraps, once, at its start.
TEST(ir_hlo_parse_short_asynchronous_forms)
{
    struct text t;
    struct hlo_costs costs;
    parse(&t,
          ENTRY("  s = ((f32[4,4]), f32[2,4], s32[]) slice-start(p), slice={[0:2], [0:4]}\n"
                "  ROOT d = f32[2,4] slice-done(s)"),
          false);
    REQUIRE_OK(t.rc, &t.e);
    CHECK_INT(t.m.n_computations, 2);
    const struct hlo_instruction *s = &t.m.entry->instructions[1];
    CHECK(hlo_is(s, "async-start") && s->n_called == 1 && hlo_is(s->called[0]->root, "slice"));
    CHECK(hlo_is(t.m.entry->root, "async-done"));
    REQUIRE_OK(hlo_costs_init(&costs, &t.m, &t.arena, &t.e), &t.e);
    CHECK_NEAR(hlo_cost_module(&costs)->bytes, 2 * 2 * 4 * 4, 0);
    arena_release(&t.arena);
    // Without a ROOT the last instruction is the root, and what is wrapped does not disturb the schedule.
    parse(&t,
          "HloModule m, is_scheduled=true\nENTRY e {\n  p = f32[4,4] parameter(0)\n"
          "  s = ((f32[4,4]), f32[2,4], s32[]) slice-start(p), slice={[0:2], [0:4]}\n  n = f32[4,4] negate(p)\n"
          "  d = f32[2,4] slice-done(s)\n}\n",
          false);
    REQUIRE_OK(t.rc, &t.e);
    CHECK(slice_is(t.m.entry->root->name, "d"));
    REQUIRE(t.m.is_scheduled && t.m.entry->schedule);
    CHECK(slice_is(t.m.entry->schedule[2]->name, "n"));
    arena_release(&t.arena);
}
