// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/sha256.h"
#include "base/stats.h"
#include "base/threads.h"
#include "test.h"

TEST(base_error_first_one_stays)
{
    struct error e = {0};
    CHECK_INT(error_set(&e, ERR_INPUT, "a.bin", "bad %d", 7), ERR_INPUT);
    error_set(&e, ERR_USAGE, "b", "other");
    CHECK_INT(e.code, ERR_INPUT);
    CHECK_STR(e.message, "bad 7");
    error_context(&e, "reading %s", "x");
    CHECK_STR(e.message, "reading x: bad 7");
    CHECK_INT(error_exit_code(e.code), 3);
    CHECK_INT(error_set(NULL, ERR_DEVICE, NULL, "x"), ERR_DEVICE);
}

TEST(base_arena_limits_and_alignment)
{
    struct error e = {0};
    struct arena a;
    arena_init(&a);
    for (size_t align = 1; align <= 4096; align *= 2) {
        uint8_t *p = arena_alloc_aligned(&a, 1, 100, align, &e);
        REQUIRE(p);
        CHECK_INT((uintptr_t)p % align, 0);
        memset(p, 1, 100);
    }
    CHECK(arena_alloc(&a, SIZE_MAX / 2, 3, &e) == NULL);
    CHECK_INT(e.code, ERR_MEMORY);
    arena_release(&a);
    error_clear(&e);
    a.limit_bytes = 1000;
    CHECK(arena_alloc(&a, 1, 600, &e) != NULL);
    CHECK(arena_alloc(&a, 1, 600, &e) == NULL);
    arena_release(&a);
}

TEST(base_bytes_cursor_stays_inside)
{
    uint8_t data[12] = {1, 0, 0, 0, 2};
    struct cursor c;
    cursor_init(&c, data, sizeof data);
    CHECK_INT(cursor_u32(&c), 1);
    CHECK_INT(cursor_u64(&c), 2);
    CHECK_INT(cursor_u32(&c), 0);
    CHECK(c.failed);
    CHECK_INT(c.at, 12);
    size_t n;
    int64_t dims[2] = {INT64_MAX, 4};
    CHECK(!size_product(dims, 2, &n));
    dims[0] = -1;
    CHECK(!size_product(dims, 1, &n));
}

TEST(base_str_escapes)
{
    struct str s;
    str_init(&s);
    const char bad[] = "a\"<\x1b[31m\xff\xe2\x80\xae</script>";
    str_add_json(&s, bad, sizeof bad - 1);
    CHECK_STR(str_text(&s), "\"a\\\"\\u003c\\u001b[31m\xef\xbf\xbd\xe2\x80\xae\\u003c/script>\"");
    str_clear(&s);
    str_add_html(&s, bad, sizeof bad - 1);
    CHECK_STR(str_text(&s), "a&quot;&lt;\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd&lt;/script&gt;");
    str_clear(&s);
    str_add_terminal(&s, bad, sizeof bad - 1);
    CHECK_STR(str_text(&s), "a\"<\\x1b[31m\\xff\\u{202e}</script>");
    str_clear(&s);
    s.max_bytes = 8;
    str_add(&s, "12345678");
    CHECK(s.failed);
    str_release(&s);
}

TEST(base_str_utf8_rejects_what_is_not)
{
    uint32_t c;
    CHECK_INT(utf8_decode("\xc0\x80", 2, &c), 0);     // overlong
    CHECK_INT(utf8_decode("\xed\xa0\x80", 3, &c), 0); // surrogate
    CHECK_INT(utf8_decode("\xf4\x90\x80\x80", 4, &c), 0);
    CHECK_INT(utf8_decode("\xe2\x82", 2, &c), 0);
    char out[4];
    for (uint32_t p = 1; p <= 0x10ffff; p += 37) {
        if (p >= 0xd800 && p < 0xe000)
            continue;
        size_t n = utf8_encode(p, out);
        c = 0;
        CHECK(utf8_decode(out, n, &c) == n && c == p);
    }
}

TEST(base_json_numbers_read_back_equal)
{
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 200000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17; // xorshift64
        double v;
        memcpy(&v, &x, sizeof v);
        if (!isfinite(v))
            continue;
        char text[32];
        json_number(text, v);
        CHECK(strtod(text, NULL) == v);
    }
}

