// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wrap.h"
#include "ir/policy.h"
#include "lab/compile.h"
#include "plan/layout.h"
#include "report/format.h"
#include "report/table.h"

static void time_cell(struct table *t, double seconds)
{
    table_number(t, isnan(seconds) ? NAN : seconds * 1e6, NULL);
}

static int show(struct cli *cli, struct table *t, struct error *err)
{
    int rc = t->row_count ? table_print(t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err) : 0;
    if (t->row_count)
        str_add_char(&cli->out, '\n');
    table_release(t);
    return rc;
}

// ---- One case

static void verdict(struct cli *cli, const struct compile *c, const struct compile_case *k)
{
    struct str s;
    char a[FORMAT_MAX], b[FORMAT_MAX];
    str_init(&s);
    str_addf(&s, "%s%s%s: ", cli_bold(cli), compile_state_name(k->state), cli_plain(cli));
    str_add_terminal(&s, c->options.workload, strlen(c->options.workload));
    if (k->policy)
        str_addf(&s, " under %s", k->policy);
    str_addf(&s, ", for %s", k->target_name);
    if (k->device_kind && *k->device_kind)
        str_addf(&s, " (%zu x %s)", k->n_devices, k->device_kind);
    str_addf(&s, "; the program is for %d device%s. ", k->partitions, k->partitions == 1 ? "" : "s");
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
    wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
    if (k->state == COMPILE_DONE || k->n_buffers)
        str_add_char(&cli->out, '\n');
    str_release(&s);
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
    wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
    str_release(&s);
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
        wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
        str_add_char(&cli->out, '\n');
        str_release(&s);
    }
}

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
    if (!rc)
        print_pipelines(cli, c);
    if (!rc)
        wrap_text(
            &cli->out,
            "A floor is what the compiler's own code takes at least; a prediction is the floor over the share that "
            "was measured on that chip, within a factor of 1.4, and there is none for chips that nobody measured.",
            0, 0, cli->width);
    if (!rc && above)
        wrap_text(&cli->out,
                  "A floor above 100 % of peak cannot be: instructions were missed, or the unit's rate is not the "
                  "published one. Nothing is predicted from it.",
                  0, 0, cli->width);
    return rc;
}

// ---- The command

static int result(void *of, struct jw *w, struct error *err)
{
    (void)err;
    compile_json(of, w);
    return 0;
}

// 0; 1 when a requirement is not met; ERR_DEVICE when every case was refused or died: then nothing is known.
static int answer(struct cli *cli, const struct compile *c, struct error *err)
{
    size_t known = 0;
    for (size_t i = 0; i < c->n_cases; i++)
        known += c->cases[i].state == COMPILE_DONE || c->cases[i].state == COMPILE_TOO_LARGE;
    if (!known) {
        const struct error *e = &c->cases[0].error;
        return error_set(err, ERR_DEVICE, e->where, "%s", e->message);
    }
    if (c->has_require && !compile_met(c)) {
        cli_note(cli, "the requirement is not met: %s", c->require.text);
        return 1;
    }
    return 0;
}

static int run(struct cli *cli, struct error *err)
{
    struct compile c;
    struct compile_job o = {
        .workload = cli->operands[0],
        .batch = cli_int(cli, "batch", 0),
        .seq = cli_int(cli, "seq", 0),
        .weight_args = cli_string(cli, "weight-args"),
        .sweep = cli_flag(cli, "sweep"),
        .layout = cli_string(cli, "layout"),
        .precision = cli_string(cli, "precision"),
        .no_evidence = cli_flag(cli, "no-evidence"),
        .dump_cost = cli_flag(cli, "dump-cost"),
        .dump = cli_string(cli, "dump"),
        .plugin = cli_string(cli, "plugin"),
        .timeout_s = cli_double(cli, "timeout", 0),
        .efficiency = cli_double(cli, "efficiency", 0),
        .jobs = (int)cli_int(cli, "jobs", 0),
        .require = cli_string(cli, "require"),
        .hash_plugin = cli->json,
        .progress = &cli->progress,
    };
    o.n_targets = cli_strings(cli, "target", &o.targets);
    o.n_policies = cli_strings(cli, "policy", &o.policies);
    o.n_flags = cli_strings(cli, "flag", &o.flags);
    if (!o.n_targets)
        return error_set(err, ERR_USAGE, "--target", "say what to compile for: v6e:2x4, tpu7x, h100");
    int rc = compile_open(&c, &o, err);
    if (!rc)
        rc = compile_run(&c, err);
    cli_progress_clear(cli);
    if (!rc)
        rc = cli->json        ? cli_document(cli, result, &c, err)
             : c.n_cases == 1 ? print_case(cli, &c, &c.cases[0], err)
                              : print_cases(cli, &c, err);
    if (!rc)
        rc = answer(cli, &c, err);
    if (!rc && o.dump)
        cli_note(cli, "what the compiler dumped is in %s", o.dump);
    compile_close(&c);
    return rc;
}

