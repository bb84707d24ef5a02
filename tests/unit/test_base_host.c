// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/host.h"
#include "base/interrupt.h"
#include "base/sha256.h"
#include "base/sysfile.h"
#include "base/threads.h"
#include "schema.h"
#include "test.h"

static void replay(struct host_facts *h, const char *name)
{
    char root[1024];
    snprintf(root, sizeof root, "%s/tests/fixtures/host/%s", test_top(), name);
    host_read(h, root);
}

static bool warned(const struct host_facts *h, const char *text)
{
    for (size_t i = 0; i < h->n_warnings; i++) {
        if (strcmp(h->warnings[i], text) == 0)
            return true;
    }
    return false;
}

static json_t *as_json(const struct host_facts *h)
{
    struct str s;
    struct jw w;
    struct error e = {0};
    str_init(&s);
    jw_init(&w, &s, false);
    host_json(&w, h);
    json_t *root = jw_finish(&w, &e) ? NULL : json_parse(s.text, s.length, "host", &e);
    CHECK(root && schema_check_value("assay.record.config.1.json#host", root));
    str_release(&s);
    return root;
}

TEST(base_host_replays_a_server_with_limits)
{
    static struct host_facts h;
    replay(&h, "server-cgroup2");
    CHECK_STR(h.model, "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz");
    CHECK_STR(h.architecture, "x86_64");
    CHECK_STR(h.kernel, "6.1.0-18-cloud-amd64");
    CHECK_INT(h.sockets, 2);
    CHECK_INT(h.cores, 2);
    CHECK_INT(h.threads, 4);
    CHECK_INT(h.affinity, 3); // 0-2 of those allowed are online
    CHECK_INT(h.virtualized, 1);
    CHECK(host_isa_has(&h, "avx2") && host_isa_has(&h, "avx512_bf16") && host_isa_has(&h, "amx_int8"));
    CHECK(!host_isa_has(&h, "amx_fp16") && !host_isa_has(&h, "asimd") && !host_isa_has(&h, "avx512"));
    CHECK_INT(h.n_caches, 3);
    CHECK_INT(h.caches[0].size_bytes, 48 * 1024);
    CHECK_STR(h.caches[0].type, "Data");
    CHECK_INT(h.caches[0].ways, 12);
    CHECK_INT(h.caches[2].level, 3);
    CHECK_INT(h.caches[2].size_bytes, 107520 * 1024);
    CHECK_INT(h.caches[2].instances, 2);
    CHECK_INT(h.memory_bytes, 32880256ll * 1024);
    CHECK_INT(h.memory_available_bytes, 2104320ll * 1024);
    CHECK_INT(h.numa_nodes, 2);
    CHECK_STR(h.governor, "powersave,performance");
    CHECK_INT(h.turbo, 1);
    CHECK_STR(h.thp, "never");
    CHECK_INT(h.aslr, 0); // the personality wins over randomize_va_space = 2
    CHECK_INT(h.cgroup_version, 2);
    CHECK_INT(h.cpu_limited, 1);
    CHECK_NEAR(h.cgroup_cpus, 1.5, 0); // the group above has the tightest quota
    CHECK_INT(h.memory_limited, 1);
    CHECK_INT(h.cgroup_memory_bytes, 8ll << 30);
    CHECK_NEAR(h.load[0], 3.1, 0);
    CHECK_INT(h.cpu_ticks, 1027000);
    CHECK_INT(h.steal_ticks, 51000);
    CHECK(isnan(h.clock_resolution_ns) && h.page_bytes == -1); // a recorded machine has no clock to measure
    CHECK(warned(&h, "governor is powersave,performance: the clock follows the load (performance holds it)"));
    CHECK(warned(&h, "cgroup limits cpu to 1.5 of the usable CPUs: more threads than that are paused in turn"));
    CHECK(warned(&h, "cgroup limits memory to 8 GiB"));
    CHECK(warned(&h, "load 3.1 on 3 cores: other work takes time"));
    CHECK(warned(&h, "5.0 % of the CPU time since boot went to other guests (steal)"));
    CHECK(warned(&h, "the process may run on 3 of 4 CPUs"));
    CHECK(warned(&h, "transparent huge pages are off: large arrays take more address translations"));
    CHECK(warned(&h, "2 NUMA nodes: time depends on where memory lies (numactl pins it)"));
    CHECK(warned(&h, "only 2.01 of 31.4 GiB of memory are available"));
    CHECK(warned(&h, "turbo is on: the clock depends on temperature and on how many cores work"));
    CHECK_INT(h.n_warnings, 10);
    struct host_facts later = h;
    later.cpu_ticks += 1000;
    later.steal_ticks += 250;
    CHECK_NEAR(host_steal_share(&h, &later), 0.25, 0);
    CHECK(isnan(host_steal_share(&h, &h)));
    json_decref(as_json(&h));
}

