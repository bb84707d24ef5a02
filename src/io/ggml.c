// SPDX-License-Identifier: Apache-2.0
#include "io/ggml.h"

#include <string.h>

#include "base/bits.h"
#include "num/convert.h"

static float half(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return f32_from_f16(bits);
}

// The low nibbles of 16 bytes are elements 0..15 of 32, the high ones 16..31.
static int nibble(const uint8_t *codes, int j)
{
    return j < 16 ? codes[j] & 15 : codes[j - 16] >> 4;
}

static void q4_0(const uint8_t *b, float *out)
{
    float d = half(b);
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)(nibble(b + 2, j) - 8);
}

static void q4_1(const uint8_t *b, float *out)
{
    float d = half(b), m = half(b + 2);
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)nibble(b + 4, j) + m;
}

// The fifth bit of element j is bit j of a 32-bit word.
static int five_bits(const uint8_t *word, const uint8_t *codes, int j)
{
    return nibble(codes, j) | (word[j / 8] >> (j % 8) & 1) << 4;
}

static void q5_0(const uint8_t *b, float *out)
{
    float d = half(b);
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)(five_bits(b + 2, b + 6, j) - 16);
}

static void q5_1(const uint8_t *b, float *out)
{
    float d = half(b), m = half(b + 2);
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)five_bits(b + 4, b + 8, j) + m;
}

static void q8_0(const uint8_t *b, float *out)
{
    float d = half(b);
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)(int8_t)b[2 + j];
}

static void q8_k(const uint8_t *b, float *out)
{
    float d;
    memcpy(&d, b, sizeof d);
    for (int j = 0; j < 256; j++)
        out[j] = d * (float)(int8_t)b[4 + j];
}

