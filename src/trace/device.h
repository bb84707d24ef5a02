// SPDX-License-Identifier: Apache-2.0
// The planes of a profile as what they are: devices with the lines that hold their operations, hosts, the rest.
// Names of planes, lines and statistics: openxla/xla, xla/tsl/profiler/utils/xplane_schema.cc.
#ifndef TRACE_DEVICE_H
#define TRACE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "chips/chips.h"
#include "trace/session.h"

enum trace_device_kind {
    TRACE_TPU,         // a tensor core: "/device:TPU:0"
    TRACE_SPARSE_CORE, // "/device:TPU:0 SparseCore 1"
    TRACE_GPU,         // "/device:GPU:0"
    TRACE_HOST,        // "/host:CPU" with operations of XLA's CPU back end in it
};
const char *trace_device_kind_name(enum trace_device_kind kind); // "tpu", "sparse-core", "gpu", "cpu"

struct trace_device {
    enum trace_device_kind kind;
    struct trace_file *file;
    struct xplane *plane;
    struct slice name; // the plane's, a copy: "/device:TPU:0"
    int ordinal;       // -1: its name has none
    const char *model; // "TPU v6 Lite"; what the plane says, NULL where it says nothing
    // As the plane says; NAN where it says nothing.
    double peak_flop_per_s, memory_bytes_per_s;
    // The row of the chip table: by the model's name, else by vendor, cores and memory, which is all that some say.
    const struct chip *chip; // NULL: none
    struct xline **lines;    // with operations: "XLA Ops" of a TPU, the streams of a GPU, the threads of a host
    size_t n_lines, cap_lines;
};

struct trace_devices {
    struct trace_device *items; // in the order of the files, within one in that of the planes
    size_t n, cap;
};

// Memory comes from the trace's arena. A host is in it only when a thread of it ran an operation of a program, and not
// where the file has another device: there the host only dispatches.
int trace_find_devices(struct trace *t, struct trace_devices *out, struct error *err);

#endif
