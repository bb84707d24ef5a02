// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"

int safetensors_header_bytes(const uint8_t first[8], size_t file_size, const char *path, size_t *out, struct error *err)
{
    struct cursor c;
    cursor_init(&c, first, file_size < 8 ? file_size : 8);
    uint64_t n = cursor_u64(&c);
    if (c.failed)
        return error_set(err, ERR_INPUT, path, "is too short for a safetensors file: %zu bytes", file_size);
    if (n > SAFETENSORS_MAX_HEADER)
        return error_set(err, ERR_INPUT, path,
                         "is not a safetensors file: its header would have %llu bytes, the format allows %u",
                         (unsigned long long)n, SAFETENSORS_MAX_HEADER);
    if (n > file_size - 8)
        return error_set(err, ERR_INPUT, path, "is cut short: a header of %llu bytes is announced, %zu bytes follow",
                         (unsigned long long)n, file_size - 8);
    *out = (size_t)n;
    return 0;
}

struct parse {
    struct arena *arena;
    const char *path;
    size_t data_bytes;
    size_t data_offset;
    struct error *err;
};

struct entry {
    struct tensor_view view;
    size_t begin, end; // from the beginning of the data
};

static int parse_dims(const struct parse *p, const char *name, const json_t *shape, struct tensor_view *t)
{
    if (!json_is_array(shape))
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": \"shape\" must be an array of integers", name);
    size_t rank = json_array_size(shape);
    if (rank > CHECKPOINT_MAX_RANK)
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\" has rank %zu: at most %d is supported", name, rank,
                         CHECKPOINT_MAX_RANK);
    for (size_t i = 0; i < rank; i++) {
        const json_t *d = json_array_get(shape, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return error_set(p->err, ERR_INPUT, p->path,
                             "tensor \"%s\": dimension %zu of its shape is not an integer of 0 or more", name, i);
        t->dims[i] = json_integer_value(d);
    }
    t->rank = (int)rank;
    size_t bits;
    if (!size_product(t->dims, t->rank, &t->elements) || !size_mul(t->elements, (size_t)dtype_bits(t->dtype), &bits))
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": its shape has more elements than memory can hold",
                         name);
    if (bits % 8)
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": %zu elements of %s do not fill whole bytes", name,
                         t->elements, dtype_name(t->dtype));
    t->bytes = bits / 8;
    return 0;
}

static int parse_offsets(const struct parse *p, const char *name, const json_t *offsets, struct entry *e)
{
    size_t value[2];
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": \"data_offsets\" must be two integers", name);
    for (size_t i = 0; i < 2; i++) {
        const json_t *o = json_array_get(offsets, i);
        if (!json_is_integer(o) || json_integer_value(o) < 0)
            return error_set(p->err, ERR_INPUT, p->path,
                             "tensor \"%s\": \"data_offsets\" must be two integers of 0 or more", name);
        value[i] = (size_t)json_integer_value(o);
    }
    e->begin = value[0];
    e->end = value[1];
    if (e->begin > e->end || e->end > p->data_bytes)
        return error_set(p->err, ERR_INPUT, p->path,
                         "tensor \"%s\" lies at [%zu, %zu) of the data, which has %zu bytes: the file is cut short or "
                         "its header damaged",
                         name, e->begin, e->end, p->data_bytes);
    if (e->end - e->begin != e->view.bytes)
        return error_set(p->err, ERR_INPUT, p->path,
                         "tensor \"%s\": its shape and type need %zu bytes, its offsets give it %zu", name,
                         e->view.bytes, e->end - e->begin);
    e->view.offset = p->data_offset + e->begin;
    return 0;
}

