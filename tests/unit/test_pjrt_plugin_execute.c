// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/clock.h"
#include "pjrt_test.h"

static const char add[] = "func.func public @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
                          "  %0 = stablehlo.add %a, %b : tensor<8x8xf32>\n"
                          "  return %0 : tensor<8x8xf32>\n"
                          "}\n";
static const struct array_type square = {DT_F32, 2, {8, 8}};

static struct program *compile_checked(struct rig *r, const char *module, const struct array_type *parameters, size_t n)
{
    return rig_compile(
        r, module, &(struct compile_options){.parameters = parameters, .parameter_count = n, .check_parameters = true});
}

PLUGIN_TEST(execute_many_times)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = compile_checked(&r, add, (struct array_type[]){square, square}, 2);
    REQUIRE(p);
    float a[64], b[64], y[64];
    for (int i = 0; i < 64; i++) {
        a[i] = (float)i;
        b[i] = 0.5f;
    }
    struct buffer *args[2] = {rig_upload(&r, 0, a, DT_F32, 2, DIMS(8, 8)), rig_upload(&r, 0, b, DT_F32, 2, DIMS(8, 8))};
    REQUIRE(args[0] && args[1]);
    struct launch *l;
    REQUIRE_OK(launch_new(&l, p, args, 2, &r.err), &r.err);
    enum { RUNS = 500 };
    static uint64_t ns[RUNS];
    size_t done;
    uint64_t start_ns = clock_ns(), sum_ns = 0;
    REQUIRE_OK(launch_time(l, RUNS, ns, &done, &r.err), &r.err);
    uint64_t all_ns = clock_ns() - start_ns;
    CHECK_INT(done, RUNS);
    for (int i = 0; i < RUNS; i++) {
        CHECK(ns[i] > 0);
        sum_ns += ns[i];
    }
    CHECK(sum_ns <= all_ns); // the samples do not overlap
    REQUIRE_OK(launch_time(l, 0, ns, &done, &r.err), &r.err);
    CHECK_INT(done, 0);
    // The same launch gives results, too, and outputs stay what they are when it runs again.
    struct buffer *outs[2];
    REQUIRE_OK(launch_run(l, &outs[0], &r.err), &r.err);
    REQUIRE_OK(launch_run(l, &outs[1], &r.err), &r.err);
    launch_free(l);
    for (int k = 0; k < 2; k++) {
        CHECK(array_type_equal(buffer_type(outs[k]), &square));
        REQUIRE_OK(buffer_to_host(outs[k], y, sizeof y, &r.err), &r.err);
        for (int i = 0; i < 64; i++)
            CHECK(y[i] == (float)i + 0.5f);
    }
    // An output is an argument like any other.
    struct buffer *sum, *more[2] = {outs[0], outs[1]};
    REQUIRE_OK(program_execute(p, more, 2, &sum, &r.err), &r.err);
    REQUIRE_OK(buffer_to_host(sum, y, sizeof y, &r.err), &r.err);
    CHECK(y[63] == 127);
    buffer_free(sum);
    for (int k = 0; k < 2; k++) {
        buffer_free(outs[k]);
        buffer_free(args[k]);
    }
    program_free(p);
    rig_close(&r);
}

static void check_launch_refused(struct rig *r, struct program *p, struct buffer *const *args, size_t n, int code,
                                 const char *text)
{
    struct buffer *out;
    CHECK_ERROR(program_execute(p, args, n, &out, &r->err), code, text, &r->err);
}

PLUGIN_TEST(execute_checks_arguments)
{
    struct rig r, other;
    REQUIRE(rig_open(&r, path, 2));
    REQUIRE(rig_open(&other, path, 1));
    struct program *p = compile_checked(&r, add, (struct array_type[]){square, square}, 2);
    REQUIRE(p);
    float data[64] = {0};
    struct buffer *good = rig_upload(&r, 0, data, DT_F32, 2, DIMS(8, 8));
    struct buffer *wide = rig_upload(&r, 0, data, DT_F32, 2, DIMS(4, 16));
    struct buffer *flat = rig_upload(&r, 0, data, DT_F32, 1, DIMS(64));
    struct buffer *whole = rig_upload(&r, 0, data, DT_S32, 2, DIMS(8, 8));
    struct buffer *elsewhere = rig_upload(&r, 1, data, DT_F32, 2, DIMS(8, 8));
    struct buffer *foreign = rig_upload(&other, 0, data, DT_F32, 2, DIMS(8, 8));
    REQUIRE(good && wide && flat && whole && elsewhere && foreign);
    check_launch_refused(&r, p, (struct buffer *[]){good}, 1, ERR_USAGE, "1 arguments are given, the program takes 2");
    check_launch_refused(&r, p, (struct buffer *[]){good, good, good}, 3, ERR_USAGE, "3 arguments are given");
    check_launch_refused(&r, p, (struct buffer *[]){good, wide}, 2, ERR_USAGE,
                         "the array is f32[4,16], the program wants f32[8,8]");
    check_launch_refused(&r, p, (struct buffer *[]){flat, good}, 2, ERR_USAGE, "argument 0 on device 0");
    check_launch_refused(&r, p, (struct buffer *[]){good, whole}, 2, ERR_USAGE, "the array is s32[8,8]");
    check_launch_refused(&r, p, (struct buffer *[]){good, elsewhere}, 2, ERR_USAGE,
                         "on device 1, the program wants it");
    check_launch_refused(&r, p, (struct buffer *[]){foreign, good}, 2, ERR_USAGE, "belongs to another client");
    buffer_free(foreign);
    buffer_free(elsewhere);
    buffer_free(whole);
    buffer_free(flat);
    buffer_free(wide);
    buffer_free(good);
    program_free(p);
    client_free(other.client);
    plugin_free(other.plugin);
    rig_close(&r);
}

