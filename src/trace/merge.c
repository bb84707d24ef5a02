// SPDX-License-Identifier: Apache-2.0
#include "trace/merge.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/idmap.h"
#include "base/interrupt.h"
#include "base/pbwire.h"
#include "trace/xspace_write.h"

#define PLANE_IDS 100000 // of one host: those of the next begin there

struct merge {
    struct trace *t;
    struct sink *out;
    struct trace_merged *done;
    struct trace_epoch *epochs;
    size_t earliest;      // the file whose start is the whole's
    size_t file;          // that is being written
    int tpus, gpus;       // numbers given to the files before
    int max_tpu, max_gpu; // the highest of this one
    struct str head, programs;
    struct idmap program_ids;
    int64_t max_stat; // of the plane with the programs
};

// ---- Names

// "/device:TPU:1 SparseCore 0" of the second host of four devices each becomes "/device:TPU:5 SparseCore 0".
static void device_name(struct merge *m, struct slice name, const char *prefix, int before, int *highest,
                        struct str *out)
{
    size_t at = strlen(prefix);
    int v = 0, digits = 0;
    for (; at < name.size && isdigit(name.data[at]) && digits < 6; at++, digits++)
        v = v * 10 + (name.data[at] - '0');
    if (digits) {
        *highest = v > *highest ? v : *highest;
        str_addf(out, "%s%d", prefix, v + before);
    } else {
        str_add(out, prefix);
    }
    str_add_n(out, name.data + at, name.size - at);
    if (!digits && m->file)
        str_addf(out, " [%s]", m->t->files[m->file].host);
}

static void plane_name(struct merge *m, struct slice name, struct str *out)
{
    if (slice_starts_with(name, "/device:TPU:")) {
        device_name(m, name, "/device:TPU:", m->tpus, &m->max_tpu, out);
    } else if (slice_starts_with(name, "/device:GPU:")) {
        device_name(m, name, "/device:GPU:", m->gpus, &m->max_gpu, out);
    } else {
        str_add_n(out, name.data, name.size);
        if (m->file)
            str_addf(out, " [%s]", m->t->files[m->file].host);
    }
}

// ---- Programs: one plane with those of all hosts, since readers look at one

static int add_programs(struct merge *m, const struct xplane *p, struct error *err)
{
    const int64_t before = m->max_stat;
    struct str *s = &m->programs;
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        const struct xmeta *row = &p->stat_table.rows[i];
        int64_t id = 0;
        if (row->id < 0 || __builtin_add_overflow(row->id, before, &id))
            continue;
        m->max_stat = id > m->max_stat ? id : m->max_stat;
        xwrite_row(s, XPLANE_STAT_NAME, id, row->name, (struct slice){NULL, 0});
    }
    for (size_t i = 0; i < p->event_table.n_rows; i++) {
        const struct xmeta *row = &p->event_table.rows[i];
        struct pb_reader r = pb_reader(row->message.data, row->message.size);
        struct pb_field f, g;
        bool again;
        int rc = idmap_put(&m->program_ids, row->id, 0, &again, err);
        if (rc)
            return rc;
        if (again) // all hosts run the same program
            continue;
        size_t entry = pb_begin(s, XPLANE_EVENT_NAME);
        pb_put_int(s, 1, row->id);
        size_t value = pb_begin(s, 2);
        for (const uint8_t *from = r.at; pb_next(&r, &f) && !r.damage; from = r.at) {
            if (!pb_is(&f, 5, PB_BYTES)) {
                str_add_n(s, from, (size_t)(r.at - from));
                continue;
            }
            size_t stat = pb_begin(s, 5);
            struct pb_reader q = pb_reader(f.body.data, f.body.size);
            for (const uint8_t *begin = q.at; pb_next(&q, &g) && !q.damage; begin = q.at) {
                if (g.wire == PB_VARINT && (g.number == 1 || g.number == 7)) // an id, a reference
                    pb_put_int(s, g.number, (int64_t)(g.value + (uint64_t)before));
                else
                    str_add_n(s, begin, (size_t)(q.at - begin));
            }
            pb_end(s, stat);
        }
        pb_end(s, value);
        pb_end(s, entry);
    }
    return str_check(s, err);
}

