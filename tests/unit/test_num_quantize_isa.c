// SPDX-License-Identifier: Apache-2.0
// The kernels of every instruction set this machine has against those in plain C, bit for bit; and those against the
// rule as num/quantize_kernels.h writes it down, in double arithmetic.
#include <float.h>
#include <stdint.h>
#include <stdlib.h>

#include "num/isa.h"
#include "num/quantize_kernels.h"
#include "test.h"

enum { N = 1 << 16, LONGEST = 200 };

static const struct quant_rule rules[] = {{-127, 127, 0}, {-128, 127, 0}, {-7, 7, 0},      {-8, 7, 0}, {0, 255, 128},
                                          {1, 255, 128},  {0, 255, 3},    {-128, 127, -5}, {0, 15, 7}, {-2, 1, 0},
                                          {0, 255, 255},  {0, 255, 0},    {-1, 1, 0},      {0, 0, 0}};
enum { RULES = sizeof rules / sizeof *rules };
static const float scales_tried[] = {1,         0.5f,        0.1f,  1.0f / 127, 3.7e-3f,  FLT_MIN,   1e-40f,
                                     0x1p-149f, 0x1.8p-126f, 1e30f, FLT_MAX,    0x1p125f, 0x1p-120f, 0x1.fffffep-1f};
enum { SCALES = sizeof scales_tried / sizeof *scales_tried };

static uint64_t state = 17;

static uint32_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static float float_from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// What makes codes hard: ties and their neighbours, both ends and beyond them, and anything at all.
static void fill(float *x, size_t n, float scale, const struct quant_rule *rule)
{
    for (size_t i = 0; i < n; i++) {
        double ends = fmax(fabs((double)rule->low - rule->zero), fabs((double)rule->high - rule->zero)) + 3;
        double step = floor((draw() * 0x1p-32 * 2 - 1) * ends * 2) / 2;
        float tie = (float)(step * (double)scale);
        switch (draw() % 8) {
        case 0:
            x[i] = tie;
            break;
        case 1:
            x[i] = nextafterf(tie, INFINITY);
            break;
        case 2:
            x[i] = nextafterf(nextafterf(tie, -INFINITY), -INFINITY);
            break;
        case 3:
            x[i] = draw() % 32 == 0 ? float_from_bits(draw()) : (float)(draw() * 0x1p-32 * ends * (double)scale);
            break;
        case 4:
            x[i] = draw() % 16 == 0 ? draw() % 2 ? INFINITY : -INFINITY : draw() % 16 == 0 ? (float)NAN : 0;
            break;
        default:
            x[i] = (float)((draw() * 0x1p-32 * 2 - 1) * ends * (double)scale);
        }
    }
}

static bool same_tally(const struct quant_tally *a, const struct quant_tally *b)
{
    return a->elements == b->elements && a->clipped == b->clipped && a->flushed == b->flushed &&
           memcmp(a->error2, b->error2, sizeof a->error2) == 0 &&
           memcmp(a->reference2, b->reference2, sizeof a->reference2) == 0 && a->max_error == b->max_error &&
           a->max_error_in_scales == b->max_error_in_scales;
}

static uint8_t code_by_rule(const struct quant_rule *r, float x, float scale)
{
    if (isnan(x))
        return (uint8_t)r->low;
    float q = x / scale;
    double code = rint((double)q) + r->zero;
    return (uint8_t)(int)(code < r->low ? r->low : code > r->high ? r->high : code);
}

