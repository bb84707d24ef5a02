// SPDX-License-Identifier: Apache-2.0
// What the base layer does with what is missing, too large, damaged or not a number.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/sha256.h"
#include "base/stats.h"
#include "test.h"

TEST(base_stats_not_a_number_stays_one)
{
    double v[4] = {1, NAN, 3, 2}, w[4] = {1, 2, 3, 4}, s[8];
    size_t order[4];
    CHECK(isnan(stats_quantile(v, 4, 0.9, s)) && isnan(stats_median(v, 4, s)) && isnan(stats_mad(v, 4, s)));
    CHECK(isnan(stats_mean(v, 4)) && isnan(stats_min(v, 4)) && isnan(stats_max(v, 4)) && isnan(stats_slope(v, 4)));
    CHECK(isnan(stats_spearman(v, w, 4, s, order)) && isnan(stats_spearman(w, v, 4, s, order)));
    CHECK(isnan(stats_min(v, 0)) && isnan(stats_max(v, 0)) && isnan(stats_mean(v, 0)) && isnan(stats_mad(v, 0, s)));
    double constant[4] = {5, 5, 5, 5};
    CHECK(isnan(stats_spearman(constant, w, 4, s, order)));
    CHECK(stats_slope(constant, 4) == 0);
    CHECK(isnan(stats_slope(w, 1)));
    // An infinite sample is a value: the median does not see it, the maximum does.
    double far[3] = {2, INFINITY, 1};
    CHECK_NEAR(stats_median(far, 3, s), 2, 0);
    CHECK(isinf(stats_quantile(far, 3, 1, s)));
}

TEST(base_stats_median_interval_of_any_size)
{
    size_t low, high;
    double coverage;
    for (size_t n = 0; n <= 64; n++) {
        stats_median_interval(n, 0.95, &low, &high, &coverage);
        if (n == 0)
            continue;
        CHECK(low <= high && high == n - 1 - low);
        // From 6 samples on 95 % can be had: 1 - 2/64. And the next narrower interval would have less.
        CHECK((coverage >= 0.95) == (n >= 6));
        double sum = 0, term = ldexp(1, -(int)n); // C(n, k) / 2^n, without logarithms
        for (size_t k = 0; k <= low + 1; k++) {
            if (k == low + 1 && n >= 6 && k < n - 1 - k)
                CHECK(1 - 2 * (sum + term) < 0.95);
            sum += k <= low ? term : 0;
            term = term * (double)(n - k) / (double)(k + 1);
        }
        CHECK_NEAR(coverage, n > 1 ? 1 - 2 * sum : 0, 1e-12); // lgamma to 15 digits, times log2 of the result
    }
    // As many samples as a fast loop takes; a normal count has its 2.5 % point 1.96 deviations below the middle.
    const size_t n = 1000000;
    stats_median_interval(n, 0.95, &low, &high, &coverage);
    CHECK(coverage >= 0.95 && coverage < 0.951);
    CHECK_NEAR((double)low, 0.5 * (double)n - 1.959964 * 0.5 * sqrt((double)n),
               2); // steps of one, half of it corrected
    // The normal tail beyond (980 - 1/2) / 500 deviations; the two distributions differ by the order of 1/n.
    CHECK_NEAR(stats_sign_test(500980, 499020), erfc(1.959 / sqrt(2)), 1e-5);
    CHECK_NEAR(stats_sign_test(0, 0), 1, 0);
    CHECK_NEAR(stats_sign_test(5, 5), 1, 0);
}

