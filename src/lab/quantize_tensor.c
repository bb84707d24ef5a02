// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/interrupt.h"
#include "io/ggml.h"
#include "lab/quantize_work.h"
#include "num/convert.h"
#include "num/format.h"
#include "num/quantize_kernels.h"

// Elements of a piece: what one core keeps in its second-level cache, with codes and the like.
#define PIECE 65536

int quantize_run_init(struct quantize_run *r, struct error *err)
{
    r->reporter = pthread_self();
    if (pthread_mutex_init(&r->lock, NULL) != 0)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a lock");
    return 0;
}

void quantize_run_release(struct quantize_run *r)
{
    for (struct quantize_space *s = r->spaces, *next; s; s = next) {
        next = s->next;
        free(s->x);
        free(s->back);
        free(s->codes);
        free(s->packed);
        free(s->scales);
        free(s->ones);
        free(s->zeros);
        free(s->stored);
        free(s);
    }
    pthread_mutex_destroy(&r->lock);
}

void quantize_run_fail(struct quantize_run *r, const struct error *e)
{
    pthread_mutex_lock(&r->lock);
    if (!r->error.code)
        r->error = *e;
    pthread_mutex_unlock(&r->lock);
    __atomic_store_n(&r->failed, 1, __ATOMIC_RELEASE);
}

int quantize_run_error(struct quantize_run *r, struct error *err)
{
    pthread_mutex_lock(&r->lock);
    int code = r->error.code;
    if (code && err && !err->code)
        *err = r->error;
    pthread_mutex_unlock(&r->lock);
    return code;
}

static bool stopped(struct quantize_run *r)
{
    struct error e = {0};
    if (__atomic_load_n(&r->failed, __ATOMIC_ACQUIRE))
        return true;
    if (!interrupt_check("quantising", &e))
        return false;
    quantize_run_fail(r, &e);
    return true;
}

static void done(struct quantize_run *r, size_t bytes)
{
    pthread_mutex_lock(&r->lock);
    r->done_bytes += bytes;
    size_t so_far = r->done_bytes;
    pthread_mutex_unlock(&r->lock);
    if (pthread_equal(pthread_self(), r->reporter))
        progress_report(r->progress, "quantise, MB", so_far / 1000000, r->total_bytes / 1000000);
}

// Makes room in a space; what was in it is lost.
static bool grow(struct quantize_space *s, size_t elements, size_t scales)
{
    if (elements > s->elements) {
        free(s->x);
        free(s->back);
        free(s->codes);
        free(s->packed);
        s->elements = 0;
        s->x = malloc(elements * sizeof *s->x);
        s->back = malloc(elements * sizeof *s->back);
        // Narrowing to f32 has codes of four bytes; a row of packed codes may end with a byte of its own.
        s->codes = malloc(elements * 4);
        s->packed = malloc(elements * 2 + 1);
        if (!s->x || !s->back || !s->codes || !s->packed)
            return false;
        s->elements = elements;
    }
    if (scales > s->scale_count) {
        free(s->scales);
        free(s->ones);
        free(s->zeros);
        free(s->stored);
        s->scale_count = 0;
        s->scales = malloc(scales * sizeof *s->scales);
        s->ones = malloc(scales * sizeof *s->ones);
        s->zeros = malloc(scales * sizeof *s->zeros);
        s->stored = malloc(scales * 4);
        if (!s->scales || !s->ones || !s->zeros || !s->stored)
            return false;
        s->scale_count = scales;
    }
    return true;
}

static void give_back(struct quantize_run *r, struct quantize_space *s)
{
    pthread_mutex_lock(&r->lock);
    s->next = r->spaces;
    r->spaces = s;
    pthread_mutex_unlock(&r->lock);
}

static struct quantize_space *take(struct quantize_run *r, size_t elements, size_t scales, struct error *err)
{
    pthread_mutex_lock(&r->lock);
    struct quantize_space *s = r->spaces;
    if (s)
        r->spaces = s->next;
    pthread_mutex_unlock(&r->lock);
    if (!s)
        s = calloc(1, sizeof *s);
    if (s && grow(s, elements, scales))
        return s;
    if (s)
        give_back(r, s);
    error_set(err, ERR_MEMORY, NULL, "no memory to quantise %zu values at a time", elements);
    return NULL;
}

