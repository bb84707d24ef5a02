// SPDX-License-Identifier: Apache-2.0
#include "lab/qualify_why.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chips/local.h"

#define NOT_FASTER 0.99 // ratio of times from which one is not faster: what the paired samples tell apart
#define CONFIDENCE 0.95

// ---- The command of a comparison

// As a shell takes it: plain, or in single quotes.
static void add_word(struct str *s, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,=:@%+-";
    str_add_char(s, ' ');
    if (*word && word[strspn(word, plain)] == '\0') {
        str_add(s, word);
        return;
    }
    str_add_char(s, '\'');
    for (; *word; word++)
        str_add(s, *word == '\'' ? "'\\''" : (const char[]){*word, '\0'});
    str_add_char(s, '\'');
}

const char *qualify_command(struct qualify *q, const char *const *policies, size_t n, const char *more,
                            struct error *err)
{
    const struct qualify_options *o = q->options;
    struct str s;
    str_init(&s);
    str_add(&s, "assay qualify");
    add_word(&s, o->workload.directory);
    if (o->workload.text_path) {
        str_add(&s, " --text");
        add_word(&s, o->workload.text_path);
    }
    const struct {
        const char *option, *value;
    } given[] = {{" --weights", o->workload.weights},
                 {" --weight-args", o->workload.weight_args},
                 {" --inputs", o->workload.inputs}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (given[i].value) {
            str_add(&s, given[i].option);
            add_word(&s, given[i].value);
        }
    }
    if (o->worker.device && strcmp(o->worker.device, "cpu") != 0) {
        str_add(&s, " --device");
        add_word(&s, o->worker.device);
    }
    for (size_t i = 0; i < n; i++) {
        str_add(&s, " --policy");
        add_word(&s, policies[i]);
    }
    bool batch = more && strstr(more, "--batch");
    if (!batch && o->workload.batch > 0 && o->workload.batch != 32)
        str_addf(&s, " --batch %lld", (long long)o->workload.batch);
    if (o->workload.seq > 0)
        str_addf(&s, " --seq %lld", (long long)o->workload.seq);
    if (more)
        str_addf(&s, " %s", more);
    int rc = str_check(&s, err);
    const char *out = rc ? NULL : arena_strdup(&q->arena, str_text(&s), err);
    str_release(&s);
    return out;
}

int qualify_device_chip(struct qualify *q, const struct chip **out, const char **reason, struct error *err)
{
    struct error unknown = {0};
    *out = NULL;
    *reason = "`assay bench --calibrate` measures what it reaches";
    if (strcmp(q->device->platform_name, "cpu") != 0) {
        *reason = "its chip is not in the table that `assay chips` shows";
        return chip_find(q->device->devices[q->device->device].kind, out, &unknown) == ERR_MEMORY ? ERR_MEMORY : 0;
    }
    const struct chip *local;
    for (size_t k = 0; k < q->n_chips; k++) {
        if (strcmp(q->chips[k]->name, "calibrated") == 0)
            *out = q->chips[k];
    }
    if (*out)
        return 0;
    // A calibration that cannot be read is no reason to lose a run that is over.
    if (chip_get(&q->arena, "local", q->host.model, q->device->plugin_sha256, &local, &unknown) == 0 &&
        !isnan(chip_bandwidth(local, CHIP_PER_DEVICE).value))
        *out = local;
    (void)err;
    return 0;
}

// ---- Reasons

struct explain {
    struct qualify *q;
    struct qualify_policy *p;
    const struct qualify_policy *wide;
    struct qualify_why *why;
    const struct chip *chip; // of the device; NULL: not known, for `no_chip`
    const char *no_chip;
    struct error *err;
};

static struct why_reason *reason(struct explain *e, const char *kind, const struct narrow_work *where)
{
    struct why_reason *r = &e->why->reasons[e->why->n++];
    *r = (struct why_reason){.kind = kind, .where = where && where->n_largest ? where : NULL};
    return r;
}

