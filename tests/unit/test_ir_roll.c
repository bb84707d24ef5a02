// SPDX-License-Identifier: Apache-2.0
// Layers as loops: what becomes one, what does not, and that weights, results and prices stay what they were.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/cost.h"
#include "ir/policy.h"
#include "ir/roll.h"
#include "ir_test.h"
#include "models/flux2.h"

// ---- klein-4B, in full size

struct forms {
    struct arena arena;
    struct module written, loop;
    struct rolled rolled;
};

typedef int build_fn(const struct flux2_config *c, struct module *m, struct error *err);

static int text(const struct flux2_config *c, struct module *m, struct error *err)
{
    return flux2_text_module(c, 1, TAPS_NONE, m, err);
}

static int text_tapped(const struct flux2_config *c, struct module *m, struct error *err)
{
    return flux2_text_module(c, 1, TAPS_LAYERS, m, err);
}

static int step(const struct flux2_config *c, struct module *m, struct error *err)
{
    const struct flux2_build how = {
        .batch = 1, .rows = 16, .columns = 16, .hoisted_steps = 4, .handed = DT_BF16}; // as prepared and handed on
    return flux2_dit_module(c, &how, m, err);
}

static int image(const struct flux2_config *c, struct module *m, struct error *err)
{
    return flux2_decoder_module(c, &(struct flux2_build){.batch = 1, .rows = 16, .columns = 16}, m, err);
}

static int begin(struct forms *f, const char *model, build_fn *build, const char *policy, struct error *err)
{
    struct module plain;
    struct policy p;
    arena_init(&f->arena);
    module_init(&plain, &f->arena, "plain");
    module_init(&f->written, &f->arena, "written");
    module_init(&f->loop, &f->arena, "loop");
    int rc = build(flux2_builtin(model), &plain, err);
    rc = rc ? rc : policy_parse(&p, policy, err);
    rc = rc ? rc : module_apply_policy(&plain, &p, false, &f->written, err);
    return rc ? rc : module_roll(&f->written, 2, &f->loop, &f->rolled, err);
}

// FLOP are the same. Bytes of what all layers read (positions, modulations) may be counted otherwise: 0.14 % at most.
static void check_same_cost(struct forms *f)
{
    struct cost_row *rows;
    struct cost total[2];
    struct error err = {0};
    int64_t values[2], scales[2];
    int n[2];
    module_weight_bytes(&f->written, &values[0], &scales[0]);
    module_weight_bytes(&f->loop, &values[1], &scales[1]);
    CHECK_INT(values[1], values[0]);
    CHECK_INT(scales[1], scales[0]);
    REQUIRE_OK(cost_groups(&f->written, &f->arena, &rows, &n[0], &total[0], &err), &err);
    REQUIRE_OK(cost_groups(&f->loop, &f->arena, &rows, &n[1], &total[1], &err), &err);
    CHECK_NEAR(cost_product_flop(&total[1]), cost_product_flop(&total[0]), 0);
    CHECK_NEAR(total[1].bytes, total[0].bytes, 0.0015 * total[0].bytes);
    CHECK_INT(n[1], n[0]);
}

TEST(ir_roll_klein)
{
    static const char *const policies[] = {"f32", "bf16", "w8a16", "w8a8", "w4a16"};
    static const struct {
        build_fn *build;
        int loops, layers;
    } parts[] = {
        {text, 3, 27},       // the layers up to each tap: 9, 18 and 27
        {text_tapped, 0, 0}, // every layer's result is wanted
        {step, 2, 25},       // double and single blocks
        {image, 0, 0},       // no two blocks on end are of one size
    };
    struct error err = {0};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (size_t k = 0; k < sizeof policies / sizeof *policies; k++) {
            struct forms f;
            REQUIRE_OK(begin(&f, "flux2-klein-4b", parts[i].build, policies[k], &err), &err);
            CHECK_INT(f.rolled.loops, parts[i].loops);
            CHECK_INT(f.rolled.layers, parts[i].layers);
            CHECK_INT(f.loop.n_instructions<f.written.n_instructions, parts[i].loops> 0);
            check_same_cost(&f);
            arena_release(&f.arena);
        }
    }
}

// ---- A few layers with all that can be between them

enum { LAYERS = 5, WIDE = 8 };

