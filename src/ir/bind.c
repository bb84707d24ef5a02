// SPDX-License-Identifier: Apache-2.0
#include "ir/bind.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "num/convert.h"

static const struct shape *shape_at(const struct module *m, int parameter)
{
    return &m->instructions[m->parameters[parameter].instruction].shape;
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

// Codes and scales are made of the transpose.
static bool is_turned(const struct binding *b)
{
    return b->columns && b->part != BIND_VALUES;
}

// A matrix whose codes are made of its transpose: it comes from one tensor.
static int check_turned(const struct binding *b, const struct shape *s, const struct tensor_view *v, struct error *err)
{
    bool one_scale = b->part == BIND_SCALES && b->grain == GRAIN_TENSOR; // says nothing of either dimension
    int64_t rows = s->rank ? s->dims[0] : 1, columns = columns_of(b, s);
    if (v->rank == 2 && (one_scale || (v->dims[1] == rows && (columns < 0 || v->dims[0] == columns))))
        return 0;
    return error_set(err, ERR_INPUT, v->name, "is not the transpose of the %" PRId64 " rows that the program asks for",
                     rows);
}

static int check_one(const struct module *m, const struct checkpoint *c, int i, struct error *err)
{
    const struct binding *b = &m->parameters[i].binding;
    const struct shape *s = shape_at(m, i);
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
        if (is_turned(b))
            return check_turned(b, s, v, err);
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

int bind_check(const struct module *m, const struct checkpoint *c, struct error *err)
{
    for (int i = 0; i < m->n_parameters; i++) {
        int rc = m->parameters[i].role == ROLE_WEIGHT ? check_one(m, c, i, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

bool bind_find(const struct module *m, const struct checkpoint *c, int i, struct bind_place *out)
{
    const struct binding *b = &m->parameters[i].binding;
    if (!b->n_sources || b->part != BIND_VALUES)
        return false;
    for (int k = 0; k < b->n_sources; k++) {
        const struct tensor_view *v = checkpoint_find(c, b->sources[k]);
        if (!v || v->dtype != b->store)
            return false;
        if (!k)
            *out = (struct bind_place){v->file, v->offset, 0, v->name};
        if (v->file != out->file || v->offset != out->offset + out->bytes)
            return false;
        out->bytes += v->bytes;
    }
    return true;
}

// The sources one behind the other, as `type`.
static int read_sources(const struct checkpoint *c, const struct binding *b, enum dtype type, void *dst,
                        struct error *err)
{
    uint8_t *at = dst;
    for (int k = 0; k < b->n_sources; k++) {
        const struct tensor_view *v;
        int rc = checkpoint_require(c, b->sources[k], &v, err);
        if (!rc)
            rc = checkpoint_read_as(c, v, type, at, err);
        if (rc)
            return rc;
        checkpoint_forget(c, v);
        at += v->elements * (size_t)dtype_bits(type) / 8;
    }
    return 0;
}

// Codes and scales of [rows, columns]; either may be NULL when it is not wanted.
static int make_codes(const struct binding *b, const float *values, const int64_t *dims, void *codes, void *scales,
                      struct quant_stats *stats, struct error *err)
{
    struct quant_spec spec = {
        .type = b->code,
        .granularity = b->grain == GRAIN_GROUP     ? QUANT_PER_GROUP
                       : b->grain == GRAIN_CHANNEL ? QUANT_PER_CHANNEL
                                                   : QUANT_PER_TENSOR,
        .channel_axis = 0,
        .group_axis = 1,
        .group = b->group,
    };
    struct quant_layout layout;
    struct quant_stats ignored;
    int rc = quant_layout(&spec, dims, 2, b->sources[0], &layout, err);
    if (rc)
        return rc;
    if (!codes)
        return quantize_scales(&spec, dims, 2, values, scales, NULL, NULL, b->sources[0], err);
    float *own_scales = scales ? NULL : malloc(layout.scale_bytes ? layout.scale_bytes : 1);
    int8_t *unpacked = b->packed ? malloc(layout.elements ? layout.elements : 1) : codes;
    if ((!scales && !own_scales) || !unpacked)
        rc = error_set(err, ERR_MEMORY, b->sources[0], "no memory to quantise %zu values", layout.elements);
    if (!rc)
        rc = quantize(&spec, dims, 2, values, unpacked, scales ? scales : own_scales, NULL, stats ? stats : &ignored,
                      b->sources[0], err);
    if (!rc && b->packed)
        rc = quant_pack(b->code, dims, 2, 1, unpacked, codes, err);
    if (b->packed)
        free(unpacked);
    free(own_scales);
    return rc;
}

// Rows and columns of what the sources hold together.
static void source_dims(const struct checkpoint *c, const struct binding *b, const struct shape *s, int64_t dims[2])
{
    dims[0] = 0;
    for (int k = 0; k < b->n_sources; k++) {
        const struct tensor_view *v = checkpoint_find(c, b->sources[k]);
        dims[0] += v->rank ? v->dims[0] : 1;
    }
    if (b->part == BIND_VALUES)
        dims[1] = dims[0] ? shape_elements(s) / dims[0] : 0;
    else
        dims[1] = checkpoint_find(c, b->sources[0])->dims[1];
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

// Puts the transpose of a matrix in its place.
static int turn_values(float **values, int64_t dims[2], size_t n, const char *name, struct error *err)
{
    float *turned = malloc(n ? n * sizeof *turned : 1);
    if (!turned)
        return error_set(err, ERR_MEMORY, name, "no memory for %zu values", n);
    turn(*values, turned, (size_t)dims[0], (size_t)dims[1]);
    free(*values);
    *values = turned;
    int64_t rows = dims[0];
    dims[0] = dims[1];
    dims[1] = rows;
    return 0;
}

// A parameter's values in f32, made into what it stores; codes take their scales along where `scales` is not NULL.
static int convert_sources(const struct checkpoint *c, const struct binding *b, const struct shape *s, void *dst,
                           void *scales, struct quant_stats *stats, struct error *err)
{
    int64_t dims[2];
    size_t n;
    source_dims(c, b, s, dims);
    if (!size_product(dims, 2, &n) || n > SIZE_MAX / sizeof(float))
        return error_set(err, ERR_INPUT, b->sources[0], "is too large to convert");
    float *values = malloc(n ? n * sizeof *values : 1);
    if (!values)
        return error_set(err, ERR_MEMORY, b->sources[0], "no memory for %zu values", n);
    int rc = read_sources(c, b, DT_F32, values, err);
    if (!rc && is_turned(b))
        rc = turn_values(&values, dims, n, b->sources[0], err);
    if (!rc && b->part == BIND_VALUES) {
        struct quant_stats ignored;
        rc = quantize_float(b->store, dims, 2, 0, values, dst, stats ? stats : &ignored, b->sources[0], err);
    } else if (!rc) {
        bool codes = b->part == BIND_CODES;
        rc = make_codes(b, values, dims, codes ? dst : NULL, codes ? scales : dst, stats, err);
    }
    free(values);
    return rc;
}

int bind_make(const struct module *m, const struct checkpoint *c, int i, void *dst, struct quant_stats *stats,
              struct error *err)
{
    const struct binding *b = &m->parameters[i].binding;
    if (stats)
        memset(stats, 0, sizeof *stats);
    int rc = b->n_sources ? check_one(m, c, i, err)
                          : error_set(err, ERR_INTERNAL, m->parameters[i].name, "does not come from a checkpoint");
    if (rc)
        return rc;
    bool same = b->part == BIND_VALUES;
    for (int k = 0; k < b->n_sources && same; k++)
        same = checkpoint_find(c, b->sources[k])->dtype == b->store;
    if (same || (b->part == BIND_VALUES && (b->store == DT_F32 || b->store == DT_F64)))
        return read_sources(c, b, b->store, dst, err);
    return convert_sources(c, b, shape_at(m, i), dst, NULL, stats, err);
}

int bind_scales_of(const struct module *m, int i)
{
    const struct binding *b = &m->parameters[i].binding;
    if (b->part != BIND_CODES || i + 1 >= m->n_parameters)
        return -1;
    const struct binding *next = &m->parameters[i + 1].binding;
    bool same = next->part == BIND_SCALES && next->n_sources == b->n_sources && next->code == b->code &&
                next->grain == b->grain && next->group == b->group;
    for (int k = 0; k < b->n_sources && same; k++)
        same = strcmp(next->sources[k], b->sources[k]) == 0;
    return same ? i + 1 : -1;
}

int bind_make_coded(const struct module *m, const struct checkpoint *c, int i, void *codes, void *scales,
                    struct quant_stats *stats, struct error *err)
{
    if (bind_scales_of(m, i) < 0)
        return error_set(err, ERR_INTERNAL, m->parameters[i].name, "has no scales beside its codes");
    int rc = check_one(m, c, i, err);
    return rc ? rc : convert_sources(c, &m->parameters[i].binding, shape_at(m, i), codes, scales, stats, err);
}
