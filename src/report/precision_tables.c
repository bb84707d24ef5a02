// SPDX-License-Identifier: Apache-2.0
#include "report/precision_tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/format.h"

enum { MAX_SECTIONS = 64, MAX_AGAINST = 4, MAX_FACTS = 16 };

const json_t *precision_show_result(const json_t *doc, struct error *err)
{
    const char *schema = doc_text(doc, "schema", "");
    const json_t *result = doc_at(doc, "result");
    if (strcmp(schema, "assay.precision/1") != 0) {
        error_set(err, ERR_INPUT, "schema", "\"%.80s\" is not \"assay.precision/1\"", schema);
        return NULL;
    }
    if (!json_is_object(result)) {
        error_set(err, ERR_INPUT, "result", "the document has no result");
        return NULL;
    }
    return result;
}

// ---- names that occur among the cases, in order of first use

struct names {
    const char *list[MAX_SECTIONS];
    size_t n;
};

static void add_name(struct names *names, const char *name, size_t max)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->list[i], name) == 0)
            return;
    }
    if (names->n < max)
        names->list[names->n++] = name;
}

static void sections_of(const json_t *suite, struct names *names)
{
    names->n = 0;
    for (size_t i = 0; i < doc_count(suite, "cases"); i++)
        add_name(names, doc_text(doc_item(suite, "cases", i), "section", ""), MAX_SECTIONS);
}

size_t precision_show_sections(const json_t *suite)
{
    struct names names;
    sections_of(suite, &names);
    return names.n;
}

const char *precision_show_section(const json_t *suite, size_t i)
{
    struct names names;
    sections_of(suite, &names);
    return i < names.n ? names.list[i] : "";
}

static void against_of(const json_t *suite, const char *section, struct names *names)
{
    names->n = 0;
    for (size_t i = 0; i < doc_count(suite, "cases"); i++) {
        const json_t *c = doc_item(suite, "cases", i);
        for (size_t k = 0; k < doc_count(c, "measures") && precision_show_belongs(c, section); k++)
            add_name(names, doc_text(doc_item(c, "measures", k), "against", ""), MAX_AGAINST);
    }
}

const char *precision_show_against(const json_t *suite, const char *section)
{
    struct names names;
    against_of(suite, section, &names);
    return names.n == 1 ? names.list[0] : NULL;
}

size_t precision_show_failed(const json_t *suite)
{
    size_t failed = 0;
    for (size_t i = 0; i < doc_count(suite, "checks"); i++)
        failed += !json_is_true(doc_at(doc_item(suite, "checks", i), "ok"));
    return failed;
}

void precision_show_verdict(struct str *out, const json_t *suite)
{
    size_t n = doc_count(suite, "checks"), failed = precision_show_failed(suite);
    if (failed)
        str_addf(out, "%zu of %zu check%s NOT hold", failed, n, n == 1 ? " does" : failed == 1 ? "s does" : "s do");
    else if (n == 1)
        str_add(out, "the check holds");
    else if (n)
        str_addf(out, "all %zu checks hold", n);
}

// ---- cases

// What the cases of a section have: a column is there when a case has something in it.
struct columns {
    const json_t *suite;
    const char *section;
    struct names against, facts;
    bool policy, input, stored, clipped, texts;
    int measures;
};

static const char *const policy_fields[5] = {"w", "a", "op", "acc", "out"};

static void find_columns(struct columns *columns, const json_t *suite, const char *section)
{
    memset(columns, 0, sizeof *columns);
    columns->suite = suite;
    columns->section = section;
    against_of(suite, section, &columns->against);
    for (size_t i = 0; i < doc_count(suite, "cases"); i++) {
        const json_t *c = doc_item(suite, "cases", i);
        const char *key;
        json_t *value;
        if (!precision_show_belongs(c, section))
            continue;
        columns->input |= doc_text(c, "input", NULL) != NULL;
        columns->stored |= json_is_object(doc_at(c, "stored"));
        columns->clipped |= isfinite(doc_number(c, "clipped"));
        columns->policy |= json_is_object(doc_at(c, "policy"));
        json_object_foreach((json_t *)doc_at(c, "facts"), key, value)
        {
            (void)value;
            add_name(&columns->facts, key, MAX_FACTS);
        }
    }
}

