// SPDX-License-Identifier: Apache-2.0
#include "lab/precision_tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "io/checkpoint.h"
#include "io/ggml.h"
#include "lab/quantize_file.h"
#include "lab/storage.h"
#include "num/convert.h"
#include "num/random.h"

#define MAX_ELEMENTS (1ull << 28) // 1 GiB of f32, and the same again for what comes back
#define MAX_POLICIES 64
#define BATCH        16
#define F64          "f64"

// One policy and what it came to.
struct trial {
    struct storage weights, activations;
    char activations_text[64];
    bool has_activations;
    struct precision_case *stored, *product, *both;
};

struct precision_tensor {
    struct checkpoint checkpoint;
    bool open;
    const struct tensor_view *view;
    char *file, *name; // "FILE:NAME" cut in two
    size_t rows, columns, batch;
    struct trial trials[MAX_POLICIES];
    size_t n;
    struct threads *threads;
    float *x, *back; // [rows, columns]
};

// What is tried when nothing is asked for: one of each kind, from 16 bits down to 4.
static const char *const selection[] = {"bf16",  "f16",   "w8a16", "w=int8/tensor", "fp8",
                                        "mxfp8", "mxfp6", "w4a16", "mxfp4",         "nvfp4"};

// ---- what was asked for

// The last ':' that a file stands before; a name may hold one, too.
static int split(struct precision_tensor *t, const char *text, struct error *err)
{
    char *colon = NULL;
    t->file = strdup(text);
    if (!t->file)
        return error_set(err, ERR_MEMORY, "--tensor", "no memory for the name");
    for (char *c = strrchr(t->file, ':'); c && !colon;) {
        *c = '\0';
        if (file_exists(t->file) || dir_exists(t->file)) {
            colon = c;
            break;
        }
        char *before = strrchr(t->file, ':');
        *c = ':';
        c = before;
    }
    if (!colon && !(colon = strrchr(t->file, ':')))
        return error_set(err, ERR_USAGE, "--tensor", "give FILE:NAME, as in model.safetensors:encoder.weight");
    *colon = '\0';
    t->name = colon + 1;
    return *t->name && *t->file
               ? 0
               : error_set(err, ERR_USAGE, "--tensor", "give FILE:NAME, as in model.safetensors:encoder.weight");
}

static int find(struct precision_tensor *t, struct error *err)
{
    int rc = checkpoint_open(&t->checkpoint, t->file, err);
    if (rc)
        return rc;
    t->open = true;
    rc = checkpoint_require(&t->checkpoint, t->name, &t->view, err);
    if (rc)
        return rc;
    quantize_as_matrix(t->view, &t->rows, &t->columns);
    if (t->view->elements == 0)
        return error_set(err, ERR_INPUT, t->name, "is empty");
    if (t->view->elements > MAX_ELEMENTS)
        return error_set(err, ERR_INPUT, t->name, "has %zu elements; at most %llu can be tried", t->view->elements,
                         MAX_ELEMENTS);
    if (t->view->blocks ? !t->view->blocks->decode : !convert_possible(DT_F32, t->view->dtype))
        return error_set(err, ERR_INPUT, t->name, "is of type %s, whose values cannot be read as numbers",
                         tensor_type_name(t->view));
    return 0;
}

static int read_policies(struct precision_tensor *t, const struct precision_options *o, struct error *err)
{
    const char *const *list = o->n_policies ? o->policies : selection;
    size_t n = o->n_policies ? o->n_policies : sizeof selection / sizeof *selection;
    if (n > MAX_POLICIES)
        return error_set(err, ERR_USAGE, "--policy", "at most %d", MAX_POLICIES);
    for (size_t i = 0; i < n; i++) {
        struct trial *trial = &t->trials[i];
        for (size_t k = 0; k < i; k++) {
            if (strcmp(list[i], list[k]) == 0)
                return error_set(err, ERR_USAGE, "--policy", "%s was given twice", list[i]);
        }
        int rc = storage_parse(&trial->weights, list[i], err);
        trial->has_activations = !rc && trial->weights.has_activations;
        if (trial->has_activations)
            rc = storage_parse_activations(&trial->weights, &trial->activations, trial->activations_text, err);
        if (rc)
            return rc;
        t->n++;
    }
    return 0;
}