TEST(num_quantize_isa_plain_c_is_the_rule)
{
    static float x[N];
    static uint8_t codes[N];
    const struct quant_kernels *k = &quant_kernels_portable;
    int wrong = 0;
    for (size_t r = 0; r < RULES; r++) {
        for (size_t s = 0; s < SCALES; s++) {
            size_t n = 2000, clipped = 0, flushed = 0;
            double scale = (double)scales_tried[s], error2 = 0, reference2 = 0, most = 0, most_in_scales = 0;
            struct quant_tally t = {0};
            fill(x, n, scales_tried[s], &rules[r]);
            k->encode(&rules[r], x, n, scales_tried[s], codes, &t);
            for (size_t i = 0; i < n; i++) {
                wrong += codes[i] != code_by_rule(&rules[r], x[i], scales_tried[s]);
                if (isnan(x[i]))
                    continue;
                double q = rint((double)(x[i] / scales_tried[s])) + rules[r].zero;
                bool clips = q < rules[r].low || q > rules[r].high;
                clipped += clips;
                if (isinf(x[i]))
                    continue;
                int code = rules[r].low < 0 ? (int8_t)codes[i] : codes[i];
                double e = (code - rules[r].zero) * scale - (double)x[i];
                flushed += x[i] != 0 && code == rules[r].zero;
                error2 += e * e;
                reference2 += (double)x[i] * (double)x[i];
                most = fmax(most, fabs(e));
                if (!clips)
                    most_in_scales = fmax(most_in_scales, fabs(e) / scale);
            }
            CHECK_INT(t.elements, n);
            CHECK_INT(t.clipped, clipped);
            CHECK_INT(t.flushed, flushed);
            CHECK(t.max_error == most && t.max_error_in_scales == most_in_scales);
            // Two orders of a sum of n terms of one sign: at most n roundings of 2^-53 on each side.
            CHECK(fabs(quant_lanes_sum(t.error2) - error2) <= 2 * (double)n * 0x1p-53 * error2);
            CHECK(fabs(quant_lanes_sum(t.reference2) - reference2) <= 2 * (double)n * 0x1p-53 * reference2);
        }
    }
    CHECK_INT(wrong, 0);
}

struct run {
    _Alignas(64) uint8_t codes[2 * N + 64];
    double error2[N], reference2[N];
    float back[N + 5];
    struct quant_tally tally;
    uint32_t ahead;
};

static void clear(struct run *r)
{
    memset(r, 0, sizeof *r);
    memset(r->codes, 0xa5, sizeof r->codes);
}

// One scale for n elements, counted and not; then back.
static void run_row(const struct quant_kernels *k, const struct quant_rule *rule, const float *x, size_t n, float scale,
                    struct run *out)
{
    clear(out);
    k->encode(rule, x, n, scale, out->codes, NULL);
    k->encode(rule, x, n, scale, out->codes + n + 1, &out->tally);
    k->encode(rule, x, n / 2, scale, out->codes + n + 1, &out->tally); // adds to what is there
    out->ahead = k->encode_ahead(rule, x, n, scale, out->codes + (n + 64) / 64 * 64, x + 3, n % 2);
    k->decode(rule, out->codes, n, scale, out->back, n % 2);
}

static void run_columns(const struct quant_kernels *k, const struct quant_rule *rule, const float *x, size_t n,
                        const float *scales, bool sums, struct run *out)
{
    struct quant_column_sums columns = {out->error2, out->reference2};
    clear(out);
    k->encode_columns(rule, x, n, scales, out->codes, NULL, NULL);
    k->encode_columns(rule, x, n, scales, out->codes + n + 1, &out->tally, sums ? &columns : NULL);
    k->decode_columns(rule, out->codes, n, scales, out->back + n % 5, n % 2);
}

static void run_groups(const struct quant_kernels *k, const struct quant_rule *rule, const float *x, size_t groups,
                       size_t group, const float *scales, struct run *out)
{
    clear(out);
    k->encode_groups(rule, x, groups, group, scales, out->codes, NULL);
    k->encode_groups(rule, x, groups, group, scales, out->codes + groups * group + 1, &out->tally);
    k->decode_groups(rule, out->codes, groups, group, scales, out->back, group % 2);
}

static bool same_run(const struct run *a, const struct run *b)
{
    return a->ahead == b->ahead && memcmp(a->codes, b->codes, sizeof a->codes) == 0 &&
           memcmp(a->back, b->back, sizeof a->back) == 0 && memcmp(a->error2, b->error2, sizeof a->error2) == 0 &&
           memcmp(a->reference2, b->reference2, sizeof a->reference2) == 0 && same_tally(&a->tally, &b->tally);
}

