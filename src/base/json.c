// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRITTEN    0x80u
#define LOAD_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)

void jw_init(struct jw *w, struct str *out, bool compact)
{
    memset(w, 0, sizeof *w);
    w->out = out;
    w->compact = compact;
}

static void newline(struct jw *w)
{
    if (w->compact)
        return;
    str_add_char(w->out, '\n');
    for (int i = 0; i < w->depth; i++)
        str_add(w->out, "  ");
}

// Before every value: the comma, the line, and the rule that a value in an object follows a key.
static void before(struct jw *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0) {
        if (w->out->length && w->stack[0])
            w->failed = true; // a second document
        w->stack[0] = 1;
        return;
    }
    unsigned char *level = &w->stack[w->depth];
    if ((*level & 0x7f) == '{')
        w->failed = true;
    if (*level & WRITTEN)
        str_add_char(w->out, ',');
    *level |= WRITTEN;
    newline(w);
}

static void begin(struct jw *w, char open)
{
    before(w);
    str_add_char(w->out, open);
    if (w->depth + 1 >= (int)sizeof w->stack) {
        w->failed = true;
        return;
    }
    w->stack[++w->depth] = (unsigned char)open;
}

static void end(struct jw *w, char open, char close)
{
    if (w->depth == 0 || (w->stack[w->depth] & 0x7f) != open || w->after_key) {
        w->failed = true;
        return;
    }
    bool any = w->stack[w->depth] & WRITTEN;
    w->depth--;
    if (any)
        newline(w);
    str_add_char(w->out, close);
}

void jw_object(struct jw *w)
{
    begin(w, '{');
}

void jw_object_end(struct jw *w)
{
    end(w, '{', '}');
}

void jw_array(struct jw *w)
{
    begin(w, '[');
}

void jw_array_end(struct jw *w)
{
    end(w, '[', ']');
}

void jw_key(struct jw *w, const char *key)
{
    if (w->depth == 0 || (w->stack[w->depth] & 0x7f) != '{' || w->after_key) {
        w->failed = true;
        return;
    }
    if (w->stack[w->depth] & WRITTEN)
        str_add_char(w->out, ',');
    w->stack[w->depth] |= WRITTEN;
    newline(w);
    str_add_json(w->out, key, strlen(key));
    str_add(w->out, w->compact ? ":" : ": ");
    w->after_key = true;
}

void jw_string_n(struct jw *w, const char *s, size_t n)
{
    before(w);
    str_add_json(w->out, s, n);
}

void jw_string(struct jw *w, const char *s)
{
    if (s)
        jw_string_n(w, s, strlen(s));
    else
        jw_null(w);
}

void jw_int(struct jw *w, int64_t v)
{
    before(w);
    str_addf(w->out, "%" PRId64, v);
}

void jw_uint(struct jw *w, uint64_t v)
{
    before(w);
    str_addf(w->out, "%" PRIu64, v);
}

