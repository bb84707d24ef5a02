// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "base/stats.h"
#include "base/sysfile.h"

// The extensions that decide which arithmetic runs, under the kernel's names.
static const char *const isa_names[] = {
    "sse4_2",   "avx",         "f16c",        "fma",         "avx2",     "avx_vnni", "avx512f",  "avx512dq", "avx512bw",
    "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd",
    "asimdhp",  "asimddp",     "i8mm",        "bf16",        "sve",      "sve2",     "svei8mm",  "svebf16",  "sme",
};
enum { ISA_NAMES = sizeof isa_names / sizeof *isa_names };

const char *host_isa_name(size_t i)
{
    return i < ISA_NAMES ? isa_names[i] : NULL;
}

bool host_isa_has(const struct host_facts *h, const char *name)
{
    for (int i = 0; i < ISA_NAMES; i++) {
        if (strcmp(isa_names[i], name) == 0)
            return h->isa_known && (h->isa >> i & 1);
    }
    return false;
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; (p = strstr(p, word)) != NULL; p += n) {
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    }
    return false;
}

// Arm's /proc/cpuinfo has numbers instead of a name.
static void arm_model(struct host_facts *h, const char *cpuinfo)
{
    static const struct {
        const char *implementer, *part, *name;
    } cores[] = {
        {"0x41", "0xd0c", "Arm Neoverse N1"}, {"0x41", "0xd40", "Arm Neoverse V1"},
        {"0x41", "0xd49", "Arm Neoverse N2"}, {"0x41", "0xd4f", "Arm Neoverse V2"},
        {"0xc0", "0xac3", "Ampere-1"},
    };
    char implementer[16], part[16];
    if (!sysfile_field(cpuinfo, "CPU implementer", implementer, sizeof implementer) ||
        !sysfile_field(cpuinfo, "CPU part", part, sizeof part))
        return;
    snprintf(h->model, sizeof h->model, "Arm implementer %s part %s", implementer, part);
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
        if (strcmp(cores[i].implementer, implementer) == 0 && strcmp(cores[i].part, part) == 0)
            snprintf(h->model, sizeof h->model, "%s", cores[i].name);
    }
}

static void read_cpuinfo(struct host_facts *h, const char *root)
{
    struct str text;
    str_init(&text);
    sysfile_append(root, &text, "/proc/cpuinfo");
    const char *cpuinfo = str_text(&text);
    if (!sysfile_field(cpuinfo, "model name", h->model, sizeof h->model))
        arm_model(h, cpuinfo);
    char flags[8192];
    bool x86 = sysfile_field(cpuinfo, "flags", flags, sizeof flags);
    h->isa_known = x86 || sysfile_field(cpuinfo, "Features", flags, sizeof flags);
    for (int i = 0; i < ISA_NAMES && h->isa_known; i++)
        h->isa |= (uint64_t)has_word(flags, isa_names[i]) << i;
    if (x86)
        h->virtualized = has_word(flags, "hypervisor");
    str_release(&text);
}

// How many online CPUs are the first of the group that `file` lists ("0,64"): the number of groups.
static int64_t count_groups(const char *root, const char *online, const char *file)
{
    int64_t groups = 0;
    for (int64_t cpu = cpulist_next(online, -1); cpu >= 0; cpu = cpulist_next(online, cpu)) {
        char list[1024];
        if (!sysfile_read(root, list, sizeof list, "/sys/devices/system/cpu/cpu%lld/%s", (long long)cpu, file))
            return -1;
        groups += cpulist_next(list, -1) == cpu;
    }
    return groups ? groups : -1;
}

