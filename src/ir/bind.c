// SPDX-License-Identifier: Apache-2.0
#include "ir/bind.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/threads.h"
#include "num/convert.h"
#include "num/quantize_array.h"

enum {
    ALONE = 1 << 18, // so many values are made into codes before other threads have begun
    PIECE = 1 << 17  // values that a thread makes into codes at once: they stay in its cache
};

// What a parameter is made of: one weight, or the weights of a stack.
struct pile {
    int n;
    const struct binding *bindings;
    struct shape shape; // of each
};

static struct pile pile_of(const struct module *m, int parameter)
{
    const struct parameter *p = &m->parameters[parameter];
    const struct shape *s = &m->instructions[p->instruction].shape;
    struct pile pile = {1, &p->binding, *s};
    if (p->binding.n_layers) {
        pile = (struct pile){p->binding.n_layers, p->binding.layers, {.dtype = s->dtype, .rank = s->rank - 1}};
        memcpy(pile.shape.dims, s->dims + 1, (size_t)pile.shape.rank * sizeof *s->dims);
    }
    return pile;
}

// Shape of the original values: what codes unpack to, or what scales were made from (rows known, columns not).
static int64_t columns_of(const struct binding *b, const struct shape *s)
{
    if (s->rank < 2)
        return b->part == BIND_SCALES ? -1 : 1;
    if (b->part == BIND_SCALES)
        return s->dims[1] * b->group;
    return b->packed ? s->dims[1] * 2 : s->dims[1];
}

// Codes and scales are made of the weight's axes in another order, or of a stack.
static bool is_arranged(const struct binding *b)
{
    return b->as.rank && b->part != BIND_VALUES;
}

// What a tensor's axes come to: matrices, their rows and columns.
static void arranged(const struct arrangement *as, const int64_t *dims, int64_t out[3])
{
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < as->rank; i++)
        out[i < as->n_stack ? 0 : i < as->n_stack + as->n_rows ? 1 : 2] *= dims[as->axes[i]];
}

// A weight whose codes lie in another order comes from one tensor.
static int check_arranged(const struct binding *b, const struct shape *s, const struct tensor_view *v,
                          struct error *err)
{
    const struct arrangement *as = &b->as;
    int64_t sizes[3] = {0, 0, 0};
    bool scales = b->part == BIND_SCALES, fits = v->rank == as->rank && b->n_sources == 1;
    for (int i = 0; i < as->n_stack && fits; i++)
        fits = i < s->rank && s->dims[i] == v->dims[as->axes[i]];
    if (fits)
        arranged(as, v->dims, sizes);
    int at = as->n_stack;
    if (fits && (!scales || b->grain != GRAIN_TENSOR))
        fits = at < s->rank && s->dims[at] == sizes[1];
    if (fits && !scales)
        fits = at + 1 < s->rank && s->dims[at + 1] == (b->packed ? sizes[2] / 2 : sizes[2]);
    if (fits && scales && b->grain == GRAIN_GROUP)
        fits = at + 1 < s->rank && s->dims[at + 1] * b->group == sizes[2];
    return fits ? 0
                : error_set(err, ERR_INPUT, v->name, "is not what the program asks for: its axes have other extents");
}

