// SPDX-License-Identifier: Apache-2.0
// Programs in which what narrow weights cost is known by construction.
#include "lab/narrow.h"

#include "ir/builder.h"
#include "ir/hlo_parse.h"
#include "ir/policy.h"
#include "lab/subject.h"
#include "pjrt_test.h"
#include "test.h"

static struct arena arena;

// Argument 1 and those behind it are weights.
static bool read_text(struct narrow *n, const char *text, enum dtype quantised)
{
    static const bool weights[] = {false, true, true, true};
    struct hlo_parsed parsed;
    struct error e = {0};
    int rc = hlo_parse(&parsed, text, strlen(text), "a test", false, &arena, &e);
    if (!rc)
        rc = narrow_read(n, parsed.message.data, parsed.message.size, weights, 4, quantised, &arena, &e);
    if (rc)
        printf("  %s: %s\n", e.where, e.message);
    return rc == 0;
}

static void check_none(const struct narrow_work *w)
{
    CHECK_INT(w->count, 0);
    CHECK_INT(w->n_largest, 0);
    CHECK(w->elements == 0 && w->written_bytes == 0 && w->type == DT_INVALID);
}

TEST(lab_narrow_weights_widened_in_memory)
{
    struct narrow n;
    arena_init(&arena);
    REQUIRE(read_text(&n,
                      "HloModule m\n\n"
                      "wider (p: s8[64,32]) -> bf16[64,32] {\n  p = s8[64,32] parameter(0)\n"
                      "  ROOT c = bf16[64,32] convert(p)\n}\n\n"
                      "ENTRY e (x: bf16[4,64], w: s8[64,32], s: f32[32]) -> f32[4,32] {\n"
                      "  x = bf16[4,64] parameter(0)\n  w = s8[64,32] parameter(1)\n  s = f32[32] parameter(2)\n"
                      "  wide = bf16[64,32] fusion(w), kind=kLoop, calls=wider, metadata={op_name=\"mlp.up\"}\n"
                      "  d = f32[4,32] dot(x, wide), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                      "  b = f32[4,32] broadcast(s), dimensions={1}\n"
                      "  ROOT r = f32[4,32] multiply(d, b)\n}\n",
                      DT_INVALID));
    CHECK_INT(n.widened.count, 1);
    CHECK(n.widened.elements == 64 * 32 && n.widened.element_flop == 64 * 32);
    CHECK(n.widened.read_bytes == 64 * 32 && n.widened.written_bytes == 2 * 64 * 32);
    CHECK(n.widened.type == DT_BF16);
    REQUIRE(n.widened.n_largest == 1);
    CHECK_STR(n.widened.largest[0].instruction, "wide");
    CHECK_STR(n.widened.largest[0].scope, "mlp.up");
    CHECK_STR(n.widened.largest[0].shape, "bf16[64,32]");
    CHECK(n.product_flop[DT_BF16] == 2 * 4 * 64 * 32);
    check_none(&n.inner);
    check_none(&n.copied);
    check_none(&n.quantised);
    check_none(&n.scales);
    arena_release(&arena);
}

