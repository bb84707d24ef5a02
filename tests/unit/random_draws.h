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
// library torch: words, words64, uniform_f32, uniform; each after "plain:" or "vector:": normal, normal_bf16 (as f32),
//     mixed (count rounds of: normals of 3 and 20 elements, 2 uniforms, normals of 5 and 17 in bf16, one uniform in
//     f64), noise, noise_bf16 (tokens of a latent of 2 x 128 x 6 x 10); after "torch1:": normal_bf16, noise_bf16. What
//     follows a name is left to the caller (normal:16).
// ERR_USAGE for any other.
int random_draws(const char *library, uint64_t seed, const char *kind, size_t count, struct str *out,
                 struct error *err);

#endif
