// SPDX-License-Identifier: Apache-2.0
// `local`: this machine as a chip, from a calibration kept in the user's cache. `assay bench --calibrate` writes it.
#ifndef CHIPS_LOCAL_H
#define CHIPS_LOCAL_H

#include "base/arena.h"
#include "chips/chips.h"

// One measured figure. `value` is NAN when it was not measured.
struct chip_measured {
    double value;  // FLOP/s (OP/s for int8), or B/s
    double spread; // median absolute deviation of the samples, times 1.4826, in the unit of the value
    int samples;
};

struct chip_local {
    char cpu_model[128];    // the key, with
    char plugin_sha256[65]; // the plugin that ran the products
    char date[32];          // YYYY-MM-DDThh:mm:ssZ
    int threads;
    double memory_bytes; // of the host
    struct chip_measured rate[CHIP_TYPES];
    struct chip_measured copy; // B/s read plus written by a copy too large for the caches
};

#define CHIPS_LOCAL_FILE "calibration.json" // in a record

// The row without values: its reasons say how to get them.
extern const struct chip chips_local_row;

// Appends the folder of the calibrations: $XDG_CACHE_HOME/assay, else $HOME/.cache/assay. ERR_IO when neither is set.
int chips_local_dir(struct str *out, struct error *err);
// Appends DIR/local-KEY.json, where KEY is 16 hexadecimal digits of the SHA-256 of model and plugin hash.
int chips_local_path(struct str *out, const char *cpu_model, const char *plugin_sha256, struct error *err);
// Appends the file's text. ERR_INTERNAL when it would not load again.
int chips_local_text(struct str *out, const struct chip_local *local, struct error *err);
// Writes it atomically, making the folder where needed. ERR_INTERNAL when it would not load again.
int chips_local_save(const char *path, const struct chip_local *local, struct error *err);
// Of a file, or of the record of a run that calibrated (a folder, with the file CHIPS_LOCAL_FILE in it). ERR_INPUT
// names the file and the member that is missing, of the wrong type or out of range; or why the record is none.
int chips_local_load(const char *path, struct chip_local *out, struct error *err);
// The same from n bytes of memory; `name` is for messages.
int chips_local_parse(const char *text, size_t n, const char *name, struct chip_local *out, struct error *err);
// The newest calibration of this CPU model (and of this plugin, where the hash is given) in `dir`. *found is false, and
// the result 0, when there is none; a damaged file of that name is ERR_INPUT.
int chips_local_newest(const char *dir, const char *cpu_model, const char *plugin_sha256, struct chip_local *out,
                       bool *found, struct error *err);
// The row for a calibration, in the arena: every value [M] with what was measured as its source.
int chips_local_chip(struct arena *arena, const struct chip_local *local, const struct chip **out, struct error *err);

// The chip of a calibration that somebody names (chips_local_load): "calibrated", so that it can stand beside `local`.
int chips_local_calibrated(struct arena *arena, const char *path, const struct chip **out, struct error *err);

// chip_find, and for `local` the newest calibration of this CPU (and plugin, unless NULL); with none, the row without
// values, whose reasons say how to get one.
int chip_get(struct arena *arena, const char *name, const char *cpu_model, const char *plugin_sha256,
             const struct chip **out, struct error *err);

#endif
