// SPDX-License-Identifier: Apache-2.0
// Layouts of a compiled module, from messages made here.
#include "ir/hlo_layout.h"

#include "base/pbwire.h"
#include "test.h"

// An array of the layout's dimensions, minor to major, with a tile and a memory space.
static struct hlo_shape shape(struct str *layout, int64_t *dims, int rank, const int *order, const int *tile,
                              int n_tile, int space)
{
    size_t packed = pb_begin(layout, 1);
    for (int i = 0; i < rank; i++)
        pb_put_varint(layout, (uint64_t)order[i]);
    pb_end(layout, packed);
    if (n_tile) {
        size_t t = pb_begin(layout, 6), list = pb_begin(layout, 1);
        for (int i = 0; i < n_tile; i++)
            pb_put_varint(layout, (uint64_t)tile[i]);
        pb_end(layout, list);
        pb_end(layout, t);
    }
    if (space)
        pb_put_int(layout, 8, space);
    return (struct hlo_shape){.kind = HLO_ARRAY,
                              .dtype = DT_BF16,
                              .rank = rank,
                              .dims = dims,
                              .layout = {(const uint8_t *)layout->text, layout->length}};
}

TEST(ir_hlo_layout_padding_and_memory)
{
    struct str s;
    str_init(&s);
    int64_t dims[3] = {3, 5, 130};
    static const int plain[] = {2, 1, 0}, turned[] = {0, 1, 2}, tile[] = {8, 128}, line[] = {1024}, zero[] = {8, 0};
    struct hlo_shape x = shape(&s, dims, 3, plain, tile, 2, 1);
    CHECK_INT(hlo_memory_space(&x), 1);
    CHECK_INT(hlo_padded_bytes(&x), 3 * 8 * 256 * 2); // 5 to 8, 130 to 256
    str_clear(&s);
    x = shape(&s, dims, 3, turned, tile, 2, 0);
    CHECK_INT(hlo_memory_space(&x), 0);
    CHECK_INT(hlo_padded_bytes(&x), 130 * 8 * 128 * 2); // the minor axis is the first one
    str_clear(&s);
    x = shape(&s, dims, 1, plain + 2, line, 1, 0); // a vector of 3
    CHECK_INT(hlo_padded_bytes(&x), 1024 * 2);
    str_clear(&s);
    x = shape(&s, dims, 0, plain, tile, 2, 0); // a scalar in a tile
    CHECK_INT(hlo_padded_bytes(&x), 8 * 128 * 2);
    str_clear(&s);
    x = shape(&s, dims, 3, plain, NULL, 0, 0);
    CHECK_INT(hlo_padded_bytes(&x), hlo_shape_bytes(&x));
    str_clear(&s);
    x = shape(&s, dims, 3, plain, zero, 2, 0); // no tile that could be
    CHECK_INT(hlo_padded_bytes(&x), hlo_shape_bytes(&x));
    int64_t large[3] = {INT64_MAX / 4, 5, 130};
    x.dims = large;
    str_clear(&s);
    x = shape(&s, large, 3, plain, tile, 2, 0);
    CHECK_INT(hlo_padded_bytes(&x), INT64_MAX);
    str_release(&s);
}
