// SPDX-License-Identifier: Apache-2.0
#include "lab/probe_integer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/probe_replay.h"

static double largest(enum dtype t)
{
    bool is_signed = t == DT_S8 || t == DT_S4;
    return ldexp(1, dtype_bits(t) - is_signed) - 1;
}

static double smallest(enum dtype t)
{
    return t == DT_S8 || t == DT_S4 ? -ldexp(1, dtype_bits(t) - 1) : 0;
}

static struct probe_vector *filled(struct probe_batch *b, const char *variant, double x, double y)
{
    struct probe_vector *v = probe_batch_add(b, "18 integers", variant);
    if (v) {
        v->fill = true;
        v->fill_a = x;
        v->fill_b = y;
    }
    return v;
}

// Vectors from `first` on lie in dots of length k; removes the kinds that give another result.
static int strike(const struct probe_batch *b, size_t first, size_t k, bool possible[DOT_INTS], struct error *err)
{
    int32_t *x = calloc(2 * k + 1, sizeof *x), *y = x ? x + k : NULL;
    if (!x)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a dot of %zu", k);
    for (size_t i = first; i < b->count; i++) {
        const struct probe_vector *v = &b->vectors[i];
        for (size_t p = 0; p < k; p++) {
            x[p] = v->fill ? (int32_t)v->fill_a : 0;
            y[p] = v->fill ? (int32_t)v->fill_b : 0;
        }
        for (size_t p = 0; p < v->n_terms; p++) {
            x[v->terms[p].at] = (int32_t)v->terms[p].a;
            y[v->terms[p].at] = (int32_t)v->terms[p].b;
        }
        for (int kind = 0; kind < DOT_INTS; kind++)
            possible[kind] &= (double)dot_integer_run((enum dot_integer)kind, x, y, k) == v->out;
    }
    free(x);
    return 0;
}

static int replay(struct probe_integer *out, struct probe_target *t, struct arena *a, struct error *err)
{
    size_t rows = ((replay_dots(t) + t->n - 1) / t->n + t->m - 1) / t->m * t->m;
    double *x = arena_new(a, double, rows * t->k, err), *y = arena_new(a, double, t->k * t->n, err),
           *c = arena_new(a, double, rows * t->n, err);
    int32_t *p = arena_new(a, int32_t, 2 * t->k, err), *q = p ? p + t->k : NULL;
    if (!x || !y || !c || !p)
        return ERR_MEMORY;
    probe_random_operands(x, rows * t->k, t->path->lhs, 1);
    probe_random_operands(y, t->k * t->n, t->path->rhs, 2);
    int rc = 0;
    for (size_t i = 0; i < rows && !rc; i += t->m) {
        t->runs++;
        rc = t->multiply(t, x + i * t->k, y, c + i * t->n, false, err);
    }
    size_t wanted = (replay_dots(t) + t->n - 1) / t->n;
    for (size_t i = 0; i < wanted && !rc; i++) {
        for (size_t j = 0; j < t->n; j++) {
            for (size_t k = 0; k < t->k; k++) {
                p[k] = (int32_t)x[i * t->k + k];
                q[k] = (int32_t)y[k * t->n + j];
            }
            out->replayed++;
            out->same += (double)dot_integer_run(out->kind, p, q, t->k) == c[i * t->n + j];
        }
    }
    return rc;
}

int probe_integer_run(struct probe_integer *out, struct probe_target *t, struct probe_target *longer, struct arena *a,
                      struct error *err)
{
    memset(out, 0, sizeof *out);
    probe_batch_init(&out->evidence, a);
    struct probe_batch *b = &out->evidence;
    double high_a = largest(t->path->lhs), high_b = largest(t->path->rhs), low_a = smallest(t->path->lhs),
           low_b = smallest(t->path->rhs);
    struct probe_vector *v = probe_batch_add(b, "18 integers", "two largest products");
    probe_vector_term(v, 0, high_a, high_b);
    probe_vector_term(v, 1, high_a, high_b);
    filled(b, "largest by largest", high_a, high_b);
    filled(b, "smallest by smallest", low_a, low_b);
    filled(b, "largest by smallest", high_a, low_b);
    filled(b, "smallest by largest", low_a, high_b);
    bool possible[DOT_INTS];
    for (int i = 0; i < DOT_INTS; i++)
        possible[i] = i != DOT_INT_WIDE; // the result is int32
    int rc = probe_batch_run(b, 0, t, err);
    if (!rc)
        rc = strike(b, 0, t->k, possible, err);
    size_t first = b->count;
    if (!rc && longer) {
        out->long_sums = true;
        filled(b, "largest by largest, 140000 times", high_a, high_b);
        v = filled(b, "an odd sum past 2^24", high_a, 1);
        probe_vector_term(v, longer->k / 2, high_a - 1, 1);
        rc = probe_batch_run(b, first, longer, err);
        if (!rc)
            rc = strike(b, first, longer->k, possible, err);
    }
    for (int i = 0; i < DOT_INTS && !rc; i++) {
        if (possible[i] && out->explained)
            out->rivals++;
        else if (possible[i])
            out->kind = (enum dot_integer)i;
        out->explained |= possible[i];
    }
    return rc || !out->explained ? rc : replay(out, t, a, err);
}

void probe_say_integer(struct str *out, const struct probe_integer *i)
{
    if (!i->explained) {
        str_add(out, "sums are none of: exact in int32, saturating in int32 or in int16 pairs, formed in f32");
        return;
    }
    str_addf(out, "%s", dot_integer_name(i->kind));
    if (i->rivals)
        str_addf(out, "; %zu other kind%s would give the same", i->rivals, i->rivals == 1 ? "" : "s");
    if (!i->long_sums)
        str_add(out, "; sums past 2^24 were not asked");
}
