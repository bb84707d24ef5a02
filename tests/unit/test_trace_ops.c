// SPDX-License-Identifier: Apache-2.0
#include "trace/ops.h"

#include <math.h>
#include <stdlib.h>

#include "base/str.h"
#include "fixture.h"
#include "made_trace.h"
#include "test.h"
#include "trace/ops_view.h"
#include "trace/tally.h"

static int run(struct trace *t, struct threads *threads, struct trace_ops *o, const char *path, struct error *err)
{
    *err = (struct error){0};
    int rc = trace_open(t, &path, 1, err);
    if (rc)
        memset(o, 0, sizeof *o);
    return rc ? rc : trace_ops(t, threads, o, err);
}

static void done(struct trace *t, struct trace_ops *o)
{
    trace_ops_release(o);
    trace_close(t);
}

static const struct trace_op *find(const struct trace_ops *o, uint64_t program, const char *name)
{
    for (size_t i = 0; i < o->n_rows; i++) {
        if (o->rows[i].program_id == program && slice_is(o->rows[i].name, name))
            return &o->rows[i];
    }
    return NULL;
}

// Per operation what XProf counts, to the picosecond; and what it leaves out is there as well.
TEST(trace_ops_equal_xprof)
{
    struct error e = {0};
    struct str table;
    char last[64] = "";
    str_init(&table);
    REQUIRE_OK(file_read(&table, fixture_path("traces/xprof_ops.tsv"), 1 << 20, &e), &e);
    struct trace t = {0};
    struct trace_ops o = {0};
    size_t compared = 0, left = 0;
    char *cell[7], *rest = table.text;
    while (fixture_cells(&rest, cell, 7)) {
        if (strcmp(last, cell[0]) != 0) {
            CHECK_INT(left, 0);
            done(&t, &o);
            REQUIRE_OK(run(&t, NULL, &o, fixture_profile(cell[0]), &e), &e);
            snprintf(last, sizeof last, "%s", cell[0]);
            for (size_t i = 0; i < o.n_rows; i++)
                left += o.rows[i].is_operation;
        }
        const struct trace_op *op = find(&o, strtoull(cell[1], NULL, 10), cell[2]);
        REQUIRE(op);
        CHECK(op->is_operation);
        CHECK_INT(op->occurrences, strtoull(cell[4], NULL, 10));
        // XProf prints microseconds as doubles: half a picosecond is what they round to.
        CHECK_NEAR((double)op->self_ps, strtod(cell[5], NULL) * 1e6, 0.5);
        CHECK_NEAR((double)op->total_ps, strtod(cell[6], NULL) * 1e6, 0.5);
        CHECK(slice_is(op->category, cell[3])); // of GPUs from the HLO
        compared++;
        left--;
    }
    CHECK_INT(left, 0);
    CHECK_INT(compared, 38);
    done(&t, &o);
    // Kernels of no operation: XProf books them as idle time.
    REQUIRE_OK(run(&t, NULL, &o, fixture_profile("gpu-mi300x-jax-gemm"), &e), &e);
    const struct trace_op *copy = find(&o, 0, "__amd_rocclr_copyBuffer.kd");
    REQUIRE(copy);
    CHECK(!copy->is_operation && copy->occurrences == 12 && copy->self_ps == 60240000);
    CHECK_INT(o.self_ps, 3475484000);
    done(&t, &o);
    str_release(&table);
}

TEST(trace_ops_facts_of_a_device)
{
    struct error e;
    struct trace t;
    struct trace_ops o;
    struct threads *two;
    REQUIRE(threads_new(&two, 2, &e) == 0);
    REQUIRE_OK(run(&t, two, &o, fixture_profile("tpu-v6e-4chip-inference"), &e), &e);
    REQUIRE(o.devices.n == 4 && o.n_lines == 4);
    const struct trace_device *d = &o.devices.items[3];
    CHECK(d->kind == TRACE_TPU && d->ordinal == 3);
    CHECK_STR(d->model, "TPU v6 Lite");
    CHECK(d->peak_flop_per_s == 918e12);
    CHECK_NEAR(d->memory_bytes_per_s, 1.63799e12, 1e7); // printed in GB/s with two digits after the point
    int64_t sum = 0;
    for (size_t i = 0; i < o.n_lines; i++) {
        CHECK(o.lines[i].device_clock && o.lines[i].sorted && !o.lines[i].overlaps && !o.lines[i].out_of_range);
        sum += o.lines[i].union_ps;
    }
    CHECK_INT(o.lines[0].union_ps, 78783723903750); // the sum of device_duration_ps of a line that does not nest
    CHECK_INT(sum, o.self_ps);
    const struct trace_op *f = find(&o, 12190760917235803885u, "broadcast_add_fusion.1");
    REQUIRE(f);
    CHECK(f->flop == 400.0 * 1342177280 && f->bytes == 400.0 * 10737418240);
    CHECK(slice_is(f->scope, "jit(f)/jit(main)/add:"));
    done(&t, &o);
    REQUIRE_OK(run(&t, two, &o, fixture_profile("cpu-small"), &e), &e);
    CHECK(o.devices.n == 0 && o.n_rows == 0); // it holds a compilation, and no operation
    done(&t, &o);
    threads_free(two);
}

