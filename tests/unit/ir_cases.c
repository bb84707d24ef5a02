// SPDX-License-Identifier: Apache-2.0
#include "ir_cases.h"

#include <stdlib.h>

const char *ir_case_text(const json_t *c, const char *key)
{
    const char *s = json_string_value(json_object_get(c, key));
    return s ? s : "";
}

enum opcode ir_case_opcode(const char *name)
{
    for (int op = 0; op < OP_COUNT; op++) {
        if (strcmp(op_info((enum opcode)op)->name, name) == 0)
            return (enum opcode)op;
    }
    return OP_COUNT;
}

// Attributes of a case as the builder takes them.
struct attributes_of {
    int64_t a[SHAPE_MAX_RANK], b[SHAPE_MAX_RANK], c[SHAPE_MAX_RANK];
    int dims[SHAPE_MAX_RANK], n_a;
};

static struct attributes_of read_attributes(const json_t *c)
{
    struct attributes_of at = {0};
    at.n_a = ir_fixture_ints(json_object_get(c, "a"), at.a, SHAPE_MAX_RANK);
    ir_fixture_ints(json_object_get(c, "b"), at.b, SHAPE_MAX_RANK);
    ir_fixture_ints(json_object_get(c, "c"), at.c, SHAPE_MAX_RANK);
    for (int i = 0; i < at.n_a; i++)
        at.dims[i] = (int)at.a[i];
    return at;
}

static int build_constant(struct builder *b, const struct ir_fixture *f, const json_t *c, struct shape want)
{
    const char *kind = ir_case_text(c, "constant");
    if (strcmp(kind, "lowest") == 0)
        return build_symbol(b, want, CONST_LOWEST);
    if (strcmp(kind, "infinity") == 0)
        return build_symbol(b, want, CONST_INFINITY);
    if (strcmp(kind, "splat") == 0)
        return build_splat(b, want, strtod(ir_case_text(c, "value"), NULL));
    double values[64];
    const char *from = str_text(&f->bin) + json_integer_value(json_object_get(c, "dense"));
    memcpy(values, from, (size_t)shape_elements(&want) * sizeof *values);
    return build_dense(b, want, values);
}

static int build_product(struct builder *b, const json_t *c, const int *x)
{
    int64_t wide[4][SHAPE_MAX_RANK];
    int lists[4][SHAPE_MAX_RANK], n[4];
    for (int i = 0; i < 4; i++) {
        const json_t *pair = json_object_get(c, i < 2 ? "batch" : "contract");
        n[i] = ir_fixture_ints(json_array_get(pair, (size_t)i % 2), wide[i], SHAPE_MAX_RANK);
        for (int k = 0; k < n[i]; k++)
            lists[i][k] = (int)wide[i][k];
    }
    enum dtype result = dtype_from_name(ir_case_text(c, "result"));
    return build_dot(b, x[0], x[1], n[0], lists[0], lists[1], n[2], lists[2], lists[3], result);
}

int ir_case_build(struct builder *b, const struct ir_fixture *f, const json_t *c, const int *x, int n,
                  struct shape want)
{
    static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    enum opcode op = ir_case_opcode(ir_case_text(c, "op"));
    struct attributes_of at = read_attributes(c);
    int axis = (int)json_integer_value(json_object_get(c, "axis"));
    switch (op_info(op)->class) {
    case OPC_PARAMETER:
        return x[0];
    case OPC_CONSTANT:
        return build_constant(b, f, c, want);
    case OPC_IOTA:
        return build_iota(b, want, axis);
    case OPC_UNARY:
        return build_unary(b, op, x[0]);
    case OPC_BINARY:
        return build_binary(b, op, x[0], x[1]);
    case OPC_COMPARE:
        for (int d = CMP_EQ; d <= CMP_LT; d++) {
            if (strcmp(directions[d], ir_case_text(c, "compare")) == 0)
                return build_compare(b, (enum compare_direction)d, x[0], x[1]);
        }
        return -1;
    case OPC_SELECT:
        return build_select(b, x[0], x[1], x[2]);
    case OPC_CLAMP:
        return build_clamp(b, x[0], x[1], x[2]);
    case OPC_CONVERT:
        return build_convert(b, x[0], want.dtype);
    case OPC_BITCAST:
        return build_bitcast_convert(b, x[0], want.dtype);
    case OPC_BROADCAST:
        return build_broadcast(b, x[0], want, at.dims);
    case OPC_RESHAPE:
        return build_reshape(b, x[0], want.rank, want.dims);
    case OPC_TRANSPOSE:
        return build_transpose(b, x[0], at.dims);
    case OPC_SLICE:
        return build_slice(b, x[0], at.a, at.b, at.c);
    case OPC_CONCATENATE:
        return build_concatenate(b, x, n, axis);
    case OPC_PAD:
        return build_pad(b, x[0], x[1], at.a, at.b, at.c);
    case OPC_REVERSE:
        return build_reverse(b, x[0], at.dims, at.n_a);
    case OPC_DYNAMIC_SLICE:
        return build_dynamic_slice(b, x[0], x + 1, at.a);
    case OPC_DYNAMIC_UPDATE_SLICE:
        return build_dynamic_update_slice(b, x[0], x[1], x + 2);
    case OPC_GATHER:
        return build_gather(b, x[0], x[1]);
    case OPC_DOT:
        return build_product(b, c, x);
    case OPC_CONVOLUTION:
        return build_convolution(b, x[0], x[1], at.a, at.b, at.c, axis, want.dtype);
    case OPC_KERNEL: // tests of kernels/ have these
        return -1;
    case OPC_REDUCE:
        return build_reduce(b, ir_case_opcode(ir_case_text(c, "reducer")), x[0], at.dims, at.n_a);
    case OPC_INDEXED: // test_ir_hlo_import_plugin.c runs those in programs
    case OPC_WINDOW:
    case OPC_MANY:
    case OPC_ELEMENT:
        break;
    }
    return -1;
}

bool ir_case_in_programs(enum opcode op)
{
    static const enum opcode scalar[] = {
        OP_CBRT,  OP_COUNT_LEADING_ZEROS, OP_REDUCE_PRECISION, OP_ROUND_NEAREST_AFZ, OP_TAN,
        OP_ATAN2, OP_REGION_PARAMETER};
    enum op_class class = op_info(op)->class;
    for (size_t i = 0; i < sizeof scalar / sizeof *scalar; i++) {
        if (scalar[i] == op)
            return true;
    }
    return class == OPC_INDEXED || class == OPC_WINDOW || class == OPC_MANY || class == OPC_ELEMENT;
}