// The measure of a case against one reference; NULL when it has none.
static const json_t *measure_of(const json_t *c, const char *against)
{
    for (size_t i = 0; i < doc_count(c, "measures"); i++) {
        const json_t *m = doc_item(c, "measures", i);
        if (strcmp(doc_text(m, "against", ""), against) == 0)
            return m;
    }
    return NULL;
}

static const struct {
    const char *key, *title;
    int rank;
} measures[] = {{"max_abs", "max", 0}, {"mean_abs", "mean", 0}, {"rel_l2", "rel L2", 1}, {"snr_db", "SNR", 4}};
enum { MEASURES = sizeof measures / sizeof *measures };

// Facts that are texts stand last, or under the table.
static bool is_text(const struct columns *columns, const char *name)
{
    for (size_t i = 0; i < doc_count(columns->suite, "cases"); i++) {
        const json_t *c = doc_item(columns->suite, "cases", i);
        if (precision_show_belongs(c, columns->section) && json_is_string(json_object_get(doc_at(c, "facts"), name)))
            return true;
    }
    return false;
}

static void head_cases(struct table *t, const struct columns *columns)
{
    char title[128];
    table_column(t, "case", NULL, TABLE_LEFT, 0);
    if (columns->input)
        table_column(t, "input", NULL, TABLE_LEFT, 1);
    if (!columns->against.n && !columns->facts.n && !columns->stored && !columns->clipped)
        table_column(t, "result", NULL, TABLE_LEFT, 0); // for those that failed, at least
    for (size_t i = 0; i < columns->against.n; i++) {
        for (int k = 0; k < columns->measures; k++) {
            bool one = columns->against.n == 1;
            snprintf(title, sizeof title, "%s%s%.80s", measures[k].title, one ? "" : ", ",
                     one ? "" : columns->against.list[i]);
            table_column(t, title, strcmp(measures[k].key, "snr_db") == 0 ? "dB" : NULL, TABLE_RIGHT,
                         measures[k].rank + (i ? 2 : 0));
        }
    }
    for (size_t i = 0; i < columns->facts.n; i++) {
        if (!is_text(columns, columns->facts.list[i]))
            table_column(t, columns->facts.list[i], NULL, TABLE_RIGHT, 2);
    }
    if (columns->stored) {
        table_column(t, "codes", "B", TABLE_RIGHT, 1);
        table_column(t, "scales", "B", TABLE_RIGHT, 1);
    }
    if (columns->clipped)
        table_column(t, "clipped", NULL, TABLE_RIGHT, 3);
    if (columns->policy)
        table_column(t, "policy", NULL, TABLE_LEFT, 3);
    for (size_t i = 0; i < columns->facts.n && columns->texts; i++) {
        if (is_text(columns, columns->facts.list[i]))
            table_column(t, columns->facts.list[i], NULL, TABLE_LEFT, 5);
    }
}

static void number_cell(struct table *t, struct quantity q)
{
    char text[FORMAT_MAX], hint[200];
    if (!q.source || !isfinite(q.value)) {
        table_null(t, NULL);
        if (q.source)
            table_hint(t, q.source);
        return;
    }
    format_number(text, q.value, 4);
    table_number(t, q.value, text);
    snprintf(hint, sizeof hint, "[%c] %.180s", (char)q.origin, q.source);
    table_hint(t, hint);
}

static void count_cell(struct table *t, double v)
{
    if (isfinite(v))
        table_count(t, v);
    else
        table_null(t, NULL);
}

static void bytes_cell(struct table *t, struct quantity q)
{
    char text[FORMAT_MAX], shown[FORMAT_MAX + 2];
    format_count(text, q.value);
    snprintf(shown, sizeof shown, "%s B", text);
    table_number(t, q.value, shown);
    if (q.source)
        table_hint(t, q.source);
}

// A whole number stands as one: codes and counts are exact.
static void fact_number(struct table *t, struct quantity q)
{
    if (!isfinite(q.value) || q.value != floor(q.value) || fabs(q.value) >= 1e15) {
        number_cell(t, q);
        return;
    }
    table_count(t, q.value);
    if (q.source)
        table_hint(t, q.source);
}

static void fact_cell(struct table *t, const json_t *c, const char *name, bool text)
{
    const json_t *fact = json_object_get(doc_at(c, "facts"), name);
    if (text)
        table_cell(t, json_is_string(fact) ? json_string_value(fact) : "");
    else if (strcmp(doc_text(fact, "unit", "1"), "1") == 0)
        fact_number(t, doc_quantity(fact, ""));
    else if (strcmp(doc_text(fact, "unit", ""), "B") == 0) // stands beside the stored bytes, which are exact
        bytes_cell(t, doc_quantity(fact, ""));
    else
        table_quantity(t, doc_quantity(fact, ""));
}