// TFLOP/s of one device, to a digit after the point: XProf has 0 for all of these but the last, and 206.2 there.
TEST(trace_ops_price_libraries)
{
    const struct {
        const char *file, *name;
        uint64_t program, executions;
        double rate;
    } known[] = {{"gpu-mi300x-jax-gemm", "custom-call.1", 49, 3, 899.8},
                 {"gpu-mi300x-jax-gemm", "custom-call.1", 79, 3, 745.7},
                 {"gpu-mi300x-jax-gemm", "custom-call.1", 34, 3, 917.7},
                 {"gpu-mi300x-jax-gemm", "custom-call.1", 64, 3, 585.2},
                 {"gpu-mi300x-jax-gemm", "custom-call.1", 21, 3, 205.4},
                 {"gpu-mi300x-jax-conv", "cudnn-conv.1", 15, 40, 104.4}}; // of 40 + 39 kernels
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct error e;
        struct trace t;
        struct trace_ops o;
        struct trace_ops_rates r;
        REQUIRE_OK(run(&t, NULL, &o, fixture_profile(known[i].file), &e), &e);
        const struct trace_op *op = find(&o, known[i].program, known[i].name);
        REQUIRE(op);
        trace_ops_rate(&o, op, &r);
        CHECK_NEAR(r.flop_per_s * 1e-12, known[i].rate, 0.05);
        CHECK_INT(op->executions, known[i].executions);
        CHECK(op->flop_from == TRACE_COST_HLO && op->type == DT_BF16);
        CHECK_STR(r.bound, known[i].executions == 40 ? "memory" : "compute"); // 57 FLOP/B, below the chip's 247
        done(&t, &o);
    }
}

// The tracer of AMD GPUs gives half the memory rate and no model: vendor, cores and memory tell the chip.
TEST(trace_ops_peaks_of_profile_and_table)
{
    struct error e;
    struct trace t;
    struct trace_ops o;
    struct trace_peak flop, memory;
    REQUIRE_OK(run(&t, NULL, &o, fixture_profile("gpu-mi300x-jax-gemm"), &e), &e);
    trace_ops_peak(&o, DT_BF16, &flop, &memory);
    CHECK_STR(memory.chip_name, "mi300x");
    CHECK(memory.profile == 2662.4e9 && memory.chip == 5300e9 && memory.used == 5300e9 && memory.disagree);
    CHECK(isnan(flop.profile) && flop.used == flop.chip && flop.chip == 1307e12);
    trace_ops_peak(&o, DT_F32, &flop, &memory);
    CHECK(flop.used < 200e12);
    const struct trace_op *copy = find(&o, 34, "custom-call.1");
    REQUIRE(copy);
    CHECK(slice_is(copy->scope, "jit(dot)/dot_general"));
    CHECK(slice_is(copy->source, "/workspace/traces/generate_gemm_trace.py:37"));
    done(&t, &o);
    REQUIRE_OK(run(&t, NULL, &o, fixture_profile("tpu-v6e-4chip-inference"), &e), &e);
    trace_ops_peak(&o, DT_INVALID, &flop, &memory);
    CHECK(flop.used == flop.profile && !flop.disagree && flop.chip > 0 && memory.used == memory.profile);
    done(&t, &o);
    REQUIRE_OK(run(&t, NULL, &o, fixture_profile("gpu-gtx1080ti-2x"), &e), &e);
    trace_ops_peak(&o, DT_INVALID, &flop, &memory);
    CHECK(isnan(flop.used) && !memory.chip_name && memory.used == memory.profile && memory.used > 0);
    const struct trace_op *fusion = find(&o, 5, "loop_add_multiply_fusion");
    REQUIRE(fusion);
    // Two runs: one read and three results of 384 f32, three operations on each.
    CHECK(fusion->flop == 2 * 3 * 384 && fusion->bytes == 2 * 4 * 4 * 384);
    done(&t, &o);
}

