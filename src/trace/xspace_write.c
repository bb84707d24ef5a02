// SPDX-License-Identifier: Apache-2.0
// Field numbers: openxla/xla, third_party/tsl/tsl/profiler/protobuf/xplane.proto. Fields that are zero are left out.
#include "trace/xspace_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/xspace.h"

enum { STAT_STEP = 1, STAT_ROOT, STAT_OP, STAT_MODULE, STAT_PROGRAM, STAT_CATEGORY }; // of the host plane
enum { STAT_HLO = 1, STAT_HLO_PROGRAM };                                              // of the metadata
enum { STAT_STARTED = 1, STAT_STOPPED = 2 };                                          // of the task environment

static void put_nonzero(struct str *out, uint32_t field, int64_t v)
{
    if (v)
        pb_put_int(out, field, v);
}

void xwrite_row(struct str *out, uint32_t table, int64_t id, struct slice name, struct slice display_name,
                struct slice stats)
{
    size_t entry = pb_begin(out, table);
    pb_put_int(out, 1, id);
    size_t metadata = pb_begin(out, 2);
    pb_put_int(out, 1, id);
    pb_put_bytes(out, 2, name.data, name.size);
    if (display_name.size)
        pb_put_bytes(out, 4, display_name.data, display_name.size);
    str_add_n(out, stats.data, stats.size);
    pb_end(out, metadata);
    pb_end(out, entry);
}

static void put_name(struct str *out, uint32_t table, int64_t id, const char *name)
{
    xwrite_row(out, table, id, (struct slice){(const uint8_t *)name, strlen(name)}, (struct slice){NULL, 0},
               (struct slice){NULL, 0});
}

void xwrite_number(struct str *out, uint32_t field, int64_t id, uint32_t kind, uint64_t v)
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

// What events are called, in order of first use; an event's id is the place of its name, from 1 on. The same name
// stands once for each program: readers add up by id.
struct names {
    struct name {
        const char *text;
        const struct xwrite_program *program;
    } * list;
    size_t n;
};

static int64_t name_id(struct names *names, const struct xwrite_event *e)
{
    for (size_t i = 0; i < names->n; i++) {
        if (names->list[i].program == e->program && strcmp(names->list[i].text, e->name) == 0)
            return (int64_t)i + 1;
    }
    names->list[names->n++] = (struct name){e->name, e->program};
    return (int64_t)names->n;
}

static void put_text(struct str *out, uint32_t field, int64_t id, const char *text)
{
    size_t stat = pb_begin(out, field);
    pb_put_int(out, 1, id);
    pb_put_string(out, 5, text);
    pb_end(out, stat);
}

static void put_event(struct str *out, const struct xwrite_event *e, uint64_t start_ns, struct names *names)
{
    size_t event = pb_begin(out, 4);
    pb_put_int(out, 1, name_id(names, e));
    put_nonzero(out, 2, (int64_t)((e->start_ns - start_ns) * 1000));
    put_nonzero(out, 3, (int64_t)((e->end_ns - e->start_ns) * 1000));
    if (e->step >= 0) {
        // What jax.profiler.StepTraceAnnotation sets: the number, and that a step begins here.
        xwrite_number(out, 4, STAT_STEP, 4, (uint64_t)e->step);
        xwrite_number(out, 4, STAT_ROOT, 4, 1);
    }
    if (e->program) {
        put_text(out, 4, STAT_OP, e->program->name);
        put_text(out, 4, STAT_MODULE, e->program->name);
        xwrite_number(out, 4, STAT_PROGRAM, 3, e->program->id);
        put_text(out, 4, STAT_CATEGORY, "program");
    }
    pb_end(out, event);
}

static void put_line(struct str *out, struct xwrite_line *l, const struct xwrite_space *s, int64_t timestamp_ns,
                     struct names *names)
{
    size_t line = pb_begin(out, XPLANE_LINE);
    put_nonzero(out, 1, l->id);
    pb_put_string(out, 2, l->name);
    put_nonzero(out, 3, timestamp_ns);
    if (l->n_events)
        qsort(l->events, l->n_events, sizeof *l->events, by_start);
    for (size_t i = 0; i < l->n_events; i++) {
        const struct xwrite_event *e = &l->events[i];
        if (e->start_ns >= s->start_ns && e->end_ns >= e->start_ns && e->end_ns <= s->end_ns)
            put_event(out, e, s->start_ns, names);
    }
    pb_end(out, line);
}

static int put_host(struct str *out, const struct xwrite_space *s, const char *plane_name, int64_t timestamp_ns,
                    struct error *err)
{
    static const char *const stats[] = {"step_num", "_r", "hlo_op", "hlo_module", "program_id", "hlo_category"};
    size_t n = 0;
    for (size_t i = 0; i < s->n_lines; i++)
        n += s->lines[i].n_events;
    struct names names = {.list = calloc(n + 1, sizeof *names.list)};
    if (!names.list)
        return error_set(err, ERR_MEMORY, NULL, "no memory for the names of %zu events", n);
    size_t plane = pb_begin(out, XSPACE_PLANE);
    pb_put_string(out, XPLANE_NAME, plane_name);
    for (size_t i = 0; i < s->n_lines; i++)
        put_line(out, &s->lines[i], s, timestamp_ns, &names);
    for (size_t i = 0; i < names.n; i++)
        put_name(out, XPLANE_EVENT_NAME, (int64_t)i + 1, names.list[i].text);
    for (size_t i = 0; i < sizeof stats / sizeof *stats; i++)
        put_name(out, XPLANE_STAT_NAME, (int64_t)i + 1, stats[i]);
    pb_end(out, plane);
    free(names.list);
    return 0;
}

