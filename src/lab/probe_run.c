// SPDX-License-Identifier: Apache-2.0
#include "lab/probe_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/suggest.h"

enum { LONG_ONES = 4096 };

// ---- what is asked

static int known_path(const char *option, const char *key, struct error *err)
{
    const struct probe_path *p;
    struct str names;
    if (probe_path_find(key))
        return 0;
    str_init(&names);
    for (size_t i = 0; (p = probe_path_at(i)); i++)
        str_addf(&names, "%s%s", i ? ", " : "", p->key);
    error_set(err, ERR_USAGE, option, "\"%.60s\" is no path; there are %s", key, str_text(&names));
    str_release(&names);
    return ERR_USAGE;
}

int probe_check(const struct probe_options *o, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < o->n_paths && !rc; i++)
        rc = known_path("--path", o->paths[i], err);
    if (!rc && o->claim)
        rc = known_path("--dtype-claim", o->claim, err);
    if (!rc && (o->m < 1 || o->m > 4096 || o->n < 4 || o->n > 4096 || o->k < 8 || o->k > 4096))
        rc = error_set(err, ERR_USAGE, "--shape", "%zux%zux%zu: m is 1 to 4096, k 8 to 4096, n 4 to 4096", o->m, o->k,
                       o->n);
    return rc;
}

static bool is_named(const struct probe_options *o, const char *key)
{
    for (size_t i = 0; i < o->n_paths; i++) {
        if (strcmp(o->paths[i], key) == 0)
            return true;
    }
    return false;
}

static bool is_wanted(const struct probe_options *o, const struct probe_path *p)
{
    if (o->simulate)
        return strcmp(o->simulate->path, p->key) == 0;
    if (o->claim && strcmp(o->claim, p->key) == 0)
        return true;
    return o->n_paths ? is_named(o, p->key) : !o->claim;
}

static bool as_vectors(const struct probe_options *o, const struct probe_path *p)
{
    bool plain = !p->algorithm && strcmp(p->precision, "DEFAULT") == 0;
    return o->vectors && o->m != 1 && (plain || is_named(o, p->key) || (o->claim && strcmp(o->claim, p->key) == 0));
}

// ---- one row

struct place {
    const struct probe_options *options;
    struct record *record; // where profiles go; NULL: none
    const struct progress *progress;
    struct probe_device device;
    struct probe_simulated simulated;
};

static int aim(struct place *p, struct probe_target *t, const struct probe_path *path, size_t m, size_t k, size_t n,
               struct error *err)
{
    if (p->options->simulate) {
        probe_target_simulate(t, path, m, k, n, &p->simulated);
        return 0;
    }
    return probe_target_device(t, path, m, k, n, &p->device, err);
}

// A second target of another length; one that is refused is left out.
static int aim_longer(struct place *p, struct probe_target *t, const struct probe_row *row, size_t m, size_t k,
                      size_t n, struct probe_target **out, struct error *err)
{
    struct error refused = {0};
    int rc = aim(p, t, row->path, m, k, n, &refused);
    *out = rc ? NULL : t;
    if (rc && !p->device.refused)
        return error_set(err, rc, refused.where, "%s", refused.message);
    return 0;
}

static int trace_row(struct place *p, struct probe_row *row, struct probe_target *t, struct arena *a, struct error *err)
{
    char label[96];
    snprintf(label, sizeof label, "%s-%zux%zux%zu", row->path->key, row->m, row->k, row->n);
    return probe_device_capture(t, label, p->record, p->progress, a, &row->trace, err);
}

