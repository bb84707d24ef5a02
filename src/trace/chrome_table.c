// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/pbread.h"
#include "base/pbwire.h"
#include "trace/chrome_work.h"

enum {
    KIND_PROCESS = 1,
    KIND_THREAD,
    KIND_LINE,
    KIND_COUNTERS,
    KIND_ASYNC,
    KIND_ASYNC_ID,
    KIND_FLOW,
    KIND_EVENT,
    KIND_STAT,
    KIND_LONG
};
#define OWN_IDS ((int64_t)1 << 62) // of what has none in the file; its place comes on top

void chrome_damage(struct chrome_work *w, const char *where, const char *what, const uint8_t *at)
{
    struct xdamage one = {.what = what, .where = where, .offset = (uint64_t)(at - w->file.data), .count = 1};
    xdamage_add(&w->out->damage, &one);
}

bool chrome_grow(void **array, size_t *cap, size_t n, size_t size, struct error *err)
{
    if (n < *cap)
        return true;
    size_t more = *cap ? 2 * *cap : 256;
    // Places are 32 bits.
    void *p = more < UINT32_MAX ? realloc(*array, more * size) : NULL;
    if (!p) {
        error_set(err, ERR_MEMORY, NULL, "no memory for more than %zu events, names or threads", n);
        return false;
    }
    *array = p;
    *cap = more;
    return true;
}

int chrome_keep(struct chrome_work *w, struct slice *text, struct error *err)
{
    bool in_file = text->data >= w->file.data && text->data <= w->file.data + w->file.size;
    return in_file ? 0 : slice_copy(&w->arena, text, err);
}

struct slice chrome_text(struct chrome_work *w, const struct scan_value *v, int scratch, const char *where)
{
    bool bad = false;
    struct scan_value any = *v;
    any.wide |=
        v->kind == SCAN_OBJECT || v->kind == SCAN_ARRAY; // what is nested stays JSON, and nobody has looked into it
    struct slice s = scan_text(&any, &w->scratch[scratch], &bad);
    if (bad)
        chrome_damage(w, where, "a text is not UTF-8", v->text.data);
    return s;
}

// The number of a text of one kind and plane; UINT32_MAX in *number when it is new: then the caller gives one.
static int find(struct chrome_work *w, uint32_t plane, unsigned kind, struct slice text, uint32_t **number,
                struct error *err)
{
    uint32_t index;
    bool fresh;
    int rc = timeline_texts_put(&w->texts, text, (uint64_t)plane << 8 | kind, &index, &fresh, err);
    if (rc)
        return rc;
    struct timeline_text *item = &w->texts.items[index];
    if (fresh) {
        item->number = CHROME_NONE;
        rc = chrome_keep(w, &item->bytes, err);
    }
    *number = &item->number;
    return rc;
}

// ---- Processes and threads

