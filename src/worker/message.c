// SPDX-License-Identifier: Apache-2.0
#include "worker/message.h"

#include <string.h>

#define MAX_OVERRIDES 1024

static void shape(struct wire *w, void *element)
{
    struct worker_shape *s = element;
    int dtype = w->writing ? (int)s->dtype : 0;
    wire_i32(w, &dtype);
    wire_i32(w, &s->rank);
    if (dtype <= DT_INVALID || dtype >= DT_COUNT || s->rank < 0 || s->rank > WORKER_MAX_RANK) {
        w->failed = true;
        s->rank = 0;
        dtype = DT_INVALID;
    }
    s->dtype = (enum dtype)dtype;
    for (int i = 0; i < s->rank; i++)
        wire_i64(w, &s->dims[i]);
}

static void device(struct wire *w, void *element)
{
    struct worker_device *d = element;
    wire_i32(w, &d->id);
    wire_i32(w, &d->process_index);
    wire_i32(w, &d->local_hardware_id);
    wire_bool(w, &d->local);
    wire_text(w, &d->kind);
    wire_text(w, &d->attributes);
}

static void override(struct wire *w, void *element)
{
    struct worker_override *o = element;
    wire_text(w, &o->name);
    wire_text(w, &o->value);
    w->failed |= !o->name || !o->value;
}

static void span(struct wire *w, void *element)
{
    struct worker_span *s = element;
    const char *name = s->name;
    wire_text(w, &name);
    if (!w->writing) {
        size_t n = name ? strlen(name) : 0;
        if (n >= sizeof s->name) {
            w->failed = true;
            n = 0;
        }
        memcpy(s->name, name ? name : "", n);
        s->name[n] = 0;
        w->failed |= !name;
    }
    wire_u64(w, &s->start_ns);
    wire_u64(w, &s->end_ns);
    wire_u32(w, &s->tid);
    wire_i32(w, &s->of);
}

void msg_status(struct wire *w, struct msg_status *m)
{
    wire_i32(w, &m->code);
    wire_text(w, &m->where);
    wire_text(w, &m->message);
}

// The version comes first in both, and stays there: a worker of another version must be able to say so.
void msg_hello(struct wire *w, struct msg_hello *m)
{
    wire_text(w, &m->version);
    wire_text(w, &m->plugin_path);
    wire_text(w, &m->device);
    wire_i32(w, &m->cpu_device_count);
    wire_i32(w, &m->threads);
    wire_bool(w, &m->compile_only);
    wire_text(w, &m->onednn);
    w->failed |= !m->version || !m->plugin_path || !m->device;
}

void msg_hello_reply(struct wire *w, struct msg_hello_reply *m)
{
    wire_text(w, &m->version);
    wire_i32(w, &m->api_major);
    wire_i32(w, &m->api_minor);
    wire_text(w, &m->extensions);
    wire_text(w, &m->platform_name);
    wire_text(w, &m->platform_version);
    wire_text(w, &m->attributes);
    wire_array(w, (void **)&m->devices, &m->n_devices, WORKER_MAX_DEVICES, sizeof *m->devices, device);
    wire_size(w, &m->device);
    wire_u64(w, &m->client_create_ns);
    wire_text(w, &m->kernels);
    wire_text(w, &m->no_kernels);
    w->failed |= m->n_devices ? m->device >= m->n_devices : m->device != 0;
}

void msg_compile(struct wire *w, struct msg_compile *m)
{
    wire_bytes(w, &m->text, &m->length);
    wire_text(w, &m->format);
    wire_i32(w, &m->num_replicas);
    wire_i32(w, &m->num_partitions);
    wire_bool(w, &m->allow_excess_precision);
    wire_bool(w, &m->want_optimized);
    wire_bool(w, &m->shardy);
    wire_array(w, (void **)&m->overrides, &m->n_overrides, MAX_OVERRIDES, sizeof *m->overrides, override);
    wire_array(w, (void **)&m->args, &m->n_args, WORKER_MAX_ARGS, sizeof *m->args, shape);
    w->failed |= !m->format;
}