int precision_tensor_open(struct precision_tensor **out, const struct precision_options *o, struct error *err)
{
    struct precision_tensor *t = calloc(1, sizeof *t);
    *out = t;
    if (!t)
        return error_set(err, ERR_MEMORY, "--tensor", "no memory");
    t->batch = o->batch ? (size_t)o->batch : BATCH;
    int rc = read_policies(t, o, err);
    if (!rc)
        rc = split(t, o->tensor, err);
    if (!rc)
        rc = find(t, err);
    if (!rc)
        rc = threads_new(&t->threads, (size_t)o->worker.threads, err);
    return rc;
}

void precision_tensor_close(struct precision_tensor *t)
{
    if (!t)
        return;
    if (t->open)
        checkpoint_close(&t->checkpoint);
    threads_free(t->threads);
    free(t->file);
    free(t->x);
    free(t->back);
    free(t);
}

void precision_tensor_config(const struct precision_tensor *t, struct jw *w)
{
    jw_object(w);
    jw_kv_string(w, "file", t->file);
    jw_kv_string(w, "name", t->name);
    jw_kv_string(w, "type", tensor_type_name(t->view));
    jw_key(w, "shape");
    jw_array(w);
    for (int i = 0; i < t->view->rank; i++)
        jw_int(w, t->view->dims[i]);
    jw_array_end(w);
    jw_kv_uint(w, "batch", t->batch);
    jw_key(w, "policies");
    jw_array(w);
    for (size_t i = 0; i < t->n; i++)
        jw_string(w, t->trials[i].weights.text);
    jw_array_end(w);
    jw_object_end(w);
}

// ---- the tensor itself

static void describe_tensor(struct precision *p, const struct precision_tensor *t)
{
    double low = INFINITY, high = -INFINITY, sum = 0, squares = 0, zeros = 0, nonfinite = 0, n = 0;
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        double v = (double)t->x[i];
        if (!isfinite(v)) {
            nonfinite++;
            continue;
        }
        low = fmin(low, v);
        high = fmax(high, v);
        sum += v;
        squares += v * v;
        zeros += v == 0;
        n++;
    }
    double rms = sqrt(squares / n), amax = fmax(fabs(low), fabs(high));
    const struct {
        const char *name, *unit;
        double value;
    } columns[] = {{"rows", "1", (double)t->rows},
                   {"columns", "1", (double)t->columns},
                   {"stored", "B", (double)t->view->bytes},
                   {"smallest", "1", n > 0 ? low : NAN},
                   {"largest", "1", n > 0 ? high : NAN},
                   {"mean", "1", sum / n},
                   {"root mean square", "1", rms},
                   {"outlier ratio", "1", amax / rms},
                   {"zeros", "1", zeros},
                   {"not finite", "1", nonfinite}};
    struct precision_table *table = precision_table(p, "tensor", "The tensor");
    precision_column(p, table, "type", NULL, ORIGIN_SHEET, NULL);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        precision_column(p, table, columns[i].name, columns[i].unit, ORIGIN_DERIVED, "over its values as f32");
    precision_cell_text(p, table, "%s", tensor_type_name(t->view));
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        precision_cell_number(p, table, columns[i].value);
}

static int load(struct precision *p, struct precision_tensor *t, struct error *err)
{
    char source[512];
    size_t n = t->rows * t->columns;
    t->x = malloc(n * sizeof *t->x);
    t->back = malloc(n * sizeof *t->back);
    if (!t->x || !t->back)
        return error_set(err, ERR_MEMORY, t->name, "no memory for %zu elements twice", n);
    int rc = checkpoint_read_as(&t->checkpoint, t->view, DT_F32, t->x, err);
    if (rc)
        return rc;
    snprintf(source, sizeof source, "%.400s, stored as %.40s, as f32", t->file, tensor_type_name(t->view));
    precision_add_input(p, t->name, DT_F32, t->view->rank, t->view->dims, t->x, source);
    describe_tensor(p, t);
    return 0;
}

