// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "api/api.h"
#include "base/host.h"
#include "chips/local.h"

size_t assay_chip_count(void)
{
    return chip_count();
}

const char *assay_chip_name(size_t index)
{
    return index < chip_count() ? chip_at(index)->name : NULL;
}

enum figure { RATE, MEMORY, BANDWIDTH };

static int find(struct api_call *call, struct arena *arena, const char *name, const struct chip **chip)
{
    struct host_facts host;
    int rc = api_need(call, name, "chip");
    if (rc)
        return rc;
    host_read(&host, "/");
    return chip_get(arena, name, host.model, NULL, chip, &call->err);
}

static int type_of_products(struct api_call *call, const char *name, enum chip_type *type)
{
    int rc = api_need(call, name, "type");
    if (rc)
        return rc;
    *type = chip_type_from_name(name);
    if (*type != CHIP_TYPES)
        return 0;
    struct str names;
    str_init(&names);
    for (int t = 0; t < CHIP_TYPES; t++)
        str_addf(&names, "%s%s", t ? ", " : "", chip_type_name((enum chip_type)t));
    rc = error_set(&call->err, ERR_USAGE, name, "no rates are kept for products of this type; there are %s",
                   str_text(&names));
    str_release(&names);
    return rc;
}

static int figure(const char *chip_name, enum figure which, const char *type_name, struct assay_quantity *out,
                  struct assay_error *error)
{
    struct api_call call;
    struct arena arena;
    const struct chip *chip;
    enum chip_type type = CHIP_TYPES;
    api_begin(&call);
    arena_init(&arena);
    int rc = find(&call, &arena, chip_name, &chip);
    if (!rc && which == RATE)
        rc = type_of_products(&call, type_name, &type);
    if (!rc) {
        struct quantity q = which == RATE     ? chip_rate(chip, type, CHIP_PER_DEVICE)
                            : which == MEMORY ? chip_memory(chip, CHIP_PER_DEVICE)
                                              : chip_bandwidth(chip, CHIP_PER_DEVICE);
        *out = (struct assay_quantity){.value = q.value, .origin = (char)q.origin};
        snprintf(out->unit, sizeof out->unit, "%s", q.unit);
        snprintf(out->source, sizeof out->source, "%s", q.source);
    }
    arena_release(&arena);
    return api_end(&call, rc, error);
}

int assay_chip_rate(const char *chip, const char *type, struct assay_quantity *out, struct assay_error *error)
{
    return figure(chip, RATE, type, out, error);
}

int assay_chip_memory(const char *chip, struct assay_quantity *out, struct assay_error *error)
{
    return figure(chip, MEMORY, NULL, out, error);
}

int assay_chip_bandwidth(const char *chip, struct assay_quantity *out, struct assay_error *error)
{
    return figure(chip, BANDWIDTH, NULL, out, error);
}
