// SPDX-License-Identifier: Apache-2.0
#include "num/dotmodel.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "num/format.h"

// What follows from the rows of num/format.h, made once.
enum { MOST_FORMATS = 32 };
static struct dot_format formats[MOST_FORMATS];
static size_t n_formats;
static pthread_once_t formats_made = PTHREAD_ONCE_INIT;

static void make_formats(void)
{
    const struct format *f;
    for (size_t i = 0; (f = format_at(i)) && n_formats + 1 < MOST_FORMATS; i++) {
        if (format_is_integer(f) || !f->is_signed)
            continue;
        formats[n_formats++] = (struct dot_format){.name = f->name,
                                                   .bits = f->mantissa_bits + 1,
                                                   .emin = 1 - f->bias,
                                                   .emax = format_max_exponent(f),
                                                   .max = format_max(f),
                                                   .infinity = f->infinity == FORMAT_INFINITY_IEEE};
    }
    formats[n_formats++] = (struct dot_format){"e8m13", 14, -126, 127, 0x1.fff8p127, true};
}

const struct dot_format *dot_format(const char *name)
{
    pthread_once(&formats_made, make_formats);
    for (size_t i = 0; i < n_formats; i++) {
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    }
    return NULL;
}

const char *dot_rounding_name(enum dot_rounding r)
{
    static const char *const names[] = {"nearest even", "toward zero", "nearest, ties away", "to odd", "down", "up"};
    return (unsigned)r < DOT_ROUNDINGS ? names[r] : "unknown";
}

const char *dot_order_name(enum dot_order o)
{
    static const char *const names[] = {"sequential", "reversed", "pairwise",   "blocked", "lanes", "fused blocks",
                                        "fused late", "groups",   "pairs, odd", "bfdot",   "exact", "tree"};
    return (unsigned)o < DOT_ORDERS ? names[o] : "unknown";
}

uint32_t dot_f32_bits(double v)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    if (isnan(v))
        return (uint32_t)(b >> 63 << 31) | 0x7fc00000 | (uint32_t)(b >> 29 & 0x3fffff);
    float f = (float)v;
    uint32_t out;
    memcpy(&out, &f, sizeof out);
    return out;
}

