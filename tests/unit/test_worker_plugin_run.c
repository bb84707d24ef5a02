// SPDX-License-Identifier: Apache-2.0
// A worker with the real CPU plugin.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "worker_test.h"

TEST(worker_plugin_runs_a_program)
{
    struct worker *w = worker_test_start(NULL, NULL);
    REQUIRE(w);
    struct error err = {0};
    const struct worker_info *info = worker_info(w);
    CHECK(strstr(info->plugin_path, "pjrt_c_api_cpu_plugin.so") && info->plugin_path[0] == '/');
    CHECK(!strstr(info->plugin_path, "/../"));
    CHECK_INT(strlen(info->plugin_sha256), 64);
    CHECK_INT(info->api_major, 0);
    CHECK(info->api_minor > 0 && info->client_create_ns > 0);
    CHECK(strstr(info->extensions, "5 FFI") != NULL);
    CHECK(strstr(info->attributes, "stablehlo_current_version=[1,") != NULL);
    CHECK_STR(info->platform_name, "cpu");
    CHECK_INT(info->n_devices, 1);
    CHECK_INT(info->device, 0);
    CHECK(info->devices[0].local);
    CHECK_STR(info->devices[0].kind, "cpu");

    // Padded so that text and optimised program do not fit a packet.
    struct str text;
    str_init(&text);
    str_add(&text, "module { func.func public @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> (tensor<2x2xf32>, "
                   "tensor<f32>) {\n");
    for (int i = 0; i < 2000; i++)
        str_add(&text, "// a line that is longer than none\n");
    str_add(&text, "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x2xf32>, "
                   "tensor<2x2xf32>) -> tensor<2x2xf32>\n%1 = stablehlo.constant dense<7.0> : tensor<f32>\n"
                   "return %0, %1 : tensor<2x2xf32>, tensor<f32> } }");
    struct worker_shape args[2] = {{DT_F32, 2, {2, 2}}, {DT_F32, 2, {2, 2}}};
    struct worker_override no_fusion[2] = {{"xla_backend_optimization_level", "1"},
                                           {"xla_cpu_enable_fast_math", "false"}};
    struct worker_program p = {.text = text.text,
                               .length = text.length,
                               .format = "mlir",
                               .name = "product",
                               .want_optimized = true,
                               .n_overrides = 2,
                               .overrides = no_fusion,
                               .n_args = 2,
                               .args = args};
    struct worker_executable e;
    REQUIRE_OK(worker_compile(w, &p, &e, &err), &err);
    CHECK(e.compile_ns > 0);
    CHECK_INT(e.n_devices, 1);
    REQUIRE(CHECK_INT(e.n_outputs, 2));
    CHECK_INT(e.outputs[0].dtype, DT_F32);
    CHECK(e.outputs[0].rank == 2 && e.outputs[0].dims[0] == 2 && e.outputs[0].dims[1] == 2);
    CHECK_INT(e.outputs[1].rank, 0);
    CHECK_INT(e.memory.arguments, 32);
    CHECK(e.optimized && e.optimized_length > 0);
    CHECK_STR(e.optimized_format, "hlo_with_config");

    float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4] = {0}, scalar = 0;
    struct worker_tensor t = {.shape = args[0], .name = "a"};
    int ids[2], outputs[2];
    struct worker_upload_result up;
    REQUIRE_OK(worker_upload_bytes(w, a, sizeof a, &t, &ids[0], &up, &err), &err);
    CHECK(up.zero_copy && up.device_bytes == sizeof a);
    REQUIRE_OK(worker_upload_bytes(w, b, sizeof b, &t, &ids[1], NULL, &err), &err);
    uint64_t ns = 0;
    REQUIRE_OK(worker_execute(w, e.id, ids, 2, outputs, 2, &ns, &err), &err);
    CHECK(ns > 0);
    REQUIRE_OK(worker_download(w, outputs[0], c, sizeof c, &err), &err);
    CHECK(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
    REQUIRE_OK(worker_download(w, outputs[1], &scalar, sizeof scalar, &err), &err);
    CHECK(scalar == 7);

    // So many that the samples do not fit a packet.
    enum { RUNS = 10000 };
    static double each[RUNS];
    REQUIRE_OK(worker_time(w, e.id, ids, 2, RUNS, each, &err), &err);
    bool all_positive = true;
    for (int i = 0; i < RUNS; i++)
        all_positive &= each[i] > 0;
    CHECK(all_positive);
    REQUIRE_OK(worker_time(w, e.id, ids, 2, 0, each, &err), &err);

    // What is asked wrongly is refused, and the worker goes on.
    CHECK_ERROR(worker_execute(w, e.id, ids, 1, outputs, 2, NULL, &err), ERR_USAGE, "argument", &err);
    CHECK_ERROR(worker_execute(w, e.id, ids, 2, outputs, 1, NULL, &err), ERR_USAGE, "2 outputs", &err);
    CHECK_ERROR(worker_execute(w, e.id + 1, ids, 2, outputs, 2, NULL, &err), ERR_USAGE, "no program", &err);
    CHECK_ERROR(worker_download(w, outputs[0], c, sizeof c - 1, &err), ERR_USAGE, "16 bytes", &err);
    float longer[6] = {0};
    t.shape.dims[1] = 3;
    CHECK_ERROR(worker_upload_bytes(w, longer, 20, &t, &ids[1], NULL, &err), ERR_USAGE, "20 bytes", &err);
    CHECK_ERROR(worker_upload_bytes(w, longer, sizeof longer, &(struct worker_tensor){.shape = t.shape, .position = 1},
                                    &ids[1], NULL, &err),
                ERR_USAGE, "position 1", &err);
    int wrong = worker_test_upload(w, a, 4, 0);
    int mixed[2] = {ids[0], wrong};
    CHECK_ERROR(worker_execute(w, e.id, mixed, 2, outputs, 2, NULL, &err), ERR_USAGE, "f32[4]", &err);
    p.text = "module { func.func public @main() { return oops } }";
    p.length = strlen(p.text);
    struct worker_executable broken;
    CHECK_ERROR(worker_compile(w, &p, &broken, &err), ERR_DEVICE, "custom op 'oops'", &err);
    struct worker_override unknown = {"xla_no_such_option", "1"};
    p.text = text.text;
    p.length = text.length;
    p.overrides = &unknown;
    p.n_overrides = 1;
    CHECK_ERROR(worker_compile(w, &p, &broken, &err), ERR_DEVICE, "xla_no_such_option", &err);
    p.n_overrides = 0;
    p.num_replicas = 2;
    CHECK_ERROR(worker_compile(w, &p, &broken, &err), ERR_DEVICE, "2 x 1 devices", &err);
    CHECK(!worker_failure(w));

    REQUIRE_OK(worker_free(w, wrong, &err), &err);
    CHECK_ERROR(worker_free(w, wrong, &err), ERR_USAGE, "no buffer", &err);
    REQUIRE_OK(worker_unload(w, e.id, &err), &err);
    CHECK_ERROR(worker_time(w, e.id, ids, 2, 1, each, &err), ERR_USAGE, "no program", &err);

    struct worker_memory m;
    REQUIRE_OK(worker_memory(w, &m, &err), &err);
    CHECK(m.rss_bytes > 1 << 20 && m.peak_rss_bytes >= m.rss_bytes);
    CHECK(!m.has_device_stats && m.bytes_limit == -1); // the CPU plugin has none
    if (m.peak_resettable)
        REQUIRE_OK(worker_reset_peak(w, &err), &err);

    struct worker_span *spans;
    size_t n, compiles = 0;
    uint64_t dropped;
    REQUIRE_OK(worker_spans(w, &spans, &n, &dropped, &err), &err);
    for (size_t i = 0; i < n; i++) {
        CHECK(spans[i].start_ns <= spans[i].end_ns);
        compiles += strcmp(spans[i].name, "compile") == 0;
        if (strcmp(spans[i].name, "compile") == 0 && compiles == 1)
            CHECK(spans[i].end_ns - spans[i].start_ns >= e.compile_ns);
    }
    CHECK_INT(compiles, 4);
    CHECK_INT(dropped, 0);
    free(spans);
    worker_executable_release(&e);
    str_release(&text);
    worker_stop(w);
    CHECK(worker_test_no_child_left());
}

