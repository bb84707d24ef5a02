// SPDX-License-Identifier: Apache-2.0
#include "lab/klein_names.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHOWN_NAMES 3 // in a message

#define NO_GGUF "GGUF files of FLUX.2 are not supported yet; take the BF16 safetensors and a policy (--policy w8a8)"

int klein_check_folder(const char *folder, struct error *err)
{
    char found[256] = "";
    bool weights = false;
    DIR *d = opendir(folder);
    if (!d)
        return 0; // opening what is in it says why
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        weights = weights || strstr(e->d_name, ".safetensors");
        if (str_ends_with(e->d_name, ".gguf"))
            snprintf(found, sizeof found, "%s", e->d_name);
    }
    closedir(d);
    return weights || !*found ? 0 : error_set(err, ERR_INPUT, folder, "holds \"%s\" alone: " NO_GGUF, found);
}

int klein_check_format(const struct checkpoint *c, const char *path, struct error *err)
{
    if (c->gguf)
        return error_set(err, ERR_INPUT, path, NO_GGUF);
    for (size_t i = 0; i < c->count; i++) {
        const struct tensor_view *t = &c->tensors[i];
        bool counts = str_ends_with(t->name, "num_batches_tracked");
        if (counts || (dtype_is_float(t->dtype) && dtype_bits(t->dtype) >= 16))
            continue;
        const char *kind = dtype_is_float(t->dtype) && dtype_bits(t->dtype) == 8 ? "fp8" : "quantised";
        return error_set(err, ERR_INPUT, path,
                         "tensor \"%s\" is stored as %s: %s files are not supported yet; take the BF16 ones and a "
                         "policy (--policy w8a8)",
                         t->name, tensor_type_name(t), kind);
    }
    return 0;
}

// ---- names

struct names {
    const struct checkpoint *c;
    const char *path;
    bool bfl;
    bool *known; // of the checkpoint's tensors
    size_t n_missing;
    char missing[320];
};

static void show(char *text, size_t size, size_t shown, const char *name)
{
    size_t n = strlen(text);
    if (shown < SHOWN_NAMES)
        snprintf(text + n, size - n, "%s\"%s\"", shown ? ", " : "", name);
}

static int wrong_shape(const struct names *n, const struct tensor_view *v, const int64_t *want, int rank,
                       struct error *err)
{
    char texts[2][96] = {"", ""};
    for (int side = 0; side < 2; side++) {
        for (int d = 0; d < (side ? rank : v->rank); d++) {
            size_t k = strlen(texts[side]);
            snprintf(texts[side] + k, sizeof texts[side] - k, "%s%" PRId64, d ? "," : "", side ? want[d] : v->dims[d]);
        }
    }
    return error_set(err, ERR_INPUT, n->path, "tensor \"%s\" is [%s]; this model has [%s]", v->name, texts[0],
                     texts[1]);
}

