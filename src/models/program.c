// SPDX-License-Identifier: Apache-2.0
#include "models/program.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "ir/hlo_import.h"

#define MAX_BYTES ((size_t)4 << 30)

bool program_is(const char *workload)
{
    static const char *const endings[] = {".hlo.pb", ".hlo", ".pb", ".txt"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (str_ends_with(workload, endings[i]))
            return !dir_exists(workload);
    }
    return false;
}

static int read_weight_args(struct program *p, const char *text, struct error *err)
{
    char first[24] = "";
    const char *dots = text ? strstr(text, "..") : NULL;
    size_t n = dots ? (size_t)(dots - text) : text ? strlen(text) : 0;
    p->first_weight = 0;
    p->last_weight = -1;
    if (!text)
        return 0;
    if (n < sizeof first)
        snprintf(first, sizeof first, "%.*s", (int)n, text);
    if (!parse_i64(first, &p->first_weight) || !parse_i64(dots ? dots + 2 : first, &p->last_weight) ||
        p->first_weight < 0 || p->last_weight < p->first_weight)
        return error_set(err, ERR_USAGE, "--weight-args",
                         "'%s' is not N..M, the first and the last argument that is a "
                         "weight, counted from 0",
                         text);
    return 0;
}

int program_open(struct program *p, const char *path, const char *weight_args, bool lenient, struct arena *arena,
                 struct error *err)
{
    struct file_map map;
    struct file_guard guard;
    memset(p, 0, sizeof *p);
    p->path = path;
    int rc = read_weight_args(p, weight_args, err);
    if (!rc)
        rc = file_map_open(&map, path, err);
    if (rc)
        return rc;
    if (map.size > MAX_BYTES) {
        file_map_close(&map);
        return error_set(err, ERR_INPUT, path, "is larger than 4 GiB");
    }
    // Copied, since the module points into its bytes.
    struct slice bytes = {map.data, map.size};
    if (FILE_GUARD(&guard, &map)) {
        rc = file_guard_error(&guard, err);
        file_map_close(&map);
        return rc;
    }
    rc = slice_copy(arena, &bytes, err);
    file_guard_end(&guard);
    file_map_close(&map);
    return rc ? rc : hlo_read_any(&p->hlo, bytes.data, bytes.size, path, lenient, &p->parsed, arena, err);
}

int program_module(const struct program *p, struct module *m, struct error *err)
{
    struct hlo_import_options o = {.name = p->path, .first_weight = p->first_weight, .last_weight = p->last_weight};
    return hlo_import(&p->hlo, &o, m, err);
}

bool program_is_f32(const struct module *m)
{
    for (int i = 0; i < m->n_instructions; i++) {
        enum dtype t = m->instructions[i].shape.dtype;
        if (dtype_is_float(t) && t != DT_F32)
            return false;
    }
    return true;
}
