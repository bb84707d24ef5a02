// SPDX-License-Identifier: Apache-2.0
#include "lab/device_module.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/threads.h"
#include "ir/bind.h"
#include "lab/exported.h"
#include "worker/frame.h"

#define ALONE ((size_t)8 << 20) // bytes of memory that are there before other threads have begun

const struct shape *device_module_parameter(const struct module *m, int i)
{
    return &m->instructions[m->parameters[i].instruction].shape;
}

struct worker_shape device_module_wire_shape(const struct shape *s)
{
    struct worker_shape out = {.dtype = s->dtype, .rank = s->rank};
    memcpy(out.dims, s->dims, sizeof s->dims);
    return out;
}

int device_module_compile(struct worker *w, struct arena *a, const struct module *m, const char *name,
                          bool want_optimized, struct kernels_chosen *chosen, struct str *text,
                          struct worker_program *source, struct worker_executable *out, struct error *err)
{
    struct module called;
    struct worker_shape *shapes = arena_new(a, struct worker_shape, m->n_parameters, err);
    if (!shapes)
        return ERR_MEMORY;
    int rc = 0;
    *chosen = (struct kernels_chosen){0};
    if (worker_info(w)->kernels) {
        module_init(&called, a, m->name);
        rc = kernels_choose(m, KERNELS_LEAST_FLOP, &called, chosen, err);
        m = &called;
    }
    for (int i = 0; i < m->n_parameters && !rc; i++)
        shapes[i] = device_module_wire_shape(device_module_parameter(m, i));
    if (!rc)
        rc = module_print(m, text, err);
    if (rc)
        return rc;
    *source = (struct worker_program){
        .text = str_text(text),
        .length = text->length,
        .format = "mlir",
        .name = name,
        .want_optimized = want_optimized,
        .n_args = (size_t)m->n_parameters,
        .args = shapes,
    };
    return worker_compile(w, source, out, err);
}

// ---- weights

static void count(struct device_weights *tally, int64_t bytes, const struct worker_upload_result *result, bool in_place)
{
    *(result->zero_copy && in_place ? &tally->zero_copy_bytes : &tally->copied_bytes) += bytes;
    if (result->device_bytes == 0 && bytes)
        tally->device_bytes = -1;
    else if (tally->device_bytes >= 0)
        tally->device_bytes += (int64_t)result->device_bytes;
}

static int upload_place(struct worker *w, const struct module *m, const struct checkpoint *c,
                        const struct bind_place *at, int i, int *args, struct device_weights *tally, struct error *err)
{
    struct worker_tensor t = {.fd = c->files[at->file].fd,
                              .offset = at->offset,
                              .bytes = at->bytes,
                              .shape = device_module_wire_shape(device_module_parameter(m, i)),
                              .name = at->name};
    struct worker_upload_result result;
    int rc = worker_upload(w, &t, &args[i], &result, err);
    if (!rc)
        count(tally, (int64_t)at->bytes, &result, true);
    return rc;
}

// Joins what lies apart in one file, in the worker: copied once. *done says whether that could be.
static int upload_parts(struct worker *w, const struct module *m, const struct checkpoint *c, int i, int *args,
                        struct device_weights *tally, bool *done, struct error *err)
{
    size_t n = (size_t)bind_n_sources(m, i);
    struct bind_place *places = calloc(n + 1, sizeof *places);
    struct worker_part *parts = calloc(n + 1, sizeof *parts);
    int rc = places && parts ? 0 : error_set(err, ERR_MEMORY, m->parameters[i].name, "no memory");
    *done = !rc && n <= WORKER_MAX_PARTS && bind_parts(m, c, i, places);
    if (*done) {
        struct worker_tensor t = {.fd = c->files[places[0].file].fd,
                                  .parts = parts,
                                  .n_parts = n,
                                  .shape = device_module_wire_shape(device_module_parameter(m, i)),
                                  .name = places[0].name};
        struct worker_upload_result result;
        for (size_t k = 0; k < n; k++) {
            parts[k] = (struct worker_part){places[k].offset, places[k].bytes};
            t.bytes += places[k].bytes;
        }
        rc = worker_upload(w, &t, &args[i], &result, err);
        if (!rc)
            count(tally, (int64_t)t.bytes, &result, false);
    }
    free(parts);
    free(places);
    return rc;
}

// Shared memory that a parameter is made in.
struct made {
    int fd;
    void *data;
    size_t bytes;
};

