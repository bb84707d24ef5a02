// SPDX-License-Identifier: Apache-2.0
// What ran on a profile's devices, by operations and by everything that they can be added up by: no key loses or makes
// time, and lines' self times add up to the time they were busy.
#include <stdlib.h>

#include "trace/ops_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void group(const struct trace_ops *o, const char *text, struct arena *arena)
{
    struct trace_key key;
    struct trace_op *rows;
    struct error e = {0};
    uint64_t events = 0, grouped = 0;
    size_t n;
    if (trace_key_parse(&key, text, &e) || trace_ops_group(o, &key, arena, &rows, &n, &e))
        abort();
    if (n > o->n_rows)
        abort();
    for (size_t i = 0; i < o->n_rows; i++)
        events += o->rows[i].occurrences;
    for (size_t i = 0; i < n; i++) {
        grouped += rows[i].occurrences;
        if (rows[i].self_ps < 0 || rows[i].executions > rows[i].occurrences)
            abort();
    }
    if (events != grouped)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const stats[] = {NULL, "group_id", "hlo_category", "long_name"};
    static const char *const keys[] = {"op", "name", "category", "module", "scope", "scope:2", "source"};
    for (size_t k = 0; k < sizeof stats / sizeof *stats; k++) {
        struct trace_file file = {.path = "a", .host = "a"};
        struct trace t = {.files = &file, .n_files = 1};
        struct trace_ops o = {0};
        struct error e = {0};
        arena_init(&t.arena);
        int rc = xspace_read(&file.space, data, size, "fuzz", &t.arena, &e);
        if (!rc)
            rc = trace_ops_by_stat(&t, NULL, stats[k], &o, &e);
        if (rc && (!e.code || !e.message[0]))
            abort();
        for (size_t i = 0; !rc && !k && i < sizeof keys / sizeof *keys; i++)
            group(&o, keys[i], &t.arena);
        if (!rc && k)
            group(&o, "stat:any", &t.arena);
        trace_ops_release(&o);
        arena_release(&t.arena);
    }
    return 0;
}