// ---- Made profiles

struct op {
    int64_t start, duration;
    int id;
};

static const char *make(const struct op *ops, size_t n, int64_t timestamp_ns)
{
    static char path[1024];
    struct str s;
    struct error e = {0};
    str_init(&s);
    size_t plane = pb_begin(&s, 1);
    pb_put_string(&s, 2, "/device:TPU:0");
    size_t line = pb_begin(&s, 3);
    pb_put_string(&s, 2, "XLA Ops");
    pb_put_int(&s, 3, timestamp_ns);
    for (size_t i = 0; i < n; i++) {
        size_t event = pb_begin(&s, 4);
        pb_put_int(&s, 1, ops[i].id);
        pb_put_int(&s, 2, ops[i].start);
        pb_put_int(&s, 3, ops[i].duration);
        pb_end(&s, event);
    }
    pb_end(&s, line);
    for (int i = 1; i < 9; i++) {
        const char name[2] = {(char)('a' + i - 1), 0};
        made_row(&s, 4, i, name);
    }
    pb_end(&s, plane);
    snprintf(path, sizeof path, "%s/made.xplane.pb", test_dir());
    int rc = file_write(path, str_text(&s), s.length, &e);
    str_release(&s);
    return rc ? "" : path;
}

static int64_t self_of(const struct trace_ops *o, const char *name)
{
    const struct trace_op *op = find(o, 0, name);
    return op ? op->self_ps : -1;
}

TEST(trace_ops_of_made_profiles)
{
    struct error e;
    struct trace t;
    struct trace_ops o;
    // A loop with its body, in any order, at times of day.
    static const struct op loop[] = {{60, 30, 2}, {0, 100, 1}, {10, 40, 2}, {120, 0, 3}, {15, 5, 4}, {10, 40, 5}};
    for (int64_t timestamp = 0; timestamp < 2; timestamp++) {
        REQUIRE_OK(run(&t, NULL, &o, make(loop, 6, timestamp * 1764000000000000000), &e), &e);
        CHECK_INT(self_of(&o, "a"), 100 - 30 - 40);
        CHECK_INT(self_of(&o, "b"), 30); // the one at 10 has nothing left: another starts and ends with it
        CHECK_INT(self_of(&o, "e"), 40 - 5);
        CHECK_INT(self_of(&o, "c"), 0);
        CHECK_INT(self_of(&o, "d"), 5);
        CHECK(o.self_ps == 100 && o.lines[0].union_ps == 100 && o.lines[0].first_ps == 0 && o.lines[0].last_ps == 120);
        CHECK(isnan(o.rows[0].flop));
        done(&t, &o);
    }
    // Backwards: more out of order than a window holds.
    struct op back[500];
    for (int i = 0; i < 500; i++)
        back[i] = (struct op){10000 - 20 * i, 10 + (i % 2) * 15, 1 + i % 2};
    REQUIRE_OK(run(&t, NULL, &o, make(back, 500, 0), &e), &e);
    CHECK(!o.lines[0].sorted && o.lines[0].overlaps == 250);
    CHECK_INT(o.self_ps, o.lines[0].union_ps);
    CHECK_INT(self_of(&o, "a"), 250 * 10); // they start last, so what overlaps is theirs
    CHECK_INT(self_of(&o, "b"), 250 * 20);
    done(&t, &o);
    // Times that cannot be.
    static const struct op bad[] = {{5, -1, 1}, {INT64_MAX, 1, 1}, {INT64_MIN, 5, 1}, {5, INT64_MAX, 1}, {7, 3, 2}};
    REQUIRE_OK(run(&t, NULL, &o, make(bad, 5, 0), &e), &e);
    CHECK(o.n_rows == 1 && o.lines[0].out_of_range == 4 && self_of(&o, "b") == 3);
    done(&t, &o);
    static const struct op far[] = {{-TALLY_RANGE_PS, 5, 1}, {0, TALLY_RANGE_PS, 1}};
    REQUIRE_OK(run(&t, NULL, &o, make(far, 2, 0), &e), &e);
    CHECK(!o.lines[0].out_of_range && self_of(&o, "a") == TALLY_RANGE_PS + 5);
    done(&t, &o);
}
