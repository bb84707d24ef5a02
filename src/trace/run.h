// SPDX-License-Identifier: Apache-2.0
// Where a profile goes, so that every tool finds it: DIR/plugins/profile/RUN/HOST.xplane.pb, a run named by its time.
#ifndef TRACE_RUN_H
#define TRACE_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define TRACE_HOST_MAX 256
#define TRACE_PATH_MAX 768

// This machine's name, as a file may be called.
void trace_host_name(char out[TRACE_HOST_MAX]);
// "plugins/profile/2026_01_31_12_00_00_w8a8/host.xplane.pb": `label` ("w8a8") may be NULL; what no file name should
// have becomes '_'. The time is UTC.
void trace_run_path(char out[TRACE_PATH_MAX], int64_t epoch_ns, const char *label);
// Writes a profile as a new run below `dir`, which is made when it is not there; a number is added to the run's name
// when there is one of it already. path: the file's. ERR_IO.
int trace_run_write(const char *dir, int64_t epoch_ns, const struct str *space, struct str *path, struct error *err);

#endif
