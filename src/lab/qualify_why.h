// SPDX-License-Identifier: Apache-2.0
// Why a policy that stores less is no faster than one that stores more: what its optimised program does besides its
// products, in figures, and for each the comparison that would show it, with one thing changed.
#ifndef LAB_QUALIFY_WHY_H
#define LAB_QUALIFY_WHY_H

#include "lab/measure.h"
#include "lab/narrow.h"
#include "lab/qualify.h"

enum { WHY_REASONS = 8, WHY_FIGURES = 8 };

struct why_reason {
    const char *kind; // "weights widened", "temporaries", "quantisation", "products", "batch"
    const char *text;
    struct {
        const char *name;
        struct quantity value;
    } figures[WHY_FIGURES];
    int n_figures;
    const struct narrow_work *where; // instructions; NULL: none
    const char *changes, *command;   // the comparison to run
};

struct qualify_why {
    size_t against;                  // index of the policy that stores more and is no slower
    struct measure_comparison ratio; // this one's times over that one's
    struct narrow own, other;        // valid unless `unread`
    const char *unread;              // why a program cannot be read; NULL: both were
    struct why_reason reasons[WHY_REASONS];
    int n;
};

// For every policy that ran: is there one that stores more and that it is not faster than, by more than 1 %? Then the
// fastest of those, and the reasons (p->why). After the samples are summarised, while the programs are still there.
int qualify_explain(struct qualify *q, struct error *err);
// The member "why_not_faster" of a policy, null where there is nothing to explain.
void qualify_why_json(const struct qualify *q, const struct qualify_policy *p, struct jw *w);

// The rates of the device that the policies ran on: `local` or a given calibration for a CPU, else the chip's sheet.
// *out NULL: nothing is known of it, and *reason says what would tell.
int qualify_device_chip(struct qualify *q, const struct chip **out, const char **reason, struct error *err);
// "assay qualify MODEL --text FILE ... --policy A --policy B", with what this run was given; `more` follows. In the
// arena; NULL with err set.
const char *qualify_command(struct qualify *q, const char *const *policies, size_t n, const char *more,
                            struct error *err);

#endif
