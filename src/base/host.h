// SPDX-License-Identifier: Apache-2.0
// What the machine is and what may disturb a measurement on it.
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum { HOST_CACHES = 8, HOST_WARNINGS = 16 };

// Numbers that are not known are -1 (integers) or NAN, texts are empty; in JSON all of them are null.
struct host_cache {
    int level;
    char type[16]; // "Data", "Instruction", "Unified"
    int64_t size_bytes, line_bytes, ways;
    int64_t instances; // on the online CPUs
};

struct host_facts {
    char model[128];
    char architecture[32];
    char kernel[128];
    int64_t sockets, cores, threads; // online
    int64_t affinity;                // CPUs this process may run on
    int virtualized;                 // 1, 0, or -1
    bool isa_known;
    uint64_t isa; // bits by the table behind host_isa_has
    size_t n_caches;
    struct host_cache caches[HOST_CACHES]; // of the first online CPU, by level
    int64_t memory_bytes, memory_available_bytes, page_bytes;
    int64_t numa_nodes;
    char governor[64]; // several, separated by commas, when the CPUs differ
    int turbo;         // 1 on, 0 off, -1
    char thp[16];      // transparent huge pages: "always", "madvise", "never"
    char clock_source[32];
    int aslr;                                      // 0 off (also by personality), 1, 2, -1
    int cgroup_version;                            // 1, 2, or -1
    int cpu_limited;                               // 1, 0, or -1
    double cgroup_cpus;                            // CPU time per time, NAN without a limit
    int memory_limited;                            // 1, 0, or -1
    int64_t cgroup_memory_bytes;                   // -1 without a limit
    double load[3];                                // 1, 5, 15 minutes
    int64_t cpu_ticks, steal_ticks;                // since boot, all CPUs together
    double clock_resolution_ns, clock_overhead_ns; // measured now; NAN for another root than "/"
    size_t n_warnings;
    char warnings[HOST_WARNINGS][192]; // lower case, one clause each: "governor is powersave: ..."
};

// Reads /proc and /sys under `root` ("/" is this machine; another folder replays a recorded one). What cannot be read
// is unknown; nothing fails.
void host_read(struct host_facts *h, const char *root);
// Has the CPU the instruction set extension ("avx2", "fma", "avx512_bf16", "amx_int8", "asimd", "i8mm", ...)? False
// also when not known, or for a name that is not in the table.
bool host_isa_has(const struct host_facts *h, const char *name);
// Name of the i-th extension in that table, NULL past the last.
const char *host_isa_name(size_t i);
// Share of CPU time that the hypervisor gave to others between two readings (0..1), NAN when it cannot be told.
double host_steal_share(const struct host_facts *before, const struct host_facts *after);
// One object with all facts and the warnings.
void host_json(struct jw *w, const struct host_facts *h);

// Smallest step of clock_ns() seen, and what one call costs (median over batches), in ns. Takes under a millisecond.
void host_clock(double *resolution_ns, double *overhead_ns);

#endif
