// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/sha256.h"
#include "io/ggml.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "num/convert.h"

#define MAX_INDEX_BYTES 100000000u

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The header in memory of our own: the parser allocates, so it must not be left by a jump out of a guard.
static int copy_header(const struct file_map *map, char **out, size_t *bytes, struct error *err)
{
    char *volatile copy = NULL;
    struct file_guard g;
    if (FILE_GUARD(&g, map)) {
        free(copy);
        return file_guard_error(&g, err);
    }
    int rc = safetensors_header_bytes(map->data, map->size, map->path, bytes, err);
    if (!rc) {
        copy = malloc(*bytes + 1);
        if (copy)
            memcpy(copy, map->data + 8, *bytes);
        else
            rc = error_set(err, ERR_MEMORY, map->path, "no memory for a header of %zu bytes", *bytes);
    }
    file_guard_end(&g);
    *out = copy;
    return rc;
}

static int append(struct checkpoint *c, const struct safetensors_header *h, size_t file, struct error *err)
{
    // One more than needed, so that the arrays exist even when they are empty.
    c->tensors = arena_grow(&c->arena, c->tensors, &c->tensor_cap, c->count + h->count + 1, sizeof *c->tensors, err);
    c->metadata = arena_grow(&c->arena, c->metadata, &c->metadata_cap, c->metadata_count + h->metadata_count + 1,
                             sizeof *c->metadata, err);
    if (!c->tensors || !c->metadata)
        return ERR_MEMORY;
    for (size_t i = 0; i < h->count; i++) {
        struct tensor_view *t = &c->tensors[c->count++];
        *t = h->tensors[i];
        t->file = file;
        t->data = c->files[file].data + t->offset;
        bool counts = dtype_bits(t->dtype) <= 8 ? t->dtype != DT_PRED : !dtype_is_integer(t->dtype);
        if (!size_add(c->elements, t->elements, &c->elements) || !size_add(c->bytes, t->bytes, &c->bytes))
            return error_set(err, ERR_INPUT, c->files[file].path, "holds more elements than can be counted");
        c->parameters += counts ? t->elements : 0;
    }
    for (size_t i = 0; i < h->metadata_count; i++)
        c->metadata[c->metadata_count++] = h->metadata[i];
    return 0;
}

// Strings and numbers as text; the arrays stay in the file. Under a guard.
static int gguf_metadata(struct checkpoint *c, const struct gguf *g, struct safetensors_header *h, struct error *err)
{
    h->metadata = arena_new(&c->arena, struct checkpoint_metadata, g->entry_count, err);
    if (!h->metadata)
        return ERR_MEMORY;
    for (size_t i = 0; i < g->entry_count; i++) {
        const struct gguf_value *v = &g->entries[i].value;
        char number[32], *text;
        switch (v->type) {
        case GGUF_ARRAY:
            continue;
        case GGUF_STRING:
            text = arena_strndup(&c->arena, (const char *)v->data, v->bytes, err);
            break;
        case GGUF_S8:
        case GGUF_S16:
        case GGUF_S32:
        case GGUF_S64:
            text = arena_printf(&c->arena, err, "%lld", (long long)v->s);
            break;
        case GGUF_F32:
        case GGUF_F64:
            json_number(number, v->f);
            text = arena_strdup(&c->arena, number, err);
            break;
        case GGUF_BOOL:
            text = arena_strdup(&c->arena, v->u ? "true" : "false", err);
            break;
        default:
            text = arena_printf(&c->arena, err, "%llu", (unsigned long long)v->u);
        }
        if (!text)
            return ERR_MEMORY;
        h->metadata[h->metadata_count++] = (struct checkpoint_metadata){g->entries[i].key, text};
    }
    return 0;
}

// The parser keeps what it allocates in the arena, so a jump out of the guard loses nothing.
static int add_gguf(struct checkpoint *c, size_t file, struct error *err)
{
    const struct file_map *map = &c->files[file];
    struct gguf *g = arena_new(&c->arena, struct gguf, 1, err);
    struct safetensors_header h = {0};
    struct file_guard guard;
    if (!g)
        return ERR_MEMORY;
    if (FILE_GUARD(&guard, map))
        return file_guard_error(&guard, err);
    int rc = gguf_parse(&c->arena, map->data, map->size, map->path, g, err);
    if (!rc)
        rc = gguf_metadata(c, g, &h, err);
    file_guard_end(&guard);
    c->gguf = g;
    h.tensors = g->tensors;
    h.count = g->count;
    return rc ? rc : append(c, &h, file, err);
}