// Of layers counted from 1; 0: none.
struct wish {
    int tap;             // whose result is wanted
    int skip;            // that uses what the one before the last handed on
    int input;           // with an input of its own
    int other;           // with another constant
    bool shared;         // one weight for all layers
    bool borrowed;       // a layer's weight is used behind the layers
    bool inner;          // a value inside the last layer is wanted, too
    int numbers[LAYERS]; // of scopes; 0: the layer's own
};

static int weight(struct builder *b, int layer, const char *name, struct shape shape)
{
    char tensor[32];
    snprintf(tensor, sizeof tensor, "layer.%d.%s", layer, name);
    return build_weight(b, tensor, shape);
}

// x = tanh(x w + b) + x, and y = y + 2 x behind it: two values go from layer to layer, `first` is used by all.
static void build_layers(struct module *m, const struct wish *wish, struct error *err)
{
    struct builder b;
    struct shape s = SHAPE(DT_F32, 3, WIDE);
    int values[LAYERS + 1], inner = -1, borrowed = -1, shared = -1;
    builder_init(&b, m);
    int first = build_parameter(&b, ROLE_INPUT, "x", s, NULL), y = build_unary(&b, OP_NEGATE, first);
    if (wish->shared)
        shared = build_weight(&b, "shared", SHAPE(DT_F32, WIDE, WIDE));
    values[0] = build_unary(&b, OP_ABS, first);
    for (int i = 0; i < LAYERS; i++) {
        builder_scope(&b, "layer", "layer.%d.product", wish->numbers[i] ? wish->numbers[i] : i);
        int w = wish->shared ? shared : weight(&b, i, "w", SHAPE(DT_F32, WIDE, WIDE));
        int bias = weight(&b, i, "b", SHAPE(DT_F32, WIDE));
        int x = values[i + 1 == wish->skip ? i - 1 : i];
        int z = build_binary(&b, OP_ADD, build_linear(&b, x, w, DT_F32), build_broadcast_trailing(&b, bias, x));
        z = build_unary(&b, OP_TANH, build_binary(&b, OP_MULTIPLY, z, first));
        inner = z;
        if (i + 1 == wish->input)
            z = build_binary(&b, OP_ADD, z, build_parameter(&b, ROLE_INPUT, "own", s, NULL));
        values[i + 1] = build_binary(&b, OP_ADD, z, x);
        builder_scope(&b, "layer", "layer.%d.sum", wish->numbers[i] ? wish->numbers[i] : i);
        y = build_binary(&b, OP_ADD, y,
                         build_binary_scalar(&b, OP_MULTIPLY, values[i + 1], i + 1 == wish->other ? 3 : 2));
        borrowed = w;
    }
    builder_scope(&b, "end", "end");
    if (wish->borrowed)
        y = build_linear(&b, y, borrowed, DT_F32);
    build_result(&b, "y", build_binary(&b, OP_ADD, y, values[LAYERS]));
    if (wish->tap)
        build_result(&b, "tap", values[wish->tap]);
    if (wish->inner)
        build_result(&b, "inner", inner);
    builder_finish(&b, err);
}

// A checkpoint of all weights that the layers can have, with small numbers in them.
static bool open_weights(struct checkpoint *c, struct error *err)
{
    enum { MATRIX = WIDE * WIDE };
    size_t bytes = (LAYERS + 1) * (MATRIX + WIDE) * sizeof(float), file, at = 0;
    struct tensor_view views[2 * LAYERS + 1];
    static char names[2 * LAYERS + 1][32];
    int fd = memfd_create("weights", MFD_CLOEXEC);
    float *values = malloc(bytes);
    for (size_t i = 0; values && i < bytes / sizeof *values; i++)
        values[i] = (float)((int)(i * 37 % 101) - 50) / 100;
    bool written = values && pwrite(fd, values, bytes, 0) == (ssize_t)bytes;
    free(values);
    for (int i = 0; i < 2 * LAYERS + 1; i++) {
        bool matrix = i % 2 == 0;
        snprintf(names[i], sizeof *names, i == 2 * LAYERS ? "shared" : "layer.%d.%s", i / 2, matrix ? "w" : "b");
        views[i] = (struct tensor_view){.name = names[i],
                                        .dtype = DT_F32,
                                        .rank = matrix ? 2 : 1,
                                        .dims = {WIDE, WIDE},
                                        .elements = matrix ? MATRIX : WIDE,
                                        .offset = at};
        views[i].bytes = views[i].elements * sizeof(float);
        at += views[i].bytes;
    }
    return written && checkpoint_begin(c, err) == 0 &&
           checkpoint_add_memory(c, fd, bytes, "weights", &file, err) == 0 &&
           checkpoint_replace(c, views, 2 * LAYERS + 1, err) == 0;
}

