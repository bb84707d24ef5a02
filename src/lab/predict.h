// SPDX-License-Identifier: Apache-2.0
// Three predictions of one program's time, side by side: by the chip's sheet, by the compiler that the chip's devices
// use (ahead of time, without one), and by what was measured. Each with its origin; where there is none, with why.
#ifndef LAB_PREDICT_H
#define LAB_PREDICT_H

#include "base/arena.h"
#include "base/progress.h"
#include "base/quantity.h"
#include "chips/chips.h"
#include "ir/module.h"
#include "lab/layers.h"

enum { PREDICT_MAX_TARGETS = 32, PREDICT_MAX_PROGRAMS = 64 };

struct predict_target {
    const char *name; // as it was asked for: "v6e:2x4", "local"
    struct chip_target target;
    const struct chip *chip; // with its calibration where it is `local`
};

// Reads the names of targets; of one with several devices one device's program is what is predicted, unless it is
// divided by a layout. `cpu_model` is the host's. ERR_USAGE for one that is not known or stands there twice, and for
// several slices without a layout.
int predict_targets(const char *const *names, size_t n, bool divided, const char *cpu_model, struct predict_target *out,
                    struct arena *arena, struct error *err);

// What the compiler says of one program for one target.
struct predict_compiled {
    const char *state;           // compile_state_name; NULL: it was not asked
    const char *reason;          // why there is no floor; NULL: there is one
    double floor_s, predicted_s; // predicted: floor over a measured efficiency, NAN where none is known
    double band;                 // the prediction holds within this factor, either way
    const char *efficiency;      // where the efficiency is from; or why there is none
    const char *compiler;        // plugin and version
    double compile_s, cpu_s;     // wall clock, processor time
    // Of one device, as the compiler lays it out, B; NAN where it says nothing. What it needs of one that does not fit
    // is in needed_bytes alone.
    double argument_bytes, weight_bytes, output_bytes, temporary_bytes, code_bytes;
    double needed_bytes, usable_bytes;
};

struct predict_job {
    const char *workload; // for messages; without programs it is what is compiled: a program of the user's, as it is
    const struct predict_target *targets;
    struct module *const *programs; // ready: policies are applied
    const char *const *names;       // of the programs
    size_t n_targets, n_programs;
    enum layers_form layers; // of programs
    const char *layout;      // divides every program over the devices of its target; NULL: one device's
    const char *plugin;      // the compiler's file; NULL: found by the kind of target
    const struct progress *progress;
};
// Asks the compiler about every program on every target, in workers of their own. out: [targets][programs], or one for
// each target without programs. A compiler that is not there, refuses or dies is a reason, not an error;
// ERR_INTERRUPTED, ERR_MEMORY and a layout that does not suit the devices (ERR_USAGE) are.
int predict_compile(const struct predict_job *job, struct predict_compiled *out, struct arena *arena,
                    struct error *err);

// The times of one run (a batch, a request), us.
struct prediction {
    const char *target;
    const char *layout;                   // over its devices, each of which the times are of; NULL: of one device
    struct quantity sheet;                // the floor by the chip's sheet
    struct quantity floor;                // the compiler's
    struct quantity predicted, low, high; // by that, with its band
    struct quantity calibrated;           // by what was measured of this chip
    struct quantity measured;             // NAN: not on this chip
    const char *state;                    // of the compilation; NULL: the compiler was not asked
    double compile_s, cpu_s;              // NAN: it was not
    // Memory, of one program; NULL: of several, or the compiler was not asked.
    const struct predict_compiled *memory;
};

// Puts them together. `floor` is the roofline of the whole on the target's chip, us, of which `sent_us` pass in
// sending; `layout` is that of the prediction; `compiled` and `times` are n programs and how often each runs;
// `measured_us` NAN where nothing ran on such a device, `where` is then why.
int predict_make(const struct predict_target *t, const char *layout, struct quantity floor, double sent_us,
                 const struct predict_compiled *compiled, const double *times, size_t n, double measured_us,
                 const char *where, struct arena *arena, struct prediction *out, struct error *err);
// The members of an element of "predictions", inside its object.
void predict_json(const struct prediction *p, struct jw *w);

#endif
