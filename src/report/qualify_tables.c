// SPDX-License-Identifier: Apache-2.0
#include "report/qualify_tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/format.h"

const json_t *qualify_result(const json_t *doc, struct error *err)
{
    const char *schema = doc_text(doc, "schema", "");
    const json_t *result = doc_at(doc, "result");
    if (strcmp(schema, "assay.qualify/1") != 0) {
        error_set(err, ERR_INPUT, "schema", "\"%.80s\" is not \"assay.qualify/1\"", schema);
        return NULL;
    }
    if (!json_is_object(result)) {
        error_set(err, ERR_INPUT, "result", "the document has no result");
        return NULL;
    }
    return result;
}

size_t qualify_policies(const json_t *result)
{
    return doc_count(result, "policies");
}

const json_t *qualify_policy(const json_t *result, size_t i)
{
    return doc_item(result, "policies", i);
}

const char *qualify_policy_name(const json_t *policy)
{
    return doc_text(policy, "policy", "(no name)");
}

const json_t *qualify_modules_policy(const json_t *result)
{
    const char *name = doc_text(result, "modules_policy", "");
    for (size_t i = 0; i < qualify_policies(result); i++) {
        if (strcmp(qualify_policy_name(qualify_policy(result, i)), name) == 0)
            return qualify_policy(result, i);
    }
    return qualify_policy(result, 0);
}

bool qualify_failed(const json_t *policy)
{
    return strcmp(doc_text(policy, "status", "failed"), "ok") != 0;
}

bool qualify_chosen(const json_t *result, const json_t *policy)
{
    const char *chosen = doc_text(result, "decision.chosen", NULL);
    return chosen && strcmp(chosen, qualify_policy_name(policy)) == 0;
}

void qualify_failure(struct str *out, const json_t *policy)
{
    const char *message = doc_text(policy, "failure.message", ""), *doing = doc_text(policy, "failure.doing", "");
    if (*message)
        str_addf(out, "failed: %s", message);
    else
        str_addf(out, "failed%s%s", *doing ? " while " : "", doing);
}

struct quantity qualify_stored(const json_t *policy)
{
    struct quantity w = doc_quantity(policy, "weight_bytes"), s = doc_quantity(policy, "scale_bytes");
    if (!isfinite(w.value))
        return w;
    if (!isfinite(s.value))
        return s;
    return quantity_make(w.value + s.value, "B", ORIGIN_DERIVED, "weights and scales together");
}

size_t qualify_chips(const json_t *result, const char *names[QUALIFY_MAX_CHIPS])
{
    size_t n = 0;
    json_t *floors = (json_t *)doc_at(doc_item(result, "modules", 0), "floors");
    for (void *i = json_object_iter(floors); i && n < QUALIFY_MAX_CHIPS; i = json_object_iter_next(floors, i))
        names[n++] = json_object_iter_key(i);
    return n;
}

const json_t *qualify_member(const json_t *o, const char *path, const char *key)
{
    return json_object_get(doc_at(o, path), key);
}

void qualify_headline(struct str *out, const json_t *result)
{
    const char *chosen = doc_text(result, "decision.chosen", NULL);
    const char *require = doc_text(result, "decision.require", NULL);
    if (!require)
        str_add(out, "no requirement was set");
    else if (chosen)
        str_addf(out, "%s is the cheapest policy that meets the requirement", chosen);
    else
        str_add(out, "no policy meets the requirement");
}

double qualify_required(const json_t *result, const char *name)
{
    const char *at = doc_text(result, "decision.require", "");
    size_t n = strlen(name);
    for (; (at = strstr(at, name)); at += n) {
        const char *p = at + n + strspn(at + n, " ");
        if ((*p != '<' && *p != '>') || strspn(p, "<>=") > 2)
            continue;
        p += strspn(p, "<>=");
        char *end;
        double v = strtod(p, &end);
        return end != p ? v : (double)NAN;
    }
    return NAN;
}

// ---- Columns of quantities: one unit and one origin for all rows where they agree.
enum form { FORM_SCALED, FORM_EXPONENT, FORM_SHARE, FORM_NUMBER };

struct numbers {
    const char *path;
    struct scale scale;
    enum form form;
    bool mixed; // rows of several origins: each says its own
};

// A row's quantity; a row that is a policy may be asked for "stored".
static struct quantity row_quantity(const json_t *row, const char *path)
{
    return strcmp(path, "stored") == 0 ? qualify_stored(row) : doc_quantity(row, path);
}

