// SPDX-License-Identifier: Apache-2.0
// The tables of a qualify document that are not one row per policy.
#include <math.h>
#include <string.h>

#include "report/format.h"
#include "report/qualify_tables.h"

// The part with this name in a policy, or NULL.
static const json_t *find_part(const json_t *policy, const char *name)
{
    for (size_t i = 0; i < doc_count(policy, "parts"); i++) {
        const json_t *part = doc_item(policy, "parts", i);
        if (strcmp(doc_text(part, "part", ""), name) == 0)
            return part;
    }
    return NULL;
}

void qualify_table_specs(struct table *t, const json_t *result)
{
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    table_column(t, "spelled out", NULL, TABLE_LEFT, 0);
    for (size_t p = 0; p < qualify_policies(result); p++) {
        table_row(t);
        table_cell(t, qualify_policy_name(qualify_policy(result, p)));
        table_cell(t, doc_text(qualify_policy(result, p), "spec", ""));
    }
}

// "s8: per output channel, ..." of one part of one policy.
static const char *part_text(struct table *t, const json_t *policy, const char *name)
{
    const json_t *part = find_part(policy, name);
    const char *type = doc_text(part, "type", FORMAT_NULL), *detail = doc_text(part, "detail", "");
    if (!*detail || strcmp(type, "not applicable") == 0)
        return type;
    const char *text = arena_printf(&t->arena, &t->error, "%s: %s", type, detail);
    return text ? text : "";
}

void qualify_table_parts(struct table *t, const json_t *result)
{
    size_t n = qualify_policies(result);
    const json_t *first = qualify_policy(result, 0);
    table_column(t, "part", NULL, TABLE_LEFT, 0);
    for (size_t p = 0; p < n; p++)
        table_column(t, qualify_policy_name(qualify_policy(result, p)), NULL, TABLE_LEFT, (int)p);
    for (size_t i = 0; i < doc_count(first, "parts"); i++) {
        const char *name = doc_text(doc_item(first, "parts", i), "part", ""), *same = part_text(t, first, name);
        bool all = n > 1;
        for (size_t p = 1; p < n && all; p++)
            all = strcmp(part_text(t, qualify_policy(result, p), name), same) == 0;
        table_row(t);
        table_cell(t, name);
        if (all) {
            char *text = arena_printf(&t->arena, &t->error, "all: %s", same);
            table_span(t, text);
            table_style(t, TABLE_DIM);
            continue;
        }
        for (size_t p = 0; p < n; p++)
            table_cell(t, part_text(t, qualify_policy(result, p), name));
    }
}

static void share(struct table *t, const json_t *o, const char *path)
{
    struct quantity q = doc_quantity(o, path);
    if (!isfinite(q.value)) {
        table_null(t, q.source);
        return;
    }
    char text[FORMAT_MAX];
    format_share(text, q.value);
    table_number(t, q.value, text);
    table_hint(t, q.source);
}

void qualify_table_subsets(struct table *t, const json_t *result)
{
    static const char *const paths[] = {"top1", "top10", "spearman", "cosine_min"};
    static const char *const titles[] = {"top-1", "top-10", "Spearman", "min cosine"};
    table_column(t, "subset", NULL, TABLE_LEFT, 0);
    table_column(t, "texts", NULL, TABLE_RIGHT, 2);
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    for (int i = 0; i < 4; i++) {
        table_column(t, titles[i], NULL, TABLE_RIGHT, 1);
        table_origin(t, 'M');
    }
    size_t most = 0, n = qualify_policies(result);
    for (size_t p = 0; p < n; p++) {
        size_t k = doc_count(qualify_policy(result, p), "subsets");
        most = k > most ? k : most;
    }
    for (size_t s = 0; s < most; s++) {
        bool named = false;
        for (size_t p = 0; p < n; p++) {
            const json_t *policy = qualify_policy(result, p), *subset = doc_item(policy, "subsets", s);
            if (!subset || qualify_failed(policy))
                continue;
            table_row(t);
            table_cell(t, named ? "" : doc_text(subset, "name", ""));
            if (!named)
                table_note(t, doc_text(subset, "rule", NULL));
            if (named)
                table_cell(t, "");
            else
                table_count(t, doc_number(subset, "texts"));
            named = true;
            table_cell(t, qualify_policy_name(policy));
            for (int i = 0; i < 4; i++)
                share(t, subset, paths[i]);
        }
    }
}

