// SPDX-License-Identifier: Apache-2.0
// What a type costs that the target has no products of: the product as it is compiled, beside the same one in bf16.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/builder.h"
#include "lab/compile_part.h"

// ---- Which product

// The product that an instruction is, or the largest of those that it holds; NULL: none.
static const struct hlo_instruction *product_of(const struct hlo_instruction *in, int depth)
{
    const struct hlo_instruction *best = NULL;
    if ((hlo_is(in, "dot") || hlo_is(in, "convolution")) && in->n_operands == 2)
        return in;
    for (size_t c = 0; c < in->n_called && depth < 4; c++) {
        for (size_t i = 0; i < in->called[c]->n_instructions; i++) {
            const struct hlo_instruction *p = product_of(&in->called[c]->instructions[i], depth + 1);
            if (p && (!best || hlo_shape_elements(&p->shape) > hlo_shape_elements(&best->shape)))
                best = p;
        }
    }
    return best;
}

static int64_t whole(double v)
{
    return v >= 1 && v < 0x1p31 && fabs(v - round(v)) < 1e-6 * v ? (int64_t)round(v) : 0;
}

// Extents of a plain product from the elements of its arrays and its FLOP, however the compiler has turned its axes:
// with `b` products of m x k by k x n there are bmk, bkn and bmn elements and bmkn multiply-adds. 0 for others, such as
// convolutions with a window.
static void find_extents(const struct compile_op *op, struct compile_emulation *e)
{
    const struct hlo_instruction *p = product_of(op->in, 0);
    if (!p)
        return;
    double mk = (double)hlo_shape_elements(&p->operands[0]->shape),
           kn = (double)hlo_shape_elements(&p->operands[1]->shape), mn = (double)hlo_shape_elements(&p->shape),
           all = op->flop / 2, b = mk * kn * mn / (all * all);
    int64_t batch = whole(b), m = whole(all / kn), k = whole(all / mn), n = whole(all / mk);
    if (!batch || !m || !k || !n)
        return;
    e->batch = batch;
    e->m = m;
    e->k = k;
    e->n = n;
}

static bool is_emulated(const struct compile_op *op)
{
    if (op->asked == DT_F32)
        return op->code && lround(op->passes) > 1;
    return op->emulated && op->asked != DT_BF16;
}

// The largest emulated product of each type.
static int find(struct compile_case *k, struct error *err)
{
    k->emulations = arena_new(&k->arena, struct compile_emulation, DT_COUNT, err);
    if (!k->emulations)
        return ERR_MEMORY;
    for (size_t i = 0; i < k->n_ops; i++) {
        const struct compile_op *op = &k->ops[i];
        if (op->flop <= 0 || !is_emulated(op))
            continue;
        size_t n = 0;
        while (n < k->n_emulations && k->emulations[n].type != op->asked)
            n++;
        if (n < k->n_emulations && k->emulations[n].op->flop * k->emulations[n].op->runs >= op->flop * op->runs)
            continue;
        k->emulations[n] =
            (struct compile_emulation){.type = op->asked, .op = op, .bf16_bundles = NAN, .bf16_iterations = NAN};
        find_extents(op, &k->emulations[n]);
        k->n_emulations += n == k->n_emulations;
    }
    return 0;
}

// ---- The same in bf16

static int build(const struct compile_emulation *e, struct module *m, struct error *err)
{
    struct builder b;
    builder_init(&b, m);
    builder_scope(&b, "product", "product");
    bool batched = e->batch > 1;
    struct shape left = SHAPE(DT_BF16, e->m, e->k), right = SHAPE(DT_BF16, e->k, e->n);
    if (batched) {
        left = SHAPE(DT_BF16, e->batch, e->m, e->k);
        right = SHAPE(DT_BF16, e->batch, e->k, e->n);
    }
    int x = build_parameter(&b, ROLE_INPUT, "x", left, NULL), w = build_parameter(&b, ROLE_INPUT, "w", right, NULL);
    build_result(
        &b, "y",
        build_dot(&b, x, w, batched, (int[]){0}, (int[]){0}, 1, (int[]){1 + batched}, (int[]){batched}, DT_F32));
    return builder_finish(&b, err);
}

static void take(const struct compile_case *twin, struct compile_emulation *e)
{
    const struct compile_op *best = NULL;
    for (size_t i = 0; i < twin->n_ops; i++) {
        const struct compile_op *op = &twin->ops[i];
        best = op->code && op->flop > (best ? best->flop : 0) ? op : best;
    }
    if (!best)
        return;
    e->bf16_bundles = best->bundles;
    e->bf16_iterations = best->iterations;
}