static int check_weight(const struct binding *b, const struct shape *s, const struct checkpoint *c, struct error *err)
{
    int64_t rows = 0, columns = columns_of(b, s);
    int rank = b->part == BIND_SCALES ? 2 : s->rank;
    for (int k = 0; k < b->n_sources; k++) {
        const struct tensor_view *v;
        int rc = checkpoint_require(c, b->sources[k], &v, err);
        if (rc)
            return rc;
        // Integers are codes or indices: without knowing their scales they mean nothing.
        if (!dtype_is_float(v->dtype) || dtype_bits(v->dtype) < 8)
            return error_set(err, ERR_INPUT, v->name, "is stored as %s; weights are read from floating-point numbers",
                             tensor_type_name(v));
        if (is_arranged(b))
            return check_arranged(b, s, v, err);
        bool fits = v->rank == rank && (rank < 2 || columns < 0 || v->dims[1] == columns);
        for (int d = 2; d < rank && fits; d++)
            fits = v->dims[d] == s->dims[d];
        if (!fits)
            return error_set(err, ERR_INPUT, v->name,
                             "has rank %d and %" PRId64 " columns; the configuration asks for rank %d and %" PRId64,
                             v->rank, v->rank > 1 ? v->dims[1] : 1, rank, columns);
        columns = v->rank > 1 ? v->dims[1] : columns; // every source is as wide as the first
        rows += v->rank ? v->dims[0] : 1;
    }
    bool one_scale = b->part == BIND_SCALES && b->grain == GRAIN_TENSOR; // says nothing about rows
    int64_t want = s->rank ? s->dims[0] : 1;
    if (rows != want && !one_scale)
        return error_set(err, ERR_INPUT, b->sources[0], "has %" PRId64 " rows%s; the configuration asks for %" PRId64,
                         rows, b->n_sources > 1 ? " together with the tensors stacked on it" : "", want);
    return 0;
}

static int check_one(const struct module *m, const struct checkpoint *c, int i, struct error *err)
{
    struct pile p = pile_of(m, i);
    int rc = 0;
    for (int k = 0; k < p.n && !rc; k++)
        rc = check_weight(&p.bindings[k], &p.shape, c, err);
    return rc;
}

