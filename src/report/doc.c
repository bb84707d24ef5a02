// SPDX-License-Identifier: Apache-2.0
#include "report/doc.h"

#include <math.h>
#include <string.h>

const json_t *doc_at(const json_t *o, const char *path)
{
    while (o && *path) {
        size_t n = strcspn(path, ".");
        if (!json_is_object(o))
            return NULL;
        o = json_object_getn(o, path, n);
        path += n + (path[n] == '.');
    }
    return o;
}

const char *doc_text(const json_t *o, const char *path, const char *absent)
{
    const json_t *v = doc_at(o, path);
    return json_is_string(v) ? json_string_value(v) : absent;
}

double doc_number(const json_t *o, const char *path)
{
    const json_t *v = doc_at(o, path);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

struct quantity doc_quantity(const json_t *o, const char *path)
{
    const json_t *q = doc_at(o, path);
    const char *origin = doc_text(q, "origin", "M");
    struct quantity out = {doc_number(q, "value"), doc_text(q, "unit", "1"), ORIGIN_MEASURED,
                           doc_text(q, "source", NULL)};
    if (strcmp(origin, "S") == 0)
        out.origin = ORIGIN_SHEET;
    else if (strcmp(origin, "D") == 0)
        out.origin = ORIGIN_DERIVED;
    return out;
}

size_t doc_count(const json_t *o, const char *path)
{
    return json_array_size(doc_at(o, path));
}

const json_t *doc_item(const json_t *o, const char *path, size_t index)
{
    return json_array_get(doc_at(o, path), index);
}

const char *doc_item_text(const json_t *o, const char *path, size_t index)
{
    return doc_text(doc_item(o, path, index), "", "");
}

size_t doc_samples(const json_t *o, const char *path, struct arena *a, const double **out)
{
    const json_t *v = doc_at(doc_at(o, path), "value");
    size_t n = json_array_size(v), k = 0;
    double *values = arena_new(a, double, n, NULL);
    *out = values;
    if (!values)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(v, i);
        if (json_is_number(item) && isfinite(json_number_value(item)))
            values[k++] = json_number_value(item);
    }
    return k;
}

bool doc_has(const json_t *o, const char *path, const char *value)
{
    for (size_t i = 0; i < doc_count(o, path); i++)
        if (strcmp(doc_item_text(o, path, i), value) == 0)
            return true;
    return false;
}

bool doc_median(const json_t *o, struct quantity *out)
{
    static const char *const paths[] = {
        "measured.p50_ms", "request.summary.p50", "time.summary.p50", "summary.p50", "p50_ms", "p50"};
    const char *key;
    json_t *v;
    size_t i;
    for (i = 0; i < sizeof paths / sizeof *paths; i++) {
        *out = doc_quantity(o, paths[i]);
        if (out->value > 0 && out->unit && out->unit[strlen(out->unit) - 1] == 's' && !strchr(out->unit, '/'))
            return true;
    }
    if (json_is_array(o)) {
        json_array_foreach(o, i, v)
        {
            if (doc_median(v, out))
                return true;
        }
    }
    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        if (doc_median(v, out))
            return true;
    }
    return false;
}
