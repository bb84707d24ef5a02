// SPDX-License-Identifier: Apache-2.0
#include "plan/weight_side.h"

#include <string.h>

static bool ends(const char *name, size_t n, const char *part)
{
    size_t k = strlen(part);
    return n >= k && memcmp(name + n - k, part, k) == 0 && (n == k || strchr("._/", name[n - k - 1]));
}

static bool ends_in_one(const char *name, size_t n, const char *const *parts, size_t n_parts)
{
    for (size_t i = 0; i < n_parts; i++) {
        if (ends(name, n, parts[i]))
            return true;
    }
    return false;
}

enum weight_side weight_side_of(const char *name)
{
    static const char *const outputs[] = {"q",          "k",
                                          "v",          "q_proj",
                                          "k_proj",     "v_proj",
                                          "query",      "key",
                                          "value",      "up",
                                          "up_proj",    "gate",
                                          "fc1",        "gate_proj",
                                          "wq",         "wk",
                                          "wv",         "to_q",
                                          "to_k",       "to_v",
                                          "add_q_proj", "add_k_proj",
                                          "add_v_proj", "to_qkv_mlp_proj",
                                          "linear_in",  "intermediate.dense"};
    static const char *const inputs[] = {"out", "o_proj",   "out_proj",   "wo",         "down",        "down_proj",
                                         "fc2", "to_out.0", "to_add_out", "linear_out", "output.dense"};
    size_t n = strlen(name);
    static const char *const endings[] = {".weight", ".bias"};
    for (size_t i = 0; i < 2; i++) {
        size_t k = strlen(endings[i]);
        if (n > k && strcmp(name + n - k, endings[i]) == 0) {
            n -= k;
            break;
        }
    }
    if (ends_in_one(name, n, outputs, sizeof outputs / sizeof *outputs))
        return SIDE_OUTPUTS;
    return ends_in_one(name, n, inputs, sizeof inputs / sizeof *inputs) ? SIDE_INPUTS : SIDE_NONE;
}

enum { MOST_STEPS = 64 };

static int find_weight(const struct module *m, int value, int steps)
{
    const struct instruction *in = &m->instructions[value];
    if (in->op == OP_PARAMETER)
        return m->parameters[in->parameter].role == ROLE_WEIGHT ? in->parameter : -1;
    if (!steps)
        return -1;
    switch (in->op) {
    case OP_CONVERT:
    case OP_BITCAST_CONVERT:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_REDUCE_PRECISION:
        return find_weight(m, in->operands[0], steps - 1);
    case OP_MULTIPLY:
    case OP_SUBTRACT:
    case OP_ADD: { // codes by scales, less zero points
        int a = find_weight(m, in->operands[0], steps - 1), b = find_weight(m, in->operands[1], steps - 1);
        bool only = a >= 0 && b >= 0;
        if (!only)
            return -1;
        const struct shape *x = &m->instructions[m->parameters[a].instruction].shape,
                           *y = &m->instructions[m->parameters[b].instruction].shape;
        return shape_elements(y) > shape_elements(x) ? b : a;
    }
    default:
        return -1;
    }
}

int weight_of(const struct module *m, int value)
{
    return find_weight(m, value, MOST_STEPS);
}

bool weight_product(const struct module *m, const struct instruction *in, int *parameter, int *x)
{
    if (in->op != OP_DOT || in->dot.n_batch || in->dot.n_contract != 1)
        return false;
    *x = in->operands[0];
    *parameter = weight_of(m, in->operands[1]);
    return *parameter >= 0 && weight_of(m, *x) < 0;
}
