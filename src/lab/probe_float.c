// SPDX-License-Identifier: Apache-2.0
// The probes of a float path: first the order of the sum, then its width and rounding (with powers of two, which every
// operand format holds), then what becomes of operands, as the one candidate that explains every result.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/probe.h"
#include "lab/probe_replay.h"

struct asking {
    struct probe_target *t;
    const struct dot_format *in, *out; // formats of the path's types
    struct probe_batch *batch;
    struct probe_fingerprint *f;
    struct arena *arena;
    size_t p0, near, next, far1,
        far2;           // places: p0 and the one it is added to first; the one after; across the widest steps
    int first_by_flush; // of the two first products, 1: the later one is rounded alone, 0: the earlier, -1: not seen
    int scale;          // "1" in the sums is 2^scale, so that small terms are numbers of the type
};

static bool holds(const struct dot_format *f, double v)
{
    return !isfinite(v) || dot_round(v, f, DOT_NEAREST, false, false) == v;
}

// A term of that value: as one operand and 1 where the type's range allows, else as two factors.
static void add_term(const struct asking *q, struct probe_vector *v, size_t at, double value)
{
    int e;
    double s = frexp(value, &e) * 2; // value = s 2^(e-1)
    e -= 1;
    if (value == 0 || !isfinite(value) || (e >= q->in->emin && e < q->in->emax && q->in->emax >= 127)) {
        probe_vector_term(v, at, 1, value);
        return;
    }
    int a = e / 2;
    probe_vector_term(v, at, ldexp(s, a), ldexp(1, e - a));
}

static struct probe_vector *sum_of(const struct asking *q, const char *probe, const char *variant, size_t at0,
                                   double v0, size_t at1, double v1, size_t at2, double v2)
{
    struct probe_vector *v = probe_batch_add(q->batch, probe, variant);
    if (!v)
        return NULL;
    add_term(q, v, at0, v0);
    add_term(q, v, at1, v1);
    if (v2 != 0)
        add_term(q, v, at2, v2);
    return v;
}

static int run_from(const struct asking *q, size_t first, struct error *err)
{
    return probe_batch_run(q->batch, first, q->t, err);
}

static double result(const struct asking *q, size_t i)
{
    return q->batch->vectors[i].out;
}

// ---- places in the tree

static void choose_places(struct asking *q)
{
    const struct probe_tree *t = &q->f->tree;
    int n = (int)q->t->k, near = n + 1, next = near, far = 0, before = 0;
    q->p0 = 0;
    q->near = 1;
    q->next = 2;
    q->far1 = (size_t)n / 3;
    q->far2 = (size_t)n / 3 * 2;
    if (t->tree.nodes == 0)
        return;
    for (int j = 1; j < n; j++) {
        int size = t->row[j - 1];
        if (size < near) {
            near = size;
            q->near = (size_t)j;
        }
        far = size > far ? size : far;
    }
    for (int j = 1; j < n; j++) {
        int size = t->row[j - 1];
        if ((size_t)j != q->near && size < next) {
            next = size;
            q->next = (size_t)j;
        }
        if (size < far && size > before) {
            before = size;
            q->far1 = (size_t)j;
        }
        if (size == far)
            q->far2 = (size_t)j;
    }
}

// ---- width and rounding of the sum

enum { MOST_BITS = 60 };

// The largest t up to which 1 + 2^-t - 1 gives 2^-t.
static int kept_bits(const struct asking *q, size_t first, int n)
{
    for (int t = 1; t <= n; t++) {
        if (result(q, first + (size_t)t - 1) != ldexp(1, q->scale - t))
            return t - 1;
    }
    return n;
}

// How far down 2^-t can be made of two numbers of the type, and come out as a result.
static int deepest(const struct asking *q)
{
    int low = q->in->emax >= 127 ? -100 : 2 * q->in->emin, out = q->out->emin - (q->out->bits - 1);
    int n = q->scale - (low > out ? low : out);
    return n < MOST_BITS ? n : MOST_BITS;
}

