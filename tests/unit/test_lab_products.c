// SPDX-License-Identifier: Apache-2.0
#include "lab/products.h"

#include <stdlib.h>

#include "base/pbwire.h"
#include "pjrt_test.h"
#include "test.h"

static void instruction(struct str *s, const char *opcode, enum dtype type, uint64_t id, const uint64_t *operands,
                        int n, const char *target, const char *config, bool packed)
{
    char name[32];
    size_t at = pb_begin(s, 2); // HloComputationProto.instructions
    snprintf(name, sizeof name, "%s.%d", opcode, (int)id);
    pb_put_string(s, 1, name);
    pb_put_string(s, 2, opcode);
    size_t shape = pb_begin(s, 3);
    pb_put_int(s, 2, dtype_info(type)->xla);
    pb_end(s, shape);
    if (target)
        pb_put_string(s, 28, target);
    pb_put_uint(s, 35, id);
    if (config)
        pb_put_string(s, 43, config); // backend_config
    size_t list = packed ? pb_begin(s, 36) : 0;
    for (int i = 0; i < n; i++) {
        if (packed)
            pb_put_varint(s, operands[i]);
        else
            pb_put_uint(s, 36, operands[i]);
    }
    if (packed)
        pb_end(s, list);
    pb_end(s, at);
}

static size_t computation(struct str *s, const char *name, int64_t id)
{
    size_t at = pb_begin(s, 3); // HloModuleProto.computations
    pb_put_string(s, 1, name);
    pb_put_int(s, 5, id);
    return at;
}

// Two computations, products of five kinds and a call of a library that is none.
static void example(struct str *s, bool packed)
{
    const uint64_t ab[2] = {7, 8}, ba[2] = {2, 1}, quantised[2] = {1, 12}, nibbles[2] = {1, 15};
    size_t module = pb_begin(s, 1);
    pb_put_string(s, 1, "module");
    pb_put_string(s, 2, "main");
    size_t first = computation(s, "called", 50);
    instruction(s, "parameter", DT_U8, 7, NULL, 0, NULL, NULL, packed);
    instruction(s, "parameter", DT_S8, 8, NULL, 0, NULL, NULL, packed);
    instruction(s, "dot", DT_S32, 9, ab, 2, NULL, NULL, packed);
    instruction(s, "dot", DT_S32, 10, ab, 2, NULL, NULL, packed);
    instruction(s, "dot", DT_S32, 11, ab, 2, NULL, NULL, packed);
    pb_put_int(s, 6, 11); // root_id
    pb_end(s, first);
    size_t second = computation(s, "main", 51);
    instruction(s, "parameter", DT_BF16, 1, NULL, 0, NULL, NULL, packed);
    instruction(s, "parameter", DT_F16, 2, NULL, 0, NULL, NULL, packed);
    instruction(s, "dot", DT_F32, 3, ba, 2, NULL, NULL, packed);
    instruction(s, "custom-call", DT_F32, 4, ba, 2, "__onednn$matmul", NULL, packed);
    instruction(s, "custom-call", DT_F32, 5, ba, 2, "TopK", NULL, packed);
    instruction(s, "add", DT_F32, 6, ba, 2, NULL, NULL, packed);
    // A kernel of ours, which makes codes of its rows first, and one that widens the codes.
    instruction(s, "parameter", DT_S8, 12, NULL, 0, NULL, NULL, packed);
    instruction(s, "custom-call", DT_BF16, 13, quantised, 2, "assay.product", "{scales = 0 : i64, quantise = 1 : i64}",
                packed);
    instruction(s, "custom-call", DT_BF16, 14, quantised, 2, "assay.product", "{scales = 0 : i64, quantise = 0 : i64}",
                packed);
    // And one that takes two of them out of every byte.
    instruction(s, "parameter", DT_U8, 15, NULL, 0, NULL, NULL, packed);
    instruction(s, "custom-call", DT_BF16, 16, nibbles, 2, "assay.product", "{scales = 4 : i64, packed = 1 : i64}",
                packed);
    pb_put_int(s, 6, 6);
    pb_end(s, second);
    pb_end(s, module);
    pb_put_string(s, 2, "config"); // not looked at
}

TEST(lab_products_of_a_program)
{
    for (int packed = 0; packed < 2; packed++) {
        struct products found[PRODUCTS_MAX];
        struct str s;
        str_init(&s);
        example(&s, packed);
        REQUIRE(products_of_hlo(s.text, s.length, found) == 5);
        CHECK(found[0].lhs == DT_U8 && found[0].rhs == DT_S8 && found[0].result == DT_S32 && found[0].count == 3);
        CHECK(found[1].lhs == DT_F16 && found[1].rhs == DT_BF16 && found[1].result == DT_F32 && found[1].count == 2);
        int s8_by_s8 = 0, bf16_by_s8 = 0, bf16_by_s4 = 0; // the first quantises, the others do not
        for (int i = 2; i < 5; i++) {
            CHECK(found[i].count == 1);
            s8_by_s8 += found[i].lhs == DT_S8 && found[i].rhs == DT_S8;
            bf16_by_s8 += found[i].lhs == DT_BF16 && found[i].rhs == DT_S8;
            bf16_by_s4 += found[i].lhs == DT_BF16 && found[i].rhs == DT_S4;
        }
        CHECK(s8_by_s8 == 1 && bf16_by_s8 == 1 && bf16_by_s4 == 1);
        str_release(&s);
    }
}

// What is no module is no failure: its products are not known. (What hlo_read makes of damage is tested with it.)
TEST(lab_products_of_a_damaged_program)
{
    struct products found[PRODUCTS_MAX];
    struct str s;
    str_init(&s);
    example(&s, true);
    CHECK_INT(products_of_hlo("", 0, found), -1);
    CHECK_INT(products_of_hlo(s.text, s.length / 2, found), -1);
    s.text[s.length / 2] = (char)0xff;
    CHECK(products_of_hlo(s.text, s.length, found) < 5);
    str_release(&s);
}

// What the plugin hands out is what is read.
PLUGIN_TEST(products_of_an_optimised_program)
{
    static const char module[] =
        "func.func public @main(%x: tensor<64x32xf8E4M3FN>, %w: tensor<32x16xf8E4M3FN>) -> tensor<64x16xf32> {\n"
        "  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x32xf8E4M3FN>, "
        "tensor<32x16xf8E4M3FN>) -> tensor<64x16xf32>\n"
        "  return %0 : tensor<64x16xf32>\n"
        "}\n";
    struct rig r;
    struct str hlo;
    char format[32];
    struct products found[PRODUCTS_MAX];
    REQUIRE(rig_open(&r, path, 1));
    struct program *p = rig_compile(&r, module, NULL);
    REQUIRE(p);
    str_init(&hlo);
    REQUIRE_OK(program_optimized(p, &hlo, format, &r.err), &r.err);
    CHECK_STR(format, "hlo_with_config");
    REQUIRE(products_of_hlo(hlo.text, hlo.length, found) == 1);
    CHECK(found[0].lhs == DT_F32 && found[0].rhs == DT_F32); // no product of 8-bit floats on the CPU: they are widened
    CHECK_INT(found[0].count, 1);
    str_release(&hlo);
    program_free(p);
    rig_close(&r);
}
