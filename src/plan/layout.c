// SPDX-License-Identifier: Apache-2.0
#include "plan/layout.h"

#include <inttypes.h>
#include <string.h>

#include "base/suggest.h"

enum { MOST_WAYS = 1 << 20, MOST_MICROBATCHES = 1 << 20 };

static const char *const names[LAYOUT_AXES] = {
    [LAYOUT_DP] = "dp",     [LAYOUT_FSDP] = "fsdp", [LAYOUT_TP] = "tp", [LAYOUT_ULYSSES] = "ulysses",
    [LAYOUT_RING] = "ring", [LAYOUT_PP] = "pp",     [LAYOUT_EP] = "ep",
};

static const char *const presets[] = {"dp", "fsdp", "tp", "tp+sp", "ulysses", "ring", "ep"};

const char *layout_axis_name(enum layout_axis axis)
{
    return (unsigned)axis < LAYOUT_AXES ? names[axis] : "none";
}

const char *layout_preset(int i)
{
    return i >= 0 && (size_t)i < sizeof presets / sizeof *presets ? presets[i] : NULL;
}

void layout_words(struct str *out)
{
    for (int i = 0; layout_preset(i); i++)
        str_addf(out, "%s\n", layout_preset(i));
}

struct layout layout_single(void)
{
    struct layout l = {.zero = 0};
    for (int i = 0; i < LAYOUT_AXES; i++)
        l.ways[i] = 1;
    return l;
}

int64_t layout_devices(const struct layout *l)
{
    int64_t n = 1;
    for (int i = 0; i < LAYOUT_AXES; i++)
        n *= l->ways[i];
    return n;
}

int64_t layout_batch_ways(const struct layout *l)
{
    return l->ways[LAYOUT_DP] * l->ways[LAYOUT_FSDP] * l->ways[LAYOUT_EP];
}

int64_t layout_sequence_ways(const struct layout *l)
{
    return l->ways[LAYOUT_ULYSSES] * l->ways[LAYOUT_RING];
}

void layout_spell(const struct layout *l, struct str *out)
{
    const char *comma = "";
    for (int i = 0; i < LAYOUT_AXES; i++) {
        if (l->ways[i] == 1)
            continue;
        str_addf(out, "%s%s=%" PRId64, comma, names[i], l->ways[i]);
        comma = ",";
    }
    if (l->sp)
        str_addf(out, "%ssp", comma);
    if (l->zero)
        str_addf(out, "%szero=%d", comma, l->zero);
    if (l->microbatches)
        str_addf(out, "%smb=%" PRId64, comma, l->microbatches);
    if (!*comma)
        str_add(out, "single");
}

// --- parsing
// -----------------------------------------------------------------------------------------------------------------

// What was said so far.
struct terms {
    const char *text;
    struct layout *l;
    bool given[LAYOUT_AXES], given_zero;
    int open; // the axis without a number, or -1
};