// Does the worker have the file mapped?
static bool has_mapped(const struct worker *w, const char *path)
{
    char maps[64];
    snprintf(maps, sizeof maps, "/proc/%d/maps", worker_info(w)->pid);
    struct str s;
    str_init(&s);
    bool mapped = file_read(&s, maps, 16 << 20, NULL) == 0 && strstr(str_text(&s), path);
    str_release(&s);
    return mapped;
}

enum { COUNT = 1 << 18, BYTES = COUNT * 4 }; // a tensor of 1 MiB
static float ramp[COUNT], read_back[COUNT];

// A file with a tensor at `offset`; its descriptor.
static int tensor_file(char path[256], size_t offset)
{
    for (int i = 0; i < COUNT; i++)
        ramp[i] = (float)i;
    snprintf(path, 256, "%s/tensor-%zu", test_dir(), offset);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && pwrite(fd, ramp, BYTES, (off_t)offset) == BYTES);
    return fd;
}

TEST(worker_plugin_uploads_from_a_file)
{
    struct worker *w = worker_test_start(NULL, NULL);
    REQUIRE(w);
    // On a page, aligned inside a page, and not aligned: the first two are used in place.
    static const size_t offsets[] = {4096, 4096 * 3 + 64, 4096 + 8};
    for (int i = 0; i < 3; i++) {
        char path[256];
        int fd = tensor_file(path, offsets[i]);
        struct worker_tensor t = {
            .fd = fd, .offset = offsets[i], .bytes = BYTES, .shape = {DT_F32, 1, {COUNT}}, .name = path};
        struct worker_upload_result up;
        struct error err = {0};
        int id;
        REQUIRE_OK(worker_upload(w, &t, &id, &up, &err), &err);
        close(fd); // the worker has its own
        CHECK_INT(up.zero_copy, i < 2);
        CHECK_INT(has_mapped(w, path), i < 2); // a copied one is given back at once
        memset(read_back, 0, sizeof read_back);
        REQUIRE_OK(worker_download(w, id, read_back, BYTES, &err), &err);
        CHECK(memcmp(ramp, read_back, BYTES) == 0);
        REQUIRE_OK(worker_free(w, id, &err), &err);
        CHECK(!has_mapped(w, path));
    }
    worker_stop(w);
}

