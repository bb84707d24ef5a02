// SPDX-License-Identifier: Apache-2.0
// A profile, summarised and compared with itself: whatever its times are, what devices did in their steps adds up.
#include <stdlib.h>
#include <string.h>

#include "trace/diff.h"
#include "trace/steps_view.h"
#include "trace/summary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void adds_up(const struct trace_steps *s)
{
    for (size_t d = 0; d < s->modules.devices.n; d++) {
        const struct trace_idle *x = &s->of_device[d];
        int64_t all = x->busy.busy_ps;
        for (int f = 0; f < 2 * FILLS; f++)
            all += x->idle_ps[f < FILLS ? PLACE_INSIDE : PLACE_BETWEEN][f % FILLS];
        if (x->busy.spans && all != x->busy.last_ps - x->busy.first_ps)
            abort();
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct trace_step *a = &s->items[i];
        if (a->busy_ps + a->idle_ps != a->duration_ps || a->busy_ps < 0 || a->idle_ps < 0 ||
            a->collective_ps > a->busy_ps || a->host_ps + a->input_ps > a->idle_ps)
            abort();
    }
}

static void write(const struct trace *t, struct trace_summary *s, const struct trace_diff *d)
{
    for (int i = 0; i < 3; i++) {
        struct str text;
        struct jw w;
        struct error e = {0};
        int rc = 0;
        str_init(&text);
        jw_init(&w, &text, false);
        if (i == 0)
            rc = trace_summary_json(t, s, NULL, &w, &e);
        else if (i == 1)
            rc = trace_steps_json(t, &s->steps, &s->ops, &w, &e);
        else
            trace_diff_json(t, t, d, 0, &w);
        if (rc || jw_finish(&w, &e))
            abort();
        str_release(&text);
    }
}

static void open_copy(struct trace *t, struct trace_file *f, const uint8_t *data, size_t size, int *rc, struct error *e)
{
    *f = (struct trace_file){.path = "a", .host = "a"};
    *t = (struct trace){.files = f, .n_files = 1};
    arena_init(&t->arena);
    if (!*rc)
        *rc = xspace_read(&f->space, data, size, "fuzz", &t->arena, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct trace_diff_options options = {.by = {.by = TRACE_BY_OP}, .by_step = true};
    struct trace t[2];
    struct trace_file files[2];
    struct trace_summary summary;
    struct trace_diff diff;
    struct arena arena;
    struct error e = {0};
    int rc = 0;
    memset(&summary, 0, sizeof summary);
    arena_init(&arena);
    for (int i = 0; i < 2; i++)
        open_copy(&t[i], &files[i], data, size, &rc, &e);
    if (!rc)
        rc = trace_summary(&t[0], NULL, &summary, &e);
    if (!rc) {
        adds_up(&summary.steps);
        rc = trace_diff(&t[0], &t[1], &options, NULL, &arena, &diff, &e);
    }
    // Whatever it is, it is not slower than itself; and no step is in one alone.
    if (!rc && (diff.verdict == TRACE_DIFF_SLOWER || diff.steps.only_a || diff.steps.only_b))
        abort();
    if (!rc)
        write(&t[0], &summary, &diff);
    if (rc && (!e.code || !e.message[0]))
        abort();
    trace_summary_release(&summary);
    arena_release(&arena);
    for (int i = 0; i < 2; i++)
        arena_release(&t[i].arena);
    return 0;
}
