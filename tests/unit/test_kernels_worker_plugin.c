// SPDX-License-Identifier: Apache-2.0
// Kernels in a worker: announced when they are there, with the reason when not, and no mistake in a call ends it.
#include <stdlib.h>

#include "base/file.h"
#include "ir/builder.h"
#include "ir/hlo_cost.h"
#include "kernels/choose.h"
#include "lab/subject.h"
#include "worker_test.h"

static bool onednn_is_here(void)
{
    struct str path;
    struct error err = {0};
    str_init(&path);
    bool here = worker_find_onednn(&path, &err) == 0;
    str_release(&path);
    if (!here)
        test_skip("oneDNN is not here (scripts/setup fetches it)");
    return here;
}

static struct worker *start(bool kernels)
{
    struct worker *w;
    struct error err = {0};
    struct worker_options o = {.device = "cpu", .label = "test", .kernels = kernels, .threads = 1};
    if (worker_start(&w, &o, &err) == 0)
        return w;
    test_fail_error(__FILE__, __LINE__, "worker_start", err.where, err.message);
    worker_stop(w);
    return NULL;
}

TEST(kernels_worker_announces_them_plugin)
{
    if (!onednn_is_here())
        return;
    struct worker *w = start(true);
    REQUIRE(w);
    const struct worker_info *i = worker_info(w);
    CHECK(i->kernels && strncmp(i->kernels, "oneDNN 3.", 9) == 0 && strstr(i->kernels, "1 thread"));
    CHECK(!i->no_kernels);
    worker_stop(w);
    w = start(false);
    REQUIRE(w);
    CHECK(!worker_info(w)->kernels && !worker_info(w)->no_kernels);
    worker_stop(w);
}

TEST(kernels_worker_without_onednn_plugin)
{
    setenv("ASSAY_ONEDNN_PATH", "/nowhere/libdnnl.so.3", 1);
    struct worker *w = start(true);
    REQUIRE(w);
    CHECK(!worker_info(w)->kernels);
    CHECK(worker_info(w)->no_kernels && strstr(worker_info(w)->no_kernels, "/nowhere/libdnnl.so.3"));
    struct error err = {0};
    CHECK(worker_test_compile_add(w, &err) >= 0);
    worker_stop(w);

    setenv("ASSAY_ONEDNN_PATH", pjrt_test_plugin(false), 1); // a library, but another
    w = start(true);
    REQUIRE(w);
    CHECK(!worker_info(w)->kernels);
    CHECK(worker_info(w)->no_kernels && strstr(worker_info(w)->no_kernels, "is not oneDNN 3"));
    worker_stop(w);
}

struct wrong_call {
    enum dtype x, w, out;
    int64_t k_of_w;
    const char *attributes;
};

static int make_call(struct module *m, const struct wrong_call *c, struct error *err)
{
    struct builder b;
    struct kernel_call call = {
        .target = kernel_target(KERNEL_PRODUCT), .attributes = c->attributes, .product_type = DT_F32};
    builder_init(&b, m);
    builder_scope(&b, "product", "product");
    int operands[2] = {build_parameter(&b, ROLE_INPUT, "x", SHAPE(c->x, 4, 8), NULL),
                       build_parameter(&b, ROLE_INPUT, "w", SHAPE(c->w, 6, c->k_of_w), NULL)};
    struct instruction in = {
        .op = OP_KERNEL, .shape = SHAPE(c->out, 4, 6), .operands = operands, .n_operands = 2, .kernel = &call};
    build_result(&b, "y", builder_append(&b, &in));
    return builder_finish(&b, err);
}

// What a kernel did is in a span of its own, on a thread of its own.
static void check_spans(struct worker *w, const char *kernel, const char *caller)
{
    struct worker_span *spans;
    struct error err = {0};
    size_t n;
    uint64_t dropped;
    uint32_t kernels = 0, callers = 0;
    REQUIRE_OK(worker_spans(w, &spans, &n, &dropped, &err), &err);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(spans[i].name, kernel) == 0)
            kernels = spans[i].tid;
        if (strcmp(spans[i].name, caller) == 0)
            callers = spans[i].tid;
    }
    CHECK(kernels != 0 && callers != kernels);
    free(spans);
}

