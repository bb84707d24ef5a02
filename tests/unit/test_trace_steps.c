// SPDX-License-Identifier: Apache-2.0
#include "trace/steps.h"

#include <math.h>
#include <string.h>

#include "made_trace.h"
#include "test.h"
#include "trace/steps_view.h"
#include "trace/summary.h"

static int read_steps(struct trace *t, struct trace_steps *s, const char *path, const char *program, struct error *err)
{
    *err = (struct error){0};
    memset(s, 0, sizeof *s);
    int rc = trace_open(t, &path, 1, err);
    return rc ? rc : trace_steps(t, program, NULL, NULL, s, err);
}

static void done(struct trace *t, struct trace_steps *s)
{
    trace_steps_release(s);
    trace_close(t);
}

static void kernel(struct made *m, int64_t at, int64_t duration, const char *op, const char *module)
{
    made_event(m, op, at, duration);
    made_text(m, "hlo_op", op);
    made_text(m, "hlo_module", module);
    made_number(m, "program_id", module[4]);
}

// Busy, idle and their parts of a step add up, on every device of every profile.
static void adds_up(const struct trace_steps *s)
{
    for (size_t d = 0; d < s->modules.devices.n; d++) {
        const struct trace_idle *x = &s->of_device[d];
        int64_t idle = 0;
        for (int f = 0; f < FILLS; f++)
            idle += x->idle_ps[PLACE_INSIDE][f] + x->idle_ps[PLACE_BETWEEN][f];
        if (x->busy.spans)
            CHECK_INT(idle + x->busy.busy_ps, x->busy.last_ps - x->busy.first_ps);
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct trace_step *a = &s->items[i];
        CHECK_INT(a->busy_ps + a->idle_ps, a->duration_ps);
        CHECK(a->busy_ps >= 0 && a->host_ps >= 0 && a->input_ps >= 0 && a->collective_ps <= a->busy_ps);
        CHECK(a->host_ps + a->input_ps <= a->idle_ps);
    }
}

TEST(trace_steps_inferred_and_what_filled_the_gaps)
{
    struct error e;
    struct trace t;
    struct trace_steps s;
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    kernel(&m, 1000, 100, "init", "jit_init"); // once: no step
    for (int64_t at = 2000; at < 5000; at += 1000) {
        kernel(&m, at, 300, "dot", "jit_step");
        kernel(&m, at + 400, 100, "all-reduce.1", "jit_step");
    }
    made_plane(&m, "/host:CPU");
    made_line(&m, "main", 0);
    made_event(&m, "$train.py:1 main", 0, 6000);
    made_event(&m, "PjitFunction(f)", 500, 500);       // before the first operation
    made_event(&m, "TransferToDevice", 2600, 200);     // of 2500..3000, between steps 0 and 1
    made_event(&m, "backend_compile", 2700, 50);       // hides the transfer
    made_event(&m, "Wait for usage holds", 3600, 300); // waiting fills nothing: Python is left
    REQUIRE_OK(read_steps(&t, &s, made_end(&m, "train"), NULL, &e), &e);
    CHECK(s.rule == RULE_REPEATED && slice_is(s.program, "jit_step") && s.n == 3);
    adds_up(&s);
    const struct trace_step *a = s.items;
    CHECK(a[0].start_ps == 2000 && a[0].duration_ps == 1000 && a[0].work_ps == 500 && a[0].complete);
    CHECK(a[0].busy_ps == 400 && a[0].collective_ps == 100 && a[0].input_ps == 150);
    CHECK_INT(a[0].host_ps, 600 - 150); // Python and compilation
    CHECK(a[2].duration_ps == 500 && a[2].busy_ps == 400 && !a[2].complete && a[2].idle_ps == 100);
    const struct trace_idle *d = &s.of_device[0];
    CHECK(d->idle_ps[PLACE_BEFORE][FILL_DISPATCH] == 500 && d->idle_ps[PLACE_BEFORE][FILL_PYTHON] == 500);
    CHECK_INT(d->idle_ps[PLACE_INSIDE][FILL_PYTHON], 300);
    CHECK(d->idle_ps[PLACE_BETWEEN][FILL_COMPILE] == 50 && d->idle_ps[PLACE_BETWEEN][FILL_INPUT] == 150);
    CHECK_INT(d->idle_ps[PLACE_BETWEEN][FILL_PYTHON], 900 + 300 + 500);
    CHECK_INT(d->idle_ps[PLACE_AFTER][FILL_PYTHON], 1500);
    CHECK(s.compiling_ps == 50 && s.p50_ps == 1000 && s.outliers == 0);
    CHECK(s.n_threads == 1 && s.threads[0].busy.busy_ps == 6000);
    done(&t, &s);
}

