// SPDX-License-Identifier: Apache-2.0
#include "plan/roofline.h"

#include <math.h>

const char *bound_name(enum bound b)
{
    return b == BOUND_COMPUTE ? "compute" : b == BOUND_MEMORY ? "memory" : NULL;
}

int roofline_floor(const struct cost *c, const struct chip *chip, struct arena *a, struct floor *out, struct error *err)
{
    const char *why = NULL;
    struct quantity bandwidth = chip_bandwidth(chip, CHIP_PER_DEVICE);
    out->compute_s = 0;
    out->memory_s = c->bytes / bandwidth.value;
    if (isnan(bandwidth.value))
        why = bandwidth.source;
    for (int t = 0; t < DT_COUNT; t++) {
        if (c->product_flop[t] == 0)
            continue;
        enum chip_type type = chip_type_from_name(dtype_name((enum dtype)t));
        struct quantity rate = {NAN, "FLOP/s", ORIGIN_SHEET, NULL};
        if (type < CHIP_TYPES)
            rate = chip_rate(chip, type, CHIP_PER_DEVICE);
        if (isnan(rate.value) && !why)
            why = rate.source
                      ? rate.source
                      : arena_printf(a, err, "no %s rate is published for %s", dtype_name((enum dtype)t), chip->name);
        out->compute_s += c->product_flop[t] / rate.value;
    }
    if (why) {
        out->time = quantity_make(NAN, "us", ORIGIN_DERIVED, why);
        out->bound = BOUND_NONE;
        return 0;
    }
    bool compute = out->compute_s > out->memory_s;
    out->bound = compute ? BOUND_COMPUTE : BOUND_MEMORY;
    const char *source =
        arena_printf(a, err, "max(product FLOP / peak, bytes / bandwidth) of one %s device", chip->name);
    out->time = quantity_make((compute ? out->compute_s : out->memory_s) * 1e6, "us", ORIGIN_DERIVED, source);
    return source ? 0 : ERR_MEMORY;
}

int roofline_merged(const struct cost *c, const struct chip *chip, struct arena *a, struct floor *out,
                    struct error *err)
{
    struct cost merged = *c;
    merged.bytes = c->bytes_merged;
    return roofline_floor(&merged, chip, a, out, err);
}

static const struct {
    const char *key, *label, *source;
} wholes[WHOLES] = {
    {"math", "arithmetic alone", "product FLOP of all rows / peak"},
    {"memory", "memory alone", "bytes of all rows, each a kernel of its own, / bandwidth"},
    {"memory_merged", "memory alone, merged",
     "bytes of all rows, those without products made inside their neighbours, / bandwidth"},
    {"single", "single floor", "the longer of arithmetic and memory of the whole"},
    {"single_merged", "single floor, merged", "the longer of arithmetic and merged memory of the whole"},
    {"rows", "sum of row floors", "sum over rows of the longer of arithmetic and memory"},
    {"rows_merged", "sum of row floors, merged", "sum over rows of the longer of arithmetic and merged memory"},
};

const char *whole_key(enum whole w)
{
    return wholes[w].key;
}

const char *whole_label(enum whole w)
{
    return wholes[w].label;
}

int roofline_whole(const struct cost_row *rows, int n, const struct chip *chip, struct arena *a,
                   struct whole_floor *out, struct error *err)
{
    double s[WHOLES] = {0};
    const char *why = NULL;
    for (int i = 0; i < n; i++) {
        struct floor f, merged;
        int rc = roofline_floor(&rows[i].cost, chip, a, &f, err);
        if (!rc)
            rc = roofline_merged(&rows[i].cost, chip, a, &merged, err);
        if (rc)
            return rc;
        if (isnan(f.time.value) && !why)
            why = f.time.source;
        s[WHOLE_MATH] += f.compute_s;
        s[WHOLE_MEMORY] += f.memory_s;
        s[WHOLE_MEMORY_MERGED] += merged.memory_s;
        s[WHOLE_ROWS] += f.time.value * 1e-6;
        s[WHOLE_ROWS_MERGED] += merged.time.value * 1e-6;
    }
    s[WHOLE_SINGLE] = fmax(s[WHOLE_MATH], s[WHOLE_MEMORY]);
    s[WHOLE_SINGLE_MERGED] = fmax(s[WHOLE_MATH], s[WHOLE_MEMORY_MERGED]);
    for (int w = 0; w < WHOLES; w++) {
        const char *source = why ? why : arena_printf(a, err, "%s of one %s device", wholes[w].source, chip->name);
        if (!source)
            return ERR_MEMORY;
        out->time[w] = quantity_make(why ? NAN : s[w] * 1e6, "us", ORIGIN_DERIVED, source);
    }
    return 0;
}

int roofline_total(const struct cost_row *rows, int n, const struct chip *chip, struct arena *a, struct floor *out,
                   struct error *err)
{
    *out = (struct floor){.compute_s = 0};
    double sum = 0;
    for (int i = 0; i < n; i++) {
        struct floor f;
        int rc = roofline_floor(&rows[i].cost, chip, a, &f, err);
        if (rc)
            return rc;
        out->compute_s += f.compute_s;
        out->memory_s += f.memory_s;
        if (isnan(f.time.value)) {
            out->time = f.time;
            out->bound = BOUND_NONE;
            return 0;
        }
        sum += f.time.value;
    }
    const char *source = arena_printf(a, err,
                                      "sum over modules of max(product FLOP / peak, bytes / bandwidth) of one %s "
                                      "device",
                                      chip->name);
    out->bound = out->compute_s > out->memory_s ? BOUND_COMPUTE : BOUND_MEMORY;
    out->time = quantity_make(sum, "us", ORIGIN_DERIVED, source);
    return source ? 0 : ERR_MEMORY;
}

struct quantity roofline_intensity(const struct cost *c)
{
    return quantity_make(c->bytes > 0 ? cost_product_flop(c) / c->bytes : NAN, "FLOP/B", ORIGIN_DERIVED,
                         c->bytes > 0 ? "product FLOP / fused bytes" : "no byte moves");
}

void cost_json(const struct cost *c, struct jw *w)
{
    quantity_json_derived(w, "flop", cost_product_flop(c), "FLOP", "2 per multiply-add of products");
    quantity_json_derived(w, "element_flop", c->element_flop, "FLOP", "one per output element of other arithmetic");
    quantity_json_derived(w, "transcendentals", c->transcendentals, "count", "exp, erf, roots: one per output element");
    quantity_json_derived(w, "bytes", c->bytes, "B", "what enters and leaves each scope once, its inside fused");
    quantity_json_derived(w, "bytes_merged", c->bytes_merged, "B",
                          "the same with scopes without products made inside those beside them");
    quantity_json_derived(w, "bytes_unfused", c->bytes_unfused, "B", "operands and results of every operation");
    quantity_json_derived(w, "weight_bytes", c->weight_bytes, "B",
                          isnan(c->weight_bytes) ? "not told of a program that is priced as it is"
                                                 : "weights and scales read, of `bytes`");
    quantity_json_kv(w, "intensity", roofline_intensity(c));
}

void floor_json(const struct floor *f, struct jw *w)
{
    quantity_json_kv(w, "time", f->time);
    jw_kv_string(w, "bound", bound_name(f->bound));
}
