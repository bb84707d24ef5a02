// SPDX-License-Identifier: Apache-2.0
// Codes that are made where the weights lie, against codes of a copy that was widened to f32 and counted.
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/bind.h"
#include "ir/builder.h"
#include "num/convert.h"
#include "pjrt_test.h"

struct source {
    enum dtype type;
    int64_t rows;
    size_t offset; // in the file
};

// A weight of up to three sources, [rows, columns] each or one [stack, rows, columns], and the program that stores its
// codes.
struct weight {
    struct source sources[BIND_MAX_SOURCES];
    int n;
    int64_t stack, columns;
    enum dtype code;
    enum granularity grain;
    int64_t group;
};

struct subject {
    struct arena arena;
    struct checkpoint c;
    struct module m;
    int fd;
    size_t bytes; // of the file
};

static float value_at(uint32_t i)
{
    uint32_t h = i * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    return (float)(int32_t)(h ^ (h >> 13)) * 0x1p-31f * (i % 97 == 0 ? 8.0f : 1.0f);
}

static int fill(struct subject *s, const struct weight *w, struct tensor_view *views, struct error *err)
{
    static const char *const names[BIND_MAX_SOURCES] = {"a", "b", "c", "d"};
    uint8_t *file = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    int rc = file == MAP_FAILED ? error_set(err, ERR_MEMORY, "test", "cannot be mapped") : 0;
    uint32_t next = 1;
    for (int k = 0; k < w->n && !rc; k++) {
        const struct source *from = &w->sources[k];
        struct tensor_view *v = &views[k];
        size_t n = (size_t)(w->stack ? w->stack * from->rows * w->columns : from->rows * w->columns);
        *v = (struct tensor_view){.name = names[k],
                                  .dtype = from->type,
                                  .rank = w->stack ? 3 : 2,
                                  .elements = n,
                                  .bytes = n * (size_t)dtype_bits(from->type) / 8,
                                  .offset = from->offset};
        const int64_t dims[3] = {w->stack, from->rows, w->columns};
        memcpy(v->dims, w->stack ? dims : dims + 1, (size_t)v->rank * sizeof *dims);
        float *values = malloc(n * sizeof *values);
        rc = values ? 0 : ERR_MEMORY;
        for (size_t i = 0; i < n && !rc; i++)
            values[i] = value_at(next++);
        if (!rc)
            rc = convert_elements(from->type, file + from->offset, DT_F32, values, n, err);
        free(values);
    }
    if (file != MAP_FAILED)
        munmap(file, s->bytes);
    return rc;
}

static void build(struct module *m, const struct weight *w, struct error *err)
{
    struct builder b;
    struct binding bind = {.n_sources = w->n,
                           .code = w->code,
                           .grain = w->grain,
                           .group = w->group,
                           .packed = w->code == DT_S4,
                           .sources = {"a", "b", "c", "d"}};
    if (w->stack)
        bind.as = (struct arrangement){3, 1, 1, {0, 1, 2}};
    int64_t rows = 0;
    for (int k = 0; k < w->n; k++)
        rows += w->sources[k].rows;
    struct shape codes = {.dtype = bind.packed ? DT_U8 : w->code}, scales = {.dtype = DT_F32};
    if (w->stack)
        codes.dims[codes.rank++] = scales.dims[scales.rank++] = w->stack;
    codes.dims[codes.rank++] = rows;
    codes.dims[codes.rank++] = bind.packed ? w->columns / 2 : w->columns;
    if (w->grain != GRAIN_TENSOR)
        scales.dims[scales.rank++] = rows;
    if (w->grain == GRAIN_GROUP)
        scales.dims[scales.rank++] = w->columns / w->group;
    builder_init(&b, m);
    bind.part = BIND_CODES;
    bind.store = codes.dtype;
    build_parameter(&b, ROLE_WEIGHT, "weight", codes, &bind);
    bind.part = BIND_SCALES;
    bind.store = DT_F32;
    build_parameter(&b, ROLE_WEIGHT, "weight", scales, &bind);
    if (b.error.code)
        *err = b.error;
}

static bool open_subject(struct subject *s, const struct weight *w)
{
    struct tensor_view views[BIND_MAX_SOURCES];
    struct error e = {0};
    size_t file;
    *s = (struct subject){.fd = memfd_create("weights", MFD_CLOEXEC)};
    for (int k = 0; k < w->n; k++) {
        const struct source *from = &w->sources[k];
        size_t end = from->offset + (size_t)(from->rows * w->columns * (w->stack ? w->stack : 1)) * 8;
        s->bytes = end > s->bytes ? end : s->bytes;
    }
    arena_init(&s->arena);
    module_init(&s->m, &s->arena, "weights");
    int rc = ftruncate(s->fd, (off_t)s->bytes) == 0 ? fill(s, w, views, &e) : ERR_IO;
    if (!rc)
        rc = checkpoint_begin(&s->c, &e);
    if (!rc)
        rc = checkpoint_add_memory(&s->c, dup(s->fd), s->bytes, "weights", &file, &e);
    if (!rc)
        rc = checkpoint_replace(&s->c, views, (size_t)w->n, &e);
    if (!rc)
        build(&s->m, w, &e);
    if (!CHECK(!rc && !e.code))
        printf("  %s: %s\n", e.where, e.message);
    return !rc && !e.code;
}

