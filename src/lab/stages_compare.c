// SPDX-License-Identifier: Apache-2.0
#include "lab/stages_compare.h"

#include <math.h>
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

// ---- rows

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

static void ratio(struct jw *w, const char *key, double value, const char *source, const char *why)
{
    quantity_json_kv(w, key, quantity_make(value, "1", ORIGIN_DERIVED, isnan(value) ? why : source));
}

static double floor_of(const json_t *row)
{
    return value_of(member(member(member(row, "floors"), "calibrated"), "math"));
}

// `name`: of what; `output`: what it made is kept under this name.
static int write_row(const struct stages_side *sides[2], const json_t *rows[2], const char *kind, const char *name,
                     const char *output, struct jw *w, struct error *err)
{
    double p50[2], low[2], high[2];
    bool loads = json_is_true(member(rows[0], "loads_in_request"));
    for (int i = 0; i < 2; i++) {
        const json_t *time = member(rows[i], "time");
        p50[i] = value_of(member(time, "p50"));
        low[i] = value_of(member(time, "p50_low"));
        high[i] = value_of(member(time, "p50_high"));
    }
    double faster = p50[0] / p50[1], expected = loads ? NAN : floor_of(rows[0]) / floor_of(rows[1]);
    jw_object(w);
    jw_kv_string(w, "kind", kind);
    jw_kv_string(w, "name", name);
    quantity_json_kv(w, "a", quantity_make(p50[0], "ms", ORIGIN_MEASURED, sides[0]->name));
    quantity_json_kv(w, "b", quantity_make(p50[1], "ms", ORIGIN_MEASURED, sides[1]->name));
    ratio(w, "speedup", faster, "p50 of a / p50 of b", "one of them has no median");
    ratio(w, "speedup_low", low[0] / high[1], "lower end of the interval of a / upper end of that of b",
          "one of them has no interval");
    ratio(w, "speedup_high", high[0] / low[1], "upper end of the interval of a / lower end of that of b",
          "one of them has no interval");
    ratio(w, "expected", expected, "calibrated time of the arithmetic of a / that of b",
          loads ? "a time that contains loading" : "needs the stage calib in both");
    ratio(w, "speedup_by_expected", faster / expected, "speedup / expected",
          loads ? "a time that contains loading" : "needs the stage calib in both");
    int rc = write_parity(sides[0], sides[1], output, w, err);
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

static int write_rows(const struct stages_side *sides[2], const char *list, const char *key, const char *kind,
                      struct jw *w, struct error *err)
{
    const json_t *of[2] = {member(result_of(sides[0]), list), member(result_of(sides[1]), list)};
    int rc = 0;
    for (size_t i = 0; i < json_array_size(of[0]) && !rc; i++) {
        const json_t *rows[2] = {json_array_get(of[0], i), NULL};
        const char *name = json_string_value(member(rows[0], key));
        rows[1] = name ? find(of[1], key, name) : NULL;
        bool resident = name && strcmp(name, stages_kind_name(STAGES_RESIDENT)) == 0;
        if (rows[1])
            rc = write_row(sides, rows, kind, name, resident ? STAGES_REQUEST : name, w, err);
    }
    return rc;
}

int stages_compare_json(const struct stages_side *a, const struct stages_side *b, struct jw *w, struct error *err)
{
    const struct stages_side *sides[2] = {a, b};
    const json_t *products[2] = {member(member(result_of(a), "calib"), "runs"),
                                 member(member(result_of(b), "calib"), "runs")};
    int rc = check_inputs(a, b, err);
    if (rc)
        return rc;
    jw_object(w);
    jw_key(w, "a");
    write_side(a, w);
    jw_key(w, "b");
    write_side(b, w);
    jw_key(w, "products");
    jw_array(w);
    for (size_t i = 0; i < json_array_size(products[0]); i++) {
        const json_t *x = json_array_get(products[0], i), *y = NULL;
        const char *name = json_string_value(member(x, "product"));
        if (!name || !(y = find(products[1], "product", name)))
            continue;
        double rates[2] = {value_of(member(x, "rate")), value_of(member(y, "rate"))};
        const char *unit = strcmp(name, "copy") == 0 ? "B/s" : strcmp(name, "int8") == 0 ? "OP/s" : "FLOP/s";
        jw_object(w);
        jw_kv_string(w, "name", name);
        quantity_json_kv(w, "a", quantity_make(rates[0], unit, ORIGIN_MEASURED, a->name));
        quantity_json_kv(w, "b", quantity_make(rates[1], unit, ORIGIN_MEASURED, b->name));
        ratio(w, "ratio", rates[1] / rates[0], "rate of b / rate of a", "one of them has no rate");
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_key(w, "rows");
    jw_array(w);
    rc = write_rows(sides, "serving", "stage", "request", w, err);
    if (!rc)
        rc = write_rows(sides, "modules", "module", "module", w, err);
    jw_array_end(w);
    jw_object_end(w);
    return rc;
}