// The same arithmetic, converted where it is used; and with nothing to convert.
TEST(lab_narrow_weights_widened_in_place_or_not_at_all)
{
    struct narrow n;
    arena_init(&arena);
    REQUIRE(read_text(&n,
                      "HloModule m\n\n"
                      "f (x: bf16[4,64], w: s8[64,32]) -> f32[4,32] {\n  x = bf16[4,64] parameter(0)\n"
                      "  w = s8[64,32] parameter(1)\n  c = bf16[64,32] convert(w)\n"
                      "  ROOT d = f32[4,32] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n\n"
                      "ENTRY e (x: bf16[4,64], w: s8[64,32]) -> f32[4,32] {\n"
                      "  x = bf16[4,64] parameter(0)\n  w = s8[64,32] parameter(1)\n"
                      "  ROOT d = f32[4,32] fusion(x, w), kind=kOutput, calls=f\n}\n",
                      DT_INVALID));
    check_none(&n.widened);
    CHECK_INT(n.inner.count, 1);
    CHECK(n.inner.elements == 64 * 32 && n.inner.written_bytes == 0);
    REQUIRE(read_text(&n,
                      "HloModule m\n\n"
                      "ENTRY e (x: bf16[4,64], w: bf16[64,32]) -> f32[4,32] {\n"
                      "  x = bf16[4,64] parameter(0)\n  w = bf16[64,32] parameter(1)\n"
                      "  wide = f32[4,64] convert(x)\n  narrow = bf16[4,64] convert(wide)\n"
                      "  t = bf16[64,32] copy(w)\n"
                      "  ROOT d = f32[4,32] dot(narrow, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
                      DT_INVALID));
    check_none(&n.widened);
    check_none(&n.inner);
    CHECK_INT(n.copied.count, 1);
    CHECK(n.copied.written_bytes == 2 * 64 * 32);
    arena_release(&arena);
}

// A row that is looked up is no whole weight, whatever becomes of it.
TEST(lab_narrow_leaves_rows_of_a_table_alone)
{
    struct narrow n;
    arena_init(&arena);
    REQUIRE(read_text(&n,
                      "HloModule m\n\n"
                      "ENTRY e (i: s32[1], w: s8[64,32]) -> f32[1,32] {\n"
                      "  i = s32[1] parameter(0)\n  w = s8[64,32] parameter(1)\n"
                      "  row = s8[1,32] slice(w), slice={[3:4], [0:32]}\n  a = f32[1,32] convert(row)\n"
                      "  zero = s32[] constant(0)\n  at = s32[] reshape(i)\n"
                      "  other = s8[1,32] dynamic-slice(w, at, zero), dynamic_slice_sizes={1,32}\n"
                      "  b = f32[1,32] convert(other)\n  ROOT r = f32[1,32] add(a, b)\n}\n",
                      DT_INVALID));
    check_none(&n.widened);
    check_none(&n.inner);
    arena_release(&arena);
}

