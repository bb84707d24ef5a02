// SPDX-License-Identifier: Apache-2.0
#include "lab/klein.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/host.h"
#include "base/interrupt.h"
#include "lab/klein_part.h"

#define SPARE_BYTES ((int64_t)512 << 20) // plugin, programs and what allocators round up

static const char *const serving_names[] = {
    [KLEIN_RESIDENT] = "resident", [KLEIN_STAGED] = "staged", [KLEIN_COLD] = "cold"};

const char *klein_serving_name(enum klein_serving s)
{
    return serving_names[s];
}

const char *klein_part_name(enum klein_part p)
{
    static const char *const names[KLEIN_PARTS] = {"text encoder",  "preparation",   "transformer step", "update",
                                                   "image decoder", "image encoder", "references"};
    return names[p];
}

// Of its weights; KLEIN_UPDATE has none.
static enum flux2_component component_of(enum klein_part p)
{
    static const enum flux2_component of[KLEIN_PARTS] = {
        FLUX2_TEXT_ENCODER, FLUX2_DIT, FLUX2_DIT, FLUX2_COMPONENTS, FLUX2_AUTOENCODER, FLUX2_AUTOENCODER, FLUX2_DIT};
    return of[p];
}

bool klein_rounds_to_bf16(const struct klein *k)
{
    return !k->wide && k->policy.between == DT_BF16 && k->sampler != FLUX2_EXACT;
}

// Whether references are seen by steps as keys and values that are made once.
static bool keeps(const struct klein *k)
{
    return k->weights.config.kept_references && k->n_references;
}

// ---- modules

static struct flux2_build build_of(const struct klein *k)
{
    struct flux2_build how = {.batch = k->batch,
                              .rows = k->rows,
                              .columns = k->columns,
                              .hoisted_steps = k->schedule.steps + (keeps(k) ? 1 : 0), // and time 0, of references
                              .kept = keeps(k),
                              .handed = k->wide ? DT_F64 : k->policy.out,
                              .latent = k->latent};
    for (int i = 0; i < k->n_references; i++)
        how.reference += k->references[i][0] * k->references[i][1];
    return how;
}

static int build(const struct klein *k, enum klein_part part, const struct flux2_build *how, struct module *m,
                 struct error *err)
{
    const struct flux2_config *c = &k->weights.config;
    switch (part) {
    case KLEIN_TEXT:
        return flux2_text_module(c, 1, TAPS_NONE, m, err);
    case KLEIN_PREPARE:
        return flux2_prepare_module(c, how, m, err);
    case KLEIN_STEP:
        return flux2_dit_module(c, how, m, err);
    case KLEIN_KEEP:
        return flux2_reference_module(c, how, m, err);
    case KLEIN_DECODE:
        return flux2_decoder_module(c, how, m, err);
    default:
        return flux2_encoder_module(c, how, m, err);
    }
}

// The module of a part as it runs: under the policy, or in f64. An update is the sampler's own arithmetic.
static int write_out(struct klein *k, enum klein_part part, const struct flux2_build *how, struct module *to,
                     struct error *err)
{
    struct module f32, policy;
    if (part == KLEIN_UPDATE)
        return flux2_update_module(&k->weights.config, how, k->sampler, !k->wide && k->policy.between == DT_BF16,
                                   k->guided, to, err);
    module_init(&f32, &k->arena, klein_part_name(part));
    int rc = build(k, part, how, &f32, err);
    if (rc)
        return rc;
    if (k->wide)
        return module_retype_f64(&f32, to, err);
    module_init(&policy, &k->arena, klein_part_name(part));
    rc = module_apply_policy(&f32, &k->policy, false, k->precision ? &policy : to, err);
    return rc || !k->precision ? rc : module_matmul_precision(&policy, k->precision, k->emulated, to, err);
}

int klein_module(struct klein *k, enum klein_part part, const struct flux2_build *how, struct error *err)
{
    struct module *m = &k->modules[part];
    module_init(m, &k->arena, klein_part_name(part));
    int rc = write_out(k, part, how, m, err);
    // A step that shares its weights with what keeps references has them one by one, as that has.
    if (rc || (part != KLEIN_TEXT && (part != KLEIN_STEP || keeps(k))))
        return rc;
    return layers_apply(k->layers, worker_info(k->worker)->platform_name, m, &k->figures[part].rolled, err);
}