// A tensor joined from parts of a file in an order of their own, large enough for several threads.
TEST(worker_plugin_joins_parts_of_a_file)
{
    enum { N = 5 << 20 }; // floats
    struct worker *w = worker_test_start(NULL, NULL);
    float *values = malloc(sizeof(float) * N), *back = malloc(sizeof(float) * N);
    REQUIRE(w && values && back);
    for (int i = 0; i < N; i++)
        values[i] = (float)i;
    char path[256];
    int fd = tensor_file(path, 0), id;
    REQUIRE(pwrite(fd, values, sizeof(float) * N, 64) == (ssize_t)sizeof(float) * N);
    // The last million, nothing, the first half million, the rest.
    const size_t m = 4000000, half = 2000000, all = 4 * (size_t)N;
    struct worker_part parts[] = {{64 + all - m, m}, {64, 0}, {64, half}, {64 + half, all - m - half}};
    struct worker_tensor t = {
        .fd = fd, .bytes = all, .parts = parts, .n_parts = 4, .shape = {DT_F32, 1, {N}}, .name = path};
    struct worker_upload_result up;
    struct error err = {0};
    REQUIRE_OK(worker_upload(w, &t, &id, &up, &err), &err);
    CHECK(!up.zero_copy && !has_mapped(w, path));
    REQUIRE_OK(worker_download(w, id, back, all, &err), &err);
    const uint8_t *from = (const uint8_t *)values, *got = (const uint8_t *)back;
    CHECK(memcmp(got, from + all - m, m) == 0);
    CHECK(memcmp(got + m, from, all - m) == 0);
    parts[3].bytes -= 4;
    CHECK_ERROR(worker_upload(w, &t, &id, &up, &err), ERR_USAGE, "together", &err);
    parts[3].bytes += 4;
    parts[0].offset += 4;
    CHECK_ERROR(worker_upload(w, &t, &id, &up, &err), ERR_INPUT, "ends at byte", &err);
    parts[0].bytes = SIZE_MAX; // a sum that overflows
    parts[0].offset = 0;
    CHECK_ERROR(worker_upload(w, &t, &id, &up, &err), ERR_INPUT, "ends at byte", &err);
    CHECK(!worker_failure(w));
    close(fd);
    free(back);
    free(values);
    worker_stop(w);
}

