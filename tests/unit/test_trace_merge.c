// SPDX-License-Identifier: Apache-2.0
// Programs of unrelated runs that have the same number: merged, each operation still belongs to its own program.
#include "trace/merge.h"

#include <stdlib.h>

#include "base/file.h"
#include "fixture.h"
#include "test.h"
#include "trace/ops_hlo.h"

// The recorded profile of two GPUs, with every `from` in it as the text `to` of the same length.
static const char *variant(const char *name, const char *from, const char *to)
{
    const char *path = test_below(name);
    struct str s;
    struct error e = {0};
    size_t n = strlen(from), changed = 0;
    str_init(&s);
    if (file_read(&s, fixture_profile("gpu-gtx1080ti-2x"), 1 << 20, &e))
        abort();
    for (char *at = s.text; (at = memmem(at, s.length - (size_t)(at - s.text), from, n)); at += n, changed++)
        memcpy(at, to, n);
    CHECK(changed > 0 && strlen(to) == n);
    if (file_write(path, s.text, s.length, &e))
        abort();
    str_release(&s);
    return path;
}

struct merged {
    struct trace_merged done;
    struct trace t;
    struct trace_program *programs;
    size_t n_programs;
    struct trace_ops ops;
};

// Merges the recorded profile with another and reads what came out.
static bool merge(const char *other, struct merged *m)
{
    const char *paths[] = {fixture_profile("gpu-gtx1080ti-2x"), other}, *out = test_below("merged.xplane.pb");
    struct sink sink = {.fd = -1};
    struct trace t;
    struct error e = {0};
    int rc = trace_open(&t, paths, 2, &e);
    if (!rc)
        rc = sink_open(&sink, out, false, true, &e);
    if (!rc)
        rc = trace_merge(&t, &sink, &m->done, &e);
    if (!rc)
        rc = sink_commit(&sink, &e);
    sink_abort(&sink);
    trace_close(&t);
    if (!rc)
        rc = trace_open(&m->t, &out, 1, &e);
    if (!rc)
        rc = trace_programs(&m->t, &m->t.arena, &m->programs, &m->n_programs, &e);
    if (!rc)
        rc = trace_ops(&m->t, NULL, &m->ops, &e);
    if (rc)
        test_fail_error(__FILE__, __LINE__, other, e.where, e.message);
    return rc == 0 && CHECK(!m->t.files[0].space.damage.what);
}

static void release(struct merged *m)
{
    trace_ops_release(&m->ops);
    trace_close(&m->t);
}

// The same program, also where only the places of its source differ: nothing has another number, and what both hosts
// ran is one row.
TEST(trace_merge_same_programs)
{
    const char *others[] = {fixture_profile("gpu-gtx1080ti-2x"), variant("places", "Ops.jl", "Opt.jl")};
    for (int i = 0; i < 2; i++) {
        struct merged m;
        REQUIRE(merge(others[i], &m));
        CHECK_INT(m.done.renumbered, 0);
        CHECK_INT(m.n_programs, 3);
        REQUIRE(m.ops.n_rows == 1);
        CHECK_INT(m.ops.rows[0].program_id, 5);
        CHECK_INT(m.ops.rows[0].occurrences, 4);
        release(&m);
    }
}

// Programs of the same numbers (1, 3 and 5) of which the name or the HLO differs get 6, 7 and 8, wherever they are
// named.
TEST(trace_merge_different_programs)
{
    const char *others[] = {variant("name", "reactant_fn", "reactant_fm"),
                            variant("hlo", "multiply.4.1", "multiply.4.2")};
    for (int i = 0; i < 2; i++) {
        static const uint64_t ids[] = {1, 3, 5, 6, 7, 8};
        struct merged m;
        REQUIRE(merge(others[i], &m));
        CHECK_INT(m.done.renumbered, 3);
        REQUIRE(m.n_programs == 6 && m.ops.n_rows == 2);
        for (size_t k = 0; k < 6; k++) {
            CHECK_INT(m.programs[k].id, ids[k]);
            CHECK(slice_is(m.programs[k].name, i == 0 && k >= 3 ? "reactant_fm" : "reactant_fn"));
        }
        for (size_t k = 0; k < 2; k++) {
            const struct trace_op *op = &m.ops.rows[k];
            CHECK(slice_is(op->module, i == 0 && op->program_id == 8 ? "reactant_fm" : "reactant_fn"));
            CHECK_INT(op->occurrences, 2);
            CHECK(op->flop > 0 && op->flop_from == TRACE_COST_HLO);
        }
        CHECK(m.ops.rows[0].program_id == 5 || m.ops.rows[0].program_id == 8);
        CHECK_INT(m.ops.rows[0].program_id + m.ops.rows[1].program_id, 5 + 8);
        // The entry, its number inside and the number of its row say the same.
        const struct xplane *p = xspace_plane(&m.t.files[0].space, "/host:metadata");
        REQUIRE(p && p->event_table.n_rows == 6);
        // XProf looks at one statistic of a name only.
        for (size_t k = 0; k < p->stat_table.n_rows; k++) {
            for (size_t j = 0; j < k; j++)
                CHECK(!slice_equal(p->stat_table.rows[j].name, p->stat_table.rows[k].name));
        }
        for (size_t k = 0; k < 6; k++) {
            struct xstats walk = xmeta_stats(p, &p->event_table.rows[k]);
            struct xstat s;
            struct slice name;
            uint64_t id = 0;
            CHECK(trace_program_split(p->event_table.rows[k].name, &name, &id));
            CHECK_INT(p->event_table.rows[k].id, id);
            while (xstat_next(&walk, &s)) {
                const struct xmeta *what = xtable_find(&p->stat_table, s.metadata_id);
                if (what && slice_is(what->name, "program_id"))
                    CHECK_INT(s.unsigned_number, id);
            }
        }
        release(&m);
    }
}
