// SPDX-License-Identifier: Apache-2.0
#include "ir/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/weight_view.h"
#include "num/quantize.h"

struct preset {
    const char *name, *spec;
};

static const struct preset presets[] = {
    {"f32", "w=f32,a=f32,op=f32,acc=f32,red=f32,norm=f32,out=f32"},
    {"bf16", "w=bf16,a=bf16,op=bf16,acc=f32,red=f32,norm=f32,out=f32"},
    {"f16", "w=f16,a=f16,op=f16,acc=f32,red=f32,norm=f32,out=f32"},
    {"w8a16", "w=s8/channel,a=bf16,op=bf16,acc=f32,red=f32,norm=f32,out=f32"},
    {"w8a8", "w=s8/channel,a=s8/row,op=s8,acc=s32,red=f32,norm=f32,out=f32"},
    {"w8a8-static", "w=s8/channel,a=s8/tensor:static,op=s8,acc=s32,red=f32,norm=f32,out=f32"},
    {"w4a16", "w=s4/group:32,a=bf16,op=bf16,acc=f32,red=f32,norm=f32,out=f32"},
    {"fp8", "w=f8e4m3fn/tensor,a=f8e4m3fn/tensor,op=f8e4m3fn,acc=f32,red=f32,norm=f32,out=f32"},
};
#define PRESET_NAMES "f32, bf16, f16, w8a16, w8a8, w8a8-static, w4a16, fp8"
#define FIELD_NAMES  "w, a, op, acc, red, norm, kv, out, grad, master, opt"

const char *policy_presets(void)
{
    return PRESET_NAMES;
}

void policy_words(struct str *out)
{
    for (const char *p = policy_presets(); *p;) {
        size_t n = strcspn(p, ",");
        str_add_n(out, p, n);
        str_add_char(out, '\n');
        p += n;
        p += strspn(p, ", ");
    }
}

static enum dtype type_named(const char *name)
{
    static const struct {
        const char *name;
        enum dtype type;
    } others[] = {{"int4", DT_S4},   {"int8", DT_S8},  {"int16", DT_S16},
                  {"int32", DT_S32}, {"uint8", DT_U8}, {"fp8", DT_F8E4M3FN}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(name, others[i].name) == 0)
            return others[i].type;
    }
    return dtype_from_name(name);
}

static bool is_wide(enum dtype t)
{
    return t == DT_F32 || t == DT_BF16 || t == DT_F16;
}

static bool is_f8(enum dtype t)
{
    return t == DT_F8E4M3FN || t == DT_F8E5M2;
}

bool policy_has_scales(enum dtype t)
{
    return dtype_is_integer(t) || (dtype_is_float(t) && dtype_bits(t) <= 8);
}

double policy_code_max(enum dtype t)
{
    switch (t) {
    case DT_S4:
        return 7;
    case DT_U8:
        return 255;
    case DT_S16:
        return 32767;
    case DT_F8E4M3FN:
        return 448;
    case DT_F8E5M2:
        return 57344;
    default:
        return 127;
    }
}

// "tensor", "channel", "row" or "group:N".
static int parse_grain(const char *field, const char *text, enum granularity *grain, int64_t *group, struct error *err)
{
    if (strcmp(text, "tensor") == 0)
        *grain = GRAIN_TENSOR;
    else if (strcmp(text, "channel") == 0 || strcmp(text, "row") == 0)
        *grain = GRAIN_CHANNEL;
    else if (strncmp(text, "group:", 6) == 0 && parse_i64(text + 6, group) && *group > 0 && *group <= 65536)
        *grain = GRAIN_GROUP;
    else
        return error_set(err, ERR_USAGE, "--policy",
                         "%s=.../%s: expected tensor, channel, row or group:N (N at most 65536)", field, text);
    return 0;
}

// "TYPE" into a field; what stands behind a slash into *grain: NULL when the field takes none.
static int parse_type(const char *field, char *value, enum dtype *type, char **grain, struct error *err)
{
    char *slash = strchr(value, '/');
    if (slash)
        *slash++ = '\0';
    *type = type_named(value);
    if (*type == DT_INVALID)
        return error_set(err, ERR_USAGE, "--policy",
                         "%s=%s: no such type (f32, bf16, f16, int8, uint8, int16, int4, f8e4m3fn, f8e5m2...)", field,
                         value);
    if (slash && !grain)
        return error_set(err, ERR_USAGE, "--policy", "%s= takes no granularity", field);
    if (slash && dtype_is_float(*type) && dtype_bits(*type) >= 16)
        return error_set(err, ERR_USAGE, "--policy", "%s=%s takes no granularity: it has no scales", field, value);
    if (grain)
        *grain = slash;
    return 0;
}

