// SPDX-License-Identifier: Apache-2.0
// What the files of image_run share.
#ifndef LAB_IMAGE_PART_H
#define LAB_IMAGE_PART_H

#include "lab/image_run.h"

// The tokens of the prompt and of the empty one behind it, ids and mask [2][c->text_tokens]: by the tokenizer in a
// folder, or where there is none (NULL) a token for each byte, with the template of the real one around them; a
// vocabulary that is too small for the template's tokens gets others. What was cut is appended to `cut`. ERR_INPUT.
int image_prompt_encode(const char *tokenizer, const struct flux2_config *c, const char *prompt, int32_t *ids,
                        int32_t *mask, struct prompt_info *info, struct str *cut, struct error *err);
// Noise of a pipeline's size in k->latent, malloc'd: of bf16's values where the references' latents are bf16.
int image_noise(const struct klein *k, enum noise_kind kind, uint64_t seed, void **out, struct error *err);
// What image i was made from, in the form that image viewers know: the prompt, a line of settings.
void image_parameters(const struct image_run *r, int64_t i, struct str *out);

#endif
