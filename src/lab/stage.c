// SPDX-License-Identifier: Apache-2.0
#include "lab/stage.h"

#include <string.h>

#include "base/clock.h"
#include "ir/bind.h"

const struct shape *stage_input_shape(const struct stage *s, int input)
{
    return device_module_parameter(s->module, input);
}

const struct shape *stage_result(const struct stage *s, int i)
{
    return &s->module->instructions[s->module->results[i]].shape;
}

int stage_compile(struct stage *s, struct worker *w, const char *name, struct module *m, bool want_optimized,
                  struct error *err)
{
    memset(s, 0, sizeof *s);
    arena_init(&s->arena);
    s->name = name;
    s->module = m;
    s->worker = w;
    s->n_args = (size_t)m->n_parameters;
    s->args = arena_new(&s->arena, int, s->n_args, err);
    s->owned = arena_new(&s->arena, bool, s->n_args, err);
    if (!s->args || !s->owned)
        return ERR_MEMORY;
    for (int i = 0; i < m->n_parameters; i++)
        s->args[i] = -1;
    struct str text;
    struct worker_program source;
    str_init(&text);
    int rc =
        device_module_compile(w, &s->arena, m, name, want_optimized, &s->kernels, &text, &source, &s->program, err);
    s->compiled = !rc;
    str_release(&text);
    return rc;
}

// ---- weights

int stage_load(struct stage *s, const struct checkpoint *c, struct error *err)
{
    if (s->loaded)
        return 0;
    uint64_t start = clock_ns();
    s->weights = (struct device_weights){0};
    int rc = bind_check(s->module, c, err);
    s->loaded = !rc;
    for (int i = 0; i < s->module->n_parameters && !rc; i++) {
        if (s->module->parameters[i].role == ROLE_WEIGHT && s->args[i] < 0) // scales come with their codes
            rc = device_module_weight(s->worker, s->module, c, i, s->args, &s->weights, NULL, err);
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
        rc = s->borrowed ? 0 : worker_free(s->worker, s->args[i], err);
        s->args[i] = -1;
    }
    s->loaded = s->borrowed = false;
    return rc;
}

// The weight of this name and shape, -1 when there is none: codes and their scales share a name.
static int weight_like(const struct stage *s, const struct parameter *p, const struct shape *shape)
{
    for (int i = 0; i < s->module->n_parameters; i++) {
        const struct parameter *have = &s->module->parameters[i];
        if (have->role == ROLE_WEIGHT && strcmp(have->name, p->name) == 0 &&
            shape_equal(stage_input_shape(s, i), shape))
            return i;
    }
    return -1;
}

int stage_borrow(struct stage *s, const struct stage *from, struct error *err)
{
    if (s->loaded)
        return 0;
    for (int i = 0; i < s->module->n_parameters; i++) {
        if (s->module->parameters[i].role != ROLE_WEIGHT)
            continue;
        int there = weight_like(from, &s->module->parameters[i], stage_input_shape(s, i));
        if (there < 0 || from->args[there] < 0)
            return error_set(err, ERR_INTERNAL, s->name, "the %s has no such \"%s\"", from->name,
                             s->module->parameters[i].name);
        s->args[i] = from->args[there];
    }
    s->loaded = s->borrowed = true;
    return 0;
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
        if (s->args[i] >= 0 && (s->owned[i] || (!s->borrowed && s->module->parameters[i].role == ROLE_WEIGHT)))
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

// The input with this name, -1 when there is none.
static int input_named(const struct stage *s, const char *name)
{
    for (int i = 0; i < s->module->n_parameters; i++) {
        if (s->module->parameters[i].role == ROLE_INPUT && strcmp(s->module->parameters[i].name, name) == 0)
            return i;
    }
    return -1;
}

static int place_of(struct stage *s, const char *name, int *out, struct error *err)
{
    *out = input_named(s, name);
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
    rc = device_module_upload(s->worker, s->module, i, bytes, s->args, NULL, err);
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
