// SPDX-License-Identifier: Apache-2.0
// Products of bf16 by weights that are codes, as policies store them: against the plain program, and against sums in
// f64 of codes that are taken out of their bytes here.
#include <inttypes.h>
#include <stdlib.h>

#include "ir/cost.h"
#include "kernels_test.h"
#include "models/parts.h"
#include "num/convert.h"
#include "num/random.h"

struct codes_case {
    const char *policy;
    int64_t tokens, k, n; // twice so many tokens
    int64_t group;        // 0: a scale per output, which sums are multiplied by
    bool packed;
};

// At least 64 rows, k and groups of a multiple of 32: our own loops, in blocks of 1024 columns; else strips by oneDNN.
static const struct codes_case cases[] = {
    {"w4a16", 36, 128, 100, 32, true},
    {"w=int4/group:64,a=bf16,op=bf16", 40, 2112, 200, 64, true},
    {"w=int4/group:128,a=bf16,op=bf16", 33, 1152, 50, 128, true},
    {"w4a16", 3, 96, 48, 32, true},
    {"w=int4/group:16,a=bf16,op=bf16", 36, 80, 51, 16, true},
    {"w=int4/group:3,a=bf16,op=bf16", 35, 66, 70, 3, true},
    {"w=int4/group:300,a=bf16,op=bf16", 1, 600, 33, 300, true},
    {"w=int4/channel,a=bf16,op=bf16", 32, 1056, 97, 0, true},
    {"w=int4/channel,a=bf16,op=bf16", 5, 70, 97, 0, true},
    {"w=int8/group:32,a=bf16,op=bf16", 32, 1088, 97, 32, false},
    {"w=int8/group:24,a=bf16,op=bf16", 32, 1056, 50, 24, false},
    {"w8a16", 34, 96, 100, 0, false},
};

// x [2, tokens, k] by a weight, as a policy codes that.
static void build(struct module *m, const struct codes_case *c)
{
    struct module f32;
    struct builder b;
    module_init(&f32, m->arena, c->policy);
    builder_init(&b, &f32);
    builder_scope(&b, "linear", "linear");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 2, c->tokens, c->k), NULL);
    x = builder_store(&b, build_binary_scalar(&b, OP_MULTIPLY, x, 1));
    build_result(&b, "y", part_linear(&b, x, "w", c->n));
    kernels_apply(&b, c->policy, m);
}

struct values {
    float *x; // bf16 holds them
    uint8_t *codes;
    float *scales;
};

static bool draw(const struct codes_case *c, int seed, struct values *v)
{
    struct random_numpy random;
    size_t n_x = (size_t)(2 * c->tokens * c->k), n_codes = (size_t)(c->n * c->k) / (c->packed ? 2 : 1);
    size_t n_scales = (size_t)(c->group ? c->n * (c->k / c->group) : c->n);
    double *wide = malloc((n_x + n_scales) * sizeof *wide);
    *v = (struct values){malloc(n_x * sizeof(float)), malloc(n_codes), malloc(n_scales * sizeof(float))};
    random_numpy_seed(&random, (uint64_t)seed);
    bool ok = wide && v->x && v->codes && v->scales;
    if (ok) {
        random_numpy_standard_normal(&random, wide, n_x);
        for (size_t i = 0; i < n_x; i++)
            v->x[i] = f32_from_bf16(bf16_from_f32((float)wide[i]));
        // all codes, -8 and -128, too
        ok = random_numpy_integers(&random, DT_U8, 0, 255, v->codes, n_codes, NULL) == 0;
        random_numpy_uniform(&random, 0.5, 1.5, wide, n_scales);
        for (size_t i = 0; i < n_scales; i++)
            v->scales[i] = (float)wide[i];
    }
    free(wide);
    return ok;
}

static void values_free(struct values *v)
{
    free(v->x);
    free(v->codes);
    free(v->scales);
}

