// SPDX-License-Identifier: Apache-2.0
// What qualify, bench and embed run: an embedding model with the texts it is given, or a program that somebody exported
// with its weights and inputs.
#ifndef LAB_WORKLOAD_H
#define LAB_WORKLOAD_H

#include "io/checkpoint.h"
#include "lab/exported.h"
#include "models/bert.h"
#include "models/wordpiece.h"

enum { WORKLOAD_MAX_TOKENS = 1 << 24 }; // in one run, padding included

struct text_facts {
    size_t tokens;      // with [CLS] and [SEP], before any cut
    size_t most_pieces; // of one word
    bool truncated;
};

struct workload {
    struct arena arena;
    const char *directory, *name; // as given, and its last part; of a program its file
    // A program: its cases are what texts are to a model, each a batch of its own, and what only texts have is empty.
    struct exported *program; // NULL: an embedding model
    struct bert bert;
    struct checkpoint checkpoint;
    struct wordpiece tokenizer;
    int64_t batch, seq;
    // Texts: the lines of the file, without the blank ones (which are counted) unless they are kept; or those given.
    const char *text_path; // as given; NULL: no file
    size_t text_bytes;     // of the file, as it was read
    char text_sha256[65];
    const char **texts;
    size_t *text_lengths;
    size_t *text_lines; // of the file, from 1; 0 for texts that were given
    struct text_facts *facts;
    size_t n_texts, n_blank, n_truncated, n_tokens; // tokens the model sees, padding not counted
    // n_batches * batch rows of seq; rows beyond the last text repeat the first text.
    int32_t *ids, *mask;
    size_t n_batches;
    bool open_tokenizer, open_checkpoint;
};

struct workload_options {
    const char *directory;    // of a model; or the file of a program
    const char *text_path;    // one text on each line; "-" is standard input; NULL: no file
    const char *const *texts; // or n_texts texts in memory, which are copied
    size_t n_texts;
    bool keep_blank; // blank lines of the file are texts, too
    int64_t batch;   // 0: 32, fewer when there are fewer texts
    int64_t seq;     // 0: the longest text, up to the model's own limit
    // Of programs (lab/exported.h).
    const char *weights, *inputs, *weight_args;
    uint64_t seed;
};

// Opens model, tokenizer and texts and encodes everything; or a program with its weights and inputs. ERR_INPUT for
// files, ERR_USAGE for batch and seq that the model does not allow, and for options of the other kind.
int workload_open(struct workload *w, const struct workload_options *options, struct error *err);
void workload_close(struct workload *w);

// The module in f32, as it is run: `m` is initialised. ERR_INPUT as bert_module and bind_check.
int workload_module(const struct workload *w, struct module *m, struct error *err);
// Values of all results of everything: what subject_run_all writes.
size_t workload_values(const struct workload *w);

// Encodes the texts of one batch again into ids and mask (batch * seq each): what a request pays for.
int workload_encode(const struct workload *w, size_t batch, int32_t *ids, int32_t *mask, struct error *err);

#endif