TEST(trace_steps_from_markers)
{
    struct error e;
    struct trace t;
    struct trace_steps s;
    struct made m;
    // A host's step numbers before programs; nested ones do not count twice.
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    for (int64_t at = 0; at < 400; at += 100)
        kernel(&m, 1000 + at, 50, "dot", "jit_step");
    made_plane(&m, "/host:CPU");
    made_line(&m, "main", -1); // its clock begins 1 ns before the profile's
    made_event(&m, "train", 2000, 150);
    made_number(&m, "step_num", 7);
    made_event(&m, "train", 2010, 10);
    made_number(&m, "step_num", 70);
    made_event(&m, "train", 2200, 190);
    made_number(&m, "step_num", 8);
    const char *path = made_end(&m, "marked");
    REQUIRE_OK(read_steps(&t, &s, path, NULL, &e), &e);
    CHECK(s.rule == RULE_MARKER && s.n == 2);
    adds_up(&s);
    CHECK(s.items[0].index == 7 && s.items[0].start_ps == 1000 && s.items[0].duration_ps == 200);
    CHECK(s.items[0].busy_ps == 100 && s.items[1].index == 8 && s.items[1].duration_ps == 190);
    done(&t, &s);
    // What is asked for comes first.
    REQUIRE_OK(read_steps(&t, &s, path, "jit_step", &e), &e);
    CHECK(s.rule == RULE_PROGRAM && s.n == 4);
    done(&t, &s);
    CHECK(read_steps(&t, &s, path, "jit_stop", &e) == ERR_USAGE);
    done(&t, &s);
    // A TPU's own line before all; devices that start 40 ps apart.
    made_begin(&m);
    for (int device = 0; device < 2; device++) {
        made_plane(&m, device ? "/device:TPU:1" : "/device:TPU:0");
        made_line(&m, "Steps", 0);
        made_event(&m, "3", device * 40, 100);
        made_event(&m, "4", 200 + device * 40, 100);
        made_line(&m, "XLA Ops", 0);
        made_event(&m, "%a = ...", device * 40 + 10, 90);
    }
    REQUIRE_OK(read_steps(&t, &s, made_end(&m, "tpu"), NULL, &e), &e);
    CHECK(s.rule == RULE_LINE && s.n == 4 && s.items[2].device == 1 && s.items[2].index == 3);
    CHECK(s.items[0].busy_ps == 90 && s.items[1].busy_ps == 0 && s.skew_max_ps == 40);
    CHECK(isnan(s.host_skew_max_ps));
    adds_up(&s);
    done(&t, &s);
}

// 400 steps of a device and the host's work between them, in the order of time or backwards.
static const char *many_steps(bool backwards, const char *name)
{
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    for (int i = 0; i < 400; i++) {
        int64_t at = 1000 * (backwards ? 399 - i : i);
        kernel(&m, at, 300 + at / 1000 % 7, "dot", "jit_step");
    }
    made_plane(&m, "/host:CPU");
    made_line(&m, "main", 0);
    for (int i = 0; i < 400; i++) {
        int64_t at = 1000 * (backwards ? 399 - i : i);
        made_event(&m, at % 3000 ? "TransferToDevice" : "backend_compile", at + 500, 100 + at / 1000 % 11);
    }
    return made_end(&m, name);
}

