// SPDX-License-Identifier: Apache-2.0
// Compiling for devices that are not there: with the CPU plugin, which has no such thing, and with the TPU compiler.
#include "worker_test.h"

static const char product[] =
    "module @product {\n"
    "  func.func public @main(%a: tensor<128x128xbf16>, %b: tensor<128x128xbf16>) -> tensor<128x128xbf16> {\n"
    "    %0 = \"stablehlo.dot_general\"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = "
    "[1], rhs_contracting_dimensions = [0]>} : (tensor<128x128xbf16>, tensor<128x128xbf16>) -> tensor<128x128xbf16>\n"
    "    return %0 : tensor<128x128xbf16>\n"
    "  }\n"
    "}\n";
static const char dynamic[] = "module @d { func.func public @main(%a: tensor<?x8xf32>) -> tensor<?x8xf32> {\n"
                              "  %0 = stablehlo.add %a, %a : tensor<?x8xf32>\n"
                              "  return %0 : tensor<?x8xf32>\n"
                              "} }\n";

// libtpu asks a metadata server unless it is told not to, and writes logs; below FATAL it keeps quiet.
static int start(struct worker **w, const char *plugin, struct error *err)
{
    char logs[1200];
    snprintf(logs, sizeof logs, "TPU_LOG_DIR=%s", test_dir());
    const char *const env[] = {"TPU_SKIP_MDS_QUERY=1", "ALLOW_MULTIPLE_LIBTPU_LOAD=1", "TPU_MIN_LOG_LEVEL=3", logs,
                               NULL};
    struct worker_options o = {
        .plugin_path = plugin, .label = "ahead", .compile_only = true, .env = env, .load_timeout_s = 120};
    return worker_start(w, &o, err);
}

static struct worker_program program(const char *text)
{
    return (struct worker_program){
        .text = text, .length = strlen(text), .format = "mlir", .name = "product", .want_optimized = true};
}

TEST(worker_plugin_topology_cpu_has_none)
{
    struct worker *w;
    struct error err = {0};
    struct worker_topology_info info;
    REQUIRE_OK(start(&w, pjrt_test_plugin(false), &err), &err);
    CHECK_INT(worker_info(w)->n_devices, 0);
    CHECK_INT(worker_topology(w, "cpu:2x2", NULL, 0, &info, &err), ERR_DEVICE);
    CHECK(strstr(err.message, "UNIMPLEMENTED") != NULL);
    struct worker_program p = program(product);
    struct worker_ahead ahead;
    err = (struct error){0};
    CHECK_INT(worker_compile_for(w, &p, &ahead, &err), ERR_USAGE);
    CHECK(strstr(err.message, "no topology") != NULL);
    // A device is not made in passing: what needs one says so, and the worker lives.
    struct worker_executable e;
    err = (struct error){0};
    CHECK_INT(worker_compile(w, &p, &e, &err), ERR_USAGE);
    CHECK(strstr(err.message, "only compiles") != NULL);
    struct worker_memory memory;
    err = (struct error){0};
    CHECK_INT(worker_memory(w, &memory, &err), ERR_USAGE);
    CHECK(worker_failure(w) == NULL);
    worker_stop(w);
    CHECK(worker_test_no_child_left());
}

TEST(worker_plugin_topology_tpu)
{
    const char *libtpu = worker_test_libtpu();
    if (!libtpu)
        return;
    struct worker *w;
    struct error err = {0};
    struct worker_topology_info info;
    REQUIRE_OK(start(&w, libtpu, &err), &err);
    // The first that does not exist, then one that does: an error leaves the worker usable.
    CHECK_INT(worker_topology(w, "v6e:3x3", NULL, 0, &info, &err), ERR_DEVICE);
    CHECK(strstr(err.message, "not divisible") != NULL);
    err = (struct error){0};
    REQUIRE_OK(worker_topology(w, "v6e:2x4", NULL, 0, &info, &err), &err);
    CHECK_STR(info.platform_name, "tpu");
    CHECK_INT(info.n_devices, 8);
    CHECK_STR(info.devices[7].kind, "TPU v6 lite");
    CHECK_INT(info.devices[7].process_index, 1); // two hosts of four chips
    // As a list of numbers and as a text: the types that the plugin wants.
    struct worker_topology_option options[] = {{"chips_per_host_bounds", "[2,4,1]"}, {"chip_config_name", "default"}};
    REQUIRE_OK(worker_topology(w, "v6e:2x4", options, 2, &info, &err), &err);
    CHECK_INT(info.devices[7].process_index, 0); // now one host of eight
    struct worker_topology_option wrong = {"chip_config_name", "nonesuch"};
    CHECK_INT(worker_topology(w, "v6e:2x4", &wrong, 1, &info, &err), ERR_DEVICE);
    err = (struct error){0};

    struct worker_program p = program(product);
    struct worker_ahead first, second;
    REQUIRE_OK(worker_compile_for(w, &p, &first, &err), &err);
    CHECK(first.program.optimized_length > 100);
    CHECK_STR(first.program.optimized_format, "hlo_with_config");
    CHECK_INT(first.program.memory.arguments, 2 * 128 * 128 * 2);
    CHECK_INT(first.program.memory.outputs, 128 * 128 * 2);
    CHECK(first.program.memory.allocated >= 3 * 128 * 128 * 2);
    CHECK(first.serialized_bytes > first.program.memory.arguments);
    CHECK(first.cpu_ns > 1000000 && first.program.compile_ns > 1000000);
    double flop = 0;
    for (size_t i = 0; i < first.n_costs; i++) {
        if (strcmp(first.costs[i].name, "flops") == 0)
            flop = first.costs[i].value;
    }
    CHECK_NEAR(flop, 2.0 * 128 * 128 * 128, 0); // a power of two: exact in the plugin's float
    REQUIRE_OK(worker_compile_for(w, &p, &second, &err), &err);
    REQUIRE(first.program.fingerprint && second.program.fingerprint);
    CHECK_STR(second.program.fingerprint, first.program.fingerprint);
    worker_ahead_release(&first);
    worker_ahead_release(&second);
    // It cannot run.
    CHECK_INT(worker_execute(w, 0, NULL, 0, NULL, 0, NULL, &err), ERR_USAGE);
    // What the compiler aborts on ends the worker, and nothing else.
    err = (struct error){0};
    p = program(dynamic);
    CHECK_INT(worker_compile_for(w, &p, &first, &err), ERR_DEVICE);
    const struct worker_failure *f = worker_failure(w);
    REQUIRE(f);
    CHECK_INT(f->kind, WORKER_SIGNAL);
    CHECK(strstr(err.message, "SIGABRT") != NULL);
    CHECK(strstr(err.message, "count_overflow") != NULL); // the check that failed, not the trace after it
    worker_stop(w);
    CHECK(worker_test_no_child_left());
}
