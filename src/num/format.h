// SPDX-License-Identifier: Apache-2.0
// Number formats: what each code means, and one exact encoder and decoder for all of them. The table says of a format
// what distinguishes it; everything else (largest value, smallest normal, ...) follows from the row. Fast conversions
// (convert.h) are proved against these functions.
//
// A format describes arithmetic, a dtype what a tensor is stored in. Every format but one belongs to a dtype; tf32 has
// none: it exists only between the operands of a product and is held in 32 bits, as an f32 whose 13 low bits are 0.
#ifndef NUM_FORMAT_H
#define NUM_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "num/dtype.h"

enum format_nan {
    FORMAT_NAN_NONE,      // every code is a number
    FORMAT_NAN_IEEE,      // exponent all ones, fraction not 0
    FORMAT_NAN_ALL_ONES,  // all bits (but the sign, where there is one) are 1
    FORMAT_NAN_NEGATIVE_0 // the code that would be -0
};
enum format_infinity { FORMAT_INFINITY_NONE, FORMAT_INFINITY_IEEE /* exponent all ones, fraction 0 */ };
enum format_zero {
    FORMAT_ZERO_SIGNED,
    FORMAT_ZERO_POSITIVE, // one zero, without a sign
    FORMAT_ZERO_NONE      // no code is 0
};

struct format {
    const char *name;  // the dtype's, and "tf32"
    enum dtype dtype;  // DT_INVALID: no tensor is stored in it
    int bits;          // that carry information
    int shift;         // codes are shifted left by it: 13 for tf32, 0 for all others
    int exponent_bits; // 0: an integer in two's complement
    int mantissa_bits; // stored fraction bits of a float; bits without the sign of an integer
    int bias;
    bool is_signed;
    enum format_nan nan;
    enum format_infinity infinity;
    enum format_zero zero;
};

// The rows in order of falling width, floats first; NULL past the end.
const struct format *format_at(size_t i);
// NULL for types that have no row: pred, 64-bit integers (a double does not hold them), complex types.
const struct format *format_of(enum dtype t);
// NULL when unknown. Knows every row's name, in any case.
const struct format *format_from_name(const char *name);
const struct format *format_tf32(void);
static inline bool format_is_integer(const struct format *f)
{
    return f->exponent_bits == 0;
}
// Bytes that one code takes where codes are not packed: 1, 2, 4 or 8.
size_t format_code_bytes(const struct format *f);

// What follows from a row. Values are exact; codes are positive ones.
uint64_t format_max_code(const struct format *f);
double format_max(const struct format *f);        // largest finite value
double format_min(const struct format *f);        // lowest: -max, 0 or 2^-127 without a sign, -2^(bits-1) of integers
double format_min_normal(const struct format *f); // smallest positive normal value; 1 for integers
double format_min_subnormal(const struct format *f); // smallest positive value; equals min_normal without subnormals
// Exponent of the largest value: floor(log2(format_max)).
int format_max_exponent(const struct format *f);
// Half the distance from 1 to the next value, the largest relative error of rounding to nearest; 0 for integers.
double format_unit_roundoff(const struct format *f);
bool format_has_subnormals(const struct format *f);
uint64_t format_nan_code(const struct format *f);      // quiet, positive; for formats without NaN what NaN is cast to
uint64_t format_infinity_code(const struct format *f); // only where there is one
uint64_t format_finite_codes(const struct format *f);  // how many codes are numbers (both zeros count)

enum format_rounding {
    FORMAT_NEAREST_EVEN,
    FORMAT_NEAREST_AWAY, // ties away from zero
    FORMAT_TOWARD_ZERO,
    FORMAT_STOCHASTIC // up with a probability equal to the fraction that is lost: unbiased, exactly
};

