// SPDX-License-Identifier: Apache-2.0
// What ran on the devices of a profile: one row for each operation of each program, all devices added up.
#ifndef TRACE_OPS_H
#define TRACE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/threads.h"
#include "trace/device.h"

struct trace_op {
    struct slice name;     // "fusion.3"; a kernel's where it belongs to no operation
    struct slice category; // "loop fusion"; empty where the profile says none
    struct slice module;   // "jit_f"; empty where the profile says none
    struct slice scope;    // "jit(f)/jit(main)/add": the framework's name
    struct slice source;   // "model.py:12"
    bool is_async;         // the start or the end of something that goes on meanwhile: its bytes are not of its time
    bool is_operation;     // false: a kernel or copy that carries no operation's name
    uint64_t program_id;   // 0: none
    uint64_t occurrences;
    int64_t self_ps, total_ps; // nesting solved: a loop does not have its body's time in self_ps
    double flop, bytes;        // of all occurrences, as the profile says; NAN where it says nothing
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
    int64_t self_ps; // of all rows
};

// Walks over the lines of all devices, shared out among `threads` (NULL: the caller alone). Rows have
// texts of their own. Damage met on the way is added to the files' own. Without a device it gives no rows and is no
// error.
int trace_ops(struct trace *t, struct threads *threads, struct trace_ops *out, struct error *err);
void trace_ops_release(struct trace_ops *o);
// Adds up rows of the same program, name and kind, in place, and sorts them as trace_ops does. Returns how many are
// left.
size_t trace_ops_merge(struct trace_op *rows, size_t n);

#endif
