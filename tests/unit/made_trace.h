// SPDX-License-Identifier: Apache-2.0
// Small profiles with known answers, written field by field.
//
//     struct made m;
//     made_begin(&m);
//     made_plane(&m, "/device:GPU:0");
//     made_line(&m, "Stream #1", 0);
//     made_event(&m, "kernel", 10, 5);
//     made_text(&m, "hlo_op", "dot");  // a statistic of that event
//     path = made_end(&m, "name");
#ifndef TEST_MADE_TRACE_H
#define TEST_MADE_TRACE_H

#include <stdint.h>

#include "base/slice.h"
#include "base/str.h"

#define MADE_NAMES 64

struct made {
    struct str file;
    const char *events[MADE_NAMES], *stats[MADE_NAMES]; // of the plane that is open: their ids are places + 1
    int n_events, n_stats;
    size_t plane, line, event; // places of open messages; SIZE_MAX: none
};

void made_begin(struct made *m);
void made_plane(struct made *m, const char *name);
void made_line(struct made *m, const char *name, int64_t timestamp_ns);
void made_event(struct made *m, const char *name, int64_t offset_ps, int64_t duration_ps);
void made_text(struct made *m, const char *stat, const char *value);
void made_number(struct made *m, const char *stat, int64_t value);
// A text of the space: field 2 an error, 3 a warning, 4 a host's name. Between planes.
void made_note(struct made *m, uint32_t field, const char *text);
// A number of the plane itself, before its lines or after them.
void made_fact(struct made *m, const char *stat, int64_t value);
// The same with bytes.
void made_bytes(struct made *m, const char *stat, struct slice value);
// The plane of programs, with the HLO of one: `name` is that of its entry, "m(7)", and `module` an HloModuleProto.
void made_program(struct made *m, const char *name, struct slice module);
// One row of a plane's table 4 (events) or 5 (statistics): what `id` is called. For profiles that are made by hand.
void made_row(struct str *s, uint32_t table, int64_t id, const char *name);
// Writes it into the test's folder; the path is valid until the next call.
const char *made_end(struct made *m, const char *name);

#endif