static int expect(void *context, const struct flux2_tensor *t, struct error *err)
{
    struct names *n = context;
    const char *name = n->bfl ? t->bfl : t->name;
    const struct tensor_view *v = checkpoint_find(n->c, name);
    if (!v && t->used)
        show(n->missing, sizeof n->missing, n->n_missing++, name);
    if (!v)
        return 0;
    n->known[v - n->c->tensors] = true;
    int64_t want[CHECKPOINT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    int rank = t->rank + (n->bfl ? t->bfl_extra_rank : 0);
    memcpy(want, t->dims, (size_t)t->rank * sizeof *want);
    if (n->bfl)
        want[0] = t->bfl_rows;
    bool same = v->rank == rank;
    for (int d = 0; d < rank && same; d++)
        same = v->dims[d] == want[d];
    return same ? 0 : wrong_shape(n, v, want, rank, err);
}

// What may be there and is of no use.
static bool harmless(const char *name, enum flux2_component component)
{
    if (component == FLUX2_AUTOENCODER)
        return str_ends_with(name, "bn.num_batches_tracked");
    return component == FLUX2_TEXT_ENCODER && strcmp(name, "lm_head.weight") == 0;
}

static int check_extra(const struct names *n, const struct flux2_config *config, enum flux2_component component,
                       struct error *err)
{
    char extra[320] = "";
    size_t n_extra = 0;
    for (size_t i = 0; i < n->c->count; i++) {
        if (!n->known[i] && !harmless(n->c->tensors[i].name, component))
            show(extra, sizeof extra, n_extra++, n->c->tensors[i].name);
    }
    if (!n_extra)
        return 0;
    const char *dev =
        strstr(extra, "guidance_in") ? " (a guidance embedding is FLUX.2-dev's, which is not supported)" : "";
    return error_set(err, ERR_INPUT, n->path, "has %zu tensor%s that the %s of %s has not: %s%s%s", n_extra,
                     n_extra == 1 ? "" : "s", flux2_component_name(component), config->name, extra,
                     n_extra > SHOWN_NAMES ? "..." : "", dev);
}

int klein_check_names(const struct checkpoint *c, const struct flux2_config *config, enum flux2_component component,
                      bool bfl, const char *path, struct error *err)
{
    struct names n = {.c = c, .path = path, .bfl = bfl, .known = calloc(c->count + 1, sizeof(bool))};
    int rc =
        n.known ? flux2_tensors(config, component, expect, &n, err) : error_set(err, ERR_MEMORY, path, "no memory");
    if (!rc && n.n_missing)
        rc = error_set(err, ERR_INPUT, path, "lacks %zu tensor%s of the %s of %s: %s%s", n.n_missing,
                       n.n_missing == 1 ? "" : "s", flux2_component_name(component), config->name, n.missing,
                       n.n_missing > SHOWN_NAMES ? "..." : "");
    if (!rc)
        rc = check_extra(&n, config, component, err);
    free(n.known);
    return rc;
}

// ---- renaming

struct renaming {
    struct checkpoint *c;
    struct tensor_view *views;
    size_t n, cap;
};

// A copy with its halves exchanged, in memory of its own.
static int exchange(struct checkpoint *c, const struct tensor_view *v, size_t *file, struct error *err)
{
    size_t half = v->bytes / 2;
    int fd = memfd_create("halves", MFD_CLOEXEC);
    uint8_t *copy = malloc(v->bytes + 1);
    int rc = copy && fd >= 0 ? checkpoint_read(c, v, copy, err)
                             : error_set(err, ERR_MEMORY, v->name, "no memory for %zu bytes", v->bytes);
    if (!rc)
        rc = fd_write_all(fd, copy + half, v->bytes - half, v->name, err);
    if (!rc)
        rc = fd_write_all(fd, copy, half, v->name, err);
    free(copy);
    if (rc && fd >= 0)
        close(fd);
    return rc ? rc : checkpoint_add_memory(c, fd, v->bytes, v->name, file, err);
}

static int rename_one(void *context, const struct flux2_tensor *t, struct error *err)
{
    struct renaming *r = context;
    const struct tensor_view *v = checkpoint_find(r->c, t->bfl);
    if (!v)
        return 0;
    r->views = arena_grow(&r->c->arena, r->views, &r->cap, r->n + 1, sizeof *r->views, err);
    if (!r->views)
        return ERR_MEMORY;
    struct tensor_view *to = &r->views[r->n++];
    size_t row_bytes = v->bytes / (size_t)t->bfl_rows;
    *to = *v;
    to->name = arena_strdup(&r->c->arena, t->name, err);
    if (!to->name)
        return ERR_MEMORY;
    to->rank = t->rank;
    memcpy(to->dims, t->dims, sizeof t->dims);
    to->elements = v->elements / (size_t)t->bfl_rows * (size_t)t->dims[0];
    to->bytes = row_bytes * (size_t)t->dims[0];
    to->offset = v->offset + row_bytes * (size_t)t->bfl_row;
    if (!t->bfl_halves)
        return 0;
    to->offset = 0;
    return exchange(r->c, v, &to->file, err);
}

int klein_rename(struct checkpoint *c, const struct flux2_config *config, enum flux2_component component,
                 struct error *err)
{
    struct renaming r = {.c = c};
    int rc = flux2_tensors(config, component, rename_one, &r, err);
    return rc ? rc : checkpoint_replace(c, r.views, r.n, err);
}

// ---- what a file is of

// How many tensors have the name PREFIX.N.SUFFIX, N from 0.
static int64_t blocks(const struct checkpoint *c, const char *prefix, const char *suffix)
{
    char name[128];
    for (int64_t i = 0;; i++) {
        snprintf(name, sizeof name, "%s.%" PRId64 ".%s", prefix, i, suffix);
        if (!checkpoint_find(c, name))
            return i;
    }
}

int klein_config_of_file(struct flux2_config *config, const struct checkpoint *c, const char *path, struct error *err)
{
    const struct tensor_view *in = checkpoint_find(c, "img_in.weight");
    bool bfl = in != NULL;
    if (!in)
        in = checkpoint_find(c, "x_embedder.weight");
    if (!in || in->rank != 2)
        return error_set(err, ERR_INPUT, path,
                         "is no transformer of FLUX.2: there is neither \"img_in.weight\" nor \"x_embedder.weight\"");
    const char *slash = strrchr(path, '/');
    bool base = strstr(slash ? slash : path, "base") != NULL;
    int64_t n_double = bfl ? blocks(c, "double_blocks", "img_attn.proj.weight")
                           : blocks(c, "transformer_blocks", "attn.to_out.0.weight");
    int64_t n_single = bfl ? blocks(c, "single_blocks", "linear1.weight")
                           : blocks(c, "single_transformer_blocks", "attn.to_qkv_mlp_proj.weight");
    const struct flux2_config *found = flux2_of_size(in->dims[0], n_double, n_single, base);
    if (!found && base)
        found = flux2_of_size(in->dims[0], n_double, n_single, false);
    if (!found)
        return error_set(err, ERR_INPUT, path,
                         "is no transformer of FLUX.2 klein: it is %" PRId64 " wide with %" PRId64
                         " double and %" PRId64 " single blocks; klein-4B is 3072, 5, 20, klein-9B 4096, 8, 24",
                         in->dims[0], n_double, n_single);
    *config = *found;
    // Neither is this in shapes: flux-2-klein-9b-kv.safetensors.
    config->kept_references = !base && strstr(slash ? slash : path, "-kv") != NULL;
    return 0;
}