static struct numbers column(struct table *t, const json_t *rows, const char *path, const char *title, enum form form,
                             int rank)
{
    struct numbers c = {path, {1, "", ""}, form, false};
    size_t n = json_array_size(rows), k = 0;
    double *values = calloc(n + 1, sizeof *values);
    char origin = 0;
    const char *unit = "";
    for (size_t i = 0; i < n && values; i++) {
        struct quantity q = row_quantity(json_array_get(rows, i), path);
        if (!isfinite(q.value))
            continue;
        if (k && strcmp(unit, q.unit) != 0)
            c.mixed = true; // never seen from our own program, but rows must not share a wrong unit
        unit = q.unit;
        c.mixed |= origin && origin != (char)q.origin;
        origin = (char)q.origin;
        values[k++] = q.value;
    }
    if (!c.mixed && form == FORM_SCALED)
        c.scale = scale_pick(values, k, unit);
    free(values);
    char name[FORMAT_MAX];
    scale_name(name, c.scale);
    table_column(t, title, c.mixed || strcmp(name, "1") == 0 ? "" : name, TABLE_RIGHT, rank);
    if (!c.mixed)
        table_origin(t, origin);
    return c;
}

static void number(struct table *t, const json_t *row, const struct numbers *c)
{
    struct quantity q = row_quantity(row, c->path);
    char text[FORMAT_MAX], tagged[FORMAT_MAX + 8];
    if (!isfinite(q.value)) {
        table_null(t, q.source);
        return;
    }
    if (c->mixed)
        format_quantity(text, q);
    else if (c->form == FORM_EXPONENT)
        format_exponent(text, q.value, 3);
    else if (c->form == FORM_SHARE)
        format_share(text, q.value);
    else if (c->form == FORM_NUMBER)
        format_number(text, q.value, 3);
    else
        format_scaled(text, q.value, c->scale, 3);
    snprintf(tagged, sizeof tagged, c->mixed ? "%s [%c]" : "%s", text, (char)q.origin);
    table_number(t, q.value, tagged);
    table_hint(t, arena_printf(&t->arena, &t->error, "[%c] %s", (char)q.origin, q.source ? q.source : ""));
}

static void name_cell(struct table *t, const json_t *result, const json_t *policy)
{
    table_cell(t, qualify_policy_name(policy));
    if (qualify_chosen(result, policy))
        table_style(t, TABLE_STRONG);
}

// Starts the row of a policy; false when it failed and the row already says so.
static bool policy_row(struct table *t, const json_t *result, const json_t *policy)
{
    table_row(t);
    name_cell(t, result, policy);
    if (!qualify_failed(policy))
        return true;
    struct str s;
    str_init(&s);
    qualify_failure(&s, policy);
    table_span(t, str_text(&s));
    table_style(t, TABLE_BAD);
    str_release(&s);
    return false;
}

// One row per policy, one column per path: most tables are this.
struct column_plan {
    const char *path, *title;
    enum form form;
    int rank;
};

static void policy_table(struct table *t, const json_t *result, const struct column_plan *plan, size_t n)
{
    struct numbers columns[16];
    const json_t *policies = doc_at(result, "policies");
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < n; i++)
        columns[i] = column(t, policies, plan[i].path, plan[i].title, plan[i].form, plan[i].rank);
    for (size_t p = 0; p < qualify_policies(result); p++) {
        const json_t *policy = qualify_policy(result, p);
        if (policy_row(t, result, policy))
            for (size_t i = 0; i < n; i++)
                number(t, policy, &columns[i]);
    }
}

static void paired_cell(struct table *t, const json_t *policy)
{
    struct quantity r = doc_quantity(policy, "paired.ratio");
    if (!isfinite(r.value)) {
        table_null(t, r.source);
        return;
    }
    char text[FORMAT_MAX];
    format_number(text, r.value, 3);
    const char *verdict = doc_text(policy, "paired.verdict", "");
    table_number(t, r.value, arena_printf(&t->arena, &t->error, "%s %s", text, verdict));
    table_style(t, strcmp(verdict, "faster") == 0   ? TABLE_GOOD
                   : strcmp(verdict, "slower") == 0 ? TABLE_WARN
                                                    : TABLE_PLAIN);
}

static void meets_cell(struct table *t, const json_t *result, const json_t *policy)
{
    const json_t *meets = doc_at(policy, "meets");
    if (!json_is_boolean(meets)) {
        table_cell(t, FORMAT_NULL);
        return;
    }
    bool yes = json_is_true(meets);
    table_cell(t, !yes ? "no" : qualify_chosen(result, policy) ? "yes, chosen" : "yes");
    table_style(t, yes ? TABLE_GOOD : TABLE_BAD);
}

