// SPDX-License-Identifier: Apache-2.0
// Any rule on any values: what is accepted keeps its bound, its scales can be stored, its codes packed, and the kernels
// do what the plain loops do.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/quantize_internal.h"
#include "num/quantize_kernels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ELEMENTS = 4096, HEADER = 32 };

static void must(bool holds)
{
    if (!holds)
        abort();
}

static struct quant_spec read_spec(const uint8_t *b)
{
    static const enum dtype types[] = {DT_S2,     DT_S4,  DT_S8,        DT_S16,       DT_U2,       DT_U4,
                                       DT_U8,     DT_U16, DT_F8E4M3FN,  DT_F8E5M2,    DT_F4E2M1FN, DT_F6E3M2FN,
                                       DT_F8E3M4, DT_F16, DT_F8E8M0FNU, DT_F8E4M3FNUZ};
    static const enum dtype scales[] = {DT_INVALID, DT_F32, DT_F16, DT_BF16, DT_F8E8M0FNU, DT_F8E4M3FN, DT_F64, DT_S8};
    struct quant_spec s = {
        .type = types[b[0] % 16],
        .granularity = (enum quant_granularity)(b[1] % 5),
        .channel_axis = (int)(b[2] % 5) - 1,
        .group_axis = (int)(b[3] % 5) - 1,
        .group = (int8_t)b[4],
        .short_last = b[5] & 1,
        .mapping = (enum quant_mapping)(b[6] & 1),
        .range = (enum quant_code_range)(b[6] >> 1 & 1),
        .divisor = (enum quant_divisor)(b[6] >> 2 & 1),
        .zero_order = (enum quant_zero_order)(b[6] >> 3 & 1),
        .rounding = (enum quant_rounding)(b[6] >> 4 & 1),
        .reciprocal = b[6] >> 5 & 1,
        .scale_up = b[6] >> 6 & 1,
        .from = (enum quant_range_from)(b[7] % 3),
        .search = {.percentile = b[8] / 2.0,
                   .steps = b[9] % 40,
                   .max_shrink = b[10] / 256.0,
                   .norm = b[11] / 40.0,
                   .patience = b[12] % 4},
        .scale_type = scales[b[13] % 8],
        .nonfinite = (enum quant_nonfinite)(b[14] % 3),
    };
    for (int d = 0; d < 4; d++)
        s.block[d] = b[15 + d] % 9;
    return s;
}

struct tensor {
    int64_t dims[4];
    int rank;
    struct quant_layout l;
    float *x, *scales, *back;
    int32_t *zeros;
    uint8_t *codes, *again, *bytes;
};

static bool allocate(struct tensor *t)
{
    size_t n = t->l.elements;
    t->x = malloc(n * sizeof *t->x);
    t->back = malloc(n * sizeof *t->back);
    t->scales = malloc(t->l.scale_bytes);
    t->zeros = malloc(t->l.scale_count * sizeof *t->zeros);
    t->codes = calloc(n, (size_t)t->l.code_size);
    t->again = calloc(n, (size_t)t->l.code_size);
    t->bytes = malloc(t->l.stored_scale_bytes + n);
    return t->x && t->back && t->scales && t->zeros && t->codes && t->again && t->bytes;
}

static void check_codes(const struct quant_spec *s, struct tensor *t, const struct quant_stats *stats)
{
    struct error err = {0};
    struct quant_walk w;
    struct quant_stats plain = {.nonfinite = stats->nonfinite};
    size_t bytes = t->l.elements * (size_t)t->l.code_size;
    const int32_t *zeros = t->l.has_zeros ? t->zeros : NULL;
    quant_walk_init(&w, s, t->dims, t->rank, t->l.elements);
    must(quant_encode_tensor(s, &w, &t->l, NULL, t->x, t->scales, zeros, t->again, &plain, "fuzz", &err) == 0);
    must(memcmp(t->codes, t->again, bytes) == 0);
    must(plain.clipped == stats->clipped && plain.flushed == stats->flushed);
    must(plain.max_abs_error == stats->max_abs_error && plain.max_error_in_scales == stats->max_error_in_scales);
    must(dequantize(s, t->dims, t->rank, t->codes, t->scales, t->zeros, t->back, "fuzz", &err) == 0);
    // The reciprocal of a scale above 2^126 is subnormal, which the bound does not know.
    must(stats->bound_holds || (s->reciprocal && stats->scale_max > 0x1p126));
    if (dtype_is_integer(s->type) && dtype_bits(s->type) < 8 && t->rank > 0) {
        memset(t->again, 0x55, bytes);
        must(quant_pack(s->type, t->dims, t->rank, t->rank - 1, t->codes, t->bytes, &err) == 0);
        must(quant_unpack(s->type, t->dims, t->rank, t->rank - 1, t->bytes, t->again, &err) == 0);
        must(memcmp(t->codes, t->again, bytes) == 0);
    }
}

static void check_scales(const struct quant_spec *s, struct tensor *t)
{
    struct error err = {0};
    double lowest, highest;
    quant_code_limits(s, &lowest, &highest);
    for (size_t i = 0; i < t->l.scale_count; i++) {
        must(t->scales[i] > 0 && isfinite(t->scales[i]));
        must(!t->l.has_zeros || (t->zeros[i] >= lowest && t->zeros[i] <= highest));
    }
    must(quant_store_scales(s, t->scales, t->l.scale_count, t->bytes, "fuzz", &err) == 0);
    must(quant_load_scales(s, t->bytes, t->l.scale_count, t->back, "fuzz", &err) == 0);
    must(memcmp(t->back, t->scales, t->l.scale_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER + sizeof(float))
        return 0;
    struct quant_spec s = read_spec(data);
    struct tensor t = {.rank = data[20] % 5};
    struct error err = {0};
    struct str words;
    for (int d = 0; d < 4; d++)
        t.dims[d] = data[21 + d] % 20;
    if (quant_layout(&s, t.dims, t.rank, "fuzz", &t.l, &err) || t.l.elements > MAX_ELEMENTS) {
        must(err.code == ERR_USAGE || t.l.elements > MAX_ELEMENTS);
        return 0;
    }
    if (allocate(&t)) {
        size_t values = (size - HEADER) / sizeof(float);
        for (size_t i = 0; i < t.l.elements; i++)
            memcpy(&t.x[i], data + HEADER + i % values * sizeof(float), sizeof(float));
        struct quant_stats stats;
        if (quantize(&s, t.dims, t.rank, t.x, t.codes, t.scales, t.zeros, &stats, "fuzz", &err)) {
            must(err.code == ERR_INPUT && stats.nonfinite > 0 && s.nonfinite == QUANT_REFUSE);
        } else {
            check_codes(&s, &t, &stats);
            check_scales(&s, &t);
        }
        str_init(&words);
        quant_describe(&s, &words);
        must(words.length > 20);
        str_release(&words);
    }
    free(t.x), free(t.back), free(t.scales), free(t.zeros), free(t.codes), free(t.again), free(t.bytes);
    return 0;
}
