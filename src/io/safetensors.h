// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes little-endian header length, a JSON object of that length, then the data.
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "io/checkpoint.h"

#define SAFETENSORS_MAX_HEADER 100000000u // bytes; the reference implementation's limit

// One parsed header. `tensors` in order of offset; `data` and `file` of the views are not set, `offset` counts from the
// beginning of the file. Memory is the arena's.
struct safetensors_header {
    struct tensor_view *tensors;
    size_t count;
    struct checkpoint_metadata *metadata;
    size_t metadata_count;
};

// From the first 8 bytes of a file of file_size bytes: the length of the JSON that follows.
int safetensors_header_bytes(const uint8_t first[8], size_t file_size, const char *path, size_t *out,
                             struct error *err);
// Parses and checks the JSON. Required, as by the reference implementation: known types, sizes that match, tensors that
// fill the data without overlap and without holes up to the end of the file. Stricter than it: the header begins with
// '{' and no name comes twice (as the format's description says), no NUL in a name, rank at most CHECKPOINT_MAX_RANK.
int safetensors_parse(struct arena *a, const char *json, size_t json_bytes, size_t file_size, const char *path,
                      struct safetensors_header *out, struct error *err);

// Writing. The format allows no holes between tensors, so alignment comes from order: the header is padded with spaces
// until the data begins at a multiple of 64, and tensors are laid out by the largest power of two up to 64 that divides
// their size, largest first (the given order among equals). Every tensor whose size is a multiple of 64 bytes so begins
// at a multiple of 64, and every other one at a multiple of its element size.
struct safetensors_entry {
    const char *name; // valid UTF-8, not "__metadata__"
    enum dtype dtype;
    int rank;
    const int64_t *dims;
};

struct safetensors_writer {
    struct arena arena;
    const char *path;
    char *temporary; // PATH.partial-PID
    int fd;
    size_t count;
    struct str header;              // the JSON as it was written
    struct safetensors_slot *slots; // by index of entry
    size_t aligned_bytes;           // of tensors that begin at a multiple of 64
    size_t data_bytes;
};

// Opens a temporary file beside `path` and writes the header. Strings and dims are copied.
int safetensors_writer_begin(struct safetensors_writer *w, const char *path, const struct safetensors_entry *entries,
                             size_t count, const struct checkpoint_metadata *metadata, size_t metadata_count,
                             struct error *err);
// Appends bytes to the data of entries[index]; entries may be filled in any order and in parts.
int safetensors_writer_put(struct safetensors_writer *w, size_t index, const void *bytes, size_t n, struct error *err);
// The same at a place of its own, from any thread: every byte of an entry must be written once.
int safetensors_writer_put_at(struct safetensors_writer *w, size_t index, size_t offset, const void *bytes, size_t n,
                              struct error *err);
// Lets the kernel begin to write entries[index] to the disk, so that there is less to wait for at the end.
void safetensors_writer_flush(const struct safetensors_writer *w, size_t index);
// Exchanges a text that stands in the header once, a placeholder, for one of the same length. Neither may need escapes.
int safetensors_writer_patch(struct safetensors_writer *w, const char *placeholder, const char *text,
                             struct error *err);
// Checks that every entry is complete, syncs and renames over `path`. Ends the writer, also on error.
int safetensors_writer_commit(struct safetensors_writer *w, struct error *err);
// The same, but what is called `path` is never replaced: ERR_USAGE when there is something. Syncs the folder, too.
int safetensors_writer_commit_new(struct safetensors_writer *w, struct error *err);
// Ends the writer and leaves nothing behind.
void safetensors_writer_abort(struct safetensors_writer *w);

#endif