void msg_compile_reply(struct wire *w, struct msg_compile_reply *m)
{
    wire_i32(w, &m->id);
    wire_u64(w, &m->compile_ns);
    int64_t *const fields[] = {
        &m->memory.code,           &m->memory.arguments,    &m->memory.outputs,      &m->memory.aliases,
        &m->memory.temporaries,    &m->memory.peak,         &m->memory.total,        &m->memory.host_code,
        &m->memory.host_arguments, &m->memory.host_outputs, &m->memory.host_aliases, &m->memory.host_temporaries,
        &m->memory.allocated,
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        wire_i64(w, fields[i]);
    wire_text(w, &m->fingerprint);
    wire_bytes(w, &m->optimized, &m->optimized_length);
    wire_text(w, &m->optimized_format);
    wire_size(w, &m->n_devices);
    wire_array(w, (void **)&m->outputs, &m->n_outputs, WORKER_MAX_ARGS, sizeof *m->outputs, shape);
    w->failed |= m->n_devices < 1 || m->n_devices > WORKER_MAX_DEVICES;
}

static void topology_option(struct wire *w, void *element)
{
    struct worker_topology_option *o = element;
    wire_text(w, &o->name);
    wire_text(w, &o->value);
    w->failed |= !o->name || !o->value;
}

void msg_topology(struct wire *w, struct msg_topology *m)
{
    wire_text(w, &m->name);
    wire_array(w, (void **)&m->options, &m->n_options, MAX_OVERRIDES, sizeof *m->options, topology_option);
    w->failed |= !m->name;
}

void msg_topology_reply(struct wire *w, struct msg_topology_reply *m)
{
    wire_text(w, &m->platform_name);
    wire_text(w, &m->platform_version);
    wire_text(w, &m->attributes);
    wire_array(w, (void **)&m->devices, &m->n_devices, WORKER_MAX_DEVICES, sizeof *m->devices, device);
}

static void cost(struct wire *w, void *element)
{
    struct msg_cost *c = element;
    wire_text(w, &c->name);
    wire_f64(w, &c->value);
    w->failed |= !c->name;
}

void msg_compile_for_reply(struct wire *w, struct msg_compile_for_reply *m)
{
    msg_compile_reply(w, &m->program);
    wire_u64(w, &m->cpu_ns);
    wire_u64(w, &m->peak_rss_bytes);
    wire_i64(w, &m->serialized_bytes);
    wire_array(w, (void **)&m->costs, &m->n_costs, MESSAGE_MAX_COSTS, sizeof *m->costs, cost);
}

void msg_id(struct wire *w, struct msg_id *m)
{
    wire_i32(w, &m->id);
}

static void part(struct wire *w, void *element)
{
    struct worker_part *p = element;
    wire_size(w, &p->offset);
    wire_size(w, &p->bytes);
}

void msg_upload(struct wire *w, struct msg_upload *m)
{
    wire_size(w, &m->offset);
    wire_size(w, &m->bytes);
    wire_array(w, (void **)&m->parts, &m->n_parts, WORKER_MAX_PARTS, sizeof *m->parts, part);
    shape(w, &m->shape);
    wire_text(w, &m->name);
    wire_i32(w, &m->position);
    w->failed |= !m->name;
}

void msg_upload_reply(struct wire *w, struct msg_upload_reply *m)
{
    wire_i32(w, &m->id);
    wire_u64(w, &m->result.ns);
    wire_u64(w, &m->result.device_bytes);
    wire_bool(w, &m->result.zero_copy);
}

void msg_execute(struct wire *w, struct msg_execute *m)
{
    wire_i32(w, &m->executable);
    wire_array(w, (void **)&m->args, &m->n_args, MESSAGE_MAX_IDS, sizeof *m->args, wire_i32_element);
    wire_u64(w, &m->runs);
    w->failed |= m->runs > MESSAGE_MAX_RUNS;
}

void msg_execute_reply(struct wire *w, struct msg_execute_reply *m)
{
    wire_u64(w, &m->ns);
    wire_array(w, (void **)&m->outputs, &m->n_outputs, MESSAGE_MAX_IDS, sizeof *m->outputs, wire_i32_element);
}

void msg_time_reply(struct wire *w, struct msg_time_reply *m)
{
    wire_array(w, (void **)&m->ns, &m->n, MESSAGE_MAX_RUNS, sizeof *m->ns, wire_u64_element);
}

void msg_download(struct wire *w, struct msg_download *m)
{
    wire_i32(w, &m->buffer);
    wire_size(w, &m->bytes);
}

void msg_memory_reply(struct wire *w, struct worker_memory *m)
{
    wire_u64(w, &m->rss_bytes);
    wire_u64(w, &m->peak_rss_bytes);
    wire_bool(w, &m->peak_resettable);
    wire_bool(w, &m->has_device_stats);
    wire_i64(w, &m->bytes_in_use);
    wire_i64(w, &m->peak_bytes_in_use);
    wire_i64(w, &m->bytes_limit);
    wire_i64(w, &m->bytes_reserved);
    wire_i64(w, &m->largest_free_block_bytes);
    wire_i64(w, &m->num_allocs);
}

void msg_spans_reply(struct wire *w, struct msg_spans_reply *m)
{
    wire_array(w, (void **)&m->spans, &m->n, MESSAGE_MAX_SPAN, sizeof *m->spans, span);
    wire_u64(w, &m->dropped);
}

void msg_profile_start_reply(struct wire *w, struct msg_profile_start_reply *m)
{
    wire_bool(w, &m->offered);
}

void msg_profile(struct wire *w, struct msg_profile *m)
{
    wire_bytes(w, &m->space, &m->bytes);
}