enum { RESULTS = 3, ELEMENTS = 3 * WIDE };

static void check_same_results(struct rig *r, const struct checkpoint *c, const struct module *written,
                               const struct module *loop)
{
    float x[ELEMENTS], own[ELEMENTS];
    void *results[2][RESULTS] = {0};
    const void *inputs[2] = {x, own};
    for (int i = 0; i < ELEMENTS; i++) {
        x[i] = (float)(i % 7 - 3) / 4;
        own[i] = (float)(i % 5) / 8;
    }
    bool ran = ir_run_bound(r, c, written, inputs, results[0]) && ir_run_bound(r, c, loop, inputs, results[1]);
    CHECK_INT(loop->n_results, written->n_results);
    for (int k = 0; k < written->n_results; k++) {
        CHECK_STR(loop->result_names[k], written->result_names[k]);
        CHECK(ran && memcmp(results[0][k], results[1][k], sizeof x) == 0);
        free(results[0][k]);
        free(results[1][k]);
    }
}

// Each is run in both forms: on a CPU every bit is the same.
TEST(ir_roll_plugin_rows)
{
    static const struct {
        struct wish wish;
        int loops, layers;
    } cases[] = {
        {{0}, 1, 5},
        {{.tap = 2}, 2, 5}, // which ends a row
        {{.tap = 1}, 1, 4}, // and one layer is no row
        {{.tap = 5}, 1, 5},
        {{.skip = 3}, 2, 4}, // 2 and 3 take the same; 3 hands on to 4 what 2 did not to 3
        {{.input = 3}, 2, 4},
        {{.other = 4}, 1, 3},
        {{.shared = true}, 1, 5},
        {{.borrowed = true}, 1, 4},
        {{.shared = true, .borrowed = true}, 1, 5},
        {{.inner = true}, 1, 5},
        {{.numbers = {0, 0, 0, 9, 0}}, 1, 3},
        {{.tap = 2, .inner = true, .numbers = {3, 4, 5, 6, 7}}, 2, 5},
    };
    struct rig rig;
    struct checkpoint c;
    struct error err = {0};
    REQUIRE(rig_open(&rig, pjrt_test_plugin(false), 1));
    REQUIRE(open_weights(&c, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena;
        struct module written, loop;
        struct rolled rolled;
        arena_init(&arena);
        module_init(&written, &arena, "written");
        module_init(&loop, &arena, "loop");
        build_layers(&written, &cases[i].wish, &err);
        REQUIRE_OK(err.code, &err);
        REQUIRE_OK(module_roll(&written, 2, &loop, &rolled, &err), &err);
        if (!CHECK(rolled.loops == cases[i].loops && rolled.layers == cases[i].layers))
            printf("  case %zu: %d loops, %d layers\n", i, rolled.loops, rolled.layers);
        check_same_results(&rig, &c, &written, &loop);
        REQUIRE_OK(module_roll(&written, 6, &loop, &rolled, &err), &err);
        CHECK_INT(rolled.loops, 0);
        arena_release(&arena);
    }
    checkpoint_close(&c);
    rig_close(&rig);
}

// What a report says of a loop's operations: the layers that they are of.
TEST(ir_roll_scopes)
{
    struct arena arena;
    struct module written, loop;
    struct rolled rolled;
    struct error err = {0};
    int found = 0;
    arena_init(&arena);
    module_init(&written, &arena, "written");
    module_init(&loop, &arena, "loop");
    build_layers(&written, &(struct wish){.tap = 2}, &err);
    REQUIRE_OK(module_roll(&written, 2, &loop, &rolled, &err), &err);
    for (int i = 0; i < loop.n_instructions; i++) {
        const struct instruction *in = &loop.instructions[i];
        found += in->op == OP_DOT && strcmp(in->scope, "layer.0-1.product") == 0;
        found += in->op == OP_DOT && strcmp(in->scope, "layer.2-4.product") == 0;
    }
    CHECK_INT(found, 2);
    arena_release(&arena);
}
