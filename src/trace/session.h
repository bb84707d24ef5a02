// SPDX-License-Identifier: Apache-2.0
// A profile as a person names it: a file (an XSpace or Chrome's JSON, packed by gzip or not), several, or a directory
// with one file per host.
#ifndef TRACE_SESSION_H
#define TRACE_SESSION_H

#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/gunzip.h"
#include "trace/chrome.h"
#include "trace/xspace.h"

struct trace_file {
    const char *path;
    const char *host; // what the file says; its name without .xplane.pb where it says nothing
    struct file_map map;
    struct gunzip unpacked;     // data NULL: the file is not packed
    struct chrome_trace chrome; // space.length 0: the file is an XSpace; else it is JSON, and this is what became of it
    struct xspace space;        // its damage is that of the gzip file or of the JSON, where that is damaged
};

struct trace {
    struct arena arena;
    struct trace_file *files; // in the order of the arguments, of a directory in the order of names
    size_t n_files, cap_files;
    const char *run;     // the run directory that was chosen; NULL when files were named
    size_t n_other_runs; // in the same place: older ones, that were not read
};

// A directory is searched for *.xplane.pb and *.xplane.pb.gz, and where it has none for *.trace.json and
// *.trace.json.gz: in itself, in the newest run of its plugins/profile, of
// its trace/plugins/profile (a record's), or of itself (a `profile` directory); the newest run is the last by name,
// since runs are named by their time. ERR_INPUT names what cannot be read, and what a file is that is no profile.
int trace_open(struct trace *t, const char *const *paths, size_t n, struct error *err);
void trace_close(struct trace *t);
// What the lines of all files count from: 0 where times are small, as they are in a saved profile, and the earliest
// where they are times of day.
int64_t trace_origin_ns(const struct trace *t);

#endif
