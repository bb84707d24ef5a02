// SPDX-License-Identifier: Apache-2.0
#include "models/arch.h"

#include <inttypes.h>
#include <string.h>

const char *arch_kind_name(enum arch_kind kind)
{
    static const char *const names[] = {"decoder", "encoder", "encoder-decoder", "diffusion", "number of parameters"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "none";
}

const char *arch_part_name(enum arch_part part)
{
    static const char *const names[ARCH_PARTS] = {
        [ARCH_EMBEDDING] = "embedding",
        [ARCH_ATTENTION] = "attention",
        [ARCH_MLP] = "mlp",
        [ARCH_EXPERT] = "experts",
        [ARCH_SHARED] = "shared experts",
        [ARCH_ROUTER] = "router",
        [ARCH_NORM] = "norms",
        [ARCH_HEAD] = "head",
        [ARCH_VISION] = "vision tower",
        [ARCH_TEXT_ENCODER] = "text encoder",
        [ARCH_DENOISER] = "denoiser",
        [ARCH_IMAGE_DECODER] = "image decoder",
        [ARCH_OTHER] = "other",
    };
    return (unsigned)part < ARCH_PARTS ? names[part] : "none";
}

double arch_tensor_elements(const struct arch_tensor *t)
{
    return (double)t->rows * (t->cols ? (double)t->cols : 1);
}

int64_t arch_layers_local(const struct arch *a, int64_t first, int64_t last)
{
    int64_t n = 0;
    for (int64_t i = first; i < last && a->flags; i++)
        n += (a->flags[i] & ARCH_LOCAL) != 0;
    return n;
}

int64_t arch_layers_with(const struct arch *a, enum arch_where where, int64_t first, int64_t last)
{
    int64_t n = 0;
    switch (where) {
    case ARCH_FIRST:
        return first == 0 ? 1 : 0;
    case ARCH_LAST:
        return last == a->layers ? 1 : 0;
    case ARCH_ENCODER_LAYERS:
        return first == 0 ? a->encoder_layers : 0;
    case ARCH_EVERY_LAYER:
        return last - first;
    case ARCH_DOUBLE_LAYERS:
    case ARCH_SINGLE_LAYERS:
        for (int64_t i = first; i < last; i++)
            n += (a->flags && a->flags[i] & ARCH_DOUBLE) == (where == ARCH_DOUBLE_LAYERS);
        return n;
    case ARCH_DENSE_LAYERS:
    case ARCH_MOE_LAYERS:
        for (int64_t i = first; i < last; i++)
            n += (a->flags && a->flags[i] & ARCH_MOE) == (where == ARCH_MOE_LAYERS);
        return n;
    }
    return 0;
}

int arch_add(struct arch *a, struct arena *arena, struct arch_tensor t, struct error *err)
{
    // A power of two is the next size: what is there says how large it is.
    size_t n = a->n_tensors;
    if ((n & (n - 1)) == 0) {
        struct arch_tensor *grown = arena_new(arena, struct arch_tensor, n ? 2 * n : 1, err);
        if (!grown)
            return ERR_MEMORY;
        if (n)
            memcpy(grown, a->tensors, n * sizeof *grown);
        a->tensors = grown;
    }
    a->tensors[a->n_tensors++] = t;
    return 0;
}

int arch_finish(struct arch *a, struct error *err)
{
    a->parameters = a->active_parameters = 0;
    for (size_t i = 0; i < a->n_tensors; i++) {
        const struct arch_tensor *t = &a->tensors[i];
        double one = arch_tensor_elements(t) * (double)arch_layers_with(a, t->where, 0, a->layers);
        a->parameters += one * (double)t->each;
        double used = t->part == ARCH_EXPERT && t->each == a->experts ? (double)a->active_experts : (double)t->each;
        a->active_parameters += one * used;
    }
    if (a->parameters > 0x1p53)
        return error_set(err, ERR_INPUT, a->name, "has more than 2^53 parameters: some size in it cannot be right");
    return 0;
}

int arch_from_count(struct arch *a, const char *text, struct arena *arena, struct error *err)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1}, {"k", 1e3}, {"m", 1e6}, {"b", 1e9}, {"g", 1e9}, {"t", 1e12}};
    char number[64];
    size_t n = strspn(text, "0123456789.");
    double value = 0, factor = 0;
    memset(a, 0, sizeof *a);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        char letter = units[i].suffix[0];
        bool same = letter ? (text[n] | 0x20) == letter && !text[n + 1] : !text[n];
        factor = same ? units[i].factor : factor;
    }
    if (n && n < sizeof number) {
        memcpy(number, text, n);
        number[n] = '\0';
        if (!parse_double(number, &value))
            value = 0;
    }
    double count = value * factor;
    if (!(count >= 1) || count > 0x1p53)
        return error_set(err, ERR_USAGE, "--params",
                         "\"%s\" is no number of parameters; it is above zero and may end in K, M, B or T, as in 300M",
                         text);
    a->kind = ARCH_COUNT_ONLY;
    a->name = arena_printf(arena, err, "%s parameters", text);
    a->family = "count";
    a->source = "--params";
    a->note = "what activations take is not known from a number of parameters";
    int rc = a->name ? arch_add(a, arena,
                                (struct arch_tensor){"parameters", ARCH_OTHER, ARCH_EVENLY, ARCH_FIRST,
                                                     (int64_t)(count + 0.5), 0, 1},
                                err)
                     : ERR_MEMORY;
    return rc ? rc : arch_finish(a, err);
}
