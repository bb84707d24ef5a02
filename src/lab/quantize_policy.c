// SPDX-License-Identifier: Apache-2.0
#include "lab/quantize_policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define MAX_GROUP (1 << 30)

static const struct {
    const char *name, *weights;
} presets[] = {
    {"f32", "f32"},
    {"bf16", "bf16"},
    {"f16", "f16"},
    {"w8a16", "int8/channel"},
    {"w8a8", "int8/channel"},
    {"w8a8-static", "int8/channel"},
    {"w4a16", "int4/group:32"},
    {"fp8", "f8e4m3fn/tensor"},
    {"mxfp8", "mxfp8-e4m3"},
    {"mxfp6", "mxfp6-e2m3"},
};
#define PRESETS (sizeof presets / sizeof *presets)

static const char *const fields[] = {"w", "a", "op", "acc", "red", "norm", "kv", "out", "grad", "master", "opt"};
#define FIELDS (sizeof fields / sizeof *fields)

void quantize_policy_words(struct str *out)
{
    for (size_t i = 0; i < PRESETS; i++)
        str_addf(out, "%s\n", presets[i].name);
    for (size_t i = 0; block_format_at(i); i++)
        str_addf(out, "%s\n", block_format_at(i)->name);
}

static void add_names(struct str *out, bool with_types)
{
    struct str words;
    str_init(&words);
    quantize_policy_words(&words);
    for (const char *p = str_text(&words); *p;) {
        size_t n = strcspn(p, "\n");
        str_addf(out, "%.*s%s", (int)n, p, p[n] && p[n + 1] ? ", " : "");
        p += n + (p[n] != 0);
    }
    if (with_types)
        str_add(out, "; types: f32, bf16, f16, f8e4m3fn, f8e5m2, int16, int8, int4, int2, uint16, uint8, uint4, uint2");
    str_release(&words);
}

static int unknown(const char *what, const char *name, bool with_types, struct error *err)
{
    struct str names;
    str_init(&names);
    add_names(&names, with_types);
    int rc = error_set(err, ERR_USAGE, "--policy", "%s '%s' is not known; there are %s", what, name, str_text(&names));
    str_release(&names);
    return rc;
}

static const struct {
    const char *name;
    enum dtype type;
} integer_names[] = {{"int16", DT_S16}, {"int8", DT_S8},  {"int4", DT_S4},  {"int2", DT_S2},     {"uint16", DT_U16},
                     {"uint8", DT_U8},  {"uint4", DT_U4}, {"uint2", DT_U2}, {"fp8", DT_F8E4M3FN}};
#define INTEGER_NAMES (sizeof integer_names / sizeof *integer_names)

static enum dtype type_named(const char *name)
{
    for (size_t i = 0; i < INTEGER_NAMES; i++) {
        if (strcmp(name, integer_names[i].name) == 0)
            return integer_names[i].type;
    }
    return dtype_from_name(name);
}

// Words that set one field of a spec.
static bool set_word(struct quant_spec *s, const char *word)
{
    const struct {
        const char *word;
        unsigned *field;
        unsigned value;
    } words[] = {
        {"tensor", (unsigned *)&s->granularity, QUANT_PER_TENSOR},
        {"channel", (unsigned *)&s->granularity, QUANT_PER_CHANNEL},
        {"symmetric", (unsigned *)&s->mapping, QUANT_SYMMETRIC},
        {"affine", (unsigned *)&s->mapping, QUANT_AFFINE},
        {"narrow", (unsigned *)&s->range, QUANT_NARROW},
        {"full", (unsigned *)&s->range, QUANT_FULL},
        {"qmax", (unsigned *)&s->divisor, QUANT_BY_QMAX},
        {"half-range", (unsigned *)&s->divisor, QUANT_BY_HALF_RANGE},
        {"half-even", (unsigned *)&s->rounding, QUANT_HALF_EVEN},
        {"half-away", (unsigned *)&s->rounding, QUANT_HALF_AWAY},
        {"zero-after", (unsigned *)&s->zero_order, QUANT_ZERO_AFTER_ROUNDING},
        {"zero-before", (unsigned *)&s->zero_order, QUANT_ZERO_BEFORE_ROUNDING},
        {"absmax", (unsigned *)&s->from, QUANT_FROM_ABSMAX},
        {"mse", (unsigned *)&s->from, QUANT_FROM_ERROR},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i].word) == 0) {
            *words[i].field = words[i].value;
            return true;
        }
    }
    if (strcmp(word, "reciprocal") == 0)
        return s->reciprocal = true;
    if (strcmp(word, "scale-up") == 0)
        return s->scale_up = true;
    return false;
}