// What becomes of a value that rounds to more than the largest one, as if exponents had no upper end. Toward zero
// nothing finite does (IEEE 754 section 7.4): it gives the largest value. NaN stays NaN under every policy.
enum format_overflow {
    FORMAT_OVERFLOW_PLAIN,           // infinity where there is one, else NaN, else (f6, f4, integers) the largest value
    FORMAT_OVERFLOW_SATURATE,        // the largest value, infinity too
    FORMAT_OVERFLOW_SATURATE_FINITE, // the largest value; an infinity is cast as under PLAIN
    FORMAT_OVERFLOW_ERROR            // arrays: ERR_INPUT with the first index; elements: as PLAIN
};
// "nearest-even", "plain", ...; the inverse is false for an unknown name.
const char *format_rounding_name(enum format_rounding r);
bool format_rounding_from_name(const char *name, enum format_rounding *out);
const char *format_overflow_name(enum format_overflow o);
bool format_overflow_from_name(const char *name, enum format_overflow *out);

// Independent uniform 64-bit words. An element takes one word, needed or not, so that word i belongs to element i; only
// when a word equals the first 64 bits of the fraction that decides (once in 2^64 draws) it takes another.
struct format_stream {
    uint64_t (*next)(void *state);
    void *state;
};

struct format_cast {
    enum format_rounding rounding;
    enum format_overflow overflow;
    const struct format_stream *stream; // FORMAT_STOCHASTIC only
};

// Counts of inputs; add to what is there. A value is in at most one of nan, infinite, overflowed and flushed.
struct format_counts {
    size_t elements;
    size_t nan;        // NaN
    size_t infinite;   // an infinity
    size_t overflowed; // finite, and the result is infinite, NaN or the largest value instead of what it rounds to.
                       // For formats without a sign also: below 0 (e8m0: also 0) by more than rounding
    size_t flushed;    // not 0, but the result is 0
    size_t inexact;    // finite, and the result is another number (overflowed and flushed ones are in it)
};

// Rounds v once and gives its code. Sign of zero and of NaN are kept where the format has them; a NaN becomes the quiet
// NaN without payload; 0 in integers; -0 in f6 and f4. E8M0 holds no 0
// and no sign: 0, -0 and negative values are NaN (SATURATE: the smallest value), and positive values below the smallest
// are the smallest. counts may be NULL.
uint64_t format_encode(const struct format *f, double v, const struct format_cast *cast, struct format_counts *counts);
// The exact value of a code (bits above the format's are ignored, as ml_dtypes does). NaN is quiet, with its sign.
double format_decode(const struct format *f, uint64_t code);
// decode(encode(v)): v as the format holds it.
double format_round(const struct format *f, double v, const struct format_cast *cast, struct format_counts *counts);

// Arrays. Codes lie one per format_code_bytes(f), in this machine's byte order, at any alignment. Ranges must not
// overlap. ERR_INPUT under FORMAT_OVERFLOW_ERROR: NaN, infinity or an overflow; all codes and counts are set then, too,
// and the message names the first index and the counts; `name` is the tensor's, for messages (NULL: none).
int format_encode_f32(const struct format *f, void *codes, const float *x, size_t n, const struct format_cast *cast,
                      struct format_counts *counts, const char *name, struct error *err);
int format_encode_f64(const struct format *f, void *codes, const double *x, size_t n, const struct format_cast *cast,
                      struct format_counts *counts, const char *name, struct error *err);
void format_decode_f64(const struct format *f, double *x, const void *codes, size_t n);
// Rounds once to f32, nearest even; exact for every format but f64 and 32-bit integers.
void format_decode_f32(const struct format *f, float *x, const void *codes, size_t n);

// Codes of `bits` bits as one string of bits: element i begins at bit i*bits, and bit k is bit k%8, counted from the
// lowest, of byte k/8. So the first of two 4-bit codes is in the low nibble, and four 6-bit codes take three bytes. The
// last byte is filled with 0. codes: one per byte, bits above `bits` are ignored. packed: (n*bits+7)/8 bytes.
void format_pack(int bits, uint8_t *packed, const uint8_t *codes, size_t n);
// is_signed: codes are extended with their sign (to be read as int8_t), else with 0.
void format_unpack(int bits, bool is_signed, uint8_t *codes, const uint8_t *packed, size_t n);

// The table of docs/formats.md between its marks, as Markdown.
void format_print_table(struct str *out);

#endif