TEST(base_host_absent_is_null)
{
    static struct host_facts h;
    replay(&h, "sparse-arm");
    CHECK_STR(h.model, "Arm Neoverse V2");
    CHECK(host_isa_has(&h, "asimd") && host_isa_has(&h, "i8mm") && host_isa_has(&h, "bf16"));
    CHECK(!host_isa_has(&h, "avx2"));
    CHECK_INT(h.n_warnings, 0); // what is not known is no reason to warn
    json_t *root = as_json(&h);
    REQUIRE(root);
    static const char *const null_cpu[] = {"architecture", "sockets", "cores",    "threads", "affinity",
                                           "virtualized",  "caches",  "governor", "turbo"};
    for (size_t i = 0; i < sizeof null_cpu / sizeof *null_cpu; i++) {
        if (!CHECK(json_is_null(json_object_get(json_object_get(root, "cpu"), null_cpu[i]))))
            printf("  cpu.%s\n", null_cpu[i]);
    }
    static const char *const groups[] = {"cgroup", "kernel"};
    for (size_t i = 0; i < 2; i++) {
        const char *key;
        json_t *value;
        json_object_foreach(json_object_get(root, groups[i]), key, value)
        {
            if (!CHECK(json_is_null(value)))
                printf("  %s.%s\n", groups[i], key);
        }
    }
    const json_t *memory = json_object_get(root, "memory");
    CHECK_INT(json_integer_value(json_object_get(memory, "total_bytes")), 4028416ll * 1024);
    CHECK(json_is_null(json_object_get(memory, "available_bytes")));
    CHECK(json_is_null(json_object_get(memory, "page_bytes")));
    CHECK(json_is_null(json_object_get(root, "load")));
    CHECK(json_is_null(json_object_get(root, "steal_ticks")));
    CHECK(json_is_null(json_object_get(json_object_get(json_object_get(root, "clock"), "overhead"), "value")));
    json_decref(root);
    replay(&h, "no-such-machine");
    root = as_json(&h);
    REQUIRE(root);
    CHECK(json_is_null(json_object_get(json_object_get(root, "cpu"), "model")));
    CHECK(json_is_null(json_object_get(json_object_get(root, "cpu"), "isa")));
    json_decref(root);
}

TEST(base_host_reads_this_machine)
{
    static struct host_facts h;
    host_read(&h, "/");
    CHECK(h.page_bytes == sysconf(_SC_PAGESIZE));
    CHECK(h.memory_bytes > 0 && h.memory_available_bytes <= h.memory_bytes);
    CHECK(h.affinity == (int64_t)threads_available());
    CHECK(h.clock_resolution_ns > 0 && h.clock_overhead_ns > 0);
    json_t *root = as_json(&h);
    CHECK(root != NULL);
    json_decref(root);
}

// Writes ROOT/PATH with its folders.
static void put(const char *root, const char *path, const char *text)
{
    char full[1024];
    struct error e = {0};
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
        *p = '\0';
        mkdir(full, 0777);
    }
    REQUIRE_OK(file_write(full, text, strlen(text), &e), &e);
}

