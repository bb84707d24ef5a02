// SPDX-License-Identifier: Apache-2.0
#include "models/prompt.h"

#include <stdlib.h>

#define BEFORE        "<|im_start|>user\n"
#define BEHIND        "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
#define BEHIND_TOKENS 9 // one for each added token, word and stretch of newlines in it; nothing merges across them

static int find_tokens(const struct bpe *b, int32_t *padding, struct error *err)
{
    static const char *const needed[] = {"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        *padding = bpe_added_id(b, needed[i]);
        if (*padding < 0)
            return error_set(err, ERR_INPUT, NULL,
                             "the tokenizer has no token %s, which the chat template of Qwen3 needs", needed[i]);
    }
    return 0;
}

// The text of the ids [from, to) of the chat.
static int decode_cut(const struct bpe *b, const struct str *chat, size_t from, size_t to, struct str *cut,
                      struct error *err)
{
    int32_t *all = calloc(to, sizeof *all);
    if (!all)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a prompt of %zu tokens", to);
    int rc = bpe_encode(b, str_text(chat), chat->length, all, to, NULL, err);
    rc = rc ? rc : bpe_decode(b, all + from, to - from, false, cut, err);
    free(all);
    return rc;
}

int prompt_encode(const struct bpe *b, const char *prompt, size_t n, size_t seq, int32_t *ids, int32_t *mask,
                  struct prompt_info *info, struct str *cut, struct error *err)
{
    int32_t padding;
    struct bpe_info encoded = {0};
    *info = (struct prompt_info){0};
    if (seq < PROMPT_TEMPLATE_TOKENS)
        return error_set(err, ERR_USAGE, NULL, "a prompt takes %d tokens and more, not %zu", PROMPT_TEMPLATE_TOKENS,
                         seq);
    int rc = find_tokens(b, &padding, err);
    if (rc)
        return rc;
    struct str chat;
    str_init(&chat);
    str_add(&chat, BEFORE);
    str_add_n(&chat, prompt, n);
    str_add(&chat, BEHIND);
    rc = str_check(&chat, err);
    rc = rc ? rc : bpe_encode(b, str_text(&chat), chat.length, ids, seq, &encoded, err);
    for (size_t i = 0; !rc && i < seq; i++) {
        mask[i] = i < encoded.n_ids;
        ids[i] = i < encoded.n_ids ? ids[i] : padding;
    }
    size_t lost = encoded.n_full - encoded.n_ids;
    *info = (struct prompt_info){
        .n_tokens = encoded.n_ids,
        .n_full = encoded.n_full,
        .cut_template = lost < BEHIND_TOKENS ? lost : BEHIND_TOKENS,
        .cut_prompt = lost < BEHIND_TOKENS ? 0 : lost - BEHIND_TOKENS,
        .invalid_utf8 = encoded.invalid_utf8,
    };
    if (!rc && cut && info->cut_prompt)
        rc = decode_cut(b, &chat, seq, encoded.n_full - BEHIND_TOKENS, cut, err);
    str_release(&chat);
    return rc;
}
