// SPDX-License-Identifier: Apache-2.0
// A program that somebody exported, as a workload: an HLO module in a file, as message or as text, or StableHLO, as
// text or as bytecode, which XLA's CPU plugin translates into HLO in a worker.
#ifndef MODELS_PROGRAM_H
#define MODELS_PROGRAM_H

#include "base/json.h"
#include "ir/hlo_parse.h"
#include "ir/module.h"

// True for a file whose name ends in .hlo.pb, .hlo, .pb, .txt (what XLA's dumps are called), .mlir, .mlirbc or
// .stablehlo, whether it is there or not, and for one that holds StableHLO bytecode, whatever its name.
bool program_is(const char *workload);

enum program_form { PROGRAM_HLO, PROGRAM_HLO_TEXT, PROGRAM_STABLEHLO_TEXT, PROGRAM_STABLEHLO };
const char *program_form_name(enum program_form f); // "HLO", "HLO text", "StableHLO text", "StableHLO bytecode"

// The file as it is. Everything points into the arena it was read into.
struct program_file {
    const char *path; // as given
    enum program_form form;
    size_t bytes; // of the file
    char sha256[65];
    struct slice program;  // what compilers take: the file, or of an Exported of jax.export the bytecode in it
    struct slice producer; // "StableHLO_v1.15.0" of bytecode; else empty
    int64_t n_devices;     // mhlo.num_partitions of StableHLO text; 0: not said
    bool divided, shardy;  // StableHLO: has shardings, mhlo's or sdy's; sdy's
};
// ERR_INPUT: not there, empty, larger than 4 GiB.
int program_file_read(struct program_file *f, const char *path, struct arena *arena, struct error *err);
// What the bytes alone tell: all but the hash. `path` is used for its ending, where the bytes say nothing.
void program_file_recognise(struct program_file *f, struct slice bytes, const char *path);
bool program_is_shardy(struct slice bytes); // whether values of it are divided by Shardy
// Devices of the first mesh of Shardy that a translated program names (#sdy.mesh<["data"=2, "model"=4]>); 1 where there
// is none.
int64_t program_mesh_devices(struct slice hlo);
// ERR_INPUT for what is too large for a worker to take.
int program_check_size(struct slice program, const char *path, struct error *err);
// The key and its object: form, bytes, sha256, producer; null for no file.
void program_file_json(const char *key, const struct program_file *f, struct jw *w);

// "N..M" or "N": the first and the last argument that is a weight, from 0; last is below first for NULL. ERR_USAGE.
int program_weight_args(const char *text, int64_t *first, int64_t *last, struct error *err);

struct program {
    struct program_file file;
    struct hlo_module hlo;
    struct hlo_parsed parsed;
    int64_t first_weight, last_weight; // arguments that are weights; last below first: none
};

// Reads the file into the arena. `weight_args` is "N..M" or "N", or NULL: no argument is a weight. ERR_INPUT,
// ERR_USAGE; ERR_DEVICE when StableHLO is to be translated and there is no CPU plugin, or it died of the program.
int program_open(struct program *p, const char *path, const char *weight_args, bool lenient, struct arena *arena,
                 struct error *err);
// The module that policies rewrite (hlo_import.h).
int program_module(const struct program *p, struct module *m, struct error *err);
// Whether every float of the module is f32, as policies expect it.
bool program_is_f32(const struct module *m);

#endif
