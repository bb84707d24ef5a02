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
    {"xplane.gz", TRACE_XSPACE, true, {".xplane.pb.gz", NULL}},
    {"xplane", TRACE_XSPACE, false, {".xplane.pb", NULL}},
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
                     "its ending does not say what it shall be: name it *.json, *.json.gz, *.pftrace, *.csv or "
                     "*.xplane.pb, or give --to");
}

struct answer {
    const char *out;
    const struct target *target;
    struct trace_converted done;
    uint64_t bytes;
};

static int document(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    const struct answer *a = of;
    (void)cli;
    (void)err;
    jw_object(w);
    jw_kv_string(w, "path", a->out);
    jw_kv_string(w, "form", a->target->name);
    jw_kv_uint(w, "bytes", a->bytes);
    jw_kv_uint(w, "events", a->done.events);
    jw_kv_uint(w, "tracks", a->done.tracks);
    jw_kv_uint(w, "aggregates", a->done.aggregates);
    jw_kv_uint(w, "out_of_range", a->done.out_of_range);
    trace_files_json(t, w);
    jw_object_end(w);
    return 0;
}

static void say(struct cli *cli, const struct answer *a)
{
    str_add_terminal(&cli->out, a->out, strlen(a->out));
    str_addf(&cli->out, ": %" PRIu64 " event%s on %" PRIu64 " %s%s", a->done.events, a->done.events == 1 ? "" : "s",
             a->done.tracks, a->target->form == TRACE_CSV || a->target->form == TRACE_XSPACE ? "line" : "track",
             a->done.tracks == 1 ? "" : "s");
    if (a->done.aggregates)
        str_addf(&cli->out, ", without %" PRIu64 " sum%s no place in time", a->done.aggregates,
                 a->done.aggregates == 1 ? " that has" : "s that have");
    if (a->done.out_of_range)
        str_addf(&cli->out, ", without %" PRIu64 " of impossible times", a->done.out_of_range);
    str_add(&cli->out, "\n");
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct sink sink = {.fd = -1};
    struct threads *threads = NULL;
    struct answer a = {.out = cli_string(cli, "out")};
    if (!a.out)
        return error_set(err, ERR_USAGE, "--out", "is needed: the file to write");
    int rc = find_target(cli, a.out, &a.target, err);
    if (rc)
        return rc;
    rc = threads_new(&threads, (size_t)cli_int(cli, "threads", 0), err);
    if (rc)
        return rc;
    rc = trace_input(cli, &t, err);
    if (!rc)
        rc = sink_open(&sink, a.out, a.target->gzip, cli_flag(cli, "force"), err);
    if (!rc)
        rc = trace_convert(&t, threads, a.target->form, &sink, &a.done, err);
    // What stops the conversion may be a full disk, which the sink knows more of.
    if (!rc || sink.rc)
        rc = sink_commit(&sink, err);
    a.bytes = sink.written;
    if (!rc && cli->json)
        rc = trace_document(cli, &t, document, &a, err);
    else if (!rc)
        say(cli, &a);
    if (!rc)
        rc = trace_damage(&t, err);
    sink_abort(&sink);
    trace_close(&t);
    threads_free(threads);
    return rc;
}

static const char *const description[] = {
    "A profile as a file for other programs: Chrome's JSON (chrome://tracing, Perfetto), Perfetto's own protobuf, or "
    "CSV with one row for each event. Several hosts go into one file, on one clock.",
    "And back: a trace in Chrome's JSON, whatever wrote it, as a profile (*.xplane.pb), with a plane for each process "
    "and a line for each thread.",
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
     .choices = "chrome chrome.gz perfetto csv xplane xplane.gz",
     .help = "its form; by the ending of its name when not given: .json, .json.gz, .pftrace, .csv, .xplane.pb"},
    {.name = "force", .kind = OPTION_FLAG, .help = "replace the file where there is one"},
    OPTION_THREADS,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace convert profile -o profile.pftrace", "for ui.perfetto.dev"},
    {"assay trace convert host.xplane.pb -o trace.json.gz", "for everything that reads Chrome's traces"},
    {"assay trace convert trace.json.gz -o host.xplane.pb", "for everything that reads XLA's profiles"},
    {NULL, NULL},
};

const struct command command_trace_convert = {
    .name = "trace convert",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "a profile as Chrome JSON, Perfetto or CSV, and back from JSON",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