void qualify_table_policies(struct table *t, const json_t *result)
{
    static const struct column_plan plan[] = {
        {"stored", "stored", FORM_SCALED, 1},
        {"errors.rel_l2", "rel L2", FORM_EXPONENT, 2},
        {"errors.cosine_min", "min cosine", FORM_SHARE, 3},
        {"task.top1", "top-1", FORM_SHARE, 4},
        {"measured.p50_ms", "p50", FORM_SCALED, 1},
        {"measured.items_per_s", "items/s", FORM_NUMBER, 7},
    };
    enum { N = sizeof plan / sizeof *plan };
    struct numbers columns[N];
    const json_t *policies = doc_at(result, "policies");
    const char *against = "f32";
    for (size_t p = 0; p < qualify_policies(result); p++)
        against = doc_text(qualify_policy(result, p), "paired.against", against);
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < N; i++)
        columns[i] = column(t, policies, plan[i].path, plan[i].title, plan[i].form, plan[i].rank);
    table_column(t, arena_printf(&t->arena, &t->error, "time / %s", against), NULL, TABLE_RIGHT, 6);
    table_origin(t, 'M');
    table_column(t, "meets", NULL, TABLE_LEFT, 0);
    for (size_t p = 0; p < qualify_policies(result); p++) {
        const json_t *policy = qualify_policy(result, p);
        if (!policy_row(t, result, policy))
            continue;
        for (size_t i = 0; i < N; i++)
            number(t, policy, &columns[i]);
        paired_cell(t, policy);
        meets_cell(t, result, policy);
    }
}

void qualify_table_errors(struct table *t, const json_t *result)
{
    static const struct column_plan plan[] = {
        {"errors.rel_l2", "rel L2", FORM_EXPONENT, 0},   {"errors.max_abs", "max abs", FORM_EXPONENT, 4},
        {"errors.snr_db", "SNR", FORM_SCALED, 3},        {"errors.cosine_min", "min cosine", FORM_SHARE, 1},
        {"task.top1", "top-1 agreement", FORM_SHARE, 1}, {"task.top10", "top-10 overlap", FORM_SHARE, 2},
        {"task.spearman", "Spearman", FORM_SHARE, 2},
    };
    policy_table(t, result, plan, sizeof plan / sizeof *plan);
}

void qualify_table_time(struct table *t, const json_t *result)
{
    static const struct column_plan plan[] = {
        {"measured.compile_ms", "compile", FORM_SCALED, 3},
        {"measured.upload_ms", "weight upload", FORM_SCALED, 5},
        {"measured.first_ms", "first call", FORM_SCALED, 4},
        {"measured.min_ms", "min", FORM_SCALED, 3},
        {"measured.p50_ms", "p50", FORM_SCALED, 1},
        {"measured.ci_low_ms", "p50 from", FORM_SCALED, 2},
        {"measured.ci_high_ms", "to", FORM_SCALED, 2},
        {"measured.p90_ms", "p90", FORM_SCALED, 3},
        {"measured.mad_ms", "MAD", FORM_SCALED, 4},
        {"paired.ratio", "p50 ratio", FORM_NUMBER, 2},
        {"paired.low", "from", FORM_NUMBER, 3},
        {"paired.high", "to", FORM_NUMBER, 3},
    };
    enum { N = sizeof plan / sizeof *plan };
    struct numbers columns[N];
    const json_t *policies = doc_at(result, "policies");
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < N; i++)
        columns[i] = column(t, policies, plan[i].path, plan[i].title, plan[i].form, plan[i].rank);
    table_column(t, "warm-up runs", NULL, TABLE_RIGHT, 6);
    table_column(t, "samples", NULL, TABLE_RIGHT, 6);
    for (size_t p = 0; p < qualify_policies(result); p++) {
        const json_t *policy = qualify_policy(result, p);
        if (!policy_row(t, result, policy))
            continue;
        for (size_t i = 0; i < N; i++)
            number(t, policy, &columns[i]);
        table_count(t, doc_number(policy, "measured.warmup_runs"));
        table_count(t, (double)doc_count(policy, "measured.samples_ms.value"));
    }
}

void qualify_table_request(struct table *t, const json_t *result)
{
    static const struct column_plan plan[] = {
        {"measured.request.tokenize_ms", "tokenise", FORM_SCALED, 2},
        {"measured.request.upload_ms", "upload", FORM_SCALED, 2},
        {"measured.request.run_ms", "run", FORM_SCALED, 1},
        {"measured.request.download_ms", "download", FORM_SCALED, 2},
        {"measured.request.total_ms", "total", FORM_SCALED, 0},
    };
    policy_table(t, result, plan, sizeof plan / sizeof *plan);
}

void qualify_table_memory(struct table *t, const json_t *result)
{
    static const struct column_plan plan[] = {
        {"weight_bytes", "weights", FORM_SCALED, 1},
        {"scale_bytes", "scales", FORM_SCALED, 1},
        {"device_weight_bytes", "weights on the device", FORM_SCALED, 2},
        {"memory.arguments", "arguments", FORM_SCALED, 3},
        {"memory.outputs", "outputs", FORM_SCALED, 5},
        {"memory.temporaries", "temporaries", FORM_SCALED, 2},
        {"memory.aliases", "aliases", FORM_SCALED, 6},
        {"memory.code", "code", FORM_SCALED, 6},
        {"memory.device_peak", "device peak", FORM_SCALED, 4},
        {"measured.peak_rss_bytes", "process peak", FORM_SCALED, 1},
    };
    policy_table(t, result, plan, sizeof plan / sizeof *plan);
}
