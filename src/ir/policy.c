// SPDX-License-Identifier: Apache-2.0
#include "ir/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct preset {
    const char *name, *spec;
};

static const struct preset presets[] = {
    {"f32", "w=f32,a=f32,op=f32,acc=f32,red=f32,norm=f32,out=f32"},
    {"bf16", "w=bf16,a=bf16,op=bf16,acc=f32,red=f32,norm=f32,out=f32"},
    {"f16", "w=f16,a=f16,op=f16,acc=f32,red=f32,norm=f32,out=f32"},
    {"w8a16", "w=s8/channel,a=bf16,op=bf16,acc=f32,red=f32,norm=f32,out=f32"},
    {"w8a8", "w=s8/channel,a=s8/row,op=s8,acc=s32,red=f32,norm=f32,out=f32"},
    {"w4a16", "w=s4/group:32,a=bf16,op=bf16,acc=f32,red=f32,norm=f32,out=f32"},
    {"fp8", "w=f8e4m3fn/tensor,a=f8e4m3fn/tensor,op=f8e4m3fn,acc=f32,red=f32,norm=f32,out=f32"},
};
#define PRESET_NAMES "f32, bf16, f16, w8a16, w8a8, w4a16"
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
    if (strcmp(name, "int8") == 0)
        return DT_S8;
    if (strcmp(name, "int4") == 0)
        return DT_S4;
    if (strcmp(name, "int32") == 0)
        return DT_S32;
    if (strcmp(name, "fp8") == 0)
        return DT_F8E4M3FN;
    return dtype_from_name(name);
}

// "TYPE" or "TYPE/grain" into a field. `grain` NULL: the field takes no granularity.
static int parse_type(const char *field, char *value, enum dtype *type, enum granularity *grain, int64_t *group,
                      struct error *err)
{
    char *slash = strchr(value, '/');
    if (slash)
        *slash++ = '\0';
    *type = type_named(value);
    if (*type == DT_INVALID)
        return error_set(err, ERR_USAGE, "--policy", "%s=%s: no such type (f32, bf16, f16, int8, int4, fp8...)", field,
                         value);
    if (!slash)
        return 0;
    if (!grain)
        return error_set(err, ERR_USAGE, "--policy", "%s= takes no granularity", field);
    if (dtype_is_float(*type) && dtype_bits(*type) >= 16)
        return error_set(err, ERR_USAGE, "--policy", "%s=%s takes no granularity: it has no scales", field, value);
    if (strcmp(slash, "tensor") == 0)
        *grain = GRAIN_TENSOR;
    else if (strcmp(slash, "channel") == 0 || strcmp(slash, "row") == 0)
        *grain = GRAIN_CHANNEL;
    else if (strncmp(slash, "group:", 6) == 0 && parse_i64(slash + 6, group) && *group > 0 && *group <= 65536)
        *grain = GRAIN_GROUP;
    else
        return error_set(err, ERR_USAGE, "--policy",
                         "%s=.../%s: expected tensor, channel, row or group:N (N at most 65536)", field, slash);
    return 0;
}

// Fields that were left out follow from w and a.
static void complete(struct policy *p)
{
    bool w_float = dtype_is_float(p->w) && dtype_bits(p->w) >= 16;
    p->vectors = w_float ? p->w : DT_F32;
    if (!p->a)
        p->a = w_float ? p->w : DT_BF16;
    if (!p->op)
        p->op = p->a;
    if (!p->acc)
        p->acc = p->op == DT_S8 ? DT_S32 : DT_F32;
    if (!p->red)
        p->red = DT_F32;
    if (!p->norm)
        p->norm = DT_F32;
    if (!p->out)
        p->out = DT_F32;
    p->between = dtype_is_float(p->a) && dtype_bits(p->a) >= 16 ? p->a : p->red;
    p->op_inner = dtype_is_float(p->op) && dtype_bits(p->op) >= 16 ? p->op : DT_BF16;
}