static int ask_row(struct place *p, struct probe_row *row, struct arena *a, struct error *err)
{
    struct probe_target t, longer, *more = NULL;
    int rc = aim(p, &t, row->path, row->m, row->k, row->n, err);
    if (rc)
        return rc;
    t.dots = p->options->dots;
    if (p->device.optimized) {
        row->optimized = arena_strndup(a, p->device.optimized, p->device.optimized_length, err);
        row->optimized_length = row->optimized ? p->device.optimized_length : 0;
    }
    if (row->is_float) {
        bool narrow = dtype_bits(row->path->lhs) <= 16 && !p->options->simulate;
        if (narrow)
            rc = aim_longer(p, &longer, row, row->m, LONG_ONES, row->n, &more, err);
        if (!rc)
            rc = probe_float_run(&row->flt, &t, more, a, err);
    } else {
        rc = aim_longer(p, &longer, row, row->m == 1 ? 1 : 8, PROBE_LONG_SUM, 8, &more, err);
        if (!rc)
            rc = probe_integer_run(&row->integer, &t, more, a, err);
    }
    row->runs = t.runs + (more ? more->runs : 0);
    return rc || !p->record ? rc : trace_row(p, row, &t, a, err);
}

// What the device refuses, or dies of, is the row's answer.
static int settle(struct place *p, struct probe_row *row, int rc, const struct error *why, struct arena *a,
                  struct error *err)
{
    bool died = p->device.worker && worker_failure(p->device.worker);
    row->status = died ? PROBE_DIED : PROBE_REFUSED;
    if (p->options->simulate || rc != ERR_DEVICE || (!p->device.refused && !died))
        return error_set(err, rc, why->where, "%s", why->message);
    row->reason = arena_strdup(a, why->message, err);
    return row->reason ? 0 : ERR_MEMORY;
}

static bool same_result(double x, double y)
{
    return isnan(x) || isnan(y) ? isnan(x) && isnan(y) : x == y && signbit(x) == signbit(y);
}

// Both rows were asked the same random dots, the smaller one for fewer of them or in smaller batches.
static void compare_batches(const struct probe_row *large, struct probe_row *small)
{
    struct probe_fingerprint *f = &small->flt.print;
    size_t n = large->flt.print.replayed < f->replayed ? large->flt.print.replayed : f->replayed;
    if (large->path != small->path || !small->is_float || large->status != PROBE_DONE || small->status != PROBE_DONE)
        return;
    f->alone = n;
    for (size_t i = 0; i < n; i++)
        f->alone_same += same_result(large->flt.results[i], small->flt.results[i]);
}

static int list_rows(struct probe_run *r, const struct probe_options *o, struct error *err)
{
    const struct probe_path *p;
    size_t most = 0;
    while (probe_path_at(most))
        most++;
    r->rows = arena_new(&r->arena, struct probe_row, 2 * most, err);
    if (!r->rows)
        return ERR_MEMORY;
    for (size_t i = 0; (p = probe_path_at(i)); i++) {
        if (!is_wanted(o, p))
            continue;
        bool is_float = dtype_is_float(p->lhs);
        r->rows[r->n_rows++] = (struct probe_row){.path = p, .m = o->m, .k = o->k, .n = o->n, .is_float = is_float};
        if (as_vectors(o, p))
            r->rows[r->n_rows++] = (struct probe_row){.path = p, .m = 1, .k = o->k, .n = o->n, .is_float = is_float};
    }
    return 0;
}

static int run_cells(struct probe_run *r, struct place *p, const struct progress *progress, struct error *err)
{
    enum { MOST = 32 };
    bool more = true;
    r->cells = arena_new(&r->arena, struct probe_cell, MOST, err);
    int rc = r->cells ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < MOST && !rc && more; i++) {
        progress_report(progress, "single elements", i, 0);
        rc = probe_cell_run(&r->cells[i], i, &more, &p->device, &r->arena, err);
        r->n_cells += !rc && more;
    }
    return rc;
}

static int describe_device(struct probe_run *r, const struct probe_device *d, struct error *err)
{
    const struct worker_info *i = worker_info(d->worker);
    r->kind = arena_strdup(&r->arena, i->devices[i->device].kind, err);
    r->platform = arena_strdup(&r->arena, i->platform_name, err);
    r->plugin = arena_strdup(&r->arena, i->plugin_path, err);
    r->plugin_sha256 = arena_strdup(&r->arena, i->plugin_sha256, err);
    r->api_major = i->api_major;
    r->api_minor = i->api_minor;
    return r->kind && r->platform && r->plugin && r->plugin_sha256 ? 0 : ERR_MEMORY;
}

