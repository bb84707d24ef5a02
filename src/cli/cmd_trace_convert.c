// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_input.h"
#include "report/format.h"
#include "trace/convert.h"
#include "trace/ops_view.h"

struct target {
    const char *name; // of --to
    enum trace_form form;
    bool gzip;
    const char *endings[3];
};

static const struct target targets[] = {
    {"chrome.gz", TRACE_CHROME, true, {".json.gz", NULL}},
    {"chrome", TRACE_CHROME, false, {".json", NULL}},
    {"perfetto", TRACE_PERFETTO, false, {".pftrace", ".perfetto-trace", ".perfetto"}},
    {"csv", TRACE_CSV, false, {".csv", NULL}},
};

static int find_target(const struct cli *cli, const char *out, const struct target **target, struct error *err)
{
    const char *to = cli_string(cli, "to");
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        bool ends = to && strcmp(to, targets[i].name) == 0;
        for (size_t k = 0; !to && k < 3 && targets[i].endings[k]; k++)
            ends |= str_ends_with(out, targets[i].endings[k]);
        if (ends) {
            *target = &targets[i];
            return 0;
        }
    }
    return error_set(err, ERR_USAGE, out,
                     "its ending does not say what it shall be: name it *.json, *.json.gz, *.pftrace or *.csv, or give "
                     "--to");
}

static int answer(struct cli *cli, const struct trace *t, const char *out, const struct target *target,
                  const struct trace_converted *done, uint64_t bytes, struct error *err)
{
    struct error damage = {0};
    int bad = trace_damage(t, &damage), rc = 0;
    if (cli->json) {
        struct str text;
        struct jw w;
        str_init(&text);
        jw_init(&w, &text, false);
        jw_object(&w);
        jw_kv_string(&w, "path", out);
        jw_kv_string(&w, "form", target->name);
        jw_kv_uint(&w, "bytes", bytes);
        jw_kv_uint(&w, "events", done->events);
        jw_kv_uint(&w, "tracks", done->tracks);
        jw_kv_uint(&w, "aggregates", done->aggregates);
        jw_kv_uint(&w, "out_of_range", done->out_of_range);
        trace_files_json(t, &w);
        jw_object_end(&w);
        rc = jw_finish(&w, err);
        if (!rc)
            rc = cli_envelope(cli, str_text(&text), bad ? &damage : NULL, err);
        str_release(&text);
    } else {
        str_add_terminal(&cli->out, out, strlen(out));
        str_addf(&cli->out, ": %" PRIu64 " events on %" PRIu64 " %s", done->events, done->tracks,
                 target->form == TRACE_CSV ? "lines" : "tracks");
        if (done->aggregates)
            str_addf(&cli->out, ", without %" PRIu64 " sums that have no place in time", done->aggregates);
        if (done->out_of_range)
            str_addf(&cli->out, ", without %" PRIu64 " of impossible times", done->out_of_range);
        str_add(&cli->out, "\n");
    }
    if (!rc && bad)
        *err = damage;
    return rc ? rc : bad;
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct sink sink = {.fd = -1};
    struct trace_converted done = {0};
    const struct target *target = NULL;
    const char *out = cli_string(cli, "out");
    if (!out)
        return error_set(err, ERR_USAGE, "--out", "is needed: the file to write");
    int rc = find_target(cli, out, &target, err);
    if (rc)
        return rc;
    rc = trace_input(cli, &t, err);
    if (!rc)
        rc = sink_open(&sink, out, target->gzip, cli_flag(cli, "force"), err);
    if (!rc)
        rc = trace_convert(&t, target->form, &sink, &done, err);
    // What stops the conversion may be a full disk, which the sink knows more of.
    if (!rc || sink.rc)
        rc = sink_commit(&sink, err);
    if (!rc)
        rc = answer(cli, &t, out, target, &done, sink.written, err);
    sink_abort(&sink);
    trace_close(&t);
    return rc;
}

static const char *const description[] = {
    "A profile as a file for other programs: Chrome's JSON (chrome://tracing, Perfetto), Perfetto's own protobuf, or "
    "CSV with one row for each event. Several hosts go into one file, on one clock.",
    TRACE_INPUT_TEXT,
    "Events that overlap in part (asynchronous transfers) get tracks of their own, arrows follow the profiler's ids, "
    "counters become counters, and where a device's operations name their source and framework scope, there is a track "
    "for each. All names, arguments and times are kept, times to the picosecond.",
    NULL,
};

static const struct option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = OPTION_STRING,
     .argument = "FILE",
     .complete = COMPLETE_FILE,
     .help = "the file to write"},
    {.name = "to",
     .kind = OPTION_STRING,
     .choices = "chrome chrome.gz perfetto csv",
     .help = "its form; by the ending of its name when not given: .json, .json.gz, .pftrace, .csv"},
    {.name = "force", .kind = OPTION_FLAG, .help = "replace the file where there is one"},
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace convert profile -o profile.pftrace", "for ui.perfetto.dev"},
    {"assay trace convert host.xplane.pb -o trace.json.gz", "for everything that reads Chrome's traces"},
    {NULL, NULL},
};

const struct command command_trace_convert = {
    .name = "trace convert",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "a profile as Chrome JSON, Perfetto or CSV",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
