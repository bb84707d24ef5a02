// SPDX-License-Identifier: Apache-2.0
#include "num/quantize.h"

static void describe_boxes(const struct quant_spec *s, struct str *out)
{
    switch (s->granularity) {
    case QUANT_PER_TENSOR:
        str_add(out, " per tensor");
        break;
    case QUANT_PER_CHANNEL:
        str_addf(out, " per channel of axis %d", s->channel_axis);
        break;
    case QUANT_PER_GROUP:
        str_addf(out, " per group of %lld along axis %d", (long long)s->group, s->group_axis);
        break;
    case QUANT_PER_BLOCK: {
        str_add(out, " per block of ");
        int last = QUANT_MAX_RANK - 1;
        while (last > 0 && !s->block[last])
            last--;
        for (int d = 0; d <= last; d++) {
            if (s->block[d])
                str_addf(out, "%s%lld", d ? "x" : "", (long long)s->block[d]);
            else
                str_addf(out, "%sall", d ? "x" : "");
        }
        break;
    }
    }
    if (s->short_last && (s->granularity == QUANT_PER_GROUP || s->granularity == QUANT_PER_BLOCK))
        str_add(out, " (the last one may be shorter)");
}

static void describe_range(const struct quant_spec *s, struct str *out)
{
    const struct quant_search *r = &s->search;
    if (s->from == QUANT_FROM_PERCENTILE && s->mapping == QUANT_AFFINE)
        str_addf(out, ", range = percentiles %g and %g", 100 - r->percentile, r->percentile);
    else if (s->from == QUANT_FROM_PERCENTILE)
        str_addf(out, ", amax = percentile %g of the magnitudes", r->percentile);
    if (s->from == QUANT_FROM_ERROR)
        str_addf(out, ", range = the whole one times 1 - i/%d, i/%d < %g, with the least sum of |error|^%g",
                 r->steps ? r->steps : 100, r->steps ? r->steps : 100, r->max_shrink > 0 ? r->max_shrink : 0.2,
                 r->norm > 0 ? r->norm : 2);
    if (s->from == QUANT_FROM_ERROR && r->patience)
        str_addf(out, ", given up after %d without a better one", r->patience);
}

void quant_describe(const struct quant_spec *s, struct str *out)
{
    double lowest, highest;
    quant_code_limits(s, &lowest, &highest);
    bool affine = s->mapping == QUANT_AFFINE, is_float = dtype_is_float(s->type);
    str_add(out, dtype_name(s->type));
    describe_boxes(s, out);
    str_addf(out, affine ? ", affine" : ", symmetric");
    bool is_unsigned = dtype_info(s->type)->kind == DTK_UNSIGNED;
    if (is_unsigned && !affine)
        str_addf(out, " about %d", 1 << (dtype_bits(s->type) - 1));
    str_addf(out, is_float ? ", values %g to %g" : ", codes %g..%g", lowest, highest);
    describe_range(s, out);
    double divisor = is_unsigned ? (1 << (dtype_bits(s->type) - 1)) - 1 : highest;
    if (affine)
        str_addf(out, ", scale = (high - low) / %g", highest - lowest);
    else
        str_addf(out, ", scale = amax / %g", divisor + (s->divisor == QUANT_BY_HALF_RANGE ? 0.5 : 0));
    str_addf(out, " as %s rounded %s", dtype_name(s->scale_type ? s->scale_type : DT_F32),
             s->scale_up ? "up" : "to nearest");
    const char *quotient = s->reciprocal ? "x * (1 / s)" : "x / s";
    const char *round = s->rounding == QUANT_HALF_AWAY ? "round half away" : "round half even";
    bool before = s->zero_order == QUANT_ZERO_BEFORE_ROUNDING;
    if (is_float)
        str_addf(out, ", value = %s rounded half even, saturating", quotient);
    else if (!affine && !is_unsigned)
        str_addf(out, ", code = %s(%s)", round, quotient);
    else
        str_addf(out, before ? ", code = %s(%s + z)" : ", code = %s(%s) + z", round, quotient);
    static const char *const nonfinite[] = {"refused", "saturated, NaN to zero", "kept"};
    str_addf(out, ", values that are not finite are %s", nonfinite[s->nonfinite]);
}