static int compile(struct klein *k, enum klein_part part, struct error *err)
{
    if (k->stages[part].compiled)
        return 0;
    int rc = stage_compile(&k->stages[part], k->worker, klein_part_name(part), &k->modules[part], k->traced, err);
    if (!rc) {
        k->figures[part].compile_ns = k->stages[part].program.compile_ns;
        k->figures[part].temporary_bytes = stage_temporary_bytes(&k->stages[part]);
        for (int i = 0; i < KERNEL_KINDS; i++)
            k->kernels.count[i] += k->stages[part].kernels.count[i];
    }
    return rc;
}

static bool has_part(const struct klein *k, enum klein_part part)
{
    return part == KLEIN_KEEP ? keeps(k) : part != KLEIN_ENCODE || k->n_references;
}

// ---- memory

static int64_t module_bytes(const struct klein *k, enum klein_part part)
{
    int64_t values, scales;
    module_weight_bytes(&k->modules[part], &values, &scales);
    return values + scales;
}

struct need {
    int64_t weights[FLUX2_COMPONENTS]; // on the device
    int64_t temporary;                 // the most that a program needs beside its arguments
    int64_t kept;                      // keys and values of references, which stay for all steps
    int64_t source;                    // random weights that are converted: the most of a component
};

static int need_of(const struct klein *k, struct need *n, struct error *err)
{
    memset(n, 0, sizeof *n);
    for (int i = 0; i < KLEIN_PARTS; i++) {
        if (!has_part(k, (enum klein_part)i))
            continue;
        enum flux2_component c = component_of((enum klein_part)i);
        if (c < FLUX2_COMPONENTS && i != KLEIN_KEEP)
            n->weights[c] += module_bytes(k, (enum klein_part)i);
        for (int r = 0; i == KLEIN_KEEP && r < k->modules[i].n_results; r++)
            n->kept += shape_bytes(&k->modules[i].instructions[k->modules[i].results[r]].shape);
        if (k->figures[i].temporary_bytes > n->temporary)
            n->temporary = k->figures[i].temporary_bytes;
    }
    bool converted = k->wide || k->policy.w != DT_BF16;
    for (int c = 0; c < FLUX2_COMPONENTS && converted && klein_weights_are_random(&k->weights); c++) {
        size_t bytes;
        int rc = klein_weights_bytes(&k->weights, (enum flux2_component)c, &bytes, err);
        if (rc)
            return rc;
        if ((int64_t)bytes > n->source)
            n->source = (int64_t)bytes;
    }
    return 0;
}

// What is free, and where: on the device when that says so and is not the host.
static int64_t free_bytes(struct klein *k, bool *on_host)
{
    struct host_facts h;
    struct worker_memory m;
    struct error ignored = {0};
    *on_host = true;
    if (worker_memory(k->worker, &m, &ignored) == 0 && m.has_device_stats && m.bytes_limit > 0) {
        *on_host = false;
        return m.bytes_limit - (m.bytes_in_use > 0 ? m.bytes_in_use : 0);
    }
    host_read(&h, "/");
    int64_t bytes = h.memory_available_bytes;
    if (h.cgroup_memory_bytes > 0 && (bytes < 0 || h.cgroup_memory_bytes < bytes))
        bytes = h.cgroup_memory_bytes;
    return bytes;
}

static int check_memory(struct klein *k, int64_t limit, struct error *err)
{
    struct need n;
    bool on_host = true;
    int rc = need_of(k, &n, err);
    if (rc)
        return rc;
    int64_t all = 0, most = 0;
    for (int c = 0; c < FLUX2_COMPONENTS; c++) {
        all += n.weights[c];
        most = n.weights[c] > most ? n.weights[c] : most;
    }
    int64_t other = n.temporary + n.kept + n.source + SPARE_BYTES;
    int64_t free = limit ? limit : free_bytes(k, &on_host);
    k->needed_bytes = (k->serving == KLEIN_RESIDENT ? all : most) + other;
    if (free < 0 || k->needed_bytes <= free)
        return 0;
    char staged[160] = "";
    if (k->serving == KLEIN_RESIDENT && most + other <= free)
        snprintf(staged, sizeof staged, "; --staged, which holds one component at a time, needs %.1f GB",
                 (double)(most + other) * 1e-9);
    else // random weights are made in bf16 first, whatever the policy
        snprintf(staged, sizeof staged, "; %s--staged or a smaller image may fit",
                 klein_weights_are_random(&k->weights) ? "" : "a policy with smaller weights (--policy w8a16), ");
    return error_set(err, ERR_MEMORY, k->weights.name,
                     "needs %.1f GB of memory (%.1f GB of weights, %.1f GB while it runs) and %.1f GB are free%s%s",
                     (double)k->needed_bytes * 1e-9, (double)(k->needed_bytes - other) * 1e-9, (double)other * 1e-9,
                     (double)free * 1e-9, on_host ? "" : " on the device", staged);
}

