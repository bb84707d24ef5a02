// SPDX-License-Identifier: Apache-2.0
// The TPU compiler's word on small programs. Figures are of libtpu 0.0.52, which the set-up pins by hash.
#include "lab/compile.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "worker_test.h"

struct asked {
    struct compile c;
    struct error err;
    int rc;
};

// Compiles; false when the plugin is not here.
static bool ask_plugin(struct asked *a, const struct compile_job *options, const char *plugin)
{
    static const char *const v6e[] = {"v6e"};
    memset(a, 0, sizeof *a);
    if (!plugin)
        return false;
    setenv("TMPDIR", test_dir(), 1);
    struct compile_job o = *options;
    o.plugin = plugin;
    o.timeout_s = 900;
    if (!o.n_targets) {
        o.targets = v6e;
        o.n_targets = 1;
    }
    a->rc = compile_open(&a->c, &o, &a->err);
    if (!a->rc)
        a->rc = compile_run(&a->c, &a->err);
    if (a->rc)
        test_fail_error(__FILE__, __LINE__, "compile", a->err.where, a->err.message);
    return a->rc == 0;
}

static bool ask(struct asked *a, const struct compile_job *options)
{
    return ask_plugin(a, options, worker_test_libtpu());
}

static void done(struct asked *a)
{
    compile_close(&a->c);
    DIR *d = opendir(test_dir()); // nothing is left of what the compiler dumped
    for (struct dirent *e; d && (e = readdir(d));)
        CHECK(strncmp(e->d_name, "assay-compile", 13) != 0);
    if (d)
        closedir(d);
}

static const char *program(const char *name, const char *text)
{
    static char path[1024];
    struct error err = {0};
    snprintf(path, sizeof path, "%s/%s.mlir", test_dir(), name);
    if (file_write(path, text, strlen(text), &err) != 0)
        test_fail_error(__FILE__, __LINE__, "file_write", err.where, err.message);
    return path;
}

// The operation that has most of the products.
static const struct compile_op *product(const struct compile_case *k)
{
    const struct compile_op *best = NULL;
    for (size_t i = 0; i < k->n_ops; i++) {
        if (k->ops[i].flop > (best ? best->flop : 0))
            best = &k->ops[i];
    }
    return best;
}

static uint64_t pushes(const struct compile_op *op, const char *format)
{
    uint64_t n = 0;
    for (int i = 0; i < op->code->n_matrix; i++) {
        if (!format || strcmp(op->code->matrix[i].format, format) == 0)
            n += op->code->matrix[i].pushes;
    }
    return n;
}

TEST(lab_compile_plugin_large_product)
{
    struct asked a;
    struct compile_job o = {
        .workload = program("product", "module @product { func.func public @main(%a: tensor<4096x4096xbf16>, %b: "
                                       "tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {\n"
                                       "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
                                       "(tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>\n"
                                       "  return %0 : tensor<4096x4096xbf16>\n} }\n")};
    if (!ask(&a, &o))
        return;
    const struct compile_case *k = &a.c.cases[0];
    CHECK_INT(k->state, COMPILE_DONE);
    const struct compile_op *op = product(k);
    REQUIRE(op && op->code);
    // Every matrix that is pushed is bf16. Rows that do not fill a register of 16 (each tile has 171 x 8 of them) go
    // through as 8 rows of 32 bits, against the same matrices: 1.2 % of the instructions.
    CHECK_INT(pushes(op, "bf16"), pushes(op, NULL));
    CHECK(pushes(op, NULL) > 0);
    CHECK_NEAR(op->passes, 1, 0.01); // 1368 rows of a tile for 1365.3
    CHECK(strcmp(op->arithmetic, "bf16 natively") == 0 && !op->emulated);
    CHECK_NEAR(op->bundles * op->iterations, 270624, 0);
    CHECK_NEAR(k->floor_s * 1e6, 270624 / 1750.0, 1e-9); // one cycle each at 1.75 GHz
    CHECK_NEAR(k->of_peak, 2 * 0x1p36 / 918e12 / k->floor_s, 1e-12);
    CHECK(k->memory_floor_s < k->ops_floor_s);
    // The prediction is not the floor: 361.6 us were measured.
    CHECK_NEAR(k->floor_s / k->efficiency * 1e6, 361.6, 0.1);
    CHECK(k->memory.arguments == 1 << 26 && k->memory.outputs == 1 << 25);
    done(&a);
}

