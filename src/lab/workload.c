// SPDX-License-Identifier: Apache-2.0
#include "lab/workload.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sha256.h"
#include "ir/bind.h"

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

static int room_for_texts(struct workload *w, size_t n, struct error *err)
{
    w->texts = arena_new(&w->arena, const char *, n, err);
    w->text_lengths = arena_new(&w->arena, size_t, n, err);
    w->text_lines = arena_new(&w->arena, size_t, n, err);
    w->facts = arena_new(&w->arena, struct text_facts, n, err);
    return w->texts && w->text_lengths && w->text_lines && w->facts ? 0 : ERR_MEMORY;
}

static int split_lines(struct workload *w, const char *text, size_t size, bool keep_blank, struct error *err)
{
    size_t lines = 1, line = 0;
    char *copy = arena_strndup(&w->arena, text, size, err);
    if (!copy)
        return ERR_MEMORY;
    for (size_t i = 0; i < size; i++)
        lines += copy[i] == '\n';
    int rc = room_for_texts(w, lines, err);
    for (char *p = copy, *end = copy + size; p < end && !rc;) {
        char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);
        line++;
        if (is_blank(p, n) && !keep_blank)
            w->n_blank++;
        else {
            w->texts[w->n_texts] = p;
            w->text_lines[w->n_texts] = line;
            w->text_lengths[w->n_texts++] = n && p[n - 1] == '\r' ? n - 1 : n;
        }
        p += n + 1;
    }
    return rc;
}

// Read, not mapped: it may be a pipe, and what was read is what is hashed.
static int read_texts(struct workload *w, const char *path, bool keep_blank, struct error *err)
{
    const size_t limit = (size_t)256 << 20;
    bool standard = strcmp(path, "-") == 0;
    struct str text;
    str_init(&text);
    w->text_path = path;
    int rc = standard ? fd_read_all(&text, STDIN_FILENO, limit, "standard input", err)
                      : file_read_stream(&text, path, limit, err);
    w->text_bytes = text.length;
    if (!rc)
        rc = sha256_bytes(str_text(&text), text.length, w->text_sha256, err);
    if (!rc)
        rc = split_lines(w, str_text(&text), text.length, keep_blank, err);
    str_release(&text);
    if (!rc && w->n_texts == 0)
        rc = error_set(err, ERR_INPUT, standard ? "standard input" : path, "holds no text; put one text on each line");
    return rc;
}

static int copy_texts(struct workload *w, const char *const *texts, size_t n, struct error *err)
{
    int rc = room_for_texts(w, n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        w->text_lengths[i] = strlen(texts[i]);
        w->texts[i] = arena_strndup(&w->arena, texts[i], w->text_lengths[i], err);
        rc = w->texts[i] ? 0 : ERR_MEMORY;
        w->n_texts++;
    }
    return rc;
}

// Tokens of every text without any cut, and from them the sequence length when none was asked for.
static int measure_texts(struct workload *w, struct error *err)
{
    size_t longest = 2;
    int64_t limit = w->bert.config.max_position_embeddings;
    if (w->bert.sentence.max_seq_length > 0 && w->bert.sentence.max_seq_length < limit)
        limit = w->bert.sentence.max_seq_length;
    if (limit < 2)
        return error_set(err, ERR_INPUT, w->directory,
                         "is a model for texts of at most %lld token (max_position_embeddings, max_seq_length); "
                         "every text has 2 or more",
                         (long long)limit);
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
    if (w->batch * w->seq > WORKLOAD_MAX_TOKENS)
        return error_set(err, ERR_USAGE, "--batch", "%lld texts of %lld tokens are more than %d tokens in one run",
                         (long long)w->batch, (long long)w->seq, WORKLOAD_MAX_TOKENS);
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
    if (rc || (!o->text_path && !o->n_texts))
        return rc;
    rc = o->text_path ? read_texts(w, o->text_path, o->keep_blank, err) : copy_texts(w, o->texts, o->n_texts, err);
    if (!o->batch && (size_t)w->batch > w->n_texts)
        w->batch = (int64_t)w->n_texts;
    if (!rc)
        rc = measure_texts(w, err);
    return rc ? rc : encode_all(w, err);
}

// ---- programs

static int refuse_text_options(const struct workload_options *o, struct error *err)
{
    const char *option = o->text_path || o->n_texts ? "--text" : o->batch ? "--batch" : o->seq ? "--seq" : NULL;
    if (!option)
        return 0;
    return error_set(err, ERR_USAGE, option, "goes with a model directory; %s has shapes of its own and --inputs",
                     o->directory);
}

static int open_program(struct workload *w, const struct workload_options *o, struct error *err)
{
    struct exported_options options = {.path = o->directory,
                                       .weights = o->weights,
                                       .inputs = o->inputs,
                                       .weight_args = o->weight_args,
                                       .seed = o->seed};
    int rc = refuse_text_options(o, err);
    w->program = arena_new(&w->arena, struct exported, 1, err);
    if (rc || !w->program)
        return rc ? rc : ERR_MEMORY;
    rc = exported_open(w->program, &options, &w->checkpoint, &w->open_checkpoint, &w->arena, err);
    w->n_texts = w->n_batches = w->program->n_cases;
    w->batch = 1;
    return rc;
}

int workload_module(const struct workload *w, struct module *m, struct error *err)
{
    struct bert_build how = {.batch = w->batch, .seq = w->seq, .first_layer = -1};
    if (w->program) {
        *m = w->program->module;
        return 0;
    }
    int rc = bert_module(&w->bert, &how, m, err);
    return rc ? rc : bind_check(m, &w->checkpoint, err);
}

size_t workload_values(const struct workload *w)
{
    return w->n_texts * (w->program ? w->program->values : (size_t)w->bert.config.hidden_size);
}

static int open_model(struct workload *w, const struct workload_options *o, struct error *err)
{
    const char *option = o->weights ? "--weights" : o->inputs ? "--inputs" : o->weight_args ? "--weight-args" : NULL;
    if (option)
        return error_set(err, ERR_USAGE, option, "goes with a program (.hlo.pb, .hlo.txt); %s is none", o->directory);
    if (!dir_exists(w->directory))
        return error_set(err, ERR_INPUT, *w->directory ? w->directory : "WORKLOAD",
                         "is not a directory; a model directory holds config.json, model.safetensors and vocab.txt");
    return open_parts(w, o, err);
}

int workload_open(struct workload *w, const struct workload_options *o, struct error *err)
{
    memset(w, 0, sizeof *w);
    arena_init(&w->arena);
    w->batch = o->batch ? o->batch : 32;
    w->seq = o->seq;
    if (w->batch < 1 || w->batch > 65536)
        return error_set(err, ERR_USAGE, "--batch", "must be from 1 to 65536, not %lld", (long long)w->batch);
    if (o->text_path && o->n_texts)
        return error_set(err, ERR_USAGE, "--text", "gives a file, but texts are given as well; use one of the two");
    size_t n = strlen(o->directory);
    while (n > 1 && o->directory[n - 1] == '/')
        n--;
    w->directory = arena_strndup(&w->arena, o->directory, n, err);
    if (!w->directory)
        return ERR_MEMORY;
    const char *slash = strrchr(w->directory, '/');
    w->name = slash && slash[1] ? slash + 1 : w->directory;
    int rc = program_is(w->directory) ? open_program(w, o, err) : open_model(w, o, err);
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
    arena_release(&w->arena);
    w->open_tokenizer = w->open_checkpoint = false;
}