// ---- opening

static int set_sizes(struct klein *k, const struct klein_options *o, struct error *err)
{
    struct flux2_config *c = &k->weights.config;
    c->guided = c->guided || o->guided;
    if (o->text_tokens)
        c->text_tokens = o->text_tokens;
    int rc = flux2_tokens(o->height, o->width, &k->rows, &k->columns, err);
    k->height = o->height;
    k->width = o->width;
    k->batch = o->batch ? o->batch : 1;
    k->serving = o->serving;
    k->traced = o->traced;
    k->layers = o->layers;
    k->sampler = o->sampler;
    if (!rc && (k->batch < 1 || k->batch > KLEIN_MAX_BATCH))
        rc = error_set(err, ERR_USAGE, "--batch", "must be from 1 to %d, not %" PRId64, KLEIN_MAX_BATCH, k->batch);
    if (!rc && (o->n_references < 0 || o->n_references > KLEIN_MAX_REFERENCES))
        rc = error_set(err, ERR_USAGE, "--reference", "at most %d images are taken", KLEIN_MAX_REFERENCES);
    for (int i = 0; i < o->n_references && !rc; i++)
        rc = flux2_tokens(o->references[i][0], o->references[i][1], &k->references[i][0], &k->references[i][1], err);
    k->n_references = rc ? 0 : o->n_references;
    k->guidance = c->guided ? (isnan(o->guidance) ? 4 : o->guidance) : 1;
    k->guided = c->guided && k->guidance > 1;
    k->wide = !o->policy;
    k->precision = o->precision;
    k->latent = k->wide ? DT_F64 : DT_F32;
    if (!rc && o->policy)
        rc = policy_parse(&k->policy, o->policy, err);
    k->image = k->wide ? DT_F64 : k->policy.out;
    if (!rc && o->policy && k->policy.a_static)
        rc = error_set(err, ERR_USAGE, k->policy.name, "has static scales, which have to be calibrated; take w8a8");
    if (!rc)
        rc = flux2_schedule_make(&k->schedule, k->sampler, !k->wide && k->policy.between == DT_BF16,
                                 k->rows * k->columns, o->steps ? o->steps : c->steps, err);
    return rc;
}

static int make_modules(struct klein *k, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < KLEIN_PARTS && !rc; i++) {
        struct flux2_build how = build_of(k);
        if (i == KLEIN_ENCODE && k->n_references)
            how = (struct flux2_build){.batch = 1, .rows = k->references[0][0], .columns = k->references[0][1]};
        if (has_part(k, (enum klein_part)i))
            rc = klein_module(k, (enum klein_part)i, &how, err);
    }
    return rc;
}

static int make_tables(struct klein *k, struct error *err)
{
    const struct flux2_config *c = &k->weights.config;
    struct flux2_build how = build_of(k);
    size_t n = (size_t)((c->text_tokens + k->rows * k->columns + how.reference) * (c->dit.head_dim / 2));
    size_t n_text = (size_t)(c->text_tokens * (c->text.head_dim / 2));
    for (int i = 0; i < 2; i++) {
        k->rope[i] = arena_new(&k->arena, float, n, err);
        k->text_rope[i] = arena_new(&k->arena, float, n_text, err);
        if (!k->rope[i] || !k->text_rope[i])
            return ERR_MEMORY;
    }
    decoder_rope(&c->text, 0, c->text_tokens, k->text_rope[0], k->text_rope[1]);
    flux2_rope(c, k->rows, k->columns, k->n_references, (const int64_t(*)[2])k->references, k->rope[0], k->rope[1]);
    return 0;
}

