// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "report/format.h"
#include "report/table.h"
#include "trace/diff.h"

static void add_row(struct table *t, const struct trace_diff_row *r)
{
    double a = (double)r->a.sum_ps / (double)r->a.count, b = (double)r->b.sum_ps / (double)r->b.count;
    table_row(t);
    trace_cell(t, r->name);
    table_cell(t, !r->b.count ? "vanished" : !r->a.count ? "new" : "");
    table_count(t, (double)r->a.count);
    table_count(t, (double)r->b.count);
    table_number(t, a / 1e6, NULL);
    table_number(t, b / 1e6, NULL);
    table_number(t, r->change_ps / 1e9, NULL);
    table_number(t, 100 * r->mean_change_ps / a, NULL);
    table_number(t, 100 * r->means.low / a, NULL);
    table_number(t, 100 * r->means.high / a, NULL);
}

struct column {
    const char *title, *unit;
    int rank;
    char origin;
};

static void columns(struct table *t, const char *key, const struct column *all, size_t n)
{
    table_init(t);
    table_column(t, key, NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < n; i++) {
        bool text = !all[i].unit && !all[i].rank && !all[i].origin;
        table_column(t, all[i].title, all[i].unit, text ? TABLE_LEFT : TABLE_RIGHT, all[i].rank);
        if (all[i].origin)
            table_origin(t, all[i].origin);
    }
}

static int print_table(struct cli *cli, struct table *t, enum table_format format, struct error *err)
{
    int rc = table_print(t, &cli->out, format, (size_t)cli->width, cli->color, err);
    table_release(t);
    return rc;
}

static int print_rows(struct cli *cli, const char *key, const struct trace_diff_row *rows, size_t n, size_t shown,
                      enum table_format format, struct error *err)
{
    struct table t;
    static const struct column all[] = {
        {"", NULL, 0, 0},         {"runs A", NULL, 4, 0},    {"runs B", NULL, 5, 0},
        {"mean A", "us", 1, 'M'}, {"mean B", "us", 1, 'M'},  {"change", "ms", 0, 'D'},
        {"change", "%", 0, 'D'},  {"at least", "%", 3, 'D'}, {"at most", "%", 3, 'D'},
    };
    columns(&t, key, all, sizeof all / sizeof *all);
    for (size_t i = 0; i < n && i < shown; i++)
        add_row(&t, &rows[i]);
    return print_table(cli, &t, format, err);
}

static void ps(struct table *t, bool there, int64_t value)
{
    table_number(t, there ? (double)value / 1e9 : NAN, NULL);
}

static int print_steps(struct cli *cli, const struct diff_steps *d, size_t shown, enum table_format format,
                       struct error *err)
{
    struct table t;
    static const struct column all[] = {
        {"step", NULL, 1, 0},     {"", NULL, 0, 0},         {"duration A", "ms", 2, 'M'}, {"duration B", "ms", 2, 'M'},
        {"change", "ms", 0, 'D'}, {"change", "%", 0, 'D'},  {"busy A", "ms", 4, 'M'},     {"busy B", "ms", 4, 'M'},
        {"idle A", "ms", 3, 'M'}, {"idle B", "ms", 3, 'M'},
    };
    columns(&t, "device", all, sizeof all / sizeof *all);
    for (size_t i = 0; i < d->n_steps && i < shown; i++) {
        const struct diff_step *s = &d->steps[i];
        double change = diff_step_change_ps(s);
        table_row(&t);
        trace_cell(&t, d->devices[s->device].name);
        table_cellf(&t, "%" PRId64, s->index);
        table_cell(&t, !s->in_b ? "vanished" : !s->in_a ? "new" : "");
        ps(&t, s->in_a, s->a_ps[DIFF_DURATION]);
        ps(&t, s->in_b, s->b_ps[DIFF_DURATION]);
        table_number(&t, change / 1e9, NULL);
        table_number(&t, 100 * change / (double)s->a_ps[DIFF_DURATION], NULL);
        ps(&t, s->in_a, s->a_ps[DIFF_BUSY]);
        ps(&t, s->in_b, s->b_ps[DIFF_BUSY]);
        ps(&t, s->in_a, s->a_ps[DIFF_IDLE]);
        ps(&t, s->in_b, s->b_ps[DIFF_IDLE]);
    }
    return print_table(cli, &t, format, err);
}

