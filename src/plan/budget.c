// SPDX-License-Identifier: Apache-2.0
#include "plan/budget.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/host.h"
#include "chips/local.h"

// --- what the model is
// -----------------------------------------------------------------------------------------------------------------

// "24x8x64": layers, heads of keys and values, head_dim.
static int parse_cache_shape(struct arch *a, const char *text, struct error *err)
{
    int64_t n[3] = {0};
    char copy[64], *part = copy;
    bool ok = snprintf(copy, sizeof copy, "%s", text) < (int)sizeof copy;
    for (int i = 0; i < 3 && ok; i++) {
        char *x = strchr(part, 'x');
        if (x)
            *x = '\0';
        ok = parse_i64(part, &n[i]) && n[i] >= 1 && n[i] <= 1 << 20 && (i < 2) == (x != NULL);
        part = x ? x + 1 : part;
    }
    if (!ok)
        return error_set(err, ERR_USAGE, "--cache",
                         "\"%.40s\" is not LAYERSxHEADSxDIM, heads being those of keys and values, as in 24x8x64",
                         text);
    a->layers = n[0];
    a->heads = a->kv_heads = n[1];
    a->head_dim = a->v_head_dim = n[2];
    return 0;
}

static bool is_file(const char *path, const char *end)
{
    return str_ends_with(path, end) && !dir_exists(path);
}

// The folder of a path, in the arena.
static const char *folder_of(struct arena *arena, const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(arena, path, (size_t)(slash - path), err) : ".";
}

static int read_config(struct budget *b, const char *path, struct error *err)
{
    struct hf_config c;
    int rc = hf_config_open(&c, path, err);
    if (!rc)
        rc = arch_from_config(&b->arch, &c, &b->arena, err);
    hf_config_release(&c);
    return rc;
}

// Opens the tensors of a path where there are any.
static int read_tensors(struct budget *b, const char *path, struct error *err)
{
    int rc = checkpoint_open(&b->checkpoint, path, err);
    b->has_checkpoint = !rc;
    return rc;
}

static bool holds_tensors(const char *folder)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "diffusion_pytorch_model.safetensors",
                                        "diffusion_pytorch_model.safetensors.index.json"};
    char path[1200];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (file_exists(path))
            return true;
    }
    return false;
}

// A checkpoint of which nothing but the tensors is known.
static int weights_alone(struct budget *b, struct error *err)
{
    b->arch.kind = ARCH_COUNT_ONLY;
    b->arch.name = b->arch.source = b->workload;
    b->arch.family = "tensors";
    b->arch.note = "weights alone: without a configuration nothing is known about cache and activations";
    return weights_from_checkpoint(&b->stored, &b->checkpoint, NULL, &b->arena, err);
}

// Whether a folder's files differ from its configuration by more than a tied table or a head for one task.
static int compare_counts(struct budget *b, struct error *err)
{
    double said = b->arch.parameters, held = b->stored.parameters,
           table = (double)b->arch.vocab * (double)b->arch.hidden;
    if (said <= 0 || fabs(said - held) <= 0.01 * said || fabs(said - held) <= table)
        return 0;
    b->mismatch =
        arena_printf(&b->arena, err,
                     "the configuration makes %.0f parameters, the files hold %.0f: weights are counted as the "
                     "files hold them",
                     said, held);
    return b->mismatch ? 0 : ERR_MEMORY;
}

static int read_folder(struct budget *b, const char *folder, bool config, bool tensors, struct error *err)
{
    int rc = config ? read_config(b, folder, err) : 0;
    if (!rc && tensors) {
        rc = read_tensors(b, folder, err);
        if (rc && config)
            error_context(err, "%s/config.json alone can be given, too", folder);
    }
    if (rc)
        return rc;
    if (!config)
        return weights_alone(b, err);
    if (!tensors)
        return weights_from_arch(&b->stored, &b->arch, &b->arena, err);
    rc = weights_from_checkpoint(&b->stored, &b->checkpoint, &b->arch, &b->arena, err);
    return rc ? rc : compare_counts(b, err);
}

