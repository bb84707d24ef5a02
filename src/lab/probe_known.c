// SPDX-License-Identifier: Apache-2.0
// Devices whose arithmetic has been described, as models with their sources, and how a fingerprint compares with them.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lab/probe.h"

#define MMASIM "microsoft/MMA-Sim, mmasim/simulator/{nv_ptx,amd,arithmetic}.py (arXiv 2511.10909)"
#define MATLAB "; north-numerical-computing/MATLAB-tensor-core, models/"
#define TPU    "docs.cloud.google.com/tpu/docs/bfloat16; eight published outputs of jax-ml/jax#9973 and #16349 reproduced"
#define LAX    "jax-ml/jax, jax/_src/lax/lax.py, Precision"
#define GPU    "openxla/xla, xla/service/gpu/transforms/dot_algorithm_rewriter.cc"

#define XLA_CPU "measured by this program on Zen 4, XLA's CPU plugin of PJRT 0.81 and 0.115"

// Formats are named here and looked up once.
struct row {
    const char *key, *device, *path, *operand, *accumulator, *source;
    struct dot_model model;
    bool order_known;
};

#define TENSOR(n, bits) .rounding = DOT_TOWARD_ZERO, .order = DOT_FUSED, .block = (n), .fraction = (bits)

static const struct row rows[] = {
    {"f32-fma",
     "any f32 unit with fused multiply-add, in order",
     "f32",
     "f32",
     "f32",
     "IEEE 754-2019, fusedMultiplyAdd",
     {.order = DOT_SEQUENTIAL},
     true},
    {"f32-separate",
     "any f32 unit without fused multiply-add, in order",
     "f32",
     "f32",
     "f32",
     "IEEE 754-2019, multiplication and addition",
     {.order = DOT_SEQUENTIAL, .separate = true},
     true},
    {"xla-cpu-f32",
     "XLA on an x86 CPU: f32 fused multiply-add, in order, subnormals off",
     "f32",
     "f32",
     "f32",
     XLA_CPU,
     {.operand_flush = true, .flush = true, .order = DOT_SEQUENTIAL},
     true},
    {"xla-cpu-bf16-vector",
     "XLA on an x86 CPU, one row: bf16 widened to f32, fused multiply-add, in order, subnormals off",
     "bf16",
     "bf16",
     "f32",
     XLA_CPU,
     {.operand_flush = true, .flush = true, .order = DOT_SEQUENTIAL},
     true},
    {"tpu-default", "TPU, f32 at DEFAULT", "f32", "bf16", "f32", TPU, {.operand_flush = true}, false},
    {"tpu-high",
     "TPU, f32 at HIGH (3 products of bf16 parts)",
     "f32:high",
     "bf16",
     "f32",
     LAX,
     {.operand_flush = true, .passes = 3},
     false},
    {"tpu-highest",
     "TPU, f32 at HIGHEST (6 products of bf16 parts)",
     "f32:highest",
     "bf16",
     "f32",
     LAX "; 1.2 * 1.2 is 3fb851ed there",
     {.operand_flush = true, .passes = 6},
     false},
    {"gpu-bf16x3",
     "XLA on a GPU, BF16_BF16_F32_X3",
     "f32:bf16x3",
     "bf16",
     "f32",
     GPU,
     {.operand_rounding = DOT_TOWARD_ZERO, .passes = 3, .last_nearest = true, .guard = true},
     false},
    {"gpu-bf16x6",
     "XLA on a GPU, BF16_BF16_F32_X6",
     "f32:bf16x6",
     "bf16",
     "f32",
     GPU,
     {.operand_rounding = DOT_TOWARD_ZERO, .passes = 6, .last_nearest = true, .guard = true},
     false},
    {"gpu-bf16x9",
     "XLA on a GPU, BF16_BF16_F32_X9",
     "f32:bf16x9",
     "bf16",
     "f32",
     GPU,
     {.operand_rounding = DOT_TOWARD_ZERO, .passes = 9, .last_nearest = true, .guard = true},
     false},
    {"a100-tf32",
     "NVIDIA A100, tf32",
     "f32:tf32",
     "tf32",
     "f32",
     MMASIM MATLAB "A100TC.m",
     {.operand_rounding = DOT_TOWARD_ZERO, TENSOR(4, 24)},
     true},
    {"h100-tf32",
     "NVIDIA H100 and B200, tf32",
     "f32:tf32",
     "tf32",
     "f32",
     MMASIM MATLAB "H100TC.m",
     {.operand_rounding = DOT_TOWARD_ZERO, TENSOR(8, 25)},
     true},
    {"cublas-tf32",
     "cuBLAS on an RTX 3090, tf32 rounded before",
     "f32",
     "tf32",
     "f32",
     "pytorch/pytorch#53635: 1024.5 * 1 is 1025",
     {.operand_rounding = DOT_AWAY, TENSOR(4, 24)},
     true},
    {"v100-f16", "NVIDIA V100, f16", "f16", "f16", "f32", MMASIM MATLAB "V100TC.m", {TENSOR(4, 23)}, true},
    {"a100-f16", "NVIDIA A100, f16", "f16", "f16", "f32", MMASIM MATLAB "A100TC.m", {TENSOR(8, 24)}, true},
    {"h100-f16", "NVIDIA H100 and B200, f16", "f16", "f16", "f32", MMASIM MATLAB "H100TC.m", {TENSOR(16, 25)}, true},
    {"a100-bf16", "NVIDIA A100, bf16", "bf16", "bf16", "f32", MMASIM MATLAB "A100TC.m", {TENSOR(8, 24)}, true},
    {"h100-bf16",
     "NVIDIA H100 and B200, bf16",
     "bf16",
     "bf16",
     "f32",
     MMASIM MATLAB "H100TC.m",
     {TENSOR(16, 25)},
     true},
    {"ada-f8e4m3fn",
     "NVIDIA Ada, fp8",
     "f8e4m3fn",
     "f8e4m3fn",
     "e8m13",
     MMASIM "; deepseek-ai/DeepGEMM#37",
     {TENSOR(16, 13)},
     true},
    {"h100-f8e4m3fn",
     "NVIDIA H100, fp8",
     "f8e4m3fn",
     "f8e4m3fn",
     "e8m13",
     MMASIM "; deepseek-ai/DeepGEMM#37, #176, DeepSeek-V3#847",
     {TENSOR(32, 13)},
     true},
    {"b200-f8e4m3fn", "NVIDIA B200, fp8", "f8e4m3fn", "f8e4m3fn", "f32", MMASIM, {TENSOR(32, 25)}, true},
    {"mi100-bf16", "AMD MI100, bf16", "bf16", "bf16", "f32", MMASIM, {.order = DOT_GROUPS, .block = 2}, true},
    {"mi100-f16", "AMD MI100, f16", "f16", "f16", "f32", MMASIM, {.order = DOT_GROUPS, .block = 4}, true},
    {"mi250-bf16",
     "AMD MI250, bf16",
     "bf16",
     "bf16",
     "f32",
     MMASIM MATLAB "MI250MC.m",
     {.operand_flush = true, .flush = true, .separate = true, .order = DOT_GROUPS, .block = 4},
     true},
    {"mi300-bf16",
     "AMD MI300, bf16",
     "bf16",
     "bf16",
     "f32",
     MMASIM MATLAB "MI300XMC.m",
     {.order = DOT_FUSED_LATE, .block = 8, .fraction = 24},
     true},
    {"mi300-f8e4m3fn",
     "AMD MI300, fp8",
     "f8e4m3fn",
     "f8e4m3fn",
     "f32",
     MMASIM,
     {.order = DOT_FUSED_LATE, .block = 16, .fraction = 24, .halves = true},
     true},
    {"x86-vdpbf16ps",
     "x86 with AVX512_BF16 or AMX (VDPBF16PS, TDPBF16PS)",
     "bf16",
     "bf16",
     "f32",
     "Intel SDM, VDPBF16PS; confirmed on Zen 4 and 5",
     {.operand_flush = true, .flush = true, .order = DOT_PAIRS_ODD},
     true},
    {"arm-bfdot",
     "Arm BFDOT, FPCR.EBF = 0",
     "bf16",
     "bf16",
     "f32",
     "Arm ARM; QEMU target/arm, bfdotadd",
     {.operand_flush = true, .flush = true, .rounding = DOT_TO_ODD, .order = DOT_BFDOT},
     true},
    {"arm-bfdot-ebf",
     "Arm BFDOT, FPCR.EBF = 1",
     "bf16",
     "bf16",
     "f32",
     "Arm ARM; QEMU target/arm, bfdotadd_ebf",
     {.order = DOT_GROUPS, .block = 2},
     true},
    {"bf16-fma",
     "bf16 widened to f32, fused multiply-add, in order",
     "bf16",
     "bf16",
     "f32",
     "IEEE 754-2019, fusedMultiplyAdd",
     {.order = DOT_SEQUENTIAL},
     true},
    {"f16-fma",
     "f16 widened to f32, fused multiply-add, in order",
     "f16",
     "f16",
     "f32",
     "openxla/xla, xla/service/cpu/cpu_compiler.cc: f16 products are computed in f32",
     {.order = DOT_SEQUENTIAL},
     true},
    {"f8-fma",
     "fp8 widened to f32, fused multiply-add, in order",
     "f8e4m3fn",
     "f8e4m3fn",
     "f32",
     "openxla/xla, xla/service/cpu/cpu_compiler.cc: fp8 products are computed in a wider type",
     {.order = DOT_SEQUENTIAL},
     true},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static struct probe_known known[ROWS];
static pthread_once_t known_made = PTHREAD_ONCE_INIT;

static void make_known(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        known[i] = (struct probe_known){r->key, r->device, r->path, r->model, r->order_known, r->source};
        known[i].model.name = r->device;
        known[i].model.operand = dot_format(r->operand);
        known[i].model.accumulator = dot_format(r->accumulator);
        known[i].model.passes = r->model.passes ? r->model.passes : 1;
    }
}

