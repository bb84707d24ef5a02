// SPDX-License-Identifier: Apache-2.0
#include "report/stages.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/doc.h"
#include "report/format.h"
#include "report/page.h"

static const json_t *result_of(const json_t *doc, struct error *err)
{
    const json_t *result = doc_at(doc, "result");
    if (!json_is_array(doc_at(result, "modules")) || !json_is_array(doc_at(result, "serving"))) {
        error_set(err, ERR_INPUT, "result", "is not of timed stages: it has no modules and no serving");
        return NULL;
    }
    return result;
}

// ---- tables: a row for each element of a list, its columns said once

enum kind { END, TEXT, QUANTITY, SHARE, BYTES, NUMBER, COUNT, ERROR_OF, BF16_OR_NOT, VERDICT, PAIRED, CACHED };

struct column {
    const char *title, *path;
    enum kind kind;
    char origin; // of its numbers; 0: of none
    int rank;    // as of table_column
};

#define SPREAD                                                                                                         \
    {"first", "first", QUANTITY, 'M', 4}, {"p50", "time.p50", QUANTITY, 'M', 0},                                       \
        {"spread", "time.mad", QUANTITY, 'M', 2},                                                                      \
    {                                                                                                                  \
        "samples", "time.n", COUNT, 0, 5                                                                               \
    }
#define SHARES                                                                                                         \
    {"MFU", "mfu_sheet", SHARE, 'D', 1}, {"of calibrated", "mfu_calibrated", SHARE, 'D', 1},                           \
    {                                                                                                                  \
        NULL, NULL, END, 0, 0                                                                                          \
    }

static const struct column products[] = {{"product", "product", TEXT, 0, 0},
                                         {"compile", "compile", QUANTITY, 'M', 4},
                                         SPREAD,
                                         {"rate", "rate", QUANTITY, 'M', 0},
                                         {"of the sheet", "of_sheet", SHARE, 'D', 1},
                                         {"error", "error", ERROR_OF, 'M', 1},
                                         {"", "implausible", BF16_OR_NOT, 0, 1},
                                         {NULL, NULL, END, 0, 0}};

static const struct column serving[] = {{"request", "stage", TEXT, 0, 0},
                                        {"compile", "compile", QUANTITY, 'M', 3},
                                        {"load", "staging.time", QUANTITY, 'M', 3},
                                        SPREAD,
                                        {"images/s", "images_per_s.value", NUMBER, 'M', 0},
                                        SHARES};

static const struct column staging[] = {{"request", "stage", TEXT, 0, 0},
                                        {"mapped", "staging.mapped_bytes", BYTES, 'M', 1},
                                        {"copied", "staging.copied_bytes", BYTES, 'M', 1},
                                        {"time", "staging.time", QUANTITY, 'M', 0},
                                        {"rate", "staging.rate", QUANTITY, 'M', 0},
                                        {"disk floor", "staging.floor_disk", QUANTITY, 'D', 1},
                                        {"PCIe floor", "staging.floor_pcie", QUANTITY, 'D', 2},
                                        {"memory floor", "staging.floor_memory", QUANTITY, 'D', 1},
                                        {"cached before", "staging.page_cache", CACHED, 'M', 2},
                                        {NULL, NULL, END, 0, 0}};

static const struct column memory[] = {{"request", "stage", TEXT, 0, 0},
                                       {"in use", "memory.in_use", QUANTITY, 'M', 0},
                                       {"limit", "memory.limit", QUANTITY, 'M', 0},
                                       {"weights", "memory.weights", BYTES, 'D', 1},
                                       {"inputs", "memory.inputs", BYTES, 'D', 2},
                                       {"unattributed", "memory.unattributed", QUANTITY, 'D', 0},
                                       {"process at most", "memory.process_peak", QUANTITY, 'M', 1},
                                       {NULL, NULL, END, 0, 0}};

static const struct column modules[] = {{"module", "module", TEXT, 0, 0},
                                        {"runs", "runs_per_request", COUNT, 0, 2},
                                        {"compile", "compile", QUANTITY, 'M', 3},
                                        {"load", "load", QUANTITY, 'M', 4},
                                        SPREAD,
                                        {"rate", "rate", QUANTITY, 'M', 1},
                                        SHARES};

