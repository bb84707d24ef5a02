// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_output.h"
#include "cli/worker_options.h"
#include "cli/wrap.h"
#include "ir/policy.h"
#include "lab/capture_workload.h"
#include "report/format.h"
#include "trace/convert.h"
#include "trace/run.h"
#include "trace/session.h"

struct call {
    struct capture_workload_options options;
    struct capture_workload done;
    const char *directory;
    struct str path, perfetto; // the profile's, and its copy's (empty: none)
    uint64_t perfetto_bytes;
};

// No more than a step: nothing was compiled, or everything was done before.
static bool warmup_is_short(const struct capture_workload *w)
{
    return w->warmup_ms <= w->steady_ms;
}

static int write_result(const struct call *c, struct jw *w, struct error *err)
{
    const struct capture_workload *d = &c->done;
    jw_object(w);
    jw_kv_string(w, "workload", c->options.workload);
    jw_kv_string(w, "policy", c->options.policy);
    jw_kv_string(w, "device", d->device);
    jw_kv_string(w, "plugin", d->plugin);
    jw_kv_string(w, "recorder", d->capture.from_plugin ? "plugin" : "spans");
    jw_kv_uint(w, "steps", c->options.steps);
    quantity_json_kv(w, "warmup_ms", quantity_make(d->warmup_ms, "ms", ORIGIN_MEASURED, "compilation and first run"));
    quantity_json_kv(w, "steady_ms", quantity_make(d->steady_ms, "ms", ORIGIN_MEASURED, "median of untraced runs"));
    quantity_json_samples(w, "steady_ns", d->steady_ns, c->options.steps, "ns", d->device);
    quantity_json_kv(w, "traced_ms",
                     quantity_make(d->traced_ms, "ms", ORIGIN_MEASURED, "median of traced steps; no latency"));
    jw_kv_uint(w, "warmup_runs", d->warm_runs);
    jw_kv_bool(w, "warmup_is_short", warmup_is_short(d));
    jw_kv_string(w, "directory", c->directory);
    jw_key(w, "files");
    jw_array(w);
    int rc = record_file_entry(w, str_text(&c->path), err);
    if (!rc && c->perfetto.length)
        rc = record_file_entry(w, str_text(&c->perfetto), err);
    jw_array_end(w);
    jw_kv_uint(w, "bytes", d->capture.space.length + c->perfetto_bytes);
    jw_kv_uint(w, "events", d->capture.events);
    jw_kv_uint(w, "dropped", d->capture.dropped);
    jw_kv_string(w, "without_buffers", d->capture.without_buffers);
    jw_object_end(w);
    return rc ? rc : jw_finish(w, err);
}

static int show_json(struct cli *cli, const struct call *c, struct error *err)
{
    struct str text;
    struct jw w;
    str_init(&text);
    jw_init(&w, &text, false);
    int rc = write_result(c, &w, err);
    if (!rc)
        rc = cli_envelope(cli, str_text(&text), NULL, err);
    str_release(&text);
    return rc;
}

static void show_time(struct str *out, const char *name, double ms, const char *what)
{
    char text[FORMAT_MAX];
    format_number(text, ms, 4);
    str_addf(out, "%-10s %s ms [M]  %s\n", name, text, what);
}

static void show_text(struct cli *cli, const struct call *c)
{
    const struct capture_workload *d = &c->done;
    show_time(&cli->out, "warm-up", d->warmup_ms, "compilation and the first run");
    show_time(&cli->out, "steady", d->steady_ms, "median of as many runs without a trace");
    show_time(&cli->out, "traced", d->traced_ms, "median of the traced steps; no latency");
    str_addf(&cli->out, "%-10s ", "directory");
    str_add_terminal(&cli->out, c->directory, strlen(c->directory));
    str_addf(&cli->out, "\n%-10s %d, %" PRIu64 " bytes, %" PRIu64 " event%s of %s\n", "files",
             c->perfetto.length ? 2 : 1, d->capture.space.length + c->perfetto_bytes, d->capture.events,
             d->capture.events == 1 ? "" : "s",
             d->capture.from_plugin ? "the plugin's profiler and our spans" : "our spans");
    const struct str *const paths[] = {&c->path, &c->perfetto};
    for (size_t i = 0; i < 2 && paths[i]->length; i++) {
        str_addf(&cli->out, "%-10s ", "");
        str_add_terminal(&cli->out, str_text(paths[i]), paths[i]->length);
        str_add_char(&cli->out, '\n');
    }
}

// The copy beside the profile.
static int write_perfetto(struct call *c, struct error *err)
{
    static const char ending[] = ".xplane.pb";
    const char *const path[] = {str_text(&c->path)};
    struct trace t;
    struct sink sink = {.fd = -1};
    struct trace_converted done;
    str_add_n(&c->perfetto, path[0], c->path.length - (sizeof ending - 1));
    str_add(&c->perfetto, ".pftrace");
    int rc = str_check(&c->perfetto, err);
    if (rc)
        return rc;
    rc = trace_open(&t, path, 1, err);
    if (!rc)
        rc = sink_open(&sink, str_text(&c->perfetto), false, false, err);
    if (!rc)
        rc = trace_convert(&t, NULL, TRACE_PERFETTO, &sink, &done, err);
    if (!rc || sink.rc)
        rc = sink_commit(&sink, err);
    c->perfetto_bytes = sink.written;
    sink_abort(&sink);
    trace_close(&t);
    return rc;
}

