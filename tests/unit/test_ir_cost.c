// SPDX-License-Identifier: Apache-2.0
// Cost against XLA's own analysis (tests/oracle/cost.py), against first principles, and the rules of fused traffic.
// docs/cost.md explains every difference that is asserted here.
#include "ir/cost.h"

#include <stdlib.h>

#include "fixture.h"
#include "ir/policy.h"
#include "ir_cases.h"
#include "models/bert.h"
#include "plan/roofline.h"

#define D(...) ((const int64_t[]){__VA_ARGS__})
#define N(...) ((const int[]){__VA_ARGS__})

// ---- single operations

// An operation that makes nothing, or gives one of its operands as it is: the way to HLO drops it.
static bool is_dropped(const struct module *m, const struct instruction *in, const double *xla)
{
    bool same = shape_elements(&in->shape) == 0;
    for (int k = 0; k < in->n_operands; k++)
        same |= shape_equal(&m->instructions[in->operands[k]].shape, &in->shape);
    return same && xla[0] == 0 && xla[1] == 0 && xla[2] == 0;
}

// What XLA counts more than we do, in bytes, by the kind of operation.
static double bytes_left_out(const struct module *m, const struct instruction *in, const double *xla)
{
    const struct shape *x = in->n_operands ? &m->instructions[in->operands[0]].shape : NULL;
    switch (op_info(in->op)->class) {
    case OPC_IOTA:    // a compiler makes it where it is used
    case OPC_RESHAPE: // a view
    case OPC_BITCAST: // a view
        return xla[2];
    case OPC_TRANSPOSE: // data is moved; XLA's analysis sees only another layout before layouts are assigned
        return xla[2] - 2 * (double)shape_bytes(x);
    case OPC_REDUCE: // the initial value is a constant of ours
        return dtype_bits(x->dtype) / 8;
    case OPC_DYNAMIC_SLICE: // XLA counts the first start only
        return -(double)shape_bytes(&m->instructions[in->operands[1]].shape) * (in->n_operands - 2);
    case OPC_DYNAMIC_UPDATE_SLICE:
        return -(double)shape_bytes(&m->instructions[in->operands[2]].shape) * (in->n_operands - 3);
    case OPC_BROADCAST: // an extent of 1 that grows is a reshape and a broadcast there
        for (int i = 0; i < x->rank; i++) {
            if (x->dims[i] != in->shape.dims[in->a[i]])
                return xla[2] - (double)(shape_bytes(x) + shape_bytes(&in->shape));
        }
        return 0;
    default:
        return 0;
    }
}

// Multiply-adds of a convolution's row of windows along one dimension: those that fall on padding are left out by XLA.
static double taps_inside(const struct instruction *in, const struct shape *x, const struct shape *kernel, int i)
{
    double taps = 0;
    for (int64_t o = 0; o < in->shape.dims[i + 1]; o++) {
        for (int64_t k = 0; k < kernel->dims[i + 2]; k++) {
            int64_t at = o * in->a[i] + k - in->b[i];
            taps += at >= 0 && at < x->dims[i + 1];
        }
    }
    return taps;
}

// FLOP that XLA leaves out and we count.
static double flop_left_out(const struct module *m, const struct instruction *in, double ours)
{
    if (in->op != OP_CONVOLUTION || ours == 0)
        return 0;
    const struct shape *x = &m->instructions[in->operands[0]].shape, *k = &m->instructions[in->operands[1]].shape;
    double share = 1;
    for (int i = 0; i < in->n_a; i++)
        share *= taps_inside(in, x, k, i) / (double)(in->shape.dims[i + 1] * k->dims[i + 2]);
    return ours - round(ours * share);
}