static void close_subject(struct subject *s)
{
    checkpoint_close(&s->c);
    arena_release(&s->arena);
    close(s->fd);
}

static size_t bytes_of(const struct module *m, int parameter)
{
    return (size_t)shape_bytes(&m->instructions[m->parameters[parameter].instruction].shape);
}

static void check_same(const struct weight *w)
{
    struct subject s;
    struct quant_stats stats;
    struct error e = {0};
    if (!open_subject(&s, w))
        return;
    size_t codes = bytes_of(&s.m, 0), scales = bytes_of(&s.m, 1);
    uint8_t *want = calloc(1, codes + scales), *got = calloc(1, codes + scales), *alone = calloc(1, codes);
    REQUIRE(want && got && alone);
    REQUIRE_OK(bind_make_coded(&s.m, &s.c, 0, want + scales, want, &stats, &e), &e);
    REQUIRE_OK(bind_make_coded(&s.m, &s.c, 0, got + scales, got, NULL, &e), &e);
    REQUIRE_OK(bind_make(&s.m, &s.c, 0, alone, NULL, &e), &e); // codes without scales
    CHECK(stats.elements > 0);
    if (!CHECK(memcmp(got, want, codes + scales) == 0 && memcmp(alone, want + scales, codes) == 0))
        printf("  %s from %s at %zu, %d sources of %lld columns, stack %lld\n", dtype_name(w->code),
               dtype_name(w->sources[0].type), w->sources[0].offset, w->n, (long long)w->columns, (long long)w->stack);
    free(alone);
    free(got);
    free(want);
    close_subject(&s);
}

TEST(ir_bind_codes_in_place_are_those_of_a_copy)
{
    // Each type by itself, where it lies as its elements want it and where it does not; rows that do not divide among
    // pieces; rows longer than a piece; sources of several types; enough of them for several threads.
    static const struct weight weights[] = {
        {.sources = {{DT_BF16, 700, 64}}, .n = 1, .columns = 514, .code = DT_S8, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_BF16, 700, 65}}, .n = 1, .columns = 514, .code = DT_S8, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_F16, 301, 2}}, .n = 1, .columns = 96, .code = DT_S8, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_F32, 301, 6}}, .n = 1, .columns = 1537, .code = DT_S8, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_F32, 301, 8}}, .n = 1, .columns = 1537, .code = DT_S8, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_F64, 33, 8}}, .n = 1, .columns = 1000, .code = DT_S8, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_F8E4M3FN, 33, 1}}, .n = 1, .columns = 100, .code = DT_S8, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_BF16, 3, 0}}, .n = 1, .columns = 150002, .code = DT_S4, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_BF16, 1, 0}}, .n = 1, .columns = 2, .code = DT_S4, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_BF16, 2000, 8}}, .n = 1, .columns = 192, .code = DT_S4, .grain = GRAIN_GROUP, .group = 32},
        {.sources = {{DT_F32, 19, 3}}, .n = 1, .columns = 192, .code = DT_S8, .grain = GRAIN_GROUP, .group = 64},
        {.sources = {{DT_BF16, 500, 3000000}, {DT_F16, 7, 1}, {DT_F32, 400, 1000000}},
         .n = 3,
         .columns = 320,
         .code = DT_S8,
         .grain = GRAIN_CHANNEL},
        {.sources = {{DT_BF16, 5, 10}, {DT_BF16, 9, 20001}},
         .n = 2,
         .columns = 256,
         .code = DT_S4,
         .grain = GRAIN_GROUP,
         .group = 128},
        {.sources = {{DT_BF16, 210, 10}}, .n = 1, .stack = 7, .columns = 222, .code = DT_S8, .grain = GRAIN_CHANNEL},
        {.sources = {{DT_BF16, 210, 10}}, .n = 1, .stack = 7, .columns = 222, .code = DT_S8, .grain = GRAIN_TENSOR},
        {.sources = {{DT_F32, 21, 12}},
         .n = 1,
         .stack = 3,
         .columns = 64,
         .code = DT_S4,
         .grain = GRAIN_GROUP,
         .group = 32},
        {.sources = {{DT_BF16, 210, 10}}, .n = 1, .columns = 222, .code = DT_S8, .grain = GRAIN_TENSOR},
    };
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        check_same(&weights[i]);
}

