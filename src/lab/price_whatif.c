// SPDX-License-Identifier: Apache-2.0
#include "lab/price_whatif.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct maker {
    struct price *p;
    struct what_ifs *out;
    struct cost_row *rows; // changed
    struct error *err;
    int rc;
};

static void begin(struct maker *k)
{
    memcpy(k->rows, k->p->rows, (size_t)k->p->n_rows * sizeof *k->rows);
}

enum listed {
    LISTED_WHERE_IT_SAVES,
    LISTED_ALWAYS,
    LISTED_AS_COUNTED, // what the floors take for granted: what is lost without it
};

// Compares the changed rows with those that are.
static void compare(struct maker *k, const char *name, enum listed how)
{
    bool counted = how == LISTED_AS_COUNTED;
    struct what_ifs *o = k->out;
    struct whole_floor f;
    if (k->rc || !name || o->n == WHAT_IF_MAX)
        return;
    k->rc = roofline_whole(k->rows, k->p->n_rows, o->chip, &k->p->arena, &f, k->err);
    if (k->rc)
        return;
    double rows = o->now.time[WHOLE_ROWS].value, single = o->now.time[WHOLE_SINGLE].value;
    double sign = counted ? -1 : 1;
    struct what_if w = {.name = name,
                        .counted = counted,
                        .rows_us = sign * (rows - f.time[WHOLE_ROWS].value),
                        .single_us = sign * (single - f.time[WHOLE_SINGLE].value)};
    if (isnan(w.rows_us)) // the chip has no rate for such products
        return;
    w.rows_share = w.rows_us / rows;
    w.single_share = w.single_us / single;
    if (how == LISTED_ALWAYS || w.rows_share > 1e-6 || w.single_share > 1e-6)
        o->list[o->n++] = w;
}

// ---- products with 8-bit operands

enum eight { EIGHT_PRODUCTS, EIGHT_WEIGHTS, EIGHT_BOTH };

static bool is_wide(enum dtype t)
{
    return dtype_is_float(t) && dtype_bits(t) > 8;
}

// Of products whose operands have more than 8 bits: the others are what they would become.
static double wide_flop(const struct cost *c)
{
    double flop = 0;
    for (int t = 0; t < DT_COUNT; t++)
        flop += is_wide((enum dtype)t) ? c->product_flop[t] : 0;
    return flop;
}

static void narrow_products(struct cost *c, enum dtype type)
{
    double flop = wide_flop(c);
    for (int t = 0; t < DT_COUNT; t++)
        c->product_flop[t] = is_wide((enum dtype)t) ? 0 : c->product_flop[t];
    c->product_flop[type] += flop;
}

// Weights of the row become a byte each; scales are left out.
static void narrow_weights(struct cost *c)
{
    double gone = c->weight_excess;
    c->weight_bytes -= gone;
    c->bytes -= gone;
    c->bytes_merged -= gone;
    c->bytes_unfused -= gone;
}

static void make_eight(struct maker *k, int row, enum eight how, enum dtype type)
{
    if (how != EIGHT_WEIGHTS)
        narrow_products(&k->rows[row].cost, type);
    if (how != EIGHT_PRODUCTS)
        narrow_weights(&k->rows[row].cost);
}

static bool multiplies_weights(const struct cost *c)
{
    return wide_flop(c) > 0 && c->weight_bytes > 0;
}

// Rows of the costliest part that multiply weights, the most FLOP first; at most `max`.
static int largest_rows(const struct price *p, int *rows, int max)
{
    int part = 0, n = 0;
    for (int i = 1; i < p->request.n_parts; i++) {
        double a = wide_flop(&p->parts[i].total) * (double)p->parts[i].part->calls;
        double b = wide_flop(&p->parts[part].total) * (double)p->parts[part].part->calls;
        part = a > b ? i : part;
    }
    const struct price_part *of = &p->parts[part];
    for (int r = of->first_row; r < of->first_row + of->n_rows; r++) {
        if (!multiplies_weights(&p->rows[r].cost))
            continue;
        int at = n < max ? n++ : max; // insert where it belongs
        while (at > 0 && wide_flop(&p->rows[r].cost) > wide_flop(&p->rows[rows[at - 1]].cost)) {
            if (at < max)
                rows[at] = rows[at - 1];
            at--;
        }
        if (at < max)
            rows[at] = r;
    }
    return n;
}

