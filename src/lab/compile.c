// SPDX-License-Identifier: Apache-2.0
#include "lab/compile_part.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "ir/policy.h"
#include "models/builtin.h"
#include "plan/divide.h"

const char *compile_state_name(enum compile_state s)
{
    static const char *const names[] = {"compiled", "does not fit", "refused", "died"};
    return names[s];
}

const char *compile_kind_name(enum compile_kind k)
{
    static const char *const names[] = {"operation", "prefetch", "transfer", "collective", "wait", "loop"};
    return names[k];
}

// ---- The requirement

static const char *const metrics[] = {"fits",      "floor_us", "predicted_us", "memory_bytes", "code_bytes",
                                      "compile_s", NULL};

static double metric(const struct compile_case *k, const char *name)
{
    bool done = k->state == COMPILE_DONE;
    if (strcmp(name, "fits") == 0)
        return done ? 1 : k->state == COMPILE_TOO_LARGE ? 0 : NAN;
    if (!done)
        return NAN;
    if (strcmp(name, "floor_us") == 0)
        return k->floor_s * 1e6;
    if (strcmp(name, "predicted_us") == 0)
        return k->predicted_s * 1e6;
    if (strcmp(name, "compile_s") == 0)
        return k->wall_s;
    if (strcmp(name, "code_bytes") == 0)
        return k->memory.code < 0 ? NAN : (double)k->memory.code;
    bool known = k->memory.allocated >= 0 && k->memory.code >= 0;
    return known ? (double)k->memory.allocated + (double)k->memory.code : NAN;
}

bool compile_met(const struct compile *c)
{
    for (size_t i = 0; i < c->n_cases; i++) {
        for (int n = 0; c->has_require && n < c->require.n; n++) {
            if (!require_holds(&c->require, n, metric(&c->cases[i], c->require.clauses[n].metric), NULL))
                return false;
        }
    }
    return true;
}

// ---- The workload

// The same product asks for as many passes as its precision says.
static int set_precision(struct module *m, const char *name, struct error *err)
{
    static const char *const names[] = {"default", "high", "highest"};
    int p = 0;
    while (p < 3 && strcmp(names[p], name) != 0)
        p++;
    if (p == 3)
        return error_set(err, ERR_USAGE, "--precision", "'%s' is not default, high or highest", name);
    for (int i = 0; i < m->n_instructions; i++) {
        if (m->instructions[i].op == OP_DOT)
            m->instructions[i].dot.precision = (enum dot_precision)p;
    }
    return 0;
}

static int model_case(struct compile *c, struct compile_case *k, struct module *plain, struct error *err)
{
    struct module *m = arena_new(&k->arena, struct module, 1, err);
    struct policy policy;
    struct layout layout = layout_single();
    struct divided divided;
    int rc = m ? 0 : ERR_MEMORY;
    if (!rc)
        module_init(m, &k->arena, c->options.workload);
    if (!rc && k->policy && !c->options.modules) {
        rc = policy_parse(&policy, k->policy, err);
        if (!rc)
            rc = module_apply_policy(plain, &policy, false, m, err);
    } else {
        m = plain;
    }
    k->module = m;
    if (!rc && c->options.precision)
        rc = set_precision(m, c->options.precision, err);
    if (!rc && c->options.layout)
        rc = layout_parse(&layout, c->options.layout, k->target.devices, err);
    if (!rc)
        rc = divide_module(k->module, &layout, k->target.slices, &k->arena, &divided, err);
    struct str text;
    str_init(&text);
    if (!rc) {
        k->module = divided.module;
        rc = module_print_divided(k->module, &divided.division, &text, err);
    }
    if (!rc) {
        k->text_bytes = text.length;
        k->text = arena_strndup(&k->arena, text.text, text.length, err);
        rc = k->text ? 0 : ERR_MEMORY;
    }
    k->format = "mlir";
    k->partitions = (int)(layout_devices(&layout) / layout.ways[LAYOUT_PP]);
    str_release(&text);
    return rc;
}

// ---- The cases

