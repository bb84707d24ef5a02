// SPDX-License-Identifier: Apache-2.0
// The passes on small graphs whose results follow from the definitions by a few lines of C: counts of what narrowing
// loses, packed codes, weights in unusual places; and the graph in f64.
#include <float.h>
#include <stdlib.h>

#include "ir/policy.h"
#include "ir/retype.h"
#include "ir_test.h"
#include "num/convert.h"
#include "num/quantize.h"

#define D(...) ((const int64_t[]){__VA_ARGS__})
#define N(...) ((const int[]){__VA_ARGS__})

struct small {
    struct rig r;
    struct arena arena;
    struct module f32, m;
    struct builder b; // of f32
    struct error err;
};

static bool small_open(struct small *t)
{
    memset(t, 0, sizeof *t);
    arena_init(&t->arena);
    module_init(&t->f32, &t->arena, "f32");
    module_init(&t->m, &t->arena, "m");
    builder_init(&t->b, &t->f32);
    builder_scope(&t->b, "part", "part");
    return rig_open(&t->r, pjrt_test_plugin(false), 1);
}

static void small_close(struct small *t)
{
    arena_release(&t->arena);
    rig_close(&t->r);
}

// Finishes the f32 module, puts the policy in and runs it; it must have n results.
static bool small_run(struct small *t, const char *policy, bool instrument, const void *const *args, int n, void **outs)
{
    struct policy p;
    if (builder_finish(&t->b, &t->err) || policy_parse(&p, policy, &t->err) ||
        module_apply_policy(&t->f32, &p, instrument, &t->m, &t->err)) {
        test_fail_error(__FILE__, __LINE__, policy, t->err.where, t->err.message);
        return false;
    }
    if (!CHECK_INT(t->m.n_results, n))
        return false;
    struct program *program = ir_compile(&t->r, &t->m);
    if (!program)
        test_fail_error(__FILE__, __LINE__, policy, t->r.err.where, t->r.err.message);
    bool ok = program && ir_run(&t->r, program, &t->m, args, outs);
    program_free(program);
    return ok;
}

enum { ROWS = 6, K = 64, OUT = 32 };

// Rows that show one thing each: zeros, values around the rounding to zero and to even, one that overflows f16, tiny
// ones of which f16 keeps nothing, ordinary ones, and one below the smallest scale.
static void fill_rows(float *x)
{
    for (int k = 0; k < K; k++) {
        x[0 * K + k] = 0;
        x[1 * K + k] = k == 5 ? 127 : k == 6 ? -127 : (float)(k - 20) * 0.25f;
        x[2 * K + k] = k == 9 ? -70000 : k == 10 ? 65519.9f : (float)k;
        x[3 * K + k] = (k % 3 ? 1e-9f : 1e-7f) * (float)(1 + k);
        x[4 * K + k] = sinf((float)k) * 3;
        x[5 * K + k] = FLT_MIN * (float)(k - 30);
    }
}

static void fill_weight(float *w)
{
    for (int i = 0; i < OUT * K; i++)
        w[i] = (float)((i * 37) % 101 - 50) / 64;
}

static int build_rows_by_weight(struct small *t)
{
    int x = build_parameter(&t->b, ROLE_INPUT, "x", SHAPE(DT_F32, ROWS, K), NULL);
    int w = build_weight(&t->b, "w", SHAPE(DT_F32, OUT, K));
    return build_result(&t->b, "y", build_linear(&t->b, x, w, DT_F32));
}

