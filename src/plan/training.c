// SPDX-License-Identifier: Apache-2.0
#include "plan/training.h"

#include <math.h>
#include <string.h>

// --- state
// -----------------------------------------------------------------------------------------------------------------

static const struct recipe recipes[] = {
    {"adam-18", OPTIMIZER_ADAM, DT_BF16, DT_F32, DT_F32, DT_F32},
    {"adam-16", OPTIMIZER_ADAM, DT_BF16, DT_BF16, DT_F32, DT_F32},
    {"adam-8bit", OPTIMIZER_ADAM_8BIT, DT_BF16, DT_F32, DT_F32, DT_S8},
    {"adafactor", OPTIMIZER_ADAFACTOR, DT_BF16, DT_F32, DT_F32, DT_F32},
    {"sgd", OPTIMIZER_SGD, DT_BF16, DT_F32, DT_F32, DT_INVALID},
    {"sgd-momentum", OPTIMIZER_MOMENTUM, DT_BF16, DT_F32, DT_F32, DT_F32},
};

const char *recipe_name(size_t i)
{
    return i < sizeof recipes / sizeof *recipes ? recipes[i].name : NULL;
}

void recipe_words(struct str *out)
{
    for (size_t i = 0; recipe_name(i); i++)
        str_addf(out, "%s\n", recipe_name(i));
}

int recipe_find(const char *name, struct recipe *out, struct error *err)
{
    struct str list;
    for (size_t i = 0; recipe_name(i); i++) {
        if (strcmp(recipes[i].name, name) == 0) {
            *out = recipes[i];
            return 0;
        }
    }
    str_init(&list);
    for (size_t i = 0; recipe_name(i); i++)
        str_addf(&list, "%s%s", i ? ", " : "", recipe_name(i));
    error_set(err, ERR_USAGE, "--train", "there is no recipe \"%.40s\"; there is %s", name, str_text(&list));
    str_release(&list);
    return ERR_USAGE;
}

void recipe_under_policy(struct recipe *r, const struct policy *p)
{
    r->weight = p->w;
    r->grad = p->grad ? p->grad : r->grad;
    r->master = p->master ? p->master : r->master;
    if (p->opt && r->moment) {
        r->moment = p->opt;
        if (r->optimizer == OPTIMIZER_ADAM && dtype_bits(p->opt) == 8)
            r->optimizer = OPTIMIZER_ADAM_8BIT;
        else if (r->optimizer == OPTIMIZER_ADAM_8BIT && dtype_bits(p->opt) != 8)
            r->optimizer = OPTIMIZER_ADAM;
    }
    // Weights as wide as their master are their own.
    if (r->master == r->weight && !p->master)
        r->master = DT_INVALID;
}

double recipe_state_bytes(const struct recipe *r, const struct weights_local *w)
{
    double item = r->moment ? dtype_bits(r->moment) / 8.0 : 0;
    switch (r->optimizer) {
    case OPTIMIZER_ADAM:
        return 2 * w->elements * item;
    case OPTIMIZER_ADAM_8BIT:
        return 2 * ((w->elements - w->small_elements) * (1 + 4.0 / 256) + 4 * w->small_elements);
    case OPTIMIZER_ADAFACTOR:
        return w->factored * item;
    case OPTIMIZER_MOMENTUM:
        return w->elements * item;
    case OPTIMIZER_SGD:
        break;
    }
    return 0;
}

void recipe_formula(const struct recipe *r, struct str *out)
{
    double weight = dtype_bits(r->weight) / 8.0, grad = dtype_bits(r->grad) / 8.0, master = dtype_bits(r->master) / 8.0;
    double moment = r->moment ? dtype_bits(r->moment) / 8.0 : 0, sum = weight + grad;
    str_addf(out, "%g weight + %g gradient", weight, grad);
    if (r->master) {
        str_addf(out, " + %g master", master);
        sum += master;
    }
    switch (r->optimizer) {
    case OPTIMIZER_ADAM:
        str_addf(out, " + %g moments = %g B", 2 * moment, sum + 2 * moment);
        break;
    case OPTIMIZER_ADAM_8BIT:
        str_addf(out, " + 2 (1 + 4/256) moments = %.4g B", sum + 2 * (1 + 4.0 / 256));
        break;
    case OPTIMIZER_MOMENTUM:
        str_addf(out, " + %g momentum = %g B", moment, sum + moment);
        break;
    case OPTIMIZER_ADAFACTOR:
        str_addf(out, " = %g B, + %g (rows + columns) of each matrix", sum, moment);
        break;
    case OPTIMIZER_SGD:
        str_addf(out, " = %g B", sum);
        break;
    }
}

// --- activations
// -----------------------------------------------------------------------------------------------------------------

// Elements per token that attention and ffn of a layer keep. `whole` is what tensor parallelism leaves whole.
struct kept {
    double whole, divided;
};

