// SPDX-License-Identifier: Apache-2.0
// A program of the user's, for the compiler as it is.
#include <string.h>

#include "base/bytes.h"
#include "ir/hlo_attributes.h"
#include "ir/hlo_import.h"
#include "lab/compile_part.h"

// What the compiler takes, and over how many devices it is divided; devices 0: it does not say how many.
struct given {
    struct slice program;
    const char *format;
    int64_t devices;
    bool divided, shardy;
};

// Devices of an OpSharding that divides something (its type, field 1, is OTHER): the product of the extents of its
// tiles, copies included (field 3). 0: replicated, whole on every device.
static int64_t tiled_devices(struct slice sharding)
{
    enum { OTHER = 3 };
    struct pb_reader r = pb_reader(sharding.data, sharding.size);
    struct pb_field f;
    bool tiled = false;
    int64_t devices = 1;
    while (pb_next(&r, &f)) {
        tiled |= pb_is(&f, 1, PB_VARINT) && f.value == OTHER;
        if (pb_is(&f, 3, PB_VARINT))
            devices = multiply_saturated(devices, (int64_t)(f.value & INT64_MAX));
        const uint8_t *at, *end = f.number == 3 ? hlo_packed(&f, &at) : NULL;
        for (uint64_t n; end && at < end && (at = pb_get_varint(at, end, &n)) != NULL;)
            devices = multiply_saturated(devices, (int64_t)(n & INT64_MAX));
    }
    return tiled ? devices : 0;
}

// What the first argument or value that is divided says; 0: none is.
static int sharding_devices(const struct hlo_module *m, struct arena *arena, int64_t *out, struct error *err)
{
    for (size_t i = 0; i < m->entry->n_instructions && !*out; i++) {
        struct hlo_attributes a;
        int rc = hlo_attributes_read(&a, m, &m->entry->instructions[i], arena, err);
        if (rc)
            return rc;
        *out = tiled_devices(a.sharding);
    }
    return 0;
}

// HLO: plugins take the module alone, as a message. Text becomes one here.
static int give_hlo(struct compile *c, const struct program *p, struct given *out, struct error *err)
{
    const char *path = p->file.path;
    if (hlo_is_optimised(&p->hlo))
        return error_set(err, ERR_INPUT, path,
                         "a compiler has been through it, and layouts and fusions are those of another device; give "
                         "the module from before optimisation (*.before_optimizations.hlo.pb of the dump)");
    if (p->parsed.n_elided)
        return error_set(err, ERR_INPUT, path,
                         "leaves out the values of large constants (\"{...}\", %zu of them); give the .hlo.pb of the "
                         "dump, which has them",
                         p->parsed.n_elided);
    *out = (struct given){.program = p->hlo.message, .format = "hlo"};
    int64_t mesh = program_mesh_devices(p->hlo.message);
    out->shardy = program_is_shardy(p->hlo.message);
    out->devices = p->parsed.n_devices > 1 ? p->parsed.n_devices : mesh > 1 ? mesh : 0;
    int rc = out->devices ? 0 : sharding_devices(&p->hlo, &c->arena, &out->devices, err);
    out->divided = out->shardy || out->devices > 1;
    return rc;
}

// Bytecode that is divided says somewhere in it over how many devices; XLA's translation of it says so where we read
// it.
static int count_devices(struct compile *c, struct given *out, struct error *err)
{
    struct program p;
    struct given translated;
    const char *path = c->options.workload;
    struct error why = {0};
    int rc = program_open(&p, path, NULL, false, &c->arena, &why);
    if (!rc)
        rc = give_hlo(c, &p, &translated, &why);
    if (rc)
        return error_set(
            err, why.code, path,
            "is divided over devices, and how many cannot be read of its bytecode: %s; the same program as "
            "text says so (mhlo.num_partitions)",
            why.message);
    out->devices = translated.devices;
    return 0;
}

static int read_program(struct compile *c, struct given *out, struct error *err)
{
    const char *path = c->options.workload;
    int rc = program_file_read(&c->program, path, &c->arena, err);
    if (rc)
        return rc;
    if (c->program.form == PROGRAM_STABLEHLO || c->program.form == PROGRAM_STABLEHLO_TEXT) {
        *out = (struct given){.program = c->program.program,
                              .format = "mlir",
                              .devices = c->program.n_devices,
                              .divided = c->program.divided,
                              .shardy = c->program.shardy};
        return out->divided && c->program.form == PROGRAM_STABLEHLO ? count_devices(c, out, err) : 0;
    }
    struct program p;
    rc = program_open(&p, path, NULL, false, &c->arena, err);
    return rc ? rc : give_hlo(c, &p, out, err);
}

int compile_program_open(struct compile *c, struct error *err)
{
    struct given given = {.format = NULL};
    int64_t first, last;
    if (c->options.precision)
        return error_set(err, ERR_USAGE, "--precision",
                         "a program as it is has its own precisions; --policy rewrites it");
    int rc = program_weight_args(c->options.shape.weight_args, &first, &last, err);
    if (!rc)
        rc = read_program(c, &given, err);
    if (!rc)
        rc = program_check_size(given.program, c->options.workload, err);
    for (size_t i = 0; i < c->n_cases && !rc; i++) {
        struct compile_case *k = &c->cases[i];
        // A program that is divided but does not say over how many would be compiled whole, without a word: then it is
        // all devices.
        int64_t n = given.devices ? given.devices : given.divided ? k->target.devices : 1;
        if (n > k->target.devices)
            return error_set(err, ERR_USAGE, k->target_name,
                             "the program is divided over %lld devices, the target has %d", (long long)n,
                             k->target.devices);
        k->text = (const char *)given.program.data;
        k->text_bytes = given.program.size;
        k->format = given.format;
        k->partitions = (int)n;
        k->shardy = given.shardy;
        k->first_weight = first;
        k->last_weight = last;
    }
    return rc;
}