TEST(ir_passes_plugin_counts_int8)
{
    struct small t;
    float x[ROWS * K], w[OUT * K], scales[OUT];
    int8_t codes[OUT * K];
    struct quant_stats stats;
    const struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 0};
    void *outs[4];
    REQUIRE(small_open(&t));
    fill_rows(x);
    fill_weight(w);
    REQUIRE_OK(quantize(&spec, D(OUT, K), 2, w, codes, scales, NULL, &stats, "w", &t.err), &t.err);
    build_rows_by_weight(&t);
    REQUIRE(small_run(&t, "w8a8", true, (const void *[]){x, codes, scales}, 4, outs));
    int flushed = 0;
    float low = INFINITY, high = 0;
    for (int i = 0; i < ROWS; i++) {
        float amax = 0;
        for (int k = 0; k < K; k++)
            amax = fmaxf(amax, fabsf(x[i * K + k]));
        float scale = amax == 0 ? 1 : fmaxf(amax / 127, FLT_MIN);
        low = fminf(low, scale);
        high = fmaxf(high, scale);
        int32_t sums[OUT] = {0};
        for (int k = 0; k < K; k++) {
            int code = (int)rintf(x[i * K + k] / scale);
            CHECK(abs(code) <= 127);
            flushed += x[i * K + k] != 0 && code == 0;
            for (int j = 0; j < OUT; j++)
                sums[j] += code * codes[j * K + k];
        }
        for (int j = 0; j < OUT; j++) { // integer sums, then two f32 products: exact to the bit, but for subnormals
            float want = (float)sums[j] * scale * scales[j], got = ((float *)outs[0])[i * OUT + j];
            CHECK(got == want || (fabsf(want) < FLT_MIN && got == 0));
        }
    }
    CHECK_INT(((int32_t *)outs[1])[0], 0);
    CHECK_INT(((int32_t *)outs[1])[1], 0);
    CHECK_INT(((int32_t *)outs[1])[2], flushed);
    CHECK(flushed > 3);
    CHECK(((float *)outs[2])[0] == low && low == FLT_MIN);
    CHECK(((float *)outs[2])[1] == high && high > 500);
    for (int i = 0; i < 4; i++)
        free(outs[i]);
    small_close(&t);
}

// A row that is not finite is counted and stays not finite: no clipped number hides it.
TEST(ir_passes_plugin_counts_nonfinite)
{
    for (int kind = 0; kind < 2; kind++) {
        struct small t;
        float x[ROWS * K], w[OUT * K], scales[OUT];
        int8_t codes[OUT * K];
        struct quant_stats stats;
        const struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 0};
        void *outs[4];
        REQUIRE(small_open(&t));
        fill_rows(x);
        fill_weight(w);
        x[4 * K + 3] = kind ? NAN : -INFINITY;
        REQUIRE_OK(quantize(&spec, D(OUT, K), 2, w, codes, scales, NULL, &stats, "w", &t.err), &t.err);
        build_rows_by_weight(&t);
        REQUIRE(small_run(&t, "w8a8", true, (const void *[]){x, codes, scales}, 4, outs));
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < OUT; j++)
                CHECK((bool)isfinite(((float *)outs[0])[i * OUT + j]) == (i != 4));
        }
        CHECK_INT(((int32_t *)outs[1])[1], 1);
        for (int i = 0; i < 4; i++)
            free(outs[i]);
        small_close(&t);
    }
}

TEST(ir_passes_plugin_counts_f16)
{
    struct small t;
    float x[ROWS * K], w[OUT * K];
    uint16_t stored[OUT * K];
    void *outs[3];
    REQUIRE(small_open(&t));
    fill_rows(x);
    fill_weight(w);
    for (int i = 0; i < OUT * K; i++)
        stored[i] = f16_from_f32(w[i]);
    build_rows_by_weight(&t);
    REQUIRE(small_run(&t, "f16", true, (const void *[]){x, stored}, 3, outs));
    int overflowed = 0, flushed = 0;
    for (int i = 0; i < ROWS * K; i++) {
        float y = f32_from_f16(f16_from_f32(x[i]));
        overflowed += !isfinite(y);
        flushed += x[i] != 0 && y == 0;
    }
    CHECK_INT(((int32_t *)outs[1])[0], 0);
    CHECK_INT(((int32_t *)outs[1])[1], overflowed);
    CHECK_INT(((int32_t *)outs[1])[2], flushed);
    CHECK(overflowed == 1 && flushed > 3);
    CHECK(((float *)outs[2])[0] == INFINITY && ((float *)outs[2])[1] == -INFINITY);
    for (int i = 0; i < ROWS; i++)
        CHECK((bool)isfinite(((float *)outs[0])[i * OUT]) == (i != 2));
    for (int i = 0; i < 3; i++)
        free(outs[i]);
    small_close(&t);
}

