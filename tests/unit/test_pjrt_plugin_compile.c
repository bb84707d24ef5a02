// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/file.h"
#include "pjrt_test.h"

static const char add[] =
    "func.func public @main(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<i1>) {\n"
    "  %0 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>\n"
    "  %1 = stablehlo.add %a, %0 : tensor<2x3xf32>\n"
    "  %2 = stablehlo.constant dense<true> : tensor<i1>\n"
    "  return %1, %2 : tensor<2x3xf32>, tensor<i1>\n"
    "}\n";

PLUGIN_TEST(program_describes_itself)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 2));
    struct program *p = rig_compile(&r, add, NULL);
    REQUIRE(p);
    const struct program_info *info = program_info(p);
    CHECK(strstr(info->name, "main") != NULL);
    CHECK(info->fingerprint && strlen(info->fingerprint) > 0);
    CHECK_INT(info->num_replicas, 1);
    CHECK_INT(info->num_partitions, 1);
    CHECK_INT(info->device_count, 1);
    CHECK_INT(info->device_ids[0], 0);
    REQUIRE(info->output_count == 2 && info->outputs);
    CHECK(array_type_equal(&info->outputs[0], &(struct array_type){DT_F32, 2, {2, 3}}));
    CHECK(array_type_equal(&info->outputs[1], &(struct array_type){DT_PRED, 0, {0}}));

    struct program_memory memory;
    REQUIRE_OK(program_memory(p, &memory, &r.err), &r.err);
    CHECK_INT(memory.arguments, 2 * 3 * 4 + 3 * 4);
    CHECK(memory.outputs >= 2 * 3 * 4 + 1); // and the table of the tuple
    CHECK_INT(memory.aliases, 0);
    CHECK(memory.peak >= memory.arguments);
    CHECK_INT(memory.host_arguments, 0);

    const struct attributes *cost, *again;
    bool offered;
    REQUIRE_OK(program_cost(p, &cost, &offered, &r.err), &r.err);
    if (offered) { // the older plugin's
        const struct attribute *flops = attributes_find(cost, "flops");
        CHECK(flops && flops->type == ATTRIBUTE_FLOAT && flops->number == 6);
        REQUIRE_OK(program_cost(p, &again, &offered, &r.err), &r.err);
        CHECK(again == cost && offered);
    }
    program_free(p);
    rig_close(&r);
}

PLUGIN_TEST(program_fingerprints_differ)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, add, NULL), *same = rig_compile(&r, add, NULL);
    static const char other[] = "func.func public @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
                                "  %0 = stablehlo.multiply %a, %a : tensor<2x3xf32>\n"
                                "  return %0 : tensor<2x3xf32>\n"
                                "}\n";
    struct program *different = rig_compile(&r, other, NULL);
    REQUIRE(p && same && different);
    CHECK_STR(program_info(same)->fingerprint, program_info(p)->fingerprint);
    CHECK(strcmp(program_info(different)->fingerprint, program_info(p)->fingerprint) != 0);
    program_free(p);
    program_free(same);
    program_free(different);
    rig_close(&r);
}

static const char product[] = "func.func public @main(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>) -> tensor<4x2xf32> {\n"
                              "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]\n"
                              "    : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>\n"
                              "  %1 = stablehlo.tanh %0 : tensor<4x2xf32>\n"
                              "  return %1 : tensor<4x2xf32>\n"
                              "}\n";

PLUGIN_TEST(program_optimized)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, product, NULL);
    REQUIRE(p);
    struct str text;
    str_init(&text);
    char format[32];
    REQUIRE_OK(program_optimized(p, &text, format, &r.err), &r.err);
    CHECK_STR(format, "hlo_with_config");
    CHECK(text.length > 200);
    CHECK(memmem(text.text, text.length, "tanh", 4) != NULL);
    size_t before = text.length; // appended to what is there
    REQUIRE_OK(program_optimized(p, &text, format, &r.err), &r.err);
    CHECK_INT(text.length, 2 * before);
    str_release(&text);
    program_free(p);
    rig_close(&r);
}

static void check_refused(struct rig *r, const char *code, size_t n, const char *format,
                          const struct compile_options *options, int want, const char *text)
{
    struct program *p;
    int rc = program_compile(&p, r->client, code, n, format, options, &r->err);
    CHECK(!p);
    CHECK_ERROR(rc, want, text, &r->err);
}

