// SPDX-License-Identifier: Apache-2.0
#include "io/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define DEFAULT_ALIGNMENT 32
#define MAX_NESTING       4
#define MAX_KEY_BYTES     65535

static const struct {
    const char *name;
    unsigned char bytes; // of one; 0: it varies
} value_types[] = {{"u8", 1},   {"s8", 1},     {"u16", 2},   {"s16", 2}, {"u32", 4}, {"s32", 4}, {"f32", 4},
                   {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"s64", 8}, {"f64", 8}};
#define VALUE_TYPES (sizeof value_types / sizeof *value_types)

const char *gguf_type_name(enum gguf_type t)
{
    return (unsigned)t < VALUE_TYPES ? value_types[t].name : "unknown";
}

bool gguf_is(const void *bytes, size_t size)
{
    return size >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

struct parse {
    struct arena *arena;
    struct cursor at;
    const char *path;
    struct error *err;
};

static int cut_short(const struct parse *p, const char *what)
{
    return error_set(p->err, ERR_INPUT, p->path, "is cut short or damaged: %s at byte %zu goes beyond its %zu bytes",
                     what, p->at.at, p->at.size);
}

static void read_scalar(struct cursor *c, enum gguf_type type, struct gguf_value *v)
{
    const uint8_t *at = cursor_take(c, value_types[type].bytes);
    uint64_t raw = 0;
    float f;
    if (!at)
        return;
    memcpy(&raw, at, value_types[type].bytes);
    switch (type) {
    case GGUF_S8:
        v->s = (int64_t)raw - (raw & 0x80 ? 0x100 : 0);
        break;
    case GGUF_S16:
        v->s = (int16_t)raw;
        break;
    case GGUF_S32:
        v->s = (int32_t)raw;
        break;
    case GGUF_F32:
        memcpy(&f, &raw, sizeof f);
        v->f = (double)f;
        break;
    case GGUF_F64:
        memcpy(&v->f, &raw, sizeof v->f);
        break;
    default: // unsigned, bool, and s64, whose bits are its value
        v->u = raw;
    }
}

static void read_string(struct cursor *c, struct gguf_value *v)
{
    uint64_t n = cursor_u64(c);
    v->bytes = (size_t)n;
    v->data = cursor_take(c, v->bytes);
}

static const char *bad_bool = "a bool that is neither 0 nor 1";

// One value of a known type; what is wrong comes back as a phrase, NULL when nothing is. A read past the end leaves the
// cursor failed.
static const char *read_value(struct cursor *c, enum gguf_type type, int depth, struct gguf_value *v)
{
    memset(v, 0, sizeof *v);
    v->type = type;
    if (type == GGUF_STRING) {
        read_string(c, v);
        return NULL;
    }
    if (type != GGUF_ARRAY) {
        read_scalar(c, type, v);
        return type == GGUF_BOOL && v->u > 1 ? bad_bool : NULL;
    }
    uint32_t element = cursor_u32(c);
    v->count = cursor_u64(c);
    if (c->failed)
        return NULL;
    if (element >= VALUE_TYPES)
        return "an array of values of an unknown type";
    if (depth == MAX_NESTING)
        return "arrays nested too deep";
    v->element = (enum gguf_type)element;
    size_t each = value_types[element].bytes, from = c->at;
    v->data = c->data + c->at;
    if (each && element != GGUF_BOOL) {
        size_t bytes;
        if (!size_mul((size_t)v->count, each, &bytes))
            bytes = SIZE_MAX;
        cursor_take(c, bytes);
    } else {
        const char *bad = NULL;
        struct gguf_value ignored;
        for (uint64_t i = 0; i < v->count && !c->failed && !bad; i++)
            bad = read_value(c, v->element, depth + 1, &ignored);
        if (bad)
            return bad;
    }
    v->bytes = c->at - from;
    return NULL;
}

// A key or a name: UTF-8, no NUL. `what` is for messages.
static int read_name(struct parse *p, const char *what, const char **out)
{
    struct gguf_value v = {0};
    size_t at = p->at.at, bad;
    read_string(&p->at, &v);
    if (p->at.failed)
        return cut_short(p, what);
    if (v.bytes == 0 || v.bytes > MAX_KEY_BYTES)
        return error_set(p->err, ERR_INPUT, p->path, "%s at byte %zu has %zu bytes: 1 to %d are allowed", what, at,
                         v.bytes, MAX_KEY_BYTES);
    if (!utf8_valid((const char *)v.data, v.bytes, &bad) || memchr(v.data, 0, v.bytes))
        return error_set(p->err, ERR_INPUT, p->path, "%s at byte %zu is not UTF-8 text", what, at);
    char *copy = arena_strndup(p->arena, (const char *)v.data, v.bytes, p->err);
    *out = copy;
    return copy ? 0 : ERR_MEMORY;
}

static int parse_entry(struct parse *p, struct gguf_entry *e)
{
    int rc = read_name(p, "a metadata key", &e->key);
    if (rc)
        return rc;
    uint32_t type = cursor_u32(&p->at);
    if (!p->at.failed && type >= VALUE_TYPES)
        return error_set(p->err, ERR_INPUT, p->path, "metadata \"%s\" has a value of an unknown type, %u", e->key,
                         type);
    const char *bad = p->at.failed ? NULL : read_value(&p->at, (enum gguf_type)type, 0, &e->value);
    if (p->at.failed)
        return cut_short(p, "the metadata");
    if (bad)
        return error_set(p->err, ERR_INPUT, p->path, "metadata \"%s\" holds %s", e->key, bad);
    return 0;
}

// A description as it lies in the file; the place of its data is checked when all are known.
struct info {
    struct tensor_view view;
    uint64_t begin; // from the beginning of the data
};

static int parse_shape(struct parse *p, struct tensor_view *t)
{
    uint32_t rank = cursor_u32(&p->at);
    if (rank > CHECKPOINT_MAX_RANK)
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\" has rank %u: at most %d is supported", t->name,
                         rank, CHECKPOINT_MAX_RANK);
    t->rank = (int)rank;
    // The fastest axis comes first in the file and last in a view.
    for (int i = t->rank; i-- > 0;)
        t->dims[i] = (int64_t)cursor_u64(&p->at);
    if (!size_product(t->dims, t->rank, &t->elements))
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": its shape has more elements than memory can hold",
                         t->name);
    return 0;
}

