// SPDX-License-Identifier: Apache-2.0
#include "lab/precision.h"

#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/suggest.h"
#include "lab/precision_tensor.h"

#define DECLARE(name) extern const struct precision_suite precision_suite_##name;
PRECISION_SUITES(DECLARE)
#undef DECLARE

#define LIST(name) &precision_suite_##name,
const struct precision_suite *const precision_suites[] = {PRECISION_SUITES(LIST) NULL};
#undef LIST

const struct precision_suite *precision_find_suite(const char *name)
{
    for (size_t i = 0; precision_suites[i]; i++) {
        if (strcmp(precision_suites[i]->name, name) == 0)
            return precision_suites[i];
    }
    return NULL;
}

void precision_words(struct str *out)
{
    for (size_t i = 0; precision_suites[i]; i++)
        str_addf(out, "%s\n", precision_suites[i]->name);
}

// "accumulate, lab"
static void list_suites(struct str *out)
{
    for (size_t i = 0; precision_suites[i]; i++)
        str_addf(out, "%s%s", i ? ", " : "", precision_suites[i]->name);
}

static int unknown_suite(const char *name, struct error *err)
{
    struct suggest near = {.wanted = name};
    struct str known;
    str_init(&known);
    list_suites(&known);
    for (size_t i = 0; precision_suites[i]; i++)
        suggest_offer(&near, precision_suites[i]->name);
    error_set(err, ERR_USAGE, "--suite", "no suite is called \"%.60s\"%s%s%s; there are: %s", name,
              near.best ? "; did you mean " : "", near.best ? near.best : "", near.best ? "?" : "", str_text(&known));
    str_release(&known);
    return ERR_USAGE;
}

// An option that nothing looks at was given in vain.
static int check_uses(const struct precision_options *o, unsigned uses, struct error *err)
{
    const struct {
        const char *name;
        bool given;
        unsigned bit;
    } rows[] = {
        {"--batch", o->batch != 0, PRECISION_USES_SHAPE | PRECISION_USES_BATCH},
        {"--features", o->features != 0, PRECISION_USES_SHAPE},
        {"--outputs", o->outputs != 0, PRECISION_USES_SHAPE},
        {"--steps", o->steps != 0, PRECISION_USES_STEPS},
        {"--trace", o->trace, PRECISION_USES_TRACE},
        {"--seed", o->seed_given, PRECISION_USES_SEED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].given && !(uses & rows[i].bit))
            return error_set(err, ERR_USAGE, rows[i].name, "no suite asked for uses it");
    }
    return 0;
}

static int check(const struct precision_options *o, struct error *err)
{
    unsigned uses = 0;
    for (size_t i = 0; i < o->n_suites; i++) {
        const struct precision_suite *suite = precision_find_suite(o->suites[i]);
        if (!suite)
            return unknown_suite(o->suites[i], err);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(o->suites[k], o->suites[i]) == 0)
                return error_set(err, ERR_USAGE, "--suite", "%s was given twice", o->suites[i]);
        }
        uses |= suite->uses;
    }
    if (o->n_policies && !o->tensor)
        return error_set(err, ERR_USAGE, "--policy", "needs --tensor: suites have policies of their own");
    if (o->tensor)
        uses |= precision_suite_tensor.uses;
    if (o->n_suites == 0 && !o->tensor) {
        struct str known;
        str_init(&known);
        list_suites(&known);
        error_set(err, ERR_USAGE, "--suite", "name a suite, or --tensor FILE:NAME; there are: %s", str_text(&known));
        str_release(&known);
        return ERR_USAGE;
    }
    int rc = check_uses(o, uses, err);
    for (size_t i = 0; i < o->n_suites && !rc; i++) {
        const struct precision_suite *suite = precision_find_suite(o->suites[i]);
        rc = suite->check ? suite->check(o, err) : 0;
    }
    return rc;
}

