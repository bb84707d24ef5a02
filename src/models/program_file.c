// SPDX-License-Identifier: Apache-2.0
// Which form a program's file has. By its bytes: people give files the names they like.
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/sha256.h"
#include "models/program.h"
#include "worker/worker.h"

#define MAX_BYTES    ((size_t)4 << 30)
#define MAX_SEARCHED ((size_t)256 << 20) // of a file whose name says nothing

static const char magic[] = "ML\xefR"; // of MLIR bytecode

const char *program_form_name(enum program_form f)
{
    static const char *const names[] = {"HLO", "HLO text", "StableHLO text", "StableHLO bytecode"};
    return names[f];
}

// The bytecode in an Exported as jax.export serializes it, a FlatBuffer without a mark of its own: a vector of bytes
// that begins as bytecode does, its length, of 32 bits, before it.
static struct slice exported_program(struct slice file)
{
    const uint8_t *at = file.data, *end = file.data + file.size;
    while ((at = memmem(at, (size_t)(end - at), magic, sizeof magic - 1))) {
        uint32_t n;
        if (at - file.data >= (ptrdiff_t)sizeof n) {
            memcpy(&n, at - sizeof n, sizeof n);
            if (n >= sizeof magic && n <= (size_t)(end - at))
                return (struct slice){at, n};
        }
        at++;
    }
    return (struct slice){NULL, 0};
}

static bool holds_bytecode(const char *path)
{
    struct file_map map;
    struct file_guard guard;
    if (file_map_open(&map, path, NULL))
        return false;
    struct slice bytes = {map.data, map.size};
    bool is = false;
    if (FILE_GUARD(&guard, &map)) {
        file_guard_error(&guard, NULL); // cut short while it was looked at: nothing is in it
    } else {
        is = slice_starts_with(bytes, magic) || (map.size <= MAX_SEARCHED && exported_program(bytes).size);
        file_guard_end(&guard);
    }
    file_map_close(&map);
    return is;
}

bool program_is(const char *workload)
{
    static const char *const endings[] = {".hlo.pb", ".hlo", ".pb", ".txt", ".mlir", ".mlirbc", ".stablehlo"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (str_ends_with(workload, endings[i]))
            return !dir_exists(workload);
    }
    return holds_bytecode(workload);
}

// How the text of an MLIR module begins, blanks and comments aside: with the module, or with names for locations and
// attributes.
static bool is_mlir_text(struct slice s)
{
    static const char *const words[] = {"module", "\"builtin.module\"", "builtin.module", "func.func", "#", "!"};
    while (s.size) {
        size_t skip = strchr(" \t\r\n", s.data[0]) && s.data[0] ? 1 : 0;
        const uint8_t *line = slice_starts_with(s, "//") ? memchr(s.data, '\n', s.size) : NULL;
        skip = line ? (size_t)(line - s.data) + 1 : skip;
        if (!skip)
            break;
        s = (struct slice){s.data + skip, s.size - skip};
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (slice_starts_with(s, words[i]))
            return true;
    }
    return false;
}

// "mhlo.num_partitions = 8 : i32"; 0 where the text does not say it.
static int64_t partitions_of(struct slice text)
{
    static const char key[] = "mhlo.num_partitions = ";
    const uint8_t *at = memmem(text.data, text.size, key, sizeof key - 1);
    const uint8_t *end = text.data + text.size;
    int64_t n = 0;
    for (at = at ? at + sizeof key - 1 : end; at < end && *at >= '0' && *at <= '9' && n < INT32_MAX; at++)
        n = 10 * n + (*at - '0');
    return n <= INT32_MAX ? n : 0;
}

// Whether Shardy's attribute is somewhere in it. "sdy.sharding_rule", that of operations which may be divided, is
// another one.
bool program_is_shardy(struct slice bytes)
{
    static const char key[] = "sdy.sharding";
    const uint8_t *at = bytes.data, *end = bytes.data + bytes.size;
    while (at < end && (at = memmem(at, (size_t)(end - at), key, sizeof key - 1))) {
        at += sizeof key - 1;
        if (at == end || *at != '_')
            return true;
    }
    return false;
}

