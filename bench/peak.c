// SPDX-License-Identifier: Apache-2.0
// peak [--best] [THREADS]   what this machine can do at most, by one thread and by THREADS (all that the process may
// run on): loops whose operands and sums are registers, one for each instruction that multiplies and adds. Prints a
// table of GFLOP/s and GOP/s; with --best, in one line for other programs, each type and the most that any of its loops
// did, in operations per second. ASSAY_ISA keeps it to fewer instructions, as it does the kernels.
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/threads.h"
#include "num/isa.h"
#include "num/isa_target.h"

// There are more sums than instructions that are in the works at a time, so that none waits for another's.
enum {
    REPEATS = 7,
    REPEAT_NS = 50000000,
    TURNS = 4096,   // of a loop between two looks at the clock, which are some 10 to 100 microseconds apart
    SUMS = 16,      // vectors of 512 bits
    SUMS_AVX2 = 12, // vectors of 256 bits, of which there are 16
    TILES = 4,      // of sums, and as many of operands
    TILE = 1024     // bytes
};

struct loop {
    const char *type, *name;
    enum isa isa;
    bool vnni;                                   // needed beside it
    double per_turn;                             // operations; a product and its sum are two
    void (*run)(const void *values, void *sums); // TURNS turns; both are TILES * TILE bytes, aligned to vectors
};

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/tiles.h"

// What vpdpbusd is to gcc, which would copy sums of another type (__m512i).
typedef int32_t words __attribute__((vector_size(64), may_alias));

// Loops of one type of sums, which differ at first, or they would be one.
#define VECTORS(name, vector, count, next)                                                                             \
    static void name(const void *values, void *sums)                                                                   \
    {                                                                                                                  \
        const vector *x = values, a = x[0], b = x[1];                                                                  \
        vector s[count], *out = sums;                                                                                  \
        ISA_UNROLL                                                                                                     \
        for (int i = 0; i < count; i++)                                                                                \
            s[i] = x[i];                                                                                               \
        for (int64_t t = 0; t < TURNS; t++) {                                                                          \
            ISA_UNROLL                                                                                                 \
            for (int i = 0; i < count; i++)                                                                            \
                s[i] = next;                                                                                           \
        }                                                                                                              \
        ISA_UNROLL                                                                                                     \
        for (int i = 0; i < count; i++)                                                                                \
            out[i] = s[i];                                                                                             \
    }

ISA_TARGET("avx2,fma")
VECTORS(run_avx2, __m256, SUMS_AVX2, _mm256_fmadd_ps(a, b, s[i]))
ISA_TARGET_END

ISA_TARGET("avx512f,avx512vl,avx512bf16,avx512vnni")
VECTORS(run_fma, __m512, SUMS, _mm512_fmadd_ps(a, b, s[i]))
VECTORS(run_pairs, __m512, SUMS, _mm512_dpbf16_ps(s[i], (__m512bh)a, (__m512bh)b))
VECTORS(run_codes, words, SUMS, (words)_mm512_dpbusd_epi32((__m512i)s[i], (__m512i)a, (__m512i)b))
ISA_TARGET_END

ISA_TARGET("avx512f,amx-tile,amx-bf16,amx-int8")

// Two tiles by two, as the kernels do.
ISA_INLINE void run_tiles(bool codes, const void *values, void *sums)
{
    const char *x = values;
    char *out = sums;
    tiles_begin();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, x, 64);
    _tile_loadd(5, x + TILE, 64);
    _tile_loadd(6, x + 2 * TILE, 64);
    _tile_loadd(7, x + 3 * TILE, 64);
    for (int64_t t = 0; t < TURNS; t++)
        tiles_multiply_square(codes);
    _tile_stored(0, out, 64);
    _tile_stored(1, out + TILE, 64);
    _tile_stored(2, out + 2 * TILE, 64);
    _tile_stored(3, out + 3 * TILE, 64);
    tiles_end();
}

static void run_tiles_pairs(const void *values, void *sums)
{
    run_tiles(false, values, sums);
}

static void run_tiles_codes(const void *values, void *sums)
{
    run_tiles(true, values, sums);
}

ISA_TARGET_END