TEST(ir_cost_equals_xla_for_every_operation)
{
    struct ir_fixture f;
    json_t *cost = fixture_json("ir/cost.json");
    const json_t *known = json_object_get(cost, "cases");
    bool seen[OP_COUNT] = {false};
    ir_fixture_open(&f, "ops");
    const json_t *all = json_object_get(f.root, "cases");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *c = json_array_get(all, i), *operands = json_object_get(c, "operands");
        const json_t *want = json_object_get(known, ir_case_text(c, "name"));
        struct arena arena;
        struct module m;
        struct builder b;
        struct error err = {0};
        const void *bytes;
        int x[32];
        if (!want)
            continue;
        arena_init(&arena);
        module_init(&m, &arena, "m");
        builder_init(&b, &m);
        for (size_t k = 0; k < json_array_size(operands); k++)
            x[k] =
                build_parameter(&b, ROLE_INPUT, "x", ir_fixture_array(&f, json_array_get(operands, k), &bytes), NULL);
        struct shape shape = ir_fixture_array(&f, json_object_get(c, "want"), &bytes);
        int y = build_result(&b, "y", ir_case_build(&b, &f, c, x, (int)json_array_size(operands), shape));
        REQUIRE_OK(builder_finish(&b, &err), &err);
        const struct instruction *in = &m.instructions[y];
        double xla[3];
        for (size_t k = 0; k < 3; k++)
            xla[k] = json_number_value(json_array_get(want, k));
        if (in->op != ir_case_opcode(ir_case_text(c, "op"))) { // a convert to the same type is no instruction
            CHECK(in->op == OP_PARAMETER);
            arena_release(&arena);
            continue;
        }
        if (is_dropped(&m, in, xla)) {
            arena_release(&arena);
            continue;
        }
        struct cost got;
        cost_instruction(&m, y, &got);
        double flop = cost_product_flop(&got) + got.element_flop;
        // A view does nothing, and where there is nothing to reduce XLA counts less than nothing.
        double want_flop = op_info(in->op)->class == OPC_BITCAST || xla[0] < 0 ? 0 : xla[0];
        bool ok = flop == want_flop + flop_left_out(&m, in, flop) && got.transcendentals == xla[1] &&
                  got.bytes_unfused == got.bytes && got.bytes_unfused == xla[2] - bytes_left_out(&m, in, xla);
        if (!CHECK(ok))
            printf("  %s: %g FLOP, %g transcendentals, %g B; XLA %g, %g, %g\n", ir_case_text(c, "name"), flop,
                   got.transcendentals, got.bytes_unfused, xla[0], xla[1], xla[2]);
        seen[in->op] = true;
        arena_release(&arena);
    }
    for (int op = OP_IOTA; op < OP_KERNEL; op++) {
        if (!CHECK(seen[op] != ir_case_in_programs((enum opcode)op)))
            printf("  %s was not compared\n", op_info((enum opcode)op)->name);
    }
    ir_fixture_close(&f);
    json_decref(cost);
}

// The two products whose cost everybody can work out by hand.
TEST(ir_cost_known_answers)
{
    static const struct {
        int64_t m;
        double flop, bytes, intensity;
    } want[] = {{1, 2097152, 2103296, 0.997}, {64, 134217728, 2490368, 53.895}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct arena arena;
        struct module m;
        struct builder b;
        struct error err = {0};
        struct cost_row *rows;
        struct cost total;
        int n;
        arena_init(&arena);
        module_init(&m, &arena, "gemm");
        builder_init(&b, &m);
        int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_BF16, want[i].m, 1024), NULL);
        int w = build_weight(&b, "w", SHAPE(DT_BF16, 1024, 1024));
        build_result(&b, "y", build_linear(&b, x, w, DT_F32));
        REQUIRE_OK(builder_finish(&b, &err), &err);
        REQUIRE_OK(cost_groups(&m, &arena, &rows, &n, &total, &err), &err);
        CHECK(cost_product_flop(&total) == want[i].flop);
        CHECK(total.product_flop[DT_BF16] == want[i].flop);
        CHECK(total.bytes == want[i].bytes && total.bytes_unfused == want[i].bytes);
        CHECK(total.weight_bytes == 2097152);
        CHECK_NEAR(cost_product_flop(&total) / total.bytes, want[i].intensity, 5e-4); // three digits are written down
        arena_release(&arena);
    }
}

// ---- the whole model

static bool model_cost(const char *policy, int64_t batch, int64_t seq, struct arena *arena, struct module *out,
                       struct cost_row **rows, int *n, struct cost *total)
{
    struct bert bert;
    struct module f32;
    struct policy p;
    struct error err = {0};
    bert_minilm(&bert);
    module_init(&f32, arena, "f32");
    module_init(out, arena, policy);
    struct bert_build how = {.batch = batch, .seq = seq, .first_layer = -1};
    if (bert_module(&bert, &how, &f32, &err) || policy_parse(&p, policy, &err) ||
        module_apply_policy(&f32, &p, false, out, &err) || cost_groups(out, arena, rows, n, total, &err)) {
        test_fail_error(__FILE__, __LINE__, policy, err.where, err.message);
        return false;
    }
    return true;
}