int precision_open(struct precision *p, const struct precision_options *o, const struct progress *progress,
                   struct error *err)
{
    memset(p, 0, sizeof *p);
    arena_init(&p->arena);
    p->options = o;
    p->progress = progress;
    int rc = check(o, err);
    if (!rc && o->tensor)
        rc = precision_tensor_open(&p->tensor, o, err);
    if (rc)
        precision_close(p);
    else
        host_read(&p->host, "/");
    return rc;
}

void precision_close(struct precision *p)
{
    worker_stop(p->worker);
    precision_tensor_close(p->tensor);
    arena_release(&p->arena);
    memset(p, 0, sizeof *p);
}

bool precision_failed(const struct precision *p)
{
    for (size_t i = 0; i < p->n_documents; i++) {
        for (size_t k = 0; k < p->documents[i]->n_checks; k++) {
            if (!p->documents[i]->checks[k].ok)
                return true;
        }
    }
    return false;
}

int precision_begin(struct precision *p, const char *name, const char *help, struct error *err)
{
    struct precision_document **grown = arena_grow(&p->arena, p->documents, &p->cap_documents, p->n_documents + 1,
                                                   sizeof(struct precision_document *), err);
    struct precision_document *d = grown ? arena_new(&p->arena, struct precision_document, 1, err) : NULL;
    if (!d)
        return ERR_MEMORY;
    d->name = name;
    d->help = help;
    p->documents = grown;
    p->documents[p->n_documents++] = p->document = d;
    return 0;
}

static int run_suite(struct precision *p, const struct precision_suite *suite, struct error *err)
{
    uint64_t start = clock_ns();
    int rc = precision_begin(p, suite->name, suite->help, err);
    p->trace_each = (suite->uses & PRECISION_TRACES_EACH) == PRECISION_TRACES_EACH;
    if (!rc)
        rc = suite->run(p, err);
    if (!rc && p->options->trace && p->trace_each)
        rc = precision_write_profile(p, suite->name, err);
    if (!rc && p->error.code)
        rc = error_set(err, p->error.code, p->error.where, "%s", p->error.message);
    if (!rc)
        p->document->wall_s = (double)(clock_ns() - start) / 1e9;
    return rc;
}

// Every sample once more, for those who read tables.
static int save_samples(const struct precision *p, struct error *err)
{
    struct str text;
    size_t rows = 0;
    str_init(&text);
    str_add(&text, "suite,program,run,ns\n");
    for (size_t i = 0; i < p->n_documents; i++) {
        const struct precision_document *d = p->documents[i];
        for (size_t k = 0; k < d->n_programs; k++) {
            for (size_t r = 0; r < d->programs[k]->n_samples; r++, rows++)
                str_addf(&text, "%s,\"%s\",%zu,%.0f\n", d->name, d->programs[k]->name, r,
                         d->programs[k]->samples_ns[r]);
        }
    }
    int rc = str_check(&text, err);
    if (!rc && rows)
        rc = record_write(p->record, "samples/time.csv", text.text, text.length, err);
    str_release(&text);
    return rc;
}

// A profile was asked for, so an empty one is an error.
static int check_traced(const struct precision *p, struct error *err)
{
    for (size_t i = 0; i < p->n_documents; i++) {
        for (size_t k = 0; k < p->documents[i]->n_programs; k++) {
            if (p->documents[i]->programs[k]->spans)
                return 0;
        }
    }
    return error_set(err, ERR_DEVICE, "--trace", "the profile is empty: no program ran on the device");
}

int precision_run(struct precision *p, struct record *record, struct error *err)
{
    uint64_t start = clock_ns();
    p->record = record;
    int rc = 0;
    for (size_t i = 0; i < p->options->n_suites && !rc; i++)
        rc = run_suite(p, precision_find_suite(p->options->suites[i]), err);
    if (!rc && p->tensor)
        rc = run_suite(p, &precision_suite_tensor, err);
    if (!rc && record)
        rc = save_samples(p, err);
    if (!rc && record && p->options->trace)
        rc = check_traced(p, err);
    p->wall_s = (double)(clock_ns() - start) / 1e9;
    return rc ? rc : interrupt_check("running", err);
}