static const struct loop loops[] = {
    {"f32", "vfmadd231ps, 256 bits", ISA_AVX2, false, SUMS_AVX2 * 8 * 2, run_avx2},
    {"f32", "vfmadd231ps, 512 bits", ISA_AVX512, false, SUMS * 16 * 2, run_fma},
    {"bf16", "vdpbf16ps, 512 bits", ISA_AVX512_BF16, false, SUMS * 16 * 2 * 2, run_pairs},
    {"bf16", "tdpbf16ps, tiles", ISA_AMX, false, TILES * 16 * 16 * 32 * 2, run_tiles_pairs},
    {"s8", "vpdpbusd, 512 bits", ISA_AVX512, true, SUMS * 16 * 4 * 2, run_codes},
    {"s8", "tdpbssd, tiles", ISA_AMX, false, TILES * 16 * 16 * 64 * 2, run_tiles_codes},
};
enum { LOOPS = sizeof loops / sizeof loops[0] };

static bool can_run(const struct loop *l)
{
    return isa_in_force() >= l->isa && (!l->vnni || __builtin_cpu_supports("avx512vnni"));
}

struct turn {
    const struct loop *loop;
    const void *values;
    uint64_t until_ns;
    atomic_uint_fast64_t runs;
};

// Every thread takes one: a thread that came late has less to do, and all of one that did not come is not done.
static void work(void *context, size_t from, size_t to)
{
    (void)from, (void)to;
    struct turn *t = context;
    _Alignas(64) char sums[TILES * TILE];
    uint64_t runs = 0;
    for (; clock_ns() < t->until_ns; runs++)
        t->loop->run(t->values, sums);
    atomic_fetch_add(&t->runs, runs);
}

// Operations per second of all threads together.
static double measure(const struct loop *l, const void *values, struct threads *pool, size_t threads)
{
    uint64_t begin_ns = clock_ns();
    struct turn t = {.loop = l, .values = values, .until_ns = begin_ns + REPEAT_NS};
    threads_for(pool, threads, 1, work, &t);
    return (double)t.runs * TURNS * l->per_turn * 1e9 / (double)(clock_ns() - begin_ns);
}

// Numbers of bf16 between a half and two of either sign, and so are two in a row as f32, whose sums stay finite; as
// codes they are anything. Of zeros, which take less power, a Xeon's tiles multiply a quarter more.
static void draw(uint16_t *values, size_t n)
{
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        values[i] = (uint16_t)((state >> 31) << 15 | (126 + (state >> 30 & 1)) << 7 | (state >> 23 & 127));
    }
}

static void print_table(const double best[LOOPS][2], size_t threads)
{
    printf("%-6s%-24s%12s", "", "GFLOP/s, GOP/s", "1 thread");
    if (threads > 1)
        printf("%4zu threads", threads);
    for (int i = 0; i < LOOPS; i++) {
        printf("\n%-6s%-24s", loops[i].type, loops[i].name);
        for (size_t k = 0; k < 1 + (threads > 1); k++) {
            if (best[i][k] > 0)
                printf("%12.0f", best[i][k] / 1e9);
            else
                printf("%12s", "-");
        }
    }
    printf("\n");
}

static void print_best(const double best[LOOPS][2])
{
    for (int i = 0; i < LOOPS;) {
        double most = 0;
        int first = i;
        for (; i < LOOPS && strcmp(loops[i].type, loops[first].type) == 0; i++) {
            for (int k = 0; k < 2; k++)
                most = best[i][k] > most ? best[i][k] : most;
        }
        if (most > 0)
            printf("%s%s %.0f", first ? " " : "", loops[first].type, most);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    bool only_best = argc > 1 && strcmp(argv[1], "--best") == 0;
    uint64_t threads = threads_available();
    argc -= only_best, argv += only_best;
    if (argc > 2 || (argc == 2 && (!parse_u64(argv[1], &threads) || threads < 1 || threads > 4096))) {
        fprintf(stderr, "usage: peak [--best] [THREADS]\n");
        return 2;
    }
    static _Alignas(64) uint16_t values[TILES * TILE / 2];
    draw(values, TILES * TILE / 2);
    struct threads *pool;
    struct error err = {0};
    if (threads_new(&pool, threads, &err)) {
        fprintf(stderr, "peak: %s\n", err.message);
        return 1;
    }
    double best[LOOPS][2] = {{0}};
    for (int r = 0; r < REPEATS; r++) { // of all loops in turns: what else runs on the machine comes and goes
        for (int i = 0; i < LOOPS; i++) {
            for (int k = 0; k < 1 + (threads > 1) && can_run(&loops[i]); k++) {
                double rate = measure(&loops[i], values, pool, k ? threads : 1);
                best[i][k] = rate > best[i][k] ? rate : best[i][k];
            }
        }
    }
    threads_free(pool);
    if (only_best)
        print_best(best);
    else
        print_table(best, threads);
    return 0;
}

#else

int main(void)
{
    fprintf(stderr, "peak: its loops are of x86-64 alone\n");
    return 1;
}

#endif
