// SPDX-License-Identifier: Apache-2.0
#include "report/stages.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/doc.h"
#include "report/html.h"
#include "report/page.h"
#include "report/stale.h"

static const json_t *result_of(const json_t *doc, struct error *err)
{
    const json_t *result = doc_at(doc, "result");
    if (!json_is_array(doc_at(result, "modules")) || !json_is_array(doc_at(result, "serving"))) {
        error_set(err, ERR_INPUT, "result", "is not of timed stages: it has no modules and no serving");
        return NULL;
    }
    return result;
}

// ---- cells

static void quantity_column(struct table *t, const char *title, char origin, int rank)
{
    table_column(t, title, NULL, TABLE_RIGHT, rank);
    table_origin(t, origin);
}

// A share as per cent, or the dash with the reason.
static void share_cell(struct table *t, const json_t *of, const char *path)
{
    struct quantity q = doc_quantity(of, path);
    q.value *= 100;
    q.unit = "%";
    table_quantity(t, q);
}

static void cell(struct table *t, const json_t *of, const char *path)
{
    table_quantity(t, doc_quantity(of, path));
}

static void bytes_cell(struct table *t, const json_t *of, const char *path)
{
    table_quantity(t, quantity_make(doc_number(of, path), "B", ORIGIN_DERIVED, NULL));
}

static void spread_columns(struct table *t)
{
    quantity_column(t, "first", 'M', 4);
    quantity_column(t, "p50", 'M', 0);
    quantity_column(t, "spread", 'M', 2);
    table_column(t, "samples", NULL, TABLE_RIGHT, 5);
}

static void spread_cells(struct table *t, const json_t *of)
{
    cell(t, of, "first");
    cell(t, of, "time.p50");
    cell(t, of, "time.mad");
    table_count(t, doc_number(of, "time.n"));
}

// ---- tables

static void chip_row(struct table *t, const json_t *result, const char *label, const char *path)
{
    char sheet[64], here[64];
    snprintf(sheet, sizeof sheet, "chip.figures.%s", path);
    snprintf(here, sizeof here, "calibrated.figures.%s", path);
    struct quantity a = doc_quantity(result, sheet), b = doc_quantity(result, here);
    if (isnan(a.value) && isnan(b.value))
        return;
    table_row(t);
    table_cell(t, label);
    table_quantity(t, a);
    table_quantity(t, b);
}