// Not through a conversion, which would make a signalling NaN quiet.
double dot_from_f32_bits(uint32_t bits)
{
    double v;
    if ((bits & 0x7fffffff) > 0x7f800000) {
        uint64_t b = (uint64_t)(bits >> 31) << 63 | (uint64_t)0x7ff << 52 | (uint64_t)(bits & 0x7fffff) << 29;
        memcpy(&v, &b, sizeof v);
        return v;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    v = (double)f;
    return v;
}

// The unbiased exponent of a finite number, and far below all others for zero.
static int exponent_of(double v)
{
    int e;
    if (v == 0)
        return -100000;
    frexp(v, &e);
    return e - 1;
}

static double whole(double v, enum dot_rounding rounding)
{
    switch (rounding) {
    case DOT_NEAREST:
        return rint(v);
    case DOT_AWAY:
        return round(v);
    case DOT_DOWN:
        return floor(v);
    case DOT_UP:
        return ceil(v);
    case DOT_TO_ODD: {
        double t = trunc(v);
        return t != v && fmod(t, 2) == 0 ? t + copysign(1, v) : t;
    }
    default:
        return trunc(v);
    }
}

// Beyond the largest number.
static double beyond(double v, const struct dot_format *f, enum dot_rounding rounding, bool saturate)
{
    bool stops = saturate || rounding == DOT_TOWARD_ZERO || rounding == DOT_TO_ODD || (rounding == DOT_DOWN && v > 0) ||
                 (rounding == DOT_UP && v < 0);
    return stops ? copysign(f->max, v) : f->infinity ? copysign(INFINITY, v) : NAN;
}

double dot_round(double v, const struct dot_format *f, enum dot_rounding rounding, bool flush, bool saturate)
{
    if (isnan(v) || v == 0)
        return v;
    if (isinf(v))
        return f->infinity && !saturate ? v : saturate ? copysign(f->max, v) : NAN;
    double r = v;
    if (f->bits < 53) {
        int e = exponent_of(v), ulp = (e > f->emin ? e : f->emin) - (f->bits - 1);
        r = copysign(ldexp(whole(ldexp(v, -ulp), rounding), ulp), v);
        if (fabs(r) > f->max)
            return beyond(v, f, rounding, saturate);
    }
    return flush && fabs(r) < ldexp(1, f->emin) ? copysign(0, r) : r;
}

// a + b rounded to odd at 53 bits: what a rounding to at most 51 bits needs to come out as if the sum were exact.
static double odd_sum(double a, double b)
{
    double s = a + b;
    if (!isfinite(s))
        return s;
    double bb = s - a, rest = (a - (s - bb)) + (b - bb);
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if (rest != 0 && (bits & 1) == 0)
        s = nextafter(s, rest > 0 ? INFINITY : -INFINITY);
    return s;
}

double dot_add(double a, double b, const struct dot_format *f, enum dot_rounding rounding, bool flush)
{
    return dot_round(f->bits == 53 ? a + b : odd_sum(a, b), f, rounding, flush, false);
}

double dot_fma(double a, double b, double c, const struct dot_format *f, enum dot_rounding rounding, bool flush)
{
    return dot_round(f->bits == 53 ? fma(a, b, c) : odd_sum(a * b, c), f, rounding, flush, false);
}

// ---- one dot of prepared operands

struct operands {
    const double *a, *b;
    size_t n;
    const struct dot_format *format; // of the operands, for the exponents of subnormals
};

// Accumulates one product.
static double step(const struct dot_model *m, const struct dot_format *f, double acc, double a, double b)
{
    if (!m->separate)
        return dot_fma(a, b, acc, f, m->rounding, m->flush);
    double p = dot_round(a * b, m->product ? m->product : f, m->rounding, m->flush, false);
    return dot_add(acc, p, f, m->rounding, m->flush);
}

static double chain(const struct dot_model *m, const struct dot_format *f, const struct operands *o, size_t first,
                    size_t end, size_t stride)
{
    double acc = 0;
    for (size_t i = first; i < end; i += stride)
        acc = step(m, f, acc, o->a[i], o->b[i]);
    return acc;
}

static double leaf(const struct dot_model *m, double a, double b)
{
    const struct dot_format *f = m->accumulator;
    double p = a * b;
    if (m->separate && m->product)
        p = dot_round(p, m->product, m->rounding, m->flush, false);
    return dot_round(p, f, m->rounding, m->flush, false);
}

// Two exact products are added in one rounding.
static double pairwise(const struct dot_model *m, const struct operands *o, size_t first, size_t n)
{
    if (n == 1)
        return leaf(m, o->a[first], o->b[first]);
    if (n == 2 && !m->separate && m->accumulator->bits < 53)
        return dot_round(odd_sum(o->a[first] * o->b[first], o->a[first + 1] * o->b[first + 1]), m->accumulator,
                         m->rounding, m->flush, false);
    size_t left = n / 2;
    return dot_add(pairwise(m, o, first, left), pairwise(m, o, first + left, n - left), m->accumulator, m->rounding,
                   m->flush);
}

static double blocked(const struct dot_model *m, const struct operands *o)
{
    const struct dot_format *inner = m->inner ? m->inner : dot_format("f32");
    double acc = 0;
    for (size_t k = 0, block = (size_t)m->block; k < o->n; k += block)
        acc = dot_add(acc, chain(m, inner, o, k, k + block < o->n ? k + block : o->n, 1), m->accumulator, m->rounding,
                      m->flush);
    return acc;
}

static double groups(const struct dot_model *m, const struct operands *o)
{
    double acc = 0;
    for (size_t k = 0, block = (size_t)m->block; k < o->n; k += block)
        acc =
            dot_add(acc, pairwise(m, o, k, k + block < o->n ? block : o->n - k), m->accumulator, m->rounding, m->flush);
    return acc;
}

enum { MOST_LANES = 1024 };

static double lanes(const struct dot_model *m, const struct operands *o)
{
    double sums[MOST_LANES] = {0};
    size_t n = (size_t)m->block;
    for (size_t i = 0; i < n; i++)
        sums[i] = chain(m, m->accumulator, o, i, o->n, n);
    for (size_t half = n / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++)
            sums[i] = dot_add(sums[i], sums[i + half], m->accumulator, m->rounding, m->flush);
    }
    return sums[0];
}

