// SPDX-License-Identifier: Apache-2.0
#include "report/ladder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/doc.h"
#include "report/page.h"

enum { MOST_KEYS = 65536, MOST_MOVED = 12 };

static const json_t *result_of(const json_t *doc, struct error *err)
{
    const json_t *result = doc_at(doc, "result");
    if (!json_is_array(doc_at(result, "keys_compared")) && !json_is_object(doc_at(result, "injected"))) {
        error_set(err, ERR_INPUT, "result", "is no ladder's: it has neither keys_compared nor injected");
        return NULL;
    }
    return result;
}

static bool compares_two(const json_t *result)
{
    return json_is_object(doc_at(result, "injected"));
}

static size_t n_keys(const json_t *of, const char *path)
{
    size_t n = doc_count(of, path);
    return n < MOST_KEYS ? n : MOST_KEYS;
}

static const char *name_of(char out[160], const json_t *key)
{
    snprintf(out, 160, "%s/%s", doc_text(key, "program", "?"), doc_text(key, "name", "?"));
    return out;
}

static void verdict_cell(struct table *t, const char *verdict)
{
    table_cell(t, verdict);
    table_style(t, strcmp(verdict, "pass") == 0 ? TABLE_GOOD : strcmp(verdict, "FAIL") == 0 ? TABLE_BAD : TABLE_WARN);
}

// What a run of a key came to, in the measure of the band.
static void score_cell(struct table *t, const json_t *score, bool bf16)
{
    char text[48];
    double value = doc_number(score, bf16 ? "snr_db" : "relative");
    if (!json_is_object(score)) {
        table_cell(t, "");
        return;
    }
    if (json_is_true(doc_at(score, "exact"))) {
        table_cell(t, "equal");
        return;
    }
    snprintf(text, sizeof text, bf16 ? "%.1f" : "%.1e", value);
    if (isnan(value))
        table_null(t, NULL);
    else
        table_number(t, value, text);
}

static const json_t *worst_key(const json_t *result, const json_t *rung)
{
    char want[160], name[160];
    name_of(want, doc_at(rung, "worst"));
    for (size_t i = 0; i < n_keys(result, "keys_compared"); i++) {
        const json_t *key = doc_item(result, "keys_compared", i);
        if (strcmp(name_of(name, key), want) == 0)
            return key;
    }
    return NULL;
}

static bool in_db(const json_t *result)
{
    return strcmp(doc_text(result, "band", ""), "bf16") == 0;
}

static void fill_rungs(struct table *t, const json_t *result)
{
    bool bf16 = in_db(result);
    char text[160];
    table_column(t, "rung", NULL, TABLE_RIGHT, 0);
    table_column(t, "what", NULL, TABLE_LEFT, 0);
    table_column(t, "keys", NULL, TABLE_RIGHT, 2);
    table_column(t, "equal", NULL, TABLE_RIGHT, 4);
    table_column(t, "bound", bf16 ? "dB" : NULL, TABLE_RIGHT, 2);
    table_column(t, "injected", bf16 ? "dB" : NULL, TABLE_RIGHT, 1);
    table_origin(t, ORIGIN_MEASURED);
    table_column(t, "chained", bf16 ? "dB" : NULL, TABLE_RIGHT, 1);
    table_origin(t, ORIGIN_MEASURED);
    table_column(t, "worst key", NULL, TABLE_LEFT, 5);
    table_column(t, "verdict", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < doc_count(result, "rungs"); i++) {
        const json_t *rung = doc_item(result, "rungs", i), *worst = worst_key(result, rung);
        double bound = doc_number(rung, bf16 ? "bound.snr_db" : "bound.relative");
        if (doc_number(rung, "keys") == 0)
            continue;
        table_row(t);
        table_cellf(t, "%.0f", doc_number(rung, "number"));
        table_cell(t, doc_text(rung, "title", ""));
        table_count(t, doc_number(rung, "keys"));
        table_count(t, doc_number(rung, "exact"));
        snprintf(text, sizeof text, bf16 ? "%.0f" : "%.0e", bound);
        if (isnan(bound))
            table_cell(t, "equal");
        else
            table_number(t, bound, text);
        score_cell(t, doc_at(worst, "injected"), bf16);
        score_cell(t, doc_at(worst, "chained"), bf16);
        table_cell(t, strchr(doc_text(worst, "program", ""), '/') ? name_of(text, worst) : doc_text(worst, "name", ""));
        double fail = doc_number(rung, "fail"), warn = doc_number(rung, "warn");
        snprintf(text, sizeof text, fail > 0 ? "%.0f FAIL" : "%.0f warn", fail > 0 ? fail : warn);
        verdict_cell(t, fail > 0 || warn > 0 ? text : "pass");
        if (fail > 0)
            table_style(t, TABLE_BAD);
    }
}

static bool key_passes(const json_t *key)
{
    return strcmp(doc_text(key, "injected.verdict", "pass"), "pass") == 0 &&
           strcmp(doc_text(key, "chained.verdict", "pass"), "pass") == 0;
}