static void bare(struct table *t, double value)
{
    char text[FORMAT_MAX];
    format_exponent(text, value, 3);
    if (isfinite(value))
        table_number(t, value, text);
    else
        table_cell(t, "");
}

// Nothing clipped, lost or quantised in any module of the policy.
static bool nothing_happened(const json_t *policy)
{
    for (size_t i = 0; i < doc_count(policy, "diagnostics"); i++) {
        const json_t *d = doc_item(policy, "diagnostics", i);
        if (doc_number(d, "clipped") != 0 || doc_number(d, "non_finite") != 0 ||
            doc_number(d, "flushed_to_zero") != 0 || json_is_number(doc_at(d, "scale_min")) ||
            json_is_object(doc_at(d, "worst_channel")))
            return false;
    }
    return true;
}

void qualify_table_diagnostics(struct table *t, const json_t *result)
{
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    table_column(t, "module", NULL, TABLE_LEFT, 0);
    table_column(t, "clipped", NULL, TABLE_RIGHT, 1);
    table_column(t, "not finite", NULL, TABLE_RIGHT, 1);
    table_column(t, "flushed to zero", NULL, TABLE_RIGHT, 1);
    table_column(t, "scales from", NULL, TABLE_RIGHT, 2);
    table_column(t, "to", NULL, TABLE_RIGHT, 2);
    table_column(t, "worst channel", NULL, TABLE_LEFT, 3);
    table_column(t, "rel L2", NULL, TABLE_RIGHT, 3);
    for (size_t p = 0; p < qualify_policies(result); p++) {
        const json_t *policy = qualify_policy(result, p);
        if (doc_count(policy, "diagnostics") && nothing_happened(policy)) {
            table_row(t);
            table_cell(t, qualify_policy_name(policy));
            table_span(t, "nothing clipped, not finite or flushed to zero; no scales");
            table_style(t, TABLE_DIM);
            continue;
        }
        for (size_t i = 0; i < doc_count(policy, "diagnostics"); i++) {
            const json_t *d = doc_item(policy, "diagnostics", i), *worst = doc_at(d, "worst_channel");
            static const char *const counts[] = {"clipped", "non_finite", "flushed_to_zero"};
            table_row(t);
            table_cell(t, i ? "" : qualify_policy_name(policy));
            table_cell(t, doc_text(d, "module", ""));
            for (int k = 0; k < 3; k++) {
                double v = doc_number(d, counts[k]);
                table_count(t, v);
                if (v > 0)
                    table_style(t, k == 1 ? TABLE_BAD : TABLE_STRONG);
                else
                    table_style(t, TABLE_DIM);
            }
            bare(t, doc_number(d, "scale_min"));
            bare(t, doc_number(d, "scale_max"));
            if (json_is_object(worst))
                table_cellf(t, "%s [%.0f]", doc_text(worst, "tensor", ""), doc_number(worst, "channel"));
            else
                table_cell(t, "");
            bare(t, doc_number(worst, "rel_l2"));
        }
    }
}

// A floor: "149 c" for a compute-bound one. The letter is explained under the table.
static void floor_cell(struct table *t, const json_t *floor, struct scale scale)
{
    struct quantity q = doc_quantity(floor, "time");
    const char *bound = doc_text(floor, "bound", "");
    if (!isfinite(q.value)) {
        table_null(t, q.source);
        return;
    }
    char text[FORMAT_MAX];
    format_scaled(text, q.value, scale, 3);
    char *shown = arena_printf(&t->arena, &t->error, "%s %c", text,
                               strcmp(bound, "compute") == 0  ? 'c'
                               : strcmp(bound, "memory") == 0 ? 'm'
                                                              : ' ');
    table_number(t, q.value, shown);
    table_hint(t, q.source);
}

// One unit of time for a chip's column; `member` is the object by chip in each row.
static struct scale chip_scale(struct table *t, const json_t *rows, const char *member, const char *chip)
{
    size_t n = json_array_size(rows);
    const char *unit = "s";
    double *values = arena_new(&t->arena, double, n + 1, &t->error);
    for (size_t i = 0; values && i < n; i++) {
        struct quantity q = doc_quantity(qualify_member(json_array_get(rows, i), member, chip), "time");
        values[i] = q.value;
        if (isfinite(q.value))
            unit = q.unit;
    }
    return values ? scale_pick(values, n, unit) : (struct scale){1, "", unit};
}