static void figure(struct why_reason *r, const char *name, double value, const char *unit, const char *source)
{
    r->figures[r->n_figures].name = name;
    r->figures[r->n_figures++].value = quantity_make(value, unit, ORIGIN_DERIVED, source);
}

static const char program[] = "counted in the optimised program that ran";

// The policy with something else in one of its fields: a preset where it is one, else spelled out.
static const char *spell(struct explain *e, const struct policy *y)
{
    struct str s, names, other;
    str_init(&s);
    str_init(&names);
    str_init(&other);
    policy_spell(y, &s);
    policy_words(&names);
    const char *out = NULL;
    for (char *name = names.text, *end; name && *name && !out; name = end + 1) {
        struct policy preset;
        struct error ignored = {0};
        end = strchr(name, '\n');
        if (!end)
            break;
        *end = '\0';
        str_clear(&other);
        if (policy_parse(&preset, name, &ignored) == 0)
            policy_spell(&preset, &other);
        if (strcmp(str_text(&other), str_text(&s)) == 0)
            out = arena_strdup(&e->q->arena, name, e->err);
    }
    int rc = str_check(&s, e->err);
    if (!rc && !out)
        out = arena_strdup(&e->q->arena, str_text(&s), e->err);
    str_release(&s);
    str_release(&names);
    str_release(&other);
    return out;
}

static const char *compare_policies(struct explain *e, const char *a, const char *b, const char *more)
{
    const char *const both[] = {a, b};
    return a && b ? qualify_command(e->q, both, 2, more, e->err) : NULL;
}

static const char *label(const struct explain *e)
{
    bool cpu = strcmp(e->q->device->platform_name, "cpu") == 0;
    return cpu || !e->chip ? "this machine" : e->chip->name;
}

// Milliseconds that bytes take at the device's bandwidth, in words; "" where nobody has measured it.
static const char *in_time(struct explain *e, double bytes)
{
    double rate = e->chip ? chip_bandwidth(e->chip, CHIP_PER_DEVICE).value : NAN;
    if (isnan(rate))
        return "";
    const char *text = arena_printf(&e->q->arena, e->err, " (%.3g ms at the %.4g GB/s of %s)", bytes / rate * 1e3,
                                    rate / 1e9, label(e));
    return text ? text : "";
}

// The same products, with weights stored in the type that these are widened to. Quantised products need quantised
// weights: then it is the wider policy itself.
static void compare_storage(struct explain *e, struct why_reason *r, enum dtype type)
{
    struct policy y = e->p->policy;
    bool wide_float = type != DT_INVALID && dtype_is_float(type) && !policy_has_scales(type);
    if (policy_has_scales(y.a)) {
        r->changes = "the policy: quantised products leave no choice of how their weights are stored";
        r->command = compare_policies(e, e->wide->policy.name, y.name, NULL);
        return;
    }
    y.w = y.vectors = wide_float ? type : y.between;
    r->changes = "the type that weights are stored in: the products stay as they are";
    r->command = compare_policies(e, spell(e, &y), e->p->policy.name, NULL);
}

static void weights_widened(struct explain *e)
{
    const struct narrow *n = &e->why->own;
    const struct narrow_work *w = &n->widened;
    if (!w->count)
        return;
    struct why_reason *r = reason(e, "weights widened", w);
    double moved = w->read_bytes + 2 * w->written_bytes;
    r->text = arena_printf(&e->q->arena, e->err,
                           "%d whole weight%s made %s again in every call: %.4g MB of codes and scales are read, %.4g "
                           "MB are written, and the products read those%s; that is %.0f %% of what the program moves",
                           w->count, w->count == 1 ? " is" : "s are", dtype_name(w->type), w->read_bytes / 1e6,
                           w->written_bytes / 1e6, in_time(e, moved), 100 * moved / n->bytes);
    figure(r, "weights", w->count, "count", program);
    figure(r, "elements", w->elements, "count", program);
    figure(r, "flop", w->element_flop, "FLOP", program);
    figure(r, "read", w->read_bytes, "B", program);
    figure(r, "written", w->written_bytes, "B", program);
    figure(r, "share_of_bytes", moved / n->bytes, "1", "(read + 2 written) / bytes of the program");
    compare_storage(e, r, w->type);
}

