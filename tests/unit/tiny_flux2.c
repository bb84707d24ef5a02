// SPDX-License-Identifier: Apache-2.0
#include "tiny_flux2.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "io/random_checkpoint.h"
#include "io/safetensors.h"
#include "models/flux2_tensors.h"

// Tensors as they are written: several of ours may be one of a BFL file.
struct files {
    struct arena arena;
    const struct tiny_flux2_options *o;
    enum flux2_component component;
    struct random_tensor *tensors;
    const char **files_name; // of each: what it is (part of) in the file
    int *extra_rank;
    bool *halves;
    size_t n, cap, cap_names, cap_ranks, cap_halves;
};

static int add(void *context, const struct flux2_tensor *t, struct error *err)
{
    struct files *f = context;
    struct arena *a = &f->arena;
    f->tensors = arena_grow(a, f->tensors, &f->cap, f->n + 1, sizeof *f->tensors, err);
    f->files_name = arena_grow(a, f->files_name, &f->cap_names, f->n + 1, sizeof *f->files_name, err);
    f->extra_rank = arena_grow(a, f->extra_rank, &f->cap_ranks, f->n + 1, sizeof *f->extra_rank, err);
    f->halves = arena_grow(a, f->halves, &f->cap_halves, f->n + 1, sizeof *f->halves, err);
    if (!f->tensors || !f->files_name || !f->extra_rank || !f->halves)
        return ERR_MEMORY;
    bool bfl = f->o->bfl && t->bfl;
    f->tensors[f->n] = (struct random_tensor){.name = arena_strdup(a, t->name, err), .rank = t->rank};
    memcpy(f->tensors[f->n].dims, t->dims, sizeof t->dims);
    f->files_name[f->n] = arena_strdup(a, bfl ? t->bfl : t->name, err);
    f->extra_rank[f->n] = bfl ? t->bfl_extra_rank : 0;
    f->halves[f->n] = bfl && t->bfl_halves;
    f->n++;
    return 0;
}

static bool is(const char *wanted, const char *name)
{
    return wanted && strcmp(wanted, name) == 0;
}

// The bytes of tensor i into entry `to`, its halves exchanged where the file has them so.
static int put(struct safetensors_writer *w, size_t to, const struct files *f, const struct checkpoint *c, size_t i,
               bool fp8, struct error *err)
{
    const struct tensor_view *v = checkpoint_find(c, f->tensors[i].name);
    size_t half = f->halves[i] ? v->bytes / 2 : 0;
    const char *all = is(f->o->huge, v->name) ? "\x7f\x7f" : is(f->o->nan, v->name) ? "\xc0\x7f" : NULL;
    if (all) {
        int rc = 0;
        for (size_t k = 0; k < v->bytes && !rc; k += 2)
            rc = safetensors_writer_put(w, to, all, 2, err);
        return rc;
    }
    if (fp8)
        return safetensors_writer_put(w, to, v->data, v->bytes / 2, err);
    int rc = safetensors_writer_put(w, to, v->data + half, v->bytes - half, err);
    return rc ? rc : safetensors_writer_put(w, to, v->data, half, err);
}

static int write_entries(const char *path, const struct files *f, const struct checkpoint *c, struct error *err)
{
    const struct tiny_flux2_options *o = f->o;
    bool changed = (int)o->part == (int)f->component;
    struct safetensors_entry *entries = calloc(f->n + 2, sizeof *entries);
    int64_t(*dims)[CHECKPOINT_MAX_RANK] = calloc(f->n + 2, sizeof *dims);
    size_t *entry_of = calloc(f->n + 1, sizeof *entry_of), n = 0;
    for (size_t i = 0; i < f->n; i++) {
        bool joined = n && i && strcmp(f->files_name[i], f->files_name[i - 1]) == 0;
        entry_of[i] = joined ? n - 1 : n;
        if (joined) {
            dims[n - 1][0] += f->tensors[i].dims[0];
            continue;
        }
        if (changed && is(o->drop, f->files_name[i])) {
            entry_of[i] = SIZE_MAX;
            continue;
        }
        memcpy(dims[n], f->tensors[i].dims, sizeof dims[n]);
        for (int d = 0; d < f->extra_rank[i]; d++)
            dims[n][f->tensors[i].rank + d] = 1;
        entries[n] = (struct safetensors_entry){f->files_name[i],
                                                changed && is(o->fp8, f->files_name[i]) ? DT_F8E4M3FN : DT_BF16,
                                                f->tensors[i].rank + f->extra_rank[i], dims[n]};
        n++;
    }
    size_t extra = n;
    if (changed && o->extra) {
        dims[n][0] = 2;
        entries[n++] = (struct safetensors_entry){o->extra, DT_BF16, 1, dims[extra]};
    }
    struct safetensors_writer w;
    int rc = safetensors_writer_begin(&w, path, entries, n, NULL, 0, err);
    for (size_t i = 0; i < f->n && !rc; i++) {
        if (entry_of[i] != SIZE_MAX)
            rc = put(&w, entry_of[i], f, c, i, entries[entry_of[i]].dtype == DT_F8E4M3FN, err);
    }
    if (!rc && extra < n)
        rc = safetensors_writer_put(&w, extra, "\0\0\0\0", 4, err);
    if (!rc)
        rc = safetensors_writer_commit(&w, err);
    free(entries);
    free(dims);
    free(entry_of);
    return rc;
}

static struct flux2_config config_of(const struct tiny_flux2_options *o)
{
    struct flux2_config c = *flux2_builtin("flux2-tiny");
    if (o->vocabulary)
        c.text.vocab = o->vocabulary;
    if (o->nine) {
        c.text.hidden = 64;
        c.text.intermediate = 192;
        c.text.tied = false;
        c.dit.double_blocks = 3;
        c.dit.single_blocks = 4;
        c.dit.joint = 3 * c.text.hidden;
    }
    return c;
}

