// SPDX-License-Identifier: Apache-2.0
// config.json of a model, of the parts of a FLUX.2 folder, and of a pooling module; reference.json of a ladder. What is
// accepted must be within the limits that are promised.
#include <stdlib.h>

#include "io/hf_config.h"
#include "lab/ladder_reference.h"
#include "models/flux2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error e = {0};
    struct hf_config c;
    if (hf_config_parse(&c, (const char *)data, size, "fuzz", &e) == 0) {
        struct bert_config b;
        if (hf_config_bert(&c, &b, &e) == 0 &&
            (b.hidden_size < 1 || b.num_attention_heads < 1 || b.hidden_size % b.num_attention_heads ||
             b.vocab_size < 1 || !(b.layer_norm_eps > 0)))
            abort();
        struct decoder_config d;
        struct error e3 = {0};
        if (decoder_config_read(&d, &c, &e3) == 0 &&
            (d.heads < 1 || d.kv_heads < 1 || d.heads % d.kv_heads || d.head_dim < 2 || d.head_dim % 2 || d.layers < 1))
            abort();
        hf_config_release(&c);
    }
    for (int i = FLUX2_TRANSFORMER; i <= FLUX2_INDEX; i++) {
        struct flux2_config f = {0};
        struct error e4 = {0};
        if (flux2_parse(&f, (enum flux2_file)i, (const char *)data, size, "fuzz", &e4) == 0 &&
            ((i == FLUX2_TRANSFORMER && (f.dit.heads < 1 || f.dit.mlp < 1)) || (i == FLUX2_VAE && f.vae.groups < 1)))
            abort();
    }
    struct ladder_reference r = {0};
    struct error e5 = {0};
    arena_init(&r.arena);
    if (ladder_reference_parse(&r, (const char *)data, size, "fuzz", &e5) == 0 &&
        (!r.model || !r.n_cases || r.at != r.cases))
        abort();
    for (size_t i = 0; !e5.code && i < r.n_cases; i++) {
        const struct ladder_case *one = &r.cases[i];
        if (one->height < 0 || one->height > 4096 || one->steps > 1000 || one->n_references > LADDER_MAX_REFERENCES)
            abort();
    }
    arena_release(&r.arena);
    if (!e.code)
        return 0; // a model's configuration is not one of pooling
    struct error e2 = {0};
    enum pooling_mode mode;
    if (pooling_parse((const char *)data, size, "fuzz", &mode, &e2) == 0 && pooling_mode_name(mode)[0] == 'u')
        abort();
    return 0;
}
