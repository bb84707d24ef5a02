// SPDX-License-Identifier: Apache-2.0
#include "cli/compile_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/wrap.h"
#include "report/format.h"
#include "report/page.h"
#include "report/table.h"

static void time_cell(struct table *t, double seconds)
{
    table_number(t, isnan(seconds) ? NAN : seconds * 1e6, NULL);
}

static enum table_format format_of(struct cli *cli)
{
    return strcmp(cli_string(cli, "format"), "md") == 0 ? TABLE_MARKDOWN : TABLE_TEXT;
}

static int show(struct cli *cli, struct table *t, struct error *err)
{
    int rc = t->row_count ? table_print(t, &cli->out, format_of(cli), (size_t)cli->width, cli->color, err) : 0;
    if (t->row_count)
        str_add_char(&cli->out, '\n');
    table_release(t);
    return rc;
}

// A paragraph. Names in it are escaped, by str_add_terminal for a terminal; releases `s`.
static void say(struct cli *cli, struct str *s)
{
    while (s->length && s->text[s->length - 1] == ' ')
        s->text[--s->length] = '\0';
    if (format_of(cli) == TABLE_MARKDOWN)
        page_sentence(&cli->out, TABLE_MARKDOWN, NULL, str_text(s));
    else
        wrap_text(&cli->out, str_text(s), 0, 0, cli->width);
    str_release(s);
}

// ---- One case

static void verdict(struct cli *cli, const struct compile *c, const struct compile_case *k)
{
    struct str s;
    char a[FORMAT_MAX], b[FORMAT_MAX];
    str_init(&s);
    bool bold = format_of(cli) == TABLE_TEXT;
    str_addf(&s, "%s%s%s: ", bold ? cli_bold(cli) : "", compile_state_name(k->state), bold ? cli_plain(cli) : "");
    str_add_terminal(&s, c->options.workload, strlen(c->options.workload));
    if (k->part)
        str_addf(&s, ", the program %s (%lld x %s in a request)", k->part->name, (long long)k->part->calls,
                 k->part->call);
    if (k->policy)
        str_addf(&s, " under %s", k->policy);
    str_addf(&s, ", for %s", k->target_name);
    if (k->device_kind && *k->device_kind)
        str_addf(&s, " (%zu x %s)", k->n_devices, k->device_kind);
    str_add(&s, k->text ? "; the program is " : ". ");
    if (k->text)
        str_addf(&s, "for %d device%s. ", k->partitions, k->partitions == 1 ? "" : "s");
    if (k->has_figures) {
        format_bytes_binary(a, k->needed_bytes);
        format_bytes_binary(b, k->available_bytes);
        str_addf(&s, "It needs %s (%s) of %s, %s (%s) are available. ", k->needed, a, k->needed_in, k->available, b);
    } else if (k->state != COMPILE_DONE) {
        if (k->error.where[0] && k->state != COMPILE_DIED) {
            str_add_terminal(&s, k->error.where, strlen(k->error.where));
            str_add(&s, ": ");
        }
        str_add_terminal(&s, k->error.message, strlen(k->error.message));
    }
    if (k->rolled.loops)
        str_addf(&s, "Of its layers %d run as %s over stacked weights. ", k->rolled.layers,
                 k->rolled.loops == 1   ? "a loop"
                 : k->rolled.loops == 2 ? "two loops"
                                        : "loops");
    if (k->state == COMPILE_DONE) {
        format_bytes_binary(a, (double)(k->memory.allocated + (k->memory.code > 0 ? k->memory.code : 0)));
        format_bytes_binary(b, k->usable_bytes);
        if (k->memory.allocated >= 0)
            str_addf(&s, "It takes %s of %s on each device, code included. ", a, isnan(k->usable_bytes) ? "all" : b);
        format_time(a, k->wall_s);
        format_time(b, k->cpu_s);
        str_addf(&s, "Compiled in %s, %s of processor time", a, b);
        if (!isnan(k->plain_wall_s)) {
            format_time(a, k->plain_wall_s);
            str_addf(&s, "; in %s without the dump of the final code, which costs %.0f %%", a,
                     100 * (k->wall_s / k->plain_wall_s - 1));
        }
        str_add(&s, ". ");
        if (k->fingerprint)
            str_addf(&s, "Fingerprint %.16s. ", k->fingerprint);
    }
    say(cli, &s);
    if (format_of(cli) == TABLE_TEXT && (k->state == COMPILE_DONE || k->n_buffers))
        str_add_char(&cli->out, '\n');
}

