// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sysfile.h"

enum { PATH_BYTES = 2048 };

// Is `word` one of the words of a list separated by `separator`?
static bool listed(const char *list, size_t length, const char *word, char separator)
{
    size_t n = strlen(word);
    for (size_t at = 0; at <= length;) {
        const char *stop = memchr(list + at, separator, length - at);
        size_t k = stop ? (size_t)(stop - list) - at : length - at;
        if (k == n && memcmp(list + at, word, n) == 0)
            return true;
        at += k + 1;
    }
    return false;
}

// The path of this process in the hierarchy of `controller`, from lines "ID:CONTROLLERS:PATH"; NULL for the controller
// means version 2, whose line is "0::PATH".
static bool own_path(const char *text, const char *controller, char out[PATH_BYTES])
{
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        const char *a = memchr(line, ':', length), *b = NULL;
        if (a)
            b = memchr(a + 1, ':', length - (size_t)(a + 1 - line));
        if (b) {
            size_t list = (size_t)(b - a - 1), path = length - (size_t)(b + 1 - line);
            bool wanted = controller ? list && listed(a + 1, list, controller, ',') : list == 0;
            if (wanted && path < PATH_BYTES) {
                memcpy(out, b + 1, path);
                out[path] = '\0';
                return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

// Copies a word of mountinfo, where blank, tab, newline and backslash stand as \ooo.
static void unescape(const char *from, size_t n, char out[PATH_BYTES])
{
    size_t m = 0;
    for (size_t i = 0; i < n && m < PATH_BYTES - 1; i++) {
        if (from[i] == '\\' && i + 3 < n) {
            out[m++] = (char)(((from[i + 1] - '0') << 6) | ((from[i + 2] - '0') << 3) | (from[i + 3] - '0'));
            i += 3;
        } else {
            out[m++] = from[i];
        }
    }
    out[m] = '\0';
}

// Finds the mount of the controller (NULL: version 2) in "ID PARENT DEVICE ROOT POINT OPTIONS [TAG...] - TYPE SOURCE
// SUPER_OPTIONS".
static bool find_mount(const char *text, const char *controller, char mount_root[PATH_BYTES], char point[PATH_BYTES])
{
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n"), words = 0, dash = 0;
        const char *word[16];
        size_t size[16];
        for (size_t at = 0; at < length && words < 16; words++) {
            word[words] = line + at;
            size[words] = strcspn(line + at, " \n");
            if (words >= 6 && !dash && size[words] == 1 && word[words][0] == '-')
                dash = words;
            at += size[words] + 1;
        }
        if (dash && dash + 3 < words) {
            const char *type = controller ? "cgroup" : "cgroup2";
            bool found = size[dash + 1] == strlen(type) && memcmp(word[dash + 1], type, strlen(type)) == 0;
            if (found && controller)
                found = listed(word[dash + 3], size[dash + 3], controller, ',');
            if (found) {
                unescape(word[3], size[3], mount_root);
                unescape(word[4], size[4], point);
                return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

// The part of `path` below the mounted root: "" when the group lies outside of what is mounted (another namespace).
static const char *below(const char *path, const char *mount_root)
{
    if (strstr(path, "/.."))
        return "";
    if (strcmp(mount_root, "/") == 0)
        return strcmp(path, "/") == 0 ? "" : path;
    size_t n = strlen(mount_root);
    return strncmp(path, mount_root, n) == 0 && (path[n] == '/' || path[n] == '\0') ? path + n : "";
}

static void limit_cpus(struct cgroup_limits *c, double quota, double period)
{
    if (!(quota > 0) || !(period > 0))
        return;
    c->cpu_limited = 1;
    c->cpus = fmin(quota / period, isnan(c->cpus) ? INFINITY : c->cpus);
}

static void limit_memory(struct cgroup_limits *c, int64_t bytes)
{
    // Version 1 writes "no limit" as the largest multiple of the page size.
    if (bytes < 0 || bytes >= INT64_C(1) << 62)
        return;
    c->memory_limited = 1;
    c->memory_bytes = c->memory_bytes < 0 || bytes < c->memory_bytes ? bytes : c->memory_bytes;
}

static void cpu_at(struct cgroup_limits *c, const char *root, const char *group, bool v2)
{
    char text[64];
    if (!v2) {
        limit_cpus(c, (double)sysfile_int(root, "%s/cpu.cfs_quota_us", group),
                   (double)sysfile_int(root, "%s/cpu.cfs_period_us", group));
    } else if (sysfile_read(root, text, sizeof text, "%s/cpu.max", group)) {
        char *blank = strchr(text, ' ');
        uint64_t quota, period;
        if (blank) {
            *blank = '\0';
            if (parse_u64(text, &quota) && parse_u64(blank + 1, &period)) // "max" is no limit
                limit_cpus(c, (double)quota, (double)period);
        }
    }
}

static void memory_at(struct cgroup_limits *c, const char *root, const char *group, bool v2)
{
    limit_memory(c, sysfile_int(root, "%s/%s", group, v2 ? "memory.max" : "memory.limit_in_bytes"));
}

// Visits the group and all above it. False when the hierarchy cannot be found.
static bool walk(struct cgroup_limits *c, const char *root, const char *groups, const char *mounts,
                 const char *controller, void (*at)(struct cgroup_limits *, const char *, const char *, bool))
{
    char path[PATH_BYTES], mount_root[PATH_BYTES], point[PATH_BYTES], group[2 * PATH_BYTES], full[3 * PATH_BYTES];
    if (!own_path(groups, controller, path) || !find_mount(mounts, controller, mount_root, point))
        return false;
    snprintf(full, sizeof full, "%s%s", strcmp(root, "/") == 0 ? "" : root, point);
    if (access(full, R_OK) != 0)
        return false;
    size_t top = strlen(point);
    snprintf(group, sizeof group, "%s%s", point, below(path, mount_root));
    for (;;) {
        at(c, root, group, controller == NULL);
        char *slash = strrchr(group, '/');
        if (strlen(group) <= top || !slash)
            return true;
        *slash = '\0';
    }
}

void cgroup_read(struct cgroup_limits *c, const char *root)
{
    static const char v1_cpu[] = "cpu", v1_memory[] = "memory";
    char path[PATH_BYTES];
    struct str groups, mounts;
    *c =
        (struct cgroup_limits){.version = -1, .cpu_limited = -1, .cpus = NAN, .memory_limited = -1, .memory_bytes = -1};
    str_init(&groups);
    str_init(&mounts);
    sysfile_append(root, &groups, "/proc/self/cgroup");
    sysfile_append(root, &mounts, "/proc/self/mountinfo");
    // A controller that has a version 1 hierarchy is not in version 2.
    const char *g = str_text(&groups), *m = str_text(&mounts);
    bool cpu_v1 = own_path(g, v1_cpu, path), memory_v1 = own_path(g, v1_memory, path);
    if (walk(c, root, g, m, cpu_v1 ? v1_cpu : NULL, cpu_at)) {
        c->version = cpu_v1 ? 1 : 2;
        c->cpu_limited = c->cpu_limited == 1;
    }
    if (walk(c, root, g, m, memory_v1 ? v1_memory : NULL, memory_at))
        c->memory_limited = c->memory_limited == 1;
    str_release(&groups);
    str_release(&mounts);
}