static int ask_width(struct asking *q, struct error *err)
{
    struct probe_fingerprint *f = q->f;
    int top = q->in->emax >= 127 ? 0 : 2 * q->in->emax, most = q->out->emax;
    q->scale = (top < most ? top : most) - 2;
    q->scale = q->scale < 0 ? 0 : q->scale;
    int n = deepest(q);
    size_t first = q->batch->count;
    double one = ldexp(1, q->scale);
    const struct dot_tree *t = &f->tree.tree;
    bool fused = t->nodes > 0 && t->start[1] - t->start[0] > 2;
    for (int i = 1; i <= n; i++)
        sum_of(q, "9 width", "near", q->p0, one, q->near, ldexp(one, -i), q->far2, -one);
    for (int i = 1; i <= n; i++)
        sum_of(q, "9 width", "far", q->p0, one, q->far1, ldexp(one, -i), q->far2, -one);
    for (int i = 1; i <= n; i++)
        sum_of(q, "9 width", "thirds", 0, one, q->t->k / 3, ldexp(one, -i), q->t->k / 3 * 2, -one);
    for (int i = 1; i <= n; i++)
        sum_of(q, "9 width", "next", q->p0, one, q->near, ldexp(one, -i), q->next, -one);
    int rc = run_from(q, first, err);
    if (rc)
        return rc;
    f->bits_near = kept_bits(q, first, n);
    f->bits_far = kept_bits(q, first + (size_t)n, n);
    f->bits_inner = kept_bits(q, first + 3 * (size_t)n, n);
    f->bits_block = fused ? f->bits_inner : -1;
    f->wide_block = fused && f->bits_block == n;
    return 0;
}

// What each direction makes of base + r, in units of the last place: base is even or odd, r a quarter, half, three.
static double direction(double v, enum dot_rounding r)
{
    const struct dot_format unit = {"", 4, -1, 3, 15, true}; // whole numbers from 8 to 15
    return dot_round(v, &unit, r, false, false);
}

static int ask_rounding(struct asking *q, struct error *err)
{
    static const double parts[] = {0.25, 0.5, 0.75};
    struct probe_fingerprint *f = q->f;
    int w = f->bits_near;
    size_t first = q->batch->count, n = 0;
    if (w < 2 || w + 2 > deepest(q)) {
        f->rounding = -1;
        return 0;
    }
    double base = ldexp(2, q->scale - 1), ulp = ldexp(base, -w); // the sum lies in [base, 2 base)
    double expected[12];
    for (int sign = 1; sign >= -1; sign -= 2) {
        for (int odd = 0; odd < 2; odd++) {
            for (int p = 0; p < 3; p++) {
                struct probe_vector *v = probe_batch_add(q->batch, "12 sum rounding", odd ? "odd" : "even");
                if (!v)
                    continue;
                add_term(q, v, q->p0, sign * base);
                if (odd)
                    add_term(q, v, q->near, sign * ulp);
                add_term(q, v, odd ? q->next : q->near, sign * parts[p] * ulp);
                add_term(q, v, q->far2, -sign * base);
                expected[n++] = sign * (8 + odd + parts[p]);
            }
        }
    }
    int rc = run_from(q, first, err);
    f->rounding = -1;
    for (int r = 0; r < DOT_ROUNDINGS && !rc && f->rounding < 0; r++) {
        bool all = true;
        for (size_t i = 0; i < n; i++) {
            double want = (direction(expected[i], (enum dot_rounding)r) - (expected[i] < 0 ? -8 : 8)) * ulp;
            all &= result(q, first + i) == want;
        }
        f->rounding = all ? r : -1;
    }
    return rc;
}

// ---- products

