// SPDX-License-Identifier: Apache-2.0
#include "plan/attention_product.h"

// The first dimension that is neither batch nor contracted; -1: none.
static int free_dimension(const struct shape *s, const int *batch, int n_batch, int contract)
{
    for (int d = 0; d < s->rank; d++) {
        bool taken = d == contract;
        for (int i = 0; i < n_batch; i++)
            taken |= batch[i] == d;
        if (!taken)
            return d;
    }
    return -1;
}

bool attention_product(const struct module *m, const struct instruction *in, struct attention_product *p)
{
    int n = in->dot.n_batch;
    if (in->op != OP_DOT || (n != 2 && n != 3) || in->dot.n_contract != 1 || in->region)
        return false;
    const int *lhs = in->dot.lhs_batch, *rhs = in->dot.rhs_batch;
    const struct shape *a = &m->instructions[in->operands[0]].shape, *z = &m->instructions[in->operands[1]].shape;
    bool blocks = n == 3;
    *p = (struct attention_product){.a = in->operands[0],
                                    .z = in->operands[1],
                                    .batch = {lhs[0], rhs[0]},
                                    .heads = {lhs[n - 1], rhs[n - 1]},
                                    .blocks = {blocks ? lhs[1] : -1, blocks ? rhs[1] : -1},
                                    .out_heads = n - 1,
                                    .out_tokens = n};
    p->tokens = free_dimension(a, lhs, n, in->dot.lhs_contract[0]);
    // Features are contracted, which lie behind heads; or keys, which lie before them.
    p->scores = in->dot.rhs_contract[0] > rhs[n - 1];
    p->keys = p->scores ? free_dimension(z, rhs, n, in->dot.rhs_contract[0]) : in->dot.rhs_contract[0];
    return p->tokens >= 0 && p->keys >= 0;
}
