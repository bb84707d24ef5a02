// SPDX-License-Identifier: Apache-2.0
#include "ir/hlo.h"

#include "base/idmap.h"
#include "base/str.h"
#include "test.h"
#include "trace/session.h"

// The module of one program in a recorded profile; the last of that name.
static bool from_profile(struct trace *t, struct hlo_module *m, struct arena *arena, const char *file, const char *name)
{
    char path[1024];
    const char *paths[] = {path};
    struct error e = {0};
    bool found = false;
    snprintf(path, sizeof path, "%s/tests/fixtures/traces/%s", test_top(), file);
    if (trace_open(t, paths, 1, &e))
        return false;
    const struct xplane *p = xspace_plane(&t->files[0].space, "/host:metadata");
    for (size_t i = 0; p && i < p->event_table.n_rows; i++) {
        struct xstats stats = xmeta_stats(p, &p->event_table.rows[i]);
        struct xstat s;
        while (xstat_next(&stats, &s)) {
            struct hlo_module one;
            if (s.kind != XSTAT_BYTES || hlo_read(&one, s.bytes.data, s.bytes.size, "a", arena, NULL))
                continue;
            if (slice_is(one.name, name)) {
                *m = one;
                found = true;
            }
        }
    }
    return found;
}

static const struct hlo_instruction *find(const struct hlo_computation *c, const char *name)
{
    for (size_t i = 0; i < c->n_instructions; i++) {
        if (slice_is(c->instructions[i].name, name))
            return &c->instructions[i];
    }
    return NULL;
}

TEST(ir_hlo_reads_what_xla_wrote)
{
    struct trace t;
    struct arena arena;
    struct hlo_module m;
    arena_init(&arena);
    REQUIRE(from_profile(&t, &m, &arena, "gpu-mi300x-jax-conv.xplane.pb.gz", "jit_forward_3d_conv"));
    CHECK_INT(m.id, 15);
    CHECK_INT(m.n_computations, 4);
    CHECK(slice_is(m.entry->name, "main.0_spmd") && m.buffer_assignment.size == 509);
    const struct hlo_instruction *conv = find(m.entry, "cudnn-conv.1");
    REQUIRE(conv);
    CHECK(hlo_is(conv, "custom-call") && conv->shape.kind == HLO_TUPLE && conv->shape.n_elements == 2);
    CHECK(conv->n_operands == 2 && conv->operands[0] < conv);
    const struct hlo_instruction *fusion = find(m.entry, "input_transpose_fusion");
    REQUIRE(fusion && fusion->n_called == 1);
    CHECK(fusion->called[0]->is_fusion && fusion->called[0] < m.entry);
    CHECK(hlo_shape_bytes(&fusion->shape) == hlo_shape_elements(&fusion->shape) * dtype_bits(fusion->shape.dtype) / 8);
    REQUIRE(m.n_frames == 3);
    CHECK(slice_is(m.frames[0].file, "/workspace/traces/generate_conv_trace.py") && m.frames[0].line > 0);
    trace_close(&t);
    REQUIRE(from_profile(&t, &m, &arena, "cpu-small.xplane.pb", "reactant_linear"));
    const struct hlo_instruction *dot = find(m.entry, "dot.4");
    REQUIRE(dot);
    CHECK(dot->shape.rank == 2 && hlo_shape_elements(&dot->shape) == 20 && hlo_shape_bytes(&dot->shape) == 80);
    const struct hlo_instruction *add = find(m.entry, "broadcast_add_fusion");
    REQUIRE(add && m.entry->root == add);
    CHECK_INT(add->metadata.source_line, 376);
    trace_close(&t);
    arena_release(&arena);
}

struct made {
    struct str s;
    size_t module, computation;
};

static void begin(struct made *m)
{
    str_init(&m->s);
    pb_put_string(&m->s, 1, "m");
    pb_put_string(&m->s, 2, "main");
    m->computation = pb_begin(&m->s, 3);
    pb_put_string(&m->s, 1, "main");
    pb_put_int(&m->s, 5, 7);
}

static void instruction(struct made *m, const char *name, const char *opcode, int64_t id, int64_t operand,
                        int64_t called)
{
    size_t at = pb_begin(&m->s, 2);
    pb_put_string(&m->s, 1, name);
    pb_put_string(&m->s, 2, opcode);
    size_t shape = pb_begin(&m->s, 3);
    pb_put_int(&m->s, 2, 21); // s4
    pb_put_bytes(&m->s, 3, "\x03\x05", 2);
    pb_end(&m->s, shape);
    pb_put_int(&m->s, 35, id);
    if (operand)
        pb_put_int(&m->s, 36, operand); // not packed, as older writers did
    if (called)
        pb_put_int(&m->s, 38, called);
    pb_end(&m->s, at);
}

