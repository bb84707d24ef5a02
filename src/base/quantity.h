// SPDX-License-Identifier: Apache-2.0
// A number for people: value, unit, where it came from.
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

#include <stddef.h>

#include "base/json.h"

enum origin {
    ORIGIN_SHEET = 'S',    // printed in a source (a data sheet, a file's header)
    ORIGIN_DERIVED = 'D',  // computed by a named formula
    ORIGIN_MEASURED = 'M', // measured on the device that `source` names
};

// `value` is NAN where no number can be given; then `source` says why. Strings are borrowed.
struct quantity {
    double value;
    const char *unit; // "B", "us", "FLOP/s", "1" for a ratio
    enum origin origin;
    const char *source;
};

static inline struct quantity quantity_make(double value, const char *unit, enum origin origin, const char *source)
{
    return (struct quantity){value, unit, origin, source};
}

// {"value": v, "unit": "...", "origin": "S|D|M", "source": "..."}; NaN and infinities are null.
void quantity_json(struct jw *w, struct quantity q);
void quantity_json_kv(struct jw *w, const char *key, struct quantity q);
// The same of a figure that `formula` derives.
void quantity_json_derived(struct jw *w, const char *key, double value, const char *unit, const char *formula);
// The same with an array of n samples as the value.
void quantity_json_samples(struct jw *w, const char *key, const double *values, size_t n, const char *unit,
                           const char *source);

#endif
