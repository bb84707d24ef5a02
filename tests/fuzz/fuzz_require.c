// SPDX-License-Identifier: Apache-2.0
// The --require expression. What is accepted must read the same when its clauses are written out again.
#include "lab/require.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "lab/qualify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check(const struct require *r, struct arena *arena)
{
    static const char *const symbols[] = {"<=", ">=", "<", ">", "=="};
    struct str s;
    str_init(&s);
    must(r->n >= 1 && r->n <= REQUIRE_MAX);
    for (int i = 0; i < r->n; i++) {
        const struct require_clause *c = &r->clauses[i];
        must(c->metric && c->op <= REQUIRE_EQ && isfinite(c->limit));
        str_addf(&s, "%s%s%s%.17g", i ? " and " : "", c->metric, symbols[c->op], c->limit);
        char why[160];
        bool closed = c->op != REQUIRE_LT && c->op != REQUIRE_GT;
        must(require_holds(r, i, c->limit, why) == closed);
        must(!require_holds(r, i, NAN, why) && memchr(why, 0, sizeof why));
    }
    struct require again;
    struct error err = {0};
    must(require_parse(&again, str_text(&s), qualify_metrics, arena, &err) == 0 && again.n == r->n);
    for (int i = 0; i < r->n; i++) {
        const struct require_clause *a = &r->clauses[i], *b = &again.clauses[i];
        must(a->metric == b->metric && a->op == b->op && a->limit == b->limit);
    }
    str_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    must(text != NULL);
    struct arena arena;
    arena_init(&arena);
    struct require r;
    struct error err = {0};
    if (require_parse(&r, text, qualify_metrics, &arena, &err) == 0)
        check(&r, &arena);
    else
        must(err.code && err.message[0]);
    arena_release(&arena);
    free(text);
    return 0;
}
