// SPDX-License-Identifier: Apache-2.0
// A trace in Chrome's JSON: nothing is read outside of it, and what comes of it is a profile without damage, in order,
// in UTF-8, and not much larger than the trace.
#include <stdlib.h>
#include <string.h>

#include "trace/chrome.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_text(struct slice s)
{
    require(utf8_valid((const char *)s.data, s.size, NULL));
}

static uint64_t check_line(const struct xspace *space, struct xplane *p, struct xline *l)
{
    struct xevents walk = xline_events(l);
    struct xevent e;
    struct xdamage damage = {0};
    int64_t last = INT64_MIN, last_duration = 0;
    uint64_t n = 0;
    for (; xevent_next(&walk, &e); n++) {
        struct xstats stats = xevent_stats(p, &e);
        struct xstat s;
        require(xtable_find(&p->event_table, e.metadata_id) != NULL && e.duration_ps >= 0);
        require(e.offset_ps > last || (e.offset_ps == last && e.duration_ps <= last_duration));
        last = e.offset_ps;
        last_duration = e.duration_ps;
        while (xstat_next(&stats, &s))
            require(s.kind != XSTAT_NONE && xtable_find(&p->stat_table, s.metadata_id) != NULL);
    }
    xevents_damage(space, &walk, &damage);
    require(!damage.what);
    check_text(l->name);
    return n;
}

static void check_space(const struct chrome_trace *c)
{
    struct xspace space;
    struct arena arena;
    struct error err = {0};
    uint64_t events = 0;
    arena_init(&arena);
    char *tight = malloc(c->space.length);
    require(tight != NULL);
    memcpy(tight, c->space.text, c->space.length);
    require(xspace_read(&space, tight, c->space.length, "made", &arena, &err) == 0 && !space.damage.what);
    for (size_t i = 0; i < space.n_planes; i++) {
        struct xplane *p = &space.planes[i];
        check_text(p->name);
        for (size_t k = 0; k < p->event_table.n_rows; k++)
            check_text(p->event_table.rows[k].name);
        for (size_t k = 0; k < p->stat_table.n_rows; k++)
            check_text(p->stat_table.rows[k].name);
        for (size_t k = 0; k < p->n_lines; k++)
            events += check_line(&space, p, &p->lines[k]);
    }
    require(events == c->events && events > 0);
    free(tight);
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chrome_trace c;
    struct error err = {0};
    uint8_t *tight = malloc(size ? size : 1);
    require(tight != NULL);
    if (size)
        memcpy(tight, data, size);
    (void)chrome_recognise(tight, size);
    int rc = chrome_read(&c, tight, size, "fuzz", &err);
    free(tight);
    require(c.damage.offset <= size);
    if (rc) {
        require(rc == ERR_INPUT && err.message[0]);
    } else {
        require(c.space.length <= 64 * size + 1024);
        check_space(&c);
    }
    chrome_release(&c);
    return 0;
}
