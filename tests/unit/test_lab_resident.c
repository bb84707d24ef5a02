// SPDX-License-Identifier: Apache-2.0
#include "lab/resident.h"

#include <math.h>

#include "test.h"

TEST(lab_resident)
{
    // Weights 7 and code 3 of both; beside them the first needs 10 - 6 = 4, the second 9 - 4 = 5.
    const struct resident_program p[] = {{5, 1, 10}, {2, 2, 9}};
    CHECK_NEAR(resident_bytes(p, 2, false), 7 + 3 + 5, 0);
    CHECK_NEAR(resident_bytes(p, 1, false), 10, 0);
    // The same weights: once, and as the program has them that has most of them.
    const struct resident_program same[] = {{5, 1, 10}, {6, 2, 9}, {5, 1, 7}};
    CHECK_NEAR(resident_bytes(same, 3, true), 6 + 4 + 4, 0);
    // What is not known of one is not known of all, wherever it stands.
    for (int i = 0; i < 3; i++) {
        struct resident_program q[] = {p[0], p[1], p[0]};
        q[i].code = NAN;
        CHECK(isnan(resident_bytes(q, 3, false)) && isnan(resident_bytes(q, 3, true)));
        q[i] = (struct resident_program){NAN, 1, 10};
        CHECK(isnan(resident_bytes(q, 3, false)) && isnan(resident_bytes(q, 3, true)));
    }
}
