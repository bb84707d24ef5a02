// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline_encode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "trace/timeline_hlo.h"
#include "trace/timeline_texts.h"

#define CUT_BYTES 256

struct encoder {
    const struct timeline *l;
    const struct trace_steps *steps; // or NULL
    struct timeline_encoded *out;
    struct timeline_texts strings, details; // details by their bytes, the kind is the plane
    struct str strings_json, details_json;
    size_t n_details;
    struct timeline_hlo *hlo;
    struct arena arena; // texts of our own
    struct error *err;
    int rc;
};

// ---- Records

static uint8_t *put_varint(uint8_t *at, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *at++ = (uint8_t)(v | 0x80);
    *at++ = (uint8_t)v;
    return at;
}

void timeline_encode_record(struct str *out, const struct timeline_record *r, int64_t *end_ps, uint32_t detail)
{
    uint8_t bytes[60], *at = bytes;
    bool block = r->count > 1;
    at = put_varint(at, (uint64_t)(r->start_ps - *end_ps));
    at = put_varint(at, (uint64_t)r->duration_ps);
    at = put_varint(at, (uint64_t)r->name << 1 | block);
    at = put_varint(at, block ? r->count : detail);
    if (block)
        at = put_varint(at, (uint64_t)r->busy_ps);
    *end_ps = r->start_ps + r->duration_ps;
    str_add_n(out, bytes, (size_t)(at - bytes));
}

// ---- Strings and details

static uint32_t string_index(struct encoder *e, struct slice text)
{
    uint32_t index = 0;
    bool fresh = false;
    if (!e->rc)
        e->rc = timeline_texts_put(&e->strings, text, 0, &index, &fresh, e->err);
    if (e->rc || !fresh)
        return index;
    size_t n = text.size;
    if (e->strings_json.length + n > TIMELINE_STRING_BYTES && n > CUT_BYTES) {
        n = CUT_BYTES;
        e->out->cut++;
    }
    str_add(&e->strings_json, e->strings_json.length ? ",\n" : "");
    str_add_json(&e->strings_json, (const char *)text.data, n);
    return index;
}

static uint32_t own_string(struct encoder *e, const char *format, uint64_t n)
{
    char *text = e->rc ? NULL : arena_printf(&e->arena, e->err, format, n);
    if (!text)
        e->rc = e->rc ? e->rc : ERR_MEMORY;
    return text ? string_index(e, (struct slice){(const uint8_t *)text, strlen(text)}) : 0;
}

static void add_value(struct encoder *e, const struct xstat *s)
{
    const int64_t safe = (int64_t)1 << 53; // what JavaScript's numbers hold
    struct str *out = &e->details_json;
    char number[32];
    switch (s->kind) {
    case XSTAT_DOUBLE:
        if (s->number - s->number != 0) { // not finite
            str_addf(out, "[%u]", own_string(e, s->number > 0 ? "infinity" : s->number < 0 ? "-infinity" : "nan", 0));
            return;
        }
        json_number(number, s->number);
        str_add(out, number);
        return;
    case XSTAT_UINT:
        if (s->unsigned_number <= (uint64_t)safe)
            str_addf(out, "%" PRIu64, s->unsigned_number);
        else
            str_addf(out, "[%u]", own_string(e, "%" PRIu64, s->unsigned_number));
        return;
    case XSTAT_INT:
        if (s->integer >= -safe && s->integer <= safe)
            str_addf(out, "%" PRId64, s->integer);
        else
            str_addf(out, "[%u]", own_string(e, "%" PRId64, s->unsigned_number));
        return;
    case XSTAT_TEXT:
        str_addf(out, "[%u]", string_index(e, s->bytes));
        return;
    case XSTAT_BYTES:
        str_addf(out, "[%u]", own_string(e, "(%" PRIu64 " bytes)", s->bytes.size));
        return;
    case XSTAT_NONE:
        str_add(out, "null");
        return;
    }
}

// What an event says of the operation that it is.
struct operation {
    struct slice name, module;
    uint64_t program;
};

static void note_operation(struct operation *op, struct slice name, const struct xstat *s)
{
    if (s->kind == XSTAT_TEXT && slice_is(name, "hlo_op"))
        op->name = s->bytes;
    else if (s->kind == XSTAT_TEXT && slice_is(name, "hlo_module"))
        op->module = s->bytes;
    else if ((s->kind == XSTAT_INT || s->kind == XSTAT_UINT) && slice_is(name, "program_id"))
        op->program = s->unsigned_number;
}