// What is wrong with a weight is said in the same words whether or not it is counted.
TEST(ir_bind_names_the_value_that_has_no_code)
{
    const struct weight w = {
        .sources = {{DT_BF16, 900, 4}}, .n = 1, .columns = 400, .code = DT_S8, .grain = GRAIN_CHANNEL};
    const uint16_t infinity = 0x7f80;
    const int at = 801 * 400 + 13;
    char words[64];
    struct subject s;
    struct quant_stats stats;
    struct error counted = {0}, in_place = {0};
    REQUIRE(open_subject(&s, &w));
    REQUIRE(pwrite(s.fd, &infinity, 2, 4 + 2 * at) == 2);
    snprintf(words, sizeof words, "at index %d", at);
    uint8_t *codes = calloc(1, bytes_of(&s.m, 0)), *scales = calloc(1, bytes_of(&s.m, 1));
    REQUIRE(codes && scales);
    CHECK_ERROR(bind_make_coded(&s.m, &s.c, 0, codes, scales, &stats, &counted), ERR_INPUT, words, &counted);
    CHECK_ERROR(bind_make_coded(&s.m, &s.c, 0, codes, scales, NULL, &in_place), ERR_INPUT, words, &in_place);
    CHECK_STR(in_place.message, counted.message);
    CHECK_STR(in_place.where, counted.where);
    free(scales);
    free(codes);
    close_subject(&s);
}

// A file that is cut short under the threads that read it.
TEST(ir_bind_notices_a_file_that_was_cut_short)
{
    const struct weight w = {
        .sources = {{DT_BF16, 2000, 0}}, .n = 1, .columns = 1024, .code = DT_S8, .grain = GRAIN_CHANNEL};
    struct subject s;
    struct error e = {0};
    REQUIRE(open_subject(&s, &w));
    uint8_t *codes = calloc(1, bytes_of(&s.m, 0)), *scales = calloc(1, bytes_of(&s.m, 1));
    REQUIRE(codes && scales);
    REQUIRE_OK(bind_make_coded(&s.m, &s.c, 0, codes, scales, NULL, &e), &e);
    REQUIRE(ftruncate(s.fd, 2000 * 1024 * 2 - 3000000) == 0);
    CHECK_ERROR(bind_make_coded(&s.m, &s.c, 0, codes, scales, NULL, &e), ERR_INPUT, "became shorter", &e);
    REQUIRE(ftruncate(s.fd, 0) == 0);
    CHECK_ERROR(bind_make_coded(&s.m, &s.c, 0, codes, scales, NULL, &e), ERR_INPUT, "became shorter", &e);
    free(scales);
    free(codes);
    close_subject(&s);
}

// Layers that lie anywhere in the file, one behind the other in one parameter.
static void build_stack(struct module *m, const struct weight *w, bool codes, struct error *err)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    struct builder b;
    struct binding layers[2][BIND_MAX_SOURCES], stacks[2];
    int64_t rows = w->sources[0].rows, wide = w->code == DT_S4 ? w->columns / 2 : w->columns;
    struct shape shapes[2] = {
        SHAPE(codes ? (w->code == DT_S4 ? DT_U8 : w->code) : w->sources[0].type, w->n, rows, wide),
        w->grain == GRAIN_GROUP ? SHAPE(DT_F32, w->n, rows, w->columns / w->group) : SHAPE(DT_F32, w->n, rows)};
    builder_init(&b, m);
    for (int part = 0; part < (codes ? 2 : 1); part++) {
        for (int k = 0; k < w->n; k++)
            layers[part][k] = (struct binding){.n_sources = 1,
                                               .sources = {names[k]},
                                               .store = shapes[part].dtype,
                                               .part = !codes ? BIND_VALUES
                                                       : part ? BIND_SCALES
                                                              : BIND_CODES,
                                               .code = codes ? w->code : DT_INVALID,
                                               .grain = w->grain,
                                               .group = w->group,
                                               .packed = codes && w->code == DT_S4};
        stacks[part] = layers[part][0];
        stacks[part].n_layers = w->n;
        stacks[part].layers = layers[part];
        build_parameter(&b, ROLE_WEIGHT, "stack", shapes[part], &stacks[part]);
    }
    if (b.error.code)
        *err = b.error;
}

// Source k of the weight by itself.
static struct weight layer_of(const struct weight *w, int k)
{
    struct weight one = *w;
    one.n = 1;
    one.sources[0] = w->sources[k];
    return one;
}