static bool begins_as_gguf(const struct file_map *map)
{
    struct file_guard guard;
    if (FILE_GUARD(&guard, map)) {
        file_guard_end(&guard);
        return false; // whoever reads it next says that it was cut
    }
    bool is = gguf_is(map->data, map->size);
    file_guard_end(&guard);
    return is;
}

static int add_file(struct checkpoint *c, size_t file, struct error *err)
{
    const struct file_map *map = &c->files[file];
    if (begins_as_gguf(map) || str_ends_with(map->path, ".gguf"))
        return add_gguf(c, file, err);
    char *header = NULL;
    size_t bytes = 0;
    int rc = copy_header(map, &header, &bytes, err);
    if (rc)
        return rc;
    struct safetensors_header h;
    rc = safetensors_parse(&c->arena, header, bytes, map->size, map->path, &h, err);
    free(header);
    return rc ? rc : append(c, &h, file, err);
}

static int by_name(const void *a, const void *b)
{
    const struct tensor_view *x = *(const struct tensor_view *const *)a, *y = *(const struct tensor_view *const *)b;
    return strcmp(x->name, y->name);
}

static int index_names(struct checkpoint *c, struct error *err)
{
    c->by_name = arena_new(&c->arena, const struct tensor_view *, c->count, err);
    if (!c->by_name)
        return ERR_MEMORY;
    for (size_t i = 0; i < c->count; i++)
        c->by_name[i] = &c->tensors[i];
    qsort(c->by_name, c->count, sizeof(const struct tensor_view *), by_name);
    for (size_t i = 1; i < c->count; i++) {
        const struct tensor_view *a = c->by_name[i - 1], *b = c->by_name[i];
        if (strcmp(a->name, b->name) == 0)
            return error_set(err, ERR_INPUT, c->files[a->file].path, "tensor \"%s\" is also in %s", a->name,
                             base_name(c->files[b->file].path));
    }
    return 0;
}

static int begin(struct checkpoint *c, size_t files, struct error *err)
{
    c->files = arena_new(&c->arena, struct file_map, files, err);
    for (size_t i = 0; c->files && i < files; i++)
        c->files[i].fd = -1;
    return c->files ? 0 : ERR_MEMORY;
}

static int open_single(struct checkpoint *c, const char *path, struct error *err)
{
    int rc = begin(c, 1, err);
    if (!rc)
        rc = file_map_open(&c->files[0], path, err);
    if (rc)
        return rc;
    c->file_count = 1;
    rc = add_file(c, 0, err);
    return rc ? rc : index_names(c, err);
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The different file names of a weight_map, sorted. They must be plain names: an index must not reach elsewhere.
static int shard_names(struct checkpoint *c, json_t *map, const char *path, const char ***out, size_t *count,
                       struct error *err)
{
    const char **names = arena_new(&c->arena, const char *, json_object_size(map), err);
    if (!names)
        return ERR_MEMORY;
    size_t n = 0;
    const char *tensor;
    json_t *v;
    json_object_foreach(map, tensor, v)
    {
        const char *s = json_string_value(v);
        if (!s || !*s || strchr(s, '/') || strcmp(s, ".") == 0 || strcmp(s, "..") == 0)
            return error_set(err, ERR_INPUT, path, "weight_map: tensor \"%s\" must name a file beside the index",
                             tensor);
        names[n++] = s;
    }
    qsort(names, n, sizeof *names, by_string);
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(names[i], names[*count - 1]) != 0)
            names[(*count)++] = names[i];
    }
    *out = names;
    return 0;
}

static int check_weight_map(const struct checkpoint *c, json_t *map, const char *path, struct error *err)
{
    const char *name;
    json_t *v;
    json_object_foreach(map, name, v)
    {
        const struct tensor_view *t = checkpoint_find(c, name);
        const char *shard = json_string_value(v);
        if (!t)
            return error_set(err, ERR_INPUT, path, "tensor \"%s\" should be in %s and is in no shard", name, shard);
        if (strcmp(base_name(c->files[t->file].path), shard) != 0)
            return error_set(err, ERR_INPUT, path, "tensor \"%s\" should be in %s and is in %s", name, shard,
                             base_name(c->files[t->file].path));
    }
    return 0;
}