void json_number(char out[32], double v)
{
    if (fabs(v) < 1e15 && v == floor(v)) { // counts and sizes read better without an exponent
        snprintf(out, 32, "%.0f", v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            return;
    }
}

void jw_double(struct jw *w, double v)
{
    before(w);
    if (!isfinite(v)) {
        str_add(w->out, "null");
        return;
    }
    char text[32];
    json_number(text, v);
    str_add(w->out, text);
}

void jw_bool(struct jw *w, bool v)
{
    before(w);
    str_add(w->out, v ? "true" : "false");
}

void jw_null(struct jw *w)
{
    before(w);
    str_add(w->out, "null");
}

void jw_raw(struct jw *w, const char *document)
{
    before(w);
    str_add(w->out, document);
}

int jw_finish(struct jw *w, struct error *err)
{
    if (w->failed || w->depth || w->after_key)
        return error_set(err, ERR_INTERNAL, NULL, "a JSON document was put together wrongly");
    return str_check(w->out, err);
}

void jw_kv_string(struct jw *w, const char *key, const char *s)
{
    jw_key(w, key);
    jw_string(w, s);
}

void jw_kv_int(struct jw *w, const char *key, int64_t v)
{
    jw_key(w, key);
    jw_int(w, v);
}

void jw_kv_uint(struct jw *w, const char *key, uint64_t v)
{
    jw_key(w, key);
    jw_uint(w, v);
}

void jw_kv_double(struct jw *w, const char *key, double v)
{
    jw_key(w, key);
    jw_double(w, v);
}

void jw_kv_bool(struct jw *w, const char *key, bool v)
{
    jw_key(w, key);
    jw_bool(w, v);
}

void jw_kv_null(struct jw *w, const char *key)
{
    jw_key(w, key);
    jw_null(w);
}

void jw_kv_slice(struct jw *w, const char *key, struct slice s)
{
    jw_key(w, key);
    if (s.size)
        jw_string_n(w, (const char *)s.data, s.size);
    else
        jw_null(w);
}

// The library's words for a fault; one of them names an option of its own.
static const char *fault(const json_error_t *je)
{
    return strstr(je->text, "JSON_ALLOW_NUL") ? "\\u0000 is not allowed in a text" : je->text;
}

// The end of the number that begins at `at`.
static const char *number_end(const char *at, const char *end)
{
    while (at < end && *at && strchr("+-.eE0123456789", *at))
        at++;
    return at;
}

static bool is_beyond_jansson(const char *digits, size_t n)
{
    char text[24];
    uint64_t v;
    snprintf(text, sizeof text, "%.*s", n < sizeof text ? (int)n : 0, digits);
    return *text != '0' && parse_u64(text, &v) && v > INT64_MAX;
}

// Whether a colon follows: a key without quotes is a fault, which must stay one.
static bool is_key(const char *at, const char *end)
{
    while (at < end && *at && strchr(" \t\r\n", *at))
        at++;
    return at < end && *at == ':';
}

// Where the only fault may be an integer that is too large: the same text with quotes around those up to 2^64-1.
static json_t *parse_large(const char *text, size_t n, json_error_t *je)
{
    struct str quoted;
    const char *end = text + n;
    bool inside = false;
    str_init(&quoted);
    for (const char *at = text; at < end;) {
        const char *next = inside || !strchr("0123456789-", *at) || !*at ? at + 1 : number_end(at, end);
        bool large = !inside && is_beyond_jansson(at, (size_t)(next - at)) && !is_key(next, end);
        if (*at == '"')
            inside = !inside;
        if (inside && *at == '\\' && next < end)
            next++;
        str_add(&quoted, large ? "\"" : "");
        str_add_n(&quoted, at, (size_t)(next - at));
        str_add(&quoted, large ? "\"" : "");
        at = next;
    }
    json_t *root = quoted.failed ? NULL : json_loadb(str_text(&quoted), quoted.length, LOAD_FLAGS, je);
    str_release(&quoted);
    return root;
}

json_t *json_parse(const char *text, size_t n, const char *name, struct error *err)
{
    json_error_t je;
    json_t *root = json_loadb(text, n, LOAD_FLAGS, &je);
    if (!root && json_error_code(&je) == json_error_numeric_overflow)
        root = parse_large(text, n, &je);
    size_t blanks = 0;
    while (!root && blanks < n && strchr(" \t\r\n", text[blanks]) && text[blanks])
        blanks++;
    if (!root && blanks == n)
        error_set(err, ERR_INPUT, name, "not valid JSON: it is empty");
    else if (!root)
        error_set(err, ERR_INPUT, name, "not valid JSON at line %d, column %d: %s", je.line, je.column, fault(&je));
    return root;
}

bool json_is_uint64(const json_t *v, uint64_t *out)
{
    if (json_is_integer(v))
        *out = (uint64_t)json_integer_value(v);
    return json_is_integer(v) ? json_integer_value(v) >= 0
                              : json_is_string(v) && is_beyond_jansson(json_string_value(v), json_string_length(v)) &&
                                    parse_u64(json_string_value(v), out);
}

static int missing(const json_t *o, const char *key, const char *where, const char *kind, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    return error_set(err, ERR_INPUT, where, v ? "\"%s\" must be %s" : "\"%s\" is missing (%s)", key, kind);
}

int json_get_string(const json_t *o, const char *key, const char *where, const char **out, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_string(v))
        return missing(o, key, where, "a string", err);
    *out = json_string_value(v);
    return 0;
}

int json_get_int(const json_t *o, const char *key, const char *where, int64_t *out, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v))
        return missing(o, key, where, "an integer", err);
    *out = json_integer_value(v);
    return 0;
}

int json_get_double(const json_t *o, const char *key, const char *where, double *out, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v))
        return missing(o, key, where, "a number", err);
    *out = json_number_value(v);
    return 0;
}

int json_get_int_or(const json_t *o, const char *key, const char *where, int64_t absent, int64_t *out,
                    struct error *err)
{
    if (!json_object_get(o, key)) {
        *out = absent;
        return 0;
    }
    return json_get_int(o, key, where, out, err);
}

int json_get_positive(const json_t *o, const char *key, const char *where, int64_t absent, int64_t most, int64_t *out,
                      struct error *err)
{
    int rc = absent > 0 ? json_get_int_or(o, key, where, absent, out, err) : json_get_int(o, key, where, out, err);
    if (!rc && (*out < 1 || *out > most))
        rc = error_set(err, ERR_INPUT, where, "\"%s\" is %" PRId64 ": it must be between 1 and %" PRId64, key, *out,
                       most);
    return rc;
}

int json_get_double_or(const json_t *o, const char *key, const char *where, double absent, double *out,
                       struct error *err)
{
    if (!json_object_get(o, key)) {
        *out = absent;
        return 0;
    }
    return json_get_double(o, key, where, out, err);
}