static void read_caches(struct host_facts *h, const char *root, const char *online)
{
    int64_t cpu = cpulist_next(online, -1);
    for (int index = 0; index < HOST_CACHES && cpu >= 0; index++) {
        char place[96], size[32], file[96];
        struct host_cache *c = &h->caches[h->n_caches];
        snprintf(place, sizeof place, "/sys/devices/system/cpu/cpu%lld/cache/index%d", (long long)cpu, index);
        c->level = (int)sysfile_int(root, "%s/level", place);
        if (c->level < 0)
            break;
        sysfile_read(root, c->type, sizeof c->type, "%s/type", place);
        c->line_bytes = sysfile_int(root, "%s/coherency_line_size", place);
        c->ways = sysfile_int(root, "%s/ways_of_associativity", place);
        c->size_bytes = -1;
        if (sysfile_read(root, size, sizeof size, "%s/size", place)) {
            char *unit = size + strspn(size, "0123456789");
            int64_t factor = *unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1, n;
            *unit = '\0';
            if (parse_i64(size, &n) && n <= INT64_MAX / factor)
                c->size_bytes = n * factor;
        }
        snprintf(file, sizeof file, "cache/index%d/shared_cpu_list", index);
        c->instances = count_groups(root, online, file);
        h->n_caches++;
    }
}

static void read_governor(struct host_facts *h, const char *root, const char *online)
{
    for (int64_t cpu = cpulist_next(online, -1); cpu >= 0; cpu = cpulist_next(online, cpu)) {
        char name[32];
        size_t n = strlen(h->governor);
        if (!sysfile_read(root, name, sizeof name, "/sys/devices/system/cpu/cpu%lld/cpufreq/scaling_governor",
                          (long long)cpu))
            continue;
        if (!strstr(h->governor, name) && n + strlen(name) + 2 < sizeof h->governor)
            snprintf(h->governor + n, sizeof h->governor - n, "%s%s", n ? "," : "", name);
    }
    int64_t no_turbo = sysfile_int(root, "/sys/devices/system/cpu/intel_pstate/no_turbo");
    int64_t boost = sysfile_int(root, "/sys/devices/system/cpu/cpufreq/boost");
    if (no_turbo >= 0)
        h->turbo = no_turbo == 0;
    else if (boost >= 0)
        h->turbo = boost != 0;
}

static void read_cpus(struct host_facts *h, const char *root)
{
    char online[4096], status[8192], allowed[4096];
    read_cpuinfo(h, root);
    bool known = sysfile_read(root, online, sizeof online, "/sys/devices/system/cpu/online");
    if (known) {
        h->threads = cpulist_count(online);
        h->cores = count_groups(root, online, "topology/thread_siblings_list");
        h->sockets = count_groups(root, online, "topology/core_siblings_list");
        read_caches(h, root, online);
        read_governor(h, root, online);
    }
    if (sysfile_read(root, status, sizeof status, "/proc/self/status") &&
        sysfile_field(status, "Cpus_allowed_list", allowed, sizeof allowed)) {
        h->affinity = 0; // the list may name CPUs that are possible but not there
        for (int64_t cpu = cpulist_next(allowed, -1); cpu >= 0; cpu = cpulist_next(allowed, cpu))
            h->affinity += !known || cpulist_has(online, cpu);
    }
}

static int64_t kib_field(const char *text, const char *key)
{
    char value[64];
    int64_t kib;
    if (!sysfile_field(text, key, value, sizeof value))
        return -1;
    value[strspn(value, "0123456789")] = '\0';
    return parse_i64(value, &kib) && kib <= INT64_MAX / 1024 ? kib * 1024 : -1;
}

static void read_memory(struct host_facts *h, const char *root)
{
    char text[8192];
    if (sysfile_read(root, text, sizeof text, "/proc/meminfo")) {
        h->memory_bytes = kib_field(text, "MemTotal");
        h->memory_available_bytes = kib_field(text, "MemAvailable");
    }
    if (sysfile_read(root, text, sizeof text, "/sys/devices/system/node/online"))
        h->numa_nodes = cpulist_count(text);
    if (sysfile_read(root, text, sizeof text, "/sys/kernel/mm/transparent_hugepage/enabled")) {
        const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
        if (close)
            snprintf(h->thp, sizeof h->thp, "%.*s", (int)(close - open - 1), open + 1);
    }
}

