// SPDX-License-Identifier: Apache-2.0
// The collectives of a profile, of two hosts that both have it: its programs' groups, which a few bytes can make large,
// and its runs. Sums must agree, and what rows refer to must be there.
#include <math.h>
#include <stdlib.h>

#include "trace/collectives.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void times(const struct trace_collective_times *t)
{
    if (t->matched > t->runs || t->partial > t->matched || t->total_ps < 0 || t->hidden_ps < 0 ||
        t->hidden_ps > t->total_ps)
        abort();
    if (t->wait_ps < 0 || t->transfer_ps < 0 || t->wait_ps > t->total_ps || t->transfer_ps > t->total_ps)
        abort();
}

static void row(const struct trace_collectives *c, const struct trace_collective *r)
{
    double factor = trace_bus_factor(r->kind, r->group_size);
    times(&r->times);
    if (r->set && (r->set->index >= c->n_sets || c->sets[r->set->index] != r->set))
        abort();
    if (factor < 0 || factor > 2 || trace_collective_rate(r) < 0)
        abort();
}

static size_t set(const struct trace_group_set *s)
{
    size_t devices = 0;
    for (size_t i = 0; i < s->n_groups; i++) {
        devices += s->groups[i].n;
        for (size_t k = 0; k < s->groups[i].n; k++) {
            int64_t at = trace_group_of(s, s->groups[i].at[k]);
            if (at < 0 || (size_t)at > i) // of a device that is in several the first
                abort();
        }
    }
    struct str text;
    str_init(&text);
    trace_group_text(&text, s, 60);
    if (text.length > 100)
        abort();
    str_release(&text);
    return devices;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_file files[2] = {{.path = "a", .host = "a"}, {.path = "b", .host = "b"}};
    struct trace t = {.files = files, .n_files = 2};
    struct trace_collectives c = {0};
    struct error e = {0};
    arena_init(&t.arena);
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++)
        rc = xspace_read(&files[i].space, data, size, "fuzz", &t.arena, &e);
    if (!rc)
        rc = trace_collectives(&t, size % 2, &c, &e);
    if (rc && (!e.code || !e.message[0]))
        abort();
    uint64_t runs = 0, operations = 0;
    size_t devices = 0;
    for (size_t i = 0; i < c.n_sets && !rc; i++)
        devices += set(c.sets[i]);
    if (devices > 65536 + 2 * size)
        abort();
    for (size_t i = 0; i < c.n_rows && !rc; i++) {
        row(&c, &c.rows[i]);
        runs += c.rows[i].times.runs;
    }
    for (size_t i = 0; i < c.n_kinds && !rc; i++) {
        row(&c, &c.kinds[i]);
        runs -= c.kinds[i].times.runs;
        operations += c.kinds[i].operations;
    }
    for (size_t i = 0; i < c.found.n && !rc; i++)
        times(&c.devices[i].times);
    if (!rc && (runs || operations != c.n_rows))
        abort();
    trace_collectives_release(&c);
    arena_release(&t.arena);
    return 0;
}
