// SPDX-License-Identifier: Apache-2.0
#include "hlo_case.h"

struct slice hlo_case_bytes(const json_t *row, const char *key, struct arena *arena, struct error *err)
{
    const char *hex = json_string_value(json_object_get(row, key));
    size_t n = hex ? strlen(hex) / 2 : 0;
    uint8_t *bytes = arena_alloc(arena, n, 1, err);
    for (size_t i = 0; bytes && i < n; i++)
        bytes[i] = (uint8_t)strtoul((char[]){hex[2 * i], hex[2 * i + 1], '\0'}, NULL, 16);
    return (struct slice){bytes, bytes ? n : 0};
}

bool hlo_case(const json_t *row, struct hlo_module *m, struct arena *arena, struct error *err)
{
    struct slice s = hlo_case_bytes(row, "module", arena, err);
    return s.size && !hlo_read(m, s.data, s.size, "case", arena, err);
}
