// SPDX-License-Identifier: Apache-2.0
// One product, Y = X W, with operands in f32, in bf16 and as int8 codes with a scale per row and column, on inputs of
// numpy's default_rng: once as drawn, once with feature 0 of X thirty times as large.
#include "lab/precision_lab.h"

#include <stdio.h>
#include <string.h>

#include "base/interrupt.h"
#include "ir/builder.h"
#include "num/convert.h"
#include "num/quantize.h"
#include "num/random.h"

#define OUTLIER 30
#define NAME    96

static const char *const inputs[2] = {"balanced", "outlier"};

const char *lab_policy_name(enum lab_policy policy)
{
    static const char *const names[LAB_POLICIES] = {"fp32", "bf16", "int8"};
    return names[policy];
}

// ---- operands

// Codes with a scale for each index of `axis`.
static int encode(struct precision *p, const struct precision_array *from, int axis, struct precision_array *to,
                  float **scales, int64_t *clipped, struct error *err)
{
    struct quant_spec spec = {.type = DT_S8, .granularity = QUANT_PER_CHANNEL, .channel_axis = axis};
    struct quant_stats stats;
    *to = *from;
    to->type = DT_S8;
    void *codes = precision_alloc(p, precision_bytes(to), 1, err);
    *scales = precision_alloc(p, (size_t)from->dims[axis], sizeof **scales, err);
    to->data = codes;
    int rc = codes && *scales
                 ? quantize(&spec, from->dims, 2, from->data, codes, *scales, NULL, &stats, from->name, err)
                 : ERR_MEMORY;
    if (!rc)
        *clipped += (int64_t)stats.clipped;
    return rc;
}

int lab_operands(struct precision *p, const struct lab_shape *s, const float *x, const float *w, enum lab_policy policy,
                 struct lab_operands *out, struct error *err)
{
    struct precision_array fx = precision_matrix("x", DT_F32, s->m, s->k, x);
    struct precision_array fw = precision_matrix("w", DT_F32, s->k, s->n, w);
    int rc = 0;
    *out = (struct lab_operands){.x = fx, .w = fw, .clipped = -1};
    if (policy == LAB_BF16) {
        rc = precision_convert(p, &fx, DT_BF16, &out->x, err);
        if (!rc)
            rc = precision_convert(p, &fw, DT_BF16, &out->w, err);
    } else if (policy == LAB_INT8) {
        out->clipped = 0;
        rc = encode(p, &fx, 0, &out->x, &out->x_scales, &out->clipped, err);
        if (!rc)
            rc = encode(p, &fw, 1, &out->w, &out->w_scales, &out->clipped, err);
        out->scale_bytes = (double)(s->m + s->n) * sizeof(float);
    }
    out->code_bytes = (double)(precision_bytes(&out->x) + precision_bytes(&out->w));
    return rc;
}

// ---- programs

// The int32 sums of part `i` of the contraction.
static int build_sums(struct builder *b, int x, int w, int64_t k, size_t i)
{
    int64_t start = (int64_t)i * LAB_CHUNK, limit = start + LAB_CHUNK < k ? start + LAB_CHUNK : k;
    if (lab_chunks((size_t)k) > 1) {
        x = build_slice_axis(b, x, 1, start, limit);
        w = build_slice_axis(b, w, 0, start, limit);
    }
    return build_dot(b, x, w, 0, NULL, NULL, 1, (int[]){1}, (int[]){0}, DT_S32);
}

static void begin(struct precision *p, struct module *m, struct builder *b, const struct lab_operands *o, int *x,
                  int *w)
{
    module_init(m, &p->arena, "product");
    builder_init(b, m);
    builder_scope(b, "product", "product");
    *x = build_parameter(b, ROLE_INPUT, "x", shape_of(o->x.type, 2, o->x.dims), NULL);
    *w = build_parameter(b, ROLE_INPUT, "w", shape_of(o->w.type, 2, o->w.dims), NULL);
}

