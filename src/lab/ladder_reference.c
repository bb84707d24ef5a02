// SPDX-License-Identifier: Apache-2.0
#include "lab/ladder_reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "num/convert.h"

#define SCHEMA   "assay.reference/1"
#define MAX_JSON ((size_t)1 << 20)

static int optional_text(struct ladder_reference *r, const json_t *o, const char *key, const char *where,
                         const char **out, struct error *err)
{
    const char *text;
    *out = NULL;
    if (!json_object_get(o, key))
        return 0;
    int rc = json_get_string(o, key, where, &text, err);
    if (!rc && !(*out = arena_strdup(&r->arena, text, err)))
        rc = ERR_MEMORY;
    return rc;
}

static int read_sizes(struct ladder_reference *r, const json_t *o, const char *where, struct error *err)
{
    static const struct {
        const char *key;
        int64_t most;
    } sizes[] = {{"height", 4096}, {"width", 4096}, {"steps", 1000}, {"text_tokens", 4096}};
    int64_t *const to[] = {&r->height, &r->width, &r->steps, &r->text_tokens};
    int rc = json_get_int_or(o, "seed", where, -1, &r->seed, err);
    for (size_t i = 0; i < 4 && !rc; i++) {
        if (json_object_get(o, sizes[i].key))
            rc = json_get_positive(o, sizes[i].key, where, 0, sizes[i].most, to[i], err);
    }
    return rc;
}

static int read_about(struct ladder_reference *r, const json_t *o, const char *where, struct error *err)
{
    const char *schema, *type;
    int rc = json_get_string(o, "schema", where, &schema, err);
    if (!rc && strcmp(schema, SCHEMA) != 0)
        rc = error_set(err, ERR_INPUT, where, "its schema is \"%.40s\", not \"" SCHEMA "\"", schema);
    if (!rc)
        rc = json_get_string(o, "type", where, &type, err);
    if (!rc) {
        r->type = dtype_from_name(type);
        if (r->type != DT_F32 && r->type != DT_BF16 && r->type != DT_F64)
            rc = error_set(err, ERR_INPUT, where, "\"type\" is \"%.20s\", not one of f32, bf16, f64", type);
    }
    if (!rc)
        rc = optional_text(r, o, "model", where, &r->model, err);
    if (!rc && !r->model)
        rc = error_set(err, ERR_INPUT, where, "\"model\" is missing: \"flux2\" or \"bert\"");
    if (!rc)
        rc = optional_text(r, o, "weights", where, &r->weights, err);
    if (!rc)
        rc = optional_text(r, o, "sampler", where, &r->sampler, err);
    if (!rc)
        rc = optional_text(r, o, "made_by", where, &r->made_by, err);
    return rc ? rc : read_sizes(r, o, where, err);
}

int ladder_reference_parse(struct ladder_reference *r, const char *text, size_t n, const char *where, struct error *err)
{
    json_t *o = json_parse(text, n, where, err);
    int rc = o ? read_about(r, o, where, err) : ERR_INPUT;
    json_decref(o);
    return rc;
}

int ladder_reference_open(struct ladder_reference *r, const char *directory, struct error *err)
{
    char path[1024];
    struct str text;
    memset(r, 0, sizeof *r);
    arena_init(&r->arena);
    str_init(&text);
    r->directory = directory;
    snprintf(path, sizeof path, "%s/reference.json", directory);
    int rc = file_read(&text, path, MAX_JSON, err);
    if (!rc)
        rc = ladder_reference_parse(r, str_text(&text), text.length, path, err);
    str_release(&text);
    snprintf(path, sizeof path, "%s/taps.safetensors", directory);
    if (!rc) {
        rc = checkpoint_open(&r->taps, path, err);
        r->open = !rc;
    }
    return rc;
}

void ladder_reference_close(struct ladder_reference *r)
{
    if (r->open)
        checkpoint_close(&r->taps);
    arena_release(&r->arena);
    memset(r, 0, sizeof *r);
}

const struct tensor_view *ladder_tap(const struct ladder_reference *r, const char *program, const char *name)
{
    char full[160];
    snprintf(full, sizeof full, "%s/%s", program, name);
    return checkpoint_find(&r->taps, full);
}

int ladder_tap_read(const struct ladder_reference *r, const char *program, const char *name, const struct shape *shape,
                    void **out, struct error *err)
{
    char full[160];
    const struct tensor_view *t;
    *out = NULL;
    snprintf(full, sizeof full, "%s/%s", program, name);
    int rc = checkpoint_require(&r->taps, full, &t, err);
    if (rc)
        return rc;
    if ((int64_t)t->elements != shape_elements(shape))
        return error_set(err, ERR_INPUT, full, "has %zu elements in the reference and %" PRId64 " in the model",
                         t->elements, shape_elements(shape));
    *out = malloc((size_t)shape_bytes(shape) + 1);
    if (!*out)
        return error_set(err, ERR_MEMORY, full, "no memory for %zu elements", t->elements);
    rc = checkpoint_read_as(&r->taps, t, shape->dtype, *out, err);
    if (rc) {
        free(*out);
        *out = NULL;
    }
    return rc;
}
