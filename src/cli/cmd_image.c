// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/worker_options.h"
#include "ir/policy.h"
#include "lab/image_run.h"
#include "report/page.h"
#include "report/table.h"

#define OUT "output"

static const char *shown_seconds(char text[32], double ns)
{
    snprintf(text, 32, "%.2f", ns * 1e-9);
    return text;
}

static int print_parts(struct cli *cli, const struct klein *k, struct error *err)
{
    struct table t;
    char text[32];
    table_init(&t);
    table_column(&t, "part", NULL, TABLE_LEFT, 0);
    table_column(&t, "compile", "s", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_MEASURED);
    table_column(&t, klein_weights_are_random(&k->weights) ? "make" : "load", "s", TABLE_RIGHT, 1);
    table_origin(&t, ORIGIN_MEASURED);
    table_column(&t, "runs", NULL, TABLE_RIGHT, 2);
    table_column(&t, "run", "s", TABLE_RIGHT, 0);
    table_origin(&t, ORIGIN_MEASURED);
    for (int i = 0; i < KLEIN_PARTS; i++) {
        const struct klein_figures *f = &k->figures[i];
        if (!f->compile_ns)
            continue;
        table_row(&t);
        table_cell(&t, klein_part_name((enum klein_part)i));
        table_number(&t, (double)f->compile_ns * 1e-9, shown_seconds(text, (double)f->compile_ns));
        double load = (double)(f->make_ns + f->load_ns);
        table_number(&t, load * 1e-9, shown_seconds(text, load));
        table_count(&t, (double)f->runs);
        table_number(&t, (double)f->run_ns * 1e-9, shown_seconds(text, (double)f->run_ns));
    }
    int rc = table_print(&t, &cli->out, TABLE_TEXT, (size_t)cli->width, cli->color, err);
    table_release(&t);
    return rc;
}

// A line of text, wrapped; it is empty again.
static void say_line(struct cli *cli, struct str *line)
{
    page_paragraph(&(struct page){.out = &cli->out, .width = (size_t)cli->width}, NULL, "", str_text(line));
    str_clear(line);
}

static void say_kernels(struct cli *cli, const struct klein *k, struct str *line)
{
    const struct worker_info *i = worker_info(k->worker);
    const char *before = "kernels: ";
    for (int n = 0; n < KERNEL_KINDS; n++) {
        if (!k->kernels.count[n])
            continue;
        str_addf(line, "%s%d %s", before, k->kernels.count[n], kernel_name((enum kernel_kind)n));
        before = ", ";
    }
    if (i->no_kernels)
        str_addf(line, "kernels: none (%s)", i->no_kernels);
    else if (i->kernels)
        str_addf(line, *before == ',' ? " (%s)" : "kernels: none of use here (%s)", i->kernels);
    if (line->length) {
        str_add_char(&cli->out, '\n');
        say_line(cli, line);
    }
}

static void say_layers(struct cli *cli, const struct klein *k, struct str *line)
{
    for (int i = 0; i < KLEIN_PARTS; i++) {
        if (k->figures[i].rolled.layers)
            str_addf(line, "%s%d of the %s", line->length ? ", " : "layers as loops: ", k->figures[i].rolled.layers,
                     klein_part_name((enum klein_part)i));
    }
    if (line->length)
        say_line(cli, line);
}

static int print_text(struct cli *cli, const struct image_run *r, struct error *err)
{
    const struct klein *k = &r->klein;
    struct str line;
    str_init(&line);
    for (int64_t i = 0; i < k->batch; i++) {
        str_add_terminal(&cli->out, r->paths[i], strlen(r->paths[i]));
        str_add_char(&cli->out, '\n');
    }
    str_addf(&line, "%" PRId64 " x %" PRId64 ", seed %" PRIu64 ", %" PRId64 " step%s, %s", k->width, k->height,
             r->options->seed, k->schedule.steps, k->schedule.steps == 1 ? "" : "s", k->weights.name);
    str_addf(&line, "%s, %s, %s, %s", image_run_random(r) ? " with random weights: the image shows nothing" : "",
             k->policy.name, klein_serving_name(k->serving), k->device);
    say_line(cli, &line);
    if (k->precision) {
        str_addf(&line, "f32 products: %s%s", matmul_precision_name(k->precision), k->emulated ? " (emulated)" : "");
        say_line(cli, &line);
    }
    str_add_char(&cli->out, '\n');
    int rc = print_parts(cli, k, err);
    say_kernels(cli, k, &line);
    say_layers(cli, k, &line);
    str_addf(&line, "in all %.2f s [M]", r->total_s);
    if (r->peak_bytes)
        str_addf(&line, ", at most %.2f GB of memory in the device's process [M]", (double)r->peak_bytes * 1e-9);
    str_add_char(&cli->out, '\n');
    say_line(cli, &line);
    str_release(&line);
    return rc ? rc : str_check(&cli->out, err);
}

