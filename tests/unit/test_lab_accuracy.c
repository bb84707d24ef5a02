// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "lab/accuracy.h"
#include "test.h"

static const struct accuracy_row *find(const struct accuracy *a, const char *chip, const char *what)
{
    for (size_t i = 0; i < a->n_rows; i++) {
        if (strcmp(a->rows[i].m->chip, chip) == 0 && strstr(a->rows[i].m->what, what))
            return &a->rows[i];
    }
    return NULL;
}

TEST(accuracy_known_answers)
{
    struct accuracy a;
    struct error e = {0};
    REQUIRE_OK(accuracy_open(&a, &e), &e);
    CHECK(a.n_rows >= 15);
    // 2 * 4096^3 FLOP at 380.1 and at 918 TFLOP/s; the compiler's floor is 2.3 times below what was measured.
    const struct accuracy_row *row = find(&a, "v6e", "4096 x 4096 x 4096");
    CHECK_NEAR(row->measured_s, 361.6e-6, 0.05e-6); // as its source rounds it
    CHECK_NEAR(row->predicted[ACCURACY_SHEET].value, 137438953472.0 / 918e12, 1e-12);
    CHECK_NEAR(row->predicted[ACCURACY_COMPILER].value, 270624 / 1750e6, 1e-9);
    CHECK_NEAR(row->measured_s / row->predicted[ACCURACY_COMPILER].value, 2.34, 0.01);
    // The stage is calibrated with that product, 41.4 % of the peak: the decoder's 2.516 TFLOP need 6.6 ms.
    row = find(&a, "v6e", "image decoder");
    CHECK(row->predicted[ACCURACY_CALIBRATED].value > row->predicted[ACCURACY_SHEET].value / 0.415);
    CHECK(row->predicted[ACCURACY_CALIBRATED].value < row->predicted[ACCURACY_SHEET].value / 0.413);
    // 6.74 G weights without the table of 131 M, two bytes each, at 2039 GB/s.
    row = find(&a, "a100", "Llama 2 7B, bf16");
    CHECK_NEAR(row->predicted[ACCURACY_SHEET].value, 2 * (6738415616.0 - 131072000.0) / 2039e9, 1e-9);
    accuracy_close(&a);
}

// A floor above a measurement would be a mistake, in the figure or in the floor.
TEST(accuracy_no_floor_is_above_its_measurement)
{
    struct accuracy a;
    struct error e = {0};
    size_t n;
    REQUIRE_OK(accuracy_open(&a, &e), &e);
    for (size_t i = 0; i < a.n_rows; i++) {
        const struct accuracy_row *row = &a.rows[i];
        if (!CHECK(row->error[ACCURACY_SHEET] < 0 && row->error[ACCURACY_SHEET] > -1))
            printf("    %s on %s: %g\n", row->m->what, row->m->chip, row->error[ACCURACY_SHEET]);
        CHECK(isnan(row->error[ACCURACY_COMPILER]) || row->error[ACCURACY_COMPILER] < 0);
        CHECK(row->m->from.date[0] && row->m->printed[0]);
    }
    // Calibration is worth having: it halves the error, by a figure that no row contributed to for itself.
    CHECK(accuracy_median(&a, ACCURACY_KINDS, ACCURACY_CALIBRATED, &n) <
          accuracy_median(&a, ACCURACY_KINDS, ACCURACY_SHEET, &n) / 2);
    CHECK_INT((int)n, (int)a.n_rows);
    CHECK(isnan(accuracy_median(&a, ACCURACY_DECODE, ACCURACY_COMPILER, &n)));
    accuracy_close(&a);
}
