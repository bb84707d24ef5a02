// SPDX-License-Identifier: Apache-2.0
// All steps from noise to latents as one program.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/rewrite.h"
#include "lab/stages_part.h"
#include "num/convert.h"
#include "num/measures.h"

// What the parameters of an inlined module are in the larger one.
struct place {
    const char *name; // of an input
    int value;
};

static int value_named(const struct place *places, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(places[i].name, name) == 0)
            return places[i].value;
    }
    return -1;
}

// The instructions of m in `region`. `parameters`: the value of each of its parameters; results by name into `to`.
static int inline_module(struct module *into, const struct module *m, int region, const int *parameters, int n,
                         const char *const *names, int *to, struct error *err)
{
    struct rewrite w;
    int rc = rewrite_init(&w, m, into, err);
    if (rc)
        return rc;
    w.base = region;
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        w.map[i] = in->op == OP_PARAMETER ? parameters[in->parameter] : rewrite_copy(&w, in);
    }
    for (int r = 0; r < m->n_results; r++) {
        for (int k = 0; k < n; k++) {
            if (strcmp(m->result_names[r], names[k]) == 0)
                to[k] = w.map[m->results[r]];
        }
    }
    if (w.b.error.code)
        *err = w.b.error;
    return w.b.error.code;
}

struct loop {
    const struct klein *k;
    struct builder b;
    struct module *to;
    int *from; // of each parameter of the loop
    int deltas, text[2], guidance, latent;
    int *step_parameters;                // values of the step's own
    int i_latent, i_step, i_text;        // of them, those that change
    int counter, latents, nonfinite, at; // in the body
};

static int add_parameter(struct loop *l, int from, enum param_role role, const char *name, struct shape shape,
                         const struct binding *binding)
{
    l->from[l->to->n_parameters] = from;
    return build_parameter(&l->b, role, name, shape, binding);
}

// All of the step's but "step", which the loop counts, and what the update takes beside them.
static void add_parameters(struct loop *l)
{
    const struct module *step = &l->k->modules[KLEIN_STEP];
    for (int i = 0; i < step->n_parameters; i++) {
        const struct parameter *p = &step->parameters[i];
        bool input = p->role == ROLE_INPUT;
        if (input && strcmp(p->name, "step") == 0) {
            l->i_step = i;
            continue;
        }
        bool latent = input && strcmp(p->name, "latent") == 0, text = input && strcmp(p->name, "text") == 0;
        l->step_parameters[i] = add_parameter(l, latent ? STAGES_LOOP_LATENT : i, p->role, p->name,
                                              *device_module_parameter(step, i), &p->binding);
        l->i_latent = latent ? i : l->i_latent;
        l->i_text = text ? i : l->i_text;
    }
    l->latent = l->step_parameters[l->i_latent];
    l->text[0] = l->step_parameters[l->i_text];
    struct shape deltas = SHAPE(DT_F32, l->k->schedule.steps), scalar = {.dtype = DT_F32};
    l->deltas = add_parameter(l, STAGES_LOOP_DELTAS, ROLE_INPUT, "deltas", deltas, NULL);
    if (l->k->guided) {
        l->text[1] = add_parameter(l, STAGES_LOOP_EMPTY, ROLE_INPUT, "text.empty",
                                   *device_module_parameter(step, l->i_text), NULL);
        l->guidance = add_parameter(l, STAGES_LOOP_GUIDANCE, ROLE_INPUT, "guidance", scalar, NULL);
    }
}

static int velocities(struct loop *l, int body, int v[2], struct error *err)
{
    static const char *const names[] = {"velocity"};
    int rc = 0;
    l->step_parameters[l->i_latent] = l->latents;
    l->step_parameters[l->i_step] = l->counter;
    for (int w = 0; w < (l->k->guided ? 2 : 1) && !rc; w++) {
        l->step_parameters[l->i_text] = l->text[w];
        rc = inline_module(l->to, &l->k->modules[KLEIN_STEP], body, l->step_parameters, 1, names, &v[w], err);
    }
    return rc;
}

