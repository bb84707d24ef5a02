// SPDX-License-Identifier: Apache-2.0
// The precision document as people read it, its figures, and how a stale one is seen.
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "precision_document.h"
#include "report/precision.h"
#include "report/precision_figures.h"
#include "report/report.h"
#include "report/stale.h"
#include "report/width.h"
#include "test.h"

#define HOSTILE "\x1b[31m<script>|`\n\"\\\xe2\x80\xae"
static const char sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static json_t *document(const char *name)
{
    struct precision p;
    struct precision_options o = {0};
    struct str text;
    struct error err = {0};
    json_t *doc = NULL;
    str_init(&text);
    if (precision_document_fill(&p, &o, name) && precision_document_text(&p, &text))
        doc = json_parse(text.text, text.length, "document", &err);
    precision_close(&p);
    str_release(&text);
    CHECK(doc != NULL);
    return doc;
}

static bool fits(const char *text, size_t width)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        if (text_width(p, n) > width) {
            printf("    %.*s\n", (int)n, p);
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            if ((unsigned char)p[i] < 0x20)
                return false;
        }
        p += n + (p[n] == '\n');
    }
    return true;
}

TEST(report_precision_text_fits_and_is_clean)
{
    json_t *doc = document(HOSTILE);
    struct error err = {0};
    REQUIRE(doc);
    for (size_t width = 20; width <= 140; width += 12) {
        struct str out;
        str_init(&out);
        REQUIRE_OK(report_render(&out, doc, NULL, REPORT_TEXT, width, false, &err), &err);
        CHECK(fits(str_text(&out), width));
        str_release(&out);
    }
    json_decref(doc);
}

TEST(report_precision_says_what_it_holds)
{
    json_t *doc = document("plain");
    struct str out;
    struct error err = {0};
    REQUIRE(doc);
    static const char *const expected[] = {"synthetic",
                                           "0.5000",
                                           "16,384 B",
                                           "all 2 checks hold",
                                           "near enough",
                                           "note: plain",
                                           "failed: no such product: plain",
                                           "lowered: as plain"};
    str_init(&out);
    REQUIRE_OK(report_render(&out, doc, NULL, REPORT_TEXT, 0, false, &err), &err);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        if (!CHECK(strstr(str_text(&out), expected[i]) != NULL))
            printf("    %s\n", expected[i]);
    }
    str_clear(&out);
    REQUIRE_OK(report_render(&out, doc, NULL, REPORT_CSV, 0, false, &err), &err);
    // near has two references, broken has two, failed none: a row each, after the header.
    size_t lines = 0;
    for (const char *p = str_text(&out); *p; p++)
        lines += *p == '\n';
    CHECK_INT(lines, 6);
    CHECK(strstr(str_text(&out), "synthetic,plain,near,balanced,int8/channel,") != NULL);
    // A check that does not hold is seen.
    json_t *check = json_array_get(
        json_object_get(json_array_get(json_object_get(json_object_get(doc, "result"), "suites"), 0), "checks"), 0);
    json_object_set_new(check, "ok", json_false());
    str_clear(&out);
    REQUIRE_OK(report_render(&out, doc, NULL, REPORT_TEXT, 0, false, &err), &err);
    CHECK(strstr(str_text(&out), "1 of 2 checks does NOT hold") != NULL);
    str_release(&out);
    json_decref(doc);
}

TEST(report_precision_pages_escape_what_they_show)
{
    json_t *doc = document(HOSTILE);
    struct str out;
    struct error err = {0};
    REQUIRE(doc);
    str_init(&out);
    REQUIRE_OK(report_render(&out, doc, sha256, REPORT_HTML, 0, false, &err), &err);
    CHECK(strstr(str_text(&out), "<script") == NULL && strchr(str_text(&out), '\x1b') == NULL);
    CHECK(strstr(str_text(&out), "<svg") != NULL && strstr(str_text(&out), sha256) != NULL);
    str_clear(&out);
    REQUIRE_OK(report_render(&out, doc, NULL, REPORT_MARKDOWN, 0, false, &err), &err);
    CHECK(strchr(str_text(&out), '\x1b') == NULL);
    for (const char *p = str_text(&out); (p = strstr(p, "<script")); p++)
        CHECK(p[-1] == '\\'); // escaped
    str_release(&out);
    json_decref(doc);
}

