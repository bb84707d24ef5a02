// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/str.h"
#include "report/format.h"
#include "report/qualify.h"
#include "report/width.h"
#include "schema.h"
#include "test.h"

static json_t *fixture(void)
{
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/tests/fixtures/report/qualify-synthetic.json", test_top());
    json_t *doc = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!doc)
        printf("  %s: %s\n", path, error.text);
    return doc;
}

TEST(report_qualify_fixture_follows_the_schema)
{
    json_t *doc = fixture();
    REQUIRE(doc);
    CHECK(schema_check_value("assay.qualify.1.json", doc));
    json_object_del(json_object_get(json_object_get(doc, "result"), "decision"), "require");
    json_t *schema = schema_load("assay.qualify.1.json");
    CHECK(!schema_allows(schema, schema, doc));
    json_decref(schema);
    json_decref(doc);
}

// As strcspn, but it reads no further: a sanitizer that checks strings has strcspn read the whole rest of the page.
static size_t until(const char *p, const char *stops)
{
    size_t n = 0;
    while (p[n] && !strchr(stops, p[n]))
        n++;
    return n;
}

// Bytes that no output may hold: control characters, bidi marks, and what is not UTF-8.
static bool clean(const char *text, bool color)
{
    size_t n = strlen(text), bad;
    if (!utf8_valid(text, n, &bad))
        return false;
    for (size_t i = 0; i < n;) {
        uint32_t c = 0;
        i += utf8_decode(text + i, n - i, &c);
        if (c == 0x1b && color && text[i] == '[') // our own colour: digits, ends in m
            i += strspn(text + i, "[0123456789;") + 1;
        else if ((c < 0x20 && c != '\n') || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
                 (c >= 0x2066 && c <= 0x2069))
            return false;
    }
    return true;
}

TEST(report_qualify_text_fits_every_width)
{
    json_t *doc = fixture();
    REQUIRE(doc);
    const size_t widths[] = {20, 40, 80, 120};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct error err = {0};
        struct str s;
        str_init(&s);
        REQUIRE_OK(report_qualify_text(&s, doc, widths[i], false, &err), &err);
        for (const char *p = str_text(&s); *p;) {
            size_t n = strcspn(p, "\n");
            if (!CHECK(text_width(p, n) <= widths[i]) || !CHECK(n == 0 || p[n - 1] != ' '))
                printf("  at width %zu: \"%.*s\"\n", widths[i], (int)n, p);
            p += n + (p[n] == '\n');
        }
        CHECK(clean(str_text(&s), false));
        str_release(&s);
    }
    json_decref(doc);
}