static double pairs_odd(const struct dot_model *m, const struct operands *o)
{
    double acc = 0;
    for (size_t i = 0; i < o->n; i += 2) {
        if (i + 1 < o->n)
            acc = step(m, m->accumulator, acc, o->a[i + 1], o->b[i + 1]);
        acc = step(m, m->accumulator, acc, o->a[i], o->b[i]);
    }
    return acc;
}

static double bfdot(const struct dot_model *m, const struct operands *o)
{
    double acc = 0;
    for (size_t i = 0; i < o->n; i += 2) {
        double p = dot_fma(o->a[i], o->b[i], 0, m->accumulator, DOT_TO_ODD, m->flush);
        double q = i + 1 < o->n ? dot_fma(o->a[i + 1], o->b[i + 1], 0, m->accumulator, DOT_TO_ODD, m->flush) : 0;
        acc = dot_add(acc, dot_add(p, q, m->accumulator, DOT_TO_ODD, m->flush), m->accumulator, DOT_TO_ODD, m->flush);
    }
    return acc;
}

// ---- blocks added as fixed-point numbers

enum { F32_EMIN = -126 };

struct term {
    double value; // exact
    int exponent; // by which it is aligned: that of a product is the sum of its operands', so its significand is below
                  // 4
};

enum { MOST_TERMS = 1024 };

static struct term product_term(const struct operands *o, size_t i)
{
    const struct dot_format *f = o->format;
    int ea = exponent_of(o->a[i]), eb = exponent_of(o->b[i]);
    ea = ea < f->emin ? f->emin : ea;
    eb = eb < f->emin ? f->emin : eb;
    double p = o->a[i] * o->b[i];
    return (struct term){p, p == 0 ? F32_EMIN : ea + eb};
}

static struct term sum_term(double v)
{
    int e = exponent_of(v);
    return (struct term){v, e < F32_EMIN ? F32_EMIN : e};
}

// The terms cut toward zero after `fraction` bits below the largest exponent, and added exactly: every term is below
// 2^(fraction + 2) units, so a sum of 1024 of them fits a double for any fraction up to 41.
static double aligned_sum(const struct term *t, size_t n, int fraction, int *exponent)
{
    int top = t[0].exponent;
    double sum = 0;
    for (size_t i = 1; i < n; i++)
        top = t[i].exponent > top ? t[i].exponent : top;
    for (size_t i = 0; i < n; i++)
        sum += trunc(ldexp(t[i].value, fraction - top));
    *exponent = top;
    return ldexp(sum, top - fraction);
}

static bool all_finite(const struct term *t, size_t n, double *otherwise)
{
    double sum = 0;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        finite &= isfinite(t[i].value) != 0;
        sum += isfinite(t[i].value) ? 0 : t[i].value;
    }
    *otherwise = sum;
    return finite;
}

static double round_block(const struct dot_model *m, double v)
{
    const struct dot_format *f = m->accumulator;
    if (fabs(v) >= ldexp(1, f->emax + 1))
        return f->infinity ? copysign(INFINITY, v) : NAN;
    return dot_round(v, f, m->rounding, m->flush, false);
}

static double fused(const struct dot_model *m, const struct operands *o)
{
    struct term t[MOST_TERMS + 1];
    double acc = 0, special;
    int top;
    for (size_t k = 0, block = (size_t)m->block; k < o->n; k += block) {
        size_t n = 0;
        for (size_t i = k; i < o->n && i < k + block; i++)
            t[n++] = product_term(o, i);
        t[n++] = sum_term(acc);
        acc = all_finite(t, n, &special) ? round_block(m, aligned_sum(t, n, m->fraction, &top)) : special;
    }
    return acc;
}