enum { CUT_SHOWN = 200 }; // bytes

static void say_cut(struct cli *cli, const struct image_run *r)
{
    size_t n = r->cut.length > CUT_SHOWN ? CUT_SHOWN : r->cut.length;
    const char *text = str_text(&r->cut);
    while (n < r->cut.length && n && ((unsigned char)text[n] & 0xc0) == 0x80) // not inside a character
        n--;
    cli_note(cli, "the prompt was cut at %lld tokens, its last %zu and the template's end are gone: \"%.*s%s\"",
             (long long)r->max_tokens, r->prompt.cut_prompt, (int)n, text, n < r->cut.length ? "..." : "");
}

// What a person should know before it takes minutes.
static void say(struct cli *cli, const struct image_run *r)
{
    if (r->random)
        cli_note(cli, "the weights are random: the image shows nothing");
    if (!r->tokenizer)
        cli_note(cli, "random weights come without a tokenizer: every byte of the prompt is a token; --tokenizer DIR "
                      "names one");
    if (r->prompt.invalid_utf8)
        cli_note(cli, "the prompt holds %zu sequence%s not UTF-8", r->prompt.invalid_utf8,
                 r->prompt.invalid_utf8 == 1 ? " that is" : "s that are");
    if (r->prompt.cut_prompt)
        say_cut(cli, r);
    else if (r->prompt.cut_template)
        cli_note(cli, "the prompt is whole, but %zu of the template's tokens behind it %s cut at %lld",
                 r->prompt.cut_template, r->prompt.cut_template == 1 ? "was" : "were", (long long)r->max_tokens);
    for (int i = 0; i < r->pipeline.n_references; i++) {
        const int64_t *used = r->pipeline.references[i];
        if (r->sizes[i][0] != used[0] || r->sizes[i][1] != used[1])
            cli_note(cli, "%s: %lld x %lld pixels, of which %lld x %lld are used", r->options->references[i],
                     (long long)r->sizes[i][1], (long long)r->sizes[i][0], (long long)used[1], (long long)used[0]);
    }
}

static int serving_of(struct cli *cli, enum klein_serving *out, struct error *err)
{
    bool resident = cli_flag(cli, "resident"), staged = cli_flag(cli, "staged"), cold = cli_flag(cli, "cold");
    *out = staged ? KLEIN_STAGED : cold ? KLEIN_COLD : KLEIN_RESIDENT;
    return resident + staged + cold > 1 ? error_set(err, ERR_USAGE, cold ? "--cold" : "--staged",
                                                    "--resident, --staged and --cold exclude each other")
                                        : 0;
}

