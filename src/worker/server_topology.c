// SPDX-License-Identifier: Apache-2.0
// Requests about devices that need not be there: topology, and compile for it.
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "worker/host_limits.h"
#include "worker/server_state.h"

#define MAX_LIST 16 // numbers of an option

// "[1,1,0]" as numbers, in the arena; *n 0 for anything else.
static const int64_t *number_list(struct server *s, const char *text, size_t *n, struct error *err)
{
    int64_t *list = arena_new(&s->arena, int64_t, MAX_LIST, err);
    *n = 0;
    if (!list || *text != '[')
        return list;
    for (const char *at = text + 1; *n < MAX_LIST;) {
        char *end;
        list[(*n)++] = strtoll(at, &end, 10);
        if (end == at)
            break;
        if (end[0] == ']' && !end[1])
            return list;
        if (*end != ',')
            break;
        at = end + 1;
    }
    *n = 0;
    return list;
}

// What the value's text says it is.
static int attribute_of(struct server *s, const struct worker_topology_option *o, struct attribute *out,
                        struct error *err)
{
    static const char mark[] = "text:";
    *out = (struct attribute){.name = o->name, .type = ATTRIBUTE_STRING, .string = o->value};
    if (strncmp(o->value, mark, sizeof mark - 1) == 0) {
        out->string = o->value + sizeof mark - 1;
        return 0;
    }
    out->list = number_list(s, o->value, &out->list_count, err);
    if (!out->list)
        return err->code;
    if (out->list_count)
        out->type = ATTRIBUTE_INT_LIST;
    else if (parse_i64(o->value, &out->integer))
        out->type = ATTRIBUTE_INT;
    return 0;
}

int server_topology(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_topology m = {0};
    msg_topology(&r->in, &m);
    int rc = server_read_done(r, err);
    struct attribute *options = rc ? NULL : arena_new(&s->arena, struct attribute, m.n_options, err);
    if (!options)
        return err->code;
    for (size_t i = 0; i < m.n_options && !rc; i++)
        rc = attribute_of(s, &m.options[i], &options[i], err);
    struct topology *t = NULL;
    if (!rc)
        rc = topology_new(&t, s->plugin, m.name, options, m.n_options, err);
    if (rc)
        return rc;
    topology_free(s->topology);
    s->topology = t;
    const struct topology_info *info = topology_info(t);
    struct msg_topology_reply out = {.platform_name = info->platform_name,
                                     .platform_version = info->platform_version,
                                     .attributes = server_attributes_text(s, &info->attributes, err),
                                     .devices = server_devices(s, info->devices, info->device_count, err),
                                     .n_devices = info->device_count};
    if (!out.attributes || !out.devices)
        return err->code;
    msg_topology_reply(&r->out, &out);
    return 0;
}

// The compiler's own sums over the module. A plugin without any is no failure.
static int list_costs(struct server *s, struct program *p, struct msg_compile_for_reply *out, struct error *err)
{
    const struct attributes *costs;
    bool offered;
    struct error ignored = {0};
    if (program_cost(p, &costs, &offered, &ignored) || !offered || costs->count > MESSAGE_MAX_COSTS)
        return 0;
    out->costs = arena_new(&s->arena, struct msg_cost, costs->count, err);
    if (!out->costs)
        return err->code;
    for (size_t i = 0; i < costs->count; i++) {
        if (costs->items[i].type == ATTRIBUTE_FLOAT)
            out->costs[out->n_costs++] = (struct msg_cost){costs->items[i].name, (double)costs->items[i].number};
    }
    return 0;
}

static uint64_t cpu_ns(void)
{
    struct rusage u = {0};
    getrusage(RUSAGE_SELF, &u);
    return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000u;
}

int server_compile_for(struct server *s, struct server_request *r, struct error *err)
{
    struct msg_compile m = {0};
    msg_compile(&r->in, &m);
    struct compile_options o = {0};
    int rc = server_read_done(r, err);
    if (!rc && !s->topology)
        rc = error_set(err, ERR_USAGE, NULL, "there is no topology to compile for yet");
    if (!rc)
        rc = server_compile_options(s, &m, &o, err);
    if (rc)
        return rc;
    struct msg_compile_for_reply out = {0};
    struct program *p = NULL;
    uint64_t start = clock_ns(), start_cpu = cpu_ns(), rss;
    rc = program_compile_for(&p, s->topology, m.text, m.length, m.format, &o, err);
    out.program.compile_ns = clock_ns() - start;
    out.cpu_ns = cpu_ns() - start_cpu;
    host_limits_memory(&rss, &out.peak_rss_bytes);
    struct str optimized;
    str_init(&optimized);
    char format[32] = "";
    if (!rc)
        rc = server_describe_program(s, p, m.want_optimized, &out.program, &optimized, format, err);
    if (!rc)
        rc = list_costs(s, p, &out, err);
    struct error ignored = {0};
    if (!rc && program_serialized_bytes(p, &out.serialized_bytes, &ignored))
        out.serialized_bytes = -1;
    if (!rc)
        out.program.id = rc = server_add_program(s, p, err);
    if (rc < 0) {
        program_free(p);
    } else {
        rc = 0;
        msg_compile_for_reply(&r->out, &out);
    }
    str_release(&optimized);
    return rc;
}
