// SPDX-License-Identifier: Apache-2.0
// The rows of one case. Everything is of the fullest device: a pipeline's stage with most weights.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "plan/budget.h"

const char *budget_group_name(enum budget_group group)
{
    static const char *const names[] = {"weights", "cache", "training state", "activations", "workspace"};
    return (unsigned)group < sizeof names / sizeof *names ? names[group] : "none";
}

struct layout_limits budget_limits(const struct budget_job *job)
{
    const struct arch *a = job->arch;
    if (a->kind == ARCH_COUNT_ONLY)
        return (struct layout_limits){.layers = a->layers, .kv_heads = a->kv_heads};
    return (struct layout_limits){.layers = a->layers,
                                  .heads = a->heads,
                                  .kv_heads = a->kv_lora ? 0 : a->kv_heads,
                                  .ffn = a->ffn,
                                  .experts = a->experts,
                                  .expert_ffn = a->expert_ffn,
                                  .dense = !a->experts};
}

// Where rows go. Without a case they are only summed.
struct sheet {
    struct budget_case *c;
    struct arena *arena;
    struct error *err;
    double sum;
    int rc;
};

__attribute__((format(printf, 6, 7))) static void row(struct sheet *s, enum budget_group group, const char *name,
                                                      double once, double device, const char *fmt, ...)
{
    s->sum += device;
    if (!s->c || s->rc || !(device > 0 || once > 0))
        return;
    struct str how;
    va_list ap;
    str_init(&how);
    va_start(ap, fmt);
    str_addv(&how, fmt, ap);
    va_end(ap);
    struct budget_row *r = &s->c->rows[s->c->n_rows++];
    *r = (struct budget_row){name, group, once, device, arena_strdup(s->arena, str_text(&how), s->err)};
    s->rc = r->how ? 0 : ERR_MEMORY;
    str_release(&how);
}

// What one device has of batch and sequence.
struct part {
    double sequences, tokens; // of one microbatch in training
    double in_flight;         // microbatches of which the first stage keeps activations
};

static struct part part_of(const struct budget_job *job, const struct layout *l, int64_t batch, int64_t seq)
{
    struct part p = {.tokens = ceil((double)seq / (double)layout_sequence_ways(l)), .in_flight = 1};
    double stages = (double)l->ways[LAYOUT_PP];
    p.sequences = ceil((double)batch / (double)layout_batch_ways(l));
    if (!job->train || stages <= 1)
        return p;
    double micro = l->microbatches ? (double)l->microbatches : stages;
    micro = micro < p.sequences ? micro : p.sequences;
    p.sequences = ceil(p.sequences / micro);
    p.in_flight = micro < stages ? micro : stages;
    return p;
}

static void weight_rows(struct sheet *s, const struct budget_job *job, const struct weights_local *local,
                        const struct layout *l)
{
    double fsdp = (double)l->ways[LAYOUT_FSDP], dp = (double)l->ways[LAYOUT_DP];
    const struct weights *w = job->weights;
    double shards = l->zero >= 1 ? fsdp * dp : fsdp, grad_shards = l->zero >= 2 ? fsdp * dp : fsdp;
    row(s, BUDGET_WEIGHTS, "weights", w->bytes + w->scale_bytes, local->bytes / fsdp, "%s%s", w->how,
        fsdp > 1 ? "; divided by fsdp" : "");
    if (job->train) {
        const struct recipe *r = &job->recipe;
        double grad = dtype_bits(r->grad) / 8.0, master = dtype_bits(r->master) / 8.0;
        struct weights_local whole = *local;
        double scale = local->elements > 0 ? w->trained / local->elements : 0;
        const char *of = job->arch->kind == ARCH_DIFFUSION ? " of the denoiser, which alone is trained" : "";
        whole.elements *= scale;
        whole.small_elements *= scale;
        whole.factored *= scale;
        row(s, BUDGET_STATE, "gradients", w->trained * grad, local->elements * grad / grad_shards,
            "%s, %g B a parameter%s%s", dtype_name(r->grad), grad, of, l->zero >= 2 ? "; zero divides them by dp" : "");
        row(s, BUDGET_STATE, "master weights", w->trained * master, local->elements * master / shards,
            "%s, %g B a parameter%s", dtype_name(r->master), master, l->zero ? "; zero divides them by dp" : "");
        row(s, BUDGET_STATE, "optimizer state", recipe_state_bytes(r, &whole), recipe_state_bytes(r, local) / shards,
            "%s, %.4g B a parameter%s", r->name,
            local->elements > 0 ? recipe_state_bytes(r, local) / local->elements : 0,
            l->zero ? "; zero divides it by dp" : "");
    }
    if (fsdp > 1) {
        double gradient = job->train ? local->largest_layer * dtype_bits(job->recipe.grad) / 8.0 : 0;
        row(s, BUDGET_WORKSPACE, "gathered layers", NAN, 2 * local->layer_bytes + gradient,
            "two layers of %.4g MB gathered, the one that runs and the next%s", local->layer_bytes / 1e6,
            gradient > 0 ? ", and one layer's gradients" : "");
    }
}

