// SPDX-License-Identifier: Apache-2.0
// What ran on the devices of a profile: one row for each operation of each program, all devices added up.
#ifndef TRACE_OPS_H
#define TRACE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "num/dtype.h"
#include "trace/device.h"

enum trace_cost_source {
    TRACE_COST_NONE,
    TRACE_COST_PROFILE, // the compiler's count, as the profile has it
    TRACE_COST_HLO,     // counted here from the program's HLO in the profile
};

struct trace_op {
    struct slice name;     // "fusion.3"; a kernel's where it belongs to no operation
    struct slice category; // "loop fusion"; empty where the profile says none
    struct slice module;   // "jit_f"; empty where the profile says none
    struct slice scope;    // "jit(f)/jit(main)/add": the framework's name
    struct slice source;   // "model.py:12"
    struct slice stack;    // how it came there: a line "model.py:12" or "model.py:12:3" each, the outermost call first
    struct slice value;    // of the statistic that was asked for, as a text; empty: none
    bool is_async;         // the start or the end of something that goes on meanwhile: its bytes are not of its time
    bool is_operation;     // false: a kernel or copy that carries no operation's name
    uint64_t program_id;   // 0: none
    uint64_t occurrences;  // events
    uint64_t executions;   // of the operation: on a GPU one may be several events (docs/trace.md)
    int64_t self_ps, total_ps; // nesting solved: a loop does not have its body's time in self_ps
    double self_squares;       // ps^2, summed over the occurrences: what their spread follows from
    double flop, bytes;        // of all executions; NAN where nothing says
    enum trace_cost_source flop_from, bytes_from;
    const char *reason; // why the HLO does not say one of them; NULL
    enum dtype type;    // of the operands of its products; DT_INVALID: not known, or of several types
};

// One line of one device.
struct trace_ops_line {
    const struct trace_device *device;
    struct slice name; // "XLA Ops"
    uint64_t events;
    int64_t first_ps, last_ps; // on `device_clock`, else from the trace's origin
    int64_t union_ps;          // time covered: the sum of its rows' self times
    size_t overlaps, out_of_range;
    bool device_clock, sorted;
};

struct trace_ops {
    struct arena arena;
    struct trace_devices devices;
    struct trace_op *rows; // by falling self time; equal ones by name
    size_t n_rows;
    struct trace_ops_line *lines;
    size_t n_lines;
    int64_t self_ps;        // of all rows
    size_t hlo_modules;     // programs whose HLO was read
    bool by_long_name;      // values are whole names in the table
    const char *hlo_damage; // why one of them could not be; NULL
};

// Walks over the lines of all devices, shared out among `threads` (NULL: the caller alone). Rows have
// texts of their own. What the profile does not say of an operation (category, FLOP, bytes, scope, source) comes from
// its program's HLO, where that is in the profile. Damage met on the way is added to the files' own. Without a device
// it gives no rows and is no error.
int trace_ops(struct trace *t, struct threads *threads, struct trace_ops *out, struct error *err);
// The same, with other work shared out together with the lines, before them: fn(context, i, i + 1) for each of n. It
// may walk over lines of devices itself: here copies of them are walked over.
struct trace_beside {
    threads_fn *fn;
    void *context;
    size_t n;
};
int trace_ops_beside(struct trace *t, struct threads *threads, const struct trace_beside *beside, struct trace_ops *out,
                     struct error *err);
// The same, with rows kept apart by the value that a statistic has for the event or for its row in the table
// ("group_id", "hlo_category"). "long_name" is the whole name in the table, which converters call so, where no
// statistic is.
int trace_ops_by_stat(struct trace *t, struct threads *threads, const char *stat, struct trace_ops *out,
                      struct error *err);
void trace_ops_release(struct trace_ops *o);
// Adds up rows of the same program, name, kind and value, in place, and sorts them as trace_ops does. Returns how many
// are left.
size_t trace_ops_merge(struct trace_op *rows, size_t n);

#endif