// The combinations whose arithmetic the pass knows; each refusal says what would work.
static int check(const struct policy *p, struct error *err)
{
    bool w_int = p->w == DT_S8 || p->w == DT_S4;
    bool wide = p->w == DT_F32 || p->w == DT_BF16 || p->w == DT_F16;
    const char *where = p->name;
    if (p->w == DT_F8E4M3FN || p->a == DT_F8E4M3FN || p->op == DT_F8E4M3FN)
        return error_set(err, ERR_USAGE, where,
                         "8-bit floats are not lowered by this version; use one of f32, bf16, f16, w8a16, w8a8, w4a16");
    if (!w_int && !wide)
        return error_set(err, ERR_USAGE, where, "weights cannot be stored as %s (f32, bf16, f16, int8, int4)",
                         dtype_name(p->w));
    if (w_int && p->w_grain == GRAIN_TENSOR)
        return error_set(err, ERR_USAGE, where, "integer weights take /channel or /group:N");
    if (p->op == DT_S8) {
        if (p->w != DT_S8 || p->w_grain != GRAIN_CHANNEL || p->a != DT_S8 || p->acc != DT_S32)
            return error_set(err, ERR_USAGE, where, "int8 products need w=int8/channel, a=int8/row and acc=int32");
    } else if (p->op != DT_F32 && p->op != DT_BF16 && p->op != DT_F16) {
        return error_set(err, ERR_USAGE, where, "products cannot take %s operands (f32, bf16, f16, int8)",
                         dtype_name(p->op));
    } else if (p->a == DT_S8) {
        return error_set(err, ERR_USAGE, where, "int8 activations need op=int8");
    }
    if (p->a != DT_S8 && p->a != DT_F32 && p->a != DT_BF16 && p->a != DT_F16)
        return error_set(err, ERR_USAGE, where, "activations cannot be %s (f32, bf16, f16, int8)", dtype_name(p->a));
    const enum dtype floats[] = {p->red, p->norm, p->out, p->op == DT_S8 ? DT_F32 : p->acc};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        if (floats[i] != DT_F32 && floats[i] != DT_BF16 && floats[i] != DT_F16)
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
        enum granularity row = GRAIN_CHANNEL;
        int64_t ignored = 0;
        if (fields[i].type == &p->w)
            return parse_type(item, eq + 1, fields[i].type, &p->w_grain, &p->w_group, err);
        int rc = parse_type(item, eq + 1, fields[i].type, fields[i].type == &p->a ? &row : NULL, &ignored, err);
        if (!rc && row != GRAIN_CHANNEL && dtype_is_integer(*fields[i].type))
            rc = error_set(err, ERR_USAGE, "--policy", "integer activations are quantised per row (a=%s/row)",
                           dtype_name(*fields[i].type));
        return rc;
    }
    return error_set(err, ERR_USAGE, "--policy", "no field '%s' (" FIELD_NAMES ")", item);
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
    p->w_grain = GRAIN_CHANNEL;
    const char *spec = text;
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(text, presets[i].name) == 0)
            spec = presets[i].spec;
    }
    if (snprintf(p->name, sizeof p->name, "%s", text) >= (int)sizeof p->name)
        p->name[sizeof p->name - 1] = '\0';
    int rc = parse_spec(p, spec, err);
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
    if (dtype_is_float(p->w))
        return;
    if (p->w_grain == GRAIN_GROUP)
        str_addf(out, "/group:%" PRId64, p->w_group);
    else
        str_add(out, p->w_grain == GRAIN_CHANNEL ? "/channel" : "/tensor");
}

void policy_spell(const struct policy *p, struct str *out)
{
    str_add(out, "w=");
    spell_weights(p, out);
    str_addf(out, ",a=%s%s,op=%s,acc=%s,red=%s,norm=%s,out=%s", dtype_name(p->a), p->a == DT_S8 ? "/row" : "",
             dtype_name(p->op), dtype_name(p->acc), dtype_name(p->red), dtype_name(p->norm), dtype_name(p->out));
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

void policy_parts_json(const struct policy *p, struct jw *w)
{
    bool w_int = !dtype_is_float(p->w);
    char detail[256], group[64] = "";
    if (p->w_grain == GRAIN_GROUP)
        snprintf(group, sizeof group, "groups of %" PRId64 " along the contracted axis", p->w_group);
    jw_array(w);
    if (w_int) {
        snprintf(
            detail, sizeof detail,
            "symmetric, scale = amax/%d in f32 per %s, nearest even, codes -%d..%d%s; from the weights themselves, "
            "no calibration; embedding tables alike, per row",
            p->w == DT_S8 ? 127 : 7, p->w_grain == GRAIN_GROUP ? group : "output channel (axis 0)",
            p->w == DT_S8 ? 127 : 7, p->w == DT_S8 ? 127 : 7,
            p->w == DT_S4 ? ", packed two to a byte, low nibble first" : "");
        part(w, "weights", dtype_name(p->w), detail);
    } else {
        part(w, "weights", dtype_name(p->w), "stored once, rounded to nearest even; no scales");
    }
    part(w, "biases and norm parameters", dtype_name(p->vectors), "vectors are not quantised");
    if (p->a == DT_S8)
        part(w, "activations", "s8",
             "symmetric, scale = amax/127 in f32 per row (token), dynamic: computed in every call where the row enters "
             "a "
             "product with a weight, nearest even, codes -127..127; handed on between parts in f32");
    else
        part(w, "activations", dtype_name(p->a),
             "rounded to nearest even where one part hands them to the next; no scales");
    snprintf(detail, sizeof detail, "of products with weights; products inside attention take %s",
             dtype_name(p->op_inner));
    part(w, "operands", dtype_name(p->op), detail);
    part(w, "accumulation", dtype_name(p->acc),
         p->acc == DT_S32   ? "exact integer sums; products inside attention accumulate in f32"
         : p->acc == DT_F32 ? "of every product; bias and activation function are applied before rounding"
                            : "type of every product's result; a device may add in f32 and round once, or not at all "
                              "where the next operation widens the result (XLA's CPU libraries do)");
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
    if (strcmp(platform, "tpu") == 0 && (p->op == DT_F16 || p->a == DT_F16))
        return error_set(err, ERR_DEVICE, p->name, "a TPU has no f16 products; use bf16");
    return 0;
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
