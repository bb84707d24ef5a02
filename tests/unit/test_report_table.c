// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <string.h>

#include "report/format.h"
#include "report/table.h"
#include "report/width.h"
#include "test.h"

TEST(report_width_of_characters)
{
    CHECK_INT(text_width("abc", 3), 3);
    CHECK_INT(text_width("e\xcc\x81", 3), 1);                    // e with a combining acute
    CHECK_INT(text_width("\xe6\xbc\xa2\xe5\xad\x97", 6), 4);     // two CJK characters
    CHECK_INT(text_width("\xf0\x9f\x98\x80", 4), 2);             // an emoji
    CHECK_INT(text_width("\xff\xfe", 2), 2);                     // not UTF-8
    CHECK_INT(text_prefix("\xe6\xbc\xa2\xe5\xad\x97", 6, 3), 3); // half a wide character does not fit
    CHECK_INT(text_prefix("e\xcc\x81x", 4, 1), 3);               // the mark stays with its letter
}

TEST(report_width_lines)
{
    size_t next;
    CHECK_INT(text_line("alpha beta gamma", 16, 11, &next), 10);
    CHECK_INT(next, 11);
    CHECK_INT(text_line("alpha beta", 10, 5, &next), 5);
    CHECK_INT(next, 6);
    CHECK_INT(text_line("abcdefgh", 8, 3, &next), 3);
    CHECK_INT(next, 3);
    CHECK_INT(text_line("\xe6\xbc\xa2x", 4, 1, &next), 3);
    CHECK_INT(next, 3);
    CHECK_INT(text_line("", 0, 5, &next), 0);
}

static const char *number(double v, int digits)
{
    static char out[FORMAT_MAX];
    format_number(out, v, digits);
    return out;
}

static const char *quantity(double v, const char *unit)
{
    static char out[FORMAT_MAX];
    format_quantity(out, quantity_make(v, unit, ORIGIN_DERIVED, "test"));
    return out;
}

TEST(report_format_numbers)
{
    CHECK_STR(number(0, 3), "0");
    CHECK_STR(number(1.2, 3), "1.20");
    CHECK_STR(number(9.996, 3), "10.0");
    CHECK_STR(number(1234.5, 3), "1234");
    CHECK_STR(number(0.000123456, 3), "0.000123");
    CHECK_STR(number(0.0000123456, 3), "1.23e-5");
    CHECK_STR(number(-0.5, 2), "-0.50");
    CHECK_STR(number(NAN, 3), FORMAT_NULL);
    CHECK_STR(number(INFINITY, 3), FORMAT_NULL);
    char out[FORMAT_MAX];
    format_count(out, 22713216);
    CHECK_STR(out, "22,713,216");
    format_count(out, -1000);
    CHECK_STR(out, "-1,000");
    format_count(out, 999);
    CHECK_STR(out, "999");
}