static const struct column floors[] = {{"module", "module", TEXT, 0, 0},
                                       {"p50", "time.p50", QUANTITY, 'M', 0},
                                       {"floor by sheet", "floors.sheet.single_merged", QUANTITY, 'D', 1},
                                       {"calibrated floor", "floors.calibrated.single_merged", QUANTITY, 'D', 2},
                                       {"predicted", "predicted", QUANTITY, 'D', 0},
                                       {"measured by predicted", "ratio", QUANTITY, 'D', 0},
                                       {"verdict", "verdict", VERDICT, 0, 0},
                                       {NULL, NULL, END, 0, 0}};

static void verdict_cell(struct table *t, const char *verdict)
{
    table_cell(t, verdict);
    table_style(t, strcmp(verdict, "within the band") == 0 ? TABLE_GOOD
                   : strcmp(verdict, "not predicted") == 0 ? TABLE_DIM
                                                           : TABLE_WARN);
}

// Of the samples of the same rounds; there are none of two records.
static void paired_cell(struct table *t, const char *verdict)
{
    table_cell(t, verdict ? verdict : "no pairs");
    table_style(t, !verdict                         ? TABLE_DIM
                   : strcmp(verdict, "faster") == 0 ? TABLE_GOOD
                   : strcmp(verdict, "same") == 0   ? TABLE_PLAIN
                                                    : TABLE_WARN);
}

static void fill_cell(struct table *t, const struct column *c, const json_t *row)
{
    char text[48];
    struct quantity q = doc_quantity(row, c->path);
    double in = doc_number(doc_at(row, c->path), "in_memory"), of = doc_number(doc_at(row, c->path), "bytes");
    switch (c->kind) {
    case QUANTITY:
        table_quantity(t, q);
        break;
    case SHARE:
        table_quantity(t, quantity_make(100 * q.value, "%", q.origin, q.source));
        break;
    case BYTES:
        table_quantity(t, quantity_make(doc_number(row, c->path), "B", ORIGIN_MEASURED, NULL));
        break;
    case NUMBER:
        table_number(t, doc_number(row, c->path), NULL);
        break;
    case COUNT:
        table_count(t, doc_number(row, c->path));
        break;
    case ERROR_OF:
        snprintf(text, sizeof text, "%.1e", q.value);
        table_number(t, q.value, text);
        break;
    case CACHED:
        table_quantity(t,
                       quantity_make(100 * in / of, "%", ORIGIN_MEASURED, doc_text(doc_at(row, c->path), "why", NULL)));
        break;
    case BF16_OR_NOT:
        table_cell(t, json_is_true(doc_at(row, c->path)) ? "bf16, not f32" : "");
        table_style(t, TABLE_WARN);
        break;
    case PAIRED:
        paired_cell(t, doc_text(row, c->path, NULL));
        break;
    case VERDICT:
        verdict_cell(t, doc_text(row, c->path, ""));
        break;
    default:
        table_cell(t, doc_text(row, c->path, ""));
    }
}

static void fill_rows(struct table *t, const struct column *columns, const char *list, const json_t *result)
{
    for (const struct column *c = columns; c->title; c++) {
        table_column(t, c->title, NULL,
                     c->kind == TEXT || c->kind == VERDICT || c->kind == PAIRED ? TABLE_LEFT : TABLE_RIGHT, c->rank);
        if (c->origin)
            table_origin(t, c->origin);
    }
    for (size_t i = 0; i < doc_count(result, list); i++) {
        table_row(t);
        for (const struct column *c = columns; c->title; c++)
            fill_cell(t, c, doc_item(result, list, i));
    }
}

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
        table_quantity(t, doc_quantity(result, rows[i].path));
    }
}

// ---- traced runs, of whatever was timed

struct timed_list {
    const char *path, *kind, *name; // of the list, of its elements, and where in them their name is
};
static const struct timed_list timed_lists[] = {
    {"calib.runs", "product", "product"}, {"serving", "request", "stage"}, {"modules", "module", "module"}};
enum { TIMED_LISTS = sizeof timed_lists / sizeof *timed_lists };

static bool is_traced(const json_t *result)
{
    for (size_t k = 0; k < TIMED_LISTS; k++) {
        for (size_t i = 0; i < doc_count(result, timed_lists[k].path); i++) {
            if (json_is_object(doc_at(doc_item(result, timed_lists[k].path, i), "trace")))
                return true;
        }
    }
    return false;
}

