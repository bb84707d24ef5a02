// SPDX-License-Identifier: Apache-2.0
// Draws by name, so that tests/oracle/random_streams.py can ask for the same that the tests check.
#ifndef TESTS_UNIT_RANDOM_DRAWS_H
#define TESTS_UNIT_RANDOM_DRAWS_H

#include "base/str.h"

// Appends `count` draws of `kind` to `out`, as bytes:
// library numpy: raw, random, random_f32, uniform:LOW:HIGH, standard_normal, standard_normal_f32, normal:LOC:SCALE,
//     integers:TYPE:LOW:RANGE, mixed (count rounds of: 3 integers of 0..9 as u32, 2 normals, 5 integers of 0..99 as u8,
//     one uniform as f32)
// library jax, each after "partitionable:" or "original:": bits8 to bits64, uniform:LOW:HIGH, normal, split, fold_in
// (of
//     0 .. count)
// ERR_USAGE for any other.
int random_draws(const char *library, uint64_t seed, const char *kind, size_t count, struct str *out,
                 struct error *err);

#endif