static int execute_int8(struct precision *p, const char *name, const struct lab_operands *o, size_t samples,
                        struct precision_array *y, const struct precision_program **program, struct error *err)
{
    struct module m;
    struct builder b;
    int x, w;
    int64_t rows = o->x.dims[0], k = o->x.dims[1], columns = o->w.dims[1];
    struct shape wide = SHAPE(DT_F32, rows, columns);
    begin(p, &m, &b, o, &x, &w);
    int sx = build_parameter(&b, ROLE_INPUT, "x_scales", SHAPE(DT_F32, rows), NULL);
    int sw = build_parameter(&b, ROLE_INPUT, "w_scales", SHAPE(DT_F32, columns), NULL);
    int sum = build_convert(&b, build_sums(&b, x, w, k, 0), DT_F32);
    for (size_t i = 1; i < lab_chunks((size_t)k); i++)
        sum = build_binary(&b, OP_ADD, sum, build_convert(&b, build_sums(&b, x, w, k, i), DT_F32));
    sum = build_binary(&b, OP_MULTIPLY, sum, build_broadcast(&b, sx, wide, (int[]){0}));
    build_result(&b, "y", build_binary(&b, OP_MULTIPLY, sum, build_broadcast(&b, sw, wide, (int[]){1})));
    struct precision_array args[4] = {
        o->x,
        o->w,
        {.name = "x_scales", .type = DT_F32, .rank = 1, .dims = {rows}, .data = o->x_scales},
        {.name = "w_scales", .type = DT_F32, .rank = 1, .dims = {columns}, .data = o->w_scales},
    };
    struct precision_execution e = {.name = name, .module = &m, .args = args, .n_args = 4, .samples = samples};
    int rc = builder_finish(&b, err);
    if (!rc)
        rc = precision_execute(p, &e, err);
    *program = e.program;
    if (!rc)
        *y = e.outputs[0];
    return rc;
}

int lab_execute(struct precision *p, const char *name, enum lab_policy policy, const struct lab_operands *o,
                size_t samples, const double **y, const struct precision_program **program, struct error *err)
{
    struct precision_array out;
    *program = NULL;
    int rc = policy == LAB_INT8
                 ? execute_int8(p, name, o, samples, &out, program, err)
                 : precision_execute_dot(p, name, &o->x, &o->w, DT_F32, PRECISION_HIGHEST, samples, &out, program, err);
    if (rc)
        return rc;
    *y = precision_doubles(p, out.type, out.data, precision_elements(&out), err);
    return *y ? 0 : ERR_MEMORY;
}

int lab_accumulators(struct precision *p, const char *name, const struct lab_operands *o,
                     const int32_t *sums[LAB_MAX_CHUNKS], struct error *err)
{
    struct module m;
    struct builder b;
    int x, w;
    size_t chunks = lab_chunks((size_t)o->x.dims[1]);
    begin(p, &m, &b, o, &x, &w);
    for (size_t i = 0; i < chunks; i++)
        build_result(&b, "sums", build_sums(&b, x, w, o->x.dims[1], i));
    struct precision_array args[2] = {o->x, o->w};
    struct precision_execution e = {.name = name, .module = &m, .args = args, .n_args = 2};
    int rc = builder_finish(&b, err);
    if (!rc)
        rc = precision_execute(p, &e, err);
    for (size_t i = 0; i < chunks && !rc; i++)
        sums[i] = e.outputs[i].data;
    return rc;
}

int lab_case_failed(struct precision *p, struct precision_case *c, struct error *err)
{
    if (err->code != ERR_DEVICE || precision_lost(p))
        return err->code;
    precision_fail(p, c, "%s", err->message);
    error_clear(err);
    return 0;
}

// ---- cases

static const struct {
    const char *w, *a, *op, *acc, *requested;
} policies[LAB_POLICIES] = {
    {"f32", "f32", "f32", "f32", "f32 operands, HIGHEST, f32 sums"},
    {"bf16", "bf16", "bf16", "f32", "bf16 operands, HIGHEST, f32 sums"},
    {"int8/channel", "int8/row", "int8", "s32", "int8 operands, int32 sums times both scales in f32"},
};

void lab_describe(struct precision *p, struct precision_case *c, enum lab_policy policy, const struct lab_operands *o)
{
    c->label = lab_policy_name(policy);
    c->w = policies[policy].w;
    c->a = policies[policy].a;
    c->op = policies[policy].op;
    c->acc = policies[policy].acc;
    c->out = "f32";
    c->code_bytes = o->code_bytes;
    c->scale_bytes = o->scale_bytes;
    c->clipped = o->clipped;
    precision_text(p, c, "requested", "%s", policies[policy].requested);
}