static int compile_twin(const struct compile *c, const struct compile_case *k, struct compile_emulation *e,
                        struct error *err)
{
    struct compile own = {.options = {.workload = "the same product in bf16",
                                      .plugin = c->options.plugin,
                                      .timeout_s = c->options.timeout_s}};
    struct compile_case twin = {.target_name = k->target_name, .target = k->target, .stage = {.of = 1}};
    struct module m;
    arena_init(&twin.arena);
    module_init(&m, &twin.arena, "product");
    twin.target.slices = 1;
    twin.n_flags = k->n_flags;
    memcpy(twin.flags, k->flags, sizeof twin.flags);
    int rc = build(e, &m, err);
    if (!rc)
        rc = compile_case_model(&own, &twin, &m, NULL, err);
    if (!rc)
        rc = compile_case_run(&own, &twin, 0, err);
    if (!rc && twin.state == COMPILE_DONE)
        take(&twin, e);
    arena_release(&twin.arena);
    return rc;
}

// ---- In words

static bool same_flags(const struct compile_case *a, const struct compile_case *b)
{
    bool same = a->n_flags == b->n_flags;
    for (size_t i = 0; i < a->n_flags && same; i++)
        same = strcmp(a->flags[i].name, b->flags[i].name) == 0 && strcmp(a->flags[i].value, b->flags[i].value) == 0;
    return same;
}

// The twin that an earlier case has compiled.
static const struct compile_emulation *known(const struct compile *c, const struct compile_case *k,
                                             const struct compile_emulation *e)
{
    for (const struct compile_case *other = c->cases; other <= k; other++) {
        for (size_t i = 0; i < other->n_emulations && strcmp(other->target_name, k->target_name) == 0; i++) {
            const struct compile_emulation *o = &other->emulations[i];
            if (o != e && o->batch == e->batch && o->m == e->m && o->k == e->k && o->n == e->n &&
                !isnan(o->bf16_bundles) && same_flags(other, k))
                return o;
        }
    }
    return NULL;
}

static int say(const struct compile *c, struct compile_case *k, struct compile_emulation *e, struct error *err)
{
    const struct compile_op *op = e->op;
    struct str s;
    str_init(&s);
    str_addf(&s, "%s is %s on %s", dtype_name(e->type),
             e->type == DT_F32 ? "made of passes over its bf16 parts" : "emulated", k->target.chip->name);
    if (!op->code) {
        str_addf(&s, ": %s widens it to %s first, so that it is no faster than %s there", op->name,
                 dtype_name(op->type), dtype_name(op->type));
    } else {
        double cycles = op->bundles * op->iterations, bf16 = e->bf16_bundles * e->bf16_iterations;
        str_addf(&s, ": %s", op->name);
        if (e->batch)
            str_addf(&s, ", %" PRId64 " x %" PRId64 " x %" PRId64, e->m, e->k, e->n);
        if (e->batch > 1)
            str_addf(&s, ", %" PRId64 " times", e->batch);
        str_addf(&s, ",%s takes %.0f bundles x %.0f iterations = %.0f cycles",
                 c->request.fixed ? "" : " with what is fused into it,", op->bundles, op->iterations, cycles);
        if (isnan(bf16)) {
            str_addf(&s, "; what it would in bf16 is not known: %s",
                     e->batch ? "the compiler did not say" : "it is no plain product");
        } else {
            str_addf(&s, "; the same product in bf16, by itself, %.0f x %.0f = %.0f: %.2g times as many",
                     e->bf16_bundles, e->bf16_iterations, bf16, cycles / bf16);
        }
    }
    str_add(&s, ".");
    e->sentence = arena_strdup(&k->arena, str_text(&s), err);
    str_release(&s);
    return e->sentence ? 0 : ERR_MEMORY;
}

int compile_case_emulations(const struct compile *c, struct compile_case *k, struct error *err)
{
    int rc = find(k, err);
    for (size_t i = 0; i < k->n_emulations && !rc; i++) {
        struct compile_emulation *e = &k->emulations[i];
        const struct compile_emulation *other = known(c, k, e);
        if (other) {
            e->bf16_bundles = other->bf16_bundles;
            e->bf16_iterations = other->bf16_iterations;
        } else if (e->op->code && e->batch) {
            progress_report(c->options.progress, "the same in bf16", c->n_cases, c->n_cases);
            rc = compile_twin(c, k, e, err);
        }
        rc = rc ? rc : say(c, k, e, err);
    }
    return rc;
}