// The same conversion in two places of a scope is counted once, every group has its own row, and counting changes no
// number.
TEST(ir_passes_plugin_counts_by_group)
{
    float x[K];
    int32_t counts[2][3] = {{0}};
    float plain[K];
    for (int k = 0; k < K; k++)
        x[k] = k % 4 ? (float)k : 1e-9f;
    for (int instrument = 1; instrument >= 0; instrument--) {
        struct small t;
        void *outs[3];
        REQUIRE(small_open(&t));
        int v = build_parameter(&t.b, ROLE_INPUT, "x", SHAPE(DT_F32, 1, K), NULL);
        int square = build_dot(&t.b, v, v, 1, N(0), N(0), 1, N(1), N(1), DT_F32);
        builder_scope(&t.b, "other", "other");
        int stored = builder_store(&t.b, build_unary(&t.b, OP_NEGATE, v));
        build_result(&t.b, "y", build_binary(&t.b, OP_ADD, stored, build_broadcast_leading(&t.b, square, stored)));
        REQUIRE(small_run(&t, "w=f32,a=f16,op=f16", instrument, (const void *[]){x}, instrument ? 3 : 1, outs));
        if (instrument) {
            memcpy(counts, outs[1], sizeof counts);
            memcpy(plain, outs[0], sizeof plain);
            free(outs[1]);
            free(outs[2]);
        } else {
            CHECK(memcmp(plain, outs[0], sizeof plain) == 0);
        }
        free(outs[0]);
        small_close(&t);
    }
    CHECK_INT(counts[0][2], K / 4);
    CHECK_INT(counts[1][2], K / 4);
}

// Every byte unpacks to the two codes that were packed into it.
TEST(ir_passes_plugin_unpacks_int4)
{
    struct small t;
    int8_t codes[128 * 4];
    uint8_t packed[256];
    float scales[128];
    int32_t ids[128];
    void *out;
    REQUIRE(small_open(&t));
    for (int i = 0; i < 256; i++)
        packed[i] = (uint8_t)i;
    for (int i = 0; i < 128; i++) {
        ids[i] = i;
        scales[i] = 0.5f;
    }
    REQUIRE_OK(quant_unpack(DT_S4, D(128, 4), 2, 1, packed, codes, &t.err), &t.err);
    int i = build_parameter(&t.b, ROLE_INPUT, "i", SHAPE(DT_S32, 128), NULL);
    build_result(&t.b, "y", build_gather(&t.b, build_weight(&t.b, "w", SHAPE(DT_F32, 128, 4)), i));
    REQUIRE(small_run(&t, "w=int4/channel,a=f32,op=f32", false, (const void *[]){ids, packed, scales}, 1, &out));
    for (int k = 0; k < 128 * 4; k++)
        CHECK(((float *)out)[k] == (float)codes[k] * 0.5f);
    free(out);
    small_close(&t);
}