PLUGIN_TEST(compile_refuses)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 2));
    check_refused(&r, "this is no module", 17, "mlir", NULL, ERR_DEVICE, "PJRT_Client_Compile");
    check_refused(&r, "", 0, "mlir", NULL, ERR_DEVICE, "PJRT_Client_Compile");
    check_refused(&r, add, sizeof add - 40, "mlir", NULL, ERR_DEVICE, "PJRT_Client_Compile");
    check_refused(&r, add, strlen(add), "poem", NULL, ERR_DEVICE, "poem");
    check_refused(&r, "\xff\xff\xff", 3, "hlo", NULL, ERR_DEVICE, "PJRT_Client_Compile");
    static const char wrong_type[] = "func.func public @main(%a: tensor<2xf32>) -> tensor<3xf32> {\n"
                                     "  return %a : tensor<2xf32>\n"
                                     "}\n";
    check_refused(&r, wrong_type, strlen(wrong_type), "mlir", NULL, ERR_DEVICE, "PJRT_Client_Compile");

    struct compile_override unknown = {"xla_make_tea", OVERRIDE_BOOL, .boolean = true};
    struct compile_options options = {.overrides = &unknown, .override_count = 1};
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_DEVICE, "xla_make_tea");
    struct compile_override excess = {"xla_allow_excess_precision", OVERRIDE_BOOL, .boolean = true};
    options.overrides = &excess;
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_USAGE, "allow_excess_precision of the compile options");

    options = (struct compile_options){.num_replicas = 3};
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_USAGE, "need 3 devices, there are 2");
    options = (struct compile_options){.num_replicas = 1 << 30, .num_partitions = 1 << 30};
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_USAGE, "need 1152921504606846976 devices");
    options = (struct compile_options){.num_partitions = -1};
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_USAGE, "are not counts");
    options = (struct compile_options){.num_replicas = 2, .device_ids = (const int[]){0, 7}};
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_USAGE, "no device with id 7");
    options = (struct compile_options){.num_replicas = 2, .device_ids = (const int[]){1, 1}};
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_USAGE, "assigned twice");
    options = (struct compile_options){.use_shardy = true};
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_USAGE, "use_shardy needs");
    rig_close(&r);
}

// After a refusal the client is as good as before.
PLUGIN_TEST(compile_after_a_refusal)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    check_refused(&r, "nonsense", 8, "mlir", NULL, ERR_DEVICE, "PJRT_Client_Compile");
    struct program *p = rig_compile(&r, add, NULL);
    CHECK(p != NULL);
    program_free(p);
    rig_close(&r);
}

static bool find_file(const char *dir, const char *ending, char path[512])
{
    bool found = false;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name), m = strlen(ending);
        if (n >= m && strcmp(e->d_name + n - m, ending) == 0) {
            snprintf(path, 512, "%s/%s", dir, e->d_name);
            found = true;
        }
    }
    if (d)
        closedir(d);
    return found;
}

// Overrides by name arrive (a string and a boolean), and what the plugin dumps compiles back as an HLO proto.
PLUGIN_TEST(compile_overrides_and_hlo)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct compile_override overrides[] = {
        {"xla_dump_to", OVERRIDE_STRING, .string = test_dir()},
        {"xla_dump_hlo_as_proto", OVERRIDE_BOOL, .boolean = true},
        {"xla_cpu_parallel_codegen_split_count", OVERRIDE_INT, .integer = 1},
    };
    struct compile_options options = {.overrides = overrides, .override_count = 3};
    struct program *p = rig_compile(&r, product, &options);
    REQUIRE(p);
    program_free(p);

    char file[512];
    REQUIRE(find_file(test_dir(), "before_optimizations.hlo.pb", file));
    struct str proto;
    str_init(&proto);
    REQUIRE_OK(file_read(&proto, file, 1 << 20, &r.err), &r.err);
    // HloProto.hlo_module = 1 is its first field.
    struct cursor c;
    cursor_init(&c, proto.text, proto.length);
    REQUIRE(*cursor_take(&c, 1) == 0x0a);
    size_t length = 0;
    for (int shift = 0;; shift += 7) {
        const uint8_t *byte = cursor_take(&c, 1);
        REQUIRE(byte);
        length |= (size_t)(*byte & 0x7f) << shift;
        if (!(*byte & 0x80))
            break;
    }
    const uint8_t *module = cursor_take(&c, length);
    REQUIRE(module);
    REQUIRE_OK(program_compile(&p, r.client, module, length, "hlo", NULL, &r.err), &r.err);
    str_release(&proto);

    float a[32], b[16], y[8];
    for (int i = 0; i < 32; i++)
        a[i] = (float)(i % 5) / 16;
    for (int i = 0; i < 16; i++)
        b[i] = (float)(i % 3) / 8;
    struct buffer *args[2] = {rig_upload(&r, 0, a, DT_F32, 2, DIMS(4, 8)), rig_upload(&r, 0, b, DT_F32, 2, DIMS(8, 2))};
    struct buffer *out;
    REQUIRE(args[0] && args[1]);
    REQUIRE_OK(program_execute(p, args, 2, &out, &r.err), &r.err);
    REQUIRE_OK(buffer_to_host(out, y, sizeof y, &r.err), &r.err);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) {
            double sum = 0;
            for (int k = 0; k < 8; k++)
                sum += (double)a[i * 8 + k] * (double)b[k * 2 + j];
            CHECK_NEAR((double)y[i * 2 + j], tanh(sum), 1e-6); // a few units in the last place of float
        }
    buffer_free(out);
    buffer_free(args[0]);
    buffer_free(args[1]);
    program_free(p);
    rig_close(&r);
}

