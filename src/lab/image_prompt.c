// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "lab/image_part.h"

// <|im_start|> user \n ... <|im_end|> \n <|im_start|> assistant \n <think> \n\n </think> \n\n, then <|endoftext|>.
enum { HEAD = 3, TAIL = 9, SMALL_FIRST = 256 };
static const int32_t head[HEAD] = {151644, 872, 198};
static const int32_t tail[TAIL] = {151645, 198, 151644, 77091, 198, 151667, 271, 151668, 271};
static const int32_t padding = 151643;

// The template's tokens in a vocabulary that ends before them: numbered from 256, as they come.
static int32_t token_of(int32_t id, int64_t vocabulary)
{
    static const int32_t order[] = {151643, 151644, 872, 198, 151645, 77091, 151667, 271, 151668};
    if (id < vocabulary && vocabulary > 151668)
        return id;
    for (int32_t i = 0; i < (int32_t)(sizeof order / sizeof *order); i++) {
        if (order[i] == id)
            return SMALL_FIRST + i;
    }
    return 0;
}

// One token for each byte, cut like a real prompt: from the right, the template's end first.
static void bytes_as_tokens(const struct flux2_config *c, const char *prompt, int32_t *ids, int32_t *mask,
                            struct prompt_info *info, struct str *cut)
{
    size_t n = strlen(prompt), seq = (size_t)c->text_tokens, at = 0;
    memset(info, 0, sizeof *info);
    info->n_full = n + HEAD + TAIL;
    info->n_tokens = info->n_full < seq ? info->n_full : seq;
    size_t kept = info->n_tokens < HEAD ? 0 : info->n_tokens - HEAD;
    info->cut_prompt = kept < n ? n - kept : 0;
    info->cut_template = info->n_full - info->n_tokens - info->cut_prompt;
    for (size_t i = 0; i < seq; i++) {
        int32_t id = padding;
        if (i < HEAD)
            id = head[i];
        else if (i - HEAD >= n && i - HEAD - n < TAIL)
            id = tail[i - HEAD - n];
        bool byte = i >= HEAD && i - HEAD < n;
        ids[i] = byte ? (unsigned char)prompt[at++] : token_of(id, c->text.vocab);
        mask[i] = i < info->n_tokens;
    }
    if (cut && info->cut_prompt)
        str_add(cut, prompt + kept);
}

int image_prompt_encode(const char *tokenizer, const struct flux2_config *c, const char *prompt, int32_t *ids,
                        int32_t *mask, struct prompt_info *info, struct str *cut, struct error *err)
{
    size_t seq = (size_t)c->text_tokens;
    struct prompt_info empty;
    if (!tokenizer) {
        bytes_as_tokens(c, prompt, ids, mask, info, cut);
        bytes_as_tokens(c, "", ids + seq, mask + seq, &empty, NULL);
        return 0;
    }
    if (!bpe_is_there(tokenizer))
        return error_set(err, ERR_INPUT, tokenizer,
                         "there is no tokenizer here, neither tokenizer.json nor vocab.json with merges.txt; "
                         "--tokenizer DIR names its folder");
    struct bpe bpe;
    int rc = bpe_open(&bpe, tokenizer, err);
    if (rc)
        return rc;
    rc = prompt_encode(&bpe, prompt, strlen(prompt), seq, ids, mask, info, cut, err);
    if (!rc)
        rc = prompt_encode(&bpe, "", 0, seq, ids + seq, mask + seq, &empty, NULL, err);
    for (size_t i = 0; i < 2 * seq && !rc; i++) {
        if (ids[i] < 0 || ids[i] >= c->text.vocab)
            rc = error_set(err, ERR_INPUT, tokenizer,
                           "gives token %d, and the text encoder knows %lld: they are not of "
                           "the same model",
                           (int)ids[i], (long long)c->text.vocab);
    }
    bpe_release(&bpe);
    return rc;
}