// Weight [row, column] as the product has it, and what its sum is multiplied by.
static double weight(const struct codes_case *c, const struct values *v, int64_t row, int64_t column, double *factor)
{
    int64_t at = row * c->k + column;
    int byte = (int8_t)v->codes[c->packed ? at / 2 : at];
    float code = (float)(int8_t)(!c->packed ? byte : at % 2 ? byte >> 4 : (byte & 15) - (byte & 8 ? 16 : 0));
    *factor = c->group ? 1 : v->scales[row];
    return c->group ? f32_from_bf16(bf16_from_f32(code * v->scales[at / c->group])) : code;
}

static double *sums_in_f64(const struct codes_case *c, const struct values *v)
{
    int64_t m = 2 * c->tokens;
    double *out = calloc((size_t)(m * c->n), sizeof *out), factor = 1;
    for (int64_t j = 0; j < c->n && out; j++) {
        for (int64_t k = 0; k < c->k; k++) {
            double w = weight(c, v, j, k, &factor);
            for (int64_t i = 0; i < m; i++)
                out[i * c->n + j] += v->x[i * c->k + k] * w;
        }
        for (int64_t i = 0; i < m; i++)
            out[i * c->n + j] *= factor;
    }
    return out;
}

// Weights are the plain program's, rounded where it rounds them, and products of bf16 are exact in f32; what differs is
// the order of sums: k terms of 2^-24 each at most (of random signs: their root would do), and the factor's rounding.
static double bound(const struct codes_case *c)
{
    return (double)(c->k + 1) * 0x1p-24;
}

static void agrees(struct rig *r, size_t i, const char *isa)
{
    const struct codes_case *c = &cases[i];
    struct kernels_trial trial;
    struct values v;
    kernels_trial_begin(&trial, c->policy);
    build(&trial.m, c);
    bool ok = CHECK(draw(c, (int)i + 1, &v)) && CHECK_INT(trial.m.n_parameters, 3) &&
              kernels_run(r, &trial.m, (const void *const[]){v.x, v.codes, v.scales}, 0, &trial.k);
    double *f64 = ok ? sums_in_f64(c, &v) : NULL;
    ok = ok && CHECK(f64) && CHECK_INT(trial.k.chosen.count[KERNEL_PRODUCT], 1) && CHECK(trial.k.type == DT_F32) &&
         CHECK_INT(trial.k.n, 2 * c->tokens * c->n);
    if (ok) {
        free(trial.k.f64);
        trial.k.f64 = f64;
        ok = CHECK(kernels_off(&trial.k) <= bound(c)) && CHECK(kernels_plain_off(&trial.k) <= bound(c));
    }
    kernels_trial_end(&trial, isa, ok, bound(c));
    values_free(&v);
}

TEST(kernels_codes_agree_plugin)
{
    kernels_each_isa(sizeof cases / sizeof *cases, agrees);
}

// Rows of x that are one at a single column bring out the weights themselves: bit for bit the plain program's.
static void weights_are_exact(struct rig *r, size_t i, const char *isa)
{
    struct codes_case c = cases[i];
    struct kernels_trial trial;
    struct values v;
    c.tokens = c.k / 2;
    kernels_trial_begin(&trial, c.policy);
    build(&trial.m, &c);
    bool ok = CHECK(draw(&c, (int)i + 1, &v));
    for (int64_t at = 0; at < c.k * c.k && ok; at++)
        v.x[at] = at / c.k == at % c.k;
    ok = ok && kernels_run(r, &trial.m, (const void *const[]){v.x, v.codes, v.scales}, 0, &trial.k);
    ok = ok && CHECK_INT(trial.k.n, c.k * c.n) && CHECK_INT(trial.k.chosen.count[KERNEL_PRODUCT], 1);
    for (int64_t at = 0; at < c.k * c.n && ok; at++) {
        double factor, w = weight(&c, &v, at % c.n, at / c.n, &factor);
        ok = CHECK(trial.k.kernels64[at] == (double)(float)(w * factor)) &&
             CHECK(trial.k.kernels64[at] == trial.k.plain64[at]);
    }
    kernels_trial_end(&trial, isa, ok, 0);
    values_free(&v);
}