static void small_product(const char *type, const char *precision, const char *says, double passes)
{
    struct asked a;
    char name[64];
    snprintf(name, sizeof name, "gemm:512x512x512:%s", type);
    struct compile_job o = {.workload = name, .precision = precision};
    if (!ask(&a, &o))
        return;
    const struct compile_op *op = product(&a.c.cases[0]);
    REQUIRE(op && op->arithmetic);
    if (!CHECK(strstr(op->arithmetic, says)))
        printf("  %s %s: %s\n", type, precision, op->arithmetic);
    CHECK_NEAR(op->passes, passes, 0);
    done(&a);
}

TEST(lab_compile_plugin_arithmetic)
{
    small_product("f32", "default", "one bf16 pass", 1);
    small_product("f32", "high", "3 passes", 3);
    small_product("f32", "highest", "6 passes", 6);
    small_product("int8", "default", "s8 natively", 1);
    small_product("bf16", "default", "bf16 natively", 1);
    small_product("f16", "default", "emulated in 32-bit registers: slower", 1);
    small_product("f8e4m3fn", "default", "emulated in 32-bit registers: slower", 1);
    small_product("f8e5m2", "default", "f8e5m2, widened to bf16 in the matrix unit: at the rate of bf16", 1);
}

// Of the two formats of 8-bit floats v6e has one, at the rate of bf16; tpu7x has both, at more than that.
TEST(lab_compile_plugin_eight_bit_floats)
{
    static const char *const types[] = {"f8e4m3fn", "f8e5m2", "bf16"}, *const targets[] = {"v6e", "tpu7x"};
    double cycles[3][2] = {{0}};
    for (size_t t = 0; t < 3; t++) {
        struct asked a;
        char name[64];
        snprintf(name, sizeof name, "gemm:1024x1024x1024:%s", types[t]);
        struct compile_job o = {.workload = name, .precision = "default", .targets = targets, .n_targets = 2};
        if (!ask(&a, &o))
            return;
        for (size_t i = 0; i < 2; i++) {
            const struct compile_op *op = product(&a.c.cases[i]);
            REQUIRE(op && op->code);
            cycles[t][i] = op->bundles * op->iterations;
            CHECK_INT(op->emulated, t == 0 && i == 0);
        }
        done(&a);
    }
    CHECK(cycles[0][0] > 2 * cycles[2][0]);
    CHECK_NEAR(cycles[1][0] / cycles[2][0], 1, 0.1);
    CHECK(cycles[0][1] < cycles[2][1] && cycles[1][1] < cycles[2][1]);
}

// What is emulated is said with both counts: e4m3fn takes 7.5 times the bundles of bf16 on v6e; on tpu7x it is native.
TEST(lab_compile_plugin_emulation)
{
    static const char *const targets[] = {"v6e", "tpu7x"};
    struct asked a;
    struct compile_job o = {
        .workload = "gemm:1024x1024x1024:f8e4m3fn", .targets = targets, .n_targets = 2, .emulations = true};
    if (!ask(&a, &o))
        return;
    const struct compile_case *k = &a.c.cases[0];
    REQUIRE(k->n_emulations == 1);
    const struct compile_emulation *e = &k->emulations[0];
    CHECK_INT(e->type, DT_F8E4M3FN);
    CHECK(e->batch == 1 && e->m == 1024 && e->k == 1024 && e->n == 1024);
    CHECK_NEAR(e->op->bundles * e->op->iterations, 32608, 0); // as docs/compile.md has them, of libtpu 0.0.52
    CHECK_NEAR(e->bf16_bundles * e->bf16_iterations, 4355, 0);
    CHECK(strstr(e->sentence, "emulated on v6e") && strstr(e->sentence, "7.5 times as many"));
    CHECK(strstr(e->sentence, "32608 bundles") && strstr(e->sentence, "4355"));
    CHECK_INT(a.c.cases[1].n_emulations, 0);
    done(&a);
    // Passes are an emulation, too; one pass is none.
    o.workload = "gemm:256x384x512:f32";
    o.n_targets = 1;
    if (!ask(&a, &o))
        return;
    REQUIRE(a.c.cases[0].n_emulations == 1);
    e = &a.c.cases[0].emulations[0];
    CHECK(e->m == 256 && e->k == 384 && e->n == 512);
    CHECK(strstr(e->sentence, "f32 is made of passes over its bf16 parts"));
    CHECK(e->op->bundles * e->op->iterations > 2 * e->bf16_bundles * e->bf16_iterations);
    done(&a);
    o.precision = "default";
    if (!ask(&a, &o))
        return;
    CHECK_INT(a.c.cases[0].n_emulations, 0);
    done(&a);
    // Several products side by side, as attention has them.
    o = (struct compile_job){.workload =
                                 program("batched", "module @b { func.func public @main(%a: tensor<4x128x256xf16>, %b: "
                                                    "tensor<4x256x384xf16>) -> tensor<4x128x384xf32> {\n"
                                                    "  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], "
                                                    "contracting_dims = [2] x [1] : (tensor<4x128x256xf16>, "
                                                    "tensor<4x256x384xf16>) -> tensor<4x128x384xf32>\n"
                                                    "  return %0 : tensor<4x128x384xf32>\n} }\n"),
                             .emulations = true};
    if (!ask(&a, &o))
        return;
    REQUIRE(a.c.cases[0].n_emulations == 1);
    e = &a.c.cases[0].emulations[0];
    CHECK(e->batch == 4 && e->m == 128 && e->k == 256 && e->n == 384);
    CHECK(e->bf16_bundles > 0 && strstr(e->sentence, "4 times"));
    done(&a);
}

