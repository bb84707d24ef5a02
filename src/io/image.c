// SPDX-License-Identifier: Apache-2.0
#include "io/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/image_part.h"
#include "num/convert.h"

void image_release(struct image *m)
{
    free(m->rgb);
    *m = (struct image){0};
}

int image_check_size(uint64_t width, uint64_t height, const char *name, int code, struct error *err)
{
    if (width == 0 || height == 0)
        return error_set(err, code, name, "the image is %llu by %llu pixels", (unsigned long long)width,
                         (unsigned long long)height);
    if (width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE || width * height > IMAGE_MAX_PIXELS)
        return error_set(err, code, name, "the image is %llu by %llu pixels; at most %u million can be taken",
                         (unsigned long long)width, (unsigned long long)height, IMAGE_MAX_PIXELS / 1000000);
    return 0;
}

int image_new(struct image *m, uint32_t width, uint32_t height, struct error *err)
{
    *m = (struct image){0};
    int rc = image_check_size(width, height, NULL, ERR_USAGE, err);
    if (rc)
        return rc;
    m->rgb = calloc((size_t)width * height, 3);
    if (!m->rgb)
        return error_set(err, ERR_MEMORY, NULL, "no memory for an image of %u by %u pixels", width, height);
    m->width = width;
    m->height = height;
    return 0;
}

int image_crop(struct image *out, const struct image *m, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
               struct error *err)
{
    *out = (struct image){0};
    if (x > m->width || width > m->width - x || y > m->height || height > m->height - y)
        return error_set(err, ERR_USAGE, NULL, "%u by %u pixels from (%u, %u) do not lie in an image of %u by %u",
                         width, height, x, y, m->width, m->height);
    int rc = image_new(out, width, height, err);
    for (uint32_t row = 0; !rc && row < height; row++)
        memcpy(out->rgb + (size_t)row * width * 3, m->rgb + ((size_t)(y + row) * m->width + x) * 3, (size_t)width * 3);
    return rc;
}

// The pixel of the stored image that is upright at (x, y): Exif 2.3, Orientation.
static size_t stored_at(const struct image *m, int orientation, uint32_t x, uint32_t y)
{
    uint32_t right = m->width - 1, bottom = m->height - 1, column = x, row = y;
    switch (orientation) {
    case 2:
        column = right - x;
        break;
    case 3:
        column = right - x, row = bottom - y;
        break;
    case 4:
        row = bottom - y;
        break;
    case 5:
        column = y, row = x;
        break;
    case 6:
        column = y, row = bottom - x;
        break;
    case 7:
        column = right - y, row = bottom - x;
        break;
    case 8:
        column = right - y, row = x;
        break;
    default:
        break;
    }
    return (size_t)row * m->width + column;
}

int image_turn(struct image *m, int orientation, struct error *err)
{
    struct image upright;
    if (orientation < 2 || orientation > 8)
        return 0;
    bool sideways = orientation >= 5;
    int rc = image_new(&upright, sideways ? m->height : m->width, sideways ? m->width : m->height, err);
    if (rc)
        return rc;
    uint8_t *to = upright.rgb;
    for (uint32_t y = 0; y < upright.height; y++)
        for (uint32_t x = 0; x < upright.width; x++, to += 3)
            memcpy(to, m->rgb + 3 * stored_at(m, orientation, x, y), 3);
    image_release(m);
    *m = upright;
    return 0;
}

// ---- numbers and levels

void image_to_numbers(const struct image *m, float *out)
{
    size_t n = (size_t)m->width * m->height * 3;
    for (size_t i = 0; i < n; i++)
        out[i] = 2 * ((float)m->rgb[i] / 255.0f) - 1;
}

static float clamp(float v, float low, float high)
{
    return v < low ? low : v > high ? high : v;
}

static uint8_t level(float x, enum image_levels rule)
{
    if (isnan(x))
        return 0;
    if (rule == IMAGE_TRUNCATE)
        return (uint8_t)(127.5f * (clamp(x, -1, 1) + 1));
    bool bf16 = rule == IMAGE_ROUND_BF16;
    float half = (bf16 ? f32_from_bf16(bf16_from_f32(x)) : x) * 0.5f, share = half + 0.5f;
    share = bf16 ? f32_from_bf16(bf16_from_f32(share)) : share;
    return (uint8_t)rintf(clamp(share, 0, 1) * 255);
}

void image_from_numbers(struct image *m, const float *numbers, enum image_levels rule)
{
    size_t n = (size_t)m->width * m->height * 3;
    for (size_t i = 0; i < n; i++)
        m->rgb[i] = level(numbers[i], rule);
}

// ---- reference images

int image_reference(struct image *out, const struct image *m, uint32_t max_pixels, const char *name, struct error *err)
{
    const uint32_t multiple = IMAGE_REFERENCE_MULTIPLE, least = IMAGE_REFERENCE_MIN_SIDE;
    uint32_t width = m->width, height = m->height, longer = width > height ? width : height;
    uint32_t shorter = width > height ? height : width;
    struct image scaled = {0};
    *out = scaled;
    if (shorter < least)
        return error_set(err, ERR_INPUT, name,
                         "a reference image has sides of %u pixels and more; this one is %u by %u", least, width,
                         height);
    if (longer > (uint64_t)shorter * IMAGE_REFERENCE_ASPECT)
        return error_set(err, ERR_INPUT, name,
                         "one side of a reference image is at most %u times the other; this one is %u by %u",
                         IMAGE_REFERENCE_ASPECT, width, height);
    int rc = 0;
    if ((uint64_t)width * height > max_pixels) {
        double scale = sqrt((double)max_pixels / (double)((uint64_t)width * height));
        rc = image_resize(&scaled, m, (uint32_t)(width * scale), (uint32_t)(height * scale), err);
        m = &scaled;
    }
    width = m->width / multiple * multiple;
    height = m->height / multiple * multiple;
    if (!rc && (!width || !height))
        rc = error_set(err, ERR_INPUT, name, "scaled down to %u pixels, the image has fewer than %u on a side",
                       max_pixels, multiple);
    rc = rc ? rc : image_crop(out, m, (m->width - width) / 2, (m->height - height) / 2, width, height, err);
    image_release(&scaled);
    return rc;
}