const struct probe_known *probe_known_at(size_t i)
{
    pthread_once(&known_made, make_known);
    return i < ROWS ? &known[i] : NULL;
}

const struct probe_known *probe_known_find(const char *key)
{
    const struct probe_known *k;
    for (size_t i = 0; (k = probe_known_at(i)); i++) {
        if (strcmp(k->key, key) == 0)
            return k;
    }
    return NULL;
}

static enum probe_shape shape_of(const struct dot_model *m)
{
    switch (m->order) {
    case DOT_SEQUENTIAL:
        return SHAPE_SEQUENTIAL;
    case DOT_REVERSED:
        return SHAPE_REVERSED;
    case DOT_PAIRWISE:
        return SHAPE_PAIRWISE;
    case DOT_BLOCKED:
        return SHAPE_BLOCKED;
    case DOT_LANES:
        return SHAPE_LANES;
    case DOT_FUSED:
    case DOT_FUSED_LATE: // where the block's terms cancel, the sum is cut as if it were in the block
        return SHAPE_FUSED;
    case DOT_GROUPS:
        return SHAPE_GROUPS;
    case DOT_PAIRS_ODD:
        return SHAPE_PAIRS_ODD;
    default:
        return SHAPE_NONE;
    }
}

int probe_fingerprint_of(struct probe_fingerprint *out, const struct probe_known *k, size_t n, struct arena *a,
                         struct error *err)
{
    const struct dot_model *m = &k->model;
    enum probe_shape shape = k->order_known ? shape_of(m) : SHAPE_NONE;
    bool block = m->order == DOT_FUSED || m->order == DOT_FUSED_LATE;
    *out = (struct probe_fingerprint){.operand = m->operand->name,
                                      .operand_rounding = m->operand_rounding,
                                      .passes = m->passes,
                                      .last_nearest = m->last_nearest,
                                      .guard = m->guard,
                                      .operand_flush = m->operand_flush,
                                      .accumulator = m->accumulator->name,
                                      .rounding = m->order == DOT_FUSED_LATE ? -1 : (int)m->rounding, // two roundings
                                      .sum_flush = k->order_known ? m->flush : -1,
                                      .product_flush = -1,
                                      .bits_block = block ? m->fraction : -1};
    bool whole = 2 * m->operand->bits <= m->accumulator->bits;
    out->fusion = whole ? FUSION_UNSEEN : block ? FUSION_BLOCK : m->separate ? FUSION_SEPARATE : FUSION_FMA;
    return shape == SHAPE_NONE ? 0 : probe_tree_named(&out->tree, (int)n, shape, m->block, m->block, a, err);
}