// x = 1 + 2^-t: x x = 1 + 2^(1-t) + 2^-2t, of which the last part lives only where the product is not rounded alone.
static int ask_fusion(struct asking *q, struct error *err)
{
    static const int ts[] = {30, 12, 10, 7, 3, 2};
    struct probe_fingerprint *f = q->f;
    size_t first = q->batch->count;
    int used[6], n = 0;
    for (size_t i = 0; i < sizeof ts / sizeof ts[0]; i++) {
        int t = ts[i];
        if (t > q->in->bits - 1)
            continue;
        double x = 1 + ldexp(1, -t), c = 1 + ldexp(1, 1 - t);
        const size_t at[3][2] = {{q->p0, q->near}, {q->near, q->p0}, {q->p0, q->far2}};
        for (int k = 0; k < 3; k++) {
            struct probe_vector *v = probe_batch_add(q->batch, "14 fusion", k == 0 ? "late" : k == 1 ? "early" : "far");
            probe_vector_term(v, at[k][0], -c, 1);
            probe_vector_term(v, at[k][1], x, x);
        }
        used[n++] = t;
    }
    int rc = run_from(q, first, err);
    f->fusion = FUSION_UNKNOWN;
    for (int i = 0; i < n && !rc; i++) {
        int t = used[i];
        if (t > f->kept_sparse || (2 * t <= f->bits_near && f->bits_near > 0)) {
            f->fusion = f->fusion == FUSION_UNKNOWN ? FUSION_UNSEEN : f->fusion;
            continue; // the operand does not hold x, or the sum holds the whole product
        }
        double exact = ldexp(1, -2 * t);
        bool late = result(q, first + 3 * (size_t)i) == exact, early = result(q, first + 3 * (size_t)i + 1) == exact;
        f->fusion = late && early ? FUSION_BLOCK : late || early ? FUSION_FMA : FUSION_SEPARATE;
        f->high_first = early && !late;
        break;
    }
    return rc;
}

// ---- denormals

static int ask_denormals(struct asking *q, struct error *err)
{
    q->first_by_flush = -1;
    struct probe_fingerprint *f = q->f;
    const struct dot_format *in = q->in, *out = q->out;
    size_t first = q->batch->count;
    double tiny = ldexp(1, in->emin - 2), back = ldexp(1, in->emin == 0 ? 0 : -in->emin / 2);
    for (int role = 0; role < 2; role++) { // a subnormal operand, with a normal product
        struct probe_vector *v = probe_batch_add(q->batch, "15 subnormal operand", role ? "right" : "left");
        probe_vector_term(v, q->p0, role ? back : tiny, role ? tiny : back);
    }
    int low = out->emin;
    bool reaches = 2 * in->emin <= low - 4; // two normal operands can have a product that is subnormal in the result
    size_t sums = q->batch->count;
    if (reaches) {
        int a = low / 2, b = low - a;
        double half = ldexp(1, a), rest = ldexp(1, b);
        struct probe_vector *v = probe_batch_add(q->batch, "15 subnormal product", "alone");
        probe_vector_term(v, q->p0, ldexp(half, -2), ldexp(rest, -2));
        for (int k = 0; k < 2; k++) { // 2^(low-4) + 2^low: only a product that is rounded alone is flushed
            v = probe_batch_add(q->batch, "15 subnormal product", k ? "added late" : "added early");
            probe_vector_term(v, k ? q->near : q->p0, ldexp(half, -2), ldexp(rest, -2));
            probe_vector_term(v, k ? q->p0 : q->near, half, rest);
        }
        v = probe_batch_add(q->batch, "15 subnormal sum", ""); // 1.5 2^low - 2^low
        probe_vector_term(v, q->p0, 1.5 * half, rest);
        probe_vector_term(v, q->near, -half, rest);
    }
    int rc = run_from(q, first, err);
    if (rc)
        return rc;
    f->operand_flush = result(q, first) == tiny * back && result(q, first + 1) == tiny * back ? 0
                       : result(q, first) == 0 && result(q, first + 1) == 0                   ? 1
                                                                                              : -1;
    f->sum_flush = f->product_flush = reaches ? -1 : -2;
    if (!reaches)
        return 0;
    double small = ldexp(1, low - 4), both = ldexp(1, low) + small;
    bool alone = result(q, sums) == small, sum = result(q, sums + 3) == ldexp(0.5, low);
    f->sum_flush = alone && sum ? 0 : result(q, sums) == 0 && result(q, sums + 3) == 0 ? 1 : -1;
    bool early = result(q, sums + 1) == both, late = result(q, sums + 2) == both;
    f->product_flush = early || late ? 0 : 1; // the product that is added first is a sum itself
    if (f->sum_flush == 1 && early != late)
        q->first_by_flush = early;
    return 0;
}

// ---- specials, output

