// SPDX-License-Identifier: Apache-2.0
// Several virtual devices of one CPU: replicas, partitions, collectives.
#include <stdlib.h>

#include "pjrt_test.h"

#define DEVICES 8

static void free_all(struct buffer **buffers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buffer_free(buffers[i]);
}

// The sum over all replicas, many times over: a pool of too few threads would hang here.
PLUGIN_TEST(devices_all_reduce)
{
    static const char module[] = "func.func public @main(%a: tensor<16xf32>) -> tensor<16xf32> {\n"
                                 "  %0 = \"stablehlo.all_reduce\"(%a) ({\n"
                                 "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
                                 "    %1 = stablehlo.add %x, %y : tensor<f32>\n"
                                 "    stablehlo.return %1 : tensor<f32>\n"
                                 "  }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : "
                                 "(tensor<16xf32>) -> tensor<16xf32>\n"
                                 "  return %0 : tensor<16xf32>\n"
                                 "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, path, DEVICES));
    struct program *p = rig_compile(&r, module, &(struct compile_options){.num_replicas = DEVICES});
    REQUIRE(p);
    CHECK_INT(program_info(p)->num_replicas, DEVICES);
    REQUIRE(program_info(p)->device_count == DEVICES);
    struct buffer *args[DEVICES], *outs[DEVICES];
    for (size_t d = 0; d < DEVICES; d++) {
        float x[16];
        for (int i = 0; i < 16; i++)
            x[i] = (float)(1 << d) + (float)(i * 1000);
        args[d] = rig_upload(&r, d, x, DT_F32, 1, DIMS(16));
        REQUIRE(args[d]);
    }
    struct launch *l;
    REQUIRE_OK(launch_new(&l, p, args, 1, &r.err), &r.err);
    uint64_t ns[50];
    size_t done;
    REQUIRE_OK(launch_time(l, 50, ns, &done, &r.err), &r.err);
    CHECK_INT(done, 50);
    REQUIRE_OK(launch_run(l, outs, &r.err), &r.err);
    launch_free(l);
    for (size_t d = 0; d < DEVICES; d++) {
        float y[16];
        CHECK_INT(buffer_device(outs[d]), d);
        REQUIRE_OK(buffer_to_host(outs[d], y, sizeof y, &r.err), &r.err);
        for (int i = 0; i < 16; i++)
            CHECK(y[i] == 255.0f + (float)(i * 8000)); // exact in f32, in any order
    }
    free_all(outs, DEVICES);
    free_all(args, DEVICES);
    program_free(p);
    rig_close(&r);
}

// Each replica knows its number; the assignment decides which device has it.
PLUGIN_TEST(devices_assignment)
{
    static const char module[] = "func.func public @main() -> tensor<ui32> {\n"
                                 "  %0 = stablehlo.replica_id : tensor<ui32>\n"
                                 "  return %0 : tensor<ui32>\n"
                                 "}\n";
    static const int ids[4] = {5, 2, 7, 0};
    struct rig r;
    REQUIRE(rig_open(&r, path, DEVICES));
    struct program *p = rig_compile(&r, module, &(struct compile_options){.num_replicas = 4, .device_ids = ids});
    REQUIRE(p);
    REQUIRE(program_info(p)->device_count == 4);
    struct buffer *outs[4];
    REQUIRE_OK(program_execute(p, NULL, 0, outs, &r.err), &r.err);
    for (size_t i = 0; i < 4; i++) {
        uint32_t replica;
        REQUIRE_OK(buffer_to_host(outs[i], &replica, sizeof replica, &r.err), &r.err);
        REQUIRE(replica < 4);
        CHECK_INT(program_info(p)->device_ids[i], ids[replica]);
        CHECK_INT(buffer_device(outs[i]), ids[replica]);
    }
    free_all(outs, 4);
    program_free(p);
    rig_close(&r);
}

// A program for one device, on another than the first.
PLUGIN_TEST(devices_one_of_many)
{
    static const char module[] = "func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
                                 "  %0 = stablehlo.negate %a : tensor<2xf32>\n"
                                 "  return %0 : tensor<2xf32>\n"
                                 "}\n";
    static const int id = 3;
    struct rig r;
    REQUIRE(rig_open(&r, path, DEVICES));
    struct program *p = rig_compile(&r, module, &(struct compile_options){.device_ids = &id});
    REQUIRE(p);
    REQUIRE(program_info(p)->device_count == 1);
    CHECK_INT(program_info(p)->device_ids[0], 3);
    float x[2] = {1, -2}, y[2];
    struct buffer *here = rig_upload(&r, 3, x, DT_F32, 1, DIMS(2)), *first = rig_upload(&r, 0, x, DT_F32, 1, DIMS(2));
    struct buffer *out;
    REQUIRE(here && first);
    CHECK_ERROR(program_execute(p, &first, 1, &out, &r.err), ERR_USAGE, "on device 0, the program wants it on device 3",
                &r.err);
    REQUIRE_OK(program_execute(p, &here, 1, &out, &r.err), &r.err);
    CHECK_INT(buffer_device(out), 3);
    REQUIRE_OK(buffer_to_host(out, y, sizeof y, &r.err), &r.err);
    CHECK(y[0] == -1 && y[1] == 2);
    buffer_free(out);
    buffer_free(first);
    buffer_free(here);
    program_free(p);
    rig_close(&r);
}