static int memory_table(struct cli *cli, const struct compile_case *k, struct error *err)
{
    const struct worker_memory_plan *m = &k->memory;
    const struct {
        const char *name;
        int64_t bytes;
    } rows[] = {{"arguments", m->arguments},
                {"of them weights", k->weight_bytes},
                {"outputs", m->outputs},
                {"of them in place of arguments", m->aliases},
                {"temporaries", m->temporaries},
                {"code", m->code},
                {"stored executable", k->serialized_bytes}};
    struct table t;
    table_init(&t);
    table_column(&t, "memory", NULL, TABLE_LEFT, 0);
    table_column(&t, "of one device", "MiB", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (i == 1 && rows[i].bytes < 0) // of a program nobody said which they are
            continue;
        table_row(&t);
        table_cell(&t, rows[i].name);
        if (rows[i].bytes < 0)
            table_null(&t, "not offered by the plugin");
        else
            table_number(&t, (double)rows[i].bytes / 1048576, NULL);
    }
    return show(cli, &t, err);
}

static int buffer_table(struct cli *cli, const struct compile_case *k, size_t top, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "largest buffers", NULL, TABLE_LEFT, 0);
    table_column(&t, "size", "MiB", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "shape", NULL, TABLE_LEFT, 2);
    table_column(&t, "instruction", NULL, TABLE_LEFT, 3);
    table_column(&t, "whose", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < k->n_buffers && i < top; i++) {
        const struct compile_buffer *b = &k->buffers[i];
        table_row(&t);
        table_cell(&t, buffer_kind_name(b->kind));
        table_number(&t, (double)b->bytes / 1048576, NULL);
        table_cell(&t, b->shape);
        table_cell(&t, b->instruction);
        table_cell(&t, b->owner);
    }
    return show(cli, &t, err);
}

static int group_table(struct cli *cli, const struct compile_case *k, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "module", NULL, TABLE_LEFT, 0);
    table_column(&t, "product", "GFLOP", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "main memory", "MB", TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_DERIVED);
    bool timed = !isnan(k->floor_s);
    if (timed) {
        table_column(&t, "floor", "us", TABLE_RIGHT, 0);
        table_origin(&t, ORIGIN_DERIVED);
        table_column(&t, "of all", "%", TABLE_RIGHT, 1);
        table_origin(&t, ORIGIN_DERIVED);
    }
    double all = k->ops_floor_s + k->collectives_s;
    for (size_t i = 0; i < k->n_groups; i++) {
        const struct compile_group *g = &k->groups[i];
        table_row(&t);
        table_cell(&t, g->name);
        table_number(&t, g->flop / 1e9, NULL);
        table_number(&t, g->hbm_bytes / 1e6, NULL);
        if (timed) {
            time_cell(&t, g->floor_s);
            table_number(&t, 100 * g->floor_s / all, NULL);
        }
    }
    return show(cli, &t, err);
}

// Which of its three times is the floor.
static const char *bound(const struct compile_op *op)
{
    if (!(op->floor_s > 0))
        return "";
    return op->floor_s == op->memory_s ? "memory" : op->floor_s == op->matrix_s ? "matrix units" : "bundles";
}

