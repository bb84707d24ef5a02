// SPDX-License-Identifier: Apache-2.0
#include "tiny_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "io/safetensors.h"
#include "num/convert.h"

enum { MAX_TENSORS = 256, MAX_SHARDS = 8 };

struct tensor {
    char name[128];
    struct safetensors_entry entry;
    int64_t dims[CHECKPOINT_MAX_RANK];
    double centre, spread; // elements are uniform in centre +- spread
};

struct maker {
    const struct tiny_options *o;
    struct tensor tensors[MAX_TENSORS];
    size_t n;
    struct error *err;
};

static const struct tiny_edit *edit_of(const struct tiny_options *o, enum tiny_edit_kind kind, const char *name)
{
    const struct tiny_edit *found = NULL;
    for (size_t i = 0; i < o->n_edits; i++) {
        const struct tiny_edit *e = &o->edits[i];
        if (e->kind == kind && (strcmp(e->name, name) == 0 || strcmp(e->name, "*") == 0))
            found = e;
    }
    return found;
}

static int read_shape(const char *text, struct tensor *t, struct error *err)
{
    char copy[128], *rest = copy;
    snprintf(copy, sizeof copy, "%s", text);
    t->entry.rank = 0;
    for (char *part; (part = strsep(&rest, "x")) && *part;) {
        if (t->entry.rank == CHECKPOINT_MAX_RANK || !parse_i64(part, &t->dims[t->entry.rank++]))
            return error_set(err, ERR_USAGE, t->name, "'%s' is no shape", text);
    }
    return 0;
}

// rows 0: a vector.
static void add(struct maker *m, const char *name, int64_t rows, int64_t columns, double centre, double spread)
{
    const struct tiny_edit *e;
    if (m->err->code || edit_of(m->o, TINY_DROP, name))
        return;
    if (m->n == MAX_TENSORS || strlen(name) >= sizeof m->tensors[0].name) {
        error_set(m->err, ERR_USAGE, name, "too many tensors, or too long a name");
        return;
    }
    struct tensor *t = &m->tensors[m->n++];
    memcpy(t->name, name, strlen(name) + 1);
    t->dims[0] = rows ? rows : columns;
    t->dims[1] = columns;
    t->entry = (struct safetensors_entry){.name = t->name, .dtype = DT_F32, .rank = rows ? 2 : 1, .dims = t->dims};
    t->centre = centre;
    t->spread = spread;
    if ((e = edit_of(m->o, TINY_FILL, name)) != NULL) {
        t->centre = strtod(e->value, NULL);
        t->spread = 0;
    }
    if ((e = edit_of(m->o, TINY_SHAPE, name)) != NULL)
        read_shape(e->value, t, m->err);
    if ((e = edit_of(m->o, TINY_TYPE, name)) != NULL)
        t->entry.dtype = dtype_from_safetensors(e->value, strlen(e->value));
}

static void add_norm(struct maker *m, const char *prefix)
{
    char name[128];
    snprintf(name, sizeof name, "%s.weight", prefix);
    add(m, name, 0, m->o->hidden, 1, 0.3);
    snprintf(name, sizeof name, "%s.bias", prefix);
    add(m, name, 0, m->o->hidden, 0, 0.2);
}

static void add_dense(struct maker *m, const char *prefix, int64_t rows, int64_t columns)
{
    char name[128];
    snprintf(name, sizeof name, "%s.weight", prefix);
    add(m, name, rows, columns, 0, 0.4);
    snprintf(name, sizeof name, "%s.bias", prefix);
    add(m, name, 0, rows, 0, 0.1);
}

static void add_layer(struct maker *m, int layer)
{
    static const char *const square[] = {"attention.self.query", "attention.self.key", "attention.self.value",
                                         "attention.output.dense"};
    const struct tiny_options *o = m->o;
    char name[112];
    for (size_t i = 0; i < sizeof square / sizeof *square; i++) {
        snprintf(name, sizeof name, "encoder.layer.%d.%s", layer, square[i]);
        add_dense(m, name, o->hidden, o->hidden);
    }
    snprintf(name, sizeof name, "encoder.layer.%d.attention.output.LayerNorm", layer);
    add_norm(m, name);
    snprintf(name, sizeof name, "encoder.layer.%d.intermediate.dense", layer);
    add_dense(m, name, o->intermediate, o->hidden);
    snprintf(name, sizeof name, "encoder.layer.%d.output.dense", layer);
    add_dense(m, name, o->hidden, o->intermediate);
    snprintf(name, sizeof name, "encoder.layer.%d.output.LayerNorm", layer);
    add_norm(m, name);
}

static int join(char out[1200], const char *dir, const char *name, struct error *err)
{
    return snprintf(out, 1200, "%s/%s", dir, name) < 1200 ? 0 : error_set(err, ERR_USAGE, dir, "is too long");
}

static int write_text(const char *dir, const char *name, const struct str *text, struct error *err)
{
    char path[1200];
    int rc = join(path, dir, name, err);
    if (!rc)
        rc = str_check(text, err);
    return rc ? rc : file_write(path, text->text, text->length, err);
}

// splitmix64 (Steele, Lea and Flood 2014), as a number in [-1, 1).
static double next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