static int run_call(struct cli *cli, struct call *c, struct error *err)
{
    int rc = capture_workload(&c->done, &c->options, &cli->progress, err);
    if (!rc)
        rc = trace_run_write(c->directory, c->done.capture.epoch_ns, &c->done.capture.space, &c->path, err);
    if (!rc && cli_flag(cli, "perfetto"))
        rc = write_perfetto(c, err);
    if (rc)
        return rc;
    if (warmup_is_short(&c->done))
        cli_note(cli, "the warm-up was no slower than a step: was the program compiled and run before?");
    if (c->done.capture.without_buffers)
        cli_note(cli, "%s", c->done.capture.without_buffers);
    if (c->done.capture.dropped)
        cli_note(cli, "%" PRIu64 " span%s not in the profile: there was no room", c->done.capture.dropped,
                 c->done.capture.dropped == 1 ? " is" : "s are");
    if (cli->json)
        return show_json(cli, c, err);
    show_text(cli, c);
    return 0;
}

static int run(struct cli *cli, struct error *err)
{
    const char *given = cli_string(cli, "dir");
    struct call c = {.directory = given ? given : trace_directory()};
    struct capture_workload_options *o = &c.options;
    o->workload = cli->n_operands ? cli->operands[0] : CAPTURE_FEEDBACK;
    o->policy = cli_string(cli, "policy");
    o->steps = (size_t)cli_int(cli, "steps", 5);
    o->bench.worker = cli_worker_options(cli);
    o->bench.text_path = cli_string(cli, "text");
    o->bench.batch = cli_int(cli, "batch", 0);
    o->bench.seq = cli_int(cli, "seq", 0);
    o->bench.warmup = cli_int(cli, "warmup", -1);
    o->bench.seed = cli_seed(cli);
    int rc = 0;
    if (strcmp(o->workload, CAPTURE_FEEDBACK) != 0)
        rc = bench_check(o->workload, o->policy, &o->bench, err);
    else if (o->policy || o->bench.text_path)
        rc = error_set(err, ERR_USAGE, o->policy ? "--policy" : "--text", "goes with a model; %s is a product in bf16",
                       CAPTURE_FEEDBACK);
    if (rc)
        return rc;
    str_init(&c.path);
    str_init(&c.perfetto);
    rc = run_call(cli, &c, err);
    capture_workload_release(&c.done);
    str_release(&c.path);
    str_release(&c.perfetto);
    return rc;
}

static const char *const description[] = {
    "Compiles a workload, runs it until it is warm, measures it untraced, and then makes a profile of a few steps: by "
    "the plugin's own profiler where it has one, with our own spans (compile, upload, execute with dispatch and wait, "
    "download) beside it, else by our spans alone. Every step is marked precision_case, with its number. The HLO of "
    "the program is in the profile, with the memory that the compiler planned for it, for which it is compiled once "
    "more "
    "after everything else.",
    "WORKLOAD is what `assay bench` takes; without one it is " CAPTURE_FEEDBACK
    ", a product of 256x256 in bf16 whose result is the next step's first operand.",
    "The profile is DIR/plugins/profile/TIME/HOST.xplane.pb, which other tools find by DIR. Runs already there stay, "
    "and only what this run wrote is counted. Times of traced steps hold the tracing: the steady time is the latency.",
    NULL,
};

static const struct option options[] = {
    {.name = "steps",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "5",
     .min = 1,
     .max = 500,
     .help = "traced steps, and as many untraced runs before"},
    {.name = "dir",
     .kind = OPTION_STRING,
     .argument = "DIR",
     .complete = COMPLETE_DIR,
     .help = "where the profile goes; TPU_TRACE_DIR, or else ./tpu-xprof-trace, when not given"},
    {.name = "perfetto",
     .kind = OPTION_FLAG,
     .help = "write a copy beside it that ui.perfetto.dev opens (HOST.pftrace)"},
    OPTION_DEVICE,
    OPTION_PLUGIN,
    {.name = "policy",
     .kind = OPTION_STRING,
     .argument = "POLICY",
     .words = policy_words,
     .help = "for models: a preset or a spelled-out policy; f32 when not given"},
    OPTION_TEXT("texts for a model directory, one per line"),
    OPTION_BATCH("32", "texts in one run"),
    OPTION_SEQ("128", "tokens per text"),
    OPTION_WARMUP,
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_TIMEOUT,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace capture", "the built-in product, into ./tpu-xprof-trace"},
    {"assay trace capture builtin:minilm --policy bf16 --steps 10 --dir profiles", "ten steps of a model"},
    {"assay trace ops tpu-xprof-trace", "what ran, and how fast"},
    {NULL, NULL},
};

const struct command command_trace_capture = {
    .name = "trace capture",
    .operands = "[WORKLOAD]",
    .min_operands = 0,
    .max_operands = 1,
    .operand_complete = COMPLETE_DIR,
    .summary = "a profile of a few warmed steps of a workload",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
