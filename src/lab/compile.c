// SPDX-License-Identifier: Apache-2.0
#include "lab/compile_part.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "ir/policy.h"
#include "lab/resident.h"
#include "plan/layout.h"

// A program takes seconds; a transformer of 25 blocks or an image decoder takes minutes.
#define PROGRAM_S 300
#define REQUEST_S 1800

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

// ---- A pipeline

bool compile_pipeline(const struct compile *c, size_t i, struct compile_pipeline *out)
{
    const struct compile_stage *s = &c->cases[i].stage;
    double predicted = 0;
    if (s->of < 2 || s->number)
        return false;
    double turns = (double)s->microbatches + s->of - 1;
    *out = (struct compile_pipeline){.bubble = (s->of - 1) / turns};
    for (int k = 0; k < s->of; k++) {
        const struct compile_case *stage = &c->cases[i + (size_t)k];
        bool done = stage->state == COMPILE_DONE;
        double handed = stage->stage.handed_s, floor = done ? stage->floor_s + handed : (double)NAN;
        out->turn_s = isnan(floor) || floor > out->turn_s ? floor : out->turn_s;
        predicted = !done || isnan(stage->predicted_s)        ? (double)NAN
                    : stage->predicted_s + handed > predicted ? stage->predicted_s + handed
                                                              : predicted;
        if (isnan(out->turn_s) || isnan(predicted))
            break;
    }
    out->floor_s = turns * out->turn_s;
    out->predicted_s = turns * predicted;
    return true;
}

// ---- A request of several programs

static double memory_of(const struct compile_case *k)
{
    bool known = k->state == COMPILE_DONE && k->memory.allocated >= 0 && k->memory.code >= 0;
    return known ? (double)k->memory.allocated + (double)k->memory.code : NAN;
}

bool compile_request(const struct compile *c, size_t i, struct compile_request *out)
{
    struct resident_program programs[MODEL_MAX_PARTS];
    if (c->n_parts < 2 || c->cases[i].part != c->parts[0])
        return false;
    *out = (struct compile_request){.n = c->n_parts, .usable_bytes = c->cases[i].usable_bytes};
    for (size_t n = 0; n < c->n_parts; n++) {
        const struct compile_case *k = &c->cases[i + n];
        bool done = k->state == COMPILE_DONE;
        double calls = done ? (double)k->part->calls : NAN;
        programs[n] = (struct resident_program){done && k->weight_bytes >= 0 ? (double)k->weight_bytes : NAN,
                                                (double)k->memory.code, memory_of(k)};
        out->floor_s += k->floor_s * calls;
        out->predicted_s += k->predicted_s * calls;
        out->wall_s += k->wall_s;
        out->cpu_s += k->cpu_s;
    }
    out->resident_bytes = resident_bytes(programs, c->n_parts, c->request.one_model);
    return true;
}

// ---- The requirement

static const char *const metrics[] = {"fits",       "floor_us",  "predicted_us",   "memory_bytes",
                                      "code_bytes", "compile_s", "resident_bytes", NULL};

static double metric(const struct compile *c, size_t i, const char *name)
{
    const struct compile_case *k = &c->cases[i];
    bool done = k->state == COMPILE_DONE;
    struct compile_request request = {.resident_bytes = NAN};
    if (strcmp(name, "resident_bytes") == 0) {
        for (size_t n = 0; n < c->n_parts && n <= i && !compile_request(c, i - n, &request); n++)
            request.resident_bytes = NAN;
        return request.resident_bytes;
    }
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
    return memory_of(k);
}

