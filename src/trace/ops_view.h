// SPDX-License-Identifier: Apache-2.0
// The rows of trace_ops as people ask for them: grouped, with rates and what bounds them, and as JSON.
#ifndef TRACE_OPS_VIEW_H
#define TRACE_OPS_VIEW_H

#include "base/json.h"
#include "base/quantity.h"
#include "trace/ops.h"

enum trace_ops_by {
    TRACE_BY_OP,       // an operation of a program
    TRACE_BY_NAME,     // "fusion": operations of all programs whose names differ by their number only
    TRACE_BY_CATEGORY, // "loop fusion"
    TRACE_BY_MODULE,   // a program
    TRACE_BY_SCOPE,    // the framework's name
    TRACE_BY_SOURCE,   // a line of the user's program
    TRACE_BY_STAT,     // the value of a statistic
};

// What rows are added up by.
struct trace_key {
    enum trace_ops_by by;
    int64_t level;    // TRACE_BY_SCOPE: so many parts of the name from its beginning; 0: all
    const char *stat; // TRACE_BY_STAT, else NULL: its name
    const char *text; // as it was written
};
// "op", "name", "category", "module", "scope", "scope:2", "source", "stat:NAME"; points into `text`. ERR_USAGE names
// what there is.
int trace_key_parse(struct trace_key *k, const char *text, struct error *err);

// Rows added up by a key, by falling self time; `name` is the key, empty where the profile says none. TRACE_BY_OP gives
// the rows themselves; TRACE_BY_STAT needs those of trace_ops_by_stat. FLOP and bytes are NAN where one of the rows has
// none. In `arena`; texts are o's.
int trace_ops_group(const struct trace_ops *o, const struct trace_key *by, struct arena *arena, struct trace_op **rows,
                    size_t *n, struct error *err);

// A device's peak as the profile has it, and as the chip table has it for the device's model; NAN where one has none,
// or where the profile is of several models. `used` is the profile's, unless the table says something else by more than
// a tenth: the tracer of AMD GPUs gives half the memory rate.
struct trace_peak {
    double profile, chip, used;
    const char *chip_name, *chip_source; // NULL: none
    bool disagree;
};
// FLOP/s of products of that type (DT_INVALID: bf16), and bytes/s of memory; both of one device.
void trace_ops_peak(const struct trace_ops *o, enum dtype type, struct trace_peak *flop, struct trace_peak *memory);

// What a row's time says of the device. NAN where the profile lacks what is needed, and all rates of what is
// asynchronous.
struct trace_ops_rates {
    double share;                       // self time of all self time
    double flop_per_s, bytes_per_s;     // over the self time, of one device
    double intensity;                   // FLOP per byte
    double flop_of_peak, bytes_of_peak; // shares of the device's peaks, as used
    const char *bound;                  // "compute" or "memory", by the intensity and those peaks; NULL
};
void trace_ops_rate(const struct trace_ops *o, const struct trace_op *row, struct trace_ops_rates *out);

// "files": [...], with the damage of each: a member of every document about profiles.
void trace_files_json(const struct trace *t, struct jw *w);
// The `result` of assay.trace.ops/1: rows by `by`, the first `top` of them (0: all), and the files with their damage.
int trace_ops_json(const struct trace *t, const struct trace_ops *o, const struct trace_key *by, size_t top,
                   struct jw *w, struct error *err);

#endif