// Without a signature the plugin finds out: its error comes back, and the client lives on.
PLUGIN_TEST(execute_without_signature)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, add, NULL);
    float data[64] = {0};
    struct buffer *good = rig_upload(&r, 0, data, DT_F32, 2, DIMS(8, 8));
    struct buffer *small = rig_upload(&r, 0, data, DT_F32, 1, DIMS(2)), *out;
    REQUIRE(p && good && small);
    check_launch_refused(&r, p, (struct buffer *[]){good}, 1, ERR_DEVICE, "PJRT_LoadedExecutable_Execute");
    CHECK(program_execute(p, &good, 1, &out, &r.err) == ERR_DEVICE);
    CHECK(!strstr(r.err.message, "Source Location"));
    error_clear(&r.err);
    check_launch_refused(&r, p, (struct buffer *[]){good, small}, 2, ERR_DEVICE, "PJRT_LoadedExecutable_Execute");
    REQUIRE_OK(program_execute(p, (struct buffer *[]){good, good}, 2, &out, &r.err), &r.err);
    buffer_free(out);
    buffer_free(small);
    buffer_free(good);
    program_free(p);
    rig_close(&r);
}

PLUGIN_TEST(execute_without_arguments_or_outputs)
{
    static const char constant[] = "func.func public @main() -> tensor<3xi32> {\n"
                                   "  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>\n"
                                   "  return %0 : tensor<3xi32>\n"
                                   "}\n";
    static const char nothing[] = "func.func public @main(%a: tensor<f32>) {\n"
                                  "  return\n"
                                  "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = compile_checked(&r, constant, NULL, 0);
    REQUIRE(p);
    struct buffer *out;
    int32_t y[3];
    REQUIRE_OK(program_execute(p, NULL, 0, &out, &r.err), &r.err);
    REQUIRE_OK(buffer_to_host(out, y, sizeof y, &r.err), &r.err);
    CHECK(y[0] == 1 && y[1] == 2 && y[2] == 3);
    buffer_free(out);
    program_free(p);
    p = rig_compile(&r, nothing, NULL);
    REQUIRE(p);
    CHECK_INT(program_info(p)->output_count, 0);
    float x = 1;
    struct buffer *in = rig_upload(&r, 0, &x, DT_F32, 0, DIMS(0));
    REQUIRE(in);
    REQUIRE_OK(program_execute(p, &in, 1, NULL, &r.err), &r.err);
    buffer_free(in);
    program_free(p);
    rig_close(&r);
}

PLUGIN_TEST(execute_empty_arrays)
{
    static const char module[] =
        "func.func public @main(%a: tensor<0x4xf32>) -> (tensor<0x4xf32>, tensor<f32>) {\n"
        "  %0 = stablehlo.add %a, %a : tensor<0x4xf32>\n"
        "  %1 = stablehlo.constant dense<7.0> : tensor<f32>\n"
        "  %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0, 1]\n"
        "    : (tensor<0x4xf32>, tensor<f32>) -> tensor<f32>\n"
        "  return %0, %2 : tensor<0x4xf32>, tensor<f32>\n"
        "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, module, NULL);
    struct buffer *in = rig_upload(&r, 0, NULL, DT_F32, 2, DIMS(0, 4)), *outs[2];
    REQUIRE(p && in);
    REQUIRE_OK(program_execute(p, &in, 1, outs, &r.err), &r.err);
    float y = 0;
    REQUIRE_OK(buffer_to_host(outs[0], NULL, 0, &r.err), &r.err);
    REQUIRE_OK(buffer_to_host(outs[1], &y, sizeof y, &r.err), &r.err);
    CHECK(y == 7);
    buffer_free(outs[0]);
    buffer_free(outs[1]);
    buffer_free(in);
    program_free(p);
    rig_close(&r);
}

