// SPDX-License-Identifier: Apache-2.0
// The device behind a probe: one program for each path and shape, operands uploaded for each product.
#include <stdlib.h>
#include <string.h>

#include "ir/shape.h"
#include "lab/capture.h"
#include "lab/probe_target.h"
#include "num/convert.h"
#include "num/format.h"

struct probe_program {
    struct probe_program *next;
    const struct probe_path *path;
    size_t m, k, n;
    int executable;
    char *optimized; // the device's; NULL: not handed over
    size_t optimized_length;
};

int probe_program_text(struct str *out, const struct probe_path *path, size_t m, size_t k, size_t n, struct error *err)
{
    const struct shape shapes[] = {SHAPE(path->lhs, (int64_t)m, (int64_t)k), SHAPE(path->rhs, (int64_t)k, (int64_t)n),
                                   SHAPE(path->out, (int64_t)m, (int64_t)n)};
    struct str type[3];
    for (int i = 0; i < 3; i++) {
        str_init(&type[i]);
        shape_print_mlir(&type[i], &shapes[i]);
        out->failed |= type[i].failed;
    }
    const char *a = str_text(&type[0]), *b = str_text(&type[1]), *c = str_text(&type[2]);
    str_addf(out, "module @probe {\n  func.func public @main(%%a: %s, %%b: %s) -> %s {\n", a, b, c);
    str_add(out, "    %0 = \"stablehlo.dot_general\"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<"
                 "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, ");
    str_addf(out, "precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]", path->precision,
             path->precision);
    if (path->algorithm)
        str_addf(out, ", algorithm = #stablehlo.dot_algorithm<%s>", path->algorithm);
    str_addf(out, "} : (%s, %s) -> %s\n    \"func.return\"(%%0) : (%s) -> ()\n  }\n}\n", a, b, c, c);
    for (int i = 0; i < 3; i++)
        str_release(&type[i]);
    return str_check(out, err);
}

int probe_device_open(struct probe_device *d, const struct worker_options *options, struct error *err)
{
    memset(d, 0, sizeof *d);
    arena_init(&d->arena);
    d->options = *options;
    return worker_start(&d->worker, &d->options, err);
}

void probe_device_close(struct probe_device *d)
{
    worker_stop(d->worker);
    d->worker = NULL;
    arena_release(&d->arena);
}

// A worker that died takes its programs with it.
static int revive(struct probe_device *d, struct error *err)
{
    if (d->worker && !worker_failure(d->worker))
        return 0;
    worker_stop(d->worker);
    d->worker = NULL;
    d->programs = NULL;
    return worker_start(&d->worker, &d->options, err);
}

static void argument_shapes(struct worker_shape out[2], const struct probe_path *path, size_t m, size_t k, size_t n)
{
    out[0] = (struct worker_shape){path->lhs, 2, {(int64_t)m, (int64_t)k}};
    out[1] = (struct worker_shape){path->rhs, 2, {(int64_t)k, (int64_t)n}};
}

// ---- elements

static size_t element_bytes(enum dtype t)
{
    return dtype_bits(t) < 8 ? 1 : (size_t)dtype_bits(t) / 8;
}

// Values that the type holds; f32 keeps a NaN as it is.
static int encode(enum dtype t, void *out, const double *x, size_t n, struct error *err)
{
    const struct format_cast cast = {FORMAT_NEAREST_EVEN, FORMAT_OVERFLOW_PLAIN, NULL};
    struct format_counts counts = {0};
    if (t == DT_F64) {
        memcpy(out, x, n * sizeof *x);
        return 0;
    }
    if (t == DT_F32 || t == DT_BF16) {
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = dot_f32_bits(x[i]);
            if (t == DT_F32)
                memcpy((char *)out + 4 * i, &bits, 4);
            else
                memcpy((char *)out + 2 * i, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
        }
        return 0;
    }
    return format_encode_f64(format_of(t), out, x, n, &cast, &counts, "argument", err);
}

static void decode(enum dtype t, double *out, const void *x, size_t n)
{
    if (t == DT_F64) {
        memcpy(out, x, n * sizeof *out);
    } else if (t == DT_F32 || t == DT_BF16) {
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = 0;
            uint16_t half;
            if (t == DT_F32) {
                memcpy(&bits, (const char *)x + 4 * i, 4);
            } else {
                memcpy(&half, (const char *)x + 2 * i, 2);
                bits = (uint32_t)half << 16;
            }
            out[i] = dot_from_f32_bits(bits);
        }
    } else {
        format_decode_f64(format_of(t), out, x, n);
    }
}

