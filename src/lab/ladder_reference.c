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
enum { MAX_CASES = 256, MAX_CASE_NAME = 40, MAX_NAME = 200 };

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

// [[height, width], ...]
static int read_references(const json_t *o, const char *where, struct ladder_case *c, struct error *err)
{
    const json_t *list = json_object_get(o, "references");
    if (!list)
        return 0;
    c->n_references = (int)json_array_size(list);
    bool good = json_is_array(list) && json_array_size(list) <= LADDER_MAX_REFERENCES;
    for (int i = 0; good && i < 2 * c->n_references; i++) {
        const json_t *pair = json_array_get(list, (size_t)i / 2), *side = json_array_get(pair, (size_t)i % 2);
        c->references[i / 2][i % 2] = json_integer_value(side);
        good = json_array_size(pair) == 2 && json_is_integer(side) && json_integer_value(side) > 0;
    }
    return good ? 0
                : error_set(err, ERR_INPUT, where, "\"references\" is no list of up to %d pairs of height and width",
                            LADDER_MAX_REFERENCES);
}

static int read_prompts(struct ladder_reference *r, const json_t *o, const char *where, struct ladder_case *c,
                        struct error *err)
{
    const json_t *list = json_object_get(o, "prompts");
    if (!list)
        return 0;
    c->n_prompts = json_array_size(list);
    c->prompts = arena_new(&r->arena, const char *, c->n_prompts + 1, err);
    if (!c->prompts)
        return ERR_MEMORY;
    for (size_t i = 0; i < c->n_prompts; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text)
            return error_set(err, ERR_INPUT, where, "\"prompts\" is no list of texts");
        if (!(c->prompts[i] = arena_strdup(&r->arena, text, err)))
            return ERR_MEMORY;
    }
    return json_is_array(list) ? 0 : error_set(err, ERR_INPUT, where, "\"prompts\" is no list of texts");
}

// What a case says, over what was said for all.
static int read_case(struct ladder_reference *r, const json_t *o, const char *where, struct ladder_case *c,
                     struct error *err)
{
    const struct {
        const char *key;
        int64_t most, *to;
    } sizes[] = {{"height", 4096, &c->height},
                 {"width", 4096, &c->width},
                 {"steps", 1000, &c->steps},
                 {"text_tokens", 4096, &c->text_tokens}};
    int rc = json_get_int_or(o, "seed", where, c->seed, &c->seed, err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++) {
        if (json_object_get(o, sizes[i].key))
            rc = json_get_positive(o, sizes[i].key, where, 0, sizes[i].most, sizes[i].to, err);
    }
    if (!rc)
        rc = json_get_double_or(o, "guidance", where, c->guidance, &c->guidance, err);
    if (!rc && json_object_get(o, "sampler"))
        rc = optional_text(r, o, "sampler", where, &c->sampler, err);
    if (!rc)
        rc = read_references(o, where, c, err);
    return rc ? rc : read_prompts(r, o, where, c, err);
}

static bool good_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return n && !name[n] && n <= MAX_CASE_NAME;
}

static int read_cases(struct ladder_reference *r, const json_t *o, const char *where, struct error *err)
{
    struct ladder_case all = {.seed = -1, .guidance = 1};
    const json_t *list = json_object_get(o, "cases");
    int rc = read_case(r, o, where, &all, err);
    if (!rc && list && (!json_array_size(list) || json_array_size(list) > MAX_CASES))
        rc = error_set(err, ERR_INPUT, where, "\"cases\" is no list of 1 to %d cases", MAX_CASES);
    r->n_cases = list ? json_array_size(list) : 1;
    r->cases = rc ? NULL : arena_new(&r->arena, struct ladder_case, r->n_cases, err);
    if (!r->cases)
        return rc ? rc : ERR_MEMORY;
    r->at = r->cases;
    r->cases[0] = all;
    for (size_t i = 0; list && i < r->n_cases && !rc; i++) {
        const json_t *one = json_array_get(list, i);
        r->cases[i] = all;
        if (!json_is_object(one))
            return error_set(err, ERR_INPUT, where, "\"cases\"[%zu] is no object", i);
        rc = optional_text(r, one, "name", where, &r->cases[i].name, err);
        if (!rc && (!r->cases[i].name || !good_name(r->cases[i].name)))
            rc = error_set(err, ERR_INPUT, where,
                           "\"cases\"[%zu] has no name of letters, digits, '.', '_' and '-', %d at most", i,
                           MAX_CASE_NAME);
        for (size_t k = 0; k < i && !rc; k++) {
            if (strcmp(r->cases[k].name, r->cases[i].name) == 0)
                rc = error_set(err, ERR_INPUT, where, "two cases are called \"%s\"", r->cases[i].name);
        }
        if (!rc)
            rc = read_case(r, one, where, &r->cases[i], err);
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
        rc = error_set(err, ERR_INPUT, where, "\"model\" is missing: \"flux2\", \"bert\" or \"decoder\"");
    if (!rc)
        rc = optional_text(r, o, "weights", where, &r->weights, err);
    if (!rc)
        rc = optional_text(r, o, "made_by", where, &r->made_by, err);
    return rc ? rc : read_cases(r, o, where, err);
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

const char *ladder_case_program(struct ladder_reference *r, const char *program, struct error *err)
{
    return r->at->name ? arena_printf(&r->arena, err, "%s/%s", r->at->name, program)
                       : arena_strdup(&r->arena, program, err);
}

static void full_name(char out[MAX_NAME], const struct ladder_reference *r, const char *program, const char *name)
{
    const char *at = r->at->name;
    snprintf(out, MAX_NAME, "%s%s%s/%s", at ? at : "", at ? "/" : "", program, name);
}

const struct tensor_view *ladder_tap(const struct ladder_reference *r, const char *program, const char *name)
{
    char full[MAX_NAME];
    full_name(full, r, program, name);
    return checkpoint_find(&r->taps, full);
}

bool ladder_has_program(const struct ladder_reference *r, const char *program)
{
    char prefix[MAX_NAME];
    full_name(prefix, r, program, "");
    for (size_t i = 0; i < r->taps.count; i++) {
        if (strncmp(r->taps.tensors[i].name, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

int ladder_tap_read(const struct ladder_reference *r, const char *program, const char *name, const struct shape *shape,
                    void **out, struct error *err)
{
    char full[MAX_NAME];
    const struct tensor_view *t;
    *out = NULL;
    full_name(full, r, program, name);
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
