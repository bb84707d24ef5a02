// SPDX-License-Identifier: Apache-2.0
// Products whose weight comes through transposes, reshapes, copies and slices of a stack multiply the codes that the
// same product of the plain matrix multiplies: results are equal bit for bit.
#include <stdlib.h>
#include <string.h>

#include "ir/bind.h"
#include "ir/policy.h"
#include "ir_test.h"

enum { LAYERS = 3, ROWS = 4, WIDE = 32 }; // square matrices, so that layers can follow each other

static float value_of(int layer, int n, int k)
{
    return (float)((layer * 131 + n * 37 + k * 101 + n * k) % 251 - 125) / 512;
}

// "rows.L" [n, k], "columns.L" [k, n], and stacks of each.
static size_t write_checkpoint(char *file)
{
    char header[2048];
    int at = 0, offset = 0, bytes = WIDE * WIDE * 4;
    for (int way = 0; way < 2; way++) {
        const char *name = way ? "columns" : "rows";
        for (int l = 0; l < LAYERS; l++)
            at += snprintf(header + at, sizeof header - (size_t)at,
                           "%c\"%s.%d\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%d,%d]}", at ? ',' : '{',
                           name, l, WIDE, WIDE, offset + l * bytes, offset + (l + 1) * bytes);
        offset += LAYERS * bytes;
        at += snprintf(header + at, sizeof header - (size_t)at,
                       ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],\"data_offsets\":[%d,%d]}", name, LAYERS, WIDE,
                       WIDE, offset, offset + LAYERS * bytes);
        offset += LAYERS * bytes;
    }
    at += snprintf(header + at, sizeof header - (size_t)at, "}");
    uint64_t length = (uint64_t)at;
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    float *out = (float *)(void *)malloc((size_t)offset);
    if (!out)
        return 0;
    for (int i = 0; i < offset / 4; i++) {
        int part = i / (WIDE * WIDE), row = i / WIDE % WIDE, column = i % WIDE;
        bool columns = part >= 2 * LAYERS;
        out[i] = value_of(part % LAYERS, columns ? column : row, columns ? row : column);
    }
    memcpy(file + 8 + length, out, (size_t)offset);
    free(out);
    return 8 + length + (size_t)offset;
}

static int dot(struct builder *b, int x, int w, int x_contract, int w_contract)
{
    return builder_store(b, build_dot(b, x, w, 0, NULL, NULL, 1, &x_contract, &w_contract, DT_F32));
}

static const int turn[] = {1, 0};
static const struct shape matrix = {.dtype = DT_F32, .rank = 2, .dims = {WIDE, WIDE}};
static const struct shape stack = {.dtype = DT_F32, .rank = 3, .dims = {LAYERS, WIDE, WIDE}};

enum way {
    PLAIN,      // x by [n, k]
    TRANSPOSED, // x @ w.T
    COLUMNS,    // x by [k, n]
    HEADS,      // [k, n] split to [k, heads, n / heads], and put together again behind the product
    TURNED_HEADS,
    COPIES, // the same weight for every row of a batch
    FIRST,  // the weight first
    SCALAR_WAYS,
    UNROLLED = SCALAR_WAYS, // three layers, a tensor each
    SLICED,                 // out of a stack, by number
    LOOP,
    LOOP_COLUMNS,
    EXPERTS, // a batch product of one layer each, on rows of their own: the unrolled product of each
    GATHERED,
    WAYS
};

static int heads(struct builder *b, int x, int w, bool turned)
{
    const int64_t split[] = {WIDE, 4, WIDE / 4}, flat[] = {ROWS, WIDE};
    const int order[] = {2, 1, 0}, back[] = {0, 2, 1};
    w = build_reshape(b, w, 3, split);
    if (!turned)
        return build_reshape(b, dot(b, x, w, 1, 0), 2, flat);
    int y = dot(b, x, build_transpose(b, w, order), 1, 2);
    return build_reshape(b, build_transpose(b, y, back), 2, flat);
}