TEST(worker_plugin_empty_tensor_and_sub_bytes)
{
    struct worker *w = worker_test_start(NULL, NULL);
    REQUIRE(w);
    struct error err = {0};
    int id;
    struct worker_upload_result up;
    struct worker_tensor empty = {.shape = {DT_F32, 2, {0, 3}}, .name = "empty"};
    REQUIRE_OK(worker_upload_bytes(w, NULL, 0, &empty, &id, &up, &err), &err);
    CHECK(!up.zero_copy);
    REQUIRE_OK(worker_download(w, id, NULL, 0, &err), &err);
    int8_t s4[3] = {-8, 7, 1}, back[3] = {0};
    struct worker_tensor narrow = {.shape = {DT_S4, 1, {3}}, .name = "s4"};
    REQUIRE_OK(worker_upload_bytes(w, s4, 3, &narrow, &id, &up, &err), &err);
    CHECK(!up.zero_copy); // packed on the way in
    REQUIRE_OK(worker_download(w, id, back, 3, &err), &err);
    CHECK(memcmp(s4, back, 3) == 0);
    worker_stop(w);
}

TEST(worker_plugin_file_cut_short)
{
    char path[256];
    int fd = tensor_file(path, 4096);
    struct worker *w = worker_test_start(NULL, NULL);
    REQUIRE(w);
    struct error err = {0};
    struct worker_tensor t = {.fd = fd, .offset = 4096, .bytes = BYTES, .shape = {DT_F32, 1, {COUNT}}, .name = path};
    int id;
    // Too short from the start: a clean error.
    t.offset = 8192;
    CHECK_ERROR(worker_upload(w, &t, &id, NULL, &err), ERR_INPUT, path + 5, &err);
    CHECK(!worker_failure(w));
    t.offset = 4096;
    REQUIRE_OK(worker_upload(w, &t, &id, NULL, &err), &err);
    CHECK_INT(ftruncate(fd, 4096), 0);
    CHECK_ERROR(worker_download(w, id, read_back, BYTES, &err), ERR_INPUT, "cut short", &err);
    const struct worker_failure *f = worker_failure(w);
    REQUIRE(f);
    CHECK_INT(f->kind, WORKER_EXIT);
    CHECK(strstr(f->stderr_tail, path) != NULL);
    CHECK(strstr(f->doing, "downloading") != NULL);
    CHECK_ERROR(worker_free(w, id, &err), ERR_INPUT, "cut short", &err); // the same from now on
    worker_stop(w);
    close(fd);
}

TEST(worker_plugin_replicas)
{
    struct worker_options o = {.device = "cpu:2", .cpu_device_count = 4};
    struct worker *w;
    struct error err = {0};
    REQUIRE_OK(worker_start(&w, &o, &err), &err);
    CHECK_INT(worker_info(w)->n_devices, 4);
    CHECK_INT(worker_info(w)->devices[worker_info(w)->device].id, 2);
    static const char text[] =
        "module attributes {mhlo.num_replicas = 4 : i32} { func.func public @main(%a: tensor<2xf32>) -> "
        "tensor<2xf32> {\n%0 = \"stablehlo.all_reduce\"(%a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
        "%s = stablehlo.add %x, %y : tensor<f32>\nstablehlo.return %s : tensor<f32> }) {replica_groups = "
        "dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>\n"
        "return %0 : tensor<2xf32> } }";
    struct worker_shape arg = {DT_F32, 1, {2}};
    struct worker_program p = {
        .text = text, .length = sizeof text - 1, .format = "mlir", .num_replicas = 4, .n_args = 1, .args = &arg};
    struct worker_executable e;
    REQUIRE_OK(worker_compile(w, &p, &e, &err), &err);
    CHECK_INT(e.n_devices, 4);
    int args[4], outputs[4];
    for (int i = 0; i < 4; i++) {
        float values[2] = {(float)(1 << i), 100};
        args[i] = worker_test_upload(w, values, 2, i);
    }
    REQUIRE_OK(worker_execute(w, e.id, args, 4, outputs, 4, NULL, &err), &err);
    for (int i = 0; i < 4; i++) {
        float sum[2];
        REQUIRE_OK(worker_download(w, outputs[i], sum, sizeof sum, &err), &err);
        CHECK(sum[0] == 15 && sum[1] == 400);
    }
    worker_executable_release(&e);
    worker_stop(w);
}

// The value of a line "KEY:\tVALUE" of the worker's status file, as a number in the given base; -1 without one.
static long status_of(const struct worker *w, const char *file, const char *key, int base)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", worker_info(w)->pid, file);
    struct str s;
    str_init(&s);
    long value = -1;
    if (file_read(&s, path, 1 << 16, NULL) == 0) {
        const char *at = strstr(str_text(&s), key);
        value = at ? strtol(at + strlen(key), NULL, base) : -1;
    }
    str_release(&s);
    return value;
}

