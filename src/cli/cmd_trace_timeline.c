// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "cli/wrap.h"
#include "report/format.h"
#include "report/timeline_html.h"
#include "trace/ops_view.h"

#define SVG_RECORDS  6000
#define STEPS_EVENTS 1000000

// "12.5us" in picoseconds: no digit is rounded, those beyond a picosecond are refused.
static int parse_time(const char *option, const char *text, int64_t *out, struct error *err)
{
    const struct {
        const char *suffix;
        int digits;
    } units[] = {{"ps", 0}, {"ns", 3}, {"us", 6}, {"ms", 9}, {"s", 12}};
    uint64_t v = 0;
    int digits = 0, after = -1;
    const char *at = text;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && after < 0); at++) {
        if (*at == '.') {
            after = 0;
            continue;
        }
        digits++;
        after += after >= 0;
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(*at - '0'), &v))
            return error_set(err, ERR_USAGE, option, "%s is too long a time", text);
    }
    for (size_t i = 0; i < sizeof units / sizeof *units && digits; i++) {
        int more = units[i].digits - (after > 0 ? after : 0);
        if (strcmp(at, units[i].suffix) != 0 || more < 0)
            continue;
        for (; more > 0; more--) {
            if (__builtin_mul_overflow(v, (uint64_t)10, &v))
                return error_set(err, ERR_USAGE, option, "%s is too long a time", text);
        }
        if (v > INT64_MAX)
            return error_set(err, ERR_USAGE, option, "%s is too long a time", text);
        *out = (int64_t)v;
        return 0;
    }
    return error_set(err, ERR_USAGE, option,
                     "%s is no time: a number and s, ms, us, ns or ps, as in 12.5us, no finer than a picosecond", text);
}

static int read_window(struct cli *cli, struct timeline_options *o, struct error *err)
{
    int rc = 0;
    *o = (struct timeline_options){.max_records = (size_t)cli_int(cli, "events", 0), .to_ps = -1};
    if (cli_given(cli, "from"))
        rc = parse_time("--from", cli_string(cli, "from"), &o->from_ps, err);
    if (!rc && cli_given(cli, "to"))
        rc = parse_time("--to", cli_string(cli, "to"), &o->to_ps, err);
    if (!rc && o->to_ps >= 0 && o->to_ps <= o->from_ps)
        rc = error_set(err, ERR_USAGE, "--to", "the window ends before it begins");
    return rc;
}

static int check_files(struct cli *cli, struct error *err)
{
    const char *const files[] = {cli_string(cli, "output"), cli_string(cli, "svg")};
    if (!files[0] && !files[1])
        return error_set(err, ERR_USAGE, NULL, "say what to write: -o FILE.html, --svg FILE.svg, or both");
    for (size_t i = 0; i < 2; i++) {
        if (files[i] && !cli_flag(cli, "force") && file_exists(files[i]))
            return error_set(err, ERR_USAGE, files[i], "exists already; --force replaces it");
        if (files[i] && dir_exists(files[i]))
            return error_set(err, ERR_USAGE, files[i], "is a directory");
    }
    return 0;
}

// What a window is of, as people call it: the run, the host, or the file.
static void add_title(struct str *out, const struct trace *t)
{
    const char *what = t->run ? t->run : t->files[0].path, *slash = strrchr(what, '/');
    str_add(out, slash && slash[1] ? slash + 1 : what);
    if (t->n_files > 1 && !t->run)
        str_addf(out, " and %zu more", t->n_files - 1);
}

struct answer {
    struct jw w;
    struct str json;
    const struct trace *trace;
    struct cli *cli;
};

static void put_note(void *context, const char *text)
{
    struct answer *a = context;
    if (a->cli->json)
        jw_string(&a->w, text);
    else
        wrap_text(&a->cli->out, text, 0, 0, a->cli->width);
}

static void put_written(struct answer *a, const char *key, const char *path, size_t bytes)
{
    char size[FORMAT_MAX];
    if (a->cli->json) {
        jw_key(&a->w, key);
        jw_object(&a->w);
        jw_kv_string(&a->w, "path", path);
        jw_kv_uint(&a->w, "bytes", bytes);
        jw_object_end(&a->w);
        return;
    }
    format_bytes(size, (double)bytes);
    str_add_terminal(&a->cli->out, path, strlen(path));
    str_addf(&a->cli->out, "  %s\n", size);
}

