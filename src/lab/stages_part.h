// SPDX-License-Identifier: Apache-2.0
// What the files of stages share.
#ifndef LAB_STAGES_PART_H
#define LAB_STAGES_PART_H

#include "lab/image_part.h"
#include "lab/klein_part.h"
#include "lab/stages.h"

// One run, apart, then a warm-up and the samples; every run in the worker, waited for.
struct stages_program {
    struct worker *worker;
    const struct worker_executable *executable;
    const int *args;
    size_t n_args;
};
int stages_time(struct stages *s, struct stages_series *to, const struct stages_program *p, const char *what,
                const struct progress *progress, struct error *err);
// The same of anything that can be called; ns is its time.
typedef int stages_call(void *context, double *ns, struct error *err);
int stages_sample(struct stages *s, struct stages_series *to, int64_t samples, bool warms, stages_call *call,
                  void *context, const char *what, const struct progress *progress, struct error *err);

// One more run of what was timed, with a profile of it in the record; `program`: the one that it is of, NULL: those of
// the pipeline.
int stages_traced(struct stages *s, struct stages_series *to, struct worker *w, const struct stages_program *program,
                  stages_call *call, void *context, const char *what, const struct progress *progress,
                  struct error *err);

// What of the weights' files is in memory already; with `forget`, after the kernel was asked to forget them.
int stages_look_at_files(const struct stages *s, bool forget, struct stages_cache *c, struct error *err);
int stages_read_disk(struct stages *s, struct error *err);
// Keeps what our kernels took over, once all programs have been compiled.
void stages_see_kernels(struct stages *s);
int stages_run_calib(struct stages *s, const struct progress *progress, struct error *err);
int stages_run_serving(struct stages *s, enum stages_kind kind, const struct progress *progress, struct error *err);
// Opens s->klein in that shape, unless it is; lazy: its programs are compiled when they are needed.
int stages_open(struct stages *s, enum klein_serving serving, bool lazy, const struct progress *progress,
                struct error *err);
void stages_close(struct stages *s);
// Of a module that runs so many times, and of all programs of a request; *out is zero before.
int stages_price(struct stages *s, const struct module *m, double times, struct stages_price *out, struct error *err);
int stages_price_request(struct stages *s, struct stages_price *out, struct error *err);
// All steps as one program, from noise; the step's inputs are set, its weights loaded, and k->latents are what the
// steps made of that noise one by one.
int stages_run_loop(struct stages *s, const void *noise, const struct progress *progress, struct error *err);
int stages_judge(struct stages *s, enum stages_module_kind kind, const struct module *m, double times,
                 struct error *err);
// Keeps an output, from bytes of the shape or from the device. ERR_DEVICE when a value is not finite: times of such a
// model say nothing.
int stages_keep(struct stages *s, const char *name, const struct shape *shape, const void *bytes, struct error *err);
int stages_keep_buffer(struct stages *s, const char *name, const struct shape *shape, int buffer, struct error *err);
// Bytes of the shape to the device: an input.
int stages_upload(struct stages *s, const void *bytes, const struct shape *shape, int *buffer, struct error *err);
int stages_run_modules(struct stages *s, const struct progress *progress, struct error *err);

// Normal numbers of a shape from the seed, on any machine the same; malloc'd.
int stages_random(uint64_t seed, const struct shape *shape, void **out, struct error *err);

#endif