// The other parts of a model that is split over files NAME-00001-of-00003.gguf, of which the first is open.
static int read_gguf_parts(struct budget *b, const struct arch *a, struct error *err)
{
    const struct gguf_value *split = gguf_find(b->checkpoint.gguf, "split.count");
    char path[1200], end[32];
    size_t n = strlen(b->workload);
    if (!split || split->type != GGUF_U16 || split->u < 2)
        return 0;
    int parts = (int)split->u, rc = 0;
    snprintf(end, sizeof end, "-%05d-of-%05d.gguf", 1, parts);
    if (!str_ends_with(b->workload, end))
        return error_set(err, ERR_INPUT, b->workload,
                         "is one of %d files that a model is split over: give the first, whose name ends with %s",
                         parts, end);
    for (int i = 2; i <= parts && !rc; i++) {
        struct checkpoint part;
        snprintf(path, sizeof path, "%.*s-%05d-of-%05d.gguf", (int)(n - strlen(end)), b->workload, i, parts);
        rc = checkpoint_open(&part, path, err);
        if (rc)
            break;
        rc = weights_add_checkpoint(&b->stored, &part, a, &b->arena, err);
        checkpoint_close(&part);
    }
    return rc;
}

static int read_gguf(struct budget *b, bool alone, struct error *err)
{
    int rc = read_tensors(b, b->workload, err);
    if (!rc && !b->checkpoint.gguf)
        rc = error_set(err, ERR_INPUT, b->workload, "is not a GGUF file");
    if (rc)
        return rc;
    if (alone) {
        rc = weights_alone(b, err);
        return rc ? rc : read_gguf_parts(b, NULL, err);
    }
    rc = arch_from_gguf(&b->arch, b->checkpoint.gguf, b->workload, &b->arena, err);
    if (!rc)
        rc = weights_from_checkpoint(&b->stored, &b->checkpoint, &b->arch, &b->arena, err);
    return rc ? rc : read_gguf_parts(b, &b->arch, err);
}

// A pipeline of diffusers: a folder for each of its models, named in model_index.json.
static bool is_pipeline(const char *folder)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/model_index.json", folder);
    return file_exists(path);
}

static int read_pipeline(struct budget *b, const char *folder, struct error *err)
{
    static const struct {
        const char *name;
        enum arch_part part;
    } models[] = {
        {"transformer", ARCH_DENOISER},        {"unet", ARCH_DENOISER},
        {"text_encoder", ARCH_TEXT_ENCODER},   {"text_encoder_2", ARCH_TEXT_ENCODER},
        {"text_encoder_3", ARCH_TEXT_ENCODER}, {"image_encoder", ARCH_VISION},
        {"vae", ARCH_IMAGE_DECODER},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models && !rc; i++) {
        struct checkpoint c;
        char path[1200];
        size_t before = b->stored.n;
        snprintf(path, sizeof path, "%s/%s", folder, models[i].name);
        if (!dir_exists(path))
            continue;
        rc = checkpoint_open(&c, path, err);
        if (rc)
            break;
        rc = weights_add_checkpoint(&b->stored, &c, NULL, &b->arena, err);
        checkpoint_close(&c);
        for (size_t k = before; k < b->stored.n; k++) {
            b->stored.list[k].part = models[i].part;
            b->stored.list[k].split = ARCH_WHOLE;
        }
    }
    if (!rc && !b->stored.n)
        rc = error_set(err, ERR_INPUT, folder, "holds none of the models of its model_index.json");
    b->arch.kind = ARCH_COUNT_ONLY;
    b->arch.name = b->arch.source = folder;
    b->arch.family = "pipeline";
    b->arch.note =
        "weights alone, of all models of the pipeline; builtin:flux2-klein-4b also knows what an image takes";
    return rc;
}

static int no_model(const char *path, struct error *err)
{
    bool built_in = false;
    for (size_t i = 0; arch_builtin_name(i); i++)
        built_in |= strcmp(arch_builtin_name(i), path) == 0;
    return error_set(err, ERR_INPUT, path,
                     "%s%s%sis no model: a directory with config.json, a config.json, a .safetensors or .gguf file, or "
                     "builtin:NAME is asked for",
                     built_in ? "did you mean builtin:" : "", built_in ? path : "", built_in ? "? It " : "");
}