static bool parse_extent(const char *text, int64_t *out)
{
    return parse_i64(text, out) && *out > 0 && *out <= MAX_GROUP;
}

// "RxC" for a block of rows and columns.
static bool parse_block(struct quant_spec *s, char *text)
{
    char *x = strchr(text, 'x');
    if (!x)
        return false;
    *x = '\0';
    s->granularity = QUANT_PER_BLOCK;
    return parse_extent(text, &s->block[0]) && parse_extent(x + 1, &s->block[1]);
}

// "NAME:VALUE"; false when the value is none for it. *known says whether the name is.
static bool set_value(struct quant_spec *s, const char *name, char *value, bool *known)
{
    int64_t n = 0;
    *known = true;
    if (strcmp(name, "group") == 0) {
        s->granularity = QUANT_PER_GROUP;
        return parse_extent(value, &s->group);
    }
    if (strcmp(name, "block") == 0)
        return parse_block(s, value);
    if (strcmp(name, "percentile") == 0) {
        s->from = QUANT_FROM_PERCENTILE;
        return parse_double(value, &s->search.percentile) && s->search.percentile > 50 && s->search.percentile <= 100;
    }
    if (strcmp(name, "steps") == 0) {
        bool ok = parse_i64(value, &n) && n >= 1 && n <= 100000;
        s->search.steps = ok ? (int)n : 0;
        return ok;
    }
    if (strcmp(name, "patience") == 0) {
        bool ok = parse_i64(value, &n) && n >= 1 && n <= 100000;
        s->search.patience = ok ? (int)n : 0;
        return ok;
    }
    if (strcmp(name, "shrink") == 0)
        return parse_double(value, &s->search.max_shrink) && s->search.max_shrink > 0 && s->search.max_shrink < 1;
    if (strcmp(name, "norm") == 0)
        return parse_double(value, &s->search.norm) && s->search.norm >= 0.1 && s->search.norm <= 100;
    if (strcmp(name, "scale") == 0) {
        s->scale_type = type_named(value);
        return s->scale_type == DT_F32 || s->scale_type == DT_F16 || s->scale_type == DT_BF16 ||
               s->scale_type == DT_F8E8M0FNU || s->scale_type == DT_F8E4M3FN;
    }
    return *known = false;
}

#define ATTRIBUTES                                                                                                     \
    "tensor, channel, group:N, block:RxC, symmetric, affine, narrow, full, qmax, half-range, half-even, half-away, "   \
    "zero-after, zero-before, reciprocal, absmax, percentile:P, mse, steps:N, shrink:F, norm:P, patience:N, "          \
    "scale:TYPE (f32, f16, bf16, f8e8m0fnu, f8e4m3fn), scale-up"

static int parse_attributes(struct quantize_policy *p, char *text, struct error *err)
{
    for (char *word = text, *next; word; word = next) {
        next = strchr(word, '/');
        if (next)
            *next++ = '\0';
        char *value = strchr(word, ':');
        bool known = true, ok;
        if (p->form == QUANTIZE_BLOCKS) {
            ok = value && strncmp(word, "rule:", 5) == 0 &&
                 block_scale_rule_from_name(value + 1, &p->cast.scale_rule) && !p->block->tensor_scale;
            if (!ok)
                return error_set(err, ERR_USAGE, "--policy",
                                 "w=.../%s: %s takes no more than a rule for its scales (rule:floor, rule:ceil, "
                                 "rule:even, rule:rceil; not with nvfp4)",
                                 word, p->block->name);
            continue;
        }
        if (p->form == QUANTIZE_NARROW)
            return error_set(err, ERR_USAGE, "--policy", "w=%s/%s: %s has no scales, so it takes nothing after it",
                             dtype_name(p->to), word, dtype_name(p->to));
        if (value) {
            *value = '\0';
            ok = set_value(&p->spec, word, value + 1, &known);
        } else {
            ok = known = set_word(&p->spec, word);
        }
        if (!known)
            return error_set(err, ERR_USAGE, "--policy", "w=.../%s is not known; there are " ATTRIBUTES, word);
        if (!ok)
            return error_set(err, ERR_USAGE, "--policy", "w=.../%s: '%s' is no value for it", word, value + 1);
    }
    return 0;
}