// ---- storing it

static void worst_row(struct precision *p, struct precision_case *c, const struct precision_tensor *t)
{
    double worst = -1;
    size_t at = 0;
    for (size_t i = 0; i < t->rows; i++) {
        double error2 = 0, reference2 = 0;
        for (size_t k = i * t->columns; k < (i + 1) * t->columns; k++) {
            double v = (double)t->x[k], d = (double)t->back[k] - v;
            error2 += d * d;
            reference2 += v * v;
        }
        double rel = reference2 > 0 ? sqrt(error2 / reference2) : 0;
        if (isfinite(error2) && isfinite(reference2) && rel > worst) {
            worst = rel;
            at = i;
        }
    }
    if (worst < 0) {
        precision_number(p, c, "worst row",
                         quantity_make(NAN, "count", ORIGIN_DERIVED, "no row came back with finite values alone"));
        return;
    }
    precision_number(p, c, "worst row",
                     quantity_make((double)at, "count", ORIGIN_DERIVED, "the row of largest rel L2"));
    precision_number(p, c, "its rel L2", quantity_make(worst, "1", ORIGIN_DERIVED, "||x' - x|| / ||x|| of that row"));
}

static void store(struct precision *p, struct precision_tensor *t, struct trial *trial, bool *failed)
{
    struct storage_result result;
    struct error why = {0};
    struct str rule;
    struct precision_case *c = precision_case(p, "the tensor", trial->weights.text, NULL);
    trial->stored = c;
    c->w = trial->weights.text;
    *failed = storage_apply(&trial->weights, t->rows, t->columns, t->x, t->back, &result, t->name, &why) != 0;
    if (*failed) {
        precision_fail(p, c, "%s", why.message);
        return;
    }
    precision_measure_f32(p, c, "its values as f32", t->x, t->back, t->rows * t->columns);
    c->code_bytes = (double)result.code_bytes;
    c->scale_bytes = (double)result.scale_bytes;
    c->clipped = (int64_t)result.clipped;
    double elements = (double)(t->rows * t->columns);
    precision_number(p, c, "bits",
                     quantity_make(8 * (c->code_bytes + c->scale_bytes) / elements, "1", ORIGIN_DERIVED,
                                   "bits per element, scales included"));
    precision_number(p, c, "to zero",
                     quantity_make((double)result.flushed, "count", ORIGIN_DERIVED, "not 0, and 0 afterwards"));
    worst_row(p, c, t);
    str_init(&rule);
    storage_describe(&trial->weights, &rule);
    precision_text(p, c, "rule", "%s", str_text(&rule));
    str_release(&rule);
}

// ---- its product

// y = x W^T and what storing W does to it: e = x (W' - W)^T, bounded by |x| |W' - W|^T. All in f64: [batch, rows].
struct product {
    const struct precision_tensor *t;
    const double *x;        // [batch, columns]
    const double *x_stored; // x as its policy stores it; NULL: as it is
    double *y, *error, *bound;
};

static void product_rows(void *context, size_t from, size_t to)
{
    const struct product *q = context;
    size_t n = q->t->columns;
    for (size_t i = from; i < to; i++) {
        const float *w = q->t->x + i * n, *back = q->t->back + i * n;
        for (size_t b = 0; b < q->t->batch; b++) {
            const double *x = q->x + b * n, *stored = q->x_stored ? q->x_stored + b * n : x;
            double y = 0, error = 0, bound = 0;
            for (size_t k = 0; k < n; k++) {
                double exact = x[k] * (double)w[k];
                double d = q->x_stored ? stored[k] * (double)back[k] - exact : x[k] * ((double)back[k] - (double)w[k]);
                y += exact;
                error += d;
                bound += fabs(d);
            }
            q->y[b * q->t->rows + i] = y;
            q->error[b * q->t->rows + i] = error;
            q->bound[b * q->t->rows + i] = bound;
        }
    }
}

