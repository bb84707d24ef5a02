// SPDX-License-Identifier: Apache-2.0
// Calibration: texts that may not be in both files, and ranges against the activations themselves.
#include "lab/ranges.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "models/bert.h"
#include "pjrt_test.h"
#include "test.h"
#include "tiny_model.h"

static char model_dir[512];

static bool make_model(void)
{
    struct error e = {0};
    struct tiny_options o = TINY_DEFAULTS;
    snprintf(model_dir, sizeof model_dir, "%s/model", test_dir());
    o.layers = 1;
    if (tiny_model_write(model_dir, &o, &e) == 0)
        return true;
    test_fail_error(__FILE__, __LINE__, "tiny_model_write", e.where, e.message);
    return false;
}

static const char *write_texts(const char *name, const char *text, char path[512])
{
    struct error e = {0};
    snprintf(path, 512, "%s/%s", test_dir(), name);
    if (file_write(path, text, strlen(text), &e) != 0)
        test_fail_error(__FILE__, __LINE__, "file_write", e.where, e.message);
    return path;
}

struct bench {
    struct workload w;
    struct ranges r;
    struct arena arena;
    struct module f32;
    char texts[512], others[512];
};

static bool bench_open(struct bench *b, const char *texts, const char *others, struct error *err)
{
    memset(b, 0, sizeof *b);
    struct workload_options o = {
        .directory = model_dir, .text_path = write_texts("texts", texts, b->texts), .batch = 2, .seq = 8};
    if (workload_open(&b->w, &o, err))
        return false;
    arena_init(&b->arena);
    module_init(&b->f32, &b->arena, "f32");
    struct bert_build how = {.batch = b->w.batch, .seq = b->w.seq, .first_layer = -1};
    return bert_module(&b->w.bert, &how, &b->f32, err) == 0 &&
           ranges_open(&b->r, &b->w, write_texts("others", others, b->others), err) == 0;
}

static void bench_close(struct bench *b)
{
    ranges_close(&b->r);
    workload_close(&b->w);
    arena_release(&b->arena);
}

TEST(lab_ranges_refuse_a_text_that_is_judged)
{
    static const struct {
        const char *texts, *others, *first, *second; // the places that the message names, NULL: no overlap
    } cases[] = {
        {"a b\nb c\nc d\n", "a\nb\n\nc\n", NULL, NULL},
        {"a b\nb c\nc d\n", "x\n\n b c \r\ny", "texts:2", "others:3"}, // blanks at the ends are not the text
        {"a b\n\nb c\nc d\n", "c d\na b", "texts:4", "others:1"},
        {"a b\nb c\nc d\n", "A b\na  b\n", NULL, NULL}, // another text, though the tokenizer may make the same of it
    };
    REQUIRE(make_model());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench b;
        struct error err = {0};
        bool open = bench_open(&b, cases[i].texts, cases[i].others, &err);
        char all[2000];
        snprintf(all, sizeof all, "%s: %s", err.where, err.message);
        if (!CHECK(open == !cases[i].first) ||
            (cases[i].first && (!CHECK_INT(err.code, ERR_INPUT) || !CHECK(strstr(all, cases[i].first)) ||
                                !CHECK(strstr(all, cases[i].second)))))
            printf("  case %zu: %s\n", i, all);
        bench_close(&b);
    }
}

// The activations themselves, in the order of module_activations, of the real tokens of all batches.
struct values {
    float *v;
    size_t n;
};

static void collect(struct bench *b, const struct worker_options *worker, struct values *out, int n)
{
    struct error err = {0};
    struct activation at[16];
    REQUIRE(module_activations(&b->f32, at, 16) == n);
    for (int i = 0; i < n; i++) { // one program each: the result is the operand of the product
        struct module m = b->f32;
        struct subject s;
        int operand = m.instructions[at[i].instruction].operands[0];
        const char *name = "x";
        m.results = &operand;
        m.result_names = &name;
        m.n_results = 1;
        REQUIRE(at[i].masked); // every one of this model is of tokens
        size_t rows = (size_t)at[i].rows, columns = (size_t)at[i].columns;
        float *raw = malloc(rows * columns * sizeof *raw);
        out[i].v = malloc(b->r.workload.n_batches * rows * columns * sizeof *raw);
        out[i].n = 0;
        REQUIRE(raw && out[i].v);
        REQUIRE_OK(subject_open_bound(&s, &b->r.workload, &m, "x", worker, &err), &err);
        for (size_t k = 0; k < b->r.workload.n_batches; k++) {
            REQUIRE_OK(subject_set_batch(&s, &b->r.workload, k, &err), &err);
            REQUIRE_OK(subject_run(&s, raw, NULL, &err), &err);
            for (size_t r = 0; r < rows; r++) {
                size_t text = k * 2 + r / 8;
                if (text < b->r.workload.n_texts && b->r.workload.mask[(k * 2) * 8 + r]) {
                    memcpy(out[i].v + out[i].n, raw + r * columns, columns * sizeof *raw);
                    out[i].n += columns;
                }
            }
        }
        subject_close(&s);
        free(raw);
    }
}