TEST(base_json_writer_is_read_by_jansson)
{
    struct str s;
    struct error e = {0};
    str_init(&s);
    struct jw w;
    jw_init(&w, &s, false);
    jw_object(&w);
    jw_kv_string(&w, "na\"me", "\x01</script>");
    jw_kv_double(&w, "nan", NAN);
    jw_key(&w, "list");
    jw_array(&w);
    jw_int(&w, INT64_MIN);
    quantity_json(&w, quantity_make(0.1, "us", ORIGIN_MEASURED, "cpu"));
    jw_array(&w);
    jw_array_end(&w);
    jw_array_end(&w);
    jw_object_end(&w);
    REQUIRE_OK(jw_finish(&w, &e), &e);
    json_t *root = json_parse(s.text, s.length, "t", &e);
    REQUIRE(root);
    CHECK_STR(json_string_value(json_object_get(root, "na\"me")), "\x01</script>");
    CHECK(json_is_null(json_object_get(root, "nan")));
    CHECK_INT(json_integer_value(json_array_get(json_object_get(root, "list"), 0)), INT64_MIN);
    json_decref(root);
    str_clear(&s);
    jw_init(&w, &s, true);
    jw_object(&w);
    jw_int(&w, 1); // no key
    jw_object_end(&w);
    CHECK_INT(jw_finish(&w, &e), ERR_INTERNAL);
    str_release(&s);
}

TEST(base_file_guard_survives_truncation)
{
    struct error e = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/short", test_dir());
    char *bytes = calloc(1, 1 << 20);
    REQUIRE(bytes);
    REQUIRE_OK(file_write(path, bytes, 1 << 20, &e), &e);
    free(bytes);
    struct file_map m;
    REQUIRE_OK(file_map_open(&m, path, &e), &e);
    REQUIRE(truncate(path, 10) == 0);
    char hex[65];
    CHECK_INT(sha256_map(&m, hex, &e), ERR_INPUT);
    CHECK(strstr(e.message, "became shorter") != NULL);
    file_map_close(&m);
    error_clear(&e);
    CHECK_INT(file_map_open(&m, test_dir(), &e), ERR_INPUT);
    error_clear(&e);
    CHECK_INT(file_write("/dev/full/x", "a", 1, &e), ERR_IO);
}

TEST(base_sha256_known_answer)
{
    char hex[65];
    struct error e = {0};
    REQUIRE_OK(sha256_bytes("abc", 3, hex, &e), &e); // FIPS 180-2, appendix B.1
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(base_stats_known_answers)
{
    double v[10] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, s[20];
    CHECK_NEAR(stats_median(v, 10, s), 3.5, 0);
    CHECK_NEAR(stats_quantile(v, 10, 0.9, s), 6.3, 1e-12); // numpy.quantile; one rounding of 0.3
    CHECK_NEAR(stats_mad(v, 10, s), 1.4826 * 1.5, 1e-12);
    CHECK_NEAR(stats_mean(v, 10), 3.9, 1e-12);
    size_t low, high;
    double coverage;
    stats_median_interval(10, 0.95, &low, &high, &coverage); // order statistics 2 and 9 cover with 1002/1024
    CHECK_INT(low, 1);
    CHECK_INT(high, 8);
    CHECK_NEAR(coverage, 1002.0 / 1024, 1e-12);
    stats_median_interval(7, 0.95, &low, &high, &coverage);
    CHECK_INT(low, 0);
    CHECK_INT(high, 6);
    CHECK_NEAR(coverage, 126.0 / 128, 1e-12);
    CHECK_NEAR(stats_sign_test(7, 0), 2.0 / 128, 1e-12);
    double a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 20, 5};
    size_t order[4];
    CHECK_NEAR(stats_spearman(a, b, 4, s, order), -1.5 / sqrt(5 * 4.5), 1e-15); // ranks 0 1 2 3 and 1 2.5 2.5 0
    CHECK_NEAR(stats_slope(a, 4), 1, 1e-15);
    CHECK(isnan(stats_median(v, 0, s)));
}

static void add(void *context, size_t from, size_t to)
{
    unsigned char *seen = context;
    for (size_t i = from; i < to; i++)
        seen[i]++;
}

TEST(base_threads_cover_the_range_once)
{
    struct error e = {0};
    struct threads *t;
    REQUIRE_OK(threads_new(&t, 3, &e), &e);
    static unsigned char seen[10007];
    for (int round = 1; round <= 50; round++) {
        threads_for(t, sizeof seen, 13, add, seen);
        for (size_t i = 0; i < sizeof seen; i++)
            CHECK(seen[i] == round);
    }
    threads_free(t);
}
