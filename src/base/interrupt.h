// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a flag that long work polls.
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

#include "base/error.h"

// From now on SIGINT and SIGTERM set a flag instead of ending the process; a second one of the same kind ends it at
// once, so a person can always get out. System calls are restarted, but poll(2) and nanosleep(2) return EINTR as ever:
// work that waits waits there, with a time limit (a signal may come just before the call). Only a program calls this,
// once, before it starts threads; the library only polls.
void interrupt_install(void);
bool interrupt_pending(void);
// The flag itself (0, or the signal's number), for what takes one to poll (struct process_options).
const volatile sig_atomic_t *interrupt_flag(void);
// The signal that came ("SIGINT", "SIGTERM"), or NULL.
const char *interrupt_signal(void);
// 0, or ERR_INTERRUPTED when a signal came. `doing` is what is being given up ("measuring bf16").
int interrupt_check(const char *doing, struct error *err);

#endif
