// SPDX-License-Identifier: Apache-2.0
// What the profiler says of which event made another happen, as arrows.
#include "base/idmap.h"
#include "trace/convert_form.h"

void flow_ids_find(struct flow_ids *ids, const struct trace *t, const struct trace_file *f, const struct xplane *p)
{
    const struct {
        const char *name;
        int64_t *id;
    } names[] = {{"flow", &ids->flow},   {"_p", &ids->producer},       {"_pt", &ids->producer_type},
                 {"_c", &ids->consumer}, {"_ct", &ids->consumer_type}, {"correlation_id", &ids->correlation}};
    *ids = (struct flow_ids){.file = (uint64_t)(f - t->files)};
    ids->device = p->name.size > 8 && memcmp(p->name.data, "/device:", 8) == 0;
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (slice_is(p->stat_table.rows[i].name, names[k].name)) {
                *names[k].id = p->stat_table.rows[i].id;
                ids->any |= p->stat_table.rows[i].id != 0;
            }
        }
    }
}

// The id of a flow is a hash of what makes it one: both ends find the same, and two files never do.
static uint64_t hash(const struct flow_ids *ids, unsigned kind, uint64_t type, uint64_t id)
{
    return mix64(mix64(mix64(id) + type) + kind + 16 * ids->file);
}

bool flow_is_of(const struct flow_ids *ids, int64_t id)
{
    return id && (id == ids->flow || id == ids->correlation || id == ids->producer || id == ids->producer_type ||
                  id == ids->consumer || id == ids->consumer_type);
}

void flow_see(struct flow *w, const struct flow_ids *ids, int64_t id, uint64_t value)
{
    if (w->found || !id)
        return;
    if (id == ids->flow && value & 3) {
        w->way = (value & 3) == 1 ? FLOW_IN : FLOW_OUT;
        w->id = hash(ids, 1, 0, value >> 2);
        w->found = true;
    } else if (id == ids->correlation && value) {
        w->way = ids->device ? FLOW_IN : FLOW_OUT;
        w->id = hash(ids, 3, 0, value);
        w->found = true;
    } else if (id == ids->producer) {
        w->producer = value;
    } else if (id == ids->producer_type) {
        w->producer_type = value;
    } else if (id == ids->consumer) {
        w->consumer = value;
    } else if (id == ids->consumer_type) {
        w->consumer_type = value;
    }
}

void flow_end(struct flow *w, const struct flow_ids *ids)
{
    if (w->found || (!w->producer && !w->consumer))
        return;
    w->way = w->consumer ? FLOW_IN : FLOW_OUT;
    w->id = hash(ids, 2, w->consumer ? w->consumer_type : w->producer_type, w->consumer ? w->consumer : w->producer);
}