// Sum of a quantity over the modules, NAN when one has none.
static double module_sum(const json_t *modules, const char *path)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(modules); i++)
        sum += doc_quantity(json_array_get(modules, i), path).value;
    return sum;
}

static void module_row(struct table *t, const char *name, double flop, struct scale flop_scale, double bytes,
                       struct scale byte_scale)
{
    char text[FORMAT_MAX];
    table_row(t);
    table_cell(t, name);
    format_scaled(text, flop, flop_scale, 3);
    table_number(t, flop, text);
    format_scaled(text, bytes, byte_scale, 3);
    table_number(t, bytes, text);
    table_number(t, bytes > 0 ? flop / bytes : (double)NAN, NULL);
}

void qualify_table_modules(struct table *t, const json_t *result)
{
    const json_t *modules = doc_at(result, "modules"), *policy = qualify_modules_policy(result);
    const char *chips[QUALIFY_MAX_CHIPS];
    struct scale scales[QUALIFY_MAX_CHIPS];
    size_t n = qualify_chips(result, chips), count = json_array_size(modules);
    double *flop = arena_new(&t->arena, double, count + 1, &t->error);
    double *bytes = arena_new(&t->arena, double, count + 1, &t->error);
    if (!flop || !bytes)
        return;
    for (size_t i = 0; i < count; i++) {
        flop[i] = doc_quantity(json_array_get(modules, i), "flop").value;
        bytes[i] = doc_quantity(json_array_get(modules, i), "bytes").value;
    }
    struct scale flop_scale = scale_pick(flop, count, "FLOP"), byte_scale = scale_pick(bytes, count, "B");
    char unit[FORMAT_MAX];
    table_column(t, "module", NULL, TABLE_LEFT, 0);
    scale_name(unit, flop_scale);
    table_column(t, unit, NULL, TABLE_RIGHT, 2);
    table_origin(t, 'D');
    scale_name(unit, byte_scale);
    table_column(t, unit, NULL, TABLE_RIGHT, 2);
    table_origin(t, 'D');
    table_column(t, "FLOP/B", NULL, TABLE_RIGHT, 1);
    table_origin(t, 'D');
    for (size_t c = 0; c < n; c++) {
        scales[c] = chip_scale(t, modules, "floors", chips[c]);
        scale_name(unit, scales[c]);
        table_column(t, chips[c], unit, TABLE_RIGHT, 3 + (int)c);
        table_origin(t, 'D');
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *m = json_array_get(modules, i);
        module_row(t, doc_text(m, "name", ""), flop[i], flop_scale, bytes[i], byte_scale);
        for (size_t c = 0; c < n; c++)
            floor_cell(t, qualify_member(m, "floors", chips[c]), scales[c]);
    }
    if (!count)
        return;
    module_row(t, "all", module_sum(modules, "flop"), flop_scale, module_sum(modules, "bytes"), byte_scale);
    for (size_t c = 0; c < n; c++)
        floor_cell(t, qualify_member(policy, "predicted", chips[c]), scales[c]);
}

void qualify_table_predictions(struct table *t, const json_t *result)
{
    const char *chips[QUALIFY_MAX_CHIPS];
    struct scale scales[QUALIFY_MAX_CHIPS];
    char unit[FORMAT_MAX];
    size_t n = qualify_chips(result, chips);
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    for (size_t c = 0; c < n; c++) {
        scales[c] = chip_scale(t, doc_at(result, "policies"), "predicted", chips[c]);
        scale_name(unit, scales[c]);
        table_column(t, chips[c], unit, TABLE_RIGHT, 1 + (int)c);
        table_origin(t, 'D');
    }
    table_column(t, "measured p50", NULL, TABLE_RIGHT, 0);
    table_origin(t, 'M');
    table_column(t, "predicted / measured", NULL, TABLE_RIGHT, 0);
    table_origin(t, 'D');
    for (size_t p = 0; p < qualify_policies(result); p++) {
        const json_t *policy = qualify_policy(result, p);
        if (qualify_failed(policy))
            continue;
        struct quantity over = quantity_make(NAN, "1", ORIGIN_DERIVED, "none of these chips is the device that ran");
        table_row(t);
        table_cell(t, qualify_policy_name(policy));
        for (size_t c = 0; c < n; c++) {
            const json_t *predicted = qualify_member(policy, "predicted", chips[c]);
            struct quantity o = doc_quantity(predicted, "over_measured");
            if (isfinite(o.value) && !isfinite(over.value))
                over = o;
            floor_cell(t, predicted, scales[c]);
        }
        table_quantity(t, doc_quantity(policy, "measured.p50_ms"));
        table_quantity(t, over);
    }
}

