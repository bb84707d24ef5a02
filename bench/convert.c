// SPDX-License-Identifier: Apache-2.0
// The side of bench/convert that is ours: convert FILE THREADS. FILE holds f32, rows of 8192. The results and what
// comes back from them are allocated and touched before anything is timed. A line on stdin names what is done once
// ("bf16", "int4 back", "copy", "memcpy"); the answer is its nanoseconds, or for "hash NAME" the SHA-256 of NAME's
// result.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "num/convert.h"
#include "num/isa.h"
#include "num/quantize_array.h"

enum { COLUMNS = 8192, GROUP = 32 };

struct arrays {
    size_t n;
    int64_t dims[2];
    float *x, *back, *scales;
    uint8_t *codes;
    struct threads *threads;
};

static const struct kind {
    const char *name;
    enum dtype type;
    struct quant_spec spec; // type 0: a conversion
} kinds[] = {
    {"bf16", DT_BF16, {0}},
    {"f16", DT_F16, {0}},
    {"f8e4m3fn", DT_F8E4M3FN, {0}},
    {"int8", DT_S8, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 0}},
    {"int8-columns", DT_S8, {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = 1}},
    {"int4",
     DT_S4,
     {.type = DT_S4, .granularity = QUANT_PER_GROUP, .channel_axis = 0, .group_axis = 1, .group = GROUP}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void *large(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static void copy_range(void *context, size_t from, size_t to)
{
    struct arrays *a = context;
    memcpy((char *)a->back + from, (char *)a->x + from, to - from);
}

static int run(struct arrays *a, const char *name, const char *back, struct error *err)
{
    struct convert_options o = {.threads = a->threads};
    if (strcmp(name, "copy") == 0)
        return convert_array(&o, DT_F32, a->back, DT_F32, a->x, a->n, err);
    if (strcmp(name, "memcpy") == 0) {
        threads_for(a->threads, a->n * sizeof(float), 1 << 20, copy_range, a);
        return 0;
    }
    for (size_t i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];
        if (strcmp(k->name, name) != 0)
            continue;
        if (k->spec.type && back)
            return dequantize_array(&k->spec, a->dims, 2, a->codes, a->scales, NULL, DT_F32, a->back, a->threads, NULL,
                                    err);
        if (k->spec.type)
            return quantize_array(&k->spec, a->dims, 2, DT_F32, a->x, a->codes, a->scales, NULL, a->threads, NULL, err);
        return back ? convert_array(&o, DT_F32, a->back, k->type, a->codes, a->n, err)
                    : convert_array(&o, k->type, a->codes, DT_F32, a->x, a->n, err);
    }
    return error_set(err, ERR_USAGE, NULL, "%s is not known", name);
}

static int hash(struct arrays *a, const char *name, const char *back, char hex[65], struct error *err)
{
    for (size_t i = 0; i < KINDS; i++) {
        size_t bytes = a->n * sizeof(float);
        if (strcmp(kinds[i].name, name) != 0)
            continue;
        if (!back)
            dtype_bytes(kinds[i].type, a->n, &bytes);
        return sha256_bytes(back ? (void *)a->back : a->codes, bytes, hex, err);
    }
    return error_set(err, ERR_USAGE, NULL, "%s is not known", name);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct error err = {0};
    struct file_map map;
    struct arrays a = {0};
    if (file_map_open(&map, argv[1], &err) || threads_new(&a.threads, strtoul(argv[2], NULL, 10), &err)) {
        fprintf(stderr, "convert: %s: %s\n", err.where, err.message);
        return 1;
    }
    a.n = map.size / sizeof(float);
    a.dims[0] = (int64_t)(a.n / COLUMNS);
    a.dims[1] = COLUMNS;
    a.x = large(map.size);
    a.back = large(map.size);
    a.codes = large(map.size / 2);
    a.scales = large(a.n / GROUP * sizeof(float));
    memcpy(a.x, map.data, map.size);
    file_map_close(&map);
    printf("%s, %zu threads\n", isa_name(isa_in_force()), threads_count(a.threads));
    fflush(stdout);
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        char *rest = NULL, hex[65] = "";
        char *word = strtok_r(line, " \n", &rest);
        bool asks = word && strcmp(word, "hash") == 0;
        if (asks)
            word = strtok_r(NULL, " \n", &rest);
        if (!word)
            continue;
        const char *back = strtok_r(NULL, " \n", &rest);
        uint64_t begin = clock_ns();
        int rc = asks ? hash(&a, word, back, hex, &err) : run(&a, word, back, &err);
        uint64_t end = clock_ns();
        if (rc) {
            fprintf(stderr, "convert: %s\n", err.message);
            return 1;
        }
        if (asks)
            printf("%s\n", hex);
        else
            printf("%llu\n", (unsigned long long)(end - begin));
        fflush(stdout);
    }
    threads_free(a.threads);
    return 0;
}
