// SPDX-License-Identifier: Apache-2.0
// The probe of the CPU plugins, and its documents.
#include <stdlib.h>
#include <sys/stat.h>

#include "cli_test.h"
#include "lab/probe_run.h"
#include "pjrt_test.h"
#include "schema.h"

static void execute(struct probe_run *r, bool old, const char *const *paths, size_t n, size_t m, size_t k)
{
    struct error err = {0};
    struct probe_options o = {.worker = {.plugin_path = pjrt_test_plugin(old)},
                              .paths = paths,
                              .n_paths = n,
                              .m = m,
                              .k = k,
                              .n = 64,
                              .vectors = true,
                              .dots = 512};
    REQUIRE_OK(probe_check(&o, &err), &err);
    REQUIRE_OK(probe_execute(r, &o, NULL, NULL, &err), &err);
}

// Both plugins compute each of these as it says, whatever the machine's instructions and the order they take, and the
// model that is inferred gives every random dot.
static void check_plugin(bool old)
{
    const char *const paths[] = {"f32", "bf16", "bf16:bf16", "f16", "f64", "s8"};
    enum { N = sizeof paths / sizeof paths[0] };
    struct probe_run r;
    execute(&r, old, paths, N, 64, 64);
    CHECK_INT(r.n_rows, 2 * N);
    for (size_t i = 0; i < r.n_rows; i++) {
        const struct probe_row *row = &r.rows[i];
        const struct probe_fingerprint *f = &row->flt.print;
        bool ok = CHECK_INT(row->status, PROBE_DONE);
        if (row->is_float) {
            ok &= CHECK(f->operand != NULL) && CHECK_STR(f->operand, dtype_name(row->path->lhs));
            ok &= CHECK_INT(f->passes, 1);
            ok &= CHECK_INT(f->explained, f->operands);
            ok &= CHECK(f->accumulator != NULL) && CHECK_STR(f->accumulator, row->path->lhs == DT_F64 ? "f64" : "f32");
            ok &= CHECK_INT(f->rounding, DOT_NEAREST);
            ok &= CHECK(f->replayed >= 512);
            ok &= CHECK_INT(f->same, f->replayed);
            ok &= CHECK(f->tree.tree.nodes > 0);
            ok &= CHECK(f->repeats_same && f->rows_same);
        } else {
            ok &= CHECK(row->integer.explained && row->integer.long_sums);
            ok &= CHECK_INT(row->integer.kind, DOT_INT_WRAP);
            ok &= CHECK_INT(row->integer.same, row->integer.replayed);
        }
        if (!ok)
            printf("    of %s at m = %zu\n", row->path->name, row->m);
        struct probe_claim c;
        probe_judge(&c, &r, row->path->key);
        CHECK_INT(c.answer, PROBE_YES);
    }
    probe_release(&r);
}

TEST(lab_probe_plugin_computes_what_it_says)
{
    check_plugin(false);
}

TEST(lab_probe_plugin_old_computes_what_it_says)
{
    check_plugin(true);
}

// A long sum goes through blocks, whichever; the tree that is read there still gives every bit.
TEST(lab_probe_plugin_long_sums)
{
    const char *const paths[] = {"f32", "bf16"};
    struct probe_run r;
    execute(&r, false, paths, 2, 8, 2048);
    for (size_t i = 0; i < r.n_rows; i++)
        CHECK(r.rows[i].flt.print.same == r.rows[i].flt.print.replayed && r.rows[i].flt.print.replayed > 0);
    probe_release(&r);
}

// What is refused is a row.
TEST(lab_probe_plugin_refusals_are_rows)
{
    const char *const paths[] = {"s4", "s8"};
    struct probe_run r;
    execute(&r, false, paths, 2, 64, 64);
    struct probe_claim c;
    for (size_t i = 0; i < r.n_rows; i++) {
        bool s4 = strcmp(r.rows[i].path->key, "s4") == 0;
        CHECK_INT(r.rows[i].status, s4 ? PROBE_REFUSED : PROBE_DONE);
        CHECK(!s4 || (r.rows[i].reason && *r.rows[i].reason));
    }
    probe_judge(&c, &r, "s4");
    CHECK_INT(c.answer, PROBE_NO);
    probe_release(&r);
}

static const struct probe_cell *cell(const struct probe_run *r, const char *key)
{
    for (size_t i = 0; i < r->n_cells; i++) {
        if (strcmp(r->cells[i].key, key) == 0)
            return &r->cells[i];
    }
    return NULL;
}

// Against what the formats define, and what is known of XLA: f64 reaches bf16 through f32; NaN survives a maximum that
// is asked to keep it.
TEST(lab_probe_plugin_elements)
{
    static const struct {
        const char *key, *answer;
    } known[] = {{"f32-to-bf16", "nearest even, beyond the range infinity"},
                 {"f32-to-f8e4m3fn", "nearest even, beyond the range NaN"},
                 {"f32-to-s8", "toward zero, beyond the range the nearest code"},
                 {"f64-to-bf16", "rounded twice: through f32"},
                 {"maximum", "NaN is kept on either side"},
                 {"round-trip", "rounded"}};
    const char *const path = "u8";
    struct probe_run r;
    struct error err = {0};
    struct probe_options o = {.paths = &path, .n_paths = 1, .m = 16, .k = 64, .n = 16, .elements = true, .dots = 64};
    REQUIRE_OK(probe_execute(&r, &o, NULL, NULL, &err), &err);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct probe_cell *c = cell(&r, known[i].key);
        REQUIRE(c != NULL);
        CHECK(c->answer != NULL && strncmp(c->answer, known[i].answer, strlen(known[i].answer)) == 0);
    }
    probe_release(&r);
}

TEST(lab_probe_plugin_documents_follow_their_schema)
{
    struct cli cli;
    struct error err = {0};
    char dir[512];
    snprintf(dir, sizeof dir, "%s/r", test_dir());
    REQUIRE_OK(cli_test_run(&cli,
                            CLI_WORDS("probe", "--path", "bf16", "--path", "s8", "--path", "s4", "--shape", "32x64x32",
                                      "--tree", "--dtype-claim", "bf16", "--run-dir", dir),
                            &err),
               &err);
    CHECK_SCHEMA("assay.probe.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
    snprintf(dir, sizeof dir, "%s/s", test_dir());
    CHECK_INT(cli_test_run(&cli, CLI_WORDS("probe", "--simulate", "arm-bfdot", "--shape", "16x32x16", "--run-dir", dir),
                           &err),
              0);
    CHECK_SCHEMA("assay.probe.1.json", str_text(&cli.out), cli.out.length);
    cli_test_release(&cli);
}