// As policies are spelled: "w=bf16,op=bf16,acc=f32".
static void policy_cell(struct table *t, const json_t *c)
{
    struct str s;
    str_init(&s);
    for (int k = 0; k < 5; k++) {
        char path[16];
        snprintf(path, sizeof path, "policy.%s", policy_fields[k]);
        if (doc_text(c, path, NULL))
            str_addf(&s, "%s%s=%s", s.length ? ", " : "", policy_fields[k], doc_text(c, path, ""));
    }
    table_cell(t, str_text(&s));
    str_release(&s);
}

static void row_case(struct table *t, const struct columns *columns, const json_t *c)
{
    table_row(t);
    table_cell(t, doc_text(c, "label", doc_text(c, "name", "")));
    if (columns->input)
        table_cell(t, doc_text(c, "input", ""));
    if (doc_text(c, "failure", NULL)) {
        struct str s;
        str_init(&s);
        str_addf(&s, "failed: %s", doc_text(c, "failure", ""));
        table_span(t, str_text(&s));
        table_style(t, TABLE_BAD);
        str_release(&s);
        return;
    }
    for (size_t i = 0; i < columns->against.n; i++) {
        for (int k = 0; k < columns->measures; k++)
            number_cell(t, doc_quantity(measure_of(c, columns->against.list[i]), measures[k].key));
    }
    for (size_t i = 0; i < columns->facts.n; i++) {
        if (!is_text(columns, columns->facts.list[i]))
            fact_cell(t, c, columns->facts.list[i], false);
    }
    if (columns->stored) {
        count_cell(t, doc_quantity(c, "stored.codes").value);
        count_cell(t, doc_quantity(c, "stored.scales").value);
    }
    if (columns->clipped)
        count_cell(t, doc_number(c, "clipped"));
    if (columns->policy)
        policy_cell(t, c);
    for (size_t i = 0; i < columns->facts.n && columns->texts; i++) {
        if (is_text(columns, columns->facts.list[i]))
            fact_cell(t, c, columns->facts.list[i], true);
    }
}

void precision_show_cases(struct table *t, const json_t *suite, const char *section, unsigned wanted)
{
    struct columns columns;
    find_columns(&columns, suite, section);
    columns.policy &= (wanted & SHOW_POLICY) != 0;
    columns.texts = (wanted & SHOW_TEXTS) != 0;
    columns.measures = wanted & SHOW_SNR || columns.against.n == 1 ? MEASURES : MEASURES - 1;
    head_cases(t, &columns);
    for (size_t i = 0; i < doc_count(suite, "cases"); i++) {
        if (precision_show_belongs(doc_item(suite, "cases", i), section))
            row_case(t, &columns, doc_item(suite, "cases", i));
    }
}

void precision_show_title(struct str *out, const json_t *c)
{
    const char *input = doc_text(c, "input", NULL);
    str_addf(out, "%s%s%s", doc_text(c, "label", ""), input ? ", " : "", input ? input : "");
}

void precision_show_texts(struct str *out, const json_t *c)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)doc_at(c, "facts"), key, value)
    {
        if (json_is_string(value))
            str_addf(out, "%s%s: %s", out->length ? "; " : "", key, json_string_value(value));
    }
}

bool precision_show_belongs(const json_t *c, const char *section)
{
    return strcmp(doc_text(c, "section", ""), section) == 0;
}

// ---- the rest

// A number is cut to the digits that can be compared.
static void got_cell(struct table *t, const json_t *check)
{
    const char *got = doc_text(check, "got", "");
    char *end, text[FORMAT_MAX];
    double v = strtod(got, &end);
    if (!isfinite(doc_number(check, "tolerance")) || end == got || *end || !isfinite(v) || v == floor(v)) {
        table_cell(t, got);
        return;
    }
    format_number(text, v, 6);
    table_cell(t, text);
    table_hint(t, got);
}