TEST(kernels_codes_weights_are_exact_plugin)
{
    kernels_each_isa(sizeof cases / sizeof *cases, weights_are_exact);
}

// What the memory check before loading counts on: with the call a program needs no memory for a weight that is widened,
// nor for one that is unpacked; without it does.
TEST(kernels_codes_need_no_wide_weights_plugin)
{
    struct rig r;
    if (!kernels_rig_open(&r))
        return;
    const struct codes_case c = {"w4a16", 8, 2048, 2048, 32, true};
    const int64_t wide = 2 * c.k * c.n, activations = 2 * c.tokens * (c.k + c.n) * 4;
    struct kernels_trial trial;
    struct module called;
    struct kernels_chosen chosen;
    kernels_trial_begin(&trial, c.policy);
    build(&trial.m, &c);
    module_init(&called, &trial.arena, "kernels");
    bool ok = CHECK_INT(kernels_choose(&trial.m, 0, &called, &chosen, &r.err), 0);
    int64_t bytes[2] = {0};
    for (int i = 0; i < 2 && ok; i++) {
        struct program_memory memory;
        struct program *p = ir_compile(&r, i ? &called : &trial.m);
        ok = CHECK(p) && CHECK_INT(program_memory(p, &memory, &r.err), 0);
        bytes[i] = ok ? memory.temps : 0;
        program_free(p);
    }
    if (ok && !(CHECK(bytes[0] >= wide) && CHECK(bytes[1] <= activations)))
        printf("  plain %" PRId64 ", kernels %" PRId64 "\n", bytes[0], bytes[1]);
    kernels_trial_end(&trial, "", ok, 0);
    rig_close(&r);
}

// The call reads what is stored: two parameters, as many as there are operands beside x and the factors.
static bool reads_codes(const struct module *m, const struct codes_case *c)
{
    const struct instruction *call = NULL;
    for (int i = 0; i < m->n_instructions; i++)
        call = m->instructions[i].op == OP_KERNEL ? &m->instructions[i] : call;
    if (!call || call->n_operands != 3)
        return false;
    const struct instruction *w = &m->instructions[call->operands[1]], *scales = &m->instructions[call->operands[2]];
    return w->op == OP_PARAMETER && w->shape.dtype == (c->packed ? DT_U8 : DT_S8) && scales->op == OP_PARAMETER;
}

// A module costs the same with the call as without: arithmetic, and bytes of the weight as it is stored.
TEST(kernels_codes_cost_what_they_stand_for)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kernels_trial trial;
        struct module called;
        struct kernels_chosen chosen;
        struct cost_row *rows;
        struct cost plain, kernels;
        struct error err = {0};
        int n;
        kernels_trial_begin(&trial, cases[i].policy);
        build(&trial.m, &cases[i]);
        module_init(&called, &trial.arena, "kernels");
        bool ok = CHECK_INT(kernels_choose(&trial.m, 0, &called, &chosen, &err), 0) &&
                  CHECK_INT(chosen.count[KERNEL_PRODUCT], 1) &&
                  CHECK_INT(cost_groups(&trial.m, &trial.arena, &rows, &n, &plain, &err), 0) &&
                  CHECK_INT(cost_groups(&called, &trial.arena, &rows, &n, &kernels, &err), 0);
        for (int t = 0; t < DT_COUNT && ok; t++)
            ok = CHECK(plain.product_flop[t] == kernels.product_flop[t]);
        double matrix = (double)(cases[i].n * cases[i].k) / (cases[i].packed ? 2 : 1);
        ok = ok && CHECK(plain.product_flop[DT_BF16] > 0) && CHECK(plain.element_flop == kernels.element_flop) &&
             CHECK(plain.bytes == kernels.bytes) && CHECK(plain.weight_bytes == kernels.weight_bytes) &&
             CHECK(kernels.weight_bytes >= matrix) && CHECK(reads_codes(&called, &cases[i]));
        kernels_trial_end(&trial, "", ok, 0);
    }
}