// A picture is drawn from the document: another number, another picture.
TEST(report_precision_figures_are_drawn_from_the_document)
{
    json_t *doc = document("plain");
    struct str first, second;
    struct error err = {0};
    char name[64];
    REQUIRE(doc);
    str_init(&first);
    str_init(&second);
    const json_t *suite = json_array_get(json_object_get(json_object_get(doc, "result"), "suites"), 0);
    CHECK(precision_figure_value(suite, "near", "measures/f64/max_abs") == 0.5);
    CHECK(precision_figure_value(suite, "near", "measures/plain/max_abs") == 0);
    CHECK(precision_figure_value(suite, "near", "stored/codes") == 100);
    CHECK(precision_figure_value(suite, "near", "stored/scales") == 20);
    CHECK(precision_figure_value(suite, "near", "clipped") == 3);
    CHECK(precision_figure_value(suite, "near", "facts/ratio") == 2.5);
    CHECK(isnan(precision_figure_value(suite, "near", "facts/lowered")));
    CHECK(isnan(precision_figure_value(suite, "nothing", "clipped")));
    CHECK(isnan(precision_figure_value(suite, "near", "measures/f64")));
    CHECK_INT(report_precision_figures(doc), 2);
    REQUIRE_OK(report_precision_figure(&first, name, doc, 0, sha256, &err), &err);
    CHECK_STR(name, "synthetic-all");
    CHECK(strstr(str_text(&first), REPORT_STALE_MARK) != NULL && strstr(str_text(&first), sha256) != NULL);
    CHECK(strncmp(str_text(&first), "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39) == 0);
    json_t *stored = json_object_get(json_array_get(json_object_get(suite, "cases"), 0), "stored");
    json_object_set_new(json_object_get(stored, "codes"), "value", json_real(50));
    REQUIRE_OK(report_precision_figure(&second, name, doc, 0, sha256, &err), &err);
    CHECK(strcmp(str_text(&first), str_text(&second)) != 0);
    str_clear(&second);
    REQUIRE_OK(report_precision_figure(&second, name, doc, 1, sha256, &err), &err);
    CHECK_INT(second.length, 0); // it has no panels
    str_release(&first);
    str_release(&second);
    json_decref(doc);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[1200];
    struct error err = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (file_write(path, text, strlen(text), &err))
        test_fail_error(__FILE__, __LINE__, "file_write", err.where, err.message);
}

TEST(report_stale_pictures_are_named)
{
    char figures[1200], fresh[200], other[200];
    struct str names;
    struct error err = {0};
    size_t n;
    snprintf(figures, sizeof figures, "%s/figures", test_dir());
    snprintf(fresh, sizeof fresh, "<svg><text>%s%s</text></svg>", REPORT_STALE_MARK, sha256);
    snprintf(other, sizeof other, "<svg><text>%s%s</text></svg>", REPORT_STALE_MARK, sha256 + 1);
    str_init(&names);
    REQUIRE_OK(report_stale(&names, &n, test_dir(), sha256, &err), &err);
    CHECK_INT(n, 0); // nothing is there
    REQUIRE(mkdir(figures, 0777) == 0);
    put(figures, "a.svg", fresh);
    put(figures, "b.svg", other);
    put(figures, "c.svg", "<svg></svg>");
    put(figures, "c.txt", "no picture");
    put(test_dir(), "report.html", "<html>a page without a mark</html>");
    REQUIRE_OK(report_stale(&names, &n, test_dir(), sha256, &err), &err);
    CHECK_INT(n, 2);
    CHECK_STR(str_text(&names), "figures/b.svg\nfigures/c.svg\n");
    str_clear(&names);
    put(test_dir(), "report.html", other);
    REQUIRE_OK(report_stale(&names, &n, test_dir(), sha256, &err), &err);
    CHECK_INT(n, 3);
    str_release(&names);
}
