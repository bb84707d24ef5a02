// SPDX-License-Identifier: Apache-2.0
// Calls about devices that need not be there.
#include <stdlib.h>
#include <string.h>

#include "worker/client.h"

int worker_topology(struct worker *w, const char *name, const struct worker_topology_option *options, size_t n,
                    struct worker_topology_info *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    struct wire request;
    struct call c;
    call_init(&c, FRAME_TOPOLOGY, w->load_timeout_s, &request, "describing %s", name);
    struct msg_topology m = {
        .name = name, .options = (struct worker_topology_option *)(uintptr_t)options, .n_options = n};
    msg_topology(&request, &m);
    int rc = request.failed ? error_set(err, ERR_USAGE, name, "the options are not as a worker takes them")
                            : call_run(w, &c, err);
    struct msg_topology_reply reply = {0};
    if (!rc) {
        msg_topology_reply(&c.reply, &reply);
        rc = call_done(w, &c, err);
    }
    if (!rc) {
        out->platform_name = worker_keep_text(w, reply.platform_name, err);
        out->platform_version = worker_keep_text(w, reply.platform_version, err);
        out->attributes = worker_keep_text(w, reply.attributes, err);
        out->devices = worker_keep_devices(w, reply.devices, reply.n_devices, err);
        out->n_devices = reply.n_devices;
        if (!out->platform_name || !out->platform_version || !out->attributes || !out->devices)
            rc = ERR_MEMORY;
    }
    call_release(&c);
    return rc;
}

static int keep_costs(const struct msg_compile_for_reply *m, struct worker_ahead *out, struct error *err)
{
    out->costs = m->n_costs ? calloc(m->n_costs, sizeof *out->costs) : NULL;
    if (m->n_costs && !out->costs)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu properties", m->n_costs);
    for (size_t i = 0; i < m->n_costs; i++) {
        out->costs[i] = (struct worker_cost){strdup(m->costs[i].name), m->costs[i].value};
        out->n_costs++;
        if (!out->costs[i].name)
            return error_set(err, ERR_MEMORY, NULL, "no memory for %zu properties", m->n_costs);
    }
    return 0;
}

int worker_compile_for(struct worker *w, const struct worker_program *p, struct worker_ahead *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    out->program.id = -1;
    struct call c;
    int rc = call_compile(&c, w, FRAME_COMPILE_FOR, p, NULL, err);
    if (!rc) {
        struct msg_compile_for_reply reply = {0};
        msg_compile_for_reply(&c.reply, &reply);
        rc = call_done(w, &c, err);
        out->cpu_ns = reply.cpu_ns;
        out->peak_rss_bytes = reply.peak_rss_bytes;
        out->serialized_bytes = reply.serialized_bytes;
        if (!rc)
            rc = worker_keep_executable(&reply.program, &out->program, err);
        if (!rc)
            rc = keep_costs(&reply, out, err);
        if (rc)
            worker_ahead_release(out);
    }
    call_release(&c);
    return rc;
}

void worker_ahead_release(struct worker_ahead *a)
{
    worker_executable_release(&a->program);
    for (size_t i = 0; i < a->n_costs; i++)
        free(a->costs[i].name);
    free(a->costs);
    a->costs = NULL;
    a->n_costs = 0;
}