// Returns how many outputs are beyond their bound: none, if the arithmetic here is right.
static size_t compare(struct precision *p, struct precision_case *c, const struct product *q, double *scratch)
{
    size_t n = q->t->batch * q->t->rows, broken = 0;
    double most = 0, share = 0;
    for (size_t i = 0; i < n; i++) {
        scratch[i] = q->y[i] + q->error[i];
        most = fmax(most, q->bound[i]);
        share = fmax(share, q->bound[i] > 0 ? fabs(q->error[i]) / q->bound[i] : 0);
        // The sums of f64 lose some 1e-16 for each of the terms.
        broken += fabs(q->error[i]) > q->bound[i] * (1 + 1e-15 * (double)q->t->columns);
    }
    precision_measure(p, c, F64, q->y, scratch, n);
    precision_number(p, c, "bound", quantity_make(most, "1", ORIGIN_DERIVED, "the largest sum |x||W' - W|"));
    precision_number(p, c, "of it",
                     quantity_make(share, "1", ORIGIN_DERIVED, "the largest |error| over its own bound"));
    return broken;
}

struct batch {
    float *x, *back;
    double *wide, *stored;
    struct product product;
    double *scratch;
    size_t broken; // outputs beyond their bound, of all policies
};

static int make_batch(struct precision *p, struct precision_tensor *t, struct batch *b, struct error *err)
{
    size_t n = t->batch * t->columns, outputs = t->batch * t->rows;
    struct random_numpy stream;
    char source[128];
    memset(b, 0, sizeof *b);
    b->x = precision_alloc(p, n, sizeof *b->x, err);
    b->back = precision_alloc(p, n, sizeof *b->back, err);
    double *draws = precision_alloc(p, n, sizeof *draws, err);
    b->wide = draws;
    b->stored = precision_alloc(p, n, sizeof *b->stored, err);
    b->scratch = precision_alloc(p, outputs, sizeof(double), err);
    b->product = (struct product){.t = t,
                                  .x = b->wide,
                                  .y = precision_alloc(p, outputs, sizeof(double), err),
                                  .error = precision_alloc(p, outputs, sizeof(double), err),
                                  .bound = precision_alloc(p, outputs, sizeof(double), err)};
    if (p->error.code)
        return p->error.code;
    random_numpy_seed(&stream, p->options->seed);
    random_numpy_standard_normal(&stream, draws, n);
    for (size_t i = 0; i < n; i++) {
        b->x[i] = (float)draws[i];
        b->wide[i] = (double)b->x[i];
    }
    snprintf(source, sizeof source, "numpy default_rng(%" PRIu64 ").standard_normal, row by row, as f32",
             p->options->seed);
    precision_add_input(p, "x", DT_F32, 2, (int64_t[]){(int64_t)t->batch, (int64_t)t->columns}, b->x, source);
    return 0;
}

static void multiply(struct precision *p, struct precision_tensor *t, struct trial *trial, struct batch *b)
{
    char name[512];
    snprintf(name, sizeof name, "product, %.400s", trial->weights.text);
    struct precision_case *c = precision_case(p, "its product with normal inputs", name, NULL);
    trial->product = c;
    c->label = c->w = trial->weights.text;
    c->acc = c->out = "f64";
    b->product.x_stored = NULL;
    threads_for(t->threads, t->rows, 4, product_rows, &b->product);
    b->broken += compare(p, c, &b->product, b->scratch);
}

