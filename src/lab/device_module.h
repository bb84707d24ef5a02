// SPDX-License-Identifier: Apache-2.0
// A module on a device: compiled as it is lowered, its weights uploaded from a checkpoint. What subjects
// (lab/subject.h) and stages (lab/stage.h) have in common.
#ifndef LAB_DEVICE_MODULE_H
#define LAB_DEVICE_MODULE_H

#include "base/json.h"
#include "io/checkpoint.h"
#include "ir/module.h"
#include "kernels/choose.h"
#include "num/quantize.h"
#include "worker/worker.h"

// The shape of parameter i, and any shape as the worker takes it.
const struct shape *device_module_parameter(const struct module *m, int i);
struct worker_shape device_module_wire_shape(const struct shape *s);

// Puts calls of kernels into the module where the worker has them (*chosen counts them; it is set to 0 otherwise),
// prints it, and compiles that. `text` is empty and holds the program afterwards; *source describes what was compiled
// and borrows from text and arena.
int device_module_compile(struct worker *w, struct arena *a, const struct module *m, const char *name,
                          bool want_optimized, struct kernels_chosen *chosen, struct str *text,
                          struct worker_program *source, struct worker_executable *out, struct error *err);

struct device_weights {
    int64_t zero_copy_bytes; // read by the device where the checkpoint has them
    int64_t copied_bytes;    // made, or copied into memory of the worker
    int64_t device_bytes;    // what the device says it holds; -1 where it does not say
    uint64_t ns;             // making and uploading
};

// Uploads weight i, and with codes their scales, into args[parameter]: from where it lies in the checkpoint where that
// can be, else made in memory that the worker maps, so that it is there once. `stats`, when not NULL, says what storing
// it did (elements 0 when nothing was done). Adds to *tally.
int device_module_weight(struct worker *w, const struct module *m, const struct checkpoint *c, int i, int *args,
                         struct device_weights *tally, struct quant_stats *stats, struct error *err);
// An input or a weight from bytes that the caller has, or from random_argument(seed + i) of lab/exported.h. `tally` may
// be NULL.
int device_module_upload(struct worker *w, const struct module *m, int i, const void *bytes, int *args,
                         struct device_weights *tally, struct error *err);
int device_module_random(struct worker *w, const struct module *m, int i, uint64_t seed, int *args,
                         struct device_weights *tally, struct error *err);

// The key "kernels": what our CPU kernels compute with (null: none), why there are none, and the calls of each kind.
void kernels_chosen_json(struct jw *w, const char *with, const char *absent, const struct kernels_chosen *chosen);
// The same of a worker.
void device_module_kernels_json(struct jw *w, const struct worker *worker, const struct kernels_chosen *chosen);

#endif
