// SPDX-License-Identifier: Apache-2.0
#include "trace/collectives_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/quantity.h"
#include "trace/ops_view.h"

double trace_collective_rate(const struct trace_collective *c)
{
    if (c->bytes < 0 || c->times.transfer_ps <= 0)
        return NAN;
    return (double)c->bytes * (double)c->times.matched / ((double)c->times.transfer_ps * 1e-12);
}

static void known(struct jw *w, const char *key, int64_t value, bool is_known)
{
    jw_key(w, key);
    if (is_known)
        jw_int(w, value);
    else
        jw_null(w);
}

static void times_json(struct jw *w, const struct trace_collective_times *t)
{
    jw_kv_uint(w, "runs", t->runs);
    jw_kv_int(w, "total_ps", t->total_ps);
    jw_kv_int(w, "hidden_ps", t->hidden_ps);
    jw_kv_int(w, "exposed_ps", t->total_ps - t->hidden_ps);
    jw_kv_uint(w, "matched", t->matched);
    known(w, "wait_ps", t->wait_ps, t->matched > 0);
    known(w, "transfer_ps", t->transfer_ps, t->matched > 0);
}

static void row_json(struct jw *w, const struct trace_collective *c)
{
    char id[24];
    snprintf(id, sizeof id, "%" PRIu64, c->program_id);
    jw_object(w);
    jw_kv_slice(w, "name", c->name);
    jw_kv_string(w, "kind", c->kind);
    jw_kv_string(w, "program_id", c->program_id ? id : NULL); // beyond 2^53
    jw_kv_slice(w, "module", c->module);
    jw_kv_bool(w, "is_async", c->is_async);
    known(w, "bytes", c->bytes, c->bytes >= 0);
    known(w, "groups", c->groups, c->groups > 0);
    known(w, "group_size", c->group_size, c->group_size > 0);
    jw_kv_uint(w, "devices", c->devices);
    times_json(w, &c->times);
    quantity_json_kv(w, "rate",
                     quantity_make(trace_collective_rate(c), "B/s", ORIGIN_DERIVED,
                                   "bytes of one device over its transfer time, of the runs that are matched"));
    jw_object_end(w);
}

void trace_collectives_json(const struct trace *t, const struct trace_collectives *c, struct jw *w)
{
    jw_object(w);
    jw_key(w, "collectives");
    jw_array(w);
    for (size_t i = 0; i < c->n_rows; i++)
        row_json(w, &c->rows[i]);
    jw_array_end(w);
    jw_key(w, "devices");
    jw_array(w);
    for (size_t i = 0; i < c->found.n; i++) {
        jw_object(w);
        jw_kv_slice(w, "name", c->devices[i].device->name);
        jw_kv_string(w, "host", c->devices[i].device->file->host);
        jw_kv_int(w, "compute_ps", c->devices[i].compute_ps);
        times_json(w, &c->devices[i].times);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_kv_uint(w, "unpaired", c->unpaired);
    trace_files_json(t, w);
    jw_object_end(w);
}