void precision_show_checks(struct table *t, const json_t *suite)
{
    table_column(t, "", NULL, TABLE_LEFT, 0);
    table_column(t, "check", NULL, TABLE_LEFT, 0);
    table_column(t, "expected", NULL, TABLE_RIGHT, 1);
    table_column(t, "got", NULL, TABLE_RIGHT, 0);
    table_column(t, "within", NULL, TABLE_RIGHT, 2);
    table_column(t, "shows", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < doc_count(suite, "checks"); i++) {
        const json_t *c = doc_item(suite, "checks", i);
        bool ok = json_is_true(doc_at(c, "ok"));
        double tolerance = doc_number(c, "tolerance");
        char text[FORMAT_MAX] = "";
        table_row(t);
        table_cell(t, ok ? "ok" : "NO");
        table_style(t, ok ? TABLE_GOOD : TABLE_BAD);
        table_cell(t, doc_text(c, "name", ""));
        table_cell(t, doc_text(c, "expected", ""));
        got_cell(t, c);
        if (isfinite(tolerance) && tolerance > 0)
            format_number(text, tolerance, 1);
        table_cell(t, isfinite(tolerance) && tolerance == 0 ? "0" : text);
        if (doc_text(c, "why", NULL))
            table_hint(t, doc_text(c, "why", ""));
        table_cell(t, doc_text(c, "shows", ""));
    }
}

void precision_show_inputs(struct table *t, const json_t *suite)
{
    table_column(t, "input", NULL, TABLE_LEFT, 0);
    table_column(t, "type and shape", NULL, TABLE_LEFT, 0);
    table_column(t, "made as", NULL, TABLE_LEFT, 1);
    table_column(t, "sha256", NULL, TABLE_LEFT, 2);
    for (size_t i = 0; i < doc_count(suite, "inputs"); i++) {
        const json_t *in = doc_item(suite, "inputs", i);
        struct str s;
        str_init(&s);
        str_addf(&s, "%s[", doc_text(in, "type", "?"));
        for (size_t k = 0; k < doc_count(in, "shape"); k++)
            str_addf(&s, "%s%.0f", k ? "," : "", json_number_value(doc_item(in, "shape", k)));
        str_add_char(&s, ']');
        table_row(t);
        table_cell(t, doc_text(in, "name", ""));
        table_cell(t, str_text(&s));
        table_cell(t, doc_text(in, "source", ""));
        table_cell(t, doc_text(in, "sha256", ""));
        str_release(&s);
    }
}

static void products_cell(struct table *t, const json_t *program)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < doc_count(program, "products"); i++)
        str_addf(&s, "%s%s", i ? "; " : "", doc_item_text(program, "products", i));
    table_cell(t, str_text(&s));
    str_release(&s);
}

void precision_show_programs(struct table *t, const json_t *suite)
{
    bool timed = false;
    for (size_t i = 0; i < doc_count(suite, "programs"); i++)
        timed |= json_is_object(doc_at(doc_item(suite, "programs", i), "time"));
    table_column(t, "program", NULL, TABLE_LEFT, 0);
    table_column(t, "compile", "ms", TABLE_RIGHT, 2);
    if (timed) {
        table_column(t, "p50", "us", TABLE_RIGHT, 0);
        table_column(t, "p90", "us", TABLE_RIGHT, 2);
        table_column(t, "samples", NULL, TABLE_RIGHT, 3);
    }
    table_column(t, "arguments", "B", TABLE_RIGHT, 3);
    table_column(t, "temporaries", "B", TABLE_RIGHT, 3);
    table_column(t, "products as compiled", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < doc_count(suite, "programs"); i++) {
        const json_t *p = doc_item(suite, "programs", i);
        table_row(t);
        table_cell(t, doc_text(p, "name", ""));
        table_number(t, doc_quantity(p, "compile_ms").value, NULL);
        if (timed) {
            table_number(t, doc_quantity(p, "time.summary.p50").value, NULL);
            table_number(t, doc_quantity(p, "time.summary.p90").value, NULL);
            count_cell(t, doc_number(p, "time.summary.n"));
        }
        count_cell(t, doc_quantity(p, "memory.arguments").value);
        count_cell(t, doc_quantity(p, "memory.temporaries").value);
        products_cell(t, p);
    }
}

