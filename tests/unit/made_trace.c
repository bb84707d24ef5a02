// SPDX-License-Identifier: Apache-2.0
#include "made_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/pbwire.h"
#include "test.h"

static int64_t id_of(const char **names, int *n, const char *name)
{
    for (int i = 0; i < *n; i++) {
        if (strcmp(names[i], name) == 0)
            return i + 1;
    }
    if (*n == MADE_NAMES)
        abort();
    names[(*n)++] = name;
    return *n;
}

static void close_message(struct made *m, size_t *at)
{
    if (*at != SIZE_MAX)
        pb_end(&m->file, *at);
    *at = SIZE_MAX;
}

void made_row(struct str *s, uint32_t table, int64_t id, const char *name)
{
    size_t entry = pb_begin(s, table);
    pb_put_int(s, 1, id);
    size_t message = pb_begin(s, 2);
    pb_put_int(s, 1, id);
    pb_put_string(s, 2, name);
    pb_end(s, message);
    pb_end(s, entry);
}

static void table(struct made *m, uint32_t field, const char **names, int n)
{
    for (int i = 0; i < n; i++)
        made_row(&m->file, field, i + 1, names[i]);
}

static void close_plane(struct made *m)
{
    close_message(m, &m->event);
    close_message(m, &m->line);
    if (m->plane == SIZE_MAX)
        return;
    table(m, 4, m->events, m->n_events);
    table(m, 5, m->stats, m->n_stats);
    close_message(m, &m->plane);
}

void made_begin(struct made *m)
{
    memset(m, 0, sizeof *m);
    str_init(&m->file);
    m->plane = m->line = m->event = SIZE_MAX;
}

void made_plane(struct made *m, const char *name)
{
    close_plane(m);
    m->n_events = m->n_stats = 0;
    m->plane = pb_begin(&m->file, 1);
    pb_put_string(&m->file, 2, name);
}

void made_line(struct made *m, const char *name, int64_t timestamp_ns)
{
    close_message(m, &m->event);
    close_message(m, &m->line);
    m->line = pb_begin(&m->file, 3);
    pb_put_string(&m->file, 2, name);
    pb_put_int(&m->file, 3, timestamp_ns);
}

void made_event(struct made *m, const char *name, int64_t offset_ps, int64_t duration_ps)
{
    close_message(m, &m->event);
    m->event = pb_begin(&m->file, 4);
    pb_put_int(&m->file, 1, id_of(m->events, &m->n_events, name));
    pb_put_int(&m->file, 2, offset_ps);
    pb_put_int(&m->file, 3, duration_ps);
}

static size_t begin_stat(struct made *m, uint32_t field, const char *stat)
{
    size_t at = pb_begin(&m->file, field);
    pb_put_int(&m->file, 1, id_of(m->stats, &m->n_stats, stat));
    return at;
}

void made_text(struct made *m, const char *stat, const char *value)
{
    size_t at = begin_stat(m, 4, stat);
    pb_put_string(&m->file, 5, value);
    pb_end(&m->file, at);
}

void made_number(struct made *m, const char *stat, int64_t value)
{
    size_t at = begin_stat(m, 4, stat);
    pb_put_int(&m->file, 4, value);
    pb_end(&m->file, at);
}

void made_fact(struct made *m, const char *stat, int64_t value)
{
    close_message(m, &m->event);
    close_message(m, &m->line);
    size_t at = begin_stat(m, 6, stat);
    pb_put_int(&m->file, 4, value);
    pb_end(&m->file, at);
}

void made_bytes(struct made *m, const char *stat, struct slice value)
{
    close_message(m, &m->event);
    close_message(m, &m->line);
    size_t at = begin_stat(m, 6, stat);
    pb_put_bytes(&m->file, 6, value.data, value.size);
    pb_end(&m->file, at);
}

void made_program(struct made *m, const char *name, struct slice module)
{
    made_plane(m, "/host:metadata");
    size_t entry = pb_begin(&m->file, 4);
    pb_put_int(&m->file, 1, 1);
    size_t row = pb_begin(&m->file, 2);
    pb_put_int(&m->file, 1, 1);
    pb_put_string(&m->file, 2, name);
    size_t stat = begin_stat(m, 5, "Hlo Proto"), value = pb_begin(&m->file, 6);
    pb_put_bytes(&m->file, 1, module.data, module.size);
    pb_end(&m->file, value);
    pb_end(&m->file, stat);
    pb_end(&m->file, row);
    pb_end(&m->file, entry);
}

void made_note(struct made *m, uint32_t field, const char *text)
{
    close_plane(m);
    pb_put_string(&m->file, field, text);
}

const char *made_end(struct made *m, const char *name)
{
    static char path[1024];
    struct error e = {0};
    close_plane(m);
    snprintf(path, sizeof path, "%s/%s.xplane.pb", test_dir(), name);
    int rc = file_write(path, str_text(&m->file), m->file.length, &e);
    str_release(&m->file);
    return rc ? "" : path;
}