static void weights_in_place(struct explain *e)
{
    const struct narrow_work *w = &e->why->own.inner;
    double weights = (double)e->p->weight_bytes;
    if (w->elements * 100 < weights) // rows that are looked up, and the like
        return;
    struct why_reason *r = reason(e, "weights widened in place", w);
    r->text = arena_printf(&e->q->arena, e->err,
                           "%d conversion%s whole weights inside the code that uses them: %.4g M elements a call; "
                           "nothing is written, the arithmetic is done every time",
                           w->count, w->count == 1 ? " widens" : "s widen", w->elements / 1e6);
    figure(r, "conversions", w->count, "count", program);
    figure(r, "elements", w->elements, "count", program);
    compare_storage(e, r, e->p->policy.between);
}

static void temporaries(struct explain *e)
{
    const struct narrow_work *w = &e->why->own.widened;
    int64_t own = e->p->subject.program.memory.temporaries, other = e->wide->subject.program.memory.temporaries;
    bool known = own >= 0 && other >= 0;
    if (!w->count || (known && own <= other))
        return;
    struct why_reason *r = reason(e, "temporaries", NULL);
    const char *plan =
        known ? arena_printf(&e->q->arena, e->err, "; the compiler plans %.4g MB of temporaries, under %s %.4g MB",
                             (double)own / 1e6, e->wide->policy.name, (double)other / 1e6)
              : "; the plugin does not say what it plans";
    r->text = arena_printf(
        &e->q->arena, e->err, "unpacked weights are temporaries: %.4g MB in a call, the largest of %.4g MB (%s, %s)%s",
        w->written_bytes / 1e6, w->largest[0].bytes / 1e6, w->largest[0].shape, w->largest[0].scope, plan ? plan : "");
    figure(r, "unpacked", w->written_bytes, "B", program);
    figure(r, "largest", w->largest[0].bytes, "B", program);
    figure(r, "planned", known ? (double)own : NAN, "B",
           known ? "the compiler's account of temporaries" : "the plugin does not offer it");
    figure(r, "planned_against", known ? (double)other : NAN, "B",
           known ? "the compiler's account of the other policy" : "the plugin does not offer it");
    r->changes = "the batch: temporaries of activations shrink with it, those of weights do not (table Memory)";
    r->command = compare_policies(e, e->wide->policy.name, e->p->policy.name, "--batch 1");
}

