// SPDX-License-Identifier: Apache-2.0
#include "lab/workload.h"

#include <stdio.h>
#include <string.h>

static int join(const struct workload *w, const char *file, char *out, size_t n, struct error *err)
{
    if (snprintf(out, n, "%s/%s", w->directory, file) >= (int)n)
        return error_set(err, ERR_INPUT, w->directory, "the path is too long");
    return 0;
}

static int open_tokenizer(struct workload *w, struct error *err)
{
    char path[1100];
    struct wordpiece_config config;
    wordpiece_config_default(&config);
    int rc = join(w, "tokenizer_config.json", path, sizeof path, err);
    if (!rc && file_exists(path))
        rc = wordpiece_config_read(&config, path, err);
    if (!rc)
        rc = join(w, "vocab.txt", path, sizeof path, err);
    if (!rc)
        rc = wordpiece_open(&w->tokenizer, path, &config, err);
    if (rc)
        return rc;
    w->open_tokenizer = true;
    if ((int64_t)w->tokenizer.n_vocab > w->bert.config.vocab_size)
        return error_set(err, ERR_INPUT, path, "has %zu pieces, but the configuration says vocab_size %lld",
                         w->tokenizer.n_vocab, (long long)w->bert.config.vocab_size);
    return 0;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    }
    return true;
}

// Lines of the mapped file; copied, since a map may be cut short under us.
static int split_lines(struct workload *w, const char *path, struct error *err)
{
    int rc = file_map_open(&w->text_file, path, err);
    if (rc)
        return rc;
    size_t size = w->text_file.size, lines = 1;
    if (size > (size_t)256 << 20)
        return error_set(err, ERR_INPUT, path, "is larger than 256 MiB; give a sample of the texts");
    char *copy = arena_alloc(&w->arena, size + 1, 1, err);
    if (!copy)
        return ERR_MEMORY;
    struct file_guard guard;
    if (FILE_GUARD(&guard, &w->text_file))
        return file_guard_error(&guard, err);
    if (size)
        memcpy(copy, w->text_file.data, size);
    file_guard_end(&guard);
    for (size_t i = 0; i < size; i++)
        lines += copy[i] == '\n';
    w->texts = arena_new(&w->arena, const char *, lines, err);
    w->text_lengths = arena_new(&w->arena, size_t, lines, err);
    w->facts = arena_new(&w->arena, struct text_facts, lines, err);
    if (!w->texts || !w->text_lengths || !w->facts)
        return ERR_MEMORY;
    for (char *p = copy, *end = copy + size; p < end;) {
        char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);
        if (is_blank(p, n))
            w->n_blank++;
        else {
            w->texts[w->n_texts] = p;
            w->text_lengths[w->n_texts++] = n && p[n - 1] == '\r' ? n - 1 : n;
        }
        p += n + 1;
    }
    if (w->n_texts == 0)
        return error_set(err, ERR_INPUT, path, "holds no text; put one text on each line");
    return 0;
}

// Tokens of every text without any cut, and from them the sequence length when none was asked for.
static int measure_texts(struct workload *w, struct error *err)
{
    size_t longest = 2;
    int64_t limit = w->bert.config.max_position_embeddings;
    if (w->bert.sentence.max_seq_length > 0 && w->bert.sentence.max_seq_length < limit)
        limit = w->bert.sentence.max_seq_length;
    int32_t *scratch = arena_new(&w->arena, int32_t, limit, err);
    if (!scratch)
        return ERR_MEMORY;
    for (size_t i = 0; i < w->n_texts; i++) {
        struct wordpiece_info info;
        int rc = wordpiece_encode(&w->tokenizer, w->texts[i], w->text_lengths[i], scratch, (size_t)limit, &info, err);
        if (rc)
            return rc;
        w->facts[i] = (struct text_facts){.tokens = info.n_full, .most_pieces = info.most_pieces};
        if (info.n_ids > longest)
            longest = info.n_ids;
    }
    if (w->seq == 0)
        w->seq = (int64_t)longest;
    if (w->seq < 2 || w->seq > w->bert.config.max_position_embeddings)
        return error_set(err, ERR_USAGE, "--seq", "must be from 2 to the model's %lld positions, not %lld",
                         (long long)w->bert.config.max_position_embeddings, (long long)w->seq);
    for (size_t i = 0; i < w->n_texts; i++) {
        w->facts[i].truncated = w->facts[i].tokens > (size_t)w->seq;
        w->n_truncated += w->facts[i].truncated;
        w->n_tokens += w->facts[i].truncated ? (size_t)w->seq : w->facts[i].tokens;
    }
    return 0;
}