static double row_flop(const struct cost_row *rows, int n, const char *group)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(rows[i].group, group) == 0)
            return cost_product_flop(&rows[i].cost);
    }
    return NAN;
}

// Products are counted by the type of their activations. A chip without a rate for it has no floor, and says why; the
// quantised types move the bytes of their codes.
TEST(ir_cost_of_quantised_activations)
{
    static const struct {
        const char *policy;
        enum dtype type;
        const char *chip, *why; // NULL: it has a floor
    } cases[] = {
        {"w8a8-static", DT_S8, "v5e", NULL},
        {"w=int8,a=uint8/row", DT_U8, "v5e", NULL},
        {"w=int8,a=uint8/row", DT_U8, "tpu7x", "no int8 rate is published for tpu7x"},
        {"w=int8,a=int16/row", DT_S16, "v5e", "no s16 rate is published for v5e"},
        {"w=int8,a=int16/row", DT_S16, "h100", "no s16 rate is published for h100"},
        {"fp8", DT_F8E4M3FN, "tpu7x", NULL},
        {"fp8", DT_F8E4M3FN, "v5e", "no fp8 rate is published for v5e"},
        {"w=f8e5m2,a=f8e5m2", DT_F8E5M2, "h100", NULL},
    };
    struct arena arena;
    struct cost_row *rows;
    struct cost total, plain;
    struct module m;
    int n;
    arena_init(&arena);
    REQUIRE(model_cost("f32", 2, 32, &arena, &m, &rows, &n, &plain));
    double inner = row_flop(rows, n, "scores and values");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        const struct chip *chip = NULL;
        struct floor f;
        int64_t weights, scales;
        REQUIRE(model_cost(cases[i].policy, 2, 32, &arena, &m, &rows, &n, &total));
        CHECK_NEAR(total.product_flop[cases[i].type], cost_product_flop(&plain) - inner, 0);
        CHECK_NEAR(total.product_flop[DT_BF16], inner, 0);
        module_weight_bytes(&m, &weights, &scales);
        CHECK(weights < 23000000 && scales < 300000); // a byte for each element of the 22.6 M
        REQUIRE_OK(chip_find(cases[i].chip, &chip, &err), &err);
        REQUIRE_OK(roofline_total(rows, n, chip, &arena, &f, &err), &err);
        if (!CHECK(isnan(f.time.value) == (cases[i].why != NULL)) ||
            (cases[i].why && !CHECK_STR(f.time.source, cases[i].why)))
            printf("  %s on %s\n", cases[i].policy, cases[i].chip);
    }
    arena_release(&arena);
}

// Products of a sentence from the sizes of the model alone: two operations per weight of a projection and token; two
// products of seq x seq x hidden for scores and values.
TEST(ir_cost_minilm_from_first_principles)
{
    enum { layers = 6, h = 384, wide = 1536, heads = 12 };
    static const struct {
        int64_t batch, seq;
    } sizes[] = {{1, 128}, {32, 128}, {2, 16}};
    json_t *cost = fixture_json("ir/cost.json");
    const json_t *known = json_object_get(cost, "minilm");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct arena arena;
        struct module m;
        struct cost_row *rows;
        struct cost total;
        int n;
        double b = (double)sizes[i].batch, s = (double)sizes[i].seq, tokens = b * s;
        arena_init(&arena);
        REQUIRE(model_cost("f32", sizes[i].batch, sizes[i].seq, &arena, &m, &rows, &n, &total));
        CHECK(row_flop(rows, n, "attention projections") == layers * tokens * 2 * (3 * h * h + h * h));
        CHECK(row_flop(rows, n, "MLP") == layers * tokens * 2 * (2.0 * h * wide));
        CHECK(row_flop(rows, n, "scores and values") == layers * b * 2 * (2 * s * s * h));
        CHECK(cost_product_flop(&total) == total.product_flop[DT_F32]);
        // exp of every score, erf of every element of the MLP, a root per normalised row, and of every embedding.
        double roots = tokens * (1 + 2 * layers) + b;
        CHECK(total.transcendentals == layers * (b * heads * s * s + tokens * wide) + roots);
        // The same model written in JAX: as many products and transcendental functions; it makes the mask, the mean and
        // the norms of other elementwise operations. Its sums are in f32: half an ulp each of some thousand additions.
        const json_t *jax = json_array_get(known, i);
        CHECK_INT(json_integer_value(json_object_get(jax, "batch")), sizes[i].batch);
        CHECK_INT(json_integer_value(json_object_get(jax, "seq")), sizes[i].seq);
        double flops = json_number_value(json_object_get(jax, "flops"));
        double transcendentals = json_number_value(json_object_get(jax, "transcendentals"));
        CHECK_NEAR(total.transcendentals, transcendentals, 1e-5 * transcendentals);
        double element = flops - cost_product_flop(&total);
        CHECK_NEAR(total.element_flop, element, 0.1 * element);
        if (sizes[i].batch == 1)
            CHECK_NEAR(cost_product_flop(&total), 2.9e9, 0.05e9); // "2.9 GFLOP a sentence of 128 tokens"
        arena_release(&arena);
    }
    json_decref(cost);
}