static int parse_type(struct parse *p, struct tensor_view *t)
{
    uint32_t id = cursor_u32(&p->at);
    if (p->at.failed)
        return cut_short(p, "the description of a tensor");
    const struct ggml_type *type = ggml_type(id);
    if (!type)
        return error_set(p->err, ERR_INPUT, p->path,
                         "tensor \"%s\" has element type %u, which this version does not know", t->name, id);
    if (type->refusal)
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\" has element type %s, which %s", t->name, type->name,
                         type->refusal);
    int64_t row = t->rank ? t->dims[t->rank - 1] : 1;
    if (row % (int64_t)type->elements)
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": rows of %lld elements are no whole blocks of %s",
                         t->name, (long long)row, type->name);
    t->dtype = type->dtype;
    t->blocks = type->dtype == DT_INVALID ? type : NULL;
    if (!size_mul(t->elements / type->elements, type->bytes, &t->bytes))
        return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\": its shape has more elements than memory can hold",
                         t->name);
    return 0;
}

static int parse_info(struct parse *p, struct info *out)
{
    int rc = read_name(p, "the name of a tensor", &out->view.name);
    if (!rc)
        rc = parse_shape(p, &out->view);
    if (!rc)
        rc = parse_type(p, &out->view);
    out->begin = cursor_u64(&p->at);
    return rc || !p->at.failed ? rc : cut_short(p, "the description of a tensor");
}

static int by_begin(const void *a, const void *b)
{
    const struct info *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->view.bytes != y->view.bytes ? (x->view.bytes < y->view.bytes ? -1 : 1)
                                          : strcmp(x->view.name, y->view.name);
}

