// SPDX-License-Identifier: Apache-2.0
#include "lab/stages_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/quantity.h"
#include "lab/stages.h"
#include "record/record.h"

// ---- sides

int stages_side_open(struct stages_side *s, const char *dir, struct error *err)
{
    struct arena a;
    struct record_contents c;
    arena_init(&a);
    *s = (struct stages_side){.name = dir};
    int rc = record_read(&c, dir, &a, err);
    if (!rc && !(s->document = json_parse(c.report, c.report_bytes, dir, err)))
        rc = ERR_INPUT;
    const char *schema = rc ? "" : json_string_value(json_object_get(s->document, "schema"));
    if (!rc && (!schema || strcmp(schema, "assay.bench.stages/1") != 0))
        rc = error_set(err, ERR_INPUT, dir, "is no record of `assay bench --stages`");
    char *path = rc ? NULL : arena_printf(&a, err, "%s/outputs.safetensors", dir);
    if (!rc && !path)
        rc = ERR_MEMORY;
    if (!rc && file_exists(path)) {
        rc = checkpoint_open(&s->outputs, path, err);
        s->has_outputs = !rc;
    }
    arena_release(&a);
    return rc;
}

void stages_side_release(struct stages_side *s)
{
    json_decref(s->document);
    if (s->has_outputs)
        checkpoint_close(&s->outputs);
    s->document = NULL;
    s->has_outputs = false;
}

static const json_t *member(const json_t *o, const char *key)
{
    return json_object_get(o, key);
}

static const json_t *result_of(const struct stages_side *s)
{
    return member(s->document, "result");
}

static double value_of(const json_t *quantity)
{
    const json_t *v = member(quantity, "value");
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int check_inputs(const struct stages_side *a, const struct stages_side *b, struct error *err)
{
    static const char *const keys[] = {"model", "weights", "prompt",      "height",   "width",
                                       "batch", "steps",   "text_tokens", "guidance", "seed"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *x = member(result_of(a), keys[i]), *y = member(result_of(b), keys[i]);
        if (!x || !y || !json_equal(x, y))
            return error_set(err, ERR_INPUT, b->name, "is of another %s than %s: only the same inputs can be compared",
                             keys[i], a->name);
    }
    return 0;
}

// ---- in turns or not

static bool same_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");
    return n == strcspn(b, ":") && strncmp(a, b, n) == 0;
}

// What programs need beside weights is known once they are compiled, when one side is loaded already: a tenth of the
// weights is more than any of them took.
#define ROOM_FOR_PROGRAMS 1.1

struct stages_order stages_order_of(const struct klein_need needs[2], const char *const devices[2])
{
    const struct klein_need *a = &needs[0], *b = &needs[1];
    struct stages_order o = {.in_turns = true};
    if (!same_kind(devices[0], "cpu") && same_kind(devices[0], devices[1])) {
        o.in_turns = false;
        snprintf(o.why, sizeof o.why, "a process takes the devices of a kind for itself, and both are of one kind");
    } else if (a->on_host && b->on_host && a->free >= 0 && b->free >= 0) {
        double both = ROOM_FOR_PROGRAMS * (double)(a->bytes + b->bytes);
        double there = (double)(a->free < b->free ? a->free : b->free);
        o.in_turns = both <= there;
        if (!o.in_turns)
            snprintf(o.why, sizeof o.why, "both at once need %.1f GB of memory and %.1f GB are free", both * 1e-9,
                     there * 1e-9);
    }
    return o;
}

// ---- rows

#define SAME_SIZE 0.01 // times that are this near are the same, as those of `bench --against`

// Of the samples of each round, b's by a's; *c is zero before, and stays so where there are no rounds.
static int compare_pairs(const json_t *const rows[2], const struct stages_order *order, struct measure_comparison *c,
                         struct error *err)
{
    const json_t *of[2] = {member(member(rows[0], "samples_ns"), "value"),
                           member(member(rows[1], "samples_ns"), "value")};
    size_t n = json_array_size(of[0]);
    if (!order->in_turns || !n || n != json_array_size(of[1]))
        return 0;
    double *ns = malloc(2 * n * sizeof *ns);
    if (!ns)
        return error_set(err, ERR_MEMORY, NULL, "no memory for %zu pairs", n);
    for (size_t i = 0; i < 2 * n; i++) {
        const json_t *sample = json_array_get(of[i / n], i % n);
        ns[i] = json_is_number(sample) ? json_number_value(sample) : NAN;
    }
    int rc = measure_compare(c, ns, ns + n, n, SAME_SIZE, 0.95, err);
    free(ns);
    return rc;
}

static void write_paired(const struct measure_comparison *c, struct jw *w)
{
    jw_key(w, "paired");
    if (c->pairs)
        measure_comparison_json(w, c, "time of b / time of a in the same round");
    else
        jw_null(w);
}

