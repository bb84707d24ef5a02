// SPDX-License-Identifier: Apache-2.0
// The Trace Event Format of Chrome, in JSON. Perfetto reads it too, but neither an empty object at the end nor anything
// beside the events. Times are microseconds with six decimals, which is every picosecond.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "trace/convert_form.h"

#define EXACT_PS ((int64_t)1 << 53) // a double, as readers have it, holds whole ps up to here

// ---- Writing

// Before every event but the first, which names the first process.
static void separate(struct str *out)
{
    str_add_n(out, ",\n", 2);
}

// ps as microseconds
static void add_us(struct str *out, int64_t ps)
{
    uint64_t v = ps < 0 ? 0 - (uint64_t)ps : (uint64_t)ps, part = v % 1000000;
    char digits[7] = ".000000";
    size_t n = sizeof digits;
    if (ps < 0)
        str_add_char(out, '-');
    form_add_uint(out, v / 1000000);
    if (!part)
        return;
    for (size_t i = n; i-- > 1; part /= 10)
        digits[i] = (char)('0' + part % 10);
    while (digits[n - 1] == '0')
        n--;
    str_add_n(out, digits, n);
}

// `more`: members beside the name, which begin with a comma. Viewers ignore them; whoever reads the trace as a profile
// again does not (chrome.h).
static void named(struct str *out, const char *what, uint32_t pid, uint64_t tid, struct slice name, size_t order,
                  const struct str *more)
{
    for (int i = 0; i < 2; i++) {
        if (i || tid || pid > 1)
            separate(out);
        str_addf(out, "{\"ph\":\"M\",\"pid\":%u,", pid);
        if (tid)
            str_addf(out, "\"tid\":%" PRIu64 ",", tid);
        str_addf(out, "\"name\":\"%s_%s\",\"args\":{", what, i ? "sort_index" : "name");
        if (i) {
            str_addf(out, "\"sort_index\":%zu}}", order);
        } else {
            str_add(out, "\"name\":");
            form_add_text(out, name);
            str_add_n(out, str_text(more), more->length);
            str_add(out, "}}");
        }
    }
}

static int put_plane(struct form_texts *t, struct str *out, struct error *err)
{
    const struct form_plane *p = t->plane;
    struct str *more = &t->text;
    bool any = true;
    int rc = 0;
    str_clear(more);
    str_add(more, ",\"plane_id\":");
    form_add_exact(more, p->plane->id);
    str_add(more, ",\"host\":");
    str_add_json(more, p->file->host, strlen(p->file->host));
    if (p->start_ns) {
        str_add(more, ",\"profile_start_time\":");
        form_add_exact(more, p->start_ns);
    }
    for (size_t i = 0; i < p->plane->n_stats && !rc; i++) {
        struct xstat s;
        xstat_read(&s, p->plane, p->plane->stats[i]);
        if (s.kind != XSTAT_BYTES)
            rc = form_add_stat(t, more, &s, &any, err);
    }
    named(out, "process", p->pid, 0, p->name, p->pid, more);
    return rc ? rc : str_check(more, err);
}

static int put_track(struct form_texts *t, const struct form_track *track, struct str *out, struct error *err)
{
    struct str *more = &t->text;
    str_clear(more);
    if (!track->line) {
        str_add(more, ",\"derived\":true");
    } else {
        str_add(more, ",\"line_id\":");
        form_add_exact(more, track->line->id);
        if (!slice_equal(track->line->name, track->name)) {
            str_add(more, ",\"line\":");
            form_add_text(more, track->line->name);
        }
    }
    named(out, "thread", t->plane->pid, track->id, track->name, track->order, more);
    return str_check(more, err);
}

// {"ph":"?","pid":?,"tid":?,"ts":?
static void add_head(struct str *out, char phase, const struct form_op *op)
{
    char head[] = ",\n{\"ph\":\"?\",\"pid\":";
    head[9] = phase;
    str_add_n(out, head, sizeof head - 1);
    form_add_uint(out, op->track->plane->pid);
    if (phase != 'C') {
        str_add_n(out, ",\"tid\":", 7);
        form_add_uint(out, op->track->id);
    }
    str_add_n(out, ",\"ts\":", 6);
    add_us(out, op->ps);
}

static void put_flow(const struct form_op *op, const struct flow *flow, struct str *out)
{
    bool in = flow->way == FLOW_IN;
    add_head(out, in ? 'f' : 's', op);
    str_addf(out, ",\"id\":\"0x%" PRIx64 "\",\"cat\":\"flow\",\"name\":\"flow\"%s}", flow->id,
             in ? ",\"bp\":\"e\"" : "");
}

