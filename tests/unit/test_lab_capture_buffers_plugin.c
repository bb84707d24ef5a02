// SPDX-License-Identifier: Apache-2.0
// The buffer assignment of a program that ran, and what happens where there is none.
#include "lab/capture_buffers.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "lab/capture.h"
#include "trace/heap.h"
#include "trace/run.h"
#include "trace/session.h"
#include "worker_test.h"

// Two products, so that something lies between them; %s is what is done to the first.
#define TEXT(op)                                                                                                       \
    "module @two { func.func public @main(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {\n"      \
    "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> "     \
    "tensor<64x64xf32>\n"                                                                                              \
    "%1 = stablehlo." op " %0 : tensor<64x64xf32>\n"                                                                   \
    "%2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> "     \
    "tensor<64x64xf32>\n"                                                                                              \
    "return %2 : tensor<64x64xf32> } }"

struct case_of {
    struct worker *w;
    struct worker_program source;
    struct worker_executable program;
    int args[2];
};

static struct worker_program program_of(const char *text)
{
    static struct worker_shape shapes[2] = {{DT_F32, 2, {64, 64}}, {DT_F32, 2, {64, 64}}};
    return (struct worker_program){.text = text,
                                   .length = strlen(text),
                                   .format = "mlir",
                                   .name = "two",
                                   .want_optimized = true,
                                   .n_args = 2,
                                   .args = shapes};
}

static bool open_case(struct case_of *c, const char *fault)
{
    static const float zeros[64 * 64];
    struct error err = {0};
    *c = (struct case_of){.source = program_of(TEXT("cosine"))};
    c->w = worker_test_start(fault ? pjrt_test_beside("faulty_plugin.so") : NULL, fault);
    if (!c->w)
        return false;
    if (worker_compile(c->w, &c->source, &c->program, &err) != 0) {
        test_fail_error(__FILE__, __LINE__, "worker_compile", err.where, err.message);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        struct worker_tensor t = {.fd = -1, .shape = c->source.args[i], .name = "zeros"};
        if (worker_upload_bytes(c->w, zeros, sizeof zeros, &t, &c->args[i], NULL, &err) != 0)
            return false;
    }
    return true;
}

static void close_case(struct case_of *c)
{
    worker_executable_release(&c->program);
    worker_stop(c->w);
}

static struct capture_steps steps_of(const struct case_of *c)
{
    return (struct capture_steps){.worker = c->w,
                                  .program = &c->program,
                                  .source = &c->source,
                                  .args = c->args,
                                  .n_args = 2,
                                  .name = "case",
                                  .steps = 2};
}

// The profile is whole whatever became of the dump; what it is without stands in it and is told.
static void check_without(const char *fault, const char *why, bool dies)
{
    struct case_of s;
    struct capture c;
    struct error err = {0};
    REQUIRE(open_case(&s, fault));
    const struct capture_steps steps = steps_of(&s);
    REQUIRE_OK(capture_run(&c, &steps, &err), &err);
    REQUIRE(c.without_buffers);
    if (!CHECK(strstr(c.without_buffers, why)))
        test_fail_error(__FILE__, __LINE__, why, "", c.without_buffers);
    CHECK(strncmp(c.without_buffers, "the profile is without the buffers of case: ", 44) == 0);
    CHECK(c.events > 0 && memmem(c.space.text, c.space.length, c.without_buffers, strlen(c.without_buffers)));
    CHECK(!worker_failure(s.w) == !dies);
    capture_release(&c);
    close_case(&s);
}

static bool is_empty(const char *path)
{
    return rmdir(path) == 0 && mkdir(path, 0700) == 0;
}

