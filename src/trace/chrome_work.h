// SPDX-License-Identifier: Apache-2.0
// What reading a Chrome trace (chrome.h) keeps until it is written. Three parts: chrome_read.c takes events from the
// JSON, chrome_table.c gives processes, threads, names and arguments their numbers, chrome_write.c matches, sorts and
// writes.
#ifndef TRACE_CHROME_WORK_H
#define TRACE_CHROME_WORK_H

#include "base/json_scan.h"
#include "trace/chrome.h"
#include "trace/timeline_texts.h"

#define CHROME_NONE UINT32_MAX

enum chrome_kind {
    CHROME_WHOLE,
    CHROME_BEGIN, // its end comes as another event
    CHROME_END,
    CHROME_GONE, // an end that has been found
};

struct chrome_event {
    int64_t start_ps;    // from the base
    int64_t duration_ps; // of a begin or an end its place in the file, until both have met
    uint64_t stats;      // place in work->stats of XStat messages as an event has them
    uint32_t n_stats;    // their bytes
    uint32_t line;
    uint32_t row; // in work->rows; CHROME_NONE: an end without a name
    uint32_t end; // the event that ended it, whose statistics are its own too; CHROME_NONE
    uint8_t kind; // enum chrome_kind
    bool joined;  // its arguments say already which event it belongs to
};

struct chrome_flow {
    int64_t ps;
    uint64_t value; // of the statistic "flow": direction, id
    uint32_t line;
    bool next; // it is the next event's, not that of the event it lies in
};

// A row of a plane's table.
struct chrome_row {
    struct slice name, display_name;
    struct slice stats; // XStat messages as a row has them
    uint32_t id, next;
    bool numeric; // a statistic whose values are numbers, also where they are written as texts
};

// Table 0: events, 1: statistics and the texts they refer to.
struct chrome_plane {
    struct slice name;
    int64_t id, order;
    uint32_t n_rows[2], first_row[2], last_row[2];
    // Ids of the statistics that XLA says once of an operation, which XProf reads nowhere else. The first is that of
    // hlo_category, which operations have and nothing else has; 0: none.
    uint32_t of_operations[16];
    uint64_t stats; // place in work->stats of the plane's own
    uint32_t n_stats;
};

struct chrome_line {
    struct slice name;
    int64_t id, order;
    uint32_t plane;
    uint32_t into; // the line whose events its are: itself, but for the spans of one id of an asynchronous line, and
                   // for further tracks of a profile's line
    uint32_t begin, n_events; // in the order of lines, while that is kept
    bool spans;               // it has begins and ends
    bool first;               // of the tracks of a profile's line: it stays a line
    bool hidden;              // whoever shows it derives it anew: its events are left out
};

// Texts that are used at the same time.
enum {
    SCRATCH_NAME,
    SCRATCH_OTHER,
    SCRATCH_ID,
    SCRATCH_WHOLE,
    SCRATCH_KEY, // of chrome_table.c, as the next
    SCRATCH_VALUE,
    CHROME_SCRATCHES
};

// An arrow at an event: the event's place in its line.
struct chrome_arrow {
    size_t at;
    uint64_t value;
};

struct chrome_work {
    struct chrome_trace *out;
    const char *name;
    struct slice file;
    struct arena arena; // texts
    struct timeline_texts texts;
    struct chrome_event *events; // malloc'd, like the others
    struct chrome_flow *flows;
    struct chrome_row *rows;
    struct chrome_plane *planes;
    struct chrome_line *lines;
    uint32_t *order, *stack;
    size_t n_events, cap_events, n_flows, cap_flows, n_rows, cap_rows, n_planes, cap_planes, n_lines, cap_lines;
    size_t n_stack, cap_stack;
    struct chrome_arrow *arrows;
    size_t n_arrows, cap_arrows;
    struct str stats;
    struct str scratch[CHROME_SCRATCHES];
    uint32_t n_flow_ids;
    bool based;
    __int128 base_ps; // what times count from: 0, or where times are too far from it, a time of the first event
    int64_t least_ps, last_ps; // of all events, from the base
    int64_t captured_ns;       // Unix time of 0, where the file says it
    struct slice host;         // where the file says it; of several the last
    bool cut;                  // the JSON ends in the middle
};

// Notes damage at a place of the file.
void chrome_damage(struct chrome_work *w, const char *where, const char *what, const uint8_t *at);
// Room for one more element: false after ERR_MEMORY.
bool chrome_grow(void **array, size_t *cap, size_t n, size_t size, struct error *err);

// ---- Numbers for things. All ERR_MEMORY.

// A text as UTF-8 that is good until the same scratch is used again; of damaged UTF-8 it notes damage.
struct slice chrome_text(struct chrome_work *w, const struct scan_value *v, int scratch, const char *where);
// A process by what the file calls it: a number or a text.
int chrome_plane(struct chrome_work *w, struct slice pid, uint32_t *plane, struct error *err);
int chrome_thread(struct chrome_work *w, uint32_t plane, struct slice tid, uint32_t *line, struct error *err);
// A thread that is a track of a profile's line, which has this name and id: all its tracks become one line again.
int chrome_track(struct chrome_work *w, uint32_t line, struct slice name, struct slice id, struct error *err);
// The line of a plane that holds the samples of its counters.
int chrome_counters(struct chrome_work *w, uint32_t plane, uint32_t *line, struct error *err);
// A line for one id among the asynchronous events of a category; their events are all of one line.
int chrome_async(struct chrome_work *w, uint32_t plane, struct slice category, struct slice id, uint32_t *line,
                 struct error *err);
int chrome_flow_id(struct chrome_work *w, struct slice category, struct slice id, uint64_t *number, struct error *err);
int chrome_row(struct chrome_work *w, uint32_t plane, int table, struct slice name, struct slice display_name,
               uint32_t *row, struct error *err);
// The row of an operation of a TPU, which takes along those of the statistics behind `before` that XLA says once of an
// operation. Of anything else the row of its names.
int chrome_operation(struct chrome_work *w, uint32_t plane, struct slice name, struct slice display_name, size_t before,
                     uint32_t *row, struct error *err);
// What stays of a text when its scratch is used again.
int chrome_keep(struct chrome_work *w, struct slice *text, struct error *err);

// ---- Arguments

// A member that is looked for and, when it is there, taken out.
struct chrome_wanted {
    const char *key;
    struct scan_value value; // SCAN_NONE: not there
};
// The members of an object as statistics, appended to work->stats with the number of field `field` each. *joined is set
// where one of them says what an arrow would.
int chrome_args(struct chrome_work *w, uint32_t plane, uint32_t field, const struct scan_value *object,
                struct chrome_wanted *wanted, size_t n_wanted, bool *joined, struct error *err);
// One statistic more, of an event: any value, a text, a number.
int chrome_stat(struct chrome_work *w, uint32_t plane, uint32_t field, struct slice name, const struct scan_value *v,
                bool *joined, struct error *err);
int chrome_stat_text(struct chrome_work *w, uint32_t plane, const char *name, struct slice text, struct error *err);
int chrome_stat_number(struct chrome_work *w, uint32_t plane, const char *name, uint64_t v, struct error *err);
int chrome_stat_id(struct chrome_work *w, uint32_t plane, const char *name, uint32_t *id, struct error *err);

// ---- The end

int chrome_write(struct chrome_work *w, struct error *err);

#endif