// The inputs that are the same in every request: tables, times, the steps' numbers.
static int set_constants(struct klein *k, enum klein_part part, struct error *err)
{
    struct stage *s = &k->stages[part];
    if (part == KLEIN_PREPARE) {
        float times[FLUX2_MAX_STEPS + 1] = {0}; // behind the last one: 0, of references that are kept
        memcpy(times, k->schedule.times, (size_t)k->schedule.steps * sizeof *times);
        return stage_upload(s, "timesteps", times, err);
    }
    if (part == KLEIN_TEXT || part == KLEIN_STEP || part == KLEIN_KEEP) {
        const struct flux2_config *c = &k->weights.config;
        float *const *tables = part == KLEIN_TEXT ? k->text_rope : k->rope;
        int64_t from = part == KLEIN_KEEP ? (c->text_tokens + k->rows * k->columns) * (c->dit.head_dim / 2) : 0;
        int32_t row = (int32_t)k->schedule.steps;
        int rc = stage_upload(s, "rope_cos", tables[0] + from, err);
        rc = rc ? rc : stage_upload(s, "rope_sin", tables[1] + from, err);
        return rc || part != KLEIN_KEEP ? rc : stage_upload(s, "step", &row, err);
    }
    float guidance = (float)k->guidance;
    return part == KLEIN_UPDATE && k->guided ? stage_upload(s, "guidance", &guidance, err) : 0;
}

static int upload_scalars(struct klein *k, struct error *err)
{
    int rc = 0;
    for (int64_t i = 0; i < k->schedule.steps && !rc; i++) {
        int32_t number = (int32_t)i;
        struct worker_tensor step = {.fd = -1, .shape = {.dtype = DT_S32}, .name = "step"};
        struct worker_tensor delta = {.fd = -1, .shape = {.dtype = DT_F32}, .name = "delta"};
        rc = worker_upload_bytes(k->worker, &number, sizeof number, &step, &k->scalars[i][0], NULL, err);
        if (!rc)
            rc = worker_upload_bytes(k->worker, &k->schedule.deltas[i], sizeof(float), &delta, &k->scalars[i][1], NULL,
                                     err);
    }
    return rc;
}

int klein_compile(struct klein *k, enum klein_part part, const struct progress *progress, struct error *err)
{
    char what[64];
    if (k->stages[part].compiled)
        return 0;
    snprintf(what, sizeof what, "compile %s", klein_part_name(part));
    progress_report(progress, what, 0, 0);
    int rc = compile(k, part, err);
    return rc ? rc : set_constants(k, part, err);
}

static int start_worker(struct klein *k, const struct klein_options *o, struct error *err)
{
    struct worker_options w = o->worker;
    w.label = k->wide ? "f64" : k->policy.name;
    w.skip_hash = true;
    int rc = worker_start(&k->worker, &w, err);
    if (!rc && !k->wide)
        rc = policy_check(&k->policy, worker_info(k->worker)->platform_name, err);
    if (rc)
        return rc;
    const struct worker_info *info = worker_info(k->worker);
    k->device = info->devices[info->device].kind;
    // XLA's CPU multiplies f32 as f32 whatever is asked.
    k->emulated = k->precision != MATMUL_HIGHEST && strcmp(info->platform_name, "cpu") == 0;
    return 0;
}

// All that can be said before programs are compiled.
static int begin(struct klein *k, const struct klein_options *o, struct error *err)
{
    memset(k, 0, sizeof *k);
    arena_init(&k->arena);
    k->context[0] = k->context[1] = k->text[0] = k->text[1] = k->latents = k->reference = -1;
    k->kept[0] = k->kept[1] = -1;
    memset(k->scalars, -1, sizeof k->scalars);
    int rc = klein_weights_open(&k->weights, &o->weights, err);
    if (!rc)
        rc = set_sizes(k, o, err);
    if (!rc)
        rc = start_worker(k, o, err);
    if (!rc)
        rc = make_modules(k, err);
    if (!rc)
        rc = make_tables(k, err);
    if (!rc) // by the weights alone, before minutes of compiling
        rc = check_memory(k, o->memory_bytes, err);
    return rc;
}