// Rows of what is shown, the longest first or in order.
static int product_table(struct cli *cli, const struct compile_case *k, size_t top, struct error *err)
{
    struct table t;
    size_t shown = 0, n = 0;
    table_init(&t);
    table_column(&t, "products", NULL, TABLE_LEFT, 0);
    table_column(&t, "module", NULL, TABLE_LEFT, 4);
    table_column(&t, "GFLOP", NULL, TABLE_RIGHT, 3);
    table_origin(&t, ORIGIN_DERIVED);
    bool timed = !isnan(k->floor_s);
    if (timed) {
        table_column(&t, "bundles", NULL, TABLE_RIGHT, 5);
        table_column(&t, "times", NULL, TABLE_RIGHT, 6);
        table_column(&t, "cycles", NULL, TABLE_RIGHT, 2);
        table_origin(&t, ORIGIN_DERIVED);
        table_column(&t, "floor", "us", TABLE_RIGHT, 0);
        table_origin(&t, ORIGIN_DERIVED);
        table_column(&t, "bound by", NULL, TABLE_LEFT, 5);
    }
    table_column(&t, "runs as", NULL, TABLE_LEFT, 1);
    for (size_t i = 0; i < k->n_ops; i++) {
        const struct compile_op *op = &k->ops[i];
        if (op->flop <= 0)
            continue;
        n++;
        if (top && shown == top)
            continue;
        shown++;
        table_row(&t);
        table_cell(&t, op->name);
        table_cell(&t, op->scope);
        table_number(&t, op->flop / 1e9, NULL);
        if (timed) {
            table_count(&t, op->bundles);
            table_count(&t, op->iterations * op->runs);
            table_count(&t, op->bundles * op->iterations * op->runs);
            time_cell(&t, op->floor_s * op->runs);
            table_cell(&t, bound(op));
        }
        table_cell(&t, op->arithmetic ? op->arithmetic : *op->strategy ? op->strategy : op->what);
        if (op->emulated)
            table_style(&t, TABLE_WARN);
    }
    int rc = show(cli, &t, err);
    if (!rc && shown < n)
        str_addf(&cli->out, "The first %zu of %zu products; --top 0 shows all.\n\n", shown, n);
    return rc;
}

static int collective_table(struct cli *cli, const struct compile_case *k, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "collectives", NULL, TABLE_LEFT, 0);
    table_column(&t, "groups", NULL, TABLE_LEFT, 1);
    table_column(&t, "array", "MB", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "wire", "us", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "compiler says", "cycles", TABLE_RIGHT, 4);
    table_column(&t, "module", NULL, TABLE_LEFT, 2);
    table_column(&t, "strategy", NULL, TABLE_LEFT, 3);
    for (size_t i = 0; i < k->n_ops; i++) {
        const struct compile_op *op = &k->ops[i];
        if (op->kind != COMPILE_COLLECTIVE)
            continue;
        table_row(&t);
        table_cell(&t, op->collective);
        table_cell(&t, op->groups);
        table_number(&t, op->wire_bytes / 1e6, NULL);
        if (op->wire_reason)
            table_null(&t, op->wire_reason);
        else
            time_cell(&t, op->floor_s * op->runs);
        table_count(&t, op->estimated_cycles);
        table_cell(&t, op->scope);
        table_cell(&t, op->strategy);
    }
    return show(cli, &t, err);
}

static int schedule_table(struct cli *cli, const struct compile_case *k, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "in order", NULL, TABLE_LEFT, 0);
    table_column(&t, "what", NULL, TABLE_LEFT, 1);
    table_column(&t, "module", NULL, TABLE_LEFT, 2);
    table_column(&t, "runs", NULL, TABLE_RIGHT, 3);
    table_column(&t, "main memory", "MB", TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "code", "us", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "floor", "us", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_DERIVED);
    for (size_t i = 0; i < k->n_ops; i++) {
        const struct compile_op *op = &k->ops[i];
        table_row(&t);
        table_cellf(&t, "%*s%s", 2 * op->depth, "", op->name);
        table_cell(&t, op->kind == COMPILE_OP                             ? op->what
                       : op->collective && op->kind == COMPILE_COLLECTIVE ? op->collective
                                                                          : compile_kind_name(op->kind));
        table_cell(&t, op->scope);
        if (op->runs_unknown)
            table_null(&t, "a loop that runs as often as its data say");
        else
            table_count(&t, op->runs);
        table_number(&t, op->hbm_bytes / 1e6, NULL);
        time_cell(&t, fmax(op->compute_s, op->matrix_s)); // fmax passes over NAN
        time_cell(&t, isnan(k->floor_s) ? NAN : op->floor_s);
    }
    return show(cli, &t, err);
}

