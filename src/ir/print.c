// SPDX-License-Identifier: Apache-2.0
// StableHLO text in MLIR's generic form: one printer serves every operation, and parsers of all versions take it.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/cost.h"
#include "ir/module.h"
#include "num/convert.h"

static void print_array(struct str *out, const char *key, const int64_t *v, int n)
{
    str_addf(out, "%s = array<i64", key);
    for (int i = 0; i < n; i++)
        str_addf(out, "%s %" PRId64, i ? "," : ":", v[i]);
    str_add_char(out, '>');
}

static void print_int_list(struct str *out, const char *key, const int *v, int n)
{
    str_addf(out, "%s = [", key);
    for (int i = 0; i < n; i++)
        str_addf(out, "%s%d", i ? ", " : "", v[i]);
    str_add_char(out, ']');
}

// Largest magnitude below zero of a type, and its infinity (integers have none: print_highest).
static double lowest(enum dtype t)
{
    switch (t) {
    case DT_F64:
        return -0x1.fffffffffffffp1023;
    case DT_F32:
        return -0x1.fffffep127;
    case DT_BF16:
        return -0x1.fep127;
    case DT_F16:
        return -65504;
    default:
        return dtype_info(t)->kind == DTK_SIGNED ? -ldexp(1, dtype_bits(t) - 1) : 0;
    }
}

// A scalar of the type, as a literal that reads back to the same bits.
static void print_scalar(struct str *out, enum dtype t, double v)
{
    uint64_t bits = 0;
    switch (t) {
    case DT_PRED:
        str_add(out, v != 0 ? "true" : "false");
        return;
    case DT_F64:
        memcpy(&bits, &v, sizeof v);
        str_addf(out, "0x%016" PRIX64, bits);
        return;
    case DT_F32: {
        float f = (float)v;
        uint32_t b;
        memcpy(&b, &f, sizeof b);
        str_addf(out, "0x%08" PRIX32, b);
        return;
    }
    case DT_BF16:
        str_addf(out, "0x%04X", (unsigned)bf16_from_f64(v));
        return;
    case DT_F16:
        str_addf(out, "0x%04X", (unsigned)f16_from_f64(v));
        return;
    default:
        if (t == DT_U64 && v >= 9223372036854775808.0)
            str_addf(out, "%" PRIu64, (uint64_t)v);
        else
            str_addf(out, "%" PRId64, (int64_t)v);
    }
}

// Infinity, or the largest integer: a double does not hold that of 64 bits.
static void print_highest(struct str *out, enum dtype t)
{
    if (dtype_is_float(t))
        print_scalar(out, t, INFINITY);
    else
        str_addf(out, "%" PRIu64, UINT64_MAX >> (64 - dtype_bits(t) + (dtype_info(t)->kind == DTK_SIGNED)));
}

static void print_constant(struct str *out, const struct instruction *in)
{
    enum dtype t = in->shape.dtype;
    str_add(out, "value = dense<");
    if (in->constant == CONST_DENSE) {
        // Nested lists need the rank; a flat list is only right for rank 1, so walk the dimensions.
        int64_t n = shape_elements(&in->shape), at[SHAPE_MAX_RANK] = {0};
        for (int64_t i = 0; i < n; i++) {
            for (int d = 0; d < in->shape.rank; d++) {
                bool first = true;
                for (int k = d; k < in->shape.rank; k++)
                    first &= at[k] == 0;
                if (first)
                    str_add_char(out, '[');
            }
            print_scalar(out, t, in->dense[i]);
            int d = in->shape.rank - 1;
            for (; d >= 0 && ++at[d] == in->shape.dims[d]; d--) {
                at[d] = 0;
                str_add_char(out, ']');
            }
            if (d >= 0)
                str_add(out, ", ");
        }
    } else if (in->constant == CONST_INFINITY) {
        print_highest(out, t);
    } else {
        print_scalar(out, t, in->constant == CONST_LOWEST ? lowest(t) : in->splat);
    }
    str_add(out, "> : ");
    shape_print_mlir(out, &in->shape);
}

static void print_precision(struct str *out, enum dot_precision precision)
{
    static const char *const names[] = {"DEFAULT", "HIGH", "HIGHEST"};
    const char *p = names[precision];
    str_addf(out, "precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]", p, p);
}

static void print_dot(struct str *out, const struct instruction *in)
{
    str_add(out, "dot_dimension_numbers = #stablehlo.dot<");
    print_int_list(out, "lhs_batching_dimensions", in->dot.lhs_batch, in->dot.n_batch);
    print_int_list(out, ", rhs_batching_dimensions", in->dot.rhs_batch, in->dot.n_batch);
    print_int_list(out, ", lhs_contracting_dimensions", in->dot.lhs_contract, in->dot.n_contract);
    print_int_list(out, ", rhs_contracting_dimensions", in->dot.rhs_contract, in->dot.n_contract);
    str_add(out, ">, ");
    print_precision(out, in->dot.precision);
}

