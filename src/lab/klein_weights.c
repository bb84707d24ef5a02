// SPDX-License-Identifier: Apache-2.0
#include "lab/klein_weights.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/hf_config.h"
#include "io/random_checkpoint.h"
#include "lab/klein_names.h"

bool klein_weights_are_random(const struct klein_weights *w)
{
    return w->source == KLEIN_RANDOM || w->source == KLEIN_TINY;
}

static const char *last_part(const char *path)
{
    const char *name = path, *end = path + strlen(path);
    for (const char *p = path; *p; p++) {
        if (*p == '/' && p[1] && p[1] != '/')
            name = p + 1;
    }
    return name == end ? path : name;
}

// "random:17", "random:17:flux2-klein-9b", "tiny:17".
static int parse_random(struct klein_weights *w, const char *text, struct error *err)
{
    bool tiny = strncmp(text, "tiny:", 5) == 0;
    const char *seed = text + (tiny ? 5 : 7), *model = strchr(seed, ':');
    size_t n = model ? (size_t)(model - seed) : strlen(seed);
    char *digits = arena_strndup(&w->arena, seed, n, err);
    const char *name = tiny ? "flux2-tiny" : model ? model + 1 : "flux2-klein-4b";
    const struct flux2_config *c = flux2_builtin(name);
    if (!digits)
        return ERR_MEMORY;
    w->source = tiny ? KLEIN_TINY : KLEIN_RANDOM;
    if (!parse_u64(digits, &w->seed) || (tiny && model))
        return error_set(err, ERR_USAGE, "--weights", "'%s': expected random:SEED, random:SEED:MODEL or tiny:SEED",
                         text);
    if (!c || (!tiny && strcmp(name, "flux2-tiny") == 0))
        return error_set(err, ERR_USAGE, "--weights",
                         "'%s' is no model: flux2-klein-4b, flux2-klein-9b, flux2-klein-base-4b, flux2-klein-base-9b",
                         name);
    w->config = *c;
    w->name = c->name;
    return 0;
}

// ---- opening

static int open_component(struct klein_weights *w, enum flux2_component c, const char *path, struct error *err)
{
    w->paths[c] = path;
    int rc = klein_check_folder(path, err);
    if (rc)
        return rc;
    rc = checkpoint_open(&w->checkpoints[c], path, err);
    w->open[c] = !rc;
    return rc ? rc : klein_check_format(&w->checkpoints[c], path, err);
}

// Names may be diffusers' or those of Black Forest Labs' files, in a file by itself and in a folder.
static int check_names(struct klein_weights *w, enum flux2_component c, const char *path, struct error *err)
{
    static const char *const theirs[FLUX2_COMPONENTS] = {
        [FLUX2_DIT] = "img_in.weight", [FLUX2_AUTOENCODER] = "decoder.mid.block_1.conv1.weight"};
    struct checkpoint *file = &w->checkpoints[c];
    bool bfl = theirs[c] && checkpoint_find(file, theirs[c]);
    int rc = klein_check_names(file, &w->config, c, bfl, path, err);
    return rc || !bfl ? rc : klein_rename(file, &w->config, c, err);
}

static int open_folder(struct klein_weights *w, const char *directory, struct error *err)
{
    static const char *const parts[FLUX2_COMPONENTS] = {"text_encoder", "transformer", "vae"};
    if (!flux2_is_folder(directory))
        return error_set(err, ERR_INPUT, directory,
                         "is no folder of FLUX.2 in diffusers' layout: transformer/config.json or vae/config.json is "
                         "not there; a transformer in one file is named itself (flux-2-klein-4b.safetensors)");
    int rc = flux2_open(&w->config, directory, err);
    w->source = KLEIN_FOLDER;
    w->name = w->config.name = last_part(directory);
    w->tokenizer = arena_printf(&w->arena, err, "%s/tokenizer", directory);
    if (!rc && !w->tokenizer)
        rc = ERR_MEMORY;
    for (int i = 0; i < FLUX2_COMPONENTS && !rc; i++) {
        const char *path = arena_printf(&w->arena, err, "%s/%s", directory, parts[i]);
        rc = path ? open_component(w, (enum flux2_component)i, path, err) : ERR_MEMORY;
        if (!rc)
            rc = check_names(w, (enum flux2_component)i, path, err);
    }
    return rc;
}

