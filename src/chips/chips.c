// SPDX-License-Identifier: Apache-2.0
#include "chips/chips.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "chips/chips_data.h"
#include "chips/local.h"

// --- finding
// ------------------------------------------------------------------------------------------------------------

size_t chip_count(void)
{
    return chips_data_count + 1;
}

const struct chip *chip_at(size_t i)
{
    return i < chips_data_count ? &chips_data[i] : &chips_local_row;
}

static bool same_name(const char *name, size_t n, const char *known)
{
    return strlen(known) == n && strncasecmp(name, known, n) == 0;
}

// How long the chip's own name is in a cloud's ("v5p" of "v5p-8"); 0 where there is no number.
static size_t without_count(const char *name, size_t n)
{
    size_t digits = 0;
    while (digits < n && name[n - 1 - digits] >= '0' && name[n - 1 - digits] <= '9')
        digits++;
    return digits && digits + 1 < n && name[n - 1 - digits] == '-' ? n - digits - 1 : 0;
}

bool chip_is_called(const struct chip *c, const char *name, size_t n)
{
    if (same_name(name, n, c->name) || (c->device_kind && same_name(name, n, c->device_kind)))
        return true;
    for (size_t i = 0; c->aliases[i]; i++) {
        if (same_name(name, n, c->aliases[i]))
            return true;
    }
    return false;
}

int chip_find(const char *name, const struct chip **out, struct error *err)
{
    size_t n = strcspn(name, ":");
    for (size_t i = 0; i < chip_count(); i++) {
        if (chip_is_called(chip_at(i), name, n)) {
            *out = chip_at(i);
            return 0;
        }
    }
    size_t bare = without_count(name, n);
    for (size_t i = 0; bare && i < chips_data_count; i++) {
        if (chips_data[i].is_tpu && chip_is_called(&chips_data[i], name, bare)) {
            *out = &chips_data[i];
            return 0;
        }
    }
    char shown[64];
    snprintf(shown, sizeof shown, "%.*s", (int)(n < 60 ? n : 60), name);
    struct suggest s = {.wanted = shown};
    struct str list;
    str_init(&list);
    chip_list_names(&list);
    for (size_t i = 0; i < chip_count(); i++) {
        suggest_offer(&s, chip_at(i)->name);
        for (size_t k = 0; chip_at(i)->aliases[k]; k++)
            suggest_offer(&s, chip_at(i)->aliases[k]);
    }
    if (s.best)
        error_set(err, ERR_USAGE, "chip", "there is no \"%s\"; did you mean \"%s\"? There is %s", shown, s.best,
                  str_text(&list));
    else
        error_set(err, ERR_USAGE, "chip", "there is no \"%s\"; there is %s", shown, str_text(&list));
    str_release(&list);
    return ERR_USAGE;
}

const struct chip *chip_by_device_kind(const char *device_kind)
{
    for (size_t i = 0; i < chips_data_count; i++) {
        if (chip_is_called(&chips_data[i], device_kind, strlen(device_kind)))
            return &chips_data[i];
    }
    return NULL;
}

void chip_list_names(struct str *out)
{
    for (size_t i = 0; i < chip_count(); i++)
        str_addf(out, "%s%s", i ? ", " : "", chip_at(i)->name);
}

void chip_words(struct str *out)
{
    for (size_t i = 0; i < chip_count(); i++)
        str_addf(out, "%s\n", chip_at(i)->name);
}

// --- types
// --------------------------------------------------------------------------------------------------------------

static const char *const type_names[CHIP_TYPES] = {
    [CHIP_F64] = "f64", [CHIP_F32] = "f32",   [CHIP_F16] = "f16", [CHIP_BF16] = "bf16",
    [CHIP_FP8] = "fp8", [CHIP_INT8] = "int8", [CHIP_FP4] = "fp4", [CHIP_INT4] = "int4",
};