static void multiply_both(struct precision *p, struct precision_tensor *t, struct trial *trial, struct batch *b)
{
    char name[512];
    struct storage_result result;
    struct error why = {0};
    size_t n = t->batch * t->columns;
    snprintf(name, sizeof name, "%.400s, a=%s", trial->weights.text, trial->activations_text);
    struct precision_case *c = precision_case(p, "the same with the inputs stored, too", name, NULL);
    trial->both = c;
    c->w = trial->weights.text;
    c->a = trial->activations_text;
    c->acc = c->out = "f64";
    if (storage_apply(&trial->activations, t->batch, t->columns, b->x, b->back, &result, "x", &why)) {
        precision_fail(p, c, "%s", why.message);
        return;
    }
    for (size_t i = 0; i < n; i++)
        b->stored[i] = (double)b->back[i];
    b->product.x_stored = b->stored;
    threads_for(t->threads, t->rows, 4, product_rows, &b->product);
    for (size_t i = 0; i < t->batch * t->rows; i++)
        b->scratch[i] = b->product.y[i] + b->product.error[i];
    precision_measure(p, c, F64, b->product.y, b->scratch, t->batch * t->rows);
    c->clipped = (int64_t)result.clipped;
}

// ---- the picture

static void picture(struct precision *p, const struct precision_tensor *t)
{
    const char *stored[MAX_POLICIES], *product[MAX_POLICIES], *both[MAX_POLICIES];
    struct precision_figure *f =
        precision_figure(p, "policies", "Bytes and errors of one tensor",
                         "Errors of the tensor itself, and of its product with normal inputs. Storing the inputs, too, "
                         "is shown where the policy says how.");
    struct precision_panel *errors = precision_panel(p, f, PANEL_POINTS, "relative L2 error");
    struct precision_panel *bytes = precision_panel(p, f, PANEL_STACKED, "stored bytes");
    precision_axis_y(p, errors, "relative L2", "1", true);
    precision_axis_y(p, bytes, "stored", "B", false);
    bool any = false;
    for (size_t i = 0; i < t->n; i++) {
        const struct trial *trial = &t->trials[i];
        precision_category(p, errors, trial->weights.text);
        precision_category(p, bytes, trial->weights.text);
        stored[i] = trial->stored ? trial->stored->name : NULL;
        product[i] = trial->product ? trial->product->name : NULL;
        both[i] = trial->both ? trial->both->name : NULL;
        any |= both[i] != NULL;
    }
    precision_series(p, errors, "the tensor", "measures/its values as f32/rel_l2", stored, t->n);
    precision_series(p, errors, "its product", "measures/" F64 "/rel_l2", product, t->n);
    if (any)
        precision_series(p, errors, "its product, inputs stored too", "measures/" F64 "/rel_l2", both, t->n);
    precision_series(p, bytes, "values or codes", "stored/codes", stored, t->n);
    precision_series(p, bytes, "scales and zero points", "stored/scales", stored, t->n);
}

static int run(struct precision *p, struct error *err)
{
    struct precision_tensor *t = p->tensor;
    struct batch batch;
    int rc = load(p, t, err);
    if (!rc)
        rc = make_batch(p, t, &batch, err);
    for (size_t i = 0; i < t->n && !rc; i++) {
        struct trial *trial = &t->trials[i];
        bool failed;
        progress_report(p->progress, trial->weights.text, i, t->n);
        rc = interrupt_check("trying policies", err);
        if (rc)
            break;
        store(p, t, trial, &failed);
        if (failed)
            continue;
        multiply(p, t, trial, &batch);
        if (trial->has_activations)
            multiply_both(p, t, trial, &batch);
    }
    if (rc)
        return rc;
    picture(p, t);
    precision_check_count(p, "bound", "outputs whose error is beyond sum |x||W' - W|, under any policy", 0,
                          (int64_t)batch.broken);
    precision_note(p, "rows are output channels, columns are contracted: the tensor is seen as %zu x %zu", t->rows,
                   t->columns);
    precision_note(p,
                   "products are formed in f64, so that the error is that of what is stored; fields of a policy other "
                   "than w and a are not looked at");
    precision_note(p, "normal inputs have no outliers of their own: the activations of a model may do worse");
    return 0;
}

const struct precision_suite precision_suite_tensor = {
    .name = "tensor",
    .help = "a matrix of your own under any policies: the tensor, and its product with normal inputs",
    .uses = PRECISION_USES_SEED | PRECISION_USES_BATCH,
    .run = run,
};
