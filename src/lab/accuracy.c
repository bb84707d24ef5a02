// SPDX-License-Identifier: Apache-2.0
#include "lab/accuracy.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "lab/price.h"
#include "models/arch.h"

const char *accuracy_kind_name(enum accuracy_kind kind)
{
    static const char *const names[ACCURACY_KINDS] = {"product", "stage", "decode", "train"};
    return names[kind];
}

const char *accuracy_method_name(enum accuracy_method method)
{
    static const char *const names[ACCURACY_METHODS] = {"sheet", "compiler", "calibrated"};
    return names[method];
}

// ---- The sheet's floor

// Of a product, or of parts of a request: the sum of row floors, merged, that `assay price` says. *flop is that of
// products.
static int price_floor_s(const struct measurement *m, double *seconds, double *flop, struct error *err)
{
    struct price_options o = {.workload = m->workload,
                              .chips = &m->chip,
                              .n_chips = 1,
                              .shape = {.height = m->height, .width = m->width, .steps = m->steps}};
    struct price p;
    double us = 0;
    *flop = 0;
    int rc = price_open(&p, &o, err);
    for (int i = 0; i < (rc ? 0 : p.n_rows) && !rc; i++) {
        struct floor f;
        if (m->part && strcmp(price_part_of(&p, i)->part->name, m->part) != 0)
            continue;
        rc = roofline_merged(price_cost(&p, i), p.chips[0], &p.arena, &f, err);
        us += f.time.value;
        *flop += cost_product_flop(price_cost(&p, i));
    }
    price_close(&p);
    if (!rc && *flop == 0)
        return error_set(err, ERR_INTERNAL, m->workload, "has no part \"%s\"", m->part ? m->part : "");
    *seconds = us / 1e6;
    return rc;
}

// Decoding at batch 1 reads every weight once but the embedding table, of which it reads a row. Training takes 6 FLOP
// per weight that a token passes, the table apart, and 6 s heads head_dim per layer for causal attention.
static int token_floor_s(const struct measurement *m, const struct chip *chip, struct arena *arena, double *seconds,
                         struct error *err)
{
    struct arch a;
    int rc = arch_builtin(&a, m->workload, arena, err);
    if (rc)
        return rc;
    double table = 0;
    for (size_t i = 0; i < a.n_tensors && !a.tied; i++)
        table += a.tensors[i].part == ARCH_EMBEDDING ? arch_tensor_elements(&a.tensors[i]) : 0;
    if (m->kind == ACCURACY_DECODE) {
        *seconds = (a.active_parameters - table) * m->bits / 8 / chip_bandwidth(chip, CHIP_PER_CHIP).value;
        return 0;
    }
    double attention = 6.0 * (double)(m->seq * a.layers * a.heads * a.head_dim);
    *seconds = (6 * (a.active_parameters - table) + attention) / chip_rate(chip, CHIP_BF16, CHIP_PER_CHIP).value;
    return 0;
}

static int predict_sheet(struct accuracy *a, struct accuracy_row *row, struct error *err)
{
    const struct measurement *m = row->m;
    const struct chip *chip;
    double seconds = NAN, flop = NAN;
    int rc = chip_find(m->chip, &chip, err);
    if (!rc && (m->kind == ACCURACY_DECODE || m->kind == ACCURACY_TRAIN))
        rc = token_floor_s(m, chip, &a->arena, &seconds, err);
    else if (!rc)
        rc = price_floor_s(m, &seconds, &flop, err);
    if (rc)
        return rc;
    row->measured_s = m->unit == ACCURACY_SECONDS        ? m->value
                      : m->unit == ACCURACY_TOKENS_PER_S ? 1 / m->value
                                                         : flop / m->value;
    row->predicted[ACCURACY_SHEET] = quantity_make(
        seconds, "s", ORIGIN_DERIVED, "max(FLOP / peak, merged bytes / bandwidth) of every module, summed");
    return 0;
}

// ---- Calibration

static double efficiency(const struct accuracy_row *row)
{
    return row->predicted[ACCURACY_SHEET].value / row->measured_s;
}

// A chip's own product is what it was calibrated with, where the same source has one; otherwise all others of the kind.
static int predict_calibrated(struct accuracy *a, struct accuracy_row *row, struct error *err)
{
    double *others = arena_new(&a->arena, double, a->n_rows, err);
    const char *how = NULL;
    size_t n = 0;
    if (!others)
        return ERR_MEMORY;
    for (size_t i = 0; i < a->n_rows && row->m->kind != ACCURACY_PRODUCT; i++) {
        const struct measurement *m = a->rows[i].m;
        if (m->kind == ACCURACY_PRODUCT && strcmp(m->chip, row->m->chip) == 0 &&
            strcmp(m->from.cite, row->m->from.cite) == 0)
            others[n++] = efficiency(&a->rows[i]);
    }
    if (n)
        how = "the sheet's floor / efficiency of the same chip's product in the same source";
    for (size_t i = 0; i < a->n_rows && !how; i++) {
        if (&a->rows[i] != row && a->rows[i].m->kind == row->m->kind)
            others[n++] = efficiency(&a->rows[i]);
    }
    if (!how)
        how = "the sheet's floor / median efficiency of the other rows of this kind";
    if (!n) {
        row->predicted[ACCURACY_CALIBRATED] =
            quantity_make(NAN, "s", ORIGIN_DERIVED, "nothing else of this kind was measured");
        return 0;
    }
    row->predicted[ACCURACY_CALIBRATED] =
        quantity_make(row->predicted[ACCURACY_SHEET].value / stats_median(others, n, others), "s", ORIGIN_DERIVED, how);
    return 0;
}