TEST(lab_compile_plugin_block_over_eight)
{
    struct asked a;
    static const char *const targets[] = {"v6e:2x4"}, *const policies[] = {"bf16"};
    struct compile_job o = {.workload = "builtin:transformer-block:1024x8x4096",
                            .shape.seq = 256,
                            .layout = "tp",
                            .targets = targets,
                            .n_targets = 1,
                            .policies = policies,
                            .n_policies = 1};
    if (!ask(&a, &o))
        return;
    const struct compile_case *k = &a.c.cases[0];
    CHECK_INT(k->state, COMPILE_DONE);
    CHECK_INT(k->n_devices, 8);
    size_t collectives = 0;
    double flop = 0;
    for (size_t i = 0; i < k->n_ops; i++) {
        const struct compile_op *op = &k->ops[i];
        flop += op->flop;
        if (op->kind != COMPILE_COLLECTIVE)
            continue;
        collectives++;
        CHECK_STR(op->collective, "all-reduce");
        CHECK_INT(op->group_size, 8);
        CHECK_NEAR(op->wire_bytes, 256 * 1024 * 4, 0); // f32 sums
        // Twice 7/8 of it enter each chip; a corner of 2x4 has two links of 100 GB/s, since nothing wraps.
        CHECK_NEAR(op->floor_s, 2 * 7.0 / 8 * 256 * 1024 * 4 / 200e9, 1e-15);
        CHECK(strstr(op->scope, "block.attention.out") || strstr(op->scope, "block.mlp.down"));
    }
    CHECK_INT(collectives, 2);
    CHECK_NEAR(k->collectives_s, 2 * 2 * 7.0 / 8 * 256 * 1024 * 4 / 200e9, 1e-15);
    // An eighth of all products, exactly: heads and columns divide evenly.
    double all = 2.0 * 256 * 1024 * 1024 * 4 + 2.0 * 2 * 256 * 256 * 1024 + 2.0 * 2 * 256 * 1024 * 4096;
    CHECK_NEAR(flop, all / 8, 0);
    // Modules have the names of our graph.
    bool mlp = false;
    for (size_t i = 0; i < k->n_groups; i++)
        mlp |= strcmp(k->groups[i].name, "mlp") == 0;
    CHECK(mlp);
    done(&a);
}