TEST(base_str_parsers_take_whole_numbers)
{
    uint64_t u;
    int64_t i;
    double d;
    CHECK(parse_u64("18446744073709551615", &u) && u == UINT64_MAX);
    CHECK(parse_i64("-9223372036854775808", &i) && i == INT64_MIN);
    CHECK(parse_double("-1.5e3", &d) && d == -1500);
    CHECK(parse_double(".5", &d) && d == 0.5);
    static const char *const bad_u64[] = {"", " 1", "1 ", "+1", "-1", "18446744073709551616", "0x10", "1e3", "1.0"};
    for (size_t k = 0; k < sizeof bad_u64 / sizeof *bad_u64; k++)
        CHECK(!parse_u64(bad_u64[k], &u));
    static const char *const bad_i64[] = {"", "-", "- 1", "+1", "9223372036854775808", "1x", "--1"};
    for (size_t k = 0; k < sizeof bad_i64 / sizeof *bad_i64; k++)
        CHECK(!parse_i64(bad_i64[k], &i));
    static const char *const bad_double[] = {"",    "-",    ".",     "1e", "nan", "-nan",
                                             "inf", "-inf", "1e999", " 1", "1 ",  "0x10"};
    for (size_t k = 0; k < sizeof bad_double / sizeof *bad_double; k++) {
        if (!CHECK(!parse_double(bad_double[k], &d)))
            printf("  %s\n", bad_double[k]);
    }
    CHECK(!parse_u64(NULL, &u) && !parse_i64(NULL, &i) && !parse_double(NULL, &d));
}

TEST(base_str_markdown_stays_in_its_cell)
{
    struct str s;
    str_init(&s);
    const char hostile[] = "a|b\n<i>*x*`y`\\";
    str_add_markdown(&s, hostile, sizeof hostile - 1);
    CHECK_STR(str_text(&s), "a\\|b\xef\xbf\xbd\\<i\\>\\*x\\*\\`y\\`\\\\");
    str_release(&s);
    str_addf(&s, "%s-%d", "x", 7); // released: usable again
    CHECK_STR(str_text(&s), "x-7");
    str_release(&s);
    size_t bad = 99;
    CHECK(!utf8_valid("ab\xc3(", 4, &bad));
    CHECK_INT(bad, 2);
}

TEST(base_arena_grows_and_prints)
{
    struct arena a;
    struct error e = {0};
    arena_init(&a);
    size_t cap = 0;
    uint32_t *v = NULL;
    for (uint32_t i = 0; i < 5000; i++) {
        v = arena_grow(&a, v, &cap, i + 1, sizeof *v, &e);
        REQUIRE(v);
        CHECK(v[i] == 0);
        v[i] = i;
    }
    for (uint32_t i = 0; i < 5000; i++)
        CHECK(v[i] == i);
    CHECK(arena_grow(&a, v, &cap, SIZE_MAX / 2, sizeof *v, &e) == NULL);
    CHECK_INT(e.code, ERR_MEMORY);
    error_clear(&e);
    CHECK_STR(arena_printf(&a, &e, "%s.%d", "layer", 3), "layer.3");
    CHECK_STR(arena_strdup(&a, "abc", &e), "abc");
    CHECK_STR(arena_strndup(&a, "abcdef", 2, &e), "ab");
    CHECK(arena_strndup(&a, "", SIZE_MAX, &e) == NULL);
    error_clear(&e);
    // A block of its own does not end the one being filled.
    char *small = arena_alloc(&a, 1, 16, &e), *large = arena_alloc(&a, 1, 1 << 20, &e),
         *next = arena_alloc(&a, 1, 16, &e);
    REQUIRE(small && large && next);
    CHECK(next == small + 16);
    CHECK(arena_alloc(&a, 0, 8, &e) != NULL);
    arena_release(&a);
    CHECK_INT(a.used_bytes, 0);
}