// ---- Planes

static void put_head(struct merge *m, uint32_t field, uint64_t size)
{
    str_clear(&m->head);
    pb_put_tag(&m->head, field, PB_BYTES);
    pb_put_varint(&m->head, size);
    sink_put(m->out, m->head.text, m->head.length);
}

static size_t head_size(struct merge *m, uint32_t field, uint64_t size)
{
    str_clear(&m->head);
    pb_put_tag(&m->head, field, PB_BYTES);
    pb_put_varint(&m->head, size);
    return m->head.length;
}

// All fields of a message but those numbered `a` and `b`, as they lie: their size, and to the file with `write`. Fields
// that lie together go together.
static size_t copy_fields(struct merge *m, struct slice body, uint32_t a, uint32_t b, uint32_t c, bool write)
{
    struct pb_reader r = pb_reader(body.data, body.size);
    struct pb_field f;
    const uint8_t *run = r.at;
    size_t size = 0;
    for (const uint8_t *from = r.at; pb_next(&r, &f); from = r.at) {
        bool skip = f.number == a || f.number == b || f.number == c || r.damage;
        if (!skip)
            continue;
        size += (size_t)(from - run);
        if (write)
            sink_put(m->out, run, (size_t)(from - run));
        run = r.at;
        if (r.damage)
            return size;
    }
    const uint8_t *end = r.damage ? r.damaged : r.at;
    if (end > run) {
        size += (size_t)(end - run);
        if (write)
            sink_put(m->out, run, (size_t)(end - run));
    }
    return size;
}

static int line_time(const struct merge *m, int64_t timestamp_ns, int64_t *out, struct error *err)
{
    const struct trace_epoch *e = &m->epochs[m->file];
    int64_t shift = (e->shift_ps + (e->shift_ps < 0 ? -500 : 500)) / 1000;
    if (__builtin_sub_overflow(timestamp_ns, e->origin_ns, out) || __builtin_add_overflow(*out, shift, out))
        return error_set(err, ERR_INPUT, m->t->files[m->file].path, "a line's time leaves 64 bits when it is shifted");
    return 0;
}

static int64_t timestamp_of(struct slice line)
{
    struct pb_reader r = pb_reader(line.data, line.size);
    struct pb_field f;
    int64_t v = 0;
    while (pb_next(&r, &f)) {
        if (pb_is(&f, 3, PB_VARINT))
            v = (int64_t)f.value;
    }
    return v;
}

// The plane's size, and the plane itself with `write`.
static int plane_lines(struct merge *m, struct slice body, bool write, size_t *size, struct error *err)
{
    struct pb_reader r = pb_reader(body.data, body.size);
    struct pb_field f;
    int rc = 0;
    while (!rc && pb_next(&r, &f)) {
        if (!pb_is(&f, XPLANE_LINE, PB_BYTES))
            continue;
        int64_t ns = 0;
        struct str time;
        rc = line_time(m, timestamp_of(f.body), &ns, err);
        str_init(&time);
        if (ns)
            pb_put_int(&time, 3, ns);
        size_t line = copy_fields(m, f.body, 3, 3, 3, false) + time.length;
        *size += head_size(m, XPLANE_LINE, line) + line;
        if (write && !rc) {
            put_head(m, XPLANE_LINE, line);
            sink_put(m->out, str_text(&time), time.length);
            copy_fields(m, f.body, 3, 3, 3, true);
        }
        str_release(&time);
    }
    return rc;
}