static bool keeps_cache(const struct arch *a)
{
    return a->kind == ARCH_DECODER || a->kind == ARCH_ENCODER_DECODER || (a->kind == ARCH_COUNT_ONLY && a->layers);
}

static void cache_rows(struct sheet *s, const struct budget_job *job, const struct weights_local *local,
                       const struct budget_case *at, int64_t batch, int64_t seq)
{
    const struct arch *a = job->arch;
    struct cache_options o = {.sequences = batch,
                              .tokens = seq,
                              .type = job->kv,
                              .scales = policy_has_scales(job->kv),
                              .tpu = at->has_target && at->target.chip->is_tpu,
                              .page = job->page,
                              .chunk = job->prefill < seq ? job->prefill : seq};
    struct cache c;
    struct str formula;
    if (job->train || !keeps_cache(a))
        return;
    cache_on_device(a, &o, &at->layout, local->first, local->last, &c);
    str_init(&formula);
    if (s->c)
        cache_formula(a, &o, &formula);
    row(s, BUDGET_CACHE, a->kv_lora ? "cache: latents" : "cache: keys and values", c.raw, c.ideal, "%s",
        str_text(&formula));
    row(s, BUDGET_CACHE, "cache: copies", NAN, c.copies,
        a->kv_lora ? "every way of tp holds the whole latent"
                   : "more ways than heads of keys and values hold copies, and "
                     "uneven shares are rounded up");
    row(s, BUDGET_CACHE, "cache: padding", NAN, c.padding,
        "a TPU stores heads in words of 32 bits and head_dim in multiples of 128 (or 64)");
    row(s, BUDGET_CACHE, "cache: page rounding", NAN, c.pages,
        "whole pages of %" PRId64 " tokens; a window's pages also hold the %" PRId64 " tokens that are added at once",
        o.page, o.chunk);
    row(s, BUDGET_CACHE, "cache: scales", NAN, c.scales,
        a->kv_lora ? "f32 per 128 of the latent, and the rotated part in two bytes"
                   : "f32 per token and head, for K and for V");
    row(s, BUDGET_CACHE, "cache: encoder's", NAN, c.cross, "keys and values of what the encoder saw, in every layer");
    str_release(&formula);
}

// FLUX.2: its blocks keep what the backward pass reads, in the order they run in; the tokens of text and image
// together.
static void image_training_rows(struct sheet *s, const struct budget_job *job, double images)
{
    const struct arch *a = job->arch;
    double pixels = (double)job->height * (double)job->width, tokens = (double)a->text_tokens + pixels / 256;
    double doubles = (double)arch_layers_with(a, ARCH_DOUBLE_LAYERS, 0, a->layers);
    double singles = (double)a->layers - doubles, item = job->item_bytes;
    double kept_double = activation_block_bytes(a, true, images, job->remat, item);
    double kept_single = activation_block_bytes(a, false, images, job->remat, item);
    double whole = activation_block_bytes(a, doubles > 0, images, REMAT_NONE, item);
    double scores = job->flash ? 0 : (double)a->heads * tokens * tokens * item;
    double blocks = images * tokens * (doubles * kept_double + singles * kept_single);
    if (job->remat == REMAT_NONE)
        blocks += images * scores * (double)a->layers;
    row(s, BUDGET_ACTIVATIONS, "activations", NAN, blocks,
        "%g double blocks keep %.0f B and %g single ones %.0f B of each token, of %g x %g tokens%s", doubles,
        kept_double, singles, kept_single, images, tokens,
        job->remat == REMAT_FULL ? ": their inputs"
        : item < 4               ? "; the norms of queries and keys run in f32"
                                 : "");
    row(s, BUDGET_ACTIVATIONS, "around the blocks", NAN,
        activation_around_bytes(a, images, tokens - (double)a->text_tokens, item),
        "what enters the embedders and the last norm, what leaves it, and the tables of positions");
    if (job->remat == REMAT_FULL)
        row(s, BUDGET_ACTIVATIONS, "recomputed block", NAN, images * (tokens * whole + scores),
            "one block's activations while it is run again");
    else if (job->remat == REMAT_SELECTIVE)
        row(s, BUDGET_ACTIVATIONS, "recomputed scores", NAN, images * scores,
            "one block's scores while they are made again");
}