// Weights where no scale can be taken out of the sum (contracted along their rows; on the left), and rows cut from a
// table: the values are those of the expanded weight.
TEST(ir_passes_plugin_weights_elsewhere)
{
    enum { R = 5, C = 8 };
    static const struct {
        const char *text;
        enum dtype type;
        int64_t group;
    } policies[] = {
        {"w=int8/channel,a=f32,op=f32", DT_S8, 0},
        {"w=int8/group:4,a=f32,op=f32", DT_S8, 4},
        {"w=int4/group:2,a=f32,op=f32", DT_S4, 2},
    };
    float w[R * C], x[3 * R], y[C * 2];
    for (int i = 0; i < R * C; i++)
        w[i] = (float)((i * 29) % 23 - 11) / 8;
    for (int i = 0; i < 3 * R; i++)
        x[i] = (float)(i % 5 - 2);
    for (int i = 0; i < C * 2; i++)
        y[i] = (float)(i % 3 - 1);
    for (size_t n = 0; n < sizeof policies / sizeof *policies; n++) {
        struct small t;
        struct quant_spec spec = {.type = policies[n].type, .granularity = QUANT_PER_CHANNEL, .channel_axis = 0};
        if (policies[n].group) {
            spec.granularity = QUANT_PER_GROUP;
            spec.group_axis = 1;
            spec.group = policies[n].group;
        }
        int8_t codes[R * C];
        uint8_t packed[R * C];
        float scales[R * C], expanded[R * C];
        struct quant_stats stats;
        void *outs[3];
        REQUIRE(small_open(&t));
        REQUIRE_OK(quantize(&spec, D(R, C), 2, w, codes, scales, NULL, &stats, "w", &t.err), &t.err);
        REQUIRE_OK(dequantize(&spec, D(R, C), 2, codes, scales, NULL, expanded, "w", &t.err), &t.err);
        REQUIRE_OK(quant_pack(DT_S4, D(R, C), 2, 1, codes, packed, &t.err), &t.err);
        int a = build_parameter(&t.b, ROLE_INPUT, "x", SHAPE(DT_F32, 3, R), NULL);
        int b = build_parameter(&t.b, ROLE_INPUT, "y", SHAPE(DT_F32, C, 2), NULL);
        int weight = build_weight(&t.b, "w", SHAPE(DT_F32, R, C));
        build_result(&t.b, "right", build_dot(&t.b, a, weight, 0, NULL, NULL, 1, N(1), N(0), DT_F32));
        build_result(&t.b, "left", build_dot(&t.b, weight, b, 0, NULL, NULL, 1, N(1), N(0), DT_F32));
        build_result(&t.b, "rows", build_slice(&t.b, weight, D(1, 0), D(5, C), D(2, 1)));
        REQUIRE(small_run(&t, policies[n].text, false,
                          (const void *[]){x, y, spec.type == DT_S4 ? (void *)packed : codes, scales}, 3, outs));
        // The row slice cuts codes, not the expanded table.
        for (int i = 0; i < t.m.n_instructions; i++)
            CHECK(t.m.instructions[i].op != OP_SLICE ||
                  t.m.instructions[t.m.instructions[i].operands[0]].op == OP_PARAMETER);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < C; j++) {
                double sum = 0;
                for (int k = 0; k < R; k++)
                    sum += (double)x[i * R + k] * expanded[k * C + j];
                CHECK_NEAR(((float *)outs[0])[i * C + j], sum, 1e-5); // f32 sums of five terms below 8
            }
        }
        for (int i = 0; i < R; i++) {
            for (int j = 0; j < 2; j++) {
                double sum = 0;
                for (int k = 0; k < C; k++)
                    sum += (double)expanded[i * C + k] * y[k * 2 + j];
                CHECK_NEAR(((float *)outs[1])[i * 2 + j], sum, 1e-5);
            }
        }
        for (int j = 0; j < C; j++) {
            CHECK(((float *)outs[2])[j] == expanded[1 * C + j]);
            CHECK(((float *)outs[2])[C + j] == expanded[3 * C + j]);
        }
        for (int i = 0; i < 3; i++)
            free(outs[i]);
        small_close(&t);
    }
}

// ---- the graph in f64