static int put_plane(struct merge *m, const struct xplane *p, struct slice body, struct error *err)
{
    struct str front;
    int64_t id;
    str_init(&front);
    if (__builtin_add_overflow(p->id, (int64_t)m->file * PLANE_IDS, &id))
        id = p->id;
    pb_put_int(&front, XPLANE_ID, id);
    size_t name = pb_begin(&front, XPLANE_NAME);
    plane_name(m, p->name, &front);
    pb_end(&front, name);
    size_t size = front.length + copy_fields(m, body, XPLANE_ID, XPLANE_NAME, XPLANE_LINE, false);
    int rc = str_check(&front, err);
    if (!rc)
        rc = plane_lines(m, body, false, &size, err);
    if (!rc) {
        put_head(m, XSPACE_PLANE, size);
        sink_put(m->out, front.text, front.length);
        copy_fields(m, body, XPLANE_ID, XPLANE_NAME, XPLANE_LINE, true);
        rc = plane_lines(m, body, true, &size, err);
        m->done->planes++;
        m->done->devices += slice_starts_with(p->name, "/device:TPU:") || slice_starts_with(p->name, "/device:GPU:");
    }
    str_release(&front);
    return rc;
}

static int merge_file(struct merge *m, struct trace_file *f, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &f->map))
        return file_guard_error(&g, err);
    struct pb_reader r = pb_reader(f->space.bytes.data, f->space.bytes.size);
    struct pb_field field;
    size_t next = 0;
    int rc = 0;
    m->max_tpu = m->max_gpu = -1;
    while (!rc && pb_next(&r, &field)) {
        if (field.wire != PB_BYTES)
            continue;
        if (field.number == XSPACE_PLANE && next < f->space.n_planes) {
            const struct xplane *p = &f->space.planes[next++];
            if (slice_is(p->name, "/host:metadata"))
                rc = add_programs(m, p, err);
            else if (!slice_is(p->name, "Task Environment") || m->file == m->earliest)
                rc = put_plane(m, p, field.body, err);
        } else if (field.number >= XSPACE_ERROR && field.number <= XSPACE_WARNING) {
            put_head(m, field.number, field.body.size);
            sink_put(m->out, field.body.data, field.body.size);
        }
        if (!rc)
            rc = m->out->rc ? m->out->rc : interrupt_check("merging profiles", err);
    }
    for (size_t i = 0; i < f->space.n_planes && !rc; i++) {
        for (size_t k = 0; k < f->space.planes[i].n_lines; k++) {
            struct xevents walk = xline_events(&f->space.planes[i].lines[k]);
            struct xevent e;
            m->done->lines++;
            while (xevent_next(&walk, &e))
                m->done->events++;
            xevents_damage(&f->space, &walk, &f->space.damage);
        }
    }
    file_guard_end(&g);
    m->tpus += m->max_tpu + 1;
    m->gpus += m->max_gpu + 1;
    return rc;
}

static void put_programs(struct merge *m)
{
    struct str name;
    if (!m->programs.length)
        return;
    str_init(&name);
    pb_put_string(&name, XPLANE_NAME, "/host:metadata");
    put_head(m, XSPACE_PLANE, name.length + m->programs.length);
    sink_put(m->out, str_text(&name), name.length);
    sink_put(m->out, m->programs.text, m->programs.length);
    str_release(&name);
    m->done->planes++;
}

int trace_merge(struct trace *t, struct sink *out, struct trace_merged *done, struct error *err)
{
    struct merge m = {.t = t, .out = out, .done = done};
    *done = (struct trace_merged){0};
    str_init(&m.head);
    str_init(&m.programs);
    idmap_init(&m.program_ids);
    int rc = trace_epochs(t, &m.epochs, err);
    done->epochs = m.epochs;
    for (size_t i = 1; i < t->n_files && !rc; i++) {
        if (m.epochs[i].start_ns && m.epochs[i].start_ns < m.epochs[m.earliest].start_ns)
            m.earliest = i;
    }
    for (; m.file < t->n_files && !rc; m.file++)
        rc = merge_file(&m, &t->files[m.file], err);
    if (!rc)
        put_programs(&m);
    for (size_t i = 0; i < t->n_files && !rc; i++) {
        put_head(&m, XSPACE_HOST, strlen(t->files[i].host));
        sink_text(out, t->files[i].host);
    }
    idmap_release(&m.program_ids);
    str_release(&m.programs);
    str_release(&m.head);
    return rc;
}
