// SPDX-License-Identifier: Apache-2.0
#include "plan/cache.h"

#include <inttypes.h>
#include <math.h>

static double align(double n, double to)
{
    return ceil(n / to) * to;
}

// What one layer keeps of one token, before and after each thing that comes on top. Bytes.
struct token {
    double ideal;  // this device's even share
    double held;   // with heads that are copies
    double padded; // as the kernel stores it
    double scales;
};

// Stored elements of K and V for `heads` heads on a TPU.
static double tpu_elements(const struct arch *a, double heads, double item_bytes)
{
    double word = 4 / item_bytes; // heads in a 32-bit word
    if (a->head_dim == 64 && a->v_head_dim == 64)
        return align(heads, word) * 128; // K and V of a head side by side
    double dim = (double)(a->head_dim > a->v_head_dim ? a->head_dim : a->v_head_dim);
    return align(2 * heads, word) * align(dim, 128);
}

static struct token one_token(const struct arch *a, const struct cache_options *o, const struct layout *l)
{
    double item = dtype_bits(o->type) / 8.0;
    double tp = (double)l->ways[LAYOUT_TP], ulysses = (double)l->ways[LAYOUT_ULYSSES];
    struct token t = {0};
    if (a->kv_lora) {
        // Of the latent only kv_lora is stored in a narrow type: the rotated part stays in two bytes, with an f32 scale
        // for each 128 of the rest (vLLM's fp8_ds_mla: 656 B).
        double lora = (double)a->kv_lora, rope = (double)a->rope_dim;
        t.held = (lora + rope) * item;
        t.ideal = t.held / (tp * ulysses);
        t.padded = o->tpu ? (align(lora, 128) + align(rope, 128)) * item : t.held;
        t.scales = o->scales ? ceil(lora / 128) * 4 + rope : 0;
        return t;
    }
    double ways = tp * ulysses, heads = ceil((double)a->kv_heads / ways);
    double both = (double)(a->head_dim + a->v_head_dim);
    t.ideal = (double)a->kv_heads / ways * both * item;
    t.held = heads * both * item;
    t.padded = o->tpu ? tpu_elements(a, heads, item) * item : t.held;
    t.scales = o->scales ? 2 * heads * 4 : 0;
    return t;
}

// Tokens a layer keeps of a sequence, and the tokens that its pages have room for.
static double kept(double tokens, double window)
{
    return window > 0 && window < tokens ? window : tokens;
}

static double in_pages(double tokens, double window, double chunk, double page)
{
    if (page <= 1)
        return kept(tokens, window);
    if (window <= 0)
        return align(tokens, page);
    double most = window - 1 + chunk;
    most = most < tokens ? most : tokens;
    return align(most, page) + page; // one more, since a window may begin inside a page
}

void cache_on_device(const struct arch *a, const struct cache_options *o, const struct layout *l, int64_t first,
                     int64_t last, struct cache *out)
{
    double item = dtype_bits(o->type) / 8.0, window = (double)a->window, page = (double)o->page;
    double each = a->kv_lora ? (double)(a->kv_lora + a->rope_dim) * item
                             : (double)a->kv_heads * (double)(a->head_dim + a->v_head_dim) * item;
    double sequences = ceil((double)o->sequences / (double)layout_batch_ways(l));
    double even = (double)o->sequences / (double)layout_batch_ways(l);
    double ring = (double)l->ways[LAYOUT_RING], all_local = (double)arch_layers_local(a, 0, a->layers);
    double whole = (double)o->tokens, part = ceil(whole / ring);
    double local = (double)arch_layers_local(a, first, last), global = (double)(last - first) - local;
    struct token t = one_token(a, o, l);
    *out = (struct cache){.token_bytes_raw = (double)a->layers * each};
    out->raw =
        (double)o->sequences * each * (((double)a->layers - all_local) * whole + all_local * kept(whole, window));
    double share = global * whole / ring + local * kept(whole, window) / ring;
    double tokens = global * part + local * kept(part, window);
    double stored =
        global * in_pages(part, 0, (double)o->chunk, page) + local * in_pages(part, window, (double)o->chunk, page);
    out->ideal = even * share * t.ideal;
    out->copies = sequences * tokens * t.held - out->ideal;
    out->padding = sequences * tokens * (t.padded - t.held);
    out->pages = sequences * (stored - tokens) * t.padded;
    out->scales = sequences * stored * t.scales;
    out->total = out->ideal + out->copies + out->padding + out->pages + out->scales;
    if (a->kind == ARCH_ENCODER_DECODER) {
        double seen = a->encoder_tokens ? (double)a->encoder_tokens : whole;
        out->cross = sequences * seen * (double)(last - first) * t.padded;
        out->total += out->cross;
    }
}

void cache_formula(const struct arch *a, const struct cache_options *o, struct str *out)
{
    int64_t local = arch_layers_local(a, 0, a->layers), global = a->layers - local;
    double item = dtype_bits(o->type) / 8.0;
    int64_t tokens = o->tokens, window = a->window < tokens ? a->window : tokens;
    if (!a->kv_lora && a->head_dim == a->v_head_dim)
        str_add(out, "2 * ");
    str_addf(out, "%" PRId64 " sequence%s * ", o->sequences, o->sequences == 1 ? "" : "s");
    if (local && global)
        str_addf(out,
                 "(%" PRId64 " layers * %" PRId64 " tokens + %" PRId64 " layers * %" PRId64 " tokens of a window) * ",
                 global, tokens, local, window);
    else
        str_addf(out, "%" PRId64 " tokens * %" PRId64 " layers * ", local ? window : tokens, a->layers);
    if (a->kv_lora)
        str_addf(out, "(%" PRId64 " latent + %" PRId64 " rotated) * %g B", a->kv_lora, a->rope_dim, item);
    else if (a->head_dim == a->v_head_dim)
        str_addf(out, "%" PRId64 " heads * %" PRId64 " * %g B", a->kv_heads, a->head_dim, item);
    else
        str_addf(out, "%" PRId64 " heads * (%" PRId64 " + %" PRId64 ") * %g B", a->kv_heads, a->head_dim, a->v_head_dim,
                 item);
}