static void fill_chip(struct table *t, const json_t *result)
{
    static const struct {
        const char *label, *path;
    } rows[] = {{"products of bf16", "peaks.bf16"},
                {"of f32", "peaks.f32"},
                {"of f16", "peaks.f16"},
                {"of int8", "peaks.int8"},
                {"of fp8", "peaks.fp8"},
                {"bandwidth", "bandwidth"},
                {"memory", "memory"},
                {"usable", "memory_usable"},
                {"PCIe", "pcie"}};
    table_column(t, "one device", NULL, TABLE_LEFT, 0);
    table_column(t, doc_text(result, "chip.name", "not known"), NULL, TABLE_RIGHT, 0);
    table_column(t, "measured", NULL, TABLE_RIGHT, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        chip_row(t, result, rows[i].label, rows[i].path);
}

static void fill_products(struct table *t, const json_t *result)
{
    char text[48];
    table_column(t, "product", NULL, TABLE_LEFT, 0);
    quantity_column(t, "compile", 'M', 4);
    spread_columns(t);
    quantity_column(t, "rate", 'M', 0);
    quantity_column(t, "of the sheet", 'D', 1);
    quantity_column(t, "error", 'M', 1);
    table_column(t, "", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < doc_count(result, "calib.products"); i++) {
        const json_t *p = doc_item(result, "calib.products", i);
        double error = doc_number(p, "error.value");
        table_row(t);
        table_cell(t, doc_text(p, "product", ""));
        cell(t, p, "compile");
        spread_cells(t, p);
        cell(t, p, "rate");
        share_cell(t, p, "of_sheet");
        snprintf(text, sizeof text, "%.1e", error);
        table_number(t, error, text);
        table_cell(t, json_is_true(doc_at(p, "implausible")) ? "bf16, not f32" : "");
        table_style(t, TABLE_WARN);
    }
    if (doc_count(result, "calib.products")) {
        const json_t *copy = doc_at(result, "calib.copy");
        table_row(t);
        table_cell(t, "copy");
        table_cell(t, "");
        spread_cells(t, copy);
        cell(t, copy, "rate");
    }
}

static void fill_serving(struct table *t, const json_t *result)
{
    table_column(t, "request", NULL, TABLE_LEFT, 0);
    quantity_column(t, "compile", 'M', 3);
    quantity_column(t, "load", 'M', 3);
    spread_columns(t);
    quantity_column(t, "images/s", 'M', 0);
    quantity_column(t, "MFU", 'D', 1);
    quantity_column(t, "of calibrated", 'D', 1);
    for (size_t i = 0; i < doc_count(result, "serving"); i++) {
        const json_t *s = doc_item(result, "serving", i);
        table_row(t);
        table_cell(t, doc_text(s, "stage", ""));
        cell(t, s, "compile");
        cell(t, s, "staging.time");
        spread_cells(t, s);
        table_number(t, doc_number(s, "images_per_s.value"), NULL);
        share_cell(t, s, "mfu_sheet");
        share_cell(t, s, "mfu_calibrated");
    }
}

static void fill_staging(struct table *t, const json_t *result)
{
    table_column(t, "request", NULL, TABLE_LEFT, 0);
    quantity_column(t, "mapped", 'M', 1);
    quantity_column(t, "copied", 'M', 1);
    quantity_column(t, "time", 'M', 0);
    quantity_column(t, "rate", 'M', 0);
    quantity_column(t, "disk floor", 'D', 1);
    quantity_column(t, "PCIe floor", 'D', 2);
    quantity_column(t, "memory floor", 'D', 1);
    table_column(t, "in the page cache before", NULL, TABLE_RIGHT, 2);
    table_origin(t, 'M');
    for (size_t i = 0; i < doc_count(result, "serving"); i++) {
        const json_t *s = doc_at(doc_item(result, "serving", i), "staging");
        table_row(t);
        table_cell(t, doc_text(doc_item(result, "serving", i), "stage", ""));
        bytes_cell(t, s, "mapped_bytes");
        bytes_cell(t, s, "copied_bytes");
        cell(t, s, "time");
        cell(t, s, "rate");
        cell(t, s, "floor_disk");
        cell(t, s, "floor_pcie");
        cell(t, s, "floor_memory");
        double in = doc_number(s, "page_cache.in_memory"), of = doc_number(s, "page_cache.bytes");
        table_quantity(t, quantity_make(100 * in / of, "%", ORIGIN_MEASURED, doc_text(s, "page_cache.why", NULL)));
    }
}

static void fill_memory(struct table *t, const json_t *result)
{
    table_column(t, "request", NULL, TABLE_LEFT, 0);
    quantity_column(t, "in use", 'M', 0);
    quantity_column(t, "limit", 'M', 0);
    quantity_column(t, "weights", 'D', 1);
    quantity_column(t, "inputs", 'D', 2);
    quantity_column(t, "unattributed", 'D', 0);
    quantity_column(t, "process at most", 'M', 1);
    for (size_t i = 0; i < doc_count(result, "serving"); i++) {
        const json_t *m = doc_at(doc_item(result, "serving", i), "memory");
        table_row(t);
        table_cell(t, doc_text(doc_item(result, "serving", i), "stage", ""));
        cell(t, m, "in_use");
        cell(t, m, "limit");
        bytes_cell(t, m, "weights");
        bytes_cell(t, m, "inputs");
        cell(t, m, "unattributed");
        cell(t, m, "process_peak");
    }
}

static void fill_modules(struct table *t, const json_t *result)
{
    table_column(t, "module", NULL, TABLE_LEFT, 0);
    table_column(t, "runs", NULL, TABLE_RIGHT, 2);
    quantity_column(t, "compile", 'M', 3);
    quantity_column(t, "load", 'M', 4);
    spread_columns(t);
    quantity_column(t, "rate", 'M', 1);
    quantity_column(t, "MFU", 'D', 0);
    quantity_column(t, "of calibrated", 'D', 0);
    for (size_t i = 0; i < doc_count(result, "modules"); i++) {
        const json_t *m = doc_item(result, "modules", i);
        table_row(t);
        table_cell(t, doc_text(m, "module", ""));
        table_count(t, doc_number(m, "runs_per_request"));
        cell(t, m, "compile");
        cell(t, m, "load");
        spread_cells(t, m);
        cell(t, m, "rate");
        share_cell(t, m, "mfu_sheet");
        share_cell(t, m, "mfu_calibrated");
    }
}

static void fill_floors(struct table *t, const json_t *result)
{
    table_column(t, "module", NULL, TABLE_LEFT, 0);
    quantity_column(t, "p50", 'M', 0);
    quantity_column(t, "floor by sheet", 'D', 1);
    quantity_column(t, "calibrated floor", 'D', 2);
    quantity_column(t, "predicted", 'D', 0);
    quantity_column(t, "measured by predicted", 'D', 0);
    table_column(t, "verdict", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < doc_count(result, "modules"); i++) {
        const json_t *m = doc_item(result, "modules", i);
        const char *verdict = doc_text(m, "verdict", "");
        table_row(t);
        table_cell(t, doc_text(m, "module", ""));
        cell(t, m, "time.p50");
        cell(t, m, "floors.sheet.single_merged");
        cell(t, m, "floors.calibrated.single_merged");
        cell(t, m, "predicted");
        cell(t, m, "ratio");
        table_cell(t, verdict);
        table_style(t, strcmp(verdict, "within the band") == 0 ? TABLE_GOOD
                       : strcmp(verdict, "not predicted") == 0 ? TABLE_DIM
                                                               : TABLE_WARN);
    }
}

static void fill_sums(struct table *t, const json_t *result)
{
    static const struct {
        const char *path, *label;
    } rows[] = {{"sums.modules", "the modules, as often as a request runs them"},
                {"sums.request", "a resident request"},
                {"sums.difference", "its difference"},
                {"sums.outside", "  between its programs: transfers, checks, the host"},
                {"sums.in_turn", "  programs in turn, less the same ones again and again"},
                {"sums.staged_minus_resident", "staged less resident"},
                {"sums.staging_over_resident", "  by what a resident request takes"},
                {"sums.cold_minus_resident", "cold less resident"}};
    table_column(t, "", NULL, TABLE_LEFT, 0);
    table_column(t, "value", NULL, TABLE_RIGHT, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        table_row(t);
        table_cell(t, rows[i].label);
        cell(t, result, rows[i].path);
    }
}

// ---- the whole

static void about(struct str *s, const json_t *result)
{
    str_addf(s, "%s, %.0f x %.0f, ", doc_text(result, "model", "?"), doc_number(result, "width"),
             doc_number(result, "height"));
    if (doc_number(result, "batch") > 1)
        str_addf(s, "%.0f at once, ", doc_number(result, "batch"));
    str_addf(s, "%.0f steps, %.0f text tokens, %s, %s, ", doc_number(result, "steps"),
             doc_number(result, "text_tokens"), doc_text(result, "policy", "?"), doc_text(result, "device", "?"));
    double threads = doc_number(result, "threads");
    if (threads > 0)
        str_addf(s, "%.0f threads, ", threads);
    str_addf(s, "%.2f GB of %sweights", doc_number(result, "weights.bytes") * 1e-9,
             json_is_true(doc_at(result, "weights.random")) ? "random " : "");
}

static void kernels_line(struct str *s, const json_t *result)
{
    const char *with = doc_text(result, "kernels.with", NULL), *absent = doc_text(result, "kernels.absent", NULL);
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)doc_at(result, "kernels.calls"), key, value)
        str_addf(s, "%s%" JSON_INTEGER_FORMAT " %s", n++ ? ", " : "", json_integer_value(value), key);
    if (absent)
        str_addf(s, "none (%s)", absent);
    else if (with)
        str_addf(s, n ? " (%s)" : "none of use here (%s)", with);
    else
        str_add(s, "not asked for");
}