int klein_check(const struct klein_options *o, struct klein_need *need, struct error *err)
{
    struct klein k;
    int rc = begin(&k, o, err);
    if (!rc && need) {
        *need = (struct klein_need){.bytes = k.needed_bytes, .free = o->memory_bytes, .on_host = true};
        if (!o->memory_bytes)
            need->free = free_bytes(&k, &need->on_host);
    }
    klein_close(&k);
    return rc;
}

int klein_open(struct klein *k, const struct klein_options *o, const struct progress *progress, struct error *err)
{
    int rc = begin(k, o, err);
    for (int i = 0; i < KLEIN_PARTS && !rc; i++) {
        // The encoder is compiled for each reference; cold programs when their turn comes.
        if (i != KLEIN_ENCODE && has_part(k, (enum klein_part)i) &&
            ((k->serving != KLEIN_COLD && !o->lazy) || i == KLEIN_UPDATE))
            rc = klein_compile(k, (enum klein_part)i, progress, err);
    }
    if (!rc)
        rc = check_memory(k, o->memory_bytes, err);
    if (!rc)
        rc = upload_scalars(k, err);
    for (int c = 0; c < FLUX2_COMPONENTS && !rc && k->serving == KLEIN_RESIDENT; c++)
        rc = klein_begin(k, (enum flux2_component)c, progress, err);
    return rc;
}

void klein_close(struct klein *k)
{
    for (int i = 0; i < KLEIN_PARTS; i++) {
        if (k->stages[i].compiled)
            stage_release(&k->stages[i]);
    }
    worker_stop(k->worker);
    k->worker = NULL;
    klein_weights_close(&k->weights);
    arena_release(&k->arena);
}

// ---- loading

static int load(struct klein *k, enum klein_part part, const struct checkpoint *from, struct error *err)
{
    struct stage *s = &k->stages[part];
    int rc = interrupt_check("loading weights", err);
    if (!rc)
        rc = stage_load(s, from, err);
    k->figures[part].load_ns = s->weights.ns;
    k->figures[part].zero_copy_bytes = s->weights.zero_copy_bytes;
    k->figures[part].copied_bytes = s->weights.copied_bytes;
    return rc;
}

// The image encoder is another one for each reference, and comes and goes with them.
static bool loads_with(const struct klein *k, enum klein_part part, enum flux2_component c)
{
    return component_of(part) == c && part != KLEIN_ENCODE && has_part(k, part);
}

int klein_begin(struct klein *k, enum flux2_component c, const struct progress *progress, struct error *err)
{
    const struct checkpoint *from;
    char what[64];
    bool wanted = false;
    int rc = 0;
    if (k->serving == KLEIN_COLD)
        klein_weights_chill(&k->weights, c);
    for (int i = 0; i < KLEIN_PARTS && !rc; i++) {
        if (!loads_with(k, (enum klein_part)i, c))
            continue;
        rc = klein_compile(k, (enum klein_part)i, progress, err);
        wanted = wanted || !k->stages[i].loaded;
    }
    if (rc || !wanted)
        return rc;
    snprintf(what, sizeof what, "%s %s", klein_weights_are_random(&k->weights) ? "make" : "load",
             flux2_component_name(c));
    progress_report(progress, what, 0, 0);
    uint64_t start = clock_ns();
    rc = klein_weights_get(&k->weights, c, &from, err);
    uint64_t made = clock_ns() - start;
    for (int i = 0; i < KLEIN_PARTS && !rc; i++) {
        if (!loads_with(k, (enum klein_part)i, c))
            continue;
        if (i == KLEIN_KEEP) {
            rc = stage_borrow(&k->stages[i], &k->stages[KLEIN_STEP], err);
            continue;
        }
        k->figures[i].make_ns = made;
        made = 0; // counted once
        rc = load(k, (enum klein_part)i, from, err);
    }
    // What the device reads in place stays mapped there.
    klein_weights_drop(&k->weights, c);
    return rc;
}

int klein_end(struct klein *k, enum flux2_component c, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < KLEIN_PARTS && !rc && k->serving != KLEIN_RESIDENT; i++) {
        if (!loads_with(k, (enum klein_part)i, c))
            continue;
        rc = stage_drop(&k->stages[i], err);
        if (!rc && k->serving == KLEIN_COLD)
            stage_release(&k->stages[i]);
    }
    return rc;
}