// Whether a product, as precision_lowered_products describes it, takes operands of this type.
static bool takes(const char *product, const char *type)
{
    const char *operands = strchr(product, '(');
    size_t n = strlen(type);
    return operands && strncmp(operands + 1, type, n) == 0 && operands[1 + n] == '[';
}

// What the compiler made of the request: every product of the optimised program, and whether its operands are those
// that were asked for. They may have been widened on the way: then the format saves storage, not arithmetic.
void lab_say_lowered(struct precision *p, struct precision_case *c, enum dtype operands,
                     const struct precision_program *program)
{
    struct str text;
    bool kept = true;
    str_init(&text);
    for (size_t i = 0; i < program->n_products; i++) {
        str_addf(&text, "%s%s", i ? "; " : "", program->products[i]);
        kept = kept && takes(program->products[i], dtype_name(operands));
    }
    precision_text(p, c, "lowered to", "%s",
                   text.length                 ? str_text(&text)
                   : program->optimized_sha256 ? "no product is left in the optimised program"
                                               : "unknown: the plugin shows no optimised program");
    precision_text(p, c, "as requested", "%s",
                   !text.length ? "unknown"
                   : kept       ? "yes"
                                : "no: the operands were converted before the product");
    str_release(&text);
}

static int say_time(struct precision *p, struct precision_case *c, const struct precision_program *program,
                    struct error *err)
{
    struct measure_summary time;
    if (!program->n_samples)
        return 0;
    int rc = measure_summarize(&time, program->samples_ns, program->n_samples, 0.95, NULL, err);
    if (!rc)
        precision_number(p, c, "median time", quantity_make(time.p50 / 1e3, "us", ORIGIN_MEASURED, c->source));
    return rc;
}

static int run_case(struct lab_problem *q, struct lab_input *in, enum lab_policy policy, struct error *err)
{
    char name[NAME];
    struct precision *p = q->p;
    struct lab_operands *o = &in->operands[policy];
    int rc = lab_operands(p, &q->shape, in->x, q->w, policy, o, err);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "%s%s-%s", q->prefix, in->name, lab_policy_name(policy));
    struct precision_case *c = precision_case(p, q->section, name, in->name);
    in->cases[policy] = c;
    lab_describe(p, c, policy, o);
    const struct precision_program *program;
    rc = lab_execute(p, name, policy, o, q->samples, &in->results[policy], &program, err);
    if (rc)
        return lab_case_failed(p, c, err);
    precision_on_device(p, c);
    lab_say_lowered(p, c, o->x.type, program);
    precision_measure(p, c, "f64", in->reference, in->results[policy], q->shape.m * q->shape.n);
    return say_time(p, c, program, err);
}

// ---- inputs

int lab_draw(struct lab_problem *q, struct error *err)
{
    size_t xs = q->shape.m * q->shape.k, ws = q->shape.k * q->shape.n;
    double *normal = precision_alloc(q->p, xs > ws ? xs : ws, sizeof *normal, err);
    for (int i = 0; i < 2; i++)
        q->inputs[i] = (struct lab_input){.name = inputs[i], .x = precision_alloc(q->p, xs, sizeof(float), err)};
    q->w = precision_alloc(q->p, ws, sizeof *q->w, err);
    if (!normal || !q->inputs[0].x || !q->inputs[1].x || !q->w)
        return ERR_MEMORY;
    struct random_numpy r;
    random_numpy_seed(&r, q->seed);
    random_numpy_standard_normal(&r, normal, xs);
    for (size_t i = 0; i < xs; i++)
        q->inputs[0].x[i] = q->inputs[1].x[i] = (float)normal[i];
    for (size_t i = 0; i < q->shape.m; i++)
        q->inputs[1].x[i * q->shape.k] *= OUTLIER;
    random_numpy_standard_normal(&r, normal, ws);
    // In f64: dividing what is rounded already gives other weights.
    for (size_t i = 0; i < ws; i++)
        q->w[i] = (float)(normal[i] / sqrt((double)q->shape.k));
    return 0;
}