// "NAME=VALUE" in two; the name without leading dashes, as people copy it.
static int split_flag(struct arena *a, const char *text, struct worker_override *out, struct error *err)
{
    *out = (struct worker_override){"", ""};
    text += strspn(text, "-");
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return error_set(err, ERR_USAGE, "--flag", "'%s' is not NAME=VALUE", text);
    const char *name = arena_strndup(a, text, (size_t)(equals - text), err);
    if (!name)
        return ERR_MEMORY;
    *out = (struct worker_override){name, equals + 1};
    return 0;
}

struct choices {
    struct worker_override flags[COMPILE_MAX_FLAGS];
    size_t n_flags;
    size_t name_of[COMPILE_MAX_FLAGS]; // which of the names each flag has
    size_t n_names;
};

static int read_flags(struct compile *c, struct choices *out, struct error *err)
{
    const struct compile_job *o = &c->options;
    if (o->n_flags > COMPILE_MAX_FLAGS)
        return error_set(err, ERR_USAGE, "--flag", "at most %d are taken", COMPILE_MAX_FLAGS);
    out->n_flags = o->n_flags;
    int rc = 0;
    for (size_t i = 0; i < o->n_flags && !rc; i++) {
        rc = split_flag(&c->arena, o->flags[i], &out->flags[i], err);
        size_t k = 0;
        while (!rc && k < i && strcmp(out->flags[k].name, out->flags[i].name) != 0)
            k++;
        out->name_of[i] = k < i ? out->name_of[k] : out->n_names++;
        if (!rc && k < i && !o->sweep)
            rc = error_set(err, ERR_USAGE, "--flag", "%s is given twice; --sweep tries both", out->flags[i].name);
    }
    return rc;
}

// How many flags have this name.
static size_t alternatives(const struct choices *f, size_t name)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_flags; i++)
        n += f->name_of[i] == name;
    return n;
}

// The flags of combination `which`, a mixed-radix number with a digit for each name.
static void pick_flags(const struct choices *f, size_t which, struct compile_case *k)
{
    for (size_t name = 0; name < f->n_names; name++) {
        size_t n = alternatives(f, name), digit = which % n;
        which /= n;
        for (size_t i = 0; i < f->n_flags; i++) {
            if (f->name_of[i] == name && digit-- == 0)
                k->flags[k->n_flags++] = f->flags[i];
        }
    }
}

static int make_cases(struct compile *c, struct error *err)
{
    const struct compile_job *o = &c->options;
    struct choices flags = {.n_flags = 0};
    int rc = read_flags(c, &flags, err);
    if (rc)
        return rc;
    size_t combinations = 1, policies = o->n_policies ? o->n_policies : 1;
    for (size_t i = 0; i < flags.n_names && combinations <= COMPILE_MAX_CASES; i++)
        combinations *= alternatives(&flags, i);
    if (combinations > COMPILE_MAX_CASES || o->n_targets > COMPILE_MAX_CASES || policies > COMPILE_MAX_CASES ||
        o->n_targets * policies * combinations > COMPILE_MAX_CASES)
        return error_set(err, ERR_USAGE, "--sweep", "that is more than %d compilations", COMPILE_MAX_CASES);
    size_t n = o->n_targets * policies * combinations;
    c->cases = arena_new(&c->arena, struct compile_case, n, err);
    if (!c->cases)
        return ERR_MEMORY;
    for (size_t i = 0; i < n && !rc; i++) {
        struct compile_case *k = &c->cases[i];
        arena_init(&k->arena);
        c->n_cases++;
        k->target_name = o->targets[i / (policies * combinations)];
        k->policy = o->n_policies ? o->policies[i / combinations % policies] : NULL;
        pick_flags(&flags, i % combinations, k);
        rc = chip_target_parse(k->target_name, &k->target, err);
        bool nvidia = !rc && k->target.chip->vendor && strcmp(k->target.chip->vendor, "NVIDIA") == 0;
        if (!rc && !k->target.chip->is_tpu && !nvidia)
            rc = error_set(err, ERR_USAGE, "--target",
                           "there is no compiler here for %s: TPUs and NVIDIA GPUs have one", k->target_name);
        if (!rc && k->target.slices > 1)
            rc = error_set(err, ERR_USAGE, "--target", "one slice is compiled for, not %d", k->target.slices);
    }
    return rc;
}