// Four digits: floors are compared with each other, and are exact.
static void floor_text(char out[FORMAT_MAX], double seconds)
{
    double us = seconds * 1e6;
    if (us < 1e5)
        snprintf(out, FORMAT_MAX, "%.*f us", us < 10 ? 3 : us < 100 ? 2 : 1, us);
    else
        format_time(out, seconds);
}

// Whether an earlier case has said the same, under the same policy: of flags that change nothing.
static bool said(const struct compile *c, const struct compile_case *k, const char *sentence)
{
    for (const struct compile_case *other = c->cases; other < k; other++) {
        bool same = other->policy == k->policy || (other->policy && k->policy && strcmp(other->policy, k->policy) == 0);
        for (size_t i = 0; same && i < other->n_emulations; i++) {
            if (strcmp(other->emulations[i].sentence, sentence) == 0)
                return true;
        }
    }
    return false;
}

static void emulations(struct cli *cli, const struct compile *c, const struct compile_case *k)
{
    for (size_t i = 0; i < k->n_emulations; i++) {
        struct str s;
        const char *sentence = k->emulations[i].sentence;
        if (said(c, k, sentence))
            continue;
        str_init(&s);
        if (k->policy)
            str_addf(&s, "Under %s ", k->policy);
        str_add_terminal(&s, sentence, strlen(sentence));
        say(cli, &s);
        if (format_of(cli) == TABLE_TEXT)
            str_add_char(&cli->out, '\n');
    }
}

static void conclusion(struct cli *cli, const struct compile_case *k)
{
    struct str s;
    char a[FORMAT_MAX], b[FORMAT_MAX], d[FORMAT_MAX];
    str_init(&s);
    if (!isnan(k->floor_s)) {
        floor_text(a, k->floor_s);
        format_time(b, k->ops_floor_s);
        format_time(d, k->memory_floor_s);
        str_addf(
            &s,
            "Compiler floor %s [D], %.1f %% of peak: the longer of the operations one after the other (%s, each the "
            "longest of bundles x iterations / clock, its rows / the rate of the matrix units, and its bytes / "
            "bandwidth) and all bytes of main memory over its bandwidth (%s)",
            a, 100 * k->of_peak, b, d);
        if (k->collectives_s > 0) {
            format_time(a, k->collectives_s);
            str_addf(&s, ", and collectives (%s)", a);
        }
        str_add(&s, ". ");
        if (k->above_peak)
            str_add(&s, "Above the published peak, which cannot be: take no time from this. ");
        if (isnan(k->efficiency)) {
            str_addf(&s, "No time is predicted: %s. ", k->efficiency_source);
        } else {
            double p = k->predicted_s;
            format_time(a, p);
            format_time(b, fmax(p / k->band, k->floor_s));
            format_time(d, p * k->band);
            str_addf(&s, "Predicted %s, from %s to %s [D]: the floor over an efficiency of %.2f%s (%s). ", a, b, d,
                     k->efficiency, k->collectives_s > 0 ? ", and the collectives" : "", k->efficiency_source);
        }
        if (!isnan(k->estimated_s)) {
            format_time(a, k->estimated_s);
            str_addf(&s,
                     "The compiler's own estimates add up to %s; they are up to four times too high for element-wise "
                     "work, and count no collective. ",
                     a);
        }
        if (k->loops_unknown)
            str_add(&s, "A loop runs as often as its data say: it is counted once, so the floor is lower than it could "
                        "be. ");
    } else if (!k->target.chip->is_tpu) {
        str_add(&s,
                "No time is predicted: nothing was tuned without the device, so its tiles are the defaults. What the "
                "program fuses and how much memory it takes hold. ");
    } else {
        str_add(&s, "Without the dump of the final code there is no arithmetic and no floor. ");
    }
    if (k->prefetch_bytes > 0) {
        format_bytes(a, k->prefetch_bytes);
        str_addf(&s, "%s are fetched into vector memory ahead of their use. ", a);
    }
    say(cli, &s);
}