static void quantisation(struct explain *e)
{
    const struct narrow *n = &e->why->own;
    const struct narrow_work *w = &n->quantised, *s = &n->scales;
    if (!w->count)
        return;
    struct why_reason *r = reason(e, "quantisation", w);
    double moved = w->read_bytes + w->written_bytes + s->read_bytes + s->written_bytes;
    double flop = w->element_flop + s->element_flop;
    const char *scales = s->count ? arena_printf(&e->q->arena, e->err, ", with %d pass%s for their scales", s->count,
                                                 s->count == 1 ? "" : "es")
                                  : "";
    r->text = arena_printf(&e->q->arena, e->err,
                           "%d activation%s quantised in every call%s: %.4g M elements, %.4g MFLOP, %.4g MB%s; %.0f "
                           "%% of what the program moves",
                           w->count, w->count == 1 ? " is" : "s are", scales ? scales : "", w->elements / 1e6,
                           flop / 1e6, moved / 1e6, in_time(e, moved), 100 * moved / n->bytes);
    figure(r, "activations", w->count, "count", program);
    figure(r, "elements", w->elements, "count", program);
    figure(r, "flop", flop, "FLOP", "element arithmetic of these instructions, scales included");
    figure(r, "moved", moved, "B", "read and written by these instructions, scales included");
    figure(r, "passes_for_scales", s->count, "count", program);
    figure(r, "share_of_bytes", moved / n->bytes, "1", "moved / bytes of the program");
    struct policy y = e->p->policy;
    if (s->count && !y.a_static) {
        y.a_static = true;
        y.a_grain = GRAIN_TENSOR;
        y.a_percentile = 100;
        bool exported = e->q->workload.program != NULL;
        r->changes = exported ? "where scales come from: made before, from other cases, in place of in every call"
                              : "where scales come from: made before, from other texts, in place of in every call";
        r->command = compare_policies(e, e->p->policy.name, spell(e, &y),
                                      exported ? "--calibrate OTHER.npz" : "--calibrate OTHER_TEXTS");
        return;
    }
    y.a = y.between;
    y.op = y.between;
    y.acc = DT_F32;
    r->changes = "the activations: the same stored weights with floating ones";
    r->command = compare_policies(e, spell(e, &y), e->p->policy.name, NULL);
}

// Product FLOP in types that are wider than the policy asks for, products between activations left out.
static void products(struct explain *e)
{
    const struct policy *y = &e->p->policy;
    double all = 0, wider = 0, most = 0;
    enum dtype type = DT_INVALID;
    for (int t = 0; t < DT_COUNT; t++) {
        double flop = e->why->own.product_flop[t];
        all += flop;
        if ((enum dtype)t == y->op || (enum dtype)t == y->op_inner ||
            dtype_info((enum dtype)t)->bits <= dtype_info(y->op)->bits)
            continue;
        wider += flop;
        type = flop > most ? (enum dtype)t : type;
        most = flop > most ? flop : most;
    }
    if (!(wider > 0.01 * all))
        return;
    struct why_reason *r = reason(e, "products", NULL);
    r->text = arena_printf(&e->q->arena, e->err,
                           "%.3g %% of the product FLOP multiply %s, although the policy asks for %s: no faster than "
                           "storing %s, and the conversions come on top",
                           100 * wider / all, dtype_name(type), dtype_name(y->op), dtype_name(type));
    figure(r, "flop", wider, "FLOP", "products by the type of their left operand, in the optimised program");
    figure(r, "share", wider / all, "1", "of all product FLOP");
    const char *const one[] = {y->name};
    if (!e->p->emulation && policy_emulation(y, e->q->device->platform_name)) {
        r->changes = "how such products are made: of types that the device has, with the same values";
        r->command = qualify_command(e->q, one, 1, "--emulate", e->err);
        return;
    }
    r->changes = "the device: which arithmetic another one has for such products is what its compiler says";
    r->command = arena_printf(&e->q->arena, e->err, "assay compile %s --target v6e --policy %s",
                              e->q->options->workload.directory, y->name);
}

