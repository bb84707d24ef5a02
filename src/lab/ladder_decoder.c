// SPDX-License-Identifier: Apache-2.0
// The ladder of a causal decoder (llama, mistral, qwen3): a prompt, the cache that it leaves, and what comes next.
#include <stdlib.h>

#include "io/hf_config.h"
#include "lab/ladder_part.h"

#define PROGRAM "decoder"

// The bounds of FLUX.2's text encoder for the same values; logits come behind all layers and one product more.
static const struct ladder_rung rungs[] = {
    {1, "embeddings, rotary tables", 1e-6, 50, false}, {2, "layer 0: q, k", 1e-5, 50, false},
    {3, "layer 0: attention", 1e-5, 45, false},        {4, "every layer", 1e-5, 40, false},
    {5, "cache: keys, values", 1e-5, 40, false},       {6, "logits of the last token", 1e-4, 35, false},
};
static const struct ladder_place places[] = {{PROGRAM, "embedding", 1},
                                             {PROGRAM, "rope_", 1},
                                             {PROGRAM, "layer.0.attention", 3},
                                             {PROGRAM, "layer.0.", 2},
                                             {PROGRAM, "layer.", 4},
                                             {PROGRAM, "cache.", 5},
                                             {PROGRAM, "", 6},
                                             {0}};

int ladder_decoder_rope(struct ladder *l, const char *program, const struct decoder_config *c, int64_t seq,
                        struct error *err)
{
    size_t n = (size_t)(seq * (c->head_dim / 2));
    float *cosine = malloc((n + 1) * sizeof *cosine), *sine = malloc((n + 1) * sizeof *sine);
    int rc = cosine && sine ? 0 : error_set(err, ERR_MEMORY, program, "no memory for rotary tables");
    if (!rc) {
        decoder_rope(c, 0, seq, cosine, sine);
        rc = ladder_rope(l, program, cosine, sine, n, err);
    }
    free(cosine);
    free(sine);
    return rc;
}

static int read_config(const char *directory, struct decoder_config *c, struct error *err)
{
    struct hf_config config;
    int rc = hf_config_open(&config, directory, err);
    if (rc)
        return rc;
    rc = decoder_config_read(c, &config, err);
    hf_config_release(&config);
    return rc;
}

static int run_decoder(struct ladder *l, const struct progress *progress, struct error *err)
{
    struct decoder_config c;
    struct checkpoint weights;
    struct module m;
    const struct tensor_view *ids = ladder_tap(&l->reference, PROGRAM, "input_ids");
    if (!ids || ids->rank != 2)
        return error_set(err, ERR_INPUT, PROGRAM "/input_ids", "the reference has no such matrix of ids");
    const struct decoder_build how = {
        .phase = DECODER_PREFILL, .batch = ids->dims[0], .seq = ids->dims[1], .also = TAPS_ALL};
    int rc = read_config(l->workload, &c, err);
    module_init(&m, &l->arena, PROGRAM);
    if (!rc)
        rc = decoder_module(&c, &how, &m, err);
    if (!rc)
        rc = ladder_decoder_rope(l, PROGRAM, &c, how.seq, err);
    if (!rc)
        rc = checkpoint_open(&weights, l->workload, err);
    if (rc)
        return rc;
    rc = ladder_program(l, PROGRAM, &m, &weights, progress, err);
    checkpoint_close(&weights);
    return rc;
}

static const char *const programs[] = {PROGRAM, NULL};

const struct ladder_model ladder_decoder = {.name = "decoder",
                                            .rungs = rungs,
                                            .n_rungs = sizeof rungs / sizeof *rungs,
                                            .places = places,
                                            .programs = programs,
                                            .run = run_decoder};