static int print_case(struct cli *cli, const struct compile *c, const struct compile_case *k, struct error *err)
{
    int64_t given = cli_int(cli, "top", 20);
    size_t top = (size_t)given;
    verdict(cli, c, k);
    int rc = 0;
    if (k->state == COMPILE_DONE)
        rc = memory_table(cli, k, err);
    if (!rc)
        rc = buffer_table(cli, k, k->state == COMPILE_DONE ? 5 : 10, err);
    if (rc || k->state != COMPILE_DONE)
        return rc;
    if (cli_flag(cli, "schedule"))
        rc = schedule_table(cli, k, err);
    if (!rc)
        rc = group_table(cli, k, err);
    if (!rc)
        rc = product_table(cli, k, top, err);
    if (!rc)
        rc = collective_table(cli, k, err);
    if (!rc)
        emulations(cli, c, k);
    if (!rc)
        conclusion(cli, k);
    return rc;
}

// ---- Several cases

// What the case that does most of the work runs as.
static const char *main_arithmetic(const struct compile_case *k)
{
    const char *out = "";
    double most = 0;
    for (size_t i = 0; i < k->n_ops; i++) {
        if (k->ops[i].arithmetic && k->ops[i].flop * k->ops[i].runs > most) {
            most = k->ops[i].flop * k->ops[i].runs;
            out = k->ops[i].arithmetic;
        }
    }
    return out;
}

// What a pipeline's stages make together.
static void print_pipelines(struct cli *cli, const struct compile *c)
{
    struct compile_pipeline p;
    char a[FORMAT_MAX], b[FORMAT_MAX];
    for (size_t i = 0; i < c->n_cases; i++) {
        const struct compile_case *k = &c->cases[i];
        struct str s;
        if (!compile_pipeline(c, i, &p))
            continue;
        str_init(&s);
        str_addf(
            &s,
            "Pipeline on %s%s%s: %lld microbatches of %lld sequence%s through %d stages take %lld turns, in %.1f %% "
            "of which a stage waits (the bubble).",
            k->target_name, k->policy ? " under " : "", k->policy ? k->policy : "", (long long)k->stage.microbatches,
            (long long)k->stage.sequences, k->stage.sequences == 1 ? "" : "s", k->stage.of,
            (long long)k->stage.microbatches + k->stage.of - 1, 100 * p.bubble);
        format_bytes(a, k->stage.cut.handed_bytes);
        str_addf(&s, " The first stage hands on %s", a);
        if (!isnan(k->stage.handed_s)) {
            format_time(a, k->stage.handed_s);
            str_addf(&s, ", in %s", a);
        }
        str_add(&s, ". ");
        if (!isnan(p.floor_s)) {
            format_time(a, p.turn_s);
            format_time(b, p.floor_s);
            str_addf(&s, "A turn is the slowest stage's floor and its hand-over, %s: %s in all [D]", a, b);
            format_time(a, p.predicted_s);
            str_addf(&s, "%s%s%s. ", isnan(p.predicted_s) ? "" : "; predicted ", isnan(p.predicted_s) ? "" : a,
                     isnan(p.predicted_s) ? "" : " [D]");
        }
        say(cli, &s);
        if (format_of(cli) == TABLE_TEXT)
            str_add_char(&cli->out, '\n');
    }
}

// ---- A request of several programs

static void mib_cell(struct table *t, double bytes)
{
    table_number(t, bytes < 0 ? NAN : bytes / 0x1p20, NULL);
}

