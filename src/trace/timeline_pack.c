// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline_pack.h"

#include <stdlib.h>

static unsigned bits(uint64_t x)
{
    return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

size_t timeline_place(struct timeline_pack *p, int64_t start_ps, int64_t end_ps, unsigned *apart)
{
    size_t row = 0;
    while (p->open && p->ends[p->open - 1] <= start_ps)
        p->open--;
    for (size_t i = p->open; i > 0 && !row; i--) {
        if (p->ends[i - 1] > start_ps && p->ends[i - 1] >= end_ps)
            row = i;
    }
    while (row < p->open && p->ends[row] > start_ps)
        row++;
    if (row >= TIMELINE_ROWS)
        row = TIMELINE_ROWS - 1;
    unsigned length = bits((uint64_t)(end_ps - start_ps));
    unsigned distance = row < p->used ? bits((uint64_t)start_ps ^ (uint64_t)p->starts[row]) : 64;
    *apart = length > distance ? length : distance;
    p->starts[row] = start_ps;
    if (row >= p->used || end_ps > p->ends[row])
        p->ends[row] = end_ps;
    p->open = row >= p->open ? row + 1 : p->open;
    p->used = row >= p->used ? row + 1 : p->used;
    return row;
}

static bool together(const struct timeline_record *last, const struct timeline_record *r, int cell_bits,
                     int64_t longest)
{
    if (r->start_ps < last->start_ps + last->duration_ps)
        return true;
    if (cell_bits < 0)
        return false;
    return bits((uint64_t)longest) <= (unsigned)cell_bits && bits((uint64_t)r->duration_ps) <= (unsigned)cell_bits &&
           last->start_ps >> cell_bits == r->start_ps >> cell_bits;
}

int timeline_put(struct timeline_row *row, const struct timeline_record *r, int cell_bits, int64_t *longest_ps,
                 struct error *err)
{
    struct timeline_record *last = row->n ? &row->records[row->n - 1] : NULL;
    if (last && together(last, r, cell_bits, *longest_ps)) {
        int64_t end = r->start_ps + r->duration_ps;
        if (end > last->start_ps + last->duration_ps)
            last->duration_ps = end - last->start_ps;
        if (__builtin_add_overflow(last->busy_ps, r->busy_ps, &last->busy_ps))
            last->busy_ps = INT64_MAX;
        last->count += last->count < UINT32_MAX;
        last->stats = NULL;
        last->stats_bytes = 0;
        if (r->duration_ps > *longest_ps) {
            *longest_ps = r->duration_ps;
            last->name = r->name;
        }
        return 0;
    }
    if (!row->records || row->n == row->cap) {
        size_t cap = row->cap ? 2 * row->cap : 16;
        struct timeline_record *more = realloc(row->records, cap * sizeof *more);
        if (!more)
            return error_set(err, ERR_MEMORY, NULL, "no memory for %zu events of a timeline", cap);
        row->records = more;
        row->cap = cap;
    }
    row->records[row->n++] = *r;
    *longest_ps = r->duration_ps;
    return 0;
}

int timeline_cell(const uint64_t apart[65], uint64_t most, uint64_t *n)
{
    int cell = -1;
    *n = 0;
    for (int i = 0; i <= 64; i++)
        *n += apart[i];
    for (; *n > most && cell < 62; cell++)
        *n -= apart[cell + 1];
    return cell;
}
