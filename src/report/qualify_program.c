// SPDX-License-Identifier: Apache-2.0
// The tables of a qualify document that are about a program: its arguments, and what became of each output.
#include <math.h>
#include <string.h>

#include "report/format.h"
#include "report/qualify_tables.h"

bool qualify_table_applies(void (*fill)(struct table *, const json_t *), const json_t *result)
{
    bool program = json_is_object(doc_at(result, "workload.program"));
    if (fill == qualify_table_outputs || fill == qualify_table_arguments)
        return program;
    return fill != qualify_table_subsets || !program;
}

enum form { EXPONENT, SHARE };

static void number(struct table *t, const json_t *o, const char *key, enum form form)
{
    struct quantity q = doc_quantity(o, key);
    char text[FORMAT_MAX];
    if (!isfinite(q.value)) {
        table_null(t, q.source);
        return;
    }
    if (form == SHARE)
        format_share(text, q.value);
    else
        format_exponent(text, q.value, 3);
    table_number(t, q.value, text);
    table_hint(t, q.source);
}

static size_t most_outputs(const json_t *result)
{
    size_t most = 0;
    for (size_t p = 0; p < qualify_policies(result); p++) {
        size_t n = doc_count(qualify_policy(result, p), "outputs");
        most = n > most ? n : most;
    }
    return most;
}

void qualify_table_outputs(struct table *t, const json_t *result)
{
    static const struct {
        const char *key, *title;
        enum form form;
        int rank;
    } columns[] = {{"rel_l2", "rel L2", EXPONENT, 0},
                   {"max_abs", "max abs", EXPONENT, 2},
                   {"snr_db", "SNR dB", EXPONENT, 3},
                   {"cosine_min", "min cosine", SHARE, 1},
                   {"same", "same", SHARE, 1}};
    enum { N = sizeof columns / sizeof *columns };
    table_column(t, "output", NULL, TABLE_LEFT, 0);
    table_column(t, "shape", NULL, TABLE_LEFT, 2);
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    for (int i = 0; i < N; i++) {
        table_column(t, columns[i].title, NULL, TABLE_RIGHT, columns[i].rank);
        table_origin(t, 'M');
    }
    for (size_t k = 0; k < most_outputs(result); k++) {
        bool named = false;
        for (size_t p = 0; p < qualify_policies(result); p++) {
            const json_t *policy = qualify_policy(result, p), *o = doc_item(policy, "outputs", k);
            if (!o || qualify_failed(policy))
                continue;
            table_row(t);
            table_cell(t, named ? "" : doc_text(o, "name", ""));
            table_cell(t, named ? "" : doc_text(o, "shape", ""));
            named = true;
            table_cell(t, qualify_policy_name(policy));
            for (int i = 0; i < N; i++)
                number(t, o, columns[i].key, columns[i].form);
        }
    }
}

void qualify_table_arguments(struct table *t, const json_t *result)
{
    table_column(t, "argument", NULL, TABLE_RIGHT, 0);
    table_column(t, "name", NULL, TABLE_LEFT, 0);
    table_column(t, "shape", NULL, TABLE_LEFT, 1);
    table_column(t, "role", NULL, TABLE_LEFT, 0);
    table_column(t, "given by", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < doc_count(result, "workload.program.arguments"); i++) {
        const json_t *a = doc_item(result, "workload.program.arguments", i);
        const char *from = doc_text(a, "from", NULL), *source = doc_text(a, "source", "?");
        table_row(t);
        table_count(t, doc_number(a, "index"));
        table_cell(t, doc_text(a, "name", ""));
        table_cell(t, doc_text(a, "shape", ""));
        table_cell(t, doc_text(a, "role", ""));
        if (from)
            table_cellf(t, "%s \"%s\"", source, from);
        else
            table_cell(t, source);
    }
}