// What the profile holds is replayed to the sizes that the plugin itself gives of the program.
TEST(lab_capture_buffers_plugin_are_in_the_profile)
{
    struct case_of s;
    struct capture c;
    struct error err = {0};
    char tmp[1024];
    struct str path;
    snprintf(tmp, sizeof tmp, "%s/tmp", test_dir());
    REQUIRE(mkdir(tmp, 0700) == 0 && setenv("TMPDIR", tmp, 1) == 0);
    REQUIRE(open_case(&s, NULL));
    struct capture_steps steps = steps_of(&s);
    steps.whole = true;
    REQUIRE_OK(capture_run(&c, &steps, &err), &err);
    CHECK(!c.without_buffers);
    CHECK(is_empty(tmp));
    str_init(&path);
    REQUIRE_OK(trace_run_write(test_dir(), c.epoch_ns, &c.space, &path, &err), &err);
    const char *const paths[] = {str_text(&path)};
    struct trace t;
    struct trace_heaps heaps;
    REQUIRE_OK(trace_open(&t, paths, 1, &err), &err);
    REQUIRE_OK(trace_heaps(&t, &heaps, &err), &err);
    REQUIRE(CHECK_INT(heaps.n_heaps, 1) && !heaps.damage);
    const struct trace_heap *h = &heaps.heaps[0];
    const struct worker_memory_plan *m = &s.program.memory;
    CHECK(slice_is(h->program, "two") && h->program_id == (uint64_t)s.program.id + 1 && !h->unknown);
    CHECK_INT(h->fixed_bytes + h->pool_bytes, m->arguments + m->outputs + m->temporaries - m->aliases);
    CHECK(h->fixed_bytes >= m->arguments + m->outputs && h->peak_bytes <= h->fixed_bytes + h->pool_bytes);
    CHECK(h->n_live > 0);
    trace_heaps_release(&heaps);
    trace_close(&t);
    str_release(&path);
    capture_release(&c);

    // The second compilation is no part of the profile, and its program is gone.
    struct worker_span *spans;
    uint64_t dropped;
    size_t n, compiled = 0, unloaded = 0;
    REQUIRE_OK(worker_spans(s.w, &spans, &n, &dropped, &err), &err);
    for (size_t i = 0; i < n; i++) {
        compiled += strcmp(spans[i].name, "compile") == 0;
        unloaded += strcmp(spans[i].name, "unload") == 0;
    }
    CHECK(compiled == 1 && unloaded == 1);
    free(spans);
    close_case(&s);
}

TEST(lab_capture_buffers_plugin_are_those_of_the_program_that_ran)
{
    struct case_of s;
    struct capture_buffers b;
    struct error err = {0};
    REQUIRE(open_case(&s, NULL));
    const struct slice ran = {(const uint8_t *)s.program.optimized, s.program.optimized_length};
    REQUIRE_OK(capture_buffers(&b, s.w, &s.source, ran, &err), &err);
    CHECK(b.assignment.length > 0 && !b.reason[0]);
    capture_buffers_release(&b);
    // The same name, the same shapes.
    const struct worker_program other = program_of(TEXT("sine"));
    REQUIRE_OK(capture_buffers(&b, s.w, &other, ran, &err), &err);
    CHECK(!b.assignment.length && strstr(b.reason, "not the program that ran"));
    capture_buffers_release(&b);
    // What is no program at all, and what cannot be compiled.
    REQUIRE_OK(capture_buffers(&b, s.w, &s.source, (struct slice){(const uint8_t *)"no", 2}, &err), &err);
    CHECK(!b.assignment.length && strstr(b.reason, "no HLO module"));
    capture_buffers_release(&b);
    const struct worker_program wrong = program_of("nothing");
    REQUIRE_OK(capture_buffers(&b, s.w, &wrong, ran, &err), &err);
    CHECK(!b.assignment.length && b.reason[0] && !worker_failure(s.w));
    capture_buffers_release(&b);
    close_case(&s);
}

TEST(lab_capture_buffers_plugin_that_cannot_be_had_are_a_warning)
{
    check_without("error-dump", "No such compile option", false);
    check_without("abort-dump", "signal 6", true);
    check_without("no-optimized", "does not hand the optimised program over", false);
    char tmp[1024];
    snprintf(tmp, sizeof tmp, "%s/none", test_dir());
    REQUIRE(setenv("TMPDIR", tmp, 1) == 0);
    check_without(NULL, "none/assay-dump-", false);
}

TEST(lab_capture_buffers_plugin_on_a_full_disk)
{
    char disk[1024];
    snprintf(disk, sizeof disk, "%s/disk", test_dir());
    mkdir(disk, 0777);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", disk, "tmpfs", 0, "size=4k") != 0)
        return; // needs to be root
    REQUIRE(setenv("TMPDIR", disk, 1) == 0);
    check_without(NULL, "the compiler wrote none", false);
    CHECK(umount(disk) == 0);
}
