// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "plan/layout.h"
#include "test.h"

TEST(plan_layout_terms_and_what_is_left)
{
    static const struct {
        const char *text;
        int64_t devices;
        const char *spelled;
    } rows[] = {
        {"dp=2,fsdp=4,tp=8,sp,pp=2,ep=8", 1024, "dp=2,fsdp=4,tp=8,pp=2,ep=8,sp"},
        {"dp=2,fsdp=4,tp=8,sp,pp=2,ep=8", 0, "dp=2,fsdp=4,tp=8,pp=2,ep=8,sp"},
        {"fsdp", 8, "fsdp=8"},
        {"tp+sp", 8, "tp=8,sp"},
        {"ulysses", 4, "ulysses=4"},
        {"ring", 4, "ring=4"},
        {"ep", 16, "ep=16"},
        {"dp,tp=4", 16, "dp=4,tp=4"},
        {"dp=4,zero=1", 4, "dp=4,zero=1"},
        {"tp=4,dp,zero=2", 8, "dp=2,tp=4,zero=2"},
        {"pp=4,mb=8", 4, "pp=4,mb=8"},
        {"single", 1, "single"},
        {"tp=1", 1, "single"},
        {"tp", 1, "single"},
        {"tp+sp", 1, "single"},
        {"dp=1,zero=1,pp=1,mb=4,tp=8,sp", 8, "tp=8,sp"},
        {"single", 0, "single"},
    };
    struct str s;
    str_init(&s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct layout l, again;
        REQUIRE_OK(layout_parse(&l, rows[i].text, rows[i].devices, &e), &e);
        str_clear(&s);
        layout_spell(&l, &s);
        CHECK_STR(str_text(&s), rows[i].spelled);
        CHECK(!rows[i].devices || layout_devices(&l) == rows[i].devices);
        REQUIRE_OK(layout_parse(&again, str_text(&s), rows[i].devices, &e), &e);
        CHECK(memcmp(&l, &again, sizeof l) == 0);
    }
    // Every preset is a layout of any number of devices.
    for (int i = 0; layout_preset(i); i++) {
        struct error e = {0};
        struct layout l;
        REQUIRE_OK(layout_parse(&l, layout_preset(i), 16, &e), &e);
        CHECK_INT(layout_devices(&l), 16);
        CHECK_INT(layout_batch_ways(&l) * layout_sequence_ways(&l) * l.ways[LAYOUT_TP], 16);
    }
    CHECK(layout_preset(-1) == NULL);
    str_release(&s);
}

TEST(plan_layout_what_cannot_be_says_the_cure)
{
    static const struct {
        const char *text;
        int64_t devices;
        const char *says;
    } rows[] = {
        {"", 8, "joined by commas"},
        {",", 8, "joined by commas"},
        {"tp=4,", 8, "joined by commas"},
        {"tp=4,,dp=2", 8, "joined by commas"},
        {"tp=0", 8, "from 1"},
        {"tp=-4", 8, "from 1"},
        {"tp=", 8, "from 1"},
        {"tp=4x", 8, "from 1"},
        {"tp=99999999999999999999", 8, "from 1"},
        {"tp=1048576,dp=1048576,pp=1048576,ep=1048576", 0, "more than"},
        {"tp=4,tp=2", 8, "twice"},
        {"sp,tp=8,sp", 8, "twice"},
        {"dp,tp", 8, "both have no number"},
        {"tp", 0, "without a target"},
        {"tp=4", 8, "add dp=2"},
        {"dp=2,tp=2", 8, "add dp=4"},
        {"tp=3", 8, "product of all ways"},
        {"tp=16", 8, "product of all ways"},
        {"tp=3,dp", 8, "cannot be divided"},
        {"sp", 8, "ulysses=N"},
        {"sp=4", 8, "ulysses=4"},
        {"fsdp,sp", 8, "needs tp=N"},
        {"dp,zero=3", 8, "fsdp=N"},
        {"dp,zero", 8, "zero=1"},
        {"dp,zero=4", 8, "zero=1"},
        {"dp,zero=1,zero=1", 8, "twice"},
        {"fsdp,zero=1", 8, "needs dp=N"},
        {"dp,mb=4", 8, "needs pp=N"},
        {"pp=8,mb=0", 8, "from 1"},
        {"fdsp", 8, "did you mean \"fsdp\""},
        {"cp=2", 8, "ulysses or ring"},
        {"xxxxxxxx", 8, "there is dp, fsdp"},
        {"tppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp", 8, "too long"},
        {"tp", -1, "devices"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct layout l;
        if (!CHECK_INT(layout_parse(&l, rows[i].text, rows[i].devices, &e), ERR_USAGE) ||
            !CHECK(strstr(e.message, rows[i].says)))
            printf("    \"%s\": %s\n", rows[i].text, e.message);
    }
}

TEST(plan_layout_against_a_model)
{
    static const struct layout_limits dense = {
        .layers = 24, .heads = 8, .kv_heads = 2, .ffn = 4096, .dense = true, .batch = 8, .seq = 4096};
    static const struct layout_limits experts = {
        .layers = 24, .heads = 64, .kv_heads = 8, .experts = 60, .expert_ffn = 1408, .batch = 64};
    static const struct layout_limits odd = {.heads = 12, .kv_heads = 3, .dense = true};
    static const struct {
        const struct layout_limits *limits;
        const char *text, *says; // NULL: it can be
    } rows[] = {
        {&dense, "tp=8", NULL}, // a head of keys and values on 4 devices each
        {&dense, "tp=16", "8 heads cannot be divided over tp=16 ways; tp of 1, 2, 4, 8 do"},
        {&dense, "ulysses=16", "8 heads cannot be divided over ulysses=16 ways"},
        {&dense, "tp=4,ulysses=4", "tp*ulysses=16 ways"},
        {&dense, "ring=8", NULL},
        {&dense, "ring=3", "4096 tokens of a sequence cannot be divided over ring=3"},
        {&dense, "tp=8,sp", NULL},
        {&dense, "ep=8", "this model has none; use fsdp=8"},
        {&dense, "pp=24", NULL},
        {&dense, "pp=7", NULL},
        {&dense, "pp=25", "more stages than the model has layers, 24"},
        {&dense, "dp=8", NULL},
        {&dense, "dp=4,fsdp=4", "give --batch 16 or fewer ways"},
        {&dense, "dp=2,pp=2,mb=4", NULL},
        {&dense, "dp=2,pp=2,mb=3", "mb=3 does not divide the 4 sequences"},
        {&experts, "ep=4", NULL},
        {&experts, "ep=8", "60 experts cannot be divided over ep=8 ways; ep of 1, 2, 3, 4"},
        {&experts, "tp=64", NULL},
        {&experts, "tp=32", NULL},
        {&odd, "tp=2", "a divisor or a multiple of 3"},
        {&odd, "tp=6", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error e = {0};
        struct layout l;
        REQUIRE_OK(layout_parse(&l, rows[i].text, 0, &e), &e);
        int rc = layout_check(&l, rows[i].limits, &e);
        if (!CHECK_INT(rc, rows[i].says ? ERR_USAGE : 0) || (rows[i].says && !CHECK(strstr(e.message, rows[i].says))))
            printf("    %s: %s\n", rows[i].text, e.message);
    }
}
