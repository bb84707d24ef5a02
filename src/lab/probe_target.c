// SPDX-License-Identifier: Apache-2.0
#include "lab/probe_target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALGORITHM(type, parts, products)                                                                               \
    "lhs_precision_type = " type ", rhs_precision_type = " type ", accumulation_type = f32, "                          \
    "lhs_component_count = " parts ", rhs_component_count = " parts ", num_primitive_operations = " products           \
    ", allow_imprecise_accumulation = false"

static const struct probe_path paths[] = {
    {"f32", "f32 at DEFAULT", DT_F32, DT_F32, DT_F32, "DEFAULT", NULL, NULL, 0},
    {"f32:high", "f32 at HIGH", DT_F32, DT_F32, DT_F32, "HIGH", NULL, NULL, 0},
    {"f32:highest", "f32 at HIGHEST", DT_F32, DT_F32, DT_F32, "HIGHEST", NULL, NULL, 0},
    {"f32:tf32", "f32 as TF32_TF32_F32", DT_F32, DT_F32, DT_F32, "DEFAULT", ALGORITHM("tf32", "1", "1"), "tf32", 1},
    {"f32:bf16", "f32 as BF16_BF16_F32", DT_F32, DT_F32, DT_F32, "DEFAULT", ALGORITHM("bf16", "1", "1"), "bf16", 1},
    {"f32:bf16x3", "f32 as BF16_BF16_F32_X3", DT_F32, DT_F32, DT_F32, "DEFAULT", ALGORITHM("bf16", "1", "3"), "bf16",
     3},
    {"f32:bf16x6", "f32 as BF16_BF16_F32_X6", DT_F32, DT_F32, DT_F32, "DEFAULT", ALGORITHM("bf16", "1", "6"), "bf16",
     6},
    {"f32:bf16x9", "f32 as BF16_BF16_F32_X9", DT_F32, DT_F32, DT_F32, "DEFAULT", ALGORITHM("bf16", "1", "9"), "bf16",
     9},
    {"bf16", "bf16 to f32", DT_BF16, DT_BF16, DT_F32, "DEFAULT", NULL, NULL, 0},
    {"bf16:bf16", "bf16 to bf16", DT_BF16, DT_BF16, DT_BF16, "DEFAULT", NULL, NULL, 0},
    {"f16", "f16 to f32", DT_F16, DT_F16, DT_F32, "DEFAULT", NULL, NULL, 0},
    {"f16:f16", "f16 to f16", DT_F16, DT_F16, DT_F16, "DEFAULT", NULL, NULL, 0},
    {"f8e4m3fn", "f8e4m3fn to f32", DT_F8E4M3FN, DT_F8E4M3FN, DT_F32, "DEFAULT", NULL, NULL, 0},
    {"f8e5m2", "f8e5m2 to f32", DT_F8E5M2, DT_F8E5M2, DT_F32, "DEFAULT", NULL, NULL, 0},
    {"f64", "f64", DT_F64, DT_F64, DT_F64, "DEFAULT", NULL, NULL, 0},
    {"s8", "s8 to s32", DT_S8, DT_S8, DT_S32, "DEFAULT", NULL, NULL, 0},
    {"u8", "u8 to s32", DT_U8, DT_U8, DT_S32, "DEFAULT", NULL, NULL, 0},
    {"u8s8", "u8 by s8 to s32", DT_U8, DT_S8, DT_S32, "DEFAULT", NULL, NULL, 0},
    {"s4", "s4 to s32", DT_S4, DT_S4, DT_S32, "DEFAULT", NULL, NULL, 0},
};

const struct probe_path *probe_path_at(size_t i)
{
    return i < sizeof paths / sizeof paths[0] ? &paths[i] : NULL;
}

const struct probe_path *probe_path_find(const char *key)
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (strcmp(paths[i].key, key) == 0)
            return &paths[i];
    }
    return NULL;
}

// ---- a software model