// What steps of each device are made of on average.
static int print_devices(struct cli *cli, const struct diff_steps *d, size_t shown, struct error *err)
{
    struct table t;
    static const struct column all[] = {
        {"", NULL, 0, 0},         {"steps A", NULL, 5, 0},    {"steps B", NULL, 5, 0},    {"mean A", "ms", 1, 'M'},
        {"mean B", "ms", 1, 'M'}, {"spread A", "ms", 4, 'M'}, {"spread B", "ms", 4, 'M'}, {"change", "ms", 0, 'D'},
        {"change", "%", 0, 'D'},  {"at least", "%", 3, 'D'},  {"at most", "%", 3, 'D'},
    };
    columns(&t, "steps of", all, sizeof all / sizeof *all);
    for (size_t i = 0; i < d->n_devices && i < shown; i++) {
        const struct diff_device *x = &d->devices[i];
        for (int m = 0; m < DIFF_MEASURES; m++) {
            const struct diff_side *a = &x->a[m], *b = &x->b[m];
            struct diff_interval r = diff_means(a, b);
            double before = diff_mean(a), change = diff_mean(b) - before;
            if (m > DIFF_IDLE && !a->sum_ps && !b->sum_ps)
                continue;
            table_row(&t);
            trace_cell(&t, x->name);
            table_cell(&t, diff_measure_name((enum diff_measure)m));
            table_count(&t, (double)a->count);
            table_count(&t, (double)b->count);
            table_number(&t, before / 1e9, NULL);
            table_number(&t, diff_mean(b) / 1e9, NULL);
            table_number(&t, diff_spread(a) / 1e9, NULL);
            table_number(&t, diff_spread(b) / 1e9, NULL);
            table_number(&t, change / 1e9, NULL);
            table_number(&t, 100 * change / before, NULL);
            table_number(&t, 100 * r.low / before, NULL);
            table_number(&t, 100 * r.high / before, NULL);
        }
    }
    return print_table(cli, &t, TABLE_TEXT, err);
}

static const char *judgement(enum trace_diff_verdict verdict)
{
    return verdict == TRACE_DIFF_SLOWER       ? "slower, beyond"
           : verdict == TRACE_DIFF_NOT_SLOWER ? "within"
                                              : "it cannot be told whether that is beyond";
}

static void say_executions(struct str *s, const struct trace_diff *d, double tolerance)
{
    if (d->scale != 1)
        str_addf(s, "Changes in ms are of A's total, with B's brought to A's number of executions (times %.4g). ",
                 d->scale);
    if (isnan(d->slower)) {
        str_add(s, "No program ran in both: whether B is slower cannot be told.");
        return;
    }
    str_addf(s, "B's executions take %+.3g %% of A's time more", 100 * d->slower);
    if (isnan(d->range.low))
        str_add(s, ". With fewer than two of a program that can be chance: it cannot be told.");
    else
        str_addf(s, ", 95 %% interval %+.3g to %+.3g %%: %s a tolerance of %.3g %%.", 100 * d->range.low,
                 100 * d->range.high, judgement(diff_judge(&d->range, tolerance)), 100 * tolerance);
}

static void say_source(struct str *s, const char *before, const struct diff_steps_source *source)
{
    str_addf(s, "%s%s", before, trace_rule_text(source->rule));
    if (source->program.size) {
        str_add(s, ": ");
        str_add_terminal(s, (const char *)source->program.data, source->program.size);
    }
}

