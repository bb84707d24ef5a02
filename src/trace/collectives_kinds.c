// SPDX-License-Identifier: Apache-2.0
#include "trace/collectives_kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

double trace_bus_factor(const char *kind, int64_t n)
{
    static const char *const kept[] = {"all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all"};
    static const char *const whole[] = {"collective-permute", "collective-broadcast", "send", "recv", "send-recv"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (strcmp(kind, whole[i]) == 0)
            return 1;
    }
    double others = n > 0 ? (double)(n - 1) / (double)n : NAN;
    if (strcmp(kind, "all-reduce") == 0)
        return 2 * others;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (strcmp(kind, kept[i]) == 0)
            return others;
    }
    return NAN;
}

double trace_collective_rate(const struct trace_collective *c)
{
    if (c->bytes < 0 || c->times.transfer_ps <= 0)
        return NAN;
    return (double)c->bytes * (double)c->times.matched / ((double)c->times.transfer_ps * 1e-12);
}

double trace_collective_bus_rate(const struct trace_collective *c)
{
    return trace_collective_rate(c) * trace_bus_factor(c->kind, c->group_size);
}

struct quantity trace_collectives_links(const struct trace_collectives *c)
{
    const struct chip *chip = NULL;
    for (size_t i = 0; i < c->found.n; i++) {
        const struct chip *own = c->found.items[i].chip;
        if (!own || (chip && chip != own))
            return quantity_make(NAN, "B/s", ORIGIN_SHEET,
                                 own ? "the profile has devices of several kinds"
                                     : "the chip table has no such device");
        chip = own;
    }
    if (!chip)
        return quantity_make(NAN, "B/s", ORIGIN_SHEET, "the profile has no device");
    struct quantity all = chip_interconnect(chip);
    if (isnan(all.value))
        return all;
    return quantity_make(all.value / 2 / (chip->devices_per_chip > 0 ? chip->devices_per_chip : 1), "B/s",
                         ORIGIN_DERIVED,
                         "half of what all links of a chip carry in both directions, shared by its devices");
}

static int by_key(const void *a, const void *b)
{
    const struct trace_collective *x = a, *y = b;
    int c = strcmp(x->kind, y->kind);
    if (c)
        return c;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    if (x->set != y->set)
        return !x->set ? -1 : !y->set ? 1 : x->set->index < y->set->index ? -1 : 1;
    if (x->groups != y->groups)
        return x->groups < y->groups ? -1 : 1;
    return (x->group_size > y->group_size) - (x->group_size < y->group_size);
}

static int by_total(const void *a, const void *b)
{
    const struct trace_collective *x = a, *y = b;
    if (x->times.total_ps != y->times.total_ps)
        return x->times.total_ps < y->times.total_ps ? 1 : -1;
    return by_key(a, b);
}

static void add(struct trace_collective *to, const struct trace_collective *c)
{
    struct trace_collective_times *t = &to->times;
    to->operations += c->operations;
    to->is_async |= c->is_async;
    to->devices = c->devices > to->devices ? c->devices : to->devices;
    t->runs += c->times.runs;
    t->total_ps = add_saturated(t->total_ps, c->times.total_ps);
    t->hidden_ps = add_saturated(t->hidden_ps, c->times.hidden_ps);
    t->matched += c->times.matched;
    t->partial += c->times.partial;
    t->wait_ps = add_saturated(t->wait_ps, c->times.wait_ps);
    t->transfer_ps = add_saturated(t->transfer_ps, c->times.transfer_ps);
}

int trace_collectives_add_up(struct trace_collectives *c, struct error *err)
{
    struct trace_collective *all = arena_new(&c->arena, struct trace_collective, c->n_rows, err);
    if (!all)
        return ERR_MEMORY;
    if (c->n_rows) {
        memcpy(all, c->rows, c->n_rows * sizeof *all);
        qsort(all, c->n_rows, sizeof *all, by_key);
    }
    for (size_t i = 0; i < c->n_rows; i++) {
        if (c->n_kinds && by_key(&all[c->n_kinds - 1], &all[i]) == 0) {
            add(&all[c->n_kinds - 1], &all[i]);
            continue;
        }
        all[c->n_kinds] = all[i];
        all[c->n_kinds].name = all[c->n_kinds].module = (struct slice){NULL, 0};
        all[c->n_kinds++].program_id = 0;
    }
    if (c->n_kinds)
        qsort(all, c->n_kinds, sizeof *all, by_total);
    c->kinds = all;
    return 0;
}
