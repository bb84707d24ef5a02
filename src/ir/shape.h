// SPDX-License-Identifier: Apache-2.0
#ifndef IR_SHAPE_H
#define IR_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "num/dtype.h"

#define SHAPE_MAX_RANK 8

struct shape {
    enum dtype dtype;
    int rank;
    int64_t dims[SHAPE_MAX_RANK];
};

// SHAPE(DT_F32, 2, 3) is f32[2,3]; SHAPE(DT_F32) is a scalar.
#define SHAPE(type, ...)                                                                                               \
    shape_of((type), (int)(sizeof((int64_t[]){0, ##__VA_ARGS__}) / sizeof(int64_t)) - 1,                               \
             (const int64_t[]){0, ##__VA_ARGS__} + 1)

static inline struct shape shape_of(enum dtype t, int rank, const int64_t *dims)
{
    struct shape s = {.dtype = t, .rank = rank};
    for (int i = 0; i < rank && i < SHAPE_MAX_RANK; i++)
        s.dims[i] = dims[i];
    return s;
}

static inline struct shape shape_with_dtype(struct shape s, enum dtype t)
{
    s.dtype = t;
    return s;
}

bool shape_same_dims(const struct shape *a, const struct shape *b);
bool shape_equal(const struct shape *a, const struct shape *b);
// Elements and packed bytes. Shapes in a verified module never overflow (shape_check).
int64_t shape_elements(const struct shape *s);
int64_t shape_bytes(const struct shape *s);
// ERR_INPUT unless the type is known, the rank fits, no extent is negative and the bytes fit in 63 bits.
int shape_check(const struct shape *s, const char *where, struct error *err);
// "tensor<2x3xf32>" and "f32[2,3]".
void shape_print_mlir(struct str *out, const struct shape *s);
void shape_print(struct str *out, const struct shape *s);

#endif
