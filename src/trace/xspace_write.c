// SPDX-License-Identifier: Apache-2.0
// Field numbers: openxla/xla, third_party/tsl/tsl/profiler/protobuf/xplane.proto. Fields that are zero are left out.
#include "trace/xspace_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/pbwire.h"

enum { STAT_STEP = 1, STAT_ROOT = 2 };       // of the host plane
enum { STAT_STARTED = 1, STAT_STOPPED = 2 }; // of the task environment
enum { PLANE_NAME = 2, PLANE_LINES, PLANE_EVENT_NAMES, PLANE_STAT_NAMES, PLANE_STATS };

static void put_nonzero(struct str *out, uint32_t field, int64_t v)
{
    if (v)
        pb_put_int(out, field, v);
}

// An entry of a plane's table: what number `id` is called.
static void put_name(struct str *out, uint32_t table, int64_t id, const char *name)
{
    size_t entry = pb_begin(out, table);
    pb_put_int(out, 1, id);
    size_t metadata = pb_begin(out, 2);
    pb_put_int(out, 1, id);
    pb_put_string(out, 2, name);
    pb_end(out, metadata);
    pb_end(out, entry);
}

// field 3: an unsigned, 4: a signed value
static void put_stat(struct str *out, uint32_t field, int64_t id, uint32_t kind, uint64_t v)
{
    size_t stat = pb_begin(out, field);
    pb_put_int(out, 1, id);
    pb_put_uint(out, kind, v);
    pb_end(out, stat);
}

static int by_start(const void *a, const void *b)
{
    const struct xwrite_event *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

// The names of events in order of first use; an event's id is the place of its name, from 1 on.
struct names {
    const char **list;
    size_t n;
};

static int64_t name_id(struct names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->list[i], name) == 0)
            return (int64_t)i + 1;
    }
    names->list[names->n++] = name;
    return (int64_t)names->n;
}

static void put_event(struct str *out, const struct xwrite_event *e, uint64_t start_ns, struct names *names)
{
    size_t event = pb_begin(out, 4);
    pb_put_int(out, 1, name_id(names, e->name));
    put_nonzero(out, 2, (int64_t)((e->start_ns - start_ns) * 1000));
    put_nonzero(out, 3, (int64_t)((e->end_ns - e->start_ns) * 1000));
    if (e->step >= 0) {
        // What jax.profiler.StepTraceAnnotation sets: the number, and that a step begins here.
        put_stat(out, 4, STAT_STEP, 4, (uint64_t)e->step);
        put_stat(out, 4, STAT_ROOT, 4, 1);
    }
    pb_end(out, event);
}

static void put_line(struct str *out, struct xwrite_line *l, uint64_t start_ns, uint64_t end_ns, struct names *names)
{
    size_t line = pb_begin(out, PLANE_LINES);
    put_nonzero(out, 1, l->id);
    pb_put_string(out, 2, l->name);
    if (l->n_events)
        qsort(l->events, l->n_events, sizeof *l->events, by_start);
    for (size_t i = 0; i < l->n_events; i++) {
        const struct xwrite_event *e = &l->events[i];
        if (e->start_ns >= start_ns && e->end_ns >= e->start_ns && e->end_ns <= end_ns)
            put_event(out, e, start_ns, names);
    }
    pb_end(out, line);
}

static void put_host(struct str *out, struct xwrite_line *lines, size_t n_lines, uint64_t start_ns, uint64_t end_ns,
                     struct names *names)
{
    size_t plane = pb_begin(out, 1);
    pb_put_string(out, PLANE_NAME, "/host:CPU");
    for (size_t i = 0; i < n_lines; i++)
        put_line(out, &lines[i], start_ns, end_ns, names);
    for (size_t i = 0; i < names->n; i++)
        put_name(out, PLANE_EVENT_NAMES, (int64_t)i + 1, names->list[i]);
    put_name(out, PLANE_STAT_NAMES, STAT_STEP, "step_num");
    put_name(out, PLANE_STAT_NAMES, STAT_ROOT, "_r");
    pb_end(out, plane);
}

static void put_environment(struct str *out, int64_t epoch_ns, uint64_t length_ns)
{
    size_t plane = pb_begin(out, 1);
    pb_put_string(out, PLANE_NAME, "Task Environment");
    put_name(out, PLANE_STAT_NAMES, STAT_STARTED, "profile_start_time");
    put_name(out, PLANE_STAT_NAMES, STAT_STOPPED, "profile_stop_time");
    put_stat(out, PLANE_STATS, STAT_STARTED, 3, (uint64_t)epoch_ns);
    put_stat(out, PLANE_STATS, STAT_STOPPED, 3, (uint64_t)epoch_ns + length_ns);
    pb_end(out, plane);
}

int xspace_write(struct str *out, const char *host, struct xwrite_line *lines, size_t n_lines, uint64_t start_ns,
                 uint64_t end_ns, int64_t epoch_ns, struct error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < n_lines; i++)
        n += lines[i].n_events;
    struct names names = {.list = calloc(n + 1, sizeof *names.list)};
    if (!names.list)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the names of %zu events", n);
    put_host(out, lines, n_lines, start_ns, end_ns, &names);
    put_environment(out, epoch_ns, end_ns - start_ns);
    pb_put_string(out, 4, host);
    free(names.list);
    return str_check(out, err);
}
