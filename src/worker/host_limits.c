// SPDX-License-Identifier: Apache-2.0
#include "worker/host_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return ok;
}

void host_limits_give_way(void)
{
    write_file("/proc/self/oom_score_adj", "1000");
    struct rlimit core;
    if (getrlimit(RLIMIT_CORE, &core) == 0) {
        core.rlim_cur = 0;
        setrlimit(RLIMIT_CORE, &core);
    }
}

// The lowest-numbered processor that shares a core with `cpu`; itself when not known.
static int first_sibling(int cpu)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    struct str s;
    str_init(&s);
    int first = cpu;
    if (file_read(&s, path, 4096, NULL) == 0) {
        char *end;
        long v = strtol(str_text(&s), &end, 10);
        if (end != s.text && v >= 0 && v < cpu)
            first = (int)v;
    }
    str_release(&s);
    return first;
}

int host_limits_processors(int n, struct error *err)
{
    // Room for machines with more processors than a cpu_set_t holds.
    enum { SETS = 16 };
    cpu_set_t may[SETS], keep[SETS];
    CPU_ZERO_S(sizeof may, may);
    CPU_ZERO_S(sizeof keep, keep);
    if (sched_getaffinity(0, sizeof may, may) != 0)
        return error_set(err, ERR_DEVICE, "threads", "the processors cannot be asked: %s", strerror(errno));
    int kept = 0, all = SETS * CPU_SETSIZE;
    for (int pass = 0; pass < 2; pass++) {
        for (int cpu = 0; cpu < all && kept < n; cpu++) {
            bool wanted = CPU_ISSET_S((size_t)cpu, sizeof may, may) && !CPU_ISSET_S((size_t)cpu, sizeof keep, keep);
            if (wanted && (pass == 1 || first_sibling(cpu) == cpu)) {
                CPU_SET_S((size_t)cpu, sizeof keep, keep);
                kept++;
            }
        }
    }
    if (sched_setaffinity(0, sizeof keep, keep) != 0)
        return error_set(err, ERR_DEVICE, "threads", "the processors cannot be limited: %s", strerror(errno));
    return 0;
}

// The number of kilobytes after `key` in the text of a status file, in bytes.
static uint64_t kilobytes(const char *status, const char *key)
{
    const char *at = strstr(status, key);
    return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

void host_limits_memory(uint64_t *rss_bytes, uint64_t *peak_rss_bytes)
{
    struct str s;
    str_init(&s);
    file_read(&s, "/proc/self/status", 65536, NULL);
    *rss_bytes = kilobytes(str_text(&s), "VmRSS:");
    *peak_rss_bytes = kilobytes(str_text(&s), "VmHWM:");
    str_release(&s);
}

bool host_limits_reset_peak(void)
{
    return write_file("/proc/self/clear_refs", "5");
}