TEST(lab_compile_plugin_loop)
{
    struct asked a;
    struct compile_job o = {
        .workload =
            program("loop", "module @loop { func.func public @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {\n"
                            "  %n = stablehlo.constant dense<24> : tensor<i32>\n"
                            "  %one = stablehlo.constant dense<1> : tensor<i32>\n"
                            "  %zero = stablehlo.constant dense<0> : tensor<i32>\n"
                            "  %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<256x256xf32>\n"
                            "  cond { %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
                            "    stablehlo.return %c : tensor<i1> }\n"
                            "  do { %j = stablehlo.add %i, %one : tensor<i32>\n"
                            "    %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : "
                            "(tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>\n"
                            "    %t = stablehlo.tanh %d : tensor<256x256xf32>\n"
                            "    stablehlo.return %j, %t : tensor<i32>, tensor<256x256xf32> }\n"
                            "  return %r#1 : tensor<256x256xf32>\n} }\n")};
    if (!ask(&a, &o))
        return;
    const struct compile_case *k = &a.c.cases[0];
    const struct compile_op *op = product(k);
    REQUIRE(op);
    CHECK_NEAR(op->runs, 24, 0);
    CHECK_INT(op->depth, 1);
    CHECK_NEAR(k->flop, 24 * 2.0 * 256 * 256 * 256, 0); // the compiler's own count has one run
    CHECK(!k->loops_unknown);
    done(&a);
}

TEST(lab_compile_plugin_does_not_fit)
{
    struct asked a;
    struct compile_job o = {
        .workload = program("large", "module @large { func.func public @main(%a: tensor<131072x131072xbf16>, %b: "
                                     "tensor<131072x131072xbf16>) -> tensor<131072x131072xbf16> {\n"
                                     "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
                                     "(tensor<131072x131072xbf16>, tensor<131072x131072xbf16>) -> "
                                     "tensor<131072x131072xbf16> loc(\"the product\")\n"
                                     "  return %0 : tensor<131072x131072xbf16>\n} }\n"),
        .require = "fits==1"};
    if (!ask(&a, &o))
        return;
    const struct compile_case *k = &a.c.cases[0];
    CHECK_INT(k->state, COMPILE_TOO_LARGE);
    REQUIRE(k->has_figures);
    CHECK_STR(k->needed, "96.00G");
    CHECK_STR(k->available, "31.24G");
    CHECK_STR(k->needed_in, "HBM");
    REQUIRE(k->n_buffers == 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_INT(k->buffers[i].bytes, (int64_t)1 << 35);
    bool named = false;
    for (size_t i = 0; i < 3; i++)
        named |= strcmp(k->buffers[i].owner, "the product") == 0;
    CHECK(named);
    CHECK(!compile_met(&a.c));
    done(&a);
}

// One case aborts the compiler, one has an option that does not exist, and the others are none the worse.
TEST(lab_compile_plugin_failures_are_rows)
{
    struct asked a;
    static const char *const flags[] = {"xla_tpu_scoped_vmem_limit_kib=16384", "xla_tpu_scoped_vmem_limit_kib=abc"};
    struct compile_job o = {
        .workload = "gemm:128x128x128:bf16", .flags = flags, .n_flags = 2, .sweep = true, .jobs = 2};
    if (!ask(&a, &o))
        return;
    CHECK_INT(a.c.n_cases, 2);
    CHECK_INT(a.c.cases[0].state, COMPILE_DONE);
    CHECK_INT(a.c.cases[1].state, COMPILE_REFUSED);
    CHECK(strstr(a.c.cases[1].error.message, "abc") != NULL);
    done(&a);
    o = (struct compile_job){
        .workload = program("dynamic", "module @d { func.func public @main(%a: tensor<?x8xf32>) -> tensor<?x8xf32> {\n"
                                       "  %0 = stablehlo.add %a, %a : tensor<?x8xf32>\n"
                                       "  return %0 : tensor<?x8xf32>\n} }\n")};
    if (!ask(&a, &o))
        return;
    CHECK_INT(a.c.cases[0].state, COMPILE_DIED);
    CHECK(a.c.cases[0].has_failure && strstr(a.c.cases[0].error.message, "SIGABRT"));
    done(&a);
}

TEST(lab_compile_plugin_two_at_once_are_the_same)
{
    struct asked a;
    static const char *const targets[] = {"v6e", "v6e:2x2", "v5e", "tpu7x"};
    struct compile_job o = {
        .workload = "gemm:128x128x128:bf16", .targets = targets, .n_targets = 4, .jobs = 2, .no_evidence = true};
    if (!ask(&a, &o))
        return;
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(a.c.cases[i].state, COMPILE_DONE);
        CHECK(a.c.cases[i].fingerprint && a.c.cases[i].fingerprint[0]);
        CHECK(isnan(a.c.cases[i].floor_s)); // without evidence there is no floor
        CHECK(a.c.cases[i].dump_bytes == 0);
    }
    CHECK_STR(a.c.cases[0].device_kind, "TPU v6 lite");
    CHECK_STR(a.c.cases[2].device_kind, "TPU v5 lite");
    CHECK_STR(a.c.cases[3].device_kind, "TPU7x");
    done(&a);
}

