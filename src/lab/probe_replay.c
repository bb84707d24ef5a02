// SPDX-License-Identifier: Apache-2.0
#include "lab/probe_replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "num/random.h"

void probe_model_of(struct dot_model *m, const struct probe_float *p, const struct probe_path *path)
{
    const struct probe_fingerprint *f = &p->print;
    *m = (struct dot_model){.name = "as inferred",
                            .operand = dot_format(f->operand ? f->operand : dtype_name(path->lhs)),
                            .operand_rounding = f->operand_rounding,
                            .operand_flush = f->operand_flush == 1,
                            .passes = f->passes,
                            .last_nearest = f->last_nearest,
                            .guard = f->guard,
                            .accumulator = dot_format(f->accumulator ? f->accumulator : "f32"),
                            .rounding = f->rounding < 0 ? DOT_NEAREST : (enum dot_rounding)f->rounding,
                            .flush = f->sum_flush == 1,
                            .separate =
                                f->fusion == FUSION_SEPARATE || (f->fusion == FUSION_UNSEEN && f->product_flush == 1),
                            .high_first = f->high_first};
    if (m->accumulator->bits == 53)
        m->rounding = DOT_NEAREST;
    if (f->tree.tree.nodes > 0) {
        m->order = DOT_TREE;
        m->tree = &f->tree.tree;
    }
    if (f->inner && f->tree.shape == SHAPE_BLOCKED) {
        m->order = DOT_BLOCKED;
        m->block = f->tree.block;
        m->inner = dot_format(f->inner);
    }
    if (f->bits_block >= 0 && !f->wide_block)
        m->fraction = f->bits_block < 41 ? f->bits_block : 41;
    m->nan = f->payload_kept ? DOT_NAN_KEEP : DOT_NAN_CANONICAL;
    m->nan_bits = f->invalid_bits;
    const char *out = dtype_name(path->out);
    if (strcmp(out, m->accumulator->name) != 0) {
        m->output = dot_format(out);
        m->output_rounding = f->output_rounding < 0 ? DOT_NEAREST : (enum dot_rounding)f->output_rounding;
    }
}

void probe_random_operands(double *out, size_t n, enum dtype type, uint64_t seed)
{
    struct random_numpy r;
    const struct dot_format *f = dtype_is_float(type) ? dot_format(dtype_name(type)) : NULL;
    random_numpy_seed(&r, seed);
    for (size_t i = 0; i < n; i++) {
        double u;
        random_numpy_uniform(&r, -1, 1, &u, 1);
        if (f) {
            int e = (int)(random_numpy_u32(&r) % 7) - 3;
            out[i] = dot_round(ldexp(u, e), f, DOT_NEAREST, false, true);
        } else {
            int bits = dtype_bits(type);
            bool is_signed = type == DT_S8 || type == DT_S4;
            out[i] = floor((is_signed ? u : (u + 1) / 2) * ldexp(1, is_signed ? bits - 1 : bits));
        }
    }
}

struct replay {
    struct probe_target *t;
    size_t rows; // m, or for m = 1 as many calls
    double *a, *b, *c, *again, *row;
};

static int run(struct replay *r, double *c, struct error *err)
{
    struct probe_target *t = r->t;
    int rc = 0;
    for (size_t i = 0; i < r->rows && !rc; i += t->m) {
        t->runs++;
        rc = t->multiply(t, r->a + i * t->k, r->b, c + i * t->n, false, err);
    }
    return rc;
}

// How many of the results from `first` to before `end` the model gives; the largest difference in units of the last
// place.
static int compare(const struct replay *r, const struct dot_model *m, size_t end, size_t *same, double *worst,
                   struct error *err)
{
    const struct probe_target *t = r->t;
    const struct dot_format *f = dot_format(dtype_name(t->path->out));
    *same = 0;
    *worst = 0;
    for (size_t i = 0; i < end; i++) {
        double want, got = r->c[i];
        int rc = dot_model_run(m, r->a + i / t->n * t->k, 1, r->b + i % t->n, t->n, t->k, &want, err);
        if (rc)
            return rc;
        if (f64_bits(want) == f64_bits(got)) {
            (*same)++;
            continue;
        }
        int e;
        frexp(want, &e);
        double ulp = ldexp(1, (e - 1 > f->emin ? e - 1 : f->emin) - f->bits + 1), off = fabs(got - want) / ulp;
        *worst = off > *worst || isnan(off) ? off : *worst;
    }
    return 0;
}

// How many vectors of the probes the model gives: NaN for NaN, all else bit for bit. *missed: the probe of the first
// that it does not give.
static int explain(const struct probe_float *p, const struct dot_model *m, const struct replay *r, size_t *same,
                   const char **missed, struct error *err)
{
    size_t k = r->t->k;
    double *a = r->row, *b = r->row + k, want;
    int rc = 0;
    *same = 0;
    *missed = NULL;
    for (size_t i = 0; i < p->evidence.count && !rc; i++) {
        const struct probe_vector *v = &p->evidence.vectors[i];
        for (size_t n = 0; n < k; n++) {
            a[n] = v->fill ? v->fill_a : 0;
            b[n] = v->fill ? v->fill_b : 0;
        }
        for (size_t n = 0; n < v->n_terms; n++) {
            a[v->terms[n].at] = v->terms[n].a;
            b[v->terms[n].at] = v->terms[n].b;
        }
        rc = dot_model_run(m, a, 1, b, 1, k, &want, err);
        bool given = want == v->out || (isnan(want) && isnan(v->out));
        *same += given;
        if (!given && !*missed)
            *missed = v->probe;
    }
    return rc;
}

