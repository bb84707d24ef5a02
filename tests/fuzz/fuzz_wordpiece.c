// SPDX-License-Identifier: Apache-2.0
// Two bytes of settings, a vocabulary up to an empty line, then the text.
#include "models/wordpiece.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void encode(const struct wordpiece *w, const char *text, size_t n, size_t max_ids)
{
    static int32_t ids[512], all[512];
    struct wordpiece_info info, full;
    struct error err = {0};
    must(wordpiece_encode(w, text, n, ids, max_ids, &info, &err) == 0);
    must(wordpiece_encode(w, text, n, all, 512, &full, &err) == 0);
    must(info.n_ids >= 2 && info.n_ids <= max_ids && info.n_full == full.n_full);
    must(info.truncated == (info.n_full > max_ids) && info.n_ids == (info.truncated ? max_ids : info.n_full));
    for (size_t i = 0; i < info.n_ids; i++) {
        size_t length;
        must(wordpiece_piece(w, ids[i], &length) && length > 0);
        if (i + 1 < info.n_ids)
            must(ids[i] == all[i]);
    }
    must(ids[info.n_ids - 1] == w->special_id[WORDPIECE_SEP]);
    must(info.n_unknown <= info.n_words && info.n_words <= n + info.n_unknown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct wordpiece_config config;
    wordpiece_config_default(&config);
    config.clean_text = !(data[0] & 1);
    config.do_lower_case = !(data[0] & 2);
    config.strip_accents = !(data[0] & 4);
    config.tokenize_chinese_chars = !(data[0] & 8);
    if (data[0] & 16)
        config.max_chars_per_word = 1 + data[0] / 32;
    if (data[0] & 32)
        config.special[WORDPIECE_MASK][0] = 0;
    size_t max_ids = 2 + data[1];
    const char *vocab = (const char *)data + 2, *end = memmem(vocab, size - 2, "\n\n", 2);
    size_t n_vocab = end ? (size_t)(end - vocab) + 1 : size - 2;
    struct wordpiece w;
    struct error err = {0};
    if (wordpiece_load(&w, vocab, n_vocab, "fuzz", &config, &err) == 0) {
        // A copy of its own, so that a read past the end is seen.
        size_t n = size - 2 - n_vocab;
        char *text = malloc(n ? n : 1);
        must(text != NULL);
        memcpy(text, vocab + n_vocab, n);
        encode(&w, text, n, max_ids);
        free(text);
        wordpiece_release(&w);
    } else {
        must(err.code != 0 && err.message[0]);
    }
    return 0;
}
