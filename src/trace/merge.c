// SPDX-License-Identifier: Apache-2.0
#include "trace/merge.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/idmap.h"
#include "base/interrupt.h"
#include "base/pbwire.h"
#include "trace/merge_programs.h"
#include "trace/timeline_texts.h"
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
    struct merge_programs numbers;
    struct idmap program_ids;         // of the plane with the programs: rows that are taken
    struct timeline_texts stat_names; // of that plane: the id is the place, from 1 on
    struct idmap stat_ids;            // from this file's to those
    uint64_t next_row;                // for a row whose id is taken
    bool renumber;                    // this file has programs with other numbers
    int64_t program_stat;             // the id of "program_id" in the plane that is being copied
    struct str changed;               // an event or a row
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

// ---- Programs with other numbers

static uint64_t new_number(const struct merge *m, uint64_t id)
{
    const struct merge_program *p = m->renumber ? merge_programs_at(&m->numbers, m->file, id) : NULL;
    return p ? p->becomes : id;
}

static void find_program_stat(struct merge *m, const struct xplane *p)
{
    m->program_stat = 0;
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        if (slice_is(p->stat_table.rows[i].name, "program_id"))
            m->program_stat = p->stat_table.rows[i].id;
    }
}

// A statistic; with `moved`, in the plane with the programs: an id that leads nowhere is 0 there.
static void put_stat(const struct merge *m, struct slice body, uint32_t field, bool moved, struct str *out)
{
    struct pb_reader r = pb_reader(body.data, body.size), ids = r;
    struct pb_field f;
    bool program = false;
    while (m->program_stat && pb_next(&ids, &f)) {
        if (pb_is(&f, 1, PB_VARINT))
            program = (int64_t)f.value == m->program_stat;
    }
    size_t stat = pb_begin(out, field);
    for (const uint8_t *from = r.at; pb_next(&r, &f) && !r.damage; from = r.at) {
        uint32_t id = 0;
        if (moved && f.wire == PB_VARINT && (f.number == 1 || f.number == 7)) // an id, a reference
            pb_put_uint(out, f.number, idmap_get(&m->stat_ids, (int64_t)f.value, &id) ? id : 0);
        else if (f.wire == PB_VARINT && (f.number == 3 || f.number == 4) && program)
            pb_put_uint(out, f.number, new_number(m, f.value));
        else
            str_add_n(out, from, (size_t)(r.at - from));
    }
    pb_end(out, stat);
}

// "jit_f(5)", when that is a program of the file.
static void put_name(const struct merge *m, uint32_t field, struct slice name, struct str *out)
{
    struct slice module;
    uint64_t id = 0;
    const struct merge_program *p =
        trace_program_split(name, &module, &id) ? merge_programs_at(&m->numbers, m->file, id) : NULL;
    if (!p || p->becomes == id || !slice_equal(p->name, module)) {
        pb_put_bytes(out, field, name.data, name.size);
        return;
    }
    size_t text = pb_begin(out, field);
    str_add_n(out, module.data, module.size);
    str_addf(out, "(%" PRIu64 ")", p->becomes);
    pb_end(out, text);
}

// An event (its statistics are fields 4) or a row of a table of events (fields 5, and its names are rewritten too).
// What has moved to another plane has another id, which the caller writes.
static void put_renumbered(const struct merge *m, struct slice body, uint32_t stats, bool moved, struct str *out)
{
    struct pb_reader r = pb_reader(body.data, body.size);
    struct pb_field f;
    for (const uint8_t *from = r.at; pb_next(&r, &f) && !r.damage; from = r.at) {
        if (pb_is(&f, stats, PB_BYTES))
            put_stat(m, f.body, stats, moved, out);
        else if (stats == 5 && m->renumber && (pb_is(&f, 2, PB_BYTES) || pb_is(&f, 4, PB_BYTES)))
            put_name(m, f.number, f.body, out);
        else if (f.number != 1 || !moved)
            str_add_n(out, from, (size_t)(r.at - from));
    }
}

// ---- Programs: one plane with those of all hosts, since readers look at one