// Rows add up to the total; fusing never adds traffic; what is stored is what is read, once, but for the tables.
TEST(ir_cost_groups_add_up)
{
    static const char *const policies[] = {"f32", "bf16", "f16", "w8a16", "w8a8", "w4a16", "w=int8/group:64"};
    double before = 0;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct arena arena;
        struct module m;
        struct cost_row *rows;
        struct cost total, sum = {0};
        int n;
        arena_init(&arena);
        REQUIRE(model_cost(policies[i], 4, 32, &arena, &m, &rows, &n, &total));
        CHECK_INT(n, 6);
        for (int r = 0; r < n; r++) {
            cost_add(&sum, &rows[r].cost);
            CHECK(rows[r].cost.bytes <= rows[r].cost.bytes_unfused);
            CHECK(rows[r].cost.weight_bytes <= rows[r].cost.bytes);
        }
        CHECK(cost_product_flop(&sum) == cost_product_flop(&total));
        CHECK(sum.element_flop == total.element_flop && sum.transcendentals == total.transcendentals);
        CHECK(sum.bytes == total.bytes && sum.bytes_unfused == total.bytes_unfused);
        CHECK(sum.weight_bytes == total.weight_bytes);
        // Of the word table 4 * 32 rows are read, of the positions 32, of the two segments one; the rest whole.
        int64_t weights, scales, whole = 0;
        module_weight_bytes(&m, &weights, &scales);
        for (int k = 0; k < m.n_parameters; k++) {
            const struct parameter *p = &m.parameters[k];
            const struct shape *s = &m.instructions[p->instruction].shape;
            if (p->role != ROLE_WEIGHT)
                continue;
            int64_t used = strstr(p->name, "word_emb") ? 4 * 32 : strstr(p->name, "position_emb") ? 32 : 1;
            whole += strstr(p->name, "embeddings.weight") ? shape_bytes(s) / s->dims[0] * used : shape_bytes(s);
        }
        CHECK(total.weight_bytes == (double)whole);
        CHECK(total.weight_bytes < (double)(weights + scales));
        // The cheaper the policy stores, the less is read.
        if (strcmp(policies[i], "bf16") == 0)
            CHECK(total.bytes < 0.55 * before);
        if (i == 0)
            before = total.bytes;
        // Every product is counted in the type of its operands, whatever the policy.
        double products = 0;
        for (int t = 0; t < DT_COUNT; t++)
            products += total.product_flop[t];
        CHECK(products == cost_product_flop(&total));
        if (strcmp(policies[i], "w8a8") == 0) {
            CHECK(total.product_flop[DT_S8] > 0 && total.product_flop[DT_F32] == 0);
            CHECK(total.product_flop[DT_BF16] == row_flop(rows, n, "scores and values"));
        }
        arena_release(&arena);
    }
}