static void put_counts(struct answer *a, const struct timeline *l)
{
    char length[FORMAT_MAX];
    size_t lines = 0, planes = 0;
    for (size_t i = 0; i < l->n_planes; i++) {
        size_t before = lines;
        for (size_t k = 0; k < l->planes[i].n_lines; k++)
            lines += l->planes[i].lines[k].line && l->planes[i].lines[k].events;
        planes += lines > before;
    }
    if (a->cli->json) {
        jw_kv_uint(&a->w, "events", l->events);
        jw_kv_uint(&a->w, "records", l->records);
        jw_kv_uint(&a->w, "in_blocks", l->merged);
        jw_kv_uint(&a->w, "outside", l->outside);
        jw_kv_uint(&a->w, "left_out", l->no_time + l->impossible);
        jw_kv_int(&a->w, "from_ps", l->from_ps);
        jw_kv_int(&a->w, "to_ps", l->to_ps);
        jw_kv_int(&a->w, "length_ps", l->length_ps);
        return;
    }
    format_time(length, (double)(l->to_ps - l->from_ps) * 1e-12);
    str_addf(&a->cli->out, "%" PRIu64 " event%s of %s in %" PRIu64 " record%s, %zu process%s, %zu line%s\n", l->events,
             l->events == 1 ? "" : "s", length, l->records, l->records == 1 ? "" : "s", planes, planes == 1 ? "" : "es",
             lines, lines == 1 ? "" : "s");
}

static void begin_part(struct answer *a, const char *key)
{
    if (!a->cli->json)
        return;
    jw_key(&a->w, key);
    jw_object(&a->w);
}

static void end_part(struct answer *a, const struct timeline *l, const struct timeline_encoded *e)
{
    if (a->cli->json) {
        jw_key(&a->w, "notes");
        jw_array(&a->w);
    }
    timeline_notes(l, e, put_note, a);
    if (a->cli->json) {
        jw_array_end(&a->w);
        jw_object_end(&a->w);
    }
}

// Finding steps takes longer than the page itself where there are many events.
static int find_steps(struct cli *cli, struct trace *t, const struct timeline *l, struct trace_steps **steps,
                      struct error *err)
{
    const char *wish = cli_string(cli, "steps");
    bool many = l->events + l->outside > STEPS_EVENTS;
    if (t->n_files > 1 || strcmp(wish, "off") == 0 || (many && strcmp(wish, "auto") == 0)) {
        if (many || t->n_files > 1)
            cli_note(cli, "the page is without bands for steps: %s",
                     t->n_files > 1 ? "it has several files" : "the profile is large; --steps on finds them");
        *steps = NULL;
        return 0;
    }
    return trace_steps(t, NULL, NULL, NULL, *steps, err);
}

static int write_page(struct answer *a, struct trace *t, const struct timeline_options *o, struct threads *threads,
                      const char *title, struct error *err)
{
    struct timeline l;
    struct timeline_encoded e = {0};
    struct trace_steps found = {0}, *steps = &found;
    struct str page;
    str_init(&page);
    const char *path = cli_string(a->cli, "output");
    int rc = timeline_make(&l, t, o, threads, err);
    if (!rc)
        rc = find_steps(a->cli, t, &l, &steps, err);
    if (!rc)
        rc = timeline_encode(&e, &l, t, steps, err);
    if (!rc)
        rc = timeline_html(&page, &e, title, err);
    if (!rc)
        rc = file_write(path, str_text(&page), page.length, err);
    if (!rc) {
        begin_part(a, "page");
        put_written(a, "file", path, page.length);
        put_counts(a, &l);
        end_part(a, &l, &e);
    }
    str_release(&page);
    timeline_encoded_release(&e);
    if (steps)
        trace_steps_release(steps);
    timeline_release(&l);
    return rc;
}

static int write_figure(struct answer *a, struct trace *t, struct timeline_options o, struct threads *threads,
                        const char *title, struct error *err)
{
    struct timeline l;
    struct str figure;
    size_t left_out = 0;
    str_init(&figure);
    const char *path = cli_string(a->cli, "svg");
    o.max_records = o.max_records < SVG_RECORDS ? o.max_records : SVG_RECORDS;
    int rc = timeline_make(&l, t, &o, threads, err);
    if (!rc)
        rc = timeline_svg(&figure, &l, title, &left_out, err);
    if (!rc)
        rc = file_write(path, str_text(&figure), figure.length, err);
    if (!rc) {
        begin_part(a, "figure");
        put_written(a, "file", path, figure.length);
        put_counts(a, &l);
        if (a->cli->json)
            jw_kv_uint(&a->w, "rows_left_out", left_out);
        else if (left_out)
            str_addf(&a->cli->out, "%zu row%s did not fit into the figure.\n", left_out, left_out == 1 ? "" : "s");
        end_part(a, &l, NULL);
    }
    str_release(&figure);
    timeline_release(&l);
    return rc;
}

