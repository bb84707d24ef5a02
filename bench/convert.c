// SPDX-License-Identifier: Apache-2.0
// The side of bench/convert that is ours: convert MEGABYTES THREADS. Holds one array of f32, its results, and what comes
// back from them, all allocated and touched before anything is timed. Each line on stdin names what is done once; the
// answer is its nanoseconds. "fill" reads the f32 from stdin's other end: see the file that the third argument names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "num/convert.h"
#include "num/convert_kernels.h"
#include "num/isa.h"
#include "num/quantize_array.h"

enum { COLUMNS = 8192, GROUP = 32 };

struct arrays {
    size_t n;
    int64_t dims[2];
    float *x, *back, *scales;
    uint8_t *codes, *f32_codes;
    struct threads *threads;
};

static const struct {
    const char *name;
    enum dtype type;
    struct quant_spec spec;
} kinds[] = {
    {"bf16", DT_BF16, {0}},
    {"f16", DT_F16, {0}},
    {"f8e4m3fn", DT_F8E4M3FN, {0}},
    {"int8", DT_S8, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 0}},
    {"int8-columns", DT_S8, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1}},
    {"int4", DT_S4, {.type = DT_S4, .granularity = QUANT_PER_GROUP, .channel_axis = 0, .group_axis = 1, .group = GROUP}},
};