static int ask_specials(struct asking *q, struct error *err)
{
    struct probe_fingerprint *f = q->f;
    bool infinite = q->in->infinity;
    double payload = dot_from_f32_bits(0x7fe10000), top = ldexp(1, q->in->emax);
    size_t first = q->batch->count;
    probe_vector_term(probe_batch_add(q->batch, "16 specials", "NaN 7fe10000 * 1"), q->p0, payload, 1);
    probe_vector_term(probe_batch_add(q->batch, "16 specials", "1 * NaN 7fe10000"), q->p0, 1, payload);
    struct probe_vector *v = probe_batch_add(q->batch, "16 overflow on the way", "top + top - top");
    double other = q->out->emax > q->in->emax ? ldexp(1, q->in->emax) : 1;
    probe_vector_term(v, q->p0, top, other);
    probe_vector_term(v, q->near, top, other);
    probe_vector_term(v, q->far2, -top, other);
    if (infinite) {
        probe_vector_term(probe_batch_add(q->batch, "16 specials", "infinity * 0"), q->p0, INFINITY, 0);
        v = probe_batch_add(q->batch, "16 specials", "infinity - infinity");
        probe_vector_term(v, q->p0, INFINITY, 1);
        probe_vector_term(v, q->near, -INFINITY, 1);
    }
    int rc = run_from(q, first, err);
    if (rc)
        return rc;
    f->payload_bits = dot_f32_bits(result(q, first));
    f->payload_kept = (f->payload_bits & 0x7fff0000) == 0x7fe10000;
    f->overflow = result(q, first + 2);
    f->invalid_bits = infinite ? dot_f32_bits(result(q, first + 3)) : f->payload_bits;
    return 0;
}

// Small terms beside 1 in the first five places, 1 first and last: what is kept depends on alignment and order
// together.
static int ask_alignment(struct asking *q, struct error *err)
{
    size_t first = q->batch->count;
    double one = ldexp(1, q->scale);
    for (int t = 24; t <= 25 && t <= deepest(q); t++) {
        for (int last = 0; last < 2; last++) {
            struct probe_vector *v = probe_batch_add(q->batch, "11 alignment", last ? "1 last" : "1 first");
            for (size_t i = 0; v && i < 5; i++)
                add_term(q, v, i, i == (last ? 4 : 0) ? one : ldexp(one, -t));
        }
    }
    return run_from(q, first, err);
}

static int ask_output(struct asking *q, struct error *err)
{
    struct probe_fingerprint *f = q->f;
    int w = q->out->bits - 1;
    f->output_rounding = -1;
    if (f->bits_near <= w || w + 2 > deepest(q) || w < 2)
        return 0;
    f->output = q->out->name;
    static const double parts[] = {0.25, 0.5, 0.75};
    double base = ldexp(1, q->scale), ulp = ldexp(base, -w), expected[12];
    size_t first = q->batch->count, n = 0;
    for (int sign = 1; sign >= -1; sign -= 2) {
        for (int odd = 0; odd < 2; odd++) {
            for (int p = 0; p < 3; p++) {
                sum_of(q, "17 result rounding", odd ? "odd" : "even", q->p0, sign * base, q->near,
                       sign * parts[p] * ulp, q->next, odd ? sign * ulp : 0);
                expected[n++] = sign * (8 + odd + parts[p]);
            }
        }
    }
    int rc = run_from(q, first, err);
    for (int r = 0; r < DOT_ROUNDINGS && !rc && f->output_rounding < 0; r++) {
        bool all = true;
        for (size_t i = 0; i < n; i++) {
            double whole = direction(expected[i], (enum dot_rounding)r), sign = whole < 0 ? -1 : 1;
            all &= result(q, first + i) == sign * base + (whole - sign * 8) * ulp;
        }
        f->output_rounding = all ? r : -1;
    }
    return rc;
}

static int ask_stagnation(struct asking *q, struct probe_target *wide, struct error *err)
{
    if (!wide)
        return 0;
    struct probe_batch batch;
    probe_batch_init(&batch, q->arena);
    struct probe_vector *v = probe_batch_add(&batch, "10 ones", "");
    if (v)
        *v = (struct probe_vector){.probe = "10 ones", .variant = "", .fill = true, .fill_a = 1, .fill_b = 1};
    int rc = probe_batch_run(&batch, 0, wide, err);
    if (!rc && batch.vectors[0].out < (double)wide->k)
        q->f->stagnates = (int)batch.vectors[0].out;
    return rc;
}

