// SPDX-License-Identifier: Apache-2.0
// The Trace Event Format of Chrome, in JSON. Perfetto reads it too, but neither an empty object at the end nor anything
// beside the events. Times are microseconds with six decimals, which is every picosecond.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "trace/convert_form.h"

#define LONGEST  16384              // bytes of a text that is written with every event that refers to it
#define EXACT_PS ((int64_t)1 << 53) // a double, as readers have it, holds whole ps up to here

// What is the same for all events of a row, as text.
struct row_text {
    const char *text; // "name":...
    const char *args; // "a":1,"b":"c", without braces; may be empty
};

struct chrome {
    struct arena arena; // of the plane
    struct row_text *rows;
    struct str text; // of one event
    struct str more; // of a process or thread
    bool any;
};

void form_text_json(struct str *out, struct slice text)
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

static void separate(struct str *out, bool *any)
{
    if (*any)
        str_add_char(out, ',');
    *any = true;
}

// An integer; beyond 2^53 JSON's readers round.
static void add_integer(struct str *out, int64_t v)
{
    str_addf(out, v > EXACT_PS || v < -EXACT_PS ? "\"%" PRId64 "\"" : "%" PRId64, v);
}

static void value(struct str *out, const struct xstat *s)
{
    char number[32];
    switch (s->kind) {
    case XSTAT_DOUBLE:
        json_number(number, s->number);
        str_add(out, s->number - s->number == 0 ? number : "null");
        if (!strpbrk(number, ".enN")) // so that it is no integer when it is read again
            str_add(out, ".0");
        break;
    case XSTAT_UINT: // beyond 2^53 JSON's readers round
        str_addf(out, s->unsigned_number >> 53 ? "\"%" PRIu64 "\"" : "%" PRIu64, s->unsigned_number);
        break;
    case XSTAT_INT:
        add_integer(out, s->integer);
        break;
    case XSTAT_TEXT:
        form_text_json(out, s->bytes);
        break;
    case XSTAT_BYTES:
        str_addf(out, "\"%zu bytes\"", s->bytes.size);
        break;
    case XSTAT_NONE:
        str_add(out, "null");
        break;
    }
}

static void add_stat(struct str *out, const struct xplane *p, const struct xstat *s, bool *any)
{
    const struct xmeta *name = xtable_find(&p->stat_table, s->metadata_id);
    separate(out, any);
    if (name)
        form_text_json(out, name->name);
    else
        str_addf(out, "\"%" PRId64 "\"", s->metadata_id);
    str_add_char(out, ':');
    value(out, s);
}

void form_args_json(struct str *out, const struct xplane *p, struct xstats walk, bool *any)
{
    struct xstat s;
    while (xstat_next(&walk, &s))
        add_stat(out, p, &s, any);
}

static struct slice short_name(const struct xmeta *row)
{
    return row->display_name.size ? row->display_name : row->name;
}

static int make_row(struct chrome *c, const struct xplane *p, const struct xmeta *row, struct row_text *out,
                    struct error *err)
{
    bool any = false;
    str_clear(&c->text);
    str_add(&c->text, "\"name\":");
    form_text_json(&c->text, short_name(row));
    out->text = arena_strndup(&c->arena, str_text(&c->text), c->text.length, err);
    str_clear(&c->text);
    if (row->display_name.size && row->name.size) {
        str_add(&c->text, "\"long_name\":");
        form_text_json(&c->text, row->name);
        any = true;
    }
    form_args_json(&c->text, p, xmeta_stats(p, row), &any);
    out->args = arena_strndup(&c->arena, str_text(&c->text), c->text.length, err);
    return out->text && out->args ? str_check(&c->text, err) : ERR_MEMORY;
}

// ---- Writing

static void put(struct form *f)
{
    struct chrome *c = f->state;
    sink_text(f->out, c->any ? ",\n" : "");
    sink_put(f->out, str_text(&c->text), c->text.length);
    c->any = true;
}

// ps as microseconds
static void add_us(struct str *out, int64_t ps)
{
    uint64_t v = ps < 0 ? 0 - (uint64_t)ps : (uint64_t)ps;
    char text[32];
    int n = snprintf(text, sizeof text, "%s%" PRIu64 ".%06" PRIu64, ps < 0 ? "-" : "", v / 1000000, v % 1000000);
    while (text[n - 1] == '0')
        n--;
    n -= text[n - 1] == '.';
    str_add_n(out, text, (size_t)n);
}

// `more`: members beside the name, which begin with a comma. Viewers ignore them; whoever reads the trace as a profile
// again does not (chrome.h).
static int named(struct form *f, const char *what, uint32_t pid, uint64_t tid, struct slice name, size_t order,
                 const struct str *more, struct error *err)
{
    struct chrome *c = f->state;
    for (int i = 0; i < 2; i++) {
        str_clear(&c->text);
        str_addf(&c->text, "{\"ph\":\"M\",\"pid\":%u,", pid);
        if (tid)
            str_addf(&c->text, "\"tid\":%" PRIu64 ",", tid);
        str_addf(&c->text, "\"name\":\"%s_%s\",\"args\":{", what, i ? "sort_index" : "name");
        if (i) {
            str_addf(&c->text, "\"sort_index\":%zu}}", order);
        } else {
            str_add(&c->text, "\"name\":");
            form_text_json(&c->text, name);
            str_add_n(&c->text, str_text(more), more->length);
            str_add(&c->text, "}}");
        }
        put(f);
    }
    return str_check(&c->text, err);
}

