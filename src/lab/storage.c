// SPDX-License-Identifier: Apache-2.0
#include "lab/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAST "/cast"

void storage_words(struct str *out)
{
    quantize_policy_words(out);
    for (size_t i = 0; format_at(i); i++)
        str_addf(out, "%s" CAST "\n", format_at(i)->name);
}

// A format by name alone is a cast where quantize_policy has no other use for the name.
static const struct format *as_cast(const char *text)
{
    char name[32];
    size_t n = strlen(text), cut = strlen(CAST);
    bool said = n > cut && strcmp(text + n - cut, CAST) == 0;
    n -= said ? cut : 0;
    if (n >= sizeof name)
        return NULL;
    memcpy(name, text, n);
    name[n] = '\0';
    const struct format *f = format_from_name(name);
    struct quantize_policy other;
    char spelled[40];
    snprintf(spelled, sizeof spelled, "w=%s", name);
    return f && (said || quantize_policy_parse(&other, spelled, NULL)) ? f : NULL;
}

static bool is_word(const char *text)
{
    struct str words;
    bool found = false;
    str_init(&words);
    quantize_policy_words(&words);
    for (const char *p = str_text(&words); *p && !found; p += strcspn(p, "\n") + 1)
        found = strcspn(p, "\n") == strlen(text) && strncmp(p, text, strlen(text)) == 0;
    str_release(&words);
    return found;
}

// What presets do with activations, where they do anything.
static const struct {
    const char *preset, *activations;
} presets[] = {
    {"bf16", "bf16"},  {"f16", "f16"},           {"w8a16", "bf16"},
    {"w4a16", "bf16"}, {"w8a8", "int8/channel"}, {"fp8", "f8e4m3fn/tensor"},
};

static const char *preset_activations(const char *text)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(presets[i].preset, text) == 0)
            return presets[i].activations;
    }
    return NULL;
}

// The value of a= among the fields that quantize_policy keeps as they are.
static const char *field_activations(const struct storage *s)
{
    for (const char *p = s->policy.others; *p; p += strcspn(p, ","), p += *p == ',') {
        if (strncmp(p, "a=", 2) == 0)
            return p + 2;
    }
    return NULL;
}

// A name that nobody knows may have been meant as a format.
static void add_formats(struct error *err)
{
    if (!err)
        return;
    size_t n = strlen(err->message);
    if (strncmp(err->message, "type '", 6) != 0 && strncmp(err->message, "policy '", 8) != 0)
        return; // it was known, and something else was wrong
    struct str names;
    str_init(&names);
    for (size_t i = 0; format_at(i); i++)
        str_addf(&names, "%s%s", i ? ", " : "", format_at(i)->name);
    snprintf(err->message + n, sizeof err->message - n, "; without scales, as NAME" CAST ": %s", str_text(&names));
    str_release(&names);
}

int storage_parse(struct storage *s, const char *text, struct error *err)
{
    char spelled[sizeof s->policy.text];
    memset(s, 0, sizeof *s);
    s->text = text;
    s->format = as_cast(text);
    if (s->format)
        return 0;
    int rc;
    if (strchr(text, '=') || is_word(text)) {
        rc = quantize_policy_parse(&s->policy, text, err);
    } else if (strlen(text) + 3 > sizeof spelled) {
        rc = error_set(err, ERR_USAGE, "--policy", "is longer than %zu characters", sizeof spelled - 3);
    } else {
        snprintf(spelled, sizeof spelled, "w=%s", text);
        rc = quantize_policy_parse(&s->policy, spelled, err);
    }
    if (rc)
        add_formats(err);
    s->has_activations = !rc && (field_activations(s) || preset_activations(text));
    return rc;
}

int storage_parse_activations(const struct storage *s, struct storage *out, char text[64], struct error *err)
{
    const char *field = field_activations(s);
    const char *value = field ? field : preset_activations(s->text);
    size_t n = field ? strcspn(field, ",") : strlen(value);
    const char *row = n > 4 && strncmp(value + n - 4, "/row", 4) == 0 ? "/channel" : "";
    n -= *row ? 4 : 0;
    if (n + strlen(row) >= 64)
        return error_set(err, ERR_USAGE, "--policy", "a= is too long");
    snprintf(text, 64, "%.*s%s", (int)n, value, row);
    int rc = storage_parse(out, text, err);
    if (rc)
        error_context(err, "a=%s", text);
    return rc;
}

void storage_describe(const struct storage *s, struct str *out)
{
    if (s->format)
        str_addf(out, "%s, rounded to nearest even, without scales", s->format->name);
    else
        quantize_policy_describe(&s->policy, out);
}

