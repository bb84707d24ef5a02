// SPDX-License-Identifier: Apache-2.0
// The modules of tests/fixtures/ir/hlo_cost.json.
#ifndef TESTS_UNIT_HLO_CASE_H
#define TESTS_UNIT_HLO_CASE_H

#include "fixture.h"
#include "ir/hlo.h"

// Bytes that a fixture has in hex; empty when it has none.
struct slice hlo_case_bytes(const json_t *row, const char *key, struct arena *arena, struct error *err);
// One case's module; false when it cannot be read.
bool hlo_case(const json_t *row, struct hlo_module *m, struct arena *arena, struct error *err);

#endif