// --- What the file holds

int quantize_code_bits(const struct quantize_policy *p)
{
    return dtype_bits(p->form == QUANTIZE_NARROW  ? p->to
                      : p->form == QUANTIZE_CODES ? p->spec.type
                                                  : p->block->element);
}

enum dtype quantize_code_dtype(const struct quantize_policy *p)
{
    if (quantize_code_bits(p) < 8)
        return DT_U8;
    return p->form == QUANTIZE_NARROW ? p->to : p->form == QUANTIZE_CODES ? p->spec.type : p->block->element;
}

static size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

size_t quantize_scales_across(const struct quantize_policy *p, size_t columns)
{
    if (p->form == QUANTIZE_BLOCKS)
        return ceil_div(columns, p->block->block);
    if (p->spec.granularity == QUANT_PER_GROUP)
        return ceil_div(columns, (size_t)p->spec.group);
    return p->spec.granularity == QUANT_PER_BLOCK ? ceil_div(columns, (size_t)p->spec.block[1]) : 1;
}

static size_t box_rows(const struct quantize_policy *p)
{
    return p->form == QUANTIZE_CODES && p->spec.granularity == QUANT_PER_BLOCK ? (size_t)p->spec.block[0] : 1;
}

size_t quantize_scales_down(const struct quantize_policy *p, size_t rows)
{
    if (p->form == QUANTIZE_CODES && p->spec.granularity == QUANT_PER_TENSOR)
        return 1;
    return ceil_div(rows, box_rows(p));
}

enum dtype quantize_scale_dtype(const struct quantize_policy *p)
{
    if (p->form == QUANTIZE_BLOCKS)
        return p->block->scale;
    return p->spec.scale_type == DT_INVALID ? DT_F32 : p->spec.scale_type;
}

bool quantize_has_zeros(const struct quantize_policy *p)
{
    return p->form == QUANTIZE_CODES && !dtype_is_float(p->spec.type) &&
           (p->spec.mapping == QUANT_AFFINE || dtype_info(p->spec.type)->kind == DTK_UNSIGNED);
}

// A code in memory.
static size_t code_bytes(const struct quantize_work *w)
{
    return w->bits > 8 ? (size_t)w->bits / 8 : 1;
}

// --- Pieces

// Pieces end where blocks of the source, scales and bytes of codes do.
static size_t column_unit(const struct quantize_work *w)
{
    const struct quantize_policy *p = w->policy;
    size_t unit = GGML_MAX_BLOCK, group = 1;
    if (p->form == QUANTIZE_CODES && p->spec.granularity == QUANT_PER_GROUP)
        group = (size_t)p->spec.group;
    else if (p->form == QUANTIZE_BLOCKS)
        group = p->block->block;
    while (group % 2 == 0 && unit > 1 && group > 1) { // the least common multiple: unit is a power of two
        group /= 2;
        unit /= 2;
    }
    size_t all = p->form == QUANTIZE_BLOCKS                                            ? p->block->block
                 : p->form == QUANTIZE_CODES && p->spec.granularity == QUANT_PER_GROUP ? (size_t)p->spec.group
                                                                                       : 1;
    return all * unit;
}

static void cut(struct quantize_work *w)
{
    const struct quant_spec *s = &w->policy->spec;
    bool codes = w->policy->form == QUANTIZE_CODES, search = codes && s->from != QUANT_FROM_ABSMAX;
    w->box_rows = box_rows(w->policy);
    w->piece_columns = w->columns;
    w->piece_rows = w->columns ? PIECE / w->columns / w->box_rows * w->box_rows : w->rows;
    if (w->piece_rows == 0)
        w->piece_rows = w->box_rows;
    w->one_scale = codes && s->granularity == QUANT_PER_TENSOR;
    if (search && w->one_scale)
        w->piece_rows = w->box_rows = w->rows;
    bool whole_rows = search || (codes && s->granularity == QUANT_PER_BLOCK);
    if (w->columns > PIECE && !whole_rows) {
        size_t unit = column_unit(w), times = PIECE / unit;
        w->piece_columns = unit * (times ? times : 1);
        if (w->piece_columns > w->columns)
            w->piece_columns = w->columns;
    }
    w->given =
        codes && !search && (w->one_scale || (s->granularity == QUANT_PER_CHANNEL && w->piece_columns < w->columns));
    if (w->piece_rows > w->rows)
        w->piece_rows = w->rows;
    w->pieces = w->piece_rows && w->piece_columns
                    ? ceil_div(w->rows, w->piece_rows) * ceil_div(w->columns, w->piece_columns)
                    : 0;
}

