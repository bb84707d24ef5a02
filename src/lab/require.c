// SPDX-License-Identifier: Apache-2.0
#include "lab/require.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const char *const symbols[] = {"<=", ">=", "<", ">", "=="};
static const char *const opposites[] = {">", "<", ">=", "<=", "!="};

static const char *skip(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

static int fail(const char *text, const char *at, const char *what, const char *const *metrics, struct error *err)
{
    struct str list;
    str_init(&list);
    for (int i = 0; metrics[i]; i++)
        str_addf(&list, "%s%s", i ? ", " : "", metrics[i]);
    int rc = error_set(err, ERR_USAGE, "--require", "%s at character %d of '%s'; metrics: %s", what,
                       (int)(at - text) + 1, text, str_text(&list));
    str_release(&list);
    return rc;
}

static int parse_clause(struct require *r, const char **at, const char *const *metrics, struct error *err)
{
    const char *p = skip(*at), *start = p;
    struct require_clause *c = &r->clauses[r->n];
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    for (int i = 0; metrics[i]; i++) {
        if (strlen(metrics[i]) == (size_t)(p - start) && memcmp(metrics[i], start, (size_t)(p - start)) == 0)
            c->metric = metrics[i];
    }
    if (!c->metric)
        return fail(r->text, start, "expected a metric", metrics, err);
    p = skip(p);
    size_t op = 0;
    while (op < 5 && strncmp(p, symbols[op], strlen(symbols[op])) != 0)
        op++;
    if (op == 5)
        return fail(r->text, p, "expected <=, >=, <, > or ==", metrics, err);
    c->op = (enum require_op)op;
    p = skip(p + strlen(symbols[op]));
    char number[64];
    size_t n = strcspn(p, " \t");
    snprintf(number, sizeof number, "%.*s", n < 63 ? (int)n : 63, p);
    if (n == 0 || n > 63 || !parse_double(number, &c->limit))
        return fail(r->text, p, "expected a number", metrics, err);
    r->n++;
    *at = skip(p + n);
    return 0;
}

int require_parse(struct require *r, const char *text, const char *const *metrics, struct arena *a, struct error *err)
{
    memset(r, 0, sizeof *r);
    r->text = arena_strdup(a, text, err);
    if (!r->text)
        return ERR_MEMORY;
    const char *p = r->text;
    for (;;) {
        if (r->n == REQUIRE_MAX)
            return fail(r->text, p, "too many clauses", metrics, err);
        int rc = parse_clause(r, &p, metrics, err);
        if (rc || !*p)
            return rc;
        if (strncmp(p, "and", 3) != 0 || (p[3] && p[3] != ' ' && p[3] != '\t'))
            return fail(r->text, p, "expected 'and' or the end", metrics, err);
        p += 3;
    }
}

bool require_holds(const struct require *r, int i, double value, char why[160])
{
    const struct require_clause *c = &r->clauses[i];
    bool ok = false;
    switch (c->op) {
    case REQUIRE_LE:
        ok = value <= c->limit;
        break;
    case REQUIRE_GE:
        ok = value >= c->limit;
        break;
    case REQUIRE_LT:
        ok = value < c->limit;
        break;
    case REQUIRE_GT:
        ok = value > c->limit;
        break;
    case REQUIRE_EQ:
        ok = value == c->limit;
        break;
    }
    if (!ok && why) {
        if (isnan(value))
            snprintf(why, 160, "%s is not known (%s %g is asked for)", c->metric, symbols[c->op], c->limit);
        else
            snprintf(why, 160, "%s %.6g %s %g", c->metric, value, opposites[c->op], c->limit);
    }
    return ok;
}
