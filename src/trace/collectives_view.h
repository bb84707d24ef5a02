// SPDX-License-Identifier: Apache-2.0
// Collectives of a profile as JSON.
#ifndef TRACE_COLLECTIVES_VIEW_H
#define TRACE_COLLECTIVES_VIEW_H

#include "base/json.h"
#include "trace/collectives.h"

// The `result` of assay.trace.collectives/1.
void trace_collectives_json(const struct trace *t, const struct trace_collectives *c, struct jw *w);

#endif