static void eight_bits(struct maker *k)
{
    static const struct {
        enum eight how;
        enum dtype type;
        const char *name;
    } kinds[] = {{EIGHT_PRODUCTS, DT_S8, "int8 products"},
                 {EIGHT_PRODUCTS, DT_F8E4M3FN, "fp8 products"},
                 {EIGHT_WEIGHTS, DT_S8, "8-bit weights"},
                 {EIGHT_BOTH, DT_S8, "int8 products and weights"}};
    struct price *p = k->p;
    int largest[4], n = largest_rows(p, largest, 4);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        begin(k);
        for (int r = 0; r < n; r++)
            make_eight(k, largest[r], kinds[i].how, kinds[i].type);
        if (n)
            compare(k,
                    arena_printf(&p->arena, k->err, "%s: %s, its %d largest", kinds[i].name,
                                 price_part_of(p, largest[0])->part->name, n),
                    LISTED_ALWAYS);
        begin(k);
        for (int r = 0; r < p->n_rows; r++) {
            if (multiplies_weights(&p->rows[r].cost))
                make_eight(k, r, kinds[i].how, kinds[i].type);
        }
        if (n)
            compare(k, arena_printf(&p->arena, k->err, "%s: all", kinds[i].name), LISTED_ALWAYS);
        for (int r = 0; r < n; r++) { // one by one
            begin(k);
            make_eight(k, largest[r], kinds[i].how, kinds[i].type);
            compare(k,
                    arena_printf(&p->arena, k->err, "%s: %s, %s", kinds[i].name,
                                 price_part_of(p, largest[r])->part->name, p->rows[largest[r]].group),
                    LISTED_WHERE_IT_SAVES);
        }
    }
}

// ---- other changes

// Rows without products made inside those beside them: all of a part's, and each.
static void merging(struct maker *k)
{
    struct price *p = k->p;
    for (int i = 0; i < p->request.n_parts; i++) {
        const struct price_part *part = &p->parts[i];
        begin(k);
        for (int r = part->first_row; r < part->first_row + part->n_rows; r++)
            k->rows[r].cost.bytes = k->rows[r].cost.bytes_merged;
        compare(k, arena_printf(&p->arena, k->err, "fuse: %s, all rows without products", part->part->name),
                LISTED_WHERE_IT_SAVES);
        for (int r = part->first_row; r < part->first_row + part->n_rows; r++) {
            if (p->rows[r].cost.bytes_merged >= p->rows[r].cost.bytes)
                continue;
            begin(k);
            k->rows[r].cost.bytes = k->rows[r].cost.bytes_merged;
            compare(k, arena_printf(&p->arena, k->err, "fuse: %s, %s", part->part->name, p->rows[r].group),
                    LISTED_WHERE_IT_SAVES);
        }
    }
}

// Work that is the same in every call, done once.
static void hoisting(struct maker *k)
{
    struct price *p = k->p;
    begin(k);
    for (int i = 0; p->request.hoisted && p->request.hoisted[i]; i++) {
        const struct price_part *part = &p->parts[p->request.hoisted_part];
        for (int r = part->first_row; r < part->first_row + part->n_rows; r++) {
            if (strcmp(p->rows[r].group, p->request.hoisted[i]) == 0)
                cost_scale(&k->rows[r].cost, 1 / (double)part->part->calls);
        }
    }
    if (p->request.hoisted)
        compare(k,
                arena_printf(&p->arena, k->err, "hoist: %s, what is the same in every %s",
                             p->parts[p->request.hoisted_part].part->name,
                             p->parts[p->request.hoisted_part].part->call),
                LISTED_WHERE_IT_SAVES);
}

// Attention whose scores do not leave the chip is what these floors take for granted.
static void flash(struct maker *k)
{
    struct price *p = k->p;
    begin(k);
    bool any = false;
    for (int r = 0; r < p->n_rows; r++) {
        const char *name = p->rows[r].group;
        if (strcmp(name, "attention") != 0 && strcmp(name, "scores and values") != 0 &&
            strcmp(name, "mid: attention") != 0)
            continue;
        any = true;
        k->rows[r].cost.bytes = k->rows[r].cost.bytes_unfused;
    }
    if (any)
        compare(k, "flash attention, against every operation of attention alone", LISTED_AS_COUNTED);
}

static int by_saving(const void *a, const void *b)
{
    const struct what_if *x = a, *y = b;
    if (x->counted != y->counted)
        return x->counted ? 1 : -1;
    if (x->rows_us != y->rows_us)
        return x->rows_us < y->rows_us ? 1 : -1;
    return strcmp(x->name, y->name);
}