// NULL, said on standard output, where it is absent.
static const char *cuda_plugin(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/third_party/pjrt-gpu/xla_cuda_plugin.so", test_top());
    if (file_exists(path))
        return path;
    test_skip("the CUDA plugin is not here (make gpu fetches it)");
    return NULL;
}

// GPUs, by XLA's CUDA plugin, which is fetched on request only.
TEST(lab_compile_plugin_gpu)
{
    static const char *const targets[] = {"h100", "l4"};
    struct asked a;
    struct compile_job o = {.workload = "gemm:32768x65536x65536:bf16", .targets = targets, .n_targets = 2};
    if (!ask_plugin(&a, &o, cuda_plugin()))
        return;
    const struct compile_case *h100 = &a.c.cases[0], *l4 = &a.c.cases[1];
    CHECK_INT(h100->state, COMPILE_DONE);
    CHECK(isnan(h100->floor_s) && isnan(h100->predicted_s)); // nothing was tuned: no time
    CHECK(strcmp(h100->device_kind, "NVIDIA H100 80GB HBM3") == 0);
    CHECK_INT(h100->memory.arguments, 2 * (32768LL * 65536 + 65536LL * 65536));
    const struct compile_op *op = product(h100);
    REQUIRE(op);
    CHECK_NEAR(op->flop, 2.0 * 32768 * 65536 * 65536, 0);
    CHECK(*op->strategy);
    // The compiler refuses nothing; 12 GiB of arguments and 8 GiB of results fit into 24 GiB. Twice as much does not.
    CHECK_INT(l4->state, COMPILE_DONE);
    done(&a);
    o.workload = "gemm:65536x65536x65536:bf16";
    if (!ask_plugin(&a, &o, cuda_plugin()))
        return;
    CHECK_INT(a.c.cases[0].state, COMPILE_DONE);
    CHECK_INT(a.c.cases[1].state, COMPILE_TOO_LARGE);
    CHECK_NEAR(a.c.cases[1].needed_bytes, 2 * 2 * 0x1p32 + 4 * 0x1p32, 1 << 20); // and its code
    done(&a);
}

// A request of several programs: each by itself, and what they take together.
TEST(lab_compile_plugin_request)
{
    struct asked a;
    static const char *const programs[] = {"text", "dit"};
    struct compile_request r;
    struct compile_job o = {.workload = "builtin:flux2-tiny",
                            .shape = {.height = 32, .width = 48},
                            .programs = programs,
                            .n_programs = 2,
                            .require = "resident_bytes>1000"};
    if (!ask(&a, &o))
        return;
    REQUIRE(a.c.n_cases == 2);
    const struct compile_case *text = &a.c.cases[0], *dit = &a.c.cases[1];
    CHECK_INT(text->state, COMPILE_DONE);
    CHECK_INT(dit->state, COMPILE_DONE);
    CHECK_STR(text->part->name, "text");
    CHECK_STR(dit->part->name, "dit");
    CHECK_STR(text->policy, "bf16"); // as it is published
    CHECK(text->weight_bytes > 0 && dit->weight_bytes > 0 && text->memory.arguments > text->weight_bytes);
    REQUIRE(compile_request(&a.c, 0, &r) && !compile_request(&a.c, 1, &(struct compile_request){0}));
    // Weights and code of both, and the rest of the one that has more.
    int64_t rest_text = text->memory.allocated - text->weight_bytes,
            rest_dit = dit->memory.allocated - dit->weight_bytes;
    int64_t stays = text->weight_bytes + text->memory.code + dit->weight_bytes + dit->memory.code;
    CHECK_NEAR(r.resident_bytes, (double)(stays + (rest_text > rest_dit ? rest_text : rest_dit)), 0);
    CHECK(r.resident_bytes <
          (double)(text->memory.allocated + text->memory.code + dit->memory.allocated + dit->memory.code));
    CHECK_NEAR(r.floor_s, text->floor_s + 4 * dit->floor_s, 1e-12); // four steps
    CHECK_NEAR(r.cpu_s, text->cpu_s + dit->cpu_s, 1e-9);
    CHECK(compile_met(&a.c));
    done(&a);
    // Over four devices: two heads are no four, and the text encoder is none the worse.
    static const char *const slice[] = {"v6e:2x2"};
    o.targets = slice;
    o.n_targets = 1;
    o.layout = "tp=4";
    o.no_evidence = true;
    if (!ask(&a, &o))
        return;
    CHECK_INT(a.c.cases[0].state, COMPILE_DONE);
    CHECK_INT(a.c.cases[0].partitions, 4);
    CHECK_INT(a.c.cases[1].state, COMPILE_REFUSED);
    CHECK(strstr(a.c.cases[1].error.message, "2 heads") != NULL);
    REQUIRE(compile_request(&a.c, 0, &r));
    CHECK(isnan(r.resident_bytes) && isnan(r.floor_s));
    CHECK(!compile_met(&a.c));
    done(&a);
}

