// SPDX-License-Identifier: Apache-2.0
// The files that a qualification read, and whether they are still the same.
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "lab/qualify.h"

enum { SIDE_FILES = 6 };

static struct qualify_file *add(struct qualify *q, const char *path, size_t bytes, struct error *err)
{
    struct qualify_file *f = &q->files[q->n_files];
    f->path = arena_strdup(&q->arena, path, err);
    f->bytes = bytes;
    q->n_files += f->path != NULL;
    return f->path ? f : NULL;
}

static int add_side_file(struct qualify *q, const char *path, struct error *err)
{
    struct file_map m;
    int rc = file_map_open(&m, path, err);
    if (rc)
        return rc;
    struct qualify_file *f = add(q, path, m.size, err);
    rc = f ? sha256_map(&m, f->sha256, err) : ERR_MEMORY;
    file_map_close(&m);
    return rc;
}

// A single file's hash is the checkpoint's, so that large weights are read for it only once.
static int add_weights(struct qualify *q, struct error *err)
{
    const struct checkpoint *c = &q->workload.checkpoint;
    int rc = 0;
    for (size_t i = 0; i < c->file_count && !rc; i++) {
        struct qualify_file *f = add(q, c->files[i].path, c->files[i].size, err);
        rc = f ? checkpoint_file_sha256(c, i, f->sha256, err) : ERR_MEMORY;
    }
    if (!rc && c->file_count == 1)
        memcpy(q->checkpoint_sha256, q->files[0].sha256, sizeof q->checkpoint_sha256);
    else if (!rc)
        rc = checkpoint_sha256(c, q->checkpoint_sha256, err);
    return rc;
}

int qualify_list_files(struct qualify *q, struct error *err)
{
    static const char *const names[] = {"config.json", "vocab.txt", "tokenizer_config.json", "modules.json",
                                        "sentence_bert_config.json"};
    const struct workload *l = &q->workload;
    char path[1200];
    q->files = arena_new(&q->arena, struct qualify_file, l->checkpoint.file_count + SIDE_FILES + 1, err);
    if (!q->files)
        return ERR_MEMORY;
    int rc = l->open_checkpoint ? add_weights(q, err) : 0;
    if (!rc && l->checkpoint.index_path)
        rc = add_side_file(q, l->checkpoint.index_path, err);
    if (!rc && l->program) {
        rc = add_side_file(q, l->directory, err);
        return rc || !l->program->inputs_path ? rc : add_side_file(q, l->program->inputs_path, err);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !rc; i++) {
        snprintf(path, sizeof path, "%s/%s", l->directory, names[i]);
        if (file_exists(path))
            rc = add_side_file(q, path, err);
    }
    if (!rc && l->bert.sentence.pooling_path[0])
        rc = add_side_file(q, l->bert.sentence.pooling_path, err);
    return rc;
}

int qualify_check_files(const struct qualify *q, struct error *err)
{
    const struct checkpoint *c = &q->workload.checkpoint;
    int rc = 0;
    for (size_t i = 0; i < c->file_count && !rc; i++)
        rc = file_map_unchanged(&c->files[i], err);
    return rc;
}

int qualify_save_texts(const struct qualify *q, struct record *record, struct error *err)
{
    struct str text;
    struct jw w;
    if (!q->ranges.open)
        return 0;
    str_init(&text);
    jw_init(&w, &text, true);
    int rc = split_json(&q->ranges.split, true, &w, err);
    if (!rc)
        rc = jw_finish(&w, err);
    str_add_char(&text, '\n');
    if (!rc)
        rc = str_check(&text, err);
    if (!rc)
        rc = record_write(record, "texts.json", text.text, text.length, err);
    str_release(&text);
    return rc;
}