static int simulate_integers(struct probe_target *t, const double *a, const double *b, double *c)
{
    const struct probe_simulated *s = t->context;
    int32_t *x = calloc(2 * t->k + 1, sizeof *x), *y = x ? x + t->k : NULL;
    if (!x)
        return ERR_MEMORY;
    for (size_t i = 0; i < t->m; i++) {
        for (size_t j = 0; j < t->n; j++) {
            for (size_t p = 0; p < t->k; p++) {
                x[p] = (int32_t)a[i * t->k + p];
                y[p] = (int32_t)b[p * t->n + j];
            }
            c[i * t->n + j] = (double)dot_integer_run(s->integer, x, y, t->k);
        }
    }
    free(x);
    return 0;
}

static int multiply_simulated(struct probe_target *t, const double *a, const double *b, double *c, bool diagonal,
                              struct error *err)
{
    const struct probe_simulated *s = t->context;
    const struct dot_model *m = t->m == 1 && s->vectors ? s->vectors : s->model;
    int rc = 0;
    if (!dtype_is_float(t->path->lhs)) {
        rc = simulate_integers(t, a, b, c);
        return rc ? error_set(err, rc, NULL, "no memory for an integer product") : 0;
    }
    for (size_t i = 0; i < t->m; i++) {
        for (size_t j = 0; j < t->n && !rc; j++) {
            if (!diagonal || i == j || t->m == 1)
                rc = dot_model_run(m, a + i * t->k, 1, b + j, t->n, t->k, &c[i * t->n + j], err);
        }
    }
    return rc;
}

void probe_target_simulate(struct probe_target *t, const struct probe_path *path, size_t m, size_t k, size_t n,
                           struct probe_simulated *s)
{
    *t = (struct probe_target){.path = path, .m = m, .k = k, .n = n, .context = s, .multiply = multiply_simulated};
}

// ---- dots

void probe_batch_init(struct probe_batch *b, struct arena *a)
{
    *b = (struct probe_batch){.arena = a};
}

struct probe_vector *probe_batch_add(struct probe_batch *b, const char *probe, const char *variant)
{
    if (b->count == b->capacity) {
        struct error ignored = {0}; // told by b->failed
        void *grown = arena_grow(b->arena, b->vectors, &b->capacity, b->count + 1, sizeof *b->vectors, &ignored);
        if (!grown) {
            b->failed = ERR_MEMORY;
            return NULL;
        }
        b->vectors = grown;
    }
    struct probe_vector *v = &b->vectors[b->count++];
    *v = (struct probe_vector){.probe = probe, .variant = variant, .out = NAN};
    return v;
}

void probe_vector_term(struct probe_vector *v, size_t at, double a, double b)
{
    if (v && v->n_terms < sizeof v->terms / sizeof v->terms[0])
        v->terms[v->n_terms++] = (struct probe_term){at, a, b};
}

// Vector `v` as row `row` of a and column `column` of b.
static void place(const struct probe_vector *v, const struct probe_target *t, double *a, double *b, size_t row,
                  size_t column)
{
    for (size_t p = 0; v->fill && p < t->k; p++) {
        a[row * t->k + p] = v->fill_a;
        b[p * t->n + column] = v->fill_b;
    }
    for (size_t i = 0; i < v->n_terms; i++) {
        a[row * t->k + v->terms[i].at] = v->terms[i].a;
        b[v->terms[i].at * t->n + column] = v->terms[i].b;
    }
}

// One row that serves several vectors: where they have terms, their left operands must be equal.
struct row {
    double *a;
    bool *taken;
    bool filled, open;
};

static bool fits(const struct row *r, const struct probe_vector *v)
{
    if (!r->open)
        return true;
    if (v->fill || r->filled)
        return false;
    for (size_t i = 0; i < v->n_terms; i++) {
        const struct probe_term *t = &v->terms[i];
        if (!isfinite(t->a) || (r->taken[t->at] && r->a[t->at] != t->a))
            return false;
    }
    return true;
}

