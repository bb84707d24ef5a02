// SPDX-License-Identifier: Apache-2.0
// The side of bench/tokenizer that is ours: tokenizer VOCAB TEXTS SEQ. After each line on stdin it encodes all lines of
// TEXTS into a batch of SEQ tokens each, and prints the nanoseconds and the number of tokens. VOCAB is a vocab.txt for
// WordPiece, or a tokenizer.json for byte-level BPE, which the line "open" has it read once more instead.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "models/bpe.h"
#include "models/wordpiece.h"

enum { MAX_TEXTS = 1 << 20 };

static int fail(const struct error *err)
{
    fprintf(stderr, "tokenizer: %s: %s\n", err->where, err->message);
    return 1;
}

struct work {
    const char *vocab;
    bool is_bpe;
    struct wordpiece wordpiece;
    struct bpe bpe;
    const char **texts;
    size_t *lengths;
    size_t batch, seq;
    int32_t *ids, *mask;
    struct wordpiece_info *infos;
};

static int open_vocabulary(struct work *w, struct error *err)
{
    struct wordpiece_config config;
    if (w->is_bpe)
        return bpe_open(&w->bpe, w->vocab, err);
    wordpiece_config_default(&config);
    return wordpiece_open(&w->wordpiece, w->vocab, &config, err);
}

// The number of tokens.
static int encode(struct work *w, size_t *tokens, struct error *err)
{
    *tokens = 0;
    if (!w->is_bpe) {
        int rc = wordpiece_encode_batch(&w->wordpiece, w->texts, w->lengths, w->batch, w->seq, w->ids, w->mask, NULL,
                                        w->infos, err);
        for (size_t i = 0; i < w->batch; i++)
            *tokens += w->infos[i].n_ids;
        return rc;
    }
    for (size_t i = 0; i < w->batch; i++) {
        struct bpe_info info;
        int rc = bpe_encode(&w->bpe, w->texts[i], w->lengths[i], w->ids + i * w->seq, w->seq, &info, err);
        if (rc)
            return rc;
        *tokens += info.n_ids;
    }
    return 0;
}

static int read_texts(struct work *w, const struct file_map *map)
{
    w->texts = calloc(MAX_TEXTS, sizeof *w->texts);
    w->lengths = calloc(MAX_TEXTS, sizeof *w->lengths);
    for (size_t at = 0; w->texts && w->lengths && at < map->size && w->batch < MAX_TEXTS; w->batch++) {
        const char *line = (const char *)map->data + at, *end = memchr(line, '\n', map->size - at);
        w->texts[w->batch] = line;
        w->lengths[w->batch] = end ? (size_t)(end - line) : map->size - at;
        at += w->lengths[w->batch] + 1;
    }
    w->infos = calloc(w->batch, sizeof *w->infos);
    w->ids = calloc(w->batch * w->seq, sizeof *w->ids);
    w->mask = calloc(w->batch * w->seq, sizeof *w->mask);
    return w->infos && w->ids && w->mask ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    struct error err = {0};
    struct file_map map;
    struct work w = {.vocab = argv[1], .is_bpe = str_ends_with(argv[1], ".json"), .seq = strtoul(argv[3], NULL, 10)};
    if (open_vocabulary(&w, &err) || file_map_open(&map, argv[2], &err))
        return fail(&err);
    if (read_texts(&w, &map))
        return 1;
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        size_t tokens = 0;
        bool reopen = strcmp(line, "open\n") == 0 && w.is_bpe;
        if (reopen)
            bpe_release(&w.bpe);
        uint64_t begin = clock_ns();
        if (reopen ? open_vocabulary(&w, &err) : encode(&w, &tokens, &err))
            return fail(&err);
        uint64_t end = clock_ns();
        printf("%llu %zu\n", (unsigned long long)(end - begin), tokens);
        fflush(stdout);
    }
    if (w.is_bpe)
        bpe_release(&w.bpe);
    else
        wordpiece_release(&w.wordpiece);
    file_map_close(&map);
    free(w.texts), free(w.lengths), free(w.infos), free(w.ids), free(w.mask);
    return 0;
}