// Numbers separated by blanks, up to `max` of them: how many there were.
static int numbers(const char *text, double *out, int max)
{
    int n = 0;
    for (char *end; n < max; text = end, n++) {
        out[n] = strtod(text, &end);
        if (end == text || !(out[n] >= 0 && out[n] < 0x1p53))
            break;
    }
    return n;
}

static void read_kernel(struct host_facts *h, const char *root)
{
    char text[4096];
    sysfile_read(root, h->kernel, sizeof h->kernel, "/proc/sys/kernel/osrelease");
    sysfile_read(root, h->architecture, sizeof h->architecture, "/proc/sys/kernel/arch");
    sysfile_read(root, h->clock_source, sizeof h->clock_source,
                 "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    h->aslr = (int)sysfile_int(root, "/proc/sys/kernel/randomize_va_space");
    if (sysfile_read(root, text, sizeof text, "/proc/self/personality") && strtoul(text, NULL, 16) & 0x0040000)
        h->aslr = 0; // ADDR_NO_RANDOMIZE, as setarch -R sets it
    double v[8];
    if (sysfile_read(root, text, sizeof text, "/proc/loadavg") && numbers(text, v, 3) == 3)
        memcpy(h->load, v, sizeof h->load);
    // user nice system idle iowait irq softirq steal; guest time is part of user time already.
    if (sysfile_read(root, text, sizeof text, "/proc/stat") && strncmp(text, "cpu ", 4) == 0 &&
        numbers(text + 4, v, 8) == 8) {
        h->cpu_ticks = 0;
        for (int i = 0; i < 8; i++)
            h->cpu_ticks += (int64_t)v[i];
        h->steal_ticks = (int64_t)v[7];
    }
}

static void warn(struct host_facts *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(struct host_facts *h, const char *fmt, ...)
{
    if (h->n_warnings == HOST_WARNINGS)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(h->warnings[h->n_warnings++], sizeof h->warnings[0], fmt, ap);
    va_end(ap);
}

// ASLR and virtualization are recorded without a warning: they are on nearly everywhere, and interleaved pairs in one
// process share their effect.
static void judge(struct host_facts *h)
{
    const double gib = 1024.0 * 1024 * 1024;
    int64_t usable = h->affinity > 0 ? h->affinity : h->threads;
    if (h->governor[0] && strcmp(h->governor, "performance") != 0)
        warn(h, "governor is %s: the clock follows the load (performance holds it)", h->governor);
    if (h->turbo == 1)
        warn(h, "turbo is on: the clock depends on temperature and on how many cores work");
    if (h->affinity > 0 && h->affinity < h->threads)
        warn(h, "the process may run on %lld of %lld CPUs", (long long)h->affinity, (long long)h->threads);
    if (h->cpu_limited == 1 && (usable < 0 || h->cgroup_cpus < (double)usable))
        warn(h, "cgroup limits cpu to %.3g%s: more threads than that are paused in turn", h->cgroup_cpus,
             usable < 0    ? ""
             : usable == 1 ? " of 1 CPU"
                           : " of the usable CPUs");
    if (h->memory_limited == 1 && (h->memory_bytes < 0 || h->cgroup_memory_bytes < h->memory_bytes))
        warn(h, "cgroup limits memory to %.3g GiB", (double)h->cgroup_memory_bytes / gib);
    // A quarter of a CPU busy per usable one is more than housekeeping.
    if (usable > 0 && h->load[0] > 0.25 * (double)usable)
        warn(h, "load %.1f on %lld %s: other work takes time", h->load[0], (long long)usable,
             usable == 1 ? "core" : "cores");
    if (h->cpu_ticks > 0 && (double)h->steal_ticks > 0.01 * (double)h->cpu_ticks)
        warn(h, "%.1f %% of the CPU time since boot went to other guests (steal)",
             100 * (double)h->steal_ticks / (double)h->cpu_ticks);
    if (h->memory_available_bytes >= 0 && (double)h->memory_available_bytes < 0.1 * (double)h->memory_bytes)
        warn(h, "only %.3g of %.3g GiB of memory are available", (double)h->memory_available_bytes / gib,
             (double)h->memory_bytes / gib);
    if (strcmp(h->thp, "never") == 0)
        warn(h, "transparent huge pages are off: large arrays take more address translations");
    if (h->numa_nodes > 1)
        warn(h, "%lld NUMA nodes: time depends on where memory lies (numactl pins it)", (long long)h->numa_nodes);
    if (h->clock_resolution_ns > 1000)
        warn(h, "the clock (%s) moves in steps of %.3g us", h->clock_source[0] ? h->clock_source : "unknown",
             h->clock_resolution_ns / 1e3);
}

void host_read(struct host_facts *h, const char *root)
{
    bool live = strcmp(root, "/") == 0;
    memset(h, 0, sizeof *h);
    h->sockets = h->cores = h->threads = h->affinity = -1;
    h->virtualized = h->turbo = h->aslr = -1;
    h->memory_bytes = h->memory_available_bytes = h->page_bytes = h->numa_nodes = -1;
    h->load[0] = h->load[1] = h->load[2] = NAN;
    h->cpu_ticks = h->steal_ticks = -1;
    h->clock_resolution_ns = h->clock_overhead_ns = NAN;
    read_cpus(h, root);
    read_memory(h, root);
    read_kernel(h, root);
    struct cgroup_limits limits;
    cgroup_read(&limits, root);
    h->cgroup_version = limits.version;
    h->cpu_limited = limits.cpu_limited;
    h->cgroup_cpus = limits.cpus;
    h->memory_limited = limits.memory_limited;
    h->cgroup_memory_bytes = limits.memory_bytes;
    if (live) {
        struct utsname u;
        h->page_bytes = sysconf(_SC_PAGESIZE);
        if (uname(&u) == 0)
            snprintf(h->architecture, sizeof h->architecture, "%.31s", u.machine);
        host_clock(&h->clock_resolution_ns, &h->clock_overhead_ns);
    }
    judge(h);
}

double host_steal_share(const struct host_facts *before, const struct host_facts *after)
{
    int64_t ticks = after->cpu_ticks - before->cpu_ticks;
    if (before->cpu_ticks < 0 || after->cpu_ticks < 0 || ticks <= 0)
        return NAN;
    return (double)(after->steal_ticks - before->steal_ticks) / (double)ticks;
}

void host_clock(double *resolution_ns, double *overhead_ns)
{
    enum { BATCHES = 31, CALLS = 64 };
    uint64_t step = UINT64_MAX, last = clock_ns();
    // A coarse clock may stand still for milliseconds: go on until it has moved, within reason.
    for (int reads = 0; reads < 2000 || (step == UINT64_MAX && reads < 1000000); reads++) {
        uint64_t now = clock_ns();
        if (now > last && now - last < step)
            step = now - last;
        last = now;
    }
    *resolution_ns = step == UINT64_MAX ? NAN : (double)step;
    double cost[BATCHES], scratch[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        uint64_t start = clock_ns(), stop = start;
        for (int i = 0; i < CALLS; i++)
            stop = clock_ns();
        cost[b] = (double)(stop - start) / CALLS;
    }
    *overhead_ns = stats_median(cost, BATCHES, scratch);
}

static void text_or_null(struct jw *w, const char *key, const char *text)
{
    jw_kv_string(w, key, text[0] ? text : NULL);
}

static void int_or_null(struct jw *w, const char *key, int64_t v)
{
    if (v < 0)
        jw_kv_null(w, key);
    else
        jw_kv_int(w, key, v);
}

static void bool_or_null(struct jw *w, const char *key, int v)
{
    if (v < 0)
        jw_kv_null(w, key);
    else
        jw_kv_bool(w, key, v != 0);
}

static void cpu_json(struct jw *w, const struct host_facts *h)
{
    jw_key(w, "cpu");
    jw_object(w);
    text_or_null(w, "model", h->model);
    text_or_null(w, "architecture", h->architecture);
    int_or_null(w, "sockets", h->sockets);
    int_or_null(w, "cores", h->cores);
    int_or_null(w, "threads", h->threads);
    int_or_null(w, "affinity", h->affinity);
    bool_or_null(w, "virtualized", h->virtualized);
    jw_key(w, "isa");
    if (h->isa_known) {
        jw_array(w);
        for (int i = 0; i < ISA_NAMES; i++) {
            if (h->isa >> i & 1)
                jw_string(w, isa_names[i]);
        }
        jw_array_end(w);
    } else {
        jw_null(w);
    }
    jw_key(w, "caches");
    if (h->n_caches) {
        jw_array(w);
        for (size_t i = 0; i < h->n_caches; i++) {
            const struct host_cache *c = &h->caches[i];
            jw_object(w);
            jw_kv_int(w, "level", c->level);
            text_or_null(w, "type", c->type);
            int_or_null(w, "size_bytes", c->size_bytes);
            int_or_null(w, "line_bytes", c->line_bytes);
            int_or_null(w, "ways", c->ways);
            int_or_null(w, "instances", c->instances);
            jw_object_end(w);
        }
        jw_array_end(w);
    } else {
        jw_null(w);
    }
    text_or_null(w, "governor", h->governor);
    bool_or_null(w, "turbo", h->turbo);
    jw_object_end(w);
}

void host_json(struct jw *w, const struct host_facts *h)
{
    jw_object(w);
    cpu_json(w, h);
    jw_key(w, "memory");
    jw_object(w);
    int_or_null(w, "total_bytes", h->memory_bytes);
    int_or_null(w, "available_bytes", h->memory_available_bytes);
    int_or_null(w, "page_bytes", h->page_bytes);
    text_or_null(w, "transparent_huge_pages", h->thp);
    int_or_null(w, "numa_nodes", h->numa_nodes);
    jw_object_end(w);
    jw_key(w, "cgroup");
    jw_object(w);
    int_or_null(w, "version", h->cgroup_version);
    bool_or_null(w, "cpu_limited", h->cpu_limited);
    jw_kv_double(w, "cpus", h->cgroup_cpus);
    bool_or_null(w, "memory_limited", h->memory_limited);
    int_or_null(w, "memory_bytes", h->cgroup_memory_bytes);
    jw_object_end(w);
    jw_key(w, "kernel");
    jw_object(w);
    text_or_null(w, "release", h->kernel);
    text_or_null(w, "clock_source", h->clock_source);
    int_or_null(w, "aslr", h->aslr);
    jw_object_end(w);
    jw_key(w, "load");
    if (isnan(h->load[0])) {
        jw_null(w);
    } else {
        jw_array(w);
        for (int i = 0; i < 3; i++)
            jw_double(w, h->load[i]);
        jw_array_end(w);
    }
    int_or_null(w, "cpu_ticks", h->cpu_ticks);
    int_or_null(w, "steal_ticks", h->steal_ticks);
    jw_key(w, "clock");
    jw_object(w);
    const char *source = isnan(h->clock_overhead_ns) ? "not measured: the facts were read from a recorded machine"
                                                     : "CLOCK_MONOTONIC, back-to-back reads";
    quantity_json_kv(w, "resolution", quantity_make(h->clock_resolution_ns, "ns", ORIGIN_MEASURED, source));
    quantity_json_kv(w, "overhead", quantity_make(h->clock_overhead_ns, "ns", ORIGIN_MEASURED, source));
    jw_object_end(w);
    jw_key(w, "warnings");
    jw_array(w);
    for (size_t i = 0; i < h->n_warnings; i++)
        jw_string(w, h->warnings[i]);
    jw_array_end(w);
    jw_object_end(w);
}
