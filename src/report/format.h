// SPDX-License-Identifier: Apache-2.0
// Numbers for people: three significant digits, a unit prefix that fits, never two kinds of byte units mixed.
#ifndef REPORT_FORMAT_H
#define REPORT_FORMAT_H

#include <stddef.h>

#include "base/quantity.h"

#define FORMAT_MAX  48
#define FORMAT_NULL "\xe2\x80\x93" // the dash that stands where no number can be given

// All write a C string into out[FORMAT_MAX]. A value that is not finite gives FORMAT_NULL.

// `digits` significant digits with trailing zeros kept ("1.20"); exponent form below 1e-4 and from 1e7 on.
void format_number(char *out, double value, int digits);
// A share near one (a cosine, an agreement): as many decimals as its distance from one needs, three to seven, cut and
// never rounded up, so that only 1 itself is shown as "1".
void format_share(char *out, double value);
// Always in exponent form, "2.90e-3", for a column whose rows lie decades apart. Zero is "0".
void format_exponent(char *out, double value, int digits);
// The whole number with its thousands apart ("22,713,216"); for values up to 2^53.
void format_count(char *out, double value);
// "412 ns", "1.23 ms", "75.0 s", from seconds.
void format_time(char *out, double seconds);
// Decimal units (1 MB = 1e6 B), or binary ones (1 MiB = 2^20 B). Below one kB or KiB the exact count.
void format_bytes(char *out, double bytes);
void format_bytes_binary(char *out, double bytes);
// Decimal prefix before any unit: "149 TFLOP/s", "3.35 TB/s", "2.90 GFLOP".
void format_si(char *out, double value, const char *unit);
// By the unit: "B" bytes (decimal), "s" "ms" "us" "ns" "ps" time, "1" or "" a bare number, "%", "dB" with one decimal,
// "count" a whole number; FLOP, OP, FLOP/s, OP/s, B/s and the like with a prefix; anything else as it is.
// A unit that already has a prefix is taken apart first ("TB/s", "GiB" stays binary).
void format_quantity(char *out, struct quantity q);

// The value in its base unit: seconds for times, FLOP, OP, B or their rates without prefix, bytes for KiB and the like.
double quantity_base(struct quantity q);

// One unit for a whole column, so that the rows can be compared at a glance.
struct scale {
    double factor;      // shown = value * factor
    const char *prefix; // "", "k", "M", ... or "us", "ms", "s" in whole for times
    const char *unit;
};
// Chooses it from the median of the finite values: times (unit "s", "ms", "us", "ns") between ns and s, others by
// decimal prefix. `unit` is borrowed.
struct scale scale_pick(const double *values, size_t n, const char *unit);
// "MB", "ms": prefix and unit as one word.
void scale_name(char *out, struct scale s);
// The value in the column's unit, `digits` significant (more before the point are kept: "1234").
void format_scaled(char *out, double value, struct scale s, int digits);

#endif