// Appends "HLO" to the open row of details.
static void add_hlo(struct encoder *e, const struct trace_file *file, const struct operation *op)
{
    struct str text;
    if (!op->name.size || e->rc)
        return;
    str_init(&text);
    e->rc = timeline_hlo_text(e->hlo, file, op->program, op->module, op->name, &text, e->err);
    char *copy = e->rc || !text.length ? NULL : arena_strndup(&e->arena, text.text, text.length, e->err);
    if (copy) {
        uint32_t name = string_index(e, (struct slice){(const uint8_t *)"HLO", 3});
        str_addf(&e->details_json, ",%u,[%u]", name,
                 string_index(e, (struct slice){(const uint8_t *)copy, text.length}));
    }
    str_release(&text);
}

// A new row of details; 0 when there are none.
static uint32_t add_detail(struct encoder *e, const struct timeline_plane *at, struct xstats walk)
{
    const struct xplane *p = at->plane;
    struct operation op = {.name = {NULL, 0}};
    struct xstat s;
    size_t begin = e->details_json.length;
    bool any = false;
    while (!e->rc && xstat_next(&walk, &s)) {
        const struct xmeta *row = xtable_find(&p->stat_table, s.metadata_id);
        uint32_t name = row ? string_index(e, row->name) : own_string(e, "statistic %" PRId64, (uint64_t)s.metadata_id);
        if (!any)
            str_add(&e->details_json, begin ? ",\n[" : "[");
        str_addf(&e->details_json, any ? ",%u," : "%u,", name);
        add_value(e, &s);
        if (row)
            note_operation(&op, row->name, &s);
        any = true;
    }
    if (!any)
        return 0;
    add_hlo(e, at->file, &op);
    str_add_char(&e->details_json, ']');
    return (uint32_t)++e->n_details;
}

// Statistics that are the same bytes of the same plane are one detail.
static uint32_t event_detail(struct encoder *e, const struct timeline_plane *p, size_t plane,
                             const struct timeline_record *r)
{
    struct slice bytes = {r->stats, r->stats_bytes};
    struct xevent event = {.stats = bytes};
    uint32_t index;
    bool fresh;
    if (!r->stats_bytes || e->rc)
        return 0;
    if (e->details_json.length > TIMELINE_DETAIL_BYTES) {
        bool known = timeline_texts_find(&e->details, bytes, plane, &index);
        e->out->bare += !known;
        return known ? e->details.items[index].number : 0;
    }
    e->rc = timeline_texts_put(&e->details, bytes, plane, &index, &fresh, e->err);
    if (e->rc)
        return 0;
    if (fresh)
        e->details.items[index].number = add_detail(e, p, xevent_stats(p->plane, &event));
    return e->details.items[index].number;
}

// ---- Planes

static void add_names(struct encoder *e, const struct timeline_plane *p)
{
    size_t n = p->plane->event_table.n_rows;
    struct str *out = &e->out->json;
    uint8_t *used = calloc(n + 1, 1);
    if (!used) {
        e->rc = error_set(e->err, ERR_MEMORY, NULL, "no memory for %zu names", n);
        return;
    }
    for (size_t i = 0; i < p->n_lines; i++) {
        for (size_t r = 0; r < p->lines[i].n_rows; r++) {
            for (size_t k = 0; k < p->lines[i].rows[r].n; k++)
                used[p->lines[i].rows[r].records[k].name] = 1;
        }
    }
    while (n && !used[n])
        n--;
    str_add(out, "\"names\":[");
    for (size_t i = 0; i < n && !e->rc; i++) {
        const struct xmeta *m = &p->plane->event_table.rows[i];
        str_add(out, i ? "," : "");
        if (!used[i + 1]) {
            str_add_char(out, '0');
            continue;
        }
        uint32_t name = string_index(e, m->name);
        str_addf(out, "[%u,", name);
        if (m->display_name.size)
            str_addf(out, "%u", string_index(e, m->display_name));
        else
            str_add(out, "-1");
        str_addf(out, ",%u]", add_detail(e, p, xmeta_stats(p->plane, m)));
    }
    str_add(out, "],\n");
    free(used);
}

