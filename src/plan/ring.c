// SPDX-License-Identifier: Apache-2.0
#include "plan/ring.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/rewrite.h"
#include "plan/attention_product.h"

struct maker {
    const struct module *m;
    int64_t ways;
    struct error *err;
    struct rewrite w;
    bool *needed; // of every old value
    int *scores;  // of every product of probabilities and values: the product of its scores, -1: it is none
    // A walk back over old values, each of which is come by once however many use it.
    int *seen, walk;    // the last walk that came by
    int *reached, n, i; // the values of this walk, those before i done with
    int *blocks_of;     // of the values of this walk: what they are in blocks
    // Of the attention at hand.
    const struct instruction *qk, *pv, *exp;
    int masked; // the old value that enters the softmax
    int step;
    int block;           // the scores of this step
    struct shape blocks; // [batch, ways, heads, tokens / ways, ..., keys / ways]
};

static const struct instruction *at(const struct maker *k, int value)
{
    return &k->m->instructions[value];
}

static int index_of(const struct maker *k, const struct instruction *in)
{
    return (int)(in - k->m->instructions);
}

// The value behind changes of type.
static int plain(const struct maker *k, int value)
{
    while (at(k, value)->op == OP_CONVERT || at(k, value)->op == OP_REDUCE_PRECISION)
        value = at(k, value)->operands[0];
    return value;
}

static void walk_to(struct maker *k, int value)
{
    if (k->seen[value] == k->walk)
        return;
    k->seen[value] = k->walk;
    k->reached[k->n++] = value;
}

static void walk_from(struct maker *k, int value)
{
    k->walk++;
    k->n = k->i = 0;
    walk_to(k, value);
}

static void walk_to_operands(struct maker *k, const struct instruction *in)
{
    for (int i = 0; i < in->n_operands; i++)
        walk_to(k, in->operands[i]);
}

// ---- Finding it

static bool element_wise(const struct instruction *in)
{
    switch (op_info(in->op)->class) {
    case OPC_UNARY:
    case OPC_BINARY:
    case OPC_COMPARE:
    case OPC_SELECT:
    case OPC_CONVERT:
        return true;
    default:
        return false;
    }
}

// The product of queries and keys that a value is made of, element by element; -1: none.
static int find_scores(struct maker *k, int value)
{
    struct attention_product p;
    for (walk_from(k, value); k->i < k->n; k->i++) {
        const struct instruction *in = at(k, k->reached[k->i]);
        if (in->op == OP_DOT && attention_product(k->m, in, &p) && p.scores && p.blocks[0] < 0)
            return k->reached[k->i];
        if (element_wise(in))
            walk_to_operands(k, in);
    }
    return -1;
}

// exp(z - max z) / sum: *exp is the exponential, *masked is z.
static bool is_softmax(const struct maker *k, int p, const struct instruction **exp, int *masked)
{
    const struct instruction *quotient = at(k, plain(k, p));
    if (quotient->op != OP_DIVIDE)
        return false;
    const struct instruction *e = at(k, plain(k, quotient->operands[0]));
    const struct instruction *sum = at(k, plain(k, quotient->operands[1]));
    if (e->op != OP_EXP || sum->op != OP_BROADCAST)
        return false;
    const struct instruction *x = at(k, plain(k, e->operands[0]));
    if (x->op != OP_SUBTRACT)
        return false;
    const struct instruction *top = at(k, plain(k, x->operands[1]));
    if (top->op != OP_BROADCAST || at(k, plain(k, top->operands[0]))->op != OP_REDUCE)
        return false;
    *exp = e;
    *masked = plain(k, x->operands[0]);
    return true;
}

static bool find(struct maker *k, const struct instruction *pv)
{
    struct attention_product p;
    if (!attention_product(k->m, pv, &p) || p.scores || p.blocks[0] >= 0)
        return false;
    k->pv = pv;
    if (!is_softmax(k, pv->operands[0], &k->exp, &k->masked))
        return false;
    int scores = find_scores(k, k->masked);
    k->qk = scores < 0 ? NULL : at(k, scores);
    return scores >= 0;
}

// ---- What is needed beside the scores, which are not

static void need(struct maker *k, int value)
{
    k->needed[value] = true;
}

static void need_masks(struct maker *k, int value)
{
    for (walk_from(k, value); k->i < k->n; k->i++) {
        const struct instruction *in = at(k, k->reached[k->i]);
        if (in->op == OP_BROADCAST)
            need(k, in->operands[0]);
        else if (in != k->qk)
            walk_to_operands(k, in);
    }
}

