// SPDX-License-Identifier: Apache-2.0
#include "trace/memory_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/quantity.h"
#include "trace/ops_view.h"

static void fragmentation(struct jw *w, double value)
{
    const char *rule = isnan(value) ? "the profile does not say" : "1 - largest free block / all that is free";
    quantity_json_kv(w, "fragmentation", quantity_make(value, "1", ORIGIN_DERIVED, rule));
}

static void event_json(struct jw *w, const struct trace_memory_event *e)
{
    jw_object(w);
    jw_kv_int(w, "at_ps", e->at_ps);
    jw_kv_string(w, "event", e->is_free ? "free" : "allocate");
    jw_kv_int(w, "bytes", e->bytes);
    jw_kv_int(w, "heap_bytes", e->heap_bytes);
    jw_kv_int(w, "reserved_bytes", e->reserved_bytes);
    jw_kv_double(w, "fragmentation", e->fragmentation);
    jw_kv_slice(w, "scope", e->scope);
    jw_kv_slice(w, "shape", e->shape);
    jw_object_end(w);
}

static void block_json(struct jw *w, const struct trace_memory_block *b)
{
    jw_object(w);
    jw_kv_string(w, "kind", trace_memory_kind_name(b->kind));
    jw_kv_slice(w, "scope", b->scope);
    jw_kv_slice(w, "region", b->region);
    jw_kv_slice(w, "shape", b->shape);
    jw_kv_string(w, "type", trace_memory_type_name(b->type));
    jw_kv_int(w, "bytes", b->bytes);
    jw_key(w, "blocks");
    if (b->blocks)
        jw_uint(w, b->blocks);
    else
        jw_null(w);
    jw_object_end(w);
}

static void allocator_json(struct jw *w, const struct trace_allocator *a)
{
    const struct trace_memory_event *peak = &a->events[a->peak];
    jw_object(w);
    jw_kv_string(w, "name", a->name);
    jw_kv_string(w, "host", a->host);
    jw_kv_uint(w, "allocated", a->allocated);
    jw_kv_uint(w, "freed", a->freed);
    jw_kv_int(w, "capacity_bytes", a->capacity_bytes);
    jw_kv_int(w, "lifetime_peak_bytes", a->lifetime_bytes);
    jw_key(w, "peak");
    jw_object(w);
    jw_kv_int(w, "at_ps", peak->at_ps);
    jw_kv_int(w, "bytes", a->peak_bytes);
    jw_kv_int(w, "heap_bytes", peak->heap_bytes);
    jw_kv_int(w, "reserved_bytes", peak->reserved_bytes);
    jw_kv_int(w, "available_bytes", peak->available_bytes);
    fragmentation(w, peak->fragmentation);
    jw_key(w, "alive");
    jw_array(w);
    for (size_t i = 0; i < a->n_live; i++)
        block_json(w, &a->live[i]);
    jw_array_end(w);
    jw_object_end(w);
    fragmentation(w, a->most_fragmented);
    jw_key(w, "timeline");
    jw_array(w);
    for (size_t i = 0; i < a->n_events; i++)
        event_json(w, &a->events[i]);
    jw_array_end(w);
    jw_object_end(w);
}

static void heap_json(struct jw *w, const struct trace_heap *h)
{
    char id[24];
    snprintf(id, sizeof id, "%" PRIu64, h->program_id);
    jw_object(w);
    jw_kv_slice(w, "program", h->program);
    jw_kv_string(w, "program_id", h->program_id ? id : NULL); // beyond 2^53
    jw_kv_int(w, "space", h->space);
    jw_kv_int(w, "peak_bytes", h->peak_bytes);
    jw_kv_int(w, "fixed_bytes", h->fixed_bytes);
    jw_kv_int(w, "pool_bytes", h->pool_bytes);
    jw_kv_slice(w, "at", h->at);
    jw_kv_uint(w, "unknown_steps", h->unknown);
    jw_key(w, "alive");
    jw_array(w);
    for (size_t i = 0; i < h->n_live; i++) {
        const struct trace_heap_buffer *b = &h->live[i];
        jw_object(w);
        jw_kv_string(w, "kind", trace_heap_kind_name(b->kind));
        jw_kv_slice(w, "instruction", b->instruction);
        jw_kv_slice(w, "scope", b->scope);
        jw_kv_slice(w, "shape", b->shape);
        jw_kv_int(w, "bytes", b->bytes);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_key(w, "timeline");
    jw_array(w);
    for (size_t i = 0; i < h->n_points; i++) {
        jw_object(w);
        jw_kv_slice(w, "instruction", h->points[i].instruction);
        jw_kv_int(w, "bytes", h->points[i].bytes);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

void trace_memory_json(const struct trace *t, const struct trace_memory *m, const struct trace_heaps *h, struct jw *w)
{
    jw_object(w);
    jw_key(w, "allocators");
    jw_array(w);
    for (size_t i = 0; i < m->n_allocators; i++)
        allocator_json(w, &m->allocators[i]);
    jw_array_end(w);
    jw_kv_uint(w, "unnamed_events", m->unnamed);
    jw_key(w, "programs");
    jw_array(w);
    for (size_t i = 0; i < h->n_heaps; i++)
        heap_json(w, &h->heaps[i]);
    jw_array_end(w);
    jw_kv_string(w, "hlo_damage", h->damage);
    trace_files_json(t, w);
    jw_object_end(w);
}