static int update(struct loop *l, int body, const int v[2], int out[2], struct error *err)
{
    static const char *const names[] = {"latent", "nonfinite"};
    const struct module *m = &l->k->modules[KLEIN_UPDATE];
    const int64_t one[] = {1};
    int delta = build_reshape(&l->b, build_dynamic_slice(&l->b, l->deltas, &l->counter, one), 0, NULL);
    const struct place places[] = {{"latent", l->latents},
                                   {"velocity", v[0]},
                                   {"velocity.empty", v[1]},
                                   {"delta", delta},
                                   {"guidance", l->guidance}};
    int *parameters = arena_new(l->to->arena, int, (size_t)m->n_parameters, err);
    if (!parameters)
        return ERR_MEMORY;
    for (int i = 0; i < m->n_parameters; i++)
        parameters[i] = value_named(places, 5, m->parameters[i].name);
    return inline_module(l->to, m, body, parameters, 2, names, out, err);
}

static int region_of(struct loop *l, const struct shape *state, int n)
{
    int r = builder_region(&l->b);
    int *const to[] = {&l->counter, &l->latents, &l->nonfinite};
    l->b.region = r;
    for (int i = 0; i < n; i++)
        *to[i] = build_region_parameter(&l->b, r, state[i]);
    return r;
}

static int add_loop(struct loop *l, struct error *err)
{
    struct builder *b = &l->b;
    struct shape s32 = {.dtype = DT_S32};
    const struct shape state[] = {s32, *builder_shape(b, l->latent), s32};
    int zero = build_splat(b, s32, 0), more, v[2] = {-1, -1}, next[3] = {-1, -1, -1};
    int condition = region_of(l, state, 3);
    more = build_compare(b, CMP_LT, l->counter, build_splat(b, s32, (double)l->k->schedule.steps));
    builder_region_results(b, condition, &more, 1);
    b->region = 0;
    int body = region_of(l, state, 3), rc = velocities(l, body, v, err);
    if (!rc)
        rc = update(l, body, v, &next[1], err);
    if (rc)
        return rc;
    next[0] = build_binary_scalar(b, OP_ADD, l->counter, 1);
    next[2] = build_binary(b, OP_ADD, l->nonfinite, next[2]);
    builder_region_results(b, body, next, 3);
    b->region = 0;
    int many = build_while(b, (const int[]){zero, l->latent, zero}, 3, condition, body, l->k->schedule.steps);
    build_result(b, "latent", build_element(b, many, 1));
    build_result(b, "nonfinite", build_element(b, many, 2));
    return builder_finish(b, err);
}

int stages_loop_module(const struct klein *k, struct module *to, int **from, struct error *err)
{
    size_t n = (size_t)k->modules[KLEIN_STEP].n_parameters;
    struct loop l = {.k = k, .to = to, .text = {-1, -1}, .guidance = -1};
    builder_init(&l.b, to);
    builder_scope(&l.b, "steps", "steps");
    l.step_parameters = arena_new(to->arena, int, n, err);
    *from = l.from = arena_new(to->arena, int, n + 4, err);
    if (!l.from || !l.step_parameters)
        return ERR_MEMORY;
    add_parameters(&l);
    return add_loop(&l, err);
}

// ---- on the device

// Buffers of the loop that the step does not have, by STAGES_LOOP_*.
struct buffers {
    int noise, deltas, empty, guidance;
};

static void set_arguments(struct stages *s, struct stage *g, const int *from, const struct buffers *b)
{
    const struct stage *step = &s->klein.stages[KLEIN_STEP];
    for (int i = 0; i < g->module->n_parameters; i++) {
        g->args[i] = from[i] >= 0                    ? step->args[from[i]]
                     : from[i] == STAGES_LOOP_LATENT ? b->noise
                     : from[i] == STAGES_LOOP_DELTAS ? b->deltas
                     : from[i] == STAGES_LOOP_EMPTY  ? b->empty
                                                     : b->guidance;
    }
}