// Backwards, so that what uses a value is known before it.
static int mark(struct maker *k)
{
    int found = 0;
    for (int i = 0; i < k->m->n_results; i++)
        need(k, k->m->results[i]);
    for (int r = 0; r < k->m->n_regions; r++) {
        for (int i = 0; i < k->m->regions[r].n_results; i++)
            need(k, k->m->regions[r].results[i]);
    }
    for (int i = k->m->n_instructions - 1; i >= 0; i--) {
        const struct instruction *in = at(k, i);
        k->scores[i] = -1;
        if (in->op == OP_PARAMETER || in->op == OP_REGION_PARAMETER || in->region)
            need(k, i);
        if (k->needed[i] && find(k, in)) {
            found++;
            k->scores[i] = index_of(k, k->qk);
            need(k, k->qk->operands[0]);
            need(k, k->qk->operands[1]);
            need(k, in->operands[1]);
            need_masks(k, k->masked);
            continue;
        }
        for (int o = 0; o < in->n_operands && k->needed[i]; o++)
            need(k, in->operands[o]);
    }
    return found;
}

// ---- Blocks

// Dimension d of x in two, [ways, d / ways].
static int cut(struct maker *k, int x, int d)
{
    struct shape s = *builder_shape(&k->w.b, x);
    if (x < 0)
        return x;
    memmove(&s.dims[d + 1], &s.dims[d], (size_t)(s.rank - d) * sizeof s.dims[0]);
    s.dims[d] = k->ways;
    s.dims[d + 1] /= k->ways;
    return build_reshape(&k->w.b, x, s.rank + 1, s.dims);
}

// The blocks of dimension d one further: block i is what block i + n was.
static int turn(struct maker *k, int x, int d, int64_t n)
{
    struct builder *b = &k->w.b;
    if (!n || x < 0)
        return x;
    int parts[2] = {build_slice_axis(b, x, d, n, k->ways), build_slice_axis(b, x, d, 0, n)};
    return build_concatenate(b, parts, 2, d);
}

// A mask over tokens (dimension t) and keys (last), of which each block of tokens takes the keys of its step.
static int pick_keys(struct maker *k, int x, int t, int keys)
{
    struct builder *b = &k->w.b;
    struct shape s = *builder_shape(b, x), index = SHAPE(DT_S32, k->ways, k->ways);
    if (x < 0)
        return x;
    int row = build_binary_scalar(b, OP_ADD, build_iota(b, index, 0), k->step);
    row = build_binary_scalar(b, OP_REMAINDER, row, (double)k->ways);
    int own = build_compare(b, CMP_EQ, row, build_iota(b, index, 1));
    own = build_broadcast(b, own, shape_with_dtype(s, DT_PRED), (int[]){t, keys});
    if (s.dtype == DT_PRED)
        return build_reduce(b, OP_OR, build_binary(b, OP_AND, x, own), &keys, 1);
    return build_reduce(b, OP_ADD, build_select(b, own, x, build_splat(b, s, 0)), &keys, 1); // all but one are zero
}

// A value spread over the scores, for the blocks of this step.
static int spread(struct maker *k, const struct instruction *in)
{
    const struct shape *x = &at(k, in->operands[0])->shape;
    int last = k->qk->shape.rank - 1, tokens = -1, keys = -1, dims[SHAPE_MAX_RANK], n = 0;
    int y = k->w.map[in->operands[0]];
    for (int i = 0; i < x->rank; i++) {
        tokens = in->a[i] == 2 && x->dims[i] > 1 ? i : tokens;
        keys = in->a[i] == last && x->dims[i] > 1 ? i : keys;
    }
    if (keys >= 0 && keys < tokens) // no mask of ours has them so
        return -1;
    if (keys >= 0)
        y = cut(k, y, keys);
    if (tokens >= 0)
        y = cut(k, y, tokens);
    if (keys >= 0 && tokens >= 0)
        y = pick_keys(k, y, tokens, keys + 1); // behind the cut of tokens
    else if (keys >= 0)
        y = turn(k, y, keys, k->step);
    for (int i = 0; i < x->rank; i++) {
        bool both = tokens >= 0 && keys >= 0;
        if (i == tokens || (i == keys && !both))
            dims[n++] = 1;
        int to = (int)in->a[i];
        dims[n++] = to == 0 ? 0 : to + 1;
    }
    struct shape shape = shape_with_dtype(k->blocks, in->shape.dtype);
    return build_broadcast(&k->w.b, y, shape, dims);
}