// The plugin reads an override of each type as what it is; the wrong type for a field is its error.
PLUGIN_TEST(compile_override_types)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct compile_override o = {"xla_cpu_parallel_codegen_split_count", OVERRIDE_STRING, .string = "tea"};
    struct compile_options options = {.overrides = &o, .override_count = 1};
    check_refused(&r, add, strlen(add), "mlir", &options, ERR_DEVICE, "tea");
    rig_close(&r);
}

#define N 4096

// ((x*x)+x)*x in bf16, handed out in f32. With excess precision refused, every operation is rounded to bf16, bit for
// bit; with it allowed, the compiler drops the last rounding (it is free to drop the others, too), so that most results
// differ. What is asked for is what runs.
static void excess_precision(const char *path, bool allow)
{
    static const char module[] = "func.func public @main(%x: tensor<4096xbf16>) -> tensor<4096xf32> {\n"
                                 "  %0 = stablehlo.multiply %x, %x : tensor<4096xbf16>\n"
                                 "  %1 = stablehlo.add %0, %x : tensor<4096xbf16>\n"
                                 "  %2 = stablehlo.multiply %1, %x : tensor<4096xbf16>\n"
                                 "  %3 = stablehlo.convert %2 : (tensor<4096xbf16>) -> tensor<4096xf32>\n"
                                 "  return %3 : tensor<4096xf32>\n"
                                 "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, module, &(struct compile_options){.allow_excess_precision = allow});
    REQUIRE(p);
    uint16_t x[N];
    float y[N];
    uint32_t state = 1;
    for (int i = 0; i < N; i++) {
        state = state * 1664525 + 1013904223;                           // Knuth's linear congruential generator
        x[i] = bf16_from_float((float)(state >> 8) / (1 << 23) - 1.0f); // in [-1, 1)
    }
    struct buffer *in = rig_upload(&r, 0, x, DT_BF16, 1, DIMS(N)), *out;
    REQUIRE(in);
    REQUIRE_OK(program_execute(p, &in, 1, &out, &r.err), &r.err);
    REQUIRE_OK(buffer_to_host(out, y, sizeof y, &r.err), &r.err);
    int rounded_each = 0, rounded_never = 0;
    for (int i = 0; i < N; i++) {
        float v = bf16_to_float(x[i]);
        float square = bf16_to_float(bf16_from_float(v * v)), sum = bf16_to_float(bf16_from_float(square + v));
        float each = bf16_to_float(bf16_from_float(sum * v)), never = (v * v + v) * v;
        rounded_each += memcmp(&y[i], &each, sizeof each) == 0;
        rounded_never += memcmp(&y[i], &never, sizeof never) == 0;
    }
    if (allow) {
        CHECK(rounded_each < N / 2);
    } else {
        CHECK_INT(rounded_each, N);
        CHECK(rounded_never < N / 2); // the two can be told apart
    }
    buffer_free(out);
    buffer_free(in);
    program_free(p);
    rig_close(&r);
}

PLUGIN_TEST(excess_precision_refused)
{
    excess_precision(path, false);
}

PLUGIN_TEST(excess_precision_allowed)
{
    excess_precision(path, true);
}