static void batch(struct explain *e)
{
    const struct narrow *n = &e->why->own;
    double flop = 0;
    for (int t = 0; t < DT_COUNT; t++)
        flop += n->product_flop[t];
    if (!(flop > 0) || !(n->bytes > 0))
        return;
    enum dtype type = DT_INVALID;
    for (int t = 0; t < DT_COUNT; t++)
        type = type == DT_INVALID || n->product_flop[t] > n->product_flop[type] ? (enum dtype)t : type;
    enum chip_type rate_type = chip_type_from_name(dtype_name(type));
    double rate = e->chip && rate_type < CHIP_TYPES ? chip_rate(e->chip, rate_type, CHIP_PER_DEVICE).value : NAN;
    double ridge = e->chip ? rate / chip_bandwidth(e->chip, CHIP_PER_DEVICE).value : NAN, intensity = flop / n->bytes;
    struct why_reason *r = reason(e, "batch", NULL);
    bool exported = e->q->workload.program != NULL; // it has shapes of its own
    long long now = (long long)e->q->workload.batch, other = now * 4;
    const char *what = exported ? "a run" : arena_printf(&e->q->arena, e->err, "batch %lld", now);
    if (isnan(ridge))
        r->text = arena_printf(&e->q->arena, e->err,
                               "%.3g product FLOP for each byte that it moves; where the ridge of this device lies is "
                               "not known: %s",
                               intensity, e->chip ? "there is no rate for these products" : e->no_chip);
    else if (intensity < ridge)
        r->text = arena_printf(&e->q->arena, e->err,
                               "%s is too small to be bound by arithmetic: %.3g product FLOP a byte, below the "
                               "ridge of %s at %.3g; what is done once in a call is spread over too few rows",
                               what ? what : "", intensity, label(e), ridge);
    else {
        other = now > 4 ? now / 4 : 1;
        r->text = arena_printf(&e->q->arena, e->err,
                               "%s is bound by arithmetic: %.3g product FLOP a byte, above the ridge of %s at "
                               "%.3g; fewer stored bytes save no time there, only faster products do",
                               what ? what : "", intensity, label(e), ridge);
    }
    figure(r, "intensity", intensity, "FLOP/B", "product FLOP / bytes of the optimised program");
    figure(r, "ridge", ridge, "FLOP/B",
           isnan(ridge) ? "no rate of these products is known for this device" : "rate of the products / bandwidth");
    const char *more = exported ? NULL : arena_printf(&e->q->arena, e->err, "--batch %lld", other);
    r->changes = exported ? "the batch: the program exported with another one" : "the batch";
    r->command = compare_policies(e, e->wide->policy.name, e->p->policy.name, more);
}

// ---- Which, and against which

static int read_program(struct explain *e, const struct qualify_policy *p, struct narrow *out)
{
    const struct subject *s = &p->subject;
    struct error why = {0};
    bool *weights = arena_new(&e->q->arena, bool, s->module.n_parameters, e->err);
    if (!weights)
        return ERR_MEMORY;
    for (int i = 0; i < s->module.n_parameters; i++)
        weights[i] = s->module.parameters[i].role == ROLE_WEIGHT;
    enum dtype codes = policy_has_scales(p->policy.a) ? p->policy.a : DT_INVALID;
    if (!s->program.optimized) {
        e->why->unread = "the plugin does not hand over its optimised program";
        return 0;
    }
    int rc = narrow_read(out, s->program.optimized, s->program.optimized_length, weights,
                         (size_t)s->module.n_parameters, codes, &e->q->arena, &why);
    if (rc == ERR_INPUT) {
        e->why->unread = arena_printf(&e->q->arena, e->err, "the optimised program cannot be read: %s", why.message);
        return e->why->unread ? 0 : ERR_MEMORY;
    }
    return rc ? error_set(e->err, rc, why.where, "%s", why.message) : 0;
}

static int find_reasons(struct explain *e)
{
    int rc = read_program(e, e->p, &e->why->own);
    if (!rc && !e->why->unread)
        rc = read_program(e, e->wide, &e->why->other);
    if (rc || e->why->unread)
        return rc;
    weights_widened(e);
    temporaries(e);
    weights_in_place(e);
    quantisation(e);
    products(e);
    batch(e);
    for (int i = 0; i < e->why->n; i++) {
        if (!e->why->reasons[i].text || !e->why->reasons[i].command)
            return ERR_MEMORY;
    }
    return 0;
}

static double stored(const struct qualify_policy *p)
{
    return (double)(p->weight_bytes + p->scale_bytes);
}