TEST(report_format_share_never_rounds_up_to_one)
{
    char out[FORMAT_MAX];
    const struct {
        double value;
        const char *shown;
    } cases[] = {
        {1, "1"},
        {0.99999999999, "0.9999999"},
        {0.9996, "0.99960"},
        {0.999, "0.9990"},
        {0.98, "0.980"},
        {0.5, "0.500"},
        {0, "0.000"},
        {-0.25, "-0.250"},
        {NAN, FORMAT_NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        format_share(out, cases[i].value);
        CHECK_STR(out, cases[i].shown);
    }
    format_exponent(out, 0.0029, 3);
    CHECK_STR(out, "2.90e-3");
    format_exponent(out, 0, 3);
    CHECK_STR(out, "0");
}

TEST(report_format_units)
{
    CHECK_STR(quantity(90868376, "B"), "90.9 MB");
    CHECK_STR(quantity(512, "B"), "512 B");
    CHECK_STR(quantity(999600, "B"), "1.00 MB"); // not 1000 kB
    CHECK_STR(quantity(16, "GiB"), "16.0 GiB");
    CHECK_STR(quantity(0.5, "GiB"), "512 MiB");
    CHECK_STR(quantity(0.5, "GB"), "500 MB");
    CHECK_STR(quantity(149.7, "us"), "150 us");
    CHECK_STR(quantity(1234, "us"), "1.23 ms");
    CHECK_STR(quantity(0.9999, "ms"), "1.00 ms");
    CHECK_STR(quantity(75, "s"), "75.0 s");
    CHECK_STR(quantity(2.9e9, "FLOP"), "2.90 GFLOP");
    CHECK_STR(quantity(918, "TFLOP/s"), "918 TFLOP/s");
    CHECK_STR(quantity(1640, "GB/s"), "1.64 TB/s");
    CHECK_STR(quantity(53.9, "FLOP/B"), "53.9 FLOP/B");
    CHECK_STR(quantity(74.04, "items/s"), "74.0 items/s");
    CHECK_STR(quantity(52.04, "dB"), "52.0 dB");
    CHECK_STR(quantity(0.998, "1"), "0.998");
    CHECK_STR(quantity(NAN, "B"), FORMAT_NULL);
    CHECK_STR(quantity(0, "B"), "0 B");
    // Past the prefixes the unit still stands.
    CHECK_STR(quantity(1e300, "B"), "1.00e282 EB");
    CHECK_STR(quantity(-1e308, "s"), "-1.00e308 s");
    CHECK_STR(quantity(1e-300, "s"), "1.00e-288 ps");
}

TEST(report_format_column_shares_a_unit)
{
    double bytes[] = {90868376, 45434188, 22813000, NAN, 11.9e6};
    struct scale s = scale_pick(bytes, 5, "B");
    char out[FORMAT_MAX];
    scale_name(out, s);
    CHECK_STR(out, "MB");
    format_scaled(out, bytes[0], s, 3);
    CHECK_STR(out, "90.9");
    format_scaled(out, bytes[3], s, 3);
    CHECK_STR(out, FORMAT_NULL);
    double ms[] = {0.0123, 0.5, 0.7};
    s = scale_pick(ms, 3, "ms");
    scale_name(out, s);
    CHECK_STR(out, "us");
    format_scaled(out, ms[1], s, 3);
    CHECK_STR(out, "500");
    s = scale_pick(NULL, 0, "dB");
    scale_name(out, s);
    CHECK_STR(out, "dB");
}

#define RULE "\xe2\x94\x80"
#define R7   RULE RULE RULE RULE RULE RULE RULE

static void fill(struct table *t)
{
    table_init(t);
    table_column(t, "policy", NULL, TABLE_LEFT, 0);
    table_column(t, "note", NULL, TABLE_LEFT, 3);
    table_column(t, "p50", "ms", TABLE_RIGHT, 1);
    table_origin(t, 'M');
    table_column(t, "stored bytes", "MB", TABLE_RIGHT, 2);
    table_row(t);
    table_cell(t, "f32");
    table_cell(t, "a text of several words that wraps");
    table_number(t, 12.3456, "12.3");
    table_null(t, "not measured here");
    table_row(t);
    table_cell(t, "w8|\x1b[31m=\xe6\xbc\xa2");
    table_span(t, "failed: killed by signal 6 while compiling");
    table_style(t, TABLE_BAD);
}

// Every line fits, and none ends in a space.
static void check_lines(const char *text, size_t width)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (!CHECK(text_width(text, n) <= width) || !CHECK(n == 0 || text[n - 1] != ' '))
            printf("  at width %zu: \"%.*s\"\n", width, (int)n, text);
        text += n + (text[n] == '\n');
    }
}

TEST(report_table_fits_every_width)
{
    struct table t;
    struct error err = {0};
    fill(&t);
    for (size_t width = 1; width <= 130; width++) {
        struct str s;
        str_init(&s);
        REQUIRE_OK(table_print(&t, &s, TABLE_TEXT, width, false, &err), &err);
        check_lines(str_text(&s), width);
        CHECK(strchr(str_text(&s), '\x1b') == NULL);
        str_release(&s);
    }
    table_release(&t);
}

TEST(report_table_text)
{
    struct table t;
    struct error err = {0};
    struct str s;
    str_init(&s);
    fill(&t);
    REQUIRE_OK(table_print(&t, &s, TABLE_TEXT, 0, false, &err), &err);
    CHECK_STR(str_text(&s),
              "policy          note                                p50 ms [M]  stored bytes MB\n" R7 R7
              "  " R7 R7 R7 R7 RULE RULE RULE RULE RULE RULE "  " R7 RULE RULE RULE "  " R7 R7 RULE "\n"
              "f32             a text of several words that wraps        12.3               \xe2\x80\x93\xc2\xb9\n"
              "w8|\\x1b[31m=\xe6\xbc\xa2  failed: killed by signal 6 while compiling\n"
              "\xc2\xb9 not measured here\n");
    str_clear(&s);
    REQUIRE_OK(table_print(&t, &s, TABLE_TEXT, 30, false, &err), &err);
    CHECK(strstr(str_text(&s), "not shown at this width: note\n") != NULL);
    CHECK(strstr(str_text(&s), "12.3") != NULL);
    CHECK(strstr(str_text(&s), "\n  failed: killed by signal 6\n") != NULL); // no room beside the name
    str_clear(&s);
    REQUIRE_OK(table_print(&t, &s, TABLE_TEXT, 80, true, &err), &err);
    CHECK(strstr(str_text(&s), "\x1b[31mfailed: killed") != NULL);
    CHECK(strstr(str_text(&s), "w8|\x1b") == NULL);
    str_release(&s);
    table_release(&t);
}