// A decoder's prompt and its tokens read the same weights, which are in memory once. Sweeps are of every program.
TEST(lab_compile_plugin_request_decoder)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 1, \"head_dim\": 64, \"intermediate_size\": 256, \"vocab_size\": 512, "
        "\"rms_norm_eps\": 1e-05, \"rope_theta\": 10000, \"tie_word_embeddings\": false}";
    static const char *const policies[] = {"bf16", "w8a16"};
    struct asked a;
    struct error err = {0};
    char path[1024];
    snprintf(path, sizeof path, "%s/config.json", test_dir());
    REQUIRE_OK(file_write(path, config, sizeof config - 1, &err), &err);
    struct compile_job o = {.workload = test_dir(),
                            .shape = {.seq = 32, .tokens = 8},
                            .policies = policies,
                            .n_policies = 2,
                            .no_evidence = true};
    if (!ask(&a, &o))
        return;
    REQUIRE(a.c.n_cases == 4);
    for (size_t i = 0; i < 4; i += 2) {
        const struct compile_case *prefill = &a.c.cases[i], *decode = &a.c.cases[i + 1];
        struct compile_request r;
        CHECK_STR(prefill->part->name, "prefill");
        CHECK_STR(decode->part->name, "decode");
        CHECK_STR(prefill->policy, policies[i / 2]);
        CHECK_INT(decode->part->calls, 8);
        REQUIRE(prefill->state == COMPILE_DONE && decode->state == COMPILE_DONE && compile_request(&a.c, i, &r));
        CHECK_INT(prefill->weight_bytes, decode->weight_bytes);
        int64_t rests[2] = {prefill->memory.allocated, decode->memory.allocated};
        CHECK_NEAR(r.resident_bytes,
                   (double)(prefill->memory.code + decode->memory.code + (rests[0] > rests[1] ? rests[0] : rests[1])),
                   0);
    }
    CHECK(a.c.cases[2].weight_bytes < a.c.cases[0].weight_bytes);
    done(&a);
}

// 8-bit floats on GPUs: H100 multiplies them, in a kernel of Triton's; for those before it they are widened.
TEST(lab_compile_plugin_gpu_eight_bit_floats)
{
    static const char *const targets[] = {"h100", "a100"}, *const no_triton[] = {"xla_gpu_enable_triton_gemm=false"};
    struct asked a;
    struct compile_job o = {
        .workload = "gemm:512x512x512:f8e4m3fn", .targets = targets, .n_targets = 2, .emulations = true};
    if (!ask_plugin(&a, &o, cuda_plugin()))
        return;
    const struct compile_op *h100 = product(&a.c.cases[0]), *a100 = product(&a.c.cases[1]);
    REQUIRE(h100 && h100->arithmetic && a100 && a100->arithmetic);
    CHECK_INT(h100->type, DT_F8E4M3FN);
    CHECK(!h100->emulated && strstr(h100->arithmetic, "f8e4m3fn in a kernel of Triton's"));
    CHECK_INT(a100->asked, DT_F8E4M3FN);
    CHECK_INT(a100->type, DT_F16);
    CHECK(a100->emulated && strstr(a100->arithmetic, "f8e4m3fn widened to f16 first"));
    CHECK_INT(a.c.cases[0].n_emulations, 0);
    REQUIRE(a.c.cases[1].n_emulations == 1);
    CHECK(strstr(a.c.cases[1].emulations[0].sentence, "emulated on a100"));
    CHECK(isnan(a.c.cases[1].emulations[0].bf16_bundles));
    done(&a);
    // The library's call for a product without scales is none for 8 bits.
    o.n_targets = 1;
    o.flags = no_triton;
    o.n_flags = 1;
    if (!ask_plugin(&a, &o, cuda_plugin()))
        return;
    h100 = product(&a.c.cases[0]);
    REQUIRE(h100 && h100->arithmetic);
    CHECK(h100->emulated && h100->type == DT_F16 && strstr(h100->arithmetic, "in a call of cuBLASLt"));
    done(&a);
}

