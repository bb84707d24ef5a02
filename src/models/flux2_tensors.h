// SPDX-License-Identifier: Apache-2.0
// The tensors of FLUX.2 klein by name: what a checkpoint of each component holds, as diffusers and transformers call
// it, and where it lies in the files of Black Forest Labs ("BFL"), which name and group tensors in another way.
#ifndef MODELS_FLUX2_TENSORS_H
#define MODELS_FLUX2_TENSORS_H

#include "models/flux2.h"

enum flux2_component { FLUX2_TEXT_ENCODER, FLUX2_DIT, FLUX2_AUTOENCODER, FLUX2_COMPONENTS };
// "text encoder", "transformer", "autoencoder".
const char *flux2_component_name(enum flux2_component c);

struct flux2_tensor {
    const char *name; // valid during the call
    int rank;
    int64_t dims[4];
    bool used;          // by a request for an image: not the text encoder's last layers, say
    bool encodes;       // used only where there are reference images
    const char *bfl;    // NULL: BFL publishes no such component (the text encoder)
    int64_t bfl_rows;   // of the tensor called `bfl`, which may hold several of ours
    int64_t bfl_row;    // the first that is ours
    int bfl_extra_rank; // dimensions of 1 behind ours
    bool bfl_halves;    // its two halves are in the other order
};

// Calls fn for every tensor of the component. Stops at the first that does not return 0, and returns that.
typedef int flux2_tensor_fn(void *context, const struct flux2_tensor *t, struct error *err);
int flux2_tensors(const struct flux2_config *c, enum flux2_component component, flux2_tensor_fn *fn, void *context,
                  struct error *err);

// The model whose transformer has these extents: a BFL file says nothing but shapes. `hidden` is the extent of
// "img_in.weight". NULL when none is known.
const struct flux2_config *flux2_of_size(int64_t hidden, int64_t double_blocks, int64_t single_blocks, bool guided);

#endif