static size_t beyond(const struct values *x, double high, double low)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        n += (double)x->v[i] > high || (double)x->v[i] < low;
    return n;
}

// A range of a percentile is the first of 17^3 steps up to the extreme that leaves no more than the rest outside; a
// step further in leaves more.
TEST(lab_ranges_plugin_are_those_of_the_activations)
{
    static const char *const texts[] = {"w8a8-static", "w=int8,a=int8/tensor:static:p99",
                                        "w=int8,a=uint8/tensor:static:p90", "w8a8"};
    struct bench b;
    struct error err = {0};
    struct policy p[4], *list[4];
    struct values x[4];
    struct worker_options worker = {.device = "cpu", .plugin_path = pjrt_test_plugin(false)};
    REQUIRE(make_model());
    REQUIRE(bench_open(&b, "a b\nb c\nc d\n", "the a\nq r s t u v\nthe the\nz\ne f the g", &err));
    for (int i = 0; i < 4; i++) {
        REQUIRE_OK(policy_parse(&p[i], texts[i], &err), &err);
        list[i] = &p[i];
    }
    REQUIRE_OK(ranges_measure(&b.r, &b.f32, &worker, list, 4, NULL, &b.arena, &err), &err);
    int n = b.r.n;
    CHECK_INT(n, 4);
    CHECK(p[3].ranges == NULL);
    collect(&b, &worker, x, n);
    for (int i = 0; i < n; i++) {
        double low = 0, high = 0;
        for (size_t k = 0; k < x[i].n; k++) {
            low = fmin(low, (double)x[i].v[k]);
            high = fmax(high, (double)x[i].v[k]);
        }
        CHECK_INT(b.r.elements[i], (int64_t)x[i].n);
        CHECK((double)p[0].ranges[i].low == low && (double)p[0].ranges[i].high == high);
        double most = fmax(high, -low), step = most / 4913 * 1.001, top = (double)p[1].ranges[i].high;
        CHECK(p[1].ranges[i].low == -p[1].ranges[i].high && top <= most);
        CHECK((double)beyond(&x[i], top, -top) <= 0.01 * (double)x[i].n);
        CHECK((double)beyond(&x[i], top - step, step - top) > 0.01 * (double)x[i].n);
        const struct activation_range *ends = &p[2].ranges[i];
        CHECK((double)beyond(&x[i], (double)ends->high, -INFINITY) <= 0.1 * (double)x[i].n);
        CHECK((double)beyond(&x[i], INFINITY, (double)ends->low) <= 0.1 * (double)x[i].n);
        CHECK((double)beyond(&x[i], (double)ends->high - high / 4913 * 1.001, -INFINITY) > 0.1 * (double)x[i].n);
        CHECK((double)beyond(&x[i], INFINITY, (double)ends->low - low / 4913 * 1.001) > 0.1 * (double)x[i].n);
        free(x[i].v);
    }
    bench_close(&b);
}

// Static scales that nobody made are refused where they would be NaN, with the cure.
TEST(lab_ranges_plugin_are_needed)
{
    struct bench b;
    struct error err = {0};
    struct policy p;
    struct subject s;
    struct worker_options worker = {.device = "cpu", .plugin_path = pjrt_test_plugin(false)};
    REQUIRE(make_model());
    REQUIRE(bench_open(&b, "a b\nb c\nc d\n", "the a\n", &err));
    REQUIRE_OK(policy_parse(&p, "w8a8-static", &err), &err);
    struct subject_options o = {.worker = worker, .module = &b.f32, .policy = &p, .label = "w8a8-static"};
    CHECK_INT(subject_open(&s, &b.w, &o, &err), ERR_USAGE);
    CHECK(strstr(err.message, "assay qualify --calibrate FILE"));
    subject_close(&s);
    error_clear(&err);
    CHECK_INT(subject_open_module(&s, &b.f32, &p, "w8a8-static", &worker, &err), ERR_USAGE);
    subject_close(&s);
    bench_close(&b);
}