static const struct {
    const char *name;
    enum chip_type type;
} element_types[] = {
    {"s8", CHIP_INT8},        {"u8", CHIP_INT8},        {"s4", CHIP_INT4},    {"u4", CHIP_INT4},
    {"f8e4m3fn", CHIP_FP8},   {"f8e5m2", CHIP_FP8},     {"f8e4m3", CHIP_FP8}, {"f8e4m3b11fnuz", CHIP_FP8},
    {"f8e4m3fnuz", CHIP_FP8}, {"f8e5m2fnuz", CHIP_FP8}, {"f8e3m4", CHIP_FP8}, {"f4e2m1fn", CHIP_FP4},
};

const char *chip_type_name(enum chip_type type)
{
    return (unsigned)type < CHIP_TYPES ? type_names[type] : "none";
}

enum chip_type chip_type_from_name(const char *name)
{
    for (unsigned t = 0; t < CHIP_TYPES; t++) {
        if (strcmp(type_names[t], name) == 0)
            return (enum chip_type)t;
    }
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++) {
        if (strcmp(element_types[i].name, name) == 0)
            return element_types[i].type;
    }
    return CHIP_TYPES;
}

// --- numbers
// ------------------------------------------------------------------------------------------------------------

struct quantity chip_value_quantity(const struct chip_value *v)
{
    if (isnan(v->value))
        return quantity_make(NAN, v->unit, v->origin, v->note);
    return quantity_make(v->value, v->unit, v->origin, v->origin == ORIGIN_DERIVED ? v->printed : v->from.cite);
}

// A value that is known per chip.
static struct quantity of_chip(const struct chip *chip, const struct chip_value *v, enum chip_scope scope)
{
    struct quantity q = chip_value_quantity(v);
    if (scope == CHIP_PER_CHIP || chip->devices_per_chip == 1 || isnan(q.value))
        return q;
    return quantity_make(q.value / chip->devices_per_chip, q.unit, ORIGIN_DERIVED,
                         "value of the chip / devices per chip");
}

struct quantity chip_rate(const struct chip *chip, enum chip_type type, enum chip_scope scope)
{
    if ((unsigned)type >= CHIP_TYPES)
        return quantity_make(NAN, "FLOP/s", ORIGIN_SHEET, "no rate is published for products of this type");
    return of_chip(chip, &chip->rate[type], scope);
}

struct quantity chip_bandwidth(const struct chip *chip, enum chip_scope scope)
{
    return of_chip(chip, &chip->bandwidth, scope);
}

struct quantity chip_memory(const struct chip *chip, enum chip_scope scope)
{
    return of_chip(chip, &chip->memory, scope);
}

struct quantity chip_memory_usable(const struct chip *chip, enum chip_scope scope)
{
    struct quantity q = chip_value_quantity(&chip->memory_usable);
    if (scope == CHIP_PER_DEVICE || chip->devices_per_chip == 1 || isnan(q.value))
        return q;
    return quantity_make(q.value * chip->devices_per_chip, q.unit, ORIGIN_DERIVED,
                         "value of the device * devices per chip");
}

struct quantity chip_ridge(const struct chip *chip, enum chip_type type)
{
    struct quantity rate = chip_rate(chip, type, CHIP_PER_CHIP);
    struct quantity bandwidth = chip_bandwidth(chip, CHIP_PER_CHIP);
    const char *unit = strcmp(rate.unit, "OP/s") == 0 ? "OP/B" : "FLOP/B";
    if (isnan(rate.value) || isnan(bandwidth.value))
        return quantity_make(NAN, unit, ORIGIN_DERIVED, isnan(rate.value) ? rate.source : bandwidth.source);
    return quantity_make(rate.value / bandwidth.value, unit, ORIGIN_DERIVED, "peak rate / memory bandwidth");
}

struct quantity chip_link(const struct chip *chip)
{
    return chip_value_quantity(&chip->link);
}

struct quantity chip_interconnect(const struct chip *chip)
{
    return chip_value_quantity(&chip->interconnect);
}

void chip_peaks_json(const struct chip *chip, struct jw *w)
{
    quantity_json_kv(w, "bandwidth", chip_bandwidth(chip, CHIP_PER_DEVICE));
    jw_key(w, "peaks");
    jw_object(w);
    for (int t = 0; t < CHIP_TYPES; t++)
        quantity_json_kv(w, chip_type_name((enum chip_type)t), chip_rate(chip, (enum chip_type)t, CHIP_PER_DEVICE));
    jw_object_end(w);
}