TEST(base_json_members_say_what_they_want)
{
    struct error e = {0};
    static const char text[] = "{\"s\": \"x\", \"i\": 3, \"d\": 1.5, \"n\": null}";
    json_t *o = json_parse(text, sizeof text - 1, "t", &e);
    REQUIRE(o);
    const char *s;
    int64_t i;
    double d;
    REQUIRE_OK(json_get_string(o, "s", "t", &s, &e), &e);
    REQUIRE_OK(json_get_int(o, "i", "t", &i, &e), &e);
    REQUIRE_OK(json_get_double(o, "i", "t", &d, &e), &e); // an integer is a number
    CHECK(i == 3 && d == 3);
    REQUIRE_OK(json_get_int_or(o, "absent", "t", 7, &i, &e), &e);
    REQUIRE_OK(json_get_double_or(o, "absent", "t", 0.25, &d, &e), &e);
    CHECK(i == 7 && d == 0.25);
    CHECK_INT(json_get_int(o, "d", "t", &i, &e), ERR_INPUT);
    CHECK_STR(e.message, "\"d\" must be an integer");
    error_clear(&e);
    CHECK_INT(json_get_string(o, "absent", "t", &s, &e), ERR_INPUT);
    CHECK_STR(e.message, "\"absent\" is missing (a string)");
    error_clear(&e);
    CHECK_INT(json_get_double_or(o, "s", "t", 0, &d, &e), ERR_INPUT); // there, but wrong: no default
    error_clear(&e);
    CHECK_INT(json_get_int_or(o, "n", "t", 0, &i, &e), ERR_INPUT);
    json_decref(o);
    static const char *const bad[] = {
        "", "{", "{\"a\": 1, \"a\": 2}", "[1] x", "{\"a\": 18446744073709551616}", "\xff", "[1e999]", "NaN"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        error_clear(&e);
        if (!CHECK(json_parse(bad[k], strlen(bad[k]), "t", &e) == NULL))
            printf("  %s\n", bad[k]);
        CHECK_INT(e.code, ERR_INPUT);
    }
    // As deep as it likes: an error, not a crash.
    size_t depth = 1 << 20;
    char *deep = malloc(depth);
    REQUIRE(deep);
    memset(deep, '[', depth);
    error_clear(&e);
    CHECK(json_parse(deep, depth, "t", &e) == NULL);
    free(deep);
}

// JSON has integers of any length, jansson those of 64 bits with a sign: seeds have 64 bits without.
TEST(base_json_integers_of_64_bits)
{
    struct error e = {0};
    struct str s;
    struct jw w;
    static const uint64_t seeds[] = {0, 1, (1ull << 53) + 1, INT64_MAX, 1ull << 63, (1ull << 63) + 1, UINT64_MAX};
    enum { N = sizeof seeds / sizeof *seeds };
    str_init(&s);
    jw_init(&w, &s, true);
    jw_object(&w);
    jw_kv_string(&w, "18446744073709551615", "a \"9223372036854775808\" \\"); // texts stay as they are
    jw_key(&w, "seeds");
    jw_array(&w);
    for (int i = 0; i < N; i++)
        jw_uint(&w, seeds[i]);
    jw_array_end(&w);
    jw_object_end(&w);
    REQUIRE_OK(jw_finish(&w, &e), &e);
    CHECK(strstr(s.text, "9007199254740993,") && strstr(s.text, "9223372036854775808,") &&
          strstr(s.text, "18446744073709551615]"));
    json_t *o = json_parse(s.text, s.length, "t", &e);
    REQUIRE(o);
    for (size_t i = 0; i < N; i++) {
        uint64_t v = 7;
        CHECK(json_is_uint64(json_array_get(json_object_get(o, "seeds"), i), &v));
        CHECK(v == seeds[i]);
    }
    CHECK_STR(json_string_value(json_object_get(o, "18446744073709551615")), "a \"9223372036854775808\" \\");
    json_decref(o);
    str_release(&s);
    static const char *const none[] = {"-1",
                                       "1.5",
                                       "1e3",
                                       "\"1\"",
                                       "\"9223372036854775807\"",
                                       "\"18446744073709551616\"",
                                       "\"09223372036854775808\"",
                                       "null",
                                       "[18446744073709551615]"};
    for (size_t k = 0; k < sizeof none / sizeof *none; k++) {
        uint64_t v;
        o = json_parse(none[k], strlen(none[k]), "t", &e);
        if (!CHECK(o && !json_is_uint64(o, &v)))
            printf("  %s\n", none[k]);
        json_decref(o);
    }
    static const char *const bad[] = {"[18446744073709551615, 18446744073709551616]", "-9223372036854775809",
                                      "[9223372036854775808", "{9223372036854775808: 1}", "[018446744073709551615]"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        if (!CHECK(json_parse(bad[k], strlen(bad[k]), "t", &e) == NULL))
            printf("  %s\n", bad[k]);
    }
}

