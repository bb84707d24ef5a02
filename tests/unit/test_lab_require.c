// SPDX-License-Identifier: Apache-2.0
#include "lab/require.h"

#include "test.h"

static const char *const metrics[] = {"cosine_min", "top1", "top10", "p50_ms", NULL};

TEST(lab_require_reads_clauses)
{
    struct arena a;
    struct error e = {0};
    struct require r;
    arena_init(&a);
    REQUIRE_OK(require_parse(&r, " cosine_min >=0.999 and\ttop1> -1e-3 and top10==1 and p50_ms<=20 and p50_ms<.5 ",
                             metrics, &a, &e),
               &e);
    static const struct {
        const char *metric;
        enum require_op op;
        double limit;
    } want[] = {{"cosine_min", REQUIRE_GE, 0.999},
                {"top1", REQUIRE_GT, -1e-3},
                {"top10", REQUIRE_EQ, 1},
                {"p50_ms", REQUIRE_LE, 20},
                {"p50_ms", REQUIRE_LT, 0.5}};
    REQUIRE(r.n == 5);
    for (int i = 0; i < 5; i++) {
        CHECK_STR(r.clauses[i].metric, want[i].metric);
        CHECK_INT(r.clauses[i].op, want[i].op);
        CHECK_NEAR(r.clauses[i].limit, want[i].limit, 0);
    }
    CHECK_STR(r.text, " cosine_min >=0.999 and\ttop1> -1e-3 and top10==1 and p50_ms<=20 and p50_ms<.5 ");
    arena_release(&a);
}

TEST(lab_require_points_at_the_mistake)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "expected a metric at character 1 of ''"},
        {"  and", "expected a metric at character 3"},
        {"top>1", "expected a metric at character 1"},
        {"top100>1", "expected a metric at character 1"},
        {"Top1>1", "expected a metric at character 1"},
        {"top1", "expected <=, >=, <, > or == at character 5"},
        {"top1 = 1", "expected <=, >=, <, > or == at character 6"},
        {"top1=>1", "expected <=, >=, <, > or == at character 5"},
        {"top1>=", "expected a number at character 7"},
        {"top1>==1", "expected a number at character 7"},
        {"top1>=0.9x", "expected a number at character 7"},
        {"top1>=0,9", "expected a number at character 7"},
        {"top1>=inf", "expected a number at character 7"},
        {"top1>=1e400", "expected a number at character 7"},
        {"top1>=1 top10>=1", "expected 'and' or the end at character 9"},
        {"top1>=1 AND top10>=1", "expected 'and' or the end at character 9"},
        {"top1>=1 and", "expected a metric at character 12"},
        {"top1>=1 and and top1>1", "expected a metric at character 13"},
        {"top1>=1 android>1", "expected 'and' or the end at character 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a;
        struct error e = {0};
        struct require r;
        arena_init(&a);
        CHECK_INT(require_parse(&r, cases[i].text, metrics, &a, &e), ERR_USAGE);
        CHECK_STR(e.where, "--require");
        if (!CHECK(strncmp(e.message, cases[i].message, strlen(cases[i].message)) == 0))
            printf("  '%s': %s\n", cases[i].text, e.message);
        CHECK(strstr(e.message, "metrics: cosine_min, top1, top10, p50_ms") != NULL);
        arena_release(&a);
    }
}

TEST(lab_require_takes_as_many_clauses_as_it_says)
{
    char text[1024] = "top1>0";
    struct arena a;
    struct error e = {0};
    struct require r;
    arena_init(&a);
    for (int i = 1; i < REQUIRE_MAX; i++)
        memcpy(text + strlen(text), " and top1>0", sizeof " and top1>0");
    REQUIRE_OK(require_parse(&r, text, metrics, &a, &e), &e);
    CHECK_INT(r.n, REQUIRE_MAX);
    memcpy(text + strlen(text), " and top1>0", sizeof " and top1>0");
    CHECK_INT(require_parse(&r, text, metrics, &a, &e), ERR_USAGE);
    CHECK(strstr(e.message, "too many clauses") != NULL);
    arena_release(&a);
}

TEST(lab_require_holds_up_to_the_limit)
{
    static const struct {
        const char *text;
        bool below, at, above;
        const char *why; // of the first value that fails
    } cases[] = {
        {"p50_ms<=2", true, true, false, "p50_ms 3 > 2"},   {"p50_ms<2", true, false, false, "p50_ms 2 >= 2"},
        {"p50_ms>=2", false, true, true, "p50_ms 1 < 2"},   {"p50_ms>2", false, false, true, "p50_ms 1 <= 2"},
        {"p50_ms==2", false, true, false, "p50_ms 1 != 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a;
        struct error e = {0};
        struct require r;
        char why[160], first[160] = "";
        arena_init(&a);
        REQUIRE_OK(require_parse(&r, cases[i].text, metrics, &a, &e), &e);
        const bool want[] = {cases[i].below, cases[i].at, cases[i].above};
        for (int v = 1; v <= 3; v++) {
            bool holds = require_holds(&r, 0, v, why);
            CHECK_INT(holds, want[v - 1]);
            CHECK_INT(require_holds(&r, 0, v, NULL), want[v - 1]);
            if (!holds && !first[0])
                snprintf(first, sizeof first, "%s", why);
        }
        CHECK_STR(first, cases[i].why);
        // What is not known never holds; what is without bound does.
        CHECK(!require_holds(&r, 0, NAN, why));
        CHECK(strncmp(why, "p50_ms is not known", 19) == 0);
        CHECK_INT(require_holds(&r, 0, INFINITY, why), r.clauses[0].op == REQUIRE_GE || r.clauses[0].op == REQUIRE_GT);
        arena_release(&a);
    }
}