// A blank more in the header, and no tensor begins where it did.
static int shift(const char *path, struct error *err)
{
    struct str text;
    str_init(&text);
    int rc = file_read(&text, path, (size_t)1 << 30, err);
    uint64_t n;
    memcpy(&n, str_text(&text), sizeof n);
    struct str moved;
    str_init(&moved);
    uint64_t more = n + 8;
    str_add_n(&moved, &more, sizeof more);
    str_add_n(&moved, text.text + 8, n);
    str_add(&moved, "        ");
    str_add_n(&moved, text.text + 8 + n, text.length - 8 - n);
    if (!rc)
        rc = file_write(path, moved.text, moved.length, err);
    str_release(&text);
    str_release(&moved);
    return rc;
}

static int write_component(const char *path, enum flux2_component component, const struct tiny_flux2_options *o,
                           struct error *err)
{
    struct files f = {.o = o, .component = component};
    const struct flux2_config config = config_of(o);
    struct checkpoint c;
    arena_init(&f.arena);
    int rc = flux2_tensors(&config, component, add, &f, err);
    if (!rc)
        rc = random_checkpoint(&c, f.tensors, f.n, o->seed, err);
    if (!rc) {
        rc = write_entries(path, &f, &c, err);
        checkpoint_close(&c);
    }
    if (!rc && o->unaligned)
        rc = shift(path, err);
    arena_release(&f.arena);
    return rc;
}

static int write_text(const char *dir, const char *name, const char *text, struct error *err)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return file_write(path, text, strlen(text), err);
}

static int text_encoder(const char *dir, const struct tiny_flux2_options *o, struct error *err)
{
    const struct flux2_config c = config_of(o);
    char path[1200], config[800];
    snprintf(path, sizeof path, "%s/text_encoder", dir);
    mkdir(path, 0777);
    snprintf(config, sizeof config,
             "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", \"hidden_size\": %d, "
             "\"num_hidden_layers\": 6, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, "
             "\"intermediate_size\": %d, \"vocab_size\": %d, \"rms_norm_eps\": 1e-6, \"rope_theta\": 1000000, "
             "\"tie_word_embeddings\": %s, \"hidden_act\": \"silu\"}",
             (int)(o->text_hidden ? o->text_hidden : c.text.hidden), (int)c.text.intermediate, (int)c.text.vocab,
             c.text.tied ? "true" : "false");
    int rc = write_text(dir, "text_encoder/config.json", config, err);
    snprintf(path, sizeof path, "%s/text_encoder/model.safetensors", dir);
    return rc ? rc : write_component(path, FLUX2_TEXT_ENCODER, o, err);
}

static int folder(const char *dir, const struct tiny_flux2_options *o, struct error *err)
{
    const struct flux2_config c = config_of(o);
    char dit[600];
    snprintf(dit, sizeof dit,
             "{\"num_layers\": %d, \"num_single_layers\": %d, \"num_attention_heads\": 2, \"attention_head_dim\": 32, "
             "\"joint_attention_dim\": %d, \"in_channels\": 16, \"timestep_guidance_channels\": 256, "
             "\"mlp_ratio\": 3.0, \"axes_dims_rope\": [8, 8, 8, 8], \"rope_theta\": 2000, \"eps\": 1e-6, "
             "\"guidance_embeds\": false}",
             (int)c.dit.double_blocks, (int)c.dit.single_blocks, (int)c.dit.joint);
    const struct {
        const char *name, *text;
    } files[] = {// The index of a base model says nothing about being distilled.
                 {"model_index.json",
                  o->kept   ? "{\"_class_name\": \"Flux2KleinKVPipeline\", \"text_encoder_out_layers\": [1, 3, 5]}"
                  : o->base ? "{\"_class_name\": \"Flux2KleinPipeline\", \"text_encoder_out_layers\": [1, 3, 5]}"
                            : "{\"_class_name\": \"Flux2KleinPipeline\", \"is_distilled\": true, "
                              "\"text_encoder_out_layers\": [1, 3, 5]}"},
                 {"transformer/config.json", dit},
                 {"vae/config.json",
                  "{\"block_out_channels\": [8, 16, 32, 32], \"layers_per_block\": 2, \"latent_channels\": 4, "
                  "\"norm_num_groups\": 4, \"batch_norm_eps\": 1e-4}"}};
    static const char *const weights[2] = {"transformer", "vae"};
    char path[1200];
    int rc = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, weights[i]);
        mkdir(path, 0777);
    }
    for (int i = 0; i < 3 && !rc; i++)
        rc = write_text(dir, files[i].name, files[i].text, err);
    for (int i = 0; i < 2 && !rc; i++) {
        snprintf(path, sizeof path, "%s/%s/diffusion_pytorch_model.safetensors", dir, weights[i]);
        rc = write_component(path, i ? FLUX2_AUTOENCODER : FLUX2_DIT, o, err);
    }
    return rc;
}

int tiny_flux2_write(const char *dir, const struct tiny_flux2_options *o, struct error *err)
{
    char path[1200];
    mkdir(dir, 0777);
    int rc = text_encoder(dir, o, err);
    if (rc || !o->bfl)
        return rc ? rc : folder(dir, o, err);
    snprintf(path, sizeof path, "%s/transformer.safetensors", dir);
    rc = write_component(path, FLUX2_DIT, o, err);
    snprintf(path, sizeof path, "%s/ae.safetensors", dir);
    return rc ? rc : write_component(path, FLUX2_AUTOENCODER, o, err);
}