TEST(trace_steps_are_the_same_in_any_order_of_events)
{
    struct error e;
    struct trace t[2];
    struct trace_steps s[2];
    for (int k = 0; k < 2; k++) {
        REQUIRE_OK(read_steps(&t[k], &s[k], many_steps(k, k ? "backwards" : "forwards"), NULL, &e), &e);
        adds_up(&s[k]);
    }
    REQUIRE(s[0].n == 400 && s[1].n == 400 && s[0].n_threads == 1 && s[1].n_threads == 1);
    CHECK(memcmp(s[0].items, s[1].items, 400 * sizeof *s[0].items) == 0);
    CHECK(memcmp(s[0].of_device, s[1].of_device, sizeof *s[0].of_device) == 0);
    CHECK(s[0].compiling_ps == s[1].compiling_ps && s[0].compiling_ps > 0 && s[0].items[1].input_ps == 101);
    CHECK(s[0].threads[0].busy.busy_ps == s[1].threads[0].busy.busy_ps && s[1].threads[0].busy.spans == 400);
    for (int k = 0; k < 2; k++)
        done(&t[k], &s[k]);
}

static int64_t scoped(struct made *m, const char *name, const char *op, const char *scope, int64_t at, int64_t duration,
                      int64_t program, int64_t flop)
{
    made_event(m, name, at, duration);
    made_text(m, "hlo_op", op);
    made_text(m, "hlo_module", "jit_denoise");
    made_number(m, "program_id", program);
    made_text(m, "tf_op", scope);
    made_number(m, "flops", flop);
    return at + duration;
}

// A prologue, five blocks of two operations and twenty of one; the prologue is one operation of two kernels.
static int64_t denoise(struct made *m, int64_t at, int64_t program)
{
    at = scoped(m, "im2col", "embed", "jit(denoise)/embed", at, 14000, program, 0);
    at = scoped(m, "gemm", "embed", "jit(denoise)/embed", at, 200, program, 0);
    for (int i = 0; i < 5; i++) {
        at = scoped(m, "d1", "double.1", "jit(denoise)/double/while/body/dot", at, 600, program, 406);
        at = scoped(m, "d2", "double.2", "jit(denoise)/double/while/body/add", at, 742, program, 0);
    }
    for (int i = 0; i < 20; i++)
        at = scoped(m, "s", "single", "jit(denoise)/single/while/body/dot", at, 1278, program, 406);
    return at;
}

TEST(trace_steps_by_loop_and_by_scope)
{
    struct error e;
    struct trace t;
    struct trace_steps s;
    struct trace_ops o;
    struct trace_scope *rows;
    struct made m;
    size_t n;
    made_begin(&m);
    made_plane(&m, "/device:GPU:0");
    made_line(&m, "Stream #1", 0);
    int64_t at = denoise(&m, 0, 7);
    at = denoise(&m, at + 100, 7);
    // The same function, compiled for another shape, without loops.
    scoped(&m, "im2col", "embed", "jit(denoise)/embed", at + 100, 200, 8, 0);
    REQUIRE_OK(read_steps(&t, &s, made_end(&m, "loops"), NULL, &e), &e);
    REQUIRE_OK(trace_ops(&t, NULL, &o, &e), &e);
    double self = 2 * (14200 + 5 * 1342 + 20 * 1278) + 200;
    REQUIRE_OK(trace_scopes(&s, &o, SCOPES_BY_LOOP, &rows, &n, &e), &e);
    REQUIRE(n == 3);
    CHECK(slice_is(rows[0].program, "jit_denoise") && slice_is(rows[0].scope, "jit(denoise)/single/while/body"));
    CHECK(rows[0].runs == 20 && rows[0].iteration_ps == 1278 && rows[0].execution_ps == 20 * 1278);
    CHECK(rows[0].operations == 1 && rows[0].occurrences == 40 && rows[0].self_ps == 40 * 1278);
    CHECK_NEAR(rows[0].share, 40 * 1278 / self, 1e-15);
    CHECK_NEAR(rows[0].flop_share, 0.8, 1e-15); // twenty of twenty-five
    // All that runs once, on average over the three executions; two kernels of one operation are no loop.
    CHECK(rows[1].runs == 1 && !rows[1].scope.size && rows[1].self_ps == 2 * 14200 + 200);
    CHECK_NEAR(rows[1].execution_ps, (2 * 14200 + 200) / 3.0, 1e-9);
    CHECK(rows[2].runs == 5 && rows[2].operations == 2 && rows[2].iteration_ps == 1342);
    CHECK_NEAR(rows[2].flop_share, 0.2, 1e-15);
    CHECK_NEAR(rows[0].step_ps * (double)s.n, 40 * 1278, 1e-9);
    REQUIRE_OK(trace_scopes(&s, &o, SCOPES_BY_NAME, &rows, &n, &e), &e);
    REQUIRE(n == 4);
    CHECK(slice_is(rows[1].scope, "jit(denoise)/embed") && rows[1].runs == 1 && !rows[1].program.size);
    CHECK(slice_is(rows[2].scope, "jit(denoise)/double/while/body/add") && rows[2].iteration_ps == 742);
    CHECK(rows[3].iteration_ps == 600 && rows[3].execution_ps == 3000);
    trace_ops_release(&o);
    done(&t, &s);
}

