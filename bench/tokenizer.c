// SPDX-License-Identifier: Apache-2.0
// The side of bench/tokenizer that is ours: tokenizer VOCAB TEXTS SEQ. After each line on stdin it encodes all lines of
// TEXTS into a batch of SEQ tokens each, and prints the nanoseconds and the number of tokens.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "models/wordpiece.h"

enum { MAX_TEXTS = 1 << 20 };

static int fail(const struct error *err)
{
    fprintf(stderr, "tokenizer: %s: %s\n", err->where, err->message);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    struct error err = {0};
    struct wordpiece_config config;
    struct wordpiece w;
    struct file_map map;
    wordpiece_config_default(&config);
    size_t seq = strtoul(argv[3], NULL, 10), batch = 0;
    if (wordpiece_open(&w, argv[1], &config, &err) || file_map_open(&map, argv[2], &err))
        return fail(&err);
    const char **texts = calloc(MAX_TEXTS, sizeof *texts);
    size_t *lengths = calloc(MAX_TEXTS, sizeof *lengths);
    for (size_t at = 0; texts && lengths && at < map.size && batch < MAX_TEXTS; batch++) {
        const char *line = (const char *)map.data + at, *end = memchr(line, '\n', map.size - at);
        texts[batch] = line;
        lengths[batch] = end ? (size_t)(end - line) : map.size - at;
        at += lengths[batch] + 1;
    }
    struct wordpiece_info *infos = calloc(batch, sizeof *infos);
    int32_t *ids = calloc(batch * seq, sizeof *ids), *mask = calloc(batch * seq, sizeof *mask);
    if (!infos || !ids || !mask)
        return 1;
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        uint64_t begin = clock_ns();
        if (wordpiece_encode_batch(&w, texts, lengths, batch, seq, ids, mask, NULL, infos, &err))
            return fail(&err);
        uint64_t end = clock_ns();
        size_t tokens = 0;
        for (size_t i = 0; i < batch; i++)
            tokens += infos[i].n_ids;
        printf("%llu %zu\n", (unsigned long long)(end - begin), tokens);
        fflush(stdout);
    }
    wordpiece_release(&w);
    file_map_close(&map);
    free(texts), free(lengths), free(infos), free(ids), free(mask);
    return 0;
}
