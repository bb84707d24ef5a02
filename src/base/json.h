// SPDX-License-Identifier: Apache-2.0
// JSON: a writer of our own (shortest numbers that read back equal, nesting checked), and reading through jansson.
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"

// Writes one document into `out`. Misuse (a value without a key in an object, an unbalanced end) sets `failed`.
struct jw {
    struct str *out;
    int depth;
    bool failed;
    bool after_key;
    bool compact;            // one line; otherwise indented by two spaces
    unsigned char stack[64]; // '{' or '[' per level, high bit: something was written
};

void jw_init(struct jw *w, struct str *out, bool compact);
void jw_object(struct jw *w); // '{'
void jw_object_end(struct jw *w);
void jw_array(struct jw *w); // '['
void jw_array_end(struct jw *w);
void jw_key(struct jw *w, const char *key);
void jw_string(struct jw *w, const char *s); // NULL writes null
void jw_string_n(struct jw *w, const char *s, size_t n);
void jw_int(struct jw *w, int64_t v);
void jw_uint(struct jw *w, uint64_t v);
void jw_double(struct jw *w, double v); // NaN and infinities write null
void jw_bool(struct jw *w, bool v);
void jw_null(struct jw *w);
void jw_raw(struct jw *w, const char *document); // an already valid document, as it is
// 0 when the document is complete and every append worked.
int jw_finish(struct jw *w, struct error *err);

// Key and value in one call.
void jw_kv_string(struct jw *w, const char *key, const char *s);
void jw_kv_int(struct jw *w, const char *key, int64_t v);
void jw_kv_uint(struct jw *w, const char *key, uint64_t v);
void jw_kv_double(struct jw *w, const char *key, double v);
void jw_kv_bool(struct jw *w, const char *key, bool v);
void jw_kv_null(struct jw *w, const char *key);
void jw_kv_slice(struct jw *w, const char *key, struct slice s); // null for an empty one

// Shortest decimal that strtod reads back to the same double (at most 17 digits), always with the meaning of a JSON
// number.
void json_number(char out[32], double v);

// Parses n bytes; duplicates are rejected, depth is limited by jansson. `name` is the file for the message. Integers
// from 2^63 to 2^64-1, which JSON has and jansson has not, become texts of their digits: json_is_uint64.
// Returns a new reference, or NULL with ERR_INPUT naming line and column.
json_t *json_parse(const char *text, size_t n, const char *name, struct error *err);

// Whether a value is a whole number from 0 to 2^64-1, or the text that json_parse makes of one beyond 2^63-1.
bool json_is_uint64(const json_t *v, uint64_t *out);

// Typed members of an object: 0, or ERR_INPUT naming `where` and the key. *_or give a default when the key is absent.
int json_get_string(const json_t *o, const char *key, const char *where, const char **out, struct error *err);
int json_get_int(const json_t *o, const char *key, const char *where, int64_t *out, struct error *err);
int json_get_double(const json_t *o, const char *key, const char *where, double *out, struct error *err);
int json_get_int_or(const json_t *o, const char *key, const char *where, int64_t absent, int64_t *out,
                    struct error *err);
int json_get_double_or(const json_t *o, const char *key, const char *where, double absent, double *out,
                       struct error *err);
// An integer in [1, most]; `absent` above 0 is its value, held to the same bounds, when the key is not there.
int json_get_positive(const json_t *o, const char *key, const char *where, int64_t absent, int64_t most, int64_t *out,
                      struct error *err);

#endif