// A loop that goes through a stack of three matrices: each run widens the one that it cuts out, and what was cut out by
// number is a matrix as well. The loop's other state is no weight, though a weight goes into it.
TEST(lab_narrow_looks_into_loops)
{
    static const char text[] =
        "HloModule m\n\n"
        "wider (w: s8[3,64,32], i: s32[]) -> bf16[64,32] {\n  w = s8[3,64,32] parameter(0)\n  i = s32[] parameter(1)\n"
        "  z = s32[] constant(0)\n  one = s8[1,64,32] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,64,32}\n"
        "  r = s8[64,32] bitcast(one)\n  ROOT c = bf16[64,32] convert(r)\n}\n\n"
        "body (s: (s32[], bf16[4,32], s8[3,64,32], s8[8,32])) -> (s32[], bf16[4,32], s8[3,64,32], s8[8,32]) {\n"
        "  s = (s32[], bf16[4,32], s8[3,64,32], s8[8,32]) parameter(0)\n"
        "  i = s32[] get-tuple-element(s), index=0\n  x = bf16[4,32] get-tuple-element(s), index=1\n"
        "  w = s8[3,64,32] get-tuple-element(s), index=2\n  t = s8[8,32] get-tuple-element(s), index=3\n"
        "  wide = bf16[64,32] fusion(w, i), kind=kLoop, calls=wider, metadata={op_name=\"layer\"}\n"
        "  u = bf16[8,32] convert(t)\n  v = bf16[8,64] dot(u, wide), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1}\n"
        "  y = bf16[4,64] slice(v), slice={[0:4], [0:64]}\n"
        "  q = bf16[4,32] dot(y, wide), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  other = s8[8,32] negate(t)\n  one = s32[] constant(1)\n  next = s32[] %s(i, one)\n"
        "  ROOT r = (s32[], bf16[4,32], s8[3,64,32], s8[8,32]) tuple(next, q, w, other)\n}\n\n"
        "go (s: (s32[], bf16[4,32], s8[3,64,32], s8[8,32])) -> pred[] {\n"
        "  s = (s32[], bf16[4,32], s8[3,64,32], s8[8,32]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  n = s32[] constant(3)\n  ROOT l = pred[] compare(i, n), direction=LT\n}\n\n"
        "ENTRY e (x: bf16[4,32], w: s8[3,64,32], t: s8[8,32]) -> bf16[64,32] {\n"
        "  x = bf16[4,32] parameter(0)\n  w = s8[3,64,32] parameter(1)\n  t = s8[8,32] parameter(2)\n"
        "  z = s32[] constant(0)\n  s = (s32[], bf16[4,32], s8[3,64,32], s8[8,32]) tuple(z, x, w, t)\n"
        "  loop = (s32[], bf16[4,32], s8[3,64,32], s8[8,32]) while(s), condition=go, body=body\n"
        "  again = s8[3,64,32] get-tuple-element(loop), index=2\n"
        "  last = s8[1,64,32] slice(again), slice={[2:3], [0:64], [0:32]}\n  flat = s8[64,32] bitcast(last)\n"
        "  ROOT out = bf16[64,32] convert(flat)\n}\n";
    char program[sizeof text + 16];
    struct narrow n;
    arena_init(&arena);
    snprintf(program, sizeof program, text, "add");
    REQUIRE(read_text(&n, program, DT_INVALID));
    CHECK_INT(n.widened.count, 3 + 1);
    CHECK(n.widened.elements == 4 * 64 * 32 && n.widened.written_bytes == 4 * 2 * 64 * 32);
    REQUIRE(n.widened.n_largest == 2);
    CHECK(n.widened.largest[0].bytes == 2 * 64 * 32 && n.widened.largest[0].runs == 3);
    CHECK_STR(n.widened.largest[0].instruction, "wide");
    CHECK_STR(n.widened.largest[1].instruction, "out");
    CHECK(n.widened.largest[1].runs == 1);
    check_none(&n.inner);
    CHECK(!n.loops_unknown);
    // Nobody knows how often it runs: what one run cuts out is not known to be all.
    snprintf(program, sizeof program, text, "multiply");
    REQUIRE(read_text(&n, program, DT_INVALID));
    CHECK(n.loops_unknown);
    CHECK_INT(n.widened.count, 1);
    CHECK_STR(n.widened.largest[0].instruction, "out");
    arena_release(&arena);
}

TEST(lab_narrow_activations_quantised)
{
    struct narrow n;
    arena_init(&arena);
    static const char text[] =
        "HloModule m\n\n"
        "most (a: f32[], b: f32[]) -> f32[] {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT m = f32[] maximum(a, b)\n}\n\n"
        "q (x: f32[4,64], s: f32[4]) -> s8[4,64] {\n  x = f32[4,64] parameter(0)\n  s = f32[4] parameter(1)\n"
        "  b = f32[4,64] broadcast(s), dimensions={0}\n  d = f32[4,64] divide(x, b)\n"
        "  ROOT c = s8[4,64] convert(d)\n}\n\n"
        "ENTRY e (x: f32[4,64], w: s8[64,32]) -> s32[4,32] {\n"
        "  x = f32[4,64] parameter(0)\n  w = s8[64,32] parameter(1)\n  low = f32[] constant(0)\n"
        "  a = f32[4,64] abs(x)\n  s = f32[4] reduce(a, low), dimensions={1}, to_apply=most\n"
        "  codes = s8[4,64] fusion(x, s), kind=kLoop, calls=q, metadata={op_name=\"mlp.up\"}\n"
        "  ROOT d = s32[4,32] dot(codes, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
    REQUIRE(read_text(&n, text, DT_S8));
    CHECK_INT(n.quantised.count, 1);
    CHECK(n.quantised.elements == 4 * 64 && n.quantised.type == DT_S8);
    CHECK(n.quantised.read_bytes == 4 * (4 * 64 + 4) && n.quantised.written_bytes == 4 * 64);
    CHECK(n.quantised.element_flop == 2 * 4 * 64); // divide and convert
    CHECK_STR(n.quantised.largest[0].instruction, "codes");
    CHECK_INT(n.scales.count, 1);
    CHECK(n.scales.elements == 4);
    check_none(&n.widened);
    REQUIRE(read_text(&n, text, DT_INVALID)); // a policy that quantises none
    check_none(&n.quantised);
    check_none(&n.scales);
    arena_release(&arena);
}