static void say_steps(struct str *s, const struct diff_steps *d, bool judge, double tolerance)
{
    const struct diff_step *most = d->n_matched ? &d->steps[0] : NULL;
    char before[FORMAT_MAX], after[FORMAT_MAX];
    say_source(s, d->comparable ? " Steps by " : " Steps of A by ", &d->a);
    if (!d->comparable) {
        say_source(s, "; of B by ", &d->b);
        str_add(s, ". These are not the same steps, so it cannot be told whether B's are slower; --program chooses a "
                   "program that both ran.");
        return;
    }
    if (isnan(d->slower)) {
        str_add(s, ". No device has steps in both.");
        return;
    }
    str_addf(s, ". From start to start, B's take %+.3g %% of A's time more", 100 * d->slower);
    if (isnan(d->range.low))
        str_add(s, "; with fewer than two of a device that can be chance");
    else
        str_addf(s, ", 95 %% interval %+.3g to %+.3g %%", 100 * d->range.low, 100 * d->range.high);
    if (judge && !isnan(d->range.low))
        str_addf(s, ": %s a tolerance of %.3g %%", judgement(d->verdict), 100 * tolerance);
    str_add(s, ".");
    if (!isnan(d->matched_range.low))
        str_addf(s, " Step for step, the %zu that both have: %+.3g %%, %+.3g to %+.3g %%.", d->n_matched,
                 100 * d->matched_slower, 100 * d->matched_range.low, 100 * d->matched_range.high);
    if (d->only_a + d->only_b)
        str_addf(s, " %zu step%s only in A, %zu only in B.", d->only_a, d->only_a == 1 ? " is" : "s are", d->only_b);
    if (most && diff_step_change_ps(most) != 0) {
        format_time(before, (double)most->a_ps[DIFF_DURATION] * 1e-12);
        format_time(after, (double)most->b_ps[DIFF_DURATION] * 1e-12);
        str_addf(s, " Step %" PRId64 " of ", most->index);
        str_add_terminal(s, (const char *)d->devices[most->device].name.data, d->devices[most->device].name.size);
        str_addf(s, " moved most: from %s to %s.", before, after);
    }
}

static void say(struct cli *cli, const struct trace_diff *d, double tolerance, size_t n, size_t shown)
{
    struct str s;
    str_init(&s);
    if (shown < n)
        str_addf(&s, "The first %zu of %zu rows; --top 0 shows all. ", shown, n);
    if (!d->by_step)
        say_executions(&s, d, tolerance);
    if (d->by_step || d->steps.n_steps)
        say_steps(&s, &d->steps, d->by_step, tolerance);
    const char *text = str_text(&s);
    wrap_text(&cli->out, text + (*text == ' '), 0, 0, cli->width);
    str_release(&s);
}

static int print_text(struct cli *cli, const struct trace_diff *d, struct error *err)
{
    enum table_format format = trace_format(cli);
    size_t top = trace_top(cli), n = d->by_step ? d->steps.n_steps : d->n_rows, shown = top && top < n ? top : n;
    int rc = d->by_step ? print_steps(cli, &d->steps, shown, format, err)
                        : print_rows(cli, cli_string(cli, "by"), d->rows, d->n_rows, shown, format, err);
    if (rc || format != TABLE_TEXT)
        return rc;
    if (d->n_programs && !d->by_step) {
        str_add(&cli->out, "\n");
        rc = print_rows(cli, "executions of", d->programs, d->n_programs, d->n_programs, format, err);
    }
    if (!rc && d->steps.n_devices) {
        str_add(&cli->out, "\n");
        rc = print_devices(cli, &d->steps, top ? top : d->steps.n_devices, err);
    }
    if (!rc)
        say(cli, d, cli_double(cli, "tolerance", 0) / 100, n, shown);
    return rc;
}