int workload_encode(const struct workload *w, size_t index, int32_t *ids, int32_t *mask, struct error *err)
{
    size_t seq = (size_t)w->seq, batch = (size_t)w->batch, first = index * batch;
    for (size_t r = 0; r < batch; r++) {
        size_t t = first + r < w->n_texts ? first + r : 0;
        struct wordpiece_info info;
        int32_t *row = ids + r * seq;
        int rc = wordpiece_encode(&w->tokenizer, w->texts[t], w->text_lengths[t], row, seq, &info, err);
        if (rc)
            return rc;
        for (size_t k = 0; k < seq; k++) {
            mask[r * seq + k] = k < info.n_ids;
            if (k >= info.n_ids)
                row[k] = w->tokenizer.special_id[WORDPIECE_PAD];
        }
    }
    return 0;
}

static int encode_all(struct workload *w, struct error *err)
{
    size_t per_batch = (size_t)(w->batch * w->seq);
    w->n_batches = (w->n_texts + (size_t)w->batch - 1) / (size_t)w->batch;
    w->ids = arena_alloc(&w->arena, w->n_batches, per_batch * sizeof *w->ids, err);
    w->mask = arena_alloc(&w->arena, w->n_batches, per_batch * sizeof *w->mask, err);
    if (!w->ids || !w->mask)
        return ERR_MEMORY;
    for (size_t i = 0; i < w->n_batches; i++) {
        int rc = workload_encode(w, i, w->ids + i * per_batch, w->mask + i * per_batch, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int open_parts(struct workload *w, const struct workload_options *o, struct error *err)
{
    int rc = bert_open(&w->bert, w->directory, err);
    if (rc)
        return rc;
    rc = checkpoint_open(&w->checkpoint, w->directory, err);
    if (rc)
        return rc;
    w->open_checkpoint = true;
    rc = bert_bind(&w->bert, &w->checkpoint, err);
    if (!rc)
        rc = open_tokenizer(w, err);
    if (rc || !o->text_path)
        return rc;
    rc = split_lines(w, o->text_path, err);
    if (!rc)
        rc = measure_texts(w, err);
    return rc ? rc : encode_all(w, err);
}

int workload_open(struct workload *w, const struct workload_options *o, struct error *err)
{
    memset(w, 0, sizeof *w);
    w->text_file.fd = -1;
    arena_init(&w->arena);
    w->batch = o->batch ? o->batch : 32;
    w->seq = o->seq;
    if (w->batch < 1 || w->batch > 65536)
        return error_set(err, ERR_USAGE, "--batch", "must be from 1 to 65536, not %lld", (long long)w->batch);
    size_t n = strlen(o->directory);
    while (n > 1 && o->directory[n - 1] == '/')
        n--;
    w->directory = arena_strndup(&w->arena, o->directory, n, err);
    if (!w->directory)
        return ERR_MEMORY;
    const char *slash = strrchr(w->directory, '/');
    w->name = slash && slash[1] ? slash + 1 : w->directory;
    int rc = dir_exists(w->directory) ? 0
                                      : error_set(err, ERR_INPUT, w->directory,
                                                  "is not a directory; a model directory holds config.json, "
                                                  "model.safetensors and vocab.txt");
    if (!rc)
        rc = open_parts(w, o, err);
    if (rc)
        workload_close(w);
    return rc;
}

void workload_close(struct workload *w)
{
    if (w->open_tokenizer)
        wordpiece_release(&w->tokenizer);
    if (w->open_checkpoint)
        checkpoint_close(&w->checkpoint);
    file_map_close(&w->text_file);
    arena_release(&w->arena);
    w->open_tokenizer = w->open_checkpoint = false;
}