static size_t packed(size_t rows, size_t columns, size_t bits)
{
    return rows * ((columns * bits + 7) / 8);
}

static int no_memory(const char *name, struct error *err)
{
    return error_set(err, ERR_MEMORY, name, "no memory for its codes");
}

static int by_cast(const struct format *f, size_t rows, size_t columns, const float *x, float *back,
                   struct storage_result *out, const char *name, struct error *err)
{
    size_t n = rows * columns;
    struct format_cast cast = {.rounding = FORMAT_NEAREST_EVEN, .overflow = FORMAT_OVERFLOW_PLAIN};
    struct format_counts counts = {0};
    void *codes = malloc(n * format_code_bytes(f));
    if (!codes)
        return no_memory(name, err);
    int rc = format_encode_f32(f, codes, x, n, &cast, &counts, name, err);
    if (!rc)
        format_decode_f32(f, back, codes, n);
    free(codes);
    out->code_bytes = packed(rows, columns, (size_t)f->bits + (size_t)f->shift); // tf32 is held in 32
    out->clipped = counts.overflowed;
    out->flushed = counts.flushed;
    out->nonfinite = counts.nan + counts.infinite;
    return rc;
}

static int by_codes(const struct quant_spec *spec, size_t rows, size_t columns, const float *x, float *back,
                    struct storage_result *out, const char *name, struct error *err)
{
    const int64_t dims[2] = {(int64_t)rows, (int64_t)columns};
    struct quant_layout layout;
    struct quant_stats stats = {0};
    int rc = quant_layout(spec, dims, 2, name, &layout, err);
    if (rc)
        return rc;
    void *codes = malloc(layout.elements * (size_t)layout.code_size);
    float *scales = malloc(layout.scale_count * sizeof *scales);
    int32_t *zeros = malloc(layout.scale_count * sizeof *zeros);
    rc = codes && scales && zeros ? quantize(spec, dims, 2, x, codes, scales, zeros, &stats, name, err)
                                  : no_memory(name, err);
    if (!rc)
        rc = dequantize(spec, dims, 2, codes, scales, zeros, back, name, err);
    free(codes);
    free(scales);
    free(zeros);
    size_t bits = (size_t)dtype_bits(spec->type);
    out->code_bytes = packed(rows, columns, bits);
    out->scale_bytes = layout.stored_scale_bytes;
    out->scale_bytes += layout.has_zeros ? layout.scale_count * (size_t)layout.code_size : 0;
    out->clipped = stats.clipped;
    out->flushed = stats.flushed;
    out->nonfinite = stats.nonfinite;
    return rc;
}

static int by_blocks(const struct quantize_policy *p, size_t rows, size_t columns, const float *x, float *back,
                     struct storage_result *out, const char *name, struct error *err)
{
    const int64_t dims[2] = {(int64_t)rows, (int64_t)columns};
    struct block_layout layout;
    struct block_stats stats = {0};
    struct block_cast cast = p->cast;
    float tensor_scale = 1;
    cast.refuse_not_finite = true;
    int rc = block_layout(p->block, dims, 2, 1, name, &layout, err);
    if (rc)
        return rc;
    uint8_t *codes = malloc(layout.elements), *scales = malloc(layout.scale_count);
    rc = codes && scales ? block_encode(p->block, &cast, dims, 2, 1, x, codes, scales, &tensor_scale, &stats, name, err)
                         : no_memory(name, err);
    if (!rc)
        rc = block_decode(p->block, dims, 2, 1, codes, scales, tensor_scale, back, name, err);
    free(codes);
    free(scales);
    out->code_bytes = packed(rows, columns, (size_t)dtype_bits(p->block->element));
    out->scale_bytes = layout.scale_bytes;
    out->clipped = stats.clipped;
    out->flushed = stats.flushed;
    return rc;
}

int storage_apply(const struct storage *s, size_t rows, size_t columns, const float *x, float *back,
                  struct storage_result *out, const char *name, struct error *err)
{
    memset(out, 0, sizeof *out);
    if (s->format)
        return by_cast(s->format, rows, columns, x, back, out, name, err);
    if (s->policy.form == QUANTIZE_NARROW)
        return by_cast(format_of(s->policy.to), rows, columns, x, back, out, name, err);
    if (s->policy.form == QUANTIZE_CODES)
        return by_codes(&s->policy.spec, rows, columns, x, back, out, name, err);
    return by_blocks(&s->policy, rows, columns, x, back, out, name, err);
}