// What no program of ours holds is an error of the execution, and not the end of the worker.
TEST(kernels_worker_survives_wrong_calls_plugin)
{
    static const struct wrong_call wrong[] = {
        {DT_BF16, DT_BF16, DT_F32, 9, "rows_are_outputs = 1 : i64, scales = 0 : i64"},
        {DT_F32, DT_BF16, DT_F32, 8, "rows_are_outputs = 1 : i64, scales = 0 : i64"},
        {DT_BF16, DT_BF16, DT_F32, 8, "rows_are_outputs = 1 : i64, scales = 1 : i64"},
        {DT_F64, DT_F64, DT_F64, 8, "rows_are_outputs = 1 : i64, scales = 0 : i64"},
        {DT_BF16, DT_U8, DT_F32, 4, "rows_are_outputs = 1 : i64, packed = 0 : i64"},
        {DT_BF16, DT_U8, DT_F32, 8, "rows_are_outputs = 1 : i64, packed = 1 : i64"},
        {DT_BF16, DT_S8, DT_F32, 4, "rows_are_outputs = 1 : i64, packed = 1 : i64"},
        {DT_F32, DT_U8, DT_F32, 4, "rows_are_outputs = 1 : i64, packed = 1 : i64"},
        {DT_BF16, DT_U8, DT_F32, 4, "rows_are_outputs = 1 : i64, packed = 1 : i64, scales = 4 : i64"},
        {DT_BF16, DT_BF16, DT_F32, 8, "rows_are_outputs = 1 : i64, adds = 1 : i64"},
        {DT_BF16, DT_BF16, DT_F32, 8, "rows_are_outputs = 1 : i64, adds = 2 : i64"},
        {DT_BF16, DT_BF16, DT_F32, 8, "rows_are_outputs = 1 : i64, adds = 4 : i64"},
        {DT_BF16, DT_BF16, DT_F32, 8, "rows_are_outputs = 1 : i64"}, // this one is right, and that
        {DT_BF16, DT_U8, DT_F32, 4, "rows_are_outputs = 1 : i64, packed = 1 : i64"},
    };
    const size_t n = sizeof wrong / sizeof *wrong;
    if (!onednn_is_here())
        return;
    struct worker *w = start(true);
    REQUIRE(w);
    for (size_t i = 0; i < n; i++) {
        struct arena arena;
        struct module m;
        struct str text;
        struct error err = {0};
        static const double zeros[256];
        arena_init(&arena);
        str_init(&text);
        module_init(&m, &arena, "call");
        REQUIRE_OK(make_call(&m, &wrong[i], &err), &err);
        REQUIRE_OK(module_print(&m, &text, &err), &err);
        struct worker_shape shapes[2] = {{wrong[i].x, 2, {4, 8}}, {wrong[i].w, 2, {6, wrong[i].k_of_w}}};
        struct worker_program p = {
            .text = text.text, .length = text.length, .format = "mlir", .name = "call", .n_args = 2, .args = shapes};
        struct worker_executable e;
        REQUIRE_OK(worker_compile(w, &p, &e, &err), &err);
        int args[2], out = -1;
        for (int k = 0; k < 2; k++) {
            struct worker_tensor t = {.fd = -1, .shape = shapes[k], .name = "x"};
            size_t bytes = (size_t)(shapes[k].dims[0] * shapes[k].dims[1] * dtype_bits(shapes[k].dtype) / 8);
            REQUIRE_OK(worker_upload_bytes(w, zeros, bytes, &t, &args[k], NULL, &err), &err);
        }
        int rc = worker_execute(w, e.id, args, 2, &out, 1, NULL, &err);
        CHECK_INT(rc, i + 2 < n ? ERR_DEVICE : 0);
        CHECK(!worker_failure(w));
        worker_executable_release(&e);
        str_release(&text);
        arena_release(&arena);
    }
    check_spans(w, "kernel: product", "run the program");
    worker_stop(w);
}

// A subject whose worker has kernels runs the calls, and counts them; one whose worker has none is as it was.
TEST(kernels_subject_uses_them_plugin)
{
    if (!onednn_is_here())
        return;
    for (int with = 0; with < 2; with++) {
        struct arena arena;
        struct module m;
        struct builder b;
        struct subject s;
        struct str words;
        struct error err = {0};
        struct worker_options o = {.device = "cpu", .kernels = with};
        arena_init(&arena);
        str_init(&words);
        module_init(&m, &arena, "products");
        builder_init(&b, &m);
        builder_scope(&b, "product", "product");
        int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, 256, 256), NULL);
        int y = build_linear(&b, x, x, DT_F32);                            // large enough
        y = build_linear(&b, build_slice_axis(&b, y, 0, 0, 4), x, DT_F32); // not worth a call
        build_result(&b, "y", y);
        REQUIRE_OK(builder_finish(&b, &err), &err);
        REQUIRE_OK(subject_open_module(&s, &m, NULL, "products", &o, &err), &err);
        CHECK_INT(s.kernels.count[KERNEL_PRODUCT], with);
        CHECK((strstr(str_text(&s.text), "assay.product") != NULL) == with);
        subject_kernels_text(&s, &words);
        CHECK((strncmp(str_text(&words), "1 product (oneDNN", 17) == 0) == with);
        // What XLA made of it is priced as if there were no calls: 2 * 256^3, and 2 * 4 * 256^2.
        struct hlo_module hlo;
        struct hlo_costs costs;
        REQUIRE(s.program.optimized);
        REQUIRE_OK(hlo_read(&hlo, s.program.optimized, s.program.optimized_length, "hlo", &arena, &err), &err);
        REQUIRE_OK(hlo_costs_init(&costs, &hlo, &arena, &err), &err);
        CHECK_NEAR(hlo_cost_product_flop(hlo_cost_module(&costs)), 2 * 0x1p24 + 2 * 4 * 0x1p16, 0);
        CHECK(!hlo_cost_module(&costs)->flop_reason);
        str_release(&words);
        subject_close(&s);
        arena_release(&arena);
    }
}
