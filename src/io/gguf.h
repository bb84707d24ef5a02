// SPDX-License-Identifier: Apache-2.0
// The GGUF format, versions 2 and 3, little-endian: typed metadata, descriptions of tensors, then their data.
#ifndef IO_GGUF_H
#define IO_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "io/checkpoint.h"
#include "io/ggml.h"

enum gguf_type {
    GGUF_U8,
    GGUF_S8,
    GGUF_U16,
    GGUF_S16,
    GGUF_U32,
    GGUF_S32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_S64,
    GGUF_F64,
};
const char *gguf_type_name(enum gguf_type t); // "u8", "string"

// One value. A string or an array stays in the file: `data` points at its bytes (of a string) or its elements, which
// are read with gguf_array_next, both under the file's guard.
struct gguf_value {
    enum gguf_type type;
    union {
        uint64_t u; // u8..u64, bool (0 or 1)
        int64_t s;  // s8..s64
        double f;   // f32, f64
    };
    const uint8_t *data;
    size_t bytes;           // of data
    enum gguf_type element; // of an array
    uint64_t count;         // of an array
};

struct gguf_entry {
    const char *key; // UTF-8 without NUL, in the arena
    struct gguf_value value;
};

// One parsed file. Memory is the arena's. `tensors` in order of offset; `file` of the views is not set, `offset` counts
// from the beginning of the file. A tensor of blocks has DT_INVALID for its type, and `blocks`.
struct gguf {
    uint32_t version;
    size_t alignment;   // of the data and of every tensor in it
    size_t data_offset; // from the beginning of the file
    struct gguf_entry *entries;
    size_t entry_count;
    struct tensor_view *tensors;
    size_t count;
};

// True when the bytes begin like a GGUF file.
bool gguf_is(const void *bytes, size_t size);
// Parses and checks the whole description: counts that fit, types that are known, names and keys that are UTF-8 and
// different, shapes that make whole blocks, tensors that are aligned, inside the file and apart. `bytes` is the whole
// file, and stays. ERR_INPUT names the key or tensor; version 1 and big-endian files are named as such.
int gguf_parse(struct arena *a, const uint8_t *bytes, size_t size, const char *path, struct gguf *out,
               struct error *err);

// NULL when there is none.
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);

// The elements of an array, one after the other.
struct gguf_array {
    struct cursor at;
    enum gguf_type element;
    uint64_t left;
};
void gguf_array_begin(struct gguf_array *it, const struct gguf_value *array);
// False after the last one.
bool gguf_array_next(struct gguf_array *it, struct gguf_value *out);

#endif