static void percent_cell(struct table *t, const json_t *of, const char *path)
{
    struct quantity q = doc_quantity(of, path);
    table_quantity(t, quantity_make(100 * q.value, "%", q.origin, q.source));
}

static void traced_row(struct table *t, const char *name, const json_t *of)
{
    table_row(t);
    table_cell(t, name);
    table_quantity(t, doc_quantity(of, "time.p50"));
    table_quantity(t, doc_quantity(of, "trace.traced"));
    percent_cell(t, of, "trace.overhead");
    table_quantity(t, doc_quantity(of, "trace.device_busy"));
    percent_cell(t, of, "trace.device_share");
    percent_cell(t, of, "trace.host_share");
    table_quantity(t, doc_quantity(of, "trace.idle_between"));
    table_count(t, doc_number(of, "trace.programs"));
}

static void fill_traces(struct table *t, const json_t *result)
{
    static const struct {
        const char *title;
        enum origin origin;
        int rank;
    } columns[] = {{"p50", ORIGIN_MEASURED, 2},         {"traced", ORIGIN_MEASURED, 1}, {"by p50", ORIGIN_DERIVED, 3},
                   {"device busy", ORIGIN_MEASURED, 0}, {"device", ORIGIN_DERIVED, 0},  {"host", ORIGIN_DERIVED, 0},
                   {"idle between", ORIGIN_MEASURED, 1}};
    table_column(t, "traced run", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        table_column(t, columns[i].title, NULL, TABLE_RIGHT, columns[i].rank);
        table_origin(t, columns[i].origin);
    }
    table_column(t, "programs", NULL, TABLE_RIGHT, 4);
    for (size_t k = 0; k < TIMED_LISTS; k++) {
        for (size_t i = 0; i < doc_count(result, timed_lists[k].path); i++) {
            const json_t *of = doc_item(result, timed_lists[k].path, i);
            if (json_is_object(doc_at(of, "trace")))
                traced_row(t, doc_text(of, timed_lists[k].name, ""), of);
        }
    }
}

static void operation_rows(struct table *t, const char *name, const json_t *trace)
{
    for (size_t i = 0; i < doc_count(trace, "operations"); i++) {
        const json_t *o = doc_item(trace, "operations", i);
        table_row(t);
        table_cell(t, name);
        table_cell(t, doc_text(o, "program", ""));
        table_cell(t, doc_text(o, "operation", ""));
        table_cell(t, doc_text(o, "category", ""));
        table_count(t, doc_number(o, "runs"));
        table_quantity(t, doc_quantity(o, "time"));
        percent_cell(t, o, "share");
    }
}

// Of requests and modules: a product is its own operation.
static void fill_operations(struct table *t, const json_t *result)
{
    table_column(t, "traced run", NULL, TABLE_LEFT, 0);
    table_column(t, "program", NULL, TABLE_LEFT, 1);
    table_column(t, "operation", NULL, TABLE_LEFT, 0);
    table_column(t, "category", NULL, TABLE_LEFT, 3);
    table_column(t, "runs", NULL, TABLE_RIGHT, 2);
    table_column(t, "time", NULL, TABLE_RIGHT, 0);
    table_origin(t, ORIGIN_MEASURED);
    table_column(t, "share", NULL, TABLE_RIGHT, 1);
    table_origin(t, ORIGIN_DERIVED);
    for (size_t k = 1; k < TIMED_LISTS; k++) {
        for (size_t i = 0; i < doc_count(result, timed_lists[k].path); i++) {
            const json_t *of = doc_item(result, timed_lists[k].path, i);
            operation_rows(t, doc_text(of, timed_lists[k].name, ""), doc_at(of, "trace"));
        }
    }
}

// ---- the whole

static void about(struct str *s, const json_t *result)
{
    str_addf(s, "%s, %.0f x %.0f, ", doc_text(result, "model", "?"), doc_number(result, "width"),
             doc_number(result, "height"));
    if (doc_number(result, "batch") > 1)
        str_addf(s, "%.0f at once, ", doc_number(result, "batch"));
    double steps = doc_number(result, "steps");
    str_addf(s, "%.0f step%s, %.0f text tokens, %s, %s, ", steps, steps == 1 ? "" : "s",
             doc_number(result, "text_tokens"), doc_text(result, "policy", "?"), doc_text(result, "device", "?"));
    double threads = doc_number(result, "threads");
    if (threads > 0)
        str_addf(s, "%.0f thread%s, ", threads, threads == 1 ? "" : "s");
    char bytes[FORMAT_MAX];
    format_si(bytes, doc_number(result, "weights.bytes"), "B");
    str_addf(s, "%s of %sweights", bytes, json_is_true(doc_at(result, "weights.random")) ? "random " : "");
}

