// SPDX-License-Identifier: Apache-2.0
// Where the pipeline's weights come from: both layouts hold the same tensors, and what is wrong with a file is said.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ir/bind.h"
#include "ir/policy.h"
#include "lab/klein_weights.h"
#include "test.h"
#include "tiny_flux2.h"

static const char *in_dir(const char *name)
{
    static char paths[4][1200];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_dir(), name);
    return path;
}

static int open_of(struct klein_weights *w, const char *path, struct error *err)
{
    return klein_weights_open(w, &(struct klein_weights_options){.weights = path}, err);
}

static int compare_one(void *context, const struct flux2_tensor *t, struct error *err)
{
    const struct checkpoint *const *c = context;
    const struct tensor_view *a = checkpoint_find(c[0], t->name), *b = checkpoint_find(c[1], t->name);
    (void)err;
    if (!t->used)
        return 0;
    bool same = a && b && a->rank == b->rank && a->bytes == b->bytes && a->elements == b->elements;
    for (int d = 0; same && d < a->rank; d++)
        same = a->dims[d] == b->dims[d] && a->dims[d] == t->dims[d];
    if (!CHECK(same && memcmp(a->data, b->data, a->bytes) == 0))
        printf("  %s\n", t->name);
    return 0;
}

// The same bytes under the same names in a folder, in BFL's files and in the random checkpoint.
TEST(lab_klein_weights_are_the_same_in_every_layout)
{
    struct klein_weights w[3];
    struct error e = {0};
    REQUIRE_OK(tiny_flux2_write(in_dir("folder"), &(struct tiny_flux2_options){.seed = 7}, &e), &e);
    REQUIRE_OK(tiny_flux2_write(in_dir("files"), &(struct tiny_flux2_options){.seed = 7, .bfl = true}, &e), &e);
    REQUIRE_OK(open_of(&w[0], in_dir("folder"), &e), &e);
    REQUIRE_OK(open_of(&w[1], in_dir("files/transformer.safetensors"), &e), &e);
    REQUIRE_OK(open_of(&w[2], "tiny:7", &e), &e);
    CHECK(w[0].source == KLEIN_FOLDER && w[1].source == KLEIN_FILES && w[2].source == KLEIN_TINY);
    CHECK(w[0].config.taps[0] == 1 && w[1].config.taps[2] == 5);
    CHECK(!w[0].config.guided && w[0].config.steps == 4);
    for (int c = 0; c < FLUX2_COMPONENTS; c++) {
        const struct checkpoint *have[3];
        for (int i = 0; i < 3; i++)
            REQUIRE_OK(klein_weights_get(&w[i], (enum flux2_component)c, &have[i], &e), &e);
        const struct checkpoint *pairs[2][2] = {{have[0], have[1]}, {have[0], have[2]}};
        for (int i = 0; i < 2; i++)
            flux2_tensors(&w[0].config, (enum flux2_component)c, compare_one, pairs[i], &e);
        size_t bytes[3];
        for (int i = 0; i < 3; i++)
            REQUIRE_OK(klein_weights_bytes(&w[i], (enum flux2_component)c, &bytes[i], &e), &e);
        CHECK(bytes[0] == bytes[1] && bytes[2] >= bytes[0]); // random ones are padded to multiples of 64
    }
    CHECK(!w[0].config.kept_references && !w[1].config.kept_references);
    for (int i = 0; i < 3; i++)
        klein_weights_close(&w[i]);
    // What is not in shapes is in the name of a single file.
    char kept[1300];
    snprintf(kept, sizeof kept, "%s", in_dir("files/tiny-kv.safetensors"));
    CHECK(rename(in_dir("files/transformer.safetensors"), kept) == 0);
    REQUIRE_OK(open_of(&w[0], kept, &e), &e);
    CHECK(w[0].config.kept_references && !w[0].config.guided);
    klein_weights_close(&w[0]);
}

// Projections that lie one behind the other are read where they lie.
TEST(lab_klein_weights_of_random_checkpoints_are_stacked)
{
    struct klein_weights w;
    struct error e = {0};
    const struct checkpoint *c;
    REQUIRE_OK(open_of(&w, "tiny:7", &e), &e);
    REQUIRE_OK(klein_weights_get(&w, FLUX2_DIT, &c, &e), &e);
    const struct tensor_view *q = checkpoint_find(c, "transformer_blocks.0.attn.to_q.weight"),
                             *k = checkpoint_find(c, "transformer_blocks.0.attn.to_k.weight");
    REQUIRE(q && k);
    CHECK(q->offset % 64 == 0 && k->offset == q->offset + q->bytes);
    klein_weights_close(&w);
}