static int parse_weights(struct policy *p, char *value, struct error *err)
{
    char *grain;
    int rc = parse_type("w", value, &p->w, &grain, err);
    p->w_grain = is_f8(p->w) ? GRAIN_TENSOR : GRAIN_CHANNEL;
    return rc || !grain ? rc : parse_grain("w", grain, &p->w_grain, &p->w_group, err);
}

static int parse_percentile(struct policy *p, const char *text, struct error *err)
{
    if (*text != 'p' || !parse_double(text + 1, &p->a_percentile) || !(p->a_percentile > 50) || p->a_percentile > 100)
        return error_set(err, ERR_USAGE, "--policy",
                         "a=.../tensor:static:%s: expected p and a percentage above 50 and at most 100, as in p99.9",
                         text);
    return 0;
}

static int parse_activations(struct policy *p, char *value, struct error *err)
{
    char *grain;
    int64_t ignored = 0;
    int rc = parse_type("a", value, &p->a, &grain, err);
    p->a_grain = is_f8(p->a) ? GRAIN_TENSOR : GRAIN_CHANNEL;
    if (rc || !grain)
        return rc;
    char *how = strncmp(grain, "group:", 6) == 0 ? NULL : strchr(grain, ':');
    if (how)
        *how++ = '\0';
    rc = parse_grain("a", grain, &p->a_grain, &ignored, err);
    if (!rc && p->a_grain == GRAIN_GROUP)
        rc = error_set(err, ERR_USAGE, "--policy", "activations are quantised per row (a=%s/row) or per tensor",
                       dtype_name(p->a));
    if (rc || !how)
        return rc;
    char *percentile = strchr(how, ':');
    if (percentile)
        *percentile++ = '\0';
    if (strcmp(how, "static") != 0)
        return error_set(err, ERR_USAGE, "--policy",
                         "a=.../%s:%s: expected static, or nothing for scales that are "
                         "made in every call",
                         grain, how);
    if (p->a_grain != GRAIN_TENSOR)
        return error_set(err, ERR_USAGE, "--policy",
                         "a static scale is one per tensor (a=%s/tensor:static): the rows of other texts are others",
                         dtype_name(p->a));
    p->a_static = true;
    p->a_percentile = 100;
    return percentile ? parse_percentile(p, percentile, err) : 0;
}

// Fields that were left out follow from w and a.
static void complete(struct policy *p)
{
    p->vectors = is_wide(p->w) ? p->w : DT_F32;
    if (!p->a)
        p->a = is_wide(p->w) ? p->w : DT_BF16;
    if (!p->op)
        p->op = p->a;
    if (!p->acc)
        p->acc = dtype_is_integer(p->op) ? DT_S32 : DT_F32;
    if (!p->red)
        p->red = DT_F32;
    if (!p->norm)
        p->norm = DT_F32;
    if (!p->out)
        p->out = DT_F32;
    p->between = dtype_is_float(p->a) && dtype_bits(p->a) >= 16 ? p->a : p->red;
    p->op_inner = dtype_is_float(p->op) && dtype_bits(p->op) >= 16 ? p->op : DT_BF16;
}

// Operands that have scales: what they need of weights, activations and accumulation.
static int check_scaled_operands(const struct policy *p, struct error *err)
{
    const char *op = dtype_name(p->op);
    bool f8 = is_f8(p->op);
    if (p->op != DT_S8 && p->op != DT_U8 && p->op != DT_S16 && !f8)
        return error_set(err, ERR_USAGE, p->name,
                         "products cannot take %s operands (f32, bf16, f16, int8, uint8, int16, f8e4m3fn, f8e5m2)", op);
    if (f8 && (p->w != p->op || p->w_grain == GRAIN_GROUP || p->a != p->op))
        return error_set(err, ERR_USAGE, p->name,
                         "%s products need w=%s/tensor or w=%s/channel, and a=%s/tensor or a=%s/row", op, op, op, op,
                         op);
    if (!f8 && (p->w != DT_S8 || p->w_grain == GRAIN_GROUP || p->a != p->op || p->acc != DT_S32))
        return error_set(err, ERR_USAGE, p->name,
                         "%s products need w=int8/channel, a=%s/row or a=%s/tensor, and "
                         "acc=int32",
                         op, op, op);
    return 0;
}