static void check_stack(const struct weight *w)
{
    struct subject s;
    struct module stack;
    struct error e = {0};
    if (!open_subject(&s, w))
        return;
    module_init(&stack, &s.arena, "stack");
    build_stack(&stack, w, true, &e);
    REQUIRE_OK(bind_check(&stack, &s.c, &e), &e);
    CHECK_INT(bind_scales_of(&stack, 0), 1);
    CHECK_INT(bind_n_sources(&stack, 0), w->n);
    size_t codes = bytes_of(&stack, 0), scales = bytes_of(&stack, 1), n = (size_t)w->n;
    uint8_t *got = calloc(1, codes + scales), *alone = calloc(1, codes), *want = calloc(1, codes + scales);
    REQUIRE(got && alone && want);
    REQUIRE_OK(bind_make_coded(&stack, &s.c, 0, got, got + codes, NULL, &e), &e);
    REQUIRE_OK(bind_make(&stack, &s.c, 0, alone, NULL, &e), &e);
    CHECK(memcmp(alone, got, codes) == 0);
    for (size_t k = 0; k < n; k++) {
        const struct weight one = layer_of(w, (int)k);
        struct module m;
        module_init(&m, &s.arena, "one");
        build(&m, &one, &e);
        m.parameters[0].binding.sources[0] = m.parameters[1].binding.sources[0] =
            (const char *const[]){"a", "b", "c"}[k];
        REQUIRE_OK(bind_make_coded(&m, &s.c, 0, want + k * codes / n, want + codes + k * scales / n, NULL, &e), &e);
    }
    CHECK(memcmp(want, got, codes + scales) == 0);
    free(want);
    free(alone);
    free(got);
    close_subject(&s);
}

TEST(ir_bind_stacks_are_their_layers)
{
    static const struct weight weights[] = {
        {.sources = {{DT_BF16, 70, 64}, {DT_BF16, 70, 30001}, {DT_BF16, 70, 100000}},
         .n = 3,
         .columns = 130,
         .code = DT_S8,
         .grain = GRAIN_CHANNEL},
        {.sources = {{DT_F32, 30, 64}, {DT_F32, 30, 50000}, {DT_BF16, 30, 150000}},
         .n = 3,
         .columns = 192,
         .code = DT_S4,
         .grain = GRAIN_GROUP,
         .group = 32},
    };
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        check_stack(&weights[i]);
}

// As they are stored: from one place where layers follow each other, else joined from several.
TEST(ir_bind_stacks_of_values_are_found)
{
    struct weight w = {.sources = {{DT_BF16, 10, 64}, {DT_BF16, 10, 64 + 10 * 96 * 2}},
                       .n = 2,
                       .columns = 96,
                       .code = DT_S8,
                       .grain = GRAIN_CHANNEL};
    for (int apart = 0; apart < 2; apart++) {
        struct subject s;
        struct module stack;
        struct bind_place place, parts[2];
        struct error e = {0};
        w.sources[1].offset += (size_t)apart * 1000;
        REQUIRE(open_subject(&s, &w));
        module_init(&stack, &s.arena, "stack");
        build_stack(&stack, &w, false, &e);
        REQUIRE_OK(bind_check(&stack, &s.c, &e), &e);
        CHECK_INT(bind_find(&stack, &s.c, 0, &place), !apart);
        REQUIRE(bind_parts(&stack, &s.c, 0, parts));
        for (size_t k = 0; k < 2; k++)
            CHECK(parts[k].offset == w.sources[k].offset && parts[k].bytes == 10 * 96 * 2);
        uint8_t made[2 * 10 * 96 * 2], lies[sizeof made / 2];
        REQUIRE_OK(bind_make(&stack, &s.c, 0, made, NULL, &e), &e);
        for (size_t k = 0; k < 2; k++) {
            REQUIRE(pread(s.fd, lies, sizeof lies, (off_t)w.sources[k].offset) == sizeof lies);
            CHECK(memcmp(made + k * sizeof lies, lies, sizeof lies) == 0);
        }
        close_subject(&s);
    }
}

// A layer that is not as the others is named.
TEST(ir_bind_stacks_name_the_layer_that_does_not_fit)
{
    struct weight w = {.sources = {{DT_BF16, 10, 64}, {DT_BF16, 11, 10000}},
                       .n = 2,
                       .columns = 96,
                       .code = DT_S8,
                       .grain = GRAIN_CHANNEL};
    struct subject s;
    struct module stack;
    struct error e = {0};
    REQUIRE(open_subject(&s, &w));
    module_init(&stack, &s.arena, "stack");
    build_stack(&stack, &w, false, &e);
    CHECK_INT(bind_check(&stack, &s.c, &e), ERR_INPUT);
    CHECK_STR(e.where, "b");
    CHECK(strstr(e.message, "11 rows") != NULL);
    close_subject(&s);
}