// Of the combinations that no tensor can take.
static int check(const struct quantize_policy *p, struct error *err)
{
    if (p->form != QUANTIZE_CODES)
        return 0;
    struct quant_layout layout;
    int64_t rows = p->spec.granularity == QUANT_PER_BLOCK ? p->spec.block[0] : 1;
    const int64_t dims[2] = {rows, 64};
    return quant_layout(&p->spec, dims, 2, "--policy", &layout, err);
}

static int parse_weights(struct quantize_policy *p, char *value, struct error *err)
{
    char *slash = strchr(value, '/');
    if (slash)
        *slash++ = '\0';
    const struct block_format *block = block_format_from_name(value);
    enum dtype type = type_named(value);
    p->spec = (struct quant_spec){.type = type, .channel_axis = 0, .group_axis = 1, .short_last = true};
    if (block) {
        p->form = QUANTIZE_BLOCKS;
        p->block = block;
    } else if (type == DT_F32 || type == DT_F16 || type == DT_BF16) {
        p->form = QUANTIZE_NARROW;
        p->to = type;
    } else if (quant_qmax(type) || type == DT_F8E4M3FN || type == DT_F8E5M2) {
        p->form = QUANTIZE_CODES;
        p->spec.granularity = dtype_is_float(type) ? QUANT_PER_TENSOR : QUANT_PER_CHANNEL;
    } else {
        return unknown("type", value, true, err);
    }
    if (slash) {
        int rc = parse_attributes(p, slash, err);
        if (rc)
            return rc;
    }
    return check(p, err);
}

static bool is_field(const char *name)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (strcmp(name, fields[i]) == 0)
            return true;
    }
    return false;
}

// Other fields say nothing about a file of weights: they are kept as they were given.
static int parse_fields(struct quantize_policy *p, char *text, struct error *err)
{
    bool weights = false;
    for (char *item = text, *next; item; item = next) {
        next = strchr(item, ',');
        if (next)
            *next++ = '\0';
        char *eq = strchr(item, '=');
        if (!eq)
            return unknown("policy", item, false, err);
        *eq = '\0';
        if (!is_field(item))
            return error_set(err, ERR_USAGE, "--policy",
                             "no field '%s' (w, a, op, acc, red, norm, kv, out, grad, master, opt)", item);
        if (strcmp(item, "w") == 0) {
            if (weights)
                return error_set(err, ERR_USAGE, "--policy", "w= is given twice");
            weights = true;
            int rc = parse_weights(p, eq + 1, err);
            if (rc)
                return rc;
            continue;
        }
        size_t n = strlen(p->others);
        int more = snprintf(p->others + n, sizeof p->others - n, "%s%s=%s", n ? "," : "", item, eq + 1);
        if (more < 0 || (size_t)more >= sizeof p->others - n)
            return error_set(err, ERR_USAGE, "--policy", "is longer than %zu characters", sizeof p->others - 1);
    }
    return weights ? 0 : error_set(err, ERR_USAGE, "--policy", "does not say how weights are stored (w=)");
}

int quantize_policy_parse(struct quantize_policy *p, const char *text, struct error *err)
{
    char copy[sizeof p->text];
    memset(p, 0, sizeof *p);
    size_t length = strlen(text);
    if (length >= sizeof copy)
        return error_set(err, ERR_USAGE, "--policy", "is longer than %zu characters", sizeof copy - 1);
    memcpy(p->text, text, length + 1);
    memcpy(copy, text, length + 1);
    if (strchr(text, '='))
        return parse_fields(p, copy, err);
    for (size_t i = 0; i < PRESETS; i++) {
        if (strcmp(text, presets[i].name) == 0) {
            snprintf(copy, sizeof copy, "%s", presets[i].weights);
            return parse_weights(p, copy, err);
        }
    }
    return block_format_from_name(text) ? parse_weights(p, copy, err) : unknown("policy", text, false, err);
}

