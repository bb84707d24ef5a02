// SPDX-License-Identifier: Apache-2.0
// For tests of the intermediate representation: fixtures with arrays, and modules that run on a plugin.
#ifndef TESTS_UNIT_IR_TEST_H
#define TESTS_UNIT_IR_TEST_H

#include "base/json.h"
#include "io/checkpoint.h"
#include "ir/builder.h"
#include "pjrt_test.h"

// tests/fixtures/ir/NAME.json and the NAME.bin its arrays lie in: [type, extents, offset].
struct ir_fixture {
    json_t *root;
    struct str bin;
};
// Ends the test process when it cannot be read: nothing can be checked then.
void ir_fixture_open(struct ir_fixture *f, const char *name);
void ir_fixture_close(struct ir_fixture *f);
// The shape of a [type, extents, offset] and its bytes, which live as long as the fixture. Ends the process when the
// array is not inside the file.
struct shape ir_fixture_array(const struct ir_fixture *f, const json_t *array, const void **bytes);
// A list of integers into out[max]; returns how many there are.
int ir_fixture_ints(const json_t *list, int64_t *out, int max);

// Compiles the module as it is printed. NULL with r->err set on failure (not printed: the caller
// may expect it).
struct program *ir_compile(struct rig *r, const struct module *m);
// Runs it: args[i] are the bytes of parameter i, outs[i] receives result i, malloc'd. False after printing the error.
bool ir_run(struct rig *r, struct program *p, const struct module *m, const void *const *args, void **outs);
// Compiles and runs a module whose weights come from a checkpoint; inputs[i] are the bytes of its i-th input.
bool ir_run_bound(struct rig *r, const struct checkpoint *c, const struct module *m, const void *const *inputs,
                  void **outs);

// Elements as f64: of any type the fixtures use.
double ir_element(enum dtype t, const void *bytes, int64_t i);
// Units in the last place between two floats of a type; 0 for NaN and NaN, and for the two zeros; huge for NaN and a
// number.
double ir_ulps(enum dtype t, const void *a, const void *b, int64_t i);
// ||a - b|| / ||b|| over n elements.
double ir_rel_l2(const double *a, const double *b, int64_t n);
// All elements as f64, malloc'd.
double *ir_doubles(enum dtype t, const void *bytes, int64_t n);

#endif