// What a product is formed from counts for more than how it is added.
enum { FORMAT_WEIGHT = 4 };

// Formats an aspect that differs.
static int differs(struct str *out, const char *what, const char *found, const char *other)
{
    str_addf(out, "%s%s %s, not %s", out->length ? "; " : "", what, found, other);
    return 1;
}

// "bf16, nearest even", "3 products of parts of bf16, toward zero"; a type that is kept as it is has no rounding.
static void say_operand(char *out, size_t n, const struct probe_fingerprint *f, bool rounds)
{
    char passes[32] = "";
    if (f->passes > 1)
        snprintf(passes, sizeof passes, "%d products of parts of ", f->passes & 15);
    snprintf(out, n, "%s%s%s%s", passes, f->operand, rounds ? ", " : "",
             rounds ? dot_rounding_name(f->operand_rounding) : "");
}

static int operand_differences(const struct probe_fingerprint *f, const struct probe_fingerprint *k, struct str *out)
{
    char x[96], y[96];
    bool rounds = f->passes > 1 || k->passes > 1 || f->operand_rounding != k->operand_rounding;
    say_operand(x, sizeof x, f, rounds);
    say_operand(y, sizeof y, k, rounds);
    if (strcmp(x, y) != 0)
        return FORMAT_WEIGHT * differs(out, "operands are", x, y);
    if (f->passes > 1 && f->guard != k->guard)
        return differs(out, "small parts that are not finite are", f->guard ? "dropped" : "kept",
                       k->guard ? "dropped" : "kept");
    return 0;
}