// 16 scales with minima, a nibble each, 64 bytes of codes, d, dmin. Byte 32 h + l holds elements 128 h + 32 k + l, k in
// its bits 2k and 2k + 1.
static void q2_k(const uint8_t *b, float *out)
{
    const uint8_t *codes = b + 16;
    float d = half(b + 80), dmin = half(b + 82);
    for (int j = 0; j < 256; j++) {
        uint8_t s = b[j / 16];
        int q = codes[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
        out[j] = d * (float)(s & 15) * (float)q - dmin * (float)(s >> 4);
    }
}

// 32 bytes with the third bit of every code (set: do not subtract 4), 64 bytes with the other two as in Q2_K, 12 bytes
// of 6-bit scales (low nibbles of 0..7, 8..15, then two high bits of i, i + 4, i + 8, i + 12 in byte 8 + i), d.
static void q3_k(const uint8_t *b, float *out)
{
    const uint8_t *codes = b + 32, *scales = b + 96;
    float d = half(b + 108);
    for (int j = 0; j < 256; j++) {
        int i = j / 16;
        int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
        int high = scales[8 + i % 4] >> (i / 4 * 2) & 3;
        int q = codes[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
        q -= b[j % 32] >> (j / 32) & 1 ? 0 : 4;
        out[j] = d * (float)((low | high << 4) - 32) * (float)q;
    }
}

// Scale and minimum i of 8, 6 bits each, in 12 bytes: bytes 0..3 and 4..7 hold those of 0..3, and in their two high
// bits the high bits of 4..7, whose low nibbles are in bytes 8..11.
static void scale_min(const uint8_t *s, int i, int *scale, int *min)
{
    if (i < 4) {
        *scale = s[i] & 63;
        *min = s[i + 4] & 63;
    } else {
        *scale = (s[i + 4] & 15) | (s[i - 4] >> 6) << 4;
        *min = s[i + 4] >> 4 | (s[i] >> 6) << 4;
    }
}

// d, dmin, 12 bytes of scales, 128 bytes of codes: of every 64 elements the first 32 are low nibbles.
static void q4_k(const uint8_t *b, float *out)
{
    float d = half(b), dmin = half(b + 2);
    for (int i = 0; i < 8; i++) {
        int scale, min;
        scale_min(b + 4, i, &scale, &min);
        float ds = d * (float)scale, dm = dmin * (float)min;
        for (int l = 0; l < 32; l++)
            out[i * 32 + l] = ds * (float)(b[16 + i / 2 * 32 + l] >> (i % 2 * 4) & 15) - dm;
    }
}

// As Q4_K, with 32 bytes before the codes: bit i of byte l is the fifth bit of element 32 i + l.
static void q5_k(const uint8_t *b, float *out)
{
    float d = half(b), dmin = half(b + 2);
    for (int i = 0; i < 8; i++) {
        int scale, min;
        scale_min(b + 4, i, &scale, &min);
        float ds = d * (float)scale, dm = dmin * (float)min;
        for (int l = 0; l < 32; l++) {
            int q = (b[48 + i / 2 * 32 + l] >> (i % 2 * 4) & 15) | (b[16 + l] >> i & 1) << 4;
            out[i * 32 + l] = ds * (float)q - dm;
        }
    }
}

// 128 bytes of low nibbles (of every 128 elements the first 64 are low), 64 bytes of two high bits as in Q2_K, 16
// signed scales, d.
static void q6_k(const uint8_t *b, float *out)
{
    const uint8_t *high = b + 128, *scales = b + 192;
    float d = half(b + 208);
    for (int j = 0; j < 256; j++) {
        int low = b[j / 128 * 64 + j % 64] >> (j % 128 / 64 * 4) & 15;
        int top = high[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
        out[j] = d * (float)(int8_t)scales[j / 16] * (float)((low | top << 4) - 32);
    }
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void iq4_nl(const uint8_t *b, float *out)
{
    float d = half(b);
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)iq4_values[nibble(b + 2, j)];
}

// d, 2 bytes with the two high bits of 8 scales, 4 bytes with their low nibbles, 8 times 16 bytes as in IQ4_NL.
static void iq4_xs(const uint8_t *b, float *out)
{
    float d = half(b);
    for (int i = 0; i < 8; i++) {
        int low = b[4 + i / 2] >> (i % 2 * 4) & 15;
        int high = b[2 + i / 4] >> (i % 4 * 2) & 3;
        float ds = d * (float)((low | high << 4) - 32);
        for (int j = 0; j < 32; j++)
            out[i * 32 + j] = ds * (float)iq4_values[nibble(b + 8 + i * 16, j)];
    }
}

// Trit number k of a byte that holds five as a fraction of 256, the first the most significant.
static int trit(uint8_t byte, int k)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return (uint8_t)(byte * power[k]) * 3 >> 8;
}

// 32 bytes of five trits (byte l: elements l, l + 32, ...), 16 alike, 4 bytes of four, d.
static void tq1_0(const uint8_t *b, float *out)
{
    float d = half(b + 52);
    for (int j = 0; j < 160; j++)
        out[j] = d * (float)(trit(b[j % 32], j / 32) - 1);
    for (int j = 0; j < 80; j++)
        out[160 + j] = d * (float)(trit(b[32 + j % 16], j / 16) - 1);
    for (int j = 0; j < 16; j++)
        out[240 + j] = d * (float)(trit(b[48 + j % 4], j / 4) - 1);
}

static void tq2_0(const uint8_t *b, float *out)
{
    float d = half(b + 64);
    for (int j = 0; j < 256; j++)
        out[j] = d * (float)((b[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3) - 1);
}

// Twice the values of E2M1; the scales below are half of what is written, so that both stay exact.
static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void mxfp4(const uint8_t *b, float *out)
{
    uint32_t e = b[0];
    float d = f32_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); // 2^(e - 128), the first two subnormal
    for (int j = 0; j < 32; j++)
        out[j] = d * (float)e2m1_doubled[nibble(b + 1, j)];
}

static float half_of_e4m3(uint8_t code)
{
    int e = code >> 3 & 15, m = code & 7;
    if (code == 0 || code == 0x7f)
        return 0;
    return e ? (float)(8 + m) * f32_of_bits((uint32_t)(127 + e - 11) << 23) : (float)m * 0x1p-10f;
}

// Four scales, then for each 16 elements 8 bytes: low nibbles, then high ones.
static void nvfp4(const uint8_t *b, float *out)
{
    for (int i = 0; i < 4; i++) {
        float d = half_of_e4m3(b[i]);
        for (int j = 0; j < 16; j++) {
            uint8_t pair = b[4 + i * 8 + j % 8];
            out[i * 16 + j] = d * (float)e2m1_doubled[j < 8 ? pair & 15 : pair >> 4];
        }
    }
}

#define PLAIN(id, name, bytes, dtype)                                                                                  \
    {                                                                                                                  \
        id, name, 1, bytes, dtype, NULL, NULL                                                                          \
    }
#define BLOCK(id, name, elements, bytes, code)                                                                         \
    {                                                                                                                  \
        id, name, elements, bytes, DT_INVALID, code, NULL                                                              \
    }
#define GONE(id, name)                                                                                                 \
    {                                                                                                                  \
        id, name, 0, 0, DT_INVALID, NULL, "was withdrawn from the format; convert the model again from its source"     \
    }

static const struct ggml_type types[] = {
    PLAIN(0, "F32", 4, DT_F32),
    PLAIN(1, "F16", 2, DT_F16),
    BLOCK(2, "Q4_0", 32, 18, q4_0),
    BLOCK(3, "Q4_1", 32, 20, q4_1),
    GONE(4, "Q4_2"),
    GONE(5, "Q4_3"),
    BLOCK(6, "Q5_0", 32, 22, q5_0),
    BLOCK(7, "Q5_1", 32, 24, q5_1),
    BLOCK(8, "Q8_0", 32, 34, q8_0),
    {9, "Q8_1", 0, 0, DT_INVALID, NULL, "is for values between operations and has no agreed form in files"},
    BLOCK(10, "Q2_K", 256, 84, q2_k),
    BLOCK(11, "Q3_K", 256, 110, q3_k),
    BLOCK(12, "Q4_K", 256, 144, q4_k),
    BLOCK(13, "Q5_K", 256, 176, q5_k),
    BLOCK(14, "Q6_K", 256, 210, q6_k),
    BLOCK(15, "Q8_K", 256, 292, q8_k),
    BLOCK(16, "IQ2_XXS", 256, 66, NULL),
    BLOCK(17, "IQ2_XS", 256, 74, NULL),
    BLOCK(18, "IQ3_XXS", 256, 98, NULL),
    BLOCK(19, "IQ1_S", 256, 50, NULL),
    BLOCK(20, "IQ4_NL", 32, 18, iq4_nl),
    BLOCK(21, "IQ3_S", 256, 110, NULL),
    BLOCK(22, "IQ2_S", 256, 82, NULL),
    BLOCK(23, "IQ4_XS", 256, 136, iq4_xs),
    PLAIN(24, "I8", 1, DT_S8),
    PLAIN(25, "I16", 2, DT_S16),
    PLAIN(26, "I32", 4, DT_S32),
    PLAIN(27, "I64", 8, DT_S64),
    PLAIN(28, "F64", 8, DT_F64),
    BLOCK(29, "IQ1_M", 256, 56, NULL),
    PLAIN(30, "BF16", 2, DT_BF16),
    GONE(31, "Q4_0_4_4"),
    GONE(32, "Q4_0_4_8"),
    GONE(33, "Q4_0_8_8"),
    BLOCK(34, "TQ1_0", 256, 54, tq1_0),
    BLOCK(35, "TQ2_0", 256, 66, tq2_0),
    GONE(36, "IQ4_NL_4_4"),
    GONE(37, "IQ4_NL_4_8"),
    GONE(38, "IQ4_NL_8_8"),
    BLOCK(39, "MXFP4", 32, 17, mxfp4),
    BLOCK(40, "NVFP4", 64, 36, nvfp4),
    BLOCK(41, "Q1_0", 128, 18, NULL),
};

const struct ggml_type *ggml_type(uint32_t id)
{
    // The numbers have no gaps.
    return id < sizeof types / sizeof *types ? &types[id] : NULL;
}

int ggml_decode(const struct ggml_type *type, const void *src, size_t n, float *out, struct error *err)
{
    if (type->dtype != DT_INVALID)
        return convert_elements(DT_F32, out, type->dtype, src, n, err);
    if (!type->decode)
        return error_set(err, ERR_INPUT, NULL,
                         "blocks of type %s cannot be decoded: this version knows their size alone", type->name);
    if (n % type->elements)
        return error_set(err, ERR_INTERNAL, NULL, "%zu elements are no whole number of %s blocks", n, type->name);
    const uint8_t *block = src;
    for (size_t i = 0; i < n; i += type->elements, block += type->bytes)
        type->decode(block, out + i);
    return 0;
}
