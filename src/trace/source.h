// SPDX-License-Identifier: Apache-2.0
// Where in the user's program time went: self times of operations as two trees, one by the framework's names (scopes),
// one by the stack of source lines. In each tree the totals of the roots add up to the self time of all operations.
#ifndef TRACE_SOURCE_H
#define TRACE_SOURCE_H

#include "base/json.h"
#include "trace/ops.h"

enum trace_track { TRACE_TRACK_SOURCE, TRACE_TRACK_SCOPE };

struct trace_source_node {
    struct slice name;   // one part of the path: "model.py:12", "jit(f)"; empty where the profile says nothing
    size_t depth;        // 0: a root
    int64_t self_ps;     // of operations that are right here
    int64_t total_ps;    // and of those below
    uint64_t executions; // of operations, those below included
    size_t parent;       // 1 + its place; 0: none
};

struct trace_source {
    struct trace_source_node *nodes; // a node before those below it, siblings by falling total
    size_t n_nodes;
};

// Takes the next part off a path: a line of a stack without its column, or a name of a scope, where a '/' inside of
// parentheses parts nothing and a ':' at the end is left out. False at the end.
bool trace_path_part(struct slice *rest, enum trace_track track, struct slice *part);
// Texts are o's; nodes come from the arena. ERR_MEMORY.
int trace_source(const struct trace_ops *o, enum trace_track track, struct arena *arena, struct trace_source *out,
                 struct error *err);
// The `result` of assay.trace.source/1.
int trace_source_json(const struct trace *t, const struct trace_ops *o, struct jw *w, struct error *err);

#endif
