// SPDX-License-Identifier: Apache-2.0
// What the files about images share.
#ifndef IO_IMAGE_PART_H
#define IO_IMAGE_PART_H

#include "io/image.h"

// 0, or `code` for an image of nothing or beyond the limits.
int image_check_size(uint64_t width, uint64_t height, const char *name, int code, struct error *err);
// Exif orientation 1 to 8, from the TIFF structure that Exif data is (after "Exif\0\0" in a JPEG); 1 where it has none
// or is damaged: pictures are not refused for that.
int image_exif_orientation(const uint8_t *tiff, size_t n);
// Makes an image that was stored in that orientation upright.
int image_turn(struct image *m, int orientation, struct error *err);
// One format each, of n bytes that begin as that format does. The image is as stored, and source->orientation says how.
int image_decode_png(struct image *m, const uint8_t *bytes, size_t n, const char *name, struct image_source *source,
                     struct error *err);
int image_decode_jpeg(struct image *m, const uint8_t *bytes, size_t n, const char *name, struct image_source *source,
                      struct error *err);

#endif