// ---- operands

// What a product may be formed from, the likeliest first.
struct candidate {
    const char *format; // NULL: the type itself
    enum dot_rounding rounding;
    int passes;
    bool last_nearest, guard;
};
static const struct candidate candidates[] = {
    {NULL, DOT_NEAREST, 1, false, false},       {"bf16", DOT_NEAREST, 1, false, false},
    {"tf32", DOT_NEAREST, 1, false, false},     {"tf32", DOT_TOWARD_ZERO, 1, false, false},
    {"tf32", DOT_AWAY, 1, false, false},        {"f16", DOT_NEAREST, 1, false, false},
    {"bf16", DOT_TOWARD_ZERO, 1, false, false}, {"bf16", DOT_AWAY, 1, false, false},
    {"bf16", DOT_NEAREST, 3, false, false},     {"bf16", DOT_NEAREST, 3, false, true},
    {"bf16", DOT_TOWARD_ZERO, 3, true, true},   {"bf16", DOT_TOWARD_ZERO, 3, true, false},
    {"bf16", DOT_NEAREST, 6, false, false},     {"bf16", DOT_NEAREST, 6, false, true},
    {"bf16", DOT_TOWARD_ZERO, 6, true, true},   {"bf16", DOT_TOWARD_ZERO, 6, true, false},
    {"bf16", DOT_NEAREST, 9, false, false},     {"bf16", DOT_NEAREST, 9, false, true},
    {"bf16", DOT_TOWARD_ZERO, 9, true, true},   {"bf16", DOT_TOWARD_ZERO, 9, true, false},
    {"tf32", DOT_NEAREST, 3, false, false},     {"tf32", DOT_TOWARD_ZERO, 3, true, true},
    {"tf32", DOT_TOWARD_ZERO, 3, true, false},  {"f32", DOT_NEAREST, 1, false, false},
    {"f8e4m3fn", DOT_NEAREST, 1, false, false}, {"f8e5m2", DOT_NEAREST, 1, false, false},
};

static void product(const struct asking *q, const char *probe, const char *variant, double x, double y)
{
    if (!holds(q->in, x) || !holds(q->in, y) || (isinf(x) && !q->in->infinity))
        return;
    struct probe_vector *v = probe_batch_add(q->batch, probe, variant);
    probe_vector_term(v, q->p0, x, y);
    v = x != y ? probe_batch_add(q->batch, probe, "exchanged") : NULL;
    if (v)
        probe_vector_term(v, q->t->k - 1, y, x); // at the other end, too
}

// As many significant bits as the type has, in [1, 2).
static double random_number(const struct dot_format *f, uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return 1 + ldexp((double)(*state >> 12 & ((UINT64_C(1) << (f->bits - 1)) - 1)), 1 - f->bits);
}