// A program that a policy is to be applied to.
static int rewritten(struct compile *c, const struct model_shape *shape, struct module *m, struct error *err)
{
    struct program p;
    struct model_request r;
    int rc = program_open(&p, c->options.workload, shape->weight_args, false, &c->arena, err);
    if (!rc)
        rc = model_request_program(&p, shape, &c->arena, &r, err);
    if (rc)
        return rc;
    c->program = p.file;
    c->fixed = r.fixed;
    *m = r.parts[0].module;
    return 0;
}

int compile_open(struct compile *c, const struct compile_job *o, struct error *err)
{
    memset(c, 0, sizeof *c);
    arena_init(&c->arena);
    c->options = *o;
    struct module *plain = arena_new(&c->arena, struct module, 1, err);
    int rc = plain ? 0 : ERR_MEMORY;
    if (!rc && o->require)
        rc = require_parse(&c->require, o->require, metrics, &c->arena, err);
    c->has_require = o->require != NULL;
    if (!rc)
        rc = make_cases(c, err);
    for (size_t i = 0; i < c->n_cases && !rc && o->modules; i++) // a policy's cases stand behind one another
        rc = model_case(c, &c->cases[i], o->modules[i / (c->n_cases / o->n_targets / o->n_policies) % o->n_policies],
                        err);
    if (o->modules)
        return rc;
    bool program = program_is(o->workload);
    if (!rc && program && o->layout)
        rc = error_set(err, ERR_USAGE, "--layout", "a program says itself how it is divided, by mhlo.sharding or sdy");
    if (!rc && program && !o->n_policies) {
        rc = compile_program_open(c, err);
    } else if (!rc) {
        struct model_shape shape = {.batch = o->batch, .seq = o->seq, .weight_args = o->weight_args};
        module_init(plain, &c->arena, o->workload);
        rc = program ? rewritten(c, &shape, plain, err) : model_module(o->workload, &shape, plain, &c->fixed, err);
        if (!rc && c->fixed && o->n_policies)
            rc = error_set(err, ERR_USAGE, "--policy",
                           program ? "the program has floats of 8 bits; policies start from wider ones"
                                   : "a product has its type in its name");
        for (size_t i = 0; i < c->n_cases && !rc; i++) {
            struct compile_case *k = &c->cases[i];
            if (!c->fixed && !k->policy)
                k->policy = "f32";
            rc = model_case(c, k, plain, err);
        }
    }
    return rc;
}

void compile_close(struct compile *c)
{
    for (size_t i = 0; i < c->n_cases; i++)
        arena_release(&c->cases[i].arena);
    arena_release(&c->arena);
    c->n_cases = 0;
}

// ---- Running them

struct running {
    struct compile *c;
    pthread_mutex_t lock;
    size_t done;
    struct error error;
};

static void run_some(void *context, size_t from, size_t to)
{
    struct running *r = context;
    for (size_t i = from; i < to; i++) {
        struct compile_case *k = &r->c->cases[i];
        struct error err = {0};
        pthread_mutex_lock(&r->lock);
        progress_report(r->c->options.progress, k->target_name, r->done, r->c->n_cases);
        bool stop = r->error.code != 0;
        pthread_mutex_unlock(&r->lock);
        int rc = stop ? 0 : compile_case_run(r->c, k, i, &err);
        pthread_mutex_lock(&r->lock);
        r->done++;
        if (rc && !r->error.code)
            r->error = err;
        pthread_mutex_unlock(&r->lock);
    }
}

int compile_run(struct compile *c, struct error *err)
{
    size_t jobs = c->options.jobs > 0 ? (size_t)c->options.jobs : (threads_available() + 1) / 2;
    jobs = jobs < c->n_cases ? jobs : c->n_cases;
    struct running r = {.c = c};
    if (c->options.dump && mkdir(c->options.dump, 0777) != 0)
        return error_set(err, errno == EEXIST ? ERR_USAGE : ERR_IO, c->options.dump, "cannot be made as a folder: %s",
                         strerror(errno));
    struct threads *threads = NULL;
    int rc = threads_new(&threads, jobs ? jobs : 1, err);
    if (rc)
        return rc;
    pthread_mutex_init(&r.lock, NULL);
    threads_for(threads, c->n_cases, 1, run_some, &r);
    pthread_mutex_destroy(&r.lock);
    threads_free(threads);
    if (r.error.code)
        return error_set(err, r.error.code, r.error.where, "%s", r.error.message);
    return interrupt_check("compiling", err);
}