// A row that no other has.
static int take_row(struct merge *m, uint64_t wanted, bool *again, uint64_t *row, struct error *err)
{
    int rc = idmap_put(&m->program_ids, (int64_t)wanted, 0, again, err);
    *row = wanted;
    for (bool taken = *again && !rc; taken && !rc;) {
        *row = m->next_row++;
        rc = idmap_put(&m->program_ids, (int64_t)*row, 0, &taken, err);
    }
    return rc;
}

static int add_program(struct merge *m, const struct xplane *p, const struct xmeta *row, struct error *err)
{
    struct trace_program one = {.file = &m->t->files[m->file]};
    uint64_t id = (uint64_t)row->id, fresh;
    bool again;
    trace_program_entry(p, row, &one);
    const struct merge_program *known = one.proto.size ? merge_programs_at(&m->numbers, m->file, one.id) : NULL;
    if (known && known->owner != m->file) // another host runs the same program
        return 0;
    if (known && id == known->id)
        id = known->becomes;
    int rc = take_row(m, id, &again, &fresh, err);
    if (rc || (again && !known)) // what is no program is kept once
        return rc;
    struct str *s = &m->programs;
    size_t entry = pb_begin(s, XPLANE_EVENT_NAME);
    pb_put_uint(s, 1, fresh);
    size_t value = pb_begin(s, 2);
    pb_put_uint(s, 1, fresh);
    put_renumbered(m, row->message, 5, true, s);
    pb_end(s, value);
    pb_end(s, entry);
    return 0;
}

// Each name has one id, whichever files it is from: XProf looks at one only.
static int add_stat_name(struct merge *m, const struct xmeta *row, struct error *err)
{
    struct slice name = row->name;
    uint32_t index = 0;
    bool fresh = false, again;
    int rc = 0;
    if (!timeline_texts_find(&m->stat_names, name, 0, &index)) { // a copy: other files are open when it is compared
        rc = slice_copy(&m->t->arena, &name, err);
        if (!rc)
            rc = timeline_texts_put(&m->stat_names, name, 0, &index, &fresh, err);
    }
    if (fresh)
        xwrite_row(&m->programs, XPLANE_STAT_NAME, (int64_t)index + 1, name, (struct slice){NULL, 0},
                   (struct slice){NULL, 0});
    return rc ? rc : idmap_put(&m->stat_ids, row->id, index + 1, &again, err);
}