int lab_references(struct lab_problem *q, struct error *err)
{
    size_t m = q->shape.m, k = q->shape.k, n = q->shape.n;
    const double *w = precision_doubles(q->p, DT_F32, q->w, k * n, err);
    double *magnitude = precision_alloc(q->p, k * n, sizeof *magnitude, err);
    double *row = precision_alloc(q->p, m * k, sizeof *row, err);
    if (!w || !magnitude || !row)
        return ERR_MEMORY;
    for (size_t i = 0; i < k * n; i++)
        magnitude[i] = fabs(w[i]);
    for (int c = 0; c < 2; c++) {
        struct lab_input *in = &q->inputs[c];
        const double *x = precision_doubles(q->p, DT_F32, in->x, m * k, err);
        if (!x)
            return ERR_MEMORY;
        in->reference = precision_product_f64(q->p, x, w, m, k, n, err);
        for (size_t i = 0; i < m * k; i++)
            row[i] = fabs(x[i]);
        in->magnitudes = precision_product_f64(q->p, row, magnitude, m, k, n, err);
        if (!in->reference || !in->magnitudes)
            return ERR_MEMORY;
    }
    return interrupt_check("computing the reference", err);
}

static void add_inputs(struct lab_problem *q)
{
    const int64_t x[2] = {(int64_t)q->shape.m, (int64_t)q->shape.k}, w[2] = {x[1], (int64_t)q->shape.n};
    char name[NAME], source[160];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%sx, %s", q->prefix, inputs[i]);
        snprintf(source, sizeof source, "numpy default_rng(%llu) normals as f32%s", (unsigned long long)q->seed,
                 i ? ", feature 0 times 30" : "");
        precision_add_input(q->p, name, DT_F32, 2, x, q->inputs[i].x, source);
    }
    snprintf(name, sizeof name, "%sw", q->prefix);
    snprintf(source, sizeof source, "the normals that follow, divided by the root of %zu, as f32", q->shape.k);
    precision_add_input(q->p, name, DT_F32, 2, w, q->w, source);
}

static int run_problem(struct lab_problem *q, struct error *err)
{
    int rc = lab_draw(q, err);
    if (!rc)
        rc = lab_references(q, err);
    if (rc)
        return rc;
    add_inputs(q);
    for (int i = 0; i < 2 * LAB_POLICIES && !rc; i++)
        rc = run_case(q, &q->inputs[i / LAB_POLICIES], (enum lab_policy)(i % LAB_POLICIES), err);
    return rc ? rc : lab_check_problem(q, err);
}

// An error when no case of it could be run.
static int any_ran(const struct lab_problem *q, struct error *err)
{
    for (int i = 0; i < 2 * LAB_POLICIES; i++) {
        if (q->inputs[i / LAB_POLICIES].results[i % LAB_POLICIES])
            return 0;
    }
    const struct precision_case *first = q->inputs[0].cases[0];
    return error_set(err, ERR_DEVICE, first->name, "none of the products could be run: %s", first->failure);
}

// ---- picture and notes

static void picture(const struct lab_problem *q)
{
    struct precision *p = q->p;
    struct precision_figure *f = precision_figure(
        p, "operands", "What operands of fewer bits cost and save",
        "Above, the relative L2 error of the product against f64: every step of the axis is a factor. Below, the bytes "
        "of the operands as they are given to the program, scales included; outputs, temporaries and the originals are "
        "not in them, so they are no peak of memory, and fewer of them are no promise of speed.");
    struct precision_panel *errors = precision_panel(p, f, PANEL_POINTS, "Error");
    struct precision_panel *bytes = precision_panel(p, f, PANEL_STACKED, "Stored operands");
    precision_axis_x(p, errors, "operands", "1", false);
    precision_axis_y(p, errors, "relative L2 error", "1", true);
    precision_axis_x(p, bytes, "operands", "1", false);
    precision_axis_y(p, bytes, "stored", "B", false);
    const char *names[2][LAB_POLICIES];
    for (int policy = 0; policy < LAB_POLICIES; policy++) {
        precision_category(p, errors, lab_policy_name((enum lab_policy)policy));
        precision_category(p, bytes, lab_policy_name((enum lab_policy)policy));
        for (int i = 0; i < 2; i++)
            names[i][policy] = q->inputs[i].cases[policy]->name;
    }
    for (int i = 0; i < 2; i++)
        precision_series(p, errors, inputs[i], "measures/f64/rel_l2", names[i], LAB_POLICIES);
    precision_series(p, bytes, "values or codes", "stored/codes", names[0], LAB_POLICIES);
    precision_series(p, bytes, "scales", "stored/scales", names[0], LAB_POLICIES);
}