TEST(trace_steps_tell_damage_once)
{
    struct error e = {0};
    struct threads *threads;
    REQUIRE_OK(threads_new(&threads, 2, &e), &e);
    for (int with_ops = 0; with_ops < 3; with_ops++) {
        struct trace t;
        struct trace_steps s = {0};
        struct trace_ops o = {0};
        struct trace_summary all = {0};
        struct made m;
        made_begin(&m);
        made_plane(&m, "/device:TPU:0");
        made_line(&m, "XLA Modules", 0);
        made_event(&m, "jit_f(7)", 0, 100);
        made_line(&m, "XLA Ops", 0);
        str_add_n(&m.file, "\x22\x02\x08\x80", 4); // an event whose number does not end
        made_event(&m, "%a = ...", 10, 50);
        const char *path = made_end(&m, "damaged");
        REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
        CHECK(!t.files[0].space.damage.what);
        REQUIRE_OK(with_ops == 2 ? trace_summary(&t, threads, &all, &e)
                                 : trace_steps(&t, NULL, threads, with_ops ? &o : NULL, &s, &e),
                   &e);
        CHECK_STR(t.files[0].space.damage.where, "planes.lines.events");
        CHECK_INT(t.files[0].space.damage.count, 1);
        CHECK(with_ops != 2 || (all.events == 3 && all.devices[0].busy.busy_ps == 50 + 0));
        CHECK(with_ops != 1 || o.n_rows == 2); // what is left of the event is one without a row
        trace_summary_release(&all);
        trace_ops_release(&o);
        done(&t, &s);
    }
    threads_free(threads);
}

TEST(trace_steps_of_a_host_alone)
{
    struct error e;
    struct trace t;
    struct trace_steps s;
    struct made m;
    made_begin(&m);
    made_plane(&m, "/host:CPU");
    made_line(&m, "main", 0);
    for (int64_t at = 0; at < 300; at += 100) {
        made_event(&m, "precision_case", at, 90);
        made_event(&m, "execute", at + 10, 50);
    }
    made_line(&m, "kernels", 0);
    made_event(&m, "kernel", 20, 60);
    REQUIRE_OK(read_steps(&t, &s, made_end(&m, "host"), NULL, &e), &e);
    CHECK(s.rule == RULE_MARKER && s.n == 3 && s.modules.devices.n == 1);
    adds_up(&s);
    CHECK(s.items[0].busy_ps == 70 && s.items[1].busy_ps == 50 && s.items[1].duration_ps == 100);
    CHECK_INT(s.items[1].idle_ps, 50);
    done(&t, &s);
}