static bool as_id(struct slice text, int64_t *id)
{
    bool negative;
    uint64_t v;
    if (!scan_integer(text, &negative, &v) || v > INT64_MAX)
        return false;
    *id = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

// What is called by a number only: "thread 7".
static int named(struct chrome_work *w, const char *what, struct slice text, struct slice *name, struct error *err)
{
    int64_t id;
    *name = text;
    if (!as_id(text, &id))
        return chrome_keep(w, name, err);
    char *own = arena_printf(&w->arena, err, "%s %.*s", what, (int)text.size, (const char *)text.data);
    *name = (struct slice){(const uint8_t *)own, own ? strlen(own) : 0};
    return own ? 0 : ERR_MEMORY;
}

int chrome_plane(struct chrome_work *w, struct slice pid, uint32_t *plane, struct error *err)
{
    uint32_t *number;
    int rc = find(w, 0, KIND_PROCESS, pid, &number, err);
    if (rc || *number != CHROME_NONE) {
        *plane = rc ? 0 : *number;
        return rc;
    }
    if (!chrome_grow((void **)&w->planes, &w->cap_planes, w->n_planes, sizeof *w->planes, err))
        return ERR_MEMORY;
    struct chrome_plane *p = &w->planes[w->n_planes];
    *p = (struct chrome_plane){.first_row = {CHROME_NONE, CHROME_NONE}, .last_row = {CHROME_NONE, CHROME_NONE}};
    if (!as_id(pid, &p->id))
        p->id = OWN_IDS + (int64_t)w->n_planes;
    rc = named(w, "process", pid, &p->name, err);
    *plane = *number = (uint32_t)w->n_planes++;
    return rc;
}

// `order` among the plane's lines, as long as the file says nothing.
static int new_line(struct chrome_work *w, uint32_t plane, int64_t order, uint32_t *number, struct error *err)
{
    if (!chrome_grow((void **)&w->lines, &w->cap_lines, w->n_lines, sizeof *w->lines, err))
        return ERR_MEMORY;
    uint32_t line = (uint32_t)w->n_lines++;
    w->lines[line] = (struct chrome_line){.plane = plane, .into = line, .id = OWN_IDS + line, .order = order};
    *number = line;
    return 0;
}

int chrome_thread(struct chrome_work *w, uint32_t plane, struct slice tid, uint32_t *line, struct error *err)
{
    uint32_t *number;
    int rc = find(w, plane, KIND_THREAD, tid, &number, err);
    if (!rc && *number == CHROME_NONE) {
        rc = new_line(w, plane, 0, number, err);
        if (!rc) {
            struct chrome_line *l = &w->lines[*number];
            if (!as_id(tid, &l->id))
                l->id = OWN_IDS + *number;
            rc = named(w, "thread", tid, &l->name, err);
        }
    }
    *line = rc ? 0 : *number;
    return rc;
}

// The key of two texts, in SCRATCH_KEY.
static int pair(struct chrome_work *w, struct slice a, struct slice b, struct slice *key, struct error *err)
{
    struct str *both = &w->scratch[SCRATCH_KEY];
    str_clear(both);
    str_add_n(both, a.data, a.size);
    str_add_char(both, '\0');
    str_add_n(both, b.data, b.size);
    *key = (struct slice){(const uint8_t *)str_text(both), both->length};
    return str_check(both, err);
}

int chrome_track(struct chrome_work *w, uint32_t line, struct slice name, struct slice id, struct error *err)
{
    struct chrome_line *l = &w->lines[line];
    struct slice key;
    uint32_t *number;
    if (l->first || l->into != line) // so that nothing leads in a circle
        return 0;
    int rc = pair(w, name, id, &key, err);
    if (!rc)
        rc = find(w, l->plane, KIND_LINE, key, &number, err);
    if (rc)
        return rc;
    l->first = *number == CHROME_NONE;
    if (l->first)
        *number = line;
    l->into = *number;
    return 0;
}

int chrome_counters(struct chrome_work *w, uint32_t plane, uint32_t *line, struct error *err)
{
    static const uint8_t name[] = "_counters_"; // what XLA calls such a line, and its id
    uint32_t *number;
    int rc = find(w, plane, KIND_COUNTERS, (struct slice){NULL, 0}, &number, err);
    if (!rc && *number == CHROME_NONE) {
        rc = new_line(w, plane, INT64_MAX, number, err);
        if (!rc) {
            w->lines[*number].name = (struct slice){name, sizeof name - 1};
            w->lines[*number].id = INT64_MAX;
        }
    }
    *line = rc ? 0 : *number;
    return rc;
}

int chrome_async(struct chrome_work *w, uint32_t plane, struct slice category, struct slice id, uint32_t *line,
                 struct error *err)
{
    struct str *key = &w->scratch[SCRATCH_KEY];
    uint32_t *number;
    int rc = find(w, plane, KIND_ASYNC, category, &number, err);
    if (!rc && *number == CHROME_NONE) {
        rc = new_line(w, plane, INT64_MAX, number, err);
        char *name = rc ? NULL
                        : arena_printf(&w->arena, err, "Async%s%.*s", category.size ? " " : "",
                                       category.size < 4096 ? (int)category.size : 4096, (const char *)category.data);
        if (!name)
            return ERR_MEMORY;
        w->lines[*number].name = (struct slice){(const uint8_t *)name, strlen(name)};
    }
    if (rc)
        return rc;
    uint32_t into = *number;
    str_clear(key);
    str_add_n(key, &into, sizeof into);
    str_add_n(key, id.data, id.size);
    rc = str_check(key, err);
    if (!rc)
        rc = find(w, plane, KIND_ASYNC_ID, (struct slice){(const uint8_t *)str_text(key), key->length}, &number, err);
    if (!rc && *number == CHROME_NONE) {
        rc = new_line(w, plane, INT64_MAX, number, err);
        if (!rc)
            w->lines[*number].into = into;
    }
    *line = rc ? 0 : *number;
    return rc;
}

int chrome_flow_id(struct chrome_work *w, struct slice category, struct slice id, uint64_t *out, struct error *err)
{
    struct slice key;
    uint32_t *number;
    int rc = pair(w, category, id, &key, err);
    if (!rc)
        rc = find(w, 0, KIND_FLOW, key, &number, err);
    if (rc)
        return rc;
    if (*number == CHROME_NONE)
        *number = ++w->n_flow_ids;
    *out = *number;
    return 0;
}

// ---- Rows

// Statistics that analyses read as numbers. XLA's own writer of JSON makes texts of all arguments.
static bool is_number(struct slice name)
{
    static const char *const names[] = {"program_id",
                                        "symbol_id",
                                        "flops",
                                        "model_flops",
                                        "bytes_accessed",
                                        "raw_bytes_accessed",
                                        "device_offset_ps",
                                        "device_duration_ps",
                                        "step_num",
                                        "run_id",
                                        "correlation_id",
                                        "flow",
                                        "_p",
                                        "_c",
                                        "_pt",
                                        "_ct",
                                        "_r",
                                        "_a"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (slice_is(name, names[i]))
            return true;
    }
    return false;
}

static const char *const of_operations[] = {
    "hlo_category",           "program_id", "symbol_id",         "flops",  "model_flops",  "bytes_accessed",
    "raw_bytes_accessed",     "tf_op",      "shape_with_layout", "source", "source_stack", "deduplicated_name",
    "memory_access_breakdown"};

static int add_row(struct chrome_work *w, uint32_t plane, int table, struct chrome_row row, uint32_t *number,
                   struct error *err)
{
    if (!chrome_grow((void **)&w->rows, &w->cap_rows, w->n_rows, sizeof *w->rows, err))
        return ERR_MEMORY;
    int rc = chrome_keep(w, &row.name, err);
    if (!rc)
        rc = chrome_keep(w, &row.display_name, err);
    if (!rc && row.stats.size)
        rc = slice_copy(&w->arena, &row.stats, err);
    struct chrome_plane *p = &w->planes[plane];
    row.id = ++p->n_rows[table];
    row.next = CHROME_NONE;
    row.numeric = table == 1 && is_number(row.name);
    for (size_t i = 0; table == 1 && i < sizeof of_operations / sizeof *of_operations; i++) {
        if (slice_is(row.name, of_operations[i]))
            p->of_operations[i] = row.id;
    }
    *number = (uint32_t)w->n_rows++;
    w->rows[*number] = row;
    *(p->first_row[table] == CHROME_NONE ? &p->first_row[table] : &w->rows[p->last_row[table]].next) = *number;
    p->last_row[table] = *number;
    return rc;
}

int chrome_row(struct chrome_work *w, uint32_t plane, int table, struct slice name, struct slice display_name,
               uint32_t *row, struct error *err)
{
    struct slice key = name;
    uint32_t *number;
    int rc = display_name.size ? pair(w, display_name, name, &key, err) : 0;
    if (rc)
        return rc;
    unsigned kind = display_name.size ? KIND_LONG : table ? KIND_STAT : KIND_EVENT;
    rc = find(w, plane, kind, key, &number, err);
    if (!rc && *number == CHROME_NONE)
        rc = add_row(w, plane, table, (struct chrome_row){.name = name, .display_name = display_name}, number, err);
    *row = rc ? 0 : *number;
    return rc;
}

// The next of the messages that put_stat has written: tag, length in one byte, tag of the id, id.
static size_t next_stat(const uint8_t *at, uint64_t *id)
{
    (void)pb_get_varint(at + 3, at + 2 + at[1], id);
    return 2 + (size_t)at[1];
}

static bool is_operation(const struct chrome_plane *p, const uint8_t *at, const uint8_t *end)
{
    uint64_t id = 0;
    while (at < end && p->of_operations[0]) {
        at += next_stat(at, &id);
        if (id == p->of_operations[0])
            return true;
    }
    return false;
}

int chrome_operation(struct chrome_work *w, uint32_t plane, struct slice name, struct slice display_name, size_t before,
                     uint32_t *row, struct error *err)
{
    const struct chrome_plane *p = &w->planes[plane];
    struct str *stats = &w->scratch[SCRATCH_WHOLE];
    if (w->stats.length == before)
        return chrome_row(w, plane, 0, name, display_name, row, err);
    uint8_t *at = (uint8_t *)w->stats.text + before, *end = (uint8_t *)w->stats.text + w->stats.length, *to = at;
    if (!is_operation(p, at, end))
        return chrome_row(w, plane, 0, name, display_name, row, err);
    str_clear(stats);
    while (at < end) {
        uint64_t id = 0;
        bool once = false;
        size_t n = next_stat(at, &id);
        for (size_t i = 0; i < sizeof of_operations / sizeof *of_operations; i++)
            once |= id && id == p->of_operations[i];
        if (once) {
            str_add_char(stats, 5 << 3 | PB_BYTES);
            str_add_n(stats, at + 1, n - 1);
        } else {
            memmove(to, at, n);
            to += n;
        }
        at += n;
    }
    w->stats.length = (size_t)(to - (uint8_t *)w->stats.text);
    struct slice key;
    uint32_t *number;
    int rc = pair(w, display_name, name, &key, err);
    if (rc)
        return rc;
    str_add_char(&w->scratch[SCRATCH_KEY], '\0');
    str_add_n(&w->scratch[SCRATCH_KEY], str_text(stats), stats->length);
    key = (struct slice){(const uint8_t *)str_text(&w->scratch[SCRATCH_KEY]), w->scratch[SCRATCH_KEY].length};
    rc = str_check(&w->scratch[SCRATCH_KEY], err);
    if (!rc)
        rc = str_check(stats, err);
    if (!rc)
        rc = find(w, plane, KIND_LONG, key, &number, err);
    if (!rc && *number == CHROME_NONE)
        rc = add_row(w, plane, 0,
                     (struct chrome_row){.name = name,
                                         .display_name = display_name,
                                         .stats = {(const uint8_t *)str_text(stats), stats->length}},
                     number, err);
    *row = rc ? 0 : *number;
    return rc;
}

// ---- Arguments

#define JSON_EXACT ((uint64_t)1 << 53) // larger integers are written as texts

static void put_stat(struct chrome_work *w, uint32_t field, uint32_t id, uint32_t kind, uint64_t v)
{
    uint8_t bytes[40], body[24];
    uint8_t *at = pb_varint_at(body, 1 << 3 | PB_VARINT);
    at = pb_varint_at(at, id);
    at = pb_varint_at(at, kind << 3 | (kind == 2 ? PB_FIXED64 : PB_VARINT));
    if (kind == 2) {
        memcpy(at, &v, 8);
        at += 8;
    } else {
        at = pb_varint_at(at, v);
    }
    uint8_t *head = pb_varint_at(bytes, field << 3 | PB_BYTES);
    *head++ = (uint8_t)(at - body);
    memcpy(head, body, (size_t)(at - body));
    str_add_n(&w->stats, bytes, (size_t)(head - bytes) + (size_t)(at - body));
}

static void put_integer(struct chrome_work *w, uint32_t field, uint32_t id, bool negative, uint64_t v)
{
    if (negative)
        put_stat(w, field, id, 4, 0 - v);
    else
        put_stat(w, field, id, v > INT64_MAX ? 3 : 4, v);
}

static void put_double(struct chrome_work *w, uint32_t field, uint32_t id, struct slice digits)
{
    char text[400];
    double v = 0;
    if (digits.size >= sizeof text)
        return;
    memcpy(text, digits.data, digits.size);
    text[digits.size] = '\0';
    v = strtod(text, NULL); // NaN and Infinity too
    uint64_t bits;
    memcpy(&bits, &v, 8);
    put_stat(w, field, id, 2, bits);
}

static bool joins(struct slice key)
{
    return slice_is(key, "correlation_id") || slice_is(key, "_p") || slice_is(key, "_c") || slice_is(key, "flow");
}

static int put_value(struct chrome_work *w, uint32_t plane, uint32_t field, uint32_t row, const struct scan_value *v,
                     bool *joined, struct error *err)
{
    bool negative = false, numeric = w->rows[row].numeric, quoted = v->kind == SCAN_TEXT;
    uint32_t id = w->rows[row].id, text;
    uint64_t magnitude = 0;
    if ((v->kind == SCAN_NUMBER || quoted) && scan_integer(v->text, &negative, &magnitude) &&
        (!quoted || numeric || magnitude >= JSON_EXACT)) {
        put_integer(w, field, id, negative, magnitude);
        *joined |= numeric && magnitude && joins(w->rows[row].name);
        return 0;
    }
    switch (v->kind) {
    case SCAN_NONE:
    case SCAN_NULL:
        return 0;
    case SCAN_TRUE:
    case SCAN_FALSE:
        put_stat(w, field, id, 3, v->kind == SCAN_TRUE);
        return 0;
    case SCAN_NUMBER:
        put_double(w, field, id, v->text);
        return 0;
    case SCAN_TEXT:
    case SCAN_OBJECT:
    case SCAN_ARRAY:
        break;
    }
    int rc = chrome_row(w, plane, 1, chrome_text(w, v, SCRATCH_VALUE, "traceEvents.args"), (struct slice){NULL, 0},
                        &text, err);
    if (!rc)
        put_stat(w, field, id, 7, w->rows[text].id);
    return rc;
}

int chrome_stat(struct chrome_work *w, uint32_t plane, uint32_t field, struct slice name, const struct scan_value *v,
                bool *joined, struct error *err)
{
    uint32_t row;
    int rc = chrome_row(w, plane, 1, name, (struct slice){NULL, 0}, &row, err);
    return rc ? rc : put_value(w, plane, field, row, v, joined, err);
}

static struct chrome_wanted *find_wanted(struct chrome_wanted *wanted, size_t n, const struct scan_value *key)
{
    for (size_t i = 0; i < n; i++) {
        if (scan_is(key, wanted[i].key))
            return &wanted[i];
    }
    return NULL;
}

int chrome_args(struct chrome_work *w, uint32_t plane, uint32_t field, const struct scan_value *object,
                struct chrome_wanted *wanted, size_t n_wanted, bool *joined, struct error *err)
{
    struct json_scan s = json_scan(object->text.data, object->text.size);
    struct scan_value key, v;
    int rc = 0;
    if (object->kind == SCAN_NONE || object->kind == SCAN_NULL)
        return 0;
    if (object->kind != SCAN_OBJECT) {
        chrome_damage(w, "traceEvents.args", "is no object", object->text.data);
        return 0;
    }
    if (!scan_value(&s, &v))
        return 0;
    for (bool first = true; !rc && scan_member(&s, &key, first); first = false) {
        if (!scan_whole(&s, &v))
            break;
        struct chrome_wanted *taken = find_wanted(wanted, n_wanted, &key);
        if (taken)
            taken->value = v;
        else
            rc = chrome_stat(w, plane, field, chrome_text(w, &key, SCRATCH_VALUE, "traceEvents.args"), &v, joined, err);
    }
    return rc ? rc : str_check(&w->stats, err);
}

int chrome_stat_id(struct chrome_work *w, uint32_t plane, const char *name, uint32_t *id, struct error *err)
{
    uint32_t row;
    struct slice text = {(const uint8_t *)name, strlen(name)};
    int rc = chrome_row(w, plane, 1, text, (struct slice){NULL, 0}, &row, err);
    *id = rc ? 0 : w->rows[row].id;
    return rc;
}

int chrome_stat_text(struct chrome_work *w, uint32_t plane, const char *name, struct slice text, struct error *err)
{
    uint32_t id, row;
    int rc = chrome_stat_id(w, plane, name, &id, err);
    if (!rc)
        rc = chrome_row(w, plane, 1, text, (struct slice){NULL, 0}, &row, err);
    if (!rc)
        put_stat(w, 4, id, 7, w->rows[row].id);
    return rc;
}

int chrome_stat_number(struct chrome_work *w, uint32_t plane, const char *name, uint64_t v, struct error *err)
{
    uint32_t id;
    int rc = chrome_stat_id(w, plane, name, &id, err);
    if (!rc)
        put_stat(w, 4, id, 3, v);
    return rc;
}
