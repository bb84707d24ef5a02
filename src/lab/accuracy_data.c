// SPDX-License-Identifier: Apache-2.0
// The published measurements: docs/measurements.json, taken in by the assembler (mk/accuracy.mk says that this file
// depends on it) and read when they are first asked for.
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "lab/accuracy.h"

extern const char lab_measurements[]; // ends with a zero byte
__asm__(".pushsection .rodata\n"
        ".globl lab_measurements\nlab_measurements:\n"
        ".incbin \"docs/measurements.json\"\n"
        ".byte 0\n"
        ".popsection\n");

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    struct arena arena; // for as long as the program runs, as the document is
    json_t *document;
    struct measurement *rows;
    size_t n;
    struct error error;
} table;

static const struct {
    const char *name;
    enum accuracy_unit unit;
    double scale;
} units[] = {
    {"TFLOP/s", ACCURACY_FLOP_PER_S, 1e12}, {"tokens/s", ACCURACY_TOKENS_PER_S, 1}, {"ms", ACCURACY_SECONDS, 1e-3}};

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static int read_source(const json_t *o, const json_t *sources, struct chip_source *out, struct error *err)
{
    const char *key = text(o, "source");
    const json_t *s = key ? json_object_get(sources, key) : NULL;
    *out = (struct chip_source){text(s, "link"), text(s, "date"), NULL};
    if (!out->link || !out->date)
        return error_set(err, ERR_INTERNAL, "docs/measurements.json", "a row without a source of link and date: %s",
                         key ? key : "none");
    out->cite = arena_printf(&table.arena, err, "%s (%s)", out->link, out->date);
    return out->cite ? 0 : ERR_MEMORY;
}

static int read_row(const json_t *o, const json_t *sources, struct measurement *m, struct error *err)
{
    const char *kind = text(o, "kind"), *unit = text(o, "unit");
    const json_t *compiler = json_object_get(o, "compiler");
    size_t k = 0, u = 0;
    while (k < ACCURACY_KINDS && (!kind || strcmp(accuracy_kind_name((enum accuracy_kind)k), kind) != 0))
        k++;
    while (u < sizeof units / sizeof *units && (!unit || strcmp(units[u].name, unit) != 0))
        u++;
    *m = (struct measurement){.what = text(o, "what"),
                              .chip = text(o, "chip"),
                              .workload = text(o, "workload"),
                              .part = text(o, "part"),
                              .seq = (int64_t)number(o, "seq"),
                              .height = (int64_t)number(o, "height"),
                              .width = (int64_t)number(o, "width"),
                              .steps = (int64_t)number(o, "steps"),
                              .bits = number(o, "bits"),
                              .value = number(o, "value"),
                              .printed = text(o, "printed"),
                              .compiler_s = number(compiler, "us") * 1e-6,
                              .compiler = text(compiler, "how"),
                              .remark = text(o, "remark")};
    if (k == ACCURACY_KINDS || u == sizeof units / sizeof *units || !m->what || !m->chip || !m->workload ||
        !m->printed || m->value <= 0 || (compiler && (!m->compiler || m->compiler_s <= 0)))
        return error_set(err, ERR_INTERNAL, "docs/measurements.json", "a row that is not complete: %s",
                         m->what ? m->what : "without a name");
    m->kind = (enum accuracy_kind)k;
    m->unit = units[u].unit;
    m->value *= units[u].scale;
    return read_source(o, sources, &m->from, err);
}

static void read_table(void)
{
    struct error *err = &table.error;
    arena_init(&table.arena);
    table.document = json_parse(lab_measurements, strlen(lab_measurements), "docs/measurements.json", err);
    const json_t *list = json_object_get(table.document, "measurements"),
                 *sources = json_object_get(table.document, "sources");
    size_t n = json_array_size(list);
    table.rows = arena_new(&table.arena, struct measurement, n ? n : 1, err);
    while (table.rows && table.n < n && !read_row(json_array_get(list, table.n), sources, &table.rows[table.n], err))
        table.n++;
}

const struct measurement *accuracy_measurement(size_t i)
{
    pthread_once(&once, read_table);
    return i < table.n ? &table.rows[i] : NULL;
}

int accuracy_measurements_check(struct error *err)
{
    pthread_once(&once, read_table);
    return table.error.code ? error_set(err, table.error.code, table.error.where, "%s", table.error.message) : 0;
}
