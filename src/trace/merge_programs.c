// SPDX-License-Identifier: Apache-2.0
#include "trace/merge_programs.h"

#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "ir/hlo_text.h"

#define COUNTED ((uint64_t)1 << 32) // larger numbers are made of what is in a program

static int by_id(const void *a, const void *b)
{
    const struct merge_program *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->file > y->file) - (x->file < y->file);
}

// ---- What programs there are

struct finding {
    struct merge_programs *m;
    struct trace *t;
    size_t file;
    struct idmap known; // of the file: a program's id to its place in the list
};

static int complete(struct finding *f, struct merge_program *p, struct slice name, struct slice proto,
                    struct error *err)
{
    if (proto.size && !p->proto.size) {
        p->proto = proto;
        p->hash = mix_bytes(process_secret(), proto.data, proto.size);
    }
    if (!name.size || p->name.size)
        return 0;
    p->name = name;
    return slice_copy(&f->t->arena, &p->name, err);
}

static int add(struct finding *f, uint64_t id, struct slice name, struct slice proto, struct error *err)
{
    struct merge_programs *m = f->m;
    uint32_t at = (uint32_t)m->n;
    bool again;
    int rc = m->n < UINT32_MAX ? idmap_put(&f->known, (int64_t)id, at, &again, err)
                               : error_set(err, ERR_MEMORY, NULL, "too many programs");
    if (rc)
        return rc;
    if (again) {
        (void)idmap_get(&f->known, (int64_t)id, &at);
        return complete(f, &m->items[at], name, proto, err);
    }
    struct merge_program *more = arena_grow(&f->t->arena, m->items, &m->cap, m->n + 1, sizeof *more, err);
    if (!more)
        return ERR_MEMORY;
    m->items = more;
    m->items[m->n] = (struct merge_program){.file = f->file, .id = id, .becomes = id, .owner = f->file};
    return complete(f, &m->items[m->n++], name, proto, err);
}

static int64_t stat_id(const struct xplane *p, const char *name)
{
    for (size_t i = 0; i < p->stat_table.n_rows; i++) {
        if (slice_is(p->stat_table.rows[i].name, name))
            return p->stat_table.rows[i].id;
    }
    return 0;
}

// Programs that operations name. Of a run of events of one program only the first is looked at.
static int find_in_plane(struct finding *f, struct xplane *p, struct error *err)
{
    const int64_t program = stat_id(p, "program_id"), module = stat_id(p, "hlo_module");
    bool counted = !slice_starts_with(p->name, "/device:TPU:"); // a TPU's numbers are no counts
    uint64_t last = 0;
    int rc = 0;
    for (size_t i = 0; program && counted && i < p->n_lines && !rc; i++) {
        struct xevents walk = xline_events(&p->lines[i]);
        struct xevent e;
        while (!rc && xevent_next(&walk, &e)) {
            struct xstats stats = xevent_stats(p, &e);
            struct xstat s;
            uint64_t id = 0;
            struct slice name = {NULL, 0};
            while (xstat_next(&stats, &s)) {
                if (s.metadata_id == program && (s.kind == XSTAT_INT || s.kind == XSTAT_UINT))
                    id = s.unsigned_number;
                else if (s.metadata_id == module && module && s.kind == XSTAT_TEXT)
                    name = s.bytes;
            }
            if (id && id != last)
                rc = add(f, id, name, (struct slice){NULL, 0}, err);
            last = id ? id : last;
        }
    }
    return rc;
}

static int find_in_file(struct finding *f, struct error *err)
{
    struct trace_file *file = &f->t->files[f->file];
    struct file_guard g;
    if (FILE_GUARD(&g, &file->map))
        return file_guard_error(&g, err);
    int rc = 0;
    const struct xplane *metadata = xspace_plane(&file->space, "/host:metadata");
    for (size_t i = 0; metadata && i < metadata->event_table.n_rows && !rc; i++) {
        struct trace_program one = {.file = file};
        trace_program_entry(metadata, &metadata->event_table.rows[i], &one);
        if (one.proto.size)
            rc = add(f, one.id, one.name, one.proto, err);
    }
    for (size_t i = 0; i < file->space.n_planes && !rc; i++)
        rc = find_in_plane(f, &file->space.planes[i], err);
    file_guard_end(&g);
    return rc;
}

// ---- Whether two are the same