// An old value of the shape of the scores, for the blocks of this step; of its operands that is known.
static int in_blocks(struct maker *k, const struct instruction *in)
{
    struct instruction copy = *in;
    int operands[4];
    if (in == k->qk)
        return k->block;
    rewrite_place(&k->w, in);
    if (in->op == OP_BROADCAST)
        return spread(k, in);
    copy.shape = shape_with_dtype(k->blocks, in->shape.dtype);
    if (in->op == OP_CONSTANT && in->constant != CONST_DENSE)
        return builder_append(&k->w.b, &copy);
    if (!element_wise(in) || in->n_operands > 4)
        return -1;
    for (int i = 0; i < in->n_operands; i++)
        operands[i] = k->blocks_of[in->operands[i]];
    copy.operands = operands;
    return builder_append(&k->w.b, &copy);
}

static int by_place(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

// What enters the softmax, for the blocks of this step; -1: something it is made of cannot be cut so.
static int masked_in_blocks(struct maker *k)
{
    for (walk_from(k, k->masked); k->i < k->n; k->i++) {
        const struct instruction *in = at(k, k->reached[k->i]);
        if (element_wise(in))
            walk_to_operands(k, in);
    }
    qsort(k->reached, (size_t)k->n, sizeof *k->reached, by_place); // operands stand before what uses them
    for (int i = 0; i < k->n; i++) {
        int value = k->reached[i];
        k->blocks_of[value] = in_blocks(k, at(k, value));
        if (k->blocks_of[value] < 0)
            return -1;
    }
    return k->blocks_of[k->masked];
}

// ---- The products

static int behind(int d, int split)
{
    return d > split ? d + 1 : d;
}

// A product of blocks: batch, blocks, heads. `keys` is what was cut of z; `tokens` of a, -1 where a was made so.
static int product(struct maker *k, const struct instruction *like, int a, int z, int tokens, int keys)
{
    struct instruction in = *like;
    bool over_keys = like->dot.rhs_contract[0] == keys;
    int operands[2] = {a, z};
    in.operands = operands;
    in.dot.n_batch = 3;
    for (int side = 0; side < 2; side++) {
        int *batch = side ? in.dot.rhs_batch : in.dot.lhs_batch, split = side ? keys : tokens;
        int heads = split < 0 ? 2 : behind(batch[1], split);
        batch[0] = split < 0 ? 0 : behind(batch[0], split);
        batch[1] = split < 0 ? 1 : split;
        batch[2] = heads;
    }
    in.dot.rhs_contract[0] = over_keys ? keys + 1 : behind(like->dot.rhs_contract[0], keys);
    in.dot.lhs_contract[0] = tokens < 0 ? like->dot.lhs_contract[0] + 1 : behind(like->dot.lhs_contract[0], tokens);
    rewrite_place(&k->w, like);
    return builder_append(&k->w.b, &in);
}

static int over_keys(struct maker *k, int x) // [.., tokens / ways, .., 1 value] over the scores' blocks
{
    return build_broadcast_leading(&k->w.b, x, k->block);
}

static int spread_to(struct maker *k, int x, int like)
{
    return x < 0 || like < 0
               ? -1
               : build_broadcast_leading(&k->w.b, build_convert(&k->w.b, x, builder_shape(&k->w.b, like)->dtype), like);
}

// One step's exponentials and their sums, joined with what the steps before have.
static int attend(struct maker *k, const struct attention_product *qk, const struct attention_product *pv)
{
    struct builder *b = &k->w.b;
    int q = cut(k, k->w.map[qk->a], qk->tokens), key = cut(k, k->w.map[qk->z], qk->keys),
        value = cut(k, k->w.map[pv->z], pv->keys), last = k->qk->shape.rank;
    int top = -1, sum = -1, all = -1;
    enum dtype type = k->exp->shape.dtype, left = at(k, k->pv->operands[0])->shape.dtype;
    for (k->step = 0; k->step < k->ways; k->step++) {
        if (k->step) {
            key = turn(k, key, qk->keys, 1);
            value = turn(k, value, pv->keys, 1);
        }
        k->block = product(k, k->qk, q, key, qk->tokens, qk->keys);
        if (k->block < 0)
            return -1;
        k->blocks = *builder_shape(b, k->block);
        int z = masked_in_blocks(k);
        if (z < 0)
            return -1;
        rewrite_place(&k->w, k->exp);
        z = build_convert(b, z, type);
        int highest = build_reduce(b, OP_MAXIMUM, z, &last, 1);
        int now = k->step ? build_binary(b, OP_MAXIMUM, top, highest) : highest;
        int e = build_unary(b, OP_EXP, build_binary(b, OP_SUBTRACT, z, over_keys(k, now)));
        int own = build_reduce(b, OP_ADD, e, &last, 1);
        int part = product(k, k->pv, build_convert(b, e, left), value, -1, pv->keys);
        rewrite_place(&k->w, k->exp);
        if (k->step) {
            int shrink = build_unary(b, OP_EXP, build_binary(b, OP_SUBTRACT, top, now));
            own = build_binary(b, OP_ADD, build_binary(b, OP_MULTIPLY, sum, shrink), own);
            part = build_binary(b, OP_ADD, build_binary(b, OP_MULTIPLY, all, spread_to(k, shrink, all)), part);
        }
        top = now;
        sum = own;
        all = part;
    }
    return build_binary(b, OP_DIVIDE, all, spread_to(k, sum, all));
}

static int check(const struct maker *k, const struct attention_product *qk, const struct attention_product *pv)
{
    int64_t tokens = at(k, qk->a)->shape.dims[qk->tokens], keys = at(k, qk->z)->shape.dims[qk->keys];
    if (tokens % k->ways || keys % k->ways)
        return error_set(k->err, ERR_USAGE, "--layout",
                         "%" PRId64 " tokens and %" PRId64 " keys cannot be divided over ring=%" PRId64, tokens, keys,
                         k->ways);
    // q [.., tokens before what is contracted], p as its product made it: of any module of ours
    if (k->qk->shape.rank > SHAPE_MAX_RANK - 1 || pv->tokens != 2 ||
        k->pv->dot.lhs_contract[0] != k->qk->shape.rank - 1)
        return error_set(k->err, ERR_USAGE, "--layout", "%s is not built so that keys can go round", k->qk->scope);
    return 0;
}

// The attention in blocks, in the place of the product of probabilities and values.
static int rewrite_attention(struct maker *k, const struct instruction *in, int *out)
{
    struct attention_product qk, pv;
    struct builder *b = &k->w.b;
    if (!find(k, in) || !k->qk)
        return error_set(k->err, ERR_INTERNAL, in->scope, "was attention, and is none now");
    attention_product(k->m, k->qk, &qk);
    attention_product(k->m, k->pv, &pv);
    int rc = check(k, &qk, &pv);
    if (rc)
        return rc;
    int y = attend(k, &qk, &pv);
    if (y < 0 && !b->error.code)
        return error_set(k->err, ERR_USAGE, "--layout", "ring: how %s is masked cannot be cut into blocks",
                         k->qk->scope);
    rewrite_place(&k->w, in);
    int order[SHAPE_MAX_RANK] = {0, 2, 1};
    for (int i = 3; i < SHAPE_MAX_RANK; i++)
        order[i] = i;
    *out = build_reshape(b, build_transpose(b, y, order), in->shape.rank, in->shape.dims);
    return 0;
}

int ring_attention(const struct module *m, int64_t ways, struct module *out, struct error *err)
{
    struct maker k = {.m = m, .ways = ways, .err = err};
    size_t n = (size_t)m->n_instructions;
    if (ways > RING_MOST)
        return error_set(err, ERR_USAGE, "--layout",
                         "ring=%" PRId64 " is more steps than a program is given here, %d; divide the rest by dp, "
                         "ulysses or tp",
                         ways, RING_MOST);
    k.needed = arena_new(out->arena, bool, n, err);
    k.scores = arena_new(out->arena, int, n, err);
    k.seen = arena_new(out->arena, int, n, err);
    k.reached = arena_new(out->arena, int, n, err);
    k.blocks_of = arena_new(out->arena, int, n, err);
    if (!k.needed || !k.scores || !k.seen || !k.reached || !k.blocks_of)
        return ERR_MEMORY;
    if (!mark(&k))
        return error_set(err, ERR_USAGE, "--layout", "ring: there is no attention of tokens to tokens in this program");
    int rc = rewrite_init(&k.w, m, out, err);
    for (int i = 0; i < m->n_instructions && !rc; i++) {
        if (k.scores[i] >= 0)
            rc = rewrite_attention(&k, at(&k, i), &k.w.map[i]);
        else if (k.needed[i])
            k.w.map[i] = rewrite_copy(&k.w, at(&k, i));
    }
    return rc ? rc : rewrite_finish(&k.w, err);
}