// The combinations whose arithmetic the pass knows; each refusal says what would work.
static int check(const struct policy *p, struct error *err)
{
    const char *where = p->name;
    if (p->w != DT_S8 && p->w != DT_S4 && !is_f8(p->w) && !is_wide(p->w))
        return error_set(err, ERR_USAGE, where,
                         "weights cannot be stored as %s (f32, bf16, f16, int8, int4, f8e4m3fn, f8e5m2)",
                         dtype_name(p->w));
    bool a_codes = p->a == DT_S8 || p->a == DT_U8 || p->a == DT_S16 || is_f8(p->a);
    if (!a_codes && !is_wide(p->a))
        return error_set(err, ERR_USAGE, where,
                         "activations cannot be %s (f32, bf16, f16, int8, uint8, int16, f8e4m3fn, f8e5m2)",
                         dtype_name(p->a));
    if (!is_wide(p->op)) {
        int rc = check_scaled_operands(p, err);
        if (rc)
            return rc;
    } else if (a_codes) {
        return error_set(err, ERR_USAGE, where, "%s activations need op=%s", dtype_name(p->a), dtype_name(p->a));
    }
    const enum dtype floats[] = {p->red, p->norm, p->out, dtype_is_integer(p->op) ? DT_F32 : p->acc};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        if (!is_wide(floats[i]))
            return error_set(err, ERR_USAGE, where, "acc, red, norm and out are f32, bf16 or f16, not %s",
                             dtype_name(floats[i]));
    }
    return 0;
}

static int parse_field(struct policy *p, char *item, struct error *err)
{
    char *eq = strchr(item, '=');
    if (!eq)
        return error_set(err, ERR_USAGE, "--policy",
                         "'%s' is neither a preset (" PRESET_NAMES ") nor FIELD=TYPE (" FIELD_NAMES ")", item);
    *eq = '\0';
    const struct {
        const char *name;
        enum dtype *type;
    } fields[] = {{"w", &p->w},       {"a", &p->a},           {"op", &p->op},  {"acc", &p->acc},
                  {"red", &p->red},   {"norm", &p->norm},     {"kv", &p->kv},  {"out", &p->out},
                  {"grad", &p->grad}, {"master", &p->master}, {"opt", &p->opt}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(item, fields[i].name) != 0)
            continue;
        if (*fields[i].type)
            return error_set(err, ERR_USAGE, "--policy", "%s= is given twice", item);
        if (fields[i].type == &p->w)
            return parse_weights(p, eq + 1, err);
        if (fields[i].type == &p->a)
            return parse_activations(p, eq + 1, err);
        return parse_type(item, eq + 1, fields[i].type, NULL, err);
    }
    return error_set(err, ERR_USAGE, "--policy", "no field '%s' (" FIELD_NAMES ")", item);
}

// The spec of the preset that `text` begins with, up to its end or a comma; *rest is what follows the comma: NULL
// for nothing, all of the text where it begins with no preset. Then NULL is returned.
static const char *leading_preset(const char *text, const char **rest)
{
    size_t n = strcspn(text, ",");
    *rest = text;
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strlen(presets[i].name) == n && strncmp(presets[i].name, text, n) == 0) {
            *rest = text[n] ? text + n + 1 : NULL;
            return presets[i].spec;
        }
    }
    return NULL;
}

static int parse_spec(struct policy *p, const char *spec, struct error *err)
{
    char copy[512];
    if (snprintf(copy, sizeof copy, "%s", spec) >= (int)sizeof copy)
        return error_set(err, ERR_USAGE, "--policy", "is longer than %zu characters", sizeof copy - 1);
    for (char *item = copy, *next; item; item = next) {
        next = strchr(item, ',');
        if (next)
            *next++ = '\0';
        int rc = parse_field(p, item, err);
        if (rc)
            return rc;
    }
    return 0;
}

