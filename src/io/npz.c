// SPDX-License-Identifier: Apache-2.0
// Figures of the header: numpy/lib/_format_impl.py's description of versions 1.0 to 3.0.
#include "io/npz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/str.h"

#define MAGIC "\x93NUMPY"

enum {
    MAGIC_BYTES = 6,
    FIRST_BYTES = 12,   // magic, version and the longest form of the header's length
    MAX_HEADER = 65536, // numpy itself writes 118 bytes, and reads at most 10000
    MAX_ARRAYS = 1 << 13,
};

// The first n bytes of a member. A single file is one without name, packing and checksum.
static int read_bytes(const struct zip_member *m, void *dst, size_t n, const char *path, struct arena *scratch,
                      struct error *err)
{
    if (*m->name)
        return zip_read(m, dst, n, path, scratch, err);
    if (n)
        memcpy(dst, m->data, n);
    return 0;
}

// ---- the header: a Python dictionary of three entries

struct text {
    const char *at, *end;
};

static void skip_blanks(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n'))
        t->at++;
}

static bool take_char(struct text *t, char c)
{
    skip_blanks(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_word(struct text *t, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

// What stands between quotes, without escapes: keys and types have none.
static bool take_string(struct text *t, struct text *out)
{
    skip_blanks(t);
    char quote = t->at < t->end ? *t->at : 0;
    if (quote != '\'' && quote != '"')
        return false;
    out->at = ++t->at;
    while (t->at < t->end && *t->at != quote && *t->at != '\\')
        t->at++;
    if (t->at == t->end || *t->at != quote)
        return false;
    out->end = t->at++;
    return true;
}

static bool text_is(const struct text *t, const char *s)
{
    return (size_t)(t->end - t->at) == strlen(s) && memcmp(t->at, s, strlen(s)) == 0;
}

static bool take_number(struct text *t, int64_t *out)
{
    skip_blanks(t);
    const char *first = t->at;
    *out = 0;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *t->at - '0', out))
            return false;
    }
    bool any = t->at > first;
    if (any && t->at < t->end && *t->at == 'L') // as Python 2 wrote them
        t->at++;
    return any;
}

// "(3, 4)", "(3,)", "()".
static bool take_shape(struct text *t, struct npz_array *a)
{
    if (!take_char(t, '('))
        return false;
    for (a->rank = 0; !take_char(t, ')'); a->rank++) {
        if (a->rank == NPZ_MAX_RANK || !take_number(t, &a->dims[a->rank]))
            return false;
        if (!take_char(t, ',')) {
            bool tuple = a->rank > 0; // "(3)" is a number
            a->rank++;
            return tuple && take_char(t, ')');
        }
    }
    return true;
}

// The order mark: '<' and '|' ('=' would be that of whoever wrote it); a type of one byte has none to keep.
static enum dtype dtype_of(const struct text *t, bool *big)
{
    static const struct {
        const char *code;
        enum dtype type;
    } types[] = {{"b1", DT_PRED}, {"i1", DT_S8},    {"i2", DT_S16},  {"i4", DT_S32},   {"i8", DT_S64}, {"u1", DT_U8},
                 {"u2", DT_U16},  {"u4", DT_U32},   {"u8", DT_U64},  {"f2", DT_F16},   {"f4", DT_F32}, {"f8", DT_F64},
                 {"c8", DT_C64},  {"c16", DT_C128}, {"V2", DT_BF16}, {"f1", DT_F8E5M2}};
    struct text code = {t->at + 1, t->end};
    *big = false;
    if (t->at == t->end || !strchr("<>|", *t->at) || !*t->at)
        return DT_INVALID;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!text_is(&code, types[i].code))
            continue;
        *big = *t->at == '>' && dtype_bits(types[i].type) > 8;
        return types[i].type;
    }
    return DT_INVALID;
}

// Where things stand in messages: the file, or the member in it.
struct place {
    const char *path;
    const struct zip_member *member;
    struct error *err;
};