static void ratio(struct jw *w, const char *key, double value, const char *source, const char *why)
{
    quantity_json_kv(w, key, quantity_make(value, "1", ORIGIN_DERIVED, isnan(value) ? why : source));
}

// How many times faster b is, and between what: by the rounds, else by both medians and their intervals.
static double write_speedup(const json_t *const rows[2], const struct measure_comparison *c, struct jw *w)
{
    double p50[2], low[2], high[2];
    for (int i = 0; i < 2; i++) {
        const json_t *time = member(rows[i], "time");
        p50[i] = value_of(member(time, "p50"));
        low[i] = value_of(member(time, "p50_low"));
        high[i] = value_of(member(time, "p50_high"));
    }
    if (c->pairs) {
        static const char none[] = "a sample has no time";
        ratio(w, "speedup", 1 / c->ratio, "median over the rounds of the time of a / that of b", none);
        ratio(w, "speedup_low", 1 / c->high, "its exact binomial interval", none);
        ratio(w, "speedup_high", 1 / c->low, "its exact binomial interval", none);
        return 1 / c->ratio;
    }
    ratio(w, "speedup", p50[0] / p50[1], "p50 of a / p50 of b", "one of them has no median");
    ratio(w, "speedup_low", low[0] / high[1], "lower end of the interval of a / upper end of that of b",
          "one of them has no interval");
    ratio(w, "speedup_high", high[0] / low[1], "upper end of the interval of a / lower end of that of b",
          "one of them has no interval");
    return p50[0] / p50[1];
}

static void write_side(const struct stages_side *s, struct jw *w)
{
    const json_t *r = result_of(s);
    const char *device = json_string_value(member(r, "device")), *policy = json_string_value(member(r, "policy"));
    jw_object(w);
    jw_kv_string(w, "name", s->name);
    jw_kv_string(w, "device", device);
    jw_kv_string(w, "policy", policy);
    jw_kv_int(w, "threads", json_integer_value(member(r, "threads")));
    jw_object_end(w);
}

static const float *output_of(const struct stages_side *s, const char *name, float **copy, size_t *n, struct error *err)
{
    const struct tensor_view *v = s->has_outputs ? checkpoint_find(&s->outputs, name) : NULL;
    *copy = v && v->dtype == DT_F32 ? malloc(v->bytes + 1) : NULL;
    *n = v ? v->elements : 0;
    if (*copy && checkpoint_read(&s->outputs, v, *copy, err)) {
        free(*copy);
        *copy = NULL;
    }
    return *copy;
}

static void write_measure(struct jw *w, const char *key, double value, const char *unit, const char *why)
{
    quantity_json_kv(w, key,
                     quantity_make(isfinite(value) ? value : NAN, unit, ORIGIN_MEASURED,
                                   isfinite(value) ? "outputs of both on the same inputs" : why));
}

static int write_parity(const struct stages_side *a, const struct stages_side *b, const char *name, struct jw *w,
                        struct error *err)
{
    float *x, *y;
    size_t n, m;
    struct stages_parity p = {.compared = false, .levels_max = NAN, .levels_mean = NAN, .psnr_db = NAN, .snr_db = NAN};
    bool image = strcmp(name, STAGES_REQUEST) == 0 || strcmp(name, stages_module_name(STAGES_M_VAE)) == 0;
    output_of(a, name, &x, &n, err);
    output_of(b, name, &y, &m, err);
    int rc = x && y && n == m && n ? stages_parity_of(x, y, n, image, &p, err) : 0;
    free(x);
    free(y);
    const char *none = p.equal ? "equal in every value" : p.compared ? "no such number" : "not kept by both";
    jw_key(w, "parity");
    jw_object(w);
    jw_kv_bool(w, "compared", p.compared);
    jw_kv_bool(w, "equal", p.equal);
    write_measure(w, "levels_max", p.levels_max, "count", p.compared && !image ? "no image" : none);
    write_measure(w, "levels_mean", p.levels_mean, "1", p.compared && !image ? "no image" : none);
    write_measure(w, "psnr", p.psnr_db, "dB", p.compared && !image ? "no image" : none);
    write_measure(w, "snr", p.snr_db, "dB", none);
    jw_object_end(w);
    return rc;
}

static double floor_of(const json_t *row)
{
    return value_of(member(member(member(row, "floors"), "calibrated"), "math"));
}

struct comparison {
    const struct stages_side *sides[2];
    const struct stages_order *order;
};

