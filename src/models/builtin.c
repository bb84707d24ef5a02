// SPDX-License-Identifier: Apache-2.0
#include "models/builtin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "models/arch.h"
#include "models/bert.h"
#include "models/block.h"
#include "models/flux2.h"
#include "models/program.h"

#define NAMES                                                                                                          \
    "builtin:minilm, builtin:transformer-block[:HIDDENxHEADSxMLP], builtin:gemm:MxKxN:TYPE, builtin:copy:N, "          \
    "builtin:flux2-single:TOKENS and builtin:flux2-double:TOKENS (one block of FLUX.2 klein 4B), "                     \
    "builtin:flux2-decoder:PIXELS, and for pricing and compiling builtin:flux2-klein-4b, flux2-klein-9b, "             \
    "flux2-klein-base-4b, "                                                                                            \
    "flux2-klein-base-9b"

bool model_is_builtin(const char *workload)
{
    return strncmp(workload, "builtin:", 8) == 0 || strncmp(workload, "gemm:", 5) == 0 ||
           strncmp(workload, "copy:", 5) == 0;
}

// x [M, K] by w [K, N].
static int gemm(const char *spec, struct module *m, struct error *err)
{
    int64_t d[3];
    char copy[64], *part = copy;
    if (snprintf(copy, sizeof copy, "%s", spec) >= (int)sizeof copy)
        copy[0] = '\0';
    for (int i = 0; i < 3; i++) { // the three numbers end in 'x', 'x' and ':'
        char *stop = strchr(part, i < 2 ? 'x' : ':');
        if (stop)
            *stop = '\0';
        if (!stop || !parse_i64(part, &d[i]))
            return error_set(err, ERR_USAGE, "gemm", "'%s' is not MxKxN:TYPE, as in gemm:1x4096x4096:bf16", spec);
        part = stop + 1;
    }
    const char *type = part;
    enum dtype t = strcmp(type, "int8") == 0 ? DT_S8 : dtype_from_name(type);
    if (t != DT_F32 && t != DT_BF16 && t != DT_F16 && t != DT_S8 && t != DT_F64 && t != DT_F8E4M3FN && t != DT_F8E5M2)
        return error_set(err, ERR_USAGE, "gemm", "no product of '%s' (f32, bf16, f16, int8, f8e4m3fn, f8e5m2, f64)",
                         type);
    for (int i = 0; i < 3; i++) {
        if (d[i] < 1 || d[i] > 1 << 20)
            return error_set(err, ERR_USAGE, "gemm", "%c must be from 1 to %d, not %" PRId64, "MKN"[i], 1 << 20, d[i]);
    }
    struct builder b;
    builder_init(&b, m);
    builder_scope(&b, "product", "product");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(t, d[0], d[1]), NULL);
    int w = build_parameter(&b, ROLE_INPUT, "w", SHAPE(t, d[1], d[2]), NULL);
    enum dtype result = t == DT_S8 ? DT_S32 : t == DT_F64 ? DT_F64 : DT_F32;
    build_result(&b, "y", build_dot(&b, x, w, 0, NULL, NULL, 1, (int[]){1}, (int[]){0}, result));
    return builder_finish(&b, err);
}

// N f32 values read, negated and written: what memory bandwidth is measured with.
static int copy(const char *spec, struct module *m, struct error *err)
{
    struct builder b;
    uint64_t n;
    if (!parse_u64(spec, &n) || n < 1 || n > (uint64_t)1 << 32)
        return error_set(err, ERR_USAGE, "copy", "'%s' is not a number of values from 1 to 2^32", spec);
    builder_init(&b, m);
    builder_scope(&b, "copy", "copy");
    int x = build_parameter(&b, ROLE_INPUT, "x", SHAPE(DT_F32, (int64_t)n), NULL);
    build_result(&b, "y", build_unary(&b, OP_NEGATE, x));
    return builder_finish(&b, err);
}

// Parts of FLUX.2 klein 4B: a block for TOKENS tokens, text included, and the image decoder for PIXELS by PIXELS.
static int flux2_part(const char *name, struct module *m, struct error *err)
{
    static const char *const kinds[3] = {"flux2-single:", "flux2-double:", "flux2-decoder:"};
    const struct flux2_config *c = flux2_builtin("flux2-klein-4b");
    for (int i = 0; i < 3; i++) {
        int64_t n, rows, columns;
        size_t prefix = strlen(kinds[i]);
        if (strncmp(name, kinds[i], prefix) != 0)
            continue;
        if (!parse_i64(name + prefix, &n) || (i < 2 && (n <= c->text_tokens || n > 65536)))
            return error_set(err, ERR_USAGE, name, "ends in a number: of tokens above %" PRId64 ", or of pixels",
                             c->text_tokens);
        if (i < 2)
            return flux2_block_module(c, i == 0, n - c->text_tokens, m, err);
        int rc = flux2_tokens(n, n, &rows, &columns, err);
        struct flux2_build how = {.batch = 1, .rows = rows, .columns = columns};
        return rc ? rc : flux2_decoder_module(c, &how, m, err);
    }
    return 1;
}

static int exported(const char *path, const struct model_shape *shape, struct module *m, bool *fixed, struct error *err)
{
    struct program p;
    struct model_request r;
    int rc = program_open(&p, path, shape->weight_args, false, m->arena, err);
    if (!rc)
        rc = model_request_program(&p, shape, m->arena, &r, err);
    if (rc)
        return rc;
    *m = r.parts[0].module;
    *fixed = r.fixed;
    return 0;
}

int model_module(const char *workload, const struct model_shape *shape, struct module *m, bool *fixed,
                 struct error *err)
{
    struct bert bert;
    struct bert_build how = {
        .batch = shape->batch ? shape->batch : 32, .seq = shape->seq ? shape->seq : 128, .first_layer = -1};
    const char *name = strncmp(workload, "builtin:", 8) == 0 ? workload + 8 : workload;
    *fixed = false;
    if (program_is(workload))
        return exported(workload, shape, m, fixed, err);
    if (shape->weight_args)
        return error_set(err, ERR_USAGE, "--weight-args", "goes with a program; %s knows its weights", workload);
    if (model_is_builtin(workload)) {
        if (strncmp(name, "gemm:", 5) == 0) {
            *fixed = true;
            return gemm(name + 5, m, err);
        }
        if (strncmp(name, "copy:", 5) == 0) {
            *fixed = true;
            return copy(name + 5, m, err);
        }
        if (strncmp(name, BLOCK_NAME, strlen(BLOCK_NAME)) == 0)
            return block_module(name, shape, m, err);
        int part = flux2_part(name, m, err);
        if (part <= 0)
            return part;
        if (strcmp(name, "minilm") != 0)
            return error_set(err, ERR_USAGE, workload, "there is no such workload; there is " NAMES);
        bert_minilm(&bert);
        return bert_module(&bert, &how, m, err);
    }
    if (!dir_exists(workload)) {
        bool built_in = strcmp(workload, "minilm") == 0 || flux2_builtin(workload);
        for (size_t i = 0; arch_builtin_name(i); i++)
            built_in |= strcmp(arch_builtin_name(i), workload) == 0;
        return error_set(err, ERR_INPUT, workload, "%s%s%sis neither a model directory nor one of " NAMES,
                         built_in ? "did you mean builtin:" : "", built_in ? workload : "", built_in ? "? It " : "");
    }
    int rc = bert_open(&bert, workload, err);
    return rc ? rc : bert_module(&bert, &how, m, err);
}
