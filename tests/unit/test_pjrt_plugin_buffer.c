// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>

#include "pjrt/api.h"
#include "pjrt_test.h"

static void round_trip(struct rig *r, const struct array_type *type, const void *data, enum host_copy copy)
{
    size_t bytes;
    REQUIRE(array_type_bytes(type, &bytes));
    struct buffer *b;
    REQUIRE_OK(buffer_from_host(&b, r->client, 0, data, type, copy, &r->err), &r->err);
    CHECK(array_type_equal(buffer_type(b), type));
    CHECK_INT(buffer_device(b), 0);
    REQUIRE_OK(buffer_await(b, &r->err), &r->err);
    unsigned char *back = malloc(bytes + 1);
    memset(back, 0xa5, bytes + 1);
    REQUIRE_OK(buffer_to_host(b, back, bytes, &r->err), &r->err);
    if (!CHECK(memcmp(back, data, bytes) == 0))
        printf("    %s\n", dtype_name(type->dtype));
    CHECK_INT(back[bytes], 0xa5); // nothing behind the end
    size_t device_bytes;
    REQUIRE_OK(buffer_device_bytes(b, &device_bytes, &r->err), &r->err);
    size_t count, packed;
    CHECK(array_type_count(type, &count) && dtype_bytes(type->dtype, count, &packed));
    CHECK(device_bytes >= packed);
    free(back);
    buffer_free(b);
}

// Every element type, with bytes that use all of its values (but what is no value of the type).
PLUGIN_TEST(buffer_round_trips)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    bool old = strstr(path, "old") != NULL;
    static unsigned char data[24 * 16] __attribute__((aligned(64)));
    int done = 0;
    for (int t = DT_INVALID + 1; t < DT_COUNT; t++) {
        enum dtype dtype = (enum dtype)t;
        if (old && (dtype == DT_F6E2M3FN || dtype == DT_F6E3M2FN))
            continue; // refused: see buffer_type_too_new
        unsigned bits = (unsigned)dtype_bits(dtype);
        for (size_t i = 0; i < sizeof data; i++) {
            unsigned v = (unsigned)(i * 37 + 11);
            if (dtype == DT_PRED)
                v &= 1;
            else if (bits < 8 && dtype_info(dtype)->kind == DTK_SIGNED) // sign-extended in its byte
                v = (unsigned)(int)((int8_t)(uint8_t)(v << (8 - bits)) >> (8 - bits));
            else if (bits < 8)
                v &= (1u << bits) - 1;
            data[i] = (unsigned char)v;
        }
        struct array_type type = {dtype, 3, {2, 3, 4}};
        round_trip(&r, &type, data, HOST_COPY);
        round_trip(&r, &type, data, HOST_ZERO_COPY);
        done++;
    }
    CHECK_INT(done, old ? DT_COUNT - 3 : DT_COUNT - 1);
    rig_close(&r);
}

PLUGIN_TEST(buffer_shapes)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    static float data[1 << 18] __attribute__((aligned(64)));
    for (int i = 0; i < 1 << 18; i++)
        data[i] = (float)i;
    static const struct array_type types[] = {
        {DT_F32, 0, {0}},
        {DT_F32, 1, {0}},
        {DT_F32, 3, {4, 0, 2}},
        {DT_F32, 1, {1}},
        {DT_F32, 8, {2, 1, 3, 1, 1, 2, 1, 5}},
        {DT_F32, 2, {512, 512}},
        {DT_F32, ARRAY_MAX_RANK, {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        round_trip(&r, &types[i], data, HOST_COPY);
        round_trip(&r, &types[i], data, HOST_ZERO_COPY);
    }
    rig_close(&r);
}

// The memory may change as soon as a copying upload returns, and must not matter.
PLUGIN_TEST(buffer_copy_is_a_copy)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    static float data[1 << 16], back[1 << 16];
    for (int i = 0; i < 1 << 16; i++)
        data[i] = (float)i;
    struct buffer *b = rig_upload(&r, 0, data, DT_F32, 1, DIMS(1 << 16));
    REQUIRE(b);
    CHECK(!buffer_is_aliased(b));
    memset(data, 0, sizeof data);
    REQUIRE_OK(buffer_to_host(b, back, sizeof back, &r.err), &r.err);
    int wrong = 0;
    for (int i = 0; i < 1 << 16; i++)
        wrong += back[i] != (float)i;
    CHECK_INT(wrong, 0);
    buffer_free(b);
    rig_close(&r);
}

// Aligned memory is used in place: what is written there later is seen through the buffer. (The caller promises not to;
// the test shows that nothing was copied.)
PLUGIN_TEST(buffer_zero_copy_is_none)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    static float data[1024] __attribute__((aligned(64)));
    float back[1024];
    data[3] = 1;
    struct array_type type = {DT_F32, 1, {1024}};
    struct buffer *b;
    REQUIRE_OK(buffer_from_host(&b, r.client, 0, data, &type, HOST_ZERO_COPY, &r.err), &r.err);
    CHECK(buffer_is_aliased(b));
    data[3] = 2;
    REQUIRE_OK(buffer_to_host(b, back, sizeof back, &r.err), &r.err);
    CHECK(back[3] == 2);
    buffer_free(b);
    rig_close(&r);
}

static void check_upload_refused(struct rig *r, size_t device, const void *data, struct array_type type,
                                 enum host_copy copy, const char *text)
{
    struct buffer *b;
    int rc = buffer_from_host(&b, r->client, device, data, &type, copy, &r->err);
    CHECK(!b);
    CHECK_ERROR(rc, ERR_USAGE, text, &r->err);
}

