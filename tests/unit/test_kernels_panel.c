// SPDX-License-Identifier: Apache-2.0
// Products of packed strips with more rows than are packed at a time, against sums made one by one.
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "kernels/panel.h"
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