int accuracy_open(struct accuracy *a, struct error *err)
{
    size_t n = 0;
    memset(a, 0, sizeof *a);
    arena_init(&a->arena);
    int rc = accuracy_measurements_check(err);
    if (rc)
        return rc;
    while (accuracy_measurement(n))
        n++;
    a->rows = arena_new(&a->arena, struct accuracy_row, n, err);
    if (!a->rows)
        return ERR_MEMORY;
    for (; a->n_rows < n && !rc; a->n_rows++) {
        struct accuracy_row *row = &a->rows[a->n_rows];
        row->m = accuracy_measurement(a->n_rows);
        rc = predict_sheet(a, row, err);
        row->predicted[ACCURACY_COMPILER] =
            row->m->compiler_s > 0 ? quantity_make(row->m->compiler_s, "s", ORIGIN_DERIVED, row->m->compiler)
                                   : quantity_make(NAN, "s", ORIGIN_DERIVED, "the compiler was not asked");
    }
    for (size_t i = 0; i < n && !rc; i++) {
        struct accuracy_row *row = &a->rows[i];
        rc = predict_calibrated(a, row, err);
        for (int k = 0; k < ACCURACY_METHODS; k++)
            row->error[k] = row->predicted[k].value / row->measured_s - 1;
    }
    return rc;
}

void accuracy_close(struct accuracy *a)
{
    arena_release(&a->arena);
}

double accuracy_median(const struct accuracy *a, enum accuracy_kind kind, enum accuracy_method method, size_t *n)
{
    double errors[256];
    *n = 0;
    for (size_t i = 0; i < a->n_rows && *n < sizeof errors / sizeof *errors; i++) {
        const struct accuracy_row *row = &a->rows[i];
        if ((kind == ACCURACY_KINDS || row->m->kind == kind) && !isnan(row->error[method]))
            errors[(*n)++] = fabs(row->error[method]);
    }
    return *n ? stats_median(errors, *n, errors) : NAN;
}

void accuracy_json(const struct accuracy *a, struct jw *w)
{
    jw_object(w);
    jw_key(w, "rows");
    jw_array(w);
    for (size_t i = 0; i < a->n_rows; i++) {
        const struct accuracy_row *row = &a->rows[i];
        jw_object(w);
        jw_kv_string(w, "what", row->m->what);
        jw_kv_string(w, "kind", accuracy_kind_name(row->m->kind));
        jw_kv_string(w, "chip", row->m->chip);
        jw_kv_string(w, "printed", row->m->printed);
        quantity_json_kv(w, "measured", quantity_make(row->measured_s, "s", ORIGIN_SHEET, row->m->from.cite));
        jw_key(w, "predicted");
        jw_object(w);
        for (int k = 0; k < ACCURACY_METHODS; k++)
            quantity_json_kv(w, accuracy_method_name((enum accuracy_method)k), row->predicted[k]);
        jw_object_end(w);
        jw_key(w, "error");
        jw_object(w);
        for (int k = 0; k < ACCURACY_METHODS; k++)
            quantity_json_kv(
                w, accuracy_method_name((enum accuracy_method)k),
                quantity_make(row->error[k], "1", ORIGIN_DERIVED,
                              isnan(row->error[k]) ? row->predicted[k].source : "predicted / measured - 1"));
        jw_object_end(w);
        jw_kv_string(w, "remark", row->m->remark);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_key(w, "median_absolute_error");
    jw_array(w);
    for (int kind = 0; kind <= ACCURACY_KINDS; kind++) {
        jw_object(w);
        jw_kv_string(w, "kind", kind < ACCURACY_KINDS ? accuracy_kind_name((enum accuracy_kind)kind) : "all");
        for (int k = 0; k < ACCURACY_METHODS; k++) {
            size_t n;
            double e = accuracy_median(a, (enum accuracy_kind)kind, (enum accuracy_method)k, &n);
            quantity_json_kv(w, accuracy_method_name((enum accuracy_method)k),
                             quantity_make(e, "1", ORIGIN_DERIVED,
                                           isnan(e) ? "no row has it" : "median of |predicted / measured - 1|"));
        }
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}