static int unknown_term(const struct terms *t, const char *name, struct error *err)
{
    static const char *const all = "dp, fsdp, tp, ulysses, ring, pp, ep, sp, zero, mb";
    static const char *const others[] = {"single", "sp", "zero", "mb"};
    struct suggest s = {.wanted = name};
    for (int i = 0; i < LAYOUT_AXES; i++)
        suggest_offer(&s, names[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        suggest_offer(&s, others[i]);
    if (strcmp(name, "cp") == 0 || strcmp(name, "seq") == 0)
        return error_set(err, ERR_USAGE, t->text, "\"%s\" is ulysses or ring here: say which of the two", name);
    if (s.best)
        return error_set(err, ERR_USAGE, t->text, "there is no \"%s\" in a layout; did you mean \"%s\"? There is %s",
                         name, s.best, all);
    return error_set(err, ERR_USAGE, t->text, "there is no \"%s\" in a layout; there is %s", name, all);
}

static int twice(const struct terms *t, const char *name, struct error *err)
{
    return error_set(err, ERR_USAGE, t->text, "%s stands twice; once is enough", name);
}

static int count_of(const struct terms *t, const char *name, const char *value, int64_t most, int64_t *out,
                    struct error *err)
{
    if (!parse_i64(value, out) || *out < 1 || *out > most)
        return error_set(err, ERR_USAGE, t->text, "%s must be a whole number from 1 to %" PRId64 ", as in %s=4", name,
                         most, name);
    return 0;
}

static int add_axis(struct terms *t, int axis, const char *value, struct error *err)
{
    if (t->given[axis])
        return twice(t, names[axis], err);
    t->given[axis] = true;
    if (value)
        return count_of(t, names[axis], value, MOST_WAYS, &t->l->ways[axis], err);
    if (t->open >= 0)
        return error_set(err, ERR_USAGE, t->text,
                         "%s and %s both have no number; one at most can take the devices that are left",
                         names[t->open], names[axis]);
    t->open = axis;
    return 0;
}

static int add_term(struct terms *t, const char *name, const char *value, struct error *err)
{
    for (int i = 0; i < LAYOUT_AXES; i++) {
        if (strcmp(name, names[i]) == 0)
            return add_axis(t, i, value, err);
    }
    if (strcmp(name, "sp") == 0) {
        if (value)
            return error_set(
                err, ERR_USAGE, t->text,
                "sp has no number of its own: it divides over tp; a sequence of its own ways is ulysses=%s "
                "or ring=%s",
                value, value);
        if (t->l->sp)
            return twice(t, name, err);
        t->l->sp = true;
        return 0;
    }
    if (strcmp(name, "zero") == 0) {
        if (t->given_zero)
            return twice(t, name, err);
        t->given_zero = true;
        if (value && strcmp(value, "3") == 0)
            return error_set(err, ERR_USAGE, t->text, "stage 3 is written fsdp=N in place of dp=N");
        if (!value || (strcmp(value, "1") != 0 && strcmp(value, "2") != 0))
            return error_set(err, ERR_USAGE, t->text, "zero is a stage: zero=1 or zero=2, with dp=N");
        t->l->zero = value[0] - '0';
        return 0;
    }
    if (strcmp(name, "mb") == 0) {
        if (t->l->microbatches)
            return twice(t, name, err);
        return count_of(t, name, value ? value : "", MOST_MICROBATCHES, &t->l->microbatches, err);
    }
    return unknown_term(t, name, err);
}

static int split(struct terms *t, struct error *err)
{
    int rc = 0;
    for (const char *p = t->text; !rc; p++) {
        char term[64];
        size_t n = strcspn(p, ",+");
        if (!n)
            return error_set(err, ERR_USAGE, t->text, "a layout is terms joined by commas, as in fsdp=4,tp=2,sp");
        if (n >= sizeof term)
            return error_set(err, ERR_USAGE, t->text, "a term is too long");
        memcpy(term, p, n);
        term[n] = '\0';
        char *value = strchr(term, '=');
        if (value)
            *value++ = '\0';
        rc = add_term(t, term, value, err);
        p += n;
        if (!*p)
            break;
    }
    return rc;
}

// The product of the ways that have a number; MOST_WAYS + 1 and more is too many.
static int64_t product(const struct layout *l)
{
    int64_t n = 1;
    for (int i = 0; i < LAYOUT_AXES && n <= MOST_WAYS; i++)
        n *= l->ways[i];
    return n;
}

static int fill(struct terms *t, int64_t devices, struct error *err)
{
    int64_t ways = product(t->l);
    if (ways > MOST_WAYS)
        return error_set(err, ERR_USAGE, t->text, "is more than %d ways", (int)MOST_WAYS);
    if (t->open >= 0) {
        if (!devices)
            return error_set(err, ERR_USAGE, t->text,
                             "%s needs a number, as in %s=8: how many devices there are is not known without a target",
                             names[t->open], names[t->open]);
        if (devices % ways)
            return error_set(err, ERR_USAGE, t->text,
                             "%" PRId64 " devices cannot be divided by the %" PRId64 " ways that have a number",
                             devices, ways);
        t->l->ways[t->open] = devices / ways;
        return 0;
    }
    if (devices && ways != devices) {
        if (devices % ways == 0)
            return error_set(err, ERR_USAGE, t->text,
                             "is %" PRId64 " ways, and there are %" PRId64 " devices; %" PRId64
                             " times as many are needed: add dp=%" PRId64 ", or leave one number away",
                             ways, devices, devices / ways, devices / ways * t->l->ways[LAYOUT_DP]);
        return error_set(err, ERR_USAGE, t->text,
                         "is %" PRId64 " ways, and there are %" PRId64
                         " devices; the product of all ways must be the number of devices",
                         ways, devices);
    }
    return 0;
}

// What belongs to an axis stands with it.
static int consistent(const struct terms *t, struct error *err)
{
    if (t->l->sp && !t->given[LAYOUT_TP])
        return error_set(
            err, ERR_USAGE, t->text,
            "sp divides what tp leaves whole, so it needs tp=N; the sequence alone is divided by ulysses=N "
            "or ring=N");
    if (t->l->zero && !t->given[LAYOUT_DP])
        return error_set(err, ERR_USAGE, t->text, "zero=%d divides what copies hold, so it needs dp=N; fsdp is stage 3",
                         t->l->zero);
    if (t->l->microbatches && !t->given[LAYOUT_PP])
        return error_set(err, ERR_USAGE, t->text, "mb is of a pipeline: it needs pp=N");
    return 0;
}

// What divides over one way divides nothing.
static void drop_idle(struct layout *l)
{
    if (l->ways[LAYOUT_TP] == 1)
        l->sp = false;
    if (l->ways[LAYOUT_DP] == 1)
        l->zero = 0;
    if (l->ways[LAYOUT_PP] == 1)
        l->microbatches = 0;
}

int layout_parse(struct layout *l, const char *text, int64_t devices, struct error *err)
{
    struct terms t = {.text = text, .l = l, .open = -1};
    *l = layout_single();
    if (devices < 0 || devices > MOST_WAYS)
        return error_set(err, ERR_USAGE, text, "a layout is over 1 to %d devices", (int)MOST_WAYS);
    int rc = strcmp(text, "single") == 0 ? 0 : split(&t, err);
    if (!rc)
        rc = consistent(&t, err);
    if (!rc)
        rc = fill(&t, devices, err);
    drop_idle(l);
    return rc;
}

// --- what a model allows
// -----------------------------------------------------------------------------------------------------

// "1, 2, 4 and 8": the ways up to n that divide n, at most a dozen.
static void divisors(struct str *out, int64_t n)
{
    int shown = 0;
    for (int64_t d = 1; d <= n && d <= MOST_WAYS && shown < 12; d++) {
        if (n % d == 0)
            str_addf(out, "%s%" PRId64, shown++ ? ", " : "", d);
    }
}

static int must_divide(const char *what, int64_t n, const char *axes, int64_t ways, struct error *err)
{
    struct str list;
    if (!n || n % ways == 0)
        return 0;
    str_init(&list);
    divisors(&list, n);
    error_set(err, ERR_USAGE, "--layout", "%" PRId64 " %s cannot be divided over %s=%" PRId64 " ways; %s of %s do", n,
              what, axes, ways, axes, str_text(&list));
    str_release(&list);
    return ERR_USAGE;
}

// Heads of keys and values are divided, or copied evenly where there are more ways than heads.
static int check_kv_heads(int64_t kv_heads, const char *axes, int64_t ways, struct error *err)
{
    if (kv_heads && ways % kv_heads && kv_heads % ways)
        return error_set(err, ERR_USAGE, "--layout",
                         "%" PRId64
                         " heads of keys and values can neither be divided nor copied evenly over %s=%" PRId64
                         " ways; a divisor or a multiple of %" PRId64 " would do",
                         kv_heads, axes, ways, kv_heads);
    return 0;
}

static int check_experts(const struct layout *l, const struct layout_limits *m, struct error *err)
{
    if (l->ways[LAYOUT_EP] == 1)
        return 0;
    if (m->dense)
        return error_set(err, ERR_USAGE, "--layout",
                         "ep=%" PRId64 " divides experts, and this model has none; use fsdp=%" PRId64 " or tp=%" PRId64,
                         l->ways[LAYOUT_EP], l->ways[LAYOUT_EP], l->ways[LAYOUT_EP]);
    return must_divide("experts", m->experts, "ep", l->ways[LAYOUT_EP], err);
}

int layout_check(const struct layout *l, const struct layout_limits *m, struct error *err)
{
    int64_t tp = l->ways[LAYOUT_TP], ulysses = l->ways[LAYOUT_ULYSSES], pp = l->ways[LAYOUT_PP];
    int64_t batch_ways = layout_batch_ways(l), seq_ways = layout_sequence_ways(l);
    const char *axes = ulysses == 1 ? "tp" : tp == 1 ? "ulysses" : "tp*ulysses";
    int rc = must_divide("heads", m->heads, axes, tp * ulysses, err);
    if (!rc)
        rc = check_kv_heads(m->kv_heads, axes, tp * ulysses, err);
    if (!rc)
        rc = must_divide("columns of the ffn", m->ffn, "tp", tp, err);
    if (!rc)
        rc = must_divide("columns of an expert", m->expert_ffn, "tp", tp, err);
    if (!rc && l->sp)
        rc = must_divide("tokens of a sequence", m->seq, "tp (with sp)", tp * seq_ways, err);
    if (!rc)
        rc = must_divide("tokens of a sequence", m->seq, ulysses == 1 ? "ring" : "ulysses", seq_ways, err);
    if (!rc)
        rc = check_experts(l, m, err);
    if (!rc && m->layers && pp > m->layers)
        rc = error_set(err, ERR_USAGE, "--layout", "pp=%" PRId64 " is more stages than the model has layers, %" PRId64,
                       pp, m->layers);
    if (!rc && m->batch && m->batch % batch_ways)
        rc = error_set(err, ERR_USAGE, "--layout",
                       "a batch of %" PRId64 " sequences cannot be divided over the %" PRId64
                       " ways of dp, fsdp and ep; give --batch %" PRId64 " or fewer ways",
                       m->batch, batch_ways, (m->batch / batch_ways + 1) * batch_ways);
    if (!rc && m->batch && l->microbatches && m->batch / batch_ways % l->microbatches)
        rc = error_set(err, ERR_USAGE, "--layout",
                       "mb=%" PRId64 " does not divide the %" PRId64 " sequences that each pipeline gets",
                       l->microbatches, m->batch / batch_ways);
    return rc;
}