// A folder whose transformer and autoencoder are the single files, which have other names for the same tensors.
TEST(lab_klein_weights_of_single_files_in_a_folder)
{
    struct klein_weights w[2];
    struct error e = {0};
    static const char *const parts[2] = {"transformer", "vae"};
    static const enum flux2_component components[2] = {FLUX2_DIT, FLUX2_AUTOENCODER};
    REQUIRE_OK(tiny_flux2_write(in_dir("folder"), &(struct tiny_flux2_options){.seed = 7}, &e), &e);
    REQUIRE_OK(tiny_flux2_write(in_dir("files"), &(struct tiny_flux2_options){.seed = 7, .bfl = true}, &e), &e);
    for (int i = 0; i < 2; i++) {
        char to[1300];
        snprintf(to, sizeof to, "%s/%s/diffusion_pytorch_model.safetensors", in_dir("folder"), parts[i]);
        CHECK(rename(in_dir(i ? "files/ae.safetensors" : "files/transformer.safetensors"), to) == 0);
    }
    REQUIRE_OK(open_of(&w[0], in_dir("folder"), &e), &e);
    REQUIRE_OK(open_of(&w[1], "tiny:7", &e), &e);
    for (int c = 0; c < 2; c++) {
        const struct checkpoint *have[2];
        for (int i = 0; i < 2; i++)
            REQUIRE_OK(klein_weights_get(&w[i], components[c], &have[i], &e), &e);
        flux2_tensors(&w[0].config, components[c], compare_one, have, &e);
    }
    for (int i = 0; i < 2; i++)
        klein_weights_close(&w[i]);
}

static void refused(const struct tiny_flux2_options *o, int code, const char *want, const char *where)
{
    struct klein_weights w;
    struct error e = {0};
    const char *dir = in_dir("damaged");
    REQUIRE_OK(tiny_flux2_write(dir, o, &e), &e);
    CHECK_INT(open_of(&w, o->bfl ? in_dir("damaged/transformer.safetensors") : dir, &e), code);
    if (!CHECK(strstr(e.message, want) != NULL && strstr(e.where, where) != NULL))
        printf("  %s: %s\n", e.where, e.message);
    klein_weights_close(&w);
}

TEST(lab_klein_weights_say_what_is_wrong)
{
    refused(&(struct tiny_flux2_options){.part = TINY_FLUX2_DIT, .drop = "transformer_blocks.1.attn.to_k.weight"},
            ERR_INPUT, "lacks 1 tensor of the transformer of damaged: \"transformer_blocks.1.attn.to_k.weight\"",
            "damaged/transformer");
    refused(&(struct tiny_flux2_options){.part = TINY_FLUX2_TEXT, .drop = "model.layers.2.mlp.up_proj.weight"},
            ERR_INPUT, "lacks 1 tensor of the text encoder", "damaged/text_encoder");
    refused(&(struct tiny_flux2_options){.part = TINY_FLUX2_VAE, .extra = "decoder.more"}, ERR_INPUT,
            "has 1 tensor that the autoencoder of damaged has not: \"decoder.more\"", "damaged/vae");
    refused(&(struct tiny_flux2_options){.part = TINY_FLUX2_DIT, .fp8 = "proj_out.weight"}, ERR_INPUT,
            "\"proj_out.weight\" is stored as f8e4m3fn: fp8 files are not supported yet", "damaged/transformer");
    refused(&(struct tiny_flux2_options){.text_hidden = 64}, ERR_INPUT, "the text encoder gives 3 x 64 features",
            "damaged");
    refused(&(struct tiny_flux2_options){.bfl = true, .part = TINY_FLUX2_DIT, .drop = "img_in.weight"}, ERR_INPUT,
            "neither \"img_in.weight\" nor \"x_embedder.weight\"", "transformer.safetensors");
    refused(&(struct tiny_flux2_options){.bfl = true,
                                         .part = TINY_FLUX2_DIT,
                                         .drop = "single_blocks.1.linear2.weight",
                                         .extra = "guidance_in.in_layer.weight"},
            ERR_INPUT, "lacks 1 tensor of the transformer of flux2-tiny: \"single_blocks.1.linear2.weight\"",
            "transformer.safetensors");
    refused(&(struct tiny_flux2_options){.bfl = true, .part = TINY_FLUX2_DIT, .extra = "guidance_in.in_layer.weight"},
            ERR_INPUT, "FLUX.2-dev's", "transformer.safetensors");
    refused(&(struct tiny_flux2_options){.bfl = true, .part = TINY_FLUX2_VAE, .drop = "decoder.mid.attn_1.q.weight"},
            ERR_INPUT, "\"decoder.mid.attn_1.q.weight\"", "ae.safetensors");
}

// A folder whose transformer is GGUF alone.
TEST(lab_klein_weights_refuse_a_folder_of_gguf)
{
    struct klein_weights w;
    struct error e = {0};
    char from[1300];
    REQUIRE_OK(tiny_flux2_write(in_dir("folder"), &(struct tiny_flux2_options){.seed = 7}, &e), &e);
    snprintf(from, sizeof from, "%s/transformer/diffusion_pytorch_model.safetensors", in_dir("folder"));
    CHECK(rename(from, in_dir("folder/transformer/model-Q4_0.gguf")) == 0);
    CHECK_INT(open_of(&w, in_dir("folder"), &e), ERR_INPUT);
    if (!CHECK(strstr(e.message, "\"model-Q4_0.gguf\" alone: GGUF files of FLUX.2 are not supported yet") != NULL))
        printf("  %s: %s\n", e.where, e.message);
    klein_weights_close(&w);
}

