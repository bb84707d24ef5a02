// SPDX-License-Identifier: Apache-2.0
// The whole probe: every path at every shape asked for, single elements, and a claim about a type.
#ifndef LAB_PROBE_RUN_H
#define LAB_PROBE_RUN_H

#include "base/progress.h"
#include "lab/probe.h"
#include "lab/probe_cells.h"
#include "lab/probe_integer.h"
#include "record/record.h"

struct probe_options {
    struct worker_options worker;
    const char *const *paths; // keys; none: all
    size_t n_paths;
    size_t m, k, n;                     // of the products; 128, 256, 128 are full tiles on what is known
    bool vectors;                       // also at m = 1: every path that asks for nothing special, or was named
    bool elements;                      // single elements, too
    size_t dots;                        // random dots to confirm each finding with; 0: REPLAY_DOTS
    bool tree;                          // the documents hold whole summation trees
    const char *claim;                  // a path's key; NULL: none
    bool trace;                         // a profile of each row's product, where a record is given
    const struct probe_known *simulate; // a software model takes the device's place: its own path alone
};

enum probe_status { PROBE_DONE, PROBE_REFUSED, PROBE_DIED };
struct probe_row {
    const struct probe_path *path;
    size_t m, k, n;
    enum probe_status status;
    const char *reason; // PROBE_REFUSED, PROBE_DIED
    bool is_float;
    struct probe_float flt;
    struct probe_integer integer;
    size_t runs;           // products asked for
    const char *trace;     // its profile, a file of the record; NULL: none
    const char *optimized; // the program as the compiler left it; NULL: not handed over
    size_t optimized_length;
};

enum probe_answer { PROBE_YES, PROBE_NO, PROBE_CANNOT_TELL };
struct probe_claim {
    enum probe_answer answer;
    char why[480];
};

struct probe_run {
    struct arena arena;
    struct probe_row *rows;
    size_t n_rows;
    struct probe_cell *cells;
    size_t n_cells;
    struct probe_claim claim;
    bool simulated;
    // The device, as its worker said; empty when simulated.
    const char *kind, *platform, *plugin, *plugin_sha256;
    int api_major, api_minor;
};

// ERR_USAGE for a path or claim that is not known (it lists those that are) and for shapes of fewer than 4 (k 8) or
// more than 4096 elements a side (m may be 1).
int probe_check(const struct probe_options *o, struct error *err);
// Release in any case. A device that cannot be started at all is an error; what it refuses or dies of is a row. record:
// where profiles go; NULL: none are made.
int probe_execute(struct probe_run *r, const struct probe_options *o, const struct progress *progress,
                  struct record *record, struct error *err);
void probe_release(struct probe_run *r);
// What the rows of a path say about the claim that the device computes that type: operands whole, sums as wide as f32
// (f64 for f64, exact in int32 for integers). Order, subnormals and contraction are no part of it.
void probe_judge(struct probe_claim *out, const struct probe_run *r, const char *key);
// One sentence about a row.
void probe_say_verdict(struct str *out, const struct probe_row *row);

// The documents, and what goes into the record beside them: evidence/KEY-MxKxN.json, every vector with its result, and
// programs/KEY-MxKxN.mlir with what the compiler made of it in .optimized.hlo.pb.
void probe_config(struct jw *w, const struct probe_options *o); // members of an open object
void probe_failures(struct jw *w, const struct probe_run *r);   // of a run that ended early: what each row came to
int probe_json(struct jw *w, const struct probe_run *r, const struct probe_options *o, struct error *err);
int probe_write_evidence(const struct probe_run *r, struct record *record, struct error *err);

#endif