// Memory is W + a B and arithmetic c B: they meet at B = W / (c - a).
static void turning_points(const struct price *p, struct what_ifs *out)
{
    for (int i = 0; i < p->request.n_parts; i++) {
        const struct price_part *part = &p->parts[i];
        struct cost sum = {0};
        double math = 0, batch = (double)p->request.batch;
        for (int r = part->first_row; r < part->first_row + part->n_rows; r++)
            cost_add(&sum, &p->rows[r].cost);
        for (int t = 0; t < DT_COUNT; t++) {
            enum chip_type type = chip_type_from_name(dtype_name((enum dtype)t));
            if (sum.product_flop[t] > 0 && type < CHIP_TYPES)
                math += sum.product_flop[t] / chip_rate(out->chip, type, CHIP_PER_DEVICE).value;
        }
        double bandwidth = chip_bandwidth(out->chip, CHIP_PER_DEVICE).value;
        double each = (math - (sum.bytes - sum.weight_bytes) / bandwidth) / batch;
        out->compute_bound_batch[i] = each > 0 ? ceil(sum.weight_bytes / bandwidth / each) : NAN;
    }
}

int price_what_ifs(struct price *p, size_t chip, struct what_ifs *out, struct error *err)
{
    struct maker k = {.p = p, .out = out, .err = err};
    memset(out, 0, sizeof *out);
    out->chip = p->chips[chip];
    k.rows = arena_new(&p->arena, struct cost_row, p->n_rows, err);
    if (!k.rows)
        return ERR_MEMORY;
    int rc = roofline_whole(p->rows, p->n_rows, out->chip, &p->arena, &out->now, err);
    if (rc)
        return rc;
    if (isnan(out->now.time[WHOLE_ROWS].value))
        return error_set(err, ERR_INPUT, out->chip->name,
                         "%s: nothing can be compared; another --policy has a rate, as bf16 does",
                         out->now.time[WHOLE_ROWS].source);
    eight_bits(&k);
    merging(&k);
    hoisting(&k);
    flash(&k);
    turning_points(p, out);
    qsort(out->list, (size_t)out->n, sizeof out->list[0], by_saving);
    return k.rc;
}

int price_batches(const struct price_options *o, struct price *p, size_t chip, struct batch_price *out, int *n,
                  struct error *err)
{
    int rc = 0;
    *n = 0;
    if (p->request.fixed || p->program.path) // a program has the batch that it was exported with
        return 0;
    for (int64_t batch = 2 * p->request.batch; *n < WHAT_IF_MAX_BATCHES && !rc; batch *= 2) {
        struct price other;
        struct price_options with = *o;
        struct whole_floor f;
        struct error too_large = {0};
        with.shape.batch = batch;
        with.by_scope = with.what_if = false;
        int failed = price_open(&other, &with, &too_large);
        if (!failed)
            rc = roofline_whole(other.rows, other.n_rows, p->chips[chip], &other.arena, &f, err);
        if (!failed && !rc)
            out[(*n)++] = (struct batch_price){batch, f.time[WHOLE_ROWS].value / (double)batch,
                                               f.time[WHOLE_SINGLE].value / (double)batch};
        price_close(&other);
        if (failed)
            break;
    }
    return rc;
}

void what_ifs_json(const struct price *p, const struct what_ifs *w, struct jw *j)
{
    jw_object(j);
    jw_key(j, "changes");
    jw_array(j);
    for (int i = 0; i < w->n; i++) {
        const struct what_if *one = &w->list[i];
        jw_object(j);
        jw_kv_string(j, "change", one->name);
        jw_kv_bool(j, "counted_already", one->counted);
        quantity_json_derived(j, "rows", one->rows_us, "us", "off the sum of row floors");
        quantity_json_derived(j, "rows_share", one->rows_share, "1", "of the sum of row floors");
        quantity_json_derived(j, "single", one->single_us, "us", "off the single floor");
        quantity_json_derived(j, "single_share", one->single_share, "1", "of the single floor");
        jw_object_end(j);
    }
    jw_array_end(j);
    jw_key(j, "compute_bound_batch");
    jw_object(j);
    for (int i = 0; i < p->request.n_parts; i++)
        quantity_json_derived(j, p->request.parts[i].name, w->compute_bound_batch[i], "count",
                              isnan(w->compute_bound_batch[i])
                                  ? "never: what grows with the batch takes longer to move than to compute"
                                  : "weight bytes / (what arithmetic takes longer than memory per item)");
    jw_object_end(j);
    jw_object_end(j);
}
