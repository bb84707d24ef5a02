// SPDX-License-Identifier: Apache-2.0
// StableHLO text in MLIR's generic form: one printer serves every operation, and parsers of all versions take it.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/cost.h"
#include "ir/region.h"
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

// Dimensions by number: "b", "f" (or "o", "i") and the spatial ones.
static void print_conv_dims(struct str *out, const int *dims, int rank, char first, char second)
{
    str_add_char(out, '[');
    for (int d = 0; d < rank; d++) {
        int what = 0;
        while (what < rank - 1 && dims[what] != d)
            what++;
        str_add(out, d ? ", " : "");
        if (what < 2)
            str_add_char(out, what ? second : first);
        else
            str_addf(out, "%d", what - 2);
    }
    str_add_char(out, ']');
}

static void print_bools(struct str *out, const char *key, const bool *v, int n)
{
    str_addf(out, "%s = array<i1", key);
    for (int i = 0; i < n; i++)
        str_addf(out, "%s %s", i ? "," : ":", v[i] ? "true" : "false");
    str_add_char(out, '>');
}

static void print_convolution(struct str *out, const struct instruction *in)
{
    struct convolution plain = {.batch_groups = 1};
    const struct convolution *c = in->convolution ? in->convolution : &plain;
    int rank = in->n_a + 2;
    for (int i = 0; i < rank && i < SHAPE_MAX_RANK; i++) {
        plain.input[i] = plain.output[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
        plain.kernel[i] = i;
        plain.window_dilation[i] = plain.base_dilation[i] = 1;
    }
    str_add(out, "dimension_numbers = #stablehlo.conv<");
    print_conv_dims(out, c->input, rank, 'b', 'f');
    str_add_char(out, 'x');
    print_conv_dims(out, c->kernel, rank, 'o', 'i');
    str_add(out, "->");
    print_conv_dims(out, c->output, rank, 'b', 'f');
    str_add(out, ">, padding = dense<[");
    for (int i = 0; i < in->n_a; i++)
        str_addf(out, "%s[%" PRId64 ", %" PRId64 "]", i ? ", " : "", in->b[i], in->c[i]);
    str_addf(out,
             "]> : tensor<%dx2xi64>, batch_group_count = %" PRId64 " : i64, feature_group_count = %" PRId64 " : i64, ",
             in->n_a, c->batch_groups, in->axis);
    print_array(out, "window_strides", in->a, in->n_a);
    print_array(out, ", lhs_dilation", c->base_dilation, in->n_a);
    print_array(out, ", rhs_dilation", c->window_dilation, in->n_a);
    print_bools(out, ", window_reversal", c->reversed, in->n_a);
    str_add(out, ", ");
    print_precision(out, in->dot.precision);
}

static void print_window(struct str *out, const struct window_extent *w, int rank, bool select)
{
    int64_t sizes[SHAPE_MAX_RANK] = {0}, strides[SHAPE_MAX_RANK] = {0}, base[SHAPE_MAX_RANK] = {0},
            dilations[SHAPE_MAX_RANK] = {0};
    for (int i = 0; i < rank; i++) {
        sizes[i] = w[i].size;
        strides[i] = w[i].stride;
        base[i] = w[i].base_dilation;
        dilations[i] = w[i].window_dilation;
    }
    print_array(out, "window_dimensions", sizes, rank);
    print_array(out, ", window_strides", strides, rank);
    if (!select) {
        print_array(out, ", base_dilations", base, rank);
        print_array(out, ", window_dilations", dilations, rank);
    }
    if (!rank)
        return;
    str_add(out, ", padding = dense<[");
    for (int i = 0; i < rank; i++)
        str_addf(out, "%s[%" PRId64 ", %" PRId64 "]", i ? ", " : "", w[i].low, w[i].high);
    str_addf(out, "]> : tensor<%dx2xi64>", rank);
}

static void print_indexing(struct str *out, const struct instruction *in)
{
    const struct indexing *g = in->indexing;
    bool scatter = in->op == OP_SCATTER;
    str_add(out,
            scatter ? "scatter_dimension_numbers = #stablehlo.scatter<" : "dimension_numbers = #stablehlo.gather<");
    print_int_list(out, scatter ? "update_window_dims" : "offset_dims", g->offset, g->n_offset);
    print_int_list(out, scatter ? ", inserted_window_dims" : ", collapsed_slice_dims", g->collapsed, g->n_collapsed);
    print_int_list(out, scatter ? ", input_batching_dims" : ", operand_batching_dims", g->operand_batching,
                   g->n_batching);
    print_int_list(out, scatter ? ", scatter_indices_batching_dims" : ", start_indices_batching_dims",
                   g->indices_batching, g->n_batching);
    print_int_list(out, scatter ? ", scatter_dims_to_operand_dims" : ", start_index_map", g->start, g->n_start);
    str_addf(out, ", index_vector_dim = %d>, indices_are_sorted = %s", g->vector, g->sorted ? "true" : "false");
    if (scatter)
        str_addf(out, ", unique_indices = %s", g->unique ? "true" : "false");
    else
        print_array(out, ", slice_sizes", in->a, in->n_a);
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
                     in->axis                                   ? "TOTALORDER"
                     : dtype_is_float(x->dtype)                 ? "FLOAT"
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
    case OP_REDUCE_MANY:
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
    case OP_REDUCE_WINDOW:
    case OP_SELECT_SCATTER:
        if (x)
            print_window(out, in->window, x->rank, in->op == OP_SELECT_SCATTER);
        break;
    case OP_GATHER_WINDOWS:
    case OP_SCATTER:
        print_indexing(out, in);
        break;
    case OP_SORT:
        str_addf(out, "dimension = %" PRId64 " : i64, is_stable = %s", in->axis, in->a[0] ? "true" : "false");
        break;
    case OP_TOP_K:
        str_addf(out, "k = %" PRId64 " : i64", in->a[0]);
        break;
    case OP_RNG_BITS:
        str_addf(out, "rng_algorithm = #stablehlo<rng_algorithm %s>",
                 in->a[0] == 0   ? "DEFAULT"
                 : in->a[0] == 1 ? "THREE_FRY"
                                 : "PHILOX");
        break;
    case OP_REDUCE_PRECISION:
        str_addf(out, "exponent_bits = %" PRId64 " : i32, mantissa_bits = %" PRId64 " : i32", in->a[0], in->a[1]);
        break;
    default:
        break;
    }
}