int policy_parse(struct policy *p, const char *text, struct error *err)
{
    memset(p, 0, sizeof *p);
    p->w_grain = p->a_grain = GRAIN_CHANNEL;
    const char *rest, *spec = leading_preset(text, &rest);
    if (snprintf(p->name, sizeof p->name, "%s", text) >= (int)sizeof p->name)
        p->name[sizeof p->name - 1] = '\0';
    int rc = spec ? parse_spec(p, spec, err) : 0;
    if (!rc && rest)
        rc = parse_spec(p, rest, err);
    if (rc)
        return rc;
    if (!p->w)
        return error_set(err, ERR_USAGE, "--policy", "'%s' does not say how weights are stored (w=)", text);
    complete(p);
    return check(p, err);
}

static void spell_weights(const struct policy *p, struct str *out)
{
    str_add(out, dtype_name(p->w));
    if (!policy_has_scales(p->w))
        return;
    if (p->w_grain == GRAIN_GROUP)
        str_addf(out, "/group:%" PRId64, p->w_group);
    else
        str_add(out, p->w_grain == GRAIN_CHANNEL ? "/channel" : "/tensor");
}

static void spell_activations(const struct policy *p, struct str *out)
{
    str_add(out, dtype_name(p->a));
    if (!policy_has_scales(p->a))
        return;
    str_add(out, p->a_grain == GRAIN_CHANNEL ? "/row" : p->a_static ? "/tensor:static" : "/tensor");
    if (p->a_static && p->a_percentile < 100) {
        char number[32];
        json_number(number, p->a_percentile);
        str_addf(out, ":p%s", number);
    }
}

void policy_spell(const struct policy *p, struct str *out)
{
    str_add(out, "w=");
    spell_weights(p, out);
    str_add(out, ",a=");
    spell_activations(p, out);
    str_addf(out, ",op=%s,acc=%s,red=%s,norm=%s,out=%s", dtype_name(p->op), dtype_name(p->acc), dtype_name(p->red),
             dtype_name(p->norm), dtype_name(p->out));
    const struct {
        const char *name;
        enum dtype type;
    } rest[] = {{"kv", p->kv}, {"grad", p->grad}, {"master", p->master}, {"opt", p->opt}};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        if (rest[i].type)
            str_addf(out, ",%s=%s", rest[i].name, dtype_name(rest[i].type));
    }
}

static void part(struct jw *w, const char *name, const char *type, const char *detail)
{
    jw_object(w);
    jw_kv_string(w, "part", name);
    jw_kv_string(w, "type", type);
    jw_kv_string(w, "detail", detail);
    jw_object_end(w);
}

// The rule of one kind of scale: "symmetric, scale = amax/127 in f32", "affine, ..." and so on.
static void describe_rule(char *out, size_t n, enum dtype t)
{
    double top = policy_code_max(t);
    if (is_f8(t))
        snprintf(out, n, "scale = amax/%.0f in f32, value/scale clamped to -%.0f..%.0f, nearest even", top, top, top);
    else if (t == DT_U8)
        snprintf(out, n,
                 "affine, scale = (max - min)/255 in f32 of a range that holds 0, zero point = rint(-min/scale), "
                 "nearest even, codes 0..255");
    else
        snprintf(out, n, "symmetric, scale = amax/%.0f in f32, nearest even, codes -%.0f..%.0f", top, top, top);
}

static void describe_weights(const struct policy *p, struct jw *w)
{
    char rule[160], group[64], detail[400];
    if (!policy_has_scales(p->w)) {
        part(w, "weights", dtype_name(p->w), "stored once, rounded to nearest even; no scales");
        return;
    }
    describe_rule(rule, sizeof rule, p->w);
    snprintf(group, sizeof group, "groups of %" PRId64 " along the contracted axis", p->w_group);
    snprintf(detail, sizeof detail,
             "%s; a scale per %s%s; from the weights themselves, no calibration; embedding tables alike%s", rule,
             p->w_grain == GRAIN_GROUP     ? group
             : p->w_grain == GRAIN_CHANNEL ? "output channel (axis 0)"
                                           : "tensor (tensors that are stacked count as one)",
             p->w == DT_S4 ? ", packed two to a byte, low nibble first" : "",
             p->w_grain == GRAIN_TENSOR ? "" : ", per row");
    part(w, "weights", dtype_name(p->w), detail);
}