// Scopes are the same count cut finer: the totals agree, and every group is the sum of its scopes.
TEST(ir_cost_scopes_add_up)
{
    static const char *const policies[] = {"f32", "w8a8", "w4a16"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct arena arena;
        struct module m;
        struct cost_row *groups, *scopes;
        struct cost total, again;
        struct error err = {0};
        int n, k;
        arena_init(&arena);
        REQUIRE(model_cost(policies[i], 2, 16, &arena, &m, &groups, &n, &total));
        REQUIRE_OK(cost_scopes(&m, &arena, &scopes, &k, &again, &err), &err);
        CHECK(k > 40 && cost_product_flop(&again) == cost_product_flop(&total));
        CHECK(again.bytes == total.bytes && again.weight_bytes == total.weight_bytes);
        CHECK(again.element_flop == total.element_flop && again.bytes_unfused == total.bytes_unfused);
        for (int g = 0; g < n; g++) {
            struct cost sum = {0};
            for (int r = 0; r < k; r++) {
                const char *group = NULL;
                for (int j = 0; j < m.n_instructions && !group; j++) {
                    const struct instruction *in = &m.instructions[j];
                    if (in->op != OP_PARAMETER && strcmp(in->scope, scopes[r].group) == 0)
                        group = in->group;
                }
                if (group && strcmp(group, groups[g].group) == 0)
                    cost_add(&sum, &scopes[r].cost);
            }
            CHECK(sum.bytes == groups[g].cost.bytes && sum.bytes > 0);
            CHECK(cost_product_flop(&sum) == cost_product_flop(&groups[g].cost));
        }
        arena_release(&arena);
    }
}

// ---- fused traffic, on small graphs

struct traffic {
    struct arena arena;
    struct module m;
    struct builder b;
    struct cost_row *rows;
    struct cost total;
    int n;
};

static void traffic_open(struct traffic *t)
{
    arena_init(&t->arena);
    module_init(&t->m, &t->arena, "m");
    builder_init(&t->b, &t->m);
}

static bool traffic_count(struct traffic *t)
{
    struct error err = {0};
    int rc = builder_finish(&t->b, &err);
    rc = rc ? rc : cost_groups(&t->m, &t->arena, &t->rows, &t->n, &t->total, &err);
    if (rc)
        test_fail_error(__FILE__, __LINE__, "cost", err.where, err.message);
    return rc == 0;
}

static double bytes_of(const struct traffic *t, const char *group)
{
    for (int i = 0; i < t->n; i++) {
        if (strcmp(t->rows[i].group, group) == 0)
            return t->rows[i].cost.bytes;
    }
    return NAN;
}

enum { F = 4 }; // bytes of an f32

TEST(ir_cost_fused_chain)
{
    // Inside a scope only what enters and leaves counts; a value used by two other scopes is written once and read
    // twice.
    struct traffic t;
    traffic_open(&t);
    int x = build_parameter(&t.b, ROLE_INPUT, "x", SHAPE(DT_F32, 100), NULL);
    builder_scope(&t.b, "one", "one");
    int y = build_unary(&t.b, OP_EXP, build_unary(&t.b, OP_NEGATE, build_unary(&t.b, OP_ABS, x)));
    builder_scope(&t.b, "two", "two");
    int z = build_binary(&t.b, OP_ADD, y, build_binary_scalar(&t.b, OP_MULTIPLY, y, 2));
    builder_scope(&t.b, "three", "three");
    int w = build_binary(&t.b, OP_SUBTRACT, build_reshape(&t.b, y, 2, D(10, 10)), build_reshape(&t.b, z, 2, D(10, 10)));
    build_result(&t.b, "w", w);
    build_result(&t.b, "z", z);
    build_result(&t.b, "again", w);
    REQUIRE(traffic_count(&t));
    CHECK(bytes_of(&t, "one") == 2 * 100 * F);   // x in, y out
    CHECK(bytes_of(&t, "two") == 2 * 100 * F);   // y in once, z out once though it is a result, too
    CHECK(bytes_of(&t, "three") == 3 * 100 * F); // y and z in through views, w out once
    CHECK(t.total.bytes_unfused == (2 + 2 + 2 + 2 + 3 + 3) * 100 * F);
    arena_release(&t.arena);
}