// ---- running

static struct probe_program *find(const struct probe_device *d, const struct probe_target *t)
{
    struct probe_program *p = d->programs;
    while (p && (p->path != t->path || p->m != t->m || p->k != t->k || p->n != t->n))
        p = p->next;
    return p;
}

static int upload(struct probe_device *d, const struct worker_shape *shape, const double *x, size_t n, int *id,
                  struct error *err)
{
    struct worker_tensor t = {.fd = -1, .shape = *shape, .name = "operand"};
    size_t bytes = n * element_bytes(shape->dtype);
    void *data = malloc(bytes ? bytes : 1);
    if (!data)
        return error_set(err, ERR_MEMORY, NULL, "no memory for an operand of %zu bytes", bytes);
    int rc = encode(shape->dtype, data, x, n, err);
    if (!rc)
        rc = worker_upload_bytes(d->worker, data, bytes, &t, id, NULL, err);
    free(data);
    return rc;
}

static int download(struct probe_device *d, enum dtype type, int id, double *c, size_t n, struct error *err)
{
    size_t bytes = n * element_bytes(type);
    void *data = malloc(bytes ? bytes : 1);
    if (!data)
        return error_set(err, ERR_MEMORY, NULL, "no memory for a result of %zu bytes", bytes);
    int rc = worker_download(d->worker, id, data, bytes, err);
    if (!rc)
        decode(type, c, data, n);
    free(data);
    return rc;
}

static int multiply_on_device(struct probe_target *t, const double *a, const double *b, double *c, bool diagonal,
                              struct error *err)
{
    (void)diagonal;
    struct probe_device *d = t->context;
    struct probe_program *program = find(d, t);
    struct worker_shape shapes[2];
    int ids[3], n_ids = 0;
    d->refused = false;
    if (!program)
        return error_set(err, ERR_INTERNAL, t->path->key, "the program of this path went with its worker");
    argument_shapes(shapes, t->path, t->m, t->k, t->n);
    int rc = upload(d, &shapes[0], a, t->m * t->k, &ids[0], err);
    n_ids += !rc;
    if (!rc) {
        rc = upload(d, &shapes[1], b, t->k * t->n, &ids[1], err);
        n_ids += !rc;
    }
    if (!rc) {
        rc = worker_execute(d->worker, program->executable, ids, 2, &ids[2], 1, NULL, err);
        n_ids += !rc;
    }
    if (!rc)
        rc = download(d, t->path->out, ids[2], c, t->m * t->n, err);
    for (int i = 0; i < n_ids; i++) {
        int freed = worker_free(d->worker, ids[i], rc ? NULL : err);
        rc = rc ? rc : freed;
    }
    d->refused = rc == ERR_DEVICE;
    return rc;
}

static struct worker_program program_of(const struct probe_path *path, const struct str *text,
                                        const struct worker_shape shapes[2])
{
    return (struct worker_program){.text = str_text(text),
                                   .length = text->length,
                                   .format = "mlir",
                                   .name = path->key,
                                   .want_optimized = true,
                                   .n_args = 2,
                                   .args = shapes};
}

int probe_target_device(struct probe_target *t, const struct probe_path *path, size_t m, size_t k, size_t n,
                        struct probe_device *d, struct error *err)
{
    *t = (struct probe_target){.path = path, .m = m, .k = k, .n = n, .context = d, .multiply = multiply_on_device};
    struct worker_shape shapes[2];
    struct worker_executable e;
    struct str text;
    d->refused = false;
    d->optimized = NULL;
    d->optimized_length = 0;
    int rc = revive(d, err);
    if (rc || find(d, t))
        return rc;
    argument_shapes(shapes, path, m, k, n);
    str_init(&text);
    rc = probe_program_text(&text, path, m, k, n, err);
    struct worker_program program = program_of(path, &text, shapes);
    if (!rc) {
        rc = worker_compile(d->worker, &program, &e, err);
        d->refused = rc == ERR_DEVICE;
    }
    str_release(&text);
    if (rc)
        return rc;
    struct probe_program *p = arena_new(&d->arena, struct probe_program, 1, err);
    char *optimized = e.optimized ? arena_strndup(&d->arena, e.optimized, e.optimized_length, err) : NULL;
    d->optimized = optimized;
    d->optimized_length = optimized ? e.optimized_length : 0;
    if (p) {
        *p = (struct probe_program){d->programs, path, m, k, n, e.id, optimized, d->optimized_length};
        d->programs = p;
    }
    worker_executable_release(&e);
    return p ? 0 : ERR_MEMORY;
}

