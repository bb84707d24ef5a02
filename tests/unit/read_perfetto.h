// SPDX-License-Identifier: Apache-2.0
// Perfetto's protobuf, read back independently of what writes it: only what a profile's conversion uses of it.
#ifndef TEST_READ_PERFETTO_H
#define TEST_READ_PERFETTO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "base/str.h"

// One line of text for each slice, instant and sample, in the order of the file:
//     process|track|name|start|duration|name=value,...
// Times are ps, exact where the file has them so. Samples have their value for a name and no duration. False, with what
// is wrong in `why`, where a reader of Perfetto's would stumble.
bool read_perfetto(struct slice file, struct str *lines, const char **why);

#endif