void qualify_table_chips(struct table *t, const json_t *result)
{
    table_column(t, "chip", NULL, TABLE_LEFT, 0);
    table_column(t, "rate", NULL, TABLE_LEFT, 0);
    table_column(t, "value", NULL, TABLE_RIGHT, 0);
    table_column(t, "origin", NULL, TABLE_LEFT, 0);
    table_column(t, "source", NULL, TABLE_LEFT, 1);
    json_t *chips = (json_t *)doc_at(result, "chips");
    for (void *i = json_object_iter(chips); i; i = json_object_iter_next(chips, i)) {
        const json_t *chip = json_object_iter_value(i);
        json_t *peaks = (json_t *)doc_at(chip, "peaks");
        void *k = NULL;
        bool first = true;
        do { // the bandwidth, then each type
            struct quantity q = first ? doc_quantity(chip, "bandwidth") : doc_quantity(json_object_iter_value(k), "");
            table_row(t);
            table_cell(t, first ? json_object_iter_key(i) : "");
            table_cell(t, first ? "memory" : json_object_iter_key(k));
            if (isfinite(q.value))
                table_quantity(t, q);
            else
                table_null(t, NULL); // the reason stands in its own column
            table_cellf(t, "%c", (char)q.origin);
            table_cell(t, q.source);
            k = first ? json_object_iter(peaks) : json_object_iter_next(peaks, k);
            first = false;
        } while (k);
    }
}

static void file_row(struct table *t, const char *role, const json_t *file)
{
    if (!json_is_object(file))
        return;
    table_row(t);
    table_cell(t, role);
    table_cell(t, doc_text(file, "path", ""));
    double bytes = doc_number(file, "bytes");
    if (isfinite(bytes))
        table_count(t, bytes);
    else
        table_cell(t, "");
    table_cell(t, doc_text(file, "sha256", ""));
}

void qualify_table_files(struct table *t, const json_t *result)
{
    table_column(t, "file", NULL, TABLE_LEFT, 0);
    table_column(t, "path", NULL, TABLE_LEFT, 0);
    table_column(t, "bytes", NULL, TABLE_RIGHT, 0);
    table_column(t, "SHA-256", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < doc_count(result, "workload.files"); i++)
        file_row(t, "workload", doc_item(result, "workload.files", i));
    file_row(t, "texts", doc_at(result, "workload.text_file"));
    file_row(t, "texts of the calibration", doc_at(result, "calibration.text_file"));
    file_row(t, "plugin", doc_at(result, "device.plugin"));
}

static void fact(struct table *t, const char *name, const char *value)
{
    if (!value)
        return;
    table_row(t);
    table_cell(t, name);
    table_cell(t, value);
}

// A scalar, or a list of scalars, as text; nothing for null, objects and lists of objects.
static void add_scalar(struct str *s, const json_t *v)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(v) ? json_array_get(v, i) : v;
        char text[FORMAT_MAX] = "";
        if (json_is_integer(item))
            format_count(text, json_number_value(item));
        else if (json_is_real(item))
            format_number(text, json_number_value(item), 4);
        const char *word = json_is_string(item)    ? json_string_value(item)
                           : json_is_boolean(item) ? (json_is_true(item) ? "yes" : "no")
                                                   : text;
        str_addf(s, "%s%s", any && *word ? ", " : "", word);
        any |= *word != '\0';
    }
}

static const char *fact_text(struct table *t, const json_t *v)
{
    struct str s;
    str_init(&s);
    add_scalar(&s, v);
    char *copy = s.length ? arena_strdup(&t->arena, str_text(&s), &t->error) : NULL;
    str_release(&s);
    return copy;
}

