// SPDX-License-Identifier: Apache-2.0
// Figures: APPNOTE.TXT 6.3.10, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.14 to 4.3.16 (its end), 4.5.3.
#include "io/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/bytes.h"

enum {
    LOCAL_BYTES = 30,
    ENTRY_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    COMMENT_MAX = 65535,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    FLAG_ENCRYPTED = 1,
    EXTRA_ZIP64 = 1,
    DEFLATE_MOST = 1032, // bytes that one byte can stand for: 258 bytes by a code of 2 bits
};

#define LOCAL_MAGIC   0x04034b50u
#define ENTRY_MAGIC   0x02014b50u
#define END_MAGIC     0x06054b50u
#define END64_MAGIC   0x06064b50u
#define LOCATOR_MAGIC 0x07064b50u

struct opening {
    const uint8_t *bytes;
    size_t size;
    const char *path;
    struct arena *arena;
    struct error *err;
};

static uint16_t take16(struct cursor *c)
{
    uint16_t v = 0;
    const uint8_t *p = cursor_take(c, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return v;
}

static struct cursor cursor_at(const struct opening *o, uint64_t offset)
{
    struct cursor c;
    bool inside = offset <= o->size;
    cursor_init(&c, inside ? o->bytes + offset : o->bytes, inside ? o->size - (size_t)offset : 0);
    return c;
}

bool zip_recognise(const void *bytes, size_t size)
{
    uint32_t magic = 0;
    if (size >= sizeof magic)
        memcpy(&magic, bytes, sizeof magic);
    return magic == LOCAL_MAGIC || magic == END_MAGIC;
}

// ---- where the directory is

struct directory {
    uint64_t entries, bytes, offset;
};

static int find_end(const struct opening *o, size_t *at)
{
    size_t least = o->size > END_BYTES + COMMENT_MAX ? o->size - END_BYTES - COMMENT_MAX : 0;
    for (size_t i = o->size >= END_BYTES ? o->size - END_BYTES + 1 : 0; i-- > least;) {
        struct cursor c = cursor_at(o, i);
        if (cursor_u32(&c) != END_MAGIC)
            continue;
        c = cursor_at(o, i + END_BYTES - 2);
        if (i + END_BYTES + take16(&c) == o->size) {
            *at = i;
            return 0;
        }
    }
    return error_set(o->err, ERR_INPUT, o->path,
                     "the zip archive has no directory at its end (%zu bytes): it is cut short, or something was added",
                     o->size);
}

static int read_end64(const struct opening *o, size_t end, struct directory *d)
{
    struct cursor c = cursor_at(o, end >= LOCATOR_BYTES ? end - LOCATOR_BYTES : o->size);
    if (cursor_u32(&c) != LOCATOR_MAGIC)
        return error_set(o->err, ERR_INPUT, o->path, "offset %zu: the end of the zip64 directory is not located", end);
    (void)cursor_u32(&c);
    uint64_t at = cursor_u64(&c);
    c = cursor_at(o, at);
    if (cursor_u32(&c) != END64_MAGIC || cursor_left(&c) < END64_BYTES - 4)
        return error_set(o->err, ERR_INPUT, o->path, "offset %llu: there is no end of a zip64 directory",
                         (unsigned long long)at);
    (void)cursor_take(&c, 20); // size, versions, disks
    (void)cursor_u64(&c);      // entries on this disk
    d->entries = cursor_u64(&c);
    d->bytes = cursor_u64(&c);
    d->offset = cursor_u64(&c);
    return 0;
}

static int find_directory(const struct opening *o, struct directory *d)
{
    size_t end = 0;
    int rc = find_end(o, &end);
    if (rc)
        return rc;
    struct cursor c = cursor_at(o, end + 4);
    unsigned disk = take16(&c), first = take16(&c);
    (void)take16(&c);
    d->entries = take16(&c);
    d->bytes = cursor_u32(&c);
    d->offset = cursor_u32(&c);
    if (d->entries == 0xffff || d->bytes == 0xffffffffu || d->offset == 0xffffffffu)
        rc = read_end64(o, end, d);
    else if (disk || first)
        rc = error_set(o->err, ERR_INPUT, o->path, "offset %zu: the zip archive is one of several parts", end);
    if (rc)
        return rc;
    if (d->offset > end || d->bytes > end - d->offset || d->entries > d->bytes / ENTRY_BYTES)
        return error_set(o->err, ERR_INPUT, o->path,
                         "offset %zu: the directory of %llu members would lie at %llu to %llu, which it cannot", end,
                         (unsigned long long)d->entries, (unsigned long long)d->offset,
                         (unsigned long long)(d->offset + d->bytes));
    return 0;
}

// ---- members

// What stands as 0xffffffff in the entry is in its zip64 field, in this order.
static bool read_zip64(struct cursor extra, uint64_t *const values[3])
{
    bool wanted = false;
    for (int i = 0; i < 3; i++)
        wanted |= *values[i] == 0xffffffffu;
    while (wanted && cursor_left(&extra) >= 4) {
        unsigned id = take16(&extra), n = take16(&extra);
        const uint8_t *field = cursor_take(&extra, n);
        if (!field || id != EXTRA_ZIP64)
            continue;
        struct cursor c;
        cursor_init(&c, field, n);
        for (int i = 0; i < 3; i++) {
            if (*values[i] == 0xffffffffu)
                *values[i] = cursor_u64(&c);
        }
        return !c.failed;
    }
    return !wanted;
}

// The member's own header, which says where the data begins.
static int read_local(const struct opening *o, struct zip_member *m, uint64_t at, unsigned method)
{
    struct cursor c = cursor_at(o, at);
    uint32_t magic = cursor_u32(&c);
    (void)take16(&c);
    unsigned flags = take16(&c), own_method = take16(&c);
    (void)cursor_take(&c, 16); // time, date, checksum, sizes: the directory's count
    unsigned name_bytes = take16(&c), extra_bytes = take16(&c);
    const uint8_t *name = cursor_take(&c, name_bytes);
    (void)cursor_take(&c, extra_bytes);
    if (magic != LOCAL_MAGIC || c.failed)
        return error_set(o->err, ERR_INPUT, o->path, "member \"%s\": there is no member at offset %llu", m->name,
                         (unsigned long long)at);
    if (flags & FLAG_ENCRYPTED)
        return error_set(o->err, ERR_INPUT, o->path, "member \"%s\" at offset %llu is encrypted", m->name,
                         (unsigned long long)at);
    if (own_method != method || name_bytes != strlen(m->name) || memcmp(name, m->name, name_bytes) != 0)
        return error_set(o->err, ERR_INPUT, o->path,
                         "member \"%s\": at offset %llu is another one than the directory says", m->name,
                         (unsigned long long)at);
    m->offset = (size_t)at + c.at;
    m->data = o->bytes + m->offset;
    if (m->packed > o->size - m->offset)
        return error_set(o->err, ERR_INPUT, o->path,
                         "member \"%s\": its %zu bytes at offset %zu do not end within the file of %zu", m->name,
                         m->packed, m->offset, o->size);
    return 0;
}

static int read_entry(const struct opening *o, struct cursor *c, size_t base, struct zip_member *m)
{
    size_t at = base + c->at;
    uint32_t magic = cursor_u32(c);
    (void)cursor_u32(c); // versions
    unsigned flags = take16(c), method = take16(c);
    (void)cursor_u32(c); // time and date
    m->crc = cursor_u32(c);
    uint64_t packed = cursor_u32(c), size = cursor_u32(c);
    unsigned name_bytes = take16(c), extra_bytes = take16(c), comment_bytes = take16(c);
    (void)cursor_take(c, 8); // disk, attributes
    uint64_t local = cursor_u32(c);
    const uint8_t *name = cursor_take(c, name_bytes), *extra = cursor_take(c, extra_bytes);
    (void)cursor_take(c, comment_bytes);
    struct cursor fields;
    cursor_init(&fields, extra, c->failed ? 0 : extra_bytes);
    if (magic != ENTRY_MAGIC || c->failed || !name_bytes || memchr(name, 0, name_bytes) ||
        !read_zip64(fields, (uint64_t *const[3]){&size, &packed, &local}))
        return error_set(o->err, ERR_INPUT, o->path, "offset %zu: the directory of the zip archive is damaged", at);
    m->name = arena_strndup(o->arena, (const char *)name, name_bytes, o->err);
    if (!m->name)
        return ERR_MEMORY;
    if (flags & FLAG_ENCRYPTED)
        return error_set(o->err, ERR_INPUT, o->path, "member \"%s\" (offset %zu) is encrypted", m->name, at);
    if (method != METHOD_STORED && method != METHOD_DEFLATED)
        return error_set(o->err, ERR_INPUT, o->path,
                         "member \"%s\" (offset %zu) is packed by method %u; only stored (0) and deflated (8) members "
                         "are read",
                         m->name, at, method);
    m->deflated = method == METHOD_DEFLATED;
    bool fits = packed <= o->size && (m->deflated ? size / DEFLATE_MOST <= packed : size == packed);
    if (!fits)
        return error_set(o->err, ERR_INPUT, o->path,
                         "member \"%s\" (offset %zu): %llu bytes cannot be %llu of a file of %zu", m->name, at,
                         (unsigned long long)size, (unsigned long long)packed, o->size);
    m->packed = (size_t)packed;
    m->size = (size_t)size;
    return read_local(o, m, local, method);
}

static int by_offset(const void *a, const void *b)
{
    const struct zip_member *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

// Members that share bytes: a small file that would unpack without end.
static int check_overlaps(const struct opening *o, const struct zip *z)
{
    const struct zip_member **order =
        (const struct zip_member **)arena_alloc(o->arena, z->count, sizeof(void *), o->err);
    if (!order)
        return ERR_MEMORY;
    for (size_t i = 0; i < z->count; i++)
        order[i] = &z->members[i];
    qsort(order, z->count, sizeof(void *), by_offset);
    for (size_t i = 1; i < z->count; i++) {
        if (order[i]->offset - order[i - 1]->offset < order[i - 1]->packed)
            return error_set(o->err, ERR_INPUT, o->path, "member \"%s\" at offset %zu overlaps \"%s\"", order[i]->name,
                             order[i]->offset, order[i - 1]->name);
    }
    return 0;
}

int zip_open(struct zip *z, const void *bytes, size_t size, const char *path, struct arena *arena, struct error *err)
{
    struct opening o = {bytes, size, path, arena, err};
    struct directory d;
    memset(z, 0, sizeof *z);
    int rc = find_directory(&o, &d);
    if (rc)
        return rc;
    z->members = arena_new(arena, struct zip_member, d.entries, err);
    if (!z->members)
        return ERR_MEMORY;
    struct cursor c;
    cursor_init(&c, o.bytes + d.offset, (size_t)d.bytes);
    for (; z->count < d.entries && !rc; z->count++)
        rc = read_entry(&o, &c, (size_t)d.offset, &z->members[z->count]);
    return rc ? rc : check_overlaps(&o, z);
}

// ---- data

// zlib counts in 32 bits.
static unsigned part(size_t n)
{
    return n < (1u << 30) ? (unsigned)n : 1u << 30;
}

static uint32_t crc_of(const void *bytes, size_t n)
{
    uLong crc = crc32(0, NULL, 0);
    for (size_t at = 0; at < n; at += part(n - at))
        crc = crc32(crc, (const Bytef *)bytes + at, part(n - at));
    return (uint32_t)crc;
}

// How many of the n bytes could be made; *ended: the data ends exactly there.
static size_t unpack(z_stream *s, const struct zip_member *m, uint8_t *dst, size_t n, bool *ended)
{
    size_t in = 0, out = 0;
    uint8_t spare = 0; // zlib says that the data ends only where there is room for more
    for (;;) {
        bool full = out == n;
        unsigned give = part(m->packed - in), room = full ? 1 : part(n - out);
        s->next_in = (Bytef *)(uintptr_t)(m->data + in);
        s->avail_in = give;
        s->next_out = full ? &spare : dst + out;
        s->avail_out = room;
        int status = inflate(s, Z_NO_FLUSH);
        in += give - s->avail_in;
        size_t made = room - s->avail_out;
        bool stuck = status != Z_OK || (!made && give == s->avail_in);
        *ended = status == Z_STREAM_END && in == m->packed && !(full && made);
        out += full ? 0 : made;
        if (stuck || (full && made))
            return out;
    }
}

// zlib's state is the scratch arena's, so that a jump out of a file guard leaves nothing behind.
static void *scratch_alloc(void *arena, unsigned n, unsigned size)
{
    return arena_alloc(arena, n, size, NULL);
}

static void scratch_free(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

int zip_read(const struct zip_member *m, void *dst, size_t n, const char *path, struct arena *scratch,
             struct error *err)
{
    bool ended = n == m->size;
    size_t made = n;
    if (!m->deflated && n)
        memcpy(dst, m->data, n);
    if (m->deflated) {
        z_stream s = {.zalloc = scratch_alloc, .zfree = scratch_free, .opaque = scratch};
        if (inflateInit2(&s, -15) != Z_OK)
            return error_set(err, ERR_MEMORY, path, "no memory to unpack \"%s\"", m->name);
        made = unpack(&s, m, dst, n, &ended);
        inflateEnd(&s);
    }
    if (made < n || (n == m->size && !ended))
        return error_set(err, ERR_INPUT, path,
                         "member \"%s\" at offset %zu: its %zu packed bytes do not unpack to the %zu that the "
                         "directory says",
                         m->name, m->offset, m->packed, m->size);
    if (n == m->size && crc_of(dst, n) != m->crc)
        return error_set(err, ERR_INPUT, path,
                         "member \"%s\" at offset %zu is damaged: its checksum is not what the directory says", m->name,
                         m->offset);
    return 0;
}
