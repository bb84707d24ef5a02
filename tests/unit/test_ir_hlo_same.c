// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo_same.h"

#include "base/file.h"
#include "base/pbwire.h"
#include "test.h"

static bool is_same(const struct str *a, const struct str *b, bool *readable)
{
    struct hlo_module m, n;
    struct arena arena;
    arena_init(&arena);
    bool first = hlo_read(&m, str_text(a), a->length, "a", &arena, NULL) == 0;
    *readable = hlo_read(&n, str_text(b), b->length, "b", &arena, NULL) == 0;
    bool same = first && *readable && hlo_same(&m, &n);
    arena_release(&arena);
    return same;
}

// Whatever is said of an instruction, of its computation or of the order counts: every byte of a program changed.
TEST(ir_hlo_same_is_no_other)
{
    char path[1024];
    struct str a, b;
    struct hlo_module m;
    struct arena arena;
    struct error e = {0};
    bool readable;
    snprintf(path, sizeof path, "%s/tests/fixtures/ir/programs/mlp.after_optimizations.hlo.pb", test_top());
    arena_init(&arena);
    str_init(&a);
    str_init(&b);
    REQUIRE_OK(file_read(&a, path, 1 << 20, &e), &e);
    str_add_n(&b, a.text, a.length);
    CHECK(is_same(&a, &b, &readable));
    REQUIRE_OK(hlo_read(&m, a.text, a.length, path, &arena, &e), &e);
    size_t tried = 0;
    for (size_t i = 0; i < m.n_computations; i++) {
        for (size_t k = 0; k < m.computations[i].n_instructions; k++) {
            const struct slice message = m.computations[i].instructions[k].message;
            size_t at = (size_t)(message.data - (const uint8_t *)a.text);
            for (size_t j = at; j < at + message.size; j++) {
                b.text[j] ^= 1;
                CHECK(!is_same(&a, &b, &readable));
                tried += readable;
                b.text[j] ^= 1;
            }
        }
    }
    CHECK(tried > 100);
    CHECK(is_same(&a, &b, &readable));
    str_release(&a);
    str_release(&b);
    arena_release(&arena);
}

enum { SHUFFLED = 1, OTHER = 2, TWICE = 4, NUMBERED = 8, SWAPPED = 16 };

static void put_pair(struct str *s, const char *key, const char *value)
{
    size_t pair = pb_begin(s, 1);
    pb_put_string(s, 1, key);
    pb_put_string(s, 2, value);
    pb_end(s, pair);
}

// A module of two parameters with two attributes each.
static void put_module(struct str *s, int how)
{
    static const char *const names[] = {"a", "b"};
    pb_put_string(s, 1, "m");
    size_t computation = pb_begin(s, 3);
    pb_put_string(s, 1, "main");
    for (int i = 0; i < 2; i++) {
        size_t in = pb_begin(s, 2);
        pb_put_string(s, 1, names[i]);
        pb_put_string(s, 2, "parameter");
        pb_put_int(s, 35, 10 + i);
        size_t attributes = pb_begin(s, 68);
        if (how & SHUFFLED)
            put_pair(s, "y", "2");
        put_pair(s, "x", "1");
        if (how & TWICE)
            put_pair(s, "x", "1");
        else if (!(how & SHUFFLED))
            put_pair(s, "y", how & OTHER ? "3" : "2");
        pb_end(s, attributes);
        pb_end(s, in);
    }
    pb_put_int(s, 5, 1);
    pb_put_int(s, 6, 10);
    pb_end(s, computation);
    if (how & NUMBERED)
        pb_put_int(s, 5, 77); // the module's own
    pb_put_int(s, 6, 1);
    size_t schedule = pb_begin(s, 7), entry = pb_begin(s, 1);
    pb_put_int(s, 1, 1);
    size_t sequence = pb_begin(s, 2);
    pb_put_int(s, 1, how & SWAPPED ? 11 : 10);
    pb_put_int(s, 1, how & SWAPPED ? 10 : 11);
    pb_end(s, sequence);
    pb_end(s, entry);
    pb_end(s, schedule);
}

TEST(ir_hlo_same_in_another_order)
{
    static const struct {
        int how;
        bool same;
    } cases[] = {{0, true}, {SHUFFLED, true}, {NUMBERED, true}, {OTHER, false}, {TWICE, false}, {SWAPPED, false}};
    struct str a, b;
    bool readable;
    str_init(&a);
    str_init(&b);
    put_module(&a, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str_clear(&b);
        put_module(&b, cases[i].how);
        CHECK_INT(is_same(&a, &b, &readable), cases[i].same);
        CHECK(readable);
    }
    str_release(&a);
    str_release(&b);
}