static int run(struct cli *cli, struct error *err)
{
    struct image_run r;
    struct image_options o = {
        .klein = {.weights = {.weights = cli_string(cli, "weights"),
                              .autoencoder = cli_string(cli, "autoencoder"),
                              .text_encoder = cli_string(cli, "text-encoder"),
                              .tokenizer = cli_string(cli, "tokenizer")},
                  .policy = cli_string(cli, "policy"),
                  .height = cli_int(cli, "height", 0),
                  .width = cli_int(cli, "width", 0),
                  .steps = cli_int(cli, "steps", 0),
                  .batch = cli_int(cli, "batch", 1),
                  .guidance = cli_double(cli, "guidance", NAN),
                  .worker = cli_pipeline_worker(cli)},
        .prompt = cli->operands[0],
        .seed = cli_seed(cli),
        .output = cli_string(cli, OUT),
    };
    o.klein.worker.kernels = cli_wants_kernels(cli);
    o.n_references = cli_strings(cli, "reference", &o.references);
    if (!o.klein.weights.weights || !*o.klein.weights.weights)
        return error_set(err, ERR_USAGE, "--weights",
                         "is missing: a folder in diffusers' layout, a .safetensors file, or random:SEED");
    if (!o.output)
        return error_set(err, ERR_USAGE, "-o", "is missing: where the image is written, as in -o out.png");
    if (!flux2_sampler_parse(&o.klein.sampler, cli_string(cli, "sampler")))
        return error_set(err, ERR_INTERNAL, "--sampler", "has choices that are not known");
    if (!layers_parse(&o.klein.layers, cli_string(cli, "layers")))
        return error_set(err, ERR_INTERNAL, "--layers", "has choices that are not known");
    if (!matmul_precision_parse(&o.klein.precision, cli_string(cli, "matmul-precision")))
        return error_set(err, ERR_INTERNAL, "--matmul-precision", "has choices that are not known");
    int rc = noise_from_name(cli_string(cli, "noise"), "--noise", &o.noise, err);
    if (!rc)
        rc = serving_of(cli, &o.klein.serving, err);
    if (rc)
        return rc;
    rc = image_run_open(&r, &o, err);
    if (!rc) {
        say(cli, &r);
        rc = image_run_draw(&r, &cli->progress, err);
    }
    if (!rc && cli_given(cli, "guidance") && !r.klein.guided)
        cli_note(cli, "--guidance had no effect: %s",
                 r.klein.weights.config.guided ? "1 and less mean none" : "this model is distilled and takes none");
    if (!rc && r.klein.precision && r.klein.policy.op != DT_F32)
        cli_note(cli, "--matmul-precision is of f32 products; under %s the large ones are of %s", r.klein.policy.name,
                 dtype_name(r.klein.policy.op));
    if (!rc)
        rc = cli->json ? cli_document(cli, image_run_json, &r, err) : print_text(cli, &r, err);
    image_run_release(&r);
    return rc;
}

static void noise_words(struct str *out)
{
    for (int i = 0; i < NOISE_KINDS; i++)
        str_addf(out, "%s\n", noise_name((enum noise_kind)i));
}

static const char *const description[] = {
    "Draws an image with FLUX.2 klein: the text encoder reads the prompt, the transformer turns noise into a latent "
    "image in a few steps, and the decoder makes pixels of it. The PNG says in its text chunk what it was made from.",
    "WEIGHTS is a folder in diffusers' layout (model_index.json, transformer/, text_encoder/, vae/, tokenizer/), or "
    "the "
    "transformer's single file (flux-2-klein-4b.safetensors), with the autoencoder (ae.safetensors) and the folder of "
    "the text encoder beside it or named. random:SEED is the model in full size with random weights, random:SEED:MODEL "
    "another of the family, tiny:SEED a very small one: their images show nothing, their times do.",
    "The same seed gives the same image as diffusers does where --noise and --sampler are its own: torch-avx2-bf16 is "
    "what torch draws in bf16 on today's x86-64.",
    "Weights are read where they lie, if they begin at multiples of 64 bytes, else copied once. Before anything is "
    "loaded the memory that is needed is compared with what is free.",
    NULL,
};

