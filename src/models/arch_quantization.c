// SPDX-License-Identifier: Apache-2.0
// "quantization_config" of config.json: how the weights of linear layers are stored.
#include <inttypes.h>
#include <string.h>

#include "models/arch_read.h"

static int64_t small(const json_t *o, const char *key, int64_t absent)
{
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : absent;
}

static int packed_int32(struct arch_reader *r, const json_t *o, struct arch_quant *q)
{
    q->bits = small(o, "bits", small(o, "w_bit", 4));
    q->group = small(o, "group_size", small(o, "q_group_size", 128));
    if (q->group == -1)
        q->group = 0;
    if ((q->bits != 2 && q->bits != 3 && q->bits != 4 && q->bits != 8) || q->group < 0 || q->group > ARCH_MOST_WIDTH)
        return error_set(r->err, ERR_INPUT, r->path,
                         "\"quantization_config\": %" PRId64 " bits in groups of %" PRId64
                         " is not known (2, 3, 4 or 8 bits; groups of 1 or more, or -1)",
                         q->bits, q->group);
    return 0;
}

static int fp8(struct arch_reader *r, const json_t *o, struct arch_quant *q)
{
    const json_t *block = json_object_get(o, "weight_block_size");
    for (size_t i = 0; i < 2 && json_array_size(block) == 2; i++) {
        const json_t *v = json_array_get(block, i);
        if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > ARCH_MOST_WIDTH)
            return error_set(r->err, ERR_INPUT, r->path, "\"weight_block_size\" must be two numbers from 1 on");
        q->block[i] = (int64_t)json_integer_value(v);
    }
    return 0;
}

int arch_read_quantization(struct arch_reader *r, struct arch_quant *q)
{
    static const struct {
        const char *name;
        enum arch_quant_method method;
    } methods[] = {
        {"gptq", ARCH_QUANT_GPTQ}, {"awq", ARCH_QUANT_AWQ}, {"fp8", ARCH_QUANT_FP8}, {"mxfp4", ARCH_QUANT_MXFP4}};
    const json_t *o = json_object_get(r->outer, "quantization_config");
    if (!o || json_is_null(o))
        return 0;
    const char *name = json_string_value(json_object_get(o, "quant_method"));
    bool four = json_is_true(json_object_get(o, "load_in_4bit")),
         eight = json_is_true(json_object_get(o, "load_in_8bit"));
    for (size_t i = 0; name && i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(name, methods[i].name) == 0)
            q->method = methods[i].method;
    }
    if (four || eight) // bitsandbytes
        q->method = four ? ARCH_QUANT_NF4 : ARCH_QUANT_INT8;
    q->nested = json_is_true(json_object_get(o, "bnb_4bit_use_double_quant"));
    if (!q->method)
        return error_set(
            r->err, ERR_INPUT, r->path,
            "\"quantization_config\": method \"%.40s\" is not known (gptq, awq, fp8, mxfp4, bitsandbytes); "
            "give the .safetensors files for what is stored, or --policy for what will be",
            name ? name : "");
    if (q->method == ARCH_QUANT_GPTQ || q->method == ARCH_QUANT_AWQ)
        return packed_int32(r, o, q);
    return q->method == ARCH_QUANT_FP8 ? fp8(r, o, q) : 0;
}