enum { ALONE, IN_HLO_PROTO, WITH_CONFIG };

static const char *finish(struct made *m, int wrapper, int64_t root)
{
    static struct error e;
    struct arena arena;
    struct hlo_module module;
    struct str wrapped;
    e = (struct error){0};
    arena_init(&arena);
    pb_put_int(&m->s, 6, root);
    pb_end(&m->s, m->computation);
    str_init(&wrapped);
    if (wrapper != ALONE)
        pb_put_bytes(&wrapped, 1, str_text(&m->s), m->s.length);
    if (wrapper == IN_HLO_PROTO)
        pb_put_string(&wrapped, 3, ""); // a buffer assignment
    else if (wrapper == WITH_CONFIG)
        pb_put_string(&wrapped, 2, "config");
    const struct str *bytes = wrapper != ALONE ? &wrapped : &m->s;
    int rc = hlo_read(&module, str_text(bytes), bytes->length, "a.hlo.pb", &arena, &e);
    if (!rc) {
        const struct hlo_instruction *in = module.entry->root;
        CHECK(in->shape.dtype == DT_S4 && in->shape.rank == 2);
        CHECK(hlo_shape_elements(&in->shape) == 15 && hlo_shape_bytes(&in->shape) == 8);
    }
    str_release(&wrapped);
    str_release(&m->s);
    arena_release(&arena);
    return rc ? e.message : "";
}

TEST(ir_hlo_refuses_what_is_no_module)
{
    struct made m;
    for (int wrapper = ALONE; wrapper <= WITH_CONFIG; wrapper++) {
        begin(&m);
        instruction(&m, "x", "parameter", 1ll << 32 | 1, 0, 0);
        instruction(&m, "y", "negate", 1ll << 32 | 2, 1ll << 32 | 1, 0);
        CHECK_STR(finish(&m, wrapper, 1ll << 32 | 2), "");
    }
#define BEFORE "is no HLO module that can be read: computation 'main'"
    begin(&m);
    instruction(&m, "x", "negate", 1, 1, 0);
    CHECK_STR(finish(&m, ALONE, 1), BEFORE ", instruction 'x': an operand is not there, or comes later");
    begin(&m);
    instruction(&m, "x", "call", 1, 0, 7);
    CHECK_STR(finish(&m, ALONE, 1),
              BEFORE ", instruction 'x': a computation that it calls is not there, or comes later");
    begin(&m);
    instruction(&m, "x", "parameter", 1, 0, 0);
    instruction(&m, "y", "parameter", 1, 0, 0);
    CHECK_STR(finish(&m, ALONE, 1), BEFORE ", instruction 'y': its id is that of another instruction");
    begin(&m);
    instruction(&m, "x", "parameter", 1, 0, 0);
    CHECK_STR(finish(&m, ALONE, 2), BEFORE ": its root is not there");
    begin(&m);
    CHECK_STR(finish(&m, ALONE, 2), BEFORE ": it has no instruction");
    struct hlo_module module;
    struct arena arena;
    struct error e = {0};
    arena_init(&arena);
    CHECK_INT(hlo_read(&module, "", 0, "a", &arena, &e), ERR_INPUT);
    arena_release(&arena);
}

TEST(ir_hlo_sizes_saturate)
{
    int64_t dims[] = {INT64_MAX, 4};
    struct hlo_shape s = {.kind = HLO_ARRAY, .dtype = DT_F32, .rank = 2, .dims = dims};
    CHECK_INT(hlo_shape_elements(&s), INT64_MAX);
    CHECK_INT(hlo_shape_bytes(&s), INT64_MAX);
    dims[1] = 0;
    CHECK(hlo_shape_elements(&s) == 0 && hlo_shape_bytes(&s) == 0);
    struct hlo_shape token = {.kind = HLO_TOKEN};
    CHECK(hlo_shape_elements(&token) == 0 && hlo_shape_bytes(&token) == 0);
}

TEST(base_idmap)
{
    struct idmap m;
    struct error e = {0};
    uint32_t v;
    bool again;
    idmap_init(&m);
    CHECK(!idmap_get(&m, 0, &v));
    for (uint32_t i = 0; i < 5000; i++) {
        REQUIRE(idmap_put(&m, (int64_t)i << 40, i, &again, &e) == 0);
        CHECK(!again);
    }
    REQUIRE(idmap_put(&m, 3ll << 40, 9, &again, &e) == 0);
    CHECK(again);
    for (uint32_t i = 0; i < 5000; i++)
        CHECK(idmap_get(&m, (int64_t)i << 40, &v) && v == i);
    CHECK(!idmap_get(&m, -1, &v) && !idmap_get(&m, INT64_MIN, &v));
    idmap_release(&m);
}