static int ask_operands(struct asking *q, struct error *err)
{
    struct probe_fingerprint *f = q->f;
    const struct dot_format *in = q->in;
    uint64_t state = 0x9e3779b97f4a7c15;
    size_t first = q->batch->count, sparse = first, dense, random, same;
    for (int t = 1; t < in->bits; t++)
        product(q, "1 sparse", "", 1 + ldexp(1, -t), 1);
    dense = q->batch->count;
    for (int t = 1; t < in->bits; t++)
        product(q, "1 dense", "", 2 - ldexp(1, -t), 1);
    random = q->batch->count;
    for (int i = 0; i < 64; i++)
        product(q, "2 random", "", random_number(in, &state), 1);
    same = q->batch->count;
    for (int i = 0; i < 64; i++) {
        struct probe_vector *v = probe_batch_add(q->batch, "3 repeated", "");
        probe_vector_term(v, q->p0, dot_round(1.2, in, DOT_NEAREST, false, false), 1);
    }
    size_t rest = q->batch->count;
    double x = dot_round(1.2, in, DOT_NEAREST, false, false);
    product(q, "3 product", "1.2 * 1.2", x, x);
    product(q, "3 tie", "1024.5 * 1", 1024.5, 1);
    static const int widths[] = {23, 10, 7, 3, 2};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        double half = ldexp(1, -widths[i] - 1);
        product(q, "3 tie", "1 + ulp/2", 1 + half, 1);
        product(q, "3 tie", "1 + 3 ulp/2", 1 + 3 * half, 1);
        product(q, "3 tie", "1 + ulp/2 + ulp/32", 1 + half + half / 16, 1);
        product(q, "3 tie", "-1 - ulp/2 - ulp/32", -1 - half - half / 16, 1);
    }
    product(q, "5 far down", "2^-120 (1 + 2^-23) * 2^100", ldexp(1 + 0x1p-23, -120), 0x1p100);
    product(q, "6 largest", "* 1", in->max, 1);
    product(q, "6 infinity", "* 1", INFINITY, 1);
    for (int k = 8; k <= in->emax && k <= -in->emin; k += k < 20 ? 1 : 15)
        product(q, "7 range", "2^k * 2^-k", ldexp(1, k), ldexp(1, -k));
    for (int i = 0; i < 64; i++)
        product(q, "3 random product", "", random_number(in, &state), random_number(in, &state));
    double a = 1 + 0x1p-9 + 0x1p-18;
    for (int k = 0; k < 2 && holds(in, a); k++) {
        struct probe_vector *v = probe_batch_add(q->batch, "4 passes", k ? "early" : "late");
        probe_vector_term(v, k ? q->near : q->p0, -1, 1);
        probe_vector_term(v, k ? q->p0 : q->near, a, a);
    }
    int rc = run_from(q, first, err);
    if (rc)
        return rc;
    f->kept_sparse = f->kept_dense = 0;
    for (size_t i = sparse; i < dense; i += 2) {
        const struct probe_vector *v = &q->batch->vectors[i];
        if (v->out != v->terms[0].a || v[1].out != v->terms[0].a)
            break;
        f->kept_sparse++;
    }
    for (size_t i = dense; i < random; i += 2) {
        const struct probe_vector *v = &q->batch->vectors[i];
        if (v->out != v->terms[0].a || v[1].out != v->terms[0].a)
            break;
        f->kept_dense++;
    }
    for (size_t i = random; i < same; i++) {
        const struct probe_vector *v = &q->batch->vectors[i];
        double value = v->terms[0].a * v->terms[0].b, loss = fabs(v->out - value) / value;
        f->worst_loss = loss > f->worst_loss ? loss : f->worst_loss;
    }
    for (size_t i = same + 1; i < rest; i++)
        f->stochastic |= result(q, i) != result(q, same);
    f->operands = q->batch->count - first;
    return 0;
}

// The sum as it is known so far, for a dot of the few products of one vector.
static void sum_model(const struct asking *q, struct dot_model *m)
{
    const struct probe_fingerprint *f = q->f;
    *m = (struct dot_model){.name = "candidate",
                            .accumulator = dot_format(f->accumulator ? f->accumulator : "f32"),
                            .rounding = f->rounding < 0 ? DOT_NEAREST : (enum dot_rounding)f->rounding,
                            .flush = f->sum_flush == 1,
                            .separate = f->fusion == FUSION_SEPARATE,
                            .order = DOT_SEQUENTIAL};
    if (f->bits_block >= 0) {
        m->order = f->wide_block ? DOT_EXACT : DOT_FUSED;
        m->block = 1024;
        m->fraction = f->bits_block > 41 ? 41 : f->bits_block;
    }
    if (f->output && f->output_rounding >= 0) {
        m->output = dot_format(f->output);
        m->output_rounding = (enum dot_rounding)f->output_rounding;
    }
}

