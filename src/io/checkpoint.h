// SPDX-License-Identifier: Apache-2.0
// The tensors of a model as they lie in its files (safetensors or GGUF), mapped, not copied.
#ifndef IO_CHECKPOINT_H
#define IO_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "num/dtype.h"

#define CHECKPOINT_MAX_RANK 8

struct ggml_type;
struct gguf;

struct tensor_view {
    const char *name;               // as in the file: any characters but NUL; escape it where it is shown
    enum dtype dtype;               // DT_INVALID for a tensor of blocks
    const struct ggml_type *blocks; // of a GGUF tensor whose elements share scales (io/ggml.h); else NULL
    int rank;
    int64_t dims[CHECKPOINT_MAX_RANK]; // row-major
    size_t elements;
    const uint8_t *data; // into the map of files[file]: read it under FILE_GUARD. Any alignment.
    size_t bytes;
    size_t file;
    size_t offset; // of data in the file
};

// What its elements are called: "f32", "Q4_K".
const char *tensor_type_name(const struct tensor_view *t);

struct checkpoint_metadata {
    const char *key, *value;
};

// Everything but the maps lives in `arena`. `tensors` is in the order of files, then of offsets.
struct checkpoint {
    struct arena arena;
    struct file_map *files;
    size_t file_count;
    const char *index_path; // of the index that named the files; NULL when there was none
    struct tensor_view *tensors;
    size_t count;
    struct checkpoint_metadata
        *metadata; // of all files, in the order they come; of a GGUF file its strings and numbers
    size_t metadata_count;
    const struct gguf *gguf; // what a GGUF file says, arrays too; NULL for other files
    size_t elements;         // of all tensors
    size_t parameters;       // of those that are not pred or integers of 16 bits and more (these are indices and masks)
    size_t bytes;            // of all tensors' data
    const struct tensor_view **by_name;
    size_t tensor_cap, metadata_cap;
    bool borrowed; // the bytes are not ours (checkpoint_open_memory)
};

// A .safetensors file, a GGUF file (known by how it begins), a .safetensors.index.json, or a directory that holds one
// (model.safetensors, then model.safetensors.index.json, then the same with diffusion_pytorch_model). The whole header
// is checked; tensor data is not touched. On error nothing is left open. ERR_INPUT names file and tensor.
int checkpoint_open(struct checkpoint *c, const char *path, struct error *err);
// One safetensors or GGUF file that lies in memory and stays there; `name` stands for its path.
int checkpoint_open_memory(struct checkpoint *c, const void *bytes, size_t size, const char *name, struct error *err);
void checkpoint_close(struct checkpoint *c);

// A checkpoint that is put together: begun empty (or opened), given memory as files, and views of what lies in its
// files in place of those that it had. `names` of views are copied, `data` is set.
int checkpoint_begin(struct checkpoint *c, struct error *err);
// Takes over a memfd of `bytes` bytes, also on failure; *file is its number.
int checkpoint_add_memory(struct checkpoint *c, int fd, size_t bytes, const char *name, size_t *file,
                          struct error *err);
// ERR_INPUT when a view does not lie in its file, or has the name of another one.
int checkpoint_replace(struct checkpoint *c, const struct tensor_view *views, size_t count, struct error *err);

// NULL when there is none.
const struct tensor_view *checkpoint_find(const struct checkpoint *c, const char *name);
// The same, as ERR_INPUT naming the tensor, the checkpoint and a tensor with a similar name if there is one.
int checkpoint_require(const struct checkpoint *c, const char *name, const struct tensor_view **out, struct error *err);
// Copies the tensor's bytes under a guard; `dst` has room for t->bytes.
int checkpoint_read(const struct checkpoint *c, const struct tensor_view *t, void *dst, struct error *err);
// The same converted to another element type (num/convert.h; blocks are decoded to f32 first); `dst` has room for
// t->elements of it.
int checkpoint_read_as(const struct checkpoint *c, const struct tensor_view *t, enum dtype type, void *dst,
                       struct error *err);
// Gives the pages of a tensor that was copied back to the page cache.
void checkpoint_forget(const struct checkpoint *c, const struct tensor_view *t);

// SHA-256 of one file; and of the whole: the file's own when there is one, else of the lines "HEX  NAME\n" (NAME
// without directories) in file order, that is of sha256sum's output.
int checkpoint_file_sha256(const struct checkpoint *c, size_t file, char hex[65], struct error *err);
int checkpoint_sha256(const struct checkpoint *c, char hex[65], struct error *err);

#endif
