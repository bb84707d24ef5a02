// SPDX-License-Identifier: Apache-2.0
// What a request for a workload consists of: which programs, and how often each runs.
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "ir/policy.h"
#include "models/arch.h"
#include "models/bert.h"
#include "models/builtin.h"
#include "models/flux2.h"
#include "models/program.h"

enum { MOST_CALLS = 1 << 20 };

static struct model_part *add_part(struct model_request *r, struct arena *a, const char *name, const char *call,
                                   int64_t calls)
{
    struct model_part *p = &r->parts[r->n_parts++];
    *p = (struct model_part){.name = name, .call = call, .calls = calls};
    module_init(&p->module, a, name);
    return p;
}

static int refuse(const char *option, const char *workload, const char *what, struct error *err)
{
    return error_set(err, ERR_USAGE, option, "%s %s", workload, what);
}

static int check_count(const char *option, int64_t n, struct error *err)
{
    return n >= 0 && n <= MOST_CALLS
               ? 0
               : error_set(err, ERR_USAGE, option, "must be from 1 to %d, not %" PRId64, MOST_CALLS, n);
}

// ---- FLUX.2

static const char *const flux2_hoisted[] = {"context embedder", "time, modulations", NULL};

static struct model_traffic decoder_traffic(const struct decoder_config *c, int64_t layers, int64_t tokens)
{
    double queries = (double)(c->heads * c->head_dim), keys = (double)(c->kv_heads * c->head_dim);
    double n = (double)layers * (double)tokens, latents = (double)(c->kv_lora + c->rope_dim);
    double values = c->kv_lora ? (double)(c->heads * c->v_head_dim) : keys;
    double results = c->kv_lora ? values : queries;
    struct model_traffic t = {.attention = n * (queries + keys + values + results),
                              .keys_values = n * (c->kv_lora ? latents : 2 * keys), // of latents they are made anew
                              .reduced = n * 2 * (double)c->hidden,
                              .reductions = 2 * layers,
                              .heads = c->heads,
                              .kv_heads = c->kv_heads,
                              .attentions = layers};
    for (int64_t i = 0; i < layers && c->experts.n; i++)
        t.routed_layers += (c->moe[i] & ARCH_MOE) != 0;
    if (t.routed_layers) {
        t.routed = (double)(t.routed_layers * c->experts.active) * (double)tokens * (double)c->hidden;
        t.experts = c->experts;
        t.tokens = (double)tokens;
    }
    return t;
}

// A double block adds up behind attention and mlp, where its two streams make one sum; a single block once.
static struct model_traffic dit_traffic(const struct flux2_config *c, const struct flux2_build *how)
{
    int64_t blocks = c->dit.double_blocks + c->dit.single_blocks, sums = blocks + c->dit.double_blocks;
    double tokens = (double)(how->batch * (c->text_tokens + how->rows * how->columns + how->reference));
    double stream = tokens * (double)(c->dit.heads * c->dit.head_dim);
    return (struct model_traffic){.attention = 4 * stream * (double)blocks,
                                  .keys_values = 2 * stream * (double)blocks,
                                  .reduced = stream * (double)sums,
                                  .reductions = sums,
                                  .heads = c->dit.heads,
                                  .kv_heads = c->dit.heads,
                                  .attentions = blocks};
}