// A region of two scalars that returns what one operation makes of them; without one, the second.
static void print_scalar_region(struct str *out, enum dtype type, const char *op, const char *attributes, enum dtype to)
{
    struct str in_type, out_type;
    str_init(&in_type);
    str_init(&out_type);
    shape_print_mlir(&in_type, &(struct shape){.dtype = type});
    shape_print_mlir(&out_type, &(struct shape){.dtype = to});
    const char *t = str_text(&in_type), *r = str_text(&out_type);
    str_addf(out, "{^bb0(%%a: %s, %%b: %s): ", t, t);
    if (op)
        str_addf(out, "%%r = \"%s\"(%%a, %%b)%s : (%s, %s) -> %s ", op, attributes, t, t, r);
    str_addf(out, "\"stablehlo.return\"(%s) : (%s) -> ()}", op ? "%r" : "%b", r);
    out->failed |= in_type.failed || out_type.failed;
    str_release(&in_type);
    str_release(&out_type);
}

static void print_reducer(struct str *out, const struct instruction *in)
{
    static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    char compare[100];
    str_add(out, " (");
    if (in->op == OP_SELECT_SCATTER) {
        snprintf(compare, sizeof compare, " {comparison_direction = #stablehlo<comparison_direction %s>}",
                 directions[in->compare]);
        print_scalar_region(out, in->shape.dtype, "stablehlo.compare", compare, DT_PRED);
        str_add(out, ", ");
    }
    print_scalar_region(out, in->shape.dtype, in->reducer == OP_PARAMETER ? NULL : op_info(in->reducer)->mlir, "",
                        in->shape.dtype);
    str_add_char(out, ')');
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

static void print_value(struct str *out, const struct module *m, int x)
{
    const struct instruction *in = &m->instructions[x];
    if (in->op == OP_ELEMENT)
        str_addf(out, "%%%d#%" PRId64, in->operands[0], in->axis);
    else
        str_addf(out, "%%%d", x);
}

static void print_values(struct str *out, const struct module *m, const int *values, int n)
{
    str_add_char(out, '(');
    for (int k = 0; k < n; k++) {
        str_add(out, k ? ", " : "");
        print_value(out, m, values[k]);
    }
    str_add_char(out, ')');
}

static void print_types(struct str *out, const struct module *m, const int *values, int n)
{
    str_add_char(out, '(');
    for (int k = 0; k < n; k++) {
        str_add(out, k ? ", " : "");
        shape_print_mlir(out, &m->instructions[values[k]].shape);
    }
    str_add_char(out, ')');
}

static void print_instruction(struct str *out, const struct module *m, const struct module_division *d, int i);

static void print_region(struct str *out, const struct module *m, int region)
{
    const struct region *r = &m->regions[region];
    str_add_char(out, '{');
    if (r->n_parameters) {
        str_add(out, "^bb0(");
        for (int k = 0; k < r->n_parameters; k++) {
            str_addf(out, "%s%%%d: ", k ? ", " : "", r->parameters[k]);
            shape_print_mlir(out, &m->instructions[r->parameters[k]].shape);
        }
        str_add(out, "):");
    }
    str_add_char(out, '\n');
    for (int i = r->first; i < r->owner; i++) {
        if (m->instructions[i].region == region)
            print_instruction(out, m, NULL, i);
    }
    str_add(out, "    \"stablehlo.return\"");
    print_values(out, m, r->results, r->n_results);
    str_add(out, " : ");
    print_types(out, m, r->results, r->n_results);
    str_add(out, " -> ()\n    }");
}

// Those that are written with a region: their own, or that of a reducer.
static void print_regions(struct str *out, const struct module *m, const struct instruction *in)
{
    enum op_class class = op_info(in->op)->class;
    if (class == OPC_REDUCE || class == OPC_WINDOW || in->op == OP_SCATTER)
        print_reducer(out, in);
    for (int k = 0; k < in->n_regions; k++) {
        str_add(out, k ? ", " : " (");
        print_region(out, m, in->regions[k]);
    }
    str_add(out, in->n_regions ? ")" : "");
}

static void print_result_types(struct str *out, const struct module *m, const struct instruction *in, int n)
{
    struct shape shape;
    str_add_char(out, '(');
    for (int k = 0; k < n; k++) {
        str_add(out, k ? ", " : "");
        if (module_result_shape(m, in, k, &shape))
            shape_print_mlir(out, &shape);
    }
    str_add_char(out, ')');
}

static const char *laid(const struct module_division *d, int i)
{
    return d && d->values ? d->values[i] : NULL;
}

// A value as it is made. One that is laid out then has another name until it is.
static void print_made(struct str *out, const struct module_division *d, int i)
{
    str_addf(out, laid(d, i) ? "%%made%d" : "%%%d", i);
}

static void print_laid(struct str *out, const struct module *m, const struct module_division *d, int i)
{
    if (!laid(d, i))
        return;
    str_addf(out,
             "    %%%d = \"stablehlo.custom_call\"(%%made%d) {call_target_name = \"Sharding\", mhlo.sharding = ", i, i);
    print_quoted(out, laid(d, i));
    str_add(out, "} : ");
    print_types(out, m, &i, 1);
    str_add(out, " -> ");
    shape_print_mlir(out, &m->instructions[i].shape);
    str_add(out, " loc(");
    print_quoted(out, m->instructions[i].scope);
    str_add(out, ")\n");
}

static void print_instruction(struct str *out, const struct module *m, const struct module_division *d, int i)
{
    const struct instruction *in = &m->instructions[i];
    int n_results = module_n_results(m, in);
    bool branch = in->op == OP_CASE && m->instructions[in->operands[0]].shape.dtype == DT_PRED;
    if (in->op == OP_PARAMETER || in->op == OP_REGION_PARAMETER || in->op == OP_ELEMENT)
        return;
    str_add(out, "    ");
    print_made(out, d, i);
    if (n_results)
        str_addf(out, ":%d", n_results);
    str_addf(out, " = \"%s\"", branch ? "stablehlo.if" : op_info(in->op)->mlir);
    print_values(out, m, in->operands, in->n_operands);
    print_regions(out, m, in);
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
    str_add(out, " : ");
    print_types(out, m, in->operands, in->n_operands);
    str_add(out, " -> ");
    if (n_results)
        print_result_types(out, m, in, n_results);
    else
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
    return module_print_divided(m, NULL, out, err);
}

int module_print_divided(const struct module *m, const struct module_division *d, struct str *out, struct error *err)
{
    if (module_verify(m, err))
        return err ? err->code : ERR_INTERNAL;
    str_add(out, "module @assay ");
    if (d && d->partitions > 1)
        str_addf(out, "attributes {mhlo.num_partitions = %" PRId64 " : i32} ", d->partitions);
    str_add(out, "{\n  func.func public @main(");
    for (int i = 0; i < m->n_parameters; i++) {
        str_add(out, i ? ", " : "");
        print_made(out, d, m->parameters[i].instruction);
        str_add(out, ": ");
        shape_print_mlir(out, &m->instructions[m->parameters[i].instruction].shape);
        print_sharding(out, d ? d->parameters : NULL, i);
    }
    str_add(out, ") -> (");
    for (int i = 0; i < m->n_results; i++) {
        str_add(out, i ? ", " : "");
        shape_print_mlir(out, &m->instructions[m->results[i]].shape);
        print_sharding(out, d ? d->results : NULL, i);
    }
    str_add(out, ") {\n");
    for (int i = 0; i < m->n_instructions; i++) {
        if (m->instructions[i].region)
            continue;
        print_instruction(out, m, d, i);
        print_laid(out, m, d, i);
    }
    str_add(out, "    \"func.return\"");
    print_values(out, m, m->results, m->n_results);
    str_add(out, " : ");
    print_types(out, m, m->results, m->n_results);
    str_add(out, " -> ()\n  }\n}\n");
    return str_check(out, err);
}