static int copies(struct builder *b, int x, int w)
{
    const int dims[] = {1, 2}, zero = 0, one = 1;
    const struct shape many = {.dtype = DT_F32, .rank = 3, .dims = {ROWS, WIDE, WIDE}};
    int y = build_dot(b, build_reshape(b, x, 3, (int64_t[]){ROWS, 1, WIDE}), build_broadcast(b, w, many, dims), 1,
                      &zero, &zero, 1, (int[]){2}, &one, DT_F32);
    return build_reshape(b, builder_store(b, y), 2, (int64_t[]){ROWS, WIDE});
}

static int one_layer(struct builder *b, int w, int index)
{
    int zero = build_splat(b, SHAPE(DT_S32), 0);
    const int starts[] = {index, zero, zero};
    return build_reshape(b, build_dynamic_slice(b, w, starts, (int64_t[]){1, WIDE, WIDE}), 2, matrix.dims);
}

static int loop(struct builder *b, int x, bool columns)
{
    int w = build_weight(b, columns ? "columns" : "rows", stack);
    int condition = builder_region(b), body = builder_region(b);
    struct shape count = SHAPE(DT_S32), rows = *builder_shape(b, x);
    int at = build_region_parameter(b, condition, count);
    build_region_parameter(b, condition, rows);
    b->region = condition;
    int go_on = build_compare(b, CMP_LT, at, build_splat(b, count, LAYERS));
    builder_region_results(b, condition, &go_on, 1);
    at = build_region_parameter(b, body, count);
    int h = build_region_parameter(b, body, rows);
    b->region = body;
    int layer = one_layer(b, w, at);
    h = columns ? dot(b, h, layer, 1, 0) : dot(b, h, build_transpose(b, layer, turn), 1, 0);
    const int results[] = {build_binary_scalar(b, OP_ADD, at, 1), h};
    builder_region_results(b, body, results, 2);
    b->region = 0;
    const int state[] = {build_splat(b, count, 0), x};
    return build_element(b, build_while(b, state, 2, condition, body, LAYERS), 1);
}

// Experts: [LAYERS, ROWS, k] by [LAYERS, k, n].
static int experts(struct builder *b, int x, bool gathered)
{
    const int zero = 0;
    int w = build_weight(b, "columns", stack);
    const struct shape many = {.dtype = DT_F32, .rank = 3, .dims = {LAYERS, ROWS, WIDE}};
    if (gathered)
        w = build_gather(b, w, build_iota(b, SHAPE(DT_S32, LAYERS), 0));
    x = build_broadcast(b, x, many, (int[]){1, 2});
    return builder_store(b, build_dot(b, x, w, 1, &zero, &zero, 1, (int[]){2}, (int[]){1}, DT_F32));
}

static int make(struct builder *b, int x, enum way way)
{
    char name[16];
    switch (way) {
    case PLAIN:
        return dot(b, x, build_weight(b, "rows.0", matrix), 1, 1);
    case TRANSPOSED:
        return dot(b, x, build_transpose(b, build_weight(b, "rows.0", matrix), turn), 1, 0);
    case COLUMNS:
        return dot(b, x, build_weight(b, "columns.0", matrix), 1, 0);
    case HEADS:
    case TURNED_HEADS:
        return heads(b, x, build_weight(b, "columns.0", matrix), way == TURNED_HEADS);
    case COPIES:
        return copies(b, x, build_weight(b, "columns.0", matrix));
    case FIRST:
        return build_transpose(b, dot(b, build_weight(b, "columns.0", matrix), x, 0, 1), turn);
    case LOOP:
    case LOOP_COLUMNS:
        return loop(b, x, way == LOOP_COLUMNS);
    case EXPERTS:
    case GATHERED:
        return experts(b, x, way == GATHERED);
    default:
        break;
    }
    int w = way == SLICED ? build_weight(b, "rows", stack) : -1;
    for (int l = 0; l < LAYERS; l++) {
        snprintf(name, sizeof name, "rows.%d", l);
        int layer = way == UNROLLED ? build_weight(b, name, matrix)
                                    : build_reshape(b, build_slice_axis(b, w, 0, l, l + 1), 2, matrix.dims);
        x = dot(b, x, layer, 1, 1);
    }
    return x;
}