// Whether the worker was started with this in GLIBC_TUNABLES. Its start-up code cuts the text at the colons.
static bool has_tunable(const struct worker *w, const char *text)
{
    static const char name[] = "GLIBC_TUNABLES=";
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", worker_info(w)->pid);
    struct str s;
    str_init(&s);
    const char *at = file_read(&s, path, 1 << 20, NULL) == 0 && s.length ? memmem(s.text, s.length, name, 15) : NULL;
    size_t n = strlen(text);
    bool has = at && at + 15 + n < s.text + s.length && at[15 + n] == '\0';
    for (size_t i = 0; i < n && has; i++)
        has = at[15 + i] == text[i] || (text[i] == ':' && at[15 + i] == '\0');
    str_release(&s);
    return has;
}

TEST(worker_plugin_asks_the_allocator_for_huge_pages)
{
    static const struct {
        const char *own, *expected;
    } cases[] = {
        {"", "glibc.malloc.hugetlb=1"},
        {"glibc.malloc.perturb=0", "glibc.malloc.perturb=0:glibc.malloc.hugetlb=1"},
        {"glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"}, // the user's choice stays
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("GLIBC_TUNABLES", cases[i].own, 1);
        struct worker *w = worker_test_start(NULL, NULL);
        REQUIRE(w);
        CHECK(has_tunable(w, cases[i].expected));
        worker_stop(w);
    }
}

TEST(worker_plugin_gives_way_and_keeps_to_its_threads)
{
    struct worker_options o = {.threads = 1};
    struct worker *w;
    struct error err = {0};
    REQUIRE_OK(worker_start(&w, &o, &err), &err);
    CHECK_INT(status_of(w, "oom_score_adj", "", 10), 1000);
    long mask = status_of(w, "status", "Cpus_allowed:", 16);
    CHECK(mask > 0 && (mask & (mask - 1)) == 0); // one bit
    worker_stop(w);
}

TEST(worker_plugin_dies_with_its_parent)
{
    // Once idle, once while it hangs in the compiler and reads no channel.
    for (int busy = 0; busy < 2; busy++) {
        int ends[2];
        REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
        pid_t middle = fork();
        if (middle == 0) {
            struct worker *w = worker_test_start(pjrt_test_beside("faulty_plugin.so"), "hang-compile");
            int pid = w ? worker_info(w)->pid : 0;
            if (write(ends[1], &pid, sizeof pid) == sizeof pid && busy)
                worker_test_compile_add(w, NULL);
            pause();
        }
        int pid = 0;
        CHECK_INT(read(ends[0], &pid, sizeof pid), sizeof pid);
        REQUIRE(pid > 0);
        if (busy)
            usleep(200000); // most likely it hangs by now; it has to die either way
        kill(middle, SIGKILL);
        waitpid(middle, NULL, 0);
        CHECK(worker_test_gone(pid));
        close(ends[0]);
        close(ends[1]);
    }
}

TEST(worker_plugin_interrupted)
{
    interrupt_install();
    struct worker *w = worker_test_start(pjrt_test_beside("faulty_plugin.so"), "hang-compile");
    REQUIRE(w);
    pid_t other = fork();
    if (other == 0) {
        usleep(300000);
        kill(getppid(), SIGINT);
        _exit(0);
    }
    struct error err = {0};
    CHECK_INT(worker_test_compile_add(w, &err), -1);
    CHECK_INT(err.code, ERR_INTERRUPTED);
    CHECK(!worker_failure(w));
    error_clear(&err);
    CHECK_INT(worker_free(w, 0, &err), ERR_INTERRUPTED);
    worker_stop(w);
    waitpid(other, NULL, 0);
    CHECK(worker_test_no_child_left());
}

TEST(worker_plugin_starts_and_stops_often)
{
    worker_stop(worker_test_start(NULL, NULL));
    int before = worker_test_open_fds();
    for (int i = 0; i < 100; i++) {
        if (i % 5 == 0) {
            struct worker *w = worker_test_start(NULL, NULL);
            REQUIRE(w);
            float x[4] = {0};
            worker_test_upload(w, x, 4, 0);
            worker_stop(w);
        } else { // refused
            struct worker *w;
            struct error err = {0};
            struct worker_options o = {.plugin_path = pjrt_test_beside("faulty_empty.so")};
            CHECK_INT(worker_start(&w, &o, &err), ERR_DEVICE);
            worker_stop(w);
        }
    }
    CHECK_INT(worker_test_open_fds(), before);
    CHECK(worker_test_no_child_left());
    worker_stop(NULL);
}