static void add_line(struct encoder *e, const struct timeline_plane *p, size_t plane, const struct timeline_line *line)
{
    struct str *out = &e->out->json;
    str_add(out, "{\"name\":");
    if (line->line) {
        struct slice name = line->line->display_name.size ? line->line->display_name : line->line->name;
        str_add_json(out, (const char *)name.data, name.size);
        str_addf(out, ",\"id\":\"%" PRId64 "\"", line->line->id);
    } else {
        str_add(out, "null");
    }
    str_add(out, ",\"rows\":[");
    for (size_t r = 0; r < line->n_rows && !e->rc; r++) {
        const struct timeline_row *row = &line->rows[r];
        int64_t end_ps = 0;
        str_addf(out, r ? ",%zu" : "%zu", row->n);
        for (size_t k = 0; k < row->n; k++) {
            uint32_t detail = event_detail(e, p, plane, &row->records[k]);
            timeline_encode_record(&e->out->records, &row->records[k], &end_ps, detail);
        }
    }
    str_add(out, "]}");
}

static void add_steps(struct encoder *e, const struct timeline_plane *p)
{
    struct str *out = &e->out->json;
    bool any = false;
    str_add(out, "\"steps\":[");
    for (size_t i = 0; e->steps && i < e->steps->n; i++) {
        const struct trace_step *s = &e->steps->items[i];
        int64_t start_ps = s->start_ps - e->l->zero_ps;
        if (e->steps->modules.devices.items[s->device].plane != p->plane || start_ps > e->l->to_ps ||
            start_ps + s->duration_ps < e->l->from_ps)
            continue;
        str_addf(out, "%s[\"%" PRId64 "\",\"%" PRId64 "\",\"%" PRId64 "\",%d]", any ? "," : "", s->index, start_ps,
                 s->duration_ps, s->outlier);
        any = true;
    }
    str_add(out, "],\n");
}

static void add_plane(struct encoder *e, size_t plane)
{
    const struct timeline_plane *p = &e->l->planes[plane];
    struct str *out = &e->out->json;
    str_add(out, plane ? ",\n{\"name\":" : "{\"name\":");
    str_add_json(out, (const char *)p->plane->name.data, p->plane->name.size);
    str_add(out, ",\"host\":");
    str_add_json(out, p->file->host, strlen(p->file->host));
    str_addf(out, ",\"device\":%s,\n", p->device ? "true" : "false");
    add_names(e, p);
    add_steps(e, p);
    str_add(out, "\"lines\":[");
    bool any = false;
    for (size_t i = p->n_lines; i > 0; i--) { // busy time comes first
        const struct timeline_line *line = &p->lines[i - 1];
        if (line->line || !line->n_rows)
            continue;
        add_line(e, p, plane, line);
        any = true;
    }
    for (size_t i = 0; i < p->n_lines && !e->rc; i++) {
        const struct timeline_line *line = &p->lines[i];
        if (!line->line || !line->n_rows)
            continue;
        str_add(out, any ? ",\n" : "");
        add_line(e, p, plane, line);
        any = true;
    }
    str_add(out, "]}");
}

static void add_guarded(struct encoder *e, size_t plane)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &e->l->planes[plane].file->map)) {
        e->rc = file_guard_error(&g, e->err);
        return;
    }
    add_plane(e, plane);
    file_guard_end(&g);
}

// ---- The whole

static void add_files(struct str *out, const struct trace *t)
{
    str_add(out, "\"files\":[");
    for (size_t i = 0; i < t->n_files; i++) {
        const struct xdamage *d = &t->files[i].space.damage;
        str_add(out, i ? ",{\"path\":" : "{\"path\":");
        str_add_json(out, t->files[i].path, strlen(t->files[i].path));
        str_add(out, ",\"host\":");
        str_add_json(out, t->files[i].host, strlen(t->files[i].host));
        if (d->what)
            str_addf(out, ",\"damage\":\"offset %" PRIu64 " (%s): %s\"", d->offset, d->where, d->what);
        str_add_char(out, '}');
    }
    str_add(out, "],\n");
}

static void json_note(void *context, const char *text)
{
    struct str *out = context;
    str_add(out, out->text[out->length - 1] == '[' ? "" : ",\n");
    str_add_json(out, text, strlen(text));
}

static const char *rule_of(const struct trace_steps *steps)
{
    return steps && steps->n ? trace_rule_text(steps->rule) : "";
}

