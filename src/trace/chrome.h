// SPDX-License-Identifier: Apache-2.0
// Chrome's Trace Event Format (JSON) as an XSpace: a plane for each process, a line for each thread, so that everything
// here that reads profiles reads it. One pass over the file, no tree: of each event some 50 bytes are kept beside its
// arguments, which are statistics at once. https://chromium.googlesource.com/catapult: docs, "Trace Event Format".
#ifndef TRACE_CHROME_H
#define TRACE_CHROME_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "trace/xspace.h"

struct chrome_work;

struct chrome_trace {
    struct str space; // the XSpace's bytes
    uint64_t events;  // in it
    uint64_t lines;
    // Not in it: events of kinds that a profile has no place for (objects, memory dumps, clock marks, metadata that
    // nobody knows), and arrows at places where no event is.
    uint64_t left_out, arrows_left_out;
    struct xdamage damage; // offsets are those of the JSON
    struct chrome_work *work;
};

// Whether it is JSON, by its first bytes.
bool chrome_recognise(const void *bytes, size_t size);
// Damage is no error: where JSON ends to be JSON reading ends, an event that is not one is left out, and the first
// place is named. ERR_INPUT when there is no event at all, or no trace in the JSON; ERR_MEMORY, ERR_INTERRUPTED.
// Release even after an error, also after one that has jumped out of it (base/file.h).
int chrome_read(struct chrome_trace *c, const void *bytes, size_t size, const char *name, struct error *err);
void chrome_release(struct chrome_trace *c);

#endif