// The models worth a try where the inferred one does not do.
static size_t others(struct dot_model out[], size_t room, const struct dot_model *m, const struct probe_path *path)
{
    size_t n = 0;
    const struct probe_known *k;
    out[n] = *m;
    out[n].high_first = !m->high_first;
    out[n++].name = "as inferred, the other product rounded first";
    out[n] = *m;
    out[n].separate = !m->separate;
    out[n++].name = m->separate ? "as inferred, but fused" : "as inferred, but products rounded";
    for (size_t i = 0; (k = probe_known_at(i)) && n < room; i++) {
        const struct probe_path *p = probe_path_find(k->path);
        if (p && p->lhs == path->lhs) {
            out[n] = k->model;
            out[n++].name = k->device;
        }
    }
    return n;
}

// By random dots first, then by the probes' own vectors.
static int choose(struct probe_float *p, const struct replay *r, size_t dots, struct error *err)
{
    enum { FIRST = 256, MOST = 64 };
    struct probe_fingerprint *f = &p->print;
    struct dot_model tried[MOST];
    const char *missed;
    size_t first = dots < FIRST ? dots : FIRST, best, same, given, n;
    double worst;
    f->evidence = p->evidence.count;
    int rc = compare(r, &p->model, first, &best, &worst, err);
    if (!rc)
        rc = explain(p, &p->model, r, &f->evidence_same, &f->unexplained, err);
    n = rc || (best == first && !f->unexplained) ? 0 : others(tried, MOST, &p->model, r->t->path);
    for (size_t i = 0; i < n && !rc; i++) {
        rc = compare(r, &tried[i], first, &same, &worst, err);
        if (!rc && same >= best)
            rc = explain(p, &tried[i], r, &given, &missed, err);
        if (rc || same < best || (same == best && given <= f->evidence_same))
            continue;
        best = same;
        f->evidence_same = given;
        f->unexplained = missed;
        p->model = tried[i];
    }
    f->replay_model = p->model.name;
    if (!rc)
        rc = compare(r, &p->model, dots, &f->same, &f->worst_ulps, err);
    f->replayed = dots;
    return rc;
}

static int match(struct probe_float *p, const struct replay *r, size_t dots, struct arena *a, struct error *err)
{
    enum { SOME = 512 };
    p->matches = arena_new(a, struct probe_match, PROBE_MOST_MATCHES, err);
    int rc = p->matches
                 ? probe_matches(p->matches, PROBE_MOST_MATCHES, &p->n_matches, &p->print, r->t->path, r->t->k, a, err)
                 : ERR_MEMORY;
    for (size_t i = 0; i < p->n_matches && !rc; i++) {
        struct probe_match *m = &p->matches[i];
        double worst;
        if (!m->known->order_known)
            continue;
        m->tried = dots < SOME ? dots : SOME;
        struct dot_model model = m->known->model;
        if (p->model.output) { // the same sum, rounded as here
            model.output = p->model.output;
            model.output_rounding = p->model.output_rounding;
        }
        rc = compare(r, &model, m->tried, &m->same, &worst, err);
    }
    if (!rc)
        qsort(p->matches, p->n_matches, sizeof *p->matches, probe_match_order);
    return rc;
}

// The rows of a in the opposite order: results must come in that order, too.
static int turn_rows(struct replay *r, size_t dots, bool *same, struct error *err)
{
    size_t k = r->t->k, n = r->t->n;
    for (size_t i = 0; i < r->rows / 2; i++) {
        double *x = r->a + i * k, *y = r->a + (r->rows - 1 - i) * k;
        for (size_t p = 0; p < k; p++) {
            double kept = x[p];
            x[p] = y[p];
            y[p] = kept;
        }
    }
    int rc = run(r, r->again, err);
    *same = true;
    for (size_t i = 0; i < dots && !rc; i++)
        *same &= f64_bits(r->again[(r->rows - 1 - i / n) * n + i % n]) == f64_bits(r->c[i]);
    return rc;
}

int probe_replay(struct probe_float *p, struct probe_target *t, struct arena *a, struct error *err)
{
    struct replay r = {.t = t, .rows = (replay_dots(t) + t->n - 1) / t->n};
    r.rows = (r.rows + t->m - 1) / t->m * t->m;
    size_t dots = r.rows * t->n, wanted = (replay_dots(t) + t->n - 1) / t->n * t->n;
    r.a = arena_new(a, double, r.rows * t->k, err);
    r.b = arena_new(a, double, t->k * t->n, err);
    r.c = arena_new(a, double, dots, err);
    r.again = arena_new(a, double, dots, err);
    r.row = arena_new(a, double, 2 * t->k, err);
    if (!r.a || !r.b || !r.c || !r.again || !r.row)
        return ERR_MEMORY;
    probe_random_operands(r.a, r.rows * t->k, t->path->lhs, 1);
    probe_random_operands(r.b, t->k * t->n, t->path->rhs, 2);
    probe_model_of(&p->model, p, t->path);
    int rc = run(&r, r.c, err);
    if (!rc)
        rc = choose(p, &r, wanted < dots ? wanted : dots, err);
    if (!rc)
        rc = match(p, &r, wanted < dots ? wanted : dots, a, err);
    if (!rc)
        rc = run(&r, r.again, err);
    p->results = r.c;
    p->print.repeats_same = !rc && memcmp(r.c, r.again, dots * sizeof *r.c) == 0;
    return rc ? rc : turn_rows(&r, dots, &p->print.rows_same, err);
}
