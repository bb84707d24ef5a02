// SPDX-License-Identifier: Apache-2.0
// image-facts FILE   prints what an image file is: "PNG, 48 x 32, 1530 colours"
#include <stdio.h>
#include <stdlib.h>

#include "io/image.h"

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    struct image m;
    struct image_source source;
    struct error err = {0};
    if (argc != 2) {
        fprintf(stderr, "image-facts: expected FILE\n");
        return 2;
    }
    if (image_read(&m, argv[1], &source, &err) != 0) {
        fprintf(stderr, "image-facts: %s: %s\n", err.where, err.message);
        return 1;
    }
    size_t n = (size_t)m.width * m.height, colours = 1;
    uint32_t *packed = malloc(n * sizeof *packed);
    if (!packed)
        return 1;
    for (size_t i = 0; i < n; i++)
        packed[i] = (uint32_t)m.rgb[3 * i] << 16 | (uint32_t)m.rgb[3 * i + 1] << 8 | m.rgb[3 * i + 2];
    qsort(packed, n, sizeof *packed, compare);
    for (size_t i = 1; i < n; i++)
        colours += packed[i] != packed[i - 1];
    printf("%s, %u x %u, %zu colour%s\n", source.format, (unsigned)m.width, (unsigned)m.height, colours,
           colours == 1 ? "" : "s");
    free(packed);
    image_release(&m);
    return 0;
}