static int print(struct cli *cli, const struct trace *a, const struct trace *b, const struct trace_diff *d,
                 struct error *err)
{
    struct error damage = {0};
    int bad = trace_damage(a, &damage), rc = 0;
    if (!bad)
        bad = trace_damage(b, &damage);
    if (trace_wants_json(cli)) {
        struct str text;
        struct jw w;
        str_init(&text);
        jw_init(&w, &text, false);
        trace_diff_json(a, b, d, cli_given(cli, "top") ? trace_top(cli) : 0, &w);
        rc = jw_finish(&w, err);
        if (!rc)
            rc = cli_envelope(cli, str_text(&text), bad ? &damage : NULL, err);
        str_release(&text);
    } else {
        rc = print_text(cli, d, err);
    }
    if (!rc && bad)
        *err = damage;
    if (rc || bad)
        return rc ? rc : bad;
    return d->verdict == TRACE_DIFF_SLOWER ? 1 : d->verdict == TRACE_DIFF_UNCLEAR ? 6 : 0;
}

static int run(struct cli *cli, struct error *err)
{
    struct trace a = {0}, b = {0};
    struct trace_diff d;
    struct threads *threads = NULL;
    struct trace_diff_options o = {.tolerance = cli_double(cli, "tolerance", 0) / 100,
                                   .program = cli_string(cli, "program"),
                                   .by_step = strcmp(cli_string(cli, "by"), "step") == 0};
    int rc = o.by_step ? 0 : trace_key_parse(&o.by, cli_string(cli, "by"), err);
    if (!rc)
        rc = threads_new(&threads, (size_t)cli_int(cli, "threads", 0), err);
    if (rc)
        return rc;
    rc = trace_open(&a, &cli->operands[0], 1, err);
    if (!rc)
        rc = trace_open(&b, &cli->operands[1], 1, err);
    if (!rc)
        rc = trace_diff(&a, &b, &o, threads, &cli->arena, &d, err);
    if (!rc)
        rc = print(cli, &a, &b, &d, err);
    trace_close(&a);
    trace_close(&b);
    threads_free(threads);
    return rc;
}

static void key_words(struct str *out)
{
    trace_key_words(out);
    str_add(out, "step\n");
}

static const char *const description[] = {
    "What became slower or faster from profile A to profile B, the biggest change first, and what is new or has "
    "vanished. Operations are compared by the mean self time of one occurrence, with a 95 % interval of the difference "
    "(Welch's).",
    TRACE_INPUT_TEXT,
    "Steps are found as `assay trace steps` does it and matched by device and number: the mean and the spread of their "
    "durations from start to start, busy and idle time, and which step moved most.",
    "The verdict is about executions of the programs that both profiles have, with --by step about steps, which hold "
    "the time between executions too. Exit code 1: B is slower by more than the tolerance, and the whole interval is "
    "beyond it; 6: the interval holds the tolerance, so it cannot be told; else 0.",
    NULL,
};

static const struct option options[] = {
    {.name = "by",
     .kind = OPTION_STRING,
     .preset = "op",
     .argument = "KEY",
     .words = key_words,
     .help = "what a row is: op, name, category, module, scope, scope:N, source or stat:NAME, as `assay trace ops` has "
             "them, or step, a step of a device"},
    {.name = "program",
     .kind = OPTION_STRING,
     .argument = "NAME",
     .help = "a step is each execution of this program, whatever markers say"},
    {.name = "tolerance",
     .kind = OPTION_DOUBLE,
     .argument = "P",
     .preset = "2",
     .min = 0,
     .max = 1e6,
     .help = "per cent by which B may be slower"},
    OPTION_TOP("30", "rows shown, 0 for all; csv and json have all unless it is given"),
    OPTION_FORMAT("text md csv html json"),
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace diff before after --tolerance 1", "did the change cost more than one per cent"},
    {"assay trace diff before after --by source --top 10", "the ten lines of the program that moved most"},
    {"assay trace diff before after --by step --tolerance 1", "are steps more than one per cent longer, and which"},
    {NULL, NULL},
};

const struct command command_trace_diff = {
    .name = "trace diff",
    .operands = "A B",
    .min_operands = 2,
    .max_operands = 2,
    .operand_complete = COMPLETE_FILE,
    .summary = "what became slower or faster between two profiles",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