struct lab {
    struct rig r;
    struct arena arena;
    struct checkpoint c;
    float x[ROWS * WIDE];
};

// What the program gives under the policy, which the caller frees (NULL after a check that failed), and the bytes
// stored.
static float *run(struct lab *l, const char *spec, enum way way, int64_t *weight_bytes)
{
    struct module plain, m;
    struct builder b;
    struct policy p;
    struct error err = {0};
    const void *inputs[] = {l->x};
    void *out = NULL;
    int64_t scales;
    module_init(&plain, &l->arena, "plain");
    builder_init(&b, &plain);
    builder_scope(&b, "product", "product");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, ROWS, WIDE), NULL);
    build_result(&b, "y", make(&b, x, way));
    module_init(&m, &l->arena, spec);
    bool made = CHECK_INT(builder_finish(&b, &err), 0) && CHECK_INT(policy_parse(&p, spec, &err), 0) &&
                CHECK_INT(module_apply_policy(&plain, &p, false, &m, &err), 0);
    if (!made)
        return NULL;
    CHECK_INT(module_activations(&plain, NULL, 0), way == UNROLLED || way == SLICED ? LAYERS : 1);
    module_weight_bytes(&m, weight_bytes, &scales);
    *weight_bytes += scales;
    return CHECK(ir_run_bound(&l->r, &l->c, &m, inputs, &out)) ? out : NULL;
}

static const char *const specs[] = {
    "w8a8", "w8a16", "w4a16", "fp8", "w=int8,a=uint8/row", "bf16", "w=int8/tensor,a=int8/row"};

TEST(ir_policy_views_plugin_equal_the_plain_product)
{
    static char file[8 + 2048 + 4 * LAYERS * WIDE * WIDE * 4];
    struct lab l;
    struct error err = {0};
    arena_init(&l.arena);
    REQUIRE(rig_open(&l.r, pjrt_test_plugin(false), 1));
    REQUIRE_OK(checkpoint_open_memory(&l.c, file, write_checkpoint(file), "weights", &err), &err);
    for (int i = 0; i < ROWS * WIDE; i++)
        l.x[i] = (float)((i * 29 + i / WIDE) % 255 - 127) / 64;
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        float *want = NULL;
        int64_t want_bytes = 0;
        for (enum way way = PLAIN; way < WAYS; way++) {
            int64_t bytes;
            float *got = run(&l, specs[s], way, &bytes);
            REQUIRE(got);
            bool first = way == PLAIN || way == UNROLLED;
            if (first) {
                free(want);
                want = got;
                want_bytes = bytes;
                continue;
            }
            CHECK_INT(bytes, want_bytes);
            size_t n = way >= EXPERTS ? 0 : ROWS * WIDE;
            if (!CHECK(memcmp(got, want, n * sizeof *got) == 0))
                printf("  %s, way %d: %g, not %g\n", specs[s], way, (double)got[0], (double)want[0]);
            if (way >= EXPERTS) { // the first expert is the plain product
                float *plain = run(&l, specs[s], PLAIN, &bytes);
                REQUIRE(plain);
                if (!CHECK(memcmp(got, plain, ROWS * WIDE * sizeof *got) == 0))
                    printf("  %s, way %d: %g, not %g\n", specs[s], way, (double)got[0], (double)plain[0]);
                free(plain);
            }
            free(got);
        }
        free(want);
    }
    checkpoint_close(&l.c);
    arena_release(&l.arena);
    rig_close(&l.r);
}
