// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/trace_input.h"
#include "trace/merge.h"
#include "trace/ops_view.h"

static void files_json(struct jw *w, const struct trace *t, const struct trace_merged *done)
{
    jw_key(w, "clocks");
    jw_array(w);
    for (size_t i = 0; done->epochs && i < t->n_files; i++) {
        const struct trace_epoch *e = &done->epochs[i];
        jw_object(w);
        jw_kv_string(w, "host", t->files[i].host);
        jw_kv_string(w, "by", trace_epoch_source_name(e->source));
        jw_kv_int(w, "start_ns", e->start_ns);
        jw_kv_int(w, "shift_ps", e->shift_ps);
        jw_kv_uint(w, "matched", e->matched);
        jw_kv_int(w, "correction_ps", e->correction_ps);
        jw_kv_int(w, "spread_ps", e->spread_ps);
        jw_object_end(w);
    }
    jw_array_end(w);
    trace_files_json(t, w);
}

static void files_text(struct cli *cli, const struct trace *t, const struct trace_merged *done)
{
    for (size_t i = 0; done->epochs && i < t->n_files; i++) {
        const struct trace_epoch *e = &done->epochs[i];
        str_add(&cli->out, "  ");
        str_add_terminal(&cli->out, t->files[i].host, strlen(t->files[i].host));
        if (e->source == TRACE_EPOCH_OWN)
            str_add(&cli->out, ": by its own clock, since not all files say when they started\n");
        else
            str_addf(&cli->out, ": later by %.6f ms", (double)e->shift_ps * 1e-9);
        if (e->source == TRACE_EPOCH_STARTS)
            str_add(&cli->out, ", by the start times\n");
        else if (e->source == TRACE_EPOCH_COLLECTIVES)
            str_addf(&cli->out, ", %+.6f ms of it by the ends of %" PRIu64 " collectives (half within %.6f ms)\n",
                     (double)e->correction_ps * 1e-9, e->matched, (double)e->spread_ps * 1e-9);
    }
}

struct answer {
    const char *out;
    struct trace_merged done;
    uint64_t bytes;
};

static int document(struct cli *cli, struct trace *t, void *of, struct jw *w, struct error *err)
{
    const struct answer *a = of;
    (void)cli;
    (void)err;
    jw_object(w);
    jw_kv_string(w, "path", a->out);
    jw_kv_uint(w, "bytes", a->bytes);
    jw_kv_uint(w, "planes", a->done.planes);
    jw_kv_uint(w, "devices", a->done.devices);
    jw_kv_uint(w, "renumbered", a->done.renumbered);
    files_json(w, t, &a->done);
    jw_object_end(w);
    return 0;
}

static void say(struct cli *cli, const struct trace *t, const struct answer *a)
{
    str_add_terminal(&cli->out, a->out, strlen(a->out));
    str_addf(&cli->out, ": %zu plane%s, %zu of them devices, of %zu files\n", a->done.planes,
             a->done.planes == 1 ? "" : "s", a->done.devices, t->n_files);
    if (a->done.renumbered)
        str_addf(&cli->out, "  %zu program%s another number: an earlier file has a different program of it\n",
                 a->done.renumbered, a->done.renumbered == 1 ? " has" : "s have");
    files_text(cli, t, &a->done);
}

static int run(struct cli *cli, struct error *err)
{
    struct trace t;
    struct sink sink = {.fd = -1};
    struct answer a = {.out = cli_string(cli, "out")};
    if (!a.out)
        return error_set(err, ERR_USAGE, "--out", "is needed: the file to write");
    if (!str_ends_with(a.out, ".xplane.pb") && !str_ends_with(a.out, ".xplane.pb.gz"))
        return error_set(err, ERR_USAGE, a.out, "is no name of a profile: end it in .xplane.pb or .xplane.pb.gz");
    int rc = trace_input(cli, &t, err);
    if (!rc)
        rc = sink_open(&sink, a.out, str_ends_with(a.out, ".gz"), cli_flag(cli, "force"), err);
    if (!rc)
        rc = trace_merge(&t, &sink, &a.done, err);
    if (!rc || sink.rc)
        rc = sink_commit(&sink, err);
    a.bytes = sink.written;
    if (!rc && cli->json)
        rc = trace_document(cli, &t, document, &a, err);
    else if (!rc)
        say(cli, &t, &a);
    if (!rc)
        rc = trace_damage(&t, err);
    sink_abort(&sink);
    trace_close(&t);
    return rc;
}

static const char *const description[] = {
    "The profiles of several hosts as one: devices are numbered on, hosts are named, programs are put together, and "
    "times are put on one clock, by the start times in the profiles and, where the same collectives ran on all, by "
    "their ends. Where unrelated runs have the same number for different programs, the later one's get another.",
    TRACE_INPUT_TEXT,
    NULL,
};

static const struct option options[] = {
    {.name = "out",
     .letter = 'o',
     .kind = OPTION_STRING,
     .argument = "FILE",
     .complete = COMPLETE_FILE,
     .help = "the profile to write: *.xplane.pb, or *.xplane.pb.gz"},
    {.name = "force", .kind = OPTION_FLAG, .help = "replace the file where there is one"},
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay trace merge plugins/profile/2026_01_02 -o all.xplane.pb", "all hosts of a run"},
    {NULL, NULL},
};

const struct command command_trace_merge = {
    .name = "trace merge",
    .operands = "PATH...",
    .min_operands = 1,
    .max_operands = -1,
    .operand_complete = COMPLETE_FILE,
    .summary = "the profiles of several hosts as one",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