// A column of marks without a title takes no room where nothing is marked, at any width, and is not said to be missing.
TEST(report_table_unmarked)
{
    struct error err = {0};
    struct str s;
    str_init(&s);
    for (int marked = 0; marked < 2; marked++) {
        struct table t;
        table_init(&t);
        table_column(&t, "a", NULL, TABLE_LEFT, 0);
        table_column(&t, "", NULL, TABLE_LEFT, 0);
        table_column(&t, "b", NULL, TABLE_LEFT, 0);
        table_row(&t);
        table_cell(&t, "x");
        table_cell(&t, marked ? "!" : "");
        table_cell(&t, "y");
        str_clear(&s);
        REQUIRE_OK(table_print(&t, &s, TABLE_TEXT, 40, false, &err), &err);
        CHECK(strstr(str_text(&s), marked ? "\nx  !  y\n" : "\nx  y\n") != NULL);
        CHECK(strstr(str_text(&s), "not shown") == NULL);
        table_release(&t);
    }
    str_release(&s);
}

TEST(report_table_markdown_csv_html)
{
    struct table t;
    struct error err = {0};
    struct str s;
    str_init(&s);
    fill(&t);
    REQUIRE_OK(table_print(&t, &s, TABLE_MARKDOWN, 0, true, &err), &err);
    CHECK_STR(str_text(&s),
              "| policy | note | p50 (ms) \\[M\\] | stored bytes (MB) |\n"
              "| --- | --- | ---: | ---: |\n"
              "| f32 | a text of several words that wraps | 12.3 | \xe2\x80\x93\xc2\xb9 |\n"
              "| w8\\|\xef\xbf\xbd\\[31m=\xe6\xbc\xa2 | failed: killed by signal 6 while compiling | | |\n"
              "\n\xc2\xb9 not measured here\n");
    str_clear(&s);
    REQUIRE_OK(table_print(&t, &s, TABLE_CSV, 0, false, &err), &err);
    CHECK_STR(str_text(&s), "policy,note,\"p50 (ms)\",\"stored bytes (MB)\"\r\n"
                            "f32,\"a text of several words that wraps\",12.3456,\r\n"
                            "w8|\\x1b[31m=\xe6\xbc\xa2,\"failed: killed by signal 6 while compiling\",,\r\n");
    str_clear(&s);
    REQUIRE_OK(table_print(&t, &s, TABLE_HTML, 0, false, &err), &err);
    CHECK(strstr(str_text(&s), "<td class=\"bad\" colspan=\"3\">failed: killed") != NULL);
    CHECK(strstr(str_text(&s), "<td class=\"r\">\xe2\x80\x93<sup>1</sup></td>") != NULL);
    CHECK(strchr(str_text(&s), '\x1b') == NULL);
    str_release(&s);
    table_release(&t);
}

TEST(report_table_csv_formula_is_text)
{
    struct table t;
    struct error err = {0};
    struct str s;
    str_init(&s);
    table_init(&t);
    table_column(&t, "name", NULL, TABLE_LEFT, 0);
    table_column(&t, "n", NULL, TABLE_RIGHT, 0);
    table_row(&t);
    table_cell(&t, "=HYPERLINK(\"x\")");
    table_number(&t, -1.5, NULL);
    REQUIRE_OK(table_print(&t, &s, TABLE_CSV, 0, false, &err), &err);
    CHECK_STR(str_text(&s), "name,n\r\n\"'=HYPERLINK(\"\"x\"\")\",-1.5\r\n");
    str_release(&s);
    table_release(&t);
}

TEST(report_table_misuse_is_an_error)
{
    struct table t;
    struct error err = {0};
    struct str s;
    str_init(&s);
    table_init(&t);
    table_column(&t, "a", NULL, TABLE_LEFT, 0);
    table_row(&t);
    table_cell(&t, "1");
    table_cell(&t, "2");
    CHECK_INT(table_print(&t, &s, TABLE_TEXT, 0, false, &err), ERR_INTERNAL);
    CHECK_STR(str_text(&s), "");
    table_release(&t);
    enum table_format f;
    CHECK(table_format_parse("md", &f) && f == TABLE_MARKDOWN);
    CHECK(!table_format_parse("pdf", &f));
}

// A document may have rows of which nothing is known.
TEST(report_table_rows_without_cells)
{
    for (int format = TABLE_TEXT; format <= TABLE_HTML; format++) {
        struct table t;
        struct str out;
        struct error e = {0};
        str_init(&out);
        table_init(&t);
        table_column(&t, "what", NULL, TABLE_LEFT, 0);
        table_row(&t);
        table_row(&t);
        CHECK_INT(table_print(&t, &out, (enum table_format)format, 80, false, &e), 0);
        CHECK(strstr(str_text(&out), "what") != NULL);
        table_release(&t);
        str_release(&out);
    }
}