static int open_shards(struct checkpoint *c, json_t *map, const char *path, struct error *err)
{
    const char **names = NULL;
    size_t count = 0;
    int rc = shard_names(c, map, path, &names, &count, err);
    if (!rc)
        rc = begin(c, count, err);
    int directory = (int)(base_name(path) - path);
    for (size_t i = 0; i < count && !rc; i++) {
        const char *shard = arena_printf(&c->arena, err, "%.*s%s", directory, path, names[i]);
        rc = shard ? file_map_open(&c->files[i], shard, err) : ERR_MEMORY;
        if (rc) {
            error_context(err, "a shard that %s names", base_name(path));
            return rc;
        }
        c->file_count = i + 1;
        rc = add_file(c, i, err);
    }
    if (!rc)
        rc = index_names(c, err);
    return rc ? rc : check_weight_map(c, map, path, err);
}

static int open_index(struct checkpoint *c, const char *path, struct error *err)
{
    struct str text;
    str_init(&text);
    int rc = file_read(&text, path, MAX_INDEX_BYTES, err);
    json_t *root = rc ? NULL : json_parse(str_text(&text), text.length, path, err);
    str_release(&text);
    if (!root)
        return rc ? rc : ERR_INPUT;
    c->index_path = arena_strdup(&c->arena, path, err);
    json_t *map = json_object_get(root, "weight_map");
    if (!c->index_path)
        rc = ERR_MEMORY;
    else if (!json_is_object(map) || json_object_size(map) == 0)
        rc = error_set(err, ERR_INPUT, path, "\"weight_map\" must be an object that names the file of every tensor");
    else
        rc = open_shards(c, map, path, err);
    json_decref(root);
    return rc;
}

static int open_directory(struct checkpoint *c, const char *path, struct error *err)
{
    static const char *const single[] = {"model", "diffusion_pytorch_model"};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        const char *file = arena_printf(&c->arena, err, "%s/%s.safetensors", path, single[i]);
        const char *index = arena_printf(&c->arena, err, "%s/%s.safetensors.index.json", path, single[i]);
        if (!file || !index)
            return ERR_MEMORY;
        if (file_exists(file))
            return open_single(c, file, err);
        if (file_exists(index))
            return open_index(c, index, err);
    }
    return error_set(err, ERR_INPUT, path,
                     "holds no weights: model.safetensors, model.safetensors.index.json or "
                     "diffusion_pytorch_model.safetensors is needed (other formats must be converted to safetensors)");
}

const char *tensor_type_name(const struct tensor_view *t)
{
    return t->blocks ? t->blocks->name : dtype_name(t->dtype);
}

int checkpoint_open(struct checkpoint *c, const char *path, struct error *err)
{
    memset(c, 0, sizeof *c);
    arena_init(&c->arena);
    int rc;
    if (dir_exists(path))
        rc = open_directory(c, path, err);
    else if (str_ends_with(path, ".index.json"))
        rc = open_index(c, path, err);
    else
        rc = open_single(c, path, err);
    if (rc)
        checkpoint_close(c);
    return rc;
}

int checkpoint_open_memory(struct checkpoint *c, const void *bytes, size_t size, const char *name, struct error *err)
{
    memset(c, 0, sizeof *c);
    arena_init(&c->arena);
    c->borrowed = true;
    int rc = begin(c, 1, err);
    if (!rc) {
        c->files[0].data = bytes;
        c->files[0].size = size;
        snprintf(c->files[0].path, sizeof c->files[0].path, "%s", name);
        c->file_count = 1;
        rc = add_file(c, 0, err);
    }
    if (!rc)
        rc = index_names(c, err);
    if (rc)
        checkpoint_close(c);
    return rc;
}

int checkpoint_begin(struct checkpoint *c, struct error *err)
{
    memset(c, 0, sizeof *c);
    arena_init(&c->arena);
    return checkpoint_replace(c, NULL, 0, err);
}

int checkpoint_add_memory(struct checkpoint *c, int fd, size_t bytes, const char *name, size_t *file, struct error *err)
{
    struct file_map *files = arena_new(&c->arena, struct file_map, c->file_count + 1, err);
    int rc = files ? 0 : ERR_MEMORY;
    if (!rc) {
        if (c->file_count > 0)
            memcpy(files, c->files, c->file_count * sizeof *files);
        rc = file_map_adopt(&files[c->file_count], fd, bytes, name, err);
    } else {
        close(fd);
    }
    if (rc)
        return rc;
    c->files = files;
    *file = c->file_count++;
    return 0;
}

int checkpoint_replace(struct checkpoint *c, const struct tensor_view *views, size_t count, struct error *err)
{
    c->tensors = arena_new(&c->arena, struct tensor_view, count + 1, err);
    c->count = c->elements = c->parameters = c->bytes = 0;
    c->tensor_cap = count + 1;
    if (!c->tensors)
        return ERR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        struct tensor_view v = views[i];
        size_t end;
        v.name = arena_strdup(&c->arena, v.name, err);
        if (!v.name)
            return ERR_MEMORY;
        if (v.file >= c->file_count || !size_add(v.offset, v.bytes, &end) || end > c->files[v.file].size)
            return error_set(err, ERR_INPUT, v.name, "does not lie in the file");
        const struct safetensors_header one = {.tensors = &v, .count = 1};
        int rc = append(c, &one, v.file, err);
        if (rc)
            return rc;
    }
    return index_names(c, err);
}