// Vectors that fill their row share it only when nothing of the left operand differs.
static bool same_left(const struct probe_vector *x, const struct probe_vector *y)
{
    bool same = x->fill && y->fill && x->fill_a == y->fill_a;
    for (size_t i = 0; i < x->n_terms && same; i++)
        same = x->terms[i].a == x->fill_a;
    for (size_t i = 0; i < y->n_terms && same; i++)
        same = y->terms[i].a == y->fill_a;
    return same;
}

static void take(struct row *r, const struct probe_vector *v)
{
    r->filled |= v->fill;
    for (size_t i = 0; i < v->n_terms; i++) {
        r->taken[v->terms[i].at] = true;
        r->a[v->terms[i].at] = v->terms[i].a;
        r->open &= isfinite(v->terms[i].a) != 0;
    }
}

struct room {
    double *a, *b, *c;
    size_t *chosen;
    bool *taken, *done;
};

// At m = 1: as many of the vectors left as fit beside the first of them.
static size_t choose_row(const struct probe_batch *batch, size_t first, size_t most, struct room *r)
{
    struct row row = {.a = r->a, .taken = r->taken};
    const struct probe_vector *head = NULL;
    size_t n = 0;
    for (size_t i = first; i < batch->count && n < most; i++) {
        const struct probe_vector *v = &batch->vectors[i];
        if (r->done[i] || !(head ? (same_left(head, v) || (row.open && fits(&row, v))) : true))
            continue;
        if (!head) {
            row.open = !v->fill;
            head = v;
        }
        take(&row, v);
        r->chosen[n++] = i;
        r->done[i] = true;
    }
    return n;
}

static int run_batch(struct probe_batch *batch, size_t first, struct probe_target *t, struct room *r, struct error *err)
{
    size_t at_once = t->m < t->n ? t->m : t->n, ka = t->m * t->k, kb = t->k * t->n;
    int rc = 0;
    for (size_t i = first, n; i < batch->count && !rc; i += n) {
        memset(r->a, 0, (ka + kb) * sizeof *r->a);
        n = 0;
        if (t->m == 1) {
            memset(r->taken, 0, t->k * sizeof *r->taken);
            n = choose_row(batch, first, t->n, r);
        }
        for (; t->m > 1 && n < at_once && i + n < batch->count; n++)
            r->chosen[n] = i + n;
        for (size_t s = 0; s < n; s++)
            place(&batch->vectors[r->chosen[s]], t, r->a, r->b, t->m == 1 ? 0 : s, s);
        t->runs++;
        rc = t->multiply(t, r->a, r->b, r->c, true, err);
        for (size_t s = 0; s < n && !rc; s++)
            batch->vectors[r->chosen[s]].out = r->c[(t->m == 1 ? 0 : s * t->n) + s];
    }
    return rc;
}

int probe_batch_run(struct probe_batch *batch, size_t first, struct probe_target *t, struct error *err)
{
    if (batch->failed)
        return error_set(err, batch->failed, NULL, "no memory for the probes");
    size_t ka = t->m * t->k, kb = t->k * t->n;
    struct room r = {.a = calloc(ka + kb + t->m * t->n, sizeof *r.a),
                     .chosen = calloc(t->n, sizeof *r.chosen),
                     .taken = calloc(t->k + batch->count + 1, sizeof *r.taken)};
    r.done = r.taken ? r.taken + t->k : NULL;
    r.b = r.a ? r.a + ka : NULL;
    r.c = r.b ? r.b + kb : NULL;
    int rc = r.a && r.chosen && r.taken
                 ? run_batch(batch, first, t, &r, err)
                 : error_set(err, ERR_MEMORY, NULL, "no memory for a product of %zux%zux%zu", t->m, t->k, t->n);
    free(r.a);
    free(r.chosen);
    free(r.taken);
    return rc;
}
