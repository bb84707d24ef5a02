// SPDX-License-Identifier: Apache-2.0
// Checks of what the files of a FLUX.2 klein pipeline hold, and their other names.
#ifndef LAB_KLEIN_NAMES_H
#define LAB_KLEIN_NAMES_H

#include "io/checkpoint.h"
#include "models/flux2_tensors.h"

// ERR_INPUT for what is not supported: GGUF, fp8 and other codes with scales.
int klein_check_format(const struct checkpoint *c, const char *path, struct error *err);
// The same of a component's folder that holds GGUF and no safetensors.
int klein_check_folder(const char *folder, struct error *err);
// Every tensor that the configuration asks for is there with its shape, and no other. With `bfl` under the names of
// Black Forest Labs. ERR_INPUT names the first few.
int klein_check_names(const struct checkpoint *c, const struct flux2_config *config, enum flux2_component component,
                      bool bfl, const char *path, struct error *err);
// Gives the tensors of a file of Black Forest Labs diffusers' names; they stay where they are, but for the one whose
// halves are in another order. After klein_check_names.
int klein_rename(struct checkpoint *c, const struct flux2_config *config, enum flux2_component component,
                 struct error *err);
// The model that a transformer in one file is of, by its shapes and, for what these do not say (distilled or base), its
// name. ERR_INPUT when it is none.
int klein_config_of_file(struct flux2_config *config, const struct checkpoint *c, const char *path, struct error *err);

#endif