// What the encoder saw of each sequence, on this device: as many tokens as the model says, else as the decoder has.
static double tokens_seen(const struct arch *a, double tokens, const struct layout *l)
{
    return a->encoder_tokens ? ceil((double)a->encoder_tokens / (double)layout_sequence_ways(l)) : tokens;
}

// The encoder's layers, and what the decoder's keep to attend to its result.
static void encoder_training_rows(struct sheet *s, const struct budget_job *job, const struct activation_options *o,
                                  const struct layout *l)
{
    const struct arch *a = job->arch;
    struct activation_options encoder = *o;
    double tp = l->sp ? (double)l->ways[LAYOUT_TP] : 1;
    encoder.seq = tokens_seen(a, o->seq, l);
    double layer = activation_layer_bytes(a, false, &encoder, l), cross = activation_cross_bytes(a, o, encoder.seq, l);
    row(s, BUDGET_ACTIVATIONS, "activations: encoder", NAN,
        (double)a->encoder_layers * layer + o->batch * encoder.seq * (double)a->hidden * o->item_bytes / tp,
        "%" PRId64 " layers and their result, of %g sequence%s of %g tokens", a->encoder_layers, o->batch,
        o->batch == 1 ? "" : "s", encoder.seq);
    row(s, BUDGET_ACTIVATIONS, "activations: cross-attention", NAN, (double)a->layers * cross,
        "in %" PRId64 " layers the norm's input and result, queries and the attention's result of %g tokens, keys and "
        "values of %g that the encoder saw",
        a->layers, o->seq, encoder.seq);
}

// The larger of an encoder's and a decoder's layer with everything that it keeps.
static double encoder_decoder_layer(const struct budget_job *job, struct activation_options o, const struct layout *l)
{
    const struct arch *a = job->arch;
    double seen = tokens_seen(a, o.seq, l);
    double decoder = activation_layer_bytes(a, false, &o, l) + activation_cross_bytes(a, &o, seen, l);
    o.seq = seen;
    return fmax(decoder, activation_layer_bytes(a, false, &o, l));
}

static void training_rows(struct sheet *s, const struct budget_job *job, const struct weights_local *local,
                          const struct layout *l, const struct part *p)
{
    const struct arch *a = job->arch;
    static const char *const kept[] = {"all that the backward pass reads", "all but what attention makes of q and k",
                                       "the input of each layer alone"};
    struct activation_options o = {p->sequences, p->tokens, job->remat, job->flash, job->item_bytes};
    double moe = (double)arch_layers_with(a, ARCH_MOE_LAYERS, local->first, local->last);
    double dense = (double)(local->last - local->first) - moe;
    double layer = activation_layer_bytes(a, false, &o, l),
           expert = moe > 0 ? activation_layer_bytes(a, true, &o, l) : 0;
    double bytes = p->in_flight * (dense * layer + moe * expert);
    row(s, BUDGET_ACTIVATIONS, "activations", NAN, bytes, "%g layers keep %s, of %g sequence%s of %g tokens%s",
        dense + moe, kept[job->remat], p->sequences * p->in_flight, p->sequences * p->in_flight == 1 ? "" : "s",
        p->tokens, p->in_flight > 1 ? ", in microbatches" : "");
    if (a->kind == ARCH_ENCODER_DECODER)
        encoder_training_rows(s, job, &o, l);
    struct activation_options all = o;
    all.remat = REMAT_NONE;
    double once = activation_layer_bytes(a, moe > 0, &all, l);
    if (a->kind == ARCH_ENCODER_DECODER) {
        layer = encoder_decoder_layer(job, o, l);
        once = encoder_decoder_layer(job, all, l);
    }
    if (job->remat == REMAT_FULL)
        row(s, BUDGET_ACTIVATIONS, "recomputed layer", NAN, once, "one layer's activations while it is run again");
    else if (job->remat == REMAT_SELECTIVE && !job->flash)
        row(s, BUDGET_ACTIVATIONS, "recomputed scores", NAN, once - (moe > 0 ? expert : layer),
            "one layer's scores while they are made again");
}

static void serving_rows(struct sheet *s, const struct budget_job *job, const struct layout *l, const struct part *p,
                         int64_t seq)
{
    const struct arch *a = job->arch;
    double all = p->sequences * p->tokens, chunk = (double)job->prefill, tokens = all;
    double longest = (double)seq;
    if (a->kind == ARCH_DECODER)
        tokens = all < chunk ? all : chunk;
    if (a->kind == ARCH_ENCODER_DECODER && a->encoder_tokens) {
        tokens = p->sequences * (double)a->encoder_tokens;
        longest = (double)a->encoder_tokens;
    }
    row(s, BUDGET_ACTIVATIONS, "activations", NAN, tokens * activation_token_bytes(a, job->item_bytes, l),
        "one layer of %g tokens at once: residual, norm, queries, keys, values and ffn", tokens);
    if (!job->flash) {
        double queries = a->kind == ARCH_DECODER && chunk < longest ? chunk : longest;
        row(s, BUDGET_ACTIVATIONS, "scores", NAN, activation_scores_bytes(a, p->sequences, queries, longest, 4, l),
            "%g sequences * %" PRId64 " heads * %g * %g * 4 B, divided by tp", p->sequences, a->heads, queries,
            longest);
    }
}

