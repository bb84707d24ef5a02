// SPDX-License-Identifier: Apache-2.0
// Where the weights of a FLUX.2 klein pipeline come from: a folder in diffusers' layout, the single files of Black
// Forest Labs, or a random stream.
#ifndef LAB_KLEIN_WEIGHTS_H
#define LAB_KLEIN_WEIGHTS_H

#include "io/checkpoint.h"
#include "models/flux2_tensors.h"

enum klein_source {
    KLEIN_FOLDER, // diffusers: model_index.json, transformer/, text_encoder/, vae/, tokenizer/
    KLEIN_FILES,  // a transformer in one file, an autoencoder in another, a folder of the text encoder
    KLEIN_RANDOM, // the full size
    KLEIN_TINY,   // the small configuration of the tests
};

struct klein_weights_options {
    // A folder, a .safetensors file of the transformer, "random:SEED", "random:SEED:MODEL" or "tiny:SEED".
    const char *weights;
    const char *autoencoder;  // for a file; NULL: ae.safetensors, flux2-vae.safetensors or vae/ beside it
    const char *text_encoder; // for a file: a folder; NULL: text_encoder/ beside it
    const char *tokenizer;    // folder or tokenizer.json; NULL: that of the weights
};

struct klein_weights {
    struct arena arena;
    enum klein_source source;
    uint64_t seed; // of random weights
    struct flux2_config config;
    const char *name;                    // "flux2-klein-4b", or the folder's or the file's last part
    const char *paths[FLUX2_COMPONENTS]; // NULL for random weights
    const char *tokenizer;               // folder or file; NULL for random weights that were given none
    struct checkpoint checkpoints[FLUX2_COMPONENTS];
    bool open[FLUX2_COMPONENTS];
};

// Reads configurations and headers, and checks names and shapes of all tensors; nothing large is read or made.
// ERR_INPUT names tensors that are missing or too many, says which part is of which model when two do not fit
// together, and what is not supported (fp8, GGUF). ERR_USAGE for a name that cannot be.
// klein_weights_close may be called in any case.
int klein_weights_open(struct klein_weights *w, const struct klein_weights_options *o, struct error *err);
void klein_weights_close(struct klein_weights *w);
bool klein_weights_are_random(const struct klein_weights *w);

// The tensors of a component under diffusers' names. Random ones are made now, unless they are there.
int klein_weights_get(struct klein_weights *w, enum flux2_component c, const struct checkpoint **out,
                      struct error *err);
// Gives the memory of random weights back: the next call makes them again. Files stay mapped.
void klein_weights_drop(struct klein_weights *w, enum flux2_component c);
// Asks the kernel to forget what it holds of the component's files, so that they are read from the disk again.
void klein_weights_chill(struct klein_weights *w, enum flux2_component c);
// The bytes of a component's tensors as they are stored, of those that a request uses.
int klein_weights_bytes(const struct klein_weights *w, enum flux2_component c, size_t *bytes, struct error *err);

#endif
