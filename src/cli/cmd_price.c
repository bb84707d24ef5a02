// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wrap.h"
#include "ir/policy.h"
#include "lab/price.h"
#include "lab/price_layout.h"
#include "lab/price_whatif.h"
#include "plan/layout.h"
#include "report/format.h"
#include "report/table.h"

static void floor_cell(struct table *t, const struct floor *f)
{
    char text[FORMAT_MAX + 4];
    if (isnan(f->time.value)) {
        table_null(t, f->time.source);
        return;
    }
    format_number(text, f->time.value, 3);
    size_t n = strlen(text);
    memcpy(text + n, f->bound == BOUND_COMPUTE ? " c" : " m", 3);
    table_number(t, f->time.value, text);
}

// Whether there is anything to be merged: of a single product there is not.
static bool has_merged(const struct price *p)
{
    return p->total.bytes_merged < p->total.bytes;
}

static void cost_cells(struct table *t, const struct price *p, const struct cost *c)
{
    table_number(t, cost_product_flop(c) / 1e9, NULL);
    table_number(t, c->bytes / 1e6, NULL);
    if (has_merged(p))
        table_number(t, c->bytes_merged / 1e6, NULL);
    table_number(t, c->bytes_unfused / 1e6, NULL);
    table_number(t, roofline_intensity(c).value, NULL);
}

static void columns_of(struct table *t, const struct price *p)
{
    static const struct {
        const char *title, *unit;
        int rank;
    } columns[] = {{"product", "GFLOP", 1},
                   {"bytes", "MB", 1},
                   {"merged", "MB", 5},
                   {"unfused", "MB", 6},
                   {"intensity", "FLOP/B", 4}};
    if (p->request.n_parts > 1)
        table_column(t, "part", NULL, TABLE_LEFT, 0);
    table_column(t, "module", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        if (i == 2 && !has_merged(p))
            continue;
        table_column(t, columns[i].title, columns[i].unit, TABLE_RIGHT, columns[i].rank);
        table_origin(t, ORIGIN_DERIVED);
    }
    for (size_t i = 0; i < 2 * p->n_chips; i++) {
        const char *name = p->chips[i / 2]->name;
        char merged[80];
        if (i % 2 && !has_merged(p))
            continue;
        snprintf(merged, sizeof merged, "%s merged", name);
        table_column(t, i % 2 ? merged : name, "us", TABLE_RIGHT, i % 2 ? 3 : 2);
        table_origin(t, ORIGIN_DERIVED);
    }
}

static int print_row(struct table *t, struct price *p, int r, struct error *err)
{
    int rc = 0;
    table_row(t);
    if (p->request.n_parts > 1)
        table_cell(t, r < p->n_rows ? price_part_of(p, r)->part->name : "");
    table_cell(t, r < p->n_rows ? p->rows[r].group : "all");
    cost_cells(t, p, price_cost(p, r));
    for (size_t i = 0; i < p->n_chips && !rc; i++) {
        struct floor f;
        struct whole_floor whole = {0};
        rc = price_floor(p, r, i, &f, err);
        if (rc)
            break;
        floor_cell(t, &f);
        if (!has_merged(p))
            continue;
        if (r < p->n_rows)
            rc = roofline_merged(price_cost(p, r), p->chips[i], &p->arena, &f, err);
        else
            rc = roofline_whole(p->rows, p->n_rows, p->chips[i], &p->arena, &whole, err);
        if (r == p->n_rows && !rc) {
            f.time = whole.time[WHOLE_ROWS_MERGED];
            f.bound =
                whole.time[WHOLE_MATH].value > whole.time[WHOLE_MEMORY_MERGED].value ? BOUND_COMPUTE : BOUND_MEMORY;
        }
        if (!rc)
            floor_cell(t, &f);
    }
    return rc;
}