static struct quantize_piece piece_at(const struct quantize_work *w, size_t i)
{
    size_t in_row = ceil_div(w->columns, w->piece_columns);
    struct quantize_piece p = {.row = i / in_row * w->piece_rows, .column = i % in_row * w->piece_columns};
    p.rows = w->rows - p.row < w->piece_rows ? w->rows - p.row : w->piece_rows;
    p.columns = w->columns - p.column < w->piece_columns ? w->columns - p.column : w->piece_columns;
    return p;
}

static size_t piece_scales(const struct quantize_work *w)
{
    return w->policy->form == QUANTIZE_NARROW ? 1 : ceil_div(w->piece_rows, w->box_rows) * (w->across ? w->across : 1);
}

// Bytes of the source that hold elements [at, at + n).
static void forget(const struct quantize_work *w, size_t at, size_t n)
{
    const struct tensor_view *v = w->view;
    if (w->run->checkpoint->borrowed)
        return;
    const struct file_map *map = &w->run->checkpoint->files[v->file];
    size_t from = v->blocks ? at / v->blocks->elements * v->blocks->bytes : at * (size_t)dtype_bits(v->dtype) / 8;
    size_t bytes = v->blocks ? n / v->blocks->elements * v->blocks->bytes : n * (size_t)dtype_bits(v->dtype) / 8;
    file_map_forget(map, v->offset + from, bytes);
}

// --- The pass that finds one scale for all, or one for each row

static struct quant_extent finite_extent(const float *x, size_t n)
{
    struct quant_extent e = quant_kernels()->extent(x, n);
    if (isfinite(e.min) && isfinite(e.max))
        return e;
    e = (struct quant_extent){INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        e.min = isfinite(x[i]) && x[i] < e.min ? x[i] : e.min;
        e.max = isfinite(x[i]) && x[i] > e.max ? x[i] : e.max;
    }
    return e;
}

// What a piece is worked on with. The guard holds for the thread that runs it.
typedef int piece_fn(struct quantize_work *w, size_t i, const struct quantize_piece *p, struct quantize_space *s,
                     struct error *err);

static int run_guarded(struct quantize_work *w, size_t i, piece_fn *fn, struct quantize_space *s, struct error *err)
{
    struct quantize_piece p = piece_at(w, i);
    struct file_guard g;
    if (FILE_GUARD(&g, &w->run->checkpoint->files[w->view->file]))
        return file_guard_error(&g, err);
    int rc = fn(w, i, &p, s, err);
    file_guard_end(&g);
    if (rc)
        return rc;
    for (size_t r = 0; r < p.rows; r += w->piece_columns < w->columns ? 1 : p.rows)
        forget(w, (p.row + r) * w->columns + p.column, w->piece_columns < w->columns ? p.columns : p.rows * p.columns);
    return 0;
}

struct pass {
    struct quantize_work *work;
    piece_fn *fn;
};

static void run_pieces(void *context, size_t from, size_t to)
{
    const struct pass *pass = context;
    struct quantize_work *w = pass->work;
    for (size_t i = from; i < to && !stopped(w->run); i++) {
        struct error e = {0};
        struct quantize_space *s = take(w->run, w->piece_rows * w->piece_columns, piece_scales(w), &e);
        int rc = s ? run_guarded(w, i, pass->fn, s, &e) : ERR_MEMORY;
        if (s)
            give_back(w->run, s);
        if (rc)
            quantize_run_fail(w->run, &e);
    }
}

