// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/host.h"
#include "cli/bench_stages.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/worker_options.h"
#include "cli/wrap.h"
#include "ir/policy.h"
#include "lab/bench.h"
#include "lab/capture.h"
#include "lab/stages.h"
#include "models/builtin.h"
#include "record/record.h"
#include "report/format.h"
#include "report/table.h"

struct call {
    struct bench_options options;
    struct bench_subject subjects[2];
    struct measure_comparison paired;
    struct host_facts host;
    size_t n, opened;
    const char *traces[2]; // profiles of the subjects, in the record; NULL: none
    struct record record;
    struct str result, document;
};

static const char *device_of(const struct bench_subject *b)
{
    const struct worker_info *i = worker_info(b->subject.worker);
    return i->devices[i->device].kind;
}

// ---- document

static void write_subject(const struct bench_subject *b, const char *trace, struct jw *w)
{
    const char *device = device_of(b);
    double flop = cost_product_flop(&b->cost), seconds = b->time.p50 / 1e3;
    jw_object(w);
    const struct exported *program = b->from_files ? b->files.program : NULL;
    jw_kv_string(w, "workload", b->workload);
    program_file_json("program", program ? &program->program.file : NULL, w);
    jw_kv_string(w, "policy", b->policy);
    jw_kv_string(w, "device", device);
    quantity_json_kv(w, "flop", quantity_make(flop, "FLOP", ORIGIN_DERIVED, "2 per multiply-add of products"));
    quantity_json_kv(w, "bytes", quantity_make(b->cost.bytes, "B", ORIGIN_DERIVED, "fused bytes of one run"));
    const struct {
        const char *key, *unit, *source;
        double value;
    } rows[] = {
        {"compile_ms", "ms", device, (double)b->subject.program.compile_ns / 1e6},
        {"first_ms", "ms", device, (double)b->subject.first_ns / 1e6},
        {"p50_ms", "ms", device, b->time.p50},
        {"p90_ms", "ms", device, b->time.p90},
        {"min_ms", "ms", device, b->time.min},
        {"mad_ms", "ms", "median absolute deviation times 1.4826", b->time.mad},
        {"ci_low_ms", "ms", "exact binomial interval of the median, 95 %", b->time.p50_low},
        {"ci_high_ms", "ms", "exact binomial interval of the median, 95 %", b->time.p50_high},
        {"flop_per_s", "FLOP/s", "product FLOP / p50", flop > 0 ? flop / seconds : NAN},
        {"bytes_per_s", "B/s", "fused bytes / p50", b->cost.bytes / seconds},
        {"items_per_s", "1/s", "items per run / p50", (double)b->items / seconds},
        {"peak_rss_bytes", "B", "of the worker process", (double)b->memory.peak_rss_bytes},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        quantity_json_kv(w, rows[i].key, quantity_make(rows[i].value, rows[i].unit, ORIGIN_MEASURED, rows[i].source));
    quantity_json_samples(w, "samples_ns", b->samples_ns, b->n_samples, "ns", device);
    subject_kernels_json(&b->subject, w);
    jw_kv_uint(w, "outliers", b->time.outliers);
    jw_kv_uint(w, "warmup_runs", b->warmup.runs);
    jw_kv_string(w, "trace", trace);
    jw_object_end(w);
}

static int write_result(struct call *c, struct error *err)
{
    struct jw w;
    jw_init(&w, &c->result, false);
    jw_object(&w);
    jw_key(&w, "subjects");
    jw_array(&w);
    for (size_t i = 0; i < c->n; i++)
        write_subject(&c->subjects[i], c->traces[i], &w);
    jw_array_end(&w);
    jw_key(&w, "paired");
    if (c->n == 2)
        measure_comparison_json(&w, &c->paired, device_of(&c->subjects[0]));
    else
        jw_null(&w);
    jw_key(&w, "host");
    host_json(&w, &c->host);
    jw_object_end(&w);
    return jw_finish(&w, err);
}

// ---- text

static int print_text(struct cli *cli, const struct call *c, struct error *err)
{
    struct table t;
    table_init(&t);
    table_column(&t, "workload", NULL, TABLE_LEFT, 0);
    const struct {
        const char *title, *unit;
        int rank;
    } columns[] = {{"compile", "ms", 4}, {"first", "ms", 3}, {"p50", "ms", 0},  {"p90", "ms", 2},
                   {"min", "ms", 2},     {"95 %", "ms", 3},  {"rate", NULL, 1}, {"items/s", NULL, 2}};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        table_column(&t, columns[i].title, columns[i].unit, TABLE_RIGHT, columns[i].rank);
    for (size_t i = 0; i < c->n; i++) {
        const struct bench_subject *b = &c->subjects[i];
        double flop = cost_product_flop(&b->cost), seconds = b->time.p50 / 1e3;
        char low[FORMAT_MAX], high[FORMAT_MAX];
        format_number(low, b->time.p50_low, 3);
        format_number(high, b->time.p50_high, 3);
        table_row(&t);
        table_cellf(&t, "%s%s%s", b->workload, b->policy ? " " : "", b->policy ? b->policy : "");
        table_number(&t, (double)b->subject.program.compile_ns / 1e6, NULL);
        table_number(&t, (double)b->subject.first_ns / 1e6, NULL);
        table_number(&t, b->time.p50, NULL);
        table_number(&t, b->time.p90, NULL);
        table_number(&t, b->time.min, NULL);
        table_cellf(&t, "%s-%s", low, high);
        table_quantity(&t, quantity_make(flop > 0 ? flop / seconds : b->cost.bytes / seconds,
                                         flop > 0 ? "FLOP/s" : "B/s", ORIGIN_MEASURED, "work / p50"));
        table_number(&t, (double)b->items / seconds, NULL);
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    const struct bench_subject *first = &c->subjects[0];
    struct str line;
    str_init(&line);
    str_addf(&line, "[M] on %s, %zu sample%s each after %zu warm-up run%s", device_of(first), first->n_samples,
             first->n_samples == 1 ? "" : "s", first->warmup.runs, first->warmup.runs == 1 ? "" : "s");
    wrap_text(&cli->out, str_text(&line), 0, 2, cli->width);
    for (size_t i = 0; i < c->n; i++) {
        str_clear(&line);
        str_add(&line, "kernels: ");
        size_t empty = line.length;
        subject_kernels_text(&c->subjects[i].subject, &line);
        if (line.length > empty)
            wrap_text(&cli->out, line.text, 0, 2, cli->width);
    }
    if (c->n == 2) {
        str_clear(&line);
        str_addf(&line, "second over first: %.3f (95 %% %.3f to %.3f, %zu pair%s): %s", c->paired.ratio, c->paired.low,
                 c->paired.high, c->paired.pairs, c->paired.pairs == 1 ? "" : "s",
                 measure_verdict_name(c->paired.verdict));
        wrap_text(&cli->out, str_text(&line), 0, 2, cli->width);
    }
    str_release(&line);
    for (size_t i = 0; i < c->host.n_warnings; i++)
        wrap_text(&cli->out, c->host.warnings[i], 0, 2, cli->width);
    return rc;
}

// ---- calibration

// The document of c->result into the record, the record under its name, and under --json the document shown.
static int commit(struct cli *cli, struct call *c, struct error *err)
{
    int rc = record_envelope(&c->document, "bench", record_path(&c->record), str_text(&c->result), NULL, err);
    if (!rc)
        rc = record_commit(&c->record, c->document.text, c->document.length, err);
    if (rc)
        return rc;
    cli->record = arena_strdup(&cli->arena, record_path(&c->record), err);
    if (!cli->record)
        return ERR_MEMORY;
    return cli->json ? cli_envelope(cli, str_text(&c->result), NULL, err) : 0;
}

static int write_calibration_config(struct call *c, struct error *err)
{
    struct jw w;
    struct str config;
    str_init(&config);
    jw_init(&w, &config, false);
    jw_object(&w);
    record_provenance(&w, &c->record);
    jw_kv_bool(&w, "calibrate", true);
    jw_kv_string(&w, "plugin", c->options.worker.plugin_path);
    jw_kv_int(&w, "samples", c->options.samples);
    jw_kv_int(&w, "threads", c->options.worker.threads);
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = record_config(&c->record, config.text, config.length, err);
    str_release(&config);
    return rc;
}

static int write_calibration(struct call *c, const struct chip_local *local, const char *path, struct error *err)
{
    struct jw w;
    jw_init(&w, &c->result, false);
    jw_object(&w);
    jw_kv_string(&w, "path", path);
    jw_kv_string(&w, "cpu", local->cpu_model);
    jw_kv_int(&w, "threads", local->threads);
    jw_key(&w, "rates");
    jw_object(&w);
    for (int t = 0; t < CHIP_TYPES; t++) {
        const char *name = chip_type_name((enum chip_type)t);
        if (!isnan(local->rate[t].value))
            quantity_json_kv(&w, name,
                             quantity_make(local->rate[t].value, "FLOP/s", ORIGIN_MEASURED, "product of 2048^3"));
    }
    jw_object_end(&w);
    quantity_json_kv(&w, "copy", quantity_make(local->copy.value, "B/s", ORIGIN_MEASURED, "128 MiB read and written"));
    jw_object_end(&w);
    return jw_finish(&w, err);
}

static void print_calibration(struct cli *cli, const struct chip_local *local, const char *path)
{
    char figure[FORMAT_MAX];
    for (int t = 0; t < CHIP_TYPES; t++) {
        if (isnan(local->rate[t].value))
            continue;
        format_si(figure, local->rate[t].value, t == CHIP_INT8 ? "OP/s" : "FLOP/s");
        str_addf(&cli->out, "%-5s %s [M]\n", chip_type_name((enum chip_type)t), figure);
    }
    format_si(figure, local->copy.value, "B/s");
    str_addf(&cli->out, "copy  %s [M]\nkept in ", figure);
    str_add_terminal(&cli->out, path, strlen(path));
    str_add_char(&cli->out, '\n');
}

// Keeps it in the user's cache, as `local`, and in the record.
static int keep_calibration(struct call *c, const struct chip_local *local, struct str *path, struct error *err)
{
    struct str text;
    str_init(&text);
    int rc = chips_local_path(path, local->cpu_model, local->plugin_sha256, err);
    if (!rc)
        rc = chips_local_save(str_text(path), local, err);
    if (!rc)
        rc = chips_local_text(&text, local, err);
    if (!rc)
        rc = record_write(&c->record, CHIPS_LOCAL_FILE, text.text, text.length, err);
    str_release(&text);
    return rc;
}

static int calibrate(struct cli *cli, struct call *c, struct error *err)
{
    struct chip_local local;
    struct str path;
    str_init(&path);
    int rc = write_calibration_config(c, err);
    if (!rc)
        rc = bench_calibrate(&local, &c->options, &cli->progress, err);
    if (!rc)
        rc = keep_calibration(c, &local, &path, err);
    if (!rc)
        rc = write_calibration(c, &local, str_text(&path), err);
    if (!rc)
        rc = commit(cli, c, err);
    if (!rc && !cli->json)
        print_calibration(cli, &local, str_text(&path));
    str_release(&path);
    return rc;
}

// ---- the command

// Of subject i.
static const char *workload_of(const struct cli *cli, size_t i)
{
    return i && cli_string(cli, "against") ? cli_string(cli, "against") : cli->operands[0];
}

static const char *policy_of(const struct cli *cli, size_t i)
{
    const char *const *policies;
    size_t n = cli_strings(cli, "policy", &policies);
    return policies[n == 2 ? i : 0];
}

// Whether subject i may have kernels.
static bool kernels_of(const struct cli *cli, size_t i)
{
    const char *const *choices;
    size_t n = cli_strings(cli, "kernels", &choices);
    return strcmp(choices[n == 2 ? i : 0], "on") == 0;
}

// Before there is a record: a name that is not known should leave none behind.
static int check(struct cli *cli, struct call *c, struct error *err)
{
    const char *const *policies;
    size_t n = cli_strings(cli, "policy", &policies);
    if (n > 2)
        return error_set(err, ERR_USAGE, "--policy", "give one, or two to compare");
    const char *const *kernels;
    size_t n_kernels = cli_strings(cli, "kernels", &kernels);
    if (n_kernels > 2)
        return error_set(err, ERR_USAGE, "--kernels", "give one, or two to compare");
    c->n = cli_given(cli, "against") || n == 2 || n_kernels == 2 ? 2 : 1;
    int rc = 0;
    for (size_t i = 0; i < c->n && !rc; i++)
        rc = bench_check(workload_of(cli, i), cli_given(cli, "policy") ? policy_of(cli, i) : NULL, &c->options, err);
    return rc;
}

static int measure(struct cli *cli, struct call *c, struct error *err)
{
    for (size_t i = 0; i < c->n; i++) {
        progress_report(&cli->progress, "start", i, c->n);
        struct bench_options o = c->options;
        o.worker.kernels = kernels_of(cli, i);
        int rc = bench_open(&c->subjects[i], workload_of(cli, i), cli_given(cli, "policy") ? policy_of(cli, i) : NULL,
                            &o, err);
        if (rc)
            return rc;
        c->opened++;
    }
    struct bench_subject *list[2] = {&c->subjects[0], &c->subjects[1]};
    int rc = bench_measure(list, c->n, &c->options, &cli->progress, err);
    if (!rc && c->n == 2)
        rc = measure_compare(&c->paired, c->subjects[0].samples_ns, c->subjects[1].samples_ns, c->subjects[0].n_samples,
                             0.01, 0.95, err);
    return rc;
}

// The subjects' own profiles; two may have one name.
static int trace(struct cli *cli, struct call *c, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < c->n && !rc; i++) {
        const char *name = c->subjects[i].policy ? c->subjects[i].policy : c->subjects[i].workload;
        progress_report(&cli->progress, "trace", i, c->n);
        name = c->n == 1 ? name : arena_printf(&cli->arena, err, "%zu_%s", i + 1, name);
        const struct capture_steps steps = capture_steps_of(&c->subjects[i].subject, name);
        rc = name ? capture_into(&c->record, &steps, &cli->progress, &cli->arena, &c->traces[i], err) : ERR_MEMORY;
    }
    return rc;
}

static int write_config(struct cli *cli, struct call *c, struct error *err)
{
    struct jw w;
    struct str config;
    str_init(&config);
    jw_init(&w, &config, false);
    jw_object(&w);
    record_provenance(&w, &c->record);
    jw_kv_string(&w, "workload", cli->operands[0]);
    jw_kv_string(&w, "against", cli_string(cli, "against"));
    jw_key(&w, "policies");
    jw_array(&w);
    for (size_t i = 0; i < c->n; i++)
        jw_string(&w, policy_of(cli, i));
    jw_array_end(&w);
    jw_key(&w, "kernels");
    jw_array(&w);
    for (size_t i = 0; i < c->n; i++)
        jw_string(&w, kernels_of(cli, i) ? "on" : "off");
    jw_array_end(&w);
    jw_kv_string(&w, "device", c->options.worker.device);
    jw_kv_string(&w, "plugin", c->options.worker.plugin_path);
    jw_kv_string(&w, "text", c->options.text_path);
    jw_kv_string(&w, "weights", c->options.weights);
    jw_kv_string(&w, "weight_args", c->options.weight_args);
    jw_kv_string(&w, "inputs", c->options.inputs);
    jw_kv_int(&w, "batch", c->options.batch);
    jw_kv_int(&w, "seq", c->options.seq);
    jw_kv_int(&w, "samples", c->options.samples);
    jw_kv_int(&w, "warmup", c->options.warmup);
    jw_kv_uint(&w, "seed", c->options.seed);
    jw_kv_int(&w, "threads", c->options.worker.threads);
    jw_kv_bool(&w, "trace", cli_flag(cli, "trace"));
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = record_config(&c->record, config.text, config.length, err);
    str_release(&config);
    return rc;
}

static int run_recorded(struct cli *cli, struct call *c, struct error *err)
{
    int rc = write_config(cli, c, err);
    if (!rc)
        rc = measure(cli, c, err);
    if (!rc && cli_flag(cli, "trace"))
        rc = trace(cli, c, err);
    if (!rc)
        rc = write_result(c, err);
    if (!rc && !cli->json)
        rc = print_text(cli, c, err);
    if (!rc)
        rc = commit(cli, c, err);
    return rc ? rc : c->n == 2 && c->paired.verdict == VERDICT_AMBIGUOUS ? 6 : 0;
}

static int run(struct cli *cli, struct error *err)
{
    bool stages;
    int rc = bench_stages_asked(cli, &stages, err);
    if (rc || stages)
        return rc ? rc : bench_stages_run(cli, err);
    if (cli_flag(cli, "compare"))
        return bench_stages_compare(cli, err);
    if (cli->n_operands > 1)
        return error_set(err, ERR_USAGE, "bench", "takes one WORKLOAD; --compare takes two records");
    struct call *c = arena_new(&cli->arena, struct call, 1, err);
    if (!c)
        return ERR_MEMORY;
    struct bench_options *o = &c->options;
    o->worker = cli_worker_options(cli);
    o->text_path = cli_string(cli, "text");
    o->batch = cli_given(cli, "batch") ? cli_int(cli, "batch", 0) : 0;
    o->seq = cli_given(cli, "seq") ? cli_int(cli, "seq", 0) : 0;
    o->weight_args = cli_string(cli, "weight-args");
    o->weights = cli_string(cli, "weights");
    o->inputs = cli_string(cli, "inputs");
    o->samples = cli_int(cli, "samples", 30);
    o->warmup = cli_int(cli, "warmup", -1);
    o->seed = cli_seed(cli);
    bool calibrates = cli_flag(cli, "calibrate");
    if (cli->n_operands && stages_has(cli->operands[0]))
        return error_set(err, ERR_USAGE, cli->operands[0],
                         "is an image pipeline: say what of it is timed, as in --stages text,dit,vae");
    if (calibrates && cli_flag(cli, "trace"))
        return error_set(err, ERR_USAGE, "--trace",
                         "does not go with --calibrate, whose products say nothing of a model");
    if (calibrates && cli->n_operands)
        return error_set(err, ERR_USAGE, "--calibrate", "takes no WORKLOAD");
    if (!calibrates && cli->n_operands == 0)
        return error_set(err, ERR_USAGE, "bench", "needs WORKLOAD or --calibrate; `assay help bench` says more");
    host_read(&c->host, "/");
    str_init(&c->result);
    str_init(&c->document);
    rc = calibrates ? bench_check(NULL, NULL, o, err) : check(cli, c, err);
    if (rc)
        return rc;
    rc = record_open(&c->record, cli_string(cli, "run-dir"), "bench", cli->argc, cli->argv, err);
    if (rc)
        return rc;
    rc = calibrates ? calibrate(cli, c, err) : run_recorded(cli, c, err);
    if (rc < 0) {
        struct error ignored = {0}; // the first error is the one to tell
        record_fail(&c->record, err, NULL, &ignored);
        cli_note(cli, "what was written so far is in %s", c->record.building);
    }
    for (size_t i = 0; i < c->opened; i++)
        bench_close(&c->subjects[i]);
    str_release(&c->result);
    str_release(&c->document);
    return rc;
}

static void stages_words(struct str *out)
{
    for (int i = 0; i < STAGES_KINDS; i++)
        str_addf(out, "%s\n", stages_kind_name((enum stages_kind)i));
}

static const char *const description[] = {
    "Time of one workload on the device: compilation, the first run, and warmed runs, of which every sample is kept. "
    "With --against, or with --policy given twice, two are measured in turns and compared pair by pair; exit code 6 "
    "says that the measurement cannot tell them apart.",
    "WORKLOAD is builtin:gemm:MxKxN:TYPE, builtin:copy:N, builtin:minilm (random data), or a model directory, which "
    "with --text runs on its own weights and the first texts of the file.",
    "Or it is a program that was exported, StableHLO (.mlir) or an HLO module before any optimisation (.hlo.pb, "
    ".txt), which runs on --weights and the first case of --inputs, or on random ones.",
    "--stages takes an image pipeline apart: WORKLOAD is builtin:flux2-klein-4b, one of its kin, or a folder, and "
    "LIST names what is timed. cold, staged and resident are requests, from the prompt's tokens to the image: with "
    "files from the disk and programs compiled in turn, with each component loaded in turn, with all weights on the "
    "device. calib is products of 4096^3 in bf16, f32, int8 and, where the device has it, f8, each checked, and a "
    "copy. text, dit and vae are the modules by themselves, beside their floors. docs/stages.md says how each figure "
    "is made.",
    "--calibrate measures products and a copy on this machine and keeps them in the user's cache: the chip `local`. "
    "Its record is what --calibration of `assay price` and `assay qualify` takes.",
    NULL,
};

static const struct option options[] = {
    OPTION_DEVICE,
    OPTION_PLUGIN,
    {.name = "calibrate", .kind = OPTION_FLAG, .help = "measure this machine for the chip `local`"},
    {.name = "against", .kind = OPTION_STRING, .argument = "WORKLOAD", .help = "a second workload, measured in turns"},
    OPTION_POLICIES("for models: a preset or a spelled-out policy; twice to compare two"),
    OPTION_KERNELS_PAIR,
    OPTION_TEXT("texts for a model directory, one per line"),
    OPTION_BATCH("32", "texts in one run"),
    OPTION_SEQ("128", "tokens per text"),
    {.name = "weights",
     .kind = OPTION_STRING,
     .argument = "FILE",
     .complete = COMPLETE_FILE,
     .help = "of a program: its weights (safetensors), found by the names of its arguments or, where the tensors are "
             "called 0, 1, ..., by position; with --stages: as of `assay image`, random:1 when not given"},
    OPTION_WEIGHT_ARGS,
    OPTION_INPUTS,
    OPTION_SAMPLES("30"),
    OPTION_WARMUP,
    OPTION_TRACE("the workload, with --stages of one more run of each thing that is timed"),
    {.name = "stages",
     .kind = OPTION_STRINGS,
     .argument = "LIST",
     .words = stages_words,
     .help =
         "time an image pipeline by stages: cold, staged, resident, calib, text, dit, vae, parted by commas; may be "
         "given again"},
    {.name = "height",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 65536,
     .help = "with --stages: pixels, a multiple of 16 up to 4096; 512 when not given"},
    {.name = "width",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 65536,
     .help = "with --stages: pixels, as the height"},
    {.name = "steps",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = FLUX2_MAX_STEPS,
     .help = "with --stages: steps of a request; the model's own when not given"},
    OPTION_LAYERS("with --stages: "),
    {.name = "prompt", .kind = OPTION_STRING, .argument = "TEXT", .help = "with --stages: what requests ask for"},
    {.name = "tokenizer",
     .kind = OPTION_STRING,
     .argument = "DIR",
     .complete = COMPLETE_DIR,
     .help = "with --stages: as of `assay image`"},
    {.name = "requests",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = 1e6,
     .help = "with --stages: timed requests of cold and staged, behind the first; 2 when not given"},
    {.name = "calib-size",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 16,
     .max = 32768,
     .help = "with --stages: rows and columns of the products of calib; 4096 when not given"},
    {.name = "compare",
     .kind = OPTION_FLAG,
     .help =
         "head to head: two records of --stages; or, with --stages, two devices that it runs on in turns (DEVICE, or "
         "DEVICE/threads:N), one after the other where memory does not hold both"},
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_TIMEOUT,
    OPTION_FORMAT("text json md html csv"),
    OPTION_RUN_DIR,
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay bench --calibrate", "what this machine reaches"},
    {"assay bench gemm:2048x2048x2048:bf16 --against gemm:2048x2048x2048:f32", "two products in turns"},
    {"assay bench minilm --text texts.txt --policy f32 --policy w8a8", "two policies of one model in turns"},
    {"assay bench model.hlo.pb --weights model.safetensors --inputs inputs.npz --policy f32 --policy bf16",
     "a program of your own, on its own weights"},
    {"assay bench builtin:flux2-klein-4b --stages calib,text,dit,vae,resident --height 512 --width 512",
     "where the time of an image goes, with random weights"},
    {"assay bench builtin:flux2-klein-4b --stages calib,text,dit,vae --compare cpu gpu",
     "the same stages on two devices in turns, head to head"},
    {"assay bench --compare runs/bench-cpu runs/bench-tpu", "two records of stages, head to head"},
    {NULL, NULL},
};

const struct command command_bench = {
    .name = "bench",
    .operands = "[WORKLOAD [DEVICE DEVICE] | RECORD RECORD]",
    .min_operands = 0,
    .max_operands = 3,
    .operand_complete = COMPLETE_DIR,
    .summary = "measured time: cold, first, warmed; every sample kept; paired A/B",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