TEST(lab_narrow_refuses_what_is_no_module)
{
    struct narrow n;
    struct error e = {0};
    arena_init(&arena);
    CHECK_INT(narrow_read(&n, "\x0a\xff\xff", 3, NULL, 0, DT_INVALID, &arena, &e), ERR_INPUT);
    arena_release(&arena);
}

static int product(struct module *m, struct error *err)
{
    struct builder b;
    builder_init(&b, m);
    builder_scope(&b, "product", "product");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 96, 512), NULL);
    int w = build_weight(&b, "w", SHAPE(DT_F32, 256, 512));
    build_result(&b, "y", build_linear(&b, x, w, DT_F32));
    return builder_finish(&b, err);
}

// What the CPU compiler makes of a product of 96 x 512 x 256 under each policy. It is asked, not told: where it writes
// the wide weight down, it is all of it.
TEST(lab_narrow_plugin_product_under_policies)
{
    static const struct {
        const char *policy;
        bool widens, quantises;
    } cases[] = {{"f32", false, false},  {"bf16", false, false}, {"w8a16", true, false},
                 {"w4a16", true, false}, {"w8a8", false, true},  {"fp8", true, true}};
    struct worker_options worker = {.plugin_path = pjrt_test_plugin(false)};
    arena_init(&arena);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e = {0};
        struct module m;
        struct policy p;
        struct subject s;
        struct narrow n;
        bool weights[16] = {false};
        double rounds = 0;
        module_init(&m, &arena, "product");
        REQUIRE_OK(product(&m, &e), &e);
        REQUIRE_OK(policy_parse(&p, cases[i].policy, &e), &e);
        REQUIRE_OK(subject_open_module(&s, &m, &p, cases[i].policy, &worker, &e), &e);
        REQUIRE(s.module.n_parameters <= 16);
        for (int k = 0; k < s.module.n_parameters; k++)
            weights[k] = s.module.parameters[k].role == ROLE_WEIGHT;
        REQUIRE_OK(narrow_read(&n, s.program.optimized, s.program.optimized_length, weights, 16,
                               policy_has_scales(p.a) ? p.a : DT_INVALID, &arena, &e),
                   &e);
        for (int t = 0; t < DT_COUNT; t++)
            rounds += n.product_flop[t];
        printf("  %s: %d widened, %g B written, %d in place, %d quantised\n", cases[i].policy, n.widened.count,
               n.widened.written_bytes, n.inner.count, n.quantised.count);
        CHECK(rounds == 2.0 * 96 * 512 * 256);
        CHECK_INT(n.widened.count + n.inner.count > 0, cases[i].widens);
        if (n.widened.count) {
            CHECK(n.widened.elements == 512.0 * 256 * n.widened.count);
            CHECK(n.widened.written_bytes >= 2 * 512.0 * 256);
        }
        CHECK_INT(n.quantised.count, cases[i].quantises);
        if (cases[i].quantises)
            CHECK(n.quantised.elements == 96 * 512 && n.scales.count == 1);
        subject_close(&s);
    }
    arena_release(&arena);
}