static void describe_activations(const struct policy *p, struct jw *w)
{
    char rule[160], scales[200], detail[480];
    if (!policy_has_scales(p->a)) {
        part(w, "activations", dtype_name(p->a),
             "rounded to nearest even where one part hands them to the next; no scales");
        return;
    }
    describe_rule(rule, sizeof rule, p->a);
    if (!p->a_static)
        snprintf(scales, sizeof scales,
                 "per %s, dynamic: computed in every call where the %s enters a product with a "
                 "weight",
                 p->a_grain == GRAIN_CHANNEL ? "row (token)" : "tensor (the whole batch, padding included)",
                 p->a_grain == GRAIN_CHANNEL ? "row" : "tensor");
    else if (p->a_percentile < 100)
        snprintf(scales, sizeof scales,
                 "per tensor, static: from the texts of the calibration, of whose values the "
                 "range holds %g %%",
                 p->a_percentile);
    else
        snprintf(scales, sizeof scales, "per tensor, static: from the extremes of the texts of the calibration");
    snprintf(detail, sizeof detail, "%s; one scale %s; handed on between parts in %s", rule, scales,
             dtype_name(p->between));
    part(w, "activations", dtype_name(p->a), detail);
}

static const char *describe_sums(const struct policy *p)
{
    if (p->acc == DT_S32)
        return p->op == DT_S16 ? "exact integer sums of blocks of at most 516 products, blocks added in 64 bits; "
                                 "products inside attention accumulate in f32"
                               : "exact integer sums; products inside attention accumulate in f32";
    return p->acc == DT_F32
               ? "of every product; bias and activation function are applied before rounding"
               : "type of every product's result; a device may add in f32 and round once, or not at all where the next "
                 "operation widens the result (XLA's CPU libraries do)";
}

static void describe_kept(const struct policy *p, struct jw *w)
{
    static const char *const parts[] = {"weights",      "biases and norm parameters",
                                        "activations",  "operands",
                                        "accumulation", "reductions",
                                        "softmax",      "normalisation"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        part(w, parts[i], dtype_name(p->w), "the program as it is: every operation in the type that it has there");
    part(w, "output", dtype_name(p->w), "in the types that the program gives");
}

void policy_parts_json(const struct policy *p, bool kept, struct jw *w)
{
    char detail[256];
    jw_array(w);
    if (kept) {
        describe_kept(p, w);
        jw_array_end(w);
        return;
    }
    describe_weights(p, w);
    part(w, "biases and norm parameters", dtype_name(p->vectors), "vectors are not quantised");
    describe_activations(p, w);
    snprintf(detail, sizeof detail, "of products with weights; products inside attention take %s",
             dtype_name(p->op_inner));
    part(w, "operands", dtype_name(p->op), detail);
    part(w, "accumulation", dtype_name(p->acc), describe_sums(p));
    part(w, "reductions", dtype_name(p->red), "sums and maxima, and elementwise arithmetic between products");
    part(w, "softmax", dtype_name(p->red), "maximum subtracted; probabilities stored as activations");
    part(w, "normalisation", dtype_name(p->norm), "mean, variance and scale");
    part(w, "output", dtype_name(p->out), "pooled and normalised embedding");
    const struct {
        const char *name;
        enum dtype asked;
    } absent[] = {
        {"KV cache", p->kv}, {"gradients", p->grad}, {"master weights", p->master}, {"optimizer state", p->opt}};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        part(w, absent[i].name, "not applicable",
             absent[i].asked ? "asked for, but this workload has none" : "this workload has none");
    jw_array_end(w);
}

int policy_check(const struct policy *p, const char *platform, struct error *err)
{
    if (strcmp(platform, "tpu") == 0 && (p->op == DT_F16 || p->a == DT_F16) && !p->emulate)
        return error_set(err, ERR_DEVICE, p->name,
                         "a TPU has no f16 products; use bf16, or --emulate for f32 products of values rounded to f16");
    return 0;
}

const char *policy_emulation(const struct policy *p, const char *platform)
{
    if (is_f8(p->op))
        return "8-bit floats multiplied as bf16, which holds them exactly";
    if (p->op == DT_U8)
        return "uint8 codes less 128 multiplied as int8";
    if (p->op == DT_S16)
        return "each int16 code multiplied as two int8 halves";
    if (p->op == DT_F16 && strcmp(platform, "tpu") == 0)
        return "values rounded to f16 multiplied as f32";
    return NULL;
}

void policy_static_scale(const struct policy *p, struct activation_range r, float *scale, int *zero)
{
    const struct quant_spec spec = {.type = p->a,
                                    .mapping = policy_is_affine(p) ? QUANT_AFFINE : QUANT_SYMMETRIC,
                                    .range = policy_is_affine(p) ? QUANT_FULL : QUANT_NARROW};
    int32_t point;
    quant_scale_of_range(&spec, r.low, r.high, scale, &point, NULL);
    *zero = point;
}

int64_t module_contracted_unit(const struct module *m)
{
    struct views views;
    struct arena scratch;
    int64_t unit = 0;
    arena_init(&scratch);
    int known = views_find(&views, m, &scratch, NULL) ? 0 : m->n_instructions;
    for (int i = 0; i < known; i++) {
        int64_t n = views.axes[i] && views.of[i] ? views_extent(&views, views.of[i], AXIS_CONTRACTED) : 0;
        while (n) { // Euclid's
            int64_t rest = unit % n;
            unit = n;
            n = rest;
        }
    }
    arena_release(&scratch);
    return unit;
}

static bool is_narrow(const struct instruction *in)
{
    return dtype_is_float(in->shape.dtype) && dtype_bits(in->shape.dtype) < 16;
}

bool module_takes_policies(const struct module *m)
{
    for (int i = 0; i < m->n_instructions; i++) {
        if (is_narrow(&m->instructions[i]))
            return false;
    }
    return true;
}

// The first product that takes narrow floats, with the type of them; without one the first narrow value.
static const struct instruction *find_narrow(const struct module *m, enum dtype *type)
{
    const struct instruction *first = NULL;
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        for (int k = 0; (in->op == OP_DOT || in->op == OP_CONVOLUTION) && k < in->n_operands; k++) {
            *type = m->instructions[in->operands[k]].shape.dtype;
            if (is_narrow(&m->instructions[in->operands[k]]))
                return in;
        }
        if (!first && is_narrow(in))
            first = in;
    }
    *type = first ? first->shape.dtype : DT_INVALID;
    return first;
}