// C = A B with A [16,32] and B [32,8]: A's columns and B's rows are spread over 8 devices, C is whole on each. XLA puts
// the sum over the devices in. Small integers, so that every order of summation gives the same f32.
static void sharded_product(const char *path, const char *module, bool shardy)
{
    enum { M = 16, K = 32, N = 8, PART = K / DEVICES };
    struct rig r;
    REQUIRE(rig_open(&r, path, DEVICES));
    struct array_type parameters[2] = {{DT_F32, 2, {M, PART}}, {DT_F32, 2, {PART, N}}};
    struct compile_options options = {.num_partitions = DEVICES,
                                      .use_spmd_partitioning = true,
                                      .use_shardy = shardy,
                                      .parameters = parameters,
                                      .parameter_count = 2,
                                      .check_parameters = true};
    struct program *p = rig_compile(&r, module, &options);
    REQUIRE(p);
    CHECK_INT(program_info(p)->num_partitions, DEVICES);
    REQUIRE(program_info(p)->output_count == 1 && program_info(p)->outputs);
    CHECK(array_type_equal(&program_info(p)->outputs[0], &(struct array_type){DT_F32, 2, {M, N}}));
    float a[M][K], b[K][N];
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            a[i][k] = (float)((i * 7 + k * 3) % 11 - 5);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            b[k][j] = (float)((k * 5 + j) % 13 - 6);
    struct buffer *args[DEVICES * 2], *outs[DEVICES];
    for (size_t d = 0; d < DEVICES; d++) {
        float part[M][PART];
        for (int i = 0; i < M; i++)
            for (int k = 0; k < PART; k++)
                part[i][k] = a[i][(int)d * PART + k];
        args[2 * d] = rig_upload(&r, d, part, DT_F32, 2, DIMS(M, PART));
        args[2 * d + 1] = rig_upload(&r, d, b[d * PART], DT_F32, 2, DIMS(PART, N));
        REQUIRE(args[2 * d] && args[2 * d + 1]);
    }
    REQUIRE_OK(program_execute(p, args, 2, outs, &r.err), &r.err);
    for (size_t d = 0; d < DEVICES; d++) {
        float y[M][N];
        REQUIRE_OK(buffer_to_host(outs[d], y, sizeof y, &r.err), &r.err);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float sum = 0;
                for (int k = 0; k < K; k++)
                    sum += a[i][k] * b[k][j];
                CHECK(y[i][j] == sum);
            }
    }
    struct str text;
    str_init(&text);
    char format[32];
    REQUIRE_OK(program_optimized(p, &text, format, &r.err), &r.err);
    CHECK(memmem(text.text, text.length, "all-reduce", 10) != NULL);
    str_release(&text);
    free_all(outs, DEVICES);
    free_all(args, (size_t)DEVICES * 2);
    program_free(p);
    rig_close(&r);
}

PLUGIN_TEST(devices_sharded_product)
{
    sharded_product(path,
                    "module @m attributes {mhlo.num_partitions = 8 : i32} {\n"
                    "  func.func public @main(%a: tensor<16x32xf32> {mhlo.sharding = \"{devices=[1,8]<=[8]}\"},\n"
                    "                         %b: tensor<32x8xf32> {mhlo.sharding = \"{devices=[8,1]<=[8]}\"})\n"
                    "      -> (tensor<16x8xf32> {mhlo.sharding = \"{replicated}\"}) {\n"
                    "    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]\n"
                    "      : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>\n"
                    "    return %0 : tensor<16x8xf32>\n"
                    "  }\n"
                    "}\n",
                    false);
}

PLUGIN_TEST(devices_sharded_product_shardy)
{
    sharded_product(
        path,
        "module @m attributes {mhlo.num_partitions = 8 : i32} {\n"
        "  sdy.mesh @mesh = <[\"x\"=8]>\n"
        "  func.func public @main(%a: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"x\"}]>},\n"
        "                         %b: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>})\n"
        "      -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {\n"
        "    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]\n"
        "      : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>\n"
        "    return %0 : tensor<16x8xf32>\n"
        "  }\n"
        "}\n",
        true);
}

// The result stays spread: each device reports and holds its own part.
PLUGIN_TEST(devices_sharded_output)
{
    static const char module[] =
        "module @m attributes {mhlo.num_partitions = 8 : i32} {\n"
        "  func.func public @main(%a: tensor<32x4xf32> {mhlo.sharding = \"{devices=[8,1]<=[8]}\"})\n"
        "      -> (tensor<32x4xf32> {mhlo.sharding = \"{devices=[8,1]<=[8]}\"}) {\n"
        "    %0 = stablehlo.add %a, %a : tensor<32x4xf32>\n"
        "    return %0 : tensor<32x4xf32>\n"
        "  }\n"
        "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, path, DEVICES));
    struct program *p =
        rig_compile(&r, module, &(struct compile_options){.num_partitions = DEVICES, .use_spmd_partitioning = true});
    REQUIRE(p);
    REQUIRE(program_info(p)->outputs);
    CHECK(array_type_equal(&program_info(p)->outputs[0], &(struct array_type){DT_F32, 2, {4, 4}}));
    struct buffer *args[DEVICES], *outs[DEVICES];
    for (size_t d = 0; d < DEVICES; d++) {
        float x[16];
        for (int i = 0; i < 16; i++)
            x[i] = (float)((int)d * 16 + i);
        args[d] = rig_upload(&r, d, x, DT_F32, 2, DIMS(4, 4));
        REQUIRE(args[d]);
    }
    REQUIRE_OK(program_execute(p, args, 1, outs, &r.err), &r.err);
    for (size_t d = 0; d < DEVICES; d++) {
        float y[16];
        REQUIRE_OK(buffer_to_host(outs[d], y, sizeof y, &r.err), &r.err);
        for (int i = 0; i < 16; i++)
            CHECK(y[i] == 2 * (float)((int)d * 16 + i));
    }
    free_all(outs, DEVICES);
    free_all(args, DEVICES);
    program_free(p);
    rig_close(&r);
}