// Values of a buffer as f64, malloc'd.
static int download(struct stages *s, int buffer, const struct shape *shape, double **out, struct error *err)
{
    size_t n = (size_t)shape_elements(shape), bytes = (size_t)shape_bytes(shape);
    void *raw = malloc(bytes + 1);
    *out = malloc((n + 1) * sizeof **out);
    int rc = raw && *out ? worker_download(s->klein.worker, buffer, raw, bytes, err)
                         : error_set(err, ERR_MEMORY, NULL, "no memory for latents");
    if (!rc)
        rc = convert_elements(DT_F64, *out, shape->dtype, raw, n, err);
    free(raw);
    return rc;
}

// The latents of both ways beside each other.
static int compare(struct stages *s, struct stage *g, struct error *err)
{
    struct measures m;
    int outputs[2];
    double *by_steps = NULL, *by_loop = NULL;
    const struct shape *shape = stage_result(g, 0);
    size_t n = (size_t)shape_elements(shape);
    int rc = stage_run(g, outputs, err);
    if (rc)
        return rc;
    rc = download(s, s->klein.latents, shape, &by_steps, err);
    if (!rc)
        rc = download(s, outputs[0], shape, &by_loop, err);
    measures_begin(&m, n, 1e-30);
    if (!rc)
        rc = measures_add(&m, by_steps, DT_F64, by_loop, 1, err);
    measures_finish(&m);
    s->modules[STAGES_M_LOOP].snr_db = m.snr_db;
    if (!rc)
        rc = stages_keep_buffer(s, stages_module_name(STAGES_M_LOOP), shape, outputs[0], err);
    free(by_steps);
    free(by_loop);
    for (int i = 0; i < 2 && !rc; i++)
        rc = worker_free(s->klein.worker, outputs[i], err);
    return rc;
}

static int time_loop(struct stages *s, struct stage *g, const struct progress *progress, struct error *err)
{
    struct stages_module *t = &s->modules[STAGES_M_LOOP];
    struct stages_program p = {s->klein.worker, &g->program, g->args, g->n_args};
    const char *name = stages_module_name(STAGES_M_LOOP);
    t->calls = 1;
    t->compile_ns = g->program.compile_ns;
    int rc = stages_time(s, &t->time, &p, name, progress, err);
    if (!rc)
        rc = compare(s, g, err);
    return rc ? rc : stages_judge(s, STAGES_M_LOOP, g->module, 1, err);
}

int stages_run_loop(struct stages *s, const void *noise, const struct progress *progress, struct error *err)
{
    struct klein *k = &s->klein;
    struct module m;
    struct stage g = {.worker = k->worker};
    struct buffers b = {-1, -1, k->text[1], -1};
    const struct shape deltas = SHAPE(DT_F32, k->schedule.steps), scalar = {.dtype = DT_F32};
    float guidance = (float)k->guidance;
    int *from;
    module_init(&m, &s->arena, "all steps");
    progress_report(progress, "compile all steps", 0, 0);
    int rc = stages_loop_module(k, &m, &from, err);
    if (!rc)
        rc = stage_compile(&g, k->worker, stages_module_name(STAGES_M_LOOP), &m, s->options->trace, err);
    if (!rc)
        rc = stages_upload(s, k->schedule.deltas, &deltas, &b.deltas, err);
    if (!rc)
        rc = stages_upload(s, &guidance, &scalar, &b.guidance, err);
    for (int i = 0; i < m.n_parameters && !rc && b.noise < 0; i++) {
        if (from[i] == STAGES_LOOP_LATENT)
            rc = stages_upload(s, noise, device_module_parameter(&m, i), &b.noise, err);
    }
    if (!rc) // the last step has left the empty prompt's there
        rc = stage_set(&k->stages[KLEIN_STEP], "text", k->text[0], err);
    if (!rc) {
        set_arguments(s, &g, from, &b);
        rc = time_loop(s, &g, progress, err);
    }
    for (size_t i = 0; i < g.n_args; i++) // they belong to the step, or are freed here
        g.args[i] = -1;
    const int mine[] = {b.noise, b.deltas, b.guidance};
    for (int i = 0; i < 3 && !rc; i++)
        rc = worker_free(k->worker, mine[i], err);
    stage_release(&g);
    return rc;
}