static const struct option options[] = {
    {.name = OUT,
     .letter = 'o',
     .kind = OPTION_STRING,
     .argument = "FILE.png",
     .complete = COMPLETE_FILE,
     .help = "where the image is written, whole or not at all; a batch writes FILE-1.png, FILE-2.png and so on"},
    {.name = "weights",
     .kind = OPTION_STRING,
     .argument = "WEIGHTS",
     .complete = COMPLETE_FILE,
     .help = "a folder, a .safetensors file, random:SEED, random:SEED:MODEL or tiny:SEED"},
    {.name = "autoencoder",
     .kind = OPTION_STRING,
     .argument = "FILE",
     .complete = COMPLETE_FILE,
     .help = "of a transformer in one file; ae.safetensors, flux2-vae.safetensors or vae/ beside it when not given"},
    {.name = "text-encoder",
     .kind = OPTION_STRING,
     .argument = "DIR",
     .complete = COMPLETE_DIR,
     .help = "of a transformer in one file; text_encoder/ beside it when not given"},
    {.name = "tokenizer",
     .kind = OPTION_STRING,
     .argument = "DIR",
     .complete = COMPLETE_DIR,
     .help = "of Qwen2 or Qwen3: a folder with tokenizer.json, or vocab.json and merges.txt; that of the weights when "
             "not given; random weights have none"},
    {.name = "height",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "512",
     .min = FLUX2_MIN_SIDE,
     .max = FLUX2_MAX_SIDE,
     .help = "pixels, a multiple of 16 up to 4096"},
    {.name = "width",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "512",
     .min = FLUX2_MIN_SIDE,
     .max = FLUX2_MAX_SIDE,
     .help = "pixels, a multiple of 16 up to 4096"},
    {.name = "steps",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = FLUX2_MAX_STEPS,
     .help = "steps from noise to image; 4 for distilled models and 50 for base models when not given"},
    OPTION_SEED,
    {.name = "guidance",
     .kind = OPTION_DOUBLE,
     .argument = "G",
     .min = 0,
     .max = 100,
     .help = "how far a base model follows the prompt beyond what it does without; 4 when not given; distilled models "
             "take none"},
    {.name = "reference",
     .kind = OPTION_STRINGS,
     .argument = "IMAGE",
     .complete = COMPLETE_FILE,
     .help = "a PNG or JPEG to go by; sides are cut to multiples of 16, large ones scaled down to a "
             "megapixel"},
    {.name = "noise",
     .kind = OPTION_STRING,
     .argument = "KIND",
     .preset = "torch",
     .words = noise_words,
     .help = "whose random numbers: torch, torch-bf16, torch-avx2, torch-avx2-bf16, torch1-bf16 or jax"},
    {.name = "sampler",
     .kind = OPTION_STRING,
     .preset = "diffusers",
     .choices = "diffusers bfl exact",
     .help = "whose roundings of times and latents, where the policy computes in bf16; exact rounds none"},
    {.name = "batch",
     .kind = OPTION_INT,
     .argument = "N",
     .preset = "1",
     .min = 1,
     .max = KLEIN_MAX_BATCH,
     .help = "images of the prompt at once"},
    {.name = "policy",
     .kind = OPTION_STRING,
     .argument = "POLICY",
     .preset = "bf16",
     .words = policy_words,
     .help = "a preset (f32, bf16, w8a16, w8a8, w4a16) or a spelled-out policy"},
    OPTION_MATMUL_PRECISION,
    OPTION_LAYERS(""),
    {.name = "resident", .kind = OPTION_FLAG, .help = "load all weights first, then draw (the default)"},
    {.name = "staged",
     .kind = OPTION_FLAG,
     .help = "load each component when its turn comes, and drop it again: the "
             "least memory"},
    {.name = "cold",
     .kind = OPTION_FLAG,
     .help = "as --staged, but files are read from the disk and programs compiled in turn: what a first request costs"},
    OPTION_DEVICE,
    OPTION_PLUGIN,
    OPTION_THREADS,
    OPTION_KERNELS,
    {.name = "timeout",
     .kind = OPTION_DOUBLE,
     .argument = "S",
     .min = 1e-3,
     .max = 1e6,
     .help =
         "seconds that one step on the device may take; 20 to load, 1800 to compile and 3600 to run when not given"},
    {.name = NULL},
};

static const struct example examples[] = {
    {"assay image 'a cat on a window sill' --weights FLUX.2-klein-4B -o cat.png", "one image"},
    {"assay image 'the same cat in snow' --weights FLUX.2-klein-4B --reference cat.png --staged -o snow.png",
     "an image changed, with little memory"},
    {"assay image test --weights random:1 --policy w8a8 -o noise.png", "what int8 would take, without the weights"},
    {NULL, NULL},
};

const struct command command_image = {
    .name = "image",
    .operands = "PROMPT",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "draw an image with FLUX.2 klein",
    .description = description,
    .options = options,
    .examples = examples,
    .run = run,
};