// "level 1, type Data, size bytes 32,768"
static const char *members_text(struct table *t, const json_t *o)
{
    struct str s, one;
    str_init(&s);
    str_init(&one);
    for (void *i = json_object_iter((json_t *)o); i; i = json_object_iter_next((json_t *)o, i)) {
        str_clear(&one);
        add_scalar(&one, json_object_iter_value(i));
        if (one.length)
            str_addf(&s, "%s%s %s", s.length ? ", " : "", json_object_iter_key(i), str_text(&one));
    }
    char *copy = s.length ? arena_strdup(&t->arena, str_text(&s), &t->error) : NULL;
    str_release(&s);
    str_release(&one);
    return copy;
}

// One row per leaf of a value of any shape, named by the way to it.
static void facts_below(struct table *t, const char *name, const json_t *v, int depth)
{
    char text[FORMAT_MAX];
    if (depth > 4) // ours has two
        return;
    if (json_is_object(v) && doc_at(v, "value") && doc_at(v, "unit")) {
        format_quantity(text, doc_quantity(v, ""));
        fact(t, name, text);
    } else if (json_is_object(v)) {
        for (void *i = json_object_iter((json_t *)v); i; i = json_object_iter_next((json_t *)v, i)) {
            const char *below = arena_printf(&t->arena, &t->error, "%s %s", name, json_object_iter_key(i));
            if (below)
                facts_below(t, below, json_object_iter_value(i), depth + 1);
        }
    } else if (json_is_array(v) && json_is_object(json_array_get(v, 0))) {
        for (size_t i = 0; i < json_array_size(v); i++)
            fact(t, name, members_text(t, json_array_get(v, i)));
    } else {
        fact(t, name, fact_text(t, v));
    }
}

void qualify_table_facts(struct table *t, const json_t *doc)
{
    static const struct {
        const char *name, *path;
    } facts[] = {
        {"assay", "assay"},
        {"record", "record"},
        {"workload", "result.workload.name"},
        {"kind", "result.workload.kind"},
        {"checkpoint SHA-256", "result.workload.sha256"},
        {"parameters", "result.workload.parameters"},
        {"batch", "result.workload.batch"},
        {"sequence length", "result.workload.seq"},
        {"texts", "result.workload.texts"},
        {"tokens", "result.workload.tokens"},
        {"texts that were cut", "result.workload.truncated_texts"},
        {"texts of the calibration", "result.calibration.texts"},
        {"their hashes, hashed", "result.calibration.split.calibrate.sha256"},
        {"hashes of the texts judged, hashed", "result.calibration.split.held_out.sha256"},
        {"weight bytes used in place", "result.workload.load.zero_copy_bytes"},
        {"weight bytes copied", "result.workload.load.copied_bytes"},
        {"device asked for", "result.device.requested"},
        {"device used", "result.device.kind"},
        {"device id", "result.device.id"},
        {"platform", "result.device.platform"},
        {"platform version", "result.device.platform_version"},
        {"PJRT API", "result.device.plugin.api_version"},
        {"PJRT extensions", "result.device.plugin.extensions"},
        {"processes", "result.device.process_count"},
    };
    table_column(t, "fact", NULL, TABLE_LEFT, 0);
    table_column(t, "value", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        fact(t, facts[i].name, fact_text(t, doc_at(doc, facts[i].path)));
    for (size_t i = 0; i < doc_count(doc, "result.device.devices"); i++) {
        const json_t *d = doc_item(doc, "result.device.devices", i);
        fact(t, "device",
             arena_printf(&t->arena, &t->error, "%.0f: %s, process %.0f%s", doc_number(d, "id"),
                          doc_text(d, "kind", ""), doc_number(d, "process_index"),
                          json_is_true(doc_at(d, "local")) ? ", local" : ""));
    }
    json_t *host = (json_t *)doc_at(doc, "result.host");
    for (void *i = json_object_iter(host); i; i = json_object_iter_next(host, i)) {
        const char *name = json_object_iter_key(i);
        if (strcmp(name, "warnings") != 0)
            facts_below(t, name, json_object_iter_value(i), 0);
    }
    for (size_t i = 0; i < doc_count(doc, "result.host.warnings"); i++)
        fact(t, "warning", doc_item_text(doc, "result.host.warnings", i));
    struct quantity wall = doc_quantity(doc, "result.wall_s");
    char text[FORMAT_MAX];
    format_quantity(text, wall);
    fact(t, "whole command", text);
}