// What is told of StableHLO without a parser of its own. In bytecode names are text as well.
static void describe_stablehlo(struct program_file *f)
{
    struct slice p = f->program;
    f->shardy = program_is_shardy(p);
    f->divided = f->shardy || slice_contains(p, "mhlo.sharding");
    if (f->form == PROGRAM_STABLEHLO_TEXT) {
        f->n_devices = partitions_of(p);
        return;
    }
    // Behind the magic the version, a varint that has had one byte so far, and the producer's name.
    const uint8_t *name = p.size > sizeof magic ? p.data + sizeof magic : NULL;
    const uint8_t *end = name ? memchr(name, 0, p.size - sizeof magic) : NULL;
    if (end && end - name < 256)
        f->producer = (struct slice){name, (size_t)(end - name)};
}

void program_file_recognise(struct program_file *f, struct slice bytes, const char *path)
{
    bool text = hlo_is_text(bytes.data, bytes.size), mlir_text = !text && is_mlir_text(bytes);
    struct slice code = slice_starts_with(bytes, magic) ? bytes : (struct slice){NULL, 0};
    if (!code.size && !text && !mlir_text)
        code = exported_program(bytes);
    // Whatever is called .mlir and is none of these: MLIR's parser says what is wrong.
    mlir_text |= !code.size && !text && str_ends_with(path, ".mlir");
    *f = (struct program_file){.path = path,
                               .form = code.size   ? PROGRAM_STABLEHLO
                                       : mlir_text ? PROGRAM_STABLEHLO_TEXT
                                       : text      ? PROGRAM_HLO_TEXT
                                                   : PROGRAM_HLO,
                               .bytes = bytes.size,
                               .program = code.size ? code : bytes};
    if (f->form == PROGRAM_STABLEHLO || f->form == PROGRAM_STABLEHLO_TEXT)
        describe_stablehlo(f);
}

// none.
int64_t program_mesh_devices(struct slice hlo)
{
    static const char key[] = "#sdy.mesh<[";
    const uint8_t *end = hlo.data + hlo.size, *at = memmem(hlo.data, hlo.size, key, sizeof key - 1);
    int64_t devices = 1;
    for (bool digits = false; at && at < end && *at != ']'; at++) {
        int64_t n = 0;
        digits = *at == '=';
        while (digits && at + 1 < end && at[1] >= '0' && at[1] <= '9' && n < INT32_MAX)
            n = 10 * n + (*++at - '0');
        devices = digits && n > 0 ? multiply_saturated(devices, n) : devices;
    }
    return devices <= INT32_MAX ? devices : 1;
}

int program_check_size(struct slice program, const char *path, struct error *err)
{
    if (program.size <= WORKER_MAX_PROGRAM)
        return 0;
    return error_set(err, ERR_INPUT, path,
                     "is a program of more than %zu MiB, which no compiler is given: make its weights arguments, in "
                     "place of constants",
                     WORKER_MAX_PROGRAM >> 20);
}

int program_file_read(struct program_file *f, const char *path, struct arena *arena, struct error *err)
{
    struct file_map map;
    struct file_guard guard;
    int rc = file_map_open(&map, path, err);
    if (rc)
        return rc;
    if (map.size > MAX_BYTES || !map.size) {
        rc = error_set(err, ERR_INPUT, path, map.size ? "is larger than 4 GiB" : "is empty");
        file_map_close(&map);
        return rc;
    }
    struct slice bytes = {map.data, map.size};
    if (FILE_GUARD(&guard, &map)) {
        rc = file_guard_error(&guard, err);
        file_map_close(&map);
        return rc;
    }
    rc = slice_copy(arena, &bytes, err); // what is made of it points into it
    file_guard_end(&guard);
    file_map_close(&map);
    if (rc)
        return rc;
    program_file_recognise(f, bytes, path);
    return sha256_bytes(bytes.data, bytes.size, f->sha256, err);
}

void program_file_json(const char *key, const struct program_file *f, struct jw *w)
{
    jw_key(w, key);
    if (!f || !f->path) {
        jw_null(w);
        return;
    }
    jw_object(w);
    jw_kv_string(w, "form", program_form_name(f->form));
    jw_kv_uint(w, "bytes", f->bytes);
    jw_kv_string(w, "sha256", f->sha256);
    jw_kv_slice(w, "producer", f->producer);
    jw_object_end(w);
}