// FLUX: a single block's two products and its residual; then the decoder's first block at full size.
static void image_rows(struct sheet *s, const struct budget_job *job, double images)
{
    const struct arch *a = job->arch;
    double pixels = (double)job->height * (double)job->width, tokens = (double)a->text_tokens + pixels / 256;
    double wide = 3 * (double)a->hidden + 2 * (double)a->ffn, narrow = (double)(a->hidden + a->ffn);
    double denoise = images * tokens * job->item_bytes * (wide + narrow + 2 * (double)a->hidden);
    if (!job->flash)
        denoise += images * (double)a->heads * tokens * tokens * 4;
    double decode = images * pixels * (2 * 256 + 128) * job->item_bytes;
    if (!job->flash)
        decode += images * (pixels / 64) * (pixels / 64) * 4;
    row(s, BUDGET_ACTIVATIONS, "activations", NAN, denoise > decode ? denoise : decode,
        "the larger of a block of the denoiser, %g images * %g tokens, %.4g MB, and the decoder's last level, 640 "
        "channels of %" PRId64 "x%" PRId64 ", %.4g MB",
        images, tokens, denoise / 1e6, job->height, job->width, decode / 1e6);
}

static void activation_rows(struct sheet *s, const struct budget_job *job, const struct weights_local *local,
                            const struct layout *l, int64_t batch, int64_t seq)
{
    const struct arch *a = job->arch;
    struct part p = part_of(job, l, batch, seq);
    if (a->kind == ARCH_COUNT_ONLY)
        return;
    if (a->kind == ARCH_DIFFUSION) {
        (job->train ? image_training_rows : image_rows)(s, job, p.sequences);
        return;
    }
    if (job->train)
        training_rows(s, job, local, l, &p);
    else
        serving_rows(s, job, l, &p, seq);
    if (a->kind != ARCH_ENCODER && a->vocab) {
        double rows = p.sequences * (job->train ? p.tokens : 1),
               columns = ceil((double)a->vocab / (double)l->ways[LAYOUT_TP]);
        row(s, BUDGET_ACTIVATIONS, "logits", NAN, rows * columns * 4, "%g rows of %g in f32%s", rows, columns,
            job->train ? "" : ": the last token of each sequence");
    }
    if (l->ways[LAYOUT_EP] > 1) {
        double tokens = job->train || a->kind == ARCH_ENCODER ? p.sequences * p.tokens
                                                              : fmin(p.sequences * p.tokens, (double)job->prefill);
        row(s, BUDGET_WORKSPACE, "expert exchange", NAN,
            2 * tokens * (double)a->active_experts * (double)a->hidden * job->item_bytes,
            "%g tokens sent to %" PRId64 " experts each, and what comes back", tokens, a->active_experts);
    }
}

static int fill(const struct budget_job *job, const struct weights_local *local, const struct budget_case *at,
                int64_t batch, int64_t seq, struct sheet *s)
{
    weight_rows(s, job, local, &at->layout);
    cache_rows(s, job, local, at, batch, seq);
    activation_rows(s, job, local, &at->layout, batch, seq);
    row(s, BUDGET_WORKSPACE, "reserve", NAN, job->reserve_bytes, "as asked for");
    return s->rc;
}

double budget_bytes(const struct budget_job *job, const struct weights_local *local, const struct budget_case *c,
                    int64_t batch, int64_t seq)
{
    struct sheet s = {0};
    fill(job, local, c, batch, seq, &s);
    return s.sum;
}

int budget_evaluate(const struct budget_job *job, const struct weights_local *local, struct budget_case *c,
                    struct arena *arena, struct error *err)
{
    struct sheet s = {.c = c, .arena = arena, .err = err};
    c->n_rows = 0;
    int rc = fill(job, local, c, c->batch, job->seq, &s);
    c->device = s.sum;
    if (!rc && !(s.sum <= 0x1p53))
        rc = error_set(err, ERR_USAGE, "--batch",
                       "%" PRId64 " sequences of %" PRId64
                       " tokens take more than 2^53 bytes on a device: a number is too large",
                       c->batch, job->seq);
    c->fits = !isnan(c->limit) && c->device <= c->limit;
    return rc;
}