PLUGIN_TEST(buffer_refuses)
{
    struct rig r;
    REQUIRE(rig_open(&r, path, 2));
    static float data[16] __attribute__((aligned(64)));
    static const unsigned char preds[4] = {0, 1, 2, 1};
    struct array_type f32 = {DT_F32, 1, {4}};
    check_upload_refused(&r, 2, data, f32, HOST_COPY, "there is no device 2, there are 2");
    check_upload_refused(&r, 0, data + 1, f32, HOST_ZERO_COPY, "aligned to 64 bytes");
    check_upload_refused(&r, 0, NULL, f32, HOST_COPY, "no data is given for an array of 16 bytes");
    check_upload_refused(&r, 0, data, (struct array_type){DT_INVALID, 1, {4}}, HOST_COPY, "invalid array of rank 1");
    check_upload_refused(&r, 0, data, (struct array_type){DT_F32, 1, {-4}}, HOST_COPY, "not one that can be made");
    check_upload_refused(&r, 0, data, (struct array_type){DT_F32, 2, {INT64_MAX, 8}}, HOST_COPY, "not one");
    check_upload_refused(&r, 0, data, (struct array_type){DT_F32, 99, {1}}, HOST_COPY, "rank 99");
    check_upload_refused(&r, 0, preds, (struct array_type){DT_PRED, 1, {4}}, HOST_COPY,
                         "byte 2 is 2; a pred is 0 or 1");
    struct buffer *b = rig_upload(&r, 1, data, DT_F32, 1, DIMS(4));
    REQUIRE(b);
    CHECK_INT(buffer_device(b), 1);
    CHECK_ERROR(buffer_to_host(b, data, 12, &r.err), ERR_USAGE, "12 bytes are given for a f32 array of 16", &r.err);
    CHECK_ERROR(buffer_to_host(b, data, 20, &r.err), ERR_USAGE, "20 bytes are given for a f32 array of 16", &r.err);
    buffer_free(b);
    rig_close(&r);
}

// Copies out without naming a layout: the bytes come as they lie on the device.
static bool read_as_it_lies(struct buffer *b, void *dst, size_t bytes, struct error *err)
{
    const struct plugin *p = b->client->plugin;
    PJRT_ARGS(p, PJRT_Buffer_ToHostBuffer_Args, args);
    args->src = b->buffer;
    args->dst = dst;
    args->dst_size = bytes;
    if (PJRT_CALL(p, PJRT_Buffer_ToHostBuffer, args, err) != 0)
        return false;
    pjrt_live_add(1);
    return event_await(p, args->event, "PJRT_Buffer_ToHostBuffer", err) == 0;
}

// A result whose dimensions lie in another order on the device comes back row-major all the same.
PLUGIN_TEST(buffer_transposed_layout)
{
    static const char module[] =
        "func.func public @main(%a: tensor<3x5xf32>) -> (tensor<3x5xf32> {mhlo.layout_mode = \"{0,1}\"}) {\n"
        "  return %a : tensor<3x5xf32>\n"
        "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, module, NULL);
    REQUIRE(p);
    float a[15], y[15];
    for (int i = 0; i < 15; i++)
        a[i] = (float)i;
    struct buffer *in = rig_upload(&r, 0, a, DT_F32, 2, DIMS(3, 5)), *out;
    REQUIRE(in);
    REQUIRE_OK(program_execute(p, &in, 1, &out, &r.err), &r.err);
    REQUIRE(read_as_it_lies(out, y, sizeof y, &r.err));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 5; j++)
            CHECK(y[j * 3 + i] == a[i * 5 + j]);
    REQUIRE_OK(buffer_to_host(out, y, sizeof y, &r.err), &r.err);
    CHECK(memcmp(y, a, sizeof a) == 0);
    buffer_free(out);
    buffer_free(in);
    program_free(p);
    rig_close(&r);
}

PLUGIN_TEST(buffer_mixed_layout)
{
    static const char module[] = "func.func public @main(%a: tensor<2x3x4x5xi16>) -> (tensor<2x3x4x5xi16> "
                                 "{mhlo.layout_mode = \"{1,3,0,2}\"}) {\n"
                                 "  return %a : tensor<2x3x4x5xi16>\n"
                                 "}\n";
    struct rig r;
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, module, NULL);
    REQUIRE(p);
    int16_t a[120], y[120];
    for (int i = 0; i < 120; i++)
        a[i] = (int16_t)(i * 273);
    struct buffer *in = rig_upload(&r, 0, a, DT_S16, 4, DIMS(2, 3, 4, 5)), *out;
    REQUIRE(in);
    REQUIRE_OK(program_execute(p, &in, 1, &out, &r.err), &r.err);
    REQUIRE(read_as_it_lies(out, y, sizeof y, &r.err));
    CHECK(memcmp(y, a, sizeof a) != 0);
    REQUIRE_OK(buffer_to_host(out, y, sizeof y, &r.err), &r.err);
    CHECK(memcmp(y, a, sizeof a) == 0);
    buffer_free(out);
    buffer_free(in);
    program_free(p);
    rig_close(&r);
}

// A type that the plugin is too old for would end the process.
TEST(pjrt_old_plugin_buffer_type_too_new)
{
    struct rig r;
    REQUIRE(rig_open(&r, pjrt_test_plugin(true), 1));
    unsigned char data[4] = {1, 2, 3, 4};
    struct buffer *b;
    struct array_type type = {DT_F6E2M3FN, 1, {4}};
    int rc = buffer_from_host(&b, r.client, 0, data, &type, HOST_COPY, &r.err);
    CHECK(!b);
    CHECK_ERROR(rc, ERR_DEVICE, "f6e2m3fn came with PJRT API 0.114, the plugin's is 0.81", &r.err);
    rig_close(&r);
}