static int put_tensor(struct safetensors_writer *w, size_t index, const struct tensor *t, uint64_t *state)
{
    struct error *err = NULL;
    size_t n, bytes;
    if (!size_product(t->dims, t->entry.rank, &n) || !dtype_bytes(t->entry.dtype, n, &bytes))
        return ERR_USAGE;
    double *values = malloc(n * sizeof *values + 1);
    void *stored = malloc(bytes + 1);
    int rc = values && stored ? 0 : ERR_MEMORY;
    for (size_t i = 0; i < n && !rc; i++)
        values[i] = t->centre + (t->spread > 0 ? t->spread * next(state) : 0);
    if (!rc && convert_possible(t->entry.dtype, DT_F64))
        rc = convert_elements(t->entry.dtype, stored, DT_F64, values, n, err);
    else if (!rc)
        memset(stored, 0, bytes);
    if (!rc)
        rc = safetensors_writer_put(w, index, stored, bytes, err);
    free(values);
    free(stored);
    return rc;
}

static int write_file(const struct maker *m, const char *dir, const char *name, size_t first, size_t n, uint64_t *state)
{
    char path[1200];
    struct safetensors_entry entries[MAX_TENSORS];
    struct safetensors_writer w;
    for (size_t i = 0; i < n; i++)
        entries[i] = m->tensors[first + i].entry;
    int rc = join(path, dir, name, m->err);
    if (!rc)
        rc = safetensors_writer_begin(&w, path, entries, n, NULL, 0, m->err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n && !rc; i++) {
        rc = put_tensor(&w, i, &m->tensors[first + i], state);
        if (rc)
            error_set(m->err, rc, m->tensors[first + i].name, "cannot be made");
    }
    if (rc)
        safetensors_writer_abort(&w);
    return rc ? rc : safetensors_writer_commit(&w, m->err);
}

static int write_weights(struct maker *m, const char *dir)
{
    uint64_t state = m->o->seed;
    size_t shards = (size_t)m->o->shards;
    char name[80];
    if (!shards)
        return write_file(m, dir, "model.safetensors", 0, m->n, &state);
    struct str index;
    struct jw w;
    str_init(&index);
    jw_init(&w, &index, false);
    jw_object(&w);
    jw_key(&w, "weight_map");
    jw_object(&w);
    int rc = 0;
    for (size_t k = 0; k < shards && !rc; k++) {
        size_t first = m->n * k / shards, end = m->n * (k + 1) / shards;
        snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", k + 1, shards);
        rc = write_file(m, dir, name, first, end - first, &state);
        for (size_t i = first; i < end; i++)
            jw_kv_string(&w, m->tensors[i].name, name);
    }
    jw_object_end(&w);
    jw_object_end(&w);
    if (!rc)
        rc = jw_finish(&w, m->err);
    if (!rc)
        rc = write_text(dir, "model.safetensors.index.json", &index, m->err);
    str_release(&index);
    return rc;
}

static int write_config(const struct tiny_options *o, const char *dir, struct error *err)
{
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"hidden_size", o->hidden},        {"num_hidden_layers", o->layers},
                 {"num_attention_heads", o->heads}, {"intermediate_size", o->intermediate},
                 {"vocab_size", o->pieces},         {"max_position_embeddings", o->positions}};
    struct str text;
    struct jw w;
    str_init(&text);
    jw_init(&w, &text, false);
    jw_object(&w);
    if (!edit_of(o, TINY_CONFIG, "model_type"))
        jw_kv_string(&w, "model_type", "bert");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!edit_of(o, TINY_CONFIG, sizes[i].key))
            jw_kv_int(&w, sizes[i].key, sizes[i].value);
    }
    for (size_t i = 0; i < o->n_edits; i++) {
        const struct tiny_edit *e = &o->edits[i];
        if (e->kind == TINY_CONFIG && *e->value) {
            jw_key(&w, e->name);
            jw_raw(&w, e->value);
        }
    }
    jw_object_end(&w);
    int rc = jw_finish(&w, err);
    if (!rc)
        rc = write_text(dir, "config.json", &text, err);
    str_release(&text);
    return rc;
}

// Special tokens, letters, letters that go on a word, and what fills it up to the number asked for.
static int write_vocabulary(const struct tiny_options *o, const char *dir, struct error *err)
{
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "the"};
    const int64_t n_special = sizeof special / sizeof *special;
    struct str text;
    str_init(&text);
    for (int64_t i = 0; i < o->pieces; i++) {
        int64_t k = i - n_special;
        if (k < 0)
            str_addf(&text, "%s\n", special[i]);
        else if (k < 52)
            str_addf(&text, "%s%c\n", k < 26 ? "" : "##", (char)('a' + k % 26));
        else
            str_addf(&text, "piece%lld\n", (long long)k);
    }
    int rc = write_text(dir, "vocab.txt", &text, err);
    str_release(&text);
    return rc;
}

int tiny_model_write(const char *dir, const struct tiny_options *o, struct error *err)
{
    struct maker *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ERR_MEMORY, NULL, "no memory");
    m->o = o;
    m->err = err;
    add(m, "embeddings.word_embeddings.weight", o->pieces, o->hidden, 0, 1);
    add(m, "embeddings.position_embeddings.weight", o->positions, o->hidden, 0, 0.3);
    add(m, "embeddings.token_type_embeddings.weight", 2, o->hidden, 0, 0.1);
    add_norm(m, "embeddings.LayerNorm");
    for (int i = 0; i < o->layers; i++)
        add_layer(m, i);
    for (size_t i = 0; i < o->n_edits; i++) {
        if (o->edits[i].kind == TINY_EXTRA)
            add(m, o->edits[i].name, 2, 8, 0, 1);
    }
    int rc = err->code;
    if (!rc && mkdir(dir, 0777) != 0)
        rc = error_set(err, ERR_IO, dir, "cannot be made: %s", strerror(errno));
    if (!rc)
        rc = write_config(o, dir, err);
    if (!rc)
        rc = write_vocabulary(o, dir, err);
    if (!rc)
        rc = write_weights(m, dir);
    free(m);
    return rc;
}