static void notes(const struct lab_problem *q)
{
    precision_note(q->p, "the reference is the f64 product of the f32 inputs: it cannot give back what these had lost "
                         "before");
    precision_note(q->p,
                   "int32 sums of products of codes up to %d cannot overflow up to %d features: %zu %s summed in %zu "
                   "part%s",
                   LAB_CODE, LAB_CHUNK, q->shape.k, q->shape.k == 1 ? "is" : "are", lab_chunks(q->shape.k),
                   lab_chunks(q->shape.k) == 1 ? "" : "s, whose sums are added in f32");
    precision_note(q->p, "quantisation, uploads and compilation lie outside the timed runs; every sample waits for its "
                         "result");
    if (q->p->options->trace)
        precision_note(q->p, "the profile holds spans of this program and its worker: how long a run was waited for, "
                             "not what the device did meanwhile");
}

// ---- the suite

static struct lab_shape asked_for(const struct precision_options *o)
{
    return (struct lab_shape){o->batch ? (size_t)o->batch : LAB_BATCH, o->features ? (size_t)o->features : LAB_FEATURES,
                              o->outputs ? (size_t)o->outputs : LAB_OUTPUTS};
}

static int check(const struct precision_options *o, struct error *err)
{
    struct lab_shape s = asked_for(o);
    if (lab_chunks(s.k) > LAB_MAX_CHUNKS)
        return error_set(err, ERR_USAGE, "--features",
                         "%zu features are more than %d times the %d that an int32 can sum", s.k, LAB_MAX_CHUNKS,
                         LAB_CHUNK);
    if (s.m > LAB_MAX_ELEMENTS / s.k || s.n > LAB_MAX_ELEMENTS / s.k || s.m > LAB_MAX_ELEMENTS / s.n)
        return error_set(err, ERR_USAGE, "lab", "%zux%zu by %zux%zu is too large: a matrix may have %d elements", s.m,
                         s.k, s.k, s.n, LAB_MAX_ELEMENTS);
    if (s.m * s.k > LAB_MAX_PRODUCTS / s.n)
        return error_set(err, ERR_USAGE, "lab",
                         "%zux%zu by %zux%zu is too much to compute in f64 on the host: batch x features x outputs may "
                         "be at most %lld",
                         s.m, s.k, s.k, s.n, LAB_MAX_PRODUCTS);
    return 0;
}

static int run(struct precision *p, struct error *err)
{
    const struct precision_options *o = p->options;
    struct lab_problem q = {.p = p,
                            .shape = asked_for(o),
                            .seed = o->seed_given ? o->seed : LAB_SEED,
                            .prefix = "",
                            .section = "operand policies",
                            .samples = o->steps ? (size_t)o->steps : 20};
    struct lab_problem changed = {.p = p,
                                  .shape = {1, 127, 65},
                                  .seed = q.seed,
                                  .prefix = "1x127x65-",
                                  .section = "another shape, 1x127 by 127x65"};
    int rc = run_problem(&q, err);
    if (!rc)
        rc = any_ran(&q, err);
    if (rc)
        return rc;
    lab_check_published(&q);
    picture(&q);
    notes(&q);
    rc = precision_write_profile(p, NULL, err);
    if (!rc && memcmp(&q.shape, &changed.shape, sizeof q.shape) != 0)
        rc = run_problem(&changed, err);
    return rc ? rc : lab_check_edges(p, err);
}

const struct precision_suite precision_suite_lab = {
    .name = "lab",
    .help = "f32, bf16 and int8 operands on balanced inputs and with an outlier",
    .uses = PRECISION_USES_SEED | PRECISION_USES_SHAPE | PRECISION_USES_STEPS | PRECISION_USES_TRACE,
    .check = check,
    .run = run,
};
