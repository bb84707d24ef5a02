// SPDX-License-Identifier: Apache-2.0
#include "plan/sharding.h"

#include <inttypes.h>
#include <string.h>

// What tensor parallelism does with a weight, by the last part of its name.
enum tp_side { TP_NONE, TP_OUTPUTS, TP_INPUTS };

static bool ends(const char *name, size_t n, const char *part)
{
    size_t k = strlen(part);
    return n >= k && memcmp(name + n - k, part, k) == 0 && (n == k || strchr("._/", name[n - k - 1]));
}

static enum tp_side side_of(const char *name)
{
    static const char *const outputs[] = {"q",     "k",         "v",     "q_proj", "k_proj",  "v_proj",
                                          "query", "key",       "value", "up",     "up_proj", "gate",
                                          "fc1",   "gate_proj", "wq",    "wk",     "wv",      "intermediate.dense"};
    static const char *const inputs[] = {"out", "o_proj", "out_proj", "wo", "down", "down_proj", "fc2", "output.dense"};
    size_t n = strlen(name);
    static const char *const endings[] = {".weight", ".bias"};
    for (size_t i = 0; i < 2; i++) {
        size_t k = strlen(endings[i]);
        if (n > k && strcmp(name + n - k, endings[i]) == 0) {
            n -= k;
            break;
        }
    }
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        if (ends(name, n, outputs[i]))
            return TP_OUTPUTS;
    }
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (ends(name, n, inputs[i]))
            return TP_INPUTS;
    }
    return TP_NONE;
}

struct maker {
    const struct module *m;
    const struct layout *l;
    struct arena *arena;
    int64_t dp, fsdp, tp;
};

// "{devices=[8,1,32]<=[32,8]T(1,0) last_tile_dim_replicate}": axis `axis` divided by the ways whose order among
// (dp, fsdp, tp) is from `first` to `last`, copies over the others. NULL where nothing is divided.
static const char *divided(const struct maker *k, const struct shape *s, int axis, int first, int last,
                           struct error *err)
{
    const int64_t ways[] = {k->dp, k->fsdp, k->tp};
    int64_t before = 1, by = 1, behind = 1;
    for (int i = 0; i < 3; i++)
        *(i < first ? &before : i <= last ? &by : &behind) *= ways[i];
    struct str text;
    str_init(&text);
    str_add(&text, "{devices=[");
    for (int i = 0; i < s->rank; i++)
        str_addf(&text, "%s%" PRId64, i ? "," : "", i == axis ? by : 1);
    int64_t copies = before * behind;
    if (copies > 1)
        str_addf(&text, ",%" PRId64, copies);
    // Copies that come before in the order of devices are turned to the end: [before, by, behind] by axes (1, 0, 2).
    if (before == 1)
        str_addf(&text, "]<=[%" PRId64 "]", by * behind);
    else if (behind == 1)
        str_addf(&text, "]<=[%" PRId64 ",%" PRId64 "]T(1,0)", before, by);
    else
        str_addf(&text, "]<=[%" PRId64 ",%" PRId64 ",%" PRId64 "]T(1,0,2)", before, by, behind);
    str_add(&text, copies > 1 ? " last_tile_dim_replicate}" : "}");
    const char *out = arena_strdup(k->arena, str_text(&text), err);
    str_release(&text);
    return out;
}

static int check(const struct shape *s, int axis, int64_t by, const char *name, struct error *err)
{
    if (axis < s->rank && s->dims[axis] % by == 0)
        return 0;
    return error_set(err, ERR_USAGE, "--layout", "%s cannot be divided over %" PRId64 " devices along axis %d%s", name,
                     by, axis, axis < s->rank ? ": its size is no multiple" : ", which it does not have");
}

static int weight(const struct maker *k, const struct parameter *p, const char **out, struct error *err)
{
    const struct shape *s = &k->m->instructions[p->instruction].shape;
    int rc = 0;
    if (k->tp > 1) {
        enum tp_side side = side_of(p->name);
        if (side == TP_NONE && s->rank >= 2)
            return error_set(err, ERR_USAGE, "--layout",
                             "nothing is known of the weight %s that would say how tp divides it", p->name);
        int axis = side == TP_INPUTS ? 1 : 0;
        // A vector of scales or biases belongs to the outputs, and is whole where those are.
        if (side == TP_NONE || s->rank == 0 || (side == TP_INPUTS && s->rank < 2))
            return 0;
        rc = check(s, axis, k->tp, p->name, err);
        if (!rc && !(*out = divided(k, s, axis, 2, 2, err)))
            rc = ERR_MEMORY;
    } else if (k->fsdp > 1 && s->rank >= 2) {
        rc = check(s, 0, k->fsdp, p->name, err);
        if (!rc && !(*out = divided(k, s, 0, 1, 1, err)))
            rc = ERR_MEMORY;
    }
    return rc;
}

static int batch(const struct maker *k, const struct shape *s, const char *name, const char **out, struct error *err)
{
    if (k->dp * k->fsdp == 1 || !s->rank)
        return 0;
    int rc = check(s, 0, k->dp * k->fsdp, name, err);
    if (!rc && !(*out = divided(k, s, 0, 0, 1, err)))
        rc = ERR_MEMORY;
    return rc;
}

static int refuse_others(const struct layout *l, struct error *err)
{
    static const enum layout_axis others[] = {LAYOUT_ULYSSES, LAYOUT_RING, LAYOUT_PP, LAYOUT_EP};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (l->ways[others[i]] > 1)
            return error_set(err, ERR_USAGE, "--layout", "programs are divided by dp, fsdp and tp here, not by %s",
                             layout_axis_name(others[i]));
    }
    if (l->sp)
        return error_set(err, ERR_USAGE, "--layout", "programs are divided by dp, fsdp and tp here, not by sp");
    if (l->ways[LAYOUT_TP] > 1 && l->ways[LAYOUT_FSDP] > 1)
        return error_set(err, ERR_USAGE, "--layout", "fsdp and tp together are not done here: take dp with tp");
    return 0;
}

int sharding_make(struct sharding *out, const struct module *m, const struct layout *l, struct arena *arena,
                  struct error *err)
{
    struct maker k = {m, l, arena, l->ways[LAYOUT_DP], l->ways[LAYOUT_FSDP], l->ways[LAYOUT_TP]};
    int rc = refuse_others(l, err);
    if (rc)
        return rc;
    out->parameters = arena_new(arena, const char *, (size_t)m->n_parameters, err);
    out->results = arena_new(arena, const char *, (size_t)m->n_results, err);
    if (!out->parameters || !out->results)
        return ERR_MEMORY;
    for (int i = 0; i < m->n_parameters && !rc; i++) {
        const struct parameter *p = &m->parameters[i];
        rc = p->role == ROLE_WEIGHT
                 ? weight(&k, p, &out->parameters[i], err)
                 : batch(&k, &m->instructions[p->instruction].shape, p->name, &out->parameters[i], err);
    }
    for (int i = 0; i < m->n_results && !rc; i++)
        rc = batch(&k, &m->instructions[m->results[i]].shape, m->result_names[i], &out->results[i], err);
    return rc;
}