static int run_pass(struct quantize_work *w, piece_fn *fn, struct error *err)
{
    struct pass pass = {w, fn};
    threads_for(w->run->threads, w->pieces, 1, run_pieces, &pass);
    return stopped(w->run) ? quantize_run_error(w->run, err) : 0;
}

static int extent_piece(struct quantize_work *w, size_t i, const struct quantize_piece *p, struct quantize_space *s,
                        struct error *err)
{
    const float *x;
    struct quantize_stats ignored = {0};
    int rc = quantize_load(w, p, s, &x, &ignored, err);
    if (!rc)
        w->extents[i] = finite_extent(x, p->rows * p->columns);
    return rc;
}

static void scale_of_pieces(struct quantize_work *w, size_t scale, size_t from, size_t to, struct quant_stats *counts)
{
    double low = 0, high = 0;
    for (size_t i = from; i < to; i++) {
        low = fmin(low, (double)w->extents[i].min);
        high = fmax(high, (double)w->extents[i].max);
    }
    quant_scale_of_range(&w->policy->spec, low, high, &w->scales[scale], &w->zeros[scale], counts);
}

static int store(struct quantize_work *w, const float *scales, const int32_t *zeros, size_t n, size_t at,
                 uint8_t *stored, struct error *err);

static int find_given(struct quantize_work *w, struct quantize_stats *stats, struct error *err)
{
    size_t n = w->one_scale ? 1 : w->rows, in_row = ceil_div(w->columns, w->piece_columns);
    struct quant_stats counts = {0};
    w->extents = calloc(w->pieces, sizeof *w->extents);
    w->scales = calloc(n, sizeof *w->scales);
    w->zeros = calloc(n, sizeof *w->zeros);
    uint8_t *stored = malloc(n * 4);
    int rc = w->extents && w->scales && w->zeros && stored
                 ? run_pass(w, extent_piece, err)
                 : error_set(err, ERR_MEMORY, w->view->name, "no memory for %zu scales", n);
    for (size_t i = 0; i < n && !rc; i++) {
        scale_of_pieces(w, i, w->one_scale ? 0 : i * in_row, w->one_scale ? w->pieces : (i + 1) * in_row, &counts);
        stats->scale_min = fmin(stats->scale_min, (double)w->scales[i]); // a NaN gives way
        stats->scale_max = fmax(stats->scale_max, (double)w->scales[i]);
    }
    stats->scales_raised = counts.scales_raised;
    stats->scales_lowered = counts.scales_lowered;
    if (!rc)
        rc = store(w, w->scales, w->zeros, n, 0, stored, err);
    free(stored);
    return rc;
}

// The scale of the whole tensor of a format that has one: what its own rule gives for the largest magnitude.
static int find_tensor_scale(struct quantize_work *w, struct error *err)
{
    w->extents = calloc(w->pieces, sizeof *w->extents);
    int rc = w->extents ? run_pass(w, extent_piece, err)
                        : error_set(err, ERR_MEMORY, w->view->name, "no memory for %zu extents", w->pieces);
    if (rc)
        return rc;
    float amax = 0;
    for (size_t i = 0; i < w->pieces; i++)
        amax = fmaxf(amax, fmaxf(-w->extents[i].min, w->extents[i].max));
    const int64_t one[1] = {1};
    uint8_t code, scale;
    rc = block_encode(w->policy->block, &w->policy->cast, one, 1, 0, &amax, &code, &scale, &w->tensor_scale, NULL,
                      w->view->name, err);
    return rc ? rc
              : safetensors_writer_put_at(w->run->writer, (size_t)w->entries.tensor_scale, 0, &w->tensor_scale,
                                          sizeof w->tensor_scale, err);
}

// --- The pass that encodes and writes

static void narrow_zeros(enum dtype type, const int32_t *zeros, size_t n, uint8_t *out)
{
    bool wide = dtype_bits(type) > 8;
    for (size_t i = 0; i < n; i++) {
        uint16_t z = (uint16_t)zeros[i];
        memcpy(out + i * (wide ? 2 : 1), &z, wide ? 2 : 1);
    }
}

