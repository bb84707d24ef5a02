// SPDX-License-Identifier: Apache-2.0
#include "models/block.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/parts.h"

struct block {
    struct builder b;
    int64_t batch, seq, hidden, heads, head, mlp;
};

static int parse_sizes(const char *name, struct block *k, struct error *err)
{
    const char *spec = name + strlen(BLOCK_NAME);
    int64_t *const sizes[] = {&k->hidden, &k->heads, &k->mlp};
    k->hidden = 3072;
    k->heads = 24;
    k->mlp = 12288;
    if (!*spec)
        return 0;
    bool good = *spec++ == ':';
    for (int i = 0; i < 3 && good; i++) {
        char *end;
        *sizes[i] = strtoll(spec, &end, 10);
        good = end > spec && *sizes[i] >= 1 && *sizes[i] <= 1 << 20 && *end == (i < 2 ? 'x' : '\0');
        spec = end + 1;
    }
    if (!good)
        return error_set(err, ERR_USAGE, name,
                         "is not " BLOCK_NAME ":HIDDENxHEADSxMLP, as in " BLOCK_NAME
                         ":3072x24x12288, with sizes up to 1048576");
    if (k->hidden % k->heads)
        return error_set(err, ERR_USAGE, name, "%" PRId64 " heads do not divide a hidden size of %" PRId64, k->heads,
                         k->hidden);
    return 0;
}

// Without learned scales: they would be vectors, and no product.
static int norm(struct block *k, const char *scope, int x)
{
    struct builder *b = &k->b;
    builder_scope(b, "norms", "%s", scope);
    return builder_store(b, part_layer_norm(b, x, 1e-6));
}

static int linear(struct block *k, const char *group, const char *name, int x, int64_t out)
{
    char tensor[64];
    builder_scope(&k->b, group, "block.%s", name);
    snprintf(tensor, sizeof tensor, "block.%s.weight", name);
    return part_linear(&k->b, x, tensor, out);
}

static int attention(struct block *k, int x)
{
    static const char *const names[] = {"attention.q", "attention.k", "attention.v"};
    struct builder *b = &k->b;
    int part[3];
    for (int i = 0; i < 3; i++) {
        int y = builder_store(b, linear(k, "attention projections", names[i], x, k->hidden));
        part[i] = build_reshape(b, y, 4, (int64_t[]){k->batch, k->seq, k->heads, k->head});
    }
    builder_scope(b, "scores and values", "block.attention.scores");
    int context = builder_store(b, part_attention(b, part[0], part[1], part[2], -1));
    return linear(k, "attention projections", "attention.out", context, k->hidden);
}

int block_module(const char *name, const struct model_shape *shape, struct module *m, struct error *err)
{
    struct block k = {.batch = shape->batch ? shape->batch : 1, .seq = shape->seq ? shape->seq : 1280};
    int rc = parse_sizes(name, &k, err);
    if (rc)
        return rc;
    k.head = k.hidden / k.heads;
    struct builder *b = &k.b;
    builder_init(b, m);
    builder_scope(b, "norms", "block.input");
    int x = build_parameter(b, ROLE_INPUT, "x", SHAPE(DT_F32, k.batch, k.seq, k.hidden), NULL);
    x = builder_store(b, build_binary(b, OP_ADD, attention(&k, norm(&k, "block.attention.norm", x)), x));
    int up = linear(&k, "mlp", "mlp.up", norm(&k, "block.mlp.norm", x), k.mlp);
    int down = linear(&k, "mlp", "mlp.down", builder_store(b, part_gelu_tanh(b, up)), k.hidden);
    build_result(b, "y", builder_store(b, build_binary(b, OP_ADD, down, x)));
    return builder_finish(b, err);
}
