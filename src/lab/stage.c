// SPDX-License-Identifier: Apache-2.0
#include "lab/stage.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "ir/bind.h"
#include "worker/frame.h"

struct worker_shape stage_wire_shape(const struct shape *s)
{
    struct worker_shape out = {.dtype = s->dtype, .rank = s->rank};
    memcpy(out.dims, s->dims, sizeof s->dims);
    return out;
}

static const struct shape *parameter_shape(const struct stage *s, int parameter)
{
    return &s->module->instructions[s->module->parameters[parameter].instruction].shape;
}

const struct shape *stage_input_shape(const struct stage *s, int input)
{
    return parameter_shape(s, input);
}

const struct shape *stage_result(const struct stage *s, int i)
{
    return &s->module->instructions[s->module->results[i]].shape;
}

int stage_compile(struct stage *s, struct worker *w, const char *name, struct module *m, struct error *err)
{
    memset(s, 0, sizeof *s);
    arena_init(&s->arena);
    s->name = name;
    s->module = m;
    s->worker = w;
    s->n_args = (size_t)m->n_parameters;
    s->args = arena_new(&s->arena, int, s->n_args, err);
    s->owned = arena_new(&s->arena, bool, s->n_args, err);
    struct worker_shape *shapes = arena_new(&s->arena, struct worker_shape, s->n_args, err);
    if (!s->args || !s->owned || !shapes)
        return ERR_MEMORY;
    for (int i = 0; i < m->n_parameters; i++) {
        s->args[i] = -1;
        shapes[i] = stage_wire_shape(parameter_shape(s, i));
    }
    struct str text;
    struct module called;
    int rc = 0;
    str_init(&text);
    module_init(&called, &s->arena, m->name);
    bool kernels = worker_info(w)->kernels != NULL;
    if (kernels)
        rc = kernels_choose(m, KERNELS_LEAST_FLOP, &called, &s->kernels, err);
    if (!rc)
        rc = module_print(kernels ? &called : m, &text, err);
    struct worker_program program = {.text = str_text(&text),
                                     .length = text.length,
                                     .format = "mlir",
                                     .name = name,
                                     .n_args = s->n_args,
                                     .args = shapes};
    if (!rc)
        rc = worker_compile(w, &program, &s->program, err);
    s->compiled = !rc;
    str_release(&text);
    return rc;
}

// ---- weights

static int upload_place(struct stage *s, const struct checkpoint *c, const struct bind_place *at, int i,
                        struct error *err)
{
    struct worker_tensor t = {.fd = c->files[at->file].fd,
                              .offset = at->offset,
                              .bytes = at->bytes,
                              .shape = stage_wire_shape(parameter_shape(s, i)),
                              .name = at->name};
    struct worker_upload_result result;
    int rc = worker_upload(s->worker, &t, &s->args[i], &result, err);
    if (!rc)
        *(result.zero_copy ? &s->weights.zero_copy_bytes : &s->weights.copied_bytes) += (int64_t)at->bytes;
    return rc;
}

// Shared memory that a parameter is made in: the worker reads it where it lies, so that it is there once.
struct made {
    int fd;
    void *data;
    size_t bytes;
};

static int made_open(struct made *a, const char *name, size_t bytes, struct error *err)
{
    a->bytes = bytes;
    a->data = MAP_FAILED;
    a->fd = frame_memfd("weight", NULL, bytes, err);
    if (a->fd < 0)
        return a->fd;
    if (bytes)
        a->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
    return a->data != MAP_FAILED || !bytes
               ? 0
               : error_set(err, ERR_MEMORY, name, "%zu bytes cannot be mapped: %s", bytes, strerror(errno));
}

static void made_close(struct made *a)
{
    if (a->data != MAP_FAILED)
        munmap(a->data, a->bytes);
    if (a->fd >= 0)
        close(a->fd);
}

static int upload_one(struct stage *s, const struct made *a, int i, struct error *err)
{
    struct worker_tensor t = {.fd = a->fd,
                              .bytes = a->bytes,
                              .shape = stage_wire_shape(parameter_shape(s, i)),
                              .name = s->module->parameters[i].name};
    int rc = worker_upload(s->worker, &t, &s->args[i], NULL, err);
    if (!rc)
        s->weights.copied_bytes += (int64_t)a->bytes;
    return rc;
}

// A parameter that is made from the checkpoint, codes together with their scales.
static int upload_made(struct stage *s, const struct checkpoint *c, int i, struct error *err)
{
    const char *name = s->module->parameters[i].name;
    int pair = bind_scales_of(s->module, i);
    struct made values = {-1, MAP_FAILED, 0}, scales = {-1, MAP_FAILED, 0};
    int rc = made_open(&values, name, (size_t)shape_bytes(parameter_shape(s, i)), err);
    if (!rc && pair >= 0)
        rc = made_open(&scales, name, (size_t)shape_bytes(parameter_shape(s, pair)), err);
    if (!rc)
        rc = pair >= 0 ? bind_make_coded(s->module, c, i, values.data, scales.data, NULL, err)
                       : bind_make(s->module, c, i, values.data, NULL, err);
    if (!rc)
        rc = upload_one(s, &values, i, err);
    if (!rc && pair >= 0)
        rc = upload_one(s, &scales, pair, err);
    made_close(&values);
    made_close(&scales);
    return rc;
}

