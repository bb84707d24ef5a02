// SPDX-License-Identifier: Apache-2.0
// The same work on two devices, in turns. Each side runs in a thread of its own, of which one is awake at a time: what
// is timed has the machine to itself, and what both use needs no locks. They meet before the samples of each thing, and
// take them in rounds A B, B A, A B, ..., so that samples of one round are of one moment.
#ifndef LAB_TURNS_H
#define LAB_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// One side's hold on it. NULL in place of one is a run by itself, for which all of these do nothing.
struct turn {
    struct turns *all;
    int who;          // 0 or 1
    const char *name; // for people
};

typedef int turns_run(void *of, struct turn *turn, struct error *err);
// Runs both. The first error of any is the one that is told; the other side ends at its next meeting, or with its next
// sample. `seed`: which of the two comes first.
int turns_both(turns_run *run, void *const of[2], const char *const names[2], uint64_t seed, struct error *err);

// Before `rounds` samples: waits until the other side is there. *paired: both take part. With `takes` false this side
// has none of them, and the other takes its own alone.
int turn_meet(struct turn *t, size_t rounds, bool takes, bool *paired, struct error *err);
// Around each sample of rounds that are paired.
int turn_begin(struct turn *t, struct error *err);
void turn_end(struct turn *t);
// Behind the last of them: the other side takes its own before this one does anything else.
void turn_leave(struct turn *t);

#endif
