// SPDX-License-Identifier: Apache-2.0
#include "report/format.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"

struct prefix {
    const char *name;
    double factor;
};

// From the largest to the smallest.
static const struct prefix decimal[] = {
    {"E", 1e18}, {"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1},
};
static const struct prefix binary[] = {
    {"PiB", 0x1p50}, {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10},
};
// Units of time, in seconds.
static const struct prefix times[] = {
    {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"ps", 1e-12},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

// Decimals after the point that give `digits` significant ones; the value is rounded to them first, so that 9.996
// becomes 10.0 and not 10.00.
static int decimals(double value, int digits)
{
    if (value == 0)
        return digits - 1;
    char text[FORMAT_MAX];
    snprintf(text, sizeof text, "%.*e", digits - 1, value);
    int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    int d = digits - 1 - exponent;
    return d < 0 ? 0 : d;
}

void format_exponent(char *out, double value, int digits)
{
    if (!isfinite(value)) {
        snprintf(out, FORMAT_MAX, FORMAT_NULL);
        return;
    }
    if (value == 0) {
        snprintf(out, FORMAT_MAX, "0");
        return;
    }
    snprintf(out, FORMAT_MAX, "%.*e", digits - 1, value);
    char *e = strchr(out, 'e');
    int exponent = (int)strtol(e + 1, NULL, 10);
    snprintf(e, FORMAT_MAX - (size_t)(e - out), "e%d", exponent);
}

void format_share(char *out, double value)
{
    double away = 1 - value;
    if (!(value >= 0 && value < 1)) {
        format_number(out, value, 3);
        if (value == 1)
            snprintf(out, FORMAT_MAX, "1");
        return;
    }
    int d = 1 + (int)ceil(-log10(away));
    d = d < 3 ? 3 : d > 7 ? 7 : d;
    double unit = pow(10, d);
    snprintf(out, FORMAT_MAX, "%.*f", d, floor(value * unit + 1e-9) / unit);
}

void format_number(char *out, double value, int digits)
{
    if (!isfinite(value)) {
        snprintf(out, FORMAT_MAX, FORMAT_NULL);
        return;
    }
    double a = fabs(value);
    if (value == 0)
        snprintf(out, FORMAT_MAX, "0");
    else if (a < 1e-4 || a >= 1e7)
        format_exponent(out, value, digits);
    else
        snprintf(out, FORMAT_MAX, "%.*f", decimals(value, digits), value);
}

void format_count(char *out, double value)
{
    if (!isfinite(value)) {
        snprintf(out, FORMAT_MAX, FORMAT_NULL);
        return;
    }
    char digits[FORMAT_MAX];
    if (fabs(value) > 0x1p53) {
        snprintf(out, FORMAT_MAX, "%.3e", value);
        return;
    }
    int n = snprintf(digits, sizeof digits, "%.0f", fabs(value));
    char *p = out;
    if (value < 0)
        *p++ = '-';
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            *p++ = ',';
        *p++ = digits[i];
    }
    *p = '\0';
}

// The largest prefix below which the value, rounded to three digits, is at least one.
static size_t pick(const struct prefix *p, size_t n, double value)
{
    double a = fabs(value) * (1 + 5e-4); // 999.6 is shown as 1.00 of the next unit
    for (size_t i = 0; i < n; i++)
        if (a >= p[i].factor)
            return i;
    return n - 1;
}

static void with_prefix(char *out, double value, const struct prefix *p, const char *unit)
{
    // Past the prefixes it has an exponent: 1e300 written out leaves no room for a unit.
    char number[FORMAT_MAX];
    format_number(number, value / p->factor, 3);
    snprintf(out, FORMAT_MAX, "%.20s %s%.24s", number, p->name, unit);
}

void format_time(char *out, double seconds)
{
    if (!isfinite(seconds))
        snprintf(out, FORMAT_MAX, FORMAT_NULL);
    else if (seconds == 0)
        snprintf(out, FORMAT_MAX, "0 s");
    else
        with_prefix(out, seconds, &times[pick(times, COUNT(times), seconds)], "");
}

void format_si(char *out, double value, const char *unit)
{
    if (!isfinite(value)) {
        snprintf(out, FORMAT_MAX, FORMAT_NULL);
        return;
    }
    const struct prefix *p = &decimal[pick(decimal, COUNT(decimal), value)];
    if (value == 0 || (p->factor == 1 && value == floor(value)))
        snprintf(out, FORMAT_MAX, "%.0f %.24s", value, unit);
    else
        with_prefix(out, value, p, unit);
}

void format_bytes(char *out, double bytes)
{
    format_si(out, bytes, "B");
}

void format_bytes_binary(char *out, double bytes)
{
    if (!isfinite(bytes))
        snprintf(out, FORMAT_MAX, FORMAT_NULL);
    else if (fabs(bytes) < 1024)
        snprintf(out, FORMAT_MAX, "%.0f B", bytes);
    else
        with_prefix(out, bytes, &binary[pick(binary, COUNT(binary), bytes)], "");
}

// The unit's scale in seconds, or 0.
static double time_unit(const char *unit)
{
    for (size_t i = 0; i < COUNT(times); i++)
        if (strcmp(unit, times[i].name) == 0)
            return times[i].factor;
    return 0;
}

// Takes a decimal prefix off a counting unit ("TFLOP/s" gives 1e12 and "FLOP/s"); 0 when the unit is not a counting
// one.
static double counting_unit(const char *unit, const char **base)
{
    static const char *const bases[] = {"FLOP/s", "OP/s",        "B/s",       "FLOP",     "OP",
                                        "B",      "FLOP/s/chip", "samples/s", "tokens/s", "items/s"};
    for (size_t p = 0; p < COUNT(decimal); p++) {
        size_t k = strlen(decimal[p].name);
        if (strncmp(unit, decimal[p].name, k) != 0)
            continue;
        for (size_t b = 0; b < COUNT(bases); b++) {
            if (strcmp(unit + k, bases[b]) == 0) {
                *base = bases[b];
                return decimal[p].factor;
            }
        }
    }
    return 0;
}

void format_quantity(char *out, struct quantity q)
{
    const char *unit = q.unit ? q.unit : "", *base;
    double f;
    if (!isfinite(q.value)) {
        snprintf(out, FORMAT_MAX, FORMAT_NULL);
    } else if (!*unit || strcmp(unit, "1") == 0) {
        format_number(out, q.value, 3);
    } else if (strcmp(unit, "count") == 0) {
        format_count(out, q.value);
    } else if (strcmp(unit, "%") == 0 || strcmp(unit, "dB") == 0) {
        snprintf(out, FORMAT_MAX, "%.1f %s", q.value, unit);
    } else if ((f = time_unit(unit)) != 0) {
        format_time(out, q.value * f);
    } else if ((f = counting_unit(unit, &base)) != 0) {
        // Rates of work in whole items are read better as they are than with a prefix.
        if (strchr("sti", *base))
            snprintf(out, FORMAT_MAX, "%.*f %s", decimals(q.value * f, 3), q.value * f, base);
        else
            format_si(out, q.value * f, base);
    } else {
        for (size_t i = 0; i < COUNT(binary); i++) {
            if (strcmp(unit, binary[i].name) == 0) {
                format_bytes_binary(out, q.value * binary[i].factor);
                return;
            }
        }
        char number[FORMAT_MAX];
        format_number(number, q.value, 3);
        snprintf(out, FORMAT_MAX, "%.20s %.24s", number, unit);
    }
}

double quantity_base(struct quantity q)
{
    const char *unit = q.unit ? q.unit : "", *base;
    double f = time_unit(unit);
    if (f == 0)
        f = counting_unit(unit, &base);
    for (size_t i = 0; f == 0 && i < COUNT(binary); i++)
        if (strcmp(unit, binary[i].name) == 0)
            f = binary[i].factor;
    return f != 0 ? q.value * f : q.value;
}

struct scale scale_pick(const double *values, size_t n, const char *unit)
{
    struct scale s = {1, "", unit};
    double *finite = calloc(n ? 2 * n : 1, sizeof *finite), middle = NAN;
    if (finite) {
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            if (isfinite(values[i]) && values[i] != 0)
                finite[k++] = fabs(values[i]);
        middle = stats_median(finite, k, finite + n);
        free(finite);
    }
    if (!isfinite(middle))
        return s;
    double f = time_unit(unit);
    const char *base;
    if (f != 0) {
        const struct prefix *p = &times[pick(times, COUNT(times), middle * f)];
        s = (struct scale){f / p->factor, p->name, ""};
    } else if ((f = counting_unit(unit, &base)) != 0) {
        const struct prefix *p = &decimal[pick(decimal, COUNT(decimal), middle * f)];
        s = (struct scale){f / p->factor, p->name, base};
    }
    return s;
}

void scale_name(char *out, struct scale s)
{
    snprintf(out, FORMAT_MAX, "%s%.40s", s.prefix, s.unit);
}

void format_scaled(char *out, double value, struct scale s, int digits)
{
    double v = value * s.factor;
    if (!isfinite(v))
        snprintf(out, FORMAT_MAX, FORMAT_NULL);
    else
        snprintf(out, FORMAT_MAX, "%.*f", v == 0 ? 0 : decimals(v, digits) > 6 ? 6 : decimals(v, digits), v);
}
