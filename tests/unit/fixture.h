// SPDX-License-Identifier: Apache-2.0
// What the tests read under tests/fixtures.
#ifndef TESTS_UNIT_FIXTURE_H
#define TESTS_UNIT_FIXTURE_H

#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"

// A fixture by its path under tests/fixtures; ends the test process when it cannot be read, since nothing can be
// checked then. The caller releases it with json_decref.
json_t *fixture_json(const char *name);
// Its full path, which lives as long as the test's process.
const char *fixture_path(const char *name);
// That of a recorded profile, traces/NAME.xplane.pb or its packed form.
const char *fixture_profile(const char *name);
// The next row of a text that has `n` cells parted by tabs; it is cut up in place. Comments (#) and shorter rows are
// passed over. False at the end.
bool fixture_cells(char **rest, char *cells[], int n);
// Follows \xNN in a text, in place; the length of what it says, zeros included.
size_t fixture_unescape(char *text);
double fixture_number(const json_t *o, const char *key);
// An array of integers as f32 bit patterns, or as signed bytes; the caller frees it.
float *fixture_floats(const json_t *o, const char *key, size_t *n);
int8_t *fixture_bytes(const json_t *o, const char *key, size_t *n);

#endif
