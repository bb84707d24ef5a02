// SPDX-License-Identifier: Apache-2.0
// Products of packed strips against sums made one by one: more rows than are packed at a time, and weights that are
// widened as they are packed.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "kernels/panel.h"
#include "num/convert.h"
#include "num/isa.h"
#include "test.h"

enum { ROWS = 420, INNER = 131072, OUTPUTS = 50 };

static int8_t code_of(int64_t row, int64_t k, int64_t of)
{
    return (int8_t)((row * 31 + k * 7) % of - of / 2);
}

// A row of 131072 codes is 128 KB packed: 400 are at hand at a time, 20 are left; with tiles of AMX 416, and 4.
TEST(kernels_panel_takes_rows_in_parts)
{
    struct panel p = {.m = ROWS, .k = INNER, .n = OUTPUTS, .x_type = DT_S8, .w_type = DT_S8, .out_type = DT_S32};
    struct error err = {0};
    struct threads *pool = NULL;
    enum isa was = isa_in_force();
    if (!isa_force(ISA_AVX512_BF16) || !panel_takes(&p)) {
        test_skip("this CPU has no such kernel");
        return;
    }
    int8_t *x = malloc((size_t)ROWS * INNER), *w = malloc((size_t)OUTPUTS * INNER);
    int32_t *out = calloc((size_t)ROWS * OUTPUTS, sizeof *out);
    REQUIRE(x && w && out);
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t k = 0; k < INNER; k++)
            x[row * INNER + k] = code_of(row, k, 13);
    }
    for (int64_t row = 0; row < OUTPUTS; row++) {
        for (int64_t k = 0; k < INNER; k++)
            w[row * INNER + k] = code_of(row, k, 255);
    }
    p.x = x, p.w = w, p.out = out;
    REQUIRE_OK(threads_new(&pool, 2, &err), &err);
    static const int64_t rows[] = {0, 7, 398, 399, 400, 401, 415, 416, 419}, outputs[] = {0, 31, 32, 47, 48, 49};
    for (int isa = ISA_AVX512_BF16; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        memset(out, 0, (size_t)ROWS * OUTPUTS * sizeof *out);
        REQUIRE_OK(panel_multiply(&p, pool, &err), &err);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            for (size_t j = 0; j < sizeof outputs / sizeof *outputs; j++) {
                int64_t sum = 0;
                for (int64_t k = 0; k < INNER; k++)
                    sum += x[rows[i] * INNER + k] * w[outputs[j] * INNER + k];
                CHECK_INT(out[rows[i] * OUTPUTS + outputs[j]], sum);
            }
        }
    }
    isa_force(was);
    threads_free(pool);
    free(out);
    free(w);
    free(x);
}

// ---- codes by bf16

static const struct widened {
    int64_t m, k, n, group; // group 0: no scales
    enum dtype type;
} widened[] = {
    {64, 64, 48, 32, DT_S4},   {67, 2112, 250, 64, DT_S4}, {130, 1152, 97, 128, DT_S4}, {64, 1088, 193, 0, DT_S4},
    {65, 1088, 50, 32, DT_S8}, {64, 2112, 49, 96, DT_S8},  {70, 96, 400, 0, DT_S8},
};

static int nibble(const uint8_t *codes, int64_t at)
{
    int code = codes[at / 2] >> (at % 2 * 4) & 15;
    return code < 8 ? code : code - 16;
}

// Row `row` of x times output `output`, in double; *size: the sum of magnitudes.
static double sum_of(const struct panel *p, int64_t row, int64_t output, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < p->k; k++) {
        int64_t at = output * p->k + k;
        float w = (float)(p->w_type == DT_S4 ? nibble(p->w, at) : ((const int8_t *)p->w)[at]);
        if (p->groups)
            w = f32_from_bf16(bf16_from_f32(w * p->groups[at / p->group]));
        double one = (double)f32_from_bf16(((const uint16_t *)p->x)[row * p->k + k]) * (double)w;
        sum += one;
        *size += fabs(one);
    }
    return sum;
}

static void check_widened(const struct widened *c, struct threads *pool)
{
    struct error err = {0};
    int64_t n_codes = c->n * c->k, n_scales = c->group ? n_codes / c->group : 1;
    int64_t bytes = n_codes * dtype_bits(c->type) / 8; // and not one more: reads beyond are seen
    uint16_t *x = malloc((size_t)(c->m * c->k) * sizeof *x);
    uint8_t *codes = malloc((size_t)bytes);
    float *scales = malloc((size_t)n_scales * sizeof *scales), *out = malloc((size_t)(c->m * c->n) * sizeof *out);
    REQUIRE(x && codes && scales && out);
    for (int64_t i = 0; i < c->m * c->k; i++)
        x[i] = bf16_from_f32((float)code_of(i / c->k, i % c->k, 211) / 64);
    for (int64_t i = 0; i < bytes; i++)
        codes[i] = (uint8_t)(i * 167 + i / 256 * 13); // all of them
    for (int64_t i = 0; i < n_scales; i++)
        scales[i] = 1 / (float)(3 + i % 1009);
    struct panel p = {.m = c->m,
                      .k = c->k,
                      .n = c->n,
                      .x = x,
                      .w = codes,
                      .x_type = DT_BF16,
                      .w_type = c->type,
                      .groups = c->group ? scales : NULL,
                      .group = c->group,
                      .out = out,
                      .out_type = DT_F32};
    REQUIRE(panel_takes(&p));
    REQUIRE_OK(panel_multiply(&p, pool, &err), &err);
    for (int64_t i = 0; i < c->m * c->n; i += 1 + i % 7) {
        double size, sum = sum_of(&p, i / c->n, i % c->n, &size);
        // Products of bf16 are exact in f32, and each addition is off by 2^-24 of what it gives at most.
        if (!CHECK(fabs((double)out[i] - sum) <= size * (double)c->k * 0x1p-24))
            printf("  %s, groups of %d, at %d: %g, not %g\n", dtype_name(c->type), (int)c->group, (int)i,
                   (double)out[i], sum);
    }
    free(x);
    free(codes);
    free(scales);
    free(out);
}

TEST(kernels_panel_widens_codes)
{
    const struct panel any = {.m = 64, .k = 64, .n = 64, .x_type = DT_BF16, .w_type = DT_S4, .out_type = DT_F32};
    struct error err = {0};
    struct threads *pool = NULL;
    enum isa was = isa_in_force();
    int taken = 0;
    REQUIRE_OK(threads_new(&pool, 2, &err), &err);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa) || !panel_takes(&any))
            continue;
        taken++;
        for (size_t i = 0; i < sizeof widened / sizeof *widened; i++)
            check_widened(&widened[i], pool);
        struct panel half = any;
        half.groups = (const float[64 * 4]){0};
        half.group = 16; // two scales in what is packed at a time
        CHECK(!panel_takes(&half));
    }
    if (!taken)
        test_skip("this CPU has no such kernel");
    isa_force(was);
    threads_free(pool);
}
