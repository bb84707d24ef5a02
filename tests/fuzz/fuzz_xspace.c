// SPDX-License-Identifier: Apache-2.0
// A profile. Whatever is handed out must lie inside the file; a row is found by its id; damage is inside, too.
#include <stdlib.h>

#include "trace/xspace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *bytes;
static size_t n_bytes;

static void inside(struct slice s)
{
    if (s.size && (s.data < bytes || s.size > n_bytes || (size_t)(s.data - bytes) > n_bytes - s.size))
        abort();
}

static void statistics(struct xstats walk)
{
    struct xstat s;
    while (xstat_next(&walk, &s)) {
        if (s.kind == XSTAT_TEXT || s.kind == XSTAT_BYTES)
            inside(s.bytes);
    }
}

static void table(const struct xplane *p, const struct xtable *t)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct xmeta *row = xtable_find(t, t->rows[i].id);
        if (!row || row->id != t->rows[i].id || row < &t->rows[i])
            abort(); // the last of an id counts
        inside(row->name);
        inside(row->display_name);
        inside(row->message);
        statistics(xmeta_stats(p, row));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct xspace space;
    struct error e = {0};
    bytes = data;
    n_bytes = size;
    arena_init(&arena);
    int rc = xspace_read(&space, data, size, "fuzz", &arena, &e);
    if (rc && (!e.code || !e.message[0]))
        abort();
    for (size_t i = 0; i < space.n_planes && !rc; i++) {
        struct xplane *p = &space.planes[i];
        table(p, &p->event_table);
        table(p, &p->stat_table);
        for (size_t k = 0; k < p->n_lines; k++) {
            struct xevents walk = xline_events(&p->lines[k]);
            struct xevent v;
            while (xevent_next(&walk, &v)) {
                inside(v.stats);
                statistics(xevent_stats(p, &v));
            }
            inside(p->lines[k].display_name);
            xevents_damage(&space, &walk, &space.damage);
        }
    }
    if (!rc && space.damage.what && space.damage.offset >= size)
        abort();
    arena_release(&arena);
    return 0;
}