// Every float must stand where the schema says, and nothing a program holds can break out of its text.
TEST(lab_compile_plugin_document)
{
    struct asked a;
    struct compile_job o = {.workload = "gemm:128x128x128:bf16"};
    if (!ask(&a, &o))
        return;
    struct str s;
    struct jw w;
    str_init(&s);
    jw_init(&w, &s, true);
    compile_json(&a.c, &w);
    CHECK(jw_finish(&w, &a.err) == 0);
    json_t *doc = json_parse(str_text(&s), s.length, "document", &a.err);
    CHECK(doc != NULL);
    CHECK_INT(json_array_size(json_object_get(doc, "cases")), 1);
    json_decref(doc);
    str_release(&s);
    done(&a);
}

TEST(lab_compile_usage)
{
    static const char *const targets[] = {"v6e"}, *const small[] = {"v6e:2x2"}, *const twice[] = {"a=1", "a=2"},
                             *const none[] = {"a"}, *const wrong[] = {"v6e:3x3"}, *const policies[] = {"bf16"},
                             *const dit[] = {"dit", "dit"};
    const struct {
        struct compile_job o;
        const char *says;
    } cases[] = {
        {{.workload = "gemm:8x8x8:bf16", .targets = targets, .n_targets = 1, .flags = twice, .n_flags = 2}, "--sweep"},
        {{.workload = "gemm:8x8x8:bf16", .targets = targets, .n_targets = 1, .flags = none, .n_flags = 1},
         "NAME=VALUE"},
        {{.workload = "gemm:8x8x8:bf16", .targets = wrong, .n_targets = 1}, "2x2"},
        {{.workload = "gemm:8x8x8:bf16", .targets = targets, .n_targets = 1, .policies = policies, .n_policies = 1},
         "type in its name"},
        {{.workload = "builtin:transformer-block", .targets = small, .n_targets = 1, .layout = "tp=8"}, "8"},
        {{.workload = "builtin:nonesuch", .targets = targets, .n_targets = 1}, "there is"},
        {{.workload = "builtin:minilm", .targets = targets, .n_targets = 1, .require = "speed>1"}, "floor_us"},
        {{.workload = "builtin:minilm", .targets = targets, .n_targets = 1, .programs = dit, .n_programs = 1},
         "is one program"},
        {{.workload = "builtin:flux2-tiny", .targets = targets, .n_targets = 1, .programs = none, .n_programs = 1},
         "text, dit, vae"},
        {{.workload = "builtin:flux2-tiny", .targets = targets, .n_targets = 1, .programs = dit, .n_programs = 2},
         "given twice"},
        {{.workload = "builtin:flux2-tiny", .targets = targets, .n_targets = 1, .shape = {.tokens = 3}}, "no tokens"},
        {{.workload = "builtin:flux2-tiny", .targets = small, .n_targets = 1, .layout = "pp=2,tp=2"},
         "a pipeline is of one program"},
        // What divides none of its programs is no case but a mistake.
        {{.workload = "builtin:flux2-tiny", .targets = small, .n_targets = 1, .layout = "ulysses"}, "heads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct compile c;
        struct error err = {0};
        int rc = compile_open(&c, &cases[i].o, &err);
        if (!CHECK_INT(rc, ERR_USAGE) || !CHECK(strstr(err.message, cases[i].says)))
            printf("  case %zu: %s: %s\n", i, err.where, err.message);
        compile_close(&c);
    }
}