static double cut_down(double v, int bits, int top)
{
    return ldexp(floor(ldexp(v, bits - top)), top - bits);
}

// One block of DOT_FUSED_LATE.
static double late_block(const struct dot_model *m, const struct term *t, size_t n, double acc)
{
    struct term half[2][MOST_TERMS];
    size_t count[2] = {0};
    struct term c = sum_term(acc);
    int top, e[2];
    double sum;
    if (m->halves) {
        for (size_t i = 0; i < n; i++)
            half[i % 2][count[i % 2]++] = t[i];
        double even = aligned_sum(half[0], count[0], m->fraction, &e[0]);
        double odd = count[1] ? aligned_sum(half[1], count[1], m->fraction, &e[1]) : 0;
        top = count[1] && e[1] > e[0] ? e[1] : e[0];
        sum = cut_down(even, m->fraction, top) + cut_down(odd, m->fraction, top);
    } else {
        sum = aligned_sum(t, n, m->fraction, &top);
    }
    top = c.exponent > top ? c.exponent : top;
    double kept = m->halves && c.exponent < top - 25 ? 0 : cut_down(acc, 24, top);
    return round_block(m, cut_down(sum, 31, top) + kept);
}

static double fused_late(const struct dot_model *m, const struct operands *o)
{
    struct term t[MOST_TERMS];
    double acc = 0, special;
    for (size_t k = 0, block = (size_t)m->block; k < o->n; k += block) {
        size_t n = 0;
        for (size_t i = k; i < o->n && i < k + block; i++) {
            t[n] = product_term(o, i);
            if (fabs(t[n].value) >= 0x1p128)
                t[n].value = copysign(INFINITY, t[n].value);
            n++;
        }
        acc = all_finite(t, n, &special) && isfinite(acc) ? late_block(m, t, n, acc) : special + acc;
    }
    return acc;
}

// ---- the exact sum: a fixed-point number of 32-bit limbs from 2^-320 to 2^320, which holds every product of two f32

enum { LIMBS = 22, LOWEST = -320 };

static void exact_add(int64_t limbs[LIMBS], double v)
{
    int e;
    double s = frexp(v, &e); // v = s 2^e, of at most 53 bits
    int64_t mantissa = (int64_t)ldexp(s, 53);
    int at = e - 53 - LOWEST;
    if (at < 0) { // the low bits of a product are zero, so nothing is lost
        mantissa /= (int64_t)1 << -at;
        at = 0;
    }
    __int128 shifted = (__int128)(mantissa < 0 ? -mantissa : mantissa) << at % 32;
    for (int i = at / 32; shifted && i < LIMBS; i++, shifted >>= 32)
        limbs[i] += mantissa < 0 ? -(int64_t)(shifted & UINT32_MAX) : (int64_t)(shifted & UINT32_MAX);
}

// The sum rounded to odd at 53 bits or more.
static double exact_value(int64_t limbs[LIMBS])
{
    double v = 0;
    for (int i = 0; i + 1 < LIMBS; i++) { // limbs become 0 to 2^32-1, the last one takes the sign
        int64_t carry = limbs[i] >> 32;
        limbs[i + 1] += carry;
        limbs[i] -= carry * ((int64_t)1 << 32);
    }
    bool negative = limbs[LIMBS - 1] < 0;
    if (negative) {
        for (int i = 0; i < LIMBS; i++)
            limbs[i] = -limbs[i];
        for (int i = 0; i + 1 < LIMBS; i++) {
            int64_t carry = limbs[i] >> 32;
            limbs[i + 1] += carry;
            limbs[i] -= carry * ((int64_t)1 << 32);
        }
    }
    // From the top: odd_sum of what is above and a limb keeps a sticky last bit, which stays odd whatever follows.
    for (int i = LIMBS - 1; i >= 0; i--)
        v = limbs[i] ? odd_sum(v, ldexp((double)limbs[i], LOWEST + 32 * i)) : v;
    return negative ? -v : v;
}