int stage_load(struct stage *s, const struct checkpoint *c, struct error *err)
{
    if (s->loaded)
        return 0;
    uint64_t start = clock_ns();
    s->weights = (struct stage_weights){0};
    int rc = bind_check(s->module, c, err);
    s->loaded = !rc;
    for (int i = 0; i < s->module->n_parameters && !rc; i++) {
        struct bind_place at;
        if (s->module->parameters[i].role == ROLE_WEIGHT && s->args[i] < 0) // scales come with their codes
            rc = bind_find(s->module, c, i, &at) ? upload_place(s, c, &at, i, err) : upload_made(s, c, i, err);
    }
    s->weights.ns = clock_ns() - start;
    return rc;
}

int stage_drop(struct stage *s, struct error *err)
{
    int rc = 0;
    for (int i = 0; s->compiled && i < s->module->n_parameters && !rc; i++) {
        if (s->module->parameters[i].role != ROLE_WEIGHT || s->args[i] < 0)
            continue;
        rc = worker_free(s->worker, s->args[i], err);
        s->args[i] = -1;
    }
    s->loaded = false;
    return rc;
}

int64_t stage_weight_bytes(const struct stage *s)
{
    int64_t values, scales;
    module_weight_bytes(s->module, &values, &scales);
    return values + scales;
}

int64_t stage_temporary_bytes(const struct stage *s)
{
    const struct worker_memory_plan *m = &s->program.memory;
    return (m->temporaries > 0 ? m->temporaries : 0) + (m->outputs > 0 ? m->outputs : 0);
}

void stage_release(struct stage *s)
{
    struct error ignored = {0};
    bool alive = s->compiled && !worker_failure(s->worker);
    for (size_t i = 0; alive && i < s->n_args; i++) {
        if (s->args[i] >= 0 && (s->owned[i] || s->module->parameters[i].role == ROLE_WEIGHT))
            worker_free(s->worker, s->args[i], &ignored);
    }
    if (alive)
        worker_unload(s->worker, s->program.id, &ignored);
    if (s->compiled)
        worker_executable_release(&s->program);
    arena_release(&s->arena);
    memset(s, 0, sizeof *s);
}

// ---- inputs and runs

int stage_input(const struct stage *s, const char *name)
{
    for (int i = 0; i < s->module->n_parameters; i++) {
        if (s->module->parameters[i].role == ROLE_INPUT && strcmp(s->module->parameters[i].name, name) == 0)
            return i;
    }
    return -1;
}

static int place_of(struct stage *s, const char *name, int *out, struct error *err)
{
    *out = stage_input(s, name);
    if (*out < 0)
        return error_set(err, ERR_INTERNAL, s->name, "has no input \"%s\"", name);
    int old = s->owned[*out] ? s->args[*out] : -1;
    s->args[*out] = -1;
    s->owned[*out] = false;
    return old >= 0 ? worker_free(s->worker, old, err) : 0;
}

int stage_set(struct stage *s, const char *name, int buffer, struct error *err)
{
    int i, rc = place_of(s, name, &i, err);
    if (!rc)
        s->args[i] = buffer;
    return rc;
}

int stage_take(struct stage *s, const char *name, int buffer, struct error *err)
{
    int i, rc = place_of(s, name, &i, err);
    if (rc)
        return rc;
    s->args[i] = buffer;
    s->owned[i] = true;
    return 0;
}

int stage_upload(struct stage *s, const char *name, const void *bytes, struct error *err)
{
    int i, rc = place_of(s, name, &i, err);
    if (rc)
        return rc;
    struct worker_tensor t = {.fd = -1, .shape = stage_wire_shape(parameter_shape(s, i)), .name = name};
    rc = worker_upload_bytes(s->worker, bytes, (size_t)shape_bytes(parameter_shape(s, i)), &t, &s->args[i], NULL, err);
    s->owned[i] = !rc;
    return rc;
}

int stage_run(struct stage *s, int *outputs, struct error *err)
{
    for (size_t i = 0; i < s->n_args; i++) {
        if (s->args[i] < 0)
            return error_set(err, ERR_INTERNAL, s->name, "\"%s\" is not set", s->module->parameters[i].name);
    }
    return worker_execute(s->worker, s->program.id, s->args, s->n_args, outputs, (size_t)s->module->n_results,
                          &s->run_ns, err);
}

int stage_download(struct stage *s, int i, int buffer, void *bytes, struct error *err)
{
    return worker_download(s->worker, buffer, bytes, (size_t)shape_bytes(stage_result(s, i)), err);
}

void stage_kernels_json(struct jw *w, const struct worker *worker, const struct kernels_chosen *chosen)
{
    const struct worker_info *i = worker_info(worker);
    jw_key(w, "kernels");
    jw_object(w);
    jw_kv_string(w, "with", i->kernels);
    jw_kv_string(w, "absent", i->no_kernels);
    jw_key(w, "calls");
    jw_object(w);
    for (int k = 0; k < KERNEL_KINDS; k++) {
        if (chosen->count[k])
            jw_kv_int(w, kernel_name((enum kernel_kind)k), chosen->count[k]);
    }
    jw_object_end(w);
    jw_object_end(w);
}
