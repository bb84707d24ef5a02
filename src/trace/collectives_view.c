// SPDX-License-Identifier: Apache-2.0
#include "trace/collectives_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "trace/ops_view.h"

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
    jw_kv_uint(w, "partial", t->partial);
    known(w, "wait_ps", t->wait_ps, t->matched > 0);
    known(w, "transfer_ps", t->transfer_ps, t->matched > 0);
}

static void rates_json(struct jw *w, const struct trace_collective *c, const struct quantity *links)
{
    const char *none = c->bytes < 0       ? "the size is not known: the operation's HLO is not in the profile"
                       : c->times.matched ? "no time was spent on the transfer"
                                          : "no partner is in the profile: waiting and transfer cannot be told apart";
    const char *copy = "a copy is no collective", *size = "the size of the group is not known";
    double factor = trace_bus_factor(c->kind, c->group_size), rate = trace_collective_rate(c);
    const char *no_factor = strcmp(c->kind, "copy") == 0 ? copy : size;
    quantity_json_kv(w, "rate",
                     quantity_make(rate, "B/s", ORIGIN_DERIVED,
                                   isnan(rate) ? none
                                               : "algorithm bandwidth: bytes of one device over its transfer time, of "
                                                 "the runs that are matched"));
    quantity_json_kv(
        w, "bus_factor",
        quantity_make(factor, "1", ORIGIN_DERIVED,
                      isnan(factor) ? no_factor : "of the kind and the size n of the group, as in nccl-tests"));
    quantity_json_kv(w, "bus_rate",
                     quantity_make(rate * factor, "B/s", ORIGIN_DERIVED,
                                   isnan(rate)     ? none
                                   : isnan(factor) ? no_factor
                                                   : "bus bandwidth: rate times bus_factor"));
    double share = rate * factor / links->value;
    quantity_json_kv(w, "of_links",
                     quantity_make(share, "1", ORIGIN_DERIVED,
                                   isnan(rate)           ? none
                                   : isnan(factor)       ? no_factor
                                   : isnan(links->value) ? links->source
                                                         : "bus_rate over links"));
}

static void facts_json(struct jw *w, const struct trace_collective *c, const struct quantity *links)
{
    jw_kv_string(w, "kind", c->kind);
    jw_kv_bool(w, "is_async", c->is_async);
    known(w, "bytes", c->bytes, c->bytes >= 0);
    known(w, "groups", c->groups, c->groups > 0);
    known(w, "group_size", c->group_size, c->group_size > 0);
    known(w, "group_set", c->set ? (int64_t)c->set->index : 0, c->set != NULL);
    jw_kv_uint(w, "devices", c->devices);
    times_json(w, &c->times);
    rates_json(w, c, links);
}

static void row_json(struct jw *w, const struct trace_collective *c, const struct quantity *links)
{
    char id[24];
    snprintf(id, sizeof id, "%" PRIu64, c->program_id);
    jw_object(w);
    jw_kv_slice(w, "name", c->name);
    jw_kv_string(w, "program_id", c->program_id ? id : NULL); // beyond 2^53
    jw_kv_slice(w, "module", c->module);
    facts_json(w, c, links);
    jw_object_end(w);
}

static void set_json(struct jw *w, const struct trace_group_set *s)
{
    jw_object(w);
    jw_kv_bool(w, "assigned", s->assigned);
    jw_key(w, "groups");
    jw_array(w);
    for (size_t i = 0; i < s->n_groups; i++) {
        jw_array(w);
        for (size_t k = 0; k < s->groups[i].n; k++)
            jw_int(w, s->groups[i].at[k]);
        jw_array_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

void trace_collectives_json(const struct trace *t, const struct trace_collectives *c, struct jw *w)
{
    const struct quantity links = trace_collectives_links(c);
    jw_object(w);
    quantity_json_kv(w, "links", links);
    jw_key(w, "collectives");
    jw_array(w);
    for (size_t i = 0; i < c->n_rows; i++)
        row_json(w, &c->rows[i], &links);
    jw_array_end(w);
    jw_key(w, "kinds");
    jw_array(w);
    for (size_t i = 0; i < c->n_kinds; i++) {
        jw_object(w);
        jw_kv_uint(w, "operations", c->kinds[i].operations);
        facts_json(w, &c->kinds[i], &links);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_key(w, "group_sets");
    jw_array(w);
    for (size_t i = 0; i < c->n_sets; i++)
        set_json(w, c->sets[i]);
    jw_array_end(w);
    jw_key(w, "devices");
    jw_array(w);
    for (size_t i = 0; i < c->found.n; i++) {
        jw_object(w);
        jw_kv_slice(w, "name", c->devices[i].device->name);
        jw_kv_string(w, "host", c->devices[i].device->file->host);
        known(w, "number", c->devices[i].number, c->devices[i].number >= 0);
        jw_kv_int(w, "compute_ps", c->devices[i].compute_ps);
        times_json(w, &c->devices[i].times);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_kv_uint(w, "unpaired", c->unpaired);
    trace_files_json(t, w);
    jw_object_end(w);
}