static int write_all(struct answer *a, struct trace *t, const struct timeline_options *o, struct threads *threads,
                     struct error *err)
{
    struct str title;
    int rc = 0;
    str_init(&title);
    add_title(&title, t);
    jw_object(&a->w);
    if (cli_given(a->cli, "output"))
        rc = write_page(a, t, o, threads, str_text(&title), err);
    if (!rc && cli_given(a->cli, "svg"))
        rc = write_figure(a, t, *o, threads, str_text(&title), err);
    str_release(&title);
    return rc;
}

static int finish(struct answer *a, struct error *err)
{
    struct error damage = {0};
    int bad = trace_damage(a->trace, &damage), rc = 0;
    if (a->cli->json) {
        trace_files_json(a->trace, &a->w);
        jw_object_end(&a->w);
        rc = jw_finish(&a->w, err);
        if (!rc)
            rc = cli_envelope(a->cli, str_text(&a->json), bad ? &damage : NULL, err);
    }
    if (!rc && bad)
        *err = damage;
    return rc ? rc : bad;
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct answer a = {.trace = &t, .cli = cli};
    struct timeline_options o;
    struct threads *threads = NULL;
    str_init(&a.json);
    jw_init(&a.w, &a.json, false);
    int rc = check_files(cli, err);
    if (!rc)
        rc = read_window(cli, &o, err);
    if (!rc)
        rc = threads_new(&threads, (size_t)cli_int(cli, "threads", 0), err);
    if (rc)
        return rc;
    rc = trace_input(cli, &t, err);
    if (!rc)
        rc = write_all(&a, &t, &o, threads, err);
    if (!rc)
        rc = finish(&a, err);
    str_release(&a.json);
    trace_close(&t);
    threads_free(threads);
    return rc;
}

static const char *const description[] = {
    "A profile as one HTML page to look through: processes and their lines, zoom from the whole to a picosecond, "
    "search, sums of a range, and of each event all that the profile says about it. The page needs nothing else, no "
    "network and no other file; press ? in it for its keys. #from=1.2ms&to=1.5ms behind its address opens a window.",
    "Times count from the profile's first event, on the profile's common clock. Devices come first, each with a row of "
    "the time in which any operation ran.",
    "A page holds at most --events records. Of a larger profile, events shorter than a cell of time that start in the "
    "same cell and lie in one row become a block, which says how many it holds and how long they took. Cells are as "
    "short as the number allows, line by line, and lines with few events stay whole. --from and --to make a page of a "
    "part.",
    TRACE_INPUT_TEXT,
    NULL,
};

static const struct option options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_STRING,
     .argument = "FILE",
     .complete = COMPLETE_FILE,
     .help = "the page to write"},
    {.name = "svg",
     .kind = OPTION_STRING,
     .argument = "FILE",
     .complete = COMPLETE_FILE,
     .help = "draw the window as a figure that begins at zero"},
    {.name = "from",
     .kind = OPTION_STRING,
     .argument = "TIME",
     .help = "beginning of the window, from the profile's first event: a number and s, ms, us, ns or ps"},
    {.name = "to",
     .kind = OPTION_STRING,
     .argument = "TIME",
     .help = "end of the window; the profile's when not given"},
    {.name = "events",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "1000000",
     .min = 1000,
     .max = 2e7,
     .help = "records that the page may hold; rows of busy time come on top"},
    {.name = "steps",
     .kind = OPTION_STRING,
     .preset = "auto",
     .choices = "auto on off",
     .help = "bands for the steps that `trace steps` finds; auto: of profiles of one file and at most a million "
             "events"},
    {.name = "force", .kind = OPTION_FLAG, .help = "replace files that exist"},
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace timeline profile/plugins/profile/2026_01_02 -o run.html", "all hosts of a run on one page"},
    {"assay trace timeline host.xplane.pb --from 1.2ms --to 1.5ms --svg step.svg", "a figure of 300 us"},
    {NULL, NULL},
};

const struct command command_trace_timeline = {
    .name = "trace timeline",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "a profile as one page to zoom into, or a window of it as a figure",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
