// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "pjrt_test.h"

static const char identity[] = "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "  return %a : tensor<4xf32>\n"
                               "}\n";

static long faulty_live(void)
{
    void *library = dlopen(pjrt_test_beside("faulty_plugin.so"), RTLD_NOW | RTLD_NOLOAD);
    long (*live)(void);
    void *symbol = library ? dlsym(library, "faulty_live") : NULL;
    if (!symbol)
        return -1;
    memcpy(&live, &symbol, sizeof live);
    return live();
}

static const char two_outputs[] = "func.func public @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {\n"
                                  "  %0 = stablehlo.add %a, %a : tensor<4xf32>\n"
                                  "  %1 = stablehlo.multiply %a, %a : tensor<4xf32>\n"
                                  "  return %0, %1 : tensor<4xf32>, tensor<4xf32>\n"
                                  "}\n";

// The plugin counts for itself: at every step our count and its count agree, and both come back to zero.
TEST(pjrt_plugin_everything_is_given_back)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "", 2));
    CHECK_INT(faulty_live(), 1);
    struct program *p = rig_compile(&r, two_outputs, &(struct compile_options){.num_replicas = 2});
    REQUIRE(p);
    float x[4] __attribute__((aligned(64))) = {1, 2, 3, 4}, y[4];
    struct buffer *args[2], *outs[4];
    args[0] = rig_upload(&r, 0, x, DT_F32, 1, DIMS(4));
    struct array_type type = {DT_F32, 1, {4}};
    REQUIRE_OK(buffer_from_host(&args[1], r.client, 1, x, &type, HOST_ZERO_COPY, &r.err), &r.err);
    CHECK_INT(faulty_live(), 1 + 2 + 1 + 2);
    CHECK_INT(pjrt_live_objects(), faulty_live());
    struct launch *l;
    REQUIRE_OK(launch_new(&l, p, args, 1, &r.err), &r.err);
    REQUIRE_OK(launch_time(l, 10, NULL, NULL, &r.err), &r.err);
    CHECK_INT(pjrt_live_objects(), faulty_live());
    REQUIRE_OK(launch_run(l, outs, &r.err), &r.err);
    CHECK_INT(faulty_live(), 6 + 4);
    CHECK_INT(pjrt_live_objects(), faulty_live());
    REQUIRE_OK(buffer_to_host(outs[3], y, sizeof y, &r.err), &r.err);
    REQUIRE_OK(buffer_await(outs[0], &r.err), &r.err);
    CHECK(y[3] == 16);
    CHECK_INT(faulty_live(), 6 + 4);
    launch_free(l);
    for (int i = 0; i < 4; i++)
        buffer_free(outs[i]);
    buffer_free(args[0]);
    buffer_free(args[1]);
    program_free(p);
    CHECK_INT(faulty_live(), 1);
    rig_close(&r);
    CHECK_INT(faulty_live(), 0);
}

static void check_nothing_left(struct rig *r)
{
    rig_close(r);
    CHECK_INT(faulty_live(), 0);
}

TEST(pjrt_plugin_compile_out_of_memory)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "oom-compile", 1));
    struct program *p;
    int rc = program_compile(&p, r.client, identity, strlen(identity), "mlir", NULL, &r.err);
    CHECK(!p);
    CHECK(strstr(r.err.message, "16.08G of 15.75G") != NULL);
    CHECK_ERROR(rc, ERR_DEVICE, "out of memory on the device", &r.err);
    check_nothing_left(&r);
}

// A message longer than ours can be is cut, not overrun.
TEST(pjrt_plugin_compile_long_message)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "error-compile", 1));
    struct program *p;
    int rc = program_compile(&p, r.client, identity, strlen(identity), "mlir", NULL, &r.err);
    CHECK(strlen(r.err.message) < sizeof r.err.message);
    CHECK_ERROR(rc, ERR_DEVICE, "INTERNAL: xxxx", &r.err);
    check_nothing_left(&r);
}

TEST(pjrt_plugin_upload_out_of_memory)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "oom-buffer", 1));
    float x[4] = {0};
    struct buffer *b;
    struct array_type type = {DT_F32, 1, {4}};
    int rc = buffer_from_host(&b, r.client, 0, x, &type, HOST_COPY, &r.err);
    CHECK(!b);
    CHECK_ERROR(rc, ERR_DEVICE, "out of memory on the device", &r.err);
    check_nothing_left(&r);
}

TEST(pjrt_plugin_execute_fails)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "error-execute", 1));
    struct program *p = rig_compile(&r, two_outputs, NULL);
    float x[4] = {0};
    struct buffer *in = rig_upload(&r, 0, x, DT_F32, 1, DIMS(4)), *outs[2];
    REQUIRE(p && in);
    CHECK_ERROR(program_execute(p, &in, 1, outs, &r.err), ERR_DEVICE, "the device fell over", &r.err);
    CHECK(!outs[0] && !outs[1]);
    struct launch *l;
    REQUIRE_OK(launch_new(&l, p, &in, 1, &r.err), &r.err);
    size_t done = 9;
    CHECK_ERROR(launch_time(l, 5, NULL, &done, &r.err), ERR_DEVICE, "INTERNAL", &r.err);
    CHECK_INT(done, 0);
    launch_free(l);
    buffer_free(in);
    program_free(p);
    check_nothing_left(&r);
}

// The failure comes with the event, when outputs are there already: they go too.
TEST(pjrt_plugin_event_fails)
{
    struct rig r;
    REQUIRE(rig_open_faulty(&r, "error-await", 2));
    struct program *p = rig_compile(&r, two_outputs, &(struct compile_options){.num_replicas = 2});
    float x[4] __attribute__((aligned(64))) = {0};
    struct array_type type = {DT_F32, 1, {4}};
    struct buffer *args[2], *outs[4], *refused;
    REQUIRE(p);
    for (size_t d = 0; d < 2; d++) // zero copy waits for nothing
        REQUIRE_OK(buffer_from_host(&args[d], r.client, d, x, &type, HOST_ZERO_COPY, &r.err), &r.err);
    CHECK_ERROR(buffer_from_host(&refused, r.client, 0, x, &type, HOST_COPY, &r.err), ERR_DEVICE, "ABORTED", &r.err);
    CHECK(!refused);
    CHECK_ERROR(program_execute(p, args, 1, outs, &r.err), ERR_DEVICE, "ABORTED", &r.err);
    CHECK(!outs[0] && !outs[3]);
    float y[4];
    CHECK_ERROR(buffer_to_host(args[0], y, sizeof y, &r.err), ERR_DEVICE, "ABORTED", &r.err);
    CHECK_ERROR(buffer_await(args[0], &r.err), ERR_DEVICE, "ABORTED", &r.err);
    buffer_free(args[0]);
    buffer_free(args[1]);
    program_free(p);
    check_nothing_left(&r);
}
