// SPDX-License-Identifier: Apache-2.0
// One program of a pipeline in a worker that it shares with the others: compiled, its weights loaded and dropped, its
// inputs set, run. Results of one are inputs of the next without leaving the device.
#ifndef LAB_STAGE_H
#define LAB_STAGE_H

#include "base/json.h"
#include "lab/device_module.h"

struct stage {
    const char *name;      // for messages: "transformer"
    struct module *module; // as it runs; the caller's
    struct worker *worker; // the caller's
    struct arena arena;
    struct worker_executable program;
    bool compiled, loaded;
    bool borrowed; // its weights are another stage's, which frees them
    int *args;     // a buffer for each parameter, -1: not set
    bool *owned;   // of inputs: freed when another takes the place, and by stage_release
    size_t n_args;
    struct device_weights weights;
    struct kernels_chosen kernels; // that took over parts of it, where the worker has kernels
    uint64_t run_ns;               // of the last run
};

// Compiles the module as it is: the one place where a pipeline's programs are made. After an
// error stage_release may be called all the same. `want_optimized`: with what the compiler left of it, for profiles.
int stage_compile(struct stage *s, struct worker *w, const char *name, struct module *m, bool want_optimized,
                  struct error *err);
// Forgets the program, weights and inputs included, and frees them in the worker while that lives.
void stage_release(struct stage *s);
// Every weight from the checkpoint: read where it lies where that can be, else made. `stage_drop` gives them back.
int stage_load(struct stage *s, const struct checkpoint *c, struct error *err);
int stage_drop(struct stage *s, struct error *err);
// The weights of a stage that has them all, under the same names and policy, as long as they are loaded there.
int stage_borrow(struct stage *s, const struct stage *from, struct error *err);
// The device memory that a run needs beside arguments.
int64_t stage_temporary_bytes(const struct stage *s);

const struct shape *stage_input_shape(const struct stage *s, int input);
// Sets an input to a buffer of the caller, or to a copy of bytes as the input's shape has them.
int stage_set(struct stage *s, const char *name, int buffer, struct error *err);
int stage_take(struct stage *s, const char *name, int buffer, struct error *err); // the stage's from then on
int stage_upload(struct stage *s, const char *name, const void *bytes, struct error *err);
// Runs it on what is set; `outputs`: room for a buffer of each result, which the caller frees.
int stage_run(struct stage *s, int *outputs, struct error *err);
// The shape of result i, and its bytes on the host.
const struct shape *stage_result(const struct stage *s, int i);
int stage_download(struct stage *s, int i, int buffer, void *bytes, struct error *err);

#endif