static void not_measured(struct str *s, const json_t *product)
{
    str_addf(s, "no product of %s: %s", doc_text(product, "product", "?"), doc_text(product, "why", "?"));
}

static void kernels_line(struct str *s, const json_t *result)
{
    const char *with = doc_text(result, "kernels.with", NULL), *absent = doc_text(result, "kernels.absent", NULL);
    json_t *calls = (json_t *)(uintptr_t)doc_at(result, "kernels.calls");
    size_t n = 0;
    for (void *i = json_object_iter(calls); i; i = json_object_iter_next(calls, i))
        str_addf(s, "%s%" JSON_INTEGER_FORMAT " %s", n++ ? ", " : "", json_integer_value(json_object_iter_value(i)),
                 json_object_iter_key(i));
    if (absent)
        str_addf(s, "none (%s)", absent);
    else if (with)
        str_addf(s, n ? " (%s)" : "none of use here (%s)", with);
    else
        str_add(s, "not asked for");
}

// Empty where all layers are written out. All steps are runs of one step, which has its own row.
static void layers_line(struct str *s, const json_t *result)
{
    for (size_t i = 0; i < doc_count(result, "modules"); i++) {
        const json_t *m = doc_item(result, "modules", i);
        const char *name = doc_text(m, "module", "?");
        double layers = doc_number(m, "loops.layers");
        if (layers > 0 && strncmp(name, "all steps", 9) != 0)
            str_addf(s, "%s%.0f of the %s", s->length ? ", " : "layers as loops: ", layers, name);
    }
}

// Whether there is a figure of the chip, or of what was measured of it.
static bool has_figures(const json_t *result)
{
    static const char *const any[] = {"chip.figures.peaks.bf16", "chip.figures.peaks.f32", "chip.figures.bandwidth",
                                      "calibrated.figures.bandwidth"};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
        if (!isnan(doc_quantity(result, any[i]).value))
            return true;
    }
    return false;
}

struct section {
    const char *title, *about;
    page_fill *fill;                     // else a row for each element of the list
    const struct column *columns;        // of these
    const char *list;                    // without elements the section is left out
    bool (*there)(const json_t *result); // else it is left out where this says so
};

