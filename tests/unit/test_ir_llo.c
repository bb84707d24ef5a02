// SPDX-License-Identifier: Apache-2.0
// Final bundles in the form that libtpu writes them; the texts are made here.
#include "ir/llo.h"

#include <stdlib.h>

#include "base/str.h"
#include "test.h"

static struct slice text(const char *s)
{
    return (struct slice){(const uint8_t *)s, strlen(s)};
}

static const char body[] =
    "= control target key start\nLH: loop header\n= control target key end\n\n"
    "     0   :  { %3 = vsyncpa [#allocation4], 0  ;;  %s1 = inlined_call_operand.hbm [shape: bf16[8,8]] } /* %f = "
    "fusion */\n"
    "   0x1 LB: > { %v5 = vld [vmem:[#allocation0]]  ;;  %6 = vmatprep.mubr.bf16.mxu0 %v5 }\n"
    "   0x2   : > { %7 = vmatpush1.bf16.msra.mxu0 %v5  ;;  %8 = vmatpush.msra.mxu1 %v5 }\n"
    "   0x3   : > { %9 = vmatmul.mubr.bf16.vlgmr.msra.gmra.mxu0 %v5  ;;  %10 = vmatmul.mubr.f32.gmra.mxu1 %v5 }\n"
    "   0x4   : > { %v11 = vmatmul.s8.gmra.mxu0 %v5 /* vmatmul.u8 is not one */ }\n"
    "  0x1a LE: > {}\n"
    "   0x5   :  { %12 = vmatmul.mubr.f8e4m3fn.mrb[0].mxu0 %v5  ;;  %13 = vmatmul.hi.f32.dwg %v6 } /* end */\n"
    "   0x6   :  { %14 = vmatmul.mubr.f8e5m2.bf16.gmra.mxu0 %v5  ;;  %15 = vmatpush1.bf8.bf16.msra.mxu1 %v6 }";

static const struct llo_matrix *find(const struct llo_bundles *b, const char *format)
{
    static const struct llo_matrix none;
    for (int i = 0; i < b->n_matrix; i++) {
        if (strcmp(b->matrix[i].format, format) == 0)
            return &b->matrix[i];
    }
    return &none;
}

TEST(ir_llo_counts_bundles_and_matrix_instructions)
{
    struct llo_bundles b;
    llo_bundles_read(&b, text(body));
    CHECK_INT(b.bundles, 8); // the key at the top has none
    CHECK_INT(b.n_matrix, 6);
    CHECK_STR(find(&b, "bf16")->unit, "bf16");
    CHECK_INT(find(&b, "f8e5m2")->multiplies, 1); // in registers, and
    CHECK_STR(find(&b, "f8e5m2")->unit, "bf16");  // as the unit has it
    CHECK_STR(find(&b, "bf8")->unit, "bf16");
    CHECK_STR(find(&b, "f8e4m3fn")->unit, "f8e4m3fn");
    CHECK_INT(find(&b, "bf16")->multiplies, 1);
    CHECK_INT(find(&b, "bf16")->pushes, 1);
    CHECK_INT(find(&b, "f32")->multiplies, 2); // .hi.f32, too
    CHECK_INT(find(&b, "f32")->pushes, 1);     // no format in its name
    CHECK_INT(find(&b, "s8")->multiplies, 1);
    CHECK_INT(find(&b, "f8e4m3fn")->multiplies, 1);
    CHECK_INT(find(&b, "u8")->multiplies, 0); // in a comment
    llo_bundles_read(&b, text(""));
    CHECK_INT(b.bundles + (uint64_t)b.n_matrix, 0);
    llo_bundles_read(&b, (struct slice){NULL, 0});
    CHECK_INT(b.bundles, 0);
    // Cut anywhere, no more is found than there is.
    for (size_t n = 0; n < sizeof body; n++) {
        llo_bundles_read(&b, (struct slice){(const uint8_t *)body, n});
        CHECK(b.bundles <= 8 && b.n_matrix <= 7); // a mnemonic that is cut may name another format
    }
    CHECK_INT(llo_rows("bf16"), 16);
    CHECK_INT(llo_rows("f32"), 8);
    CHECK_INT(llo_rows("s8"), 32);
    CHECK_INT(llo_rows("f8e5m2"), 32);
    CHECK_INT(llo_rows("c64"), 0);
}

TEST(ir_llo_formats_beyond_the_table_are_counted)
{
    struct str s;
    struct llo_bundles b;
    str_init(&s);
    for (int i = 0; i < LLO_MAX_FORMATS + 3; i++)
        str_addf(&s, "%%1 = vmatmul.s%d\n", 8 + i);
    llo_bundles_read(&b, text(str_text(&s)));
    CHECK_INT(b.n_matrix, LLO_MAX_FORMATS);
    CHECK_INT(b.unknown, 3);
    str_release(&s);
}

TEST(ir_llo_bodies_are_shared)
{
    static const char map[] = "key:<top-inlining-caller>\nordinal:0\nequivalent_hlos[size=0]:\n"
                              "key:fusion\nordinal:1\nequivalent_hlos[size=2]:\n  fusion.7\n  fusion\n"
                              "key:copy.1\nordinal:2\nequivalent_hlos[size=1]:\n  copy.1\nnonsense\n";
    struct arena a;
    struct error err = {0};
    struct llo_body *bodies;
    size_t n;
    arena_init(&a);
    REQUIRE_OK(llo_bodies_read(&bodies, &n, text(map), &a, &err), &err);
    CHECK_INT(n, 3);
    CHECK(slice_is(llo_body_of(bodies, n, text("fusion.7")), "fusion"));
    CHECK(slice_is(llo_body_of(bodies, n, text("fusion")), "fusion"));
    CHECK(slice_is(llo_body_of(bodies, n, text("copy.1")), "copy.1"));
    CHECK(slice_is(llo_body_of(bodies, n, text("fusion.8")), "fusion.8")); // not in the map: its own
    CHECK(slice_is(llo_body_of(NULL, 0, text("x")), "x"));
    arena_release(&a);
}
