// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "base/json.h"
#include "trace/convert_form.h"

#define LONGEST  16384              // bytes of a text that is written with every event that refers to it
#define EXACT_PS ((int64_t)1 << 53) // a double, as readers have it, holds whole numbers up to here

struct slice form_short_name(const struct xmeta *row)
{
    return row->display_name.size ? row->display_name : row->name;
}

void form_add_text(struct str *out, struct slice text)
{
    static const char more[] = "…";
    if (text.size <= LONGEST) {
        str_add_json(out, (const char *)text.data, text.size);
        return;
    }
    size_t n = LONGEST;
    while (n && (text.data[n] & 0xc0) == 0x80) // not inside a character
        n--;
    str_add_json(out, (const char *)text.data, n);
    out->length--; // before the closing quote
    str_add(out, more);
    str_add_char(out, '"');
}

void form_add_uint(struct str *out, uint64_t v)
{
    char digits[20], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + v % 10);
    while (v /= 10);
    str_add_n(out, at, (size_t)(digits + sizeof digits - at));
}

void form_add_int(struct str *out, int64_t v)
{
    if (v < 0)
        str_add_char(out, '-');
    form_add_uint(out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void form_add_exact(struct str *out, int64_t v)
{
    bool large = v > EXACT_PS || v < -EXACT_PS;
    if (large)
        str_add_char(out, '"');
    form_add_int(out, v);
    if (large)
        str_add_char(out, '"');
}

static void add_value(struct str *out, const struct xstat *s)
{
    char number[32];
    switch (s->kind) {
    case XSTAT_DOUBLE:
        json_number(number, s->number);
        str_add(out, s->number - s->number == 0 ? number : "null");
        if (!strpbrk(number, ".enN")) // so that it is no integer when it is read again
            str_add(out, ".0");
        break;
    case XSTAT_UINT:
        if (s->unsigned_number >> 53)
            str_addf(out, "\"%" PRIu64 "\"", s->unsigned_number);
        else
            form_add_uint(out, s->unsigned_number);
        break;
    case XSTAT_INT:
        form_add_exact(out, s->integer);
        break;
    case XSTAT_TEXT:
        form_add_text(out, s->bytes);
        break;
    case XSTAT_BYTES:
        str_addf(out, "\"%zu bytes\"", s->bytes.size);
        break;
    case XSTAT_NONE:
        str_add(out, "null");
        break;
    }
}

int form_texts_chunk(struct form_texts *t, const struct form_chunk *k, struct error *err)
{
    const struct xplane *p = k->plane->plane;
    t->plane = k->plane;
    if (t->pid == k->plane->pid)
        return 0;
    arena_release(&t->arena);
    t->pid = k->plane->pid;
    t->rows = arena_new(&t->arena, struct form_row_text, p->event_table.n_rows, err);
    t->stat_names = arena_new(&t->arena, struct slice, p->stat_table.n_rows, err);
    return t->rows && t->stat_names ? 0 : ERR_MEMORY;
}

void form_texts_release(struct form_texts *t)
{
    arena_release(&t->arena);
    str_release(&t->text);
}

static int add_name(struct form_texts *t, struct str *out, int64_t id, struct error *err)
{
    const struct xtable *stats = &t->plane->plane->stat_table;
    const struct xmeta *row = xtable_find(stats, id);
    if (!row) {
        str_add_char(out, '"');
        form_add_int(out, id);
        str_add(out, "\":");
        return 0;
    }
    struct slice *name = &t->stat_names[row - stats->rows];
    if (!name->data) {
        struct str text;
        str_init(&text);
        form_add_text(&text, row->name);
        str_add_char(&text, ':');
        name->size = text.length;
        name->data = (const uint8_t *)arena_strndup(&t->arena, str_text(&text), text.length, err);
        int rc = name->data ? str_check(&text, err) : ERR_MEMORY;
        str_release(&text);
        if (rc)
            return rc;
    }
    str_add_n(out, name->data, name->size);
    return 0;
}

int form_add_stat(struct form_texts *t, struct str *out, const struct xstat *s, bool *any, struct error *err)
{
    if (*any)
        str_add_char(out, ',');
    *any = true;
    int rc = add_name(t, out, s->metadata_id, err);
    if (!rc)
        add_value(out, s);
    return rc;
}

int form_add_args(struct form_texts *t, struct str *out, struct xstats walk, bool *any, struct error *err)
{
    struct xstat s;
    int rc = 0;
    while (!rc && xstat_next(&walk, &s))
        rc = form_add_stat(t, out, &s, any, err);
    return rc;
}