// Each program's memory and least time, and both of all of them.
static int request_table(struct cli *cli, const struct compile *c, size_t first, const struct compile_request *r,
                         struct error *err)
{
    static const char *const memory[] = {"weights", "other arguments", "temporaries", "code", "all"};
    struct table t;
    table_init(&t);
    table_column(&t, "program", NULL, TABLE_LEFT, 0);
    table_column(&t, "calls", NULL, TABLE_RIGHT, 2);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        table_column(&t, memory[i], "MiB", TABLE_RIGHT, i == 4 ? 0 : i == 1 ? 4 : 1);
        table_origin(&t, ORIGIN_DERIVED);
    }
    table_column(&t, "floor of a call", "us", TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "of all calls", "us", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "compiled in", "s", TABLE_RIGHT, 3);
    table_origin(&t, ORIGIN_MEASURED);
    for (size_t i = first; i < first + r->n; i++) {
        const struct compile_case *k = &c->cases[i];
        const struct worker_memory_plan *m = &k->memory;
        table_row(&t);
        table_cell(&t, k->part->name);
        table_count(&t, (double)k->part->calls);
        if (k->state != COMPILE_DONE) {
            table_span(&t, compile_state_name(k->state));
            table_style(&t, TABLE_BAD);
            continue;
        }
        bool known = k->weight_bytes >= 0 && m->arguments >= 0;
        mib_cell(&t, (double)k->weight_bytes);
        mib_cell(&t, known ? (double)(m->arguments - k->weight_bytes) : NAN);
        mib_cell(&t, (double)m->temporaries);
        mib_cell(&t, (double)m->code);
        mib_cell(&t, m->allocated < 0 || m->code < 0 ? NAN : (double)(m->allocated + m->code));
        time_cell(&t, k->floor_s);
        time_cell(&t, k->floor_s * (double)k->part->calls);
        table_number(&t, k->wall_s, NULL);
    }
    return show(cli, &t, err);
}

static void request_text(struct cli *cli, const struct compile *c, const struct compile_case *k,
                         const struct compile_request *r)
{
    struct str s;
    char a[FORMAT_MAX], b[FORMAT_MAX];
    str_init(&s);
    str_addf(&s, "All programs on %s%s%s", k->target_name, k->policy ? " under " : "", k->policy ? k->policy : "");
    for (size_t i = 0; i < k->n_flags; i++)
        str_addf(&s, "%s%s=%s", i ? " " : ", ", k->flags[i].name, k->flags[i].value);
    if (isnan(r->resident_bytes)) {
        str_add(&s, ": what they take together is not known, since not every one is compiled. ");
    } else {
        bool fits = !(r->resident_bytes > r->usable_bytes);
        format_bytes_binary(a, r->resident_bytes);
        format_bytes_binary(b, r->usable_bytes);
        str_addf(&s,
                 ": with %s and the code of each in memory, and the rest of one at a time, %s of %s [D] on each "
                 "device: %s. ",
                 c->request.one_model ? "the weights, which they share," : "all weights", a,
                 isnan(r->usable_bytes) ? "all" : b, fits ? "they fit together" : "they do not fit together");
    }
    if (!isnan(r->floor_s)) {
        format_time(a, r->floor_s);
        str_addf(&s, "A request takes %s at least [D], by the compiler floors of all calls", a);
        format_time(a, r->predicted_s);
        str_addf(&s, "%s%s%s. ", isnan(r->predicted_s) ? "" : "; predicted ", isnan(r->predicted_s) ? "" : a,
                 isnan(r->predicted_s) ? "" : " [D]");
    }
    format_time(a, r->wall_s);
    format_time(b, r->cpu_s);
    str_addf(&s, "Compiled in %s, %s of processor time.", a, b);
    say(cli, &s);
}

// The programs of one request, a section each.
static int print_request(struct cli *cli, const struct compile *c, const struct compile_request *r, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < r->n && !rc; i++) {
        if (format_of(cli) == TABLE_MARKDOWN)
            page_title(&cli->out, TABLE_MARKDOWN, 2, c->cases[i].part->name);
        rc = print_case(cli, c, &c->cases[i], err);
        if (format_of(cli) == TABLE_TEXT)
            str_add_char(&cli->out, '\n');
    }
    if (format_of(cli) == TABLE_MARKDOWN && !rc)
        page_title(&cli->out, TABLE_MARKDOWN, 2, "all programs");
    if (!rc)
        rc = request_table(cli, c, 0, r, err);
    if (!rc)
        request_text(cli, c, &c->cases[0], r);
    return rc;
}

// ---- Several cases