static int print_rows(struct cli *cli, struct price *p, struct error *err)
{
    struct table t;
    int rc = 0;
    table_init(&t);
    columns_of(&t, p);
    for (int r = 0; r <= p->n_rows && !rc; r++)
        rc = print_row(&t, p, r, err);
    if (!rc)
        rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

static int table_end(struct cli *cli, struct table *t, struct error *err)
{
    str_add_char(&cli->out, '\n');
    int rc = table_print(t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(t);
    return rc;
}

// What "the floor" can mean, by chip.
static int print_wholes(struct cli *cli, struct price *p, struct error *err)
{
    struct table t;
    int rc = 0;
    if (!p->n_chips || p->n_rows < 2)
        return 0;
    table_init(&t);
    table_column(&t, "all of it", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < p->n_chips; i++) {
        table_column(&t, p->chips[i]->name, "us", TABLE_RIGHT, 1);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (int w = 0; w < WHOLES && !rc; w++) {
        table_row(&t);
        table_cell(&t, whole_label((enum whole)w));
        for (size_t i = 0; i < p->n_chips && !rc; i++) {
            struct whole_floor f;
            rc = roofline_whole(p->rows, p->n_rows, p->chips[i], &p->arena, &f, err);
            if (!rc && isnan(f.time[w].value))
                table_null(&t, f.time[w].source);
            else if (!rc)
                table_number(&t, f.time[w].value, NULL);
        }
    }
    if (rc) {
        table_release(&t);
        return rc;
    }
    return table_end(cli, &t, err);
}

static void print_parts(struct str *note, const struct price *p)
{
    for (int i = 0; i < p->request.n_parts && p->request.n_parts > 1; i++) {
        const struct price_part *part = &p->parts[i];
        char flop[FORMAT_MAX], weights[FORMAT_MAX];
        format_number(flop, cost_product_flop(&part->total) / 1e12, 5);
        format_bytes(weights, (double)part->weight_bytes);
        str_addf(note, "%s%s: %lld x %s of %s TFLOP, weights %s", i ? "; " : "One request is ", part->part->name,
                 (long long)part->part->calls, part->part->call, flop, weights);
    }
    if (p->request.n_parts > 1)
        str_add(note, ". Figures are of the whole request. ");
}

// How many experts the tokens of a call need.
static void print_experts(struct str *note, const struct price *p)
{
    bool any = false;
    for (int i = 0; i < p->request.n_parts; i++) {
        const struct model_part *part = &p->request.parts[i];
        const struct model_traffic *t = &part->traffic;
        if (!t->experts.n)
            continue;
        if (!any)
            str_addf(note, "A token passes %lld of %lld experts; of a layer's are read, were all chosen as often: ",
                     (long long)t->experts.active, (long long)t->experts.n);
        str_addf(note, "%s%.3g by the %.0f token%s of a %s", any ? ", " : "", experts_touched(&t->experts, t->tokens),
                 t->tokens, t->tokens > 1 ? "s" : "", part->name);
        any = true;
    }
    if (any)
        str_add(note, ". ");
}

// Of a program: which of its arguments are what.
static void print_arguments(struct str *note, const struct price *p)
{
    const struct price_arguments *a = &p->arguments;
    char bytes[FORMAT_MAX];
    if (!p->program.path)
        return;
    format_bytes(bytes, a->input_bytes);
    str_addf(note, "Arguments: %d weight%s, %d input%s of %s", a->n_weights, a->n_weights == 1 ? "" : "s", a->n_inputs,
             a->n_inputs == 1 ? "" : "s", bytes);
    if (!a->n_weights && a->n_inputs)
        str_add(note, " (--weights or --weight-args says which are weights)");
    if (a->n_unused)
        str_addf(note, "; %zu tensor%s of --weights %s none of them", a->n_unused, a->n_unused == 1 ? "" : "s",
                 a->n_unused == 1 ? "is" : "are");
    if (a->n_cases > 1)
        str_addf(note, "; of %zu cases one is priced", a->n_cases);
    str_add(note, ". ");
}

// Layouts over all chips of a target, the least floor first.
static int print_ranking(struct cli *cli, const struct layouts *l, struct error *err)
{
    struct table t;
    struct str name;
    static const struct {
        const char *title, *unit;
        int rank;
    } columns[] = {{"arithmetic", "us", 3}, {"memory", "us", 3},     {"sent", "MB", 2},   {"ports", "us", 5},
                   {"links", "us", 2},      {"overlapped", "us", 2}, {"in turn", "us", 1}};
    str_init(&name);
    chip_target_spell(&l->target, &name);
    table_init(&t);
    table_column(&t, str_text(&name), NULL, TABLE_LEFT, 0);
    str_release(&name);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        table_column(&t, columns[i].title, columns[i].unit, TABLE_RIGHT, columns[i].rank);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (int i = 0; i < l->n; i++) {
        const struct layout_price *row = &l->rows[i];
        const double cells[] = {row->math_s * 1e6,     row->memory_s * 1e6,     row->bytes / 1e6,   row->ports_s * 1e6,
                                row->topology_s * 1e6, row->overlapped_s * 1e6, row->serial_s * 1e6};
        table_row(&t);
        table_cell(&t, row->name);
        for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
            if (row->reason)
                table_null(&t, row->reason);
            else
                table_number(&t, cells[k], NULL);
        }
    }
    return table_end(cli, &t, err);
}

// What each part sends each time.
static int print_sent(struct cli *cli, const struct price *p, const struct layouts *l, struct error *err)
{
    struct table t;
    bool any = false;
    static const char *const units[] = {"MB", "us", "us"};
    static const char *const titles[] = {"sent", "ports", "links"};
    table_init(&t);
    table_column(&t, "each time", NULL, TABLE_LEFT, 0);
    table_column(&t, "part", NULL, TABLE_LEFT, 0);
    table_column(&t, "times", NULL, TABLE_RIGHT, 2);
    for (int i = 0; i < 3; i++) {
        table_column(&t, titles[i], units[i], TABLE_RIGHT, 1);
        table_origin(&t, ORIGIN_DERIVED);
    }
    table_column(&t, "what", NULL, TABLE_LEFT, 3);
    for (int i = 0; i < l->n; i++) {
        for (int k = 0; k < p->request.n_parts; k++) {
            const struct layout_part *part = &l->rows[i].parts[k];
            if (!part->what || l->rows[i].reason)
                continue;
            any = true;
            table_row(&t);
            table_cell(&t, l->rows[i].name);
            table_cell(&t, p->request.parts[k].name);
            table_number(&t, part->times, NULL);
            table_number(&t, part->comms.bytes / 1e6, NULL);
            table_number(&t, part->comms.ports_s * 1e6, NULL);
            table_number(&t, part->comms.topology_s * 1e6, NULL);
            table_cell(&t, part->what);
        }
    }
    if (!any) {
        table_release(&t);
        return 0;
    }
    return table_end(cli, &t, err);
}

// Which links each way of a mixture takes, and what it sends in a request.
static int print_ways(struct cli *cli, const struct layouts *l, struct error *err)
{
    struct table t;
    bool any = false;
    static const char *const titles[] = {"weights", "sent", "ports", "links"};
    static const char *const units[] = {"GB", "MB", "us", "us"};
    table_init(&t);
    table_column(&t, "a request", NULL, TABLE_LEFT, 0);
    table_column(&t, "ways", NULL, TABLE_LEFT, 0);
    for (int i = 0; i < 4; i++) {
        table_column(&t, titles[i], units[i], TABLE_RIGHT, 1);
        table_origin(&t, ORIGIN_DERIVED);
    }
    table_column(&t, "over", NULL, TABLE_LEFT, 2);
    for (int i = 0; i < l->n; i++) {
        const struct layout_price *row = &l->rows[i];
        for (int k = 0; k < row->n_ways && row->n_ways > 1 && !row->reason; k++) {
            const struct layout_way *way = &row->ways[k];
            any = true;
            table_row(&t);
            table_cell(&t, row->name);
            table_cellf(&t, "%s=%lld", layout_axis_name(way->axis), (long long)way->ways);
            table_number(&t, row->weight_bytes / 1e9, NULL);
            table_number(&t, way->bytes / 1e6, NULL);
            table_number(&t, way->ports_s * 1e6, NULL);
            table_number(&t, way->topology_s * 1e6, NULL);
            table_cell(&t, way->place);
        }
    }
    if (any)
        return table_end(cli, &t, err);
    table_release(&t);
    return 0;
}

static int print_layouts(struct cli *cli, struct price *p, struct error *err)
{
    int rc = 0;
    for (size_t k = 0; k < p->n_chips && !rc; k++) {
        struct layouts l;
        const char *note;
        if (p->targets[k].chips < 2)
            continue;
        rc = price_layouts(p, &p->targets[k], p->layouts, p->n_layouts, &l, err);
        if (!rc)
            rc = print_ranking(cli, &l, err);
        if (!rc)
            rc = print_sent(cli, p, &l, err);
        if (!rc)
            rc = print_ways(cli, &l, err);
        for (int i = 0; !rc && (note = layouts_note(p, &l, i, err)) != NULL; i++)
            wrap_text(&cli->out, note, 0, 0, cli->width);
    }
    return rc;
}

static int print_changes(struct cli *cli, const struct what_ifs *w, struct error *err)
{
    struct table t;
    char title[80];
    snprintf(title, sizeof title, "what if, on %s", w->chip->name);
    table_init(&t);
    table_column(&t, title, NULL, TABLE_LEFT, 0);
    static const char *const titles[] = {"off the rows", "share", "off the single", "share"}, *const units[] = {
                                                                                                  "us", "%", "us", "%"};
    for (int i = 0; i < 4; i++) {
        table_column(&t, titles[i], units[i], TABLE_RIGHT, i < 2 ? 1 : 2);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (int i = 0; i < w->n; i++) {
        const struct what_if *one = &w->list[i];
        table_row(&t);
        table_cellf(&t, "%s%s", one->name, one->counted ? " (counted already)" : "");
        table_number(&t, one->rows_us, NULL);
        table_number(&t, 100 * one->rows_share, NULL);
        table_number(&t, one->single_us, NULL);
        table_number(&t, 100 * one->single_share, NULL);
    }
    return table_end(cli, &t, err);
}

static int print_batches(struct cli *cli, struct price *p, size_t k, const struct what_ifs *w, struct error *err)
{
    struct batch_price batches[WHAT_IF_MAX_BATCHES];
    struct table t;
    int n, rc = price_batches(&p->options, p, k, batches, &n, err);
    if (rc || !n)
        return rc;
    table_init(&t);
    table_column(&t, "another batch", NULL, TABLE_RIGHT, 0);
    for (int i = 0; i < 2; i++) {
        table_column(&t, i ? "single floor, each" : "sum of row floors, each", "us", TABLE_RIGHT, 1);
        table_origin(&t, ORIGIN_DERIVED);
    }
    for (int i = -1; i < n; i++) {
        double here = (double)p->request.batch;
        table_row(&t);
        table_count(&t, i < 0 ? here : (double)batches[i].batch);
        table_number(&t, i < 0 ? w->now.time[WHOLE_ROWS].value / here : batches[i].rows_us, NULL);
        table_number(&t, i < 0 ? w->now.time[WHOLE_SINGLE].value / here : batches[i].single_us, NULL);
    }
    return table_end(cli, &t, err);
}

// What is missing in the changes of a program, and what to do about it.
static const char *what_if_gap(const struct price *p)
{
    bool with_weights = false;
    for (int i = 0; i < p->n_rows; i++)
        with_weights |= p->rows[i].cost.weight_bytes > 0 && cost_product_flop(&p->rows[i].cost) > 0;
    if (!p->program.path || with_weights)
        return "";
    return p->arguments.n_weights ? "No product takes a weight, so that nothing is said of 8 bits. "
                                  : "No argument is known to be a weight, without which nothing is said of 8 bits: "
                                    "--weights or --weight-args tells. ";
}

static int print_what_ifs(struct cli *cli, struct price *p, struct error *err)
{
    int rc = 0;
    for (size_t k = 0; k < p->n_chips && p->options.what_if && !rc; k++) {
        struct what_ifs w;
        struct str note;
        rc = price_what_ifs(p, k, &w, err);
        if (!rc && w.n)
            rc = print_changes(cli, &w, err);
        if (!rc)
            rc = print_batches(cli, p, k, &w, err);
        if (rc)
            break;
        str_init(&note);
        str_add(&note, what_if_gap(p));
        str_addf(&note, "Bound by arithmetic from %s: ",
                 p->program.path ? "so many times the batch of the export" : "a batch of");
        for (int i = 0; i < p->request.n_parts; i++) {
            str_addf(&note, "%s%s ", i ? ", " : "", p->request.parts[i].name);
            if (isnan(w.compute_bound_batch[i]))
                str_add(&note, "never (what grows with the batch takes longer to move than to compute)");
            else
                str_addf(&note, "%.0f", w.compute_bound_batch[i]);
        }
        str_add(&note,
                ". Products alone change the rate, weights alone the bytes: a row that waits for memory gains nothing "
                "from a faster product. The single floor is the longer of all arithmetic and all memory, each row "
                "a kernel of its own.");
        wrap_text(&cli->out, str_text(&note), 0, 0, cli->width);
        rc = str_check(&note, err);
        str_release(&note);
    }
    return rc;
}

// us, in the unit that suits it.
static void span_cell(struct table *t, struct quantity q)
{
    char text[FORMAT_MAX];
    format_time(text, q.value / 1e6);
    if (isnan(q.value))
        table_null(t, q.source);
    else
        table_number(t, q.value, text);
}

// One line of three predictions; of the whole with its target's name.
static void prediction_row(struct table *t, const char *target, const char *what, const struct prediction *k)
{
    const struct quantity cells[] = {k->sheet, k->floor, k->predicted, k->low, k->high, k->calibrated, k->measured};
    table_row(t);
    table_cell(t, target);
    table_cell(t, what);
    for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
        span_cell(t, cells[c]);
}

// Programs of a request that are predicted each.
static int n_predicted(const struct price *p, const struct price_prediction *k)
{
    return k->parts && p->request.n_parts > 1 ? p->request.n_parts : 0;
}

// "v6e:2x4, tp"
static const char *predicted_for(const struct price_prediction *k, char out[128])
{
    const char *layout = k->whole.layout;
    snprintf(out, 128, "%s%s%s", k->whole.target, layout ? ", " : "", layout ? layout : "");
    return out;
}

static int prediction_times(struct cli *cli, const struct price *p, struct error *err)
{
    static const char *const titles[] = {"sheet floor", "compiler floor", "compiler predicts", "at least",
                                         "at most",     "calibrated",     "measured"};
    struct table t;
    bool measured = false;
    for (size_t i = 0; i < p->n_predictions; i++)
        measured |= !isnan(p->predictions[i].whole.measured.value);
    table_init(&t);
    table_column(&t, "predictions", NULL, TABLE_LEFT, 0);
    table_column(&t, "of", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        table_column(&t, titles[i], NULL, TABLE_RIGHT, i == 3 || i == 4 ? 3 : i == 6 && !measured ? 9 : 1);
        table_origin(&t, i == 6 ? ORIGIN_MEASURED : ORIGIN_DERIVED);
    }
    for (size_t i = 0; i < p->n_predictions; i++) {
        const struct price_prediction *k = &p->predictions[i];
        char target[128];
        predicted_for(k, target);
        for (int n = 0; n < n_predicted(p, k); n++) {
            char what[64];
            const struct model_part *part = &p->request.parts[n];
            snprintf(what, sizeof what, part->calls > 1 ? "%s x %lld" : "%s", part->name, (long long)part->calls);
            prediction_row(&t, n ? "" : target, what, &k->parts[n]);
        }
        prediction_row(&t, n_predicted(p, k) ? "" : target, "all", &k->whole);
    }
    return table_end(cli, &t, err);
}

static void bytes_cell(struct table *t, double bytes)
{
    table_number(t, isnan(bytes) ? NAN : bytes / 0x1p20, NULL);
}

// What the compiler plans for each program, and what asking it took.
static int prediction_memory(struct cli *cli, const struct price *p, struct error *err)
{
    static const char *const titles[] = {"weights", "other arguments", "results", "temporaries", "code", "all"};
    struct table t;
    table_init(&t);
    table_column(&t, "compiled", NULL, TABLE_LEFT, 0);
    table_column(&t, "program", NULL, TABLE_LEFT, 0);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        table_column(&t, titles[i], "MiB", TABLE_RIGHT, i == 5 ? 0 : i == 1 || i == 2 ? 4 : 2);
        table_origin(&t, ORIGIN_DERIVED);
    }
    table_column(&t, "fits", NULL, TABLE_LEFT, 0);
    table_column(&t, "asked for", "s", TABLE_RIGHT, 3);
    table_origin(&t, ORIGIN_MEASURED);
    table_column(&t, "processor", "s", TABLE_RIGHT, 4);
    table_origin(&t, ORIGIN_MEASURED);
    for (size_t i = 0; i < p->n_predictions; i++) {
        const struct price_prediction *k = &p->predictions[i];
        for (int n = 0; n < p->request.n_parts && k->parts; n++) {
            const struct predict_compiled *m = k->parts[n].memory;
            if (!m)
                continue;
            double of[] = {m->weight_bytes, m->argument_bytes - m->weight_bytes,
                           m->output_bytes, m->temporary_bytes,
                           m->code_bytes,   m->needed_bytes};
            table_row(&t);
            char target[128];
            table_cell(&t, n ? "" : predicted_for(k, target));
            table_cell(&t, p->request.parts[n].name);
            for (size_t c = 0; c < sizeof of / sizeof *of; c++)
                bytes_cell(&t, of[c]);
            table_cell(&t, strcmp(m->state, "compiled") == 0       ? "yes"
                           : strcmp(m->state, "does not fit") == 0 ? "no"
                                                                   : m->state);
            table_number(&t, k->parts[n].compile_s, NULL);
            table_number(&t, k->parts[n].cpu_s, NULL);
        }
    }
    if (t.row_count)
        return table_end(cli, &t, err);
    table_release(&t); // no compiler was asked
    return 0;
}

static void resident_text(struct cli *cli, const struct price *p)
{
    for (size_t i = 0; i < p->n_predictions; i++) {
        const struct price_prediction *k = &p->predictions[i];
        char a[FORMAT_MAX], b[FORMAT_MAX], target[128];
        struct str s;
        if (!n_predicted(p, k) || isnan(k->resident_bytes))
            continue;
        str_init(&s);
        format_bytes_binary(a, k->resident_bytes);
        format_bytes_binary(b, k->usable_bytes);
        str_addf(&s,
                 "%s: with the weights and code of all programs in memory and the rest of one at a time, %s of %s "
                 "[D]: %s.",
                 predicted_for(k, target), a, b,
                 k->resident_bytes <= k->usable_bytes ? "they fit together" : "they do not fit together");
        wrap_text(&cli->out, str_text(&s), 0, 0, cli->width);
        str_release(&s);
    }
}

// By the sheet, by the compiler, by what was measured.
static int print_predictions(struct cli *cli, const struct price *p, struct error *err)
{
    if (!p->predictions)
        return 0;
    int rc = prediction_times(cli, p, err);
    if (!rc)
        rc = prediction_memory(cli, p, err);
    if (rc)
        return rc;
    resident_text(cli, p);
    wrap_text(&cli->out,
              "Of one whole request on one device; under a layout on each of them, with what they send. The sheet: the "
              "sum of row floors. The compiler: what its code "
              "takes at least, and that over the efficiency that was measured, within its band. Calibrated: the "
              "sheet's floor over the share of its peak that a product was measured to reach on that chip. Measured: "
              "what somebody published of this request, where that is known here.",
              0, 0, cli->width);
    return 0;
}

// Whether some chip publishes no rate for what is multiplied.
static bool lacks_rate(struct price *p)
{
    for (size_t k = 0; k < p->n_chips; k++) {
        struct floor f;
        if (price_floor(p, p->n_rows, k, &f, NULL) == 0 && isnan(f.time.value))
            return true;
    }
    return false;
}

static int print_text(struct cli *cli, struct price *p, struct error *err)
{
    int rc = print_rows(cli, p, err);
    if (!rc)
        rc = print_wholes(cli, p, err);
    if (rc)
        return rc;
    char weights[FORMAT_MAX], scales[FORMAT_MAX];
    format_bytes(weights, (double)p->weight_bytes);
    format_bytes(scales, (double)p->scale_bytes);
    struct str note;
    str_init(&note);
    print_parts(&note, p);
    print_experts(&note, p);
    if (p->weight_bytes && !p->policy)
        str_addf(&note, "weights %s. ", weights);
    else if (p->weight_bytes)
        str_addf(&note, "weights %s, scales %s, under %s. ", weights, scales, p->policy);
    print_arguments(&note, p);
    str_add(&note,
            "A row's floor is the longer of product FLOP over peak (c) and bytes over bandwidth (m) on one device, the "
            "row a kernel of its own; merged, rows without products are made inside those beside them. Element-wise "
            "work has no published rate and is not in it.");
    if (p->policy && lacks_rate(p))
        str_add(&note, " Where a chip has no rate for a type, another --policy may have one, as bf16 does.");
    wrap_text(&cli->out, str_text(&note), 0, 0, cli->width);
    const char *more = p->note ? p->note : price_note(p);
    if (more) { // which may have names of a file
        str_clear(&note);
        str_add_terminal(&note, more, strlen(more));
        wrap_text(&cli->out, str_text(&note), 0, 0, cli->width);
    }
    rc = str_check(&note, err);
    str_release(&note);
    if (!rc)
        rc = print_predictions(cli, p, err);
    if (!rc)
        rc = print_layouts(cli, p, err);
    return rc ? rc : print_what_ifs(cli, p, err);
}

static int result(void *of, struct jw *w, struct error *err)
{
    return price_json(of, w, err);
}

static int64_t given(const struct cli *cli, const char *name)
{
    return cli_given(cli, name) ? cli_int(cli, name, 0) : 0;
}

static int run(struct cli *cli, struct error *err)
{
    struct price p;
    struct price_options o = {
        .workload = cli->operands[0],
        .policy = cli_given(cli, "policy") ? cli_string(cli, "policy") : NULL,
        .shape = {.batch = given(cli, "batch"),
                  .seq = given(cli, "seq"),
                  .height = given(cli, "height"),
                  .width = given(cli, "width"),
                  .steps = given(cli, "steps"),
                  .tokens = given(cli, "tokens"),
                  .weight_args = cli_string(cli, "weight-args")},
        .weights = cli_string(cli, "weights"),
        .inputs = cli_string(cli, "inputs"),
        .calibration = cli_given(cli, "calibration") ? cli_string(cli, "calibration") : NULL,
        .plugin = cli_given(cli, "plugin") ? cli_string(cli, "plugin") : NULL,
        .what_if = cli_given(cli, "what-if"),
        .by_scope = strcmp(cli_string(cli, "by"), "scope") == 0,
        .lenient = cli_flag(cli, "lenient"),
    };
    o.n_chips = cli_strings(cli, "chip", &o.chips);
    o.n_layouts = cli_strings(cli, "layout", &o.layouts);
    o.n_targets = cli_strings(cli, "target", &o.targets);
    int rc = price_open(&p, &o, err);
    if (!rc)
        rc = price_predict(&p, &cli->progress, err);
    cli_progress_clear(cli);
    if (!rc)
        rc = cli->json ? cli_document(cli, result, &p, err) : print_text(cli, &p, err);
    price_close(&p);
    return rc;
}

static const char *const description[] = {
    "FLOP, bytes and intensity of every module, and the least time each chip can need for it. Nothing runs and no "
    "weights are read: shapes are enough.",
    "WORKLOAD is a model directory (configurations alone are read: BERT, Llama, Mistral, Qwen3, with experts Mixtral, "
    "Qwen3-MoE, DeepSeek V2 and V3, or the diffusers folder of a FLUX.2 klein), builtin:minilm, builtin:flux2-klein-4b "
    "(-9b, -base-4b, -base-9b), "
    "builtin:llama-3.1-8b and other decoders of `assay budget`'s list, or builtin:gemm:MxKxN:TYPE with TYPE f32, "
    "bf16, f16, int8 or f64 and results in f32, int32 or f64.",
    "Or it is a program that was exported or dumped: StableHLO as text or bytecode (.mlir, as jax.export writes it), "
    "or an HLO module (.hlo.pb, or the .txt of a dump). One that was not optimised is rewritten for the policy; what "
    "cannot be, and optimised programs, are priced as they are. Its weights are the arguments that a tensor of "
    "--weights is named like, or those of --weight-args; of the files names, types and shapes alone are read.",
    "Of experts the FLOP are those that tokens pass, and the bytes those of the experts that a batch needs when all "
    "are "
    "chosen as often. --layout ep divides them, pp the layers over stages that work in turns.",
    "A request may run several programs: an image its text encoder, a step of its transformer for each step, and its "
    "decoder; a decoder of text its prompt, and a step for each token it writes. Figures are of a whole request.",
    "Bytes are counted in three ways. Bytes: what enters and leaves each row's scopes once. Merged: the same with rows "
    "without products made inside the products beside them. Unfused: operands and results of every operation. FLOP are "
    "those of products, two per multiply-add.",
    NULL,
};

static const struct option options[] = {
    {.name = "chip",
     .kind = OPTION_STRINGS,
     .argument = "CHIP",
     .words = chip_words,
     .help =
         "predict the floor on one device of this chip; of a slice (v6e:2x4, v6e:2x4*2 is two of them, h100:8) also "
         "what each layout over all its chips costs; `local` is this machine after `assay bench --calibrate`"},
    OPTION_TARGETS,
    {.name = "layout",
     .kind = OPTION_STRINGS,
     .argument = "LAYOUT",
     .words = layout_words,
     .help = "of the chips of a slice: dp, fsdp, tp, tp+sp, ulysses, ring, ep over all of them (each in turn when not "
             "given), pp (mb= microbatches), or several, as in dp=2,tp=4 or pp=4,tp=2,mb=8"},
    {.name = "policy",
     .kind = OPTION_STRING,
     .argument = "POLICY",
     .words = policy_words,
     .help = "a preset (f32, bf16, f16, w8a16, w8a8, w4a16, fp8) or a spelled-out policy; f32, for FLUX.2 and decoders "
             "bf16, when not given"},
    OPTION_BATCH(NULL, "texts, images or prompts in one run; 32 texts, 1 image or prompt when not given"),
    OPTION_SEQ(NULL, "tokens of a text or prompt; 128, of a decoder's prompt 2048, when not given"),
    OPTION_IMAGE,
    OPTION_TOKENS,
    OPTION_WEIGHTS,
    OPTION_WEIGHT_ARGS,
    OPTION_INPUTS,
    {.name = "lenient",
     .kind = OPTION_FLAG,
     .help = "leave out what is not understood of a program's text, and say so"},
    OPTION_CALIBRATION,
    {.name = "plugin",
     .kind = OPTION_STRING,
     .argument = "PATH",
     .complete = COMPLETE_FILE,
     .help = "the compiler that --target asks, libtpu.so; found through ASSAY_PLUGIN_PATH and beside the program when "
             "not given"},
    {.name = "what-if",
     .kind = OPTION_FLAG,
     .help = "what to optimise next: what 8-bit products and weights, fusing, hoisting and other batches would save on "
             "each chip, the most first"},
    {.name = "by",
     .kind = OPTION_STRING,
     .preset = "module",
     .choices = "module scope",
     .help = "a row for each kind of module, or for each place in the model (layer.3.mlp.up)"},
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay price builtin:minilm --policy bf16 --chip v5e --chip h100", "MiniLM in bf16, batch 32 x 128 tokens"},
    {"assay price builtin:flux2-klein-4b --chip v6e --height 1024 --width 1024", "an image of FLUX.2 klein-4B in bf16"},
    {"assay price builtin:flux2-klein-4b --chip v6e:2x4", "the same on eight chips: which layout wins"},
    {"assay price builtin:flux2-klein-4b --chip v6e --what-if", "what to optimise next"},
    {"assay price gemm:64x1024x1024:bf16 --chip v5e", "one product"},
    {"assay price builtin:minilm --policy bf16 --target v6e --target v5e",
     "by the sheet, the compiler and what was measured"},
    {"assay price model.mlir --weights model.safetensors --policy w8a8 --chip v6e",
     "a program from JAX (docs/from-jax.md): arguments named like tensors are its weights"},
    {NULL, NULL},
};

const struct command command_price = {
    .name = "price",
    .operands = "WORKLOAD",
    .min_operands = 1,
    .max_operands = 1,
    .operand_complete = COMPLETE_DIR,
    .summary = "FLOP, bytes, intensity and the floor on each chip, per module and in all",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