// The first of some names beside a file that is there; NULL when none is.
static const char *beside(struct klein_weights *w, const char *file, const char *const *names, struct error *err)
{
    size_t folder = (size_t)(last_part(file) - file);
    for (; *names; names++) {
        const char *path = arena_printf(&w->arena, err, "%.*s%s", (int)folder, file, *names);
        if (path && (file_exists(path) || dir_exists(path)))
            return path;
    }
    return NULL;
}

// A file is not enough: sizes are in config.json. One of a kind that is not supported is said to be that.
static int refuse_file(struct klein_weights *w, const char *path, struct error *err)
{
    int rc = open_component(w, FLUX2_TEXT_ENCODER, path, err);
    return rc ? rc
              : error_set(
                    err, ERR_INPUT, path,
                    "is a file; the text encoder is a folder, with config.json beside the weights, as Qwen3's is");
}

static int open_text_encoder(struct klein_weights *w, const char *path, struct error *err)
{
    struct hf_config config;
    if (file_exists(path))
        return refuse_file(w, path, err);
    int rc = hf_config_open(&config, path, err);
    if (rc)
        return rc;
    rc = decoder_config_read(&w->config.text, &config, err);
    hf_config_release(&config);
    if (!rc)
        rc = flux2_check_fit(&w->config, path, err);
    if (!rc)
        rc = open_component(w, FLUX2_TEXT_ENCODER, path, err);
    return rc ? rc : check_names(w, FLUX2_TEXT_ENCODER, path, err);
}

// What other commands know as a workload without weights, or a word that lacks its seed.
static bool is_only_a_name(const char *path)
{
    const char *bare = strncmp(path, "builtin:", 8) == 0 ? path + 8 : path;
    bool known = flux2_builtin(bare) || strcmp(path, "random") == 0 || strcmp(path, "tiny") == 0;
    return known && !file_exists(path);
}

static int open_files(struct klein_weights *w, const struct klein_weights_options *o, struct error *err)
{
    static const char *const vae_names[] = {"ae.safetensors", "flux2-vae.safetensors", "vae", NULL};
    static const char *const text_names[] = {"text_encoder", NULL};
    w->source = KLEIN_FILES;
    w->name = last_part(o->weights);
    if (is_only_a_name(o->weights))
        return error_set(err, ERR_USAGE, "--weights",
                         "'%s' is no file or folder; random:SEED and random:SEED:MODEL make random weights of a model "
                         "that is known by name, tiny:SEED those of a very small one",
                         o->weights);
    int rc = open_component(w, FLUX2_DIT, o->weights, err);
    if (!rc)
        rc = klein_config_of_file(&w->config, &w->checkpoints[FLUX2_DIT], o->weights, err);
    if (!rc)
        rc = check_names(w, FLUX2_DIT, o->weights, err);
    if (rc)
        return rc;
    w->config.name = w->name;
    const char *vae = o->autoencoder ? o->autoencoder : beside(w, o->weights, vae_names, err);
    const char *text = o->text_encoder ? o->text_encoder : beside(w, o->weights, text_names, err);
    if (!vae)
        return error_set(err, ERR_INPUT, o->weights,
                         "holds the transformer alone, and there is no ae.safetensors, flux2-vae.safetensors or vae/ "
                         "beside it; name the autoencoder with --autoencoder");
    if (!text)
        return error_set(err, ERR_INPUT, o->weights,
                         "holds the transformer alone, and there is no text_encoder/ beside it; name the folder of "
                         "Qwen3 with --text-encoder");
    rc = open_text_encoder(w, text, err);
    if (!rc)
        rc = open_component(w, FLUX2_AUTOENCODER, vae, err);
    if (!rc)
        rc = check_names(w, FLUX2_AUTOENCODER, vae, err);
    static const char *const tokenizers[] = {"tokenizer", NULL};
    char *inside = arena_printf(&w->arena, err, "%s/tokenizer.json", text);
    const char *near = beside(w, text, tokenizers, err);
    w->tokenizer = (inside && file_exists(inside)) || !near ? text : near;
    return rc;
}