// No recorded profile has a marker, and other tools find no step in any of them. What is right was found by looking at
// the operations in their order:
// - 4 x v6e: after four small programs each chip runs jit_f 100 times, right one after the other. 100 steps a chip.
// - MI300X, products: jit_dot is compiled for six shapes and called three times for each; before each shape two inputs
//   are made by other programs. 18 steps on the one GPU that runs; every third one has the making of the next inputs.
// - MI300X, convolutions: jit_forward_3d_conv is called five times, each time on all eight GPUs (five dispatches of
//   eight executions on the host), copies of inputs between them. On one GPU two kernels of the second call lost their
//   operation's name. 5 steps a GPU.
// - 2 x GTX 1080 Ti: one kernel on each GPU, one call of reactant_fn. One step.
TEST(trace_steps_of_recorded_profiles)
{
    static const struct {
        const char *file, *program;
        enum trace_rule rule;
        size_t devices, steps; // with steps; of each
    } known[] = {
        {"tpu-v6e-4chip-inference.xplane.pb.gz", "jit_f", RULE_REPEATED, 4, 100},
        {"gpu-mi300x-jax-gemm.xplane.pb", "jit_dot", RULE_REPEATED, 1, 18},
        {"gpu-mi300x-jax-conv.xplane.pb.gz", "jit_forward_3d_conv", RULE_REPEATED, 8, 5},
        {"gpu-gtx1080ti-2x.xplane.pb", "reactant_fn", RULE_SINGLE, 2, 1},
        {"cpu-small.xplane.pb", "", RULE_NONE, 0, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct error e;
        struct trace t;
        struct trace_steps s;
        char path[1024];
        snprintf(path, sizeof path, "%s/tests/fixtures/traces/%s", test_top(), known[i].file);
        REQUIRE_OK(read_steps(&t, &s, path, NULL, &e), &e);
        CHECK(s.rule == known[i].rule && slice_is(s.program, known[i].program));
        size_t devices = 0;
        for (size_t d = 0; d < s.modules.devices.n; d++) {
            if (!s.of_device[d].n_steps)
                continue;
            devices++;
            CHECK_INT(s.of_device[d].n_steps, known[i].steps);
        }
        CHECK_INT(devices, known[i].devices);
        adds_up(&s);
        done(&t, &s);
    }
}

TEST(trace_summary_duty_equals_xprof)
{
    struct error e = {0};
    struct trace t;
    struct trace_summary s;
    char path[1024];
    const char *paths[] = {path};
    snprintf(path, sizeof path, "%s/tests/fixtures/traces/tpu-v6e-4chip-inference.xplane.pb.gz", test_top());
    REQUIRE_OK(trace_open(&t, paths, 1, &e), &e);
    REQUIRE_OK(trace_summary(&t, NULL, &s, &e), &e);
    CHECK_NEAR(100 * s.duty, 86.5, 0.5); // XProf's duty cycle, shown with one decimal
    CHECK_NEAR(100 * (1 - s.duty), 13.365, 0.001);
    int64_t busy = 0, span = 0;
    for (size_t i = 0; i < s.n_devices; i++) {
        busy += s.devices[i].busy.busy_ps;
        span += s.devices[i].busy.last_ps - s.devices[i].busy.first_ps;
    }
    CHECK(busy == 315117903706250 && span == 363729698768750); // recomputed from the file by others
    CHECK_INT(s.events, 26723);
    CHECK(s.n_planes == 7 && s.n_advice == 3);
    trace_summary_release(&s);
    trace_close(&t);
}

TEST(trace_summary_warns)
{
    struct error e = {0};
    struct trace t;
    struct trace_summary s;
    struct made m;
    made_begin(&m);
    made_note(&m, 2, "tracer \"x\" failed");
    made_note(&m, 3, "dropped 12 events");
    made_plane(&m, "/host:CPU");
    made_line(&m, "main", 0);
    made_event(&m, "a", 0, 10);
    const char *path = made_end(&m, "warned");
    REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
    REQUIRE_OK(trace_summary(&t, NULL, &s, &e), &e);
    REQUIRE(s.n_warnings == 3);
    CHECK_STR(s.warnings[0], "warned: error of the capture: tracer \"x\" failed");
    CHECK_STR(s.warnings[1], "warned: warning of the capture: dropped 12 events");
    CHECK(isnan(s.duty) && s.n_advice == 0 && s.steps.rule == RULE_NONE);
    trace_summary_release(&s);
    trace_close(&t);
}
