// SPDX-License-Identifier: Apache-2.0
// Known answers of programs on the device.
#include <signal.h>
#include <string.h>

#include "lab/check_table.h"
#include "models/builtin.h"
#include "num/convert.h"

int check_worker_starts(struct check_context *c, struct str *found, struct error *err)
{
    int rc = worker_start(&c->worker, &c->options, err);
    if (rc) {
        worker_stop(c->worker);
        c->worker = NULL;
        return rc;
    }
    const struct worker_info *i = worker_info(c->worker);
    str_addf(found, "%s (%s), %zu in all, PJRT API %d.%d", i->devices[i->device].kind, i->platform_name, i->n_devices,
             i->api_major, i->api_minor);
    return 0;
}

struct argument {
    struct worker_shape shape;
    const void *data;
    size_t bytes;
};

// Compiles, uploads, runs once, downloads the one result, and frees everything.
static int run_program(struct check_context *c, const char *text, size_t length, const struct argument *args, size_t n,
                       void *out, size_t bytes, struct error *err)
{
    struct worker_shape shapes[2];
    struct worker_executable e;
    int ids[2], result, n_ids = 0, rc = 0;
    for (size_t i = 0; i < n; i++)
        shapes[i] = args[i].shape;
    struct worker_program program = {
        .text = text, .length = length, .format = "mlir", .name = "check", .n_args = n, .args = shapes};
    rc = worker_compile(c->worker, &program, &e, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n && !rc; i++) {
        struct worker_tensor t = {.fd = -1, .shape = args[i].shape, .name = "argument"};
        rc = worker_upload_bytes(c->worker, args[i].data, args[i].bytes, &t, &ids[i], NULL, err);
        n_ids += !rc;
    }
    if (!rc)
        rc = worker_execute(c->worker, e.id, ids, n, &result, 1, NULL, err);
    if (!rc) {
        rc = worker_download(c->worker, result, out, bytes, err);
        int freed = worker_free(c->worker, result, rc ? NULL : err);
        rc = rc ? rc : freed;
    }
    for (int i = 0; i < n_ids; i++) {
        int freed = worker_free(c->worker, ids[i], rc ? NULL : err);
        rc = rc ? rc : freed;
    }
    int unloaded = worker_unload(c->worker, e.id, rc ? NULL : err);
    worker_executable_release(&e);
    return rc ? rc : unloaded;
}

// ((x*x)+x)*x in bf16: the compiler may keep f32 inside only where it was allowed to, and then most results differ.
int check_rounding(struct check_context *c, struct str *found, struct error *err)
{
    enum { N = 4096 };
    static const char text[] = "func.func public @main(%x: tensor<4096xbf16>) -> tensor<4096xf32> {\n"
                               "  %0 = stablehlo.multiply %x, %x : tensor<4096xbf16>\n"
                               "  %1 = stablehlo.add %0, %x : tensor<4096xbf16>\n"
                               "  %2 = stablehlo.multiply %1, %x : tensor<4096xbf16>\n"
                               "  %3 = stablehlo.convert %2 : (tensor<4096xbf16>) -> tensor<4096xf32>\n"
                               "  return %3 : tensor<4096xf32>\n"
                               "}\n";
    uint16_t x[N];
    float y[N];
    for (int i = 0; i < N; i++)
        x[i] = (uint16_t)(0x3c00 + i / 2 % 0x380 + (i & 1) * 0x8000); // both signs of 1/128 to 1
    struct argument arg = {.shape = {DT_BF16, 1, {N}}, .data = x, .bytes = sizeof x};
    int same = 0, rc = run_program(c, text, sizeof text - 1, &arg, 1, y, sizeof y, err);
    if (rc)
        return rc;
    for (int i = 0; i < N; i++) {
        float v = f32_from_bf16(x[i]);
        float square = f32_from_bf16(bf16_from_f32(v * v)), sum = f32_from_bf16(bf16_from_f32(square + v));
        same += y[i] == f32_from_bf16(bf16_from_f32(sum * v));
    }
    str_addf(found, "%d of %d results of ((x*x)+x)*x", same, N);
    return same == N ? 0 : check_differs(err, "only %d of %d results of ((x*x)+x)*x are rounded each step", same, N);
}

// Our own graph, printed and compiled: s8 by s8 with s32 sums, which no rounding touches.
int check_product(struct check_context *c, struct str *found, struct error *err)
{
    enum { M = 16, K = 64, N = 32 };
    struct model_shape shape = {0};
    struct module m;
    struct str text;
    bool fixed;
    int8_t x[M * K], w[K * N];
    int32_t y[M * N];
    for (int i = 0; i < M * K; i++)
        x[i] = (int8_t)(i * 37 % 255 - 127);
    for (int i = 0; i < K * N; i++)
        w[i] = (int8_t)(i * 91 % 255 - 127);
    str_init(&text);
    module_init(&m, &c->arena, "check");
    int rc = model_module("builtin:gemm:16x64x32:int8", &shape, &m, &fixed, err);
    if (!rc)
        rc = module_print(&m, &text, err);
    struct argument args[] = {{.shape = {DT_S8, 2, {M, K}}, .data = x, .bytes = sizeof x},
                              {.shape = {DT_S8, 2, {K, N}}, .data = w, .bytes = sizeof w}};
    if (!rc)
        rc = run_program(c, str_text(&text), text.length, args, 2, y, sizeof y, err);
    str_release(&text);
    for (int i = 0; i < M * N && !rc; i++) {
        int32_t sum = 0;
        for (int k = 0; k < K; k++)
            sum += x[i / N * K + k] * w[k * N + i % N];
        if (y[i] != sum)
            rc = check_differs(err, "element [%d, %d] is %d, not %d", i / N, i % N, y[i], sum);
    }
    str_addf(found, "%dx%dx%d, every sum", M, K, N);
    return rc;
}

int check_refusal(struct check_context *c, struct str *found, struct error *err)
{
    static const char text[] = "func.func public @main() -> tensor<4xf32> { return %nothing : tensor<4xf32> }\n";
    struct error refused = {0};
    char none;
    if (run_program(c, text, sizeof text - 1, NULL, 0, &none, 0, &refused) == 0)
        return check_differs(err, "a program that means nothing was compiled");
    if (refused.code != ERR_DEVICE || worker_failure(c->worker))
        return error_set(err, refused.code, refused.where, "%s", refused.message);
    int rc = check_product(c, found, err);
    str_clear(found);
    str_add(found, "an error, and the next one runs");
    return rc;
}

// The last check: no worker is left after it.
int check_death(struct check_context *c, struct str *found, struct error *err)
{
    struct worker_memory memory;
    struct error died = {0};
    if (kill(worker_info(c->worker)->pid, SIGKILL) != 0)
        return check_differs(err, "the worker is not a process of ours");
    int rc = worker_memory(c->worker, &memory, &died);
    const struct worker_failure *f = worker_failure(c->worker);
    if (rc != ERR_DEVICE || !f || f->kind != WORKER_SIGNAL || f->value != SIGKILL)
        return check_differs(err, "its death was not noticed: %s", died.code ? died.message : "no error");
    str_add(found, "an error that names the signal");
    return 0;
}