static int read_workload(struct budget *b, const struct budget_options *o, struct error *err)
{
    const char *path = o->workload;
    char config[1200];
    b->workload = path;
    if (strncmp(path, "builtin:", 8) == 0) {
        int rc = arch_builtin(&b->arch, path, &b->arena, err);
        return rc ? rc : weights_from_arch(&b->stored, &b->arch, &b->arena, err);
    }
    if (is_file(path, ".gguf"))
        return read_gguf(b, o->weights_only, err);
    const char *folder = dir_exists(path) ? path : folder_of(&b->arena, path, err);
    if (!folder)
        return ERR_MEMORY;
    snprintf(config, sizeof config, "%s/config.json", folder);
    bool has_config = file_exists(config) && !o->weights_only;
    if (is_file(path, ".safetensors") || is_file(path, ".index.json")) {
        int rc = read_tensors(b, path, err);
        if (rc || !has_config)
            return rc ? rc : weights_alone(b, err);
        rc = read_config(b, folder, err);
        if (!rc)
            rc = weights_from_checkpoint(&b->stored, &b->checkpoint, &b->arch, &b->arena, err);
        return rc ? rc : compare_counts(b, err);
    }
    if (is_file(path, ".json")) {
        int rc = read_config(b, path, err);
        return rc ? rc : weights_from_arch(&b->stored, &b->arch, &b->arena, err);
    }
    if (!dir_exists(path))
        return no_model(path, err);
    bool tensors = holds_tensors(path);
    if (!has_config && !tensors && is_pipeline(path))
        return read_pipeline(b, path, err);
    if (!has_config && !tensors)
        return error_set(err, ERR_INPUT, path, "holds neither config.json nor model.safetensors");
    return read_folder(b, path, has_config, tensors, err);
}

static int read_model(struct budget *b, const struct budget_options *o, struct error *err)
{
    if (!o->workload == !o->params)
        return error_set(err, ERR_USAGE, "WORKLOAD",
                         "give a model or --params, one of them; `assay help budget` says more");
    if (o->cache && !o->params)
        return error_set(err, ERR_USAGE, "--cache", "goes with --params: a model says itself what it keeps");
    if (o->workload)
        return read_workload(b, o, err);
    b->workload = o->params;
    int rc = arch_from_count(&b->arch, o->params, &b->arena, err);
    if (!rc && o->cache)
        rc = parse_cache_shape(&b->arch, o->cache, err);
    return rc ? rc : weights_from_arch(&b->stored, &b->arch, &b->arena, err);
}

// --- what is asked of it
// -----------------------------------------------------------------------------------------------------------------

static int remat_of(const char *name, enum remat *out, struct error *err)
{
    static const char *const names[] = {"none", "selective", "full"};
    *out = REMAT_NONE;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum remat)i;
            return 0;
        }
    }
    return name ? error_set(err, ERR_USAGE, "--remat", "is none, selective or full, not \"%.40s\"", name) : 0;
}

// A type that values are computed in: of the policy, of the checkpoint, or bf16.
static enum dtype compute_type(const struct budget *b)
{
    if (b->has_policy)
        return b->policy.between ? b->policy.between : DT_BF16;
    bool wide = b->arch.dtype == DT_F32 && !b->stored.stored;
    return wide || b->arch.dtype == DT_F16 ? b->arch.dtype : DT_BF16;
}

static int choose_weights(struct budget *b, const struct budget_options *o, struct error *err)
{
    struct policy p;
    int rc = 0;
    if (o->policy) {
        rc = policy_parse(&b->policy, o->policy, err);
        b->has_policy = true;
    }
    b->weights = b->stored;
    if (!rc && o->train) {
        rc = recipe_find(o->train, &b->job.recipe, err);
        if (!rc && b->has_policy)
            recipe_under_policy(&b->job.recipe, &b->policy);
        if (!rc && b->job.recipe.optimizer == OPTIMIZER_ADAFACTOR && b->arch.kind == ARCH_COUNT_ONLY &&
            !b->has_checkpoint)
            rc = error_set(err, ERR_USAGE, "--train",
                           "adafactor's state follows from the shapes of matrices: give a model");
    }
    if (!rc && (b->has_policy || o->train)) {
        rc = b->has_policy ? 0 : policy_parse(&p, "bf16", err);
        if (!rc)
            rc = weights_under_policy(&b->weights, &b->stored, &b->arch, b->has_policy ? &b->policy : &p, &b->arena,
                                      err);
    }
    if (!rc && o->unpacked)
        weights_unpack(&b->weights);
    return rc;
}