int probe_execute(struct probe_run *r, const struct probe_options *o, const struct progress *progress,
                  struct record *record, struct error *err)
{
    struct place place = {.options = o, .record = o->trace && !o->simulate ? record : NULL, .progress = progress};
    memset(r, 0, sizeof *r);
    arena_init(&r->arena);
    r->simulated = o->simulate != NULL;
    int rc = list_rows(r, o, err);
    if (!rc && o->simulate)
        place.simulated.model = &o->simulate->model;
    else if (!rc) {
        rc = probe_device_open(&place.device, &o->worker, err);
        if (!rc)
            rc = describe_device(r, &place.device, err);
    }
    for (size_t i = 0; i < r->n_rows && !rc; i++) {
        struct probe_row *row = &r->rows[i];
        struct error why = {0};
        progress_report(progress, row->path->name, i, r->n_rows);
        rc = interrupt_pending() ? error_set(err, ERR_INTERRUPTED, NULL, "stopped") : 0;
        if (rc)
            break;
        rc = ask_row(&place, row, &r->arena, &why);
        if (rc)
            rc = settle(&place, row, rc, &why, &r->arena, err);
        if (!rc && i > 0 && row->m == 1)
            compare_batches(&r->rows[i - 1], row);
    }
    if (!rc && o->elements && !o->simulate)
        rc = run_cells(r, &place, progress, err);
    if (!rc && o->claim)
        probe_judge(&r->claim, r, o->claim);
    if (!o->simulate)
        probe_device_close(&place.device);
    return rc;
}

void probe_release(struct probe_run *r)
{
    arena_release(&r->arena);
}

// ---- the claim

// Says why a float row does not bear the claim out; false when it does.
static bool refute_float(struct probe_claim *out, const struct probe_row *row)
{
    const struct probe_fingerprint *f = &row->flt.print;
    const struct dot_format *type = dot_format(dtype_name(row->path->lhs));
    int want = type->bits - 1, sum = type->bits == 53 ? 52 : 23;
    char *why = out->why;
    size_t n = sizeof out->why;
    out->answer = PROBE_NO;
    if (f->stochastic)
        return snprintf(why, n, "probe 3: the same product came out differently") > 0;
    if (f->kept_sparse < want)
        return snprintf(why, n, "probe 1: (1 + 2^-t) * 1 comes back whole only to t = %d, %s has %d", f->kept_sparse,
                        type->name, want) > 0;
    if (f->kept_dense < want)
        return snprintf(why, n, "probe 1: (2 - 2^-t) * 1 comes back whole only to t = %d, %s has %d", f->kept_dense,
                        type->name, want) > 0;
    if (f->worst_loss > 0)
        return snprintf(why, n, "probe 2: a random %s times 1 loses up to %.3g of itself", type->name, f->worst_loss) >
               0;
    if (f->operand && (strcmp(f->operand, type->name) != 0 || f->passes > 1))
        return snprintf(why, n, "probes 3 to 6: products are formed from %d products of parts of %s, not from %s",
                        f->passes, f->operand, type->name) > 0;
    if (f->bits_near >= 0 && f->bits_near < sum)
        return snprintf(why, n, "probe 9: beside 1 the sum keeps %d fraction bits, not %d", f->bits_near, sum) > 0;
    if (f->bits_far >= 0 && f->bits_far < sum)
        return snprintf(why, n, "probe 9: across blocks the sum keeps %d fraction bits, not %d", f->bits_far, sum) > 0;
    out->answer = PROBE_CANNOT_TELL;
    if (!f->operand)
        return snprintf(why, n, "no candidate explains what becomes of operands (the best one: %zu of %zu probes)",
                        f->explained, f->operands) > 0;
    if (f->rivals)
        return snprintf(why, n, "operands of %s would give the same results", f->rival) > 0;
    if (f->same * 100 < f->replayed * 99)
        return snprintf(why, n, "the model reproduces only %zu of %zu random dots", f->same, f->replayed) > 0;
    return false;
}