TEST(num_quantize_isa_sets_agree)
{
    static float x[N], scales[N];
    static struct run want, got;
    const struct quant_kernels *portable = &quant_kernels_portable;
    int wrong = 0;
    for (size_t r = 0; r < RULES; r++) {
        for (size_t s = 0; s < SCALES; s++) {
            fill(x, N, scales_tried[s], &rules[r]);
            for (size_t i = 0; i < N; i++)
                scales[i] = i % 3 ? scales_tried[s] : scales_tried[(s + i) % SCALES];
            for (int isa = 0; isa < ISA_COUNT; isa++) {
                if (!isa_force((enum isa)isa) || quant_kernels() == portable)
                    continue;
                const struct quant_kernels *k = quant_kernels();
                for (size_t n = 0; n <= LONGEST; n += s == r ? 1 : 37) {
                    run_row(portable, &rules[r], x + n, n, scales_tried[s], &want);
                    run_row(k, &rules[r], x + n, n, scales_tried[s], &got);
                    wrong += !same_run(&want, &got);
                    run_columns(portable, &rules[r], x + n, n, scales + n, n % 2, &want);
                    run_columns(k, &rules[r], x + n, n, scales + n, n % 2, &got);
                    wrong += !same_run(&want, &got);
                }
                static const size_t groups[] = {32, 16, 7, 64, 128};
                for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
                    run_groups(portable, &rules[r], x, 19, groups[g], scales, &want);
                    run_groups(k, &rules[r], x, 19, groups[g], scales, &got);
                    wrong += !same_run(&want, &got);
                }
                run_row(portable, &rules[r], x, N / 2 - 64, scales_tried[s], &want);
                run_row(k, &rules[r], x, N / 2 - 64, scales_tried[s], &got);
                wrong += !same_run(&want, &got);
                if (wrong) {
                    printf("  %s: rule %zu, scale %g\n", k->isa, r, (double)scales_tried[s]);
                    CHECK_INT(wrong, 0);
                    return;
                }
            }
        }
    }
}

TEST(num_quantize_isa_extremes_and_pairs)
{
    static float x[N];
    static uint32_t want[LONGEST + 1], got[LONGEST + 1];
    static uint8_t codes[LONGEST], packed[2][LONGEST], back[2][LONGEST + 1];
    const struct quant_kernels *portable = &quant_kernels_portable;
    struct quant_rule rule = {-127, 127, 0};
    fill(x, N, 0.01f, &rule);
    for (size_t i = 0; i < LONGEST; i++)
        codes[i] = (uint8_t)draw();
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_force((enum isa)isa))
            continue;
        const struct quant_kernels *k = quant_kernels();
        for (size_t n = 0; n <= LONGEST; n++) {
            for (size_t at = 0; at < 4000; at += 401) {
                uint32_t most = 0;
                struct quant_extent ends = {INFINITY, -INFINITY}, e = k->extent(x + at, n);
                for (size_t i = at; i < at + n; i++) {
                    uint32_t bits;
                    memcpy(&bits, &x[i], sizeof bits);
                    bits &= 0x7fffffffu;
                    most = bits > most ? bits : most;
                    ends.min = x[i] < ends.min ? x[i] : ends.min;
                    ends.max = x[i] > ends.max ? x[i] : ends.max;
                }
                CHECK(k->absmax(x + at, n) == most);
                CHECK(e.min == ends.min && e.max == ends.max);
                memset(want, 0x11, sizeof want);
                memset(got, 0x11, sizeof got);
                portable->absmax_columns(x + at, n, want);
                k->absmax_columns(x + at, n, got);
                CHECK(memcmp(want, got, sizeof want) == 0);
            }
            for (size_t group = 16; group <= 48; group += 16) {
                memset(want, 0x11, sizeof want);
                memset(got, 0x11, sizeof got);
                portable->absmax_groups(x, n, group, want);
                k->absmax_groups(x, n, group, got);
                CHECK(memcmp(want, got, sizeof want) == 0);
            }
            memset(packed, 0xa5, sizeof packed);
            portable->pack4(codes, n, packed[0]);
            k->pack4(codes, n, packed[1]);
            CHECK(memcmp(packed[0], packed[1], LONGEST) == 0);
            for (int is_signed = 0; is_signed < 2; is_signed++) {
                memset(back, 0xa5, sizeof back);
                k->unpack4(packed[1], n, is_signed, back[1]);
                CHECK_INT(back[1][n], 0xa5);
                for (size_t i = 0; i < n; i++) {
                    int nibble = codes[i] & 15;
                    CHECK(back[1][i] == (uint8_t)(is_signed && nibble > 7 ? nibble - 16 : nibble));
                }
            }
        }
    }
}