void checkpoint_close(struct checkpoint *c)
{
    for (size_t i = 0; i < c->file_count && !c->borrowed; i++)
        file_map_close(&c->files[i]);
    arena_release(&c->arena);
    memset(c, 0, sizeof *c);
}

const struct tensor_view *checkpoint_find(const struct checkpoint *c, const char *name)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, c->by_name[middle]->name);
        if (order == 0)
            return c->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

// A tensor whose name ends with the whole of the other's, after a dot: what differs is a prefix like "bert.".
static const struct tensor_view *same_but_prefix(const struct checkpoint *c, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < c->count; i++) {
        const char *other = c->tensors[i].name;
        size_t m = strlen(other);
        const char *longer = n > m ? name : other, *shorter = n > m ? other : name;
        size_t more = n > m ? n - m : m - n;
        if (more && strchr(shorter, '.') && longer[more - 1] == '.' && strcmp(longer + more, shorter) == 0)
            return &c->tensors[i];
    }
    return NULL;
}

int checkpoint_require(const struct checkpoint *c, const char *name, const struct tensor_view **out, struct error *err)
{
    *out = checkpoint_find(c, name);
    if (*out)
        return 0;
    const char *where = c->file_count ? c->files[0].path : NULL;
    const struct tensor_view *near = same_but_prefix(c, name);
    if (near)
        return error_set(err, ERR_INPUT, where, "tensor \"%s\" is missing (there is \"%s\")", name, near->name);
    return error_set(err, ERR_INPUT, where, "tensor \"%s\" is missing among %zu", name, c->count);
}

int checkpoint_read(const struct checkpoint *c, const struct tensor_view *t, void *dst, struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &c->files[t->file]))
        return file_guard_error(&g, err);
    if (t->bytes)
        memcpy(dst, t->data, t->bytes);
    file_guard_end(&g);
    return 0;
}

// Block by block, so that nothing of the tensor's size is needed beside `dst`.
static int decode_as(const struct tensor_view *t, enum dtype type, uint8_t *dst, struct error *err)
{
    const uint8_t *block = t->data;
    size_t to_bits = (size_t)dtype_bits(type);
    int rc = 0;
    for (size_t i = 0; i < t->elements && !rc; i += t->blocks->elements, block += t->blocks->bytes) {
        float part[GGML_MAX_BLOCK];
        rc = ggml_decode(t->blocks, block, t->blocks->elements, part, err);
        if (!rc)
            rc = convert_elements(type, dst + i * to_bits / 8, DT_F32, part, t->blocks->elements, err);
    }
    return rc;
}

int checkpoint_read_as(const struct checkpoint *c, const struct tensor_view *t, enum dtype type, void *dst,
                       struct error *err)
{
    struct file_guard g;
    if (FILE_GUARD(&g, &c->files[t->file]))
        return file_guard_error(&g, err);
    int rc =
        t->blocks ? decode_as(t, type, dst, err) : convert_elements(type, dst, t->dtype, t->data, t->elements, err);
    file_guard_end(&g);
    if (rc)
        error_context(err, "tensor \"%s\"", t->name);
    return rc;
}

void checkpoint_forget(const struct checkpoint *c, const struct tensor_view *t)
{
    if (!c->borrowed)
        file_map_forget(&c->files[t->file], t->offset, t->bytes);
}

int checkpoint_file_sha256(const struct checkpoint *c, size_t file, char hex[65], struct error *err)
{
    return sha256_map(&c->files[file], hex, err);
}

int checkpoint_sha256(const struct checkpoint *c, char hex[65], struct error *err)
{
    if (c->file_count == 1)
        return checkpoint_file_sha256(c, 0, hex, err);
    struct str lines;
    str_init(&lines);
    int rc = 0;
    for (size_t i = 0; i < c->file_count && !rc; i++) {
        rc = checkpoint_file_sha256(c, i, hex, err);
        str_addf(&lines, "%s  %s\n", hex, base_name(c->files[i].path));
    }
    if (!rc)
        rc = str_check(&lines, err);
    if (!rc)
        rc = sha256_bytes(str_text(&lines), lines.length, hex, err);
    str_release(&lines);
    return rc;
}
