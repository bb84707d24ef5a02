// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.h"

static void tail(struct jw *w, const char *unit, enum origin origin, const char *source)
{
    const char tag[2] = {(char)origin, '\0'};
    jw_kv_string(w, "unit", unit);
    jw_kv_string(w, "origin", tag);
    jw_kv_string(w, "source", source);
    jw_object_end(w);
}

void quantity_json(struct jw *w, struct quantity q)
{
    jw_object(w);
    jw_kv_double(w, "value", q.value);
    tail(w, q.unit, q.origin, q.source);
}

void quantity_json_kv(struct jw *w, const char *key, struct quantity q)
{
    jw_key(w, key);
    quantity_json(w, q);
}

void quantity_json_derived(struct jw *w, const char *key, double value, const char *unit, const char *formula)
{
    quantity_json_kv(w, key, quantity_make(value, unit, ORIGIN_DERIVED, formula));
}

void quantity_json_samples(struct jw *w, const char *key, const double *values, size_t n, const char *unit,
                           const char *source)
{
    jw_key(w, key);
    jw_object(w);
    jw_key(w, "value");
    jw_array(w);
    for (size_t i = 0; i < n; i++)
        jw_double(w, values[i]);
    jw_array_end(w);
    tail(w, unit, ORIGIN_MEASURED, source);
}
