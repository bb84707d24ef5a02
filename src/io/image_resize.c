// SPDX-License-Identifier: Apache-2.0
// Resampling as Pillow does it for 8 bits: windowed sinc over three lobes, weights in fixed point, first along rows,
// then along columns, rounded to levels after each.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "io/image_part.h"

#define WEIGHT_BITS 22 // 32 less the 8 of a level and 2 for sums that overshoot
#define LOBES       3.0

// For each pixel of a side: the pixels it is made of, and their weights.
struct taps {
    uint32_t *first, *count;
    int32_t *weight; // [size][most]
    size_t most;
};

static double sinc(double x)
{
    return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI);
}

static double lanczos(double x)
{
    return x >= -LOBES && x < LOBES ? sinc(x) * sinc(x / LOBES) : 0;
}

static void taps_release(struct taps *t)
{
    free(t->first);
    free(t->weight);
    *t = (struct taps){0};
}

static int taps_init(struct taps *t, uint32_t from, uint32_t to, struct error *err)
{
    const double scale = (double)from / to, wide = scale < 1 ? 1 : scale, reach = LOBES * wide, narrow = 1 / wide;
    *t = (struct taps){.most = (size_t)ceil(reach) * 2 + 1};
    size_t bytes;
    double *exact = malloc(t->most * sizeof *exact);
    t->first = malloc(2 * (size_t)to * sizeof *t->first);
    t->weight = size_mul(t->most, (size_t)to * sizeof *t->weight, &bytes) ? malloc(bytes) : NULL;
    if (!exact || !t->first || !t->weight) {
        free(exact);
        taps_release(t);
        return error_set(err, ERR_MEMORY, NULL, "no memory to scale %u pixels to %u", from, to);
    }
    t->count = t->first + to;
    for (uint32_t i = 0; i < to; i++) {
        double center = (i + 0.5) * scale, low = center - reach + 0.5, high = center + reach + 0.5, sum = 0;
        uint32_t first = low < 0 ? 0 : (uint32_t)low, end = high > from ? from : (uint32_t)high;
        for (uint32_t k = first; k < end; k++)
            sum += exact[k - first] = lanczos((k - center + 0.5) * narrow);
        for (uint32_t k = first; k < end; k++) {
            double w = exact[k - first] / sum * (1 << WEIGHT_BITS);
            t->weight[i * t->most + (k - first)] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
        }
        t->first[i] = first;
        t->count[i] = end - first;
    }
    free(exact);
    return 0;
}

static uint8_t to_level(int32_t sum)
{
    int32_t v = sum >> WEIGHT_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void along_rows(struct image *out, const struct image *m, const struct taps *t)
{
    uint8_t *to = out->rgb;
    for (uint32_t y = 0; y < out->height; y++) {
        for (uint32_t x = 0; x < out->width; x++, to += 3) {
            const uint8_t *from = m->rgb + ((size_t)y * m->width + t->first[x]) * 3;
            const int32_t *w = t->weight + x * t->most;
            int32_t red = 1 << (WEIGHT_BITS - 1), green = red, blue = red;
            for (uint32_t k = 0; k < t->count[x]; k++, from += 3) {
                red += from[0] * w[k];
                green += from[1] * w[k];
                blue += from[2] * w[k];
            }
            to[0] = to_level(red), to[1] = to_level(green), to[2] = to_level(blue);
        }
    }
}

static void along_columns(struct image *out, const struct image *m, const struct taps *t, int32_t *sum)
{
    const size_t row = (size_t)out->width * 3;
    for (uint32_t y = 0; y < out->height; y++) {
        const uint8_t *from = m->rgb + t->first[y] * row;
        const int32_t *w = t->weight + y * t->most;
        for (size_t i = 0; i < row; i++)
            sum[i] = 1 << (WEIGHT_BITS - 1);
        for (uint32_t k = 0; k < t->count[y]; k++, from += row) {
            for (size_t i = 0; i < row; i++)
                sum[i] += from[i] * w[k];
        }
        for (size_t i = 0; i < row; i++)
            out->rgb[y * row + i] = to_level(sum[i]);
    }
}

static int rows(struct image *out, const struct image *m, uint32_t width, struct error *err)
{
    struct taps t;
    int rc = image_new(out, width, m->height, err);
    rc = rc ? rc : taps_init(&t, m->width, width, err);
    if (rc)
        return rc;
    along_rows(out, m, &t);
    taps_release(&t);
    return 0;
}

static int columns(struct image *out, const struct image *m, uint32_t height, struct error *err)
{
    struct taps t;
    int rc = image_new(out, m->width, height, err);
    rc = rc ? rc : taps_init(&t, m->height, height, err);
    if (rc)
        return rc;
    int32_t *sum = malloc((size_t)m->width * 3 * sizeof *sum);
    if (sum)
        along_columns(out, m, &t, sum);
    else
        rc = error_set(err, ERR_MEMORY, NULL, "no memory to scale an image of %u columns", m->width);
    free(sum);
    taps_release(&t);
    return rc;
}

int image_resize(struct image *out, const struct image *m, uint32_t width, uint32_t height, struct error *err)
{
    struct image narrow = {0};
    *out = narrow;
    int rc = image_check_size(width, height, NULL, ERR_USAGE, err);
    if (!rc && width == m->width && height == m->height)
        return image_crop(out, m, 0, 0, width, height, err);
    if (!rc && width != m->width) {
        rc = rows(&narrow, m, width, err);
        m = &narrow;
    }
    if (!rc && height != m->height) {
        rc = columns(out, m, height, err);
    } else if (!rc) {
        *out = narrow;
        narrow = (struct image){0};
    }
    image_release(&narrow);
    if (rc)
        image_release(out);
    return rc;
}