TEST(base_json_writer_refuses_misuse)
{
    struct str s;
    struct error e = {0};
    struct jw w;
    str_init(&s);
    jw_init(&w, &s, true);
    jw_object(&w);
    jw_key(&w, "a");
    jw_object_end(&w); // a key without a value
    CHECK_INT(jw_finish(&w, &e), ERR_INTERNAL);
    error_clear(&e);
    str_clear(&s);
    jw_init(&w, &s, true);
    jw_array(&w);
    CHECK_INT(jw_finish(&w, &e), ERR_INTERNAL); // not closed
    error_clear(&e);
    str_clear(&s);
    jw_init(&w, &s, true);
    for (int i = 0; i < 100; i++)
        jw_array(&w); // deeper than it can count
    for (int i = 0; i < 100; i++)
        jw_array_end(&w);
    CHECK_INT(jw_finish(&w, &e), ERR_INTERNAL);
    error_clear(&e);
    str_clear(&s);
    jw_init(&w, &s, true);
    jw_object(&w);
    quantity_json_kv(&w, "q", quantity_make(NAN, "us", ORIGIN_SHEET, "no rate is published"));
    const double samples[2] = {1.5, INFINITY};
    quantity_json_samples(&w, "s", samples, 2, "ms", "cpu");
    jw_object_end(&w);
    REQUIRE_OK(jw_finish(&w, &e), &e);
    CHECK_STR(str_text(&s),
              "{\"q\":{\"value\":null,\"unit\":\"us\",\"origin\":\"S\",\"source\":\"no rate is published\"},"
              "\"s\":{\"value\":[1.5,null],\"unit\":\"ms\",\"origin\":\"M\",\"source\":\"cpu\"}}");
    str_release(&s);
}

TEST(base_file_reads_within_limits_and_writes_whole)
{
    struct error e = {0};
    char path[256], missing[512];
    struct str s;
    str_init(&s);
    snprintf(path, sizeof path, "%s/f", test_dir());
    REQUIRE_OK(file_write(path, "old", 3, &e), &e);
    REQUIRE_OK(file_write(path, "newer", 5, &e), &e); // replaces
    REQUIRE_OK(file_read(&s, path, 5, &e), &e);
    CHECK_STR(str_text(&s), "newer");
    CHECK_INT(file_read(&s, path, 4, &e), ERR_INPUT);
    CHECK(strstr(e.message, "larger than 4 bytes") != NULL);
    error_clear(&e);
    CHECK_INT(file_read(&s, test_dir(), 10, &e), ERR_INPUT); // a directory
    error_clear(&e);
    snprintf(missing, sizeof missing, "%s/none/f", test_dir());
    CHECK_INT(file_write(missing, "x", 1, &e), ERR_IO);
    error_clear(&e);
    CHECK_INT(file_read(&s, missing, 10, &e), ERR_INPUT);
    CHECK_STR(e.where, missing);
    error_clear(&e);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    REQUIRE(full >= 0);
    CHECK_INT(fd_write_all(full, "x", 1, "/dev/full", &e), ERR_IO);
    CHECK(strstr(e.message, "No space") != NULL);
    close(full);
    str_release(&s);
    CHECK(file_exists(path) && !file_exists(test_dir()) && dir_exists(test_dir()) && !dir_exists(path));
}

