// SPDX-License-Identifier: Apache-2.0
#include "precision_run.h"

#include "test.h"

int precision_run_suite(struct precision *p, const char *suite, struct precision_options *o, struct error *e)
{
    static const char *name; // options borrow it; each test is a process of its own
    name = suite;
    o->suites = &name;
    o->n_suites = 1;
    int rc = precision_open(p, o, NULL, e);
    return rc ? rc : precision_run(p, NULL, e);
}

const struct precision_case *precision_find_case(const struct precision_document *d, const char *name)
{
    for (size_t i = 0; i < d->n_cases; i++) {
        if (strcmp(d->cases[i]->name, name) == 0)
            return d->cases[i];
    }
    printf("  there is no case %s\n", name);
    return NULL;
}

void precision_check_checks(const struct precision_document *d, size_t at_least)
{
    for (size_t i = 0; i < d->n_checks; i++) {
        const struct precision_check *c = &d->checks[i];
        if (!CHECK(c->ok))
            printf("  %s: %s, not %s\n", c->name, c->got, c->expected);
    }
    CHECK(d->n_checks >= at_least);
}
