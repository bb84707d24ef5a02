// SPDX-License-Identifier: Apache-2.0
// A fingerprint in words. What could not be read is said to be unknown, never left out.
#include <math.h>
#include <string.h>

#include "lab/probe.h"

const char *probe_fusion_name(enum probe_fusion f)
{
    switch (f) {
    case FUSION_FMA:
        return "fused multiply-add";
    case FUSION_SEPARATE:
        return "products rounded before they are added";
    case FUSION_BLOCK:
        return "products exact inside a block";
    case FUSION_UNSEEN:
        return "products exact: the sum holds every bit of one";
    default:
        return "unknown whether products are rounded alone";
    }
}

void probe_say_operand(struct str *out, const struct probe_fingerprint *f, const struct probe_path *path)
{
    const char *type = dtype_name(path->lhs);
    if (!f->operand) {
        str_addf(out,
                 "not explained by any candidate (the best one gives %zu of %zu probes): 1 + 2^-t survives to t = %d",
                 f->explained, f->operands, f->kept_sparse);
        return;
    }
    int bits = dot_format(f->operand)->bits;
    const char *rounding = dot_rounding_name(f->operand_rounding);
    if (f->passes > 1)
        str_addf(out, "split into %d parts of %s (%s%s), %d products", f->passes == 3 ? 2 : 3, f->operand, rounding,
                 f->last_nearest && f->operand_rounding != DOT_NEAREST ? ", the last one nearest" : "", f->passes);
    else if (strcmp(f->operand, type) == 0)
        str_addf(out, "%s as they are, %d significant bits", type, bits);
    else
        str_addf(out, "rounded to %s (%s), %d significant bits", f->operand, rounding, bits);
    if (f->explained < f->operands)
        str_addf(out, "; explains %zu of %zu probes", f->explained, f->operands);
    if (f->rivals)
        str_addf(out, "; %zu other candidate%s (%s) would give the same", f->rivals, f->rivals == 1 ? "" : "s",
                 f->rival);
    if (f->stochastic)
        str_add(out, "; the same product came out differently");
}

void probe_say_sum(struct str *out, const struct probe_fingerprint *f)
{
    if (f->inner && f->accumulator)
        str_addf(out, "%s inside blocks, %s between them", f->inner, f->accumulator);
    else if (f->accumulator)
        str_add(out, f->accumulator);
    else
        str_addf(out, "%d fraction bits", f->bits_near);
    str_addf(out, ", %s; ", f->rounding < 0 ? "rounding unknown" : dot_rounding_name((enum dot_rounding)f->rounding));
    str_add(out, probe_fusion_name(f->fusion));
    if (f->bits_block >= 0)
        str_addf(out, "; a block keeps %s%d bits below its largest term", f->wide_block ? "at least " : "",
                 f->bits_block);
    if (f->bits_far >= 0 && f->bits_far < f->bits_near)
        str_addf(out, "; across blocks only %d fraction bits are kept", f->bits_far);
    if (f->stagnates)
        str_addf(out, "; a sum of ones stays at %d", f->stagnates);
}

void probe_say_order(struct str *out, const struct probe_fingerprint *f)
{
    probe_tree_describe(out, &f->tree);
    if (f->tree.tree.nodes == 0 && f->tree.why)
        str_addf(out, ": %s", f->tree.why);
}

static const char *kept(int flush)
{
    return flush == -2 ? "out of reach of its products" : flush < 0 ? "unknown" : flush ? "zero" : "kept";
}

void probe_say_denormals(struct str *out, const struct probe_fingerprint *f)
{
    if (f->operand_flush == 0 && f->sum_flush == 0) {
        str_add(out, "kept in operands and sums");
        return;
    }
    str_addf(out, "in operands %s, in sums %s", kept(f->operand_flush), kept(f->sum_flush));
    if (f->sum_flush == 1 && f->product_flush >= 0)
        str_addf(out, " (a product below the range is %s before it is added)", f->product_flush ? "zero" : "not cut");
}

void probe_say_specials(struct str *out, const struct probe_fingerprint *f, const struct probe_path *path)
{
    if (dot_format(dtype_name(path->lhs))->infinity)
        str_addf(out, "infinity * 0 is %08x, ", f->invalid_bits);
    str_addf(out, "NaN %s%08x; a sum beyond the range on its way %s",
             path->lhs == DT_F32 || path->lhs == DT_BF16 ? "7fe10000 becomes " : "becomes ", f->payload_bits,
             isinf(f->overflow)   ? "is infinite"
             : isnan(f->overflow) ? "is NaN"
                                  : "comes back");
}

void probe_say_result(struct str *out, const struct probe_fingerprint *f, const struct probe_path *path)
{
    if (!f->output)
        str_addf(out, "%s, as the sum is", dtype_name(path->out));
    else if (f->output_rounding < 0)
        str_addf(out, "%s, by no single rounding of the sum", f->output);
    else
        str_addf(out, "%s, one rounding at the end, %s", f->output,
                 dot_rounding_name((enum dot_rounding)f->output_rounding));
}