TEST(ir_passes_plugin_retype_small)
{
    enum { n = 6 };
    struct small t;
    float x[n];
    uint16_t h[n];
    int32_t k[n];
    void *outs[4];
    REQUIRE(small_open(&t));
    for (int i = 0; i < n; i++) {
        x[i] = 0.1f + (float)i * 0.7f;
        h[i] = bf16_from_f32(1.5f - (float)i * 0.3f);
        k[i] = 100000007 * i;
    }
    struct builder *b = &t.b;
    struct shape s = SHAPE(DT_F32, n);
    int px = build_parameter(b, ROLE_INPUT, "x", s, NULL);
    int ph = build_parameter(b, ROLE_INPUT, "h", SHAPE(DT_BF16, n), NULL);
    int pk = build_parameter(b, ROLE_INPUT, "k", SHAPE(DT_S32, n), NULL);
    // Splats and dense values are exact doubles, a convert to f32 or bf16 rounds nothing, integers convert exactly.
    int sum = build_binary_scalar(b, OP_MULTIPLY, build_convert(b, ph, DT_F32), 0.1);
    sum = build_binary(b, OP_ADD, sum, build_dense(b, s, (const double[n]){0.1, 0.2, 0.3, 0.4, 0.5, 0.6}));
    sum = build_convert(b, build_convert(b, sum, DT_BF16), DT_F32);
    sum = build_binary(b, OP_ADD, sum, build_convert(b, pk, DT_F32));
    build_result(b, "sum", build_binary(b, OP_MULTIPLY, sum, px));
    // A rounding that belongs to the model stays: to bf16 and back.
    int product = build_binary(b, OP_MULTIPLY, px, px);
    struct instruction rounding = {.op = OP_CONVERT,
                                   .shape = SHAPE(DT_BF16, n),
                                   .n_operands = 1,
                                   .operands = &product,
                                   .flags = FLAG_MODEL_ROUNDING};
    int rounded = build_convert(b, builder_append(b, &rounding), DT_F32);
    build_result(b, "rounded", build_binary_scalar(b, OP_DIVIDE, rounded, 3));
    // The lowest value is that of f64.
    build_result(b, "lowest", build_binary(b, OP_ADD, build_symbol(b, s, CONST_LOWEST), px));
    // Bits are those of the type that was asked for.
    int bits = build_bitcast_convert(b, px, DT_S32);
    int back = build_bitcast_convert(b, build_binary_scalar(b, OP_AND, bits, (double)(int32_t)0xffff0000), DT_F32);
    build_result(b, "cut", back);
    REQUIRE_OK(builder_finish(b, &t.err), &t.err);
    REQUIRE_OK(module_retype_f64(&t.f32, &t.m, &t.err), &t.err);
    for (int i = 0; i < t.m.n_instructions; i++) {
        enum dtype d = t.m.instructions[i].shape.dtype;
        CHECK(d == DT_F64 || d == DT_S32 || t.m.instructions[i].op == OP_PARAMETER ||
              t.m.instructions[i].op == OP_CONVERT || t.m.instructions[i].op == OP_BITCAST_CONVERT);
    }
    for (int i = 0; i < t.m.n_results; i++)
        CHECK_INT(t.m.instructions[t.m.results[i]].shape.dtype, DT_F64);
    struct program *p = ir_compile(&t.r, &t.m);
    CHECK_STR(t.r.err.message, "");
    REQUIRE(p && ir_run(&t.r, p, &t.m, (const void *[]){x, h, k}, outs));
    for (int i = 0; i < n; i++) {
        double wx = x[i], dense = 0.1 * (i + 1), want = (f32_from_bf16(h[i]) * 0.1 + dense + k[i]) * wx;
        // 0.3 and 0.6 are one ulp off 0.1 * 3 and 0.1 * 6; then four operations of half an ulp.
        CHECK_NEAR(((double *)outs[0])[i], want, 4 * DBL_EPSILON * fabs(want));
        CHECK(((double *)outs[1])[i] == (double)f32_from_bf16(bf16_from_f64(wx * wx)) / 3);
        CHECK(((double *)outs[2])[i] == -DBL_MAX); // x is less than half an ulp there
        uint32_t pattern;
        float cut;
        memcpy(&pattern, &x[i], sizeof pattern);
        pattern &= 0xffff0000;
        memcpy(&cut, &pattern, sizeof cut);
        CHECK(((double *)outs[3])[i] == cut);
    }
    for (int i = 0; i < 4; i++)
        free(outs[i]);
    program_free(p);
    small_close(&t);
}
