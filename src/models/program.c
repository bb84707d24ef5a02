// SPDX-License-Identifier: Apache-2.0
#include "models/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo_import.h"
#include "ir/policy.h"
#include "worker/worker.h"

int program_weight_args(const char *text, int64_t *first, int64_t *last, struct error *err)
{
    char number[24] = "";
    const char *dots = text ? strstr(text, "..") : NULL;
    size_t n = dots ? (size_t)(dots - text) : text ? strlen(text) : 0;
    *first = 0;
    *last = -1;
    if (!text)
        return 0;
    if (n < sizeof number)
        snprintf(number, sizeof number, "%.*s", (int)n, text);
    if (!parse_i64(number, first) || !parse_i64(dots ? dots + 2 : number, last) || *first < 0 || *last < *first)
        return error_set(err, ERR_USAGE, "--weight-args",
                         "'%s' is not N..M, the first and the last argument that is a "
                         "weight, counted from 0",
                         text);
    return 0;
}

// ---- StableHLO

// What to do about the commonest of MLIR's complaints.
static const char *cure(const char *message)
{
    static const struct {
        const char *part, *cure;
    } cures[] = {
        {"'stablehlo.dynamic_", "; its shapes are not fixed: export it with numbers in place of symbols"},
        {"'stablehlo.get_dimension_size", "; its shapes are not fixed: export it with numbers in place of symbols"},
        {"newer than the current version", "; export it for an older StableHLO, or take a newer plugin"},
        {"unregistered dialect", "; a program is StableHLO with func, chlo, mhlo or sdy"},
        {"module with `main`", "; the function to run must be called main"},
        {"primitive_type_invalid", "; a type in it has no counterpart in XLA (quantised types have none)"},
    };
    for (size_t i = 0; i < sizeof cures / sizeof *cures; i++) {
        if (strstr(message, cures[i].part))
            return cures[i].cure;
    }
    return "";
}

// The plugin's message as ours: of MLIR's "UNKNOWN: -:17:46: error: WHAT" and the lines behind it the first error, with
// its place where that is one in this file.
static int refused(const struct program_file *f, const struct error *e, struct error *err)
{
    static const char mark[] = " error: ";
    const char *at = strstr(e->message, mark), *what = at ? at + sizeof mark - 1 : e->message;
    size_t n = strcspn(what, "\n");
    const char *place = at ? strstr(e->message, "-:") : NULL;
    char *end = NULL;
    unsigned long line = place && place < at ? strtoul(place + 2, &end, 10) : 0;
    if (line && *end == ':')
        return error_set(err, ERR_INPUT, f->path, "line %lu, column %lu: %.*s%s", line, strtoul(end + 1, NULL, 10),
                         (int)n, what, cure(e->message));
    return error_set(err, ERR_INPUT, f->path, "cannot be translated: %.*s%s", (int)n, what, cure(e->message));
}

static int lower(const struct program_file *f, struct slice *hlo, struct arena *arena, struct error *err)
{
    const char *slash = strrchr(f->path, '/');
    struct worker_options o = {.device = "cpu", .skip_hash = true};
    struct worker_program p = {.text = (const char *)f->program.data,
                               .length = f->program.size,
                               .format = "mlir",
                               .name = slash && slash[1] ? slash + 1 : f->path};
    struct worker_lowering failed = {.refused = false};
    struct error e = {0};
    struct str out;
    str_init(&out);
    int rc = program_check_size(f->program, f->path, err);
    if (rc)
        return rc;
    rc = worker_lower(&o, &p, &out, &failed, &e);
    *hlo = (struct slice){(const uint8_t *)out.text, out.length};
    if (!rc)
        rc = slice_copy(arena, hlo, err);
    else if (failed.refused)
        rc = refused(f, &e, err);
    else if (failed.died)
        rc = error_set(err, rc, f->path, "XLA's CPU plugin, which translates StableHLO, cannot bear it: %s", e.message);
    else
        rc = error_set(err, rc, f->path, "StableHLO is translated by XLA's CPU plugin: %s%s%s", e.where,
                       e.where[0] ? ": " : "", e.message);
    str_release(&out);
    return rc;
}

int program_open(struct program *p, const char *path, const char *weight_args, bool lenient, struct arena *arena,
                 struct error *err)
{
    struct slice bytes;
    memset(p, 0, sizeof *p);
    int rc = program_weight_args(weight_args, &p->first_weight, &p->last_weight, err);
    if (!rc)
        rc = program_file_read(&p->file, path, arena, err);
    if (rc)
        return rc;
    bool stablehlo = p->file.form == PROGRAM_STABLEHLO || p->file.form == PROGRAM_STABLEHLO_TEXT;
    bytes = p->file.program;
    rc = stablehlo ? lower(&p->file, &bytes, arena, err) : 0;
    if (rc)
        return rc;
    rc = hlo_read_any(&p->hlo, bytes.data, bytes.size, path, lenient, &p->parsed, arena, err);
    if (rc && stablehlo && err)
        error_context(err, "a shape in it is not fixed, it seems; export it with numbers");
    if (!rc && stablehlo)
        p->parsed.n_devices = p->file.n_devices ? p->file.n_devices : program_mesh_devices(bytes);
    return rc;
}

int program_module(const struct program *p, struct module *m, struct error *err)
{
    struct hlo_import_options o = {
        .name = p->file.path, .first_weight = p->first_weight, .last_weight = p->last_weight};
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
