// SPDX-License-Identifier: Apache-2.0
// What long work tells the person who waits. The library only calls the sink; the program decides what is shown.
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stddef.h>

// `stage` is a short phrase ("compile bf16"); done of total units, total 0 when not known. Called from one thread.
struct progress {
    void (*report)(void *context, const char *stage, size_t done, size_t total);
    void *context;
};

// NULL is a silent sink.
static inline void progress_report(const struct progress *p, const char *stage, size_t done, size_t total)
{
    if (p && p->report)
        p->report(p->context, stage, done, total);
}

#endif