void precision_show_table(struct table *t, const json_t *table)
{
    size_t n = doc_count(table, "columns");
    for (size_t k = 0; k < n; k++) {
        const json_t *c = doc_item(table, "columns", k);
        const char *unit = doc_text(c, "unit", NULL), *origin = doc_text(c, "origin", "");
        table_column(t, doc_text(c, "name", ""), unit && strcmp(unit, "1") != 0 ? unit : NULL,
                     unit ? TABLE_RIGHT : TABLE_LEFT,
                     k < 2   ? 0
                     : k < 6 ? 1
                             : 2);
        if (*origin)
            table_origin(t, *origin);
    }
    for (size_t i = 0; n && i < doc_count(table, "rows"); i++) {
        const json_t *row = doc_item(table, "rows", i);
        table_row(t);
        for (size_t k = 0; k < n && k < json_array_size(row); k++) {
            const json_t *cell = json_array_get(row, k);
            char text[FORMAT_MAX];
            double v = json_number_value(cell);
            if (json_is_string(cell)) {
                table_cell(t, json_string_value(cell));
            } else if (!json_is_number(cell)) {
                table_null(t, NULL);
            } else if (v == floor(v) && fabs(v) < 1e15) {
                table_count(t, v);
            } else {
                format_number(text, v, 5);
                table_number(t, v, text);
            }
        }
    }
}

static void fact_row(struct table *t, const char *name, const char *value)
{
    table_row(t);
    table_cell(t, name);
    table_cell(t, value);
}

void precision_show_facts(struct table *t, const json_t *doc)
{
    static const struct {
        const char *name, *path;
    } rows[] = {
        {"program", "assay"},
        {"record", "record"},
        {"device asked for", "result.device.requested"},
        {"device", "result.device.kind"},
        {"platform", "result.device.platform"},
        {"platform version", "result.device.platform_version"},
        {"plugin", "result.device.plugin"},
        {"plugin sha256", "result.device.plugin_sha256"},
        {"PJRT API", "result.device.pjrt_api"},
        {"CPU", "result.host.cpu.model"},
    };
    table_column(t, "fact", NULL, TABLE_LEFT, 0);
    table_column(t, "value", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (doc_text(doc, rows[i].path, NULL))
            fact_row(t, rows[i].name, doc_text(doc, rows[i].path, ""));
    }
    fact_row(t, "xla_allow_excess_precision",
             json_is_false(doc_at(doc, "result.excess_precision")) ? "false: what is asked for is what runs" : "true");
}

void precision_show_flat(struct table *t, const json_t *result)
{
    static const char *const texts[] = {"section", "name", "input"};
    table_column(t, "suite", NULL, TABLE_LEFT, 0);
    table_column(t, "section", NULL, TABLE_LEFT, 0);
    table_column(t, "case", NULL, TABLE_LEFT, 0);
    table_column(t, "input", NULL, TABLE_LEFT, 0);
    for (int k = 0; k < 5; k++)
        table_column(t, policy_fields[k], NULL, TABLE_LEFT, 0);
    table_column(t, "against", NULL, TABLE_LEFT, 0);
    for (int k = 0; k < MEASURES; k++)
        table_column(t, measures[k].key, NULL, TABLE_RIGHT, 0);
    table_column(t, "code_bytes", NULL, TABLE_RIGHT, 0);
    table_column(t, "scale_bytes", NULL, TABLE_RIGHT, 0);
    table_column(t, "clipped", NULL, TABLE_RIGHT, 0);
    table_column(t, "failure", NULL, TABLE_LEFT, 0);
    for (size_t s = 0; s < doc_count(result, "suites"); s++) {
        const json_t *suite = doc_item(result, "suites", s);
        for (size_t i = 0; i < doc_count(suite, "cases"); i++) {
            const json_t *c = doc_item(suite, "cases", i);
            size_t n = doc_count(c, "measures");
            for (size_t m = 0; m < n || m == 0; m++) {
                const json_t *measure = doc_item(c, "measures", m);
                char path[16];
                table_row(t);
                table_cell(t, doc_text(suite, "name", ""));
                for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
                    table_cell(t, doc_text(c, texts[k], ""));
                for (int k = 0; k < 5; k++) {
                    snprintf(path, sizeof path, "policy.%s", policy_fields[k]);
                    table_cell(t, doc_text(c, path, ""));
                }
                table_cell(t, doc_text(measure, "against", ""));
                for (int k = 0; k < MEASURES; k++)
                    table_number(t, doc_quantity(measure, measures[k].key).value, NULL);
                table_number(t, doc_quantity(c, "stored.codes").value, NULL);
                table_number(t, doc_quantity(c, "stored.scales").value, NULL);
                table_number(t, doc_number(c, "clipped"), NULL);
                table_cell(t, doc_text(c, "failure", ""));
            }
        }
    }
}
