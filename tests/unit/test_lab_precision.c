// SPDX-License-Identifier: Apache-2.0
// The frame of the precision lab: what is refused before anything runs, what measures are, the document.
#include "lab/precision.h"
#include "precision_document.h"
#include "schema.h"
#include "test.h"

static void refused(struct precision_options o, const char *text, const char *file, int line)
{
    struct precision p;
    struct error err = {0};
    int rc = precision_open(&p, &o, NULL, &err);
    if (!test_check(rc == ERR_USAGE, file, line, "is refused") ||
        !test_check(strstr(err.message, text) != NULL, file, line, text))
        printf("    %s: %s\n", err.where, err.message);
    if (!rc)
        precision_close(&p);
}
#define REFUSED(text, ...) refused((struct precision_options){__VA_ARGS__}, text, __FILE__, __LINE__)

TEST(lab_precision_refuses_what_it_does_not_know)
{
    static const char *const unknown[] = {"acumulate"}, *const twice[] = {"accumulate", "accumulate"},
                             *const one[] = {"accumulate"};
    REFUSED("accumulate");
    REFUSED("did you mean accumulate?", .suites = unknown, .n_suites = 1);
    REFUSED("given twice", .suites = twice, .n_suites = 2);
    REFUSED("no suite asked for uses it", .suites = one, .n_suites = 1, .steps = 3);
    const char *const trained[] = {"scaling"};
    REFUSED("no suite asked for uses it", .suites = trained, .n_suites = 1, .trace = true);
    REFUSED("at most", .suites = one, .n_suites = 1, .batch = 65536, .features = 65536);
    struct str words;
    str_init(&words);
    precision_words(&words);
    CHECK(strncmp(str_text(&words), "accumulate\n", 11) == 0);
    str_release(&words);
}

// 3, 4, 12: norm 13.
TEST(lab_precision_measures_by_hand)
{
    struct precision p;
    struct precision_options o = {0};
    if (precision_document_fill(&p, &o, "name")) {
        const struct precision_case *near = p.document->cases[0], *broken = p.document->cases[1];
        const struct precision_measure *m = &near->measures[0];
        CHECK(m->max_abs == 0.5 && m->mean_abs == 0.125 && m->nonfinite == 0);
        CHECK_NEAR(m->rel_l2, 0.5 / 13, 1e-16);
        CHECK_NEAR(m->snr_db, 20 * log10(26), 1e-12); // of a few operations in f64
        CHECK(near->measures[1].max_abs == 0 && isinf(near->measures[1].snr_db));
        CHECK(broken->measures[0].nonfinite == 1 && isnan(broken->measures[0].max_abs));
        CHECK(isnan(broken->measures[1].rel_l2) && broken->measures[1].max_abs == 12); // the reference is zero
        CHECK(!precision_failed(&p));
        precision_check_count(&p, "five", "is six", 5, 6);
        CHECK(precision_failed(&p));
    }
    precision_close(&p);
}

TEST(lab_precision_infinities_of_one_sign_agree)
{
    static const double reference[3] = {INFINITY, -INFINITY, 2}, result[3] = {INFINITY, -INFINITY, 3};
    struct precision p;
    struct precision_options o = {0};
    if (precision_document_fill(&p, &o, "name")) {
        struct precision_case *c = precision_case(&p, "x", "infinite", NULL);
        const struct precision_measure *m = precision_measure(&p, c, "f64", reference, result, 3);
        CHECK(m->nonfinite == 0 && m->max_abs == 1);
        m = precision_measure(&p, c, "f64", reference, (double[]){-INFINITY, -INFINITY, 2}, 3);
        CHECK_INT(m->nonfinite, 1);
    }
    precision_close(&p);
}

TEST(lab_precision_document_follows_the_schema)
{
    static const char *const names[] = {"name", "\x1b[31m<script>|`\n\"\\"};
    for (int i = 0; i < 2; i++) {
        struct precision p;
        struct precision_options o = {0};
        struct str text;
        str_init(&text);
        if (precision_document_fill(&p, &o, names[i]) && precision_document_text(&p, &text))
            CHECK_SCHEMA("assay.precision.1.json", text.text, text.length);
        precision_close(&p);
        str_release(&text);
    }
}

// Without memory a suite goes on with spares, and the run ends with the reason.
TEST(lab_precision_lack_of_memory_is_kept)
{
    struct precision p;
    struct precision_options o = {0};
    if (precision_document_fill(&p, &o, "name")) {
        p.arena.limit_bytes = p.arena.used_bytes + 64;
        for (int i = 0; i < 1000; i++) {
            struct precision_case *c = precision_case(&p, "x", "y", NULL);
            precision_number(&p, c, "a number with a long name that has to be kept somewhere",
                             quantity_make(1, "1", ORIGIN_DERIVED, "x"));
            precision_note(&p, "a note");
            precision_check_count(&p, "a", "b", 1, 1);
        }
        CHECK_INT(p.error.code, ERR_MEMORY);
    }
    precision_close(&p);
}
