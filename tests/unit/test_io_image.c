// SPDX-License-Identifier: Apache-2.0
// Images against what Pillow and diffusers make of the same, by tests/oracle/image.py.
#include "io/image.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "fixture.h"
#include "test.h"

static json_t *fixture(void)
{
    return fixture_json("io/image/image.json");
}

static void check_hash(const void *bytes, size_t n, const json_t *row, const char *key, const char *what)
{
    struct error err = {0};
    char hex[65] = "";
    REQUIRE_OK(sha256_bytes(bytes, n, hex, &err), &err);
    if (!CHECK_STR(hex, json_string_value(json_object_get(row, key))))
        printf("  of %s\n", what);
}

static size_t bytes_of(const struct image *m)
{
    return (size_t)m->width * m->height * 3;
}

static const char *file_path(const char *name)
{
    char below[256];
    snprintf(below, sizeof below, "io/image/%s", name);
    return fixture_path(below);
}

TEST(io_image_reads_what_pillow_reads)
{
    json_t *root = fixture(), *row;
    size_t i;
    json_array_foreach(json_object_get(root, "files"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        struct error err = {0};
        struct image m;
        struct image_source source;
        REQUIRE_OK(image_read(&m, file_path(name), &source, &err), &err);
        CHECK_INT(m.width, fixture_number(row, "width"));
        CHECK_INT(m.height, fixture_number(row, "height"));
        check_hash(m.rgb, bytes_of(&m), row, "sha256", name);
        CHECK_STR(source.format, str_ends_with(name, ".png") ? "PNG" : "JPEG");
        image_release(&m);
    }
    CHECK(i > 30);
    json_decref(root);
}

static struct image_source source_of(const char *name)
{
    struct error err = {0};
    struct image m;
    struct image_source source = {0};
    if (image_read(&m, file_path(name), &source, &err))
        printf("  %s: %s\n", name, err.message);
    image_release(&m);
    return source;
}

TEST(io_image_says_what_a_file_had)
{
    struct image_source s = source_of("rgba16.png");
    CHECK(s.bits == 16 && s.channels == 4 && s.alpha && !s.palette && s.orientation == 1);
    s = source_of("palette_alpha.png");
    CHECK(s.palette && s.alpha && s.channels == 1);
    s = source_of("gray_trns.png");
    CHECK(s.alpha && s.channels == 1 && s.bits == 8);
    s = source_of("rgb.png");
    CHECK(!s.alpha && s.channels == 3 && s.bits == 8);
    s = source_of("exif.png");
    CHECK_INT(s.orientation, 6);
    s = source_of("turned7.jpg");
    CHECK_INT(s.orientation, 7);
    s = source_of("turned9.jpg");
    CHECK_INT(s.orientation, 1);
    s = source_of("cmyk.jpg");
    CHECK(s.cmyk && s.channels == 4 && !s.alpha);
    s = source_of("gray.jpg");
    CHECK(s.channels == 1 && !s.cmyk);
}

// ---- generated images

static void generate(struct image *m, uint32_t width, uint32_t height, uint32_t seed)
{
    struct error err = {0};
    REQUIRE_OK(image_new(m, width, height, &err), &err);
    for (size_t i = 0; i < bytes_of(m); i++) {
        seed = seed * 1664525u + 1013904223u;
        m->rgb[i] = (uint8_t)(seed >> 24);
    }
}

static uint32_t pair(const json_t *row, const char *key, size_t i)
{
    return (uint32_t)json_integer_value(json_array_get(json_object_get(row, key), i));
}

TEST(io_image_resizes_as_pillow)
{
    json_t *root = fixture(), *row;
    size_t i;
    json_array_foreach(json_object_get(root, "resized"), i, row)
    {
        struct error err = {0};
        struct image m, out;
        uint32_t w = pair(row, "from", 0), h = pair(row, "from", 1);
        char what[64];
        generate(&m, w, h, w * 1000 + h);
        REQUIRE_OK(image_resize(&out, &m, pair(row, "to", 0), pair(row, "to", 1), &err), &err);
        snprintf(what, sizeof what, "%u by %u to %u by %u", w, h, out.width, out.height);
        check_hash(out.rgb, bytes_of(&out), row, "sha256", what);
        image_release(&m);
        image_release(&out);
    }
    CHECK(i > 10);
    json_decref(root);
}

TEST(io_image_references_as_diffusers)
{
    json_t *root = fixture(), *row;
    size_t i;
    json_array_foreach(json_object_get(root, "references"), i, row)
    {
        struct error err = {0};
        struct image m, out;
        uint32_t w = pair(row, "from", 0), h = pair(row, "from", 1);
        char what[64];
        generate(&m, w, h, w + h);
        REQUIRE_OK(image_reference(&out, &m, (uint32_t)fixture_number(row, "limit"), "a.png", &err), &err);
        CHECK_INT(out.width, pair(row, "to", 0));
        CHECK_INT(out.height, pair(row, "to", 1));
        float *numbers = malloc(bytes_of(&out) * sizeof *numbers);
        REQUIRE(numbers != NULL);
        image_to_numbers(&out, numbers);
        snprintf(what, sizeof what, "%u by %u", w, h);
        check_hash(numbers, bytes_of(&out) * sizeof *numbers, row, "sha256", what);
        free(numbers);
        image_release(&m);
        image_release(&out);
    }
    CHECK(i > 5);
    json_decref(root);

    static const struct {
        uint32_t width, height;
        const char *says;
    } refused[] = {{63, 200, "sides of 64 pixels and more; this one is 63 by 200"},
                   {64, 513, "at most 8 times the other"}};
    for (size_t k = 0; k < 2; k++) {
        struct error err = {0};
        struct image m, out;
        generate(&m, refused[k].width, refused[k].height, 1);
        CHECK_INT(image_reference(&out, &m, IMAGE_REFERENCE_PIXELS, "a.png", &err), ERR_INPUT);
        CHECK_STR(err.where, "a.png");
        CHECK(strstr(err.message, refused[k].says) != NULL);
        image_release(&m);
    }
}

TEST(io_image_levels)
{
    json_t *root = fixture();
    const json_t *row = json_object_get(root, "levels");
    size_t n = (size_t)fixture_number(row, "n"), half = 0x4001;
    struct error err = {0};
    struct image m;
    float *v = calloc(n + 3, sizeof *v);
    REQUIRE(v != NULL);
    REQUIRE_OK(image_new(&m, 1, (uint32_t)(n / 3), &err), &err);
    for (uint32_t i = 0; i < half; i++) {
        uint32_t bits = i << 16;
        memcpy(&v[i], &bits, sizeof bits);
        v[half + i] = -v[i];
    }
    // As numpy's linspace makes them: in double, then rounded.
    for (size_t i = 2 * half; i < n; i++)
        v[i] = (float)((double)(i - 2 * half) * (2.2 / 4095) + -1.1);
    static const struct {
        enum image_levels rule;
        const char *name;
    } rules[] = {{IMAGE_ROUND, "round"}, {IMAGE_ROUND_BF16, "round_bf16"}, {IMAGE_TRUNCATE, "truncate"}};
    for (size_t i = 0; i < 3; i++) {
        image_from_numbers(&m, v, rules[i].rule);
        check_hash(m.rgb, n, row, rules[i].name, rules[i].name);
        v[0] = NAN;
        image_from_numbers(&m, v, rules[i].rule);
        CHECK_INT(m.rgb[0], 0);
        v[0] = 0;
    }
    image_release(&m);
    free(v);
    json_decref(root);
}

// ---- writing

TEST(io_image_written_and_read)
{
    struct error err = {0};
    struct image m, back;
    struct image_source source;
    struct str bytes, again;
    static const struct image_text texts[] = {
        {"parameters", "a cat, steps 4\nseed 7"}, {"Prompt", "un été à Zürich, 東京"}, {"Software", ""}};
    generate(&m, 37, 21, 5);
    const char *path = test_below("out.png");
    REQUIRE_OK(image_write_png(&m, path, texts, 3, &err), &err);
    REQUIRE_OK(image_read(&back, path, &source, &err), &err);
    CHECK(back.width == 37 && back.height == 21 && memcmp(back.rgb, m.rgb, bytes_of(&m)) == 0);
    CHECK(source.bits == 8 && source.channels == 3 && !source.alpha);
    str_init(&bytes);
    str_init(&again);
    REQUIRE_OK(file_read(&bytes, path, 1 << 20, &err), &err);
    REQUIRE_OK(image_encode_png(&m, texts, 3, &again, &err), &err);
    CHECK(bytes.length == again.length && memcmp(bytes.text, again.text, bytes.length) == 0);
    // PNG 1.2: tEXt is key, zero, text; iTXt is key, zero, not compressed, method, no language, no translation, text.
    CHECK(memmem(bytes.text, bytes.length, "tEXtparameters\0a cat, steps 4\nseed 7", 36) != NULL);
    CHECK(memmem(bytes.text, bytes.length, "iTXtPrompt\0\0\0\0\0un \xC3\xA9t\xC3\xA9", 22) != NULL);
    str_release(&bytes);
    str_release(&again);
    image_release(&m);
    image_release(&back);
}

TEST(io_image_refuses_texts)
{
    static const struct image_text bad[] = {{"", "x"},
                                            {" a", "x"},
                                            {"a ", "x"},
                                            {"a  b", "x"},
                                            {"a\nb", "x"},
                                            {"\xC3\xA9", "x"},
                                            {"k", "a\xFF"},
                                            {"0123456789012345678901234567890123456789012345678901234567890123456789"
                                             "0123456789",
                                             "x"}};
    struct image m;
    generate(&m, 2, 2, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error err = {0};
        CHECK_INT(image_write_png(&m, test_below("no.png"), &bad[i], 1, &err), ERR_USAGE);
        CHECK(!file_exists(test_below("no.png")));
    }
    image_release(&m);
}

// A disk that is full, here a limit on files: the old picture stays, and nothing lies beside it.
TEST(io_image_whole_or_not_at_all)
{
    struct error err = {0};
    struct image small, large, back;
    generate(&small, 4, 4, 1);
    generate(&large, 200, 200, 2);
    const char *path = test_below("out.png");
    REQUIRE_OK(image_write_png(&small, path, NULL, 0, &err), &err);
    struct rlimit limit = {20000, 20000};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_INT(image_write_png(&large, path, NULL, 0, &err), ERR_IO);
    REQUIRE_OK(image_read(&back, path, NULL, &err), &err);
    CHECK_INT(back.width, 4);
    error_clear(&err);
    CHECK_INT(image_write_png(&large, test_below("new.png"), NULL, 0, &err), ERR_IO);
    CHECK(!file_exists(test_below("new.png")));
    error_clear(&err);
    CHECK_INT(image_write_png(&small, test_below("none/out.png"), NULL, 0, &err), ERR_IO);
    image_release(&small);
    image_release(&large);
    image_release(&back);
}

// ---- damage

static int decode(const void *bytes, size_t n, struct error *err)
{
    struct image m;
    error_clear(err);
    int rc = image_decode(&m, bytes, n, "a.png", NULL, err);
    image_release(&m);
    return rc;
}

TEST(io_image_refuses_damage)
{
    static const char *const names[] = {"rgb.png",    "palette4.png",    "interlaced.png",
                                        "rgb420.jpg", "progressive.jpg", "cmyk.jpg"};
    struct error err = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct str file;
        str_init(&file);
        REQUIRE_OK(file_read(&file, file_path(names[i]), 1 << 20, &err), &err);
        // Cut before its last chunk or marker, it is refused. Cut within these, a JPEG may still be whole.
        size_t end = str_ends_with(names[i], ".png") ? file.length - 12 : file.length - 8;
        for (size_t n = 0; n < end; n += 1 + n / 16) {
            if (!CHECK_INT(decode(file.text, n, &err), ERR_INPUT))
                printf("  %s cut to %zu of %zu\n", names[i], n, file.length);
        }
        str_release(&file);
    }
    CHECK_INT(decode("GIF89a, say", 11, &err), ERR_INPUT);
    CHECK_STR(err.message, "is neither a PNG nor a JPEG image");
    CHECK_INT(decode("RIFF\1\2\3\4WEBPVP8 ", 16, &err), ERR_INPUT);
    CHECK(strstr(err.message, "WebP") != NULL);
    struct image m;
    error_clear(&err);
    CHECK_INT(image_read(&m, test_below("none.png"), NULL, &err), ERR_INPUT);
    error_clear(&err);
    CHECK_INT(image_new(&m, 65536, 1, &err), ERR_USAGE);
    error_clear(&err);
    CHECK_INT(image_new(&m, 65535, 65535, &err), ERR_USAGE);
}

