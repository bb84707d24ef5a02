// SPDX-License-Identifier: Apache-2.0
#include "pjrt/pjrt.h"
#include "test.h"

TEST(pjrt_array_sizes)
{
    size_t n;
    struct array_type t = {DT_BF16, 2, {3, 5}};
    CHECK(array_type_count(&t, &n) && n == 15);
    CHECK(array_type_bytes(&t, &n) && n == 30);
    t = (struct array_type){DT_S4, 1, {7}};
    CHECK(array_type_bytes(&t, &n) && n == 7); // a byte each in host memory
    t = (struct array_type){DT_C128, 0, {0}};
    CHECK(array_type_bytes(&t, &n) && n == 16);
    t = (struct array_type){DT_F32, 2, {0, INT64_MAX}};
    CHECK(array_type_bytes(&t, &n) && n == 0);
    t = (struct array_type){DT_F32, 2, {INT64_MAX, 4}};
    CHECK(!array_type_count(&t, &n));
    t = (struct array_type){DT_F64, 1, {INT64_MAX / 2}};
    CHECK(array_type_count(&t, &n) && !array_type_bytes(&t, &n));
    t = (struct array_type){DT_F32, 1, {-1}};
    CHECK(!array_type_count(&t, &n));
    t = (struct array_type){DT_F32, ARRAY_MAX_RANK + 1, {0}};
    CHECK(!array_type_count(&t, &n));
    t.rank = -1;
    CHECK(!array_type_count(&t, &n));
    t = (struct array_type){DT_INVALID, 0, {0}};
    CHECK(!array_type_bytes(&t, &n));
}

TEST(pjrt_array_equality_and_text)
{
    struct array_type a = {DT_F32, 2, {2, 3}}, b = {DT_F32, 2, {2, 4}}, c = {DT_F32, 1, {2}}, d = {DT_S32, 2, {2, 3}};
    CHECK(array_type_equal(&a, &a));
    CHECK(!array_type_equal(&a, &b) && !array_type_equal(&a, &c) && !array_type_equal(&a, &d));
    c.dims[1] = 9; // behind the rank
    CHECK(array_type_equal(&c, &(struct array_type){DT_F32, 1, {2}}));
    struct str s;
    str_init(&s);
    array_type_print(&s, &a);
    array_type_print(&s, &(struct array_type){DT_PRED, 0, {0}});
    CHECK_STR(str_text(&s), "f32[2,3]pred[]");
    str_release(&s);
}

TEST(pjrt_array_attribute_text)
{
    static const int64_t list[] = {1, -2, 3};
    static const struct attribute items[] = {
        {"text", ATTRIBUTE_STRING, .string = "v1"},
        {"count", ATTRIBUTE_INT, .integer = -7},
        {"coords", ATTRIBUTE_INT_LIST, .list = list, .list_count = 3},
        {"share", ATTRIBUTE_FLOAT, .number = 0.5f},
        {"on", ATTRIBUTE_BOOL, .boolean = true},
    };
    struct attributes a = {items, 5};
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < a.count; i++) {
        attribute_print(&s, &items[i]);
        str_add_char(&s, ' ');
    }
    CHECK_STR(str_text(&s), "v1 -7 [1,-2,3] 0.5 true ");
    CHECK(attributes_find(&a, "coords") == &items[2]);
    CHECK(!attributes_find(&a, "coord"));
    str_release(&s);
}

static void check_options(const struct compile_options *options, const int *default_ids, const void *want, size_t n)
{
    struct str s;
    str_init(&s);
    compile_options_encode(&s, options, default_ids);
    CHECK(!s.failed);
    if (CHECK_INT(s.length, n))
        CHECK(memcmp(s.text, want, n) == 0);
    str_release(&s);
}

#define EXCESS "xla_allow_excess_precision" // 26 characters

// Field numbers as in xla/pjrt/proto/compile_options.proto.
TEST(pjrt_array_compile_options_bytes)
{
    static const char one[] = "\x1a\x04\x20\x01\x28\x01"                    // one replica, one partition
                              "\x3a\x20\x0a\x1a" EXCESS "\x12\x02\x10\x00"; // bool_field = false
    check_options(&(struct compile_options){0}, NULL, one, sizeof one - 1);

    static const int ids[] = {5, 4, 3, 2, 1, 0};
    static const struct compile_override overrides[] = {
        {"d", OVERRIDE_STRING, .string = "/t"},
        {"n", OVERRIDE_INT, .integer = 3},
        {"x", OVERRIDE_DOUBLE, .number = 1.0},
    };
    struct compile_options options = {.num_replicas = 2,
                                      .num_partitions = 3,
                                      .use_spmd_partitioning = true,
                                      .use_shardy = true,
                                      .allow_excess_precision = true,
                                      .overrides = overrides,
                                      .override_count = 3};
    // The assignment lists, for each partition, the devices of its replicas.
    static const char many[] =
        "\x1a\x21\x20\x02\x28\x03\x30\x01"
        "\x4a\x16\x08\x02\x10\x03\x1a\x04\x0a\x02\x05\x02\x1a\x04\x0a\x02\x04\x01\x1a\x04\x0a\x02\x03"
        "\x00\x98\x01\x01"
        "\x3a\x20\x0a\x1a" EXCESS "\x12\x02\x10\x01"
        "\x3a\x09\x0a\x01"
        "d\x12\x04\x0a\x02/t"
        "\x3a\x07\x0a\x01n\x12\x02\x18\x03"
        "\x3a\x0e\x0a\x01x\x12\x09\x21\x00\x00\x00\x00\x00\x00\xf0\x3f";
    check_options(&options, ids, many, sizeof many - 1);
}