static const struct section sections[] = {
    {"What one device can do", "Published, and measured in this run or by `assay bench --calibrate`.", fill_chip, NULL,
     NULL, has_figures},
    {"Plain products",
     "Operands are arguments. The error is that of the elements that were scored against sums in f64; those of int8 "
     "are "
     "compared with sums in int64. Rates count 2 n^3.",
     NULL, products, "calib.runs", NULL},
    {"Requests",
     "From tokens to the image on the host. Cold contains compilation and loading, staged contains loading: neither "
     "gives a share of a peak. The first request is apart.",
     NULL, serving, "serving", NULL},
    {"Loading of the weights", "The floors are the same bytes at the rate of the disk, of PCIe, of the memory.", NULL,
     staging, "serving", NULL},
    {"Memory of the device", "Behind the last request.", NULL, memory, "serving", NULL},
    {"Modules",
     "Each by itself, again and again on inputs that are on the device; compilation, loading and the first run are "
     "apart. MFU is arithmetic at the published peak by the time, beside it the same by the product measured here.",
     NULL, modules, "modules", NULL},
    {"Modules beside their floors",
     "A floor is the longer of arithmetic and memory. The prediction adds the calibrated floors of a module's parts; a "
     "time within 1.5 of it is within the band.",
     NULL, floors, "modules", NULL},
    {"The whole and its parts", NULL, fill_sums, NULL, "serving", NULL},
    {"Device and host",
     "Of one more run of each, traced, behind all samples: its time is in none of them. The device's share is the time "
     "that it was busy by the untraced p50, the host's share is the rest. Idle is from the end of one program to the "
     "start of the next. Without a profiler in the plugin a device is busy from a program's dispatch to its "
     "completion.",
     fill_traces, NULL, NULL, is_traced},
    {"Where the device's time went",
     "The operations of each traced run that took most, by their own time; share is of all operations of the run.",
     fill_operations, NULL, NULL, is_traced},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

static bool is_there(const struct section *s, const json_t *result)
{
    return s->list ? doc_count(result, s->list) > 0 : s->there(result);
}

static int print_section(const struct page *p, const struct section *s, const json_t *result, enum table_format format,
                         struct error *err)
{
    struct table t;
    if (s->fill)
        return page_table(p, s->fill, result, format, err);
    table_init(&t);
    fill_rows(&t, s->columns, s->list, result);
    int rc = table_print(&t, p->out, format, p->width, p->color, err);
    table_release(&t);
    return rc;
}

static int text_sections(const struct page *p, const struct section *list, const json_t *result, struct error *err)
{
    int rc = 0;
    for (const struct section *s = list; s->title && !rc; s++) {
        if (!is_there(s, result))
            continue;
        str_add_char(p->out, '\n');
        page_paragraph(p, PAGE_BOLD, "", s->title);
        rc = print_section(p, s, result, TABLE_TEXT, err);
    }
    return rc;
}

static int page_sections(struct str *out, const struct section *list, const json_t *result, enum table_format format,
                         struct error *err)
{
    const struct page p = {.out = out};
    int rc = 0;
    for (const struct section *s = list; s->title && !rc; s++) {
        if (!is_there(s, result))
            continue;
        page_title(out, format, 2, s->title);
        if (s->about)
            page_sentence(out, format, "about", s->about);
        rc = print_section(&p, s, result, format, err);
    }
    return rc ? rc : str_check(out, err);
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
    str_clear(&s);
    layers_line(&s, result);
    if (s.length)
        page_paragraph(&p, NULL, "", str_text(&s));
    str_release(&s);
    int rc = text_sections(&p, sections, result, err);
    for (size_t i = 0; i < doc_count(result, "calib.not_measured") && !rc; i++) {
        str_init(&s);
        not_measured(&s, doc_item(result, "calib.not_measured", i));
        page_paragraph(&p, PAGE_DIM, "", str_text(&s));
        str_release(&s);
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
    struct str s;
    str_init(&s);
    about(&s, result);
    page_sentence(out, format, "about", str_text(&s));
    str_clear(&s);
    str_add(&s, "kernels: ");
    kernels_line(&s, result);
    page_sentence(out, format, "about", str_text(&s));
    str_clear(&s);
    layers_line(&s, result);
    if (s.length)
        page_sentence(out, format, "about", str_text(&s));
    for (size_t i = 0; i < doc_count(result, "calib.not_measured"); i++) {
        str_clear(&s);
        not_measured(&s, doc_item(result, "calib.not_measured", i));
        page_sentence(out, format, "about", str_text(&s));
    }
    str_release(&s);
    for (size_t i = 0; i < doc_count(result, "warnings"); i++)
        page_sentence(out, format, "warn", doc_item_text(result, "warnings", i));
    return page_sections(out, sections, result, format, err);
}

static const struct page_report whole = {"Stages", result_of, body};

int report_stages_markdown(struct str *out, const json_t *doc, struct error *err)
{
    return page_markdown(out, &whole, doc, err);
}

int report_stages_html(struct str *out, const json_t *doc, const char *sha256, struct error *err)
{
    return page_html(out, &whole, doc, sha256, err);
}

// ---- two of them

static const struct column two_products[] = {{"product", "name", TEXT, 0, 0},
                                             {"A", "a", QUANTITY, 'M', 0},
                                             {"B", "b", QUANTITY, 'M', 0},
                                             {"speed-up", "speedup", QUANTITY, 'D', 0},
                                             {"at least", "speedup_low", QUANTITY, 'D', 2},
                                             {"at most", "speedup_high", QUANTITY, 'D', 2},
                                             {"B is", "paired.verdict", PAIRED, 0, 1},
                                             {NULL, NULL, END, 0, 0}};

static const struct column two_rows[] = {{"", "name", TEXT, 0, 0},
                                         {"A", "a", QUANTITY, 'M', 1},
                                         {"B", "b", QUANTITY, 'M', 1},
                                         {"speed-up", "speedup", QUANTITY, 'D', 0},
                                         {"at least", "speedup_low", QUANTITY, 'D', 3},
                                         {"at most", "speedup_high", QUANTITY, 'D', 3},
                                         {"B is", "paired.verdict", PAIRED, 0, 0},
                                         {"by products", "speedup_by_expected", QUANTITY, 'D', 1},
                                         {"levels at most", "parity.levels_max", QUANTITY, 'M', 1},
                                         {"on average", "parity.levels_mean", QUANTITY, 'M', 2},
                                         {"PSNR", "parity.psnr", QUANTITY, 'M', 2},
                                         {"SNR", "parity.snr", QUANTITY, 'M', 0},
                                         {NULL, NULL, END, 0, 0}};

static const struct section two[] = {
    {"Plain products", "Rates of both, and the speed-up of B over A.", NULL, two_products, "products", NULL},
    {"Head to head",
     "Speed-ups are of B over A; beside them the same divided by what the plain products of both let expect of the "
     "arithmetic. Images are compared in levels of 255, all outputs as signal to noise, A being the signal.",
     NULL, two_rows, "rows", NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

static const json_t *two_of(const json_t *doc, struct error *err)
{
    const json_t *result = doc_at(doc, "result");
    if (!json_is_array(doc_at(result, "rows")) || !json_is_object(doc_at(result, "a"))) {
        error_set(err, ERR_INPUT, "result", "is not of two runs: it has no rows and no a");
        return NULL;
    }
    return result;
}

static void side_line(struct str *s, const json_t *side, const char *letter)
{
    double threads = doc_number(side, "threads");
    str_addf(s, "%s: %s, %s, %s", letter, doc_text(side, "name", "?"), doc_text(side, "device", "?"),
             doc_text(side, "policy", "?"));
    if (threads > 0)
        str_addf(s, ", %.0f thread%s", threads, threads == 1 ? "" : "s");
}

// What stands above the tables: both sides, and how their samples were taken.
enum { TWO_LINES = 3 };
static void two_line(struct str *s, const json_t *result, int i)
{
    str_clear(s);
    if (i < 2)
        side_line(s, doc_at(result, i ? "b" : "a"), i ? "B" : "A");
    else if (json_is_true(doc_at(result, "order.in_turns")))
        str_add(s,
                "in turns: samples in rounds A B, B A, ...; a speed-up is of the samples of one round, with the exact "
                "interval of its median");
    else
        str_addf(s, "not in turns, since %s: a speed-up is of both medians, with what their intervals allow",
                 doc_text(result, "order.why", "nobody says why"));
}

int report_stages_compare_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err)
{
    const json_t *result = two_of(doc, err);
    struct page p = {out, width, color};
    struct str s;
    if (!result)
        return ERR_INPUT;
    str_init(&s);
    for (int i = 0; i < TWO_LINES; i++) {
        two_line(&s, result, i);
        page_paragraph(&p, i < 2 ? PAGE_BOLD : NULL, "", str_text(&s));
    }
    str_release(&s);
    int rc = text_sections(&p, two, result, err);
    return rc ? rc : str_check(out, err);
}

static int two_body(struct str *out, const json_t *result, enum table_format format, struct error *err)
{
    struct str s;
    str_init(&s);
    for (int i = 0; i < TWO_LINES; i++) {
        two_line(&s, result, i);
        page_sentence(out, format, "about", str_text(&s));
    }
    str_release(&s);
    return page_sections(out, two, result, format, err);
}

static const struct page_report whole_of_two = {"Head to head", two_of, two_body};

int report_stages_compare_markdown(struct str *out, const json_t *doc, struct error *err)
{
    return page_markdown(out, &whole_of_two, doc, err);
}

int report_stages_compare_html(struct str *out, const json_t *doc, const char *sha256, struct error *err)
{
    return page_html(out, &whole_of_two, doc, sha256, err);
}

// ---- every sample, and behind them what the traced runs show

static void csv_number(struct table *t, double value)
{
    if (isnan(value))
        table_cell(t, "");
    else
        table_number(t, value, NULL);
}

static void csv_row(struct table *t, const char *const texts[2], const char *what, double ms, double percent)
{
    table_row(t);
    table_cell(t, texts[0]);
    table_cell(t, texts[1]);
    table_cell(t, what);
    csv_number(t, ms);
    csv_number(t, percent);
}

static void add_samples(struct table *t, const char *const texts[2], const json_t *of)
{
    struct arena a;
    const double *ns;
    char number[32];
    arena_init(&a);
    size_t n = doc_samples(of, "samples_ns", &a, &ns);
    for (size_t i = 0; i < n; i++) {
        snprintf(number, sizeof number, "%zu", i + 1);
        csv_row(t, texts, number, ns[i] * 1e-6, NAN);
    }
    arena_release(&a);
}

static void add_trace(struct table *t, const char *const texts[2], const json_t *of)
{
    static const struct {
        const char *what, *ms, *share;
    } rows[] = {{"traced run", "trace.traced", "trace.overhead"},
                {"device busy", "trace.device_busy", "trace.device_share"},
                {"host", NULL, "trace.host_share"},
                {"idle between programs", "trace.idle_between", NULL}};
    char what[160];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        csv_row(t, texts, rows[i].what, rows[i].ms ? doc_quantity(of, rows[i].ms).value : NAN,
                rows[i].share ? 100 * doc_quantity(of, rows[i].share).value : NAN);
    for (size_t i = 0; i < doc_count(of, "trace.operations"); i++) {
        const json_t *o = doc_item(of, "trace.operations", i);
        snprintf(what, sizeof what, "operation %s of %s", doc_text(o, "operation", ""), doc_text(o, "program", ""));
        csv_row(t, texts, what, doc_quantity(o, "time").value, 100 * doc_quantity(o, "share").value);
    }
}

static void fill_samples(struct table *t, const json_t *result)
{
    bool traced = is_traced(result);
    table_column(t, "kind", NULL, TABLE_LEFT, 0);
    table_column(t, "name", NULL, TABLE_LEFT, 0);
    table_column(t, "sample", NULL, TABLE_LEFT, 0);
    table_column(t, "time", "ms", TABLE_RIGHT, 0);
    table_column(t, "share", "%", TABLE_RIGHT, 0);
    for (size_t k = 0; k < TIMED_LISTS; k++) {
        const struct timed_list *l = &timed_lists[k];
        for (size_t i = 0; i < doc_count(result, l->path); i++) {
            const json_t *of = doc_item(result, l->path, i);
            const char *const texts[] = {l->kind, doc_text(of, l->name, "")};
            add_samples(t, texts, of);
        }
        for (size_t i = 0; i < doc_count(result, l->path) && traced; i++) {
            const json_t *of = doc_item(result, l->path, i);
            const char *const texts[] = {l->kind, doc_text(of, l->name, "")};
            if (json_is_object(doc_at(of, "trace")))
                add_trace(t, texts, of);
        }
    }
}

int report_stages_csv(struct str *out, const json_t *doc, struct error *err)
{
    const json_t *result = result_of(doc, err);
    return result ? page_table(&(struct page){.out = out}, fill_samples, result, TABLE_CSV, err) : ERR_INPUT;
}

// What is compared, a line for each: products by their rates, the rest by its times.
static void fill_compared(struct table *t, const json_t *result)
{
    static const char *const lists[] = {"products", "rows"};
    static const struct {
        const char *title, *path;
    } numbers[] = {{"A", "a"},
                   {"B", "b"},
                   {"speed-up", "speedup"},
                   {"at least", "speedup_low"},
                   {"at most", "speedup_high"},
                   {"by products", "speedup_by_expected"},
                   {"levels at most", "parity.levels_max"},
                   {"levels on average", "parity.levels_mean"},
                   {"PSNR dB", "parity.psnr"},
                   {"SNR dB", "parity.snr"}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    table_column(t, "kind", NULL, TABLE_LEFT, 0);
    table_column(t, "name", NULL, TABLE_LEFT, 0);
    table_column(t, "unit", NULL, TABLE_LEFT, 0);
    for (size_t k = 0; k < NUMBERS; k++)
        table_column(t, numbers[k].title, NULL, TABLE_RIGHT, 0);
    table_column(t, "B is", NULL, TABLE_LEFT, 0);
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; i < doc_count(result, lists[l]); i++) {
            const json_t *row = doc_item(result, lists[l], i);
            table_row(t);
            table_cell(t, doc_text(row, "kind", "product"));
            table_cell(t, doc_text(row, "name", ""));
            table_cell(t, doc_text(row, "a.unit", ""));
            for (size_t k = 0; k < NUMBERS; k++)
                csv_number(t, doc_quantity(row, numbers[k].path).value);
            table_cell(t, doc_text(row, "paired.verdict", ""));
        }
    }
}

int report_stages_compare_csv(struct str *out, const json_t *doc, struct error *err)
{
    const json_t *result = two_of(doc, err);
    return result ? page_table(&(struct page){.out = out}, fill_compared, result, TABLE_CSV, err) : ERR_INPUT;
}