static int flux2_request(const struct flux2_config *c, const struct model_shape *s, const char *workload,
                         struct arena *a, struct model_request *r, struct error *err)
{
    struct flux2_build how = {.batch = s->batch ? s->batch : 1};
    r->batch = how.batch;
    r->height = s->height ? s->height : 512;
    r->width = s->width ? s->width : 512;
    r->steps = s->steps ? s->steps : c->steps;
    r->unit = "image";
    r->hoisted = flux2_hoisted;
    r->hoisted_part = 1;
    if (s->seq)
        return refuse("--seq", workload, "always takes its own number of text tokens", err);
    if (s->tokens)
        return refuse("--tokens", workload, "writes no tokens", err);
    if (how.batch < 1 || how.batch > 1024)
        return error_set(err, ERR_USAGE, "--batch", "must be from 1 to 1024 images, not %" PRId64, how.batch);
    int rc = check_count("--steps", r->steps, err);
    if (!rc)
        rc = flux2_tokens(r->height, r->width, &how.rows, &how.columns, err);
    if (rc)
        return rc;
    int64_t passes = c->guided ? 2 : 1; // with the prompt, and without
    struct model_part *p = add_part(r, a, "text", "prompt", passes);
    rc = flux2_text_module(c, how.batch, false, &p->module, err);
    p->traffic = decoder_traffic(&c->text, c->taps[2], how.batch * c->text_tokens);
    if (rc)
        return rc;
    p = add_part(r, a, "dit", "step", passes * r->steps);
    rc = flux2_dit_module(c, &how, &p->module, err);
    p->traffic = dit_traffic(c, &how);
    if (rc)
        return rc;
    p = add_part(r, a, "vae", "image", 1);
    return flux2_decoder_module(c, &how, &p->module, err);
}

// ---- decoders

static int decoder_request(const struct decoder_config *c, const struct model_shape *s, struct arena *a,
                           struct model_request *r, struct error *err)
{
    struct decoder_build how = {
        .phase = DECODER_PREFILL, .batch = s->batch ? s->batch : 1, .seq = s->seq ? s->seq : 2048};
    int64_t tokens = s->tokens ? s->tokens : 128;
    r->batch = how.batch;
    r->unit = "batch";
    r->one_model = true;
    int rc = check_count("--tokens", tokens, err);
    if (rc)
        return rc;
    struct model_part *p = add_part(r, a, "prefill", "prompt", 1);
    rc = decoder_module(c, &how, &p->module, err);
    p->traffic = decoder_traffic(c, c->layers, how.batch * how.seq);
    if (rc)
        return rc;
    // Behind a cache as long as it is halfway through.
    how.phase = DECODER_STEP;
    how.seq += tokens / 2 + 1;
    p = add_part(r, a, "decode", "token", tokens);
    rc = decoder_module(c, &how, &p->module, err);
    p->traffic = decoder_traffic(c, c->layers, how.batch);
    return rc;
}

// ---- everything

static struct model_traffic bert_traffic(const struct bert_config *c, int64_t tokens)
{
    double stream = (double)tokens * (double)c->hidden_size, layers = (double)c->num_hidden_layers;
    return (struct model_traffic){.attention = 4 * stream * layers,
                                  .keys_values = 2 * stream * layers,
                                  .reduced = 2 * stream * layers,
                                  .reductions = 2 * c->num_hidden_layers,
                                  .heads = c->num_attention_heads,
                                  .kv_heads = c->num_attention_heads,
                                  .attentions = c->num_hidden_layers};
}

int model_request_imported(const char *path, const struct module *m, const struct model_shape *s, struct arena *a,
                           struct model_request *r, struct error *err)
{
    memset(r, 0, sizeof *r);
    if (s->height || s->width || s->steps)
        return refuse("--height, --width, --steps", path, "makes no images", err);
    if (s->tokens)
        return refuse("--tokens", path, "writes no tokens", err);
    if (s->batch || s->seq)
        return refuse(s->batch ? "--batch" : "--seq", path, "has shapes of its own; export it with others", err);
    struct model_part *p = add_part(r, a, "program", "run", 1);
    r->unit = "run";
    r->batch = 1; // it was made for one batch, which nobody tells
    r->fixed = !m || !module_takes_policies(m);
    r->own_types = m && !program_is_f32(m);
    if (m)
        p->module = *m;
    return 0;
}

int model_request_program(const struct program *program, const struct model_shape *s, struct arena *a,
                          struct model_request *r, struct error *err)
{
    struct module m;
    module_init(&m, a, "program");
    int rc = program_module(program, &m, err);
    return rc ? rc : model_request_imported(program->file.path, &m, s, a, r, err);
}