// The fastest policy that stores more; NULL: none.
static const struct qualify_policy *wider_one(const struct qualify *q, const struct qualify_policy *p)
{
    const struct qualify_policy *best = NULL;
    for (size_t i = 0; i < q->n_policies; i++) {
        const struct qualify_policy *o = &q->policies[i];
        if (o->ok && o != p && stored(o) > stored(p) && o->n_samples == p->n_samples &&
            (!best || o->time.p50 < best->time.p50))
            best = o;
    }
    return best;
}

int qualify_explain(struct qualify *q, struct error *err)
{
    struct explain e = {.q = q, .err = err};
    int rc = qualify_device_chip(q, &e.chip, &e.no_chip, err);
    for (size_t i = 0; i < q->n_policies && !rc; i++) {
        struct measure_comparison c;
        e.p = &q->policies[i];
        e.wide = e.p->ok ? wider_one(q, e.p) : NULL;
        if (!e.wide)
            continue;
        rc = measure_compare(&c, e.wide->samples_ns, e.p->samples_ns, e.p->n_samples, 0.01, CONFIDENCE, err);
        if (rc || !(c.ratio >= NOT_FASTER))
            continue;
        e.why = arena_new(&q->arena, struct qualify_why, 1, err);
        if (!e.why)
            return ERR_MEMORY;
        e.why->against = (size_t)(e.wide - q->policies);
        e.why->ratio = c;
        e.p->why = e.why;
        rc = find_reasons(&e);
    }
    return rc;
}

// ---- The document

static void write_reason(const struct why_reason *r, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "kind", r->kind);
    jw_kv_string(w, "text", r->text);
    jw_key(w, "figures");
    jw_object(w);
    for (int i = 0; i < r->n_figures; i++)
        quantity_json_kv(w, r->figures[i].name, r->figures[i].value);
    jw_object_end(w);
    jw_key(w, "where");
    jw_array(w);
    for (int i = 0; r->where && i < r->where->n_largest; i++) {
        jw_object(w);
        jw_kv_string(w, "instruction", r->where->largest[i].instruction);
        jw_kv_string(w, "scope", r->where->largest[i].scope);
        jw_kv_string(w, "shape", r->where->largest[i].shape);
        quantity_json_derived(w, "written", r->where->largest[i].bytes, "B", program);
        quantity_json_derived(w, "runs", r->where->largest[i].runs, "count", program);
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_kv_string(w, "changes", r->changes);
    jw_kv_string(w, "command", r->command);
    jw_object_end(w);
}

void qualify_why_json(const struct qualify *q, const struct qualify_policy *p, struct jw *w)
{
    static const char source[] = "median of the ratios of the rounds, exact binomial interval";
    const struct qualify_why *y = p->why;
    jw_key(w, "why_not_faster");
    if (!y) {
        jw_null(w);
        return;
    }
    const struct qualify_policy *wide = &q->policies[y->against];
    const char *unread = y->unread ? y->unread : program;
    jw_object(w);
    jw_kv_string(w, "against", wide->policy.name);
    quantity_json_kv(w, "ratio", quantity_make(y->ratio.ratio, "1", ORIGIN_MEASURED, source));
    quantity_json_kv(w, "low", quantity_make(y->ratio.low, "1", ORIGIN_MEASURED, source));
    quantity_json_kv(w, "high", quantity_make(y->ratio.high, "1", ORIGIN_MEASURED, source));
    quantity_json_derived(w, "stored", stored(p), "B", "weights and scales together");
    quantity_json_derived(w, "stored_against", stored(wide), "B", "weights and scales together");
    quantity_json_derived(w, "moved", y->unread ? NAN : y->own.bytes, "B", unread);
    quantity_json_derived(w, "moved_against", y->unread ? NAN : y->other.bytes, "B", unread);
    jw_kv_string(w, "unread", y->unread);
    jw_kv_bool(w, "loops_unknown", y->own.loops_unknown);
    jw_key(w, "reasons");
    jw_array(w);
    for (int i = 0; i < y->n; i++)
        write_reason(&y->reasons[i], w);
    jw_array_end(w);
    jw_object_end(w);
}
