// SPDX-License-Identifier: Apache-2.0
#include "base/pbread.h"
#include "base/pbwire.h"
#include "test.h"

static void check_bytes(const struct str *s, const void *want, size_t n)
{
    CHECK(!s->failed);
    if (CHECK_INT(s->length, n))
        CHECK(memcmp(s->text, want, n) == 0);
}
#define BYTES(...) ((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})

// The examples of the encoding's description: https://protobuf.dev/programming-guides/encoding/
TEST(base_pbwire_published_examples)
{
    struct str s;
    str_init(&s);
    pb_put_uint(&s, 1, 150);
    check_bytes(&s, BYTES(0x08, 0x96, 0x01));
    str_clear(&s);
    pb_put_string(&s, 2, "testing");
    check_bytes(&s, BYTES(0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g'));
    str_clear(&s);
    size_t at = pb_begin(&s, 3);
    pb_put_uint(&s, 1, 150);
    pb_end(&s, at);
    check_bytes(&s, BYTES(0x1a, 0x03, 0x08, 0x96, 0x01));
    str_clear(&s);
    pb_put_int(&s, 1, -2);
    check_bytes(&s, BYTES(0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01));
    str_release(&s);
}

TEST(base_pbwire_fixed_and_false)
{
    struct str s;
    str_init(&s);
    pb_put_bool(&s, 2, false);
    pb_put_double(&s, 4, 1.0);
    pb_put_float(&s, 5, -2.0f);
    check_bytes(&s, BYTES(0x10, 0x00, 0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x2d, 0, 0, 0, 0xc0));
    str_release(&s);
}

static uint64_t read_varint(const uint8_t **p)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        v |= (uint64_t)(**p & 0x7f) << shift;
        if (!(*(*p)++ & 0x80))
            return v;
    }
}

// Every length, with any number of bytes behind it, longer than needed and cut off: the value is the same whether eight
// bytes can be read at once or not.
TEST(base_pbread_varints_of_every_length)
{
    uint64_t state = 88172645463325252u;
    for (int round = 0; round < 3000; round++) {
        uint8_t bytes[32];
        for (size_t i = 0; i < sizeof bytes; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes[i] = (uint8_t)(state >> 24 | 0x80);
        }
        size_t length = (size_t)round % 10 + 1; // of seven bits each
        bytes[length - 1] &= 0x7f;
        const uint8_t *p = bytes;
        uint64_t want = 0, v = 1;
        for (size_t i = 0; i < length; i++)
            want |= i < 9 ? (uint64_t)(bytes[i] & 0x7f) << 7 * i : (uint64_t)bytes[i] << 63;
        for (size_t size = length; size <= length + 9; size++) {
            CHECK(pb_get_varint(p, p + size, &v) == p + length);
            CHECK(v == want);
        }
        CHECK(pb_get_varint(p, p + length - 1, &v) == NULL);
        bytes[length - 1] |= 0x80;
        bytes[10] = 0; // eleven bytes do not end in time
        CHECK(length == 10 ? pb_get_varint(p, p + 20, &v) == NULL : true);
    }
}

// Lengths of one, two and three bytes of prefix, one inside the other.
TEST(base_pbwire_nested_lengths)
{
    static const size_t lengths[] = {0, 1, 127, 128, 16383, 16384, 100000};
    static char content[100000];
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (char)(i * 7 + i / 251);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct str s;
        str_init(&s);
        size_t outer = pb_begin(&s, 1), inner = pb_begin(&s, 2);
        str_add_n(&s, content, lengths[i]);
        pb_end(&s, inner);
        pb_put_uint(&s, 3, 5);
        pb_end(&s, outer);
        pb_put_uint(&s, 4, 6);
        const uint8_t *p = (const uint8_t *)s.text;
        CHECK_INT(*p++, 0x0a);
        uint64_t outer_length = read_varint(&p);
        const uint8_t *outer_end = p + outer_length;
        CHECK_INT(*p++, 0x12);
        CHECK_INT(read_varint(&p), lengths[i]);
        CHECK(memcmp(p, content, lengths[i]) == 0);
        p += lengths[i];
        CHECK_INT(*p++, 0x18);
        CHECK_INT(*p++, 5);
        CHECK(p == outer_end);
        CHECK_INT(*p++, 0x20);
        CHECK_INT(*p++, 6);
        CHECK(p == (const uint8_t *)s.text + s.length);
        str_release(&s);
    }
}

TEST(base_pbwire_full_string_is_reported)
{
    struct str s;
    str_init(&s);
    s.max_bytes = 40;
    size_t at = pb_begin(&s, 1);
    pb_put_string(&s, 2, "this text is longer than forty bytes in all");
    pb_end(&s, at);
    struct error err = {0};
    CHECK_INT(str_check(&s, &err), ERR_MEMORY);
    str_release(&s);
}