int probe_fingerprint_differences(const struct probe_fingerprint *f, const struct probe_fingerprint *k, struct str *out)
{
    int n = 0;
    char x[96], y[96];
    if (f->operand && k->operand)
        n += operand_differences(f, k, out);
    if (f->operand_flush >= 0 && f->operand_flush != k->operand_flush)
        n += differs(out, "subnormal operands are", f->operand_flush ? "zero" : "kept",
                     k->operand_flush ? "zero" : "kept");
    if (f->accumulator && strcmp(f->accumulator, k->accumulator) != 0)
        n += differs(out, "sums are", f->accumulator, k->accumulator);
    if (f->rounding >= 0 && k->rounding >= 0 && f->rounding != k->rounding)
        n += differs(out, "sums are rounded", dot_rounding_name((enum dot_rounding)f->rounding),
                     dot_rounding_name((enum dot_rounding)k->rounding));
    if ((f->fusion == FUSION_FMA || f->fusion == FUSION_SEPARATE) &&
        (k->fusion == FUSION_FMA || k->fusion == FUSION_SEPARATE) && f->fusion != k->fusion)
        n += differs(out, "each step is", probe_fusion_name(f->fusion), probe_fusion_name(k->fusion));
    if (f->bits_block >= 0 && k->bits_block >= 0 && f->bits_block != k->bits_block) {
        snprintf(x, sizeof x, "%d", f->bits_block);
        snprintf(y, sizeof y, "%d bits below the largest", k->bits_block);
        n += differs(out, "a block keeps", x, y);
    }
    if (f->tree.tree.nodes > 0 && k->tree.tree.nodes > 0 && !probe_tree_same(&f->tree, &k->tree)) {
        struct str p, q;
        str_init(&p);
        str_init(&q);
        probe_tree_describe(&p, &f->tree);
        probe_tree_describe(&q, &k->tree);
        n += differs(out, "products are added", str_text(&p), str_text(&q));
        out->failed |= p.failed | q.failed;
        str_release(&p);
        str_release(&q);
    } else if (f->tree.tree.nodes == 0 && k->tree.tree.nodes > 0) {
        n += differs(out, "the order is", "none that could be read", "a plain one");
    }
    if (f->sum_flush >= 0 && k->sum_flush >= 0 && f->sum_flush != k->sum_flush)
        n += differs(out, "subnormal sums are", f->sum_flush ? "zero" : "kept", k->sum_flush ? "zero" : "kept");
    return n;
}

int probe_matches(struct probe_match *out, size_t room, size_t *n, const struct probe_fingerprint *found,
                  const struct probe_path *path, size_t k, struct arena *a, struct error *err)
{
    const struct probe_known *row;
    *n = 0;
    for (size_t i = 0; (row = probe_known_at(i)) && *n < room; i++) {
        if (probe_path_find(row->path)->lhs != path->lhs)
            continue;
        struct probe_fingerprint print;
        struct str text;
        int rc = probe_fingerprint_of(&print, row, k, a, err);
        if (rc)
            return rc;
        str_init(&text);
        struct probe_match *m = &out[(*n)++];
        *m = (struct probe_match){.known = row, .differs = probe_fingerprint_differences(found, &print, &text)};
        m->differences = arena_strdup(a, str_text(&text), err);
        rc = m->differences ? str_check(&text, err) : ERR_MEMORY;
        str_release(&text);
        if (rc)
            return rc;
    }
    return 0;
}

int probe_match_order(const void *x, const void *y)
{
    const struct probe_match *p = x, *q = y;
    if (p->differs != q->differs)
        return p->differs < q->differs ? -1 : 1;
    if (p->same != q->same)
        return p->same > q->same ? -1 : 1;
    return strcmp(p->known->key, q->known->key);
}