static struct kept layer_elements(const struct arch *a, bool experts)
{
    double h = (double)a->hidden;
    double q = (double)a->heads * (double)a->head_dim, o = (double)a->heads * (double)a->v_head_dim;
    double k = (double)a->kv_heads * (double)a->head_dim, v = (double)a->kv_heads * (double)a->v_head_dim;
    double columns = (double)a->ffn, each = a->gated ? 3 : 2; // up, gate, and what enters the down projection
    struct kept s = {.whole = 4 * h};                         // inputs of two norms, and of what follows each
    if (a->kv_lora) {
        s.whole += (double)(a->kv_lora + a->rope_dim);
        k = q; // every head gets its own from the latent
        v = o;
    }
    if (experts)
        columns = (double)a->active_experts * (double)a->expert_ffn + (double)a->shared_ffn;
    s.divided = q + k + v + o + each * columns;
    return s;
}

double activation_scores_bytes(const struct arch *a, double batch, double queries, double keys, double item_bytes,
                               const struct layout *l)
{
    double ways = (double)(l->ways[LAYOUT_TP] * l->ways[LAYOUT_ULYSSES]);
    return batch * queries * keys * ceil((double)a->heads / ways) * item_bytes;
}

double activation_layer_bytes(const struct arch *a, bool experts, const struct activation_options *o,
                              const struct layout *l)
{
    double tokens = o->batch * o->seq, tp = (double)l->ways[LAYOUT_TP], whole_ways = l->sp ? tp : 1;
    struct kept s = layer_elements(a, experts);
    if (o->remat == REMAT_FULL)
        return tokens * (double)a->hidden * o->item_bytes / whole_ways;
    double bytes = tokens * o->item_bytes * (s.whole / whole_ways + s.divided / tp);
    if (a->dropout) // two masks of a byte an element
        bytes += tokens * 2 * (double)a->hidden / whole_ways;
    if (!o->flash && o->remat == REMAT_NONE) {
        // The softmax; with dropout also its mask, and what is left.
        double item = a->dropout ? 2 * o->item_bytes + 1 : o->item_bytes;
        bytes += activation_scores_bytes(a, o->batch, o->seq, o->seq * (double)layout_sequence_ways(l), item, l);
    }
    return bytes;
}

double activation_cross_bytes(const struct arch *a, const struct activation_options *o, double seen,
                              const struct layout *l)
{
    double h = (double)a->hidden, heads = (double)a->heads, tp = (double)l->ways[LAYOUT_TP];
    double whole_ways = l->sp ? tp : 1, tokens = o->batch * o->seq, width = (double)(a->head_dim + a->v_head_dim);
    if (o->remat == REMAT_FULL)
        return 0;
    double bytes = o->item_bytes * (tokens * (2 * h / whole_ways + heads * width / tp) +
                                    o->batch * seen * (double)a->kv_heads * width / tp);
    if (a->dropout)
        bytes += tokens * h / whole_ways;
    if (!o->flash && o->remat == REMAT_NONE) {
        double item = a->dropout ? 2 * o->item_bytes + 1 : o->item_bytes;
        bytes += activation_scores_bytes(a, o->batch, o->seq, seen * (double)layout_sequence_ways(l), item, l);
    }
    return bytes;
}

double activation_block_bytes(const struct arch *a, bool two_streams, double images, enum remat remat,
                              double item_bytes)
{
    double d = (double)a->hidden, values = (two_streams ? (images > 1 ? 17 : 16) : 13) * d + 4 * (double)a->ffn;
    if (remat == REMAT_FULL)
        return d * item_bytes;
    double norms = two_streams ? 2 : 1; // a mean and a root each; a root of q and k, a sum of the softmax per head
    return item_bytes * (values + 2 * norms) + 3 * (double)a->heads * 4 +
           (item_bytes < 4 ? (two_streams ? 8 : 12) * d : 0);
}

double activation_around_bytes(const struct arch *a, double images, double image_tokens, double item_bytes)
{
    double d = (double)a->hidden, text = (double)a->text_tokens;
    return images * item_bytes *
               (image_tokens * ((double)a->channels + 2 * d + 2) + text * (double)a->text_width +
                (text + image_tokens) * d) +
           (text + image_tokens) * 2 * (double)a->head_dim * 4;
}

double activation_token_bytes(const struct arch *a, double item_bytes, const struct layout *l)
{
    bool experts = arch_layers_with(a, ARCH_MOE_LAYERS, 0, a->layers) > 0;
    struct kept s = layer_elements(a, false), e = experts ? layer_elements(a, true) : s;
    double divided = s.divided > e.divided ? s.divided : e.divided;
    // Of the four, the residual and the norm's result live at once.
    double whole = s.whole - 2 * (double)a->hidden;
    double tp = (double)l->ways[LAYOUT_TP];
    return item_bytes * (whole / (l->sp ? tp : 1) + divided / tp);
}