int timeline_encode(struct timeline_encoded *out, const struct timeline *l, const struct trace *t,
                    const struct trace_steps *steps, struct error *err)
{
    struct encoder e = {.l = l, .steps = steps, .out = out, .err = err};
    *out = (struct timeline_encoded){0};
    str_init(&out->json);
    str_init(&out->records);
    str_init(&e.strings_json);
    str_init(&e.details_json);
    arena_init(&e.arena);
    timeline_texts_init(&e.strings);
    timeline_texts_init(&e.details);
    e.rc = timeline_hlo_new(&e.hlo, t, err);
    str_addf(&out->json, "{\"length_ps\":\"%" PRId64 "\",\"from_ps\":\"%" PRId64 "\",\"to_ps\":\"%" PRId64 "\",\n",
             l->length_ps, l->from_ps, l->to_ps);
    add_files(&out->json, t);
    str_add(&out->json, "\"rule\":");
    str_add_json(&out->json, rule_of(steps), strlen(rule_of(steps)));
    str_add(&out->json, ",\n");
    str_add(&out->json, "\"planes\":[");
    for (size_t i = 0; i < l->n_planes && !e.rc; i++)
        add_guarded(&e, i);
    str_add(&out->json, "],\n\"notes\":[");
    timeline_notes(l, out, json_note, &out->json);
    str_add(&out->json, "],\n\"strings\":[");
    str_add_n(&out->json, str_text(&e.strings_json), e.strings_json.length);
    str_add(&out->json, "],\n\"details\":[");
    str_add_n(&out->json, str_text(&e.details_json), e.details_json.length);
    str_add(&out->json, "]}\n");
    int rc = e.rc;
    struct str *const all[] = {&out->json, &out->records, &e.strings_json, &e.details_json};
    for (size_t i = 0; i < 4 && !rc; i++)
        rc = str_check(all[i], err);
    str_release(&e.strings_json);
    str_release(&e.details_json);
    timeline_texts_release(&e.strings);
    timeline_texts_release(&e.details);
    timeline_hlo_free(e.hlo);
    arena_release(&e.arena);
    return rc;
}

void timeline_encoded_release(struct timeline_encoded *e)
{
    str_release(&e->json);
    str_release(&e->records);
}

// "16.4 us" of a power of two of picoseconds
static void add_cell(struct str *s, int64_t ps)
{
    const char *const units[] = {"ps", "ns", "us", "ms", "s"};
    double v = (double)ps;
    size_t unit = 0;
    for (; v >= 1000 && unit < 4; unit++)
        v /= 1000;
    str_addf(s, "%.3g %s", v, units[unit]);
}

static int64_t longest_cell(const struct timeline *l, bool device)
{
    int64_t longest = 0;
    for (size_t i = 0; i < l->n_planes; i++) {
        for (size_t k = 0; k < l->planes[i].n_lines && l->planes[i].device == device; k++)
            longest = l->planes[i].lines[k].cell_ps > longest ? l->planes[i].lines[k].cell_ps : longest;
    }
    return longest;
}

void timeline_notes(const struct timeline *l, const struct timeline_encoded *e,
                    void (*note)(void *context, const char *text), void *context)
{
    struct str s;
    str_init(&s);
    if (l->merged) {
        int64_t device = longest_cell(l, true), host = longest_cell(l, false);
        str_addf(&s,
                 "%" PRIu64 " of %" PRIu64 " events are shown in blocks: in lines that have too many, those shorter "
                 "than a cell",
                 l->merged, l->events);
        if (device || host) {
            str_add(&s, " (up to ");
            if (device)
                add_cell(&s, device);
            str_add(&s, device ? " on devices" : "");
            str_add(&s, device && host ? ", " : "");
            if (host)
                add_cell(&s, host);
            str_add(&s, host ? " on hosts)" : ")");
        }
        str_add(&s, " that start in the same one and lie in one row. A block says how many it holds; a window (--from, "
                    "--to) or more records (--events) shows them apart.");
        note(context, str_text(&s));
    }
    const struct {
        uint64_t n;
        const char *text;
    } others[] = {
        {l->outside, "events lie outside the window and are left out."},
        {l->no_time, "events are aggregates without a place in time and are left out."},
        {l->impossible, "events have impossible times and are left out."},
        {e ? e->bare : 0, "events are without their own statistics, for want of room; those of their operation are "
                          "there."},
        {e ? e->cut : 0, "long texts are cut to 256 bytes, for want of room."},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!others[i].n)
            continue;
        str_clear(&s);
        str_addf(&s, "%" PRIu64 " %s", others[i].n, others[i].text);
        note(context, str_text(&s));
    }
    str_release(&s);
}
