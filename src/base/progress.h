// SPDX-License-Identifier: Apache-2.0
// What long work tells the person who waits. The library only calls the sink; the program decides what is shown.
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stddef.h>

// `stage` is a short phrase ("compile bf16"); done of total units, total 0 when not known. `note` takes a sentence
// about something that is not as it should be and stops nothing. Called from one thread at a time.
struct progress {
    void (*report)(void *context, const char *stage, size_t done, size_t total);
    void (*note)(void *context, const char *text); // NULL: nobody wants to know
    void *context;
};

// NULL is a silent sink.
static inline void progress_report(const struct progress *p, const char *stage, size_t done, size_t total)
{
    if (p && p->report)
        p->report(p->context, stage, done, total);
}

static inline void progress_note(const struct progress *p, const char *text)
{
    if (p && p->note)
        p->note(p->context, text);
}

#endif