TEST(base_file_map_takes_regular_files_only)
{
    struct error e = {0};
    struct file_map m;
    char path[256], hex[65];
    snprintf(path, sizeof path, "%s/empty", test_dir());
    REQUIRE_OK(file_write(path, "", 0, &e), &e);
    REQUIRE_OK(file_map_open(&m, path, &e), &e);
    CHECK(m.data == NULL && m.size == 0);
    REQUIRE_OK(sha256_map(&m, hex, &e), &e); // of nothing, FIPS 180-2
    CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    file_map_close(&m);
    file_map_close(&m); // closed already
    snprintf(path, sizeof path, "%s/pipe", test_dir());
    REQUIRE(mkfifo(path, 0666) == 0);
    CHECK_INT(file_map_open(&m, path, &e), ERR_INPUT); // and does not wait for a writer
    error_clear(&e);
    CHECK_INT(file_map_open(&m, "/dev/zero", &e), ERR_INPUT);
    error_clear(&e);
    char longest[2000];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    CHECK_INT(file_map_open(&m, longest, &e), ERR_INPUT);
}

TEST(base_file_guards_nest)
{
    struct error e = {0};
    struct file_map a, b;
    char path[2][256];
    static char bytes[1 << 16];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d", test_dir(), i);
        REQUIRE_OK(file_write(path[i], bytes, sizeof bytes, &e), &e);
    }
    REQUIRE_OK(file_map_open(&a, path[0], &e), &e);
    REQUIRE_OK(file_map_open(&b, path[1], &e), &e);
    REQUIRE(truncate(path[0], 0) == 0);
    struct file_guard outer, inner;
    volatile int arrived = 0;
    if (FILE_GUARD(&outer, &a)) {
        arrived = 1;
        CHECK_INT(file_guard_error(&outer, &e), ERR_INPUT);
    } else {
        if (FILE_GUARD(&inner, &b)) {
            arrived = 2;
        } else {
            volatile uint8_t sum = (uint8_t)(b.data[0] + a.data[0]); // the outer one's file is gone
            (void)sum;
        }
    }
    CHECK_INT(arrived, 1);
    CHECK_STR(e.where, path[0]);
    file_map_close(&a);
    file_map_close(&b);
}

TEST(base_error_text_that_is_too_long_is_cut)
{
    struct error e = {0};
    static char text[3000];
    memset(text, 'x', sizeof text - 1);
    error_set(&e, ERR_INPUT, text, "%s", text);
    CHECK_INT(strlen(e.where), sizeof e.where - 1);
    CHECK_INT(strlen(e.message), sizeof e.message - 1);
    error_context(&e, "reading %s", "tensor");
    CHECK(strncmp(e.message, "reading tensor: xxx", 19) == 0 && strlen(e.message) == sizeof e.message - 1);
    error_context(&e, "%s", text);
    CHECK_INT(strlen(e.message), sizeof e.message - 1);
    error_context(NULL, "nothing");
    // Each code has a name and an exit code of the documented set.
    for (int code = ERR_INTERRUPTED; code <= ERR_USAGE; code++) {
        int exit_code = error_exit_code(code);
        CHECK(exit_code >= 2 && (exit_code <= 5 || exit_code == 130));
        CHECK(code == ERR_INTERNAL || strcmp(error_code_name(code), "internal") != 0);
    }
    CHECK_INT(error_exit_code(0), 0);
    CHECK_INT(error_exit_code(-99), 5);
}

TEST(base_bytes_sizes)
{
    CHECK_INT(size_align(0, 64), 0);
    CHECK_INT(size_align(65, 64), 128);
    CHECK(size_align(SIZE_MAX - 3, 64) == SIZE_MAX);
    size_t n = 5;
    CHECK(!size_add(SIZE_MAX, 1, &n) && n == 5);
    CHECK(size_product(NULL, 0, &n) && n == 1);
    const int64_t empty[3] = {4, 0, INT64_MAX};
    CHECK(size_product(empty, 3, &n) && n == 0);
    struct cursor c;
    cursor_init(&c, "abc", 3);
    CHECK(cursor_take(&c, SIZE_MAX) == NULL && c.failed && cursor_left(&c) == 0);
    CHECK(cursor_take(&c, 0) == NULL); // failed for good
}