static int print_cases(struct cli *cli, const struct compile *c, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "target", NULL, TABLE_LEFT, 0);
    table_column(&t, "policy", NULL, TABLE_LEFT, 0);
    bool flags = false, stages = false, divided = false, above = false;
    for (size_t i = 0; i < c->n_cases; i++) {
        flags |= c->cases[i].n_flags > 0;
        stages |= c->cases[i].stage.of > 1;
        divided |= c->cases[i].partitions > 1;
    }
    if (flags)
        table_column(&t, "flags", NULL, TABLE_LEFT, 1);
    if (c->n_parts)
        table_column(&t, "program", NULL, TABLE_LEFT, 0);
    if (stages)
        table_column(&t, "stage", NULL, TABLE_LEFT, 0);
    table_column(&t, "memory", "MiB", TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "code", "MiB", TABLE_RIGHT, 5);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "compile", "s", TABLE_RIGHT, 4);
    table_origin(&t, ORIGIN_MEASURED);
    table_column(&t, "floor", "us", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_DERIVED);
    if (divided) {
        table_column(&t, "collectives", "us", TABLE_RIGHT, 1);
        table_origin(&t, ORIGIN_DERIVED);
    }
    table_column(&t, "of peak", "%", TABLE_RIGHT, 2);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "predicted", "us", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_DERIVED);
    table_column(&t, "most of it runs as", NULL, TABLE_LEFT, 3);
    for (size_t i = 0; i < c->n_cases; i++) {
        const struct compile_case *k = &c->cases[i];
        table_row(&t);
        table_cell(&t, k->target_name);
        table_cell(&t, k->policy ? k->policy : "");
        struct str s;
        str_init(&s);
        for (size_t f = 0; f < k->n_flags; f++)
            str_addf(&s, "%s%s=%s", f ? " " : "", k->flags[f].name, k->flags[f].value);
        if (flags)
            table_cell(&t, str_text(&s));
        str_clear(&s);
        if (k->part)
            table_cell(&t, k->part->name);
        if (stages)
            table_cellf(&t, "%d of %d, layers %lld to %lld", k->stage.number + 1, k->stage.of,
                        (long long)k->stage.cut.first_layer + 1, (long long)k->stage.cut.last_layer + 1);
        if (k->state != COMPILE_DONE) {
            if (k->has_figures)
                str_addf(&s, "does not fit: %s of %s needed, %s available", k->needed, k->needed_in, k->available);
            else
                str_addf(&s, "%s: %s", compile_state_name(k->state), k->error.message);
            table_span(&t, str_text(&s));
            table_style(&t, TABLE_BAD);
        } else {
            table_number(&t, k->memory.allocated < 0 ? NAN : (double)k->memory.allocated / 1048576, NULL);
            table_number(&t, k->memory.code < 0 ? NAN : (double)k->memory.code / 1048576, NULL);
            table_number(&t, k->wall_s, NULL);
            time_cell(&t, k->floor_s);
            if (divided)
                time_cell(&t, k->collectives_s);
            table_number(&t, 100 * k->of_peak, NULL);
            time_cell(&t, k->predicted_s);
            table_cell(&t, main_arithmetic(k));
            if (k->above_peak)
                table_style(&t, TABLE_WARN);
        }
        above |= k->above_peak;
        str_release(&s);
    }
    int rc = show(cli, &t, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < c->n_cases; i++)
        emulations(cli, c, &c->cases[i]);
    print_pipelines(cli, c);
    struct compile_request r;
    for (size_t i = 0; i < c->n_cases; i++) {
        if (!compile_request(c, i, &r))
            continue;
        request_text(cli, c, &c->cases[i], &r);
        if (format_of(cli) == TABLE_TEXT)
            str_add_char(&cli->out, '\n');
    }
    struct str s;
    str_init(&s);
    str_add(&s, "A floor is what the compiler's own code takes at least; a prediction is the floor over the share that "
                "was measured on that chip, within a factor of 1.4, and there is none for chips that nobody measured.");
    say(cli, &s);
    if (!above)
        return 0;
    str_init(&s);
    str_add(&s, "A floor above 100 % of peak cannot be: instructions were missed, or the unit's rate is not the "
                "published one. Nothing is predicted from it.");
    say(cli, &s);
    return 0;
}

int compile_print(struct cli *cli, const struct compile *c, struct error *err)
{
    struct compile_request r;
    if (c->n_cases == 1)
        return print_case(cli, c, &c->cases[0], err);
    if (compile_request(c, 0, &r) && c->n_cases == r.n)
        return print_request(cli, c, &r, err);
    return print_cases(cli, c, err);
}