static int single_request(const char *workload, const struct model_shape *s, struct arena *a, struct model_request *r,
                          struct error *err)
{
    struct bert bert;
    if (s->tokens)
        return refuse("--tokens", workload, "writes no tokens", err);
    struct model_part *p = add_part(r, a, "model", "batch", 1);
    r->unit = "batch";
    r->batch = s->batch ? s->batch : 32;
    int rc = model_module(workload, s, &p->module, &r->fixed, err);
    if (rc || r->fixed)
        return rc;
    if (strcmp(workload, "builtin:minilm") == 0)
        bert_minilm(&bert);
    else if (model_is_builtin(workload))
        return 0;
    else
        rc = bert_open(&bert, workload, err);
    if (!rc)
        p->traffic = bert_traffic(&bert.config, r->batch * (s->seq ? s->seq : 128));
    return rc;
}

// A directory by what is in it. *done says whether it was one of those here.
static int folder_request(const char *workload, const struct model_shape *s, struct arena *a, struct model_request *r,
                          bool *done, struct error *err)
{
    struct flux2_config flux;
    struct decoder_config decoder;
    struct hf_config config;
    *done = true;
    if (flux2_is_folder(workload)) {
        int rc = flux2_open(&flux, workload, err);
        return rc ? rc : flux2_request(&flux, s, workload, a, r, err);
    }
    int rc = hf_config_open(&config, workload, err);
    if (rc)
        return rc;
    *done = strcmp(config.model_type, "bert") != 0;
    if (decoder_is_described(config.model_type)) {
        struct arch *arch = arena_new(a, struct arch, 1, err);
        rc = arch ? arch_from_config(arch, &config, a, err) : ERR_MEMORY;
        if (!rc)
            rc = decoder_config_of(&decoder, arch, err);
    } else if (*done) {
        rc = decoder_config_read(&decoder, &config, err);
    }
    hf_config_release(&config);
    if (!*done || rc)
        return rc;
    return s->height || s->width || s->steps ? refuse("--height, --width, --steps", workload, "makes no images", err)
                                             : decoder_request(&decoder, s, a, r, err);
}

// A decoder of the built-in list of architectures ("llama-3.1-70b").
static bool is_architecture(const char *name)
{
    for (size_t i = 0; arch_builtin_name(i); i++) {
        if (strcmp(arch_builtin_name(i), name) == 0)
            return strcmp(name, "minilm") != 0;
    }
    return false;
}

static int architecture_request(const char *name, const struct model_shape *s, struct arena *a, struct model_request *r,
                                struct error *err)
{
    struct arch arch;
    struct decoder_config c;
    int rc = arch_builtin(&arch, name, a, err);
    if (!rc)
        rc = decoder_config_of(&c, &arch, err);
    return rc ? rc : decoder_request(&c, s, a, r, err);
}

int model_request(const char *workload, const struct model_shape *shape, struct arena *a, struct model_request *out,
                  struct error *err)
{
    const char *name = strncmp(workload, "builtin:", 8) == 0 ? workload + 8 : workload;
    memset(out, 0, sizeof *out);
    if (program_is(workload)) {
        struct program program;
        int rc = program_open(&program, workload, shape->weight_args, false, a, err);
        return rc ? rc : model_request_program(&program, shape, a, out, err);
    }
    if (shape->weight_args)
        return refuse("--weight-args", workload, "is no program, and knows its weights", err);
    if (model_is_builtin(workload) && flux2_builtin(name))
        return flux2_request(flux2_builtin(name), shape, workload, a, out, err);
    if (!model_is_builtin(workload) && dir_exists(workload)) {
        bool done;
        int rc = folder_request(workload, shape, a, out, &done, err);
        if (rc || done)
            return rc;
    }
    if (shape->height || shape->width || shape->steps)
        return refuse("--height, --width, --steps", workload, "makes no images", err);
    if (model_is_builtin(workload) && is_architecture(name))
        return architecture_request(name, shape, a, out, err);
    return single_request(workload, shape, a, out, err);
}