static bool same_number(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

// Vector v under model m, its products in the order in which the tree adds them.
static int predict(const struct asking *q, const struct dot_model *m, const struct probe_vector *v, double *out,
                   struct error *err)
{
    double a[4], b[4];
    bool turn = v->n_terms == 2 && (v->terms[0].at != q->p0) != q->f->high_first;
    for (size_t i = 0; i < v->n_terms && i < 4; i++) {
        const struct probe_term *t = &v->terms[turn ? v->n_terms - 1 - i : i];
        a[i] = t->a;
        b[i] = t->b;
    }
    return dot_model_run(m, a, 1, b, 1, v->n_terms, out, err);
}

static int choose_operand(struct asking *q, size_t first, struct error *err)
{
    struct probe_fingerprint *f = q->f;
    const struct candidate *best = NULL;
    for (size_t c = 0; c < sizeof candidates / sizeof candidates[0]; c++) {
        const struct candidate *k = &candidates[c];
        const struct dot_format *format = k->format ? dot_format(k->format) : q->in;
        bool same_range = format->emax >= q->in->emax && format->emin <= q->in->emin;
        if (k->format && ((format->bits >= q->in->bits && same_range) || (k->passes > 1 && q->in->bits != 24)))
            continue; // it would hold the type itself; only f32 is split
        struct dot_model m;
        sum_model(q, &m);
        m.operand = format;
        m.operand_rounding = k->rounding;
        m.operand_flush = f->operand_flush == 1;
        m.passes = k->passes;
        m.last_nearest = k->last_nearest;
        m.guard = k->guard;
        size_t same = 0;
        for (size_t i = first; i < first + f->operands; i++) {
            double want;
            int rc = predict(q, &m, &q->batch->vectors[i], &want, err);
            if (rc)
                return rc;
            same += same_number(want, result(q, i));
        }
        if (best && same == f->explained && same == f->operands) {
            f->rivals++;
            f->rival = k->format ? k->format : q->in->name;
        }
        if (!best || same > f->explained) {
            best = k;
            f->explained = same;
            f->rivals = 0;
            f->rival = NULL;
        }
    }
    if (best && f->explained * 100 >= f->operands * 90) {
        f->operand = best->format ? best->format : q->in->name;
        f->operand_rounding = best->rounding;
        f->passes = best->passes;
        f->last_nearest = best->last_nearest;
        f->guard = best->guard;
        if (f->accumulator && 2 * dot_format(f->operand)->bits <= dot_format(f->accumulator)->bits) {
            f->fusion = FUSION_UNSEEN; // what looked like one or the other came of the cast
            f->high_first = q->first_by_flush == 1;
        }
    }
    return 0;
}

// ---- all of it

// Which format has that many fraction bits: 10 may be f16 or the ten bits of tf32, which the range tells.
static const char *accumulator_of(const struct asking *q, int bits)
{
    const struct probe_fingerprint *f = q->f;
    switch (bits) {
    case 52:
        return "f64";
    case 23:
        return "f32";
    case 13:
        return "e8m13";
    case 10:
        return isinf(f->overflow) && q->out->emax == 15 ? "f16" : "tf32";
    case 7:
        return "bf16";
    default:
        return NULL;
    }
}

int probe_float_run(struct probe_float *out, struct probe_target *t, struct probe_target *wide, struct arena *a,
                    struct error *err)
{
    memset(out, 0, sizeof *out);
    probe_batch_init(&out->evidence, a);
    struct probe_fingerprint *f = &out->print;
    *f = (struct probe_fingerprint){
        .passes = 1, .operand_flush = -1, .bits_near = -1, .bits_far = -1, .bits_inner = -1, .bits_block = -1};
    struct asking q = {.t = t,
                       .in = dot_format(dtype_name(t->path->lhs)),
                       .out = dot_format(dtype_name(t->path->out)),
                       .batch = &out->evidence,
                       .f = f,
                       .arena = a};
    int rc = probe_tree_read(&f->tree, t, a, err);
    if (rc)
        return rc;
    choose_places(&q);
    rc = ask_width(&q, err);
    if (!rc)
        rc = ask_rounding(&q, err);
    if (!rc)
        rc = ask_denormals(&q, err);
    if (!rc)
        rc = ask_specials(&q, err);
    if (!rc)
        rc = ask_alignment(&q, err);
    if (!rc)
        rc = ask_output(&q, err);
    if (!rc)
        f->accumulator = accumulator_of(&q, f->bits_near);
    if (!rc && f->bits_block < 0 && f->bits_inner > f->bits_near)
        f->inner = accumulator_of(&q, f->bits_inner);
    size_t operands = out->evidence.count;
    if (!rc)
        rc = ask_operands(&q, err);
    if (!rc)
        rc = ask_fusion(&q, err);
    if (!rc)
        rc = choose_operand(&q, operands, err);
    if (!rc)
        rc = ask_stagnation(&q, wide, err);
    return rc ? rc : probe_replay(out, t, a, err);
}