static int parse_tensor(const struct parse *p, const char *name, const json_t *v, struct entry *e)
{
    if (!json_is_object(v))
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": its description must be an object", name);
    const json_t *dtype = json_object_get(v, "dtype");
    if (!json_is_string(dtype))
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": \"dtype\" must be a string", name);
    e->view.dtype = dtype_from_safetensors(json_string_value(dtype), json_string_length(dtype));
    if (e->view.dtype == DT_INVALID)
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": type \"%s\" is not known", name,
                         json_string_value(dtype));
    int rc = parse_dims(p, name, json_object_get(v, "shape"), &e->view);
    if (!rc)
        rc = parse_offsets(p, name, json_object_get(v, "data_offsets"), e);
    if (rc)
        return rc;
    e->view.name = arena_strdup(p->arena, name, p->err);
    return e->view.name ? 0 : ERR_MEMORY;
}

static int parse_metadata(const struct parse *p, json_t *v, struct safetensors_header *out)
{
    if (!json_is_object(v))
        return error_set(p->err, ERR_INPUT, p->path, "\"__metadata__\" must be an object");
    out->metadata = arena_new(p->arena, struct checkpoint_metadata, json_object_size(v), p->err);
    if (!out->metadata)
        return ERR_MEMORY;
    const char *key;
    json_t *text;
    json_object_foreach(v, key, text)
    {
        if (!json_is_string(text))
            return error_set(p->err, ERR_INPUT, p->path, "\"__metadata__\": \"%s\" must be a string", key);
        struct checkpoint_metadata *m = &out->metadata[out->metadata_count++];
        m->key = arena_strdup(p->arena, key, p->err);
        m->value = arena_strdup(p->arena, json_string_value(text), p->err);
        if (!m->key || !m->value)
            return ERR_MEMORY;
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->view.name, y->view.name);
}

static int check_places(const struct parse *p, const struct entry *e, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (e[i].begin < at)
            return error_set(p->err, ERR_INPUT, p->path, "tensors \"%s\" and \"%s\" overlap", e[i - 1].view.name,
                             e[i].view.name);
        if (e[i].begin > at)
            return error_set(p->err, ERR_INPUT, p->path,
                             "%zu bytes before tensor \"%s\" belong to no tensor: the format allows no holes",
                             e[i].begin - at, e[i].view.name);
        at = e[i].end;
    }
    if (at != p->data_bytes)
        return error_set(p->err, ERR_INPUT, p->path, "%zu bytes after the last tensor belong to none",
                         p->data_bytes - at);
    return 0;
}

static int parse_root(const struct parse *p, json_t *root, struct safetensors_header *out)
{
    size_t keys = json_object_size(root), count = 0;
    struct entry *entries = calloc(keys ? keys : 1, sizeof *entries);
    if (!entries)
        return error_set(p->err, ERR_MEMORY, p->path, "no memory for %zu tensors", keys);
    int rc = 0;
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v)
    {
        if (strcmp(key, "__metadata__") == 0)
            rc = parse_metadata(p, v, out);
        else
            rc = parse_tensor(p, key, v, &entries[count++]);
        if (rc)
            break;
    }
    if (!rc) {
        qsort(entries, count, sizeof *entries, by_place);
        rc = check_places(p, entries, count);
    }
    if (!rc) {
        out->tensors = arena_new(p->arena, struct tensor_view, count, p->err);
        out->count = count;
        rc = out->tensors ? 0 : ERR_MEMORY;
        for (size_t i = 0; i < count && !rc; i++)
            out->tensors[i] = entries[i].view;
    }
    free(entries);
    return rc;
}

int safetensors_parse(struct arena *a, const char *json, size_t json_bytes, size_t file_size, const char *path,
                      struct safetensors_header *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    if (json_bytes > SAFETENSORS_MAX_HEADER || file_size < 8 || json_bytes > file_size - 8)
        return error_set(err, ERR_INTERNAL, path, "a header of %zu bytes in a file of %zu", json_bytes, file_size);
    if (json_bytes == 0 || json[0] != '{')
        return error_set(err, ERR_INPUT, path, "is not a safetensors file: its header is not a JSON object");
    json_t *root = json_parse(json, json_bytes, path, err);
    if (!root) {
        error_context(err, "safetensors header");
        return ERR_INPUT;
    }
    struct parse p = {a, path, file_size - 8 - json_bytes, 8 + json_bytes, err};
    int rc = parse_root(&p, root, out);
    json_decref(root);
    return rc;
}
