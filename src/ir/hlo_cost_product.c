// SPDX-License-Identifier: Apache-2.0
// Products: of the module itself, and of libraries and kernels that a custom call names.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ir/hlo_cost_part.h"

static bool is_array(const struct hlo_shape *s)
{
    return s->kind == HLO_ARRAY && s->rank >= 0;
}

static bool fits(const struct hlo_shape *s, const struct hlo_numbers *dims)
{
    for (size_t i = 0; i < dims->n; i++) {
        if (dims->at[i] < 0 || dims->at[i] >= s->rank)
            return false;
    }
    return is_array(s);
}

static double extent(const struct hlo_shape *s, int64_t dim)
{
    return is_array(s) && dim >= 0 && dim < s->rank ? (double)s->dims[dim] : NAN;
}

double hlo_dot_flop(const struct hlo_dot *dot, const struct hlo_shape *lhs, const struct hlo_shape *result)
{
    const struct hlo_shape *out = hlo_first_array(result);
    if (!fits(lhs, &dot->lhs_contracting))
        return NAN;
    double flop = 2 * (double)hlo_shape_elements(out);
    for (size_t i = 0; i < dot->lhs_contracting.n; i++) {
        // Of a product with ragged groups along what is contracted, each group has its own result: together they see
        // every element once.
        bool ragged = false;
        for (size_t k = 0; k < dot->lhs_ragged.n; k++)
            ragged |= dot->lhs_ragged.at[k] == dot->lhs_contracting.at[i];
        flop *= extent(lhs, dot->lhs_contracting.at[i]);
        if (ragged && out->rank && out->dims[0] > 0)
            flop /= (double)out->dims[0];
    }
    return flop;
}

// ---- Convolutions

#define MAX_POSITIONS 4096

// The least i >= 0 with offset + i*step divisible by grid, and the distance to the next one; -1: there is none.
// Euclid's algorithm on step and grid gives the inverse of the step.
static int64_t first_on_grid(int64_t offset, int64_t step, int64_t grid, int64_t *period)
{
    int64_t a = step % grid, b = grid, x = 1, y = 0;
    while (a) {
        int64_t q = b / a, r = b % a, z = y - q * x;
        b = a;
        a = r;
        y = x;
        x = z;
    }
    *period = grid / b; // b: the common divisor, y*step = b modulo grid
    if (offset % b)
        return -1;
    int64_t i = -(offset / b) % *period * (y % *period) % *period;
    return i < 0 ? i + *period : i;
}

// How many i in [0, n) have offset + i*step in [0, limit) and divisible by grid.
static double hits(int64_t offset, int64_t step, double n, double limit, int64_t grid)
{
    int64_t period, first = first_on_grid(offset, step, grid, &period);
    if (first < 0)
        return 0;
    double from = ceil(-(double)offset / (double)step), to = ceil((limit - (double)offset) / (double)step) - 1;
    from = from > (double)first ? from : (double)first;
    to = to < n - 1 ? to : n - 1;
    double low = ceil((from - (double)first) / (double)period), high = floor((to - (double)first) / (double)period);
    return high >= low ? high - low + 1 : 0;
}

static bool moderate(int64_t v, int64_t least)
{
    return v >= least && v < (int64_t)1 << 31; // products of two of them are exact everywhere
}

static double positions(const struct hlo_window *w, double input, double kernel, double output)
{
    // A step along the window and one along the result are the same to what is counted: walk over the shorter one.
    bool over_kernel = kernel <= output;
    double n = over_kernel ? kernel : output, inner = over_kernel ? output : kernel, count = 0;
    int64_t outer_step = over_kernel ? w->window_dilation : w->stride;
    int64_t inner_step = over_kernel ? w->stride : w->window_dilation;
    if (n > MAX_POSITIONS || !moderate(w->stride, 1) || !moderate(w->window_dilation, 1) ||
        !moderate(w->base_dilation, 1) || !moderate(w->pad_low, -((int64_t)1 << 31)))
        return NAN;
    double limit = input > 0 ? (input - 1) * (double)w->base_dilation + 1 : 0;
    for (int64_t i = 0; i < (int64_t)n; i++)
        count += hits(i * outer_step - w->pad_low, inner_step, inner, limit, w->base_dilation);
    return count;
}

double hlo_convolution_flop(const struct hlo_attributes *a, const struct hlo_shape *input,
                            const struct hlo_shape *kernel, const struct hlo_shape *output)
{
    const struct hlo_convolution *c = &a->convolution;
    if (!a->has_convolution || c->input_spatial.n != a->n_window || c->kernel_spatial.n != a->n_window ||
        c->output_spatial.n != a->n_window)
        return NAN;
    double flop = 2 * floor(extent(input, c->input_feature) / (double)a->feature_groups) *
                  extent(output, c->output_feature) * floor(extent(input, c->input_batch) / (double)a->batch_groups);
    for (size_t i = 0; i < a->n_window && !isnan(flop); i++) {
        double in = extent(input, c->input_spatial.at[i]), k = extent(kernel, c->kernel_spatial.at[i]);
        double out = extent(output, c->output_spatial.at[i]);
        flop *= isnan(in) || isnan(k) || isnan(out) ? NAN : positions(&a->window[i], in, k, out);
    }
    return flop;
}

