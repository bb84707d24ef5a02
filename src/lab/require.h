// SPDX-License-Identifier: Apache-2.0
// What a user demands of a policy: 'cosine_min>=0.999 and p50_ms<=20'.
#ifndef LAB_REQUIRE_H
#define LAB_REQUIRE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

enum require_op { REQUIRE_LE, REQUIRE_GE, REQUIRE_LT, REQUIRE_GT, REQUIRE_EQ };

struct require_clause {
    const char *metric;
    enum require_op op;
    double limit;
};

#define REQUIRE_MAX 16

struct require {
    const char *text; // as given
    int n;
    struct require_clause clauses[REQUIRE_MAX];
};

// Clauses NAME OP NUMBER joined by "and"; OP is <=, >=, <, > or ==. `metrics` is the NULL-ended list of known names.
// ERR_USAGE points at the place and lists the metrics. Strings go to the arena.
int require_parse(struct require *r, const char *text, const char *const *metrics, struct arena *a, struct error *err);

// Whether clause i holds for a value; NaN never holds. `why` (may be NULL) gets "cosine_min 0.98 < 0.999".
bool require_holds(const struct require *r, int i, double value, char why[160]);

#endif
