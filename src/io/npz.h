// SPDX-License-Identifier: Apache-2.0
// Arrays as numpy saves them: .npz (np.savez, np.savez_compressed) and a single .npy (np.save).
#ifndef IO_NPZ_H
#define IO_NPZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "io/zip.h"
#include "num/dtype.h"

#define NPZ_MAX_RANK 8

struct npz_array {
    const char *name; // of the member without ".npy"; of a single file "": any characters but NUL, escape it
    enum dtype dtype;
    int rank;
    int64_t dims[NPZ_MAX_RANK];
    size_t elements, bytes; // packed one behind the other, row-major
    bool fortran;           // as it is stored: the first dimension is the fastest
    size_t header_bytes;    // before the data
    struct zip_member member;
};

struct npz {
    struct arena arena;
    struct file_map map;
    struct npz_array *arrays; // in the order of the archive's directory
    size_t count;
    bool borrowed; // the bytes are not ours (npz_open_memory)
};

// Opens a .npz archive or a single .npy file, known by how it begins, and reads the header of every array: versions 1
// to 3 of the format; the data is not touched. Types are numpy's own numbers and truth values, and those of ml_dtypes
// that a file can tell apart: bfloat16, which numpy writes as "V2", the only type of 16 bits that it writes so, and
// float8_e5m2 ("f1"). ERR_INPUT names the member and its offset: big-endian arrays, other types of ml_dtypes ("V1" may
// be any of them), strings, objects and records, more than 8 dimensions, a name that comes twice, sizes that do not
// agree.
int npz_open(struct npz *z, const char *path, struct error *err);
// The same of bytes in memory that stay there; `name` stands for the path.
int npz_open_memory(struct npz *z, const void *bytes, size_t size, const char *name, struct error *err);
void npz_close(struct npz *z);

// NULL when there is none.
const struct npz_array *npz_find(const struct npz *z, const char *name);

// The elements of an array in row-major order, a->bytes of them; `dst` has room for that. ERR_INPUT where the data is
// damaged (its checksum says so) or the file was cut meanwhile.
int npz_read(const struct npz *z, const struct npz_array *a, void *dst, struct error *err);

#endif