static int check_places(const struct parse *p, struct gguf *g, struct info *infos)
{
    qsort(infos, g->count, sizeof *infos, by_begin);
    size_t data_bytes = p->at.size - g->data_offset, end = 0;
    for (size_t i = 0; i < g->count; i++) {
        struct tensor_view *t = &infos[i].view;
        uint64_t begin = infos[i].begin;
        if (begin % g->alignment)
            return error_set(p->err, ERR_INPUT, p->path, "tensor \"%s\" does not lie at a multiple of %zu", t->name,
                             g->alignment);
        if (begin > data_bytes || t->bytes > data_bytes - begin)
            return error_set(p->err, ERR_INPUT, p->path,
                             "tensor \"%s\" needs %zu bytes from %llu of the data on, which has %zu: the file is cut "
                             "short or its header damaged",
                             t->name, t->bytes, (unsigned long long)begin, data_bytes);
        if (begin < end)
            return error_set(p->err, ERR_INPUT, p->path, "tensors \"%s\" and \"%s\" overlap", infos[i - 1].view.name,
                             t->name);
        end = (size_t)begin + t->bytes;
        t->offset = g->data_offset + (size_t)begin;
        t->data = p->at.data + t->offset;
        g->tensors[i] = *t;
    }
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_keys(const struct parse *p, const struct gguf *g)
{
    const char **keys = arena_new(p->arena, const char *, g->entry_count, p->err);
    if (!keys)
        return ERR_MEMORY;
    for (size_t i = 0; i < g->entry_count; i++)
        keys[i] = g->entries[i].key;
    qsort(keys, g->entry_count, sizeof *keys, by_key);
    for (size_t i = 1; i < g->entry_count; i++) {
        if (strcmp(keys[i - 1], keys[i]) == 0)
            return error_set(p->err, ERR_INPUT, p->path, "metadata \"%s\" is there twice", keys[i]);
    }
    return 0;
}

static int find_alignment(const struct parse *p, struct gguf *g)
{
    const struct gguf_value *v = gguf_find(g, "general.alignment");
    g->alignment = DEFAULT_ALIGNMENT;
    if (!v)
        return 0;
    if (v->type != GGUF_U32 || v->u == 0 || (v->u & (v->u - 1)))
        return error_set(p->err, ERR_INPUT, p->path, "metadata \"general.alignment\" must be a power of two, as u32");
    g->alignment = (size_t)v->u;
    return 0;
}

static int parse_head(struct parse *p, struct gguf *g, uint64_t *tensors, uint64_t *entries)
{
    if (!gguf_is(p->at.data, p->at.size))
        return error_set(p->err, ERR_INPUT, p->path, "is not a GGUF file: it does not begin with the letters GGUF");
    cursor_take(&p->at, 4);
    g->version = cursor_u32(&p->at);
    if (p->at.failed)
        return cut_short(p, "the version");
    if (g->version == 1)
        return error_set(
            p->err, ERR_INPUT, p->path,
            "is of GGUF version 1, which is not read: convert the model again (versions 2 and 3 are read)");
    if (g->version && (g->version & 0xffff) == 0)
        return error_set(p->err, ERR_INPUT, p->path,
                         "is a big-endian GGUF file, which is not read: convert it to little-endian first");
    if (g->version != 2 && g->version != 3)
        return error_set(p->err, ERR_INPUT, p->path, "is of GGUF version %u; versions 2 and 3 are read", g->version);
    *tensors = cursor_u64(&p->at);
    *entries = cursor_u64(&p->at);
    if (p->at.failed)
        return cut_short(p, "the header");
    // The shortest entry has 8 + 1 + 4 + 1 bytes, the shortest description 8 + 1 + 4 + 4 + 8.
    if (*entries > cursor_left(&p->at) / 14 || *tensors > cursor_left(&p->at) / 25)
        return error_set(p->err, ERR_INPUT, p->path,
                         "is cut short or damaged: %llu tensors and %llu metadata entries do not fit in %zu bytes",
                         (unsigned long long)*tensors, (unsigned long long)*entries, p->at.size);
    return 0;
}

int gguf_parse(struct arena *a, const uint8_t *bytes, size_t size, const char *path, struct gguf *out,
               struct error *err)
{
    struct parse p = {.arena = a, .path = path, .err = err};
    uint64_t tensors = 0, entries = 0;
    memset(out, 0, sizeof *out);
    cursor_init(&p.at, bytes, size);
    int rc = parse_head(&p, out, &tensors, &entries);
    if (rc)
        return rc;
    struct info *infos = arena_new(a, struct info, tensors, err);
    out->tensors = arena_new(a, struct tensor_view, tensors, err);
    out->entries = arena_new(a, struct gguf_entry, entries, err);
    if (!infos || !out->tensors || !out->entries)
        return ERR_MEMORY;
    for (; out->entry_count < entries && !rc; out->entry_count++)
        rc = parse_entry(&p, &out->entries[out->entry_count]);
    if (!rc)
        rc = check_keys(&p, out);
    if (!rc)
        rc = find_alignment(&p, out);
    for (; out->count < tensors && !rc; out->count++)
        rc = parse_info(&p, &infos[out->count]);
    if (rc)
        return rc;
    // A file without tensors may end where its header ends.
    out->data_offset = size_align(p.at.at, out->alignment);
    if (out->data_offset > size) {
        if (tensors)
            return cut_short(&p, "the data");
        out->data_offset = size;
    }
    return check_places(&p, out, infos);
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    for (size_t i = 0; i < g->entry_count; i++) {
        if (strcmp(g->entries[i].key, key) == 0)
            return &g->entries[i].value;
    }
    return NULL;
}

void gguf_array_begin(struct gguf_array *it, const struct gguf_value *array)
{
    cursor_init(&it->at, array->data, array->bytes);
    it->element = array->element;
    it->left = array->count;
}

bool gguf_array_next(struct gguf_array *it, struct gguf_value *out)
{
    if (!it->left)
        return false;
    it->left--;
    // The file may have changed since it was parsed: a read past the end ends the array.
    return !read_value(&it->at, it->element, 1, out) && !it->at.failed;
}