static int add_programs(struct merge *m, const struct xplane *p, struct error *err)
{
    int rc = 0;
    idmap_release(&m->stat_ids);
    idmap_init(&m->stat_ids);
    for (size_t i = p->stat_table.n_rows; i-- > 0 && !rc;) // of an id that is there twice the last counts
        rc = add_stat_name(m, &p->stat_table.rows[i], err);
    find_program_stat(m, p);
    for (size_t i = 0; i < p->event_table.n_rows && !rc; i++)
        rc = add_program(m, p, &p->event_table.rows[i], err);
    return rc ? rc : str_check(&m->programs, err);
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

// All fields of a message but those of the set `without` (a bit for each number), as they lie: their size, and to the
// file with `write`. Fields that lie together go together.
static size_t copy_fields(struct merge *m, struct slice body, uint32_t without, bool write)
{
    struct pb_reader r = pb_reader(body.data, body.size);
    struct pb_field f;
    const uint8_t *run = r.at;
    size_t size = 0;
    for (const uint8_t *from = r.at; pb_next(&r, &f); from = r.at) {
        bool skip = (f.number < 32 && without >> f.number & 1) || r.damage;
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

// A field that is written anew, from m->changed: its size, and itself with `write`.
static size_t put_changed(struct merge *m, uint32_t field, bool write)
{
    size_t size = m->changed.length;
    size_t head = head_size(m, field, size);
    if (write) {
        sink_put(m->out, m->head.text, m->head.length);
        sink_put(m->out, str_text(&m->changed), size);
    }
    return head + size;
}

// The events of a line, with other numbers of programs in them.
static size_t renumber_events(struct merge *m, struct slice line, bool write)
{
    struct pb_reader r = pb_reader(line.data, line.size);
    struct pb_field f;
    size_t size = 0;
    while (pb_next(&r, &f)) {
        if (!pb_is(&f, 4, PB_BYTES))
            continue;
        str_clear(&m->changed);
        put_renumbered(m, f.body, 4, false, &m->changed);
        size += put_changed(m, 4, write);
    }
    return size;
}

// The size of a line, and the line itself with `write`.
static int put_line(struct merge *m, struct slice body, bool write, size_t *size, struct error *err)
{
    bool anew = m->renumber && m->program_stat;
    uint32_t without = 1u << 3 | (unsigned)anew << 4; // when it starts, and its events
    int64_t ns = 0;
    int rc = line_time(m, timestamp_of(body), &ns, err);
    struct str time;
    str_init(&time);
    if (ns)
        pb_put_int(&time, 3, ns);
    size_t line = copy_fields(m, body, without, false) + time.length;
    if (anew)
        line += renumber_events(m, body, false);
    *size += head_size(m, XPLANE_LINE, line) + line;
    if (write && !rc) {
        put_head(m, XPLANE_LINE, line);
        sink_put(m->out, str_text(&time), time.length);
        copy_fields(m, body, without, true);
        if (anew)
            renumber_events(m, body, true);
    }
    str_release(&time);
    return rc ? rc : str_check(&m->changed, err);
}

// The size of an entry of the table of events.
static size_t put_row(struct merge *m, struct slice entry, bool write)
{
    struct pb_reader r = pb_reader(entry.data, entry.size);
    struct pb_field f;
    str_clear(&m->changed);
    for (const uint8_t *from = r.at; pb_next(&r, &f) && !r.damage; from = r.at) {
        if (pb_is(&f, 2, PB_BYTES)) {
            size_t row = pb_begin(&m->changed, 2);
            put_renumbered(m, f.body, 5, false, &m->changed);
            pb_end(&m->changed, row);
        } else {
            str_add_n(&m->changed, from, (size_t)(r.at - from));
        }
    }
    return put_changed(m, XPLANE_EVENT_NAME, write);
}

// What of a plane is not copied as it lies: its size, and itself with `write`.
static int plane_lines(struct merge *m, struct slice body, bool write, size_t *size, struct error *err)
{
    struct pb_reader r = pb_reader(body.data, body.size);
    struct pb_field f;
    int rc = 0;
    while (!rc && pb_next(&r, &f)) {
        if (pb_is(&f, XPLANE_LINE, PB_BYTES))
            rc = put_line(m, f.body, write, size, err);
        else if (pb_is(&f, XPLANE_EVENT_NAME, PB_BYTES) && m->renumber)
            *size += put_row(m, f.body, write);
    }
    return rc ? rc : str_check(&m->changed, err);
}

static int put_plane(struct merge *m, const struct xplane *p, struct slice body, struct error *err)
{
    struct str front;
    int64_t id;
    uint32_t without =
        1u << XPLANE_ID | 1u << XPLANE_NAME | 1u << XPLANE_LINE | (unsigned)m->renumber << XPLANE_EVENT_NAME;
    str_init(&front);
    find_program_stat(m, p);
    if (__builtin_add_overflow(p->id, (int64_t)m->file * PLANE_IDS, &id))
        id = p->id;
    pb_put_int(&front, XPLANE_ID, id);
    size_t name = pb_begin(&front, XPLANE_NAME);
    plane_name(m, p->name, &front);
    pb_end(&front, name);
    size_t size = front.length + copy_fields(m, body, without, false);
    int rc = str_check(&front, err);
    if (!rc)
        rc = plane_lines(m, body, false, &size, err);
    if (!rc) {
        put_head(m, XSPACE_PLANE, size);
        sink_put(m->out, front.text, front.length);
        copy_fields(m, body, without, true);
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
    m->renumber = false;
    for (size_t i = 0; i < m->numbers.n; i++)
        m->renumber |= m->numbers.items[i].file == m->file && m->numbers.items[i].becomes != m->numbers.items[i].id;
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
    str_init(&m.changed);
    idmap_init(&m.program_ids);
    idmap_init(&m.stat_ids);
    timeline_texts_init(&m.stat_names);
    int rc = trace_epochs(t, &m.epochs, err);
    done->epochs = m.epochs;
    if (!rc)
        rc = merge_programs_find(&m.numbers, t, err);
    done->renumbered = m.numbers.renumbered;
    m.next_row = 1;
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
    idmap_release(&m.stat_ids);
    timeline_texts_release(&m.stat_names);
    str_release(&m.programs);
    str_release(&m.changed);
    str_release(&m.head);
    return rc;
}
