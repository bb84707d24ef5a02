// SPDX-License-Identifier: Apache-2.0
// Filling the document of a suite. The first failure is kept in p->error; what is handed out then is a spare that goes
// nowhere, so that suites need not look.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "lab/precision.h"

void *precision_alloc(struct precision *p, size_t n, size_t size, struct error *err)
{
    void *memory = arena_alloc(&p->arena, n, size, err);
    if (!memory && !p->error.code)
        p->error = *err;
    return memory;
}

static const char *keep(struct precision *p, const char *text)
{
    const char *copy = text ? arena_strdup(&p->arena, text, &p->error) : NULL;
    return text && !copy ? "" : copy;
}

static const char *keepv(struct precision *p, const char *fmt, va_list ap)
{
    struct str text;
    str_init(&text);
    str_addv(&text, fmt, ap);
    if (text.failed)
        error_set(&p->error, ERR_MEMORY, NULL, "no memory for a text of the report");
    const char *copy = keep(p, str_text(&text));
    str_release(&text);
    return copy;
}

// Room for one more element; a spare when there is none.
static void *append(struct precision *p, void **array, size_t *n, size_t *cap, size_t size)
{
    void *grown = p->error.code ? NULL : arena_grow(&p->arena, *array, cap, *n + 1, size, &p->error);
    if (!grown)
        return NULL;
    *array = grown;
    char *slot = (char *)grown + size * (*n)++;
    memset(slot, 0, size);
    return slot;
}
#define APPEND(p, owner, member)                                                                                       \
    append((p), (void **)&(owner)->member, &(owner)->n_##member, &(owner)->cap_##member, sizeof *(owner)->member)

// The same for arrays of pointers, whose elements keep their place while the array grows.
static void *append_new(struct precision *p, void **array, size_t *n, size_t *cap, size_t size, void *spare)
{
    void **slot = append(p, array, n, cap, sizeof *slot);
    void *element = slot ? arena_alloc(&p->arena, 1, size, &p->error) : NULL;
    if (!element) {
        *n -= slot != NULL;
        memset(spare, 0, size);
        return spare;
    }
    return *slot = element;
}
#define APPEND_NEW(p, owner, member, spare)                                                                            \
    append_new((p), (void **)&(owner)->member, &(owner)->n_##member, &(owner)->cap_##member, sizeof *(spare), (spare))

// ---- notes, inputs

void precision_note(struct precision *p, const char *fmt, ...)
{
    va_list ap;
    const char **note = APPEND(p, p->document, notes);
    if (!note)
        return;
    va_start(ap, fmt);
    *note = keepv(p, fmt, ap);
    va_end(ap);
}

void precision_add_input(struct precision *p, const char *name, enum dtype type, int rank, const int64_t *dims,
                         const void *data, const char *source)
{
    struct precision_input *in = APPEND(p, p->document, inputs);
    struct precision_array array = {.type = type, .rank = rank};
    if (!in)
        return;
    memcpy(array.dims, dims, (size_t)rank * sizeof *dims);
    memcpy(in->dims, dims, (size_t)rank * sizeof *dims);
    in->name = keep(p, name);
    in->type = dtype_name(type);
    in->source = keep(p, source);
    in->rank = rank;
    sha256_bytes(data, precision_bytes(&array), in->sha256, &p->error);
}

// ---- cases

struct precision_case *precision_case(struct precision *p, const char *section, const char *name, const char *input)
{
    struct precision_case *c = APPEND_NEW(p, p->document, cases, &p->spare.a_case);
    c->section = keep(p, section);
    c->name = keep(p, name);
    c->input = keep(p, input);
    c->origin = ORIGIN_DERIVED;
    c->source = "computed on the host";
    c->code_bytes = c->scale_bytes = NAN;
    c->clipped = -1;
    return c;
}

void precision_on_device(struct precision *p, struct precision_case *c)
{
    struct error ignored = {0};
    const char *device = precision_device(p, &ignored);
    c->origin = ORIGIN_MEASURED;
    c->source = device ? device : "device";
}

struct sums {
    double error, error2, reference2;
};

static void add_pair(struct precision_measure *m, struct sums *sums, double reference, double result)
{
    double d = fabs(result - reference);
    if (isinf(reference) && reference == result)
        return;
    if (!isfinite(reference) || !isfinite(result)) {
        m->nonfinite++;
        return;
    }
    m->max_abs = fmax(m->max_abs, d);
    sums->error += d;
    sums->error2 += d * d;
    sums->reference2 += reference * reference;
}

static void finish(struct precision_measure *m, const struct sums *s, size_t n)
{
    m->mean_abs = n ? s->error / (double)n : NAN;
    m->rel_l2 = s->reference2 > 0 ? sqrt(s->error2 / s->reference2) : NAN;
    m->snr_db = s->reference2 > 0 ? 10 * log10(s->reference2 / s->error2) : NAN;
    if (m->nonfinite)
        m->max_abs = m->mean_abs = m->rel_l2 = m->snr_db = NAN;
}

static struct precision_measure *add_measure(struct precision *p, struct precision_case *c, const char *against,
                                             size_t n)
{
    if (c->n_measures == PRECISION_MEASURES) {
        error_set(&p->error, ERR_INTERNAL, c->name, "more than %d references", PRECISION_MEASURES);
        c->n_measures--;
    }
    struct precision_measure *m = &c->measures[c->n_measures++];
    *m = (struct precision_measure){.against = keep(p, against), .max_abs = n ? 0 : NAN};
    return m;
}

const struct precision_measure *precision_measure(struct precision *p, struct precision_case *c, const char *against,
                                                  const double *reference, const double *result, size_t n)
{
    struct precision_measure *m = add_measure(p, c, against, n);
    struct sums sums = {0};
    for (size_t i = 0; i < n; i++)
        add_pair(m, &sums, reference[i], result[i]);
    finish(m, &sums, n);
    return m;
}

const struct precision_measure *precision_measure_f32(struct precision *p, struct precision_case *c,
                                                      const char *against, const float *reference, const float *result,
                                                      size_t n)
{
    struct precision_measure *m = add_measure(p, c, against, n);
    struct sums sums = {0};
    for (size_t i = 0; i < n; i++)
        add_pair(m, &sums, (double)reference[i], (double)result[i]);
    finish(m, &sums, n);
    return m;
}

static struct precision_fact *fact(struct precision *p, struct precision_case *c, const char *name)
{
    struct precision_fact *f = APPEND(p, c, facts);
    if (!f)
        return memset(&p->spare.fact, 0, sizeof p->spare.fact);
    f->name = keep(p, name);
    return f;
}

void precision_number(struct precision *p, struct precision_case *c, const char *name, struct quantity number)
{
    struct precision_fact *f = fact(p, c, name);
    f->number = number;
    f->number.unit = keep(p, number.unit);
    f->number.source = keep(p, number.source);
}

void precision_text(struct precision *p, struct precision_case *c, const char *name, const char *fmt, ...)
{
    va_list ap;
    struct precision_fact *f = fact(p, c, name);
    va_start(ap, fmt);
    f->text = keepv(p, fmt, ap);
    va_end(ap);
}

void precision_fail(struct precision *p, struct precision_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    c->failure = keepv(p, fmt, ap);
    va_end(ap);
}

// ---- checks

static struct precision_check *add_check(struct precision *p, const char *name, const char *shows, bool ok)
{
    struct precision_check *c = APPEND(p, p->document, checks);
    if (!c)
        c = memset(&p->spare.check, 0, sizeof p->spare.check);
    c->name = keep(p, name);
    c->shows = keep(p, shows);
    c->ok = ok;
    c->tolerance = NAN;
    return c;
}

void precision_check(struct precision *p, const char *name, const char *shows, bool ok, const char *expected,
                     const char *got)
{
    struct precision_check *c = add_check(p, name, shows, ok);
    c->expected = keep(p, expected);
    c->got = keep(p, got);
}

void precision_check_text(struct precision *p, const char *name, const char *shows, const char *expected,
                          const char *got)
{
    precision_check(p, name, shows, strcmp(expected, got) == 0, expected, got);
}

static const char *spell(char out[32], double v)
{
    if (isfinite(v))
        json_number(out, v);
    else
        snprintf(out, 32, "%s", isnan(v) ? "NaN" : v > 0 ? "inf" : "-inf");
    return out;
}

void precision_check_number(struct precision *p, const char *name, const char *shows, double expected, double got,
                            double tolerance, const char *why)
{
    char a[32], b[32];
    struct precision_check *c = add_check(p, name, shows, fabs(got - expected) <= tolerance);
    c->expected = keep(p, spell(a, expected));
    c->got = keep(p, spell(b, got));
    c->tolerance = tolerance;
    c->why = keep(p, why);
}

void precision_check_count(struct precision *p, const char *name, const char *shows, int64_t expected, int64_t got)
{
    precision_check_number(p, name, shows, (double)expected, (double)got, 0, "exact");
}

// ---- figures

struct precision_figure *precision_figure(struct precision *p, const char *name, const char *title, const char *caption)
{
    struct precision_figure *f = APPEND_NEW(p, p->document, figures, &p->spare.figure);
    f->name = keep(p, name);
    f->title = keep(p, title);
    f->caption = keep(p, caption);
    return f;
}

struct precision_panel *precision_panel(struct precision *p, struct precision_figure *f, enum precision_panel_kind kind,
                                        const char *title)
{
    struct precision_panel *panel = APPEND_NEW(p, f, panels, &p->spare.panel);
    panel->kind = kind;
    panel->title = keep(p, title);
    panel->x_title = panel->y_title = "";
    panel->x_unit = panel->y_unit = "1";
    return panel;
}

void precision_axis_x(struct precision *p, struct precision_panel *panel, const char *title, const char *unit, bool log)
{
    panel->x_title = keep(p, title);
    panel->x_unit = keep(p, unit);
    panel->x_log = log;
}

void precision_axis_y(struct precision *p, struct precision_panel *panel, const char *title, const char *unit, bool log)
{
    panel->y_title = keep(p, title);
    panel->y_unit = keep(p, unit);
    panel->y_log = log;
}

void precision_category(struct precision *p, struct precision_panel *panel, const char *label)
{
    const char **slot = APPEND(p, panel, categories);
    if (slot)
        *slot = keep(p, label);
}

void precision_series(struct precision *p, struct precision_panel *panel, const char *name, const char *quantity,
                      const char *const *cases, size_t n)
{
    struct precision_series *s = APPEND(p, panel, series);
    if (!s)
        return;
    s->name = keep(p, name);
    s->quantity = keep(p, quantity);
    for (size_t i = 0; i < n; i++) {
        const char **slot = APPEND(p, s, cases);
        if (slot)
            *slot = keep(p, cases[i]);
    }
}

void precision_line(struct precision *p, struct precision_panel *panel, const char *name, const char *table,
                    const char *x, const char *y)
{
    struct precision_series *s = APPEND(p, panel, series);
    if (!s)
        return;
    s->name = keep(p, name);
    s->table = keep(p, table);
    s->x = keep(p, x);
    s->y = keep(p, y);
}

// ---- tables

struct precision_table *precision_table(struct precision *p, const char *name, const char *title)
{
    struct precision_table *t = APPEND_NEW(p, p->document, tables, &p->spare.table);
    t->name = keep(p, name);
    t->title = keep(p, title);
    return t;
}

void precision_column(struct precision *p, struct precision_table *t, const char *name, const char *unit,
                      enum origin origin, const char *source)
{
    struct precision_column *c = APPEND(p, t, columns);
    if (c)
        *c = (struct precision_column){keep(p, name), keep(p, unit), origin, keep(p, source)};
}

void precision_cell_number(struct precision *p, struct precision_table *t, double v)
{
    struct precision_cell *c = APPEND(p, t, cells);
    if (c)
        c->number = v;
}

void precision_cell_text(struct precision *p, struct precision_table *t, const char *fmt, ...)
{
    va_list ap;
    struct precision_cell *c = APPEND(p, t, cells);
    if (!c)
        return;
    va_start(ap, fmt);
    c->text = keepv(p, fmt, ap);
    va_end(ap);
}

struct precision_program *precision_program(struct precision *p, const char *name)
{
    struct precision_program *program = APPEND_NEW(p, p->document, programs, &p->spare.program);
    program->name = keep(p, name);
    return program;
}