TEST(base_cgroup_version_1_inside_a_container)
{
    // The container sees its own group mounted as the top, under the host's path, and other controllers besides.
    const char *root = test_dir();
    put(root, "/proc/self/cgroup",
        "7:cpuset:/docker/abc\n5:cpu,cpuacct:/docker/abc/job\n4:memory:/docker/abc\n0::/docker/abc\n");
    put(root, "/proc/self/mountinfo",
        "40 31 0:29 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
        "41 31 0:30 /docker/abc /sys/fs/cgroup/cpu\\054cpuacct ro master:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "42 31 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "43 31 0:32 /docker/abc /sys/fs/cgroup/unified ro - cgroup2 cgroup rw\n");
    put(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    put(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put(root, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    put(root, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    struct cgroup_limits c;
    cgroup_read(&c, root);
    CHECK_INT(c.version, 1);
    CHECK_INT(c.cpu_limited, 1);
    CHECK_NEAR(c.cpus, 2, 0);
    CHECK_INT(c.memory_limited, 0);
    CHECK_INT(c.memory_bytes, -1);
    // Nothing mounted where it says: not known, which is not the same as not limited.
    put(root, "/proc/self/mountinfo", "42 31 0:31 / /sys/fs/cgroup/gone ro - cgroup cgroup rw,memory\n");
    cgroup_read(&c, root);
    CHECK_INT(c.version, -1);
    CHECK_INT(c.cpu_limited, -1);
    CHECK_INT(c.memory_limited, -1);
    CHECK(isnan(c.cpus));
}

TEST(base_cgroup_damaged_files_are_not_known)
{
    const char *root = test_dir();
    struct cgroup_limits c;
    static const char *const damaged[] = {"", "\n", ":", "0:", "0::", "::::\n\n", "0::/a/../../b\n", "x"};
    put(root, "/sys/fs/cgroup/cpu.max", "75000\n"); // no period
    put(root, "/proc/self/mountinfo", "- - - - - - - cgroup2\n1 2 3 / /sys/fs/cgroup o - cgroup2 cgroup2 rw\n");
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        put(root, "/proc/self/cgroup", damaged[i]);
        cgroup_read(&c, root);
        CHECK(c.cpu_limited != 1 && c.memory_limited != 1);
    }
}

TEST(base_sysfile_lists_and_fields)
{
    CHECK_INT(cpulist_count("0-3,8,10-11"), 7);
    CHECK(cpulist_has("0-3,8,10-11", 8) && !cpulist_has("0-3,8,10-11", 9));
    int64_t seen = 0;
    for (int64_t cpu = cpulist_next("0-1,64-65", -1); cpu >= 0; cpu = cpulist_next("0-1,64-65", cpu))
        seen = seen * 100 + cpu;
    CHECK_INT(seen, 16465);
    CHECK_INT(cpulist_next("", -1), -1);
    CHECK_INT(cpulist_count("3-1"), 0);
    CHECK_INT(cpulist_count("0-1,x,5"), 2);
    CHECK_INT(cpulist_count("0,99999999999"), 1); // more than nine digits are no CPU
    char value[8];
    CHECK(sysfile_field("ab: 1\na\t: two \n", "a", value, sizeof value));
    CHECK_STR(value, "two");
    CHECK(sysfile_field("a: longer than that", "a", value, sizeof value));
    CHECK_STR(value, "longer ");
    CHECK(!sysfile_field("a:\n", "a", value, sizeof value));
    CHECK(!sysfile_field("b: 1", "a", value, sizeof value));
}

TEST(base_interrupt_sets_a_flag_once)
{
    struct error e = {0};
    CHECK_INT(interrupt_check("waiting", &e), 0);
    interrupt_install();
    raise(SIGTERM);
    CHECK(interrupt_pending());
    CHECK_STR(interrupt_signal(), "SIGTERM");
    CHECK_INT(interrupt_check("measuring bf16", &e), ERR_INTERRUPTED);
    CHECK_STR(e.message, "SIGTERM while measuring bf16");
    CHECK_INT(error_exit_code(e.code), 130);
    struct sigaction sa;
    CHECK(sigaction(SIGTERM, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL); // the second one ends the process
    CHECK(sigaction(SIGINT, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL);
}

TEST(base_interrupt_ends_the_hashing_of_a_large_file)
{
    struct error e = {0};
    char path[1024], hex[65];
    struct file_map m;
    snprintf(path, sizeof path, "%s/large", test_dir());
    REQUIRE_OK(file_write(path, "", 0, &e), &e);
    REQUIRE(truncate(path, 40 << 20) == 0);
    REQUIRE_OK(file_map_open(&m, path, &e), &e);
    interrupt_install();
    REQUIRE_OK(sha256_map(&m, hex, &e), &e);
    raise(SIGINT);
    CHECK_INT(sha256_map(&m, hex, &e), ERR_INTERRUPTED);
    CHECK_STR(e.message, "SIGINT while hashing a file");
    file_map_close(&m);
}