bool compile_met(const struct compile *c)
{
    for (size_t i = 0; i < c->n_cases; i++) {
        for (int n = 0; c->has_require && n < c->require.n; n++) {
            if (!require_holds(&c->require, n, metric(c, i, c->require.clauses[n].metric), NULL))
                return false;
        }
    }
    return true;
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

// Programs of a pipeline for a target; 1: it is none.
static int stages_for(const struct compile_job *o, const char *name, int *stages, struct chip_target *t,
                      struct error *err)
{
    struct layout l = layout_single();
    int rc = chip_target_parse(name, t, err);
    if (!rc && o->layout && !program_is(o->workload))
        rc = layout_parse(&l, o->layout, t->devices, err);
    if (!rc && o->modules && l.ways[LAYOUT_PP] > 1)
        rc = error_set(err, ERR_USAGE, "--layout",
                       "a pipeline is several programs, whose batch comes in parts: `assay compile` compiles them");
    *stages = (int)l.ways[LAYOUT_PP];
    return rc;
}

// Which one of the cases of a target it is: policies, combinations of flags in these, programs in those, stages inmost.
struct place_of {
    size_t policy, combination, part;
    int stage;
};

static int make_case(struct compile *c, const struct choices *flags, const char *target, const struct place_of *at,
                     int stages, struct error *err)
{
    const struct compile_job *o = &c->options;
    struct compile_case *k = &c->cases[c->n_cases++];
    arena_init(&k->arena);
    k->target_name = target;
    k->policy_number = at->policy;
    k->policy = o->n_policies ? o->policies[at->policy] : NULL;
    k->part = c->n_parts ? c->parts[at->part] : NULL;
    k->stage.number = at->stage;
    k->stage.of = stages;
    pick_flags(flags, at->combination, k);
    int rc = chip_target_parse(target, &k->target, err);
    bool nvidia = !rc && k->target.chip->vendor && strcmp(k->target.chip->vendor, "NVIDIA") == 0;
    if (!rc && !k->target.chip->is_tpu && !nvidia)
        rc = error_set(err, ERR_USAGE, "--target", "there is no compiler here for %s: TPUs and NVIDIA GPUs have one",
                       target);
    return rc;
}

static int make_cases(struct compile *c, struct error *err)
{
    const struct compile_job *o = &c->options;
    struct choices flags = {.n_flags = 0};
    int rc = read_flags(c, &flags, err), stages;
    if (rc)
        return rc;
    size_t combinations = 1, policies = o->n_policies ? o->n_policies : 1, parts = c->n_parts ? c->n_parts : 1, n = 0;
    for (size_t i = 0; i < flags.n_names && combinations <= COMPILE_MAX_CASES; i++)
        combinations *= alternatives(&flags, i);
    for (size_t t = 0; t < o->n_targets && !rc && n <= COMPILE_MAX_CASES; t++) {
        struct chip_target target;
        rc = stages_for(o, o->targets[t], &stages, &target, err);
        n += rc || policies > COMPILE_MAX_CASES ? policies : policies * combinations * parts * (size_t)stages;
        if (!rc && stages > 1 && parts > 1)
            rc = error_set(err, ERR_USAGE, "--layout", "a pipeline is of one program: choose it by --program %s",
                           c->parts[0]->name);
    }
    if (!rc && n > COMPILE_MAX_CASES)
        return error_set(err, ERR_USAGE, "--sweep", "that is more than %d compilations", COMPILE_MAX_CASES);
    c->cases = rc ? NULL : arena_new(&c->arena, struct compile_case, n, err);
    if (!c->cases)
        return rc ? rc : ERR_MEMORY;
    for (size_t t = 0; t < o->n_targets; t++) {
        struct chip_target target;
        stages_for(o, o->targets[t], &stages, &target, err);
        for (size_t i = 0; i < policies * combinations * parts * (size_t)stages && !rc; i++) {
            size_t program = i / (size_t)stages, run = program / parts;
            struct place_of at = {run / combinations, run % combinations, program % parts, (int)(i % (size_t)stages)};
            rc = make_case(c, &flags, o->targets[t], &at, stages, err);
        }
    }
    return rc;
}

// The programs that a workload consists of, under the policy that it usually has.
static int open_request(struct compile *c, struct error *err)
{
    struct compile_job *o = &c->options;
    struct model_request *r = &c->request;
    if (!program_is(o->workload))
        return model_request(o->workload, &o->shape, &c->arena, r, err);
    struct program p;
    int rc = program_open(&p, o->workload, o->shape.weight_args, false, &c->arena, err);
    if (!rc)
        rc = model_request_program(&p, &o->shape, &c->arena, r, err);
    if (!rc)
        c->program = p.file;
    return rc;
}

static int add_program(struct compile *c, const char *name, struct error *err)
{
    struct str known;
    str_init(&known);
    struct model_part *found = NULL;
    for (int i = 0; i < c->request.n_parts; i++) {
        struct model_part *part = &c->request.parts[i];
        found = strcmp(part->name, name) == 0 ? part : found;
        str_addf(&known, "%s%s", i ? ", " : "", part->name);
    }
    int rc = 0;
    if (!found)
        rc = error_set(err, ERR_USAGE, "--program", "there is no program '%s' in %s: %s", name, c->options.workload,
                       str_text(&known));
    for (size_t i = 0; i < c->n_parts && !rc; i++) {
        if (c->parts[i] == found)
            rc = error_set(err, ERR_USAGE, "--program", "%s is given twice", name);
    }
    if (!rc)
        c->parts[c->n_parts++] = found;
    str_release(&known);
    return rc;
}

static int choose_programs(struct compile *c, struct error *err)
{
    const struct compile_job *o = &c->options;
    const struct model_request *r = &c->request;
    int rc = 0;
    if (r->n_parts < 2 && o->n_programs)
        return error_set(err, ERR_USAGE, "--program", "%s is one program", o->workload);
    for (int i = 0; i < r->n_parts && r->n_parts > 1 && !o->n_programs && !rc; i++)
        rc = add_program(c, r->parts[i].name, err);
    for (size_t i = 0; i < o->n_programs && !rc; i++)
        rc = add_program(c, o->programs[i], err);
    return rc;
}

// Of several programs some may not be divisible as it was asked for: these are refused, and the others go on.
static int make_module(struct compile *c, struct compile_case *k, struct error *err)
{
    struct error why = {0};
    struct model_request *r = &c->request;
    struct module *plain = k->part ? &k->part->module : &r->parts[0].module;
    if (!r->fixed && !k->policy)
        k->policy = model_request_policy(r);
    int rc = compile_case_model(c, k, plain, program_is(c->options.workload) ? NULL : &c->options.shape, &why);
    if (rc == ERR_USAGE && c->n_parts > 1 && strcmp(why.where, "--layout") == 0) {
        k->state = COMPILE_REFUSED;
        k->text = NULL;
        k->error = why;
        return 0;
    }
    return rc ? error_set(err, why.code, why.where, "%s", why.message) : 0;
}

static int make_modules(struct compile *c, struct error *err)
{
    int rc = 0;
    size_t refused = 0;
    if (c->request.fixed && c->options.n_policies)
        return c->program.path ? module_check_policies(&c->request.parts[0].module, c->options.workload, err)
                               : error_set(err, ERR_USAGE, "--policy", "a product has its type in its name");
    for (size_t i = 0; i < c->n_cases && !rc; i++) {
        rc = make_module(c, &c->cases[i], err);
        refused += c->cases[i].error.code != 0;
    }
    if (!rc && refused == c->n_cases) {
        const struct error *e = &c->cases[0].error;
        return error_set(err, e->code, e->where, "%s", e->message);
    }
    return rc;
}

int compile_open(struct compile *c, const struct compile_job *o, struct error *err)
{
    memset(c, 0, sizeof *c);
    arena_init(&c->arena);
    c->options = *o;
    // What a program goes through as it is.
    bool program = !o->modules && program_is(o->workload), plain = program && !o->n_policies;
    int rc = 0;
    if (o->require)
        rc = require_parse(&c->require, o->require, metrics, &c->arena, err);
    c->has_require = o->require != NULL;
    if (!rc && program && o->layout)
        rc = error_set(err, ERR_USAGE, "--layout", "a program says itself how it is divided, by mhlo.sharding or sdy");
    if (!rc && !o->modules && !plain)
        rc = open_request(c, err);
    if (!rc && !o->modules)
        rc = choose_programs(c, err);
    if (o->timeout_s <= 0)
        c->options.timeout_s = c->n_parts ? REQUEST_S : PROGRAM_S;
    if (!rc)
        rc = make_cases(c, err);
    for (size_t i = 0; i < c->n_cases && !rc && o->modules; i++)
        rc = compile_case_model(c, &c->cases[i], o->modules[c->cases[i].policy_number], NULL, err);
    if (rc || o->modules)
        return rc;
    return plain ? compile_program_open(c, err) : make_modules(c, err);
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
        char what[128];
        snprintf(what, sizeof what, "%s%s%s", k->target_name, k->part ? ": " : "", k->part ? k->part->name : "");
        progress_report(r->c->options.progress, what, r->done, r->c->n_cases);
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
    rc = interrupt_check("compiling", err);
    for (size_t i = 0; i < c->n_cases && !rc && c->options.emulations; i++) {
        if (c->cases[i].state == COMPILE_DONE)
            rc = compile_case_emulations(c, &c->cases[i], err);
    }
    return rc;
}