static void print_convolution(struct str *out, const struct instruction *in)
{
    static const int64_t ones[SHAPE_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct str spatial;
    str_init(&spatial);
    for (int i = 0; i < in->n_a; i++)
        str_addf(&spatial, ", %d", i);
    const char *s = str_text(&spatial);
    str_addf(out, "dimension_numbers = #stablehlo.conv<[b%s, f]x[o, i%s]->[b%s, f]>, padding = dense<[", s, s, s);
    for (int i = 0; i < in->n_a; i++)
        str_addf(out, "%s[%" PRId64 ", %" PRId64 "]", i ? ", " : "", in->b[i], in->c[i]);
    str_addf(out, "]> : tensor<%dx2xi64>, batch_group_count = 1 : i64, feature_group_count = %" PRId64 " : i64, ",
             in->n_a, in->axis);
    print_array(out, "window_strides", in->a, in->n_a);
    print_array(out, ", lhs_dilation", ones, in->n_a);
    print_array(out, ", rhs_dilation", ones, in->n_a);
    str_add(out, ", window_reversal = array<i1");
    for (int i = 0; i < in->n_a; i++)
        str_add(out, i ? ", false" : ": false");
    str_add(out, ">, ");
    print_precision(out, in->dot.precision);
    out->failed |= spatial.failed;
    str_release(&spatial);
}

// The row gather of OP_GATHER in StableHLO's general terms.
static void print_gather(struct str *out, const struct shape *table, int index_rank)
{
    struct shape row = *table;
    row.dims[0] = 1;
    int offsets[SHAPE_MAX_RANK];
    for (int i = 0; i < row.rank - 1; i++)
        offsets[i] = index_rank + i;
    str_add(out, "dimension_numbers = #stablehlo.gather<");
    print_int_list(out, "offset_dims", offsets, row.rank - 1);
    str_addf(out, ", collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = %d>, ", index_rank);
    print_array(out, "slice_sizes", row.dims, row.rank);
    str_add(out, ", indices_are_sorted = false");
}

// Dense row-major operands and result, as the kernels take them, and what the call costs for whoever prices the program
// that the compiler made of it.
static void print_kernel(struct str *out, const struct module *m, int i)
{
    const struct instruction *in = &m->instructions[i];
    const struct kernel_call *k = in->kernel;
    struct cost cost;
    cost_instruction(m, i, &cost);
    str_addf(out, "call_target_name = \"%s\", api_version = 4 : i32, has_side_effect = false, ", k->target);
    str_addf(out, "backend_config = {cost_estimate = \"flops:%.0f transcendentals:%.0f bytes_accessed:%.0f\"%s%s}, ",
             k->product_flop + k->element_flop, k->transcendentals, cost.bytes, *k->attributes ? ", " : "",
             k->attributes);
    str_add(out, "operand_layouts = [");
    for (int o = 0; o <= in->n_operands; o++) {
        const struct shape *s = o < in->n_operands ? &m->instructions[in->operands[o]].shape : &in->shape;
        str_add(out, o == in->n_operands ? "], result_layouts = [" : o ? ", " : "");
        str_add(out, s->rank ? "dense<[" : "dense<");
        for (int d = s->rank - 1; d >= 0; d--)
            str_addf(out, "%d%s", d, d ? ", " : "]");
        str_addf(out, "> : tensor<%dxindex>", s->rank);
    }
    str_add_char(out, ']');
}

static void print_attributes(struct str *out, const struct module *m, int i)
{
    const struct instruction *in = &m->instructions[i];
    static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    const struct shape *x = in->n_operands ? &m->instructions[in->operands[0]].shape : NULL;
    switch (in->op) {
    case OP_CONSTANT:
        print_constant(out, in);
        break;
    case OP_IOTA:
        str_addf(out, "iota_dimension = %" PRId64 " : i64", in->axis);
        break;
    case OP_COMPARE:
        str_addf(out, "comparison_direction = #stablehlo<comparison_direction %s>", directions[in->compare]);
        if (x)
            str_addf(out, ", compare_type = #stablehlo<comparison_type %s>",
                     dtype_is_float(x->dtype)                   ? "FLOAT"
                     : dtype_info(x->dtype)->kind == DTK_SIGNED ? "SIGNED"
                                                                : "UNSIGNED");
        break;
    case OP_BROADCAST:
        print_array(out, "broadcast_dimensions", in->a, in->n_a);
        break;
    case OP_TRANSPOSE:
        print_array(out, "permutation", in->a, in->n_a);
        break;
    case OP_SLICE:
        print_array(out, "start_indices", in->a, in->n_a);
        print_array(out, ", limit_indices", in->b, in->n_a);
        print_array(out, ", strides", in->c, in->n_a);
        break;
    case OP_CONCATENATE:
        str_addf(out, "dimension = %" PRId64 " : i64", in->axis);
        break;
    case OP_PAD:
        print_array(out, "edge_padding_low", in->a, in->n_a);
        print_array(out, ", edge_padding_high", in->b, in->n_a);
        print_array(out, ", interior_padding", in->c, in->n_a);
        break;
    case OP_REVERSE:
    case OP_REDUCE:
        print_array(out, "dimensions", in->a, in->n_a);
        break;
    case OP_DYNAMIC_SLICE:
        print_array(out, "slice_sizes", in->a, in->n_a);
        break;
    case OP_GATHER:
        print_gather(out, &m->instructions[in->operands[0]].shape, m->instructions[in->operands[1]].shape.rank);
        break;
    case OP_DOT:
        print_dot(out, in);
        break;
    case OP_CONVOLUTION:
        print_convolution(out, in);
        break;
    case OP_KERNEL:
        print_kernel(out, m, i);
        break;
    default:
        break;
    }
}

static void print_reducer(struct str *out, const struct instruction *in)
{
    struct str type;
    str_init(&type);
    struct shape scalar = {.dtype = in->shape.dtype};
    shape_print_mlir(&type, &scalar);
    const char *t = str_text(&type);
    str_addf(out, " ({^bb0(%%a: %s, %%b: %s): %%r = \"%s\"(%%a, %%b) : (%s, %s) -> %s ", t, t,
             op_info(in->reducer)->mlir, t, t, t);
    str_addf(out, "\"stablehlo.return\"(%%r) : (%s) -> ()})", t);
    out->failed |= type.failed;
    str_release(&type);
}

// MLIR string literals: printable ASCII but for quote and backslash, the rest as \XX.
static void print_quoted(struct str *out, const char *s)
{
    str_add_char(out, '"');
    for (; *s; s++) {
        if (*s >= 0x20 && *s < 0x7f && *s != '"' && *s != '\\')
            str_add_char(out, *s);
        else
            str_addf(out, "\\%02X", (unsigned char)*s);
    }
    str_add_char(out, '"');
}

static void print_instruction(struct str *out, const struct module *m, int i)
{
    const struct instruction *in = &m->instructions[i];
    str_addf(out, "    %%%d = \"%s\"(", i, op_info(in->op)->mlir);
    for (int k = 0; k < in->n_operands; k++)
        str_addf(out, "%s%%%d", k ? ", " : "", in->operands[k]);
    str_add_char(out, ')');
    if (in->op == OP_REDUCE)
        print_reducer(out, in);
    size_t before = out->length;
    str_add(out, " {");
    size_t open = out->length;
    print_attributes(out, m, i);
    if (out->length == open && !out->failed) { // nothing to say: take the brace back
        out->length = before;
        out->text[before] = '\0';
    } else {
        str_add_char(out, '}');
    }
    str_add(out, " : (");
    for (int k = 0; k < in->n_operands; k++) {
        str_add(out, k ? ", " : "");
        shape_print_mlir(out, &m->instructions[in->operands[k]].shape);
    }
    str_add(out, ") -> ");
    shape_print_mlir(out, &in->shape);
    str_add(out, " loc(");
    print_quoted(out, in->scope);
    str_add(out, ")\n");
}

static void print_sharding(struct str *out, const char *const *shardings, int i)
{
    if (!shardings || !shardings[i])
        return;
    str_add(out, " {mhlo.sharding = ");
    print_quoted(out, shardings[i]);
    str_add_char(out, '}');
}

int module_print(const struct module *m, struct str *out, struct error *err)
{
    return module_print_sharded(m, NULL, NULL, out, err);
}

int module_print_sharded(const struct module *m, const char *const *parameters, const char *const *results,
                         struct str *out, struct error *err)
{
    if (module_verify(m, err))
        return err ? err->code : ERR_INTERNAL;
    str_add(out, "module @assay {\n  func.func public @main(");
    for (int i = 0; i < m->n_parameters; i++) {
        str_addf(out, "%s%%%d: ", i ? ", " : "", m->parameters[i].instruction);
        shape_print_mlir(out, &m->instructions[m->parameters[i].instruction].shape);
        print_sharding(out, parameters, i);
    }
    str_add(out, ") -> (");
    for (int i = 0; i < m->n_results; i++) {
        str_add(out, i ? ", " : "");
        shape_print_mlir(out, &m->instructions[m->results[i]].shape);
        print_sharding(out, results, i);
    }
    str_add(out, ") {\n");
    for (int i = 0; i < m->n_instructions; i++) {
        if (m->instructions[i].op != OP_PARAMETER)
            print_instruction(out, m, i);
    }
    str_add(out, "    \"func.return\"(");
    for (int i = 0; i < m->n_results; i++)
        str_addf(out, "%s%%%d", i ? ", " : "", m->results[i]);
    str_add(out, ") : (");
    for (int i = 0; i < m->n_results; i++) {
        str_add(out, i ? ", " : "");
        shape_print_mlir(out, &m->instructions[m->results[i]].shape);
    }
    str_add(out, ") -> ()\n  }\n}\n");
    return str_check(out, err);
}
