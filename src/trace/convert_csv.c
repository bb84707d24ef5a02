// SPDX-License-Identifier: Apache-2.0
// One row for each event, as the profile has it. Quoting: RFC 4180.
#include <string.h>

#include "trace/convert_form.h"

#define LONGEST 16384 // bytes of a name: any number of events may have it

struct csv {
    struct form_texts texts;
    struct str args; // JSON, before its quotes are doubled
    struct str head; // of the track: host, plane and line
    uint64_t track;  // whose that is; 0: none
};

static void add_cell(struct str *out, struct slice s)
{
    const char *text = (const char *)s.data;
    str_add_char(out, '"');
    for (size_t i = 0; i < s.size && i < LONGEST;) {
        uint32_t code;
        size_t k = utf8_decode(text + i, s.size - i, &code);
        if (!k)
            str_add(out, "\xef\xbf\xbd"); // U+FFFD
        else if (code == '"')
            str_add(out, "\"\"");
        else
            str_add_n(out, text + i, k);
        i += k ? k : 1;
    }
    str_add_char(out, '"');
    str_add_char(out, ',');
}

static void add_doubled(struct str *out, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\"");
        str_add_n(out, text, n);
        if (text[n])
            str_add_n(out, "\"\"", 2);
        text += n + (text[n] != 0);
    }
}

static struct slice keep(struct csv *c, const struct str *text, struct error *err)
{
    struct slice s = {(const uint8_t *)arena_strndup(&c->texts.arena, str_text(text), text->length, err), text->length};
    return s;
}

static int make_row(struct csv *c, const struct xmeta *row, struct form_row_text *out, struct error *err)
{
    struct form_texts *t = &c->texts;
    bool any = false;
    str_clear(&t->text);
    add_cell(&t->text, form_short_name(row));
    out->name = keep(c, &t->text, err);
    str_clear(&t->text);
    str_clear(&c->args);
    int rc = form_add_args(t, &c->args, xmeta_stats(t->plane->plane, row), &any, err);
    add_doubled(&t->text, str_text(&c->args));
    out->args = keep(c, &t->text, err);
    if (!rc)
        rc = out->name.data && out->args.data ? str_check(&c->args, err) : ERR_MEMORY;
    return rc ? rc : str_check(&t->text, err);
}

static void make_head(struct csv *c, const struct form_track *track)
{
    const struct form_plane *p = track->plane;
    str_clear(&c->head);
    add_cell(&c->head, (struct slice){(const uint8_t *)p->file->host, strlen(p->file->host)});
    add_cell(&c->head, p->plane->name);
    add_cell(&c->head, track->name);
    c->track = track->id;
}

static int op(void *state, const struct form_op *o, struct str *out, struct error *err)
{
    struct csv *c = state;
    struct form_texts *t = &c->texts;
    const struct xplane *p = t->plane->plane;
    if (o->what != FORM_BEGIN)
        return 0;
    struct form_row_text *row = o->row ? &t->rows[o->row - p->event_table.rows] : NULL;
    int rc = row && !row->name.data ? make_row(c, o->row, row, err) : 0;
    if (rc)
        return rc;
    if (c->track != o->track->id)
        make_head(c, o->track);
    str_add_n(out, str_text(&c->head), c->head.length);
    if (row) {
        str_add_n(out, row->name.data, row->name.size);
    } else {
        str_add_char(out, '"');
        form_add_int(out, o->metadata_id);
        str_add_n(out, "\",", 2);
    }
    if (!o->occurrences)
        form_add_int(out, o->ps);
    str_add_char(out, ',');
    form_add_int(out, o->duration_ps);
    str_add_char(out, ',');
    form_add_int(out, o->occurrences ? o->occurrences : 1);
    str_add_n(out, ",\"{", 3);
    bool any = row && row->args.size;
    if (any)
        str_add_n(out, row->args.data, row->args.size);
    const struct xevent e = {.stats = o->text};
    str_clear(&c->args);
    rc = form_add_args(t, &c->args, xevent_stats(p, &e), &any, err);
    add_doubled(out, str_text(&c->args));
    str_add_n(out, "}\"\r\n", 4);
    if (!rc)
        rc = str_check(&c->head, err);
    return rc ? rc : str_check(&c->args, err);
}

static int chunk(void *state, const struct form_chunk *k, struct error *err)
{
    struct csv *c = state;
    return form_texts_chunk(&c->texts, k, err);
}

static void release(void *state)
{
    struct csv *c = state;
    form_texts_release(&c->texts);
    str_release(&c->args);
    str_release(&c->head);
}

const struct form *form_csv(void)
{
    static const struct form form = {.head = "host,plane,line,name,start_ps,duration_ps,occurrences,args\r\n",
                                     .tail = "",
                                     .state_bytes = sizeof(struct csv),
                                     .release = release,
                                     .chunk = chunk,
                                     .op = op};
    return &form;
}
