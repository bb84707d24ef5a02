// SPDX-License-Identifier: Apache-2.0
// A prompt as FLUX.2 klein's text encoder takes it: Qwen3's chat template around the user's turn, thinking off, cut and
// padded to a fixed number of tokens.
#ifndef MODELS_PROMPT_H
#define MODELS_PROMPT_H

#include "models/bpe.h"

#define PROMPT_TEMPLATE_TOKENS 12 // of the template around the prompt

struct prompt_info {
    size_t n_tokens;     // real ones, template included: the ones of the mask
    size_t n_full;       // what they would have been without the limit
    size_t cut_template; // tokens of the template that were cut: the answer's beginning, behind the prompt, goes first
    size_t cut_prompt;   // tokens of the prompt itself that were cut
    size_t invalid_utf8; // as in bpe_info
};

// ids[seq] and mask[seq]: the text of the chat, of which the first `seq` tokens are kept, padded with <|endoftext|>.
// The mask is 1 on tokens and 0 on padding. Text of added tokens inside the prompt counts as these tokens. What was cut
// of the prompt is appended to `cut` (which may be NULL), so that it can be shown. ERR_INPUT when the tokenizer lacks
// one of the template's tokens; ERR_MEMORY.
int prompt_encode(const struct bpe *b, const char *prompt, size_t n, size_t seq, int32_t *ids, int32_t *mask,
                  struct prompt_info *info, struct str *cut, struct error *err);

#endif
