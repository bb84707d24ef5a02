// SPDX-License-Identifier: Apache-2.0
// The buffer assignment of a program: which of its values shares which memory, and when. PJRT hands none over, but XLA
// writes it into its dump of the optimised program.
#ifndef LAB_CAPTURE_BUFFERS_H
#define LAB_CAPTURE_BUFFERS_H

#include "base/slice.h"
#include "base/str.h"
#include "worker/worker.h"

struct capture_buffers {
    struct str assignment; // BufferAssignmentProto; empty: there is none
    char reason[512];      // why there is none; empty: there is one
};

// Compiles `source` once more in the worker that has compiled and run it, with a dump into a folder of its own below
// TMPDIR, and takes the assignment out of the file of the dump whose HLO is that of `optimized`, the program that ran,
// down to the numbers of its instructions. So it belongs after everything that is measured. The folder is removed, the
// second program unloaded. Whatever goes wrong is a reason and no error, a worker that dies of it included; errors are
// ERR_MEMORY and ERR_INTERRUPTED. Release in any case.
int capture_buffers(struct capture_buffers *b, struct worker *w, const struct worker_program *source,
                    struct slice optimized, struct error *err);
void capture_buffers_release(struct capture_buffers *b);

#endif
