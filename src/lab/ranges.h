// SPDX-License-Identifier: Apache-2.0
// The ranges of a model's activations on texts of a calibration, or of a program's on cases of one, for policies whose
// activation scales are static.
#ifndef LAB_RANGES_H
#define LAB_RANGES_H

#include "base/progress.h"
#include "ir/policy.h"
#include "lab/capture.h"
#include "lab/subject.h"
#include "lab/workload.h"
#include "num/calibrate.h"

struct ranges {
    struct workload workload; // the texts of the calibration, in the shape of the workload that is calibrated for; or
                              // the program again, with the cases of the calibration and their file as its text_path
    bool open;
    struct split split;             // of the texts that calibrate and those that are evaluated, by hash
    struct activation *activations; // of the module before a policy
    struct activation_range *extremes;
    int64_t *elements; // values of each activation, padding left out
    int n;
    uint64_t ns;           // all of it
    struct capture *trace; // NULL: no profile; else one of the pass over the extremes and a few more runs is made after
                           // it. Release it in any case
};

// Opens the file with texts (of a program: arrays, as --inputs takes them) to calibrate with. ERR_INPUT when one of
// them is also among the texts of `evaluated`: a policy is not judged on what its scales were made from. The message
// names the lines. Blanks at the ends of a text do not count: the tokenizer does not see them.
int ranges_open(struct ranges *r, const struct workload *evaluated, const char *path, struct error *err);
void ranges_close(struct ranges *r);

// Runs the texts through the f32 module on the device and gives every policy with static scales its ranges (in `a`):
// the extremes, or the range that holds the policy's share of the magnitudes (percentiles of both ends when it has a
// zero point). That range ends on one of 4913 equal steps up to the extreme: the first that leaves no more than the
// rest outside.
int ranges_measure(struct ranges *r, const struct module *f32, const struct worker_options *worker,
                   struct policy *const *policies, size_t n_policies, const struct progress *progress, struct arena *a,
                   struct error *err);

#endif
