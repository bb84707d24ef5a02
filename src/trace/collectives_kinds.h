// SPDX-License-Identifier: Apache-2.0
// Collectives added up, for collectives.c.
#ifndef TRACE_COLLECTIVES_KINDS_H
#define TRACE_COLLECTIVES_KINDS_H

#include "trace/collectives.h"

// Fills in `kinds` from the rows. ERR_MEMORY.
int trace_collectives_add_up(struct trace_collectives *c, struct error *err);

#endif