// An entry of the table of events for each program: "jit_f(3)", with an xla.HloProto.
static void put_program(struct str *out, const struct xwrite_program *p)
{
    size_t entry = pb_begin(out, XPLANE_EVENT_NAME);
    pb_put_uint(out, 1, p->id);
    size_t metadata = pb_begin(out, 2);
    pb_put_uint(out, 1, p->id);
    size_t name = pb_begin(out, 2);
    str_addf(out, "%s(%" PRIu64 ")", p->name, p->id);
    pb_end(out, name);
    size_t stat = pb_begin(out, 5);
    pb_put_int(out, 1, STAT_HLO);
    size_t proto = pb_begin(out, 6);
    pb_put_bytes(out, 1, p->module.data, p->module.size);
    if (p->buffers.size)
        pb_put_bytes(out, 3, p->buffers.data, p->buffers.size);
    pb_end(out, proto);
    pb_end(out, stat);
    xwrite_number(out, 5, STAT_HLO_PROGRAM, 3, p->id);
    pb_end(out, metadata);
    pb_end(out, entry);
}

static void put_programs(struct str *out, const struct xwrite_space *s)
{
    size_t plane = pb_begin(out, XSPACE_PLANE);
    pb_put_string(out, XPLANE_NAME, "/host:metadata");
    for (size_t i = 0; i < s->n_programs; i++) {
        if (s->programs[i].module.size)
            put_program(out, &s->programs[i]);
    }
    put_name(out, XPLANE_STAT_NAME, STAT_HLO, "Hlo Proto");
    put_name(out, XPLANE_STAT_NAME, STAT_HLO_PROGRAM, "program_id");
    pb_end(out, plane);
}

void xwrite_environment(struct str *out, uint64_t start_ns, uint64_t end_ns)
{
    size_t plane = pb_begin(out, XSPACE_PLANE);
    pb_put_string(out, XPLANE_NAME, "Task Environment");
    put_name(out, XPLANE_STAT_NAME, STAT_STARTED, "profile_start_time");
    put_name(out, XPLANE_STAT_NAME, STAT_STOPPED, "profile_stop_time");
    xwrite_number(out, XPLANE_STAT, STAT_STARTED, 3, start_ns);
    xwrite_number(out, XPLANE_STAT, STAT_STOPPED, 3, end_ns);
    pb_end(out, plane);
}

static void put_environment(struct str *out, const struct xwrite_space *s)
{
    xwrite_environment(out, (uint64_t)s->epoch_ns, (uint64_t)s->epoch_ns + (s->end_ns - s->start_ns));
}

static void put_warning(struct str *out, const struct xwrite_space *s)
{
    if (s->warning)
        pb_put_string(out, XSPACE_WARNING, s->warning);
}

int xspace_write(struct str *out, const struct xwrite_space *s, struct error *err)
{
    int rc = put_host(out, s, "/host:CPU", 0, err);
    if (rc)
        return rc;
    if (s->n_programs)
        put_programs(out, s);
    put_environment(out, s);
    put_warning(out, s);
    pb_put_string(out, XSPACE_HOST, s->host);
    return str_check(out, err);
}

// ---- What a plugin recorded

#define UNIX_NS 1000000000000000 // what no time since a start is

int xspace_look(const struct str *space, struct xspace_contents *c, struct error *err)
{
    struct xspace x;
    struct arena a;
    *c = (struct xspace_contents){0};
    if (!space->length)
        return 0;
    arena_init(&a);
    int rc = xspace_read(&x, str_text(space), space->length, "the plugin's profile", &a, err);
    if (rc == ERR_INPUT) // which no file of the user's is
        rc = error_set(err, ERR_DEVICE, "the plugin's profile", "is no XSpace");
    if (!rc && x.damage.what)
        rc = error_set(err, ERR_DEVICE, "the plugin's profile", "is damaged at offset %" PRIu64 " (%s): %s",
                       x.damage.offset, x.damage.where, x.damage.what);
    for (size_t i = 0; i < x.n_planes && !rc; i++) {
        struct xplane *p = &x.planes[i];
        c->environment |= slice_is(p->name, "Task Environment");
        c->programs |= slice_is(p->name, "/host:metadata") && p->event_table.n_rows > 0;
        for (size_t k = 0; k < p->n_lines; k++) {
            struct xevents walk = xline_events(&p->lines[k]);
            struct xevent e;
            while (xevent_next(&walk, &e))
                c->events++;
            c->absolute |= p->lines[k].timestamp_ns > UNIX_NS;
        }
    }
    c->host = !rc && x.n_hosts > 0;
    arena_release(&a);
    return rc;
}

int xspace_append(struct str *space, const struct xwrite_space *s, int pid, struct error *err)
{
    struct xspace_contents c;
    char name[48];
    int rc = xspace_look(space, &c, err);
    if (!rc && !c.events)
        rc = error_set(err, ERR_DEVICE, "the plugin's profile", "holds no events");
    if (rc)
        return rc;
    snprintf(name, sizeof name, "/host:CPU [%d]", pid);
    rc = put_host(space, s, name, c.absolute ? s->epoch_ns : 0, err);
    if (rc)
        return rc;
    if (s->n_programs && !c.programs)
        put_programs(space, s);
    if (!c.environment && !c.absolute)
        put_environment(space, s);
    put_warning(space, s);
    if (!c.host)
        pb_put_string(space, XSPACE_HOST, s->host);
    return str_check(space, err);
}
