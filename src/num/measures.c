// SPDX-License-Identifier: Apache-2.0
#include "num/measures.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "num/convert.h"

void measures_begin(struct measures *m, size_t columns, double floor)
{
    memset(m, 0, sizeof *m);
    m->columns = columns;
    m->floor = floor;
    m->cosine_min = NAN;
}

struct row_sums {
    double error2, reference2, result2, dot, rel;
};

static void add_element(struct measures *m, double reference, double result, size_t index, struct row_sums *row)
{
    if (isinf(reference) && reference == result) {
        m->matching_infinities++;
        return;
    }
    if (!isfinite(reference) || !isfinite(result)) {
        m->nonfinite_reference += (size_t)!isfinite(reference);
        m->nonfinite_result += (size_t)!isfinite(result);
        return;
    }
    double e = result - reference, a = fabs(e);
    if (a > m->max_abs) {
        m->max_abs = a;
        m->max_abs_index = index;
    }
    double size = fabs(reference), rel = a / (size > m->floor ? size : m->floor);
    if (rel > m->max_rel)
        m->max_rel = rel;
    row->rel += rel;
    row->error2 += e * e;
    row->reference2 += reference * reference;
    row->result2 += result * result;
    row->dot += reference * result;
}

static void add_row(struct measures *m, const struct row_sums *row)
{
    m->error2 += row->error2;
    m->reference2 += row->reference2;
    m->rel_sum += row->rel;
    if (row->reference2 > 0 || row->result2 > 0) {
        double c = 0;
        if (row->reference2 > 0 && row->result2 > 0)
            c = fmin(1, fmax(-1, row->dot / sqrt(row->reference2) / sqrt(row->result2)));
        if (!(c >= m->cosine_min)) {
            m->cosine_min = c;
            m->cosine_min_row = m->rows;
        }
        m->cosine_sum += c;
        m->cosine_rows++;
    }
    m->rows++;
}

int measures_add(struct measures *m, const double *reference, enum dtype type, const void *result, size_t rows,
                 struct error *err)
{
    if (!convert_possible(DT_F64, type) || dtype_bits(type) < 8)
        return error_set(err, ERR_USAGE, NULL, "%s values cannot be compared with f64", dtype_name(type));
    size_t size = (size_t)dtype_bits(type) / 8;
    const uint8_t *from = result;
    for (size_t r = 0; r < rows; r++) {
        struct row_sums row = {0};
        for (size_t c = 0; c < m->columns;) {
            double part[256];
            size_t n = m->columns - c < 256 ? m->columns - c : 256;
            int rc = convert_elements(DT_F64, part, type, from, n, err);
            if (rc)
                return rc;
            for (size_t j = 0; j < n; j++)
                add_element(m, reference[j], part[j], m->rows * m->columns + c + j, &row);
            from += n * size;
            reference += n;
            c += n;
        }
        add_row(m, &row);
    }
    return 0;
}

void measures_finish(struct measures *m)
{
    m->elements = m->rows * m->columns;
    m->cosine_mean = m->cosine_rows ? m->cosine_sum / (double)m->cosine_rows : NAN;
    m->rel_l2 = m->reference2 > 0 ? sqrt(m->error2 / m->reference2) : NAN;
    m->snr_db = m->reference2 > 0 ? 10 * log10(m->reference2 / m->error2) : NAN;
    m->mean_rel = m->elements ? m->rel_sum / (double)m->elements : NAN;
    if (m->nonfinite_reference || m->nonfinite_result) {
        m->rel_l2 = m->snr_db = m->max_abs = m->max_rel = m->mean_rel = NAN;
        m->cosine_min = m->cosine_mean = NAN;
    }
}

// Rows divided by their norms; a zero row stays zero, a row that is not finite is marked.
struct directions {
    double *unit;
    uint8_t *bad;
};