static size_t n_troubled(const json_t *result)
{
    size_t n = 0;
    for (size_t i = 0; i < n_keys(result, "keys_compared"); i++)
        n += !key_passes(doc_item(result, "keys_compared", i));
    return n;
}

static void key_columns(struct table *t, bool bf16)
{
    table_column(t, "rung", NULL, TABLE_RIGHT, 1);
    table_column(t, "key", NULL, TABLE_LEFT, 0);
    table_column(t, "injected", bf16 ? "dB" : NULL, TABLE_RIGHT, 0);
    table_origin(t, ORIGIN_MEASURED);
    table_column(t, "verdict", NULL, TABLE_LEFT, 1);
    table_column(t, "chained", bf16 ? "dB" : NULL, TABLE_RIGHT, 0);
    table_origin(t, ORIGIN_MEASURED);
    table_column(t, "verdict", NULL, TABLE_LEFT, 1);
}

static void fill_keys(struct table *t, const json_t *result, bool all)
{
    bool bf16 = in_db(result);
    char text[160];
    key_columns(t, bf16);
    for (size_t i = 0; i < n_keys(result, "keys_compared"); i++) {
        const json_t *key = doc_item(result, "keys_compared", i);
        if (!all && key_passes(key))
            continue;
        table_row(t);
        table_cellf(t, "%.0f", doc_number(key, "rung"));
        table_cell(t, name_of(text, key));
        score_cell(t, doc_at(key, "injected"), bf16);
        verdict_cell(t, doc_text(key, "injected.verdict", ""));
        score_cell(t, doc_at(key, "chained"), bf16);
        verdict_cell(t, doc_text(key, "chained.verdict", ""));
    }
}

static void fill_troubled(struct table *t, const json_t *result)
{
    fill_keys(t, result, false);
}

static void fill_all(struct table *t, const json_t *result)
{
    fill_keys(t, result, true);
}

// ---- two ladders

// The keys that moved most, largest movement first; selection is enough for a dozen.
static void fill_moved(struct table *t, const json_t *run)
{
    char text[160];
    size_t n = n_keys(run, "keys"), shown = 0;
    double before = INFINITY;
    table_column(t, "key", NULL, TABLE_LEFT, 0);
    table_column(t, "from", "dB", TABLE_RIGHT, 0);
    table_origin(t, ORIGIN_MEASURED);
    table_column(t, "to", "dB", TABLE_RIGHT, 0);
    table_origin(t, ORIGIN_MEASURED);
    table_column(t, "moved", "dB", TABLE_RIGHT, 0);
    table_origin(t, ORIGIN_DERIVED);
    table_column(t, "", NULL, TABLE_LEFT, 1);
    while (shown < MOST_MOVED) {
        double most = -1;
        for (size_t i = 0; i < n; i++) {
            double moved = fabs(doc_number(doc_item(run, "keys", i), "moved_db"));
            most = moved < before && moved > most ? moved : most;
        }
        if (most < 0)
            break;
        for (size_t i = 0; i < n && shown < MOST_MOVED; i++) {
            const json_t *key = doc_item(run, "keys", i);
            if (fabs(doc_number(key, "moved_db")) != most)
                continue;
            table_row(t);
            table_cell(t, name_of(text, key));
            table_cellf(t, "%.1f", doc_number(key, "from_db"));
            table_cellf(t, "%.1f", doc_number(key, "to_db"));
            table_cellf(t, "%+.2f", doc_number(key, "moved_db"));
            table_cell(t, json_is_true(doc_at(key, "newly_warned")) ? "newly warned" : "");
            table_style(t, TABLE_WARN);
            shown++;
        }
        before = most;
    }
}

static void movement_line(struct str *s, const json_t *result, const char *run)
{
    char path[160];
    const json_t *of = doc_at(result, run);
    double n = doc_number(of, "compared");
    str_addf(s, "%s: ", run);
    if (!(n > 0)) {
        str_add(s, "no key has a finite figure in both");
        return;
    }
    str_addf(s, "median %+.2f dB over %.0f key%s, %.0f of them within 2 dB; ", doc_number(of, "median_db"), n,
             n == 1 ? "" : "s", doc_number(of, "within_2_db"));
    double warned = doc_number(of, "newly_warned");
    if (warned == 0) {
        str_add(s, "none is newly warned of");
        return;
    }
    // Runs of keys that follow each other are one cluster.
    str_addf(s, "%.0f newly warned of: ", warned);
    bool open = false, first = true;
    const json_t *last = NULL;
    for (size_t i = 0; i <= n_keys(of, "keys"); i++) {
        const json_t *key = i < n_keys(of, "keys") ? doc_item(of, "keys", i) : NULL;
        bool warns = json_is_true(doc_at(key, "newly_warned"));
        if (warns && !open) {
            str_addf(s, "%s%s", first ? "" : ", ", name_of(path, key));
            first = false;
            last = key;
        } else if (!warns && open && last != doc_item(of, "keys", i - 1)) {
            str_addf(s, " to %s", doc_text(doc_item(of, "keys", i - 1), "name", "?"));
        }
        open = warns;
    }
}

