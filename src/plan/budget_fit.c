// SPDX-License-Identifier: Apache-2.0
// How much fits, and what would make fit what does not.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "plan/budget.h"

enum { MOST = 1 << 30 };

// The largest n in [0, MOST] with bytes(n * step) <= limit: bytes never fall as n grows.
static double largest(const struct budget_job *job, const struct weights_local *local, const struct budget_case *c,
                      int64_t batch_step, int64_t seq_step)
{
    int64_t low = 0, high = MOST;
    while (low < high) {
        int64_t n = low + (high - low + 1) / 2;
        int64_t batch = batch_step ? n * batch_step : c->batch, seq = seq_step ? n * seq_step : job->seq;
        if (budget_bytes(job, local, c, batch, seq) <= c->limit)
            low = n;
        else
            high = n - 1;
    }
    return (double)low;
}

void budget_capacity(const struct budget_job *job, const struct weights_local *local, struct budget_case *c)
{
    const struct arch *a = job->arch;
    bool counts_only = a->kind == ARCH_COUNT_ONLY && (job->train || !a->layers);
    c->most_sequences = c->most_tokens = NAN;
    if (isnan(c->limit) || counts_only)
        return;
    int64_t ways = layout_batch_ways(&c->layout);
    if (job->train && c->layout.microbatches)
        ways *= c->layout.microbatches;
    c->most_sequences = largest(job, local, c, ways, 0) * (double)ways;
    if (a->kind == ARCH_DIFFUSION || a->kind == ARCH_ENCODER_DECODER)
        return;
    int64_t step = layout_sequence_ways(&c->layout) * (c->layout.sp ? c->layout.ways[LAYOUT_TP] : 1);
    step = !job->train && job->page > 1 && step % job->page ? step * job->page : step;
    c->most_tokens = largest(job, local, c, 0, step) * (double)step;
}

// --- changes
// -----------------------------------------------------------------------------------------------------------------

struct changes {
    struct budget *b;
    struct budget_case *c;
    struct error *err;
    int rc;
};

// One more change, priced.
static bool note(struct changes *s, const char *change, double device, double limit)
{
    if (s->c->n_fixes == BUDGET_MAX_FIXES || s->rc)
        return false;
    struct budget_fix *f = &s->c->fixes[s->c->n_fixes];
    *f = (struct budget_fix){arena_strdup(&s->b->arena, change, s->err), device, device <= limit};
    s->rc = f->change ? 0 : ERR_MEMORY;
    s->c->n_fixes += !s->rc;
    return f->fits;
}

// The job changed, on the same devices in the same layout.
static void try_job(struct changes *s, const char *change, const struct budget_job *job)
{
    struct weights_local local;
    weights_on_device(job->weights, job->arch, &s->c->layout, &local);
    double bytes = budget_bytes(job, &local, s->c, s->c->batch, job->seq);
    if (bytes < s->c->device)
        note(s, change, bytes, s->c->limit);
}

static void try_weights(struct changes *s, const char *policy_text)
{
    struct policy p;
    struct weights w = {.n = 0};
    struct str change;
    if (s->rc)
        return;
    s->rc = policy_parse(&p, policy_text, s->err);
    if (!s->rc)
        s->rc = weights_under_policy(&w, &s->b->stored, &s->b->arch, &p, &s->b->arena, s->err);
    if (s->rc || w.bytes + w.scale_bytes >= s->b->weights.bytes + s->b->weights.scale_bytes)
        return;
    struct budget_job job = s->b->job;
    job.weights = &w;
    str_init(&change);
    str_addf(&change, "weights as %s (--policy %s)", dtype_name(p.w), policy_text);
    try_job(s, str_text(&change), &job);
    str_release(&change);
}

static void try_serving(struct changes *s)
{
    struct budget_job job = s->b->job;
    if (s->b->weights.n && s->b->arch.kind != ARCH_COUNT_ONLY) {
        try_weights(s, "w8a16");
        try_weights(s, "w4a16");
    }
    if (dtype_bits(job.kv) > 8) {
        job.kv = DT_S8;
        try_job(s, "cache as int8 (--policy ...,kv=int8)", &job);
    }
    if (!job.flash) {
        job = s->b->job;
        job.flash = true;
        try_job(s, "attention that never holds whole scores (--attention flash)", &job);
    }
}