// Large pictures that small files claim to be: refused before memory is asked for.
TEST(io_image_refuses_bombs)
{
    struct error err = {0};
    struct str file;
    str_init(&file);
    REQUIRE_OK(file_read(&file, file_path("rgb444.jpg"), 1 << 20, &err), &err);
    // The frame header: FF C0, length, precision, height, width.
    char *frame = memmem(file.text, file.length, "\xFF\xC0\x00\x11\x08", 5);
    REQUIRE(frame != NULL);
    memcpy(frame + 5, "\x20\x00\x20\x00", 4);
    CHECK_INT(decode(file.text, file.length, &err), ERR_INPUT);
    CHECK(strstr(err.message, "cannot hold its 8192 by 8192 pixels") != NULL);
    memcpy(frame + 5, "\xFF\x00\xFF\x00", 4);
    CHECK_INT(decode(file.text, file.length, &err), ERR_INPUT);
    CHECK(strstr(err.message, "at most 134 million") != NULL);
    str_release(&file);

    // 8192 by 8192, 8 bits, RGB, with the checksum of that header, and nothing behind it but the beginning of data.
    static const char png[] =
        "\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\x20\0\0\0\x20\0\x08\2\0\0\0\xFD\xC8\x5D\x0E\0\0\0\4IDATabcd";
    CHECK_INT(decode(png, sizeof png - 1, &err), ERR_INPUT);
    CHECK(strstr(err.message, "cannot hold its 8192 by 8192 pixels") != NULL);
}

// A picture that is begun without end: its first scan, over and over.
TEST(io_image_refuses_scans_without_end)
{
    struct error err = {0};
    struct str file, many;
    str_init(&file);
    str_init(&many);
    REQUIRE_OK(file_read(&file, file_path("progressive.jpg"), 1 << 20, &err), &err);
    // From its header to the tables of the next.
    char *scan = memmem(file.text, file.length, "\xFF\xDA", 2);
    REQUIRE(scan != NULL);
    char *next = memmem(scan, file.length - (size_t)(scan - file.text), "\xFF\xC4", 2);
    REQUIRE(next != NULL);
    for (int n = 400; n <= 600; n += 200) {
        str_clear(&many);
        str_add_n(&many, file.text, (size_t)(scan - file.text));
        for (int i = 0; i < n; i++)
            str_add_n(&many, scan, (size_t)(next - scan));
        str_add_n(&many, next, file.length - (size_t)(next - file.text));
        CHECK_INT(decode(many.text, many.length, &err), n == 400 ? 0 : ERR_INPUT);
    }
    CHECK_STR(err.message, "the JPEG has more than 500 scans");
    str_release(&file);
    str_release(&many);
}