static double exact(const struct dot_model *m, const struct term *t, size_t n)
{
    int64_t limbs[LIMBS] = {0};
    double special;
    if (!all_finite(t, n, &special))
        return special;
    for (size_t i = 0; i < n; i++)
        exact_add(limbs, t[i].value);
    return dot_round(exact_value(limbs), m->accumulator, m->rounding, m->flush, false);
}

// ---- trees

static double node_of_two(const struct dot_model *m, const struct operands *o, const struct dot_tree *t,
                          const double *values, int x, int y)
{
    if (x >= t->leaves && y >= t->leaves)
        return dot_add(values[x], values[y], m->accumulator, m->rounding, m->flush);
    if (x < t->leaves && y < t->leaves) {
        int first = (x < y) != m->high_first ? x : y, second = first == x ? y : x;
        return step(m, m->accumulator, step(m, m->accumulator, 0, o->a[first], o->b[first]), o->a[second],
                    o->b[second]);
    }
    int sum = x >= t->leaves ? x : y, product = sum == x ? y : x;
    return step(m, m->accumulator, values[sum], o->a[product], o->b[product]);
}

static int tree(const struct dot_model *m, const struct operands *o, double *out, struct error *err)
{
    const struct dot_tree *t = m->tree;
    size_t n_nodes = (size_t)t->nodes;
    double *values = calloc(n_nodes, sizeof *values);
    struct term *terms = calloc(n_nodes, sizeof *terms);
    int rc = values && terms ? 0 : error_set(err, ERR_MEMORY, NULL, "no memory for a tree of %d nodes", t->nodes);
    for (int i = t->leaves; i < t->nodes && !rc; i++) {
        const int *child = t->children + t->start[i - t->leaves];
        int n = t->start[i - t->leaves + 1] - t->start[i - t->leaves];
        if (n == 2) {
            values[i] = node_of_two(m, o, t, values, child[0], child[1]);
            continue;
        }
        double special;
        int top;
        for (int k = 0; k < n; k++)
            terms[k] = child[k] < t->leaves ? product_term(o, (size_t)child[k]) : sum_term(values[child[k]]);
        if (m->fraction == 0)
            values[i] = exact(m, terms, (size_t)n);
        else if (all_finite(terms, (size_t)n, &special))
            values[i] = round_block(m, aligned_sum(terms, (size_t)n, m->fraction, &top));
        else
            values[i] = special;
    }
    if (!rc)
        *out = t->nodes > t->leaves ? values[t->nodes - 1] : leaf(m, o->a[0], o->b[0]);
    free(values);
    free(terms);
    return rc;
}

// ---- operands and passes

static int one_dot(const struct dot_model *m, const struct operands *o, double *out, struct error *err)
{
    switch (m->order) {
    case DOT_REVERSED: {
        double acc = 0;
        for (size_t i = o->n; i-- > 0;)
            acc = step(m, m->accumulator, acc, o->a[i], o->b[i]);
        *out = acc;
        return 0;
    }
    case DOT_PAIRWISE:
        *out = o->n ? pairwise(m, o, 0, o->n) : 0;
        return 0;
    case DOT_BLOCKED:
        *out = blocked(m, o);
        return 0;
    case DOT_LANES:
        *out = lanes(m, o);
        return 0;
    case DOT_FUSED:
        *out = fused(m, o);
        return 0;
    case DOT_FUSED_LATE:
        *out = fused_late(m, o);
        return 0;
    case DOT_GROUPS:
        *out = groups(m, o);
        return 0;
    case DOT_PAIRS_ODD:
        *out = pairs_odd(m, o);
        return 0;
    case DOT_BFDOT:
        *out = bfdot(m, o);
        return 0;
    case DOT_EXACT: {
        struct term *t = calloc(o->n + 1, sizeof *t);
        if (!t)
            return error_set(err, ERR_MEMORY, NULL, "no memory for %zu products", o->n);
        for (size_t i = 0; i < o->n; i++)
            t[i].value = o->a[i] * o->b[i];
        *out = exact(m, t, o->n);
        free(t);
        return 0;
    }
    case DOT_TREE:
        return tree(m, o, out, err);
    default:
        *out = chain(m, m->accumulator, o, 0, o->n, 1);
        return 0;
    }
}

