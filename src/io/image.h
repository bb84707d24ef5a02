// SPDX-License-Identifier: Apache-2.0
// Images: PNG and JPEG read into 8-bit RGB, PNG written, reference images made ready, and the ways between numbers and
// levels. What the reference pipelines do (diffusers with Pillow, BFL) is done here, to the level.
#ifndef IO_IMAGE_H
#define IO_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define IMAGE_MAX_PIXELS (UINT32_C(1) << 27) // 134 million, 403 MB of memory: what is read, written or resized
#define IMAGE_MAX_SIDE   65535u

// Red, green, blue of each pixel, rows from the top, no gaps between them.
struct image {
    uint32_t width, height;
    uint8_t *rgb; // [height][width][3], from malloc
};

void image_release(struct image *m); // also of one that is all zeros
// An image of that size, all black. ERR_USAGE beyond the limits, ERR_MEMORY.
int image_new(struct image *m, uint32_t width, uint32_t height, struct error *err);

// What a file had that an 8-bit RGB image has not, for a word about it.
struct image_source {
    const char *format;  // "PNG" or "JPEG"
    int bits;            // of a sample, in the file: 1 to 16
    int channels;        // in the file: 1 grey, 2 grey and alpha, 3, 4 (alpha, or CMYK in a JPEG)
    bool palette;        // PNG with a palette
    bool alpha;          // it had transparency, which was dropped: the colours behind it are what is left
    bool cmyk;           // JPEG in CMYK, converted without a colour profile
    uint8_t orientation; // of its Exif data, 1 to 8; the image was turned and mirrored by it and is upright
};

// Reads a PNG or a JPEG file, known by how it begins. As Pillow's open, exif_transpose and convert("RGB") do: Exif
// orientation is applied, transparency dropped, grey and palettes are spread to RGB, samples of 1, 2 and 4 bits are
// scaled to 8, of 16 bits the high byte is taken; gamma and colour profiles are not looked at. `source` may be NULL.
// ERR_INPUT for other formats, damaged or cut files, images beyond the limits; these are checked before memory is asked
// for. A JPEG of more than 500 scans is refused. After an error nothing has to be released.
int image_read(struct image *m, const char *path, struct image_source *source, struct error *err);
// The same from n bytes of memory; `name` is for messages.
int image_decode(struct image *m, const void *bytes, size_t n, const char *name, struct image_source *source,
                 struct error *err);

// A text that goes into the file, where image viewers and `exiftool` find it. The key has 1 to 79 printable Latin-1
// characters of which only ASCII is taken here; the value is UTF-8 (written as tEXt where it is ASCII, else as iTXt).
struct image_text {
    const char *key, *value;
};

// Writes a PNG of 8 bits: whole under `path` or not at all (a temporary file beside it, synced, then renamed over it).
// The same image and texts give the same bytes. ERR_USAGE for a key that cannot be, ERR_IO when the disk is full.
int image_write_png(const struct image *m, const char *path, const struct image_text *texts, size_t n_texts,
                    struct error *err);
// The bytes of that file, appended.
int image_encode_png(const struct image *m, const struct image_text *texts, size_t n_texts, struct str *out,
                     struct error *err);

// ---- numbers and levels. Numbers are those of the autoencoder, [-1, 1].

// x = level / 255 * 2 - 1, in f32 as the references compute it (diffusers: level / 255 first, then 2 x - 1).
// out [height][width][3].
void image_to_numbers(const struct image *m, float *out);

enum image_levels {
    IMAGE_ROUND,      // diffusers: 255 clamp(x / 2 + 1/2, 0, 1), rounded, ties to even
    IMAGE_ROUND_BF16, // the same of an autoencoder in bf16: x and x / 2 + 1/2 are rounded to bf16
    IMAGE_TRUNCATE,   // BFL: 127.5 (clamp(x, -1, 1) + 1), cut off
};
// numbers [height][width][3] into m->rgb; m has its size. NaN becomes level 0.
void image_from_numbers(struct image *m, const float *numbers, enum image_levels rule);

// ---- reference images

#define IMAGE_REFERENCE_MULTIPLE 16u
#define IMAGE_REFERENCE_MIN_SIDE 64u
#define IMAGE_REFERENCE_ASPECT   8u
// At most so many pixels: diffusers always, BFL for several references; and BFL for a single one.
#define IMAGE_REFERENCE_PIXELS        (UINT32_C(1024) * 1024)
#define IMAGE_REFERENCE_SINGLE_PIXELS (UINT32_C(2024) * 2024)

// Pillow's Image.resize((width, height), LANCZOS) on 8 bits, level for level: rows first. (Pillow 13 takes columns
// first where one side shrinks much more than the other; for sides that shrink alike, as references do, it does not.)
// ERR_USAGE beyond the limits.
int image_resize(struct image *out, const struct image *m, uint32_t width, uint32_t height, struct error *err);
// The part of `width` by `height` that begins at (x, y); ERR_USAGE when it does not lie within.
int image_crop(struct image *out, const struct image *m, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
               struct error *err);

// What FLUX.2 takes as a reference: an image of more than max_pixels is scaled down to that area (both sides cut to
// whole pixels), then its middle is cropped to multiples of 16. `name` is for messages. ERR_INPUT when a side has fewer
// than 64 pixels or one is more than 8 times the other.
int image_reference(struct image *out, const struct image *m, uint32_t max_pixels, const char *name, struct error *err);

#endif
