// SPDX-License-Identifier: Apache-2.0
// Any JSON as a result document. Every report of it is refused with a reason, or is text that fits its width, holds no
// control characters and, as HTML, no script. Inputs are changed as documents: values of other types, members that go.
#include "report/report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/width.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_lines(const char *text, size_t width)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        must(text_width(p, n) <= width);
        for (size_t i = 0; i < n; i++)
            must((unsigned char)p[i] >= 0x20 && p[i] != 0x7f);
        p += n + (p[n] == '\n');
    }
}

static void check(const json_t *doc, enum report_format format, size_t width)
{
    struct str out;
    struct error err = {0};
    char sha256[65];
    memset(sha256, 'a', 64);
    sha256[64] = '\0';
    str_init(&out);
    if (report_render(&out, doc, sha256, format, width, false, &err)) {
        must((err.code == ERR_INPUT || (err.code == ERR_USAGE && format == REPORT_CSV)) && err.message[0]);
    } else {
        must(out.length > 0 && strlen(str_text(&out)) == out.length);
        if (format == REPORT_TEXT)
            check_lines(str_text(&out), width);
        if (format == REPORT_HTML)
            must(!strstr(str_text(&out), "<script"));
    }
    str_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *doc = json_parse((const char *)data, size, "fuzz", NULL);
    if (!doc)
        return 0;
    check(doc, REPORT_TEXT, 20 + size % 101);
    check(doc, REPORT_MARKDOWN, 0);
    check(doc, REPORT_HTML, 0);
    check(doc, REPORT_CSV, 0);
    json_decref(doc);
    return 0;
}

// ---- changing a document

static unsigned draw(uint64_t *state, size_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return n ? (unsigned)((*state >> 33) % n) : 0;
}

static json_t *new_value(uint64_t *state)
{
    static const char *const documents[] = {
        "null",
        "true",
        "[]",
        "{}",
        "\"\"",
        "\"x\"",
        "0",
        "-1",
        "0.5",
        "1e308",
        "-1e308",
        "5e-324",
        "9223372036854775807",
        "-9223372036854775808",
        "\"\\u202e<script>\\u001b[31m|`\\n&\\u007f\"",
        "[[[[]]]]",
        "[1,\"a\",null,{}]",
        "{\"value\":1e300,\"unit\":\"B\",\"origin\":\"M\",\"source\":\"x\"}",
        "{\"value\":-0.0}",
        "{\"value\":[1e300,-1e300,0]}",
        "\"wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww\""};
    return json_loads(documents[draw(state, sizeof documents / sizeof *documents)], JSON_DECODE_ANY, NULL);
}

// A member or an element somewhere below `at` is replaced, removed, or repeated.
static void change(json_t *at, uint64_t *state)
{
    size_t n = json_is_array(at) ? json_array_size(at) : json_object_size(at), k = draw(state, n), i = 0;
    if (n == 0)
        return;
    const char *key = NULL;
    json_t *child = json_array_get(at, k);
    if (json_is_object(at)) {
        void *it = json_object_iter(at);
        while (i++ < k)
            it = json_object_iter_next(at, it);
        key = json_object_iter_key(it);
        child = json_object_iter_value(it);
    }
    bool has_children = json_array_size(child) + json_object_size(child) > 0;
    if (has_children && draw(state, 8) > 0) {
        change(child, state);
        return;
    }
    switch (draw(state, 4)) {
    case 0:
        key ? json_object_del(at, key) : json_array_remove(at, k);
        break;
    case 1:
        if (!key) {
            json_array_append_new(at, json_deep_copy(child));
            break;
        }
        // fall through
    default:
        key ? json_object_set_new(at, key, new_value(state)) : json_array_set_new(at, k, new_value(state));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint64_t state = seed;
    json_t *doc = draw(&state, 8) ? json_parse((const char *)data, size, "fuzz", NULL) : NULL;
    if (!json_is_object(doc) && !json_is_array(doc)) {
        json_decref(doc);
        return LLVMFuzzerMutate(data, size, max_size);
    }
    for (unsigned i = 1 + draw(&state, 4); i > 0; i--)
        change(doc, &state);
    char *text = json_dumps(doc, JSON_COMPACT);
    json_decref(doc);
    size_t n = text ? strlen(text) : 0;
    if (n > 0 && n <= max_size) {
        memcpy(data, text, n);
        size = n;
    }
    free(text);
    return size;
}