static size_t directions_fill(struct directions *d, const double *x, size_t rows, size_t columns)
{
    size_t bad = 0;
    for (size_t r = 0; r < rows; r++) {
        const double *from = x + r * columns;
        double largest = 0, sum = 0;
        d->bad[r] = 0;
        for (size_t c = 0; c < columns; c++) {
            if (!isfinite(from[c]))
                d->bad[r] = 1;
            else
                largest = fmax(largest, fabs(from[c]));
        }
        bad += d->bad[r];
        double scale = largest > 0 && !d->bad[r] ? largest : 1; // keeps the squares in range
        double *to = d->unit + r * columns;
        for (size_t c = 0; c < columns; c++) {
            to[c] = d->bad[r] ? 0 : from[c] / scale;
            sum += to[c] * to[c];
        }
        for (size_t c = 0; c < columns && sum > 0; c++)
            to[c] /= sqrt(sum);
    }
    return bad;
}

// A candidate of one query; sorted by similarity, highest first, then by index.
struct candidate {
    double similarity;
    size_t row;
};

static int by_similarity(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->similarity != y->similarity)
        return x->similarity > y->similarity ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static void rank_candidates(const struct directions *d, size_t rows, size_t columns, size_t query,
                            struct candidate *out)
{
    const double *q = d->unit + query * columns;
    for (size_t r = 0; r < rows; r++) {
        if (r == query)
            continue;
        const double *x = d->unit + r * columns;
        // Four sums in a fixed order: independent of each other, so the additions overlap.
        double s[4] = {0};
        size_t c = 0;
        for (; c + 4 <= columns; c += 4) {
            for (size_t k = 0; k < 4; k++)
                s[k] += q[c + k] * x[c + k];
        }
        for (; c < columns; c++)
            s[0] += q[c] * x[c];
        *out++ = (struct candidate){d->bad[r] ? -INFINITY : (s[0] + s[1]) + (s[2] + s[3]), r};
    }
}

// Both sides as unit vectors, and per query what the ranking came to (shared out over threads, then added up in order,
// so that the sums do not depend on how many threads there were).
struct ranking {
    struct directions reference, result;
    size_t rows, columns, top_k;
    double *top1, *top10, *spearman;
    atomic_bool no_memory;
};

static void ranking_release(struct ranking *s)
{
    free(s->reference.unit);
    free(s->reference.bad);
    free(s->result.unit);
    free(s->result.bad);
    free(s->top1);
    free(s->top10);
    free(s->spearman);
}

static int ranking_init(struct ranking *s, size_t rows, size_t columns, struct error *err)
{
    memset(s, 0, sizeof *s);
    size_t n, bytes;
    if (rows < 3)
        return error_set(err, ERR_USAGE, NULL, "a ranking needs at least 3 embeddings, not %zu", rows);
    if (!size_mul(rows, columns, &n) || !size_mul(n, sizeof(double), &bytes))
        return error_set(err, ERR_MEMORY, NULL, "%zu embeddings of %zu values are too many", rows, columns);
    s->rows = rows;
    s->columns = columns;
    s->top_k = rows - 1 < 10 ? rows - 1 : 10;
    s->reference.unit = calloc(n + 1, sizeof(double));
    s->reference.bad = calloc(rows, 1);
    s->result.unit = calloc(n + 1, sizeof(double));
    s->result.bad = calloc(rows, 1);
    s->top1 = calloc(rows, sizeof(double));
    s->top10 = calloc(rows, sizeof(double));
    s->spearman = calloc(rows, sizeof(double));
    if (s->reference.unit && s->reference.bad && s->result.unit && s->result.bad && s->top1 && s->top10 && s->spearman)
        return 0;
    ranking_release(s);
    return error_set(err, ERR_MEMORY, NULL, "no memory to rank %zu embeddings of %zu values", rows, columns);
}

// a, b: the candidates of one query on both sides, sorted; rank: by row, its place on the reference's side.
static void compare_rankings(struct ranking *s, size_t query, const struct candidate *a, const struct candidate *b,
                             size_t *rank)
{
    size_t m = s->rows - 1, shared = 0;
    double d2 = 0, n = (double)m;
    for (size_t i = 0; i < m; i++)
        rank[a[i].row] = i;
    for (size_t i = 0; i < m; i++) {
        double d = (double)rank[b[i].row] - (double)i;
        d2 += d * d;
        shared += i < s->top_k && rank[b[i].row] < s->top_k;
    }
    s->top1[query] = a[0].row == b[0].row;
    s->top10[query] = (double)shared / (double)s->top_k;
    s->spearman[query] = 1 - 6 * d2 / (n * (n * n - 1));
}