TEST(ir_cost_fused_interleaved)
{
    // The order of instructions of different scopes is of no consequence.
    struct traffic t;
    traffic_open(&t);
    int w = build_weight(&t.b, "w", SHAPE(DT_F32, 100));
    int x = build_parameter(&t.b, ROLE_INPUT, "x", SHAPE(DT_F32, 100), NULL), sum = x;
    for (int i = 0; i < 6; i++) {
        builder_scope(&t.b, i % 2 ? "odd" : "even", i % 2 ? "odd" : "even");
        int y = build_binary(&t.b, OP_MULTIPLY, x, w);
        if (i >= 4)
            sum = build_binary(&t.b, OP_ADD, y, sum);
    }
    build_result(&t.b, "sum", sum);
    REQUIRE(traffic_count(&t));
    CHECK(bytes_of(&t, "even") == 3 * 100 * F); // x and w in, its sum out
    CHECK(bytes_of(&t, "odd") == 4 * 100 * F);  // x, w and that sum in, the result out
    CHECK(t.total.weight_bytes == 2 * 100 * F); // once per scope
    arena_release(&t.arena);
}

TEST(ir_cost_fused_parts)
{
    // Of what is cut only the pieces are read, and never more than there is.
    struct traffic t;
    traffic_open(&t);
    int table = build_weight(&t.b, "table", SHAPE(DT_F32, 50, 8));
    int two = build_weight(&t.b, "two", SHAPE(DT_F32, 2, 8));
    int ids = build_parameter(&t.b, ROLE_INPUT, "ids", SHAPE(DT_S32, 10), NULL);
    builder_scope(&t.b, "lookup", "lookup");
    int rows = build_gather(&t.b, table, ids), kinds = build_gather(&t.b, two, ids);
    build_result(&t.b, "y", build_binary(&t.b, OP_ADD, rows, kinds));
    builder_scope(&t.b, "slices", "slices");
    int a = build_slice_axis(&t.b, table, 0, 0, 5), c = build_slice_axis(&t.b, table, 0, 10, 15);
    build_result(&t.b, "z", build_binary(&t.b, OP_ADD, a, c));
    REQUIRE(traffic_count(&t));
    CHECK(bytes_of(&t, "lookup") == 10 * 8 * F + 2 * 8 * F + 10 * 4 + 10 * 8 * F);
    CHECK(bytes_of(&t, "slices") == 10 * 8 * F + 5 * 8 * F);
    arena_release(&t.arena);

    // An update in place reads and writes the update alone; the cache is read where it is used.
    traffic_open(&t);
    int cache = build_parameter(&t.b, ROLE_STATE, "cache", SHAPE(DT_F32, 1000, 8), NULL);
    int row = build_parameter(&t.b, ROLE_INPUT, "row", SHAPE(DT_F32, 1, 8), NULL);
    int at = build_parameter(&t.b, ROLE_INPUT, "at", SHAPE(DT_S32), NULL);
    builder_scope(&t.b, "update", "update");
    int zero = build_splat(&t.b, SHAPE(DT_S32), 0);
    int next = build_dynamic_update_slice(&t.b, cache, row, N(at, zero));
    builder_scope(&t.b, "use", "use");
    int dim = 0;
    build_result(&t.b, "sum", build_reduce(&t.b, OP_ADD, next, &dim, 1));
    build_result(&t.b, "cache", next);
    REQUIRE(traffic_count(&t));
    CHECK(bytes_of(&t, "update") == 2 * 8 * F + 4);
    CHECK(bytes_of(&t, "use") == 1000 * 8 * F + 8 * F);
    arena_release(&t.arena);
}

TEST(ir_cost_fused_free_values)
{
    // Constants and counters are made where they are used; one that is returned is written.
    struct traffic t;
    traffic_open(&t);
    int x = build_parameter(&t.b, ROLE_INPUT, "x", SHAPE(DT_F32, 64), NULL);
    builder_scope(&t.b, "constants", "constants");
    int c = build_broadcast(&t.b, build_splat(&t.b, SHAPE(DT_F32), 3), SHAPE(DT_F32, 64), NULL);
    int i = build_iota(&t.b, SHAPE(DT_F32, 64), 0);
    builder_scope(&t.b, "sum", "sum");
    build_result(&t.b, "y", build_binary(&t.b, OP_ADD, build_binary(&t.b, OP_ADD, x, c), i));
    build_result(&t.b, "c", build_reshape(&t.b, c, 2, D(8, 8)));
    build_result(&t.b, "x", x);
    REQUIRE(traffic_count(&t));
    CHECK(bytes_of(&t, "sum") == 2 * 64 * F);
    CHECK(bytes_of(&t, "constants") == 64 * F);
    CHECK(t.total.element_flop == 2 * 64);
    arena_release(&t.arena);
}