int klein_weights_open(struct klein_weights *w, const struct klein_weights_options *o, struct error *err)
{
    memset(w, 0, sizeof *w);
    arena_init(&w->arena);
    const char *path = o->weights;
    bool random = strncmp(path, "random:", 7) == 0 || strncmp(path, "tiny:", 5) == 0;
    if (!random && dir_exists(path) && (o->autoencoder || o->text_encoder))
        return error_set(err, ERR_USAGE, o->autoencoder ? "--autoencoder" : "--text-encoder",
                         "goes with a transformer in one file; '%s' is a folder that has all parts", path);
    int rc = random ? parse_random(w, path, err) : dir_exists(path) ? open_folder(w, path, err) : open_files(w, o, err);
    if (!rc && o->tokenizer && !(w->tokenizer = arena_strdup(&w->arena, o->tokenizer, err)))
        rc = ERR_MEMORY;
    return rc;
}

void klein_weights_close(struct klein_weights *w)
{
    for (int i = 0; i < FLUX2_COMPONENTS; i++) {
        if (w->open[i])
            checkpoint_close(&w->checkpoints[i]);
        w->open[i] = false;
    }
    arena_release(&w->arena);
}

// ---- what is in them

struct listing {
    struct arena *arena;
    struct random_tensor *tensors;
    size_t n, cap;
};

static int list_one(void *context, const struct flux2_tensor *t, struct error *err)
{
    struct listing *l = context;
    if (!t->used)
        return 0;
    l->tensors = arena_grow(l->arena, l->tensors, &l->cap, l->n + 1, sizeof *l->tensors, err);
    if (!l->tensors)
        return ERR_MEMORY;
    struct random_tensor *r = &l->tensors[l->n++];
    *r = (struct random_tensor){.name = arena_strdup(l->arena, t->name, err), .rank = t->rank};
    memcpy(r->dims, t->dims, sizeof t->dims);
    return r->name ? 0 : ERR_MEMORY;
}

int klein_weights_bytes(const struct klein_weights *w, enum flux2_component c, size_t *bytes, struct error *err)
{
    struct arena arena;
    arena_init(&arena);
    struct listing l = {.arena = &arena};
    int rc = flux2_tensors(&w->config, c, list_one, &l, err);
    *bytes = 0;
    if (!rc && klein_weights_are_random(w))
        rc = random_checkpoint_bytes(l.tensors, l.n, bytes, err);
    for (size_t i = 0; i < l.n && !rc && !klein_weights_are_random(w); i++) {
        const struct tensor_view *v = checkpoint_find(&w->checkpoints[c], l.tensors[i].name);
        *bytes += v ? v->bytes : 0;
    }
    arena_release(&arena);
    return rc;
}

int klein_weights_get(struct klein_weights *w, enum flux2_component c, const struct checkpoint **out, struct error *err)
{
    *out = &w->checkpoints[c];
    if (w->open[c])
        return 0;
    struct arena arena;
    arena_init(&arena);
    struct listing l = {.arena = &arena};
    int rc = flux2_tensors(&w->config, c, list_one, &l, err);
    if (!rc)
        rc = random_checkpoint(&w->checkpoints[c], l.tensors, l.n, w->seed, err);
    w->open[c] = !rc;
    arena_release(&arena);
    return rc;
}

void klein_weights_drop(struct klein_weights *w, enum flux2_component c)
{
    if (!klein_weights_are_random(w) || !w->open[c])
        return;
    checkpoint_close(&w->checkpoints[c]);
    w->open[c] = false;
}

void klein_weights_chill(struct klein_weights *w, enum flux2_component c)
{
    for (size_t i = 0; w->open[c] && i < w->checkpoints[c].file_count && !klein_weights_are_random(w); i++) {
        struct file_map *f = &w->checkpoints[c].files[i];
        madvise((void *)(uintptr_t)f->data, f->size, MADV_DONTNEED); // pages that are mapped are not given back
        posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
}