static void rank_queries(void *context, size_t from, size_t to)
{
    struct ranking *s = context;
    struct candidate *a = calloc(s->rows, sizeof *a), *b = calloc(s->rows, sizeof *b);
    size_t *rank = calloc(s->rows, sizeof *rank);
    if (!a || !b || !rank)
        s->no_memory = true;
    for (size_t q = from; q < to && a && b && rank; q++) {
        if (s->reference.bad[q] || s->result.bad[q])
            continue; // total disagreement: the zeros that are there
        rank_candidates(&s->reference, s->rows, s->columns, q, a);
        rank_candidates(&s->result, s->rows, s->columns, q, b);
        qsort(a, s->rows - 1, sizeof *a, by_similarity);
        qsort(b, s->rows - 1, sizeof *b, by_similarity);
        compare_rankings(s, q, a, b, rank);
    }
    free(a);
    free(b);
    free(rank);
}

static void retrieval_add(struct retrieval *r, size_t query, double top1, double top10, double spearman)
{
    r->queries++;
    r->top1 += top1;
    r->top10 += top10;
    r->spearman += spearman;
    if (!(spearman >= r->spearman_min)) {
        r->spearman_min = spearman;
        r->spearman_min_query = query;
    }
}

int retrieval_measure(const double *reference, const double *result, size_t rows, size_t columns,
                      const uint8_t *const *masks, size_t mask_count, struct threads *threads, struct retrieval *out,
                      struct error *err)
{
    struct ranking s;
    int rc = ranking_init(&s, rows, columns, err);
    if (rc)
        return rc;
    directions_fill(&s.reference, reference, rows, columns);
    directions_fill(&s.result, result, rows, columns);
    size_t bad = 0;
    for (size_t r = 0; r < rows; r++)
        bad += s.reference.bad[r] || s.result.bad[r];
    threads_for(threads, rows, 16, rank_queries, &s);
    if (s.no_memory)
        rc = error_set(err, ERR_MEMORY, NULL, "no memory to rank %zu embeddings", rows);
    for (size_t i = 0; i <= mask_count; i++)
        out[i] = (struct retrieval){.rows = rows, .nonfinite_rows = bad, .top_k = s.top_k, .spearman_min = NAN};
    for (size_t q = 0; q < rows; q++) {
        retrieval_add(&out[0], q, s.top1[q], s.top10[q], s.spearman[q]);
        for (size_t i = 0; i < mask_count; i++) {
            if (masks[i][q])
                retrieval_add(&out[1 + i], q, s.top1[q], s.top10[q], s.spearman[q]);
        }
    }
    for (size_t i = 0; i <= mask_count; i++) {
        double n = (double)out[i].queries; // 0 / 0 is the NaN of an empty subset
        out[i].top1 /= n;
        out[i].top10 /= n;
        out[i].spearman /= n;
    }
    ranking_release(&s);
    return rc;
}

int retrieval_margins(const double *reference, size_t rows, size_t columns, double *margins, struct error *err)
{
    struct ranking s;
    int rc = ranking_init(&s, rows, columns, err);
    if (rc)
        return rc;
    struct candidate *list = calloc(rows, sizeof *list);
    if (!list)
        rc = error_set(err, ERR_MEMORY, NULL, "no memory to rank %zu embeddings", rows);
    directions_fill(&s.reference, reference, rows, columns);
    for (size_t q = 0; q < rows && list; q++) {
        rank_candidates(&s.reference, rows, columns, q, list);
        double first = -INFINITY, second = -INFINITY;
        for (size_t i = 0; i < rows - 1; i++) {
            double v = list[i].similarity;
            if (v > first) {
                second = first;
                first = v;
            } else if (v > second) {
                second = v;
            }
        }
        bool known = !s.reference.bad[q] && isfinite(first) && isfinite(second);
        margins[q] = known ? first - second : NAN;
    }
    free(list);
    ranking_release(&s);
    return rc;
}