// Takes ", metadata={...}" out: places in source code differ where somebody has another path to it.
static void without_places(struct str *s)
{
    static const char mark[] = ", metadata={";
    const char *at = s->text, *end = at ? at + s->length : at;
    char *out = s->text;
    while (at < end) {
        const char *next = memmem(at, (size_t)(end - at), mark, sizeof mark - 1);
        size_t n = (size_t)((next ? next : end) - at);
        memmove(out, at, n);
        out += n;
        if (!next)
            break;
        bool quoted = false;
        for (at = next + sizeof mark - 1; at < end && (quoted || *at != '}'); at++) {
            if (*at == '\\' && quoted)
                at++;
            else if (*at == '"')
                quoted = !quoted;
        }
        at += at < end;
    }
    s->length = (size_t)(out - s->text);
}

static int print(void *context, const struct hlo_module *m, struct arena *scratch, struct error *err)
{
    struct str *out = context;
    int rc = 0;
    (void)scratch;
    for (size_t i = 0; i < m->n_computations && !rc; i++)
        rc = hlo_text_computation(out, m, &m->computations[i], err);
    without_places(out);
    return rc;
}

static int same_hlo(struct trace *t, const struct merge_program *a, const struct merge_program *b, bool *same,
                    struct error *err)
{
    const struct merge_program *both[] = {a, b};
    struct str texts[2];
    int rc = 0;
    *same = a->proto.size == b->proto.size && a->hash == b->hash;
    for (int i = 0; i < 2 && !*same; i++)
        str_init(&texts[i]);
    if (*same)
        return 0;
    bool read = true;
    for (int i = 0; i < 2 && !rc; i++) {
        struct error unreadable = {0};
        struct trace_program p = {.file = &t->files[both[i]->file], .proto = both[i]->proto};
        rc = trace_program_read(&p, print, &texts[i], &unreadable, err);
        read &= !unreadable.code;
    }
    *same = read && texts[0].length == texts[1].length &&
            memcmp(str_text(&texts[0]), str_text(&texts[1]), texts[0].length) == 0;
    str_release(&texts[0]);
    str_release(&texts[1]);
    return rc;
}

static int same_program(struct trace *t, const struct merge_program *a, const struct merge_program *b, bool *same,
                        struct error *err)
{
    *same = !a->name.size || !b->name.size || slice_equal(a->name, b->name);
    if (!*same || a->id >= COUNTED || !a->proto.size || !b->proto.size)
        return 0;
    return same_hlo(t, a, b, same, err);
}

// ---- Numbers

// Programs of one number, in the order of their files.
static int number(struct merge_programs *m, struct trace *t, struct merge_program *items, size_t n, uint64_t *next,
                  struct error *err)
{
    int rc = 0;
    for (size_t i = 1; i < n && !rc; i++) {
        bool same = false;
        for (size_t k = 0; k < i && !same && !rc; k++) {
            if (items[k].owner != items[k].file) // compared already, as its owner
                continue;
            rc = same_program(t, &items[k], &items[i], &same, err);
            if (same) {
                items[i].becomes = items[k].becomes;
                items[i].owner = items[k].file;
            }
        }
        if (!rc && !same)
            items[i].becomes = (*next)++;
        m->renumbered += items[i].becomes != items[i].id;
    }
    return rc;
}

int merge_programs_find(struct merge_programs *m, struct trace *t, struct error *err)
{
    struct finding f = {.m = m, .t = t};
    uint64_t next = 1;
    int rc = 0;
    *m = (struct merge_programs){0};
    for (; f.file < t->n_files && t->n_files > 1 && !rc; f.file++) {
        idmap_init(&f.known);
        rc = find_in_file(&f, err);
        idmap_release(&f.known);
    }
    if (m->n)
        qsort(m->items, m->n, sizeof *m->items, by_id);
    for (size_t i = 0; i < m->n; i++)
        next = m->items[i].id < COUNTED && m->items[i].id >= next ? m->items[i].id + 1 : next;
    for (size_t i = 0, end; i < m->n && !rc; i = end) {
        for (end = i + 1; end < m->n && m->items[end].id == m->items[i].id;)
            end++;
        rc = number(m, t, m->items + i, end - i, &next, err);
    }
    return rc;
}

const struct merge_program *merge_programs_at(const struct merge_programs *m, size_t file, uint64_t id)
{
    struct merge_program key = {.file = file, .id = id};
    return m->n ? bsearch(&key, m->items, m->n, sizeof *m->items, by_id) : NULL;
}
