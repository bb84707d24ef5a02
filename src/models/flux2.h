// SPDX-License-Identifier: Apache-2.0
// FLUX.2 klein: a Qwen3 text encoder, a diffusion transformer of double and single blocks, and an image autoencoder.
// Tensor names are those of diffusers. Images are [batch, height, width, 3] in [-1, 1]; a token is 16 by 16 pixels (the
// autoencoder's 8, folded 2 by 2), tokens go row by row.
#ifndef MODELS_FLUX2_H
#define MODELS_FLUX2_H

#include "models/decoder.h"

enum { FLUX2_AXES = 4, FLUX2_LEVELS = 4, FLUX2_MIN_SIDE = 16, FLUX2_MAX_SIDE = 4096 }; // sides in pixels

struct flux2_dit_config {
    int64_t double_blocks, single_blocks, heads, head_dim, joint, channels; // channels of a token, in and out
    int64_t time_channels, mlp;                                             // mlp: width, 3 times the hidden size
    int64_t axes[FLUX2_AXES];                                               // features that each position rotates
    double rope_theta, eps;
};

struct flux2_vae_config {
    int64_t channels[FLUX2_LEVELS], layers, latent, groups; // channels of the levels, from the image inwards
    double eps, batch_norm_eps;
};

struct flux2_config {
    const char *name;
    struct decoder_config text;
    struct flux2_dit_config dit;
    struct flux2_vae_config vae;
    int taps[3];                // layers of the text encoder, from 1
    int64_t text_tokens, steps; // of a request
    bool guided;                // base models: every step is run with and without the prompt
    bool kept_references;       // 9b-kv: references see only each other, at time 0, so their keys and values are made
                                // once and kept for all steps
};

// "flux2-klein-4b", "flux2-klein-9b", "flux2-klein-base-4b", "flux2-klein-base-9b", "flux2-tiny" (random weights for
// tests). NULL when there is none; flux2_name(i) is NULL past the last.
const struct flux2_config *flux2_builtin(const char *name);
const char *flux2_name(int i);
// From a diffusers folder: transformer/, text_encoder/ and vae/config.json, and model_index.json (is_distilled).
// Strings borrow from the directory's name. ERR_INPUT names the file and the key.
int flux2_open(struct flux2_config *c, const char *directory, struct error *err);
// One of its files by itself, into the part of the configuration that it is of. ERR_INPUT as above.
enum flux2_file { FLUX2_TRANSFORMER, FLUX2_VAE, FLUX2_INDEX };
int flux2_parse(struct flux2_config *c, enum flux2_file which, const char *text, size_t n, const char *path,
                struct error *err);
// ERR_INPUT when one part does not make what the next takes; says which model each of two parts is of.
int flux2_check_fit(const struct flux2_config *c, const char *where, struct error *err);
bool flux2_is_folder(const char *directory); // has transformer/config.json and vae/config.json

struct flux2_build {
    int64_t batch;
    int64_t rows, columns; // tokens of the image
    int64_t reference;     // tokens of reference images behind them
    bool kept;             // with hoisted_steps: of these, keys and values come from flux2_reference_module
    enum taps also;        // values inside that are returned, too
    // A pipeline's step: what is the same for all steps, or known before them, comes from flux2_prepare_module.
    int64_t hoisted_steps; // 0: the step does it all
    enum dtype handed;     // type in which one module's results enter the next; DT_INVALID: f32
    enum dtype latent;     // type of latents as inputs; DT_INVALID: f32
};
// ERR_USAGE unless height and width are multiples of 16 from 16 to 4096.
int flux2_tokens(int64_t height, int64_t width, int64_t *rows, int64_t *columns, struct error *err);

// Text encoder: "context" [batch, text_tokens, joint] from the inputs of decoder_module.
int flux2_text_module(const struct flux2_config *c, int64_t batch, enum taps also, struct module *m, struct error *err);
// With taps: "double.text.0", "double.image.0", ..., "single.0", ...; with TAPS_ALL also "time", "modulation.text",
// "modulation.image", "modulation.single", "modulation.out", "text.in", "image.in", and of the first blocks the rotated
// "double.0.query" and "double.0.key" of the whole sequence, "double.0.text.attention" and "double.0.image.attention"
// (the stream behind the attention), "single.0.query", "single.0.key", "single.0.attention" and "single.0.mlp" (the two
// halves of what linear2 takes).
// One step: "velocity" [batch, tokens, channels] from "latent" [batch, tokens + reference, channels], "context"
// [batch, text_tokens, joint], "timestep" f32 [batch] (sigma times 1000), "rope_cos" and "rope_sin" f32
// [text_tokens + tokens + reference, head_dim / 2].
// With hoisted_steps, "context" and "timestep" are replaced by the results of flux2_prepare_module and "step" s32, and
// the tokens of references come apart as "reference" [1, reference, channels]; all images share them.
int flux2_dit_module(const struct flux2_config *c, const struct flux2_build *how, struct module *m, struct error *err);
// With `kept` they come as "keys" and "values" instead, and "rope_cos" and "rope_sin" end with the image.
// What steps need and do not change, from "context" [1, text_tokens, joint], of one prompt for all images, and
// "timesteps" f32 [hoisted_steps]: "text" [1, text_tokens, hidden], and a row per step of "modulation.text",
// "modulation.image", "modulation.single", "modulation.out"; and "nonfinite" s32, of the context's values.
int flux2_prepare_module(const struct flux2_config *c, const struct flux2_build *how, struct module *m,
                         struct error *err);
// Reference images as every step sees them, where they see only themselves: "keys" (rotated) and "values" [blocks,
// reference, heads, head_dim], double blocks first, from "reference" [1, reference, channels], the modulations of
// flux2_prepare_module, "step" (the row of time 0 in them), and "rope_cos" and "rope_sin" of the references' tokens.
// Its weights are a part of those of flux2_dit_module, under the same names.
int flux2_reference_module(const struct flux2_config *c, const struct flux2_build *how, struct module *m,
                           struct error *err);
// One block of it by itself, the first double or single one, for timing: "tokens", or "text" and "image", from inputs
// of the same names ("text" and "image" for both kinds), "modulation" f32 [1, 3 or 6 times hidden] ("text_modulation"
// for the text of a double one), "rope_cos" and "rope_sin".
int flux2_block_module(const struct flux2_config *c, bool single, int64_t image_tokens, struct module *m,
                       struct error *err);
// "image" from "latent" [batch, tokens, channels]. Taps: "unfolded", "mid", "up.0", ...
int flux2_decoder_module(const struct flux2_config *c, const struct flux2_build *how, struct module *m,
                         struct error *err);
// "latent" [batch, tokens, channels] from "image": the mean, normalised. Taps: "down.0", ..., "moments".
int flux2_encoder_module(const struct flux2_config *c, const struct flux2_build *how, struct module *m,
                         struct error *err);

// The tables of flux2_dit_module: text tokens first, then the image, then one reference of the given rows and columns
// for each of n_references.
void flux2_rope(const struct flux2_config *c, int64_t rows, int64_t columns, int n_references,
                const int64_t (*references)[2], float *cosine, float *sine);

#endif