int module_check_policies(const struct module *m, const char *where, struct error *err)
{
    enum dtype type;
    const struct instruction *in = find_narrow(m, &type);
    if (!in)
        return 0;
    const char *name = in->op == OP_PARAMETER ? m->parameters[in->parameter].name : in->scope, *t = dtype_name(type);
    bool product = in->op == OP_DOT || in->op == OP_CONVOLUTION;
    return error_set(err, ERR_INPUT, where,
                     "has %s in it already (%s%s '%s'), and policies start from wider floats: export it without its "
                     "casts to %s, and --policy fp8 makes such products; without --policy it is priced, compiled and "
                     "timed as it is",
                     t, product ? "multiplied by " : "", op_info(in->op)->name, name, t);
}

enum dtype module_own_type(const struct module *m)
{
    double elements[2][DT_COUNT] = {{0}}; // of weights; of left operands of products
    enum dtype own = DT_INVALID;
    for (int i = 0; i < m->n_instructions; i++) {
        const struct instruction *in = &m->instructions[i];
        bool product = in->op == OP_DOT || in->op == OP_CONVOLUTION;
        bool weight = in->op == OP_PARAMETER && m->parameters[in->parameter].role == ROLE_WEIGHT;
        const struct shape *s = product ? &m->instructions[in->operands[0]].shape : &in->shape;
        if ((weight || product) && dtype_is_float(s->dtype))
            elements[product][s->dtype] += (double)shape_elements(s);
    }
    for (int k = 0; k < 2 && own == DT_INVALID; k++) {
        double most = 0;
        for (int t = 0; t < DT_COUNT; t++) {
            own = elements[k][t] > most ? (enum dtype)t : own;
            most = elements[k][t] > most ? elements[k][t] : most;
        }
    }
    return own;
}

bool module_keeps_types(const struct module *m, const struct policy *p)
{
    enum dtype own = module_own_type(m);
    return (own == DT_BF16 || own == DT_F16) && strcmp(p->name, dtype_name(own)) == 0;
}

int module_groups(const struct module *m, const char **groups, int max)
{
    int n = 0;
    for (int i = 0; i < m->n_instructions; i++) {
        if (m->instructions[i].op == OP_PARAMETER)
            continue;
        const char *g = m->instructions[i].group;
        int k = 0;
        while (k < n && strcmp(groups[k], g) != 0)
            k++;
        if (k == n && n < max)
            groups[n++] = g;
    }
    return n;
}
