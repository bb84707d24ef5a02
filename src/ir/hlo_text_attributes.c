// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/hlo_literal.h"
#include "ir/hlo_text_part.h"
#include "num/convert.h"

// ---- Literals

#define SHOWN 10 // elements; longer constants are left out

static void put_float(struct str *out, double v, int least, int most, bool single)
{
    char text[40];
    if (isnan(v) || isinf(v)) {
        str_add(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    snprintf(text, sizeof text, "%.*g", least, v);
    if (single ? strtof(text, NULL) != (float)v : strtod(text, NULL) != v)
        snprintf(text, sizeof text, "%.*g", most, v);
    str_add(out, text);
}

void hlo_put_double(struct str *out, double v)
{
    put_float(out, v, 15, 17, false);
}

struct literal {
    enum dtype type;
    int digits;
    size_t words; // of an element
    size_t n;
    uint64_t bits[2 * SHOWN]; // of the elements, as they lie in memory
    int64_t stride[16];       // of each dimension, there
};

static bool add_bits(struct literal *l, uint64_t bits)
{
    if (l->n < SHOWN * l->words)
        l->bits[l->n++] = bits;
    return l->n < SHOWN * l->words;
}

// What a field has, packed or not.
static void read_field(struct literal *l, enum hlo_storing how, const struct pb_field *f)
{
    size_t size = how == HLO_FIXED32 ? 4 : how == HLO_FIXED64 ? 8 : (size_t)(dtype_bits(l->type) + 7) / 8;
    const uint8_t *at, *end = hlo_packed(f, &at);
    uint64_t v = 0;
    if (f->wire != PB_BYTES)
        (void)add_bits(l, f->value);
    else if (how == HLO_VARINTS)
        while (at < end && (at = pb_get_varint(at, end, &v)) && add_bits(l, v))
            ;
    else
        for (; at && size <= (size_t)(end - at); at += size) {
            memcpy(&v, at, size);
            if (!add_bits(l, v))
                break;
        }
}

// Elements lie in the order of the layout.
static bool find_strides(struct literal *l, const struct hlo_shape *s)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(s->layout.data, s->layout.size);
    int64_t stride = 1;
    int seen = 0;
    for (int d = s->rank; d-- > 0; stride *= s->dims[d])
        l->stride[d] = stride;
    stride = 1;
    while (pb_next(&r, &f)) {
        const uint8_t *at, *end = hlo_packed(&f, &at);
        uint64_t d;
        for (; f.number == 1 && at < end && (at = pb_get_varint(at, end, &d)); seen++) {
            if (d >= (uint64_t)s->rank || seen >= s->rank)
                return false;
            l->stride[d] = stride;
            stride *= s->dims[d];
        }
    }
    return seen == 0 || seen == s->rank;
}

static bool find_literal(struct literal *l, const struct hlo_shape *s, struct slice message)
{
    struct pb_field f;
    struct pb_reader r = pb_reader(message.data, message.size);
    const struct hlo_storage *storage = hlo_storage_of(s->dtype);
    if (!storage)
        return false;
    *l = (struct literal){.type = s->dtype, .digits = storage->digits, .words = s->dtype == DT_C128 ? 2 : 1};
    while (pb_next(&r, &f)) {
        if (f.number == storage->number)
            read_field(l, storage->how, &f);
    }
    return find_strides(l, s);
}

static void put_single(struct str *out, uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    put_float(out, (double)v, 6, 9, true);
}

static void put_bits_of_double(struct str *out, uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    hlo_put_double(out, v);
}

static void put_complex(struct str *out, const struct literal *l, const uint64_t *words)
{
    str_add_char(out, '(');
    if (l->type == DT_C64)
        put_single(out, (uint32_t)words[0]);
    else
        put_bits_of_double(out, words[0]);
    str_add(out, ", ");
    if (l->type == DT_C64)
        put_single(out, (uint32_t)(words[0] >> 32));
    else
        put_bits_of_double(out, words[1]);
    str_add_char(out, ')');
}

static void put_element(struct str *out, const struct literal *l, const uint64_t *words, bool alone)
{
    const struct dtype_info *info = dtype_info(l->type);
    const uint64_t bits = words[0];
    float single = 0;
    if (info->kind == DTK_COMPLEX) {
        put_complex(out, l, words);
    } else if (info->kind == DTK_PRED) {
        str_add(out, !alone ? bits ? "1" : "0" : bits ? "true" : "false");
    } else if (info->kind == DTK_UNSIGNED) {
        str_addf(out, "%" PRIu64, info->bits < 64 ? bits & ((UINT64_C(1) << info->bits) - 1) : bits);
    } else if (info->kind == DTK_SIGNED) {
        unsigned shift = 64 - (unsigned)info->bits;
        str_addf(out, "%" PRId64, (int64_t)(bits << shift) >> shift);
    } else if (l->type == DT_F64) {
        put_bits_of_double(out, bits);
    } else if (l->type == DT_F32) {
        put_single(out, (uint32_t)bits);
    } else if (!convert_elements(DT_F32, &single, l->type, &bits, 1, NULL)) {
        put_float(out, (double)single, l->digits, l->digits, true);
    } else {
        str_add(out, "0");
    }
}

// The brackets of dimension `d` and what is in them, from element `at` on.
static bool put_nested(struct str *out, const struct hlo_shape *s, int d, const struct literal *l, int64_t at)
{
    bool ok = true;
    if (d == s->rank) {
        if ((uint64_t)at >= l->n / l->words)
            return false;
        put_element(out, l, &l->bits[(size_t)at * l->words], !s->rank);
        return true;
    }
    bool tight = s->rank == 1 || (d > 0 && d == s->rank - 1 && !s->dims[d]);
    str_add(out, tight ? "{" : "{ ");
    for (int64_t i = 0; i < s->dims[d] && ok; i++) {
        str_add(out, i ? ", " : "");
        ok = put_nested(out, s, d + 1, l, at + i * l->stride[d]);
    }
    str_add(out, tight ? "}" : " }");
    return ok;
}

void hlo_put_literal(struct str *out, const struct hlo_shape *s, struct slice message)
{
    struct literal l;
    struct str text;
    int64_t n = hlo_shape_elements(s);
    str_init(&text);
    bool shown = s->kind == HLO_ARRAY && n <= SHOWN && s->rank <= 16 && find_literal(&l, s, message) &&
                 put_nested(&text, s, 0, &l, 0);
    str_add(out, shown ? str_text(&text) : "{...}");
    str_release(&text);
}

// ---- Windows, dimension numbers

static void put_window_part(struct str *out, const struct hlo_attributes *a, const char *key, size_t offset,
                            int64_t usual)
{
    bool any = false;
    for (size_t i = 0; i < a->n_window; i++) {
        int64_t v;
        memcpy(&v, (const char *)&a->window[i] + offset, sizeof v);
        any |= v != usual;
    }
    for (size_t i = 0; i < a->n_window && any; i++) {
        int64_t v;
        memcpy(&v, (const char *)&a->window[i] + offset, sizeof v);
        if (i)
            str_add_char(out, 'x');
        else
            str_addf(out, " %s=", key);
        str_addf(out, "%" PRId64, v);
    }
}

static void put_window(struct str *out, const struct hlo_attributes *a)
{
    bool padded = false, reversed = false;
    if (!a->n_window)
        return;
    str_add(out, ", window={size=");
    for (size_t i = 0; i < a->n_window; i++) {
        str_addf(out, "%s%" PRId64, i ? "x" : "", a->window[i].size);
        padded |= a->window[i].pad_low || a->window[i].pad_high;
        reversed |= a->window[i].reversed;
    }
    put_window_part(out, a, "stride", offsetof(struct hlo_window, stride), 1);
    for (size_t i = 0; i < a->n_window && padded; i++)
        str_addf(out, "%s%" PRId64 "_%" PRId64, i ? "x" : " pad=", a->window[i].pad_low, a->window[i].pad_high);
    put_window_part(out, a, "lhs_dilate", offsetof(struct hlo_window, base_dilation), 1);
    put_window_part(out, a, "rhs_dilate", offsetof(struct hlo_window, window_dilation), 1);
    for (size_t i = 0; i < a->n_window && reversed; i++)
        str_addf(out, "%s%d", i ? "x" : " rhs_reversal=", a->window[i].reversed);
    str_add_char(out, '}');
}

// "b01f": what each dimension is.
static void put_labels(struct str *out, int64_t first, char first_name, int64_t second, char second_name,
                       const struct hlo_numbers *spatial)
{
    for (int64_t d = 0; d < (int64_t)spatial->n + 2; d++) {
        char c = d == first ? first_name : d == second ? second_name : '?';
        for (size_t i = 0; i < spatial->n && i < 10; i++) {
            if (spatial->at[i] == d)
                c = (char)('0' + i);
        }
        str_add_char(out, c);
    }
}

static void put_convolution(struct str *out, const struct hlo_attributes *a)
{
    const struct hlo_convolution *c = &a->convolution;
    if (!a->has_convolution)
        return;
    str_add(out, ", dim_labels=");
    put_labels(out, c->input_batch, 'b', c->input_feature, 'f', &c->input_spatial);
    str_add_char(out, '_');
    put_labels(out, c->kernel_input_feature, 'i', c->kernel_output_feature, 'o', &c->kernel_spatial);
    str_add(out, "->");
    put_labels(out, c->output_batch, 'b', c->output_feature, 'f', &c->output_spatial);
    if (a->feature_groups != 1)
        str_addf(out, ", feature_group_count=%" PRId64, a->feature_groups);
    if (a->batch_groups != 1)
        str_addf(out, ", batch_group_count=%" PRId64, a->batch_groups);
}

static void put_some(struct str *out, const char *key, const struct hlo_numbers *n)
{
    if (n->n)
        hlo_put_numbers(out, key, n);
}

static void put_dot(struct str *out, const struct hlo_attributes *a)
{
    put_some(out, "lhs_batch_dims", &a->dot.lhs_batch);
    hlo_put_numbers(out, "lhs_contracting_dims", &a->dot.lhs_contracting);
    put_some(out, "rhs_batch_dims", &a->dot.rhs_batch);
    hlo_put_numbers(out, "rhs_contracting_dims", &a->dot.rhs_contracting);
    put_some(out, "lhs_ragged_dims", &a->dot.lhs_ragged);
    put_some(out, "rhs_group_dims", &a->dot.rhs_group);
}

static void put_gather(struct str *out, const struct hlo_attributes *a)
{
    const struct hlo_gather *g = a->has_gather ? &a->gather : &a->scatter;
    bool gather = a->has_gather;
    hlo_put_numbers(out, gather ? "offset_dims" : "update_window_dims", &g->offset);
    hlo_put_numbers(out, gather ? "collapsed_slice_dims" : "inserted_window_dims", &g->collapsed);
    hlo_put_numbers(out, gather ? "start_index_map" : "scatter_dims_to_operand_dims", &g->start_map);
    put_some(out, gather ? "operand_batching_dims" : "input_batching_dims", &g->operand_batching);
    put_some(out, gather ? "start_indices_batching_dims" : "scatter_indices_batching_dims", &g->indices_batching);
    str_addf(out, ", index_vector_dim=%" PRId64, g->index_vector);
    if (gather)
        hlo_put_numbers(out, "slice_sizes", &a->gather_slice_sizes);
    str_add(out, a->indices_are_sorted ? ", indices_are_sorted=true" : "");
    str_add(out, a->unique_indices ? ", unique_indices=true" : "");
}

static void put_slices(struct str *out, const struct hlo_attributes *a)
{
    bool strides = false;
    for (size_t i = 0; i < a->n_slices; i++)
        strides |= a->slices[i].stride != 1;
    str_add(out, ", slice={");
    for (size_t i = 0; i < a->n_slices; i++) {
        str_addf(out, "%s[%" PRId64 ":%" PRId64, i ? ", " : "", a->slices[i].start, a->slices[i].limit);
        if (strides)
            str_addf(out, ":%" PRId64, a->slices[i].stride);
        str_add_char(out, ']');
    }
    str_add_char(out, '}');
}

static void put_padding(struct str *out, const struct hlo_attributes *a)
{
    bool interior = false;
    for (size_t i = 0; i < a->n_padding; i++)
        interior |= a->padding[i].interior != 0;
    str_add(out, ", padding=");
    for (size_t i = 0; i < a->n_padding; i++) {
        str_addf(out, "%s%" PRId64 "_%" PRId64, i ? "x" : "", a->padding[i].low, a->padding[i].high);
        if (interior)
            str_addf(out, "_%" PRId64, a->padding[i].interior);
    }
}

// ---- Collectives

static void put_axis_part(struct str *out, const struct hlo_groups *g, const struct hlo_axis_part *p)
{
    bool known = p->axis >= 0 && (uint64_t)p->axis < g->n_axes;
    str_add_char(out, '\'');
    hlo_put_name(out, known ? g->axes[p->axis].name : (struct slice){NULL, 0});
    str_add_char(out, '\'');
    if (p->size)
        str_addf(out, ":(%" PRId64 ")%" PRId64, p->pre_size, p->size);
}

static void put_groups(struct str *out, const struct hlo_groups *g)
{
    str_add(out, ", replica_groups=");
    if (g->form == HLO_GROUPS_IOTA) {
        str_addf(out, "[%" PRId64 ",%" PRId64 "]<=[", g->count, g->size);
        for (size_t i = 0; i < g->reshape.n; i++)
            str_addf(out, "%s%" PRId64, i ? "," : "", g->reshape.at[i]);
        str_add_char(out, ']');
        for (size_t i = 0; i < g->permutation.n && g->reshape.n > 1; i++)
            str_addf(out, "%s%" PRId64, i ? "," : "T(", g->permutation.at[i]);
        if (g->permutation.n && g->reshape.n > 1)
            str_add_char(out, ')');
    } else if (g->form == HLO_GROUPS_MESH) {
        str_add(out, "mesh[");
        for (size_t i = 0; i < g->n_axes; i++) {
            str_add(out, i ? ",'" : "'");
            hlo_put_name(out, g->axes[i].name);
            str_addf(out, "'=%" PRId64, g->axes[i].size);
        }
        str_add_char(out, ']');
        for (size_t i = 0; i < g->devices.n; i++)
            str_addf(out, "%s%" PRId64, i ? "," : ", device_ids=(", g->devices.at[i]);
        str_add(out, g->devices.n ? ") {" : " {");
        for (size_t i = 0; i < g->n_parts; i++) {
            str_add(out, i ? "," : "");
            put_axis_part(out, g, &g->parts[i]);
        }
        str_add_char(out, '}');
    } else {
        str_add_char(out, '{');
        for (size_t i = 0; i < g->n_lists; i++) {
            str_add(out, i ? "," : "");
            hlo_put_numbers(out, NULL, &g->lists[i]);
        }
        str_add_char(out, '}');
    }
}

static bool is_any(const struct hlo_instruction *in, const char *const *opcodes)
{
    for (; *opcodes; opcodes++) {
        if (hlo_is(in, *opcodes))
            return true;
    }
    return false;
}

static void put_collective(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    static const char *const grouped[] = {"all-reduce",        "all-reduce-start",     "all-gather",
                                          "all-gather-start",  "reduce-scatter",       "all-to-all",
                                          "ragged-all-to-all", "collective-broadcast", NULL};
    if (a->channel > 0)
        str_addf(out, ", channel_id=%" PRId64, a->channel);
    if (is_any(in, grouped)) {
        put_groups(out, &a->groups);
        str_add(out, a->constrain_layout ? ", constrain_layout=true" : "");
    }
    for (size_t i = 0; i < a->n_source_target; i++)
        str_addf(out, "%s{%" PRId64 ",%" PRId64 "}", i ? "," : ", source_target_pairs={", a->source_target[i].source,
                 a->source_target[i].target);
    str_add(out, a->n_source_target ? "}" : "");
    bool gathers = hlo_is(in, "all-gather") || hlo_is(in, "all-gather-start");
    if (gathers)
        hlo_put_numbers(out, "dimensions", &a->dimensions);
    str_add(out, a->use_global_device_ids ? ", use_global_device_ids=true" : "");
    str_add(out, a->is_host_transfer ? ", is_host_transfer=true" : "");
    if (hlo_is(in, "reduce-scatter") || hlo_is(in, "all-to-all"))
        put_some(out, "dimensions", &a->dimensions);
}

// ---- Names of enumerations

static const char *pick(const char *const *names, size_t n, int64_t v)
{
    return v >= 0 && (uint64_t)v < n ? names[v] : names[0];
}
#define PICK(names, v) pick((names), sizeof(names) / sizeof *(names), (v))

static void put_precision(struct str *out, const struct hlo_attributes *a)
{
    static const char *const precisions[] = {"default", "high", "highest"};
    bool any = false;
    for (size_t i = 0; i < a->precision.n; i++)
        any |= a->precision.at[i] != 0;
    for (size_t i = 0; i < a->precision.n && any; i++)
        str_addf(out, "%s%s", i ? "," : ", operand_precision={", PICK(precisions, a->precision.at[i]));
    str_add(out, any ? "}" : "");
    if (a->algorithm)
        str_addf(out, ", algorithm=%s", pick(hlo_dot_algorithms, HLO_DOT_ALGORITHMS, a->algorithm));
}

static void put_solve(struct str *out, const struct hlo_attributes *a)
{
    static const char *const transposes[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    int64_t v;
    str_add(out, hlo_number_field(a->triangular, 1, &v) ? ", left_side=true" : "");
    str_add(out, hlo_number_field(a->triangular, 2, &v) ? ", lower=true" : "");
    str_add(out, hlo_number_field(a->triangular, 3, &v) ? ", unit_diagonal=true" : "");
    hlo_number_field(a->triangular, 4, &v);
    str_addf(out, ", transpose_a=%s", PICK(transposes, v));
}

// ---- Called computations

static void put_called(struct str *out, const char *key, const struct hlo_instruction *in, size_t i)
{
    if (i >= in->n_called)
        return;
    str_addf(out, ", %s=%%", key);
    hlo_put_name(out, in->called[i]->name);
}

static void put_calls(struct str *out, const struct hlo_instruction *in)
{
    if (hlo_is(in, "while")) {
        put_called(out, "condition", in, 1);
        put_called(out, "body", in, 0);
    } else if (hlo_is(in, "conditional")) {
        bool two = in->n_operands && in->operands[0]->shape.dtype == DT_PRED && in->n_called == 2;
        if (two) {
            put_called(out, "true_computation", in, 0);
            put_called(out, "false_computation", in, 1);
        }
        for (size_t i = 0; i < in->n_called && !two; i++) {
            str_add(out, i ? ", %" : ", branch_computations={%");
            hlo_put_name(out, in->called[i]->name);
        }
        str_add(out, !two && in->n_called ? "}" : "");
    } else if (hlo_is(in, "select-and-scatter")) {
        put_called(out, "select", in, 0);
        put_called(out, "scatter", in, 1);
    } else if (hlo_is(in, "fusion") || hlo_is(in, "async-start")) {
        put_called(out, "calls", in, 0);
    } else if (hlo_is(in, "async-update") || hlo_is(in, "async-done")) {
        return; // the start says it
    } else if (hlo_is(in, "custom-call")) {
        for (size_t i = 0; i < in->n_called; i++) {
            str_add(out, i ? ", %" : ", called_computations={%");
            hlo_put_name(out, in->called[i]->name);
        }
        str_add(out, in->n_called ? "}" : "");
    } else {
        put_called(out, "to_apply", in, 0);
    }
}

// ---- By opcode

static void put_custom_call(struct str *out, const struct hlo_attributes *a)
{
    static const char *const versions[] = {"API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL",
                                           "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
                                           "API_VERSION_TYPED_FFI"};
    static const char *const schedules[] = {"SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"};
    str_add(out, ", custom_call_target=");
    hlo_put_quoted(out, a->custom_call_target);
    hlo_put_layouts(out, a);
    str_add(out, a->has_side_effect ? ", custom_call_has_side_effect=true" : "");
    hlo_put_custom_literal(out, a);
    hlo_put_output_aliases(out, a);
    if (a->schedule)
        str_addf(out, ", schedule=%s", PICK(schedules, a->schedule));
    if (a->api_version > 1)
        str_addf(out, ", api_version=%s", PICK(versions, a->api_version));
}

static void put_dimensions(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    static const char *const with[] = {
        "broadcast",          "concatenate",        "reverse", "transpose", "reduce", "map", "sort",
        "get-dimension-size", "set-dimension-size", NULL};
    if (is_any(in, with))
        hlo_put_numbers(out, "dimensions", &a->dimensions);
    else if (hlo_is(in, "reshape") && a->dimensions.n)
        str_addf(out, ", inferred_dimension=%" PRId64, a->dimensions.at[0]);
    else if (hlo_is(in, "iota"))
        str_addf(out, ", iota_dimension=%" PRId64, a->dimensions.n ? a->dimensions.at[0] : 0);
}

static void put_random(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    static const char *const distributions[] = {"rng_invalid", "rng_uniform", "rng_normal"};
    static const char *const algorithms[] = {"rng_default", "rng_three_fry", "rng_philox"};
    if (hlo_is(in, "rng"))
        str_addf(out, ", distribution=%s", PICK(distributions, a->distribution));
    else if (hlo_is(in, "rng-bit-generator"))
        str_addf(out, ", algorithm=%s", PICK(algorithms, a->rng_algorithm));
    else if (hlo_is(in, "rng-get-and-update-state"))
        str_addf(out, ", delta=%" PRId64, a->delta);
}

static void put_numeric(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    static const char *const transforms[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    int64_t v;
    if (hlo_is(in, "reduce-precision")) {
        str_addf(out, ", exponent_bits=%" PRId64 ", mantissa_bits=%" PRId64, a->exponent_bits, a->mantissa_bits);
    } else if (hlo_is(in, "fft")) {
        str_addf(out, ", fft_type=%s", PICK(transforms, a->fft_type));
        hlo_put_numbers(out, "fft_length", &a->fft_length);
    } else if (hlo_is(in, "cholesky")) {
        str_addf(out, "%s", hlo_number_field(a->cholesky, 1, &v) ? ", lower=true" : "");
    } else if (hlo_is(in, "triangular-solve")) {
        put_solve(out, a);
    } else if (hlo_is(in, "topk")) {
        str_addf(out, ", k=%" PRId64 ", largest=%s", a->k, a->largest ? "true" : "false");
    } else if (a->comparison_direction.size) {
        str_add(out, ", direction=");
        hlo_put_name(out, a->comparison_direction);
        if (a->comparison_type.size == 10 && memcmp(a->comparison_type.data, "TOTALORDER", 10) == 0)
            str_add(out, ", type=TOTALORDER");
    } else if (in->opcode.size > 10 && memcmp(in->opcode.data, "batch-norm", 10) == 0) {
        str_add(out, ", epsilon=");
        put_float(out, (double)a->epsilon, 6, 9, true);
        str_addf(out, ", feature_index=%" PRId64, a->feature_index);
    }
}

// What feeds a device, and what it hands out.
static void put_feeds(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    if (a->infeed_config.size) {
        str_add(out, ", infeed_config=");
        hlo_put_quoted(out, a->infeed_config);
    }
    if (hlo_is(in, "outfeed")) {
        str_add(out, ", outfeed_shape=");
        hlo_put_shape_message(out, hlo_body_field(in->message, 29));
    }
    if (a->outfeed_config.size) {
        str_add(out, ", outfeed_config=");
        hlo_put_quoted(out, a->outfeed_config);
    }
}

void hlo_put_attributes(struct str *out, const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    bool custom = hlo_is(in, "custom-call");
    if (hlo_is(in, "get-tuple-element"))
        str_addf(out, ", index=%" PRId64, in->tuple_index);
    if (hlo_is(in, "parameter"))
        hlo_put_replication(out, in);
    if (hlo_is(in, "domain"))
        hlo_put_domain(out, in);
    put_collective(out, in, a);
    put_window(out, a);
    put_convolution(out, a);
    put_dimensions(out, in, a);
    if (hlo_is(in, "slice"))
        put_slices(out, a);
    if (hlo_is(in, "pad"))
        put_padding(out, a);
    if (hlo_is(in, "dynamic-slice"))
        hlo_put_numbers(out, "dynamic_slice_sizes", &a->dynamic_slice_sizes);
    if (a->has_dot)
        put_dot(out, a);
    if (a->has_gather || a->has_scatter)
        put_gather(out, a);
    put_random(out, in, a);
    put_numeric(out, in, a);
    if (custom) {
        put_precision(out, a);
        put_custom_call(out, a);
    }
    str_add(out, a->is_stable ? ", is_stable=true" : "");
    if (a->has_prefetch)
        str_addf(out, ", cross_program_prefetch_index=%" PRId64, a->prefetch);
    put_feeds(out, in, a);
    if (hlo_is(in, "fusion")) {
        str_add(out, ", kind=");
        hlo_put_name(out, a->fusion_kind);
    }
    if (!custom)
        put_precision(out, a);
    put_calls(out, in);
    str_add(out, a->is_composite ? ", is_composite=true" : "");
}