// A module that wants to reuse its argument for its output gets a copy: the argument is the same after many runs.
PLUGIN_TEST(execute_donates_nothing)
{
    static const char module[] =
        "func.func public @main(%a: tensor<256xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<f32>)\n"
        "    -> tensor<256xf32> {\n"
        "  %0 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<256xf32>\n"
        "  %1 = stablehlo.add %a, %0 : tensor<256xf32>\n"
        "  return %1 : tensor<256xf32>\n"
        "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, module, NULL);
    REQUIRE(p);
    struct program_memory memory;
    REQUIRE_OK(program_memory(p, &memory, &r.err), &r.err);
    CHECK_INT(memory.aliases, 256 * 4); // the compiler did plan it
    float a[256], one = 1, y[256];
    for (int i = 0; i < 256; i++)
        a[i] = (float)i;
    struct buffer *args[2] = {rig_upload(&r, 0, a, DT_F32, 1, DIMS(256)), rig_upload(&r, 0, &one, DT_F32, 0, DIMS(0))};
    REQUIRE(args[0] && args[1]);
    struct launch *l;
    REQUIRE_OK(launch_new(&l, p, args, 2, &r.err), &r.err);
    REQUIRE_OK(launch_time(l, 20, NULL, NULL, &r.err), &r.err);
    struct buffer *out;
    REQUIRE_OK(launch_run(l, &out, &r.err), &r.err);
    launch_free(l);
    REQUIRE_OK(buffer_to_host(out, y, sizeof y, &r.err), &r.err);
    CHECK(y[0] == 1 && y[255] == 256);
    REQUIRE_OK(buffer_to_host(args[0], y, sizeof y, &r.err), &r.err);
    CHECK(memcmp(y, a, sizeof a) == 0);
    buffer_free(out);
    buffer_free(args[0]);
    buffer_free(args[1]);
    program_free(p);
    rig_close(&r);
}

// Several types through one program: each operation's answer is known exactly.
PLUGIN_TEST(execute_types)
{
    static const char module[] =
        "func.func public @main(%a: tensor<4xbf16>, %b: tensor<4xf16>, %c: tensor<4xi8>, %d: tensor<4xui8>,\n"
        "                       %e: tensor<4xi1>, %f: tensor<4xf64>)\n"
        "    -> (tensor<4xbf16>, tensor<4xf16>, tensor<4xi8>, tensor<4xui8>, tensor<4xi1>, tensor<4xf64>) {\n"
        "  %0 = stablehlo.add %a, %a : tensor<4xbf16>\n"
        "  %1 = stablehlo.add %b, %b : tensor<4xf16>\n"
        "  %2 = stablehlo.negate %c : tensor<4xi8>\n"
        "  %3 = stablehlo.add %d, %d : tensor<4xui8>\n"
        "  %4 = stablehlo.not %e : tensor<4xi1>\n"
        "  %5 = stablehlo.multiply %f, %f : tensor<4xf64>\n"
        "  return %0, %1, %2, %3, %4, %5\n"
        "    : tensor<4xbf16>, tensor<4xf16>, tensor<4xi8>, tensor<4xui8>, tensor<4xi1>, tensor<4xf64>\n"
        "}\n";
    static const enum dtype dtypes[] = {DT_BF16, DT_F16, DT_S8, DT_U8, DT_PRED, DT_F64};
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, module, NULL);
    REQUIRE(p);
    // bf16 and f16: 1, -2, the smallest normal, 1.5; doubling adds one to the exponent.
    uint16_t a[4] = {0x3f80, 0xc000, 0x0080, 0x3fc0}, b[4] = {0x3c00, 0xc000, 0x0400, 0x3e00};
    int8_t c[4] = {1, -128, 127, 0};
    uint8_t d[4] = {1, 200, 128, 0}, e[4] = {0, 1, 1, 0};
    double f[4] = {1 + 0x1p-52, -3, 0x1p-600, 1e200};
    const void *data[] = {a, b, c, d, e, f};
    struct buffer *args[6], *outs[6];
    for (int i = 0; i < 6; i++) {
        args[i] = rig_upload(&r, 0, data[i], dtypes[i], 1, DIMS(4));
        REQUIRE(args[i]);
    }
    REQUIRE_OK(program_execute(p, args, 6, outs, &r.err), &r.err);
    union {
        uint16_t u16[4];
        int8_t s8[4];
        uint8_t u8[4];
        double f64[4];
    } y;
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(buffer_to_host(outs[i], y.u16, 8, &r.err), &r.err);
        for (int k = 0; k < 4; k++)
            CHECK_INT(y.u16[k], (i ? b[k] + 0x0400 : a[k] + 0x0080));
    }
    REQUIRE_OK(buffer_to_host(outs[2], y.s8, 4, &r.err), &r.err);
    for (int k = 0; k < 4; k++)
        CHECK_INT(y.s8[k], (int8_t)(uint8_t)-c[k]);
    REQUIRE_OK(buffer_to_host(outs[3], y.u8, 4, &r.err), &r.err);
    for (int k = 0; k < 4; k++)
        CHECK_INT(y.u8[k], (uint8_t)(2 * d[k]));
    REQUIRE_OK(buffer_to_host(outs[4], y.u8, 4, &r.err), &r.err);
    for (int k = 0; k < 4; k++)
        CHECK_INT(y.u8[k], !e[k]);
    REQUIRE_OK(buffer_to_host(outs[5], y.f64, 32, &r.err), &r.err);
    for (int k = 0; k < 4; k++) {
        double want = f[k] * f[k];
        CHECK(memcmp(&y.f64[k], &want, sizeof want) == 0);
    }
    for (int i = 0; i < 6; i++) {
        buffer_free(outs[i]);
        buffer_free(args[i]);
    }
    program_free(p);
    rig_close(&r);
}