static const struct section {
    const char *title, *about;
    page_fill *fill;
    const char *needs; // an array that is not empty; NULL: always
} sections[] = {
    {"What one device can do", "Published, and measured in this run or by `assay bench --calibrate`.", fill_chip, NULL},
    {"Plain products",
     "Operands are arguments. The error is that of the elements that were scored against sums in f64; rates count 2 "
     "n^3.",
     fill_products, "calib.products"},
    {"Requests",
     "From tokens to the image on the host. Cold contains compilation and loading, staged contains loading: neither "
     "gives a share of a peak. The first request is apart.",
     fill_serving, "serving"},
    {"Loading of the weights", "The floors are the same bytes at the rate of the disk, of PCIe, of the memory.",
     fill_staging, "serving"},
    {"Memory of the device", "Behind the last request.", fill_memory, "serving"},
    {"Modules",
     "Each by itself, again and again on inputs that are on the device; compilation, loading and the first run are "
     "apart. MFU is arithmetic at the published peak by the time, beside it the same by the product measured here.",
     fill_modules, "modules"},
    {"Modules beside their floors",
     "A floor is the longer of arithmetic and memory. The prediction adds the calibrated floors of a module's parts; a "
     "time within 1.5 of it is within the band.",
     fill_floors, "modules"},
    {"The whole and its parts", NULL, fill_sums, NULL},
};

static bool is_there(const struct section *s, const json_t *result)
{
    return !s->needs || doc_count(result, s->needs);
}