static void try_training(struct changes *s)
{
    struct budget_job job = s->b->job;
    struct str change;
    if (job.remat != REMAT_FULL) {
        job.remat = REMAT_FULL;
        try_job(s, "full rematerialisation (--remat full)", &job);
    }
    str_init(&change);
    for (size_t i = 0; recipe_name(i) && !s->rc; i++) {
        job = s->b->job;
        s->rc = recipe_find(recipe_name(i), &job.recipe, s->err);
        if (job.recipe.optimizer == OPTIMIZER_SGD || job.recipe.optimizer == OPTIMIZER_MOMENTUM)
            continue; // another way of training, not another way of storing it
        str_clear(&change);
        str_addf(&change, "another optimizer (--train %s)", recipe_name(i));
        if (!s->rc)
            try_job(s, str_text(&change), &job);
    }
    str_release(&change);
}

// Another number of devices or layout.
static bool try_layout(struct changes *s, const struct chip_target *t, const char *layout_text)
{
    struct layout l;
    struct budget_case other;
    struct weights_local local;
    const struct budget_job *job = &s->b->job;
    struct layout_limits limits = budget_limits(job);
    if (s->rc || layout_parse(&l, layout_text, t->devices, NULL) || layout_check(&l, &limits, NULL))
        return false;
    s->rc = budget_case_begin(s->b, &other, t, &l, &s->b->arena, s->err);
    if (s->rc)
        return false;
    weights_on_device(job->weights, job->arch, &l, &local);
    int64_t ways = layout_batch_ways(&l);
    int64_t batch = (s->c->batch + ways - 1) / ways * ways;
    double bytes = budget_bytes(job, &local, &other, batch, job->seq);
    bool same = t->chips == s->c->target.chips && t->chip == s->c->target.chip;
    struct str change;
    str_init(&change);
    if (same)
        str_addf(&change, "--layout %s", other.layout_text);
    else
        str_addf(&change, "--chip %s --layout %s", other.target_text, other.layout_text);
    if (batch != s->c->batch)
        str_addf(&change, " --batch %" PRId64, batch);
    bool fits = false;
    if (same ? bytes < s->c->device : bytes <= other.limit)
        fits = note(s, str_text(&change), bytes, other.limit);
    str_release(&change);
    return fits;
}

// Other layouts of the same slice, and the smallest larger slice of the chip on which some preset fits.
static void try_slices(struct changes *s)
{
    static const char *const presets[] = {"fsdp", "tp", "ep"};
    const struct chip *chip = s->c->target.chip;
    bool found = false;
    for (size_t k = 0; k < sizeof presets / sizeof *presets && s->c->target.devices > 1; k++)
        try_layout(s, &s->c->target, presets[k]);
    for (size_t i = 0; chip->slices && chip->slices[i] && !found && !s->rc; i++) {
        struct chip_target t;
        char text[64];
        snprintf(text, sizeof text, "%s:%s", chip->name, chip->slices[i]);
        if (chip_target_parse(text, &t, NULL) || t.chips <= s->c->target.chips)
            continue;
        for (size_t k = 0; k < sizeof presets / sizeof *presets; k++)
            found |= try_layout(s, &t, presets[k]);
    }
    for (int64_t n = 2; !chip->torus_dims && n <= 64 && !found && !s->rc; n *= 2) {
        struct chip_target t;
        char text[64];
        snprintf(text, sizeof text, "%s:%" PRId64, chip->name, n);
        if (chip_target_parse(text, &t, NULL) || t.chips <= s->c->target.chips)
            continue;
        for (size_t k = 0; k < sizeof presets / sizeof *presets; k++)
            found |= try_layout(s, &t, presets[k]);
    }
}

int budget_fixes(struct budget *b, struct budget_case *c, struct error *err)
{
    struct changes s = {.b = b, .c = c, .err = err};
    char text[128];
    c->n_fixes = 0;
    if (c->fits || isnan(c->limit))
        return 0;
    if (c->most_sequences > 0 && c->most_sequences < (double)c->batch) {
        snprintf(text, sizeof text, "fewer at once (--batch %.0f)", c->most_sequences);
        struct weights_local local;
        weights_on_device(b->job.weights, b->job.arch, &c->layout, &local);
        note(&s, text, budget_bytes(&b->job, &local, c, (int64_t)c->most_sequences, b->job.seq), c->limit);
    }
    if (b->job.train)
        try_training(&s);
    else
        try_serving(&s);
    try_slices(&s);
    return s.rc;
}