static bool refute_integer(struct probe_claim *out, const struct probe_row *row)
{
    const struct probe_integer *i = &row->integer;
    out->answer = PROBE_NO;
    if (!i->explained)
        return snprintf(out->why, sizeof out->why, "probe 18: sums are of no known kind, and not exact") > 0;
    if (i->kind != DOT_INT_WRAP && i->kind != DOT_INT_SATURATE)
        return snprintf(out->why, sizeof out->why, "probe 18: sums are %s", dot_integer_name(i->kind)) > 0;
    if (i->same < i->replayed)
        return snprintf(out->why, sizeof out->why, "probe 20: %zu of %zu random dots are not exact",
                        i->replayed - i->same, i->replayed) > 0;
    out->answer = PROBE_CANNOT_TELL;
    if (!i->long_sums)
        return snprintf(out->why, sizeof out->why, "sums past 2^24 could not be asked") > 0;
    return false;
}

void probe_judge(struct probe_claim *out, const struct probe_run *r, const char *key)
{
    struct probe_claim worst = {PROBE_YES, ""};
    size_t n = 0;
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct probe_row *row = &r->rows[i];
        struct probe_claim c = {PROBE_YES, ""};
        if (strcmp(row->path->key, key) != 0)
            continue;
        n++;
        if (row->status == PROBE_REFUSED) {
            c.answer = PROBE_NO;
            snprintf(c.why, sizeof c.why, "the device refuses the product: %.300s", row->reason);
        } else if (row->status == PROBE_DIED) {
            c.answer = PROBE_CANNOT_TELL;
            snprintf(c.why, sizeof c.why, "the worker died: %.300s", row->reason);
        } else if (!(row->is_float ? refute_float(&c, row) : refute_integer(&c, row))) {
            c.answer = PROBE_YES;
        }
        if (c.answer == PROBE_YES || (worst.answer != PROBE_YES && c.answer != PROBE_NO) || worst.answer == PROBE_NO)
            continue;
        worst.answer = c.answer;
        snprintf(worst.why, sizeof worst.why, "%zux%zux%zu: %.440s", row->m, row->k, row->n, c.why);
    }
    *out = worst;
    if (n == 0)
        *out = (struct probe_claim){PROBE_CANNOT_TELL, "that path was not probed"};
    else if (worst.answer == PROBE_YES)
        snprintf(out->why, sizeof out->why, "operands are whole and sums wide enough at every shape that was probed");
}

// ---- one sentence

void probe_say_verdict(struct str *out, const struct probe_row *row)
{
    if (row->status != PROBE_DONE) {
        str_addf(out, "%s: %s", row->status == PROBE_REFUSED ? "refused" : "the worker died", row->reason);
        return;
    }
    if (!row->is_float) {
        probe_say_integer(out, &row->integer);
        if (row->integer.explained)
            str_addf(out, "; %zu of %zu random dots reproduced", row->integer.same, row->integer.replayed);
        return;
    }
    const struct probe_fingerprint *f = &row->flt.print;
    const char *type = dtype_name(row->path->lhs);
    if (!f->operand)
        str_addf(out, "what becomes of %s operands is not known", type);
    else if (f->passes > 1)
        str_addf(out, "operands are split into parts of %s, %d products for one", f->operand, f->passes);
    else if (strcmp(f->operand, type) != 0)
        str_addf(out, "operands are rounded to %s", f->operand);
    else
        str_addf(out, "operands are whole %s", type);
    str_addf(out, ", sums are %s", f->accumulator ? f->accumulator : "of a width without a name");
    if (f->tree.tree.nodes == 0)
        str_add(out, ", added in an order that could not be read");
    else if (f->tree.shape == SHAPE_OTHER)
        str_add(out, ", added in an order without a name");
    else {
        str_add(out, ", added ");
        if (f->tree.shape > SHAPE_PAIRWISE)
            str_add(out, "in ");
        probe_tree_describe(out, &f->tree);
    }
    if (row->path->asked && f->operand && (strcmp(row->path->asked, f->operand) != 0 || row->path->passes != f->passes))
        str_add(out, "; the algorithm that was asked for is not what runs");
    str_addf(out, "; %zu of %zu random dots reproduced bit for bit", f->same, f->replayed);
}
