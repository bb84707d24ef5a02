// SPDX-License-Identifier: Apache-2.0
// One walk over the operations of all devices and the events of all hosts: busy and idle time of each step, and what
// hosts did in the idle time. The memory is that of the lines' windows.
#ifndef TRACE_STEPS_SWEEP_H
#define TRACE_STEPS_SWEEP_H

#include "trace/steps.h"

// Fills in busy and idle times, of_device and threads of steps whose starts and durations are set.
int trace_steps_sweep(struct trace *t, struct trace_steps *s, struct error *err);

#endif