static int choose_job(struct budget *b, const struct budget_options *o, struct error *err)
{
    struct budget_job *j = &b->job;
    const struct arch *a = &b->arch;
    enum dtype type = compute_type(b);
    int64_t usual = a->max_positions && a->max_positions < 4096 ? a->max_positions : 4096;
    j->arch = a;
    j->weights = &b->weights;
    j->kv = b->has_policy && b->policy.kv ? b->policy.kv : type;
    j->item_bytes = dtype_bits(type) / 8.0;
    j->train = o->train != NULL;
    j->flash = !o->naive_attention;
    j->batch = o->batch;
    j->seq = o->seq ? o->seq : usual;
    j->page = o->page ? o->page : 16;
    j->prefill = o->prefill ? o->prefill : 2048;
    j->height = o->height ? o->height : 1024;
    j->width = o->width ? o->width : 1024;
    j->reserve_bytes = o->reserve_bytes;
    b->utilization = o->utilization > 0 ? o->utilization : 1;
    if (j->batch < 0 || j->seq < 1 || j->page < 1 || j->prefill < 1 || j->height < 16 || j->width < 16 ||
        !(j->reserve_bytes >= 0) || b->utilization > 1)
        return error_set(err, ERR_USAGE, "--batch",
                         "batch, seq, page, prefill, height and width are above zero, a reserve is not below it, and "
                         "utilization is at most 1");
    return remat_of(o->remat, &j->remat, err);
}

// --- cases
// -----------------------------------------------------------------------------------------------------------------

int budget_case_begin(const struct budget *b, struct budget_case *c, const struct chip_target *target,
                      const struct layout *layout, struct arena *arena, struct error *err)
{
    struct str text;
    memset(c, 0, sizeof *c);
    c->limit = c->most_sequences = c->most_tokens = NAN;
    c->layout = layout ? *layout : layout_single();
    str_init(&text);
    layout_spell(&c->layout, &text);
    c->layout_text = arena_strdup(arena, str_text(&text), err);
    if (target) {
        str_clear(&text);
        chip_target_spell(target, &text);
        c->has_target = true;
        c->target = *target;
        c->target_text = arena_strdup(arena, str_text(&text), err);
        c->nominal = chip_memory(target->chip, CHIP_PER_DEVICE);
        c->usable = chip_memory_usable(target->chip, CHIP_PER_DEVICE);
        c->limit = (isnan(c->usable.value) ? c->nominal.value : c->usable.value) * b->utilization;
    }
    str_release(&text);
    return c->layout_text && (!target || c->target_text) ? 0 : ERR_MEMORY;
}

static int add_case(struct budget *b, const struct chip_target *target, const struct layout *l, struct error *err)
{
    struct budget_case *c = &b->cases[b->n_cases];
    struct weights_local local;
    int rc = budget_case_begin(b, c, target, l, &b->arena, err);
    if (rc)
        return rc;
    c->batch = b->job.batch ? b->job.batch : layout_batch_ways(l) * (l->microbatches ? l->microbatches : 1);
    weights_on_device(&b->weights, &b->arch, l, &local);
    rc = budget_evaluate(&b->job, &local, c, &b->arena, err);
    if (rc)
        return rc;
    b->n_cases++;
    budget_capacity(&b->job, &local, c);
    return budget_fixes(b, c, err);
}

// What a layout may divide: of the job that was asked for.
static struct layout_limits limits_of(const struct budget *b)
{
    struct layout_limits limits = budget_limits(&b->job);
    limits.batch = b->job.batch;
    limits.seq = b->arch.kind == ARCH_DIFFUSION ? 0 : b->job.seq;
    return limits;
}