// ---- the page

static void about(struct str *s, const json_t *result)
{
    if (compares_two(result)) {
        str_addf(s, "%s, then %s", doc_item_text(result, "compared", 0), doc_item_text(result, "compared", 1));
        return;
    }
    str_addf(s, "%s under %s on %s, beside %s", doc_text(result, "workload", "?"), doc_text(result, "policy", "?"),
             doc_text(result, "device", "?"), doc_text(result, "reference.directory", "?"));
    if (*doc_text(result, "reference.type", ""))
        str_addf(s, " (%s)", doc_text(result, "reference.type", ""));
    const char *precision = doc_text(result, "matmul_precision.asked", "highest");
    if (strcmp(precision, "highest") != 0)
        str_addf(s, "; f32 products at %s%s", precision,
                 json_is_true(doc_at(result, "matmul_precision.emulated")) ? ", emulated" : "");
}

static void verdict(struct str *s, const json_t *result)
{
    double fail = doc_number(result, "fail"), keys = doc_number(result, "keys"), exact = doc_number(result, "exact");
    str_addf(s, "%s: %.0f key%s, %.0f pass, %.0f warn, %.0f FAIL; %.0f %s equal in every element",
             fail > 0 ? "FAIL" : "pass", keys, keys == 1 ? "" : "s", doc_number(result, "pass"),
             doc_number(result, "warn"), fail, exact, exact == 1 ? "is" : "are");
}

static void missing_line(struct str *s, const json_t *result)
{
    size_t n = doc_count(result, "missing");
    str_addf(s, "not in the reference: ");
    for (size_t i = 0; i < n && i < 6; i++)
        str_addf(s, "%s%s", i ? ", " : "", doc_item_text(result, "missing", i));
    if (n > 6)
        str_addf(s, " and %zu more", n - 6);
}

int report_ladder_text(struct str *out, const json_t *doc, size_t width, bool color, struct error *err)
{
    const json_t *result = result_of(doc, err);
    struct page p = {out, width, color};
    struct str s;
    if (!result)
        return ERR_INPUT;
    str_init(&s);
    about(&s, result);
    page_paragraph(&p, PAGE_BOLD, "", str_text(&s));
    int rc = 0;
    if (compares_two(result)) {
        static const char *const runs[] = {"injected", "chained"};
        for (int i = 0; i < 2 && !rc; i++) {
            str_clear(&s);
            movement_line(&s, result, runs[i]);
            str_add_char(out, '\n');
            page_paragraph(&p, NULL, "", str_text(&s));
            rc = page_table(&p, fill_moved, doc_at(result, runs[i]), TABLE_TEXT, err);
        }
    } else {
        str_add_char(out, '\n');
        rc = page_table(&p, fill_rungs, result, TABLE_TEXT, err);
        if (!rc && n_troubled(result)) {
            str_add_char(out, '\n');
            rc = page_table(&p, fill_troubled, result, TABLE_TEXT, err);
        }
        str_clear(&s);
        verdict(&s, result);
        str_add_char(out, '\n');
        page_paragraph(&p, doc_number(result, "fail") > 0 ? PAGE_BAD : PAGE_GOOD, "", str_text(&s));
        if (doc_count(result, "missing")) {
            str_clear(&s);
            missing_line(&s, result);
            page_paragraph(&p, PAGE_DIM, "", str_text(&s));
        }
    }
    str_release(&s);
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
    if (compares_two(result)) {
        static const char *const runs[] = {"injected", "chained"};
        for (int i = 0; i < 2 && !rc; i++) {
            str_clear(&s);
            movement_line(&s, result, runs[i]);
            page_sentence(out, format, "", str_text(&s));
            rc = page_table(&p, fill_moved, doc_at(result, runs[i]), format, err);
        }
    } else {
        verdict(&s, result);
        page_sentence(out, format, "", str_text(&s));
        rc = page_table(&p, fill_rungs, result, format, err);
        str_add_char(out, '\n');
        if (!rc)
            rc = page_table(&p, fill_all, result, format, err);
        if (!rc && doc_count(result, "missing")) {
            str_clear(&s);
            missing_line(&s, result);
            page_sentence(out, format, "about", str_text(&s));
        }
    }
    str_release(&s);
    return rc ? rc : str_check(out, err);
}

static const struct page_report whole = {"Ladder", result_of, body};

int report_ladder_markdown(struct str *out, const json_t *doc, struct error *err)
{
    return page_markdown(out, &whole, doc, err);
}

int report_ladder_html(struct str *out, const json_t *doc, const char *sha256, struct error *err)
{
    return page_html(out, &whole, doc, sha256, err);
}

int report_ladder_csv(struct str *out, const json_t *doc, struct error *err)
{
    const json_t *result = result_of(doc, err);
    if (!result)
        return ERR_INPUT;
    if (compares_two(result))
        return error_set(err, ERR_USAGE, "--format", "two ladders compared have no form csv");
    return page_table(&(struct page){.out = out}, fill_all, result, TABLE_CSV, err);
}
