// SPDX-License-Identifier: Apache-2.0
// A profile of a few warmed steps of one program: by the plugin's own profiler where there is one, with our own spans
// beside it; else by our spans alone. The HLO of the program is in it, with its buffer assignment.
#ifndef LAB_CAPTURE_H
#define LAB_CAPTURE_H

#include "base/arena.h"
#include "base/progress.h"
#include "lab/capture_buffers.h"
#include "record/record.h"
#include "trace/xspace_write.h"
#include "worker/worker.h"

#define CAPTURE_STEP     "precision_case"  // what a step is called
#define CAPTURE_RUN_SPAN "run the program" // the worker's, from the call to the completion on every device

struct capture_steps {
    struct worker *worker;
    const struct worker_executable *program; // compiled with want_optimized
    const struct worker_program *source;     // what from: see capture_buffers
    const int *args;
    size_t n_args;
    const char *name; // of the case: it stands inside every step
    size_t steps;
    bool feed_back; // the first result is the first argument of the next step
    bool whole;     // with all that the worker did since it was started: compilation, uploads; else the steps alone
};

struct capture {
    struct str space;            // XSpace
    int64_t epoch_ns;            // Unix time at its start
    bool from_plugin;            // the plugin's profiler ran
    uint64_t events;             // of all lines
    uint64_t dropped;            // spans that there was no room for
    double *step_ns;             // of each step as this process saw it; in the arena
    struct str result;           // bytes of the last step's first result
    const char *without_buffers; // why the program's buffer assignment is not in the profile; NULL: it is. In the arena
    struct arena arena;
};

// Runs the steps, each waited for, and makes the profile. The program should be warm; it is compiled once more after
// the steps, outside of the profile, unless the plugin's profiler has its HLO already. ERR_DEVICE when the profile
// would be empty. Release in any case.
int capture_run(struct capture *c, const struct capture_steps *steps, struct error *err);
void capture_release(struct capture *c);

// Anything that runs programs of one worker, once.
enum { CAPTURE_PROGRAMS = 16 };
struct capture_work {
    struct worker *worker;
    const char *name;                                          // it stands inside the one step
    int (*call)(void *context, double *ns, struct error *err); // does it; *ns is its time
    void *context;
    // Programs that still are there after the call, compiled with want_optimized, and how many; NULL: none. Their HLO
    // is in the profile.
    size_t (*programs)(void *context, const struct worker_executable *out[CAPTURE_PROGRAMS]);
};

// capture_run of a call. The profile is without buffers. *spans (malloc'd, the caller's also after an error) is what
// the worker did meanwhile, by threads. Release c in any case.
int capture_call(struct capture *c, const struct capture_work *work, double *ns, struct worker_span **spans, size_t *n,
                 struct error *err);
// Whether a span is that of a program's run.
bool capture_is_run(const struct worker_span *s);

enum { CAPTURE_STEPS = 5 }; // of a command that has other things to do

// CAPTURE_STEPS steps of a subject whose inputs are set and which has run. Borrows from it.
struct subject;
struct capture_steps capture_steps_of(const struct subject *s, const char *name);
// capture_run of these, with all that its worker did before.
int capture_subject(struct capture *c, const struct subject *s, struct error *err);

// capture_run, and capture_record under the steps' name. What the profile is without is noted.
int capture_into(struct record *record, const struct capture_steps *steps, const struct progress *progress,
                 struct arena *a, const char **name, struct error *err);

// Writes the profile into a record as a run of its own, trace/plugins/profile/TIME_LABEL/HOST.xplane.pb. *name: in the
// arena.
int capture_record(const struct capture *c, struct record *record, const char *label, struct arena *a,
                   const char **name, struct error *err);

// The program as a profile names it: by its module, with the HLO that the compiler left. Without it (not offered, or
// not readable) it is called "program". Memory is the arena's; the HLO stays in `optimized`. ERR_MEMORY.
int capture_program(struct xwrite_program *out, uint64_t id, struct slice optimized, struct arena *a,
                    struct error *err);
// "the profile is without the buffers of NAME: REASON", for the profile and whoever made it. NULL without memory.
const char *capture_without_buffers(struct arena *a, const char *name, const char *reason, struct error *err);
// The time of the wall at a time of clock_ns().
int64_t capture_epoch_ns(uint64_t clock);

#endif
