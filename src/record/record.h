// SPDX-License-Identifier: Apache-2.0
// A record is the evidence of one run: a directory that did not exist before and that appears only when it is complete.
//
//     DIR.partial-PID   while it is built, and for ever after a SIGKILL or a power cut
//     DIR               after record_commit: config.json, report.json and what the command wrote, all synced
//     DIR.failed-PID    after record_fail: failure.json instead of report.json
//
// One thread uses a record. docs/records.md describes the files.
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"

struct record {
    char path[960];      // what it will be called (DIR)
    char building[1024]; // where it is: DIR.partial-PID; DIR after record_commit, DIR.failed-PID after record_fail
    char command[64];
    int argc;
    char *const *argv; // borrowed
    int64_t started;   // seconds since 1970, UTC
    int parent_fd;     // of the folder that holds it; -1 once the record is closed (committed, failed, abandoned)
    int fd;
    bool has_config;
};

// Starts a record at `dir`, or, when that is NULL, at runs/COMMAND-YYYYMMDD-HHMMSS-PID (UTC). Missing folders above it
// are made. ERR_USAGE when `dir` exists, whatever it is, or is named like an unfinished record; ERR_IO when it cannot
// be made. argv must outlive the record. After an error the record counts as closed.
int record_open(struct record *r, const char *dir, const char *command, int argc, char *const *argv, struct error *err);

// Writes config.json: one JSON object (schema assay.record.config/1), once, before anything is measured.
int record_config(struct record *r, const char *json, size_t n, struct error *err);

// Writes a new file; `name` is relative, with / between parts ("trace/host.pb"), whose folders are made. ERR_INTERNAL
// for a name that is absolute, has an empty, "." or ".." part or a control character, is config.json, report.json or
// failure.json, or is there already; ERR_IO when the disk is full.
int record_write(struct record *r, const char *name, const void *bytes, size_t n, struct error *err);

// The path where somebody else (a worker, the plugin's dump) may write file or folder `name`, under the same rules; the
// folders above it are made. Valid until the record is closed.
int record_place(struct record *r, const char *name, char *out, size_t capacity, struct error *err);

// The final directory (also before it exists): what the envelope's "record" says.
const char *record_path(const struct record *r);

// Writes report.json (the bytes that go to stdout), syncs every file and folder, renames to DIR without replacing, and
// syncs the parent. On an error (also ERR_INTERRUPTED when a signal came, ERR_USAGE when DIR has appeared meanwhile)
// the record is still open: call record_fail.
int record_commit(struct record *r, const void *report, size_t n, struct error *err);

// Closes the record as failed: removes report.json if there is one, writes failure.json (schema assay.failure/1; with
// `details`, a JSON document or NULL), renames to DIR.failed-PID. r->building then names the place. An error here (the
// disk is full) leaves a directory that does not look complete. A closed record is left alone.
int record_fail(struct record *r, const struct error *why, const char *details, struct error *err);

// Closes the record and removes what it wrote: nothing remains. A closed record is left alone.
void record_abandon(struct record *r);

// Members that every config.json begins with, written into the open object: schema, assay (the version), command, argv,
// started (UTC, ISO 8601), program (compiler, flags, sha256), host (facts with warnings) and environment (the variables
// that change what XLA, a TPU runtime, OpenMP or assay do: XLA_FLAGS, LIBTPU_INIT_ARGS, TPU_*, OMP_*, ASSAY_*).
void record_provenance(struct jw *w, const struct record *r);

// {"path": ..., "bytes": ..., "sha256": ...} of a regular file, read whole.
int record_file_entry(struct jw *w, const char *path, struct error *err);

// Seconds since 1970 as "2026-01-31T12:00:00Z"; returns `out`.
const char *record_time(char out[32], int64_t seconds);

// {"code": "bad-input", "message": ..., "where": ...}: the error as every document shows it.
void record_error_json(struct jw *w, const struct error *e);

// The one document that a command prints under --json, and that a record keeps as report.json:
//     {"schema": "assay.COMMAND/1", "assay": VERSION, "record": RECORD, "result": RESULT, "error": ...}
// `result` is a complete JSON value. `error` is NULL, or what went wrong beside a result that still holds. Without a
// result it is {"schema": "assay.COMMAND/1", "assay": VERSION, "error": ...}. Schema names have '.' where the command's
// name has a space.
int record_envelope(struct str *out, const char *command, const char *record, const char *result,
                    const struct error *error, struct error *err);

// The same with a result that `fill` writes: 0, or a negative code with `err` set.
typedef int record_result(void *of, struct jw *w, struct error *err);
int record_document(struct str *out, const char *command, const char *record, record_result *fill, void *of,
                    struct error *err);

// A complete record as read back. The texts are in the arena.
struct record_contents {
    const char *config, *report;
    size_t config_bytes, report_bytes;
};

// Reads `dir`. ERR_INPUT when it is absent (naming a failed or partial one that lies beside it), failed (with the
// reason its failure.json gives), partial, or not a record.
int record_read(struct record_contents *out, const char *dir, struct arena *a, struct error *err);

#endif