// The text encoder is a folder. A file in its place is said to be one, and of what kind where that is not supported.
TEST(lab_klein_weights_refuse_a_text_encoder_in_one_file)
{
    static const char gguf[] = "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    struct error e = {0};
    char file[1200], encoders[2][1200];
    snprintf(file, sizeof file, "%s", in_dir("files/transformer.safetensors"));
    snprintf(encoders[0], sizeof encoders[0], "%s", in_dir("qwen.gguf"));
    snprintf(encoders[1], sizeof encoders[1], "%s", in_dir("files/text_encoder/model.safetensors"));
    REQUIRE_OK(tiny_flux2_write(in_dir("files"), &(struct tiny_flux2_options){.seed = 7, .bfl = true}, &e), &e);
    REQUIRE_OK(file_write(encoders[0], gguf, sizeof gguf, &e), &e);
    static const char *const want[] = {"GGUF files of FLUX.2 are not supported yet", "the text encoder is a folder"};
    for (int i = 0; i < 2; i++) {
        struct klein_weights w;
        error_clear(&e);
        CHECK_INT(
            klein_weights_open(&w, &(struct klein_weights_options){.weights = file, .text_encoder = encoders[i]}, &e),
            ERR_INPUT);
        if (!CHECK(strstr(e.message, want[i]) != NULL && strcmp(e.where, encoders[i]) == 0))
            printf("  %s: %s\n", e.where, e.message);
        klein_weights_close(&w);
    }
}

TEST(lab_klein_weights_refuse_names_that_cannot_be)
{
    static const struct {
        const char *name, *want;
        int code;
    } rows[] = {{"random:", "expected random:SEED", ERR_USAGE},
                {"random:x", "expected random:SEED", ERR_USAGE},
                {"tiny:1:flux2-klein-9b", "expected random:SEED", ERR_USAGE},
                {"random:1:flux9", "'flux9' is no model", ERR_USAGE},
                {"random:1:flux2-tiny", "is no model", ERR_USAGE},
                {"/nowhere", "cannot be opened", ERR_INPUT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct klein_weights w;
        struct error e = {0};
        CHECK_INT(open_of(&w, rows[i].name, &e), rows[i].code);
        if (!CHECK(strstr(e.message, rows[i].want) != NULL))
            printf("  %s: %s\n", e.where, e.message);
        klein_weights_close(&w);
    }
}

// Codes and scales of weights in bf16, joined ones among them, are made in two ways: widened to f32 and counted on the
// way, or as they are.
static void check_codes(const struct module *m, const struct checkpoint *c, const char *policy)
{
    int checked = 0, joined = 0;
    for (int i = 0; i < m->n_parameters; i++) {
        int scales = bind_scales_of(m, i);
        if (scales < 0)
            continue;
        struct quant_stats stats;
        struct error e = {0};
        size_t bytes[2];
        void *made[2][2];
        for (int k = 0; k < 2; k++) {
            bytes[k] = (size_t)shape_bytes(&m->instructions[m->parameters[k ? scales : i].instruction].shape);
            for (int way = 0; way < 2; way++)
                made[way][k] = calloc(1, bytes[k]);
        }
        for (int way = 0; way < 2; way++)
            REQUIRE_OK(bind_make_coded(m, c, i, made[way][0], made[way][1], way ? &stats : NULL, &e), &e);
        if (!CHECK(memcmp(made[0][0], made[1][0], bytes[0]) == 0 && memcmp(made[0][1], made[1][1], bytes[1]) == 0))
            printf("  %s: %s\n", policy, m->parameters[i].name);
        CHECK(stats.elements >= bytes[0]);
        checked++;
        joined += m->parameters[i].binding.n_sources > 1;
        for (int k = 0; k < 4; k++)
            free(made[k / 2][k % 2]);
    }
    CHECK(checked > 3 && joined > 0);
}

TEST(lab_klein_weights_become_the_same_codes_counted_or_not)
{
    static const char *const policies[] = {"w8a8", "w8a16", "w4a16", "w=int8/tensor"};
    struct klein_weights w;
    struct arena a;
    struct module m, coded;
    struct policy p;
    struct error e = {0};
    const struct checkpoint *c;
    arena_init(&a);
    REQUIRE_OK(open_of(&w, "tiny:7", &e), &e);
    REQUIRE_OK(klein_weights_get(&w, FLUX2_DIT, &c, &e), &e);
    module_init(&m, &a, "block");
    REQUIRE_OK(flux2_block_module(&w.config, false, 16, &m, &e), &e);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        module_init(&coded, &a, policies[i]);
        REQUIRE_OK(policy_parse(&p, policies[i], &e), &e);
        REQUIRE_OK(module_apply_policy(&m, &p, false, &coded, &e), &e);
        check_codes(&coded, c, policies[i]);
    }
    arena_release(&a);
    klein_weights_close(&w);
}