// ---- Libraries

static const struct hlo_shape *operand(const struct hlo_instruction *in, size_t i)
{
    static const struct hlo_shape none = {.kind = HLO_TOKEN};
    return i < in->n_operands ? &in->operands[i]->shape : &none;
}

static double bytes_of(const struct hlo_shape *s)
{
    return (double)hlo_shape_bytes(s);
}

// Operands and results; scratch memory, which libraries return as bytes behind the results, is not counted.
static double traffic(const struct hlo_instruction *in)
{
    const struct hlo_shape *out = &in->shape;
    double bytes = bytes_of(hlo_first_array(out));
    for (size_t i = 0; i < in->n_operands; i++)
        bytes += bytes_of(operand(in, i));
    for (size_t i = 1; out->kind == HLO_TUPLE && i < out->n_elements; i++) {
        const struct hlo_shape *s = &out->elements[i];
        bytes += s->kind == HLO_ARRAY && (s->dtype == DT_U8 || s->dtype == DT_S8) && s->rank == 1 ? 0 : bytes_of(s);
    }
    return bytes;
}

static void product(const struct hlo_instruction *in, double flop, struct hlo_cost *out)
{
    if (isnan(flop)) {
        out->flop_reason = out->bytes_reason = "a library's product whose configuration cannot be read";
        return;
    }
    out->product_flop[operand(in, 0)->dtype] = flop;
    out->bytes = traffic(in);
}

static const json_t *any_of(const json_t *o, const char *const *names)
{
    for (; *names; names++) {
        const json_t *v = json_object_get(o, *names);
        if (json_is_object(v))
            return v;
    }
    return NULL;
}

// cuBLAS, hipBLASLt: the contracted dimensions stand in the configuration, as numbers or as texts.
static double blas_flop(const struct hlo_instruction *in, struct slice config)
{
    static const char *const wrappers[] = {"gemm_backend_config", "grouped_gemm_backend_config", NULL};
    json_t *o = config.size ? json_parse((const char *)config.data, config.size, "backend_config", NULL) : NULL;
    const json_t *inner = any_of(o, wrappers);
    const json_t *dims = json_object_get(inner ? inner : o, "dot_dimension_numbers");
    const json_t *contracting = json_object_get(dims, "lhs_contracting_dimensions");
    double flop = 2 * (double)hlo_shape_elements(hlo_first_array(&in->shape));
    if (!json_is_array(contracting))
        flop = NAN;
    for (size_t i = 0; i < json_array_size(contracting); i++) {
        const json_t *v = json_array_get(contracting, i);
        int64_t dim = json_is_integer(v) ? json_integer_value(v) : -1;
        if (json_is_string(v) && !parse_i64(json_string_value(v), &dim))
            dim = -1;
        flop *= extent(operand(in, 0), dim);
    }
    json_decref(o);
    return flop;
}

// oneDNN: the last dimension of the left operand is contracted, or the one before where that is transposed.
static double onednn_flop(const struct hlo_instruction *in, struct slice config)
{
    static const char *const wrappers[] = {"onednn_matmul_config", NULL};
    json_t *o = config.size ? json_parse((const char *)config.data, config.size, "backend_config", NULL) : NULL;
    const json_t *inner = any_of(o, wrappers);
    const struct hlo_shape *lhs = operand(in, 0);
    bool transposed = json_is_true(json_object_get(inner ? inner : o, "transpose_a"));
    double flop = 2 * (double)hlo_shape_elements(hlo_first_array(&in->shape)) *
                  (lhs->rank >= 2 ? extent(lhs, lhs->rank - (transposed ? 2 : 1)) : NAN);
    json_decref(o);
    return flop;
}

// What is the input, the kernel and the output of the convolution that the dimension numbers describe.
static double dnn_flop(const struct hlo_instruction *in, const struct hlo_attributes *a)
{
    const struct hlo_shape *result = hlo_first_array(&in->shape), *x = operand(in, 0), *y = operand(in, 1);
    if (slice_starts_with(a->custom_call_target, "__cudnn$convBackwardInput"))
        return hlo_convolution_flop(a, result, y, x);
    if (slice_starts_with(a->custom_call_target, "__cudnn$convBackwardFilter"))
        return hlo_convolution_flop(a, x, result, y);
    return hlo_convolution_flop(a, x, y, result);
}

// ---- Kernels

static const uint8_t *find(struct slice s, const char *text)
{
    return s.size ? memmem(s.data, s.size, text, strlen(text)) : NULL;
}

// The number behind "key": in a cost estimate, whether it stands there as a number or as a text.
static double estimate(struct slice s, const char *key)
{
    const uint8_t *at = find(s, key), *end = s.data + s.size;
    char digits[32];
    size_t n = 0;
    for (at = at ? at + strlen(key) : end; at < end && (*at == '"' || *at == '\\' || *at == ':' || isspace(*at)); at++)
        ;
    for (; at < end && n + 1 < sizeof digits && (isdigit(*at) || *at == '.' || *at == 'e' || *at == '+'); at++)
        digits[n++] = (char)*at;
    digits[n] = '\0';
    double v;
    return n && parse_double(digits, &v) && v >= 0 ? v : NAN;
}

