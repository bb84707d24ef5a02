// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "io/image_part.h"

// A field of `size` bytes at `at` of a TIFF structure; 0 past the end.
static uint32_t field(const uint8_t *tiff, size_t n, size_t at, unsigned size, bool big)
{
    uint32_t v = 0;
    if (at > n || n - at < size)
        return 0;
    for (unsigned i = 0; i < size; i++)
        v |= (uint32_t)tiff[at + i] << 8 * (big ? size - 1 - i : i);
    return v;
}

int image_exif_orientation(const uint8_t *tiff, size_t n)
{
    enum { TAG = 0x0112, SHORT = 3, LONG = 4, ENTRY = 12 };
    if (n < 8 || (memcmp(tiff, "II*\0", 4) != 0 && memcmp(tiff, "MM\0*", 4) != 0))
        return 1;
    bool big = tiff[0] == 'M';
    size_t at = field(tiff, n, 4, 4, big);
    uint32_t count = field(tiff, n, at, 2, big);
    at += 2;
    for (uint32_t i = 0; i < count && at < n; i++, at += ENTRY) {
        uint32_t type = field(tiff, n, at + 2, 2, big);
        if (field(tiff, n, at, 2, big) != TAG || (type != SHORT && type != LONG))
            continue;
        uint32_t v = field(tiff, n, at + 8, type == SHORT ? 2 : 4, big);
        return v >= 1 && v <= 8 ? (int)v : 1;
    }
    return 1;
}

int image_decode(struct image *m, const void *bytes, size_t n, const char *name, struct image_source *source,
                 struct error *err)
{
    struct image_source unused = {0};
    const uint8_t *at = bytes;
    source = source ? source : &unused;
    *m = (struct image){0};
    *source = (struct image_source){.orientation = 1};
    int rc;
    if (n >= 8 && memcmp(at, "\x89PNG\r\n\x1A\n", 8) == 0)
        rc = image_decode_png(m, at, n, name, source, err);
    else if (n >= 3 && memcmp(at, "\xFF\xD8\xFF", 3) == 0)
        rc = image_decode_jpeg(m, at, n, name, source, err);
    else
        rc = error_set(
            err, ERR_INPUT, name, "is neither a PNG nor a JPEG image%s",
            n >= 12 && memcmp(at, "RIFF", 4) == 0 && memcmp(at + 8, "WEBP", 4) == 0 ? " (it is WebP): convert it" : "");
    rc = rc ? rc : image_turn(m, source->orientation, err);
    if (rc)
        image_release(m);
    return rc;
}

int image_read(struct image *m, const char *path, struct image_source *source, struct error *err)
{
    // Read, not mapped: the decoders leave by longjmp, and nobody may cut the file under them.
    const size_t most = (size_t)1 << 30;
    struct str text;
    str_init(&text);
    *m = (struct image){0};
    int rc = file_read(&text, path, most, err);
    rc = rc ? rc : image_decode(m, str_text(&text), text.length, path, source, err);
    str_release(&text);
    return rc;
}