static struct slice keep(struct form_texts *t, struct error *err)
{
    struct slice s = {(const uint8_t *)arena_strndup(&t->arena, str_text(&t->text), t->text.length, err),
                      t->text.length};
    return s;
}

static int make_row(struct form_texts *t, const struct xmeta *row, struct form_row_text *out, struct error *err)
{
    bool any = false;
    str_clear(&t->text);
    str_add(&t->text, "\"name\":");
    form_add_text(&t->text, form_short_name(row));
    out->name = keep(t, err);
    str_clear(&t->text);
    if (row->display_name.size && row->name.size) {
        str_add(&t->text, "\"long_name\":");
        form_add_text(&t->text, row->name);
        any = true;
    }
    int rc = form_add_args(t, &t->text, xmeta_stats(t->plane->plane, row), &any, err);
    out->args = keep(t, err);
    if (!rc)
        rc = out->name.data && out->args.data ? str_check(&t->text, err) : ERR_MEMORY;
    return rc;
}

static void find_flow(struct flow *flow, const struct form_texts *t, const struct form_op *op)
{
    const struct flow_ids *ids = &t->plane->flows;
    struct pb_reader stats = pb_reader(op->text.data, op->text.size);
    struct pb_field s, id, v;
    while (pb_next(&stats, &s)) {
        struct pb_reader r = pb_reader(s.body.data, s.body.size);
        if (pb_is(&s, 4, PB_BYTES) && pb_next(&r, &id) && pb_is(&id, 1, PB_VARINT) && pb_next(&r, &v) &&
            v.wire == PB_VARINT)
            flow_see(flow, ids, (int64_t)id.value, v.value);
    }
    flow_end(flow, ids);
}

static int begin(struct form_texts *t, const struct form_op *op, struct str *out, struct error *err)
{
    struct form_row_text *row = op->row ? &t->rows[op->row - t->plane->plane->event_table.rows] : NULL;
    struct flow flow = {0};
    int rc = row && !row->name.data ? make_row(t, op->row, row, err) : 0;
    bool any = row && row->args.size;
    if (rc)
        return rc;
    add_head(out, 'X', op);
    str_add_n(out, ",\"dur\":", 7);
    add_us(out, op->duration_ps);
    str_add_char(out, ',');
    if (row) {
        str_add_n(out, row->name.data, row->name.size);
    } else {
        str_add(out, "\"name\":");
        form_add_text(out, op->derived ? op->text : (struct slice){0});
    }
    str_add_n(out, ",\"args\":{", 9);
    if (any)
        str_add_n(out, row->args.data, row->args.size);
    if (!op->derived) {
        const struct xevent e = {.stats = op->text};
        rc = form_add_args(t, out, xevent_stats(t->plane->plane, &e), &any, err);
    }
    if (op->ps > EXACT_PS - op->duration_ps || op->ps < -EXACT_PS)
        str_addf(out, "%s\"start_ps\":\"%" PRId64 "\",\"duration_ps\":\"%" PRId64 "\"", any ? "," : "", op->ps,
                 op->duration_ps);
    str_add_n(out, "}}", 2);
    if (t->plane->flows.any && !op->derived)
        find_flow(&flow, t, op);
    if (flow.way)
        put_flow(op, &flow, out);
    return rc;
}

static void count(const struct form_op *op, struct str *out)
{
    char number[32];
    if (op->value - op->value != 0) // JSON has neither infinities nor NaN
        return;
    json_number(number, op->value);
    add_head(out, 'C', op);
    str_add(out, ",\"name\":");
    form_add_text(out, op->track->name);
    str_addf(out, ",\"args\":{\"value\":%s}}", number);
}

static int op(void *state, const struct form_op *o, struct str *out, struct error *err)
{
    struct form_texts *t = state;
    switch (o->what) {
    case FORM_PLANE:
        return put_plane(t, out, err);
    case FORM_TRACK:
        return o->track->counter ? 0 : put_track(t, o->track, out, err);
    case FORM_BEGIN:
        return begin(t, o, out, err);
    case FORM_COUNT:
        count(o, out);
        break;
    case FORM_END: // never told
        break;
    }
    return 0;
}

static int chunk(void *state, const struct form_chunk *k, struct error *err)
{
    return form_texts_chunk(state, k, err);
}

static void release(void *state)
{
    form_texts_release(state);
}

const struct form *form_chrome(void)
{
    static const struct form form = {.lanes = true,
                                     .counters = true,
                                     .head = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n",
                                     .tail = "\n]}\n",
                                     .state_bytes = sizeof(struct form_texts),
                                     .release = release,
                                     .chunk = chunk,
                                     .op = op};
    return &form;
}