static const char *const description[] = {
    "Asks the real compiler about devices that are not there: whether the program fits, what memory and code it takes, "
    "in which order it runs, which arithmetic its products became, and the least time of it all. TPUs are compiled for "
    "by libtpu (`make tpu` fetches it), GPUs by XLA's CUDA plugin (`make gpu`). Nothing is sent anywhere.",
    "WORKLOAD is builtin:gemm:MxKxN:TYPE, builtin:minilm, builtin:transformer-block, a model directory, or a program "
    "of your own: StableHLO as text or bytecode (.mlir), or an HLO module from before optimisation (.hlo.pb, .txt). "
    "It goes to the compiler as it is; with --policy it is rewritten first, and --weight-args says what the policy "
    "stores. A program with mhlo.sharding or sdy shardings is divided over mhlo.num_partitions devices, or all of the "
    "target.",
    "The compiler floor of an operation is the longest of three: its bundles (instructions issued together, one per "
    "cycle) times the iterations of its code over the clock; the rows that it sends through the matrix units over "
    "their published rate; its bytes of main memory over the bandwidth. It is what this code takes at least, not what "
    "it will take: a prediction is the floor over an efficiency that was measured.",
    "Every compilation is in a process of its own: a program on which the compiler aborts is a row with its cause. "
    "Files it makes are removed.",
    NULL,
};

static const struct option options[] = {
    {.name = "target",
     .kind = OPTION_STRINGS,
     .argument = "TARGET",
     .words = chip_words,
     .help = "chip and shape: v6e:2x4, tpu7x (one chip), h100"},
    {.name = "policy",
     .kind = OPTION_STRINGS,
     .argument = "POLICY",
     .words = policy_words,
     .help = "a preset or a spelled-out policy; when not given, models are in f32 and programs as they "
             "are"},
    {.name = "layout",
     .kind = OPTION_STRING,
     .argument = "LAYOUT",
     .words = layout_words,
     .help = "divide a model over the target's devices: dp, fsdp, tp, tp+sp, ulysses, ring, or several, as in "
             "fsdp=4,tp=2 or pp=2,tp=4,mb=8; one device's program when not given"},
    {.name = "precision",
     .kind = OPTION_STRING,
     .choices = "default high highest",
     .help = "what every product of a model asks for: default lets a TPU make an f32 product as one bf16 pass; highest "
             "when not given"},
    {.name = "flag",
     .kind = OPTION_STRINGS,
     .argument = "NAME=VALUE",
     .help = "an option of the compiler, as in xla_tpu_scoped_vmem_limit_kib=65536"},
    {.name = "sweep", .kind = OPTION_FLAG, .help = "flags of one name are alternatives: every combination is compiled"},
    OPTION_BATCH(NULL, "texts in one run; the workload's own when not given"),
    OPTION_SEQ(NULL, "tokens per text; the workload's own when not given"),
    OPTION_WEIGHT_ARGS,
    {.name = "no-evidence",
     .kind = OPTION_FLAG,
     .help = "do not dump the final code: faster, without arithmetic and floor"},
    {.name = "dump-cost", .kind = OPTION_FLAG, .help = "compile once more without the dump, and say what it costs"},
    {.name = "dump",
     .kind = OPTION_STRING,
     .argument = "DIR",
     .complete = COMPLETE_DIR,
     .help = "keep what the compiler dumps in this folder, which must not exist"},
    {.name = "schedule", .kind = OPTION_FLAG, .help = "show every operation in the order in which it runs"},
    OPTION_TOP("20", "products shown, 0 for all"),
    {.name = "efficiency",
     .kind = OPTION_DOUBLE,
     .argument = "E",
     .min = 1e-3,
     .max = 1,
     .help =
         "floor over measured time on that chip, for the prediction; 0.43 on v6e when not given, unknown elsewhere"},
    {.name = "jobs",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 256,
     .help = "compilations at a time; one for every two processors when not given"},
    OPTION_REQUIRE,
    OPTION_PLUGIN,
    OPTION_TIMEOUT,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay compile gemm:4096x4096x4096:bf16 --target v6e", "one product on one chip"},
    {"assay compile builtin:transformer-block --policy bf16 --target v6e:2x4 --layout tp",
     "a block divided over eight chips, with its collectives"},
    {"assay compile builtin:transformer-block --policy bf16 --target v6e:2x4 --layout ring=2,ulysses=4",
     "the same, divided along its tokens"},
    {"assay compile model.mlir --target v5e --target v6e --target tpu7x", "your own program on three chips"},
    {"assay compile builtin:minilm --target v6e --policy bf16 --policy w8a8", "two policies in one table"},
    {"assay compile m.mlir --target v6e --sweep --flag f=1 --flag f=2", "two values of a compiler's option"},
    {NULL, NULL},
};

const struct command command_compile = {
    .name = "compile",
    .operands = "WORKLOAD",
    .min_operands = 1,
    .max_operands = 1,
    .operand_complete = COMPLETE_FILE,
    .summary = "what the real compiler makes of it, without the device: memory, schedule, arithmetic, floor",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
