// SPDX-License-Identifier: Apache-2.0
// One row for each event, as the profile has it. Quoting: RFC 4180.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/convert_form.h"

#define LONGEST 16384 // bytes of a name: any number of events may have it

struct csv {
    struct str row, args;
};

static void add_cell(struct str *out, const char *text, size_t n)
{
    str_add_char(out, '"');
    for (size_t i = 0; i < n && i < LONGEST;) {
        uint32_t code;
        size_t k = utf8_decode(text + i, n - i, &code);
        if (!k)
            str_add(out, "\xef\xbf\xbd"); // U+FFFD
        else if (code == '"')
            str_add(out, "\"\"");
        else
            str_add_n(out, text + i, k);
        i += k ? k : 1;
    }
    str_add_char(out, '"');
}

static int plane(struct form *f, const struct form_plane *p, struct error *err)
{
    (void)f;
    (void)p;
    (void)err;
    return 0;
}

static int track(struct form *f, const struct form_track *t, struct error *err)
{
    (void)f;
    (void)t;
    (void)err;
    return 0;
}

static void slice_cell(struct str *out, struct slice s)
{
    add_cell(out, (const char *)s.data, s.size);
    str_add_char(out, ',');
}

static int begin(struct form *f, const struct form_event *e, struct error *err)
{
    struct csv *c = f->state;
    const struct form_plane *p = e->track->plane;
    bool any = false;
    str_clear(&c->row);
    str_clear(&c->args);
    add_cell(&c->row, p->file->host, strlen(p->file->host));
    str_add_char(&c->row, ',');
    slice_cell(&c->row, p->plane->name);
    slice_cell(&c->row, e->track->name);
    if (e->row)
        slice_cell(&c->row, e->row->display_name.size ? e->row->display_name : e->row->name);
    else
        str_addf(&c->row, "\"%" PRId64 "\",", e->raw->metadata_id);
    if (e->raw->occurrences)
        str_add(&c->row, ",");
    else
        str_addf(&c->row, "%" PRId64 ",", e->start_ps);
    str_addf(&c->row, "%" PRId64 ",%" PRId64 ",", e->duration_ps, e->raw->occurrences ? e->raw->occurrences : 1);
    str_add(&c->args, "{");
    if (e->row)
        form_args_json(&c->args, e->plane, xmeta_stats(e->plane, e->row), &any);
    form_args_json(&c->args, e->plane, xevent_stats(e->plane, e->raw), &any);
    str_add(&c->args, "}");
    str_add_char(&c->row, '"');
    for (const char *at = str_text(&c->args); *at;) {
        size_t n = strcspn(at, "\"");
        str_add_n(&c->row, at, n);
        if (at[n])
            str_add(&c->row, "\"\"");
        at += n + (at[n] != 0);
    }
    str_add(&c->row, "\"\r\n");
    sink_put(f->out, str_text(&c->row), c->row.length);
    int rc = str_check(&c->args, err);
    return rc ? rc : str_check(&c->row, err);
}

static void finish(struct form *f)
{
    (void)f;
}

static void release(struct form *f)
{
    struct csv *c = f->state;
    if (!c)
        return;
    str_release(&c->row);
    str_release(&c->args);
    free(c);
}

int form_csv(struct form *f, struct error *err)
{
    struct csv *c = calloc(1, sizeof *c);
    *f = (struct form){.state = c,
                       .out = f->out,
                       .plane = plane,
                       .track = track,
                       .begin = begin,
                       .finish = finish,
                       .release = release};
    if (!c)
        return error_set(err, ERR_MEMORY, NULL, "no memory to convert a profile");
    str_init(&c->row);
    str_init(&c->args);
    sink_text(f->out, "host,plane,line,name,start_ps,duration_ps,occurrences,args\r\n");
    return 0;
}
