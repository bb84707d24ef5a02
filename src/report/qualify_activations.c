// SPDX-License-Identifier: Apache-2.0
// The tables of a qualify document on quantised activations and on the products that really ran.
#include <math.h>
#include <string.h>

#include "report/format.h"
#include "report/qualify_tables.h"

// "24 f32 x f32 -> f32, 12 bf16 x bf16 -> f32"
static char *ran_text(struct table *t, const json_t *policy)
{
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < doc_count(policy, "products.ran"); i++) {
        const json_t *p = doc_item(policy, "products.ran", i);
        str_addf(&s, "%s%.0f %s x %s -> %s", i ? ", " : "", doc_number(p, "count"), doc_text(p, "lhs", "?"),
                 doc_text(p, "rhs", "?"), doc_text(p, "result", "?"));
    }
    char *copy = s.length ? arena_strdup(&t->arena, str_text(&s), &t->error) : NULL;
    str_release(&s);
    return copy;
}

void qualify_table_products(struct table *t, const json_t *result)
{
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    table_column(t, "operands asked for", NULL, TABLE_LEFT, 0);
    table_column(t, "products of the optimised program", NULL, TABLE_LEFT, 0);
    table_column(t, "remark", NULL, TABLE_LEFT, 0);
    for (size_t p = 0; p < qualify_policies(result); p++) {
        const json_t *policy = qualify_policy(result, p);
        const char *note = doc_text(policy, "products.note", "");
        if (qualify_failed(policy) || !json_is_object(doc_at(policy, "products")))
            continue;
        table_row(t);
        table_cell(t, qualify_policy_name(policy));
        table_cell(t, doc_text(policy, "products.asked", ""));
        char *ran = ran_text(t, policy);
        if (ran)
            table_cell(t, ran);
        else
            table_null(t, "the plugin does not hand out the optimised program");
        table_cell(t, note);
        if (*note)
            table_style(t, TABLE_WARN);
    }
}

static void rate_cell(struct table *t, double clipped, double values)
{
    char text[FORMAT_MAX];
    double rate = clipped / values;
    if (!isfinite(rate)) {
        table_null(t, "there is no value");
        return;
    }
    format_exponent(text, rate, 3);
    table_number(t, rate, text);
    table_style(t, rate > 0 ? TABLE_STRONG : TABLE_DIM);
}

static void number_cell(struct table *t, const json_t *o, const char *key)
{
    double v = doc_number(o, key);
    if (isfinite(v))
        table_number(t, v, NULL);
    else
        table_cell(t, "");
}

static void counts(struct table *t, const json_t *o)
{
    table_count(t, doc_number(o, "values"));
    table_count(t, doc_number(o, "clipped"));
    table_style(t, doc_number(o, "clipped") > 0 ? TABLE_STRONG : TABLE_DIM);
    rate_cell(t, doc_number(o, "clipped"), doc_number(o, "values"));
}

static void activation_row(struct table *t, const json_t *a)
{
    table_row(t);
    table_cell(t, "");
    table_cell(t, doc_text(a, "name", ""));
    counts(t, a);
    number_cell(t, a, "low");
    number_cell(t, a, "high");
    number_cell(t, a, "scale");
    if (isfinite(doc_number(a, "zero_point")))
        table_count(t, doc_number(a, "zero_point"));
}

void qualify_table_activations(struct table *t, const json_t *result)
{
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    table_column(t, "activation", NULL, TABLE_LEFT, 0);
    table_column(t, "values", NULL, TABLE_RIGHT, 3);
    table_column(t, "clipped", NULL, TABLE_RIGHT, 0);
    table_origin(t, 'M');
    table_column(t, "clip rate", NULL, TABLE_RIGHT, 0);
    table_origin(t, 'M');
    table_column(t, "range from", NULL, TABLE_RIGHT, 2);
    table_origin(t, 'M');
    table_column(t, "to", NULL, TABLE_RIGHT, 2);
    table_origin(t, 'M');
    table_column(t, "scale", NULL, TABLE_RIGHT, 1);
    table_origin(t, 'D');
    table_column(t, "zero point", NULL, TABLE_RIGHT, 3);
    table_origin(t, 'D');
    for (size_t p = 0; p < qualify_policies(result); p++) {
        const json_t *policy = qualify_policy(result, p), *all = doc_at(policy, "activations");
        bool fixed = strcmp(doc_text(all, "scales", ""), "static") == 0;
        if (!json_is_object(all))
            continue;
        table_row(t);
        table_cell(t, qualify_policy_name(policy));
        table_style(t, TABLE_STRONG);
        table_cellf(t, "all, %s scales", fixed ? "static" : "dynamic");
        counts(t, all);
        for (size_t i = 0; i < doc_count(all, "list"); i++) {
            const json_t *a = doc_item(all, "list", i);
            if (fixed || doc_number(a, "clipped") > 0) // what did not happen to dynamic scales need not be listed
                activation_row(t, a);
        }
    }
}

void qualify_policy_notes(struct str *out, const json_t *result, const json_t *policy)
{
    const char *note = doc_text(policy, "products.note", "");
    const json_t *all = doc_at(policy, "activations");
    if (qualify_failed(policy))
        return;
    if (*note)
        str_add(out, note);
    double values = doc_number(all, "values"), clipped = doc_number(all, "clipped");
    if (strcmp(doc_text(all, "scales", ""), "static") != 0 || !isfinite(values) || !isfinite(clipped))
        return;
    char rate[FORMAT_MAX], of[FORMAT_MAX], count[FORMAT_MAX];
    format_exponent(rate, clipped / values, 3);
    format_count(of, values);
    format_count(count, clipped);
    bool program = json_is_object(doc_at(result, "workload.program"));
    str_addf(out, "%sscales from %.0f %s of %s; on the %s %s of %s activation values were clipped (%s)",
             *note ? "; " : "", doc_number(result, "calibration.texts"), program ? "cases" : "texts",
             doc_text(result, "calibration.text_file.path", "?"), program ? "cases of --inputs" : "texts of --text",
             count, of, rate);
}