static int made_open(struct made *a, size_t bytes, struct error *err)
{
    struct threads *threads = bytes > ALONE ? threads_try() : NULL;
    a->bytes = bytes;
    a->fd = frame_memfd_map("weight", bytes, threads, &a->data, err);
    threads_free(threads);
    return a->fd < 0 ? a->fd : 0;
}

static void made_close(struct made *a)
{
    if (a->data)
        munmap(a->data, a->bytes);
    if (a->fd >= 0)
        close(a->fd);
}

static int upload_one(struct worker *w, const struct module *m, const struct made *a, int i, int *args,
                      struct device_weights *tally, struct error *err)
{
    struct worker_tensor t = {.fd = a->fd,
                              .bytes = a->bytes,
                              .shape = device_module_wire_shape(device_module_parameter(m, i)),
                              .name = m->parameters[i].name};
    struct worker_upload_result result;
    int rc = worker_upload(w, &t, &args[i], &result, err);
    if (!rc)
        count(tally, (int64_t)a->bytes, &result, false);
    return rc;
}

static int upload_made(struct worker *w, const struct module *m, const struct checkpoint *c, int i, int *args,
                       struct device_weights *tally, struct quant_stats *stats, struct error *err)
{
    int pair = bind_scales_of(m, i);
    struct made values = {.fd = -1}, scales = {.fd = -1};
    int rc = made_open(&values, (size_t)shape_bytes(device_module_parameter(m, i)), err);
    if (!rc && pair >= 0)
        rc = made_open(&scales, (size_t)shape_bytes(device_module_parameter(m, pair)), err);
    if (!rc)
        rc = pair >= 0 ? bind_make_coded(m, c, i, values.data, scales.data, stats, err)
                       : bind_make(m, c, i, values.data, stats, err);
    if (!rc)
        rc = upload_one(w, m, &values, i, args, tally, err);
    if (!rc && pair >= 0)
        rc = upload_one(w, m, &scales, pair, args, tally, err);
    made_close(&values);
    made_close(&scales);
    return rc;
}

int device_module_weight(struct worker *w, const struct module *m, const struct checkpoint *c, int i, int *args,
                         struct device_weights *tally, struct quant_stats *stats, struct error *err)
{
    struct bind_place at;
    if (bind_find(m, c, i, &at))
        return upload_place(w, m, c, &at, i, args, tally, err);
    bool done;
    int rc = upload_parts(w, m, c, i, args, tally, &done, err);
    if (rc || done)
        return rc;
    return upload_made(w, m, c, i, args, tally, stats, err);
}

int device_module_upload(struct worker *w, const struct module *m, int i, const void *bytes, int *args,
                         struct device_weights *tally, struct error *err)
{
    const struct shape *shape = device_module_parameter(m, i);
    struct worker_tensor t = {.fd = -1, .shape = device_module_wire_shape(shape), .name = m->parameters[i].name};
    struct worker_upload_result result;
    int rc = worker_upload_bytes(w, bytes, (size_t)shape_bytes(shape), &t, &args[i], &result, err);
    if (!rc && tally)
        count(tally, shape_bytes(shape), &result, false);
    return rc;
}

int device_module_random(struct worker *w, const struct module *m, int i, uint64_t seed, int *args,
                         struct device_weights *tally, struct error *err)
{
    const struct shape *shape = device_module_parameter(m, i);
    const char *name = m->parameters[i].name;
    size_t bytes = (size_t)shape_bytes(shape);
    void *data = malloc(bytes ? bytes : 1);
    int rc = data ? random_argument(shape, name, seed + (uint64_t)i, data, err)
                  : error_set(err, ERR_MEMORY, name, "no memory for %zu bytes", bytes);
    if (!rc)
        rc = device_module_upload(w, m, i, data, args, tally, err);
    free(data);
    return rc;
}

void kernels_chosen_json(struct jw *w, const char *with, const char *absent, const struct kernels_chosen *chosen)
{
    jw_key(w, "kernels");
    jw_object(w);
    jw_kv_string(w, "with", with);
    jw_kv_string(w, "absent", absent);
    jw_key(w, "calls");
    jw_object(w);
    for (int k = 0; k < KERNEL_KINDS; k++) {
        if (chosen->count[k])
            jw_kv_int(w, kernel_name((enum kernel_kind)k), chosen->count[k]);
    }
    jw_object_end(w);
    jw_object_end(w);
}

void device_module_kernels_json(struct jw *w, const struct worker *worker, const struct kernels_chosen *chosen)
{
    const struct worker_info *i = worker_info(worker);
    kernels_chosen_json(w, i->kernels, i->no_kernels, chosen);
}
