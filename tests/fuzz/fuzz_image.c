// SPDX-License-Identifier: Apache-2.0
// A PNG or a JPEG: read, made a reference, written and read again.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void written_again(const struct image *m, const struct image_source *source)
{
    struct str out;
    struct error err = {0};
    struct image back;
    const struct image_text text = {"parameters", source->format};
    str_init(&out);
    must(image_encode_png(m, &text, 1, &out, &err) == 0);
    must(image_decode(&back, out.text, out.length, "again", NULL, &err) == 0);
    must(back.width == m->width && back.height == m->height);
    must(memcmp(back.rgb, m->rgb, (size_t)m->width * m->height * 3) == 0);
    image_release(&back);
    str_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image m, reference;
    struct image_source source;
    struct error err = {0};
    int rc = image_decode(&m, data, size, "fuzz", &source, &err);
    if (rc) {
        must(err.code == rc && err.message[0] && !m.rgb);
        return 0;
    }
    must(m.width > 0 && m.height > 0 && source.orientation >= 1 && source.orientation <= 8);
    if ((size_t)m.width * m.height < 65536) {
        written_again(&m, &source);
        if (image_reference(&reference, &m, 8192, "fuzz", &err) == 0)
            must(reference.width % 16 == 0 && reference.height % 16 == 0 && reference.width * reference.height <= 8192);
        image_release(&reference);
    }
    image_release(&m);
    return 0;
}