int bind_check(const struct module *m, const struct checkpoint *c, struct error *err)
{
    for (int i = 0; i < m->n_parameters; i++) {
        int rc = m->parameters[i].role == ROLE_WEIGHT ? check_one(m, c, i, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

// Where source k lies, when it is stored as the parameter is.
static bool source_place(const struct binding *b, const struct checkpoint *c, int k, struct bind_place *out)
{
    const struct tensor_view *v = checkpoint_find(c, b->sources[k]);
    if (!v || v->dtype != b->store || b->part != BIND_VALUES)
        return false;
    *out = (struct bind_place){v->file, v->offset, v->bytes, v->name};
    return true;
}

bool bind_find(const struct module *m, const struct checkpoint *c, int i, struct bind_place *out)
{
    struct pile p = pile_of(m, i);
    for (int k = 0, n = 0; k < p.n; k++) {
        for (int j = 0; j < p.bindings[k].n_sources; j++, n++) {
            struct bind_place at;
            if (!source_place(&p.bindings[k], c, j, &at) ||
                (n && (at.file != out->file || at.offset != out->offset + out->bytes)))
                return false;
            if (n)
                out->bytes += at.bytes;
            else
                *out = at;
        }
    }
    return p.bindings->n_sources > 0;
}

int bind_n_sources(const struct module *m, int i)
{
    struct pile p = pile_of(m, i);
    int n = 0;
    for (int k = 0; k < p.n; k++)
        n += p.bindings[k].n_sources;
    return n;
}

bool bind_parts(const struct module *m, const struct checkpoint *c, int i, struct bind_place *parts)
{
    struct pile p = pile_of(m, i);
    for (int k = 0, n = 0; k < p.n; k++) {
        for (int j = 0; j < p.bindings[k].n_sources; j++, n++) {
            if (!source_place(&p.bindings[k], c, j, &parts[n]) || parts[n].file != parts[0].file)
                return false;
        }
    }
    return p.bindings->n_sources > 0;
}

// The sources, of which there is one at least, one behind the other, as `type`.
static int read_sources(const struct checkpoint *c, const struct binding *b, enum dtype type, void *dst,
                        struct error *err)
{
    uint8_t *at = dst;
    int k = 0;
    do {
        const struct tensor_view *v;
        int rc = checkpoint_require(c, b->sources[k], &v, err);
        if (!rc)
            rc = checkpoint_read_as(c, v, type, at, err);
        if (rc)
            return rc;
        checkpoint_forget(c, v);
        at += v->elements * (size_t)dtype_bits(type) / 8;
    } while (++k < b->n_sources);
    return 0;
}

// Codes are made by quantize_array, which counts nothing and packs what it makes.
static bool uncounted(const struct binding *b, const struct quant_stats *stats)
{
    return b->part == BIND_CODES && !stats && (b->packed || dtype_bits(b->code) == 8);
}

// The type of all sources where codes can be made of it as it is, else f32.
static enum dtype type_of_values(const struct checkpoint *c, const struct binding *b, const struct quant_stats *stats)
{
    enum dtype type = checkpoint_find(c, b->sources[0])->dtype;
    bool fits = uncounted(b, stats) && !is_arranged(b) && (type == DT_BF16 || type == DT_F16);
    for (int k = 1; k < b->n_sources && fits; k++)
        fits = checkpoint_find(c, b->sources[k])->dtype == type;
    return fits ? type : DT_F32;
}

// How [matrices, rows, columns] quantise, and as which rows and columns.
static struct quant_spec spec_of(const struct binding *b, const int64_t sizes[3], int64_t dims[2])
{
    // Rows quantise by themselves, whichever matrix they are of. A matrix with one scale is a row of its own.
    bool stack = b->as.n_stack > 0, tensors = stack && b->grain == GRAIN_TENSOR;
    dims[0] = tensors ? sizes[0] : sizes[0] * sizes[1];
    dims[1] = tensors ? sizes[1] * sizes[2] : sizes[2];
    return (struct quant_spec){
        .type = b->code,
        .granularity = b->grain == GRAIN_GROUP                ? QUANT_PER_GROUP
                       : b->grain == GRAIN_CHANNEL || tensors ? QUANT_PER_CHANNEL
                                                              : QUANT_PER_TENSOR,
        .channel_axis = 0,
        .group_axis = 1,
        .group = b->group,
    };
}

// Codes and scales of [matrices, rows, columns] of `type`; either may be NULL when it is not wanted.
static int make_codes(const struct binding *b, enum dtype type, const void *values, const int64_t sizes[3], void *codes,
                      void *scales, struct quant_stats *stats, struct error *err)
{
    int64_t dims[2];
    const struct quant_spec spec = spec_of(b, sizes, dims);
    struct quant_layout layout;
    struct quant_stats ignored;
    int rc = quant_layout(&spec, dims, 2, b->sources[0], &layout, err);
    if (rc)
        return rc;
    if (!codes)
        return quantize_scales(&spec, dims, 2, values, scales, NULL, NULL, b->sources[0], err);
    float *own_scales = scales ? NULL : malloc(layout.scale_bytes ? layout.scale_bytes : 1);
    bool quick = uncounted(b, stats);
    int8_t *unpacked = b->packed && !quick ? malloc(layout.elements ? layout.elements : 1) : codes;
    if ((!scales && !own_scales) || !unpacked)
        rc = error_set(err, ERR_MEMORY, b->sources[0], "no memory to quantise %zu values", layout.elements);
    if (!rc && quick) {
        struct threads *threads = layout.elements > ALONE ? threads_try() : NULL;
        rc = quantize_array(&spec, dims, 2, type, values, codes, scales ? scales : own_scales, NULL, threads,
                            b->sources[0], err);
        threads_free(threads);
    } else if (!rc) {
        rc = quantize(&spec, dims, 2, values, unpacked, scales ? scales : own_scales, NULL, stats ? stats : &ignored,
                      b->sources[0], err);
        if (!rc && b->packed)
            rc = quant_pack(b->code, dims, 2, 1, unpacked, codes, err);
    }
    if (unpacked != codes)
        free(unpacked);
    free(own_scales);
    return rc;
}

// Matrices, rows and columns of what the sources hold together.
static void source_sizes(const struct checkpoint *c, const struct binding *b, const struct shape *s, int64_t dims[3])
{
    const struct tensor_view *first = checkpoint_find(c, b->sources[0]);
    if (is_arranged(b)) {
        arranged(&b->as, first->dims, dims);
        return;
    }
    dims[0] = 1;
    dims[1] = 0;
    for (int k = 0; k < b->n_sources; k++) {
        const struct tensor_view *v = checkpoint_find(c, b->sources[k]);
        dims[1] += v->rank ? v->dims[0] : 1;
    }
    dims[2] = b->part != BIND_VALUES ? first->dims[1] : dims[1] ? shape_elements(s) / dims[1] : 0;
}

// [rows, columns] to [columns, rows], in blocks that stay in the cache.
static void turn(const float *from, float *to, size_t rows, size_t columns)
{
    enum { BLOCK = 32 };
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK) {
        for (size_t c0 = 0; c0 < columns; c0 += BLOCK) {
            for (size_t r = r0; r < rows && r < r0 + BLOCK; r++) {
                for (size_t c = c0; c < columns && c < c0 + BLOCK; c++)
                    to[c * rows + r] = from[r * columns + c];
            }
        }
    }
}

// The part of an order that stays in front, and whether the rest only changes places with what is behind it: the axes
// from `split` on come before those between.
static bool is_turn(const struct arrangement *as, int *fixed, int *split)
{
    int n = as->rank, i = 0;
    while (i < n && as->axes[i] == i)
        i++;
    *fixed = i;
    *split = i < n ? as->axes[i] : n;
    for (int k = i; k < n; k++) {
        int want = *split + (k - i);
        if (as->axes[k] != (want < n ? want : want - n + i))
            return false;
    }
    return true;
}

// Elements of `from`, a tensor of these dimensions, in the order of the arrangement.
static void reorder(const struct arrangement *as, const int64_t *dims, const float *from, float *to, size_t n)
{
    size_t stride[SHAPE_MAX_RANK] = {0}, at[SHAPE_MAX_RANK] = {0}, place = 0, steps = 1;
    for (int d = as->rank - 1; d >= 0; d--) {
        stride[d] = steps;
        steps *= (size_t)dims[d];
    }
    for (size_t i = 0; i < n; i++) {
        to[i] = from[place];
        for (int d = as->rank - 1; d >= 0; d--) { // the next index, the last axis first
            int axis = as->axes[d];
            place += stride[axis];
            if (++at[d] < (size_t)dims[axis])
                break;
            place -= stride[axis] * (size_t)dims[axis];
            at[d] = 0;
        }
    }
}

// Puts a tensor's elements in the order in which its codes are made.
static int arrange_values(const struct arrangement *as, const int64_t *dims, float **values, size_t n, const char *name,
                          struct error *err)
{
    int fixed, split;
    bool turns = is_turn(as, &fixed, &split);
    if (fixed == as->rank)
        return 0;
    float *out = malloc(n ? n * sizeof *out : 1);
    if (!out)
        return error_set(err, ERR_MEMORY, name, "no memory for %zu values", n);
    size_t rows = 1, columns = 1;
    for (int d = fixed; d < as->rank; d++)
        *(d < split ? &rows : &columns) *= (size_t)dims[d];
    if (!turns)
        reorder(as, dims, *values, out, n);
    for (size_t i = 0; turns && i < n; i += rows * columns)
        turn(*values + i, out + i, rows, columns);
    free(*values);
    *values = out;
    return 0;
}

// Rows of a source that become codes where they lie.
struct pieces {
    const struct checkpoint *c;
    const struct tensor_view *v;
    struct quant_spec spec;
    size_t columns, code_bytes, scales_per_row; // of a row
    uint8_t *codes;                             // of the source's first row
    float *scales;
    atomic_bool failed;
};

// n values of the view from `at` on, where they lie or as f32 in memory of our own: *made, to be freed.
static const void *piece_values(const struct tensor_view *v, size_t at, size_t n, enum dtype *type, void **made)
{
    size_t size = (size_t)dtype_bits(v->dtype) / 8;
    const uint8_t *from = v->data + at * size;
    struct error ignored = {0};
    *type = v->dtype;
    *made = NULL;
    if ((*type == DT_F32 || *type == DT_BF16 || *type == DT_F16) && (uintptr_t)from % size == 0)
        return from;
    *type = DT_F32;
    *made = malloc(n * sizeof(float));
    return *made && convert_elements(DT_F32, *made, v->dtype, from, n, &ignored) == 0 ? *made : NULL;
}

static void code_rows(void *context, size_t from, size_t to)
{
    struct pieces *p = context;
    void *volatile made = NULL;
    struct file_guard g;
    if (FILE_GUARD(&g, &p->c->files[p->v->file])) {
        file_guard_end(&g);
        atomic_store(&p->failed, true);
    } else {
        // One piece after the other: a thread that works alone is given all rows.
        size_t step = PIECE / p->columns + 1;
        for (size_t row = from; row < to && !atomic_load(&p->failed); row += step) {
            size_t rows = to - row < step ? to - row : step;
            const int64_t dims[2] = {(int64_t)rows, (int64_t)p->columns};
            struct error ignored = {0};
            enum dtype type;
            void *own;
            const void *x = piece_values(p->v, row * p->columns, rows * p->columns, &type, &own);
            made = own;
            if (!x || quantize_array(&p->spec, dims, 2, type, x, p->codes + row * p->code_bytes,
                                     p->scales + row * p->scales_per_row, NULL, NULL, p->v->name, &ignored) != 0)
                atomic_store(&p->failed, true);
            free(own);
            made = NULL;
        }
        file_guard_end(&g);
    }
    free(made);
}

// Whether codes can be made row by row, of values in the order in which they lie.
static bool is_by_rows(const struct binding *b, const struct quant_stats *stats)
{
    int fixed = 0, split;
    if (is_arranged(b))
        is_turn(&b->as, &fixed, &split);
    return uncounted(b, stats) && fixed == b->as.rank && (b->grain != GRAIN_TENSOR || b->as.n_stack > 0);
}

// Codes of what lies in the checkpoint, made piece by piece and by all threads: nothing of a weight's size is needed
// beside them. False when that cannot be; what is wrong then shows when all values are read first.
static bool code_in_place(const struct checkpoint *c, const struct binding *b, const int64_t sizes[3], void *codes,
                          float *scales)
{
    int64_t dims[2];
    struct pieces p = {.c = c, .spec = spec_of(b, sizes, dims), .codes = codes};
    struct quant_layout layout;
    struct error ignored = {0};
    if (dims[0] < 1 || dims[1] < 1 || quant_layout(&p.spec, dims, 2, b->sources[0], &layout, &ignored) != 0)
        return false;
    float *own_scales = scales ? NULL : malloc(layout.scale_bytes + 1);
    p.scales = scales ? scales : own_scales;
    p.columns = (size_t)dims[1];
    p.code_bytes = layout.code_bytes / (size_t)dims[0];
    p.scales_per_row = layout.scale_count / (size_t)dims[0];
    struct threads *threads = layout.elements > ALONE ? threads_try() : NULL;
    for (int k = 0; k < b->n_sources && p.scales && !p.failed; k++) {
        p.v = checkpoint_find(c, b->sources[k]);
        size_t rows = p.v->elements / p.columns;
        threads_for(threads, rows, PIECE / p.columns + 1, code_rows, &p);
        checkpoint_forget(c, p.v);
        p.codes += rows * p.code_bytes;
        p.scales += rows * p.scales_per_row;
    }
    threads_free(threads);
    free(own_scales);
    return p.scales && !p.failed;
}

// A parameter's values, made into what it stores; codes take their scales along where `scales` is not NULL.
static int convert_sources(const struct checkpoint *c, const struct binding *b, const struct shape *s, void *dst,
                           void *scales, struct quant_stats *stats, struct error *err)
{
    int64_t sizes[3];
    size_t n;
    source_sizes(c, b, s, sizes);
    if (!size_product(sizes, 3, &n) || n > SIZE_MAX / sizeof(float))
        return error_set(err, ERR_INPUT, b->sources[0], "is too large to convert");
    if (is_by_rows(b, stats) && code_in_place(c, b, sizes, dst, scales))
        return 0;
    enum dtype type = type_of_values(c, b, stats);
    float *values = malloc((n ? n : 1) * (size_t)dtype_bits(type) / 8);
    if (!values)
        return error_set(err, ERR_MEMORY, b->sources[0], "no memory for %zu values", n);
    int rc = read_sources(c, b, type, values, err);
    if (!rc && is_arranged(b))
        rc = arrange_values(&b->as, checkpoint_find(c, b->sources[0])->dims, &values, n, b->sources[0], err);
    if (!rc && b->part == BIND_VALUES) {
        struct quant_stats ignored;
        rc = quantize_float(b->store, sizes + 1, 2, 0, values, dst, stats ? stats : &ignored, b->sources[0], err);
    } else if (!rc) {
        bool codes = b->part == BIND_CODES;
        rc = make_codes(b, type, values, sizes, codes ? dst : NULL, codes ? scales : dst, stats, err);
    }
    free(values);
    return rc;
}

static int make_values(const struct checkpoint *c, const struct binding *b, const struct shape *s, void *dst,
                       struct quant_stats *stats, struct error *err)
{
    bool same = b->part == BIND_VALUES;
    for (int k = 0; k < b->n_sources && same; k++)
        same = checkpoint_find(c, b->sources[k])->dtype == b->store;
    if (same || (b->part == BIND_VALUES && (b->store == DT_F32 || b->store == DT_F64)))
        return read_sources(c, b, b->store, dst, err);
    return convert_sources(c, b, s, dst, NULL, stats, err);
}

int bind_make(const struct module *m, const struct checkpoint *c, int i, void *dst, struct quant_stats *stats,
              struct error *err)
{
    struct pile p = pile_of(m, i);
    size_t bytes = (size_t)shape_bytes(&p.shape);
    if (stats)
        memset(stats, 0, sizeof *stats);
    int rc = p.bindings->n_sources
                 ? check_one(m, c, i, err)
                 : error_set(err, ERR_INTERNAL, m->parameters[i].name, "does not come from a checkpoint");
    for (int k = 0; k < p.n && !rc; k++)
        rc = make_values(c, &p.bindings[k], &p.shape, (uint8_t *)dst + (size_t)k * bytes, p.n == 1 ? stats : NULL, err);
    return rc;
}

// Whether b holds the scales of the codes in a.
static bool is_scales_of(const struct binding *a, const struct binding *b)
{
    bool same = a->part == BIND_CODES && b->part == BIND_SCALES && b->n_sources == a->n_sources && b->code == a->code &&
                b->grain == a->grain && b->group == a->group;
    for (int k = 0; k < a->n_sources && same; k++)
        same = strcmp(b->sources[k], a->sources[k]) == 0;
    return same;
}

int bind_scales_of(const struct module *m, int i)
{
    if (i + 1 >= m->n_parameters)
        return -1;
    struct pile codes = pile_of(m, i), scales = pile_of(m, i + 1);
    bool same = codes.n == scales.n;
    for (int k = 0; k < codes.n && same; k++)
        same = is_scales_of(&codes.bindings[k], &scales.bindings[k]);
    return same ? i + 1 : -1;
}

int bind_make_coded(const struct module *m, const struct checkpoint *c, int i, void *codes, void *scales,
                    struct quant_stats *stats, struct error *err)
{
    int pair = bind_scales_of(m, i);
    if (pair < 0)
        return error_set(err, ERR_INTERNAL, m->parameters[i].name, "has no scales beside its codes");
    struct pile p = pile_of(m, i), q = pile_of(m, pair);
    size_t code_bytes = (size_t)shape_bytes(&p.shape), scale_bytes = (size_t)shape_bytes(&q.shape);
    if (stats)
        memset(stats, 0, sizeof *stats);
    int rc = check_one(m, c, i, err);
    for (int k = 0; k < p.n && !rc; k++)
        rc = convert_sources(c, &p.bindings[k], &p.shape, (uint8_t *)codes + (size_t)k * code_bytes,
                             (uint8_t *)scales + (size_t)k * scale_bytes, p.n == 1 ? stats : NULL, err);
    return rc;
}