// `name`: of what; `output`: what it made is kept under this name.
static int write_row(const struct comparison *c, const json_t *const rows[2], const char *kind, const char *name,
                     const char *output, struct jw *w, struct error *err)
{
    static const char *const keys[] = {"a", "b"};
    bool loads = json_is_true(member(rows[0], "loads_in_request"));
    struct measure_comparison paired = {0};
    int rc = compare_pairs(rows, c->order, &paired, err);
    if (rc)
        return rc;
    jw_object(w);
    jw_kv_string(w, "kind", kind);
    jw_kv_string(w, "name", name);
    for (int i = 0; i < 2; i++) {
        double p50 = value_of(member(member(rows[i], "time"), "p50"));
        quantity_json_kv(w, keys[i], quantity_make(p50, "ms", ORIGIN_MEASURED, c->sides[i]->name));
    }
    double faster = write_speedup(rows, &paired, w);
    double expected = loads ? NAN : floor_of(rows[0]) / floor_of(rows[1]);
    ratio(w, "expected", expected, "calibrated time of the arithmetic of a / that of b",
          loads ? "a time that contains loading" : "needs the stage calib in both");
    ratio(w, "speedup_by_expected", faster / expected, "speedup / expected",
          loads ? "a time that contains loading" : "needs the stage calib in both");
    write_paired(&paired, w);
    rc = write_parity(c->sides[0], c->sides[1], output, w, err);
    jw_object_end(w);
    return rc;
}

static const json_t *find(const json_t *list, const char *key, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *found = json_string_value(member(json_array_get(list, i), key));
        if (found && strcmp(found, name) == 0)
            return json_array_get(list, i);
    }
    return NULL;
}

static int write_rows(const struct comparison *c, const char *list, const char *key, const char *kind, struct jw *w,
                      struct error *err)
{
    const json_t *of[2] = {member(result_of(c->sides[0]), list), member(result_of(c->sides[1]), list)};
    int rc = 0;
    for (size_t i = 0; i < json_array_size(of[0]) && !rc; i++) {
        const json_t *rows[2] = {json_array_get(of[0], i), NULL};
        const char *name = json_string_value(member(rows[0], key));
        rows[1] = name ? find(of[1], key, name) : NULL;
        bool resident = name && strcmp(name, stages_kind_name(STAGES_RESIDENT)) == 0;
        if (rows[1])
            rc = write_row(c, rows, kind, name, resident ? STAGES_REQUEST : name, w, err);
    }
    return rc;
}

static int write_product(const struct comparison *c, const json_t *const rows[2], const char *name, struct jw *w,
                         struct error *err)
{
    const char *unit = strcmp(name, "copy") == 0 ? "B/s" : strcmp(name, "int8") == 0 ? "OP/s" : "FLOP/s";
    struct measure_comparison paired = {0};
    int rc = compare_pairs(rows, c->order, &paired, err);
    if (rc)
        return rc;
    jw_object(w);
    jw_kv_string(w, "name", name);
    quantity_json_kv(w, "a",
                     quantity_make(value_of(member(rows[0], "rate")), unit, ORIGIN_MEASURED, c->sides[0]->name));
    quantity_json_kv(w, "b",
                     quantity_make(value_of(member(rows[1], "rate")), unit, ORIGIN_MEASURED, c->sides[1]->name));
    write_speedup(rows, &paired, w);
    write_paired(&paired, w);
    jw_object_end(w);
    return 0;
}

static int write_products(const struct comparison *c, struct jw *w, struct error *err)
{
    const json_t *of[2] = {member(member(result_of(c->sides[0]), "calib"), "runs"),
                           member(member(result_of(c->sides[1]), "calib"), "runs")};
    int rc = 0;
    for (size_t i = 0; i < json_array_size(of[0]) && !rc; i++) {
        const json_t *rows[2] = {json_array_get(of[0], i), NULL};
        const char *name = json_string_value(member(rows[0], "product"));
        rows[1] = name ? find(of[1], "product", name) : NULL;
        if (rows[1])
            rc = write_product(c, rows, name, w, err);
    }
    return rc;
}

int stages_compare_json(const struct stages_side *a, const struct stages_side *b, const struct stages_order *order,
                        struct jw *w, struct error *err)
{
    const struct comparison c = {{a, b}, order};
    int rc = check_inputs(a, b, err);
    if (rc)
        return rc;
    jw_object(w);
    jw_key(w, "a");
    write_side(a, w);
    jw_key(w, "b");
    write_side(b, w);
    jw_key(w, "order");
    jw_object(w);
    jw_kv_bool(w, "in_turns", order->in_turns);
    jw_kv_string(w, "why", order->in_turns ? NULL : order->why);
    jw_object_end(w);
    jw_key(w, "products");
    jw_array(w);
    rc = write_products(&c, w, err);
    jw_array_end(w);
    jw_key(w, "rows");
    jw_array(w);
    if (!rc)
        rc = write_rows(&c, "serving", "stage", "request", w, err);
    if (!rc)
        rc = write_rows(&c, "modules", "module", "module", w, err);
    jw_array_end(w);
    jw_object_end(w);
    return rc;
}