static void spell_number(struct str *out, const char *name, double value)
{
    char number[32];
    json_number(number, value);
    str_addf(out, "/%s:%s", name, number);
}

static void spell_codes(const struct quant_spec *s, struct str *out)
{
    const struct quant_search *r = &s->search;
    switch (s->granularity) {
    case QUANT_PER_TENSOR:
        str_add(out, "/tensor");
        break;
    case QUANT_PER_CHANNEL:
        str_add(out, "/channel");
        break;
    case QUANT_PER_GROUP:
        str_addf(out, "/group:%" PRId64, s->group);
        break;
    case QUANT_PER_BLOCK:
        str_addf(out, "/block:%" PRId64 "x%" PRId64, s->block[0], s->block[1]);
        break;
    }
    str_add(out, s->mapping == QUANT_AFFINE ? "/affine" : "");
    str_add(out, s->range == QUANT_FULL ? "/full" : "");
    str_add(out, s->divisor == QUANT_BY_HALF_RANGE ? "/half-range" : "");
    str_add(out, s->rounding == QUANT_HALF_AWAY ? "/half-away" : "");
    str_add(out, s->zero_order == QUANT_ZERO_BEFORE_ROUNDING ? "/zero-before" : "");
    str_add(out, s->reciprocal ? "/reciprocal" : "");
    if (s->from == QUANT_FROM_PERCENTILE)
        spell_number(out, "percentile", r->percentile);
    str_add(out, s->from == QUANT_FROM_ERROR ? "/mse" : "");
    if (r->steps)
        str_addf(out, "/steps:%d", r->steps);
    if (r->max_shrink > 0)
        spell_number(out, "shrink", r->max_shrink);
    if (r->norm > 0)
        spell_number(out, "norm", r->norm);
    if (r->patience)
        str_addf(out, "/patience:%d", r->patience);
    if (s->scale_type != DT_INVALID)
        str_addf(out, "/scale:%s", dtype_name(s->scale_type));
    str_add(out, s->scale_up ? "/scale-up" : "");
}

void quantize_policy_spell(const struct quantize_policy *p, struct str *out)
{
    str_add(out, "w=");
    if (p->form == QUANTIZE_BLOCKS) {
        str_add(out, p->block->name);
        if (p->cast.scale_rule)
            str_addf(out, "/rule:%s", block_scale_rule_name(p->cast.scale_rule));
    } else if (p->form == QUANTIZE_NARROW) {
        str_add(out, dtype_name(p->to));
    } else {
        str_add(out, dtype_name(p->spec.type));
        spell_codes(&p->spec, out);
    }
    if (p->others[0])
        str_addf(out, ",%s", p->others);
}

void quantize_policy_describe(const struct quantize_policy *p, struct str *out)
{
    const struct block_format *b = p->block;
    if (p->form == QUANTIZE_CODES) {
        quant_describe(&p->spec, out);
    } else if (p->form == QUANTIZE_NARROW) {
        str_addf(out, "%s, rounded to nearest even, without scales", dtype_name(p->to));
    } else if (b->tensor_scale) {
        str_addf(out,
                 "%s: blocks of %zu of %s, a scale of each in %s, amax / %g over the tensor's, and one of the tensor "
                 "in f32, amax / 2688; elements rounded to nearest even, then clamped",
                 b->name, b->block, dtype_name(b->element), dtype_name(b->scale), block_element_max(b));
    } else {
        str_addf(out,
                 "%s: blocks of %zu of %s, a power of two for each in %s by the rule %s; elements rounded to nearest "
                 "even, then clamped to %g",
                 b->name, b->block, dtype_name(b->element), dtype_name(b->scale),
                 block_scale_rule_name(p->cast.scale_rule), block_element_max(b));
    }
}