static int plane(struct form *f, const struct form_plane *p, struct error *err)
{
    struct chrome *c = f->state;
    arena_release(&c->arena);
    c->rows = arena_new(&c->arena, struct row_text, p->plane->event_table.n_rows, err);
    if (!c->rows)
        return ERR_MEMORY;
    bool any = true;
    str_clear(&c->more);
    str_add(&c->more, ",\"plane_id\":");
    add_integer(&c->more, p->plane->id);
    str_add(&c->more, ",\"host\":");
    str_add_json(&c->more, p->file->host, strlen(p->file->host));
    if (p->start_ns) {
        str_add(&c->more, ",\"profile_start_time\":");
        add_integer(&c->more, p->start_ns);
    }
    for (size_t i = 0; i < p->plane->n_stats; i++) {
        struct xstat s;
        xstat_read(&s, p->plane, p->plane->stats[i]);
        if (s.kind != XSTAT_BYTES)
            add_stat(&c->more, p->plane, &s, &any);
    }
    int rc = str_check(&c->more, err);
    return rc ? rc : named(f, "process", p->pid, 0, p->name, p->pid, &c->more, err);
}

static int track(struct form *f, const struct form_track *t, struct error *err)
{
    struct chrome *c = f->state;
    if (t->counter)
        return 0;
    str_clear(&c->more);
    if (!t->line) {
        str_add(&c->more, ",\"derived\":true");
    } else {
        str_add(&c->more, ",\"line_id\":");
        add_integer(&c->more, t->line->id);
        if (!slice_equal(t->line->name, t->name)) {
            str_add(&c->more, ",\"line\":");
            form_text_json(&c->more, t->line->name);
        }
    }
    int rc = str_check(&c->more, err);
    return rc ? rc : named(f, "thread", t->plane->pid, t->id, t->name, t->order, &c->more, err);
}

static void put_flow(struct form *f, const struct form_event *e)
{
    struct chrome *c = f->state;
    bool in = e->flow == FLOW_IN;
    str_clear(&c->text);
    str_addf(&c->text, "{\"ph\":\"%s\",\"pid\":%u,\"tid\":%" PRIu64 ",\"ts\":", in ? "f" : "s", e->track->plane->pid,
             e->track->id);
    add_us(&c->text, e->start_ps);
    str_addf(&c->text, ",\"id\":\"0x%" PRIx64 "\",\"cat\":\"flow\",\"name\":\"flow\"%s}", e->flow_id,
             in ? ",\"bp\":\"e\"" : "");
    put(f);
}

static int begin(struct form *f, const struct form_event *e, struct error *err)
{
    struct chrome *c = f->state;
    struct row_text *row = e->row ? &c->rows[e->row - e->plane->event_table.rows] : NULL;
    int rc = row && !row->text ? make_row(c, e->plane, e->row, row, err) : 0;
    bool any = false;
    if (rc)
        return rc;
    str_clear(&c->text);
    str_addf(&c->text, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%" PRIu64 ",\"ts\":", e->track->plane->pid, e->track->id);
    add_us(&c->text, e->start_ps);
    str_add(&c->text, ",\"dur\":");
    add_us(&c->text, e->duration_ps);
    str_add_char(&c->text, ',');
    if (row) {
        str_add(&c->text, row->text);
    } else {
        str_add(&c->text, "\"name\":");
        form_text_json(&c->text, e->name);
    }
    str_add(&c->text, ",\"args\":{");
    if (row && *row->args) {
        str_add(&c->text, row->args);
        any = true;
    }
    if (e->raw)
        form_args_json(&c->text, e->plane, xevent_stats(e->plane, e->raw), &any);
    if (e->start_ps > EXACT_PS - e->duration_ps || e->start_ps < -EXACT_PS) {
        separate(&c->text, &any);
        str_addf(&c->text, "\"start_ps\":\"%" PRId64 "\",\"duration_ps\":\"%" PRId64 "\"", e->start_ps, e->duration_ps);
    }
    str_add(&c->text, "}}");
    put(f);
    rc = str_check(&c->text, err);
    if (!rc && e->flow)
        put_flow(f, e);
    return rc;
}

static void count(struct form *f, const struct form_track *t, int64_t ps, double v)
{
    struct chrome *c = f->state;
    char number[32];
    if (v - v != 0) // JSON has neither infinities nor NaN
        return;
    json_number(number, v);
    str_clear(&c->text);
    str_addf(&c->text, "{\"ph\":\"C\",\"pid\":%u,\"ts\":", t->plane->pid);
    add_us(&c->text, ps);
    str_add(&c->text, ",\"name\":");
    form_text_json(&c->text, t->name);
    str_addf(&c->text, ",\"args\":{\"value\":%s}}", number);
    put(f);
}

static void finish(struct form *f)
{
    sink_text(f->out, "\n]}\n");
}

static void release(struct form *f)
{
    struct chrome *c = f->state;
    if (!c)
        return;
    arena_release(&c->arena);
    str_release(&c->text);
    str_release(&c->more);
    free(c);
}

int form_chrome(struct form *f, struct error *err)
{
    struct chrome *c = calloc(1, sizeof *c);
    *f = (struct form){.state = c,
                       .out = f->out,
                       .lanes = true,
                       .plane = plane,
                       .track = track,
                       .begin = begin,
                       .count = count,
                       .finish = finish,
                       .release = release};
    if (!c)
        return error_set(err, ERR_MEMORY, NULL, "no memory to convert a profile");
    arena_init(&c->arena);
    str_init(&c->text);
    str_init(&c->more);
    sink_text(f->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    return 0;
}