int report_stages_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err)
{
    const json_t *result = result_of(doc, err);
    struct page p = {out, width, color};
    struct str s;
    if (!result)
        return ERR_INPUT;
    str_init(&s);
    about(&s, result);
    page_paragraph(&p, PAGE_BOLD, "", str_text(&s));
    str_clear(&s);
    kernels_line(&s, result);
    page_paragraph(&p, NULL, "kernels: ", str_text(&s));
    str_release(&s);
    int rc = 0;
    for (size_t i = 0; i < sizeof sections / sizeof *sections && !rc; i++) {
        if (!is_there(&sections[i], result))
            continue;
        str_add_char(out, '\n');
        page_paragraph(&p, PAGE_BOLD, "", sections[i].title);
        rc = page_table(&p, sections[i].fill, result, TABLE_TEXT, err);
    }
    for (size_t i = 0; i < doc_count(result, "warnings") && !rc; i++) {
        if (i == 0)
            str_add_char(out, '\n');
        page_paragraph(&p, PAGE_WARN, "warning: ", doc_item_text(result, "warnings", i));
    }
    return rc ? rc : str_check(out, err);
}

static int body(struct str *out, const json_t *result, enum table_format format, struct error *err)
{
    const struct page p = {.out = out};
    struct str s;
    int rc = 0;
    str_init(&s);
    about(&s, result);
    page_sentence(out, format, "about", str_text(&s));
    str_clear(&s);
    str_add(&s, "kernels: ");
    kernels_line(&s, result);
    page_sentence(out, format, "about", str_text(&s));
    str_release(&s);
    for (size_t i = 0; i < doc_count(result, "warnings"); i++)
        page_sentence(out, format, "warn", doc_item_text(result, "warnings", i));
    for (size_t i = 0; i < sizeof sections / sizeof *sections && !rc; i++) {
        if (!is_there(&sections[i], result))
            continue;
        page_title(out, format, 2, sections[i].title);
        if (sections[i].about)
            page_sentence(out, format, "about", sections[i].about);
        rc = page_table(&p, sections[i].fill, result, format, err);
    }
    return rc ? rc : str_check(out, err);
}

int report_stages_markdown(struct str *out, const json_t *doc, struct error *err)
{
    const json_t *result = result_of(doc, err);
    if (!result)
        return ERR_INPUT;
    str_add(out, "# Stages\n\n");
    return body(out, result, TABLE_MARKDOWN, err);
}

int report_stages_html(struct str *out, const json_t *doc, const char *sha256, struct error *err)
{
    const json_t *result = result_of(doc, err);
    if (!result)
        return ERR_INPUT;
    html_begin(out, "Stages");
    str_add(out, "<h1>Stages</h1>\n");
    int rc = body(out, result, TABLE_HTML, err);
    if (sha256)
        str_addf(out, "<p class=\"about\">" REPORT_STALE_MARK "%.64s</p>\n", sha256);
    html_end(out);
    return rc ? rc : str_check(out, err);
}

// ---- every sample

static void add_samples(struct table *t, const char *kind, const char *name, const json_t *of)
{
    struct arena a;
    const double *ns;
    arena_init(&a);
    size_t n = doc_samples(of, "samples_ns", &a, &ns);
    for (size_t i = 0; i < n; i++) {
        table_row(t);
        table_cell(t, kind);
        table_cell(t, name);
        table_count(t, (double)(i + 1));
        table_number(t, ns[i] * 1e-6, NULL);
    }
    arena_release(&a);
}

static void fill_samples(struct table *t, const json_t *result)
{
    static const struct {
        const char *path, *kind, *name;
    } lists[] = {
        {"calib.products", "product", "product"}, {"serving", "request", "stage"}, {"modules", "module", "module"}};
    table_column(t, "kind", NULL, TABLE_LEFT, 0);
    table_column(t, "name", NULL, TABLE_LEFT, 0);
    table_column(t, "sample", NULL, TABLE_RIGHT, 0);
    table_column(t, "time", "ms", TABLE_RIGHT, 0);
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        for (size_t i = 0; i < doc_count(result, lists[k].path); i++) {
            const json_t *of = doc_item(result, lists[k].path, i);
            add_samples(t, lists[k].kind, doc_text(of, lists[k].name, ""), of);
        }
    }
}

int report_stages_csv(struct str *out, const json_t *doc, struct error *err)
{
    const json_t *result = result_of(doc, err);
    return result ? page_table(&(struct page){.out = out}, fill_samples, result, TABLE_CSV, err) : ERR_INPUT;
}