// A kernel's author may say what it costs: cost_estimate {flops, transcendentals, bytes_accessed}.
static bool estimated(struct slice config, struct hlo_cost *out, enum dtype type)
{
    const uint8_t *at = find(config, "cost_estimate");
    if (!at)
        return false;
    struct slice rest = {at, (size_t)(config.data + config.size - at)};
    const uint8_t *close = memchr(rest.data, '}', rest.size);
    if (close)
        rest.size = (size_t)(close - rest.data);
    double flop = estimate(rest, "flops"), bytes = estimate(rest, "bytes_accessed");
    double transcendentals = estimate(rest, "transcendentals");
    if (isnan(flop) && isnan(bytes))
        return false;
    // A field of zero is left out.
    out->product_flop[type] = isnan(flop) ? 0 : flop;
    out->transcendentals = isnan(transcendentals) ? 0 : transcendentals;
    out->bytes = isnan(bytes) ? 0 : bytes;
    return true;
}

static int base64_value(uint8_t c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

// Whether the text (shorter than 16) stands in what "body" holds in base64: the kernel's program, whose operations are
// listed by name.
static bool body_has(struct slice config, const char *text)
{
    static const char key[] = "\"body\"";
    if (!config.size)
        return false;
    const uint8_t *at = find(config, key), *end = config.data + config.size;
    size_t n = strlen(text);
    char last[16] = "";
    uint32_t bits = 0;
    unsigned n_bits = 0;
    for (at = at ? at + sizeof key - 1 : end; at < end && (*at == ':' || *at == ' ' || *at == '"'); at++)
        ;
    for (; at < end && base64_value(*at) >= 0; at++) {
        bits = bits << 6 | (uint32_t)base64_value(*at);
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        memmove(last, last + 1, n - 1);
        last[n - 1] = (char)(bits >> n_bits & 0xff);
        if (memcmp(last, text, n) == 0)
            return true;
    }
    return false;
}

// result[..., m, n] of x[..., m, k] and y[..., k, n] or y[..., n, k]: the only product these shapes can be of.
static double product_by_shapes(const struct hlo_instruction *in)
{
    const struct hlo_shape *out = &in->shape, *x = operand(in, 0), *y = operand(in, 1);
    if (in->n_operands != 2 || !is_array(out) || !is_array(x) || !is_array(y) || out->rank < 2 ||
        x->rank != out->rank || (y->rank != out->rank && y->rank != 2))
        return NAN;
    int r = out->rank;
    for (int i = 0; i < r - 2; i++) {
        if (x->dims[i] != out->dims[i] || (y->rank == r && y->dims[i] != out->dims[i]))
            return NAN;
    }
    int64_t m = out->dims[r - 2], n = out->dims[r - 1], k = x->dims[r - 1];
    int64_t y0 = y->dims[y->rank - 2], y1 = y->dims[y->rank - 1];
    bool product = x->dims[r - 2] == m && ((y0 == k && y1 == n) || (y0 == n && y1 == k));
    return product ? 2 * (double)hlo_shape_elements(out) * (double)k : NAN;
}

static void tpu_kernel(const struct hlo_instruction *in, const struct hlo_attributes *a, struct hlo_cost *out)
{
    double flop = body_has(a->backend_config, "tpu.matmul") ? product_by_shapes(in) : NAN;
    if (isnan(flop)) {
        out->flop_reason = out->bytes_reason = "a kernel without a cost estimate, and no plain product";
        return;
    }
    product(in, flop, out);
}

void hlo_custom_call_cost(const struct hlo_instruction *in, const struct hlo_attributes *a, struct hlo_cost *out)
{
    // ConcatBitcast: what already lies one behind the other, under one name.
    static const char *const free_ones[] = {"Sharding",
                                            "SPMDFullToShardShape",
                                            "SPMDShardToFullShape",
                                            "AllocateBuffer",
                                            "LayoutConstraint",
                                            "ConcatBitcast",
                                            NULL};
    struct slice target = a->custom_call_target;
    for (size_t i = 0; free_ones[i]; i++) {
        if (target.size == strlen(free_ones[i]) && slice_starts_with(target, free_ones[i]))
            return;
    }
    if (slice_starts_with(target, "__cublas$"))
        product(in, blas_flop(in, a->backend_config), out);
    else if (slice_starts_with(target, "__cudnn$conv") || slice_starts_with(target, "__onednn$conv"))
        product(in, dnn_flop(in, a), out);
    else if (slice_starts_with(target, "__onednn$matmul"))
        product(in, onednn_flop(in, a->backend_config), out);
    else if (estimated(a->backend_config, out, operand(in, 0)->dtype))
        return;
    else if (target.size == 15 && slice_starts_with(target, "tpu_custom_call"))
        tpu_kernel(in, a, out);
    else
        out->flop_reason = out->bytes_reason = "a custom call of which nothing is known";
}
