// SPDX-License-Identifier: Apache-2.0
// Validates documents against docs/schemas: the part of JSON Schema that they use (type, required, properties,
// additionalProperties, items, enum, oneOf, $ref to #/$defs). A keyword outside of it is a failure, so that no schema
// can rely on what is not checked.
#ifndef TESTS_UNIT_SCHEMA_H
#define TESTS_UNIT_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// Does the JSON text follow docs/schemas/FILE, or its definition NAME ("common.json#summary")? When not, prints where.
bool schema_check(const char *file, const char *text, size_t n);
bool schema_check_value(const char *file, const json_t *value);
// The same, silent, with a schema in memory and its root (whose $defs count).
bool schema_allows(const json_t *root, const json_t *schema, const json_t *value);
// Reads docs/schemas/FILE (a new reference), or NULL.
json_t *schema_load(const char *file);

#define CHECK_SCHEMA(file, text, n) test_check(schema_check((file), (text), (n)), __FILE__, __LINE__, "schema " file)

#endif