static int check_kind(const struct budget *b, const struct layout *l, struct error *err)
{
    if (b->arch.kind == ARCH_DIFFUSION &&
        (l->ways[LAYOUT_TP] > 1 || layout_sequence_ways(l) > 1 || l->ways[LAYOUT_PP] > 1))
        return error_set(err, ERR_USAGE, "--layout",
                         "activations of an image model under tp, pp or a divided sequence are not known here; dp and "
                         "fsdp are");
    if (b->arch.kind == ARCH_ENCODER_DECODER && l->ways[LAYOUT_PP] > 1)
        return error_set(err, ERR_USAGE, "--layout",
                         "pp: stages of a decoder need what the encoder made, which would go past every stage between "
                         "them; that is not counted here, use fsdp or tp");
    if (b->arch.kind == ARCH_COUNT_ONLY && l->ways[LAYOUT_EP] > 1)
        return error_set(err, ERR_USAGE, "--layout",
                         "ep divides experts, and which weights are experts' is not known; give a model");
    if (b->arch.kind == ARCH_COUNT_ONLY && !b->arch.layers && l->ways[LAYOUT_PP] > 1)
        return error_set(err, ERR_USAGE, "--layout",
                         "pp divides layers, and how many there are is not known; give a model");
    return 0;
}

// Layouts that were asked for must be possible; presets are tried, and what cannot be is left out with its reason.
static int target_cases(struct budget *b, const struct budget_options *o, const struct chip_target *t,
                        struct error *err)
{
    struct layout_limits limits = limits_of(b);
    struct layout l = layout_single();
    int rc = 0;
    for (size_t i = 0; i < o->n_layouts && !rc; i++) {
        rc = layout_parse(&l, o->layouts[i], t ? t->devices : 0, err);
        if (!rc)
            rc = layout_check(&l, &limits, err);
        if (!rc)
            rc = check_kind(b, &l, err);
        if (!rc)
            rc = add_case(b, t, &l, err);
    }
    if (rc || o->n_layouts)
        return rc;
    if (!t || t->devices == 1)
        return add_case(b, t, &l, err);
    for (int i = 0; layout_preset(i) && !rc; i++) {
        struct error why = {0};
        if (layout_parse(&l, layout_preset(i), t->devices, &why) || layout_check(&l, &limits, &why) ||
            check_kind(b, &l, &why)) {
            b->skipped = arena_printf(&b->arena, err, "%s%s%s: %s", b->skipped ? b->skipped : "",
                                      b->skipped ? "; " : "", layout_preset(i), why.message);
            rc = b->skipped ? 0 : ERR_MEMORY;
        } else {
            rc = add_case(b, t, &l, err);
        }
    }
    return rc;
}

static int make_cases(struct budget *b, const struct budget_options *o, struct error *err)
{
    struct host_facts host;
    size_t per = o->n_layouts ? o->n_layouts : 8, targets = o->n_targets ? o->n_targets : 1;
    if (o->n_targets > BUDGET_MAX_TARGETS || o->n_layouts > BUDGET_MAX_LAYOUTS)
        return error_set(err, ERR_USAGE, "--chip", "give at most %d chips and %d layouts", (int)BUDGET_MAX_TARGETS,
                         (int)BUDGET_MAX_LAYOUTS);
    b->cases = arena_new(&b->arena, struct budget_case, per * targets, err);
    if (!b->cases)
        return ERR_MEMORY;
    if (!o->n_targets)
        return target_cases(b, o, NULL, err);
    host_read(&host, "/");
    int rc = 0;
    for (size_t i = 0; i < o->n_targets && !rc; i++) {
        struct chip_target t;
        rc = chip_target_parse(o->targets[i], &t, err);
        if (!rc && strcmp(t.chip->name, "local") == 0)
            rc = chip_get(&b->arena, "local", host.model, NULL, &t.chip, err);
        if (!rc)
            rc = target_cases(b, o, &t, err);
    }
    return rc;
}

int budget_open(struct budget *b, const struct budget_options *o, struct error *err)
{
    memset(b, 0, sizeof *b);
    arena_init(&b->arena);
    int rc = read_model(b, o, err);
    if (!rc)
        rc = choose_weights(b, o, err);
    if (!rc)
        rc = choose_job(b, o, err);
    return rc ? rc : make_cases(b, o, err);
}

void budget_close(struct budget *b)
{
    if (b->has_checkpoint)
        checkpoint_close(&b->checkpoint);
    arena_release(&b->arena);
}