// Scales [at, at + n), and their zero points.
static int store(struct quantize_work *w, const float *scales, const int32_t *zeros, size_t n, size_t at,
                 uint8_t *stored, struct error *err)
{
    const struct quant_spec *spec = &w->policy->spec;
    size_t size = (size_t)dtype_bits(quantize_scale_dtype(w->policy)) / 8;
    int rc = quant_store_scales(spec, scales, n, stored, w->view->name, err);
    if (!rc)
        rc = safetensors_writer_put_at(w->run->writer, (size_t)w->entries.scales, at * size, stored, n * size, err);
    if (rc || w->entries.zeros < 0)
        return rc;
    size = dtype_bits(spec->type) > 8 ? 2 : 1;
    narrow_zeros(spec->type, zeros, n, stored);
    return safetensors_writer_put_at(w->run->writer, (size_t)w->entries.zeros, at * size, stored, n * size, err);
}

// Codes of fewer than 8 bits share bytes, row by row.
static const uint8_t *pack(const struct quantize_work *w, const struct quantize_piece *p, struct quantize_space *s,
                           size_t *row_bytes)
{
    *row_bytes = p->columns * code_bytes(w);
    if (w->bits >= 8)
        return s->codes;
    *row_bytes = (p->columns * (size_t)w->bits + 7) / 8;
    for (size_t r = 0; r < p->rows; r++) {
        const uint8_t *codes = s->codes + r * p->columns;
        uint8_t *packed = s->packed + r * *row_bytes;
        if (w->bits == 4)
            quant_kernels()->pack4(codes, p->columns, packed);
        else
            format_pack(w->bits, packed, codes, p->columns);
    }
    return s->packed;
}

static int write_piece(struct quantize_work *w, const struct quantize_piece *p, struct quantize_space *s,
                       struct error *err)
{
    size_t row_bytes, unit = w->policy->form == QUANTIZE_BLOCKS ? w->policy->block->block : 1;
    const uint8_t *codes = pack(w, p, s, &row_bytes);
    size_t at = p->row * w->row_bytes + (w->bits < 8 ? p->column * (size_t)w->bits / 8 : p->column * code_bytes(w));
    int rc = safetensors_writer_put_at(w->run->writer, (size_t)w->entries.codes, at, codes, p->rows * row_bytes, err);
    if (rc || w->given || w->policy->form == QUANTIZE_NARROW)
        return rc;
    if (w->policy->form == QUANTIZE_CODES && w->policy->spec.granularity == QUANT_PER_GROUP)
        unit = (size_t)w->policy->spec.group;
    size_t first = p->row / w->box_rows * w->across + (p->columns < w->columns ? p->column / unit : 0);
    size_t in_row = p->columns < w->columns ? ceil_div(p->columns, unit) : w->across;
    size_t n = ceil_div(p->rows, w->box_rows) * in_row;
    if (w->policy->form == QUANTIZE_CODES)
        return store(w, s->scales, s->zeros, n, first, s->stored, err);
    return safetensors_writer_put_at(w->run->writer, (size_t)w->entries.scales, first, s->stored, n, err);
}

static int encode_piece(struct quantize_work *w, size_t i, const struct quantize_piece *p, struct quantize_space *s,
                        struct error *err)
{
    const float *x;
    quantize_stats_init(&w->parts[i]);
    int rc = quantize_load(w, p, s, &x, &w->parts[i], err);
    if (!rc)
        rc = quantize_encode(w, p, x, s, &w->parts[i], err);
    if (!rc)
        rc = write_piece(w, p, s, err);
    if (!rc) // bytes of the source, of blocks too
        done(w->run, (size_t)((double)w->view->bytes * (double)(p->rows * p->columns) / (double)w->view->elements));
    return rc;
}

// In the order of pieces, whoever did them: the sums do not depend on how many threads there are.
static void add_parts(const struct quantize_work *w, struct quantize_stats *stats)
{
    size_t in_row = ceil_div(w->columns, w->piece_columns);
    for (size_t i = 0; i < w->pieces; i += in_row) {
        struct quantize_stats row;
        quantize_stats_init(&row);
        for (size_t k = 0; k < in_row; k++)
            quantize_stats_add(&row, &w->parts[i + k]);
        if (in_row > 1) { // pieces of one row
            double error2 = row.error2, reference2 = row.reference2;
            row.error2 = row.reference2 = 0;
            row.worst_row_rel_l2 = NAN;
            quantize_stats_row(&row, piece_at(w, i).row, error2, reference2);
        }
        quantize_stats_add(stats, &row);
    }
}