TEST(report_qualify_text_says_what_matters)
{
    json_t *doc = fixture();
    REQUIRE(doc);
    struct error err = {0};
    struct str s;
    str_init(&s);
    REQUIRE_OK(report_qualify_text(&s, doc, 120, true, &err), &err);
    CHECK(clean(str_text(&s), true));
    str_clear(&s);
    REQUIRE_OK(report_qualify_text(&s, doc, 0, false, &err), &err);
    const char *chosen =
        json_string_value(json_object_get(json_object_get(json_object_get(doc, "result"), "decision"), "chosen"));
    char headline[128];
    snprintf(headline, sizeof headline, "%s is the cheapest policy that meets the requirement", chosen);
    CHECK(strstr(str_text(&s), headline) != NULL);
    CHECK(strstr(str_text(&s), "failed: the worker was killed by signal 6") != NULL);
    CHECK(strstr(str_text(&s), "yes, chosen") != NULL);
    CHECK(strstr(str_text(&s), "and takes 1.19 times as long (1.10 to 1.30); its program moves 97.3 MB a call") !=
          NULL);
    CHECK(strstr(str_text(&s), "  - 24 whole weights are made bf16 again in every call") != NULL);
    CHECK(strstr(str_text(&s), "46.7 us") != NULL && strstr(str_text(&s), "91.6 us") != NULL); // the compiler's band
    static const char *const parts[] = {"1. Workload", "2. Hardware",       "3. Precision policy",
                                        "4. Evidence", "5. Interpretation", "6. Scope"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        CHECK(strstr(str_text(&s), parts[i]) != NULL);
    CHECK(strstr(str_text(&s), "latency target: not known; to find out: assay qualify model --require") != NULL);
    CHECK(strstr(str_text(&s), " and others\n") != NULL); // 24, of which one is named
    CHECK(strstr(str_text(&s), "assay qualify model --text texts --policy f32 --policy w4a16 --batch 8") != NULL);
    CHECK(strstr(str_text(&s), "\nrecord: runs/synthetic") != NULL);
    str_clear(&s);
    json_t *decision = json_object_get(json_object_get(doc, "result"), "decision");
    json_object_set_new(decision, "chosen", json_null());
    REQUIRE_OK(report_qualify_text(&s, doc, 0, false, &err), &err);
    CHECK(strstr(str_text(&s), "no policy meets the requirement") != NULL);
    json_object_set_new(decision, "require", json_null());
    str_clear(&s);
    REQUIRE_OK(report_qualify_text(&s, doc, 0, false, &err), &err);
    CHECK(strstr(str_text(&s), "no requirement was set") != NULL);
    str_release(&s);
    json_decref(doc);
}

static size_t cells_of(const char *line, size_t n)
{
    size_t pipes = 0;
    for (size_t i = 0; i < n; i++) {
        if (line[i] == '\\')
            i++;
        else if (line[i] == '|')
            pipes++;
    }
    return pipes;
}

// Every row of a table has as many cells as its heading, and nothing outside an indented block is HTML.
static bool markdown_well_formed(const char *text)
{
    size_t cells = 0;
    bool ok = true;
    while (*text) {
        size_t n = until(text, "\n");
        bool row = *text == '|', code = n >= 4 && memcmp(text, "    ", 4) == 0;
        size_t here = cells_of(text, n);
        if (row && cells && here != cells)
            ok = false;
        for (size_t i = 0; i < n && !code; i++)
            ok &= text[i] != '<' || (i > 0 && text[i - 1] == '\\');
        cells = row ? here : 0;
        if (!ok) {
            printf("  \"%.*s\"\n", (int)n, text);
            return false;
        }
        text += n + (text[n] == '\n');
    }
    return ok;
}

TEST(report_qualify_markdown_is_well_formed)
{
    json_t *doc = fixture();
    REQUIRE(doc);
    struct error err = {0};
    struct str s;
    str_init(&s);
    REQUIRE_OK(report_qualify_markdown(&s, doc, &err), &err);
    CHECK(clean(str_text(&s), false));
    CHECK(markdown_well_formed(str_text(&s)));
    CHECK(strstr(str_text(&s), "no int8 rate is published for tpu7x") != NULL); // why a value is null
    str_release(&s);
    json_decref(doc);
}

// ---- A small HTML check: every tag closed in order, attributes quoted, only the elements we use.
static bool is_void(const char *name)
{
    return strcmp(name, "meta") == 0 || strcmp(name, "br") == 0;
}

static bool known(const char *name)
{
    static const char words[] =
        " html head meta title style body main p h1 h2 h3 div section nav a b i span code pre ul "
        "ol li table thead tbody tr th td sup figure footer svg desc g line rect text circle "
        "polygon path ";
    char word[32];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(words, word) != NULL;
}

struct html {
    const char *at;
    char stack[64][16];
    int depth;
    bool in_svg;
    const char *problem;
    size_t numbers; // seen in SVG attributes
};

static bool all_finite(const char *value, size_t n, size_t *count)
{
    char text[65536];
    if (n >= sizeof text)
        return true; // a path of thousands of dots: the first tests cover the writer
    memcpy(text, value, n);
    text[n] = '\0';
    for (char *p = text; *p;) {
        if (strchr("Mhvlz, ()", *p) || strncmp(p, "rotate", 6) == 0) {
            p += *p == 'r' ? 6 : 1;
            continue;
        }
        char *end;
        double v = strtod(p, &end);
        if (end == p || !isfinite(v))
            return false;
        (*count)++;
        p = end;
    }
    return true;
}

static void attribute(struct html *h, const char *name, size_t name_n, const char *value, size_t n)
{
    static const char *const numeric[] = {"x", "y",     "x1",     "x2",     "y1", "y2",      "cx",       "cy",
                                          "r", "width", "height", "points", "d",  "viewBox", "transform"};
    if (name_n > 2 && memcmp(name, "on", 2) == 0)
        h->problem = "an event handler";
    if (name_n == 4 && memcmp(name, "href", 4) == 0 && *value != '#')
        h->problem = "a link out of the page";
    if (name_n == 3 && memcmp(name, "src", 3) == 0)
        h->problem = "something is loaded";
    for (size_t i = 0; h->in_svg && i < sizeof numeric / sizeof *numeric; i++)
        if (strlen(numeric[i]) == name_n && memcmp(numeric[i], name, name_n) == 0 && !all_finite(value, n, &h->numbers))
            h->problem = "a number that is none";
}

static void tag(struct html *h)
{
    bool closing = h->at[1] == '/';
    const char *p = h->at + 1 + closing;
    char name[16] = "";
    size_t n = until(p, " />");
    if (n == 0 || n >= sizeof name) {
        h->problem = "no tag name";
        return;
    }
    memcpy(name, p, n);
    if (!known(name))
        h->problem = "an element that we do not write";
    if (strcmp(name, "svg") == 0)
        h->in_svg = !closing;
    for (p += n; *p && *p != '>' && *p != '/';) {
        if (*p == ' ') {
            p++;
            continue;
        }
        size_t k = until(p, "=> /");
        if (k == 0 || p[k] != '=' || p[k + 1] != '"') {
            h->problem = "an attribute without a name or quotes";
            return;
        }
        const char *value = p + k + 2;
        size_t v = until(value, "\"<");
        if (value[v] != '"') {
            h->problem = "an attribute that does not end";
            return;
        }
        attribute(h, p, k, value, v);
        p = value + v + 1;
    }
    bool empty = *p == '/';
    p += empty;
    if (*p != '>') {
        h->problem = "a tag that does not end";
        return;
    }
    if (closing) {
        if (h->depth == 0 || strcmp(h->stack[h->depth - 1], name) != 0)
            h->problem = "a closing tag that does not match";
        else
            h->depth--;
    } else if (!empty && !is_void(name)) {
        if (h->depth == 64)
            h->problem = "nested too deep";
        else
            memcpy(h->stack[h->depth++], name, sizeof name);
    }
    h->at = p + 1;
}

static bool html_well_formed(const char *text, size_t *numbers)
{
    static const char doctype[] = "<!DOCTYPE html>";
    struct html h = {.at = text};
    if (strncmp(text, doctype, sizeof doctype - 1) != 0)
        return false;
    h.at += sizeof doctype - 1;
    while (*h.at && !h.problem) {
        const char *before = h.at;
        if (*h.at == '<')
            tag(&h);
        else if (*h.at == '>' && h.depth && strcmp(h.stack[h.depth - 1], "style") != 0)
            h.problem = "a bare >";
        else
            h.at++;
        if (h.problem)
            printf("  %s at \"%.60s\"\n", h.problem, before);
    }
    *numbers = h.numbers;
    return !h.problem && h.depth == 0;
}

TEST(report_qualify_html_is_well_formed)
{
    json_t *doc = fixture();
    REQUIRE(doc);
    struct error err = {0};
    struct str s;
    size_t numbers = 0;
    str_init(&s);
    REQUIRE_OK(report_qualify_html(&s, doc, NULL, &err), &err);
    const char *page = str_text(&s);
    CHECK(clean(page, false));
    CHECK(html_well_formed(page, &numbers));
    CHECK(numbers > 1000); // the charts are there
    CHECK(strstr(page, "<script") == NULL && strstr(page, "://") == NULL);
    const char *charts[] = {"<title>Error by policy",         "<title>Stored bytes by policy",
                            "<title>Latency of every sample", "<title>Error against time",
                            "<title>Top-1 agreement",         "<title>Roofline of v5e",
                            "<title>Roofline of local"};
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
        if (!CHECK(strstr(page, charts[i]) != NULL))
            printf("  %s\n", charts[i]);
    str_release(&s);
    json_decref(doc);
}

TEST(report_qualify_html_draws_every_sample)
{
    json_t *doc = fixture();
    REQUIRE(doc);
    struct error err = {0};
    struct str s;
    str_init(&s);
    REQUIRE_OK(report_qualify_html(&s, doc, NULL, &err), &err);
    size_t dots = 0, samples = 0, i;
    for (const char *p = str_text(&s); (p = strstr(p, "h0")); p += 2)
        dots += p[2] == 'M' || p[2] == '"';
    json_t *policy;
    json_array_foreach(json_object_get(json_object_get(doc, "result"), "policies"), i, policy)
    {
        json_t *q = json_object_get(json_object_get(policy, "measured"), "samples_ms");
        samples += json_array_size(json_object_get(q, "value"));
    }
    CHECK(samples > 100);
    CHECK_INT(dots, samples);
    str_release(&s);
    json_decref(doc);
}

TEST(report_qualify_refuses_other_documents)
{
    const char *const bad[] = {"{}",
                               "[]",
                               "null",
                               "{\"schema\": \"assay.price/1\", \"result\": {}}",
                               "{\"schema\": \"assay.qualify/1\"}",
                               "{\"schema\": 1, \"result\": {}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *doc = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        struct error err = {0};
        struct str s;
        str_init(&s);
        CHECK_INT(report_qualify_text(&s, doc, 80, false, &err), ERR_INPUT);
        CHECK_INT(report_qualify_markdown(&s, doc, &err), ERR_INPUT);
        CHECK_INT(report_qualify_html(&s, doc, NULL, &err), ERR_INPUT);
        CHECK_STR(str_text(&s), "");
        str_release(&s);
        json_decref(doc);
    }
}

// ---- Whatever a member is replaced with, all three forms still come out whole.
static int render_all(const json_t *doc, const char *what)
{
    struct error err = {0};
    struct str s;
    size_t numbers;
    str_init(&s);
    bool ok = report_qualify_text(&s, doc, 60, false, &err) == 0 && clean(str_text(&s), false);
    str_clear(&s);
    ok &= report_qualify_markdown(&s, doc, &err) == 0 && markdown_well_formed(str_text(&s));
    str_clear(&s);
    ok &= report_qualify_html(&s, doc, NULL, &err) == 0 && html_well_formed(str_text(&s), &numbers);
    if (!ok)
        printf("  with %s changed: %s %s\n", what, err.where, err.message);
    str_release(&s);
    return ok;
}

static int replacements;

static void replace_each(json_t *doc, json_t *node, const char *path)
{
    static const char *const values[] = {"null", "\"\\u001b<x>|\"", "-1e308", "[]", "{}"};
    const char *key;
    json_t *child;
    void *next;
    json_object_foreach_safe(node, next, key, child)
    {
        if (strcmp(path, "") == 0 && (strcmp(key, "schema") == 0 || strcmp(key, "result") == 0)) {
            replace_each(doc, child, key);
            continue;
        }
        char name[512];
        snprintf(name, sizeof name, "%s.%s", path, key);
        json_incref(child);
        // One replacement of each kind in turn: all of them everywhere would only repeat the same paths.
        const char *value = values[replacements++ % 5];
        json_object_set_new(node, key, json_loads(value, JSON_DECODE_ANY, NULL));
        CHECK(render_all(doc, name));
        json_object_set_new(node, key, child);
        replace_each(doc, child, name);
    }
    for (size_t i = 0; i < json_array_size(node) && i < 2; i++)
        replace_each(doc, json_array_get(node, i), path);
}

TEST(report_qualify_survives_any_member)
{
    json_t *doc = fixture();
    REQUIRE(doc);
    replace_each(doc, doc, "");
    CHECK(replacements > 300);
    static const double counts[] = {1e300, -1e308, 1e-300, 0.5, 0, 999999};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        json_t *workload = json_object_get(json_object_get(doc, "result"), "workload");
        REQUIRE(json_object_set_new(workload, "parameters", json_real(counts[i])) == 0);
        CHECK(render_all(doc, "workload.parameters"));
    }
    json_decref(doc);
}
