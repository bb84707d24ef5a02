// SPDX-License-Identifier: Apache-2.0
// Memory of a profile as JSON.
#ifndef TRACE_MEMORY_VIEW_H
#define TRACE_MEMORY_VIEW_H

#include "base/json.h"
#include "trace/heap.h"
#include "trace/memory.h"

// The `result` of assay.trace.memory/1: allocators with their timelines, programs with theirs, and the files with their
// damage.
void trace_memory_json(const struct trace *t, const struct trace_memory *m, const struct trace_heaps *h, struct jw *w);

#endif