static int run_work(struct quantize_work *w, struct quantize_stats *stats, struct error *err)
{
    struct quantize_stats ignored = {0};
    stats = stats ? stats : &ignored;
    quantize_stats_init(stats);
    cut(w);
    if (!w->pieces)
        return 0;
    w->parts = calloc(w->pieces, sizeof *w->parts);
    int rc = w->parts ? 0 : error_set(err, ERR_MEMORY, w->view->name, "no memory for %zu pieces", w->pieces);
    if (!rc && w->given)
        rc = find_given(w, stats, err);
    if (!rc && w->policy->form == QUANTIZE_BLOCKS && w->policy->block->tensor_scale)
        rc = find_tensor_scale(w, err);
    if (!rc)
        rc = run_pass(w, encode_piece, err);
    if (!rc)
        add_parts(w, stats);
    if (!rc)
        safetensors_writer_flush(w->run->writer, (size_t)w->entries.codes);
    free(w->parts);
    free(w->extents);
    free(w->scales);
    free(w->zeros);
    return rc;
}

int quantize_tensor_codes(struct quantize_run *r, const struct tensor_view *view, size_t rows, size_t columns,
                          const struct quantize_entries *entries, struct quantize_stats *stats, struct error *err)
{
    struct quantize_work w = {.run = r,
                              .view = view,
                              .policy = r->policy,
                              .rows = rows,
                              .columns = columns,
                              .entries = *entries,
                              .bits = quantize_code_bits(r->policy),
                              .across = quantize_scales_across(r->policy, columns)};
    w.row_bytes = w.bits < 8 ? (columns * (size_t)w.bits + 7) / 8 : columns * code_bytes(&w);
    return run_work(&w, stats, err);
}

int quantize_tensor_narrow(struct quantize_run *r, const struct tensor_view *view, size_t rows, size_t columns,
                           long entry, enum dtype to, struct quantize_stats *stats, struct error *err)
{
    const struct quantize_policy narrow = {.form = QUANTIZE_NARROW, .to = to};
    struct quantize_work w = {.run = r,
                              .view = view,
                              .policy = &narrow,
                              .rows = rows,
                              .columns = columns,
                              .entries = {entry, -1, -1, -1},
                              .to = to,
                              .bits = dtype_bits(to)};
    w.row_bytes = columns * code_bytes(&w);
    return run_work(&w, stats, err);
}

struct copy {
    struct quantize_run *run;
    const struct tensor_view *view;
    long entry;
};

static int copy_part(const struct copy *c, size_t at, size_t n, void *part, struct error *err)
{
    const struct file_map *map = &c->run->checkpoint->files[c->view->file];
    struct file_guard g;
    if (FILE_GUARD(&g, map))
        return file_guard_error(&g, err);
    memcpy(part, c->view->data + at, n);
    file_guard_end(&g);
    if (!c->run->checkpoint->borrowed)
        file_map_forget(map, c->view->offset + at, n);
    return safetensors_writer_put_at(c->run->writer, (size_t)c->entry, at, part, n, err);
}

int quantize_tensor_copy(struct quantize_run *r, const struct tensor_view *view, long entry, struct error *err)
{
    const struct copy c = {r, view, entry};
    int rc = 0;
    for (size_t at = 0; at < view->bytes && !rc;) {
        size_t n = view->bytes - at < PIECE * sizeof(float) ? view->bytes - at : PIECE * sizeof(float);
        if (stopped(r))
            return quantize_run_error(r, err);
        struct quantize_space *s = take(r, PIECE, 1, err);
        if (!s)
            return ERR_MEMORY;
        rc = copy_part(&c, at, n, s->x, err);
        give_back(r, s);
        at += n;
        done(r, n);
    }
    if (!rc)
        safetensors_writer_flush(r->writer, (size_t)entry);
    return rc;
}