int probe_device_capture(struct probe_target *t, const char *label, struct record *record,
                         const struct progress *progress, struct arena *a, const char **name, struct error *err)
{
    struct probe_device *d = t->context;
    const struct probe_program *program = find(d, t);
    struct worker_shape shapes[2], out = {t->path->out, 2, {(int64_t)t->m, (int64_t)t->n}};
    size_t sizes[] = {t->m * t->k, t->k * t->n};
    int ids[2], n_ids = 0, rc = 0;
    if (!program)
        return error_set(err, ERR_INTERNAL, t->path->key, "the program of this path went with its worker");
    argument_shapes(shapes, t->path, t->m, t->k, t->n);
    for (int i = 0; i < 2 && !rc; i++) {
        double *zeros = arena_new(a, double, sizes[i], err);
        rc = zeros ? upload(d, &shapes[i], zeros, sizes[i], &ids[i], err) : ERR_MEMORY;
        n_ids += !rc;
    }
    const struct worker_executable e = {.id = program->executable,
                                        .optimized = program->optimized,
                                        .optimized_length = program->optimized_length,
                                        .n_devices = 1,
                                        .n_outputs = 1,
                                        .outputs = &out};
    struct str text;
    str_init(&text);
    if (!rc)
        rc = probe_program_text(&text, t->path, t->m, t->k, t->n, err);
    const struct worker_program source = program_of(t->path, &text, shapes);
    const struct capture_steps steps = {.worker = d->worker,
                                        .program = &e,
                                        .source = &source,
                                        .args = ids,
                                        .n_args = 2,
                                        .name = label,
                                        .steps = CAPTURE_STEPS};
    if (!rc)
        rc = capture_into(record, &steps, progress, a, name, err);
    str_release(&text);
    for (int i = 0; i < n_ids; i++) {
        int freed = worker_free(d->worker, ids[i], rc ? NULL : err);
        rc = rc ? rc : freed;
    }
    return rc;
}

int probe_device_elements(struct probe_device *d, const char *name, const struct str *text, enum dtype in,
                          double (*x)[16], enum dtype out, double *y, bool excess, struct error *err)
{
    struct worker_shape shapes[3];
    struct worker_executable e;
    int ids[4], n_ids = 0;
    d->refused = false;
    int rc = revive(d, err);
    if (rc)
        return rc;
    const struct worker_override fast = {"xla_cpu_enable_fast_min_max", "true"};
    bool is_cpu = strcmp(worker_info(d->worker)->platform_name, "cpu") == 0;
    for (int i = 0; i < 3; i++)
        shapes[i] = (struct worker_shape){in, 1, {16}};
    struct worker_program program = {.text = text->text,
                                     .length = text->length,
                                     .format = "mlir",
                                     .name = name,
                                     .allow_excess_precision = excess,
                                     .n_overrides = excess && is_cpu ? 1 : 0,
                                     .overrides = &fast,
                                     .n_args = 3,
                                     .args = shapes};
    rc = worker_compile(d->worker, &program, &e, err);
    if (rc) {
        d->refused = rc == ERR_DEVICE;
        return rc;
    }
    for (int i = 0; i < 3 && !rc; i++) {
        rc = upload(d, &shapes[i], x[i], 16, &ids[i], err);
        n_ids += !rc;
    }
    if (!rc) {
        rc = worker_execute(d->worker, e.id, ids, 3, &ids[3], 1, NULL, err);
        n_ids += !rc;
    }
    if (!rc)
        rc = download(d, out, ids[3], y, 16, err);
    for (int i = 0; i < n_ids; i++) {
        int freed = worker_free(d->worker, ids[i], rc ? NULL : err);
        rc = rc ? rc : freed;
    }
    int unloaded = worker_unload(d->worker, e.id, rc ? NULL : err);
    worker_executable_release(&e);
    rc = rc ? rc : unloaded;
    d->refused = rc == ERR_DEVICE;
    return rc;
}
