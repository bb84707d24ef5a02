// SPDX-License-Identifier: Apache-2.0
// Buffer assignments in the form that XLA writes them; the texts are made here.
#include "ir/buffers.h"

#include "test.h"

static struct slice text(const char *s)
{
    return (struct slice){(const uint8_t *)s, strlen(s)};
}

static const char dump[] = "BufferAssignment:\n"
                           "allocation 0: size 4096, page 0, output shape is |f32[32,32]|, maybe-live-out:\n"
                           " value: <9 fusion.2 @0> (size=4096,offset=0): f32[32,32]{1,0:T(8,128)}\n"
                           "allocation 1: size 2048, page 0, parameter 1, shape |bf16[32,32]| at ShapeIndex {}:\n"
                           " value: <7 Arg_1.1 @0> (size=2048,offset=0): bf16[32,32]{1,0}\n"
                           "allocation 2: size 33587200, page 0, preallocated-temp:\n"
                           " value: <23 copy-start{0} @0> (size=32,offset=0): (bf16[8]{0}, u32[]{:S(2)})\n"
                           " value: <27 fusion.1 @0> (size=33554432,offset=32768): bf16[4096,4096]{1,0}\n"
                           "allocation 3: size 64, color 1, page 0, preallocated-temp:\n"
                           "allocation 4: size 8, page 0, constant:\n"
                           " value: <30 constant.4 @0> (size=8,offset=0): f32[2]{0}\n"
                           "allocation 5: size 99999999999999999999, page 0, parameter 0:\n"
                           " value: nonsense\n";

TEST(ir_buffers_read)
{
    struct arena a;
    struct error err = {0};
    struct buffers b;
    arena_init(&a);
    REQUIRE_OK(buffers_read(&b, text(dump), &a, &err), &err);
    CHECK_INT(b.n_allocations, 5); // a size beyond 63 bits is passed over
    CHECK_INT(b.n_values, 5);
    CHECK_INT(b.allocations[0].kind, BUFFER_OUTPUT);
    CHECK_INT(b.allocations[1].kind, BUFFER_ARGUMENT);
    CHECK_INT(b.allocations[1].parameter, 1);
    CHECK_INT(b.allocations[2].kind, BUFFER_TEMPORARY);
    CHECK_INT(b.allocations[3].space, 1);
    CHECK_INT(b.allocations[4].kind, BUFFER_CONSTANT);
    CHECK(slice_is(b.values[2].name, "copy-start{0}"));
    CHECK(slice_is(buffer_value_instruction(&b.values[2]), "copy-start"));
    CHECK(slice_is(buffer_value_instruction(&b.values[3]), "fusion.1"));
    CHECK(slice_starts_with(b.values[3].shape, "bf16[4096,4096]{1,0}"));
    CHECK_INT(b.values[3].bytes, 33554432);
    CHECK_INT(b.values[3].allocation, 2);
    CHECK_INT(buffers_bytes(&b, 0, BUFFER_TEMPORARY), 33587200);
    CHECK_INT(buffers_bytes(&b, 1, BUFFER_TEMPORARY), 64);
    CHECK_INT(buffers_bytes(&b, 0, BUFFER_OTHER), 0);
    for (size_t n = 0; n < sizeof dump; n++) { // cut anywhere
        REQUIRE_OK(buffers_read(&b, (struct slice){(const uint8_t *)dump, n}, &a, &err), &err);
        CHECK(b.n_allocations <= 6 && b.n_values <= 5); // a number that is cut is a smaller one
    }
    arena_release(&a);
}

TEST(ir_buffers_out_of_memory)
{
    struct out_of_memory m;
    CHECK(
        out_of_memory_read(&m, text("E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for "
                                    "HLO temporaries (96.00G) exceeds available HBM (31.24G). HLO module: oom.")));
    CHECK(slice_is(m.needed, "96.00G"));
    CHECK(slice_is(m.available, "31.24G"));
    CHECK(slice_is(m.memory, "HBM"));
    CHECK_NEAR(out_of_memory_bytes(m.needed), 96 * 1073741824.0, 0);
    CHECK_NEAR(out_of_memory_bytes(text("64.00M")), 64 * 1048576.0, 0);
    CHECK_NEAR(out_of_memory_bytes(text("512")), 512, 0);
    CHECK(isnan(out_of_memory_bytes(text("much"))));
    CHECK(isnan(out_of_memory_bytes(text(""))));
    CHECK(isnan(out_of_memory_bytes(text("-1G"))));
    CHECK(!out_of_memory_read(&m, text("Ran out of memory on HBM, the total memory required")));
    CHECK(!out_of_memory_read(&m, text("RESOURCE_EXHAUSTED: something else")));
}