static double cast_operand(const struct dot_model *m, double v)
{
    if (!m->operand) {
        bool small = m->operand_flush && fabs(v) < 0x1p-126;
        return small ? copysign(0, v) : v;
    }
    return dot_round(v, m->operand, m->operand_rounding, m->operand_flush, false);
}

static int check(const struct dot_model *m, size_t n, struct error *err)
{
    bool in_blocks = m->order == DOT_BLOCKED || m->order == DOT_LANES || m->order == DOT_FUSED ||
                     m->order == DOT_FUSED_LATE || m->order == DOT_GROUPS;
    const char *wrong = NULL;
    if (!m->accumulator)
        wrong = "has no accumulator format";
    else if ((unsigned)m->order >= DOT_ORDERS || (unsigned)m->rounding >= DOT_ROUNDINGS)
        wrong = "has an order or rounding that does not exist";
    else if (in_blocks && (m->block < 1 || m->block > MOST_TERMS))
        wrong = "needs blocks of 1 to 1024 elements";
    else if (m->order == DOT_LANES && (m->block & (m->block - 1)))
        wrong = "needs a power of two of lanes";
    else if (m->passes != 0 && m->passes != 1 && m->passes != 3 && m->passes != 6 && m->passes != 9)
        wrong = "has a number of passes that is not 1, 3, 6 or 9";
    else if (m->passes > 1 && !m->operand)
        wrong = "splits operands, but not into which format";
    else if (m->order == DOT_TREE && (!m->tree || m->tree->leaves < 1 || (size_t)m->tree->leaves != n))
        wrong = "has a tree of another length than the dot";
    else if (m->fraction < 0 || m->fraction > 41)
        wrong = "keeps a number of fraction bits that is not 0 to 41";
    else if (m->accumulator->bits == 53 && m->rounding != DOT_NEAREST)
        wrong = "rounds f64 sums otherwise than to nearest even";
    return wrong ? error_set(err, ERR_INPUT, m->name, "the model %s", wrong) : 0;
}

// Part p of every element (0: the highest), in `out`.
static void split_part(const struct dot_model *m, const double *x, size_t stride, size_t n, int part, int parts,
                       double *out)
{
    for (size_t i = 0; i < n; i++) {
        double rest = x[i * stride], v = 0;
        for (int p = 0; p <= part; p++) {
            enum dot_rounding r = m->last_nearest && p == parts - 1 ? DOT_NEAREST : m->operand_rounding;
            v = dot_round(rest, m->operand, r, m->operand_flush, false);
            rest -= v;
        }
        out[i] = v;
    }
}

// Smallest first.
static int in_passes(const struct dot_model *m, struct operands *o, const double *const a[3], const double *const b[3],
                     double *out, struct error *err)
{
    static const int three[][2] = {{0, 1}, {1, 0}, {0, 0}};
    static const int nine[][2] = {{2, 2}, {1, 2}, {2, 1}, {1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}, {0, 0}};
    const int(*order)[2] = m->passes == 3 ? three : nine + (9 - m->passes);
    double sum = 0;
    for (int p = 0; p < m->passes; p++) {
        double part;
        o->a = a[order[p][0]];
        o->b = b[order[p][1]];
        int rc = one_dot(m, o, &part, err);
        if (rc)
            return rc;
        if (p == m->passes - 1 && m->guard && !isfinite(sum))
            sum = 0;
        sum = p ? dot_add(sum, part, m->accumulator, DOT_NEAREST, m->flush) : part;
    }
    *out = sum;
    return 0;
}

