// SPDX-License-Identifier: Apache-2.0
#include "ir_test.h"

#include <stdlib.h>

#include "base/file.h"
#include "fixture.h"
#include "ir/bind.h"
#include "num/convert.h"

void ir_fixture_open(struct ir_fixture *f, const char *name)
{
    char path[256];
    struct error err = {0};
    snprintf(path, sizeof path, "ir/%s.json", name);
    f->root = fixture_json(path);
    snprintf(path, sizeof path, "ir/%s.bin", name);
    str_init(&f->bin);
    if (file_read(&f->bin, fixture_path(path), 1u << 26, &err)) {
        printf("  fixture %s: %s\n", name, err.message);
        exit(1);
    }
}

void ir_fixture_close(struct ir_fixture *f)
{
    json_decref(f->root);
    str_release(&f->bin);
}

struct shape ir_fixture_array(const struct ir_fixture *f, const json_t *array, const void **bytes)
{
    int64_t dims[SHAPE_MAX_RANK];
    const char *type = json_string_value(json_array_get(array, 0));
    int rank = ir_fixture_ints(json_array_get(array, 1), dims, SHAPE_MAX_RANK);
    struct shape s = shape_of(dtype_from_name(type ? type : ""), rank, dims);
    int64_t offset = json_integer_value(json_array_get(array, 2));
    if (s.dtype == DT_INVALID || offset < 0 || offset + shape_bytes(&s) > (int64_t)f->bin.length) {
        printf("  fixture: an array is not inside the file\n");
        exit(1);
    }
    *bytes = str_text(&f->bin) + offset;
    return s;
}

int ir_fixture_ints(const json_t *list, int64_t *out, int max)
{
    int n = (int)json_array_size(list);
    for (int i = 0; i < n && i < max; i++)
        out[i] = json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

static struct array_type array_type_of(const struct shape *s)
{
    struct array_type t = {.dtype = s->dtype, .rank = s->rank};
    memcpy(t.dims, s->dims, sizeof s->dims);
    return t;
}

struct program *ir_compile(struct rig *r, const struct module *m)
{
    struct str text;
    struct program *p = NULL;
    str_init(&text);
    error_clear(&r->err);
    if (module_print(m, &text, &r->err) == 0)
        program_compile(&p, r->client, str_text(&text), text.length, "mlir",
                        &(struct compile_options){.override_count = 0}, &r->err);
    str_release(&text);
    return r->err.code ? NULL : p;
}

bool ir_run(struct rig *r, struct program *p, const struct module *m, const void *const *args, void **outs)
{
    struct buffer **in = calloc((size_t)m->n_parameters + 1, sizeof *in);
    struct buffer **out = calloc((size_t)m->n_results + 1, sizeof *out);
    int rc = in && out ? 0 : ERR_MEMORY;
    error_clear(&r->err);
    for (int i = 0; i < m->n_results; i++)
        outs[i] = NULL;
    for (int i = 0; i < m->n_parameters && !rc; i++) {
        struct array_type t = array_type_of(&m->instructions[m->parameters[i].instruction].shape);
        rc = buffer_from_host(&in[i], r->client, 0, args[i], &t, HOST_COPY, &r->err);
    }
    if (!rc)
        rc = program_execute(p, in, (size_t)m->n_parameters, out, &r->err);
    for (int i = 0; i < m->n_results && !rc; i++) {
        struct array_type t = array_type_of(&m->instructions[m->results[i]].shape);
        size_t bytes = (size_t)shape_bytes(&m->instructions[m->results[i]].shape);
        outs[i] = malloc(bytes + 1);
        if (!array_type_equal(buffer_type(out[i]), &t))
            rc = error_set(&r->err, ERR_DEVICE, m->result_names[i], "has another type than the module says");
        else
            rc = buffer_to_host(out[i], outs[i], bytes, &r->err);
    }
    for (int i = 0; in && i < m->n_parameters; i++)
        buffer_free(in[i]);
    for (int i = 0; out && i < m->n_results; i++)
        buffer_free(out[i]);
    free(in);
    free(out);
    if (rc)
        test_fail_error(__FILE__, __LINE__, "run", r->err.where, r->err.message);
    return rc == 0;
}

bool ir_run_bound(struct rig *r, const struct checkpoint *c, const struct module *m, const void *const *inputs,
                  void **outs)
{
    struct error err = {0};
    const void **args = calloc((size_t)m->n_parameters + 1, sizeof *args);
    void **owned = calloc((size_t)m->n_parameters + 1, sizeof *owned);
    int rc = args && owned ? bind_check(m, c, &err) : ERR_MEMORY, next = 0;
    for (int i = 0; i < m->n_parameters && !rc; i++) {
        if (m->parameters[i].role == ROLE_INPUT) {
            args[i] = inputs[next++];
            continue;
        }
        args[i] = owned[i] = malloc((size_t)shape_bytes(&m->instructions[m->parameters[i].instruction].shape) + 1);
        rc = owned[i] ? bind_make(m, c, i, owned[i], NULL, &err) : ERR_MEMORY;
    }
    struct program *p = rc ? NULL : ir_compile(r, m);
    if (!p)
        test_fail_error(__FILE__, __LINE__, "bind or compile", err.where, rc ? err.message : r->err.message);
    bool ok = p && ir_run(r, p, m, args, outs);
    program_free(p);
    for (int i = 0; owned && i < m->n_parameters; i++)
        free(owned[i]);
    free(owned);
    free(args);
    return ok;
}

double ir_element(enum dtype t, const void *bytes, int64_t i)
{
    size_t size = (size_t)dtype_bits(t) / 8;
    double v = NAN;
    convert_elements(DT_F64, &v, t, (const uint8_t *)bytes + (size_t)i * size, 1, NULL);
    return v;
}

double *ir_doubles(enum dtype t, const void *bytes, int64_t n)
{
    double *out = malloc((size_t)(n + 1) * sizeof *out);
    if (out)
        convert_elements(DT_F64, out, t, bytes, (size_t)n, NULL);
    return out;
}

// Bit patterns as integers that order like the numbers.
static double order(enum dtype t, const void *bytes, int64_t i)
{
    int bits = dtype_bits(t);
    uint64_t v = 0;
    memcpy(&v, (const uint8_t *)bytes + i * (bits / 8), (size_t)bits / 8);
    uint64_t sign = UINT64_C(1) << (bits - 1);
    int64_t magnitude = (int64_t)(v & (sign - 1));
    return (double)(v & sign ? -magnitude : magnitude);
}

double ir_ulps(enum dtype t, const void *a, const void *b, int64_t i)
{
    bool a_nan = isnan(ir_element(t, a, i)), b_nan = isnan(ir_element(t, b, i));
    if (a_nan || b_nan)
        return a_nan && b_nan ? 0 : 1e300;
    return fabs(order(t, a, i) - order(t, b, i));
}

double ir_rel_l2(const double *a, const double *b, int64_t n)
{
    double error = 0, reference = 0;
    for (int64_t i = 0; i < n; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        reference += b[i] * b[i];
    }
    return sqrt(error / reference);
}