static int damaged(const struct place *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int damaged(const struct place *p, const char *fmt, ...)
{
    char why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (!*p->member->name)
        return error_set(p->err, ERR_INPUT, p->path, "%s", why);
    return error_set(p->err, ERR_INPUT, p->path, "member \"%s\" at offset %zu: %s", p->member->name, p->member->offset,
                     why);
}

static int read_descr(const struct place *p, struct text *t, struct npz_array *a)
{
    struct text descr = {NULL, NULL};
    bool big;
    skip_blanks(t);
    if (t->at < t->end && *t->at == '[')
        return damaged(p, "its elements are records; save each field as an array");
    if (!take_string(t, &descr))
        return damaged(p, "the type in its header cannot be read");
    int n = descr.end - descr.at > 40 ? 40 : (int)(descr.end - descr.at);
    a->dtype = dtype_of(&descr, &big);
    if (big)
        return damaged(p, "its elements ('%.*s') are big-endian; save a.astype(a.dtype.newbyteorder('<'))", n,
                       descr.at);
    if (a->dtype)
        return 0;
    if (n == 3 && memcmp(descr.at + 1, "V1", 2) == 0)
        return damaged(p,
                       "its type '%.*s' may be any 8-bit type of ml_dtypes: numpy does not write down which; save "
                       "it as bfloat16 or float32",
                       n, descr.at);
    return damaged(p, "its type '%.*s' is not a number or truth value that can be read", n, descr.at);
}

static int read_dictionary(const struct place *p, struct text t, struct npz_array *a)
{
    bool seen[3] = {false, false, false};
    if (!take_char(&t, '{'))
        return damaged(p, "its header is no dictionary");
    while (!take_char(&t, '}')) {
        struct text key;
        int rc = 0;
        if (!take_string(&t, &key) || !take_char(&t, ':'))
            return damaged(p, "its header is no dictionary");
        int which = text_is(&key, "descr") ? 0 : text_is(&key, "fortran_order") ? 1 : text_is(&key, "shape") ? 2 : -1;
        if (which < 0 || seen[which])
            return damaged(p, "its header has the key '%.*s' that it should not have, or twice",
                           key.end - key.at > 40 ? 40 : (int)(key.end - key.at), key.at);
        seen[which] = true;
        if (which == 0) {
            rc = read_descr(p, &t, a);
        } else if (which == 1) {
            a->fortran = take_word(&t, "True");
            if (!a->fortran && !take_word(&t, "False"))
                rc = damaged(p, "fortran_order in its header is neither True nor False");
        } else if (!take_shape(&t, a)) {
            rc = damaged(p, "the shape in its header is none, or has more than %d dimensions", NPZ_MAX_RANK);
        }
        if (rc)
            return rc;
        if (!take_char(&t, ',')) {
            if (!take_char(&t, '}'))
                return damaged(p, "its header is no dictionary");
            break;
        }
    }
    skip_blanks(&t);
    if (t.at < t.end || !seen[0] || !seen[1] || !seen[2])
        return damaged(p, "its header lacks descr, fortran_order or shape, or has more");
    return 0;
}

static int read_header(const struct place *p, struct npz_array *a, struct arena *scratch)
{
    const struct zip_member *m = p->member;
    uint8_t first[FIRST_BYTES];
    if (m->size < FIRST_BYTES)
        return damaged(p, "%zu bytes are too few for an array", m->size);
    int rc = read_bytes(m, first, FIRST_BYTES, p->path, scratch, p->err);
    if (rc)
        return rc;
    if (memcmp(first, MAGIC, MAGIC_BYTES) != 0)
        return damaged(p, "it does not begin as an array of numpy does");
    unsigned version = first[6];
    if (version < 1 || version > 3 || first[7])
        return damaged(p, "it is of version %u.%u of the format; 1.0 to 3.0 are known", version, first[7]);
    size_t begin = version == 1 ? 10 : 12;
    size_t n = (size_t)first[8] | (size_t)first[9] << 8;
    if (version > 1)
        n |= (size_t)first[10] << 16 | (size_t)first[11] << 24;
    if (n > MAX_HEADER || n > m->size - begin)
        return damaged(p, "its header would be %zu bytes of %zu", n, m->size);
    uint8_t *header = arena_new(scratch, uint8_t, begin + n, p->err);
    if (!header)
        return ERR_MEMORY;
    rc = read_bytes(m, header, begin + n, p->path, scratch, p->err);
    if (rc)
        return rc;
    a->header_bytes = begin + n;
    const char *text = (const char *)header + begin;
    return read_dictionary(p, (struct text){text, text + n}, a);
}

static int read_array(struct npz *z, struct npz_array *a, struct error *err)
{
    struct place p = {z->map.path, &a->member, err};
    struct arena scratch;
    arena_init(&scratch);
    int rc = read_header(&p, a, &scratch);
    arena_release(&scratch);
    if (rc)
        return rc;
    if (!size_product(a->dims, a->rank, &a->elements) || !dtype_bytes(a->dtype, a->elements, &a->bytes))
        return damaged(&p, "its dimensions multiply to more than memory can hold");
    if (a->bytes != a->member.size - a->header_bytes)
        return damaged(&p, "its shape asks for %zu bytes of data, but there are %zu", a->bytes,
                       a->member.size - a->header_bytes);
    return 0;
}

// ---- opening

static const char *array_name(struct npz *z, const char *member, struct error *err)
{
    size_t n = strlen(member);
    if (str_ends_with(member, ".npy"))
        n -= strlen(".npy");
    return arena_strndup(&z->arena, member, n, err);
}

static int read_archive(struct npz *z, struct error *err)
{
    struct zip zip;
    int rc = zip_open(&zip, z->map.data, z->map.size, z->map.path, &z->arena, err);
    if (!rc && zip.count > MAX_ARRAYS)
        rc = error_set(err, ERR_INPUT, z->map.path, "holds %zu arrays; at most %d are read", zip.count, MAX_ARRAYS);
    z->arrays = rc ? NULL : arena_new(&z->arena, struct npz_array, zip.count, err);
    if (rc || !z->arrays)
        return rc ? rc : ERR_MEMORY;
    for (; z->count < zip.count; z->count++) {
        struct npz_array *a = &z->arrays[z->count];
        a->member = zip.members[z->count];
        a->name = array_name(z, a->member.name, err);
        if (!a->name)
            return ERR_MEMORY;
        if (npz_find(z, a->name))
            return error_set(err, ERR_INPUT, z->map.path, "member \"%s\" at offset %zu: there is another array '%s'",
                             a->member.name, a->member.offset, a->name);
        rc = read_array(z, a, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_single(struct npz *z, struct error *err)
{
    z->arrays = arena_new(&z->arena, struct npz_array, 1, err);
    if (!z->arrays)
        return ERR_MEMORY;
    struct npz_array *a = z->arrays;
    a->name = "";
    a->member = (struct zip_member){.name = "", .data = z->map.data, .packed = z->map.size, .size = z->map.size};
    z->count = 1;
    return read_array(z, a, err);
}

static int read_all(struct npz *z, struct error *err)
{
    if (zip_recognise(z->map.data, z->map.size))
        return read_archive(z, err);
    if (z->map.size >= MAGIC_BYTES && memcmp(z->map.data, MAGIC, MAGIC_BYTES) == 0)
        return read_single(z, err);
    return error_set(err, ERR_INPUT, z->map.path,
                     "is no archive of numpy (np.savez) and no single array (np.save): it begins like neither");
}

int npz_open(struct npz *z, const char *path, struct error *err)
{
    struct file_guard guard;
    memset(z, 0, sizeof *z);
    arena_init(&z->arena);
    int rc = file_map_open(&z->map, path, err);
    if (rc)
        return rc;
    if (FILE_GUARD(&guard, &z->map)) {
        rc = file_guard_error(&guard, err);
    } else {
        rc = read_all(z, err);
        file_guard_end(&guard);
    }
    if (rc)
        npz_close(z);
    return rc;
}

int npz_open_memory(struct npz *z, const void *bytes, size_t size, const char *name, struct error *err)
{
    memset(z, 0, sizeof *z);
    arena_init(&z->arena);
    z->borrowed = true;
    z->map = (struct file_map){.data = bytes, .size = size, .fd = -1};
    snprintf(z->map.path, sizeof z->map.path, "%s", name);
    int rc = read_all(z, err);
    if (rc)
        npz_close(z);
    return rc;
}

void npz_close(struct npz *z)
{
    if (!z->borrowed)
        file_map_close(&z->map);
    arena_release(&z->arena);
    z->arrays = NULL;
    z->count = 0;
}

const struct npz_array *npz_find(const struct npz *z, const char *name)
{
    for (size_t i = 0; i < z->count; i++) {
        if (strcmp(z->arrays[i].name, name) == 0)
            return &z->arrays[i];
    }
    return NULL;
}

// ---- data

// The elements of `from`, whose first dimension is the fastest, in row-major order.
static void transpose(const struct npz_array *a, const uint8_t *from, uint8_t *to)
{
    size_t size = a->bytes / a->elements, stride[NPZ_MAX_RANK], index[NPZ_MAX_RANK] = {0}, at = 0;
    for (int d = 0; d < a->rank; d++)
        stride[d] = d ? stride[d - 1] * (size_t)a->dims[d - 1] : 1;
    for (size_t i = 0; i < a->elements; i++) {
        memcpy(to + i * size, from + at * size, size);
        for (int d = a->rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < (size_t)a->dims[d])
                break;
            at -= stride[d] * index[d];
            index[d] = 0;
        }
    }
}

static int read_under_guard(const struct npz *z, const struct npz_array *a, uint8_t *whole, struct arena *scratch,
                            struct error *err)
{
    struct file_guard guard;
    if (z->borrowed)
        return read_bytes(&a->member, whole, a->member.size, z->map.path, scratch, err);
    if (FILE_GUARD(&guard, &z->map))
        return file_guard_error(&guard, err);
    int rc = read_bytes(&a->member, whole, a->member.size, z->map.path, scratch, err);
    file_guard_end(&guard);
    return rc;
}

int npz_read(const struct npz *z, const struct npz_array *a, void *dst, struct error *err)
{
    struct arena scratch;
    arena_init(&scratch);
    uint8_t *whole = malloc(a->member.size);
    int rc =
        whole ? 0 : error_set(err, ERR_MEMORY, z->map.path, "no memory for \"%s\" of %zu bytes", a->name, a->bytes);
    if (!rc)
        rc = read_under_guard(z, a, whole, &scratch, err);
    if (!rc && a->fortran && a->rank > 1 && a->elements)
        transpose(a, whole + a->header_bytes, dst);
    else if (!rc && a->bytes)
        memcpy(dst, whole + a->header_bytes, a->bytes);
    free(whole);
    arena_release(&scratch);
    return rc;
}