static double settle_nan(const struct dot_model *m, const double *a, size_t as, const double *b, size_t bs, size_t n)
{
    if (m->nan == DOT_NAN_CANONICAL)
        return dot_from_f32_bits(m->nan_bits);
    for (size_t i = 0; i < n; i++) {
        double v = isnan(a[i * as]) ? a[i * as] : b[i * bs];
        if (isnan(v))
            return dot_from_f32_bits(dot_f32_bits(v));
    }
    return dot_from_f32_bits(0xffc00000);
}

int dot_model_run(const struct dot_model *m, const double *a, size_t a_stride, const double *b, size_t b_stride,
                  size_t n, double *out, struct error *err)
{
    int rc = check(m, n, err), parts = m->passes <= 1 ? 1 : m->passes == 3 ? 2 : 3;
    if (rc)
        return rc;
    double *room = calloc(6 * n + 1, sizeof *room), *pa[3], *pb[3], v = 0;
    if (!room)
        return error_set(err, ERR_MEMORY, m->name, "no memory for a dot of %zu", n);
    for (int p = 0; p < parts; p++) {
        pa[p] = room + (size_t)(2 * p) * n;
        pb[p] = room + (size_t)(2 * p + 1) * n;
        if (parts > 1) {
            split_part(m, a, a_stride, n, p, parts, pa[p]);
            split_part(m, b, b_stride, n, p, parts, pb[p]);
        }
    }
    struct operands o = {pa[0], pb[0], n, m->operand ? m->operand : dot_format("f32")};
    if (parts == 1) {
        for (size_t i = 0; i < n; i++) {
            pa[0][i] = cast_operand(m, a[i * a_stride]);
            pb[0][i] = cast_operand(m, b[i * b_stride]);
        }
        rc = one_dot(m, &o, &v, err);
    } else {
        rc = in_passes(m, &o, (const double *const *)pa, (const double *const *)pb, &v, err);
    }
    if (isnan(v))
        v = settle_nan(m, a, a_stride, b, b_stride, n);
    else if (m->output)
        v = dot_round(v, m->output, m->output_rounding, m->output_flush, m->output_saturate);
    *out = v;
    free(room);
    return rc;
}

// ---- integers

const char *dot_integer_name(enum dot_integer k)
{
    static const char *const names[] = {"int32, wrapping",
                                        "int32, saturating (as x86 VPDPBUSDS)",
                                        "int16 pairs, saturating (as x86 without VNNI)",
                                        "int16 pairs, saturating, behind a shift by 128 (as x86 without VNNI)",
                                        "f32 sums",
                                        "int64"};
    return (unsigned)k < DOT_INTS ? names[k] : "unknown";
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static int64_t wrap32(int64_t v)
{
    return (int32_t)(uint32_t)(uint64_t)v;
}

static int64_t in_pairs(const int32_t *a, const int32_t *b, size_t n, int32_t shift)
{
    int64_t sum = 0, correction = 0;
    for (size_t i = 0; i < n; i += 2) {
        int64_t pair = (int64_t)(a[i] + shift) * b[i] + (i + 1 < n ? (int64_t)(a[i + 1] + shift) * b[i + 1] : 0);
        correction += (int64_t)shift * (b[i] + (i + 1 < n ? b[i + 1] : 0));
        sum = wrap32(sum + clamp(pair, INT16_MIN, INT16_MAX));
    }
    return wrap32(sum - correction);
}

int64_t dot_integer_run(enum dot_integer k, const int32_t *a, const int32_t *b, size_t n)
{
    int64_t sum = 0;
    float f = 0;
    if (k == DOT_INT_PAIRS16 || k == DOT_INT_PAIRS16_S8)
        return in_pairs(a, b, n, k == DOT_INT_PAIRS16 ? 0 : 128);
    for (size_t i = 0; i < n; i++) {
        f += (float)a[i] * (float)b[i];
        sum += (int64_t)a[i] * b[i];
        if (k == DOT_INT_SATURATE && (i % 4 == 3 || i + 1 == n))
            sum = clamp(sum, INT32_MIN, INT32_MAX);
    }
    return k == DOT_INT_F32 ? (int64_t)f : k == DOT_INT_WRAP ? wrap32(sum) : sum;
}
